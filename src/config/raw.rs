//! gates.yaml as it was written. Comments here are what an editor shows for each key (`schema`).
//!
//! No `untagged` and no `flatten`: both lose positions.

use super::yaml::{Ordered, Spot};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use verdict::model::{Binary, ElemType, Metric, Mode, ReduceOp, Role, Unary};

/// What gatekeeper holds kernels to.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "gates.yaml")]
pub struct GatesFile {
    /// Version of this format: 1. Stands first.
    #[expect(dead_code, reason = "checked before the rest is read")]
    pub version: Spot<u32>,
    /// Every kernel is built for each of them: [sm_89, sm_90].
    pub architectures: Spot<Vec<Spot<String>>>,
    /// The compiler that the limits hold for; wins over PATH.
    #[serde(default)]
    pub toolchain: Toolchain,
    /// For nvcc, for all kernels: [-O3, -std=c++17].
    #[serde(default)]
    pub flags: Vec<Spot<String>>,
    /// How times are taken.
    #[serde(default)]
    pub timing: Timing,
    /// How much is simulated where there is no GPU.
    #[serde(default)]
    pub simulation: RawSimulation,
    pub kernels: Spot<Ordered<Spot<Kernel>>>,
}

#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// CUDA release, quoted: "13.0".
    pub cuda: Option<Spot<String>>,
}

#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// warm: launches back to back. cold: L2 is flushed before each launch.
    pub mode: Option<Mode>,
    /// Launches before the first sample.
    pub warmup: Option<Spot<u32>>,
    /// Batched samples of each process: p50, mean, min, max.
    pub iterations: Option<Spot<u32>>,
    /// Samples of one launch each, of each process: p90, p99, cv.
    pub singles: Option<Spot<u32>>,
    /// A batched sample lasts at least this long: 200us.
    pub batch: Option<Spot<Formula>>,
    /// Fresh processes that time every case at first.
    pub processes: Option<Spot<u32>>,
    /// Most processes, where the first ones do not decide.
    pub max_processes: Option<Spot<u32>>,
}

#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Simulation")]
pub struct RawSimulation {
    /// Warp instructions of one case, over all its seeds; a case that takes more is skipped.
    pub budget: Option<Spot<u64>>,
}

/// One kernel and how to call it.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// The .cu file, relative to gates.yaml.
    pub source: Spot<String>,
    /// C++ name of the __global__ function as written in the source: k, ns::k, "k<float, 4>".
    pub entry: Option<Spot<String>>,
    /// A host function that launches the kernel, instead of `entry`.
    pub launcher: Option<Spot<Launcher>>,
    /// For nvcc -I, relative to gates.yaml.
    #[serde(default)]
    pub include_dirs: Vec<Spot<String>>,
    /// For nvcc, after the flags of the file.
    #[serde(default)]
    pub flags: Vec<Spot<String>>,
    /// Macros. Those with integer values can be used in expressions.
    #[serde(default)]
    pub define: Ordered<Spot<Word>>,
    /// The kernel under different macros. Absent: one variant named `default`.
    pub variants: Option<Spot<Ordered<Spot<Variant>>>>,
    /// Named sets of integer dimensions. Absent: one shape named `default`.
    pub shapes: Option<Spot<Ordered<Spot<Dims>>>>,
    /// A number of seeds, a list of them, or either for each shape with a `default`.
    pub seeds: Option<Spot<Seeds>>,
    pub tensors: Ordered<Spot<RawTensor>>,
    /// In the order of the kernel's parameters.
    pub args: Spot<Vec<Spot<RawArg>>>,
    /// Absent for a launcher.
    pub launch: Option<Spot<RawLaunch>>,
    /// Where the right answer comes from.
    pub reference: Spot<RawReference>,
    /// Why two launches may differ in bits. Absent: they may not.
    pub nondeterministic: Option<Spot<String>>,
    /// How often one seed is launched to compare outputs bit for bit.
    pub launches: Option<Spot<u32>>,
    /// Longest time that a check of one seed, or the timing of one case, may take: 30s.
    pub deadline: Option<Spot<Formula>>,
    pub gates: Spot<Gates>,
}

/// Dimensions by name.
pub type Dims = Ordered<Spot<i64>>;

