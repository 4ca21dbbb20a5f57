//! `explain`: explains why the cases of two records differ.

use super::measure::measure_case;
use super::{print, remark, terminal_options};
use crate::cli::{ExplainArgs, Format};
use build::code::CodeReader;
use build::toolchain::{self, Disassembler};
use explain::{Cause, CauseClass, Sides};
use judge::Index;
use model::{
    BuildFacts, Case, CodeFacts, Evidence, Filter, NotRun, Record, Seen, Subject, Unit, UnitId,
};
use records::store;
use report::exit::Exit;
use report::explain::{self as words, Explanation};
use report::section::Section;
use report::terminal::{self, Verbosity};
use report::{markdown, measured};
use system::cache::Cache;
use system::error::{Error, Result};
use wording::reasons;

pub fn run(args: &ExplainArgs) -> Result<Exit> {
    let mut record = store::read(&args.record)?;
    let mut base = args
        .base
        .as_ref()
        .map(|path| store::read(path))
        .transpose()?;
    if base.is_none() && record.policy.base.is_none() {
        return Err(Error::usage(
            "the record is of a run without a base: there is nothing to compare with",
        )
        .at(args.record.display())
        .help("name the record of the old state: --base RECORD")
        .help("or make the record with `gatekeeper run --base REF`"));
    }
    if let Some(base) = &mut base {
        read_code(base, &mut record)?;
    }
    let cases = selected(&record, &args.cases)?;
    let index = Index::against(base.as_ref(), &record);
    let mut explanations: Vec<Explanation> = cases
        .iter()
        .map(|case| explained(&index, &record, case))
        .collect();
    if args.measure {
        let ([case], [explanation]) = (&cases[..], &mut explanations[..]) else {
            return Err(Error::usage(format!(
                "--measure takes one case, and {} are selected",
                cases.len()
            ))
            .help("name it: gatekeeper explain --measure KERNEL/VARIANT@SHAPE"));
        };
        let found = measure_case(args, &record, &index.judge(), case)?;
        explanation.measured = Some(found);
    }
    print(&render(args.format, &explanations)?)?;
    // Two records do not have the files to measure.
    if args.format == Format::Terminal && args.base.is_none() && !args.measure {
        suggest_measuring(&record, &explanations);
    }
    Ok(Exit::Held)
}

/// Names the command that measures the first case of which a share is not known.
fn suggest_measuring(record: &Record, explanations: &[Explanation]) {
    let is_unknown =
        |cause: &Cause| cause.share.is_none() && cause.class != CauseClass::NothingChanged;
    let unknown = explanations.iter().find(|explanation| {
        explanation.causes.iter().any(is_unknown) && !record.plan.is_compiled(&explanation.subject)
    });
    if let Some(explanation) = unknown {
        let case = explanation.subject.to_string();
        let case = shlex::try_quote(&case).unwrap_or_default();
        remark(&format!(
            "to measure what each part of the change costs: gatekeeper explain --measure {case}"
        ));
    }
}

fn render(format: Format, explanations: &[Explanation]) -> Result<String> {
    let sections: Vec<Vec<Section>> = explanations
        .iter()
        .filter_map(|explanation| explanation.measured.as_ref())
        .map(|change| vec![measured::section(change)])
        .collect();
    Ok(match format {
        Format::Markdown => words::markdown(explanations) + &markdown::render_sections(&sections),
        Format::Json => words::json(explanations)?,
        _ => {
            let options = terminal_options(Verbosity::Normal);
            let tables = terminal::render_groups(&sections, options);
            format!("{}{}", words::terminal(explanations), tables.trim_start())
        }
    })
}

fn selected<'a>(record: &'a Record, filters: &[String]) -> Result<Vec<&'a Case>> {
    let parsed: Vec<Filter> = filters
        .iter()
        .map(|text| {
            text.parse()
                .map_err(|error| Error::usage(format!("{error}")).caused_by(error))
        })
        .collect::<Result<_>>()?;
    let cases = record.plan.cases.iter();
    let fits =
        |case: &&Case| parsed.is_empty() || parsed.iter().any(|filter| filter.fits(&case.id));
    let cases: Vec<&Case> = cases.filter(fits).collect();
    if cases.is_empty() {
        Err(Error::usage(format!(
            "no case of the record matches {}",
            filters.join(" ")
        ))
        .help("`gatekeeper report RECORD` lists its cases")
        .help("another record is named with --record FILE"))
    } else {
        Ok(cases)
    }
}

