//! `programs:` of gates.yaml, on the driver without a GPU of `captures`: a program is built, run and captured by `run`, and
//! its launches are cases; against a base, both sides' are.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::binaries::nvcc;
use crate::captures::{make_driver, place_library};
use crate::common::{RECORD, edit, gatekeeper, git, run, stderr, stdout};
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
pub struct Project {
    dir: TempDir,
}

impl Project {
    pub fn new() -> Self {
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

    pub fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// The module of these kernels, which one compiler makes once.
    pub fn compile(&self, source: &str) {
        static MADE: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let module = made.entry(source.to_owned()).or_insert_with(|| {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("k.cu"), source).unwrap();
            let both = [
                "arch=compute_90,code=sm_90",
                "arch=compute_90,code=compute_90",
            ];
            let [machine, text] = both;
            let args = [
                "-fatbin",
                "-lineinfo",
                "-gencode",
                machine,
                "-gencode",
                text,
                "-o",
                "k.fatbin",
                "k.cu",
            ];
            nvcc(dir.path(), &args);
            fs::read(dir.path().join("k.fatbin")).unwrap()
        });
        fs::write(self.tree().join("kernels.fatbin"), module).unwrap();
    }

    pub fn commit(&self) {
        let tree = self.tree();
        if !tree.join(".git").exists() {
            git(&tree, &["init", "--quiet"]);
        }
        git(&tree, &["add", "."]);
        git(
            &tree,
            &[
                "commit",
                "--quiet",
                "--no-verify",
                "--allow-empty",
                "-m",
                "as it is",
            ],
        );
    }

    pub fn edit_gates(&self, old: &str, new: &str) {
        edit(&self.tree().join("gates.yaml"), old, new);
    }

    pub fn launch(&self, kernels: &str) {
        fs::write(self.tree().join("kernels.txt"), kernels).unwrap();
    }

    fn try_run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn command(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = gatekeeper();
        command
            .current_dir(self.tree())
            .args(["run", "--provision", "--device", "sim"])
            .args(args)
            .env("LD_LIBRARY_PATH", self.dir.path());
        command
    }

    /// With this directory in front of PATH.
    pub fn run_with_python(&self, bin: &Path, args: &[&str], code: i32) -> String {
        let rest = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths(
            [bin.to_owned()]
                .into_iter()
                .chain(std::env::split_paths(&rest)),
        )
        .unwrap();
        let output = self.command(args).env("PATH", path).output().unwrap();
        expect(&output, args, code)
    }

    /// All that it says.
    pub fn run(&self, args: &[&str], code: i32) -> String {
        expect(&self.try_run(args), args, code)
    }

    pub fn report(&self) -> String {
        fs::read_to_string(self.tree().join("gatekeeper-out/report.md")).unwrap()
    }
}

/// All that a run says, which ends with this code.
fn expect(output: &Output, args: &[&str], code: i32) -> String {
    let said = stdout(output) + &stderr(output);
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{said}");
    said
}

/// A change of the first kernel that takes registers, and computes the same.
const MORE_REGISTERS: &str = "float a[24];
#pragma unroll
    for (int k = 0; k < 24; k++) a[k] = i + k < in.n ? in.data[i + k] : 0;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 24; k++) sum = sum * a[23 - k] + a[k];
    if (i < in.n) out[i] = sum == 0.125f ? 2 : in.data[i] * factor;";

/// The kernels with another body of the first.
pub fn with_body(body: &str) -> String {
    KERNELS.replacen("if (i < in.n) out[i] = in.data[i] * factor;", body, 1)
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
    let said = project.run(&["decode/thrice"], 2);
    assert!(said.contains("variant: did you mean `twice`?"), "{said}");
    let said = project.run(&["encode"], 2);
    assert!(said.contains("kernel: did you mean `decode`?"), "{said}");
    let said = project.run(&["--shard", "1/2"], 2);
    assert!(said.contains("programs belong to no shard"), "{said}");

    project.edit_gates("registers: \"+0\"", "registers: 8");
    let said = project.run(&[], 1);
    assert!(said.contains("registers 10, limit <= 8"), "{said}");
    assert!(said.contains("by gates.yaml:5"), "{said}");
    // The hardware of the capture computed something else than the simulator.
    project.edit_gates("registers: 8", "registers: 10");
    project.edit_gates("[python3, bench.py]", "[env, WRONG=1, python3, bench.py]");
    let said = project.run(&[], 1);
    assert!(
        said.contains("decode/scale@launch1  max_err <= 0"),
        "{said}"
    );
}

