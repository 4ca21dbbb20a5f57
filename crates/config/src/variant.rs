//! Describes a kernel as one of its variants sees it: with what the variant replaces, and with the call as it was
//! written.

use super::determinism::resolve_determinism;
use super::memory;
use super::names::check_identifier;
use super::raw::{self, DEFAULT, RawArg, RawLaunch, RawReference};
use super::shape::{NamedShape, choose_shapes};
use super::tensor::Declared;
use super::written::{WrittenGate, WrittenTargets, merge_gates, merge_targets};
use super::yaml::{Mistake, Ordered, Position, Spanned, suggest};
use model::{Arch, Determinism, UnitId};
use std::collections::BTreeMap;

/// A kernel as one of its variants has it.
pub struct KernelVariant<'a> {
    pub kernel: &'a str,
    pub variant: &'a str,
    pub raw: &'a raw::Kernel,
    pub defines: BTreeMap<String, String>,
    pub call: Call<'a>,
    /// The constants, each with the tensor that fills it.
    pub constants: Vec<(&'a Spanned<String>, &'a Spanned<String>)>,
    pub tensors: Vec<Declared<'a>>,
    /// The reference, or `None` if nothing is an output.
    pub reference: Option<&'a Spanned<RawReference>>,
    pub determinism: Determinism,
    /// The shapes of the kernel at which this variant runs.
    pub shapes: Vec<NamedShape>,
    pub gates: Vec<WrittenGate<'a>>,
    pub targets: Vec<WrittenTargets<'a>>,
    /// The variant that can stand in for it.
    pub fallback: Option<&'a Spanned<String>>,
    /// The gates that this variant must fail, as written.
    pub failing: Option<&'a Spanned<Vec<Spanned<String>>>>,
    /// Its tuning space, if it has one.
    pub tune: Option<&'a Spanned<raw::RawTune>>,
}

/// The call as it was written.
pub enum Call<'a> {
    /// The steps in their order, at least one.
    Steps(Vec<WrittenStep<'a>>),
    Launcher {
        launcher: &'a Spanned<raw::Launcher>,
        args: &'a Args,
    },
}

pub struct WrittenStep<'a> {
    pub entry: &'a Spanned<String>,
    pub args: &'a Args,
    pub launch: &'a Spanned<RawLaunch>,
    pub before: Vec<memory::Written<'a>>,
    pub after: Vec<memory::Written<'a>>,
}

type Args = Spanned<Vec<Spanned<RawArg>>>;

pub fn resolve_variants<'a>(
    name: &'a Spanned<String>,
    raw: &'a raw::Kernel,
    shapes: &[NamedShape],
) -> Result<Vec<KernelVariant<'a>>, Mistake> {
    let Some(variants) = &raw.variants else {
        return Ok(vec![resolve_variant(name, DEFAULT, raw, None, shapes)?]);
    };
    if variants.is_empty() {
        return Err(variants
            .problem("no variants: nothing would be judged")
            .help("remove the key: a kernel without it has one variant named `default`"));
    }
    variants
        .iter()
        .map(|(variant, changes)| {
            check_identifier(variant, "variant")?;
            resolve_variant(name, variant, raw, Some(changes), shapes)
        })
        .collect()
}

pub fn resolve_variant<'a>(
    kernel: &'a str,
    variant: &'a str,
    raw: &'a raw::Kernel,
    changes: Option<&'a raw::Variant>,
    shapes: &[NamedShape],
) -> Result<KernelVariant<'a>, Mistake> {
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
            name.problem(format!("the kernel has no tensor `{name}` to replace"))
                .help(suggest(name, raw.tensors.names()))
        })? = (name, tensor);
    }
    let reason = changes
        .and_then(|changes| changes.nondeterministic.as_ref())
        .or(raw.nondeterministic.as_ref());
    let determinism = resolve_determinism(reason)?;
    Ok(KernelVariant {
        kernel,
        variant,
        raw,
        defines: resolve_defines(&[Some(&raw.define), changes.map(|changes| &changes.define)])?,
        call: resolve_call(raw, changes)?,
        constants: changes
            .and_then(|changes| changes.constants.as_ref())
            .or(raw.constants.as_ref())
            .into_iter()
            .flat_map(|constants| constants.iter())
            .map(|(name, tensor)| (name, tensor))
            .collect(),
        tensors,
        reference: changes
            .and_then(|changes| changes.reference.as_ref())
            .or(raw.reference.as_ref()),
        determinism,
        shapes: choose_shapes(shapes, changes.and_then(|changes| changes.shapes.as_ref()))?,
        gates: merge_gates(&raw.gates, changes.map(|changes| &changes.gates))?,
        targets: merge_targets(&raw.target, changes.map(|changes| &changes.target))?,
        fallback: changes.and_then(|changes| changes.fallback.as_ref()),
        failing: changes
            .and_then(|changes| changes.expect.as_ref())
            .map(|expect| &expect.fail),
        tune: changes
            .and_then(|changes| changes.tune.as_ref())
            .or(raw.tune.as_ref()),
    })
}

