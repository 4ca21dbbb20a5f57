//! `gatekeeper binary NEW --base OLD --explain`: each cause that needs no run is named, at its source line where there are line
//! tables and without one where there are none; what did not change is not explained.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::binaries::nvcc;
use crate::common::{gatekeeper, run, stderr, stdout};
use serde_json::Value;
use std::path::Path;

/// At head a loop is unrolled less (`dot`), memory is accessed in narrower pieces (`scale`), and registers are spilled
/// (`busy`). `LINE` marks where.
const SOURCE: &str = r#"
#ifdef HEAD
constexpr int TURNS = 1;
#define BOUNDS __launch_bounds__(256, 8)
#else
constexpr int TURNS = 8;
#define BOUNDS __launch_bounds__(256)
#endif
extern "C" __global__ void dot(const float *x, const float *z, float *y, int n) {
    float sum = 0;
#pragma unroll TURNS
    for (int i = threadIdx.x; i < n; i += 256) // LINE dot
        sum += x[i] * z[i];
    y[threadIdx.x] = sum;
}
extern "C" __global__ void scale(const float *x, float *y) {
    int i = threadIdx.x + blockIdx.x * 256;
#ifdef HEAD
    for (int k = 0; k < 4; k++) y[4 * i + k] = x[4 * i + k] * 2; // LINE scale
#else
    float4 v = ((const float4 *)x)[i];
    ((float4 *)y)[i] = make_float4(v.x * 2, v.y * 2, v.z * 2, v.w * 2);
#endif
}
extern "C" __global__ void BOUNDS busy(const float *x, float *y) {
    float a[64];
#pragma unroll
    for (int i = 0; i < 64; i++) a[i] = x[threadIdx.x + 256 * i];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 64; i++) sum = sum * a[63 - i] + a[i]; // LINE busy
    y[threadIdx.x] = sum;
}
extern "C" __global__ void same(float *y) { y[threadIdx.x] *= 2; }
"#;

fn line_of(kernel: &str) -> usize {
    let mark = format!("// LINE {kernel}");
    SOURCE
        .lines()
        .position(|line| line.ends_with(&mark))
        .unwrap()
        + 1
}

/// Each in a tree of its own: `old/k.cubin` and `new/k.cubin`.
fn built(flags: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (tree, own) in [("old", &[][..]), ("new", &["-DHEAD"][..])] {
        let tree = dir.path().join(tree);
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join("k.cu"), SOURCE).unwrap();
        let always = ["-cubin", "-arch=sm_90", "k.cu", "-o", "k.cubin"];
        nvcc(&tree, &[&always, own, flags].concat());
    }
    dir
}

/// The limit that nothing breaks: then all that differs is explained, and not the failure of `busy` alone.
const WIDE: [&str; 2] = ["--limit", "registers=+900%"];

fn explain(dir: &Path, options: &[&str], code: i32) -> String {
    let always = [
        "binary",
        "new/k.cubin",
        "--base",
        "old/k.cubin",
        "--explain",
    ];
    stdout(&run(dir, &[&always, options].concat(), code))
}

fn explanations(dir: &Path, options: &[&str], code: i32) -> Value {
    let said = explain(dir, &[&["--format", "json"], options].concat(), code);
    let report: Value = serde_json::from_str(&said).unwrap();
    report["explanations"].clone()
}

struct Cause {
    class: String,
    lines: Vec<String>,
}

/// Those of a kernel, in their order.
fn causes(explanations: &Value, kernel: &str) -> Vec<Cause> {
    let kernels = explanations["explained"]["kernels"].as_array().unwrap();
    let explained = kernels
        .iter()
        .find(|explained| explained["unit"]["kernel"] == kernel)
        .unwrap();
    assert_eq!(explained["gaps"], serde_json::json!([]), "{explained}");
    explained["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| Cause {
            class: cause["class"].as_str().unwrap().to_owned(),
            lines: (cause["places"].as_array().unwrap().iter())
                .map(|place| {
                    let file = Path::new(place["line"]["file"].as_str().unwrap());
                    let name = file.file_name().unwrap().to_str().unwrap();
                    format!("{name}:{}", place["line"]["number"])
                })
                .collect(),
        })
        .collect()
}

const FIRST_CAUSES: [(&str, &str); 3] = [
    ("dot", "unroll-lost"),
    ("scale", "vector-access-narrowed"),
    ("busy", "spills"),
];

