//! `calibrate`: how far this machine's verdicts on times can be trusted.

use super::{counted, print, remark};
use crate::cache::Cache;
use crate::calibrate::{self, Kernels, Request};
use crate::cli::CalibrateArgs;
use crate::config::{self, Loaded, Selection};
use crate::error::{Diagnostic, Error, Result};
use crate::exit::Exit;
use crate::report::progress::Progress;
use crate::store::{self, NewFile, Noise};
use power::{Recording, Settings, analyse, packed};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use verdict::judge::Refused;

pub fn run(args: &CalibrateArgs) -> Result<Exit> {
    let pairing = config::pairing(true);
    let settings = Settings {
        tolerance: args.tolerance / 100.0,
        cases: args.cases,
        looks: pairing.looks,
        run_false_alarm: pairing.false_alarms.0,
        miss: pairing.misses.0,
        ..Settings::default()
    };
    let own = match args.filters.is_empty() {
        true => None,
        false => Some(own(args)?),
    };
    if let Some(loaded) = own.as_ref().filter(|_| args.write_noise) {
        let cases: Vec<_> = loaded.plan.cases.iter().map(|case| &case.id).collect();
        store::expect_times(&loaded.root, &cases)?;
    }
    let mut recorded = args.from.iter().map(|file| read(file));
    let recording = match recorded.next() {
        None => record(args, own.as_ref())?,
        Some(first) => recorded.try_fold(first?, |all, next| {
            all.with(next?)
                .map_err(|error| Error::Usage(Diagnostic::new(error.to_string())))
        })?,
    };
    let analysis = analyse(&recording, &settings)
        .map_err(|error| Error::Usage(Diagnostic::new(error.to_string())))?;
    print(&analysis.markdown())?;
    match own.filter(|_| args.write_noise) {
        Some(loaded) => write_noise(args, loaded),
        None => Ok(Exit::Held),
    }
}

fn own(args: &CalibrateArgs) -> Result<Loaded> {
    let selection = Selection {
        filters: args.filters.clone(),
        ..Selection::default()
    };
    config::load(&args.config.config, &selection)
}

/// Never by itself: what the judge believes of this machine is agreed on like any figure.
fn write_noise(args: &CalibrateArgs, loaded: Loaded) -> Result<Exit> {
    let root = loaded.root.clone();
    let progress = Progress::default();
    let record = calibrate::noise::record(
        &args.config.config,
        loaded,
        args.device,
        args.processes,
        super::run::command_line(),
        &Cache::open()?,
        &|event| progress.on(event),
    );
    progress.clear();
    let Noise {
        written,
        refused,
        without_baseline,
    } = store::write_noise(&root, &record?)?;
    let mut text = String::from("\n");
    for calibrated in &written {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{calibrated}");
    }
    for Refused {
        subject, reason, ..
    } in &refused
    {
        let _ = writeln!(text, "left as it is: {subject}: {reason}");
    }
    for case in &without_baseline {
        let _ = writeln!(
            text,
            "left out: {case}: no baseline of times under this key; `gatekeeper run {case}`, then `gatekeeper baseline update`"
        );
    }
    let files: BTreeSet<_> = written.iter().map(|it| &it.file).collect();
    let left_out = refused.len() + without_baseline.len();
    let _ = writeln!(
        text,
        "{} calibrated in {}, {left_out} left out",
        counted(written.len(), "case"),
        counted(files.len(), "file"),
    );
    print(&text)?;
    Ok(match left_out {
        0 => Exit::Held,
        _ => Exit::Failed,
    })
}

fn read(file: &Path) -> Result<Recording> {
    let unreadable = |error: String| {
        Error::Usage(
            Diagnostic::new(format!("the recording cannot be read: {error}"))
                .at(file.display().to_string())
                .help("`gatekeeper calibrate` writes one"),
        )
    };
    let open = File::open(file).map_err(|error| unreadable(error.to_string()))?;
    packed::read(open).map_err(|error| unreadable(error.to_string()))
}

/// Of `own` cases, or of the kernels that are built in.
fn record(args: &CalibrateArgs, own: Option<&Loaded>) -> Result<Recording> {
    // A file that cannot be written is said before ten minutes of GPU time, not after them.
    let mut file = NewFile::create(&args.out)?;
    let progress = Progress::default();
    let kernels = own.map_or(Kernels::BuiltIn, Kernels::Own);
    let recording = calibrate::record(
        &Request {
            device: args.device,
            processes: args.processes,
            classes: args.classes.clone(),
            changes: args.changes.clone(),
        },
        &kernels,
        &Cache::open()?,
        &|event| progress.on(event),
    );
    progress.clear();
    let recording = recording?;
    packed::write(&recording, &mut file).map_err(|error| {
        Error::environment(format!("{} cannot be written: {error}", args.out.display()))
    })?;
    file.keep()?;
    remark(&format!("recording: {}", args.out.display()));
    Ok(recording)
}
