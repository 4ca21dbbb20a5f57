//! The program's messages, and its exit code, wherever something is not as it should be. No
//! GPU is needed; nvcc comes through `--provision`, as on any machine.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use clap::CommandFactory;
use common::{
    RECORD, after_a_run, copy_of, edit, gatekeeper, has_gpu, project, refused, report, root, run,
    stderr, stdout,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// On a machine that has nothing but these programs: each a name, and what the shell does for it.
fn on_a_machine_with(programs: &[(&str, &str)], dir: &Path, cache: &Path, args: &[&str]) -> Output {
    let bin = tempfile::tempdir().unwrap();
    for (name, script) in programs {
        let file = bin.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    gatekeeper()
        .current_dir(dir)
        .args(args)
        .env("PATH", bin.path())
        .env("GATEKEEPER_CACHE", cache)
        .env_remove("CUDA_HOME")
        .env_remove("CUDA_PATH")
        .env_remove("NVCC_CCBIN")
        .output()
        .unwrap()
}

fn environment_failed(output: &Output, says: &str) {
    assert_eq!(output.status.code(), Some(4), "{}", stderr(output));
    assert_eq!(stderr(output), says);
    assert_eq!(stdout(output), "");
}

/// CUDA where it is always looked for cannot be hidden from the program.
fn cuda_is_installed() -> bool {
    Path::new("/usr/local/cuda/bin/nvcc").exists()
}

const GCC: (&str, &str) = ("g++", "echo g++ 12");

#[test]
fn without_nvcc_both_ways_out_are_said() {
    if cuda_is_installed() {
        return;
    }
    let (project, cache) = (project(), tempfile::tempdir().unwrap());
    let output = on_a_machine_with(&[GCC], project.path(), cache.path(), &["run"]);
    environment_failed(
        &output,
        "error: no CUDA compiler: nvcc is neither provisioned nor on PATH, in CUDA_HOME or in /usr/local/cuda\n  \
         help: run with --provision, or install CUDA 13 and put nvcc on PATH\n",
    );
}

#[test]
fn without_a_host_compiler_nothing_is_fetched() {
    if cuda_is_installed() {
        return;
    }
    let (project, cache) = (project(), tempfile::tempdir().unwrap());
    let output = on_a_machine_with(
        &[("python3", "echo fetched >&2")],
        project.path(),
        cache.path(),
        &["run", "--provision"],
    );
    environment_failed(
        &output,
        "error: no host compiler: nvcc needs a C++ compiler, and neither g++, c++ nor clang++ is on PATH\n  \
         help: install one, for example `apt-get install g++`\n  \
         help: or set NVCC_CCBIN to the path of one\n",
    );
}

#[test]
fn without_python_provisioning_says_so() {
    if cuda_is_installed() {
        return;
    }
    let (project, cache) = (project(), tempfile::tempdir().unwrap());
    let output = on_a_machine_with(
        &[GCC],
        project.path(),
        cache.path(),
        &["run", "--provision"],
    );
    environment_failed(
        &output,
        "error: installing CUDA needs python3 with pip, and there is no python3 on PATH\n  \
         help: install it, for example `apt-get install python3-pip`\n  \
         help: or install CUDA 13 by hand and put nvcc on PATH\n",
    );
}

#[test]
fn without_pip_provisioning_says_so() {
    if cuda_is_installed() {
        return;
    }
    let (project, cache) = (project(), tempfile::tempdir().unwrap());
    let output = on_a_machine_with(
        &[GCC, ("python3", "echo No module named pip >&2; exit 1")],
        project.path(),
        cache.path(),
        &["run", "--provision"],
    );
    assert_eq!(output.status.code(), Some(4));
    let said = stderr(&output);
    assert!(
        said.contains("pip") && said.contains("\n  help: "),
        "{said}"
    );
}

/// As root, permissions stop nobody; a file in the place of the directory does.
#[test]
fn a_cache_that_cannot_be_written_is_said_before_anything_is_built() {
    let project = project();
    let file = project.path().join("file");
    fs::write(&file, "").unwrap();
    for cache in [file.clone(), file.join("below"), PathBuf::from("/proc/x")] {
        let output = on_a_machine_with(&[GCC], project.path(), &cache, &["run", "--provision"]);
        assert_eq!(output.status.code(), Some(4));
        let said = stderr(&output);
        let start = format!(
            "error: the cache directory {} cannot be written: ",
            cache.display()
        );
        assert!(said.starts_with(&start), "{said}");
        assert!(
            said.ends_with("\n  help: set GATEKEEPER_CACHE to a directory that can be written\n")
        );
    }
}

#[test]
fn a_broken_gates_file_is_refused_with_line_and_key() {
    for (old, new, says) in [
        (
            "    entry: copy\n",
            "    entry: copy\n    entri: copy\n",
            "gates.yaml:8:5: kernels.copy.entri: ",
        ),
        (
            "      registers: 32\n",
            "      registers: 32\n      registers: 64\n",
            "gates.yaml:22:7: kernels.copy.gates.registers: ",
        ),
        (
            "args: [{tensor: x}, {tensor: y}, {i32: N}]\n",
            "args: copy\n",
            "gates.yaml:17:11: kernels.copy.args: ",
        ),
        (
            "      registers: 32\n",
            "      registers: many\n",
            "gates.yaml:21:18: kernels.copy.gates.registers: ",
        ),
        (
            "    source: copy.cu\n",
            "    source: gone.cu\n",
            "gates.yaml:6:13: kernels.copy.source: gone.cu does not exist",
        ),
        ("version: 1", "version: 2", "gates.yaml:2:10: version: "),
    ] {
        let project = project();
        edit(&project.path().join("gates.yaml"), old, new);
        for command in ["run", "validate"] {
            let output = run(project.path(), &[command], 2);
            let said = stderr(&output);
            assert!(said.starts_with(&format!("error: {says}")), "{said}");
        }
        assert!(!project.path().join("gatekeeper-out").exists());
    }
}

#[test]
fn no_gates_file_is_wrong_use_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    refused(
        dir.path(),
        &["run"],
        "error: gates.yaml: cannot be read: No such file or directory (os error 2)\n  \
         help: write one with `gatekeeper init`, or name another with --config\n",
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    fs::create_dir(dir.path().join("gates.yaml")).unwrap();
    let said = stderr(&run(dir.path(), &["run"], 2));
    assert!(said.contains("is a directory"), "{said}");
    // A broken gates.yaml counts first among all that doctor finds.
    let said = stdout(&run(dir.path(), &["doctor"], 2));
    assert!(
        said.starts_with("gates              BROKEN   gates.yaml: "),
        "{said}"
    );
}

#[test]
fn below_a_gates_file_its_place_is_said() {
    let project = project();
    let below = project.path().join("csrc/cuda");
    fs::create_dir_all(&below).unwrap();
    for command in ["run", "validate"] {
        refused(
            &below,
            &[command],
            "error: gates.yaml: cannot be read: No such file or directory (os error 2)\n  \
             help: there is one in a parent directory: --config ../../gates.yaml\n",
        );
    }
    run(&below, &["validate", "--config", "../../gates.yaml"], 0);
    // One that was named is not looked for anywhere else.
    refused(
        &below,
        &["validate", "--config", "gate.yaml"],
        "error: gate.yaml: cannot be read: No such file or directory (os error 2)\n  \
         help: write one with `gatekeeper init`, or name another with --config\n",
    );
}

#[test]
fn a_directory_with_a_record_is_not_taken_for_nvbenchs() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("out")).unwrap();
    fs::write(dir.path().join("out/record.json"), "{}").unwrap();
    refused(
        dir.path(),
        &["compare", "out", "out"],
        "error: out: a directory stands for NVBench's files, and this one holds a record\n  \
         help: name the record: out/record.json\n",
    );
}

