//! Computes how far an output is from the right answer.
//!
//! Nothing here may hide a NaN: non-finite values are counted before anything else, a limit holds only if `err <=
//! tolerance` is true, and a value that cannot be computed is NaN.

use super::compared::{ComparedElements, is_in};
use super::layout::index;
use super::reading::{self, normal_float};
use super::{Outputs, Values, order};
use model::{Compare, ElemType, ErrorFacts, Location, Num, Tensor, Worst};
use rayon::prelude::*;

/// The number of elements that are summed in one go. The sums of these chunks are added in their order, so that the
/// result does not depend on the number of threads.
const CHUNK: usize = 1 << 16;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    #[error("output `{0}` has no expected value")]
    NotExpected(String),
    #[error("output `{0}` was not read back")]
    NotThere(String),
    #[error("output `{tensor}` has {got} elements where {want} are expected")]
    Length {
        tensor: String,
        got: usize,
        want: usize,
    },
    #[error("output `{0}` is of integers on one side and of floats on the other")]
    Type(String),
    #[error("`compare` leaves nothing of output `{0}`")]
    NothingLeft(String),
    #[error("there is no output to compare")]
    Nothing,
}

/// Computes the errors of `got` against `want`, over the compared elements of every output of the case.
///
/// An element counts as non-finite if the two disagree about whether it is a number: `got` is NaN or infinite and
/// `want` is finite, or `want` is not finite and `got` is not the same infinity (or NaN for NaN). The errors of the
/// other elements are in f64, and exact for integers. NaN for NaN agrees and has no error. With several outputs,
/// `elements` and `non_finite` are sums, and every other value is that of the worst output, so that none hides behind
/// another. `rel_l2` is 0 if both are all zeros, and infinite if only `want` is. If no element is left to compute a
/// value from, it is NaN, which no limit allows.
///
/// # Errors
/// Fails if the two do not have the same outputs in the same shape.
pub fn errors(
    got: &Outputs,
    want: &Outputs,
    tensors: &[Tensor],
    compared: &ComparedElements,
    tolerance: Option<f64>,
) -> Result<ErrorFacts, Incomparable> {
    if let Some(name) = got.keys().find(|name| !want.contains_key(*name)) {
        return Err(Incomparable::NotExpected(name.clone()));
    }
    let mut facts: Option<ErrorFacts> = None;
    for (name, want) in want {
        let got = got
            .get(name)
            .ok_or_else(|| Incomparable::NotThere(name.clone()))?;
        let tensor = tensors
            .iter()
            .find(|tensor| tensor.name == *name)
            .ok_or_else(|| Incomparable::NotExpected(name.clone()))?;
        let one = compare_one(got, want, tensor, compared.part(name), tolerance)?;
        facts = Some(match facts {
            None => one,
            Some(others) => together(others, one),
        });
    }
    facts.ok_or(Incomparable::Nothing)
}

