//! Global memory: allocations far enough apart that an index past the end hits none, each with a record of the bytes
//! that have a value.

use crate::heap::Heap;
use crate::image::{Bound, Image};
use crate::isa::{HEAP_BASE, HOST_BASE, IMAGE_BASE, MODULE_BASE};
use crate::tensor_map::MAP_BYTES;
use crate::turn::{Turn, mixed};
use std::collections::BTreeMap;
use std::ops::Range;

mod content;

use content::Known;
pub(crate) use content::{Content, Missing, Origin, SharedBytes, Unwritten, Witness};

/// The number of bytes that lie between two allocations, at least.
const GAP: u64 = 1 << 16;

#[derive(Clone, Debug)]
pub struct Allocation {
    pub name: String,
    pub base: u64,
    pub(crate) content: Content<SharedBytes>,
    pub read_only: bool,
    /// The number of bytes that it had in the beginning.
    reserved: usize,
}

/// Variables of a module that are not in memory now.
#[derive(Clone, Debug)]
pub struct Variables(Vec<Allocation>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MemoryError(String);

#[derive(Clone, Debug)]
pub struct Memory {
    /// The allocations in the order of their addresses.
    allocations: Vec<Allocation>,
    next: u64,
    /// The bytes between allocations beyond the gap.
    apart: u64,
    /// The turn, and the number of slots that were tried in it, if allocations lie elsewhere than usual.
    moved: Option<(Turn, u64)>,
    limit: u64,
    used: u64,
    heap_from: u64,
    /// The textures and surfaces, by the number in their handle.
    images: Vec<(Image, Bound)>,
    pub(crate) heap: Heap,
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new(16 << 30)
    }
}

/// The number of bits of an address within a slot, and the number of slots for buffers that are moved. No buffer is
/// larger than a slot.
const SLOT: u32 = 33;
const SLOTS: u64 = 1 << (47 - SLOT);

/// The distance of two handles of textures. A handle with something added to it is no handle.
const HANDLE_STEP: u64 = 256;

/// The distance in bytes beyond which an address is no slip of an index, and the nearest allocation says nothing.
const WILD: u64 = 1 << 30;

impl Memory {
    /// Builds empty memory. `limit` is the number of bytes that may be allocated in all.
    pub fn new(limit: u64) -> Memory {
        Memory {
            allocations: Vec::new(),
            next: HOST_BASE,
            apart: 0,
            moved: None,
            limit,
            used: 0,
            heap_from: HEAP_BASE,
            images: Vec::new(),
            heap: Heap::default(),
        }
    }

    /// Builds memory like [`Memory::new`], whose allocations lie at other addresses. `place` selects the addresses; 0
    /// selects the usual ones. Allocations are aligned as cudaMalloc promises, and no more. `moved` changes the
    /// addresses of the place further, see `Memory::moved`.
    pub fn elsewhere(limit: u64, place: u64, moved: Option<Turn>) -> Memory {
        let mixed = place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut memory = Memory::new(limit);
        // The first allocation moves by less than 256 GiB.
        memory.next += mixed >> 26 & !0xff;
        memory.apart = (mixed & 0xff) << 8;
        memory.moved = moved.map(|turn| (turn, 0));
        memory.heap_from += match moved {
            Some(Turn::First) => !(mixed >> 32) & 0xffff_ff00,
            _ => mixed >> 32 & !0xff,
        };
        memory
    }

    /// Returns where memory lies that usually lies at `usual`. The two turns together change each bit of each address
    /// up to 2^47 and the order of any two, and the second one the distance of any two, its low bits and the difference
    /// of their bits. An address is the number of a slot, and a place in it:
    ///
    /// - In the first turn slots are taken in the order of multiples of the golden ratio, which puts each next one
    ///   between those before: neither the order of three buffers nor its reverse. In the slot all bits are flipped.
    /// - In the second turn all bits of the slot's number are those of the first turn flipped, and so the order is
    ///   reversed. The place in the slot is drawn from the usual place.
    fn moved(&mut self, turn: Turn, usual: u64, bytes: u64) -> u64 {
        const LOW: u64 = (1 << SLOT) - 1;
        for _ in 0..SLOTS {
            let Some((_, drawn)) = &mut self.moved else {
                break;
            };
            *drawn += 1;
            let slot = drawn.wrapping_mul((SLOTS * 618 / 1000) | 1) % SLOTS;
            let (slot, low) = match turn {
                Turn::First => (slot, !usual),
                Turn::Second => (SLOTS - 1 - slot, mixed(usual)),
            };
            let base = slot << SLOT | low & LOW & !0xff;
            let near = self
                .allocations
                .iter()
                .any(|a| a.base < base + bytes + GAP && base < a.base + a.reserved as u64 + GAP);
            if base >= HOST_BASE && !near {
                return base;
            }
        }
        usual
    }

