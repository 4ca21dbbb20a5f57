//! Refuses JSON with duplicate keys. serde takes the last of two equal keys, and a person the first. A merge of two
//! branches that updated one case makes such files.

use super::file::FileProblem;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// Checks that no object of a JSON text has a duplicate key.
///
/// # Errors
/// Fails if an object has a duplicate key, or if the text is not JSON.
pub(super) fn reject_duplicate_keys(text: &str) -> Result<(), FileProblem> {
    serde_json::from_str::<Once>(text)
        .map(drop)
        .map_err(|error| FileProblem::json(&error))
}

/// Accepts any JSON value, and keeps nothing of it.
struct Once;

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OnceVisitor;
        impl<'de> Visitor<'de> for OnceVisitor {
            type Value = Once;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_bool<E>(self, _: bool) -> Result<Once, E> {
                Ok(Once)
            }
            fn visit_i64<E>(self, _: i64) -> Result<Once, E> {
                Ok(Once)
            }
            fn visit_u64<E>(self, _: u64) -> Result<Once, E> {
                Ok(Once)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Once, E> {
                Ok(Once)
            }
            fn visit_str<E>(self, _: &str) -> Result<Once, E> {
                Ok(Once)
            }
            fn visit_unit<E>(self) -> Result<Once, E> {
                Ok(Once)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Once, A::Error> {
                while list.next_element::<Once>()?.is_some() {}
                Ok(Once)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once, A::Error> {
                let mut seen = BTreeSet::new();
                while let Some(key) = map.next_key::<String>()? {
                    if seen.contains(&key) {
                        return Err(de::Error::custom(format!("duplicate key `{key}`")));
                    }
                    seen.insert(key);
                    map.next_value::<Once>()?;
                }
                Ok(Once)
            }
        }
        deserializer.deserialize_any(OnceVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Option<String> {
        let problem = reject_duplicate_keys(text).err()?;
        Some(format!(
            "{}: {}",
            problem.position.unwrap_or_default(),
            problem.message
        ))
    }

    #[test]
    fn a_key_that_stands_twice_is_named_with_its_place() {
        let good = r#"{"a": [1, -1, 0.5, "x", null, true, {"b": 1}, {"b": 2}], "b": {"a": {}}}"#;
        assert_eq!(said(good), None);
        assert_eq!(
            said("{\"a\": {\n\"b\": 1,\n\"c\": 2, \"b\": 1}}").as_deref(),
            Some("3:11: duplicate key `b`")
        );
        // The two texts are written differently and are equal.
        assert_eq!(
            said(r#"{"a": 1, "\u0061": 1}"#).as_deref(),
            Some("1:17: duplicate key `a`")
        );
        assert!(said("{").is_some());
    }
}