fn compare_one(
    got: &Values,
    want: &Values,
    tensor: &Tensor,
    part: Option<&[bool]>,
    tolerance: Option<f64>,
) -> Result<ErrorFacts, Incomparable> {
    if got.len() != want.len() || want.len() != tensor.len() {
        return Err(Incomparable::Length {
            tensor: tensor.name.clone(),
            got: got.len(),
            want: tensor.len(),
        });
    }
    let elements = match part {
        None => want.len(),
        Some(part) => part.iter().filter(|is_compared| **is_compared).count(),
    };
    if elements == 0 && !want.is_empty() {
        return Err(Incomparable::NothingLeft(tensor.name.clone()));
    }
    let ordered = match tensor.compare {
        Some(Compare::Unordered { axis }) => Some(order::ordered_as(got, want, tensor, axis)),
        _ => None,
    };
    let got = ordered.as_ref().unwrap_or(got);
    let sums = match (got, want) {
        (Values::F32(got), Values::F32(want)) => {
            accumulate(got, want, part, tolerance, |got: f32, want: f32| {
                float_error(got.into(), want.into())
            })
        }
        (Values::F64(got), Values::F64(want)) => {
            accumulate(got, want, part, tolerance, float_error)
        }
        (Values::I64(got), Values::I64(want))
            if tensor.floats.is_some() || tensor.left.is_some() =>
        {
            accumulate(got, want, part, tolerance, |got: i64, want: i64| {
                word_error(tensor.floats, got, want)
            })
        }
        (Values::I64(got), Values::I64(want)) => {
            accumulate(got, want, part, tolerance, |got: i64, want: i64| {
                Difference::Apart(got.abs_diff(want) as f64, want as f64)
            })
        }
        _ => return Err(Incomparable::Type(tensor.name.clone())),
    };
    let worst = sums.first_non_finite.or(sums.largest.map(|(_, at)| at));
    let compared = elements as u64 - sums.non_finite - sums.no_numbers;
    let rel_l2 = match (sums.error_squared, sums.want_squared) {
        _ if compared == 0 => f64::NAN,
        (0.0, 0.0) => 0.0,
        (error, want) => (error / want).sqrt(),
    };
    Ok(ErrorFacts {
        elements: elements as u64,
        left_out: (want.len() - elements) as u64,
        non_finite: sums.non_finite,
        max_err: Num(sums.largest.map_or(f64::NAN, |(error, _)| error)),
        mean_err: Num(sums.error / compared as f64),
        rel_l2: Num(rel_l2),
        over_tolerance: tolerance.map(|_| match compared + sums.non_finite {
            0 => Num(f64::NAN),
            _ => Num(sums.over as f64 / elements as f64),
        }),
        worst: worst.map(|at| {
            Box::new(Worst {
                at: Location {
                    tensor: tensor.name.clone(),
                    index: index(&tensor.dims, at),
                },
                got: Num(element(got, at, tensor)),
                want: Num(element(want, at, tensor)),
                arose: Vec::new(),
                reading: match (got, want) {
                    (Values::I64(got), Values::I64(want)) if tensor.address.is_some() => {
                        reading::read(got, want, tensor).map(Box::new)
                    }
                    _ => None,
                },
            })
        }),
    })
}

#[derive(Clone, Copy, Default)]
struct Sums {
    non_finite: u64,
    no_numbers: u64,
    first_non_finite: Option<usize>,
    over: u64,
    error: f64,
    error_squared: f64,
    want_squared: f64,
    /// The largest error and its position. Among equal errors the first counts.
    largest: Option<(f64, usize)>,
}

fn accumulate<T: Copy + Sync>(
    got: &[T],
    want: &[T],
    part: Option<&[bool]>,
    tolerance: Option<f64>,
    difference: impl Fn(T, T) -> Difference + Sync,
) -> Sums {
    let chunks: Vec<Sums> = got
        .par_chunks(CHUNK)
        .zip(want.par_chunks(CHUNK))
        .enumerate()
        .map(|(chunk, (got, want))| {
            let mut sums = Sums::default();
            for (at, (&got, &want)) in got.iter().zip(want).enumerate() {
                let at = chunk * CHUNK + at;
                if !is_in(part, at) {
                    continue;
                }
                let (error, size) = match difference(got, want) {
                    Difference::Apart(error, size) => (error, size),
                    Difference::NoNumbers => {
                        sums.no_numbers += 1;
                        continue;
                    }
                    Difference::Disagree => {
                        sums.non_finite += 1;
                        sums.over += 1;
                        sums.first_non_finite.get_or_insert(at);
                        continue;
                    }
                };
                let within = tolerance.is_none_or(|tolerance| error <= tolerance);
                sums.over += u64::from(!within);
                sums.error += error;
                sums.error_squared += error * error;
                sums.want_squared += size * size;
                if sums.largest.is_none_or(|(largest, _)| error > largest) {
                    sums.largest = Some((error, at));
                }
            }
            sums
        })
        .collect();
    chunks.into_iter().fold(Sums::default(), |all, one| Sums {
        non_finite: all.non_finite + one.non_finite,
        no_numbers: all.no_numbers + one.no_numbers,
        first_non_finite: all.first_non_finite.or(one.first_non_finite),
        over: all.over + one.over,
        error: all.error + one.error,
        error_squared: all.error_squared + one.error_squared,
        want_squared: all.want_squared + one.want_squared,
        largest: match (all.largest, one.largest) {
            (Some(all), Some(one)) if one.0 > all.0 => Some(one),
            (None, one) => one,
            (all, _) => all,
        },
    })
}

/// One element compared with its expected value.
enum Difference {
    /// The two differ: |got - want| and |want|.
    Apart(f64, f64),
    /// Both are NaN. They agree, and say nothing about how right the kernel is.
    NoNumbers,
    /// They disagree about whether the element is a number.
    Disagree,
}

