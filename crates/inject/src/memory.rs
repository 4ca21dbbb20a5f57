//! Allocates memory at addresses that a later process can have again.
//!
//! A large range of addresses is reserved for each device when it first allocates. Small allocations share pieces of
//! memory, and large ones get whole pages of their own. Memory that is freed in the order of a stream is kept for that
//! stream, as the driver does it, until `MOST_IDLE` bytes are kept. Memory that is freed otherwise is used again only
//! after the GPU was waited for.

use crate::driver::{
    Access, Address, CuResult, DEVICE, Handle, INVALID_VALUE, Location, OUT_OF_MEMORY, PER_THREAD,
    PINNED, Properties, READ_WRITE, SUCCESS, driver,
};
use crate::mappings::{Mappings, NotFree};
use crate::ranges::Ranges;
use crate::settled::unsettle;
use capture::addresses::{PAGE, RANGE, ordinal_of, range};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;

/// The alignment of small allocations (cudaMalloc: at least 256).
const ALIGNMENT: u64 = 512;
/// Allocations of at most this size share memory, which is mapped in pieces and kept.
const SMALL: u64 = 1 << 20;
const SHARED: u64 = 32 << 20;

/// The most bytes that are kept for a stream to use again: beyond, the GPU is waited for.
const MOST_IDLE: u64 = 1 << 30;

/// All allocations of this process, by address.
#[derive(Default)]
pub struct Memory {
    devices: BTreeMap<c_int, Option<Device>>,
    /// The bytes of each allocation and the device that holds it, by address.
    allocations: BTreeMap<Address, (u64, c_int)>,
    pub mappings: Mappings,
    /// The program's pools, and the device on which each allocates.
    pools: BTreeMap<usize, c_int>,
    /// Streams that are recorded into a graph. While there are any, nothing may wait for the GPU.
    recorded: BTreeSet<Handle>,
    /// Memory that was freed in the order of a stream, and that this stream may have again: by device, stream and size.
    cached: BTreeMap<(c_int, Handle, u64), Vec<Address>>,
    /// Memory that the program freed, and that may be used again only after the GPU was waited for: address, size,
    /// device.
    freed: Vec<(Address, u64, c_int)>,
    /// The number of bytes in `cached` and `freed`.
    idle: u64,
}

/// The free addresses in the range of a device.
struct Device {
    pages: Ranges,
    small: Ranges,
}

/// The outcome of an allocation that is not placed.
pub enum Unplaced {
    /// The driver has to allocate: the addresses are taken, or the request was for nothing.
    Elsewhere,
    /// There is not enough memory for it.
    Refused(CuResult),
}

/// Returns the bytes that an allocation takes.
fn size_of(bytes: u64) -> u64 {
    match bytes.next_multiple_of(ALIGNMENT) {
        small @ ..=SMALL => small,
        large => large.next_multiple_of(PAGE),
    }
}

impl Memory {
    /// Returns true if the range of the current device could not be reserved.
    pub fn is_taken(&self) -> bool {
        self.devices.values().any(Option::is_none)
    }

    /// Allocates memory.
    ///
    /// # Errors
    /// Returns `Unplaced` for an allocation that capture does not place.
    pub fn allocate(&mut self, bytes: u64) -> Result<Address, Unplaced> {
        let ordinal = current_device().ok_or(Unplaced::Elsewhere)?;
        if bytes == 0 || bytes > RANGE {
            return Err(Unplaced::Elsewhere);
        }
        let size = size_of(bytes);
        let mut address = self.device(ordinal)?.allocate(size, ordinal);
        if address == Err(OUT_OF_MEMORY) && self.idle > 0 && !self.is_recording() {
            self.give_back(true);
            address = self.device(ordinal)?.allocate(size, ordinal);
        }
        let address = address.map_err(Unplaced::Refused)?;
        self.allocations.insert(address, (bytes, ordinal));
        Ok(address)
    }

    /// Allocates memory in the order of a stream, which may at once reuse memory that it freed before.
    ///
    /// # Errors
    /// Returns `Unplaced` for an allocation that capture does not place.
    pub fn allocate_in(&mut self, stream: Handle, bytes: u64) -> Result<Address, Unplaced> {
        let ordinal = current_device().ok_or(Unplaced::Elsewhere)?;
        let key = (ordinal, stream, size_of(bytes));
        let Some(address) = self.cached.get_mut(&key).and_then(Vec::pop) else {
            return self.allocate(bytes);
        };
        self.idle -= key.2;
        self.allocations.insert(address, (bytes, ordinal));
        Ok(address)
    }

