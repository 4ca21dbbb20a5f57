//! Reads limits as they are written under `gates` and `target`, and merges the kernel's and the variant's by key.

use super::names::suggest_metric;
use super::raw::{self, BECAUSE, CONDITIONS, COUNTERS, DEFAULT, Limits};
use super::shape::NamedShape;
use super::yaml::{Mistake, Ordered, Spanned};
use model::{Arch, Metric};

/// Returns the texts of a limit that is the same everywhere: one limit, or a list of limits.
pub fn read_texts(limits: &Spanned<Limits>) -> Result<Vec<Spanned<String>>, Mistake> {
    match &limits.value {
        Limits::All(items)
            if items
                .iter()
                .all(|item| matches!(item.value, Limits::One(_))) =>
        {
            read_items(limits, items, read_texts)
        }
        Limits::One(text) => Ok(vec![limits.with(text.clone())]),
        Limits::All(_) | Limits::By(_) => {
            Err(limits.problem("expected a limit or a list of limits"))
        }
    }
}

fn read_items(
    list: &Spanned<Limits>,
    items: &[Spanned<Limits>],
    read: impl Fn(&Spanned<Limits>) -> Result<Vec<Spanned<String>>, Mistake>,
) -> Result<Vec<Spanned<String>>, Mistake> {
    if items.is_empty() {
        return Err(list.problem("an empty list sets no limit"));
    }
    let texts: Vec<_> = items.iter().map(read).collect::<Result<_, _>>()?;
    Ok(texts.concat())
}

/// Finds the value for `key`, which is one of the `known` keys, or else the value for all keys without their own.
fn choose<'a>(
    by: &'a Ordered<Spanned<Limits>>,
    key: &str,
    known: &[String],
    what: &str,
) -> Result<Option<&'a Spanned<Limits>>, Mistake> {
    let stranger = by
        .iter()
        .find(|(name, _)| name.value != DEFAULT && !known.contains(&name.value));
    if let Some((name, _)) = stranger {
        let known = known.iter().map(String::as_str).chain([DEFAULT]);
        return Err(name.unknown(what, known));
    }
    Ok(by.get(key).or_else(|| by.get(DEFAULT)))
}

/// The subject of a key under `gates`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Metric(Metric),
    /// All counters that can be gated, together.
    Counters,
    Conditions,
}

impl Key {
    pub fn parse(name: &Spanned<String>) -> Result<Self, Mistake> {
        match name.as_str() {
            COUNTERS => Ok(Self::Counters),
            CONDITIONS => Ok(Self::Conditions),
            text => Metric::from_name(text).map(Self::Metric).ok_or_else(|| {
                name.problem(format!("unknown metric `{text}`"))
                    .help(suggest_metric(text, &[CONDITIONS, COUNTERS]))
            }),
        }
    }
}

/// The values of one key: the kernel's, and then the variant's.
pub struct WrittenGate<'a> {
    pub name: &'a Spanned<String>,
    pub key: Key,
    layers: Vec<&'a Spanned<Limits>>,
}

/// Returns the kernel's gates and the variant's, in the order of the file.
pub fn merge_gates<'a>(
    kernel: &'a raw::Gates,
    variant: Option<&'a raw::Gates>,
) -> Result<Vec<WrittenGate<'a>>, Mistake> {
    let variant = variant.into_iter().flat_map(|gates| gates.0.iter());
    merge_limits(kernel.0.iter().chain(variant))
}

/// Merges the limits on each metric from several layers.
pub fn merge_limits<'a>(
    written: impl Iterator<Item = &'a (Spanned<String>, Spanned<Limits>)>,
) -> Result<Vec<WrittenGate<'a>>, Mistake> {
    let mut merged: Vec<WrittenGate<'a>> = Vec::new();
    for (name, limits) in written {
        let key = Key::parse(name)?;
        match merged.iter_mut().find(|known| known.key == key) {
            Some(known) => known.layers.push(limits),
            None => merged.push(WrittenGate {
                name,
                key,
                layers: vec![limits],
            }),
        }
    }
    Ok(merged)
}

