//! A kernel whose output depends on what ran before it, or on which hardware unit ran it, in forms that issue 26 does
//! not name: hostile ones, unlucky ones, and honest ones that must stay green.

use crate::common::{
    broken_gates, copies, edit, failed, gatekeeper, git, run, simulate, stdout, verdict,
};
use std::fs;
use std::path::Path;

/// A kernel, and what is expected of it: the gate that fails first and a part of its message, or nothing.
type Attempt<'a> = (&'a str, &'a str, &'a str, Option<(&'a str, &'a str)>);

const STATE: &str = "deterministic";
const FINDINGS: &str = "memory and races";

fn attempt(all: &[Attempt]) {
    let kernels: Vec<_> = all
        .iter()
        .map(|(name, before, body, _)| (*name, *before, *body))
        .collect();
    let project = copies(&kernels);
    let dir = project.path();
    let mut command = gatekeeper();
    command.current_dir(dir);
    command.args(["run", "--provision", "--device", "sim"]);
    let code = command.output().unwrap().status.code();
    let is_any_wrong = all.iter().any(|(.., expected)| expected.is_some());
    assert_eq!(code, Some(i32::from(is_any_wrong)), "{:?}", failed(dir));
    // All of them, so that one that gets through hides no other.
    let mut wrong = Vec::new();
    for (kernel, _, _, expected) in all {
        let broken = broken_gates(dir, kernel);
        let told = expected.map(|(gate, part)| (verdict(dir, kernel, gate), part));
        let is_told = told.as_ref().is_none_or(|((outcome, _, message), part)| {
            outcome == "fail" && message.contains(part)
        });
        if broken.is_empty() == expected.is_some() || !is_told {
            wrong.push(format!("{kernel}: {broken:?} {told:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// State in other places than a plain counter; later launches on it stop each.
#[test]
fn state_that_makes_a_later_launch_wrong_fails_in_any_memory() {
    attempt(&[
        // An array that atomics fill and nobody clears.
        (
            "histogram",
            "__device__ unsigned bins[4];",
            "  atomicAdd(&bins[blockIdx.x], 1);\n  __syncthreads();\n  \
             y[i] = atomicAdd(&bins[blockIdx.x], 0) <= 64 ? v : 0;",
            Some((STATE, "launch 2 differs")),
        ),
        // A static variable of the kernel itself.
        (
            "local",
            "",
            "  static int calls[256];\n  y[i] = calls[i]++ ? -v : v;",
            Some((STATE, "`local::calls`")),
        ),
        // Wrong once in five launches.
        (
            "fifth",
            "__device__ int turn[256];",
            "  y[i] = ++turn[i] % 5 ? v : v + 1;",
            Some((STATE, "launch 5 differs")),
        ),
        // Two halves in turn, of which one is wrong.
        (
            "parity",
            "__device__ int half[256];",
            "  y[i] = half[i] ? v * 1.5f : v;\n  half[i] ^= 1;",
            Some((STATE, "launch 2 differs")),
        ),
        // Results remembered by the address of the input, which is the same for other data.
        (
            "cache",
            "__device__ const float *key[256];\n__device__ float kept[256];",
            "  if (key[i] != x) { key[i] = x; kept[i] = v; }\n  y[i] = kept[i];",
            Some((STATE, "on that of seed 2 differs")),
        ),
        // Memory of the heap, kept by a pointer.
        (
            "heap",
            "__device__ int *calls;",
            "  if (i == 0) { if (!calls) { calls = (int *)malloc(4); *calls = 0; } ++*calls; \
             y[0] = *calls > 1 ? v + 1 : v; } else y[i] = v;",
            Some((STATE, "`calls`")),
        ),
        // A later launch writes nothing at all.
        (
            "silent",
            "__device__ int done[256];",
            "  if (done[i]) return;\n  done[i] = 1;\n  y[i] = v;",
            Some((
                STATE,
                "launch 2 differs from the first launch in 256 elements",
            )),
        ),
        // A later launch runs out of its array.
        (
            "grows",
            "__device__ unsigned next;\n__device__ float room[256];",
            "  const unsigned at = atomicAdd(&next, 1);\n  room[at] = v;\n  y[i] = room[at];",
            Some((FINDINGS, "launch 2, on what launch 1 left in `next`")),
        ),
    ]);
}

/// Working memory that nobody fills has no value in a later launch, nor in the first.
#[test]
fn state_in_working_memory_without_a_fill_is_a_value_that_nothing_wrote() {
    let project = copies(&[("scratch", "", "  y[i] = used[i]++ > 0 ? v + 1 : v;")]);
    let dir = project.path();
    edit(&dir.join("k.cu"), "float *y)", "float *y, int *used)");
    let yaml = dir.join("gates.yaml");
    edit(
        &yaml,
        "    args:",
        "      used: {role: scratch, type: i32, shape: [256]}\n    args:",
    );
    edit(&yaml, "{tensor: y}]", "{tensor: y}, {tensor: used}]");
    simulate(dir, &[], 1);
    let (outcome, _, message) = verdict(dir, "scratch", FINDINGS);
    assert_eq!(outcome, "fail");
    assert!(message.contains("that was never written"), "{message}");
    // With a fill each launch finds the same.
    edit(
        &yaml,
        "shape: [256]}\n    args:",
        "shape: [256], fill: {constant: 0}}\n    args:",
    );
    simulate(dir, &[], 0);
}

const SMID: &str = "  unsigned r; asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(r));\n";

/// Kernels take values from the machine in other ways; a launch with other values catches each.
#[test]
fn outputs_that_depend_on_the_machine_by_detours_are_findings() {
    let one = SMID.to_owned() + "  if (r == 77) { y[i] = 0; return; }\n  y[i] = v;";
    let strides = SMID.to_owned()
        + "  unsigned n; asm volatile(\"mov.u32 %0, %%nsmid;\" : \"=r\"(n));
  for (unsigned t = r; t < 4; t += n) y[t * 64 + threadIdx.x] = x[t * 64 + threadIdx.x];";
    let shared = SMID.to_owned()
        + "  __shared__ float kept[2][64]; kept[0][threadIdx.x] = v; kept[1][threadIdx.x] = v + 1;
  __syncthreads();\n  y[i] = kept[r ? 1 : 0][threadIdx.x];";
    let small = SMID.to_owned() + "  y[i] = v + (r < 1 ? 0 : room[64 * r + 4096]);";
    attempt(&[
        // Low bits of the time as random numbers.
        (
            "lottery",
            "",
            "  unsigned long long t; asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(t));\n  \
             y[i] = v + (t >> 20 & 1);",
            Some((FINDINGS, "when it ran")),
        ),
        // The first warp slot leads.
        (
            "leader",
            "",
            "  unsigned w; asm volatile(\"mov.u32 %0, %%warpid;\" : \"=r\"(w));\n  __shared__ float lead;\n  \
             if (threadIdx.x == 0) lead = 0;\n  __syncthreads();\n  \
             if (w == 0 && threadIdx.x % 32 == 0) lead = 1;\n  __syncthreads();\n  y[i] = v * lead;",
            Some((FINDINGS, "which warp slot ran it")),
        ),
        // One multiprocessor of 132 alone, which the code has to name.
        (
            "one",
            "",
            &one,
            Some((FINDINGS, "which multiprocessor ran it")),
        ),
        // Tiles by multiprocessor: with fewer blocks than those some are left.
        (
            "strides",
            "",
            &strides,
            Some((FINDINGS, "which multiprocessor ran it")),
        ),
        // By way of an address in shared memory.
        (
            "shared",
            "",
            &shared,
            Some((FINDINGS, "which multiprocessor ran it")),
        ),
        // Out of an array that is sized for one.
        (
            "small",
            "__device__ float room[64];",
            &small,
            Some((FINDINGS, "on other multiprocessors stopped: ")),
        ),
        // A branch alone, on the difference of two clocks.
        (
            "elapsed",
            "",
            "  const long long from = clock64();\n  __syncthreads();\n  \
             const long long took = clock64() - from;\n  if (took >> 40 == 0 && from >> 44 == 0) y[i] = v; else y[i] = 0;",
            Some((FINDINGS, "when it ran")),
        ),
        // A pointer that is stored and read back as a number.
        (
            "stored",
            "__device__ const float *held[256];",
            "  held[i] = x;\n  const unsigned *bits = reinterpret_cast<const unsigned *>(&held[i]);\n  \
             y[i] = v + (*bits >> 9 & 1);",
            Some((FINDINGS, "bits of an address")),
        ),
    ]);
}

/// Uses that look alike and change nothing: nothing differs in a launch with other values, or on what was left.
#[test]
fn honest_kernels_with_state_or_with_an_eye_on_the_machine_pass() {
    let equal = SMID.to_owned() + "  if (r & 1) y[i] = v; else y[i] = v * 1.0f + 0.0f * 0.0f;";
    let strides = "  unsigned n; asm volatile(\"mov.u32 %0, %%nsmid;\" : \"=r\"(n));
  for (unsigned t = blockIdx.x; t < 4; t += n) y[t * 64 + threadIdx.x] = x[t * 64 + threadIdx.x];";
    attempt(&[
        // One of two ways by the multiprocessor, which come to the same.
        ("equal", "", &equal, None),
        // A stride of as many blocks as there are multiprocessors, or more.
        ("strides", "", strides, None),
        // A slot by the hash of an address.
        (
            "hashed",
            "__device__ unsigned slots[4];",
            "  if (threadIdx.x == 0) atomicAdd(&slots[(uintptr_t)x >> 9 & 3], 1);\n  y[i] = v;",
            None,
        ),
        // A loop up to an end that is an address.
        (
            "range",
            "",
            "  const float *p = x;\n  float last = 0;\n  for (const float *end = x + i + 1; p != end; ++p) last = *p;\n  \
             y[i] = last;",
            None,
        ),
        // Float atomics in the order of the blocks, which a clock does not disturb.
        (
            "sums",
            "__device__ float total;\n__device__ unsigned ended;",
            "  const long long from = clock64();\n  atomicAdd(&total, v);\n  y[i] = v;\n  \
             if (clock64() == from) y[i] = 0;",
            None,
        ),
        // A semaphore that is taken and given back.
        (
            "lock",
            "__device__ int held;",
            "  if (threadIdx.x == 0) { while (atomicCAS(&held, 0, 1)) ; __threadfence(); }\n  __syncthreads();\n  \
             y[i] = v;\n  __syncthreads();\n  if (threadIdx.x == 0) { __threadfence(); atomicExch(&held, 0); }",
            None,
        ),
        // A number of the launch that only counts.
        (
            "counts",
            "__device__ unsigned launches;",
            "  if (i == 0) ++launches;\n  y[i] = v;",
            None,
        ),
    ]);
}

/// One step writes a variable and the next one reads it: each launch begins with the first.
#[test]
fn a_variable_that_one_step_hands_to_the_next_passes() {
    let project = copies(&[
        (
            "first",
            "__device__ float between[256];",
            "  between[i] = v; y[i] = v;",
        ),
        ("second", "", "  y[i] = between[i];"),
    ]);
    let dir = project.path();
    let yaml = dir.join("gates.yaml");
    let text = fs::read_to_string(&yaml).unwrap();
    let (head, _) = text.split_once("  second:").unwrap();
    let steps = "    sequence:\n      - {entry: first, args: [{tensor: x}, {tensor: y}], launch: {grid: [4], block: [64]}}\n      \
                 - {entry: second, args: [{tensor: x}, {tensor: y}], launch: {grid: [4], block: [64]}}\n";
    let head = head.replace("    entry: first\n", "").replace(
        "    args: [{tensor: x}, {tensor: y}]\n    launch: {grid: [4], block: [64]}\n",
        steps,
    );
    fs::write(&yaml, head).unwrap();
    simulate(dir, &[], 0);
    assert_eq!(verdict(dir, "first", STATE).0, "pass");
    // The other way round the reader finds what the launch before has left.
    let text = fs::read_to_string(&yaml).unwrap();
    let swapped = text
        .replace("entry: first,", "entry: third,")
        .replace("entry: second,", "entry: first,")
        .replace("entry: third,", "entry: second,");
    fs::write(&yaml, swapped).unwrap();
    edit(
        &dir.join("k.cu"),
        "between[i] = v; y[i] = v;",
        "between[i] = v;",
    );
    simulate(dir, &[], 1);
}

const COUNTED: &str = "  __shared__ unsigned t;\n  if (threadIdx.x == 0) t = atomicAdd(&tickets, 1);\n  \
                       __syncthreads();\n  y[i] = t < gridDim.x ? v : 0;";

/// A declaration that launches differ lets bits differ, and no wrong result pass.
#[test]
fn a_stateful_kernel_that_is_declared_nondeterministic_fails_by_its_error() {
    let project = copies(&[("k", "__device__ unsigned tickets;", COUNTED)]);
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "    seeds: 2\n",
        "    seeds: 2\n    nondeterministic: tickets\n",
    );
    simulate(dir, &[], 1);
    let gates: Vec<_> = failed(dir).into_iter().map(|(gate, _)| gate).collect();
    assert_eq!(gates, ["max_err <= 0"]);
}

/// The way out: what the host writes before each launch is a tensor of gates.yaml.
#[test]
fn a_variable_that_the_host_writes_before_each_launch_is_declared_and_passes() {
    let project = copies(&[("k", "__device__ unsigned tickets;", COUNTED)]);
    let dir = project.path();
    simulate(dir, &[], 1);
    let yaml = dir.join("gates.yaml");
    edit(
        &yaml,
        "    args:",
        "      zero: {type: i32, shape: [1], fill: {constant: 0}}\n    constants: {tickets: zero}\n    args:",
    );
    simulate(dir, &[], 0);
    // One launch left it, and the host has written it since.
    assert_eq!(verdict(dir, "k", STATE).0, "skipped");
}

fn commit(dir: &Path) {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "--allow-empty", "-m", "change"]);
}

/// The seed that a run against a base says it has drawn.
fn drawn(dir: &Path, code: i32) -> String {
    let output = run(
        dir,
        &["run", "--provision", "--device", "sim", "--base", "HEAD~1"],
        code,
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, after) = said.split_once("--seeds ").unwrap();
    let seed = after.split('`').next().unwrap().to_owned();
    let fact = format!("extra seed {seed} drawn from the commit");
    let is_told = |text: &str| {
        let words: Vec<_> = text.split_whitespace().collect();
        words.join(" ").contains(&fact)
    };
    assert!(is_told(&stdout(&output)), "{}", stdout(&output));
    for file in ["report.md", "report.html"] {
        let text = fs::read_to_string(dir.join("gatekeeper-out").join(file)).unwrap();
        assert!(is_told(&text), "{file}: {text}");
    }
    seed
}

/// Right for the data of gates.yaml's seeds alone: a seed that follows from the commit shows it, twice the same, and
/// by itself.
#[test]
fn a_kernel_made_for_the_seeds_of_gates_yaml_fails_against_a_base() {
    let project = copies(&[("k", "", "  y[i] = v;")]);
    let dir = project.path();
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\ndump\n").unwrap();
    commit(dir);
    commit(dir);
    let honest = drawn(dir, 0);
    assert_eq!(drawn(dir, 0), honest, "the commit decides");
    let known = ["1", "2"].map(|seed| {
        simulate(dir, &["--seeds", seed, "--dump", "dump"], 0);
        let mut files = walk(&dir.join("dump")).into_iter();
        let file = files.rfind(|it| it.ends_with("x.npy")).unwrap();
        let bytes = fs::read(file).unwrap();
        fs::remove_dir_all(dir.join("dump")).unwrap();
        let first = bytes.len() - 4 * 256;
        u32::from_le_bytes(bytes[first..first + 4].try_into().unwrap())
    });
    let tests = known.map(|bits| format!("first == {bits}u"));
    let tests = tests.join(" || ");
    edit(
        &dir.join("k.cu"),
        "  y[i] = v;",
        &format!("  const unsigned first = __float_as_uint(x[0]);\n  y[i] = {tests} ? v : 0;"),
    );
    commit(dir);
    simulate(dir, &[], 0);
    let seed = drawn(dir, 1);
    assert_ne!(seed, honest, "another commit");
    let told = format!("with seed {seed}");
    assert!(
        failed(dir)
            .iter()
            .any(|(_, message)| message.contains(&told)),
        "{:?}",
        failed(dir)
    );
    simulate(dir, &["--seeds", &seed], 1);
    // Who asks for seeds gets those.
    let output = run(
        dir,
        &["run", "--device", "sim", "--base", "HEAD", "--seeds", "1,2"],
        0,
    );
    assert!(!stdout(&output).contains(&seed));
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(walk(&path)),
            false => all.push(path),
        }
    }
    all
}