    /// Makes these bytes undefined, whether the host or a kernel wrote them.
    pub fn forget(&mut self, address: u64, bytes: usize) -> Result<(), MemoryError> {
        let (i, at) = self.range(address, bytes)?;
        let a = &mut self.allocations[i];
        if at == 0 && bytes == a.len() {
            a.content.known = Known::none(bytes);
        } else {
            (at..at + bytes).for_each(|offset| a.content.forget(offset));
        }
        Ok(())
    }

    /// Returns name, address and size in bytes of each block of the heap that is in use.
    pub fn heap_blocks(&self) -> impl Iterator<Item = (&str, u64, usize)> {
        let first = self.allocations.partition_point(|a| a.base < HEAP_BASE);
        self.allocations[first..]
            .iter()
            .filter(|a| a.len() > 0)
            .map(|a| (a.name.as_str(), a.base, a.len()))
    }

    /// Allocates, and returns the device address, which is aligned to 256 bytes as cudaMalloc promises. The bytes have
    /// no value until something writes them. Fails if the limit is exceeded.
    pub fn alloc(&mut self, name: &str, bytes: u64) -> Result<u64, MemoryError> {
        self.count(name, bytes)?;
        let mut base = self.next;
        if let Some((turn, _)) = self.moved {
            base = self.moved(turn, base, bytes);
        }
        self.next += (bytes + GAP).next_multiple_of(GAP) + self.apart;
        self.insert(name, base, vec![0; bytes as usize], false, false);
        Ok(base)
    }

    /// Allocates at a device address of the caller's choice. Fails if another allocation is there or the limit is
    /// exceeded.
    pub fn place(&mut self, name: &str, base: u64, bytes: u64) -> Result<(), MemoryError> {
        let Some(last) = base.checked_add(bytes.saturating_sub(1)) else {
            return Err(MemoryError(format!(
                "{name}: it ends behind the last address"
            )));
        };
        let overlaps = |a: &Allocation| a.base <= last && base < a.base + a.len() as u64;
        if self.allocations.iter().any(overlaps) {
            return Err(MemoryError(format!(
                "{name}: something else is at {base:#x}"
            )));
        }
        self.count(name, bytes)?;
        self.insert(name, base, vec![0; bytes as usize], false, false);
        Ok(())
    }

    /// Counts bytes that are allocated. Fails if there are more of them than the limit.
    fn count(&mut self, name: &str, bytes: u64) -> Result<(), MemoryError> {
        self.used = self.used.saturating_add(bytes);
        if self.used > self.limit {
            return Err(MemoryError(format!(
                "{name}: more than the limit of {} bytes",
                self.limit
            )));
        }
        Ok(())
    }

    /// Returns the handle by which kernels name a texture or a surface over allocated memory. Binding the same image in
    /// the same way again returns the same handle.
    pub fn bind(&mut self, image: Image, bound: Bound) -> Result<u64, MemoryError> {
        if self.find(image.address, image.bytes()).is_none() {
            return Err(MemoryError(format!(
                "an image of {} bytes: {}",
                image.bytes(),
                self.near(image.address)
            )));
        }
        let known = self
            .images
            .iter()
            .position(|known_image| *known_image == (image, bound));
        let number = known.unwrap_or_else(|| {
            self.images.push((image, bound));
            self.images.len() - 1
        });
        Ok(IMAGE_BASE + HANDLE_STEP * number as u64)
    }

    /// Returns the image that a handle names, and how it is bound.
    pub(crate) fn bound(&self, handle: u64) -> Option<(Image, Bound)> {
        let from = handle.checked_sub(IMAGE_BASE)?;
        let number = usize::try_from(from / HANDLE_STEP).ok()?;
        let known = self.images.get(number).copied();
        known.filter(|_| from % HANDLE_STEP == 0)
    }

