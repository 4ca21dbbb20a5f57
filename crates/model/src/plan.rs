//! The work of a run, with every expression already evaluated. It is written into the record.

use super::{
    CaseId, Expr, Fault, Filter, GateName, Num, Rival, Subject, TensorMap, UnitId, Unsupported,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The units in the order of gates.yaml: kernel, variant, architecture.
    pub units: Vec<Unit>,
    /// The cases in the order of gates.yaml: kernel, variant, shape.
    pub cases: Vec<Case>,
    pub timing: Schedule,
    pub simulation: Simulation,
    /// How head and base are timed side by side, or `None` if there is no base.
    pub pairing: Option<Pairing>,
    /// How cases are profiled, or `None` if nobody asked for profiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiling: Option<Profiling>,
    /// A seed in addition to those of gates.yaml. It is the last seed of every case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<DrawnSeed>,
    /// The rivals of these kernels, in the order of gates.yaml.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rivals: Vec<Rival>,
    /// The filters of the run. A case is part of it if any filter fits, or if there is no filter.
    pub filters: Vec<Filter>,
    /// Kernels for which the filters left out cases that gates.yaml has. The worst value over the remaining shapes need
    /// not be the worst of all. Kernels that gates.yaml no longer has are not listed; `selects` covers them.
    pub left_out: BTreeSet<String>,
    /// Variants that are kept although they are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<Expected>,
    /// Variants that another one can stand in for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<Fallback>,
    /// Parts of programs that have no case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncaptured: Vec<Uncaptured>,
}

/// The variant of each kernel of a capture that no program of gates.yaml launched.
pub const REPLAYED: &str = "captured";

/// A part of a program that was to be captured and has no case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uncaptured {
    /// The part: `decode/*@*` is the whole program, and `decode/softmax@*` all launches of a kernel.
    pub case: CaseId,
    pub why: CaptureGap,
    /// Where the program is declared: `gates.yaml:42`.
    pub declared: String,
}

impl Uncaptured {
    pub fn is_of(&self, id: &CaseId) -> bool {
        let fits = |part: &str, own: &str| part == "*" || part == own;
        self.case.kernel == id.kernel
            && fits(&self.case.variant, &id.variant)
            && fits(&self.case.shape, &id.shape)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CaptureGap {
    /// The program, or what builds it, broke.
    Broke(Fault),
    /// The launches exist, and cannot be captured.
    Unsupported(Unsupported),
    /// At the base, the launch has other memory than head's, so that nothing can be compared.
    OtherInputs,
    /// At the base, not all kernels are those that head's program launches.
    OtherKernels(OtherKernels),
}

/// Kernels of a program, or of one of its regions, that only one side launches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherKernels {
    /// The kernels that only head launches.
    pub new: Vec<String>,
    /// Kernels that only the base launches.
    pub gone: Vec<String>,
    pub times: GroupTimes,
}

/// Whether the times of all kernels that only one side launches are compared, and why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GroupTimes {
    /// A case that both sides have times them together: the group.
    Together,
    /// Only one side has such kernels in a region, or this run takes no times.
    Alone,
    /// A program ended before it reported how often it launches these kernels.
    Uncounted { kernels: Vec<String> },
    /// Not all kernels were launched equally often for each launch that was captured, so a sum over the captured
    /// launches says nothing about all of them.
    Uneven { kernels: Vec<KernelCount> },
    /// Only one side could not capture all launches of these kernels.
    Partial { kernels: Vec<String> },
    /// Several processes of a program launched them, each with memory of its own.
    SeveralProcesses,
}

/// Launches of a kernel in a region of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelCount {
    pub kernel: String,
    pub captured: u64,
    pub launched: u64,
}

/// A seed that follows from head's commit. Nobody has chosen its data, and the data is the same each time that the
/// commit is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrawnSeed {
    pub seed: u64,
    /// The whole hash. Edits that are not committed do not count.
    pub commit: String,
}

/// A variant that must fail, which shows that a gate catches what is wrong with it. It is never timed, is no measure
/// for others, and gives no baselines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub kernel: String,
    pub variant: String,
    /// At least one of these gates fails at one shape or more, and no other gate does.
    pub gates: Vec<GateName>,
    /// True if a filter left out shapes of the variant. It may be right at the remaining ones.
    pub left_out: bool,
    /// The place of its declaration: for example `gates.yaml:42`.
    pub declared: String,
}

/// A variant that another variant of the kernel replaces if it fails and the run allows that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fallback {
    pub kernel: String,
    pub variant: String,
    /// The other variant. It has the same outputs, the same reference and the same shapes.
    pub to: String,
    /// The place of its declaration: for example `gates.yaml:42`.
    pub declared: String,
}

impl Fallback {
    pub fn is_of(&self, case: &CaseId) -> bool {
        (&self.kernel, &self.variant) == (&case.kernel, &case.variant)
    }
}

impl Expected {
    pub fn is_of(&self, case: &CaseId) -> bool {
        (&self.kernel, &self.variant) == (&case.kernel, &case.variant)
    }

    /// Returns the variant at every shape, `k/racy@*`, which is also a filter.
    pub fn every_shape(&self) -> CaseId {
        CaseId::new(&self.kernel, &self.variant, "*")
    }
}

impl Plan {
    /// Returns a plan with neither units nor cases.
    pub fn empty(timing: Schedule) -> Self {
        Self {
            units: Vec::new(),
            cases: Vec::new(),
            timing,
            simulation: Simulation {
                budget: 0,
                warp_hazards: WarpHazards::Note,
            },
            pairing: None,
            profiling: None,
            drawn: None,
            rivals: Vec::new(),
            filters: Vec::new(),
            left_out: BTreeSet::new(),
            expected: Vec::new(),
            fallbacks: Vec::new(),
            uncaptured: Vec::new(),
        }
    }

