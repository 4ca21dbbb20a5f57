//! Reads and writes baselines/<kernel>/<variant>/<facet>-<key>.json. There is one file for each key, so that two
//! branches that update two variants touch two files.
//!
//! A file that cannot be used is reported and never skipped, and so is a file in the wrong place: a missing baseline
//! would silently count as `new`.

use super::file::{FileProblem, expect_schema, write_whole};
use super::once::reject_duplicate_keys;
use super::record;
use crate::repo::refuse_links;
use judge::{ANY_SHAPE, Refused, acceptable};
use model::{
    Agreed, BASELINE_SCHEMA, Baseline, BaselineKey, BrokenBaseline, Case, CaseId, Facet, Metric,
    Plan, Policy, Record, Subject, UnitId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use system::error::{Diagnostic, Error, Result};
use system::files;
use wording::reasons;
use wording::words;

/// The directory of baselines, relative to gates.yaml.
pub const BASELINES: &str = "baselines";
const DIR: &str = BASELINES;

/// The directory of baselines of compiled files (`artifact::baseline_path`).
const BINARIES: &str = "baselines/binaries";

/// Returns where a baseline belongs, relative to the repository. The file name has names for people first, and then a
/// digest that distinguishes what they do not: `times-nvidia-h100-80gb-hbm3-580-3f9c0a1b.json`.
fn place(kernel: &str, variant: &str, key: &BaselineKey) -> Result<PathBuf> {
    let digest = serde_json::to_vec(key)
        .map(|bytes| blake3::hash(&bytes).to_hex())
        .map_err(|error| Error::unwritten("a key", error))?;
    let digest = digest.get(..8).unwrap_or_default();
    let said = match key {
        BaselineKey::Resources { arch, compiler, .. }
        | BaselineKey::Correctness { arch, compiler, .. } => format!("{arch}-{compiler}"),
        BaselineKey::SimulatedCorrectness { arch, compiler, .. } => {
            format!("simulated-{arch}-{compiler}")
        }
        BaselineKey::Counters {
            arch,
            compiler,
            model,
            ..
        } => format!("{arch}-{compiler}-{model}"),
        BaselineKey::Times {
            gpu,
            driver_branch,
            mode,
            ..
        } => {
            format!("{gpu}-{driver_branch}-{mode}")
        }
        BaselineKey::Profile {
            gpu, driver_branch, ..
        } => format!("{gpu}-{driver_branch}"),
    };
    let name = format!(
        "{}-{}-{digest}.json",
        key.facet(),
        slug(&said.to_lowercase())
    );
    Ok([DIR, &directory(kernel), &directory(variant), &name]
        .iter()
        .collect())
}

fn slug(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._+".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect()
}

/// Returns a name from gates.yaml as the name of a directory. No other name gets the same directory.
fn directory(name: &str) -> String {
    let slug = slug(name);
    if slug == name && !name.starts_with('.') && !name.is_empty() {
        slug
    } else {
        let digest = blake3::hash(name.as_bytes()).to_hex();
        format!(
            "{}-{}",
            slug.trim_start_matches('.'),
            digest.get(..8).unwrap_or_default()
        )
    }
}

/// Loads every baseline of the repository at `root`, and lists every file that should be a baseline and cannot be used.
///
/// # Errors
/// Fails with a usage error if a directory cannot be read, or if a file is not where baselines are.
pub fn load_baselines(root: &Path) -> Result<(Vec<Baseline>, Vec<BrokenBaseline>)> {
    let mut good = Vec::new();
    let mut broken = Vec::new();
    for kernel in entries(root, Path::new(DIR))? {
        if kernel == Path::new(model::ACCEPTED) && root.join(&kernel).is_file() {
            continue;
        }
        for variant in entries(root, &directory_only(root, kernel)?)? {
            // Baselines of compiled files have another form.
            if variant.starts_with(BINARIES)
                && variant
                    .extension()
                    .is_some_and(|extension| extension == "jsonl")
            {
                continue;
            }
            for file in entries(root, &directory_only(root, variant)?)? {
                match load(root, &file) {
                    Ok(baseline) => good.push(baseline),
                    Err(problem) => broken.push(broken_at(&file, problem)),
                }
            }
        }
    }
    Ok((good, broken))
}

/// Parses baselines that are no longer on the disk, by their path. Files that are no baselines are left out.
pub fn baselines_of(files: Vec<(PathBuf, String)>) -> (Vec<Baseline>, Vec<BrokenBaseline>) {
    let mut good = Vec::new();
    let mut broken = Vec::new();
    for (file, text) in files {
        if !is_baseline(&file) {
            continue;
        }
        match parse(&file, &text) {
            Ok(baseline) => good.push(baseline),
            Err(problem) => broken.push(broken_at(&file, problem)),
        }
    }
    (good, broken)
}

/// Returns true if a path is the path of a baseline.
pub(super) fn is_baseline(file: &Path) -> bool {
    let is_json = file
        .extension()
        .is_some_and(|extension| extension == "json");
    is_json && file.components().count() == 4
}

/// Returns the entries of a directory, sorted and relative to `root`. Returns none if there is no such directory.
fn entries(root: &Path, dir: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = |error: std::io::Error| {
        Error::usage(format!("the baselines cannot be read: {error}"))
            .caused_by(error)
            .at(dir.display())
    };
    let read = match std::fs::read_dir(root.join(dir)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(unreadable)?,
    };
    let mut found = Vec::new();
    for entry in read {
        let name = entry.map_err(unreadable)?.file_name();
        // Hidden files belong to editors or git, or are files that gatekeeper is just writing.
        let text = name.to_string_lossy();
        if !text.starts_with('.') && !text.ends_with(".md") {
            found.push(dir.join(name));
        }
    }
    found.sort();
    Ok(found)
}

fn directory_only(root: &Path, path: PathBuf) -> Result<PathBuf> {
    if root.join(&path).is_dir() {
        return Ok(path);
    }
    Err(Error::usage("not a baseline").at(path.display()).help(
        "a baseline is baselines/<kernel>/<variant>/<facet>-<key>.json; move or remove this file",
    ))
}

fn load(root: &Path, file: &Path) -> std::result::Result<Baseline, FileProblem> {
    let text = files::read_text(&root.join(file), files::WRITTEN)
        .map_err(|error| FileProblem::new(format!("it cannot be read: {error}")))?;
    parse(file, &text)
}

pub(super) fn parse(file: &Path, text: &str) -> std::result::Result<Baseline, FileProblem> {
    expect_schema(text, BASELINE_SCHEMA)?;
    reject_duplicate_keys(text)?;
    let baseline: Baseline =
        serde_json::from_str(text).map_err(|error| FileProblem::json(&error))?;
    match place(&baseline.kernel, &baseline.variant, &baseline.key) {
        Ok(place) if place == file => Ok(baseline),
        Ok(place) => Err(FileProblem::new(format!(
            "by its content, it should be at {}; `gatekeeper baseline rename` gives baselines another name",
            place.display()
        ))),
        Err(error) => Err(FileProblem::new(error.to_string())),
    }
}

/// Reports a broken file. Its content cannot be trusted, so its path says what it covers.
pub(super) fn broken_at(file: &Path, problem: FileProblem) -> BrokenBaseline {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let file_name = name(Some(file));
    let facet = Facet::ALL
        .into_iter()
        .find(|facet| file_name.starts_with(&format!("{facet}-")));
    BrokenBaseline {
        path: file.display().to_string(),
        kernel: name(file.parent().and_then(Path::parent)),
        variant: name(file.parent()),
        facet,
        problem: match problem.position {
            Some(position) => format!("{position}: {}", problem.message),
            None => problem.message,
        },
    }
}

/// One value that an update changed.
#[derive(Clone, Debug, PartialEq)]
pub struct BaselineChange {
    /// The path of the file, relative to the repository.
    pub file: PathBuf,
    pub subject: Subject,
    pub metric: Metric,
    pub old: Option<f64>,
    /// `None` if the run no longer has the value.
    pub new: Option<f64>,
}

impl fmt::Display for BaselineChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject,
            metric,
            old,
            new,
            ..
        } = self;
        let quantity = |value: f64| words::quantity(*metric, value);
        match (*old, *new) {
            (None, None) => Ok(()),
            (None, Some(new)) => write!(f, "{subject} {metric}: {} (new)", quantity(new)),
            (Some(old), None) => write!(f, "{subject} {metric}: {} (removed)", quantity(old)),
            (Some(old), Some(new)) => {
                let change = words::change(*metric, judge::relative_change(new, old));
                write!(
                    f,
                    "{subject} {metric}: {} -> {} ({change})",
                    quantity(old),
                    quantity(new)
                )
            }
        }
    }
}

