//! Facts of the machine and of the moment that a program can see, and that no result may depend on: the number of its
//! multiprocessor, of its warp's slot, of the grid, the clock, the size of shared memory with what the system adds, the
//! driver's registers, and where memory lies.
//!
//! A launch can be run with other values of them ([`crate::Limits::varied`]). Everything else stays: blocks and warps
//! take turns as before, so that sums of floats come to the same bits. Any difference then depends on what was varied.
//! Following values through branches would not be exact: a kernel may pick its work by the multiprocessor that it is
//! on, and still compute the same.
//!
//! A second launch takes as long as the first. So [`looks`] asks the program first which circumstances it reads. An
//! address counts as read only if it may become more than an address (`Flow`): it is stored, it decides a branch, or
//! something that was made of it, and may have other low bits, is used as an address.
//!
//! For two of them one other value is not enough ([`Turn`]). If all bits of two addresses change, neither their
//! distance nor the difference of their bits does, and no two arrangements put any three buffers into all orders. And a
//! clock that is faster by a fixed factor leaves low bits of a difference as they were. This can miss a limit between
//! the two rates and real ones, the order of blocks that `malloc` gives, and addresses of shared and local memory,
//! which have one place.

pub use crate::isa::Circumstance;
use crate::isa::{Access, AddressSpace, HOST_BASE, Inst, MODULE_BASE, Special};
use crate::isa::{MemoryAccess, Object, Register, Use, Values};
use crate::memory::Memory;
use crate::program::Program;
use crate::regs::Class;
use crate::turn::{Turn, mixed};
use model::Place;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// A set of circumstances, and the turn that says which values they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    set: u8,
    turn: Turn,
}

impl Circumstances {
    /// Returns true if a circumstance is in the set.
    pub fn has(self, one: Circumstance) -> bool {
        self.set >> one as u8 & 1 == 1
    }

    /// Returns the circumstances of the set that have other values in the second turn, with these values, or `None` if
    /// there are none.
    pub fn in_second_turn(self) -> Option<Self> {
        let twice = [Circumstance::Time, Circumstance::Addresses];
        let twice: Self = twice.into_iter().filter(|one| self.has(*one)).collect();
        (twice.set != 0).then_some(Self {
            turn: Turn::Second,
            ..twice
        })
    }

    /// Returns one of the set alone, with the same value.
    pub fn only(self, one: Circumstance) -> Self {
        Self {
            set: self.set & 1 << one as u8,
            ..self
        }
    }

    /// Returns the turn that says where memory lies, or `None` if it lies where it usually does.
    pub fn moved(self) -> Option<Turn> {
        self.has(Circumstance::Addresses).then_some(self.turn)
    }
}

impl FromIterator<Circumstance> for Circumstances {
    fn from_iter<T: IntoIterator<Item = Circumstance>>(all: T) -> Self {
        Self {
            set: all.into_iter().fold(0, |set, one| set | 1 << one as u8),
            turn: Turn::First,
        }
    }
}

/// The first place at which a program reads a circumstance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub at: Circumstance,
    pub place: Place,
}

/// The number of multiprocessors of an H100, which a varied launch shows.
const MULTIPROCESSORS: u32 = 132;
/// The number of slots for warps of a multiprocessor of sm_90.
const WARP_SLOTS: u32 = 64;
/// The bytes by which shared memory grows: its allocation unit.
const SHARED_UNIT: u32 = 128;
/// The bits of an address that no allocation changes: it is a multiple of 256 bytes, as cudaMalloc promises.
const ALIGNED: u64 = 255;

impl Circumstances {
    /// Returns the numbers that the program names and that may be those of multiprocessors: it may do something else on
    /// one of them alone.
    pub(crate) fn named(self, program: &Program) -> Vec<u32> {
        if !self.has(Circumstance::Multiprocessor) {
            return Vec::new();
        }
        // On the first one all is as usual.
        let mut named: Vec<u32> = program
            .constants32
            .iter()
            .map(|(_, value)| *value)
            .filter(|number| (1..MULTIPROCESSORS).contains(number))
            .collect();
        named.sort_unstable_by(|a, b| b.cmp(a));
        named
    }

    /// Returns the value of a special register for a warp of a block, or `None` if it is not varied. `named` is the
    /// result of [`Self::named`].
    pub(crate) fn special(
        self,
        special: Special,
        (block, warp): (u32, u32),
        named: &[u32],
    ) -> Option<u32> {
        let value = match special.circumstance()? {
            one if !self.has(one) => return None,
            Circumstance::Multiprocessor if special == Special::NSmId => MULTIPROCESSORS,
            // Blocks are spread evenly over all multiprocessors, and neighbours are apart.
            Circumstance::Multiprocessor => named
                .get(block as usize)
                .copied()
                .unwrap_or(block.wrapping_mul(37).wrapping_add(11) % MULTIPROCESSORS),
            Circumstance::WarpSlot if special == Special::NWarpId => WARP_SLOTS,
            // The warps of a block have slots next to one another, and the first may have any.
            Circumstance::WarpSlot => {
                (block.wrapping_mul(5).wrapping_add(warp).wrapping_add(1)) % WARP_SLOTS
            }
            Circumstance::GridNumber => 41,
            Circumstance::DriverRegister => 0x5eed,
            Circumstance::SharedSize | Circumstance::Time | Circumstance::Addresses => return None,
        };
        Some(value)
    }