#[test]
fn a_selection_that_means_nothing_is_refused() {
    let project = project();
    for (args, says) in [
        (
            &["nothing"][..],
            "error: the filter `nothing` matches nothing\n  help: kernel: there are `copy`, `dial`\n",
        ),
        (
            &["copi"],
            "error: the filter `copi` matches nothing\n  help: kernel: did you mean `copy`?\n",
        ),
        (
            &["cop"],
            "error: the filter `cop` matches nothing\n  help: kernel: did you mean `copy`?\n",
        ),
        (
            &["d"],
            "error: the filter `d` matches nothing\n  help: kernel: did you mean `dial`?\n",
        ),
        (
            &["copy/defalt"],
            "error: the filter `copy/defalt` matches nothing\n  help: variant: did you mean `default`?\n",
        ),
        (
            &["a/b/c"],
            "error: `a/b/c` is not a filter\n  \
             help: examples: sdpa_fp8, sdpa_fp8/stage2, sdpa_fp8@mission, sdpa_fp8/stage*@mission\n",
        ),
        (
            &["--iters", "0"],
            "error: invalid value '0' for '--iters <N>': 0 is not in 1..=100000\n\n\
             For more information, try '--help'.\n",
        ),
        (
            &["--iters", "many"],
            "error: invalid value 'many' for '--iters <N>': invalid digit found in string\n\n\
             For more information, try '--help'.\n",
        ),
        (
            &["--seeds", "1,x"],
            "error: invalid value 'x' for '--seeds <SEEDS>': invalid digit found in string\n\n\
             For more information, try '--help'.\n",
        ),
        (
            &["--seeds", ""],
            "error: invalid value '' for '--seeds <SEEDS>': cannot parse integer from empty string\n\n\
             For more information, try '--help'.\n",
        ),
        (
            &["--device", "gpu0"],
            "error: invalid value 'gpu0' for '--device <DEVICE>': `gpu0` is not a device; write auto, sim, cuda, cuda:N, or cuda:all\n\n\
             For more information, try '--help'.\n",
        ),
        (
            &["--out", "copy.cu"],
            "error: --out copy.cu: part of this path is a file\n  help: name a directory; it is created if it does not exist\n",
        ),
        (
            &["--dump", "copy.cu/below"],
            "error: --dump copy.cu/below: part of this path is a file\n  help: name a directory; it is created if it does not exist\n",
        ),
    ] {
        let mut all = vec!["run"];
        all.extend(args);
        refused(project.path(), &all, says);
    }
}

