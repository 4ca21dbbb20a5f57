//! Tests faults that only a GPU can show, and that a machine without a GPU reports none of them by mistake.

use super::*;
use common::RECORD;
use model::Evidence;

/// Runs without permission to skip anything that needs a GPU.
fn on_gpu(dir: &Path, filters: &[&str], code: i32) -> Output {
    let mut all = vec!["--require-gpu"];
    all.extend(filters);
    gate(dir, &all, code)
}

fn fails_on_gpu(dir: &Path, filters: &[&str], subject: &str, reason: &str) {
    let mut all = vec!["--require-gpu"];
    all.extend(filters);
    fails(dir, &all, subject, reason);
}

/// Makes the project with a kernel of tests/fixtures/kernels before its own.
fn project_with(source: &str, kernel: &str) -> tempfile::TempDir {
    let project = project();
    let from = root().join("tests/fixtures/kernels").join(source);
    std::fs::copy(from, project.path().join(source)).unwrap();
    edit(
        &project.path().join("gates.yaml"),
        "kernels:\n",
        &format!("kernels:\n  broken:\n    source: {source}\n{kernel}"),
    );
    project
}

/// Requires that `copy`, which comes after the broken kernel, was judged as usual, down to its last gate.
fn the_next_case_is_judged(dir: &Path) {
    let gates = verdicts(dir, "copy");
    for gate in [
        "built",
        "deterministic",
        "max_err <= 0",
        "agrees with driver",
    ] {
        assert!(
            gates
                .iter()
                .any(|(name, outcome, _)| name == gate && outcome == "pass"),
            "{gate}: {gates:?}"
        );
    }
    assert_eq!(failed(dir, "copy"), Vec::<String>::new());
}

