//! Steps, tensors and sources in gates.yaml: what it accepts is run, green and red; what would hide something is
//! refused, with advice on what to do.

use crate::common::{RECORD, edit, gates_that_failed, git, refused, run, simulate, stderr, stdout};
use std::fs;
use std::path::Path;

/// Three kernels, so that one compilation serves most tests of this file.
const SOURCE: &str = r#"
#include <cassert>
#ifndef FACTOR
#define FACTOR 2
#endif
__device__ unsigned total;
extern "C" __global__ void count_in_variable(int n, int forbidden) {
    __shared__ int seen[64];
    seen[threadIdx.x] = n;
    __syncthreads();
    atomicAdd(&total, seen[threadIdx.x ^ 1]);
    assert(n != forbidden);
}
extern "C" __global__ void race_in_shared(int n) {
    __shared__ int seen[64];
    seen[threadIdx.x] = n;
    atomicAdd(&total, seen[threadIdx.x ^ 32]);
}
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
extern "C" __global__ void count(const int* x, int* counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[x[i] & 3], 1);
}
"#;

const REFERENCE: &str = r"
#include <stdint.h>
void scaled(const float* x, const float* factor, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = factor[0] * x[i];
}
void counted(const int32_t* x, int32_t* y, int64_t n) {
    for (int i = 0; i < 4; ++i) y[i] = 0;
    for (int64_t i = 0; i < n; ++i) y[x[i] & 3] += 1;
}
";

fn project(gates: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("k.cu"), SOURCE).unwrap();
    fs::write(dir.path().join("r.c"), REFERENCE).unwrap();
    fs::write(dir.path().join(".gitignore"), "gatekeeper-out/\n").unwrap();
    fs::write(dir.path().join("gates.yaml"), gates).unwrap();
    dir
}

fn file(kernel: &str) -> String {
    format!(
        "version: 1\narchitectures: [sm_90]\nkernels:\n  k:\n    source: k.cu\n    seeds: 1\n{kernel}"
    )
}

fn commit(dir: &Path) {
    git(dir, &["init", "-q"]);
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-qm", "base"]);
}