/// What a variant changes. What it does not name stays as the kernel has it.
#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Joins the kernel's macros, and wins.
    #[serde(default)]
    pub define: Ordered<Spot<Word>>,
    pub entry: Option<Spot<String>>,
    /// Each replaces the kernel's tensor of that name as a whole.
    #[serde(default)]
    pub tensors: Ordered<Spot<RawTensor>>,
    /// Replaces the kernel's.
    pub launch: Option<Spot<RawLaunch>>,
    /// Replaces the kernel's.
    pub reference: Option<Spot<RawReference>>,
    pub nondeterministic: Option<Spot<String>>,
    /// Joins the kernel's gates, and wins metric by metric. Nothing can be taken away.
    #[serde(default)]
    pub gates: Gates,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launcher {
    /// extern "C" function in the same source; it takes `args` in order.
    pub function: Spot<String>,
    /// Every kernel that it launches.
    pub launches: Spot<Vec<Launched>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launched {
    pub entry: Spot<String>,
    /// Bytes; the largest value over all shapes counts.
    pub dynamic_shared: Option<Spot<Formula>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Launch")]
pub struct RawLaunch {
    /// Blocks: [x], [x, y] or [x, y, z].
    pub grid: Spot<Vec<Spot<Formula>>>,
    /// Threads of a block.
    pub block: Spot<Vec<Spot<Formula>>>,
    /// Blocks of a cluster.
    pub cluster: Option<Spot<Vec<Spot<Formula>>>>,
    /// Bytes.
    pub dynamic_shared: Option<Spot<Formula>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tensor")]
pub struct RawTensor {
    /// in (default), out, inout (restored before every launch), or scratch (nobody asks what is in it).
    pub role: Option<Spot<Role>>,
    #[serde(rename = "type")]
    pub elem: Spot<ElemType>,
    /// Slowest dimension first; [] for a single element.
    pub shape: Spot<Vec<Spot<Formula>>>,
    /// In elements, where it is not contiguous.
    pub strides: Option<Spot<Vec<Spot<Formula>>>>,
    /// How inputs are made. Floats: normal(0, 1) where absent.
    pub fill: Option<Spot<RawFill>>,
    /// How floats become the codes that the kernel reads.
    pub codec: Option<Spot<RawCodec>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Fill")]
pub enum RawFill {
    Normal {
        /// 0 where absent.
        mean: Option<Spot<Formula>>,
        /// 1 where absent.
        std: Option<Spot<Formula>>,
    },
    /// From low up to, not including, high.
    Uniform {
        low: Spot<Formula>,
        high: Spot<Formula>,
    },
    Constant(Spot<Formula>),
    /// Uniform from low to high, both included.
    Integers {
        low: Spot<Formula>,
        high: Spot<Formula>,
    },
    /// 0, 1, 2, ...
    Iota,
    /// A seeded order of 0, 1, 2, ...
    Permutation,
    /// Where ragged sequences start: from 0 to `total`, each at least `min` long.
    Offsets {
        total: Spot<Formula>,
        /// 0 where absent.
        min: Option<Spot<Formula>>,
    },
    /// Distinct indices below `pool`.
    BlockTable {
        pool: Spot<Formula>,
    },
    /// One for each element.
    Values(Vec<Spot<Formula>>),
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Codec")]
pub enum RawCodec {
    /// code = round(x / amax * levels) + zero_point; the kernel gets amax / scale_divisor.
    Symmetric {
        per: Spot<Per>,
        /// Absent: the largest value of the type (e4m3 448, e5m2 57344, i8 and u8 127).
        levels: Option<Spot<Formula>>,
        /// Absent: 0, and 128 for u8.
        zero_point: Option<Spot<Formula>>,
        /// Absent: as levels.
        scale_divisor: Option<Spot<Formula>>,
    },
    /// code = round(x / scale) + zero, clamped to low..=high.
    Affine {
        per: Spot<Per>,
        /// Absent: the smallest value of the type.
        low: Option<Spot<Formula>>,
        /// Absent: the largest value of the type.
        high: Option<Spot<Formula>>,
    },
}

/// What shares one scale.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Per {
    /// The whole tensor.
    Tensor,
    /// One scale for each index along these axes, over all others: [0, 1] of [B, H, S, D] is per batch
    /// and head.
    Axes(Vec<Spot<u32>>),
    /// One scale for each block of this extent along each dimension.
    Block(Vec<Spot<Formula>>),
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Arg")]
pub enum RawArg {
    /// Pointer to the tensor.
    Tensor(Spot<String>),
    /// Pointer to the f32 scales of the tensor's codec.
    Scales(Spot<String>),
    /// Pointer to the i32 zero points of the tensor's affine codec.
    ZeroPoints(Spot<String>),
    Nullptr,
    /// The launcher's cudaStream_t.
    Stream,
    Bool(Spot<Formula>),
    I8(Spot<Formula>),
    U8(Spot<Formula>),
    I16(Spot<Formula>),
    U16(Spot<Formula>),
    I32(Spot<Formula>),
    U32(Spot<Formula>),
    I64(Spot<Formula>),
    U64(Spot<Formula>),
    F16(Spot<Formula>),
    Bf16(Spot<Formula>),
    F32(Spot<Formula>),
    F64(Spot<Formula>),
    /// By value, field by field, aligned as C does.
    Struct(Vec<Spot<RawArg>>),
    /// Bytes that are skipped inside a struct.
    Pad(Spot<u32>),
}

/// Names are of tensors.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Reference")]
pub enum RawReference {
    /// softmax(scale * q k^T) v; q [B, Hq, Sq, D], k and v [B, Hk, Sk, D], Hq a multiple of Hk.
    Sdpa {
        q: Spot<String>,
        k: Spot<String>,
        v: Spot<String>,
        out: Spot<String>,
        /// Absent: 1 / sqrt(D).
        scale: Option<Spot<Formula>>,
        #[serde(default)]
        causal: bool,
    },
    /// epilogue(alpha * a b + beta * c + bias); a [.., M, K], b [.., K, N], bias [N].
    Gemm {
        a: Spot<String>,
        b: Spot<String>,
        out: Spot<String>,
        c: Option<Spot<String>>,
        bias: Option<Spot<String>>,
        /// 1 where absent.
        alpha: Option<Spot<Formula>>,
        /// Absent: 1 with c, 0 without.
        beta: Option<Spot<Formula>>,
        #[serde(default)]
        transpose_a: bool,
        #[serde(default)]
        transpose_b: bool,
        epilogue: Option<Unary>,
    },
    /// Over the last dimension.
    Softmax { x: Spot<String>, out: Spot<String> },
    /// Over the last dimension.
    LayerNorm {
        x: Spot<String>,
        out: Spot<String>,
        gamma: Option<Spot<String>>,
        beta: Option<Spot<String>>,
        /// 1e-5 where absent.
        eps: Option<Spot<Formula>>,
    },
    /// Over the last dimension.
    RmsNorm {
        x: Spot<String>,
        out: Spot<String>,
        gamma: Option<Spot<String>>,
        /// 1e-5 where absent.
        eps: Option<Spot<Formula>>,
    },
    Reduce {
        x: Spot<String>,
        out: Spot<String>,
        op: ReduceOp,
        axes: Spot<Vec<Spot<u32>>>,
    },
    Transpose {
        x: Spot<String>,
        out: Spot<String>,
        /// Dimension i of out is dimension permutation[i] of x.
        permutation: Spot<Vec<Spot<u32>>>,
    },
    Unary {
        x: Spot<String>,
        out: Spot<String>,
        op: Unary,
    },
    Binary {
        a: Spot<String>,
        b: Spot<String>,
        out: Spot<String>,
        op: Binary,
    },
    /// Your own C or C++ function over floats.
    User {
        /// .c or .cpp file, relative to gates.yaml.
        source: Spot<String>,
        /// extern "C".
        function: Spot<String>,
        args: Spot<Vec<Spot<RawArg>>>,
        /// For the host compiler.
        #[serde(default)]
        flags: Vec<Spot<String>>,
    },
    /// Another variant of this kernel.
    Variant(Spot<String>),
}

/// A number, a quantity (48KiB, 900us) or an expression over dimensions and integer macros.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct Formula(pub String);

impl JsonSchema for Formula {
    fn schema_name() -> Cow<'static, str> {
        "Formula".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number, a quantity (48KiB, 900us) or an expression over dimensions and integer macros.",
            "type": ["number", "string"],
        })
    }
}

/// The value of a macro, as text.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct Word(pub String);

impl JsonSchema for Word {
    fn schema_name() -> Cow<'static, str> {
        "Word".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "The value of a macro.", "type": ["number", "string", "boolean"] })
    }
}

