//! Renders the ladders of a page: a chart for each shape, with its numbers under it.

use super::chart::{self, Bar};
use super::part::{self, Links, Shared};
use crate::ladder::{self, Ladder, Shape};
use judge::View;
use maud::{Markup, html};
use wording::words;

/// A ladder, and its place on the page.
pub struct Placed<'a> {
    pub ladder: &'a Ladder,
    pub id: String,
    block: Markup,
}

/// Returns the ladders that there is room for.
pub fn place<'a>(view: View, ladders: &'a [Ladder], mut room: usize) -> Vec<Placed<'a>> {
    let all = ladders.iter().enumerate().map(|(at, ladder)| Placed {
        ladder,
        id: format!("ladder-{}", at + 1),
        block: block(view, ladder),
    });
    let fits = |placed: &Placed| {
        let left = room.checked_sub(placed.block.0.len());
        room = left.unwrap_or_default();
        left.is_some()
    };
    all.take_while(fits).collect()
}

pub fn render(view: View, all: &[Ladder], placed: &[Placed]) -> Markup {
    html! {
        @if !all.is_empty() {
            section {
                h2 id="ladders" { "Ladders" }
                p.muted { (ladder::legend(view, all)) "." }
                @for placed_ladder in placed {
                    details.case {
                        summary { span.name { (placed_ladder.ladder.name) } " " span.muted { (size(placed_ladder.ladder)) } }
                        div id=(placed_ladder.id) { (placed_ladder.block) }
                    }
                }
                @if all.len() > placed.len() {
                    p.cut {
                        (words::plural(all.len() - placed.len(), "more ladder"))
                        " would make this page too large; gatekeeper report --ladder prints them."
                    }
                }
            }
        }
    }
}

/// Returns the size of a ladder: `12 variants, 8 shapes`.
fn size(ladder: &Ladder) -> String {
    let variants = words::plural(ladder.steps.len(), "variant");
    format!(
        "{variants}, {}",
        words::plural(ladder.shapes.len(), "shape")
    )
}

fn block(view: View, ladder: &Ladder) -> Markup {
    let links = Links::new();
    let shared = Shared::unbounded(&links);
    let steps = ladder::steps(ladder);
    html! {
        div.rungs { @for shape_steps in &ladder.shapes { (shape(view, ladder, shape_steps)) } }
        details.fold { summary { "What each variant adds" } (part::table(&steps, &shared)) }
    }
}

fn shape(view: View, ladder: &Ladder, shape: &Shape) -> Markup {
    let table = ladder::rungs(view, ladder, shape);
    if table.rows.is_empty() {
        return html! {};
    }
    let bars = |metric| {
        shape
            .rungs
            .iter()
            .filter_map(move |rung| {
                let value = ladder::number(&rung.values, metric)?;
                let label = rung.variant.clone();
                Some(Bar { label, value })
            })
            .collect::<Vec<_>>()
    };
    // The first metric says how fast a case is.
    let Some(metric) = ladder::metrics(view).first() else {
        return html! {};
    };
    let title = format!("{}@{}: {metric}", ladder.kernel, shape.shape);
    let text = |value: f64| words::quantity(*metric, value);
    let heads = table.columns.iter().skip(1);
    html! {
        figure {
            figcaption { (title) }
            (chart::bars(&title, &bars(*metric), &text))
            div.scroll {
                table.rung {
                    thead {
                        tr {
                            th scope="col" { "variant" }
                            @for column in heads { th scope="col" { (column.head) } }
                        }
                    }
                    tbody { @for row in &table.rows { tr { @for cell in row { td { (cell) } } } } }
                }
            }
        }
    }
}
