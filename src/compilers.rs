//! Sides of a change from compilers: the same files, built by two. Knows nothing of workers, devices or judges;
//! `pipeline` knows nothing of where a side comes from.

use build::toolchain::Choice;
use model::{Base, Loosening};
use pipeline::{BaseSide, Change};
use records::store;
use system::error::Result;

/// The compilers of the command line, in the place of those that gates.yaml pins.
#[derive(Clone, Debug)]
pub struct CompilerRequest {
    /// Of both sides, unless the base has one of its own.
    pub toolchain: Option<Choice>,
    /// Makes the same files the base.
    pub base: Option<Choice>,
    /// What a base that cannot be compared with means.
    pub loosening: Loosening,
}

impl CompilerRequest {
    /// Sets the compilers of a change, and its base where a compiler makes one.
    ///
    /// # Errors
    /// Usage or environment, where baselines or acceptances cannot be read.
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

    /// The files of head as they are, with all that they ask.
    fn same_files(&self, change: &Change, compiler: &Choice) -> Result<BaseSide> {
        let head = &change.head;
        // Files that are broken are head's to report.
        let (baselines, _) = store::load_baselines(&head.root)?;
        Ok(BaseSide {
            asked: Base {
                revision: format!("nvcc {compiler}"),
                commit: change.commit.clone().unwrap_or_default(),
                toolchain: Some(compiler.to_string()),
                plan: head.whole.plan.clone(),
                gates: head.whole.gates.clone(),
                baselines,
                accepted: config::load_acceptances(head)?,
                renames: Vec::new(),
                moved: Vec::new(),
                gone: Vec::new(),
                loosening: self.loosening,
            },
            compiler: compiler.clone(),
            root: head.root.clone(),
            apart: None,
            files: Box::new(()),
        })
    }
}