    /// Adds one more seed to every case. Head and base get the same seed, so that one answer can serve both sides.
    pub fn draw(&mut self, drawn: &DrawnSeed) {
        for case in &mut self.cases {
            if !case.seeds.contains(&drawn.seed) {
                case.seeds.push(drawn.seed);
            }
        }
        self.drawn = Some(drawn.clone());
    }

    /// Returns the seed of the data that a later launch of a case finds if the kernel keeps state. It is another seed
    /// of gates.yaml, whose data is also checked by itself. It is never the drawn seed, so that no result of the other
    /// seeds depends on the commit.
    pub fn later_seed(&self, case: &Case, seed: u64) -> u64 {
        let drawn = self.drawn.as_ref().map(|drawn| drawn.seed);
        let mut seeds = case.seeds.clone();
        seeds.retain(|seed| Some(*seed) != drawn);
        let next = match seeds.iter().position(|other_seed| *other_seed == seed) {
            Some(at) => seeds.iter().cycle().nth(at + 1),
            None => seeds.first(),
        };
        let next = next.copied().filter(|other_seed| *other_seed != seed);
        next.unwrap_or(seed.wrapping_add(1))
    }

    /// Returns how a variant is expected to fail, if it is.
    pub fn expected(&self, kernel: &str, variant: &str) -> Option<&Expected> {
        self.expected.iter().find(|expectation| {
            (expectation.kernel.as_str(), expectation.variant.as_str()) == (kernel, variant)
        })
    }

    /// Returns the fallback of a variant, if it has one.
    pub fn fallback(&self, kernel: &str, variant: &str) -> Option<&Fallback> {
        self.fallbacks.iter().find(|fallback| {
            (fallback.kernel.as_str(), fallback.variant.as_str()) == (kernel, variant)
        })
    }

    /// Removes all kernels except those that `is_kept` selects.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.units.retain(|unit| is_kept(&unit.id.kernel));
        self.cases.retain(|case| is_kept(&case.id.kernel));
        self.rivals.retain(|rival| is_kept(&rival.kernel));
        self.expected
            .retain(|expectation| is_kept(&expectation.kernel));
        self.fallbacks.retain(|fallback| is_kept(&fallback.kernel));
    }

    /// Returns true if a subject belongs to a file that was compiled already.
    pub fn is_compiled(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Unit(id) => self.unit(id).is_some_and(Unit::is_compiled),
            Subject::Case(_) => false,
        }
    }

    /// Returns true if a subject is a group, which runs on other memory at the base.
    pub fn is_group(&self, subject: &Subject) -> bool {
        self.units
            .iter()
            .filter(|unit| unit.is_group())
            .any(|unit| {
                (unit.id.kernel.as_str(), unit.id.variant.as_str())
                    == (subject.kernel(), subject.variant())
            })
    }

    /// Returns true if the cases are launches of a capture, and not of programs of gates.yaml.
    pub fn is_replay(&self) -> bool {
        let is_captured = |case: &Case| case.tensors.iter().any(Tensor::is_captured);
        self.cases
            .iter()
            .any(|case| case.id.variant == REPLAYED && is_captured(case))
    }

    pub fn unit(&self, id: &UnitId) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.id == *id)
    }

    pub fn case(&self, id: &CaseId) -> Option<&Case> {
        self.cases.iter().find(|case| case.id == *id)
    }

    /// Returns why a case that a program could have is missing.
    pub fn gap(&self, id: &CaseId) -> Option<&Uncaptured> {
        self.uncaptured
            .iter()
            .filter(|gap| match gap.why {
                CaptureGap::Broke(_) | CaptureGap::Unsupported(_) | CaptureGap::OtherInputs => true,
                CaptureGap::OtherKernels(_) => false,
            })
            .find(|gap| gap.is_of(id))
    }

    /// Returns true if the filters select a case, even one that this plan does not have.
    pub fn selects(&self, id: &CaseId) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.fits(id))
    }

    /// Returns true if the filters of `other` select a subject of this plan. A unit is built for its cases.
    pub fn is_selected_by(&self, other: &Self, subject: &Subject) -> bool {
        match subject {
            Subject::Case(id) => other.selects(id),
            Subject::Unit(unit) if self.unit(unit).is_some_and(Unit::is_compiled) => {
                other.filters.is_empty() || other.unit(unit).is_some()
            }
            Subject::Unit(unit) => self.cases.iter().any(|case| {
                (&case.id.kernel, &case.id.variant) == (&unit.kernel, &unit.variant)
                    && other.selects(&case.id)
            }),
        }
    }

    /// Returns true if a filter left out variants or shapes of this kernel, or all of it.
    pub fn is_partial(&self, kernel: &str) -> bool {
        self.left_out.contains(kernel)
    }
}

/// The work of one call of nvcc.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    pub id: UnitId,
    /// The path, relative to the directory of gates.yaml and with forward slashes.
    pub source: String,
    pub include_dirs: Vec<String>,
    pub defines: BTreeMap<String, String>,
    /// The flags that follow gatekeeper's own.
    pub flags: Vec<String>,
    pub call: Callable,
}

impl Unit {
    /// Returns true if a case launches the unit, on its architecture.
    pub fn is_of(&self, case: &CaseId) -> bool {
        (&self.id.kernel, &self.id.variant) == (&case.kernel, &case.variant)
    }

