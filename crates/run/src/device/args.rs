//! Packs the arguments of a call into bytes, laid out as C does it. Pure.

use super::{Address, Failure, MapBytes, Result};
use model::{Arg, FaultKind, ScalarType, ScalarValue};

/// One argument by value. It is kept in words, because a launcher reads it through a typed pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedArg {
    words: Vec<u64>,
    bytes: usize,
}

impl PackedArg {
    fn new(bytes: &[u8]) -> Self {
        let words = bytes
            .chunks(8)
            .map(|chunk| {
                let mut word = [0; 8];
                word.iter_mut()
                    .zip(chunk)
                    .for_each(|(to, from)| *to = *from);
                u64::from_ne_bytes(word)
            })
            .collect();
        Self {
            words,
            bytes: bytes.len(),
        }
    }

    /// Returns a pointer to the bytes, aligned to 8 bytes.
    pub fn as_ptr(&self) -> *const u64 {
        self.words.as_ptr()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        bytes.truncate(self.bytes);
        bytes
    }
}

/// Resolves the pointers of a case to addresses.
pub trait Pointers {
    fn tensor(&self, name: &str) -> Option<Address>;
    fn scales(&self, tensor: &str) -> Option<Address>;
    fn zero_points(&self, tensor: &str) -> Option<Address>;
    /// Returns the handle of a texture or a surface.
    fn object(&self, arg: &Arg) -> Option<u64>;
    fn tensor_map(&self, arg: &Arg) -> Option<MapBytes>;
    fn stream(&self) -> u64;
}

/// Packs arguments.
///
/// # Errors
/// `LaunchRefused`, if an argument names nothing or its value does not fit its type.
pub fn pack(args: &[Arg], pointers: &dyn Pointers) -> Result<Vec<PackedArg>> {
    args.iter()
        .map(|arg| encode(arg, pointers).map(|field| PackedArg::new(&field.bytes)))
        .collect()
}

/// Returns the bytes of each argument, not of what it points to. An argument that cannot be passed at all has 0.
pub fn sizes(args: &[Arg]) -> Vec<usize> {
    struct Anywhere;
    impl Pointers for Anywhere {
        fn tensor(&self, _: &str) -> Option<Address> {
            Some(0)
        }
        fn scales(&self, _: &str) -> Option<Address> {
            Some(0)
        }
        fn zero_points(&self, _: &str) -> Option<Address> {
            Some(0)
        }
        fn object(&self, _: &Arg) -> Option<u64> {
            Some(0)
        }
        fn tensor_map(&self, _: &Arg) -> Option<MapBytes> {
            Some([0; 128])
        }
        fn stream(&self) -> u64 {
            0
        }
    }
    args.iter()
        .map(|arg| encode(arg, &Anywhere))
        .map(|field| field.map_or(0, |field| field.bytes.len()))
        .collect()
}

/// The alignment of a tensor map as CUDA 12 declares it. The driver and the PTX say where each parameter is.
const MAP_ALIGN: usize = 64;

struct Field {
    bytes: Vec<u8>,
    align: usize,
}

impl Field {
    /// Aligns a scalar or pointer to its own size.
    fn natural(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            align: bytes.len(),
        }
    }
}

