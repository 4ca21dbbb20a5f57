//! Finds the C library's `dlsym`, and with it the driver's functions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, symbol: *const c_char, version: *const c_char) -> *mut c_void;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
}

/// The values of RTLD_NEXT and RTLD_LAZY in dlfcn.h.
const NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);
const LAZY: c_int = 1;

/// The versions under which glibc has `dlsym`: on x86-64, on aarch64, and on both since 2.34.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.2.5", c"GLIBC_2.17", c"GLIBC_2.34"];

pub static REAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Returns the C library's own `dlsym`, which is kept in `REAL`.
pub fn find_real() -> *mut c_void {
    let known = REAL.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let found = VERSIONS.iter().find_map(|version| {
        // SAFETY: both names end with a NUL.
        let found = unsafe { dlvsym(NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        (!found.is_null()).then_some(found)
    });
    let found = found.unwrap_or(ptr::null_mut());
    REAL.store(found, Ordering::Relaxed);
    found
}

/// Returns the driver's function with this name, and never one of ours.
pub fn driver_function(name: &CStr) -> Option<*mut c_void> {
    static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let mut library = LIBRARY.load(Ordering::Relaxed);
    if library.is_null() {
        // SAFETY: the name ends with a NUL. The program under capture loads the same library.
        library = unsafe { dlopen(c"libcuda.so.1".as_ptr(), LAZY) };
        LIBRARY.store(library, Ordering::Relaxed);
    }
    let real = find_real();
    if library.is_null() || real.is_null() {
        return None;
    }
    // SAFETY: the C library's `dlsym` has this type.
    let real: Dlsym = unsafe { std::mem::transmute(real) };
    // SAFETY: an open library and a C string.
    let found = unsafe { real(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
