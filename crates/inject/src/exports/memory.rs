//! Exports the driver's functions for memory.

use crate::call::{is_recorded, name_stream};
use crate::driver::{
    Address, CuResult, DEVICE, Handle, PINNED, PoolProperties, Properties, SUCCESS, driver,
};
use crate::memory::Unplaced;
use crate::quiet::quietly;
use crate::state::{State, state};
use std::ffi::c_uint;
use std::sync::MutexGuard;

/// Hands the program an address that was placed; `None` if the driver has to do it.
///
/// # Safety
/// Null, or a place for an address.
unsafe fn give(
    placed: Option<Result<Address, Unplaced>>,
    address: *mut Address,
) -> Option<CuResult> {
    match placed? {
        Ok(placed) if !address.is_null() => {
            // SAFETY: as the caller says.
            unsafe { address.write(placed) };
            Some(SUCCESS)
        }
        Err(Unplaced::Refused(code)) => Some(code),
        Ok(_) | Err(Unplaced::Elsewhere) => None,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut Address, bytes: usize) -> CuResult {
    let placed = quietly(|| Some(state()?.memory.allocate(bytes as u64)));
    // SAFETY: the program's own call.
    unsafe { give(placed, address) }
        // SAFETY: the program's own call.
        .unwrap_or_else(|| unsafe { driver().allocate(address, bytes) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocPitch_v2(
    address: *mut Address,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: c_uint,
) -> CuResult {
    /// The pitch that the driver uses on every GPU since sm_50.
    const ALIGNMENT: usize = 512;
    let row = width.next_multiple_of(ALIGNMENT);
    let bytes = row.checked_mul(height);
    let placed = quietly(|| Some(state()?.memory.allocate(bytes? as u64)));
    match placed {
        Some(Ok(placed)) if !address.is_null() && !pitch.is_null() => {
            // SAFETY: the program gives a place for an address and a number.
            unsafe {
                address.write(placed);
                pitch.write(row);
            }
            SUCCESS
        }
        Some(Err(Unplaced::Refused(code))) => code,
        // SAFETY: the program's own call.
        _ => unsafe { driver().allocate_pitch(address, pitch, width, height, element) },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(address: Address) -> CuResult {
    let freed = quietly(|| state()?.memory.free(address));
    // SAFETY: the program's own call.
    freed.unwrap_or_else(|| unsafe { driver().free(address) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAddressRange_v2(
    base: *mut Address,
    bytes: *mut usize,
    address: Address,
) -> CuResult {
    // Allocations that share a page would be reported as one.
    let Some((start, length)) = quietly(|| state()?.memory.allocation_around(address)) else {
        // SAFETY: the program's own call.
        return unsafe { driver().address_range(base, bytes, address) };
    };
    // SAFETY: null, or a place for an address.
    if let Some(base) = unsafe { base.as_mut() } {
        *base = start;
    }
    // SAFETY: null, or a place for a number.
    if let Some(bytes) = unsafe { bytes.as_mut() } {
        *bytes = usize::try_from(length).unwrap_or(usize::MAX);
    }
    SUCCESS
}

/// Returns the state, for a call in the order of a stream, or `None` if the stream is recorded. A graph that is
/// recorded has allocations of its own.
fn state_in(stream: Handle) -> Option<MutexGuard<'static, State>> {
    let state = state()?;
    if state.memory.is_recording() && is_recorded(stream) {
        None
    } else {
        Some(state)
    }
}

// Our memory is there at once, and so it is there when the stream needs it.
macro_rules! in_order {
    ($allocate:ident, $allocate_from:ident, $free:ident, $per_thread:literal) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $allocate(
            address: *mut Address,
            bytes: usize,
            stream: Handle,
        ) -> CuResult {
            let placed = quietly(|| {
                let stream = name_stream(stream, $per_thread);
                let mut state = state_in(stream)?;
                (state.memory.is_current_pool_replaced())
                    .then(|| state.memory.allocate_in(stream, bytes as u64))
            });
            type Function = unsafe extern "C" fn(*mut Address, usize, Handle) -> CuResult;
            // SAFETY: the program's own call.
            unsafe {
                match give(placed, address) {
                    Some(code) => code,
                    None => real!($allocate, Function)(address, bytes, stream),
                }
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $allocate_from(
            address: *mut Address,
            bytes: usize,
            pool: Handle,
            stream: Handle,
        ) -> CuResult {
            let placed = quietly(|| {
                let stream = name_stream(stream, $per_thread);
                let mut state = state_in(stream)?;
                (state.memory.is_replaced(pool))
                    .then(|| state.memory.allocate_in(stream, bytes as u64))
            });
            type Function = unsafe extern "C" fn(*mut Address, usize, Handle, Handle) -> CuResult;
            // SAFETY: the program's own call.
            unsafe {
                match give(placed, address) {
                    Some(code) => code,
                    None => real!($allocate_from, Function)(address, bytes, pool, stream),
                }
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $free(address: Address, stream: Handle) -> CuResult {
            let freed = quietly(|| {
                let stream = name_stream(stream, $per_thread);
                state_in(stream)?.memory.free_in(stream, address)
            });
            type Function = unsafe extern "C" fn(Address, Handle) -> CuResult;
            match freed {
                Some(code) => code,
                // SAFETY: the program's own call.
                None => unsafe { real!($free, Function)(address, stream) },
            }
        }
    };
}

in_order!(
    cuMemAllocAsync,
    cuMemAllocFromPoolAsync,
    cuMemFreeAsync,
    false
);
in_order!(
    cuMemAllocAsync_ptsz,
    cuMemAllocFromPoolAsync_ptsz,
    cuMemFreeAsync_ptsz,
    true
);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolCreate(
    pool: *mut Handle,
    properties: *const PoolProperties,
) -> CuResult {
    type Function = unsafe extern "C" fn(*mut Handle, *const PoolProperties) -> CuResult;
    // SAFETY: the program's own call.
    let code = unsafe { real!(cuMemPoolCreate, Function)(pool, properties) };
    if code == SUCCESS {
        quietly(|| {
            // SAFETY: the driver has read them, and has written the handle.
            let (properties, pool) = unsafe { (properties.as_ref()?, pool.read()) };
            // A pool with handles shares its memory with other processes, so it is not ours to replace.
            let is_plain = properties.kind == PINNED && properties.handle_types == 0;
            if is_plain && properties.location.kind == DEVICE {
                state()?.memory.add_pool(pool, properties.location.id);
            }
            Some(())
        });
    }
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemPoolDestroy(pool: Handle) -> CuResult {
    quietly(|| {
        state()?.memory.remove_pool(pool);
        Some(())
    });
    type Function = unsafe extern "C" fn(Handle) -> CuResult;
    // SAFETY: the program's own call.
    unsafe { real!(cuMemPoolDestroy, Function)(pool) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: Handle) -> CuResult {
    quietly(|| {
        state()?.memory.forget_stream(stream);
        Some(())
    });
    type Function = unsafe extern "C" fn(Handle) -> CuResult;
    // SAFETY: the program's own call.
    unsafe { real!(cuStreamDestroy_v2, Function)(stream) }
}

/// Reserves addresses in our range, unless the program wants certain addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressReserve(
    address: *mut Address,
    bytes: usize,
    alignment: usize,
    wanted: Address,
    flags: u64,
) -> CuResult {
    let is_any = wanted == 0 && flags == 0 && alignment as u64 <= capture::addresses::PAGE;
    let placed = quietly(|| {
        if is_any {
            state()?.memory.reserve(bytes as u64).map(Ok)
        } else {
            None
        }
    });
    // SAFETY: the program's own call.
    unsafe { give(placed, address) }
        // SAFETY: the program's own call.
        .unwrap_or_else(|| unsafe { driver().reserve(address, bytes, alignment, wanted, flags) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressFree(address: Address, bytes: usize) -> CuResult {
    let given_up = quietly(|| state()?.memory.give_up(address, bytes as u64));
    // SAFETY: the program's own call.
    given_up.unwrap_or_else(|| unsafe { driver().release_range(address, bytes) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemCreate(
    handle: *mut u64,
    bytes: usize,
    properties: *const Properties,
    flags: u64,
) -> CuResult {
    // SAFETY: the program's own call.
    let code = unsafe { driver().create(handle, bytes, properties, flags) };
    if code == SUCCESS {
        quietly(|| {
            // SAFETY: the driver has read them, and has written the handle.
            let (location, handle) = unsafe { (properties.as_ref()?.location, handle.read()) };
            if location.kind == DEVICE {
                let mut state = state()?;
                state.memory.mappings.create(handle, location.id);
            }
            Some(())
        });
    }
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemRelease(handle: u64) -> CuResult {
    quietly(|| {
        state()?.memory.mappings.release(handle);
        Some(())
    });
    // SAFETY: the program's own call.
    unsafe { driver().release(handle) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemMap(
    address: Address,
    bytes: usize,
    offset: usize,
    handle: u64,
    flags: u64,
) -> CuResult {
    // SAFETY: the program's own call.
    let code = unsafe { driver().map(address, bytes, offset, handle, flags) };
    if code == SUCCESS {
        quietly(|| {
            let mut state = state()?;
            state.memory.mappings.map(address, bytes as u64, handle);
            Some(())
        });
    }
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemUnmap(address: Address, bytes: usize) -> CuResult {
    // SAFETY: the program's own call.
    let code = unsafe { driver().unmap(address, bytes) };
    if code == SUCCESS {
        quietly(|| {
            state()?.memory.mappings.unmap(address, bytes as u64);
            Some(())
        });
    }
    code
}