impl WrittenGate<'_> {
    /// Returns the conditions. They have no names by which one could replace another, so all of them hold.
    pub fn conditions(&self) -> Result<Vec<Spanned<String>>, Mistake> {
        let texts: Vec<_> = self
            .layers
            .iter()
            .map(|limits| read_texts(limits))
            .collect::<Result<_, _>>()?;
        Ok(texts.concat())
    }

    /// Returns the limits for `key`, which is one of the architectures or shapes in `known`: the variant's limits if it
    /// has any, or else the kernel's.
    fn limits(
        &self,
        key: &str,
        known: &[String],
        what: &str,
        lacking: impl Fn(&Spanned<Limits>) -> Result<Vec<Spanned<String>>, Mistake>,
    ) -> Result<Option<Vec<Spanned<String>>>, Mistake> {
        let mut found = None;
        for limits in &self.layers {
            match &limits.value {
                Limits::By(by) => {
                    if let Some(chosen) = choose(by, key, known, what)? {
                        found = Some(read_texts(chosen)?);
                    }
                }
                Limits::All(items) => {
                    found = Some(read_items(limits, items, |item| match &item.value {
                        Limits::By(by) => match choose(by, key, known, what)? {
                            Some(chosen) => read_texts(chosen),
                            None => lacking(item),
                        },
                        Limits::One(_) => read_texts(item),
                        Limits::All(_) => Err(item.problem("a list in a list: write one list")),
                    })?);
                }
                Limits::One(_) => found = Some(read_texts(limits)?),
            }
        }
        Ok(found)
    }

    pub fn for_architecture(
        &self,
        arch: Arch,
        known: &[Arch],
    ) -> Result<Vec<Spanned<String>>, Mistake> {
        let key = arch.to_string();
        let known: Vec<String> = known.iter().map(Arch::to_string).collect();
        let lacking = |at| {
            Err(Mistake::new(at, format!("no limit for {key}"))
                .help(format!("add `{key}` or `{DEFAULT}`")))
        };
        let limits = self.limits(&key, &known, "architecture", |item| lacking(item.at))?;
        let at = self.layers.first().map_or(self.name.at, |limits| limits.at);
        limits.map_or_else(|| lacking(at), Ok)
    }

    /// Returns the limits for a shape. One shape may have a limit that others do not have.
    pub fn for_shape(
        &self,
        key: &str,
        known: &[NamedShape],
    ) -> Result<Vec<Spanned<String>>, Mistake> {
        let known: Vec<String> = known.iter().map(|shape| shape.name.clone()).collect();
        let limits = self.limits(key, &known, "shape", |_| Ok(Vec::new()))?;
        Ok(limits.unwrap_or_default())
    }
}

/// The targets of a variant, as written.
pub struct WrittenTargets<'a> {
    pub limits: Vec<WrittenGate<'a>>,
    pub because: Option<&'a str>,
}

/// Returns the kernel's targets and the variant's. A reason belongs to the targets that it is written with.
pub fn merge_targets<'a>(
    kernel: &'a raw::Targets,
    variant: Option<&'a raw::Targets>,
) -> Result<Vec<WrittenTargets<'a>>, Mistake> {
    let own = variant.map(|targets| &targets.0);
    let replaced = |name: &str| own.is_some_and(|own| own.get(name).is_some());
    let of_kernel = read_targets(&kernel.0, |name| !replaced(name))?;
    let of_variant = own.map(|own| read_targets(own, |_| true)).transpose()?;
    Ok(std::iter::once(of_kernel).chain(of_variant).collect())
}

fn read_targets<'a>(
    written: &'a Ordered<Spanned<Limits>>,
    is_meant: impl Fn(&str) -> bool,
) -> Result<WrittenTargets<'a>, Mistake> {
    let mut because = None;
    if let Some(text) = written.get(BECAUSE) {
        match &text.value {
            Limits::One(words) if words.trim().len() >= 3 => because = Some(words.trim()),
            _ => {
                return Err(text
                    .problem("`because` needs the reason in words")
                    .help("because: bound by issue slots, 25.4 us where 23.6 was the target"));
            }
        }
    }
    let limits = merge_limits(
        written
            .iter()
            .filter(|(name, _)| name.value != BECAUSE)
            .filter(|(name, _)| is_meant(name)),
    )?;
    match limits
        .iter()
        .find(|limit| !matches!(limit.key, Key::Metric(_)))
    {
        Some(other) => Err(other.name.problem(format!(
            "a target is for one metric, and `{}` is none",
            other.name.value
        ))),
        None => Ok(WrittenTargets { limits, because }),
    }
}
