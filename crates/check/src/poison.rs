//! Compares a device buffer before and after a launch, to see what the launch should have done: it wrote every output
//! element, touched nothing around them, and gave the same bits each time.
//!
//! Outputs are filled with a pattern that depends on the launch. With one pattern, a kernel that rightly writes that
//! very value would look guilty. So an element counts as unwritten only if it still holds the poison of each of two
//! launches whose poisons differ.

use super::WrongBytes;
use super::compared::is_in;
use super::layout::{Layout, index};
use model::{Difference, ElemType, Location, Tensor};
use rayon::prelude::*;

/// Returns the bits of one element, little-endian, before launch number `launch` (counted from 1). Odd and even
/// launches have different ones. For floats they are NaNs with a payload that arithmetic does not make, so that an
/// unwritten element also counts as non-finite.
pub fn poison(elem: ElemType, launch: u32) -> Vec<u8> {
    let odd = launch % 2 == 1;
    let pick = |first: u64, second: u64| {
        let bits = if odd { first } else { second };
        bits.to_le_bytes()[..elem.size()].to_vec()
    };
    match elem {
        ElemType::F64 => pick(0x7ff8_5dea_d5ea_f1e5, 0xfffa_b1ef_d00d_c0de),
        ElemType::F32 => pick(0x7fc5_dead, 0xffda_beef),
        ElemType::F16 => pick(0x7ead, 0xfeb5),
        ElemType::Bf16 => pick(0x7fed, 0xffd5),
        ElemType::E4m3 => pick(0x7f, 0xff),
        ElemType::E5m2 => pick(0x7d, 0xfd),
        ElemType::I8 | ElemType::U8 => pick(0xa5, 0x5a),
        ElemType::I16 | ElemType::U16 => pick(0xa5c3, 0x5a3b),
        ElemType::I32 | ElemType::U32 => pick(0xa5c3_96e1, 0x5a3b_691d),
        ElemType::I64 => pick(0xa5c3_96e1_d278_b40f, 0x5a3b_691d_2d87_4bf1),
    }
}

/// Returns a whole output buffer, gaps included, as it is before a launch.
pub fn poisoned(tensor: &Tensor, launch: u32) -> Vec<u8> {
    poison(tensor.elem, launch).repeat(tensor.span())
}

/// The content of a buffer after a launch.
#[derive(Clone, Copy)]
pub struct Left<'a> {
    /// The number of the launch, counted from 1.
    pub launch: u32,
    /// The device image of `Tensor::span` elements.
    pub bytes: &'a [u8],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    pub elements: u64,
    pub first: Option<Location>,
}

/// Counts the elements of `part`, or of the whole output without it, that hold each launch's own poison after both
/// launches.
///
/// # Errors
/// Fails for buffers of the wrong length. Two launches with the same poison are a caller's mistake: every element that
/// holds it then counts.
pub fn unwritten(
    tensor: &Tensor,
    part: Option<&[bool]>,
    one: Left,
    other: Left,
) -> Result<Unwritten, WrongBytes> {
    let layout = Layout::new(tensor);
    let size = tensor.elem.size();
    let poisons = [one, other].map(|left| poison(tensor.elem, left.launch));
    let (first, second) = (
        layout.gather(tensor, one.bytes)?,
        layout.gather(tensor, other.bytes)?,
    );
    let mut found = Unwritten::default();
    for (position, (first, second)) in first
        .chunks_exact(size)
        .zip(second.chunks_exact(size))
        .enumerate()
    {
        if *first == *poisons[0] && *second == *poisons[1] && is_in(part, position) {
            found.elements += 1;
            found
                .first
                .get_or_insert_with(|| location(tensor, position));
        }
    }
    Ok(found)
}

/// Finds where a later launch's output differs from the first one's, bit for bit. Gaps and elements outside of `part`
/// do not count.
///
/// # Errors
/// Fails for buffers of the wrong length.
pub fn first_difference(
    tensor: &Tensor,
    part: Option<&[bool]>,
    first: &[u8],
    later: Left,
) -> Result<Option<Difference>, WrongBytes> {
    let layout = Layout::new(tensor);
    let size = tensor.elem.size();
    let (one, other) = (
        layout.gather(tensor, first)?,
        layout.gather(tensor, later.bytes)?,
    );
    if same(&one, &other) {
        return Ok(None);
    }
    let mut differing = one
        .chunks_exact(size)
        .zip(other.chunks_exact(size))
        .enumerate()
        .filter(|(position, (one, other))| one != other && is_in(part, *position))
        .map(|(position, _)| position);
    Ok(differing.next().map(|position| Difference {
        launch: later.launch,
        at: location(tensor, position),
        elements: 1 + differing.count() as u64,
    }))
}

