//! Captures launches of CUDA graphs. The kernels of a graph run when an instance of it is launched.
//!
//! If one of the kernels is to be captured, the nodes must run apart, so that memory can be read before and after that
//! kernel. To do this the instance is launched several times: once for each captured kernel, and once for each sequence
//! of nodes between captured kernels. All other nodes are switched off in each launch. The nodes run in an order that
//! the edges allow, and each node runs exactly once, so the result is that of the whole graph. It would not be if
//! kernels waited for each other while they run.

use crate::call::{Arguments, Launch, is_recorded, refused};
use crate::driver::{CuResult, Handle, KernelNodeParameters, SUCCESS, driver};
use crate::graphs::{Instance, Node, NodeWork, list_nodes};
use crate::settled::{Counter, count, count_settled, generation, settle, unsettle};
use crate::state::{State, state};
use capture::Reason;

/// The values of CUgraphNodeType in cuda.h.
mod kind {
    pub const KERNEL: i32 = 0;
    pub const COPY: i32 = 1;
    pub const SET: i32 = 2;
    pub const GRAPH: i32 = 4;
    pub const EMPTY: i32 = 5;
    pub const CONDITION: i32 = 13;
}

/// The value of CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH in cuda.h.
const DEVICE_LAUNCH: u64 = 4;

/// Values of CUlaunchAttributeID: cooperative, cluster, programmatic.
const ATTRIBUTES: [u32; 3] = [2, 4, 6];

impl State {
    /// Notes an instance that the driver has made of a graph.
    pub fn add_instance(&mut self, instance: Handle, graph: Handle, flags: u64) {
        let (nodes, mut obstacle) = match self.read_graph(graph) {
            Ok(read) => read,
            Err(reason) => {
                self.name_left_out("?", reason.clone());
                (Vec::new(), Some(reason))
            }
        };
        if flags & DEVICE_LAUNCH != 0 {
            obstacle = Some(Reason::GraphOnDevice);
        }
        let instance_ = Instance {
            graph: graph.addr(),
            kernels: nodes.iter().filter_map(Node::kernel).collect(),
            nodes,
            obstacle,
        };
        self.graphs.insert(instance, instance_);
    }

    /// Returns the nodes, and the reason of the first node that cannot run alone.
    fn read_graph(&mut self, graph: Handle) -> Result<(Vec<Node>, Option<Reason>), Reason> {
        let mut obstacle = None;
        let mut nodes = Vec::new();
        for handle in list_nodes(graph)? {
            let mut kind = -1;
            // SAFETY: a node of the program, and a number that the driver writes.
            let code = unsafe { driver().node_type(handle, &raw mut kind) };
            if code != SUCCESS {
                return Err(refused("cuGraphNodeGetType", code));
            }
            let work = match kind {
                kind::KERNEL => self.read_kernel_node(handle)?,
                kind::COPY | kind::SET => NodeWork::Other,
                kind::EMPTY => NodeWork::Nothing,
                kind => {
                    let reason = Reason::GraphNode { kind };
                    if matches!(kind, kind::GRAPH | kind::CONDITION) {
                        // Any kernels may be inside it.
                        self.name_left_out("?", reason.clone());
                    }
                    obstacle.get_or_insert(reason);
                    NodeWork::Nothing
                }
            };
            nodes.push(Node { handle, work });
        }
        Ok((nodes, obstacle))
    }

    fn read_kernel_node(&mut self, node: Handle) -> Result<NodeWork, Reason> {
        let none = std::ptr::null_mut();
        let mut parameters = KernelNodeParameters {
            function: none,
            grid: [0; 3],
            block: [0; 3],
            dynamic_shared: 0,
            parameters: std::ptr::null_mut(),
            extra: std::ptr::null_mut(),
            kernel: none,
            context: none,
        };
        // SAFETY: a kernel's node, and a struct that the driver writes.
        let code = unsafe { driver().kernel_node(node, &raw mut parameters) };
        match code {
            // SAFETY: as the driver wrote it.
            SUCCESS => unsafe { self.read_node_launch(node, &parameters) },
            code => Err(refused("cuGraphKernelNodeGetParams_v2", code)),
        }
    }

    /// Reads the launch of a kernel's node.
    ///
    /// # Safety
    /// `parameters` must be parameters that the driver gave or accepts.
    unsafe fn read_node_launch(
        &mut self,
        node: Handle,
        parameters: &KernelNodeParameters,
    ) -> Result<NodeWork, Reason> {
        let is_known = |handle: &Handle| self.kernels.contains_key(&handle.addr());
        let handles = [parameters.function, parameters.kernel];
        let Some(handle) = handles.into_iter().find(is_known) else {
            if self.request.kernels.is_empty() {
                self.leave_out("?", Reason::UnknownModule);
            }
            return Ok(NodeWork::Other);
        };
        let known = self.kernels.get(&handle.addr());
        let Some(kernel) = known.filter(|kernel| kernel.is_selected) else {
            return Ok(NodeWork::Other);
        };
        let mut launch = Launch {
            kernel: handle,
            grid: parameters.grid,
            block: parameters.block,
            dynamic_shared: parameters.dynamic_shared,
            cooperative: false,
            cluster: None,
            programmatic: false,
            arguments: Arguments::Given {
                parameters: parameters.parameters,
                extra: parameters.extra,
            },
        };
        // The program may free the memory that the node's parameters are in.
        launch.arguments = Arguments::Copied(launch.read_arguments(kernel.is_kernel)?);
        for attribute in ATTRIBUTES {
            let mut value = [0; 16];
            let id = attribute.cast_signed();
            // SAFETY: a kernel's node, and 64 bytes that the driver writes.
            let code = unsafe { driver().kernel_node_attribute(node, id, &raw mut value) };
            if code == SUCCESS {
                launch.add(attribute, value);
            }
        }
        Ok(NodeWork::Kernel(Box::new(launch)))
    }