#[test]
fn without_a_gpu_resources_are_judged_and_the_rest_is_skipped_by_name() {
    if has_gpu() {
        return;
    }
    let project = project();
    let output = run(project.path(), &["run", "--provision"], 0);
    // Dates and durations are the run's own.
    let all = stdout(&output);
    let (_, all) = all.split_once("\n\n").unwrap();
    insta::assert_snapshot!("without_a_gpu", all);
    for file in [
        "record.json",
        "report.json",
        "report.md",
        "report.html",
        "junit.xml",
    ] {
        let file = project.path().join("gatekeeper-out").join(file);
        assert!(
            fs::metadata(&file).unwrap().len() > 100,
            "{}",
            file.display()
        );
    }
    assert!(report(project.path()).contains("\"headline\": \"PASS: 13 passed, 15 not judged\""));

    // Skipping has to be allowed.
    for args in [
        &["--require-gpu"][..],
        &["--device", "cuda"],
        &["--device", "cuda:7"],
        &["--device", "cuda:all"],
    ] {
        let mut all = vec!["run"];
        all.extend(args);
        let output = run(project.path(), &all, 4);
        let said = stdout(&output);
        let headline = "ENVIRONMENT FAILED: 1 problem (19 gates), 8 passed, 1 not judged";
        assert!(said.contains(headline), "{said}");
        assert!(said.contains("no NVIDIA device"), "{said}");
        if let Some(device) = all.get(2) {
            let device = if *device == "cuda" { "cuda:0" } else { device };
            assert!(said.contains(&format!("there is no {device}: ")), "{said}");
            assert!(!said.contains("broken"), "{said}");
        }
    }
}

