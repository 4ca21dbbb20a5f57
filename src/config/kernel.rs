//! One kernel: its variants as forms, its shapes, and from them units, cases and gates.

use super::call::{self, Callee};
use super::defaults;
use super::gates;
use super::raw::{self, Limits};
use super::reference;
use super::scope::{self, Scope};
use super::tensor::{self, Declared};
use super::yaml::{Ordered, Problem, Spot, did_you_mean};
use std::collections::BTreeMap;
use verdict::expr::is_identifier;
use verdict::model::{
    Arch, Callable, Case, CaseId, Determinism, Gate, Metric, Tensor, Unit, UnitId,
};

/// A kernel as one of its variants has it.
pub struct Form<'a> {
    pub kernel: &'a str,
    pub variant: &'a str,
    pub raw: &'a raw::Kernel,
    pub defines: BTreeMap<String, String>,
    pub entry: Option<&'a Spot<String>>,
    pub tensors: Vec<Declared<'a>>,
    pub launch: Option<&'a Spot<raw::Launch>>,
    pub reference: &'a Spot<raw::Reference>,
    pub determinism: Determinism,
    pub gates: Vec<(&'a Spot<String>, &'a Spot<Limits>)>,
}

pub struct Shape {
    pub name: String,
    pub dims: BTreeMap<String, i64>,
    pub seeds: Vec<u64>,
}

/// What the file says once for all kernels, and what is on disk.
pub struct Shared<'a> {
    pub file: &'a str,
    pub architectures: &'a [Arch],
    pub flags: &'a [Spot<String>],
    pub disk: &'a dyn Fn(&str) -> Option<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    File,
    Directory,
}

pub struct Resolved {
    pub units: Vec<Unit>,
    pub cases: Vec<Case>,
    pub gates: Vec<Gate>,
}

pub fn resolve(
    name: &Spot<String>,
    raw: &Spot<raw::Kernel>,
    shared: &Shared<'_>,
) -> Result<Resolved, Problem> {
    file_name(name, "kernel")?;
    let shapes = shapes(raw)?;
    let forms = forms(name, raw)?;
    let variants: Vec<&str> = forms.iter().map(|form| form.variant).collect();
    let mut resolved = Resolved {
        units: Vec::new(),
        cases: Vec::new(),
        gates: Vec::new(),
    };
    for form in &forms {
        distinct_names(form, &shapes)?;
        let cases: Vec<Case> = shapes
            .iter()
            .map(|shape| case(form, shape, shared))
            .collect::<Result<_, _>>()?;
        resolved.units.extend(units(form, &shapes, &cases, shared)?);
        resolved.gates.extend(gates::gates(
            form,
            &variants,
            shared.architectures,
            &shapes,
            &cases,
            shared.file,
        )?);
        resolved.cases.extend(cases);
    }
    references_of_variants(&forms, &resolved.cases)?;
    gates::apply(&resolved.gates, &mut resolved.cases);
    Ok(resolved)
}

/// Kernels, variants and shapes name files, and stand in filters between `/` and `@`.
fn file_name(name: &Spot<String>, what: &str) -> Result<(), Problem> {
    let fits = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(fits) {
        return Ok(());
    }
    Err(Problem::new(
        name.at,
        format!(
            "`{}` cannot name a {what}: letters, digits, _ and -",
            name.value
        ),
    ))
}

fn identifier(name: &Spot<String>, what: &str) -> Result<(), Problem> {
    if is_identifier(name) {
        return Ok(());
    }
    Err(Problem::new(
        name.at,
        format!(
            "`{}` cannot name a {what}: letters, digits and _, not a digit first",
            name.value
        ),
    ))
}

