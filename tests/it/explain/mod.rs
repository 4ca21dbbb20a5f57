//! Labelled regressions: edits of kernels that make them slower and leave them right, each with the cause that has to
//! be named first; and edits that do nothing, for which none may be named. Each is a file under `tests/cases/explain`:
//!
//! ```text
//! # A stretch of a row to each thread.
//! unit: softmax/default
//! class: coalescing-lost
//! needs: simulator
//! --- a/kernels/softmax.cu
//! ...
//! +        maximum = fmaxf(maximum, in[j]);  // <- cause
//! ```
//!
//! The base is `kernels/` and `tests/fixtures/explain`, with `NAME.base` applied if there is one, committed. Head is the
//! base with `NAME.patch` applied. `class:` is the class of the first cause, and its line is the marked one. A patch
//! without a mark changes the launch. `follows:` is the first of the causes that the first cause brings about. `needs:`
//! is the evidence in which the cause can be seen: `simulator` or `profile`, and otherwise the machine code. `reached:` is
//! the result as it truly is, where it is not the cause: `class` for the class at another line, or the class that is named
//! in its place. `gpu: lost` leaves a row out of the score on a GPU. An edit that does nothing has `said:`, the class of
//! everything reported. `code: same` and `code: other` say whether both sides are the same machine code, which they are by
//! default if no line is marked. The labels say what was done to the source. They were written before the rules that find
//! the causes.
//!
//! `GATEKEEPER_ROWS='pad|wave' cargo test --test it explain::` runs the rows alone whose name has `pad` or `wave` in it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; the table, where it is asked for"
)]

use crate::common;

use ::explain::CauseClass;
use common::{RECORD, copy, gatekeeper, git, root, run, stderr, stdout};
use judge::stats::Sample;
use model::{BuildFacts, CheckFacts, Evidence, Record, SimulationFacts, TimeFacts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// The comment that marks the line of the cause.
const MARKER: &str = "// <- cause";

/// One regression: a file of `tests/cases/explain`.
struct Row {
    name: String,
    patch: PathBuf,
    /// The unit of gates.yaml, written as `kernel/variant`.
    unit: String,
    /// True if both sides are the same machine code.
    has_same_code: bool,
    label: Label,
}

enum Label {
    Regression(Regression),
    Harmless { said: String },
}

struct Regression {
    class: CauseClass,
    /// The first consequence of the cause, where the label names one.
    follows: Option<String>,
    needs: Needs,
    reached: Reached,
    is_lost_on_a_gpu: bool,
}

/// The evidence in which a cause can be seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// The machine code, PTXAS's report on it, and the launch.
    Code,
    /// The counters that the simulator counts.
    Simulator,
    /// The counters that a GPU counts.
    Profile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// The class is right, and the line is at most three lines away.
    Cause,
    ClassAlone,
    /// The class is not the expected one.
    Other(CauseClass),
}

fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        fs::read_dir(root().join("tests/cases/explain"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "patch")
            })
            .map(Row::read)
            .collect()
    })
}

fn regressions() -> impl Iterator<Item = (&'static Row, &'static Regression)> {
    rows().iter().filter_map(|row| match &row.label {
        Label::Regression(regression) => Some((row, regression)),
        Label::Harmless { .. } => None,
    })
}

fn class_named(name: &str) -> CauseClass {
    CauseClass::ALL
        .into_iter()
        .find(|class| class.name() == name)
        .unwrap_or_else(|| panic!("no class {name}"))
}

/// The head of a pair, which was run in the simulator against its base, and explained.
struct Made {
    record: Record,
    report: Value,
    explained: Explained,
}

/// The causes that were named, and those that should have been.
struct Explained {
    /// The line of head that the patch marks.
    marked: Option<Line>,
    causes: Vec<First>,
}

type Line = (String, i64);

/// The class of a cause, with its first line.
#[derive(Debug, PartialEq)]
struct First {
    class: String,
    line: Option<Line>,
    follows: Option<String>,
}

