//! Recognises names that mean sizes, gives them values, and writes the sizes of tensors as products
//! of them. Pure.

use super::launches::ReadDim;
use model::expr::{Env, ExprValue, Expression, Name};

/// A named size with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dim {
    pub name: String,
    pub value: u64,
}

/// The product of some dimensions and numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    pub factors: Vec<String>,
    pub value: u64,
}

/// Words that mean a size, alone or within a name: `n_rows`, `seqLen`. Each may have an `s` at its
/// end.
const SIZES: &[&str] = &[
    "n", "m", "k", "b", "t", "c", "h", "w", "d", "v", "p", "s", "l", "r", "size", "len", "length",
    "count", "num", "total", "row", "col", "column", "batch", "bs", "bsz", "batches", "seq",
    "seqlen", "dim", "head", "nh", "hs", "oc", "ic", "bt", "vp", "nx", "ny", "nz", "height",
    "width", "depth", "channel", "hidden", "feature", "vocab", "element", "elem", "numel", "group",
    "point", "token", "nbatch", "hdim", "kdim", "vdim", "nrow", "ncol", "nelem", "param", "inner",
    "outer", "na", "nb",
];
/// Words that mean something else, whatever other words the name has.
const OTHERS: &[&str] = &[
    "stride", "strides", "ld", "offset", "index", "idx", "id", "seed", "step", "pos", "axis",
    "start", "begin", "end", "mode", "flag", "pad", "padding", "shift", "iter", "window", "type",
    "splits", "split", "sms", "block", "blocks", "threads", "warps", "kernel",
];
/// Words for things that kernels often give one block each.
const ROWS: &[&str] = &["rows", "row", "nrows", "m", "batch", "b", "tokens"];
/// Words that mean small sizes, with values for two sizes of each kind.
const SMALL: [(&[&str], [u64; 2]); 2] = [
    (&["b", "batch", "bs", "bsz", "batches", "nbatch"], [2, 3]),
    (&["nh", "heads"], [4, 6]),
];

/// The kind of values that sizes get: multiples of tiles, or values that show mistakes at an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    Ragged,
    Whole,
}

impl Alignment {
    fn values(self, count: usize, is_flat: bool) -> &'static [u64] {
        match (self, count, is_flat) {
            (Self::Ragged, 1, true) => &[1000],
            (Self::Whole, 1, true) => &[1024],
            (Self::Ragged, ..) => &[96, 64, 160, 32, 48, 80],
            // The products of any two or three of these are different.
            (Self::Whole, ..) => &[128, 256, 384, 64, 320, 448],
        }
    }
}

/// Splits `numHeads_q` into `num`, `heads` and `q`.
fn tokens(name: &str) -> Vec<String> {
    let mut tokens = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if c == '_' || c.is_uppercase() && before.is_lowercase() {
            tokens.push(String::new());
        }
        if let Some(last) = tokens.last_mut().filter(|_| c.is_alphabetic()) {
            last.extend(c.to_lowercase());
        }
        before = c;
    }
    tokens
}

fn has_word(name: &str, words: &[&str]) -> bool {
    tokens(name)
        .iter()
        .any(|token| words.contains(&token.as_str()))
}

pub fn is_size(name: &str) -> bool {
    let is_said = |token: &String| {
        let mut forms = [Some(token.as_str()), token.strip_suffix('s')]
            .into_iter()
            .flatten();
        forms.any(|word| SIZES.contains(&word) && (word.len() > 1 || word == token))
    };
    tokens(name).iter().any(is_said) && !has_word(name, OTHERS) && !is_stride(name)
}

pub fn is_rows(name: &str) -> bool {
    has_word(name, ROWS)
}

pub fn is_stride(name: &str) -> bool {
    let name = name.to_lowercase();
    name.contains("stride") || matches!(name.as_str(), "ld" | "lda" | "ldb" | "ldc" | "ldx" | "ldy")
}

/// Returns a stride of contiguous tensors. It is the product of the sizes behind the one that its name has
/// (`batch_stride`), or the last size.
pub fn stride(name: &str, dims: &[&str]) -> Option<String> {
    if !is_stride(name) {
        return None;
    }
    let own = tokens(name);
    let names = |dim: &&&str| {
        let words = tokens(dim);
        let alike = |word: &String, token: &String| {
            let word = word.trim_end_matches('s');
            !word.is_empty() && word == token.trim_end_matches('s')
        };
        words
            .iter()
            .any(|word| own.iter().any(|token| alike(word, token)))
    };
    let behind = match dims.iter().rposition(|dim| names(&dim)) {
        Some(at) => dims.get(at + 1..)?,
        None => dims.get(dims.len().checked_sub(1)?..)?,
    };
    Some(if behind.is_empty() {
        "1".to_owned()
    } else {
        behind.join(" * ")
    })
}

