use super::super::fixture;
use super::*;
use verdict::judge::judge;
use verdict::model::{Conclusion, Num, Outcome, Seen};

fn all(_: &Subject) -> bool {
    true
}

fn repository() -> (tempfile::TempDir, Update) {
    let dir = tempfile::tempdir().unwrap();
    let update = update_baselines(dir.path(), &fixture::record(), &all).unwrap();
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

/// Reads the one broken file that there is.
fn broken(root: &Path) -> BrokenBaseline {
    let (_, mut broken) = load_baselines(root).unwrap();
    assert_eq!(broken.len(), 1, "{broken:?}");
    broken.remove(0)
}

#[test]
fn what_was_agreed_is_what_is_loaded_and_the_same_run_passes() {
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
    let judgement = judge(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    );
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert_eq!(judgement.count(Outcome::Pass), judgement.verdicts.len());
}

#[test]
fn a_figure_that_a_run_has_no_more_is_removed_and_told() {
    let (dir, _) = repository();
    let file = dir.path().join(&files(dir.path())[0]);
    let mut baseline: Baseline =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let figures = baseline.cases.values_mut().next().unwrap();
    let agreed = figures.values().next().unwrap().clone();
    assert!(figures.insert(Metric::Cycles, agreed).is_none());
    std::fs::write(&file, serde_json::to_string(&baseline).unwrap()).unwrap();

    let update = update_baselines(dir.path(), &fixture::record(), &all).unwrap();
    let told: Vec<_> = update.changes.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains(" cycles: ") && told[0].ends_with("(removed)"),
        "{told:?}"
    );
    assert!(!std::fs::read_to_string(&file).unwrap().contains("cycles"));
}

#[test]
fn nothing_there_is_nothing_agreed() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(load_baselines(dir.path()).unwrap(), (vec![], vec![]));
}

#[test]
fn again_changes_nothing_and_a_change_says_from_what_to_what() {
    let (dir, _) = repository();
    let mut record = fixture::record();
    record.environment.started = "2027-01-01T00:00:00Z".into();
    let before: Vec<_> = files(dir.path())
        .iter()
        .map(|name| std::fs::read(dir.path().join(name)).unwrap())
        .collect();
    assert_eq!(
        update_baselines(dir.path(), &record, &all).unwrap().changes,
        []
    );
    let after: Vec<_> = files(dir.path())
        .iter()
        .map(|name| std::fs::read(dir.path().join(name)).unwrap())
        .collect();
    assert_eq!(before, after);

    fixture::rebuild(&mut record, "fast", |facts| {
        facts.entries[0].resources.registers = 100
    });
    let update = update_baselines(dir.path(), &record, &all).unwrap();
    let said: Vec<_> = update.changes.iter().map(Change::to_string).collect();
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
fn only_what_the_record_measured_is_touched() {
    let (dir, _) = repository();
    let mut record = fixture::record();
    record.plan.left_out.insert("k".into());
    record
        .plan
        .cases
        .retain(|case| case.id == fixture::case_id("fast", "small"));
    fixture::slow(&mut record, &fixture::case_id("fast", "small"), 70_000);
    record.plan.units.retain(|unit| unit.id.variant == "fast");
    update_baselines(dir.path(), &record, &all).unwrap();
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
    // A part of the shapes does not lose what only all of them can say.
    let resources = baselines
        .iter()
        .find(|b| b.variant == "fast" && b.key.facet() == Facet::Resources);
    assert!(resources.unwrap().cases["*"].contains_key(&Metric::Shared));
}

#[test]
fn filters_pick_subjects() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = |subject: &Subject| *subject == fixture::case("fast", "small");
    let update = update_baselines(dir.path(), &fixture::record(), &wanted).unwrap();
    assert!(
        update
            .changes
            .iter()
            .all(|change| change.subject == fixture::case("fast", "small"))
    );
    assert_eq!(files(dir.path()).len(), 2);
}

