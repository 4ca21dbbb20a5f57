//! Provides gatekeeper's own kernels, which the driver compiles: a kernel that spins by a clock, and a known-good
//! kernel.

use super::error::{check, describe};
use crate::device::{Address, Failure, Result};
use cudarc::driver::sys::{self, CUresult};
use model::Unsupported;
use std::ffi::CStr;
use std::ptr::null_mut;

const PTX: &CStr =
    match CStr::from_bytes_with_nul(concat!(include_str!("tools.ptx"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("PTX contains no zero byte"),
    };

const KNOWN_GOOD_THREADS: u32 = 256;
pub const KNOWN_GOOD_BYTES: usize = KNOWN_GOOD_THREADS as usize * 4;

/// Returns the value that the known-good kernel writes at `i`.
pub fn known_good(i: u32) -> u32 {
    i.wrapping_mul(2_654_435_761).wrapping_add(12345)
}

#[derive(Clone, Copy)]
pub struct Tools {
    spin: sys::CUfunction,
    known_good: sys::CUfunction,
}

impl Tools {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Unsupported` if the driver comes without its PTX compiler.
    pub fn load() -> Result<Self> {
        let mut module = null_mut();
        // SAFETY: the text ends with a zero byte.
        match unsafe { sys::cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()) } {
            code @ (CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            | CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED) => {
                Err(Failure::Unsupported(Unsupported::DriverLacks {
                    problem: format!(
                        "the driver cannot compile the PTX that reads the GPU's clock: {}; install \
                     libnvidia-ptxjitcompiler",
                        describe(code)
                    ),
                }))
            }
            code => {
                check("loading gatekeeper's own kernels", code)?;
                let function = |name: &CStr| {
                    let mut function = null_mut();
                    // SAFETY: the module was just loaded and is never unloaded.
                    check("cuModuleGetFunction", unsafe {
                        sys::cuModuleGetFunction(&raw mut function, module, name.as_ptr())
                    })
                    .map(|()| function)
                };
                Ok(Self {
                    spin: function(c"gatekeeper_spin")?,
                    known_good: function(c"gatekeeper_known_good")?,
                })
            }
        }
    }

    /// Queues a wait of `ns` on the GPU, while the host goes on and queues what is to be timed.
    /// `out`, if not null, gets two u64: clock cycles and ns.
    pub fn spin(self, stream: sys::CUstream, out: Address, ns: u64) -> Result<()> {
        launch_tool(self.spin, 1, &mut [out, ns], stream)
    }

    pub fn known_good(self, stream: sys::CUstream, out: Address) -> Result<()> {
        launch_tool(self.known_good, KNOWN_GOOD_THREADS, &mut [out], stream)
    }
}

fn launch_tool(
    function: sys::CUfunction,
    threads: u32,
    args: &mut [u64],
    stream: sys::CUstream,
) -> Result<()> {
    let mut pointers: Vec<*mut std::ffi::c_void> = args
        .iter_mut()
        .map(|arg| std::ptr::from_mut(arg).cast())
        .collect();
    // SAFETY: all parameters are u64 and are copied by the call.
    check("launching gatekeeper's own kernel", unsafe {
        sys::cuLaunchKernel(
            function,
            1,
            1,
            1,
            threads,
            1,
            1,
            0,
            stream,
            pointers.as_mut_ptr(),
            null_mut(),
        )
    })
}
