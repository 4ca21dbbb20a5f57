//! Measures head and base of one case side by side in one timing process.
//!
//! Samples are taken in blocks of four, ABBA or BAAB, so that a linear drift (of the clock or the temperature) cancels
//! inside each block. The order is drawn from a seed, so that an effect on whoever comes first does not always fall on
//! one side. The device's `Timer` takes the samples.

use super::{MAX_SETTLING, PILOT, STATE_NS, launches_for, settled};
use crate::device::{Failure, Result, Side, Timer};
use model::{
    Block, BlockOrder, Fault, FaultKind, Mode, Num, PairFacts, Pairing, Schedule, Singles,
    TimeFacts,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use wording::reasons;

/// The random choices of one process, drawn from a seed.
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Makes dice. `what` distinguishes the cases and processes of one run.
    pub fn new(seed: u64, what: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.update(what.as_bytes());
        Self(ChaCha8Rng::from_seed(hasher.finalize().into()))
    }

    /// Tosses a coin, and returns true for heads.
    pub fn heads(&mut self) -> bool {
        self.0.next_u32() & 1 == 1
    }

    /// Returns a number below `bound`, which must be small compared with 2^32, or the numbers would not be equally
    /// likely.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0.next_u32() % bound.max(1)
    }
}

/// The time that warming up takes. A side is warm after its first launch, as many more as fit into this time, and at
/// least three. A clock that still rises is waited for separately.
const WARM_NS: u64 = 2_000_000;
const LEAST_WARM: u32 = 3;

/// The number of blocks for launches that take milliseconds, as far as they fit into `ROBUST_NS`. If 4 % of the
/// launches are slow, 8 % of the blocks are: the median of seven is then wrong in 0.1 % of processes, the median of
/// three in 1.7 %.
const ROBUST_BLOCKS: u64 = 7;
const ROBUST_NS: u64 = 100_000_000;

/// The number of samples of one launch for each side that only reports show. A p90 needs this many.
const SHOWN: u32 = 10;

/// Measures a case. `step` is called with the next step and its side. While both sides take turns, the side is head: a
/// fault then could be either's, and head must not pass because of it.
///
/// # Errors
/// Returns the kernels' faults, the base's faults as `FaultKind::Base`, and `Unsupported` if this device or launcher
/// cannot be timed.
pub fn measure_pair(
    timer: &mut dyn Timer,
    schedule: &Schedule,
    pairing: &Pairing,
    singles: Singles,
    dice: &mut Dice,
    step: &mut dyn FnMut(Side, &str),
) -> Result<PairFacts> {
    let cold = schedule.mode == Mode::Cold;
    step(Side::Base, "warming up the base revision");
    let base = blame_base(warm_up(timer, Side::Base, schedule))?;
    step(Side::Head, "warming up");
    let head = warm_up(timer, Side::Head, schedule)?;
    let tick_ns = timer.tick()?;
    let empty_graph_ns = timer.empty()?;
    let one = head.min(base);
    let launches = match schedule.mode {
        Mode::Cold => 1,
        Mode::Warm => prepare(timer, one, pairing.sample_ns, dice)?,
    };
    settle(timer, cold)?;

    step(
        Side::Head,
        "taking batched samples of head and base, interleaved",
    );
    let mut taken = Taken::default();
    for _ in 0..blocks_for(pairing, one.saturating_mul(launches.into())) {
        taken.block(timer, cold, dice.heads())?;
    }
    let alone = match singles {
        Singles::Judged => Some(pairing.singles),
        // Each sample of a block is one launch already.
        Singles::Shown if launches == 1 => None,
        Singles::Shown => Some(SHOWN.min(pairing.singles)),
    };
    if let Some(turns) = alone {
        step(Side::Head, "taking samples of one launch each, interleaved");
        taken.singles(timer, cold, turns)?;
    } else {
        taken.head_single.clone_from(&taken.head_ns);
        taken.base_single.clone_from(&taken.base_ns);
    }

    // The timer is asked about throttling after each block.
    let mut gpu = timer.state(Side::Head, launches_for(one, STATE_NS))?;
    gpu.sm_mhz_before = taken.blocks.first().map(|block| block.sm_mhz);
    gpu.sm_mhz_after = Some(Num(timer.sm_mhz()?));
    let facts = |batched_ns, single_ns| TimeFacts {
        mode: schedule.mode,
        launches_per_sample: launches,
        batched_ns,
        single_ns,
        tick_ns,
        empty_graph_ns,
        gpu: gpu.clone(),
    };
    Ok(PairFacts {
        head: facts(taken.head_ns, taken.head_single),
        base: facts(taken.base_ns, taken.base_single),
        blocks: taken.blocks,
        device_us: 0,
    })
}

