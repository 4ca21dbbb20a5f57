//! Counts the costs of a launch, as named numbers that are the same on every run and machine.
//!
//! [`Counter`] is the table of them. One of the *gate* tier equals what a GPU's own counters say of the same launch,
//! where the launch does not put it in [`Doubt`](crate::Doubt); CALIBRATION.md has the comparison.

use crate::report::{Cost, Counters, Kind, LineCost};
use model::{Counter, LineCount, Tier, Withheld};
use std::collections::BTreeMap;

/// The version of the counts, a part of a baseline's key. It grows whenever the same launch may count differently than
/// before.
pub const COUNTER_MODEL: u32 = 3;

impl Counters {
    /// Returns the count, which is zero if the launch did nothing of the kind.
    pub fn get(&self, counter: Counter) -> u64 {
        value(counter, &self.by_kind)
    }

    /// Returns all counters: those that a gate can rest on in this launch, and the others.
    pub fn split(&self, withheld: &BTreeMap<Counter, Withheld>) -> [BTreeMap<Counter, u64>; 2] {
        let (gated, others) = Counter::ALL
            .into_iter()
            .filter(|counter| self.tells(*counter))
            .map(|counter| (counter, self.get(counter)))
            .partition(|(counter, _)| {
                counter.tier() == Tier::Gate && !withheld.contains_key(counter)
            });
        [gated, others]
    }

    /// Returns true if the report of this launch shows a counter. Gate counters of bulk copies and of `wgmma` are shown
    /// only if the launch executed some.
    fn tells(&self, counter: Counter) -> bool {
        use Kind::*;
        let rare = [BulkLoad, BulkStore, BulkReduction, WarpgroupMatrix];
        let adds = |kind: &Kind| added_quantity(counter, *kind).is_some();
        let of_rare = rare.iter().any(adds) && counter.tier() == Tier::Gate;
        !of_rare || self.by_kind.keys().any(adds)
    }

    /// Returns the source lines with the largest counts, at most `most` of them, the largest first. Equal ones are in
    /// the order of their names. A line is named as `k.cu:5 inlined at k.cu:40` if that is the same for all of it.
    pub fn lines(&self, counter: Counter, most: usize) -> Vec<LineCount> {
        let mut lines: Vec<(&String, &LineCost, u64)> = self
            .by_line
            .iter()
            .map(|(line, cost)| (line, cost, value(counter, &cost.by_kind)))
            .filter(|(.., count)| *count > 0)
            .collect();
        lines.sort_by_key(|(.., count)| std::cmp::Reverse(*count));
        lines.truncate(most);
        lines
            .into_iter()
            .map(|(line, cost, count)| {
                let mut inlined = cost.inlined.iter();
                let how = match (inlined.next(), inlined.next()) {
                    (Some(one), None) => one,
                    (None, _) => "",
                    _ => " inlined at several places",
                };
                LineCount {
                    place: format!("{line}{how}"),
                    count,
                    text: None,
                }
            })
            .collect()
    }
}

/// A field of [`Cost`] that counters are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    Issued,
    Lanes,
    Requests,
    GlobalRequests,
    Sectors,
    IdealSectors,
    Wavefronts,
    IdealWavefronts,
    Divergent,
}

impl Cost {
    fn get(&self, quantity: Quantity) -> u64 {
        match quantity {
            Quantity::Issued => self.issued,
            Quantity::Lanes => self.lanes,
            Quantity::Requests => self.requests,
            Quantity::GlobalRequests => self.global_requests,
            Quantity::Sectors => self.sectors,
            Quantity::IdealSectors => self.ideal_sectors,
            Quantity::Wavefronts => self.wavefronts,
            Quantity::IdealWavefronts => self.ideal_wavefronts,
            Quantity::Divergent => self.divergent,
        }
    }
}

/// Returns the quantity that instructions of this kind add to a counter, or `None` if they add nothing. The counts of
/// machine code follow it, too.
pub fn added_quantity(counter: Counter, kind: Kind) -> Option<Quantity> {
    use {Kind as K, Quantity as Q};
    // On hardware a copy is a load.
    let is_global_load = matches!(kind, K::GlobalLoad | K::AsyncCopy);
    let stores_to_shared = matches!(kind, K::SharedStore | K::MatrixStore);
    let (adds, quantity) = match counter {
        Counter::Instructions => (true, Q::Issued),
        Counter::LaneInstructions => (true, Q::Lanes),
        Counter::GlobalLoadRequests => (is_global_load, Q::GlobalRequests),
        Counter::GlobalLoadSectors => (is_global_load, Q::Sectors),
        Counter::GlobalLoadSectorsIdeal => (is_global_load, Q::IdealSectors),
        Counter::GlobalStoreRequests => (kind == K::GlobalStore, Q::GlobalRequests),
        Counter::GlobalStoreSectors => (kind == K::GlobalStore, Q::Sectors),
        Counter::GlobalStoreSectorsIdeal => (kind == K::GlobalStore, Q::IdealSectors),
        Counter::SharedLoadRequests => (kind == K::SharedLoad, Q::Requests),
        Counter::SharedLoadWavefronts => (kind == K::SharedLoad, Q::Wavefronts),
        Counter::SharedLoadWavefrontsIdeal => (kind == K::SharedLoad, Q::IdealWavefronts),
        Counter::SharedStoreRequests => (kind == K::SharedStore, Q::Requests),
        Counter::SharedStoreWavefronts => (stores_to_shared, Q::Wavefronts),
        Counter::SharedStoreWavefrontsIdeal => (stores_to_shared, Q::IdealWavefronts),
        Counter::AsyncCopySectors => (kind == K::AsyncCopy, Q::Sectors),
        Counter::AsyncCopyWavefronts => (kind == K::AsyncCopy, Q::Wavefronts),
        Counter::BulkLoads => (kind == K::BulkLoad, Q::Requests),
        Counter::BulkLoadSectors => (kind == K::BulkLoad, Q::Sectors),
        Counter::BulkStores => (kind == K::BulkStore, Q::Requests),
        Counter::BulkStoreSectors => (kind == K::BulkStore, Q::Sectors),
        Counter::BulkReductions => (kind == K::BulkReduction, Q::Requests),
        Counter::BulkReductionSectors => (kind == K::BulkReduction, Q::Sectors),
        Counter::WgmmaInstructions => (kind == K::WarpgroupMatrix, Q::Requests),
        Counter::WgmmaWavefronts => (kind == K::WarpgroupMatrix, Q::Wavefronts),
        Counter::MatrixInstructions => (kind == K::Matrix, Q::Issued),
        Counter::MatrixLoads => (kind == K::MatrixLoad, Q::Requests),
        Counter::MatrixLoadWavefronts => (kind == K::MatrixLoad, Q::Wavefronts),
        Counter::Atomics => (kind == K::Atomic, Q::Requests),
        Counter::Barriers => (kind == K::Barrier, Q::Issued),
        Counter::DivergentBranches => (kind == K::Branch, Q::Divergent),
    };
    adds.then_some(quantity)
}

