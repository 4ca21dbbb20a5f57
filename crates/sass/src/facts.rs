//! Adds up the instructions of a section by source line and loop.

use crate::ahead::ahead;
use crate::flow::{self, Loop};
use crate::kind::kind;
use crate::listing::{Instruction, Section};
use model::{EntryCode, LineCode, LoopCode, Mix};
use std::collections::HashMap;

/// Returns the values of an entry that `explain` compares.
pub fn entry(section: &Section) -> EntryCode {
    let loops = flow::loops(section);
    let mut around: Vec<Option<usize>> = vec![None; section.instructions.len()];
    // Outer loops come first, so that inner ones overwrite them.
    for (at, found) in loops.iter().enumerate() {
        for &(start, end) in &found.ranges {
            for place in around.get_mut(start..end).into_iter().flatten() {
                *place = Some(at);
            }
        }
    }
    let mut lines: Vec<LineCode> = Vec::new();
    let mut known: HashMap<_, usize> = HashMap::new();
    let mut functions = section.functions.iter().peekable();
    let mut function = None;
    for (at, (instruction, in_loop)) in section.instructions.iter().zip(&around).enumerate() {
        while let Some((_, name)) = functions.next_if(|(start, _)| *start <= at) {
            function = (*name != section.name).then(|| plain_name(section.name, name));
        }
        let Some(kind) = kind(instruction) else {
            continue;
        };
        let key = (instruction.place, *in_loop, function);
        let index = *known.entry(key).or_insert_with(|| {
            lines.push(LineCode {
                place: instruction
                    .place
                    .and_then(|at| section.places.get(at))
                    .cloned(),
                in_loop: *in_loop,
                function: function.map(str::to_owned),
                mix: Mix::new(),
                predicated: 0,
                ahead: None,
                calls: std::collections::BTreeMap::new(),
            });
            lines.len() - 1
        });
        let Some(line) = lines.get_mut(index) else {
            continue;
        };
        *line.mix.entry(kind).or_default() += 1;
        if let Some(distance) = ahead(section, &loops, at, kind) {
            *line.ahead.get_or_insert(0) += distance;
        }
        line.predicated += u32::from(kind.width().is_some() && instruction.predicate.is_some());
        if instruction.mnemonic() == "CALL" {
            for target in instruction.targets() {
                let name = plain_name(section.name, target).to_owned();
                *line.calls.entry(name).or_default() += 1;
            }
        }
    }
    let loops = loops.iter().map(|found| LoopCode {
        place: section
            .instructions
            .get(found.back)
            .and_then(|instruction| section.places.get(instruction.place?))
            .cloned(),
        parent: found.parent,
        step: step(section, found),
    });
    EntryCode {
        symbol: section.name.to_owned(),
        lines,
        loops: loops.collect(),
    }
}

/// Returns a function's name without the entry's own name and the number that PTXAS puts before it.
fn plain_name<'a>(entry: &str, name: &'a str) -> &'a str {
    let name = name.strip_prefix('$').unwrap_or(name);
    let name = name.strip_prefix(entry).unwrap_or(name);
    let name = name.strip_prefix('$').unwrap_or(name);
    let numbered = name.strip_prefix("__internal_").and_then(|rest| {
        let (number, rest) = rest.split_once("_$")?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(rest)
    });
    numbered.unwrap_or(name)
}

/// Returns the constant that a loop adds once to a register and compares.
fn step(section: &Section, found: &Loop) -> Option<i64> {
    let body = || {
        found
            .ranges
            .iter()
            .flat_map(|&(start, end)| section.instructions.get(start..end).into_iter().flatten())
    };
    let mut compared: Vec<&str> = body()
        .filter(|body| matches!(body.mnemonic(), "ISETP" | "UISETP"))
        .flat_map(Instruction::operands)
        .map(bare)
        .collect();
    // PTXAS may compare the sum of the counter and a register that does not change: `IADD3 R14, R18, R5, RZ`.
    let sums = body().filter(|body| {
        let mut operands = body.operands().map(bare);
        body.mnemonic().ends_with("IADD3")
            && operands.next().is_some_and(|sum| compared.contains(&sum))
    });
    let terms: Vec<&str> = sums
        .flat_map(|sum| sum.operands().skip(1).map(bare))
        .collect();
    compared.extend(terms);
    let added: Vec<(&str, i64)> = body().filter_map(added).collect();
    let mut steps = added.iter().filter(|(register, _)| {
        compared.contains(register)
            && added.iter().filter(|(other, _)| other == register).count() == 1
    });
    match (steps.next(), steps.next()) {
        (Some((_, step)), None) => Some(*step),
        _ => None,
    }
}

/// Returns the register and the constant of an addition: `IADD3 R9, R9, 0x2000, RZ`.
fn added<'a>(instruction: &'a Instruction) -> Option<(&'a str, i64)> {
    if !matches!(
        instruction.mnemonic(),
        "IADD3" | "UIADD3" | "VIADD" | "UVIADD" | "IADD"
    ) || instruction.modifiers().any(|modifier| modifier == "X")
    {
        return None;
    }
    let mut operands = instruction
        .operands()
        .map(bare)
        .filter(|operand| !operand.contains("PT"));
    let register = operands.next()?;
    let (mut same, mut step) = (0, None);
    for operand in operands {
        match number(operand) {
            Some(number) if step.is_none() => step = Some(number),
            None if operand == register => same += 1,
            None if operand == "RZ" || operand == "URZ" => {}
            _ => return None,
        }
    }
    (same == 1).then_some((register, step?))
}

fn bare(operand: &str) -> &str {
    operand.strip_suffix(".reuse").unwrap_or(operand)
}

fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let value = i64::from_str_radix(digits.strip_prefix("0x")?, 16).ok()?;
    // The constant is written as 32 bits without a sign, and here its high bit is set.
    let value = if sign == 1 && (1 << 31..1 << 32).contains(&value) {
        value - (1 << 32)
    } else {
        value
    };
    Some(sign * value)
}
