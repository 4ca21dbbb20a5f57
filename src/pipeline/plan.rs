//! What a run is to do, before anything is built: the plan with its policy, the base's tree, the compiler.

use super::{Request, base, past, simulate};
use crate::cache::Cache;
use crate::check::cache::References;
use crate::config::{self, Loaded};
use crate::error::Result;
use crate::report::progress::Event;
use crate::toolchain::{self, Toolchain};
use crate::{repo, store};
use std::path::{Path, PathBuf};
use verdict::model::{Base, Case, DeviceFacts, Evidence, Plan, Policy, Seen, Unit};

/// Everything that a run goes by.
pub(super) struct Planned {
    /// The directory of gates.yaml.
    pub root: PathBuf,
    pub plan: Plan,
    pub policy: Policy,
    /// Of head.
    pub commit: Option<String>,
    pub toolchain: Toolchain,
    pub references: References,
    pub base_references: Option<References>,
    /// The base's files, which stay as long as this does.
    pub base: Option<repo::Tree>,
}

/// # Errors
/// What keeps a run from starting at all: baselines, acceptances, the base or an anchor, the compiler.
pub(super) fn plan(
    request: &Request,
    loaded: Loaded,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Planned> {
    let accepted = config::load_acceptances(&loaded)?;
    let Loaded {
        root,
        file,
        mut plan,
        gates,
        toolchain: pin,
        all,
        ..
    } = loaded;
    let (baselines, broken_baselines) = store::load_baselines(&root)?;
    let found = request.base.as_ref().map(|asked| {
        plan.pairing = Some(config::pairing(asked.unchanged));
        let head = base::Head {
            file: &file,
            all: &all,
        };
        base::find(asked, &root, &head, cache)
    });
    let (tree, base) = found.transpose()?.map(|it| (it.tree, it.base)).unzip();
    let commit = repo::commit(&root);
    if let Some(base) = &base {
        warn_of_base(&root, base, commit.as_deref(), on);
    }
    let anchors = past::anchors(&root, &gates)?;
    let toolchain = find_compiler(request, pin.cuda.as_deref(), cache, on)?;
    let open = |root: &Path, foreign: Option<&Path>| {
        References::open(root, cache, Some(&toolchain.host_compiler), foreign)
    };
    let references = open(&root, None)?;
    let base_references = tree.as_ref().map(|tree| {
        let head = repo::top(&root)?;
        open(&tree.root, Some(&head))
    });
    let base_references = base_references.transpose()?;
    Ok(Planned {
        root,
        plan,
        policy: Policy {
            gates,
            baselines,
            broken_baselines,
            require_gpu: request.require_gpu,
            anchors,
            accepted,
            base,
        },
        commit,
        toolchain,
        references,
        base_references,
        base: tree,
    })
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
    /// Units of the base that a case of head is timed beside, and the tree they are built from.
    pub fn base_units(&self) -> Option<(&Path, Vec<Unit>)> {
        let tree = self.base.as_ref()?;
        let base = self.policy.base.as_ref()?;
        Some((tree.root.as_path(), base::units(&self.plan, &base.plan)))
    }

    /// What the base's references compute on head's inputs; nothing where there is no base.
    pub fn compare_references(&self, device: &Seen<DeviceFacts>) -> Vec<Evidence> {
        let (Some(theirs), Some(base)) = (&self.base_references, &self.policy.base) else {
            return Vec::new();
        };
        // A machine with a GPU computes the references of all that it checks.
        let too_large = |case: &Case| match device {
            Seen::Got(_) => None,
            _ => simulate::too_large(case),
        };
        base::compare_references(theirs, &base.plan, &self.references, &self.plan, &too_large)
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
