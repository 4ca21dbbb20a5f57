//! Lays out the ladder of a kernel: its variants in the order of gates.yaml, each compared with the one before it and
//! with the first, and what it adds. Pure.

use super::rivals;
use super::section::{ColumnKind, Room, Section, SectionPart, Table};
use crate::document;
use judge::{NotPassed, View};
use model::{Case, CaseId, Counter, Facet, Judgement, Metric, Num, Plan, Subject, Unit};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use system::error::Result;
use wording::reasons;
use wording::words;

pub const SCHEMA: &str = "gatekeeper.ladder/1";

pub const TITLE: &str = "each variant against the one before it";

/// The metrics of a launch on a GPU. The first says how fast it is.
const TIMED: [Metric; 6] = [
    Metric::P50,
    Metric::P90,
    Metric::P99,
    Metric::Cv,
    Metric::Cycles,
    Metric::MaxErr,
];

/// The metrics of a launch in the simulator, which has no times.
const SIMULATED: [Metric; 6] = [
    Metric::Counter(Counter::Instructions),
    Metric::Counter(Counter::GlobalLoadSectors),
    Metric::Counter(Counter::GlobalStoreSectors),
    Metric::Counter(Counter::SharedLoadWavefronts),
    Metric::Counter(Counter::SharedStoreWavefronts),
    Metric::MaxErr,
];

/// The metrics that do not depend on the shape.
const RESOURCES: [Metric; 2] = [Metric::Registers, Metric::Shared];

/// Variants of a kernel that compute the same.
#[derive(Serialize)]
pub struct Ladder {
    pub kernel: String,
    /// The name of the kernel, `sdpa_f16`. If a kernel has several ladders, the later ones also have the name of their
    /// variants: `sdpa_f16, causal`.
    #[serde(skip)]
    pub name: String,
    pub steps: Vec<Step>,
    pub shapes: Vec<Shape>,
}

#[derive(Serialize)]
pub struct Step {
    pub variant: String,
    /// The definitions that the variant adds to the step before, or all of them for the first variant.
    pub added: Vec<Added>,
    pub values: BTreeMap<Metric, Reading>,
}

/// The difference between two builds. `None` if one of the two has none.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Added {
    pub what: What,
    pub was: Option<String>,
    pub is: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Definition(String),
    Source,
    Entry,
    Flags,
}

#[derive(Serialize)]
pub struct Shape {
    pub shape: String,
    pub rungs: Vec<Rung>,
}

/// One variant of a ladder at one shape.
#[derive(Serialize)]
pub struct Rung {
    pub variant: String,
    pub values: BTreeMap<Metric, Reading>,
    /// `None` for the first variant, and if one of the two has no reading.
    pub to_the_one_before: Option<ToVariant>,
    pub to_the_first: Option<ToVariant>,
    /// Backends that were timed in the same run on the same GPU.
    pub to_rivals: Vec<ToRival>,
}

#[derive(Serialize)]
pub struct ToRival {
    pub rival: String,
    pub backend: String,
    pub p50: Num,
    /// The rival's value over this one's: above 1 if this variant is faster.
    pub times_as_fast: Num,
    pub message: String,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    Value(Num),
    Missing { code: &'static str, message: String },
}

/// The speed of one variant relative to another. In the simulator, the number of instructions counts.
#[derive(Serialize)]
pub struct ToVariant {
    pub variant: String,
    pub metric: Metric,
    /// The value of the other variant, and that value over this one's.
    pub value: Num,
    pub ratio: Num,
    pub message: String,
}

pub fn ladders(view: View, judgement: &Judgement) -> Vec<Ladder> {
    let source = Source {
        view,
        judgement,
        of_case: metrics(view),
    };
    let plan = view.plan();
    let mut kernels: Vec<&str> = Vec::new();
    for case in &plan.cases {
        if !kernels.contains(&case.id.kernel.as_str()) {
            kernels.push(&case.id.kernel);
        }
    }
    let several = kernels
        .into_iter()
        .flat_map(|kernel| alike(plan, kernel))
        .filter(|cases| variants(cases).len() > 1);
    let mut named: BTreeSet<String> = BTreeSet::new();
    let ladders = several.map(|cases| {
        let mut ladder = source.ladder(&cases);
        if !named.insert(ladder.kernel.clone()) {
            ladder.name = format!("{}, {}", ladder.kernel, common_name(&variants(&cases)));
        }
        ladder
    });
    ladders.collect()
}

/// Returns the first part of the names that all variants have, `causal` for `causal` and `mma_causal`, and else the
/// first name.
fn common_name<'a>(variants: &[&'a str]) -> &'a str {
    let Some((first, rest)) = variants.split_first() else {
        return "";
    };
    let has = |name: &str, part: &str| name.split('_').any(|word| word == part);
    first
        .split('_')
        .filter(|word| !word.is_empty())
        .find(|part| rest.iter().all(|name| has(name, part)))
        .unwrap_or(first)
}

