//! Where a search may start: the best configurations of a microbenchmark, as `gatekeeper tune --rank` writes them.

use crate::space::{Point, Space};
use crate::value::Value;
use serde::Deserialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// The first value in the file.
pub const MICRO_SCHEMA: &str = "gatekeeper.micro/1";

/// Macros and their values. A space may have more parameters, and need not have all of these.
pub type Seed = BTreeMap<String, i64>;

/// Why a file is not one of seeds.
#[derive(Debug, Error)]
pub enum Unreadable {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("its schema is {found}, and {wanted} is expected")]
    Schema { found: String, wanted: &'static str },
}

/// Reads the seeds, best first. Everything else in the file is for people.
///
/// # Errors
/// It is no such file.
pub fn read_seeds(text: &str) -> Result<Vec<Seed>, Unreadable> {
    #[derive(Deserialize)]
    struct Header {
        schema: String,
    }
    #[derive(Deserialize)]
    struct File {
        seeds: Vec<Seed>,
    }
    let Header { schema } = serde_json::from_str(text)?;
    if schema != MICRO_SCHEMA {
        return Err(Unreadable::Schema {
            found: schema,
            wanted: MICRO_SCHEMA,
        });
    }
    let File { seeds } = serde_json::from_str(text)?;
    Ok(seeds)
}

impl Space {
    /// The valid configuration that has the seed's values, and those of `start` in parameters that the seed does not
    /// name. Where that is not valid, the first that has the seed's values. `None` where none has them, or where the
    /// seed names no parameter of this space.
    pub fn seeded(&self, seed: &Seed, start: Option<Point>) -> Option<Point> {
        let parameters = self.parameters().iter();
        let wanted: Vec<Option<u16>> = parameters
            .map(|parameter| match seed.get(&parameter.name) {
                None => Some(None),
                Some(value) => {
                    let value = Value::Integer(*value);
                    let at = parameter.values.iter().position(|it| *it == value)?;
                    u16::try_from(at).ok().map(Some)
                }
            })
            .collect::<Option<_>>()?;
        if wanted.iter().all(Option::is_none) {
            return None;
        }
        let from_start = start.and_then(|start| {
            let choice: Vec<u16> = wanted
                .iter()
                .zip(self.choice(start))
                .map(|(wanted, start)| wanted.unwrap_or(*start))
                .collect();
            self.find(&choice)
        });
        let fits = |point: &Point| {
            let choice = self.choice(*point).iter().zip(&wanted);
            choice
                .into_iter()
                .all(|(is, wanted)| wanted.is_none_or(|wanted| wanted == *is))
        };
        from_start.or_else(|| self.points().find(fits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Parameter;

    fn parameter(name: &str, values: &[i64]) -> Parameter {
        Parameter {
            name: name.to_owned(),
            values: values.iter().copied().map(Value::Integer).collect(),
        }
    }

    fn seed(pairs: &[(&str, i64)]) -> Seed {
        let owned = |&(name, value): &(&str, i64)| (name.to_owned(), value);
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn seeds_are_read_from_the_file_of_micro_alone() {
        let text = r#"{"schema": "gatekeeper.micro/1", "device": "a GPU", "seeds": [{"BLOCK_M": 64}, {"BLOCK_M": 32, "STAGES": 2}]}"#;
        assert_eq!(
            read_seeds(text).unwrap(),
            [
                seed(&[("BLOCK_M", 64)]),
                seed(&[("BLOCK_M", 32), ("STAGES", 2)])
            ]
        );
        let said = |text: &str| read_seeds(text).unwrap_err().to_string();
        assert_eq!(
            said(&text.replace("micro/1", "micro/2")),
            "its schema is gatekeeper.micro/2, and gatekeeper.micro/1 is expected"
        );
        assert!(said(r#"{"schema": "gatekeeper.micro/1"}"#).contains("seeds"));
        assert!(said(&text.replace("64", "\"x\"")).contains("invalid type"));
    }

    #[test]
    fn a_seed_is_completed_by_the_start() {
        let parameters = vec![
            parameter("M", &[32, 64]),
            parameter("W", &[4, 8]),
            parameter("S", &[1, 2]),
        ];
        // Eight warps need 64 rows.
        let space = Space::enumerate(parameters, |values| {
            values[1] != &Value::Integer(8) || values[0] == &Value::Integer(64)
        })
        .unwrap();
        let start = space.find(&[1, 1, 1]);
        assert!(start.is_some());
        let found = |seed: &Seed, start| {
            space
                .seeded(seed, start)
                .map(|it| space.choice(it).to_vec())
        };
        // The start has W 8, S 2. VEC_WIDTH is no parameter of this space.
        let one = seed(&[("M", 64), ("S", 1), ("VEC_WIDTH", 8)]);
        assert_eq!(found(&one, start), Some(vec![1, 1, 0]));
        // With the start's W that would not be valid.
        assert_eq!(found(&seed(&[("M", 32)]), start), Some(vec![0, 0, 0]));
        assert_eq!(found(&seed(&[("M", 64)]), None), Some(vec![1, 0, 0]));
        assert_eq!(found(&seed(&[("M", 16)]), start), None);
        assert_eq!(found(&seed(&[("M", 32), ("W", 8)]), start), None);
        assert_eq!(found(&seed(&[("VEC_WIDTH", 8)]), start), None);
    }
}
