//! Captures streams into graphs, to run many launches without the host between them, and to find out what a launcher
//! launches.

use super::error::{check, describe};
use crate::device::{Failure, Result};
use cudarc::driver::sys::{self, CUresult};
use model::Unsupported;
use model::{DeviceFacts, Launch};
use std::ffi::CStr;
use std::ptr::null_mut;

/// cuFuncGetName and cuKernelGetName came with CUDA 12.3.
const NAMES_SINCE: u32 = 12_030;

pub struct Graph(sys::CUgraph);

impl Graph {
    /// Captures the work that `queue` puts on the stream, without running it.
    ///
    /// # Errors
    /// `Unsupported` if it does what cannot be captured, such as waiting for the stream.
    pub fn capture(stream: sys::CUstream, queue: impl FnOnce() -> Result<()>) -> Result<Self> {
        // Relaxed: a launcher may allocate or set attributes while it is captured.
        // SAFETY: the stream is ours and not being captured.
        check("cuStreamBeginCapture", unsafe {
            sys::cuStreamBeginCapture_v2(
                stream,
                sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED,
            )
        })?;
        let queued = queue();
        let mut graph = null_mut();
        // SAFETY: ends the capture that was begun above, even if it failed.
        let ended = unsafe { sys::cuStreamEndCapture(stream, &raw mut graph) };
        let graph = Self(graph);
        match (ended, queued) {
            (CUresult::CUDA_SUCCESS, Ok(())) => Ok(graph),
            (
                CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                | CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                | CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE
                | CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED
                | CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                | CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION
                | CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                | CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                queued,
            ) => Err(Failure::Unsupported(Unsupported::Capture {
                problem: format!(
                    "{}; it has to put all of its work on the stream that it is given, and not wait for it{}",
                    describe(ended),
                    match queued {
                        Err(Failure::Fault { fault, .. }) => format!("; {}", fault.message),
                        _ => String::new(),
                    }
                ),
            })),
            (_, Err(failure)) => Err(failure),
            (ended, Ok(())) => {
                Err(check("cuStreamEndCapture", ended)
                    .err()
                    .unwrap_or(Failure::Unsupported(Unsupported::Capture {
                        problem: "the capture ended without a graph".to_owned(),
                    })))
            }
        }
    }

    /// Returns every kernel in the graph, with its name in the device code and its launch.
    pub fn kernels(&self, facts: &DeviceFacts) -> Result<Vec<(sys::CUfunction, String, Launch)>> {
        if facts.cuda_driver_version < NAMES_SINCE {
            return Err(Failure::Unsupported(Unsupported::DriverLacks {
                problem: format!(
                    "the driver ({}) cannot say which kernels a launcher launches; branch 545 or later can",
                    facts.driver
                ),
            }));
        }
        let mut count = 0;
        // SAFETY: a null array asks for the count, which the second call then fills.
        let nodes = unsafe {
            check(
                "cuGraphGetNodes",
                sys::cuGraphGetNodes(self.0, null_mut(), &raw mut count),
            )?;
            let mut nodes = vec![null_mut(); count];
            if count > 0 {
                check(
                    "cuGraphGetNodes",
                    sys::cuGraphGetNodes(self.0, nodes.as_mut_ptr(), &raw mut count),
                )?;
            }
            nodes
        };
        let mut kernels = Vec::new();
        for node in nodes {
            let mut kind = sys::CUgraphNodeType_enum::CU_GRAPH_NODE_TYPE_EMPTY;
            // SAFETY: the node is of this graph.
            check("cuGraphNodeGetType", unsafe {
                sys::cuGraphNodeGetType(node, &raw mut kind)
            })?;
            if kind == sys::CUgraphNodeType_enum::CU_GRAPH_NODE_TYPE_KERNEL {
                kernels.push(kernel(node)?);
            }
        }
        Ok(kernels)
    }

    pub fn instantiate(&self) -> Result<Executable> {
        let mut executable = null_mut();
        // SAFETY: the graph is whole.
        check("cuGraphInstantiate", unsafe {
            sys::cuGraphInstantiateWithFlags(&raw mut executable, self.0, 0)
        })?;
        Ok(Executable(executable))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: ours; what was instantiated from it lives on.
            unsafe { sys::cuGraphDestroy(self.0) };
        }
    }
}

fn kernel(node: sys::CUgraphNode) -> Result<(sys::CUfunction, String, Launch)> {
    // SAFETY: the node is a kernel node; out-pointers are of live locals, zero being valid for all.
    unsafe {
        let mut params: sys::CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        check(
            "cuGraphKernelNodeGetParams",
            sys::cuGraphKernelNodeGetParams_v2(node, &raw mut params),
        )?;
        let mut name = std::ptr::null();
        let mut function = params.func;
        if function.is_null() {
            check(
                "cuKernelGetName",
                sys::cuKernelGetName(&raw mut name, params.kern),
            )?;
            check(
                "cuKernelGetFunction",
                sys::cuKernelGetFunction(&raw mut function, params.kern),
            )?;
        } else {
            check("cuFuncGetName", sys::cuFuncGetName(&raw mut name, function))?;
        }
        Ok((
            function,
            CStr::from_ptr(name).to_string_lossy().into_owned(),
            Launch {
                grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
                block: [params.blockDimX, params.blockDimY, params.blockDimZ],
                cluster: cluster(node)?,
                cooperative: cooperative(node)?,
                dynamic_shared: params.sharedMemBytes,
            },
        ))
    }
}

fn cluster(node: sys::CUgraphNode) -> Result<Option<[u32; 3]>> {
    use sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION as CLUSTER;
    let value = attribute(node, CLUSTER)?;
    // SAFETY: the union is read as what the attribute's id says it holds.
    let sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z } = unsafe { value.clusterDim };
    Ok((x * y * z > 1).then_some([x, y, z]))
}

fn cooperative(node: sys::CUgraphNode) -> Result<bool> {
    use sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_COOPERATIVE as COOPERATIVE;
    let value = attribute(node, COOPERATIVE)?;
    // SAFETY: as in `cluster`.
    Ok(unsafe { value.cooperative } != 0)
}

fn attribute(
    node: sys::CUgraphNode,
    id: sys::CUlaunchAttributeID,
) -> Result<sys::CUlaunchAttributeValue> {
    // SAFETY: as in `kernel`; all zeros are a value of the union.
    unsafe {
        let mut value: sys::CUlaunchAttributeValue = std::mem::zeroed();
        check(
            "cuGraphKernelNodeGetAttribute",
            sys::cuGraphKernelNodeGetAttribute(node, id, &raw mut value),
        )?;
        Ok(value)
    }
}

pub struct Executable(sys::CUgraphExec);

impl Executable {
    pub fn launch(&self, stream: sys::CUstream) -> Result<()> {
        // SAFETY: instantiated and not destroyed.
        check("cuGraphLaunch", unsafe {
            sys::cuGraphLaunch(self.0, stream)
        })
    }

    /// Moves the graph to the device ahead of its first launch.
    pub fn upload(&self, stream: sys::CUstream) -> Result<()> {
        // SAFETY: as above.
        check("cuGraphUpload", unsafe {
            sys::cuGraphUpload(self.0, stream)
        })
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: ours; the driver waits for a launch that still runs.
        unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}