/// Groups the cases of a kernel whose variants compute the same. No ratio has a meaning between the groups.
fn alike<'a>(plan: &'a Plan, kernel: &str) -> Vec<Vec<&'a Case>> {
    let mut groups: Vec<Vec<&Case>> = Vec::new();
    let cases: Vec<&Case> = plan
        .cases
        .iter()
        .filter(|case| case.id.kernel == kernel)
        .collect();
    for variant in variants(&cases) {
        let own = || {
            cases
                .iter()
                .copied()
                .filter(|case| case.id.variant == variant)
        };
        let fits = |group: &&mut Vec<&Case>| {
            let mut common = group
                .iter()
                .flat_map(|other| own().map(move |case| (*other, case)))
                .filter(|(a, b)| a.id.shape == b.id.shape)
                .peekable();
            common.peek().is_some() && common.all(|(a, b)| computes_same(plan, a, b))
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.extend(own()),
            None => groups.push(own().collect()),
        }
    }
    groups
}

fn computes_same(plan: &Plan, a: &Case, b: &Case) -> bool {
    // The whole task need not be equal: working memory and arguments are a variant's own.
    a.dims == b.dims && plan.task(a).reference == plan.task(b).reference
}

/// Returns the variants in the order of the plan.
fn variants<'a>(cases: &[&'a Case]) -> Vec<&'a str> {
    let mut variants: Vec<&str> = Vec::new();
    for case in cases {
        if !variants.contains(&case.id.variant.as_str()) {
            variants.push(&case.id.variant);
        }
    }
    variants
}

struct Source<'i, 'a> {
    view: View<'i, 'a>,
    judgement: &'i Judgement,
    of_case: &'static [Metric],
}

impl Source<'_, '_> {
    fn ladder(&self, cases: &[&Case]) -> Ladder {
        let mut steps: Vec<Step> = Vec::new();
        let mut before: Option<&Unit> = None;
        for variant in variants(cases) {
            let Some(case) = cases.iter().find(|case| case.id.variant == variant) else {
                continue;
            };
            let unit = self.view.plan().units.iter().find(|unit| {
                (&unit.id.kernel, &unit.id.variant) == (&case.id.kernel, &case.id.variant)
            });
            steps.push(Step {
                variant: variant.to_owned(),
                added: unit.map(|unit| added(before, unit)).unwrap_or_default(),
                values: self.values(&case.id, &RESOURCES),
            });
            before = unit;
        }
        let mut shapes: Vec<Shape> = Vec::new();
        for case in cases {
            let shape = match shapes.iter().position(|shape| shape.shape == case.id.shape) {
                Some(at) => at,
                None => {
                    shapes.push(Shape {
                        shape: case.id.shape.clone(),
                        rungs: Vec::new(),
                    });
                    shapes.len() - 1
                }
            };
            if let Some(shape) = shapes.get_mut(shape) {
                let rung = self.rung(case, &shape.rungs);
                shape.rungs.push(rung);
            }
        }
        let kernel = cases.first().map(|case| case.id.kernel.clone());
        let kernel = kernel.unwrap_or_default();
        Ladder {
            name: kernel.clone(),
            kernel,
            steps,
            shapes,
        }
    }

    fn rung(&self, case: &Case, before: &[Rung]) -> Rung {
        let values = self.values(&case.id, self.of_case);
        let relative = |other: Option<&Rung>| {
            let other = other?;
            let metric = *self.of_case.first()?;
            let (own, their) = (number(&values, metric)?, number(&other.values, metric)?);
            Some(ToVariant {
                variant: other.variant.clone(),
                metric,
                value: Num(their),
                ratio: Num(own / their),
                message: match metric.facet() {
                    Facet::Times => words::speed(own, their, &other.variant)?,
                    _ => words::amount(metric, own, their, &other.variant)?,
                },
            })
        };
        Rung {
            variant: case.id.variant.clone(),
            to_the_one_before: relative(before.last()),
            to_the_first: relative(before.first()),
            to_rivals: self.to_rivals(&case.id),
            values,
        }
    }

