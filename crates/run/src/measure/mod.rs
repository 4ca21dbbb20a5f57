//! Measures one case in one timing process, alone or against its base (`pair`). Decides what is sampled in which order.
//! The device's `Timer` takes the samples. No statistics and no limits are here.
//!
//! Data that the kernel overwrites is restored before each sample, never inside one: within a batch, the kernel works
//! on its own results. If no launch may follow another without this, every sample is of one launch.

mod pair;

pub use pair::{Dice, blame_base, measure_pair};

use crate::device::nvml::worst;
use crate::device::{Result, Side, Timer};
use model::{Mode, Num, Schedule, TimeFacts};

/// The most launches in one graph. More of them make instantiating it slower, and no sample better.
const MAX_BATCH: u32 = 2000;

/// The number of launches from which the time of one is estimated, if a single launch is short.
const PILOT: u32 = 16;

/// The share by which two readings in a row may differ when the clock counts as settled. Clocks rise with load, so
/// batches run untimed until then.
const SETTLED: f64 = 0.005;
const MAX_SETTLING: u32 = 50;

/// The time for which the GPU works while it reports its state, in ns.
const STATE_NS: u64 = 1_000_000;

/// Measures a case alone.
///
/// # Errors
/// Returns the kernel's faults, and `Unsupported` if this device or launcher cannot be timed.
pub fn measure(
    timer: &mut dyn Timer,
    schedule: &Schedule,
    step: &mut dyn FnMut(&str),
) -> Result<TimeFacts> {
    let cold = schedule.mode == Mode::Cold;
    step("warming up");
    timer.warm_up(Side::Head, schedule.warmup.max(1))?;
    let tick_ns = timer.tick()?;
    let empty_graph_ns = timer.empty()?;
    let one = timer.single(Side::Head, cold)?;
    let launches = match schedule.mode {
        Mode::Cold => 1,
        Mode::Warm if timer.can_batch() => prepare_batch(timer, one, schedule.batch_ns)?,
        Mode::Warm => {
            timer.batch(Side::Head, 1)?;
            1
        }
    };
    let sm_mhz_before = settle(timer, cold)?;

    let work = launches_for(one, STATE_NS);
    let mut states = vec![timer.state(Side::Head, work)?];
    step("taking batched samples");
    let mut batched_ns = Vec::with_capacity(schedule.iterations as usize);
    for _ in 0..schedule.iterations {
        batched_ns.push(sample(timer, cold)?);
    }
    let sm_mhz_after = timer.sm_mhz()?;
    states.push(timer.state(Side::Head, work)?);
    step("taking samples of one launch each");
    let mut single_ns = Vec::with_capacity(schedule.singles as usize);
    for _ in 0..schedule.singles {
        single_ns.push(timer.single(Side::Head, cold)?);
    }
    states.push(timer.state(Side::Head, work)?);

    let mut gpu = worst(states);
    gpu.sm_mhz_before = Some(Num(sm_mhz_before));
    gpu.sm_mhz_after = Some(Num(sm_mhz_after));
    Ok(TimeFacts {
        mode: schedule.mode,
        launches_per_sample: launches,
        batched_ns,
        single_ns,
        tick_ns,
        empty_graph_ns,
        gpu,
    })
}

fn sample(timer: &mut dyn Timer, cold: bool) -> Result<u64> {
    if cold {
        timer.single(Side::Head, true)
    } else {
        timer.batched(Side::Head)
    }
}

/// Prepares a batch that lasts `batch_ns`. A single launch takes longer than one in a batch, so a short kernel is
/// estimated from a small batch first.
fn prepare_batch(timer: &mut dyn Timer, one: u64, batch_ns: u64) -> Result<u32> {
    let each = if launches_for(one, batch_ns) > 1 {
        timer.batch(Side::Head, PILOT)?;
        timer.batched(Side::Head)? / u64::from(PILOT)
    } else {
        one
    };
    let launches = launches_for(each, batch_ns);
    timer.batch(Side::Head, launches)?;
    Ok(launches)
}

/// Returns the smallest number of launches that together last `total_ns`.
fn launches_for(each_ns: u64, total_ns: u64) -> u32 {
    let launches = total_ns.div_ceil(each_ns.max(1));
    u32::try_from(launches).map_or(MAX_BATCH, |launches| launches.clamp(1, MAX_BATCH))
}

/// Runs untimed samples until the clock no longer changes, and returns the clock.
fn settle(timer: &mut dyn Timer, cold: bool) -> Result<f64> {
    let mut clock = timer.sm_mhz()?;
    for _ in 0..MAX_SETTLING {
        sample(timer, cold)?;
        let now = timer.sm_mhz()?;
        let settled = settled(clock, now);
        clock = now;
        if settled {
            break;
        }
    }
    Ok(clock)
}

