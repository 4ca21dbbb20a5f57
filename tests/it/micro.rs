//! `micro` through the binary: every configuration of the tile is right in the simulator, wrong ones are dropped, and
//! without a GPU nothing is ranked.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{has_gpu, refused, run, stderr, stdout};
use serde_json::Value;
use std::path::Path;

fn rank(dir: &Path, args: &[&str], code: i32) -> Value {
    let mut all = vec!["tune", "--rank", "--provision", "--format", "json"];
    all.extend(args);
    serde_json::from_str(&stdout(&run(dir, &all, code))).unwrap()
}

fn count(of: &Value) -> usize {
    of.as_array().unwrap().len()
}

/// The corners of the default sweep; on a GPU every configuration is checked before it is ranked.
#[test]
fn the_smallest_and_the_largest_configurations_are_right_in_the_simulator() {
    let dir = tempfile::tempdir().unwrap();
    let sweep = "--device sim --block-m 32,128 --block-k 32,128 --stages 1,4 --vec-width 2,8";
    let said = rank(dir.path(), &sweep.split(' ').collect::<Vec<_>>(), 3);
    assert_eq!(said["schema"], "gatekeeper.micro/1");
    assert_eq!(said["dropped"], serde_json::json!([]));
    assert_eq!(count(&said["unranked"]), 16);
    // A configuration without a clock is no seed.
    assert_eq!((count(&said["ranked"]), count(&said["seeds"])), (0, 0));
    assert_eq!(said["device"], Value::Null);
    let csv = std::fs::read_to_string(dir.path().join("gatekeeper-out/micro.csv")).unwrap();
    assert_eq!(csv.lines().count(), 17);
    assert!(
        csv.contains("\n,32,32,1,8,,,,,,,clock,simulator-asked,,,13."),
        "{csv}"
    );
}

/// Sixteen tiles are more than there is shared memory for.
#[test]
fn a_configuration_that_breaks_a_gate_is_dropped_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let sweep = "--device sim --block-m 64 --block-k 64 --stages 2,16 --vec-width 8";
    let said = rank(dir.path(), &sweep.split(' ').collect::<Vec<_>>(), 3);
    let define = |stages: i64| serde_json::json!({"BLOCK_M": 64, "BLOCK_K": 64, "STAGES": stages, "VEC_WIDTH": 8});
    assert_eq!(said["unranked"], serde_json::json!([define(2)]));
    let [dropped] = said["dropped"].as_array().unwrap().as_slice() else {
        panic!("{said}")
    };
    assert_eq!(dropped["define"], define(16));
    assert_eq!(dropped["gate"], "built");
    assert_eq!(dropped["code"], "launch-impossible");
}

#[test]
fn values_that_the_tile_cannot_have_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (option, value, allowed) in [
        ("--block-m", "17", "a multiple of 16 from 16 to 512"),
        ("--block-m", "528", "a multiple of 16 from 16 to 512"),
        ("--block-m", "0", "a multiple of 16 from 16 to 512"),
        ("--block-k", "48", "16, 32, 64, 128, 256 or 512"),
        ("--block-k", "8", "16, 32, 64, 128, 256 or 512"),
        ("--stages", "0", "1 to 16"),
        ("--stages", "two", "1 to 16"),
        ("--vec-width", "3", "2, 4 or 8"),
        ("--vec-width", "16", "2, 4 or 8"),
    ] {
        let said = stderr(&run(dir.path(), &["tune", "--rank", option, value], 2));
        let says =
            format!("error: invalid value '{value}' for '{option} <N>': it can be {allowed}\n");
        assert!(said.starts_with(&says), "{said}");
    }
    assert!(!dir.path().join("gatekeeper-out").exists());
}

#[test]
fn nothing_is_ranked_without_a_gpu() {
    if has_gpu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let one = "tune --rank --provision --block-m 64 --block-k 64 --stages 2 --vec-width 8";
    let one: Vec<&str> = one.split(' ').collect();
    let said = stdout(&run(dir.path(), &one, 3));
    assert!(
        said.contains("INCONCLUSIVE: 1 of 1 configuration hold") && said.contains("[no-device]"),
        "{said}"
    );
    // A GPU that is named has to be there.
    let mut named = one.clone();
    named.extend(["--device", "cuda"]);
    run(dir.path(), &named, 4);
}