#[test]
fn what_is_wrong_or_throttled_is_refused() {
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
    let update = update_baselines(dir.path(), &record, &all).unwrap();
    let refused: Vec<_> = update
        .refused
        .iter()
        .map(|refused| format!("{} {}: {}", refused.subject, refused.facet, refused.reason))
        .collect();
    assert_eq!(
        refused,
        [
            "k/direct@small correctness: not proven right: max_err is 1, and has to be <= 0.004; out[0, 3, 17] = 0.501, want 0.5 with seed 2",
            "k/direct@small times: not proven right: max_err is 1, and has to be <= 0.004; out[0, 3, 17] = 0.501, want 0.5 with seed 2",
            "k/fast@small times: 3 timing processes ran on a throttled GPU",
        ]
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
    record.environment.compiler = Seen::NotRun {
        reason: "no nvcc".into(),
    };
    let Err(Error::Usage(diagnostic)) = update_baselines(dir.path(), &record, &all) else {
        panic!()
    };
    assert_eq!(
        diagnostic.message,
        "nothing in this record can be agreed on"
    );
    assert!(diagnostic.help[0].contains("no nvcc"));
    assert!(!dir.path().join(DIR).exists());
}

#[test]
fn damage_is_told_with_its_place_and_never_overwritten() {
    let (dir, _) = repository();
    let name = files(dir.path())[1].clone();
    let path = dir.path().join(&name);
    let whole = std::fs::read_to_string(&path).unwrap();
    for (text, problem) in [
        (
            whole[..53].to_owned(),
            "3:14: it ends in the middle (EOF while parsing a string)",
        ),
        (
            String::new(),
            "1:0: it ends in the middle (EOF while parsing a value)",
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
            whole.replacen("baseline/1", "baseline/9", 1),
            "it has schema gatekeeper.baseline/9, and this gatekeeper reads up to gatekeeper.baseline/1: a newer one wrote it",
        ),
        (
            whole.replacen("13.0.88", "13.0.89", 1),
            "by what it says, it belongs at baselines/k/direct/resources-sm_90-13.0.89-",
        ),
        (
            whole.replacen("\"direct\"", "\"fast\"", 1),
            "by what it says, it belongs at baselines/k/fast/resources-sm_90-13.0.88-",
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
            update_baselines(dir.path(), &fixture::record(), &all),
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
    let judgement = judge(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    );
    let failed = judgement
        .verdicts
        .iter()
        .find(|verdict| verdict.outcome == Outcome::Fail)
        .unwrap();
    assert_eq!(
        failed.reason,
        "the baseline's registers is NaN; it has to be agreed again"
    );
}

#[test]
fn a_file_where_none_belongs() {
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
                    update_baselines(root, &fixture::record(), &wanted).unwrap();
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

#[test]
fn version_1_is_read_as_it_was_written_then() {
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/golden/baseline-1.json");
    let text = std::fs::read_to_string(golden).unwrap();
    let baseline: Baseline = serde_json::from_str(&text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let place = place(&baseline.kernel, &baseline.variant, &baseline.key).unwrap();
    write_whole(&dir.path().join(&place), text.as_bytes()).unwrap();
    // Also its name stays: a baseline under another name would be lost.
    assert_eq!(
        place,
        Path::new("baselines/k/fast/times-nvidia-h100-80gb-hbm3-580-warm-86d0dd90.json")
    );
    let (loaded, _) = load_baselines(dir.path()).unwrap();
    assert_eq!(loaded, std::slice::from_ref(&baseline));
    assert_eq!(
        serde_json::to_string_pretty(&baseline).unwrap() + "\n",
        text
    );
}

#[test]
#[ignore = "writes the golden files of a new schema version: run once by hand when it is made"]
fn write_golden_files() {
    let (dir, _) = repository();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/golden");
    std::fs::copy(
        dir.path().join(&files(dir.path())[5]),
        golden.join("baseline-1.json"),
    )
    .unwrap();
    super::super::write_record(&golden.join("record-1.json"), &fixture::record()).unwrap();
}
