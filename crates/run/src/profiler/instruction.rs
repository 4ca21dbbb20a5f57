//! Reads one instruction of a kernel's machine code from a row of the profiler's page of sources.

use model::Counter;
use ptxsim::{Kind, Quantity, added_quantity};
use std::collections::BTreeMap;

/// How often warps executed the instruction, and what its accesses took. A field is `None` if the page has no such
/// column, because the kernel has no instruction of that kind.
#[derive(Debug, Default)]
pub struct Instruction {
    /// `LDG` of `@!P0 LDG.E.128 R4, ...`.
    pub operation: String,
    pub executed: u64,
    /// `Load`, `Store` or both. Empty for atomics and for instructions that access no memory.
    pub access: String,
    /// The memory that is accessed: `Global`, `Shared` or both.
    space: String,
    /// The number of lanes whose predicate holds.
    lanes: Option<u64>,
    divergent: Option<u64>,
    /// Sectors of global memory, as the addresses ask for them: before L1, and in 32 bytes.
    sectors: Option<u64>,
    sectors_ideal: Option<u64>,
    /// The number of passes through shared memory.
    wavefronts: Option<u64>,
    wavefronts_ideal: Option<u64>,
    /// The number of passes beyond the fewest possible.
    pub excess: Option<u64>,
}

impl Instruction {
    pub fn from_cells<'a>(cell: impl Fn(&str) -> Option<&'a str>) -> Self {
        // A cell is empty where its column does not apply to the instruction.
        let amount = |name: &str| cell(name).map(|text| number(text).map_or(0, at_least_nothing));
        let word = |name: &str| cell(name).unwrap_or_default().to_owned();
        Self {
            operation: operation(cell("Source").unwrap_or_default()).to_owned(),
            executed: amount("Instructions Executed").unwrap_or(0),
            access: word("Access Operation"),
            space: word("Address Space"),
            lanes: amount("Predicated-On Thread Instructions Executed"),
            divergent: amount("Divergent Branches"),
            sectors: amount("L2 Theoretical Sectors Global"),
            sectors_ideal: amount("L2 Theoretical Sectors Global Ideal"),
            wavefronts: amount("L1 Wavefronts Shared"),
            wavefronts_ideal: amount("L1 Wavefronts Shared Ideal"),
            excess: amount("L1 Wavefronts Shared Excessive"),
        }
    }

    fn count(&self, counter: Counter) -> Option<u64> {
        use Counter::{
            BulkLoadSectors, BulkLoads, BulkReductionSectors, BulkReductions, BulkStoreSectors,
            BulkStores, GlobalLoadRequests, GlobalLoadSectors, GlobalLoadSectorsIdeal,
            WgmmaWavefronts,
        };
        match (counter, self.kind()) {
            // Unlike in the simulator, a copy does not count as a load here. Add the two counters to get both.
            (GlobalLoadRequests | GlobalLoadSectors | GlobalLoadSectorsIdeal, Kind::AsyncCopy) => {
                Some(0)
            }
            // The page has no columns of what bulk copies move, nor of the passes of wgmma.
            (
                BulkLoads | BulkLoadSectors | BulkStores | BulkStoreSectors | BulkReductions
                | BulkReductionSectors | WgmmaWavefronts,
                _,
            ) => None,
            (_, kind) => added_quantity(counter, kind)
                .map_or(Some(0), |added_quantity| self.amount(added_quantity)),
        }
    }

    /// Returns true if the instruction accesses shared memory, by its address space or its opcode.
    pub fn is_shared(&self) -> bool {
        let names = ["LDS", "LDSM", "STS", "STSM", "LDGSTS", "ATOMS"];
        self.space.contains("Shared") || names.contains(&self.operation.as_str())
    }

    /// Returns the kind of PTX instruction that it comes from. `stmatrix` is a store.
    fn kind(&self) -> Kind {
        let is_global = self.space.contains("Global");
        let is_shared = self.space.contains("Shared");
        match self.operation.as_str() {
            "LDSM" => Kind::MatrixLoad,
            "BAR" => Kind::Barrier,
            // One that never runs follows every kernel's end, and then the page may lack the column.
            "BRA" | "BRX" if self.executed > 0 => Kind::Branch,
            "HGMMA" | "QGMMA" | "IGMMA" | "BGMMA" => Kind::WarpgroupMatrix,
            name if name.ends_with("MMA") => Kind::Matrix,
            "RED" | "REDG" | "REDS" => Kind::Atomic,
            name if name.starts_with("ATOM") => Kind::Atomic,
            _ => match (is_global, is_shared, self.access.as_str()) {
                (true, true, _) => Kind::AsyncCopy,
                (true, false, "Load") => Kind::GlobalLoad,
                (true, false, "Store") => Kind::GlobalStore,
                (false, true, "Load") => Kind::SharedLoad,
                (false, true, "Store") => Kind::SharedStore,
                _ => Kind::Other,
            },
        }
    }

    fn amount(&self, quantity: Quantity) -> Option<u64> {
        match quantity {
            Quantity::Issued | Quantity::Requests | Quantity::GlobalRequests => Some(self.executed),
            Quantity::Lanes => self.lanes,
            Quantity::Sectors => self.sectors,
            Quantity::IdealSectors => self.sectors_ideal,
            Quantity::Wavefronts => self.wavefronts,
            Quantity::IdealWavefronts => self.wavefronts_ideal,
            Quantity::Divergent => self.divergent,
        }
    }
}

/// Returns the simulator's counters of PTX, counted on machine code. Counters for which the page has no column are left
/// out.
pub fn counters<'a>(
    instructions: impl Iterator<Item = &'a Instruction> + Clone,
) -> BTreeMap<Counter, u64> {
    let sum = |counter: Counter| instructions.clone().map(|one| one.count(counter)).sum();
    Counter::ALL
        .into_iter()
        .map(|counter| (counter, sum(counter)))
        .filter_map(|(counter, sum): (_, Option<u64>)| Some((counter, sum?)))
        .collect()
}

/// Reads numbers such as `1,309,440` and `0.25`. Returns `None` for `n/a` and for words.
pub fn number(text: &str) -> Option<f64> {
    let digits = text.replace(',', "");
    digits.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Rounds a count towards zero, and returns 0 for negative numbers and NaN.
pub fn at_least_nothing(value: f64) -> u64 {
    value.max(0.0) as u64
}

fn operation(assembly: &str) -> &str {
    let first = assembly
        .split_whitespace()
        .find(|word| !word.starts_with('@'))
        .unwrap_or_default();
    let name = first.split('.').next().unwrap_or_default();
    name.trim_end_matches(';')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_the_machine_code() {
        let predicated = "      @!P0 LDG.E.128 R4, desc[UR6][R2.64]";
        assert_eq!(operation(predicated), "LDG");
        assert_eq!(operation("EXIT;"), "EXIT");
    }

    #[test]
    fn a_reduction_within_a_warp_is_no_atomic() {
        let atomics = |operation: &str| {
            let one = Instruction {
                operation: operation.to_owned(),
                executed: 3,
                ..Instruction::default()
            };
            one.count(Counter::Atomics)
        };
        for name in ["ATOMG", "ATOMS", "RED", "REDG"] {
            assert_eq!(atomics(name), Some(3), "{name}");
        }
        assert_eq!(atomics("REDUX"), Some(0));
    }
}
