//! Resolves the shapes of a kernel and their seeds.

use super::defaults;
use super::names::{check_file_name, check_identifier};
use super::raw::{self, DEFAULT};
use super::scope::{self, Scope};
use super::yaml::{Mistake, Ordered, Position, Spanned, find_repeated, suggest};
use model::Metric;
use model::expr::Name;
use std::collections::BTreeMap;

#[derive(Clone)]
pub struct NamedShape {
    pub name: String,
    pub dims: BTreeMap<String, i64>,
    pub seeds: Vec<u64>,
}

pub fn resolve_shapes(raw: &raw::Kernel) -> Result<Vec<NamedShape>, Mistake> {
    let Some(written) = &raw.shapes else {
        let shape = NamedShape {
            name: DEFAULT.to_owned(),
            dims: BTreeMap::new(),
            seeds: resolve_seeds(raw, DEFAULT)?,
        };
        check_seeds(raw, &[DEFAULT])?;
        return Ok(vec![shape]);
    };
    let Some((first, first_dims)) = written.first() else {
        return Err(written.problem("no shapes: nothing would be judged"));
    };
    check_seeds(raw, &written.names().collect::<Vec<_>>())?;
    let mut shapes = Vec::new();
    for (name, dims) in written.iter() {
        check_file_name(name, "shape")?;
        for (dim, _) in dims.iter() {
            check_identifier(dim, "dimension")?;
            if Metric::from_name(dim).is_some() {
                return Err(dim.problem(format!("`{dim}` is a metric and cannot name a dimension")));
            }
            if !first_dims.names().any(|known| known == dim.value) {
                return Err(dim
                    .problem(format!("shape `{first}` has no dimension `{dim}`"))
                    .help(suggest(dim, first_dims.names())));
            }
        }
        if let Some(lacking) = first_dims.names().find(|dim| dims.get(dim).is_none()) {
            return Err(dims.problem(format!(
                "shape `{name}` has no dimension `{lacking}`, which `{first}` has"
            )));
        }
        shapes.push(NamedShape {
            name: name.value.clone(),
            dims: resolve_dims(name, dims, &raw.define)?,
            seeds: resolve_seeds(raw, name)?,
        });
    }
    Ok(shapes)
}

/// Returns the integers of one shape. A formula may use the other dimensions in any order, but no macro, because macros
/// differ between variants.
fn resolve_dims(
    shape: &str,
    written: &raw::Dims,
    macros: &Ordered<Spanned<raw::Word>>,
) -> Result<BTreeMap<String, i64>, Mistake> {
    let mut formulas = Vec::new();
    for (dim, formula) in written.iter() {
        let expression = scope::parse_expression(formula, &formula.0)?;
        let names: Vec<String> = expression.names().iter().map(Name::to_string).collect();
        if let Some(unknown) = names.iter().find(|name| written.get(name).is_none()) {
            let problem = formula.problem(format!("shape `{shape}` has no dimension `{unknown}`"));
            return Err(match macros.get(unknown) {
                Some(_) => problem.help(
                    "it is a macro, which variants can change: a shape is the same for all of them",
                ),
                None => problem.help(suggest(unknown, written.names())),
            });
        }
        formulas.push((dim.as_str(), formula, names));
    }
    let mut dims = BTreeMap::new();
    while dims.len() < formulas.len() {
        let is_next = |(dim, _, names): &&(&str, &Spanned<raw::Formula>, Vec<String>)| {
            !dims.contains_key(*dim) && names.iter().all(|name| dims.contains_key(name))
        };
        let Some((dim, formula, _)) = formulas.iter().find(is_next) else {
            return Err(explain_cycle(&formulas, &dims));
        };
        let value = Scope::new(shape, &dims, &BTreeMap::new()).eval_integer(formula)?;
        dims.insert((*dim).to_owned(), value);
    }
    Ok(dims)
}

