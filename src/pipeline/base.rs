//! The revision that head is held against: its files, what it asks, and which of its kernels to build.

use crate::cache::Cache;
use crate::check::beside::{self, Sides};
use crate::check::cache::References;
use crate::config::{self, Loaded, Selection};
use crate::error::{Diagnostic, Error, Result};
use crate::pipeline::moved::{self, Moves, Trees};
use crate::{repo, sources, store};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use verdict::judge::{self, renames};
use verdict::model::{Base, Case, CaseId, Evidence, Loosening, NotRun, Plan, Simulation, Unit};

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
}

/// # Errors
/// Usage, where there is no such revision or its gates.yaml cannot be read.
pub fn find(asked: &Asked, root: &Path, head: &Head, cache: &Cache) -> Result<Found> {
    let mut tree = repo::revision(root, &asked.revision, cache)?;
    let top = repo::top(root)?;
    let mut path = tree.root.join(head.file);
    let own = path.strip_prefix(&tree.top).unwrap_or(&path);
    let top_of_base = tree.top.clone();
    let trees = Trees {
        base: &top_of_base,
        head: &top,
    };
    let Moves { origin, gone } = moved::find(&trees, &asked.revision, own, head.all)?;
    let own = own.to_owned();
    let was = origin.as_ref().map_or(&own, |origin| &origin.file).clone();
    if origin.is_some() {
        path = top_of_base.join(&was);
        tree.root = path.parent().unwrap_or(&tree.top).to_owned();
    }
    let (plan, gates, accepted, pin) = match path.is_file() {
        true => {
            let loaded = config::load(&path, &asked.instead);
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
    let (baselines, _) = store::load_baselines(&tree.root)?;
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
    let head = config::load(&root.join(head.file), &asked.instead)?;
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
    use_names_of_head(&mut base, &head);
    Ok(Found { base, tree, pin })
}

fn keep_kernels(base: &mut Base, is_kept: impl Fn(&str) -> bool) {
    base.plan.retain(&is_kept);
    base.gates.retain(|gate| is_kept(gate.subject.kernel()));
}

/// Once, so that all that follows compares what is the same under one name.
fn use_names_of_head(base: &mut Base, head: &Loaded) {
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

/// A flag or directory outside the tree that is in head's has the base built of head's headers: it would come to the
/// same code, and nothing be timed.
fn no_files_of_head(base: &Plan, top: &Path) -> Result<()> {
    let top = top.display().to_string();
    let names = |text: &str| text.ends_with(&top) || text.contains(&format!("{top}/"));
    let refused = |what: &str, written: &str| {
        Err(Error::Usage(
            Diagnostic::new(format!(
                "the {what} `{written}` would have the base built of files of the head"
            ))
            .help("name directories relative to gates.yaml, under `include_dirs`"),
        ))
    };
    for unit in &base.units {
        if let Some(flag) = unit.flags.iter().find(|flag| names(flag)) {
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

fn nothing() -> Plan {
    Plan {
        units: Vec::new(),
        cases: Vec::new(),
        timing: config::default_timing(),
        simulation: Simulation { budget: 0 },
        pairing: None,
        profiling: None,
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
    help.push(
        "where this change mends the base, run without --base (`base: \"\"` of the action)"
            .to_owned(),
    );
    Error::Usage(Diagnostic {
        message: format!("of the base {revision}: {message}"),
        at,
        key,
        help,
    })
}
