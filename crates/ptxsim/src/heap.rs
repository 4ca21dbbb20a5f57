//! The blocks that kernels get from `malloc` on the device. Memory keeps them from launch to launch, freed ones too, so
//! that a message can name the block that an address was part of.

use crate::report::{At, Place};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct Block {
    pub bytes: u64,
    /// The thread that allocated the block, if the present launch did.
    pub by: Option<At>,
    /// The place that freed the block; `None` while the block is in use.
    pub freed: Option<Place>,
}

#[derive(Clone, Debug, Default)]
pub struct Heap {
    /// The blocks, by the address of their first byte.
    pub blocks: BTreeMap<u64, Block>,
    /// The sum of the bytes of all blocks that are not freed.
    pub used: u64,
}

impl Heap {
    /// Returns the address and the block that contains `address`, whether or not it has been freed. A block of no bytes
    /// contains its first address.
    pub fn holding(&self, address: u64) -> Option<(u64, &Block)> {
        let (&base, block) = self.blocks.range(..=address).next_back()?;
        (address - base < block.bytes.max(1)).then_some((base, block))
    }
}
