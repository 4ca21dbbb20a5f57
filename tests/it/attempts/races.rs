use crate::common::{edit, failed, git, report, run, simulate, stdout};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The source before the kernels. Each kernel copies x to y; anything else that it does is the attempt.
const PRELUDE: &str = r#"
#define KERNEL(name) extern "C" __global__ void name(const float* x, float* y, int n)
#define COPY y[blockIdx.x * blockDim.x + threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x]
#define READ(v) asm volatile("" ::"r"(v))
#define AT(p) "l"(p)
"#;

/// Name, what is attempted, the kernel's body. The start of the name is what has to come of it: `right` exits
/// with 0 and says nothing, `note` exits with 0 and has a note, `wrong` exits with 1.
const KERNELS: &[(&str, &str, &str)] = &[
    (
        "right_scopes_in_one_warp",
        "scopes of the block and of the device by lanes of one block: each takes in the other",
        r#"__shared__ int s; int v; unsigned a = (unsigned)__cvta_generic_to_shared(&s);
           asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(a), "r"(threadIdx.x) : "memory");
           asm volatile("ld.relaxed.gpu.shared.u32 %0, [%1];" : "=r"(v) : "r"(a) : "memory"); READ(v); COPY;"#,
    ),
    (
        "right_sizes_of_strong_accesses",
        "a word and half of it, both relaxed: accesses of different sizes count as one size",
        r#"__shared__ int s; short v; unsigned a = (unsigned)__cvta_generic_to_shared(&s);
           asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(a), "r"(threadIdx.x) : "memory");
           asm volatile("ld.relaxed.cta.shared.u16 %0, [%1];" : "=h"(v) : "r"(a) : "memory"); READ((int)v); COPY;"#,
    ),
    (
        "right_red_and_relaxed",
        "an atomic without a result, and relaxed loads of the same word in all blocks",
        r#"__device__ static int word; int v; atomicAdd(&word, 0);
           asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : AT(&word) : "memory"); READ(v); COPY;"#,
    ),
    (
        "right_cas_of_half_a_word",
        "the first attempt of a compare-and-swap on part of a word stands before the loop",
        r#"__device__ static unsigned word; int shift = threadIdx.x % 2 * 16;
           unsigned cur = word, old = atomicCAS(&word, cur, cur ^ (1u << shift));
           while (old != cur) { cur = old; old = atomicCAS(&word, cur, cur ^ (1u << shift)); } 
           atomicXor(&word, 1u << shift); COPY;"#,
    ),
    (
        "right_cas_written_out",
        "three attempts of a compare-and-swap, and no loop",
        r#"__device__ static int word; int cur = word, old = atomicCAS(&word, cur, cur);
           if (old != cur) { cur = old; old = atomicCAS(&word, cur, cur); }
           if (old != cur) { cur = old; old = atomicCAS(&word, cur, cur); } COPY;"#,
    ),
    (
        "right_predicated_off",
        "a store in the same place that no lane executes",
        r#"__shared__ int s[32]; unsigned a = (unsigned)__cvta_generic_to_shared(s), t = threadIdx.x % 32; int v;
           if (threadIdx.x < 32) s[t] = t; __syncthreads();
           asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(a + 4 * (t ^ 1)) : "memory"); READ(v);
           asm volatile("{ .reg .pred p; setp.gt.s32 p, %2, 1000; @p st.shared.u32 [%0], %1; }" ::"r"(a), "r"(t), "r"(threadIdx.x) : "memory"); COPY;"#,
    ),
    (
        "note_reduction_in_step",
        "a reduction as it was written before `__syncwarp()`, volatile: no race, but it counts on lanes in step",
        r#"__shared__ int all[128]; volatile int* s = all; int t = threadIdx.x; s[t] = t; __syncthreads();
           if (t < 32) { s[t] += s[t + 32]; s[t] += s[t + 16]; s[t] += s[t + 8]; } COPY;"#,
    ),
    (
        "wrong_reduction_in_step_of_plain_accesses",
        "the same without volatile: in doubt a race, as several lines read one place",
        r#"__shared__ int s[128]; int t = threadIdx.x; s[t] = t; __syncthreads();
           if (t < 32) { s[t] += s[t + 32]; asm volatile("" ::: "memory"); s[t] += s[t + 16]; } COPY; READ(s[t]);"#,
    ),
    (
        "note_hidden_behind_a_loop",
        "a hazard in a loop whose other iterations are in order",
        r#"__shared__ int s[128]; int t = threadIdx.x;
           #pragma unroll 1
           for (int k = 0; k < 4; k++) { s[t] = k; if (k != n - 253) __syncwarp(); READ(s[t ^ 1]); __syncwarp(); } COPY;"#,
    ),
    (
        "wrong_weak_and_relaxed",
        "a plain load of what lanes of other warps store relaxed",
        r#"__device__ static int word; int v = word; READ(v);
           asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::AT(&word), "r"(threadIdx.x) : "memory"); COPY;"#,
    ),
    (
        "wrong_volatile_and_weak",
        "a volatile store in a branch, and a plain load behind it",
        r#"__shared__ int s; if (threadIdx.x == 3) *(volatile int*)&s = 1;
           int v = threadIdx.x < 32 && threadIdx.x > 3 ? s : 0; READ(v); COPY;"#,
    ),
    (
        "wrong_scope_across_blocks",
        "a relaxed store of scope .cta to a word of all blocks",
        r#"__device__ static int word;
           asm volatile("st.relaxed.cta.global.u32 [%0], %1;" ::AT(&word), "r"(blockIdx.x) : "memory"); COPY;"#,
    ),
    (
        "wrong_atomics_of_the_block_across_blocks",
        "atomicAdd_block on a counter of all blocks",
        r#"__device__ static int word; atomicAdd_block(&word, 0); COPY;"#,
    ),
    (
        "wrong_cas_whose_stale_guess_is_swapped_in",
        "later attempts swap in what follows from the first read",
        r#"__device__ static int word; int first = word, cur = first, old = atomicCAS(&word, cur, cur + 1);
           while (old != cur) { cur = old; old = atomicCAS(&word, cur, first + 1); } COPY;"#,
    ),
    (
        "wrong_scan_in_step",
        "a scan in shared memory whose lanes leave each step by a branch",
        r#"__shared__ int s[128]; int t = threadIdx.x, l = t % 32; s[t] = t;
           for (int d = 1; d < 32; d *= 2) { if (l >= d) s[t] += s[t - d]; } COPY; READ(s[t]);"#,
    ),
    (
        "wrong_mask_of_the_sync",
        "`__syncwarp()` of two halves, and a read across them behind a branch",
        r#"__shared__ int s[128]; int t = threadIdx.x, l = t % 32; if (l < 16) s[t] = t;
           __syncwarp(l < 16 ? 0xffff : 0xffff0000); if (l >= 16) READ(s[t - 16]); COPY;"#,
    ),
    (
        "wrong_after_a_return",
        "lanes that stored have returned when others read",
        r#"__shared__ int s[128]; int t = threadIdx.x, l = t % 32; s[t] = t; COPY;
           if (l >= 16) return; READ(s[t + 16]);"#,
    ),
    (
        "wrong_decides_the_loop_of_others",
        "a value of lane 0 decides when the other lanes leave the loop",
        r#"__shared__ int s[4]; int t = threadIdx.x, w = t / 32, k = 0;
           do { s[w] = ++k; } while (*(volatile int*)&s[w] < 3 && k < 9);
           do { s[w] = k--; asm volatile("" ::: "memory"); if (t % 32 == 0) s[w] = k; } while (s[w] > 0); COPY;"#,
    ),
    (
        "wrong_decides_by_a_vote",
        "a value that is read without order decides what all lanes do, through a vote",
        r#"__shared__ int s[128]; int t = threadIdx.x; s[t] = t; int v = s[t ^ 1];
           if (__any_sync(~0u, v > 1000)) y[0] = -1; COPY;"#,
    ),
];