/// Warms a side up, and returns the time of the last launch.
fn warm_up(timer: &mut dyn Timer, side: Side, schedule: &Schedule) -> Result<u64> {
    // The first launch of a side loads what is loaded lazily, and is not a sample.
    timer.warm_up(side, 1)?;
    let (mut launches, mut spent) = (0, 0);
    loop {
        let one = timer.single(side, schedule.mode == Mode::Cold)?;
        launches += 1;
        spent = one.saturating_add(spent);
        let long = spent >= WARM_NS && launches >= LEAST_WARM;
        if long || launches >= schedule.warmup {
            return Ok(one);
        }
    }
}

#[derive(Default)]
struct Taken {
    head_ns: Vec<u64>,
    base_ns: Vec<u64>,
    blocks: Vec<Block>,
    head_single: Vec<u64>,
    base_single: Vec<u64>,
}

impl Taken {
    fn block(&mut self, timer: &mut dyn Timer, cold: bool, head_first: bool) -> Result<()> {
        let sm_mhz = Num(timer.sm_mhz()?);
        let first = order(head_first);
        // The GPU was idle before this sample, and the first sample after a pause takes up to 1.2 % longer. It would
        // count for one side alone (kernels/NOTES.md).
        if let ([side, _], false) = (first, cold) {
            sample(timer, side, cold)?;
        }
        for side in first.into_iter().chain(order(!head_first)) {
            let ns = sample(timer, side, cold)?;
            match side {
                Side::Head => self.head_ns.push(ns),
                Side::Base => self.base_ns.push(ns),
            }
        }
        self.blocks.push(Block {
            order: if head_first {
                BlockOrder::Abba
            } else {
                BlockOrder::Baab
            },
            sm_mhz,
            throttled: timer.slowed().unwrap_or(false),
        });
        Ok(())
    }

    /// Samples single launches in pairs of turns, ABBA.
    fn singles(&mut self, timer: &mut dyn Timer, cold: bool, turns: u32) -> Result<()> {
        for turn in 0..turns {
            for side in order(turn % 2 == 0) {
                match side {
                    Side::Head => self.head_single.push(timer.single(side, cold)?),
                    Side::Base => self.base_single.push(blame_base(timer.single(side, cold))?),
                }
            }
        }
        Ok(())
    }
}

fn order(head_first: bool) -> [Side; 2] {
    if head_first {
        [Side::Head, Side::Base]
    } else {
        [Side::Base, Side::Head]
    }
}

fn sample(timer: &mut dyn Timer, side: Side, cold: bool) -> Result<u64> {
    let taken = if cold {
        timer.single(side, true)
    } else {
        timer.batched(side)
    };
    match side {
        Side::Head => taken,
        Side::Base => blame_base(taken),
    }
}

fn blocks_for(pairing: &Pairing, sample_ns: u64) -> u32 {
    let block_ns = 4 * sample_ns.max(1);
    let robust = ROBUST_BLOCKS.min(ROBUST_NS / block_ns);
    let fit = (pairing.blocks_ns / block_ns).max(robust);
    let least = pairing.least_blocks.min(pairing.blocks);
    u32::try_from(fit).map_or(pairing.blocks, |fit| fit.clamp(least, pairing.blocks))
}

