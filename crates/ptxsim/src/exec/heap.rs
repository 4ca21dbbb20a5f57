//! The device's heap: `malloc` and `free` of CUDA C++, which PTX calls as functions without a body. Each block is an
//! allocation of its own, so that the checks find in it what they find elsewhere: accesses out of bounds, values that
//! nothing wrote, races. No address is given twice: an access after `free` hits nothing.
//!
//! Blocks live on after the launch, as on a GPU: another launch may free them. A block is lost if it is not freed when
//! a launch ends and memory holds no pointer to it.

use super::access::address::Site;
use super::state::*;
use crate::heap::Block;
use crate::memory::Memory;
use crate::regs::lanes;
use crate::report::*;
use model::FindingEvent;
use std::collections::BTreeSet;

/// The number of bytes that may be in use at a time, unless a program asks for more (cudaLimitMallocHeapSize).
const HEAP_BYTES: u64 = 8 << 20;
/// The number of blocks that one memory may ever have.
const MOST_BLOCKS: usize = 1 << 20;

/// Returns the blocks to which, or into which, memory holds a pointer.
fn pointed_to(memory: &Memory) -> BTreeSet<u64> {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    memory
        .contents()
        .flat_map(|data| data.as_chunks::<8>().0)
        .filter_map(|bytes| memory.heap.holding(word(bytes)))
        .map(|(base, _)| base)
        .collect()
}

impl Machine<'_> {
    /// Allocates for one lane after the other. The pointer is null if there is no room. A block of 0 bytes has a
    /// pointer.
    pub fn malloc(
        &mut self,
        b: &BlockState,
        w: &mut Warp,
        (to, size): (u32, u32),
        mask: u32,
        pc: u32,
    ) -> Run<()> {
        let name = format!("malloc at {}", self.where_from(pc).at);
        for l in lanes(mask) {
            let bytes = w.regs.r64[size as usize].0[l];
            let heap = &self.memory.heap;
            let fits = bytes.saturating_add(heap.used) <= HEAP_BYTES;
            if fits && heap.blocks.len() >= MOST_BLOCKS {
                let what = format!("more than {MOST_BLOCKS} calls of malloc");
                return Site::new(pc, l).refuse(FaultKind::Budget, what);
            }
            let mut address = 0;
            if fits {
                address = self.memory.alloc_in_heap(&name, bytes as usize);
                let block = Block {
                    bytes,
                    by: Some(At::lane(b, w, pc, l as u32)),
                    freed: None,
                };
                self.memory.heap.used += bytes;
                self.memory.heap.blocks.insert(address, block);
            }
            w.regs.r64[to as usize].0[l] = address;
        }
        self.progress += 1;
        Ok(())
    }

    /// Frees the block of each lane. Reports an address at which no block begins, or whose block was freed before. A
    /// null pointer has no effect.
    pub fn free(&mut self, b: &BlockState, w: &Warp, pointer: u32, mask: u32, pc: u32) {
        let here = self.where_from(pc);
        for l in lanes(mask) {
            let address = w.regs.r64[pointer as usize].0[l];
            if address == 0 {
                continue;
            }
            let at = At::lane(b, w, pc, l as u32).address(address);
            let heap = &mut self.memory.heap;
            let freed = match heap.blocks.get_mut(&address) {
                None => None,
                Some(Block {
                    freed: Some(place), ..
                }) => Some(place.clone()),
                Some(block) => {
                    block.freed = Some(here.clone());
                    heap.used -= block.bytes;
                    self.memory.empty(address);
                    continue;
                }
            };
            self.find(FindingKind::InvalidFree, at, None, |_| {
                FindingEvent::InvalidFree(freed)
            });
        }
        self.progress += 1;
    }

    /// Returns a message for an address that lies in no allocation, if it lay in a block that was freed.
    pub fn freed(&self, address: u64) -> Option<String> {
        let (base, block) = self.memory.heap.holding(address)?;
        let freed = block.freed.as_ref()?;
        let (byte, bytes) = (address - base, block.bytes);
        Some(format!(
            "use after free: address {address:#x} is byte {byte} of {bytes} that were freed at {}",
            freed.at
        ))
    }

    /// Reports the blocks that a launch has lost when it ends.
    pub fn tell_leaks(&mut self) {
        let blocks = &mut self.memory.heap.blocks;
        let fresh = |(address, block): (&u64, &mut Block)| {
            let by = block.by.take().filter(|_| block.freed.is_none())?;
            Some((*address, block.bytes, by))
        };
        let fresh: Vec<_> = blocks.iter_mut().filter_map(fresh).collect();
        if fresh.is_empty() {
            return;
        }
        let kept = pointed_to(self.memory);
        for (address, bytes, by) in fresh {
            if !kept.contains(&address) {
                self.find(FindingKind::Leak, by.address(address), None, |_| {
                    FindingEvent::Leak(bytes)
                });
            }
        }
    }
}
