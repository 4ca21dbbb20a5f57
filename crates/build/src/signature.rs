//! Reads the parameters of an entry: from its name, if that is mangled, and from its PTX. Pure.

use cpp_demangle::{DemangleOptions, Symbol};
use model::{Arg, ElemType, Number, ScalarType, ScalarValue};

/// Returns the reason why a case cannot call an entry: the types that the entry takes, and those that it is given.
/// Returns `None` if the case can call it, or if the name does not tell.
pub fn misfit(symbol: &str, args: &[Arg]) -> Option<String> {
    let takes = named(symbol, args)?;
    (takes.len() != args.len()).then(|| other_count(symbol, &takes, args))
}

/// Returns the parameters that an entry has by its name. A captured launch is not checked by this, because the driver
/// gave the length of each of its arguments.
fn named(symbol: &str, args: &[Arg]) -> Option<Vec<String>> {
    parameters(symbol).filter(|_| !is_captured(args))
}

fn is_captured(args: &[Arg]) -> bool {
    args.iter().any(|arg| matches!(arg, Arg::Raw { .. }))
}

/// A problem with an argument, or with the number of arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The number of the argument, from 0, or `None` if it is about all of them.
    pub argument: Option<usize>,
    pub message: String,
}

/// Returns the arguments that an entry cannot be meant to get. Each `bytes` is the size of the argument next to it.
/// Bytes that can mean several things, such as a struct's, are only checked for their number.
pub fn misfits(
    name: &str,
    symbol: &str,
    ptx: Option<&str>,
    args: &[Arg],
    bytes: &[usize],
) -> Vec<Misfit> {
    let slots = ptx.and_then(|ptx| slots(ptx, symbol));
    // If the name and the code differ in the number of parameters, the code is right.
    let is_as_long = |named: &Vec<String>| {
        slots
            .as_ref()
            .is_none_or(|slots| slots.len() == named.len())
    };
    let named = named(symbol, args).filter(is_as_long);
    let takes: Vec<EntryParameter> = match (&named, &slots) {
        (Some(named), slots) => named
            .iter()
            .enumerate()
            .map(|(at, text)| EntryParameter {
                text: Some(text),
                slot: slots.as_ref().and_then(|slots| slots.get(at).copied()),
            })
            .collect(),
        (None, Some(slots)) => slots
            .iter()
            .map(|slot| EntryParameter {
                text: None,
                slot: Some(*slot),
            })
            .collect(),
        (None, None) => return Vec::new(),
    };
    if takes.len() != args.len() {
        let takes: Vec<String> = takes.iter().map(EntryParameter::shown).collect();
        return vec![Misfit {
            argument: None,
            message: other_count(symbol, &takes, args),
        }];
    }
    takes
        .iter()
        .zip(args)
        .zip(bytes)
        .enumerate()
        .filter(|(_, ((takes, arg), bytes))| !takes.fits(arg, **bytes))
        .map(|(at, ((takes, arg), bytes))| Misfit {
            argument: Some(at),
            message: format!(
                "argument {} of {name} is {} in gates.yaml, and the kernel takes {}{}",
                at + 1,
                given(arg, *bytes),
                takes.shown(),
                takes.correction(arg)
            ),
        })
        .collect()
}

fn other_count(symbol: &str, takes: &[String], args: &[Arg]) -> String {
    let giver = if is_captured(args) {
        "the capture"
    } else {
        "gates.yaml"
    };
    let mut said = format!(
        "{giver} gives {} arguments, and {} takes {}:",
        args.len(),
        shortened(&whole_name(symbol), LONGEST_SHORT),
        takes.len()
    );
    for at in 0..takes.len().max(args.len()) {
        let takes = takes.get(at).map_or("nothing", String::as_str);
        let takes = shortened(takes, LONGEST_SHORT);
        let given = args
            .get(at)
            .map_or_else(|| "nothing".to_owned(), as_written);
        said.push_str(&format!("\n  {}: {takes}, given {given}", at + 1));
    }
    said
}

/// One parameter of an entry. At least one of its two descriptions is known.
struct EntryParameter<'a> {
    /// The type as C++ writes it.
    text: Option<&'a str>,
    slot: Option<Slot>,
}