/// A driver stands in for the machine's own; the GPU that it reports is never used.
#[test]
fn a_driver_too_old_for_the_compiler_is_the_environment_and_says_which_one_is_needed() {
    let libraries = tempfile::tempdir().unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(libraries.path().join("libcuda.so"))
        .arg(root().join("tests/fixtures/old-driver/cuda.c"))
        .status()
        .unwrap();
    assert!(built.success());
    fs::copy(
        libraries.path().join("libcuda.so"),
        libraries.path().join("libcuda.so.1"),
    )
    .unwrap();
    let project = project();
    let output = gatekeeper()
        .current_dir(project.path())
        .args(["run", "--provision"])
        .env("LD_LIBRARY_PATH", libraries.path())
        .output()
        .unwrap();
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(4), "{said}{}", stderr(&output));
    let unwrapped = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "the driver is too old for the compiler: it supports CUDA 12.2, and nvcc is 13.",
        "; driver branch 580 or later needed; code from CUDA 12 may run, but drivers before 580 are untested",
    ] {
        assert!(unwrapped.contains(part), "{said}");
    }
    // Gates that need no driver are judged all the same.
    assert!(said.contains("8 passed"), "{said}");
}

/// The resolved case, with the lines of the file that say so.
#[test]
fn a_case_is_explained_before_anything_is_built() {
    let project = copy_of("examples");
    let dir = project.path();
    for (example, case) in [
        ("struct-arg", "blend@ragged"),
        ("split-attention", "*@even"),
        ("launcher", "center_reversed@small"),
    ] {
        let config = format!("{example}/gates.yaml");
        let explained = ["validate", "--config", &config, "--explain", case];
        let output = run(dir, &explained, 0);
        insta::assert_snapshot!(format!("explain-{example}"), stdout(&output));
    }
    let args = [
        "validate",
        "--config",
        "struct-arg/gates.yaml",
        "--explain",
        "blend@ragged",
        "--format",
        "json",
    ];
    let output = run(dir, &args, 0);
    let explained: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(explained["schema"], "gatekeeper.case/1");
    let [case] = explained["cases"].as_array().unwrap().as_slice() else {
        panic!("{explained}")
    };
    let spots = [
        ("deadline", None),
        ("launches", None),
        ("reference", Some("gates.yaml:31")),
        ("seeds", Some("gates.yaml:11")),
        ("shape", Some("gates.yaml:10")),
    ];
    for (part, line) in spots {
        let spot = serde_json::json!({"declared": line, "what": null});
        assert_eq!(case[part], spot, "{part}");
    }
    let tensors = [("x", 13), ("z", 14), ("y", 15)].map(
        |(name, line)| serde_json::json!({"declared": format!("gates.yaml:{line}"), "what": name}),
    );
    assert_eq!(case["tensors"], serde_json::json!(tensors));
    let step = serde_json::json!({"arguments": ["gates.yaml:17"], "entry": "blend", "launch": "gates.yaml:28"});
    assert_eq!(case["steps"], serde_json::json!([step]));
    // The plan as a record has it: read back, it is what the text shows.
    let planned: model::Case = serde_json::from_value(case["case"].clone()).unwrap();
    assert_eq!(planned.id.to_string(), "blend/default@ragged");
    assert_eq!(planned.dims["N"], 100_003);
    assert_eq!(planned.steps[0].launch.as_ref().unwrap().grid, [391, 1, 1]);
    assert_eq!(planned.steps[0].args.len(), 1);
    assert_eq!(planned.tensors.len(), 3);
    let build = &case["builds"][0];
    let command = "nvcc -cubin -gencode arch=compute_90,code=sm_90 -lineinfo -Xptxas -v blend.cu";
    assert_eq!(build["command"], command);
    assert_eq!(build["unit"]["source"], "blend.cu");
    let gates = case["gates"].as_array().unwrap();
    assert_eq!(gates.len(), 12);
    let registers = judge::fixture::at_most(model::Metric::Registers, 32.0);
    assert_eq!(
        gates[1],
        serde_json::json!({"baselines": null, "declared": "gates.yaml:36", "gate": "registers <= 32", "rule": registers})
    );
    for (gate, baselines) in [(0, "null"), (10, "[]")] {
        assert_eq!(gates[gate]["declared"], serde_json::Value::Null);
        assert_eq!(gates[gate]["baselines"].to_string(), baselines);
    }
    let said = stderr(&run(
        dir,
        &[
            "validate",
            "--config",
            "launcher/gates.yaml",
            "--explain",
            "none",
        ],
        2,
    ));
    assert!(said.contains("matches nothing"), "{said}");
    run(dir, &["validate", "--format", "json"], 2);
}

