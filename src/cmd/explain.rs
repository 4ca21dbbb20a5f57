//! `explain`: why the cases of a record are not what they were.

use super::print;
use crate::cli::{ExplainArgs, HistoryFormat};
use crate::error::{Diagnostic, Error, Result};
use crate::exit::Exit;
use crate::explain::{self, Sides};
use crate::report::explain::{self as words, Explanation};
use crate::report::reasons;
use crate::store;
use verdict::model::{Case, Filter, Record, Seen};

pub fn run(args: &ExplainArgs) -> Result<Exit> {
    let record = store::read(&args.record)?;
    let base = args
        .base
        .as_ref()
        .map(|path| store::read(path))
        .transpose()?;
    if base.is_none() && record.policy.base.is_none() {
        return Err(Error::Usage(
            Diagnostic::new(
                "the record is of a run without a base: there is nothing to compare with",
            )
            .at(args.record.display().to_string())
            .help("name the record of the old state: --base RECORD")
            .help("or make the record with `gatekeeper run --base REF`"),
        ));
    }
    let cases = selected(&record, &args.cases)?;
    let explanations: Vec<Explanation> = cases
        .into_iter()
        .map(|case| explained(&record, base.as_ref(), case))
        .collect();
    print(&match args.format {
        HistoryFormat::Terminal => words::terminal(&explanations),
        HistoryFormat::Markdown => words::markdown(&explanations),
        HistoryFormat::Json => words::json(&explanations)?,
    })?;
    Ok(Exit::Held)
}

fn selected<'a>(record: &'a Record, filters: &[String]) -> Result<Vec<&'a Case>> {
    let parsed: Vec<Filter> = filters
        .iter()
        .map(|text| {
            text.parse()
                .map_err(|error| Error::Usage(Diagnostic::new(format!("{error}"))))
        })
        .collect::<Result<_>>()?;
    let cases = record.plan.cases.iter();
    let fits = |case: &&Case| parsed.is_empty() || parsed.iter().any(|it| it.fits(&case.id));
    let cases: Vec<&Case> = cases.filter(fits).collect();
    match cases.is_empty() {
        false => Ok(cases),
        true => Err(Error::Usage(
            Diagnostic::new(format!(
                "no case of the record matches {}",
                filters.join(" ")
            ))
            .help("`gatekeeper report RECORD --format terminal` lists its cases"),
        )),
    }
}

fn explained(record: &Record, base: Option<&Record>, case: &Case) -> Explanation {
    let sides = match base {
        Some(base) => Sides::of_two(base, record, &case.id),
        None => Sides::of_run(record, &case.id),
    };
    let id = case.id.clone();
    match sides {
        Ok(sides) => Explanation {
            case: id,
            causes: explain::explain(&sides),
            gaps: gaps(&sides),
        },
        Err(why) => Explanation {
            case: id,
            causes: Vec::new(),
            gaps: vec![words::unexplained(&why).to_owned()],
        },
    }
}

fn gaps(sides: &Sides) -> Vec<String> {
    let code = [sides.base.code, sides.head.code];
    let missing = code.into_iter().flatten().find_map(|code| match code {
        Seen::Got(_) => None,
        Seen::Fault(fault) => Some(reasons::fault(fault)),
        Seen::Unsupported(why) => Some(reasons::unsupported(why)),
        Seen::NotRun(why) => Some(reasons::not_run(why)),
    });
    missing
        .into_iter()
        .map(|why| format!("machine code: {why}"))
        .collect()
}