fn shapes(raw: &raw::Kernel) -> Result<Vec<Shape>, Problem> {
    let Some(written) = &raw.shapes else {
        let shape = Shape {
            name: gates::DEFAULT.to_owned(),
            dims: BTreeMap::new(),
            seeds: seeds(raw, gates::DEFAULT)?,
        };
        check_seeds(raw, &[gates::DEFAULT])?;
        return Ok(vec![shape]);
    };
    let Some((first, first_dims)) = written.first() else {
        return Err(Problem::new(
            written.at,
            "no shapes: nothing would be judged",
        ));
    };
    check_seeds(raw, &written.names().collect::<Vec<_>>())?;
    let mut shapes = Vec::new();
    for (name, dims) in written.iter() {
        file_name(name, "shape")?;
        for (dim, _) in dims.iter() {
            identifier(dim, "dimension")?;
            if Metric::from_name(dim).is_some() {
                return Err(Problem::new(
                    dim.at,
                    format!("`{}` is a metric and cannot name a dimension", dim.value),
                ));
            }
            if !first_dims.names().any(|known| known == dim.value) {
                return Err(Problem::new(
                    dim.at,
                    format!("shape `{}` has no `{}`", first.value, dim.value),
                )
                .help(did_you_mean(dim, first_dims.names())));
            }
        }
        if let Some(lacking) = first_dims.names().find(|dim| dims.get(dim).is_none()) {
            return Err(Problem::new(
                dims.at,
                format!(
                    "shape `{}` lacks `{lacking}`, which `{}` has",
                    name.value, first.value
                ),
            ));
        }
        shapes.push(Shape {
            name: name.value.clone(),
            dims: dims
                .iter()
                .map(|(dim, value)| (dim.value.clone(), value.value))
                .collect(),
            seeds: seeds(raw, name)?,
        });
    }
    Ok(shapes)
}

fn check_seeds(raw: &raw::Kernel, shapes: &[&str]) -> Result<(), Problem> {
    let Some(Spot {
        value: raw::Seeds::ByShape(by),
        ..
    }) = &raw.seeds
    else {
        return Ok(());
    };
    match by
        .iter()
        .find(|(name, _)| name.value != gates::DEFAULT && !shapes.contains(&name.as_str()))
    {
        None => Ok(()),
        Some((name, _)) => {
            Err(
                Problem::new(name.at, format!("there is no shape `{}`", name.value)).help(
                    did_you_mean(name, shapes.iter().copied().chain([gates::DEFAULT])),
                ),
            )
        }
    }
}