/// The exit code is 2, and these stand in the message.
fn is_refused(dir: &Path, parts: &[&str]) {
    let output = run(dir, &["validate"], 2);
    let said = stderr(&output);
    for part in parts {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

// Kernels without outputs.

const WITHOUT: &str = "    entry: count_in_variable
    args: [{i32: 7}, {i32: 9}]
    launch: {grid: [2], block: [64]}
    gates: {registers: 40}
";

#[test]
fn a_kernel_without_tensors_is_held_to_everything_but_values() {
    let project = project(&file(WITHOUT));
    let (dir, yaml) = (project.path(), project.path().join("gates.yaml"));
    simulate(dir, &[], 0);
    let said = stdout(&run(dir, &["validate", "--explain", "k"], 0));
    assert!(said.contains("no output: nothing is compared"), "{said}");
    assert!(!said.contains("\nfinite"), "{said}");
    // An assertion that does not hold.
    edit(&yaml, "{i32: 9}", "{i32: 7}");
    simulate(dir, &[], 1);
    let gates = gates_that_failed(dir);
    assert!(gates.contains(&"memory and races".to_owned()), "{gates:?}");
    // A race in shared memory.
    edit(&yaml, "entry: count_in_variable", "entry: race_in_shared");
    edit(&yaml, "args: [{i32: 7}, {i32: 7}]", "args: [{i32: 7}]");
    simulate(dir, &[], 1);
    assert_eq!(gates_that_failed(dir), ["memory and races"]);
    // A resource.
    edit(&yaml, "entry: race_in_shared", "entry: count_in_variable");
    edit(&yaml, "args: [{i32: 7}]", "args: [{i32: 7}, {i32: 9}]");
    edit(&yaml, "registers: 40", "registers: 2");
    simulate(dir, &[], 1);
    assert_eq!(gates_that_failed(dir), ["registers <= 2"]);
}

/// A limit on an error that does not exist would always hold: there is nothing that it could be of.
#[test]
fn a_kernel_without_outputs_has_no_limit_on_errors() {
    for (gates, metric) in [
        ("{max_err: 0}", "max_err"),
        ("{rel_l2: {default: 1e-3}}", "rel_l2"),
        (
            "{conditions: [\"max_err < 1 || registers < 99\"]}",
            "max_err",
        ),
        ("{registers: 40, over_tolerance: 0}", "over_tolerance"),
    ] {
        let project = project(&file(&WITHOUT.replace("{registers: 40}", gates)));
        let says = format!("no tensor is an output, so there is no {metric}");
        is_refused(project.path(), &[&says, "give one `role: out`"]);
    }
    let kernel = format!("{WITHOUT}    reference: none\n");
    let says = "no tensor is an output: the reference has nothing to compute";
    is_refused(
        project(&file(&kernel)).path(),
        &[says, "remove `reference`"],
    );
}

const SCALE: &str = "    entry: scale
    shapes: {small: {N: 100}}
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {i32: N}]
    launch: {grid: [1], block: [128]}
    reference: {binary: {a: x, b: x, out: y, op: add}}
    gates: {max_err: 0}
";

/// Head declares that the output is none any more, so that nothing is compared: the base had it, and that is loosened.
#[test]
fn an_output_that_a_change_declares_away_is_a_loosened_gate() {
    let project = project(&file(SCALE));
    let (dir, yaml) = (project.path(), project.path().join("gates.yaml"));
    commit(dir);
    edit(&yaml, "role: out", "role: scratch");
    edit(
        &yaml,
        "    reference: {binary: {a: x, b: x, out: y, op: add}}\n",
        "",
    );
    edit(&yaml, "gates: {max_err: 0}", "gates: {}");
    edit(&dir.join("k.cu"), "FACTOR * x[i]", "3 * x[i]");
    let said = simulate(dir, &["--base", "HEAD"], 1);
    assert!(said.contains("max_err"), "{said}");
    run(dir, &["run", "--device", "sim"], 0);
    simulate(dir, &["--base", "HEAD", "--allow-loosened"], 0);
}

// Tensors of the reference alone.

const BY_FACTOR: &str = "    entry: scale
    shapes: {small: {N: 100}}
    tensors:
      x: {type: f32, shape: [N]}
      factor: {role: reference, type: f32, shape: [1], fill: {constant: 2}}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {i32: N}]
    launch: {grid: [1], block: [128]}
    reference: {user: {source: r.c, function: scaled, args: [{tensor: x}, {tensor: factor}, {tensor: y}, {i64: N}]}}
    gates: {max_err: 0}
";

#[test]
fn a_tensor_of_the_reference_alone_decides_correctness() {
    let project = project(&file(BY_FACTOR));
    let (dir, yaml) = (project.path(), project.path().join("gates.yaml"));
    simulate(dir, &[], 0);
    edit(&yaml, "fill: {constant: 2}", "fill: {constant: 3}");
    simulate(dir, &[], 1);
    assert_eq!(gates_that_failed(dir), ["max_err <= 0"]);
}

#[test]
fn a_mask_need_not_be_an_argument() {
    let mask = "y: {role: out, type: f32, shape: [N], compare: {mask: m}}
      m: {role: reference, type: i32, shape: [N], fill: {constant: 1}}";
    let kernel = SCALE.replace("y: {role: out, type: f32, shape: [N]}", mask);
    let project = project(&file(&kernel));
    let (dir, yaml) = (project.path(), project.path().join("gates.yaml"));
    simulate(dir, &[], 0);
    edit(&dir.join("k.cu"), "if (i < n) y[i]", "if (i < n - 1) y[i]");
    simulate(dir, &[], 1);
    // Nothing of it is compared, and that is a fault rather than a pass.
    edit(&yaml, "fill: {constant: 1}", "fill: zeros");
    simulate(dir, &[], 1);
}

