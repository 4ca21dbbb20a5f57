//! Checks of shared memory that blocks of a cluster access in one another.
//!
//! Races between blocks are found as in global memory: each block's shared memory is an allocation, and all accesses to
//! it are recorded, including accesses by its own block. Races within a block are reported by `shared_races`.
//!
//! A block's shared memory ends with the block. An access from elsewhere that nothing orders before the end of one of its
//! threads is reported, whichever comes first here.

use crate::check::global::{Accessor, Conflict, GlobalShadow, Scoped};
use crate::check::order::Inter;
use crate::check::race::Strength;
use crate::exec::access::LaneAccess;
use crate::exec::access::address::{Addresses, Site};
use crate::exec::cluster::{Init, Visit, Visitor, number_of};
use crate::exec::mbarrier::Delivery;
use crate::exec::observe::global_races::accessor;
use crate::exec::observe::shared_races::Between;
use crate::exec::state::*;
use crate::isa::*;
use crate::regs::{LANES, lanes};
use crate::report::*;
use model::{Clash, FindingEvent, MemoryPlace};

impl Machine<'_> {
    /// Reports an access to the shared memory of a block that has ended. If the block has not ended yet, the access is
    /// kept, and judged when it does.
    pub fn visit(&mut self, b: &BlockState, w: &Warp, owner: &BlockState, s: Site) {
        let (lane, epoch) = (
            s.mask.trailing_zeros(),
            b.shadow.as_ref().map(|c| c.epoch(w.index)),
        );
        if self.cluster.has_ended(owner.rank) {
            let at = At::lane(b, w, s.pc, lane);
            return self.tell_exited(at, owner.id);
        }
        let by = Visitor {
            owner: owner.rank,
            block: b.rank,
            warp: w.index,
            instruction: s.pc,
        };
        if let Some(epoch) = epoch {
            self.cluster.note_visit(by, Visit { epoch, lane });
        }
    }

    /// Reports an access to the shared memory of a block that has ended.
    fn tell_exited(&mut self, at: At, owner: [u32; 3]) {
        self.find(FindingKind::ExitedBlock, at, None, |m| {
            FindingEvent::AfterBlockEnd {
                name: m.name_of(at.instruction),
                owner,
            }
        });
    }

    /// Reports, when a block of the cluster has ended, what others may still do to its shared memory, and it to theirs.
    pub fn tell_late_visits(&mut self, b: &BlockState) {
        for (by, visit) in self.cluster.visits_to(b.rank) {
            let Some(block) = self.cluster.block(by.block) else {
                continue;
            };
            let number = number_of(block, by.warp);
            if !b
                .warps
                .iter()
                .flatten()
                .any(|w| visit.epoch <= w.inter.known.epoch_of(number))
            {
                let thread = by.warp * LANES as u32 + visit.lane;
                let at = At::thread(block.id, thread, by.instruction);
                self.tell_exited(at, b.id);
            }
        }
        let sent = b
            .mbarriers
            .under_way()
            .iter()
            .filter_map(|d| Some((d, d.from?)));
        for (d, from) in sent {
            let source = self.cluster.block(from);
            if let (Some(copy), Some(source)) = (d.copies.first(), source) {
                let thread = d.warp * LANES as u32 + d.lane;
                let at = At::thread(source.id, thread, copy.instruction);
                self.tell_exited(at.address(u64::from(copy.to)), b.id);
            }
        }
        let reading: Vec<_> = self
            .cluster
            .others()
            .flat_map(|other| other.mbarriers.under_way())
            .filter(|d| d.from == Some(b.rank) && d.source.is_some())
            .filter_map(|d| {
                Some((
                    d.warp * LANES as u32 + d.lane,
                    d.copies.first()?.instruction,
                ))
            })
            .collect();
        for (thread, instruction) in reading {
            let at = At::thread(b.id, thread, instruction);
            self.find_in_flight(at, None, Clash::BlockEnds, None);
        }
    }

    /// Hands what could not be judged in a cluster to the launch, when the cluster ends.
    pub fn tell_unjudged_in_cluster(&mut self) {
        if let (Some(of_cluster), Some(global)) = (self.cluster.shadow.take(), &mut self.global) {
            global.full |= of_cluster.full;
            global.unjudged.readers.extend(of_cluster.unjudged.readers);
            global.unjudged.flags.extend(of_cluster.unjudged.flags);
        }
    }

    /// Records an access to shared memory of the block at work, or of `owner`, and looks for races between blocks. Within a
    /// block `shared_races` tells of them.
    pub fn check_cluster_races(
        &mut self,
        b: &BlockState,
        w: &Warp,
        owner: Option<&BlockState>,
        x: &LaneAccess,
    ) {
        let Some(clocks) = &b.shadow else { return };
        let Some(mut shadow) = self.cluster.shadow.take() else {
            return;
        };
        let of = owner.unwrap_or(b);
        let s = x.site;
        let me = Accessor {
            scoped: Scoped {
                // No scope is smaller than the cluster but the block. Whatever an access to the block's own memory says, it
                // takes in the others.
                scope: match x.scoped.scope {
                    Scope::Block if owner.is_some() => Scope::Block,
                    _ => Scope::Device,
                },
                strength: x.scoped.strength,
                answers: false,
            },
            grave: &|c| c.block != b.number,
            ..accessor(b, clocks, w.index, &w.inter, s.pc)
        };
        let mut found = Vec::new();
        for l in lanes(s.mask) {
            let place = (l as u32, x.at[l] as usize, x.bytes);
            record(&mut shadow, &me, of, place, x.writes(), &mut found);
        }
        self.cluster.shadow = Some(shadow);
        for c in found.into_iter().filter(|c| c.block != b.number) {
            let warp = u64::from(c.block * me.warps + c.warp);
            // A fence of the mbarrier's initialisation made it ready for all who use the mbarrier.
            if c.was_write && self.initialises(c.instruction) && w.near.knows_inits(warp, c.epoch) {
                continue;
            }
            let l = c.lane as usize;
            // Several blocks may write one value, as in `if (bad) flag = 1;`.
            let again = c.was_write && c.instruction == s.pc;
            if owner.is_some() && again && x.is_held(l, &of.shared) {
                continue;
            }
            self.race_in_cluster(b, w, of, (s, x.at[l]), x.writes(), c);
        }
    }

    /// Records a copy that has come in to shared memory of block `b`. From here on it counts as an access of its
    /// thread, in block `from` of the cluster.
    pub fn note_landing(&mut self, b: &BlockState, from: &BlockState, d: &Delivery) {
        let Some(clocks) = &from.shadow else { return };
        let Some(shadow) = &mut self.cluster.shadow else {
            return;
        };
        let strength = match d.reduction {
            None => Strength::Weak,
            Some(_) => Strength::Atomic,
        };
        let nothing = Inter::default();
        for copy in &d.copies {
            let me = Accessor {
                scoped: Scoped {
                    strength,
                    ..Scoped::WEAK
                },
                ..accessor(from, clocks, d.warp, &nothing, copy.instruction)
            };
            // Races were reported when the copy was issued.
            let place = (copy.lane, copy.to as usize, copy.bytes);
            record(shadow, &me, b, place, true, &mut Vec::new());
        }
    }

    /// Notes that lanes of the block at work have initialised mbarriers.
    pub fn note_inits(&mut self, b: &BlockState, w: &Warp, s: Site, a: &Addresses) {
        let Some(clocks) = b.shadow.as_ref().filter(|_| self.cluster.shadow.is_some()) else {
            return;
        };
        for l in lanes(s.mask) {
            let init = Init {
                thread: w.first_thread() + l as u32,
                warp: number_of(b, w.index),
                epoch: clocks.epoch(w.index),
                instruction: s.pc,
            };
            self.cluster.note_init(b.rank, a[l], init);
        }
    }

    /// Reports an mbarrier that its block may not have made ready for others.
    pub fn check_init(
        &mut self,
        b: &BlockState,
        w: &Warp,
        owner: &BlockState,
        s: Site,
        (lane, address): (usize, u64),
    ) {
        let Some(init) = self.cluster.init_at(owner.rank, address) else {
            return;
        };
        let is_known = init.epoch <= w.inter.known.epoch_of(init.warp);
        if is_known || w.near.knows_inits(init.warp, init.epoch) {
            return;
        }
        let at = At::lane(b, w, s.pc, lane as u32).address(address);
        let other = Some(Other {
            block: Some(owner.id),
            ..Other::by(init.instruction, init.thread)
        });
        self.find(FindingKind::SharedRace, at, other, |_| {
            FindingEvent::MbarrierRace
        });
    }

    /// Returns true if the instruction initialises an mbarrier.
    fn initialises(&self, instruction: u32) -> bool {
        let mut accesses = self.program.memory_at(instruction);
        accesses
            .any(|access| access.object == Object::Mbarrier && access.direction == Direction::Write)
    }

    #[cold]
    fn race_in_cluster(
        &mut self,
        b: &BlockState,
        w: &Warp,
        owner: &BlockState,
        (s, address): (Site, u64),
        write: bool,
        c: Conflict,
    ) {
        let here = At::lane(b, w, s.pc, c.lane).address(address);
        let thread = c.warp * LANES as u32 + c.other_lane.unwrap_or(0);
        let other = Some(Other {
            block: Some(self.job.grid.place(c.block)),
            ..Other::by(c.instruction, thread)
        });
        self.find(FindingKind::SharedRace, here, other, |m| {
            let owner = owner.id;
            let memory = MemoryPlace::Distributed { address, owner };
            let block = Some(m.job.grid.place(c.block));
            Between::Unordered.race(memory, [write, c.was_write], block, None)
        });
    }
}

/// The number of bytes that are recorded at once.
const PIECE: u32 = 16;

/// Records an access by a lane to shared memory of a block, piece by piece, and finds what has no order with it.
fn record(
    shadow: &mut GlobalShadow,
    me: &Accessor,
    of: &BlockState,
    (lane, at, bytes): (u32, usize, u32),
    write: bool,
    found: &mut Vec<Conflict>,
) {
    let pieces = (0..bytes).step_by(PIECE as usize);
    let places = pieces.map(|n| (lane, at + n as usize));
    let (rank, size) = (of.rank as usize, of.shared.len());
    shadow.access(me, rank, size, places, bytes.min(PIECE), write, Some(found));
}
