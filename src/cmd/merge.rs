//! `merge`: judges the shards of a run as one, and shows runs on several GPU models side by side. It needs no GPU and
//! no compiler.

use super::run::{HTML, JSON, MARKDOWN, RECORD, empty_out, shown, write_out};
use super::{counted, history, print, remark, say, terminal_options, write_file};
use crate::cli::MergeArgs;
use judge::Index;
use model::Record;
use records::shard::{Foreign, NamedRecord, Refused, merge};
use records::store;
use report::ReportInput;
use report::exit::Exit;
use report::html;
use report::markdown;
use report::models;
use report::terminal::{self, Verbosity};
use std::path::{Path, PathBuf};
use system::error::{Diagnostic, Error, Result};

pub fn run(args: &MergeArgs) -> Result<Exit> {
    keep_inputs(args)?;
    let records: Vec<NamedRecord> = args
        .records
        .iter()
        .map(|path| {
            Ok(NamedRecord {
                name: path.display().to_string(),
                record: store::read_record(path)?,
            })
        })
        .collect::<Result<_>>()?;
    let count = records.len();
    let wholes = merge(records).map_err(|refused| refuse(&refused))?;
    empty_out(&args.out)?;
    match wholes.as_slice() {
        [only] => merge_one(args, only, count),
        several => beside_each_other(args, several),
    }
}

fn merge_one(args: &MergeArgs, record: &Record, count: usize) -> Result<Exit> {
    let index = Index::new(record);
    let judgement = index.judge();
    let history = history::load_next_to(&args.config);
    let input = ReportInput {
        history: history.as_ref(),
        ..ReportInput::new(&index, record, &judgement)
    };
    write_out(&args.out, &input)?;
    print(&terminal::render(
        &input,
        terminal_options(Verbosity::Normal),
    ))?;
    remark(&format!(
        "{} merged; record and reports: {}",
        counted(count, "record"),
        shown(&args.out)
    ));
    Ok(judgement.conclusion.into())
}

/// Writes one directory for each GPU model, and returns a report of all.
fn beside_each_other(args: &MergeArgs, records: &[Record]) -> Result<Exit> {
    let history = history::load_next_to(&args.config);
    let indices: Vec<_> = records.iter().map(Index::new).collect();
    let judgements: Vec<_> = indices.iter().map(Index::judge).collect();
    let inputs =
        records
            .iter()
            .zip(&indices)
            .zip(&judgements)
            .map(|((record, index), judgement)| ReportInput {
                history: history.as_ref(),
                ..ReportInput::new(index, record, judgement)
            });
    let all = models::name(inputs);
    for model in &all {
        let out = args.out.join(&model.dir);
        empty_out(&out)?;
        write_out(&out, &model.input)?;
    }
    let groups = || models::lay_out(&all);
    let told = markdown::render_groups(&models::title(&all), &groups());
    write_file(&args.out.join(MARKDOWN), &told)?;
    write_file(&args.out.join(HTML), &html::render_models(&all))?;
    write_file(&args.out.join(JSON), &models::json(&all)?)?;
    print(&terminal::render_groups(
        &groups(),
        terminal_options(Verbosity::Normal),
    ))?;
    say(&format!("\n{}", models::title(&all)))?;
    remark(&format!(
        "reports side by side: {}, with one directory per model",
        args.out.display()
    ));
    Ok(models::exit(&all))
}

/// Refuses to overwrite the input records: if a shard fails, the user runs that shard again and merges it with the
/// others.
fn keep_inputs(args: &MergeArgs) -> Result<()> {
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    let out = whole(&args.out.join(RECORD));
    let is_out = |path: &&PathBuf| out.is_some() && whole(path) == out;
    match args.records.iter().find(is_out) {
        None => Ok(()),
        Some(path) => Err(Error::usage("the merged record would take its place")
            .at(path.display())
            .help("name another directory: --out DIR")),
    }
}

fn refuse(refused: &Refused) -> Error {
    let diagnostic = match refused {
        Refused::NotOurs { name } => {
            Diagnostic::new("it is what another program measured, which has no shards and no gates")
                .at(name)
        }
        Refused::NoSources { name } => Diagnostic::new(
            "it does not say of which sources it is, as it was not run in a git repository",
        )
        .at(name)
        .help("run every shard in a clone of one commit"),
        Refused::Foreign { first, other, what } => {
            let (problem, help) = foreign(*what);
            let problem = format!("it is no part of the run of {first}: {problem}");
            Diagnostic::new(problem).at(other).help(help)
        }
        Refused::Doubled { first, other, part } => {
            let problem = match part {
                Some(part) => format!("it is shard {part}, and so is {first}"),
                None => format!(
                    "it is of the same GPU model as {first}, and one of the two is of all cases"
                ),
            };
            Diagnostic::new(problem)
                .at(other)
                .help("name the record of each shard once; of one that was run again, the newer")
        }
        Refused::Missing { on, missing, of } => {
            let numbers: Vec<_> = missing
                .iter()
                .map(|number| format!("{number}/{of}"))
                .collect();
            Diagnostic::new(format!("on {on} there is no shard {}", numbers.join(", ")))
                .help("all shards of a run have to be of one GPU model and driver")
                .help(format!(
                    "run what is missing: gatekeeper run --shard {}",
                    numbers.first().map_or("K/N", String::as_str)
                ))
        }
        Refused::BuiltOtherwise { first, other, unit } => {
            Diagnostic::new(format!("its {unit} has other code than that of {first}"))
                .at(other)
                .help("run every shard with the same sources, headers, compiler and host compiler")
        }
    };
    Error::Usage(diagnostic)
}

/// Returns how a record differs from the others, and what to do about it.
fn foreign(what: Foreign) -> (&'static str, &'static str) {
    match what {
        Foreign::Version => (
            "another version of gatekeeper made it",
            "run every shard with the same gatekeeper",
        ),
        Foreign::Sources => (
            "its sources are others",
            "run every shard in a clone of one commit, without other changes, and with the same --config",
        ),
        Foreign::Base => (
            "it was held against another base",
            "name a commit as --base: a branch may have moved between two shards",
        ),
        Foreign::Plan => (
            "its plan is another",
            "give every shard the same filters and options",
        ),
        Foreign::Baselines => (
            "it was judged by other baselines, or by another history of them",
            "clone with the same depth for every shard",
        ),
        Foreign::Dealing => (
            "its cases were dealt out otherwise",
            "give every shard the same N, and the same record as --costs",
        ),
        Foreign::Compiler => (
            "another compiler built it",
            "run every shard with the same nvcc and host compiler",
        ),
    }
}