fn float_error(got: f64, want: f64) -> Difference {
    if got.is_finite() && want.is_finite() {
        return Difference::Apart((got - want).abs(), want);
    }
    match (got == want, got.is_nan() && want.is_nan()) {
        (true, _) => Difference::Apart(0.0, 0.0),
        (_, true) => Difference::NoNumbers,
        _ => Difference::Disagree,
    }
}

/// Compares words that may be floats, and returns the difference as a share of the larger one. Small integers are no
/// normal floats, and neither is 0. If one word is not a normal float, both must be equal. Without `floats`
/// all words must be.
fn word_error(floats: Option<ElemType>, got: i64, want: i64) -> Difference {
    if got == want {
        return Difference::Apart(0.0, 0.0);
    }
    let float = |word| normal_float(floats?, word);
    match (float(got), float(want)) {
        (Some(got), Some(want)) => {
            let larger = got.abs().max(want.abs());
            Difference::Apart((got - want).abs() / larger, 1.0)
        }
        _ => Difference::Apart(f64::INFINITY, 1.0),
    }
}

fn element(values: &Values, at: usize, tensor: &Tensor) -> f64 {
    match values {
        Values::F32(values) => f64::from(values[at]),
        Values::F64(values) => values[at],
        Values::I64(values) => {
            let integer = values[at];
            tensor
                .floats
                .and_then(|floats| normal_float(floats, integer))
                .unwrap_or(integer as f64)
        }
    }
}

/// Combines two outputs of one launch.
fn together(one: ErrorFacts, other: ErrorFacts) -> ErrorFacts {
    ErrorFacts {
        elements: one.elements + other.elements,
        left_out: one.left_out + other.left_out,
        non_finite: one.non_finite + other.non_finite,
        ..worse(one, other)
    }
}

/// Combines two launches: each value is the worse of the two, so that no bad value hides behind a worse one of another
/// kind.
pub fn combine_launches(one: ErrorFacts, other: ErrorFacts) -> ErrorFacts {
    ErrorFacts {
        non_finite: one.non_finite.max(other.non_finite),
        ..worse(one, other)
    }
}

