//! Makes the two sides of a change from git: head is the working tree, and the base is a revision.
//!
//! Knows nothing of workers, devices or judges, and `pipeline` knows nothing of git.

mod base;
mod moved;
mod overlaid;
mod past;

pub use base::find as find_base;
pub use overlaid::{Overlaid, Overlay};

use build::toolchain::Choice;
use config::{Loaded, Selection};
use model::{DrawnSeed, Loosening};
use pipeline::event::Event;
use pipeline::{BaseSide, Change};
use records::repo;
use std::path::Path;
use system::cache::Cache;
use system::error::Result;

/// The base that `run` was asked to compare with.
#[derive(Clone, Debug)]
pub struct BaseRequest {
    /// Any name of a revision that git accepts.
    pub revision: String,
    pub loosening: Loosening,
    /// Values of the command line that replace those in gates.yaml, on both sides. They are no change of the sources.
    pub instead: Selection,
}

/// Returns the change from the requested revision to the working tree.
///
/// # Errors
/// Usage, if there is no such revision, or no such anchor, or the base's gates.yaml cannot be read. Environment, if git
/// fails.
pub fn find_change(
    asked: Option<&BaseRequest>,
    mut head: Loaded,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Change> {
    // The seed is drawn before the cases are divided, so that all shards have the same. Compiled files have no inputs.
    if asked.is_some() && !head.reseeded && !head.plan.cases.is_empty() {
        draw_seed(&mut head);
    }
    let base = asked.map(|asked| base::find(asked, &head, cache));
    let mut base = base.transpose()?;
    if let (Some(base), Some(drawn)) = (&mut base, &head.plan.drawn) {
        base.spec.plan.draw(drawn);
    }
    let commit = repo::commit(&head.root);
    if let Some(base) = &base {
        warn_of_base(&head.root, base, commit.as_deref(), on);
    }
    if let Some(drawn) = &head.plan.drawn {
        say_seed(drawn, on);
    }
    Ok(Change {
        sources: repo::digest(&head.root),
        checkout: repo::checkout(&head.root, |name| std::env::var(name).ok()),
        anchors: past::anchors(&head.root, &head.gates)?,
        compiler: Choice::pin(head.toolchain.cuda.as_deref()),
        head,
        commit,
        base,
    })
}

/// The smallest drawn seed. Nobody writes seeds as large by hand.
const DRAWN_FROM: u64 = 1 << 32;

/// Draws one more seed from data that does not exist yet while a change is written, so that a kernel that is fitted to the
/// seeds of gates.yaml is found out.
fn draw_seed(loaded: &mut Loaded) {
    let Some(commit) = repo::head(&loaded.root) else {
        return;
    };
    let hash = blake3::hash(format!("gatekeeper seed {commit}").as_bytes());
    let number = hash
        .as_bytes()
        .iter()
        .take(4)
        .fold(0, |all, byte| all << 8 | u64::from(*byte));
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

/// Warns if the base is ahead of head, or the same: such a comparison is not what its name says.
fn warn_of_base(root: &Path, base: &BaseSide, commit: Option<&str>, on: &(dyn Fn(Event) + Sync)) {
    if repo::has_more(root, &base.spec.commit) {
        on(Event::Waiting(format!(
            "{} has commits that HEAD lacks: gates that are stricter there count as loosened here, until it is merged or HEAD is rebased",
            base.spec.revision
        )));
    }
    if Some(base.spec.commit.as_str()) == commit {
        on(Event::Waiting(format!(
            "{} is HEAD itself, and no file that git tracks has changed: there is nothing to compare",
            base.spec.revision
        )));
    }
}
