//! `baseline`: shows baselines, and updates them from a record.

use super::{counted, print, remark, say, terminal_options};
use crate::cli::ConfigArg;
use config::Selection;
use globset::Glob;
use model::{Facet, Outcome, Subject};
use records::repo;
use records::store;
use records::store::{BaselineChange, WorseValues};
use report::exit::Exit;
use report::section::{ColumnKind, Section, SectionPart, Table};
use report::terminal::{self, Verbosity};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use system::error::{Diagnostic, Error, Result};
use wording::reasons;
use wording::words;

pub fn update(
    record: &Path,
    config: &ConfigArg,
    filters: &[String],
    treatment: WorseValues,
) -> Result<Exit> {
    let selection = Selection {
        filters: filters.to_vec(),
        ..Selection::default()
    };
    let loaded = config::load(&config.config, &selection)?;
    let from = record;
    let record = store::read_record(from)?;
    let cases: BTreeSet<_> = loaded.plan.cases.iter().map(|case| &case.id).collect();
    let units: BTreeSet<_> = loaded.plan.units.iter().map(|unit| &unit.id).collect();
    let wanted = |subject: &Subject| match subject {
        Subject::Case(id) => cases.contains(id),
        Subject::Unit(id) => units.contains(id),
    };
    if !record
        .plan
        .cases
        .iter()
        .any(|case| cases.contains(&case.id))
    {
        return Err(Error::usage(format!(
            "no case of {} is among those of {}{}",
            from.display(),
            config.config.display(),
            if filters.is_empty() {
                ""
            } else {
                " that the filters pick"
            }
        ))
        .help("is it the record of another project, or of a run with other filters?"));
    }
    let update = store::update_baselines(&loaded.root, &record, &wanted, treatment)?;
    if let (Some(of), Some(here)) = (
        &record.environment.commit,
        repo::commit(&loaded.root).as_ref(),
    ) && of.trim_end_matches('+') != here.trim_end_matches('+')
    {
        remark(&format!(
            "{} was measured at commit {of}; this tree is at {here}",
            from.display()
        ));
    }

    if !update.worse.is_empty() {
        print_worse(&update.worse, treatment)?;
    }
    let mut text = String::new();
    for change in &update.changes {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{change}");
    }
    let (unmeasured, refused): (Vec<_>, Vec<_>) = update
        .refused
        .iter()
        .partition(|refused| refused.outcome == Outcome::Skipped);
    for refused in &refused {
        let _ = writeln!(
            text,
            "not updated: {} {}: {}",
            refused.subject,
            refused.facet,
            reasons::reason(&record.environment, &refused.subject, &refused.reason)
        );
    }
    if !unmeasured.is_empty() {
        let mut facets: BTreeMap<Facet, usize> = BTreeMap::new();
        for refused in &unmeasured {
            *facets.entry(refused.facet).or_default() += 1;
        }
        let facets: Vec<_> = facets
            .iter()
            .map(|(facet, count)| format!("{facet} of {}", counted(*count, "case")))
            .collect();
        let _ = writeln!(text, "not measured by this run: {}", facets.join(", "));
    }
    let (accepted, worse) = match treatment {
        WorseValues::Accepted => (update.worse.as_slice(), 0),
        WorseValues::Refused => (&[][..], update.worse.len()),
    };
    let changed: Vec<_> = update.changes.iter().chain(accepted).collect();
    let files: BTreeSet<_> = changed.iter().map(|change| &change.file).collect();
    let refusals = refused.len() + worse;
    let _ = writeln!(
        text,
        "{} changed in {}, {refusals} refused",
        counted(changed.len(), "value"),
        counted(files.len(), "file"),
    );
    say(&text)?;
    // A person who accepts a run wants to accept all of it, so refusals must be seen.
    Ok(match refusals {
        0 => Exit::Held,
        _ => Exit::Failed,
    })
}

/// Prints the values that are worse than their baselines, before those that are updated without a question.
fn print_worse(worse: &[BaselineChange], treatment: WorseValues) -> Result<()> {
    let rows = worse.iter().filter_map(|change| {
        let (agreed, now) = (change.old?, change.new?);
        let value = |value: f64| words::quantity(change.metric, value);
        let rise = words::change(change.metric, judge::relative_change(now, agreed));
        Some(vec![
            change.subject.to_string(),
            change.metric.to_string(),
            value(agreed),
            value(now),
            rise,
        ])
    });
    let columns = [
        ("worse than the baseline", ColumnKind::Name),
        ("metric", ColumnKind::Text),
        ("baseline", ColumnKind::Number),
        ("now", ColumnKind::Number),
        ("change", ColumnKind::Number),
    ];
    let table = SectionPart::Table(Table::new(columns, rows.collect()));
    let end = match treatment {
        WorseValues::Accepted => "accepted because of `--allow-worse`",
        WorseValues::Refused => {
            "not updated, and nor are the other values that were measured with them; `--allow-worse` accepts them"
        }
    };
    let sections = vec![Section::new("", "", vec![table])];
    print(&terminal::render_groups(
        &[sections],
        terminal_options(Verbosity::Normal),
    ))?;
    say(&format!("{end}\n"))
}

