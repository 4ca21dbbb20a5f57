use crate::model::Arch;
pub struct Occupancy {
    pub blocks_per_sm: u32,
    pub warps_per_sm: u32,
    pub max_warps: u32,
}
pub fn occupancy(
    _arch: Arch,
    registers: u32,
    shared_bytes: u64,
    threads_per_block: u64,
) -> Option<Occupancy> {
    let warps = (threads_per_block as u32).div_ceil(32).max(1);
    let blocks = (2048 / (warps * 32))
        .min(65536 / (registers.max(1) * warps * 32))
        .min((233472 / (shared_bytes + 1024)) as u32);
    Some(Occupancy {
        blocks_per_sm: blocks,
        warps_per_sm: blocks * warps,
        max_warps: 64,
    })
}
