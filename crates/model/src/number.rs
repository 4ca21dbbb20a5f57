use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A floating-point number that keeps NaN and the infinities through JSON, where serde_json alone would
/// write `null`: they are written as the strings `"NaN"`, `"Infinity"` and `"-Infinity"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Num(pub f64);

impl PartialEq for Num {
    /// Compares what was observed, so NaN equals NaN.
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || (self.0.is_nan() && other.0.is_nan())
    }
}

impl From<f64> for Num {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Num {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            value => serializer.serialize_f64(value),
        }
    }
}

impl JsonSchema for Num {
    fn schema_name() -> Cow<'static, str> {
        "Num".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number; JSON has no others.",
            "anyOf": [{ "type": "number" }, { "enum": ["NaN", "Infinity", "-Infinity"] }]
        })
    }
}

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumVisitor;
        impl Visitor<'_> for NumVisitor {
            type Value = Num;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
            }
            fn visit_f64<E>(self, value: f64) -> Result<Num, E> {
                Ok(Num(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Num, E> {
                Ok(Num(value as f64))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Num, E> {
                Ok(Num(value as f64))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Num, E> {
                match text {
                    "NaN" => Ok(Num(f64::NAN)),
                    "Infinity" => Ok(Num(f64::INFINITY)),
                    "-Infinity" => Ok(Num(f64::NEG_INFINITY)),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }
        }
        deserializer.deserialize_any(NumVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_json() {
        for value in [
            0.0,
            -0.0,
            1.5e-300,
            f64::MIN_POSITIVE,
            0.1,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ] {
            let text = serde_json::to_string(&Num(value)).unwrap();
            assert_eq!(
                serde_json::from_str::<Num>(&text).unwrap(),
                Num(value),
                "{text}"
            );
        }
        assert!(serde_json::from_str::<Num>("null").is_err());
        assert!(serde_json::from_str::<Num>("\"nan\"").is_err());
    }
}
