//! Records and baselines through the real binary: judged again, compared, accepted, damaged.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{
    RECORD, after_a_run, copy_of, edit, gatekeeper, gates_that_failed, git, has_gpu, project,
    refused, report, run, simulate, stderr, stdout, write_record,
};
use judge::fixture;
use model::BaselineKey;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[test]
fn judge_repeats_the_report_of_the_run_byte_for_byte() {
    let project = after_a_run(&[]);
    let elsewhere = tempfile::tempdir().unwrap();
    fs::copy(project.path().join(RECORD), elsewhere.path().join("r.json")).unwrap();
    for (format, file) in [
        ("json", "report.json"),
        ("markdown", "report.md"),
        ("html", "report.html"),
        ("junit", "junit.xml"),
    ] {
        let written = fs::read_to_string(project.path().join("gatekeeper-out").join(file)).unwrap();
        for command in ["judge", "report"] {
            let output = run(
                elsewhere.path(),
                &[command, "r.json", "--format", format],
                0,
            );
            assert_eq!(stdout(&output), written, "{command} {format}");
        }
    }
}

/// Runs the project's copy under the given variables of CI, and returns its page.
fn page_under(dir: &Path, variables: &[(&str, &str)]) -> String {
    let mut command = gatekeeper();
    command.current_dir(dir);
    for name in ["GITHUB_REPOSITORY", "GITHUB_HEAD_REF", "GITHUB_REF_NAME"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    let output = command
        .args(["run", "--provision", "--device", "sim", "copy"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    fs::read_to_string(dir.join("gatekeeper-out/report.html")).unwrap()
}

fn title(page: &str) -> &str {
    let (_, rest) = page.split_once("<title>").unwrap();
    rest.split_once("</title>").unwrap().0
}

#[test]
fn the_page_names_repository_and_branch_and_shows_nothing_else_of_an_address() {
    let project = project();
    let dir = project.path();
    let named = |variables: &[(&str, &str)]| {
        let page = page_under(dir, variables);
        let (_, rest) = title(&page).split_once(" judged - ").unwrap();
        let words: Vec<&str> = rest.split(' ').collect();
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    // Outside git it is the directory.
    let own = dir.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(named(&[]), [&own, "-", "gatekeeper"]);

    git(dir, &["init", "--quiet", "--initial-branch=faster<b>"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    git(dir, &["add", "."]);
    git(dir, &["commit", "--quiet", "-m", "first"]);
    assert_eq!(named(&[])[..2], [own.as_str(), "faster&lt;b&gt;"]);
    let address = "https://user:token@host/org/repo.git";
    git(dir, &["remote", "add", "origin", address]);
    assert_eq!(named(&[])[..2], ["org/repo", "faster&lt;b&gt;"]);
    for name in ["report.html", "record.json", "report.json", "report.md"] {
        let text = fs::read_to_string(dir.join("gatekeeper-out").join(name)).unwrap();
        let shows = |part: &&str| text.contains(*part);
        let parts = ["token", "user:", "@host", "host/", "repo.git"];
        assert_eq!(parts.iter().find(|part| shows(part)), None, "{name}");
    }
    run(dir, &["baseline", "update"], 0);
    let baselines = files_below(&dir.join("baselines"));
    let verdicts = verdicts(dir);

    // CI checks out a commit without a branch, and says which it is of.
    git(dir, &["checkout", "--quiet", "--detach"]);
    assert_eq!(named(&[]).len(), 4, "a commit has no branch");
    let pull_request = [
        ("GITHUB_REPOSITORY", "owner/kernels"),
        ("GITHUB_HEAD_REF", "wide"),
        ("GITHUB_REF_NAME", "7/merge"),
    ];
    assert_eq!(named(&pull_request)[..2], ["owner/kernels", "wide"]);
    let push = [
        ("GITHUB_REPOSITORY", "owner/kernels"),
        ("GITHUB_HEAD_REF", ""),
        ("GITHUB_REF_NAME", "main"),
    ];
    assert_eq!(named(&push)[..2], ["owner/kernels", "main"]);
    // The same verdicts, judged by the same baselines.
    let again = self::verdicts(dir);
    assert_ne!(again, verdicts, "there are baselines now");
    named(&[]);
    assert_eq!(self::verdicts(dir), again);
    run(dir, &["baseline", "update"], 0);
    assert_eq!(files_below(&dir.join("baselines")), baselines);
}

fn verdicts(dir: &Path) -> Value {
    let report: Value = serde_json::from_str(&report(dir)).unwrap();
    report["verdicts"].clone()
}

/// Names and contents.
fn files_below(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files_below(&path))
        } else {
            all.push((path.clone(), fs::read_to_string(&path).unwrap()))
        }
    }
    all.sort();
    all
}

#[test]
fn a_record_that_is_not_as_it_was_written_is_refused() {
    let project = after_a_run(&["copy"]);
    let text = fs::read_to_string(project.path().join(RECORD)).unwrap();
    let put = |name: &str, text: &str| fs::write(project.path().join(name), text).unwrap();
    let edited = text.replacen("\"registers\":10", "\"registers\":9", 1);
    assert_ne!(edited, text, "the record says what the kernel needs");
    put("edited.json", &edited);
    put("truncated.json", &text[..text.len() / 2]);
    put(
        "newer.json",
        &text.replacen("gatekeeper.record/1", "gatekeeper.record/2", 1),
    );
    put("empty.json", "");
    for (file, says) in [
        (
            "edited.json",
            "edited.json: the record was changed after it was written: its seal is ",
        ),
        ("truncated.json", "truncated.json:1:"),
        (
            "newer.json",
            "newer.json: its schema is gatekeeper.record/2, and this version of gatekeeper reads gatekeeper.record/1 alone: a newer one wrote it\n",
        ),
        ("empty.json", "empty.json:1:0: it is cut short"),
        ("gates.yaml", "gates.yaml:1:1: "),
        (
            "gone.json",
            "gone.json: there is no record\n  help: `gatekeeper run` writes one",
        ),
    ] {
        for args in [
            &["judge", file][..],
            &["report", file],
            &["compare", RECORD, file],
            &["compare", file, RECORD],
            &["baseline", "update", "--record", file],
        ] {
            let output = run(project.path(), args, 2);
            let said = stderr(&output);
            assert!(
                said.starts_with(&format!("error: {says}")),
                "{args:?}: {said}"
            );
            assert!(said.contains("\n  help: "), "{args:?}: {said}");
            assert_eq!(stdout(&output), "");
        }
    }
    assert!(!project.path().join("baselines").exists());
}

#[test]
fn a_record_compared_with_itself_has_no_change() {
    let project = after_a_run(&[]);
    let output = run(
        project.path(),
        &["compare", RECORD, RECORD, "--format", "json"],
        0,
    );
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let verdicts = report["verdicts"].as_array().unwrap();
    // `registers +0%` has a baseline now: the record itself.
    let registers = verdicts
        .iter()
        .find(|verdict| verdict["gate"] == "registers +0%")
        .unwrap();
    assert_eq!(registers["outcome"], "pass");
    assert_eq!(registers["change"], 0.0);
    assert_eq!(report["counts"]["fail"], 0);
}

#[test]
fn compare_fails_if_the_head_needs_more() {
    let project = after_a_run(&["dial"]);
    let dir = project.path();
    fs::rename(dir.join("gatekeeper-out"), dir.join("base")).unwrap();
    // More values alive at once than before, and within the absolute limit.
    edit(
        &dir.join("dial.cu"),
        "value = fmaf(value, one, zero);",
        "value = fmaf(value, one, zero) + (blockDim.y > 7 ? sinf(value * turn) : 0.0f);",
    );
    run(dir, &["run", "dial"], 0);
    let output = run(dir, &["compare", "base/record.json", RECORD], 1);
    assert!(
        stdout(&output).contains("✗ dial/default [sm_90]  registers "),
        "{}",
        stdout(&output)
    );
}

#[test]
fn an_update_takes_measured_values_and_names_the_others() {
    if has_gpu() {
        return;
    }
    let project = after_a_run(&[]);
    let output = run(project.path(), &["baseline", "update"], 0);
    let said = stdout(&output);
    assert!(
        said.starts_with("copy/default [sm_90] registers: 10 (new)\n"),
        "{said}"
    );
    // `copy` was simulated, and has no gate on times.
    assert!(
        said.contains("copy/default@small max_err: 0 (new)\n"),
        "{said}"
    );
    let left = "not measured by this run: correctness of 1 case, times of 1 case\n";
    assert!(said.contains(left), "{said}");
    assert!(said.ends_with(", 0 refused\n"), "{said}");

    let again = stdout(&run(project.path(), &["baseline", "update"], 0));
    assert!(
        again.ends_with("0 values changed in 0 files, 0 refused\n"),
        "{again}"
    );

    let shown = stdout(&run(project.path(), &["baseline", "show", "dial"], 0));
    assert!(
        shown.starts_with("dial/default resources [sm_90, nvcc 13."),
        "{shown}"
    );
    assert_eq!(shown.lines().count(), 2, "{shown}");
    refused(
        project.path(),
        &["baseline", "show", "dail"],
        "error: no kernel with a baseline matches\n  help: there are copy, dial\n",
    );
    // A case that was new is compared from now on.
    let output = run(project.path(), &["run"], 0);
    assert!(
        !stdout(&output).contains("new, without any baseline"),
        "{}",
        stdout(&output)
    );
}

/// Without the detour through shared memory, and a warp takes a half of each sector: some counters are better, and others
/// are worse.
fn scatter(dir: &Path) {
    let file = dir.join("copy.cu");
    let text = fs::read_to_string(&file).unwrap();
    let (head, _) = text.split_once("    __shared__").unwrap();
    let body = "    const int t = threadIdx.x;
    const int i = blockIdx.x * 256 + t % 8 * 32 + t / 8;
    if (i < n) y[i] = x[i];
}
";
    fs::write(&file, format!("{head}{body}")).unwrap();
}

/// The baseline of `copy` that holds its counters.
fn agreed_counters(dir: &Path) -> Vec<u8> {
    let files = fs::read_dir(dir.join("baselines/copy/default")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let is_counters = |path: &PathBuf| path.display().to_string().contains("/counters-");
    let found: Vec<_> = files.filter(is_counters).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    fs::read(&found[0]).unwrap()
}

fn wins(dir: &Path) -> Vec<Value> {
    let report: Value = serde_json::from_str(&report(dir)).unwrap();
    report["wins"].as_array().unwrap().clone()
}

#[test]
fn an_update_refuses_what_is_worse_until_it_is_allowed() {
    let project = project();
    let dir = project.path();
    simulate(dir, &["copy"], 0);
    run(dir, &["baseline", "update", "copy"], 0);
    let before = agreed_counters(dir);
    scatter(dir);
    let said = simulate(dir, &["copy"], 1);
    assert_eq!(gates_that_failed(dir), ["counters +0%"]);
    // Fewer instructions and no shared memory, and still nothing is offered.
    assert_eq!(wins(dir), Vec::<Value>::new(), "{said}");

    let said = stdout(&run(dir, &["baseline", "update", "copy"], 1));
    let mut lines = said.lines().map(|line| line.split_whitespace());
    let mut line = || lines.next().unwrap().collect::<Vec<_>>().join(" ");
    assert_eq!(line(), "worse than agreed metric agreed now change");
    line();
    assert_eq!(
        line(),
        "copy/default@small global_load_sectors 125 250 100.0 % more"
    );
    assert!(said.contains("`--allow-worse` accepts them"), "{said}");
    assert!(!said.contains("0 refused"), "{said}");
    assert_eq!(agreed_counters(dir), before);
    simulate(dir, &["copy"], 1);

    let said = stdout(&run(
        dir,
        &["baseline", "update", "--allow-worse", "copy"],
        0,
    ));
    assert!(said.starts_with("worse than agreed "), "{said}");
    assert!(said.contains("accepted, as `--allow-worse` says"), "{said}");
    assert!(said.ends_with(", 0 refused\n"), "{said}");
    assert_ne!(agreed_counters(dir), before);
    simulate(dir, &["copy"], 0);
}

#[test]
fn an_update_takes_what_is_better_without_a_question() {
    let project = project();
    let dir = project.path();
    scatter(dir);
    simulate(dir, &["copy"], 0);
    run(dir, &["baseline", "update", "copy"], 0);
    edit(&dir.join("copy.cu"), "t % 8 * 32 + t / 8", "t");
    simulate(dir, &["copy"], 0);
    let better: Vec<_> = wins(dir).iter().map(|win| win["metric"].clone()).collect();
    assert!(better.contains(&"global_load_sectors".into()), "{better:?}");
    let said = stdout(&run(dir, &["baseline", "update", "copy"], 0));
    assert!(
        said.contains("copy/default@small global_load_sectors: 250 -> 125 (50.0 % less)\n"),
        "{said}"
    );
    assert!(!said.contains("worse"), "{said}");
}

#[test]
fn a_run_without_a_baseline_for_its_gpu_says_which_gpus_have_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = fixture::record();
    for baseline in &mut record.policy.baselines {
        if let BaselineKey::Times { gpu, .. } = &mut baseline.key {
            *gpu = "NVIDIA H200".to_owned();
        }
    }
    let record = write_record(dir.path(), "record.json", &record);
    let said = stdout(&run(dir.path(), &["judge", &record], 3));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = "the baselines are for NVIDIA H200, this is NVIDIA H100 80GB HBM3; accept what it measured with \
                `gatekeeper baseline update`";
    assert!(said.contains(says), "{said}");
    // Another run would end in the same way.
    assert!(said.contains("$ gatekeeper baseline update"), "{said}");
    assert!(!said.contains("$ gatekeeper run"), "{said}");
}

#[test]
fn a_record_of_another_project_is_refused() {
    let one = after_a_run(&["copy"]);
    let record = one.path().join(RECORD).display().to_string();
    let other = copy_of("examples/launcher");
    refused(
        other.path(),
        &["baseline", "update", "--record", &record],
        &format!(
            "error: no case of {record} is among those of gates.yaml\n  \
             help: is it the record of another project, or of a run with other filters?\n"
        ),
    );
    refused(
        one.path(),
        &["baseline", "update", "dial"],
        &format!(
            "error: no case of {RECORD} is among those of gates.yaml that the filters pick\n  \
             help: is it the record of another project, or of a run with other filters?\n"
        ),
    );
    for project in [&one, &other] {
        assert!(!project.path().join("baselines").exists());
    }
    run(other.path(), &["run"], 0);
    refused(
        other.path(),
        &["compare", &record, RECORD],
        &format!(
            "error: {record} and {RECORD} have no case in common\n  \
             help: compare two records of one project, made with the same filters\n"
        ),
    );
}

/// A run of one shape knows nothing of what is the worst over all shapes (`shared`), and must not take it
/// away from a run of all of them that is accepted at the same time.
#[test]
fn two_updates_at_once_lose_nothing() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "small: {N: 1000}",
        "small: {N: 1000}\n      large: {N: 2000}",
    );
    run(dir, &["run", "--provision", "--out", "all"], 0);
    run(dir, &["run", "copy@small", "--out", "part"], 0);
    for round in 0..12 {
        let mut updates =
            ["all/record.json", "part/record.json", "all/record.json"].map(|record| {
                Command::new(gatekeeper().get_program())
                    .current_dir(dir)
                    .args(["baseline", "update", "--record", record])
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            });
        for update in &mut updates {
            let code = update.wait().unwrap().code();
            // Without a GPU, times and correctness are refused.
            assert!(matches!(code, Some(0 | 1)), "{code:?}");
        }
        let shown = stdout(&run(dir, &["baseline", "show", "copy"], 0));
        for figure in ["registers 10", "shared 1 KiB", "occupancy 100 %"] {
            assert!(shown.contains(figure), "round {round}: {shown}");
        }
        fs::remove_dir_all(dir.join("baselines")).unwrap();
    }
}

