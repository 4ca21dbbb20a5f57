//! What fresh processes measured: raw samples, so that anyone can redo an analysis without a GPU.

/// Unchanged and slowed contests of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// GPU model, as its driver names it.
    pub device: String,
    pub driver: String,
    /// Day of the recording, as YYYY-MM-DD.
    pub date: String,
    /// The smallest step of the event timer, measured, in nanoseconds.
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

/// What head is, beside its base.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The same machine code, doing the same work.
    None,
    /// Other machine code that does the same work: what most pull requests are. It takes about as long,
    /// and where both came to lie in memory differs.
    OtherCode,
    /// More work. The share, above 0, by which its time was meant to be above the base's.
    Slower(f64),
}

/// What a kernel waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    Compute,
    Memory,
    /// A user's own kernel.
    Unknown,
}

/// One fresh process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// In the order of measurement.
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

/// Which side a block begins and ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// ABBA: base, head, head, base.
    Abba,
    /// BAAB: head, base, base, head.
    Baab,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Sides<T> {
    pub base: T,
    pub head: T,
}

/// Why recordings are not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Apart {
    #[error("recordings of {0} and of {1}: what one says of changes does not hold for the other")]
    Machines(String, String),
    #[error("{0} is in both recordings")]
    Twice(String),
}

impl Recording {
    /// The contests of both, in this order: kernels that were recorded apart, on one kind of machine. Its
    /// date is the first, its clock's step the wider one.
    ///
    /// # Errors
    /// Where device or driver differ, or a contest is in both.
    pub fn with(mut self, other: Self) -> Result<Self, Apart> {
        let machine = |it: &Self| format!("{}, driver {}", it.device, it.driver);
        if machine(&self) != machine(&other) {
            return Err(Apart::Machines(machine(&self), machine(&other)));
        }
        let same = |a: &Contest, b: &Contest| {
            (&a.kernel, a.class_us) == (&b.kernel, b.class_us) && a.change == b.change
        };
        for contest in &other.contests {
            if self.contests.iter().any(|mine| same(mine, contest)) {
                return Err(Apart::Twice(contest.title()));
            }
        }
        self.contests.extend(other.contests);
        self.date = self.date.min(other.date);
        self.tick_ns = self.tick_ns.max(other.tick_ns);
        Ok(self)
    }
}

impl Contest {
    /// Kernel and time class, for tables.
    pub fn title(&self) -> String {
        let bound = match self.bound {
            Bound::Compute => ", compute",
            Bound::Memory => ", memory",
            Bound::Unknown => "",
        };
        format!("{}, {} us{bound}", self.kernel, self.class_us)
    }

    pub fn unchanged(&self) -> bool {
        self.change == Change::None
    }
}

impl Process {
    /// ln(head / base) of this process: the median over its blocks of ln of the ratio of their sums, in
    /// which a drift that is linear over a block cancels. `None` where a block holds a zero, or there is
    /// none.
    pub fn ln_ratio(&self) -> Option<f64> {
        let ratio = |block: &Block| {
            let [head, base] = [block.ns.head, block.ns.base]
                .map(|[first, second]| first.checked_add(second).filter(|&sum| sum > 0));
            Some((head? as f64 / base? as f64).ln())
        };
        let mut ratios = self.blocks.iter().map(ratio).collect::<Option<Vec<_>>>()?;
        median(&mut ratios)
    }

    /// What it cost, in seconds of the GPU; of its samples alone where nothing else is known.
    pub fn gpu_seconds(&self) -> f64 {
        if let Some(us) = self.device_us {
            return us as f64 * 1e-6;
        }
        let blocks = self
            .blocks
            .iter()
            .flat_map(|block| [block.ns.base, block.ns.head]);
        let ns: f64 = blocks.flatten().map(|ns| ns as f64).sum();
        ns * 1e-9
    }
}

/// Median, with the mean of the middle two for an even number of values; sorts `values`.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let high = values.get(values.len() / 2)?;
    let low = values.get(values.len().checked_sub(1)? / 2)?;
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn recordings_of_one_machine_are_put_together() {
        let both = recording("1", 3, 32.0)
            .with(recording("1", 20, 64.0))
            .unwrap();
        let classes: Vec<u32> = both.contests.iter().map(|it| it.class_us).collect();
        assert_eq!((classes, both.tick_ns), (vec![3, 20], 64.0));
        assert_eq!(
            recording("1", 3, 32.0)
                .with(recording("2", 20, 32.0))
                .unwrap_err()
                .to_string(),
            "recordings of GPU, driver 1 and of GPU, driver 2: what one says of changes does not hold for the other"
        );
        assert_eq!(
            recording("1", 3, 32.0).with(recording("1", 3, 32.0)),
            Err(Apart::Twice("copy, 3 us, memory".into()))
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
