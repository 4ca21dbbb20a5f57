//! `explain --measure`: makes the change of a record again, and has its pieces measured.

use super::command_line;
use super::progress::Progress;
use crate::cli::ExplainArgs;
use crate::compilers::CompilerRequest;
use crate::measure;
use crate::revisions::{self, BaseRequest};
use build::toolchain::Choice;
use config::Selection;
use explain::MeasuredChange;
use model::{Case, CaseId, Judgement, Loosening, Metric, Outcome, Question, Record, Rule, Subject};
use pipeline::Request;
use pipeline::event::Event;
use records::repo;
use report::terminal::Verbosity;
use run::device::DeviceChoice;
use std::path::Path;
use system::cache::Cache;
use system::error::{Error, Result};

/// Measures the pieces of the change of one case, with the files that the record is of.
///
/// # Errors
/// Usage, if the files were changed since, or if the case cannot be taken apart. Environment, if the machine failed.
pub(super) fn measure_case(
    args: &ExplainArgs,
    record: &Record,
    judgement: &Judgement,
    case: &Case,
) -> Result<MeasuredChange> {
    let environment = &record.environment;
    let Some(base) = &record.policy.base else {
        return Err(Error::usage("the record is of a run without a base")
            .help("make one with `gatekeeper run --base REF`, and measure that"));
    };
    let config = Path::new(&environment.config);
    // The run has checked both sides with all seeds, so one is enough, and none is drawn.
    let seeds = Some(case.seeds.iter().take(1).copied().collect());
    let selection = Selection {
        filters: vec![case.id.to_string()],
        seeds,
        ..Selection::default()
    };
    let loaded = config::load(config, &selection)?;
    if repo::digest(&loaded.root) != environment.sources {
        return Err(
            Error::usage("the files are not those that the record is of any more")
                .help("run again with --base, and then measure"),
        );
    }
    let cache = Cache::open()?;
    let progress = Progress::new(Verbosity::Normal);
    let on = |event: Event| progress.on(event);
    let revision = BaseRequest {
        revision: base.commit.clone(),
        loosening: Loosening::Allowed,
        instead: Selection {
            filters: Vec::new(),
            ..selection.clone()
        },
    };
    let compilers = CompilerRequest {
        toolchain: parse(environment.toolchain.as_deref())?,
        base: parse(base.toolchain.as_deref())?,
        loosening: Loosening::Allowed,
    };
    // A compiler makes head's own files the base.
    let revision = base.toolchain.is_none().then_some(&revision);
    let mut change = revisions::find_change(revision, loaded, &cache, &on)?;
    compilers.apply(&mut change)?;
    let device = match args.device {
        DeviceChoice::Auto if environment.simulator.is_some() => DeviceChoice::Sim,
        named => named,
    };
    let request = Request::new(config, device, args.provision, command_line());
    let found = measure::measure(
        &case.id,
        failed_metric(judgement, &case.id),
        (&request, change),
        &cache,
        &on,
    );
    progress.clear();
    found
}

fn parse(compiler: Option<&str>) -> Result<Option<Choice>> {
    compiler
        .map(|text| {
            text.parse::<Choice>()
                .map_err(|error| Error::usage(error.to_string()).caused_by(error))
        })
        .transpose()
}

/// Returns the metric of the first gate of a case that failed.
fn failed_metric(judgement: &Judgement, id: &CaseId) -> Option<Metric> {
    judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Fail)
        .filter(|verdict| matches!(&verdict.subject, Subject::Case(case) if case == id))
        .find_map(|verdict| match &verdict.question {
            Question::Gate(Rule::Limit { metric, .. }) => Some(*metric),
            _ => None,
        })
}