#[test]
fn a_broken_baseline_is_not_a_pass() {
    let project = after_a_run(&[]);
    let dir = project.path();
    gatekeeper()
        .current_dir(dir)
        .args(["baseline", "update"])
        .output()
        .unwrap();
    let kernel = dir.join("baselines/dial/default");
    let file = fs::read_dir(&kernel)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.display().to_string().contains("/resources-"))
        .unwrap();
    let good = fs::read_to_string(&file).unwrap();
    for (broken, code, says) in [
        (good[..good.len() / 2].to_owned(), 1, "it is cut short"),
        (String::new(), 1, "it is cut short"),
        (good.replace("\"value\": 12.0", "\"value\": \"NaN\""), 1, ""),
        (
            good.replace("baseline/1", "baseline/2"),
            1,
            "a newer one wrote it",
        ),
        (
            good.replace("\"dial\"", "\"copy\""),
            1,
            "by its content, it should be at",
        ),
    ] {
        assert_ne!(broken, good);
        fs::write(&file, &broken).unwrap();
        let output = run(dir, &["run", "dial"], code);
        let said = stdout(&output);
        assert!(said.contains("registers +0%"), "{said}");
        // A figure that means nothing concerns only the gates that need it.
        assert_eq!(
            said.contains("baseline can be read"),
            !broken.contains("NaN"),
            "{said}"
        );
        assert!(said.replace("\n    ", " ").contains(says), "{said}");
    }
    // Also where no gate needs it; another kernel's is only reported.
    fs::write(&file, &good[..good.len() / 2]).unwrap();
    let gates = dir.join("gates.yaml");
    let agreed = "registers: [\"<= 32\", \"+0%\"]";
    edit(&gates, agreed, "registers: 32");
    let said = stdout(&run(dir, &["run", "dial"], 1));
    assert!(
        said.contains("\n\n✗ dial/default [sm_90]  baseline can be read "),
        "{said}"
    );
    let said = stdout(&run(dir, &["run", "copy"], 0));
    assert!(said.contains("cannot be read"), "{said}");
    edit(
        &gates,
        "registers: 32\n      stack: 0\n      max_err: [",
        &format!("{agreed}\n      stack: 0\n      max_err: ["),
    );
    run(dir, &["run", "dial"], 1);
    // Nothing of the user's is written over.
    run(dir, &["baseline", "update"], 2);
    fs::write(&file, &good).unwrap();
    run(dir, &["run", "dial"], 0);
    fs::write(dir.join("baselines/stray.json"), "{}").unwrap();
    refused(
        dir,
        &["run"],
        "error: baselines/stray.json: not a baseline\n  \
         help: a baseline is baselines/<kernel>/<variant>/<facet>-<key>.json; move or remove this file\n",
    );
}

