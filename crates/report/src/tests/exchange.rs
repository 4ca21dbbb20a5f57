//! Tests formats that other people's programs read: code scanning, and test reports of CI systems.

use super::*;
use quick_xml::events::Event;
use serde_json::Value;
use std::collections::BTreeSet;

fn log(record: &Record) -> Value {
    serde_json::from_str(&rendered(record, &judged(record), sarif::render).unwrap()).unwrap()
}

fn results(log: &Value) -> &Vec<Value> {
    log["runs"][0]["results"].as_array().unwrap()
}

/// Returns the first digits of the fingerprint, level, rule, place and message of each result. Its rule and its root are
/// the log's.
pub(super) fn results_as_lines(record: &Record) -> Vec<String> {
    let log = log(record);
    let run = &log["runs"][0];
    assert_eq!(log["version"], "2.1.0");
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let exit = crate::exit::Exit::from(judged(record).conclusion) as u8;
    assert_eq!(run["invocations"][0]["exitCode"], exit);
    let prints: BTreeSet<String> = results(&log)
        .iter()
        .map(|result| result["partialFingerprints"]["gatekeeper/v1"].to_string())
        .collect();
    assert_eq!(prints.len(), results(&log).len(), "a fingerprint for each");
    results(&log)
        .iter()
        .map(|result| {
            let place = &result["locations"][0]["physicalLocation"];
            let index = result["ruleIndex"].as_u64().unwrap() as usize;
            assert_eq!(
                run["tool"]["driver"]["rules"][index]["id"],
                result["ruleId"]
            );
            assert_eq!(place["artifactLocation"]["uriBaseId"], "%SRCROOT%");
            let print = result["partialFingerprints"]["gatekeeper/v1"].as_str();
            format!(
                "{} {} {} {}:{} {}",
                print.unwrap().split_at(8).0,
                result["level"].as_str().unwrap(),
                result["ruleId"].as_str().unwrap(),
                place["artifactLocation"]["uri"].as_str().unwrap(),
                place["region"]["startLine"],
                result["message"]["text"]
                    .as_str()
                    .unwrap()
                    .replace('\n', " ")
            )
        })
        .collect()
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
        let text = rendered(&record, &judged(&record), junit::render).unwrap();
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

/// Validates a value against as much of JSON Schema as schemars writes. Returns the first misfit, by its path.
fn find_misfit(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    if schema == &Value::Bool(true) {
        return None;
    }
    let below = |schema: &Value, value: &Value, at: &str| find_misfit(root, schema, value, at);
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(name.strip_prefix('#').unwrap()).unwrap();
        if let Some(misfit) = below(target, value, at) {
            return Some(misfit);
        }
    }
    for (key, all) in [("anyOf", false), ("oneOf", false), ("allOf", true)] {
        let Some(choices) = schema[key].as_array() else {
            continue;
        };
        let misfits: Vec<_> = choices
            .iter()
            .filter_map(|choice| below(choice, value, at))
            .collect();
        let is_wrong = if all {
            !misfits.is_empty()
        } else {
            misfits.len() == choices.len()
        };
        if is_wrong {
            // The misfit of the alternative that fits furthest says most.
            return misfits
                .into_iter()
                .max_by_key(|misfit| misfit.matches('/').count());
        }
    }
    if let Some(names) = schema["enum"].as_array()
        && !names.contains(value)
    {
        return Some(format!("{at}: {value} is none of the names"));
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        return Some(format!("{at}: {value} is not {}", schema["const"]));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let is = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}"),
    };
    if !types.is_empty() && !types.iter().any(is) {
        return Some(format!("{at}: {value} is not {types:?}"));
    }
    if let Some(object) = value.as_object() {
        if let Some(name) = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .find(|name| !object.contains_key(*name))
        {
            return Some(format!("{at}: {name} is missing"));
        }
        for (key, item) in object {
            let at = format!("{at}/{key}");
            let own = &schema["properties"][key];
            let rest = &schema["additionalProperties"];
            let misfit = match (own.is_null(), rest) {
                (false, _) => below(own, item, &at),
                (true, Value::Bool(false)) => Some(format!("{at} is no property")),
                (true, Value::Null) => None,
                (true, rest) => below(rest, item, &at),
            };
            if misfit.is_some() {
                return misfit;
            }
        }
    }
    value
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
        .find_map(|(index, item)| {
            let own = &schema["prefixItems"][index];
            let of = if own.is_null() { &schema["items"] } else { own };
            let is_free = of.is_null();
            (!is_free).then(|| below(of, item, &format!("{at}/{index}")))?
        })
}

#[test]
fn records_and_reports_are_as_their_schemas_say() {
    let (of_record, of_report) = (records::store::record_schema(), json::schema());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("record.json");
    let records = [
        broken(),
        fixture::record(),
        fixture::record_simulated(),
        fixture::record_without_gpu(),
        fixture::record_against_base(),
        fixture::record_beside_rival(),
        with_targets(fixture::record()),
    ];
    for record in &records {
        records::store::write_record(&file, record).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let written: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(find_misfit(&of_record, &of_record, &written, ""), None);
        let text = rendered(record, &judged(record), json::render).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(find_misfit(&of_report, &of_report, &report, ""), None);
    }
    // A misfit is found in a changed record.
    let mut wrong = serde_json::to_value(&records[0]).unwrap();
    wrong["environment"]["started"] = 5.into();
    let wrong = serde_json::json!({"schema": "gatekeeper.record/1", "seal": "x", "record": wrong});
    let misfit = find_misfit(&of_record, &of_record, &wrong, "").unwrap();
    assert!(
        misfit.starts_with("/record/environment/started: 5"),
        "{misfit}"
    );
}
