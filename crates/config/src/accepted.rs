//! Reads baselines/accepted.yaml: intended regressions, each with a limit, and known findings, each with its line.
//! Every acceptance has a person's name and a last day.

use super::context::Context;
use super::limit::{read_counters, read_limit};
use super::load::check_version;
use super::loaded::Loaded;
use super::scope::Scope;
use super::select::parse_filter;
use super::source::Source;
use super::written::Key;
use super::yaml::{Mistake, Spanned};
use model::{
    ACCEPTED, Acceptance, Allowance, Bound, CaseId, Facet, Filter, FindingKind, KnownFinding,
    Limit, Rule, Subject, with_single_blanks,
};
use std::collections::{BTreeMap, BTreeSet};
use system::error::{Diagnostic, Error, Result};
use system::files;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptedFile {
    #[expect(dead_code, reason = "checked before the rest is read")]
    version: Spanned<u32>,
    accepted: Spanned<Vec<Spanned<AcceptedEntry>>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptedEntry {
    /// The cases, written like a filter of `run` in which each part is a glob.
    case: Spanned<String>,
    /// The metric that is accepted, with `limit`. `finding` replaces both.
    metric: Option<Spanned<String>>,
    limit: Option<Spanned<String>>,
    finding: Option<Spanned<FindingEntry>>,
    reason: Spanned<String>,
    by: Spanned<String>,
    until: Spanned<String>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FindingEntry {
    kind: FindingKind,
    file: Spanned<String>,
    line: Spanned<String>,
}

/// The failure that an entry accepts, as it was written.
enum Written<'a> {
    Limit {
        metric: &'a Spanned<String>,
        limit: &'a Spanned<String>,
    },
    Finding(&'a FindingEntry),
}

impl Spanned<AcceptedEntry> {
    fn written(&self) -> std::result::Result<Written<'_>, Mistake> {
        let missing = |key: &str| Err(self.problem(format!("the key `{key}` is missing")));
        match (&self.metric, &self.limit, &self.finding) {
            (Some(metric), Some(limit), None) => Ok(Written::Limit { metric, limit }),
            (None, None, Some(finding)) => Ok(Written::Finding(finding)),
            (Some(_), None, None) => missing("limit"),
            (None, Some(_), None) => missing("metric"),
            (None, None, None) => {
                Err(self
                    .problem("it accepts nothing: `metric` and `limit` are missing, or `finding`"))
            }
            (Some(other), _, Some(_)) | (None, Some(other), Some(_)) => Err(other
                .problem("an entry accepts a limit or a finding, not both")
                .help("write two entries")),
        }
    }
}

/// Reads the acceptances next to the gates of `loaded`. There are none if the file does not exist.
///
/// # Errors
/// Usage, for anything wrong with the file, with line, column and key.
pub fn load_acceptances(loaded: &Loaded) -> Result<Vec<Acceptance>> {
    let text = match files::read_text(&loaded.root.join(ACCEPTED), files::WRITTEN) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(|error| {
            Error::usage(format!("cannot be read: {error}"))
                .caused_by(error)
                .at(ACCEPTED)
        })?,
    };
    parse(&text, loaded).map_err(Error::Usage)
}

/// Reads the acceptances like [`load_acceptances`], and requires that each one accepts something that gates.yaml
/// checks.
///
/// # Errors
/// Usage, for anything wrong with the file, and for an acceptance of nothing.
pub fn validate_acceptances(loaded: &Loaded) -> Result<Vec<Acceptance>> {
    let accepted = load_acceptances(loaded)?;
    // The kernels of compiled files are not known here.
    let may_be_of_files = |acceptance: &Acceptance| match &acceptance.allows {
        Allowance::Limit(rule) => {
            let metric = rule.metric();
            let is_of_units = metric.is_some_and(|metric| metric.facet() == Facet::Resources);
            is_of_units && !loaded.binaries.is_empty()
        }
        Allowance::Finding(_) => false,
    };
    // The launches of programs are not known here either.
    let may_be_of_programs = |acceptance: &Acceptance| {
        let filter = acceptance.case.parse::<Filter>();
        let names = loaded.programs.iter().map(|program| program.name.as_str());
        filter.is_ok_and(|filter| names.into_iter().any(|name| filter.kernel.is_match(name)))
    };
    let may_be =
        |acceptance: &Acceptance| may_be_of_files(acceptance) || may_be_of_programs(acceptance);
    match accepted
        .iter()
        .find(|acceptance| acceptance.subjects.is_empty() && !may_be(acceptance))
    {
        Some(acceptance) => Err(Error::usage(format!(
            "`{}` matches no case of {}",
            acceptance.case, loaded.places.file
        ))
        .at(&acceptance.declared)
        .help("examples: sdpa_fp8, sdpa_fp8/stage2, sdpa_fp8/stage*@mission")),
        None => Ok(accepted),
    }
}

pub(super) fn parse(
    text: &str,
    loaded: &Loaded,
) -> std::result::Result<Vec<Acceptance>, Diagnostic> {
    let is_bare = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(is_bare) {
        return Err(Diagnostic::new("the file is empty")
            .at(ACCEPTED)
            .help("remove it, or write `version: 1` and `accepted: []`"));
    }
    let source = Source::parse(ACCEPTED, text)?;
    check_version(&source)
        .and_then(|()| source.read())
        .and_then(|file: AcceptedFile| {
            file.accepted
                .iter()
                .map(|entry| resolve_acceptance(entry, loaded))
                .collect()
        })
        .map_err(|problem| source.diagnose(&problem))
}

