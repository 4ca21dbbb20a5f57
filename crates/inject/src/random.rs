//! Replaces floats by random values, for captures that other people may see. Memory has no types, so each granule is
//! taken for floats if all of its words can be floats. Pure.

use capture::RandomInputs;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::ops::Range;

/// The size in bytes of a granule, which is floats of one format or nothing. Allocations of CUDA are aligned to this,
/// and tensors that PyTorch puts into one allocation to twice as much.
const GRANULE: usize = 256;

/// The seed of the values. Captures of two versions of a program must have the same values, so these depend only on the
/// address, and their signs on whether any value is negative.
const SEED: u64 = 0x67617465_6b656570;

/// The number of common floats for which one tiny float is allowed.
const FLOATS_FOR_EACH_TINY: usize = 8;

/// A format in which floats are stored.
#[derive(Debug, PartialEq, Eq)]
struct FloatFormat {
    bytes: usize,
    /// The number of bits below the exponent.
    fraction: u32,
    /// The largest exponent, which means infinities and NaN.
    infinite: u64,
    /// Exponents, with their bias, of common floats. The smaller ones are seldom in floats, and often in integers.
    common: Range<u64>,
}

/// 2^-14 to 2^9: all but the subnormal ones and the largest. Text in small letters would read as larger ones.
const F16: FloatFormat = FloatFormat {
    bytes: 2,
    fraction: 10,
    infinite: 0x1f,
    common: 1..24,
};

/// The common floats are 2^-40 to 2^24.
const BF16: FloatFormat = FloatFormat {
    bytes: 2,
    fraction: 7,
    infinite: 0xff,
    common: 87..151,
};

/// 2^-64 to 2^24. Integers that read so are between 528 million and 1.27 billion.
const F32: FloatFormat = FloatFormat {
    bytes: 4,
    fraction: 23,
    infinite: 0xff,
    common: 63..151,
};

/// The common floats are 2^-64 to 2^64.
const F64: FloatFormat = FloatFormat {
    bytes: 8,
    fraction: 52,
    infinite: 0x7ff,
    common: 959..1087,
};

/// The ways in which a word can be read in a format.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordClass {
    Common,
    /// Zeros, infinities, and NaN of the wide formats, which are masks and padding.
    Special,
    Tiny,
    /// Words that are too large, or NaN of the narrow formats: small negative integers look like these.
    Other,
}

impl FloatFormat {
    fn read(&self, word: u64) -> WordClass {
        let exponent = word >> self.fraction & self.infinite;
        let fraction = word & ((1 << self.fraction) - 1);
        match (exponent, fraction) {
            (0, 0) => WordClass::Special,
            (exponent, fraction) if exponent == self.infinite => {
                if fraction == 0 || self.bytes > 2 {
                    WordClass::Special
                } else {
                    WordClass::Other
                }
            }
            (bits, _) if self.common.contains(&bits) => WordClass::Common,
            (exponent, _) if exponent < self.common.start => WordClass::Tiny,
            _ => WordClass::Other,
        }
    }

    /// Returns true if a granule can have floats of this format and nothing else.
    fn fits(&self, granule: &[u8]) -> bool {
        let (mut common, mut tiny) = (0, 0);
        for word in words(granule, self.bytes) {
            match self.read(word) {
                WordClass::Common => common += 1,
                WordClass::Tiny => tiny += 1,
                WordClass::Special => {}
                WordClass::Other => return false,
            }
        }
        common > 0 && tiny * FLOATS_FOR_EACH_TINY <= common
    }

    /// Returns true if nearly all words at even places are floats of this format. If one at an odd place is not, the
    /// two words can still be a wider float.
    fn has_lower_halves(&self, granule: &[u8]) -> bool {
        let lower = words(granule, self.bytes).step_by(2);
        let (mut all, mut common) = (0, 0);
        for word in lower {
            all += 1;
            common += usize::from(self.read(word) == WordClass::Common);
        }
        common * 8 >= all * 7
    }