#[test]
fn an_edit_is_held_to_its_base() {
    let project = Project::new();
    project.launch("scale twice");
    project.commit();
    let against_base = ["--base", "HEAD"];
    let said = project.run(&against_base, 0);
    assert!(said.contains("capturing head's program decode"), "{said}");
    assert!(
        said.contains("capturing the base's program decode"),
        "{said}"
    );

    // Two records of it are compared by what is in memory, wherever the captures were.
    fs::copy(
        project.tree().join("gatekeeper-out/record.json"),
        project.dir.path().join("old.json"),
    )
    .unwrap();
    project.run(&[], 0);
    run(&project.tree(), &["compare", "../old.json", RECORD], 0);

    // The launches of a program are known when it ran: it counts as changed.
    let said = project.run(&["--changed", "HEAD"], 0);
    assert!(said.contains("decode/scale@launch1"), "{said}");

    // The same in other words, and the same code.
    project.compile(&with_body("if (i < in.n) out[i] = factor * in.data[i];"));
    project.run(&against_base, 0);

    // Wrong in the tail. The driver here computes the same whatever the module says: only the replay can see it.
    project.compile(&with_body(
        "if (i < in.n) out[i] = i == 999 ? 1 : in.data[i] * factor;",
    ));
    let said = project.run(&against_base, 1);
    assert!(said.contains("at_200000001000[999] = 1065353216"), "{said}");
    assert!(!said.contains("decode/twice@launch1  "), "{said}");
    let command = "$ gatekeeper run --device sim --base 'HEAD' 'decode/scale@launch1'";
    assert!(said.contains(command), "{said}");
    let again = project.run(&["--base", "HEAD", "decode/scale@launch1"], 1);
    assert!(
        again.contains("at_200000001000[999] = 1065353216"),
        "{again}"
    );

    project.compile(&with_body(MORE_REGISTERS));
    let said = project.run(&against_base, 1);
    assert!(said.contains("decode/scale [sm_90]  registers"), "{said}");
    assert!(said.contains("34  240.0 % more  +0"), "{said}");
    // The occupancy that it costs is on the screen, too.
    assert!(said.contains("75 %  25.0 % lower  none"), "{said}");
    project.edit_gates("registers: \"+0\"", "registers: \"+40\"");
    let said = project.run(&against_base, 1);
    assert!(
        said.contains("registers +0: head has registers +40 (gates.yaml:5)"),
        "{said}"
    );
    project.commit();
    project.run(&against_base, 0);
}

#[test]
fn a_kernel_that_is_gone_fails_and_a_new_one_is_named() {
    let project = Project::new();
    project.launch("scale twice");
    project.commit();
    project.launch("twice");
    let said = project.run(&["--base", "HEAD"], 1);
    assert!(said.contains("[base-launches-other-kernels]"), "{said}");
    let says =
        "only the base launches scale, and the times of all kernels together are not compared";
    assert!(project.report().contains(says), "{said}");
    assert!(
        said.contains("removed: head has no decode/scale@launch1"),
        "{said}"
    );
    let said = project.run(&["--base", "HEAD", "--allow-loosened"], 0);
    assert!(said.contains("head has no decode/scale@launch1"), "{said}");
    project.commit();
    project.launch("scale twice");
    let said = project.run(&["--base", "HEAD"], 3);
    assert!(said.contains("1 case new"), "{said}");
    assert!(
        project.report().contains("only head launches scale"),
        "{said}"
    );
    project.run(&["--base", "HEAD", "--allow-loosened"], 0);
    project.run(&["--base", "HEAD", "decode/twice"], 0);
    // Without times there is nothing that would have to be added up.
    project.edit_gates("p50: \"+1% of base\", ", "");
    project.launch("twice");
    project.commit();
    project.launch("scale twice");
    let said = project.run(&["--base", "HEAD"], 0);
    assert!(said.contains("decode/scale@launch1"), "{said}");
}

