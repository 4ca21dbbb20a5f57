//! The driver's functions and types that this library uses, as cuda.h of CUDA 13.0 declares them. They are looked up by
//! name, and nothing is linked.

use crate::symbols::driver_function;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

pub type CuResult = c_int;
pub type Address = u64;
/// A CUfunction, CUkernel, CUmodule, CUlibrary or CUstream.
pub type Handle = *mut c_void;

pub const SUCCESS: CuResult = 0;
pub const OUT_OF_MEMORY: CuResult = 2;
pub const INVALID_VALUE: CuResult = 1;
/// The code for a function that the driver lacks, CUDA_ERROR_NOT_FOUND.
pub const NOT_FOUND: CuResult = 500;
/// The value of CU_STREAM_PER_THREAD in cuda.h.
pub const PER_THREAD: usize = 2;

/// The layout of CUlaunchConfig in cuda.h.
#[repr(C)]
pub struct LaunchConfig {
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub dynamic_shared: c_uint,
    pub stream: Handle,
    pub attributes: *const LaunchAttribute,
    pub attribute_count: c_uint,
}

/// The layout of CUlaunchAttribute in cuda.h. The value is a union of 64 bytes.
#[repr(C)]
pub struct LaunchAttribute {
    pub id: c_uint,
    pub padding: [u8; 4],
    pub value: [c_uint; 16],
}

/// The layout of CUDA_KERNEL_NODE_PARAMS_v2 in cuda.h. Version 1 ends before `kernel`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNodeParameters {
    pub function: Handle,
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub dynamic_shared: c_uint,
    pub parameters: *mut *mut c_void,
    pub extra: *mut *mut c_void,
    pub kernel: Handle,
    pub context: Handle,
}

/// The layout of CUDA_GRAPH_INSTANTIATE_PARAMS in cuda.h.
#[repr(C)]
pub struct InstantiateParameters {
    pub flags: u64,
    pub stream: Handle,
    pub error_node: Handle,
    pub result: c_int,
}

/// The layout of CUmemPoolProps up to its location.
#[repr(C)]
pub struct PoolProperties {
    pub kind: c_uint,
    pub handle_types: c_uint,
    pub location: Location,
}

/// The layout of CUmemLocation in cuda.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    pub kind: c_uint,
    pub id: c_int,
}

/// The layout of CUmemAllocationProp in cuda.h.
#[repr(C)]
pub struct Properties {
    pub kind: c_uint,
    pub handle_types: c_uint,
    pub location: Location,
    pub win32: *mut c_void,
    pub flags: [u8; 8],
}

/// The layout of CUmemAccessDesc in cuda.h.
#[repr(C)]
pub struct Access {
    pub location: Location,
    pub flags: c_uint,
}

/// The values of CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE and CU_MEM_ACCESS_FLAGS_PROT_READWRITE in
/// cuda.h.
pub const PINNED: c_uint = 1;
pub const DEVICE: c_uint = 1;
pub const READ_WRITE: c_uint = 3;

