//! Keeps the regions that the program marks. `gatekeeper.region` of the Python package calls these functions.
//!
//! A region holds for the whole process, because libraries launch from threads of their own.

use crate::settled::unsettle;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, PoisonError};

static OPEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the names of the open regions, from the outermost to the innermost.
pub fn list_open() -> Vec<String> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Opens a region.
///
/// # Safety
/// `name` must be a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn gatekeeper_region_begin(name: *const c_char) {
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.push(name.into_owned());
    unsettle();
}

/// Ends the region of this name that began last. Threads may end their regions in any order.
///
/// # Safety
/// `name` must be a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn gatekeeper_region_end(name: *const c_char) {
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(last) = open.iter().rposition(|region| **region == *name) {
        open.remove(last);
        unsettle();
    }
}
