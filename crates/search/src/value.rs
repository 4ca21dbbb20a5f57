//! A value of a parameter.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Flag(bool),
    Integer(i64),
    Real(f64),
    Text(String),
}

impl Value {
    /// `None` for text.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Flag(flag) => Some(f64::from(u8::from(*flag))),
            Self::Integer(number) => Some(*number as f64),
            Self::Real(number) => Some(*number),
            Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(true) => f.write_str("True"),
            Self::Flag(false) => f.write_str("False"),
            Self::Integer(number) => write!(f, "{number}"),
            // Both show the shortest digits that give the number back; {:?} keeps ".0" as Python does.
            Self::Real(number) => write!(f, "{number:?}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}
