//! Sizes and launches to try a kernel with, the plainest first. Pure.

use super::parts::{Part, PartKind};
use super::sizes::{Dim, Further, Product};
use model::LaunchBounds;

/// Sizes that tell products apart and are quick to run: with them launches are found.
const QUICK: [u64; 6] = [4, 24, 160, 2, 28, 44];
/// The same, which suit tiles.
const SIZES: [[u64; 6]; 2] = [[96, 64, 160, 32, 48, 80], [128, 256, 64, 512, 32, 16]];
const ONLY: [u64; 2] = [1000, 1024];
/// The side of a square.
const SIDE: u64 = 64;
/// Sizes of a kernel that fixes its size itself.
const FIXED: [u64; 3] = [1 << 10, 1 << 16, 1 << 20];
const FURTHER: u64 = 16;

/// Values for what a kernel takes as sizes.
pub struct Sizes {
    pub dims: Vec<Dim>,
    pub further: Further,
    /// Larger ones, for a call that is found with these.
    pub larger: Option<Vec<Dim>>,
}

/// The plainest first.
pub fn sizes_of(parts: &[Part]) -> Vec<Sizes> {
    let names: Vec<String> = parts
        .iter()
        .filter(|part| matches!(part.kind, PartKind::Size(_)))
        .map(|part| part.name.clone())
        .collect();
    let with = |names: &[String], values: &[u64], further| {
        let values = values.iter().copied().chain(std::iter::repeat(FURTHER));
        let dims = names.iter().zip(values).map(|(name, value)| Dim {
            name: name.clone(),
            value,
        });
        Sizes {
            dims: dims.collect(),
            further,
            larger: None,
        }
    };
    match names.len() {
        0 => {
            let made_up = ["N".to_owned()];
            FIXED
                .map(|value| with(&made_up, &[value], Further::Nothing))
                .into()
        }
        1 => {
            let [first, second] = ONLY;
            vec![
                with(&names, &[first], Further::Nothing),
                with(&names, &[second], Further::Nothing),
                with(&names, &[SIDE], Further::Squares),
                with(&names, &[SIDE], Further::Constants),
            ]
        }
        count => {
            let [first, second] = &SIZES;
            // Rows and columns: a row is longer than a warp.
            let quick = match count {
                2 => &QUICK[1..],
                _ => &QUICK[..],
            };
            let plain = with(&names, first, Further::Nothing);
            vec![
                Sizes {
                    larger: Some(plain.dims.clone()),
                    ..with(&names, quick, Further::Nothing)
                },
                plain,
                with(&names, second, Further::Nothing),
                with(&names, first, Further::Squares),
                with(&names, first, Further::Constants),
            ]
        }
    }
}

/// An extent of a grid, as an expression and its value.
pub type Extent = (String, u32);

/// A block, and the grids to try with it.
pub type Launches = (Vec<u32>, Vec<Vec<Extent>>);

/// Grids of most threads come first: of those that write as much the first is taken, as a kernel that looks where it
/// ends is whole by it, and one that does not reaches farther than its tensors can be.
pub fn launches(
    dims: &[Dim],
    products: &[Product],
    text: &str,
    bounds: LaunchBounds,
) -> Vec<Launches> {
    let is_flat = !text.contains("%tid.y");
    let blocks: Vec<Vec<u32>> = match (bounds.threads, is_flat) {
        (Some(threads), true) => vec![vec![threads]],
        (None, true) => [256, 128, 64, 32, 512, 1024]
            .map(|thread_count| vec![thread_count])
            .to_vec(),
        (_, false) => vec![vec![16, 16], vec![32, 8], vec![32, 32], vec![8, 8]],
    };
    let fits = |product: &Product| product.value <= 1 << 16;
    let mut all = Vec::new();
    for block in blocks {
        let mut found = Vec::new();
        let (x, y) = (
            block.first().copied().unwrap_or(1),
            block.get(1).copied().unwrap_or(1),
        );
        if text.contains("%ctaid.y") || !is_flat {
            let cover = |dim: &Dim, by: u32| -> Extent {
                let blocks = dim.value.div_ceil(u64::from(by)) as u32;
                match by {
                    1 => (dim.name.clone(), blocks),
                    _ => (format!("ceil_div({}, {by})", dim.name), blocks),
                }
            };
            for second in dims {
                for first in dims.iter().filter(|dim| dim.name != second.name) {
                    found.push(vec![cover(first, x), cover(second, y)]);
                }
            }
            for second in dims {
                for first in dims.iter().filter(|dim| dim.name != second.name) {
                    found.push(vec![cover(first, 1), cover(second, 1)]);
                }
            }
            if let [only] = dims {
                found.push(vec![cover(only, x), cover(only, y)]);
            }
        }
        for product in products.iter().rev() {
            let blocks = product.value.div_ceil(u64::from(x * y));
            if let Ok(blocks) = u32::try_from(blocks) {
                let text = match product.value {
                    1 => product.text(),
                    _ => format!("ceil_div({}, {})", product.text(), x * y),
                };
                found.push(vec![(text, blocks)]);
            }
        }
        for product in products.iter().rev().filter(|product| fits(product)) {
            found.push(vec![(product.text(), product.value as u32)]);
        }
        all.push((block, found));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::sizes::products;
    use super::*;

    #[test]
    fn every_product_of_the_first_sizes_has_a_value_of_its_own() {
        for sizes in [&QUICK[..], &QUICK[1..], &SIZES[0][..4]] {
            let dims: Vec<Dim> = sizes
                .iter()
                .enumerate()
                .map(|(at, value)| Dim {
                    name: format!("n{at}"),
                    value: *value,
                })
                .collect();
            let all = products(&dims, Further::Nothing);
            assert_eq!(all.len(), 1 << dims.len(), "{sizes:?}");
        }
    }
}