/// The room of a parameter, as PTX declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub kind: SlotKind,
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// An integer. If it has 8 bytes, it can also be a pointer.
    Word,
    Float,
    /// A struct, or a class like `__half`.
    Bytes,
}

/// The known kind of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Pointer,
    Integer(usize),
    Float(usize),
    Half,
    Bfloat,
}

impl Known {
    /// Reads a parameter's type as C++ writes it.
    fn from_type(text: &str) -> Option<Self> {
        if text.ends_with('*') {
            return Some(Self::Pointer);
        }
        let scalar = scalar_named(text)?;
        Some(match scalar {
            ScalarType::F16 => Self::Half,
            ScalarType::Bf16 => Self::Bfloat,
            ScalarType::F32 | ScalarType::F64 => Self::Float(scalar.size()),
            _ => Self::Integer(scalar.size()),
        })
    }
}

/// Returns the type that gates.yaml has for a scalar type of C++.
pub(super) fn scalar_named(text: &str) -> Option<ScalarType> {
    Some(match text {
        "bool" => ScalarType::Bool,
        "char" | "signed char" => ScalarType::I8,
        "unsigned char" => ScalarType::U8,
        "short" => ScalarType::I16,
        "unsigned short" => ScalarType::U16,
        "int" => ScalarType::I32,
        "unsigned int" => ScalarType::U32,
        "long" | "long long" => ScalarType::I64,
        "unsigned long" | "unsigned long long" => ScalarType::U64,
        "float" => ScalarType::F32,
        "double" => ScalarType::F64,
        "__half" => ScalarType::F16,
        "__nv_bfloat16" => ScalarType::Bf16,
        _ => return None,
    })
}

impl EntryParameter<'_> {
    fn fits(&self, arg: &Arg, bytes: usize) -> bool {
        match (self.text.and_then(Known::from_type), self.slot) {
            (Some(known), _) => fits_type(known, arg, bytes),
            (None, Some(slot)) => fits_slot(slot, arg, bytes),
            (None, None) => true,
        }
    }

    /// Says which type to write for a scalar, where the kernel's has a name in gates.yaml.
    fn correction(&self, arg: &Arg) -> String {
        match (arg, self.text.and_then(scalar_named)) {
            (Arg::Scalar { .. }, Some(wanted)) => format!(": write {}", wanted.name()),
            _ => String::new(),
        }
    }

    fn shown(&self) -> String {
        match (self.text, self.slot) {
            (Some(text), Some(slot)) if Known::from_type(text).is_none() => {
                format!("{text} ({} bytes)", slot.bytes)
            }
            (Some(text), _) => text.to_owned(),
            (None, Some(slot)) => match (slot.kind, slot.bytes) {
                (SlotKind::Word, 8) => "a pointer or an integer of 8 bytes".to_owned(),
                (SlotKind::Word, 1) => "an integer of one byte".to_owned(),
                (SlotKind::Word, bytes) => format!("an integer of {bytes} bytes"),
                (SlotKind::Float, 8) => "a double".to_owned(),
                (SlotKind::Float, _) => "a float".to_owned(),
                (SlotKind::Bytes, bytes) => format!("a struct of {bytes} bytes"),
            },
            (None, None) => "something".to_owned(),
        }
    }
}

/// The kind of an argument. Its value does not matter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Pointer,
    Scalar(ScalarType),
    /// `nullptr`, which is written as a number.
    Zero,
    /// Bytes whose meaning is not known.
    Struct,
}

impl Given {
    fn from_arg(arg: &Arg) -> Self {
        match arg {
            Arg::Tensor { .. }
            | Arg::Scales { .. }
            | Arg::ZeroPoints { .. }
            | Arg::Bytes { .. }
            | Arg::Null
            | Arg::Stream => Self::Pointer,
            Arg::Scalar {
                elem: ScalarType::I64 | ScalarType::U64,
                value: ScalarValue::Int(0),
            } => Self::Zero,
            Arg::Scalar { elem, .. } => Self::Scalar(*elem),
            Arg::Texture { .. } | Arg::Surface { .. } => Self::Scalar(ScalarType::U64),
            Arg::TensorMap { .. } | Arg::Struct { .. } | Arg::Pad { .. } | Arg::Raw { .. } => {
                Self::Struct
            }
        }
    }
}

