//! Reads the machine code that a change compiles differently from the base, for those who explain the verdicts.

use super::plan::Planned;
use super::sources::Sources;
use super::work::{Artifacts, EvidenceSide, SharedWork};
use crate::event::Event;
use build::code::{self, CodeReader};
use build::toolchain::{self, Disassembler};
use model::{CodeFacts, Evidence, NotRun, Record, Seen, UnitId};
use rayon::prelude::*;
use std::collections::HashMap;
use system::cache::Cache;

/// Units of head that the base also has, with different code.
pub(super) struct Changed(Vec<UnitId>);

impl Changed {
    pub fn from_record(record: &Record) -> Self {
        let head = identities(record.evidence.iter());
        let base = identities(record.evidence.iter().filter_map(Evidence::as_base));
        let units = record.plan.units.iter().map(|unit| &unit.id);
        let differs = |unit: &&UnitId| match (base.get(unit), head.get(unit)) {
            (Some(base), Some(head)) => base != head,
            _ => false,
        };
        Self(units.filter(differs).cloned().collect())
    }

    /// Returns the machine code of each unit, on both sides.
    pub fn read(
        &self,
        planned: &Planned,
        work: &SharedWork,
        cache: &Cache,
        provision: bool,
        on: &(dyn Fn(Event) + Sync),
    ) -> Vec<Evidence> {
        let Some(base) = planned.base.as_ref().filter(|_| !self.0.is_empty()) else {
            return Vec::new();
        };
        let found = find(cache, provision, on);
        let found = found.as_ref();
        let mut evidence = Vec::new();
        let pieces = self.read_side(found, cache, &work.base.artifacts, base.sources());
        EvidenceSide::Base.file(pieces, &mut evidence);
        let pieces = self.read_side(found, cache, &work.head.artifacts, planned.sources());
        EvidenceSide::Head.file(pieces, &mut evidence);
        evidence
    }

    fn read_side(
        &self,
        disassembler: Option<&Disassembler>,
        cache: &Cache,
        artifacts: &Artifacts,
        mut sources: Sources,
    ) -> Vec<Evidence> {
        let reader =
            disassembler.and_then(|disassembler| CodeReader::open(disassembler, cache).ok());
        let read = |unit: &UnitId| match (&reader, artifacts.get(unit)) {
            (None, _) => Seen::NotRun(NotRun::NoDisassembler),
            (_, None) => Seen::NotRun(NotRun::NoArtifact),
            (Some(reader), Some(artifact)) => reader.read(artifact),
        };
        let facts: Vec<Seen<CodeFacts>> = self.0.par_iter().map(read).collect();
        self.0
            .iter()
            .zip(facts)
            .map(|(unit, facts)| Evidence::Code {
                unit: unit.clone(),
                facts: facts.map(|facts| quoted(facts, &mut sources)),
            })
            .collect()
    }
}

fn identities<'a>(evidence: impl Iterator<Item = &'a Evidence>) -> HashMap<&'a UnitId, &'a str> {
    evidence
        .filter_map(|piece| match piece {
            Evidence::Build {
                unit,
                facts: Seen::Got(facts),
            } => Some((unit, facts.identity.as_str())),
            _ => None,
        })
        .collect()
}

fn find(cache: &Cache, provision: bool, on: &(dyn Fn(Event) + Sync)) -> Option<Disassembler> {
    let found = toolchain::find_disassembler(cache);
    if found.is_some() || !provision {
        return found;
    }
    let say = |line: &str| on(Event::Waiting(line.to_owned()));
    if let Err(error) = toolchain::install_disassembler(cache, &say) {
        say(&format!(
            "machine code is not explained, for want of nvdisasm: {}",
            error.diagnostic().message
        ));
    }
    toolchain::find_disassembler(cache)
}

/// Adds the text of its source lines.
fn quoted(mut facts: CodeFacts, sources: &mut Sources) -> CodeFacts {
    let lines: Vec<_> = code::own_lines(&facts).cloned().collect();
    for line in lines {
        if let Some(text) = sources.line(&line.file, line.number) {
            facts
                .text
                .entry(line.file)
                .or_default()
                .insert(line.number, text);
        }
    }
    facts
}
