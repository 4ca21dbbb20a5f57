//! Counts the arithmetic of a launch: operations by the unit that a GPU has for them, as PTX names them. The counts are
//! for reading and never gated, because ptxas may join, split and drop arithmetic.

use model::{Arithmetic, Work};
use std::collections::BTreeMap;

pub type Computed = BTreeMap<Arithmetic, Work>;

/// Returns the work of an instruction of this form that warps issued `issued` times, with `lanes` lanes in all. Returns
/// `None` if it is neither arithmetic of floats nor a product of matrices.
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
        // The 64-bit forms are sequences of additions and products.
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

/// Returns the element type of a product of matrices, and the number of operations of the whole warp.
fn product(words: &[&str]) -> Option<(Arithmetic, u64)> {
    let extents = words.iter().find_map(|word| extents(word))?;
    let kind = |word: &&str| {
        Some(match *word {
            "f16" => Arithmetic::TensorF16,
            "bf16" => Arithmetic::TensorBf16,
            // Sums may be of 32 bits, too. The type of the factors stands behind that of the first sum.
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

/// Returns the product of the three numbers of `m16n8k16`.
fn extents(word: &str) -> Option<u64> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    let number = |text: &str| text.parse::<u64>().ok().filter(|n| *n <= 1024);
    Some(number(m)? * number(n)? * number(k)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arithmetic_of(form: &str) -> Option<(Arithmetic, u64)> {
        work(form, 1, 32).map(|(kind, work)| (kind, work.operations))
    }

    #[test]
    fn classifies_forms_by_their_computation() {
        use Arithmetic::*;
        for (form, want) in [
            ("fma.rn.f32", Some((Fp32, 64))),
            ("fma.rn.ftz.f32", Some((Fp32, 64))),
            ("add.f32", Some((Fp32, 32))),
            ("mul.rn.f64", Some((Fp64, 32))),
            ("fma.rn.f16x2", Some((Fp16, 128))),
            ("add.bf16", Some((Fp16, 32))),
            ("ex2.approx.ftz.f32", Some((Special, 32))),
            ("ex2.approx.f16x2", Some((Special, 64))),
            ("div.full.f32", Some((Special, 32))),
            (
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
                Some((TensorF16, 4096)),
            ),
            (
                "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
                Some((TensorTf32, 2048)),
            ),
            (
                "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32",
                Some((TensorInt8, 8192)),
            ),
            (
                "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32",
                Some((TensorFp8, 8192)),
            ),
            (
                "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
                Some((TensorNarrow, 16384)),
            ),
            (
                "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32",
                Some((TensorFp8, 8192)),
            ),
            (
                "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
                Some((TensorFp64, 512)),
            ),
            (
                "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
                Some((TensorF16, 8192)),
            ),
            (
                "wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32",
                Some((TensorBf16, 8192)),
            ),
            (
                "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e5m2",
                Some((TensorFp8, 131_072)),
            ),
            ("wgmma.fence.sync.aligned", None),
            ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16", None),
            ("max.f32", None),
            ("add.s32", None),
            ("mov.f32", None),
            ("ld.global.f32", None),
            ("div.rn.f64", None),
            (
                "mma.sync.aligned.m99999n99999k99999.row.col.f32.f16.f16.f32",
                None,
            ),
            ("mma", None),
            ("", None),
        ] {
            assert_eq!(arithmetic_of(form), want, "{form}");
        }
    }

    #[test]
    fn lanes_that_are_off_compute_nothing_and_products_of_matrices_are_of_the_warp() {
        let work = |form| work(form, 3, 5).unwrap().1;
        assert_eq!(
            (work("fma.rn.f32").issued, work("fma.rn.f32").operations),
            (3, 10)
        );
        let product = work("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
        assert_eq!(product.operations, 3 * 4096);
    }
}
