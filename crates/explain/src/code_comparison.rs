//! Compares the machine code of two sides, line by line and loop by loop.

use super::cause::{CausePlace, PlaceSide};
use super::compiled::Compiled;
use super::counts;
use super::lines::{Pair, code_of, own_lines_of, pair_files, text};
use super::loops::{self, LoopPair, size_of};
use super::side::Sides;
use model::{CodeFacts, CodeLine, CodePlace, Counter, EntryCode, InstructionKind, LineCode};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The assumed number of instructions of code that nobody looked at, because it is the same on both sides, and that
/// nobody counted.
const SOME_INSTRUCTIONS: f64 = 1000.0;

/// A kernel as it was compiled on both sides.
#[derive(Debug)]
pub struct CodeComparison<'a> {
    pub base: Compiled<'a>,
    pub head: Compiled<'a>,
    lines: BTreeMap<Line, LineSides>,
    loops: Vec<LoopPair>,
    sizes: (u32, u32),
    /// Instructions that a launch executes on both sides.
    executed: Option<counts::CountPair>,
    /// Loads of warps from global memory on both sides.
    loads: Option<counts::CountPair>,
    per_warp: Option<f64>,
}

/// A line of head, or a line of the base that head does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Head(CodeLine),
    Base(CodeLine),
    /// The line of the code is unknown.
    Unknown,
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
    kinds: BTreeMap<InstructionKind, InstructionCount>,
    predicated: InstructionCount,
    /// Instructions between loads and their first uses, added up.
    ahead: InstructionCount,
    calls: BTreeMap<String, InstructionCount>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct InstructionCount {
    pub count: u32,
    /// An estimate of how many of them a warp executes, from a guess of how often loops repeat.
    pub runs: f64,
}

impl InstructionCount {
    fn add(&mut self, count: u32, runs: f64) {
        self.count += count;
        self.runs += f64::from(count) * runs;
    }
}

impl LineBucket {
    /// Sums up the instructions of the wanted kinds, and how often they run.
    pub fn count_kinds(&self, wanted: &dyn Fn(InstructionKind) -> bool) -> InstructionCount {
        self.kinds.iter().filter(|(kind, _)| wanted(**kind)).fold(
            InstructionCount::default(),
            |sum, (_, entry)| InstructionCount {
                count: sum.count + entry.count,
                runs: sum.runs + entry.runs,
            },
        )
    }

    pub fn runs(&self, wanted: &dyn Fn(InstructionKind) -> bool) -> f64 {
        self.count_kinds(wanted).runs
    }

    /// Returns the memory accesses under a predicate.
    pub fn predicated(&self) -> InstructionCount {
        self.predicated
    }

    /// Returns the memory accesses without a predicate.
    pub fn unconditional(&self) -> InstructionCount {
        let all = self.count_kinds(&|kind| kind.width().is_some());
        InstructionCount {
            count: all.count.saturating_sub(self.predicated.count),
            runs: all.runs - self.predicated.runs,
        }
    }

    /// Returns the functions that are called, by name, with the number of calls and how often they run.
    pub fn calls(&self) -> impl Iterator<Item = (&str, InstructionCount)> {
        self.calls
            .iter()
            .map(|(name, counts)| (name.as_str(), *counts))
    }

    /// Returns the mean number of instructions between a load or copy of this line and its first use.
    fn distance_to_use(&self) -> f64 {
        let loads = self.runs(&|kind| {
            matches!(
                kind,
                InstructionKind::GlobalLoad(_)
                    | InstructionKind::ReadOnlyLoad(_)
                    | InstructionKind::AsyncCopy
            )
        });
        if loads > 0.0 {
            self.ahead.runs / loads
        } else {
            0.0
        }
    }

