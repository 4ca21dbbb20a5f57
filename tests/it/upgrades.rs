//! `gatekeeper binary NEW --base OLD`: red for a kernel that got worse, green for one that did not, and no verdict where
//! nothing is compared.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::binaries::nvcc;
use crate::common::{copy_of_first, run, stderr, stdout};
use std::path::Path;
use std::sync::OnceLock;

/// The head holds fewer blocks on an SM, has a new kernel and lacks one.
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
    assert!(said.contains("new      1 kernel: fresh"), "{said}");
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
    for file in ["old.cubin", "new.cubin"] {
        let said = compare(dir.path(), file, file, &[], 0);
        assert!(said.contains("matched  3 kernels: 3 by name"), "{said}");
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
        let files = [head, base].map(|it| format!("{it}.cubin"));
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
        let has_new_kernel = markdown.contains("1 kernel: fresh");
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
