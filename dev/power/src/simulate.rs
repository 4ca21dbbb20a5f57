//! Simulates processes from a seed, with every fault that measured ones have.

use crate::{Block, Bound, Change, Contest, Dice, Order, Process, Sides};

/// How far out single processes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    Normal,
    /// Student's t with 3 degrees of freedom.
    Heavy,
}

impl Tail {
    /// Draws a number whose mean is 0 and whose standard deviation is 1.
    pub fn draw(self, dice: &mut Dice) -> f64 {
        match self {
            Self::Normal => dice.normal(),
            // The variance of t with 3 degrees of freedom is 3.
            Self::Heavy => {
                let squares: f64 = (0..3).map(|_| dice.normal().powi(2)).sum();
                dice.normal() / squares.sqrt()
            }
        }
    }
}

/// Returns true in this share of all calls.
pub fn chance(dice: &mut Dice, share: f64) -> bool {
    dice.uniform() < share
}

/// A kernel on a machine. Shares are of the time of a sample; deviations are of its logarithm.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    pub base_ns: f64,
    /// The number of blocks in a process.
    pub blocks: usize,
    /// The slowdown of head that the samples hide, as a share.
    pub true_change: f64,
    /// Between processes, of the ratio head / base: where code and buffers came to lie.
    pub between: f64,
    pub tail: Tail,
    /// Share of processes whose ratio is off by `stray_by`.
    pub stray: f64,
    pub stray_by: f64,
    /// Between processes, of both sides alike: clocks, temperature.
    pub common: f64,
    /// Within a process: white noise of a sample.
    pub noise: f64,
    /// Within a process: noise that both sides share, each sample correlated with the one before it.
    pub wander: f64,
    pub correlation: f64,
    /// From the first to the last sample of a process, linear.
    pub drift: f64,
    /// Share of samples in a slow mode that takes `slow_by` more.
    pub slow: f64,
    pub slow_by: f64,
    /// Share of samples that something interrupts for up to `interrupt_by`.
    pub interrupt: f64,
    pub interrupt_by: f64,
    /// The step of the timer, in nanoseconds.
    pub tick_ns: f64,
    /// Samples of one launch, of either side.
    pub singles: usize,
    pub launches_per_sample: u32,
}

impl World {
    /// An unchanged kernel of 20 us on a machine without faults but noise.
    pub fn quiet() -> Self {
        Self {
            base_ns: 200_000.0,
            blocks: 20,
            true_change: 0.0,
            between: 0.0005,
            tail: Tail::Normal,
            stray: 0.0,
            stray_by: 0.05,
            common: 0.005,
            noise: 0.001,
            wander: 0.0,
            correlation: 0.9,
            drift: 0.0,
            slow: 0.0,
            slow_by: 0.05,
            interrupt: 0.0,
            interrupt_by: 1.0,
            tick_ns: 32.0,
            singles: 0,
            launches_per_sample: 10,
        }
    }

    pub fn contest(&self, kernel: &str, processes: usize, seed: u64) -> Contest {
        let launch_us = self.base_ns / f64::from(self.launches_per_sample) / 1000.0;
        Contest {
            kernel: kernel.to_owned(),
            bound: Bound::Compute,
            class_us: launch_us.round() as u32,
            change: match self.true_change {
                0.0 => Change::None,
                slower => Change::Slower(slower),
            },
            launches_per_sample: self.launches_per_sample,
            // A stream each, so that a longer contest begins as a shorter one.
            processes: (0..processes as u64)
                .map(|index| self.process(&mut Dice::new(seed, index)))
                .collect(),
        }
    }

    /// ln(head / base) of one process as it truly is, before any sample is taken.
    pub fn ln_ratio(&self, dice: &mut Dice) -> f64 {
        let mut ratio = self.true_change.ln_1p() + self.between * self.tail.draw(dice);
        if chance(dice, self.stray) {
            ratio += self.stray_by.ln_1p();
        }
        ratio
    }

