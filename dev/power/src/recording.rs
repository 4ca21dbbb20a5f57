//! Holds raw samples of fresh processes, so that anyone can repeat an analysis without a GPU.

/// Unchanged and slowed contests of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// GPU model, as its driver names it.
    pub device: String,
    pub driver: String,
    /// Day of the recording, as YYYY-MM-DD.
    pub date: String,
    /// The smallest step of the event timer, measured, in ns.
    pub tick_ns: f64,
    pub contests: Vec<Contest>,
}

/// One kernel at one true change, measured by many fresh processes.
#[derive(Clone, Debug, PartialEq)]
pub struct Contest {
    pub kernel: String,
    pub bound: Bound,
    /// Rounded time of one launch of the base, in microseconds: 3, 20, 60, 1000.
    pub class_us: u32,
    pub change: Change,
    /// Launches between the two events of a sample of a block.
    pub launches_per_sample: u32,
    pub processes: Vec<Process>,
}

/// The kind of head, compared with its base.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Head is the same machine code and does the same work.
    None,
    /// Other machine code for the same work, as in most pull requests. It takes about as long, and its
    /// placement in memory differs.
    OtherCode,
    /// Head does more work. The number is the intended slowdown as a share, above 0.
    Slower(f64),
}

/// The resource that limits a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    Compute,
    Memory,
}

/// The samples that one fresh process took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// The blocks in the order in which they were measured.
    pub blocks: Vec<Block>,
    /// Samples of one launch each, in nanoseconds and the order of measurement; empty where none were
    /// taken.
    pub single: Sides<Vec<u64>>,
    /// Wall time inside the driver, warming up and copies included, where it was measured.
    pub device_us: Option<u64>,
}

/// Two samples of either side, in an order in which a linear drift cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub order: Order,
    /// Nanoseconds of the two samples of either side, in the order of measurement.
    pub ns: Sides<[u64; 2]>,
    /// SM clock during the block, in MHz, where it was measured.
    pub sm_mhz: Option<u32>,
}

/// The side that a block begins and ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The samples are base, head, head, base (ABBA).
    Abba,
    /// The samples are head, base, base, head (BAAB).
    Baab,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Sides<T> {
    pub base: T,
    pub head: T,
}

/// The reason for which two recordings cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    #[error("recordings of {0} and of {1}: values of one machine do not hold for another")]
    Machines(String, String),
    #[error("{0} is in both recordings")]
    Twice(String),
}

impl Recording {
    /// Joins two recordings of one kind of machine, whose kernels were recorded separately. The contests of `self`
    /// come first. The earlier date and the wider timer step are kept.
    ///
    /// # Errors
    /// If the devices or drivers differ, or a contest is in both.
    pub fn with(mut self, other: Self) -> Result<Self, Incompatible> {
        let machine =
            |recording: &Self| format!("{}, driver {}", recording.device, recording.driver);
        if machine(&self) != machine(&other) {
            return Err(Incompatible::Machines(machine(&self), machine(&other)));
        }
        let same = |a: &Contest, b: &Contest| {
            (&a.kernel, a.class_us) == (&b.kernel, b.class_us) && a.change == b.change
        };
        for contest in &other.contests {
            if self.contests.iter().any(|mine| same(mine, contest)) {
                return Err(Incompatible::Twice(contest.title()));
            }
        }
        self.contests.extend(other.contests);
        self.date = self.date.min(other.date);
        self.tick_ns = self.tick_ns.max(other.tick_ns);
        Ok(self)
    }
}

impl Contest {
    /// Returns the kernel and its time class in words, for tables.
    pub fn title(&self) -> String {
        let bound = match self.bound {
            Bound::Compute => ", compute-bound",
            Bound::Memory => ", memory-bound",
        };
        format!("{}, {} us{bound}", self.kernel, self.class_us)
    }

    pub fn unchanged(&self) -> bool {
        self.change == Change::None
    }
}

impl Process {
    /// Returns ln(head
    ///
    /// base) of this process: the median, over its blocks, of the logarithm of the ratio of their sums. A drift that
    /// is linear over a block cancels in these sums. Returns `None` if a block holds a zero, or if there is no block.
    pub fn ln_ratio(&self) -> Option<f64> {
        let ratio = |block: &Block| {
            let [head, base] = [block.ns.head, block.ns.base].map(|[first, second]| {
                let both = first > 0 && second > 0;
                first.checked_add(second).filter(|_| both)
            });
            Some((head? as f64 / base? as f64).ln())
        };
        let mut ratios = self.blocks.iter().map(ratio).collect::<Option<Vec<_>>>()?;
        median(&mut ratios)
    }

