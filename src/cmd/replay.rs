//! `replay`: runs captured launches again, and judges them.

use super::progress::Progress;
use super::run::{empty_out, write_out};
use super::{command_line, counted, print, remark, terminal_options};
use crate::captures::{self, Form};
use crate::cli::ReplayArgs;
use ::run::device::DeviceChoice;
use build::toolchain::Choice;
use judge::Index;
use model::{Checkout, Conclusion, Judgement, Mode, Outcome, Plan, Subject};
use pipeline::event::Event;
use pipeline::{Change, Request};
use report::ReportInput;
use report::exit::Exit;
use report::terminal::Verbosity;
use std::collections::HashSet;
use system::cache::Cache;
use system::error::Result;

pub fn run(args: &ReplayArgs) -> Result<Exit> {
    let form = Form::new(args.device);
    let load = |dir| -> Result<_> {
        let mut loaded = captures::load(dir, form)?;
        if args.cold {
            for plan in [&mut loaded.plan, &mut loaded.whole.plan] {
                plan.timing.mode = Mode::Cold;
            }
        }
        if let Some(tolerance) = args.tolerance {
            captures::compare_as_floats(&mut loaded, tolerance);
        }
        Ok(loaded)
    };
    let mut loaded = load(&args.capture)?;
    captures::select(&mut loaded, &args.filters)?;
    for (case, problem) in captures::list_gaps(&loaded.plan) {
        remark(&format!("{case} is not replayed: {problem}"));
    }
    let base = args.base.as_ref().map(|dir| {
        let base = load(dir)?;
        captures::compare(&mut loaded, base, form)
    });
    let base = base.transpose()?;
    let other_inputs = base.as_ref().map_or(0, |base| base.other_inputs.len());
    for case in base.iter().flat_map(|base| &base.other_inputs) {
        remark(&format!(
            "{case} is not compared: it has other inputs in the base's capture"
        ));
    }
    empty_out(&args.out)?;
    let cache = Cache::open()?;
    let progress = Progress::new(args.output.verbosity());
    let on = |event| progress.on(event);
    let request = Request {
        // Without a GPU nothing is compared, unless the user chose the simulator.
        require_gpu: args.device != DeviceChoice::Sim,
        ..Request::new(&args.capture, args.device, args.provision, command_line())
    };
    let waiting = |text: &str| on(Event::Waiting(text.to_owned()));
    let outcome = std::thread::scope(|scope| {
        let device = pipeline::wake_device(scope, &request, &loaded, &waiting)?;
        let change = Change {
            head: loaded,
            commit: None,
            sources: None,
            checkout: Checkout {
                repository: None,
                branch: None,
            },
            anchors: Vec::new(),
            compiler: Choice::pin(None),
            base: base.map(|base| base.side),
        };
        pipeline::run(&request, change, device, &cache, &on)
    });
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
    let not_run =
        other_inputs + record.plan.uncaptured.len() + count_not_run(&record.plan, &judgement);
    if judgement.conclusion == Conclusion::Pass && not_run > 0 {
        remark(&format!(
            "{} not replayed, so this is no pass: the reasons are above",
            counted(not_run, "case")
        ));
        return Ok(Exit::Undecided);
    }
    Ok(judgement.conclusion.into())
}

/// Returns the number of cases for which the judgement says nothing.
fn count_not_run(plan: &Plan, judgement: &Judgement) -> usize {
    let decided: HashSet<&Subject> = judgement
        .verdicts
        .iter()
        .filter(|verdict| matches!(verdict.outcome, Outcome::Pass | Outcome::Fail))
        .map(|verdict| &verdict.subject)
        .collect();
    plan.cases
        .iter()
        .map(|case| Subject::Case(case.id.clone()))
        .filter(|case| !decided.contains(case))
        .count()
}
