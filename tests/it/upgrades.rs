//! `gatekeeper binary NEW --base OLD`: red for a kernel that got worse, green for one that did not, and no verdict where
//! nothing is compared.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::binaries::nvcc;
use crate::common::{copy_of_first, run, stderr, stdout};
use std::path::Path;
use std::sync::OnceLock;

/// The head holds fewer blocks on an SM, has two new kernels and lacks one.
const SOURCE: &str = r#"
#ifdef HEAD
#define BOUNDS __launch_bounds__(256)
#define OTHER fresh
#define STEP(x, n) sqrtf(x) / (x + n)
#else
#define BOUNDS __launch_bounds__(256, 8)
#define OTHER gone
#define STEP(x, n) (float)((int)x ^ (n << 3))
#endif
extern "C" __global__ void BOUNDS busy(const float *x, float *y) {
    float a[64];
#pragma unroll
    for (int i = 0; i < 64; i++) a[i] = x[threadIdx.x + 256 * i];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 64; i++) sum = sum * a[63 - i] + a[i];
    y[threadIdx.x] = sum;
}
extern "C" __global__ void same(float *y) { y[threadIdx.x] *= 2; }
extern "C" __global__ void OTHER(float *y, int n) {
    for (int i = 0; i < n; i++) y[i] = STEP(y[i], n);
}
#ifdef HEAD
extern "C" __global__ void more(float *y) { y[threadIdx.x] += 3; }
#endif
"#;

fn built() -> tempfile::TempDir {
    static FIRST: OnceLock<tempfile::TempDir> = OnceLock::new();
    copy_of_first(&FIRST, || {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("k.cu"), SOURCE).unwrap();
        let build = |to: &str, flags: &[&str]| {
            let always = ["-cubin", "-arch=sm_90", "k.cu", "-o", to];
            nvcc(dir.path(), &[&always, flags].concat());
        };
        build("old.cubin", &[]);
        build("new.cubin", &["-DHEAD"]);
        dir
    })
}

/// Answers with all that is printed, on standard output and error.
fn compare(dir: &Path, head: &str, base: &str, options: &[&str], code: i32) -> String {
    let output = run(
        dir,
        &[&["binary", head, "--base", base], options].concat(),
        code,
    );
    stdout(&output) + &stderr(&output)
}

#[test]
fn fewer_resident_blocks_fail_and_more_pass() {
    let dir = built();
    let said = compare(dir.path(), "new.cubin", "old.cubin", &[], 1);
    assert!(said.contains("matched  2 kernels: 2 by name"), "{said}");
    assert!(said.contains("new      2 kernels: fresh, more"), "{said}");
    assert!(said.contains("removed  1 kernel: gone"), "{said}");
    assert!(said.contains("✗ busy/- [sm_90]"), "{said}");
    assert!(said.contains("occupancy 100 % -> 37.5 %"), "{said}");
    // There is nothing to build and run again.
    assert!(!said.contains("gatekeeper run"), "{said}");
    assert!(!said.contains("✗ same"), "{said}");
    // The other way round the stack gets worse, as registers are spilled to it, and occupancy gets better.
    let said = compare(dir.path(), "old.cubin", "new.cubin", &[], 1);
    assert!(said.contains("stack"), "{said}");
    let occupancy = ["--limit", "occupancy=-0%"];
    compare(dir.path(), "old.cubin", "new.cubin", &occupancy, 0);
}

#[test]
fn the_same_file_is_no_change() {
    let dir = built();
    for (file, matched) in [("old.cubin", "3 kernels: 3"), ("new.cubin", "4 kernels: 4")] {
        let said = compare(dir.path(), file, file, &[], 0);
        assert!(
            said.contains(&format!("matched  {matched} by name")),
            "{said}"
        );
        assert!(!said.contains("removed"), "{said}");
    }
}

#[test]
fn a_limit_of_the_command_replaces_the_usual_ones() {
    let dir = built();
    let registers = ["--limit", "registers=+0%"];
    let said = compare(dir.path(), "new.cubin", "old.cubin", &registers, 1);
    assert!(
        said.contains("registers 32 -> 71, +121.9 %, limit +0 %"),
        "{said}"
    );
    let wide = ["--limit", "registers=+900%"];
    compare(dir.path(), "new.cubin", "old.cubin", &wide, 0);
}