/// Returns the problem of dimensions that depend on each other. Each dimension without a value uses another without a
/// value, so following them must lead around a cycle.
fn explain_cycle(
    formulas: &[(&str, &Spanned<raw::Formula>, Vec<String>)],
    known: &BTreeMap<String, i64>,
) -> Mistake {
    let of = |wanted: &str| formulas.iter().find(|(dim, ..)| *dim == wanted);
    let open = |names: &[String]| {
        names
            .iter()
            .find(|name| !known.contains_key(*name))
            .cloned()
    };
    let mut way: Vec<String> = Vec::new();
    let mut next = formulas
        .iter()
        .find(|(dim, ..)| !known.contains_key(*dim))
        .map(|(dim, ..)| (*dim).to_owned());
    while let Some(dim) = next.take_if(|dim| !way.contains(dim)) {
        next = of(&dim).and_then(|(_, _, names)| open(names));
        way.push(dim);
    }
    let first = next.unwrap_or_default();
    let circle: Vec<String> = way
        .iter()
        .skip_while(|dim| **dim != first)
        .chain([&first])
        .map(|dim| format!("`{dim}`"))
        .collect();
    let at = of(&first).map_or_else(Position::default, |(_, formula, _)| formula.at);
    Mistake::new(
        at,
        format!("dimensions of one another: {}", circle.join(" needs ")),
    )
}

/// Returns the kernel's shapes that a variant names, or all shapes if it names none.
pub fn choose_shapes(
    all: &[NamedShape],
    names: Option<&Spanned<Vec<Spanned<String>>>>,
) -> Result<Vec<NamedShape>, Mistake> {
    let Some(names) = names else {
        return Ok(all.to_vec());
    };
    let known = || all.iter().map(|shape| shape.name.as_str());
    for name in names.iter() {
        if !known().any(|known| known == name.value) {
            return Err(name.unknown("shape", known()));
        }
    }
    if let Some(name) = find_repeated(names) {
        return Err(name.problem(format!("duplicate shape `{name}`")));
    }
    let is_named = |shape: &&NamedShape| names.iter().any(|name| name.value == shape.name);
    let chosen: Vec<_> = all.iter().filter(is_named).cloned().collect();
    if chosen.is_empty() {
        Err(names.problem("no shapes: nothing would be judged"))
    } else {
        Ok(chosen)
    }
}

fn check_seeds(raw: &raw::Kernel, shapes: &[&str]) -> Result<(), Mistake> {
    let Some(Spanned {
        value: raw::Seeds::ByShape(by),
        ..
    }) = &raw.seeds
    else {
        return Ok(());
    };
    match by
        .iter()
        .find(|(name, _)| name.value != DEFAULT && !shapes.contains(&name.as_str()))
    {
        None => Ok(()),
        Some((name, _)) => Err(name.unknown("shape", shapes.iter().copied().chain([DEFAULT]))),
    }
}

fn resolve_seeds(raw: &raw::Kernel, shape: &str) -> Result<Vec<u64>, Mistake> {
    fn read_list(seeds: &Spanned<raw::Seeds>) -> Result<Vec<u64>, Mistake> {
        let problem = |message: &str| Err(seeds.problem(message));
        match &seeds.value {
            raw::Seeds::Count(0) => problem("no seed: nothing would be checked"),
            raw::Seeds::Count(count) if *count > defaults::MAX_SEEDS => {
                problem("more than 1000 seeds; for one large seed write a list: [123456]")
            }
            raw::Seeds::Count(count) => Ok((1..=*count).collect()),
            raw::Seeds::List(list) => {
                if let Some(seed) = find_repeated(list) {
                    return Err(seed.problem(format!("duplicate seed {seed}")));
                }
                match list.len() as u64 {
                    0 => problem("no seed: nothing would be checked"),
                    count if count > defaults::MAX_SEEDS => problem("more than 1000 seeds"),
                    _ => Ok(list.iter().map(|seed| seed.value).collect()),
                }
            }
            raw::Seeds::ByShape(_) => problem("expected a number or a list of seeds"),
        }
    }
    match &raw.seeds {
        None => Ok((1..=defaults::SEEDS).collect()),
        Some(Spanned {
            value: raw::Seeds::ByShape(by),
            ..
        }) => by
            .get(shape)
            .or_else(|| by.get(DEFAULT))
            .map_or_else(|| Ok((1..=defaults::SEEDS).collect()), read_list),
        Some(seeds) => read_list(seeds),
    }
}
