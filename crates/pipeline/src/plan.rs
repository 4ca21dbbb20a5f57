//! Plans a run before anything is built: the plan with its policy, the base's tree, and the compiler.

use super::request::{Change, Profile, Request};
use super::sources::Sources;
use super::{base, shard};
use crate::event::Event;
use build::apart::{OwnedTrees, Reads};
use build::toolchain::{self, Choice, Profiler, Toolchain};
use check::cache::References;
use config::{Loaded, Places};
use model::{
    Case, Checkout, CompilerFacts, DeviceFacts, Environment, Evidence, Fault, FaultKind, Plan,
    Policy, Profiling, Seen, Shard, Simulator, TIMING_PROTOCOL, Unit,
};
use ptxsim::COUNTER_MODEL;
use records::store;
use run::device::sim;
use run::machine;
use std::any::Any;
use std::path::PathBuf;
use system::cache::Cache;
use system::error::{Diagnostic, Error, Result};

/// Everything that a run needs to know.
pub(super) struct Planned {
    /// The directory that holds head's gates.yaml.
    pub root: PathBuf,
    pub places: Places,
    pub plan: Plan,
    pub policy: Policy,
    /// The commit of head's tree, if it is known.
    pub commit: Option<String>,
    pub sources: Option<String>,
    pub checkout: Checkout,
    /// The shard, if only a part of the cases is run. `plan` and `policy` then belong to that part.
    pub shard: Option<Shard>,
    pub toolchain: Toolchain,
    /// The compiler as the command line names it.
    pub named_compiler: Option<String>,
    pub references: References,
    pub base: Option<BaseTree>,
    /// The profiler, or why there is none. It is only looked for if profiles are asked for.
    pub profiler: std::result::Result<Profiler, Fault>,
}

/// The number of profiles of a case that a relative limit rests on.
const REPEATS: u32 = 3;

/// The files that the units of each side were made from.
#[derive(Default)]
pub(super) struct UnitReads {
    pub head: Reads,
    pub base: Reads,
}

/// The tree that the base is built from.
pub(super) struct BaseTree {
    /// The directory that holds the base's gates.yaml.
    pub root: PathBuf,
    /// The compiler that the base asks for.
    pub toolchain: Toolchain,
    pub references: References,
    /// The directories of both sides, which are kept apart.
    pub trees: OwnedTrees,
    /// Keeps the files of the base in place.
    _files: Box<dyn Any + Send + Sync>,
}

/// Plans a run.
///
/// # Errors
/// Fails if the run cannot start at all: baselines, acceptances, the compiler.
pub(super) fn plan(
    request: &Request,
    change: Change,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Planned> {
    let Change {
        head: mut loaded,
        commit,
        sources,
        checkout,
        anchors,
        compiler,
        base,
        ..
    } = change;
    let profiler = find_profiler(request, &mut loaded.plan);
    // Whoever made the change may have asked for more processes.
    let asked = loaded.plan.pairing.take();
    loaded.plan.pairing = base
        .is_some()
        .then(|| asked.unwrap_or_else(|| config::pairing(request.time_unchanged)));
    // Rivals follow from the gates of all shards, which have one plan.
    loaded.plan.request_rivals(&loaded.gates, request.rivals);
    let shard = request.shard.as_ref();
    let shard = shard.map(|asked| shard::take(asked, &mut loaded));
    let shard = shard.transpose()?;
    let accepted = config::load_acceptances(&loaded)?;
    let Loaded {
        root,
        places,
        plan,
        gates,
        targets,
        ..
    } = loaded;
    let (baselines, broken_baselines) = store::load_baselines(&root)?;
    let toolchain = find_compiler(request, &compiler, cache, on)?;
    let base = base.map(|mut side| {
        side.spec.plan.profiling = plan.profiling;
        let theirs = if side.compiler == compiler { toolchain.clone() } else { find_compiler(request, &side.compiler, cache, on).map_err(|error| {
                match side.file_isolation {
                    Some(_) => blame_base(error),
                    None => error,
                }
            })? };
        if side.file_isolation.is_none() && theirs.facts == toolchain.facts {
            return Err(Error::usage(format!(
                "nothing to compare: head and base are the same files, and both compilers are nvcc {}",
                theirs.facts.version
            ))
            .help("name another compiler with --toolchain or --base-toolchain"));
        }
        let trees = base::trees(&side, &[&toolchain, &theirs], cache)?;
        let host = Some(theirs.host_compiler.as_path());
        let references = References::open(&side.root, cache, host, base::hidden_from_base(&trees))?;
        let tree = BaseTree {
            root: side.root,
            toolchain: theirs,
            references,
            trees,
            _files: side.files,
        };
        Ok::<_, Error>((tree, side.spec))
    });
    let (tree, base) = base.transpose()?.unzip();
    let trees = tree.as_ref().map(|base: &BaseTree| &base.trees);
    let hidden = trees.map(base::hidden_from_head).unwrap_or_default();
    let references = References::open(&root, cache, Some(&toolchain.host_compiler), hidden)?;
    Ok(Planned {
        root,
        places,
        plan,
        policy: Policy {
            gates,
            baselines,
            broken_baselines,
            base_faults: Vec::new(),
            require_gpu: request.require_gpu,
            anchors,
            accepted,
            targets,
            allow_fallback: request.allow_fallback,
            base,
        },
        commit,
        sources,
        checkout,
        shard,
        toolchain,
        named_compiler: compiler.named(),
        references,
        base: tree,
        profiler,
    })
}

/// Decides what the plan does about profiles, and finds the profiler. A missing profiler is a verdict of every gate
/// that needs one, and does not end the run.
fn find_profiler(request: &Request, plan: &mut Plan) -> std::result::Result<Profiler, Fault> {
    let missing = |message: String| Fault::new(FaultKind::ProfilerMissing, message);
    if request.profile == Profile::No {
        return Err(missing("none was asked for".to_owned()));
    }
    plan.profiling = Some(Profiling { repeats: REPEATS });
    if request.profile == Profile::Only {
        plan.rivals.clear();
        for case in &mut plan.cases {
            case.timed = false;
        }
    }
    toolchain::find_profiler().map_err(|error| missing(error.to_string()))
}

impl BaseTree {
    /// Returns the sources of the base, to quote lines from.
    pub fn sources(&self) -> Sources<'_> {
        Sources::new(&self.root, &self.toolchain.include)
    }
}

