//! Puts the special values of a random fill in place of drawn values. Their places follow from the seed alone, so that
//! all other elements are what they would be without them.

use super::Values;
use super::error::FillError;
use super::generator::Stream;
use model::{ElemType, Num, Special, SpecialShares, Tensor};
use std::collections::HashSet;

/// Replaces the share of each kind, and at least one element or row.
///
/// # Errors
/// Fails for values that the element type does not have, and for more of them than there are elements.
pub fn put(
    values: &mut Values,
    shares: &SpecialShares,
    tensor: &Tensor,
    stream: &Stream,
) -> Result<(), FillError> {
    let share = |kind| shares.get(&kind).copied().unwrap_or(Num(0.0));
    let elements = values.len();
    let width = tensor.value_dims().last().copied().unwrap_or(1).max(1);
    let [inf, nan, denormal, ties] = [Special::Inf, Special::Nan, Special::Denormal, Special::Ties]
        .map(|kind| Special::count(share(kind), elements));
    let all = inf + nan + denormal + ties;
    if all > elements {
        return Err(FillError::Special {
            special: all,
            elements,
        });
    }
    let places: Vec<usize> = positions(stream, elements, all);
    let (of_floats, tied) = places.split_at(all - ties);
    if let Values::F32(values) = values {
        let drawn = stream.integers(0, i64::from(u32::MAX), of_floats.len());
        for (number, (&place, drawn)) in of_floats.iter().zip(drawn).enumerate() {
            let sign = if drawn % 2 == 0 { 1.0 } else { -1.0 };
            values[place] = if number < inf {
                sign * f32::INFINITY
            } else if number < inf + nan {
                f32::NAN
            } else {
                sign * denormal_number(tensor.elem, drawn / 2)?
            };
        }
    } else if !of_floats.is_empty() {
        return Err(FillError::SpecialIntegers);
    }
    let changed: HashSet<usize> = places.iter().copied().collect();
    let sources = stream.integers(0, i64::MAX, ties);
    for (&place, drawn) in tied.iter().zip(sources) {
        let row = place - place % width;
        let source = row
            + unchanged(place - row, width, drawn, |at| {
                changed.contains(&(row + at))
            });
        repeat(values, source, place, 1);
    }
    let rows = elements / width;
    let equal = Special::count(share(Special::EqualRows), rows).min(rows.saturating_sub(1));
    let places = positions(stream, rows, equal);
    let changed: HashSet<usize> = places.iter().copied().collect();
    let sources = stream.integers(0, i64::MAX, equal);
    for (&place, drawn) in places.iter().zip(sources) {
        let source = unchanged(place, rows, drawn, |row| changed.contains(&row));
        repeat(values, source * width, place * width, width);
    }
    Ok(())
}

/// The number of places that are searched for one that keeps its value.
const MOST_STEPS: usize = 1000;

fn positions(stream: &Stream, of: usize, count: usize) -> Vec<usize> {
    let drawn = stream.distinct(of as u64, count);
    drawn.into_iter().map(|place| place as usize).collect()
}

/// Returns a place of `0..of` that keeps its value, so that a copy of it stays equal to it: the first one from a drawn
/// place on. If (nearly) all places change, returns the next one.
fn unchanged(place: usize, of: usize, drawn: i64, is_changed: impl Fn(usize) -> bool) -> usize {
    let start = drawn as usize % of;
    (0..of.min(MOST_STEPS))
        .map(|step| (start + step) % of)
        .find(|&at| !is_changed(at))
        .unwrap_or((place + 1) % of)
}

fn repeat(values: &mut Values, from: usize, to: usize, count: usize) {
    match values {
        Values::F32(values) => values.copy_within(from..from + count, to),
        Values::F64(values) => values.copy_within(from..from + count, to),
        Values::I64(values) => values.copy_within(from..from + count, to),
    }
}

