//! What other people's programs read: code scanning, dashboards, test reports of CI systems.

use super::*;
use quick_xml::events::Event;
use serde_json::Value;
use std::collections::BTreeSet;
use verdict::model::{Finding, FindingKind};

fn log(record: &Record) -> Value {
    serde_json::from_str(&sarif::render(record, &judged(record)).unwrap()).unwrap()
}

fn results(log: &Value) -> &Vec<Value> {
    log["runs"][0]["results"].as_array().unwrap()
}

#[test]
fn each_problem_is_a_result_at_its_line_of_gates_yaml() {
    let log = log(&broken());
    let run = &log["runs"][0];
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(run["invocations"][0]["exitCode"], 1);
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let shown: Vec<String> = results(&log)
        .iter()
        .map(|result| {
            let place = &result["locations"][0]["physicalLocation"];
            let index = result["ruleIndex"].as_u64().unwrap() as usize;
            assert_eq!(
                run["tool"]["driver"]["rules"][index]["id"],
                result["ruleId"]
            );
            assert_eq!(place["artifactLocation"]["uriBaseId"], "%SRCROOT%");
            let text = result["message"]["text"].as_str().unwrap();
            format!(
                "{} {} {}:{} {}",
                result["level"].as_str().unwrap(),
                result["ruleId"].as_str().unwrap(),
                place["artifactLocation"]["uri"].as_str().unwrap(),
                place["region"]["startLine"],
                text.lines().next().unwrap()
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
error beyond-limit gates.yaml:7 k/direct [sm_90]: registers <= 128
error beyond-change gates.yaml:7 k/direct [sm_90]: registers +0%
error kernel-faulted gates.yaml:7 k/direct@small: finite, written, deterministic, inputs intact, max_err <= 0.004, max_err +10%
error driver-disagrees gates.yaml:7 k/direct@small, k/direct@large: agrees with driver
error non-finite gates.yaml:7 k/direct@large: finite
error not-a-number gates.yaml:7 k/direct@large: max_err <= 0.004, max_err +10%
error beyond-change gates.yaml:7 k/fast@small: p50 +2%
");
}

#[test]
fn what_holds_is_no_result_and_what_nobody_measured_is_none() {
    for record in [fixture::record(), fixture::record_without_gpu()] {
        assert_eq!(results(&log(&record)), &Vec::<Value>::new());
    }
}

/// The alert of one pull request and the next is one: lines and figures move.
#[test]
fn a_result_is_known_again_where_its_line_has_moved() {
    let prints = |record: &Record| -> BTreeSet<String> {
        let log = log(record);
        let prints = results(&log).iter();
        let prints = prints.map(|it| it["partialFingerprints"]["gatekeeper/v1"].to_string());
        prints.collect()
    };
    let before = broken();
    let mut after = broken();
    for gate in &mut after.policy.gates {
        if gate.declared.is_some() {
            gate.declared = Some("gates.yaml:900".into());
        }
    }
    fixture::rebuild(&mut after, "direct", |facts| {
        facts.entries[0].resources.registers = 140
    });
    assert_eq!(prints(&before), prints(&after));
    assert_eq!(prints(&before).len(), results(&log(&before)).len());
}

#[test]
fn a_race_is_shown_at_the_line_of_the_kernel() {
    let mut record = fixture::record_simulated();
    record.environment.config = "my dir/gates.yaml".into();
    let race = |number| Finding {
        kind: FindingKind::SharedRace,
        entry: None,
        message: format!("race at k.cu:{number}, see [it](http://e)"),
        places: vec![Place {
            at: format!("k.cu:{number}"),
            line: Some(SourceLine {
                file: "k.cu".into(),
                number,
                text: None,
            }),
        }],
        block: [0; 3],
        thread: [0; 3],
        address: None,
        times: 3,
    };
    for shape in ["small", "large"] {
        let of = fixture::case_id("direct", shape);
        fixture::resimulate(&mut record, &of, |_, facts| {
            if let Seen::Got(facts) = facts {
                facts.findings = vec![race(9), race(12)];
            }
        });
    }
    let log = log(&record);
    let races: Vec<_> = results(&log)
        .iter()
        .filter(|it| it["ruleId"] == "shared_race")
        .collect();
    // Once each, though two cases have them.
    let lines: Vec<_> = races
        .iter()
        .map(|it| {
            assert_eq!(it["level"], "error");
            let place = &it["locations"][0]["physicalLocation"];
            assert_eq!(place["artifactLocation"]["uri"], "my%20dir/k.cu");
            place["region"]["startLine"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(lines, [9, 12]);
    let text = races[0]["message"]["text"].as_str().unwrap();
    assert!(text.ends_with("see [it] (http://e)"), "{text}");
    let gate = results(&log).iter().find(|it| it["ruleId"] == "findings");
    let place = &gate.unwrap()["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "my%20dir/gates.yaml");
}

#[test]
fn dashboards_get_figures_and_of_a_wrong_case_no_time() {
    let right = fixture::record();
    let mut wrong = fixture::record();
    let of = fixture::case_id("direct", "small");
    fixture::recheck(&mut wrong, &of, |_, facts| facts.error.max_err = Num(1.0));
    let bencher = |record: &Record| -> Value {
        serde_json::from_str(&dashboards::bencher(record).unwrap()).unwrap()
    };
    let [right_of, wrong_of] = [&right, &wrong].map(|it| bencher(it)["k/direct@small"].clone());
    let latency = &right_of["latency"];
    let value = latency["value"].as_f64().unwrap();
    assert!(value > 1000.0, "{right_of}");
    assert!(latency["lower_value"].as_f64().unwrap() < value);
    assert!(latency["upper_value"].as_f64().unwrap() > value);
    assert_eq!(wrong_of["latency"], Value::Null);
    assert_eq!(wrong_of["max_err"]["value"], 1.0);
    let unit = &bencher(&right)["k/direct [sm_90]"];
    assert!(unit["registers"]["value"].is_number(), "{unit}");
    // More of it is better.
    assert_eq!(unit["occupancy"], Value::Null);

    let action = |record: &Record| -> Vec<Value> {
        serde_json::from_str(&dashboards::benchmark_action(record).unwrap()).unwrap()
    };
    let p50 = |record: &Record| {
        let entries = action(record);
        entries
            .into_iter()
            .find(|it| it["name"] == "k/direct@small: p50")
    };
    let entry = p50(&right).unwrap();
    assert_eq!(
        (&entry["unit"], &entry["value"]),
        (&"ns".into(), &latency["value"])
    );
    assert!(
        entry["range"].as_str().unwrap().starts_with("± "),
        "{entry}"
    );
    assert!(p50(&wrong).is_none());
    let counts = |record: &Record| {
        let entries = action(record).into_iter();
        entries
            .filter(|it| it["unit"] == "count" && it["name"].as_str().unwrap().contains("sectors"))
            .count()
    };
    assert!(counts(&fixture::record_simulated()) > 0);
}

/// The xunit plugin of Jenkins refuses a file with an attribute that its schema (junit-10.xsd) does not have. GitLab
/// reads fewer of them.
#[test]
fn junit_has_the_elements_and_attributes_that_jenkins_takes() {
    let allowed = |element: &str| -> &[&str] {
        match element {
            "testsuites" => &["name", "time", "tests", "failures", "errors"],
            "testsuite" => &[
                "name",
                "tests",
                "failures",
                "errors",
                "group",
                "time",
                "skipped",
                "timestamp",
                "hostname",
                "id",
                "package",
                "file",
                "log",
                "url",
            ],
            "testcase" => &["name", "time", "classname", "group"],
            "failure" | "error" | "skipped" => &["type", "message"],
            "property" => &["name", "value"],
            "properties" | "system-out" => &[],
            other => panic!("no element <{other}>"),
        }
    };
    for record in [broken(), fixture::record(), fixture::record_without_gpu()] {
        let text = junit::render(&record, &judged(&record)).unwrap();
        let mut reader = quick_xml::Reader::from_str(&text);
        let mut seen = 0;
        loop {
            let (Event::Start(tag) | Event::Empty(tag)) = (match reader.read_event().unwrap() {
                Event::Eof => break,
                event @ (Event::Start(_) | Event::Empty(_)) => event,
                _ => continue,
            }) else {
                unreachable!()
            };
            let element = String::from_utf8(tag.name().as_ref().to_vec()).unwrap();
            for attribute in tag.attributes() {
                let attribute = attribute.unwrap();
                let name = String::from_utf8(attribute.key.as_ref().to_vec()).unwrap();
                assert!(
                    allowed(&element).contains(&name.as_str()),
                    "{element}: {name}"
                );
                seen += 1;
            }
        }
        assert!(seen > 20, "{text}");
    }
}
