//! Matches kernels by their code if names do not.
//!
//! Templates make families of kernels that resemble each other more than two builds of one of them do. So similar code
//! counts only if nothing else in the other listing, with a partner or without one, is nearly as similar. No partner is
//! better than a wrong one.

use crate::{BinaryKernel, normal};
use model::Arch;
use std::collections::HashMap;

/// The least number of instructions from which code says where it comes from. Shorter code can be a fill, a copy, or a
/// body that is empty for this architecture.
const FEWEST_INSTRUCTIONS: u64 = 48;

/// The share of the instructions of two kernels that both must have.
///
/// With these limits, names were hidden in pairs of public wheels (bitsandbytes, cupy, libcuml, spconv; the same compiler
/// and others). No kernel got a wrong partner while its own was there. Of kernels whose code had changed, 2 to 44 of a
/// hundred got theirs. Where a tenth of the kernels was taken out of either file, under 4 of a thousand
/// of these got a sibling by template, whose code is similar.
const LEAST_SIMILARITY: f64 = 0.95;

/// The least difference to the similarity of the second-best kernel.
const LEAST_LEAD: f64 = 0.05;

/// If more kernels have about one size, they are a family.
const MOST_COMPARED: usize = 512;

/// Returns the share of the instructions of either kernel that both have, counted by opcode, from 0 to 1. Returns
/// `None` if it is less than `least`.
pub fn similarity(one: &BinaryKernel, other: &BinaryKernel, least: f64) -> Option<f64> {
    let all = instructions(one) + instructions(other);
    // Both have (all - differences) / 2, and either has (all + differences) / 2.
    let most_differences = all as f64 * (1.0 - least) / (1.0 + least);
    let (mut one, mut other) = (one.opcodes.as_slice(), other.opcodes.as_slice());
    let mut differences = 0_u64;
    while differences as f64 <= most_differences {
        match (one, other) {
            ([(first, count), rest @ ..], [(second, counter), others @ ..]) if first == second => {
                differences += u64::from(count.abs_diff(*counter));
                (one, other) = (rest, others);
            }
            ([(first, count), rest @ ..], [(second, _), ..]) if first < second => {
                differences += u64::from(*count);
                one = rest;
            }
            ([(_, count), rest @ ..], []) => {
                differences += u64::from(*count);
                one = rest;
            }
            (_, [(_, count), rest @ ..]) => {
                differences += u64::from(*count);
                other = rest;
            }
            ([], []) if all == 0 => return None,
            ([], []) => {
                return Some((all - differences) as f64 / (all + differences) as f64);
            }
        }
    }
    None
}

fn instructions(kernel: &BinaryKernel) -> u64 {
    kernel
        .opcodes
        .iter()
        .map(|opcode| u64::from(opcode.1))
        .sum()
}

/// Returns true if equal code is enough to take two kernels for the same one.
pub fn is_telling(kernel: &BinaryKernel) -> bool {
    instructions(kernel) >= FEWEST_INSTRUCTIONS
}

/// The kernels of one listing, by architecture and size.
struct Index<'a> {
    kernels: &'a [BinaryKernel],
    by_size: HashMap<Arch, Vec<(u64, usize)>>,
}

impl<'a> Index<'a> {
    fn new(kernels: &'a [BinaryKernel], of: impl Iterator<Item = usize>) -> Self {
        let mut by_size: HashMap<Arch, Vec<(u64, usize)>> = HashMap::new();
        for at in of {
            if let Some(kernel) = kernels.get(at).filter(|kernel| is_telling(kernel)) {
                let sizes = by_size.entry(kernel.arch).or_default();
                sizes.push((instructions(kernel), at));
            }
        }
        for sizes in by_size.values_mut() {
            sizes.sort_unstable();
        }
        Self { kernels, by_size }
    }

    /// Returns the kernels that are at least so similar, with their similarity. Returns none if too many would have to
    /// be compared.
    fn similar(&self, kernel: &BinaryKernel, least: f64) -> Vec<(usize, f64)> {
        let size = instructions(kernel) as f64;
        let all = self.by_size.get(&kernel.arch);
        let all = all.map(Vec::as_slice).unwrap_or_default();
        // Smaller or larger kernels cannot be so similar.
        let first = all.partition_point(|entry| (entry.0 as f64) < size * least);
        let end = all.partition_point(|entry| entry.0 as f64 * least <= size);
        let near = all.get(first..end).unwrap_or_default();
        if near.len() > MOST_COMPARED {
            return Vec::new();
        }
        near.iter()
            .filter_map(|(_, at)| {
                let score = similarity(kernel, self.kernels.get(*at)?, least)?;
                Some((*at, score))
            })
            .collect()
    }

    /// Returns the only one of `left` that resembles this one, if nothing else does nearly as much.
    fn partner(&self, kernel: &BinaryKernel, left: &Self) -> Option<usize> {
        let best = left.similar(kernel, LEAST_SIMILARITY).into_iter();
        let (best, score) = best.max_by(|one, other| one.1.total_cmp(&other.1))?;
        let rivals = self.similar(kernel, score - LEAST_LEAD);
        // The list is empty if it would be too long.
        let is_alone = rivals.len() == 1 && rivals.iter().all(|rival| rival.0 == best);
        is_alone.then_some(best)
    }
}

/// Pairs the remaining kernels one to one.
pub fn pairs(
    base: &[BinaryKernel],
    base_left: &[usize],
    head: &[BinaryKernel],
    head_left: &[usize],
) -> Vec<(usize, usize)> {
    if base_left.is_empty() || head_left.is_empty() {
        return Vec::new();
    }
    let base_index = Index::new(base, 0..base.len());
    let head_index = Index::new(head, 0..head.len());
    let base_left_index = Index::new(base, base_left.iter().copied());
    let head_left_index = Index::new(head, head_left.iter().copied());
    let partner = |at: &usize| {
        let kernel = base.get(*at).filter(|kernel| is_telling(kernel))?;
        let partner = head_index.partner(kernel, &head_left_index)?;
        let found = head.get(partner)?;
        let back = base_index.partner(found, &base_left_index)?;
        let is_pair = back == *at && !normal::is_instance_of_same(&kernel.name, &found.name);
        is_pair.then_some((*at, partner))
    };
    base_left.iter().filter_map(partner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::tests::kernel;

    fn with_opcodes(opcodes: &[(u16, u32)]) -> BinaryKernel {
        BinaryKernel {
            opcodes: opcodes.to_vec(),
            ..kernel("k", "sm_90", 1)
        }
    }

    #[test]
    fn similarity_is_the_share_of_instructions_that_both_have() {
        let one = with_opcodes(&[(1, 10), (2, 5), (4, 1)]);
        let other = with_opcodes(&[(1, 8), (3, 2), (4, 1)]);
        assert_eq!(similarity(&one, &other, 0.0), Some(9.0 / 18.0));
        assert_eq!(similarity(&other, &one, 0.0), Some(9.0 / 18.0));
        assert_eq!(similarity(&one, &other, 0.51), None);
        assert_eq!(similarity(&one, &one, 1.0), Some(1.0));
        let empty = with_opcodes(&[]);
        assert_eq!(similarity(&empty, &empty, 0.0), None);
        assert_eq!(similarity(&empty, &one, 0.0), Some(0.0));
    }
}
