//! Labelled regressions: edits of kernels that make them slower and leave them right, each with the cause that has
//! to be named first. Head is an edited copy, and its base the commit before the edit.
//!
//! `GATEKEEPER_ROWS='pad|wave' cargo test --test it explain::` runs the rows alone whose name has `pad` or `wave` in it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; the table, where it is asked for"
)]

use crate::common;
mod table;

use ::explain::CauseClass;
use common::{RECORD, copy, gatekeeper, git, root, run, stderr, stdout};
use judge::stats::Sample;
use model::{BuildFacts, CheckFacts, Evidence, Record, SimulationFacts, TimeFacts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use table::{Edit, HARMLESS, HELD_OUT, Harmless, MARKER, Needs, REGRESSIONS, Reached, Regression};

fn regressions() -> impl Iterator<Item = &'static Regression> {
    REGRESSIONS.iter().chain(HELD_OUT)
}

/// The parts that both tables share.
#[derive(Clone, Copy)]
struct Pair {
    name: &'static str,
    unit: &'static str,
    base: &'static [Edit],
    head: &'static [Edit],
}

impl From<&Regression> for Pair {
    fn from(row: &Regression) -> Self {
        Self {
            name: row.name,
            unit: row.unit,
            base: row.base,
            head: row.head,
        }
    }
}

impl From<&Harmless> for Pair {
    fn from(row: &Harmless) -> Self {
        Self {
            name: row.name,
            unit: row.unit,
            base: row.base,
            head: row.head,
        }
    }
}

/// Head of a pair, run in the simulator against its base, and explained.
struct Made {
    record: Record,
    report: Value,
    explained: Explained,
}

/// The named causes, and those that should be.
struct Explained {
    /// The marked line of head.
    marked: Option<Line>,
    causes: Vec<First>,
}

type Line = (String, i64);

/// A cause: its class and its first line.
#[derive(Debug, PartialEq)]
struct First {
    class: String,
    line: Option<Line>,
}

impl Pair {
    /// The base in `dir`, committed there.
    fn start(self, dir: &Path) -> Result<(), String> {
        copy(&root().join("kernels"), &dir.join("kernels"));
        copy(
            &root().join("tests/it/explain/fixtures"),
            &dir.join("small"),
        );
        fs::rename(dir.join("small/gates.yaml"), dir.join("gates.yaml")).unwrap();
        fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
        self.base.iter().try_for_each(|edit| apply(dir, edit))?;
        git(dir, &["init", "--quiet"]);
        git(dir, &["add", "--all"]);
        git(dir, &["commit", "--quiet", "-m", "base"]);
        Ok(())
    }

    fn change(self, dir: &Path) -> Result<(), String> {
        self.head.iter().try_for_each(|edit| apply(dir, edit))
    }

    fn make(self) -> Result<Made, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        self.start(path)?;
        self.change(path)?;
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
        // Counters and resources that got worse fail, or are in doubt, and that is what the rows are for.
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

    fn marked(self, dir: &Path) -> Option<Line> {
        let file = self
            .head
            .iter()
            .find(|edit| edit.new.contains(MARKER))?
            .file;
        let text = fs::read_to_string(dir.join(file)).unwrap();
        let at = text.lines().position(|line| line.contains(MARKER)).unwrap();
        Some((file.to_owned(), at as i64 + 1))
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
        }
    };
    causes.iter().map(first).collect()
}

fn apply(dir: &Path, edit: &Edit) -> Result<(), String> {
    let path = dir.join(edit.file);
    let text = fs::read_to_string(&path).unwrap();
    match text.matches(edit.old).count() {
        1 => fs::write(path, text.replace(edit.old, edit.new)).map_err(|error| error.to_string()),
        found => Err(format!(
            "{found} times in {}, and not once:\n{}",
            edit.file, edit.old
        )),
    }
}

impl Made {
    /// The evidence of head and of the base on the first case: head's, and the base's where it was asked for.
    fn sides(&self) -> (Side<'_>, Side<'_>) {
        let (mut head, mut base) = (Side::default(), Side::default());
        for piece in &self.record.evidence {
            match piece.of_base() {
                Some(piece) => base.take(piece),
                None => head.take(piece),
            }
        }
        (head, base)
    }

    /// Why a side is not right: what it errs by, and what the simulator found.
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

/// The observations of one side, and of its one case.
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

/// All rows, made once for the tests here: by name, with what came of it.
fn all() -> &'static BTreeMap<&'static str, Result<Made, String>> {
    static ALL: OnceLock<BTreeMap<&'static str, Result<Made, String>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let rows = regressions().map(Pair::from);
        let rows: Vec<Pair> = rows.chain(HARMLESS.iter().map(Pair::from)).collect();
        let made: Vec<_> = each_wanted(&rows, |row| (row.name, row.make()));
        let count = made.len();
        let made = BTreeMap::from_iter(made);
        assert_eq!(made.len(), count, "two rows of one name");
        made
    })
}

