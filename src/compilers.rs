//! Makes the two sides of a change of compiler: the same files, built by two compilers.
//!
//! Knows nothing of workers, devices or judges, and `pipeline` does not know where a side comes from.

use build::toolchain::{self, Choice, CompilerOrigin};
use model::{Base, Component, Loosening, PartChange};
use pipeline::{BaseSide, Change};
use records::store;
use std::path::Path;
use system::cache::Cache;
use system::error::Result;

/// The compilers that the command line names instead of those that gates.yaml pins.
#[derive(Clone, Debug)]
pub struct CompilerRequest {
    /// The compiler of both sides, unless the base is given another one.
    pub toolchain: Option<Choice>,
    /// The compiler that makes the same files the base.
    pub base: Option<Choice>,
    /// Says whether gates that are looser than the base's fail.
    pub loosening: Loosening,
}

impl CompilerRequest {
    /// Finds the compilers that are named.
    ///
    /// # Errors
    /// Environment, if one of them is not there.
    pub fn find(&self, cache: &Cache) -> Result<()> {
        self.toolchain
            .iter()
            .chain(&self.base)
            .try_for_each(|choice| toolchain::find_choice(choice, cache).map(drop))
    }

    /// Sets the compilers of a change. If a compiler makes the base, sets the base, too.
    ///
    /// # Errors
    /// Usage or environment, if baselines or acceptances cannot be read.
    pub fn apply(&self, change: &mut Change) -> Result<()> {
        if let Some(choice) = &self.toolchain {
            change.compiler = choice.clone();
            if let Some(base) = &mut change.base {
                base.compiler = choice.clone();
            }
        }
        if let Some(choice) = &self.base {
            change.base = Some(self.same_files(change, choice)?);
        }
        Ok(())
    }

    /// Returns the files of head unchanged, with all their gates, as the base of a change of compiler.
    fn same_files(&self, change: &Change, compiler: &Choice) -> Result<BaseSide> {
        let head = &change.head;
        // A broken file of baselines is reported for head.
        let (baselines, _) = store::load_baselines(&head.root)?;
        Ok(BaseSide {
            spec: Base {
                toolchain: Some(compiler.to_string()),
                baselines,
                accepted: config::load_acceptances(head)?,
                loosening: self.loosening,
                ..Base::new(
                    &format!("nvcc {compiler}"),
                    change.commit.as_deref().unwrap_or_default(),
                    head.whole.plan.clone(),
                    head.whole.gates.clone(),
                )
            },
            // Files that are compiled already are the same for both compilers.
            binaries: Vec::new(),
            programs: Vec::new(),
            compiler: compiler.clone(),
            root: head.root.clone(),
            file_isolation: None,
            files: Box::new(()),
        })
    }
}

/// One step from one compiler to another, in which one more part is the other's.
#[derive(Clone, Debug, PartialEq)]
pub struct CompilerStep {
    pub change: PartChange,
    /// The compiler that is complete after this step.
    pub compiler: Choice,
}

/// Returns the steps from the base's compiler to head's, each with one more part exchanged. A newer part reads what an
/// older one writes, and not the other way round. Therefore an upgrade begins with the last part, and a downgrade with
/// the first.
///
/// # Errors
/// Environment, if one of the two is not there.
pub fn find_steps(base: &Choice, head: &Choice, cache: &Cache) -> Result<Vec<CompilerStep>> {
    let sides = [base, head].map(|choice| -> Result<[CompilerOrigin; 4]> {
        let whole = Choice {
            whole: choice.whole.clone(),
            ..Choice::default()
        };
        let home = toolchain::find_choice(&whole, cache)?.nvcc;
        let home = home.parent().and_then(Path::parent).map(Path::to_owned);
        Ok(Component::ALL.map(|part| {
            let named = choice.parts.get(&part).cloned();
            named.unwrap_or_else(|| CompilerOrigin::Home(home.clone().unwrap_or_default()))
        }))
    });
    let [base, head] = sides;
    let (mut sources, head) = (base?, head?);
    let facts = |source: &CompilerOrigin| {
        let choice = Choice {
            whole: Some(source.clone()),
            ..Choice::default()
        };
        toolchain::find_choice(&choice, cache).map(|choice| choice.facts)
    };
    let mut found = Vec::new();
    for (at, part) in Component::ALL.into_iter().enumerate() {
        let (Some(from), Some(to)) = (sources.get(at), head.get(at)) else {
            continue;
        };
        let (from, to) = (facts(from)?, facts(to)?);
        if from.digest != to.digest {
            found.push((at, part, [from.version, to.version]));
        }
    }
    let is_upward = |versions: &[String; 2]| {
        let [from, to] = versions;
        toolchain::compare_versions(from, to).is_lt()
    };
    if found.iter().any(|(_, _, versions)| is_upward(versions)) {
        found.reverse();
    }
    Ok(found
        .into_iter()
        .map(|(at, part, versions)| {
            if let (Some(own), Some(new)) = (sources.get_mut(at), head.get(at)) {
                *own = new.clone();
            }
            let [nvcc, headers, nvvm, ptxas] = sources.clone();
            CompilerStep {
                change: PartChange { part, versions },
                compiler: Choice {
                    whole: Some(nvcc),
                    parts: [
                        (Component::Headers, headers),
                        (Component::Nvvm, nvvm),
                        (Component::Ptxas, ptxas),
                    ]
                    .into(),
                },
            }
        })
        .collect())
}