/// The way in which an update treats values that are worse than the agreed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorseValues {
    /// They are refused, together with everything else that was measured of the same kind for the case, because a
    /// baseline belongs to one code.
    Refused,
    Accepted,
}

/// The outcome of an update, with the values that it changed.
#[derive(Debug)]
pub struct Update {
    /// The changes that were made. Values in `worse` are not among them.
    pub changes: Vec<BaselineChange>,
    /// Values that are worse than the agreed ones. They were accepted or refused, as `treatment` says.
    pub worse: Vec<BaselineChange>,
    pub refused: Vec<Refused>,
}

/// Takes over what `record` measured, for the subjects that `wanted` picks, and leaves everything else as it is. It
/// holds a lock, so that of two simultaneous updates each reads what the other wrote.
///
/// `treatment` says what happens to values that are worse than what was agreed.
///
/// # Errors
/// Fails with a usage error if a file that would be merged into is broken, or if nothing can become a baseline. Nothing
/// is written then. Fails with an environment error if a file cannot be written.
pub fn update_baselines(
    root: &Path,
    record: &Record,
    wanted: &dyn Fn(&Subject) -> bool,
    treatment: WorseValues,
) -> Result<Update> {
    let (measured, refused) = acceptable(record, &record::seal(record)?);
    let refused: Vec<_> = refused
        .into_iter()
        .filter(|refused| wanted(&refused.subject))
        .collect();
    let measured: Vec<_> = measured
        .into_iter()
        .filter_map(|mut baseline| {
            let Baseline {
                kernel,
                variant,
                key,
                ..
            } = &baseline;
            let (kernel, variant, key) = (kernel.clone(), variant.clone(), key.clone());
            identify(&mut baseline, &record.plan);
            baseline
                .cases
                .retain(|shape, _| wanted(&subject(&kernel, &variant, &key, shape)));
            (!baseline.cases.is_empty()).then_some(baseline)
        })
        .collect();
    if measured.is_empty() {
        let mut diagnostic = Diagnostic::new("nothing in this record can become a baseline");
        for Refused {
            subject,
            facet,
            reason,
            ..
        } in refused.iter().take(8)
        {
            let why = reasons::reason(&record.environment, subject, reason);
            diagnostic = diagnostic.help(format!("{subject}, {facet}: {why}"));
        }
        return Err(Error::Usage(diagnostic));
    }
    let _lock = lock(&directory_of(root))?;
    let mut merged = Vec::new();
    let mut worse = Vec::new();
    for mut new in measured {
        let partial = record.plan.is_partial(&new.kernel);
        let file = place(&new.kernel, &new.variant, &new.key)?;
        let old = load_old(root, &file)?;
        if let Some(old) = &old {
            let found = list_worse(&record.policy, &file, &new, old);
            if treatment == WorseValues::Refused {
                let is_worse = |shape: &String| found.iter().any(|(of, _)| of == shape);
                new.cases.retain(|shape, _| !is_worse(shape));
            }
            worse.extend(found.into_iter().map(|(_, change)| change));
        }
        merged.push((file, merge(new, old.as_ref(), partial), old));
    }
    let mut changes = Vec::new();
    for (file, baseline, old) in merged {
        // A file with the same values keeps its origin, so that git sees no change.
        let known = old.as_ref().map(|old| &old.cases);
        if known.unwrap_or(&BTreeMap::new()) == &without_empty(&baseline.cases) {
            continue;
        }
        changes.extend(list_changes(&file, &baseline, old.as_ref()));
        let baseline = Baseline {
            cases: without_empty(&baseline.cases),
            ..baseline
        };
        if baseline.cases.is_empty() {
            remove(root, &file)?
        } else {
            write(root, &file, &baseline)?
        }
    }
    let is_worse = |change: &BaselineChange| {
        worse.iter().any(|known| {
            (&known.file, &known.subject, known.metric)
                == (&change.file, &change.subject, change.metric)
        })
    };
    changes.retain(|change| !is_worse(change));
    Ok(Update {
        changes,
        worse,
        refused,
    })
}

