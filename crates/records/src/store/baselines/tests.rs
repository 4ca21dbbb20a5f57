use super::*;
use judge::fixture;
use judge::judge;
use model::{
    Against, Conclusion, Doubt, FigureProblem, NotRun, Num, Outcome, Question, Reason, Seen,
    Withheld,
};

fn all(_: &Subject) -> bool {
    true
}

fn repository() -> (tempfile::TempDir, Update) {
    let dir = tempfile::tempdir().unwrap();
    let update =
        update_baselines(dir.path(), &fixture::record(), &all, WorseValues::Accepted).unwrap();
    (dir, update)
}

fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for kernel in entries(root, Path::new(DIR)).unwrap() {
        for variant in entries(root, &kernel).unwrap() {
            found.extend(
                entries(root, &variant)
                    .unwrap()
                    .iter()
                    .map(|path| path.display().to_string()),
            );
        }
    }
    found
}

/// Reads the only file that is broken.
fn broken(root: &Path) -> BrokenBaseline {
    let (_, mut broken) = load_baselines(root).unwrap();
    assert_eq!(broken.len(), 1, "{broken:?}");
    broken.remove(0)
}

#[test]
fn loads_the_baselines_it_wrote_and_passes_the_same_run() {
    let (dir, update) = repository();
    assert_eq!(update.refused, []);
    assert!(update.changes.iter().all(|change| change.old.is_none()));
    let names = files(dir.path());
    assert_eq!(names.len(), 6);
    assert!(
        names[0].starts_with("baselines/k/direct/correctness-sm_90-13.0.88-"),
        "{}",
        names[0]
    );
    assert!(
        names[2].starts_with("baselines/k/direct/times-nvidia-h100-80gb-hbm3-580-warm-"),
        "{}",
        names[2]
    );

    let (baselines, broken) = load_baselines(dir.path()).unwrap();
    assert_eq!((baselines.len(), broken.len()), (6, 0));
    let mut record = fixture::record();
    record.policy.baselines = baselines;
    let judgement = judge(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert_eq!(judgement.count(Outcome::Pass), judgement.verdicts.len());
}

#[test]
fn a_figure_that_a_run_has_no_more_is_removed_and_listed() {
    let (dir, _) = repository();
    let file = dir.path().join(&files(dir.path())[0]);
    let mut baseline: Baseline =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let figures = baseline.cases.values_mut().next().unwrap();
    let agreed = figures.values().next().unwrap().clone();
    assert!(figures.insert(Metric::Cycles, agreed).is_none());
    std::fs::write(&file, serde_json::to_string(&baseline).unwrap()).unwrap();

    let update =
        update_baselines(dir.path(), &fixture::record(), &all, WorseValues::Accepted).unwrap();
    let changes: Vec<_> = update.changes.iter().map(ToString::to_string).collect();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(
        changes[0].contains(" cycles: ") && changes[0].ends_with("(removed)"),
        "{changes:?}"
    );
    assert!(!std::fs::read_to_string(&file).unwrap().contains("cycles"));
}

/// No gate can rest on them, and the verdict on earlier ones says to update.
#[test]
fn counters_that_are_withheld_are_removed_and_so_is_a_file_of_none() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = fixture::record_simulated();
    update_baselines(dir.path(), &record, &all, WorseValues::Accepted).unwrap();
    let shapes = || {
        let (baselines, broken) = load_baselines(dir.path()).unwrap();
        assert_eq!(broken, []);
        let is_wanted = |baseline: &Baseline| {
            baseline.variant == "direct" && baseline.key.facet() == Facet::Counters
        };
        let found = baselines.into_iter().find(is_wanted);
        found.map(|baseline| baseline.cases.into_keys().collect::<Vec<_>>())
    };
    assert_eq!(shapes().unwrap(), ["large", "small"]);
    for (shape, left) in [("small", Some(vec!["large".to_owned()])), ("large", None)] {
        fixture::resimulate(
            &mut record,
            &fixture::case_id("direct", shape),
            |_, facts| {
                if let Seen::Got(facts) = facts {
                    let why = Withheld {
                        doubt: Doubt::Polls,
                        place: "k.cu:7".to_owned(),
                    };
                    facts.withheld = std::mem::take(&mut facts.counters)
                        .into_keys()
                        .map(|counter| (counter, why.clone()))
                        .collect();
                }
            },
        );
        let update = update_baselines(dir.path(), &record, &all, WorseValues::Accepted).unwrap();
        assert_eq!(shapes(), left);
        assert!(!update.changes.is_empty());
        assert!(
            update
                .refused
                .iter()
                .all(|refusal| refusal.facet != Facet::Counters)
        );
        assert!(
            update
                .changes
                .iter()
                .all(|change| change.to_string().ends_with("(removed)"))
        );
    }
    let again = update_baselines(dir.path(), &record, &all, WorseValues::Accepted).unwrap();
    assert_eq!(again.changes, []);
}

