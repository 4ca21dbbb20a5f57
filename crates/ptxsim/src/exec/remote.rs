//! Accesses to shared memory of other blocks of the cluster (PTX ISA 5.1.6, `.shared::cluster`).

use super::access::address::{Addresses, Site, addresses};
use super::access::transfer::collect;
use super::access::{Counting, LaneAccess};
use super::mbarrier::Delivery;
use super::state::*;
use crate::check::race::Strength;
use crate::isa::*;
use crate::regs::lanes;
use crate::report::*;

impl Machine<'_> {
    /// Executes `st.async` and `red.async`. The values are read at once, and arrive when a thread waits for them.
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
        self.aligned(s, (AddressSpace::Cluster, &all), bytes)?;
        self.same_block(b, s, &all, &barriers)?;
        let barriers = barriers.map(|x| x & ((1 << CLUSTER_PAGE) - 1));
        let atomic = store.reduction.is_some();
        let x = LaneAccess::new(s, &all, bytes, Direction::Write);
        self.by_owner(b, w, AddressSpace::Cluster, &x, |m, b, w, mut owner, x| {
            m.count_shared(&x.counted(Counting::Lanes));
            m.at_mbarrier::<CHECKS>(b, w, owner.as_deref_mut(), x.site, &barriers)?;
            let x = if atomic {
                let direction = Direction::Update;
                LaneAccess { direction, ..*x }.with_strength(Strength::Atomic)
            } else {
                *x
            };
            let seen = m.observe_shared::<CHECKS>(b, w, owner.as_deref_mut(), &x);
            let from = owner.is_some().then_some(b.rank);
            let to = owner.unwrap_or(b);
            for l in lanes(x.site.mask) {
                let (mut data, at) = ([0; 16], x.at[l] as u32);
                let n = bytes.min(16) as usize;
                data[..n].copy_from_slice(&collect(&w.regs, access, l)[..n]);
                if !atomic {
                    to.under_way.begin_write(at, bytes, s.pc);
                }
                let copy = CopyOp {
                    lane: l as u32,
                    undefined: Self::stored_undefined(w, access, l).filter(|_| CHECKS && !atomic),
                    seen,
                    to: at,
                    bytes,
                    data,
                    instruction: s.pc,
                };
                to.mbarriers.send(Delivery {
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
            Ok(())
        })
    }

    /// Faults if bytes go to one block and are reported to an mbarrier of another one (PTX ISA 9.7.9.12 and
    /// 9.7.9.25.4).
    pub fn same_block(
        &self,
        b: &BlockState,
        s: Site,
        to: &Addresses,
        barriers: &Addresses,
    ) -> Run<()> {
        let apart = |l: &usize| rank_of(to[*l], b.rank) != rank_of(barriers[*l], b.rank);
        match lanes(s.mask).find(apart) {
            None => Ok(()),
            Some(l) => {
                let what = "bytes that go to one block of the cluster and are reported to an mbarrier of another one";
                s.only(l).refuse_at(FaultKind::Undefined, to[l], what)
            }
        }
    }
}