/// Each would make the declaration mean something else than it says.
#[test]
fn a_tensor_of_the_reference_alone_is_nothing_else() {
    let factor = "factor: {role: reference, type: f32, shape: [1], fill: {constant: 2}}";
    for (old, new, says) in [
        (
            "args: [{tensor: x}, {tensor: y}, {i32: N}]",
            "args: [{tensor: x}, {tensor: factor}, {i32: N}]",
            "`factor` is for the reference alone, and a kernel gets it",
        ),
        (
            "{tensor: factor}, {tensor: y}, {i64: N}",
            "{tensor: x}, {tensor: y}, {i64: N}",
            "the reference does not read `factor`, which is for it alone",
        ),
        (
            factor,
            "factor: {type: f32, shape: [1], fill: {constant: 2}}",
            "if only the reference reads it: role: reference",
        ),
        (
            factor,
            "factor: {role: reference, type: i8, shape: [1], codec: {symmetric: {per: tensor}}}",
            "`factor` is for the reference alone: `codec` is not allowed",
        ),
        (
            factor,
            "factor: {role: reference, type: f32, shape: [1], compare: {where: \"i < 1\"}}",
            "`factor` is not an output: `compare` is not allowed",
        ),
        (
            "    gates:",
            "    constants: {C: factor}\n    gates:",
            "a constant is filled from an input, and `factor` is none",
        ),
    ] {
        let kernel = BY_FACTOR.replace(old, new);
        assert_ne!(kernel, BY_FACTOR, "{old}");
        is_refused(project(&file(&kernel)).path(), &[says]);
    }
    let named = BY_FACTOR.replace(
        "{user: {source: r.c, function: scaled, args: [{tensor: x}, {tensor: factor}, {tensor: y}, {i64: N}]}}",
        "{unary: {x: x, out: factor, op: neg}}",
    );
    is_refused(
        project(&file(&named)).path(),
        &["`factor` is not an output"],
    );
}

// Memsets and copies.

const COUNT: &str = "    shapes: {small: {N: 1000}}
    tensors:
      x: {type: i32, shape: [N], fill: {integers: {low: 0, high: 9}}}
      counts: {role: scratch, type: i32, shape: [4]}
      y: {role: out, type: i32, shape: [4]}
    sequence:
      - memset: {tensor: counts, value: 0}
      - entry: count
        args: [{tensor: x}, {tensor: counts}, {i32: N}]
        launch: {grid: [4], block: [256]}
      - copy: {from: counts, to: y}
    reference: {user: {source: r.c, function: counted, args: [{tensor: x}, {tensor: y}, {i64: N}]}}
    gates: {max_err: 0}
";
const MEMSET: &str = "      - memset: {tensor: counts, value: 0}\n";
const COPY: &str = "      - copy: {from: counts, to: y}\n";