fn fits_type(known: Known, arg: &Arg, bytes: usize) -> bool {
    use ScalarType::{Bf16, F16, F32, F64, I16, U16};
    match (known, Given::from_arg(arg)) {
        (Known::Pointer, Given::Pointer | Given::Zero) => true,
        (Known::Pointer, Given::Scalar(_)) => false,
        // Some kernels take an address as a number.
        (Known::Integer(size), Given::Pointer | Given::Zero) => size == 8,
        (Known::Integer(size), Given::Scalar(elem)) => {
            !matches!(elem, F16 | Bf16 | F32 | F64) && elem.size() == size
        }
        (Known::Float(size), Given::Scalar(elem)) => {
            matches!(elem, F32 | F64) && elem.size() == size
        }
        // The argument may also be the bits of a half.
        (Known::Half, Given::Scalar(elem)) => matches!(elem, F16 | I16 | U16),
        (Known::Bfloat, Given::Scalar(elem)) => matches!(elem, Bf16 | I16 | U16),
        (Known::Float(_) | Known::Half | Known::Bfloat, Given::Pointer | Given::Zero) => false,
        (Known::Pointer, Given::Struct) => bytes == 8,
        (Known::Integer(size) | Known::Float(size), Given::Struct) => bytes == size,
        (Known::Half | Known::Bfloat, Given::Struct) => bytes == 2,
    }
}

fn fits_slot(slot: Slot, arg: &Arg, bytes: usize) -> bool {
    let is_float = |elem: ScalarType| matches!(elem.number(), Number::Float(4 | 8));
    let is_half = |elem: ScalarType| elem.number() == Number::Float(2);
    let is_alike = match (slot.kind, Given::from_arg(arg)) {
        (SlotKind::Word, Given::Scalar(elem)) => !is_float(elem) && !is_half(elem),
        (SlotKind::Float, Given::Scalar(elem)) => is_float(elem),
        (SlotKind::Float, Given::Pointer | Given::Zero) => false,
        (SlotKind::Word, Given::Pointer | Given::Zero)
        | (SlotKind::Word | SlotKind::Float, Given::Struct)
        | (SlotKind::Bytes, _) => true,
    };
    is_alike && slot.bytes == bytes
}

/// The known type that a pointer points to. Bytes, vectors and structs may stand for anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointee {
    Float(ElemType),
    /// An integer of this many bytes.
    Whole(usize),
}

impl Pointee {
    /// Reads a parameter as a demangled name has it: `__half const*`.
    pub fn from_parameter(parameter: &str) -> Option<Self> {
        let pointee = parameter.strip_suffix('*')?.trim_end();
        let pointee = pointee.strip_suffix(" const").unwrap_or(pointee);
        Some(match pointee {
            "float" => Self::Float(ElemType::F32),
            "double" => Self::Float(ElemType::F64),
            "__half" | "c10::Half" => Self::Float(ElemType::F16),
            "__nv_bfloat16" | "c10::BFloat16" => Self::Float(ElemType::Bf16),
            "__nv_fp8_e4m3" => Self::Float(ElemType::E4m3),
            "__nv_fp8_e5m2" => Self::Float(ElemType::E5m2),
            "short" | "unsigned short" => Self::Whole(2),
            "int" | "unsigned int" => Self::Whole(4),
            "long" | "unsigned long" | "long long" | "unsigned long long" => Self::Whole(8),
            _ => return None,
        })
    }

    /// Returns true if the type in the code contradicts the declared one. Integers are compared by size alone, and
    /// only with `i32`, `u32` and `i64`, because kernels read codes and halves as integers of any width.
    pub fn differs(self, declared: ElemType) -> bool {
        let whole = matches!(declared, ElemType::I32 | ElemType::U32 | ElemType::I64);
        match self {
            Self::Float(own) => own != declared,
            // Codes and halves are read as integers of any width by kernels that unpack them.
            Self::Whole(bytes) => whole && bytes != declared.size(),
        }
    }
}

