//! Follows the addresses that the program reserves, and the memory that it maps there itself (cuMemAddressReserve,
//! cuMemMap).

use crate::driver::Address;
use std::collections::BTreeMap;
use std::ffi::c_int;

#[derive(Default)]
pub struct Mappings {
    /// Memory that the program made on a device and that has no address of its own, by handle.
    memory: BTreeMap<u64, c_int>,
    /// The size and the device of each range that it reserved in our range.
    reserved: BTreeMap<Address, (u64, c_int)>,
    mapped: BTreeMap<Address, Mapped>,
    /// The number of addresses at which a handle's memory is mapped.
    uses: BTreeMap<u64, u32>,
}

struct Mapped {
    bytes: u64,
    handle: u64,
    /// The device, or `None` for memory that was imported or is not the device's own.
    ordinal: Option<c_int>,
}

impl Mappings {
    /// Remembers memory that the program made on the device `ordinal`, by its handle.
    pub fn create(&mut self, handle: u64, ordinal: c_int) {
        self.memory.insert(handle, ordinal);
    }

    /// Forgets memory by its handle. Pieces of it that are still mapped stay.
    pub fn release(&mut self, handle: u64) {
        self.memory.remove(&handle);
    }

    /// Remembers addresses that were reserved for the device `ordinal`.
    pub fn reserve(&mut self, address: Address, bytes: u64, ordinal: c_int) {
        self.reserved.insert(address, (bytes, ordinal));
    }

    /// Forgets addresses that were reserved in our range. Returns `None` for other addresses, and an error if another
    /// size was reserved or memory is still mapped there.
    pub fn give_up(&mut self, address: Address, bytes: u64) -> Option<Result<c_int, NotFree>> {
        let (reserved, ordinal) = *self.reserved.get(&address)?;
        let mut inside = self.mapped.range(address..address + reserved);
        if reserved != bytes || inside.next().is_some() {
            return Some(Err(NotFree));
        }
        self.reserved.remove(&address);
        Some(Ok(ordinal))
    }

    /// Remembers that memory was mapped to reserved addresses. Other addresses are ignored. The piece has a device
    /// only if it was reserved for the device on which the memory was made.
    pub fn map(&mut self, address: Address, bytes: u64, handle: u64) {
        let reserved = self.reserved_around(address);
        let Some((_, _, reserved_on)) = reserved else {
            return;
        };
        let made_on = self.memory.get(&handle).copied();
        let mapped = Mapped {
            bytes,
            handle,
            ordinal: made_on.filter(|memory| *memory == reserved_on),
        };
        self.mapped.insert(address, mapped);
        *self.uses.entry(handle).or_default() += 1;
    }

    /// Forgets all pieces that begin in a range of addresses.
    pub fn unmap(&mut self, address: Address, bytes: u64) {
        let end = address.saturating_add(bytes);
        let gone: Vec<Address> = self.mapped.range(address..end).map(|(at, _)| *at).collect();
        for at in gone {
            let piece = self.mapped.remove(&at);
            if let Some(uses) = piece.and_then(|piece| self.uses.get_mut(&piece.handle)) {
                *uses -= 1;
            }
        }
    }

    /// Returns the start and the size of the memory without a gap around an address, within what was reserved together.
    /// A tensor may cover several pieces that the program mapped one by one, so a replay must be able to place all of
    /// them.
    pub fn around(&self, address: Address) -> Option<(Address, u64)> {
        let (start, bytes, _) = self.reserved_around(address)?;
        let (&first, piece) = self.mapped.range(start..=address).next_back()?;
        let (mut first, mut end) = (first, first + piece.bytes);
        if end <= address {
            return None;
        }
        let mut can_be_placed = self.can_be_placed(piece);
        for (&at, piece) in self.mapped.range(start..first).rev() {
            if at + piece.bytes != first {
                break;
            }
            first = at;
            can_be_placed &= self.can_be_placed(piece);
        }
        for (&at, piece) in self.mapped.range(end..start + bytes) {
            if at != end {
                break;
            }
            end += piece.bytes;
            can_be_placed &= self.can_be_placed(piece);
        }
        can_be_placed.then_some((first, end - first))
    }

    fn reserved_around(&self, address: Address) -> Option<(Address, u64, c_int)> {
        let (&start, &(bytes, ordinal)) = self.reserved.range(..=address).next_back()?;
        (address - start < bytes).then_some((start, bytes, ordinal))
    }

    /// Returns true if a replay can place this piece. Memory that is mapped at two addresses would become two memories
    /// there.
    fn can_be_placed(&self, piece: &Mapped) -> bool {
        piece.ordinal.is_some() && self.uses.get(&piece.handle) == Some(&1)
    }
}

/// The error for addresses that still have memory, or that are not all that was reserved.
pub struct NotFree;

#[cfg(test)]
mod tests {
    use super::Mappings;

    /// Returns ten reserved bytes at 100, with pieces mapped at 100, 102, and behind a gap at 108.
    fn mappings() -> Mappings {
        let mut mappings = Mappings::default();
        mappings.reserve(100, 10, 0);
        for (handle, address) in [(1, 100), (2, 102), (3, 108)] {
            mappings.create(handle, 0);
            mappings.map(address, 2, handle);
        }
        mappings
    }

    #[test]
    fn pieces_without_a_gap_are_one() {
        let mappings = mappings();
        for (address, around) in [
            (99, None),
            (100, Some((100, 4))),
            (103, Some((100, 4))),
            (104, None),
            (107, None),
            (108, Some((108, 2))),
            (110, None),
        ] {
            assert_eq!(mappings.around(address), around, "{address}");
        }
    }

    #[test]
    fn memory_that_a_replay_cannot_have_is_not_placed() {
        let mut mappings = mappings();
        // This piece is imported, mapped at two addresses, and on another device. A tensor may reach into it from the
        // piece before.
        mappings.create(4, 1);
        for handle in [9, 2, 4] {
            mappings.map(104, 2, handle);
            for address in [101, 104] {
                assert_eq!(mappings.around(address), None, "{handle} {address}");
            }
            assert_eq!(mappings.around(108), Some((108, 2)));
            mappings.unmap(104, 2);
            assert_eq!(mappings.around(101), Some((100, 4)));
        }
    }

    #[test]
    fn addresses_are_given_up_whole_and_empty() {
        let mut mappings = mappings();
        assert!(mappings.give_up(200, 10).is_none());
        assert!(
            mappings
                .give_up(100, 10)
                .is_some_and(|result| result.is_err())
        );
        mappings.unmap(100, 10);
        assert!(
            mappings
                .give_up(100, 5)
                .is_some_and(|result| result.is_err())
        );
        assert!(
            mappings
                .give_up(100, 10)
                .is_some_and(|result| result.is_ok())
        );
        assert_eq!(mappings.around(100), None);
    }
}
