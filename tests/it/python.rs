//! Tests references that are Python functions over NumPy arrays, and kernels that `gatekeeper.export` wrote.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{copy_of, edit, gatekeeper, git, report, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Returns the directory of programs of a Python with NumPy, in the first version that each Python from 3.10 on can
/// have.
pub fn python() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("numpy");
        let bin = dir.join("bin");
        if !dir.join("whole").exists() {
            let venv = Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(&dir)
                .output();
            let venv = venv.unwrap();
            assert!(venv.status.success(), "{}", stderr(&venv));
            let pip = Command::new(bin.join("python3"))
                .args(["-m", "pip", "install", "--quiet", "numpy"])
                .output()
                .unwrap();
            assert!(pip.status.success(), "{}", stderr(&pip));
            std::fs::write(dir.join("whole"), "").unwrap();
        }
        bin
    })
}

fn simulate(dir: &Path, bin: &Path, code: i32) -> Output {
    simulate_with(dir, bin, &[], code)
}

fn simulate_with(dir: &Path, bin: &Path, arguments: &[&str], code: i32) -> Output {
    let output = run(dir, bin, arguments);
    let said = format!("{}\n{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(code), "{said}");
    output
}

/// Runs gatekeeper with this directory at the front of PATH.
fn run(dir: &Path, bin: &Path, arguments: &[&str]) -> Output {
    let rest = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(
        [bin.to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&rest)),
    );
    let mut run = gatekeeper();
    run.current_dir(dir)
        .args(["run", "--provision", "--device", "sim"])
        .args(arguments)
        .env("PATH", path.unwrap());
    run.output().unwrap()
}

const KERNEL: &str = r#"extern "C" __global__ void scale(const float* x, const int* add, float* y, int* sums, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { y[i] = x[i] * by; sums[i] = add[i] + 3; }
}
"#;

const GATES: &str = r#"version: 1
architectures: [sm_90]
kernels:
  scale:
    source: scale.cu
    entry: scale
    shapes: {small: {R: 4, C: 25}}
    seeds: 2
    tensors:
      x: {type: f32, shape: [R, C]}
      add: {type: i32, shape: [R, C], fill: {integers: {low: -9, high: 9}}}
      y: {role: out, type: f32, shape: [R, C]}
      sums: {role: out, type: i32, shape: [R, C]}
    args: [{tensor: x}, {tensor: add}, {tensor: y}, {tensor: sums}, {i32: R * C}, {f32: 0.5}]
    launch: {grid: [1], block: [128]}
    reference:
      user: {source: expected.py, function: expected, args: [{tensor: x}, {tensor: add}, {f32: 0.5}, {tensor: y}, {tensor: sums}]}
    deadline: 30s
    gates: {max_err: 0}
"#;

const EXPECTED: &str = "import numpy as np


def expected(x, add, by):
    # The file says what it gets.
    assert x.shape == add.shape == (4, 25) and x.dtype == np.float32 and add.dtype == np.int32
    assert type(by) is float
    return x.astype(np.float64) * by, add + 3
";

