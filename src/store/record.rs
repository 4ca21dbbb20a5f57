//! Records: written once, sealed, and never judged after an edit.

use super::file::{Problem, version, write_whole};
use super::nvbench;
use crate::error::{Diagnostic, Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;
use verdict::model::{BASELINE_SCHEMA, RECORD_SCHEMA, Record};

const KIND: &str = "gatekeeper.record";
const NEWEST: u32 = 4;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: String,
    seal: String,
    record: Value,
}

/// blake3 of the record's canonical JSON: compact, and with the keys of every object in order. It is
/// taken over what the file says and not over what this version understands of it, so that it can be
/// checked before an older record is migrated.
fn seal_of(record: &Value) -> Result<String> {
    let canonical = serde_json::to_vec(record)
        .map_err(|error| Error::environment(format!("the record cannot be written: {error}")))?;
    Ok(blake3::hash(&canonical).to_hex().to_string())
}

fn value_of(record: &Record) -> Result<Value> {
    serde_json::to_value(record)
        .map_err(|error| Error::environment(format!("the record cannot be written: {error}")))
}

/// The seal that `record` has on disk.
///
/// # Errors
/// Environment, where it cannot be written as JSON.
pub fn seal(record: &Record) -> Result<String> {
    seal_of(&value_of(record)?)
}

/// Writes the record whole or not at all, and returns its seal.
///
/// # Errors
/// Environment, where the file cannot be written.
pub fn write_record(path: &Path, record: &Record) -> Result<String> {
    let record = value_of(record)?;
    let seal = seal_of(&record)?;
    let file = File {
        schema: RECORD_SCHEMA.to_owned(),
        seal: seal.clone(),
        record,
    };
    let mut text = serde_json::to_string(&file)
        .map_err(|error| Error::environment(format!("the record cannot be written: {error}")))?;
    text.push('\n');
    write_whole(path, text.as_bytes())?;
    Ok(seal)
}

/// A record, or what NVBench measured as one: its JSON file, or a directory of such files.
///
/// # Errors
/// Usage, as `read_record`; and where NVBench's files are damaged or do not belong together.
pub fn read(path: &Path) -> Result<Record> {
    if path.is_dir() {
        return nvbench::read_dir(path);
    }
    let text = text(path)?;
    match nvbench::is_nvbench(&text) {
        true => nvbench::read_file(path, &text),
        false => parse(path, &text),
    }
}

/// # Errors
/// Usage, where it is no record, is damaged, newer than this gatekeeper, or was edited.
pub fn read_record(path: &Path) -> Result<Record> {
    parse(path, &text(path)?)
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        Error::Usage(
            Diagnostic::new(format!("the record cannot be read: {error}"))
                .at(path.display().to_string())
                .help("`gatekeeper run` writes one to gatekeeper-out/record.json"),
        )
    })
}

fn parse(path: &Path, text: &str) -> Result<Record> {
    let name = path.display().to_string();
    let refuse = |problem: Problem| {
        Error::Usage(
            problem
                .diagnostic(&name)
                .help("make the record again with `gatekeeper run`"),
        )
    };
    let version = version(text, KIND, NEWEST).map_err(refuse)?;
    let file: File = serde_json::from_str(text).map_err(|error| refuse(Problem::json(&error)))?;
    let seal = seal_of(&file.record)?;
    if seal != file.seal {
        return Err(Error::Usage(
            Diagnostic::new(format!(
                "the record was changed after it was written: its seal is {}, and its content's {seal}",
                file.seal
            ))
            .at(&name)
            .help("a record is evidence, and is judged as it was written or not at all")
            .help("to judge by other limits, change gates.yaml and run again"),
        ));
    }
    match version {
        // An older version gets an arm here that puts it into the words of the next.
        1 => typed(before_the_fourth(before_the_third(before_the_simulator(
            file.record,
        ))))
        .map_err(refuse),
        2 => typed(before_the_fourth(before_the_third(file.record))).map_err(refuse),
        3 => typed(before_the_fourth(file.record)).map_err(refuse),
        4 => typed(file.record).map_err(refuse),
        other => Err(refuse(Problem::of(format!(
            "{KIND}/{other} cannot be read"
        )))),
    }
}