fn encode(arg: &Arg, pointers: &dyn Pointers) -> Result<Field> {
    let pointer = |address: Option<Address>, what: &str, name: &str| {
        address
            .map(|address| Field::natural(&address.to_ne_bytes()))
            .ok_or_else(|| {
                refused(format!(
                    "an argument asks for {what} of `{name}`, which has none"
                ))
            })
    };
    match arg {
        Arg::Tensor { name } => pointer(pointers.tensor(name), "the data", name),
        Arg::Scales { tensor } => pointer(pointers.scales(tensor), "the scales", tensor),
        Arg::ZeroPoints { tensor } => {
            pointer(pointers.zero_points(tensor), "the zero points", tensor)
        }
        Arg::Texture { tensor, .. } => pointer(pointers.object(arg), "a texture", tensor),
        Arg::Surface { tensor, .. } => pointer(pointers.object(arg), "a surface", tensor),
        Arg::TensorMap { tensor, .. } => match pointers.tensor_map(arg) {
            Some(map) => Ok(Field {
                bytes: map.to_vec(),
                align: MAP_ALIGN,
            }),
            None => Err(refused(format!(
                "an argument asks for a tensor map of `{tensor}`, which has none"
            ))),
        },
        Arg::Bytes { tensor } => Err(refused(format!(
            "the bytes of `{tensor}` are for references alone"
        ))),
        Arg::Null => Ok(Field::natural(&0u64.to_ne_bytes())),
        Arg::Stream => Ok(Field::natural(&pointers.stream().to_ne_bytes())),
        Arg::Scalar { elem, value } => scalar(*elem, *value).map(|bytes| Field::natural(&bytes)),
        Arg::Struct { fields } => {
            let mut bytes = Vec::new();
            let mut align = 1;
            for field in fields {
                let field = encode(field, pointers)?;
                bytes.resize(bytes.len().next_multiple_of(field.align), 0);
                bytes.extend(field.bytes);
                align = align.max(field.align);
            }
            // C++ gives an empty struct the size 1.
            bytes.resize(bytes.len().max(1).next_multiple_of(align), 0);
            Ok(Field { bytes, align })
        }
        Arg::Raw { bytes } => {
            let pairs = bytes.as_bytes().chunks(2);
            let byte = |pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
            let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
            let bytes = bytes.ok_or_else(|| refused("an argument has no bytes".to_owned()))?;
            Ok(Field { bytes, align: 1 })
        }
        Arg::Pad { bytes } => Ok(Field {
            bytes: vec![0; *bytes as usize],
            align: 1,
        }),
    }
}

fn scalar(elem: ScalarType, value: ScalarValue) -> Result<Vec<u8>> {
    let misfit = || {
        refused(format!(
            "{value:?} does not fit an argument of type {elem:?}"
        ))
    };
    let float = match value {
        ScalarValue::Int(int) => int as f64,
        ScalarValue::Float(float) => float.0,
    };
    match elem {
        ScalarType::F16 => Ok(half::f16::from_f64(float).to_ne_bytes().to_vec()),
        ScalarType::Bf16 => Ok(half::bf16::from_f64(float).to_ne_bytes().to_vec()),
        ScalarType::F32 => Ok((float as f32).to_ne_bytes().to_vec()),
        ScalarType::F64 => Ok(float.to_ne_bytes().to_vec()),
        _ => match (elem.number().range(), value) {
            (Some((low, high)), ScalarValue::Int(int)) if (low..=high).contains(&int) => {
                Ok(int.to_le_bytes()[..elem.size()].to_vec())
            }
            _ => Err(misfit()),
        },
    }
}