    /// Returns the clock of a warp that has executed this many instructions.
    ///
    /// Usually that is the number itself, as no GPU is faster. A varied clock begins at another moment. It takes as
    /// many cycles for each instruction as one takes that waits for memory, or a few, and not evenly, so that each bit
    /// of a difference changes. It is never slower than usual, as a program may wait for the clock, and not as slow as
    /// a GPU that is shared, as a program may give up waiting for something else.
    pub(crate) fn time(self, executed: u64, (block, warp): (u32, u32)) -> u64 {
        let (cycles, from) = match self.turn {
            _ if !self.has(Circumstance::Time) => return executed,
            Turn::First => (1 << 10, 0x0012_3456_4abc_bcdf),
            Turn::Second => (1 << 4, 0x0065_4321_1543_2100),
        };
        let warp = u64::from(block) << 32 | u64::from(warp) << 24;
        let uneven = mixed(executed ^ warp) % cycles;
        executed.wrapping_mul(cycles).wrapping_add(from + uneven)
    }

    /// Returns the shared memory of a block in bytes. If its size is varied, the block really has more.
    pub(crate) fn shared_bytes(self, bytes: u32, most: u32) -> u32 {
        let more = bytes.next_multiple_of(SHARED_UNIT) + SHARED_UNIT;
        if self.has(Circumstance::SharedSize) && more <= most {
            more
        } else {
            bytes
        }
    }
}

/// Returns the circumstances that a launch of the program with these parameters looks at, each once.
pub(crate) fn looks(
    program: &Program,
    params: &[u8],
    cooperative: bool,
    memory: &Memory,
) -> Vec<Look> {
    let look = |at: Circumstance, inst: &Inst| Look {
        at,
        place: program.where_from(inst),
    };
    let mut all = Vec::new();
    let mut told = BTreeSet::new();
    let special: HashMap<Register, Special> = program
        .specials
        .iter()
        .filter(|(special, ..)| special.circumstance().is_some())
        .map(|(special, class, register)| ((*class, *register), *special))
        .collect();
    for inst in &program.code {
        if let Some(at) = inst.op.facts().sees
            && told.insert(at)
        {
            all.push(look(at, inst));
        }
        if special.is_empty() {
            continue;
        }
        inst.registers(|_, register| {
            if let Some(special) = special.get(&register)
                && let Some(at) = special.circumstance()
                && !is_workspace(program, *special, inst, cooperative)
                && told.insert(at)
            {
                all.push(look(at, inst));
            }
        });
    }
    let pointers = |at: Option<usize>| {
        // A parameter whose place is not known may be one.
        let Some(at) = at else { return true };
        // Fewer than eight bytes at the end cannot be a pointer.
        let word = params.get(at..).and_then(|rest| rest.first_chunk());
        word.is_some_and(|word| memory.find(u64::from_le_bytes(*word), 0).is_some())
    };
    let taken = Flow::from_pointers(program, pointers).taken(program);
    all.extend(taken.map(|inst| look(Circumstance::Addresses, inst)));
    all
}

/// Returns true if the instruction reads the address of the grid's workspace as cooperative groups do: anywhere in a
/// cooperative launch, else only in a line of a toolkit's header.
fn is_workspace(program: &Program, special: Special, inst: &Inst, cooperative: bool) -> bool {
    let source = program.sources.get(inst.source as usize);
    let is_own = source.is_some_and(|source| program.lines.is_own(source.loc));
    matches!(special, Special::Workspace { .. }) && (cooperative || !is_own)
}

/// Returns the first instruction that writes to a variable of the module, as far as the code shows it.
pub(crate) fn writer(program: &Program, from: u64, bytes: u64) -> Option<&Inst> {
    let addresses = constants_in(program, from..from.saturating_add(bytes));
    let flow = Flow::follow(program, addresses, |_| false);
    let reached = |access: MemoryAccess| access.address.is_some_and(|r| flow.reaches(r));
    program.code.iter().find(|inst| {
        let mut written = inst.op.facts().memory().filter(MemoryAccess::writes);
        written.any(reached)
    })
}

/// Returns the registers that hold an address of a range from the start.
fn constants_in(program: &Program, range: Range<u64>) -> HashSet<Register> {
    program
        .constants()
        .filter(|((class, _), value)| *class == Class::R64 && range.contains(value))
        .map(|(register, _)| register)
        .collect()
}

/// The registers that hold addresses, and those that hold something made of one. The order of instructions does not
/// matter: a register counts if any instruction puts one there.
struct Flow {
    addresses: HashSet<Register>,
    /// The registers that hold something made of an address: even its low bits may differ from those of the address.
    made: HashSet<Register>,
}

