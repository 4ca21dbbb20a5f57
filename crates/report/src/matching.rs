//! Which kernels of two compiled files are the same, before the verdicts on them.

use crate::section::{Part, Section};
use ::binary::{Kernel, MatchedBy, Matching};
use build::signature::short_name;
use model::Arch;
use std::collections::{BTreeMap, BTreeSet};
use wording::escape;
use wording::words::plural;

pub const TITLE: &str = "Kernels";

/// Names that are written out of a list.
const MOST_NAMES: usize = 5;

pub fn lay_out<'a>(matching: &Matching) -> Vec<Section<'a>> {
    let line = |label, title: &str, text| Section::new(label, title, vec![Part::Lines(text)]);
    vec![
        line("matched", "Matched", vec![matched(matching)]),
        line("new", "New", listed(&matching.added)),
        line("removed", "Removed", listed(&matching.removed)),
        line("to PTX", "Now PTX only", listed(&matching.to_ptx)),
        line("to code", "PTX only before", listed(&matching.from_ptx)),
        line(
            "targets",
            "Architectures",
            [
                architectures(&matching.added_architectures, "new"),
                architectures(&matching.removed_architectures, "removed"),
            ]
            .concat(),
        ),
    ]
}

fn matched(matching: &Matching) -> String {
    let pairs = &matching.pairs;
    let by = |way| pairs.iter().filter(|pair| pair.by == way).count();
    let same = pairs.iter().filter(|it| it.base.digest == it.head.digest);
    format!(
        "{}: {} by name, {} by the name without hashes and versions, {} by code; {} with the same code",
        plural(pairs.len(), "kernel"),
        by(MatchedBy::Name),
        by(MatchedBy::NormalisedName),
        by(MatchedBy::Code),
        same.count()
    )
}

fn listed(kernels: &[&Kernel]) -> Vec<String> {
    if kernels.is_empty() {
        return Vec::new();
    }
    let symbols: BTreeSet<&str> = kernels.iter().map(|it| it.name.as_str()).collect();
    // Instances of a template can be shortened to the same.
    let names: BTreeSet<String> = symbols
        .iter()
        .map(|it| escape::visible(&short_name(it)))
        .collect();
    let written: Vec<&str> = names.iter().take(MOST_NAMES).map(String::as_str).collect();
    let more = match names.len() > MOST_NAMES {
        true => ", ...",
        false => "",
    };
    let written = written.join(", ");
    vec![format!(
        "{}: {written}{more}",
        plural(symbols.len(), "kernel")
    )]
}

fn architectures(all: &BTreeMap<Arch, usize>, what: &str) -> Vec<String> {
    let line = |(arch, kernels): (&Arch, &usize)| {
        format!("{arch} is {what}, with {}", plural(*kernels, "kernel"))
    };
    all.iter().map(line).collect()
}
