//! Adds `binaries:` of gates.yaml to a record: compiled files with their limits and committed baselines, as units,
//! gates, baselines and evidence. The judge treats them like kernels that were built.

use crate::baseline::{baseline_path, read_baseline};
use crate::record::{
    Matched, RecordSide, environment, match_names, name_all_kernels, name_kernels, rank,
};
use crate::{Circumstances, read, replaced};
use ::binary::{
    BinaryKernel, Libraries, Listing, LostArchitecture, Matching, all_targets, libraries,
    lost_architectures, match_kernels,
};
use build::signature::qualified;
use config::{BinaryGates, FileLimit, KernelLimits};
use globset::Glob;
use model::{
    Acceptance, Allowance, Arch, Baseline, CaseId, Evidence, Facet, Filter, Gate, MissingCode,
    Record, Rule, Subject, UnitId,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use system::error::{Error, Result};
use system::sources;

/// A compiled file that has limits.
pub struct Library {
    pub gates: BinaryGates,
    /// The path of the file that was found.
    pub path: PathBuf,
    /// Its kernels, for the architectures that are asked for.
    pub listing: Listing,
    /// Architectures that it has code for, whether or not `architectures` lists them.
    libraries: Libraries,
    /// The baseline that is committed for it.
    pub baseline: Option<Listing>,
}

/// The limits of the side that a change is compared with, each with the committed baseline there. Their files are named
/// relative to head's gates.yaml.
pub struct BaseBinaries(pub Vec<(BinaryGates, Option<Listing>)>);

/// Reads the file of a binary, and its baseline.
///
/// # Errors
/// Fails if there is no such file, if it cannot be read, if its baseline is damaged, and if a glob fits no kernel.
pub fn open(root: &Path, gates: &BinaryGates) -> Result<Library> {
    let path = find(root, gates)?;
    let listing = read(&path)?;
    let libraries = libraries(&listing);
    let gates = resolve(gates, &listing);
    let listing = only(listing, &gates.architectures);
    for limits in &gates.gates {
        if let Some(glob) = unfit(limits, &listing) {
            return Err(
                Error::usage(format!("`{glob}` fits no kernel of {}", path.display()))
                    .at(&limits.declared)
                    .help(format!("`gatekeeper binary {}` lists them", path.display())),
            );
        }
    }
    Ok(Library {
        baseline: read_baseline(root, &gates.name)?,
        gates,
        path,
        listing,
        libraries,
    })
}

fn find(root: &Path, gates: &BinaryGates) -> Result<PathBuf> {
    let missing = || {
        Error::environment(format!("{}: there is no such file", gates.name))
            .at(&gates.file)
            .help("build it first: gatekeeper does not build what `binaries` names")
    };
    let named = root.join(&gates.file);
    let name = named.file_name().map(|name| name.to_string_lossy());
    let glob = name.and_then(|name| Glob::new(&name).ok());
    let (Some(glob), Some(dir)) = (glob, named.parent()) else {
        return Err(missing());
    };
    if named.exists() {
        return Ok(named);
    }
    let glob = glob.compile_matcher();
    let entries = std::fs::read_dir(dir).map_err(|_| missing())?;
    let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut found: Vec<_> = names.filter(|name| glob.is_match(name)).collect();
    found.sort();
    match found.as_slice() {
        [] => Err(missing()),
        [only] => Ok(dir.join(only)),
        several => {
            let names: Vec<_> = several.iter().map(|path| path.to_string_lossy()).collect();
            Err(Error::usage(format!(
                "{}: several files fit: {}",
                gates.name,
                names.join(", ")
            ))
            .at(&gates.file)
            .help("remove those of earlier builds, or name one"))
        }
    }
}

/// Keeps the kernels for these architectures.
fn only(mut listing: Listing, architectures: &[Arch]) -> Listing {
    listing
        .kernels
        .retain(|kernel| architectures.contains(&kernel.arch));
    listing
}

/// Replaces architectures that the listing lacks by those that it has instead, if their code runs on the same devices:
/// `sm_90a` in place of `sm_90`.
fn resolve(gates: &BinaryGates, listing: &Listing) -> BinaryGates {
    let has: BTreeSet<Arch> = listing.kernels.iter().map(|kernel| kernel.arch).collect();
    let own = |asked: Arch| {
        let mut answers = has.iter().filter(|own| own.answers(asked));
        has.get(&asked)
            .or_else(|| answers.next())
            .copied()
            .unwrap_or(asked)
    };
    let mut resolved = gates.clone();
    let architectures: BTreeSet<Arch> = gates.architectures.iter().copied().map(own).collect();
    resolved.architectures = architectures.into_iter().collect();
    let limits = resolved
        .gates
        .iter_mut()
        .flat_map(|entry| &mut entry.limits);
    for limit in limits.chain(&mut resolved.count) {
        limit.arch = own(limit.arch);
    }
    resolved
}

fn unfit<'a>(limits: &'a KernelLimits, listing: &Listing) -> Option<&'a Glob> {
    limits.kernels.iter().find(|glob| {
        let glob = glob.compile_matcher();
        !listing
            .kernels
            .iter()
            .any(|kernel| glob.is_match(qualified(&kernel.name)))
    })
}

