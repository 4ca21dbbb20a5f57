//! Tells whether two accesses by lanes of one warp belong to one instruction stream. If they do, only lanes that part
//! without a branch can change their order, which a GPU may do and `__syncwarp()` forbids.
//!
//! They do not where the lanes have parted or a branch of the program lets them part, where another iteration of a loop
//! may lie between them, and where a value that one of them reads decides a branch. In doubt they do not.

use super::state::Warp;
use crate::analysis::AnalysedProgram;
use crate::branches::{Turn, Way};
use crate::quick::QuickMap;
use model::Apart;
use std::cell::RefCell;

/// The lanes that a warp runs now, and since when they have been together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    pub mask: u32,
    /// The instruction from which on the lanes have executed everything together.
    since: u32,
    /// The instruction at which they met last, if they have since they are together.
    met: Option<u32>,
    turned: Option<Turn>,
}

impl Stream {
    pub fn new(mask: u32, entry: u32) -> Stream {
        Stream {
            mask,
            since: entry,
            met: None,
            turned: None,
        }
    }

    /// Notes the lanes that run at `pc` now. If they are others than before, they are together from here on.
    #[inline(always)]
    pub fn run(&mut self, mask: u32, pc: u32) {
        if self.mask != mask {
            (self.mask, self.since, self.met) = (mask, pc, None);
        }
    }

    /// Notes that the lanes jump back.
    #[inline(always)]
    pub fn turn(&mut self, from: u32, to: u32, epoch: u32) {
        self.since = self.since.min(to);
        let met = self.met;
        self.turned = Some(Turn { from, epoch, met });
    }

    /// Notes that the lanes meet at a `__syncwarp()` or a barrier.
    #[inline(always)]
    pub fn meet(&mut self, pc: u32) {
        self.met = Some(pc);
    }
}

/// An earlier access by other lanes of the warp.
#[derive(Clone, Copy, Debug)]
pub struct Earlier {
    pub instruction: u32,
    /// The lanes that made it, or `None` if they are not known.
    pub lanes: Option<u32>,
    pub epoch: u32,
}

/// The state of a warp at one instruction, with which its accesses are judged.
pub struct Streams<'a> {
    pub known: &'a Known<'a>,
    pub stream: Stream,
    /// The lanes that the warp began with.
    pub began: u32,
    pub now: u32,
}

/// The results for pairs of instructions of a program that were worked out already.
pub struct Known<'a> {
    program: &'a AnalysedProgram,
    ways: RefCell<QuickMap<(u32, u32), Way>>,
}

impl<'a> Known<'a> {
    pub fn new(program: &'a AnalysedProgram) -> Self {
        let ways = RefCell::default();
        Known { program, ways }
    }
}

impl Streams<'_> {
    /// Returns the reason for which an earlier access and the present one are of different streams, or `None` if they
    /// are of one.
    #[cold]
    pub fn apart(&self, earlier: Earlier) -> Option<Apart> {
        let Stream {
            mask,
            since,
            turned,
            ..
        } = self.stream;
        let others = earlier.lanes.unwrap_or(self.began);
        if others & !mask != 0 {
            return Some(Apart::Branches);
        }
        let pair = (earlier.instruction, self.now);
        let Known { program, ways } = self.known;
        let known = ways.borrow().get(&pair).copied();
        let branches = program.branches();
        let way = known.unwrap_or_else(|| {
            let way = branches.way(program, pair.0, pair.1);
            ways.borrow_mut().insert(pair, way);
            way
        });
        let may_be_before = |turn: Turn| {
            earlier.epoch < turn.epoch || earlier.epoch == turn.epoch && !branches.is_after(turn)
        };
        match way {
            Way::Apart(why) => Some(why),
            Way::Straight { loops: true } if turned.is_some_and(may_be_before) => {
                Some(Apart::Iterations)
            }
            Way::Straight { .. } => (earlier.instruction < since).then_some(Apart::Branches),
        }
    }
}

impl Warp {
    pub fn streams<'a>(&self, known: &'a Known<'a>, now: u32) -> Streams<'a> {
        Streams {
            known,
            stream: self.stream,
            began: self.lanes.began(),
            now,
        }
    }
}