/// Letters for dimensions, and words for their sizes.
const AXES: [(&str, &[&str]); 3] = [
    ("b", &["batch"]),
    ("c", &["dim", "channels"]),
    ("l", &["len", "seqlen", "length"]),
];

/// Returns the stride of a tensor that has one for each of its dimensions, the outermost first (`x_batch_stride`,
/// `x_c_stride`). It is the product of the sizes behind it, if the names tell all of these.
pub fn stride_of_axes(name: &str, strides: &[&str], sizes: &[&str]) -> Option<String> {
    fn axis_of(name: &str) -> Option<(&str, &str)> {
        name.strip_suffix("_stride")?.rsplit_once('_')
    }
    let (tensor, own) = axis_of(name)?;
    let axes = strides.iter().filter_map(|stride| axis_of(stride));
    let axes: Vec<&str> = axes
        .filter(|(other, _)| *other == tensor)
        .map(|(_, axis)| axis)
        .collect();
    if axes.len() < 2 {
        return None;
    }
    let size_of = |axis: &str| {
        let others = AXES.iter().find(|(letter, _)| *letter == axis);
        let others = others.map_or(&[][..], |(_, words)| words);
        let is_named = |size: &&&str| {
            let words = tokens(size);
            words
                .iter()
                .any(|word| word == axis || others.contains(&word.as_str()))
        };
        // A tensor may have a size of its own, as `conv_state_l_stride` has `conv_state_len`.
        let is_own = |size: &&&str| {
            size.strip_prefix(tensor)
                .is_some_and(|size| size.starts_with('_'))
        };
        let named = sizes.iter().filter(is_named);
        named.clone().find(is_own).or(named.clone().next()).copied()
    };
    let sizes: Vec<&str> = axes
        .iter()
        .map(|axis| size_of(axis))
        .collect::<Option<_>>()?;
    let at = axes.iter().position(|axis| *axis == own)?;
    Some(match sizes.get(at + 1..)? {
        [] => "1".to_owned(),
        behind => behind.join(" * "),
    })
}

/// Gives each size a value that suits its name. `is_flat` says that one index runs over all of
/// them.
pub fn values(dims: &[ReadDim], alignment: Alignment, is_flat: bool) -> Vec<Dim> {
    let count = dims.iter().filter(|dim| dim.fixed.is_none()).count();
    let mut others = alignment.values(count, is_flat).iter().copied();
    let mut small = SMALL.map(|(words, values)| (words, values.into_iter()));
    let value_of = |dim: &ReadDim| {
        let own = small
            .iter_mut()
            .find(|(words, _)| count > 1 && has_word(&dim.name, words));
        let own = own.and_then(|(_, values)| values.next());
        dim.fixed.or(own).or_else(|| others.next()).unwrap_or(16)
    };
    let values: Vec<u64> = dims.iter().map(value_of).collect();
    let named = dims.iter().zip(values);
    named
        .map(|(dim, value)| Dim {
            name: dim.name.clone(),
            value,
        })
        .collect()
}

/// The most dimensions that are multiplied. If there are more, none are.
const MULTIPLIED: usize = 6;
/// Numbers that sources often fix: widths of heads, tiles and vectors.
const CONSTANTS: [u64; 9] = [2, 3, 4, 8, 16, 32, 64, 128, 256];
/// The numbers of codes that one element may hold.
const PACKED: [u64; 3] = [2, 4, 8];