/// Prepares a batch of equally many launches for each side, enough for the faster one to last `sample_ns`. Chance
/// decides whose graph is made first, because its place in memory changes its time by hundredths of a per cent.
fn prepare(timer: &mut dyn Timer, one: u64, sample_ns: u64, dice: &mut Dice) -> Result<u32> {
    let most = if timer.can_batch() { u32::MAX } else { 1 };
    let sides = order(dice.heads());
    let pilot = launches_for(one, sample_ns).min(PILOT).min(most);
    make_batches(timer, sides, pilot)?;
    if pilot == 1 {
        return Ok(pilot);
    }
    let head = timer.batched(Side::Head)?;
    let base = blame_base(timer.batched(Side::Base))?;
    let each = head.min(base) / u64::from(pilot);
    let launches = launches_for(each, sample_ns).min(most);
    if launches != pilot {
        make_batches(timer, sides, launches)?;
    }
    Ok(launches)
}

fn make_batches(timer: &mut dyn Timer, sides: [Side; 2], launches: u32) -> Result<()> {
    sides.into_iter().try_for_each(|side| {
        let made = timer.batch(side, launches);
        match side {
            Side::Head => made,
            Side::Base => blame_base(made),
        }
    })
}

/// Runs untimed samples of both sides until the clock no longer changes.
fn settle(timer: &mut dyn Timer, cold: bool) -> Result<()> {
    let mut clock = timer.sm_mhz()?;
    for _ in 0..MAX_SETTLING {
        sample(timer, Side::Head, cold)?;
        sample(timer, Side::Base, cold)?;
        let now = timer.sm_mhz()?;
        if settled(clock, now) {
            break;
        }
        clock = now;
    }
    Ok(())
}

