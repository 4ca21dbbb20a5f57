//! Exports functions under the driver's names, which run before the driver's own. Programs that link the driver find
//! these first, and programs that ask `dlsym` or `cuGetProcAddress` are given them.

use crate::call::{Arguments, Launch, name_stream};
use crate::driver::{CuResult, Handle, LaunchConfig, SUCCESS, driver};
use crate::maps::{Given, GivenBoxes, MapBytes, describe};
use crate::quiet::{quietly, run_once};
use crate::settled::count_settled;
use crate::state::state;
use graph::*;
use memory::*;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Returns the driver's function with the same name, which is looked up once.
macro_rules! real {
    ($name:ident, $type:ty) => {{
        static REAL: std::sync::OnceLock<Option<$type>> = std::sync::OnceLock::new();
        let real = REAL.get_or_init(|| {
            let name = concat!(stringify!($name), "\0");
            let name = std::ffi::CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
            let found = crate::symbols::driver_function(name)?;
            // SAFETY: the driver's function of this name has this type.
            Some(std::mem::transmute::<*mut std::ffi::c_void, $type>(found))
        });
        match real {
            Some(real) => *real,
            None => return crate::driver::NOT_FOUND,
        }
    }};
}

mod graph;
mod memory;

macro_rules! exported {
    ($($name:ident),* $(,)?) => {
        /// Returns our function with a name of the driver's.
        pub fn find(name: &[u8]) -> Option<*mut c_void> {
            $(if name == stringify!($name).as_bytes() {
                return Some($name as *mut c_void);
            })*
            None
        }
    };
}

exported! {
    cuGetProcAddress, cuGetProcAddress_v2,
    cuMemAlloc_v2, cuMemFree_v2, cuMemAllocPitch_v2, cuMemGetAddressRange_v2,
    cuMemAllocAsync, cuMemAllocAsync_ptsz, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz,
    cuMemFreeAsync, cuMemFreeAsync_ptsz, cuMemPoolCreate, cuMemPoolDestroy, cuStreamDestroy_v2,
    cuMemAddressReserve, cuMemAddressFree, cuMemCreate, cuMemRelease, cuMemMap, cuMemUnmap,
    cuModuleLoadData, cuModuleLoadDataEx, cuModuleLoadFatBinary, cuLibraryLoadData,
    cuModuleGetFunction, cuLibraryGetKernel, cuLibraryGetModule, cuKernelGetFunction,
    cuLaunchKernel, cuLaunchKernel_ptsz, cuLaunchKernelEx, cuLaunchKernelEx_ptsz,
    cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz,
    cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, cuStreamBeginCaptureToGraph,
    cuStreamBeginCaptureToGraph_ptsz, cuStreamEndCapture, cuStreamEndCapture_ptsz,
    cuGraphInstantiateWithFlags, cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz,
    cuGraphDestroy, cuGraphExecDestroy, cuGraphLaunch, cuGraphLaunch_ptsz,
    cuGraphExecUpdate, cuGraphExecUpdate_v2, cuGraphNodeSetEnabled,
    cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2, cuGraphExecNodeSetParams,
    cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col, cuTensorMapReplaceAddress,
}

/// The value of CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM in cuda.h.
const PER_THREAD_FLAG: u64 = 2;

/// Functions that have a second form, for the default stream of each thread.
const HAVE_PER_THREAD: [&[u8]; 11] = [
    b"cuLaunchKernel",
    b"cuLaunchKernelEx",
    b"cuLaunchCooperativeKernel",
    b"cuStreamBeginCapture_v2",
    b"cuStreamBeginCaptureToGraph",
    b"cuStreamEndCapture",
    b"cuGraphInstantiateWithParams",
    b"cuGraphLaunch",
    b"cuMemAllocAsync",
    b"cuMemAllocFromPoolAsync",
    b"cuMemFreeAsync",
];

/// Returns the exported name of a function that `cuGetProcAddress` is asked for by a name without a version.
fn exported_name(symbol: &[u8], version: c_int, flags: u64) -> Vec<u8> {
    let versioned: &[u8] = match symbol {
        b"cuMemAlloc"
        | b"cuMemFree"
        | b"cuMemAllocPitch"
        | b"cuMemGetAddressRange"
        | b"cuStreamDestroy" => b"_v2",
        b"cuStreamBeginCapture" if version >= 10_010 => b"_v2",
        b"cuGetProcAddress" | b"cuGraphExecUpdate" | b"cuGraphExecKernelNodeSetParams"
            if version >= 12_000 =>
        {
            b"_v2"
        }
        b"cuGraphInstantiate" if version >= 12_000 => b"WithFlags",
        _ => b"",
    };
    let mut name = [symbol, versioned].concat();
    if flags & PER_THREAD_FLAG != 0 && HAVE_PER_THREAD.contains(&name.as_slice()) {
        name.extend(b"_ptsz");
    }
    name
}

