//! `calibrate`: how reliable verdicts on times are on this machine.

use super::progress::Progress;
use super::{print, remark};
use crate::calibrate::{self, Kernels, Request};
use crate::cli::CalibrateArgs;
use calibration::{Protocol, Recording, Settings, analyse, packed};
use config::{Loaded, Selection};
use records::store::NewFile;
use report::exit::Exit;
use std::path::Path;
use system::cache::Cache;
use system::error::{Error, Result};
use system::files;

pub fn run(args: &CalibrateArgs) -> Result<Exit> {
    let pairing = config::pairing(true);
    let protocol = Protocol {
        blocks: pairing.blocks,
        least_blocks: pairing.least_blocks,
        blocks_ns: pairing.blocks_ns,
        ..Protocol::default()
    };
    let settings = Settings {
        tolerance: args.tolerance / 100.0,
        cases: args.cases,
        quiet: pairing.quiet,
        looks: pairing.looks,
        run_false_alarm: pairing.false_alarms.0,
        miss: pairing.misses.0,
        ..Settings::default()
    };
    let own = match args.filters.is_empty() {
        true => None,
        false => Some(own(args)?),
    };
    let mut recorded = args.from.iter().map(|file| read(file));
    let recording = match recorded.next() {
        None => record(args, own.as_ref())?,
        Some(first) => recorded.try_fold(first?, |all, next| {
            all.with(next?)
                .map_err(|error| Error::usage(error.to_string()))
        })?,
    };
    let analysis = analyse(&recording.shortened(protocol), &settings)
        .map_err(|error| Error::usage(error.to_string()))?;
    print(&analysis.markdown())?;
    Ok(Exit::Held)
}

fn own(args: &CalibrateArgs) -> Result<Loaded> {
    let selection = Selection {
        filters: args.filters.clone(),
        ..Selection::default()
    };
    config::load(&args.config.config, &selection)
}

fn read(file: &Path) -> Result<Recording> {
    let unreadable = |error: String| {
        Error::usage(format!("the recording cannot be read: {error}"))
            .at(file.display())
            .help("`gatekeeper calibrate` writes one")
    };
    let open = files::open(file).map_err(|error| unreadable(error.to_string()))?;
    packed::read(open).map_err(|error| unreadable(error.to_string()))
}

/// Records `own` cases, or the built-in kernels.
fn record(args: &CalibrateArgs, own: Option<&Loaded>) -> Result<Recording> {
    // A file that cannot be written is reported before ten minutes of GPU time, not after.
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
