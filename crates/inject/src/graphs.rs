//! Keeps what is known of CUDA graphs and their instances, as far as a launch of an instance needs it.

use crate::call::{Launch, refused};
use crate::driver::{CuResult, Handle, INVALID_VALUE, NOT_FOUND, SUCCESS, driver};
use crate::settled::unsettle;
use capture::Reason;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Default)]
pub struct Graphs {
    /// The instances, by their handle (CUgraphExec).
    pub instances: BTreeMap<usize, Instance>,
    /// The graphs that have instances, by handle.
    graphs: BTreeMap<usize, Kept>,
}

/// A graph that is kept as long as an instance of it exists, because the driver knows the instance's nodes by the
/// graph's nodes.
#[derive(Default)]
struct Kept {
    instances: u32,
    destroyed: bool,
}

pub struct Instance {
    pub graph: usize,
    /// The nodes in an order that the edges allow.
    pub nodes: Vec<Node>,
    /// The kernels among the nodes that are to be captured, each once.
    pub kernels: BTreeSet<Handle>,
    /// The reason for which its nodes cannot run one after the other.
    pub obstacle: Option<Reason>,
}

pub struct Node {
    pub handle: Handle,
    pub work: NodeWork,
}

pub enum NodeWork {
    /// The launch of a kernel that is to be captured.
    Kernel(Box<Launch>),
    /// Other work, which can be switched off.
    Other,
    /// The node only joins other nodes.
    Nothing,
}

impl Node {
    pub fn kernel(&self) -> Option<Handle> {
        match &self.work {
            NodeWork::Kernel(launch) => Some(launch.kernel),
            NodeWork::Other | NodeWork::Nothing => None,
        }
    }
}

impl Graphs {
    /// Adds an instance. Its graph is kept from now on.
    pub fn insert(&mut self, handle: Handle, instance: Instance) {
        self.remove(handle);
        self.graphs.entry(instance.graph).or_default().instances += 1;
        self.instances.insert(handle.addr(), instance);
        unsettle();
    }

    /// Notes that the program changed an instance in a way that is not followed.
    pub fn update(&mut self, instance: Handle) {
        if let Some(known) = self.instances.get_mut(&instance.addr()) {
            known.obstacle = Some(Reason::GraphUpdated);
        }
    }

    /// Removes an instance before the driver destroys it. Its graph is then no longer needed.
    pub fn remove(&mut self, instance: Handle) {
        let Some(known) = self.instances.remove(&instance.addr()) else {
            return;
        };
        let Some(kept) = self.graphs.get_mut(&known.graph) else {
            return;
        };
        kept.instances -= 1;
        if kept.instances == 0 {
            let destroyed = kept.destroyed;
            self.graphs.remove(&known.graph);
            if destroyed {
                let graph = std::ptr::without_provenance_mut(known.graph);
                // SAFETY: the program asked for it earlier.
                unsafe { driver().graph_destroy(graph) };
            }
        }
    }

    /// Marks a graph that the program destroys as kept until its last instance is destroyed. Returns what the driver
    /// would answer, or `None` if the graph has no instance.
    pub fn keep(&mut self, graph: Handle) -> Option<CuResult> {
        let kept = self.graphs.get_mut(&graph.addr())?;
        if std::mem::replace(&mut kept.destroyed, true) {
            // The driver answers this for a graph that does not exist.
            Some(INVALID_VALUE)
        } else {
            Some(SUCCESS)
        }
    }
}

/// Returns the nodes of a graph in an order that its edges allow.
pub fn list_nodes(graph: Handle) -> Result<Vec<Handle>, Reason> {
    let mut count = 0;
    // SAFETY: the driver writes how many there are.
    let code = unsafe { driver().graph_nodes(graph, std::ptr::null_mut(), &raw mut count) };
    let mut nodes = vec![std::ptr::null_mut(); count];
    let code = match code {
        // SAFETY: there is room for as many.
        SUCCESS => unsafe { driver().graph_nodes(graph, nodes.as_mut_ptr(), &raw mut count) },
        code => code,
    };
    match code {
        SUCCESS => Ok(order(&nodes, &list_edges(graph)?)),
        code => Err(refused("cuGraphGetNodes", code)),
    }
}

fn list_edges(graph: Handle) -> Result<Vec<(Handle, Handle)>, Reason> {
    let read = |from: *mut Handle, to: *mut Handle, data: *mut u64, count: *mut usize| {
        // SAFETY: null, or room for `count` of each.
        match unsafe { driver().graph_edges(graph, from, to, data, count) } {
            // SAFETY: as above.
            NOT_FOUND => unsafe { driver().graph_plain_edges(graph, from, to, count) },
            code => code,
        }
    };
    let none = std::ptr::null_mut::<Handle>;
    let mut count = 0;
    let code = read(none(), none(), std::ptr::null_mut(), &raw mut count);
    let mut from: Vec<Handle> = vec![std::ptr::null_mut(); count];
    let mut to = from.clone();
    let mut data = vec![0; count];
    let code = match (code, count) {
        (SUCCESS, 1..) => read(
            from.as_mut_ptr(),
            to.as_mut_ptr(),
            data.as_mut_ptr(),
            &raw mut count,
        ),
        (code, _) => code,
    };
    match code {
        SUCCESS => Ok(from.into_iter().zip(to).collect()),
        code => Err(refused("cuGraphGetEdges", code)),
    }
}

/// Returns the nodes in an order in which each node is behind all nodes with an edge to it. Pure.
fn order<N: Copy + Ord>(nodes: &[N], edges: &[(N, N)]) -> Vec<N> {
    let mut missing: BTreeMap<N, usize> = nodes.iter().map(|node| (*node, 0)).collect();
    let mut behind: BTreeMap<N, Vec<N>> = BTreeMap::new();
    for (from, to) in edges {
        *missing.entry(*to).or_default() += 1;
        behind.entry(*from).or_default().push(*to);
    }
    let is_first = |node: &&N| missing.get(node) == Some(&0);
    let mut ready: VecDeque<N> = nodes.iter().filter(is_first).copied().collect();
    let mut ordered = Vec::with_capacity(nodes.len());
    while let Some(node) = ready.pop_front() {
        ordered.push(node);
        for next in behind.remove(&node).unwrap_or_default() {
            if let Some(missing) = missing.get_mut(&next) {
                *missing -= 1;
                if *missing == 0 {
                    ready.push_back(next);
                }
            }
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn a_node_comes_behind_those_with_an_edge_to_it() {
        assert_eq!(order(&[1, 2, 3], &[]), [1, 2, 3]);
        assert_eq!(order(&[1, 2, 3], &[(3, 2), (2, 1)]), [3, 2, 1]);
        assert_eq!(
            order(&[4, 3, 2, 1], &[(1, 2), (1, 3), (2, 4), (3, 4)]),
            [1, 2, 3, 4]
        );
        // An edge may occur twice, with other ports.
        assert_eq!(order(&[2, 1], &[(1, 2), (1, 2)]), [1, 2]);
    }
}
