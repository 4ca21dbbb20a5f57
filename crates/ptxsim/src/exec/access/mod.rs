//! Every access to memory takes the one path in this module.
//!
//! An access is described by a [`LaneAccess`]: which lanes, where, how many bytes, in which direction, how strong. It is
//! resolved to the memory that it lies in ([`Target`], `address`), the observers are asked (`observe`), the bytes move
//! (`transfer`), and undefined values are followed. Loads, stores and atomics take this whole way ([`Machine::access`]).
//! Instructions that move bytes in a way of their own (copies, matrices, textures) describe what they access, and get an
//! [`Observed`] for it. Without one, no memory hands out its bytes.
//!
//! `steady` is asked first. If the lanes lie as they did when the instruction ran before (`pattern`), it takes the earlier
//! resolution, and the observers look at whole stretches instead of lanes.

pub mod address;
pub mod pattern;
mod steady;
pub mod transfer;

use crate::check::global::Scoped;
use crate::check::race::Strength;
use crate::exec::state::*;
use crate::exec::warp::Next;
use crate::isa::*;
use crate::memory::{Content, Witness};
use crate::regs::{LANES, lanes};
use crate::report::*;
use address::{Addresses, Site, addresses, split};
use std::ops::DerefMut;
use transfer::{Transfer, Values};

/// Shows that the observers were asked about an access. Memory hands out its bytes for one.
#[derive(Clone, Copy, Debug)]
pub struct Observed(());

impl Witness for Observed {}

/// The memory that an access lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Global memory: the number of an allocation.
    Global(usize),
    Shared,
    Local,
}

/// The way in which an access to shared memory is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Loads and stores are counted lane by lane.
    Lanes,
    /// `ldmatrix` and its kin are counted by matrices of 8 rows of 16 bytes.
    Matrices(usize),
    /// The instruction counts its access itself.
    Apart,
}

/// An access by lanes of a warp to one memory.
#[derive(Clone, Copy)]
pub struct LaneAccess<'a> {
    pub site: Site,
    /// The offset of each lane in that memory.
    pub at: &'a Addresses,
    pub bytes: u32,
    pub direction: Direction,
    pub scoped: Scoped,
    pub order: Order,
    /// The bytes that each lane writes, if lanes that write the same bytes do not race.
    pub values: Option<&'a Values>,
    pub counting: Counting,
    /// The lowest offset, if the lanes lie in the pattern of the instruction.
    pub lowest: Option<u64>,
}

impl<'a> LaneAccess<'a> {
    /// Returns a weak access that is counted by its instruction.
    pub fn new(site: Site, at: &'a Addresses, bytes: u32, direction: Direction) -> Self {
        Self {
            site,
            at,
            bytes,
            direction,
            scoped: Scoped::WEAK,
            order: Order::Weak,
            values: None,
            counting: Counting::Apart,
            lowest: None,
        }
    }

    /// Returns the same with another strength, and the scope that it has without an order.
    pub fn with_strength(self, strength: Strength) -> Self {
        Self {
            scoped: Scoped::new(strength, Order::Weak),
            ..self
        }
    }

    /// Returns the same, counted in another way.
    pub fn counted(self, counting: Counting) -> Self {
        Self { counting, ..self }
    }

    /// Returns the part of some lanes, at offsets in another memory.
    pub fn part<'b>(&self, mask: u32, at: &'b Addresses) -> LaneAccess<'b>
    where
        'a: 'b,
    {
        let site = Site { mask, ..self.site };
        LaneAccess { site, at, ..*self }
    }

    pub fn writes(&self) -> bool {
        self.direction != Direction::Read
    }

    /// Returns true if memory holds already what a lane writes.
    pub fn is_held<B: DerefMut<Target = [u8]>>(&self, lane: usize, content: &Content<B>) -> bool {
        let value = self
            .values
            .and_then(|all| all[lane].get(..self.bytes as usize));
        value.is_some_and(|value| content.is_equal(self.at[lane] as usize, value))
    }
}

/// Returns the strength of a load or a store. A guessed access counts as strong, as an atomic does.
fn strength(access: &Access) -> Strength {
    match access.order {
        Order::Weak if !access.guess => Strength::Weak,
        Order::Strong { volatile: true, .. } => Strength::Volatile,
        Order::Weak | Order::Strong { .. } => Strength::Strong,
    }
}