fn settled(before: f64, now: f64) -> bool {
    (now - before).abs() <= SETTLED * before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Failure;
    use crate::device::nvml::unknown_state;
    use model::{FaultKind, GpuState};

    /// A GPU on which a launch takes `each_ns`, and 400 ns more if it is alone.
    struct Fake {
        each_ns: u64,
        batch: Option<u32>,
        clocks: Vec<f64>,
        batched: u32,
        singles: Vec<bool>,
        states: u32,
        throttled_at: Option<u32>,
        faults_after: Option<usize>,
        can_batch: bool,
    }

    fn fake(each_ns: u64) -> Fake {
        Fake {
            each_ns,
            batch: None,
            clocks: Vec::new(),
            batched: 0,
            singles: Vec::new(),
            states: 0,
            throttled_at: None,
            faults_after: None,
            can_batch: true,
        }
    }

    impl Timer for Fake {
        fn can_batch(&self) -> bool {
            self.can_batch
        }
        fn warm_up(&mut self, _: Side, launches: u32) -> Result<()> {
            assert!(launches > 0);
            Ok(())
        }
        fn profiled(&mut self, _: Side) -> Result<()> {
            Ok(())
        }
        fn batch(&mut self, _: Side, launches: u32) -> Result<()> {
            self.batch = Some(launches);
            Ok(())
        }
        fn batched(&mut self, _: Side) -> Result<u64> {
            self.batched += 1;
            Ok(self.each_ns * u64::from(self.batch.expect("a batch was prepared")))
        }
        fn single(&mut self, _: Side, cold: bool) -> Result<u64> {
            self.singles.push(cold);
            match self.faults_after {
                Some(after) if self.singles.len() > after => {
                    Err(Failure::case_alone(FaultKind::DeviceFault, "fell over"))
                }
                _ => Ok(self.each_ns + 400),
            }
        }
        fn empty(&mut self) -> Result<u64> {
            Ok(1500)
        }
        fn tick(&mut self) -> Result<u64> {
            Ok(32)
        }
        fn sm_mhz(&mut self) -> Result<f64> {
            Ok(self.clocks.pop().unwrap_or(1980.0))
        }
        fn slowed(&mut self) -> Option<bool> {
            None
        }
        fn state(&mut self, _: Side, launches: u32) -> Result<GpuState> {
            assert!(launches > 0);
            self.states += 1;
            Ok(GpuState {
                throttled: self.throttled_at == Some(self.states),
                ..unknown_state()
            })
        }
    }

    fn schedule(mode: Mode) -> Schedule {
        Schedule {
            mode,
            warmup: 3,
            iterations: 20,
            singles: 50,
            batch_ns: 1_000_000,
            processes: 1,
            max_processes: 1,
        }
    }

    fn run(timer: &mut Fake, mode: Mode) -> Result<TimeFacts> {
        measure(timer, &schedule(mode), &mut |_| {})
    }

    #[test]
    fn sizes_a_batch_by_the_time_of_a_launch_within_one() {
        let facts = run(&mut fake(2_000), Mode::Warm).unwrap();
        assert_eq!(facts.launches_per_sample, 500);
        assert_eq!(facts.batched_ns, vec![1_000_000; 20]);
        assert_eq!(facts.single_ns, vec![2_400; 50]);
        assert_eq!((facts.tick_ns, facts.empty_graph_ns), (32, 1500));
    }

    #[test]
    fn a_kernel_that_needs_its_working_memory_restored_is_launched_once_in_a_sample() {
        let mut timer = fake(2_000);
        timer.can_batch = false;
        let facts = run(&mut timer, Mode::Warm).unwrap();
        assert_eq!((facts.launches_per_sample, timer.batch), (1, Some(1)));
        assert_eq!(facts.batched_ns, vec![2_000; 20]);
        assert!(timer.singles.iter().all(|&cold| !cold));
    }

    #[test]
    fn an_empty_kernel_does_not_make_an_endless_graph() {
        let facts = run(&mut fake(0), Mode::Warm).unwrap();
        assert_eq!(facts.launches_per_sample, MAX_BATCH);
    }

    #[test]
    fn a_long_kernel_is_not_batched() {
        let mut timer = fake(30_000_000);
        let facts = run(&mut timer, Mode::Warm).unwrap();
        assert_eq!(facts.launches_per_sample, 1);
        assert_eq!(timer.batched, 20 + 1, "samples and one round of settling");
    }

    #[test]
    fn cold_samples_are_flushed_and_never_batched() {
        let mut timer = fake(2_000);
        let facts = run(&mut timer, Mode::Cold).unwrap();
        assert_eq!(facts.launches_per_sample, 1);
        assert_eq!(timer.batched, 0);
        assert!(timer.singles.iter().all(|&cold| cold));
        assert_eq!(facts.batched_ns, vec![2_400; 20]);
    }

    #[test]
    fn sampling_waits_for_the_clock() {
        let mut timer = fake(2_000);
        timer.clocks = vec![1980.0, 1979.0, 1700.0, 900.0, 345.0];
        let facts = run(&mut timer, Mode::Warm).unwrap();
        assert_eq!(facts.gpu.sm_mhz_before, Some(Num(1980.0)));
        assert_eq!(timer.batched, 1 + 4 + 20);
    }

    #[test]
    fn throttling_at_any_moment_marks_the_measurement() {
        for at in 1..=3 {
            let mut timer = fake(2_000);
            timer.throttled_at = Some(at);
            assert!(run(&mut timer, Mode::Warm).unwrap().gpu.throttled, "{at}");
        }
        assert!(!run(&mut fake(2_000), Mode::Warm).unwrap().gpu.throttled);
    }

    #[test]
    fn a_fault_while_sampling_is_the_answer() {
        let mut timer = fake(2_000);
        timer.faults_after = Some(30);
        assert!(matches!(
            run(&mut timer, Mode::Warm),
            Err(Failure::Fault { .. })
        ));
    }
}
