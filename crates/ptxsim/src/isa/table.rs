//! The table of instructions. One row for each says what it does beside reading and writing registers.

use super::mma::{Mma, Tile};
use super::op::*;
use super::{Circumstance, Kind, Register};
use model::AccessKind;
use std::slice::from_ref;

/// The row of one instruction in the table.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The kind that the instruction counts as, or `None` if that follows from its form ([`Kind::from_form`]).
    pub kind: Option<Kind>,
    pub control: Control<'a>,
    pub meeting: Meeting,
    pub values: Values,
    /// True if accesses before it are ordered before those behind it, whatever they are.
    pub orders: bool,
    /// The fact of the machine or of the moment that the instruction looks at.
    pub sees: Option<Circumstance>,
    memory: [Option<MemoryAccess<'a>>; 4],
}

/// The instructions that may be executed next.
#[derive(Clone, Copy, Debug)]
pub enum Control<'a> {
    /// The instruction that follows in the code.
    Next,
    /// The target, in lanes that the guard lets branch.
    Branch(&'a u32),
    /// One of these, by an index.
    Table(&'a [u32]),
    /// A function, which comes back. No target is listed where an address selects the function.
    Call(&'a [u32]),
    Return,
    Exit,
    /// The launch ends with a fault.
    Stop,
}

impl<'a> Control<'a> {
    /// Returns where a branch may lead. Calls are no branches.
    pub fn branches(self) -> &'a [u32] {
        match self {
            Control::Branch(to) => from_ref(to),
            Control::Table(all) => all,
            Control::Next | Control::Call(_) | Control::Return | Control::Exit | Control::Stop => {
                &[]
            }
        }
    }

    /// Returns where a branch or a call may lead.
    pub fn targets(self) -> &'a [u32] {
        if let Control::Call(all) = self {
            all
        } else {
            self.branches()
        }
    }
}

/// The threads that execute an instruction together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// Each lane executes it by itself.
    Nobody,
    /// Lanes of the warp that an operand names.
    Members,
    /// All lanes of the warp meet.
    Warp,
    Block,
    Cluster,
}

/// The use that an instruction makes of the values in its registers ([`super::Use::Value`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// The values go on as they are, to registers or to memory.
    Move,
    /// Results are worked out from them.
    Compute,
    /// The values change what other threads see: the operand of an atomic, the predicate of a barrier.
    Act,
}

/// The thing that lies where memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    Data,
    /// Elements of a texture or a surface, which a handle and coordinates lead to.
    Texels,
    Mbarrier,
    TensorMap,
    /// The list of its blocks that `malloc` keeps. All blocks of the grid share it.
    Heap,
    /// Arguments of functions and registers put aside: no address of the program leads there.
    Frame,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
    /// Reads and writes at once: an atomic.
    Update,
}

/// The moment at which an access happens, and the proxy that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    AtOnce,
    /// The access happens asynchronously, as one of the thread: `cp.async`, `st.async`.
    Later,
    /// The access happens asynchronously, in the async proxy (PTX ISA 8.3): it sees what threads wrote before a
    /// `fence.proxy.async`.
    AsyncProxy,
}

/// The proxy through which an instruction accesses memory (PTX ISA 8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    Generic,
    Async,
    /// The async proxy, by a tensor map.
    Tensor,
}

/// One place that an instruction accesses.
#[derive(Clone, Copy, Debug)]
pub struct MemoryAccess<'a> {
    pub object: Object,
    pub space: AddressSpace,
    pub direction: Direction,
    pub timing: Timing,
    /// The strength of the access as synchronisation, and its scope.
    pub order: Order,
    /// The register of the address, or `None` if something else leads there: a descriptor, a tensor map, a handle.
    pub address: Option<Register>,
    /// The access in full, where registers are loaded or stored one after another.
    pub access: Option<&'a Access>,
}

