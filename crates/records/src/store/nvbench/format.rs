//! NVBench's JSON, as its `nvbench/json_printer.cu` writes it under file version 1.0.0
//! (`docs/json_output.md` of NVIDIA/nvbench): only the keys that gatekeeper writes or reads.
//!
//! Peculiarities of its printer: a list that would be empty is `null` (`axes`, `axis_values`,
//! `summaries`), and values of summaries and of a state's axes are strings whatever their type, while those
//! of devices are numbers.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `meta.version.json`: its readers warn of any other (`python/scripts/nvbench_json/version.py`).
pub const VERSION: [u32; 3] = [1, 0, 0];

/// Isolated launches, in seconds.
pub const SAMPLE_TIMES: &str = "nv/json/bin:nv/cold/sample_times";
/// SM clock during each of them, in Hz.
pub const SAMPLE_FREQS: &str = "nv/json/freqs-bin:nv/cold/sample_freqs";
/// Gatekeeper's own, which NVBench's readers pass over: batched samples in seconds, each of
/// `launches_per_sample` launches, and how they were taken.
pub const BATCHED_TIMES: &str = "nv/json/bin:gatekeeper/batched/sample_times";
pub const TIMING: &str = "gatekeeper/timing";

/// The axes of a case.
pub const VARIANT: &str = "variant";
pub const SHAPE: &str = "shape";

#[derive(Debug, Serialize, Deserialize)]
pub struct Root {
    pub meta: Option<Meta>,
    #[serde(default, with = "nullable")]
    pub devices: Vec<Device>,
    #[serde(default, with = "nullable")]
    pub benchmarks: Vec<Benchmark>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Meta {
    #[serde(default, with = "nullable")]
    pub argv: Vec<String>,
    pub version: Versions,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Versions {
    pub json: Version,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvbench: Option<Version>,
    /// The writer of the file, if it is not NVBench.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gatekeeper: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
    pub string: String,
}

impl Version {
    pub fn new([major, minor, patch]: [u32; 3]) -> Self {
        Self {
            major,
            minor,
            patch,
            string: format!("{major}.{minor}.{patch}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    pub id: u32,
    pub name: String,
    /// 900 for compute capability 9.0.
    pub sm_version: u32,
    /// Hz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_default_clock_rate: Option<u64>,
    pub number_of_sms: u32,
    /// Bytes.
    pub global_memory_size: u64,
    pub l2_cache_size: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Benchmark {
    pub name: String,
    pub index: usize,
    #[serde(default, with = "nullable")]
    pub devices: Vec<u32>,
    #[serde(default, with = "nullable")]
    pub axes: Vec<Axis>,
    #[serde(default, with = "nullable")]
    pub states: Vec<State>,
}

/// Only its names are read back.
#[derive(Debug, Serialize, Deserialize)]
pub struct Axis {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(default)]
    pub flags: String,
    #[serde(default, with = "nullable", skip_deserializing)]
    pub values: Vec<AxisValue>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct AxisValue {
    pub input_string: String,
    pub description: String,
    pub value: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    pub name: String,
    pub device: u32,
    pub type_config_index: u32,
    #[serde(default, with = "nullable")]
    pub axis_values: Vec<Value>,
    #[serde(default, with = "nullable")]
    pub summaries: Vec<Summary>,
    pub is_skipped: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
}

impl State {
    pub fn get(&self, tag: &str) -> Option<&Summary> {
        self.summaries.iter().find(|summary| summary.tag == tag)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Summary {
    pub tag: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hide: Option<String>,
    #[serde(default, with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<Value>,
}

impl Summary {
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.data.iter().find(|value| value.name == name)?;
        Some(&value.value)
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub value: String,
}

impl Value {
    pub fn int64(name: &str, value: u64) -> Self {
        Self::new(name, Kind::Int64, value.to_string())
    }

    /// As `fmt::to_string` of a double: the shortest digits that read back alike, `inf` and `nan`.
    pub fn float64(name: &str, value: f64) -> Self {
        let text = match value {
            value if value.is_nan() => "nan".to_owned(),
            value => value.to_string(),
        };
        Self::new(name, Kind::Float64, text)
    }

    pub fn string(name: &str, value: impl Into<String>) -> Self {
        Self::new(name, Kind::String, value.into())
    }

    fn new(name: &str, kind: Kind, value: String) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            value,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Int64,
    Float64,
    String,
    /// An axis of C++ types; only axes have this type.
    Type,
}

/// A list that is `null` where it is empty, as nlohmann's JSON leaves a value that nothing was pushed to.
mod nullable {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Serialize, S: Serializer>(
        list: &Vec<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match list.is_empty() {
            true => serializer.serialize_none(),
            false => list.serialize(serializer),
        }
    }

    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_strings_that_read_back_alike() {
        for (value, text) in [
            (0.1 + 0.2, "0.30000000000000004"),
            (5.184e-6, "0.000005184"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ] {
            let written = Value::float64("value", value);
            assert_eq!(
                (written.kind, written.value.as_str()),
                (Kind::Float64, text)
            );
            if value.is_finite() {
                assert_eq!(text.parse(), Ok(value));
            }
        }
        assert_eq!(Value::int64("size", u64::MAX).value, "18446744073709551615");
    }

    #[test]
    fn an_empty_list_is_null_and_back() {
        let axis = Axis {
            name: "variant".into(),
            kind: Kind::String,
            flags: String::new(),
            values: Vec::new(),
        };
        let text = serde_json::to_string(&axis).unwrap();
        assert_eq!(
            text,
            r#"{"name":"variant","type":"string","flags":"","values":null}"#
        );
        let bench: Benchmark = serde_json::from_str(
            r#"{"name":"k","index":0,"devices":[0],"axes":null,"states":null}"#,
        )
        .unwrap();
        assert!(bench.axes.is_empty() && bench.states.is_empty());
    }
}