impl Row {
    fn read(patch: PathBuf) -> Self {
        let name = patch.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&patch).unwrap();
        let mut keys: BTreeMap<&str, &str> = text
            .lines()
            .take_while(|line| !line.starts_with("--- "))
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_once(": ").unwrap())
            .collect();
        let mut take = |key: &str| keys.remove(key);
        let unit = take("unit").unwrap().to_owned();
        let label = if let Some(class) = take("class") {
            Label::Regression(Regression {
                class: class_named(class),
                follows: take("follows").map(str::to_owned),
                needs: match take("needs") {
                    None => Needs::Code,
                    Some("simulator") => Needs::Simulator,
                    Some("profile") => Needs::Profile,
                    Some(other) => panic!("{name}: needs: {other}"),
                },
                reached: match take("reached") {
                    None => Reached::Cause,
                    Some("class") => Reached::ClassAlone,
                    Some(other) => Reached::Other(class_named(other)),
                },
                is_lost_on_a_gpu: take("gpu") == Some("lost"),
            })
        } else {
            Label::Harmless {
                said: take("said").unwrap().to_owned(),
            }
        };
        let code = take("code");
        assert!(keys.is_empty(), "{name}: unknown keys {keys:?}");
        let has_marker = text
            .lines()
            .any(|line| line.starts_with('+') && line.contains(MARKER));
        Self {
            name,
            patch,
            unit,
            has_same_code: code.map_or(!has_marker, |code| code == "same"),
            label,
        }
    }

    /// Makes the base in `dir`, and commits it there.
    fn start(&self, dir: &Path) {
        copy(&root().join("kernels"), &dir.join("kernels"));
        copy(&root().join("tests/fixtures/explain"), &dir.join("small"));
        fs::rename(dir.join("small/gates.yaml"), dir.join("gates.yaml")).unwrap();
        fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
        git(dir, &["init", "--quiet"]);
        let base = self.patch.with_extension("base");
        if base.exists() {
            git(dir, &["apply", base.to_str().unwrap()]);
        }
        common::commit_all(dir);
    }

    fn change(&self, dir: &Path) {
        git(dir, &["apply", self.patch.to_str().unwrap()]);
    }

    fn make(&self) -> Result<Made, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        self.start(path);
        self.change(path);
        let case = format!("{}@sim", self.unit);
        let args = [
            "run",
            "--provision",
            "--device",
            "sim",
            "--base",
            "HEAD",
            &case,
        ];
        let output = gatekeeper().current_dir(path).args(args).output().unwrap();
        // Counters and resources that got worse fail, or are in doubt, and the rows are made for that.
        if !matches!(output.status.code(), Some(0 | 1 | 3)) {
            return Err(format!(
                "{}\n{}{}",
                output.status,
                stdout(&output),
                stderr(&output)
            ));
        }
        Ok(Made {
            record: records::store::read_record(&path.join(RECORD)).unwrap(),
            report: serde_json::from_str(&common::report(path)).unwrap(),
            explained: Explained {
                marked: self.marked(path),
                causes: causes(path, &[&case]),
            },
        })
    }

    /// Returns the marked line, in the files that the patch changes.
    fn marked(&self, dir: &Path) -> Option<Line> {
        let patch = fs::read_to_string(&self.patch).unwrap();
        patch
            .lines()
            .filter_map(|line| line.strip_prefix("+++ b/"))
            .find_map(|file| {
                let text = fs::read_to_string(dir.join(file)).unwrap();
                let at = text.lines().position(|line| line.contains(MARKER))?;
                Some((file.to_owned(), at as i64 + 1))
            })
    }
}

fn causes(dir: &Path, args: &[&str]) -> Vec<First> {
    let args = [&["explain", "--format", "json"], args].concat();
    let explained: Value = serde_json::from_str(&stdout(&run(dir, &args, 0))).unwrap();
    let causes = explained["cases"][0]["causes"].as_array().unwrap();
    let first = |cause: &Value| {
        let line = &cause["places"][0]["line"];
        let at = |file: &str| (file.to_owned(), line["number"].as_i64().unwrap());
        First {
            class: cause["class"].as_str().unwrap().to_owned(),
            line: line["file"].as_str().map(at),
            follows: cause["consequences"][0]["class"]
                .as_str()
                .map(str::to_owned),
        }
    };
    causes.iter().map(first).collect()
}

impl Made {
    /// Returns the evidence of head and of the base on the first case. The base has its own only where it was
    /// requested.
    fn sides(&self) -> (Side<'_>, Side<'_>) {
        let (mut head, mut base) = (Side::default(), Side::default());
        for piece in &self.record.evidence {
            match piece.as_base() {
                Some(piece) => base.take(piece),
                None => head.take(piece),
            }
        }
        (head, base)
    }

