//! gates.yaml as it was written. Comments here are what an editor shows for each key (`schema`).
//!
//! No `untagged` and no `flatten`: both lose positions. Types named Raw have a twin of the same name in
//! `model`: here an expression, there the numbers that it gives at one shape.

use super::yaml::{Ordered, Spanned};
use model::{
    Binary, ElemType, Facet, ImageMemory, Metric, Mode, Nibbles, ReduceOp, Role, TextureAddress,
    TextureFilter, TextureRead, Unary, WarpHazards,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The metrics that a compiled file can state about one kernel.
pub const OF_KERNELS: [Metric; 8] = [
    Metric::Registers,
    Metric::Stack,
    Metric::Shared,
    Metric::Spills,
    Metric::LocalAccesses,
    Metric::Code,
    Metric::BlocksPerSm,
    Metric::Occupancy,
];

/// Implements reading of a value that is written in one of several forms: a text, a number, a list or a mapping.
macro_rules! read_by_form {
    (@text $make:expr) => {
        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok($make(text.to_owned()))
        }
    };
    (@count $make:expr) => {
        fn visit_u64<E>(self, count: u64) -> Result<Self::Value, E> {
            Ok($make(count))
        }
    };
    (@number $make:expr) => {
        fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
            Ok($make(value.to_string()))
        }
        fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
            Ok($make(value.to_string()))
        }
        fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
            // Debug writes a large number briefly: 1e300.
            Ok($make(format!("{value:?}")))
        }
    };
    (@list $make:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(de::value::SeqAccessDeserializer::new(list)).map($make)
        }
    };
    (@map $make:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            Ordered::deserialize(de::value::MapAccessDeserializer::new(map)).map($make)
        }
    };
    ($type:ident, $expecting:literal, $($form:ident => $make:expr),+) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Forms;
                impl<'de> Visitor<'de> for Forms {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    $(read_by_form!(@$form $make);)+
                }
                deserializer.deserialize_any(Forms)
            }
        }
    };
}