fn resolve_acceptance(
    entry: &Spanned<AcceptedEntry>,
    loaded: &Loaded,
) -> std::result::Result<Acceptance, Mistake> {
    check_not_empty(&entry.reason, "reason")?;
    check_not_empty(&entry.by, "by")?;
    let filter = parse_filter(&entry.case).map_err(|bad| {
        bad.help
            .into_iter()
            .fold(entry.case.problem(bad.message), Mistake::help)
    })?;
    let allows = match entry.written()? {
        Written::Limit { metric, limit } => Allowance::Limit(resolve_rule(metric, limit)?),
        Written::Finding(finding) => Allowance::Finding(resolve_finding(finding)?),
    };
    let of_units = match &allows {
        Allowance::Limit(Rule::Limit { metric, .. }) if metric.facet() == Facet::Resources => {
            Some(metric)
        }
        Allowance::Limit(_) | Allowance::Finding(_) => None,
    };
    if let Some(metric) = of_units
        && filter.shape.is_some()
    {
        return Err(entry
            .case
            .problem(format!("{metric} is the same at every shape"))
            .help("name the kernel and the variant: KERNEL/VARIANT"));
    }
    let (subjects, left_out) = match of_units {
        Some(_) => matching_units(&filter, loaded),
        None => matching_cases(&filter, loaded),
    };
    Ok(Acceptance {
        case: entry.case.value.clone(),
        subjects,
        left_out,
        allows,
        reason: entry.reason.trim().to_owned(),
        by: entry.by.trim().to_owned(),
        until: check_date(&entry.until)?,
        declared: format!("{ACCEPTED}:{}", entry.at.line()),
    })
}

fn check_not_empty(spot: &Spanned<String>, key: &str) -> std::result::Result<(), Mistake> {
    if spot.trim().is_empty() {
        Err(spot.problem(format!("`{key}` is empty")))
    } else {
        Ok(())
    }
}

fn resolve_finding(entry: &FindingEntry) -> std::result::Result<KnownFinding, Mistake> {
    check_not_empty(&entry.file, "file")?;
    check_not_empty(&entry.line, "line")?;
    Ok(KnownFinding {
        kind: entry.kind,
        file: entry.file.trim().to_owned(),
        line: with_single_blanks(&entry.line),
    })
}

fn matching_cases(filter: &Filter, loaded: &Loaded) -> (Vec<Subject>, bool) {
    let all = loaded.all.iter().filter(|id| filter.fits(id));
    let (here, elsewhere): (Vec<&CaseId>, Vec<_>) =
        all.partition(|id| loaded.plan.case(id).is_some());
    let left_out = !elsewhere.is_empty() || (loaded.reseeded && !here.is_empty());
    let subjects = here.into_iter().cloned().map(Subject::Case);
    (subjects.collect(), left_out)
}

fn matching_units(filter: &Filter, loaded: &Loaded) -> (Vec<Subject>, bool) {
    let variants: BTreeSet<_> = loaded
        .all
        .iter()
        .filter(|id| filter.fits(id))
        .map(|id| (&id.kernel, &id.variant))
        .collect();
    let units = || loaded.plan.units.iter().map(|unit| &unit.id);
    let built: BTreeSet<_> = units().map(|id| (&id.kernel, &id.variant)).collect();
    let subjects = units()
        .filter(|id| variants.contains(&(&id.kernel, &id.variant)))
        .cloned()
        .map(Subject::Unit);
    (subjects.collect(), !variants.is_subset(&built))
}

/// Returns the rule that replaces the gate's own limit.
fn resolve_rule(
    written: &Spanned<String>,
    limit: &Spanned<String>,
) -> std::result::Result<Rule, Mistake> {
    let metric = match Key::parse(written)? {
        Key::Metric(metric) => metric,
        Key::Counters => {
            let change = read_counters(limit)?;
            return Ok(Rule::Counters { change });
        }
        Key::Conditions => {
            return Err(written.problem("a condition cannot be accepted: it has no limit to replace")
            .help("change the condition in gates.yaml; a run with `--base` reports that as loosened until `--allow-loosened`"));
        }
    };
    let nowhere = BTreeMap::new();
    let nothing = BTreeMap::new();
    let scope = Scope::new("", &nowhere, &nothing);
    let resolved = read_limit(
        limit,
        metric,
        &Context {
            unit: metric.facet() == Facet::Resources,
            // An acceptance does not say whether its subject is compiled by us or came as a file.
            compiled: true,
            ..Context::for_units(&scope)
        },
    )?;
    match resolved {
        Limit::Absolute {
            bound: Bound::Expr(_),
            ..
        } => Err(limit
            .problem("an accepted limit must be a number or a relative limit")
            .help("examples: `+5%`, `400us`")),
        Limit::Base { .. } => Err(limit
            .problem("an accepted limit applies to the base revision and the baseline alike")
            .help("write it without `of base`")),
        limit => Ok(Rule::Limit { metric, limit }),
    }
}

/// Returns the date if the day exists. Its form sorts as text.
fn check_date(spot: &Spanned<String>) -> std::result::Result<String, Mistake> {
    let day = spot.trim();
    match humantime::parse_rfc3339(&format!("{day}T00:00:00Z")) {
        Ok(_) => Ok(day.to_owned()),
        Err(_) => Err(spot
            .problem(format!("`{day}` is not a date"))
            .help("write the last day on which it holds: 2027-01-31")),
    }
}