fn explained<'a>(index: &Index<'a>, record: &Record, case: &'a Case) -> Explanation {
    let id = case.id.clone();
    if let Some(reason) = index.failed_proof(&case.id) {
        let subject = Subject::Case(id);
        let why = reasons::reason(&record.environment, &subject, reason);
        return Explanation {
            wrong: Some(why),
            subject,
            causes: Vec::new(),
            gaps: Vec::new(),
            measured: None,
        };
    }
    match Sides::from_index(index, &id) {
        Ok(sides) => Explanation {
            wrong: None,
            subject: Subject::Case(id),
            causes: explain::explain(&sides),
            gaps: gaps(&sides),
            measured: None,
        },
        Err(why) => Explanation {
            wrong: None,
            subject: Subject::Case(id),
            causes: Vec::new(),
            gaps: vec![words::unexplained(&why).to_owned()],
            measured: None,
        },
    }
}

/// Returns the machine code of what is not the same in two runs, from the build cache: a record alone has its digest.
fn read_code(base: &mut Record, head: &mut Record) -> Result<()> {
    let differs = |unit: &&Unit| match (built(base, &unit.id), built(head, &unit.id)) {
        (Some(base), Some(head)) => base.identity != head.identity,
        _ => false,
    };
    let units: Vec<UnitId> = head
        .plan
        .units
        .iter()
        .filter(differs)
        .map(|unit| unit.id.clone())
        .collect();
    if units.is_empty() {
        return Ok(());
    }
    let cache = Cache::open()?;
    let disassembler = toolchain::find_disassembler(&cache);
    for record in [base, head] {
        let missing = units.iter().filter(|unit| !has_code(record, unit)).cloned();
        for unit in missing.collect::<Vec<_>>() {
            let facts = code_of(record, &unit, disassembler.as_ref(), &cache)?;
            record.evidence.push(Evidence::Code { unit, facts });
        }
    }
    Ok(())
}

fn has_code(record: &Record, wanted: &UnitId) -> bool {
    let mut evidence = record.evidence.iter();
    evidence.any(|evidence| matches!(evidence, Evidence::Code { unit, .. } if unit == wanted))
}

fn code_of(
    record: &Record,
    id: &UnitId,
    disassembler: Option<&Disassembler>,
    cache: &Cache,
) -> Result<Seen<CodeFacts>> {
    let Some(disassembler) = disassembler else {
        return Ok(Seen::NotRun(NotRun::NoDisassembler));
    };
    let (Some(unit), Some(facts)) = (record.plan.unit(id), built(record, id)) else {
        return Ok(Seen::NotRun(NotRun::NoArtifact));
    };
    // A build is kept under the key of the compiler that made it.
    let version = record
        .environment
        .compiler
        .got()
        .map(|compiler| &compiler.version);
    let Ok(toolchain) = toolchain::find(version.map(String::as_str), cache) else {
        return Ok(Seen::NotRun(NotRun::CodeNotKept));
    };
    match build::stored(cache, &toolchain, unit, facts)? {
        Some(artifact) => Ok(CodeReader::open(disassembler, cache)?.read(&artifact)),
        None => Ok(Seen::NotRun(NotRun::CodeNotKept)),
    }
}

fn built<'a>(record: &'a Record, id: &UnitId) -> Option<&'a BuildFacts> {
    record.evidence.iter().find_map(|piece| match piece {
        Evidence::Build { unit, facts } if unit == id => facts.got(),
        _ => None,
    })
}

fn gaps(sides: &Sides) -> Vec<String> {
    let code = [sides.base.code, sides.head.code];
    let missing = code.into_iter().flatten().find_map(words::gap);
    missing.into_iter().collect()
}
