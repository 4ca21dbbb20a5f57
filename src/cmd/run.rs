//! `run`: the main job.

use super::binaries::{self, Asked};
use super::progress::Progress;
use super::{
    blame, command_line, counted, history, make_dir, print, remark, terminal_options, watch,
    write_file,
};
use crate::captures::Form;
use crate::cli::RunArgs;
use crate::compilers::{CompilerRequest, Step, find_steps};
use crate::programs::{self, Setting};
use crate::revisions::{self, BaseRequest};
use build::toolchain::Choice;
use config::{Loaded, Selection};
use judge::Index;
use model::{Conclusion, Judgement, Loosening, Record};
use pipeline::{AskedShard, Change, Profile, Request};
use records::history::History;
use records::shard::Part;
use records::store;
use report::ReportInput;
use report::exit::Exit;
use report::section::Section;
use report::terminal::Verbosity;
use std::collections::BTreeSet;
use std::path::Path;
use system::cache::Cache;
use system::error::{Error, Result};

pub(super) const RECORD: &str = "record.json";
pub(super) const JSON: &str = "report.json";
pub(super) const MARKDOWN: &str = "report.md";
pub(super) const HTML: &str = "report.html";
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
    if let (Some(program), true) = (loaded.programs.first(), args.shard.is_some()) {
        return Err(Error::usage(format!(
            "programs belong to no shard: {}",
            program.name
        ))
        .at(&program.declared)
        .help("put `programs` into a file of its own, and run it in a job of its own: gatekeeper run --config FILE"));
    }
    let shard = args.shard.map(|part| asked_shard(part, args, &loaded));
    let shard = shard.transpose()?;
    let asked = Asked::of(args, &loaded)?;
    // A directory that cannot be written is an error before an hour of GPU time, not after it.
    empty_out(&args.out)?;
    if let Some(dump) = &args.dump {
        make_dir("--dump", dump)?;
    }
    if let Some(revision) = &args.changed {
        let mut filters = changed_cases(revision, &loaded, args, &cache)?;
        // The launches of a program are known when it ran.
        filters.extend(loaded.programs.iter().map(|it| it.name.clone()));
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
        fresh: args.fresh,
        simulate_beside_gpu: true,
        time_unchanged: args.time_unchanged,
        rivals: args.rivals,
        shard,
        command: command_line(),
    };
    let loosening = match args.allow_loosened {
        true => Loosening::Allowed,
        false => Loosening::Fails,
    };
    let base = args.base.as_ref().map(|revision| BaseRequest {
        revision: revision.clone(),
        loosening,
        instead: Selection {
            filters: Vec::new(),
            ..selection.clone()
        },
    });
    let progress = Progress::new(args.output.verbosity());
    let on = |event| progress.on(event);
    let compilers = CompilerRequest {
        toolchain: args.toolchain.clone(),
        base: args.base_toolchain.clone(),
        loosening,
    };
    let setting = Setting {
        form: Form::of(args.device),
        trusted: args.trust_programs,
        cache: &cache,
        on: &on,
    };
    let run = |compilers: &CompilerRequest, loaded: Loaded| {
        let has_programs = !loaded.programs.is_empty();
        let mut kept = None;
        let mut find_change = |head| {
            let mut change = revisions::find_change(base.as_ref(), head, &cache, &on)?;
            compilers.apply(&mut change)?;
            kept = programs::add(&mut change, &setting)?;
            Ok(change)
        };
        let make_record = || {
            let mut base = None;
            let mut record = match loaded.plan.units.is_empty() && !has_programs {
                true => {
                    let change = find_change(loaded)?;
                    base = change.base.as_ref().map(binaries::of_base);
                    record_of_files(&request.config, change)?
                }
                false => {
                    let find_change = |head| {
                        let change: Change = find_change(head)?;
                        base = change.base.as_ref().map(binaries::of_base);
                        Ok(change)
                    };
                    pipeline::run(&request, loaded, find_change, &cache, &on)?
                }
            };
            asked.add_to(&mut record, base.as_ref());
            Ok(record)
        };
        let outcome = make_record();
        progress.clear();
        outcome
    };
    let pin = Choice::pin(loaded.toolchain.cuda.as_deref());
    let mut record = run(&compilers, loaded)?;
    let history = history::load_next_to(&args.config.config);
    let kernels = asked.lay_out();
    let write = |record: &Record, printed: &dyn Fn(&ReportInput) -> String| {
        write_all(args, record, history.as_ref(), &kernels, printed)
    };
    let judgement = write(&record, &|input| {
        let options = terminal_options(args.output.verbosity());
        let report = report::terminal::render(input, options);
        match args.output.verbosity() != Verbosity::Quiet && !kernels.is_empty() {
            true => report::terminal::render_groups(&kernels, options) + "\n" + &report,
            false => report,
        }
    })?;
    if let (true, Some(theirs), Conclusion::Fail) =
        (args.blame, &compilers.base, judgement.conclusion)
    {
        let ours = compilers.toolchain.as_ref().unwrap_or(&pin);
        let rerun = |step: &Step, filters: Vec<String>| {
            let selection = Selection {
                filters,
                ..selection.clone()
            };
            let compilers = CompilerRequest {
                toolchain: Some(step.compiler.clone()),
                ..compilers.clone()
            };
            let loaded = config::load(&args.config.config, &selection)?;
            let record = run(&compilers, loaded)?;
            Ok(Index::new(&record).judge().verdicts)
        };
        // No compiler of this run built what was compiled already.
        let mut built = judgement.verdicts.clone();
        built.retain(|it| !record.plan.is_compiled(&it.subject));
        let steps = find_steps(theirs, ours, &cache)?;
        let exchanges = blame::exchange_parts(&steps, &built, &rerun)?;
        if !exchanges.is_empty() {
            record.evidence.extend(exchanges);
            write(&record, &|input| {
                let blame = report::blame::in_terminal(input.judgement);
                let options = terminal_options(args.output.verbosity());
                report::terminal::render_groups(&[vec![blame]], options)
            })?;
        }
    }
    if args.output.verbosity() == Verbosity::Quiet {
        return Ok(judgement.conclusion.into());
    }
    remark(&format!("record and reports: {}", shown(&args.out)));
    if let Some(shard) = &record.shard {
        remark(&format!(
            "shard {}/{} of plan {}: {} of {}; `gatekeeper merge` judges the whole",
            shard.number,
            shard.of,
            shard.whole.id,
            record.plan.cases.len(),
            counted(shard.whole.plan.cases.len(), "case")
        ));
    }
    Ok(judgement.conclusion.into())
}