    /// Returns true if all words end in zero bits, as small whole numbers do.
    fn is_coarse(&self, granule: &[u8]) -> bool {
        let end = match self.bytes {
            2 => return false,
            4 => 0xfff,
            _ => 0xffff_ffff,
        };
        words(granule, self.bytes).all(|word| word & end == 0)
    }

    fn is_negative(&self, word: u64) -> bool {
        word >> (8 * self.bytes - 1) == 1
    }

    /// Returns a positive float of moderate size. With `is_coarse`, the lower half of its bits is zero.
    fn draw(&self, random: u64, is_coarse: bool) -> u64 {
        let (drawn, low) = match self.bytes {
            2 => (u64::from(draw_half(random)), 0),
            4 => (u64::from(draw_single(random).to_bits()), 0xffff),
            _ => (draw_double(random).to_bits(), 0xffff_ffff),
        };
        if is_coarse { drawn & !low } else { drawn }
    }
}

/// Replaces what can only be floats, in memory that starts at an address. Zeros, infinities and tiny values stay.
pub fn replace_floats(
    address: u64,
    content: &mut [u8],
    is_pointer: &dyn Fn(u64) -> bool,
) -> RandomInputs {
    let mut account = RandomInputs::default();
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let places = (address..).step_by(GRANULE);
    for (place, granule) in places.zip(content.chunks_mut(GRANULE)) {
        match find_floats(granule, is_pointer) {
            Some(floats) => {
                // The position is in words of 32 bits.
                random.set_word_pos(u128::from(place / 4));
                replace(granule, &floats, &mut random, &mut account);
            }
            None => account.kept += count_nonzero(granule),
        }
    }
    account
}

pub fn count_nonzero(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte != 0).count() as u64
}

/// The format and the places of a granule's floats.
struct Floats {
    format: &'static FloatFormat,
    /// True if the words that are not common floats are floats, too.
    has_outliers: bool,
}

impl Floats {
    fn common(format: &'static FloatFormat) -> Self {
        Self {
            format,
            has_outliers: false,
        }
    }
}

/// Finds the floats of a granule. Returns `None` for a granule that has anything but floats.
fn find_floats(granule: &[u8], is_pointer: &dyn Fn(u64) -> bool) -> Option<Floats> {
    let are_zero = |width, first| {
        let mut words = words(granule, width).skip(first).step_by(2);
        words.all(|word| word == 0)
    };
    // Whole numbers of 32 and 64 bits that half as many bits hold: the lower halves alone could read as floats.
    if words(granule, 8).any(is_pointer) || are_zero(2, 1) || are_zero(4, 1) {
        return None;
    }
    let fitting = |format: &'static FloatFormat| format.fits(granule).then_some(format);
    let (single, double) = (fitting(&F32), fitting(&F64));
    let mut coarse = [double, single].into_iter().flatten();
    if let Some(coarse) = coarse.find(|bits| bits.is_coarse(granule)) {
        return Some(Floats::common(coarse));
    }
    // Whole numbers have zeros in their lower halves, and would read as f16, too.
    let half = [&F16, &BF16].into_iter().find(|bits| bits.fits(granule));
    let half = half.filter(|_| !are_zero(2, 0));
    // Two narrow floats next to each other look like a wide one. The reverse hardly happens.
    let wide = half.or(single).or(double)?;
    let narrower: &[&'static FloatFormat] = match wide.bytes {
        2 => &[],
        4 => &[&F16, &BF16],
        _ => &[&F32],
    };
    let narrow = narrower.iter().find(|bits| bits.has_lower_halves(granule));
    Some(match narrow {
        Some(narrow) => Floats {
            format: narrow,
            has_outliers: true,
        },
        None => Floats::common(wide),
    })
}

