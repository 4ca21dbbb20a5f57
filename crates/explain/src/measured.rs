//! Defines what was measured of a change that was taken apart: its pieces, and what each of them costs.

use super::{Cause, CauseClass, CausePlace, PlaceSide};
use model::{Metric, Num};
use serde::Serialize;
use std::path::Path;

/// The smallest piece of a change that can be made without the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangePiece {
    Lines(ChangedLines),
    /// Macros that the compiler's command line defines.
    Definitions,
    /// The flags that the compiler is called with.
    Flags,
    /// Directories in which the compiler looks for headers.
    IncludeDirs,
    /// The functions that the launches call, and their source.
    Entries,
    /// The grid, the blocks and the arguments of the launches.
    Launch,
    /// The tensors of the case, with their sizes.
    Data,
    Compiler,
}

/// Lines of a file that differ between base and head, with nothing but these between two lines that are the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedLines {
    /// The path from the top of the tree.
    pub file: String,
    pub base: LineRange,
    pub head: LineRange,
    /// The first line of code, as head has it, or the base if head has none. Empty if there is no code.
    pub text: String,
}

impl ChangedLines {
    /// Returns true if a place is one of these lines. Its file can be relative to a directory below the top.
    fn contain(&self, place: &CausePlace) -> bool {
        let range = match place.of {
            PlaceSide::Head => self.head,
            PlaceSide::Base => self.base,
        };
        let lines = range.first..range.first + range.count;
        Path::new(&self.file).ends_with(&place.line.file)
            && lines.contains(&(place.line.number as usize))
    }
}

/// A range of consecutive lines in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LineRange {
    /// The number of the first line, from 1. Where there are no lines, the number of the line that follows.
    pub first: usize,
    pub count: usize,
}

/// A change, taken apart and measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredChange {
    /// The metrics that differ between base and head. The shares are those of the first one.
    pub metrics: Vec<MeasuredMetric>,
    /// The parts of the change, the largest share first.
    pub parts: Vec<MeasuredPart>,
    /// Pairs of parts that cost more or less together than each of them alone.
    pub pairs: Vec<MeasuredPair>,
}

/// A metric of the whole change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeasuredMetric {
    pub metric: Metric,
    pub base: Num,
    pub head: Num,
}

/// A part of a change. It has several pieces if these do not build, or are wrong, without each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredPart {
    pub pieces: Vec<ChangePiece>,
    /// The effects, in the order of the metrics.
    pub effects: Vec<PartEffect>,
}

/// The effect of one part on one metric, measured in two surroundings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PartEffect {
    /// The change of the metric when the part is added to the base.
    pub added_to_base: Num,
    /// The change of the metric when the part is added to head without it.
    pub taken_from_head: Num,
    /// The standard error of both, which is 0 for a count.
    pub error: Num,
}

/// Two parts, and what they add to the base together beyond what each adds alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredPair {
    /// The numbers of the parts, from 1, in the order of the parts.
    pub parts: [usize; 2],
    /// One value for each metric of the change, in their order.
    pub extra: Vec<Num>,
}

impl PartEffect {
    /// Returns the effect in the middle between the two surroundings. For parts that interact in pairs at most, these
    /// add up to the whole change: each pair's extra is divided equally (the Shapley value).
    pub fn middle(self) -> f64 {
        f64::midpoint(self.added_to_base.0, self.taken_from_head.0)
    }
}

impl MeasuredChange {
    /// Returns the share of a part in the change of the first metric. Returns `None` if that did not change.
    pub fn share(&self, part: &MeasuredPart) -> Option<f64> {
        let (whole, effect) = (self.metrics.first()?, part.effects.first()?);
        let change = whole.head.0 - whole.base.0;
        let share = effect.middle() / change;
        share.is_finite().then_some(share)
    }

    /// Returns the parts that a cause belongs to, with their numbers from 1. A cause at lines of code belongs to the parts
    /// that edit one of them. An edit can have its effect elsewhere, so a cause at other lines belongs to no part, unless
    /// there is only one.
    pub fn parts_of(&self, cause: &Cause) -> Vec<(usize, &MeasuredPart)> {
        // Both are those of the machine, which is the same one for all parts.
        if matches!(cause.class, CauseClass::Driver | CauseClass::Clocks) {
            return Vec::new();
        }
        let is_of = |piece: &ChangePiece| match piece {
            ChangePiece::Lines(lines) => cause.places.iter().any(|place| lines.contain(place)),
            ChangePiece::Launch => cause.class == CauseClass::Launch,
            ChangePiece::Data => cause.class == CauseClass::Data,
            ChangePiece::Compiler => cause.class == CauseClass::Compiler,
            ChangePiece::Definitions
            | ChangePiece::Flags
            | ChangePiece::IncludeDirs
            | ChangePiece::Entries => false,
        };
        let is_only = self.parts.len() == 1;
        let parts = (1..).zip(&self.parts);
        parts
            .filter(|(_, part)| is_only || part.pieces.iter().any(is_of))
            .collect()
    }

    /// Returns what is left of the change of the first metric after all parts.
    pub fn rest(&self) -> Option<f64> {
        let whole = self.metrics.first()?;
        let parts: f64 = self
            .parts
            .iter()
            .filter_map(|part| part.effects.first())
            .map(|effect| effect.middle())
            .sum();
        Some(whole.head.0 - whole.base.0 - parts)
    }
}
