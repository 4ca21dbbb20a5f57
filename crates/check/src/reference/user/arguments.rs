//! Describes the arguments of a user's function: their C types, their bytes, and the `main` that passes them.

use crate::inputs::{Inputs, View};
use crate::layout::Layout;
use crate::reference::NoAnswer;
use crate::{Values, elem, poison};
use model::{Arg, Case, ElemType, Num, Number, Role, ScalarType, ScalarValue, Tensor};
use std::fmt::Write as _;

/// The number of bytes behind each argument that the function must not touch.
const GUARD: usize = 64;

/// Returns the type in which the function gets a tensor: floats and whatever has a codec as f32, f64 and integers as
/// they are.
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
            | Arg::TensorMap { .. }
            | Arg::Stream
            | Arg::Struct { .. }
            | Arg::Pad { .. }
            | Arg::Raw { .. } => Err(
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
                format!("{constant}{}*", stored(tensor).number().host_type())
            }
            Self::Scales(_) => "const float*".to_owned(),
            Self::ZeroPoints(_) => "const std::int32_t*".to_owned(),
            Self::Bytes(_) => "const std::uint8_t*".to_owned(),
            Self::Null => "const void*".to_owned(),
            Self::Scalar(elem, _) => elem.number().host_type(),
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
            Self::Bytes(tensor) => Layout::new(tensor)
                .gather(tensor, &data(tensor)?.bytes)
                .map_err(|wrong| NoAnswer::Reference(wrong.to_string()))?
                .into_owned(),
            Self::Null => Vec::new(),
            Self::Scalar(elem, value) => scalar_bytes(*elem, *value)?,
        })
    }
}

fn scalar_bytes(elem: ScalarType, value: ScalarValue) -> Result<Vec<u8>, NoAnswer> {
    let number = match value {
        ScalarValue::Int(value) => value as f64,
        ScalarValue::Float(Num(value)) => value,
    };
    let range = match (elem.number(), value) {
        (Number::Float(8), _) => return Ok(number.to_le_bytes().to_vec()),
        (Number::Float(_), _) => return Ok((number as f32).to_le_bytes().to_vec()),
        (kind, ScalarValue::Int(value)) => kind.range().map(|range| (range, value)),
        (_, ScalarValue::Float(_)) => None,
    };
    match range {
        Some(((low, high), value)) if (low..=high).contains(&value) => {
            Ok(value.to_le_bytes()[..elem.size()].to_vec())
        }
        _ => Err(NoAnswer::Reference(format!(
            "{number} is not a value of {}",
            elem.number().host_type()
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
