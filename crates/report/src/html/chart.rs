//! The drawings of a page. Laid out by plotters; knows numbers and their labels, and nothing of gates.

use super::svg::{Ink, Svg};
use maud::{Markup, PreEscaped, html};
use plotters::chart::{ChartBuilder, ChartContext, LabelAreaPosition};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::{Color, IntoFont, ShapeStyle, TextStyle};
use std::convert::Infallible;
use std::ops::Range;

/// Units of a drawing. On a phone two of them are one pixel of CSS.
const WIDTH: u32 = 720;
const HEIGHT: u32 = 380;
/// For each row of a drawing that has rows.
const ROW: u32 = 62;
/// Of labels: the style says how large they are, and this how much room they are given.
const FONT: i32 = 22;

/// What is drawn of one chart at most; of more, evenly spaced ones.
const MOST_DOTS: usize = 1500;

type Broken = DrawingAreaErrorKind<Infallible>;
type Area<'a> = DrawingArea<Svg<'a>, Shift>;
type Plot<'a, 'b> = ChartContext<'a, Svg<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// One timing process.
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

/// What samples are held against.
pub struct Level {
    pub value: f64,
    pub ink: Ink,
}

pub struct Samples<'a> {
    pub processes: &'a [Process],
    pub levels: &'a [Level],
    /// Where the median is, by its interval.
    pub interval: Option<[f64; 2]>,
    /// What to divide by for the labels.
    pub scale: f64,
}

/// What a drawing of samples does not show.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Slower than the scale goes: they are at its upper edge.
    pub above: usize,
    /// Places in `levels` of those that are too far from the samples.
    pub levels: Vec<usize>,
    /// One of so many samples is drawn; 1 where all are.
    pub one_of: usize,
}

/// A change with its interval, beside the limit on it. Shares: 0.02 for 2 %.
pub struct Change {
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
        let processes = of.processes.iter();
        processes.flat_map(|it| it.head.samples.iter().chain(&it.base.samples).copied())
    };
    let mut sorted: Vec<f64> = all().filter(|it| it.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (Some(&low), Some(&most)) = (sorted.first(), sorted.last()) else {
        return (html! {}, LeftOut::default());
    };
    let high = sorted.get(sorted.len() * 98 / 100).copied().unwrap_or(most);
    // Of samples that are all alike, a thousandth of them.
    let span = (high - low).max(low.abs() / 1000.0);
    let mut range = low..high;
    let mut include = |value: f64| {
        range.start = range.start.min(value);
        range.end = range.end.max(value);
    };
    of.interval.iter().flatten().copied().for_each(&mut include);
    let is_near = |value: f64| value >= low - 1.5 * span && value <= high + 1.5 * span;
    let near = of.levels.iter().filter(|it| is_near(it.value));
    near.for_each(|it| include(it.value));
    let pad = (range.end - range.start).max(span) * 0.06;
    let range = range.start - pad..range.end + pad;

    let one_of = sorted.len().div_ceil(MOST_DOTS).max(1);
    let far = of.levels.iter().enumerate();
    let far = far.filter(|(_, it)| !is_near(it.value));
    let left_out = LeftOut {
        above: sorted.iter().filter(|it| **it > range.end).count(),
        levels: far.map(|(at, _)| at).collect(),
        one_of,
    };
    let count = of.processes.len();
    let drawn = draw(title, HEIGHT, |area| {
        let along = 0.5..count as f64 + 0.5;
        let mut plot = plot(area, along.clone(), range.clone())?;
        let whole = |at: &f64| match at.fract() == 0.0 {
            true => format!("{at}"),
            false => String::new(),
        };
        mesh(&mut plot, count.min(10), &whole, of.scale)?;
        if let Some([low, high]) = of.interval {
            let corners = [(along.start, high), (along.end, low)];
            let area = Rectangle::new(corners, Ink::Interval.color().filled());
            plot.draw_series([area])?;
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
                let dots = side.samples.iter().enumerate().step_by(one_of);
                let dots = dots
                    .filter(|(_, value)| value.is_finite())
                    .map(|(at, value)| {
                        let x = room.start + (at as f64 + 0.5) * step;
                        Circle::new((x, value.min(range.end)), 3, ink.color().filled())
                    });
                plot.draw_series(dots)?;
                if let Some(p50) = side.p50 {
                    let ends = vec![(room.start, p50), (room.end, p50)];
                    plot.draw_series([PathElement::new(ends, stroke(Ink::Median))])?;
                }
            }
        }
        let near = of.levels.iter().filter(|it| is_near(it.value));
        let lines = near.map(|it| {
            let ends = vec![(along.start, it.value), (along.end, it.value)];
            PathElement::new(ends, stroke(it.ink))
        });
        plot.draw_series(lines)?;
        Ok(())
    });
    (drawn, left_out)
}