/// Returns a record in which nothing was built or run.
pub fn empty_record(config: &str, circumstances: &Circumstances) -> Record {
    RecordSide::default().record(environment(config, circumstances))
}

/// Adds compiled files to a record, with everything that the base asks of them.
pub fn add_libraries(record: &mut Record, libraries: &[Library], base: Option<&BaseBinaries>) {
    for library in libraries {
        let named = library.named();
        let side = library.side(&named);
        let lost = library.lost_since_baseline();
        let gates = gates_of(&library.gates.name, &library.gates, &named, &lost);
        record.policy.gates.extend(gates);
        if let Some(baseline) = &library.baseline {
            let agreed = library.agreed(baseline, &named, record);
            record.policy.baselines.extend(agreed.baselines);
        }
        record.plan.units.extend(side.units);
        record.evidence.extend(side.evidence);
    }
    if let Some(base) = base {
        add_base(record, libraries, base);
    }
    let all: Vec<UnitId> = record
        .plan
        .units
        .iter()
        .filter(|unit| unit.is_compiled())
        .map(|unit| unit.id.clone())
        .collect();
    let of_base = record
        .policy
        .base
        .iter_mut()
        .flat_map(|base| base.accepted.iter_mut());
    for acceptance in record.policy.accepted.iter_mut().chain(of_base) {
        name_units(acceptance, &all);
    }
}

/// Adds the base's limits on head's kernels, and what its committed baselines say about them. The base's own files are
/// not available.
fn add_base(record: &mut Record, libraries: &[Library], base: &BaseBinaries) {
    for (gates, baseline) in &base.0 {
        let library = libraries
            .iter()
            .find(|library| library.gates.name == gates.name);
        // If a file or an architecture is gone, the unit of all kernels says so once.
        let named = library.map_or_else(Vec::new, Library::named);
        let gates =
            &library.map_or_else(|| gates.clone(), |library| resolve(gates, &library.listing));
        let mut side = RecordSide::default();
        for (id, kernel) in &named {
            if gates.architectures.contains(&id.arch) {
                side.add(id.clone(), kernel);
            }
        }
        // The path identifies the file, so that a change to another file counts as the end of this one.
        let place = |gates: &BinaryGates| sources::plain(Path::new(&gates.file));
        let is_same_file = library.is_none_or(|library| place(&library.gates) == place(gates));
        let name = if is_same_file {
            gates.name.clone()
        } else {
            format!("{}:{}", gates.name, gates.file)
        };
        for &arch in &gates.architectures {
            side.add_all(name_all_kernels(&name, arch), &gates.file, 0, None);
        }
        let lost = library.zip(baseline.as_ref());
        let lost = lost.map_or_else(Vec::new, |(library, baseline)| library.lost(baseline));
        for (id, lost) in &lost {
            side.add_all(id.clone(), &gates.file, lost.kernels, None);
        }
        let agreed = library.zip(baseline.as_ref());
        let agreed = agreed.map(|(library, baseline)| library.agreed(baseline, &named, record));
        let replaced = library.zip(baseline.as_ref());
        let replaced = replaced.map_or_else(Vec::new, |(library, baseline)| {
            let matching = match_kernels(baseline, &library.listing);
            replaced::find(&named, &matching, baseline, gates)
        });
        let Some(theirs) = &mut record.policy.base else {
            return;
        };
        theirs.replaced.extend(replaced);
        theirs.plan.units.extend(side.units);
        theirs.gates.extend(gates_of(&name, gates, &named, &lost));
        if let Some(Agreed {
            baselines,
            evidence,
        }) = agreed
        {
            theirs.baselines.extend(baselines);
            let evidence = evidence
                .into_iter()
                .map(|piece| Evidence::Base(Box::new(piece)));
            record.evidence.extend(evidence);
        }
    }
}

