//! Tests rivals that are shell scripts, with tasks and a device from the judge's fixture.

use super::*;
use judge::fixture;
use serde_json::{Value, json};

fn rival(script: &str) -> Rival {
    Rival {
        kernel: "k".into(),
        name: "torch".into(),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        backends: vec!["flash".into(), "math".into()],
        deadline_ms: 60_000,
        requested: true,
    }
}

/// Writes down each start of it, answers each message by a line of shell, and does the last where its input ends.
fn program(begin: &str, task: &str, end: &str) -> Rival {
    rival(&format!(
        r#"echo x >> "$TMPDIR/starts"
        while read -r told; do
            id=${{told#*'"id":"'}}; id=${{id%%'"'*}}
            case "$told" in
            *'"message":"begin"'*) {begin};;
            *'"message":"task"'*) {task};;
            *) exit 9;;
            esac
        done
        {end}"#
    ))
}

const BEGINS: &str = r#"echo '{"schema":"gatekeeper.rival/2","versions":{"torch":"2.9.0"}}'"#;
const ENDS: &str = "exit 0";

/// Returns an answer with four batched samples and four singles, as the fixture's schedule requires.
fn right() -> Value {
    json!({
        "id": "ID",
        "backends": [
            {"name": "flash", "timed": {
                "launches_per_sample": 10,
                "batched_ns": [129_000, 129_100, 128_900, 129_000],
                "single_ns": [14_000, 14_100, 14_200, 15_000],
            }},
            {"name": "math", "skipped": "no kernel for f16"},
        ],
    })
}

/// Returns shell code that gives this answer, with the id of the task instead of `ID`.
fn says(answer: &Value) -> String {
    format!("printf '%s\\n' '{answer}' | sed \"s|ID|$id|\"")
}

/// Returns shell code that answers each task correctly.
fn works() -> String {
    says(&right())
}

type Answers = Vec<Result<RivalFacts, String>>;

/// Takes one turn with tasks of the fixture, each of a variant and a shape, after which other turns follow.
fn turn(rivals: &mut Rivals, asked: &[(&Rival, &str, &str)]) -> Answers {
    let (plan, device) = (fixture::plan(), fixture::device());
    let tasks: Vec<_> = asked
        .iter()
        .map(|(_, variant, shape)| fixture::case_id(variant, shape))
        .collect();
    let asked: Vec<_> = asked
        .iter()
        .zip(&tasks)
        .map(|((rival, ..), task)| RivalRequest {
            rival,
            task,
            again: true,
        })
        .collect();
    let setting = Setting {
        root: Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")),
        device: &device,
        plan: &plan,
    };
    let mut answers: Vec<_> = asked.iter().map(|_| None).collect();
    rivals.take_turn(setting, &asked, |at, answer| {
        let answer = answer.map_err(|fault| {
            assert_eq!(fault.kind, FaultKind::Rival);
            fault.message
        });
        assert!(
            answers[at].replace(answer).is_none(),
            "{at} is answered twice"
        );
    });
    answers.into_iter().map(Option::unwrap).collect()
}

/// Does three tasks in one turn.
fn three(rivals: &mut Rivals, rival: &Rival) -> Answers {
    let asked = [("direct", "small"), ("direct", "large"), ("fast", "small")];
    turn(
        rivals,
        &asked.map(|(variant, shape)| (rival, variant, shape)),
    )
}

fn answer_of(rival: &Rival) -> Result<RivalFacts, String> {
    turn(&mut Rivals::default(), &[(rival, "direct", "small")]).remove(0)
}

fn read(answer: &Value) -> Result<RivalFacts, String> {
    answer_of(&program(BEGINS, &says(answer), ENDS))
}

fn starts(rivals: &Rivals) -> usize {
    let written = rivals.scratch.as_ref().unwrap().path().join("starts");
    std::fs::read_to_string(written).unwrap().lines().count()
}

