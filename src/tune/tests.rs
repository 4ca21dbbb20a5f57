//! Searches on a simulated GPU. The time of each configuration is known, and so is the right result.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::candidate::Candidate;
use super::evaluator::{Builder, Evaluator, Proof};
use super::log::{Began, Earlier, Log, SCHEMA};
use super::outcome::{Dropped, DroppedBy, Evaluation, Outcome, Shown};
use super::race::{RaceReading, Track};
use super::*;
use build::Artifact;
use model::{BuildFacts, EntryFacts, LaunchBounds, Resources, Seen, Unit};
use run::measure::Dice;
use std::collections::BTreeSet;
use std::path::Path;

const GATES: &str = r#"version: 1
architectures: [sm_90]
kernels:
  k:
    source: k.cu
    entry: k
    define: {A: 1, B: 1, C: 0}
    shapes: {small: {N: 64}, large: {N: 4096}}
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}]
    launch: {grid: [N / 64], block: [64]}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
    tune:
      parameters: {A: [1, 2, 3, 4], B: [1, 2, 3, 4], C: [0, 1]}
      objective: {small: 1, large: 1}
"#;

/// Each configuration is other code, but for C.
struct FakeBuilder;

impl Builder for FakeBuilder {
    fn build(&self, units: &[Unit]) -> Result<Vec<Built>> {
        Ok(units
            .iter()
            .map(|unit| {
                let mut macros = unit.defines.clone();
                macros.remove("C");
                Built {
                    read: [].into(),
                    unlisted: None,
                    facts: Seen::Got(BuildFacts {
                        artifact: "k".to_owned(),
                        entries: vec![EntryFacts {
                            name: "k".to_owned(),
                            symbol: "k".to_owned(),
                            resources: Some(resources()),
                            bounds: LaunchBounds::default(),
                        }],
                        constants: Vec::new(),
                        identity: format!("{macros:?}"),
                        ptx: None,
                        warnings: Vec::new(),
                        mistyped: Vec::new(),
                        kernels: None,
                        missing: None,
                    }),
                    artifact: Some(Artifact::Cubin {
                        path: "k.cubin".into(),
                        entries: Vec::new(),
                        ptx: None,
                        constants: Vec::new(),
                    }),
                    cached: false,
                    millis: 1,
                }
            })
            .collect())
    }
}

fn resources() -> Resources {
    Resources {
        registers: 32,
        stack: Some(0),
        spill_stores: Some(0),
        spill_loads: Some(0),
        static_shared: 0,
        barriers: 0,
        cumulative_stack: None,
        constant_banks: BTreeMap::new(),
        code: None,
        local_accesses: None,
    }
}

/// A GPU that takes `ns` for a configuration, give or take what differs between processes.
struct FakeEvaluator<F> {
    ns: F,
    spread: f64,
    dice: Dice,
    process: u32,
    /// Configurations in which the simulator finds a race.
    racy: fn(&ParameterValues) -> bool,
    /// The pairs that were timed: head, base, and the number of the process.
    read: Vec<(u32, u32, u32)>,
}

impl<F: Fn(&ParameterValues) -> f64> FakeEvaluator<F> {
    fn new(seed: u64, spread: f64, ns: F) -> Self {
        Self {
            ns,
            spread,
            dice: Dice::new(seed, "noise"),
            process: 0,
            racy: |_| false,
            read: Vec::new(),
        }
    }

    /// Returns a value of a nearly normal distribution.
    fn noise(&mut self) -> f64 {
        let sum: f64 = (0..12)
            .map(|_| f64::from(self.dice.below(1_000_000)) / 1e6)
            .sum();
        (sum - 6.0) * self.spread
    }
}

fn dropped(gate: DroppedBy) -> Dropped {
    Dropped::new(gate, gate.name(), gate.name(), String::new())
}

impl<F: Fn(&ParameterValues) -> f64> Track for FakeEvaluator<F> {
    fn fresh(&mut self) {
        self.process += 1;
    }

    fn read(
        &mut self,
        head: &Candidate,
        base: &Candidate,
    ) -> std::result::Result<RaceReading, Dropped> {
        self.read.push((self.process, head.number, base.number));
        let [head, base] = [head, base].map(|evaluation| (self.ns)(&evaluation.values));
        if head.is_infinite() {
            return Err(dropped(DroppedBy::Hang));
        }
        let shapes = |ns: f64| {
            BTreeMap::from(
                [("small", ns), ("large", 9.0 * ns)].map(|(shape, ns)| (shape.to_owned(), ns)),
            )
        };
        Ok(RaceReading {
            ln_ratio: (head / base).ln() + self.noise(),
            resolution: 1e-5,
            head_ns: shapes(head),
            base_ns: shapes(base),
        })
    }
}

