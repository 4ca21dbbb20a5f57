//! Everything that is known of one kernel on one side without a run.

use super::CaseSide;
use super::residency::{self, Resident};
use model::{Arch, BuildFacts, CodeFacts, EntryFacts};

/// One side of a compiled kernel. Most rules see only this, and need no case and no run.
#[derive(Debug)]
pub struct Compiled<'a> {
    pub build: Option<&'a BuildFacts>,
    /// `None` if the machine code is unknown.
    pub code: Option<&'a CodeFacts>,
    pub(crate) resident: Vec<Resident<'a>>,
}

impl<'a> Compiled<'a> {
    /// Returns a side without launches, as a compiled file has it.
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