#[test]
fn a_kernel_that_ran_whole_is_whole_without_the_others() {
    let project = after_a_run(&["copy"]);
    let dir = project.path();
    gatekeeper()
        .current_dir(dir)
        .args(["baseline", "update"])
        .output()
        .unwrap();
    let shown = stdout(&run(dir, &["baseline", "show", "copy"], 0));
    for figure in ["shared 1 KiB", "occupancy 100 %", "blocks_per_sm "] {
        assert!(shown.contains(figure), "{shown}");
    }
}

/// Copied out of a report, a command works where the run was started.
#[test]
fn commands_of_a_report_find_the_gates_file() {
    let project = project();
    let dir = project.path();
    fs::rename(dir.join("gates.yaml"), dir.join("other.yaml")).unwrap();
    run(
        dir,
        &["run", "--provision", "--config", "other.yaml", "copy"],
        0,
    );
    edit(&dir.join("other.yaml"), "registers: 32", "registers: 1");
    let said = stdout(&run(dir, &["run", "--config", "other.yaml", "copy"], 1));
    let command = "gatekeeper run --device sim --config 'other.yaml' 'copy/default'";
    assert!(said.contains(command), "{said}");
    run(dir, &["run", "--config", "other.yaml", "copy/default"], 1);
}

/// A run that ends before it has a record leaves none that could be accepted in its place.
#[test]
fn a_run_that_fails_leaves_no_record_of_an_earlier_one() {
    let project = after_a_run(&["copy"]);
    let dir = project.path();
    let out = dir.join("gatekeeper-out");
    fs::write(out.join("mine.txt"), "kept").unwrap();
    // A mistake in the command or in gates.yaml is reported before anything is touched.
    run(dir, &["run", "cpoy"], 2);
    assert!(out.join("record.json").exists());
    fs::create_dir(dir.join("baselines")).unwrap();
    fs::write(dir.join("baselines/stray.json"), "{}").unwrap();
    run(dir, &["run", "copy"], 2);
    let left: Vec<_> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["mine.txt"]);
    fs::remove_dir_all(dir.join("baselines")).unwrap();
    let output = run(dir, &["baseline", "update"], 2);
    assert!(common::stderr(&output).contains("there is no record"));
}