#[test]
fn nothing_there_is_nothing_agreed() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(load_baselines(dir.path()).unwrap(), (vec![], vec![]));
}

#[test]
fn a_second_update_changes_nothing_and_a_change_has_old_and_new_value() {
    let (dir, _) = repository();
    let mut record = fixture::record();
    record.environment.started = "2026-11-21T23:00:00Z".into();
    let before: Vec<_> = files(dir.path())
        .iter()
        .map(|name| std::fs::read(dir.path().join(name)).unwrap())
        .collect();
    assert_eq!(
        update_baselines(dir.path(), &record, &all, WorseValues::Accepted)
            .unwrap()
            .changes,
        []
    );
    let after: Vec<_> = files(dir.path())
        .iter()
        .map(|name| std::fs::read(dir.path().join(name)).unwrap())
        .collect();
    assert_eq!(before, after);

    fixture::rebuild(&mut record, "fast", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 100
    });
    let update = update_baselines(dir.path(), &record, &all, WorseValues::Accepted).unwrap();
    assert_eq!(update.changes, []);
    let said: Vec<_> = update.worse.iter().map(BaselineChange::to_string).collect();
    assert_eq!(
        said,
        [
            "k/fast [sm_90] registers: 96 -> 100 (4.2 % more)",
            "k/fast [sm_90] occupancy: 31.25 % -> 25 % (20.0 % lower)",
            "k/fast [sm_90] blocks_per_sm: 5 -> 4 (20.0 % less)",
        ]
    );
}

#[test]
fn worse_values_stay_out_and_others_come_in() {
    let (dir, _) = repository();
    let agreed = || {
        let (baselines, broken) = load_baselines(dir.path()).unwrap();
        assert_eq!(broken, []);
        let times = |baseline: &&Baseline| {
            baseline.variant == "fast" && baseline.key.facet() == Facet::Times
        };
        let times = baselines.iter().find(times).unwrap();
        ["small", "large"].map(|shape| times.cases[shape][&Metric::P50].value.0.round())
    };
    let before = agreed();
    let mut record = fixture::record();
    record.environment.started = "2026-11-22T01:00:00Z".into();
    fixture::slow(&mut record, &fixture::case_id("fast", "small"), 90_000);
    fixture::slow(&mut record, &fixture::case_id("fast", "large"), 70_000);
    // The code is another, so it joins no sessions of the old code.
    fixture::rebuild(&mut record, "fast", |facts| facts.identity = "other".into());

    let update = update_baselines(dir.path(), &record, &all, WorseValues::Refused).unwrap();
    let worse: BTreeSet<_> = update
        .worse
        .iter()
        .map(|change| change.subject.clone())
        .collect();
    assert_eq!(
        worse,
        [fixture::case("fast", "small")].into(),
        "{:?}",
        update.worse
    );
    assert!(
        update
            .worse
            .iter()
            .any(|change| change.metric == Metric::P50)
    );
    assert!(
        update
            .changes
            .iter()
            .all(|change| !worse.contains(&change.subject))
    );
    assert_eq!(agreed(), [before[0], 70_002.0]);

    let update = update_baselines(dir.path(), &record, &all, WorseValues::Accepted).unwrap();
    assert!(
        update
            .worse
            .iter()
            .any(|change| change.metric == Metric::P50)
    );
    assert_eq!(agreed(), [90_002.0, 70_002.0]);
}