impl<F: Fn(&ParameterValues) -> f64> Evaluator for FakeEvaluator<F> {
    fn has_clock(&self) -> bool {
        true
    }

    fn took(&self) -> Duration {
        Duration::ZERO
    }

    /// Proves every candidate except those that take no time at all, which are wrong.
    fn prove(&mut self, batch: &[&Candidate]) -> Result<Vec<std::result::Result<Proof, Dropped>>> {
        Ok(batch
            .iter()
            .map(|batch| match (self.ns)(&batch.values) {
                0.0 => Err(dropped(DroppedBy::Correctness)),
                _ => Ok(Proof::default()),
            })
            .collect())
    }

    fn look_for_races(
        &mut self,
        candidate: &Candidate,
    ) -> Result<std::result::Result<(), Dropped>> {
        Ok(if (self.racy)(&candidate.values) {
            Err(dropped(DroppedBy::Race))
        } else {
            Ok(())
        })
    }
}

fn began() -> Began {
    Began {
        schema: SCHEMA.to_owned(),
        start: "k/default".to_owned(),
        macros: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
        parameters: Vec::new(),
        constraints: Vec::new(),
        configurations: 32,
        objective: [("small".to_owned(), 0.5), ("large".to_owned(), 0.5)].into(),
        strategy: "elite".to_owned(),
        seed: 1,
        device: "none".to_owned(),
        sources: String::new(),
        compiler: String::new(),
    }
}

/// Makes a directory with a kernel that nobody compiles.
fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("gates.yaml"), GATES).unwrap();
    std::fs::write(dir.path().join("k.cu"), "").unwrap();
    dir
}

fn search_in<F: Fn(&ParameterValues) -> f64>(
    dir: &Path,
    evaluator: &mut FakeEvaluator<F>,
    method: Method,
    budget: Budget,
    resume: bool,
) -> SearchResult {
    let path = dir.join("log.jsonl");
    let log = if resume {
        Log::resume(&path, &began()).unwrap()
    } else {
        (Log::create(&path, began()).unwrap(), Earlier::default())
    };
    search_on(dir, (&FakeBuilder, evaluator), (method, budget), log)
}

fn search_on<F: Fn(&ParameterValues) -> f64>(
    dir: &Path,
    (builder, evaluator): (&FakeBuilder, &mut FakeEvaluator<F>),
    (method, budget): (Method, Budget),
    (mut log, earlier): (Log, Earlier),
) -> SearchResult {
    let tuning = config::load_tuning(&dir.join("gates.yaml"), "k", None).unwrap();
    let space = Arc::new(tuning.space().unwrap());
    let settings = Settings {
        method,
        seed: 1,
        budget,
        pairing: config::pairing(true),
        arch: None,
    };
    super::search(
        &tuning,
        space,
        &settings,
        (&mut log, earlier),
        (builder, evaluator),
        &|_| {},
    )
    .unwrap()
}

const ALL: Budget = Budget::Evaluations(1000);

fn value_of(values: &ParameterValues, name: &str) -> f64 {
    values.get(name).copied().unwrap() as f64
}

/// Returns the time of a configuration. A = 3 and B = 2 are best. B = 4 takes no time because it is wrong, and A = 4
/// with B = 3 never ends.
fn bowl(values: &ParameterValues) -> f64 {
    let (a, b) = (value_of(values, "A"), value_of(values, "B"));
    if b == 4.0 {
        return 0.0;
    }
    if (a, b) == (4.0, 3.0) {
        return f64::INFINITY;
    }
    1000.0 * (1.0 + 0.05 * (a - 3.0).powi(2) + 0.03 * (b - 2.0).powi(2))
}

fn confirmation(found: &SearchResult) -> &Confirmation {
    match &found.end {
        End::Confirmed(confirmation) => confirmation,
        other => panic!("{other:?}"),
    }
}

fn evaluation(found: &SearchResult, number: u32) -> &Evaluation {
    found
        .evaluations
        .iter()
        .find(|evaluation| evaluation.number == number)
        .unwrap()
}

