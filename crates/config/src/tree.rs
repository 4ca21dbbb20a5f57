//! The structure of a YAML text without types. Key paths are made from it.

use super::yaml::{Ordered, Spanned};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

#[derive(Clone)]
pub enum Tree {
    /// A key whose value was not written.
    Null,
    Scalar(String),
    List(Vec<Spanned<Tree>>),
    Map(Ordered<Spanned<Tree>>),
}

impl Tree {
    /// Returns the value of a key if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        match self {
            Self::Map(map) => map.get(key).map(|value| &value.value),
            Self::Null | Self::Scalar(_) | Self::List(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TreeVisitor;
        impl<'de> Visitor<'de> for TreeVisitor {
            type Value = Tree;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("YAML")
            }
            fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.to_string()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.to_string()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.to_string()))
            }
            fn visit_i128<E>(self, value: i128) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.to_string()))
            }
            fn visit_u128<E>(self, value: u128) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.to_string()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.to_owned()))
            }
            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree::Null)
            }
            fn visit_none<E>(self) -> Result<Tree, E> {
                Ok(Tree::Null)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Tree, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(Tree::List)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Tree, A::Error> {
                Ordered::deserialize(de::value::MapAccessDeserializer::new(map)).map(Tree::Map)
            }
        }
        deserializer.deserialize_any(TreeVisitor)
    }
}
