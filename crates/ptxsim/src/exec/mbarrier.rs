//! mbarrier objects (PTX ISA 9.7.13.15).
//!
//! The 8 bytes in shared memory are the state, in a layout of this library's own. A `try_wait` waits
//! for as long as it takes: its loop turns once, on every run.

use super::access::LaneAccess;
use super::access::address::{Addresses, Site, addresses, split};
use super::bulk::BulkRead;
use super::cluster::{learn, number_of};
use super::divergence::Current;
use super::state::*;
use super::warp::Next;
use crate::check::order::{Inter, Sparse};
use crate::check::race::{Clock, Strength, WARPS};
use crate::isa::*;
use crate::regs::{LANES, lanes};
use crate::report::*;
use std::collections::HashMap;

/// Bytes of an mbarrier object in shared memory.
const BYTES: u32 = 8;

const COUNT: u64 = (1 << 20) - 1;

/// The fields of an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// Arrivals that the present phase still waits for, and how many each phase expects.
    pending: u64,
    expected: u64,
    /// Bytes under way, in 21 bits.
    tx: i64,
    phase: bool,
}

impl State {
    fn from_word(word: u64) -> State {
        State {
            pending: word & COUNT,
            expected: word >> 20 & COUNT,
            tx: ((word << 3) as i64) >> 43,
            phase: word >> 63 == 1,
        }
    }

    fn word(self) -> u64 {
        let tx = (self.tx as u64 & 0x1f_ffff) << 40;
        self.pending & COUNT | (self.expected & COUNT) << 20 | tx | u64::from(self.phase) << 63
    }

    /// `more` bytes are under way, or so many fewer.
    fn expect(&mut self, more: i64) -> Result<(), String> {
        self.tx += more;
        if self.tx.unsigned_abs() <= COUNT {
            Ok(())
        } else {
            Err(format!(
                "{} bytes at an mbarrier, which counts {COUNT}",
                self.tx
            ))
        }
    }

    fn arrive(&mut self, count: u64) -> Result<(), String> {
        if count == 0 || count > self.pending {
            let left = self.pending;
            return Err(format!(
                "{count} arrivals at an mbarrier that waits for {left}"
            ));
        }
        self.pending -= count;
        Ok(())
    }

    /// True when a phase has come to its end.
    fn turn(&mut self) -> bool {
        let over = self.pending == 0 && self.tx == 0;
        if over {
            self.phase = !self.phase;
            self.pending = self.expected;
        }
        over
    }
}

/// The accesses that arriving threads hand on, and those that the last phase has handed to those who wait.
#[derive(Clone)]
struct Meeting {
    arrived: (Clock, Inter),
    released: (Clock, Inter),
    /// The same of threads of other blocks of the cluster.
    from_others: Sparse,
    released_by_others: Sparse,
}

impl Default for Meeting {
    fn default() -> Self {
        let nothing = || ([0; WARPS], Inter::default());
        Meeting {
            arrived: nothing(),
            released: nothing(),
            from_others: Sparse::default(),
            released_by_others: Sparse::default(),
        }
    }
}

/// Copies that report to an mbarrier.
pub struct Delivery {
    pub address: u32,
    pub warp: u32,
    pub lane: u32,
    pub copies: Vec<CopyOp>,
    /// Bytes of a bulk copy. Other copies have none: they arrive.
    pub bytes: Option<u32>,
    /// The rank of the block whose thread copies, where it is another one of the cluster.
    pub from: Option<u32>,
    /// Shared memory of the copying block that it reads.
    pub source: Option<BulkRead>,
    /// The copies are operands of this, by elements of so many bytes.
    pub reduction: Option<(AtomOp, u32)>,
}

/// The order that the mbarriers of a block hand on, and the copies that will report to them.
#[derive(Default)]
pub struct Mbarriers {
    /// By the address of the mbarrier.
    meetings: HashMap<u32, Meeting>,
    deliveries: Vec<Delivery>,
}

impl Mbarriers {
    /// Adds copies that will report to an mbarrier.
    pub fn send(&mut self, delivery: Delivery) {
        self.deliveries.push(delivery);
    }

    /// Returns the copies that have not come in yet.
    pub fn under_way(&self) -> &[Delivery] {
        &self.deliveries
    }
}

