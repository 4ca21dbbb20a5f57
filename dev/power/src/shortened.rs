//! Shortens recordings of processes that took more samples than a process takes today.

use crate::recording::{Process, Recording, Sides, median};

/// The number of samples that a process takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Most blocks, the fewest, and the time that those between the two may take, by the time of one launch alone.
    pub blocks: u32,
    pub least_blocks: u32,
    pub blocks_ns: u64,
    /// The number of samples of one launch each, for each side.
    pub singles: u32,
}

impl Default for Protocol {
    /// The samples that `gatekeeper run` takes where only p50 is judged.
    fn default() -> Self {
        let pairing = config::pairing(true);
        Self {
            blocks: pairing.blocks,
            least_blocks: pairing.least_blocks,
            blocks_ns: pairing.blocks_ns,
            singles: 10,
        }
    }
}

/// The GPU spins at least this long before each sample, and as long as `CLOCK_NS` before each block to read its clock.
const SPIN_NS: u64 = 10_000;
const CLOCK_NS: u64 = 100_000;

/// The blocks, and the nanoseconds for them, that `gatekeeper run` takes of launches that last milliseconds.
const ROBUST_BLOCKS: f64 = 7.0;
const ROBUST_NS: f64 = 100e6;

impl Recording {
    /// Keeps the first samples of each process, in the number that `protocol` takes. The GPU times fall by the time
    /// that the dropped samples certainly took on the GPU. What else the shorter protocol saves, such as time of the
    /// host, is unknown, so the GPU times that remain are too long.
    #[must_use]
    pub fn shortened(mut self, protocol: Protocol) -> Self {
        for contest in &mut self.contests {
            let launches = contest.launches_per_sample;
            for process in &mut contest.processes {
                protocol.shorten(process, launches);
            }
        }
        self
    }
}

impl Protocol {
    fn shorten(self, process: &mut Process, launches: u32) {
        let singles = self.singles as usize;
        let alone = process.single.base.len().min(process.single.head.len());
        // It was recorded by this protocol, or by one that took fewer samples.
        if alone <= singles {
            return;
        }
        // Where a sample is one launch, those of the blocks were used as launches alone.
        let is_shared = launches == 1 && alone == 2 * process.blocks.len();
        let blocks = self.blocks_of(process, launches);
        let dropped = process.blocks.split_off(blocks.min(process.blocks.len()));
        let mut saved_ns: u64 = dropped
            .iter()
            .map(|block| {
                let [base, head] = [block.ns.base, block.ns.head].map(|ns| ns.iter().sum::<u64>());
                base + head + 4 * SPIN_NS + CLOCK_NS
            })
            .sum();
        if is_shared {
            let sides = process.blocks.iter().map(|block| block.ns);
            process.single = Sides {
                base: sides.clone().flat_map(|ns| ns.base).collect(),
                head: sides.flat_map(|ns| ns.head).collect(),
            };
        } else {
            for side in [&mut process.single.base, &mut process.single.head] {
                let dropped = side.split_off(singles);
                saved_ns += dropped.iter().map(|ns| ns + SPIN_NS).sum::<u64>();
            }
        }
        process.device_us = process
            .device_us
            .map(|us| us.saturating_sub(saved_ns / 1000));
    }

    fn blocks_of(self, process: &Process, launches: u32) -> usize {
        let side = |ns: &[u64]| {
            let mut ns: Vec<f64> = ns.iter().map(|ns| *ns as f64).collect();
            median(&mut ns)
        };
        let sides = [&process.single.base, &process.single.head];
        let block_ns = 4.0
            * f64::from(launches)
            * sides
                .into_iter()
                .filter_map(|ns| side(ns))
                .fold(f64::INFINITY, f64::min);
        let robust = ROBUST_BLOCKS.min(ROBUST_NS / block_ns.max(1.0)).floor();
        let fit = (self.blocks_ns as f64 / block_ns.max(1.0)).max(robust);
        (fit as u32).clamp(self.least_blocks.min(self.blocks), self.blocks) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Block, Order};

    fn process(blocks: usize, sample_ns: u64, singles: usize, single_ns: u64) -> Process {
        let block = Block {
            order: Order::Abba,
            ns: Sides {
                base: [sample_ns; 2],
                head: [sample_ns; 2],
            },
            sm_mhz: None,
        };
        Process {
            blocks: vec![block; blocks],
            single: Sides {
                base: vec![single_ns; singles],
                head: vec![single_ns; singles],
            },
            device_us: Some(50_000),
        }
    }

    #[test]
    fn keeps_as_many_samples_as_a_process_takes() {
        // 4 samples of 10 launches of 21 us: 11 blocks in 10 ms.
        let mut long = process(24, 200_000, 100, 21_000);
        Protocol::default().shorten(&mut long, 10);
        assert_eq!(long.blocks.len(), 11);
        assert_eq!((long.single.base.len(), long.single.head.len()), (10, 10));
        let saved_us = 13 * (4 * 210 + 100) + 2 * 90 * 31;
        assert_eq!(long.device_us, Some(50_000 - saved_us));
    }

    #[test]
    fn samples_of_one_launch_are_dropped_once() {
        let mut long = process(9, 1_000_000, 18, 1_000_000);
        Protocol::default().shorten(&mut long, 1);
        assert_eq!((long.blocks.len(), long.single.base.len()), (7, 14));
        assert_eq!(long.device_us, Some(50_000 - 2 * (4 * 1010 + 100)));
    }

    #[test]
    fn a_process_of_today_is_kept_whole() {
        for (mut today, launches) in [
            (process(11, 200_000, 10, 21_000), 10),
            (process(7, 1_000_000, 14, 1_000_000), 1),
        ] {
            let before = today.clone();
            Protocol::default().shorten(&mut today, launches);
            assert_eq!(today, before);
        }
    }
}
