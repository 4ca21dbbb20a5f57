//! Switches an observer off for one kind of access, for the test that each of them is missed where it is gone
//! (`tests/observers`). Without the feature `switches` all observers see everything, and the functions here return
//! constants.

/// Makes an enum whose values are listed in `ALL`.
macro_rules! listed {
    (
        $(#[$meta:meta])*
        pub enum $of:ident {
            $($(#[$doc:meta])* $variant:ident,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $of {
            $($(#[$doc])* $variant,)*
        }

        #[cfg(feature = "switches")]
        impl $of {
            pub const ALL: [Self; [$(stringify!($variant)),*].len()] = [$(Self::$variant),*];
        }
    };
}

listed! {
    /// A check, or the counting, of accesses to memory.
    pub enum Observer {
        SharedRaces,
        GlobalRaces,
        Initialisation,
        /// Bounds of the variable that an address was computed from.
        Bounds,
        /// Asynchronous copies that are still writing, or still reading.
        Copies,
        /// Layouts that the descriptors of `wgmma` describe.
        Layouts,
        Cost,
    }
}

#[cfg(not(feature = "switches"))]
#[inline(always)]
pub fn is_off(_: Observer, _pc: u32) -> bool {
    false
}

#[cfg(not(feature = "switches"))]
#[inline(always)]
pub fn is_any_off(_pc: u32) -> bool {
    false
}

#[cfg(feature = "switches")]
pub use on::{AccessKind, begin, is_any_off, is_off, switch_off};

#[cfg(feature = "switches")]
mod on {
    use super::Observer;
    use crate::isa::mma::Mma;
    use crate::isa::*;
    use crate::program::*;
    use std::sync::RwLock;

    listed! {
        /// The kinds of access for which an observer can be switched off.
        pub enum AccessKind {
            Generic,
            Global,
            Shared,
            /// Shared memory of another block of the cluster, where the instruction says so.
            Distributed,
            Local,
            Parameter,
            Atomic,
            /// The copies of `cp.async`, by single threads.
            AsyncCopy,
            /// `cp.async.bulk` and `cp.reduce.async.bulk` of a line.
            Bulk,
            /// Bulk copies and reductions of a box of a tensor.
            Tensor,
            /// Copies from the block's shared memory to that of another one.
            BulkDistributed,
            /// Stores and updates by `st.async` and `red.async`.
            AsyncStore,
            Mbarrier,
            /// Accesses of `ldmatrix` and `stmatrix`, by rows of 16 bytes.
            Matrix,
            /// Fragments that `wmma` loads and stores.
            Fragment,
            Wgmma,
            Texture,
            Surface,
            /// Changes of a map by `tensormap.replace` and `tensormap.cp_fenceproxy`.
            TensorMap,
        }
    }

    impl AccessKind {
        /// Returns the kind of access that an instruction makes, if it makes one.
        pub fn from_op(op: &Op) -> Option<Self> {
            let of_space = |space| match space {
                AddressSpace::Generic => Self::Generic,
                AddressSpace::Global => Self::Global,
                AddressSpace::Shared => Self::Shared,
                AddressSpace::Cluster => Self::Distributed,
                AddressSpace::Local => Self::Local,
                AddressSpace::Param => Self::Parameter,
            };
            Some(match op {
                Op::Load(access) | Op::Store(access) => of_space(access.space),
                Op::Atom(_) => Self::Atomic,
                Op::CpAsync { .. } => Self::AsyncCopy,
                Op::Bulk(copy) => match copy.global {
                    BulkGlobal::Line(_) => Self::Bulk,
                    BulkGlobal::Box { .. } => Self::Tensor,
                    BulkGlobal::Shared(_) => Self::BulkDistributed,
                },
                Op::AsyncStore(_) => Self::AsyncStore,
                Op::Mbarrier(_) => Self::Mbarrier,
                Op::Mma(mma) => match &**mma {
                    Mma::Matrices(_) => Self::Matrix,
                    Mma::WmmaLoad(_) | Mma::WmmaStore(_) => Self::Fragment,
                    _ => return None,
                },
                Op::Wgmma(_) => Self::Wgmma,
                Op::Texture(_) => Self::Texture,
                Op::Surface(_) => Self::Surface,
                Op::ReplaceField(_) | Op::PublishMap { .. } => Self::TensorMap,
                _ => return None,
            })
        }
    }

    struct Switch {
        off: Option<(Observer, AccessKind)>,
        /// The kinds of the instructions of the kernel that was launched last.
        kinds: Vec<Option<AccessKind>>,
    }

    static SWITCH: RwLock<Switch> = RwLock::new(Switch {
        off: None,
        kinds: Vec::new(),
    });

    /// Switches off one observer for one kind of access, or none, in all launches of this process from now on. They must
    /// come one after the other.
    #[allow(clippy::unwrap_used)]
    pub fn switch_off(off: Option<(Observer, AccessKind)>) {
        SWITCH.write().unwrap().off = off;
    }

    /// Notes the kinds of the instructions when a launch begins.
    #[allow(clippy::unwrap_used)]
    pub fn begin(program: &Program) {
        let kinds = program
            .code
            .iter()
            .map(|inst| AccessKind::from_op(&inst.op))
            .collect();
        SWITCH.write().unwrap().kinds = kinds;
    }

    /// Returns true if an observer is off for the access of an instruction.
    #[allow(clippy::unwrap_used)]
    pub fn is_off(observer: Observer, pc: u32) -> bool {
        let switch = SWITCH.read().unwrap();
        let Some((off, kind)) = switch.off else {
            return false;
        };
        off == observer && switch.kinds.get(pc as usize) == Some(&Some(kind))
    }
    /// Returns true if any observer is off for the access of an instruction.
    #[allow(clippy::unwrap_used)]
    pub fn is_any_off(pc: u32) -> bool {
        let off = SWITCH.read().unwrap().off;
        off.is_some_and(|(observer, _)| is_off(observer, pc))
    }
}