macro_rules! driver {
    ($($(#[$meta:meta])* $name:ident = $symbol:ident($($argument:ident: $type:ty),*);)*) => {
        /// The driver's functions that this library calls itself.
        pub struct Driver {
            $($name: Option<unsafe extern "C" fn($($type),*) -> CuResult>,)*
        }

        impl Driver {
            fn find() -> Self {
                $(
                    let name = concat!(stringify!($symbol), "\0");
                    let $name = std::ffi::CStr::from_bytes_with_nul(name.as_bytes()).ok();
                    let $name = $name.and_then(driver_function);
                )*
                Self {
                    // SAFETY: the function of this name has this type.
                    $($name: $name.map(|name| unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($type),*) -> CuResult,
                        >(name)
                    }),)*
                }
            }

            $(
                $(#[$meta])*
                /// # Safety
                /// As for the driver's function.
                pub unsafe fn $name(&self, $($argument: $type),*) -> CuResult {
                    match self.$name {
                        // SAFETY: the caller keeps to the driver's rules.
                        Some(function) => unsafe { function($($argument),*) },
                        None => NOT_FOUND,
                    }
                }
            )*
        }
    };
}

driver! {
    /// Returns the function with a name.
    get_proc_address = cuGetProcAddress_v2(
        symbol: *const c_char, found: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_int
    );
    /// Waits for all work of the current context.
    synchronize = cuCtxSynchronize();
    /// Returns the device of the current context.
    current_device = cuCtxGetDevice(device: *mut c_int);
    /// Returns the name of a device.
    device_name = cuDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int);
    /// Returns the value of a device's attribute.
    device_attribute = cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
    /// Returns the version of CUDA that the driver supports.
    version = cuDriverGetVersion(version: *mut c_int);
    /// Reserves a range of addresses without memory.
    reserve = cuMemAddressReserve(address: *mut Address, bytes: usize, alignment: usize, hint: Address, flags: u64);
    /// Releases a reserved range of addresses.
    release_range = cuMemAddressFree(address: Address, bytes: usize);
    /// Creates memory that has no address yet.
    create = cuMemCreate(handle: *mut u64, bytes: usize, properties: *const Properties, flags: u64);
    /// Maps memory at a reserved address.
    map = cuMemMap(address: Address, bytes: usize, offset: usize, handle: u64, flags: u64);
    /// Makes mapped memory readable and writable.
    set_access = cuMemSetAccess(address: Address, bytes: usize, access: *const Access, count: usize);
    /// Unmaps the memory at an address.
    unmap = cuMemUnmap(address: Address, bytes: usize);
    /// Releases memory, which is freed once it has no address.
    release = cuMemRelease(handle: u64);
    /// Copies memory from the device to the host.
    read = cuMemcpyDtoH_v2(to: *mut c_void, from: Address, bytes: usize);
    /// Copies memory from the host to the device.
    write = cuMemcpyHtoD_v2(to: Address, from: *const c_void, bytes: usize);
    /// Returns the allocation that contains an address.
    address_range = cuMemGetAddressRange_v2(base: *mut Address, bytes: *mut usize, address: Address);
    /// Returns a property of the memory at an address.
    pointer_attribute = cuPointerGetAttribute(value: *mut c_void, attribute: c_int, address: Address);
    /// Returns the pool that a device starts with.
    default_pool = cuDeviceGetDefaultMemPool(pool: *mut Handle, device: c_int);
    /// Returns the pool that a device allocates from now.
    current_pool = cuDeviceGetMemPool(pool: *mut Handle, device: c_int);
    /// Returns whether launches into this stream are recorded.
    is_capturing = cuStreamIsCapturing(stream: Handle, status: *mut c_int);
    /// Exchanges the mode that says how calls of this thread affect graphs that are recorded.
    exchange_capture_mode = cuThreadExchangeStreamCaptureMode(mode: *mut c_int);
    /// Returns the nodes of a graph.
    graph_nodes = cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize);
    /// Returns the edges of a graph, as pairs of nodes.
    graph_edges = cuGraphGetEdges_v2(
        graph: Handle, from: *mut Handle, to: *mut Handle, data: *mut u64, count: *mut usize
    );
    /// Returns the edges of a graph. Older drivers have this function, which knows no data of edges.
    graph_plain_edges = cuGraphGetEdges(graph: Handle, from: *mut Handle, to: *mut Handle, count: *mut usize);
    /// Returns the type of a node.
    node_type = cuGraphNodeGetType(node: Handle, kind: *mut c_int);
    /// Returns the launch of a kernel's node.
    kernel_node = cuGraphKernelNodeGetParams_v2(node: Handle, parameters: *mut KernelNodeParameters);
    /// Returns an attribute of a kernel's node.
    kernel_node_attribute = cuGraphKernelNodeGetAttribute(node: Handle, attribute: c_int, value: *mut [c_uint; 16]);
    /// Sets whether an instance of a graph runs a node.
    node_set_enabled = cuGraphNodeSetEnabled(instance: Handle, node: Handle, enabled: c_uint);
    /// Destroys a graph of the program's.
    graph_destroy = cuGraphDestroy(graph: Handle);
    /// Returns offset and size of a parameter of a CUfunction.
    function_parameter = cuFuncGetParamInfo(function: Handle, index: usize, offset: *mut usize, bytes: *mut usize);
    /// Returns offset and size of a parameter of a CUkernel.
    kernel_parameter = cuKernelGetParamInfo(kernel: Handle, index: usize, offset: *mut usize, bytes: *mut usize);

    /// Allocates memory as the driver does it.
    allocate = cuMemAlloc_v2(address: *mut Address, bytes: usize);
    /// Frees an allocation of the driver's.
    free = cuMemFree_v2(address: Address);
    /// Allocates rows, and aligns each of them.
    allocate_pitch = cuMemAllocPitch_v2(
        address: *mut Address, pitch: *mut usize, width: usize, height: usize, element: c_uint
    );
    /// Loads a module from host memory.
    module_load_data = cuModuleLoadData(module: *mut Handle, image: *const c_void);
    /// Loads a module from memory with options.
    module_load_data_ex = cuModuleLoadDataEx(
        module: *mut Handle, image: *const c_void, count: c_uint, options: *mut c_void, values: *mut *mut c_void
    );
    /// Loads a module from a fat binary.
    module_load_fat_binary = cuModuleLoadFatBinary(module: *mut Handle, image: *const c_void);
    /// Loads a library from host memory.
    library_load_data = cuLibraryLoadData(
        library: *mut Handle, image: *const c_void,
        jit_options: *mut c_void, jit_values: *mut *mut c_void, jit_count: c_uint,
        options: *mut c_void, values: *mut *mut c_void, count: c_uint
    );
    /// Returns a kernel of a module.
    module_get_function = cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
    /// Returns a kernel of a library.
    library_get_kernel = cuLibraryGetKernel(kernel: *mut Handle, library: Handle, name: *const c_char);
    /// Returns a variable of a module, with its size.
    module_get_global = cuModuleGetGlobal_v2(
        address: *mut Address, bytes: *mut usize, module: Handle, name: *const c_char
    );
    /// Returns a variable of a library, with its size.
    library_get_global = cuLibraryGetGlobal(
        address: *mut Address, bytes: *mut usize, library: Handle, name: *const c_char
    );
    /// Encodes a tensor map for copies of tiles.
    encode_tiled = cuTensorMapEncodeTiled(
        map: *mut c_void, data_type: c_uint, rank: c_uint, address: *mut c_void,
        extents: *const u64, strides: *const u64, box_extents: *const u32, steps: *const u32,
        interleave: c_uint, swizzle: c_uint, promotion: c_uint, fill: c_uint
    );
    /// Encodes a tensor map for copies from images.
    encode_im2col = cuTensorMapEncodeIm2col(
        map: *mut c_void, data_type: c_uint, rank: c_uint, address: *mut c_void,
        extents: *const u64, strides: *const u64, lower: *const c_int, upper: *const c_int,
        channels: c_uint, pixels: c_uint, steps: *const u32,
        interleave: c_uint, swizzle: c_uint, promotion: c_uint, fill: c_uint
    );
    /// Changes the address in a tensor map to another tensor's.
    replace_address = cuTensorMapReplaceAddress(map: *mut c_void, address: *mut c_void);
    /// Returns the module of a library in the current context.
    library_get_module = cuLibraryGetModule(module: *mut Handle, library: Handle);
    /// Returns the function of a kernel in the current context.
    kernel_get_function = cuKernelGetFunction(function: *mut Handle, kernel: Handle);
}

/// Returns the driver, which is looked up at the first call.
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(Driver::find)
}
