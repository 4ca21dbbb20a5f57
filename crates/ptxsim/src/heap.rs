//! The blocks of the device's heap, as memory keeps them from launch to launch.

use crate::report::{At, Place};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct Block {
    pub bytes: u64,
    /// For a block of this launch, which of its threads asked for it.
    pub by: Option<At>,
    /// Where it was freed.
    pub freed: Option<Place>,
}

#[derive(Clone, Debug, Default)]
pub struct Heap {
    /// By address.
    pub blocks: BTreeMap<u64, Block>,
    /// Bytes of blocks that are not freed.
    pub used: u64,
}

impl Heap {
    /// The block that an address lies in or lay in, and where it begins.
    pub fn holding(&self, address: u64) -> Option<(u64, &Block)> {
        let (&base, block) = self.blocks.range(..=address).next_back()?;
        (address - base < block.bytes.max(1)).then_some((base, block))
    }
}
