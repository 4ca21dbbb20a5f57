//! The machine code of two sides, line beside line and loop beside loop.

use super::{CausePlace, Of, Sides};
use crate::build::is_of_system;
use std::collections::{BTreeMap, HashMap};
use verdict::model::{CodeFacts, CodeLine, CodePlace, EntryCode, InstructionKind};

/// What a turn of a loop counts for where nobody knows how many there are.
const TURNS: f64 = 8.0;

/// Lines of source longer than this are compared no further.
const MOST_LINES: usize = 4096;

/// Both sides.
#[derive(Debug, Default)]
pub struct Beside {
    lines: BTreeMap<Line, Spot>,
    sizes: (u32, u32),
}

/// A line of head, or one of base that head does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Head(CodeLine),
    Base(CodeLine),
    /// Of code that no line is told of.
    Unknown,
}

#[derive(Debug, Default)]
struct Spot {
    text: Option<String>,
    base: Pile,
    head: Pile,
}

/// Instructions of one line on one side.
#[derive(Debug, Default)]
struct Pile(BTreeMap<InstructionKind, Counted>);

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    count: u32,
    /// By a guess of how often they run.
    runs: f64,
}

impl Pile {
    fn of(&self, wanted: &dyn Fn(InstructionKind) -> bool) -> Counted {
        let fitting = self.0.iter().filter(|(kind, _)| wanted(**kind));
        fitting.fold(Counted::default(), |sum, (_, it)| Counted {
            count: sum.count + it.count,
            runs: sum.runs + it.runs,
        })
    }
}

/// A file of base beside the same of head.
pub type Pair = HashMap<u32, u32>;

/// How much more there is of some kinds.
#[derive(Debug)]
pub struct Growth {
    /// With more of them than before, the most first.
    pub lines: Vec<LineGrowth>,
    /// By a guess of how often they run; of what is less on other lines, too.
    pub total: f64,
}

#[derive(Debug)]
pub struct LineGrowth {
    pub place: CausePlace,
    pub base_count: u32,
    pub head_count: u32,
    pub runs: f64,
}

/// Places that a cause names.
const PLACES: usize = 3;

impl Growth {
    pub fn places(&self) -> impl Iterator<Item = CausePlace> {
        self.lines.iter().take(PLACES).map(|it| it.place.clone())
    }
}

impl Beside {
    pub fn of(sides: &Sides) -> Self {
        match (sides.base.facts(), sides.head.facts()) {
            (Some(base), Some(head)) => Self::of_code(base, head),
            _ => Self::default(),
        }
    }

    fn of_code(base: &CodeFacts, head: &CodeFacts) -> Self {
        let pairs = pair_files(base, head);
        let mut beside = Self::default();
        for entry in &base.entries {
            beside.pile_up(entry, Of::Base, base, &|line| {
                let pairs = pairs.get(&line.file)?;
                let number = *pairs.get(&line.number)?;
                Some(CodeLine {
                    number,
                    ..line.clone()
                })
            });
        }
        for entry in &head.entries {
            beside.pile_up(entry, Of::Head, head, &|line| Some(line.clone()));
        }
        beside
    }

    fn pile_up(
        &mut self,
        entry: &EntryCode,
        of: Of,
        facts: &CodeFacts,
        in_head: &dyn Fn(&CodeLine) -> Option<CodeLine>,
    ) {
        for line in &entry.lines {
            let own = line.place.as_ref().and_then(own_line);
            let key = match own.map(|own| (own, in_head(own))) {
                None => Line::Unknown,
                Some((_, Some(line))) => Line::Head(line),
                Some((own, None)) => Line::Base(own.clone()),
            };
            let runs = TURNS.powi(depth(entry, line.in_loop));
            let spot = self.lines.entry(key).or_default();
            let text = own.and_then(|own| facts.text.get(&own.file)?.get(&own.number));
            spot.text = text.cloned().or_else(|| spot.text.take());
            let (pile, size) = match of {
                Of::Base => (&mut spot.base, &mut self.sizes.0),
                Of::Head => (&mut spot.head, &mut self.sizes.1),
            };
            for (kind, count) in &line.mix {
                *size += count;
                let counted = pile.0.entry(*kind).or_default();
                counted.count += count;
                counted.runs += f64::from(*count) * runs;
            }
        }
    }

    /// Instructions of base and of head.
    pub fn code_size(&self) -> (u32, u32) {
        self.sizes
    }

    /// Of which instructions of some kinds there are more at head.
    pub fn growth(&self, wanted: &dyn Fn(InstructionKind) -> bool) -> Growth {
        let mut total = 0.0;
        let mut lines = Vec::new();
        for (line, spot) in &self.lines {
            let (base, head) = (spot.base.of(wanted), spot.head.of(wanted));
            let runs = head.runs - base.runs;
            total += runs;
            let (of, line) = match line {
                Line::Head(line) => (Of::Head, line),
                Line::Base(line) => (Of::Base, line),
                Line::Unknown => continue,
            };
            if runs > 0.0 {
                lines.push(LineGrowth {
                    place: CausePlace {
                        of,
                        line: line.clone(),
                        text: spot.text.clone(),
                    },
                    base_count: base.count,
                    head_count: head.count,
                    runs,
                });
            }
        }
        lines.sort_by(|a, b| b.runs.total_cmp(&a.runs));
        Growth { lines, total }
    }
}

