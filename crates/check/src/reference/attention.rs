//! Computes scaled dot-product attention in f32, in tiles of queries.

use super::{NoAnswer, Scene, same_dims};
use crate::Values;
use matmul::{Matrix, multiply};
use rayon::prelude::*;

/// The scores of one tile: 1 MiB, so that they stay in L2 between the two products.
const SCORES: usize = 1 << 18;

pub fn sdpa(
    scene: Scene,
    [q_name, k_name, v_name]: [&String; 3],
    out: &str,
    scale: f32,
    causal: bool,
) -> Result<Values, NoAnswer> {
    let (q, k, v) = (
        scene.input(q_name)?,
        scene.input(k_name)?,
        scene.input(v_name)?,
    );
    let &[batch, heads, queries, depth] = q.dims else {
        return Err(NoAnswer::Reference(format!(
            "`{q_name}` has dimensions {:?}, not [B, H, S, D]",
            q.dims
        )));
    };
    let &[_, key_heads, keys, _] = k.dims else {
        return Err(NoAnswer::Reference(format!(
            "`{k_name}` has dimensions {:?}, not [B, H, S, D]",
            k.dims
        )));
    };
    same_dims(k_name, k.dims, &[batch, key_heads, keys, depth])?;
    same_dims(v_name, v.dims, k.dims)?;
    same_dims(out, &scene.output(out)?.dims, q.dims)?;
    if key_heads == 0 || heads % key_heads != 0 {
        return Err(NoAnswer::Reference(format!(
            "{heads} query heads cannot share {key_heads} key heads"
        )));
    }
    let shape = AttentionDims {
        heads,
        key_heads,
        queries,
        keys,
        depth,
        scale,
        causal,
    };
    Ok(Values::F32(shape.attend(
        &q.values.floats(),
        &k.values.floats(),
        &v.values.floats(),
    )))
}

struct AttentionDims {
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    depth: usize,
    scale: f32,
    causal: bool,
}

impl AttentionDims {
    fn attend(&self, q: &[f32], k: &[f32], v: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; q.len()];
        if out.is_empty() || self.keys == 0 {
            return out;
        }
        let tile = (SCORES / self.keys).clamp(8, 128);
        let depth = self.depth;
        out.par_chunks_mut(self.queries * depth)
            .enumerate()
            .flat_map(|(head, out)| {
                out.par_chunks_mut(tile * depth)
                    .enumerate()
                    .map(move |(index, out)| (head, index * tile, out))
            })
            .for_each_init(Vec::new, |scores, (head, first, out)| {
                let group = self.heads / self.key_heads;
                let (batch, head_of_batch) = (head / self.heads, head % self.heads);
                let key_head = batch * self.key_heads + head_of_batch / group;
                let size = self.keys * depth;
                let q = &q[(head * self.queries + first) * depth..][..out.len()];
                let (k, v) = (&k[key_head * size..][..size], &v[key_head * size..][..size]);
                self.tile(scores, first, q, k, v, out);
            });
        out
    }

    /// Returns how many keys a query sees.
    fn visible(&self, query: usize) -> usize {
        if self.causal {
            (query + 1 + self.keys)
                .saturating_sub(self.queries)
                .min(self.keys)
        } else {
            self.keys
        }
    }

    fn tile(
        &self,
        scores: &mut Vec<f32>,
        first: usize,
        q: &[f32],
        k: &[f32],
        v: &[f32],
        out: &mut [f32],
    ) {
        let rows = out.len() / self.depth;
        let keys = self.visible(first + rows - 1);
        if keys == 0 {
            return;
        }
        scores.resize(rows * keys, 0.0);
        let q = Matrix::row_major(q, rows, self.depth);
        let k = Matrix::row_major(&k[..keys * self.depth], keys, self.depth);
        let v = Matrix::row_major(&v[..keys * self.depth], keys, self.depth);
        multiply(scores, q, k.transposed(), self.scale);
        let sums: Vec<f32> = scores
            .chunks_exact_mut(keys)
            .enumerate()
            .map(|(row, scores)| {
                let (seen, unseen) = scores.split_at_mut(self.visible(first + row));
                unseen.fill(0.0);
                exponentials(seen)
            })
            .collect();
        multiply(out, Matrix::row_major(scores, rows, keys), v, 1.0);
        for (out, sum) in out.chunks_exact_mut(self.depth).zip(sums) {
            // A row that sees nothing has sum 0 and stays 0.
            if sum != 0.0 {
                out.iter_mut().for_each(|value| *value /= sum);
            }
        }
    }
}