#[derive(Debug)]
pub enum Seeds {
    /// 1 to this.
    Count(u64),
    List(Vec<Spot<u64>>),
    ByShape(Ordered<Spot<Seeds>>),
}

impl<'de> Deserialize<'de> for Seeds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SeedsVisitor;
        impl<'de> Visitor<'de> for SeedsVisitor {
            type Value = Seeds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a number of seeds, a list of seeds, or a mapping from shapes to either",
                )
            }
            fn visit_u64<E>(self, count: u64) -> Result<Seeds, E> {
                Ok(Seeds::Count(count))
            }
            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Seeds, E> {
                u64::try_from(count)
                    .map(Seeds::Count)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(count), &self))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Seeds, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(Seeds::List)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Seeds, A::Error> {
                Ordered::deserialize(de::value::MapAccessDeserializer::new(map)).map(Seeds::ByShape)
            }
        }
        deserializer.deserialize_any(SeedsVisitor)
    }
}

impl JsonSchema for Seeds {
    fn schema_name() -> Cow<'static, str> {
        "Seeds".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let either = serde_json::json!([
            { "type": "integer", "minimum": 1 },
            { "type": "array", "items": { "type": "integer", "minimum": 0 } },
        ]);
        json_schema!({
            "description": "A number of seeds, a list of seeds, or either for each shape with a `default`.",
            "anyOf": [
                { "type": "integer", "minimum": 1 },
                { "type": "array", "items": { "type": "integer", "minimum": 0 } },
                { "type": "object", "additionalProperties": { "anyOf": either } },
            ],
        })
    }
}