fn seeds(raw: &raw::Kernel, shape: &str) -> Result<Vec<u64>, Problem> {
    fn list(seeds: &Spot<raw::Seeds>) -> Result<Vec<u64>, Problem> {
        let problem = |message: &str| Err(Problem::new(seeds.at, message));
        match &seeds.value {
            raw::Seeds::Count(0) => problem("no seed: nothing would be checked"),
            raw::Seeds::Count(count) if *count > defaults::MAX_SEEDS => {
                problem("more than 1000 seeds; a list can name large ones: [123456]")
            }
            raw::Seeds::Count(count) => Ok((1..=*count).collect()),
            raw::Seeds::List(list) => {
                for (index, seed) in list.iter().enumerate() {
                    if list
                        .iter()
                        .take(index)
                        .any(|earlier| earlier.value == seed.value)
                    {
                        return Err(Problem::new(
                            seed.at,
                            format!("seed {} stands here twice", seed.value),
                        ));
                    }
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
        Some(Spot {
            value: raw::Seeds::ByShape(by),
            ..
        }) => by
            .get(shape)
            .or_else(|| by.get(gates::DEFAULT))
            .map_or_else(|| Ok((1..=defaults::SEEDS).collect()), list),
        Some(seeds) => list(seeds),
    }
}

fn forms<'a>(name: &'a Spot<String>, raw: &'a raw::Kernel) -> Result<Vec<Form<'a>>, Problem> {
    let Some(variants) = &raw.variants else {
        return Ok(vec![form(name, gates::DEFAULT, raw, None)?]);
    };
    if variants.is_empty() {
        return Err(
            Problem::new(variants.at, "no variants: nothing would be judged")
                .help("leave the key out for one variant named `default`"),
        );
    }
    variants
        .iter()
        .map(|(variant, changes)| {
            identifier(variant, "variant")?;
            form(name, variant, raw, Some(changes))
        })
        .collect()
}

fn form<'a>(
    kernel: &'a str,
    variant: &'a str,
    raw: &'a raw::Kernel,
    changes: Option<&'a raw::Variant>,
) -> Result<Form<'a>, Problem> {
    let mut tensors: Vec<Declared<'a>> = raw
        .tensors
        .iter()
        .map(|(name, tensor)| (name, tensor))
        .collect();
    for (name, tensor) in changes
        .into_iter()
        .flat_map(|changes| changes.tensors.iter())
    {
        let known = tensors
            .iter_mut()
            .find(|(known, _)| known.value == name.value);
        *known.ok_or_else(|| {
            Problem::new(
                name.at,
                format!("the kernel has no tensor `{}` to replace", name.value),
            )
            .help(did_you_mean(name, raw.tensors.names()))
        })? = (name, tensor);
    }
    let entry = changes.and_then(|changes| changes.entry.as_ref());
    if let (Some(entry), Some(_)) = (entry, &raw.launcher) {
        return Err(Problem::new(
            entry.at,
            "a kernel with a launcher has no entry",
        ));
    }
    let reason = changes
        .and_then(|changes| changes.nondeterministic.as_ref())
        .or(raw.nondeterministic.as_ref());
    let determinism = match reason {
        None => Determinism::BitExact,
        Some(reason)
            if reason.trim().len() < 3 || matches!(reason.trim(), "true" | "false" | "yes") =>
        {
            return Err(Problem::new(reason.at, "why do its launches differ?")
                .help("nondeterministic: float atomics"));
        }
        Some(reason) => Determinism::Declared {
            reason: reason.value.clone(),
        },
    };
    Ok(Form {
        kernel,
        variant,
        raw,
        defines: defines(&[Some(&raw.define), changes.map(|changes| &changes.define)])?,
        entry: entry.or(raw.entry.as_ref()),
        tensors,
        launch: changes
            .and_then(|changes| changes.launch.as_ref())
            .or(raw.launch.as_ref()),
        reference: changes
            .and_then(|changes| changes.reference.as_ref())
            .unwrap_or(&raw.reference),
        determinism,
        gates: gates::merge(&raw.gates, changes.map(|changes| &changes.gates)),
    })
}

fn defines(
    layers: &[Option<&Ordered<Spot<raw::Word>>>],
) -> Result<BTreeMap<String, String>, Problem> {
    let mut defines = BTreeMap::new();
    for (name, value) in layers.iter().flatten().flat_map(|layer| layer.iter()) {
        identifier(name, "macro")?;
        if value.0.contains('\n') {
            return Err(Problem::new(
                value.at,
                "a macro on the command line has one line",
            ));
        }
        defines.insert(name.value.clone(), value.0.clone());
    }
    Ok(defines)
}

/// In an expression one name has one meaning.
fn distinct_names(form: &Form<'_>, shapes: &[Shape]) -> Result<(), Problem> {
    let dims = shapes.first().map(|shape| &shape.dims);
    for name in form.defines.keys() {
        let clash = if Metric::from_name(name).is_some() {
            "a metric"
        } else if dims.is_some_and(|dims| dims.contains_key(name)) {
            "a dimension"
        } else {
            continue;
        };
        let at = form
            .raw
            .define
            .iter()
            .chain(form.variant_defines())
            .find(|(found, _)| found.value == *name)
            .map_or(form.raw.gates.at, |(found, _)| found.at);
        return Err(Problem::new(at, format!("`{name}` is already {clash}")));
    }
    Ok(())
}

impl<'a> Form<'a> {
    fn variant_defines(&self) -> impl Iterator<Item = &'a (Spot<String>, Spot<raw::Word>)> {
        let variants = self
            .raw
            .variants
            .iter()
            .flat_map(|variants| variants.iter());
        variants
            .filter(|(name, _)| name.value == self.variant)
            .flat_map(|(_, changes)| changes.define.iter())
    }
}