#[test]
fn a_looser_gate_and_a_program_that_is_gone_fail() {
    let project = Project::new();
    project.commit();
    let is_loosened = |says: &str| {
        let said = project.run(&["--base", "HEAD"], 1);
        assert!(said.contains("LOOSENED") && said.contains(says), "{said}");
        project.run(&["--base", "HEAD", "--allow-loosened"], 0);
        git(&project.tree(), &["checkout", "--quiet", "gates.yaml"]);
    };
    project.edit_gates("+1% of base", "+3% of base");
    is_loosened("p50 +1% of base: head has p50 +3% of base (gates.yaml:5)");
    project.edit_gates("p50: \"+1% of base\", ", "");
    is_loosened("p50 +1% of base: removed");
    project.edit_gates("decode:", "encode:");
    is_loosened("removed: head has no decode/*@*");
    // As a whole file.
    fs::write(
        project.tree().join("more.yaml"),
        GATES.replace("decode", "prefill"),
    )
    .unwrap();
    project.commit();
    fs::remove_file(project.tree().join("more.yaml")).unwrap();
    let said = project.run(&["--base", "HEAD"], 1);
    assert!(said.contains("gates of more.yaml"), "{said}");
    // A filter leaves out what it does not name.
    project.edit_gates("decode:", "encode:");
    let said = project.run(&["--base", "HEAD", "encode"], 0);
    assert!(!said.contains("LOOSENED"), "{said}");
}

#[test]
fn a_program_that_fails_is_a_failure_of_head_and_none_of_the_base() {
    let project = Project::new();
    let command = "command: [python3, bench.py]";
    let built = "command: [python3, bench.py]\n    build: 'echo not here; exit 3'";
    project.commit();
    project.edit_gates(command, built);
    for args in [&[][..], &["--base", "HEAD"]] {
        let said = project.run(args, 1);
        assert!(said.contains("decode/*@*  program failed"), "{said}");
        assert!(
            said.contains("its build failed (exit code 3):\n    not here"),
            "{said}"
        );
        assert!(!said.contains("LOOSENED"), "{said}");
    }
    project.commit();
    git(
        &project.tree(),
        &["checkout", "--quiet", "HEAD~1", "gates.yaml"],
    );
    let said = project.run(&["--base", "HEAD"], 3);
    assert!(said.contains("its build failed (exit code 3)"), "{said}");
    assert!(said.contains("[base-unanswered]"), "{said}");
    project.commit();

    for (launched, command, says) in [
        ("", command, "the program launched no kernel"),
        ("scale", "command: 'true'", "used no CUDA function"),
        (
            "scale",
            "command: [no-such-program]",
            "there is no no-such-program",
        ),
        (
            "scale",
            "command: 'exit 7'",
            "its command failed (exit code 7)",
        ),
        (
            "scale",
            "deadline: 1s\n    command: [sleep, '60']",
            "did not end within 1 s",
        ),
        (
            "scale",
            "command: [env, STOLEN=1, python3, bench.py]",
            "scale: the addresses that captures use are taken",
        ),
    ] {
        project.launch(launched);
        project.edit_gates("command: [python3, bench.py]", command);
        let said = project.run(&[], 1);
        assert!(said.contains("decode/*@*  program failed"), "{said}");
        assert!(said.contains(says), "{said}");
        git(&project.tree(), &["checkout", "--quiet", "gates.yaml"]);
    }
}

#[test]
fn only_kernels_and_launches_that_are_named_are_captured() {
    let project = Project::new();
    project.launch("scale twice scale");
    let limits = |keys: &str| {
        let text = GATES.replace("    gates:", &format!("    {keys}\n    gates:"));
        fs::write(project.tree().join("gates.yaml"), text).unwrap();
    };
    limits("kernels: ['sc*']");
    let said = project.run(&[], 0);
    assert!(
        !said.contains("twice") && !said.contains("launch2"),
        "{said}"
    );
    project.commit();
    limits("kernels: ['sc*']\n    launches: 2");
    let said = project.run(&["--base", "HEAD"], 0);
    assert!(said.contains("decode/scale@launch2"), "{said}");
    limits("launches: 2");
    project.commit();
    limits("kernels: ['sc*']");
    let said = project.run(&["--base", "HEAD"], 1);
    assert!(said.contains("head has no decode/twice@launch1"), "{said}");
    limits("kernels: ['sc*', '*gemm*']");
    let said = project.run(&[], 2);
    assert!(
        said.contains("gates.yaml:4: `*gemm*` fits no kernel"),
        "{said}"
    );
    limits("regions: [decode]");
    let said = project.run(&[], 1);
    assert!(said.contains("is in one of these regions"), "{said}");
}