fn project(expected: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("scale.cu", KERNEL),
        ("gates.yaml", GATES),
        ("expected.py", expected),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

#[test]
fn a_python_function_says_what_is_right() {
    let dir = project(EXPECTED);
    let said = stdout(&simulate(dir.path(), python(), 0));
    assert!(said.contains("PASS"), "{said}");
    edit(&dir.path().join("expected.py"), "add + 3", "add + 4");
    let said = stdout(&simulate(dir.path(), python(), 1));
    assert!(said.contains("max_err"), "{said}");
    edit(&dir.path().join("expected.py"), "add + 4", "add + 3");
    edit(
        &dir.path().join("scale.cu"),
        "x[i] * by",
        "x[i] * by + (i == 99)",
    );
    simulate(dir.path(), python(), 1);
}

#[test]
fn a_reference_that_gives_no_answer_is_no_pass_and_says_why() {
    let body = "return x.astype(np.float64) * by, add + 3";
    for (wrong, said) in [
        ("raise ValueError('not today')", "ValueError: not today"),
        (
            "return x * by",
            "it returns 1 values for 2 outputs, `y`, `sums`",
        ),
        ("pass", "it returns nothing, where `y`, `sums` should be"),
        (
            "return (x * by)[:2], add",
            "it returns shape [2, 25] for `y`, which has [4, 25]",
        ),
        (
            "return x * by, x",
            "it returns float32 for `sums`, which holds integers",
        ),
        (
            "return add, add",
            "it returns int32 for `y`, which holds floats",
        ),
        (
            "return x * by, add.astype(np.int64) << 40",
            "for `sums`, which holds int32",
        ),
        (
            "import numpy.testing, venv, pip; return x * by, add + 3",
            "it imports pip as it is called",
        ),
        ("import os; os._exit(0)", "left no answer"),
        (
            "import time; time.sleep(60)",
            "did not finish within 2000 ms",
        ),
    ] {
        let dir = project(&EXPECTED.replace(body, wrong));
        if wrong.contains("sleep") {
            edit(&dir.path().join("gates.yaml"), "30s", "2s");
        }
        let output = gatekeeper_says(dir.path(), python());
        assert!(output.contains(said), "{wrong}\n{output}");
    }
    for (text, said) in [
        (
            "import torch_that_is_not_there\n",
            "a reference is one file",
        ),
        ("def other():\n    pass\n", "it has no function `expected`"),
        ("def expected(:\n", "SyntaxError"),
        ("raise SystemExit(0)\n", "left no list of imports"),
    ] {
        let dir = project(text);
        let output = gatekeeper_says(dir.path(), python());
        assert!(output.contains(said), "{text}\n{output}");
    }
    // The line is of the user's file, and not of ours.
    let dir = project(&EXPECTED.replace(body, "return x @ add, add"));
    let output = gatekeeper_says(dir.path(), python());
    assert!(
        output.contains("expected.py\", line 8, in expected"),
        "{output}"
    );
    assert!(!output.contains("run_own"), "{output}");
}

/// Libraries start threads and processes, too.
#[test]
fn a_python_function_may_start_threads_and_processes() {
    let body = "return x.astype(np.float64) * by, add + 3";
    let more = "import ctypes, concurrent.futures, os, pathlib, shutil, subprocess, tempfile
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(int, add.flat)) == add.sum()
    subprocess.run(['true'], check=True, start_new_session=True)
    spawned = os.posix_spawn('/bin/true', ['true'], os.environ, setpgroup=0)
    assert os.waitpid(spawned, 0)[1] == 0
    with tempfile.TemporaryDirectory() as work:
        source = pathlib.Path(work, 'f.c')
        source.write_text('double three(void) { return 3; }')
        library = source.with_suffix('.so')
        subprocess.run(['cc', '-shared', '-fPIC', source, '-o', library], check=True)
        three = ctypes.CDLL(library).three
        three.restype = ctypes.c_double
        shutil.copyfile(source, source.with_name('copy')), shutil.move(source, source.with_name('moved'))
        source.with_name('touched').touch()
        np.save(source.with_name('array.npy'), x)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    return x.astype(np.float64) * by, add + int(three())";
    let dir = project(&EXPECTED.replace(body, more));
    simulate(dir.path(), python(), 0);
}

/// Returns everything that a run without a pass prints.
fn gatekeeper_says(dir: &Path, bin: &Path) -> String {
    let output = run(dir, bin, &[]);
    assert!(!output.status.success(), "{}", stdout(&output));
    report(dir).replace("\\\"", "\"").replace("\\n", "\n")
}