/// A committed baseline, with the names of the kernels that it was matched with.
struct Agreed {
    baselines: Vec<Baseline>,
    evidence: Vec<Evidence>,
}

impl Library {
    /// Returns its kernels by the names of their units.
    fn named(&self) -> Vec<(UnitId, &BinaryKernel)> {
        name_kernels(&self.listing, Some(&self.gates.name))
    }

    fn side(&self, named: &[(UnitId, &BinaryKernel)]) -> RecordSide {
        let mut side = RecordSide::default();
        for (id, kernel) in named {
            side.add(id.clone(), kernel);
        }
        let gates = &self.gates;
        for &arch in &gates.architectures {
            let count = count(&self.listing, arch);
            let missing = (count == 0).then(|| MissingCode {
                had: None,
                has: all_targets(&self.libraries),
            });
            let id = name_all_kernels(&gates.name, arch);
            side.add_all(id, &gates.file, count, missing);
        }
        for (id, lost) in self.lost_since_baseline() {
            side.add_all(id, &gates.file, 0, Some(lost.missing));
        }
        side
    }

    fn lost_since_baseline(&self) -> Vec<(UnitId, LostArchitecture)> {
        let baseline = self.baseline.as_ref();
        baseline.map_or_else(Vec::new, |baseline| self.lost(baseline))
    }

    /// Finds the architectures that one of its libraries lost and another one still has. If none has it, the unit of
    /// all kernels says so.
    fn lost(&self, baseline: &Listing) -> Vec<(UnitId, LostArchitecture)> {
        let kernels = &self.listing.kernels;
        let is_elsewhere = |arch| kernels.iter().any(|kernel| kernel.arch.answers(arch));
        lost_architectures(baseline, &self.libraries)
            .into_iter()
            .filter_map(|lost| {
                let library = lost.library.as_ref().filter(|_| is_elsewhere(lost.arch))?;
                let name = format!("{}:{library}", self.gates.name);
                Some((name_all_kernels(&name, lost.arch), lost))
            })
            .collect()
    }

    fn agreed(
        &self,
        baseline: &Listing,
        named: &[(UnitId, &BinaryKernel)],
        record: &Record,
    ) -> Agreed {
        let matching = match_kernels(baseline, &self.listing);
        let mut side = RecordSide::default();
        for matched in match_names(named, &matching) {
            side.add(matched.unit, matched.pair.base);
        }
        // A further copy of a kernel must meet what was agreed on its name, so that an old copy hides no worse one.
        for (id, kernel) in replaced::added(named, &matching) {
            if let Some(agreed) = replaced::namesake(baseline, kernel) {
                side.add(id.clone(), agreed);
            }
        }
        for &arch in &self.gates.architectures {
            if let count @ 1.. = count(baseline, arch) {
                side.add_all(
                    name_all_kernels(&self.gates.name, arch),
                    &self.gates.file,
                    count,
                    None,
                );
            }
        }
        for (id, lost) in self.lost(baseline) {
            side.add_all(id, &self.gates.file, lost.kernels, None);
        }
        let evidence = side.evidence.clone();
        let was = side.record(record.environment.clone());
        let seal = baseline_path(&self.gates.name).display().to_string();
        let (baselines, _) = judge::acceptable(&was, &seal);
        Agreed {
            baselines,
            evidence,
        }
    }

