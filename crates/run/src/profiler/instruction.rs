//! One instruction of a kernel's machine code, as a row of the profiler's page of sources has it.

use model::Counter;
use std::collections::BTreeMap;

/// How often warps executed it, and what its accesses took. `None`: the page has no such column. It has one where the
/// kernel has an instruction that it is a matter of.
#[derive(Debug, Default)]
pub struct Instruction {
    /// `LDG` of `@!P0 LDG.E.128 R4, ...`.
    pub operation: String,
    pub executed: u64,
    /// `Load`, `Store` or both; nothing of an atomic or of what accesses no memory.
    pub access: String,
    /// `Global`, `Shared` or both.
    space: String,
    /// Lanes whose predicate holds.
    lanes: Option<u64>,
    divergent: Option<u64>,
    /// Sectors of global memory, as the addresses ask for them: before L1, and in 32 bytes.
    sectors: Option<u64>,
    sectors_ideal: Option<u64>,
    /// Passes through shared memory.
    wavefronts: Option<u64>,
    wavefronts_ideal: Option<u64>,
    /// Those beyond the fewest.
    pub excess: Option<u64>,
}

impl Instruction {
    pub fn of<'a>(cell: impl Fn(&str) -> Option<&'a str>) -> Self {
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
        use Counter as C;
        let is_global = self.space.contains("Global");
        let is_shared = self.space.contains("Shared");
        let has_both = is_global && is_shared;
        let (loads, stores) = (self.access == "Load", self.access == "Store");
        let is_matrix_load = self.operation == "LDSM";
        let global_load = is_global && loads;
        let global_store = is_global && stores;
        let shared_load = is_shared && loads && !is_matrix_load;
        let shared_store = is_shared && stores;
        let executed = Some(self.executed);
        let (is_meant, amount) = match counter {
            C::Instructions => (true, executed),
            C::LaneInstructions => (true, self.lanes),
            C::GlobalLoadRequests => (global_load, executed),
            C::GlobalLoadSectors => (global_load, self.sectors),
            C::GlobalLoadSectorsIdeal => (global_load, self.sectors_ideal),
            C::GlobalStoreRequests => (global_store, executed),
            C::GlobalStoreSectors => (global_store, self.sectors),
            C::GlobalStoreSectorsIdeal => (global_store, self.sectors_ideal),
            C::SharedLoadRequests => (shared_load, executed),
            C::SharedLoadWavefronts => (shared_load, self.wavefronts),
            C::SharedLoadWavefrontsIdeal => (shared_load, self.wavefronts_ideal),
            C::SharedStoreRequests => (shared_store, executed),
            C::SharedStoreWavefronts => (shared_store, self.wavefronts),
            C::SharedStoreWavefrontsIdeal => (shared_store, self.wavefronts_ideal),
            C::AsyncCopySectors => (has_both, self.sectors),
            C::AsyncCopyWavefronts => (has_both, self.wavefronts),
            C::MatrixInstructions => (self.operation.ends_with("MMA"), executed),
            C::MatrixLoads => (is_matrix_load, executed),
            C::MatrixLoadWavefronts => (is_matrix_load, self.wavefronts),
            C::Atomics => (self.is_atomic(), executed),
            C::Barriers => (self.operation == "BAR", executed),
            C::DivergentBranches => (self.is_branch(), self.divergent),
        };
        if is_meant { amount } else { Some(0) }
    }

    pub fn is_shared(&self) -> bool {
        let names = ["LDS", "LDSM", "STS", "STSM", "LDGSTS", "ATOMS"];
        self.space.contains("Shared") || names.contains(&self.operation.as_str())
    }

    fn is_branch(&self) -> bool {
        self.executed > 0 && matches!(self.operation.as_str(), "BRA" | "BRX")
    }

    fn is_atomic(&self) -> bool {
        self.operation.starts_with("ATOM") || self.operation.starts_with("RED")
    }
}

/// The simulator's counters of PTX, counted on machine code. Without those that the page has no column for.
pub fn counters<'a>(
    instructions: impl Iterator<Item = &'a Instruction> + Clone,
) -> BTreeMap<Counter, u64> {
    let sum = |counter: Counter| instructions.clone().map(|one| one.count(counter)).sum();
    let counted = Counter::ALL
        .into_iter()
        .map(|counter| (counter, sum(counter)));
    let counted = counted.filter_map(|(counter, sum): (_, Option<u64>)| Some((counter, sum?)));
    counted.collect()
}

/// `1,309,440` and `0.25`; `None` of `n/a` and of words.
pub fn number(text: &str) -> Option<f64> {
    let digits = text.replace(',', "");
    digits.parse().ok().filter(|value: &f64| value.is_finite())
}

pub fn at_least_nothing(value: f64) -> u64 {
    value.max(0.0) as u64
}

fn operation(assembly: &str) -> &str {
    let mut words = assembly.split_whitespace();
    let first = words
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
}
