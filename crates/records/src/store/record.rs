//! Reads and writes records. A record is written once and sealed, and is never judged after an edit.

use super::file::{FileProblem, expect_schema, write_whole};
use super::nvbench;
use model::{OutOfRange, RECORD_SCHEMA, Record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::ErrorKind;
use std::path::Path;
use system::error::{Error, Result};
use system::files;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "record.json")]
struct SealedRecord {
    schema: String,
    seal: String,
    #[schemars(with = "Record")]
    record: Value,
}

/// Returns the blake3 hash of the record's canonical JSON, which is compact and has the keys of every object in order.
/// The hash covers what the file says and not what this version understands of it, so that an edit is found before
/// anything is made of it.
fn seal_of(record: &Value) -> Result<String> {
    let canonical =
        serde_json::to_vec(record).map_err(|error| Error::unwritten("the record", error))?;
    Ok(blake3::hash(&canonical).to_hex().to_string())
}

fn value_of(record: &Record) -> Result<Value> {
    serde_json::to_value(record).map_err(|error| Error::unwritten("the record", error))
}

/// Returns the JSON Schema of the file.
pub fn record_schema() -> Value {
    schemars::schema_for!(SealedRecord).to_value()
}

/// Returns the seal that `record` has on disk.
///
/// # Errors
/// Fails with an environment error if it cannot be written as JSON.
pub fn seal(record: &Record) -> Result<String> {
    seal_of(&value_of(record)?)
}

/// Writes the record whole or not at all, and returns its seal.
///
/// # Errors
/// Fails with an environment error if the file cannot be written.
pub fn write_record(path: &Path, record: &Record) -> Result<String> {
    let record = value_of(record)?;
    let seal = seal_of(&record)?;
    let file = SealedRecord {
        schema: RECORD_SCHEMA.to_owned(),
        seal: seal.clone(),
        record,
    };
    let mut text =
        serde_json::to_string(&file).map_err(|error| Error::unwritten("the record", error))?;
    text.push('\n');
    write_whole(path, text.as_bytes())?;
    Ok(seal)
}

/// Reads a record, or what NVBench measured as one: its JSON file, or a directory of such files.
///
/// # Errors
/// Fails with a usage error as `read_record` does, and if NVBench's files are damaged or do not belong together.
pub fn read(path: &Path) -> Result<Record> {
    if path.is_dir() {
        return nvbench::read_dir(path);
    }
    let text = text(path)?;
    if nvbench::is_nvbench(&text) {
        nvbench::read_file(path, &text)
    } else {
        parse(path, &text)
    }
}

/// Reads a record.
///
/// # Errors
/// Fails with a usage error if the file is not a record, is damaged, is newer than this gatekeeper, or was edited.
pub fn read_record(path: &Path) -> Result<Record> {
    parse(path, &text(path)?)
}

fn text(path: &Path) -> Result<String> {
    files::read_text(path, files::made()).map_err(|error| {
        let problem = match error.kind() {
            ErrorKind::NotFound => "there is no record".to_owned(),
            _ => format!("the record cannot be read: {error}"),
        };
        Error::usage(problem)
            .at(path.display())
            .help("`gatekeeper run` writes one to gatekeeper-out/record.json")
    })
}

fn parse(path: &Path, text: &str) -> Result<Record> {
    let name = path.display().to_string();
    let refuse = |problem: FileProblem| {
        Error::Usage(
            problem
                .diagnostic(&name)
                .help("create the record again with `gatekeeper run`"),
        )
    };
    expect_schema(text, RECORD_SCHEMA).map_err(refuse)?;
    let file: SealedRecord =
        serde_json::from_str(text).map_err(|error| refuse(FileProblem::json(&error)))?;
    let seal = seal_of(&file.record)?;
    if seal != file.seal {
        return Err(Error::usage(format!(
                "the record was changed after it was written: its seal is {}, but its content has {seal}",
                file.seal
            ))
            .at(&name)
            .help("a record is judged as it was written or not at all")
            .help("to judge by other limits, change gates.yaml and run again"));
    }
    let record: Record =
        serde_json::from_value(file.record).map_err(|error| refuse(FileProblem::json(&error)))?;
    match record.out_of_range() {
        None => Ok(record),
        Some(found) => Err(invalid(&name, &found)),
    }
}

