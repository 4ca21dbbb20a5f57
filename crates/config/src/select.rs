//! Filters: selects the cases of a resolved file that are run.

use super::binaries::BinaryGates;
use super::loaded::{Loaded, Whole};
use super::programs::Program;
use super::yaml::suggest;
use globset::GlobMatcher;
use model::{BadFilter, CaseId, Filter, Gate, Plan, Rule, Subject, Target};
use std::collections::HashSet;
use system::error::Diagnostic;

/// The part of the file to run. Empty means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Filters such as `kernel`, `kernel/variant`, `kernel@shape` and `kernel/variant@shape`, in which each part is a
    /// glob. A case is selected if any filter fits it.
    pub filters: Vec<String>,
    /// Cases that are selected although the file does not have them, because a base must say what became of them.
    pub gone: Vec<CaseId>,
    /// The seeds that replace the file's.
    pub seeds: Option<Vec<u64>>,
    /// The number of batched samples of each process, which replaces the file's.
    pub iters: Option<u32>,
    /// The number of warp instructions that the simulator may spend on a case, which replaces the file's.
    pub sim_budget: Option<u64>,
}

/// Keeps what the selection names, and the whole file next to it.
pub fn select(loaded: &mut Loaded, selection: &Selection) -> Result<(), Diagnostic> {
    let filters = find_filters(&loaded.all, &loaded.programs, &selection.filters);
    let mut filters = filters.map_err(|problem| explain_files(problem, &loaded.binaries))?;
    for id in &selection.gone {
        filters.push(parse_filter(&id.to_string())?);
    }
    loaded.programs.retain(|program| {
        filters.is_empty() || filters.iter().any(|filter| may_fit(filter, program))
    });
    replace_values(&mut loaded.plan, selection)?;
    loaded.reseeded = selection.seeds.is_some();
    let Loaded {
        plan,
        gates,
        targets,
        whole,
        ..
    } = loaded;
    narrow(plan, gates, &mut Vec::new(), Vec::new());
    *whole = Whole {
        plan: plan.clone(),
        gates: gates.clone(),
    };
    narrow(plan, gates, targets, filters);
    Ok(())
}