/// Replaces the driver's function by ours, if we have one.
///
/// # Safety
/// As for cuGetProcAddress, which must have succeeded.
unsafe fn replace(symbol: *const c_char, found: *mut *mut c_void, version: c_int, flags: u64) {
    // SAFETY: the driver has read the name and written the pointer.
    let (name, found) = unsafe { (CStr::from_ptr(symbol), &mut *found) };
    let ours = find(&exported_name(name.to_bytes(), version, flags));
    if let (false, Some(ours)) = (found.is_null(), ours) {
        *found = ours;
    }
}

// Each of these functions has the type and the rules of the driver's own.

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    found: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut c_int,
) -> CuResult {
    // SAFETY: the program's own call.
    let code = unsafe { driver().get_proc_address(symbol, found, version, flags, status) };
    if code == SUCCESS {
        // SAFETY: it has succeeded.
        unsafe { replace(symbol, found, version, flags) };
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetProcAddress(
    symbol: *const c_char,
    found: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> CuResult {
    let mut status = 0;
    // SAFETY: the program's own call; the status is new in version 2.
    unsafe { cuGetProcAddress_v2(symbol, found, version, flags, &raw mut status) }
}

/// Notes a module that was loaded.
///
/// # Safety
/// The arguments must be what the driver's functions that load a module accept.
unsafe fn loaded(code: CuResult, module: *mut Handle, image: *const c_void) -> CuResult {
    if code == SUCCESS {
        quietly(|| {
            let mut state = state()?;
            // SAFETY: the driver has written the handle and read the image.
            unsafe { state.add_module(module.read(), image) };
            Some(())
        });
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> CuResult {
    // SAFETY: the program's own call.
    unsafe { loaded(driver().module_load_data(module, image), module, image) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    count: c_uint,
    options: *mut c_void,
    values: *mut *mut c_void,
) -> CuResult {
    // SAFETY: the program's own call.
    unsafe {
        let code = driver().module_load_data_ex(module, image, count, options, values);
        loaded(code, module, image)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadFatBinary(module: *mut Handle, image: *const c_void) -> CuResult {
    // SAFETY: the program's own call.
    unsafe {
        loaded(
            driver().module_load_fat_binary(module, image),
            module,
            image,
        )
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLibraryLoadData(
    library: *mut Handle,
    image: *const c_void,
    jit_options: *mut c_void,
    jit_values: *mut *mut c_void,
    jit_count: c_uint,
    options: *mut c_void,
    values: *mut *mut c_void,
    count: c_uint,
) -> CuResult {
    // SAFETY: the program's own call.
    unsafe {
        let code = driver().library_load_data(
            library,
            image,
            jit_options,
            jit_values,
            jit_count,
            options,
            values,
            count,
        );
        loaded(code, library, image)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> CuResult {
    // SAFETY: the program's own call.
    let code = unsafe { driver().module_get_function(function, module, name) };
    if code == SUCCESS {
        quietly(|| {
            // SAFETY: the driver has written the handle and read the name.
            unsafe { state()?.add_kernel(function.read(), module, name, false) };
            Some(())
        });
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLibraryGetKernel(
    kernel: *mut Handle,
    library: Handle,
    name: *const c_char,
) -> CuResult {
    // SAFETY: the program's own call.
    let code = unsafe { driver().library_get_kernel(kernel, library, name) };
    if code == SUCCESS {
        quietly(|| {
            // SAFETY: the driver has written the handle and read the name.
            unsafe { state()?.add_kernel(kernel.read(), library, name, true) };
            Some(())
        });
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLibraryGetModule(module: *mut Handle, library: Handle) -> CuResult {
    // SAFETY: the program's own call.
    let code = unsafe { driver().library_get_module(module, library) };
    if code == SUCCESS {
        quietly(|| {
            // SAFETY: the driver has written the handle.
            state()?.add_alias(unsafe { module.read() }, library);
            Some(())
        });
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuKernelGetFunction(function: *mut Handle, kernel: Handle) -> CuResult {
    // SAFETY: the program's own call.
    let code = unsafe { driver().kernel_get_function(function, kernel) };
    if code == SUCCESS {
        quietly(|| {
            // SAFETY: the driver has written the handle.
            state()?.add_function(unsafe { function.read() }, kernel);
            Some(())
        });
    }
    code
}

/// Notes a tensor map that the driver has encoded.
///
/// # Safety
/// `map` must be where the driver wrote the map, and the lists those that it read.
unsafe fn encoded(map: *const c_void, given: &Given, boxes: &GivenBoxes) {
    quietly(|| {
        // SAFETY: as the caller says.
        let (bytes, described) = unsafe { (map.cast::<MapBytes>().read(), describe(given, boxes)) };
        state()?.maps.add(bytes, described);
        Some(())
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut c_void,
    data_type: c_uint,
    rank: c_uint,
    address: *mut c_void,
    extents: *const u64,
    strides: *const u64,
    box_extents: *const u32,
    steps: *const u32,
    interleave: c_uint,
    swizzle: c_uint,
    promotion: c_uint,
    fill: c_uint,
) -> CuResult {
    // SAFETY: the program's own call.
    let code = unsafe {
        driver().encode_tiled(
            map,
            data_type,
            rank,
            address,
            extents,
            strides,
            box_extents,
            steps,
            interleave,
            swizzle,
            promotion,
            fill,
        )
    };
    if code == SUCCESS {
        let given = Given {
            data_type,
            rank,
            address: address.addr() as u64,
            interleave,
            swizzle,
            fill,
            extents,
            strides,
            steps,
        };
        let boxes = GivenBoxes::Tiled(box_extents);
        // SAFETY: the driver has read the lists and written the map.
        unsafe { encoded(map, &given, &boxes) };
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuTensorMapEncodeIm2col(
    map: *mut c_void,
    data_type: c_uint,
    rank: c_uint,
    address: *mut c_void,
    extents: *const u64,
    strides: *const u64,
    lower: *const c_int,
    upper: *const c_int,
    channels: c_uint,
    pixels: c_uint,
    steps: *const u32,
    interleave: c_uint,
    swizzle: c_uint,
    promotion: c_uint,
    fill: c_uint,
) -> CuResult {
    // SAFETY: the program's own call.
    let code = unsafe {
        driver().encode_im2col(
            map, data_type, rank, address, extents, strides, lower, upper, channels, pixels, steps,
            interleave, swizzle, promotion, fill,
        )
    };
    if code == SUCCESS {
        let given = Given {
            data_type,
            rank,
            address: address.addr() as u64,
            interleave,
            swizzle,
            fill,
            extents,
            strides,
            steps,
        };
        let boxes = GivenBoxes::Im2col {
            lower,
            upper,
            channels,
            pixels,
        };
        // SAFETY: the driver has read the lists and written the map.
        unsafe { encoded(map, &given, &boxes) };
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuTensorMapReplaceAddress(map: *mut c_void, address: *mut c_void) -> CuResult {
    // SAFETY: null, or a map of the program.
    let before = unsafe { map.cast::<MapBytes>().as_ref() }.copied();
    // SAFETY: the program's own call.
    let code = unsafe { driver().replace_address(map, address) };
    if code == SUCCESS {
        quietly(|| {
            // SAFETY: the driver has written the map.
            let after = unsafe { map.cast::<MapBytes>().read() };
            let mut state = state()?;
            state.maps.add_moved(&before?, after, address.addr() as u64);
            Some(())
        });
    }
    code
}

macro_rules! launches {
    ($plain:ident, $extended:ident, $cooperative:ident, $per_thread:literal) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $plain(
            kernel: Handle,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            dynamic_shared: c_uint,
            stream: Handle,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> CuResult {
            let launch = Launch {
                kernel,
                grid: [grid_x, grid_y, grid_z],
                block: [block_x, block_y, block_z],
                dynamic_shared,
                cooperative: false,
                cluster: None,
                programmatic: false,
                arguments: Arguments::Given { parameters, extra },
            };
            captured(&launch, name_stream(stream, $per_thread), &|| {
                type Function = unsafe extern "C" fn(
                    Handle,
                    c_uint,
                    c_uint,
                    c_uint,
                    c_uint,
                    c_uint,
                    c_uint,
                    c_uint,
                    Handle,
                    *mut *mut c_void,
                    *mut *mut c_void,
                ) -> CuResult;
                // SAFETY: the driver's function of this name has this type; the program's own call.
                unsafe {
                    real!($plain, Function)(
                        kernel,
                        grid_x,
                        grid_y,
                        grid_z,
                        block_x,
                        block_y,
                        block_z,
                        dynamic_shared,
                        stream,
                        parameters,
                        extra,
                    )
                }
            })
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $extended(
            config: *const LaunchConfig,
            kernel: Handle,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        ) -> CuResult {
            let run = || {
                type Function = unsafe extern "C" fn(
                    *const LaunchConfig,
                    Handle,
                    *mut *mut c_void,
                    *mut *mut c_void,
                ) -> CuResult;
                // SAFETY: the driver's function of this name has this type; the program's own call.
                unsafe { real!($extended, Function)(config, kernel, parameters, extra) }
            };
            let arguments = Arguments::Given { parameters, extra };
            // SAFETY: the program's own call.
            match unsafe {
                (
                    Launch::from_config(config, kernel, arguments),
                    config.as_ref(),
                )
            } {
                (Some(launch), Some(config)) => {
                    captured(&launch, name_stream(config.stream, $per_thread), &run)
                }
                _ => run(),
            }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $cooperative(
            kernel: Handle,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            dynamic_shared: c_uint,
            stream: Handle,
            parameters: *mut *mut c_void,
        ) -> CuResult {
            let launch = Launch {
                kernel,
                grid: [grid_x, grid_y, grid_z],
                block: [block_x, block_y, block_z],
                dynamic_shared,
                cooperative: true,
                cluster: None,
                programmatic: false,
                arguments: Arguments::Given {
                    parameters,
                    extra: std::ptr::null_mut(),
                },
            };
            captured(&launch, name_stream(stream, $per_thread), &|| {
                type Function = unsafe extern "C" fn(
                    Handle,
                    c_uint,
                    c_uint,
                    c_uint,
                    c_uint,
                    c_uint,
                    c_uint,
                    c_uint,
                    Handle,
                    *mut *mut c_void,
                ) -> CuResult;
                // SAFETY: the driver's function of this name has this type; the program's own call.
                unsafe {
                    real!($cooperative, Function)(
                        kernel,
                        grid_x,
                        grid_y,
                        grid_z,
                        block_x,
                        block_y,
                        block_z,
                        dynamic_shared,
                        stream,
                        parameters,
                    )
                }
            })
        }
    };
}

launches!(
    cuLaunchKernel,
    cuLaunchKernelEx,
    cuLaunchCooperativeKernel,
    false
);
launches!(
    cuLaunchKernel_ptsz,
    cuLaunchKernelEx_ptsz,
    cuLaunchCooperativeKernel_ptsz,
    true
);

fn captured(launch: &Launch, stream: Handle, run: &dyn Fn() -> CuResult) -> CuResult {
    if count_settled(launch.kernel) {
        return run();
    }
    run_once(run, |run| launch.capture(stream, run))
}

#[cfg(test)]
mod tests {
    use super::exported_name;

    #[test]
    fn the_version_and_the_stream_of_a_function_follow_from_the_request() {
        let name = |symbol: &str, version, flags| {
            String::from_utf8(exported_name(symbol.as_bytes(), version, flags)).unwrap()
        };
        assert_eq!(name("cuMemAlloc", 13_000, 0), "cuMemAlloc_v2");
        assert_eq!(name("cuGetProcAddress", 11_030, 0), "cuGetProcAddress");
        assert_eq!(name("cuGetProcAddress", 12_000, 0), "cuGetProcAddress_v2");
        assert_eq!(name("cuLaunchKernel", 7_000, 2), "cuLaunchKernel_ptsz");
        assert_eq!(name("cuLaunchKernel", 4_000, 1), "cuLaunchKernel");
        assert_eq!(name("cuInit", 2_000, 2), "cuInit");
        assert_eq!(
            name("cuGraphInstantiate", 13_000, 0),
            "cuGraphInstantiateWithFlags"
        );
        // This form has five parameters, and is not followed.
        assert_eq!(name("cuGraphInstantiate", 11_040, 0), "cuGraphInstantiate");
        let begin = name("cuStreamBeginCapture", 12_000, 2);
        assert_eq!(begin, "cuStreamBeginCapture_v2_ptsz");
    }
}
