//! Reads differing words of captured memory as floats. Captured memory has no types, and a word may hold two halves: a
//! change of one unit in the last place of the upper half is a change of 65,536 to the word.

use half::{bf16, f16};
use model::{ElemType, Num, Pointer, Reading, Tensor};

/// The usual magnitudes of values in networks. The bits of most halves, read as a bfloat16, are far outside.
const USUAL: std::ops::Range<f64> = 1e-4..1e4;

/// Reads the differing words of a tensor of captured memory as floats. The type is the one that the kernel's name or
/// the user gives them, or else the one in whose units they differ least. Returns `None` if they are no floats of one
/// type, or if too many pointers lead to them to say which.
pub fn read(got: &[i64], want: &[i64], tensor: &Tensor) -> Option<Reading> {
    let word = tensor.elem.size();
    let differing = got
        .iter()
        .zip(want)
        .enumerate()
        .filter(|(_, (got, want))| got != want)
        .map(|(at, (got, want))| (at * word, *got as u32, *want as u32));
    let pointer = find_pointer(tensor, differing.clone().next()?.0);
    let elems = match tensor.floats.or(pointer.and_then(|pointer| pointer.elem)) {
        Some(elem) => vec![elem],
        // Round floats have zeros in their lower halves.
        None if differing
            .clone()
            .all(|(_, got, want)| (got | want) & 0xffff == 0) =>
        {
            vec![ElemType::F32]
        }
        None => vec![ElemType::F32, ElemType::F16, ElemType::Bf16],
    };
    let mut readings: Vec<Candidate> = elems
        .into_iter()
        .filter(|elem| elem.size() <= word)
        .map(|elem| Candidate::new(elem, pointer))
        .collect();
    for (offset, got, want) in differing {
        // Memory of another parameter may have another type.
        if find_pointer(tensor, offset) == pointer {
            readings.retain_mut(|candidate| candidate.add(offset, word, got, want).is_some());
        }
    }
    let least = readings
        .iter()
        .map(|candidate| candidate.reading.units)
        .min()?;
    readings
        .into_iter()
        .filter(|candidate| candidate.reading.units == least)
        // The words of a half can also be read as some bfloat16.
        .max_by_key(|candidate| candidate.is_usual)
        .map(|candidate| candidate.reading)
}

/// Returns the last pointer at or before an offset. Tensors of a program may share an allocation.
fn find_pointer(tensor: &Tensor, offset: usize) -> Option<Pointer> {
    tensor
        .pointers
        .iter()
        .filter(|pointer| pointer.offset <= offset as u64)
        .max_by_key(|pointer| pointer.offset)
        .copied()
}

/// A type that all differing words so far may have.
struct Candidate {
    reading: Reading,
    start: u64,
    is_usual: bool,
}

impl Candidate {
    fn new(elem: ElemType, pointer: Option<Pointer>) -> Self {
        Self {
            reading: Reading {
                parameter: pointer.map(|pointer| pointer.parameter),
                elem,
                index: 0,
                got: Num(0.0),
                want: Num(0.0),
                share: Num(0.0),
                units: 0,
            },
            start: pointer.map_or(0, |pointer| pointer.offset),
            is_usual: true,
        }
    }

    /// Adds the floats of one word. Returns `None` if they are none.
    fn add(&mut self, offset: usize, word: usize, got: u32, want: u32) -> Option<()> {
        let size = self.reading.elem.size();
        for part in (0..word).step_by(size) {
            let bits = |whole: u32| match size {
                2 => (whole >> (8 * part)) & 0xffff,
                _ => whole,
            };
            let (got, want) = (bits(got), bits(want));
            if got == want {
                continue;
            }
            let numbers = (
                normal_float(self.reading.elem, got.into())?,
                normal_float(self.reading.elem, want.into())?,
            );
            self.is_usual &= USUAL.contains(&numbers.0.abs()) && USUAL.contains(&numbers.1.abs());
            let share = (numbers.0 - numbers.1).abs() / numbers.0.abs().max(numbers.1.abs());
            self.reading.units = self.reading.units.max(units(size, got, want)?);
            if share > self.reading.share.0 {
                self.reading = Reading {
                    index: (offset as u64 + part as u64 - self.start) / size as u64,
                    got: Num(numbers.0),
                    want: Num(numbers.1),
                    share: Num(share),
                    ..self.reading
                };
            }
        }
        Some(())
    }
}