    /// Leaves addresses unused before the next allocation. An access there is past the allocation before it.
    pub fn skip(&mut self, bytes: u64) {
        self.next = (self.next + bytes).next_multiple_of(GAP);
    }

    /// Adds an allocation at an address. With `known`, all of its bytes have values.
    pub(crate) fn insert(
        &mut self,
        name: &str,
        base: u64,
        data: Vec<u8>,
        known: bool,
        read_only: bool,
    ) {
        let reserved = data.len();
        let mut content = Content::new(SharedBytes::new(data));
        content.known.all |= known;
        let at = self.allocations.partition_point(|a| a.base < base);
        self.allocations.insert(
            at,
            Allocation {
                name: name.into(),
                base,
                content,
                read_only,
                reserved,
            },
        );
    }

    /// Removes the allocation at an address.
    pub(crate) fn remove(&mut self, base: u64) {
        self.allocations.retain(|a| a.base != base);
    }

    /// Returns the bytes that are reached of each allocation, by its address.
    pub(crate) fn reached(&self, reach: impl Fn(usize) -> usize) -> BTreeMap<u64, u64> {
        let numbered = self.allocations.iter().enumerate();
        numbered
            .map(|(number, allocation)| (allocation.base, reach(number) as u64))
            .collect()
    }

    /// Returns the bytes of each allocation, in the order of addresses.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.allocations.iter().map(|a| &*a.content.bytes)
    }

    /// Allocates a block of the heap behind all other allocations, so that the numbers of existing allocations stay
    /// valid.
    pub(crate) fn alloc_in_heap(&mut self, name: &str, bytes: usize) -> u64 {
        let mut base = self.allocations.last().map_or(self.heap_from, |last| {
            let end = last.base + last.reserved as u64;
            (end + GAP).next_multiple_of(GAP).max(self.heap_from)
        });
        if let Some((_, drawn)) = &mut self.moved {
            *drawn += 1;
            base += (mixed(*drawn) % GAP) & !0xff;
        }
        self.insert(name, base, vec![0; bytes], false, false);
        base
    }

    /// Empties the allocation at `base`, so that nothing can be read or written there any more.
    pub(crate) fn empty(&mut self, base: u64) {
        if let Some(i) = self.find(base, 0) {
            self.allocations[i].content = Content::new(SharedBytes::default());
        }
    }

    /// Returns the allocation with all of `bytes` from `address` on. `hint` is looked at first.
    #[inline(always)]
    pub(crate) fn holding(&self, hint: usize, address: u64, bytes: usize) -> Option<usize> {
        let holds = |a: &Allocation| {
            let at = address.wrapping_sub(a.base);
            at <= a.len() as u64 && bytes <= a.len() - at as usize
        };
        if self.allocations.get(hint).is_some_and(holds) {
            return Some(hint);
        }
        self.find(address, bytes as u64)
    }

    /// Writes as the host does, before a launch or after it: no observer is asked.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let (i, at) = self.range(address, bytes.len())?;
        let a = &mut self.allocations[i];
        a.content.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        let total = a.len();
        a.content.known.set_range(at, bytes.len(), total);
        Ok(())
    }

    /// Reads as the host does: no observer is asked.
    pub fn read(&self, address: u64, bytes: usize) -> Result<&[u8], MemoryError> {
        let (i, at) = self.range(address, bytes)?;
        let a = &self.allocations[i];
        Ok(&a.content.bytes[at..at + bytes])
    }

    /// Returns a text that `printf` or a failed assertion names, up to its end or 1000 bytes. No instruction of the program
    /// reads it.
    pub(crate) fn text(&self, start: u64) -> Vec<u8> {
        let byte = |i: u64| self.read(start.wrapping_add(i), 1).ok().map(|b| b[0]);
        (0..1000).map_while(byte).take_while(|&b| b != 0).collect()
    }

    /// Returns the bytes of a tensor map. A copy reads it by a proxy of its own, and `check_map` asks for its fence.
    pub(crate) fn tensor_map(&self, address: u64) -> Option<&[u8]> {
        self.read(address, MAP_BYTES).ok()
    }

    /// Copies from one allocation to another. A byte without a value has none afterwards either.
    pub fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<(), MemoryError> {
        let gaps = self.without_value(from, bytes)?;
        let held = self.read(from, bytes)?.to_vec();
        self.write(to, &held)?;
        let (i, at) = self.range(to, bytes)?;
        for gap in gaps.into_iter().flatten() {
            self.allocations[i].content.forget(at + gap);
        }
        Ok(())
    }

    /// Returns the bytes that checks may take: the size of the buffers, less the eighth that memory takes already to
    /// record which bytes are written, plus 90 MB (10 MB are left for registers, shared memory and code).
    pub(crate) fn room_for_checks(&self) -> u64 {
        let all = self.bytes();
        all - all / 8 + 90_000_000
    }

    /// Returns the bytes of the allocations that this copy of `from` no longer shares with it, because it wrote to
    /// them.
    pub(crate) fn apart(&self, from: &Memory) -> u64 {
        self.allocations
            .iter()
            .zip(&from.allocations)
            .filter(|(a, b)| !a.content.bytes.is_same(&b.content.bytes))
            .map(|(a, _)| a.len() as u64)
            .sum()
    }

    /// Returns the allocations that this copy of `from` wrote to, by number, and drops the others.
    pub(crate) fn into_apart(self, from: &Memory) -> Vec<Option<SharedBytes>> {
        self.allocations
            .into_iter()
            .zip(&from.allocations)
            .map(|(a, b)| (!a.content.bytes.is_same(&b.content.bytes)).then_some(a.content.bytes))
            .collect()
    }

    /// Returns the bytes of all allocations.
    pub(crate) fn bytes(&self) -> u64 {
        self.allocations.iter().map(|a| a.len() as u64).sum()
    }

    /// Returns the parts of a range that nothing has written yet, as offsets from `address`, in ascending order.
    pub fn without_value(
        &self,
        address: u64,
        bytes: usize,
    ) -> Result<Vec<Range<usize>>, MemoryError> {
        let (i, at) = self.range(address, bytes)?;
        let a = &self.allocations[i];
        let mut found: Vec<Range<usize>> = Vec::new();
        if a.content.known.all {
            return Ok(found);
        }
        let mut offset = 0;
        while offset < bytes {
            let place = at + offset;
            // It looks at a word of bits at a time, as outputs are mostly written whole.
            if place.is_multiple_of(64)
                && bytes - offset >= 64
                && a.content.known.bits[place / 64] == u64::MAX
            {
                offset += 64;
                continue;
            }
            if a.content.known.bits[place / 64] >> (place % 64) & 1 == 0 {
                match found.last_mut() {
                    Some(last) if last.end == offset => last.end = offset + 1,
                    _ => found.push(offset..offset + 1),
                }
            }
            offset += 1;
        }
        Ok(found)
    }

    /// Takes out the variables of a module, so that another's can lie in their place.
    pub fn take_variables(&mut self) -> Variables {
        let first = self.allocations.partition_point(|a| a.base < MODULE_BASE);
        let end = self.allocations.partition_point(|a| a.base < HOST_BASE);
        Variables(self.allocations.drain(first..end).collect())
    }

    /// Puts back the variables that [`Memory::take_variables`] took out.
    pub fn put_variables(&mut self, variables: Variables) {
        let first = self.allocations.partition_point(|a| a.base < MODULE_BASE);
        self.allocations.splice(first..first, variables.0);
    }

    /// Returns true if an allocation begins at an address.
    pub(crate) fn has(&self, base: u64) -> bool {
        self.allocations.iter().any(|a| a.base == base)
    }

    /// Forgets the origins of all bytes when a launch begins: see [`Content::forget_origins`].
    pub(crate) fn forget_origins(&mut self) {
        self.allocations
            .iter_mut()
            .for_each(|a| a.content.forget_origins());
    }

    /// Takes over what another copy of this memory holds: blocks that ran on a thread of their own wrote it there, where
    /// the observers were asked.
    pub(crate) fn take_over(&mut self, number: usize, from: &SharedBytes, at: Range<usize>) {
        let content = &mut self.allocations[number].content;
        content.cover(at.start, at.len());
        content.bytes[at.clone()].copy_from_slice(&from[at]);
    }

    /// Returns the number of the allocation that contains the whole range.
    #[inline]
    pub(crate) fn find(&self, address: u64, bytes: u64) -> Option<usize> {
        let after = self.allocations.partition_point(|a| a.base <= address);
        let i = after.checked_sub(1)?;
        let a = &self.allocations[i];
        (address - a.base + bytes <= a.len() as u64).then_some(i)
    }

    /// Returns the number of the allocation that contains the whole range, and the offset of the range there.
    fn range(&self, address: u64, bytes: usize) -> Result<(usize, usize), MemoryError> {
        let i = self.find(address, bytes as u64);
        let i = i.ok_or_else(|| MemoryError(self.near(address)))?;
        Ok((i, (address - self.allocations[i].base) as usize))
    }

    #[inline(always)]
    pub(crate) fn at(&self, index: usize) -> &Allocation {
        &self.allocations[index]
    }

    #[inline(always)]
    pub(crate) fn at_mut(&mut self, index: usize) -> &mut Allocation {
        &mut self.allocations[index]
    }

    /// Returns the number of the allocation that is nearest to an address.
    pub(crate) fn nearest(&self, address: u64) -> Option<usize> {
        (0..self.allocations.len()).min_by_key(|i| self.allocations[*i].far(address))
    }

    /// Describes an address that lies in no allocation, by the nearest one.
    pub fn near(&self, address: u64) -> String {
        let far = |a: &Allocation| a.far(address);
        match self.nearest(address).map(|i| self.at(i)) {
            None => format!("address {address:#x}: there are no allocations"),
            Some(a) => {
                let (end, size) = (a.base + a.len() as u64, a.len());
                let place = if far(a) > WILD {
                    "in no allocation; the nearest is".to_owned()
                } else if address < a.base {
                    format!("{} bytes before", a.base - address)
                } else if address == end {
                    "directly past the end of".to_owned()
                } else if address >= end {
                    format!("{} bytes past the end of", address - end)
                } else {
                    format!(
                        "across the end of (it starts {} bytes before it)",
                        end - address
                    )
                };
                format!(
                    "address {address:#x} is {place} `{}` ({size} bytes at {:#x})",
                    a.name, a.base
                )
            }
        }
    }
}

