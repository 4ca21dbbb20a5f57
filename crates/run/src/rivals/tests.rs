//! Processes are shell scripts; tasks and device are those of the judge's fixture.

use super::*;
use judge::fixture;
use model::Contest;
use serde_json::{Value, json};

fn rival(script: &str) -> Rival {
    Rival {
        kernel: "k".into(),
        name: "torch".into(),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        backends: vec!["flash".into(), "math".into()],
        deadline_ms: 60_000,
    }
}

fn answer_of(rival: &Rival) -> Result<BTreeMap<CaseId, RivalFacts>, String> {
    let (plan, device) = (fixture::plan(), fixture::device());
    let task = fixture::case_id("direct", "small");
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut rivals = Rivals::default();
    rivals
        .run(rival, root, &device, &plan, &[&task])
        .map_err(|fault| {
            assert_eq!(fault.kind, FaultKind::Rival);
            fault.message
        })
}

/// The outcome of a script that writes this.
fn read(answer: &Value) -> Result<BTreeMap<CaseId, RivalFacts>, String> {
    answer_of(&rival(&format!("cat >/dev/null; printf %s '{answer}'")))
}

fn problem(answer: &Value) -> String {
    read(answer).unwrap_err()
}

/// Four batched samples and four singles, as the fixture's schedule has them.
fn right() -> Value {
    json!({
        "schema": "gatekeeper.rival/1",
        "versions": {"torch": "2.9.0"},
        "tasks": [{
            "id": "k/direct@small",
            "backends": [
                {"name": "flash", "timed": {
                    "launches_per_sample": 10,
                    "batched_ns": [129_000, 129_100, 128_900, 129_000],
                    "single_ns": [14_000, 14_100, 14_200, 15_000],
                }},
                {"name": "math", "skipped": "no kernel for f16"},
            ],
        }],
    })
}

#[test]
fn an_answer_becomes_facts_of_each_task() {
    let facts = read(&right()).unwrap();
    let facts = &facts[&fixture::case_id("direct", "small")];
    assert_eq!(facts.versions["torch"], "2.9.0");
    let Contest::Timed(times) = &facts.backends["flash"] else {
        panic!("{facts:?}");
    };
    assert_eq!(times.launches_per_sample, 10);
    assert_eq!(times.batched_ns.len(), 4);
    assert_eq!(
        facts.backends["math"],
        Contest::Skipped {
            because: "no kernel for f16".into()
        }
    );
}

#[test]
fn everything_skipped_is_every_backend_skipped() {
    let skipped = read(&json!({
        "schema": "gatekeeper.rival/1",
        "skipped": "PyTorch is not installed\u{1b}[31m\n",
    }));
    let skipped = skipped.unwrap();
    let backends = &skipped[&fixture::case_id("direct", "small")].backends;
    assert_eq!(backends.len(), 2);
    for contest in backends.values() {
        let because = "PyTorch is not installed [31m".into();
        assert_eq!(*contest, Contest::Skipped { because });
    }
}

/// The answer with what is at a JSON pointer replaced.
fn with(pointer: &str, value: Value) -> Value {
    let mut answer = right();
    *answer.pointer_mut(pointer).unwrap() = value;
    answer
}

#[test]
fn answers_that_break_the_protocol_are_refused() {
    let flash = "/tasks/0/backends/0";
    let timed = |key: &str| format!("{flash}/timed/{key}");
    for (answer, says) in [
        (json!([]), "not what the protocol asks for"),
        (
            json!({"schema": "gatekeeper.rival/1"}),
            "does not answer k/direct@small",
        ),
        (
            with("/schema", json!("gatekeeper.rival/2")),
            "asks by gatekeeper.rival/1",
        ),
        (
            with("/tasks/0/id", json!("k/other@small")),
            "which is no task",
        ),
        (
            with("/tasks", json!([right()["tasks"][0], right()["tasks"][0]])),
            "twice",
        ),
        (
            with(&format!("{flash}/name"), json!("cudnn")),
            "`cudnn` is not among",
        ),
        (
            with(&format!("{flash}/name"), json!("math")),
            "math is there twice",
        ),
        (
            with("/tasks/0/backends", json!([])),
            "does not answer for flash",
        ),
        (
            with(&format!("{flash}/timed"), Value::Null),
            "either `timed` or `skipped`",
        ),
        (
            with("/tasks/0/backends/1/skipped", json!(" \n")),
            "without a reason",
        ),
        (
            with(&timed("launches_per_sample"), json!(0)),
            "launches_per_sample is 0",
        ),
        (
            with(&timed("batched_ns"), json!([1, 2, 3])),
            "3 samples, and 4 were asked for",
        ),
        (
            with(&timed("single_ns"), json!([1, 2, 3, 0])),
            "a sample of 0 ns",
        ),
        (
            with(&timed("single_ns"), json!([1, 2, 3, 1.5])),
            "not what the protocol asks for",
        ),
        (
            with(&timed("single_ns"), json!([1, 2, 3, -4])),
            "not what the protocol asks for",
        ),
        (
            with("/versions", json!({"torch": 2})),
            "not what the protocol asks for",
        ),
    ] {
        let problem = problem(&answer);
        assert!(problem.contains(says), "{answer}: {problem}");
    }
    let mut unknown = right();
    unknown["faster"] = json!(true);
    assert!(problem(&unknown).contains("unknown field `faster`"));
    let mut both = right();
    both["skipped"] = json!("no GPU");
    assert!(problem(&both).contains("answers tasks too"));
}

