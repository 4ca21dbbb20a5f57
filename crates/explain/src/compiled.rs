//! All that is known of one kernel on one side without a run.

use super::CaseSide;
use super::residency::{self, Resident};
use model::{Arch, BuildFacts, CodeFacts, EntryFacts};

/// One side of a kernel as it was compiled: all that most rules see. It needs no case and no run.
#[derive(Debug)]
pub struct Compiled<'a> {
    pub build: Option<&'a BuildFacts>,
    /// `None` where the machine code is not known.
    pub code: Option<&'a CodeFacts>,
    pub(crate) resident: Vec<Resident<'a>>,
}

impl<'a> Compiled<'a> {
    /// A side without launches, as a file that was compiled has it.
    pub fn alone(arch: Arch, build: Option<&'a BuildFacts>, code: Option<&'a CodeFacts>) -> Self {
        let entries = build.map_or(&[][..], |build| &build.entries);
        Self {
            build,
            code,
            resident: residency::for_largest_blocks(arch, entries),
        }
    }

    pub fn entries(&self) -> &'a [EntryFacts] {
        self.build.map_or(&[], |build| &build.entries)
    }
}

impl<'a> CaseSide<'a> {
    pub fn compiled(&self) -> Compiled<'a> {
        Compiled {
            build: self.build,
            code: self.facts(),
            resident: residency::for_launches(self),
        }
    }
}
