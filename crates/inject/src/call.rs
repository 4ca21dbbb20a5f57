//! Reads a launch as the program requests it, and the values of its parameters.

use crate::driver::{CuResult, Handle, LaunchConfig, NOT_FOUND, PER_THREAD, SUCCESS, driver};
use capture::Reason;
use std::ffi::c_void;

/// A launch as the program requests it. Several functions of the driver launch kernels, and this is what all of them
/// say.
pub struct Launch {
    pub kernel: Handle,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u32,
    pub cooperative: bool,
    pub cluster: Option<[u32; 3]>,
    pub programmatic: bool,
    pub arguments: Arguments,
}

/// The values of a kernel's parameters.
pub enum Arguments {
    /// The driver's own two forms: a pointer to each value, or a buffer. Both belong to the program, and are valid
    /// during its call.
    Given {
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    },
    /// The offset and the bytes of each parameter.
    Copied(Vec<(usize, Vec<u8>)>),
}

impl Launch {
    /// Reads a launch from a config.
    ///
    /// # Safety
    /// `config` must be a config that the driver can read.
    pub unsafe fn from_config(
        config: *const LaunchConfig,
        kernel: Handle,
        arguments: Arguments,
    ) -> Option<Self> {
        // SAFETY: null, or as the caller says.
        let config = unsafe { config.as_ref() }?;
        let mut launch = Self {
            kernel,
            grid: config.grid,
            block: config.block,
            dynamic_shared: config.dynamic_shared,
            cooperative: false,
            cluster: None,
            programmatic: false,
            arguments,
        };
        if !config.attributes.is_null() {
            let count = usize::try_from(config.attribute_count).unwrap_or(0);
            // SAFETY: as the caller says.
            let attributes = unsafe { std::slice::from_raw_parts(config.attributes, count) };
            attributes
                .iter()
                .for_each(|attribute| launch.add(attribute.id, attribute.value));
        }
        Some(launch)
    }

    /// Adds an attribute, by its CUlaunchAttributeID.
    pub fn add(&mut self, attribute: u32, value: [u32; 16]) {
        let [x, y, z, ..] = value;
        match attribute {
            2 => self.cooperative = x != 0,
            4 if x != 0 => self.cluster = Some([x, y, z]),
            6 => self.programmatic = x != 0,
            // Priorities, events and hints change no result.
            _ => {}
        }
    }

    /// Returns the offset and the bytes of each parameter.
    pub fn read_arguments(&self, is_kernel: bool) -> Result<Vec<(usize, Vec<u8>)>, Reason> {
        let (given, extra) = match &self.arguments {
            Arguments::Given { parameters, extra } => (*parameters, *extra),
            Arguments::Copied(copied) => return Ok(copied.clone()),
        };
        let mut parameters = Vec::new();
        for index in 0.. {
            let (mut offset, mut bytes) = (0, 0);
            let (at, of) = (&raw mut offset, &raw mut bytes);
            // SAFETY: a kernel of the program, and two numbers that the driver writes.
            let code = unsafe {
                if is_kernel {
                    driver().kernel_parameter(self.kernel, index, at, of)
                } else {
                    driver().function_parameter(self.kernel, index, at, of)
                }
            };
            match code {
                SUCCESS => {}
                NOT_FOUND => return Err(refused("cuFuncGetParamInfo", code)),
                // The kernel has no further parameter.
                _ => break,
            }
            let value = match (given.is_null(), find_buffer(extra)) {
                // SAFETY: the driver reads the same pointer.
                (false, _) => unsafe { given.add(index).read() }.cast::<u8>().cast_const(),
                // SAFETY: the driver reads the buffer at the same place.
                (true, Some(buffer)) => unsafe { buffer.add(offset) },
                (true, None) => return Err(refused("cuLaunchKernel", 1)),
            };
            // SAFETY: the driver reads as many bytes from there.
            let value = unsafe { std::slice::from_raw_parts(value, bytes) };
            parameters.push((offset, value.to_vec()));
        }
        Ok(parameters)
    }
}

/// Returns the buffer that contains all parameters (CU_LAUNCH_PARAM_BUFFER_POINTER).
fn find_buffer(extra: *mut *mut c_void) -> Option<*const u8> {
    if extra.is_null() {
        return None;
    }
    // The list has pairs of a name and a value, and ends with a NULL.
    for pair in 0..4 {
        // SAFETY: the driver reads the same pairs up to the NULL.
        let name = unsafe { extra.add(2 * pair).read() };
        match name.addr() {
            0 => return None,
            // SAFETY: a value follows each name.
            1 => return Some(unsafe { extra.add(2 * pair + 1).read() }.cast()),
            _ => {}
        }
    }
    None
}

/// Returns true if launches into a stream are recorded into a graph, to run later.
pub fn is_recorded(stream: Handle) -> bool {
    let mut status = 0;
    // SAFETY: the driver writes one number.
    let code = unsafe { driver().is_capturing(stream, &raw mut status) };
    // The default stream gives an error while another stream is recorded.
    code != SUCCESS || status != 0
}

/// Returns a stream by the name that the driver has for it in functions without `_ptsz`.
pub fn name_stream(stream: Handle, per_thread: bool) -> Handle {
    if per_thread && stream.is_null() {
        std::ptr::without_provenance_mut(PER_THREAD)
    } else {
        stream
    }
}

/// Returns the reason for which a call of our own failed.
pub fn refused(call: &str, code: CuResult) -> Reason {
    let call = call.to_owned();
    match code {
        NOT_FOUND => Reason::OldDriver { call },
        code => Reason::Driver { call, code },
    }
}
