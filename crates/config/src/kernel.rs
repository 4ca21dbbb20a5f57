//! Resolves one kernel: its variants and shapes, and from these its units, cases and gates.

use super::call::{self, Callee};
use super::defaults;
use super::disk::PathKind;
use super::expect;
use super::fallback;
use super::flags::check_nvcc_flag;
use super::gates::{self, GateResolver};
use super::image;
use super::loaded::Loaded;
use super::memory;
use super::names::check_file_name;
use super::paths::{Shared, check_include_dir, check_path};
use super::raw::{self, RawReference};
use super::reference;
use super::rival;
use super::scope::{self, Scope};
use super::shape::{NamedShape, resolve_shapes};
use super::target;
use super::tensor;
use super::tune;
use super::variant::{Call, KernelVariant, resolve_variant, resolve_variants};
use super::yaml::{Mistake, Spanned};
use model::{
    Arg, Callable, Case, CaseId, Constant, Gate, MemoryStep, Metric, Reference, Role, Step, Tensor,
    Unit,
};
use std::collections::BTreeMap;
use system::sources::Precompiled;

/// Everything that is built and run for one variant, with the gates that must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedVariant {
    pub units: Vec<Unit>,
    pub cases: Vec<Case>,
    pub gates: Vec<Gate>,
}

/// Resolves all variants of a kernel, and adds them to what was loaded.
pub fn resolve_kernel(
    name: &Spanned<String>,
    raw: &Spanned<raw::Kernel>,
    shared: &Shared<'_>,
    loaded: &mut Loaded,
) -> Result<(), Mistake> {
    check_file_name(name, "kernel")?;
    let shapes = resolve_shapes(raw)?;
    let kernels = resolve_variants(name, raw, &shapes)?;
    let rivals = rival::resolve_rivals(name, raw)?;
    let (mut cases, mut all_gates, mut all_targets) = (Vec::new(), Vec::new(), Vec::new());
    let dims = names_of_dims(&shapes);
    for kernel in &kernels {
        let resolver = GateResolver {
            kernel,
            siblings: &kernels,
            architectures: shared.architectures,
            shapes: &shapes,
            rivals: &rivals,
            dims: &dims,
            file: shared.file,
        };
        let mut variant = resolve_one(&resolver, shared)?;
        loaded.plan.units.extend(variant.units);
        loaded.tunes.extend(tune::resolve(kernel, &shapes)?);
        let targets = target::resolve(&resolver, &kernel.targets, &variant.cases)?;
        match kernel.failing {
            None => all_targets.extend(targets),
            // The metrics of a wrong kernel have no good values.
            Some(names) => {
                variant.gates.retain(expect::is_asked);
                let expected = expect::resolve(kernel, names, &variant.gates, shared.file)?;
                loaded.plan.expected.push(expected);
            }
        }
        all_gates.extend(variant.gates);
        cases.extend(variant.cases);
    }
    check_variant_references(&kernels, &cases)?;
    let fallbacks = fallback::resolve(&kernels, &cases, shared.file)?;
    gates::mark_cases(&all_gates, &all_targets, &mut cases);
    loaded.plan.fallbacks.extend(fallbacks);
    loaded.plan.rivals.extend(rivals);
    loaded.plan.cases.extend(cases);
    loaded.gates.extend(all_gates);
    loaded.targets.extend(all_targets);
    Ok(())
}

fn names_of_dims(shapes: &[NamedShape]) -> Vec<&str> {
    shapes.first().map_or(Vec::new(), |shape| {
        shape.dims.keys().map(String::as_str).collect()
    })
}

