//! The arguments of a user's function: their C types, their bytes, and the `main` that passes them.

use crate::inputs::{Inputs, View};
use crate::layout::Layout;
use crate::reference::NoAnswer;
use crate::{Values, elem, poison};
use model::{Arg, Case, ElemType, Num, Role, ScalarType, ScalarValue, Tensor};
use std::fmt::Write as _;

/// Bytes behind each argument that the function must leave alone.
const GUARD: usize = 64;

/// How the function gets a tensor: floats and whatever has a codec as f32, f64 and integers as they are.
pub fn stored(tensor: &Tensor) -> ElemType {
    if tensor.elem == ElemType::F64 {
        ElemType::F64
    } else if tensor.elem.is_float() || tensor.codec.is_some() {
        ElemType::F32
    } else {
        tensor.elem
    }
}

pub enum Param<'a> {
    Tensor(&'a Tensor),
    Scales(&'a Tensor),
    ZeroPoints(&'a Tensor),
    Bytes(&'a Tensor),
    Null,
    Scalar(ScalarType, ScalarValue),
}

pub fn parameters<'a>(case: &'a Case, args: &[Arg]) -> Result<Vec<Param<'a>>, NoAnswer> {
    let tensor = |name: &String| {
        let found = case.tensors.iter().find(|tensor| tensor.name == *name);
        found.ok_or_else(|| {
            NoAnswer::Reference(format!(
                "the reference names `{name}`, which is not a tensor"
            ))
        })
    };
    args.iter()
        .map(|arg| match arg {
            Arg::Tensor { name } => tensor(name).map(Param::Tensor),
            Arg::Scales { tensor: name } => tensor(name).map(Param::Scales),
            Arg::ZeroPoints { tensor: name } => tensor(name).map(Param::ZeroPoints),
            Arg::Bytes { tensor: name } => tensor(name).map(Param::Bytes),
            Arg::Null => Ok(Param::Null),
            Arg::Scalar { elem, value } => Ok(Param::Scalar(*elem, *value)),
            Arg::Texture { .. }
            | Arg::Surface { .. }
            | Arg::Stream
            | Arg::Struct { .. }
            | Arg::Pad { .. } => Err(
                "a reference function takes tensors and scalars only: give a struct's fields one by one".into(),
            ),
        })
        .collect()
}

impl<'a> Param<'a> {
    pub fn output(&self) -> Option<&'a Tensor> {
        match self {
            Self::Tensor(tensor) if tensor.role.is_result() => Some(tensor),
            _ => None,
        }
    }

    fn c_type(&self) -> String {
        match self {
            Self::Tensor(tensor) => {
                let constant = if matches!(tensor.role, Role::In | Role::Reference) {
                    "const "
                } else {
                    ""
                };
                format!(
                    "{constant}{}*",
                    match stored(tensor) {
                        ElemType::I8 => "std::int8_t",
                        ElemType::U8 => "std::uint8_t",
                        ElemType::I16 => "std::int16_t",
                        ElemType::U16 => "std::uint16_t",
                        ElemType::I32 => "std::int32_t",
                        ElemType::U32 => "std::uint32_t",
                        ElemType::I64 => "std::int64_t",
                        ElemType::F64 => "double",
                        ElemType::F32
                        | ElemType::F16
                        | ElemType::Bf16
                        | ElemType::E4m3
                        | ElemType::E5m2 => "float",
                    }
                )
            }
            Self::Scales(_) => "const float*".to_owned(),
            Self::ZeroPoints(_) => "const std::int32_t*".to_owned(),
            Self::Bytes(_) => "const std::uint8_t*".to_owned(),
            Self::Null => "const void*".to_owned(),
            Self::Scalar(elem, _) => c_scalar(*elem).to_owned(),
        }
    }

    pub fn bytes(&self, inputs: &Inputs, view: View) -> Result<Vec<u8>, NoAnswer> {
        let data = |tensor: &Tensor| {
            inputs
                .tensors
                .get(&tensor.name)
                .ok_or_else(|| NoAnswer::Reference(format!("`{}` is not an input", tensor.name)))
        };
        let none = |tensor: &Tensor, what: &str| {
            NoAnswer::Reference(format!("`{}` has no {what}", tensor.name))
        };
        Ok(match self {
            Self::Tensor(tensor) if !tensor.role.is_drawn() => {
                poison::poison(stored(tensor), 1).repeat(tensor.len())
            }
            Self::Tensor(tensor) => elem::encode(stored(tensor), data(tensor)?.values(view))?,
            Self::Scales(tensor) => {
                let scales = data(tensor)?
                    .scales
                    .clone()
                    .ok_or_else(|| none(tensor, "scales"))?;
                elem::encode(ElemType::F32, &Values::F32(scales))?
            }
            Self::ZeroPoints(tensor) => {
                let zeros = data(tensor)?
                    .zero_points
                    .as_ref()
                    .ok_or_else(|| none(tensor, "zero points"))?;
                elem::encode(
                    ElemType::I32,
                    &Values::I64(zeros.iter().copied().map(i64::from).collect()),
                )?
            }
            Self::Bytes(tensor) => {
                let bytes = Layout::of(tensor).gather(tensor, &data(tensor)?.bytes);
                bytes.map_err(|wrong| wrong.to_string())?.into_owned()
            }
            Self::Null => Vec::new(),
            Self::Scalar(elem, value) => scalar_bytes(*elem, *value)?,
        })
    }
}

