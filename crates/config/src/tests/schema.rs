//! Tests the schema that editors read.

use super::super::schema;

/// Editors read the file. `UPDATE_SCHEMA=1 cargo test` writes it again.
#[test]
fn the_schema_file_is_the_schema_of_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../gates.schema.json");
    let generated = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &generated).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == generated,
        "gates.schema.json is not what `gatekeeper schema` prints; UPDATE_SCHEMA=1 cargo test writes it"
    );
}

/// Requires a description for every key, because editors show it and complete by it.
#[test]
fn every_property_of_the_schema_has_a_description() {
    fn find(at: &str, schema: &serde_json::Value, all: &mut Vec<(String, bool)>) {
        if let Some(properties) = schema
            .get("properties")
            .and_then(|schema| schema.as_object())
        {
            for (key, property) in properties {
                let text = property
                    .get("description")
                    .and_then(|property| property.as_str());
                let is_described = text.is_some_and(|text| !text.trim().is_empty());
                all.push((format!("{at}/{key}"), is_described));
            }
        }
        match schema {
            serde_json::Value::Object(keys) => {
                for (key, below) in keys {
                    find(&format!("{at}/{key}"), below, all);
                }
            }
            serde_json::Value::Array(items) => {
                for (number, below) in items.iter().enumerate() {
                    find(&format!("{at}/{number}"), below, all);
                }
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    find("", &schema(), &mut all);
    assert!(all.len() > 300, "{}", all.len());
    let bare: Vec<_> = all
        .iter()
        .filter(|(_, is_described)| !is_described)
        .collect();
    assert!(bare.is_empty(), "{bare:#?}");
}
