//! Places memory at the addresses that a captured program had. Its allocations shared pages, and they share them here,
//! too.

use super::error::check;
use crate::device::{Address, Failure, Result};
use capture::addresses::{PAGE, RANGE, range_around};
use cudarc::driver::sys;
use model::{FaultKind, Unsupported};

/// Ranges that are kept, and mapped runs of pages with their bytes.
#[derive(Default)]
pub struct PlacedPages {
    ranges: Vec<Address>,
    runs: Vec<(Address, usize)>,
}

impl PlacedPages {
    /// Maps the pages of these bytes that are not mapped yet.
    pub fn add(&mut self, device: u32, at: Address, bytes: usize) -> Result<()> {
        let start = at / PAGE * PAGE;
        let end = (at + bytes.max(1) as Address).next_multiple_of(PAGE);
        self.reserve(start)?;
        let mut page = start;
        while page < end {
            if self.has(page) {
                page += PAGE;
                continue;
            }
            let first = page;
            while page < end && !self.has(page) {
                page += PAGE;
            }
            self.map(device, first, (page - first) as usize)?;
        }
        Ok(())
    }

    fn has(&self, page: Address) -> bool {
        self.runs
            .iter()
            .any(|&(start, bytes)| (start..start + bytes as Address).contains(&page))
    }

    /// Reserves the whole range around an address, because the driver does not give a small range at the address that
    /// is wanted.
    fn reserve(&mut self, at: Address) -> Result<()> {
        let taken = || {
            let message = format!(
                "captured memory has to lie at {at:#x}, and this process has something else there: run it again"
            );
            Failure::case_alone(FaultKind::Environment, message)
        };
        let range = range_around(at).ok_or_else(taken)?;
        if self.ranges.contains(&range) {
            return Ok(());
        }
        let mut found = 0;
        // SAFETY: the driver writes one address.
        check("cuMemAddressReserve", unsafe {
            sys::cuMemAddressReserve(&raw mut found, RANGE as usize, 0, range, 0)
        })?;
        if found != range {
            // SAFETY: reserved right before, and not used.
            unsafe { sys::cuMemAddressFree(found, RANGE as usize) };
            return Err(taken());
        }
        self.ranges.push(range);
        Ok(())
    }

    fn map(&mut self, device: u32, wanted: Address, bytes: usize) -> Result<()> {
        let location = sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: device.cast_signed(),
        };
        let properties = sys::CUmemAllocationProp {
            type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location,
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        };
        let access = sys::CUmemAccessDesc {
            location,
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let mut handle = 0;
        // SAFETY: the properties live until the call returns.
        match unsafe { sys::cuMemCreate(&raw mut handle, bytes, &raw const properties, 0) } {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                return Err(Failure::Unsupported(Unsupported::OutOfMemory {
                    problem: format!("{bytes} bytes more were needed at {wanted:#x}"),
                }));
            }
            code => check("cuMemCreate", code)?,
        }
        // SAFETY: reserved above, and the memory has as many bytes.
        let mapped = unsafe { sys::cuMemMap(wanted, bytes, 0, handle, 0) };
        // SAFETY: created above; once mapped it lives as long as its address.
        unsafe { sys::cuMemRelease(handle) };
        check("cuMemMap", mapped)?;
        self.runs.push((wanted, bytes));
        // SAFETY: mapped right before.
        check("cuMemSetAccess", unsafe {
            sys::cuMemSetAccess(wanted, bytes, &raw const access, 1)
        })
    }

    pub fn free(&mut self) -> Result<()> {
        for (start, bytes) in self.runs.drain(..) {
            // SAFETY: mapped by `map`, once.
            check("cuMemUnmap", unsafe { sys::cuMemUnmap(start, bytes) })?;
        }
        for range in self.ranges.drain(..) {
            // SAFETY: kept by `reserve`, with nothing mapped any more.
            check("cuMemAddressFree", unsafe {
                sys::cuMemAddressFree(range, RANGE as usize)
            })?;
        }
        Ok(())
    }
}