    /// Matches the kernels of the baseline and of the file. Returns `None` if there is no baseline.
    pub fn matching(&self) -> Option<Matching<'_>> {
        Some(match_kernels(self.baseline.as_ref()?, &self.listing))
    }

    /// Returns the pairs under the names of their units, the costliest change first.
    pub fn rank<'a>(&'a self, matching: &Matching<'a>) -> Vec<Matched<'a>> {
        rank(match_names(&self.named(), matching))
    }
}

fn count(listing: &Listing, arch: Arch) -> u32 {
    u32::try_from(
        listing
            .kernels
            .iter()
            .filter(|kernel| kernel.arch == arch)
            .count(),
    )
    .unwrap_or(u32::MAX)
}

/// Returns every limit on every kernel that it is for. `name` is the name of the file as a whole.
fn gates_of(
    name: &str,
    gates: &BinaryGates,
    named: &[(UnitId, &BinaryKernel)],
    lost: &[(UnitId, LostArchitecture)],
) -> Vec<Gate> {
    let built = |subject: Subject| Gate {
        subject,
        rule: Rule::Built,
        declared: Some(gates.declared.clone()),
    };
    let mut all: Vec<Gate> = lost
        .iter()
        .map(|(id, _)| Subject::Unit(id.clone()))
        .map(built)
        .collect();
    for &arch in &gates.architectures {
        let subject = Subject::Unit(name_all_kernels(name, arch));
        all.push(built(subject.clone()));
        all.extend(limits_on(&subject, arch, &gates.count));
    }
    let entries: Vec<(Vec<_>, &KernelLimits)> = gates
        .gates
        .iter()
        .map(|entry| {
            (
                entry.kernels.iter().map(Glob::compile_matcher).collect(),
                entry,
            )
        })
        .collect();
    for (id, kernel) in named {
        let name = qualified(&kernel.name);
        let subject = Subject::Unit(id.clone());
        for (globs, entry) in &entries {
            if globs.is_empty() || globs.iter().any(|glob| glob.is_match(&name)) {
                all.extend(limits_on(&subject, id.arch, &entry.limits));
            }
        }
    }
    all
}

fn limits_on<'a>(
    subject: &'a Subject,
    arch: Arch,
    limits: &'a [FileLimit],
) -> impl Iterator<Item = Gate> + 'a {
    limits
        .iter()
        .filter(move |limit| limit.arch == arch)
        .map(|limit| Gate {
            subject: subject.clone(),
            rule: limit.rule.clone(),
            declared: Some(limit.declared.clone()),
        })
}

/// Adds the units that an acceptance names, which was written before they were known.
fn name_units(acceptance: &mut Acceptance, all: &[UnitId]) {
    if let Some(filter) = filter_of_units(acceptance) {
        let units = all
            .iter()
            .filter(|id| fits(&filter, id))
            .map(|id| Subject::Unit(id.clone()));
        acceptance.subjects.extend(units);
    }
}

fn fits(filter: &Filter, id: &UnitId) -> bool {
    filter.fits(&CaseId::new(&id.kernel, &id.variant, judge::ANY_SHAPE))
}

/// Returns the filter of an acceptance, or `None` if it cannot be about any unit.
fn filter_of_units(acceptance: &Acceptance) -> Option<Filter> {
    match &acceptance.allows {
        Allowance::Limit(Rule::Limit { metric, .. }) if metric.facet() == Facet::Resources => {
            acceptance.case.parse().ok()
        }
        _ => None,
    }
}

/// Marks acceptances as partial if compiled files are left out: one that names no kernel may be about one of them.
pub fn leave_out_files(accepted: &mut [Acceptance]) {
    for acceptance in accepted {
        acceptance.left_out |=
            acceptance.subjects.is_empty() && filter_of_units(acceptance).is_some();
    }
}