#[test]
fn the_fastest_that_is_right_is_found_and_confirmed_on_fresh_times() {
    for method in [Method::Elite, Method::Guided] {
        let dir = project();
        let mut evaluator = FakeEvaluator::new(7, 0.001, bowl);
        let found = search_in(dir.path(), &mut evaluator, method, ALL, false);
        // The start is one of 32.
        assert_eq!((found.evaluations.len(), found.looked_at), (31, 32));
        let it = confirmation(&found);
        assert_eq!(it.shown, Shown::Faster);
        let winner = &evaluation(&found, it.winner).values;
        assert_eq!(
            (value_of(winner, "A"), value_of(winner, "B")),
            (3.0, 2.0),
            "{method:?}"
        );
        let true_ratio = 1.0 / 1.23;
        let [low, high] = it.interval;
        assert!(low < true_ratio && true_ratio < high, "{it:?}");
        assert!(high - low < 0.02, "{it:?}");
        assert!((it.winner_ns["large"] - 9000.0).abs() < 1.0);

        // Its processes are the last ones, and no other configuration was in them.
        let confirming: Vec<_> = evaluator
            .read
            .iter()
            .rev()
            .take(it.processes as usize)
            .collect();
        let processes: BTreeSet<u32> = confirming.iter().map(|(process, ..)| *process).collect();
        assert_eq!(processes.len(), it.processes as usize);
        assert!(
            confirming
                .iter()
                .all(|(_, head, base)| (*head, *base) == (it.winner, 0))
        );
        let searching = evaluator.read.len() - confirming.len();
        let before = evaluator.read.iter().take(searching);
        assert!(
            before
                .clone()
                .all(|(process, ..)| !processes.contains(process))
        );

        for evaluation in &found.evaluations {
            let (a, b) = (
                value_of(&evaluation.values, "A"),
                value_of(&evaluation.values, "B"),
            );
            let timed = evaluator
                .read
                .iter()
                .any(|(_, head, _)| *head == evaluation.number);
            match &evaluation.outcome {
                Outcome::Dropped(why) if b == 4.0 => {
                    assert_eq!(why.gate, DroppedBy::Correctness);
                    assert!(!timed, "wrong, and timed: {evaluation:?}");
                }
                Outcome::Dropped(why) => {
                    assert_eq!((a, b, why.gate), (4.0, 3.0, DroppedBy::Hang));
                }
                Outcome::Same { .. } => assert!(!timed),
                Outcome::Timed(_) => assert!(timed),
                Outcome::Ranked(_) => panic!("a GPU ranks nothing"),
            }
        }
        assert_eq!(found.inert, ["C"]);
    }
}

#[test]
fn clearly_slower_gets_one_process_and_slower_gets_two() {
    let dir = project();
    let slower = |values: &ParameterValues| match value_of(values, "A") as i64 {
        1 => 1000.0,
        2 => 1010.0,
        3 => 1100.0,
        _ => 990.0,
    };
    let mut evaluator = FakeEvaluator::new(3, 0.0001, slower);
    let found = search_in(dir.path(), &mut evaluator, Method::Elite, ALL, false);
    let mut seen = BTreeSet::new();
    for evaluation in &found.evaluations {
        if let Outcome::Timed(timed) = &evaluation.outcome {
            seen.insert((
                value_of(&evaluation.values, "A") as i64,
                timed.processes,
                timed.stopped,
            ));
        }
    }
    let of_a = |wanted: i64| -> Vec<(i64, u32, bool)> {
        seen.iter()
            .filter(|(a, ..)| *a == wanted)
            .copied()
            .collect()
    };
    assert_eq!(of_a(2), [(2, 2, true)]);
    assert_eq!(of_a(3), [(3, 1, true)]);
    assert!(of_a(4).contains(&(4, 3, false)), "{seen:?}");
}

/// The best of sixteen equal configurations looks faster than the start, by luck. That is no proof.
#[test]
fn luck_is_not_confirmed() {
    let mut claimed = 0;
    let mut flattered = 0;
    for seed in 0..100 {
        let dir = project();
        let mut evaluator = FakeEvaluator::new(seed, 0.003, |_| 1000.0);
        let found = search_in(dir.path(), &mut evaluator, Method::Elite, ALL, false);
        claimed += usize::from(found.is_shown());
        if let End::Confirmed(it) = &found.end {
            let cost = evaluation(&found, it.winner).outcome.cost().unwrap();
            flattered += usize::from(cost < 0.999);
        }
    }
    // The search alone would have claimed it most of the time.
    assert!(flattered > 60, "{flattered}");
    assert!(claimed <= 3, "{claimed}");
}

#[test]
fn a_race_that_no_gpu_shows_is_not_the_best() {
    let dir = project();
    let mut evaluator = FakeEvaluator::new(7, 0.001, bowl);
    evaluator.racy = |values| (value_of(values, "A"), value_of(values, "B")) == (3.0, 2.0);
    let found = search_in(dir.path(), &mut evaluator, Method::Elite, ALL, false);
    let it = confirmation(&found);
    let winner = &evaluation(&found, it.winner).values;
    // Two configurations are second best, and both have A = 3.
    assert_eq!(value_of(winner, "A"), 3.0);
    assert!([1.0, 3.0].contains(&value_of(winner, "B")), "{winner:?}");
    let racy = |evaluation: &&Evaluation| {
        (evaluator.racy)(&evaluation.values) && evaluation.code.is_some()
    };
    let outcomes: Vec<&Outcome> = found
        .evaluations
        .iter()
        .filter(racy)
        .map(|evaluation| &evaluation.outcome)
        .collect();
    assert!(
        matches!(outcomes.as_slice(), [Outcome::Dropped(why), Outcome::Same { .. }] if why.gate == DroppedBy::Race),
        "{outcomes:?}"
    );
}

