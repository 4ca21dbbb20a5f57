//! Instructions and their operands. Operands that are registers lie in [`Inst::o`], or in the variant where there are many.

use super::mma::Mma;
use super::wgmma::Wgmma;
use crate::alu::{AluOp, Operands};
use crate::image::Geometry;
use crate::regs::Class;
use crate::tensor_map::MapField;
use crate::words::words;
use model::MapElement;

/// The first generic address of each window; all other addresses are global memory. An address in a window is this base
/// plus an offset within the block's shared or the thread's local memory.
pub const SHARED_WINDOW: u64 = 0x1_0000_0000;
pub const LOCAL_WINDOW: u64 = 0x2_0000_0000;
pub const PARAM_WINDOW: u64 = 0x3_0000_0000;
/// The first address of functions, which follow one after the other. Nothing can be read there.
pub const FUNCTION_BASE: u64 = 0x4_0000_0000;
/// The first handle of textures and surfaces. Nothing can be read there.
pub const IMAGE_BASE: u64 = 0x6_0000_0000;
/// The first address of variables of the module, and that of allocations of the host.
pub const MODULE_BASE: u64 = 0x8_0000_0000;
pub const HOST_BASE: u64 = 0x10_0000_0000;
/// The first address that `malloc` returns, above all that the host can allocate.
pub const HEAP_BASE: u64 = 0x1000_0000_0000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSpace {
    Generic,
    Global,
    Shared,
    Local,
    Param,
    /// The shared memory of any block of the cluster (`.shared::cluster`).
    Cluster,
}

/// The first bit of a page number in an address of `.shared::cluster`. Page n + 1 lies in the block with rank n in the
/// cluster. Page 0 is the block's own: `.shared::cta` lies in `.shared::cluster` (PTX ISA 5.1.6).
pub const CLUSTER_PAGE: u32 = 24;

/// Returns the rank in its cluster of the block that an address of `.shared::cluster` lies in. `own` is the rank of the
/// block at work. There need not be a block of that rank.
#[inline(always)]
pub fn rank_of(address: u64, own: u32) -> u32 {
    match u32::try_from(address >> CLUSTER_PAGE) {
        Ok(0) => own,
        Ok(page) => page - 1,
        Err(_) => u32::MAX,
    }
}

/// The threads for which an access or a fence counts as synchronisation (PTX ISA 8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Block,
    Cluster,
    /// The device, and other devices too.
    Device,
}

/// The strength of an access as synchronisation (PTX ISA 8.7 and 8.8). Volatile, relaxed, acquire and release accesses
/// are strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Weak,
    Strong {
        /// The access hands on all that came before it, without a fence.
        release: bool,
        /// The access acquires from here on, without a fence.
        acquire: bool,
        scope: Scope,
        /// True for `volatile`, the oldest strong access: it is relaxed, of the whole system.
        volatile: bool,
    },
}

impl Order {
    /// The order of a relaxed access of the device.
    pub const RELAXED: Order = Order::Strong {
        release: false,
        acquire: false,
        scope: Scope::Device,
        volatile: false,
    };
}

/// A load or a store of `registers.len()` elements of `width` bytes.
#[derive(Clone, Debug)]
pub struct Access {
    pub space: AddressSpace,
    pub width: u32,
    pub signed: bool,
    pub registers: Vec<(Class, u32)>,
    /// True for registers declared with 16 bits: a sign extension stops there.
    pub narrow: bool,
    pub address: (Class, u32),
    pub offset: i64,
    pub order: Order,
    /// True for a load whose value a compare-and-swap at the same place checks (`flow`): it may be an old one.
    pub guess: bool,
}

impl Access {
    /// Returns a weak access of unsigned elements.
    pub fn new(
        space: AddressSpace,
        width: u32,
        registers: Vec<(Class, u32)>,
        address: (Class, u32),
        offset: i64,
    ) -> Self {
        Self {
            space,
            width,
            signed: false,
            registers,
            narrow: false,
            address,
            offset,
            order: Order::Weak,
            guess: false,
        }
    }

    /// Returns the bytes that one lane accesses.
    pub fn bytes(&self) -> u32 {
        self.width * self.registers.len() as u32
    }
}

/// The texels that an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// The texels as the texture's filter combines them.
    Filtered,
    /// This channel of each of the four texels that a linear filter would take.
    Gather(u32),
}

/// The type of the coordinates of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    Float,
    Integer,
}

/// A texture fetch. The four channels go to the registers of `access`, whose address is the handle.
#[derive(Clone, Debug)]
pub struct TextureFetch {
    pub access: Access,
    pub geometry: Geometry,
    pub fetch: Fetch,
    pub coordinates: Coordinates,
    /// True if the results are floats.
    pub float: bool,
    /// The registers that hold x, y and z.
    pub at: Vec<u32>,
    pub layer: Option<u32>,
}