impl<'a> MemoryAccess<'a> {
    fn new(object: Object, direction: Direction, space: AddressSpace) -> Self {
        Self {
            object,
            space,
            direction,
            timing: Timing::AtOnce,
            order: Order::Weak,
            address: None,
            access: None,
        }
    }

    fn with_address(self, address: Register) -> Self {
        Self {
            address: Some(address),
            ..self
        }
    }

    fn from_access(direction: Direction, access: &'a Access) -> Self {
        Self {
            order: access.order,
            access: Some(access),
            ..Self::new(Object::Data, direction, access.space).with_address(access.address)
        }
    }

    fn with_timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    /// Returns true if it may lie in global memory.
    pub fn is_global(&self) -> bool {
        matches!(self.space, AddressSpace::Global | AddressSpace::Generic)
    }

    /// Returns true if it lies where no other thread looks.
    pub fn is_private(&self) -> bool {
        matches!(self.space, AddressSpace::Local | AddressSpace::Param)
    }

    /// Returns true for what a load or a store does, with or without an address register for each lane.
    pub fn is_plain(&self) -> bool {
        self.object == Object::Data
            && self.timing == Timing::AtOnce
            && self.direction != Direction::Update
    }

    pub fn writes(&self) -> bool {
        self.direction != Direction::Read
    }

    pub fn is_asynchronous(&self) -> bool {
        self.timing != Timing::AtOnce
    }
}

impl<'a> Facts<'a> {
    fn new(kind: impl Into<Option<Kind>>) -> Self {
        Self {
            kind: kind.into(),
            control: Control::Next,
            meeting: Meeting::Nobody,
            values: Values::Move,
            orders: false,
            sees: None,
            memory: [None; 4],
        }
    }

    fn with_control(self, control: Control<'a>) -> Self {
        Self { control, ..self }
    }

    fn meets(self, meeting: Meeting) -> Self {
        Self { meeting, ..self }
    }

    fn with_values(self, values: Values) -> Self {
        Self { values, ..self }
    }

    fn orders(self, orders: bool) -> Self {
        Self { orders, ..self }
    }

    /// Adds a place that is accessed.
    fn touches(mut self, access: MemoryAccess<'a>) -> Self {
        if let Some(free) = self.memory.iter_mut().find(|place| place.is_none()) {
            *free = Some(access);
        }
        self
    }

    /// Returns the places that the instruction accesses, the one that data goes to or comes from first.
    pub fn memory(self) -> impl Iterator<Item = MemoryAccess<'a>> {
        self.memory.into_iter().flatten()
    }

    /// Returns the proxy of its accesses.
    pub fn proxy(self) -> Proxy {
        let is_async = |access: &MemoryAccess| access.timing == Timing::AsyncProxy;
        let mut accesses = self.memory().filter(is_async).peekable();
        if accesses.peek().is_none() {
            Proxy::Generic
        } else if accesses.any(|access| access.object == Object::TensorMap) {
            Proxy::Tensor
        } else {
            Proxy::Async
        }
    }

    /// Returns true for what reads memory at once and does nothing else.
    pub fn only_reads(self) -> bool {
        let mut accesses = self.memory().peekable();
        accesses.peek().is_some()
            && self.meeting == Meeting::Nobody
            && accesses.all(|access| {
                let values = matches!(access.object, Object::Data | Object::Texels);
                values && !access.writes() && !access.is_asynchronous()
            })
    }

    /// Returns true if lanes whose operands hold the same values get the same results.
    pub fn is_uniform(self) -> bool {
        let computes = self.values == Values::Compute && self.meeting == Meeting::Nobody;
        let is_parameter = |access: MemoryAccess| access.space == AddressSpace::Param;
        computes || self.only_reads() && self.memory().all(is_parameter)
    }
}