fn replace_values(plan: &mut Plan, selection: &Selection) -> Result<(), Diagnostic> {
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

/// Keeps the cases and gates of a plan that match these filters.
pub fn narrow(
    plan: &mut Plan,
    gates: &mut Vec<Gate>,
    targets: &mut Vec<Target>,
    filters: Vec<Filter>,
) {
    plan.filters = filters;
    let (chosen, left_out): (Vec<_>, Vec<_>) = plan
        .cases
        .iter()
        .map(|case| case.id.clone())
        .partition(|id| plan.selects(id));
    plan.left_out
        .extend(left_out.into_iter().map(|id| id.kernel));
    for expected in &mut plan.expected {
        let mut cases = plan.cases.iter().filter(|case| expected.is_of(&case.id));
        expected.left_out |= cases.any(|case| !chosen.contains(&case.id));
    }
    plan.cases.retain(|case| chosen.contains(&case.id));
    plan.expected
        .retain(|expected| chosen.iter().any(|id| expected.is_of(id)));
    plan.fallbacks
        .retain(|fallback| chosen.iter().any(|id| fallback.is_of(id)));
    let built: HashSet<(&str, &str)> = chosen
        .iter()
        .map(|id| (id.kernel.as_str(), id.variant.as_str()))
        .collect();
    plan.units
        .retain(|unit| built.contains(&(unit.id.kernel.as_str(), unit.id.variant.as_str())));
    targets.retain(|target| match &target.subject {
        Subject::Case(id) => chosen.contains(id),
        Subject::Unit(id) => built.contains(&(id.kernel.as_str(), id.variant.as_str())),
    });
    plan.rivals
        .retain(|rival| built.iter().any(|(kernel, _)| *kernel == rival.kernel));
    gates.retain(|gate| match &gate.subject {
        Subject::Case(id) => chosen.contains(id),
        Subject::Unit(id) => {
            let siblings = built
                .iter()
                .filter(|(kernel, _)| *kernel == id.kernel)
                .count();
            built.contains(&(id.kernel.as_str(), id.variant.as_str()))
                // A variant that is alone has nothing to differ from.
                && (gate.rule != Rule::HasEffect || siblings > 1)
        }
    });
}

pub(super) fn parse_filter(text: &str) -> Result<Filter, Diagnostic> {
    text.parse().map_err(|bad: BadFilter| {
        let diagnostic = Diagnostic::new(bad.to_string());
        match bad {
            BadFilter::Form(_) => diagnostic.help(
                "examples: sdpa_fp8, sdpa_fp8/stage2, sdpa_fp8@mission, sdpa_fp8/stage*@mission",
            ),
            BadFilter::Glob { .. } => diagnostic,
        }
    })
}

/// Returns true if a filter can fit a launch of a program. The launches are known only after the program ran.
fn may_fit(filter: &Filter, program: &Program) -> bool {
    filter.kernel.is_match(&program.name)
}

/// Names the part that matches nothing, or both parts if each matches but no case has the two together.
fn explain_no_match(filter: &Filter, all: &[CaseId], programs: &[Program]) -> Diagnostic {
    let diagnostic = Diagnostic::new(format!("the filter `{filter}` matches nothing"));
    if all.is_empty() && programs.is_empty() {
        return diagnostic;
    }
    let of_kernel: Vec<_> = all
        .iter()
        .filter(|id| filter.kernel.is_match(&id.kernel))
        .collect();
    if of_kernel.is_empty() {
        let kernels = all.iter().map(|id| id.kernel.as_str());
        let programs = programs.iter().map(|program| program.name.as_str());
        return diagnostic.help(suggest_names(
            "kernel",
            filter.kernel.glob().glob(),
            kernels.chain(programs),
        ));
    }
    let variants = of_kernel.iter().map(|id| id.variant.as_str());
    let shapes = of_kernel.iter().map(|id| id.shape.as_str());
    match (
        unmatched(&filter.variant, variants.clone()),
        unmatched(&filter.shape, shapes.clone()),
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

/// Explains to a user who names a kernel of a compiled file that filters select only kernels that are built.
fn explain_files(problem: Diagnostic, binaries: &[BinaryGates]) -> Diagnostic {
    let names: Vec<_> = binaries.iter().map(|binary| binary.name.as_str()).collect();
    if names.is_empty() {
        problem
    } else {
        problem.help(format!(
            "kernels of compiled files ({}) cannot be picked: `gatekeeper binary` judges all of them",
            names.join(", ")
        ))
    }
}

/// Returns the pattern if it matches none of the names.
fn unmatched<'a, 'b>(
    glob: &'a Option<GlobMatcher>,
    mut names: impl Iterator<Item = &'b str>,
) -> Option<&'a str> {
    let glob = glob.as_ref()?;
    let unmatched = !names.any(|name| glob.is_match(name));
    unmatched.then(|| glob.glob().glob())
}

/// Parses filters.
///
/// # Errors
/// Returns the first text that is no filter, or a filter that fits none of the cases.
pub fn parse_filters(all: &[CaseId], written: &[String]) -> Result<Vec<Filter>, Diagnostic> {
    find_filters(all, &[], written)
}

fn find_filters(
    all: &[CaseId],
    programs: &[Program],
    written: &[String],
) -> Result<Vec<Filter>, Diagnostic> {
    let filters: Vec<Filter> = written
        .iter()
        .map(|text| parse_filter(text))
        .collect::<Result<_, _>>()?;
    let mut unmatched = filters.iter();
    let fits = |filter: &&Filter| {
        all.iter().any(|id| filter.fits(id))
            || programs.iter().any(|program| may_fit(filter, program))
    };
    match unmatched.find(|filter| !fits(filter)) {
        Some(filter) => Err(explain_no_match(filter, all, programs)),
        None => Ok(filters),
    }
}

/// Suggests names, as in `kernel: did you mean ...?`. Each name occurs once, in the order of the file.
fn suggest_names<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut distinct = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    format!("{what}: {}", suggest(name, distinct.into_iter()))
}