fn typed(record: Value) -> std::result::Result<Record, Problem> {
    let mut record: Record =
        serde_json::from_value(record).map_err(|error| Problem::json(&error))?;
    record.schema = RECORD_SCHEMA.to_owned();
    // Older baselines are read in the words of this version, on the disk and in a record.
    let policy = &mut record.policy;
    let base = policy.base.iter_mut().flat_map(|base| &mut base.baselines);
    let anchors = policy.anchors.iter_mut();
    let anchors = anchors.flat_map(|anchor| &mut anchor.baselines);
    for baseline in policy.baselines.iter_mut().chain(base).chain(anchors) {
        baseline.schema = BASELINE_SCHEMA.to_owned();
    }
    Ok(record)
}

/// Version 1 knows no simulator: nothing was simulated, and nothing was to be.
fn before_the_simulator(record: Value) -> Value {
    let absent = [
        ("environment", "simulator", Value::Null),
        ("plan", "simulation", serde_json::json!({"budget": 0})),
        ("costs", "simulator_ms", 0.into()),
    ];
    with(record, absent)
}

/// Version 2 knows no base revision: none was named; and no GPU beside the one that it names. Of others on the GPU it has the number alone.
fn before_the_third(mut record: Value) -> Value {
    let pieces = record.get_mut("evidence").and_then(Value::as_array_mut);
    for piece in pieces.into_iter().flatten() {
        if let Some(others) = piece.pointer_mut("/time/facts/got/gpu/other_processes")
            && let Some(count @ 0..=MOST_OTHERS) = others.as_u64()
        {
            let unnamed = serde_json::json!({"pid": null, "name": null});
            *others = std::iter::repeat_n(unnamed, count as usize).collect();
        }
    }
    let gpus = u32::from(record.pointer("/environment/device/got").is_some());
    let absent = [
        ("plan", "pairing", Value::Null),
        ("policy", "anchors", serde_json::json!([])),
        ("policy", "accepted", serde_json::json!([])),
        ("policy", "base", Value::Null),
        ("costs", "gpus", gpus.into()),
    ];
    with(record, absent)
}

/// Version 3 withholds all counters of a launch or none, and for one reason.
fn before_the_fourth(mut record: Value) -> Value {
    let pieces = record.get_mut("evidence").and_then(Value::as_array_mut);
    for piece in pieces.into_iter().flatten() {
        let Some(facts) = piece
            .pointer_mut("/simulation/facts/got")
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        let mut withheld = serde_json::Map::new();
        if let Some(Value::String(place)) = facts.remove("polls_at")
            && let Some(counted) = facts.get("information").and_then(Value::as_object)
        {
            let why = serde_json::json!({"doubt": "polls", "place": place});
            withheld.extend(counted.keys().map(|counter| (counter.clone(), why.clone())));
        }
        facts.insert("withheld".to_owned(), Value::Object(withheld));
    }
    record
}

/// More than ever share a GPU; a number beyond it is damage, and is refused as such.
const MOST_OTHERS: u64 = 10_000;

fn with<const N: usize>(mut record: Value, absent: [(&str, &str, Value); N]) -> Value {
    for (part, key, value) in absent {
        if let Some(part) = record.get_mut(part).and_then(Value::as_object_mut) {
            part.insert(key.to_owned(), value);
        }
    }
    record
}

#[cfg(test)]
mod tests {
    use verdict::judge::fixture;
    use super::*;
    use verdict::judge::judge;
    use verdict::model::{Counter, Doubt, Seen, Withheld};