#[test]
fn a_kernel_that_the_simulator_cannot_run_is_named_and_not_judged() {
    let project = Project::new();
    fs::write(project.tree().join("k.cu"), KERNELS).unwrap();
    let args = ["-cubin", "-arch=sm_90", "-o", "kernels.fatbin", "k.cu"];
    nvcc(&project.tree(), &args);
    let said = project.run(&[], 3);
    assert!(said.contains("NOTHING JUDGED: 1 not judged"), "{said}");
    let says = "its module has no PTX, which the simulator runs";
    assert!(project.report().contains(says), "{said}");
    assert!(project.report().contains("decode/scale"), "{said}");
    // Beside one that it can run.
    edit(
        &project.tree().join("bench.py"),
        "for name in",
        "cuda.cuModuleGetFunction(ctypes.byref(function), module, b\"twice\")
cuda.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, None, parameters, None)
image = ctypes.create_string_buffer(open(\"both.fatbin\", \"rb\").read(), 1 << 20)
cuda.cuModuleLoadData(ctypes.byref(module), image)
for name in",
    );
    project.compile(KERNELS);
    let both = project.tree().join("kernels.fatbin");
    fs::rename(both, project.tree().join("both.fatbin")).unwrap();
    nvcc(&project.tree(), &args);
    let said = project.run(&[], 0);
    assert!(said.contains("decode/scale@launch1"), "{said}");
    assert!(project.report().contains(says), "{said}");
}

#[test]
fn both_sides_run_on_the_memory_of_the_base() {
    let project = Project::new();
    project.commit();
    // Other contents: head's kernel gets the base's.
    edit(
        &project.tree().join("bench.py"),
        "range(N)",
        "range(1, N + 1)",
    );
    let said = project.run(&["--base", "HEAD"], 0);
    assert!(said.contains("1 case not timed"), "{said}");
    // Another allocation: there is nothing that both could run on.
    edit(
        &project.tree().join("bench.py"),
        "values = ",
        "assert not cuda.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(8 * N))\nvalues = ",
    );
    let said = project.run(&["--base", "HEAD"], 3);
    assert!(said.contains("[base-has-other-inputs]"), "{said}");
    assert!(said.contains("decode/scale@launch1"), "{said}");
    assert!(!said.contains("case new"), "{said}");
    project.run(&["--base", "HEAD", "--allow-loosened"], 0);
}

#[test]
fn each_side_has_its_own_tree_caches_and_python() {
    let project = Project::new();
    let build = r#"    build: |
      set -e
      test ! -e "$GATEKEEPER_PROGRAM_DIR/made" && echo > "$GATEKEEPER_PROGRAM_DIR/made"
      test ! -e "$TRITON_CACHE_DIR/made" && echo > "$TRITON_CACHE_DIR/made"
      case "$(command -v pip)" in "$GATEKEEPER_PROGRAM_DIR"/*) ;; *) exit 5 ;; esac
      python3 -c 'import sys; assert sys.prefix != sys.base_prefix'
      test ! -e built && echo > built
    gates:"#;
    project.edit_gates("    gates:", build);
    project.commit();
    let said = project.run(&["--base", "HEAD"], 0);
    assert!(
        said.contains("building the base's program decode"),
        "{said}"
    );
    // In copies of the trees.
    assert!(!project.tree().join("built").exists());
    project.run(&["--base", "HEAD"], 0);
}

/// ninja starts each command in a process group of its own, others start sessions, and a linker sets modes.
#[test]
fn a_build_has_process_groups_sessions_and_modes_and_leaves_no_process() {
    let project = Project::new();
    let build = r#"    build: |
      set -e
      python3 - <<'END'
      import os, subprocess, time
      words = ["sh", "-c", "echo 'int main(void) { return 0; }' > m.c && cc m.c -o m && ./m"]
      spawned = os.posix_spawn("/bin/sh", words, os.environ, setpgroup=0)
      assert os.waitpid(spawned, 0)[1] == 0
      subprocess.run(["./m"], start_new_session=True, check=True)
      os.utime("m", (1, 1)), os.chmod("m", 0o711)
      END
      printf 'all: a b c\na b c:\n\tcp -p m $@ && ./$@\n' > Makefile
      make -s -j3
      setsid sh -c 'sleep 4711; sleep 4711' > /dev/null 2>&1 &
    gates:"#;
    project.edit_gates("    gates:", build);
    project.run(&[], 0);
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let left = processes
        .filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok())
        .find(|line| line.contains("sleep") && line.contains("4711"));
    assert_eq!(left, None);
}

#[test]
fn a_program_is_confined_and_that_of_the_base_does_not_read_head() {
    if !system::process::confine::is_confining() {
        return;
    }
    let project = Project::new();
    let beside = project.dir.path().join("beside");
    let writes = format!("    build: 'echo > {}'\n    gates:", beside.display());
    project.edit_gates("    gates:", &writes);
    let said = project.run(&[], 1);
    assert!(said.contains("its build failed"), "{said}");
    assert!(!beside.exists());
    project.run(&["--trust-programs"], 0);
    assert!(beside.exists());

    fs::write(project.tree().join("gates.yaml"), GATES).unwrap();
    let of_head = project.tree().join("kernels.fatbin").display().to_string();
    let bench = project.tree().join("bench.py");
    edit(&bench, "\"kernels.fatbin\"", &format!("{of_head:?}"));
    project.commit();
    project.run(&[], 0);
    let said = project.run(&["--base", "HEAD"], 3);
    assert!(said.contains("PermissionError"), "{said}");
}

/// The record of a run on a machine without a GPU: what a GPU would be asked. The program alone has the driver.
fn planned(project: &Project, args: &[&str], code: i32) -> (serde_json::Value, String) {
    let output = gatekeeper()
        .current_dir(project.tree())
        .args(["run", "--provision", "--base", "HEAD"])
        .args(args)
        .output()
        .unwrap();
    let said = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let record = fs::read_to_string(project.tree().join(RECORD)).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&record).unwrap();
    (record["record"].take(), said)
}

/// The steps of a side's group, by the names of their kernels.
fn steps_of_group(plan: &serde_json::Value) -> Vec<String> {
    let units = plan["units"].as_array().unwrap();
    let together = units
        .iter()
        .find_map(|unit| unit["call"].get("together"))
        .unwrap();
    let modules = together["modules"].as_array().unwrap();
    let steps = together["steps"].as_array().unwrap();
    let name = |at: &serde_json::Value| modules[at.as_u64().unwrap() as usize]["name"].clone();
    steps
        .iter()
        .map(name)
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn kernels_that_only_one_side_launches_are_one_case_for_a_gpu() {
    let project = Project::new();
    let driver = project.dir.path().display().to_string();
    let with_driver = format!("[env, \"LD_LIBRARY_PATH={driver}\", python3, bench.py]");
    project.edit_gates("[python3, bench.py]", &with_driver);
    project.edit_gates("    gates:", "    launches: 4\n    gates:");
    project.compile(
        &(KERNELS.to_owned()
            + &KERNELS
                .replace("scale", "fused")
                .replace("View {", "Viewed {")
                .replace("View in", "Viewed in")
                .replace("twice", "both")),
    );
    project.launch("fused both");
    project.commit();
    project.launch("scale twice scale both");
    let (record, said) = planned(&project, &[], 3);
    assert_eq!(steps_of_group(&record["plan"]), ["scale", "twice", "scale"]);
    assert_eq!(steps_of_group(&record["policy"]["base"]["plan"]), ["fused"]);
    let report = project.report();
    assert!(
        report.contains("only head launches scale, twice, and only the base launches fused"),
        "{said}{report}"
    );
    assert!(report.contains("decode/whole.program@together"), "{report}");
    assert!(
        !said.contains("removed: head has no decode/fused"),
        "{said}"
    );

    // A filter can name it, and leave it out.
    let (record, said) = planned(&project, &["decode/whole.program@together"], 3);
    assert_eq!(record["plan"]["units"].as_array().unwrap().len(), 1);
    assert!(said.contains("[base-launches-other-kernels]"), "{said}");
    let (_, said) = planned(&project, &["decode/both"], 0);
    assert!(!said.contains("base-launches-other-kernels"), "{said}");
    planned(&project, &["--allow-loosened"], 0);

    // A sum over one launch of each says nothing of a program that launches one of them twice.
    project.edit_gates("    launches: 4\n", "    launches: 1\n");
    let (record, said) = planned(&project, &[], 1);
    let units = record["plan"]["units"].to_string();
    assert!(!units.contains("together"), "{units}");
    let report = project.report();
    assert!(
        report.contains("scale 1 of 2") && report.contains("`launches: 2`"),
        "{said}{report}"
    );
    assert!(said.contains("removed: head has no decode/fused"), "{said}");
}