fn refused(message: String) -> Failure {
    Failure::case_alone(FaultKind::LaunchRefused, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Boxes, MapElement, Num, Swizzle, TensorMap};

    struct Fixed;
    impl Pointers for Fixed {
        fn tensor(&self, name: &str) -> Option<Address> {
            (name == "x").then_some(0x1122_3344_5566_7788)
        }
        fn scales(&self, tensor: &str) -> Option<Address> {
            (tensor == "x").then_some(0x100)
        }
        fn zero_points(&self, _: &str) -> Option<Address> {
            None
        }
        fn object(&self, arg: &Arg) -> Option<u64> {
            matches!(arg, Arg::Surface { tensor, .. } if tensor == "x").then_some(0x55)
        }
        fn tensor_map(&self, arg: &Arg) -> Option<MapBytes> {
            matches!(arg, Arg::TensorMap { tensor, .. } if tensor == "x").then_some([0x77; 128])
        }
        fn stream(&self) -> u64 {
            7
        }
    }

    fn int(elem: ScalarType, value: i64) -> Arg {
        Arg::Scalar {
            elem,
            value: ScalarValue::Int(value),
        }
    }

    fn float(elem: ScalarType, value: f64) -> Arg {
        Arg::Scalar {
            elem,
            value: ScalarValue::Float(Num(value)),
        }
    }

    fn bytes(arg: Arg) -> Vec<u8> {
        pack(&[arg], &Fixed).unwrap()[0].bytes()
    }

    #[test]
    fn scalars_have_their_c_size() {
        assert_eq!(bytes(int(ScalarType::Bool, 1)), [1]);
        assert_eq!(bytes(int(ScalarType::I16, -2)), [0xfe, 0xff]);
        assert_eq!(bytes(int(ScalarType::I64, -1)), [0xff; 8]);
        assert_eq!(bytes(float(ScalarType::F32, 0.125)), 0.125f32.to_le_bytes());
        assert_eq!(bytes(int(ScalarType::F64, 3)), 3f64.to_le_bytes());
        assert_eq!(bytes(float(ScalarType::F16, 1.0)), [0x00, 0x3c]);
        assert_eq!(bytes(float(ScalarType::Bf16, 1.0)), [0x80, 0x3f]);
        assert_eq!(bytes(Arg::Stream), 7u64.to_le_bytes());
    }

    #[test]
    fn arguments_that_do_not_fit_are_refused() {
        for arg in [
            int(ScalarType::I8, 128),
            int(ScalarType::U32, -1),
            int(ScalarType::Bool, 2),
            float(ScalarType::I32, 1.0),
            Arg::Tensor { name: "y".into() },
            Arg::ZeroPoints { tensor: "x".into() },
        ] {
            assert!(
                matches!(
                    pack(std::slice::from_ref(&arg), &Fixed),
                    Err(Failure::Fault { sticky: false, .. })
                ),
                "{arg:?}"
            );
        }
    }

    /// Packs `struct { uint8_t a; double b; struct { float x; int16_t y; } c; uint8_t d; const float* e; }`.
    #[test]
    fn structs_are_laid_out_as_c_does() {
        let arg = Arg::Struct {
            fields: vec![
                int(ScalarType::U8, 1),
                float(ScalarType::F64, 2.0),
                Arg::Struct {
                    fields: vec![float(ScalarType::F32, 3.0), int(ScalarType::I16, 4)],
                },
                int(ScalarType::U8, 5),
                Arg::Tensor { name: "x".into() },
            ],
        };
        let bytes = bytes(arg);
        assert_eq!(bytes.len(), 40);
        assert_eq!(bytes[0], 1);
        assert_eq!(bytes[8..16], 2f64.to_le_bytes());
        assert_eq!(bytes[16..20], 3f32.to_le_bytes());
        assert_eq!(bytes[20..22], 4i16.to_le_bytes());
        assert_eq!(bytes[24], 5);
        assert_eq!(bytes[32..40], 0x1122_3344_5566_7788u64.to_le_bytes());
    }

    #[test]
    fn a_tensor_map_is_passed_by_value() {
        let map = TensorMap {
            element: MapElement::F32,
            extents: vec![4],
            strides: Vec::new(),
            boxes: Boxes::Tiled(vec![4]),
            steps: vec![1],
            swizzle: Swizzle::None,
            fills_nan: false,
        };
        let arg = |name: &str| Arg::TensorMap {
            tensor: name.to_owned(),
            map: map.clone(),
        };
        assert_eq!(bytes(arg("x")), [0x77; 128]);
        assert_eq!(sizes(&[arg("x")]), [128]);
        assert!(pack(&[arg("y")], &Fixed).is_err());
    }

    #[test]
    fn padding_moves_the_fields_after_it() {
        let arg = Arg::Struct {
            fields: vec![
                int(ScalarType::U8, 1),
                Arg::Pad { bytes: 3 },
                int(ScalarType::U8, 2),
            ],
        };
        assert_eq!(bytes(arg), [1, 0, 0, 0, 2]);
    }
}
