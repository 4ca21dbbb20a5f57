//! Turns the driver's error codes into failures of a case, of the process, or of the machine.

use crate::device::{Failure, Result};
use cudarc::driver::sys::{self, CUresult};
use model::{Fault, FaultKind};
use std::ffi::CStr;

/// Returns a text such as `CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered`.
pub fn describe(code: CUresult) -> String {
    let text = |get: unsafe fn(CUresult, *mut *const std::ffi::c_char) -> CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: the driver answers with a static string, or leaves null.
        unsafe {
            let known = get(code, &raw mut text) == CUresult::CUDA_SUCCESS && !text.is_null();
            known.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    };
    let name = text(sys::cuGetErrorName).unwrap_or_else(|| "unknown error".to_owned());
    let meaning = text(sys::cuGetErrorString).unwrap_or_default();
    format!("{name} ({}): {meaning}", code as u32)
}

/// Returns the fault that the process has after this error of queued device work, or `None` if the process can go on.
fn sticky(code: CUresult) -> Option<FaultKind> {
    use CUresult as E;
    match code {
        E::CUDA_ERROR_ILLEGAL_ADDRESS
        | E::CUDA_ERROR_LAUNCH_TIMEOUT
        | E::CUDA_ERROR_ASSERT
        | E::CUDA_ERROR_HARDWARE_STACK_ERROR
        | E::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | E::CUDA_ERROR_MISALIGNED_ADDRESS
        | E::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | E::CUDA_ERROR_INVALID_PC
        | E::CUDA_ERROR_LAUNCH_FAILED
        | E::CUDA_ERROR_CONTAINED
        | E::CUDA_ERROR_TENSOR_MEMORY_LEAK
        | E::CUDA_ERROR_CONTEXT_IS_DESTROYED
        | E::CUDA_ERROR_UNKNOWN => Some(FaultKind::DeviceFault),
        E::CUDA_ERROR_ECC_UNCORRECTABLE
        | E::CUDA_ERROR_NVLINK_UNCORRECTABLE
        | E::CUDA_ERROR_DEVICE_UNAVAILABLE
        | E::CUDA_ERROR_NO_DEVICE
        | E::CUDA_ERROR_NOT_INITIALIZED
        | E::CUDA_ERROR_DEINITIALIZED
        | E::CUDA_ERROR_INVALID_CONTEXT
        | E::CUDA_ERROR_SYSTEM_NOT_READY
        | E::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        | E::CUDA_ERROR_OPERATING_SYSTEM => Some(FaultKind::Environment),
        _ => None,
    }
}

/// Returns the failure for `code` as the answer to `what`. `otherwise` is the fault of an error that says nothing about
/// the device's state.
pub fn failure(what: &str, code: CUresult, otherwise: FaultKind) -> Failure {
    let kind = sticky(code);
    Failure::Fault {
        fault: Fault::new(
            kind.unwrap_or(otherwise),
            format!("{what}: {}", describe(code)),
        ),
        sticky: kind.is_some(),
    }
}

/// Checks a call that fails only if the device or its driver does.
pub fn check(what: &str, code: CUresult) -> Result<()> {
    checked(what, code, FaultKind::Environment)
}

/// Checks a call whose refusal is about the kernel.
pub fn checked(what: &str, code: CUresult, otherwise: FaultKind) -> Result<()> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(failure(what, code, otherwise)),
    }
}