/// A kernel, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselinePart {
    pub kernel: String,
    pub variant: Option<String>,
    pub shape: Option<String>,
}

impl BaselinePart {
    fn has(&self, baseline: &Baseline) -> bool {
        let mut shapes = baseline.cases.keys();
        self.kernel == baseline.kernel
            && self
                .variant
                .as_ref()
                .is_none_or(|variant| *variant == baseline.variant)
            && self
                .shape
                .as_ref()
                .is_none_or(|wanted| shapes.any(|shape| shape == wanted))
    }
}

/// Gives baselines a new name, with their values as they are, and returns the new files relative to `root`.
///
/// # Errors
/// Fails with a usage error if nothing has the old name, if something has the new one already, or if a file of either
/// is broken. Nothing is written then. Fails with an environment error if a file cannot be written.
pub fn rename_baselines(
    root: &Path,
    from: &BaselinePart,
    to: &BaselinePart,
) -> Result<Vec<PathBuf>> {
    let usage = |problem: String| Err(Error::usage(problem));
    let form = |part: &BaselinePart| (part.variant.is_some(), part.shape.is_some());
    if form(from) != form(to) {
        return usage("both names must have the same parts".to_owned());
    }
    let _lock = lock(&directory_of(root))?;
    let (all, broken) = load_baselines(root)?;
    let is_of = |broken: &&BrokenBaseline| broken.kernel == directory(&from.kernel);
    if let Some(broken) = broken.iter().find(is_of) {
        return usage(format!("{}: {}", broken.path, broken.problem));
    }
    let mut moved: Vec<(PathBuf, PathBuf, Baseline)> = Vec::new();
    for old in all.iter().filter(|baseline| from.has(baseline)) {
        let mut new = old.clone();
        new.kernel.clone_from(&to.kernel);
        if let Some(variant) = &to.variant {
            new.variant.clone_from(variant);
        }
        if let (Some(was), Some(is)) = (&from.shape, &to.shape)
            && let Some(agreed) = new.cases.remove(was)
            && new.cases.insert(is.clone(), agreed).is_some()
        {
            return usage(format!(
                "{}/{} has values of @{is} already",
                old.kernel, old.variant
            ));
        }
        let [was, is] =
            [old, &new].map(|baseline| place(&baseline.kernel, &baseline.variant, &baseline.key));
        let (was, is) = (was?, is?);
        if was != is && root.join(&is).exists() {
            return usage(format!("{} is there already", is.display()));
        }
        moved.push((was, is, new));
    }
    if moved.is_empty() {
        return usage(format!("no baseline of {} has this name", from.kernel));
    }
    for (_, is, new) in &moved {
        write(root, is, new)?;
    }
    for (was, _, _) in moved.iter().filter(|(was, is, _)| was != is) {
        remove(root, was)?;
        // A directory that still contains something stays.
        let mut parents = was.ancestors().skip(1).take(2);
        let _ = parents.try_for_each(|dir| std::fs::remove_dir(root.join(dir)));
    }
    Ok(moved.into_iter().map(|(_, is, _)| is).collect())
}

