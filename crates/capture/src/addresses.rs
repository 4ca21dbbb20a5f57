//! Says at which addresses the memory of a captured program is placed.
//!
//! The driver's own allocations do not get their old address in another process. A large range that is reserved does:
//! these addresses came back in every process that was tried on an H200 and an H100 (driver 580), also with torch
//! loaded. Small ranges did not.

/// The start of the range of device 0. The ranges of further devices follow it.
pub const FIRST: u64 = 0x2000_0000_0000;

/// The bytes of the range of a device. PyTorch reserves more than the GPU has for each of its pools, so the range is
/// large. That costs no time (2^38 to 2^45 bytes in at most 0.02 ms on an H100, driver 580). The ranges of eight
/// devices end at 0x4000_0000_0000, before the addresses that Linux gives to programs.
pub const RANGE: u64 = 4 << 40;

/// Pages of device memory, in bytes (cuMemGetAllocationGranularity).
pub const PAGE: u64 = 2 << 20;

/// Returns the range of a device, or `None` if there are no such addresses.
pub fn range(ordinal: u64) -> Option<u64> {
    FIRST.checked_add(RANGE.checked_mul(ordinal)?)
}

/// Returns the start of the range that contains an address.
pub fn range_around(address: u64) -> Option<u64> {
    range(ordinal_of(address)?)
}

/// Returns the device whose range contains an address.
pub fn ordinal_of(address: u64) -> Option<u64> {
    Some(address.checked_sub(FIRST)? / RANGE)
}