words! {
    /// The effect of a surface access outside the surface.
    pub enum OutsideSurface {
        Trap = "trap",
        /// The access goes to the nearest element inside.
        Clamp = "clamp",
        /// A read returns 0, and a write has no effect.
        Zero = "zero",
    }
}

/// A load or store of a surface, unformatted. The address of `access` is the handle; x is in bytes.
#[derive(Clone, Debug)]
pub struct SurfaceAccess {
    pub access: Access,
    pub store: bool,
    pub geometry: Geometry,
    pub outside: OutsideSurface,
    pub at: Vec<u32>,
    pub layer: Option<u32>,
}

words! {
    /// The property that `txq` or `suq` asks for.
    pub enum ImageQuery {
        Width = "width",
        Height = "height",
        Depth = "depth",
        Layers = "array_size",
        NormalizedCoordinates = "normalized_coords",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomOp {
    Add,
    AddF32,
    AddF64,
    AddF16x2,
    AddBf16x2,
    AddF16,
    AddBf16,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    MinU,
    MinS,
    MaxU,
    MaxS,
    Inc,
    Dec,
    MinF16,
    MinBf16,
    MaxF16,
    MaxBf16,
}

/// An atomic. It updates each element by itself, but `Cas` compares and swaps all of them as one: 128 bits are two
/// elements of 64. The access has the registers of the second operand.
#[derive(Clone, Debug)]
pub struct Atomic {
    pub access: Access,
    pub op: AtomOp,
    pub class: Class,
    /// The registers of the old values; none if they are not wanted.
    pub destinations: Vec<u32>,
    pub c: Vec<u32>,
    /// True if an instruction reads the old value, so that the thread goes on only when it has it. nvcc also writes
    /// `atom` where no instruction reads it.
    pub answers: bool,
}

words! {
    pub enum ShflMode {
        Up = "up",
        Down = "down",
        Bfly = "bfly",
        Idx = "idx",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduxOp {
    Add,
    MinU,
    MinS,
    MaxU,
    MaxS,
    And,
    Or,
    Xor,
    Floats(ReduxFloats),
}

/// A minimum or maximum of f32 (PTX ISA 8.6, sm_100a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduxFloats {
    /// True for the smallest value, false for the largest.
    pub smallest: bool,
    /// True if magnitudes are compared, without signs.
    pub absolute: bool,
    /// True if a NaN among the operands is the result. Otherwise NaNs are ignored.
    pub keeps_nan: bool,
}

/// An exchange between lanes of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// `shfl`: operand b is `o[2]`, and c is `o[3]`.
    Shfl {
        mode: ShflMode,
        predicate: bool,
    },
    /// `vote`: operand a is a predicate.
    Vote {
        mode: VoteMode,
        negated: bool,
    },
    Match {
        all: bool,
        wide: bool,
        predicate: bool,
    },
    Redux(ReduxOp),
    Elect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierKind {
    Sync,
    Arrive,
    RedPopc,
    RedAnd,
    RedOr,
}

/// Operations on mbarrier objects (PTX ISA 9.7.13.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierOp {
    /// Initialises the barrier; the count is `o[1]`.
    Init,
    Inval,
    /// Arrives. The state goes to `o[0]`, the count is `o[1]`, and the bytes to expect are `o[2]`. `drop`: also of all
    /// later phases.
    Arrive {
        drop: bool,
        expects: bool,
    },
    /// Expects bytes; their number is `o[2]`.
    ExpectTx,
    CompleteTx,
    /// Waits for the phase of a state, `o[3]`. The result goes to predicate `o[0]`.
    WaitState {
        blocks: bool,
    },
    /// Waits for the phase of a parity, `o[1]`. The result goes to predicate `o[0]`.
    WaitParity {
        blocks: bool,
    },
    /// Arrives once the thread's copies have arrived. `counted`: the arrival is among those that the barrier expects.
    CopiesArrive {
        counted: bool,
    },
}

#[derive(Clone, Debug)]
pub struct Mbarrier {
    pub op: MbarrierOp,
    pub space: AddressSpace,
    /// The scope, which is the cluster if none is written: libraries arrive at other blocks in this way.
    pub scope: Scope,
    pub relaxed: bool,
    pub address: (Class, u32),
    pub offset: i64,
}

#[derive(Clone, Debug)]
pub struct BulkPlace {
    pub address: (Class, u32),
    pub offset: i64,
}

/// The global side of a bulk copy.
#[derive(Clone, Debug)]
pub enum BulkGlobal {
    /// Bytes side by side. `o[2]` has their number.
    Line(BulkPlace),
    /// A box of the tensor whose map lies at `map`, from these coordinates on, innermost first.
    Box {
        map: BulkPlace,
        at: Vec<u32>,
        walk: Walk,
    },
    /// There is no global side: `o[2]` bytes of the block's own shared memory, side by side, go to a block of the
    /// cluster.
    Shared(BulkPlace),
}

/// The way in which a copy goes through a tensor. Its map has to say the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walk {
    Tiles,
    /// Copies pixels by `.im2col`. The registers have the offsets that are added to each pixel's place in space, if
    /// there are any.
    Pixels(Vec<u32>),
}

/// A copy of one thread between shared and global memory.
#[derive(Clone, Debug)]
pub struct BulkCopy {
    pub shared: BulkPlace,
    pub global: BulkGlobal,
    /// The mbarrier that the bytes are reported to. Copies to global memory have none.
    pub barrier: Option<BulkPlace>,
    /// The operation by which the contents of memory are combined with what comes. Without one, they are replaced.
    pub reduction: Option<Reduction>,
    /// The register with a bit for each block of the cluster that gets a copy, by its rank.
    pub multicast: Option<u32>,
}

/// The operation of a copy that reduces.
#[derive(Clone, Debug)]
pub enum Reduction {
    /// An operation on elements of this number of bytes.
    Elements(AtomOp, u32),
    /// The operation on the elements of the tensor map, which is one of these.
    ByMap(Vec<(MapElement, AtomOp)>),
}

/// A new value for a field of the tensor map at a place.
#[derive(Clone, Debug)]
pub struct ReplaceField {
    pub field: MapField,
    pub dimension: usize,
    pub space: AddressSpace,
    pub place: BulkPlace,
    pub value: (Class, u32),
}

/// A prefetch of the source of a bulk copy into L2, which no program can see. `o[2]` has the number of bytes of a line.
#[derive(Clone, Debug)]
pub struct BulkPrefetch(pub BulkGlobal);

/// A warp takes or releases registers, and then has `count` registers for each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetRegisters {
    pub count: u32,
    pub takes: bool,
}

