//! Finds the files that all configurations are built from: the source, and the headers that it names, if they are next
//! to it or in its directories of headers. A macro whose name is in none of them changes nothing.

use config::Tuning;
use model::Unit;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use system::error::Result;
use system::files;
use system::sources;

/// The texts of files by their paths, in the order in which they were found.
pub struct Texts(Vec<(PathBuf, String)>);

impl Texts {
    /// Finds the sources of a unit. A header that is not found belongs to the compiler, or its name is made by a macro.
    pub fn read(root: &Path, unit: &Unit) -> Self {
        let dirs: Vec<PathBuf> = unit
            .include_dirs
            .iter()
            .map(|dir| {
                let here = sources::expand(dir, &sources::read_variable);
                root.join(here.unwrap_or_else(|_| dir.clone()))
            })
            .collect();
        let mut texts = Vec::new();
        let mut met = BTreeSet::new();
        let mut open = vec![root.join(&unit.source)];
        while let Some(path) = open.pop() {
            if !met.insert(path.clone()) {
                continue;
            }
            let Ok(text) = files::read_text(&path, files::SOURCE) else {
                continue;
            };
            let beside = path.parent().map(Path::to_owned);
            for name in included(&text) {
                let found = beside
                    .iter()
                    .chain(&dirs)
                    .map(|dir| dir.join(name))
                    .find(|path| path.is_file());
                open.extend(found);
            }
            texts.push((path, text));
        }
        Self(texts)
    }

    /// Returns true if a name occurs anywhere as a word.
    pub fn have(&self, name: &str) -> bool {
        let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let has = |text: &str| text.split(|char| !is_word(char)).any(|word| word == name);
        self.0.iter().any(|(_, text)| has(text))
    }

    fn digest(&self, hasher: &mut blake3::Hasher) {
        let mut texts: Vec<&str> = self.0.iter().map(|(_, text)| text.as_str()).collect();
        // The order does not depend on the paths, which differ between checkouts.
        texts.sort_unstable();
        for text in texts {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
    }
}

/// Returns the names of files behind `#include`.
fn included(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let name = rest.strip_prefix("include")?.trim_start();
        let end = match name.chars().next()? {
            '"' => '"',
            '<' => '>',
            _ => return None,
        };
        name.get(1..)?.split(end).next()
    })
}

/// Checks that each parameter occurs in the files that are built.
///
/// # Errors
/// Usage, at the parameter that does not occur.
pub fn check_parameters(tuning: &Tuning) -> Result<()> {
    let Some(unit) = tuning.loaded.plan.units.first() else {
        return Ok(());
    };
    let texts = Texts::read(&tuning.loaded.root, unit);
    for (at, parameter) in tuning.tune.parameters.iter().enumerate() {
        if !texts.have(&parameter.name) {
            let message = format!(
                "`{}` is no macro of {}: neither it nor a header that it includes has the name",
                parameter.name, unit.source
            );
            return Err(tuning.refuse_parameter(at, message));
        }
    }
    Ok(())
}

/// Returns a digest of texts, flags, calls and gates. A result of a search is valid for this digest only.
pub fn digest(tuning: &Tuning) -> String {
    let mut hasher = blake3::Hasher::new();
    let loaded = &tuning.loaded;
    if let Some(unit) = loaded.plan.units.first() {
        Texts::read(&loaded.root, unit).digest(&mut hasher);
    }
    for part in [
        serde_json::to_vec(&loaded.plan.units),
        serde_json::to_vec(&loaded.plan.cases),
        serde_json::to_vec(&loaded.plan.timing),
        serde_json::to_vec(&loaded.plan.simulation),
        serde_json::to_vec(
            &loaded
                .gates
                .iter()
                .map(|gate| &gate.rule)
                .collect::<Vec<_>>(),
        ),
    ] {
        // Plain data can always be written.
        hasher.update(&part.unwrap_or_default());
    }
    hasher
        .finalize()
        .to_hex()
        .as_str()
        .chars()
        .take(16)
        .collect()
}
