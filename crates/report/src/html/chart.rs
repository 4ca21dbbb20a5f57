//! Draws the charts of a page. Knows numbers and their labels, and nothing of gates.

use super::svg::{Anchor, Drawing, Ink, SvgPoint, WIDTH};
use maud::{Markup, html};
use std::ops::Range;

const HEIGHT: u32 = 380;
/// The height of a row, in drawings that have rows.
const ROW: u32 = 62;
/// The room for the labels below an axis.
const BELOW: i32 = 40;

/// The greatest number of dots in one chart. Of more samples, evenly spaced ones are drawn.
const MOST_DOTS: usize = 400;

/// The samples of one timing process.
#[derive(Default)]
pub struct Process {
    pub head: Times,
    pub base: Times,
}

/// Samples of one side, in order of measurement.
#[derive(Default)]
pub struct Times {
    pub samples: Vec<f64>,
    pub p50: Option<f64>,
}

/// A value that samples are compared with.
pub struct Level {
    pub value: f64,
    pub ink: Ink,
}

pub struct Samples<'a> {
    pub processes: &'a [Process],
    pub levels: &'a [Level],
    /// The interval of the median, if it is known.
    pub interval: Option<[f64; 2]>,
    /// The number by which labels are divided to get values in their unit.
    pub scale: f64,
}

/// Samples that a drawing does not show.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The number of samples slower than the scale, which are drawn at its upper edge.
    pub above: usize,
    /// Positions in `levels` of those that are too far from the samples.
    pub levels: Vec<usize>,
    /// The ratio of samples to dots: 1 if all samples are drawn.
    pub one_of: usize,
}

/// A change with its interval and its limit. Shares: 0.02 for 2 %.
pub struct ChartChange {
    pub label: String,
    pub change: f64,
    pub interval: [f64; 2],
    pub limit: Option<f64>,
    pub is_bad: bool,
}

pub struct Bar {
    pub label: String,
    pub value: f64,
}

pub fn samples(title: &str, of: &Samples) -> (Markup, LeftOut) {
    let all = || {
        of.processes.iter().flat_map(|process| {
            process
                .head
                .samples
                .iter()
                .chain(&process.base.samples)
                .copied()
        })
    };
    let mut sorted: Vec<f64> = all().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (Some(&low), Some(&most)) = (sorted.first(), sorted.last()) else {
        return (html! {}, LeftOut::default());
    };
    let high = sorted.get(sorted.len() * 98 / 100).copied().unwrap_or(most);
    // If all samples are alike, the span is a thousandth of them.
    let span = (high - low).max(low.abs() / 1000.0);
    let mut range = low..high;
    let mut include = |value: f64| {
        range.start = range.start.min(value);
        range.end = range.end.max(value);
    };
    of.interval.iter().flatten().copied().for_each(&mut include);
    let is_near = |value: f64| value >= low - 1.5 * span && value <= high + 1.5 * span;
    of.levels
        .iter()
        .filter(|level| is_near(level.value))
        .for_each(|level| include(level.value));
    let pad = (range.end - range.start).max(span) * 0.06;
    let range = range.start - pad..range.end + pad;

    let one_of = sorted.len().div_ceil(MOST_DOTS).max(1);
    let far = of
        .levels
        .iter()
        .enumerate()
        .filter(|(_, level)| !is_near(level.value));
    let left_out = LeftOut {
        above: sorted.iter().filter(|value| **value > range.end).count(),
        levels: far.map(|(at, _)| at).collect(),
        one_of,
    };
    let count = of.processes.len();
    let along = 0.5..count as f64 + 0.5;
    let mut plot = Plot::with_scale(HEIGHT, along.clone(), range, of.scale);
    if let Some([low, high]) = of.interval {
        plot.area(Ink::Interval, (along.start, high), (along.end, low));
    }
    for (at, process) in of.processes.iter().enumerate() {
        let centre = at as f64 + 1.0;
        let sides = [
            (&process.base, Ink::Base, centre - 0.40..centre - 0.04),
            (&process.head, Ink::Head, centre + 0.04..centre + 0.40),
        ];
        for (side, ink, mut room) in sides {
            if process.base.samples.is_empty() || process.head.samples.is_empty() {
                room = centre - 0.34..centre + 0.34;
            }
            let step = (room.end - room.start) / side.samples.len().max(1) as f64;
            let drawn = side.samples.iter().enumerate().step_by(one_of);
            for (at, value) in drawn.filter(|(_, value)| value.is_finite()) {
                plot.dot(ink, (room.start + (at as f64 + 0.5) * step, *value));
            }
            if let Some(p50) = side.p50 {
                plot.line(Ink::Median, [(room.start, p50), (room.end, p50)]);
            }
        }
    }
    for level in of.levels.iter().filter(|level| is_near(level.value)) {
        plot.line(
            level.ink,
            [along.start, along.end].map(|x| (x, level.value)),
        );
    }
    (plot.finish(title), left_out)
}

