//! `run`: builds, checks, times and judges, which is what gatekeeper is for.

use super::binaries::{self, SelectedBinaries};
use super::progress::Progress;
use super::{
    blame, command_line, counted, history, make_dir, print, remark, terminal_options, write_file,
};
use crate::captures::Form;
use crate::cli::RunArgs;
use crate::compilers::{CompilerRequest, CompilerStep, find_steps};
use crate::logging::log_judgement;
use crate::programs::{self, Setting};
use crate::revisions::{self, BaseRequest};
use build::toolchain::Choice;
use config::{Loaded, Program, Selection};
use judge::Index;
use model::{CaseId, Conclusion, Evidence, Judgement, Loosening, Record};
use pipeline::event::Event;
use pipeline::{AskedShard, Change, Profile, Request};
use records::repo::refuse_links_below;
use records::shard::ShardPart;
use records::store;
use report::ReportInput;
use report::exit::Exit;
use report::terminal::Verbosity;
use std::collections::BTreeSet;
use std::path::Path;
use system::cache::Cache;
use system::error::{Error, Result};
use system::temporary::TemporaryFile;

pub(super) const RECORD: &str = "record.json";
pub(super) const JSON: &str = "report.json";
pub(super) const MARKDOWN: &str = "report.md";
pub(super) const HTML: &str = "report.html";
const JUNIT: &str = "junit.xml";

/// All files that a run leaves in `--out`.
const WRITTEN: [&str; 5] = [RECORD, JSON, MARKDOWN, HTML, JUNIT];

pub fn run(args: &RunArgs) -> Result<Exit> {
    let selection = Selection {
        filters: args.filters.clone(),
        gone: Vec::new(),
        seeds: args.seeds.clone(),
        iters: args.iters,
        sim_budget: args.sim_budget,
    };
    let loaded = config::load(&args.config.config, &selection)?;
    let run = Run::new(args, selection, &loaded)?;
    let Some(cases) = run.keep_changed(loaded)? else {
        run.make_ready()?;
        remark("nothing to run");
        return Ok(Exit::Held);
    };
    let pin = Choice::pin(cases.toolchain.cuda.as_deref());
    let mut record = run.execute(&run.compilers, cases, &|| run.make_ready())?;
    let index = Index::new(&record);
    let judgement = index.judge();
    run.report(&record, &index, &judgement, PrintedPart::All)?;
    if args.blame && judgement.conclusion == Conclusion::Fail {
        let exchanges = run.blame(&record, &judgement, &pin)?;
        if !exchanges.is_empty() {
            record.evidence.extend(exchanges);
            let index = Index::new(&record);
            run.report(&record, &index, &index.judge(), PrintedPart::Blame)?;
        }
    }
    if args.output.verbosity() != Verbosity::Quiet {
        run.name_results(&record);
    }
    Ok(judgement.conclusion.into())
}

/// Runs once, as `run` does, and returns the headline. Nothing is printed or written: the results of an earlier run stay.
pub(super) fn run_quietly(args: &RunArgs) -> Result<(Judgement, String)> {
    let selection = Selection {
        filters: args.filters.clone(),
        ..Selection::default()
    };
    let loaded = config::load(&args.config.config, &selection)?;
    let run = Run::new(args, selection, &loaded)?;
    let record = run.execute(&run.compilers, loaded, &|| Ok(()))?;
    let index = Index::new(&record);
    let judgement = index.judge();
    let input = ReportInput::new(&index, &record, &judgement);
    let headline = report::terminal::render(&input, terminal_options(Verbosity::Quiet));
    Ok((judgement, headline))
}

/// Says which part of a report is printed. All of it is written to `--out`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrintedPart {
    All,
    /// Says which part of the compiler is to blame. The rest was printed before.
    Blame,
}

/// A run as the command line describes it.
struct Run<'a> {
    args: &'a RunArgs,
    selection: Selection,
    asked: SelectedBinaries,
    base: Option<BaseRequest>,
    compilers: CompilerRequest,
    request: Request,
    cache: Cache,
    progress: Progress,
}

impl<'a> Run<'a> {
    /// Prepares a run.
    ///
    /// # Errors
    /// Usage, if the options do not fit gates.yaml. Returns also the errors of reading compiled files and the record by
    /// which shards are divided.
    fn new(args: &'a RunArgs, selection: Selection, loaded: &Loaded) -> Result<Self> {
        let cache = Cache::open()?;
        if let (Some(program), true) = (loaded.programs.first(), args.shard.is_some()) {
            return Err(Error::usage(format!(
                "programs belong to no shard: {}",
                program.name
            ))
            .at(&program.declared)
            .help("put `programs` into a file of its own, and run it in a job of its own: gatekeeper run --config FILE"));
        }
        let shard = args.shard.map(|part| asked_shard(part, args, loaded));
        let loosening = if args.allow_loosened {
            Loosening::Allowed
        } else {
            Loosening::Fails
        };
        Ok(Self {
            request: Request {
                config: args.config.config.clone(),
                device: args.device,
                require_gpu: args.require_gpu,
                allow_fallback: args.allow_fallback,
                provision: args.provision,
                profile: if args.profile {
                    Profile::Too
                } else {
                    Profile::No
                },
                dump: args.dump.clone(),
                fresh: args.fresh,
                simulate_beside_gpu: true,
                time_unchanged: args.time_unchanged,
                rivals: args.rivals,
                shard: shard.transpose()?,
                command: command_line(),
            },
            asked: SelectedBinaries::new(args, loaded)?,
            base: args.base.as_ref().map(|revision| BaseRequest {
                revision: revision.clone(),
                loosening,
                instead: Selection {
                    filters: Vec::new(),
                    ..selection.clone()
                },
            }),
            compilers: CompilerRequest {
                toolchain: args.toolchain.clone(),
                base: args.base_toolchain.clone(),
                loosening,
            },
            progress: Progress::new(args.output.verbosity()),
            args,
            selection,
            cache,
        })
    }