/// Resolves a variant with other values of some macros, under a name of its own, as `tune` tries it. Keeps only the
/// gates that can be decided from this variant alone.
pub fn resolve_candidate(
    (name, raw): (&Spanned<String>, &Spanned<raw::Kernel>),
    (variant, candidate): (&str, &str),
    macros: &BTreeMap<String, String>,
    shared: &Shared<'_>,
) -> Result<ResolvedVariant, Mistake> {
    let shapes = resolve_shapes(raw)?;
    let siblings = resolve_variants(name, raw, &shapes)?;
    let variants = raw.variants.as_ref();
    let changes = variants.and_then(|variants| variants.get(variant));
    let mut kernel = resolve_variant(
        name,
        candidate,
        raw,
        changes.map(|change| &change.value),
        &shapes,
    )?;
    kernel.defines.extend(macros.clone());
    let rivals = rival::resolve_rivals(name, raw)?;
    let resolver = GateResolver {
        kernel: &kernel,
        siblings: &siblings,
        architectures: shared.architectures,
        shapes: &shapes,
        rivals: &rivals,
        dims: &names_of_dims(&shapes),
        file: shared.file,
    };
    let mut asked = resolve_one(&resolver, shared)?;
    asked.gates.retain(tune::is_asked);
    gates::mark_cases(&asked.gates, &[], &mut asked.cases);
    Ok(asked)
}

fn resolve_one(
    resolver: &GateResolver<'_>,
    shared: &Shared<'_>,
) -> Result<ResolvedVariant, Mistake> {
    let kernel = resolver.kernel;
    check_names(kernel, resolver.shapes)?;
    let mut cases: Vec<Case> = kernel
        .shapes
        .iter()
        .map(|shape| resolve_case(kernel, shape, shared))
        .collect::<Result<_, _>>()?;
    let entries = resolve_entries(kernel, &mut cases)?;
    let units = resolve_units(kernel, entries, &cases, shared)?;
    let mut gates = Vec::new();
    for unit in &units {
        gates.extend(resolver.unit_gates(&unit.id)?);
    }
    for (case, shape) in cases.iter().zip(&kernel.shapes) {
        gates.extend(resolver.case_gates(case, shape)?);
    }
    Ok(ResolvedVariant {
        units,
        cases,
        gates,
    })
}

/// Returns the entries of a variant: the entry of each step, or all entries if they differ between shapes. In the
/// latter case the steps of its cases say which one they launch.
fn resolve_entries(kernel: &KernelVariant<'_>, cases: &mut [Case]) -> Result<Vec<String>, Mistake> {
    let Call::Steps(steps) = &kernel.call else {
        return Ok(Vec::new());
    };
    let mut entries: Vec<String> = Vec::new();
    let differ = steps.iter().any(|step| step.entry.contains('{'));
    for (shape, case) in kernel.shapes.iter().zip(cases) {
        let scope = Scope::new(&shape.name, &shape.dims, &kernel.defines);
        let names: Vec<String> = steps
            .iter()
            .map(|step| call::resolve_entry_name(step.entry, &scope))
            .collect::<Result<_, _>>()?;
        if !differ {
            return Ok(names);
        }
        for (name, step) in names.into_iter().zip(&mut case.steps) {
            let known = entries.iter().position(|entry| *entry == name);
            step.entry = Some(known.unwrap_or(entries.len()));
            if known.is_none() {
                entries.push(name);
            }
        }
    }
    Ok(entries)
}

/// Refuses macros with the name of a metric or of a dimension. In an expression, each name must have only one meaning.
fn check_names(kernel: &KernelVariant<'_>, shapes: &[NamedShape]) -> Result<(), Mistake> {
    let dims = shapes.first().map(|shape| &shape.dims);
    for name in kernel.defines.keys() {
        let clash = if Metric::from_name(name).is_some() {
            "a metric"
        } else if dims.is_some_and(|dims| dims.contains_key(name)) {
            "a dimension"
        } else {
            continue;
        };
        let at = kernel
            .raw
            .define
            .iter()
            .chain(kernel.variant_defines())
            .find(|(found, _)| found.value == *name)
            .map_or(kernel.raw.gates.at, |(found, _)| found.at);
        return Err(Mistake::new(at, format!("`{name}` is already {clash}")));
    }
    Ok(())
}