    pub fn process(&self, dice: &mut Dice) -> Process {
        let head = self.ln_ratio(dice);
        let common = self.base_ns.ln() + self.common * dice.normal();
        let of_head = |is_head: bool| if is_head { common + head } else { common };
        let total = (4 * self.blocks).max(2) as f64 - 1.0;
        let mut wander = self.wander * dice.normal();
        let mut taken = 0.0;
        let mut sample = |dice: &mut Dice, is_head: bool| {
            let ln = of_head(is_head) + self.drift * (taken / total - 0.5) + wander;
            taken += 1.0;
            let fresh = (1.0 - self.correlation.powi(2)).sqrt() * self.wander;
            wander = self.correlation * wander + fresh * dice.normal();
            self.timed(dice, ln)
        };
        let blocks = (0..self.blocks).map(|_| {
            let order = if chance(dice, 0.5) {
                Order::Abba
            } else {
                Order::Baab
            };
            let outer = order == Order::Baab;
            let [first, second, third, fourth] =
                [outer, !outer, !outer, outer].map(|is_head| sample(dice, is_head));
            let (outside, inside) = ([first, fourth], [second, third]);
            let ns = match order {
                Order::Abba => Sides {
                    base: outside,
                    head: inside,
                },
                Order::Baab => Sides {
                    base: inside,
                    head: outside,
                },
            };
            Block {
                order,
                ns,
                sm_mhz: Some(1980),
            }
        });
        let blocks = blocks.collect();
        let one_launch = f64::from(self.launches_per_sample).ln();
        let mut single = Sides::<Vec<u64>>::default();
        for _ in 0..self.singles {
            single
                .base
                .push(self.timed(dice, of_head(false) - one_launch));
            single
                .head
                .push(self.timed(dice, of_head(true) - one_launch));
        }
        Process {
            blocks,
            single,
            device_us: None,
        }
    }

    /// Returns the timer's reading, at least one tick, for a sample whose time in nanoseconds has the logarithm `ln`.
    fn timed(&self, dice: &mut Dice, ln: f64) -> u64 {
        let mut ln = ln + self.noise * dice.normal();
        if chance(dice, self.slow) {
            ln += self.slow_by.ln_1p();
        }
        if chance(dice, self.interrupt) {
            ln += (self.interrupt_by * dice.uniform()).ln_1p();
        }
        ((ln.exp() / self.tick_ns).round().max(1.0) * self.tick_ns).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(values: &[f64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (mean, (squares / (n - 1.0)).sqrt())
    }

    #[test]
    fn the_same_seed_gives_the_same_processes() {
        let world = World::quiet();
        let (few, many) = (world.contest("k", 3, 7), world.contest("k", 5, 7));
        assert_eq!(few.processes[..], many.processes[..3]);
        assert_ne!(few, world.contest("k", 3, 8));
    }

    #[test]
    fn heavy_tails_are_heavy() {
        let mut dice = Dice::new(1, 0);
        // P(|t3| > 4 sqrt 3) = 0.00617.
        let far = (0..100_000)
            .filter(|_| Tail::Heavy.draw(&mut dice).abs() > 4.0)
            .count();
        assert!((540..700).contains(&far), "{far}");
    }

    /// Standard deviation over processes of what is measured less what is true.
    fn error(world: &World) -> (f64, f64) {
        let errors: Vec<f64> = (0..400)
            .map(|index| {
                let truth = world.ln_ratio(&mut Dice::new(3, index));
                let process = world.process(&mut Dice::new(3, index));
                process.ln_ratio().unwrap() - truth
            })
            .collect();
        moments(&errors)
    }

    #[test]
    fn a_process_measures_its_ratio() {
        // White noise: of the ln ratio of a block 0.001, of the median of 20 blocks 1.25 / sqrt(20) of it.
        let (bias, deviation) = error(&World::quiet());
        assert!(bias.abs() < 0.00005, "{bias}");
        assert!(
            (deviation / (0.001 * 1.2533 / 20f64.sqrt()) - 1.0).abs() < 0.15,
            "{deviation}"
        );
    }

    #[test]
    fn drift_cancels_in_blocks_and_not_in_halves() {
        let world = World {
            drift: 0.05,
            ..World::quiet()
        };
        let (bias, deviation) = error(&world);
        assert!(
            bias.abs() < 0.00005 && deviation < 0.0004,
            "{bias} {deviation}"
        );
        // These are equal samples, but all of the base's precede head's.
        let process = world.process(&mut Dice::new(3, 0));
        let in_time: Vec<f64> = process
            .blocks
            .iter()
            .flat_map(|block| {
                let Sides {
                    base: [a, d],
                    head: [b, c],
                } = block.ns;
                [a, b, c, d].map(|ns| ns as f64)
            })
            .collect();
        let (early, late) = in_time.split_at(in_time.len() / 2);
        assert!((moments(late).0 / moments(early).0 - 1.0 - 0.025).abs() < 0.004);
    }

    #[test]
    fn interrupts_and_modes_move_no_median() {
        for world in [
            World {
                interrupt: 0.03,
                ..World::quiet()
            },
            World {
                slow: 0.3,
                slow_by: 0.03,
                ..World::quiet()
            },
            World {
                wander: 0.003,
                ..World::quiet()
            },
        ] {
            let (bias, deviation) = error(&world);
            assert!(bias.abs() < 0.0006, "{world:?}: {bias}");
            assert!(deviation < 0.006, "{world:?}: {deviation}");
        }
    }
}