/// Judges a record, leaves it in `--out` with its reports, and prints a part of them. `kernels`: how those of compiled
/// files were matched.
fn write_all(
    args: &RunArgs,
    record: &Record,
    history: Option<&History>,
    kernels: &[Vec<Section>],
    printed: &dyn Fn(&ReportInput) -> String,
) -> Result<Judgement> {
    let index = Index::new(record);
    let judgement = index.judge();
    let input = ReportInput {
        history,
        ..ReportInput::new(&index, record, &judgement)
    };
    write_out(&args.out, &input)?;
    if !kernels.is_empty() {
        let markdown = binaries::add_kernels(report::markdown::render(&input), kernels);
        write_file(&args.out.join(MARKDOWN), &markdown)?;
    }
    print(&printed(&input))?;
    Ok(judgement)
}

/// Where gates.yaml has compiled files alone, nothing is built or run.
fn record_of_files(config: &Path, change: Change) -> Result<Record> {
    let Change {
        head,
        commit,
        sources,
        checkout,
        base,
        ..
    } = change;
    let mut record = binaries::empty(config);
    record.policy.accepted = config::load_acceptances(&head)?;
    record.policy.base = base.map(|side| side.asked);
    record.environment.commit = commit;
    record.environment.sources = sources;
    record.environment.checkout = Some(checkout);
    record.plan.timing = head.plan.timing;
    record.plan.simulation = head.plan.simulation;
    Ok(record)
}

/// Everything that is left in `--out`.
pub(super) fn write_out(out: &Path, input: &ReportInput) -> Result<()> {
    store::write_record(&out.join(RECORD), input.record)?;
    write_file(&out.join(JSON), &report::json::render(input)?)?;
    write_file(&out.join(MARKDOWN), &report::markdown::render(input))?;
    write_file(&out.join(JUNIT), &report::junit::render(input)?)?;
    write_file(&out.join(HTML), &report::html::render(input))
}

/// Which part, and what cases cost in the record that was named.
fn asked_shard(part: Part, args: &RunArgs, loaded: &Loaded) -> Result<AskedShard> {
    let Some(path) = &args.costs else {
        let took = Vec::new();
        return Ok(AskedShard { part, took });
    };
    let took = store::read_record(path)?.took;
    if !took.iter().any(|it| loaded.plan.case(&it.case).is_some()) {
        return Err(
            Error::usage("the record does not say what any of these cases costs")
                .at(path.display())
                .help("name the record of a run of them, or leave --costs out"),
        );
    }
    Ok(AskedShard { part, took })
}

/// A directory in which nothing of an earlier run is left.
pub(super) fn empty_out(out: &Path) -> Result<()> {
    make_dir("--out", out)?;
    remove_earlier(out)
}

/// Filters for the cases of `loaded` whose kernel differs from the revision's.
fn changed_cases(
    revision: &str,
    loaded: &Loaded,
    args: &RunArgs,
    cache: &Cache,
) -> Result<Vec<String>> {
    let request = BaseRequest {
        revision: revision.to_owned(),
        // Nothing is judged against it.
        loosening: Loosening::Allowed,
        instead: Selection {
            filters: Vec::new(),
            seeds: args.seeds.clone(),
            iters: args.iters,
            sim_budget: args.sim_budget,
        },
    };
    let whole = config::load(&args.config.config, &request.instead)?;
    let base = revisions::find_base(&request, &whole, cache)?;
    let changed = pipeline::find_changed(&whole, &base, cache)?;
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

/// Files of an earlier run must not be taken for those of one that ended before it had any.
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

pub(super) fn shown(dir: &Path) -> String {
    format!("{}/{{{}}}", dir.display(), WRITTEN.join(","))
}