/// Checks the images of all steps together, as the steps share the tensors.
fn check_images(
    steps: &[Step],
    tensors: &[Tensor],
    kernel: &KernelVariant<'_>,
) -> Result<(), Mistake> {
    let args: Vec<&Arg> = steps.iter().flat_map(|step| &step.args).collect();
    let declared = |name: &str| {
        let found = kernel
            .tensors
            .iter()
            .find(|(declared, _)| declared.value == name);
        found.map_or(kernel.raw.source.at, |(declared, _)| declared.at)
    };
    image::check_together(&args, kernel.raw.source.at)?;
    let only_read = image::only_read(&args);
    let is_written =
        |tensor: &&Tensor| tensor.role != Role::In && only_read.contains(&tensor.name.as_str());
    match tensors.iter().find(is_written) {
        None => Ok(()),
        Some(tensor) => Err(Mistake::new(
            declared(&tensor.name),
            format!(
                "`{}` is written by the kernel, and a texture is only read",
                tensor.name
            ),
        )
        .help(format!("pass {{surface: {{tensor: {}}}}}", tensor.name))),
    }
}

fn resolve_case(
    kernel: &KernelVariant<'_>,
    shape: &NamedShape,
    shared: &Shared<'_>,
) -> Result<Case, Mistake> {
    let raw = kernel.raw;
    let scope = Scope::new(&shape.name, &shape.dims, &kernel.defines);
    let tensors = tensor::resolve_tensors(&kernel.tensors, &scope)?;
    let steps = resolve_steps(&kernel.call, &tensors, &scope)?;
    check_constants(kernel, &tensors)?;
    check_images(&steps, &tensors, kernel)?;
    let passed = steps
        .iter()
        .flat_map(|step| call::passed_tensors(&step.args));
    let filling = kernel.constants.iter().map(|(_, tensor)| tensor.as_str());
    let around = steps
        .iter()
        .flat_map(|step| step.before.iter().chain(&step.after))
        .flat_map(MemoryStep::tensors);
    let passed: Vec<_> = passed.chain(filling).chain(around).collect();
    let reference = resolve_reference(kernel, &tensors, &scope, shared)?;
    check_use(kernel, &tensors, &passed, &reference)?;
    let deadline = match &raw.deadline {
        None => defaults::DEADLINE_NS,
        Some(deadline) => scope::parse_duration(deadline, "a deadline", 1e6..=3.6e12)?,
    };
    let launches = match &raw.launches {
        None => defaults::LAUNCHES,
        Some(launches) if (2..=1000).contains(&launches.value) => launches.value,
        Some(launches) => {
            return Err(launches.problem(format!(
                "`launches` is {launches}; it must be between 2 and 1000"
            )));
        }
    };
    Ok(Case {
        id: CaseId::new(kernel.kernel, kernel.variant, &shape.name),
        dims: shape.dims.clone(),
        tensors,
        steps,
        seeds: shape.seeds.clone(),
        reference,
        tolerance: None,
        determinism: kernel.determinism.clone(),
        launches,
        deadline_ms: (deadline / 1e6) as u64,
        timed: false,
    })
}

fn resolve_reference(
    kernel: &KernelVariant<'_>,
    tensors: &[Tensor],
    scope: &Scope<'_>,
    shared: &Shared<'_>,
) -> Result<Reference, Mistake> {
    let has_output = tensors.iter().any(|tensor| tensor.role.is_result());
    let path = |spot: &Spanned<String>| check_path(spot, PathKind::File, shared);
    match kernel.reference {
        Some(reference) if has_output => {
            reference::resolve_reference(reference, tensors, scope, &path)
        }
        Some(reference) => Err(reference
            .problem("no tensor is an output: the reference has nothing to compute")
            .help("give one `role: out` or `role: inout`")
            .help("if the kernel has no output, remove `reference`")),
        None if has_output => {
            let at = kernel
                .tensors
                .iter()
                .find(|(_, tensor)| tensor.role.as_ref().is_some_and(|role| role.is_result()))
                .map_or(kernel.raw.source.at, |(name, _)| name.at);
            Err(
                Mistake::new(at, "the key `reference` is missing: this is an output")
                    .help(super::source::REFERENCE),
            )
        }
        None => Ok(Reference::NoOutput),
    }
}