fn state_at(b: &BlockState, address: u32) -> State {
    State::from_word(b.shared.mbarrier(address as usize))
}

/// Whether the phase that somebody waits to end has ended.
pub fn has_turned(b: &BlockState, address: u32, phase: bool) -> bool {
    let arrives = |d: &Delivery| d.address == address && d.bytes.is_none();
    state_at(b, address).phase != phase
        || b.mbarriers.deliveries.iter().any(arrives)
        || ending_copies(b, address).is_some()
}

/// Bytes of the bulk copies under way to an mbarrier, oldest first.
fn bulk_bytes(b: &BlockState, address: u32) -> impl Iterator<Item = i64> {
    b.mbarriers
        .deliveries
        .iter()
        .filter(move |d| d.address == address)
        .filter_map(|d| d.bytes)
        .map(i64::from)
}

/// How many of the bulk copies under way end the present phase, if they do.
fn ending_copies(b: &BlockState, address: u32) -> Option<usize> {
    let mut state = state_at(b, address);
    let ends = |bytes| {
        state.tx -= bytes;
        state.pending == 0 && state.tx == 0
    };
    bulk_bytes(b, address)
        .map(ends)
        .position(|ends| ends)
        .map(|last| last + 1)
}

/// The things that an mbarrier waits for, as the end of a message: bytes that it expects and nothing copies, or that nobody
/// expects; arrivals.
pub fn lacks(b: &BlockState, address: u32) -> String {
    let state = state_at(b, address);
    let bytes = match state.tx - bulk_bytes(b, address).sum::<i64>() {
        0 => String::new(),
        n @ 1.. => format!(", to which {n} expected bytes were not copied,"),
        n => format!(", to which {} bytes more than expected were copied,", -n),
    };
    match state.pending {
        0 => bytes,
        n => format!(
            "{bytes}, which waits for {n} of {} arrivals,",
            state.expected
        )
        .replace(",,", ","),
    }
}