fn resolve_call<'a>(
    raw: &'a raw::Kernel,
    changes: Option<&'a raw::Variant>,
) -> Result<Call<'a>, Mistake> {
    let of_variant = changes.and_then(|changes| changes.sequence.as_ref());
    let own_entry = changes.and_then(|changes| changes.entry.as_ref());
    let own_launch = changes.and_then(|changes| changes.launch.as_ref());
    // A sequence of the variant replaces the kernel's entry, arguments and launch.
    let (entry, args, launch) = match of_variant {
        Some(_) => (own_entry, None, own_launch),
        None => (
            own_entry.or(raw.entry.as_ref()),
            raw.args.as_ref(),
            own_launch.or(raw.launch.as_ref()),
        ),
    };
    let sequence = of_variant.or(raw.sequence.as_ref());
    let both = |at, keys: &str| Mistake::new(at, format!("either {keys}, not both"));
    match (entry, sequence, &raw.launcher) {
        (Some(entry), None, None) => {
            let args = args.ok_or_else(|| missing_args(entry.at))?;
            let launch = launch.ok_or_else(|| missing_launch(args.at))?;
            let step = WrittenStep {
                entry,
                args,
                launch,
                before: Vec::new(),
                after: Vec::new(),
            };
            Ok(Call::Steps(vec![step]))
        }
        (None, Some(sequence), None) => {
            let in_steps = args.map(|args| (args.at, "args"));
            let in_steps = in_steps.or(launch.map(|launch| (launch.at, "launch")));
            if let Some((at, key)) = in_steps {
                return Err(Mistake::new(
                    at,
                    format!("each step of a sequence has its own `{key}`: remove this one"),
                ));
            }
            if sequence.is_empty() {
                return Err(sequence
                    .problem("a sequence without steps: nothing would be launched")
                    .help("sequence: [{entry: ..., args: [...], launch: {...}}, ...]"));
            }
            resolve_sequence(sequence).map(Call::Steps)
        }
        (None, None, Some(launcher)) => {
            if let Some(launch) = launch {
                return Err(launch.problem("a launcher sets its own launch: remove `launch`"));
            }
            let args = args.ok_or_else(|| missing_args(launcher.at))?;
            Ok(Call::Launcher { launcher, args })
        }
        (Some(entry), Some(_), _) => Err(both(entry.at, "`entry` or `sequence`")
            .help("a sequence of one step takes the place of an entry")),
        (Some(entry), None, Some(_)) => Err(both(entry.at, "`entry` or `launcher`")),
        (None, Some(sequence), Some(_)) => Err(both(sequence.at, "`sequence` or `launcher`")),
        (None, None, None) => Err(raw
            .source
            .problem("the key `entry`, `sequence` or `launcher` is missing")
            .help("entry: the __global__ function as written in the source")
            .help("sequence: several of them, which run one after the other")
            .help("launcher: a host function that launches it")),
    }
}

/// Returns each launch with the changes of memory before it, and the last launch also with the changes after it.
fn resolve_sequence(
    sequence: &Spanned<Vec<Spanned<raw::RawStep>>>,
) -> Result<Vec<WrittenStep<'_>>, Mistake> {
    let mut steps: Vec<WrittenStep<'_>> = Vec::new();
    let mut open = Vec::new();
    for step in sequence.iter() {
        let Some(entry) = memory::read(step, &mut open)? else {
            continue;
        };
        steps.push(WrittenStep {
            entry,
            args: step.args.as_ref().ok_or_else(|| missing_args(entry.at))?,
            launch: step
                .launch
                .as_ref()
                .ok_or_else(|| missing_launch(entry.at))?,
            before: std::mem::take(&mut open),
            after: Vec::new(),
        });
    }
    match steps.last_mut() {
        Some(last) => last.after = open,
        None => {
            return Err(sequence
                .problem("no step is a kernel: nothing would be launched")
                .help("sequence: [{entry: ..., args: [...], launch: {...}}, ...]"));
        }
    }
    Ok(steps)
}

fn missing_launch(at: Position) -> Mistake {
    Mistake::new(at, "the key `launch` is missing").help("launch: {grid: [...], block: [...]}")
}

fn missing_args(at: Position) -> Mistake {
    Mistake::new(at, "the key `args` is missing")
        .help("args: [{tensor: x}, {i32: N}], in the order of the parameters")
}

fn resolve_defines(
    layers: &[Option<&Ordered<Spanned<raw::Word>>>],
) -> Result<BTreeMap<String, String>, Mistake> {
    let mut defines = BTreeMap::new();
    for (name, value) in layers.iter().flatten().flat_map(|layer| layer.iter()) {
        check_identifier(name, "macro")?;
        if value.0.contains('\n') {
            return Err(value.problem("the value of a macro must be a single line"));
        }
        defines.insert(name.value.clone(), value.0.clone());
    }
    Ok(defines)
}

impl<'a> KernelVariant<'a> {
    pub fn unit(&self, arch: Arch) -> UnitId {
        UnitId {
            kernel: self.kernel.to_owned(),
            variant: self.variant.to_owned(),
            arch,
        }
    }

    /// Checks that another variant can be a reference for this one at a shape. `named` is the place where it is named.
    pub fn check_measure(
        &self,
        named: &Spanned<String>,
        shape: Option<&str>,
    ) -> Result<(), Mistake> {
        let variant = self.variant;
        if self.failing.is_some() {
            let message = format!("`{variant}` is expected to fail, and is no measure for others");
            return Err(named.problem(message));
        }
        match shape.filter(|shape| !self.shapes.iter().any(|own| own.name == *shape)) {
            None => Ok(()),
            Some(shape) => {
                let message = format!("`{variant}` is not run at shape `{shape}`");
                let help = format!("add `{shape}` to the `shapes` of `{variant}`");
                Err(named.problem(message).help(help))
            }
        }
    }

    pub fn has_output(&self) -> bool {
        self.tensors
            .iter()
            .filter_map(|(_, tensor)| tensor.role.as_ref())
            .any(|role| role.is_result())
    }

    pub fn variant_defines(
        &self,
    ) -> impl Iterator<Item = &'a (Spanned<String>, Spanned<raw::Word>)> {
        self.raw
            .variants
            .iter()
            .flat_map(|variants| variants.iter())
            .filter(|(name, _)| name.value == self.variant)
            .flat_map(|(_, changes)| changes.define.iter())
    }
}
