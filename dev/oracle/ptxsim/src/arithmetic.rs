//! Counts the arithmetic of a launch: operations by the unit that a GPU has for them, as PTX names them. For reading, and
//! never gated: ptxas may join, split and drop arithmetic.

use model::{Arithmetic, Work};
use std::collections::BTreeMap;

pub type Computed = BTreeMap<Arithmetic, Work>;

/// The work of an instruction of this form, each time that a warp issues it with so many lanes. `None` where it
/// is no arithmetic of floats, and no product of matrices.
pub(crate) fn work(form: &str, issued: u64, lanes: u64) -> Option<(Arithmetic, Work)> {
    let words: Vec<&str> = form.split('.').collect();
    let (&name, &last) = (words.first()?, words.last()?);
    if name == "mma" || (name == "wmma" && words.get(1) == Some(&"mma")) {
        let (kind, operations) = product(&words)?;
        let operations = issued.saturating_mul(operations);
        return Some((kind, Work { issued, operations }));
    }
    if name == "wgmma" && words.get(1) == Some(&"mma_async") {
        // Each of the four warps issues it.
        let (kind, operations) = product(&words)?;
        let operations = issued.saturating_mul(operations / 4);
        return Some((kind, Work { issued, operations }));
    }
    let (kind, packed) = match last {
        "f16" | "bf16" => (Arithmetic::Fp16, 1),
        "f16x2" | "bf16x2" => (Arithmetic::Fp16, 2),
        "f32" => (Arithmetic::Fp32, 1),
        "f32x2" => (Arithmetic::Fp32, 2),
        "f64" => (Arithmetic::Fp64, 1),
        _ => return None,
    };
    let (kind, each) = match name {
        "add" | "sub" | "mul" => (kind, 1),
        "fma" | "mad" => (kind, 2),
        // Those of 64 bits are sequences of additions and products.
        "ex2" | "lg2" | "sin" | "cos" | "rcp" | "sqrt" | "rsqrt" | "tanh" | "div"
            if kind != Arithmetic::Fp64 =>
        {
            (Arithmetic::Special, 1)
        }
        _ => return None,
    };
    let operations = lanes.saturating_mul(each * packed);
    Some((kind, Work { issued, operations }))
}

/// For a product of matrices: the element type, and how many operations of the whole warp.
fn product(words: &[&str]) -> Option<(Arithmetic, u64)> {
    let extents = words.iter().find_map(|word| extents(word))?;
    let kind = |word: &&str| {
        Some(match *word {
            "f16" => Arithmetic::TensorF16,
            "bf16" => Arithmetic::TensorBf16,
            // Sums are of 32 bits, too; what is multiplied stands behind the first.
            "tf32" => Arithmetic::TensorTf32,
            "e4m3" | "e5m2" | "e2m3" | "e3m2" => Arithmetic::TensorFp8,
            "f64" => Arithmetic::TensorFp64,
            "s8" | "u8" => Arithmetic::TensorInt8,
            "s4" | "u4" | "b1" | "e2m1" => Arithmetic::TensorNarrow,
            _ => return None,
        })
    };
    let is_type = |word: &&&str| matches!(**word, "f32" | "s32") || kind(word).is_some();
    let types: Vec<_> = words.iter().filter(is_type).collect();
    let multiplied = match types.as_slice() {
        [_, a, _, _] | [_, a, _] => kind(a)?,
        // `wmma` names the sums alone where halves are multiplied.
        [_, _] => Arithmetic::TensorF16,
        _ => return None,
    };
    Some((multiplied, 2 * extents))
}

/// The product of the three numbers of `m16n8k16`.
fn extents(word: &str) -> Option<u64> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    let number = |text: &str| text.parse::<u64>().ok().filter(|n| *n <= 1024);
    Some(number(m)? * number(n)? * number(k)?)
}
