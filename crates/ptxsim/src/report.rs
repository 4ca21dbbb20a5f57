//! The result of a launch: findings, counters, or the fault that stopped it.

use crate::arithmetic::{self, Computed};
pub use crate::isa::Kind;
use crate::program::Program;
use crate::quick::QuickMap;
use model::{Arose, Counter, Withheld};
pub use model::{Finding, FindingKind, Place};
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    OutOfBounds,
    Misaligned,
    ReadOnly,
    Trap,
    Assert,
    /// No warp can go on, because all of them wait.
    Deadlock,
    /// The budget of instructions is spent: a livelock, or too much work.
    Budget,
    /// The launch does not fit the kernel.
    Launch,
    /// A situation in which the ISA leaves the result open and this library does not guess.
    Undefined,
}

/// The fault that ended a launch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub kind: FaultKind,
    pub message: String,
    pub place: Box<Place>,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    pub address: Option<u64>,
}

/// The subject of a message: an instruction, the thread that executes it, and where it looks.
#[derive(Clone, Copy, Debug)]
pub struct At {
    pub instruction: u32,
    pub block: [u32; 3],
    /// Index of the thread in its block.
    pub thread: u32,
    pub address: Option<u64>,
}

impl At {
    pub fn thread(block: [u32; 3], thread: u32, instruction: u32) -> At {
        At {
            instruction,
            block,
            thread,
            address: None,
        }
    }

    pub fn address(self, address: u64) -> At {
        At {
            address: Some(address),
            ..self
        }
    }
}

/// A sort of findings: kind, instruction, and the other instruction.
type Sort = (FindingKind, u32, u32);
/// Groups findings by kind and source lines. Code that was unrolled or inlined several times has many instructions of
/// one line, and they are one group.
#[derive(Debug, Default)]
pub struct Findings {
    groups: Vec<Finding>,
    /// The group of a finding by its instructions, which is looked up for every occurrence.
    of_sort: QuickMap<Sort, usize>,
    /// The sort that was looked up last: if one of a warp's lanes races, the others mostly do, too.
    last: Option<(Sort, usize)>,
}

impl Findings {
    /// Returns true if the group of these instructions is known.
    pub fn knows(&self, sort: Sort) -> bool {
        self.of_sort.contains_key(&sort)
    }

    /// Counts `times` occurrences if the group of these instructions is known, and returns whether it is.
    pub fn count(&mut self, sort: Sort, times: u64) -> bool {
        let known = match self.last {
            Some((last, at)) if last == sort => Some(at),
            _ => self.of_sort.get(&sort).copied(),
        };
        self.last = known.map(|at| (sort, at));
        let group = known.and_then(|at| self.groups.get_mut(at));
        group.map(|g| g.times += times).is_some()
    }

    /// Counts `times` occurrences in the group of this kind and these places, and returns whether there is one.
    /// Occurrences of `sort` are counted in it from now on without a look at the places.
    pub fn count_at(
        &mut self,
        sort: Option<Sort>,
        (kind, places): (FindingKind, &[Place]),
        times: u64,
    ) -> bool {
        let is_here = |group: &Finding| group.kind == kind && group.places == places;
        let Some(at) = self.groups.iter().position(is_here) else {
            return false;
        };
        self.groups[at].times += times;
        self.of_sort.extend(sort.map(|sort| (sort, at)));
        true
    }

    /// Begins a group with its first finding.
    pub fn begin(&mut self, sort: Option<Sort>, finding: Finding) {
        let at = self.groups.len();
        self.groups.push(finding);
        self.of_sort.extend(sort.map(|sort| (sort, at)));
    }

    /// Adds findings that were made later.
    pub fn join(&mut self, later: Vec<Finding>) {
        for finding in later {
            if !self.count_at(None, (finding.kind, &finding.places), finding.times) {
                self.begin(None, finding);
            }
        }
    }