    fn to_rivals(&self, id: &CaseId) -> Vec<ToRival> {
        self.judgement
            .rivals
            .iter()
            .flat_map(|standing| {
                standing
                    .compared
                    .iter()
                    .filter(|comparison| comparison.case == *id)
                    .map(move |comparison| (standing, comparison))
            })
            .filter_map(|(standing, comparison)| {
                let name = format!("{} {}", standing.rival, comparison.backend);
                Some(ToRival {
                    rival: standing.rival.clone(),
                    backend: comparison.backend.clone(),
                    p50: comparison.theirs,
                    times_as_fast: comparison.times_as_fast,
                    message: words::speed(comparison.ours.0, comparison.theirs.0, &name)?,
                })
            })
            .collect()
    }

    fn values(&self, id: &CaseId, metrics: &[Metric]) -> BTreeMap<Metric, Reading> {
        let subject = Subject::Case(id.clone());
        let reading = |metric: Metric| match self.view.shown(&subject, metric) {
            Ok(value) => Reading::Value(Num(value)),
            Err(NotPassed { reason, .. }) => Reading::Missing {
                code: reason.code(),
                message: reasons::reason(self.view.environment(), &subject, &reason),
            },
        };
        metrics
            .iter()
            .map(|metric| (*metric, reading(*metric)))
            .collect()
    }
}

fn added(before: Option<&Unit>, unit: &Unit) -> Vec<Added> {
    let nothing = BTreeMap::new();
    let was = before.map_or(&nothing, |unit| &unit.defines);
    let names: BTreeSet<&String> = was.keys().chain(unit.defines.keys()).collect();
    let definitions = names.into_iter().map(|name| Added {
        what: What::Definition(name.clone()),
        was: was.get(name).cloned(),
        is: unit.defines.get(name).cloned(),
    });
    let entry = |unit: &Unit| unit.call.names().join(", ");
    let part = |what: What, of: &dyn Fn(&Unit) -> String| {
        // The first variant is described by its definitions alone.
        let was = before.map(of)?;
        Some(Added {
            what,
            was: Some(was),
            is: Some(of(unit)),
        })
    };
    let parts = [
        part(What::Source, &|unit| unit.source.clone()),
        part(What::Entry, &entry),
        part(What::Flags, &|unit| unit.flags.join(" ")),
    ];
    let all = definitions.chain(parts.into_iter().flatten());
    all.filter(|added| added.was != added.is).collect()
}

impl Added {
    /// Returns an addition in words: `SYNC_POLICY=5`, `SYNC_POLICY 2 -> 5`, `without SYNC_POLICY`.
    fn words(&self) -> String {
        let name = match &self.what {
            What::Definition(name) => name.as_str(),
            What::Source => "source",
            What::Entry => "entry",
            What::Flags => "flags",
        };
        match (&self.was, &self.is) {
            (Some(was), Some(is)) => format!("{name} {was} -> {is}"),
            (None, Some(is)) => format!("{name}={is}"),
            (_, None) => format!("without {name}"),
        }
    }
}

/// Lays out a group of sections for each ladder.
pub fn lay_out(
    view: View,
    judgement: &Judgement,
    ladders: &[Ladder],
) -> Vec<Vec<Section<'static>>> {
    if ladders.is_empty() {
        let none = "no kernel of this record has two variants that compute the same".to_owned();
        let none = Section::with_lines("ladder", "No ladder", vec![none]);
        return vec![vec![none]];
    }
    let mut groups: Vec<_> = ladders
        .iter()
        .map(|ladder| sections(view, ladder))
        .collect();
    let mut lines: Vec<String> = Vec::new();
    if view.is_simulated() {
        lines.push(
            "times are not measured in the simulator: its counters stand here instead".to_owned(),
        );
    }
    lines.push(legend(view, ladders));
    lines.push("a ratio is of two medians of this run, and no verdict".to_owned());
    lines.extend(rivals::lines(view.environment(), judgement));
    lines.extend(missing(ladders));
    groups.push(vec![Section::with_lines("note", "Notes", lines)]);
    groups
}

/// Returns the metrics that are shown for a case on a GPU, or in the simulator if there was no GPU. The first says how
/// fast the case is.
pub fn metrics(view: View) -> &'static [Metric] {
    if view.is_simulated() {
        &SIMULATED
    } else {
        &TIMED
    }
}

/// Returns the sections for one ladder: what each step adds, and a table for each shape.
fn sections(view: View, ladder: &Ladder) -> Vec<Section<'static>> {
    let heading = format!(
        "{}: {}, in the order of gates.yaml",
        ladder.name,
        words::plural(ladder.steps.len(), "variant")
    );
    let title = format!("The ladder of {}", ladder.name);
    let first = Section::new(
        "ladder",
        &title,
        vec![
            SectionPart::Lines(vec![heading]),
            SectionPart::Table(steps(ladder)),
        ],
    );
    let shapes = ladder.shapes.iter().map(|shape| {
        let title = format!("{}@{}", ladder.kernel, shape.shape);
        Section::with_table("", &title, rungs(view, ladder, shape))
    });
    std::iter::once(first).chain(shapes).collect()
}

