//! `judge`, `compare` and `report`: stored records in, verdicts out. No GPU, no compiler.

use super::print;
use crate::cli::{CompareArgs, Format, JudgeArgs, ReportArgs};
use crate::error::{Diagnostic, Error, Result};
use crate::exit::Exit;
use crate::{report, store};
use std::io::IsTerminal;
use verdict::judge;
use verdict::model::{Judgement, Loosening, Record};

pub fn judge(args: &JudgeArgs) -> Result<Exit> {
    let record = store::read_record(&args.record)?;
    let judgement = judged(&record);
    print(&render(args.format, &record, &judgement)?)?;
    Ok(judgement.conclusion.into())
}

/// The same as `judge`, for a reader: a report of a run that failed is no failure.
pub fn report(args: &ReportArgs) -> Result<Exit> {
    let record = store::read_record(&args.record)?;
    print(&render(args.format, &record, &judged(&record))?)?;
    Ok(Exit::Held)
}

pub fn compare(args: &CompareArgs) -> Result<Exit> {
    let base = store::read_record(&args.base)?;
    let head = store::read_record(&args.head)?;
    // Every case would be `new`, and nothing would be compared.
    if !head
        .plan
        .cases
        .iter()
        .any(|case| base.plan.case(&case.id).is_some())
    {
        return Err(Error::Usage(
            Diagnostic::new(format!(
                "{} and {} have no case in common",
                args.base.display(),
                args.head.display()
            ))
            .help("compare two records of one project, made with the same filters"),
        ));
    }
    let loosening = match args.allow_loosened {
        true => Loosening::Allowed,
        false => Loosening::Fails,
    };
    let judgement = judge::compare(&base, &head, loosening);
    print(&render(args.format, &head, &judgement)?)?;
    Ok(judgement.conclusion.into())
}

fn judged(record: &Record) -> Judgement {
    judge::judge(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    )
}

pub fn render(format: Format, record: &Record, judgement: &Judgement) -> Result<String> {
    match format {
        Format::Terminal => Ok(report::terminal::render(
            record,
            judgement,
            terminal_options(),
        )),
        Format::Markdown => Ok(report::markdown::render(record, judgement)),
        Format::Json => report::json::render(record, judgement),
        Format::Junit => report::junit::render(record, judgement),
        Format::Github => Ok(report::github::render(record, judgement)),
    }
}

fn terminal_options() -> report::terminal::Options {
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    report::terminal::Options { color, width: 100 }
}
