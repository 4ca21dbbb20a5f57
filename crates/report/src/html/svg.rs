//! What plotters draws, as SVG inside a page: the page's style gives each ink its colour, so that one drawing fits a
//! light and a dark scheme, and dots of one ink are one element.

use maud::html;
use plotters::style::RGBColor;
use plotters_backend::text_anchor::HPos;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};
use std::convert::Infallible;
use std::fmt::Write;

/// What something is drawn as: a class of the page's style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Axis,
    Grid,
    Text,
    Head,
    Base,
    Median,
    Limit,
    Interval,
    Zero,
    Bad,
}

impl Ink {
    const ALL: [Self; 10] = [
        Self::Axis,
        Self::Grid,
        Self::Text,
        Self::Head,
        Self::Base,
        Self::Median,
        Self::Limit,
        Self::Interval,
        Self::Zero,
        Self::Bad,
    ];

    pub fn class(self) -> &'static str {
        match self {
            Self::Axis => "axis",
            Self::Grid => "grid",
            Self::Text => "label",
            Self::Head => "head",
            Self::Base => "base",
            Self::Median => "median",
            Self::Limit => "limit",
            Self::Interval => "interval",
            Self::Zero => "zero",
            Self::Bad => "bad",
        }
    }

    /// By which plotters, which knows colours alone, hands an ink through.
    pub fn color(self) -> RGBColor {
        RGBColor(0, 0, self as u8)
    }

    fn of(color: BackendColor) -> Self {
        let (_, _, at) = color.rgb;
        Self::ALL
            .get(usize::from(at))
            .copied()
            .unwrap_or(Self::Text)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Line,
    Area,
    Dots,
}

impl Shape {
    fn class(self) -> &'static str {
        match self {
            Self::Line => "l",
            Self::Area => "a",
            Self::Dots => "d",
        }
    }
}

/// The inside of one drawing.
pub struct Svg<'a> {
    out: &'a mut String,
    size: (u32, u32),
    /// The element that is being drawn, until another kind of one begins.
    open: Option<(Shape, Ink)>,
}

impl<'a> Svg<'a> {
    pub fn new(out: &'a mut String, size: (u32, u32)) -> Self {
        Self {
            out,
            size,
            open: None,
        }
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            self.out.push_str("\"/>\n");
        }
    }

    /// Writing to a string never fails, here and below.
    fn draw(&mut self, shape: Shape, color: BackendColor, path: std::fmt::Arguments) {
        if color.alpha == 0.0 {
            return;
        }
        let ink = Ink::of(color);
        if self.open != Some((shape, ink)) {
            self.close();
            let _ = write!(
                self.out,
                "<path class=\"{} {}\" d=\"",
                shape.class(),
                ink.class()
            );
            self.open = Some((shape, ink));
        }
        let _ = self.out.write_fmt(path);
    }

    fn trace(
        &mut self,
        shape: Shape,
        color: BackendColor,
        path: impl IntoIterator<Item = BackendCoord>,
    ) {
        let mut path = path.into_iter();
        let Some((x, y)) = path.next() else { return };
        self.draw(shape, color, format_args!("M{x} {y}"));
        for (x, y) in path {
            self.draw(shape, color, format_args!("L{x} {y}"));
        }
        if shape == Shape::Area {
            self.draw(shape, color, format_args!("z"));
        }
    }
}

impl Drop for Svg<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl DrawingBackend for Svg<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        self.close();
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Drawn {
        self.draw(Shape::Dots, color, format_args!("M{x} {y}h0"));
        Ok(())
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.trace(Shape::Line, style.color(), [from, to]);
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let shape = match fill {
            true => Shape::Area,
            false => Shape::Line,
        };
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
        let end = (!fill).then_some((left, top));
        self.trace(shape, style.color(), corners.into_iter().chain(end));
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        self.trace(Shape::Line, style.color(), path);
        Ok(())
    }

    /// Its size is the style's.
    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        _: u32,
        style: &S,
        _: bool,
    ) -> Drawn {
        self.draw_pixel(center, style.color())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        self.trace(Shape::Area, style.color(), path);
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Drawn {
        use plotters_backend::text_anchor::VPos;
        self.close();
        let anchor = style.anchor();
        let along = match anchor.h_pos {
            HPos::Left => None,
            HPos::Center => Some("middle"),
            HPos::Right => Some("end"),
        };
        let down = match anchor.v_pos {
            VPos::Top => ".8em",
            VPos::Center => ".35em",
            VPos::Bottom => "-.2em",
        };
        let class = Ink::of(style.color()).class();
        let element =
            html! { text class=(class) x=(x) y=(y) dy=(down) text-anchor=[along] { (text) } };
        self.out.push_str(&element.into_string());
        self.out.push('\n');
        Ok(())
    }
}