#[test]
fn a_memset_and_a_copy_are_steps_of_the_operation() {
    let project = project(&file(COUNT));
    let (dir, yaml) = (project.path(), project.path().join("gates.yaml"));
    simulate(dir, &[], 0);
    let said = stdout(&run(dir, &["validate", "--explain", "k"], 0));
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text}: {said}"));
    assert!(at("memset every byte of counts to 0") < at("call count"));
    assert!(at("call count") < at("copy counts to y"));
    commit(dir);
    // The same against the base, which does its own.
    fs::write(dir.join("notes"), "").unwrap();
    edit(
        &dir.join("k.cu"),
        "atomicAdd(&counts[x[i] & 3], 1)",
        "atomicAdd(counts + (x[i] & 3), 1)",
    );
    simulate(dir, &["--base", "HEAD"], 0);

    // Another value, none, and no copy: each is red for its own reason.
    edit(&yaml, "value: 0", "value: 1");
    simulate(dir, &[], 1);
    assert_eq!(gates_that_failed(dir), ["max_err <= 0"]);
    edit(&yaml, &MEMSET.replace("value: 0", "value: 1"), "");
    simulate(dir, &["--base", "HEAD"], 1);
    let gates = gates_that_failed(dir);
    assert!(gates.contains(&"memory and races".to_owned()), "{gates:?}");
    edit(
        &yaml,
        "    sequence:\n",
        &format!("    sequence:\n{MEMSET}"),
    );
    edit(&yaml, COPY, "");
    edit(
        &yaml,
        "args: [{tensor: x}, {tensor: counts}, {i32: N}]",
        "args: [{tensor: x}, {tensor: y}, {i32: N}]",
    );
    simulate(dir, &[], 1);
    let gates = gates_that_failed(dir);
    assert!(gates.contains(&"memory and races".to_owned()), "{gates:?}");
}

/// A step in the wrong place: the memset behind the kernel wipes what it counted.
#[test]
fn a_memset_behind_the_kernel_is_done_behind_it() {
    let kernel = COUNT
        .replace(MEMSET, "")
        .replace(COPY, &format!("{MEMSET}{COPY}"));
    let project = project(&file(&kernel));
    simulate(project.path(), &[], 1);
    let gates = gates_that_failed(project.path());
    assert!(gates.contains(&"max_err <= 0".to_owned()), "{gates:?}");
}

/// Memory that nothing wrote is copied into the output: the copy is no write of a value.
#[test]
fn a_copy_of_unwritten_memory_leaves_the_output_unwritten() {
    let kernel = COUNT
        .replace(
            "counts: {role: scratch",
            "never: {role: scratch, type: i32, shape: [4]}\n      counts: {role: scratch",
        )
        .replace("from: counts", "from: never");
    let project = project(&file(&kernel));
    simulate(project.path(), &[], 1);
    let gates = gates_that_failed(project.path());
    assert!(gates.contains(&"written".to_owned()), "{gates:?}");
}

/// A memset of the output before a kernel that forgets its end hides that nothing was written there, and not that the
/// value is wrong.
#[test]
fn a_memset_does_not_make_a_forgotten_element_right() {
    let kernel = SCALE
        .replace("    args: [{tensor: x}, {tensor: y}, {i32: N}]\n    launch: {grid: [1], block: [128]}\n", "")
        .replace(
            "    entry: scale\n",
            "    sequence:\n      - memset: {tensor: y, value: 0}\n      - entry: scale\n        \
             args: [{tensor: x}, {tensor: y}, {i32: N - 1}]\n        launch: {grid: [1], block: [128]}\n",
        );
    let project = project(&file(&kernel));
    simulate(project.path(), &[], 1);
    assert_eq!(gates_that_failed(project.path()), ["max_err <= 0"]);
}

/// A memset that writes the answer behind the kernel is a part of the operation and may be right: whoever reads what is
/// run sees it.
#[test]
fn a_memset_that_writes_the_answer_is_listed_with_the_calls() {
    let kernel = COUNT
        .replace(
            "args: [{tensor: x}, {tensor: y}, {i64: N}]}}",
            "args: [{tensor: x}, {tensor: y}, {i64: 0}]}}",
        )
        .replace(COPY, "      - memset: {tensor: y, value: 0}\n");
    let project = project(&file(&kernel));
    let dir = project.path();
    simulate(dir, &[], 0);
    let said = stdout(&run(dir, &["validate", "--explain", "k"], 0));
    assert!(said.contains("memset every byte of y to 0"), "{said}");
}

