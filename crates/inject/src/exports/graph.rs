//! Exports the driver's functions for CUDA graphs.

use crate::call::{is_recorded, name_stream};
use crate::driver::{
    CuResult, Handle, InstantiateParameters, KernelNodeParameters, SUCCESS, driver,
};
use crate::quiet::{quietly, run_once};
use crate::state::state;
use std::ffi::{c_int, c_uint, c_void};

/// Notes that the recording of a stream has begun or ended.
fn note_recording(stream: Handle) {
    quietly(|| {
        let is_recorded = is_recorded(stream);
        state()?.memory.set_recording(stream, is_recorded);
        Some(())
    });
}

/// Notes an instance that was made of a graph.
///
/// # Safety
/// The arguments must be what the driver's functions that make an instance accept.
unsafe fn instantiated(code: CuResult, instance: *mut Handle, graph: Handle, flags: u64) {
    if code == SUCCESS {
        quietly(|| {
            // SAFETY: the driver has written the handle.
            let instance = unsafe { instance.read() };
            state()?.add_instance(instance, graph, flags);
            Some(())
        });
    }
}

macro_rules! per_stream {
    ($begin:ident, $begin_to:ident, $end:ident, $with:ident, $launch:ident, $per_thread:literal) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $begin(stream: Handle, mode: c_int) -> CuResult {
            type Function = unsafe extern "C" fn(Handle, c_int) -> CuResult;
            // SAFETY: the program's own call.
            let code = unsafe { real!($begin, Function)(stream, mode) };
            note_recording(name_stream(stream, $per_thread));
            code
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $begin_to(
            stream: Handle,
            graph: Handle,
            nodes: *const Handle,
            data: *const c_void,
            count: usize,
            mode: c_int,
        ) -> CuResult {
            type Function = unsafe extern "C" fn(
                Handle,
                Handle,
                *const Handle,
                *const c_void,
                usize,
                c_int,
            ) -> CuResult;
            let begin = || {
                // SAFETY: the program's own call.
                unsafe { real!($begin_to, Function)(stream, graph, nodes, data, count, mode) }
            };
            let code = begin();
            note_recording(name_stream(stream, $per_thread));
            code
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $end(stream: Handle, graph: *mut Handle) -> CuResult {
            type Function = unsafe extern "C" fn(Handle, *mut Handle) -> CuResult;
            // SAFETY: the program's own call.
            let code = unsafe { real!($end, Function)(stream, graph) };
            note_recording(name_stream(stream, $per_thread));
            code
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $with(
            instance: *mut Handle,
            graph: Handle,
            parameters: *mut InstantiateParameters,
        ) -> CuResult {
            type Function =
                unsafe extern "C" fn(*mut Handle, Handle, *mut InstantiateParameters) -> CuResult;
            // SAFETY: the program's own call.
            unsafe {
                let code = real!($with, Function)(instance, graph, parameters);
                let flags = parameters.as_ref().map_or(0, |parameter| parameter.flags);
                instantiated(code, instance, graph, flags);
                code
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $launch(instance: Handle, stream: Handle) -> CuResult {
            type Function = unsafe extern "C" fn(Handle, Handle) -> CuResult;
            // SAFETY: the program's own call, once or once for each node.
            let run = || unsafe { real!($launch, Function)(instance, stream) };
            let stream = name_stream(stream, $per_thread);
            run_once(&run, |run| {
                crate::graph_launch::launch(instance, stream, run)
            })
        }
    };
}

per_stream!(
    cuStreamBeginCapture_v2,
    cuStreamBeginCaptureToGraph,
    cuStreamEndCapture,
    cuGraphInstantiateWithParams,
    cuGraphLaunch,
    false
);
per_stream!(
    cuStreamBeginCapture_v2_ptsz,
    cuStreamBeginCaptureToGraph_ptsz,
    cuStreamEndCapture_ptsz,
    cuGraphInstantiateWithParams_ptsz,
    cuGraphLaunch_ptsz,
    true
);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    instance: *mut Handle,
    graph: Handle,
    flags: u64,
) -> CuResult {
    type Function = unsafe extern "C" fn(*mut Handle, Handle, u64) -> CuResult;
    // SAFETY: the program's own call.
    unsafe {
        let code = real!(cuGraphInstantiateWithFlags, Function)(instance, graph, flags);
        instantiated(code, instance, graph, flags);
        code
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphDestroy(graph: Handle) -> CuResult {
    let kept = quietly(|| state()?.graphs.keep(graph));
    // SAFETY: the program's own call.
    kept.unwrap_or_else(|| unsafe { driver().graph_destroy(graph) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecDestroy(instance: Handle) -> CuResult {
    type Function = unsafe extern "C" fn(Handle) -> CuResult;
    // SAFETY: the program's own call.
    let code = unsafe { real!(cuGraphExecDestroy, Function)(instance) };
    quietly(|| {
        state()?.graphs.remove(instance);
        Some(())
    });
    code
}

/// Notes that an instance was changed in a way that is not followed.
fn updated(code: CuResult, instance: Handle) -> CuResult {
    quietly(|| {
        state()?.graphs.update(instance);
        Some(())
    });
    code
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecUpdate(
    instance: Handle,
    graph: Handle,
    node: *mut Handle,
    result: *mut c_int,
) -> CuResult {
    type Function = unsafe extern "C" fn(Handle, Handle, *mut Handle, *mut c_int) -> CuResult;
    // SAFETY: the program's own call.
    let code = unsafe { real!(cuGraphExecUpdate, Function)(instance, graph, node, result) };
    updated(code, instance)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecUpdate_v2(
    instance: Handle,
    graph: Handle,
    result: *mut c_void,
) -> CuResult {
    type Function = unsafe extern "C" fn(Handle, Handle, *mut c_void) -> CuResult;
    // SAFETY: the program's own call.
    let code = unsafe { real!(cuGraphExecUpdate_v2, Function)(instance, graph, result) };
    updated(code, instance)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphNodeSetEnabled(
    instance: Handle,
    node: Handle,
    enabled: c_uint,
) -> CuResult {
    // SAFETY: the program's own call.
    let code = unsafe { driver().node_set_enabled(instance, node, enabled) };
    updated(code, instance)
}

/// Notes that a node of an instance was given another launch.
///
/// # Safety
/// The arguments must be what the driver's functions that change a node accept.
unsafe fn set(code: CuResult, instance: Handle, node: Handle, parameters: &KernelNodeParameters) {
    if code == SUCCESS {
        quietly(|| {
            // SAFETY: the driver has taken them.
            unsafe { state()?.set_node(instance, node, parameters) };
            Some(())
        });
    }
}

/// Calls the driver, and notes the node's new launch. The older structure of `parameters` ends before the CUkernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecKernelNodeSetParams(
    instance: Handle,
    node: Handle,
    parameters: *const KernelNodeParameters,
) -> CuResult {
    type Function = unsafe extern "C" fn(Handle, Handle, *const KernelNodeParameters) -> CuResult;
    // SAFETY: the program's own call.
    unsafe {
        let code = real!(cuGraphExecKernelNodeSetParams, Function)(instance, node, parameters);
        if code == SUCCESS {
            let none = std::ptr::null_mut();
            let whole = KernelNodeParameters {
                function: (&raw const (*parameters).function).read(),
                grid: (&raw const (*parameters).grid).read(),
                block: (&raw const (*parameters).block).read(),
                dynamic_shared: (&raw const (*parameters).dynamic_shared).read(),
                parameters: (&raw const (*parameters).parameters).read(),
                extra: (&raw const (*parameters).extra).read(),
                kernel: none,
                context: none,
            };
            set(code, instance, node, &whole);
        }
        code
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecKernelNodeSetParams_v2(
    instance: Handle,
    node: Handle,
    parameters: *const KernelNodeParameters,
) -> CuResult {
    type Function = unsafe extern "C" fn(Handle, Handle, *const KernelNodeParameters) -> CuResult;
    // SAFETY: the program's own call.
    unsafe {
        let code = real!(cuGraphExecKernelNodeSetParams_v2, Function)(instance, node, parameters);
        if let Some(parameters) = parameters.as_ref() {
            set(code, instance, node, parameters);
        }
        code
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecNodeSetParams(
    instance: Handle,
    node: Handle,
    parameters: *mut c_void,
) -> CuResult {
    type Function = unsafe extern "C" fn(Handle, Handle, *mut c_void) -> CuResult;
    /// The offset in CUgraphNodeParams from the type to the parameters of that type.
    const BEHIND_TYPE: usize = 16;
    const KERNEL: c_int = 0;
    // SAFETY: the program's own call, and the struct that the driver has taken.
    unsafe {
        let code = real!(cuGraphExecNodeSetParams, Function)(instance, node, parameters);
        if code == SUCCESS && parameters.cast::<c_int>().read() == KERNEL {
            let parameters = parameters
                .byte_add(BEHIND_TYPE)
                .cast::<KernelNodeParameters>();
            set(code, instance, node, &*parameters);
        }
        code
    }
}