/// Returns the kind of a load or a store.
fn plain(direction: Direction, space: AddressSpace) -> Kind {
    match (space, direction) {
        (AddressSpace::Local | AddressSpace::Param, _) => Kind::OtherMemory,
        (AddressSpace::Global | AddressSpace::Generic, Direction::Read) => Kind::GlobalLoad,
        (AddressSpace::Global | AddressSpace::Generic, _) => Kind::GlobalStore,
        (AddressSpace::Shared | AddressSpace::Cluster, Direction::Read) => Kind::SharedLoad,
        (AddressSpace::Shared | AddressSpace::Cluster, _) => Kind::SharedStore,
    }
}

impl Op {
    /// Returns the row of the instruction.
    pub fn facts(&self) -> Facts<'_> {
        use AddressSpace::{Cluster, Generic, Global, Local, Shared};
        use Direction::{Read, Update, Write};
        let row = |kind: Kind| Facts::new(kind);
        let access = MemoryAccess::from_access;
        let frame = |direction| MemoryAccess::new(Object::Frame, direction, Local);
        let map = |direction, space, place: &BulkPlace| {
            MemoryAccess::new(Object::TensorMap, direction, space).with_address(place.address)
        };
        match self {
            Op::Alu(_) => Facts::new(None).with_values(Values::Compute),
            Op::Branch(to) => row(Kind::Branch).with_control(Control::Branch(to)),
            Op::BranchIndexed(all) => row(Kind::Branch).with_control(Control::Table(all)),
            Op::Call(to) => row(Kind::Branch).with_control(Control::Call(from_ref(to))),
            Op::CallIndirect(_) => row(Kind::Branch).with_control(Control::Call(&[])),
            Op::Return => row(Kind::Branch).with_control(Control::Return),
            Op::Exit => row(Kind::Branch).with_control(Control::Exit),
            Op::Trap => row(Kind::Other).with_control(Control::Stop),
            Op::Assert(_) => row(Kind::Other)
                .with_control(Control::Stop)
                .touches(frame(Read)),
            Op::Print(_) => row(Kind::Other).touches(frame(Read)),
            Op::CopyLocal { .. } | Op::CopyResult { .. } | Op::Restore { .. } => {
                row(Kind::OtherMemory)
                    .touches(frame(Read))
                    .touches(frame(Write))
            }
            Op::Save(_) => row(Kind::OtherMemory).touches(frame(Write)),
            Op::Load(a) => row(plain(Read, a.space)).touches(access(Read, a)),
            Op::Store(a) => row(plain(Write, a.space)).touches(access(Write, a)),
            Op::Atom(a) => row(Kind::Atomic)
                .with_values(Values::Act)
                .touches(access(Update, &a.access)),
            Op::Texture(_) => {
                row(Kind::OtherMemory).touches(MemoryAccess::new(Object::Texels, Read, Global))
            }
            Op::Surface(t) => {
                let direction = if t.store { Write } else { Read };
                row(Kind::OtherMemory).touches(MemoryAccess::new(Object::Texels, direction, Global))
            }
            Op::ImageQuery(_) => row(Kind::OtherMemory),
            Op::CpAsync { to, from, .. } => row(Kind::AsyncCopy)
                .touches(access(Write, to).with_timing(Timing::Later))
                .touches(access(Read, from).with_timing(Timing::Later)),
            Op::Bulk(copy) => bulk(copy),
            // A program sees nothing of it.
            Op::BulkPrefetch(_) => row(Kind::AsyncCopy),
            Op::CpCommit | Op::CpWait(_) | Op::BulkCommit | Op::BulkWait { .. } => {
                row(Kind::AsyncCopy)
            }
            Op::ReplaceField(r) => row(Kind::Other).touches(map(Update, r.space, &r.place)),
            Op::PublishMap { to, from } => row(Kind::Other)
                .meets(Meeting::Warp)
                .touches(map(Write, Global, to))
                .touches(map(Read, Shared, from)),
            Op::AcquireMap(place) => row(Kind::Other).touches(map(Read, Generic, place)),
            Op::AsyncStore(a) => {
                let barrier = MemoryAccess::new(Object::Mbarrier, Update, Cluster)
                    .with_address(a.barrier.address);
                let facts = row(Kind::SharedStore);
                let (facts, direction) = match a.reduction {
                    Some(_) => (facts.with_values(Values::Act), Update),
                    None => (facts, Write),
                };
                facts
                    .touches(access(direction, &a.access).with_timing(Timing::Later))
                    .touches(barrier.with_timing(Timing::Later))
            }
            Op::Barrier { .. } => row(Kind::Barrier)
                .meets(Meeting::Block)
                .with_values(Values::Act)
                .orders(true),
            Op::ClusterArrive { relaxed, .. } => {
                row(Kind::Barrier).meets(Meeting::Cluster).orders(!relaxed)
            }
            Op::ClusterWait { .. } => row(Kind::Barrier).meets(Meeting::Cluster).orders(true),
            Op::WarpSync => row(Kind::WarpSync).meets(Meeting::Members).orders(true),
            Op::Exchange(_) => row(Kind::Exchange)
                .meets(Meeting::Members)
                .with_values(Values::Compute),
            Op::ActiveMask => row(Kind::Exchange),
            Op::Mma(m) => matrix(m).meets(Meeting::Warp),
            Op::Wgmma(_) => {
                let tiles =
                    MemoryAccess::new(Object::Data, Read, Shared).with_timing(Timing::AsyncProxy);
                row(Kind::WarpgroupMatrix)
                    .meets(Meeting::Warp)
                    .with_values(Values::Compute)
                    .touches(tiles)
            }
            Op::WgmmaFence | Op::WgmmaCommit | Op::WgmmaWait(_) | Op::SetRegisters(_) => {
                row(Kind::Other).meets(Meeting::Warp)
            }
            Op::Mbarrier(m) => {
                let direction = if m.op == MbarrierOp::Init {
                    Write
                } else {
                    Update
                };
                let barrier =
                    MemoryAccess::new(Object::Mbarrier, direction, m.space).with_address(m.address);
                row(Kind::Other).with_values(Values::Act).touches(barrier)
            }
            Op::PendingCount => row(Kind::Other).with_values(Values::Act),
            Op::Malloc | Op::Free => {
                row(Kind::Other).touches(MemoryAccess::new(Object::Heap, Update, Global))
            }
            Op::Fence(_) => row(Kind::Other).orders(true),
            Op::Clock { .. } => Facts {
                sees: Some(Circumstance::Time),
                ..row(Kind::Other)
            },
            Op::InitFence | Op::ProxyFence | Op::Sleep | Op::Nop => row(Kind::Other),
        }
    }

    /// Returns the kind that the instruction counts as. `form` is the instruction as PTX writes it.
    pub fn kind(&self, form: &str) -> Kind {
        let kind = self.facts().kind;
        kind.unwrap_or_else(|| Kind::from_form(form))
    }

    /// Returns how a finding names what the instruction does to memory.
    pub fn access_kind(&self) -> AccessKind {
        let mut data = self
            .facts()
            .memory()
            .filter(|access| matches!(access.object, Object::Data | Object::Texels))
            .peekable();
        match data.peek().map(|first| (first.timing, first.direction)) {
            Some((Timing::AtOnce, Direction::Read)) => AccessKind::Read,
            Some((Timing::AtOnce, Direction::Write)) => AccessKind::Write,
            Some((Timing::AtOnce, Direction::Update)) => AccessKind::Update,
            Some(_) if data.any(|access| access.writes()) => AccessKind::Copy,
            // A product reads asynchronously, and findings on its registers are not about that.
            Some(_) | None => AccessKind::Other,
        }
    }

    /// Returns true if the instruction may see what other threads do while it runs, so that the schedule decides how
    /// often a loop around it turns.
    pub fn polls(&self) -> bool {
        let strong = |access: MemoryAccess| access.order != Order::Weak && !access.is_private();
        match self {
            Op::Atom(a) => {
                let waits = matches!(a.op, AtomOp::Cas | AtomOp::Exch);
                !a.destinations.is_empty() && (waits || a.access.space != AddressSpace::Shared)
            }
            Op::Mbarrier(m) => m.op.polls(),
            other => {
                let facts = other.facts();
                facts.only_reads() && facts.memory().any(strong)
            }
        }
    }
}

