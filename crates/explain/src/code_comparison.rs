//! The machine code of two sides, line by line and loop by loop.

use super::{CausePlace, PlaceSide, Side, Sides, counts, loops};
use build::is_of_system;
use model::{CodeFacts, CodeLine, CodePlace, EntryCode, InstructionKind, LineCode, Mix};
use std::collections::{BTreeMap, HashMap};

/// Lines of source longer than this are compared no further.
const MOST_LINES: usize = 4096;

/// Machine code of both sides.
#[derive(Debug, Default)]
pub struct CodeComparison {
    lines: BTreeMap<Line, LineSides>,
    loops: Vec<LoopPair>,
    sizes: (u32, u32),
}

/// A line of head, or one of base that head does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Head(CodeLine),
    Base(CodeLine),
    /// Code whose line is not known.
    Unknown,
}

/// A loop of both sides, or of one.
#[derive(Debug)]
pub struct LoopPair {
    pub place: Option<CausePlace>,
    /// Turns that head takes for one of base's: more than 1 where it is unrolled less.
    pub turns: f64,
    /// How often head comes to its end, by a guess.
    pub runs: f64,
    pub base_step: Option<i64>,
    pub head_step: Option<i64>,
    pub base_size: u32,
    pub head_size: u32,
}

#[derive(Debug, Default)]
struct LineSides {
    text: Option<String>,
    base: LineBucket,
    head: LineBucket,
}

/// Instructions of one line on one side.
#[derive(Debug, Default)]
pub struct LineBucket {
    kinds: BTreeMap<InstructionKind, Counted>,
    predicated: Counted,
    calls: BTreeMap<String, Counted>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    pub count: u32,
    /// By a guess of how often a warp runs them.
    pub runs: f64,
}

impl Counted {
    fn add(&mut self, count: u32, runs: f64) {
        self.count += count;
        self.runs += f64::from(count) * runs;
    }
}

impl LineBucket {
    pub fn of(&self, wanted: &dyn Fn(InstructionKind) -> bool) -> Counted {
        let fitting = self.kinds.iter().filter(|(kind, _)| wanted(**kind));
        fitting.fold(Counted::default(), |sum, (_, it)| Counted {
            count: sum.count + it.count,
            runs: sum.runs + it.runs,
        })
    }

    pub fn runs(&self, wanted: &dyn Fn(InstructionKind) -> bool) -> f64 {
        self.of(wanted).runs
    }

    /// Accesses to memory under a predicate.
    pub fn predicated(&self) -> Counted {
        self.predicated
    }

    /// The others.
    pub fn unconditional(&self) -> Counted {
        let all = self.of(&|kind| kind.width().is_some());
        Counted {
            count: all.count.saturating_sub(self.predicated.count),
            runs: all.runs - self.predicated.runs,
        }
    }

    pub fn calls(&self) -> impl Iterator<Item = (&str, Counted)> {
        self.calls.iter().map(|(name, it)| (name.as_str(), *it))
    }

    fn add(&mut self, line: &LineCode, runs: f64) {
        for (kind, count) in &line.mix {
            self.kinds.entry(*kind).or_default().add(*count, runs);
        }
        self.predicated.add(line.predicated, runs);
        for (name, count) in &line.calls {
            self.calls
                .entry(name.clone())
                .or_default()
                .add(*count, runs);
        }
    }

    fn scale(&mut self, factor: f64) {
        let kinds = self.kinds.values_mut().chain(self.calls.values_mut());
        for counted in kinds.chain([&mut self.predicated]) {
            counted.runs *= factor;
        }
    }
}

/// Counts of base and of head; `None` for a line that does not count.
pub type OfBoth = Option<(Counted, Counted)>;

/// A file of base and the same file of head.
pub type Pair = HashMap<u32, u32>;

/// How much more there is of some kinds.
#[derive(Debug)]
pub struct Growth {
    /// With more of them than before, the most first.
    pub lines: Vec<LineGrowth>,
    /// By a guess of how often a warp runs them; of what is less on other lines, too.
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

    /// Instructions of the line with most of it.
    pub fn first_counts(&self) -> (u32, u32) {
        let first = self.lines.first();
        first.map_or((0, 0), |it| (it.base_count, it.head_count))
    }
}

impl CodeComparison {
    pub fn of(sides: &Sides) -> Self {
        match (sides.base.facts(), sides.head.facts()) {
            (Some(base), Some(head)) => {
                let mut found = Self::of_code(base, head);
                found.scale(&sides.head);
                found
            }
            _ => Self::default(),
        }
    }