    /// Removes all findings and returns them in the order in which they were found.
    pub fn take(&mut self) -> Vec<Finding> {
        std::mem::take(self).groups
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Removes all findings and returns the first `most` of them, by gravity of their kind, then by number of
    /// occurrences.
    pub fn ranked(&mut self, most: usize) -> Vec<Finding> {
        let mut all = self.take();
        all.sort_by_key(|f| (f.kind, std::cmp::Reverse(f.times)));
        all.truncate(most);
        all
    }
}

/// Costs of one instruction or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Times that a warp issued it, predicated off or not.
    pub issued: u64,
    /// Sum over the issues of the lanes that executed the instruction.
    pub lanes: u64,
    /// Memory instructions of a warp with at least one lane.
    pub requests: u64,
    /// Bytes that lanes asked of global memory.
    pub global_bytes: u64,
    /// 32-byte sectors touched, and the fewest that hold as many distinct bytes.
    pub sectors: u64,
    pub ideal_sectors: u64,
    /// Passes through shared memory, and what they would be without bank conflicts.
    pub wavefronts: u64,
    pub ideal_wavefronts: u64,
    pub divergent: u64,
    /// The part of `requests` that asked global memory: a copy that fills with zeros does not.
    pub global_requests: u64,
    /// Requests of copies that fill a part of a lane's bytes, or that move 16 and not whole sectors to whole
    /// sectors.
    pub split_copies: u64,
    /// Loads of fragments whose stride was 0 where ptxas cannot see it.
    pub zero_strides: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, o: Cost) {
        self.issued += o.issued;
        self.lanes += o.lanes;
        self.requests += o.requests;
        self.global_bytes += o.global_bytes;
        self.sectors += o.sectors;
        self.ideal_sectors += o.ideal_sectors;
        self.wavefronts += o.wavefronts;
        self.ideal_wavefronts += o.ideal_wavefronts;
        self.divergent += o.divergent;
        self.global_requests += o.global_requests;
        self.split_copies += o.split_copies;
        self.zero_strides += o.zero_strides;
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub total: Cost,
    pub by_kind: BTreeMap<Kind, Cost>,
    /// The costs of each source line, "file:line". It is the innermost line of the user's own files, whatever of others
    /// was inlined there.
    pub by_line: BTreeMap<String, LineCost>,
    pub computed: Computed,
}

/// The cost of one source line's instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCost {
    pub total: Cost,
    pub by_kind: BTreeMap<Kind, Cost>,
    /// The calls that inlined the line, for each of its instructions that cost something: " inlined at file:line ...",
    /// or nothing.
    pub inlined: BTreeSet<String>,
}

impl Counters {
    pub(crate) fn new(program: &Program, costs: &[Cost]) -> Counters {
        let (mut all, mut lines) = (Counters::default(), HashMap::new());
        for (inst, cost) in program.code.iter().zip(costs) {
            let Some(source) = program.sources.get(inst.source as usize) else {
                continue;
            };
            let mut cost = *cost;
            if !inst.counts {
                (cost.issued, cost.lanes) = (0, 0);
            }
            if cost == Cost::default() {
                continue;
            }
            all.total += cost;
            let kind = inst.op.kind(&source.form);
            *all.by_kind.entry(kind).or_default() += cost;
            if let Some((kind, work)) = arithmetic::work(&source.form, cost.issued, cost.lanes) {
                *all.computed.entry(kind).or_default() += work;
            }
            let (own, inlined) = lines
                .entry(source.loc)
                .or_insert_with(|| program.lines.own(source.loc))
                .clone();
            let line = all.by_line.entry(own).or_default();
            line.inlined.insert(inlined);
            line.total += cost;
            *line.by_kind.entry(kind).or_default() += cost;
        }
        all
    }
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        let join = |all: &mut BTreeMap<Kind, Cost>, other: BTreeMap<Kind, Cost>| {
            for (kind, cost) in other {
                *all.entry(kind).or_default() += cost;
            }
        };
        self.total += other.total;
        join(&mut self.by_kind, other.by_kind);
        for (kind, work) in other.computed {
            *self.computed.entry(kind).or_default() += work;
        }
        for (line, cost) in other.by_line {
            let own = self.by_line.entry(line).or_default();
            own.total += cost.total;
            join(&mut own.by_kind, cost.by_kind);
            own.inlined.extend(cost.inlined);
        }
    }
}

/// The number of texts of `printf` that are kept. One more says how many are not.
pub const MAX_PRINTED: usize = 1000;

/// The findings and costs of a launch that came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub findings: Vec<Finding>,
    pub counters: Counters,
    /// The things that the checks could not judge in this launch.
    pub not_judged: Vec<String>,
    /// The counters of the gate tier that no gate may rest on in this launch, and why.
    pub withheld: BTreeMap<Counter, Withheld>,
    /// Output of `printf`, a line or a part of one for each call, in the order of this library's
    /// schedule; at most `MAX_PRINTED`.
    pub printed: Vec<String>,
    /// The first infinity and the first NaN, if the launch asks for them.
    pub arose: Vec<Arose>,
    /// The bytes of each allocation that the launch reaches, by the address of the allocation. Empty without checks.
    pub reached: BTreeMap<u64, u64>,
}
