//! Files of gates as data, in `edits/`: what is said of each mistake, and what a right one asks. A new case is a few lines
//! there, and no Rust.
//!
//! `NAME.edits` has edits of the file that its first line names, each made to the original. Without a first line they are
//! whole files.
//!
//! ```text
//! base: scale.yaml
//!
//! -      registers: 128
//! +      registers: -1
//! ! gates.yaml:22:18: kernels.scale.gates.registers: `-1`: a limit cannot be negative
//! ```
//!
//! - Lines with `-` or a blank have to be in the original, one after the other and once. Those with `+` or a blank take their
//!   place. `@@` begins another place.
//! - `!` has the message of a file that is refused, in full.
//! - `=` has what the edited file asks and the original does not, and `/` what the original asks and the edited file does not:
//!   gates and targets with the line that they are written in, and the plan, key by key. `ok` asks the same.
//! - `#` is a comment.
//!
//! `UPDATE_EDITS=1 cargo test -p config edits` writes what is expected again.

use super::*;
use model::{Bound, Expr, Limit, Margin, Rule};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

#[test]
fn edited_files_end_as_expected() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/edits");
    let mut problems = String::new();
    let mut count = 0;
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "edits")
        {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let name = text
            .strip_prefix("base: ")
            .and_then(|text| text.lines().next());
        let base = name.map(|name| fs::read_to_string(dir.join(name)).unwrap());
        let base = base.unwrap_or_default();
        let ask = if name == Some("accepted.yaml") {
            accept
        } else {
            tell
        };
        let told = ask(&base).unwrap_or_default();
        let mut updated = Vec::new();
        for case in text.trim_end().split("\n\n") {
            let (edit, expected): (Vec<&str>, Vec<&str>) = case
                .lines()
                .partition(|line| !line.starts_with(['!', '=', '/']) && *line != "ok");
            if expected.is_empty() {
                updated.push(case.to_owned());
                continue;
            }
            let found = judge(ask(&apply(&base, &edit)), &told);
            if found != expected {
                let name = path.file_name().unwrap().display();
                let _ = writeln!(
                    problems,
                    "{name}:\n{case}\n--- found\n{}\n",
                    found.join("\n")
                );
            }
            let whole: Vec<&str> = edit
                .into_iter()
                .chain(found.iter().map(String::as_str))
                .collect();
            updated.push(whole.join("\n"));
            count += 1;
        }
        if std::env::var_os("UPDATE_EDITS").is_some() {
            fs::write(&path, updated.join("\n\n") + "\n").unwrap();
        }
    }
    assert!(problems.is_empty(), "{problems}");
    assert!(count > 500, "{count}");
}

/// Makes an edit of a file.
fn apply(base: &str, edit: &[&str]) -> String {
    let mut text = base.to_owned();
    let edit: Vec<&str> = edit
        .iter()
        .copied()
        .filter(|line| !line.starts_with('#'))
        .collect();
    for place in edit.split(|line| *line == "@@") {
        let side = |mark: char| -> String {
            place
                .iter()
                .filter(|line| line.starts_with([mark, ' ']))
                .map(|line| format!("{}\n", &line[1..]))
                .collect()
        };
        let (old, new) = (side('-'), side('+'));
        if base.is_empty() {
            return new;
        }
        let found: Vec<usize> = format!("\n{text}")
            .match_indices(&format!("\n{old}"))
            .map(|(at, _)| at)
            .collect();
        assert_eq!(found.len(), 1, "{old}");
        text.replace_range(found[0]..found[0] + old.len(), &new);
    }
    text
}

/// Returns the message, or what a file asks and what it no longer asks.
fn judge(told: Result<Vec<String>, String>, before: &[String]) -> Vec<String> {
    let told = match told {
        Err(said) => return said.lines().map(|line| format!("! {line}")).collect(),
        Ok(told) => told,
    };
    let added = told.iter().filter(|line| !before.contains(line));
    // It is enough that a key has another value now.
    let key = |line: &str| line.split_once(" = ").map(|(key, _)| key.to_owned());
    let is_gone = |line: &&String| {
        let same =
            |other: &String| other == *line || key(line).is_some() && key(other) == key(line);
        !told.iter().any(same)
    };
    let changes: Vec<String> = added
        .map(|line| format!("= {line}"))
        .chain(
            before
                .iter()
                .filter(is_gone)
                .map(|line| format!("/ {line}")),
        )
        .collect();
    if changes.is_empty() {
        vec!["ok".to_owned()]
    } else {
        changes
    }
}

