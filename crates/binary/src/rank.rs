//! Ranks kernels that got worse by what that probably costs.

use crate::{BinaryKernel, Pair};
use model::occupancy::Occupancy;
use std::cmp::Ordering;

/// The threads of a block if neither side states launch bounds. It is a usual size, with which a step of registers
/// counts.
const USUAL_BLOCK: u64 = 256;

/// The number of warps that fit an SM on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    pub base: Occupancy,
    pub head: Occupancy,
    /// The threads of the blocks, if neither side states them: a guess, which ranks kernels and is no fact.
    pub assumed_block: Option<u64>,
}

/// The extent to which one kernel of the head is worse. Kernels are ordered by what that probably costs.
///
/// The first of these that differs between two kernels decides:
///
/// 1. the share of resident warps that is gone, `1 - head / base`: every instruction of the kernel has fewer others to hide
///    behind;
/// 2. more instructions that load or store local memory: each is an access of tens of cycles where a register took none;
/// 3. a larger stack: memory of each thread, of which nothing says how often it is used;
/// 4. more code, as a share: most of it is executed, and a share tells a kernel of ten instructions from one of ten thousand;
/// 5. more registers. Alone they cost nothing: what they cost is the first of these.
///
/// The order is by kind and not by one sum, since no file says how often an instruction runs: a sum would compare a guess with
/// another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worsening {
    /// The share of warps that no longer fit, from 0 to 1.
    pub warps: f64,
    /// `None` if the code is not linked, or if the limits of the architecture are unknown.
    pub resident: Option<Resident>,
    pub local_instructions: u32,
    /// The additional bytes of a thread's stack.
    pub stack: u32,
    /// The share by which code is longer.
    pub code: f64,
    pub registers: u32,
}

impl Worsening {
    /// Returns how much the head is worse, or `None` if nothing got worse.
    pub fn from_pair(pair: &Pair) -> Option<Self> {
        let Pair { base, head, .. } = pair;
        let more = |of: fn(&BinaryKernel) -> Option<u32>| match (of(base), of(head)) {
            (Some(base), Some(head)) => head.saturating_sub(base),
            _ => 0,
        };
        let resident = Resident::from_pair(pair);
        let found = Self {
            warps: resident.map_or(0.0, |resident| resident.lost()),
            resident,
            local_instructions: more(|kernel| kernel.local_instructions),
            stack: more(|kernel| kernel.stack),
            code: match base.code {
                0 => 0.0,
                code => (head.code as f64 / code as f64 - 1.0).max(0.0),
            },
            registers: more(|kernel| kernel.registers),
        };
        let is_worse = found.warps > 0.0
            || found.code > 0.0
            || found
                .local_instructions
                .max(found.stack)
                .max(found.registers)
                > 0;
        is_worse.then_some(found)
    }

    /// Orders the costliest first, and what got no worse last.
    pub fn costliest_first(one: &Option<Self>, other: &Option<Self>) -> Ordering {
        match (one, other) {
            (Some(one), Some(other)) => one.compare(other),
            (one, other) => other.is_some().cmp(&one.is_some()),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        (other.warps.total_cmp(&self.warps))
            .then(other.local_instructions.cmp(&self.local_instructions))
            .then(other.stack.cmp(&self.stack))
            .then(other.code.total_cmp(&self.code))
            .then(other.registers.cmp(&self.registers))
    }
}

impl Resident {
    fn from_pair(pair: &Pair) -> Option<Self> {
        let Pair { base, head, .. } = pair;
        if let (Some(base), Some(head)) = (base.occupancy(), head.occupancy()) {
            return Some(Self {
                base,
                head,
                assumed_block: None,
            });
        }
        let stated = head.largest_block().or(base.largest_block());
        let threads = stated.unwrap_or(USUAL_BLOCK);
        Some(Self {
            base: base.occupancy_of(threads)?,
            head: head.occupancy_of(threads)?,
            assumed_block: Some(threads),
        })
    }

    fn lost(&self) -> f64 {
        let (base, head) = (self.base.warps_per_sm, self.head.warps_per_sm);
        match base {
            0 => 0.0,
            base => (1.0 - f64::from(head) / f64::from(base)).max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MatchedBy;
    use crate::matching::tests::kernel;

    fn usual(name: &str) -> BinaryKernel {
        BinaryKernel {
            registers: Some(32),
            stack: Some(0),
            static_shared: Some(0),
            barriers: Some(0),
            code: 1024,
            local_instructions: Some(0),
            ..kernel(name, "sm_90", 1)
        }
    }

    fn worsening(base: &BinaryKernel, head: &BinaryKernel) -> Option<Worsening> {
        let by = MatchedBy::Name;
        Worsening::from_pair(&Pair { base, head, by })
    }

    #[test]
    fn what_costs_more_comes_first_whatever_else_is_more() {
        let base = usual("k");
        let changed = |change: fn(&mut BinaryKernel)| {
            let mut head = usual("k");
            change(&mut head);
            head
        };
        // These begin with the costliest. Each has more of everything that counts less.
        let heads = [
            changed(|kernel| kernel.registers = Some(96)),
            changed(|kernel| kernel.registers = Some(48)),
            changed(|kernel| kernel.local_instructions = Some(20)),
            changed(|kernel| {
                kernel.local_instructions = Some(2);
                kernel.stack = Some(800);
            }),
            changed(|kernel| {
                kernel.stack = Some(8);
                kernel.code = 9000;
            }),
            changed(|kernel| {
                kernel.code = 1100;
                kernel.registers = Some(32);
            }),
            changed(|kernel| {
                kernel.code = 1050;
                kernel.registers = Some(31);
            }),
        ];
        let ranked = heads.map(|head| worsening(&base, &head).unwrap());
        for pair in ranked.windows(2) {
            assert_eq!(pair[0].compare(&pair[1]), Ordering::Less, "{pair:?}");
        }
    }

    #[test]
    fn registers_that_take_no_warp_away_come_last() {
        let more = |registers| BinaryKernel {
            registers: Some(registers),
            ..usual("k")
        };
        // From 24 to 32 registers, all 64 warps of an SM fit.
        let alone = worsening(&more(24), &more(32)).unwrap();
        assert_eq!(alone.warps, 0.0);
        let step = worsening(&more(32), &more(33)).unwrap();
        assert!(step.warps > 0.0, "{step:?}");
        assert_eq!(step.compare(&alone), Ordering::Less);
    }

    #[test]
    fn a_block_that_is_assumed_is_named() {
        let head = BinaryKernel {
            registers: Some(64),
            ..usual("k")
        };
        let found = worsening(&usual("k"), &head).unwrap().resident.unwrap();
        assert_eq!(found.assumed_block, Some(USUAL_BLOCK));
        let bound = |kernel: BinaryKernel| BinaryKernel {
            max_threads: Some([128, 1, 1]),
            ..kernel
        };
        let found = worsening(&bound(usual("k")), &bound(head.clone())).unwrap();
        assert_eq!(found.resident.unwrap().assumed_block, None);
        // The bound that one side states is used for both.
        let found = worsening(&usual("k"), &bound(head)).unwrap();
        assert_eq!(found.resident.unwrap().assumed_block, Some(128));
    }

    #[test]
    fn the_same_or_better_is_not_worse() {
        let base = usual("k");
        assert_eq!(worsening(&base, &base), None);
        let better = BinaryKernel {
            registers: Some(24),
            code: 512,
            ..usual("k")
        };
        assert_eq!(worsening(&base, &better), None);
        assert!(worsening(&better, &base).is_some());
    }
}
