//! Changes that a person or a program makes to a repository under gate, each run against the commit before it,
//! in the simulator: the honest ones have to pass without a label, the others have to fail for their reason.
//!
//! `GATEKEEPER_CHANGES=flag cargo test --test it changes::` runs the rows alone whose name has `flag` in it;
//! `GATEKEEPER_SHOW=1 cargo test --test it changes:: -- --nocapture` prints the table.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; the table, where it is asked for"
)]

use crate::common;
mod everyday;
mod measured;
mod renames;
mod silence;
mod tree;

use common::{commit_all, copy_of, git, run, stderr, stdout};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use tempfile::TempDir;

/// One change, and what a run against the commit before it has to say.
pub struct Change {
    pub name: &'static str,
    /// Whether the repository has baselines committed.
    pub baselines: bool,
    /// The repository before the change, besides the fixture. Committed without being run.
    pub before: fn(&Path),
    pub change: fn(&Path),
    pub flags: &'static [&'static str],
    pub code: i32,
    /// Codes of the verdicts that failed or did not decide, each once and sorted.
    pub broken: &'static [&'static str],
    /// The texts that the terminal has to show, line breaks aside.
    pub says: &'static [&'static str],
}

/// An honest change of a repository without baselines.
pub const fn honest(name: &'static str, change: fn(&Path)) -> Change {
    Change {
        name,
        baselines: false,
        before: |_| {},
        change,
        flags: &[],
        code: 0,
        broken: &[],
        says: &[],
    }
}

/// The same of a repository with baselines.
pub const fn with_baselines(name: &'static str, change: fn(&Path)) -> Change {
    Change {
        baselines: true,
        ..honest(name, change)
    }
}

/// It has to fail, for these reasons.
pub const fn dishonest(
    name: &'static str,
    broken: &'static [&'static str],
    change: fn(&Path),
) -> Change {
    Change {
        code: 1,
        broken,
        ..honest(name, change)
    }
}

#[test]
fn honest_changes_pass_without_a_label() {
    hold(measured::HONEST_CHANGES);
    hold(tree::HONEST_CHANGES);
    hold(renames::HONEST_CHANGES);
    hold(everyday::HONEST_CHANGES);
    hold(silence::HONEST_CHANGES);
}

#[test]
fn dishonest_changes_fail_for_their_reason() {
    hold(measured::DISHONEST_CHANGES);
    hold(tree::DISHONEST_CHANGES);
    hold(renames::DISHONEST_CHANGES);
    hold(silence::DISHONEST_CHANGES);
}

/// Every row of a table, side by side; one message lists all that are not as they say.
fn hold(table: &'static [Change]) {
    let wanted = std::env::var("GATEKEEPER_CHANGES").unwrap_or_default();
    let rows = table.iter().filter(|row| row.name.contains(&wanted));
    common::try_each(rows, try_one);
}

fn try_one(row: &Change) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    common::copy(repository(row.baselines).path(), dir);
    (row.before)(dir);
    commit_all(dir);
    (row.change)(dir);
    commit_all(dir);
    let args = [&["run", "--device", "sim", "--base", "HEAD~1"], row.flags].concat();
    let mut command = common::gatekeeper();
    let output = command.current_dir(dir).args(&args).output().unwrap();
    let code = output.status.code();
    let found = match code {
        Some(2 | 4) | None => Vec::new(),
        Some(_) => common::broken_codes(dir, None),
    };
    if std::env::var_os("GATEKEEPER_SHOW").is_some() {
        let code = code.map_or("-".to_owned(), |code| code.to_string());
        println!("| {} | {code} | {} |", row.name, found.join(", "));
    }
    let said = stdout(&output)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let is_said = row.says.iter().all(|says| said.contains(says));
    match code == Some(row.code) && found == row.broken && is_said {
        true => Ok(()),
        false => Err(format!(
            "{}: exit code {code:?} (expected {}), broken: {found:?} (expected {:?}), to say: {:?}\n--- stdout\n{}\n--- stderr\n{}",
            row.name,
            row.code,
            row.broken,
            row.says,
            stdout(&output),
            stderr(&output)
        )),
    }
}

/// The fixture under git, with one commit; with or without the baselines of its first run.
fn repository(baselines: bool) -> &'static TempDir {
    static WITH: OnceLock<TempDir> = OnceLock::new();
    static WITHOUT: OnceLock<TempDir> = OnceLock::new();
    let made = match baselines {
        true => &WITH,
        false => &WITHOUT,
    };
    made.get_or_init(|| {
        let repository = copy_of("tests/fixtures/changes");
        let dir = repository.path();
        git(dir, &["init", "--quiet"]);
        fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
        if baselines {
            run(dir, &["run", "--provision", "--device", "sim"], 0);
            run(dir, &["baseline", "update"], 0);
        }
        commit_all(dir);
        repository
    })
}

/// Measures again and agrees on it, as a change of its own would not have to.
pub fn update_baselines(dir: &Path) {
    let args = ["run", "--device", "sim"];
    common::gatekeeper()
        .current_dir(dir)
        .args(args)
        .output()
        .unwrap();
    run(dir, &["baseline", "update", "--allow-worse"], 0);
}
