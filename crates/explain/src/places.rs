//! Finds lines of the source that a cause can name.

use super::cause::{CausePlace, PlaceSide};
use super::lines::{Pair, own_line, pair_files, text};
use super::side::{CaseSide, Sides};
use model::{CodeFacts, CodeLine, Counter, InstructionKind};
use std::collections::HashMap;

/// The lines of the base in head, according to the machine code. If that is unknown, it is the same on both sides, and
/// so are the lines.
pub struct Moved(Option<HashMap<String, Pair>>);

impl Moved {
    pub fn from_sides(sides: &Sides) -> Self {
        let both = sides.base.facts().zip(sides.head.facts());
        Self(both.map(|(base, head)| pair_files(base, head)))
    }

    /// Returns the line in head, or `None` if head does not have it.
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

/// Returns a line of head with its text.
pub fn at_head(head: Option<&CodeFacts>, line: CodeLine) -> CausePlace {
    CausePlace {
        of: PlaceSide::Head,
        text: head.and_then(|facts| text(facts, &line)),
        line,
    }
}

/// Returns where the code of the kernel begins, which is where it is declared.
pub fn entry(head: Option<&CodeFacts>) -> Option<CausePlace> {
    let first = lines(head?).map(|(line, _)| line).next()?;
    Some(at_head(head, first))
}

/// Returns the first line of head's code that has an instruction of some kinds.
pub fn first(
    head: Option<&CodeFacts>,
    wanted: &dyn Fn(InstructionKind) -> bool,
) -> Option<CausePlace> {
    let (line, _) = lines(head?).find(|(_, kinds)| kinds.iter().any(|kind| wanted(*kind)))?;
    Some(at_head(head, line))
}

/// Returns the lines in the order of the machine code.
fn lines(facts: &CodeFacts) -> impl Iterator<Item = (CodeLine, Vec<InstructionKind>)> {
    facts
        .entries
        .iter()
        .flat_map(|entry| &entry.lines)
        .filter_map(|line| {
            let own = line.place.as_ref().and_then(own_line)?;
            Some((own.clone(), line.mix.keys().copied().collect()))
        })
}

/// The number of places that a cause names.
const PLACES: usize = 3;

/// Returns the lines of head at which a sum of counters is larger than before, the largest growth first. Records only
/// have the largest lines of each counter, so a line that is not among them counts as 0.
pub fn grown_lines(sides: &Sides, more: &[Counter], less: &[Counter]) -> Vec<CausePlace> {
    let moved = Moved::from_sides(sides);
    let mut grown: Vec<(CodeLine, f64)> = Vec::new();
    let mut add =
        |line: CodeLine, count: f64| match grown.iter_mut().find(|(known, _)| *known == line) {
            Some((_, sum)) => *sum += count,
            None => grown.push((line, count)),
        };
    for (counters, sign) in [(more, 1.0), (less, -1.0)] {
        for counter in counters {
            for (line, count) in counted_lines(&sides.head, *counter) {
                add(line, sign * count);
            }
            for (line, count) in counted_lines(&sides.base, *counter) {
                if let Some(line) = moved.in_head(&line) {
                    add(line, -sign * count);
                }
            }
        }
    }
    grown.retain(|(_, growth)| *growth > 0.0);
    grown.sort_by(|a, b| b.1.total_cmp(&a.1));
    grown
        .into_iter()
        .map(|(line, _)| at_head(sides.head.facts(), line))
        .take(PLACES)
        .collect()
}

/// Returns the lines of the first seed, or of the first profile.
fn counted_lines(side: &CaseSide, counter: Counter) -> Vec<(CodeLine, f64)> {
    let counted: Vec<(&str, u64)> = match side.simulations.first() {
        Some(facts) => facts
            .lines
            .get(&counter)
            .into_iter()
            .flatten()
            .map(|line| (line.place.as_str(), line.count))
            .collect(),
        None => side
            .profiles
            .iter()
            .take(1)
            .flat_map(|facts| &facts.kernels)
            .flat_map(|kernel| &kernel.lines)
            .filter_map(|line| Some((line.place.as_str(), *line.counters.get(&counter)?)))
            .collect(),
    };
    counted
        .into_iter()
        .filter_map(|(place, count)| Some((line_of(place)?, count as f64)))
        .collect()
}

/// Returns the innermost line of a place that the simulator names: `kernels/k.cu:12 inlined at kernels/k.cu:40`.
pub fn line_of(place: &str) -> Option<CodeLine> {
    let innermost = place.split(' ').next()?;
    let (file, number) = innermost.rsplit_once(':')?;
    // nvcc writes 0 for code without a line.
    let number = number.parse().ok().filter(|number| *number > 0)?;
    Some(CodeLine {
        file: file.to_owned(),
        number,
    })
}