/// Returns a table of what each variant adds to the one before it.
pub fn steps(ladder: &Ladder) -> Table {
    let rows = ladder.steps.iter().map(|step| {
        let added: Vec<_> = step.added.iter().map(Added::words).collect();
        let added = if added.is_empty() {
            "nothing in its build".to_owned()
        } else {
            added.join(", ")
        };
        vec![step.variant.clone(), added]
    });
    let columns = [("variant", ColumnKind::Name), ("adds", ColumnKind::Text)];
    Table::new(columns, rows.collect())
}

/// Returns a table of the variants at one shape, with a column for each number. Without any number it has no rows, and
/// a note says what is missing.
pub fn rungs(view: View, ladder: &Ladder, shape: &Shape) -> Table {
    let all = &shape.rungs;
    let mut columns: Vec<(String, Vec<String>)> = Vec::new();
    let of_rungs = |name: &str, metric: Metric| {
        let values = all.iter().map(|rung| number(&rung.values, metric));
        words::column(name, metric, &values.collect::<Vec<_>>())
    };
    let of_steps = |name: &str, metric: Metric| {
        let step = |rung: &Rung| {
            ladder
                .steps
                .iter()
                .find(|step| step.variant == rung.variant)
        };
        let values = all.iter().map(|rung| number(&step(rung)?.values, metric));
        words::column(name, metric, &values.collect::<Vec<_>>())
    };
    let times = |head: &str, of: &dyn Fn(&Rung) -> Option<f64>| {
        let cell = |rung: &Rung| of(rung).map_or("-".to_owned(), |times| format!("{times:.2}"));
        (head.to_owned(), all.iter().map(cell).collect())
    };
    let of_case = if view.is_simulated() {
        &SIMULATED[..]
    } else {
        &TIMED[..1]
    };
    let (first, others) = of_case.split_at(1);
    columns.extend(first.iter().map(|rival| of_rungs(short(*rival), *rival)));
    columns.push(times("step ×", &|rung| {
        as_fast(rung.to_the_one_before.as_ref()?)
    }));
    columns.push(times("total ×", &|rung| {
        as_fast(rung.to_the_first.as_ref()?)
    }));
    let always = columns.len();
    for (rival, backend) in backends(shape) {
        let of_it = |ratio: &&ToRival| (&*ratio.rival, &*ratio.backend) == (rival, backend);
        columns.push(times(backend, &|rung| {
            Some(rung.to_rivals.iter().find(of_it)?.times_as_fast.0)
        }));
    }
    columns.push(of_steps("regs", Metric::Registers));
    columns.push(of_steps("smem", Metric::Shared));
    columns.extend(others.iter().map(|rival| of_rungs(short(*rival), *rival)));

    let name = format!("{}@{}", ladder.kernel, shape.shape);
    let has_any = all.iter().any(|rung| has_value(&rung.values));
    let rows = all
        .iter()
        .enumerate()
        .filter(|_| has_any)
        .map(|(at, rung)| {
            let cells = columns.iter().filter_map(|(_, cells)| cells.get(at));
            std::iter::once(&rung.variant)
                .chain(cells)
                .cloned()
                .collect()
        });
    let heads = columns
        .iter()
        .map(|(head, _)| (head.as_str(), ColumnKind::Number));
    let heads = [(name.as_str(), ColumnKind::Name)].into_iter().chain(heads);
    let mut table = Table::new(heads, rows.collect());
    for column in table.columns.iter_mut().skip(1 + always) {
        column.room = Room::IfItFits;
    }
    table
}

/// Returns the backends that were timed at this shape, with their rivals.
fn backends(shape: &Shape) -> Vec<(&str, &str)> {
    let mut known: Vec<(&str, &str)> = Vec::new();
    for rival in shape.rungs.iter().flat_map(|rung| &rung.to_rivals) {
        if !known.contains(&(&rival.rival, &rival.backend)) {
            known.push((&rival.rival, &rival.backend));
        }
    }
    known
}

/// Returns how many times as fast a variant is, or in the simulator, with how many times fewer instructions.
fn as_fast(to: &ToVariant) -> Option<f64> {
    (to.ratio.0 > 0.0).then(|| 1.0 / to.ratio.0)
}