impl Machine<'_> {
    /// Executes a load, a store or an atomic. A warp that polls memory makes way for others after a while.
    #[inline(always)]
    pub fn transfer<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        transfer: Transfer,
        s: Site,
    ) -> Run<Next> {
        if let Transfer::Store(access) = transfer {
            self.progress += u64::from(access.space != AddressSpace::Local);
        }
        self.access::<CHECKS>(b, w, transfer, s)?;
        let polls = match transfer {
            Transfer::Load(access) => access.order != Order::Weak,
            Transfer::Store(_) => false,
            Transfer::Update(atom) => !atom.destinations.is_empty(),
        };
        Ok(if polls && w.look() {
            Next::Yield
        } else {
            Next::Step
        })
    }

    /// Makes a load, a store or an atomic, from its addresses to its registers.
    pub fn access<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        transfer: Transfer,
        s: Site,
    ) -> Run<()> {
        let is_done = match transfer {
            Transfer::Load(access) => self.steady::<CHECKS, false>(b, w, access, s),
            Transfer::Store(access) => {
                !(CHECKS && Self::may_store_undefined(w, access))
                    && self.steady::<CHECKS, true>(b, w, access, s)
            }
            Transfer::Update(_) => false,
        };
        if is_done {
            return Ok(());
        }
        let access = transfer.access();
        let all = addresses(&w.regs, access.address, access.offset);
        let mut room = [0; LANES];
        let mut rest = s.mask;
        while rest != 0 {
            let (space, mask, at) = split(access.space, &all, rest, &mut room);
            rest &= !mask;
            let x = LaneAccess {
                site: Site { mask, ..s },
                at,
                bytes: access.bytes(),
                direction: transfer.direction(),
                scoped: match transfer {
                    Transfer::Update(atom) => Scoped {
                        answers: atom.answers,
                        ..Scoped::new(Strength::Atomic, access.order)
                    },
                    _ => Scoped::new(strength(access), access.order),
                },
                order: access.order,
                values: None,
                counting: Counting::Lanes,
                lowest: None,
            };
            self.aligned(x.site, (space, at), x.bytes)?;
            match (space, transfer) {
                (AddressSpace::Global | AddressSpace::Generic, _) => {
                    self.in_global::<CHECKS>(b, w, transfer, &x)?;
                }
                (AddressSpace::Shared | AddressSpace::Cluster, _) => {
                    let values = transfer.values::<CHECKS>(&w.regs);
                    let values = values.as_ref();
                    let x = LaneAccess { values, ..x };
                    self.by_owner(b, w, space, &x, |m, b, w, mut owner, x| {
                        let seen = m.observe_shared::<CHECKS>(b, w, owner.as_deref_mut(), x);
                        let owner = owner.unwrap_or(b);
                        m.progress += transfer.run(&mut w.regs, &mut owner.shared, seen, x, true);
                        m.follow::<CHECKS>(owner, w, transfer, x, Target::Shared);
                        Ok(())
                    })?;
                }
                (AddressSpace::Local | AddressSpace::Param, Transfer::Update(_)) => {
                    let what = "an atomic outside global and shared memory";
                    return x.refuse(FaultKind::Undefined, what);
                }
                (AddressSpace::Local, _) => self.in_local::<CHECKS>(b, w, transfer, &x)?,
                (AddressSpace::Param, Transfer::Load(_)) => {
                    self.in_window(&x, self.job.params.len(), AddressSpace::Param)?;
                    transfer::deposit_all(&mut w.regs, access, self.job.params, at, mask);
                }
                (AddressSpace::Param, _) => {
                    let what = "write to a kernel parameter";
                    return x.refuse(FaultKind::ReadOnly, what);
                }
            }
        }
        Ok(())
    }

    /// Makes an access to global memory, as one if all lanes lie in one allocation, else lane by lane.
    #[inline(always)]
    fn in_global<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        transfer: Transfer,
        x: &LaneAccess,
    ) -> Run<()> {
        self.count_global(x);
        if CHECKS {
            self.meet(b, w, None, x);
        }
        // The lanes of an atomic run one after another, by their numbers. Any order is allowed, and this one repeats.
        let mut together = match transfer {
            Transfer::Update(_) => None,
            _ => self.in_one(x),
        };
        let mut rest = x.site.mask;
        while rest != 0 {
            let (i, at, mask) = match together.take() {
                Some((i, at)) => (i, at, rest),
                None => {
                    let lane = rest.trailing_zeros() as usize;
                    let (i, at) = self.locate(x, lane)?;
                    (i, [at as u64; LANES], 1 << lane)
                }
            };
            rest &= !mask;
            let part = x.part(mask, &at);
            self.within_allocation::<CHECKS>(b, w, transfer, &part, i);
        }
        Ok(())
    }

    /// Makes an access whose offsets lie in one allocation: asks, moves the bytes, and follows what has no value.
    #[inline(always)]
    pub fn within_allocation<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        transfer: Transfer,
        x: &LaneAccess,
        i: usize,
    ) {
        let values = transfer.values::<CHECKS>(&w.regs);
        let values = values.as_ref();
        let x = LaneAccess { values, ..*x };
        let seen = self.observe_global::<CHECKS>(b, w, i, &x);
        let content = &mut self.memory.at_mut(i).content;
        self.progress += transfer.run(&mut w.regs, content, seen, &x, false);
        self.follow::<CHECKS>(b, w, transfer, &x, Target::Global(i));
    }

    fn in_local<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        transfer: Transfer,
        x: &LaneAccess,
    ) -> Run<()> {
        let size = self.program.local_bytes as usize;
        self.in_window(x, size, AddressSpace::Local)?;
        let base = |lane: usize| (w.first_thread() as usize + lane) * size;
        let at = std::array::from_fn(|lane| x.at[lane].wrapping_add(base(lane) as u64));
        let x = LaneAccess { at: &at, ..*x };
        // No other thread can access this memory, so no observer has a question.
        let changes = transfer.run(&mut w.regs, &mut b.local, Observed(()), &x, false);
        self.progress += changes;
        self.follow::<CHECKS>(b, w, transfer, &x, Target::Local);
        Ok(())
    }

    /// Lets undefined values follow the bytes that have moved. `of` is the block that has the memory.
    #[inline(always)]
    fn follow<const CHECKS: bool>(
        &mut self,
        of: &mut BlockState,
        w: &mut Warp,
        transfer: Transfer,
        x: &LaneAccess,
        target: Target,
    ) {
        match transfer {
            Transfer::Load(access) if CHECKS && !self.is_all_known(target) => {
                for lane in lanes(x.site.mask) {
                    let at = x.at[lane] as usize;
                    if let Some(missing) = self.missing(of, target, (at, x.bytes), x.site.pc) {
                        self.read_undefined(w, access, lane, missing);
                    }
                }
            }
            Transfer::Store(access) if CHECKS && Self::may_store_undefined(w, access) => {
                for lane in lanes(x.site.mask) {
                    if let Some(missing) = Self::stored_undefined(w, access, lane) {
                        let place = (target, x.at[lane] as usize, lane);
                        self.leave_undefined(of, w, x.site, place, missing);
                    }
                }
            }
            _ => {}
        }
    }

    /// Asks the observers about an access within an allocation.
    #[inline(always)]
    pub fn observe_global<const CHECKS: bool>(
        &mut self,
        b: &BlockState,
        w: &Warp,
        i: usize,
        x: &LaneAccess,
    ) -> Observed {
        if CHECKS {
            self.check_updated(b, w, None, Target::Global(i), x);
            self.check_global_races(b, w, i, x);
        }
        Observed(())
    }

    /// Asks the observers about an access within the shared memory of a block: of `owner`, or of the block at work.
    #[inline(always)]
    pub fn observe_shared<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        owner: Option<&mut BlockState>,
        x: &LaneAccess,
    ) -> Observed {
        self.count_shared(x);
        if !CHECKS {
            return Observed(());
        }
        let owner = owner.as_deref();
        // A block's own atomic takes order over once it is done, and everything else before it begins.
        let late = owner.is_none() && x.direction == Direction::Update;
        let rank = owner.map_or(b.rank, |owner| owner.rank);
        if !late {
            self.meet(b, w, Some(rank), x);
        }
        if let Some(owner) = owner {
            self.visit(b, w, owner, x.site);
        }
        self.check_copies(b, w, owner, x);
        self.check_updated(b, w, owner, Target::Shared, x);
        self.check_shared_races(b, w, owner, x);
        if late {
            self.meet(b, w, Some(rank), x);
        }
        Observed(())
    }

    /// Divides lanes by the block whose shared memory they access, and calls `each` with that block and with addresses in
    /// its memory. The block at work is no owner: `each` gets `None` for it.
    pub fn by_owner(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        space: AddressSpace,
        x: &LaneAccess,
        mut each: impl FnMut(
            &mut Self,
            &mut BlockState,
            &mut Warp,
            Option<&mut BlockState>,
            &LaneAccess,
        ) -> Run<()>,
    ) -> Run<()> {
        if space == AddressSpace::Shared || !self.cluster.is_at_work() {
            self.in_window(x, b.shared.len(), AddressSpace::Shared)?;
            return each(self, b, w, None, x);
        }
        let at = x.at.map(|address| address & ((1 << CLUSTER_PAGE) - 1));
        let mut rest = x.site.mask;
        while rest != 0 {
            let lane = rest.trailing_zeros();
            let address = x.at[lane as usize];
            let rank = rank_of(address, b.rank);
            let same = |l: &usize| rank_of(x.at[*l], b.rank) == rank;
            let mask = lanes(rest).filter(same).fold(0, |all, l| all | 1 << l);
            rest &= !mask;
            let x = x.part(mask, &at);
            if rank == b.rank {
                self.in_window(&x, b.shared.len(), AddressSpace::Shared)?;
                each(self, b, w, None, &x)?;
                continue;
            }
            let Some(mut owner) = self.cluster.take(rank) else {
                let what = format!(
                    "access out of bounds: address {address:#x} of shared::cluster, in a cluster of {} blocks,",
                    self.cluster.size()
                );
                let one = x.site.only(lane as usize);
                return one.refuse_at(FaultKind::OutOfBounds, address, what);
            };
            let done = self
                .in_window(&x, owner.shared.len(), AddressSpace::Shared)
                .and_then(|()| each(self, b, w, Some(&mut owner), &x));
            self.cluster.put(owner);
            done?;
        }
        Ok(())
    }
}

impl LaneAccess<'_> {
    /// Refuses the access for its first lane.
    fn refuse<T>(&self, kind: FaultKind, what: &str) -> Run<T> {
        let lane = self.site.mask.trailing_zeros() as usize;
        self.site.refuse_at(kind, self.at[lane], what)
    }
}
