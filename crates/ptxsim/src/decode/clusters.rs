//! Decodes what concerns blocks of a cluster: addresses in one another's shared memory, their barrier, asynchronous
//! stores (PTX ISA 9.7.9.22 and 23, 9.7.13.4, 9.7.9.12).

use super::atomic_forms::operation;
use super::{Decoder, Load, class};
use crate::alu::op2;
use crate::exec::int_ops;
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;

impl Decoder<'_> {
    /// Decodes `mapa` and `getctarank`, which compute on addresses of `.shared::cluster`.
    pub(super) fn in_cluster(&mut self, words: &[&str]) -> Load<()> {
        self.program.uses_clusters = true;
        match *words {
            // An address without a space has 64 bits, as all do (`.address_size 64`).
            ["mapa", "shared::cluster", ty @ ("u32" | "u64")] | ["mapa", ty @ "u64"] => {
                self.expect_operands(3..=3)?;
                let (class, ty) = address_type(ty);
                let d = self.result(0, class)?;
                let a = self.source(1, class, ty)?;
                let rank = self.source(2, Class::R32, Ty::U32)?;
                let op = match class {
                    Class::R64 => op2::<int_ops::MapShared64>(),
                    _ => op2::<int_ops::MapShared32>(),
                };
                self.alu(op, &[d, a, rank]);
            }
            ["getctarank", "shared::cluster", ty @ ("u32" | "u64")]
            | ["getctarank", ty @ "u64"] => {
                self.expect_operands(2..=2)?;
                let (class, ty) = address_type(ty);
                let d = self.result(0, Class::R32)?;
                let a = self.source(1, class, ty)?;
                let own = self.special(Special::ClusterCtarank, Class::R32);
                let op = match class {
                    Class::R64 => op2::<int_ops::RankOf64>(),
                    _ => op2::<int_ops::RankOf32>(),
                };
                self.alu(op, &[d, a, own]);
            }
            _ => return self.unsupported(""),
        }
        Ok(())
    }

    /// Decodes a cluster barrier, such as `barrier.cluster.arrive.relaxed.aligned` or `barrier.cluster.wait.acquire`.
    pub(super) fn cluster_barrier(&mut self, words: &[&str]) -> Load<()> {
        self.program.uses_clusters = true;
        self.expect_operands(0..=0)?;
        let (name, rest) = self.known(words.get(2..).and_then(<[_]>::split_first))?;
        let aligned = rest.contains(&"aligned");
        let rest: Vec<&str> = rest.iter().copied().filter(|w| *w != "aligned").collect();
        let op = match (*name, rest.as_slice()) {
            ("arrive", [] | ["release"] | ["relaxed"]) => Op::ClusterArrive {
                aligned,
                relaxed: rest == ["relaxed"],
            },
            ("wait", [] | ["acquire"]) => Op::ClusterWait { aligned },
            _ => return self.unsupported(""),
        };
        self.emit(op);
        Ok(())
    }

    /// Decodes an asynchronous store, such as `st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [to],
    /// {values}, [mbarrier]` or `red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [to],
    /// value, [mbarrier]`.
    pub(super) fn async_store(&mut self, words: &[&str]) -> Load<()> {
        let rest: Vec<&str> = words[2..]
            .iter()
            .copied()
            .filter(|w| !matches!(*w, "weak" | "relaxed" | "cluster" | "shared::cluster"))
            .collect();
        let (name, count, ty) = match (words[0], rest.as_slice()) {
            ("st", ["mbarrier::complete_tx::bytes", ty]) => (None, 1, *ty),
            ("st", ["mbarrier::complete_tx::bytes", "v2", ty]) => (None, 2, *ty),
            ("st", ["mbarrier::complete_tx::bytes", "v4", ty]) => (None, 4, *ty),
            ("red", ["mbarrier::complete_tx::bytes", name, ty]) => (Some(*name), 1, *ty),
            _ => return self.unsupported(""),
        };
        let ty = self.known(Ty::parse(ty).filter(|ty| matches!(ty.bytes(), 4 | 8)))?;
        if ty == Ty::Pred || ty.bytes() * count > 16 {
            return self.unsupported("");
        }
        let reduction = match name {
            Some(name) => Some(self.known(operation(name, ty))?),
            None => None,
        };
        let asks = |op: AtomOp| matches!(op, AtomOp::Exch | AtomOp::Cas);
        if reduction.is_some_and(asks) {
            return self.unsupported("");
        }
        self.expect_operands(3..=3)?;
        let values = match self.operand(1)? {
            Operand::Vector(all) if all.len() == count as usize => all.as_slice(),
            one if count == 1 => std::slice::from_ref(one),
            _ => return self.invalid("expected a vector in braces"),
        };
        let class = class(ty);
        let registers = self.registers(values, (class, ty), false)?;
        let registers = registers.into_iter().map(|r| (class, r)).collect();
        let (space, address, offset) = self.address(0, AddressSpace::Cluster)?;
        let access = Access::new(space, ty.bytes(), registers, address, offset);
        let barrier = self.bulk_place(2, AddressSpace::Cluster)?;
        self.watch_shared(AddressSpace::Cluster, 4);
        self.emit(Op::AsyncStore(Box::new(AsyncStore {
            access,
            barrier,
            reduction,
        })));
        Ok(())
    }
}

/// Returns the class and the type of an address.
fn address_type(word: &str) -> (Class, Ty) {
    match word {
        "u64" => (Class::R64, Ty::U64),
        _ => (Class::R32, Ty::U32),
    }
}