/// As the action needs it: the comment is made of the record alone.
#[test]
fn a_record_of_a_comparison_says_alone_what_the_comparison_said() {
    let dir = built();
    let path = dir.path();
    for (head, base, code) in [("new", "old", 1), ("old", "old", 0)] {
        let files = [head, base].map(|name| format!("{name}.cubin"));
        let out = ["--out", "out"];
        let said = compare(path, &files[0], &files[1], &out, code);
        let again = stdout(&run(path, &["judge", "out/record.json"], code));
        assert!(said.ends_with(&again), "{said}\n---\n{again}");
        let json = run(
            path,
            &["judge", "out/record.json", "--format", "json"],
            code,
        );
        let report = std::fs::read_to_string(path.join("out/report.json")).unwrap();
        assert_eq!(stdout(&json), report);
        let markdown = std::fs::read_to_string(path.join("out/report.md")).unwrap();
        let has_new_kernel = markdown.contains("2 kernels: fresh, more");
        assert_eq!(has_new_kernel, head == "new", "{markdown}");
    }
    run(path, &["binary", "new.cubin", "--out", "out"], 2);
}

#[test]
fn files_without_a_common_kernel_are_not_judged() {
    let dir = built();
    let source =
        "extern \"C\" __global__ void other(int *p) { atomicAdd(p, __ballot_sync(~0u, *p)); }";
    std::fs::write(dir.path().join("other.cu"), source).unwrap();
    let to = ["-cubin", "-arch=sm_90", "other.cu", "-o", "other.cubin"];
    nvcc(dir.path(), &to);
    let said = compare(dir.path(), "other.cubin", "old.cubin", &[], 3);
    assert!(said.contains("matched  0 kernels"), "{said}");
}

fn cubin(dir: &Path, name: &str, source: &str) {
    std::fs::write(dir.join("k.cu"), source).unwrap();
    let to = format!("{name}.cubin");
    nvcc(dir, &["-cubin", "-arch=sm_90", "k.cu", "-o", &to]);
}

/// Its template has another parameter, and its body changed.
#[test]
fn the_only_kernel_that_is_left_on_each_side_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let source = |kernels: &str| {
        format!(
            "template <int N> __global__ void __launch_bounds__(1024, 2) scale(float *y) {{ float a[N];\n\
             for (int i = 0; i < N; i++) a[i] = y[threadIdx.x + i * 1024];\n__syncthreads();\n\
             for (int i = 0; i < N; i++) y[threadIdx.x + i] = a[i] * a[N - 1 - i]; }}\n\
             extern \"C\" __global__ void same(float *y) {{ y[threadIdx.x] *= 2; }}\n{kernels}"
        )
    };
    let instance = |n: u32| format!("template __global__ void scale<{n}>(float *);\n");
    cubin(path, "old", &source(&instance(4)));
    cubin(path, "new", &source(&instance(64)));
    let renamed = "renamed  scale<4>(float*) -> scale<64>(float*)";
    let said = compare(path, "new.cubin", "old.cubin", &[], 1);
    assert!(said.contains("1 as the only\n"), "{said}");
    assert!(said.contains(renamed), "{said}");
    assert!(said.contains("stack 0 B ->"), "{said}");
    let said = compare(path, "old.cubin", "new.cubin", &[], 0);
    assert!(said.contains("1 as the only\n"), "{said}");
    // Which of two it became is not known.
    cubin(path, "two", &source(&(instance(64) + &instance(8))));
    let said = compare(path, "two.cubin", "old.cubin", &[], 0);
    assert!(!said.contains("renamed"), "{said}");
    assert!(said.contains("removed  1 kernel: scale<4>"), "{said}");
}

/// Without bounds no block is known, and so no occupancy. The same code with as many registers is no worse.
#[test]
fn launch_bounds_that_are_removed_from_equal_code_are_quiet() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let kernel = |bounds: &str, factor: u32| {
        format!(
            "extern \"C\" __global__ void {bounds} k(float *y) {{ y[threadIdx.x] *= {factor}; }}"
        )
    };
    cubin(path, "old", &kernel("__launch_bounds__(256)", 2));
    cubin(path, "new", &kernel("", 2));
    cubin(path, "changed", &kernel("", 3));
    let said = compare(path, "new.cubin", "old.cubin", &[], 0);
    assert!(said.contains("1 with the same"), "{said}");
    assert!(
        !said.contains("not judged") && !said.contains("launch-unknown"),
        "{said}"
    );
    let said = compare(path, "changed.cubin", "old.cubin", &[], 3);
    assert!(said.contains("[launch-unknown]"), "{said}");
}