    fn refused(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record.json");
        std::fs::write(&path, text).unwrap();
        match read_record(&path) {
            Err(Error::Usage(diagnostic)) => {
                assert!(!diagnostic.help.is_empty());
                let at = diagnostic.at.unwrap_or_default();
                format!(
                    "{}: {}",
                    at.replace(&path.display().to_string(), "R"),
                    diagnostic.message
                )
            }
            other => panic!("{other:?}"),
        }
    }

    fn written(record: &Record) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record.json");
        assert_eq!(write_record(&path, record).unwrap(), seal(record).unwrap());
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn a_record_comes_back_as_it_was_and_is_judged_to_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/record.json");
        let mut record = fixture::record();
        fixture::slow(&mut record, &fixture::case_id("direct", "small"), 103_000);
        fixture::recheck(
            &mut record,
            &fixture::case_id("fast", "small"),
            |_, facts| {
                facts.error.max_err = f64::NAN.into();
            },
        );
        write_record(&path, &record).unwrap();
        let read = read_record(&path).unwrap();
        assert_eq!(read, record);
        let judged = |record: &Record| {
            let Record {
                plan,
                environment,
                policy,
                evidence,
                ..
            } = record;
            serde_json::to_string(&judge(plan, environment, policy, evidence)).unwrap()
        };
        assert_eq!(judged(&read), judged(&record));
        write_record(&path, &read).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), written(&record));
        assert_eq!(
            std::fs::read_dir(dir.path().join("new")).unwrap().count(),
            1,
            "nothing beside it"
        );
    }

    #[test]
    fn an_edit_is_refused() {
        let text = written(&fixture::record());
        for (from, to) in [
            ("\"registers\":96", "\"registers\":95"),
            ("\"require_gpu\":false", "\"require_gpu\":true"),
            ("\"elements\":4096", "\"elements\":4096,\"smuggled\":1"),
        ] {
            let edited = text.replacen(from, to, 1);
            assert_ne!(edited, text);
            let message = refused(&edited);
            assert!(
                message.starts_with("R: the record was changed after it was written: its seal is "),
                "{message}"
            );
        }
    }

    #[test]
    fn layout_is_no_edit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record.json");
        let value: Value = serde_json::from_str(&written(&fixture::record())).unwrap();
        std::fs::write(&path, serde_json::to_string_pretty(&value).unwrap()).unwrap();
        assert_eq!(read_record(&path).unwrap(), fixture::record());
    }

    #[test]
    fn damage_has_a_name_and_a_place() {
        let text = written(&fixture::record());
        assert_eq!(
            refused(""),
            "R:1:0: it ends in the middle (EOF while parsing a value)"
        );
        assert_eq!(refused("{\n \"schema\": nan}"), "R:2:13: expected ident");
        assert_eq!(
            refused("[]"),
            "R:1:2: invalid length 0, expected struct Header with 1 element"
        );
        assert!(refused(&text[..text.len() / 2]).contains("it ends in the middle"));
        assert_eq!(
            refused(&text.replacen("gatekeeper.record/4", "gatekeeper.record/5", 1)),
            "R: it has schema gatekeeper.record/5, and this gatekeeper reads up to gatekeeper.record/4: a newer one wrote it"
        );
        for schema in [
            "gatekeeper.record/0",
            "gatekeeper.record/x",
            "gatekeeper.baseline/1",
            "",
        ] {
            assert_eq!(
                refused(&text.replacen("gatekeeper.record/4", schema, 1)),
                format!("R: its schema is `{schema}` and not gatekeeper.record/4")
            );
        }
        assert!(matches!(
            read_record(Path::new("/no/such/record.json")),
            Err(Error::Usage(_))
        ));
    }

    /// `UPDATE_GOLDEN=1` writes it, once for a version.
    #[test]
    fn version_4_is_read_as_it_was_written_then() {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/golden/record-4.json");
        let mut then = fixture::record_simulated();
        fixture::resimulate(
            &mut then,
            &fixture::case_id("direct", "small"),
            |_, facts| {
                if let Seen::Got(facts) = facts {
                    let value = facts.counters.remove(&Counter::SharedLoadWavefronts);
                    facts
                        .information
                        .extend(value.map(|n| (Counter::SharedLoadWavefronts, n)));
                    let withheld = Withheld {
                        doubt: Doubt::Joined,
                        place: "k.cu:7".to_owned(),
                    };
                    facts
                        .withheld
                        .insert(Counter::SharedLoadWavefronts, withheld);
                }
            },
        );
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            write_record(&golden, &then).unwrap();
        }
        assert_eq!(read_record(&golden).unwrap(), then);
    }

    #[test]
    fn version_3_is_read_as_it_was_written_then() {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/golden/record-3.json");
        let record = read_record(&golden).unwrap();
        assert_eq!(record, fixture::record_beside_base());
    }

    /// Then none of its counters could be gated, and none can.
    #[test]
    fn what_polled_is_withheld_for_that() {
        let mut record = serde_json::to_value(fixture::record_simulated()).unwrap();
        for piece in record["evidence"].as_array_mut().unwrap() {
            if let Some(Value::Object(facts)) = piece.pointer_mut("/simulation/facts/got") {
                facts.remove("withheld");
                facts.insert("polls_at".to_owned(), "k.cu:7".into());
                let counted = facts.insert("counters".to_owned(), serde_json::json!({}));
                let information = facts["information"].as_object_mut().unwrap();
                information.extend(counted.unwrap().as_object().unwrap().clone());
            }
        }
        let read = typed(before_the_fourth(record)).ok().unwrap();
        let mut launches = 0;
        for piece in &read.evidence {
            if let verdict::model::Evidence::Simulation { facts, .. } = piece {
                let facts = facts.got().unwrap();
                launches += 1;
                assert!(facts.counters.is_empty());
                assert!(facts.withheld.keys().eq(facts.information.keys()));
                let polls = |w: &Withheld| w.doubt == Doubt::Polls && w.place == "k.cu:7";
                assert!(facts.withheld.values().all(polls));
            }
        }
        assert!(launches > 0);
    }

    #[test]
    fn version_2_is_read_as_it_was_written_then() {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/golden/record-2.json");
        let record = read_record(&golden).unwrap();
        assert_eq!(record, fixture::record_simulated());
    }

    /// Of which there are no names: as many without one.
    #[test]
    fn a_number_of_others_becomes_that_many() {
        let mut record = serde_json::to_value(fixture::record()).unwrap();
        let pieces = record["evidence"].as_array_mut().unwrap();
        for piece in pieces {
            if let Some(others) = piece.pointer_mut("/time/facts/got/gpu/other_processes") {
                *others = 2.into();
            }
        }
        record["plan"].as_object_mut().unwrap().remove("pairing");
        record["policy"].as_object_mut().unwrap().remove("base");
        record["costs"].as_object_mut().unwrap().remove("gpus");
        let read = typed(before_the_fourth(before_the_third(record.clone())))
            .ok()
            .unwrap();
        let unnamed = verdict::model::OtherProcess {
            pid: None,
            name: None,
        };
        for piece in &read.evidence {
            if let verdict::model::Evidence::Time { facts, .. } = piece {
                let others = facts.got().unwrap().gpu.other_processes.as_ref();
                assert_eq!(others, Some(&vec![unnamed.clone(); 2]));
            }
        }
        let text = record
            .to_string()
            .replace("\"other_processes\":2", "\"other_processes\":99999999");
        let record = serde_json::from_str(&text).unwrap();
        assert!(typed(before_the_fourth(before_the_third(record))).is_err());
    }

    #[test]
    fn version_1_is_read_as_it_was_written_then() {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/golden/record-1.json");
        let record = read_record(&golden).unwrap();
        assert_eq!(record, fixture::record());
    }
}
