//! A JSON object whose keys keep their order, and of which none may be there twice.

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

#[derive(Clone, Debug, PartialEq)]
pub struct Pairs<T>(pub Vec<(String, T)>);

impl<T> Pairs<T> {
    pub fn get(&self, key: &str) -> Option<&T> {
        self.0.iter().find(|(it, _)| it == key).map(|(_, it)| it)
    }
}

impl<T: Serialize> Serialize for Pairs<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

struct InOrder<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
    type Value = Pairs<T>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<T>, A::Error> {
        let mut seen = HashSet::new();
        let mut pairs = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, T>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format_args!("{key} is there twice")));
            }
            pairs.push((key, value));
        }
        Ok(Pairs(pairs))
    }
}
