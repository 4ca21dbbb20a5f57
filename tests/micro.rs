//! `micro` through the binary: every configuration of the tile is right in the simulator, wrong ones are dropped, and
//! without a GPU nothing is ranked.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{has_gpu, refused, run, stderr, stdout};
use serde_json::Value;
use std::path::Path;

fn micro(dir: &Path, args: &[&str], code: i32) -> Value {
    let mut all = vec!["micro", "--provision", "--format", "json"];
    all.extend(args);
    serde_json::from_str(&stdout(&run(dir, &all, code))).unwrap()
}

fn count(of: &Value) -> usize {
    of.as_array().unwrap().len()
}

/// Those that `micro` sweeps by default.
#[test]
fn every_configuration_is_right_in_the_simulator() {
    let dir = tempfile::tempdir().unwrap();
    let said = micro(dir.path(), &["--device", "sim"], 3);
    assert_eq!(said["schema"], "gatekeeper.micro/1");
    assert_eq!(said["dropped"], serde_json::json!([]));
    assert_eq!(count(&said["unranked"]), 108);
    // What has no clock is no seed.
    assert_eq!((count(&said["ranked"]), count(&said["seeds"])), (0, 0));
    assert_eq!(said["device"], Value::Null);
    let csv = std::fs::read_to_string(dir.path().join("gatekeeper-out/micro.csv")).unwrap();
    assert_eq!(csv.lines().count(), 109);
    assert!(
        csv.contains("\n,64,32,2,8,,,,,,,clock,simulator-asked,,,13."),
        "{csv}"
    );
}

/// 48 does not divide the keys, so that some are left out; sixteen tiles are more than there is shared memory for; and
/// 40 queries are no whole warps.
#[test]
fn a_configuration_that_is_wrong_is_dropped_by_the_gate_that_shows_it() {
    let dir = tempfile::tempdir().unwrap();
    let sweep = "--device sim --block-m 40,64 --block-k 48,64 --stages 2,16 --vec-width 8";
    let sweep: Vec<&str> = sweep.split(' ').collect();
    let said = micro(dir.path(), &sweep, 3);
    assert_eq!(
        said["unranked"],
        serde_json::json!([{"BLOCK_M": 64, "BLOCK_K": 64, "STAGES": 2, "VEC_WIDTH": 8}])
    );
    let codes = |m: i64, k: i64, s: i64| {
        let dropped = said["dropped"].as_array().unwrap().iter();
        let of_it = dropped.filter(|it| {
            it["define"]
                == serde_json::json!({"BLOCK_M": m, "BLOCK_K": k, "STAGES": s, "VEC_WIDTH": 8})
        });
        let codes = of_it.map(|it| (it["gate"].clone(), it["code"].clone()));
        codes.collect::<Vec<_>>()
    };
    let one = |gate: &str, code: &str| vec![(Value::from(gate), Value::from(code))];
    assert_eq!(codes(64, 48, 2), one("max_err <= 0.001", "beyond-limit"));
    assert_eq!(codes(64, 64, 16), one("occupancy >= 1 %", "beyond-limit"));
    assert_eq!(codes(40, 64, 2), one("built", "does-not-compile"));
    assert_eq!(count(&said["dropped"]), 7);
}

#[test]
fn nothing_is_ranked_without_a_gpu() {
    if has_gpu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let one = "micro --provision --block-m 64 --block-k 64 --stages 2 --vec-width 8";
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
    let line = |m: i64, cost: f64| {
        format!(
            "{{\"event\":\"evaluated\",\"values\":{{\"BLOCK_M\":{m}}},\"outcome\":{{\"kind\":\"timed\",\"cost\":{cost}}}}}\n"
        )
    };
    let log = [line(32, 1.2), line(64, 0.8), line(128, 0.9)].concat();
    std::fs::write(dir.path().join("log.jsonl"), &log).unwrap();
    let args = ["micro", "--from", "micro.json", "--against", "log.jsonl"];
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
    std::fs::write(dir.path().join("log.jsonl"), "{}\n").unwrap();
    let said = stderr(&run(dir.path(), &args, 2));
    assert!(
        said.starts_with("error: log.jsonl:1: no line of a log of `tune`"),
        "{said}"
    );
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
        refused(dir.path(), &["micro", "--as", written], &says);
    }
    refused(
        dir.path(),
        &["micro", "--as", "STAGES=BLOCK_M"],
        "error: --as STAGES=BLOCK_M: another macro is called BLOCK_M\n",
    );
}

/// `cargo test --test micro on_a_gpu -- --ignored --nocapture`
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn on_a_gpu_all_are_ranked() {
    let dir = tempfile::tempdir().unwrap();
    let said = micro(dir.path(), &[], 0);
    let ranked = said["ranked"].as_array().unwrap();
    assert_eq!(ranked.len() + count(&said["dropped"]), 108);
    assert!(ranked.len() > 50, "{said}");
    assert_eq!(count(&said["seeds"]), 10);
    let cycles: Vec<f64> = ranked
        .iter()
        .map(|it| it["cycles_per_query"].as_f64().unwrap())
        .collect();
    assert!(cycles.is_sorted() && cycles[0] > 0.0, "{cycles:?}");
    // Repeats within one launch agree: what lies between the quartiles is little beside the whole.
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