    /// Returns the range of a device, which is reserved at the first call.
    fn device(&mut self, ordinal: c_int) -> Result<&mut Device, Unplaced> {
        let device = self.devices.entry(ordinal);
        let device = device.or_insert_with(|| Device::reserve(ordinal));
        device.as_mut().ok_or(Unplaced::Elsewhere)
    }

    /// Reserves addresses for the program, without memory.
    pub fn reserve(&mut self, bytes: u64) -> Option<Address> {
        let ordinal = current_device()?;
        if bytes == 0 || !bytes.is_multiple_of(PAGE) {
            return None;
        }
        let address = self.device(ordinal).ok()?.pages.take(bytes)?;
        self.mappings.reserve(address, bytes, ordinal);
        Some(address)
    }

    /// Releases addresses that were reserved here, or returns `None` if they were not.
    pub fn give_up(&mut self, address: Address, bytes: u64) -> Option<CuResult> {
        Some(match self.mappings.give_up(address, bytes)? {
            Ok(ordinal) => {
                if let Some(Some(device)) = self.devices.get_mut(&ordinal) {
                    device.pages.give(address, bytes);
                }
                SUCCESS
            }
            Err(NotFree) => INVALID_VALUE,
        })
    }

    pub fn add_pool(&mut self, pool: Handle, ordinal: c_int) {
        self.pools.insert(pool.addr(), ordinal);
    }

    pub fn remove_pool(&mut self, pool: Handle) {
        self.pools.remove(&pool.addr());
    }

    /// Returns true if a pool gives memory of the current device and can be replaced by ours.
    pub fn is_replaced(&self, pool: Handle) -> bool {
        let Some(ordinal) = current_device() else {
            return false;
        };
        let mut default = std::ptr::null_mut();
        // SAFETY: the driver writes a handle.
        let code = unsafe { driver().default_pool(&raw mut default, ordinal) };
        (code == SUCCESS && default == pool) || self.pools.get(&pool.addr()) == Some(&ordinal)
    }

    /// Returns true if allocations without the name of a pool can be replaced by ours.
    pub fn is_current_pool_replaced(&self) -> bool {
        let mut pool = std::ptr::null_mut();
        let code = current_device().map(|ordinal| {
            // SAFETY: the driver writes a handle.
            unsafe { driver().current_pool(&raw mut pool, ordinal) }
        });
        code == Some(SUCCESS) && self.is_replaced(pool)
    }

    pub fn is_recording(&self) -> bool {
        !self.recorded.is_empty()
    }

    pub fn set_recording(&mut self, stream: Handle, is_recorded: bool) {
        if is_recorded {
            self.recorded.insert(stream)
        } else {
            self.recorded.remove(&stream)
        };
        unsettle();
    }

    /// Forgets a stream that is destroyed. Its handle may soon be another stream's.
    pub fn forget_stream(&mut self, stream: Handle) {
        self.recorded.remove(&stream);
        for (&(ordinal, of, size), addresses) in &mut self.cached {
            if of == stream {
                (self.freed).extend(addresses.drain(..).map(|address| (address, size, ordinal)));
            }
        }
    }

    /// Frees memory that was placed here, or returns `None` if it was not. Waits for work that may use the memory, as
    /// the driver does, unless a stream is recorded into a graph.
    pub fn free(&mut self, address: Address) -> Option<CuResult> {
        let (bytes, ordinal) = self.allocations.remove(&address)?;
        let size = size_of(bytes);
        self.freed.push((address, size, ordinal));
        self.idle += size;
        Some(if self.is_recording() {
            SUCCESS
        } else {
            self.give_back(false)
        })
    }

    /// Frees memory that was placed here in the order of a stream, or returns `None` if it was not placed here.
    pub fn free_in(&mut self, stream: Handle, address: Address) -> Option<CuResult> {
        let (bytes, ordinal) = self.allocations.remove(&address)?;
        let size = size_of(bytes);
        self.idle += size;
        // In each thread, this name means another stream.
        if stream.addr() == PER_THREAD {
            self.freed.push((address, size, ordinal))
        } else {
            let cached = self.cached.entry((ordinal, stream, size)).or_default();
            cached.push(address);
        }
        Some(if self.idle > MOST_IDLE && !self.is_recording() {
            self.give_back(true)
        } else {
            SUCCESS
        })
    }

    /// Waits for the GPU, and makes the freed memory available again.
    fn give_back(&mut self, also_cached: bool) -> CuResult {
        // SAFETY: asks for nothing but time.
        let code = unsafe { driver().synchronize() };
        let mut freed = std::mem::take(&mut self.freed);
        if also_cached {
            for ((ordinal, _, size), addresses) in std::mem::take(&mut self.cached) {
                freed.extend(
                    addresses
                        .into_iter()
                        .map(|address| (address, size, ordinal)),
                );
            }
        }
        for (address, size, ordinal) in freed {
            self.idle -= size;
            if let Some(Some(device)) = self.devices.get_mut(&ordinal) {
                device.free(address, size);
            }
        }
        code
    }

