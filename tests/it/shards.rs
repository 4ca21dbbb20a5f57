//! Tests `run --shard` and `merge` from outside: the parts give the same as the whole, and parts that do not belong
//! together give no whole.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{commit_all, edit, git, refused, run, stderr, stdout, write_record};
use judge::fixture;
use model::{DeviceFacts, Record, Seen};
use records::store::read_record;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The gates. `copy` has two variants that are compared, one whose failure is expected at one of the shapes, and four
/// shapes, which are the groups that stay together.
const GATES: &str = "version: 1
architectures: [sm_90]
kernels:
  copy:
    source: copy.cu
    entry: copy
    variants:
      default: {}
      tagged: {define: {TAG: 1}, gates: {conditions: [\"registers <= default.registers + 8\"]}}
      wrong: {define: {WRONG: 1}, expect: {fail: [max_err]}}
    shapes: {n1: {N: 1000}, n2: {N: 2000}, n3: {N: 3000}, n4: {N: 4000}}
    seeds: 2
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {i32: N}]
    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}
    reference: {unary: {x: x, out: y, op: copy}}
    gates:
      registers: [32, \"+0%\"]
      spills: 0
      max_err: 0
      counters: \"+0%\"
";

const SOURCE: &str = "extern \"C\" __global__ void copy(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
#if defined WRONG
    if (i < n) y[i] = n == 3000 && i == 7 ? x[i] + 1.0f : x[i];
#elif defined TAG
    if (i < n) y[i] = i < 8 ? x[i] : x[i] * 1.0f + 0.0f;
    if (n < 0) y[1] = 0;
#else
    if (i < n) y[i] = x[i];
#endif
}
";

fn repository() -> tempfile::TempDir {
    let project = tempfile::tempdir().unwrap();
    let dir = project.path();
    fs::write(dir.join("gates.yaml"), GATES).unwrap();
    fs::write(dir.join("copy.cu"), SOURCE).unwrap();
    fs::write(dir.join(".gitignore"), "out\n").unwrap();
    git(dir, &["init", "--quiet"]);
    commit_all(dir);
    project
}

/// Runs every shard, and returns the exit codes.
fn run_shards(dir: &Path, of: u32, more: &[&str]) -> Vec<i32> {
    let shard = |number: u32| {
        let (part, out) = (format!("{number}/{of}"), out(number, of));
        let run = ["run", "--provision", "--device", "sim"];
        let own = ["--shard", &part, "--out", &out];
        let all = [&run, &own[..], more].concat();
        let mut gatekeeper = common::gatekeeper();
        let done = gatekeeper.current_dir(dir).args(&all).output().unwrap();
        assert!(
            stderr(&done).contains(&format!("shard {part} of plan ")),
            "{done:?}"
        );
        done.status.code().unwrap()
    };
    (1..=of).map(shard).collect()
}

fn out(number: u32, of: u32) -> String {
    format!("out/{number}-of-{of}")
}

fn record(number: u32, of: u32) -> String {
    format!("{}/record.json", out(number, of))
}

fn merge(dir: &Path, of: u32, code: i32) -> String {
    let records: Vec<_> = (1..=of).map(|number| record(number, of)).collect();
    let records: Vec<_> = records.iter().map(String::as_str).collect();
    let args = [&["merge", "--out", "out/merged"], &records[..]].concat();
    stdout(&run(dir, &args, code))
}

/// Returns a report without the facts about when, where and how long it ran.
fn facts(dir: &Path, out: &str) -> Value {
    let text = fs::read_to_string(dir.join(out).join("report.json")).unwrap();
    let mut report: Value = serde_json::from_str(&text).unwrap();
    for told in ["environment", "costs"] {
        assert!(report.as_object_mut().unwrap().remove(told).is_some());
    }
    report
}

#[test]
fn the_shards_judged_together_are_the_run_judged_whole() {
    let project = repository();
    let dir = project.path();
    let whole = [
        "run",
        "--provision",
        "--device",
        "sim",
        "--out",
        "out/whole",
    ];
    run(dir, &whole, 0);
    let update = ["baseline", "update", "--record", "out/whole/record.json"];
    run(dir, &update, 0);
    commit_all(dir);
    // Head behaves differently from its base, which is not worse.
    edit(&dir.join("copy.cu"), "i < 8", "i < 9");
    let beside = ["--base", "HEAD"];
    run(dir, &[&whole[..], &beside].concat(), 0);
    let whole = facts(dir, "out/whole");
    let counts = &whole["counts"];
    assert!(counts["pass"].as_u64() > Some(50), "{counts}");
    assert_eq!(counts["expected"], 1, "{counts}");
    assert!(!whole["base"].is_null());
    for of in 1..=4 {
        assert_eq!(run_shards(dir, of, &beside), vec![0; of as usize]);
        merge(dir, of, 0);
        assert_eq!(facts(dir, "out/merged"), whole, "{of} shards");
        let merged = read_record(&dir.join("out/merged/record.json")).unwrap();
        let parts = &merged.environment.parts;
        assert_eq!(parts.len(), of as usize);
        let cases: BTreeSet<_> = parts.iter().flat_map(|part| &part.cases).collect();
        assert_eq!(cases.len(), 12);
        assert_eq!(merged.took.len(), 12);
        let report = fs::read_to_string(dir.join("out/merged/report.md")).unwrap();
        let told = format!(
            ", merged from {of} shard{}, ",
            if of == 1 { "" } else { "s" }
        );
        assert!(report.contains(&told), "{report}");
    }
    // The record is judged again to the same bytes.
    let again = run(
        dir,
        &["judge", "out/merged/record.json", "--format", "json"],
        0,
    );
    let written = fs::read_to_string(dir.join("out/merged/report.json")).unwrap();
    assert_eq!(stdout(&again), written);

    refused(
        dir,
        &["run", "--shard", "1/5"],
        "error: --shard 1/5: there is work for 4 shards at most, as the variants of a kernel at one shape stay together\n  \
         help: use --shard N/4, or fewer\n",
    );
}

#[test]
fn a_case_that_fails_in_one_shard_fails_the_whole() {
    let project = repository();
    let dir = project.path();
    edit(
        &dir.join("copy.cu"),
        "if (i < n) y[i] = x[i];",
        "if (i < n) y[i] = n == 2000 ? 0.0f : x[i];",
    );
    let mut codes = run_shards(dir, 4, &[]);
    codes.sort_unstable();
    assert_eq!(codes, [0, 0, 0, 1]);
    // A shard that is green by itself does not make the whole green.
    let green = fs::read_to_string(dir.join(out(1, 4)).join("report.md")).unwrap();
    assert!(green.contains(", shard 1/4, "), "{green}");
    let said = merge(dir, 4, 1);
    assert!(said.contains("✗ copy/default@n2  max_err"), "{said}");
}

/// No shard has the case, and no filter excluded it.
#[test]
fn a_case_that_the_base_has_and_head_has_not_is_seen_when_the_shards_are_merged() {
    let project = repository();
    let dir = project.path();
    edit(&dir.join("gates.yaml"), ", n4: {N: 4000}", "");
    assert_eq!(run_shards(dir, 2, &["--base", "HEAD"]), [0, 0]);
    let said = merge(dir, 2, 1);
    assert!(said.contains("head has no copy/default@n4"), "{said}");
}

#[test]
fn incomplete_shards_are_refused() {
    let project = repository();
    let dir = project.path();
    assert_eq!(run_shards(dir, 3, &[]), [0, 0, 0]);
    let [one, two, three] = [1, 2, 3].map(|number| record(number, 3));
    let merge = |records: &[&str], says: &str| {
        refused(
            dir,
            &[&["merge", "--out", "out/merged"], records].concat(),
            says,
        );
    };
    merge(
        &[&one, &three],
        "error: on the simulator there is no shard 2/3\n  \
         help: all shards of a run have to be of one GPU model and driver\n  \
         help: run what is missing: gatekeeper run --shard 2/3\n",
    );
    let again = "out/again.json";
    fs::copy(dir.join(&two), dir.join(again)).unwrap();
    merge(
        &[&one, &two, &three, again],
        "error: out/again.json: it is shard 2/3, and so is out/2-of-3/record.json\n  \
         help: name the record of each shard once; of one that was run again, the newer\n",
    );
    let whole = ["run", "--device", "sim", "--out", "out/whole"];
    run(dir, &whole, 0);
    let whole = "out/whole/record.json";
    merge(
        &[&one, whole],
        "error: out/whole/record.json: it is of the same GPU model as out/1-of-3/record.json, and one of the two is of all cases\n  \
         help: name the record of each shard once; of one that was run again, the newer\n",
    );

    // The parts are of four shards and of three, or were distributed by costs, or have other seeds or other sources.
    assert_eq!(run_shards(dir, 4, &[]), [0, 0, 0, 0]);
    let foreign = |other: &str, problem: &str, help: &str| {
        let says = format!(
            "error: {other}: it is no part of the run of {one}: {problem}\n  help: {help}\n"
        );
        merge(&[&one, other], &says);
    };
    let dealt = "its cases were dealt out otherwise";
    let help = "give every shard the same N, and the same record as --costs";
    foreign(&record(2, 4), dealt, help);
    let mut costly = read_record(&dir.join(whole)).unwrap();
    for took in &mut costly.took {
        took.ms = if took.case.shape == "n4" { 1000 } else { 1 };
    }
    write_record(dir, "out/costly.json", &costly);
    run_shards(dir, 2, &["--costs", "out/costly.json"]);
    let alone = read_record(&dir.join(record(1, 2))).unwrap();
    let shapes: BTreeSet<_> = alone.plan.cases.iter().map(|case| &case.id.shape).collect();
    assert_eq!(shapes, [&"n4".to_owned()].into(), "dealt by costs");
    foreign(&record(2, 2), dealt, help);
    costly.took.clear();
    write_record(dir, "out/nothing.json", &costly);
    refused(
        dir,
        &["run", "--shard", "1/2", "--costs", "out/nothing.json"],
        "error: out/nothing.json: the record does not say what any of these cases costs\n  \
         help: name the record of a run of them, or leave --costs out\n",
    );
    let one_shard = [
        "run",
        "--device",
        "sim",
        "--shard",
        "2/3",
        "--out",
        "out/other",
    ];
    run(dir, &[&one_shard[..], &["--seeds", "7"]].concat(), 0);
    foreign(
        "out/other/record.json",
        "its plan is another",
        "give every shard the same filters and options",
    );
    run(dir, &[&one_shard[..], &["--base", "HEAD"]].concat(), 0);
    foreign(
        "out/other/record.json",
        "it was held against another base",
        "name a commit as --base: a branch may have moved between two shards",
    );
    edit(&dir.join("copy.cu"), "i < 8", "i < 9");
    run(dir, &one_shard, 0);
    foreign(
        "out/other/record.json",
        "its sources are others",
        "run every shard in a clone of one commit, without other changes, and with the same --config",
    );

    // One job was ended while it wrote, and somebody edited a record.
    let text = fs::read_to_string(dir.join(&two)).unwrap();
    fs::write(dir.join(again), &text[..text.len() / 2]).unwrap();
    let args = ["merge", &one, again, &three];
    let said = stderr(&run(dir, &args, 2));
    assert!(
        said.contains("out/again.json") && said.contains("cut short"),
        "{said}"
    );
    let edited = text.replacen("\"number\":2", "\"number\":3", 1);
    assert_ne!(edited, text);
    fs::write(dir.join(again), edited).unwrap();
    let said = stderr(&run(dir, &args, 2));
    assert!(said.contains("was changed after it was written"), "{said}");
    refused(
        dir,
        &["merge", &one, &two, &three, "--out", &out(1, 3)],
        "error: out/1-of-3/record.json: the merged record would take its place\n  help: name another directory: --out DIR\n",
    );
    // None of these attempts changed a record, so a shard that is run again completes the whole.
    assert!(!dir.join("out/merged").exists());
}

#[test]
fn outside_git_nobody_knows_of_which_sources_a_shard_is() {
    let project = repository();
    let dir = project.path();
    fs::remove_dir_all(dir.join(".git")).unwrap();
    assert_eq!(run_shards(dir, 2, &[]), [0, 0]);
    let (one, two) = (record(1, 2), record(2, 2));
    refused(
        dir,
        &["merge", &one, &two],
        "error: out/1-of-2/record.json: it does not say of which sources it is, as it was not run in a git repository\n  \
         help: run every shard in a clone of one commit\n",
    );
}

/// Returns the record of a run on a GPU of this model.
fn on(name: &str, change: impl FnOnce(&mut Record)) -> Record {
    let mut record = fixture::record();
    record.environment.sources = Some("5eed".to_owned());
    if let Seen::Got(device) = &mut record.environment.device {
        *device = DeviceFacts {
            name: name.to_owned(),
            uuid: format!("GPU-{name}"),
            ..device.clone()
        };
    }
    change(&mut record);
    record
}

#[test]
fn gpu_models_stand_side_by_side_and_the_worst_decides() {
    let project = tempfile::tempdir().unwrap();
    let dir = project.path();
    let h100 = write_record(dir, "h100.json", &on("NVIDIA H100 80GB HBM3", |_| {}));
    let l4 = on("NVIDIA L4", |record| {
        let wrong = fixture::case_id("fast", "small");
        fixture::recheck(record, &wrong, |_, facts| {
            facts.error.max_err = f64::NAN.into();
        });
    });
    let l4 = write_record(dir, "l4.json", &l4);
    let a10g = write_record(dir, "a10g.json", &on("NVIDIA A10G", |_| {}));
    let output = run(dir, &["merge", &h100, &l4, &a10g], 1);
    let said = stdout(&output);
    let title = "FAIL on 3 GPU models: H100 80GB HBM3 PASS, L4 FAIL, A10G INCONCLUSIVE";
    assert_eq!(said.lines().last(), Some(title), "{said}");
    let row = |text: &str| {
        said.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|line| line.starts_with(text))
            .collect::<Vec<_>>()
    };
    assert_eq!(row("k/fast@small max_err").len(), 2, "{said}");
    assert!(
        row("k/fast@small max_err")[0].contains("pass fail ["),
        "{said}"
    );
    let read = |name: &str| fs::read_to_string(dir.join("gatekeeper-out").join(name)).unwrap();
    assert!(read("report.md").starts_with(&format!("## gatekeeper: {title}\n")));
    assert!(read("report.html").contains("href=\"on-l4/report.html\""));
    let json: Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(json["exit_code"], 1);
    assert_eq!(json["models"][1]["dir"], "on-l4");
    assert_eq!(
        json["models"][1]["counts"]["fail"].as_u64(),
        Some(2),
        "{json}"
    );
    // Each is a complete record by itself.
    let alone = ["judge", "gatekeeper-out/on-l4/record.json"];
    run(dir, &alone, 1);
    // The baselines of times belong to another model.
    run(dir, &["judge", "gatekeeper-out/on-a10g/record.json"], 3);

    // A whole needs all of its shards on one model.
    refused(
        dir,
        &["merge", &h100, &h100],
        &format!(
            "error: {h100}: it is of the same GPU model as {h100}, and one of the two is of all cases\n  \
             help: name the record of each shard once; of one that was run again, the newer\n"
        ),
    );
}