/// Gives a type a schema of its own: its name there, and the schema as JSON.
macro_rules! with_schema {
    ($type:ident as $name:literal, $schema:tt) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

/// Declares a type with limits by metric, in a mapping that may have other keys, too.
macro_rules! limits_by_metric {
    ($(#[$documentation:meta])* $type:ident, $description:literal, $metrics:expr, { $($key:expr => $schema:tt),+ }) => {
        $(#[$documentation])*
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $type(pub Ordered<Spanned<Limits>>);

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let limits = generator.subschema_for::<Limits>().to_value();
                let mut keys: serde_json::Map<_, _> = $metrics
                    .into_iter()
                    .map(|metric| {
                        let mut limits = limits.clone();
                        limits["description"] = metric.documentation().into();
                        (metric.name().to_owned(), limits)
                    })
                    .collect();
                $(keys.insert($key.to_owned(), serde_json::json!($schema));)+
                json_schema!({
                    "description": $description,
                    "type": "object",
                    "properties": keys,
                    "additionalProperties": false,
                })
            }
        }
    };
}

/// The kernels and the limits that they must keep.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "gates.yaml")]
pub struct GatesFile {
    /// Version of this format: 1. Must come first.
    #[expect(dead_code, reason = "checked before the rest is read")]
    pub version: Spanned<u32>,
    /// Every kernel is built for each of these: [sm_89, sm_90]. Required with `kernels`.
    pub architectures: Option<Spanned<Vec<Spanned<String>>>>,
    /// The compiler that the limits are for, as `cuda: "13.0"`; takes precedence over PATH. Default: any nvcc.
    #[serde(default)]
    pub toolchain: Toolchain,
    /// nvcc flags of all kernels: [-O3, -std=c++17]. Default: none.
    #[serde(default)]
    pub flags: Vec<Spanned<String>>,
    /// How kernels are timed. Default: those of its keys.
    #[serde(default)]
    pub timing: Timing,
    /// How much is simulated on a machine without a GPU. Default: that of its key.
    #[serde(default)]
    pub simulation: RawSimulation,
    /// Kernels by name: letters, digits, `_`, `-`. Required, unless there are `binaries` or `programs`.
    pub kernels: Option<Spanned<Ordered<Spanned<Kernel>>>>,
    /// Compiled files by name: letters, digits, `_`, `-`. Default: none.
    pub binaries: Option<Spanned<Ordered<Spanned<RawBinary>>>>,
    /// Programs by name: letters, digits, `_`, `-`. Their launches are captured, and judged like kernels. Default: none.
    pub programs: Option<Spanned<Ordered<Spanned<RawProgram>>>>,
}

/// A program that is run, and the limits of the kernels that it launches.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Program")]
pub struct RawProgram {
    /// The program, started in the directory of gates.yaml: `[python, bench.py]`, or a line for the shell.
    pub command: Spanned<Command>,
    /// The command that makes it, run ahead of it there: `pip install -e .`. Against a base it runs for both sides, each in
    /// its own tree. Default: none.
    pub build: Option<Spanned<Command>>,
    /// Globs of the names of kernels, mangled or readable: ["*softmax*"]. Default: every kernel.
    #[serde(default)]
    pub kernels: Vec<Spanned<String>>,
    /// Globs of the names of regions of the program: [decode]. Default: the whole program.
    #[serde(default)]
    pub regions: Vec<Spanned<String>>,
    /// Launches of each kernel that are captured, in each region and process. Default: 1.
    pub launches: Option<Spanned<u32>>,
    /// Time limit of the build, and of the program. Default: `1800s`.
    pub deadline: Option<Spanned<Formula>>,
    /// Limits of each kernel and launch. Default: none but those that need no writing.
    #[serde(default)]
    pub gates: ProgramGates,
    /// References for the outputs of kernels, by globs of their names: {"*softmax*": ...}. Default: the captured output.
    #[serde(default, deserialize_with = "share_outputs")]
    pub outputs: Ordered<Spanned<Arc<RawOutput>>>,
}

/// Reads outputs without resolving them, because they are resolved when the program has run.
fn share_outputs<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Ordered<Spanned<Arc<RawOutput>>>, D::Error> {
    let Ordered(outputs) = Ordered::<Spanned<RawOutput>>::deserialize(deserializer)?;
    Ok(Ordered(
        outputs
            .into_iter()
            .map(|(glob, Spanned { value, at })| {
                let value = Arc::new(value);
                (glob, Spanned { value, at })
            })
            .collect(),
    ))
}

/// Where the tensors of a captured launch are, and the right output. All other memory is compared bit for bit.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProgramOutput")]
pub struct RawOutput {
    /// How the right output is computed, from the captured inputs.
    pub reference: Spanned<RawReference>,
    /// Tensors by name. None overlaps another.
    pub tensors: Spanned<Ordered<Spanned<RawCapturedTensor>>>,
    /// Numbers by name, read from parameters of the launch, for shapes and the reference. Default: none.
    #[serde(default)]
    pub scalars: Ordered<Spanned<RawCapturedScalar>>,
    /// The most that an element may differ by. Default: none, with `rel_l2`.
    pub max_err: Option<Spanned<Formula>>,
    /// The most that an output as a whole may differ by, relative. Default: none, with `max_err`.
    pub rel_l2: Option<Spanned<Formula>>,
    /// Allows launches to differ in bits, and says why: `float atomics`. Default: they must not differ.
    pub nondeterministic: Option<Spanned<String>>,
}

/// A contiguous tensor that a parameter points to.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CapturedTensor")]
pub struct RawCapturedTensor {
    /// The number of the parameter, from 0.
    pub parameter: Spanned<u32>,
    /// Bytes ahead of the pointer in the parameter, which is a struct then. Default: 0.
    pub offset: Option<Spanned<u32>>,
    /// f64 f32 f16 bf16 e4m3 e5m2 i8 u8 i16 u16 i32 u32 i64.
    #[serde(rename = "type")]
    pub elem: Spanned<RawType>,
    /// Slowest dimension first; `[]` is one element.
    pub shape: Spanned<Vec<Spanned<Formula>>>,
    /// `in`, `out` (every element has to be written), `inout`, `scratch` (not checked). Default: `in`.
    pub role: Option<Spanned<Role>>,
}

/// A number in the bytes of a captured parameter.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CapturedScalar")]
pub struct RawCapturedScalar {
    /// The number of the parameter, from 0.
    pub parameter: Spanned<u32>,
    /// Bytes ahead of the number in the parameter, which is a struct then. Default: 0.
    pub offset: Option<Spanned<u32>>,
    /// i8 u8 i16 u16 i32 u32 i64 f32 f64.
    #[serde(rename = "type")]
    pub elem: Spanned<RawType>,
}

/// A command: a line for `sh -c`, or a program and its arguments.
#[derive(Debug)]
pub enum Command {
    Shell(String),
    Words(Vec<Spanned<String>>),
}

read_by_form!(
    Command,
    "a program and its arguments, or a line for the shell",
    text => Command::Shell,
    list => Command::Words
);

with_schema!(Command as "Command", {
    "description": "A program and its arguments, [python, bench.py]; or a line for the shell.",
    "anyOf": [
        { "type": "string" },
        { "type": "array", "items": { "type": "string" } },
    ],
});

/// The key of what is required of a launch's output.
pub const OUTPUT: &str = "output";

/// The value that requires the output of the program, or of the base's launch, bit for bit.
pub const SAME: &str = "same";

/// Returns true for a metric of a captured launch: resources and times.
pub fn is_of_programs(metric: Metric) -> bool {
    matches!(metric.facet(), Facet::Resources | Facet::Times) && !metric.is_of_files()
}

limits_by_metric!(
    /// The limits of a program: by metric, and `output`.
    ProgramGates,
    "Limits by metric.",
    Metric::ALL.into_iter().filter(|metric| is_of_programs(*metric)),
    {
        OUTPUT => {
            "description": "That of the program; against a base, that of the base's launch. same: bit for bit. \"f32:1e-5\": f32, f16 or bf16 may differ by this share of the larger one. Default: same.",
            "type": "string",
        }
    }
);

/// A compiled file, and the limits of its kernels.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CompiledFile")]
pub struct RawBinary {
    /// A shared library, object, program, static library, cubin, fat binary, wheel or directory, relative to gates.yaml.
    /// Its name can be a glob that fits one file: dist/attention-*.whl.
    pub file: Spanned<String>,
    /// Architectures that it must have machine code for: [sm_90, sm_100]. Kernels of these are judged.
    pub architectures: Spanned<Vec<Spanned<String>>>,
    /// Kernels of each architecture: 1500, "+5%" or "+10". Default: any number.
    pub count: Option<Spanned<Limits>>,
    /// Limits of its kernels; all entries that fit a kernel hold. Default: none.
    pub gates: Option<Spanned<Vec<Spanned<CompiledFileGates>>>>,
}

/// The key of the globs, which is among the metrics.
pub const KERNELS: &str = "kernels";

limits_by_metric!(
    /// The limits of a compiled file: by metric, with the globs of names that they are for.
    CompiledFileGates,
    "Limits by metric.",
    OF_KERNELS,
    {
        KERNELS => {
            "description": "Globs of kernels' names, as reports have them: [\"*gemm*\"]. Default: every kernel.",
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
            ],
        }
    }
);

#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// The release of CUDA whose compiler builds the kernels, quoted: "13.0".
    pub cuda: Option<Spanned<String>>,
}

