//! Tests `doctor` on machines that lack something, each next to a machine that does not. Only the last test needs a
//! GPU.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; what is found is worth reading"
)]

use crate::common;

use assert_cmd::Command;
use build::toolchain::testing::toolchain;
use common::{fresh_cache, gatekeeper, has_gpu, project, root, stderr, stdout};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn write_program(path: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns a call of `doctor` in a project that is as it should be.
fn doctor(dir: &Path) -> Command {
    let mut command = gatekeeper();
    command.current_dir(dir).arg("doctor");
    for name in ["CUDA_HOME", "CUDA_PATH", "NVCC_CCBIN"] {
        command.env_remove(name);
    }
    command.timeout(Duration::from_secs(300));
    command
}

/// Returns the checklist, after it has checked the exit code and the end of the text.
fn checklist(mut command: Command, code: i32) -> Value {
    let output = command.args(["--format", "json"]).output().unwrap();
    let said = stdout(&output);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{said}{}",
        stderr(&output)
    );
    let list: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(list["schema"], "gatekeeper.doctor/1");
    assert_eq!(list["exit_code"], code);
    list
}

fn item<'a>(list: &'a Value, name: &str) -> &'a Value {
    let items = list["items"].as_array().unwrap();
    items.iter().find(|item| item["name"] == name).unwrap()
}

