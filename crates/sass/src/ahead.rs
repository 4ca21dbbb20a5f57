//! Counts how long before its first use memory is asked for. Data that is asked for early arrives while a warp does
//! other work.

use crate::flow::Loop;
use crate::listing::{Instruction, Section};
use model::InstructionKind as Kind;

/// The turns of a loop after which a result that nothing has needed is no longer looked for.
const TURNS: usize = 4;

/// Returns the number of instructions between a load from global memory, or an asynchronous copy, and the first
/// instruction that needs its result. Returns `None` for other instructions.
///
/// Instructions are taken in the order of the code, and at the end of the innermost loop from its head on, because a
/// result can be used in a later turn. Branches in between are not followed. If nothing needs the result there, all
/// instructions that were looked at count.
pub fn ahead(section: &Section, loops: &[Loop], at: usize, kind: Kind) -> Option<u32> {
    let around = loops.iter().rev().find(|found| {
        let mut ranges = found.ranges.iter();
        ranges.any(|&(start, end)| (start..end).contains(&at))
    });
    let end = around.map_or(section.instructions.len(), |found| found.back + 1);
    let head = around.and_then(|found| found.ranges.iter().map(|range| range.0).min());
    let turn = section.instructions.get(head.unwrap_or(end)..end)?;
    let rest = section.instructions.get(at + 1..end).unwrap_or_default();
    let following = rest
        .iter()
        .chain(std::iter::repeat_n(turn, TURNS).flatten());
    let distance = match kind {
        Kind::GlobalLoad(width) | Kind::ReadOnlyLoad(width) => {
            let first = registers(section.instructions.get(at)?.operands).next()?;
            let loaded = first..first + width.bits().div_ceil(32);
            let needs =
                |other: &Instruction| reads(other).any(|register| loaded.contains(&register));
            following.take_while(|other| !needs(other)).count()
        }
        Kind::AsyncCopy => {
            // A wait leaves the newest groups under way, as many as it says.
            let mut groups = 0;
            let mut waits = |other: &Instruction| {
                groups += u32::from(other.mnemonic() == "LDGDEPBAR");
                other.mnemonic() == "DEPBAR" && groups > left_under_way(other)
            };
            following.take_while(|other| !waits(other)).count()
        }
        _ => return None,
    };
    u32::try_from(distance).ok()
}

/// Returns the number of groups that a wait does not wait for: 1 for `DEPBAR.LE SB0, 0x1`.
fn left_under_way(wait: &Instruction) -> u32 {
    let count = wait
        .operands()
        .nth(1)
        .and_then(|count| count.strip_prefix("0x"));
    count
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .unwrap_or(0)
}

/// Returns the registers that an instruction reads. The first operand is written, unless it is an address.
fn reads<'a>(instruction: &'a Instruction) -> impl Iterator<Item = u32> + use<'a> {
    let is_written = instruction.operands.starts_with(['R', 'P', 'U']);
    instruction
        .operands()
        .skip(usize::from(is_written))
        .flat_map(registers)
}

/// Returns the numbers of the vector registers in a text: 2 of `desc[UR4][R2.64]`.
fn registers(text: &str) -> impl Iterator<Item = u32> + use<'_> {
    text.match_indices('R').filter_map(move |(at, _)| {
        let is_inside = text
            .get(..at)?
            .ends_with(|before: char| before.is_ascii_alphanumeric());
        let rest = text.get(at + 1..)?;
        let end = rest
            .find(|digit: char| !digit.is_ascii_digit())
            .unwrap_or(rest.len());
        let number = rest.get(..end)?.parse().ok()?;
        (!is_inside).then_some(number)
    })
}