/// A project of these kernels, one source each, that copy 256 numbers.
fn project() -> tempfile::TempDir {
    let project = tempfile::tempdir().unwrap();
    let (mut gates, mut source) = (String::new(), PRELUDE.to_owned());
    gates.push_str("version: 1\narchitectures: [sm_90]\nkernels:\n");
    for (name, _, body) in KERNELS {
        let body = match body.split_once("__device__ static ") {
            Some((before, rest)) => {
                let (variable, rest) = rest.split_once(';').unwrap();
                let own = format!("{name}_word");
                writeln!(source, "__device__ {};", variable.replace("word", &own)).unwrap();
                format!("{before}{}", rest.replace("word", &own))
            }
            None => (*body).to_owned(),
        };
        writeln!(source, "KERNEL({name}) {{\n{body}\n}}").unwrap();
        gates.push_str(&kernel(name, "k.cu"));
    }
    fs::write(project.path().join("gates.yaml"), gates).unwrap();
    fs::write(project.path().join("k.cu"), source).unwrap();
    project
}

fn kernel(name: &str, source: &str) -> String {
    format!(
        "  {name}:
    source: {source}
    entry: {name}
    shapes: {{small: {{N: 256}}}}
    seeds: 1
    tensors:
      x: {{type: f32, shape: [N]}}
      y: {{role: out, type: f32, shape: [N]}}
    args: [{{tensor: x}}, {{tensor: y}}, {{i32: N}}]
    launch: {{grid: [N / 128], block: [128]}}
    reference: {{unary: {{x: x, out: y, op: copy}}}}
    gates: {{max_err: 0}}
"
    )
}