    /// Returns true if the unit belongs to a file that was compiled already.
    pub fn is_compiled(&self) -> bool {
        matches!(self.call, Callable::Compiled { .. })
    }

    /// Returns true if the unit consists of several kernels of a program, which are timed together.
    pub fn is_group(&self) -> bool {
        matches!(self.call, Callable::Together { .. })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Callable {
    /// `__global__` functions, by their C++ names as written in the source: `k`, `ns::k`, `k<float, 4>`. There is one
    /// for each step of its cases, or all that any step launches.
    Entries {
        names: Vec<String>,
        /// The constants that the host fills before the first launch.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        constants: Vec<Constant>,
    },
    /// A host function with a C ABI in the same source, built as a shared library.
    Launcher {
        function: String,
        /// The C parameter list, in order.
        signature: Vec<CType>,
        /// Every entry that it declares to launch. A GPU run reads the truth back from a captured graph.
        launches: Vec<LaunchedEntry>,
    },
    /// A kernel of a file that was compiled already, by its symbol. `None` stands for all kernels that the file has for
    /// the architecture. Such a unit is neither built nor launched here.
    Compiled { symbol: Option<String> },
    /// Kernels of several modules that are launched one after the other: the group of a program. The unit has no source
    /// of its own.
    Together {
        modules: Vec<ModuleEntry>,
        /// The index of the module of each step of the case.
        steps: Vec<usize>,
    },
}

/// A kernel of a group, with the file that has its code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModuleEntry {
    /// The source, as in a unit.
    pub source: String,
    /// The name, as among the names of entries.
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constants: Vec<Constant>,
}

impl Callable {
    /// Returns the names of the kernels that are launched, one for each step, or of the function that launches them.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Entries { names, .. } => names.clone(),
            Self::Launcher { function, .. } => vec![function.clone()],
            Self::Compiled { symbol } => symbol.iter().cloned().collect(),
            Self::Together { modules, steps } => steps
                .iter()
                .filter_map(|at| modules.get(*at))
                .map(|module| module.name.clone())
                .collect(),
        }
    }
}

/// A `__constant__` variable that holds the content of a tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// The C++ name as written in the source: `COEFFS`, `ns::COEFFS`.
    pub name: String,
    pub tensor: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaunchedEntry {
    /// The C++ name as written in the source.
    pub name: String,
    /// The most dynamic shared memory that it needs over all shapes, in bytes.
    pub dynamic_shared: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CType {
    Pointer,
    Scalar(ScalarType),
    /// A struct by value, with its size and alignment in bytes. A launcher takes structs by pointer only.
    Struct {
        size: u32,
        align: u32,
    },
    /// A stream of the CUDA runtime, cudaStream_t.
    Stream,
}

/// A kind of number, with its size in bytes. The C alignment is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    Bool,
    Signed(usize),
    Unsigned(usize),
    Float(usize),
}

impl Number {
    pub fn size(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::Signed(bytes) | Self::Unsigned(bytes) | Self::Float(bytes) => bytes,
        }
    }

    /// Returns the smallest and the largest value of an integer type, as far as an `i64` can hold them.
    pub fn range(self) -> Option<(i64, i64)> {
        match self {
            Self::Bool => Some((0, 1)),
            Self::Signed(bytes) => {
                Some((i64::MIN >> (64 - 8 * bytes), i64::MAX >> (64 - 8 * bytes)))
            }
            Self::Unsigned(8) => Some((0, i64::MAX)),
            Self::Unsigned(bytes) => Some((0, (1 << (8 * bytes)) - 1)),
            Self::Float(_) => None,
        }
    }

    /// Returns the type in host C++. Small floats come as `float`, because not every compiler knows them.
    pub fn host_type(self) -> String {
        match self {
            Self::Bool => "bool".to_owned(),
            Self::Signed(bytes) => format!("std::int{}_t", 8 * bytes),
            Self::Unsigned(bytes) => format!("std::uint{}_t", 8 * bytes),
            Self::Float(8) => "double".to_owned(),
            Self::Float(_) => "float".to_owned(),
        }
    }
}

impl ScalarType {
    pub fn size(self) -> usize {
        self.number().size()
    }
}

named! {
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ScalarType, number: Number {
    Bool = "bool" => Number::Bool,
    I8 = "i8" => Number::Signed(1),
    U8 = "u8" => Number::Unsigned(1),
    I16 = "i16" => Number::Signed(2),
    U16 = "u16" => Number::Unsigned(2),
    I32 = "i32" => Number::Signed(4),
    U32 = "u32" => Number::Unsigned(4),
    I64 = "i64" => Number::Signed(8),
    U64 = "u64" => Number::Unsigned(8),
    F16 = "f16" => Number::Float(2),
    Bf16 = "bf16" => Number::Float(2),
    F32 = "f32" => Number::Float(4),
    F64 = "f64" => Number::Float(8),
}
}

named! {
/// The type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ElemType, number: Number {
    F64 = "f64" => Number::Float(8),
    F32 = "f32" => Number::Float(4),
    F16 = "f16" => Number::Float(2),
    Bf16 = "bf16" => Number::Float(2),
    /// OCP 8-bit float, 4 exponent bits, finite range +-448, no infinity.
    E4m3 = "e4m3" => Number::Float(1),
    /// OCP 8-bit float, 5 exponent bits, finite range +-57344.
    E5m2 = "e5m2" => Number::Float(1),
    I8 = "i8" => Number::Signed(1),
    U8 = "u8" => Number::Unsigned(1),
    I16 = "i16" => Number::Signed(2),
    U16 = "u16" => Number::Unsigned(2),
    I32 = "i32" => Number::Signed(4),
    U32 = "u32" => Number::Unsigned(4),
    I64 = "i64" => Number::Signed(8),
}
}

