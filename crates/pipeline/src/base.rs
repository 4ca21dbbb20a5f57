//! Prepares the base's part of a run: which of its kernels to build, and that nothing of it is made from head's files.

use super::request::BaseSide;
use build::apart::{Crossing, FileReader, OwnedTrees, Side};
use build::toolchain::Toolchain;
use check::against_base::{self, Sides};
use check::cache::References;
use check::reference::user::HiddenFrom;
use model::{Case, Evidence, NotRun, Plan, Unit};
use std::collections::HashSet;
use std::path::PathBuf;
use system::cache::Cache;
use system::error::{Diagnostic, Error, Result};

/// Returns the trees of both sides. Compilers, and the directories that this program writes to, belong to neither side,
/// even if they lie in head's tree.
pub fn trees(base: &BaseSide, toolchains: &[&Toolchain], cache: &Cache) -> Result<OwnedTrees> {
    let Some(apart) = &base.file_isolation else {
        return Ok(OwnedTrees::shared());
    };
    let mut tools: Vec<PathBuf> = toolchains
        .iter()
        .flat_map(|toolchain| toolchain.places())
        .collect();
    for name in ["scratch", "reference-programs"] {
        tools.push(cache.dir(name)?);
    }
    let trees = OwnedTrees::new(&apart.head_top, &apart.top, &tools);
    Ok(trees.with_files_of_head(apart.head_files.clone()))
}

/// Returns what is hidden from the base's references: they read nothing of head's.
pub fn hidden_from_base(trees: &OwnedTrees) -> HiddenFrom {
    HiddenFrom {
        compilers: trees.hide_head(),
        programs: trees.hide_head(),
    }
}

/// Returns what is hidden from head's references. They are built from head's tree, and then compute without it, as the
/// base's do.
pub fn hidden_from_head(trees: &OwnedTrees) -> HiddenFrom {
    HiddenFrom {
        compilers: None,
        programs: trees.hide_head(),
    }
}

/// Refuses a run in which one side was made from files of the other.
///
/// # Errors
/// Fails with a usage error if there is such a file, because a comparison would say nothing about the change.
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
            let way = if file.real == file.named { String::new() } else { format!(", by way of {}", file.named.display()) };
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

/// Runs the base's references on head's inputs, for every case that both sides have at the same sizes. It needs no
/// device, and also compares cases that are not simulated.
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
            facts: against_base::compare_references(&sides, too_large(head).as_ref()),
        }
    });
    evidence.collect()
}

/// Returns the units of the base whose variant is part of this run.
pub fn units(head: &Plan, base: &Plan) -> Vec<Unit> {
    let variants: HashSet<_> = head
        .units
        .iter()
        .map(|unit| (&unit.id.kernel, &unit.id.variant))
        .collect();
    base.units
        .iter()
        .filter(|unit| variants.contains(&(&unit.id.kernel, &unit.id.variant)))
        .cloned()
        .collect()
}

fn name(reader: &FileReader) -> String {
    match reader {
        FileReader::Unit(unit) => unit.to_string(),
        FileReader::Reference(source) => format!("the reference in {source}"),
    }
}

const OWN: &str = "name files and directories relative to gates.yaml or to the source, so that each side has its own";
/// Help for a problem that only a change of the base itself could repair.
pub const MENDS: &str =
    "where this change mends the base, run without --base (`base: \"\"` of the action)";