#[test]
fn the_winner_becomes_a_variant_of_the_file() {
    let dir = project();
    let mut evaluator = FakeEvaluator::new(7, 0.001, bowl);
    let found = search_in(dir.path(), &mut evaluator, Method::Elite, ALL, false);
    let path = dir.path().join("gates.yaml");
    let tuning = config::load_tuning(&path, "k", None).unwrap();
    let text = tuning
        .with_variant(&path, "tuned", found.winner().unwrap())
        .unwrap();
    // All that is there stays, but for the line that gains a key.
    let lines: BTreeSet<&str> = text.lines().collect();
    assert!(GATES.lines().all(|line| lines.contains(line)), "{text}");
    std::fs::write(&path, &text).unwrap();
    let loaded = config::load(&path, &config::Selection::default()).unwrap();
    let unit = loaded
        .plan
        .units
        .iter()
        .find(|unit| unit.id.variant == "tuned")
        .unwrap();
    let macros = ["A", "B", "C"].map(|name| unit.defines[name].as_str());
    assert_eq!(macros, ["3", "2", "0"]);
    // The search read another text.
    let said = tuning
        .with_variant(&path, "tuned", found.winner().unwrap())
        .unwrap_err();
    assert!(
        said.to_string().contains("the file was edited meanwhile"),
        "{said}"
    );
}

#[test]
fn confirms_nothing_if_nothing_is_faster() {
    let dir = project();
    let worse = |values: &ParameterValues| match (value_of(values, "A"), value_of(values, "B")) {
        (1.0, 1.0) => 1000.0,
        _ => 1100.0,
    };
    let mut evaluator = FakeEvaluator::new(1, 0.001, worse);
    let found = search_in(dir.path(), &mut evaluator, Method::Elite, ALL, false);
    assert_eq!(found.end, End::NoneFaster);
    assert_eq!(found.bests, Vec::<u32>::new());
    assert!(!found.is_shown());
}

#[test]
fn a_resumed_search_keeps_its_best_and_confirms_it() {
    let dir = project();
    let mut evaluator = FakeEvaluator::new(7, 0.001, bowl);
    let first = search_in(
        dir.path(),
        &mut evaluator,
        Method::Elite,
        Budget::Evaluations(10),
        false,
    );
    assert!(first.evaluations.len() < 32);
    let mut evaluator = FakeEvaluator::new(8, 0.001, bowl);
    let found = search_in(dir.path(), &mut evaluator, Method::Elite, ALL, true);
    assert_eq!(found.looked_at, 32);
    assert_eq!(
        found.evaluations[..first.evaluations.len()],
        first.evaluations
    );
    assert!(found.bests.starts_with(&first.bests) && !first.bests.is_empty());
    let it = confirmation(&found);
    let winner = &evaluation(&found, it.winner).values;
    assert_eq!((value_of(winner, "A"), value_of(winner, "B")), (3.0, 2.0));
    // Timed against the best that the first part had found, not against the start.
    let beside = evaluator.read.first().unwrap().2;
    assert_eq!(Some(&beside), first.bests.last());
}

#[test]
fn the_budget_counts_tried_configurations() {
    let dir = project();
    let mut evaluator = FakeEvaluator::new(7, 0.001, bowl);
    let found = search_in(
        dir.path(),
        &mut evaluator,
        Method::Elite,
        Budget::Evaluations(10),
        false,
    );
    assert_eq!(
        found
            .evaluations
            .iter()
            .filter(|evaluation| evaluation.outcome.is_counted())
            .count(),
        10
    );
    // With each comes the one that is the same code.
    assert!(found.evaluations.len() > 15, "{}", found.evaluations.len());
}

#[test]
fn the_report_has_the_results_of_the_search() {
    let dir = project();
    let mut evaluator = FakeEvaluator::new(7, 0.001, bowl);
    let mut found = search_in(dir.path(), &mut evaluator, Method::Elite, ALL, false);
    found.elapsed = Duration::from_secs(200);
    for evaluation in &mut found.evaluations {
        evaluation.at_ms = 1000 * u64::from(evaluation.number);
    }
    let groups = crate::tune::layout::lay_out(&began(), &found);
    insta::assert_snapshot!(report::markdown::render_groups(
        crate::tune::layout::TITLE,
        &groups
    ));
}