impl SetRegisters {
    /// Returns the name of the instruction.
    pub fn name(self) -> &'static str {
        if self.takes {
            "setmaxnreg.inc"
        } else {
            "setmaxnreg.dec"
        }
    }
}

/// An access by `st.async` or `red.async`, which happens asynchronously. Its bytes are reported to the mbarrier.
#[derive(Clone, Debug)]
pub struct AsyncStore {
    pub access: Access,
    pub barrier: BulkPlace,
    pub reduction: Option<AtomOp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub scope: Scope,
    pub acquire: bool,
    pub release: bool,
    pub sc: bool,
}

/// The operation of an instruction. Most operands are registers in [`Inst::o`], and the comment of a variant says which
/// register has which role (`o[0]` is mostly the result). Targets of branches are numbers of instructions.
#[derive(Clone, Debug)]
pub enum Op {
    /// An operation that accesses registers alone.
    Alu(AluOp),
    Branch(u32),
    /// Branches to the target whose number is in `o[1]`.
    BranchIndexed(Box<[u32]>),
    /// Continues at the function that begins at an instruction, until its `Return`.
    Call(u32),
    /// Continues at the function whose address is in `o[1]`.
    CallIndirect(Box<[(u64, u32)]>),
    /// Copies the result of the function whose address is in `o[1]`, from the place where that function leaves it.
    CopyResult {
        from: Box<[(u64, u32)]>,
        to: u32,
        bytes: u32,
    },
    /// Puts registers and local variables of a function aside, because the call may enter it again.
    Save(u32),
    /// Restores what `Save` put aside, except for the results of the call. `o[1]` is the address that was called, if the
    /// call was by address.
    Restore {
        frame: u32,
        results: Box<[CallResult]>,
    },
    Return,
    Exit,
    Load(Box<Access>),
    Store(Box<Access>),
    /// Copies bytes from one local address to another: parameters of calls.
    CopyLocal {
        from: u32,
        to: u32,
        bytes: u32,
    },
    Atom(Box<Atomic>),
    Texture(Box<TextureFetch>),
    Surface(Box<SurfaceAccess>),
    /// Queries the texture or surface `o[1]`; the result goes to `o[0]`.
    ImageQuery(ImageQuery),
    /// Copies `o[2]` bytes from the address in `o[1]` to that in `o[0]`, and fills the rest up to `bytes` with zeros.
    CpAsync {
        to: Box<Access>,
        from: Box<Access>,
        bytes: u32,
    },
    CpCommit,
    /// Waits until at most this many groups of copies are in flight.
    CpWait(u32),
    Bulk(Box<BulkCopy>),
    BulkPrefetch(Box<BulkPrefetch>),
    ReplaceField(Box<ReplaceField>),
    /// Copies a tensor map from shared to global memory (`tensormap.cp_fenceproxy`).
    PublishMap {
        to: BulkPlace,
        from: BulkPlace,
    },
    /// Makes later copies see the tensor map at a place as it is now.
    AcquireMap(BulkPlace),
    BulkCommit,
    /// Waits until at most `keep` groups of bulk copies to global memory are in flight. With `reads_only` it waits only
    /// until they have read shared memory.
    BulkWait {
        keep: u32,
        reads_only: bool,
    },
    /// Makes shared memory, as the thread sees it, visible to bulk copies (`fence.proxy.async`).
    ProxyFence,
    /// Waits at barrier `o[1]` for `o[2]` threads (0: the whole block). `o[3]` is the predicate to reduce, `o[0]` its result.
    Barrier {
        kind: BarrierKind,
        aligned: bool,
    },
    /// Waits for the lanes whose mask is in `o[1]`.
    WarpSync,
    /// Exchanges values between the lanes whose mask is in `o[4]`: result `o[0]`, value `o[1]`, predicate `o[5]`.
    Exchange(Exchange),
    ActiveMask,
    Mma(Box<Mma>),
    Wgmma(Box<Wgmma>),
    WgmmaFence,
    WgmmaCommit,
    /// Waits until at most this many groups of products are in flight.
    WgmmaWait(u32),
    SetRegisters(SetRegisters),
    Mbarrier(Box<Mbarrier>),
    /// Returns in `o[0]` how many arrivals are pending in the state of an mbarrier in `o[1]`.
    PendingCount,
    /// Prints. The numbers are local addresses of the pointers to the text and to the arguments of `printf`; the count of
    /// arguments goes to `o[0]`.
    Print([u32; 2]),
    /// Allocates `o[1]` bytes and puts their address in `o[0]`.
    Malloc,
    /// Frees the block at the address in `o[1]`.
    Free,
    Fence(Fence),
    /// Lets other blocks use the mbarriers that the thread has initialised (`fence.mbarrier_init`).
    InitFence,
    /// Arrives at the barrier of the cluster without waiting. If `relaxed`, it releases only what was fenced before.
    ClusterArrive {
        aligned: bool,
        relaxed: bool,
    },
    ClusterWait {
        aligned: bool,
    },
    AsyncStore(Box<AsyncStore>),
    /// Reads the number of instructions that this warp has executed, in 32 or 64 bits.
    Clock {
        wide: bool,
    },
    Trap,
    /// Ends the launch with a failed `assert`. The numbers are local addresses of the pointers to its text, file and
    /// function, and of the line.
    Assert(Option<[u32; 4]>),
    /// Lets other warps have their turn.
    Sleep,
    Nop,
}

