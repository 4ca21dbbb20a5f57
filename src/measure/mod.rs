//! `explain --measure`: takes the change of one case apart, and measures what each piece of it costs. Nothing is inferred:
//! each piece is added to the base alone, and taken from head alone, and both are built, checked and measured.
//!
//! `hunks` divides the difference of two files, `pieces` adds flags, macros, launch and compiler and makes the case with
//! some of the pieces, `apart` chooses which combinations to try, and `laboratory` builds and measures them.

mod apart;
mod hunks;
mod laboratory;
mod pieces;

use apart::{Laboratory, MetricChange, MetricChanges, PieceSet, TakenApart, take_apart};
use config::Loaded;
use explain::{MeasuredChange, MeasuredMetric, MeasuredPair, MeasuredPart, PartEffect};
use laboratory::BenchLaboratory;

use model::{Case, CaseId, Counter, Gate, Metric, Num, Plan, Subject, Tier, Unit};
use pieces::{CaseOfSide, CasePieces};
use pipeline::event::Event;
use pipeline::{Bench, Change, Request};
use std::collections::BTreeMap;
use std::path::PathBuf;
use system::cache::Cache;
use system::error::{Error, Result};
use system::temporary::TemporaryDir;

/// The most pieces that a change is taken apart into.
const MOST_PIECES: usize = 64;

/// One side of a change as files and plan.
struct SideFiles {
    top: PathBuf,
    root: PathBuf,
    plan: Plan,
}

/// Measures the pieces of a change of one case. The shares are those of `metric`, if it changed.
///
/// # Errors
/// Usage, if the case cannot be taken apart: it is new, compiled already, or not different. Environment, if the machine
/// failed.
pub fn measure(
    id: &CaseId,
    metric: Option<Metric>,
    (request, change): (&Request, Change),
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<MeasuredChange> {
    let Some(base) = &change.base else {
        return Err(Error::usage("there is no base to take the change from"));
    };
    let isolation = base.file_isolation.as_ref();
    let top = |own: Option<&PathBuf>| {
        let top = match own {
            Some(top) => top.clone(),
            None => {
                records::repo::top(&change.head.root).unwrap_or_else(|_| change.head.root.clone())
            }
        };
        top.canonicalize().unwrap_or(top)
    };
    let base = SideFiles {
        top: top(isolation.map(|files| &files.top)),
        root: base.root.clone(),
        plan: base.spec.plan.clone(),
    };
    let head = SideFiles {
        top: top(isolation.map(|files| &files.head_top)),
        root: change.head.root.clone(),
        plan: change.head.plan.clone(),
    };
    let gates = output_gates(&change.head, id);
    let waiting = |text: &str| on(Event::Waiting(text.to_owned()));
    let (builder, mut bench) = Bench::open(request, change, cache, &waiting, on)?;
    let (head_unit, head_case) = find_case(&head.plan, id, &bench)
        .ok_or_else(|| refuse(id, "nothing of it is built for this device"))?;
    let base_unit = base.plan.unit(&head_unit.id);
    let (Some(base_unit), Some(base_case)) = (base_unit, base.plan.case(id)) else {
        return Err(refuse(id, "the base does not have it"));
    };
    if [head_unit, base_unit]
        .iter()
        .any(|unit| unit.is_compiled() || unit.is_group())
    {
        return Err(refuse(
            id,
            "it was compiled already, and has no source to take apart",
        ));
    }
    let of_head = bench.toolchain().clone();
    let of_base = bench
        .base_toolchain()
        .cloned()
        .unwrap_or_else(|| of_head.clone());
    let side = |files: &SideFiles, unit: &Unit, case: &Case, toolchain| CaseOfSide {
        top: files.top.clone(),
        root: files.root.clone(),
        unit: unit.clone(),
        case: case.clone(),
        toolchain,
    };
    let base_side = side(&base, base_unit, base_case, &of_base);
    let head_side = side(&head, head_unit, head_case, &of_head);
    let build = |side: &CaseOfSide| {
        let units = std::slice::from_ref(&side.unit);
        let built = builder.build_at(&side.root, side.toolchain, units)?;
        built
            .into_iter()
            .next()
            .filter(|built| built.artifact.is_some())
            .ok_or_else(|| refuse(id, "one of its sides does not build"))
    };
    let built = [build(&base_side)?, build(&head_side)?];
    let pieces = CasePieces::find(&base_side, &head_side, [&built[0], &built[1]])?;
    match pieces.len() {
        0 => {
            return Err(refuse(
                id,
                "nothing that it is made of differs from the base",
            ));
        }
        count if count > MOST_PIECES => {
            return Err(refuse(
                id,
                &format!("it differs in {count} places, and at most {MOST_PIECES} are measured"),
            )
            .help("measure a smaller change: run --base with a nearer commit"));
        }
        _ => {}
    }
    let scratch = cache.dir("scratch")?;
    let files = TemporaryDir::new_in(&scratch).map_err(|error| {
        Error::environment(format!("{} cannot be written: {error}", scratch.display()))
            .caused_by(error)
    })?;
    let mut laboratory = BenchLaboratory {
        pieces: &pieces,
        root: files.path(),
        builder: &builder,
        bench: &mut bench,
        gates: &gates,
        say: &waiting,
        sets: BTreeMap::new(),
    };
    let ends = [PieceSet::new(), (0..pieces.len()).collect()];
    for (tried, name) in laboratory
        .try_sets(&ends)?
        .into_iter()
        .zip(["base", "head"])
    {
        tried.map_err(|why| refuse(id, &format!("its {name} is not measured: {why}")))?;
    }
    let choose = |whole: &MetricChanges| metric_of_shares(whole, metric);
    let apart = take_apart(pieces.len(), choose, &mut laboratory)?;
    Ok(describe(&apart, &pieces, choose(&apart.whole)))
}

fn refuse(id: &CaseId, why: &str) -> Error {
    Error::usage(format!("{id} cannot be taken apart: {why}"))
}

/// Returns the unit and the case that the bench runs.
fn find_case<'p>(plan: &'p Plan, id: &CaseId, bench: &Bench) -> Option<(&'p Unit, &'p Case)> {
    let unit = match bench.device() {
        Some(device) => judge::unit_for(plan, id, device)?,
        None => judge::unit_to_simulate(plan, id)?,
    };
    Some((unit, plan.case(id)?))
}