/// One row for each: its interval, and a mark where its limit is.
pub fn changes(title: &str, rows: &[Change]) -> Markup {
    let limits = rows.iter().filter_map(|row| row.limit);
    let ends = rows.iter().flat_map(|row| row.interval);
    let all = ends.chain(limits).chain(rows.iter().map(|row| row.change));
    let all = all.filter(|value| value.is_finite()).chain([0.0]);
    let (low, high) = all.fold((0.0f64, 0.0f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let pad = (high - low).max(1e-4) * 0.1;
    let range = low - pad..high + pad;
    let count = rows.len() as f64;
    draw(title, ROW * rows.len() as u32 + 56, |area| {
        let mut plot = rows_of(area, range.clone(), count)?;
        let digits = digits((range.end - range.start) * 100.0);
        let percent = |at: &f64| match at * 100.0 {
            zero if zero.abs() < 1e-9 => "0 %".to_owned(),
            share => format!("{share:+.digits$} %"),
        };
        let mut mesh = plot.configure_mesh();
        mesh.x_labels(5).disable_mesh().disable_y_axis();
        mesh.x_label_formatter(&percent);
        mesh.axis_style(stroke(Ink::Axis)).label_style(label());
        mesh.draw()?;
        for (at, row) in rows.iter().enumerate() {
            let top = count - at as f64;
            let ink = match row.is_bad {
                true => Ink::Bad,
                false => Ink::Head,
            };
            let (bar, thick) = (top - 0.72, 0.09);
            // Not through the label.
            let zero = vec![(0.0, bar - 0.2), (0.0, bar + 0.2)];
            plot.draw_series([PathElement::new(zero, stroke(Ink::Zero))])?;
            let [from, to] = row.interval.map(|end| end.clamp(range.start, range.end));
            let interval = [(from, bar + thick), (to, bar - thick)];
            plot.draw_series([Rectangle::new(interval, ink.color().filled())])?;
            let dot = Circle::new((row.change, bar), 5, Ink::Median.color().filled());
            plot.draw_series([dot])?;
            if let Some(limit) = row.limit {
                let ends = vec![(limit, bar - 0.2), (limit, bar + 0.2)];
                plot.draw_series([PathElement::new(ends, stroke(Ink::Limit))])?;
            }
            write(&plot, &row.label, (range.start, top))?;
        }
        Ok(())
    })
}

/// One row for each, from 0.
pub fn bars(title: &str, rows: &[Bar], text: &dyn Fn(f64) -> String) -> Markup {
    let most = rows.iter().map(|row| row.value).fold(0.0, f64::max);
    let count = rows.len() as f64;
    // What has no length is no chart.
    if most <= 0.0 || !most.is_finite() {
        return html! {};
    }
    draw(title, ROW * rows.len() as u32 + 8, |area| {
        let plot = rows_of(area, 0.0..most, count);
        let mut plot = plot?;
        for (at, row) in rows.iter().enumerate() {
            let top = count - at as f64;
            let corners = [(0.0, top - 0.54), (row.value.max(0.0), top - 0.84)];
            plot.draw_series([Rectangle::new(corners, Ink::Head.color().filled())])?;
            write(
                &plot,
                &format!("{}: {}", row.label, text(row.value)),
                (0.0, top - 0.12),
            )?;
        }
        Ok(())
    })
}

/// Values in their order.
pub fn line(title: &str, values: &[f64]) -> Markup {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (
        finite().fold(f64::INFINITY, f64::min),
        finite().fold(f64::NEG_INFINITY, f64::max),
    );
    if low > high {
        return html! {};
    }
    // Of values that are near each other a tenth of them, or noise would look like cliffs.
    let missing = (high.abs().max(low.abs()) / 10.0 - (high - low)).max(0.0);
    let pad = (high - low) * 0.08 + missing / 2.0;
    let pad = if pad > 0.0 { pad } else { 1.0 };
    let count = values.len();
    draw(title, HEIGHT - 100, |area| {
        let along = 0.5..count as f64 + 0.5;
        let mut plot = plot(area, along, low - pad..high + pad)?;
        let whole = |at: &f64| match at.fract() == 0.0 {
            true => format!("{at}"),
            false => String::new(),
        };
        mesh(&mut plot, count.min(10), &whole, 1.0)?;
        let points = values.iter().enumerate();
        let points = points.filter(|(_, value)| value.is_finite());
        let points: Vec<_> = points
            .map(|(at, value)| (at as f64 + 1.0, *value))
            .collect();
        let path = PathElement::new(points.clone(), stroke(Ink::Head));
        plot.draw_series([path])?;
        let dots = points.into_iter();
        let dots = dots.map(|point| Circle::new(point, 5, Ink::Head.color().filled()));
        plot.draw_series(dots)?;
        Ok(())
    })
}

fn draw(title: &str, height: u32, on: impl FnOnce(&Area) -> Result<(), Broken>) -> Markup {
    let mut inside = String::new();
    let area = Svg::new(&mut inside, (WIDTH, height)).into_drawing_area();
    let drawn = on(&area).and_then(|()| area.present());
    drop(area);
    match drawn {
        Ok(()) => html! {
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(title) {
                (PreEscaped(inside))
            }
        },
        Err(error) => html! { p { "This chart cannot be drawn: " (error) } },
    }
}

fn plot<'a, 'b>(
    area: &'a Area<'b>,
    along: Range<f64>,
    up: Range<f64>,
) -> Result<Plot<'a, 'b>, Broken> {
    ChartBuilder::on(area)
        .margin_top(12)
        .margin_right(12)
        .set_label_area_size(LabelAreaPosition::Left, 108)
        .set_label_area_size(LabelAreaPosition::Bottom, 40)
        .build_cartesian_2d(along, up)
}

fn rows_of<'a, 'b>(
    area: &'a Area<'b>,
    along: Range<f64>,
    count: f64,
) -> Result<Plot<'a, 'b>, Broken> {
    ChartBuilder::on(area)
        .margin(4)
        .set_label_area_size(
            LabelAreaPosition::Bottom,
            match along.start < 0.0 {
                true => 40,
                false => 0,
            },
        )
        .build_cartesian_2d(along, 0.0..count)
}

fn mesh(
    plot: &mut Plot,
    along: usize,
    name: &dyn Fn(&f64) -> String,
    scale: f64,
) -> Result<(), Broken> {
    let up = plot.as_coord_spec().get_y_range();
    let digits = digits((up.end - up.start).abs() / scale);
    let value = |at: &f64| format!("{:.digits$}", at / scale);
    let mut mesh = plot.configure_mesh();
    mesh.x_labels(along).y_labels(5).disable_x_mesh();
    mesh.x_label_formatter(name).y_label_formatter(&value);
    mesh.axis_style(stroke(Ink::Axis)).label_style(label());
    mesh.bold_line_style(stroke(Ink::Grid)).max_light_lines(0);
    mesh.draw()
}

fn write(plot: &Plot, text: &str, at: (f64, f64)) -> Result<(), Broken> {
    plot.plotting_area()
        .draw(&Text::new(text.to_owned(), at, label()))
}

/// So many that two labels next to each other differ.
fn digits(span: f64) -> usize {
    match span.log10().floor() {
        // As of no span at all.
        magnitude if !magnitude.is_finite() => 0,
        magnitude => (1.0 - magnitude).clamp(0.0, 9.0) as usize,
    }
}

fn stroke(ink: Ink) -> ShapeStyle {
    ink.color().stroke_width(1)
}

fn label() -> TextStyle<'static> {
    let font = ("sans-serif", FONT).into_font();
    let color = Ink::Text.color();
    TextStyle {
        color: color.to_backend_color(),
        ..font.into()
    }
}