    fn add(&mut self, line: &LineCode, runs: f64) {
        for (kind, count) in &line.mix {
            self.kinds.entry(*kind).or_default().add(*count, runs);
        }
        self.predicated.add(line.predicated, runs);
        self.ahead.add(line.ahead.unwrap_or(0), runs);
        for (name, count) in &line.calls {
            self.calls
                .entry(name.clone())
                .or_default()
                .add(*count, runs);
        }
    }

    fn scale(&mut self, factor: f64) {
        let kinds = self.kinds.values_mut().chain(self.calls.values_mut());
        for counted in kinds.chain([&mut self.predicated, &mut self.ahead]) {
            counted.runs *= factor;
        }
    }
}

/// The counts of base and head, or `None` for a line that does not count.
pub type OfBoth = Option<(InstructionCount, InstructionCount)>;

/// The instructions of some kinds that head has in addition to the base's.
#[derive(Debug)]
pub struct Growth {
    /// The lines that have more of them than before, the largest growth first.
    pub lines: Vec<LineGrowth>,
    /// The growth of executed instructions, by the guess of how often a warp runs them. Decreases on other lines are
    /// included.
    pub total: f64,
    /// Instructions of all lines on both sides.
    counts: (u32, u32),
    has_lines: bool,
}

/// How many instructions are between loads and their first uses on both sides.
#[derive(Debug)]
pub struct Distance {
    pub base: f64,
    pub head: f64,
    pub places: Vec<CausePlace>,
}

#[derive(Debug)]
pub struct LineGrowth {
    pub place: CausePlace,
    pub base_count: u32,
    pub head_count: u32,
    pub runs: f64,
}

/// The number of places that a cause names.
const PLACES: usize = 3;

impl Growth {
    /// Returns the first lines with growth, as places to show.
    pub fn places(&self) -> impl Iterator<Item = CausePlace> {
        self.lines
            .iter()
            .take(PLACES)
            .map(|line| line.place.clone())
    }

    /// Returns true if there is growth, at a known line if lines are known.
    pub fn is_more(&self) -> bool {
        self.total > 0.0 && !(self.has_lines && self.lines.is_empty())
    }

    /// Returns the instructions of the line with the largest growth. Without line tables, returns the kernel's
    /// instructions.
    pub fn first_counts(&self) -> (u32, u32) {
        let first = self.lines.first();
        first.map_or(self.counts, |entry| (entry.base_count, entry.head_count))
    }

    /// Returns all counted instructions, on any line.
    pub fn counts(&self) -> (u32, u32) {
        self.counts
    }
}

impl<'a> CodeComparison<'a> {
    /// Compares without any counters, because nobody ran the kernel.
    pub fn new(base: Compiled<'a>, head: Compiled<'a>) -> Self {
        let (of_base, of_head) = (base.code, head.code);
        let mut found = Self {
            base,
            head,
            lines: BTreeMap::new(),
            loops: Vec::new(),
            sizes: (0, 0),
            executed: None,
            loads: None,
            per_warp: None,
        };
        if let (Some(base), Some(head)) = (of_base, of_head) {
            found.compare(base, head);
        }
        found
    }

    pub fn from_sides(sides: &Sides<'a>) -> Self {
        let mut found = Self::new(sides.base.compiled(), sides.head.compiled());
        found.executed = counts::counted(sides, Counter::Instructions);
        found.loads = counts::counted(sides, Counter::GlobalLoadRequests);
        found.per_warp = counts::instructions_per_warp(&sides.head);
        found.scale();
        found
    }