    /// Returns the allocation that contains an address: its start and its size in bytes.
    pub fn allocation_around(&self, address: Address) -> Option<(Address, u64)> {
        let (&start, &(bytes, _)) = self.allocations.range(..=address).next_back()?;
        (address - start < bytes).then_some((start, bytes))
    }

    /// Returns the memory around an address: an allocation, or memory that the program mapped itself.
    pub fn around(&self, address: Address) -> Option<(Address, u64)> {
        // Most words are not addresses at all.
        let ordinal = c_int::try_from(ordinal_of(address)?).ok()?;
        self.devices.get(&ordinal)?;
        let allocation = self.allocation_around(address);
        allocation.or_else(|| self.mappings.around(address))
    }
}

/// Returns the ordinal of the current device.
pub fn current_device() -> Option<c_int> {
    let mut ordinal = 0;
    // SAFETY: the driver writes one number.
    let code = unsafe { driver().current_device(&raw mut ordinal) };
    (code == SUCCESS).then_some(ordinal)
}

impl Device {
    /// Reserves the range of a device. Returns `None` if something else has these addresses.
    fn reserve(ordinal: c_int) -> Option<Self> {
        let wanted = range(u64::try_from(ordinal).ok()?)?;
        let mut found = 0;
        let bytes = to_usize(RANGE);
        // SAFETY: the driver writes one address.
        let code = unsafe { driver().reserve(&raw mut found, bytes, 0, wanted, 0) };
        if code != SUCCESS {
            return None;
        }
        if found != wanted {
            // SAFETY: reserved right before, and not used.
            unsafe { driver().release_range(found, bytes) };
            return None;
        }
        let mut pages = Ranges::default();
        pages.give(wanted, RANGE);
        Some(Self {
            pages,
            small: Ranges::default(),
        })
    }

    fn allocate(&mut self, size: u64, ordinal: c_int) -> Result<Address, CuResult> {
        if size > SMALL {
            return self.map(size, ordinal);
        }
        if let Some(address) = self.small.take(size) {
            return Ok(address);
        }
        // A GPU that is nearly full may still have a page.
        let shared = match self.map(SHARED, ordinal) {
            Err(OUT_OF_MEMORY) => (self.map(PAGE, ordinal)?, PAGE),
            shared => (shared?, SHARED),
        };
        self.small.give(shared.0, shared.1);
        self.small.take(size).ok_or(OUT_OF_MEMORY)
    }

    fn free(&mut self, address: Address, size: u64) {
        if size <= SMALL {
            self.small.give(address, size);
            return;
        }
        // SAFETY: mapped by `map` with these bytes, and no longer used.
        unsafe { driver().unmap(address, to_usize(size)) };
        self.pages.give(address, size);
    }

    /// Maps whole pages at free addresses.
    fn map(&mut self, bytes: u64, ordinal: c_int) -> Result<Address, CuResult> {
        let address = self.pages.take(bytes).ok_or(OUT_OF_MEMORY)?;
        let mapped = map_at(address, bytes, ordinal);
        if mapped.is_err() {
            self.pages.give(address, bytes);
        }
        mapped.map(|()| address)
    }
}

fn map_at(address: Address, bytes: u64, ordinal: c_int) -> Result<(), CuResult> {
    let location = Location {
        kind: DEVICE,
        id: ordinal,
    };
    let properties = Properties {
        kind: PINNED,
        handle_types: 0,
        location,
        win32: std::ptr::null_mut(),
        flags: [0; 8],
    };
    let access = Access {
        location,
        flags: READ_WRITE,
    };
    let bytes = to_usize(bytes);
    let mut handle = 0;
    let done = |code| match code {
        SUCCESS => Ok(()),
        code => Err(code),
    };
    // SAFETY: the properties live until the call returns.
    done(unsafe { driver().create(&raw mut handle, bytes, &raw const properties, 0) })?;
    // SAFETY: these addresses are reserved and free, and the memory has as many bytes.
    let mapped = done(unsafe { driver().map(address, bytes, 0, handle, 0) });
    // SAFETY: created above. Once mapped, it lives as long as its address.
    unsafe { driver().release(handle) };
    mapped?;
    // SAFETY: mapped right before.
    let accessible = done(unsafe { driver().set_access(address, bytes, &raw const access, 1) });
    if accessible.is_err() {
        // SAFETY: mapped above, and not used.
        unsafe { driver().unmap(address, bytes) };
    }
    accessible
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