fn case(form: &Form<'_>, shape: &Shape, shared: &Shared<'_>) -> Result<Case, Problem> {
    let raw = form.raw;
    let scope = Scope::new(&shape.name, &shape.dims, &form.defines);
    let tensors = tensor::tensors(&form.tensors, &scope)?;
    if !tensors.iter().any(|tensor| tensor.role.is_result()) {
        let at = form
            .tensors
            .first()
            .map_or(raw.args.at, |(name, _)| name.at);
        return Err(
            Problem::new(at, "no tensor is an output: nothing would be checked")
                .help("give one `role: out` or `role: inout`"),
        );
    }
    let callee = match (&raw.launcher, &raw.entry) {
        (Some(_), _) => Callee::Launcher,
        (None, _) => Callee::Kernel,
    };
    let args = call::args(&raw.args, &tensors, callee, &scope)?;
    let passed = call::passed(&args);
    if let Some((name, _)) = form
        .tensors
        .iter()
        .find(|(name, _)| !passed.contains(&name.as_str()))
    {
        return Err(Problem::new(
            name.at,
            format!("no argument passes the tensor `{}`", name.value),
        )
        .help(format!(
            "add {{tensor: {}}} to args, or remove the tensor",
            name.value
        )));
    }
    let launch = match (&raw.launcher, form.launch) {
        (None, Some(launch)) => Some(call::launch(launch, &scope)?),
        (Some(_), None) => None,
        (None, None) => {
            return Err(
                Problem::new(raw.args.at, "the key `launch` is missing beside this one")
                    .help("launch: {grid: [...], block: [...]}"),
            );
        }
        (Some(_), Some(launch)) => {
            return Err(Problem::new(
                launch.at,
                "a launcher decides its own launches",
            ));
        }
    };
    let path = |spot: &Spot<String>| path(spot, Entry::File, shared);
    let reference = reference::reference(form.reference, &tensors, &scope, &path)?;
    let deadline = match &raw.deadline {
        None => defaults::DEADLINE_NS,
        Some(deadline) => scope::duration(deadline, "a deadline", 1e6..=3.6e12)?,
    };
    let launches = match &raw.launches {
        None => defaults::LAUNCHES,
        Some(launches) if (2..=1000).contains(&launches.value) => launches.value,
        Some(launches) => {
            return Err(Problem::new(
                launches.at,
                format!("{} launches, not between 2 and 1000", launches.value),
            ));
        }
    };
    Ok(Case {
        id: CaseId {
            kernel: form.kernel.to_owned(),
            variant: form.variant.to_owned(),
            shape: shape.name.clone(),
        },
        dims: shape.dims.clone(),
        tensors,
        args,
        launch,
        seeds: shape.seeds.clone(),
        reference,
        tolerance: None,
        determinism: form.determinism.clone(),
        launches,
        deadline_ms: (deadline / 1e6) as u64,
        timed: false,
    })
}

fn units(
    form: &Form<'_>,
    shapes: &[Shape],
    cases: &[Case],
    shared: &Shared<'_>,
) -> Result<Vec<Unit>, Problem> {
    let raw = form.raw;
    let call = match (form.entry, &raw.launcher) {
        (Some(entry), None) => Callable::Entry {
            name: call::entry_name(entry)?,
        },
        (None, Some(launcher)) => {
            let scopes: Vec<_> = shapes
                .iter()
                .map(|shape| Scope::new(&shape.name, &shape.dims, &form.defines))
                .collect();
            let args = cases.first().map_or(&[][..], |case| &case.args);
            call::launcher(launcher, args, &raw.args, &scopes)?
        }
        (Some(entry), Some(_)) => {
            return Err(Problem::new(
                entry.at,
                "either `entry` or `launcher`, not both",
            ));
        }
        (None, None) => {
            return Err(
                Problem::new(raw.source.at, "the key `entry` is missing beside this one").help(
                    "entry: the __global__ function as written in the source; or launcher: ...",
                ),
            );
        }
    };
    let source = path(&raw.source, Entry::File, shared)?;
    let include_dirs: Vec<String> = raw
        .include_dirs
        .iter()
        .map(|dir| path(dir, Entry::Directory, shared))
        .collect::<Result<_, _>>()?;
    let flags: Vec<String> = shared
        .flags
        .iter()
        .chain(&raw.flags)
        .map(flag)
        .collect::<Result<_, _>>()?;
    Ok(shared
        .architectures
        .iter()
        .map(|&arch| Unit {
            id: UnitId {
                kernel: form.kernel.to_owned(),
                variant: form.variant.to_owned(),
                arch,
            },
            source: source.clone(),
            include_dirs: include_dirs.clone(),
            defines: form.defines.clone(),
            flags: flags.clone(),
            call: call.clone(),
        })
        .collect())
}

