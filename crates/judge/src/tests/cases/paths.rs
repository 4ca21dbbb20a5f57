//! Paths into the JSON of a record.

use super::text::text;
use serde_json::{Map, Value};

const DELETED: &str = "(deleted)";

/// Removes the values at a path, and of evidence the whole piece.
pub fn delete(record: &mut Value, path: &str) -> Result<(), String> {
    for value in select(record, path)? {
        *value = DELETED.into();
    }
    prune(record);
    Ok(())
}

fn prune(value: &mut Value) {
    match value {
        Value::Array(values) => {
            values.retain(|value| !is_deleted(value));
            values.iter_mut().for_each(prune);
        }
        Value::Object(fields) => {
            fields.retain(|_, value| *value != DELETED);
            fields.values_mut().for_each(prune);
        }
        _ => {}
    }
}

fn is_deleted(value: &Value) -> bool {
    let is_wrapped = |fields: &Map<_, _>| fields.len() == 1 && fields.values().all(is_deleted);
    *value == DELETED || value["facts"] == DELETED || value.as_object().is_some_and(is_wrapped)
}

/// Returns the values at a path, of which there is one at least.
pub fn select<'a>(record: &'a mut Value, path: &str) -> Result<Vec<&'a mut Value>, String> {
    let first = path.split(['.', '[']).next().unwrap_or_default();
    let is_evidence = record.get(first).is_none();
    let mut found = vec![if is_evidence {
        &mut record["evidence"]
    } else {
        record
    }];
    let mut depth = 0;
    let steps = path.split(|char| {
        depth += i32::from(char == '[') - i32::from(char == ']');
        depth == 0 && char == '.'
    });
    for step in steps {
        let filter = step.strip_suffix(']').and_then(|step| step.split_once('['));
        let (name, words) = filter.map_or((step, None), |(name, words)| (name, Some(words)));
        found = found
            .into_iter()
            .flat_map(|value| children(value, name, words.is_none()))
            .collect();
        if let Some(words) = words {
            found = found
                .into_iter()
                .flat_map(|value| match value {
                    Value::Array(values) => values.iter_mut().collect(),
                    value => vec![value],
                })
                .filter(|value| has_words(value, words))
                // The facts are what an edit of evidence is about.
                .map(|value| {
                    if is_evidence {
                        &mut value["facts"]
                    } else {
                        value
                    }
                })
                .collect();
        }
    }
    if found.is_empty() {
        return Err(format!("nothing is at {path}"));
    }
    Ok(found)
}

/// Returns the values under a name: of an object, or of those elements of a list that have it.
fn children<'a>(value: &'a mut Value, name: &str, may_be_new: bool) -> Vec<&'a mut Value> {
    match (value, name, name.parse::<usize>()) {
        (Value::Array(values), "*", _) => values.iter_mut().collect(),
        (Value::Object(fields), "*", _) => fields.values_mut().collect(),
        (Value::Array(values), _, Ok(at)) => values.get_mut(at).into_iter().collect(),
        (Value::Array(values), ..) => values
            .iter_mut()
            .filter_map(|value| value.get_mut(name))
            .collect(),
        (value, ..) if may_be_new => vec![&mut value[name]],
        (value, ..) => value.get_mut(name).into_iter().collect(),
    }
}

fn has_words(value: &Value, words: &str) -> bool {
    let text = text(value);
    words.split_whitespace().all(|word| {
        let is_wanted = !word.starts_with('!');
        let word = word.trim_start_matches('!');
        let is_there = match word.split_once('=') {
            Some((key, value)) if key.starts_with(char::is_alphabetic) => [",", "}"]
                .iter()
                .any(|end| text.contains(&format!("{key}: {value}{end}"))),
            _ => text.contains(word),
        };
        is_there == is_wanted
    })
}
