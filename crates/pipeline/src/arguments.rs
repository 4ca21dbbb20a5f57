//! Whether what gates.yaml passes is what a kernel takes. A driver takes any launch, and reads whatever lies behind the
//! arguments; so a unit whose arguments do not fit is one that was not built.

use build::{Artifact, Built, signature};
use config::Places;
use model::{Fault, FaultKind, Plan, Seen, UnitId};
use run::device::args;
use system::files;

/// Turns built units that cannot be called as the plan calls them into faults. `places`: of the file that the plan
/// was read from, if that is the user's to change.
pub fn refuse_misfits(plan: &Plan, places: Option<&Places>, built: &mut [(UnitId, Built)]) {
    for (unit, built) in built {
        let Some(message) = misfits(plan, places, unit, built) else {
            continue;
        };
        built.artifact = None;
        built.facts = Seen::Fault(Fault::new(FaultKind::Arguments, message));
    }
}

/// PTX that PTXAS does not take is for the simulator alone: where a GPU is asked for, it is a unit that was not
/// built, as PTXAS says.
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
    // Those of a launcher its compiler has looked at.
    let (entries, ptx) = match &built.artifact {
        Some(Artifact::Cubin { entries, ptx, .. }) => (entries, ptx.as_ref()),
        Some(Artifact::Ptx { entries, path }) => (entries, Some(path)),
        Some(Artifact::Launcher { .. }) | None => return None,
    };
    // Values differ from shape to shape, types do not.
    let mut cases = plan.cases.iter();
    let case =
        cases.find(|case| (&case.id.kernel, &case.id.variant) == (&unit.kernel, &unit.variant))?;
    // Without it the names of entries say what they can.
    let ptx = ptx.and_then(|path| files::read_text(path, files::made()).ok());
    let mut lines = Vec::new();
    for (number, ((name, symbol), step)) in entries.iter().zip(&case.steps).enumerate() {
        let bytes = args::sizes(&step.args);
        for misfit in signature::misfits(name, symbol, ptx.as_deref(), &step.args, &bytes) {
            let place = places.map(|places| places.argument(unit, number, misfit.argument));
            let place = place.map_or_else(String::new, |place| format!("{place}: "));
            lines.push(format!("{place}{}", misfit.message));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}
