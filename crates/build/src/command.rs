//! Builds the nvcc command for one unit: its arguments, and the few lines of source that are generated around the
//! user's source. Pure. Paths of this machine are added where the command is run.

use model::{Arch, CType, Callable, Constant, LaunchedEntry, Number, ScalarType, Unit};
use std::fmt::Write;
use system::sources::{self, Precompiled};

/// The version of this module, which is a part of every key of the cache. Raise it when a change here, or in how the
/// outcome is read, would make an old artifact differ from a new one.
pub const TEMPLATE: u32 = 8;

/// The C function that a launcher's library exports to the worker: `int gk_call(void** args)`, where
/// `args[i]` points to the value of argument i. Returns what the launcher returned, 0 for void.
pub const SHIM: &str = "gk_call";

/// The ways in which a unit becomes machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileWay {
    /// The source is compiled as it is, and all of its entries come from one run.
    Source,
    /// An instance of a template, which has to be instantiated to exist. It is compiled with others, and cut out of the
    /// result.
    Instance,
    /// A launcher with the kernels that it calls.
    Library,
    /// PTX that somebody else has compiled.
    Ptx,
    /// Machine code that somebody else compiled, so that nothing is compiled here.
    Cubin,
}

impl CompileWay {
    pub fn for_unit(unit: &Unit) -> Self {
        match (&unit.call, Precompiled::from_path(&unit.source)) {
            (Callable::Launcher { .. }, _) => Self::Library,
            (Callable::Entries { .. }, Some(Precompiled::Ptx)) => Self::Ptx,
            (Callable::Entries { .. }, Some(Precompiled::Cubin))
            | (Callable::Compiled { .. } | Callable::Together { .. }, _) => Self::Cubin,
            (Callable::Entries { names, .. }, None) => {
                if names.iter().any(|name| is_templated(name)) {
                    Self::Instance
                } else {
                    Self::Source
                }
            }
        }
    }
}

/// The nvcc command for units that share their source, definitions and flags; without paths of this machine, and
/// without the kind of file that it shall write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvccCall {
    pub args: Vec<String>,
    /// A generated source that is compiled instead of the user's, and includes it by `-include`. Thereby the source's
    /// own path stays relative, and `__FILE__` and the line table are the same on every machine.
    pub generated: Option<String>,
}

impl NvccCall {
    pub fn for_unit(unit: &Unit) -> Self {
        Self {
            args: arguments(unit),
            generated: generated(unit),
        }
    }

    /// Builds the call for instances of templates, with one marker for each entry, in their order.
    pub fn for_instances(units: &[&Unit]) -> Self {
        let names: Vec<&str> = units
            .iter()
            .flat_map(|unit| entry_names(&unit.call))
            .collect();
        Self {
            args: units.first().map_or_else(Vec::new, |unit| arguments(unit)),
            generated: Some(markers(&names)),
        }
    }
}