impl MbarrierOp {
    /// Returns true for a look at a barrier that does not wait for it.
    pub fn polls(self) -> bool {
        matches!(
            self,
            MbarrierOp::WaitState { blocks: false } | MbarrierOp::WaitParity { blocks: false }
        )
    }
}

/// Returns the row of a bulk copy.
fn bulk(copy: &BulkCopy) -> Facts<'_> {
    use AddressSpace::{Cluster, Generic, Global, Shared};
    use Direction::{Read, Update, Write};
    let (kind, written) = match (&copy.reduction, &copy.global, &copy.barrier) {
        (Some(_), ..) => (Kind::BulkReduction, Update),
        (None, _, None) => (Kind::BulkStore, Write),
        (None, BulkGlobal::Shared(_), Some(_)) => (Kind::AsyncCopy, Write),
        (None, BulkGlobal::Line(_) | BulkGlobal::Box { .. }, Some(_)) => (Kind::BulkLoad, Write),
    };
    let [shared, global] = match copy.barrier {
        Some(_) => [written, Read],
        None => [Read, written],
    };
    // A reduction updates each element as a relaxed atomic does (PTX ISA, "cp.reduce.async.bulk").
    let order = match copy.reduction {
        Some(_) => Order::RELAXED,
        None => Order::Weak,
    };
    let at = |object, direction, space| MemoryAccess {
        order,
        ..MemoryAccess::new(object, direction, space).with_timing(Timing::AsyncProxy)
    };
    let data = |direction, space| at(Object::Data, direction, space);
    let here = |space| data(shared, space).with_address(copy.shared.address);
    let facts = Facts::new(kind);
    let facts = match &copy.global {
        BulkGlobal::Line(place) => facts
            .touches(here(Shared))
            .touches(data(global, Global).with_address(place.address)),
        BulkGlobal::Box { map, .. } => facts
            .touches(here(Shared))
            .touches(data(global, Global))
            .touches(at(Object::TensorMap, Read, Generic).with_address(map.address)),
        BulkGlobal::Shared(place) => facts
            .touches(here(Cluster))
            .touches(data(global, Shared).with_address(place.address)),
    };
    copy.barrier.iter().fold(facts, |facts, barrier| {
        facts.touches(at(Object::Mbarrier, Update, Cluster).with_address(barrier.address))
    })
}