#[test]
fn each_cause_is_named_at_its_line_also_where_trees_differ() {
    let dir = built(&["-lineinfo"]);
    let explained = explanations(dir.path(), &WIDE, 0);
    for (kernel, class) in FIRST_CAUSES {
        let causes = causes(&explained, kernel);
        assert_eq!(causes[0].class, class, "{explained:#}");
        let line = format!("k.cu:{}", line_of(kernel));
        assert!(
            causes[0].lines.contains(&line),
            "{class} {:?}",
            causes[0].lines
        );
    }
    // The other way round nothing of this is so.
    let back = [
        "binary",
        "old/k.cubin",
        "--base",
        "new/k.cubin",
        "--explain",
    ];
    let back = stdout(&run(dir.path(), &[&back[..], &WIDE].concat(), 0));
    assert!(back.contains("dot/- [sm_90]"), "{back}");
    for (_, class) in FIRST_CAUSES {
        assert!(!back.contains(&format!("[{class}]")), "{back}");
    }
}

#[test]
fn each_cause_is_named_without_line_tables() {
    let dir = built(&[]);
    let explained = explanations(dir.path(), &WIDE, 0);
    for (kernel, class) in FIRST_CAUSES {
        let causes = causes(&explained, kernel);
        assert_eq!(causes[0].class, class, "{explained:#}");
        assert!(
            causes.iter().all(|cause| cause.lines.is_empty()),
            "{explained:#}"
        );
    }
    let back = [
        "binary",
        "old/k.cubin",
        "--base",
        "new/k.cubin",
        "--explain",
    ];
    let back = stdout(&run(dir.path(), &[&back[..], &WIDE].concat(), 0));
    assert!(back.contains("dot/- [sm_90]"), "{back}");
    for (_, class) in FIRST_CAUSES {
        assert!(!back.contains(&format!("[{class}]")), "{back}");
    }
}

#[test]
fn what_failed_is_explained_and_the_exit_code_stays() {
    let dir = built(&["-lineinfo"]);
    let explained = explanations(dir.path(), &[], 1);
    let kernels = explained["explained"]["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), 1, "{explained:#}");
    assert_eq!(kernels[0]["unit"]["kernel"], "busy");
    assert_eq!(explained["explained"]["more"], 0);
    let at = format!("new/k.cu:{}", line_of("busy"));
    for format in ["terminal", "markdown"] {
        let said = explain(dir.path(), &["--format", format], 1);
        let said = said.replace('\\', "");
        let first = said
            .lines()
            .find(|line| line.contains("registers are spilled at"));
        assert!(first.unwrap().contains(&at), "{format}: {said}");
        assert!(!said.contains("loop is unrolled less"), "{format}: {said}");
        assert!(!said.contains("slowdown"), "{format}: {said}");
    }
}

#[test]
fn the_same_file_explains_nothing() {
    let dir = built(&["-lineinfo"]);
    for file in ["old/k.cubin", "new/k.cubin"] {
        let said = stdout(&run(
            dir.path(),
            &["binary", file, "--base", file, "--explain"],
            0,
        ));
        assert!(said.contains("no kernel changed"), "{said}");
        assert!(!said.contains("why they changed"), "{said}");
        assert!(!said.contains("worse"), "{said}");
        let json = [
            "binary",
            file,
            "--base",
            file,
            "--explain",
            "--format",
            "json",
        ];
        let report: Value = serde_json::from_str(&stdout(&run(dir.path(), &json, 0))).unwrap();
        let none = serde_json::json!({ "explained": { "kernels": [], "more": 0 } });
        assert_eq!(report["explanations"], none);
    }
}

/// A packed fat binary of two architectures, in a static library of a directory.
#[test]
fn machine_code_is_found_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    for (tree, own) in [("old", &[][..]), ("new", &["-DHEAD"][..])] {
        let tree = dir.path().join(tree);
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join("k.cu"), SOURCE).unwrap();
        let always = [
            "-c",
            "-Xfatbin=-compress-all",
            "-gencode=arch=compute_80,code=sm_80",
            "-gencode=arch=compute_90,code=sm_90",
            "k.cu",
            "-o",
            "k.o",
        ];
        nvcc(&tree, &[&always, own].concat());
        let mut ar = std::process::Command::new("ar");
        ar.current_dir(&tree).args(["rcs", "libk.a", "k.o"]);
        assert!(ar.status().unwrap().success());
        std::fs::remove_file(tree.join("k.o")).unwrap();
    }
    let compare = ["binary", "new", "--base", "old", "--explain"];
    let said = stdout(&run(dir.path(), &[&compare[..], &WIDE].concat(), 0));
    assert!(!said.contains("not compared"), "{said}");
    for (kernel, class) in FIRST_CAUSES {
        // Each kernel is there once, and the newest architecture first.
        let head = format!("{kernel}/libk.a(k.o) [sm_90] (and for sm_80)");
        let mut lines = said.lines().skip_while(|line| **line != head);
        assert_eq!(lines.next(), Some(head.as_str()), "{said}");
        assert!(lines.next().unwrap().contains(class), "{said}");
    }
}