    /// Loads the cases again whose kernel differs from the revision of `--changed`, and all programs. Returns `None` if
    /// there are none.
    fn keep_changed(&self, loaded: Loaded) -> Result<Option<Loaded>> {
        let Some(revision) = &self.args.changed else {
            return Ok(Some(loaded));
        };
        let mut filters = changed_cases(revision, &loaded, self.args, &self.cache)?;
        let gone = self.find_gone(&loaded)?;
        // The launches of a program are known only after it ran.
        filters.extend(loaded.programs.into_iter().map(|program| program.name));
        if filters.is_empty() && gone.is_empty() {
            return Ok(None);
        }
        let changed = Selection {
            filters,
            gone,
            ..self.selection.clone()
        };
        config::load(&self.args.config.config, &changed).map(Some)
    }

    /// Finds the cases of the base that head does not have, as far as the filters of the command line select them. None
    /// of them changes a kernel of head's.
    fn find_gone(&self, head: &Loaded) -> Result<Vec<CaseId>> {
        let Some(request) = &self.base else {
            return Ok(Vec::new());
        };
        let whole = config::load(&self.args.config.config, &request.instead)?;
        let base = revisions::find_base(request, &whole, &self.cache)?;
        let is_here =
            |program: &Program| whole.programs.iter().any(|ours| ours.name == program.name);
        let programs = base.programs.iter().filter(|program| !is_here(program));
        Ok(base
            .spec
            .plan
            .cases
            .into_iter()
            .map(|case| case.id)
            .filter(|id| !head.all.contains(id))
            .chain(programs.map(Program::every_launch))
            .filter(|id| head.plan.selects(id))
            .collect())
    }

    /// Empties `--out` after everything that the command line names was found. So a mistake in the command line leaves
    /// the results of an earlier run as they are, and a run that ends early leaves nothing that could be taken for its
    /// own results.
    fn make_ready(&self) -> Result<()> {
        if !self.args.provision {
            self.compilers.find(&self.cache)?;
        }
        empty_out(&self.args.out)?;
        let dump = self.args.dump.as_deref();
        dump.map_or(Ok(()), |dir| {
            make_dir("--dump", dir)?;
            refuse_links_below(dir)
        })
    }

    /// Builds and runs what was loaded. `make_ready` is called when both sides of the change are known, before anything is
    /// built.
    fn execute(
        &self,
        compilers: &CompilerRequest,
        loaded: Loaded,
        make_ready: &dyn Fn() -> Result<()>,
    ) -> Result<Record> {
        let on = |event| self.progress.on(event);
        let waiting = |text: &str| on(Event::Waiting(text.to_owned()));
        let setting = Setting {
            form: Form::new(self.args.device),
            trusted: self.args.trust_programs,
            fresh: self.args.fresh,
            cache: &self.cache,
            on: &on,
        };
        let is_built = !loaded.plan.units.is_empty() || !loaded.programs.is_empty();
        let record = std::thread::scope(|scope| {
            let device = is_built
                .then(|| pipeline::wake_device(scope, &self.request, &loaded, &waiting))
                .transpose()?;
            let mut change = revisions::find_change(self.base.as_ref(), loaded, &self.cache, &on)?;
            compilers.apply(&mut change)?;
            make_ready()?;
            let _captures = programs::add(&mut change, &setting)?;
            let base = change.base.as_ref().map(binaries::base_binaries);
            let mut record = match device {
                Some(device) => pipeline::run(&self.request, change, device, &self.cache, &on)?,
                None => record_of_files(&self.request.config, change)?,
            };
            self.asked.add_to(&mut record, base.as_ref());
            Ok(record)
        });
        self.progress.clear();
        record
    }

