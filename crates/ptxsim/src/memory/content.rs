//! The bytes of one memory: an allocation, the shared memory of a block, or the local memory of its threads.
//!
//! The bytes are private. An access gets them for a [`Witness`], of which there is one kind: `exec::access` makes it
//! once it has asked the observers. Everything else that may see or change them has a method here that says what it is
//! for.

use crate::quick::QuickMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Shows that the observers were asked about an access. Only `exec::access::Observed` implements it, and only
/// `exec::access` can make one. A second kind would be a way around the observers.
pub trait Witness: Copy {}

/// Bytes whose copies are cheap until one of them is written.
#[derive(Clone, Debug, Default)]
pub struct SharedBytes(Arc<Vec<u8>>);

impl SharedBytes {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }

    /// Returns true if neither was written since one was copied from the other.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for SharedBytes {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for SharedBytes {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        Arc::<Vec<u8>>::make_mut(&mut self.0)
    }
}

/// The first read that brought undefined bits into registers, and the place that it read.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    pub instruction: u32,
    pub from: Unwritten,
}

#[derive(Clone, Copy, Debug)]
pub enum Unwritten {
    /// The number of an allocation, and an offset in it.
    Global(usize, usize),
    Shared(u32),
    Local(u32),
}

/// The bytes of an access that have no value, a bit for each of up to 32, and the origin of the first one.
pub type Missing = (u32, Origin);

#[derive(Clone, Debug)]
pub struct Content<B> {
    pub(super) bytes: B,
    pub(super) known: Known,
    /// The origins of undefined values that were stored. They count only for bytes that have no value.
    origins: QuickMap<usize, Origin>,
}

impl<B: DerefMut<Target = [u8]>> Content<B> {
    pub fn new(bytes: B) -> Self {
        Self {
            known: Known::none(bytes.len()),
            bytes,
            origins: QuickMap::default(),
        }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline(always)]
    pub fn bytes(&self, _: impl Witness) -> &[u8] {
        &self.bytes
    }

    #[inline(always)]
    pub fn bytes_mut(&mut self, _: impl Witness) -> &mut [u8] {
        &mut self.bytes
    }

    /// Returns true if memory holds these bytes already: the race checks ask whether a write changes anything.
    pub fn is_equal(&self, at: usize, value: &[u8]) -> bool {
        let held = self
            .bytes
            .get(at..)
            .and_then(|held| held.get(..value.len()));
        held == Some(value)
    }

    /// Returns what a call left in local memory for a text: arguments of `printf` or of a failed assertion. No observer
    /// is asked, as no instruction of the program reads them.
    pub fn argument(&self, at: usize, bytes: usize) -> Option<&[u8]> {
        self.bytes.get(at..)?.get(..bytes)
    }

    /// Returns a byte of a function's variables, and whether it has a value, to be put aside by a call.
    pub fn put_aside(&self, at: usize) -> (u8, bool) {
        (self.bytes[at], self.known.missing(at, 1).is_none())
    }

    /// Puts back what was put aside.
    pub fn put_back(&mut self, at: usize, (byte, known): (u8, bool)) {
        self.bytes[at] = byte;
        self.known.put(at, known);
    }

    /// Copies a byte of an argument or a result of a call. A byte without a value hands on none.
    pub fn hand_over(&mut self, from: usize, to: usize) {
        let aside = self.put_aside(from);
        self.put_back(to, aside);
        if !aside.1
            && let Some(origin) = self.origins.get(&from).copied()
        {
            self.origins.insert(to, origin);
        }
    }

    /// Returns the 8 bytes of an mbarrier. The scheduler looks at them as well, for warps that wait.
    pub fn mbarrier(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..).and_then(|from| from.first_chunk());
        bytes.map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// Changes an mbarrier: by an operation that the observers were asked about, or by a copy that completes.
    pub fn set_mbarrier(&mut self, at: usize, word: u64) {
        self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }

    /// Returns true if all bytes are known to have values.
    #[inline(always)]
    pub fn is_all_known(&self) -> bool {
        self.known.all
    }

    /// Returns true if all of a stretch has values; `bytes` may be any number.
    #[inline(always)]
    pub fn holds(&self, at: usize, bytes: usize) -> bool {
        self.known.holds(at, bytes)
    }

    /// Returns the bytes of a stretch that have no value. `unwritten` names the first one if no store left its origin.
    #[inline(always)]
    pub fn missing(
        &self,
        at: usize,
        bytes: usize,
        unwritten: impl FnOnce(usize) -> Origin,
    ) -> Option<Missing> {
        let first = self.known.missing(at, bytes)?;
        let missing = (0..bytes.min(32)).filter(|n| self.known.missing(at + n, 1).is_some());
        let missing = missing.fold(0, |all, n| all | 1 << n);
        let origin = self.origins.get(&first).copied();
        Some((missing, origin.unwrap_or_else(|| unwritten(first))))
    }

    /// Notes that all bytes of an access have values now.
    #[inline(always)]
    pub fn mark(&mut self, at: usize, bytes: usize) {
        self.known.set(at, bytes);
    }

    /// Does what [`Self::mark`] does, for any number of bytes.
    #[inline(always)]
    pub fn cover(&mut self, at: usize, bytes: usize) {
        self.known.cover(at, bytes);
    }