const BROKEN: [&str; 2] = ["broken", "copy"];

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_kernel_slowed_by_3_percent() {
    let project = project();
    let dir = project.path();
    on_gpu(dir, &[], 0);
    let accepted = run(dir, &["baseline", "update"], 0);
    assert!(
        stdout(&accepted).contains("dial/default@filled p50: "),
        "{}",
        stdout(&accepted)
    );
    on_gpu(dir, &[], 0);
    assert!(
        verdicts(dir, "dial")
            .iter()
            .any(|(gate, outcome, _)| gate == "cycles +2%" && outcome == "pass"),
        "compared, not skipped"
    );
    edit(
        &dir.join("dial.cu"),
        "#define DIAL 1000",
        "#define DIAL 1030",
    );
    fails_on_gpu(
        dir,
        &[],
        "dial/default@filled",
        "limit +2 % of the baseline",
    );
    assert!(failed(dir, "dial").contains(&"cycles +2%".to_owned()));
    // The clock wanders, so p50 alone may only be undecided, but it must never pass.
    assert!(
        verdicts(dir, "dial")
            .iter()
            .any(|(gate, outcome, _)| gate == "p50 +2%" && outcome != "pass")
    );
    assert_eq!(failed(dir, "copy"), Vec::<String>::new());
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_wrong_result() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("copy.cu"),
        "y[i] = staged[255 - threadIdx.x]",
        "y[i] = 0.5f + staged[255 - threadIdx.x]",
    );
    fails_on_gpu(
        dir,
        &["copy"],
        "copy/default@small",
        "[beyond-limit] max_err ",
    );
    assert_eq!(failed(dir, "copy"), ["max_err <= 0"]);
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn an_element_that_is_never_written() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("copy.cu"),
        "    if (i < n) y[i] = staged",
        "    if (i < n - 1) y[i] = staged",
    );
    fails_on_gpu(
        dir,
        &["copy"],
        "copy/default@small",
        "[unwritten] not written with seed 1: 1 element",
    );
    assert!(failed(dir, "copy").contains(&"written".to_owned()));
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_race_is_found_on_the_gpu() {
    let project = tempfile::tempdir().unwrap();
    let dir = project.path();
    common::copy(&root().join("kernels"), &dir.join("kernels"));
    std::fs::write(
        dir.join("gates.yaml"),
        "\
version: 1
architectures: [sm_90]
flags: [-O3, -std=c++17]
kernels:
  sdpa_f16:
    source: kernels/sdpa_f16.cu
    entry: sdpa_f16
    include_dirs: [kernels]
    define: {BLOCK_M: 64, NUM_WARPS: 8, SYNC_POLICY: 2, USE_WMMA: 1, CAUSAL: 0}
    shapes:
      mission: {B: 2, H: 8, S: 512, D: 64}
      ragged_513: {B: 1, H: 3, S: 513, D: 64}
    seeds: 2
    tensors:
      q: {type: f16, shape: [B, H, S, D]}
      k: {type: f16, shape: [B, H, S, D]}
      v: {type: f16, shape: [B, H, S, D]}
      out: {role: out, type: f32, shape: [B, H, S, D]}
    args: [{tensor: q}, {tensor: k}, {tensor: v}, {tensor: out}, {i32: H}, {i32: S}]
    launch:
      grid: [\"ceil_div(S, BLOCK_M)\", H, B]
      block: [NUM_WARPS * 32]
      dynamic_shared: BLOCK_M * 420 + 18432
    reference:
      sdpa: {q: q, k: k, v: v, out: out}
    gates:
      max_err: 1e-3
",
    )
    .unwrap();
    on_gpu(dir, &[], 0);
    edit(&dir.join("gates.yaml"), "SYNC_POLICY: 2", "SYNC_POLICY: 0");
    for shape in ["mission", "ragged_513"] {
        let case = format!("sdpa_f16/default@{shape}");
        fails_on_gpu(dir, &[&case], &case, "");
        let gates = failed(dir, "sdpa_f16");
        assert!(
            gates
                .iter()
                .any(|gate| gate == "deterministic" || gate.starts_with("max_err")),
            "{gates:?}"
        );
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_case_that_breaks_its_worker_leaves_the_next_to_be_judged() {
    for (source, kernel, reason) in [
        ("infinite_loop.cu", INFINITE_LOOP, "hung past its deadline"),
        ("oob_write.cu", OOB_WRITE, "kernel faulted"),
        ("too_much_shared.cu", TOO_MUCH_SHARED, "launch refused"),
    ] {
        let project = project_with(source, kernel);
        let dir = project.path();
        fails_on_gpu(dir, &BROKEN, "broken/default@small", reason);
        the_next_case_is_judged(dir);
    }
}

const INFINITE_LOOP: &str = "    entry: infinite_loop
    deadline: 3s
    shapes: {small: {N: 1000}}
    seeds: 1
    tensors:
      x: {type: f32, shape: [N]}
      never: {type: i32, shape: [1], fill: {constant: 0}}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {tensor: never}, {i32: N}]
    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
";

const OOB_WRITE: &str = "    entry: oob_write
    shapes: {small: {N: 1000}}
    seeds: 2
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {i32: N}]
    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
";

const TOO_MUCH_SHARED: &str = "    entry: too_much_shared
    shapes: {small: {N: 1024}}
    seeds: 1
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}]
    launch: {grid: [\"N / 256\"], block: [256], dynamic_shared: 1048576}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
";

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_result_that_differs_between_launches() {
    let project = project_with("nondeterministic.cu", NONDETERMINISTIC);
    let dir = project.path();
    fails_on_gpu(
        dir,
        &BROKEN,
        "broken/default@many",
        "differs from the first launch in 1 element with seed",
    );
    assert_eq!(failed(dir, "broken"), ["deterministic"]);
    the_next_case_is_judged(dir);
    edit(
        &dir.join("gates.yaml"),
        "    entry: nondeterministic\n",
        "    entry: nondeterministic\n    nondeterministic: float atomics\n",
    );
    on_gpu(dir, &BROKEN, 0);
    assert!(
        verdicts(dir, "broken").contains(&(
            "deterministic".to_owned(),
            "skipped".to_owned(),
            "declared non-deterministic: float atomics".to_owned()
        )),
        "{:?}",
        verdicts(dir, "broken")
    );
}

// A sum of a million normal deviates is of the order of 1000, and wanders by far less than 1.
const NONDETERMINISTIC: &str = "    entry: nondeterministic
    shapes: {many: {N: 1000000}}
    seeds: 2
    tensors:
      x: {type: f32, shape: [N]}
      total: {role: inout, type: f32, shape: [], fill: {constant: 0}}
    args: [{tensor: x}, {tensor: total}, {i32: N}]
    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}
    reference: {reduce: {x: x, out: total, op: sum, axes: [0]}}
    gates: {max_err: 1}
";

/// Without a GPU, these faults are shown, too, each with the code and the reason of what broke.
#[test]
fn kernels_that_break_a_gpu_break_the_simulator() {
    for (source, kernel, reason) in [
        (
            "infinite_loop.cu",
            INFINITE_LOOP,
            "kernel faulted: livelock: every thread polls and none makes progress",
        ),
        (
            "oob_write.cu",
            OOB_WRITE,
            "kernel faulted: write of 4 bytes",
        ),
        (
            "too_much_shared.cu",
            TOO_MUCH_SHARED,
            "launch refused: 0 + 1048576 bytes of shared memory",
        ),
    ] {
        let project = project_with(source, kernel);
        let dir = project.path();
        let args = ["--device", "sim", "--sim-budget", "100000"];
        let args = [&BROKEN[..], &args].concat();
        fails(dir, &args, "broken/default@small", reason);
        assert_eq!(failed(dir, "copy"), Vec::<String>::new());
    }
    // A device that repeats every bit cannot show differences between launches.
    let project = project_with("nondeterministic.cu", NONDETERMINISTIC);
    let dir = project.path();
    gate(dir, &["broken", "--device", "sim"], 0);
    let gates = verdicts(dir, "broken");
    assert!(
        gates
            .iter()
            .any(|(gate, outcome, _)| gate == "deterministic" && outcome == "skipped"),
        "{gates:?}"
    );
}

/// Makes the project with a rival of `dial`. The rival gives prepared answers, and states as its version how many turns
/// it took. One backend takes a microsecond, one takes a second, and one does not exist. The rival may write nothing in
/// the project.
fn project_with_rival(bound: &str) -> tempfile::TempDir {
    let project = project();
    let dir = project.path();
    let timed = |name: &str, ns: u64| {
        format!(
            r#"{{"name": "{name}", "timed": {{"launches_per_sample": 1, "batched_ns": [{ns}, {ns}], "single_ns": [{ns}, {ns}]}}}}"#
        )
    };
    let answer = format!(
        r#"{{"id": "dial/default@filled", "backends": [{}, {}, {{"name": "absent", "skipped": "not here"}}]}}"#,
        timed("quick", 1_000),
        timed("slow", 1_000_000_000)
    );
    std::fs::write(dir.join("answer.json"), answer).unwrap();
    std::fs::write(
        dir.join("rival.sh"),
        r#"
while read -r told; do
    case "$told" in
    *'"message":"begin"'*)
        turn=$(cat "$TMPDIR/turns" 2>/dev/null | grep -c x)
        echo x >> "$TMPDIR/turns"
        versions='"fake":"1.0","gpu":"'$CUDA_VISIBLE_DEVICES'","turns":"'$(grep -c x "$TMPDIR/turns")'"'
        echo '{"schema":"gatekeeper.rival/2","versions":{'$versions'}}';;
    *) cat answer.json; echo;;
    esac
done
"#,
    )
    .unwrap();
    let gates = dir.join("gates.yaml");
    edit(
        &gates,
        "  dial:\n",
        "  dial:\n    rivals: {fake: {command: [sh, rival.sh], backends: [quick, slow, absent]}}\n",
    );
    edit(
        &gates,
        "      cycles: +2%\n      p50: +2%\n",
        &format!("      p50: \"<= {bound}\"\n"),
    );
    edit(
        &gates,
        "kernels:\n",
        "timing: {iterations: 2, singles: 2, processes: 3, max_processes: 3}\nkernels:\n",
    );
    project
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_kernel_slower_than_its_rival() {
    let project = project_with_rival("1.5 * fake.quick.p50");
    let dir = project.path();
    fails_on_gpu(dir, &["dial"], "dial/default@filled", "[beyond-limit] p50 ");
    let report: Value = serde_json::from_str(&common::report(dir)).unwrap();
    let standing = &report["rivals"][0];
    assert_eq!(standing["versions"]["fake"], "1.0");
    let compared = standing["compared"].as_array().unwrap();
    let ratios: Vec<_> = compared
        .iter()
        .map(|kernel| kernel["times_as_fast"].as_f64().unwrap())
        .collect();
    assert!(
        ratios.len() == 2 && ratios[0] < 1.0 && ratios[1] > 1.0,
        "{ratios:?}"
    );
    assert_eq!(standing["not_compared"][0]["backends"][0], "absent");
    assert_ne!(standing["versions"]["gpu"], "");
    // There are as many processes of it as of ours.
    assert_eq!(standing["versions"]["turns"], "3");
    assert_eq!(rivals_timed(dir), 3);
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_rival_that_no_gate_names_is_timed_on_request() {
    let project = project_with_rival("10s");
    let dir = project.path();
    let said = unwrapped(&stdout(&on_gpu(dir, &["dial"], 0)));
    assert!(
        said.contains("fake: not timed for dial; `gatekeeper run --rivals` does it"),
        "{said}"
    );
    assert_eq!(rivals_timed(dir), 0);
    let said = unwrapped(&stdout(&on_gpu(dir, &["dial", "--rivals"], 0)));
    assert!(said.contains("times as fast as fake quick"), "{said}");
    assert!(!said.contains("not timed"), "{said}");
    assert_eq!(rivals_timed(dir), 2);
}

/// The rival dies at its task in the second round. The first task was answered, and alone decides nothing.
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_rival_that_dies_at_a_task_decides_nothing() {
    let project = project_with_rival("fake.slow.p50");
    let dir = project.path();
    let script = dir.join("rival.sh");
    let dies = "[ $turn = 0 ] || { echo no >&2; exit 3; }; cat answer.json";
    edit(&script, "cat answer.json", dies);
    let said = unwrapped(&stdout(&on_gpu(dir, &["dial"], 3)));
    assert!(
        said.contains("the rival broke: fake: failed (exit code 3): no"),
        "{said}"
    );
    assert_eq!(rivals_timed(dir), 2, "it is not asked for that task again");
}

fn rivals_timed(dir: &Path) -> usize {
    let record = records::store::read_record(&dir.join(RECORD)).unwrap();
    record
        .evidence
        .iter()
        .filter(|piece| matches!(piece, Evidence::Rival { .. }))
        .count()
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_kernel_faster_than_its_rival() {
    let project = project_with_rival("0.5 * fake.slow.p50");
    on_gpu(project.path(), &["dial"], 0);
    assert_eq!(failed(project.path(), "dial"), Vec::<String>::new());
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_rival_that_breaks_decides_nothing() {
    let project = project_with_rival("fake.slow.p50");
    let dir = project.path();
    std::fs::write(dir.join("rival.sh"), "echo no >&2; exit 3\n").unwrap();
    let output = on_gpu(dir, &["dial"], 3);
    let said = unwrapped(&stdout(&output));
    assert!(
        said.contains("the rival broke: fake: failed (exit code 3): no"),
        "{said}"
    );
    assert_eq!(rivals_timed(dir), 1, "it is not started again");
}

#[test]
fn without_a_gpu_a_rival_is_named_and_not_started() {
    let project = project_with_rival("fake.quick.p50");
    let dir = project.path();
    let output = gate(dir, &["--device", "sim", "dial"], 0);
    let verdicts = verdicts(dir, "dial");
    let timed: Vec<_> = verdicts
        .iter()
        .filter(|(gate, ..)| gate == "p50 <= fake.quick.p50")
        .collect();
    assert!(timed.len() == 1 && timed[0].1 == "skipped", "{verdicts:?}");
    let said = unwrapped(&stdout(&output));
    let line = "fake quick, slow and absent: not compared with dial/default@filled: --device sim";
    assert!(said.contains(line), "{said}");
    assert_eq!(rivals_timed(dir), 0);
}

/// The missing GPU comes first, so a rival that was not requested is not mentioned.
#[test]
fn without_a_gpu_a_rival_is_named_on_request() {
    let project = project_with_rival("10s");
    let dir = project.path();
    let said = |more: &[&str]| {
        let args = [&["--device", "sim", "dial"], more].concat();
        unwrapped(&stdout(&gate(dir, &args, 0)))
    };
    assert!(!said(&[]).contains("fake"));
    let line = "fake quick, slow and absent: not compared with dial/default@filled: --device sim";
    assert!(said(&["--rivals"]).contains(line));
    assert_eq!(rivals_timed(dir), 0);
}