/// Host C++ has no 16-bit floats that every compiler knows: those come as `float`.
fn c_scalar(elem: ScalarType) -> &'static str {
    match elem {
        ScalarType::Bool => "bool",
        ScalarType::I8 => "std::int8_t",
        ScalarType::U8 => "std::uint8_t",
        ScalarType::I16 => "std::int16_t",
        ScalarType::U16 => "std::uint16_t",
        ScalarType::I32 => "std::int32_t",
        ScalarType::U32 => "std::uint32_t",
        ScalarType::I64 => "std::int64_t",
        ScalarType::U64 => "std::uint64_t",
        ScalarType::F16 | ScalarType::Bf16 | ScalarType::F32 => "float",
        ScalarType::F64 => "double",
    }
}

fn scalar_bytes(elem: ScalarType, value: ScalarValue) -> Result<Vec<u8>, NoAnswer> {
    let number = match value {
        ScalarValue::Int(value) => value as f64,
        ScalarValue::Float(Num(value)) => value,
    };
    let (low, high): (i128, i128) = match elem {
        ScalarType::F16 | ScalarType::Bf16 | ScalarType::F32 => {
            return Ok((number as f32).to_le_bytes().to_vec());
        }
        ScalarType::F64 => return Ok(number.to_le_bytes().to_vec()),
        ScalarType::Bool => (0, 1),
        ScalarType::I8 => (i8::MIN.into(), i8::MAX.into()),
        ScalarType::U8 => (0, u8::MAX.into()),
        ScalarType::I16 => (i16::MIN.into(), i16::MAX.into()),
        ScalarType::U16 => (0, u16::MAX.into()),
        ScalarType::I32 => (i32::MIN.into(), i32::MAX.into()),
        ScalarType::U32 => (0, u32::MAX.into()),
        ScalarType::I64 => (i64::MIN.into(), i64::MAX.into()),
        ScalarType::U64 => (0, u64::MAX.into()),
    };
    match value {
        ScalarValue::Int(value) if (low..=high).contains(&value.into()) => {
            Ok(value.to_le_bytes()[..elem.size()].to_vec())
        }
        _ => Err(NoAnswer::Reference(format!(
            "{number} is not a value of {}",
            c_scalar(elem)
        ))),
    }
}

pub fn generated_main(function: &str, params: &[Param]) -> Result<String, NoAnswer> {
    let identifier = function.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && function
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !identifier {
        return Err(NoAnswer::Reference(format!(
            "`{function}` is not the name of a C function"
        )));
    }
    let types: Vec<String> = params.iter().map(Param::c_type).collect();
    let values: Vec<String> = params
        .iter()
        .zip(&types)
        .enumerate()
        .map(|(at, (param, c_type))| match param {
            Param::Null => "nullptr".to_owned(),
            Param::Scalar(..) => format!("*reinterpret_cast<const {c_type}*>(args[{at}].data)"),
            Param::Tensor(_) | Param::Scales(_) | Param::ZeroPoints(_) | Param::Bytes(_) => {
                format!("reinterpret_cast<{c_type}>(args[{at}].data)")
            }
        })
        .collect();
    let mut text = format!(
        r#"#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" void {function}({});

namespace {{
struct Argument {{ unsigned char* data; std::uint64_t size; }};
constexpr std::size_t guard = {GUARD};

[[noreturn]] void fail(const char* what, std::size_t argument) {{
    std::fprintf(stderr, "argument %zu: %s\n", argument + 1, what);
    std::exit(3);
}}

Argument take(std::FILE* file, std::size_t argument) {{
    Argument taken{{nullptr, 0}};
    if (std::fread(&taken.size, sizeof taken.size, 1, file) != 1) fail("not there", argument);
    // A multiple of the alignment, as aligned_alloc wants it.
    const std::size_t whole = (taken.size + guard + 63) / 64 * 64;
    taken.data = static_cast<unsigned char*>(std::aligned_alloc(64, whole));
    if (!taken.data) fail("no memory", argument);
    std::memset(taken.data + taken.size, 0xc5, guard);
    if (std::fread(taken.data, 1, taken.size, file) != taken.size) fail("cut short", argument);
    return taken;
}}

void put(std::FILE* file, const Argument& given, std::size_t argument) {{
    if (std::fwrite(given.data, 1, given.size, file) != given.size) fail("cannot be written back", argument);
}}
}}

int main(int, char** argv) {{
    std::FILE* in = std::fopen(argv[1], "rb");
    if (!in) fail("no input file", 0);
    Argument args[{}];
    for (std::size_t i = 0; i < {}; ++i) args[i] = take(in, i);
    {function}({});
    for (std::size_t i = 0; i < {}; ++i)
        for (std::size_t j = 0; j < guard; ++j)
            if (args[i].data[args[i].size + j] != 0xc5) fail("the function wrote beyond its end", i);
    std::FILE* out = std::fopen(argv[2], "wb");
    if (!out) fail("no output file", 0);
"#,
        types.join(", "),
        params.len().max(1),
        params.len(),
        values.join(", "),
        params.len(),
    );
    for (at, _) in params
        .iter()
        .enumerate()
        .filter(|(_, param)| param.output().is_some())
    {
        // Writing to a String does not fail.
        let _ = writeln!(text, "    put(out, args[{at}], {at});");
    }
    text.push_str(
        "    if (std::fclose(out) != 0) fail(\"no room for the output\", 0);\n    return 0;\n}\n",
    );
    Ok(text)
}