    /// Returns why a side is not correct: its errors, and the simulator's findings.
    fn wrong(&self) -> Vec<String> {
        let verdicts = self.report["verdicts"].as_array().unwrap();
        let named = |gate: &str| {
            verdicts
                .iter()
                .find(|verdict| verdict["gate"].as_str().unwrap().starts_with(gate))
                .unwrap()
        };
        let mut wrong = Vec::new();
        for gate in [
            "built",
            "finite",
            "written",
            "inputs intact",
            "memory and races",
            "max_err",
        ] {
            if named(gate)["outcome"] != "pass" {
                wrong.push(format!("head: {gate}: {}", named(gate)["message"]));
            }
        }
        let (_, base) = self.sides();
        let limit = named("max_err")["limit"].as_f64().unwrap();
        if let Some(check) = base.check {
            let right = check.error.non_finite == 0
                && check.error.max_err.0 <= limit
                && check.unwritten == 0;
            if !right {
                wrong.push(format!("base: errs by {}", check.error.max_err));
            }
        }
        if let Some(simulation) = base.simulation
            && !simulation.findings.is_empty()
        {
            wrong.push(format!("base: {:?}", simulation.findings));
        }
        wrong
    }
}

/// The observations of one side, and the observations of its one case.
#[derive(Default)]
struct Side<'a> {
    build: Option<&'a BuildFacts>,
    check: Option<&'a CheckFacts>,
    simulation: Option<&'a SimulationFacts>,
}

impl<'a> Side<'a> {
    fn take(&mut self, piece: &'a Evidence) {
        match piece {
            Evidence::Build { facts, .. } => self.build = facts.got(),
            Evidence::Check { facts, .. } => self.check = facts.got(),
            Evidence::Simulation { facts, .. } => self.simulation = facts.got(),
            _ => {}
        }
    }
}

/// Returns all rows with their results, by name. They are made only once for all tests of this module.
fn all() -> &'static BTreeMap<&'static str, Result<Made, String>> {
    static ALL: OnceLock<BTreeMap<&'static str, Result<Made, String>>> = OnceLock::new();
    ALL.get_or_init(|| {
        each_wanted(rows().iter(), |row| (row.name.as_str(), row.make()))
            .into_iter()
            .collect()
    })
}

/// Returns the result of `work` for each row that `GATEKEEPER_ROWS` selects, computed on all cores.
fn each_wanted<T: Send>(
    rows: impl Iterator<Item = &'static Row> + Send,
    work: impl Fn(&'static Row) -> T + Sync,
) -> Vec<T> {
    let wanted = std::env::var("GATEKEEPER_ROWS").unwrap_or_default();
    let is_wanted = |row: &&Row| wanted.split('|').any(|part| row.name.contains(part));
    let rows = Mutex::new(rows.filter(is_wanted));
    let made = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work_on_rows = || {
        loop {
            let Some(row) = rows.lock().unwrap().next() else {
                break;
            };
            let result = work(row);
            made.lock().unwrap().push(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work_on_rows);
        }
    });
    made.into_inner().unwrap()
}

