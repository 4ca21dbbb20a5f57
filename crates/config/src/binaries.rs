//! Resolves `binaries:`, which names compiled files and the limits that their kernels must keep. It does not know which
//! kernels a file contains.

use super::architectures::resolve_architectures;
use super::limit::read_plain_limit;
use super::names::check_file_name;
use super::raw::{CompiledFileGates, KERNELS, OF_KERNELS, RawBinary};
use super::written::{Key, WrittenGate, merge_limits, read_texts};
use super::yaml::{Mistake, Spanned};
use globset::Glob;
use model::{Arch, Limit, Metric, Rule};
use std::path::{Component, Path};

/// One compiled file, with the limits that it must keep.
#[derive(Clone, Debug, PartialEq)]
pub struct BinaryGates {
    pub name: String,
    /// The path relative to gates.yaml, with a glob in its last part.
    pub file: String,
    pub architectures: Vec<Arch>,
    /// The limits on the number of its kernels.
    pub count: Vec<FileLimit>,
    pub gates: Vec<KernelLimits>,
    /// The line in which the architectures are, such as `gates.yaml:4`.
    pub declared: String,
}

/// The limits on the kernels whose names fit.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelLimits {
    /// Globs of kernel names. Without any, every kernel is meant.
    pub kernels: Vec<Glob>,
    pub limits: Vec<FileLimit>,
    /// The line in which the globs are, such as `gates.yaml:7`.
    pub declared: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FileLimit {
    pub arch: Arch,
    pub rule: Rule,
    pub declared: String,
}

impl BinaryGates {
    /// Returns true if another file of gates has the same section. Its lines do not matter.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        self.without_places() == other.without_places()
    }

    fn without_places(&self) -> Self {
        let mut all = self.clone();
        all.declared.clear();
        for gates in &mut all.gates {
            gates.declared.clear();
        }
        let of_kernels = all.gates.iter_mut().flat_map(|gates| &mut gates.limits);
        for limit in of_kernels.chain(&mut all.count) {
            limit.declared.clear();
        }
        all
    }

    /// Returns true if the number of kernels is compared with the baseline's, so that somebody must consent to new
    /// kernels.
    pub fn limits_growth(&self) -> bool {
        self.count.iter().any(|limit| is_relative(&limit.rule))
    }
}

fn is_relative(rule: &Rule) -> bool {
    matches!(
        rule,
        Rule::Limit {
            limit: Limit::Baseline { .. },
            ..
        }
    )
}

pub fn resolve_binary(
    name: &Spanned<String>,
    raw: &Spanned<RawBinary>,
    file: &str,
) -> Result<BinaryGates, Mistake> {
    check_file_name(name, "binary")?;
    check_path(&raw.file)?;
    let architectures = resolve_architectures(&raw.architectures)?;
    let declared = |spot: super::yaml::Position| format!("{file}:{}", spot.line());
    let reader = BinariesReader {
        file,
        architectures: &architectures,
    };
    let mut count = Vec::new();
    if let Some(limits) = &raw.count {
        let written = [(limits.with(Metric::Count.name().to_owned()), limits.clone())];
        count = reader.read_all(merge_limits(written.iter())?)?;
    }
    let mut gates = Vec::new();
    for entry in raw.gates.iter().flat_map(|all| all.iter()) {
        gates.push(reader.read_entry(entry, declared(entry.at))?);
    }
    if let (Some(written), true) = (&raw.gates, gates.is_empty()) {
        return Err(written.problem("an empty list sets no limit"));
    }
    Ok(BinaryGates {
        name: name.value.clone(),
        file: raw.file.value.clone(),
        declared: declared(raw.architectures.at),
        architectures,
        count,
        gates,
    })
}