/// Returns the simplest product with this value of dimensions, their squares, numbers of the launch and usual
/// constants.
pub fn product_of(value: u64, dims: &[Dim], numbers: &[u64]) -> Option<Product> {
    let dims = dims.get(..MULTIPLIED).unwrap_or(dims);
    let subset = |set: usize| {
        let chosen = dims.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        Product::from_dims(chosen.map(|(_, dim)| dim))
    };
    let own: Vec<Product> = (0..1 << dims.len()).map(subset).collect();
    let squares = own.iter().flat_map(|product| {
        let twice = dims
            .iter()
            .filter(|dim| product.factors.contains(&dim.name));
        twice.map(|dim| product.times(dim.name.clone(), dim.value))
    });
    let plain: Vec<Product> = own.iter().cloned().chain(squares).collect();
    let numbers: Vec<u64> = numbers.iter().chain(&CONSTANTS).copied().collect();
    let multiplied = plain.iter().flat_map(|product| {
        let numbers = numbers.iter().filter(|number| **number > 1);
        numbers.map(|number| product.times(number.to_string(), *number))
    });
    let packed = own
        .iter()
        .flat_map(|product| PACKED.iter().filter_map(|by| product.over(*by)));
    let all = plain.iter().cloned().chain(multiplied).chain(packed);
    let fitting = all.filter(|product| product.value == value);
    let plainest = fitting.min_by_key(|product| {
        let factors = &product.factors;
        let is_number = |factor: &&String| !model::expr::is_identifier(factor);
        // A number alone would not follow any size.
        let follows_none = factors.iter().all(|factor| factor.parse::<u64>().is_ok());
        (
            factors.iter().filter(is_number).count(),
            follows_none,
            factors.len(),
        )
    });
    plainest.or_else(|| {
        // Without dimensions, only the number itself is left.
        dims.is_empty().then(|| Product {
            factors: vec![value.to_string()],
            value,
        })
    })
}

impl Product {
    /// Returns the product's value for other sizes.
    pub fn with(&self, dims: &[Dim]) -> Option<u64> {
        let named = |dim: &Dim| (Name::plain(&dim.name), ExprValue::Int(dim.value as i64));
        let env: Env = dims.iter().map(named).collect();
        let factors = self.factors.iter().map(|factor| {
            let factor = Expression::parse(factor).ok()?.integer(&env).ok()?;
            u64::try_from(factor).ok()
        });
        factors.product()
    }

    fn from_dims<'a>(dims: impl Iterator<Item = &'a Dim>) -> Self {
        let one = Self {
            factors: Vec::new(),
            value: 1,
        };
        dims.fold(one, |product, dim| {
            product.times(dim.name.clone(), dim.value)
        })
    }

    fn times(&self, name: String, value: u64) -> Self {
        let mut product = self.clone();
        product.factors.push(name);
        product.value = self.value.saturating_mul(value);
        product
    }

    /// Divides the last dimension by a number.
    fn over(&self, by: u64) -> Option<Self> {
        let mut product = self.clone();
        let last = product.factors.last_mut()?;
        *last = format!("{last} / {by}");
        product.value = self.value / by;
        self.value.is_multiple_of(by).then_some(product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dim(name: &str, value: u64) -> Dim {
        Dim {
            name: name.to_owned(),
            value,
        }
    }

    #[test]
    fn names_say_sizes_and_strides() {
        for name in ["n", "N", "rows", "num_heads", "seqLen", "OC", "hidden_dim"] {
            assert!(is_size(name), "{name}");
        }
        for name in [
            "flag",
            "row_stride",
            "seed",
            "lda",
            "head_idx",
            "window_size",
            "causal",
        ] {
            assert!(!is_size(name), "{name}");
        }
        let dims = ["batch", "rows", "cols"];
        assert_eq!(
            stride("x_batch_stride", &dims).as_deref(),
            Some("rows * cols")
        );
        assert_eq!(stride("row_stride", &dims).as_deref(), Some("cols"));
        assert_eq!(stride("lda", &dims).as_deref(), Some("cols"));
        assert_eq!(stride("seed", &dims), None);
    }

    #[test]
    fn every_product_of_the_first_sizes_has_a_value_of_its_own() {
        for alignment in [Alignment::Ragged, Alignment::Whole] {
            let dims = ["x", "y", "z"].map(|name| ReadDim {
                name: name.to_owned(),
                fixed: None,
            });
            let dims = values(&dims, alignment, true);
            for set in 1..8usize {
                let chosen = dims.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
                let product = Product::from_dims(chosen.map(|(_, dim)| dim));
                assert_eq!(product_of(product.value, &dims, &[]), Some(product));
            }
        }
    }

    #[test]
    fn the_plainest_product_is_taken() {
        let dims = [dim("n", 6), dim("m", 2)];
        let shown =
            |value| product_of(value, &dims, &[5]).map(|product| product.factors.join(" * "));
        assert_eq!(shown(1).as_deref(), Some(""));
        assert_eq!(shown(6).as_deref(), Some("n"));
        assert_eq!(shown(36).as_deref(), Some("n * n"));
        assert_eq!(shown(30).as_deref(), Some("n * 5"));
        assert_eq!(shown(3).as_deref(), Some("n / 2"));
        assert_eq!(shown(7), None);
        assert_eq!(
            product_of(7, &[], &[]).map(|product| product.factors),
            Some(vec!["7".to_owned()])
        );
    }
}
