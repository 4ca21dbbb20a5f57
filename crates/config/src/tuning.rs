//! Loads a variant to be tuned: its space, its candidates, and the file with another configuration of it.

use super::apply::{VariantChange, apply_variant};
use super::architectures::resolve_architectures;
use super::disk::{find_top, on_disk};
use super::kernel::{self, ResolvedVariant};
use super::load::{File, load};
use super::loaded::Loaded;
use super::paths::Shared;
use super::places::Places;
use super::raw::GatesFile;
use super::select::{Selection, select};
use super::source::Source;
use super::tune::Tune;
use super::yaml::{Mistake, suggest};
use model::Reference;
use search::Space;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use system::error::{Diagnostic, Error, Result};
use system::sources;

/// A variant to be tuned, with everything that describes another configuration of it.
pub struct Tuning {
    /// The file with this variant as its only selection.
    pub loaded: Loaded,
    pub tune: Tune,
    /// The macros that the variant itself defines.
    pub macros: BTreeMap<String, String>,
    raw: GatesFile,
}

/// Loads a variant to be tuned. `name` is the kernel, or `kernel/variant`.
///
/// # Errors
/// Usage, for the errors of [`load`], and if there is no such variant or nothing of it can be tuned.
pub fn load_tuning(path: &Path, name: &str, sim_budget: Option<u64>) -> Result<Tuning> {
    let mut loaded = load(path, &Selection::default())?;
    let tune = find(&loaded, name).map_err(Error::Usage)?.clone();
    let selection = Selection {
        filters: vec![format!("{}/{}", tune.kernel, tune.variant)],
        sim_budget,
        ..Selection::default()
    };
    select(&mut loaded, &selection).map_err(Error::Usage)?;
    let places = loaded.places.clone();
    let source = Source::parse(&places.file, &places.text).map_err(Error::Usage)?;
    let raw: GatesFile = source
        .read()
        .map_err(|problem| Error::Usage(source.diagnose(&problem)))?;
    let refuse = |message: String| {
        let problem = Mistake::new(tune.at, message);
        Err(Error::Usage(source.diagnose(&problem)))
    };
    let cases = &loaded.plan.cases;
    let variant = format!("{}/{}", tune.kernel, tune.variant);
    if loaded.plan.expected(&tune.kernel, &tune.variant).is_some() {
        return refuse(format!("{variant} is kept to fail, and cannot be tuned"));
    }
    if let Some(case) = cases
        .iter()
        .find(|case| matches!(case.reference, Reference::Variant { .. }))
    {
        return refuse(format!(
            "{} is compared with another variant; what is tuned needs a reference that is computed",
            case.id
        ));
    }
    if let Some((shape, _)) = tune
        .objective
        .iter()
        .find(|(name, _)| !cases.iter().any(|case| case.id.shape == *name))
    {
        return refuse(format!("{variant} is not run at shape `{shape}`"));
    }
    let macros = loaded.plan.units.first();
    let macros = macros.map_or_else(BTreeMap::new, |unit| unit.defines.clone());
    Ok(Tuning {
        loaded,
        tune,
        macros,
        raw,
    })
}

fn find<'a>(whole: &'a Loaded, name: &str) -> std::result::Result<&'a Tune, Diagnostic> {
    let (kernel, variant) = match name.split_once('/') {
        Some((kernel, variant)) => (kernel, Some(variant)),
        None => (name, None),
    };
    let of_kernel = || whole.all.iter().filter(|id| id.kernel == kernel);
    if of_kernel().next().is_none() {
        // A kernel has many cases.
        let known: BTreeSet<&str> = whole.all.iter().map(|id| id.kernel.as_str()).collect();
        return Err(Diagnostic::new(format!("there is no kernel `{kernel}`"))
            .help(suggest(kernel, known.into_iter())));
    }
    if let Some(variant) = variant
        && !of_kernel().any(|id| id.variant == variant)
    {
        let known: BTreeSet<&str> = of_kernel().map(|id| id.variant.as_str()).collect();
        return Err(
            Diagnostic::new(format!("{kernel} has no variant `{variant}`"))
                .help(suggest(variant, known.into_iter())),
        );
    }
    let is_meant =
        |tune: &&Tune| tune.kernel == kernel && variant.is_none_or(|name| tune.variant == name);
    let mut tunes = whole.tunes.iter().filter(is_meant);
    match (tunes.next(), tunes.next()) {
        (Some(tune), None) => Ok(tune),
        (None, _) => Err(Diagnostic::new(format!("{name} has no `tune` in {}", whole.places.file))
            .help("say which macros can be what: tune: {parameters: {BLOCK: [128, 256]}, objective: p50 of large}")),
        (Some(first), Some(_)) => {
            let all: Vec<String> = whole.tunes.iter().filter(is_meant).map(|tune| format!("{kernel}/{}", tune.variant)).collect();
            Err(Diagnostic::new(format!(
                "several variants of {kernel} can be tuned: {}",
                all.join(", ")
            ))
            .help(format!("name the one to start from: {kernel}/{}", first.variant)))
        }
    }
}