/// Each would write where no step may, or says nothing that can be done.
#[test]
fn steps_that_no_stream_could_do_are_refused() {
    for (old, new, says) in [
        (
            "memset: {tensor: counts",
            "memset: {tensor: x",
            "`x` is an input: no step may write to it",
        ),
        (
            "copy: {from: counts, to: y}",
            "copy: {from: counts, to: x}",
            "`x` is an input: no step may write to it",
        ),
        (
            "copy: {from: counts, to: y}",
            "copy: {from: y, to: y}",
            "`y` is copied onto itself",
        ),
        (
            "copy: {from: counts, to: y}",
            "copy: {from: x, to: y}",
            "`y` has 4 of i32, and `x` has 1000 of i32",
        ),
        (
            "y: {role: out, type: i32",
            "y: {role: out, type: f32",
            "`y` has 4 of f32, and `counts` has 4 of i32",
        ),
        (
            "copy: {from: counts, to: y}",
            "copy: {from: count, to: y}",
            "unknown tensor `count`",
        ),
        ("value: 0", "value: 256", "255 sets every bit"),
        ("value: 0", "value: -1", "255 sets every bit"),
        ("value: 0", "value: 0.5", "gates.yaml:"),
        (
            "y: {role: out, type: i32, shape: [4]}",
            "y: {role: out, type: i32, shape: [4], strides: [2]}",
            "has gaps between its strides",
        ),
        (
            "      - entry: count\n",
            "      - entry: count\n        memset: {tensor: y, value: 0}\n",
            "a step is a kernel, a `memset` or a `copy`",
        ),
        (
            "      - entry: count\n",
            "      - {}\n      - entry: count\n",
            "a step without a key does nothing",
        ),
        (
            "      - entry: count\n        args",
            "      - args",
            "the key `entry` is missing",
        ),
        (
            "        launch: {grid: [4], block: [256]}\n",
            "",
            "the key `launch` is missing",
        ),
        (
            "      - entry: count\n        args: [{tensor: x}, {tensor: counts}, {i32: N}]\n        launch: {grid: [4], block: [256]}\n",
            "",
            "no step is a kernel",
        ),
    ] {
        let kernel = COUNT.replace(old, new);
        assert_ne!(kernel, COUNT, "{old}");
        is_refused(project(&file(&kernel)).path(), &[says]);
    }
}

// Large files.

/// Written values may be many; a short text that aliases make large may not.
#[test]
fn a_file_may_have_as_many_values_as_its_text() {
    let values = vec!["1"; 60_000].join(",");
    let tensor = format!("x: {{type: f32, shape: [N], fill: {{values: [{values}]}}}}");
    let kernel = SCALE
        .replace("x: {type: f32, shape: [N]}", &tensor)
        .replace("N: 100", "N: 60000");
    run(project(&file(&kernel)).path(), &["validate"], 0);
    // No file has over a million values for a kernel under test.
    let values = vec!["1"; 1_100_000].join(",");
    let tensor = format!("x: {{type: f32, shape: [N], fill: {{values: [{values}]}}}}");
    let kernel = SCALE.replace("x: {type: f32, shape: [N]}", &tensor);
    is_refused(
        project(&file(&kernel)).path(),
        &["more values than a file of this length may have"],
    );
}

/// Aliases of aliases: the text is short, and what it stands for is not; with a long comment, it may be no larger.
#[test]
fn aliases_do_not_make_a_short_text_a_large_file() {
    let bomb = |levels: usize| {
        let mut text = "version: 1\na0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..levels {
            let aliases = vec![format!("*a{}", level - 1); 8].join(", ");
            text += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        text
    };
    for text in [
        bomb(6),
        bomb(7),
        bomb(12),
        format!("{}# {}\n", bomb(9), "x".repeat(4 << 20)),
    ] {
        let began = std::time::Instant::now();
        let project = project(&text);
        run(project.path(), &["validate"], 2);
        assert!(began.elapsed().as_secs() < 60);
    }
}

// Sources above gates.yaml.

