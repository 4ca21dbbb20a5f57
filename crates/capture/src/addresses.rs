//! Where the memory of a captured program lies.
//!
//! Allocations of the driver do not get their old address in another process. A large range that is reserved does: these
//! addresses came back in every process tried on an H200 (driver 580), also with torch loaded. Small ranges did not.

/// The range of device 0; that of each further device lies behind it.
pub const FIRST: u64 = 0x2000_0000_0000;

/// Bytes of the range of a device.
pub const RANGE: u64 = 256 << 30;

/// Pages of device memory, in bytes (cuMemGetAllocationGranularity).
pub const PAGE: u64 = 2 << 20;

/// The range of a device; `None` where there are no such addresses.
pub fn range(ordinal: u64) -> Option<u64> {
    FIRST.checked_add(RANGE.checked_mul(ordinal)?)
}

/// The start of the range that an address lies in.
pub fn range_around(address: u64) -> Option<u64> {
    range(address.checked_sub(FIRST)? / RANGE)
}
