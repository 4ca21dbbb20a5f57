//! `binary`: which GPU kernels a compiled file has, or a wheel or directory of such files, and how they stand to an older
//! one.

mod why;

use super::judge::render;
use super::{command_line, print, terminal_options, width};
use crate::cli::{BinaryArgs, Format};
use artifact::{AllowedChange, Circumstances, DEFAULT_LIMITS, Records, make_records};
use binary::{Listing, match_kernels};
use judge::Index;
use model::Loosening;
use report::ReportInput;
use report::binary as layout;
use report::exit::Exit;
use report::explain as words;
use report::matching::Worse;
use report::terminal::Verbosity;
use std::path::Path;
use system::error::{Error, Result};

/// Formats that `--explain` adds to.
const HAVE_EXPLANATIONS: [Format; 3] = [Format::Terminal, Format::Markdown, Format::Json];

pub fn run(args: &BinaryArgs) -> Result<Exit> {
    let Some(file) = &args.file else {
        return super::binaries::run(args);
    };
    if args.explain && args.base.is_none() {
        return Err(Error::usage(
            "--explain says why kernels changed, and one file alone has no change",
        )
        .help("name the older file with --base: gatekeeper binary NEW --base OLD --explain"));
    }
    let listing = artifact::read(file)?;
    if let Some(base) = &args.base {
        return compare(args, (file, base), &listing);
    }
    let name = file.display().to_string();
    print(&match args.format {
        Format::Terminal => layout::terminal(&name, &listing, width()) + "\n",
        Format::Json => layout::json(&name, &listing)?,
        _ => {
            return Err(Error::usage("a file alone is listed as terminal or json")
                .help("name an older file with --base: a comparison has every format"));
        }
    })?;
    Ok(Exit::Held)
}

fn compare(
    args: &BinaryArgs,
    (file, base_file): (&Path, &Path),
    listing: &Listing,
) -> Result<Exit> {
    if args.explain && !HAVE_EXPLANATIONS.contains(&args.format) {
        return Err(Error::usage(
            "--explain writes to --format terminal, markdown or json; the other formats have no place for it",
        ));
    }
    let name = file.display().to_string();
    let base = artifact::read(base_file)?;
    let matching = match_kernels(&base, listing);
    let limits: &[AllowedChange] = match args.limit.as_slice() {
        [] => &DEFAULT_LIMITS,
        named => named,
    };
    let circumstances = Circumstances {
        gatekeeper: env!("CARGO_PKG_VERSION"),
        started: ::run::machine::now(),
        command: command_line(),
        host: ::run::machine::host(),
    };
    let records = make_records(&name, listing, &matching, limits, &circumstances);
    // Old and new are held to the same limits, those of this command.
    let judgement = judge::compare(&records.base, &records.head, Loosening::Fails);
    let explained = match args.explain {
        true => Some(why::explain_kernels(base_file, file, &records, &judgement)?),
        false => None,
    };
    let index = Index::against(Some(&records.base), &records.head);
    let input = ReportInput {
        base: Some(&records.base),
        kernels: explained.as_ref(),
        ..ReportInput::new(&index, &records.head, &judgement)
    };
    let report = render(args.format, args.output, &input)?;
    let kernels = [report::matching::lay_out(&matching, &worse(&records))];
    let verbosity = args.output.verbosity();
    let explained = explained.as_ref();
    print(&match args.format {
        Format::Terminal if verbosity != Verbosity::Quiet => {
            let why = explained.map_or(String::new(), words::terminal_of_kernels);
            let kernels = report::terminal::render_groups(&kernels, terminal_options(verbosity));
            kernels + "\n" + &why + &report
        }
        Format::Markdown => {
            let kernels = report::markdown::render_groups(report::matching::TITLE, &kernels);
            let why = explained.map_or(String::new(), words::markdown_of_kernels);
            report + "\n" + &kernels + &why
        }
        _ => report,
    })?;
    Ok(judgement.conclusion.into())
}

fn worse<'a>(records: &'a Records) -> Vec<Worse<'a>> {
    let pairs = records.pairs.iter();
    let worse = pairs.filter_map(|it| {
        Some(Worse {
            unit: &it.unit,
            pair: it.pair,
            worsening: it.worsening?,
        })
    });
    worse.collect()
}