/// Returns the little-endian words of the bytes.
fn words(bytes: &[u8], width: usize) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(width).map(|word| {
        word.iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    })
}

fn replace(
    granule: &mut [u8],
    floats: &Floats,
    random: &mut ChaCha8Rng,
    account: &mut RandomInputs,
) {
    let format = floats.format;
    // Narrower floats with zeros between them may be read as this format, and the zeros stay.
    let is_coarse = format.is_coarse(granule);
    // Probabilities, variances and numbers of steps are never negative, and programs take roots of them.
    let is_signed = words(granule, format.bytes)
        .any(|word| format.read(word) == WordClass::Common && format.is_negative(word));
    let mut words_of = granule.chunks_exact_mut(format.bytes);
    for bytes in &mut words_of {
        // Each place has a draw of its own, which does not depend on the other places.
        let bits = random.next_u64();
        let sign = u64::from(is_signed) & bits;
        let drawn = format.draw(bits, is_coarse) | sign << (8 * format.bytes - 1);
        let word = words(bytes, format.bytes).next().unwrap_or_default();
        match format.read(word) {
            WordClass::Special => {}
            WordClass::Tiny | WordClass::Other if !floats.has_outliers => {
                account.kept += count_nonzero(bytes);
            }
            WordClass::Common | WordClass::Tiny | WordClass::Other => {
                account.replaced += format.bytes as u64;
                for (byte, drawn) in bytes.iter_mut().zip(drawn.to_le_bytes()) {
                    *byte = drawn;
                }
            }
        }
    }
    account.kept += count_nonzero(words_of.into_remainder());
}

/// Makes bits whose value is moderate in each reading: 0.75 to 2 as f16, 2^-11 to 2 as bf16, and as two floats of 8
/// bits 0.125 to 2 (e4m3) or 2^-7 to 2 (e5m2).
fn draw_half(random: u64) -> u16 {
    let [_, high, low, ..] = random.to_le_bytes();
    u16::from_le_bytes([0x20 | low & 0x1f, 0x3a + high % 6])
}

/// Returns a float between 0 and 1.
fn draw_single(random: u64) -> f32 {
    // The number is odd, and has the 24 bits of an f32.
    ((random >> 41) as f32 * 2.0 + 1.0) * 2f32.powi(-24)
}

