//! Whether two instructions are of one stream, as far as the branches of a program tell it.

use crate::isa::{Control, Meeting, MemoryAccess, Register, Use};
use crate::isa::{Inst, Special};
use crate::program::Program;
use crate::regs::Class;
use model::Apart;
use std::collections::HashSet;

/// The last jump back of any lanes of the warp.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub from: u32,
    pub epoch: u32,
    /// Where the lanes that jumped had met before.
    pub met: Option<u32>,
}

/// The relation between two instructions, as far as the code alone tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Apart(Apart),
    /// One stream; the first is in a loop, or not.
    Straight {
        loops: bool,
    },
}

/// Branches of a program, and what decides them.
pub struct Branches {
    /// From where to where.
    all: Vec<(u32, u32)>,
    /// Calls, and tables that jump back: no order of instructions can be told from their numbers.
    irregular: bool,
    deciding: HashSet<Register>,
    /// For each instruction, how many instructions before it access memory.
    accesses: Vec<u32>,
}

impl Branches {
    pub fn new(program: &Program) -> Branches {
        let (mut all, mut irregular) = (Vec::new(), false);
        let varying = varying(program);
        let mut accesses = vec![0];
        for (from, inst) in (0..).zip(&program.code) {
            let before = accesses.last().copied().unwrap_or(0);
            accesses.push(before + u32::from(inst.op.facts().memory().next().is_some()));
            let guard = inst.guard_register();
            let parts = guard.is_none_or(|guard| varying.contains(&(Class::Pred, guard)));
            match inst.op.facts().control {
                // Lanes that jump back or not have left the loop, or are in the next iteration.
                Control::Branch(to) if parts || *to <= from => all.push((from, *to)),
                Control::Table(to) => {
                    irregular |= to.iter().any(|to| *to <= from);
                    all.extend(to.iter().map(|to| (from, *to)));
                }
                Control::Call(_) => irregular = true,
                Control::Exit | Control::Return => all.push((from, u32::MAX)),
                Control::Next | Control::Branch(_) | Control::Stop => {}
            }
        }
        Branches {
            all,
            irregular,
            deciding: deciding(program),
            accesses,
        }
    }

    /// Whether all that lanes accessed in the epoch of a jump back came after it.
    pub fn is_after(&self, turn: Turn) -> bool {
        let before = |at: u32| self.accesses.get(at as usize);
        turn.met
            .is_some_and(|met| met < turn.from && before(met) == before(turn.from))
    }

    /// How the code leads from one instruction to a later one.
    pub fn way(&self, program: &Program, first: u32, then: u32) -> Way {
        let inst = |at: u32| program.code.get(at as usize);
        // A copy arrives at a time of its own.
        let copies = |access: MemoryAccess| access.is_asynchronous() && access.writes();
        let is_copy = |at| inst(at).is_none_or(|inst: &Inst| inst.op.facts().memory().any(copies));
        if self.irregular || is_copy(first) || is_copy(then) {
            return Way::Apart(Apart::Branches);
        }
        if first >= then {
            return Way::Apart(Apart::Iterations);
        }
        let mut loops = false;
        for &(from, to) in &self.all {
            let between = |at: u32| (first + 1..=then).contains(&at);
            let leaves = (first..then).contains(&from) && to > then;
            let enters = from < first && between(to);
            if leaves || enters {
                return Way::Apart(Apart::Branches);
            }
            if to <= first && from >= first {
                if from < then {
                    return Way::Apart(Apart::Iterations);
                }
                loops = true;
            }
        }
        let decides = |inst: &Inst| {
            let written = inst.written();
            written.iter().any(|r| self.deciding.contains(r))
        };
        if [first, then].into_iter().filter_map(inst).any(decides) {
            Way::Apart(Apart::Decides)
        } else {
            Way::Straight { loops }
        }
    }
}

/// Registers that a branch, or who takes part in an exchange, hangs on, through whatever is worked out of
/// them, in this lane or another.
fn deciding(program: &Program) -> HashSet<Register> {
    let mut all = HashSet::new();
    for inst in &program.code {
        let facts = inst.op.facts();
        let jumps = !matches!(facts.control, Control::Next)
            || !matches!(facts.meeting, Meeting::Nobody | Meeting::Warp);
        if jumps {
            all.extend(inst.registers_of(|how| how == Use::Control));
        }
    }
    spread(program, &mut all, [Inst::written, Inst::read]);
    all
}

/// Adds registers until none is new: wherever an instruction has one of the first kind in the set, those of the second kind.
fn spread(
    program: &Program,
    all: &mut HashSet<Register>,
    [from, to]: [fn(&Inst) -> Vec<Register>; 2],
) {
    let mut before = usize::MAX;
    while before != all.len() {
        before = all.len();
        // Chains go either way through the code.
        for inst in program.code.iter().rev().chain(&program.code) {
            if from(inst).iter().any(|register| all.contains(register)) {
                all.extend(to(inst));
            }
        }
    }
}

/// Registers in which lanes of a warp may hold different values. A value that several instructions write may
/// depend on which of them a lane has executed.
fn varying(program: &Program) -> HashSet<Register> {
    let mut all: HashSet<Register> = HashSet::new();
    let of_lane = |special: &Special| {
        !matches!(
            special,
            Special::Ntid(_) | Special::Ctaid(_) | Special::Nctaid(_) | Special::NWarpId
        )
    };
    all.extend(
        program
            .specials
            .iter()
            .filter(|(special, ..)| of_lane(special))
            .map(|(_, class, r)| (*class, *r)),
    );
    let mut written = HashSet::new();
    for inst in &program.code {
        let plain = inst.op.facts().is_uniform();
        let varies = inst.written().into_iter();
        all.extend(varies.filter(|register| !written.insert(*register) || !plain));
    }
    spread(program, &mut all, [Inst::read, Inst::written]);
    all
}
