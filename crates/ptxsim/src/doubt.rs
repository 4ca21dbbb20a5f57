//! Decides which counters of a launch are withheld, so that no gate may rest on them, and why.
//!
//! A counter of the gate tier claims to equal what a GPU counts in the same launch. That is known for what
//! CALIBRATION.md compared, where the GPU executes the accesses that PTX says, as often as the simulator does. It is in
//! doubt where that does not follow from the PTX:
//!
//! - The number of executions depends on something that is not simulated: a loop that polls turns as often as the
//!   schedule makes it ([`Doubt::Polls`]), and the assembler unrolls a loop in its own way, which shows if lanes leave
//!   it in different turns ([`Doubt::RaggedLoop`]).
//! - The assembler may execute something else: it makes one access of two ([`Doubt::Joined`], in `joined`), keeps a
//!   part of a fragment ([`Doubt::ZeroStride`]), or adds and drops products ([`Doubt::AlteredProducts`]).
//! - The form, or the way in which the launch uses it, was not compared, or differed ([`Doubt::Uncompared`],
//!   [`Doubt::SplitCopy`]).
//!
//! A doubt withholds only the counters that its instruction adds to, and only if the launch executed that instruction.
//! The forms of doubt that follow from the code alone are worked out once for each program ([`Shape`]). What ptxas does
//! is known of version 13.0.88. A change of code by ptxas that has not been observed yet is not among the doubts.

mod joined;

use crate::counters::added_quantity;
use crate::flow;
use crate::isa::mma::Mma;
use crate::isa::wgmma::Wgmma;
use crate::isa::{AddressSpace, Control, Direction, Kind, MemoryAccess, Object, Op};
use crate::program::Program;
use crate::regs::Class;
use crate::report::Cost;
use model::{Counter, Doubt, Tier, Withheld};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Returns the counters of the gate tier that no gate may rest on, each with its first doubt in the order of [`Doubt`]
/// and of the program.
pub(crate) fn withheld(
    program: &Program,
    shape: &Shape,
    costs: &[Cost],
) -> BTreeMap<Counter, Withheld> {
    let seen = Seen::new(program, shape, costs);
    let gates = || {
        Counter::ALL
            .into_iter()
            .filter(|counter| counter.tier() == Tier::Gate)
    };
    let mut found = BTreeMap::new();
    for doubt in Doubt::ALL {
        for at in seen.accesses() {
            for counter in gates().filter(|gate| seen.is_doubtful(*gate, doubt, at)) {
                found.entry(counter).or_insert_with(|| Withheld {
                    doubt,
                    place: program.place(program.code[at].source),
                });
            }
        }
    }
    found
}

/// Marks the loads of fragments whose stride ptxas can see to be 0.
pub(crate) fn see_strides(program: &mut Program) {
    let seen: Vec<usize> = (0..program.code.len())
        .filter(|&at| match &program.code[at].op {
            Op::Mma(m) => match &**m {
                Mma::WmmaLoad(t) => joined::always_zero(program, (Class::R32, t.stride)),
                _ => false,
            },
            _ => false,
        })
        .collect();
    for at in seen {
        if let Op::Mma(m) = &mut program.code[at].op
            && let Mma::WmmaLoad(t) = &mut **m
        {
            t.stride_is_0 = true;
        }
    }
}

/// The doubts that follow from the program alone, whatever a launch does.
pub(crate) struct Shape {
    loops: Vec<RangeInclusive<usize>>,
    joined: Vec<bool>,
    waits: Vec<bool>,
    altered: Vec<bool>,
}

impl Shape {
    pub fn new(program: &Program) -> Shape {
        #[cfg(test)]
        tests::MADE.with(|made| made.set(made.get() + 1));
        let loops = loops(program);
        Shape {
            waits: flow::waits(program, &loops),
            loops,
            joined: joined::joined(program),
            altered: altered(program),
        }
    }
}

/// A launch that has ended, whose counters are judged.
struct Seen<'a> {
    program: &'a Program,
    costs: &'a [Cost],
    shape: &'a Shape,
    ragged: Vec<RangeInclusive<usize>>,
}

impl<'a> Seen<'a> {
    fn new(program: &'a Program, shape: &'a Shape, costs: &'a [Cost]) -> Self {
        Seen {
            ragged: ragged(program, costs, &shape.loops),
            program,
            costs,
            shape,
        }
    }

