//! `binary`: which GPU kernels a compiled file has, or a wheel or directory of such files, and how they stand to an older
//! one.

use super::judge::render;
use super::{command_line, print, terminal_options, width};
use crate::cli::{BinaryArgs, Format};
use artifact::{AllowedChange, Circumstances, DEFAULT_LIMITS, make_records};
use binary::{Listing, match_kernels};
use judge::Index;
use model::Loosening;
use report::ReportInput;
use report::binary as layout;
use report::exit::Exit;
use report::terminal::Verbosity;
use std::path::Path;
use system::error::{Error, Result};

pub fn run(args: &BinaryArgs) -> Result<Exit> {
    let Some(file) = &args.file else {
        return super::binaries::run(args);
    };
    let listing = artifact::read(file)?;
    let name = file.display().to_string();
    if let Some(base) = &args.base {
        return compare(args, &name, base, &listing);
    }
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

fn compare(args: &BinaryArgs, name: &str, base: &Path, listing: &Listing) -> Result<Exit> {
    let base = artifact::read(base)?;
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
    let records = make_records(name, listing, &matching, limits, &circumstances);
    // Old and new are held to the same limits, those of this command.
    let judgement = judge::compare(&records.base, &records.head, Loosening::Fails);
    let index = Index::against(Some(&records.base), &records.head);
    let input = ReportInput {
        base: Some(&records.base),
        ..ReportInput::new(&index, &records.head, &judgement)
    };
    let report = render(args.format, args.output, &input)?;
    let kernels = [report::matching::lay_out(&matching)];
    let verbosity = args.output.verbosity();
    print(&match args.format {
        Format::Terminal if verbosity != Verbosity::Quiet => {
            report::terminal::render_groups(&kernels, terminal_options(verbosity)) + "\n" + &report
        }
        Format::Markdown => {
            report + "\n" + &report::markdown::render_groups(report::matching::TITLE, &kernels)
        }
        _ => report,
    })?;
    Ok(judgement.conclusion.into())
}