/// Returns the parameters of an entry, or `None` if the PTX does not have the entry or is not written as PTX.
pub fn slots(ptx: &str, symbol: &str) -> Option<Vec<Slot>> {
    let behind = ptx.split(".entry ").skip(1).find_map(|rest| {
        let behind = rest.trim_start().strip_prefix(symbol)?.trim_start();
        behind.strip_prefix('(')
    })?;
    let inside = behind.split_once(')')?.0.trim();
    if inside.is_empty() {
        return Some(Vec::new());
    }
    inside.split(',').map(slot).collect()
}

/// Parses a parameter such as `.param .align 8 .b8 k_param_1[16]`.
fn slot(written: &str) -> Option<Slot> {
    // PTX needs no blank before a dot: `.param.u64.ptr.global.align 16 p`.
    let written = written.replace('.', " .");
    let mut words = written.split_whitespace();
    if words.next()? != ".param" {
        return None;
    }
    let mut found = None;
    while let Some(word) = words.next() {
        match word {
            ".align" => drop(words.next()?.parse::<usize>().ok()?),
            ".ptr" | ".global" | ".const" | ".shared" | ".local" => {}
            _ => match word.strip_prefix('.') {
                Some(kind) => {
                    let at = kind.find(|kind: char| kind.is_ascii_digit())?;
                    let (kind, bits) = kind.split_at_checked(at)?;
                    let bits: usize = bits.parse().ok()?;
                    let kind = match kind {
                        "u" | "s" | "b" => SlotKind::Word,
                        "f" => SlotKind::Float,
                        _ => return None,
                    };
                    let bytes = bits / 8;
                    found = Some(Slot { kind, bytes });
                }
                None => {
                    let slot = found?;
                    let Some((_, count)) = word.split_once('[') else {
                        return Some(slot);
                    };
                    let count: usize = count.strip_suffix(']')?.parse().ok()?;
                    return Some(Slot {
                        kind: SlotKind::Bytes,
                        bytes: slot.bytes.checked_mul(count)?,
                    });
                }
            },
        }
    }
    None
}

fn given(arg: &Arg, bytes: usize) -> String {
    match arg {
        Arg::Struct { .. } => format!("a struct of {bytes} bytes"),
        arg => as_written(arg),
    }
}

fn as_written(arg: &Arg) -> String {
    match arg {
        Arg::Tensor { name } => format!("tensor {name}"),
        Arg::Scales { tensor } => format!("scales of {tensor}"),
        Arg::ZeroPoints { tensor } => format!("zero points of {tensor}"),
        Arg::Bytes { tensor } => format!("bytes of {tensor}"),
        Arg::Scalar { elem, .. } => elem.name().to_owned(),
        Arg::Texture { tensor, .. } => format!("texture of {tensor}"),
        Arg::Surface { tensor, .. } => format!("surface of {tensor}"),
        Arg::TensorMap { tensor, .. } => format!("tensor map of {tensor}"),
        Arg::Null => "nullptr".to_owned(),
        Arg::Stream => "the stream".to_owned(),
        Arg::Struct { fields } => format!("a struct of {} fields", fields.len()),
        Arg::Pad { bytes } => format!("{bytes} bytes of padding"),
        Arg::Raw { bytes } => format!("{} bytes", bytes.len() / 2),
    }
}

/// Returns `ns::k<float, 4>` for a symbol, or the symbol itself if it is not mangled.
pub fn qualified(symbol: &str) -> String {
    let options = DemangleOptions::new().no_return_type().no_params();
    demangle(symbol, &options).unwrap_or_else(|| symbol.to_owned())
}

/// The most characters of a name in a report. CUTLASS has names of thousands.
const LONGEST_SHORT: usize = 72;

/// Returns the name like [`qualified`], shortened.
pub fn short_name(symbol: &str) -> String {
    shortened(&qualified(symbol), LONGEST_SHORT)
}

/// Shortens a name inside its template arguments, the innermost first: `k<A<B<int>>, 4>` is `k<A<...>, 4>`. If that is
/// not enough, its beginning remains.
pub fn shortened(name: &str, most: usize) -> String {
    let is_long = |name: &str| name.chars().count() > most;
    let mut text = name.to_owned();
    let deepest = depths(name).into_iter().max().unwrap_or(0);
    for depth in (2..=deepest).rev().take_while(|_| most > 3) {
        if !is_long(&text) {
            break;
        }
        text = without_lists(&text, depth);
    }
    if is_long(&text) {
        let start: String = text.chars().take(most.saturating_sub(3)).collect();
        text = start + "...";
    }
    text
}

