//! Lines of the source that a cause can name.

use super::code_comparison::{Pair, own_line, pair_files};
use super::{CausePlace, PlaceSide, Sides};
use model::{CodeFacts, CodeLine, InstructionKind};
use std::collections::HashMap;

/// Lines of base in head: as the machine code has them. Where that is not known it is the same on both sides, and so are
/// they.
pub struct Moved(Option<HashMap<String, Pair>>);

impl Moved {
    pub fn of(sides: &Sides) -> Self {
        let both = sides.base.facts().zip(sides.head.facts());
        Self(both.map(|(base, head)| pair_files(base, head)))
    }

    /// `None` of a line that head does not have.
    pub fn in_head(&self, line: &CodeLine) -> Option<CodeLine> {
        let Some(files) = &self.0 else {
            return Some(line.clone());
        };
        let pair = files.get(&line.file)?;
        let number = pair.get(&line.number).copied();
        Some(CodeLine {
            number: number?,
            ..line.clone()
        })
    }
}

/// A line of head, with what stands there.
pub fn at_head(sides: &Sides, line: CodeLine) -> CausePlace {
    let facts = sides.head.facts();
    let text = facts.and_then(|facts| facts.text.get(&line.file)?.get(&line.number).cloned());
    CausePlace {
        of: PlaceSide::Head,
        line,
        text,
    }
}

/// Where the code of the kernel begins, which is where it is declared.
pub fn entry(sides: &Sides) -> Option<CausePlace> {
    let lines = lines(sides.head.facts()?);
    let first = lines.map(|(line, _)| line).next()?;
    Some(at_head(sides, first))
}

/// The first line of head's code that has an instruction of some kinds.
pub fn first(sides: &Sides, wanted: &dyn Fn(InstructionKind) -> bool) -> Option<CausePlace> {
    let mut lines = lines(sides.head.facts()?);
    let (line, _) = lines.find(|(_, kinds)| kinds.iter().any(|kind| wanted(*kind)))?;
    Some(at_head(sides, line))
}

/// In the order of the machine code.
fn lines(facts: &CodeFacts) -> impl Iterator<Item = (CodeLine, Vec<InstructionKind>)> {
    let lines = facts.entries.iter().flat_map(|entry| &entry.lines);
    lines.filter_map(|line| {
        let own = line.place.as_ref().and_then(own_line)?;
        Some((own.clone(), line.mix.keys().copied().collect()))
    })
}
