//! `programs:` of gates.yaml, on the driver without a GPU of `captures`: a program is built, run and captured by `run`, and
//! its launches are cases; against a base, both sides' are.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::binaries::nvcc;
use crate::captures::{make_driver, place_library};
use crate::common::{edit, failed, gatekeeper, git, stderr, stdout};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Kernels of one signature, which compute what the driver's loop computes.
const KERNELS: &str = r#"
struct View { const float *data; long n; };
extern "C" __global__ void scale(View in, float factor, float *out) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < in.n) out[i] = in.data[i] * factor;
}
extern "C" __global__ void twice(View in, float factor, float *out) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < in.n) out[i] = in.data[i] * factor;
}
"#;

/// Launches the kernels that `kernels.txt` names, in the order of the file.
const BENCH: &str = r#"
import ctypes, struct
cuda = ctypes.CDLL("libcuda.so.1")
image = ctypes.create_string_buffer(open("kernels.fatbin", "rb").read(), 1 << 20)
module, function, data, out = (ctypes.c_void_p() for _ in range(4))
assert not cuda.cuModuleLoadData(ctypes.byref(module), image)
N = 1000
for pointer in data, out:
    assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4 * N))
host = (ctypes.c_float * N)(*range(N))
assert not cuda.cuMemcpyHtoD_v2(data, host, ctypes.c_size_t(4 * N))
values = [ctypes.create_string_buffer(struct.pack("<Qq", data.value, N)), ctypes.c_float(3), out]
parameters = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
for name in open("kernels.txt").read().split():
    assert not cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
    assert not cuda.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, None, parameters, None)
"#;

const GATES: &str = r#"version: 1
programs:
  decode:
    command: [python3, bench.py]
    gates: {p50: "+1% of base", registers: "+0", spills: 0, output: same}
"#;

/// A repository with a program, and the driver beside it.
struct Project {
    dir: TempDir,
}

impl Project {
    fn new() -> Self {
        place_library();
        let dir = tempfile::tempdir().unwrap();
        make_driver(dir.path());
        let project = Self { dir };
        let tree = project.tree();
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("gates.yaml"), GATES).unwrap();
        fs::write(tree.join("bench.py"), BENCH).unwrap();
        fs::write(tree.join("kernels.txt"), "scale\n").unwrap();
        fs::write(tree.join(".gitignore"), "gatekeeper-out\n").unwrap();
        project.compile(KERNELS);
        project
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// The module of these kernels, which one compiler makes once.
    fn compile(&self, source: &str) {
        static MADE: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let module = made.entry(source.to_owned()).or_insert_with(|| {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("k.cu"), source).unwrap();
            let both = ["arch=compute_90,code=sm_90", "arch=compute_90,code=compute_90"];
            let [machine, text] = both;
            let args = [
                "-fatbin", "-lineinfo", "-gencode", machine, "-gencode", text, "-o", "k.fatbin", "k.cu",
            ];
            nvcc(dir.path(), &args);
            fs::read(dir.path().join("k.fatbin")).unwrap()
        });
        fs::write(self.tree().join("kernels.fatbin"), module).unwrap();
    }

    fn commit(&self) {
        let tree = self.tree();
        if !tree.join(".git").exists() {
            git(&tree, &["init", "--quiet"]);
        }
        git(&tree, &["add", "."]);
        git(&tree, &["commit", "--quiet", "--no-verify", "--allow-empty", "-m", "as it is"]);
    }

    fn edit_gates(&self, old: &str, new: &str) {
        edit(&self.tree().join("gates.yaml"), old, new);
    }

    fn launch(&self, kernels: &str) {
        fs::write(self.tree().join("kernels.txt"), kernels).unwrap();
    }

    fn try_run(&self, args: &[&str]) -> Output {
        gatekeeper()
            .current_dir(self.tree())
            .args(["run", "--provision", "--device", "sim"])
            .args(args)
            .env("LD_LIBRARY_PATH", self.dir.path())
            .output()
            .unwrap()
    }

    /// All that it says.
    fn run(&self, args: &[&str], code: i32) -> String {
        let output = self.try_run(args);
        let said = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}\n{said}");
        said
    }

    fn report(&self) -> String {
        fs::read_to_string(self.tree().join("gatekeeper-out/report.md")).unwrap()
    }
}

#[test]
fn launches_of_a_program_are_cases_of_a_run() {
    let project = Project::new();
    project.launch("scale twice");
    let said = project.run(&[], 0);
    assert!(said.contains("decode/scale@launch1"), "{said}");
    assert!(said.contains("decode/twice@launch1"), "{said}");
    assert!(project.report().contains("decode/twice"), "{said}");
    let said = project.run(&["decode/twice"], 0);
    assert!(!said.contains("decode/scale"), "{said}");
}
