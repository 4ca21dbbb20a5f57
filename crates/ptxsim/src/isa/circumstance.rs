//! Facts of the machine and of the moment that instructions and registers show.

use super::op::Special;

/// A fact that no result may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Circumstance {
    /// The multiprocessor of a block: `%smid`, `%nsmid`.
    Multiprocessor,
    /// The warp's slot in its multiprocessor: `%warpid`, `%nwarpid`.
    WarpSlot,
    /// The number of the grid: `%gridid`.
    GridNumber,
    /// Clocks and performance counters: `%clock`, `%globaltimer`, `%pm`.
    Time,
    /// `%total_smem_size`: the system rounds it up as the GPU needs.
    SharedSize,
    /// Registers that the driver sets: `%envreg`.
    DriverRegister,
    /// Bits of addresses above the alignment that an allocation promises.
    Addresses,
}

impl Circumstance {
    pub const ALL: [Self; 7] = [
        Self::Multiprocessor,
        Self::WarpSlot,
        Self::GridNumber,
        Self::Time,
        Self::SharedSize,
        Self::DriverRegister,
        Self::Addresses,
    ];
}

impl Special {
    /// Returns the circumstance that the register shows.
    pub fn circumstance(self) -> Option<Circumstance> {
        match self {
            Special::SmId | Special::NSmId => Some(Circumstance::Multiprocessor),
            Special::WarpId | Special::NWarpId => Some(Circumstance::WarpSlot),
            Special::GridId => Some(Circumstance::GridNumber),
            Special::TotalSharedSize => Some(Circumstance::SharedSize),
            Special::DriverRegister | Special::Workspace { .. } => {
                Some(Circumstance::DriverRegister)
            }
            Special::Tid(_)
            | Special::Ntid(_)
            | Special::Ctaid(_)
            | Special::Nctaid(_)
            | Special::LaneId
            | Special::LaneMaskEq
            | Special::LaneMaskLe
            | Special::LaneMaskLt
            | Special::LaneMaskGe
            | Special::LaneMaskGt
            | Special::DynamicSharedSize
            | Special::ReservedShared { .. }
            | Special::ClusterCtaid(_)
            | Special::ClusterNctaid(_)
            | Special::ClusterId(_)
            | Special::NClusterId(_)
            | Special::ClusterCtarank
            | Special::ClusterNctarank
            | Special::IsExplicitCluster => None,
        }
    }
}
