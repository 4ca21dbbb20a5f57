//! The revision that head is held against: its files, what it asks, and which of its kernels to build.

use crate::pipeline::moved::{self, Moves};
use build::apart::{Crossing, Reader, Side, Trees};
use build::toolchain::Toolchain;
use check::beside::{self, Sides};
use check::cache::References;
use check::reference::user::HiddenFrom;
use config::{Selection, Whole};
use judge::renames;
use model::{
    Base, Case, CaseId, Evidence, Loosening, NotRun, Plan, Reference, Simulation, Unit, WarpHazards,
};
use records::repo;
use records::store;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Diagnostic, Error, Result};
use system::sources;

/// What `run` was asked to compare with.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Any name that git knows.
    pub revision: String,
    pub loosening: Loosening,
    /// Time what did not change, too.
    pub unchanged: bool,
    /// What the command line says in the place of gates.yaml, of both sides: no change of the sources.
    pub instead: Selection,
}

/// The base with its files, which stay as long as this does.
pub struct Found {
    pub tree: repo::Tree,
    pub base: Base,
    /// The compiler that its gates.yaml asks for.
    pub pin: Option<String>,
}

/// What of head decides on what the base is.
pub struct Head<'a> {
    /// Name of the file of gates.
    pub file: &'a str,
    /// Every case of that file, selected or not.
    pub all: &'a [CaseId],
    pub whole: &'a Whole,
}

/// # Errors
/// Usage, where there is no such revision or its gates.yaml cannot be read.
pub fn find(asked: &Asked, root: &Path, head: &Head, cache: &Cache) -> Result<Found> {
    let mut tree = repo::revision(root, &asked.revision, cache)?;
    let top = repo::top(root)?;
    let mut path = tree.root.join(head.file);
    let own = path.strip_prefix(&tree.top).unwrap_or(&path);
    let trees = moved::Trees {
        base: &tree,
        head: &top,
    };
    let Moves { origin, gone } = moved::find(&trees, &asked.revision, own, head.all)?;
    let own = own.to_owned();
    let was = origin.as_ref().map_or(&own, |origin| &origin.file).clone();
    if origin.is_some() {
        path = tree.top.join(&was);
    }
    let root_of_base = path.parent().unwrap_or(&tree.top).to_owned();
    let (plan, gates, accepted, pin) = match path.is_file() {
        true => {
            let loaded = config::load_in_tree(&tree.top, &path, &asked.instead);
            let loaded = loaded.map_err(|error| of_base(&error, &asked.revision))?;
            // What is broken there accepts nothing, and all of head's is new.
            let accepted = config::load_acceptances(&loaded).unwrap_or_default();
            (loaded.plan, loaded.gates, accepted, loaded.toolchain.cuda)
        }
        // The change that brings gates.yaml has nothing to be held against: every case is new.
        false => (nothing(), Vec::new(), Vec::new(), None),
    };
    no_files_of_head(&plan, &top)?;
    // What is broken there is not this change's doing.
    let (baselines, _) = store::load_baselines(&root_of_base)?;
    let mut base = Base {
        revision: asked.revision.clone(),
        commit: tree.commit.clone(),
        plan,
        gates,
        baselines,
        accepted,
        renames: Vec::new(),
        moved: Vec::new(),
        gone,
        loosening: asked.loosening,
    };
    let here: BTreeSet<&str> = head.all.iter().map(|id| id.kernel.as_str()).collect();
    if let Some(part) = origin.and_then(|origin| origin.part) {
        keep_kernels(&mut base, |kernel| {
            part.contains(kernel) && here.contains(kernel)
        });
    }
    let kernels = base.plan.cases.iter().map(|case| &case.id.kernel);
    let lost: BTreeSet<_> = kernels
        .filter(|it| !here.contains(it.as_str()))
        .cloned()
        .collect();
    let theirs = renames::Asked {
        plan: &base.plan,
        gates: &base.gates,
    };
    base.moved = moved::find_elsewhere(&trees, &own, &was, theirs, &lost, &asked.instead)?;
    let moved = base.moved.iter().flat_map(|it| &it.cases);
    let moved: BTreeSet<_> = moved.map(|id| id.kernel.clone()).collect();
    keep_kernels(&mut base, |kernel| !moved.contains(kernel));
    use_names_of_head(&mut base, head.whole);
    tree.root = root_of_base;
    Ok(Found { base, tree, pin })
}

fn keep_kernels(base: &mut Base, is_kept: impl Fn(&str) -> bool) {
    base.plan.retain(&is_kept);
    base.gates.retain(|gate| is_kept(gate.subject.kernel()));
}

/// Once, so that all that follows compares what is the same under one name.
fn use_names_of_head(base: &mut Base, head: &Whole) {
    let was = renames::Asked {
        plan: &base.plan,
        gates: &base.gates,
    };
    let is = renames::Asked {
        plan: &head.plan,
        gates: &head.gates,
    };
    let found = renames::find(was, is);
    renames::Names { renames: &found }.carry(base);
    base.renames = found;
}

/// The base's tree beside head's. Compilers, and where this program writes, are neither side's: they may lie in head's
/// tree, too.
pub fn trees(
    root: &Path,
    base: &repo::Tree,
    toolchains: &[&Toolchain],
    cache: &Cache,
) -> Result<Trees> {
    let mut tools: Vec<PathBuf> = toolchains.iter().flat_map(|it| it.places()).collect();
    for name in ["scratch", "reference-programs"] {
        tools.push(cache.dir(name)?);
    }
    let head = repo::top(root)?;
    let trees = Trees::new(&head, &base.top, &tools);
    Ok(trees.with_files_of_head(repo::tracked(&head)?))
}