#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// `warm`: launches back to back. `cold`: L2 is flushed before each. Default: `warm`.
    pub mode: Option<Mode>,
    /// Launches before the first sample. Default: 20.
    pub warmup: Option<Spanned<u32>>,
    /// Batched samples of each process, for p50, mean, min and max (`--iters`). Default: 30.
    pub iterations: Option<Spanned<u32>>,
    /// Samples of one launch each, of each process, for p90, p99 and cv. Default: 200.
    pub singles: Option<Spanned<u32>>,
    /// The least duration of a batched sample. Default: `200us`.
    pub batch: Option<Spanned<Formula>>,
    /// Fresh processes that time every case. Default: 3.
    pub processes: Option<Spanned<u32>>,
    /// The most processes, if the first ones do not decide. Default: 8.
    pub max_processes: Option<Spanned<u32>>,
}

#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Simulation")]
pub struct RawSimulation {
    /// Warp instructions of one case over all its seeds, a matrix product as 16 of them; a case that takes more is
    /// skipped (`--sim-budget`). Default: 50000000.
    pub budget: Option<Spanned<u64>>,
    /// `note`: a hazard within a warp fails only where it is new against the base.
    /// `fail`: everywhere. Default: `note`.
    pub warp_hazards: Option<WarpHazards>,
}

/// One kernel and how to call it.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// A .cu file or a header (.cuh), relative to gates.yaml; or what a compiler has made: .ptx or .cubin.
    pub source: Spanned<String>,
    /// C++ name of the `__global__` function as the source would write it: `k`, `ns::k`, or a template with its arguments,
    /// which can be aliases, macros and, in braces, expressions: `"k<half, BLOCK, {D / 2}>"`. Required, unless there is a `sequence` or `launcher`.
    pub entry: Option<Spanned<String>>,
    /// Instead of `entry`, `args` and `launch`: several kernels of the source that run one after the other over the
    /// same tensors. They are checked and timed as one. Default: none.
    pub sequence: Option<Spanned<Vec<Spanned<RawStep>>>>,
    /// Instead of `entry`: a host function that launches the kernel. Default: none.
    pub launcher: Option<Spanned<Launcher>>,
    /// Directories for `-I`, relative to gates.yaml; one outside the repository as `${NAME}`, `${NAME}/below`, from the
    /// environment, or as a whole path. Default: none.
    #[serde(default)]
    pub include_dirs: Vec<Spanned<String>>,
    /// For nvcc, after those of the file. Default: none.
    #[serde(default)]
    pub flags: Vec<Spanned<String>>,
    /// Macros (`-D`); expressions can use those that are integers. Default: none.
    #[serde(default)]
    pub define: Ordered<Spanned<Word>>,
    /// The kernel with other macros, or other parts replaced, by name. Default: one, called `default`.
    pub variants: Option<Spanned<Ordered<Spanned<Variant>>>>,
    /// Integer dimensions by name, the same in all shapes; a value can be an expression over the others:
    /// `{N: 128, K: N / 2}`. Default: one, called `default`.
    pub shapes: Option<Spanned<Ordered<Spanned<Dims>>>>,
    /// A number of seeds, a list of them, or either by shape with a `default`. Default: 5, which are 1 to 5.
    pub seeds: Option<Spanned<Seeds>>,
    /// The buffers that the kernel reads and writes, by name. Default: none.
    #[serde(default)]
    pub tensors: Ordered<Spanned<RawTensor>>,
    /// `__constant__` and `__device__` variables that the host fills before each launch, and the tensor whose content each
    /// gets: `{COEFFS: c}`. Both have the same size. Default: none.
    pub constants: Option<Spanned<Ordered<Spanned<String>>>>,
    /// In the order of the kernel's parameters. Required, unless there is a `sequence`.
    pub args: Option<Spanned<Vec<Spanned<RawArg>>>>,
    /// Grid, block, and what else a launch has. Required with `entry`.
    pub launch: Option<Spanned<RawLaunch>>,
    /// How the right output is computed. Required, unless no tensor is an output.
    pub reference: Option<Spanned<RawReference>>,
    /// Allows launches to differ in bits, and says why: `float atomics`. Default: they must not differ.
    pub nondeterministic: Option<Spanned<String>>,
    /// Launches of each seed, compared bit for bit; in the simulator one, and this many where each leaves something new in
    /// variables of the module. Default: 8.
    pub launches: Option<Spanned<u32>>,
    /// Time limit for checking one seed, or timing one case. Default: `30s`.
    pub deadline: Option<Spanned<Formula>>,
    /// Other programs that do the same work, timed in the same run where there is a GPU. Default: none.
    #[serde(default)]
    pub rivals: Ordered<Spanned<RawRival>>,
    /// Limits; every case with an output needs `max_err` or `rel_l2`.
    pub gates: Spanned<Gates>,
    /// Values to be reached: reported, and no gates. Default: none.
    #[serde(default)]
    pub target: Targets,
    /// The space that `gatekeeper tune` searches. Default: none.
    pub tune: Option<Spanned<RawTune>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tune")]
pub struct RawTune {
    /// Macros, and the integers that each can be: `{BLOCK_M: [32, 64, 128]}`.
    pub parameters: Spanned<Ordered<Spanned<Vec<Spanned<i64>>>>>,
    /// Conditions over parameters and integer macros that a configuration has to hold: `BLOCK_M / NUM_WARPS >= 8`.
    /// Default: none.
    #[serde(default)]
    pub constraints: Vec<Spanned<String>>,
    /// `p50 of SHAPE`; or a weight for each of several shapes, `{mission: 2, long: 1}`: the weighted geometric mean of
    /// their p50.
    pub objective: Spanned<RawObjective>,
    /// Where the search ends: `200 evaluations`, or a time such as `10min`. Default: `100 evaluations`.
    pub budget: Option<Spanned<String>>,
}

/// The value that `tune` makes as small as it can.
#[derive(Debug)]
pub enum RawObjective {
    /// The value of one shape, such as `p50 of mission`.
    One(String),
    /// The shapes that count, each with its weight.
    Weighted(Ordered<Spanned<Formula>>),
}

read_by_form!(
    RawObjective,
    "`p50 of SHAPE`, or a mapping from shapes to weights",
    text => RawObjective::One,
    map => RawObjective::Weighted
);

