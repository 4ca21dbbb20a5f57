//! Filters: which cases of a resolved file are run.

use super::yaml::did_you_mean;
use super::{Resolved, Selection};
use crate::error::Diagnostic;
use globset::{Glob, GlobMatcher};
use std::collections::HashSet;
use verdict::model::{CaseId, Rule, Subject};

pub fn select(resolved: &mut Resolved, selection: &Selection) -> Result<(), Diagnostic> {
    let all: Vec<CaseId> = resolved
        .plan
        .cases
        .iter()
        .map(|case| case.id.clone())
        .collect();
    let chosen = by_filters(&all, &selection.filters)?;
    let chosen = by_globs(chosen, &selection.variants, "variant", "--variants", |id| {
        &id.variant
    })?;
    let chosen = by_globs(chosen, &selection.shapes, "shape", "--shapes", |id| {
        &id.shape
    })?;
    let chosen: HashSet<CaseId> = chosen.into_iter().collect();

    let plan = &mut resolved.plan;
    plan.left_out = all
        .iter()
        .filter(|id| !chosen.contains(id))
        .map(|id| id.kernel.clone())
        .collect();
    plan.cases.retain(|case| chosen.contains(&case.id));
    let built: HashSet<(&str, &str)> = chosen
        .iter()
        .map(|id| (id.kernel.as_str(), id.variant.as_str()))
        .collect();
    plan.units
        .retain(|unit| built.contains(&(unit.id.kernel.as_str(), unit.id.variant.as_str())));
    resolved.gates.retain(|gate| match &gate.subject {
        Subject::Case(id) => chosen.contains(id),
        Subject::Unit(id) => {
            let siblings = built
                .iter()
                .filter(|(kernel, _)| *kernel == id.kernel)
                .count();
            built.contains(&(id.kernel.as_str(), id.variant.as_str()))
                // Alone, a variant has nothing to differ from.
                && (gate.rule != Rule::HasEffect || siblings > 1)
        }
    });

    if let Some(seeds) = &selection.seeds {
        if seeds.is_empty() {
            return Err(Diagnostic::new("--seeds names no seed"));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = seeds.iter().find(|seed| !seen.insert(**seed)) {
            return Err(Diagnostic::new(format!("--seeds names {twice} twice"))
                .help("one seed gives the same inputs each time: name each once"));
        }
        for case in &mut plan.cases {
            case.seeds.clone_from(seeds);
        }
    }
    if let Some(budget) = selection.sim_budget {
        plan.simulation.budget = budget;
    }
    match selection.iters {
        Some(0) => return Err(Diagnostic::new("--iters 0 would measure nothing")),
        Some(iters) => plan.timing.iterations = iters,
        None => {}
    }
    Ok(())
}

/// `kernel/variant@shape`, where everything but the kernel may be left out.
pub(super) struct Filter {
    kernel: GlobMatcher,
    variant: Option<GlobMatcher>,
    shape: Option<GlobMatcher>,
}

impl Filter {
    pub(super) fn parse(text: &str) -> Result<Self, Diagnostic> {
        let (left, shape) = match text.split_once('@') {
            Some((left, shape)) => (left, Some(shape)),
            None => (text, None),
        };
        let (kernel, variant) = match left.split_once('/') {
            Some((kernel, variant)) => (kernel, Some(variant)),
            None => (left, None),
        };
        let part = |part: &str| {
            if part.is_empty() || part.contains(['/', '@']) {
                return Err(Diagnostic::new(format!("`{text}` is not a filter")).help(
                    "as in sdpa_fp8, sdpa_fp8/stage2, sdpa_fp8@mission, sdpa_fp8/stage*@mission",
                ));
            }
            glob(part)
        };
        Ok(Self {
            kernel: part(kernel)?,
            variant: variant.map(part).transpose()?,
            shape: shape.map(part).transpose()?,
        })
    }

    pub(super) fn has_shape(&self) -> bool {
        self.shape.is_some()
    }

    pub(super) fn fits(&self, id: &CaseId) -> bool {
        let fits = |glob: &Option<GlobMatcher>, name: &str| {
            glob.as_ref().is_none_or(|glob| glob.is_match(name))
        };
        self.kernel.is_match(&id.kernel)
            && fits(&self.variant, &id.variant)
            && fits(&self.shape, &id.shape)
    }
}

fn glob(text: &str) -> Result<GlobMatcher, Diagnostic> {
    Glob::new(text)
        .map(|glob| glob.compile_matcher())
        .map_err(|error| Diagnostic::new(format!("`{text}` is not a glob: {}", error.kind())))
}

fn by_filters(all: &[CaseId], filters: &[String]) -> Result<Vec<CaseId>, Diagnostic> {
    if filters.is_empty() {
        return Ok(all.to_vec());
    }
    let mut parsed = Vec::new();
    for text in filters {
        let filter = Filter::parse(text)?;
        if !all.iter().any(|id| filter.fits(id)) {
            let of_kernel: Vec<_> = all
                .iter()
                .filter(|id| filter.kernel.is_match(&id.kernel))
                .collect();
            let diagnostic = Diagnostic::new(format!("the filter `{text}` matches nothing"));
            return Err(if of_kernel.is_empty() {
                let kernel = text.split(['/', '@']).next().unwrap_or(text);
                diagnostic.help(known(
                    "kernel",
                    kernel,
                    all.iter().map(|id| id.kernel.as_str()),
                ))
            } else {
                diagnostic
                    .help(known(
                        "variant",
                        "",
                        of_kernel.iter().map(|id| id.variant.as_str()),
                    ))
                    .help(known(
                        "shape",
                        "",
                        of_kernel.iter().map(|id| id.shape.as_str()),
                    ))
            });
        }
        parsed.push(filter);
    }
    let fits = |id: &&CaseId| parsed.iter().any(|filter| filter.fits(id));
    Ok(all.iter().filter(fits).cloned().collect())
}

fn by_globs(
    cases: Vec<CaseId>,
    globs: &[String],
    what: &str,
    option: &str,
    name: impl Fn(&CaseId) -> &String,
) -> Result<Vec<CaseId>, Diagnostic> {
    if globs.is_empty() {
        return Ok(cases);
    }
    let mut matchers = Vec::new();
    for text in globs {
        let matcher = glob(text)?;
        if !cases.iter().any(|id| matcher.is_match(name(id))) {
            let names = cases.iter().map(|id| name(id).as_str());
            return Err(
                Diagnostic::new(format!("{option} `{text}` matches nothing"))
                    .help(known(what, text, names)),
            );
        }
        matchers.push(matcher);
    }
    let fits = |id: &CaseId| matchers.iter().any(|glob| glob.is_match(name(id)));
    Ok(cases.into_iter().filter(fits).collect())
}

/// `kernel: did you mean ...?`, each name once, in the order of the file.
fn known<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    format!("{what}: {}", did_you_mean(name, distinct.into_iter()))
}