/// Returns head's absolute gates on the output of a case. Without them it could not be shown to be right.
fn output_gates(head: &Loaded, id: &CaseId) -> Vec<Gate> {
    let subject = Subject::Case(id.clone());
    head.gates
        .iter()
        .filter(|gate| gate.subject == subject && judge::bounds_error(&gate.rule))
        .cloned()
        .collect()
}

/// Returns the metric that shares are given of: the wanted one if it changed, or else the time, or the counter that a gate
/// can rest on and that changed most. Sectors and passes through shared memory are close enough in size to be compared.
fn metric_of_shares(whole: &MetricChanges, wanted: Option<Metric>) -> Option<Metric> {
    let changed = |metric: &Metric| whole.get(metric).is_some_and(|found| found.change != 0.0);
    let size = |metric: &Metric| whole.get(metric).map_or(0.0, |found| found.change.abs());
    let is_gated = |metric: &Metric| matches!(metric, Metric::Counter(counter) if counter.tier() == Tier::Gate);
    let instructions = Metric::Counter(Counter::Instructions);
    wanted
        .into_iter()
        .chain([Metric::P50])
        .find(changed)
        .or_else(|| {
            whole
                .keys()
                .copied()
                .filter(|metric| is_gated(metric) && changed(metric))
                .max_by(|a, b| size(a).total_cmp(&size(b)))
        })
        .or_else(|| [instructions, Metric::Registers].into_iter().find(changed))
        .or_else(|| whole.keys().copied().find(changed))
}

/// Describes a change that was taken apart, with the metrics that anything changed.
fn describe(apart: &TakenApart, pieces: &CasePieces, first: Option<Metric>) -> MeasuredChange {
    let is_changed = |metric: &Metric| {
        apart
            .parts
            .iter()
            .flat_map(|part| [&part.added_to_base, &part.taken_from_head])
            .chain([&apart.whole])
            .filter_map(|changes| changes.get(metric))
            .any(|found| found.change.abs() > found.error)
    };
    let growth = |metric: &Metric| {
        let whole = apart.whole.get(metric).copied().unwrap_or_default();
        (whole.change / whole.from).abs()
    };
    let mut metrics: Vec<Metric> = apart.whole.keys().copied().filter(is_changed).collect();
    metrics.sort_by(|a, b| growth(b).total_cmp(&growth(a)));
    metrics.sort_by_key(|metric| Some(*metric) != first);
    let effects = |part: &apart::PartChanges| {
        metrics
            .iter()
            .map(|metric| {
                let find = |changes: &MetricChanges| {
                    changes.get(metric).copied().unwrap_or(MetricChange {
                        from: f64::NAN,
                        change: f64::NAN,
                        error: f64::NAN,
                    })
                };
                let added = find(&part.added_to_base);
                let taken = find(&part.taken_from_head);
                PartEffect {
                    added_to_base: Num(added.change),
                    taken_from_head: Num(taken.change),
                    error: Num(added.error.hypot(taken.error) / 2.0),
                }
            })
            .collect::<Vec<_>>()
    };
    let mut parts: Vec<(usize, MeasuredPart)> = apart
        .parts
        .iter()
        .map(|part| MeasuredPart {
            pieces: part
                .pieces
                .iter()
                .filter_map(|piece| pieces.describe(*piece))
                .cloned()
                .collect(),
            effects: effects(part),
        })
        .enumerate()
        .collect();
    let size = |part: &MeasuredPart| {
        part.effects
            .first()
            .map_or(0.0, |effect| effect.middle().abs())
    };
    parts.sort_by(|(_, a), (_, b)| size(b).total_cmp(&size(a)));
    let number = |index: usize| {
        parts
            .iter()
            .position(|(at, _)| *at == index)
            .map_or(0, |at| at + 1)
    };
    let pairs = apart.pairs.iter().map(|(pair, together)| {
        let extra = metrics.iter().map(|metric| {
            let change = |changes: &MetricChanges| {
                changes.get(metric).map_or(f64::NAN, |found| found.change)
            };
            let alone: f64 = pair
                .iter()
                .filter_map(|at| apart.parts.get(*at))
                .map(|part| change(&part.added_to_base))
                .sum();
            Num(change(together) - alone)
        });
        let mut numbers = pair.map(number);
        numbers.sort_unstable();
        MeasuredPair {
            parts: numbers,
            extra: extra.collect(),
        }
    });
    MeasuredChange {
        pairs: pairs.collect(),
        metrics: metrics
            .iter()
            .filter_map(|metric| {
                let whole = apart.whole.get(metric)?;
                Some(MeasuredMetric {
                    metric: *metric,
                    base: Num(whole.from),
                    head: Num(whole.from + whole.change),
                })
            })
            .collect(),
        parts: parts.into_iter().map(|(_, part)| part).collect(),
    }
}
