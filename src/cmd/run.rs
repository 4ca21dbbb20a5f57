//! `run`: the main job.

use super::{print, remark, write_file};
use crate::cache::Cache;
use crate::cli::{Format, RunArgs};
use crate::config::Selection;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::pipeline::{self, Outcome, Request};
use crate::report;
use crate::report::progress::Progress;
use crate::store;
use std::path::Path;

pub fn run(args: &RunArgs) -> Result<Exit> {
    // A directory that cannot be written is said before an hour of GPU time, not after it.
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Error::environment(format!("{} cannot be made: {error}", args.out.display()))
    })?;
    let request = Request {
        config: args.config.config.clone(),
        selection: Selection {
            filters: args.filters.clone(),
            shapes: args.shapes.clone(),
            variants: args.variants.clone(),
            seeds: args.seeds.clone(),
            iters: args.iters,
        },
        device: args.device,
        require_gpu: args.require_gpu,
        provision: args.provision,
        dump: args.dump.clone(),
        command: command_line(),
    };
    let progress = Progress::default();
    let outcome = pipeline::run(&request, &Cache::open()?, &|event| progress.on(event));
    progress.clear();
    let Outcome { record, judgement } = outcome?;

    let record_file = args.out.join("record.json");
    store::write_record(&record_file, &record)?;
    write_file(
        &args.out.join("report.json"),
        &report::json::render(&record, &judgement)?,
    )?;
    write_file(
        &args.out.join("report.md"),
        &report::markdown::render(&record, &judgement),
    )?;
    write_file(
        &args.out.join("junit.xml"),
        &report::junit::render(&record, &judgement)?,
    )?;
    print(&super::judge::render(
        Format::Terminal,
        &record,
        &judgement,
    )?)?;
    remark(&format!("record and reports: {}", shown(&args.out)));
    Ok(judgement.conclusion.into())
}

fn shown(dir: &Path) -> String {
    format!(
        "{}/{{record.json,report.json,report.md,junit.xml}}",
        dir.display()
    )
}

/// As typed, with the program by its name: where it lies says nothing about a record.
fn command_line() -> String {
    let arguments = std::env::args().skip(1);
    std::iter::once("gatekeeper".to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}