impl ElemType {
    pub fn size(self) -> usize {
        self.number().size()
    }

    /// Returns the smallest and the largest value of an integer type.
    pub fn range(self) -> Option<(i64, i64)> {
        self.number().range()
    }

    pub fn is_float(self) -> bool {
        matches!(self.number(), Number::Float(_))
    }
}

/// One kernel x variant x shape, ready to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub id: CaseId,
    pub dims: BTreeMap<String, i64>,
    pub tensors: Vec<Tensor>,
    /// The steps, one after the other on one stream. Together they are one launch of the case. Empty if only times are
    /// known of it.
    pub steps: Vec<Step>,
    pub seeds: Vec<u64>,
    pub reference: Reference,
    /// The limit on `max_err`, for the share of elements beyond it. `None` if there is no absolute limit.
    pub tolerance: Option<Num>,
    pub determinism: Determinism,
    /// How often one seed is launched to compare outputs bit for bit.
    pub launches: u32,
    /// The longest time that a check of one seed, or the timing of this case, may take.
    pub deadline_ms: u64,
    /// True if any gate needs times of this case.
    pub timed: bool,
}

impl Case {
    /// Returns a case that launches nothing, has no reference, and is not timed.
    pub fn empty(id: CaseId) -> Self {
        Self {
            id,
            dims: BTreeMap::new(),
            tensors: Vec::new(),
            steps: Vec::new(),
            seeds: Vec::new(),
            reference: Reference::None,
            tolerance: None,
            determinism: Determinism::BitExact,
            launches: 1,
            deadline_ms: 0,
            timed: false,
        }
    }

    /// Returns true if there is anything that a reference could compute. For a plan that contradicts itself this is
    /// true.
    pub fn has_output(&self) -> bool {
        self.reference != Reference::NoOutput
            || self.tensors.iter().any(|tensor| tensor.role.is_result())
    }

    /// Returns those entries of the unit that the steps of the case launch, in their order.
    pub fn choose<'e, T>(&self, entries: &'e [T]) -> Vec<&'e T> {
        if self.steps.iter().all(|step| step.entry.is_none()) {
            return entries.iter().collect();
        }
        self.steps
            .iter()
            .enumerate()
            .filter_map(|(at, step)| entries.get(step.entry.unwrap_or(at)))
            .collect()
    }

    /// Returns the floats that outputs are compared as, and the share by which they may differ.
    pub fn float_tolerance(&self) -> Option<(ElemType, Num)> {
        let floats = self.tensors.iter().find_map(|tensor| tensor.floats)?;
        Some((floats, self.tolerance?))
    }
}

/// The call of one entry, or of a launcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The index of its entry among the names of the unit, if each shape has entries of its own. `None` stands for the
    /// index of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<usize>,
    pub args: Vec<Arg>,
    /// `None` for a launcher, which decides for itself.
    pub launch: Option<Launch>,
    /// The memory operations of the stream between the previous launch and this one, in order. They are part of the
    /// case and timed with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<MemoryStep>,
    /// The memory operations after the last launch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<MemoryStep>,
}

impl Step {
    pub fn new(args: Vec<Arg>, launch: Option<Launch>) -> Self {
        Self {
            entry: None,
            args,
            launch,
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Returns true if a launch of the step is just that of the entry.
    pub fn is_bare(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }
}

/// A step of a sequence that is no kernel. It works on whole tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MemoryStep {
    /// Sets each byte to this value, as cudaMemsetAsync does.
    Memset { tensor: String, value: u8 },
    /// Copies the content of `from`, which has the same type and size, to `to`.
    Copy { from: String, to: String },
}

impl MemoryStep {
    /// Returns the names of the tensors.
    pub fn tensors(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Self::Memset { tensor, .. } => [Some(tensor), None],
            Self::Copy { from, to } => [Some(from), Some(to)],
        };
        names.into_iter().flatten().map(String::as_str)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: Option<[u32; 3]>,
    /// True if all blocks run at a time, so that they can wait for each other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cooperative: bool,
    /// The dynamic shared memory of a block in bytes.
    pub dynamic_shared: u32,
}

impl Launch {
    pub fn threads_per_block(&self) -> u64 {
        self.block.iter().map(|&n| u64::from(n)).product()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    pub name: String,
    pub role: Role,
    pub elem: ElemType,
    /// The dimensions in row-major order, slowest first. Empty for a single element. A tensor of structs is a tensor of
    /// bytes (u8), whose last dimension is the bytes of one struct.
    pub dims: Vec<usize>,
    /// The strides in elements, one for each dimension. `None` if contiguous.
    pub strides: Option<Vec<usize>>,
    /// The number of elements of its allocation before it: the tensor is a view, which no kernel may leave.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: usize,
    /// How inputs are made, and working memory that starts with a content. Outputs are poisoned instead and have
    /// `None`.
    pub fill: Option<Fill>,
    pub codec: Option<Codec>,
    /// The elements of an output that are compared, or `None` for all.
    pub compare: Option<Compare>,
    /// The address that captured memory of a program must have, because it contains pointers to itself. `None` for all
    /// other tensors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// The floats that words of a program's memory are compared as. The memory has no types, and words that are no such
    /// floats must be equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floats: Option<ElemType>,
    /// Parameters that lead into captured memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pointers: Vec<Pointer>,
    /// The content that a launch of a program left in the tensor, if the reference of the case is about other tensors.
    /// It is compared bit for bit, whatever difference those may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<CapturedContent>,
    /// True if it directly follows the previous tensor in one allocation of a program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub joined: bool,
}

/// A parameter that leads into captured memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pointer {
    /// The number of the parameter, counted from 1.
    pub parameter: u32,
    /// The distance in bytes from the start of the memory.
    pub offset: u64,
    /// The floats that it points to according to the kernel's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elem: Option<ElemType>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Selects elements of an output. The other elements may hold anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Compare {
    /// Elements for which this condition is true.
    Where {
        condition: Expr,
        /// The names of the element's indices in the condition, one for each dimension.
        index: Vec<String>,
    },
    /// Elements for which this input, of the same dimensions, is not 0.
    Mask { tensor: String },
    /// All elements, with the slices along this axis in any order.
    Unordered { axis: usize },
}

impl Tensor {
    /// Makes a contiguous tensor with neither a fill nor a codec.
    pub fn new(name: &str, role: Role, elem: ElemType, dims: Vec<usize>) -> Self {
        Self {
            name: name.to_owned(),
            role,
            elem,
            dims,
            strides: None,
            offset: 0,
            fill: None,
            codec: None,
            compare: None,
            address: None,
            floats: None,
            pointers: Vec::new(),
            left: None,
            joined: false,
        }
    }