    fn compare(&mut self, base: &CodeFacts, head: &CodeFacts) {
        let files = Files {
            pairs: pair_files(base, head),
            base,
            head,
        };
        let in_head = |line: &CodeLine| files.in_head(line);
        // The line table of one side says nothing about where the other side's code comes from.
        let has_lines = has_lines(base) && has_lines(head);
        for (base_entry, head_entry) in base.entries.iter().zip(&head.entries) {
            let turns = if has_lines {
                loops::pair_by_line(base_entry, head_entry, &in_head)
            } else {
                loops::pair_by_work(base_entry, head_entry)
            };
            let key = |place: &CodePlace, of: PlaceSide| match (has_lines, of) {
                (false, _) => Line::Unknown,
                (true, PlaceSide::Base) => files.key_of_base(place),
                (true, PlaceSide::Head) => files.key_of_head(place),
            };
            self.fill_buckets(base_entry, PlaceSide::Base, base, &turns.base, &key);
            self.fill_buckets(head_entry, PlaceSide::Head, head, &turns.head, &key);
            let quoted = turns.pairs.into_iter().map(|(pair, line)| LoopPair {
                place: line.map(|line| CausePlace {
                    of: PlaceSide::Head,
                    text: text(head, &line),
                    line,
                }),
                ..pair
            });
            self.loops.extend(quoted);
        }
    }