fn write(root: &Path, file: &Path, baseline: &Baseline) -> Result<()> {
    let mut text = serde_json::to_string_pretty(baseline)
        .map_err(|error| Error::unwritten("a baseline", error))?;
    text.push('\n');
    write_whole(&root.join(file), text.as_bytes())
}

fn remove(root: &Path, file: &Path) -> Result<()> {
    refuse_links(root.join(file).parent().unwrap_or(root))?;
    std::fs::remove_file(root.join(file)).map_err(|error| {
        Error::environment(format!("{} cannot be removed: {error}", file.display()))
            .caused_by(error)
    })
}

type Cases = BTreeMap<String, BTreeMap<Metric, Agreed>>;

/// Removes cases that have nothing left to agree on.
fn without_empty(cases: &Cases) -> Cases {
    cases
        .iter()
        .filter(|(_, metrics)| !metrics.is_empty())
        .map(|(shape, metrics)| (shape.clone(), metrics.clone()))
        .collect()
}

fn directory_of(root: &Path) -> PathBuf {
    root.join(DIR)
}

/// Completes the identity of the measured code by launch and arguments. The judge states only the code.
fn identify(baseline: &mut Baseline, plan: &Plan) {
    let (kernel, variant) = (&baseline.kernel, &baseline.variant);
    for (shape, metrics) in &mut baseline.cases {
        let id = CaseId::new(kernel.clone(), variant.clone(), shape.clone());
        let call = plan.case(&id).map_or("null".to_owned(), called);
        for sessions in metrics
            .values_mut()
            .filter_map(|metric| metric.sessions.as_mut())
        {
            let code = serde_json::to_string(&sessions.identity).unwrap_or_default();
            let digest = blake3::hash(format!("[{code},{call}]").as_bytes()).to_hex();
            sessions.identity = digest.get(..16).unwrap_or_default().to_owned();
        }
    }
}