/// A repository with gates.yaml in `gpu/`, and what it needs beside it.
fn repository() -> tempfile::TempDir {
    let kernel = BY_FACTOR
        .replace("source: r.c", "source: ../reference/r.c")
        .replace(
            "    entry: scale\n",
            "    entry: scale\n    include_dirs: [../include]\n",
        );
    let gates = file(&kernel).replace("source: k.cu", "source: ../kernels/k.cu");
    let top = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("gpu/gates.yaml", gates.as_str()),
        ("kernels/k.cu", &format!("#include \"factor.h\"\n{SOURCE}")),
        ("include/factor.h", "#define FACTOR 2\n"),
        ("reference/r.c", REFERENCE),
        (".gitignore", "gatekeeper-out/\n"),
    ] {
        let path = top.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    commit(top.path());
    top
}

#[test]
fn sources_headers_and_references_may_lie_above_gates_yaml() {
    let top = repository();
    let dir = top.path().join("gpu");
    simulate(&dir, &[], 0);
    // The base has its own of each: a header and a reference of head that agree with one another are no match for it.
    edit(&top.path().join("include/factor.h"), "FACTOR 2", "FACTOR 3");
    edit(
        &top.path().join("reference/r.c"),
        "factor[0] * x[i]",
        "1.5f * factor[0] * x[i]",
    );
    simulate(&dir, &[], 0);
    let said = simulate(&dir, &["--base", "HEAD"], 1);
    assert!(said.contains("reference"), "{said}");
    // A kernel that is wrong alone.
    git(top.path(), &["checkout", "-q", "reference"]);
    simulate(&dir, &["--base", "HEAD"], 1);
    let gates = gates_that_failed(&dir);
    assert!(gates.contains(&"max_err <= 0".to_owned()), "{gates:?}");
}

