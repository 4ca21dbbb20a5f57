//! Accesses to shared memory of other blocks of the cluster (PTX ISA 5.1.6, `.shared::cluster`).

use super::address::{Addresses, Site, addresses};
use super::cost::Way;
use super::mbarrier::Delivery;
use super::mem::{collect, collect_all, deposit_all};
use super::state::*;
use super::visits::Remote;
use super::watch::{Does, strength};
use crate::check::global::Scoped;
use crate::check::race::Strength;
use crate::isa::*;
use crate::regs::{LANES, lanes};
use crate::report::*;

impl Machine<'_> {
    /// Divides lanes by the block of the cluster that their addresses lie in, and does something for those of each: `own`
    /// for the block at work, `other` with another block. Addresses are those in the block.
    pub fn by_block(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        (s, a, bytes): (Site, &Addresses, u32),
        mut own: impl FnMut(&mut Self, &mut BlockState, &mut Warp, Site, &Addresses) -> Run<()>,
        mut other: impl FnMut(
            &mut Self,
            &mut BlockState,
            &mut Warp,
            &mut BlockState,
            Site,
            &Addresses,
        ) -> Run<()>,
    ) -> Run<()> {
        if !self.cluster.is_at_work() {
            return self.in_window(b, w, s, a, bytes, b.shared.len(), AddressSpace::Shared);
        }
        let at = a.map(|x| x & ((1 << CLUSTER_PAGE) - 1));
        let mut rest = s.mask;
        while rest != 0 {
            let lane = rest.trailing_zeros();
            let rank = rank_of(a[lane as usize], b.rank);
            let same = |l: &usize| rank_of(a[*l], b.rank) == rank;
            let mask = lanes(rest).filter(same).fold(0, |all, l| all | 1 << l);
            rest &= !mask;
            let s = Site { mask, ..s };
            if rank == b.rank {
                own(self, b, w, s, &at)?;
                continue;
            }
            let place = self.cluster.blocks.get_mut(rank as usize);
            let Some(mut owner) = place.and_then(Option::take) else {
                let at = At::lane(b, w, s.pc, lane).address(a[lane as usize]);
                let what = format!(
                    "access out of bounds: address {:#x} of shared::cluster, in a cluster of {} blocks,",
                    a[lane as usize],
                    self.cluster.blocks.len()
                );
                return self.fault(FaultKind::OutOfBounds, at, &what);
            };
            let size = owner.shared.len();
            let done = self
                .in_window(b, w, s, &at, bytes, size, AddressSpace::Shared)
                .and_then(|()| other(self, b, w, &mut owner, s, &at));
            self.cluster.blocks[rank as usize] = Some(owner);
            done?;
        }
        Ok(())
    }

    pub fn load_in_cluster<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        access: &Access,
        s: Site,
        a: &Addresses,
    ) -> Run<()> {
        let bytes = access.bytes();
        self.by_block(
            b,
            w,
            (s, a, bytes),
            |m, b, w, s, a| m.load_shared::<CHECKS>(b, w, access, s, a),
            |m, b, w, owner, s, a| {
                m.count_shared(s, a, bytes, Way::Load);
                if CHECKS {
                    let scoped = Scoped::of(strength(access), access.order);
                    m.meet_in_cluster(b, w, (Some(owner.rank), a), s, access.order, Does::Read);
                    m.check_remote(b, w, owner, (s, a, bytes), scoped, Remote::Read);
                }
                deposit_all(&mut w.regs, access, &owner.shared, a, s.mask);
                if CHECKS {
                    m.read_undefined_shared(owner, w, access, s, a);
                }
                Ok(())
            },
        )
    }

    pub fn store_in_cluster<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        access: &Access,
        s: Site,
        a: &Addresses,
    ) -> Run<()> {
        let bytes = access.bytes();
        self.by_block(
            b,
            w,
            (s, a, bytes),
            |m, b, w, s, a| m.store_shared::<CHECKS>(b, w, access, s, a),
            |m, b, w, owner, s, a| {
                m.count_shared(s, a, bytes, Way::Store);
                if CHECKS {
                    let scoped = Scoped::of(strength(access), access.order);
                    let values = std::array::from_fn(|l| collect(&w.regs, access, l));
                    m.meet_in_cluster(b, w, (Some(owner.rank), a), s, access.order, Does::Write);
                    let does = Remote::Write(Some(&values));
                    m.check_remote(b, w, owner, (s, a, bytes), scoped, does);
                }
                collect_all(&w.regs, access, &mut owner.shared, a, s.mask);
                if CHECKS {
                    Self::note_shared(owner, w, access, s, a);
                }
                Ok(())
            },
        )
    }

    pub fn atomic_in_cluster<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        atom: &Atomic,
        s: Site,
        a: &Addresses,
    ) -> Run<()> {
        let (bytes, order) = (atom.access.bytes(), atom.access.order);
        self.by_block(
            b,
            w,
            (s, a, bytes),
            |m, b, w, s, a| m.atomic_shared::<CHECKS>(b, w, atom, s, a),
            |m, b, w, owner, s, a| {
                m.count_shared(s, a, bytes, Way::Store);
                if CHECKS {
                    let scoped = Scoped::of(Strength::Atomic, order);
                    m.meet_in_cluster(b, w, (Some(owner.rank), a), s, order, Does::Exchange);
                    m.check_remote(b, w, owner, (s, a, bytes), scoped, Remote::Update);
                }
                m.update_shared(owner, w, atom, s, a);
                Ok(())
            },
        )
    }

    /// `st.async` and `red.async`: the values go at once, and arrive when somebody waits for them.
    pub fn async_store<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        store: &AsyncStore,
        s: Site,
    ) -> Run<()> {
        let (access, barrier) = (&store.access, &store.barrier);
        let all = addresses(&w.regs, access.address, access.offset);
        let barriers = addresses(&w.regs, barrier.address, barrier.offset);
        let bytes = access.bytes();
        self.aligned(b, w, s, (AddressSpace::Cluster, &all), bytes)?;
        self.same_block(b, w, s, &all, &barriers)?;
        let barriers = barriers.map(|x| x & ((1 << CLUSTER_PAGE) - 1));
        let atomic = store.reduction.is_some();
        let send = |to: &mut BlockState, w: &Warp, from: Option<u32>, s: Site, a: &Addresses| {
            for l in lanes(s.mask) {
                let (mut data, at) = ([0; 16], a[l] as u32);
                let n = bytes.min(16) as usize;
                data[..n].copy_from_slice(&collect(&w.regs, access, l)[..n]);
                if !atomic {
                    to.in_flight.begin(at, bytes, s.pc);
                }
                let copy = CopyOp {
                    lane: l as u32,
                    undefined: Self::stored_undefined(w, access, l).filter(|_| CHECKS && !atomic),
                    to: at,
                    bytes,
                    data,
                    instruction: s.pc,
                };
                to.deliveries.push(Delivery {
                    address: barriers[l] as u32,
                    warp: w.index,
                    lane: l as u32,
                    copies: vec![copy],
                    bytes: Some(bytes),
                    from,
                    source: None,
                    reduction: store.reduction.map(|op| (op, access.width)),
                });
            }
        };
        self.by_block(
            b,
            w,
            (s, &all, bytes),
            |m, b, w, s, a| {
                m.count_shared(s, a, bytes, Way::Store);
                m.at_mbarrier::<CHECKS>(b, w, s, &barriers)?;
                if CHECKS && atomic {
                    m.check_shared_read(b, w, s, a, bytes, Strength::Atomic);
                } else if CHECKS {
                    m.check_shared_write(b, w, s, a, bytes, Strength::Weak, &[[]; LANES]);
                }
                send(b, w, None, s, a);
                Ok(())
            },
            |m, b, w, owner, s, a| {
                m.count_shared(s, a, bytes, Way::Store);
                m.at_remote_mbarrier::<CHECKS>(b, w, owner, s, &barriers)?;
                if CHECKS {
                    let (strength, does) = if atomic {
                        (Strength::Atomic, Remote::Update)
                    } else {
                        (Strength::Weak, Remote::Write(None))
                    };
                    let scoped = Scoped::of(strength, Order::Weak);
                    m.check_remote(b, w, owner, (s, a, bytes), scoped, does);
                }
                send(owner, w, Some(b.rank), s, a);
                Ok(())
            },
        )
    }

    /// Bytes are reported to an mbarrier of the block that they go to (PTX ISA 9.7.9.12 and 9.7.9.25.4).
    pub fn same_block(
        &self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        to: &Addresses,
        barriers: &Addresses,
    ) -> Run<()> {
        let apart = |l: &usize| rank_of(to[*l], b.rank) != rank_of(barriers[*l], b.rank);
        match lanes(s.mask).find(apart) {
            None => Ok(()),
            Some(l) => {
                let at = At::lane(b, w, s.pc, l as u32).address(to[l]);
                let what = "bytes that go to one block of the cluster and are reported to an mbarrier of another one";
                self.fault(FaultKind::Undefined, at, what)
            }
        }
    }

    /// Lanes use mbarriers of another block, at these addresses there.
    pub fn at_remote_mbarrier<const CHECKS: bool>(
        &mut self,
        b: &BlockState,
        w: &Warp,
        owner: &BlockState,
        s: Site,
        a: &Addresses,
    ) -> Run<()> {
        self.aligned(b, w, s, (AddressSpace::Shared, a), 8)?;
        self.in_window(b, w, s, a, 8, owner.shared.len(), AddressSpace::Shared)?;
        if CHECKS {
            for l in lanes(s.mask) {
                self.check_init(b, w, owner, s, (l, a[l]));
            }
            let scoped = Scoped::of(Strength::Atomic, Order::Weak);
            self.check_remote(b, w, owner, (s, a, 8), scoped, Remote::Update);
        }
        Ok(())
    }
}