/// Returns the names of the items that would make a run fail, with the codes of their problems.
fn broken(list: &Value) -> Vec<(String, Vec<String>)> {
    let items = list["items"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    items
        .filter(|item| item["state"] == "broken")
        .map(|item| {
            (
                text(&item["name"]),
                item["problems"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|problem| text(&problem["code"]))
                    .collect(),
            )
        })
        .collect()
}

fn only(name: &str, code: &str) -> Vec<(String, Vec<String>)> {
    vec![(name.to_owned(), vec![code.to_owned()])]
}

#[test]
fn a_machine_on_which_a_run_works_ends_in_0() {
    let (project, cache) = (project(), fresh_cache("doctor"));
    let new = || {
        let mut command = doctor(project.path());
        command.env("GATEKEEPER_CACHE", cache.path());
        command
    };
    let list = checklist(new(), 0);
    assert_eq!(broken(&list), []);
    assert_eq!(item(&list, "gates")["facts"]["cases"], 2);
    let compiler = &item(&list, "compiler")["facts"];
    let parts = compiler["parts"].as_array().unwrap();
    let version = |part: &Value| part["version"].as_str().unwrap_or_default().to_owned();
    for name in [
        "cicc",
        "ptxas",
        "cudafe++",
        "fatbinary",
        "nvlink",
        "headers",
    ] {
        let part = parts.iter().find(|part| part["name"] == name).unwrap();
        assert!(version(part).starts_with("13.0"), "{name}: {part}");
    }
    assert!(item(&list, "output")["facts"]["free_bytes"].as_u64() > Some(0));
    // Nothing of the empty kernel is left, and there is not even a directory for reports.
    let left = fs::read_dir(cache.path().join("scratch")).unwrap().count();
    assert_eq!(left, 0);
    assert!(!project.path().join("gatekeeper-out").exists());
    let text = stdout(&new().output().unwrap());
    assert!(text.ends_with(": nothing here stops a run\n"), "{text}");

    if has_gpu() {
        return;
    }
    let mut command = new();
    command.arg("--require-gpu");
    assert_eq!(broken(&checklist(command, 4)), only("driver", "no-gpu"));
    let mut command = new();
    command.args(["--out", "gates.yaml/below"]);
    let list = checklist(command, 4);
    assert_eq!(broken(&list), only("output", "output-unwritable"));
}

#[test]
fn a_missing_compiler_exits_4_and_names_the_remedy() {
    // CUDA in the usual place cannot be hidden from the program.
    if Path::new("/usr/local/cuda/bin/nvcc").exists() {
        return;
    }
    let (project, machine) = (project(), tempfile::tempdir().unwrap());
    write_program(&machine.path().join("bin/g++"), "echo g++ 12");
    let mut command = doctor(project.path());
    command
        .env("PATH", machine.path().join("bin"))
        .env("GATEKEEPER_CACHE", machine.path().join("cache"));
    let list = checklist(command, 4);
    assert_eq!(broken(&list), only("compiler", "compiler-unusable"));
    let help = item(&list, "compiler")["problems"][0]["help"].to_string();
    assert!(help.contains("run with --provision"), "{help}");
    assert_eq!(item(&list, "git")["problems"][0]["code"], "no-git");
}

/// One part of the pinned compiler claims to be of another release.
#[test]
fn parts_of_two_releases_are_named() {
    let project = project();
    let real = toolchain();
    let machine = tempfile::tempdir().unwrap();
    let home = machine.path().join("cuda");
    let toolkit = real.nvcc.parent().unwrap().parent().unwrap();
    fs::create_dir_all(home.join("bin")).unwrap();
    for entry in fs::read_dir(toolkit.join("bin")).unwrap() {
        let entry = entry.unwrap();
        let link = home.join("bin").join(entry.file_name());
        if entry.file_name() != "nvcc" && entry.file_name() != "ptxas" {
            std::os::unix::fs::symlink(entry.path(), link).unwrap();
        }
    }
    // It compiles with the real parts, so that nothing else is wrong.
    let script = format!(
        "case $1 in --dryrun) exec {real} \"$@\" 2>&1 | sed 's|_HERE_=.*|_HERE_={here}|; s|^#. PATH=|&{here}:|';; *) exec {real} \"$@\";; esac",
        real = real.nvcc.display(),
        here = home.join("bin").display()
    );
    write_program(&home.join("bin/nvcc"), &script);
    let ptxas = |version: &str| {
        let says = format!("echo 'Cuda compilation tools, release x, V{version}'");
        write_program(&home.join("bin/ptxas"), &says);
        let mut command = doctor(project.path());
        let path = std::env::var("PATH").unwrap();
        command
            .env("PATH", format!("{}:{path}", home.join("bin").display()))
            .env("GATEKEEPER_CACHE", machine.path().join("cache"));
        command
    };
    let fits = checklist(ptxas("13.0.91"), 0);
    assert_eq!(item(&fits, "compiler")["state"], "good");
    // A run would use them.
    let list = checklist(ptxas("12.8.93"), 0);
    let compiler = item(&list, "compiler");
    assert_eq!(compiler["state"], "limited");
    assert_eq!(compiler["problems"][0]["code"], "parts-mixed");
    let problem = &compiler["problems"][0]["message"];
    let problem = problem.as_str().unwrap();
    assert!(
        problem.starts_with("nvcc is 13.0.88, and ptxas 12.8.93 is of another release"),
        "{problem}"
    );
}

#[test]
fn a_cache_that_cannot_be_written_ends_in_4() {
    let project = project();
    let mut command = doctor(project.path());
    // Root may write everywhere, but not below a file.
    command.env("GATEKEEPER_CACHE", project.path().join("gates.yaml/cache"));
    let list = checklist(command, 4);
    let codes = broken(&list);
    assert_eq!(codes[..1], only("cache", "cache-unusable"));
    assert_eq!(codes[1..], only("compiler", "compiler-not-looked-for"));
}

/// Builds a driver with one GPU, and other libraries that replace the machine's own. Each has a source, and the name of
/// the library that is made of it.
fn libraries(others: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let driver = "old-driver/cuda.c";
    let drivers = [(driver, "libcuda.so"), (driver, "libcuda.so.1")];
    for (source, library) in drivers.iter().chain(others) {
        let built = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-DVERSION=13000", "-o"])
            .arg(dir.path().join(library))
            .arg(root().join("tests/fixtures").join(source))
            .status()
            .unwrap();
        assert!(built.success());
    }
    dir
}

/// Returns the codes of the problems of the first GPU.
fn gpu_problems(list: &Value) -> Vec<&str> {
    let problems = item(list, "cuda:0")["problems"].as_array().unwrap();
    problems
        .iter()
        .map(|problem| problem["code"].as_str().unwrap())
        .collect()
}

#[test]
fn a_lock_file_that_cannot_be_used_ends_in_4() {
    let libraries = libraries(&[]);
    let (project, cache) = (project(), fresh_cache("lock"));
    let new = || {
        let mut command = doctor(project.path());
        command
            .env("LD_LIBRARY_PATH", libraries.path())
            // The GPU has an identity of its own, because other tests run at the same time, and locks are shared by
            // all.
            .env("STAND_IN_UUID", std::process::id().to_string())
            .env("GATEKEEPER_CACHE", cache.path());
        command
    };
    let list = checklist(new(), 0);
    let lock = item(&list, "cuda:0")["facts"]["lock"].as_str().unwrap();
    let lock = Path::new(lock);
    assert!(lock.is_file());
    // Root may read every file, but cannot read a directory as one.
    fs::remove_file(lock).unwrap();
    fs::create_dir(lock).unwrap();
    let list = checklist(new(), 4);
    fs::remove_dir(lock).unwrap();
    // The stand-in has no NVML, which stops nothing.
    assert_eq!(gpu_problems(&list), ["lock-unusable", "nvml-silent"]);
    assert_eq!(broken(&list).len(), 1);
}

#[test]
fn prints_the_condition_of_a_gpu_from_nvml() {
    let libraries = libraries(&[("stand-in/state.c", "libnvidia-ml.so.1")]);
    let (project, cache) = (project(), fresh_cache("state"));
    let state = |state: &str| {
        let mut command = doctor(project.path());
        command
            .env("LD_LIBRARY_PATH", libraries.path())
            .env("STAND_IN_UUID", (std::process::id() + 1).to_string())
            .env("STAND_IN_STATE", state)
            .env("GATEKEEPER_CACHE", cache.path());
        checklist(command, 0)
    };
    let list = state("good");
    assert_eq!(gpu_problems(&list), [""; 0]);
    assert_eq!(item(&list, "driver")["facts"]["version"], "580.159.04");
    let facts = &item(&list, "cuda:0")["facts"];
    let good = serde_json::json!({
        "uuid": "GPU-whole",
        "sm_mhz": 345, "max_sm_mhz": 1980, "memory_mhz": 2619, "max_memory_mhz": 2620,
        "temperature_c": 34, "power_w": 71.4, "power_limit_w": 700.0,
        "throttle_reasons": [], "slowdowns": [], "other_processes": [],
        "ecc": {"enabled": true, "pending": true, "corrected": 90, "uncorrected": 0},
        "mig": false, "persistence": true, "compute_mode": "default",
    });
    assert_eq!(facts["condition"], good);

    let list = state("worn");
    let condition = &item(&list, "cuda:0")["facts"]["condition"];
    assert_eq!(
        gpu_problems(&list),
        [
            "compute-exclusive",
            "memory-errors",
            "slowed",
            "in-use",
            "no-persistence"
        ]
    );
    let reasons = serde_json::json!(["hw_thermal_slowdown", "sw_power_cap"]);
    assert_eq!(condition["throttle_reasons"], reasons);
    assert_eq!(
        condition["slowdowns"],
        serde_json::json!(["hw_thermal_slowdown"])
    );
    assert_eq!(condition["other_processes"][0]["pid"], 4711);
    assert_eq!(condition["ecc"]["pending"], false);

    // The state is found by the slice, and the commands are for the whole GPU.
    let list = state("slice");
    assert_eq!(gpu_problems(&list), ["mig"]);
    let help = &item(&list, "cuda:0")["problems"][0]["help"][0];
    assert_eq!(help, "`sudo nvidia-smi -i GPU-whole -mig 0`");
    let lock = &item(&list, "cuda:0")["facts"]["lock"];
    fs::remove_file(lock.as_str().unwrap()).unwrap();
}

#[test]
fn abandons_hanging_programs_and_escapes_output_of_others() {
    let (project, machine) = (project(), tempfile::tempdir().unwrap());
    let bin = machine.path().join("bin");
    write_program(&bin.join("git"), "/bin/sleep 1000");
    write_program(
        &bin.join("nvcc"),
        "printf 'no \\033[2J\\033]0;x\\007\\n::error ::x\\n'; exit 3",
    );
    write_program(&bin.join("g++"), "echo g++ 12");
    let output = |format: &str| {
        let began = Instant::now();
        let output = doctor(project.path())
            .args(["--format", format])
            .env("PATH", &bin)
            .env("GATEKEEPER_CACHE", machine.path().join("cache"))
            .output()
            .unwrap();
        assert!(began.elapsed() < Duration::from_secs(100));
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        stdout(&output)
    };
    let (terminal, json) = (output("terminal"), output("json"));
    for text in [&terminal, &json] {
        assert!(text.contains("exit code 3"), "{text}");
        for line in text.lines() {
            assert!(!line.contains(char::is_control), "{line:?}");
            assert!(!line.trim_start().starts_with("::"), "{line:?}");
        }
    }
    let list: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(broken(&list), only("compiler", "compiler-unusable"));
    assert_eq!(item(&list, "git")["problems"][0]["code"], "no-git");
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_gpu_tells_of_its_state() {
    // The facts about a GPU do not depend on a compiler.
    let (project, cache) = (project(), tempfile::tempdir().unwrap());
    let mut command = doctor(project.path());
    command
        .args(["--require-gpu", "--format", "json"])
        .env("GATEKEEPER_CACHE", cache.path());
    let said = stdout(&command.output().unwrap());
    println!("{said}");
    let list: Value = serde_json::from_str(&said).unwrap();
    let driver = &item(&list, "driver")["facts"];
    assert!(driver["version"].as_str().unwrap().contains('.'));
    assert!(driver["cuda_driver_version"].as_u64() >= Some(12000));
    let gpu = &item(&list, "cuda:0")["facts"];
    let condition = &gpu["condition"];
    for figure in [
        "sm_mhz",
        "max_sm_mhz",
        "memory_mhz",
        "max_memory_mhz",
        "temperature_c",
    ] {
        assert!(
            condition[figure].as_u64() > Some(0),
            "{figure}: {condition}"
        );
    }
    assert!(condition["sm_mhz"].as_u64() <= condition["max_sm_mhz"].as_u64());
    assert!(condition["power_w"].as_f64() > Some(0.0));
    assert!(condition["throttle_reasons"].is_array());
    assert!(condition["other_processes"].is_array());
    assert!(condition["persistence"].is_boolean());
    assert!(["default", "exclusive"].contains(&condition["compute_mode"].as_str().unwrap()));
    // The state belongs to the same GPU, and not to another one.
    assert_eq!(condition["uuid"], gpu["device"]["uuid"]);
    let has = |code: &str| {
        let problems = item(&list, "cuda:0")["problems"].as_array().unwrap();
        problems.iter().any(|problem| problem["code"] == code)
    };
    assert_eq!(has("no-persistence"), condition["persistence"] == false);
    assert!(!has("nvml-silent") && !has("lock-unusable"));
}
