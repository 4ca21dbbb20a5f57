//! `calibrate`: how far this machine's verdicts on times can be trusted.

use super::{print, remark};
use crate::cache::Cache;
use crate::calibrate::{self, Kernels, Request};
use crate::cli::CalibrateArgs;
use crate::config::{self, Selection};
use crate::error::{Diagnostic, Error, Result};
use crate::exit::Exit;
use crate::report::progress::Progress;
use power::{Recording, Settings, analyse, packed};
use std::fs::File;
use std::path::Path;

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
    let mut recorded = args.from.iter().map(|file| read(file));
    let recording = match recorded.next() {
        None => record(args)?,
        Some(first) => recorded.try_fold(first?, |all, next| {
            all.with(next?)
                .map_err(|error| Error::Usage(Diagnostic::new(error.to_string())))
        })?,
    };
    let analysis = analyse(&recording, &settings)
        .map_err(|error| Error::Usage(Diagnostic::new(error.to_string())))?;
    print(&analysis.markdown())?;
    Ok(Exit::Held)
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

fn record(args: &CalibrateArgs) -> Result<Recording> {
    let cannot = |error: String| {
        Error::environment(format!("{} cannot be written: {error}", args.out.display()))
    };
    // A file that cannot be written is said before ten minutes of GPU time, not after them.
    if let Some(dir) = args.out.parent() {
        std::fs::create_dir_all(dir).map_err(|error| cannot(error.to_string()))?;
    }
    let file = File::create(&args.out).map_err(|error| cannot(error.to_string()))?;
    let progress = Progress::default();
    let kernels = match args.filters.is_empty() {
        true => Kernels::BuiltIn,
        false => {
            let selection = Selection {
                filters: args.filters.clone(),
                ..Selection::default()
            };
            Kernels::Own(Box::new(config::load(&args.config.config, &selection)?))
        }
    };
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
    packed::write(&recording, file).map_err(|error| cannot(error.to_string()))?;
    remark(&format!("recording: {}", args.out.display()));
    Ok(recording)
}