    /// Returns the GPU time in seconds, or the time of the samples alone if nothing else is known.
    pub fn gpu_seconds(&self) -> f64 {
        if let Some(us) = self.device_us {
            return us as f64 * 1e-6;
        }
        let ns: f64 = self
            .blocks
            .iter()
            .flat_map(|block| [block.ns.base, block.ns.head])
            .flatten()
            .map(|ns| ns as f64)
            .sum();
        ns * 1e-9
    }
}

/// Sorts `values` and returns their median, which is the mean of the middle two if their number is even.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let high = values.get(values.len() / 2)?;
    let low = values.get(values.len().checked_sub(1)? / 2)?;
    Some((low + high) / 2.0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::dice::Dice;

    /// An unchanged kernel of 20 us whose processes differ by `deviation`.
    pub(crate) fn contest(processes: usize, deviation: f64) -> Contest {
        let mut dice = Dice::new(1, 0);
        let mut process = || {
            let head = (200_000.0 * (deviation * dice.normal()).exp()).round() as u64;
            process(vec![block([200_000; 2], [head; 2]); 2])
        };
        Contest {
            kernel: "k".into(),
            bound: Bound::Compute,
            class_us: 20,
            change: Change::None,
            launches_per_sample: 10,
            processes: (0..processes).map(|_| process()).collect(),
        }
    }

    fn block(base: [u64; 2], head: [u64; 2]) -> Block {
        Block {
            order: Order::Abba,
            ns: Sides { base, head },
            sm_mhz: None,
        }
    }

    fn process(blocks: Vec<Block>) -> Process {
        Process {
            blocks,
            ..Process::default()
        }
    }

    fn recording(driver: &str, class_us: u32, tick_ns: f64) -> Recording {
        Recording {
            device: "GPU".into(),
            driver: driver.into(),
            date: "2026-11-21".into(),
            tick_ns,
            contests: vec![Contest {
                kernel: "copy".into(),
                bound: Bound::Memory,
                class_us,
                change: Change::None,
                launches_per_sample: 1,
                processes: vec![],
            }],
        }
    }

    #[test]
    fn recordings_of_one_machine_are_joined() {
        let both = recording("1", 3, 32.0)
            .with(recording("1", 20, 64.0))
            .unwrap();
        let classes: Vec<u32> = both
            .contests
            .iter()
            .map(|contest| contest.class_us)
            .collect();
        assert_eq!((classes, both.tick_ns), (vec![3, 20], 64.0));
        assert_eq!(
            recording("1", 3, 32.0)
                .with(recording("2", 20, 32.0))
                .unwrap_err()
                .to_string(),
            "recordings of GPU, driver 1 and of GPU, driver 2: values of one machine do not hold for another"
        );
        assert_eq!(
            recording("1", 3, 32.0).with(recording("1", 3, 32.0)),
            Err(Incompatible::Twice("copy, 3 us, memory-bound".into()))
        );
    }

    #[test]
    fn a_linear_drift_cancels_in_a_block() {
        // 100, 101, 102, 103: base, head, head, base.
        let drifting = process(vec![block([100, 103], [101, 102])]);
        assert_eq!(drifting.ln_ratio(), Some(0.0));
    }

    #[test]
    fn the_median_ignores_one_wild_block() {
        let blocks = vec![
            block([100, 100], [101, 101]),
            block([100, 100], [900, 900]),
            block([100, 100], [101, 101]),
        ];
        let ratio = process(blocks).ln_ratio().unwrap();
        assert!((ratio - 1.01f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn nothing_and_zero_have_no_ratio() {
        assert_eq!(process(vec![]).ln_ratio(), None);
        let zero = block([0, 0], [1, 1]);
        assert_eq!(process(vec![zero, block([1, 1], [1, 1])]).ln_ratio(), None);
        assert_eq!(process(vec![block([1, 1], [0, 2])]).ln_ratio(), None);
        assert_eq!(process(vec![block([u64::MAX, 1], [1, 1])]).ln_ratio(), None);
    }

    #[test]
    fn seconds_are_those_of_all_samples() {
        let process = process(vec![block([1, 2], [3, 4]); 2]);
        assert!((process.gpu_seconds() - 20e-9).abs() < 1e-18);
    }

    #[test]
    fn a_common_factor_cancels() {
        let ratio =
            |k: u64| process(vec![block([100 * k, 120 * k], [130 * k, 110 * k])]).ln_ratio();
        assert!((ratio(1).unwrap() - ratio(1000).unwrap()).abs() < 1e-12);
    }
}