/// Marks a failure as the base's, so that it says nothing about head.
pub fn blame_base<T>(result: Result<T>) -> Result<T> {
    result.map_err(|failure| match failure {
        Failure::Fault { fault, sticky } => Failure::Fault {
            fault: Fault::new(
                match fault.kind {
                    FaultKind::Environment => FaultKind::Environment,
                    _ => FaultKind::Base,
                },
                fault.message,
            ),
            sticky,
        },
        Failure::Unsupported(why) => {
            Failure::case_alone(FaultKind::Base, reasons::unsupported(&why))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::nvml::unknown_state;
    use model::GpuState;

    /// A GPU whose clock falls by 0.1 % with every sample; the base takes `base_ns`, head 1 % more.
    struct Drifting {
        base_ns: f64,
        /// The extra time of the first launch after the clock was read.
        after_a_pause: f64,
        is_idle: bool,
        taken: i32,
        sides: Vec<Side>,
        launches: Vec<u32>,
        slowed_at: Option<usize>,
        asked: usize,
        breaks: Option<Side>,
        can_batch: bool,
    }

    fn drifting() -> Drifting {
        Drifting {
            base_ns: 5000.0,
            after_a_pause: 1.0,
            is_idle: false,
            taken: 0,
            sides: Vec::new(),
            launches: Vec::new(),
            slowed_at: None,
            asked: 0,
            breaks: None,
            can_batch: true,
        }
    }

    impl Drifting {
        fn takes(&mut self, side: Side, launches: u32) -> Result<u64> {
            if self.breaks == Some(side) {
                return Err(Failure::case_alone(FaultKind::DeviceFault, "fell over"));
            }
            self.taken += 1;
            self.sides.push(side);
            let slower = if side == Side::Head { 1.01 } else { 1.0 };
            let drift = 1.001f64.powi(self.taken);
            let pause = if std::mem::take(&mut self.is_idle) {
                self.after_a_pause
            } else {
                1.0
            };
            Ok((self.base_ns * f64::from(launches) * slower * drift * pause) as u64)
        }
    }

    impl Timer for Drifting {
        fn can_batch(&self) -> bool {
            self.can_batch
        }
        fn warm_up(&mut self, side: Side, _: u32) -> Result<()> {
            self.takes(side, 1).map(drop)
        }
        fn profiled(&mut self, _: Side) -> Result<()> {
            Ok(())
        }
        fn batch(&mut self, _: Side, launches: u32) -> Result<()> {
            self.launches.push(launches);
            Ok(())
        }
        fn batched(&mut self, side: Side) -> Result<u64> {
            let launches = self.launches.last().copied().unwrap_or(1);
            self.takes(side, launches)
        }
        fn single(&mut self, side: Side, _: bool) -> Result<u64> {
            self.takes(side, 1)
        }
        fn empty(&mut self) -> Result<u64> {
            Ok(1500)
        }
        fn tick(&mut self) -> Result<u64> {
            Ok(32)
        }
        fn sm_mhz(&mut self) -> Result<f64> {
            self.is_idle = true;
            Ok(1980.0)
        }
        fn slowed(&mut self) -> Option<bool> {
            self.asked += 1;
            Some(self.slowed_at == Some(self.asked - 1))
        }
        fn state(&mut self, _: Side, _: u32) -> Result<GpuState> {
            Ok(unknown_state())
        }
    }

    fn measured(timer: &mut Drifting, seed: u64) -> Result<PairFacts> {
        let schedule = config::default_timing();
        let pairing = Pairing {
            blocks: 16,
            blocks_ns: 24_000_000,
            singles: 20,
            ..config::pairing(false)
        };
        let mut dice = Dice::new(seed, "k/v@s 0");
        let judged = Singles::Judged;
        measure_pair(
            timer,
            &schedule,
            &pairing,
            judged,
            &mut dice,
            &mut |_, _| {},
        )
    }

    /// Measures with the default settings, and with kernels of `base_ns`.
    fn shown(base_ns: f64) -> (Drifting, PairFacts) {
        let mut timer = Drifting {
            base_ns,
            ..drifting()
        };
        let facts = measure_pair(
            &mut timer,
            &config::default_timing(),
            &config::pairing(false),
            Singles::Shown,
            &mut Dice::new(1, "k/v@s 0"),
            &mut |_, _| {},
        );
        (timer, facts.unwrap())
    }

    #[test]
    fn drift_cancels_within_a_block() {
        let facts = measured(&mut drifting(), 1).unwrap();
        assert_eq!(facts.blocks.len(), 16);
        let halves = facts
            .head
            .batched_ns
            .chunks(2)
            .zip(facts.base.batched_ns.chunks(2));
        for (head, base) in halves {
            let ratio = head.iter().sum::<u64>() as f64 / base.iter().sum::<u64>() as f64;
            assert!((ratio - 1.01).abs() < 1e-5, "{ratio}");
        }
        let medians = |ns: &[u64]| ns.iter().sum::<u64>() as f64;
        let pooled = medians(&facts.head.batched_ns) / medians(&facts.base.batched_ns);
        assert!((pooled - 1.01).abs() < 1e-3, "{pooled}");
    }

    #[test]
    fn never_batches_a_launch_that_needs_restored_data() {
        let mut timer = Drifting {
            can_batch: false,
            ..drifting()
        };
        let facts = measured(&mut timer, 1).unwrap();
        assert_eq!(timer.launches, [1, 1]);
        for side in [facts.head, facts.base] {
            assert_eq!(side.launches_per_sample, 1);
        }
        let mut usual = drifting();
        measured(&mut usual, 1).unwrap();
        assert!(usual.launches.iter().all(|&launches| launches > 1));
    }

    #[test]
    fn orders_are_seeded_and_mixed() {
        let orders = |seed| {
            let facts = measured(&mut drifting(), seed).unwrap();
            facts
                .blocks
                .iter()
                .map(|block| block.order)
                .collect::<Vec<_>>()
        };
        assert_eq!(orders(1), orders(1));
        assert_ne!(orders(1), orders(2));
        for order in [BlockOrder::Abba, BlockOrder::Baab] {
            assert!(orders(1).contains(&order));
        }
    }

    #[test]
    fn both_sides_of_a_block_are_sampled_in_its_order() {
        let mut timer = drifting();
        let facts = measured(&mut timer, 3).unwrap();
        let singles = 2 * facts.head.single_ns.len();
        let end = timer.sides.len() - singles;
        let blocks = timer.sides[end - 16 * 5..end].chunks(5);
        for (sides, block) in blocks.zip(&facts.blocks) {
            let (a, b) = match block.order {
                BlockOrder::Abba => (Side::Head, Side::Base),
                BlockOrder::Baab => (Side::Base, Side::Head),
            };
            // The first launch of each block is not a sample.
            assert_eq!(sides, [a, a, b, b, a]);
        }
        assert_eq!(
            (facts.head.single_ns.len(), facts.base.single_ns.len()),
            (20, 20)
        );
    }

    #[test]
    fn both_sides_launch_as_often_in_a_sample() {
        let facts = measured(&mut drifting(), 1).unwrap();
        assert_eq!(
            facts.head.launches_per_sample,
            facts.base.launches_per_sample
        );
        assert!(facts.base.batched_ns.iter().all(|&ns| ns >= 200_000));
    }

    #[test]
    fn long_kernels_get_fewer_blocks_and_never_too_few() {
        let pairing = config::pairing(false);
        for (sample_ns, blocks) in [
            (0, 32),
            (200_000, 12),
            (500_000, 7),
            (2_000_000, 7),
            (5_000_000, 5),
            (1_000_000_000, 3),
        ] {
            assert_eq!(blocks_for(&pairing, sample_ns), blocks, "{sample_ns}");
        }
    }

    #[test]
    fn takes_few_singles_that_only_reports_show() {
        for base_ns in [5000.0, 120_000.0] {
            let (_, facts) = shown(base_ns);
            for side in [&facts.head, &facts.base] {
                assert_eq!(side.single_ns.len(), SHOWN as usize);
            }
        }
    }

    #[test]
    fn a_batch_of_the_right_size_is_made_once() {
        // For a short kernel, 16 launches are tried and then as many as fit. For a longer kernel, the launches that
        // were tried fit already.
        for (base_ns, launches) in [(5000.0, &[16, 16, 39, 39][..]), (60_000.0, &[4, 4])] {
            let (timer, _) = shown(base_ns);
            assert_eq!(timer.launches, launches);
        }
    }

    #[test]
    fn samples_of_one_launch_serve_as_single_launches_too() {
        let (timer, facts) = shown(1e6);
        assert_eq!(facts.head.launches_per_sample, 1);
        assert_eq!(facts.head.single_ns, facts.head.batched_ns);
        assert_eq!(facts.base.single_ns, facts.base.batched_ns);
        // Four launches of either side to warm up, two to settle, and seven blocks, each after one launch.
        assert_eq!(timer.sides.len(), 2 * 4 + 2 + 5 * 7);
    }

    #[test]
    fn a_sample_after_a_pause_counts_for_neither_side() {
        let mut timer = Drifting {
            after_a_pause: 1.02,
            ..drifting()
        };
        let facts = measured(&mut timer, 1).unwrap();
        let head = facts.head.batched_ns.chunks(2);
        for (head, base) in head.zip(facts.base.batched_ns.chunks(2)) {
            let ratio = head.iter().sum::<u64>() as f64 / base.iter().sum::<u64>() as f64;
            assert!((ratio - 1.01).abs() < 1e-5, "{ratio}");
        }
    }

    #[test]
    fn a_block_on_a_slowed_gpu_is_marked() {
        let mut timer = drifting();
        timer.slowed_at = Some(5);
        let facts = measured(&mut timer, 1).unwrap();
        let marked: Vec<_> = (0..16).filter(|&at| facts.blocks[at].throttled).collect();
        assert_eq!(marked, [5]);
    }

    #[test]
    fn a_fault_is_of_the_side_that_broke() {
        for (side, kind) in [
            (Side::Base, FaultKind::Base),
            (Side::Head, FaultKind::DeviceFault),
        ] {
            let mut timer = drifting();
            timer.breaks = Some(side);
            match measured(&mut timer, 1) {
                Err(Failure::Fault { fault, .. }) => assert_eq!(fault.kind, kind),
                other => panic!("{other:?}"),
            }
        }
    }
}