/// Returns for each character how many lists of template arguments it is in.
fn depths(name: &str) -> Vec<usize> {
    let mut depth = 0_usize;
    let mut last = ' ';
    name.chars()
        .map(|character| {
            let own = depth;
            match character {
                '<' => depth += 1,
                // The end of an arrow does not close a bracket.
                '>' if last != '-' => depth = depth.saturating_sub(1),
                _ => {}
            }
            last = character;
            own.min(depth)
        })
        .collect()
}

/// Returns a name in which `...` replaces everything that is in `depth` or more lists of template arguments.
fn without_lists(name: &str, depth: usize) -> String {
    let mut text = String::new();
    let mut was_inside = false;
    for (character, at) in name.chars().zip(depths(name)) {
        let is_inside = at >= depth;
        if !is_inside {
            text.push(character);
        } else if !was_inside {
            text.push_str("...");
        }
        was_inside = is_inside;
    }
    text
}

/// Returns `ns::k<float, 4>(float*, int)` for a symbol, or the symbol itself if it is not mangled.
pub fn whole_name(symbol: &str) -> String {
    let options = DemangleOptions::new().no_return_type();
    demangle(symbol, &options).unwrap_or_else(|| symbol.to_owned())
}

fn demangle(symbol: &str, options: &DemangleOptions) -> Option<String> {
    let mut name = Bounded(String::new());
    Symbol::new(symbol)
        .ok()?
        .structured_demangle(&mut name, options)
        .ok()?;
    Some(name.0)
}

/// The most bytes of a name that is demangled for display. Names in CUTLASS have a tenth of it.
const LONGEST_NAME: usize = 64 << 10;

/// The text of a demangled name, which is limited. A mangled name repeats its parts by reference, so 300 bytes from
/// outside could become terabytes.
struct Bounded(String);

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() <= LONGEST_NAME {
            self.0.write_str(text)
        } else {
            Err(std::fmt::Error)
        }
    }
}