    /// Leaves the record in `--out` with its reports, and prints the report for the terminal.
    fn report(
        &self,
        record: &Record,
        index: &Index,
        judgement: &Judgement,
        printed: PrintedPart,
    ) -> Result<()> {
        let history = history::load_next_to(&self.args.config.config);
        // This is how the kernels of compiled files were matched.
        let kernels = self.asked.lay_out();
        let input = ReportInput {
            history: history.as_ref(),
            ..ReportInput::new(index, record, judgement)
        };
        log_judgement(judgement);
        write_out(&self.args.out, &input)?;
        if !kernels.is_empty() {
            let markdown = binaries::add_kernels(report::markdown::render(&input), &kernels);
            write_file(&self.args.out.join(MARKDOWN), &markdown)?;
        }
        let verbosity = self.args.output.verbosity();
        let options = terminal_options(verbosity);
        if printed == PrintedPart::Blame {
            let blame = report::blame::in_terminal(judgement);
            return print(&report::terminal::render_groups(&[vec![blame]], options));
        }
        print(&report::terminal::render_with(
            &input, &kernels, "", options,
        ))
    }

    /// Runs what failed again with one more part of the compiler exchanged each time, and returns the answers of the
    /// gates. `pin` is the compiler that gates.yaml pins.
    fn blame(&self, record: &Record, judgement: &Judgement, pin: &Choice) -> Result<Vec<Evidence>> {
        let Some(theirs) = &self.compilers.base else {
            return Ok(Vec::new());
        };
        let rerun = |step: &CompilerStep, filters: Vec<String>| {
            let selection = Selection {
                filters,
                ..self.selection.clone()
            };
            let compilers = CompilerRequest {
                toolchain: Some(step.compiler.clone()),
                ..self.compilers.clone()
            };
            let loaded = config::load(&self.args.config.config, &selection)?;
            // The results in `--out` are this run's, and stay.
            let record = self.execute(&compilers, loaded, &|| Ok(()))?;
            Ok(Index::new(&record).judge().verdicts)
        };
        // No compiler of this run built files that were compiled already.
        let mut built = judgement.verdicts.clone();
        built.retain(|verdict| !record.plan.is_compiled(&verdict.subject));
        let ours = self.compilers.toolchain.as_ref().unwrap_or(pin);
        let steps = find_steps(theirs, ours, &self.cache)?;
        blame::exchange_parts(&steps, &built, &rerun)
    }

    /// Prints where the results are, and to which shard they belong.
    fn name_results(&self, record: &Record) {
        remark(&format!("record and reports: {}", shown(&self.args.out)));
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
    }
}

/// Makes a record of compiled files alone. If gates.yaml has no kernels, nothing is built or run.
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
    record.policy.base = base.map(|side| side.spec);
    record.environment.commit = commit;
    record.environment.sources = sources;
    record.environment.checkout = Some(checkout);
    record.plan.timing = head.plan.timing;
    record.plan.simulation = head.plan.simulation;
    Ok(record)
}

/// Writes all files that a run leaves in `--out`.
pub(super) fn write_out(out: &Path, input: &ReportInput) -> Result<()> {
    store::write_record(&out.join(RECORD), input.record)?;
    write_file(&out.join(JSON), &report::json::render(input)?)?;
    write_file(&out.join(MARKDOWN), &report::markdown::render(input))?;
    write_file(&out.join(JUNIT), &report::junit::render(input)?)?;
    write_file(&out.join(HTML), &report::html::render(input))
}

/// Returns the shard to run. Its part is chosen by the costs of cases in the record that the user named.
fn asked_shard(part: ShardPart, args: &RunArgs, loaded: &Loaded) -> Result<AskedShard> {
    let Some(path) = &args.costs else {
        let took = Vec::new();
        return Ok(AskedShard { part, took });
    };
    let took = store::read_record(path)?.took;
    if !took
        .iter()
        .any(|case| loaded.plan.case(&case.case).is_some())
    {
        return Err(
            Error::usage("the record does not say what any of these cases costs")
                .at(path.display())
                .help("name the record of a run of them, or leave --costs out"),
        );
    }
    Ok(AskedShard { part, took })
}

/// Makes a directory without the results of an earlier run. A directory that cannot be written is reported now, not
/// after an hour of GPU time.
pub(super) fn empty_out(out: &Path) -> Result<()> {
    make_dir("--out", out)?;
    let tried = TemporaryFile::new_in(out);
    tried.map_err(|error| Error::unwritten(out.display(), error))?;
    remove_earlier(out)
}

/// Returns filters for the cases of `loaded` whose kernel differs from the revision's.
fn changed_cases(
    revision: &str,
    loaded: &Loaded,
    args: &RunArgs,
    cache: &Cache,
) -> Result<Vec<String>> {
    let request = BaseRequest {
        revision: revision.to_owned(),
        // Nothing is compared with this base, so gates cannot be looser.
        loosening: Loosening::Allowed,
        instead: Selection {
            filters: Vec::new(),
            gone: Vec::new(),
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
    let here = loaded
        .plan
        .cases
        .iter()
        .filter(|case| changed.contains(&case.id.kernel));
    Ok(if args.filters.is_empty() {
        changed.into_iter().collect()
    } else {
        here.map(|case| case.id.to_string()).collect()
    })
}

/// Removes the files of an earlier run, so that nobody takes them for results of a run that ended before it had any.
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
