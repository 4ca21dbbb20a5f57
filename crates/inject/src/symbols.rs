//! `dlsym`, which libraries ask for the driver's functions. The names that are followed lead here, and all others to the
//! C library.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, symbol: *const c_char, version: *const c_char) -> *mut c_void;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
}

/// dlfcn.h: RTLD_NEXT, RTLD_LAZY.
const NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);
const LAZY: c_int = 1;

/// The versions under which glibc has `dlsym`: of x86-64, of aarch64, and since 2.34 of both.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.2.5", c"GLIBC_2.17", c"GLIBC_2.34"];

static REAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The C library's own `dlsym`.
extern "C" fn find_real() -> *mut c_void {
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

/// The function of ours under this name, or null. Called by `dlsym` below.
///
/// # Safety
/// `symbol` is null or a C string.
unsafe extern "C" fn find_ours(_handle: *mut c_void, symbol: *const c_char) -> *mut c_void {
    find_real();
    if symbol.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the caller of `dlsym` gives a C string.
    let name = unsafe { CStr::from_ptr(symbol) };
    crate::exports::find(name.to_bytes()).unwrap_or(ptr::null_mut())
}

/// A jump, not a call: `RTLD_NEXT` means the library behind the caller's, which the C library knows by the return address.
///
/// # Safety
/// As of the C library's `dlsym`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {ours}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jnz 2f",
        "mov rax, qword ptr [rip + {real}]",
        "jmp rax",
        "2:",
        "ret",
        ours = sym find_ours,
        real = sym REAL,
    )
}

/// The driver's function under this name, and none of ours.
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