/// Checks that every tensor has a use: a kernel gets it, or only the reference reads it and says so.
fn check_use(
    kernel: &KernelVariant<'_>,
    tensors: &[Tensor],
    passed: &[&str],
    reference: &Reference,
) -> Result<(), Mistake> {
    let read = reference::inputs(reference, tensors);
    for ((name, _), tensor) in kernel.tensors.iter().zip(tensors) {
        let (at, name) = (name.at, name.as_str());
        let is_passed = passed.contains(&name);
        let problem = match tensor.role {
            Role::Reference if is_passed => Mistake::new(
                at,
                format!("`{name}` is for the reference alone, and a kernel gets it"),
            )
            .help("remove `role: reference`: an input is for both"),
            Role::Reference if !read.contains(&name) => Mistake::new(
                at,
                format!("the reference does not read `{name}`, which is for it alone"),
            )
            .help("name it in the `reference`, or remove the tensor"),
            Role::In | Role::Inout | Role::Out | Role::Scratch if !is_passed => {
                let problem = Mistake::new(at, format!("no argument passes the tensor `{name}`"))
                    .help(format!(
                        "add {{tensor: {name}}} to args, or remove the tensor"
                    ));
                if read.contains(&name) && tensor.role == Role::In {
                    problem.help("if only the reference reads it: role: reference")
                } else {
                    problem
                }
            }
            _ => continue,
        };
        return Err(problem);
    }
    Ok(())
}

fn resolve_steps(
    call: &Call<'_>,
    tensors: &[Tensor],
    scope: &Scope<'_>,
) -> Result<Vec<Step>, Mistake> {
    match call {
        Call::Steps(steps) => steps
            .iter()
            .map(|step| {
                let memory = |written: &[memory::Written<'_>]| -> Result<Vec<_>, Mistake> {
                    written
                        .iter()
                        .map(|step| memory::resolve(step, tensors, scope))
                        .collect()
                };
                Ok(Step {
                    entry: None,
                    args: call::resolve_args(step.args, tensors, Callee::Kernel, scope)?,
                    launch: Some(call::resolve_launch(step.launch, scope)?),
                    before: memory(&step.before)?,
                    after: memory(&step.after)?,
                })
            })
            .collect(),
        Call::Launcher { args, .. } => {
            let args = call::resolve_args(args, tensors, Callee::Launcher, scope)?;
            Ok(vec![Step::new(args, None)])
        }
    }
}

/// Checks constants. They are filled before the first launch, from what is known by then.
fn check_constants(kernel: &KernelVariant<'_>, tensors: &[Tensor]) -> Result<(), Mistake> {
    if let (Some((name, _)), Call::Launcher { .. }) = (kernel.constants.first(), &kernel.call) {
        return Err(name
            .problem("a launcher fills its constants itself: remove `constants`")
            .help("in the launcher: cudaMemcpyToSymbolAsync"));
    }
    for (_, tensor) in &kernel.constants {
        if call::find_tensor(tensor, tensors)?.role != Role::In {
            return Err(tensor
                .problem(format!(
                    "a constant is filled from an input, and `{tensor}` is none"
                ))
                .help("leave out the tensor's `role`, or write `role: in`"));
        }
    }
    Ok(())
}

fn resolve_units(
    kernel: &KernelVariant<'_>,
    entries: Vec<String>,
    cases: &[Case],
    shared: &Shared<'_>,
) -> Result<Vec<Unit>, Mistake> {
    let raw = kernel.raw;
    let call = match &kernel.call {
        Call::Steps(_) => Callable::Entries {
            names: entries,
            constants: kernel
                .constants
                .iter()
                .map(|(name, tensor)| {
                    Ok(Constant {
                        name: call::check_entry_name(name, "a constant")?,
                        tensor: tensor.value.clone(),
                    })
                })
                .collect::<Result<_, _>>()?,
        },
        Call::Launcher { launcher, args } => {
            let scopes: Vec<_> = kernel
                .shapes
                .iter()
                .map(|shape| Scope::new(&shape.name, &shape.dims, &kernel.defines))
                .collect();
            let step = cases.first().and_then(|case| case.steps.first());
            let resolved = step.map_or(&[][..], |step| &step.args);
            call::resolve_launcher(launcher, resolved, args, &scopes)?
        }
    };
    let source = check_path(&raw.source, PathKind::File, shared)?;
    if let Some(made) = Precompiled::from_path(&source) {
        check_made(kernel, made)?;
    }
    let include_dirs: Vec<String> = raw
        .include_dirs
        .iter()
        .map(|dir| check_include_dir(dir, shared))
        .collect::<Result<_, _>>()?;
    let flags: Vec<String> = shared
        .flags
        .iter()
        .chain(&raw.flags)
        .map(check_nvcc_flag)
        .collect::<Result<_, _>>()?;
    Ok(shared
        .architectures
        .iter()
        .map(|&arch| Unit {
            id: kernel.unit(arch),
            source: source.clone(),
            include_dirs: include_dirs.clone(),
            defines: kernel.defines.clone(),
            flags: flags.clone(),
            call: call.clone(),
        })
        .collect())
}