/// Another day may be slower; the code is the same.
#[test]
fn a_slower_session_of_the_same_code_joins_and_is_not_worse() {
    let (dir, _) = repository();
    let mut record = fixture::record();
    record.environment.started = "2026-11-22T01:00:00Z".into();
    fixture::slow(&mut record, &fixture::case_id("fast", "small"), 90_000);
    let update = update_baselines(dir.path(), &record, &all, WorseValues::Refused).unwrap();
    assert_eq!(update.worse, []);
    let p50 = |change: &&BaselineChange| change.metric == Metric::P50;
    let [before, after] = update
        .changes
        .iter()
        .find(p50)
        .map(|change| [change.old, change.new])
        .unwrap();
    assert!(before < after, "{before:?} {after:?}");
}

#[test]
fn updates_only_measured_cases() {
    let (dir, _) = repository();
    let mut record = fixture::record();
    record.plan.left_out.insert("k".into());
    record
        .plan
        .cases
        .retain(|case| case.id == fixture::case_id("fast", "small"));
    fixture::slow(&mut record, &fixture::case_id("fast", "small"), 70_000);
    record.plan.units.retain(|unit| unit.id.variant == "fast");
    update_baselines(dir.path(), &record, &all, WorseValues::Accepted).unwrap();
    let (baselines, _) = load_baselines(dir.path()).unwrap();
    let p50 = |variant: &str, shape: &str| {
        let of = baselines
            .iter()
            .find(|b| b.variant == variant && b.key.facet() == Facet::Times);
        of.unwrap().cases[shape][&Metric::P50].value.0.round()
    };
    assert_eq!(
        (
            p50("fast", "small"),
            p50("fast", "large"),
            p50("direct", "small")
        ),
        (70_002.0, 80_002.0, 100_002.0)
    );
    // A run of some shapes keeps the values that only a run of all shapes can give.
    let resources = baselines
        .iter()
        .find(|b| b.variant == "fast" && b.key.facet() == Facet::Resources);
    assert!(resources.unwrap().cases["*"].contains_key(&Metric::Shared));
}

#[test]
fn filters_pick_subjects() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = |subject: &Subject| *subject == fixture::case("fast", "small");
    let update = update_baselines(
        dir.path(),
        &fixture::record(),
        &wanted,
        WorseValues::Accepted,
    )
    .unwrap();
    assert!(
        update
            .changes
            .iter()
            .all(|change| change.subject == fixture::case("fast", "small"))
    );
    assert_eq!(files(dir.path()).len(), 2);
}

#[test]
fn wrong_or_throttled_cases_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = fixture::record();
    fixture::recheck(
        &mut record,
        &fixture::case_id("direct", "small"),
        |_, facts| facts.error.max_err = Num(1.0),
    );
    fixture::retime(
        &mut record,
        &fixture::case_id("fast", "small"),
        |_, facts| facts.gpu.throttled = true,
    );
    let update = update_baselines(dir.path(), &record, &all, WorseValues::Accepted).unwrap();
    let refused: Vec<_> = update
        .refused
        .iter()
        .map(|refusal| {
            format!(
                "{} {}: {}",
                refusal.subject,
                refusal.facet,
                refusal.reason.code()
            )
        })
        .collect();
    assert_eq!(
        refused,
        [
            "k/direct@small correctness: not-proven",
            "k/direct@small times: not-proven",
            "k/fast@small times: throttled-processes",
        ]
    );
    let Reason::NotProven { why } = &update.refused[0].reason else {
        panic!("{:?}", update.refused[0])
    };
    assert!(
        matches!(
            **why,
            Reason::BeyondLimit {
                metric: Metric::MaxErr,
                worst: Some((2, _)),
                ..
            }
        ),
        "{why:?}"
    );
    assert_eq!(
        update.refused[2].reason,
        Reason::ThrottledProcesses { count: 3 }
    );
    let (baselines, _) = load_baselines(dir.path()).unwrap();
    let cases: Vec<_> = baselines
        .iter()
        .map(|b| b.cases.keys().cloned().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(cases, ["large", "*", "large", "large small", "*", "large"]);
}