pub fn rename(from: &str, to: &str, config: &ConfigArg) -> Result<Exit> {
    let (from, to) = (part(from)?, part(to)?);
    let root = config.config.parent().unwrap_or(Path::new(""));
    let files = store::rename_baselines(root, &from, &to)?;
    let mut text = String::new();
    for file in &files {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", file.display());
    }
    let _ = writeln!(text, "{} under the new name", counted(files.len(), "file"));
    say(&text)?;
    Ok(Exit::Held)
}

/// Returns the part of the baselines that a text selects. It is written like a filter, with names instead of globs.
fn part(text: &str) -> Result<store::BaselinePart> {
    let (left, shape) = match text.split_once('@') {
        Some((left, shape)) => (left, Some(shape)),
        None => (text, None),
    };
    let (kernel, variant) = match left.split_once('/') {
        Some((kernel, variant)) => (kernel, Some(variant)),
        None => (left, None),
    };
    let parts = [Some(kernel), variant, shape];
    if parts.iter().flatten().any(|part| part.is_empty()) {
        let problem = format!("`{text}` names no baselines");
        return Err(Error::usage(problem).help(
            "examples: sdpa_fp8, sdpa_fp8/stage2, sdpa_fp8@mission, sdpa_fp8/stage2@mission",
        ));
    }
    Ok(store::BaselinePart {
        kernel: kernel.to_owned(),
        variant: variant.map(str::to_owned),
        shape: shape.map(str::to_owned),
    })
}

pub fn show(config: &ConfigArg, filters: &[String]) -> Result<Exit> {
    let globs = filters
        .iter()
        .map(|filter| {
            Glob::new(filter)
                .map(|glob| glob.compile_matcher())
                .map_err(|error| {
                    Error::usage(format!("`{filter}` is not a valid glob: {error}"))
                        .caused_by(error)
                        .help("name kernels, for example `gatekeeper baseline show 'sdpa_*'`")
                })
        })
        .collect::<Result<Vec<_>>>()?;
    let wanted = |kernel: &str| globs.is_empty() || globs.iter().any(|glob| glob.is_match(kernel));
    let root = config.config.parent().unwrap_or(Path::new(""));
    let (all, broken) = store::load_baselines(root)?;
    let baselines: Vec<_> = all
        .iter()
        .filter(|baseline| wanted(&baseline.kernel))
        .collect();
    if baselines.is_empty() && broken.is_empty() {
        let kernels: BTreeSet<_> = all
            .iter()
            .map(|baseline| baseline.kernel.as_str())
            .collect();
        return Err(Error::Usage(if kernels.is_empty() {
            Diagnostic::new("there are no baselines")
                .help("`gatekeeper run`, then `gatekeeper baseline update`")
        } else {
            Diagnostic::new("no kernel with a baseline matches").help(format!(
                "there are {}",
                kernels.into_iter().collect::<Vec<_>>().join(", ")
            ))
        }));
    }
    let mut text = String::new();
    for baseline in baselines {
        let _ = writeln!(
            text,
            "{}/{} {} [{}], {} on {}",
            baseline.kernel,
            baseline.variant,
            baseline.key.facet(),
            words::key(&baseline.key),
            baseline.origin.date,
            baseline.origin.device
        );
        for (shape, metrics) in &baseline.cases {
            let figures: Vec<_> = metrics
                .iter()
                .map(|(metric, agreed)| {
                    let sessions = agreed
                        .sessions
                        .as_ref()
                        .map_or(0, |session| session.seen.len());
                    let sessions = match sessions {
                        0 | 1 => String::new(),
                        several => format!(" ({several} sessions)"),
                    };
                    let value = words::quantity(*metric, agreed.value.0);
                    format!("{metric} {value}{sessions}")
                })
                .collect();
            let _ = writeln!(text, "  {shape}: {}", figures.join(", "));
        }
    }
    for problem in &broken {
        let _ = writeln!(text, "BROKEN {}: {}", problem.path, problem.problem);
    }
    say(&text)?;
    Ok(if broken.is_empty() {
        Exit::Held
    } else {
        Exit::Usage
    })
}
