//! `replay`: runs captured launches again.

use super::progress::Progress;
use super::run::{empty_out, write_out};
use super::{command_line, print, remark, terminal_options};
use crate::captures;
use crate::cli::ReplayArgs;
use build::toolchain::Choice;
use judge::Index;
use model::Checkout;
use pipeline::{Change, Profile, Request};
use report::ReportInput;
use report::exit::Exit;
use report::terminal::Verbosity;
use system::cache::Cache;
use system::error::Result;

pub fn run(args: &ReplayArgs) -> Result<Exit> {
    let mut loaded = captures::load(&args.capture)?;
    captures::select(&mut loaded, &args.filters)?;
    empty_out(&args.out)?;
    let cache = Cache::open()?;
    let progress = Progress::new(args.output.verbosity());
    let on = |event| progress.on(event);
    let request = Request {
        config: args.capture.clone(),
        device: args.device,
        require_gpu: false,
        allow_fallback: false,
        provision: args.provision,
        profile: Profile::No,
        dump: None,
        fresh: false,
        simulate_beside_gpu: false,
        time_unchanged: false,
        rivals: false,
        shard: None,
        command: command_line(),
    };
    let find_change = |head| {
        Ok(Change {
            head,
            commit: None,
            sources: None,
            checkout: Checkout {
                repository: None,
                branch: None,
            },
            anchors: Vec::new(),
            compiler: Choice::pin(None),
            base: None,
        })
    };
    let outcome = pipeline::run(&request, loaded, find_change, &cache, &on);
    progress.clear();
    let record = outcome?;
    let index = Index::new(&record);
    let judgement = index.judge();
    let input = ReportInput::new(&index, &record, &judgement);
    write_out(&args.out, &input)?;
    let options = terminal_options(args.output.verbosity());
    print(&report::terminal::render(&input, options))?;
    if args.output.verbosity() != Verbosity::Quiet {
        remark(&format!("record and reports: {}", args.out.display()));
    }
    Ok(judgement.conclusion.into())
}