/// Reports a record with a value that no run observes. Anybody can make a new seal, so a seal does not make such a
/// record valid.
fn invalid(name: &str, found: &OutOfRange) -> Error {
    let range = found.metric.range();
    let most = if range.most.is_finite() {
        format!(" and at most {}", range.most)
    } else {
        String::new()
    };
    Error::usage(format!(
        "the record is invalid: {} of {} is {}, and can be at least {}{most}",
        found.metric, found.subject, found.value, range.least
    ))
    .at(name)
    .help("create the record again with `gatekeeper run`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::fixture;
    use judge::judge;
    use model::{CheckFacts, Counter, Doubt, Evidence, Num, Seen, Withheld};

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
        let judged = |record: &Record| serde_json::to_string(&judge(record)).unwrap();
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

    /// Whoever edits a record can seal it again, too.
    #[test]
    fn a_value_that_no_run_observes_makes_a_record_invalid() {
        let of_check = |change: fn(&mut CheckFacts)| {
            let mut record = fixture::record();
            fixture::recheck(&mut record, &fixture::case_id("fast", "small"), |_, it| {
                change(it);
            });
            record
        };
        let of_base = || {
            let mut record = of_check(|facts| facts.error.rel_l2 = Num(-0.5));
            record.evidence = record
                .evidence
                .clone()
                .into_iter()
                .map(|check| Evidence::Base(Box::new(check)))
                .collect();
            record
        };
        let of_build = || {
            let mut record = fixture::record();
            fixture::rebuild(&mut record, "fast", |facts| {
                facts.entries[0].resources.as_mut().unwrap().registers = 256;
            });
            record
        };
        for (record, problem) in [
            (
                of_check(|facts| facts.error.max_err = Num(-1.0)),
                "max_err of k/fast@small is -1, and can be at least 0",
            ),
            (
                of_check(|facts| facts.error.mean_err = Num(f64::NEG_INFINITY)),
                "mean_err of k/fast@small is -inf, and can be at least 0",
            ),
            (
                of_check(|facts| facts.error.over_tolerance = Some(Num(1.5))),
                "over_tolerance of k/fast@small is 1.5, and can be at least 0 and at most 1",
            ),
            (
                of_base(),
                "rel_l2 of k/fast@small is -0.5, and can be at least 0",
            ),
            (
                of_build(),
                "registers of k/fast [sm_90] is 256, and can be at least 0 and at most 255",
            ),
        ] {
            let expected = format!("R: the record is invalid: {problem}");
            assert_eq!(refused(&written(&record)), expected);
        }
        // An output that is NaN or infinite has such an error, and fails by it.
        for odd in [f64::NAN, f64::INFINITY] {
            let mut odder = fixture::record();
            fixture::recheck(&mut odder, &fixture::case_id("fast", "small"), |_, it| {
                it.error.max_err = Num(odd);
            });
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("record.json");
            write_record(&path, &odder).unwrap();
            assert_eq!(read_record(&path).unwrap(), odder);
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
            "R:1:0: it is cut short (EOF while parsing a value)"
        );
        assert_eq!(refused("{\n \"schema\": nan}"), "R:2:13: expected ident");
        assert_eq!(
            refused("[]"),
            "R:1:2: invalid length 0, expected struct Header with 1 element"
        );
        assert!(refused(&text[..text.len() / 2]).contains("it is cut short"));
        assert_eq!(
            refused(&text.replacen("gatekeeper.record/1", "gatekeeper.record/2", 1)),
            "R: its schema is gatekeeper.record/2, and this version of gatekeeper reads gatekeeper.record/1 alone: a newer one wrote it"
        );
        for schema in [
            "gatekeeper.record/0",
            "gatekeeper.record/x",
            "gatekeeper.baseline/1",
            "",
        ] {
            assert_eq!(
                refused(&text.replacen("gatekeeper.record/1", schema, 1)),
                format!("R: its schema is `{schema}`, and gatekeeper.record/1 is expected")
            );
        }
        assert!(matches!(
            read_record(Path::new("/no/such/record.json")),
            Err(Error::Usage(_))
        ));
    }

    /// `UPDATE_GOLDEN=1` writes it again: while there is no release; from then on, once for a version.
    #[test]
    fn version_1_is_read_as_it_was_written_then() {
        let golden = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .join("tests/fixtures/golden/record-1.json");
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
}