/// Refuses keys that only a compiler of C++ could use.
fn check_made(kernel: &KernelVariant<'_>, made: Precompiled) -> Result<(), Mistake> {
    let raw = kernel.raw;
    let what = match made {
        Precompiled::Ptx => "PTX",
        Precompiled::Cubin => "a cubin",
    };
    let useless = [
        raw.define
            .iter()
            .chain(kernel.variant_defines())
            .next()
            .map(|(name, _)| (name.at, "`define`")),
        raw.include_dirs
            .first()
            .map(|dir| (dir.at, "`include_dirs`")),
        raw.launcher
            .as_ref()
            .map(|launcher| (launcher.at, "a launcher")),
        raw.flags
            .first()
            .filter(|_| made == Precompiled::Cubin)
            .map(|flag| (flag.at, "`flags`")),
    ];
    match useless.into_iter().flatten().next() {
        None => Ok(()),
        Some((at, key)) => Err(Mistake::new(
            at,
            format!("the source is {what}: {key} can change nothing in it"),
        )
        .help("remove it, or name the C++ source")),
    }
}

/// Checks that a variant that others are compared with is itself compared with a computed reference, and has the same
/// outputs.
fn check_variant_references(kernels: &[KernelVariant<'_>], cases: &[Case]) -> Result<(), Mistake> {
    let outputs = |case: &Case| -> Vec<Tensor> {
        case.tensors
            .iter()
            .filter(|tensor| tensor.role.is_result())
            .cloned()
            .collect()
    };
    for kernel in kernels {
        let Some(RawReference::Variant(name)) = kernel.reference.map(|reference| &reference.value)
        else {
            continue;
        };
        if name.value == kernel.variant {
            return Err(name
                .problem(format!("variant `{name}` is its own reference"))
                .help("give that variant a `reference` of its own"));
        }
        let Some(target) = kernels.iter().find(|other| other.variant == name.value) else {
            let known = kernels.iter().map(|kernel| kernel.variant);
            return Err(name.unknown("variant", known));
        };
        for shape in &kernel.shapes {
            target.check_measure(name, Some(&shape.name))?;
        }
        let measure = target.reference.map(|reference| &reference.value);
        if matches!(measure, None | Some(RawReference::None)) {
            return Err(name
                .problem(format!(
                    "`{name}` has no reference: nobody knows whether it is right"
                ))
                .help("give that variant a `reference` that is computed"));
        }
        if matches!(measure, Some(RawReference::Variant(_))) {
            return Err(name
                .problem(format!("the reference of `{name}` is another variant, too"))
                .help("one of the two needs a reference that is computed"));
        }
        let of = |variant: &str| -> Vec<&Case> {
            cases
                .iter()
                .filter(|case| case.id.variant == variant)
                .collect()
        };
        let targets = of(target.variant);
        for case in of(kernel.variant) {
            let Some(target) = targets
                .iter()
                .find(|target| target.id.shape == case.id.shape)
            else {
                continue;
            };
            let alike = |a: &Tensor, b: &Tensor| a.name == b.name && a.dims == b.dims;
            let (own, others) = (outputs(case), outputs(target));
            if own.len() != others.len() || !own.iter().zip(&others).all(|(a, b)| alike(a, b)) {
                return Err(name.problem(format!(
                    "`{name}` and `{}` have different outputs",
                    kernel.variant
                )));
            }
        }
    }
    Ok(())
}