/// An instruction of a program, with its guard and operands.
#[derive(Clone, Debug)]
pub struct Inst {
    pub op: Op,
    /// Numbers of registers, by the role that `op` gives them.
    pub o: Operands,
    /// The predicate that guards it: 0 for none, else (register + 1) * 2, plus 1 if it is negated.
    pub guard: u32,
    /// The number of its line and form in [`crate::program::Program::sources`].
    pub source: u32,
    /// False for the second and later steps of one PTX instruction.
    pub counts: bool,
}

/// A result that a call leaves in local memory.
#[derive(Clone, Debug)]
pub struct CallResult {
    pub from: ResultPlace,
    pub to: u32,
    pub bytes: u32,
}

#[derive(Clone, Debug)]
pub enum ResultPlace {
    At(u32),
    /// The places by the address of the function that was called.
    OfFunction(Box<[(u64, u32)]>),
}

/// The registers that a warp gets from the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    NWarpId,
    SmId,
    NSmId,
    GridId,
    LaneMaskEq,
    LaneMaskLe,
    LaneMaskLt,
    LaneMaskGe,
    LaneMaskGt,
    DynamicSharedSize,
    TotalSharedSize,
    /// The first byte, or the end, of the shared memory that the system reserves.
    ReservedShared {
        end: bool,
    },
    /// A word of the address of the grid's workspace: 0 unless the launch is cooperative.
    Workspace {
        high: bool,
    },
    /// Another register that the driver sets as it likes.
    DriverRegister,
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterId(u8),
    NClusterId(u8),
    ClusterCtarank,
    ClusterNctarank,
    /// A predicate that is true if the launch or the kernel sets the size of a cluster.
    IsExplicitCluster,
}