#[test]
fn an_answer_becomes_facts_of_its_task() {
    let facts = read(&right()).unwrap();
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
fn a_turn_is_one_start_for_all_tasks_and_kernels_and_the_next_process_loads_meanwhile() {
    let own = program(BEGINS, &works(), ENDS);
    let of_other_kernel = Rival {
        kernel: "other".into(),
        backends: vec!["math".into(), "flash".into()],
        ..own.clone()
    };
    let mut rivals = Rivals::default();
    let asked = [
        (&own, "direct", "small"),
        (&own, "direct", "large"),
        (&of_other_kernel, "fast", "large"),
    ];
    for turns in 1..=3 {
        let answers = turn(&mut rivals, &asked);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        // It has started, and waits: only the next turn is its own.
        assert_eq!(starts_reach(&rivals, turns + 1), turns + 1);
        assert!(rivals.programs[0].standby.is_some());
    }
    assert_eq!(rivals.programs.len(), 1);
    let other = Rival {
        command: [&own.command[..], &["another".to_owned()]].concat(),
        ..own.clone()
    };
    let asked = [(&own, "direct", "small"), (&other, "direct", "small")];
    let answers = turn(&mut rivals, &asked);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(rivals.programs.len(), 2);
}

#[test]
fn no_process_is_started_that_no_turn_needs() {
    let rival = program(BEGINS, &works(), ENDS);
    let (plan, device) = (fixture::plan(), fixture::device());
    let task = fixture::case_id("direct", "small");
    let setting = Setting {
        root: Path::new("."),
        device: &device,
        plan: &plan,
    };
    let last = RivalRequest {
        rival: &rival,
        task: &task,
        again: false,
    };
    let mut rivals = Rivals::default();
    let mut answers = 0;
    rivals.take_turn(setting, &[last], |_, answer| {
        answers += 1;
        answer.unwrap();
    });
    assert!(answers == 1 && rivals.programs[0].standby.is_none());
    assert_eq!(starts(&rivals), 1);
}

/// Starts so far, once there are this many: a process writes its own down when it gets to run.
fn starts_reach(rivals: &Rivals, wanted: usize) -> usize {
    for _ in 0..500 {
        if starts(rivals) >= wanted {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    starts(rivals)
}

#[test]
fn a_program_that_dies_at_a_task_fails_that_task_alone() {
    let dies = format!(
        "case $id in *large) echo 'out of memory' >&2; exit 3;; esac; {}",
        works()
    );
    let rival = program(BEGINS, &dies, ENDS);
    let mut rivals = Rivals::default();
    let answers = three(&mut rivals, &rival);
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    let died = Err("torch: failed (exit code 3): out of memory".to_owned());
    assert_eq!(answers[1], died);
    // One that died, one that was waiting, and one for the next turn.
    assert_eq!(starts_reach(&rivals, 3), 3);
}

#[test]
fn a_program_that_breaks_again_and_again_is_not_started_for_ever() {
    let rival = program(BEGINS, "echo no >&2; exit 3", ENDS);
    let mut rivals = Rivals::default();
    let answers = three(&mut rivals, &rival);
    let broke = Err("torch: failed (exit code 3): no".to_owned());
    assert_eq!(answers, [broke.clone(), broke.clone(), broke]);
    let last = three(&mut rivals, &rival).remove(2).unwrap_err();
    assert_eq!(
        last,
        "torch: it broke 3 times and was not started again, the last time: failed (exit code 3): no"
    );
    assert_eq!(starts(&rivals), 3);
}

#[test]
fn a_program_that_hangs_is_killed_and_the_next_task_done() {
    let hangs = format!("case $id in *large) sleep 1000;; esac; {}", works());
    let rival = Rival {
        deadline_ms: 2_000,
        ..program(BEGINS, &hangs, ENDS)
    };
    let answers = three(&mut Rivals::default(), &rival);
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    let late = answers[1].as_ref().unwrap_err();
    assert_eq!(late, "torch: no answer within 2 s; it was killed");
}

#[test]
fn a_program_that_cannot_start_is_not_started_again() {
    for (begin, says) in [
        (
            "echo 'ImportError: \u{7}libcudnn' >&2; exit 1",
            "torch: failed (exit code 1): ImportError: libcudnn",
        ),
        ("exit 0", "torch: it ended without an answer"),
        (
            "echo hello",
            "torch: its answer is not what the protocol asks for",
        ),
        (
            "exec >&-; sleep 1000",
            "torch: it closed its output without an answer",
        ),
    ] {
        let rival = program(begin, &works(), ENDS);
        let mut rivals = Rivals::default();
        for answer in three(&mut rivals, &rival) {
            let problem = answer.unwrap_err();
            assert!(problem.starts_with(says), "{problem}");
        }
        assert_eq!(starts(&rivals), 1, "{begin}");
    }
    let missing = Rival {
        command: vec!["./nowhere/rival".into()],
        ..rival("")
    };
    let missing = answer_of(&missing).unwrap_err();
    let says = "./nowhere/rival cannot be started";
    assert!(missing.contains(says), "{missing}");
}

#[test]
fn a_turn_that_does_not_end_is_a_break_and_takes_no_answer_away() {
    let rival = program(BEGINS, &works(), "exit 4");
    let mut rivals = Rivals::default();
    for _ in 0..3 {
        let answers = three(&mut rivals, &rival);
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
    let problem = three(&mut rivals, &rival).remove(0).unwrap_err();
    assert!(problem.contains("it broke 3 times"), "{problem}");
    assert!(rivals.programs[0].standby.is_none());
}

#[test]
fn everything_skipped_is_every_backend_skipped() {
    let begins = r#"printf '%s\n' '{"schema":"gatekeeper.rival/2","skipped":"PyTorch is not installed\u001b[31m\n"}'"#;
    let rival = program(begins, "exit 9", ENDS);
    for answer in three(&mut Rivals::default(), &rival) {
        let backends = answer.unwrap().backends;
        assert_eq!(backends.len(), 2);
        for contest in backends.values() {
            let because = "PyTorch is not installed [31m".into();
            assert_eq!(*contest, Contest::Skipped { because });
        }
    }
}

/// Returns the answer with a replaced value at a JSON pointer.
fn with(pointer: &str, value: Value) -> Value {
    let mut answer = right();
    *answer.pointer_mut(pointer).unwrap() = value;
    answer
}

#[test]
fn answers_that_break_the_protocol_are_refused() {
    let flash = "/backends/0";
    let timed = |key: &str| format!("{flash}/timed/{key}");
    for (answer, says) in [
        (json!([]), "not what the protocol asks for"),
        (json!({"id": "ID"}), "not what the protocol asks for"),
        (
            with("/id", json!("k/direct@large")),
            "it answers `k/direct@large`, and was asked for k/direct@small",
        ),
        (
            with(&format!("{flash}/name"), json!("cudnn")),
            "`cudnn` is not among",
        ),
        (
            with(&format!("{flash}/name"), json!("math")),
            "math is there twice",
        ),
        (with("/backends", json!([])), "does not answer for flash"),
        (
            with(&format!("{flash}/timed"), Value::Null),
            "either `timed` or `skipped`",
        ),
        (
            with("/backends/1/skipped", json!(" \n")),
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
    ] {
        let problem = read(&answer).unwrap_err();
        assert!(problem.contains(says), "{answer}: {problem}");
    }
    let mut unknown = right();
    unknown["faster"] = json!(true);
    assert!(
        read(&unknown)
            .unwrap_err()
            .contains("unknown field `faster`")
    );

    for (begin, says) in [
        (
            json!({"schema": "gatekeeper.rival/1", "versions": {}}),
            "asks by gatekeeper.rival/2",
        ),
        (
            json!({"schema": "gatekeeper.rival/2"}),
            "either `versions` or `skipped`",
        ),
        (
            json!({"schema": "gatekeeper.rival/2", "versions": {}, "skipped": "no GPU"}),
            "either `versions` or `skipped`",
        ),
        (
            json!({"schema": "gatekeeper.rival/2", "versions": {}, "fast": 1}),
            "not what the protocol asks for",
        ),
        (
            json!({"schema": "gatekeeper.rival/2", "versions": {"torch": 2}}),
            "not what the protocol asks for",
        ),
    ] {
        let rival = program(&format!("echo '{begin}'"), &works(), ENDS);
        let problem = answer_of(&rival).unwrap_err();
        assert!(problem.contains(says), "{begin}: {problem}");
    }
    let endless = program(BEGINS, "head -c 3000000 /dev/zero; sleep 1000", ENDS);
    let endless = answer_of(&endless).unwrap_err();
    assert!(endless.contains("its answer is longer than"), "{endless}");
}

/// The script fails unless each of these texts is in its input or environment.
#[test]
fn a_rival_gets_its_tasks_and_its_gpu() {
    let holds = |told: &[&str]| {
        let checks: Vec<_> = told
            .iter()
            .map(|text| format!("case \"$told\" in *'{text}'*) ;; *) exit 8;; esac"))
            .collect();
        checks.join("; ")
    };
    let begin = holds(&[
        r#""schema":"gatekeeper.rival/2""#,
        r#""gpu":{"name":"NVIDIA H100 80GB HBM3","uuid":"GPU-0"}"#,
        r#""sampling":{"mode":"warm","warmup":5,"iterations":4,"batch_ns":100000,"singles":4}"#,
    ]);
    let task = holds(&[
        r#""id":"k/direct@small""#,
        r#""rival":"torch""#,
        r#""kernel":"k""#,
        r#""shape":"small""#,
        r#""dims":{"N":64}"#,
        r#""backends":["flash","math"]"#,
        r#""reference":{"softmax":{"x":"x","out":"out"}}"#,
    ]);
    let place = "test -n \"$CUDA_VISIBLE_DEVICES\" || exit 7; test -f Cargo.toml || exit 6";
    let rival = program(
        &format!("{begin}; {place}; {BEGINS}"),
        &format!("{task}; {}", works()),
        ENDS,
    );
    answer_of(&rival).unwrap();
}

#[test]
fn a_rival_writes_to_its_scratch_alone_and_sees_no_token() {
    // Cargo's own stand for the runner's.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("planted");
    let tries = format!(
        "echo x > {}; test -z \"$CARGO_MANIFEST_DIR\" || exit 9; test -s \"$TRITON_CACHE_DIR/starts\" || exit 8; {}",
        path.display(),
        works()
    );
    let mut rivals = Rivals::default();
    let asked = (&program(BEGINS, &tries, ENDS), "direct", "small");
    turn(&mut rivals, &[asked]).remove(0).unwrap();
    if confine::is_confining() {
        assert!(!path.exists());
    }
}

/// Returns the script for PyTorch, with this module instead of PyTorch.
fn torch_script(modules: &tempfile::TempDir, torch: &str) -> Rival {
    std::fs::create_dir_all(modules.path().join("torch/nn")).unwrap();
    std::fs::write(modules.path().join("torch/__init__.py"), torch).unwrap();
    let attention = "class SDPBackend: FLASH_ATTENTION, MATH = 1, 2";
    std::fs::write(modules.path().join("torch/nn/__init__.py"), "").unwrap();
    std::fs::write(modules.path().join("torch/nn/attention.py"), attention).unwrap();
    let path = format!("PYTHONPATH={}", modules.path().display());
    let command = ["env", &path, "python3", "kernels/rivals/torch_sdpa.py"];
    Rival {
        command: command.map(str::to_owned).to_vec(),
        ..rival("")
    }
}

#[test]
fn the_script_for_pytorch_loads_it_before_its_turn() {
    let modules = tempfile::tempdir().unwrap();
    let torch = r#"
import os
open(os.environ["TMPDIR"] + "/starts", "a").write("x\n")
print("a library may print")
__version__ = "2.9.0"
class version: cuda = "13.0"
class backends:
    class cudnn: version = staticmethod(lambda: 91900)
class cuda:
    is_available = staticmethod(lambda: True)
    synchronize = staticmethod(lambda: None)
    class Event:
        def __init__(self, enable_timing): pass
        def record(self): pass
"#;
    let rival = torch_script(&modules, torch);
    let mut rivals = Rivals::default();
    for _ in 0..3 {
        for answer in three(&mut rivals, &rival) {
            let facts = answer.unwrap();
            assert_eq!(facts.versions["torch"], "2.9.0");
            // A softmax is what the fixture asks for.
            let because = "it does attention alone, and the reference is another".into();
            assert_eq!(facts.backends["math"], Contest::Skipped { because });
        }
    }
    // Three turns, and the process of a fourth is loaded though nothing was said to it.
    assert_eq!(starts_reach(&rivals, 4), 4);

    let modules = tempfile::tempdir().unwrap();
    let rival = torch_script(&modules, "raise ImportError('no libcudnn')");
    let because = "PyTorch is not installed: no libcudnn".to_owned();
    let skipped = Contest::Skipped { because };
    for answer in three(&mut Rivals::default(), &rival) {
        assert_eq!(answer.unwrap().backends["flash"], skipped);
    }
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