/// Returns the command for a unit, as one would type it in the directory of gates.yaml.
pub fn command_line(unit: &Unit) -> String {
    let NvccCall { args, generated } = NvccCall::for_unit(unit);
    let way = CompileWay::for_unit(unit);
    if way == CompileWay::Cubin {
        return format!("nothing: {} is machine code", unit.source);
    }
    let output = match way {
        CompileWay::Library => vec!["-shared"],
        CompileWay::Instance | CompileWay::Source | CompileWay::Ptx | CompileWay::Cubin => {
            vec!["-cubin"]
        }
    };
    let mut words: Vec<String> = vec!["nvcc".to_owned()];
    words.extend(output.into_iter().map(str::to_owned));
    words.extend(args);
    match generated {
        None => words.push(unit.source.clone()),
        Some(_) => words.extend([
            "-include".to_owned(),
            unit.source.clone(),
            "gatekeeper.cu".to_owned(),
        ]),
    }
    words
        .iter()
        .map(|word| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=./,:".contains(c);
            if !word.is_empty() && word.chars().all(is_plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

fn arguments(unit: &Unit) -> Vec<String> {
    // Machine code for this architecture alone: with PTX beside it the driver could run something
    // that PTXAS of this toolkit never reported on.
    let mut args = vec![
        "-gencode".into(),
        code_for(unit.id.arch),
        "-lineinfo".into(),
        "-Xptxas".into(),
        "-v".into(),
    ];
    args.extend(
        unit.defines
            .iter()
            .map(|(name, value)| format!("-D{name}={}", escape(value))),
    );
    args.extend(
        unit.include_dirs
            .iter()
            .map(|dir| format!("-I{}", escape(dir))),
    );
    args.extend(unit.flags.iter().cloned());
    args
}

/// Returns the value of `-gencode` that makes machine code for this architecture alone.
pub fn code_for(arch: Arch) -> String {
    let arch = arch.to_string();
    let virtual_arch = arch.replacen("sm_", "compute_", 1);
    format!("arch={virtual_arch},code={arch}")
}

/// Escapes commas, because nvcc splits the values of its options at commas.
pub fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}

/// Returns true if a name denotes a template, which exists only after it is instantiated.
pub fn is_templated(name: &str) -> bool {
    name.contains('<')
}

/// Returns what the symbol of a marker kernel contains of its templated entry. It equals the entry's own symbol only if
/// nothing in it is abbreviated.
pub fn instantiated(index: usize, marker: &str) -> Option<&str> {
    let prefix = format!("_Z14gk_instantiateILi{index}EXadL");
    marker.strip_prefix(&prefix)?.strip_suffix("EEEvv")
}

/// Returns the text before and after the entry in the demangled name of its marker.
pub fn around(index: usize) -> (String, &'static str) {
    (format!("gk_instantiate<{index}, &"), ">()")
}

/// Returns true if the symbol is a marker, which is no entry of the user's.
pub fn is_marker(symbol: &str) -> bool {
    symbol.starts_with("_Z14gk_instantiateI")
}

fn generated(unit: &Unit) -> Option<String> {
    if Precompiled::from_path(&unit.source).is_some() {
        return None;
    }
    let mut text = markers(&entry_names(&unit.call));
    if let Callable::Launcher {
        function,
        signature,
        ..
    } = &unit.call
    {
        text.push_str(&shim(function, signature));
    }
    // nvcc compiles no header.
    let is_header = sources::extension(&unit.source) != "cu";
    (is_header || !text.is_empty()).then_some(text)
}

fn markers(names: &[&str]) -> String {
    let mut text = String::new();
    // A kernel whose only use is to name the entry: the compiler looks the name up as the source would,
    // macros and defaults included, and the marker's symbol then holds the entry's.
    if names.iter().any(|name| is_templated(name)) {
        text.push_str("template <int, auto> __global__ void gk_instantiate() {}\n");
    }
    for (index, name) in names.iter().enumerate() {
        if is_templated(name) {
            let _ = write!(
                text,
                "#line 1 \"{LABEL}entry {}\"\n\
                 template __global__ void gk_instantiate<{index}, &{name}>();\n",
                label(name)
            );
        }
    }
    text
}

/// The file name of generated lines. An error in them is a mistake in gates.yaml.
const LABEL: &str = "gates.yaml: ";

/// Returns a name in the form that a `#line` directive needs.
fn label(name: &str) -> String {
    name.replace(['"', '\\', '\n'], "?")
}

/// Returns the source that launches a function. The source itself gives the types of the arguments, and the compiler
/// checks them against gates.yaml's signature, because the worker lays out the values by that signature.
fn shim(function: &str, signature: &[CType]) -> String {
    let mut text = String::from(SHIM_SUPPORT);
    let _ = write!(
        text,
        "#line 1 \"{LABEL}launcher {}\"\n\
         static_assert(gk_shim::arity({function}) == {count}, \"gates.yaml gives this launcher {count} arguments\");\n",
        label(function),
        count = signature.len()
    );
    for (index, ctype) in signature.iter().enumerate() {
        let (test, what) = match ctype {
            CType::Pointer => (
                "gk_shim::is_pointer<Type>()".to_owned(),
                "a pointer".to_owned(),
            ),
            CType::Stream => (
                "std::is_same_v<Type, cudaStream_t>".to_owned(),
                "the stream".to_owned(),
            ),
            CType::Struct { size, align } => (
                format!(
                    "std::is_class_v<Type> && sizeof(Type) == {size} && alignof(Type) == {align}"
                ),
                format!("a struct of {size} bytes aligned to {align}"),
            ),
            CType::Scalar(scalar) => scalar_test(*scalar),
        };
        let _ = writeln!(
            text,
            "namespace gk_argument_{index} {{ using Type = gk_shim::argument<{index}, decltype({function})>; \
             static_assert({test}, \"argument {} is {what} in gates.yaml and something else here\"); }}",
            index + 1
        );
    }
    let _ = writeln!(
        text,
        "extern \"C\" int {SHIM}(void** args) noexcept {{ return gk_shim::call({function}, args); }}"
    );
    text
}

fn scalar_test(scalar: ScalarType) -> (String, String) {
    let integer = |sign: &str| {
        let size = scalar.size();
        format!("gk_shim::is_integer<Type, {size}>() && {sign}gk_shim::is_signed<Type>()")
    };
    let test = match scalar.number() {
        // These types are named with their headers, which the source need not include.
        Number::Float(2) => {
            let test = "std::is_class_v<Type> && sizeof(Type) == 2";
            return (test.to_owned(), "a 16-bit float".to_owned());
        }
        number @ (Number::Bool | Number::Float(_)) => {
            format!("std::is_same_v<Type, {}>", number.host_type())
        }
        Number::Signed(_) => integer(""),
        Number::Unsigned(_) => integer("!"),
    };
    (test, scalar.name().to_owned())
}

const SHIM_SUPPORT: &str = include_str!("command/shim.h");

/// Names of the entries of a call, in the order declared.
pub fn entry_names(call: &Callable) -> Vec<&str> {
    match call {
        Callable::Entries { names, .. } => names.iter().map(String::as_str).collect(),
        Callable::Launcher { launches, .. } => launches
            .iter()
            .map(|LaunchedEntry { name, .. }| name.as_str())
            .collect(),
        Callable::Compiled { symbol } => symbol.as_deref().into_iter().collect(),
        // The modules of a group are built one by one.
        Callable::Together { .. } => Vec::new(),
    }
}

/// Returns the constants that the host fills.
pub fn constants(call: &Callable) -> &[Constant] {
    match call {
        Callable::Entries { constants, .. } => constants,
        Callable::Launcher { .. } | Callable::Compiled { .. } | Callable::Together { .. } => &[],
    }
}
