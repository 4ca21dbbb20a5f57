//! Splits a run into shards: which cases each shard gets (`deal`), and one record of all (`merge`). Pure.

mod deal;
mod merge;

pub use deal::{TooMany, deal};
pub use merge::{Foreign, NamedRecord, Refused, device, merge};

use std::fmt;
use std::str::FromStr;

/// A shard of a run: `2/8` is the second of eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardPart {
    /// The number of the shard, counted from 1.
    pub number: u32,
    pub of: u32,
}

/// A text that does not name a shard.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("write which of how many, counted from 1: 2/8")]
pub struct BadShard;

impl FromStr for ShardPart {
    type Err = BadShard;

    fn from_str(text: &str) -> Result<Self, BadShard> {
        let (number, of) = text.split_once('/').ok_or(BadShard)?;
        let [number, of] = [number, of].map(|text| text.parse::<u32>());
        match (number, of) {
            (Ok(number), Ok(of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err(BadShard),
        }
    }
}

impl fmt::Display for ShardPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_from_one() {
        assert_eq!("2/8".parse(), Ok(ShardPart { number: 2, of: 8 }));
        assert_eq!("1/1".parse(), Ok(ShardPart { number: 1, of: 1 }));
        for wrong in ["", "2", "0/8", "9/8", "1/0", "-1/8", "1/8/8", "a/b", "1/ 2"] {
            assert!(wrong.parse::<ShardPart>().is_err(), "{wrong}");
        }
    }
}