#[test]
fn a_python_without_numpy_is_the_machines_fault() {
    let dir = project(EXPECTED);
    let bare = tempfile::tempdir().unwrap();
    let made = Command::new("python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(bare.path())
        .output();
    assert!(made.unwrap().status.success());
    let output = simulate(dir.path(), &bare.path().join("bin"), 4);
    let said = format!("{}{}", stdout(&output), report(dir.path()));
    assert!(said.contains("has no NumPy"), "{said}");
}

#[test]
fn a_strangers_python_writes_to_its_own_directory_and_has_no_network() {
    if !system::process::confine::is_confining() {
        return;
    }
    let kept = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&kept, "as it was").unwrap();
    let attempts = format!(
        "    import os, socket\n    refused = 0\n    for attempt in (lambda: open({:?}, 'w'), socket.socket, lambda: open('/tmp/planted', 'w')):\n        \
         try:\n            attempt()\n        except OSError:\n            refused += 1\n    \
         assert refused == 3 and 'CARGO_MANIFEST_DIR' not in os.environ\n    open('own', 'w').close()\n    return x.astype",
        kept.path()
    );
    let dir = project(&EXPECTED.replace("    return x.astype", &attempts));
    simulate(dir.path(), python(), 0);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "as it was");
}

#[test]
fn flags_are_for_compilers() {
    let dir = project(EXPECTED);
    edit(
        &dir.path().join("gates.yaml"),
        "function: expected,",
        "function: expected, flags: [-O3],",
    );
    let mut validate = gatekeeper();
    let output = validate.current_dir(&dir).arg("validate").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("a reference in Python is not compiled"),
        "{}",
        stderr(&output)
    );
}

/// Copies the example into a repository, because the path of its reference has `..` and therefore needs one.
fn example() -> tempfile::TempDir {
    let project = copy_of("examples/triton");
    git(project.path(), &["init", "--quiet"]);
    project
}

/// The kernels of examples/triton are run as they were exported. `packaging/check-python` compares them with what
/// Triton writes.
#[test]
fn exported_kernels_are_right_and_a_lost_mask_is_found_in_its_python_line() {
    let project = example();
    let run = |code| {
        let output = simulate_with(
            project.path(),
            python(),
            &["--config", "gates/gates.yaml"],
            code,
        );
        stdout(&output)
    };
    let said = run(0);
    for case in [
        "silu_mul/default@whole",
        "silu_mul/default@tail",
        "softmax/default@rows",
    ] {
        let line = said.lines().rfind(|line| line.starts_with(case)).unwrap();
        assert!(line.ends_with("pass"), "{said}");
    }

    let ptx = project.path().join("gates/silu_mul.ptx");
    let (load, line) = last_guarded_load(&std::fs::read_to_string(&ptx).unwrap());
    let python = std::fs::read_to_string(project.path().join("kernels.py")).unwrap();
    let source = python.lines().nth(line - 1).unwrap();
    assert!(source.contains("tl.load(up + at, mask=inside)"), "{source}");
    let bare = load.split_once(' ').unwrap().1;
    edit(&ptx, &load, bare);
    let said = run(1);
    assert!(
        said.contains("silu_mul/default@tail  kernel faulted"),
        "{said}"
    );
    assert!(said.contains("(16382 bytes at"), "{said}");
    assert!(
        said.contains(&format!("../kernels.py:{line}, block [15, 0, 0]")),
        "{said}"
    );
    assert!(
        said.contains(&format!("{line} │ {}", source.trim())),
        "{said}"
    );
}

/// Returns `@%p4 ld.global...` and the line of its statement, for the last such load that is not in inline assembly.
fn last_guarded_load(ptx: &str) -> (String, usize) {
    let is_load = |line: &&str| line.trim().starts_with("@%p") && line.contains(" ld.global");
    let load = ptx.lines().rfind(is_load).unwrap().trim().to_owned();
    let before = ptx.split(&load).next().unwrap();
    let block = before.rfind("// begin inline asm").unwrap();
    let (_, first) = before[block..].split_once(".loc\t1 ").unwrap();
    let line = first.split(' ').next().unwrap();
    (load, line.parse().unwrap())
}