/// A new baseline, and what it changes.
pub struct NewBaseline {
    pub listing: Listing,
    /// Values that are worse than the agreed ones.
    pub worse: Vec<Worse>,
}

pub struct Worse {
    pub subject: Subject,
    pub metric: model::Metric,
    pub was: f64,
    pub now: f64,
}

impl Library {
    /// Returns the baseline that the file gives. Without consent, a kernel that got worse keeps its line, and no kernel
    /// is added if their count has a limit against the baseline.
    ///
    /// # Errors
    /// Fails with a usage error if the file has no kernel for an architecture, because that is nothing to agree on.
    pub fn new_baseline(&self, record: &Record, consent: bool) -> Result<NewBaseline> {
        let BinaryGates {
            name,
            architectures,
            declared,
            ..
        } = &self.gates;
        if let Some(arch) = architectures
            .iter()
            .find(|arch| count(&self.listing, **arch) == 0)
        {
            return Err(Error::usage(format!(
                "{name}: {} has no machine code for {arch}",
                self.path.display()
            ))
            .at(declared)
            .help("build it for this architecture, or take it out of `architectures`"));
        }
        let mut listing = self.listing.clone();
        listing.ptx.clear();
        listing.others.clear();
        let Some(old) = &self.baseline else {
            let worse = Vec::new();
            return Ok(NewBaseline { listing, worse });
        };
        let named = self.named();
        let was = self.agreed(old, &named, record).baselines;
        let now = self.side(&named).record(record.environment.clone());
        let (now, _) = judge::acceptable(&now, "");
        let mut worse = list_worse(&was, &now, self.gates.limits_growth());
        let lost = self.lost(old);
        worse.extend(lost.iter().map(|(id, lost)| Worse {
            subject: Subject::Unit(id.clone()),
            metric: model::Metric::Count,
            was: f64::from(lost.kernels),
            now: 0.0,
        }));
        if !consent {
            let refused: BTreeMap<&Subject, ()> =
                worse.iter().map(|change| (&change.subject, ())).collect();
            let is_refused = |id: &UnitId| refused.contains_key(&Subject::Unit(id.clone()));
            let matching = match_kernels(old, &self.listing);
            let partners: HashMap<UnitId, &BinaryKernel> = match_names(&named, &matching)
                .into_iter()
                .map(|matched| (matched.unit, matched.pair.base))
                .collect();
            listing.kernels = named
                .iter()
                .filter_map(|(id, kernel)| match partners.get(id) {
                    Some(old) if is_refused(id) => Some((*old).clone()),
                    None if is_refused(&name_all_kernels(name, id.arch)) => None,
                    _ => Some((*kernel).clone()),
                })
                .collect();
            if !lost.is_empty() {
                listing = old.clone();
            }
        }
        Ok(NewBaseline { listing, worse })
    }
}

fn list_worse(was: &[Baseline], now: &[Baseline], counts: bool) -> Vec<Worse> {
    let key = |baseline: &Baseline| {
        (
            baseline.kernel.clone(),
            baseline.variant.clone(),
            baseline.key.arch(),
        )
    };
    let now: HashMap<_, &Baseline> = now
        .iter()
        .map(|baseline| (key(baseline), baseline))
        .collect();
    let mut worse = Vec::new();
    for old in was {
        let (Some(new), Some(arch)) = (now.get(&key(old)), old.key.arch()) else {
            continue;
        };
        let subject = Subject::Unit(UnitId::new(&old.kernel, &old.variant, arch));
        let agreed = old.cases.values().flatten();
        let values: HashMap<_, _> = new.cases.values().flatten().collect();
        for (metric, agreed) in agreed {
            let is_free = *metric == model::Metric::Count && !counts;
            let Some(value) = values.get(metric).filter(|_| !is_free) else {
                continue;
            };
            let gates = model::Policy::NOTHING;
            if judge::accepts_worse(&gates, (&subject, *metric), agreed, value) {
                worse.push(Worse {
                    subject: subject.clone(),
                    metric: *metric,
                    was: agreed.value.0,
                    now: value.value.0,
                });
            }
        }
    }
    worse
}