#[test]
fn init_writes_a_file_that_loads_and_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["init"], 0);
    assert_eq!(
        stdout(&output),
        "wrote gates.yaml\nnext: set `source` and `entry` to a kernel of yours, list its arguments, and then\n  \
         gatekeeper validate\n  gatekeeper run\n\
         gates.schema.json tells editors the keys; `gatekeeper schema` prints it again\nrecords and reports go to gatekeeper-out/: add it to .gitignore\n"
    );
    let written = fs::read(dir.path().join("gates.yaml")).unwrap();
    refused(
        dir.path(),
        &["init"],
        "error: gates.yaml already exists; it was not changed\n  \
         help: to write another file: gatekeeper init OTHER.yaml\n",
    );
    assert_eq!(fs::read(dir.path().join("gates.yaml")).unwrap(), written);

    refused(
        dir.path(),
        &["init", "no/such/gates.yaml"],
        "error: the directory of no/such/gates.yaml does not exist\n  \
         help: create the directory first\n",
    );

    // The kernel is the user's to write.
    let said = stderr(&run(dir.path(), &["validate"], 2));
    assert!(said.contains("kernels/add.cu does not exist"), "{said}");
    fs::create_dir(dir.path().join("kernels")).unwrap();
    fs::write(
        dir.path().join("kernels/add.cu"),
        "__global__ void add(const float* a, const float* b, float* out, int n)\n\
         {\n    const int i = blockIdx.x * 256 + threadIdx.x;\n    if (i < n) out[i] = a[i] + b[i];\n}\n",
    )
    .unwrap();
    run(dir.path(), &["validate"], 0);
    run(dir.path(), &["run", "--provision"], 0);
}

#[test]
fn the_schema_is_the_one_in_the_repository() {
    let output = run(&root(), &["schema"], 0);
    let schema: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(schema["title"], "gates.yaml");
    assert_eq!(
        stdout(&output),
        fs::read_to_string(root().join("gates.schema.json")).unwrap(),
        "gatekeeper schema > gates.schema.json"
    );
}

#[test]
fn completions_are_for_this_program() {
    let output = run(&root(), &["completions", "bash"], 0);
    let script = stdout(&output);
    assert!(script.contains("complete -F _gatekeeper"), "{script}");
    assert!(script.contains("--require-gpu"));
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut bash.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success(), "bash cannot parse it");
}

/// Without arguments, options and what they mean: docs/cli.md has those, and `reference` holds it to the program.
fn without_tables(help: &str) -> String {
    let is_table = |part: &&str| part.starts_with("Arguments:\n") || part.starts_with("Options:\n");
    let parts: Vec<_> = help.split("\n\n").filter(|part| !is_table(part)).collect();
    assert!(parts.len() < help.split("\n\n").count(), "{help}");
    parts.join("\n\n")
}

#[test]
fn help_is_as_agreed() {
    let mut all = String::new();
    for command in [
        &[][..],
        &["run"],
        &["profile"],
        &["compare"],
        &["judge"],
        &["merge"],
        &["baseline"],
        &["baseline", "update"],
        &["baseline", "show"],
        &["report"],
        &["explain"],
        &["tune"],
        &["history"],
        &["validate"],
        &["init"],
        &["doctor"],
        &["toolchain"],
        &["toolchain", "install"],
        &["toolchain", "show"],
        &["schema"],
        &["completions"],
    ] {
        let output = gatekeeper()
            .args(command)
            .arg("--help")
            .env_remove("COLUMNS")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        // Each shows how it is typed, and what it shows is a command.
        let examples: Vec<_> = stdout(&output)
            .lines()
            .filter_map(|line| line.strip_prefix("  gatekeeper "))
            .map(str::to_owned)
            .collect();
        assert!(!examples.is_empty(), "{command:?}");
        for example in examples {
            let typed = example.split("  ").next().unwrap();
            let typed = typed.split(['>', '&']).next().unwrap();
            let parsed = gatekeeper()
                .args(typed.split_whitespace().map(|word| word.trim_matches('\'')))
                .arg("--help")
                .output()
                .unwrap();
            assert_eq!(parsed.status.code(), Some(0), "{example}");
        }
        let help = stdout(&output);
        assert!(
            help.lines().all(|line| line.chars().count() <= 100),
            "{help}"
        );
        all += &format!(
            "$ gatekeeper {}\n{}\n",
            command.join(" "),
            without_tables(&help)
        );
    }
    insta::assert_snapshot!("help", all);
}