with_schema!(RawObjective as "Objective", {
    "description": "p50 of mission; or a weight for each of several shapes: {mission: 2, long: 1}.",
    "anyOf": [
        { "type": "string" },
        { "type": "object", "additionalProperties": { "type": "number", "exclusiveMinimum": 0 } },
    ],
});

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rival")]
pub struct RawRival {
    /// The program and its arguments, started in the directory of gates.yaml: `[python3, rivals/torch_sdpa.py]`.
    pub command: Spanned<Vec<Spanned<String>>>,
    /// Its ways of doing the work, by name; a limit names `RIVAL.BACKEND.METRIC`.
    pub backends: Spanned<Vec<Spanned<String>>>,
    /// Time limit of its start, and of each task. Default: `120s`.
    pub deadline: Option<Spanned<Formula>>,
}

/// The dimensions of a shape, by name.
pub type Dims = Ordered<Spanned<Formula>>;

/// Changes of a variant. Everything else is the kernel's.
#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Added to the kernel's macros; replaces those of the same name.
    #[serde(default)]
    pub define: Ordered<Spanned<Word>>,
    /// The variant's own entry. Default: the kernel's.
    pub entry: Option<Spanned<String>>,
    /// Replaces the kernel's, or its `entry`, `args` and `launch`.
    pub sequence: Option<Spanned<Vec<Spanned<RawStep>>>>,
    /// Replaces the kernel's; {} fills none.
    pub constants: Option<Spanned<Ordered<Spanned<String>>>>,
    /// Each replaces the kernel's tensor of that name entirely.
    #[serde(default)]
    pub tensors: Ordered<Spanned<RawTensor>>,
    /// The variant's own launch, in place of the whole launch of the kernel.
    pub launch: Option<Spanned<RawLaunch>>,
    /// The variant's own reference. Default: the kernel's.
    pub reference: Option<Spanned<RawReference>>,
    /// The reason for which the results of this variant may differ. Default: the kernel's.
    pub nondeterministic: Option<Spanned<String>>,
    /// Those of the kernel's shapes that it is run at. Default: all.
    pub shapes: Option<Spanned<Vec<Spanned<String>>>>,
    /// Added to the kernel's gates; replaces those on the same metric. Gates cannot be removed.
    #[serde(default)]
    pub gates: Gates,
    /// Added to the kernel's targets; replaces those on the same metric.
    #[serde(default)]
    pub target: Targets,
    /// The variant that stands in for it where it fails, if the run allows that: --allow-fallback.
    pub fallback: Option<Spanned<String>>,
    /// That it is wrong, and kept to show that a gate catches it.
    pub expect: Option<Expect>,
    /// The variant's own search space. Default: the kernel's.
    pub tune: Option<Spanned<RawTune>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Gates of which at least one fails, and no other: [memory and races, max_err].
    pub fail: Spanned<Vec<Spanned<String>>>,
}