#[test]
fn an_exported_kernel_with_a_wrong_argument_fails() {
    let project = example();
    let gates = project.path().join("gates/gates.yaml");
    edit(
        &gates,
        "{tensor: out}, {i32: N}, nullptr",
        "{tensor: out}, {i32: N - 1}, nullptr",
    );
    simulate_with(
        project.path(),
        python(),
        &["--config", "gates/gates.yaml"],
        1,
    );
    edit(
        &gates,
        "{i32: N - 1}, nullptr, nullptr",
        "{i32: N}, nullptr",
    );
    let output = simulate_with(
        project.path(),
        python(),
        &["--config", "gates/gates.yaml"],
        1,
    );
    let said = stdout(&output);
    assert!(said.contains("argument"), "{said}");
}

const EVERY_ARGUMENT: &str = r#"version: 1
architectures: [sm_90]
kernels:
  k:
    source: k.cu
    entry: k
    shapes: {small: {R: 4, C: 8}}
    tensors:
      s: {type: i8, shape: [R, C], codec: {symmetric: {per: {axes: [0]}}}}
      io: {role: inout, type: f32, shape: [R, C]}
      total: {role: out, type: f64, shape: []}
    args: [{tensor: s}, {scales: s}, {tensor: io}, {tensor: total}]
    launch: {grid: [1], block: [32]}
    reference:
      user:
        source: expected.py
        function: expected
        args: [{tensor: s}, {bytes: s}, nullptr, {i32: 7}, {bool: 1}, {tensor: io}, {tensor: total}]
    gates: {max_err: 1e-6}
"#;

#[test]
fn every_kind_of_argument_comes_as_the_page_says() {
    let dir = tempfile::tempdir().unwrap();
    let kernel = "extern \"C\" __global__ void k(const signed char* s, const float* scales, float* io, double* total) {
        int i = threadIdx.x;
        io[i] += s[i] * scales[i / 8];
        if (i == 0) *total = 2.5;
    }";
    let expected = "import numpy as np

def expected(s, raw, nothing, seven, yes, io):
    assert s.dtype == io.dtype == np.float32 and s.shape == io.shape == (4, 8)
    assert raw.dtype == np.uint8 and raw.shape == (32,)
    codes = raw.view(np.int8).reshape(4, 8)
    # It is called with what the kernel sees, and with the floats before they were rounded.
    step = (np.abs(s).max(axis=1) / 127)[:, None]
    assert (np.abs(codes * step - s) <= 0.51 * step).all()
    assert nothing is None and seven == 7 and type(seven) is int and yes is True
    return io + s, 2.5
";
    for (name, text) in [
        ("k.cu", kernel),
        ("expected.py", expected),
        ("gates.yaml", EVERY_ARGUMENT),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    simulate(dir.path(), python(), 0);
    edit(
        &dir.path().join("expected.py"),
        "return io + s, 2.5",
        "return io + s, 2.25",
    );
    simulate(dir.path(), python(), 1);
}

#[test]
fn a_reference_that_a_change_edits_is_compared_with_the_bases() {
    let dir = project(EXPECTED);
    std::fs::write(dir.path().join(".gitignore"), "gatekeeper-out\n").unwrap();
    git(dir.path(), &["init", "--quiet"]);
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "--quiet", "-m", "base"]);
    let base = ["--base", "HEAD"];
    simulate_with(dir.path(), python(), &base, 0);
    // Both functions say that another result is correct.
    edit(&dir.path().join("expected.py"), "add + 3", "add + 4");
    edit(&dir.path().join("scale.cu"), "add[i] + 3", "add[i] + 4");
    simulate(dir.path(), python(), 0);
    let said = stdout(&simulate_with(dir.path(), python(), &base, 1));
    assert!(
        said.contains("on the same inputs it computes something else"),
        "{said}"
    );
}