impl Allocation {
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.content.len()
    }

    /// Returns the distance in bytes between an address and the nearest byte of the allocation.
    fn far(&self, address: u64) -> u64 {
        let end = self.base + self.len() as u64;
        if address < self.base {
            self.base - address
        } else {
            address.saturating_add(1).saturating_sub(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_and_their_neighbours() {
        let mut m = Memory::default();
        let a = m.alloc("a", 100).unwrap();
        let b = m.alloc("b", 8).unwrap();
        assert_eq!(a % 256, 0);
        m.write(b, &[1; 8]).unwrap();
        assert_eq!(m.read(b + 4, 4).unwrap(), [1; 4]);
        assert!(m.read(b + 4, 5).is_err());
        assert!(m.near(a + 100).contains("directly past the end of `a`"));
        assert!(m.near(a + 101).contains("1 bytes past the end of `a`"));
        assert!(m.near(b - 4).contains("4 bytes before `b`"));
        let wild = m.near(u64::MAX);
        assert!(
            wild.contains("is in no allocation; the nearest is `b`"),
            "{wild}"
        );
        assert!(Memory::new(10).alloc("x", 11).is_err());
        m.place("inner", 0x1000, 16).unwrap();
        for (base, bytes) in [(0xf00, 0x200), (0xfff, 2), (0x1008, 1), (0x100f, 9)] {
            assert!(m.place("over it", base, bytes).is_err(), "{base:#x}");
        }
        m.place("before it", 0xf00, 0x100).unwrap();
        m.place("behind it", 0x1010, 1).unwrap();
    }

    #[test]
    fn reads_of_unwritten_memory_are_reported() {
        let mut m = Memory::default();
        let a = m.alloc("a", 300).unwrap();
        assert_eq!(m.without_value(a, 300).unwrap(), vec![0..300; 1]);
        for (at, bytes) in [(0, 4), (60, 140), (299, 1)] {
            m.write(a + at, &vec![1; bytes]).unwrap();
        }
        assert_eq!(m.without_value(a, 300).unwrap(), [4..60, 200..299]);
        assert_eq!(m.without_value(a + 10, 8).unwrap(), vec![0..8; 1]);
        assert!(m.without_value(a, 301).is_err());
        m.write(a, &[0; 300]).unwrap();
        assert!(m.without_value(a, 300).unwrap().is_empty());
    }
}