impl Planned {
    /// Returns the sources of head, to quote lines from.
    pub fn sources(&self) -> Sources<'_> {
        Sources::new(&self.root, &self.toolchain.include)
    }

    /// Returns the units of the base whose variant is part of this run, and the tree that they are built from.
    pub fn base_units(&self) -> Option<(&BaseTree, Vec<Unit>)> {
        let tree = self.base.as_ref()?;
        let base = self.policy.base.as_ref()?;
        Some((tree, base::units(&self.plan, &base.plan)))
    }

    pub fn environment(&self, request: &Request, device: &Seen<DeviceFacts>) -> Environment {
        // The simulator replaces a missing GPU, but not one that is broken or required.
        let is_absent = matches!(device, Seen::NotRun(_));
        let simulator = (is_absent && !request.require_gpu).then_some(Simulator {
            counter_model: COUNTER_MODEL,
        });
        Environment {
            gatekeeper: env!("CARGO_PKG_VERSION").to_owned(),
            started: machine::now(),
            timing_protocol: TIMING_PROTOCOL,
            command: request.command.clone(),
            config: request.config.display().to_string(),
            host: machine::host(),
            commit: self.commit.clone(),
            sources: self.sources.clone(),
            checkout: Some(self.checkout.clone()),
            compiler: Seen::Got(self.toolchain.facts.clone()),
            toolchain: self.named_compiler.clone(),
            base_compiler: self.base_compiler().cloned(),
            device: device.clone(),
            simulator,
            parts: Vec::new(),
        }
    }

    /// Returns the base's compiler, if it differs from head's.
    pub fn base_compiler(&self) -> Option<&CompilerFacts> {
        let theirs = &self.base.as_ref()?.toolchain.facts;
        (*theirs != self.toolchain.facts).then_some(theirs)
    }

    /// Refuses a base that is made from head's files.
    ///
    /// # Errors
    /// Fails with a usage error if `units` of the base, or its references so far, are made from files of head.
    pub fn refuse_crossing(&self, units: &UnitReads) -> Result<()> {
        let Some(BaseTree {
            trees, references, ..
        }) = &self.base
        else {
            return Ok(());
        };
        let head = units.head.clone().and(self.references.reads());
        let base = units.base.clone().and(references.reads());
        base::refuse_crossing(trees.find_crossing(&head, &base))
    }

    /// Runs the base's references on head's inputs. Returns nothing if there is no base.
    pub fn compare_references(&self, device: &Seen<DeviceFacts>) -> Vec<Evidence> {
        let (Some(tree), Some(base)) = (&self.base, &self.policy.base) else {
            return Vec::new();
        };
        // A machine with a GPU computes the references of everything that it checks.
        let too_large = |case: &Case| match device {
            Seen::Got(_) => None,
            _ => sim::too_large(case),
        };
        let (theirs, ours) = (&tree.references, &self.references);
        base::compare_references(theirs, &base.plan, ours, &self.plan, &too_large)
    }
}

fn blame_base(error: Error) -> Error {
    match error {
        Error::Usage(_) => error,
        Error::Environment(diagnostic) => Error::Environment(
            Diagnostic {
                message: format!(
                    "the base is built too, by its own compiler: {}",
                    diagnostic.message
                ),
                ..diagnostic
            }
            .help("or run without --base, where this machine cannot have both compilers"),
        ),
    }
}

pub(super) fn find_compiler(
    request: &Request,
    choice: &Choice,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Toolchain> {
    match toolchain::find_choice(choice, cache) {
        Err(_) if request.provision => {
            toolchain::provide(choice, cache, &|line| on(Event::Waiting(line.to_owned())))
        }
        found => found,
    }
}