    /// Returns the instructions that asked memory for something, and the ends of groups of products.
    fn accesses(&self) -> impl Iterator<Item = usize> + '_ {
        self.costs
            .iter()
            .zip(&self.program.code)
            .enumerate()
            .filter(|(_, (cost, inst))| match inst.op {
                Op::WgmmaCommit => cost.issued > 0,
                _ => cost.requests > 0,
            })
            .map(|(at, _)| at)
    }

    /// Returns true if the doubt holds for a counter because of this instruction.
    fn is_doubtful(&self, counter: Counter, doubt: Doubt, at: usize) -> bool {
        let inst = &self.program.code[at];
        let form = self.program.form(inst);
        let cost = &self.costs[at];
        let adds = |kind| added_quantity(counter, kind).is_some();
        let is_meant = adds(inst.op.kind(form));
        let any_load = adds(Kind::GlobalLoad) || adds(Kind::SharedLoad);
        let any_store = adds(Kind::GlobalStore) || adds(Kind::SharedStore);
        match doubt {
            Doubt::Polls => self.shape.waits.get(at).copied().unwrap_or_default(),
            Doubt::Uncompared => {
                let facts = inst.op.facts();
                let is_fragment = matches!(inst.op, Op::Mma(_));
                let uncompared = |access: &MemoryAccess| {
                    let is_elsewhere = is_fragment && access.space != AddressSpace::Shared;
                    let by_address = access.space == AddressSpace::Generic || is_elsewhere;
                    access.object == Object::Texels || access.is_plain() && by_address
                };
                // This copy goes through L1, which the other copies of 16 bytes bypass.
                let through_l1 = matches!(inst.op, Op::CpAsync { bytes: 16, .. });
                let found = facts.memory().find(uncompared);
                match found.map(|access| (access.object, access.direction)) {
                    Some((Object::Texels, Direction::Read)) => adds(Kind::GlobalLoad),
                    Some((Object::Texels, _)) => adds(Kind::GlobalStore),
                    Some((_, Direction::Read)) => any_load,
                    Some(_) => any_store,
                    None => is_meant && (!compared(form) || through_l1 && form.contains(".ca.")),
                }
            }
            Doubt::RaggedLoop => is_meant && self.ragged.iter().any(|l| l.contains(&at)),
            Doubt::Joined => is_meant && self.shape.joined.get(at).copied().unwrap_or_default(),
            Doubt::SplitCopy => counter == Counter::GlobalLoadSectors && cost.split_copies > 0,
            Doubt::ZeroStride => is_meant && cost.zero_strides > 0,
            Doubt::AlteredProducts => {
                let altered = self.shape.altered.get(at).copied().unwrap_or_default();
                altered && added_quantity(counter, Kind::WarpgroupMatrix).is_some()
            }
        }
    }
}

/// Returns true for the ends of groups in whose stretch of code no product comes before them, and for products that
/// repeat the one right before.
fn altered(program: &Program) -> Vec<bool> {
    let mut begins = vec![false; program.code.len()];
    for inst in &program.code {
        for to in inst.op.facts().control.branches() {
            if let Some(begins) = begins.get_mut(*to as usize) {
                *begins = true;
            }
        }
    }
    let mut last: Option<(usize, &Wgmma)> = None;
    program
        .code
        .iter()
        .zip(begins)
        .enumerate()
        .map(|(at, (inst, begins))| {
            if begins {
                last = None;
            }
            if let Op::Wgmma(product) = &inst.op {
                let before = last.replace((at, product));
                return before.is_some_and(|(place, other)| {
                    let between = &program.code[place + 1..at];
                    between.iter().all(|inst| !inst.counts) && other.is_same(product)
                });
            }
            match inst.op.facts().control {
                Control::Branch(_) | Control::Table(_) | Control::Call(_) => last = None,
                Control::Next | Control::Return | Control::Exit | Control::Stop => {}
            }
            matches!(inst.op, Op::WgmmaCommit) && last.take().is_none()
        })
        .collect()
}