impl Machine<'_> {
    /// Executes an instruction on mbarriers. Lanes whose phase has not ended wait for it, if the instruction blocks.
    pub fn mbarrier<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        m: &Mbarrier,
        o: &[u32; 6],
        (now, mask): (&Current, u32),
    ) -> Run<Next> {
        let s = Site { pc: now.pc, mask };
        let (done, wait) = self.mbarrier_lanes::<CHECKS>(b, w, m, o, s)?;
        Ok(match wait {
            Some((address, phase)) => {
                let wait = Wait::Mbarrier { address, phase };
                self.wait_again(w, now, (mask & !done, done), wait)
            }
            None if m.op.polls() && w.look() => Next::Yield,
            None => Next::Step,
        })
    }

    /// Returns the lanes for which it is done. The others have to wait for a phase of theirs to end: the address and the
    /// phase of the first of them are returned.
    fn mbarrier_lanes<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        m: &Mbarrier,
        o: &[u32; 6],
        s: Site,
    ) -> Run<(u32, Option<(u32, bool)>)> {
        let all = addresses(&w.regs, m.address, m.offset);
        let mut room = [0; LANES];
        let (space, mask, a) = split(m.space, &all, s.mask, &mut room);
        if space == AddressSpace::Cluster && mask == s.mask {
            self.mbarrier_in_cluster::<CHECKS>(b, w, m, o, s, a)?;
            return Ok((mask, None));
        }
        if space != AddressSpace::Shared || mask != s.mask {
            let address = all[s.mask.trailing_zeros() as usize];
            let what = "an mbarrier outside shared memory";
            return s.refuse_at(FaultKind::OutOfBounds, address, what);
        }
        if m.op == MbarrierOp::Init {
            // All lanes of a warp may make the same one.
            let counts = &w.regs.r32[o[1] as usize].0;
            let values = counts.map(|count| {
                let mut value = [0; 32];
                value[..4].copy_from_slice(&count.to_le_bytes());
                value
            });
            let x = LaneAccess {
                values: Some(&values),
                ..LaneAccess::new(s, a, BYTES, Direction::Write)
            };
            self.aligned(s, (AddressSpace::Shared, a), BYTES)?;
            self.in_window(&x, b.shared.len(), AddressSpace::Shared)?;
            self.observe_shared::<CHECKS>(b, w, None, &x);
            if CHECKS {
                self.note_inits(b, w, s, a);
            }
        } else {
            self.at_mbarrier::<CHECKS>(b, w, None, s, a)?;
        }
        let mut done = 0;
        let mut wait = None;
        for l in lanes(mask) {
            match self.mbarrier_lane(b, w, m, o, s, a, l)? {
                None => done |= 1 << l,
                Some(phase) => wait = wait.or(Some((a[l] as u32, phase))),
            }
        }
        Ok((done, wait))
    }

    /// Lanes use mbarriers that are there already, at these addresses of shared memory: of `owner`, or of the block at work.
    pub fn at_mbarrier<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        owner: Option<&mut BlockState>,
        s: Site,
        a: &Addresses,
    ) -> Run<()> {
        // libcu++ lets one lane end an mbarrier after no more than a `match.sync` with those
        // that used it, so that is not held against anybody.
        let x = LaneAccess::new(s, a, BYTES, Direction::Update).with_strength(Strength::Atomic);
        self.aligned(s, (AddressSpace::Shared, a), BYTES)?;
        let size = owner.as_deref().unwrap_or(b).shared.len();
        self.in_window(&x, size, AddressSpace::Shared)?;
        if let (true, Some(owner)) = (CHECKS, &owner) {
            for l in lanes(s.mask) {
                self.check_init(b, w, owner, s, (l, a[l]));
            }
        }
        self.observe_shared::<CHECKS>(b, w, owner, &x);
        Ok(())
    }

    /// `Some(phase)`: the lane has to wait for it to end.
    fn mbarrier_lane(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        m: &Mbarrier,
        o: &[u32; 6],
        s: Site,
        a: &Addresses,
        l: usize,
    ) -> Run<Option<bool>> {
        let address = a[l] as u32;
        let r32 = |n: usize| u64::from(w.regs.r32[o[n] as usize].0[l]);
        let mut problem = Ok(());
        match m.op {
            MbarrierOp::Init => {
                let count = r32(1);
                if count == 0 || count > COUNT {
                    problem = Err(format!("an mbarrier for {count} arrivals"));
                }
                let state = State {
                    pending: count,
                    expected: count,
                    tx: 0,
                    phase: false,
                };
                b.mbarriers.meetings.insert(address, Meeting::default());
                put(b, address, state);
            }
            MbarrierOp::Inval => {
                b.mbarriers.meetings.remove(&address);
                b.shared.set_mbarrier(address as usize, 0);
            }
            MbarrierOp::Arrive { .. } | MbarrierOp::ExpectTx | MbarrierOp::CompleteTx => {
                let arrives = matches!(m.op, MbarrierOp::Arrive { .. });
                if arrives && o[0] != 0 {
                    w.regs.r64[o[0] as usize].0[l] = state_at(b, address).word();
                }
                problem = count_at(b, address, m.op, (r32(1), r32(2)));
                if arrives {
                    hand_on(b, w.index, &w.inter, address);
                    w.inter.meet();
                }
                self.turn(b, address);
            }
            MbarrierOp::CopiesArrive { counted } => {
                let mut state = state_at(b, address);
                state.pending += u64::from(!counted);
                put(b, address, state);
                let lane = l as u32;
                let copies = w.copies.take(1 << lane);
                b.mbarriers.send(Delivery {
                    address,
                    warp: w.index,
                    lane,
                    copies,
                    bytes: None,
                    from: None,
                    source: None,
                    reduction: None,
                });
            }
            MbarrierOp::WaitState { blocks } | MbarrierOp::WaitParity { blocks } => {
                problem = self.deliver(b, |d| d.address == address && d.bytes.is_none());
                let phase = match m.op {
                    MbarrierOp::WaitParity { .. } => r32(1) & 1 == 1,
                    _ => State::from_word(w.regs.r64[o[3] as usize].0[l]).phase,
                };
                if state_at(b, address).phase == phase {
                    problem = problem.and(self.deliver_bulk(b, address));
                }
                let over = state_at(b, address).phase != phase;
                if over {
                    take_over(b, w, m, address);
                } else if blocks && problem.is_ok() {
                    return Ok(Some(phase));
                }
                let p = &mut w.regs.pred[o[0] as usize];
                *p = *p & !(1 << l) | u32::from(over) << l;
            }
        }
        match problem {
            Ok(()) => Ok(None),
            Err(what) => s.only(l).refuse_at(FaultKind::Undefined, a[l], what),
        }
    }

    fn turn(&mut self, b: &mut BlockState, address: u32) {
        self.progress += 1;
        let mut state = state_at(b, address);
        if state.turn() {
            let meeting = b.mbarriers.meetings.entry(address).or_default();
            meeting.released = meeting.arrived.clone();
            meeting.released_by_others = meeting.from_others.clone();
        }
        put(b, address, state);
    }

    /// Copies come in at the last moment that is allowed: when somebody looks.
    pub fn deliver(
        &mut self,
        b: &mut BlockState,
        mut whose: impl FnMut(&Delivery) -> bool,
    ) -> Result<(), String> {
        if b.mbarriers.deliveries.is_empty() {
            return Ok(());
        }
        let all = std::mem::take(&mut b.mbarriers.deliveries);
        let (now, later) = all.into_iter().partition(|d| whose(d));
        b.mbarriers.deliveries = later;
        let mut result = Ok(());
        for d in now {
            match (d.from, d.reduction) {
                (None, None) => d.copies.iter().for_each(|copy| b.land(d.warp, copy)),
                (_, None) => d.copies.iter().for_each(|copy| b.place_copy(copy)),
                (_, Some(how)) => d.copies.iter().for_each(|copy| b.reduce(copy, how)),
            }
            let address = d.address;
            let mut state = state_at(b, address);
            result = result.and(match d.bytes {
                None => state.arrive(1),
                Some(bytes) => state.expect(-i64::from(bytes)),
            });
            put(b, d.address, state);
            match d.from {
                None => {
                    self.note_landing(b, b, &d);
                    if let Some(read) = d.source {
                        read.end(b, d.warp);
                    }
                    hand_on(b, d.warp, &Inter::default(), d.address);
                }
                Some(rank) => self.hand_on_from(b, rank, d),
            }
            self.turn(b, address);
        }
        result
    }

    /// Bulk copies come in when they end the phase that somebody waits for, and not before.
    fn deliver_bulk(&mut self, b: &mut BlockState, address: u32) -> Result<(), String> {
        let mut left = ending_copies(b, address).unwrap_or(0);
        self.deliver(b, |d| {
            let now = left > 0 && d.address == address && d.bytes.is_some();
            left -= usize::from(now);
            now
        })
    }
}