#[test]
fn a_rival_that_breaks_is_named_with_its_last_words() {
    let of = |script: &str| answer_of(&rival(script)).unwrap_err();
    let failed = of("echo 'ImportError: \u{7}libcudnn' >&2; exit 1");
    assert_eq!(failed, "torch: failed (exit code 1): ImportError: libcudnn");
    assert!(of("true").contains("not what the protocol asks for"));
    let endless = of(
        "i=0; while [ $i -lt 40000 ]; do echo '                                                  '; i=$((i+1)); done",
    );
    assert!(endless.contains("its answer is longer than"), "{endless}");
    let late = Rival {
        deadline_ms: 300,
        ..rival("sleep 1000")
    };
    let late = answer_of(&late).unwrap_err();
    assert!(late.contains("it was killed"), "{late}");
    let missing = Rival {
        command: vec!["./nowhere/rival".into()],
        ..rival("")
    };
    let missing = answer_of(&missing).unwrap_err();
    assert!(
        missing.contains("./nowhere/rival cannot be started"),
        "{missing}"
    );
}

/// The script fails unless each of these is in what it is given.
#[test]
fn a_rival_gets_its_tasks_and_its_gpu() {
    let told = [
        r#""id":"k/direct@small""#,
        r#""kernel":"k""#,
        r#""shape":"small""#,
        r#""dims":{"N":64}"#,
        r#""backends":["flash","math"]"#,
        r#""sampling":{"mode":"warm","warmup":5,"iterations":4,"batch_ns":100000,"singles":4}"#,
        r#""reference":{"softmax":{"x":"x","out":"out"}}"#,
    ];
    let checks = told.map(|text| format!("grep -qF '{text}' \"$told\" || exit 9;"));
    let script = format!(
        "told=$(mktemp); cat >\"$told\"; {} rm \"$told\"; test -n \"$CUDA_VISIBLE_DEVICES\" || exit 8; test -f Cargo.toml || exit 7; printf %s '{}'",
        checks.join(" "),
        right()
    );
    answer_of(&rival(&script)).unwrap();
}

#[test]
fn a_rival_writes_to_its_scratch_alone_and_sees_no_token() {
    let answer = format!("printf %s '{}'", right());
    // Its compiled files stay for its next process.
    let mut rivals = Rivals::default();
    let (plan, device) = (fixture::plan(), fixture::device());
    let task = fixture::case_id("direct", "small");
    let mut of =
        |script: String| rivals.run(&rival(&script), Path::new("."), &device, &plan, &[&task]);
    of(format!("cat > \"$TMPDIR/kept\"; {answer}")).unwrap();
    of(format!(
        "test -s \"$TRITON_CACHE_DIR/kept\" || exit 9; {answer}"
    ))
    .unwrap();
    // Cargo's own stand for the runner's.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    of(format!(
        "test -z \"$CARGO_MANIFEST_DIR\" || exit 9; {answer}"
    ))
    .unwrap();

    if !confine::is_confining() {
        return;
    }
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("planted");
    let planted = of(format!("echo x > {}; {answer}", path.display()));
    planted.unwrap();
    assert!(!path.exists());
}

#[test]
fn the_gpu_has_the_name_that_we_were_given_it_by() {
    let mut device = fixture::device();
    assert_eq!(visible(None, &device), "GPU-0");
    assert_eq!(visible(Some(""), &device), "GPU-0");
    device.ordinal = 1;
    assert_eq!(visible(Some("MIG-a, MIG-b"), &device), "MIG-b");
    assert_eq!(visible(Some("3"), &device), "GPU-0");
}