/// Explains the columns of `rungs` to a reader who sees them for the first time.
pub fn legend(view: View, ladders: &[Ladder]) -> String {
    let rivals: BTreeSet<&str> = ladders
        .iter()
        .flat_map(|shape| &shape.shapes)
        .flat_map(backends)
        .map(|(rival, _)| rival)
        .collect();
    let rivals: Vec<String> = rivals.into_iter().map(str::to_owned).collect();
    let metric = if view.is_simulated() {
        "how many times as few instructions"
    } else {
        "how many times as fast"
    };
    let backends = if rivals.is_empty() {
        String::new()
    } else {
        format!(
            "; the other names are backends of {}",
            words::listed(&rivals)
        )
    };
    format!(
        "step × and total ×: {metric} as the variant before and as the first{backends}; over 1 is better"
    )
}

/// Returns a shorter name of a counter.
fn short(metric: Metric) -> &'static str {
    match metric {
        Metric::Counter(Counter::GlobalLoadSectors) => "load sectors",
        Metric::Counter(Counter::GlobalStoreSectors) => "store sectors",
        Metric::Counter(Counter::SharedLoadWavefronts) => "load wavefronts",
        Metric::Counter(Counter::SharedStoreWavefronts) => "store wavefronts",
        metric => metric.name(),
    }
}

/// Returns the value of a metric, or `None` if it is unknown or missing.
pub fn number(values: &BTreeMap<Metric, Reading>, metric: Metric) -> Option<f64> {
    match values.get(&metric)? {
        Reading::Value(value) => Some(value.0),
        Reading::Missing { .. } => None,
    }
}

/// Returns true if there is a value. A table of dashes would say less than the note on what is missing.
fn has_value(values: &BTreeMap<Metric, Reading>) -> bool {
    values
        .values()
        .any(|reading| matches!(reading, Reading::Value(_)))
}

/// The number of subjects that a line names. If there are more, they are counted.
const NAMED: usize = 3;

/// Values that are missing for one kind of reason.
struct Missing<'a> {
    code: &'a str,
    metrics: Vec<Metric>,
    subjects: Vec<String>,
    /// The message of the first missing value.
    message: &'a str,
}

/// Returns why values are missing: a line for each kind of reason, with the values that it concerns.
fn missing(ladders: &[Ladder]) -> Vec<String> {
    let mut found: Vec<Missing> = Vec::new();
    for ladder in ladders {
        for step in &ladder.steps {
            let subject = format!("{}/{}", ladder.kernel, step.variant);
            add_missing(&mut found, &subject, &step.values);
        }
        for shape in &ladder.shapes {
            for rung in &shape.rungs {
                let subject = format!("{}/{}@{}", ladder.kernel, rung.variant, shape.shape);
                add_missing(&mut found, &subject, &rung.values);
            }
        }
    }
    found
        .iter()
        .map(|missing| {
            let metrics: Vec<_> = missing.metrics.iter().map(ToString::to_string).collect();
            let subjects = match missing.subjects.split_at_checked(NAMED) {
                Some((first, rest)) if !rest.is_empty() => {
                    format!("{} and {} more", first.join(", "), rest.len())
                }
                _ => words::listed(&missing.subjects),
            };
            let metrics = words::listed(&metrics);
            format!("no {metrics} of {subjects}: {}", missing.message)
        })
        .collect()
}

fn add_missing<'a>(
    found: &mut Vec<Missing<'a>>,
    subject: &str,
    values: &'a BTreeMap<Metric, Reading>,
) {
    let mut own: Vec<Missing> = Vec::new();
    for (metric, reading) in values {
        let Reading::Missing { code, message } = reading else {
            continue;
        };
        match own.iter_mut().find(|missing| missing.code == *code) {
            Some(missing) => missing.metrics.push(*metric),
            None => own.push(Missing {
                code,
                metrics: vec![*metric],
                subjects: vec![subject.to_owned()],
                message,
            }),
        }
    }
    for missing in own {
        let is_same =
            |known: &&mut Missing| (known.code, &known.metrics) == (missing.code, &missing.metrics);
        match found.iter_mut().find(is_same) {
            Some(known) => known.subjects.extend(missing.subjects),
            None => found.push(missing),
        }
    }
}

#[derive(Serialize)]
struct LadderDocument<'a> {
    schema: &'static str,
    simulated: bool,
    ladders: &'a [Ladder],
}

/// Returns the ladders as JSON.
///
/// # Errors
/// Fails with an environment error if they cannot be written as JSON.
pub fn json(view: View, ladders: &[Ladder]) -> Result<String> {
    let document = LadderDocument {
        schema: SCHEMA,
        simulated: view.is_simulated(),
        ladders,
    };
    document::json("the ladder", &document)
}

#[cfg(test)]
mod tests;
