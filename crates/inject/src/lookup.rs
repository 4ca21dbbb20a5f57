//! Replaces `dlsym`, with which libraries look up the driver's functions. The names that this library follows lead
//! here, and all others to the C library.

use crate::symbols::{REAL, find_real};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

/// Returns our function with this name, or null. Called by `dlsym` below.
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

/// Looks a symbol up. It jumps to the C library's `dlsym` and does not call it: `RTLD_NEXT` means the library behind
/// the caller's, and the C library finds the caller by the return address.
///
/// # Safety
/// As for the C library's `dlsym`.
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
