//! Lays out which kernels of two compiled files are the same, before the verdicts on them.

use crate::kernels::{also, by_kernel};
use crate::section::Section;
use ::binary::{BinaryKernel, LostArchitecture, MatchedBy, Matching, Pair, Resident, Worsening};
use build::signature::{short_name, whole_name};
use model::{Arch, UnitId};
use std::collections::{BTreeMap, BTreeSet};
use wording::escape;
use wording::words::plural;

pub const TITLE: &str = "Kernels";

/// The number of names of a list that are written out.
const MOST_NAMES: usize = 5;

/// The number of worse kernels that are written out.
const MOST_WORSE: usize = 10;

/// A kernel that got worse, with its values on both sides.
pub struct Worse<'a> {
    pub unit: &'a UnitId,
    pub pair: Pair<'a>,
    pub worsening: Worsening,
}

/// Lays out how kernels were matched. `worse` has the costliest first.
pub fn lay_out<'a>(
    matching: &Matching,
    lost: &[LostArchitecture],
    worse: &[Worse],
) -> Vec<Section<'a>> {
    let line = Section::with_lines;
    vec![
        line("matched", "Matched", vec![matched(matching)]),
        line("renamed", "Renamed", renamed(&matching.pairs)),
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
                lost_by_libraries(lost),
            ]
            .concat(),
        ),
        line("worse", "Got worse, the costliest first", got_worse(worse)),
    ]
}

fn got_worse(worse: &[Worse]) -> Vec<String> {
    let kernels = by_kernel(worse, |kernel| Some(kernel.unit));
    let lines = kernels.iter().take(MOST_WORSE).map(|(kernel, others)| {
        let name = escape::visible(&kernel.unit.to_string());
        format!("{name}: {}{}", values(kernel), also(others))
    });
    let more = kernels
        .iter()
        .skip(MOST_WORSE)
        .map(|(_, others)| others.len() + 1)
        .sum::<usize>();
    let more = (more > 0).then(|| format!("and {}", plural(more, "more kernel")));
    lines.chain(more).collect()
}

/// Returns the values that are worse, in the order of their cost.
fn values(worse: &Worse) -> String {
    let Worse {
        pair, worsening, ..
    } = worse;
    let Pair { base, head, .. } = pair;
    let number = |label: &str, of: fn(&BinaryKernel) -> Option<u32>| {
        let (was, is) = (of(base)?, of(head)?);
        (is > was).then(|| format!("{label} {was} -> {is}"))
    };
    let resident = worsening.resident.filter(|_| worsening.warps > 0.0);
    let code = (head.code > base.code).then(|| format!("code {} -> {}", base.code, head.code));
    let values = [
        resident.map(|resident| warps(&resident)),
        number("local memory instructions", |kernel| {
            kernel.local_instructions
        }),
        number("stack", |kernel| kernel.stack),
        code,
        number("registers", |kernel| kernel.registers),
    ];
    let values: Vec<String> = values.into_iter().flatten().collect();
    values.join(", ")
}

fn warps(resident: &Resident) -> String {
    let (was, is) = (resident.base.warps_per_sm, resident.head.warps_per_sm);
    match resident.assumed_block {
        Some(threads) => format!("warps {was} -> {is} (with blocks of {threads})"),
        None => format!("warps {was} -> {is}"),
    }
}

fn matched(matching: &Matching) -> String {
    let pairs = &matching.pairs;
    let by = |way| pairs.iter().filter(|pair| pair.by == way).count();
    let same = pairs
        .iter()
        .filter(|pair| pair.base.digest == pair.head.digest);
    let rest = match by(MatchedBy::Rest) {
        0 => String::new(),
        rest => format!(", {rest} as the only one left of its library"),
    };
    format!(
        "{}: {} by name, {} by the name without hashes and versions, {} by code{rest}; {} with the same code",
        plural(pairs.len(), "kernel"),
        by(MatchedBy::Name),
        by(MatchedBy::NormalisedName),
        by(MatchedBy::Code),
        same.count()
    )
}

/// Returns the pairs that were made neither by name nor by code, each once for all architectures.
fn renamed(pairs: &[Pair]) -> Vec<String> {
    let pairs = pairs.iter().filter(|pair| pair.by == MatchedBy::Rest);
    let name = |kernel: &BinaryKernel| escape::visible(&whole_name(&kernel.name));
    let lines: BTreeSet<String> = pairs
        .map(|Pair { base, head, .. }| format!("{} -> {}", name(base), name(head)))
        .collect();
    lines.into_iter().collect()
}

fn listed(kernels: &[&BinaryKernel]) -> Vec<String> {
    if kernels.is_empty() {
        return Vec::new();
    }
    let symbols: BTreeSet<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    // Several instances of a template can have the same shortened name.
    let names: BTreeSet<String> = symbols
        .iter()
        .map(|symbol| escape::visible(&short_name(symbol)))
        .collect();
    let written: Vec<&str> = names.iter().take(MOST_NAMES).map(String::as_str).collect();
    let more = if names.len() > MOST_NAMES {
        ", ..."
    } else {
        ""
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

fn lost_by_libraries(lost: &[LostArchitecture]) -> Vec<String> {
    let line = |lost: &LostArchitecture| {
        let library = escape::visible(lost.library.as_ref()?);
        let kernels = plural(lost.kernels as usize, "kernel");
        Some(format!("{library} lost {}, with {kernels}", lost.arch))
    };
    lost.iter().filter_map(line).collect()
}