/// The innermost line that is the user's own.
pub fn own_line(place: &CodePlace) -> Option<&CodeLine> {
    let mut chain = std::iter::once(&place.line).chain(&place.inlined_at);
    chain.find(|line| !is_of_system(&line.file))
}

fn depth(entry: &EntryCode, in_loop: Option<usize>) -> i32 {
    let mut depth = 0;
    let mut at = in_loop;
    while let Some(index) = at {
        depth += 1;
        let parent = entry.loops.get(index).and_then(|it| it.parent);
        // Outer loops come first.
        at = parent.filter(|parent| *parent < index);
    }
    depth
}

/// Lines of base by file, with the number that each has in head.
pub fn pair_files(base: &CodeFacts, head: &CodeFacts) -> HashMap<String, Pair> {
    let lines = |facts: &CodeFacts| {
        let mut files: BTreeMap<String, BTreeMap<u32, Option<String>>> = BTreeMap::new();
        for line in crate::build::code::own_lines(facts) {
            let text = facts
                .text
                .get(&line.file)
                .and_then(|it| it.get(&line.number));
            let file = files.entry(line.file.clone()).or_default();
            file.insert(line.number, text.cloned());
        }
        files
    };
    let (base, head) = (lines(base), lines(head));
    let files = base.iter().filter_map(|(file, lines)| {
        let others = head.get(file)?;
        Some((file.clone(), pair_lines(lines, others)))
    });
    files.collect()
}

type Lines = BTreeMap<u32, Option<String>>;

/// The longest common subsequence of lines by their text; between two that are common, those that are left over stand
/// beside each other in their order where they are as many. Where texts are not known, numbers have to do.
fn pair_lines(base: &Lines, head: &Lines) -> Pair {
    let is_known = |lines: &Lines| lines.values().all(Option::is_some);
    if !is_known(base) || !is_known(head) {
        return base.keys().map(|number| (*number, *number)).collect();
    }
    let a: Vec<_> = base.iter().take(MOST_LINES).collect();
    let b: Vec<_> = head.iter().take(MOST_LINES).collect();
    let width = b.len() + 1;
    let mut longest = vec![0u32; (a.len() + 1) * width];
    let at = |i: usize, j: usize| i * width + j;
    let value = |table: &[u32], i: usize, j: usize| table.get(at(i, j)).copied().unwrap_or(0);
    for (i, (_, left)) in a.iter().enumerate().rev() {
        for (j, (_, right)) in b.iter().enumerate().rev() {
            let best = match left == right {
                true => value(&longest, i + 1, j + 1) + 1,
                false => value(&longest, i + 1, j).max(value(&longest, i, j + 1)),
            };
            if let Some(place) = longest.get_mut(at(i, j)) {
                *place = best;
            }
        }
    }
    let mut pairs = Pair::new();
    let (mut i, mut j) = (0, 0);
    let (mut of_base, mut of_head) = (Vec::new(), Vec::new());
    let settle = |of_base: &mut Vec<u32>, of_head: &mut Vec<u32>, pairs: &mut Pair| {
        if of_base.len() == of_head.len() {
            pairs.extend(of_base.iter().copied().zip(of_head.iter().copied()));
        }
        of_base.clear();
        of_head.clear();
    };
    loop {
        match (a.get(i), b.get(j)) {
            (Some((left, x)), Some((right, y))) if x == y => {
                settle(&mut of_base, &mut of_head, &mut pairs);
                pairs.insert(**left, **right);
                (i, j) = (i + 1, j + 1);
            }
            (Some((left, _)), right)
                if right.is_none() || value(&longest, i + 1, j) >= value(&longest, i, j + 1) =>
            {
                of_base.push(**left);
                i += 1;
            }
            (_, Some((right, _))) => {
                of_head.push(**right);
                j += 1;
            }
            (_, None) => break,
        }
    }
    settle(&mut of_base, &mut of_head, &mut pairs);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[(u32, &str)]) -> Lines {
        let lines = texts
            .iter()
            .map(|(at, text)| (*at, Some((*text).to_owned())));
        lines.collect()
    }

    #[test]
    fn lines_are_found_again_where_others_came_between() {
        let base = lines(&[(3, "a"), (4, "b"), (5, "c"), (9, "d")]);
        let head = lines(&[(3, "a"), (4, "new"), (5, "b"), (6, "c2"), (10, "d")]);
        let pairs = pair_lines(&base, &head);
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable();
        // What stands alone between two that are the same was edited.
        assert_eq!(pairs, [(3, 3), (4, 5), (5, 6), (9, 10)]);
    }

    #[test]
    fn lines_without_text_keep_their_numbers() {
        let mut head = lines(&[(3, "a")]);
        head.insert(7, None);
        let base = lines(&[(3, "b"), (7, "c")]);
        assert_eq!(pair_lines(&base, &head), Pair::from([(3, 3), (7, 7)]));
    }
}