/// Flags that would say again, or against it, what has a key of its own.
fn flag(flag: &Spot<String>) -> Result<String, Problem> {
    let owned = [
        (&["-D", "--define-macro"][..], "define"),
        (&["-I", "--include-path"][..], "include_dirs"),
        (
            &[
                "-arch",
                "--gpu-architecture",
                "-gencode",
                "--generate-code",
                "-code",
                "--gpu-code",
            ][..],
            "architectures",
        ),
    ];
    for (prefixes, key) in owned {
        if prefixes.iter().any(|prefix| flag.starts_with(prefix)) {
            return Err(
                Problem::new(flag.at, format!("`{}` is no flag here", flag.value))
                    .help(format!("use the key `{key}`")),
            );
        }
    }
    let output = [
        "-o", "-c", "-ptx", "-cubin", "-fatbin", "-shared", "-lib", "-dc", "-rdc",
    ];
    if output.contains(&flag.as_str()) || flag.trim().is_empty() {
        return Err(Problem::new(
            flag.at,
            format!(
                "`{}` is no flag here: gatekeeper decides what is built",
                flag.value
            ),
        ));
    }
    Ok(flag.value.clone())
}

/// A path of the repository: relative, inside it, with forward slashes, and there.
fn path(spot: &Spot<String>, wanted: Entry, shared: &Shared<'_>) -> Result<String, Problem> {
    let text = spot.trim_end_matches('/');
    let inside = !text.is_empty()
        && !text.starts_with('/')
        && !text.contains(['\\', ':', '\0'])
        && text.split('/').all(|part| !part.is_empty() && part != "..");
    if !inside {
        return Err(Problem::new(
            spot.at,
            format!("`{}` is not a path below gates.yaml", spot.value),
        )
        .help("relative to the directory of gates.yaml, with forward slashes and without `..`"));
    }
    let parts: Vec<_> = text.split('/').filter(|part| *part != ".").collect();
    let text = if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    };
    match ((shared.disk)(&text), wanted) {
        (Some(found), wanted) if found == wanted => Ok(text),
        (Some(_), Entry::File) => Err(Problem::new(spot.at, format!("{text} is a directory"))),
        (Some(_), Entry::Directory) => {
            Err(Problem::new(spot.at, format!("{text} is not a directory")))
        }
        (None, _) => Err(Problem::new(spot.at, format!("{text} does not exist"))
            .help("paths are relative to the directory of gates.yaml")),
    }
}

/// A variant that others are compared with is itself compared with something computed, and is alike.
fn references_of_variants(forms: &[Form<'_>], cases: &[Case]) -> Result<(), Problem> {
    let outputs = |case: &Case| -> Vec<Tensor> {
        let outputs = case.tensors.iter().filter(|tensor| tensor.role.is_result());
        outputs.cloned().collect()
    };
    for form in forms {
        let raw::Reference::Variant(name) = &form.reference.value else {
            continue;
        };
        if name.value == form.variant {
            return Err(Problem::new(
                name.at,
                format!("variant `{}` is its own reference", name.value),
            )
            .help("give that variant a `reference` of its own"));
        }
        let Some(target) = forms.iter().find(|other| other.variant == name.value) else {
            let known = forms.iter().map(|form| form.variant);
            return Err(
                Problem::new(name.at, format!("there is no variant `{}`", name.value))
                    .help(did_you_mean(name, known)),
            );
        };
        if matches!(target.reference.value, raw::Reference::Variant(_)) {
            return Err(Problem::new(
                name.at,
                format!("`{}` has another variant as its reference too", name.value),
            )
            .help("one of them needs a reference that is computed"));
        }
        let of = |variant: &str| -> Vec<&Case> {
            cases
                .iter()
                .filter(|case| case.id.variant == variant)
                .collect()
        };
        for (case, target) in of(form.variant).into_iter().zip(of(target.variant)) {
            let alike = |a: &Tensor, b: &Tensor| a.name == b.name && a.dims == b.dims;
            let (own, others) = (outputs(case), outputs(target));
            if own.len() != others.len() || !own.iter().zip(&others).all(|(a, b)| alike(a, b)) {
                return Err(Problem::new(
                    name.at,
                    format!("`{}` has other outputs than `{}`", name.value, form.variant),
                ));
            }
        }
    }
    Ok(())
}
