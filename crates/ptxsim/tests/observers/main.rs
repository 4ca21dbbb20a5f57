//! Each observer is missed for each kind of access: `cargo test -p ptxsim --features switches --test observers`.
//!
//! `tests/observers.tsv` has a row for each pair of an observer and a kind of access. It names a case of `tests/cases` or
//! `tests/fixtures` that is not as annotated where the observer does not see accesses of that kind, and this launches it so.
//! Where an observer cannot have a case of a kind, the row says why.
//!
//! `-- --find` launches all cases with each pair switched off, and prints a row for each pair: the cases that notice it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

#[allow(dead_code)]
#[path = "../launches/cases/mod.rs"]
mod cases;
#[path = "../launches/common/mod.rs"]
mod common;
#[path = "../launches/observers.rs"]
mod table;

use ptxsim::switch::{AccessKind, Observer, switch_off};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn main() {
    if std::env::args().any(|argument| argument == "--find") {
        find();
        return;
    }
    let rows = table::rows();
    let mut pairs = pairs();
    let mut problems = Vec::new();
    let mut of_case: BTreeMap<String, Vec<(Observer, AccessKind)>> = BTreeMap::new();
    for row in &rows {
        let named = |(observer, kind): &(Observer, AccessKind)| {
            (format!("{observer:?}"), format!("{kind:?}"))
                == (row.observer.to_owned(), row.kind.to_owned())
        };
        let Some(at) = pairs.iter().position(named) else {
            problems.push(format!(
                "{} {}: no such pair, or twice",
                row.observer, row.kind
            ));
            continue;
        };
        let pair = pairs.remove(at);
        if let table::Evidence::Case(file, case) = row.evidence {
            of_case
                .entry(format!("{file} {case}"))
                .or_default()
                .push(pair);
        }
    }
    problems.extend(pairs.iter().map(|pair| format!("{pair:?}: no row")));
    let (mut proven, mut launched) = (0, 0);
    cases::each_case(|case| {
        let name = format!("{} {}", case.file, case.name);
        let Some(pairs) = of_case.remove(&name) else {
            return;
        };
        launched += 1;
        if !(case.problems)().is_empty() {
            problems.push(format!("{name}: it is red with all observers"));
        }
        for pair in pairs {
            if is_noticed(pair, case.problems) {
                proven += 1;
            } else {
                problems.push(format!("{name}: {pair:?} is off, and it is as annotated"));
            }
        }
    });
    problems.extend(of_case.keys().map(|case| format!("{case}: no such case")));
    let open = rows
        .iter()
        .filter(|row| row.evidence == table::Evidence::Open)
        .count();
    println!(
        "{} pairs: {proven} are noticed by {launched} cases, {open} by nothing yet",
        rows.len()
    );
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn pairs() -> Vec<(Observer, AccessKind)> {
    Observer::ALL
        .into_iter()
        .flat_map(|observer| AccessKind::ALL.map(|kind| (observer, kind)))
        .collect()
}

/// Returns true if a case is not as annotated with one observer off for one kind.
fn is_noticed(pair: (Observer, AccessKind), problems: &dyn Fn() -> Vec<String>) -> bool {
    switch_off(Some(pair));
    let problems = catch_unwind(AssertUnwindSafe(problems));
    switch_off(None);
    // A simulator that breaks is no proof that something noticed.
    problems.is_ok_and(|problems| !problems.is_empty())
}

/// Returns false where no access of a kind is in a text.
fn may_have(text: &str, kind: AccessKind) -> bool {
    let words: &[&str] = match kind {
        AccessKind::Generic | AccessKind::Global | AccessKind::Shared => &["ld", "st"],
        AccessKind::Parameter => &["param"],
        AccessKind::Distributed => &["shared::cluster"],
        AccessKind::Local => &[".local"],
        AccessKind::Atomic => &["atom", "red."],
        AccessKind::AsyncCopy => &["cp.async"],
        AccessKind::Bulk | AccessKind::Tensor | AccessKind::BulkDistributed => &["bulk"],
        AccessKind::AsyncStore => &[".async."],
        AccessKind::Mbarrier => &["mbarrier"],
        AccessKind::Matrix => &["matrix."],
        AccessKind::Fragment => &["wmma."],
        AccessKind::Wgmma => &["wgmma."],
        AccessKind::Texture => &["tex.", "tld4."],
        AccessKind::Surface => &["suld", "sust"],
        AccessKind::TensorMap => &["tensormap."],
    };
    words.iter().any(|word| text.contains(word))
}

fn find() {
    let never: Vec<_> = table::rows()
        .into_iter()
        .filter(|row| matches!(row.evidence, table::Evidence::Never(_)))
        .map(|row| (row.observer, row.kind))
        .collect();
    let mut found: Vec<((Observer, AccessKind), Vec<String>)> = pairs()
        .into_iter()
        .filter(|(observer, kind)| {
            !never.contains(&(&format!("{observer:?}"), &format!("{kind:?}")))
        })
        .map(|pair| (pair, Vec::new()))
        .collect();
    cases::each_case(|case| {
        for (pair, noticed_by) in &mut found {
            // Up to eight cases are kept, so that there is a choice.
            let is_open = noticed_by.len() < 8 && may_have(case.text, pair.1);
            if is_open && is_noticed(*pair, case.problems) {
                noticed_by.push(format!("{} {}", case.file, case.name));
            }
        }
    });
    for ((observer, kind), cases) in found {
        println!("{observer:?}\t{kind:?}\t{}", cases.join("\t"));
    }
}
