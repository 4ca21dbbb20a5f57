//! Checks that what gates.yaml passes is what a kernel takes. A driver accepts any launch, and reads whatever lies
//! behind the arguments. So a unit whose arguments do not fit counts as not built.

use build::signature::{self, Pointee};
use build::{Artifact, Built};
use config::{Owner, Places};
use model::{Arg, BuildFacts, Callable, Case, Fault, FaultKind, Mistyped, Plan, Seen, UnitId};
use run::device::args;
use system::files;

/// Turns built units that cannot be called as the plan calls them into faults. `places` belongs to the file that the
/// plan was read from, if the user can change that.
pub fn refuse_misfits(plan: &Plan, places: Option<&Places>, built: &mut [(UnitId, Built)]) {
    for (unit, built) in built {
        if let Some(message) = misfits(plan, places, unit, built) {
            built.artifact = None;
            built.facts = Seen::Fault(Fault::new(FaultKind::Arguments, message));
        } else if let Seen::Got(facts) = &mut built.facts {
            facts.mistyped = mistyped(plan, places, unit, facts);
        }
    }
}

/// Returns tensors whose elements differ in type from the parameter that takes them. Many kernels intend that, so the
/// judge names it only if a case is wrong.
fn mistyped(
    plan: &Plan,
    places: Option<&Places>,
    unit: &UnitId,
    facts: &BuildFacts,
) -> Vec<Mistyped> {
    let is_launcher = plan
        .unit(unit)
        .is_none_or(|unit| !matches!(unit.call, Callable::Entries { .. }));
    if is_launcher {
        return Vec::new();
    }
    let owner = Owner {
        kernel: &unit.kernel,
        variant: &unit.variant,
    };
    let declared = |tensor: &str| {
        let places = places?;
        places
            .key(owner, &["tensors", tensor, "type"])
            .or_else(|| places.key(owner, &["tensors", tensor]))
    };
    let mut found = Vec::new();
    let steps = told_apart(plan, unit).into_iter().flat_map(|case| {
        case.choose(&facts.entries)
            .into_iter()
            .zip(&case.steps)
            .map(move |step| (case, step))
    });
    for (case, (entry, step)) in steps {
        let parameters = signature::parameters(&entry.symbol).unwrap_or_default();
        for ((arg, takes), parameter) in step.args.iter().zip(parameters).zip(1..) {
            let Arg::Tensor { name } = arg else {
                continue;
            };
            let tensor = case.tensors.iter().find(|tensor| tensor.name == *name);
            let pointee = Pointee::from_parameter(&takes);
            let (Some(tensor), Some(pointee)) = (tensor, pointee) else {
                continue;
            };
            if pointee.differs(tensor.elem) {
                let mistyped = Mistyped {
                    entry: entry.name.clone(),
                    parameter,
                    takes,
                    tensor: name.clone(),
                    elem: tensor.elem,
                    wanted: match pointee {
                        Pointee::Float(elem) => Some(elem),
                        Pointee::Whole(_) => None,
                    },
                    declared: declared(name),
                };
                if !found.contains(&mistyped) {
                    found.push(mistyped);
                }
            }
        }
    }
    found
}

/// Returns the cases of a unit whose arguments can fit differently: values differ from shape to shape, types do not, and
/// entries rarely do.
fn told_apart<'a>(plan: &'a Plan, unit: &UnitId) -> Vec<&'a Case> {
    let entries = |case: &Case| -> Vec<_> { case.steps.iter().map(|step| step.entry).collect() };
    let mut cases: Vec<&Case> = Vec::new();
    for case in &plan.cases {
        let is_of_unit = (&case.id.kernel, &case.id.variant) == (&unit.kernel, &unit.variant);
        if is_of_unit && cases.iter().all(|known| entries(known) != entries(case)) {
            cases.push(case);
        }
    }
    cases
}

/// Turns units that PTXAS refused into faults, with its message, if a GPU is to run them. The simulator can run PTX
/// that PTXAS does not take.
pub fn refuse_unassembled(built: &mut [(UnitId, Built)]) {
    for (_, built) in built {
        if !matches!(built.artifact, Some(Artifact::Ptx { .. })) {
            continue;
        }
        let said = built.facts.got().map(|facts| facts.warnings.join("\n"));
        built.artifact = None;
        built.facts = Seen::Fault(Fault::new(FaultKind::Compile, said.unwrap_or_default()));
    }
}

fn misfits(plan: &Plan, places: Option<&Places>, unit: &UnitId, built: &Built) -> Option<String> {
    // The compiler of a launcher has checked its arguments.
    let (entries, ptx) = match &built.artifact {
        Some(Artifact::Cubin { entries, ptx, .. }) => (entries, ptx.as_ref()),
        Some(Artifact::Ptx { entries, path }) => (entries, Some(path)),
        // Each launch of a group is also a case of its own, except for launches of a base that are gone.
        Some(Artifact::Together { .. } | Artifact::Launcher { .. }) | None => return None,
    };
    // Without the PTX, the names of entries say what they can.
    let ptx = ptx.and_then(|path| files::read_text(path, files::made()).ok());
    let mut lines = Vec::new();
    let steps = told_apart(plan, unit).into_iter().flat_map(|case| {
        case.choose(entries)
            .into_iter()
            .zip(&case.steps)
            .enumerate()
    });
    for (number, ((name, symbol), step)) in steps {
        let bytes = args::sizes(&step.args);
        for misfit in signature::misfits(name, symbol, ptx.as_deref(), &step.args, &bytes) {
            let place = places.map(|places| places.argument(unit, number, misfit.argument));
            let place = place.map_or_else(String::new, |place| format!("{place}: "));
            let line = format!("{place}{}", misfit.message);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}
