//! Other differences: inputs, launch, compiler, GPU, driver, clocks. None of them says that the kernel is worse, and
//! all of them change its time.

use crate::{Cause, CauseClass, CodeComparison, Measure, Sides};
use crate::counts::counted;
use model::{Case, Counter, DeviceFacts, Launch, Num};

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
        .map(|cause| match cause.class {
            CauseClass::Launch => with_launches(cause, sides),
            _ => cause,
        })
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
    launches(base) == launches(head)
}

fn launches(case: &Case) -> Vec<Option<Launch>> {
    case.steps.iter().map(|step| step.launch).collect()
}

/// Adds the sizes of the first launch that differs, and what is executed more or less often for that reason.
fn with_launches(cause: Cause, sides: &Sides) -> Cause {
    let (base, head) = (launches(sides.base.case), launches(sides.head.case));
    let differing = base.into_iter().zip(head).find_map(|(was, is)| Some((was?, is?)).filter(|(was, is)| was != is));
    let Some((was, is)) = differing else {
        return cause;
    };
    let along = |measure: fn(char) -> Measure, was: [u32; 3], is: [u32; 3]| {
        let axes = "xyz".chars().zip(was.into_iter().zip(is));
        axes.map(move |(axis, (was, is))| (measure(axis), was, is))
    };
    let cluster = |launch: Launch| launch.cluster.unwrap_or([1; 3]);
    let cause = along(Measure::Grid, was.grid, is.grid)
        .chain(along(Measure::Block, was.block, is.block))
        .chain(along(Measure::Cluster, cluster(was), cluster(is)))
        .chain([(Measure::DynamicShared, was.dynamic_shared, is.dynamic_shared)])
        .filter(|(_, was, is)| was != is)
        .fold(cause, |cause, (measure, was, is)| cause.with(measure, was, is));
    [Counter::Instructions, Counter::Barriers].into_iter()
        .filter_map(|counter| Some((counter, counted(sides, counter)?)))
        .filter(|(_, counts)| counts.base != counts.head)
        .fold(cause, |cause, (counter, counts)| cause.with_count(counter, counts))
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
    // The share of head's time that the base's clock can save. The time of a launch that depends on the SMs alone is
    // inverse to the clock, and memory has a clock of its own. So the base's clock saves this much or less.
    let saved = 1.0 - head / base;
    let policies = [&sides.base, &sides.head].map(|side| side.device().map(|device| &device.clock_policy));
    if !(saved.abs() > NOTABLE || policies[0] != policies[1]) {
        return None;
    }
    let mut cause = Cause::new(CauseClass::Clocks, WEIGHT).with(Measure::SmMhz, base, head);
    if saved > 0.0 {
        cause.at_most = sides
            .slowdown()
            .map(|slowdown| saved * (1.0 + slowdown) / slowdown)
            .filter(|share| *share < 1.0)
            .map(Num);
    }
    Some(cause)
}