/// The names that start a line below `head`, up to an empty line.
fn listed(help: &str, head: &str) -> Vec<String> {
    let (_, rest) = help.split_once(head).unwrap();
    rest.lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

#[test]
fn help_lists_the_commands_of_every_day_and_the_others_in_groups() {
    let help = stdout(&run(&root(), &["--help"], 0));
    let every_day = [
        "init", "run", "baseline", "report", "explain", "compare", "validate", "doctor",
    ];
    assert_eq!(listed(&help, "\nCommands:"), every_day);
    assert_eq!(
        listed(&help, "\nMore commands:"),
        ["CI", "GPU", "setup", "help"]
    );
    // Every command is there once, and each has its own help.
    let (_, lists) = help.split_once("\nCommands:").unwrap();
    let (lists, _) = lists.split_once("\nOptions:").unwrap();
    let (every_day, others) = lists.split_once("\nMore commands:").unwrap();
    let first = every_day
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let others = others
        .lines()
        .filter(|line| !line.starts_with("  help"))
        .flat_map(|line| line.split_whitespace().skip(1));
    let names: Vec<_> = first
        .chain(others)
        .map(|name| name.trim_end_matches(','))
        .collect();
    let cli = gatekeeper::cli::Cli::command();
    let commands = cli
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set());
    let mut commands: Vec<_> = commands.map(clap::Command::get_name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    commands.sort_unstable();
    assert_eq!(sorted, commands);
    for name in names {
        run(&root(), &[name, "--help"], 0);
    }
    for gone in ["micro", "site", "calibrate"] {
        run(&root(), &[gone], 2);
    }
}

#[test]
fn the_last_record_is_the_default() {
    let project = after_a_run(&["copy"]);
    let dir = project.path();
    let named = stdout(&run(dir, &["report", RECORD], 0));
    assert_eq!(stdout(&run(dir, &["report"], 0)), named);
    let judged = stdout(&run(dir, &["judge", RECORD], 0));
    assert_eq!(judged, named);
    // There is one, and it is of a run without a base.
    let said = stderr(&run(dir, &["explain"], 2));
    assert!(said.contains("of a run without a base"), "{said}");
    fs::remove_dir_all(dir.join("gatekeeper-out")).unwrap();
    for command in ["report", "explain"] {
        refused(
            dir,
            &[command],
            "error: gatekeeper-out/record.json: there is no record\n  \
             help: `gatekeeper run` writes one to gatekeeper-out/record.json\n",
        );
    }
}

#[test]
fn a_command_has_one_way_to_name_a_format() {
    let project = after_a_run(&["copy"]);
    let dir = project.path();
    run(dir, &["doctor", "--json"], 2);
    let says = "error: --verbose and --quiet are for --format terminal; every other format has its one form\n";
    for option in ["--quiet", "--verbose", "-q", "-v"] {
        refused(dir, &["report", "--format", "json", option], says);
    }
    run(dir, &["report", "-q", "-v"], 2);
    run(dir, &["report", "-v"], 0);
    for args in [&["tune"][..], &["tune", "copy", "--format", "csv"]] {
        run(dir, args, 2);
    }
}

#[test]
fn quiet_prints_the_headline_alone() {
    let project = after_a_run(&["copy"]);
    let dir = project.path();
    let all = stdout(&run(dir, &["judge", RECORD], 0));
    let headline = all.rsplit("\n\n").next().unwrap();
    assert!(headline.starts_with("PASS"), "{headline}");
    assert_ne!(all, headline);
    for args in [&["judge", RECORD, "-q"][..], &["report", "--quiet"]] {
        assert_eq!(stdout(&run(dir, args, 0)), headline, "{args:?}");
    }
    let same = run(dir, &["compare", RECORD, RECORD, "-q"], 0);
    assert!(stdout(&same).starts_with("PASS"), "{}", stdout(&same));
    // Nothing about progress, nor where the files are.
    let output = run(dir, &["run", "-q", "copy"], 0);
    assert!(stdout(&output).starts_with("PASS"), "{}", stdout(&output));
    assert_eq!(stderr(&output), "");
    edit(&dir.join("gates.yaml"), "registers: 32", "registers: 1");
    let output = run(dir, &["run", "-q", "copy"], 1);
    assert!(stdout(&output).starts_with("FAIL"), "{}", stdout(&output));
}

/// Columns of the longest line.
fn widest(text: &str) -> usize {
    text.lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0)
}

