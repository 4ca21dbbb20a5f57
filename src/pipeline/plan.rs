//! What a run is to do, before anything is built: the plan with its policy, the base's tree, the compiler.

use super::{Profile, Request, base, past, shard, simulate};
use build::apart::{Reads, Trees};
use build::toolchain::{self, Profiler, Toolchain};
use check::cache::References;
use config::{Loaded, Places};
use model::{
    Base, Case, CompilerFacts, DeviceFacts, DrawnSeed, Evidence, Fault, FaultKind, Plan, Policy,
    Profiling, Seen, Shard, Unit,
};
use records::repo;
use records::store;
use report::progress::Event;
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Diagnostic, Error, Result};

/// Everything that a run goes by.
pub(super) struct Planned {
    /// The directory of gates.yaml.
    pub root: PathBuf,
    pub places: Places,
    pub plan: Plan,
    pub policy: Policy,
    /// Of head.
    pub commit: Option<String>,
    pub sources: Option<String>,
    /// Where a part of the cases is run: `plan` and `policy` are that part's.
    pub shard: Option<Shard>,
    pub toolchain: Toolchain,
    pub references: References,
    pub base: Option<BaseTree>,
    /// Only where it is asked for.
    pub profiler: std::result::Result<Profiler, Fault>,
}

/// Profiles of a case that a relative limit rests on.
const REPEATS: u32 = 3;

/// The files that the units of each side were made of.
#[derive(Default)]
pub(super) struct UnitReads {
    pub head: Reads,
    pub base: Reads,
}

/// What the base is built of.
pub(super) struct BaseTree {
    /// Its files, which stay as long as this does.
    pub tree: repo::Tree,
    /// The compiler that it asks for.
    pub toolchain: Toolchain,
    pub references: References,
    /// It beside head's.
    pub trees: Trees,
}

