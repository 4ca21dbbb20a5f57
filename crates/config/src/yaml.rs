//! Reads YAML values that know where they were written. Only this module, `source` and `layout` use `serde_yaml`.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// The places where something was written. There are two, because an alias or a merge (`<<`) uses what was written
/// elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub(super) written: YamlPlace,
    pub(super) used: YamlPlace,
    /// True for a key. A mapping and its first key start at the same place, so the place alone does not tell.
    pub(super) is_key: bool,
}

/// A line and a column, both counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct YamlPlace {
    pub line: u64,
    pub column: u64,
}

impl YamlPlace {
    pub fn new(location: serde_yaml::Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

impl Position {
    pub fn line(self) -> u64 {
        self.written.line
    }
}

/// A value with the place where it was written.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    pub value: T,
    pub at: Position,
}

impl<T> Deref for Spanned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Spanned<T> {
    /// Makes a problem with this value.
    pub fn problem(&self, message: impl Into<String>) -> Mistake {
        Mistake::new(self.at, message)
    }

    /// Returns another value that was written here.
    pub fn with<U>(&self, value: U) -> Spanned<U> {
        Spanned { value, at: self.at }
    }
}

impl Spanned<String> {
    /// Makes a problem with a name that is not among the known ones.
    pub fn unknown<'a>(&self, what: &str, known: impl Iterator<Item = &'a str>) -> Mistake {
        self.problem(format!("unknown {what} `{self}`"))
            .help(suggest(self, known))
    }
}

/// Returns the second occurrence of the first value that is in a list twice.
pub fn find_repeated<T: PartialEq>(values: &[Spanned<T>]) -> Option<&Spanned<T>> {
    values
        .iter()
        .enumerate()
        .find(|(at, value)| {
            let mut earlier = values.iter().take(*at);
            earlier.any(|earlier| earlier.value == value.value)
        })
        .map(|(_, value)| value)
}

impl<T: fmt::Display> fmt::Display for Spanned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// Asks the reader for its own form of a value with its places. The reader's own type `Spanned` also takes values that
/// serde has buffered. Nothing here buffers values, and that type would make the code that reads `T` five times over.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpannedVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for SpannedVisitor<T> {
            type Value = Spanned<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<Self::Value, D::Error> {
                // The answer is the same for every type. Reading a mapping would need code for each type.
                deserializer.deserialize_unit(self)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let _mark: IgnoredAny = next_value(&mut map)?;
                let value = next_value(&mut map)?;
                let used = YamlPlace::new(next_value(&mut map)?);
                let written = YamlPlace::new(next_value(&mut map)?);
                let at = Position {
                    written,
                    used,
                    is_key: false,
                };
                Ok(Spanned { value, at })
            }
        }
        deserializer.deserialize_newtype_struct("__yaml_spanned", SpannedVisitor(PhantomData))
    }
}

/// Reads the next value of a mapping, under any key.
fn next_value<'de, A: MapAccess<'de>, T: Deserialize<'de>>(map: &mut A) -> Result<T, A::Error> {
    map.next_entry::<IgnoredAny, T>()?
        .map(|(_, value)| value)
        .ok_or_else(|| A::Error::custom("the reader does not say where values are"))
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A mapping in the order of the file.
#[derive(Clone, Debug)]
pub struct Ordered<V>(pub Vec<(Spanned<String>, V)>);

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Deref for Ordered<V> {
    type Target = [(Spanned<String>, V)];
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<V> Ordered<V> {
    pub fn get(&self, name: &str) -> Option<&V> {
        self.iter()
            .find(|(key, _)| key.value == name)
            .map(|(_, value)| value)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(key, _)| key.value.as_str())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Ordered<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for MapVisitor<V> {
            type Value = Ordered<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((mut key, value)) = map.next_entry::<Spanned<String>, V>()? {
                    key.at.is_key = true;
                    entries.push((key, value));
                }
                Ok(Ordered(entries))
            }
        }
        deserializer.deserialize_map(MapVisitor(PhantomData))
    }
}

impl<V: JsonSchema> JsonSchema for Ordered<V> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("MapOf{}", V::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let values = generator.subschema_for::<V>();
        schemars::json_schema!({ "type": "object", "additionalProperties": values })
    }
}

/// A problem in the file, while the name of the file is not known yet.
#[derive(Clone, Debug)]
pub struct Mistake {
    pub message: String,
    pub at: Position,
    /// The number of characters from the start of the scalar at `at`, from 0.
    pub offset: usize,
    pub help: Vec<String>,
}

impl Mistake {
    pub fn new(at: Position, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            at,
            offset: 0,
            help: Vec::new(),
        }
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    #[must_use]
    pub fn offset(mut self, characters: usize) -> Self {
        self.offset += characters;
        self
    }
}

/// A suggestion for a wrong name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suggestion<'a> {
    /// A single name that is similar.
    Close(&'a str),
    /// No name is similar, so these are all known names.
    Known(Vec<&'a str>),
}

impl fmt::Display for Suggestion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Close(name) => write!(f, "did you mean `{name}`?"),
            Self::Known(names) => match names.as_slice() {
                [] => f.write_str("there are none"),
                [only] => write!(f, "there is only `{only}`"),
                [first, rest @ ..] => {
                    write!(f, "there are `{first}`")?;
                    rest.iter().try_for_each(|name| write!(f, ", `{name}`"))
                }
            },
        }
    }
}

impl From<Suggestion<'_>> for String {
    fn from(suggestion: Suggestion<'_>) -> Self {
        suggestion.to_string()
    }
}

/// Returns the name in gates.yaml of a type as CUDA C++, PyTorch or NumPy name it.
fn usual_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "double" | "float64" | "fp64" => "f64",
        "float" | "float32" | "fp32" => "f32",
        "half" | "__half" | "float16" | "fp16" => "f16",
        "bfloat16" | "__nv_bfloat16" => "bf16",
        "float8_e4m3fn" | "__nv_fp8_e4m3" => "e4m3",
        "float8_e5m2" | "__nv_fp8_e5m2" => "e5m2",
        "char" | "int8" | "int8_t" => "i8",
        "uint8" | "uint8_t" => "u8",
        "short" | "int16" | "int16_t" => "i16",
        "uint16" | "uint16_t" => "u16",
        "int" | "int32" | "int32_t" => "i32",
        "unsigned" | "uint32" | "uint32_t" => "u32",
        "long" | "int64" | "int64_t" => "i64",
        "size_t" | "uint64" | "uint64_t" => "u64",
        _ => return None,
    })
}

/// Returns the name in `known` that means the same, is close to `name`, or is the only one that begins with it. Returns
/// all names if there is no such name.
pub fn suggest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Suggestion<'a> {
    let known: Vec<&str> = known.collect();
    if let Some(own) = usual_name(name).filter(|own| known.contains(own)) {
        return Suggestion::Close(own);
    }
    let close = known
        .iter()
        .map(|known| (strsim::osa_distance(name, known), *known))
        .filter(|(distance, known)| {
            let length = name.len().max(known.len());
            *distance <= (length / 3).max(1) && *distance < length
        })
        .min_by_key(|(distance, _)| *distance);
    if let Some((_, known)) = close {
        return Suggestion::Close(known);
    }
    let mut longer = known.iter().filter(|known| known.starts_with(name));
    if let (false, Some(only), None) = (name.is_empty(), longer.next(), longer.next()) {
        return Suggestion::Close(only);
    }
    Suggestion::Known(known)
}