    fn fill_buckets(
        &mut self,
        entry: &EntryCode,
        of: PlaceSide,
        facts: &CodeFacts,
        turns: &[f64],
        key: &dyn Fn(&CodePlace, PlaceSide) -> Line,
    ) {
        for line in &entry.lines {
            let place = line.place.as_ref();
            let key = place.map_or(Line::Unknown, |place| key(place, of));
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

    /// Corrects the guess of how often loops repeat, on average, by the counted instructions of a warp of head.
    fn scale(&mut self) {
        let guessed: f64 = self
            .lines
            .values()
            .map(|line| line.head.runs(&|_| true))
            .sum();
        let Some(counted) = self.per_warp else {
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

    /// Returns the instructions of a warp of head: those that it executes, or else those that the code has.
    pub fn warp_length(&self) -> f64 {
        let guess = match self.sizes.1 {
            0 => SOME_INSTRUCTIONS,
            size => f64::from(size),
        };
        self.per_warp.unwrap_or(guess)
    }

    /// Returns the instructions of a launch, or `None` if a side was not counted.
    pub fn executed(&self) -> Option<counts::CountPair> {
        self.executed
    }

    /// Returns true unless counters say that a launch loads no more from global memory than before.
    pub fn may_load_more(&self) -> bool {
        self.loads.is_none_or(|loads| loads.growth() > 0.0)
    }

    /// Returns true if both sides are the same machine code.
    pub fn is_same(&self) -> bool {
        match (self.base.build, self.head.build) {
            (Some(base), Some(head)) => base.identity == head.identity,
            // This is code before device code is linked.
            (None, None) => self.base.code == self.head.code,
            _ => false,
        }
    }

    /// Returns true if no line with code was edited. What differs then comes from constants, flags or pragmas.
    pub fn is_unedited(&self) -> bool {
        let [base, head] = [&self.base, &self.head].map(|side| side.code.and_then(texts));
        self.is_same() || base.is_some() && base == head
    }

    /// Returns the number of instructions in the code of base and head.
    pub fn code_size(&self) -> (u32, u32) {
        self.sizes
    }

    pub fn loops(&self) -> &[LoopPair] {
        &self.loops
    }

    /// Returns the growth of instructions of some kinds.
    pub fn growth(&self, wanted: &dyn Fn(InstructionKind) -> bool) -> Growth {
        self.growth_of(&|pile| pile.count_kinds(wanted))
    }

    /// Returns the growth of a count.
    pub fn growth_of(&self, counted: &dyn Fn(&LineBucket) -> InstructionCount) -> Growth {
        self.growth_where(&|base, head| Some((counted(base), counted(head))))
    }

    /// Returns the growth over those lines for which `counted` returns counts.
    pub fn growth_where(&self, counted: &dyn Fn(&LineBucket, &LineBucket) -> OfBoth) -> Growth {
        let mut total = 0.0;
        let mut counts = (0, 0);
        let mut lines = Vec::new();
        for (line, spot) in &self.lines {
            let Some((base, head)) = counted(&spot.base, &spot.head) else {
                continue;
            };
            let runs = head.runs - base.runs;
            total += runs;
            counts = (counts.0 + base.count, counts.1 + head.count);
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
        Growth {
            lines,
            total,
            counts,
            has_lines: self.lines.keys().any(|line| *line != Line::Unknown),
        }
    }

    /// Returns the mean number of instructions that a warp issues between a load or copy of these kinds and its first
    /// use, on both sides, with the lines of head where fewer are. Returns `None` if it is not known.
    pub fn distance_to_use(&self, wanted: &dyn Fn(InstructionKind) -> bool) -> Option<Distance> {
        let mean = |side: fn(&LineSides) -> &LineBucket| {
            let buckets = self.lines.values().map(side);
            let (distance, loads) = buckets.fold((0.0, 0.0), |(distance, loads), bucket| {
                let runs = bucket.runs(wanted);
                (distance + runs * bucket.distance_to_use(), loads + runs)
            });
            (distance > 0.0).then_some(distance / loads)
        };
        let (base, head) = (mean(|sides| &sides.base)?, mean(|sides| &sides.head)?);
        let is_near = |bucket: &LineBucket| bucket.distance_to_use() < f64::midpoint(base, head);
        let mut near: Vec<(f64, CausePlace)> = self
            .lines
            .iter()
            .filter(|(_, sides)| sides.head.runs(wanted) > 0.0 && is_near(&sides.head))
            .filter_map(|(line, sides)| match line {
                Line::Head(line) => Some((sides.head.runs(wanted), at_head(line, sides))),
                Line::Base(_) | Line::Unknown => None,
            })
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        let places = near.into_iter().map(|(_, place)| place);
        Some(Distance {
            base,
            head,
            places: places.take(PLACES).collect(),
        })
    }

    /// Returns all instructions of one kind, at the base and at head.
    pub fn counts(&self, kind: InstructionKind) -> (u32, u32) {
        let is_kind = |other: InstructionKind| other == kind;
        self.lines.values().fold((0, 0), |(base, head), spot| {
            let [was, is] = [&spot.base, &spot.head].map(|bucket| bucket.count_kinds(&is_kind));
            (base + was.count, head + is.count)
        })
    }

    /// Returns how many instructions of some kinds a warp executes on both sides.
    pub fn runs(&self, wanted: &dyn Fn(InstructionKind) -> bool) -> (f64, f64) {
        self.lines.values().fold((0.0, 0.0), |(base, head), spot| {
            (base + spot.base.runs(wanted), head + spot.head.runs(wanted))
        })
    }
}

fn at_head(line: &CodeLine, sides: &LineSides) -> CausePlace {
    CausePlace {
        of: PlaceSide::Head,
        line: line.clone(),
        text: sides.text.clone(),
    }
}

fn has_lines(facts: &CodeFacts) -> bool {
    facts
        .entries
        .iter()
        .flat_map(|entry| &entry.lines)
        .any(|line| line.place.is_some())
}

/// Returns the lines of the source that have code, in their order, or `None` if one of them could not be read.
fn texts(facts: &CodeFacts) -> Option<Vec<(&str, String)>> {
    let lines: BTreeSet<&CodeLine> = build::code::own_lines(facts).collect();
    lines
        .into_iter()
        .map(|line| Some((line.file.as_str(), code_of(&text(facts, line)?).to_owned())))
        .collect::<Option<Vec<_>>>()
        .filter(|lines| !lines.is_empty())
}

/// Maps lines of the base to lines of head.
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

    /// Returns true if the text of two lines, of base and head, differs.
    fn is_edited(&self, base: &CodeLine, head: &CodeLine) -> bool {
        let (was, is) = (text(self.base, base), text(self.head, head));
        was.as_deref().map(code_of) != is.as_deref().map(code_of)
    }

    /// Returns the line that represents inlined code: the innermost one that was edited, or else the innermost one.
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
            let is_edited = pairs
                .into_iter()
                .flatten()
                .find(|(_, head)| **head == line.number)
                .is_none_or(|(number, _)| {
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