#[test]
fn nothing_to_agree_on_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = fixture::record();
    record.evidence.clear();
    record.environment.compiler = Seen::NotRun(NotRun::OtherProgram {
        program: "no nvcc".into(),
    });
    let Err(Error::Usage(diagnostic)) =
        update_baselines(dir.path(), &record, &all, WorseValues::Accepted)
    else {
        panic!()
    };
    assert_eq!(
        diagnostic.message,
        "nothing in this record can become a baseline"
    );
    assert!(diagnostic.help[0].contains("no nvcc"));
    assert!(!dir.path().join(DIR).exists());
}

#[test]
fn damage_is_reported_with_its_place_and_never_overwritten() {
    let (dir, _) = repository();
    let name = files(dir.path())[1].clone();
    let path = dir.path().join(&name);
    let whole = std::fs::read_to_string(&path).unwrap();
    for (text, problem) in [
        (
            whole[..53].to_owned(),
            "3:14: it is cut short (EOF while parsing a string)",
        ),
        (
            String::new(),
            "1:0: it is cut short (EOF while parsing a value)",
        ),
        (whole.replacen("96.0", "NaN", 1), "22:18: expected value"),
        (
            whole.replacen("96.0", "\"much\"", 1),
            "22:23: invalid value: string \"much\", expected a number, \"NaN\", \"Infinity\" or \"-Infinity\"",
        ),
        (
            whole.replacen("\"registers\"", "\"registres\"", 1),
            "21:17: `registres` is no metric",
        ),
        (
            whole.replacen(
                "\"registers\": {",
                "\"registers\": {\"value\": 1.0}, \"registers\": {",
                1,
            ),
            "21:46: duplicate key `registers`",
        ),
        (
            whole.replacen("baseline/1", "baseline/9", 1),
            "its schema is gatekeeper.baseline/9, and this version of gatekeeper reads gatekeeper.baseline/1 alone: a newer one wrote it",
        ),
        (
            whole.replacen("13.0.88", "13.0.89", 1),
            "by its content, it should be at baselines/k/direct/resources-sm_90-13.0.89-",
        ),
        (
            whole.replacen("\"direct\"", "\"fast\"", 1),
            "by its content, it should be at baselines/k/fast/resources-sm_90-13.0.88-",
        ),
    ] {
        std::fs::write(&path, &text).unwrap();
        let broken = broken(dir.path());
        assert_eq!(
            (
                broken.path.as_str(),
                broken.kernel.as_str(),
                broken.variant.as_str()
            ),
            (name.as_str(), "k", "direct")
        );
        assert_eq!(broken.facet, Some(Facet::Resources));
        assert!(broken.problem.starts_with(problem), "{}", broken.problem);
        assert!(matches!(
            update_baselines(dir.path(), &fixture::record(), &all, WorseValues::Accepted),
            Err(Error::Usage(_))
        ));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_nan_that_json_can_carry_is_left_to_the_judge() {
    let (dir, _) = repository();
    let path = dir.path().join(&files(dir.path())[1]);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, whole.replacen("96.0", "\"NaN\"", 1)).unwrap();
    let (baselines, broken) = load_baselines(dir.path()).unwrap();
    assert_eq!(broken, []);
    let mut record = fixture::record();
    record.policy.baselines = baselines;
    let judgement = judge(&record);
    let failed = judgement
        .verdicts
        .iter()
        .find(|verdict| verdict.outcome == Outcome::Fail)
        .unwrap();
    assert!(
        matches!(
            failed.reason,
            Reason::BaselineUnusable {
                of: Against::Baseline,
                metric: Metric::Registers,
                problem: FigureProblem::NotFinite(_),
            }
        ),
        "{:?}",
        failed.reason
    );
}

#[test]
fn rejects_a_stray_file_among_baselines() {
    let (dir, _) = repository();
    for (stray, at) in [
        ("baselines/stray.json", "baselines/stray.json"),
        ("baselines/k/stray.json", "baselines/k/stray.json"),
    ] {
        std::fs::write(dir.path().join(stray), "{}").unwrap();
        let Err(Error::Usage(diagnostic)) = load_baselines(dir.path()) else {
            panic!()
        };
        assert_eq!(diagnostic.at.as_deref(), Some(at));
        std::fs::remove_file(dir.path().join(stray)).unwrap();
    }
    std::fs::write(dir.path().join("baselines/README.md"), "what this is").unwrap();
    assert!(load_baselines(dir.path()).is_ok());
}

#[test]
fn names_of_kernels_stay_inside() {
    let names = ["..", ".", "", "a/b", "a-b", "../../etc", "ok_1", "A+b.c"];
    let places: std::collections::BTreeSet<_> = names.iter().map(|name| directory(name)).collect();
    assert_eq!(places.len(), names.len());
    assert!(
        places
            .iter()
            .all(|place| !place.starts_with('.') && !place.contains('/') && !place.is_empty()),
        "{places:?}"
    );
}

#[test]
fn two_updates_at_once_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for variant in fixture::VARIANTS {
            for shape in fixture::SHAPES {
                let root = dir.path();
                scope.spawn(move || {
                    let wanted = |subject: &Subject| *subject == fixture::case(variant, shape);
                    update_baselines(root, &fixture::record(), &wanted, WorseValues::Accepted)
                        .unwrap();
                });
            }
        }
    });
    let (baselines, broken) = load_baselines(dir.path()).unwrap();
    assert_eq!((baselines.len(), broken.len()), (4, 0));
    assert!(
        baselines.iter().all(|baseline| baseline.cases.len() == 2),
        "{baselines:?}"
    );
}