/// The references of the base read nothing of head's.
pub fn hidden_from_base(trees: &Trees) -> HiddenFrom {
    HiddenFrom {
        compilers: Some(trees.hide_head()),
        programs: Some(trees.hide_head()),
    }
}

/// Those of head are built of head's tree, and then compute without it as the base's do.
pub fn hidden_from_head(trees: &Trees) -> HiddenFrom {
    HiddenFrom {
        compilers: None,
        programs: Some(trees.hide_head()),
    }
}

/// # Errors
/// Usage, where there is one: what was compared says nothing of the change.
pub fn refuse_crossing(found: Option<Crossing>) -> Result<()> {
    let Some(crossing) = found else {
        return Ok(());
    };
    Err(Error::Usage(match crossing {
        Crossing::Foreign { of, reader, file } => {
            let (side, other) = match of {
                Side::Base => ("base", "head"),
                Side::Head => ("head", "base"),
            };
            let reader = name(reader);
            let way = match file.real == file.named {
                true => String::new(),
                false => format!(", by way of {}", file.named.display()),
            };
            let file = file.real.display();
            Diagnostic::new(format!(
                "nothing was compared: {reader} of the {side} reads a file of the {other}, {file}{way}"
            ))
            .help(OWN)
            .help(MENDS)
        }
        Crossing::Unlisted { reader, said } => Diagnostic::new(format!(
            "nothing was compared: {} of the base is not built without the files of the head: {}",
            name(reader),
            said.trim()
        ))
        .help(OWN)
        .help(MENDS),
        Crossing::Changed(file) => Diagnostic::new(format!(
            "nothing was compared: {} was not the same when head and when the base read it",
            file.real.display()
        ))
        .help("it is in neither tree: run again when nothing writes to it, or take it into the repository"),
    }))
}

/// A flag or directory outside the tree that is in head's would have the base built of head's files. Links are followed
/// later, by what the compiler read; this is said before anything is built.
fn no_files_of_head(base: &Plan, top: &Path) -> Result<()> {
    let top = top.display().to_string();
    let names = |text: &str| text.ends_with(&top) || text.contains(&format!("{top}/"));
    let refused = |what: &str, written: &str| {
        Err(Error::Usage(
            Diagnostic::new(format!(
                "the {what} `{written}` would have the base built of files of the head"
            ))
            .help("name directories relative to gates.yaml, under `include_dirs`")
            .help(MENDS),
        ))
    };
    // A definition names a place and reads nothing.
    let reads = |flag: &&String| !flag.starts_with("-D") && names(flag);
    let references = base.cases.iter().filter_map(|case| match &case.reference {
        Reference::User { flags, .. } => Some(flags),
        _ => None,
    });
    if let Some(flag) = references.flatten().find(reads) {
        return refused("flag", flag);
    }
    for unit in &base.units {
        if let Some(flag) = unit.flags.iter().find(reads) {
            return refused("flag", flag);
        }
        let of_head = |dir: &&String| {
            let here = sources::expand(dir, &sources::of_process);
            here.is_ok_and(|here| names(&here))
        };
        if let Some(dir) = unit.include_dirs.iter().find(of_head) {
            return refused("directory", dir);
        }
    }
    Ok(())
}

/// What the base's references compute on head's inputs, of every case that both have at the same sizes. Needs no
/// device, and what is not simulated is compared, too.
pub fn compare_references(
    theirs: &References,
    base: &Plan,
    ours: &References,
    head: &Plan,
    too_large: &dyn Fn(&Case) -> Option<NotRun>,
) -> Vec<Evidence> {
    let pairs = judge::comparable(base, head);
    let evidence = pairs.map(|(base, head)| {
        let sides = Sides {
            base,
            theirs,
            head,
            ours,
        };
        Evidence::BaseReference {
            case: head.id.clone(),
            facts: beside::compare_references(&sides, too_large(head).as_ref()),
        }
    });
    evidence.collect()
}

/// Those of the base's units whose variant is part of this run.
pub fn units(head: &Plan, base: &Plan) -> Vec<Unit> {
    let heads = head.units.iter();
    let variants: HashSet<_> = heads
        .map(|unit| (&unit.id.kernel, &unit.id.variant))
        .collect();
    let units = base.units.iter();
    units
        .filter(|unit| variants.contains(&(&unit.id.kernel, &unit.id.variant)))
        .cloned()
        .collect()
}

fn name(reader: &Reader) -> String {
    match reader {
        Reader::Unit(unit) => unit.to_string(),
        Reader::Reference(source) => format!("the reference in {source}"),
    }
}

const OWN: &str = "name files and directories relative to gates.yaml or to the source, so that each side has its own";
const MENDS: &str =
    "where this change mends the base, run without --base (`base: \"\"` of the action)";

fn nothing() -> Plan {
    Plan {
        units: Vec::new(),
        cases: Vec::new(),
        timing: config::default_timing(),
        simulation: Simulation {
            budget: 0,
            warp_hazards: WarpHazards::Note,
        },
        pairing: None,
        profiling: None,
        drawn: None,
        rivals: Vec::new(),
        filters: Vec::new(),
        left_out: BTreeSet::new(),
        expected: Vec::new(),
        fallbacks: Vec::new(),
    }
}

fn of_base(error: &Error, revision: &str) -> Error {
    let Diagnostic {
        message,
        at,
        key,
        mut help,
    } = error.diagnostic().clone();
    help.push(MENDS.to_owned());
    Error::Usage(Diagnostic {
        message: format!("of the base {revision}: {message}"),
        at,
        key,
        help,
    })
}