/// One kernel of a sequence, with `entry`, `args` and `launch`; or what happens to memory between kernels.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Step")]
pub struct RawStep {
    /// C++ name of the __global__ function as written in the source: k, ns::k, "k<float, 4>".
    pub entry: Option<Spanned<String>>,
    /// In the order of its parameters.
    pub args: Option<Spanned<Vec<Spanned<RawArg>>>>,
    /// Grid, block, and what else a launch has.
    pub launch: Option<Spanned<RawLaunch>>,
    /// Instead: each byte of a tensor gets a value, as by cudaMemsetAsync.
    pub memset: Option<Spanned<RawMemset>>,
    /// Instead: a tensor gets what another one of the same type and size holds, as by cudaMemcpyAsync.
    pub copy: Option<Spanned<RawCopy>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Memset")]
pub struct RawMemset {
    /// The tensor whose bytes are set.
    pub tensor: Spanned<String>,
    /// The value of each byte: 0 to 255.
    pub value: Spanned<Formula>,
}

/// A copy from one tensor to another. Both are named as under `tensors`.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Copy")]
pub struct RawCopy {
    /// The name of the tensor that is read.
    pub from: Spanned<String>,
    /// The name of the tensor that is written.
    pub to: Spanned<String>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launcher {
    /// extern "C" function in the same source; takes `args` in order.
    pub function: Spanned<String>,
    /// The list of all kernels that the function launches.
    pub launches: Spanned<Vec<Launched>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launched {
    /// C++ name of the `__global__` function: k, ns::k, "k<float, 4>".
    pub entry: Spanned<String>,
    /// Bytes; of all shapes, the largest value is used.
    pub dynamic_shared: Option<Spanned<Formula>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Launch")]
pub struct RawLaunch {
    /// Blocks: [x], [x, y] or [x, y, z].
    pub grid: Spanned<Vec<Spanned<Formula>>>,
    /// Threads of a block: [x], [x, y] or [x, y, z].
    pub block: Spanned<Vec<Spanned<Formula>>>,
    /// Blocks of a cluster: [x], [x, y] or [x, y, z]. Default: no clusters.
    pub cluster: Option<Spanned<Vec<Spanned<Formula>>>>,
    /// All blocks run at a time and can wait for each other: what `grid.sync()` needs.
    pub cooperative: Option<bool>,
    /// Dynamic shared memory of a block in bytes. Default: 0.
    pub dynamic_shared: Option<Spanned<Formula>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tensor")]
pub struct RawTensor {
    /// `in`, `out`, `inout` (restored before every launch), `scratch` (not checked; with a `fill`, restored before every
    /// launch), `reference` (an input that only the reference or a `mask` reads). Default: `in`.
    pub role: Option<Spanned<Role>>,
    /// f64 f32 f16 bf16 e4m3 e5m2 i8 u8 i16 u16 i32 u32 i64, or a struct.
    #[serde(rename = "type")]
    pub elem: Spanned<RawType>,
    /// Slowest dimension first; `[]` is one element. For structs, the number of them.
    pub shape: Spanned<Vec<Spanned<Formula>>>,
    /// Elements between neighbours along each dimension. Default: contiguous, the last dimension fastest.
    pub strides: Option<Spanned<Vec<Spanned<Formula>>>>,
    /// Elements of the allocation ahead of the tensor, which is a view: no kernel may read or write them. Default: 0.
    pub offset: Option<Spanned<Formula>>,
    /// How inputs are made from the seed; what scratch starts with: `zeros`, `constant`, `iota` or `values`. Default:
    /// normal(0, 1) for inputs of floats.
    pub fill: Option<Spanned<RawFill>>,
    /// How float inputs become the codes that the kernel reads. Default: none.
    pub codec: Option<Spanned<RawCodec>>,
    /// Which elements of an output are compared, or along which axis in any order. Default: all.
    pub compare: Option<Spanned<RawCompare>>,
}

macro_rules! types {
    ($($elem:ident)+) => {
        #[derive(Debug, serde::Deserialize, JsonSchema)]
        #[serde(rename_all = "lowercase")]
        #[schemars(rename = "Type")]
        pub enum RawType {
            $($elem,)+
            /// Fields in their order, laid out as in C.
            Struct(Ordered<Spanned<RawField>>),
        }

        impl RawType {
            /// Returns the type of the elements, or `None` for a struct.
            pub fn elem(&self) -> Option<ElemType> {
                match self {
                    $(Self::$elem => Some(ElemType::$elem),)+
                    Self::Struct(_) => None,
                }
            }
        }
    };
}

types!(F64 F32 F16 Bf16 E4m3 E5m2 I8 U8 I16 U16 I32 U32 I64);

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Field")]
pub struct RawField {
    /// f64 f32 f16 bf16 e4m3 e5m2 i8 u8 i16 u16 i32 u32 i64, or a struct.
    #[serde(rename = "type")]
    pub elem: Spanned<RawType>,
    /// The number of elements of an array in the struct. Default: 1.
    pub count: Option<Spanned<Formula>>,
    /// As of a tensor; not where a codec fills the struct.
    pub fill: Option<Spanned<RawFill>>,
}

/// One of `where`, `mask` and `unordered`.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Compare")]
pub struct RawCompare {
    /// A condition over the element's indices, dimensions and integer macros: i >= j.
    #[serde(rename = "where")]
    pub condition: Option<Spanned<String>>,
    /// Names of the indices in `where`, one for each dimension. Default: i, j, k, l, m, n.
    pub index: Option<Spanned<Vec<Spanned<String>>>>,
    /// An input of integers of the same shape: elements are compared where it is not 0.
    pub mask: Option<Spanned<String>>,
    /// A dimension of the output, from 0, along which its slices may come in any order: 1 of [rows, k] sorts each row.
    pub unordered: Option<Spanned<u32>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Fill")]
pub enum RawFill {
    /// Normally distributed: {normal: {mean: 0, std: 1}}.
    Normal {
        /// The mean of the distribution. Default: 0.
        mean: Option<Spanned<Formula>>,
        /// The standard deviation of the distribution. Default: 1.
        std: Option<Spanned<Formula>>,
        /// Shares of special values. Default: none.
        special: Option<Spanned<RawSpecial>>,
    },
    /// Floats, uniform between `low`, which is included, and `high`, which is not.
    Uniform {
        /// The least value that is drawn.
        low: Spanned<Formula>,
        /// The bound above, which no value reaches.
        high: Spanned<Formula>,
        /// Shares of special values. Default: none.
        special: Option<Spanned<RawSpecial>>,
    },
    /// The same value in every element; of floats also .inf, -.inf and .nan.
    Constant(Spanned<Formula>),
    /// The value 0 in every element.
    Zeros,
    /// Uniform integers in [low, high], both included.
    Integers {
        /// The least value that is drawn.
        low: Spanned<Formula>,
        /// The largest value that is drawn.
        high: Spanned<Formula>,
        /// Shares of special values. Default: none.
        special: Option<Spanned<RawSpecial>>,
    },
    /// The position of each element: 0, 1, 2, ...
    Iota,
    /// A seeded permutation of 0, 1, 2, ...
    Permutation,
    /// Start offsets of ragged sequences: from 0 to `total`, each at least `min` long.
    Offsets {
        /// The last offset: the length of all sequences together.
        total: Spanned<Formula>,
        /// The least length of a sequence. Default: 0.
        min: Option<Spanned<Formula>>,
    },
    /// Seeded indices below `pool`, no two of them equal, as in a table of blocks.
    BlockTable {
        /// How many indices there are to choose from.
        pool: Spanned<Formula>,
    },
    /// One value per element; of floats also .inf, -.inf and .nan.
    Values(Vec<Spanned<Formula>>),
}

/// Shares of the elements that are replaced, at seeded places: 0.01 is one of a hundred, and at least one.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Special")]
pub struct RawSpecial {
    /// Infinities of either sign. Default: 0.
    pub inf: Option<Spanned<Formula>>,
    /// The share of NaN. Default: 0.
    pub nan: Option<Spanned<Formula>>,
    /// Denormal numbers of the type, of either sign. Default: 0.
    pub denormal: Option<Spanned<Formula>>,
    /// Values that are in the same row (last dimension) already. Default: 0.
    pub ties: Option<Spanned<Formula>>,
    /// The share of rows that are a copy of another one. Default: 0.
    pub equal_rows: Option<Spanned<Formula>>,
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Codec")]
pub enum RawCodec {
    /// code = round(x / amax * levels) + zero_point; the kernel gets amax / scale_divisor.
    Symmetric {
        /// The elements that share one scale: tensor, {axes: [0]} or {block: [1, 128]}.
        per: Spanned<Per>,
        /// The code of amax. Default: the largest value of the type (e4m3 448, e5m2 57344, i8 and u8 127).
        levels: Option<Spanned<Formula>>,
        /// The code of zero. Default: 0, and 128 for u8.
        zero_point: Option<Spanned<Formula>>,
        /// The divisor of amax in the scale that the kernel gets. Default: the value of `levels`.
        scale_divisor: Option<Spanned<Formula>>,
    },
    /// code = round(x / scale) + zero, clamped to low..=high.
    Affine {
        /// The elements that share one scale: tensor, {axes: [0]} or {block: [1, 128]}.
        per: Spanned<Per>,
        /// The least code. Default: the smallest value of the type.
        low: Option<Spanned<Formula>>,
        /// The largest code. Default: the largest value of the type.
        high: Option<Spanned<Formula>>,
    },
    /// Blocks of a struct, with the scale next to the codes: code = round(x / scale) + zero_point, scale = amax / levels.
    Blocks(RawBlocks),
}

/// How a codec fills a struct. Names are those of the struct's fields.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Blocks")]
pub struct RawBlocks {
    /// The field of the scale: one float.
    pub scale: Spanned<String>,
    /// The field of the codes: integers of up to 16 bits.
    pub codes: Spanned<String>,
    /// A field of one float that gets `scale` times the sum of `code - zero_point`, as in q8_1. Default: none.
    pub sum: Option<Spanned<String>>,
    /// Two codes of 4 bits a u8, the low half first. `halves`: codes i and i + n / 2; `pairs`: codes 2 i and 2 i + 1.
    /// Default: one code an element.
    pub nibbles: Option<Nibbles>,
    /// The code of amax. Default: 8 with `nibbles`, else 127; for 16 bits 32767.
    pub levels: Option<Spanned<Formula>>,
    /// The code of zero. Default: the middle of unsigned codes, 0 of signed ones.
    pub zero_point: Option<Spanned<Formula>>,
}

/// The elements that share one scale.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Per {
    /// The whole tensor shares one scale.
    Tensor,
    /// One scale per index along these axes: [0, 1] of [B, H, S, D] is one scale per batch and head.
    Axes(Vec<Spanned<u32>>),
    /// One scale per block of this extent along each dimension.
    Block(Vec<Spanned<Formula>>),
}

#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Arg")]
pub enum RawArg {
    /// A pointer to the tensor of this name.
    Tensor(Spanned<String>),
    /// Pointer to the f32 scales of the tensor's codec.
    Scales(Spanned<String>),
    /// Pointer to the i32 zero points of the tensor's affine codec.
    ZeroPoints(Spanned<String>),
    /// For a reference: pointer to the bytes of this input as the kernel reads them.
    Bytes(Spanned<String>),
    /// A texture object (cudaTextureObject_t) that reads this tensor.
    Texture(Spanned<RawTexture>),
    /// A surface object (cudaSurfaceObject_t) over this tensor.
    Surface(Spanned<RawSurface>),
    /// CUtensorMap over this tensor, by value.
    TensorMap(Spanned<RawTensorMap>),
    /// A null pointer, for a buffer that is left out.
    Nullptr,
    /// The cudaStream_t that a launcher has to launch in.
    Stream,
    /// A bool by value: a number, or an expression over dimensions and integer macros.
    Bool(Spanned<Formula>),
    /// An int8_t by value: a number, or an expression over dimensions and integer macros.
    I8(Spanned<Formula>),
    /// A uint8_t by value: a number, or an expression over dimensions and integer macros.
    U8(Spanned<Formula>),
    /// An int16_t by value: a number, or an expression over dimensions and integer macros.
    I16(Spanned<Formula>),
    /// A uint16_t by value: a number, or an expression over dimensions and integer macros.
    U16(Spanned<Formula>),
    /// An int by value: a number, or an expression over dimensions and integer macros.
    I32(Spanned<Formula>),
    /// An unsigned int by value: a number, or an expression over dimensions and integer macros.
    U32(Spanned<Formula>),
    /// An int64_t by value: a number, or an expression over dimensions and integer macros.
    I64(Spanned<Formula>),
    /// A uint64_t or size_t by value: a number, or an expression over dimensions and integer macros.
    U64(Spanned<Formula>),
    /// A __half by value: a number, or an expression over dimensions and integer macros.
    F16(Spanned<Formula>),
    /// An __nv_bfloat16 by value: a number, or an expression over dimensions and integer macros.
    Bf16(Spanned<Formula>),
    /// A float by value: a number, or an expression over dimensions and integer macros.
    F32(Spanned<Formula>),
    /// A double by value: a number, or an expression over dimensions and integer macros.
    F64(Spanned<Formula>),
    /// A struct by value, field by field, aligned as in C.
    Struct(Vec<Spanned<RawArg>>),
    /// This many bytes in a struct that belong to no field.
    Pad(Spanned<u32>),
}

/// A tensor [depth, height, width] of one to three dimensions, x last.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Texture")]
pub struct RawTexture {
    /// f32, f16 or integers of 8, 16 or 32 bits, contiguous.
    pub tensor: Spanned<String>,
    /// Between elements: point or linear. Default: point.
    pub filter: Option<Spanned<TextureFilter>>,
    /// Outside of the image: clamp, border (0), wrap or mirror; the last two need `normalized`. Default: clamp.
    pub address: Option<Spanned<TextureAddress>>,
    /// Coordinates from 0 to 1. Default: false.
    pub normalized: Option<bool>,
    /// `element`, or `normalized_float`: integers as floats from 0 or -1 to 1. Default: element.
    pub read: Option<Spanned<TextureRead>>,
    /// Channels of an element: 1, 2 or 4; several are the last dimension of the tensor. Default: 1.
    pub channels: Option<Spanned<u32>>,
    /// The first dimension of the tensor counts layers. Default: false.
    pub layered: Option<bool>,
    /// array, or linear for tex1Dfetch. Default: array.
    pub memory: Option<Spanned<ImageMemory>>,
}

/// A tensor [depth, height, width] of one to three dimensions, x last, as a texture's.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Surface")]
pub struct RawSurface {
    /// f32, f16 or integers of 8, 16 or 32 bits, contiguous.
    pub tensor: Spanned<String>,
    /// Channels of an element: 1, 2 or 4; several are the last dimension of the tensor. Default: 1.
    pub channels: Option<Spanned<u32>>,
    /// The first dimension of the tensor counts layers. Default: false.
    pub layered: Option<bool>,
}

/// A tensor as the boxes that TMA copies. Dimensions are in the order of the tensor's `shape`, the outermost first.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TensorMap")]
pub struct RawTensorMap {
    /// Its type is that of the map; types of 8 bits are bytes to TMA.
    pub tensor: Spanned<String>,
    /// Elements of one copy in each dimension: [1, TILE, 64]. Required without `im2col`.
    #[serde(rename = "box")]
    pub extents: Option<Spanned<Vec<Spanned<Formula>>>>,
    /// In place of `box`: a copy takes pixels of images, of a tensor [N, H, W, C] as an example.
    pub im2col: Option<Box<Spanned<RawIm2col>>>,
    /// Other dimensions for the elements of a contiguous tensor: [B * H, S, D]. Default: those of the tensor.
    pub shape: Option<Spanned<Vec<Spanned<Formula>>>>,
    /// Width in bytes: 32, 64 or 128. Default: none.
    pub swizzle: Option<Spanned<u32>>,
    /// Elements outside of the tensor: zeros or nan. Default: zeros.
    pub fill: Option<Spanned<MapFill>>,
    /// The box spans, but does not copy, the elements between these steps: [1, 2, 1] copies every second row. Default:
    /// each 1.
    pub steps: Option<Spanned<Vec<Spanned<Formula>>>>,
}

/// Corners list the dimensions between images and channels, the outermost first.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Im2col")]
pub struct RawIm2col {
    /// From the first pixel of an image to the first that a copy takes, -1 for one of padding: [-P, -P].
    pub lower: Spanned<Vec<Spanned<Formula>>>,
    /// From the last pixel of an image to the last that a copy takes: [P - R + 1, P - S + 1].
    pub upper: Spanned<Vec<Spanned<Formula>>>,
    /// Channels of a pixel that one copy takes, 1 to 256.
    pub channels: Spanned<Formula>,
    /// Pixels that one copy takes, 1 to 1024.
    pub pixels: Spanned<Formula>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MapFill {
    Zeros,
    Nan,
}

/// The computation of the right output. Names are those of the tensors.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Reference")]
pub enum RawReference {
    /// softmax(scale * q k^T) v; q [B, Hq, Sq, D], k and v [B, Hk, Sk, D], Hq a multiple of Hk.
    Sdpa {
        /// The tensor of queries: [B, Hq, Sq, D].
        q: Spanned<String>,
        /// The tensor of keys: [B, Hk, Sk, D].
        k: Spanned<String>,
        /// The tensor of values: [B, Hk, Sk, D].
        v: Spanned<String>,
        /// The output [B, Hq, Sq, D].
        out: Spanned<String>,
        /// The factor of q k^T. Default: 1 / sqrt(D).
        scale: Option<Spanned<Formula>>,
        /// Query i sees keys j <= i + Sk - Sq. Default: false.
        #[serde(default)]
        causal: bool,
    },
    /// epilogue(alpha * a b + beta * c + bias); a [.., M, K], b [.., K, N], bias [N].
    Gemm {
        /// The left matrix [.., M, K].
        a: Spanned<String>,
        /// The right matrix [.., K, N].
        b: Spanned<String>,
        /// The tensor of the result: [.., M, N].
        out: Spanned<String>,
        /// A matrix [.., M, N] that is added, times `beta`. Default: none.
        c: Option<Spanned<String>>,
        /// A row [N] that is added to each row. Default: none.
        bias: Option<Spanned<String>>,
        /// The factor of a b. Default: 1.
        alpha: Option<Spanned<Formula>>,
        /// The factor of c. Default: 1 with c, 0 without.
        beta: Option<Spanned<Formula>>,
        /// `a` is stored as [.., K, M]. Default: false.
        #[serde(default)]
        transpose_a: bool,
        /// `b` is stored as [.., N, K]. Default: false.
        #[serde(default)]
        transpose_b: bool,
        /// Applied to each element at the end: copy neg abs relu gelu gelu_tanh silu sigmoid tanh exp sqrt. Default: none.
        epilogue: Option<Unary>,
    },
    /// Softmax of each row, which is the last dimension.
    Softmax {
        /// The name of the input tensor.
        x: Spanned<String>,
        /// The output, of the same shape.
        out: Spanned<String>,
    },
    /// Layer normalisation over the last dimension.
    LayerNorm {
        /// The name of the input tensor.
        x: Spanned<String>,
        /// The output, of the same shape.
        out: Spanned<String>,
        /// A factor for each column. Default: none.
        gamma: Option<Spanned<String>>,
        /// A summand for each column. Default: none.
        beta: Option<Spanned<String>>,
        /// Added to the variance before the root. Default: 1e-5.
        eps: Option<Spanned<Formula>>,
    },
    /// Root mean square normalisation over the last dimension.
    RmsNorm {
        /// The name of the input tensor.
        x: Spanned<String>,
        /// The output, of the same shape.
        out: Spanned<String>,
        /// A factor for each column. Default: none.
        gamma: Option<Spanned<String>>,
        /// Added to the mean square before the root. Default: 1e-5.
        eps: Option<Spanned<Formula>>,
    },
    /// Sum, mean, maximum or minimum over some dimensions.
    Reduce {
        /// The name of the input tensor.
        x: Spanned<String>,
        /// The output: the dimensions of x without those that are reduced.
        out: Spanned<String>,
        /// The reduction: sum, mean, max or min.
        op: ReduceOp,
        /// The dimensions of x that are reduced, from 0: [1] of [rows, cols] gives one value for each row.
        axes: Spanned<Vec<Spanned<u32>>>,
    },
    /// The same elements, with the dimensions in another order.
    Transpose {
        /// The name of the input tensor.
        x: Spanned<String>,
        /// The name of the output tensor.
        out: Spanned<String>,
        /// Dimension i of out is dimension permutation[i] of x.
        permutation: Spanned<Vec<Spanned<u32>>>,
    },
    /// One function, applied to each element.
    Unary {
        /// The name of the input tensor.
        x: Spanned<String>,
        /// The output, of the same shape.
        out: Spanned<String>,
        /// copy neg abs relu gelu gelu_tanh silu sigmoid tanh exp sqrt.
        op: Unary,
    },
    /// An operation on two elements at the same place.
    Binary {
        /// The name of the left operand.
        a: Spanned<String>,
        /// The right operand, of the same shape.
        b: Spanned<String>,
        /// The output, of the same shape.
        out: Spanned<String>,
        /// add sub mul div min max.
        op: Binary,
    },
    /// Your own C or C++ function over floats, or a Python function over NumPy arrays.
    User {
        /// .c, .cpp or .py file, relative to gates.yaml.
        source: Spanned<String>,
        /// The name of a function in it: extern "C", or of Python.
        function: Spanned<String>,
        /// In the order of its parameters; outputs are written through their pointers, and returned in Python.
        args: Spanned<Vec<Spanned<RawArg>>>,
        /// Flags of the host compiler; none in Python.
        #[serde(default)]
        flags: Vec<Spanned<String>>,
    },
    /// The output of another variant of this kernel.
    Variant(Spanned<String>),
    /// Not written yet: limits on errors stay inconclusive, and nothing is timed.
    None,
}

/// A number, a quantity (48KiB, 900us), or an expression over dimensions and integer macros.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct Formula(pub String);

with_schema!(Formula as "Formula", {
    "description": "A number, a quantity (48KiB, 900us), or an expression over dimensions and integer macros.",
    "type": ["number", "string"],
});

/// The value of a macro, which is always kept as text.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(transparent)]
pub struct Word(pub String);

with_schema!(Word as "Word", {
    "description": "The value of a macro.",
    "type": ["number", "string", "boolean"],
});

#[derive(Debug)]
pub enum Seeds {
    /// The seeds are 1 to this number.
    Count(u64),
    List(Vec<Spanned<u64>>),
    ByShape(Ordered<Spanned<Seeds>>),
}

read_by_form!(
    Seeds,
    "a number of seeds, a list of seeds, or a mapping from shapes to either",
    count => Seeds::Count,
    list => Seeds::List,
    map => Seeds::ByShape
);

with_schema!(Seeds as "Seeds", {
    "description": "A number of seeds, a list of seeds, or either of them per shape, with a `default`.",
    "anyOf": [
        { "type": "integer", "minimum": 1 },
        { "type": "array", "items": { "type": "integer", "minimum": 0 } },
        { "type": "object", "additionalProperties": { "anyOf": [
            { "type": "integer", "minimum": 1 },
            { "type": "array", "items": { "type": "integer", "minimum": 0 } },
        ] } },
    ],
});

/// The key of the limits or seeds for every name without its own.
pub const DEFAULT: &str = "default";

/// The key of the conditions, which is among the metrics.
pub const CONDITIONS: &str = "conditions";

/// The key that stands for all counters that can be gated.
pub const COUNTERS: &str = "counters";

/// Returns the metrics that a kernel of gates.yaml can have.
fn metrics_that_are_built() -> impl Iterator<Item = Metric> {
    Metric::ALL
        .into_iter()
        .filter(|metric| !metric.is_of_files())
}

limits_by_metric!(
    /// The limits of a kernel: by metric, `counters` and `conditions`.
    Gates,
    "Limits by metric.",
    metrics_that_are_built(),
    {
        CONDITIONS => {
            "description": "Expressions over metrics that must be true: registers <= 64 || occupancy >= 0.5",
            "type": "array",
            "items": { "type": "string" },
        },
        COUNTERS => {
            "description": "How much more than its baseline any counter of the simulator may be. Default: +0%. Can differ by shape.",
            "anyOf": [
                { "type": "string" },
                { "type": "object", "additionalProperties": { "type": "string" } },
            ],
        }
    }
);

/// The key of the reason, which is among the targets.
pub const BECAUSE: &str = "because";

limits_by_metric!(
    /// The targets of a kernel: by metric, and `because`.
    Targets,
    "Values to be reached, by metric. No baseline is involved.",
    metrics_that_are_built(),
    {
        BECAUSE => {
            "description": "Why a target is missed, with values: a negative result that reports list.",
            "type": "string",
        }
    }
);

/// The limits that are written for one metric.
#[derive(Clone, Debug)]
pub enum Limits {
    One(String),
    /// A list of limits that all hold. Each can differ by architecture or shape.
    All(Vec<Spanned<Limits>>),
    /// Limits that differ by architecture or shape.
    By(Ordered<Spanned<Limits>>),
}

read_by_form!(
    Limits,
    "a limit, a list of limits, or a mapping to limits",
    text => Limits::One,
    number => Limits::One,
    list => Limits::All,
    map => Limits::By
);

with_schema!(Limits as "Limits", {
    "description": "128, 48KiB, 1.5ms, \"25%\", \"+2%\" (against the baseline), \"+2\" (for counts and bytes), \"+0.5% of base\" (against the revision that --base names), \"+5% of v1.0\" (against the baseline at that tag), \"+5% of best\" (against the best level that the baselines held), \"<= 0.90 * stage1.p50\"; a list of limits; or a mapping to either, by architecture (resources) or by shape (all other metrics). A mapping can be in a list.",
    "anyOf": [
        { "type": ["number", "string"] },
        { "type": "array", "items": { "anyOf": [
            { "type": ["number", "string"] },
            { "type": "object", "additionalProperties": { "anyOf": [
                { "type": ["number", "string"] },
                { "type": "array", "items": { "type": ["number", "string"] } },
            ] } },
        ] } },
        { "type": "object", "additionalProperties": { "anyOf": [
            { "type": ["number", "string"] },
            { "type": "array", "items": { "type": ["number", "string"] } },
        ] } },
    ],
});
