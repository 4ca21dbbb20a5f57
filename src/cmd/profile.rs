//! `profile`: reports the GPU's own counters for correct cases. It judges nothing and writes no record.

use super::progress::Progress;
use super::{command_line, print, say};
use crate::cli::{Format, ProfileArgs};
use crate::revisions;
use build::toolchain;
use config::Selection;
use judge::Index;
use model::{Evidence, Record, Seen};
use pipeline::event::Event;
use pipeline::{Profile, Request};
use report::exit::Exit;
use report::profile;
use system::cache::Cache;
use system::error::{Error, Result};
use wording::reasons;

pub fn run(args: &ProfileArgs) -> Result<Exit> {
    let selection = Selection {
        filters: args.filters.clone(),
        ..Selection::default()
    };
    let loaded = config::load(&args.config.config, &selection)?;
    // A missing profiler is reported before anything is built.
    toolchain::find_profiler()?;
    let config = &args.config.config;
    let request = Request {
        // A simulator has no counters of a GPU.
        require_gpu: true,
        profile: Profile::Only,
        ..Request::new(config, args.device, args.provision, command_line())
    };
    let progress = Progress::default();
    let (cache, on) = (Cache::open()?, |event| progress.on(event));
    let waiting = |text: &str| on(Event::Waiting(text.to_owned()));
    let outcome = std::thread::scope(|scope| {
        let device = pipeline::wake_device(scope, &request, &loaded, &waiting)?;
        let change = revisions::find_change(None, loaded, &cache, &on)?;
        pipeline::run(&request, change, device, &cache, &on)
    });
    progress.clear();
    let record = outcome?;
    let device = match &record.environment.device {
        Seen::Got(device) => device,
        Seen::Fault(fault) => return Err(Error::environment(reasons::fault(fault))),
        Seen::Unsupported(why) => return Err(no_gpu(&reasons::unsupported(why))),
        Seen::NotRun(why) => return Err(no_gpu(&reasons::not_run(why))),
    };
    let index = Index::new(&record);
    let cases = profile::collect_cases(index.head());
    match args.format {
        Format::Json => print(&profile::json(device, &cases)?)?,
        _ => say(profile::text(device, &cases).trim_end())?,
    }
    Ok(exit(
        &record,
        cases.iter().any(|case| case.problem.is_some()),
    ))
}

fn no_gpu(why: &str) -> Error {
    Error::environment(format!("there is no GPU to profile on: {why}"))
        .help("`gatekeeper run` counts memory traffic in the simulator, without a GPU")
}

/// Returns 4 if the profiler or the device broke, and 3 if a case has no profile for another reason.
fn exit(record: &Record, has_problem: bool) -> Exit {
    let is_broken = |piece: &Evidence| {
        matches!(
            piece,
            Evidence::Profile {
                facts: Seen::Fault(_),
                ..
            }
        )
    };
    if record.evidence.iter().any(is_broken) {
        return Exit::Environment;
    }
    if has_problem {
        Exit::Undecided
    } else {
        Exit::Held
    }
}