/// By metric, `counters` and `conditions`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(transparent)]
pub struct Gates(pub Ordered<Spot<Limits>>);

/// Key of the conditions among the metrics.
pub const CONDITIONS: &str = "conditions";

/// Key of all counters that can be gated, together.
pub const COUNTERS: &str = "counters";

impl JsonSchema for Gates {
    fn schema_name() -> Cow<'static, str> {
        "Gates".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let limits = generator.subschema_for::<Limits>();
        let mut keys: serde_json::Map<_, _> = Metric::ALL
            .iter()
            .map(|metric| (metric.name().to_owned(), limits.clone().to_value()))
            .collect();
        keys.insert(
            CONDITIONS.to_owned(),
            serde_json::json!({
                "description": "Each an expression over metrics: registers <= 64 || occupancy >= 0.5",
                "type": "array",
                "items": { "type": "string" },
            }),
        );
        keys.insert(
            COUNTERS.to_owned(),
            serde_json::json!({
                "description": "How much more than its baseline any counter of the simulator may be: +0% where nothing is said. By shape where wanted.",
                "anyOf": [
                    { "type": "string" },
                    { "type": "object", "additionalProperties": { "type": "string" } },
                ],
            }),
        );
        json_schema!({
            "description": "Limits by metric.",
            "type": "object",
            "properties": keys,
            "additionalProperties": false,
        })
    }
}

/// What is asked of one metric.
#[derive(Debug)]
pub enum Limits {
    One(String),
    All(Vec<Spot<String>>),
    /// By architecture or shape.
    By(Ordered<Spot<Limits>>),
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LimitsVisitor;
        impl<'de> Visitor<'de> for LimitsVisitor {
            type Value = Limits;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a limit, a list of limits, or a mapping to limits")
            }
            fn visit_u64<E>(self, value: u64) -> Result<Limits, E> {
                Ok(Limits::One(value.to_string()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Limits, E> {
                Ok(Limits::One(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Limits, E> {
                // Debug keeps a large one short: 1e300.
                Ok(Limits::One(format!("{value:?}")))
            }
            fn visit_str<E>(self, text: &str) -> Result<Limits, E> {
                Ok(Limits::One(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Limits, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(Limits::All)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Limits, A::Error> {
                Ordered::deserialize(de::value::MapAccessDeserializer::new(map)).map(Limits::By)
            }
        }
        deserializer.deserialize_any(LimitsVisitor)
    }
}

impl JsonSchema for Limits {
    fn schema_name() -> Cow<'static, str> {
        "Limits".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "128, 48KiB, 1.5ms, \"25%\", \"+2%\" (against the baseline), \"+0.5% of base\" (against the revision that --base names), \"+5% of v1.0\" (against what was agreed on at a tag), \"+5% of best\" (against the best level that baselines kept up), \"<= 0.90 * stage1.p50\"; a list of them; or either by architecture (resources) or shape (the rest).",
            "anyOf": [
                { "type": ["number", "string"] },
                { "type": "array", "items": { "type": ["number", "string"] } },
                { "type": "object", "additionalProperties": { "anyOf": [
                    { "type": ["number", "string"] },
                    { "type": "array", "items": { "type": ["number", "string"] } },
                ] } },
            ],
        })
    }
}
