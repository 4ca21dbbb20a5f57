//! `judge`, `compare` and `report`: read stored records, and write verdicts. They need no GPU and no compiler.

use super::{history, print, remark, terminal_options};
use crate::cli::{CompareArgs, Format, JudgeArgs, OutputArgs, ReportArgs};
use crate::logging::log_judgement;
use explain::diagnosis::changes;
use judge::Index;
use model::{Gate, Limit, Loosening, Margin, Metric, Num, Record, Rule, Seen, Subject};
use records::store;
use report::ReportInput;
use report::exit::Exit;
use report::section::Section;
use report::terminal::Verbosity;
use system::error::{Error, Result};

pub fn judge(args: &JudgeArgs) -> Result<Exit> {
    let record = store::read(&args.record)?;
    let index = Index::new(&record);
    let judgement = index.judge();
    let input = ReportInput::new(&index, &record, &judgement);
    print(&render(args.format, args.output, &input)?)?;
    Ok(judgement.conclusion.into())
}

/// Reports on a record like `judge`, for a reader: the exit code is 0 even if the run failed.
pub fn report(args: &ReportArgs) -> Result<Exit> {
    let record = store::read(&args.record)?;
    if args.ladder {
        print(&ladder(args, &record)?)?;
        return Ok(Exit::Held);
    }
    if args.diagnosis {
        print(&diagnosis(args, &record)?)?;
        return Ok(Exit::Held);
    }
    let history = match args.format {
        Format::Html => history::load_next_to(&args.config),
        _ => None,
    };
    let index = Index::new(&record);
    let judgement = index.judge();
    let input = ReportInput {
        history: history.as_ref(),
        ..ReportInput::new(&index, &record, &judgement)
    };
    print(&render(args.format, args.output, &input)?)?;
    Ok(Exit::Held)
}

/// Returns the variants of each kernel side by side.
fn ladder(args: &ReportArgs, record: &Record) -> Result<String> {
    let index = Index::new(record);
    let judgement = index.judge();
    let ladders = report::ladder::ladders(index.head(), &judgement);
    paged(
        args,
        ("--ladder", report::ladder::TITLE),
        &report::ladder::lay_out(index.head(), &judgement, &ladders),
        || report::ladder::json(index.head(), &ladders),
    )
}

/// Returns what bounds the time of each case.
fn diagnosis(args: &ReportArgs, record: &Record) -> Result<String> {
    let found = changes::all(&Index::new(record));
    let groups = report::diagnosis::lay_out(&found);
    let named = ("--diagnosis", report::diagnosis::TITLE);
    paged(args, named, &groups, || report::diagnosis::json(found))
}

/// Returns a page that has no verdicts, and therefore no annotations.
fn paged(
    args: &ReportArgs,
    (option, title): (&str, &str),
    groups: &[Vec<Section>],
    json: impl FnOnce() -> Result<String>,
) -> Result<String> {
    match args.format {
        Format::Terminal => Ok(report::terminal::render_groups(
            groups,
            terminal_options(args.output.verbosity()),
        )),
        Format::Markdown => Ok(report::markdown::render_groups(title, groups)),
        Format::Json => json(),
        Format::Html | Format::Junit | Format::Github | Format::Sarif => Err(Error::usage(
            format!("{option} is printed as terminal, markdown or json"),
        )),
    }
}