    fn of_code(base: &CodeFacts, head: &CodeFacts) -> Self {
        let files = Files {
            pairs: pair_files(base, head),
            base,
            head,
        };
        let in_head = |line: &CodeLine| files.in_head(line);
        let mut found = Self::default();
        for (base_entry, head_entry) in base.entries.iter().zip(&head.entries) {
            let turns = loops::pair(base_entry, head_entry, &in_head);
            found.fill_buckets(base_entry, PlaceSide::Base, base, &turns.base, &|place| {
                files.key_of_base(place)
            });
            found.fill_buckets(head_entry, PlaceSide::Head, head, &turns.head, &|place| {
                files.key_of_head(place)
            });
            let quoted = turns.pairs.into_iter().map(|(pair, line)| LoopPair {
                place: line.map(|line| CausePlace {
                    of: PlaceSide::Head,
                    text: text(head, &line),
                    line,
                }),
                ..pair
            });
            found.loops.extend(quoted);
        }
        found
    }

    fn fill_buckets(
        &mut self,
        entry: &EntryCode,
        of: PlaceSide,
        facts: &CodeFacts,
        turns: &[f64],
        key: &dyn Fn(&CodePlace) -> Line,
    ) {
        for line in &entry.lines {
            let key = line.place.as_ref().map_or(Line::Unknown, key);
            let quoted = match (&key, of) {
                (Line::Base(line), PlaceSide::Base) | (Line::Head(line), PlaceSide::Head) => {
                    text(facts, line)
                }
                _ => None,
            };
            let runs = line.in_loop.and_then(|at| turns.get(at)).copied();
            let spot = self.lines.entry(key).or_default();
            spot.text = quoted.or_else(|| spot.text.take());
            let (pile, size) = match of {
                PlaceSide::Base => (&mut spot.base, &mut self.sizes.0),
                PlaceSide::Head => (&mut spot.head, &mut self.sizes.1),
            };
            *size += size_of(&line.mix);
            pile.add(line, runs.unwrap_or(1.0));
        }
    }

    /// The counts of a warp of head correct the guess of how often loops turn, on average.
    fn scale(&mut self, head: &Side) {
        let guessed: f64 = self.lines.values().map(|it| it.head.runs(&|_| true)).sum();
        let Some(counted) = counts::instructions_per_warp(head) else {
            return;
        };
        let factor = counted / guessed;
        if !factor.is_finite() || factor <= 0.0 {
            return;
        }
        for spot in self.lines.values_mut() {
            spot.base.scale(factor);
            spot.head.scale(factor);
        }
        for pair in &mut self.loops {
            pair.runs *= factor;
        }
    }

    /// Instructions of base and of head.
    pub fn code_size(&self) -> (u32, u32) {
        self.sizes
    }

    pub fn loops(&self) -> &[LoopPair] {
        &self.loops
    }

    /// The growth of instructions of some kinds at head.
    pub fn growth(&self, wanted: &dyn Fn(InstructionKind) -> bool) -> Growth {
        self.growth_of(&|pile| pile.of(wanted))
    }

    /// The growth of a count at head.
    pub fn growth_of(&self, counted: &dyn Fn(&LineBucket) -> Counted) -> Growth {
        self.growth_where(&|base, head| Some((counted(base), counted(head))))
    }

