//! `calibrate`: how far this machine's verdicts on times can be trusted.

use super::{print, remark};
use crate::cache::Cache;
use crate::calibrate::{self, Request};
use crate::cli::CalibrateArgs;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::report::progress::Progress;
use std::fs::File;

pub fn run(args: &CalibrateArgs) -> Result<Exit> {
    let cannot = |error: String| {
        Error::environment(format!("{} cannot be written: {error}", args.out.display()))
    };
    if let Some(dir) = args.out.parent() {
        std::fs::create_dir_all(dir).map_err(|error| cannot(error.to_string()))?;
    }
    let file = File::create(&args.out).map_err(|error| cannot(error.to_string()))?;
    let progress = Progress::default();
    let recording = calibrate::record(
        &Request {
            device: args.device,
            processes: args.processes,
            classes: args.classes.clone(),
            changes: args.changes.iter().map(|change| change / 100.0).collect(),
        },
        &Cache::open()?,
        &|event| progress.on(event),
    );
    progress.clear();
    let recording = recording?;
    power::packed::write(&recording, file).map_err(|error| cannot(error.to_string()))?;
    print(&calibrate::summary(&recording))?;
    remark(&format!("recording: {}", args.out.display()));
    Ok(Exit::Held)
}