#[test]
fn a_report_is_as_wide_as_columns_says_if_that_is_sane() {
    let project = after_a_run(&["copy"]);
    let report = |columns: Option<&str>| {
        let mut command = gatekeeper();
        command.current_dir(project.path()).args(["report"]);
        match columns {
            Some(columns) => command.env("COLUMNS", columns),
            None => command.env_remove("COLUMNS"),
        };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        stdout(&output)
    };
    // Standard output is no terminal.
    let usual = report(None);
    assert!(widest(&usual) <= 100, "{usual}");
    let narrow = report(Some("80"));
    assert!(widest(&narrow) <= 80, "{narrow}");
    assert_ne!(narrow, usual);
    for insane in ["0", "5", "-80", "wide", ""] {
        assert_eq!(report(Some(insane)), usual, "{insane}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let project = after_a_run(&["copy"]);
    for args in [
        &["schema"][..],
        &["run", "copy"],
        &["judge", RECORD, "--format", "json"],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(gatekeeper().get_program());
        let output = command
            .current_dir(project.path())
            .args(args)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}",
            stderr(&output)
        );
        assert!(!stderr(&output).contains("error"), "{}", stderr(&output));
    }
}

/// Nothing about where a project lies, or how its lines end, changes what is measured.
#[test]
fn odd_places_and_line_ends_change_nothing() {
    let around = tempfile::tempdir().unwrap();
    let dir = around.path().join("höhe ☃ it's 1");
    common::copy(&root().join("tests/fixtures/project"), &dir);
    for file in ["gates.yaml", "copy.cu"] {
        let text = fs::read_to_string(dir.join(file)).unwrap();
        fs::write(dir.join(file), text.replace('\n', "\r\n")).unwrap();
    }
    fs::rename(dir.join("dial.cu"), around.path().join("real.cu")).unwrap();
    std::os::unix::fs::symlink("../real.cu", dir.join("dial.cu")).unwrap();
    let output = gatekeeper()
        .current_dir(&around)
        .arg("run")
        .arg("--provision")
        .arg("--config")
        .arg(dir.join("gates.yaml"))
        .env("NVCC_APPEND_FLAGS", "-DBROKEN -Xptxas -O0")
        .env("CPATH", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stdout(&output);
    for row in [
        "copy/default [sm_90]         10   1 KiB         0        0          100  pass\n",
        "dial/default [sm_90]         12     0 B         0        0          100  pass\n",
    ] {
        assert!(said.contains(row), "{said}");
    }
    assert!(!around.path().join("baselines").exists());
}

#[test]
fn a_gates_file_that_was_named_has_to_be_there() {
    let dir = tempfile::tempdir().unwrap();
    for command in [&["toolchain", "show"][..], &["validate"]] {
        let mut args = command.to_vec();
        args.extend(["--config", "missing.yaml"]);
        let said = stderr(&run(dir.path(), &args, 2));
        assert!(
            said.starts_with("error: missing.yaml: cannot be read"),
            "{said}"
        );
    }
    let found = stdout(&run(dir.path(), &["doctor", "--config", "missing.yaml"], 2));
    assert!(
        found.starts_with("gates              BROKEN   missing.yaml: "),
        "{found}"
    );

    fs::create_dir(dir.path().join("sub")).unwrap();
    let said = stderr(&run(dir.path(), &["validate", "--config", "sub"], 2));
    assert!(
        said.ends_with("\n  help: name the file in it: --config sub/gates.yaml\n"),
        "{said}"
    );
}