    /// Notes that the program gave another launch to a node of an instance.
    ///
    /// # Safety
    /// `parameters` must be parameters that the driver accepted.
    pub unsafe fn set_node(
        &mut self,
        instance: Handle,
        node: Handle,
        parameters: &KernelNodeParameters,
    ) {
        let Some(mut known) = self.graphs.instances.remove(&instance.addr()) else {
            return;
        };
        // SAFETY: as the caller says.
        match unsafe { self.read_node_launch(node, parameters) } {
            Ok(work) => match known.nodes.iter_mut().find(|known| known.handle == node) {
                Some(ours) => {
                    ours.work = work;
                    known.kernels.extend(ours.kernel());
                }
                None => known.obstacle = Some(Reason::GraphUpdated),
            },
            Err(reason) => known.obstacle = Some(reason),
        }
        self.graphs.instances.insert(instance.addr(), known);
        unsettle();
    }
}

/// Launches an instance. `run` is the driver's launch of it. Each node runs exactly once, whether or not it is
/// captured.
pub fn launch(instance: Handle, stream: Handle, run: &dyn Fn() -> CuResult) -> CuResult {
    let generation = generation();
    if count_settled(instance) {
        return run();
    }
    let Some(mut state) = state() else {
        return run();
    };
    // The launch becomes a node of the graph that is recorded.
    if state.memory.is_recording() && is_recorded(stream) {
        drop(state);
        return run();
    }
    let Some(known) = state.graphs.instances.remove(&instance.addr()) else {
        if state.request.kernels.is_empty() {
            state.leave_out("?", Reason::UnknownGraph);
        }
        drop(state);
        return run();
    };
    let kernels: Vec<Handle> = known.nodes.iter().filter_map(Node::kernel).collect();
    let counter = state.counter_of(&kernels);
    count(counter);
    let code = switch_off(&mut state, (generation, counter), instance, &known)
        .map(|switches| run_apart(&mut state, &known.nodes, &switches, run));
    state.graphs.instances.insert(instance.addr(), known);
    drop(state);
    code.unwrap_or_else(run)
}

/// Switches all nodes off if a launch of one of them is to be captured now, and can be.
fn switch_off<'a>(
    state: &mut State,
    (generation, counter): (u64, Counter),
    instance: Handle,
    known: &'a Instance,
) -> Option<Switches<'a>> {
    let chosen: Vec<String> = (known.kernels.iter())
        .filter_map(|kernel| Some(state.choose(*kernel)?.0.symbol))
        .collect();
    if chosen.is_empty() {
        if !state.memory.is_recording() {
            settle(instance, generation, counter);
        }
        return None;
    }
    if state.memory.is_recording() {
        for symbol in &chosen {
            state.name_left_out(symbol, Reason::Recording);
        }
        return None;
    }
    let switches = match &known.obstacle {
        Some(reason) => Err(reason.clone()),
        None => Switches::all_off(instance, &known.nodes)
            .map_err(|code| refused("cuGraphNodeSetEnabled", code)),
    };
    let left_out = |reason: Reason| {
        for symbol in &chosen {
            state.leave_out(symbol, reason.clone());
        }
    };
    switches.map_err(left_out).ok()
}

/// Runs the nodes apart, after all of them were switched off. Nodes between captured kernels are launched together.
fn run_apart(
    state: &mut State,
    nodes: &[Node],
    switches: &Switches,
    run: &dyn Fn() -> CuResult,
) -> CuResult {
    let run_only = |some: &[&Node]| {
        some.iter().for_each(|object| switches.set(object, true));
        let code = run();
        some.iter().for_each(|object| switches.set(object, false));
        code
    };
    let mut waiting = Vec::new();
    let mut code = SUCCESS;
    for node in nodes {
        let NodeWork::Kernel(launch) = &node.work else {
            waiting.push(node);
            continue;
        };
        let Some((kernel, region)) = state.choose(launch.kernel) else {
            waiting.push(node);
            continue;
        };
        if !waiting.is_empty() {
            code = run_only(&std::mem::take(&mut waiting));
        }
        if code == SUCCESS {
            code = launch.record(state, (&kernel, region), &|| run_only(&[node]));
        }
        if code != SUCCESS {
            return code;
        }
    }
    if waiting.is_empty() {
        code
    } else {
        run_only(&waiting)
    }
}

/// Nodes that are switched off. Dropping this switches them on again.
struct Switches<'a> {
    instance: Handle,
    nodes: &'a [Node],
}

impl<'a> Switches<'a> {
    fn all_off(instance: Handle, nodes: &'a [Node]) -> Result<Self, CuResult> {
        let switches = Self { instance, nodes };
        for node in nodes {
            let code = switches.try_set(node, false);
            if code != SUCCESS {
                return Err(code);
            }
        }
        Ok(switches)
    }

    fn set(&self, node: &Node, on: bool) {
        // The call worked before with the same node.
        let _ = self.try_set(node, on);
    }

    fn try_set(&self, node: &Node, on: bool) -> CuResult {
        match node.work {
            NodeWork::Nothing => SUCCESS,
            // SAFETY: an instance of the program, and a node of its graph.
            NodeWork::Kernel(_) | NodeWork::Other => unsafe {
                driver().node_set_enabled(self.instance, node.handle, u32::from(on))
            },
        }
    }
}

impl Drop for Switches<'_> {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|node| self.set(node, true));
    }
}