fn named(start: &str) -> Vec<&'static str> {
    let names = KERNELS.iter().map(|(name, ..)| *name);
    names.filter(|name| name.starts_with(start)).collect()
}

/// Kernels of the notes on hazards, and of the verdicts of `memory and races` that failed.
fn told(dir: &Path) -> [Vec<String>; 2] {
    let report: serde_json::Value = serde_json::from_str(&report(dir)).unwrap();
    let list = |key: &str| report[key].as_array().unwrap().clone();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let notes = list("notes").into_iter();
    let hazards = notes
        .filter_map(|note| Some(text(&note.get("warp_hazard")?["subject"]["case"]["kernel"])))
        .collect();
    let failed = list("verdicts")
        .into_iter()
        .filter(|it| it["gate"] == "memory and races" && it["outcome"] == "fail");
    let failed = failed
        .map(|it| text(&it["subject"]["case"]["kernel"]))
        .collect();
    [hazards, failed]
}

/// All rows whose name starts with `right` and `note` pass; the notes name the latter alone.
#[test]
fn right_kernels_pass_and_hazards_of_one_stream_are_notes() {
    let project = project();
    let dir = project.path();
    simulate(dir, &["right_*"], 0);
    let [hazards, failed] = told(dir);
    assert!(hazards.is_empty() && failed.is_empty(), "{hazards:#?}");
    let said = simulate(dir, &["note_*"], 0);
    let [hazards, failed] = told(dir);
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(hazards, named("note_"), "{said}");
    assert!(said.contains("no __syncwarp() orders this"), "{said}");
}

/// All rows whose name starts with `wrong` fail, each by this gate.
#[test]
fn wrong_kernels_fail_by_the_gate_on_races() {
    let project = project();
    let dir = project.path();
    simulate(dir, &["wrong_*"], 1);
    let [_, failed] = told(dir);
    assert_eq!(failed, named("wrong_"));
}

/// A hazard that passes as a note, committed.
const HAZARD: &str = "\
extern \"C\" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[128];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 128 + t];
  float other = s[t ^ 1];
  asm volatile(\"\" ::\"f\"(other));
  y[blockIdx.x * 128 + t] = s[t];
}
";

fn repository(settings: &str) -> tempfile::TempDir {
    let repository = tempfile::tempdir().unwrap();
    let dir = repository.path();
    let gates = format!(
        "version: 1\narchitectures: [sm_90]\n{settings}kernels:\n{}",
        kernel("k", "k.cu").replace("max_err: 0", "max_err: 0, counters: \"+1000%\"")
    );
    fs::write(dir.join("gates.yaml"), gates).unwrap();
    fs::write(dir.join("k.cu"), HAZARD).unwrap();
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    git(dir, &["init", "--quiet"]);
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "base"]);
    repository
}