/// Returns `__half const*, int` for `ns::k<__half>(__half const*, int)`. Returns `None` if the name does not contain
/// the parameters, as with `extern "C"`, and for a pack (`Dp`), which cpp_demangle writes as one parameter.
pub fn parameters(symbol: &str) -> Option<Vec<String>> {
    if symbol.contains("Dp") {
        return None;
    }
    let name = demangle(symbol, &DemangleOptions::new().no_return_type())?;
    let inside = name.strip_suffix(')')?;
    let mut depth = 1usize;
    let opens = inside.char_indices().rev().find(|(_, c)| {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let mut parameters = vec![String::new()];
    let mut depth = 0usize;
    for c in inside.get(opens.0 + 1..)?.chars() {
        match c {
            '(' | '<' => depth += 1,
            ')' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parameters.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parameters.last_mut() {
            last.push(c);
        }
    }
    let trimmed: Vec<_> = parameters.iter().map(|one| one.trim().to_owned()).collect();
    Some(match trimmed.as_slice() {
        [none] if none.is_empty() => Vec::new(),
        _ => trimmed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ScalarType, ScalarValue};

    const RMS: &str = "_ZN4vllm25fused_add_rms_norm_kernelI6__halfLi256EEEvPT_S3_PKS2_fii";

    /// A kernel of cub::DeviceTransform, which takes a pack of inputs.
    const PACK: &str = "_ZN3cub17CUB_300001_SM_9006detail9transform16transform_kernelINS2_10policy_hubILb1EN4cuda3std3__45tupleIJPfS9_EEEE10policy1000Ei2OpS9_JS9_S9_EEEvT0_iT1_T2_DpNS2_10kernel_argIT3_EE";

    #[test]
    fn long_names_are_shortened_inside_their_template_arguments() {
        let name = "ns::gemm<Tile<Shape<int, 128>, 4>, 2>(Params<Tile<Shape<int, 128>, 4>>)";
        assert_eq!(shortened(name, 80), name);
        assert_eq!(
            shortened(name, 64),
            "ns::gemm<Tile<Shape<...>, 4>, 2>(Params<Tile<Shape<...>, 4>>)"
        );
        assert_eq!(
            shortened(name, 60),
            "ns::gemm<Tile<...>, 2>(Params<Tile<...>>)"
        );
        assert_eq!(shortened("operator->(long_name)", 12), "operator-...");
    }

    #[test]
    fn parameters_are_those_of_the_name() {
        for (symbol, says) in [
            (RMS, "__half*|__half*|__half const*|float|int|int"),
            (
                "_Z1kPKiPlN2ns1PIffEE",
                "int const*|long*|ns::P<float, float>",
            ),
            ("_Z1kPFvPfE", "void (*)(float*)"),
            ("_ZN12_GLOBAL__N_11kEPd", "double*"),
        ] {
            assert_eq!(parameters(symbol).unwrap().join("|"), says);
        }
        assert_eq!(parameters("gather_kv"), None);
        // `kernel_arg<float*>, kernel_arg<float*>`
        assert_eq!(parameters(PACK), None);
    }

    #[test]
    fn takes_the_parameters_of_a_captured_launch_from_its_code() {
        let raw = |bytes: usize| Arg::Raw {
            bytes: "00".repeat(bytes),
        };
        let misfits = |symbol: &str, ptx: &str, sizes: &[usize]| {
            let args: Vec<Arg> = sizes.iter().copied().map(raw).collect();
            let found = misfits("k", symbol, Some(ptx), &args, sizes);
            assert_eq!(misfit(symbol, &args), None);
            found.into_iter().map(|misfit| misfit.message).collect()
        };
        let none: [&str; 0] = [];
        let ptx = format!(
            ".entry {PACK}(\n\t.param .u32 a,\n\t.param.u64.ptr.global.align 16 b,\n\t.param .align 1 .b8 c[1]\n)\n{{ ret; }}"
        );
        let found: Vec<String> = misfits(PACK, &ptx, &[4, 8, 1]);
        assert_eq!(found, none);
        // The name says one parameter, and the code has two.
        let found: Vec<String> = misfits(
            "_Z1k5Color3Pos",
            &PTX.replace("b[12]", "b[12],.param .u32 c"),
            &[4, 12, 4],
        );
        assert_eq!(found, none);
        let found: Vec<String> = misfits(PACK, &ptx, &[4, 8]);
        assert!(
            found[0].starts_with("the capture gives 2 arguments, and "),
            "{found:?}"
        );
        assert!(found[0].lines().all(|line| line.len() < 160), "{found:?}");
    }

    #[test]
    fn a_name_that_doubles_itself_is_left_as_it_is() {
        // `a<int, int>`, then each parameter twice the one before it.
        let doubled = |times: u32| {
            let seq = |at: u32| char::from_digit(at, 36).unwrap().to_ascii_uppercase();
            let pairs = (0..times).map(|at| format!("S_IS{0}_S{0}_E", seq(at)));
            format!("_Z1k1aIiiE{}", pairs.collect::<String>())
        };
        assert_eq!(
            whole_name(&doubled(1)),
            "k(a<int, int>, a<a<int, int>, a<int, int> >)"
        );
        assert!(whole_name(&doubled(8)).len() > 11 << 8);
        assert_eq!(whole_name(&doubled(35)), doubled(35));
    }

    const PTX: &str = "\
.visible .entry plain_c(\n\t.param .u64 .ptr .global .align 4 plain_c_param_0,\n\t.param .u32 plain_c_param_1,\n\
\t.param .f32 plain_c_param_2,\n\t.param .align 8 .b8 plain_c_param_3[16],\n\t.param .u8 plain_c_param_4\n)\n\
.maxntid 128\n{\n\tret;\n}\n\
.visible .entry none()\n{\n\tret;\n}\n\
.entry _Z1k5Color3Pos(\n\t.param .u32 a,\n\t.param .align 4 .b8 b[12]\n)\n{\n\tret;\n}\n";

    fn scalar(elem: ScalarType) -> Arg {
        let value = ScalarValue::Int(4);
        Arg::Scalar { elem, value }
    }

    fn tensor() -> Arg {
        Arg::Tensor { name: "x".into() }
    }

    fn struct_of(fields: usize) -> Arg {
        let fields = (0..fields).map(|_| scalar(ScalarType::F32)).collect();
        Arg::Struct { fields }
    }

    fn size(arg: &Arg) -> usize {
        match arg {
            Arg::Scalar { elem, .. } => elem.size(),
            Arg::Struct { fields } => fields.iter().map(size).sum(),
            _ => 8,
        }
    }

    fn said(symbol: &str, args: &[Arg]) -> Vec<String> {
        let bytes: Vec<usize> = args.iter().map(size).collect();
        let found = misfits("k", symbol, Some(PTX), args, &bytes);
        found.into_iter().map(|misfit| misfit.message).collect()
    }

    #[test]
    fn room_for_parameters_is_read_from_ptx() {
        let slot = |kind, bytes| Slot { kind, bytes };
        assert_eq!(
            slots(PTX, "plain_c").unwrap(),
            [
                slot(SlotKind::Word, 8),
                slot(SlotKind::Word, 4),
                slot(SlotKind::Float, 4),
                slot(SlotKind::Bytes, 16),
                slot(SlotKind::Word, 1)
            ]
        );
        assert_eq!(slots(PTX, "none").unwrap(), []);
        assert_eq!(slots(PTX, "plain"), None);
        for wrong in [
            ".param .u",
            ".reg .u32 x",
            ".param .b8 x[",
            ".param x",
            ".param",
            "x",
        ] {
            let ptx = format!(".entry k(\n{wrong}\n)\n{{\n}}\n");
            assert_eq!(slots(&ptx, "k"), None, "{wrong}");
        }
    }

    #[test]
    fn names_an_argument_of_another_type_and_the_type_expected() {
        use ScalarType::*;
        let symbol = "_Z1kPKffi";
        assert_eq!(said(symbol, &[tensor(), scalar(F32), scalar(I32)]), [""; 0]);
        assert_eq!(
            said(symbol, &[tensor(), scalar(F32), scalar(F32)]),
            ["argument 3 of k is f32 in gates.yaml, and the kernel takes int: write i32"]
        );
        assert_eq!(
            said(symbol, &[scalar(I32), tensor(), scalar(I64)]),
            [
                "argument 1 of k is i32 in gates.yaml, and the kernel takes float const*",
                "argument 2 of k is tensor x in gates.yaml, and the kernel takes float",
                "argument 3 of k is i64 in gates.yaml, and the kernel takes int: write i32"
            ]
        );
    }

    /// Arguments that can be right are no misfit: other signs, addresses as numbers, bits, structs of one field.
    #[test]
    fn accepts_arguments_that_can_be_right() {
        use ScalarType::*;
        let null = Arg::Scalar {
            elem: U64,
            value: ScalarValue::Int(0),
        };
        for (symbol, arg) in [
            ("_Z1ki", scalar(U32)),
            ("_Z1kj", scalar(I32)),
            ("_Z1kb", scalar(U8)),
            ("_Z1kc", scalar(I8)),
            ("_Z1km", tensor()),
            ("_Z1ky", Arg::Scales { tensor: "x".into() }),
            ("_Z1kPf", Arg::Null),
            ("_Z1kPf", null),
            ("_Z1k6__half", scalar(F16)),
            ("_Z1k6__half", scalar(U16)),
            ("_Z1k13__nv_bfloat16", scalar(Bf16)),
            ("_Z1kf", struct_of(1)),
            ("_Z1kPf", struct_of(2)),
            ("_Z1k3Any", scalar(F64)),
        ] {
            assert_eq!(
                said(symbol, std::slice::from_ref(&arg)),
                [""; 0],
                "{symbol} {arg:?}"
            );
        }
        for (symbol, arg) in [
            ("_Z1ki", scalar(I64)),
            ("_Z1ki", tensor()),
            ("_Z1kf", scalar(F64)),
            ("_Z1kf", scalar(I32)),
            ("_Z1kPf", scalar(I64)),
            ("_Z1k6__half", scalar(Bf16)),
            ("_Z1k6__half", scalar(F32)),
            ("_Z1k13__nv_bfloat16", scalar(F16)),
            ("_Z1kPf", struct_of(1)),
        ] {
            assert_eq!(
                said(symbol, std::slice::from_ref(&arg)).len(),
                1,
                "{symbol} {arg:?}"
            );
        }
    }

    #[test]
    fn reads_types_from_ptx_if_the_symbol_has_none() {
        use ScalarType::*;
        let right = [
            tensor(),
            scalar(I32),
            scalar(F32),
            struct_of(4),
            scalar(Bool),
        ];
        assert_eq!(said("plain_c", &right), [""; 0]);
        let wrong = [
            scalar(I64),
            scalar(F32),
            scalar(I32),
            struct_of(3),
            tensor(),
        ];
        assert_eq!(
            said("plain_c", &wrong),
            [
                "argument 2 of k is f32 in gates.yaml, and the kernel takes an integer of 4 bytes",
                "argument 3 of k is i32 in gates.yaml, and the kernel takes a float",
                "argument 4 of k is a struct of 12 bytes in gates.yaml, and the kernel takes a struct of 16 bytes",
                "argument 5 of k is tensor x in gates.yaml, and the kernel takes an integer of one byte"
            ]
        );
        assert_eq!(
            said("none", &[tensor()]),
            ["gates.yaml gives 1 arguments, and none takes 0:\n  1: nothing, given tensor x"]
        );
        // A type of the user's has a name, and its size is in the PTX.
        let symbol = "_Z1k5Color3Pos";
        assert_eq!(said(symbol, &[scalar(I32), struct_of(3)]), [""; 0]);
        assert_eq!(
            said(symbol, &[scalar(F32), struct_of(2)]),
            [
                "argument 1 of k is f32 in gates.yaml, and the kernel takes Color (4 bytes)",
                "argument 2 of k is a struct of 8 bytes in gates.yaml, and the kernel takes Pos (12 bytes)"
            ]
        );
    }

    #[test]
    fn lists_a_missing_argument_with_the_expected_ones() {
        let x = || Arg::Tensor { name: "x".into() };
        let count = || Arg::Scalar {
            elem: ScalarType::I32,
            value: ScalarValue::Int(4),
        };
        let symbol = "_Z1kPKffi";
        assert_eq!(
            misfit(symbol, &[x(), count()]).unwrap(),
            "gates.yaml gives 2 arguments, and k(float const*, float, int) takes 3:\n  \
             1: float const*, given tensor x\n  2: float, given i32\n  3: int, given nothing"
        );
        assert_eq!(misfit(symbol, &[x(), count(), count()]), None);
        assert_eq!(misfit("_Z1kv", &[]), None);
        assert!(
            misfit("_Z1kv", &[x()])
                .unwrap()
                .contains("1: nothing, given tensor x")
        );
        assert_eq!(misfit("plain_c", &[x()]), None);
    }

    #[test]
    fn only_types_that_cannot_match_differ() {
        use ElemType::*;
        for (parameter, right, wrong) in [
            ("__half const*", &[F16][..], &[F32, Bf16, I32][..]),
            ("__nv_bfloat16*", &[Bf16], &[F16]),
            ("__nv_fp8_e4m3*", &[E4m3], &[E5m2, U8]),
            ("float*", &[F32], &[F16, I32]),
            ("double*", &[F64], &[F32]),
            ("short const*", &[I16, U16, F16], &[I32, I64]),
            ("int const*", &[I32, U32, F16, E4m3, U8, I16, F32], &[I64]),
            ("long const*", &[I64, F16], &[I32]),
        ] {
            let pointee = Pointee::from_parameter(parameter).unwrap();
            assert!(
                right.iter().all(|elem| !pointee.differs(*elem)),
                "{parameter}"
            );
            assert!(
                wrong.iter().all(|elem| pointee.differs(*elem)),
                "{parameter}"
            );
        }
        for unknown in [
            "void*",
            "unsigned char const*",
            "uint4 const*",
            "float**",
            "float",
            "ns::P",
        ] {
            assert!(Pointee::from_parameter(unknown).is_none(), "{unknown}");
        }
    }
}