/// Returns the row of a matrix instruction.
fn matrix(m: &Mma) -> Facts<'_> {
    use Direction::{Read, Write};
    let data = |direction, space, address| {
        MemoryAccess::new(Object::Data, direction, space).with_address(address)
    };
    let load = |t: &Tile| {
        if t.by_matrices() {
            Kind::MatrixLoad
        } else {
            plain(Read, t.space)
        }
    };
    match m {
        Mma::Multiply(_)
        | Mma::Integers(_)
        | Mma::Doubles(_)
        | Mma::Sparse(_)
        | Mma::Quads(_)
        | Mma::Scaled(_) => Facts::new(Kind::Matrix).with_values(Values::Compute),
        Mma::MovMatrix { .. } => Facts::new(Kind::Exchange).with_values(Values::Compute),
        // A generic address, too, has to lie in shared memory (PTX ISA, "ldmatrix").
        Mma::Matrices(m) => {
            let (kind, direction) = if m.stores {
                (Kind::MatrixStore, Write)
            } else {
                (Kind::MatrixLoad, Read)
            };
            Facts::new(kind).touches(data(direction, AddressSpace::Shared, m.address))
        }
        Mma::WmmaLoad(t) => Facts::new(load(t)).touches(data(Read, t.space, t.address)),
        Mma::WmmaStore(t) => {
            Facts::new(plain(Write, t.space)).touches(data(Write, t.space, t.address))
        }
    }
}