/// Reports name a file from the repository's top, however gates.yaml names it.
#[test]
fn a_finding_above_gates_yaml_is_shown_at_its_place_in_the_repository() {
    let top = repository();
    let yaml = top.path().join("gpu/gates.yaml");
    let kernel = "    entry: race_in_shared
    include_dirs: [../include]
    args: [{i32: 7}]
    launch: {grid: [2], block: [64]}
    gates: {registers: 40}
";
    fs::write(
        &yaml,
        file(kernel).replace("source: k.cu", "source: ../kernels/k.cu"),
    )
    .unwrap();
    let args = [
        "run",
        "--provision",
        "--device",
        "sim",
        "--config",
        "gpu/gates.yaml",
    ];
    run(top.path(), &args, 1);
    let said = stdout(&run(top.path(), &["judge", RECORD, "--format", "sarif"], 1));
    let places: serde_json::Value = serde_json::from_str(&said).unwrap();
    let results = places["runs"][0]["results"].as_array().unwrap();
    let files: Vec<_> = results
        .iter()
        .map(|it| &it["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
        .collect();
    assert!(files.contains(&&"kernels/k.cu".into()), "{files:?}");
}

/// A file outside the repository is no file of the base either.
#[test]
fn links_out_of_the_repository_are_refused() {
    let top = repository();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("k.cu"), SOURCE).unwrap();
    std::os::unix::fs::symlink(outside.path(), top.path().join("linked")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("k.cu"), top.path().join("kernels/l.cu"))
        .unwrap();
    let dir = top.path().join("gpu");
    let sibling = format!(
        "../../{}/k.cu",
        outside.path().file_name().unwrap().display()
    );
    let (yaml, written) = (dir.join("gates.yaml"), "source: ../kernels/k.cu");
    let text = fs::read_to_string(&yaml).unwrap();
    for (source, says) in [
        ("../linked/k.cu", "leads out of the repository"),
        ("../kernels/l.cu", "leads out of the repository"),
        (sibling.as_str(), "leads out of the repository"),
        (
            "../kernels/../kernels/k.cu",
            "is not a path of this repository",
        ),
        ("../kernels//k.cu", "is not a path of this repository"),
        ("../kernels", "../kernels is a directory"),
        ("../kernels/none.cu", "does not exist"),
    ] {
        fs::write(&yaml, text.replace(written, &format!("source: {source}"))).unwrap();
        is_refused(&dir, &[says]);
    }
    fs::write(&yaml, text).unwrap();
    // Without a repository nobody knows where it ends.
    fs::remove_dir_all(top.path().join(".git")).unwrap();
    is_refused(
        &dir,
        &[
            "which is in no git repository",
            "put it below that directory",
        ],
    );
}

/// A link of the repository that names a file of the checkout by its whole path: the base's would be head's.
#[test]
fn a_link_of_the_base_into_the_head_is_refused() {
    let top = repository();
    let dir = top.path().join("gpu");
    let here = fs::canonicalize(top.path().join("kernels/k.cu")).unwrap();
    std::os::unix::fs::symlink(here, top.path().join("kernels/l.cu")).unwrap();
    edit(&dir.join("gates.yaml"), "kernels/k.cu", "kernels/l.cu");
    commit(top.path());
    edit(
        &top.path().join("include/factor.h"),
        "FACTOR 2",
        "FACTOR 2.0f",
    );
    let output = run(
        &dir,
        &["run", "--provision", "--device", "sim", "--base", "HEAD"],
        2,
    );
    assert!(
        stderr(&output).contains("leads out of the repository"),
        "{}",
        stderr(&output)
    );
}

// One compilation for many kernels.

/// Kernels of one source with other macros: what one was compiled to is never taken for the other, also by a later run.
#[test]
fn kernels_of_one_source_keep_their_own_macros() {
    let one = SCALE.replace(
        "    entry: scale\n",
        "    entry: scale\n    define: {FACTOR: 2}\n",
    );
    let other = BY_FACTOR
        .replace(
            "    entry: scale\n",
            "    entry: scale\n    define: {FACTOR: 5}\n",
        )
        .replace("{constant: 2}", "{constant: 5}");
    let flagged = SCALE.replace(
        "    entry: scale\n",
        "    entry: scale\n    define: {FACTOR: 4}\n    flags: [-use_fast_math]\n",
    );
    let mut gates = file(&one);
    for (name, kernel) in [("m", &other), ("n", &flagged)] {
        gates += &format!("  {name}:\n    source: k.cu\n    seeds: 1\n{kernel}");
    }
    let project = project(&gates);
    let dir = project.path();
    simulate(dir, &["k"], 0);
    simulate(dir, &["m"], 0);
    simulate(dir, &["n"], 1);
    simulate(dir, &[], 1);
    let failing: Vec<_> = gates_that_failed(dir);
    assert_eq!(failing, ["max_err <= 0"]);
}

/// A second document, a key that is given twice and an unknown key stay mistakes whatever the length of the file.
#[test]
fn a_long_file_is_read_as_strictly_as_a_short_one() {
    let long = "# x\n".repeat(100_000);
    for (text, says) in [
        (
            format!("{}---\nversion: 1\n", file(SCALE)),
            "a second YAML document starts here",
        ),
        (
            file(SCALE).replace("    seeds: 1\n", "    seeds: 1\n    seeds: 2\n"),
            "duplicate key `seeds`",
        ),
        (
            file(SCALE).replace("    seeds: 1\n", "    seed: 1\n"),
            "unknown key `seed`",
        ),
    ] {
        let project = project(&text.replacen("version: 1\n", &format!("version: 1\n{long}"), 1));
        is_refused(project.path(), &[says]);
    }
    let empty = project(&file(&SCALE.replace("gates: {max_err: 0}", "gates: {}")));
    refused(
        empty.path(),
        &["validate"],
        "error: gates.yaml:15:12: kernels.k.gates: k/default@small has no limit on its error\n  help: add max_err or rel_l2: without one the reference has no effect\n",
    );
}