#[test]
fn annotations_stand_at_the_line_that_asks() {
    let project = project();
    let dir = project.path();
    edit(&dir.join("gates.yaml"), "registers: 32", "registers: 1");
    run(dir, &["run", "--provision", "copy"], 1);
    for (command, code) in [("report", 0), ("judge", 1)] {
        let said = stdout(&run(dir, &[command, RECORD, "--format", "github"], code));
        assert!(
            said.starts_with(
                "::error file=gates.yaml,line=21,title=copy/default [sm_90]%3A registers is 10%2C limit <= 1::"
            ),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn the_ladder_of_a_record_is_printed_for_people_and_for_programs() {
    let dir = tempfile::tempdir().unwrap();
    write_record(dir.path(), "r.json", &fixture::record());
    let ladder = |format: &str| {
        let args = ["report", "r.json", "--ladder", "--format", format];
        stdout(&run(dir.path(), &args, 0))
    };
    for format in ["terminal", "markdown"] {
        let said = ladder(format);
        let row = said.lines().find(|line| {
            let cells: Vec<_> = line
                .split([' ', '|', '`'])
                .filter(|cell| !cell.is_empty())
                .collect();
            cells == ["fast", "80", "1.25", "1.25", "96", "5"]
        });
        assert!(row.is_some(), "{format}: {said}");
    }
    assert!(ladder("json").contains("1.25 times as fast as direct"));
    let by_itself = stdout(&run(dir.path(), &["report", "r.json", "--ladder"], 0));
    assert_eq!(by_itself, ladder("terminal"));
    refused(
        dir.path(),
        &["report", "r.json", "--ladder", "--format", "junit"],
        "error: --ladder is printed as terminal, markdown or json\n",
    );
}
