//! Facts of the machine and of the moment that instructions and registers show.

use super::op::Special;
pub use model::Circumstance;

impl Special {
    /// Returns the circumstance that the register shows, or `None` if it follows from the launch alone.
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