/// Returns true if two buffers hold the same bytes. Large ones are compared on all cores.
pub fn same(one: &[u8], other: &[u8]) -> bool {
    const PIECE: usize = 256 << 10;
    one.len() == other.len()
        && one
            .par_chunks(PIECE)
            .zip(other.par_chunks(PIECE))
            .all(|(one, other)| one == other)
}

/// Counts the gap elements (between the strides, never addressed) that a launch changed, which is a write out of
/// bounds. The device side reports the tensor among the clobbered ones.
///
/// # Errors
/// Fails for buffers of the wrong length.
pub fn gaps_changed(tensor: &Tensor, before: &[u8], after: &[u8]) -> Result<u64, WrongBytes> {
    let layout = Layout::new(tensor);
    layout.gather(tensor, before)?;
    let addressed = layout.gather(tensor, after)?;
    let mut rightful = before.to_vec();
    layout.overwrite(tensor, &addressed, &mut rightful);
    let size = tensor.elem.size();
    Ok(after
        .chunks_exact(size)
        .zip(rightful.chunks_exact(size))
        .filter(|(after, rightful)| after != rightful)
        .count() as u64)
}

fn location(tensor: &Tensor, position: usize) -> Location {
    Location {
        tensor: tensor.name.clone(),
        index: index(&tensor.dims, position),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, testing::output};

    fn left_by(launch: u32, bytes: &[u8]) -> Left<'_> {
        Left { launch, bytes }
    }

    #[test]
    fn poison_is_nan_for_floats_and_differs_between_neighbouring_launches() {
        for elem in ElemType::ALL {
            let tensor = output("y", elem, &[3]);
            for launch in 1..4 {
                assert_ne!(poison(elem, launch), poison(elem, launch + 1));
                let image = poisoned(&tensor, launch);
                assert_eq!(image.len(), tensor.span() * elem.size());
                if elem.is_float() {
                    let values = decode(&tensor, &image).unwrap();
                    let values = values.floats();
                    assert!(values.iter().all(|value| value.is_nan()), "{elem:?}");
                }
            }
        }
    }

    #[test]
    fn an_unwritten_tail_is_found_and_a_rightly_written_poison_is_not() {
        for elem in ElemType::ALL {
            let tensor = output("y", elem, &[2, 3]);
            let size = elem.size();
            let left = |launch, written: usize| {
                let mut image = poisoned(&tensor, launch);
                // The kernel writes launch 1's poison as its answer, each time.
                for slot in image.chunks_exact_mut(size).take(written) {
                    slot.copy_from_slice(&poison(elem, 1));
                }
                image
            };
            let check = |written| {
                let (one, two) = (left(1, written), left(2, written));
                unwritten(&tensor, None, left_by(1, &one), left_by(2, &two)).unwrap()
            };
            assert_eq!(check(6), Unwritten::default(), "{elem:?}");
            let tail = check(4);
            assert_eq!(
                (tail.elements, tail.first.unwrap().index),
                (2, vec![1, 1]),
                "{elem:?}"
            );
            assert_eq!(check(0).elements, 6);
        }
    }

    #[test]
    fn one_bit_is_a_difference_and_a_gap_is_not() {
        let mut tensor = output("y", ElemType::F16, &[2, 2]);
        tensor.strides = Some(vec![3, 1]);
        let first: Vec<u8> = (0..10).collect();
        let differ =
            |later: &[u8]| first_difference(&tensor, None, &first, left_by(5, later)).unwrap();
        assert_eq!(differ(&first), None);
        let mut later = first.clone();
        later[4] ^= 1;
        assert_eq!(differ(&later), None);
        later[8] ^= 0x80;
        later[7] ^= 0x01;
        let difference = differ(&later).unwrap();
        assert_eq!((difference.launch, difference.elements), (5, 2));
        assert_eq!(difference.at.index, [1, 0]);
        assert!(first_difference(&tensor, None, &first[1..], left_by(2, &later)).is_err());
    }

    #[test]
    fn zero_and_negative_zero_differ_bit_for_bit() {
        let tensor = output("y", ElemType::F32, &[1]);
        let (plus, minus) = (0f32.to_le_bytes(), (-0f32).to_le_bytes());
        assert!(
            first_difference(&tensor, None, &plus, left_by(2, &minus))
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn a_write_into_a_gap_is_seen() {
        let mut tensor = output("y", ElemType::F32, &[2, 2]);
        tensor.strides = Some(vec![3, 1]);
        let before = poisoned(&tensor, 1);
        let mut after = before.clone();
        for byte in (0..8).chain(12..20) {
            after[byte] = 0;
        }
        assert_eq!(gaps_changed(&tensor, &before, &after), Ok(0));
        after[9] ^= 1;
        assert_eq!(gaps_changed(&tensor, &before, &after), Ok(1));
        assert!(gaps_changed(&tensor, &before, &after[..4]).is_err());
    }
}