/// `UPDATE_GOLDEN=1` writes it again: while there is no release; from then on, once for a version. Two
/// sessions, and what earlier code showed.
#[test]
fn version_1_is_read_as_it_was_written_then() {
    let (dir, place) = sessions();
    // The name of the file stays, too, because a baseline under another name would be lost.
    assert_eq!(
        place,
        Path::new("baselines/k/fast/times-nvidia-h100-80gb-hbm3-580-warm-86d0dd90.json")
    );
    let golden = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/fixtures/golden/baseline-1.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::copy(dir.path().join(&place), &golden).unwrap();
    }
    let made = load(dir.path(), &place).ok().unwrap();
    let text = std::fs::read_to_string(golden).unwrap();
    std::fs::write(dir.path().join(&place), &text).unwrap();
    let read = load(dir.path(), &place).ok().unwrap();
    assert_eq!(serde_json::to_string_pretty(&read).unwrap() + "\n", text);
    // The seal in its origin is the seal of today's records.
    let origin = made.origin.clone();
    assert_eq!(Baseline { origin, ..read }, made);
}

/// Makes baselines in which `fast` was timed on two days, changed, and timed on two days again.
fn sessions() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    for (day, code, ns) in [
        (21, "before", 80_000),
        (22, "before", 81_000),
        (23, "after", 60_000),
        (24, "after", 60_900),
    ] {
        let mut record = fixture::record();
        record.environment.started = format!("2026-11-{day}T08:00:00Z");
        fixture::rebuild(&mut record, "fast", |facts| facts.identity = code.into());
        for shape in fixture::SHAPES {
            fixture::slow(&mut record, &fixture::case_id("fast", shape), ns);
        }
        update_baselines(dir.path(), &record, &all, WorseValues::Accepted).unwrap();
    }
    let names = files(dir.path());
    let times = names.iter().find(|name| name.contains("/fast/times-"));
    (dir, PathBuf::from(times.unwrap()))
}

