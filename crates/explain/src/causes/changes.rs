//! Other differences: inputs, launch, compiler, GPU, driver, clocks. None of them says that the kernel is worse, and
//! all of them change its time.

use crate::{Cause, CauseClass, CodeComparison, Measure, Sides};
use model::{Case, DeviceFacts, Num};

/// A weight below the weights of all causes that say why the kernel is slower.
const WEIGHT: f64 = 0.1;
/// Clocks that are closer than this are equal.
const NOTABLE: f64 = 0.01;

pub fn rule(sides: &Sides, _: &CodeComparison) -> Vec<Cause> {
    let (base, head) = (&sides.base, &sides.head);
    let changed = [
        (CauseClass::Data, !same_data(base.case, head.case)),
        (CauseClass::Launch, !same_launch(base.case, head.case)),
        (CauseClass::Compiler, base.compiler != head.compiler),
        (CauseClass::Driver, !same_gpu(base.device(), head.device())),
    ];
    let mut causes: Vec<Cause> = changed.into_iter().filter(|(_, is_changed)| *is_changed)
        .map(|(class, _)| Cause::new(class, WEIGHT))
        .collect();
    causes.extend(clocks(sides));
    causes
}

fn same_data(base: &Case, head: &Case) -> bool {
    let arguments = |case: &Case| -> Vec<_> {
        case.steps.iter().cloned().map(|step| (step.args, step.before, step.after)).collect()
    };
    base.tensors == head.tensors
        && base.dims == head.dims
        && base.seeds == head.seeds
        && arguments(base) == arguments(head)
}

fn same_launch(base: &Case, head: &Case) -> bool {
    let launches = |case: &Case| -> Vec<_> { case.steps.iter().map(|step| step.launch).collect() };
    launches(base) == launches(head)
}

fn same_gpu(base: Option<&DeviceFacts>, head: Option<&DeviceFacts>) -> bool {
    let what = |device: &DeviceFacts| {
        (
            device.name.clone(),
            device.multiprocessors,
            device.driver.clone(),
        )
    };
    base.map(what) == head.map(what)
}

fn clocks(sides: &Sides) -> Option<Cause> {
    let (base, head) = (sides.base.sm_mhz()?, sides.head.sm_mhz()?);
    // The share by which a launch takes longer at head's clock, if it depends on the SMs alone.
    let longer = base / head - 1.0;
    let policies = [&sides.base, &sides.head].map(|side| side.device().map(|device| &device.clock_policy));
    if !(longer.abs() > NOTABLE || policies[0] != policies[1]) {
        return None;
    }
    let mut cause = Cause::new(CauseClass::Clocks, WEIGHT).with(Measure::SmMhz, base, head);
    if longer > 0.0 {
        cause.share = sides
            .slowdown()
            .map(|slowdown| Num((longer / slowdown).min(1.0)));
    }
    Some(cause)
}
