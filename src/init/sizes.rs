//! Products of dimensions, as sizes of tensors and of grids. Pure.

/// A named size that a kernel is given, or that is made up for one that is given none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dim {
    pub name: String,
    pub value: u64,
}

/// Some of the dimensions, multiplied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    pub factors: Vec<String>,
    pub value: u64,
}

/// With more dimensions than these, none are multiplied.
const MULTIPLIED: usize = 6;

/// The factors of products, besides each dimension once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Further {
    Nothing,
    /// Each dimension twice: square matrices.
    Squares,
    /// Numbers that sources like to fix: widths of heads, tiles and vectors.
    Constants,
}

const CONSTANTS: [u64; 8] = [2, 3, 4, 16, 32, 64, 128, 256];

/// All products, the smallest first; of equal ones that of fewest factors. 1 is one of them.
pub fn products(dims: &[Dim], further: Further) -> Vec<Product> {
    let own = products_of(dims);
    let mut all = own.clone();
    for product in &own {
        match further {
            Further::Nothing => {}
            Further::Squares => all.extend(dims.iter().filter_map(|dim| {
                let is_there = product.factors.contains(&dim.name);
                is_there.then(|| product.times(&dim.name, dim.value))
            })),
            Further::Constants => {
                all.extend(CONSTANTS.map(|factor| product.times(&factor.to_string(), factor)));
            }
        }
    }
    all.sort_by_key(|product| (product.value, product.factors.len()));
    all.dedup_by_key(|product| product.value);
    all
}

fn products_of(dims: &[Dim]) -> Vec<Product> {
    let dims = dims.get(..MULTIPLIED).unwrap_or(dims);
    let all: Vec<Product> = (0..1usize << dims.len())
        .map(|set| {
            let chosen: Vec<&Dim> = dims
                .iter()
                .enumerate()
                .filter(|(at, _)| set >> at & 1 == 1)
                .map(|(_, dim)| dim)
                .collect();
            Product {
                factors: chosen.iter().map(|dim| dim.name.clone()).collect(),
                value: chosen
                    .iter()
                    .fold(1, |all, dim| dim.value.saturating_mul(all)),
            }
        })
        .collect();
    all
}

impl Product {
    fn times(&self, name: &str, value: u64) -> Self {
        let own = self.factors.iter().cloned();
        Self {
            factors: own.chain([name.to_owned()]).collect(),
            value: self.value.saturating_mul(value),
        }
    }

    /// `n * m`, as an expression of gates.yaml.
    pub fn text(&self) -> String {
        if self.factors.is_empty() {
            "1".to_owned()
        } else {
            self.factors.join(" * ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_in_order_and_each_size_is_there_once() {
        let dim = |name: &str, value| Dim {
            name: name.to_owned(),
            value,
        };
        let all = products(&[dim("n", 6), dim("m", 2), dim("k", 3)], Further::Nothing);
        let shown: Vec<_> = all.iter().map(|size| (size.text(), size.value)).collect();
        let want = [
            ("1", 1),
            ("m", 2),
            ("k", 3),
            ("n", 6),
            ("n * m", 12),
            ("n * k", 18),
            ("n * m * k", 36),
        ];
        assert_eq!(shown, want.map(|(text, value)| (text.to_owned(), value)));
        let texts = |further| -> Vec<String> {
            let all = products(&[dim("n", 5)], further);
            all.iter().map(Product::text).collect()
        };
        assert_eq!(texts(Further::Squares), ["1", "n", "n * n"]);
        assert_eq!(
            texts(Further::Constants)[..6],
            ["1", "2", "3", "4", "n", "n * 2"]
        );
    }
}