/// The result of `work` for each row that `GATEKEEPER_ROWS` asks for, on all cores.
fn each_wanted<T: Send>(rows: &[Pair], work: impl Fn(&Pair) -> T + Sync) -> Vec<T> {
    let wanted = std::env::var("GATEKEEPER_ROWS").unwrap_or_default();
    let is_wanted = |row: &&Pair| wanted.split('|').any(|part| row.name.contains(part));
    let rows = Mutex::new(rows.iter().filter(is_wanted));
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

/// A regression is slow and not wrong; what changes a launch alone leaves the machine code as it is, and nothing
/// else does.
#[test]
fn rows_are_right_on_both_sides_and_their_code_differs_as_they_say() {
    let regressions = regressions().map(|row| (row.name, !has_marker(row.head)));
    let harmless = HARMLESS.iter().map(|row| (row.name, row.same_code));
    let same_code: BTreeMap<&str, bool> = regressions.chain(harmless).collect();
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

/// How far from the marked line the line of a cause may be.
const NEAR: i64 = 3;

fn reached(row: &Regression, explained: &Explained) -> Reached {
    let Explained { causes, marked } = explained;
    let first = &causes[0];
    if std::env::var_os("GATEKEEPER_SHOW").is_some() {
        println!("| {} | {} | {marked:?} | {causes:?} |", row.name, row.class);
    }
    if first.class != row.class {
        let mut classes = CauseClass::ALL.into_iter().map(CauseClass::name);
        return Reached::Other(classes.find(|class| *class == first.class).unwrap());
    }
    let is_near = match (marked, &first.line) {
        (Some((file, at)), Some((found, number))) => file == found && (at - number).abs() <= NEAR,
        (Some(_), None) => false,
        (None, _) => true,
    };
    match is_near {
        true => Reached::Cause,
        false => Reached::ClassAlone,
    }
}

/// The score: what is named first for each regression, exactly as it is reached. A row that gets better or worse is
/// edited.
#[test]
fn the_first_cause_of_each_regression() {
    let wrong = regressions().filter_map(|row| {
        let made = all().get(row.name)?.as_ref().unwrap();
        let reached = reached(row, &made.explained);
        (reached != row.reached).then(|| {
            format!(
                "{}: {reached:?}, and the table has {:?}",
                row.name, row.reached
            )
        })
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A cause that only a profile can know is said to be unknown, and no other cause is named for it.
#[test]
fn causes_that_need_a_profile_are_not_guessed() {
    let rows = regressions().filter(|row| row.needs == Needs::Profile);
    for row in rows {
        let Some(made) = all().get(row.name) else {
            continue;
        };
        let causes = &made.as_ref().unwrap().explained.causes;
        assert_eq!(causes.len(), 1, "{}: {causes:?}", row.name);
        assert_eq!(causes[0].class, "code-changed", "{}", row.name);
    }
}

/// Nothing is said to be slower where nothing is. Changes are listed.
#[test]
fn names_no_cause_if_nothing_is_slower() {
    let wrong = HARMLESS.iter().filter_map(|row| {
        let made = all().get(row.name)?.as_ref().unwrap();
        let causes = &made.explained.causes;
        let classes: Vec<&str> = causes.iter().map(|it| it.class.as_str()).collect();
        (classes != [row.said]).then(|| format!("{}: {causes:?}", row.name))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn has_marker(edits: &[Edit]) -> bool {
    edits.iter().any(|edit| edit.new.contains(MARKER))
}

/// In the first, at the shape that fills a GPU, the sum over a block is a hundredth of the work: too little to be called
/// divergence. In the second nobody counts how often it divides, so the registers weigh more. It costs nothing there.
const LOST_ON_A_GPU: [&str; 2] = ["every other thread of a warp", "divided exactly"];

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
    let rows: BTreeMap<&str, &Regression> = regressions().map(|row| (row.name, row)).collect();
    let mut pairs: Vec<Pair> = rows.values().map(|row| Pair::from(*row)).collect();
    // The longest rows go first.
    pairs.sort_by_key(|pair| rows[pair.name].needs == Needs::Code);
    let problems = each_wanted(&pairs, |pair| {
        let row = rows[pair.name];
        let (slower, made) = match on_a_gpu(row) {
            Ok(seen) => seen,
            Err(problem) => {
                println!("| {} | failed | {problem} |", row.name);
                return Some(format!("{}: {problem}", row.name));
            }
        };
        let reached = reached(row, &made);
        let profiled = match row.needs {
            Needs::Code => "",
            Needs::Simulator | Needs::Profile => "yes",
        };
        println!(
            "| {} | {slower:.3} | {} | {profiled} | {reached:?} | {:?} |",
            row.name, row.class, made.causes
        );
        let is_as_good = match row.needs {
            // Which line makes others miss, no counter knows.
            Needs::Profile => matches!(reached, Reached::Cause | Reached::ClassAlone),
            Needs::Code | Needs::Simulator => reached == Reached::Cause || reached == row.reached,
        };
        let is_as_good = is_as_good || LOST_ON_A_GPU.contains(&row.name);
        (!is_as_good).then(|| format!("{}: {reached:?}", row.name))
    });
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Time of head over that of base, timed in the same processes, and the causes.
fn on_a_gpu(row: &Regression) -> Result<(f64, Explained), String> {
    let pair = Pair::from(row);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let case = format!("{}@gpu", row.unit);
    let profile: &[&str] = match row.needs {
        Needs::Code => &[],
        Needs::Simulator | Needs::Profile => &["--profile"],
    };
    let args = [&["run", "--require-gpu", "--base", "HEAD", &case], profile].concat();
    pair.start(path)?;
    pair.change(path)?;
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
        marked: pair.marked(path),
        causes: causes(path, &[&case]),
    };
    Ok((median(&beside.head) / median(&beside.base), explained))
}
