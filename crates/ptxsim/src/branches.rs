//! Tells whether two instructions belong to one stream, from the branches of a program. They do not if a branch leads
//! out from between them, or in between them, so that lanes of one warp may take different ways; if another iteration
//! of a loop may lie between them; or if a value that one of them reads decides a branch. In a program with calls, or
//! with tables that jump back, the order of instructions cannot be seen from their numbers, and no two are of one
//! stream.

use crate::isa::{Control, Inst, Meeting, MemoryAccess, Register, Special, Use};
use crate::program::Program;
use crate::regs::Class;
use model::Apart;
use std::collections::HashSet;

/// The last jump back of any lanes of the warp.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub from: u32,
    pub epoch: u32,
    /// The instruction at which the lanes that jumped had last met before.
    pub met: Option<u32>,
}

/// The relation between two instructions, as far as the code alone shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Apart(Apart),
    /// The two belong to one stream. `loops` is true if the first one is in a loop.
    Straight {
        loops: bool,
    },
}

/// Branches of a program, and what decides them.
pub struct Branches {
    /// Source and destination of each branch that lanes of a warp may take apart, and of each jump back. The
    /// destination of an exit or a return is `u32::MAX`.
    all: Vec<(u32, u32)>,
    /// True if there are calls, or tables that jump back: no order of instructions can be seen from their numbers.
    irregular: bool,
    deciding: HashSet<Register>,
    /// The number of instructions before each one that access memory.
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

    /// Returns true if all accesses by lanes in the epoch of a jump back came after the jump: no instruction between
    /// the place where they had met and the jump accesses memory.
    pub fn is_after(&self, turn: Turn) -> bool {
        let before = |at: u32| self.accesses.get(at as usize);
        turn.met
            .is_some_and(|met| met < turn.from && before(met) == before(turn.from))
    }

    /// Returns how the code leads from one instruction to another.
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

/// Returns the registers that decide a branch, or which lanes take part in an exchange, directly or through values that
/// are computed from them, in this lane or another.
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

/// Adds registers until none is new: if `from` returns a register of the set for an instruction, all that `to` returns
/// for it are added.
fn spread(
    program: &Program,
    all: &mut HashSet<Register>,
    [from, to]: [fn(&Inst) -> Vec<Register>; 2],
) {
    let mut before = usize::MAX;
    while before != all.len() {
        before = all.len();
        // Both directions, because chains of values go either way through the code.
        for inst in program.code.iter().rev().chain(&program.code) {
            if from(inst).iter().any(|register| all.contains(register)) {
                all.extend(to(inst));
            }
        }
    }
}

/// Returns the registers in which lanes of a warp may hold different values (the divergence analysis). The analysis
/// starts from registers that differ between lanes from the beginning, from results of instructions that are not
/// uniform, and from registers that several instructions write, because lanes may have executed different ones of them.
/// Everything that is computed from such a register is added.
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