    /// Returns the dimensions that a reference sees: `dims`, or those of the values in coded structs.
    pub fn value_dims(&self) -> &[usize] {
        match self.codec.as_ref().map(|codec| &codec.scheme) {
            Some(CodecScheme::Blocks(blocks)) => &blocks.values,
            _ => &self.dims,
        }
    }

    /// Returns the number of elements that the kernel may address by the tensor's dimensions.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if it is filled before a launch rather than poisoned.
    pub fn is_drawn(&self) -> bool {
        self.role.is_drawn() || self.fill.is_some()
    }

    /// Returns true if it is filled with the memory of a program.
    pub fn is_captured(&self) -> bool {
        matches!(self.fill, Some(Fill::Captured { .. }))
    }

    /// Returns true if the kernel writes it and it is filled again before every launch.
    pub fn is_restored(&self) -> bool {
        self.is_drawn() && !matches!(self.role, Role::In | Role::Reference)
    }

    /// Returns the number of elements from the first to the last addressed one, gaps of the strides included.
    pub fn span(&self) -> usize {
        match &self.strides {
            None => self.len(),
            Some(_) if self.is_empty() => 0,
            Some(strides) => {
                1 + self
                    .dims
                    .iter()
                    .zip(strides)
                    .map(|(dim, stride)| (dim - 1) * stride)
                    .sum::<usize>()
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    In,
    /// Poisoned before every launch; every element has to be written.
    Out,
    /// Filled like an input and restored before every launch.
    Inout,
    /// Working memory: poisoned like an output where it has no fill, and nobody asks what is left in it.
    Scratch,
    /// Filled like an input, for the reference and `compare` alone: no kernel gets it, and no device holds it.
    Reference,
}

impl Role {
    /// Returns true if it is filled from the seed, and known to the reference.
    pub fn is_drawn(self) -> bool {
        matches!(self, Self::In | Self::Inout | Self::Reference)
    }

    /// Returns true if it is in the memory of the device.
    pub fn is_placed(self) -> bool {
        self != Self::Reference
    }

    /// Returns true if it is compared with the reference after a launch.
    pub fn is_result(self) -> bool {
        matches!(self, Self::Out | Self::Inout)
    }
}

/// A seeded distribution, or a rule for integers. Floats are drawn before any codec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fill {
    Normal {
        mean: Num,
        std: Num,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        special: SpecialShares,
    },
    /// Floats, uniform from `low`, which is included, to `high`, which is not.
    Uniform {
        low: Num,
        high: Num,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        special: SpecialShares,
    },
    Constant {
        value: Num,
    },
    /// Integers, uniform from `low` to `high`, both included.
    Integers {
        low: i64,
        high: i64,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        special: SpecialShares,
    },
    /// The position of each element: 0, 1, 2, ...
    Iota,
    /// The numbers below the number of elements, in a seeded order.
    Permutation,
    /// n + 1 non-decreasing offsets, from 0 to `total`, of n ragged sequences with at least `min` each.
    Offsets {
        total: i64,
        min: i64,
    },
    /// Distinct seeded indices from 0..pool, as a paged cache's block table has them.
    BlockTable {
        pool: i64,
    },
    /// The values given, in order; exactly as many as the tensor has elements.
    Values {
        values: Vec<Num>,
    },
    /// Each field of each struct by a rule of its own; the bytes between them hold anything.
    Struct {
        fields: Vec<FilledField>,
    },
    /// The memory that a captured program had.
    Captured {
        content: CapturedContent,
    },
}

impl Fill {
    /// Returns the special values that a random fill contains. Other fills contain none.
    pub fn special(&self) -> Option<&SpecialShares> {
        match self {
            Self::Normal { special, .. }
            | Self::Uniform { special, .. }
            | Self::Integers { special, .. } => Some(special),
            _ => None,
        }
    }
}

/// The share of the elements of a random fill that each kind of special value replaces; of `equal_rows`, the share of rows.
pub type SpecialShares = BTreeMap<Special, Num>;

named! {
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Special {
    /// Infinities of both signs, of which one is drawn.
    Inf = "inf",
    Nan = "nan",
    /// Denormal numbers of the element type, of either sign.
    Denormal = "denormal",
    /// Values that are in the same row already: along the last dimension.
    Ties = "ties",
    /// Rows that are a copy of another one.
    EqualRows = "equal_rows",
}
}

impl Special {
    /// Returns how many of `all` elements or rows a share replaces: at least one, unless the share is 0.
    pub fn count(share: Num, all: usize) -> usize {
        (share.0 * all as f64).ceil() as usize
    }
}

/// Memory of a program, in a directory that `gatekeeper capture` wrote.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapturedContent {
    /// The path of the directory, as gates.yaml names it.
    pub capture: String,
    pub bytes: u64,
    /// Hashes of its chunks, in hexadecimal digits.
    pub chunks: Vec<String>,
    /// The bytes of it that are meant, or `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<ContentPart>,
}

/// The part of a content that is meant, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContentPart {
    pub from: u64,
    pub bytes: u64,
}

/// Compares contents. The directory does not matter.
impl PartialEq for CapturedContent {
    fn eq(&self, other: &Self) -> bool {
        (self.bytes, &self.chunks, self.part) == (other.bytes, &other.chunks, other.part)
    }
}

impl Eq for CapturedContent {}

/// A value that stands in each struct at the same place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The offset in bytes from the start of the struct.
    pub offset: usize,
    pub elem: ElemType,
    pub count: usize,
}