/// Returns the float that a word is, or `None` for 0, for denormal and infinite ones, and for NaN.
pub fn normal_float(floats: ElemType, word: i64) -> Option<f64> {
    let bits = u32::try_from(word).ok()?;
    let half = u16::try_from(word);
    match floats {
        ElemType::F32 => Some(f32::from_bits(bits))
            .filter(|float| float.is_normal())
            .map(f64::from),
        ElemType::F16 => Some(f16::from_bits(half.ok()?))
            .filter(|float| float.is_normal())
            .map(f64::from),
        ElemType::Bf16 => Some(bf16::from_bits(half.ok()?))
            .filter(|float| float.is_normal())
            .map(f64::from),
        _ => None,
    }
}

/// Counts the steps from one float to another of the same sign.
fn units(size: usize, got: u32, want: u32) -> Option<u64> {
    let sign = 1 << (8 * size - 1);
    (got & sign == want & sign).then(|| u64::from(got.abs_diff(want)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Role;

    fn pair(low: u16, high: u16) -> i64 {
        i64::from(u32::from(low) | u32::from(high) << 16)
    }

    fn memory(pointers: &[Pointer]) -> Tensor {
        Tensor {
            pointers: pointers.to_vec(),
            ..Tensor::new("at_1000", Role::Inout, ElemType::U32, vec![4])
        }
    }

    fn pointer(parameter: u32, offset: u64, elem: Option<ElemType>) -> Pointer {
        Pointer {
            parameter,
            offset,
            elem,
        }
    }

    #[test]
    fn one_unit_of_a_half_is_read_as_a_half() {
        let half = |value: f32| f16::from_f32(value).to_bits();
        let want = [pair(half(0.1), half(300.0)), 7, 7, 7];
        let got = [pair(half(0.1), half(300.0) + 1), 7, 7, 7];
        let reading = read(&got, &want, &memory(&[pointer(3, 0, None)])).unwrap();
        assert_eq!(
            (reading.elem, reading.units, reading.index),
            (ElemType::F16, 1, 1)
        );
        assert_eq!((reading.parameter, reading.want), (Some(3), Num(300.0)));
        let share = reading.share.0;
        assert!((share - 0.25 / 300.25).abs() < 1e-9, "{share}");
        // The kernel's name names another type.
        let named = memory(&[pointer(3, 0, Some(ElemType::F32))]);
        assert_eq!(read(&got, &want, &named).unwrap().elem, ElemType::F32);
    }

    #[test]
    fn values_of_bfloat16_and_of_float_are_read_as_such() {
        let brain = |value: f32| bf16::from_f32(value).to_bits();
        let want = [pair(brain(0.5), brain(-3.0)), 7, 7, 7];
        let got = [pair(brain(0.5) + 1, brain(-3.0)), 7, 7, 7];
        assert_eq!(
            read(&got, &want, &memory(&[])).unwrap().elem,
            ElemType::Bf16
        );
        let single = |value: f32| i64::from(value.to_bits());
        let round = read(&[single(1.0)], &[single(1.875)], &memory(&[])).unwrap();
        assert_eq!(round.elem, ElemType::F32);
        let got = [single(1.000_3), single(2.0), 7, 7];
        let reading = read(&got, &[single(1.0), single(2.0), 7, 7], &memory(&[])).unwrap();
        assert_eq!(
            (reading.elem, reading.want, reading.index),
            (ElemType::F32, Num(1.0), 0)
        );
    }

    #[test]
    fn an_element_is_counted_from_the_pointer_ahead_of_it() {
        let single = |value: f32| i64::from(value.to_bits());
        let pointers = [pointer(1, 0, None), pointer(2, 8, Some(ElemType::F32))];
        let want = [single(1.0), single(1.0), single(1.0), single(1.0)];
        let got = [single(1.0), single(1.0), single(1.0), single(1.5)];
        let reading = read(&got, &want, &memory(&pointers)).unwrap();
        assert_eq!((reading.parameter, reading.index), (Some(2), 1));
    }

    #[test]
    fn integers_and_other_signs_are_no_floats() {
        assert_eq!(read(&[7, 1], &[7, 2], &memory(&[])), None);
        let single = |value: f32| i64::from(value.to_bits());
        let (got, want) = ([single(1.0)], [single(-1.0)]);
        assert_eq!(read(&got, &want, &memory(&[])), None);
        assert_eq!(read(&[7], &[7], &memory(&[])), None, "nothing differs");
    }
}
