//! Lays out how timed cases compare with rivals. Pure.

use super::section::{ColumnKind, Table};
use model::{
    AgainstRival, CaseId, Environment, Judgement, Metric, NotCompared, Reason, RivalStanding,
    Subject,
};
use std::collections::BTreeMap;
use wording::reasons;
use wording::words::{self, listed, plural};

/// Returns a table with a row for each case: against the fastest backend of all its rivals.
pub fn fastest(judgement: &Judgement) -> Table {
    let mut rows: Vec<(&RivalStanding, &AgainstRival)> = Vec::new();
    for (standing, comparison) in compared(judgement) {
        match rows
            .iter_mut()
            .find(|(_, known)| known.case == comparison.case)
        {
            Some(known) if comparison.theirs.0 < known.1.theirs.0 => {
                *known = (standing, comparison)
            }
            Some(_) => {}
            None => rows.push((standing, comparison)),
        }
    }
    table(rows.into_iter())
}

/// Returns a table with a row for each case and backend, or without rows if the other table already has all backends.
pub fn all(judgement: &Judgement) -> Table {
    let mut table = table(compared(judgement));
    if fastest(judgement).rows.len() == table.rows.len() {
        table.rows.clear();
    }
    table
}

/// Returns a table with a row for each case: its p50, and how many times as fast as each backend it is. Over 1 it is
/// faster.
pub fn by_backend(judgement: &Judgement) -> Table {
    let name = |standing: &RivalStanding, comparison: &AgainstRival| {
        format!("{} {}", standing.rival, comparison.backend)
    };
    let mut backends: Vec<String> = Vec::new();
    let mut cases: Vec<&AgainstRival> = Vec::new();
    let mut ratios: BTreeMap<(&CaseId, String), f64> = BTreeMap::new();
    for (standing, comparison) in compared(judgement) {
        let backend = name(standing, comparison);
        add_new(&mut backends, [backend.clone()]);
        if !cases.iter().any(|known| known.case == comparison.case) {
            cases.push(comparison);
        }
        ratios.insert((&comparison.case, backend), comparison.times_as_fast.0);
    }
    let p50 = cases
        .iter()
        .map(|case| Some(case.ours.0))
        .collect::<Vec<_>>();
    let (head, p50) = words::column("p50", Metric::P50, &p50);
    let rows = cases
        .iter()
        .zip(p50)
        .map(|(comparison, p50)| {
            let ratio = |backend: &String| match ratios.get(&(&comparison.case, backend.clone())) {
                Some(ratio) => format!("{ratio:.2}"),
                None => "-".to_owned(),
            };
            [comparison.case.to_string(), p50]
                .into_iter()
                .chain(backends.iter().map(ratio))
                .collect()
        })
        .collect();
    let heads: Vec<String> = backends
        .iter()
        .map(|backend| format!("{backend} ×"))
        .collect();
    let start = [
        ("case", ColumnKind::Name),
        (head.as_str(), ColumnKind::Number),
    ];
    let ratios = heads.iter().map(|head| (head.as_str(), ColumnKind::Number));
    Table::new(start.into_iter().chain(ratios), rows)
}

fn compared(judgement: &Judgement) -> impl Iterator<Item = (&RivalStanding, &AgainstRival)> {
    judgement.rivals.iter().flat_map(|standing| {
        standing
            .compared
            .iter()
            .map(move |comparison| (standing, comparison))
    })
}

/// Returns a table of both times, with the ratio in words.
fn table<'a>(rows: impl Iterator<Item = (&'a RivalStanding, &'a AgainstRival)>) -> Table {
    let rows = rows.map(|(standing, comparison)| {
        let (ours, theirs) = (comparison.ours.0, comparison.theirs.0);
        let rival = format!("{} {}", standing.rival, comparison.backend);
        vec![
            comparison.case.to_string(),
            words::quantity(Metric::P50, ours),
            words::quantity(Metric::P50, theirs),
            words::speed(ours, theirs, &rival).unwrap_or("-".to_owned()),
        ]
    });
    let columns = [
        ("case", ColumnKind::Name),
        ("p50", ColumnKind::Number),
        ("rival's p50", ColumnKind::Number),
        ("the case is", ColumnKind::Text),
    ];
    Table::new(columns, rows.collect())
}

/// Backends of one rival that were not compared for one reason.
struct RivalGroup<'a> {
    rival: &'a str,
    why: String,
    backends: Vec<&'a str>,
    kernels: Vec<&'a str>,
    cases: Vec<String>,
}

/// A note with more kernel names than this would be unreadable.
const MOST_KERNELS: usize = 3;

/// Returns the versions that were compared with, and what was not compared, with each reason once.
pub fn lines(environment: &Environment, judgement: &Judgement) -> Vec<String> {
    let mut lines = Vec::new();
    let mut groups: Vec<RivalGroup> = Vec::new();
    let (mut not_requested, mut kernels): (Vec<String>, Vec<String>) = Default::default();
    for standing in &judgement.rivals {
        let versions: Vec<_> = standing
            .versions
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        let line = format!("{}: {}", standing.rival, listed(&versions));
        if !versions.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
        for not in &standing.not_compared {
            if let Reason::RivalNotRequested { rival } = &not.reason {
                add_new(&mut not_requested, [rival.clone()]);
                add_new(&mut kernels, [standing.kernel.clone()]);
                continue;
            }
            let why = why_not(environment, not);
            let known = |group: &RivalGroup| group.rival == standing.rival && group.why == why;
            let at = groups.iter().position(known).unwrap_or_else(|| {
                groups.push(RivalGroup {
                    rival: &standing.rival,
                    why: why.clone(),
                    backends: Vec::new(),
                    kernels: Vec::new(),
                    cases: Vec::new(),
                });
                groups.len() - 1
            });
            if let Some(group) = groups.get_mut(at) {
                add_new(&mut group.backends, not.backends.iter().map(String::as_str));
                add_new(&mut group.kernels, [standing.kernel.as_str()]);
                add_new(&mut group.cases, not.cases.iter().map(ToString::to_string));
            }
        }
    }
    lines.extend(groups.iter().map(RivalGroup::line));
    if !not_requested.is_empty() {
        let names = listed(&not_requested);
        let kernels = match kernels.len() {
            ..=MOST_KERNELS => listed(&kernels),
            many => plural(many, "kernel"),
        };
        lines.push(format!(
            "{names}: not timed for {kernels}; `gatekeeper run --rivals` does it"
        ));
    }
    lines
}

fn add_new<T: PartialEq>(known: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    for one in more {
        if !known.contains(&one) {
            known.push(one);
        }
    }
}

fn why_not(environment: &Environment, not: &NotCompared) -> String {
    match (&not.reason, not.cases.first()) {
        // The line already begins with who skipped what.
        (Reason::RivalSkipped { because, .. }, _) => because.clone(),
        (reason, Some(case)) => reasons::reason(environment, &Subject::Case(case.clone()), reason),
        (reason, None) => reason.code().to_owned(),
    }
}

impl RivalGroup<'_> {
    /// Returns a group in words: `torch cudnn and math: not compared with 2 cases of k: no kernel for this shape`.
    fn line(&self) -> String {
        let own = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        let cases = match &self.cases[..] {
            [only] => only.clone(),
            several => format!(
                "{} of {}",
                plural(several.len(), "case"),
                listed(&own(&self.kernels))
            ),
        };
        format!(
            "{} {}: not compared with {cases}: {}",
            self.rival,
            listed(&own(&self.backends)),
            self.why
        )
    }
}