/// Returns the JSON of a case's steps and tensors.
fn called(case: &Case) -> String {
    let written = |part: serde_json::Result<String>| part.unwrap_or_default();
    let steps = case.steps.iter().flat_map(|step| {
        let (launch, args) = (&step.launch, &step.args);
        let own = [serde_json::to_string(launch), serde_json::to_string(args)];
        // A bare step is written as it was before memory steps existed, so that older baselines still match.
        let around = (!step.is_bare()).then(|| serde_json::to_string(&(&step.before, &step.after)));
        own.into_iter().chain(around)
    });
    let parts = steps.chain([serde_json::to_string(&case.tensors)]);
    let parts: Vec<String> = parts.map(written).collect();
    format!("[{}]", parts.join(","))
}

/// Locks the directory itself, so that the repository has no lock file.
fn lock(dir: &Path) -> Result<std::fs::File> {
    refuse_links(dir)?;
    let locked = std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::File::open(dir))
        .and_then(|file| file.lock().map(|()| file));
    locked.map_err(|error| {
        Error::environment(format!("{} cannot be locked: {error}", dir.display())).caused_by(error)
    })
}

/// Loads the baseline that an update would replace, if there is one.
fn load_old(root: &Path, file: &Path) -> Result<Option<Baseline>> {
    if !root.join(file).exists() {
        return Ok(None);
    }
    let old = load(root, file).map_err(|problem| {
        Error::Usage(
            problem
                .diagnostic(&file.display().to_string())
                .help("restore it from git, or remove it and update again"),
        )
    })?;
    Ok(Some(old))
}

fn merge(new: Baseline, old: Option<&Baseline>, partial: bool) -> Baseline {
    let Some(old) = old else {
        return new;
    };
    let mut merged = Baseline {
        origin: new.origin,
        ..old.clone()
    };
    for (shape, metrics) in new.cases {
        let kept = merged.cases.entry(shape).or_default();
        let joined = |(metric, new): (Metric, Agreed)| match kept.get(&metric) {
            Some(old) => (metric, judge::joined(old, new)),
            None => (metric, new),
        };
        let metrics: BTreeMap<Metric, Agreed> = metrics.into_iter().map(joined).collect();
        // Some of the shapes do not tell the worst value over all of them. Counters are never such values.
        if !partial || new.key.facet() == Facet::Counters {
            kept.clear();
        }
        kept.extend(metrics);
    }
    merged
}

/// Returns the subject of a baseline's values under `shape`.
pub fn subject(kernel: &str, variant: &str, key: &BaselineKey, shape: &str) -> Subject {
    let (kernel, variant) = (kernel.to_owned(), variant.to_owned());
    match key {
        BaselineKey::Resources { arch, .. } if shape == ANY_SHAPE => {
            Subject::Unit(UnitId::new(kernel, variant, *arch))
        }
        _ => Subject::Case(CaseId::new(kernel, variant, shape)),
    }
}

/// Lists the values that are worse than those agreed in `old`, each with its shape.
fn list_worse(
    policy: &Policy,
    file: &Path,
    new: &Baseline,
    old: &Baseline,
) -> Vec<(String, BaselineChange)> {
    let mut worse = Vec::new();
    for (shape, metrics) in &new.cases {
        let Some(agreed) = old.cases.get(shape) else {
            continue;
        };
        for (&metric, value) in metrics {
            let Some(agreed) = agreed.get(&metric) else {
                continue;
            };
            let subject = subject(&new.kernel, &new.variant, &new.key, shape);
            if judge::accepts_worse(policy, (&subject, metric), agreed, value) {
                let change = BaselineChange {
                    file: file.to_owned(),
                    subject,
                    metric,
                    old: Some(agreed.value.0),
                    new: Some(value.value.0),
                };
                worse.push((shape.clone(), change));
            }
        }
    }
    worse
}

fn list_changes(file: &Path, new: &Baseline, old: Option<&Baseline>) -> Vec<BaselineChange> {
    let nothing = BTreeMap::new();
    new.cases
        .iter()
        .flat_map(|(shape, metrics)| {
            let before: &BTreeMap<Metric, Agreed> =
                old.and_then(|old| old.cases.get(shape)).unwrap_or(&nothing);
            let both: BTreeSet<&Metric> = before.keys().chain(metrics.keys()).collect();
            both.into_iter().map(move |metric| BaselineChange {
                file: file.to_owned(),
                subject: subject(&new.kernel, &new.variant, &new.key, shape),
                metric: *metric,
                old: before.get(metric).map(|agreed| agreed.value.0),
                new: metrics.get(metric).map(|agreed| agreed.value.0),
            })
        })
        .filter(|change| change.old != change.new)
        .collect()
}

#[cfg(test)]
mod tests;