pub fn compare(args: &CompareArgs) -> Result<Exit> {
    let mut base = store::read(&args.base)?;
    let mut head = store::read(&args.head)?;
    alike(args, &base, &head)?;
    if let Some(change) = args.p50 {
        // The base gets the gate, too, so that a case that head lacks shows as a gate that is gone.
        hold_p50(&mut base, change);
        hold_p50(&mut head, change);
    }
    // Otherwise every case would be `new`, and nothing would be compared.
    if !head
        .plan
        .cases
        .iter()
        .any(|case| base.plan.case(&case.id).is_some())
    {
        return Err(Error::usage(format!(
            "{} and {} have no case in common",
            args.base.display(),
            args.head.display()
        ))
        .help("compare two records of one project, made with the same filters"));
    }
    has_its_device(args, &base, &head)?;
    let loosening = if args.allow_loosened {
        Loosening::Allowed
    } else {
        Loosening::Fails
    };
    let judgement = judge::compare(&base, &head, loosening);
    if base == head {
        remark("BASE and HEAD are the same record");
    }
    let index = Index::against(Some(&base), &head);
    let input = ReportInput {
        base: Some(&base),
        ..ReportInput::new(&index, &head, &judgement)
    };
    let report = render(args.format, args.output, &input)?;
    let names = [&args.base, &args.head].map(|path| path.display().to_string());
    let [of_base, of_head] = &names;
    let sides = ((of_base.as_str(), &base), (of_head.as_str(), &head));
    print(&match args.format {
        Format::Terminal if args.output.verbosity() == Verbosity::Quiet => report,
        Format::Terminal => report::terminal::sides(sides.0, sides.1) + &report,
        Format::Markdown => report + &report::markdown::sides(sides.0, sides.1),
        Format::Html | Format::Json | Format::Junit | Format::Github | Format::Sarif => report,
    })?;
    Ok(judgement.conclusion.into())
}

/// Refuses to compare measurements of gatekeeper with those of another program. For the other program's measurements,
/// the user must say which limit applies.
fn alike(args: &CompareArgs, base: &Record, head: &Record) -> Result<()> {
    let others = [base, head].map(|record| record.environment.other_program());
    match (others[0], others[1]) {
        (None, None) => Ok(()),
        (Some(_), Some(_)) if args.p50.is_some() => Ok(()),
        (Some(_), Some(_)) => Err(Error::usage(
            "NVBench's files have no gates, so nothing would be judged",
        )
        .help("limit how much slower than BASE the p50 of each case may be: --p50 +2%")),
        (Some(_), None) | (None, Some(_)) => {
            let foreign = match others[0] {
                Some(_) => &args.base,
                None => &args.head,
            };
            Err(Error::usage("one is a record of gatekeeper and the other is NVBench's: they do not measure times the same way")
                .at(foreign.display())
                .help("measure both sides with the same program"))
        }
    }
}

/// Returns true if head has the device that base has. Without a GPU, head skips the gates on times, and a comparison
/// with a base that has times would pass whatever became of these times.
fn has_its_device(args: &CompareArgs, base: &Record, head: &Record) -> Result<()> {
    match (&base.environment.device, &head.environment.device) {
        (Seen::Got(device), Seen::NotRun(_)) if !args.allow_loosened => Err(Error::usage(format!(
            "BASE was made on {} and HEAD without a GPU: no times would be compared",
            device.name
        ))
        .at(args.head.display())
        .help("run both on such a GPU, with --require-gpu")
        .help("--allow-loosened compares the rest")),
        _ => Ok(()),
    }
}

fn hold_p50(record: &mut Record, change: f64) {
    let gates = record
        .plan
        .cases
        .iter()
        .filter(|case| case.timed)
        .map(|case| Gate {
            subject: Subject::Case(case.id.clone()),
            rule: Rule::Limit {
                metric: Metric::P50,
                limit: Limit::Baseline {
                    change: Margin::Share(Num(change)),
                },
            },
            declared: None,
        });
    record.policy.gates.extend(gates);
}

pub(super) fn render(format: Format, output: OutputArgs, input: &ReportInput) -> Result<String> {
    if format != Format::Terminal && output.verbosity() != Verbosity::Normal {
        return Err(Error::usage(
            "--verbose and --quiet are for --format terminal; every other format has its one form",
        ));
    }
    log_judgement(input.judgement);
    match format {
        Format::Terminal => Ok(report::terminal::render(
            input,
            terminal_options(output.verbosity()),
        )),
        Format::Markdown => Ok(report::markdown::render(input)),
        Format::Html => Ok(report::html::render(input)),
        Format::Json => report::json::render(input),
        Format::Junit => report::junit::render(input),
        Format::Github => Ok(report::github::render(input)),
        Format::Sarif => report::sarif::render(input),
    }
}