#[test]
fn a_stored_ranking_is_compared_with_a_log_of_tune() {
    let dir = tempfile::tempdir().unwrap();
    let ranked: Vec<String> = [(32, 40.0), (64, 20.0), (128, 30.0)]
        .iter()
        .map(|(m, cycles)| {
            format!(
                r#"{{"define": {{"BLOCK_M": {m}}}, "cycles_per_query": {cycles}, "quartiles": [1, 2], "registers": 1, "shared_bytes": 1, "blocks_per_sm": 1}}"#
            )
        })
        .collect();
    let ranking = format!(
        r#"{{"schema": "gatekeeper.micro/1", "gatekeeper": "0.1.0", "device": "a", "driver": "b", "compiler": "c",
            "started": "d", "seeds": [], "unranked": [], "dropped": [], "ranked": [{}]}}"#,
        ranked.join(",")
    );
    std::fs::write(dir.path().join("micro.json"), &ranking).unwrap();
    let began = r#"{"event":"began","schema":"gatekeeper.tune/1","start":"k/v","macros":{},"parameters":[["BLOCK_M",[32,64,128]]],"constraints":[],"configurations":3,"objective":{"s":1.0},"strategy":"random","seed":1,"device":"a","sources":"b","compiler":"c"}"#;
    let line = |m: i64, cost: f64| {
        format!(
            r#"{{"event":"evaluated","number":{m},"values":{{"BLOCK_M":{m}}},"code":null,"resources":null,"outcome":{{"kind":"timed","against":0,"ratio":{cost},"processes":1,"stopped":true,"cost":{cost},"p50_ns":{{}},"against_ns":{{}}}},"at_ms":1,"compile_ms":1}}"#
        ) + "\n"
    };
    // The last one was being written.
    let log = [
        format!("{began}\n"),
        line(32, 1.2),
        line(64, 0.8),
        line(128, 0.9),
        line(64, 9.0)[..40].to_owned(),
    ]
    .concat();
    std::fs::write(dir.path().join("log.jsonl"), &log).unwrap();
    let args = [
        "tune",
        "--rank",
        "--from",
        "micro.json",
        "--against",
        "log.jsonl",
    ];
    let said = stdout(&run(dir.path(), &args, 0));
    assert_eq!(
        said,
        "rank correlation (Spearman) with 3 measured combinations over BLOCK_M: 1.00; too few for an interval\n"
    );
    // One of the macros has another name in the search: there is nothing to compare.
    let mut renamed = args.to_vec();
    renamed.extend(["--as", "BLOCK_M=ROWS"]);
    let said = stdout(&run(dir.path(), &renamed, 3));
    assert!(
        said.starts_with("no macro of the tile is a parameter"),
        "{said}"
    );
    let wrong = ranking.replace("micro/1", "micro/9");
    std::fs::write(dir.path().join("micro.json"), wrong).unwrap();
    let said = stderr(&run(dir.path(), &args, 2));
    assert_eq!(
        said,
        "error: micro.json: its schema is gatekeeper.micro/9, and gatekeeper.micro/1 is expected\n"
    );
    for (log, says) in [
        ("{}\n".to_owned(), "this is no line of a log of `tune`"),
        (line(32, 1.2), "the log does not say what was searched\n"),
        (
            log.replace("tune/1", "tune/9"),
            "its schema is gatekeeper.tune/9, and gatekeeper.tune/1 is expected\n",
        ),
    ] {
        std::fs::write(dir.path().join("log.jsonl"), log).unwrap();
        let said = stderr(&run(dir.path(), &args, 2));
        assert!(
            said.starts_with(&format!("error: log.jsonl:1: {says}")),
            "{said}"
        );
    }
}

#[test]
fn renames_that_name_nothing_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let help =
        "\n  help: a macro of the tile and its name in another kernel: --as STAGES=SMEM_STAGE\n";
    for (written, why) in [
        ("STAGES", "there is no `=`"),
        (
            "STAGE=X",
            "the macros are BLOCK_M, BLOCK_K, STAGES, VEC_WIDTH",
        ),
        ("STAGES=a b", "`a b` is not the name of a macro"),
    ] {
        let says = format!("error: --as {written}: {why}{help}");
        refused(dir.path(), &["tune", "--rank", "--as", written], &says);
    }
    refused(
        dir.path(),
        &["tune", "--rank", "--as", "STAGES=BLOCK_M"],
        "error: --as STAGES=BLOCK_M: another macro is called BLOCK_M\n",
    );
}

/// `cargo test --test it micro:: on_a_gpu -- --ignored --nocapture`
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn on_a_gpu_all_are_ranked() {
    let dir = tempfile::tempdir().unwrap();
    let said = rank(dir.path(), &[], 0);
    let ranked = said["ranked"].as_array().unwrap();
    assert_eq!(ranked.len() + count(&said["dropped"]), 108);
    assert!(ranked.len() > 50, "{said}");
    assert_eq!(count(&said["seeds"]), 10);
    let cycles: Vec<f64> = ranked
        .iter()
        .map(|it| it["cycles_per_query"].as_f64().unwrap())
        .collect();
    assert!(cycles.is_sorted() && cycles[0] > 0.0, "{cycles:?}");
    // Repeats within one launch agree: what lies between the quartiles is little compared with the whole. They do not where
    // blocks end while others of their multiprocessor are still clocked.
    let wide = ranked.iter().filter(|it| {
        let of = |at: usize| it["quartiles"][at].as_f64().unwrap();
        (of(1) - of(0)) / it["cycles_per_query"].as_f64().unwrap() > 0.05
    });
    assert!(wide.count() * 10 < ranked.len(), "{said}");
    println!(
        "{}",
        std::fs::read_to_string(dir.path().join("gatekeeper-out/micro.csv")).unwrap()
    );
}