#[test]
fn without_nvdisasm_the_report_says_how_to_get_it_and_is_the_same_otherwise() {
    if Path::new("/usr/local/cuda/bin/nvdisasm").exists() {
        return;
    }
    let dir = built(&[]);
    let empty = tempfile::tempdir().unwrap();
    let compare = |options: &[&str]| {
        let mut run = gatekeeper();
        run.current_dir(dir.path())
            .args(["binary", "new/k.cubin", "--base", "old/k.cubin"])
            .args(options)
            .env("GATEKEEPER_CACHE", empty.path())
            .env("PATH", "")
            .env_remove("GATEKEEPER_SHARED_CACHE")
            .env_remove("CUDA_HOME")
            .env_remove("CUDA_PATH");
        let output = run.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        stdout(&output)
    };
    let said = compare(&["--explain"]);
    let reason = "not explained: nvdisasm, which disassembles machine code, was not found (`gatekeeper toolchain install` installs it)\n\n";
    assert!(said.contains(reason), "{said}");
    let without_time = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| !line.starts_with("gatekeeper "))
            .map(str::to_owned)
            .collect()
    };
    let plain = compare(&[]);
    assert_eq!(
        without_time(&said.replace(reason, "")),
        without_time(&plain)
    );
    let report: Value = serde_json::from_str(&compare(&["--explain", "--format", "json"])).unwrap();
    let not_run = &report["explanations"]["not_run"];
    assert_eq!(not_run["code"], "no-disassembler");
    let message = not_run["message"].as_str().unwrap();
    assert!(
        message.contains("gatekeeper toolchain install"),
        "{message}"
    );
}

#[test]
fn kernels_that_got_worse_are_listed_the_costliest_first() {
    let dir = built(&[]);
    let compare = ["binary", "new/k.cubin", "--base", "old/k.cubin"];
    // No limit fails, and they are listed nevertheless.
    let said = stdout(&run(dir.path(), &[&compare[..], &WIDE].concat(), 0));
    let worse: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("worse"))
        .collect();
    assert!(
        worse[0].contains("busy/- [sm_90]: local memory instructions 0 -> "),
        "{said}"
    );
    assert!(worse[1].contains("scale/- [sm_90]: "), "{said}");
    assert!(!said.contains("why they changed"), "{said}");
    // Failures have the same order: registers of `busy` went down, those of others up.
    let tight = ["--limit", "registers=+0%", "--limit", "stack=+0%"];
    let said = stdout(&run(dir.path(), &[&compare[..], &tight].concat(), 1));
    let failed: Vec<&str> = said.lines().filter(|line| line.starts_with('✗')).collect();
    assert!(failed[0].contains("busy/-"), "{said}");
    assert!(failed[1].contains("scale/-"), "{said}");
}

#[test]
fn lists_say_how_many_more_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let kernels: String = (0..12)
        .map(|at| {
            format!("extern \"C\" __global__ void k{at}(float *p) {{ p[{at}] = STEP(p[{at}]); }}\n")
        })
        .collect();
    std::fs::write(dir.path().join("k.cu"), kernels).unwrap();
    let always = ["-cubin", "-arch=sm_90", "k.cu", "-o"];
    nvcc(
        dir.path(),
        &[&always[..], &["old.cubin", "-DSTEP(x)=(x * 2)"]].concat(),
    );
    let slower = ["new.cubin", "-DSTEP(x)=(sqrtf(x) / (x + 3))"];
    nvcc(dir.path(), &[&always[..], &slower].concat());
    let compare = ["binary", "new.cubin", "--base", "old.cubin", "--explain"];
    let said = stdout(&run(dir.path(), &[&compare[..], &WIDE].concat(), 0));
    let worse: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("worse"))
        .collect();
    assert_eq!(worse.len(), 11, "{said}");
    assert_eq!(worse[10], "worse    and 2 more kernels", "{said}");
    assert_eq!(
        said.lines()
            .filter(|line| line.starts_with("  1. [slow-division]"))
            .count(),
        10,
        "{said}"
    );
    assert!(
        said.contains("\n2 more kernels explained in --format json\n"),
        "{said}"
    );
    let json = [&compare[..], &WIDE, &["--format", "json"]].concat();
    let report: Value = serde_json::from_str(&stdout(&run(dir.path(), &json, 0))).unwrap();
    let all = &report["explanations"]["explained"]["kernels"];
    assert_eq!(all.as_array().unwrap().len(), 12);
}

#[test]
fn mistakes_on_the_command_line_say_what_to_write() {
    let dir = built(&[]);
    let said = stderr(&run(dir.path(), &["binary", "new/k.cubin", "--explain"], 2));
    assert!(
        said.contains("gatekeeper binary NEW --base OLD --explain"),
        "{said}"
    );
    for format in ["sarif", "junit", "github", "html"] {
        let compare = [
            "binary",
            "new/k.cubin",
            "--base",
            "old/k.cubin",
            "--explain",
        ];
        let said = stderr(&run(
            dir.path(),
            &[&compare[..], &["--format", format]].concat(),
            2,
        ));
        assert!(
            said.contains("--format terminal, markdown or json"),
            "{said}"
        );
    }
}