fn against_base(dir: &Path, more: &[&str], code: i32) -> String {
    let args = ["run", "--provision", "--device", "sim", "--base", "HEAD"];
    stdout(&run(dir, &[&args[..], more].concat(), code))
}

/// A hazard of the base stays a note when lines move and other code changes. A second one is red, also where it
/// is a copy of the first, and goes by an acceptance.
#[test]
fn a_hazard_fails_if_it_is_new_against_the_base() {
    let repository = repository("");
    let dir = repository.path();
    let source = dir.join("k.cu");
    against_base(dir, &[], 0);
    edit(&source, "  int t =", "  // One line more.\n\n  int   t =");
    edit(&source, "= s[t];", "= s[t] + 0 * other;");
    let said = against_base(dir, &[], 0);
    assert!(said.contains("hazard within a warp"), "{said}");
    let stored = "  s[t] = x[blockIdx.x * 128 + t];\n  float other = s[t ^ 1];\n";
    let twice = "  __syncthreads();\n  s[t] = x[blockIdx.x * 128 + t];\n  float second = s[t ^ 2];\n  \
                 asm volatile(\"\" ::\"f\"(second));\n";
    edit(&source, stored, &format!("{stored}{twice}"));
    against_base(dir, &[], 1);
    let gates = failed(dir);
    assert_eq!(gates.len(), 1, "{gates:?}");
    assert!(
        gates[0].1.contains("the base does not have this"),
        "{gates:?}"
    );
    fs::create_dir_all(dir.join("baselines")).unwrap();
    let accepted = "version: 1\naccepted:\n  - case: k\n    finding: {kind: warp_hazard, file: k.cu, line: \
                    \"float second = s[t ^ 2];\"}\n    reason: warps keep step so far\n    by: jane@example.org\n    \
                    until: 2999-12-31\n";
    fs::write(dir.join("baselines/accepted.yaml"), accepted).unwrap();
    against_base(dir, &["--allow-loosened"], 0);
    fs::remove_dir_all(dir.join("baselines")).unwrap();
    edit(
        &source,
        "float second = s[t ^ 2];",
        "float other = s[t ^ 1];",
    );
    edit(&source, "\"f\"(second)", "\"f\"(other)");
    let text = fs::read_to_string(&source).unwrap();
    let copy = text.replacen("  __syncthreads();\n", "  __syncthreads(); {\n", 1);
    let copy = copy.replacen("(other));\n  asm", "(other)); }\n  asm", 1);
    fs::write(&source, copy).unwrap();
    against_base(dir, &[], 1);
}

/// A kernel that becomes one with a hazard only because a `__syncwarp()` was removed.
#[test]
fn a_sync_that_is_removed_fails_against_the_base() {
    let repository = repository("");
    let dir = repository.path();
    let source = dir.join("k.cu");
    edit(&source, "  float other", "  __syncwarp();\n  float other");
    git(dir, &["commit", "--quiet", "-am", "right"]);
    against_base(dir, &[], 0);
    edit(&source, "  __syncwarp();\n", "");
    against_base(dir, &[], 1);
    let gates = failed(dir);
    assert!(
        gates[0].1.contains("the base does not have this"),
        "{gates:?}"
    );
}

/// `warp_hazards: fail` makes a note red, and a change that takes it away is loosened.
#[test]
fn warp_hazards_fail_if_gated_and_removing_the_gate_is_loosened() {
    let setting = "simulation: {warp_hazards: fail}\n";
    let repository = repository(setting);
    let dir = repository.path();
    simulate(dir, &[], 1);
    let gates = failed(dir);
    assert!(gates[0].1.contains("hazard within a warp"), "{gates:?}");
    edit(
        &dir.join("k.cu"),
        "  float other",
        "  __syncwarp();\n  float other",
    );
    simulate(dir, &[], 0);
    git(dir, &["commit", "--quiet", "-am", "right"]);
    edit(&dir.join("gates.yaml"), setting, "");
    let said = against_base(dir, &[], 1);
    assert!(said.contains("hazards within a warp fail"), "{said}");
    against_base(dir, &["--allow-loosened"], 0);
}
