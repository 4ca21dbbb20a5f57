//! Tests the program's messages and its exit code whenever something is not as it should be. No GPU is needed. nvcc
//! comes through `--provision`, as on any machine.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use clap::CommandFactory;
use common::{
    RECORD, after_a_run, copy_of, gatekeeper, has_gpu, project, report, root, run, stderr, stdout,
};
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn without_a_gpu_resources_are_judged_and_the_rest_is_skipped_by_name() {
    if has_gpu() {
        return;
    }
    let project = project();
    let output = run(project.path(), &["run", "--provision"], 0);
    // Dates and durations differ between runs.
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
    assert!(report(project.path()).contains("\"headline\": \"PASS: 13 passed, 14 not judged\""));

    // Skipping must be allowed by an option.
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

/// The text shows the resolved case, with the lines of the file that say so.
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
    // The JSON has the plan as a record has it. Read back, it is what the text shows.
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

/// Returns the help without the tables of arguments and options. docs/cli.md has these, and `reference` compares it
/// with the program.
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
        &["bisect"],
        &["history"],
        &["validate"],
        &["list"],
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
        // Each command shows an example, which must itself be a correct command.
        let examples: Vec<_> = stdout(&output)
            .lines()
            .filter_map(|line| line.strip_prefix("  gatekeeper "))
            .map(str::to_owned)
            .collect();
        assert!(!examples.is_empty(), "{command:?}");
        for example in examples {
            let typed = example.split("  ").next().unwrap();
            let typed = typed.split(['>', '&']).next().unwrap();
            // Everything behind two dashes is a command of the user's.
            let typed = typed.split(" -- ").next().unwrap();
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

/// Returns the names that start a line below `head`, up to an empty line.
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
        "init", "run", "baseline", "report", "explain", "compare", "validate", "list", "doctor",
    ];
    assert_eq!(listed(&help, "\nCommands:"), every_day);
    assert_eq!(
        listed(&help, "\nMore commands:"),
        ["CI", "GPU", "setup", "help"]
    );
    // Every command is listed once, and each has a help text of its own.
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
fn short_help_fits_a_screen_and_long_help_has_every_option_in_groups() {
    let short = stdout(&run(&root(), &["run", "-h"], 0));
    let long = stdout(&run(&root(), &["run", "--help"], 0));
    assert!(short.lines().count() <= 40, "{short}");
    assert!(
        short.contains("--base <REF>")
            && !short.contains("--costs")
            && !short.contains("Examples:")
    );
    let heads: Vec<_> = long
        .lines()
        .filter(|line| !line.starts_with(' ') && line.ends_with(':'))
        .collect();
    assert_eq!(
        heads,
        [
            "Arguments:",
            "Options:",
            "Which cases:",
            "How to measure:",
            "Device and compiler:",
            "What to compare with:",
            "Output:",
            "Examples:"
        ]
    );
    assert!(long.contains("--costs <RECORD>"));
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
