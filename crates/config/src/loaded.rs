//! The result of loading a gates file: its plan, its gates, and the lines in which they were written.

use super::binaries::BinaryGates;
use super::places::Places;
use super::programs::Program;
use super::tune::Tune;
use model::{CaseId, Gate, Plan, Target};
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct Loaded {
    /// The directory of gates.yaml. Paths of the plan are relative to it.
    pub root: PathBuf,
    /// The file as it was read: its name, `gates.yaml`, and its text.
    pub places: Places,
    pub plan: Plan,
    pub gates: Vec<Gate>,
    pub targets: Vec<Target>,
    pub toolchain: ToolchainPin,
    /// Every case of the file, selected or not.
    pub all: Vec<CaseId>,
    /// The whole file, without the filters of this run.
    pub whole: Whole,
    /// Whether the selection has other seeds than the file.
    pub reseeded: bool,
    /// Everything that can be tuned, selected or not.
    pub tunes: Vec<Tune>,
    /// The compiled files. Filters do not select among them.
    pub binaries: Vec<BinaryGates>,
    /// The programs that the selection names. Their cases are known only after they ran.
    pub programs: Vec<Program>,
}

impl Loaded {
    /// Starts with what is built and run, and all of it selected.
    pub fn new(places: Places, plan: Plan, gates: Vec<Gate>) -> Self {
        let gaps = plan.uncaptured.iter().map(|gap| &gap.case);
        Self {
            root: PathBuf::new(),
            places,
            all: plan
                .cases
                .iter()
                .map(|case| &case.id)
                .chain(gaps)
                .cloned()
                .collect(),
            whole: Whole {
                plan: plan.clone(),
                gates: gates.clone(),
            },
            plan,
            gates,
            targets: Vec::new(),
            toolchain: ToolchainPin::default(),
            reseeded: false,
            tunes: Vec::new(),
            binaries: Vec::new(),
            programs: Vec::new(),
        }
    }
}

/// A file with all of its cases, and with the values that the selection replaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Whole {
    pub plan: Plan,
    pub gates: Vec<Gate>,
}

/// The compiler that the file asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolchainPin {
    /// The CUDA release, such as `13.0` or `13.0.2`.
    pub cuda: Option<String>,
}