    /// The same of those lines alone that `counted` wants.
    pub fn growth_where(&self, counted: &dyn Fn(&LineBucket, &LineBucket) -> OfBoth) -> Growth {
        let mut total = 0.0;
        let mut lines = Vec::new();
        for (line, spot) in &self.lines {
            let Some((base, head)) = counted(&spot.base, &spot.head) else {
                continue;
            };
            let runs = head.runs - base.runs;
            total += runs;
            let (of, line) = match line {
                Line::Head(line) => (PlaceSide::Head, line),
                Line::Base(line) => (PlaceSide::Base, line),
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

    /// Instructions of one kind, all of base's and all of head's.
    pub fn counts(&self, kind: InstructionKind) -> (u32, u32) {
        let is_kind = |it: InstructionKind| it == kind;
        let spots = self.lines.values();
        spots.fold((0, 0), |(base, head), spot| {
            let (was, is) = (spot.base.of(&is_kind), spot.head.of(&is_kind));
            (base + was.count, head + is.count)
        })
    }

    /// Runs of some kinds on both sides.
    pub fn runs(&self, wanted: &dyn Fn(InstructionKind) -> bool) -> (f64, f64) {
        let spots = self.lines.values();
        spots.fold((0.0, 0.0), |(base, head), spot| {
            (base + spot.base.runs(wanted), head + spot.head.runs(wanted))
        })
    }
}

pub fn size_of(mix: &Mix) -> u32 {
    mix.values().sum()
}

fn text(facts: &CodeFacts, line: &CodeLine) -> Option<String> {
    facts.text.get(&line.file)?.get(&line.number).cloned()
}

/// Lines of base in head.
struct Files<'a> {
    pairs: HashMap<String, Pair>,
    base: &'a CodeFacts,
    head: &'a CodeFacts,
}

impl Files<'_> {
    fn in_head(&self, line: &CodeLine) -> Option<CodeLine> {
        let number = *self.pairs.get(&line.file)?.get(&line.number)?;
        Some(CodeLine {
            number,
            ..line.clone()
        })
    }

    /// Whether the two lines, of base and of head, say something else.
    fn is_edited(&self, base: &CodeLine, head: &CodeLine) -> bool {
        let (was, is) = (text(self.base, base), text(self.head, head));
        was.as_deref().map(code_of) != is.as_deref().map(code_of)
    }

    /// The line of inlined code: the innermost one that was edited, else the innermost one.
    fn key_of_base(&self, place: &CodePlace) -> Line {
        let keys = own_lines_of(place).map(|line| match self.in_head(line) {
            None => (Line::Base(line.clone()), true),
            Some(head) => {
                let is_edited = self.is_edited(line, &head);
                (Line::Head(head), is_edited)
            }
        });
        innermost(keys)
    }

    fn key_of_head(&self, place: &CodePlace) -> Line {
        let keys = own_lines_of(place).map(|line| {
            let pairs = self.pairs.get(&line.file);
            let mut pairs = pairs.into_iter().flatten();
            let was = pairs.find(|(_, head)| **head == line.number);
            let is_edited = was.is_none_or(|(number, _)| {
                let base = CodeLine {
                    number: *number,
                    ..line.clone()
                };
                self.is_edited(&base, line)
            });
            (Line::Head(line.clone()), is_edited)
        });
        innermost(keys)
    }
}

fn innermost(keys: impl Iterator<Item = (Line, bool)>) -> Line {
    let mut first = None;
    for (line, is_edited) in keys {
        if is_edited {
            return line;
        }
        first.get_or_insert(line);
    }
    first.unwrap_or(Line::Unknown)
}

fn own_lines_of(place: &CodePlace) -> impl Iterator<Item = &CodeLine> {
    let chain = std::iter::once(&place.line).chain(&place.inlined_at);
    chain.filter(|line| !is_of_system(&line.file))
}

/// The innermost line that is the user's own.
pub fn own_line(place: &CodePlace) -> Option<&CodeLine> {
    own_lines_of(place).next()
}

/// Lines of base by file, with the number that each has in head.
pub fn pair_files(base: &CodeFacts, head: &CodeFacts) -> HashMap<String, Pair> {
    let lines = |facts: &CodeFacts| {
        let mut files: BTreeMap<String, BTreeMap<u32, Option<String>>> = BTreeMap::new();
        for line in build::code::own_lines(facts) {
            let text = text(facts, line);
            let file = files.entry(line.file.clone()).or_default();
            file.insert(line.number, text);
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

/// Without the comment at its end.
fn code_of(text: &str) -> &str {
    text.split_once("//")
        .map_or(text, |(code, _)| code)
        .trim_end()
}

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
    let same = |a: &Option<String>, b: &Option<String>| {
        a.as_deref().map(code_of) == b.as_deref().map(code_of)
    };
    let at = |i: usize, j: usize| i * width + j;
    let value = |table: &[u32], i: usize, j: usize| table.get(at(i, j)).copied().unwrap_or(0);
    for (i, (_, left)) in a.iter().enumerate().rev() {
        for (j, (_, right)) in b.iter().enumerate().rev() {
            let best = match same(left, right) {
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
            (Some((left, x)), Some((right, y))) if same(x, y) => {
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
    fn matches_lines_across_inserted_ones() {
        let base = lines(&[(3, "a"), (4, "b"), (5, "c"), (9, "d")]);
        let head = lines(&[(3, "a"), (4, "new"), (5, "b"), (6, "c2"), (10, "d")]);
        let pairs = pair_lines(&base, &head);
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable();
        // A line alone between two that are the same was edited.
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