/// Draws a row for each change: its interval, and a mark at its limit.
pub fn changes(title: &str, rows: &[ChartChange]) -> Markup {
    let limits = rows.iter().filter_map(|row| row.limit);
    let (low, high) = rows
        .iter()
        .flat_map(|row| row.interval)
        .chain(limits)
        .chain(rows.iter().map(|row| row.change))
        .filter(|value| value.is_finite())
        .chain([0.0])
        .fold((0.0f64, 0.0f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    let pad = (high - low).max(1e-4) * 0.1;
    let range = low - pad..high + pad;
    let count = rows.len() as f64;
    let digits = digits((range.end - range.start) * 100.0);
    let mut plot = Plot::with_rows(rows.len(), BELOW, range.clone());
    plot.label_below(5, |at| match at * 100.0 {
        zero if zero.abs() < 1e-9 => "0 %".to_owned(),
        share => format!("{share:+.digits$} %"),
    });
    for (at, row) in rows.iter().enumerate() {
        let top = count - at as f64;
        let ink = if row.is_bad { Ink::Bad } else { Ink::Head };
        let (bar, thick) = (top - 0.72, 0.09);
        // The mark must not cross the label.
        let upright = |x| [(x, bar - 0.2), (x, bar + 0.2)];
        plot.line(Ink::Zero, upright(0.0));
        let [from, to] = row.interval;
        plot.area(ink, (from, bar + thick), (to, bar - thick));
        plot.dot(Ink::Median, (row.change, bar));
        if let Some(limit) = row.limit {
            plot.line(Ink::Limit, upright(limit));
        }
        plot.text(&row.label, (range.start, top));
    }
    plot.finish(title)
}

/// Draws a bar for each row, beginning at 0.
pub fn bars(title: &str, rows: &[Bar], text: &dyn Fn(f64) -> String) -> Markup {
    let most = rows.iter().map(|row| row.value).fold(0.0, f64::max);
    let count = rows.len() as f64;
    // A chart needs a bar with a length.
    if most <= 0.0 || !most.is_finite() {
        return html! {};
    }
    let mut plot = Plot::with_rows(rows.len(), 0, 0.0..most);
    let tops = (0..rows.len()).map(|at| count - at as f64);
    // All bars are one element, because no label comes between them.
    for (top, row) in tops.clone().zip(rows) {
        let end = (row.value.max(0.0), top - 0.84);
        plot.area(Ink::Head, (0.0, top - 0.54), end);
    }
    for (top, row) in tops.zip(rows) {
        let label = format!("{}: {}", row.label, text(row.value));
        plot.text(&label, (0.0, top - 0.12));
    }
    plot.finish(title)
}

/// Draws a line through values in their order.
pub fn line(title: &str, values: &[f64]) -> Markup {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (
        finite().fold(f64::INFINITY, f64::min),
        finite().fold(f64::NEG_INFINITY, f64::max),
    );
    if low > high {
        return html! {};
    }
    // Values that are near each other get at least a tenth of their size as the range, or noise would look like cliffs.
    let missing = (high.abs().max(low.abs()) / 10.0 - (high - low)).max(0.0);
    let pad = (high - low) * 0.08 + missing / 2.0;
    let pad = if pad > 0.0 { pad } else { 1.0 };
    let count = values.len();
    let along = 0.5..count as f64 + 0.5;
    let mut plot = Plot::with_scale(HEIGHT - 100, along, low - pad..high + pad, 1.0);
    let points: Vec<_> = values
        .iter()
        .enumerate()
        .filter(|(_, value)| value.is_finite())
        .map(|(at, value)| (at as f64 + 1.0, *value))
        .collect();
    plot.line(Ink::Head, points.clone());
    points
        .into_iter()
        .for_each(|point| plot.dot(Ink::Head, point));
    plot.finish(title)
}

/// A drawing with a coordinate system: values along and up. Points beyond its edges are drawn at the edges.
struct Plot {
    drawing: Drawing,
    height: u32,
    left_top: SvgPoint,
    right_bottom: SvgPoint,
    along: Range<f64>,
    up: Range<f64>,
}

impl Plot {
    /// Makes a plot numbered from 1 along its lower edge, with values divided by `scale` at its left edge.
    fn with_scale(height: u32, along: Range<f64>, up: Range<f64>, scale: f64) -> Self {
        let digits = digits((up.end - up.start).abs() / scale);
        let mut plot = Self {
            drawing: Drawing::default(),
            height,
            left_top: (108, 12),
            right_bottom: (WIDTH as i32 - 13, height as i32 - 1 - BELOW),
            along,
            up,
        };
        let ((left, top), (right, bottom)) = (plot.left_top, plot.right_bottom);
        for value in ticks(&plot.up, 5) {
            let (_, y) = plot.at((0.0, value));
            plot.drawing.line(Ink::Grid, [(left, y), (right, y)]);
            plot.drawing.line(Ink::Axis, [(left - 6, y), (left - 1, y)]);
            let label = format!("{:.digits$}", value / scale);
            plot.drawing.text(&label, (left - 10, y), Anchor::Right);
        }
        plot.drawing
            .line(Ink::Axis, [(left - 1, top), (left - 1, bottom)]);
        let count = (plot.along.end - plot.along.start) as usize;
        plot.label_below(count.min(10), |at| {
            if at.fract() == 0.0 {
                format!("{at}")
            } else {
                String::new()
            }
        });
        plot
    }

    /// Makes a plot with rows of equal height, counted from the lowest up, and this much room below them.
    fn with_rows(count: usize, below: i32, along: Range<f64>) -> Self {
        let height = ROW * count as u32 + 8 + below as u32 * 6 / 5;
        Self {
            drawing: Drawing::default(),
            height,
            left_top: (4, 4),
            right_bottom: (WIDTH as i32 - 5, height as i32 - 4 - below),
            along,
            up: 0.0..count as f64,
        }
    }

    fn label_below(&mut self, most: usize, label: impl Fn(f64) -> String) {
        let (left, right, y) = (
            self.left_top.0,
            self.right_bottom.0,
            self.right_bottom.1 + 1,
        );
        self.drawing.line(Ink::Axis, [(left, y), (right, y)]);
        for value in ticks(&self.along, most) {
            let (x, _) = self.at((value, 0.0));
            self.drawing.line(Ink::Axis, [(x, y), (x, y + 5)]);
            self.drawing
                .text(&label(value), (x, y + 10), Anchor::TopMiddle);
        }
    }

    fn at(&self, (x, y): (f64, f64)) -> SvgPoint {
        let share = |value: f64, of: &Range<f64>| {
            let share = (value - of.start) / (of.end - of.start);
            share.clamp(0.0, 1.0)
        };
        let ((left, top), (right, bottom)) = (self.left_top, self.right_bottom);
        let right = f64::from(right - left) * share(x, &self.along);
        let down = f64::from(bottom - top) * (1.0 - share(y, &self.up));
        (left + right.round() as i32, top + down.round() as i32)
    }

    fn line(&mut self, ink: Ink, path: impl IntoIterator<Item = (f64, f64)>) {
        let path: Vec<_> = path.into_iter().map(|point| self.at(point)).collect();
        self.drawing.line(ink, path);
    }

    fn area(&mut self, ink: Ink, from: (f64, f64), to: (f64, f64)) {
        let (from, to) = (self.at(from), self.at(to));
        self.drawing.area(ink, from, to);
    }

    fn dot(&mut self, ink: Ink, point: (f64, f64)) {
        let place = self.at(point);
        self.drawing.dot(ink, place);
    }

    fn text(&mut self, text: &str, point: (f64, f64)) {
        let place = self.at(point);
        self.drawing.text(text, place, Anchor::TopLeft);
    }

    fn finish(self, title: &str) -> Markup {
        self.drawing.finish(title, self.height)
    }
}

/// Returns round numbers in a range, at most one more than `most`.
fn ticks(range: &Range<f64>, most: usize) -> Vec<f64> {
    let least = (range.end - range.start) / most.max(1) as f64;
    let decade = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    // A range without length has no ticks.
    let Some(step) = steps
        .into_iter()
        .find(|step| *step > 0.0 && *step >= least * 0.999_999)
    else {
        return Vec::new();
    };
    let first = (range.start / step).ceil() as i64;
    let count = (range.end / step).floor() - first as f64;
    let places = (0..=most).take_while(|at| *at as f64 <= count);
    places.map(|at| (first + at as i64) as f64 * step).collect()
}

/// Returns the number of digits with which two neighbouring labels differ.
fn digits(span: f64) -> usize {
    match span.log10().floor() {
        // The span is zero or no number.
        magnitude if !magnitude.is_finite() => 0,
        magnitude => (1.0 - magnitude).clamp(0.0, 9.0) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_within_their_range() {
        assert_eq!(ticks(&(79.66..84.5), 5), [80.0, 81.0, 82.0, 83.0, 84.0]);
        assert_eq!(ticks(&(0.5..10.5), 10).len(), 10);
        assert_eq!(
            ticks(&(0.5..37.5), 10),
            [5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0]
        );
        assert_eq!(ticks(&(-0.3..0.3), 5), [-0.2, 0.0, 0.2]);
        assert_eq!(ticks(&(3.0..3.0), 5), [0.0; 0]);
        assert_eq!(ticks(&(0.0..f64::NAN), 5), [0.0; 0]);
    }

    #[test]
    fn draws_points_beyond_an_edge_at_the_edge() {
        let plot = Plot::with_scale(380, 0.0..1.0, 0.0..10.0, 1.0);
        assert_eq!(plot.at((0.0, 0.0)), (108, 339));
        assert_eq!(plot.at((2.0, 20.0)), (707, 12));
        assert_eq!(plot.at((f64::INFINITY, f64::NEG_INFINITY)), (707, 339));
    }
}