impl Field {
    /// Returns the position of the first byte after the field.
    pub fn end(&self) -> usize {
        self.offset + self.elem.size() * self.count
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilledField {
    pub name: String,
    pub field: Field,
    pub fill: Fill,
}

/// How a tensor of floats becomes the codes that the kernel reads. One scale for each block of elements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Codec {
    pub scheme: CodecScheme,
    /// Extent of one block along each dimension of the tensor; the scales then form a contiguous tensor
    /// of `ceil(dim / block)` along each. Per-tensor: the tensor's own dimensions.
    pub block: Vec<usize>,
}

impl Codec {
    /// Returns the dimensions of the scale tensor.
    pub fn scale_dims(&self, dims: &[usize]) -> Vec<usize> {
        dims.iter()
            .zip(&self.block)
            .map(|(dim, block)| dim.div_ceil((*block).max(1)))
            .collect()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CodecScheme {
    /// amax = max|x| over the block; code = round(x / amax * levels) + zero_point in the element type
    /// (round to nearest even; floats keep their own rounding); the kernel gets amax / scale_divisor; a
    /// code means (code - zero_point) / levels * amax. An amax of 0 gives scale 1.
    Symmetric {
        levels: Num,
        zero_point: i64,
        scale_divisor: Num,
    },
    /// scale = (max - min) / (high - low), zero = round(low - min / scale) clamped to low..=high;
    /// code = clamp(round(x / scale) + zero); a code means (code - zero) * scale. The kernel gets the
    /// scales, and the zero points (i32) where an argument asks for them. min and max include 0.
    Affine { low: i64, high: i64 },
    /// Scales are stored next to the codes, in structs.
    Blocks(Blocks),
}

/// amax = max|x| over the values of one struct; its scale = amax / levels, rounded to the field's type; code =
/// round(x / scale) + zero_point, at most `levels` away from it; a code means (code - zero_point) * scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// The dimensions of the values: those of the structs, with the values of one struct in the last.
    pub values: Vec<usize>,
    pub scale: Field,
    pub codes: Field,
    /// The field that holds scale * sum of (code - zero_point), if there is one.
    pub sum: Option<Field>,
    /// How two codes share a byte, or `None` if each code has an element.
    pub nibbles: Option<Nibbles>,
    pub levels: Num,
    pub zero_point: i64,
}

impl Blocks {
    /// Returns the number of values in one struct.
    pub fn values_each(&self) -> usize {
        match self.nibbles {
            None => self.codes.count,
            Some(_) => 2 * self.codes.count,
        }
    }
}

/// Which two codes of 4 bits a byte holds, the low half first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Nibbles {
    /// Code i and code i + n / 2, of n codes in all.
    Halves,
    /// Code 2 i and code 2 i + 1.
    Pairs,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arg {
    /// Device pointer to the tensor of this name.
    Tensor {
        name: String,
    },
    /// Device pointer to the f32 scales of the tensor's codec.
    Scales {
        tensor: String,
    },
    /// Device pointer to the i32 zero points of the tensor's affine codec.
    ZeroPoints {
        tensor: String,
    },
    /// For a reference: the bytes of an input as the kernel reads them, contiguous.
    Bytes {
        tensor: String,
    },
    /// A texture object (cudaTextureObject_t) that reads a tensor.
    Texture {
        tensor: String,
        image: Image,
        sampler: Sampler,
    },
    /// A surface object (cudaSurfaceObject_t) over a tensor.
    Surface {
        tensor: String,
        image: Image,
    },
    /// CUtensorMap over a tensor, by value.
    TensorMap {
        tensor: String,
        map: TensorMap,
    },
    Null,
    /// The cudaStream_t that a launcher has to launch in.
    Stream,
    Scalar {
        elem: ScalarType,
        value: ScalarValue,
    },
    /// By value, with C's natural alignment; nested structs have their own.
    Struct {
        fields: Vec<Arg>,
    },
    /// Bytes that are skipped inside a struct.
    Pad {
        bytes: u32,
    },
    /// Bytes as a program gave them, in hexadecimal digits.
    Raw {
        bytes: String,
    },
}

/// A tensor as textures and surfaces see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The element type of one channel.
    pub elem: ElemType,
    /// The number of channels: 1, 2 or 4. If there are several, they are the last dimension of the tensor.
    pub channels: u32,
    /// The extents x, y, z in texels: one to three of them.
    pub extents: [u32; 3],
    pub rank: u8,
    /// The number of layers, the first dimension of the tensor, if the image is layered.
    pub layers: Option<u32>,
    pub memory: ImageMemory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageMemory {
    /// A CUDA array, which holds a copy of the tensor.
    Array,
    /// The tensor's own memory, for `tex1Dfetch`.
    Linear,
}

/// How a texture reads its image: cudaTextureDesc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sampler {
    pub filter: TextureFilter,
    pub address: TextureAddress,
    /// True if coordinates range from 0 to 1.
    pub normalized: bool,
    pub read: TextureRead,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextureFilter {
    /// The texel that the coordinate lies in.
    #[default]
    Point,
    /// Between the nearest texels, with weights of 8 bits.
    Linear,
}

/// The value that a coordinate outside of the image reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextureAddress {
    /// The value of the nearest texel of the image.
    #[default]
    Clamp,
    /// The value 0, whatever the image has.
    Border,
    /// The image, repeated in each direction; needs `normalized`.
    Wrap,
    /// The image again, every second time backwards; needs `normalized`.
    Mirror,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextureRead {
    /// The value that the tensor holds.
    #[default]
    Element,
    /// Integers of 8 or 16 bits as floats from 0 or -1 to 1.
    NormalizedFloat,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScalarValue {
    Int(i64),
    Float(Num),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Determinism {
    BitExact,
    Declared { reason: String },
}

/// Where the right answer comes from. Names are of the case's tensors. All arithmetic in f32 unless said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reference {
    /// softmax(scale * Q K^T) V; q `[B, Hq, Sq, D]`, k and v `[B, Hk, Sk, D]` with Hq a multiple of Hk
    /// (grouped heads), out as q. Causal: query i sees keys j <= i + Sk - Sq; a row that sees none is 0.
    Sdpa {
        q: String,
        k: String,
        v: String,
        out: String,
        scale: Num,
        causal: bool,
    },
    /// out = epilogue(alpha * op(a) op(b) + beta * c + bias); a `[.., M, K]`, b `[.., K, N]`, bias `[N]`.
    Gemm {
        a: String,
        b: String,
        out: String,
        c: Option<String>,
        bias: Option<String>,
        alpha: Num,
        beta: Num,
        transpose_a: bool,
        transpose_b: bool,
        epilogue: Option<Unary>,
    },
    /// Softmax of each row, which is the last dimension.
    Softmax {
        x: String,
        out: String,
    },
    LayerNorm {
        x: String,
        out: String,
        gamma: Option<String>,
        beta: Option<String>,
        eps: Num,
    },
    RmsNorm {
        x: String,
        out: String,
        gamma: Option<String>,
        eps: Num,
    },
    /// Over the axes named; accumulated in f64, so that the order does not matter to the result's f32.
    Reduce {
        x: String,
        out: String,
        op: ReduceOp,
        axes: Vec<usize>,
    },
    Transpose {
        x: String,
        out: String,
        permutation: Vec<usize>,
    },
    Unary {
        x: String,
        out: String,
        op: Unary,
    },
    Binary {
        a: String,
        b: String,
        out: String,
        op: Binary,
    },
    /// A function in a file of the repository, C, C++ or Python by the file's name, run in a process of its own. Float
    /// tensors and tensors with a codec come as `float*` (dequantised, contiguous), those of f64 as `double*`, integer
    /// tensors in their own type; in Python as NumPy arrays.
    User {
        source: String,
        function: String,
        args: Vec<Arg>,
        flags: Vec<String>,
    },
    /// Another variant of the same kernel, at the same shape and seed, on the same device.
    Variant {
        variant: String,
    },
    /// The content that the launch of a program left in its memory, by tensor.
    Captured {
        outputs: BTreeMap<String, CapturedContent>,
    },
    /// Nobody has said what is right: of its outputs it is looked at whether they are numbers, and at nothing else.
    None,
    /// The kernel has no output. It is run, and held to what is not about values: faults, findings, resources, counters,
    /// times.
    NoOutput,
    /// Another program ran the case, and nothing is known of its outputs. Only of what was read in another
    /// format: no record that is stored can say so, and so have its kernels pass for right.
    #[serde(skip)]
    Elsewhere,
}

impl Reference {
    /// Returns the tensors whose values the reference reads. Returns `None` if it is no function of the case's tensors,
    /// or does not name them.
    pub fn inputs(&self) -> Option<Vec<&str>> {
        let names: Vec<&String> = match self {
            Self::Sdpa { q, k, v, .. } => vec![q, k, v],
            Self::Gemm { a, b, c, bias, .. } => [a, b].into_iter().chain(c).chain(bias).collect(),
            Self::LayerNorm { x, gamma, beta, .. } => {
                std::iter::once(x).chain(gamma).chain(beta).collect()
            }
            Self::RmsNorm { x, gamma, .. } => std::iter::once(x).chain(gamma).collect(),
            Self::Softmax { x, .. }
            | Self::Reduce { x, .. }
            | Self::Transpose { x, .. }
            | Self::Unary { x, .. } => vec![x],
            Self::Binary { a, b, .. } => vec![a, b],
            Self::User { args, .. } => args
                .iter()
                .filter_map(|arg| match arg {
                    Arg::Tensor { name } => Some(name),
                    Arg::Bytes { tensor } => Some(tensor),
                    _ => None,
                })
                .collect(),
            Self::Captured { .. }
            | Self::Variant { .. }
            | Self::None
            | Self::NoOutput
            | Self::Elsewhere => return None,
        };
        Some(names.into_iter().map(String::as_str).collect())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReduceOp {
    Sum,
    Mean,
    Max,
    Min,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unary {
    Copy,
    Neg,
    Abs,
    Relu,
    /// Exact: x * Phi(x) with erf.
    Gelu,
    /// GELU by its approximation with tanh.
    GeluTanh,
    Silu,
    Sigmoid,
    Tanh,
    Exp,
    Sqrt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

/// How much is simulated without a GPU, and what its findings are worth. There is one for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// Warp instructions of one case, over all its seeds: one that is estimated to take more is skipped.
    pub budget: u64,
    #[serde(default, skip_serializing_if = "WarpHazards::is_default")]
    pub warp_hazards: WarpHazards,
}

/// How a finding of [`FindingKind::WarpHazard`](super::FindingKind::WarpHazard) counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarpHazards {
    /// A note; against a base, one that it does not have fails.
    #[default]
    Note,
    Fail,
}

impl WarpHazards {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How cases are profiled. There is one for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profiling {
    /// The number of profiles of a case that a relative limit rests on, each in a process of its own, so that their
    /// differences are known. Any other case has one profile.
    pub repeats: u32,
}

/// How times are taken. There is one for the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    pub mode: Mode,
    /// The number of launches before the first sample.
    pub warmup: u32,
    /// The number of batched samples of each process (p50, mean, min, max).
    pub iterations: u32,
    /// The number of samples of one launch each, for each process (p90, p99, CV).
    pub singles: u32,
    /// The least time in ns that a batched sample lasts.
    pub batch_ns: u64,
    /// The number of fresh worker processes that time every case, at first and at most.
    pub processes: u32,
    pub max_processes: u32,
}

/// How two code states are timed side by side in the same processes, and when the judge looks. Part of the
/// record, so that a verdict can be repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pairing {
    /// The numbers of fresh processes after which the judge passes what is plainly unchanged. They ascend from at least
    /// 2 and stay below those of `looks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quiet: Vec<u32>,
    /// The numbers of fresh processes after which the judge looks, ascending, the first at least 2.
    pub looks: Vec<u32>,
    /// The greatest number of blocks of four samples, ABBA or BAAB, of each process; the least number; and the time, in
    /// ns, that the blocks between the two may take.
    pub blocks: u32,
    pub least_blocks: u32,
    pub blocks_ns: u64,
    /// The least time in ns that a sample of a block lasts.
    pub sample_ns: u64,
    /// The number of samples of one launch each, for each side and process, interleaved. They are taken if a gate of
    /// the case rests on them (p90, p99, CV, slow share).
    pub singles: u32,
    /// The chance that a run in which nothing changed has any failure, split over all contests of the plan.
    pub false_alarms: Num,
    /// The chance that a change beyond the limit passes, for each contest.
    pub misses: Num,
    /// The seed of the orders of blocks, of loading and of allocation.
    pub seed: u64,
    /// True if cases are timed even if machine code, launch and arguments equal those of the base.
    pub unchanged: bool,
}

impl Pairing {
    /// Returns the least number of processes that the judge looks at.
    pub fn first_look(&self) -> u32 {
        self.next_look(0).unwrap_or(0)
    }

    /// Returns the number of processes at which the judge looks next, after it has seen `seen`. Returns `None` after
    /// the last look.
    pub fn next_look(&self, seen: u32) -> Option<u32> {
        self.quiet
            .iter()
            .chain(&self.looks)
            .find(|look| **look > seen)
            .copied()
    }
}

/// The purpose of the samples of single launches, for a case that is timed against its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Singles {
    /// A gate of the case rests on them, so there are as many as the pairing says.
    Judged,
    /// Only reports show them, so there are as many as cost little.
    Shown,
}

named! {
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Mode {
    /// Launches back to back: inputs that fit stay in L2.
    Warm = "warm",
    /// L2 is flushed before each launch; samples are never batched.
    Cold = "cold",
}
}

#[cfg(test)]
mod tests {
    use super::{ElemType, Number, ScalarType};

    #[test]
    fn integers_have_the_range_of_their_bytes() {
        let range = |scalar: ScalarType| scalar.number().range();
        assert_eq!(range(ScalarType::Bool), Some((0, 1)));
        assert_eq!(range(ScalarType::I8), Some((-128, 127)));
        assert_eq!(range(ScalarType::U8), Some((0, 255)));
        assert_eq!(range(ScalarType::I16), Some((-32_768, 32_767)));
        assert_eq!(range(ScalarType::U16), Some((0, 65_535)));
        assert_eq!(
            range(ScalarType::I32),
            Some((i32::MIN.into(), i32::MAX.into()))
        );
        assert_eq!(range(ScalarType::U32), Some((0, u32::MAX.into())));
        assert_eq!(range(ScalarType::I64), Some((i64::MIN, i64::MAX)));
        assert_eq!(range(ScalarType::U64), Some((0, i64::MAX)));
        for elem in ElemType::ALL {
            assert_eq!(elem.range().is_none(), elem.is_float(), "{elem}");
        }
    }

    #[test]
    fn small_floats_come_to_host_code_as_float() {
        let name = |scalar: ScalarType| scalar.number().host_type();
        assert_eq!(name(ScalarType::Bf16), "float");
        assert_eq!(name(ScalarType::F64), "double");
        assert_eq!(name(ScalarType::U16), "std::uint16_t");
        assert_eq!(name(ScalarType::I64), "std::int64_t");
        assert_eq!(Number::Bool.host_type(), "bool");
    }
}