/// Returns one of the denormal numbers of a type, which are the multiples of the smallest one.
fn denormal_number(elem: ElemType, drawn: i64) -> Result<f32, FillError> {
    let (smallest, count) = match elem {
        ElemType::F32 => (f32::from_bits(1), 0x7f_ffff),
        ElemType::Bf16 => (f32::from_bits(1 << 16), 0x7f),
        ElemType::F16 => (2f32.powi(-24), 0x3ff),
        ElemType::E4m3 => (2f32.powi(-9), 7),
        ElemType::E5m2 => (2f32.powi(-16), 3),
        _ => return Err(FillError::Denormal(elem)),
    };
    Ok(smallest * (1 + drawn % count) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::generate;
    use crate::testing::{case, filled};
    use model::Fill;
    use system::error::Result;

    fn draw(elem: ElemType, dims: &[usize], special: &[(Special, f64)]) -> Result<Values> {
        let special = special.iter().map(|&(kind, share)| (kind, Num(share)));
        let special = special.collect();
        let fill = if elem.is_float() {
            let (low, high) = (Num(1.0), Num(2.0));
            Fill::Uniform { low, high, special }
        } else {
            let (low, high) = (0, 1_000_000);
            Fill::Integers { low, high, special }
        };
        let case = case(vec![filled("x", elem, dims, fill)]);
        let drawn = generate(&case, 7)?;
        let again = generate(&case, 7).unwrap();
        assert_eq!(again.tensors["x"].bytes, drawn.tensors["x"].bytes);
        Ok(drawn.tensors["x"].seen.clone())
    }

    #[test]
    fn each_share_is_there_and_all_else_is_as_without_it() {
        let plain = draw(ElemType::F16, &[10, 100], &[]).unwrap();
        let shares = [
            (Special::Inf, 0.02),
            (Special::Nan, 0.001),
            (Special::Denormal, 0.05),
        ];
        let mixed = draw(ElemType::F16, &[10, 100], &shares).unwrap();
        let (plain, mixed) = (plain.floats(), mixed.floats());
        let count = |is: fn(&f32) -> bool| mixed.iter().filter(|value| is(value)).count();
        assert_eq!(count(|value| value.is_nan()), 1);
        assert_eq!(count(|value| value.is_infinite()), 20);
        assert!(count(|value| *value == f32::INFINITY) > 0);
        assert!(count(|value| *value == f32::NEG_INFINITY) > 0);
        assert_eq!(count(|value| value.abs() < 2f32.powi(-14)), 50);
        let same = plain.iter().zip(mixed.iter()).filter(|(a, b)| a == b);
        assert_eq!(same.count(), 1000 - 71);
    }

    #[test]
    fn ties_and_equal_rows_repeat_what_is_there() {
        let tied = draw(ElemType::I32, &[4, 50], &[(Special::Ties, 0.1)]).unwrap();
        let Values::I64(tied) = tied else { panic!() };
        let different = |values: &[i64]| values.iter().collect::<HashSet<_>>().len();
        let in_rows: usize = tied.chunks(50).map(different).sum();
        assert_eq!(in_rows, 180);
        let rows = draw(ElemType::F32, &[20, 8], &[(Special::EqualRows, 0.25)]).unwrap();
        let rows: HashSet<Vec<u32>> = rows
            .floats()
            .chunks(8)
            .map(|row| row.iter().map(|value| value.to_bits()).collect())
            .collect();
        assert_eq!(rows.len(), 15);
        // The fill changes all of a row, and all rows but one.
        let all = draw(ElemType::F32, &[3, 2], &[(Special::Ties, 1.0)]).unwrap();
        assert!(all.floats().chunks(2).all(|row| row[0] == row[1]));
        let all = draw(ElemType::F32, &[3, 2], &[(Special::EqualRows, 1.0)]).unwrap();
        assert_eq!(all.floats()[..2], all.floats()[2..4]);
    }

    #[test]
    fn every_type_has_denormal_numbers_of_its_own() {
        for (elem, least_normal) in [
            (ElemType::F32, f32::MIN_POSITIVE),
            (ElemType::Bf16, f32::MIN_POSITIVE),
            (ElemType::F16, 2f32.powi(-14)),
            (ElemType::E4m3, 2f32.powi(-6)),
            (ElemType::E5m2, 2f32.powi(-14)),
        ] {
            let drawn = draw(elem, &[2000], &[(Special::Denormal, 0.5)]).unwrap();
            let is_denormal = |value: &&f32| value.abs() < least_normal && **value != 0.0;
            assert_eq!(drawn.floats().iter().filter(is_denormal).count(), 1000);
        }
        for (elem, kind) in [
            (ElemType::F64, Special::Denormal),
            (ElemType::I32, Special::Nan),
        ] {
            assert!(draw(elem, &[10], &[(kind, 0.1)]).is_err());
        }
        let crowded = [(Special::Inf, 0.5), (Special::Nan, 0.51)];
        assert!(draw(ElemType::F32, &[10], &crowded).is_err());
    }
}