#[test]
fn ptx_without_a_compiler_says_what_to_add() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::write(
        path.join("k.cu"),
        "extern \"C\" __global__ void k(float *y) { *y *= 2; }",
    )
    .unwrap();
    nvcc(path, &["-ptx", "-arch=sm_90", "k.cu", "-o", "k.ptx"]);
    let without_compiler = |args: &[&str], code: i32| {
        let mut gatekeeper = crate::common::gatekeeper();
        gatekeeper
            .env("GATEKEEPER_CACHE", path.join("cache"))
            .env("PATH", "")
            .env_remove("GATEKEEPER_SHARED_CACHE")
            .env_remove("CUDA_HOME")
            .env_remove("CUDA_PATH");
        let output = gatekeeper.current_dir(path).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = stdout(&output) + &stderr(&output);
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let add = "1 kernel without machine code: add `--toolchain 13.0` to assemble the PTX. If no such compiler is found, add \
        `--provision`, too, or install CUDA 11.8 to 13.x, put nvcc on PATH and name its version";
    let said = without_compiler(&["binary", "k.ptx"], 0);
    assert!(said.contains(add), "{said}");
    let compared = ["binary", "k.ptx", "--base", "k.ptx"];
    let said = without_compiler(&compared, 3);
    assert!(said.contains(add), "{said}");
    // The command that it names works.
    let said = compare(
        path,
        "k.ptx",
        "k.ptx",
        &["--toolchain", "13.0", "--provision"],
        0,
    );
    assert!(!said.contains("--provision"), "{said}");
    // Machine code next to it is what is judged.
    let both = "arch=compute_90,code=[sm_90,compute_90]";
    nvcc(
        path,
        &["-fatbin", "-gencode", both, "k.cu", "-o", "k.fatbin"],
    );
    let said = compare(path, "k.fatbin", "k.fatbin", &[], 0);
    assert!(!said.contains("--provision"), "{said}");
}

#[test]
fn mistakes_on_the_command_line_say_what_to_write() {
    let dir = built();
    let path = dir.path();
    let spills = ["--limit", "spills=+0%"];
    let said = compare(path, "new.cubin", "old.cubin", &spills, 2);
    assert!(said.contains("`spills` is none of registers"), "{said}");
    let better = ["--limit", "occupancy=+5%"];
    let said = compare(path, "new.cubin", "old.cubin", &better, 2);
    assert!(said.contains("for example occupancy=-5%"), "{said}");
    run(path, &["binary", "new.cubin", "--limit", "stack=+0%"], 2);
    run(path, &["binary", "new.cubin", "--format", "sarif"], 2);
    compare(path, "new.cubin", "missing.cubin", &[], 4);
}

/// Only the new file promises a largest block, and so has an occupancy. Nothing here is a baseline that could be updated.
#[test]
fn a_value_that_only_the_new_file_states_is_said_to_be_new() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let kernel = |bounds: &str| {
        format!("extern \"C\" __global__ void {bounds} k(float *y) {{ y[threadIdx.x] *= 2; }}")
    };
    for (name, bounds) in [("old", ""), ("new", "__launch_bounds__(256)")] {
        std::fs::write(path.join("k.cu"), kernel(bounds)).unwrap();
        let to = format!("{name}.cubin");
        nvcc(path, &["-cubin", "-arch=sm_90", "k.cu", "-o", &to]);
    }
    let said = compare(path, "new.cubin", "old.cubin", &["-v"], 0);
    let whole = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let note = "the older file does not state every value that is limited of 1 unit (k/- [sm_90])";
    assert!(whole.contains(note), "{said}");
    assert!(!said.contains("update"), "{said}");
    let said = compare(path, "new.cubin", "old.cubin", &["--format", "json"], 0);
    let reason = "new: the older file does not state its occupancy";
    assert!(said.contains(reason), "{said}");
    assert!(!said.contains("update"), "{said}");
    let limits = ["--limit", "code=+0%", "--limit", "local_accesses=+0%"];
    compare(path, "new.cubin", "old.cubin", &limits, 0);
}

#[test]
fn every_format_has_the_verdicts() {
    let dir = built();
    for format in ["markdown", "json", "html", "junit", "github", "sarif"] {
        let options = ["--format", format];
        let said = compare(dir.path(), "new.cubin", "old.cubin", &options, 1);
        assert!(said.contains("busy"), "{format}: {said}");
        // These files have no baselines that could be updated.
        assert!(!said.contains("baseline update"), "{format}: {said}");
    }
}