impl Tuning {
    /// Returns the space of configurations.
    ///
    /// # Errors
    /// Usage, if the constraints leave nothing, or if the space is too large.
    pub fn space(&self) -> Result<Space> {
        self.tune.space().map_err(|problem| self.refuse(&problem))
    }

    /// Resolves the variant with these values, under a name of its own.
    ///
    /// # Errors
    /// Returns why the configuration is impossible, such as a launch of no threads.
    pub fn candidate(
        &self,
        name: &str,
        values: &BTreeMap<String, i64>,
    ) -> std::result::Result<ResolvedVariant, Diagnostic> {
        let Loaded { root, places, .. } = &self.loaded;
        let file = &places.file;
        let kernels = self.raw.kernels.iter().flat_map(|all| all.iter());
        let written = self.raw.architectures.as_ref();
        let (architectures, kernel) = written
            .map_or(Ok(Vec::new()), resolve_architectures)
            .map(|architectures| {
                let mut kernels = kernels;
                (
                    architectures,
                    kernels.find(|(name, _)| name.value == self.tune.kernel),
                )
            })
            .map_err(|problem| self.diagnose(&problem))?;
        let Some((kernel, raw)) = kernel else {
            return Err(Diagnostic::new(format!(
                "{file} has no {}",
                self.tune.kernel
            )));
        };
        let top = find_top(root);
        let shared = Shared {
            file,
            architectures: &architectures,
            flags: &self.raw.flags,
            disk: &on_disk(root, top.as_deref()),
            environment: &sources::read_variable,
        };
        let macros = values
            .iter()
            .map(|(name, value)| (name.clone(), value.to_string()));
        let names = (self.tune.variant.as_str(), name);
        kernel::resolve_candidate((kernel, raw), names, &macros.collect(), &shared)
            .map_err(|problem| self.diagnose(&problem))
    }

    /// Returns the text of the file with these values as a variant of this name.
    ///
    /// # Errors
    /// Usage, if the variant cannot be written without changing anything else, or if the file was changed in the
    /// meantime.
    pub fn with_variant(
        &self,
        path: &Path,
        name: &str,
        values: &BTreeMap<String, i64>,
    ) -> Result<String> {
        if File::read(path)?.text != self.loaded.places.text {
            return Err(Error::Usage(
                Diagnostic::new("the file was edited meanwhile, and is left as it is")
                    .at(&self.loaded.places.file),
            ));
        }
        let define = values
            .iter()
            .map(|(name, value)| (name.clone(), value.to_string()));
        let change = VariantChange {
            kernel: &self.tune.kernel,
            variant: name,
            like: &self.tune.variant,
            define: &define.collect(),
        };
        let Places { file, text } = &self.loaded.places;
        apply_variant(file, text, &change).map_err(Error::Usage)
    }

    /// Reports a problem with a parameter, at its place.
    pub fn refuse_parameter(&self, at: usize, message: String) -> Error {
        let place = self.tune.places.get(at).copied().unwrap_or(self.tune.at);
        self.refuse(&Mistake::new(place, message))
    }

    fn refuse(&self, problem: &Mistake) -> Error {
        Error::Usage(self.diagnose(problem))
    }

    fn diagnose(&self, problem: &Mistake) -> Diagnostic {
        let Places { file, text } = &self.loaded.places;
        match Source::parse(file, text) {
            Ok(source) => source.diagnose(problem),
            Err(diagnostic) => diagnostic,
        }
    }
}