impl Flow {
    /// Follows the addresses that the host, the module and the heap give. `is_pointer` takes the offset of a parameter,
    /// where it is known.
    fn from_pointers(program: &Program, is_pointer: impl Fn(Option<usize>) -> bool) -> Self {
        let place = |a: &Access| {
            let base = program.constant(a.address)?;
            usize::try_from(base.wrapping_add_signed(a.offset)).ok()
        };
        let variables = constants_in(program, MODULE_BASE..HOST_BASE);
        let parameter = |from: &Access| {
            let at = place(from);
            let mut elements = 0..from.bytes() as usize;
            // Part of a pointer, too, is made of one.
            at.is_none() || elements.any(|n| is_pointer(at.map(|at| at.saturating_add(n) & !7)))
        };
        Self::follow(program, variables, |inst| {
            inst.op.facts().memory().any(|access| {
                let is_parameter = access.space == AddressSpace::Param;
                access.object == Object::Heap
                    || is_parameter && access.access.is_some_and(parameter)
            })
        })
    }

    /// Follows the addresses in some registers, and those that the instructions yield for which `gives` is true.
    fn follow(
        program: &Program,
        addresses: HashSet<Register>,
        gives: impl Fn(&Inst) -> bool,
    ) -> Self {
        let mut flow = Self {
            addresses,
            made: HashSet::new(),
        };
        // Calls hand their arguments on in local memory.
        let mut in_local = false;
        // Masks with these values keep only the bits of an address that alignment fixes.
        let small: HashMap<Register, u64> = program
            .constants()
            .filter(|(_, value)| *value <= ALIGNED)
            .collect();
        loop {
            let before = (flow.addresses.len(), flow.made.len(), in_local);
            for inst in &program.code {
                let (mut from_address, mut from_made) = (false, false);
                let (mut zero, mut low) = (false, false);
                let mut writes = Vec::new();
                inst.registers(|how, register| match how {
                    Use::Value => {
                        from_address |= flow.addresses.contains(&register);
                        from_made |= flow.made.contains(&register);
                        zero |= small.get(&register) == Some(&0);
                        low |= small.contains_key(&register);
                    }
                    Use::Write => writes.push(register),
                    Use::Address | Use::Control => {}
                });
                let facts = inst.op.facts();
                let is_local = facts.memory().any(|access| access.is_private());
                let is_given = gives(inst) || in_local && is_local && facts.only_reads();
                let form = program.form(inst);
                let keeps = if is_given {
                    from_address = true;
                    let whole = |access: &Access| access.width == 8;
                    facts.memory().all(|memory| memory.access.is_none_or(whole))
                } else if inst.arithmetic().is_some() {
                    // A comparison with null does not depend on the address of an allocation.
                    let is_null =
                        zero && (form.starts_with("setp.eq") || form.starts_with("setp.ne"));
                    if !from_made && (is_null || low && form.starts_with("and.b")) {
                        continue;
                    }
                    keeps_addresses(inst, form)
                } else if facts.values != Values::Compute && facts.memory().next().is_some() {
                    // Results come from memory.
                    in_local |= is_local && (from_address || from_made);
                    continue;
                } else {
                    false
                };
                for register in writes {
                    let is_whole = from_address && register.0 != Class::Pred;
                    if keeps && !from_made && is_whole {
                        flow.addresses.insert(register);
                    } else if from_address || from_made {
                        flow.made.insert(register);
                    }
                }
            }
            if before == (flow.addresses.len(), flow.made.len(), in_local) {
                return flow;
            }
        }
    }

    fn reaches(&self, register: Register) -> bool {
        self.addresses.contains(&register) || self.made.contains(&register)
    }

    /// Returns the first instruction for which an address is more than an address.
    fn taken<'a>(&self, program: &'a Program) -> Option<&'a Inst> {
        program.code.iter().find(|inst| {
            let shows = |access: MemoryAccess| access.writes() && !access.is_private();
            let in_memory = inst.op.facts().memory().any(shows);
            let mut taken = false;
            inst.registers(|how, register| {
                taken |= match how {
                    Use::Value => in_memory && self.reaches(register),
                    Use::Address => self.made.contains(&register),
                    Use::Control => self.reaches(register),
                    Use::Write => false,
                };
            });
            taken
        })
    }
}

/// Returns true if the result of the instruction, given an address, is an address or has its low bits.
fn keeps_addresses(inst: &Inst, form: &str) -> bool {
    let mut whole = true;
    inst.registers(|_, (class, _)| whole &= class == Class::R64);
    // With narrower registers, `mov` may take one part of a value or join several.
    let copies = whole && form.starts_with("mov.");
    let keeping = ["cvta.", "add.", "sub.", "selp.", "mad.lo.", "cvt.u32.u64"];
    copies || keeping.iter().any(|prefix| form.starts_with(prefix))
}