/// Returns the worse of each value, with the counts of `one`. The place is where the first element is not a number, or
/// else where the error is largest.
fn worse(one: ErrorFacts, other: ErrorFacts) -> ErrorFacts {
    let larger = |one: Num, other: Num| {
        // NaN is worse than any number.
        if one.0.is_nan() || one.0 >= other.0 {
            one
        } else {
            other
        }
    };
    let first = match (one.non_finite, other.non_finite) {
        (0, 0) => one.max_err.0 >= other.max_err.0,
        (found, _) => found > 0,
    };
    ErrorFacts {
        max_err: larger(one.max_err, other.max_err),
        mean_err: larger(one.mean_err, other.mean_err),
        rel_l2: larger(one.rel_l2, other.rel_l2),
        over_tolerance: one
            .over_tolerance
            .zip(other.over_tolerance)
            .map(|(one, other)| larger(one, other)),
        worst: if first {
            one.worst.or(other.worst)
        } else {
            other.worst.or(one.worst)
        },
        ..one
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::output;
    use half::f16;
    use model::Expr;
    use proptest::prelude::*;

    fn compare(got: &[f32], want: &[f32], tolerance: Option<f64>) -> ErrorFacts {
        let wrap = |values: &[f32]| Outputs::from([("y".to_owned(), Values::F32(values.to_vec()))]);
        let tensors = [output("y", ElemType::F32, &[want.len()])];
        errors(
            &wrap(got),
            &wrap(want),
            &tensors,
            &ComparedElements::all(),
            tolerance,
        )
        .unwrap()
    }

    fn within(facts: &ErrorFacts, tolerance: f64) -> bool {
        facts.non_finite == 0 && facts.max_err.0 <= tolerance
    }

    #[test]
    fn words_of_a_program_are_compared_as_floats_where_both_are_such() {
        let bits = |value: f32| i64::from(value.to_bits());
        let half = |value: f32| i64::from(f16::from_f32(value).to_bits());
        for (floats, got, want, error) in [
            (ElemType::F32, bits(1.0), bits(1.0), 0.0),
            (ElemType::F32, bits(3.0), bits(4.0), 0.25),
            (ElemType::F32, bits(-4.0), bits(4.0), 2.0),
            (ElemType::F16, half(3.0), half(4.0), 0.25),
            // These are indices, and a float that is not there.
            (ElemType::F32, 7, 7, 0.0),
            (ElemType::F32, 7, 8, f64::INFINITY),
            (ElemType::F32, 0, bits(1e-9), f64::INFINITY),
            (ElemType::F32, bits(f32::NAN), bits(1.0), f64::INFINITY),
            (ElemType::F32, bits(f32::NAN), bits(f32::NAN), 0.0),
        ] {
            let mut tensor = Tensor::new("y", model::Role::Inout, ElemType::U32, vec![1]);
            tensor.floats = Some(floats);
            let values = |word: i64| Values::I64(vec![word]);
            let facts = compare_one(&values(got), &values(want), &tensor, None, Some(0.3)).unwrap();
            assert_eq!(facts.max_err, Num(error), "{got:#x} {want:#x}");
            let over = Num(f64::from(u8::from(error > 0.3)));
            assert_eq!((facts.over_tolerance, facts.non_finite), (Some(over), 0));
        }
    }

    #[test]
    fn slices_without_order_are_each_compared_with_one_of_the_reference() {
        let unordered = |got: &[f32], want: &[f32], dims: &[usize], axis: usize| {
            let mut tensor = output("y", ElemType::F32, dims);
            tensor.compare = Some(Compare::Unordered { axis });
            let values = |values: &[f32]| Values::F32(values.to_vec());
            compare_one(&values(got), &values(want), &tensor, None, None).unwrap()
        };
        let rows = |got: &[f32]| unordered(got, &[1.0, 2.0, 3.0, 4.0, 5.0, 5.0], &[2, 3], 1);
        assert_eq!(rows(&[3.0, 1.0, 2.0, 5.0, 4.0, 5.0]).max_err, Num(0.0));
        // The row has each value as often as the reference's.
        let found = rows(&[3.0, 1.0, 2.0, 4.0, 4.0, 5.0]);
        assert_eq!(found.max_err, Num(1.0));
        let worst = found.worst.unwrap();
        assert_eq!(
            (worst.at.index, worst.got, worst.want),
            (vec![1, 1], Num(4.0), Num(5.0))
        );
        assert_eq!(rows(&[4.0, 1.0, 2.0, 5.0, 3.0, 5.0]).max_err, Num(1.0));
        let pairs = |got: &[f32]| unordered(got, &[1.0, 9.0, 2.0, 8.0], &[2, 2], 0);
        assert_eq!(pairs(&[2.0, 8.0, 1.0, 9.0]).max_err, Num(0.0));
        assert_eq!(pairs(&[2.0, 9.0, 1.0, 8.0]).max_err, Num(1.0));
        let special = unordered(
            &[f32::NAN, 1.0, f32::NEG_INFINITY],
            &[f32::NEG_INFINITY, -f32::NAN, 1.0],
            &[3],
            0,
        );
        assert_eq!((special.non_finite, special.max_err), (0, Num(0.0)));
    }

    #[test]
    fn figures_of_a_small_example() {
        let facts = compare(&[1.0, 2.5, 3.0, -4.0], &[1.0, 2.0, 3.0, -3.0], Some(0.5));
        assert_eq!(facts.elements, 4);
        assert_eq!(facts.max_err, Num(1.0));
        assert_eq!(facts.mean_err, Num(0.375));
        assert_eq!(facts.rel_l2, Num((1.25f64 / 23.0).sqrt()));
        assert_eq!(facts.over_tolerance, Some(Num(0.25)));
        let worst = facts.worst.unwrap();
        assert_eq!(
            (worst.at.index, worst.got, worst.want),
            (vec![3], Num(-4.0), Num(-3.0))
        );
    }

    #[test]
    fn equal_is_zero_and_zero_against_zero_is_zero() {
        let facts = compare(&[0.0, 0.0], &[0.0, -0.0], Some(0.0));
        assert_eq!(
            (facts.max_err, facts.rel_l2, facts.over_tolerance),
            (Num(0.0), Num(0.0), Some(Num(0.0)))
        );
        let facts = compare(&[1.0, 0.0], &[0.0, 0.0], None);
        assert_eq!(
            (facts.rel_l2, facts.over_tolerance),
            (Num(f64::INFINITY), None)
        );
    }

    #[test]
    fn one_nan_among_many_is_counted_and_shown() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let want = vec![1.0; 3 * CHUNK];
            let mut got = want.clone();
            got[CHUNK + 1] = bad;
            got[5] = 1.5;
            let facts = compare(&got, &want, Some(1.0));
            assert_eq!(facts.non_finite, 1);
            assert_eq!(facts.max_err, Num(0.5));
            assert_eq!(facts.over_tolerance, Some(Num(1.0 / (3 * CHUNK) as f64)));
            let worst = facts.worst.unwrap();
            assert_eq!(
                (worst.at.index, worst.got),
                (vec![CHUNK + 1], Num(bad.into()))
            );
        }
    }

    #[test]
    fn nothing_finite_holds_no_limit() {
        let facts = compare(&[f32::NAN; 3], &[1.0; 3], Some(f64::INFINITY));
        assert_eq!(facts.non_finite, 3);
        assert!(facts.max_err.0.is_nan() && facts.mean_err.0.is_nan() && facts.rel_l2.0.is_nan());
        assert_eq!(facts.over_tolerance, Some(Num(1.0)));
        let empty = compare(&[], &[], Some(1.0));
        assert!(empty.max_err.0.is_nan() && empty.over_tolerance.unwrap().0.is_nan());
    }

    #[test]
    fn a_tolerance_of_nan_holds_nothing() {
        assert_eq!(
            compare(&[1.0], &[1.0], Some(f64::NAN)).over_tolerance,
            Some(Num(1.0))
        );
    }

    #[test]
    fn a_non_finite_reference_accepts_only_the_same_value() {
        let inf = f32::INFINITY;
        for (got, want, disagree) in [
            (inf, inf, 0),
            (f32::NAN, f32::NAN, 0),
            (-inf, inf, 1),
            (f32::MAX, inf, 1),
            (f32::NAN, inf, 1),
            (inf, f32::NAN, 1),
            (0.0, f32::NAN, 1),
        ] {
            assert_eq!(
                compare(&[got, 1.0], &[want, 1.0], None).non_finite,
                disagree,
                "{got} {want}"
            );
        }
    }

    /// This happens for inputs beyond the range of their type: any kernel that gives NaN would be right.
    #[test]
    fn a_reference_of_nan_only_compares_nothing() {
        let facts = compare(&[f32::NAN; 3], &[f32::NAN; 3], Some(1.0));
        assert_eq!((facts.elements, facts.non_finite), (3, 0));
        let figures = [facts.max_err, facts.mean_err, facts.rel_l2];
        assert!(figures.iter().all(|figure| figure.0.is_nan()));
        assert!(facts.over_tolerance.unwrap().0.is_nan());
        assert!(!within(&facts, f64::INFINITY));
        // One number is enough for a comparison.
        let facts = compare(&[f32::NAN, 2.0], &[f32::NAN, 1.0], Some(1.0));
        assert_eq!((facts.max_err, facts.mean_err), (Num(1.0), Num(1.0)));
        assert!(within(&facts, 1.0));
        let inf = f32::INFINITY;
        assert_eq!(compare(&[inf], &[inf], None).max_err, Num(0.0));
    }

    /// Compares the lower triangle of `y` [2, 2].
    fn lower() -> (Vec<Tensor>, ComparedElements) {
        let mut y = output("y", ElemType::F32, &[2, 2]);
        y.compare = Some(Compare::Where {
            condition: Expr {
                text: "i >= j".to_owned(),
                constants: [].into(),
            },
            index: vec!["i".to_owned(), "j".to_owned()],
        });
        let case = crate::testing::case(vec![y]);
        let compared = ComparedElements::for_case(&case, &|_| None).unwrap();
        (case.tensors, compared)
    }

    #[test]
    fn elements_left_out_count_in_no_metric() {
        let (tensors, compared) = lower();
        let y = |values: [f32; 4]| Outputs::from([("y".to_owned(), Values::F32(values.to_vec()))]);
        let want = y([1.0, 2.0, 3.0, 4.0]);
        for outside in [f32::NAN, 2.0, 1e30] {
            let got = y([1.0, outside, 3.5, 4.0]);
            let facts = errors(&got, &want, &tensors, &compared, Some(0.1)).unwrap();
            assert_eq!(
                (facts.elements, facts.left_out, facts.non_finite),
                (3, 1, 0)
            );
            assert_eq!(
                (facts.max_err, facts.over_tolerance),
                (Num(0.5), Some(Num(1.0 / 3.0)))
            );
            assert_eq!(facts.mean_err, Num(0.5 / 3.0));
            assert_eq!(facts.worst.unwrap().at.index, [1, 0]);
        }
        let facts = errors(
            &y([1.0, 2.0, 3.0, f32::NAN]),
            &want,
            &tensors,
            &compared,
            None,
        );
        assert_eq!(facts.unwrap().non_finite, 1);
    }

    #[test]
    fn a_part_that_is_empty_is_no_comparison() {
        let mut y = output("y", ElemType::F32, &[2]);
        y.compare = Some(Compare::Mask { tensor: "m".into() });
        let case = crate::testing::case(vec![y]);
        let none = ComparedElements::for_case(&case, &|_| Some(Values::I64(vec![0, 0]))).unwrap();
        let y = Outputs::from([("y".to_owned(), Values::F32(vec![1.0; 2]))]);
        assert_eq!(
            errors(&y, &y, &case.tensors, &none, None),
            Err(Incomparable::NothingLeft("y".to_owned()))
        );
    }

    #[test]
    fn f64_is_compared_in_f64() {
        let y = |values: [f64; 2]| Outputs::from([("y".to_owned(), Values::F64(values.to_vec()))]);
        let tensors = [output("y", ElemType::F64, &[2])];
        let all = ComparedElements::all();
        let compare = |got, want| errors(&y(got), &y(want), &tensors, &all, Some(0.0)).unwrap();
        let facts = compare([1.0 + f64::EPSILON, 1e300], [1.0, 1e300]);
        assert_eq!(
            (facts.max_err, facts.over_tolerance),
            (Num(f64::EPSILON), Some(Num(0.5)))
        );
        assert_eq!(compare([f64::NAN, 1.0], [1.0, 1.0]).non_finite, 1);
    }

    #[test]
    fn integers_are_compared_exactly() {
        let wrap = |values: &[i64]| Outputs::from([("y".to_owned(), Values::I64(values.to_vec()))]);
        let tensors = [output("y", ElemType::I64, &[2])];
        let facts = errors(
            &wrap(&[i64::MAX, 1]),
            &wrap(&[i64::MAX - 1, 1]),
            &tensors,
            &ComparedElements::all(),
            Some(0.0),
        )
        .unwrap();
        assert_eq!(
            (facts.max_err, facts.over_tolerance),
            (Num(1.0), Some(Num(0.5)))
        );
    }

    #[test]
    fn the_worst_output_is_the_one_that_shows() {
        let outputs = |y: &[f32], z: &[f32]| {
            Outputs::from([
                ("y".to_owned(), Values::F32(y.to_vec())),
                ("z".to_owned(), Values::F32(z.to_vec())),
            ])
        };
        let tensors = [
            output("y", ElemType::F32, &[2]),
            output("z", ElemType::F32, &[1]),
        ];
        let want = outputs(&[1000.0, 1000.0], &[0.001]);
        let facts = errors(
            &outputs(&[1000.0, 1000.5], &[0.101]),
            &want,
            &tensors,
            &ComparedElements::all(),
            Some(0.01),
        )
        .unwrap();
        assert_eq!((facts.elements, facts.max_err), (3, Num(0.5)));
        assert!((facts.rel_l2.0 - 100.0).abs() < 1e-3);
        assert_eq!(facts.over_tolerance, Some(Num(1.0)));
        assert_eq!(facts.worst.unwrap().at.tensor, "y");
        let facts = errors(
            &outputs(&[1000.0, 1900.0], &[f32::NAN]),
            &want,
            &tensors,
            &ComparedElements::all(),
            None,
        )
        .unwrap();
        assert_eq!(facts.worst.unwrap().at.tensor, "z");
        assert!(facts.rel_l2.0.is_nan() && facts.max_err.0.is_nan());
    }

    #[test]
    fn does_not_compare_missing_or_misshapen_tensors() {
        let y = Outputs::from([("y".to_owned(), Values::F32(vec![1.0]))]);
        let short = Outputs::from([("y".to_owned(), Values::F32(vec![]))]);
        let whole = Outputs::from([("y".to_owned(), Values::I64(vec![1]))]);
        let tensors = [output("y", ElemType::F32, &[1])];
        let check = |got: &Outputs, want: &Outputs| {
            errors(got, want, &tensors, &ComparedElements::all(), None).unwrap_err()
        };
        assert_eq!(
            check(&y, &Outputs::new()),
            Incomparable::NotExpected("y".to_owned())
        );
        assert_eq!(
            check(&Outputs::new(), &y),
            Incomparable::NotThere("y".to_owned())
        );
        assert_eq!(
            check(&Outputs::new(), &Outputs::new()),
            Incomparable::Nothing
        );
        assert!(matches!(check(&short, &y), Incomparable::Length { .. }));
        assert!(matches!(check(&y, &short), Incomparable::Length { .. }));
        assert_eq!(check(&whole, &y), Incomparable::Type("y".to_owned()));
    }

    proptest! {
        /// This is the purpose of the gate: one element beyond the tolerance is always seen, wherever it is.
        #[test]
        fn one_wrong_element_never_passes(
            want in proptest::collection::vec(-1e3f32..1e3, 1..200),
            at: prop::sample::Index,
            tolerance in 1e-6..1.0f64,
            factor in 1.1..1e6f64,
            sign: bool,
        ) {
            let at = at.index(want.len());
            let mut got = want.clone();
            let shift = tolerance * factor * if sign { 1.0 } else { -1.0 };
            got[at] = (f64::from(want[at]) + shift) as f32;
            prop_assume!((f64::from(got[at]) - f64::from(want[at])).abs() > tolerance);
            let facts = compare(&got, &want, Some(tolerance));
            prop_assert!(!within(&facts, tolerance));
            prop_assert!(facts.over_tolerance.unwrap().0 > 0.0);
            prop_assert_eq!(facts.worst.unwrap().at.index, vec![at]);
            prop_assert!(within(&compare(&want, &want, Some(tolerance)), 0.0));
        }

        #[test]
        fn figures_agree_with_the_naive_ones(pairs in proptest::collection::vec((-9f32..9.0, -9f32..9.0), 1..300)) {
            let (got, want): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            let facts = compare(&got, &want, Some(3.0));
            let errors: Vec<f64> = pairs.iter().map(|(got, want)| (f64::from(*got) - f64::from(*want)).abs()).collect();
            let count = errors.len() as f64;
            prop_assert_eq!(facts.max_err.0, errors.iter().fold(0.0, |a: f64, b| a.max(*b)));
            prop_assert!((facts.mean_err.0 - errors.iter().sum::<f64>() / count).abs() < 1e-12);
            let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
            let rel = norm(&mut errors.iter().copied()) / norm(&mut want.iter().map(|x| f64::from(*x)));
            prop_assert!((facts.rel_l2.0 - rel).abs() <= 1e-12 * rel);
            prop_assert_eq!(facts.over_tolerance.unwrap().0, errors.iter().filter(|e| **e > 3.0).count() as f64 / count);
        }
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        let want: Vec<f32> = (0..5 * CHUNK).map(|i| (i as f32).sin()).collect();
        let got: Vec<f32> = want.iter().map(|x| x * 1.000_1).collect();
        let facts = compare(&got, &want, Some(1e-5));
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            assert_eq!(pool.install(|| compare(&got, &want, Some(1e-5))), facts);
        }
    }

    #[test]
    fn no_figure_of_a_launch_hides_behind_another_of_a_worse_one() {
        let facts = |non_finite, max_err: f64, rel_l2| ErrorFacts {
            elements: 4,
            left_out: 0,
            non_finite,
            max_err: Num(max_err),
            mean_err: Num(max_err / 2.0),
            rel_l2: Num(rel_l2),
            over_tolerance: Some(Num(rel_l2)),
            worst: None,
        };
        let worst = combine_launches(facts(0, 0.5, 0.1), facts(1, 0.4, 0.9));
        let expected = ErrorFacts {
            mean_err: Num(0.25),
            ..facts(1, 0.5, 0.9)
        };
        assert_eq!(worst, expected);
        for (one, other) in [(f64::NAN, 0.4), (0.4, f64::NAN)] {
            let worst = combine_launches(facts(0, one, 0.1), facts(0, other, 0.2));
            assert!(worst.max_err.0.is_nan() && worst.mean_err.0.is_nan());
            assert_eq!(worst.rel_l2, Num(0.2));
        }
    }
}
