//! Draws SVG inside a page. The page's style gives each ink its colour, so that one drawing fits a light and a dark
//! scheme. Dots of one ink are one element.

use maud::{Markup, PreEscaped, html};
use std::fmt::Write;

/// The width of a drawing in its own units. On a phone two units are one pixel of CSS.
pub const WIDTH: u32 = 720;

/// A point in a drawing: right and down.
pub type SvgPoint = (i32, i32);

/// The look of a drawn thing, which is a class of the page's style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Axis,
    Grid,
    Head,
    Base,
    Median,
    Limit,
    Interval,
    Zero,
    Bad,
}

impl Ink {
    pub fn class(self) -> &'static str {
        match self {
            Self::Axis => "axis",
            Self::Grid => "grid",
            Self::Head => "head",
            Self::Base => "base",
            Self::Median => "median",
            Self::Limit => "limit",
            Self::Interval => "interval",
            Self::Zero => "zero",
            Self::Bad => "bad",
        }
    }
}

/// The part of a text that is at its point.
#[derive(Clone, Copy)]
pub enum Anchor {
    TopLeft,
    TopMiddle,
    Right,
}

/// The content of one drawing, while it is being drawn.
#[derive(Default)]
pub struct Drawing {
    out: String,
    /// The class of the path that is being drawn, until another one begins.
    open: Option<(&'static str, Ink)>,
}

impl Drawing {
    pub fn line(&mut self, ink: Ink, path: impl IntoIterator<Item = SvgPoint>) {
        for (at, (x, y)) in path.into_iter().enumerate() {
            let command = if at == 0 { 'M' } else { 'L' };
            self.path("l", ink, format_args!("{command}{x} {y}"));
        }
    }

    /// Draws a filled rectangle between two of its corners.
    pub fn area(&mut self, ink: Ink, (left, top): SvgPoint, (right, bottom): SvgPoint) {
        let path = format_args!("M{left} {top}H{right}V{bottom}H{left}z");
        self.path("a", ink, path);
    }

    pub fn dot(&mut self, ink: Ink, (x, y): SvgPoint) {
        self.path("d", ink, format_args!("M{x} {y}h0"));
    }

    pub fn text(&mut self, text: &str, (x, y): SvgPoint, anchor: Anchor) {
        self.close();
        let (along, down) = match anchor {
            Anchor::TopLeft => (None, ".8em"),
            Anchor::TopMiddle => (Some("middle"), ".8em"),
            Anchor::Right => (Some("end"), ".35em"),
        };
        let element = html! { text.label x=(x) y=(y) dy=(down) text-anchor=[along] { (text) } };
        self.out.push_str(&element.into_string());
        self.out.push('\n');
    }

    pub fn finish(mut self, title: &str, height: u32) -> Markup {
        self.close();
        html! {
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(title) {
                (PreEscaped(self.out))
            }
        }
    }

    /// Appends to the open path. Writing to a string never fails.
    fn path(&mut self, shape: &'static str, ink: Ink, path: std::fmt::Arguments) {
        if self.open != Some((shape, ink)) {
            self.close();
            let _ = write!(self.out, "<path class=\"{shape} {}\" d=\"", ink.class());
            self.open = Some((shape, ink));
        }
        let _ = self.out.write_fmt(path);
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            self.out.push_str("\"/>\n");
        }
    }
}