/// # Errors
/// What keeps a run from starting at all: baselines, acceptances, the base or an anchor, the compiler.
pub(super) fn plan(
    request: &Request,
    mut loaded: Loaded,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Planned> {
    let profiler = find_profiler(request, &mut loaded.plan);
    let pairing = request.base.as_ref();
    loaded.plan.pairing = pairing.map(|asked| config::pairing(asked.unchanged));
    // Before it is dealt: all shards have the same.
    if request.base.is_some() && !loaded.reseeded {
        draw_seed(&mut loaded);
    }
    let shard = request.shard.as_ref();
    let shard = shard.map(|asked| shard::take(asked, &mut loaded));
    let shard = shard.transpose()?;
    let accepted = config::load_acceptances(&loaded)?;
    let Loaded {
        root,
        file,
        places,
        plan,
        gates,
        targets,
        toolchain: pin,
        all,
        whole,
        ..
    } = loaded;
    let (baselines, broken_baselines) = store::load_baselines(&root)?;
    let found = request.base.as_ref().map(|asked| {
        let head = base::Head {
            file: &file,
            all: &all,
            whole: &whole,
        };
        base::find(asked, &root, &head, cache)
    });
    let found = found.transpose()?;
    let (tree, mut base) = found.map(|it| ((it.tree, it.pin), it.base)).unzip();
    if let Some(base) = &mut base {
        base.plan.profiling = plan.profiling;
        if let Some(drawn) = &plan.drawn {
            base.plan.draw(drawn);
        }
    }
    let commit = repo::commit(&root);
    let sources = repo::digest(&root);
    if let Some(base) = &base {
        warn_of_base(&root, base, commit.as_deref(), on);
    }
    // The same of every shard.
    let of_whole = shard.as_ref().map(|shard| &shard.whole.gates);
    let anchors = past::anchors(&root, of_whole.unwrap_or(&gates))?;
    let toolchain = find_compiler(request, pin.cuda.as_deref(), cache, on)?;
    let tree = tree.map(|(tree, theirs)| {
        let toolchain = match theirs == pin.cuda {
            true => toolchain.clone(),
            false => find_compiler(request, theirs.as_deref(), cache, on).map_err(of_base)?,
        };
        Ok::<_, Error>((tree, toolchain))
    });
    let tree = tree.transpose()?;
    let tree = tree.map(|(tree, theirs)| {
        let trees = base::trees(&root, &tree, &[&toolchain, &theirs], cache)?;
        let host = Some(theirs.host_compiler.as_path());
        let references = References::open(&tree.root, cache, host, base::hidden_from_base(&trees))?;
        Ok::<_, Error>(BaseTree {
            tree,
            toolchain: theirs,
            references,
            trees,
        })
    });
    let tree = tree.transpose()?;
    let trees = tree.as_ref().map(|base| &base.trees);
    let hidden = trees.map(base::hidden_from_head).unwrap_or_default();
    let references = References::open(&root, cache, Some(&toolchain.host_compiler), hidden)?;
    if let Some(drawn) = &plan.drawn {
        say_seed(drawn, on);
    }
    Ok(Planned {
        root,
        places,
        plan,
        policy: Policy {
            gates,
            baselines,
            broken_baselines,
            require_gpu: request.require_gpu,
            anchors,
            accepted,
            targets,
            allow_fallback: request.allow_fallback,
            base,
        },
        commit,
        sources,
        shard,
        toolchain,
        references,
        base: tree,
        profiler,
    })
}

/// Drawn seeds lie from here on, where nobody writes seeds by hand.
const DRAWN_FROM: u64 = 1 << 32;

/// Data that is not known while a change is written: who tunes a kernel to the seeds of gates.yaml is found out.
fn draw_seed(loaded: &mut Loaded) {
    let Some(commit) = repo::head(&loaded.root) else {
        return;
    };
    let hash = blake3::hash(format!("gatekeeper seed {commit}").as_bytes());
    let number = hash.as_bytes().iter().take(4);
    let number = number.fold(0, |all, byte| all << 8 | u64::from(*byte));
    let mut seed = DRAWN_FROM + number;
    let cases = &loaded.plan.cases;
    while cases.iter().any(|case| case.seeds.contains(&seed)) {
        seed += 1;
    }
    loaded.plan.draw(&DrawnSeed { seed, commit });
}

fn say_seed(drawn: &DrawnSeed, on: &(dyn Fn(Event) + Sync)) {
    let DrawnSeed { seed, commit } = drawn;
    let commit = commit.get(..12).unwrap_or(commit);
    on(Event::Waiting(format!(
        "seed {seed} is drawn from commit {commit}, in addition to those of gates.yaml; `--seeds {seed}` repeats it alone"
    )));
}

/// What the plan is to do about profiles, and what does it. That there is no profiler is a verdict of every gate that
/// needs one, and no end of the run.
fn find_profiler(request: &Request, plan: &mut Plan) -> std::result::Result<Profiler, Fault> {
    let missing = |message: String| Fault {
        kind: FaultKind::ProfilerMissing,
        message,
    };
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

/// A base that is ahead of head, or the same, compares other than its name says.
fn warn_of_base(root: &Path, base: &Base, commit: Option<&str>, on: &(dyn Fn(Event) + Sync)) {
    if repo::has_more(root, &base.commit) {
        on(Event::Waiting(format!(
            "{} has commits that HEAD lacks: gates that are stricter there count as loosened here, until it is merged or HEAD is rebased",
            base.revision
        )));
    }
    if Some(base.commit.as_str()) == commit {
        on(Event::Waiting(format!(
            "{} is HEAD itself, and no file that git tracks has changed: there is nothing to compare",
            base.revision
        )));
    }
}

impl Planned {
    /// Units of the base whose variant is part of this run, and what they are built of.
    pub fn base_units(&self) -> Option<(&BaseTree, Vec<Unit>)> {
        let tree = self.base.as_ref()?;
        let base = self.policy.base.as_ref()?;
        Some((tree, base::units(&self.plan, &base.plan)))
    }

    /// The base's compiler, where it is not head's.
    pub fn base_compiler(&self) -> Option<&CompilerFacts> {
        let theirs = &self.base.as_ref()?.toolchain.facts;
        (*theirs != self.toolchain.facts).then_some(theirs)
    }

    /// # Errors
    /// Usage, where the base is built or computed from files of the head, by `units` or by the references so far.
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

    /// What the base's references compute on head's inputs; nothing where there is no base.
    pub fn compare_references(&self, device: &Seen<DeviceFacts>) -> Vec<Evidence> {
        let (Some(tree), Some(base)) = (&self.base, &self.policy.base) else {
            return Vec::new();
        };
        // A machine with a GPU computes the references of all that it checks.
        let too_large = |case: &Case| match device {
            Seen::Got(_) => None,
            _ => simulate::too_large(case),
        };
        let (theirs, ours) = (&tree.references, &self.references);
        base::compare_references(theirs, &base.plan, ours, &self.plan, &too_large)
    }
}

fn of_base(error: Error) -> Error {
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

fn find_compiler(
    request: &Request,
    pin: Option<&str>,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Toolchain> {
    match toolchain::find(pin, cache) {
        Err(_) if request.provision => {
            toolchain::install(cache, &|line| on(Event::Waiting(line.to_owned())))?;
            toolchain::find(pin, cache)
        }
        found => found,
    }
}