fn value(counter: Counter, by_kind: &BTreeMap<Kind, Cost>) -> u64 {
    let added = |(kind, cost): (&Kind, &Cost)| Some(cost.get(added_quantity(counter, *kind)?));
    by_kind.iter().filter_map(added).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Module;
    use model::Doubt;

    #[test]
    fn an_instruction_counts_and_not_the_steps_of_its_operands() {
        for (line, kind) in [
            ("@%p1 vote.sync.ballot.b32 %r1, 1, 1;", Kind::Exchange),
            (
                "@%p1 cp.async.ca.shared.global [s], [%rd1], 4, %p2;",
                Kind::AsyncCopy,
            ),
        ] {
            let text = format!(
                ".version 8.4\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 s[16];\n\
                 .entry k()\n{{\n.reg .pred %p<3>; .reg .b32 %r<2>; .reg .b64 %rd<2>;\n{line}\nret;\n}}"
            );
            let module = Module::load(&text).unwrap();
            let program = &module.kernel("k").unwrap().program;
            let counting = program.code.iter().filter(|inst| inst.counts);
            let kinds: Vec<Kind> = counting
                .map(|inst| inst.op.kind(program.form(inst)))
                .collect();
            assert_eq!(kinds[0], kind, "{line}");
        }
    }

    #[test]
    fn only_counters_of_the_gate_tier_that_are_not_withheld_are_gated() {
        let kinds = [
            Kind::BulkLoad,
            Kind::BulkStore,
            Kind::BulkReduction,
            Kind::WarpgroupMatrix,
        ];
        let counters = Counters {
            by_kind: kinds.map(|kind| (kind, Cost::default())).into(),
            ..Counters::default()
        };
        let [gated, others] = counters.split(&BTreeMap::new());
        assert_eq!(gated.len() + others.len(), Counter::ALL.len());
        assert!(gated.keys().all(|counter| counter.tier() == Tier::Gate));
        assert!(others.keys().all(|counter| counter.tier() != Tier::Gate));
        let polls = Withheld {
            doubt: Doubt::Polls,
            place: "k.cu:1".to_owned(),
        };
        let withheld = gated
            .keys()
            .map(|counter| (*counter, polls.clone()))
            .collect();
        let [none, all] = counters.split(&withheld);
        assert_eq!((none.len(), all.len()), (0, Counter::ALL.len()));
        // A launch without these says nothing of them.
        let [plain, _] = Counters::default().split(&BTreeMap::new());
        let rare = gated.keys().filter(|counter| !plain.contains_key(counter));
        assert!(rare.clone().count() == 8 && !plain.is_empty());
        for counter in rare {
            let name = counter.name();
            assert!(
                name.starts_with("bulk_") || name.starts_with("wgmma_"),
                "{name}"
            );
        }
    }

    #[test]
    fn sorts_lines_by_their_count() {
        let line = |kind, sectors| LineCost {
            by_kind: BTreeMap::from([(
                kind,
                Cost {
                    sectors,
                    ..Cost::default()
                },
            )]),
            ..LineCost::default()
        };
        let counters = Counters {
            by_line: BTreeMap::from([
                ("k.cu:1".to_owned(), line(Kind::GlobalLoad, 3)),
                ("k.cu:2".to_owned(), line(Kind::GlobalStore, 9)),
                ("k.cu:3".to_owned(), line(Kind::GlobalLoad, 5)),
                ("k.cu:4".to_owned(), line(Kind::GlobalLoad, 3)),
            ]),
            ..Counters::default()
        };
        let line = |place: &str, count| LineCount {
            place: place.to_owned(),
            count,
            text: None,
        };
        assert_eq!(
            counters.lines(Counter::GlobalLoadSectors, 2),
            [line("k.cu:3", 5), line("k.cu:1", 3)]
        );
        assert_eq!(counters.lines(Counter::Atomics, 2), []);
    }
}