impl Machine<'_> {
    /// Arrivals and counts of bytes at mbarriers of the cluster.
    fn mbarrier_in_cluster<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        m: &Mbarrier,
        o: &[u32; 6],
        s: Site,
        a: &Addresses,
    ) -> Run<()> {
        let x = LaneAccess::new(s, a, BYTES, Direction::Update);
        self.by_owner(
            b,
            w,
            AddressSpace::Cluster,
            &x,
            |machine, b, w, mut owner, x| {
                let (s, a) = (x.site, x.at);
                machine.at_mbarrier::<CHECKS>(b, w, owner.as_deref_mut(), s, a)?;
                let Some(owner) = owner else {
                    return lanes(s.mask)
                        .try_for_each(|l| machine.mbarrier_lane(b, w, m, o, s, a, l).map(drop));
                };
                for l in lanes(s.mask) {
                    let r32 = |n: usize| u64::from(w.regs.r32[o[n] as usize].0[l]);
                    let address = a[l] as u32;
                    if let Err(what) = count_at(owner, address, m.op, (r32(1), r32(2))) {
                        return s.only(l).refuse_at(FaultKind::Undefined, a[l], what);
                    }
                    if matches!(m.op, MbarrierOp::Arrive { .. }) && m.scope != Scope::Block {
                        let handed = w.handed_on(b, m.relaxed);
                        let meeting = owner.mbarriers.meetings.entry(address).or_default();
                        meeting.from_others.join(&handed);
                        w.inter.meet();
                    }
                    machine.turn(owner, address);
                }
                if let Some(clocks) = &mut b.shadow {
                    clocks.tick(w.index);
                }
                Ok(())
            },
        )
    }
}