    /// Notes that some bytes of a store are undefined.
    pub fn leave(&mut self, at: usize, (missing, origin): Missing) {
        for n in (0..32).filter(|n| missing >> n & 1 == 1) {
            self.known.unset(at + n);
            self.origins.insert(at + n, origin);
        }
    }

    /// Notes that a byte has no value any more.
    pub fn forget(&mut self, at: usize) {
        self.known.unset(at);
    }

    /// Forgets origins when a launch begins, because they name instructions of an earlier kernel.
    pub fn forget_origins(&mut self) {
        self.origins.clear();
    }
}

/// The bytes that something wrote, a bit for each.
#[derive(Clone, Debug)]
pub struct Known {
    pub(super) bits: Vec<u64>,
    /// True if nothing is missing, so that no bit has to be looked at.
    pub(super) all: bool,
}

/// Calls `each` for each word that holds bits of a stretch, with a mask of these bits.
#[inline(always)]
fn words(offset: usize, bytes: usize, mut each: impl FnMut(usize, u64)) {
    let (mut at, end) = (offset, offset + bytes);
    while at < end {
        let here = (64 - at % 64).min(end - at);
        each(at / 64, (u64::MAX >> (64 - here)) << (at % 64));
        at += here;
    }
}

impl Known {
    pub(super) fn none(bytes: usize) -> Known {
        Known {
            bits: vec![0; bytes.div_ceil(64)],
            all: bytes == 0,
        }
    }

    /// Returns the word and the bits of a stretch of at most 16 bytes that crosses no multiple of 16.
    #[inline(always)]
    fn bits_of(offset: usize, bytes: usize) -> (usize, u64) {
        (offset / 64, ((1_u64 << bytes) - 1) << (offset % 64))
    }

    /// Notes that some bytes have values now. A stretch within 16 bytes is quick.
    #[inline(always)]
    pub(super) fn set(&mut self, offset: usize, bytes: usize) {
        if self.all {
            return;
        }
        if offset % 16 + bytes <= 16 {
            let (word, bits) = Self::bits_of(offset, bytes);
            self.bits[word] |= bits;
        } else {
            (offset..offset + bytes).for_each(|i| self.bits[i / 64] |= 1 << (i % 64));
        }
    }

    /// Notes that a byte has no value any more.
    pub(super) fn unset(&mut self, offset: usize) {
        if self.all {
            (self.all, _) = (false, self.bits.fill(u64::MAX));
        }
        self.put(offset, false);
    }

    fn put(&mut self, offset: usize, known: bool) {
        if !self.all {
            let bit = 1 << (offset % 64);
            let word = &mut self.bits[offset / 64];
            *word = if known { *word | bit } else { *word & !bit };
        }
    }

    /// Returns true if all of a stretch has values; `bytes` may be any number.
    #[inline(always)]
    pub(super) fn holds(&self, offset: usize, bytes: usize) -> bool {
        let mut there = true;
        if !self.all {
            words(offset, bytes, |word, bits| {
                there &= self.bits[word] & bits == bits
            });
        }
        there
    }

    /// Notes that all of a stretch has values now; `bytes` may be any number.
    #[inline(always)]
    pub(super) fn cover(&mut self, offset: usize, bytes: usize) {
        if !self.all {
            words(offset, bytes, |word, bits| self.bits[word] |= bits);
        }
    }

    /// Returns the offset of the first byte without a value.
    #[inline(always)]
    pub(super) fn missing(&self, offset: usize, bytes: usize) -> Option<usize> {
        if self.all {
            return None;
        }
        if offset % 16 + bytes <= 16 {
            let (word, bits) = Self::bits_of(offset, bytes);
            if self.bits[word] & bits == bits {
                return None;
            }
        }
        (offset..offset + bytes).find(|&i| self.bits[i / 64] >> (i % 64) & 1 == 0)
    }

    /// Notes that some of `total` bytes have values now.
    pub(super) fn set_range(&mut self, offset: usize, bytes: usize, total: usize) {
        if offset == 0 && bytes == total {
            self.all = true;
        } else {
            (offset..offset + bytes).for_each(|i| self.set(i, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_without_a_value() {
        let mut k = Known::none(100);
        assert_eq!(k.missing(3, 2), Some(3));
        k.set(3, 2);
        assert_eq!((k.missing(3, 2), k.missing(3, 3)), (None, Some(5)));
        k.set(60, 8);
        assert_eq!((k.missing(60, 8), k.missing(56, 8)), (None, Some(56)));
        k.set_range(0, 100, 100);
        assert!(k.all);
    }

    #[test]
    fn stretches_of_values() {
        for (offset, bytes) in [
            (0, 1),
            (3, 61),
            (3, 62),
            (63, 2),
            (64, 64),
            (1, 300),
            (10, 0),
        ] {
            let (mut one, mut other) = (Known::none(400), Known::none(400));
            one.cover(offset, bytes);
            (offset..offset + bytes).for_each(|i| other.set(i, 1));
            assert_eq!(one.bits, other.bits);
            assert!(one.holds(offset, bytes) && one.missing(offset, bytes).is_none());
            assert!(!one.holds(offset, bytes + 1));
            assert!(offset == 0 || !one.holds(offset - 1, bytes + 1));
        }
    }
}
