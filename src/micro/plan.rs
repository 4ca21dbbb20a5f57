//! The configurations of a sweep, and the gates.yaml that holds each to what is right. Pure.

use model::{Arch, Arg, Case, ScalarType, ScalarValue};
use search::{Parameter, Seed, Space, Value};
use std::fmt::Write;
use system::error::Error;

pub const FILE: &str = "tile.cu";
/// The tensor that the kernel writes its clock's steps to.
pub const CYCLES: &str = "cycles";
pub const SEED: u64 = 1;

/// Keys that a block goes through.
const KEYS: u32 = 512;
/// Blocks of a check, and how often each does its work.
const CHECKED: (u32, u32) = (2, 2);
/// How often a block does its work while it is clocked. The first time is for caches.
const REPEATS: u32 = 10;
/// How often at most: blocks that have their times work on until all have. Some share a multiprocessor with others that
/// take turns before them, and alone they would be up to 40 % faster (H200, 2026-11-23).
const MOST_REPEATS: u32 = 4 * REPEATS;

/// Macros of the tile, in the order of its sweep.
pub const MACROS: [&str; 4] = ["BLOCK_M", "BLOCK_K", "STAGES", "VEC_WIDTH"];

/// The range of each macro: the tile asserts it, and tiles have to divide the keys.
///
/// # Errors
/// The allowed values.
pub fn read_block_m(text: &str) -> Result<i64, String> {
    let is_allowed = |it: i64| (16..=512).contains(&it) && it % 16 == 0;
    read(text, is_allowed, "a multiple of 16 from 16 to 512")
}

/// # Errors
/// The allowed values.
pub fn read_block_k(text: &str) -> Result<i64, String> {
    let is_allowed = |it: i64| it >= 16 && it % 16 == 0 && i64::from(KEYS) % it == 0;
    read(text, is_allowed, "16, 32, 64, 128, 256 or 512")
}

/// # Errors
/// The allowed values.
pub fn read_stages(text: &str) -> Result<i64, String> {
    read(text, |it| (1..=16).contains(&it), "1 to 16")
}

/// # Errors
/// The allowed values.
pub fn read_vec_width(text: &str) -> Result<i64, String> {
    read(text, |it| [2, 4, 8].contains(&it), "2, 4 or 8")
}

fn read(text: &str, is_allowed: impl Fn(i64) -> bool, allowed: &str) -> Result<i64, String> {
    let value = text.parse().ok().filter(|it| is_allowed(*it));
    value.ok_or_else(|| format!("it can be {allowed}"))
}

/// The values of each macro.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep(pub [Vec<i64>; 4]);

/// One value of each macro.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    pub values: Seed,
}

impl Sweep {
    /// # Errors
    /// Usage: a macro without values, or with one twice.
    pub fn configurations(&self) -> Result<Vec<Configuration>, Error> {
        let parameters = MACROS.iter().zip(&self.0).map(|(name, values)| Parameter {
            name: (*name).to_owned(),
            values: values.iter().copied().map(Value::Integer).collect(),
        });
        let space = Space::enumerate(parameters.collect(), |_| true)
            .map_err(|why| Error::usage(why.to_string()))?;
        let values = space.points().map(|point| {
            let values = MACROS.iter().zip(space.values(point));
            let values = values.filter_map(|(name, value)| match value {
                Value::Integer(value) => Some(((*name).to_owned(), *value)),
                _ => None,
            });
            Configuration {
                values: values.collect(),
            }
        });
        Ok(values.collect())
    }
}

impl Configuration {
    /// `m64_k32_s2_v8`: the variant that it is.
    pub fn name(&self) -> String {
        let value = |name: &str| self.values.get(name).copied().unwrap_or_default();
        let [m, k, s, v] = MACROS.map(value);
        format!("m{m}_k{k}_s{s}_v{v}")
    }
}

/// Each configuration is a variant.
pub fn write_gates(configurations: &[Configuration], arch: Arch) -> String {
    let (blocks, repeats) = CHECKED;
    let mut text = format!(
        "version: 1
architectures: [{arch}]
flags: [-O3, -std=c++17]
kernels:
  tile:
    source: {FILE}
    entry: tile
    shapes: {{check: {{BLOCKS: {blocks}, KEYS: {KEYS}, REPEATS: {repeats}, MOST: {repeats}}}}}
    seeds: [{SEED}]
    tensors:
      q: {{type: f16, shape: [1, BLOCKS, BLOCK_M, 64]}}
      k: {{type: f16, shape: [1, 1, KEYS, 64]}}
      v: {{type: f16, shape: [1, 1, KEYS, 64]}}
      out: {{role: out, type: f32, shape: [1, BLOCKS, BLOCK_M, 64]}}
      {CYCLES}: {{role: scratch, type: i64, shape: [BLOCKS, REPEATS]}}
      done: {{role: scratch, type: u32, shape: [1], fill: zeros}}
    args: [{{tensor: q}}, {{tensor: k}}, {{tensor: v}}, {{tensor: out}}, {{tensor: {CYCLES}}}, {{tensor: done}}, {{i32: KEYS}}, {{i32: REPEATS}}, {{i32: MOST}}]
    launch: {{grid: [BLOCKS], block: [2 * BLOCK_M], dynamic_shared: STAGES * BLOCK_K * 288}}
    reference: {{sdpa: {{q: q, k: k, v: v, out: out, scale: 0.125}}}}
    gates: {{max_err: 1e-3}}
    variants:
"
    );
    for configuration in configurations {
        let macros = configuration.values.iter();
        let define: Vec<String> = macros
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        let (name, define) = (configuration.name(), define.join(", "));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "      {name}: {{define: {{{define}}}}}");
    }
    text
}

/// The case that was checked, with so many blocks, each of which does its work more often.
pub fn clocked(case: &Case, blocks: u32) -> Case {
    let mut case = case.clone();
    let count = blocks as usize;
    for tensor in &mut case.tensors {
        match (tensor.name.as_str(), tensor.dims.as_mut_slice()) {
            ("q" | "out", [_, heads, ..]) => *heads = count,
            (CYCLES, dims) => dims.copy_from_slice(&[count, REPEATS as usize]),
            _ => {}
        }
    }
    for step in &mut case.steps {
        if let Some(launch) = &mut step.launch {
            launch.grid = [blocks, 1, 1];
        }
        if let [.., repeats, most] = step.args.as_mut_slice() {
            *repeats = number(REPEATS);
            *most = number(MOST_REPEATS);
        }
    }
    case
}

fn number(value: u32) -> Arg {
    Arg::Scalar {
        elem: ScalarType::I32,
        value: ScalarValue::Int(value.into()),
    }
}

/// Times of one block: the first is not counted.
pub fn repeats_of(cycles: &[u64]) -> impl Iterator<Item = &[u64]> {
    cycles
        .chunks_exact(REPEATS as usize)
        .filter_map(|block| block.get(1..))
}
