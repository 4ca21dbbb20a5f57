//! What the processes of one's own cases differ by when each is timed alone, as `run` times them for a
//! baseline: samples taken in turns with another side's are of another protocol.

use crate::cache::Cache;
use crate::config::Loaded;
use crate::device::DeviceChoice;
use crate::error::Result;
use crate::pipeline;
use crate::report::progress::Event;
use std::path::Path;
use verdict::model::Record;

/// A run of these cases with `processes` timing processes of each, of which nothing is judged.
///
/// # Errors
/// What keeps a run from starting.
pub fn record(
    config: &Path,
    mut loaded: Loaded,
    device: DeviceChoice,
    processes: u32,
    command: String,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Record> {
    loaded.plan.timing.processes = processes;
    loaded.plan.timing.max_processes = processes;
    let request = pipeline::Request {
        config: config.to_owned(),
        device,
        require_gpu: true,
        provision: false,
        dump: None,
        base: None,
        command,
    };
    Ok(pipeline::run(&request, loaded, cache, on)?.record)
}