/// A regression is slow and not wrong. A change of the launch alone leaves the machine code as it is, and no other
/// change does.
#[test]
fn rows_are_right_on_both_sides_and_their_code_differs_as_they_say() {
    let same_code: BTreeMap<&str, bool> = rows()
        .iter()
        .map(|row| (row.name.as_str(), row.has_same_code))
        .collect();
    let mut problems = Vec::new();
    for (name, made) in all() {
        let made = match made {
            Ok(made) => made,
            Err(problem) => {
                problems.push(format!("{name}: {problem}"));
                continue;
            }
        };
        problems.extend(made.wrong().into_iter().map(|why| format!("{name}: {why}")));
        let (head, base) = made.sides();
        let identities = (&head.build.unwrap().identity, &base.build.unwrap().identity);
        if (identities.0 == identities.1) != same_code[name] {
            problems.push(format!(
                "{name}: the same code on both sides: {}",
                !same_code[name]
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The greatest distance in lines between a cause and the marked line.
const NEAR: i64 = 3;

fn reached(row: &Row, regression: &Regression, explained: &Explained) -> Reached {
    let Explained { causes, marked } = explained;
    let first = &causes[0];
    if std::env::var_os("GATEKEEPER_SHOW").is_some() {
        println!(
            "| {} | {} | {marked:?} | {causes:?} |",
            row.name,
            regression.class.name()
        );
    }
    let class = class_named(&first.class);
    if class != regression.class {
        return Reached::Other(class);
    }
    let is_near = match (marked, &first.line) {
        (Some((file, at)), Some((found, number))) => file == found && (at - number).abs() <= NEAR,
        (Some(_), None) => false,
        (None, _) => true,
    };
    let follows = regression.follows.is_none() || regression.follows == first.follows;
    if is_near && follows {
        Reached::Cause
    } else {
        Reached::ClassAlone
    }
}

/// This is the score: what is named first for each regression, exactly as it is reached. A row that gets better or
/// worse is edited.
#[test]
fn the_first_cause_of_each_regression() {
    let wrong: Vec<String> = regressions()
        .filter_map(|(row, regression)| {
            let made = all().get(row.name.as_str())?.as_ref().unwrap();
            let reached = reached(row, regression, &made.explained);
            (reached != regression.reached).then(|| {
                format!(
                    "{}: {reached:?}, and its file has {:?}",
                    row.name, regression.reached
                )
            })
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A cause that only a profile can show is reported as unknown, and no other cause is named for it.
#[test]
fn causes_that_need_a_profile_are_not_guessed() {
    for (row, _) in regressions().filter(|(_, regression)| regression.needs == Needs::Profile) {
        let Some(made) = all().get(row.name.as_str()) else {
            continue;
        };
        let causes = &made.as_ref().unwrap().explained.causes;
        assert_eq!(causes.len(), 1, "{}: {causes:?}", row.name);
        assert_eq!(causes[0].class, "code-changed", "{}", row.name);
    }
}

/// If nothing is slower, nothing is reported as slower. Changes are listed.
#[test]
fn names_no_cause_if_nothing_is_slower() {
    let wrong: Vec<String> = rows()
        .iter()
        .filter_map(|row| {
            let Label::Harmless { said } = &row.label else {
                return None;
            };
            let made = all().get(row.name.as_str())?.as_ref().unwrap();
            let causes = &made.explained.causes;
            let classes: Vec<&String> = causes.iter().map(|cause| &cause.class).collect();
            (classes != [said]).then(|| format!("{}: {causes:?}", row.name))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The first cause named on a GPU, where no simulator counts: with a profile for rows that machine code alone cannot
/// tell. It is no worse than in the simulator. How much slower each is there is printed, and does not count in the score:
/// some cost nothing on a GPU that waits for something else. On a machine with a GPU and nvcc:
///
/// `cargo test --test it explain:: on_a_gpu -- --ignored --nocapture`
///
/// Elsewhere built, with `GATEKEEPER_BIN` and `GATEKEEPER_ROOT`.
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn the_first_cause_of_each_regression_on_a_gpu() {
    let mut rows: Vec<(&Row, &Regression)> = regressions().collect();
    // The longest rows are started first.
    rows.sort_by_key(|(_, regression)| regression.needs == Needs::Code);
    let problems = each_wanted(rows.into_iter().map(|(row, _)| row), |row| {
        let Label::Regression(regression) = &row.label else {
            return None;
        };
        let (slower, made) = match on_a_gpu(row, regression.needs) {
            Ok(seen) => seen,
            Err(problem) => {
                println!("| {} | failed | {problem} |", row.name);
                return Some(format!("{}: {problem}", row.name));
            }
        };
        let reached = reached(row, regression, &made);
        let profiled = match regression.needs {
            Needs::Code => "",
            Needs::Simulator | Needs::Profile => "yes",
        };
        println!(
            "| {} | {slower:.3} | {} | {profiled} | {reached:?} | {:?} |",
            row.name,
            regression.class.name(),
            made.causes
        );
        let is_as_good = match regression.needs {
            // No counter tells which line makes others miss.
            Needs::Profile => matches!(reached, Reached::Cause | Reached::ClassAlone),
            Needs::Code | Needs::Simulator => {
                reached == Reached::Cause || reached == regression.reached
            }
        };
        (!is_as_good && !regression.is_lost_on_a_gpu).then(|| format!("{}: {reached:?}", row.name))
    });
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns the ratio of head's time to the base's, taken in the same processes, and the causes.
fn on_a_gpu(row: &Row, needs: Needs) -> Result<(f64, Explained), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let case = format!("{}@gpu", row.unit);
    let profile: &[&str] = match needs {
        Needs::Code => &[],
        Needs::Simulator | Needs::Profile => &["--profile"],
    };
    let args = [&["run", "--require-gpu", "--base", "HEAD", &case], profile].concat();
    row.start(path);
    row.change(path);
    let output = gatekeeper().current_dir(path).args(&args).output().unwrap();
    let said = || format!("{}\n{}{}", output.status, stdout(&output), stderr(&output));
    let record = records::store::read_record(&path.join(RECORD)).map_err(|_| said())?;
    let beside = record.evidence.iter().find_map(|piece| match piece {
        Evidence::Pair { facts, .. } => facts.got(),
        _ => None,
    });
    let beside = beside.ok_or_else(said)?;
    let median = |side: &TimeFacts| {
        Sample::new(&side.batched_ns).unwrap().median() / f64::from(side.launches_per_sample)
    };
    let explained = Explained {
        marked: row.marked(path),
        causes: causes(path, &[&case]),
    };
    Ok((median(&beside.head) / median(&beside.base), explained))
}