/// Checks the path of a file. A glob must stand for one file in one directory, so that nothing has to be searched.
fn check_path(file: &Spanned<String>) -> Result<(), Mistake> {
    let path = Path::new(file.as_str());
    let is_glob = |text: &str| text.contains(['*', '?', '[', '{']);
    let mut parts = path.components().rev();
    if !matches!(parts.next(), Some(Component::Normal(_))) {
        return Err(file
            .problem(format!("`{file}` names no file"))
            .help("file: build/libattention.so, or dist/attention-*.whl"));
    }
    if parts.any(|part| is_glob(&part.as_os_str().to_string_lossy())) {
        return Err(file
            .problem(format!("`{file}` has a glob in a directory"))
            .help("only the name of the file can be a glob: dist/attention-*.whl"));
    }
    let name = path.file_name().map(|name| name.to_string_lossy());
    match name.map(|name| Glob::new(&name).map(drop)) {
        Some(Err(error)) => Err(file.problem(format!("not a glob: {}", error.kind()))),
        _ => Ok(()),
    }
}

struct BinariesReader<'a> {
    file: &'a str,
    architectures: &'a [Arch],
}

impl BinariesReader<'_> {
    fn read_entry(
        &self,
        entry: &Spanned<CompiledFileGates>,
        declared: String,
    ) -> Result<KernelLimits, Mistake> {
        let (globs, limits): (Vec<_>, Vec<_>) = entry
            .value
            .0
            .iter()
            .partition(|(name, _)| name.value == KERNELS);
        let mut kernels = Vec::new();
        for (_, globs) in globs {
            for text in read_texts(globs)? {
                let glob = Glob::new(&text).map_err(|error| {
                    text.problem(format!("`{text}` is not a glob: {}", error.kind()))
                })?;
                kernels.push(glob);
            }
        }
        let limits = merge_limits(limits.into_iter())?;
        for limit in &limits {
            match limit.key {
                Key::Metric(metric) if OF_KERNELS.contains(&metric) => {}
                _ => {
                    let names = OF_KERNELS.map(Metric::name).join(", ");
                    let problem = match limit.key {
                        Key::Metric(Metric::Count) => "`count` is of the whole file".to_owned(),
                        _ => format!("a compiled file does not state `{}`", limit.name.value),
                    };
                    return Err(limit.name.problem(problem).help(match limit.key {
                        Key::Metric(Metric::Count) => "write it next to `file`".to_owned(),
                        _ => format!("it states {names}"),
                    }));
                }
            }
        }
        if limits.is_empty() {
            return Err(entry
                .problem("no limits: nothing would be judged")
                .help("- {registers: \"+0%\", spills: 0, code: \"+5%\"}"));
        }
        Ok(KernelLimits {
            kernels,
            limits: self.read_all(limits)?,
            declared,
        })
    }

    fn read_all(&self, written: Vec<WrittenGate<'_>>) -> Result<Vec<FileLimit>, Mistake> {
        let mut limits = Vec::new();
        for written in written {
            let Key::Metric(metric) = written.key else {
                continue;
            };
            for &arch in self.architectures {
                for text in written.for_architecture(arch, self.architectures)? {
                    limits.push(FileLimit {
                        arch,
                        rule: Rule::Limit {
                            metric,
                            limit: read_file_limit(&text, metric)?,
                        },
                        declared: format!("{}:{}", self.file, text.at.line()),
                    });
                }
            }
        }
        Ok(limits)
    }
}

/// Reads a bound, or a limit on the change from the baseline.
fn read_file_limit(text: &Spanned<String>, metric: Metric) -> Result<Limit, Mistake> {
    match read_plain_limit(text, metric, |context| context.compiled = true)? {
        None => Err(text
            .problem("a limit on a compiled file must be a number or a relative limit")
            .help("examples: `128`, `48KiB`, `+5%`")),
        Some(Limit::Anchor { .. } | Limit::Base { .. }) => Err(text
            .problem("a limit on a compiled file is against its baseline alone")
            .help("write it without `of`: `+5%`")),
        Some(limit) => Ok(limit),
    }
}
