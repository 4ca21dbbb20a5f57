//! `run`: the main job.

use super::{counted, history, print, remark, watch, write_file};
use crate::cache::Cache;
use crate::cli::RunArgs;
use crate::config::{self, Loaded, Selection};
use crate::error::{Diagnostic, Error, Result};
use crate::exit::Exit;
use crate::pipeline::{self, Asked, Outcome, Profile, Request};
use crate::report;
use crate::report::html::Told;
use crate::report::progress::Progress;
use crate::store;
use std::collections::BTreeSet;
use std::path::Path;
use verdict::model::Loosening;

const RECORD: &str = "record.json";
const JSON: &str = "report.json";
const MARKDOWN: &str = "report.md";
const HTML: &str = "report.html";
const JUNIT: &str = "junit.xml";

/// All that a run leaves in `--out`.
const WRITTEN: [&str; 5] = [RECORD, JSON, MARKDOWN, HTML, JUNIT];

pub fn run(args: &RunArgs) -> Result<Exit> {
    match args.watch {
        true => watch::watch(args, run_once),
        false => run_once(args),
    }
}

fn run_once(args: &RunArgs) -> Result<Exit> {
    let selection = Selection {
        filters: args.filters.clone(),
        seeds: args.seeds.clone(),
        iters: args.iters,
        sim_budget: args.sim_budget,
    };
    // A command typed in the wrong directory leaves no directories behind.
    let mut loaded = config::load(&args.config.config, &selection)?;
    let cache = Cache::open()?;
    // A directory that cannot be written is an error before an hour of GPU time, not after it.
    make_dir("--out", &args.out)?;
    remove_earlier(&args.out)?;
    if let Some(dump) = &args.dump {
        make_dir("--dump", dump)?;
    }
    if let Some(revision) = &args.changed {
        let filters = changed_cases(revision, &loaded, args, &cache)?;
        if filters.is_empty() {
            remark("nothing to run");
            return Ok(Exit::Held);
        }
        let changed = Selection {
            filters,
            ..selection.clone()
        };
        loaded = config::load(&args.config.config, &changed)?;
    }
    let request = Request {
        config: args.config.config.clone(),
        device: args.device,
        require_gpu: args.require_gpu,
        allow_fallback: args.allow_fallback,
        provision: args.provision,
        profile: match args.profile {
            true => Profile::Too,
            false => Profile::No,
        },
        dump: args.dump.clone(),
        base: args.base.as_ref().map(|revision| Asked {
            revision: revision.clone(),
            loosening: match args.allow_loosened {
                true => Loosening::Allowed,
                false => Loosening::Fails,
            },
            unchanged: args.time_unchanged,
            instead: Selection {
                filters: Vec::new(),
                ..selection.clone()
            },
        }),
        command: command_line(),
    };
    let progress = Progress::default();
    let outcome = pipeline::run(&request, loaded, &cache, &|event| progress.on(event));
    progress.clear();
    let Outcome { record, judgement } = outcome?;

    store::write_record(&args.out.join(RECORD), &record)?;
    write_file(
        &args.out.join(JSON),
        &report::json::render(&record, &judgement)?,
    )?;
    write_file(
        &args.out.join(MARKDOWN),
        &report::markdown::render(&record, &judgement),
    )?;
    write_file(
        &args.out.join(JUNIT),
        &report::junit::render(&record, &judgement)?,
    )?;
    let history = history::beside(&args.config.config);
    let told = Told {
        record: &record,
        judgement: &judgement,
        base: None,
        history: history.as_ref(),
    };
    write_file(&args.out.join(HTML), &report::html::render(&told))?;
    print(&super::judge::terminal(&record, &judgement))?;
    remark(&format!("record and reports: {}", shown(&args.out)));
    Ok(judgement.conclusion.into())
}

/// Filters for the cases of `loaded` whose kernel differs from the revision's.
fn changed_cases(
    revision: &str,
    loaded: &Loaded,
    args: &RunArgs,
    cache: &Cache,
) -> Result<Vec<String>> {
    let asked = Asked {
        revision: revision.to_owned(),
        // Nothing is judged beside it.
        loosening: Loosening::Allowed,
        unchanged: false,
        instead: Selection {
            filters: Vec::new(),
            seeds: args.seeds.clone(),
            iters: args.iters,
            sim_budget: args.sim_budget,
        },
    };
    let whole = config::load(&args.config.config, &asked.instead)?;
    let changed = pipeline::find_changed(&asked, &whole, cache)?;
    let all: BTreeSet<_> = loaded.all.iter().map(|id| &id.kernel).collect();
    remark(&format!(
        "{} of {} differ from {revision}'s",
        changed.len(),
        counted(all.len(), "kernel")
    ));
    let cases = loaded.plan.cases.iter();
    let here = cases.filter(|case| changed.contains(&case.id.kernel));
    Ok(match args.filters.is_empty() {
        true => changed.into_iter().collect(),
        false => here.map(|case| case.id.to_string()).collect(),
    })
}

fn make_dir(option: &str, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|error| {
        if dir.ancestors().any(Path::is_file) {
            Error::Usage(
                Diagnostic::new(format!(
                    "{option} {}: part of this path is a file",
                    dir.display()
                ))
                .help("name a directory; it is created if it does not exist"),
            )
        } else {
            Error::environment(format!("{} cannot be created: {error}", dir.display()))
        }
    })
}

/// What an earlier run wrote must not be taken for that of one that ended before it had any.
fn remove_earlier(out: &Path) -> Result<()> {
    for name in WRITTEN {
        let file = out.join(name);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::environment(format!(
                    "{} of an earlier run cannot be removed: {error}",
                    file.display()
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

fn shown(dir: &Path) -> String {
    format!("{}/{{{}}}", dir.display(), WRITTEN.join(","))
}

/// As typed, with the program by its name: where it lies says nothing about a record.
pub(super) fn command_line() -> String {
    let arguments = std::env::args().skip(1);
    std::iter::once("gatekeeper".to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}