/// Reads acceptances of what scale.yaml asks.
fn accept(text: &str) -> Result<Vec<String>, String> {
    let accepted =
        crate::accepted::parse(text, &accepted(RIGHT)).map_err(|said| said.to_string())?;
    Ok(accepted.iter().map(|one| format!("{one:?}")).collect())
}

/// Lists what is asked of units and cases.
fn tell(text: &str) -> Result<Vec<String>, String> {
    let loaded = read(text)?;
    let written = |declared: &str| {
        let line: usize = declared
            .strip_prefix("gates.yaml:")
            .unwrap()
            .parse()
            .unwrap();
        text.lines().nth(line - 1).unwrap().trim().to_owned()
    };
    let gates = loaded.gates.iter().map(|gate| match &gate.declared {
        Some(at) => format!("{}: {} # {}", gate.subject, rule(&gate.rule), written(at)),
        None => format!("{}: {}", gate.subject, rule(&gate.rule)),
    });
    let targets = loaded.targets.iter().map(|target| {
        let because = target.because.as_deref().unwrap_or("-");
        let (asked, at) = (rule(&target.rule()), written(&target.declared));
        format!("{}: target {asked}, {because} # {at}", target.subject)
    });
    let units = loaded.plan.units.iter();
    let units = units.flat_map(|unit| list_fields(&unit.id.to_string(), unit, &["id"]));
    let cases = loaded.plan.cases.iter();
    let cases = cases.flat_map(|case| list_fields(&case.id.to_string(), case, &["id"]));
    let rest = list_fields("plan", &loaded.plan, &["units", "cases"]);
    Ok(gates
        .chain(targets)
        .chain(units)
        .chain(cases)
        .chain(rest)
        .collect())
}

/// Lists each key with its value, and each item of a list on a line of its own.
fn list_fields(name: &str, value: &impl Serialize, without: &[&str]) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(value) else {
        panic!("{name} has no keys");
    };
    let wanted = fields
        .iter()
        .filter(|(key, _)| !without.contains(&key.as_str()));
    wanted
        .flat_map(|(key, value)| match value {
            Value::Array(items) if items.iter().any(Value::is_object) => items
                .iter()
                .enumerate()
                .map(|(at, item)| {
                    let at = item["name"].as_str().map_or(at.to_string(), str::to_owned);
                    format!("{name} {key}.{at} = {item}")
                })
                .collect(),
            value => vec![format!("{name} {key} = {value}")],
        })
        .collect()
}

fn rule(rule: &Rule) -> String {
    let with_constants = |expr: &Expr| {
        let constants = expr
            .constants
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        format!(
            "{} {{{}}}",
            expr.text,
            constants.collect::<Vec<_>>().join(",")
        )
    };
    let by = |margin: &Margin| match margin {
        Margin::Share(share) => share.to_string(),
        Margin::Amount { amount } => format!("amount {amount}"),
    };
    match rule {
        Rule::Limit { metric, limit } => match limit {
            Limit::Absolute {
                op,
                bound: Bound::Value(value),
            } => format!("{metric} {op} {value}"),
            Limit::Absolute {
                op,
                bound: Bound::Expr(expr),
            } => {
                format!("{metric} {op} {}", with_constants(expr))
            }
            Limit::Baseline { change } => format!("{metric} by {}", by(change)),
            Limit::Base { change } => format!("{metric} by {change} of base"),
            Limit::Anchor { anchor, change } => format!("{metric} by {} of {anchor}", by(change)),
        },
        Rule::Condition { expr } => with_constants(expr),
        Rule::Counters { change } => format!("counters by {change}"),
        other => format!("{other:?}"),
    }
}
