//! `tune`: searches the macros of a variant for a faster configuration.

use super::progress::Progress;
use super::{print, remark, terminal_options, write_file};
use crate::cli::{Format, TuneArgs};
use crate::revisions;
use crate::tune::evaluator::DeviceEvaluator;
use crate::tune::log::{Began, Earlier, Log, SCHEMA};
use crate::tune::{self, End, SearchResult, Settings, sources};
use config::Tuning;
use model::{Arch, CaseId};
use pipeline::event::Event;
use pipeline::{Bench, Request};
use records::store::NewFile;
use report::exit::Exit;
use report::html;
use report::markdown;
use report::terminal::{self, Verbosity};
use search::Space;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use system::cache::Cache;
use system::error::{Error, Result};

pub fn run(args: &TuneArgs) -> Result<Exit> {
    let tuning = config::load_tuning(&args.config.config, &args.kernel, args.sim_budget)?;
    let space = Arc::new(tuning.space()?);
    sources::check_parameters(&tuning)?;
    // A variant that cannot be written is reported before an hour of GPU time, not after it.
    let config = &args.config.config;
    if let Some(name) = &args.apply {
        tuning.with_variant(config, name, &tune::own_values(&tuning))?;
    }
    let start = format!("{}/{}", tuning.tune.kernel, tuning.tune.variant);
    remark(&format!(
        "{start}: {}",
        super::counted(space.len(), "valid configuration")
    ));
    let cache = Cache::open()?;
    let command = super::command_line();
    let request = Request::new(&args.config.config, args.device, args.provision, command);
    let progress = Progress::default();
    let on = |event: Event| progress.on(event);
    let waiting = |text: &str| progress.on(Event::Waiting(text.to_owned()));
    let change = revisions::find_change(None, tuning.loaded.clone(), &cache, &on)?;
    let (builder, mut bench) = Bench::open(&request, change, &cache, &waiting, &on)?;
    let settings = Settings {
        method: args.strategy,
        seed: args.seed,
        budget: args.budget.unwrap_or(tuning.tune.budget),
        pairing: config::pairing(true),
        arch: arch(&tuning, &bench),
    };
    let began = began(&tuning, &space, &settings, &bench, start);
    let path = args.log.clone().unwrap_or_else(|| default_log(&tuning));
    let (mut log, earlier) = if args.resume {
        Log::resume(&path, &began)?
    } else {
        (Log::create(&path, began.clone())?, Earlier::default())
    };
    let mut evaluator = DeviceEvaluator::new(&mut bench, &tuning.tune.objective);
    let say = |so_far| waiting(&crate::tune::layout::progress(so_far));
    let found = tune::search(
        &tuning,
        space,
        &settings,
        (&mut log, earlier),
        (&builder, &mut evaluator),
        &say,
    );
    progress.clear();
    let found = found?;
    let applied = match (&args.apply, found.winner()) {
        (Some(name), Some(values)) => {
            let text = tuning.with_variant(config, name, values)?;
            let mut file = NewFile::create(config)?;
            file.write_all(text.as_bytes())
                .map_err(|error| Error::at_path(config, error))?;
            file.keep()?;
            format!(
                "{}: the winner is {}/{name}",
                config.display(),
                tuning.tune.kernel
            )
        }
        (Some(_), None) => format!("{}: left as it is", config.display()),
        (None, _) => String::new(),
    };
    let groups = crate::tune::layout::lay_out(&began, &found);
    let page = markdown::render_groups(crate::tune::layout::TITLE, &groups);
    write_file(&path.with_extension("md"), &page)?;
    let html = html::render_groups(crate::tune::layout::TITLE, &groups);
    write_file(&path.with_extension("html"), &html)?;
    print(&match args.format {
        Format::Markdown => page,
        _ => terminal::render_groups(&groups, terminal_options(Verbosity::Normal)),
    })?;
    if !applied.is_empty() {
        remark(&applied);
    }
    remark(&format!(
        "log and reports: {}",
        path.with_extension("{jsonl,md,html}").display()
    ));
    Ok(exit(&found))
}

fn exit(found: &SearchResult) -> Exit {
    match &found.end {
        End::StartDropped(_) | End::WinnerDropped(_) => Exit::Failed,
        _ if found.is_shown() => Exit::Held,
        End::Ranked | End::NoneFaster | End::Confirmed(_) => Exit::Undecided,
    }
}

fn default_log(tuning: &Tuning) -> PathBuf {
    let tune = &tuning.tune;
    format!("gatekeeper-out/tune-{}-{}.jsonl", tune.kernel, tune.variant).into()
}

/// Returns the architecture of the GPU. Without a GPU, returns the newest architecture that the file names, because
/// estimates are made for that one.
fn arch(tuning: &Tuning, bench: &Bench) -> Option<Arch> {
    let plan = &tuning.loaded.plan;
    let Some(device) = bench.device() else {
        return plan
            .units
            .iter()
            .map(|unit| unit.id.arch)
            .max_by_key(|arch| (arch.major, arch.minor));
    };
    let case: Option<&CaseId> = plan.cases.first().map(|case| &case.id);
    let unit = case.and_then(|id| judge::unit_for(plan, id, device));
    unit.map(|unit| unit.id.arch)
}

fn began(
    tuning: &Tuning,
    space: &Space,
    settings: &Settings,
    bench: &Bench,
    start: String,
) -> Began {
    Began {
        schema: SCHEMA.to_owned(),
        start,
        macros: tuning.macros.clone(),
        parameters: space
            .parameters()
            .iter()
            .map(|parameter| (parameter.name.clone(), parameter.values.clone()))
            .collect(),
        constraints: tuning.tune.constraints().map(str::to_owned).collect(),
        configurations: space.len(),
        objective: tuning.tune.objective.iter().cloned().collect(),
        strategy: settings.method.name().to_owned(),
        seed: settings.seed,
        device: bench
            .device()
            .map_or("simulator".to_owned(), |device| device.name.clone()),
        sources: sources::digest(tuning),
        compiler: bench.toolchain().facts.version.clone(),
    }
}