/// Returns true if the table of CALIBRATION.md has kernels with this form: plain accesses of each width and vector,
/// copies without hints, matrix loads and stores.
fn compared(form: &str) -> bool {
    let mut words = form.split('.');
    let plain = |word: &str| {
        let typed = word
            .strip_prefix(['b', 'u', 's', 'f'])
            .is_some_and(|bits| matches!(bits, "8" | "16" | "32" | "64"));
        typed || matches!(word, "global" | "shared" | "nc" | "v2" | "v4")
    };
    match words.next() {
        Some("ld" | "st") => words.all(plain),
        Some("cp") if form.contains(".bulk") => words.all(is_of_bulk),
        Some("cp") => words.all(|w| matches!(w, "async" | "ca" | "cg" | "shared" | "global")),
        Some("ldmatrix" | "stmatrix") => true,
        Some("wmma") => match (words.nth(1), words.next_back()) {
            (Some("a" | "b"), last) => last == Some("f16"),
            (_, last) => last == Some("f32"),
        },
        Some("red") => !form.starts_with("red.async"),
        // `wgmma` was compared. The information tier counts all others.
        _ => true,
    }
}

/// The words of bulk copies that CALIBRATION.md has counts of. The operation and type of a reduction change nothing.
const BULK_WORDS: &str = "async bulk reduce tensor tile bulk_group shared::cluster shared::cta global 1d 2d 3d 4d 5d \
     mbarrier::complete_tx::bytes multicast::cluster L2::cache_hint add min max inc dec and or xor noftz \
     b32 b64 u32 s32 u64 s64 f16 bf16 f32 f64";

fn is_of_bulk(word: &str) -> bool {
    BULK_WORDS.split_whitespace().any(|known| known == word)
}

/// Returns the loops: the instructions from the target of a jump back to the jump.
fn loops(program: &Program) -> Vec<RangeInclusive<usize>> {
    let mut loops = Vec::new();
    for (from, inst) in program.code.iter().enumerate() {
        let branches = inst.op.facts().control.branches().iter();
        loops.extend(
            branches
                .map(|to| *to as usize)
                .filter(|to| *to <= from)
                .map(|to| to..=from),
        );
    }
    loops
}

/// Returns the loops that a part of a warp's lanes left while others went on. If such a loop calls functions, all of
/// the program counts as the loop, because the lanes that are left execute the functions.
fn ragged(
    program: &Program,
    costs: &[Cost],
    loops: &[RangeInclusive<usize>],
) -> Vec<RangeInclusive<usize>> {
    let leaves = |within: &RangeInclusive<usize>| {
        within.clone().any(|at| {
            let (Some(inst), Some(cost)) = (program.code.get(at), costs.get(at)) else {
                return false;
            };
            let outside = |to: usize| !within.contains(&to);
            match inst.op.facts().control {
                Control::Branch(to) => {
                    cost.divergent > 0 && (outside(*to as usize) || outside(at + 1))
                }
                Control::Table(all) => {
                    cost.divergent > 0 && all.iter().any(|to| outside(*to as usize))
                }
                Control::Exit | Control::Return => inst.guard != 0 && cost.lanes > 0,
                Control::Next | Control::Call(_) | Control::Stop => false,
            }
        })
    };
    let calls = |within: &RangeInclusive<usize>| {
        let code = program.code.get(within.clone()).unwrap_or_default();
        code.iter()
            .any(|inst| matches!(inst.op.facts().control, Control::Call(_)))
    };
    loops
        .iter()
        .filter(|within| leaves(within))
        .map(|within| {
            if calls(within) {
                0..=program.code.len()
            } else {
                within.clone()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::{Limits, Memory, Module, launch};
    use std::cell::Cell;

    thread_local! {
        /// The number of shapes that this thread has worked out.
        pub static MADE: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn a_kernel_is_looked_at_once() {
        let text = include_str!("../tests/fixtures/functions.ptx");
        let module = Module::load(text).unwrap();
        let plain = ".version 8.4\n.target sm_90\n.address_size 64\n.entry k() { ret; }";
        let other = Module::load(plain).unwrap();
        assert_eq!((module.kernels().len() > 1, MADE.get()), (true, 0));
        for _ in 0..3 {
            let kernel = other.kernel("k").unwrap();
            let mut memory = Memory::default();
            let limits = Limits::default();
            launch(kernel, [2, 1, 1], [64, 1, 1], 0, &[], &mut memory, limits).unwrap();
        }
        assert_eq!(MADE.get(), 1);
    }
}
