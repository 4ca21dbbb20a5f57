//! Allocations at addresses that a later process can have again.

use crate::driver::{
    Access, Address, CuResult, DEVICE, Handle, Location, OUT_OF_MEMORY, PINNED, Properties,
    READ_WRITE, SUCCESS, driver,
};
use crate::ranges::Ranges;
use capture::addresses::{PAGE, RANGE, range};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;

/// The alignment of small allocations (cudaMalloc: at least 256).
const ALIGNMENT: u64 = 512;
/// Smaller allocations share memory, which is mapped in pieces of this size and kept.
const SMALL: u64 = 1 << 20;
const SHARED: u64 = 32 << 20;

/// Allocations of this process.
#[derive(Default)]
pub struct Memory {
    devices: BTreeMap<c_int, Option<Device>>,
    /// Bytes that were asked for, and by which device they are held, by address.
    allocations: BTreeMap<Address, (u64, c_int)>,
    /// Streams that are recorded into a graph: the GPU must not be waited for meanwhile.
    recorded: BTreeSet<Handle>,
    /// Freed by the program, and not to be used again before the GPU was waited for.
    freed: Vec<(Address, u64, c_int)>,
}

/// The range of a device.
struct Device {
    pages: Ranges,
    small: Ranges,
}

/// The outcome of an allocation that is not placed.
pub enum Unplaced {
    /// The driver has to do it: the addresses are taken, or nothing was asked for.
    Elsewhere,
    /// There is no memory.
    Refused(CuResult),
}

impl Memory {
    /// Whether the range of the current device could not be had.
    pub fn is_taken(&self) -> bool {
        self.devices.values().any(Option::is_none)
    }

    /// # Errors
    /// Allocations that capture does not place.
    pub fn allocate(&mut self, bytes: u64) -> Result<Address, Unplaced> {
        let mut ordinal = 0;
        // SAFETY: the driver writes one number.
        let code = unsafe { driver().current_device(&raw mut ordinal) };
        if bytes == 0 || code != SUCCESS {
            return Err(Unplaced::Elsewhere);
        }
        let device = self.devices.entry(ordinal);
        let device = device.or_insert_with(|| Device::reserve(ordinal));
        let device = device.as_mut().ok_or(Unplaced::Elsewhere)?;
        let address = match bytes < SMALL {
            true => device.allocate_small(bytes, ordinal),
            false => device.map(bytes.next_multiple_of(PAGE), ordinal),
        };
        let address = address.map_err(Unplaced::Refused)?;
        self.allocations.insert(address, (bytes, ordinal));
        Ok(address)
    }

    pub fn is_recording(&self) -> bool {
        !self.recorded.is_empty()
    }

    pub fn set_recording(&mut self, stream: Handle, is_recorded: bool) {
        match is_recorded {
            true => self.recorded.insert(stream),
            false => self.recorded.remove(&stream),
        };
    }

    /// Whether it was placed here, and is freed now. Waits for work that may use it, as the driver does.
    pub fn free(&mut self, address: Address) -> Option<CuResult> {
        let (bytes, ordinal) = self.allocations.remove(&address)?;
        self.freed.push((address, bytes, ordinal));
        Some(match self.is_recording() {
            true => SUCCESS,
            false => self.give_back(),
        })
    }

    /// Waits for the GPU, and makes room of what was freed.
    fn give_back(&mut self) -> CuResult {
        // SAFETY: asks for nothing but time.
        let code = unsafe { driver().synchronize() };
        for (address, bytes, ordinal) in std::mem::take(&mut self.freed) {
            if let Some(Some(device)) = self.devices.get_mut(&ordinal) {
                device.free(address, bytes);
            }
        }
        code
    }

    /// The allocation around an address: its start and bytes.
    pub fn around(&self, address: Address) -> Option<(Address, u64)> {
        let (&start, &(bytes, _)) = self.allocations.range(..=address).next_back()?;
        (address - start < bytes).then_some((start, bytes))
    }
}

impl Device {
    /// `None` where another has these addresses.
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

    fn allocate_small(&mut self, bytes: u64, ordinal: c_int) -> Result<Address, CuResult> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        if let Some(address) = self.small.take(bytes) {
            return Ok(address);
        }
        let shared = self.map(SHARED, ordinal)?;
        self.small.give(shared, SHARED);
        self.small.take(bytes).ok_or(OUT_OF_MEMORY)
    }

    fn free(&mut self, address: Address, bytes: u64) {
        match bytes < SMALL {
            true => (self.small).give(address, bytes.next_multiple_of(ALIGNMENT)),
            false => {
                let bytes = bytes.next_multiple_of(PAGE);
                // SAFETY: mapped by `map` with these bytes, and no longer used.
                unsafe { driver().unmap(address, to_usize(bytes)) };
                self.pages.give(address, bytes);
            }
        }
    }

    /// Whole pages.
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
