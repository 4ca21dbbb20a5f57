//! Lists the fields of JSON, for tests of what programs read.

/// Returns the objects of a JSON value, one on a line, with the fields of each and the types that occur in them. An
/// item of a list appears once, so a field that is renamed, removed or of another type changes a line.
pub fn fields(json: &serde_json::Value) -> String {
    use serde_json::Value::{Array, Bool, Null, Number, Object, String as Text};
    use std::collections::{BTreeMap, BTreeSet};
    type Objects = BTreeMap<String, BTreeMap<String, BTreeSet<&'static str>>>;
    fn visit(at: &str, value: &serde_json::Value, objects: &mut Objects) -> &'static str {
        match value {
            Null => "null",
            Bool(_) => "bool",
            Number(_) => "number",
            Text(_) => "text",
            Array(items) => {
                for item in items {
                    visit(&format!("{at}[]"), item, objects);
                }
                "list"
            }
            Object(own) => {
                for (key, item) in own {
                    let kind = visit(&format!("{at}.{key}"), item, objects);
                    let known = objects.entry(at.to_owned()).or_default();
                    known.entry(key.clone()).or_default().insert(kind);
                }
                "object"
            }
        }
    }
    let mut objects = Objects::new();
    visit("", json, &mut objects);
    let line = |(at, own): (&String, &BTreeMap<String, BTreeSet<&str>>)| {
        format!(
            "{at}: {}",
            own.iter()
                .map(|(key, types)| {
                    let types: Vec<_> = types.iter().copied().collect();
                    format!("{key} {}", types.join("|"))
                })
                .collect::<Vec<_>>()
                .join(", ")
        )
    };
    objects.iter().map(line).collect::<Vec<_>>().join("\n")
}
