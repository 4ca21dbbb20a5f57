//! Filters: which cases of a resolved file are run.

use super::yaml::suggest;
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
    let chosen = filter_cases(&all, &selection.filters)?;

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
            return Err(Diagnostic::new("--seeds lists no seed"));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = seeds.iter().find(|seed| !seen.insert(**seed)) {
            return Err(Diagnostic::new(format!("--seeds: duplicate seed {twice}"))
                .help("a seed gives the same inputs each time: list each once"));
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
    text: String,
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
                    "examples: sdpa_fp8, sdpa_fp8/stage2, sdpa_fp8@mission, sdpa_fp8/stage*@mission",
                ));
            }
            parse_glob(part)
        };
        Ok(Self {
            text: text.to_owned(),
            kernel: part(kernel)?,
            variant: variant.map(part).transpose()?,
            shape: shape.map(part).transpose()?,
        })
    }

    pub(super) fn has_shape(&self) -> bool {
        self.shape.is_some()
    }

    pub(super) fn fits(&self, id: &CaseId) -> bool {
        self.kernel.is_match(&id.kernel)
            && fits(&self.variant, &id.variant)
            && fits(&self.shape, &id.shape)
    }

    /// Names the part that matches nothing, or both where no case has the two together.
    fn explain_no_match(&self, all: &[CaseId]) -> Diagnostic {
        let diagnostic = Diagnostic::new(format!("the filter `{}` matches nothing", self.text));
        let of_kernel: Vec<_> = all
            .iter()
            .filter(|id| self.kernel.is_match(&id.kernel))
            .collect();
        if of_kernel.is_empty() {
            let kernels = all.iter().map(|id| id.kernel.as_str());
            return diagnostic.help(suggest_names("kernel", self.kernel.glob().glob(), kernels));
        }
        let variants = of_kernel.iter().map(|id| id.variant.as_str());
        let shapes = of_kernel.iter().map(|id| id.shape.as_str());
        match (
            unmatched(&self.variant, variants.clone()),
            unmatched(&self.shape, shapes.clone()),
        ) {
            (Some(variant), None) => diagnostic.help(suggest_names("variant", variant, variants)),
            (None, Some(shape)) => diagnostic.help(suggest_names("shape", shape, shapes)),
            (variant, shape) => diagnostic
                .help(suggest_names(
                    "variant",
                    variant.unwrap_or_default(),
                    variants,
                ))
                .help(suggest_names("shape", shape.unwrap_or_default(), shapes)),
        }
    }
}

/// The pattern, where it matches none of the names.
fn unmatched<'a, 'b>(
    glob: &'a Option<GlobMatcher>,
    mut names: impl Iterator<Item = &'b str>,
) -> Option<&'a str> {
    let unmatched = !names.any(|name| fits(glob, name));
    let glob = glob.as_ref().filter(|_| unmatched)?;
    Some(glob.glob().glob())
}

fn fits(glob: &Option<GlobMatcher>, name: &str) -> bool {
    glob.as_ref().is_none_or(|glob| glob.is_match(name))
}

fn parse_glob(text: &str) -> Result<GlobMatcher, Diagnostic> {
    Glob::new(text)
        .map(|glob| glob.compile_matcher())
        .map_err(|error| Diagnostic::new(format!("`{text}` is not a glob: {}", error.kind())))
}

fn filter_cases(all: &[CaseId], filters: &[String]) -> Result<HashSet<CaseId>, Diagnostic> {
    if filters.is_empty() {
        return Ok(all.iter().cloned().collect());
    }
    let filters: Vec<Filter> = filters
        .iter()
        .map(|text| Filter::parse(text))
        .collect::<Result<_, _>>()?;
    if let Some(filter) = filters
        .iter()
        .find(|filter| !all.iter().any(|id| filter.fits(id)))
    {
        return Err(filter.explain_no_match(all));
    }
    let fits = |id: &&CaseId| filters.iter().any(|filter| filter.fits(id));
    Ok(all.iter().filter(fits).cloned().collect())
}

/// `kernel: did you mean ...?`, each name once, in the order of the file.
fn suggest_names<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    format!("{what}: {}", suggest(name, distinct.into_iter()))
}