/// Replaces scores by exp(score - max) and returns their sum. A NaN among them makes the sum NaN.
fn exponentials(scores: &mut [f32]) -> f32 {
    let max = scores
        .iter()
        .fold(f32::NEG_INFINITY, |max, &score| max.max(score));
    let mut sum = 0.0f64;
    for score in scores {
        *score = libm::expf(*score - max);
        sum += f64::from(*score);
    }
    sum as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes attention by its definition, in f64, one output element at a time.
    fn naive(shape: &AttentionDims, batch: usize, q: &[f32], k: &[f32], v: &[f32]) -> Vec<f64> {
        let group = shape.heads / shape.key_heads;
        let at =
            |data: &[f32], b: usize, h: usize, s: usize, d: usize, heads: usize, len: usize| {
                f64::from(data[((b * heads + h) * len + s) * shape.depth + d])
            };
        let mut out = Vec::new();
        for b in 0..batch {
            for h in 0..shape.heads {
                for i in 0..shape.queries {
                    let sees = |j: usize| {
                        !shape.causal
                            || j as i64 <= i as i64 + shape.keys as i64 - shape.queries as i64
                    };
                    let weights: Vec<f64> = (0..shape.keys)
                        .map(|j| {
                            if !sees(j) {
                                return 0.0;
                            }
                            let dot: f64 = (0..shape.depth)
                                .map(|d| {
                                    at(q, b, h, i, d, shape.heads, shape.queries)
                                        * at(k, b, h / group, j, d, shape.key_heads, shape.keys)
                                })
                                .sum();
                            (dot * f64::from(shape.scale)).exp()
                        })
                        .collect();
                    let sum: f64 = weights.iter().sum();
                    for d in 0..shape.depth {
                        let value: f64 = (0..shape.keys)
                            .map(|j| {
                                weights[j] * at(v, b, h / group, j, d, shape.key_heads, shape.keys)
                            })
                            .sum();
                        out.push(if sum == 0.0 { 0.0 } else { value / sum });
                    }
                }
            }
        }
        out
    }

    fn data(name: &str, len: usize) -> Vec<f32> {
        crate::generator::Stream::new(11, name).normal(0.0, 1.0, len)
    }

    fn check(shape: &AttentionDims, batch: usize) {
        let q = data("q", batch * shape.heads * shape.queries * shape.depth);
        let k = data("k", batch * shape.key_heads * shape.keys * shape.depth);
        let v = data("v", k.len());
        let got = shape.attend(&q, &k, &v);
        let want = naive(shape, batch, &q, &k, &v);
        assert_eq!(got.len(), want.len());
        for (at, (got, want)) in got.iter().zip(want).enumerate() {
            assert!(
                (f64::from(*got) - want).abs() <= 2e-6 * (1.0 + want.abs()),
                "{at}: {got} for {want}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn agrees_with_the_definition(
            batch in 1usize..3, key_heads in 1usize..3, group in 1usize..4,
            queries in 1usize..40, keys in 1usize..40, depth in 1usize..20, causal: bool,
        ) {
            let scale = 1.0 / (depth as f32).sqrt();
            check(&AttentionDims { heads: key_heads * group, key_heads, queries, keys, depth, scale, causal }, batch);
        }
    }

    #[test]
    fn more_than_one_tile() {
        for causal in [false, true] {
            check(
                &AttentionDims {
                    heads: 2,
                    key_heads: 1,
                    queries: 300,
                    keys: 270,
                    depth: 8,
                    scale: 0.4,
                    causal,
                },
                1,
            );
        }
    }

    #[test]
    fn rows_that_see_nothing_are_zero_and_nan_is_kept() {
        let shape = AttentionDims {
            heads: 1,
            key_heads: 1,
            queries: 3,
            keys: 1,
            depth: 2,
            scale: 1.0,
            causal: true,
        };
        let mut q = vec![1.0; 6];
        assert_eq!(
            shape.attend(&q, &[1.0, 1.0], &[5.0, 6.0]),
            [0.0, 0.0, 0.0, 0.0, 5.0, 6.0]
        );
        q[4] = f32::NAN;
        assert!(shape.attend(&q, &[1.0, 1.0], &[5.0, 6.0])[4].is_nan());
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let shape = AttentionDims {
            heads: 1,
            key_heads: 1,
            queries: 1,
            keys: 2,
            depth: 1,
            scale: 1.0,
            causal: false,
        };
        assert_eq!(shape.attend(&[1e4], &[1.0, 0.5], &[3.0, 7.0]), [3.0]);
    }
}