impl Machine<'_> {
    /// A copy by a thread of another block of the cluster has come in.
    fn hand_on_from(&mut self, b: &mut BlockState, rank: u32, d: Delivery) {
        let Some(mut from) = self.cluster.take(rank) else {
            return;
        };
        self.note_landing(b, &from, &d);
        if let Some(read) = d.source {
            read.end(&mut from, d.warp);
        }
        let warp = number_of(&from, d.warp);
        if let Some(clocks) = &mut from.shadow {
            let own = Sparse::new(vec![(warp, clocks.epoch(d.warp))]);
            clocks.tick(d.warp);
            let meeting = b.mbarriers.meetings.entry(d.address).or_default();
            meeting.arrived.1.known.join(&own);
        }
        self.cluster.put(from);
    }
}

/// Counts arrivals and bytes at an mbarrier.
fn count_at(
    b: &mut BlockState,
    address: u32,
    op: MbarrierOp,
    (count, bytes): (u64, u64),
) -> Result<(), String> {
    let mut state = state_at(b, address);
    let problem = match op {
        MbarrierOp::Arrive { drop, expects } => {
            let problem = state.expect(if expects { bytes as i64 } else { 0 });
            let problem = problem.and(state.arrive(count));
            state.expected -= if drop { count.min(state.expected) } else { 0 };
            problem
        }
        MbarrierOp::CompleteTx => state.expect(-(bytes as i64)),
        _ => state.expect(bytes as i64),
    };
    put(b, address, state);
    problem
}

fn put(b: &mut BlockState, address: u32, state: State) {
    b.shared.set_mbarrier(address as usize, state.word());
    b.shared.mark(address as usize, BYTES as usize);
}

fn hand_on(b: &mut BlockState, warp: u32, inter: &Inter, address: u32) {
    if let Some(shadow) = &mut b.shadow {
        let (clock, known) = &mut b.mbarriers.meetings.entry(address).or_default().arrived;
        shadow.release(warp, clock);
        known.join(inter);
    }
}

fn take_over(b: &mut BlockState, w: &mut Warp, m: &Mbarrier, address: u32) {
    let by_others = b.mbarriers.meetings.get(&address);
    let by_others = by_others.map(|barrier| barrier.released_by_others.clone());
    if let Some(by_others) =
        by_others.filter(|released| !released.is_empty() && m.scope != Scope::Block)
    {
        if m.relaxed {
            w.near.see(&by_others)
        } else {
            learn(b, w.index, &mut w.inter, &by_others)
        }
    }
    if let (Some(shadow), Some(meeting)) = (&mut b.shadow, b.mbarriers.meetings.get(&address)) {
        let (clock, known) = &meeting.released;
        shadow.acquire(w.index, clock, false);
        shadow.lanes_know(w.index, clock[w.index as usize % WARPS]);
        w.inter.join(known);
    }
}

/// Executes `mbarrier.pending_count`, which reads a state that an arrival has returned.
pub fn pending_count(w: &mut Warp, o: &[u32; 6], mask: u32) {
    let state = w.regs.r64[o[1] as usize].0;
    for l in lanes(mask) {
        w.regs.r32[o[0] as usize].0[l] = pending(state[l]);
    }
}

/// Arrivals that a state was waiting for.
fn pending(state: u64) -> u32 {
    State::from_word(state).pending as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_its_word() {
        for (pending, expected, tx, phase) in [
            (1, 2, 0, false),
            (COUNT, COUNT, -5, true),
            (0, 7, 1_000_000, false),
        ] {
            let state = State {
                pending,
                expected,
                tx,
                phase,
            };
            assert_eq!(State::from_word(state.word()), state);
        }
    }

    #[test]
    fn a_phase_ends_with_its_arrivals_and_bytes() {
        let mut s = State {
            pending: 2,
            expected: 2,
            tx: 16,
            phase: false,
        };
        assert!(s.arrive(2).is_ok() && !s.turn());
        assert!(s.arrive(1).is_err());
        s.tx -= 16;
        assert!(s.turn() && s.phase && s.pending == 2);
    }
}