/// Returns a float between 0 and 1.
fn draw_double(random: u64) -> f64 {
    ((random >> 12) as f64 * 2.0 + 1.0) * 2f64.powi(-53)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use proptest::prelude::*;

    const PLACE: u64 = capture::addresses::FIRST;

    /// Returns true for an address that captures use.
    fn is_pointer(word: u64) -> bool {
        (PLACE..PLACE + (80 << 30)).contains(&word)
    }

    fn replaced(content: &[u8]) -> (Vec<u8>, RandomInputs) {
        let mut content = content.to_vec();
        let account = replace_floats(PLACE, &mut content, &is_pointer);
        (content, account)
    }

    fn is_kept(content: &[u8]) -> bool {
        let (now, account) = replaced(content);
        now == content && account.replaced == 0
    }

    fn bytes<T, const N: usize>(values: &[T], write: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(write).collect()
    }

    /// Returns values like those of weights, activations and gradients, at one of many scales.
    fn floats() -> impl Strategy<Value = Vec<f64>> {
        let scale = (-12..4i32).prop_map(|power| 2f64.powi(power));
        // A single float whose lower half is zero may be read as two halves, and then its zero half stays. A power of
        // two keeps that half as it is.
        let has_lower_half = |value: &f64| (*value as f32).to_bits() & 0x7fff != 0;
        let value = (0.02..1.0f64).prop_filter("its lower half is zero", has_lower_half);
        let values = prop::collection::vec((value, any::<bool>()), 512);
        (values, scale).prop_map(|(values, scale)| {
            values
                .into_iter()
                .map(|(value, is_negative)| {
                    if is_negative {
                        -value * scale
                    } else {
                        value * scale
                    }
                })
                .collect()
        })
    }

    /// Checks that no value is left, and that each new value is a plain float.
    fn check(
        before: &[u8],
        format: &FloatFormat,
        value: impl Fn(u64) -> f64,
    ) -> Result<(), TestCaseError> {
        let (after, account) = replaced(before);
        prop_assert_eq!(
            account,
            RandomInputs {
                replaced: before.len() as u64,
                kept: 0
            }
        );
        let pairs = words(before, format.bytes).zip(words(&after, format.bytes));
        let mut alike = 0;
        for (before, after) in pairs {
            let now = value(after);
            prop_assert!(now.is_finite() && now != 0.0 && now.abs() <= 2.0, "{now}");
            alike += usize::from(before == after);
        }
        prop_assert!(alike < 16, "{alike}");
        Ok(())
    }

    proptest! {
        #[test]
        fn floats_of_each_format_are_replaced_by_such_floats(values in floats()) {
            let single = bytes(&values, |value| (*value as f32).to_le_bytes());
            check(&single, &F32, |word| f64::from(f32::from_bits(word as u32)))?;
            let double = bytes(&values, |value| value.to_le_bytes());
            check(&double, &F64, f64::from_bits)?;
            let brain = bytes(&values, |value| bf16::from_f64(*value).to_le_bytes());
            check(&brain, &BF16, |word| bf16::from_bits(word as u16).to_f64())?;
            let values: Vec<f64> = values.iter().map(|value| value * 32.0).collect();
            let half = bytes(&values, |value| f16::from_f64(*value).to_le_bytes());
            check(&half, &F16, |word| f16::from_bits(word as u16).to_f64())?;
        }

        #[test]
        fn whole_numbers_stay(
            small in prop::collection::vec(0..65536i64, 256),
            large in prop::collection::vec(-500_000_000..500_000_000i64, 256),
            octets in prop::collection::vec(-128..=127i8, 256),
        ) {
            for values in [&small, &large] {
                prop_assert!(is_kept(&bytes(values, |value| (*value as i32).to_le_bytes())));
                prop_assert!(is_kept(&bytes(values, |value| value.to_le_bytes())));
            }
            prop_assert!(is_kept(&bytes(&octets, |value| value.to_le_bytes())));
        }

        #[test]
        fn a_table_of_pointers_stays(offsets in prop::collection::vec(0..80u64 << 30, 32)) {
            prop_assert!(is_kept(&bytes(&offsets, |value| (PLACE + value).to_le_bytes())));
        }
    }

    #[test]
    fn text_and_truths_stay() {
        assert!(is_kept(
            "the quick brown fox jumps over the lazy dog. "
                .repeat(6)
                .as_bytes()
        ));
        assert!(is_kept(&[1, 0, 0, 1, 1].repeat(60)));
    }

    #[test]
    fn small_whole_numbers_as_floats_are_replaced() {
        let values: Vec<u32> = (0..128).collect();
        for (before, format) in [
            (bytes(&values, |value| (*value as f32).to_le_bytes()), F32),
            (bytes(&values, |value| f64::from(*value).to_le_bytes()), F64),
        ] {
            let (after, account) = replaced(&before);
            assert_eq!(account.replaced as usize, before.len() - format.bytes);
            // The zero stays.
            assert!(words(&after, format.bytes).next() == Some(0));
            assert!(
                words(&after, format.bytes)
                    .skip(1)
                    .all(|word| format.read(word) == WordClass::Common)
            );
        }
    }

    #[test]
    fn zeros_infinities_and_tiny_values_stay_among_floats() {
        let mut values: Vec<f32> = (1..65).map(|index| index as f32 / 7.3).collect();
        values[3] = 0.0;
        values[7] = f32::NEG_INFINITY;
        values[9] = 1e-30;
        let (after, account) = replaced(&bytes(&values, |value| value.to_le_bytes()));
        let after: Vec<f32> = words(&after, 4)
            .map(|word| f32::from_bits(word as u32))
            .collect();
        for place in [3, 7, 9] {
            assert_eq!(after[place], values[place]);
        }
        assert_eq!(
            after.iter().zip(&values).filter(|(a, b)| a != b).count(),
            61
        );
        assert_eq!(account.replaced, 61 * 4);
    }

    #[test]
    fn whole_numbers_that_read_as_floats_in_part_stay() {
        for number in [1u64 << 26, 1 << 29, 1 << 30, 3 << 45] {
            let mut content = bytes(&[number], |number| number.to_le_bytes());
            content.resize(256, 0);
            assert!(is_kept(&content), "{number}");
        }
        let steps: Vec<u32> = (0..64).map(|index| index << 26).collect();
        assert!(is_kept(&bytes(&steps, |value| value.to_le_bytes())));
        let offsets: Vec<u64> = (0..32)
            .map(|index| 600_000_000 + index * 1_000_000)
            .collect();
        assert!(is_kept(&bytes(&offsets, |value| value.to_le_bytes())));
    }

    #[test]
    fn one_value_that_is_no_common_float_does_not_change_the_width() {
        for place in 0..128 {
            let mut halves: Vec<f16> = (1..129)
                .map(|index| f16::from_f32(index as f32 / 77.7))
                .collect();
            halves[place] = f16::from_f32(3000.0);
            let (after, _) = replaced(&bytes(&halves, |value| value.to_le_bytes()));
            let mut after = words(&after, 2).map(|word| f16::from_bits(word as u16).to_f32());
            assert!(
                after.all(|value| value.is_finite() && value <= 3000.0),
                "{place}"
            );
        }
        for place in 0..64 {
            let mut singles: Vec<f32> = (1..65).map(|index| index as f32 / 77.7).collect();
            singles[place] = f32::NAN;
            let (after, account) = replaced(&bytes(&singles, |value| value.to_le_bytes()));
            assert_eq!((account.replaced, account.kept), (63 * 4, 0));
            let after = words(&after, 4).map(|word| f32::from_bits(word as u32));
            assert!(
                after
                    .filter(|value| !value.is_nan())
                    .all(|value| value < 1.0 && value > 0.0)
            );
        }
    }

    #[test]
    fn floats_that_are_not_negative_stay_so() {
        let values: Vec<f32> = (1..65).map(|index| index as f32 / 77.7).collect();
        let signs = |values: &[f32]| {
            let (after, _) = replaced(&bytes(values, |value| value.to_le_bytes()));
            words(&after, 4)
                .filter(|word| F32.is_negative(*word))
                .count()
        };
        assert_eq!(signs(&values), 0);
        let mixed: Vec<f32> = values.iter().map(|value| value - 0.4).collect();
        assert!((16..48).contains(&signs(&mixed)));
    }

    #[test]
    fn values_depend_on_the_address_and_the_sign_alone() {
        let [mut one, other] =
            [1.5f32, 300.0].map(|number| bytes(&[number; 128], |value| value.to_le_bytes()));
        assert_eq!(replaced(&one).0, replaced(&other).0);
        let mut behind = one.split_off(256);
        replace_floats(PLACE + 256, &mut behind, &is_pointer);
        assert_eq!(behind, replaced(&other).0[256..]);
    }

    #[test]
    fn each_draw_is_a_plain_float_in_all_readings() {
        for random in [0, u64::MAX, 0x8000_0000_0000_0001, 0x1234_5678_9abc_def0] {
            let half = u64::from(draw_half(random));
            assert!(F16.read(half) == WordClass::Common && BF16.read(half) == WordClass::Common);
            assert!(draw_single(random) < 1.0 && draw_single(random) > 0.0);
            assert!(draw_double(random) < 1.0 && draw_double(random) > 0.0);
        }
    }
}
