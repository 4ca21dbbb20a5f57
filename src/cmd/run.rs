//! `run`: the main job.

use super::{print, remark, write_file};
use crate::cache::Cache;
use crate::cli::{Format, RunArgs};
use crate::config::{self, Selection};
use crate::error::{Diagnostic, Error, Result};
use crate::exit::Exit;
use crate::pipeline::{self, Outcome, Request};
use crate::report;
use crate::report::progress::Progress;
use crate::store;
use std::path::Path;

pub fn run(args: &RunArgs) -> Result<Exit> {
    let selection = Selection {
        filters: args.filters.clone(),
        shapes: args.shapes.clone(),
        variants: args.variants.clone(),
        seeds: args.seeds.clone(),
        iters: args.iters,
    };
    // A command typed in the wrong directory leaves no directories behind.
    config::load(&args.config.config, &selection)?;
    // A directory that cannot be written is said before an hour of GPU time, not after it.
    make_dir("--out", &args.out)?;
    if let Some(dump) = &args.dump {
        make_dir("--dump", dump)?;
    }
    let request = Request {
        config: args.config.config.clone(),
        selection,
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

fn make_dir(option: &str, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|error| {
        if dir.ancestors().any(Path::is_file) {
            Error::Usage(
                Diagnostic::new(format!("{option} {} leads through a file", dir.display()))
                    .help("name a directory; it is made if it is not there"),
            )
        } else {
            Error::environment(format!("{} cannot be made: {error}", dir.display()))
        }
    })
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