#[test]
fn sessions_of_one_code_join_and_widen_the_limit_for_a_new_day() {
    let (dir, place) = sessions();
    let baseline = load(dir.path(), &place).ok().unwrap();
    let agreed = &baseline.cases["small"][&Metric::P50];
    let kept = agreed.sessions.as_ref().unwrap();
    assert_eq!(
        kept.seen.keys().collect::<Vec<_>>(),
        ["2026-11-23 GPU-0", "2026-11-24 GPU-0"]
    );
    assert_eq!(kept.earlier.unwrap().freedom, 1);
    assert!((agreed.value.0 - (60_000f64 * 60_900.0).sqrt()).abs() < 30.0);

    // It is 2 % slower, and the same code already differed by 1.5 % between two days.
    let mut record = fixture::record();
    record.policy.baselines = load_baselines(dir.path()).unwrap().0;
    fixture::slow(&mut record, &fixture::case_id("fast", "small"), 62_000);
    let p50 = |record: &Record| {
        let judgement = judge(record);
        let mut verdicts = judgement.verdicts.into_iter();
        let subject = fixture::case("fast", "small");
        let p50_within = Question::Gate(fixture::within(Metric::P50, 0.02));
        verdicts
            .find(|verdict| verdict.subject == subject && verdict.question == p50_within)
            .unwrap()
    };
    let with = p50(&record);
    assert_eq!(with.outcome, Outcome::Inconclusive);
    let Reason::Undecided { comparison, .. } = &with.reason else {
        panic!("{with:?}")
    };
    assert_eq!(comparison.sessions, Some(2));
    for baseline in &mut record.policy.baselines {
        for agreed in baseline
            .cases
            .values_mut()
            .flat_map(|case| case.values_mut())
        {
            agreed.sessions = None;
        }
    }
    let without = p50(&record);
    assert_eq!(without.outcome, Outcome::Fail);
    let Reason::BeyondChange(comparison) = &without.reason else {
        panic!("{without:?}")
    };
    assert_eq!(comparison.sessions, None);
}

/// The launch is a part of what was measured, in addition to the code.
#[test]
fn another_launch_is_another_measurement() {
    let (dir, place) = sessions();
    let mut record = fixture::record();
    record.environment.started = "2026-11-25T08:00:00Z".into();
    fixture::rebuild(&mut record, "fast", |facts| facts.identity = "after".into());
    for case in &mut record.plan.cases {
        case.seeds = fixture::SEEDS.to_vec();
        if case.id == fixture::case_id("fast", "small") {
            case.steps[0].args = Vec::new();
            case.dims.insert("N".into(), 64);
            case.tensors = vec![];
            case.steps[0].launch.as_mut().unwrap().cluster = Some([1, 1, 1]);
        }
    }
    for piece in &mut record.evidence {
        if let model::Evidence::Driver {
            case,
            facts: Seen::Got(facts),
        } = piece
            && *case == fixture::case_id("fast", "small")
        {
            facts.entries[0].launch.cluster = Some([1, 1, 1]);
        }
    }
    update_baselines(dir.path(), &record, &all, WorseValues::Accepted).unwrap();
    let baseline = load(dir.path(), &place).ok().unwrap();
    let sessions = |shape: &str| {
        let agreed = &baseline.cases[shape][&Metric::P50];
        agreed.sessions.as_ref().unwrap().seen.len()
    };
    assert_eq!((sessions("small"), sessions("large")), (1, 3));
}
