//! Finds the base of a change from a revision: its files, and its gates under head's names.

use super::BaseRequest;
use super::moved::{self, Lost, Moves};
use build::toolchain::Choice;
use config::{BinaryGates, Loaded, Program, ProgramOutput, Whole};
use judge::renames;
use model::{Base, NoGates, Plan, Reference};
use pipeline::{BaseSide, FileIsolation, MENDS};
use records::repo;
use records::store;
use std::collections::BTreeSet;
use std::path::Path;
use system::cache::Cache;
use system::error::{Diagnostic, Error, Result};
use system::sources;

/// Finds the base of a change.
///
/// # Errors
/// Usage, if there is no such revision or its gates.yaml cannot be read.
pub fn find(asked: &BaseRequest, head: &Loaded, cache: &Cache) -> Result<BaseSide> {
    let root = &head.root;
    let tree = repo::revision(root, &asked.revision, cache)?;
    let top = repo::top(root)?;
    let mut path = tree.root.join(&head.places.file);
    let own = path.strip_prefix(&tree.top).unwrap_or(&path);
    let trees = moved::Trees {
        base: &tree,
        head: &top,
    };
    let Moves {
        origin,
        elsewhere,
        gone,
        unread,
    } = moved::find(&trees, &asked.revision, own, head)?;
    let own = own.to_owned();
    let was = origin.as_ref().map_or(&own, |origin| &origin.file).clone();
    if origin.is_some() {
        path = tree.top.join(&was);
    }
    let no_gates = (!path.is_file()).then(|| NoGates {
        file: own.display().to_string(),
        elsewhere,
    });
    let root_of_base = path.parent().unwrap_or(&tree.top).to_owned();
    let mut binaries = Vec::new();
    let mut programs = Vec::new();
    let (plan, gates, accepted, pin) = match &no_gates {
        None => {
            let loaded = config::load_in_tree(&tree.top, &path, &asked.instead);
            let loaded = loaded.map_err(|error| blame_base(&error, &asked.revision))?;
            // A file that is broken at the base accepts nothing, and everything that head accepts is new.
            let accepted = config::load_acceptances(&loaded).unwrap_or_default();
            programs = loaded.programs;
            binaries = moved::seen_from(&own, &was, loaded.binaries);
            (loaded.plan, loaded.gates, accepted, loaded.toolchain.cuda)
        }
        // The change that adds gates.yaml has no base, so every case is new.
        Some(_) => (
            Plan::empty(config::default_timing()),
            Vec::new(),
            Vec::new(),
            None,
        ),
    };
    no_files_of_head(&plan, &programs, &top)?;
    // A file that is broken at the base is not the fault of this change.
    let (baselines, _) = store::load_baselines(&root_of_base)?;
    let mut base = Base {
        baselines,
        accepted,
        gone,
        unread,
        no_gates,
        loosening: asked.loosening,
        ..Base::new(&asked.revision, &tree.commit, plan, gates)
    };
    let here: BTreeSet<&str> = head.all.iter().map(|id| id.kernel.as_str()).collect();
    let ours: BTreeSet<&str> = head
        .binaries
        .iter()
        .map(|binary| binary.name.as_str())
        .collect();
    if let Some(part) = origin.and_then(|origin| origin.part) {
        keep_kernels(&mut base, |kernel| {
            part.kernels.contains(kernel) && here.contains(kernel)
        });
        programs.retain(|program| {
            part.kernels.contains(&program.name)
                && head.programs.iter().any(|ours| ours.name == program.name)
        });
        binaries.retain(|binary| {
            part.binaries.contains(&binary.name) && ours.contains(binary.name.as_str())
        });
    }
    let kernels = base
        .plan
        .cases
        .iter()
        .map(|case| &case.id.kernel)
        .filter(|kernel| !here.contains(kernel.as_str()))
        .cloned();
    let is_lost = |gates: &&BinaryGates| !ours.contains(gates.name.as_str());
    let lost = Lost {
        kernels: kernels.collect(),
        binaries: binaries.iter().filter(is_lost).collect(),
    };
    let theirs = renames::PlanAndGates {
        plan: &base.plan,
        gates: &base.gates,
    };
    base.moved = moved::find_elsewhere(&trees, &own, &was, theirs, &lost, &asked.instead)?;
    let moved: BTreeSet<_> = base
        .moved
        .iter()
        .flat_map(|case| &case.cases)
        .map(|id| id.kernel.clone())
        .collect();
    let taken: BTreeSet<_> = base
        .moved
        .iter()
        .flat_map(|gone| &gone.binaries)
        .map(|id| id.variant.clone())
        .collect();
    keep_kernels(&mut base, |kernel| !moved.contains(kernel));
    binaries.retain(|binary| !taken.contains(&binary.name));
    use_names_of_head(&mut base, &head.whole);
    Ok(BaseSide {
        spec: base,
        binaries,
        programs,
        compiler: Choice::pin(pin.as_deref()),
        root: root_of_base,
        file_isolation: Some(FileIsolation {
            top: tree.top.clone(),
            head_files: repo::tracked(&top)?,
            head_top: top,
        }),
        files: Box::new(tree),
    })
}

fn keep_kernels(base: &mut Base, is_kept: impl Fn(&str) -> bool) {
    base.plan.retain(&is_kept);
    base.gates.retain(|gate| is_kept(gate.subject.kernel()));
}

/// Renames the base's kernels once, so that everything after this compares equal things under one name.
fn use_names_of_head(base: &mut Base, head: &Whole) {
    let was = renames::PlanAndGates {
        plan: &base.plan,
        gates: &base.gates,
    };
    let is = renames::PlanAndGates {
        plan: &head.plan,
        gates: &head.gates,
    };
    let found = renames::find(was, is);
    renames::HeadNames { renames: &found }.carry(base);
    base.renames = found;
}

/// Refuses a flag or directory of the base that is outside its tree and inside head's: the base would be built of
/// head's files. Links are followed later, by what the compiler read. This check runs before anything is built.
fn no_files_of_head(base: &Plan, programs: &[Program], top: &Path) -> Result<()> {
    let top = top.display().to_string();
    let names = |text: &str| text.ends_with(&top) || text.contains(&format!("{top}/"));
    let refused = |what: &str, written: &str| {
        Err(Error::usage(format!(
            "the {what} `{written}` would have the base built of files of the head"
        ))
        .help("name directories relative to gates.yaml, under `include_dirs`")
        .help(MENDS))
    };
    // A definition may name a path, but reads nothing.
    let reads = |flag: &&String| !flag.starts_with("-D") && names(flag);
    let references = base.cases.iter().filter_map(|case| match &case.reference {
        Reference::User { flags, .. } => Some(flags.as_slice()),
        _ => None,
    });
    let of_outputs = programs
        .iter()
        .flat_map(|program| &program.outputs)
        .map(ProgramOutput::reference_flags);
    if let Some(flag) = references.chain(of_outputs).flatten().find(reads) {
        return refused("flag", flag);
    }
    for unit in &base.units {
        if let Some(flag) = unit.flags.iter().find(reads) {
            return refused("flag", flag);
        }
        let of_head = |dir: &&String| {
            let here = sources::expand(dir, &sources::read_variable);
            here.is_ok_and(|here| names(&here))
        };
        if let Some(dir) = unit.include_dirs.iter().find(of_head) {
            return refused("directory", dir);
        }
    }
    Ok(())
}

fn blame_base(error: &Error, revision: &str) -> Error {
    let problem = error.diagnostic().clone();
    Error::Usage(Diagnostic {
        message: format!("of the base {revision}: {}", problem.message),
        ..problem.help(MENDS)
    })
}
