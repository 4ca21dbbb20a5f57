//! Encodes tensor maps. Only the driver knows how the hardware reads them.

use super::error::{check, checked};
use crate::device::{Address, Failure, MapBytes, Result};
use cudarc::driver::sys;
use model::{Boxes, FaultKind, MapElement, Swizzle, TensorMap, Unsupported};

/// The first driver that makes tensor maps, as `cuDriverGetVersion` has it.
const FIRST_DRIVER: i32 = 12_000;

/// Encodes a map of the tensor at an address.
///
/// # Errors
/// `Unsupported` if the driver is too old; `LaunchRefused` if it refuses this map.
pub fn encode(at: Address, map: &TensorMap) -> Result<MapBytes> {
    let mut version = 0;
    // SAFETY: the driver writes the number.
    check("cuDriverGetVersion", unsafe {
        sys::cuDriverGetVersion(&raw mut version)
    })?;
    if version < FIRST_DRIVER {
        return Err(Failure::Unsupported(Unsupported::DriverLacks {
            problem: "the driver is older than CUDA 12.0 and makes no tensor maps".to_owned(),
        }));
    }
    let rank = map.extents.len();
    let boxes_fit = match &map.boxes {
        Boxes::Tiled(extents) => (1..=5).contains(&rank) && extents.len() == rank,
        Boxes::Im2col(boxes) => {
            (3..=5).contains(&rank) && [boxes.lower.len(), boxes.upper.len()] == [rank - 2; 2]
        }
    };
    let fits = boxes_fit && map.strides.len() + 1 == rank && map.steps.len() == rank;
    if !fits {
        return Err(Failure::case_alone(
            FaultKind::LaunchRefused,
            format!("a tensor map with unlike numbers of dimensions: {map:?}"),
        ));
    }
    // SAFETY: plain data; all zeros are a value of it.
    let mut encoded: sys::CUtensorMap = unsafe { std::mem::zeroed() };
    let interleave = sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE;
    // This is only a hint: whole lines of L2 are read, for tiles that others read next.
    let promotion = sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    let code = match &map.boxes {
        // SAFETY: each list has as many values as the driver reads for this rank; memory is not touched.
        Boxes::Tiled(extents) => unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut encoded,
                data_type(map.element),
                rank as u32,
                at as *mut std::ffi::c_void,
                map.extents.as_ptr(),
                map.strides.as_ptr(),
                extents.as_ptr(),
                map.steps.as_ptr(),
                interleave,
                swizzle(map.swizzle),
                promotion,
                fill(map.fills_nan),
            )
        },
        // SAFETY: as above; corners have a value for each dimension but two.
        Boxes::Im2col(boxes) => unsafe {
            sys::cuTensorMapEncodeIm2col(
                &raw mut encoded,
                data_type(map.element),
                rank as u32,
                at as *mut std::ffi::c_void,
                map.extents.as_ptr(),
                map.strides.as_ptr(),
                boxes.lower.as_ptr(),
                boxes.upper.as_ptr(),
                boxes.channels,
                boxes.pixels,
                map.steps.as_ptr(),
                interleave,
                swizzle(map.swizzle),
                promotion,
                fill(map.fills_nan),
            )
        },
    };
    checked("the tensor map", code, FaultKind::LaunchRefused)?;
    let mut bytes = [0; 128];
    let words = encoded.opaque.iter().flat_map(|word| word.to_ne_bytes());
    bytes
        .iter_mut()
        .zip(words)
        .for_each(|(to, from)| *to = from);
    Ok(bytes)
}

fn data_type(element: MapElement) -> sys::CUtensorMapDataType {
    use sys::CUtensorMapDataType as Type;
    match element {
        MapElement::U8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        MapElement::U16 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        MapElement::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        MapElement::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        MapElement::U64 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        MapElement::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        MapElement::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        MapElement::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        MapElement::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        MapElement::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        MapElement::Tf32 => Type::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    }
}

fn swizzle(swizzle: Swizzle) -> sys::CUtensorMapSwizzle {
    use sys::CUtensorMapSwizzle as Driver;
    match swizzle {
        Swizzle::None => Driver::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::Bytes32 => Driver::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::Bytes64 => Driver::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::Bytes128 => Driver::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}

fn fill(nan: bool) -> sys::CUtensorMapFloatOOBfill {
    use sys::CUtensorMapFloatOOBfill as Fill;
    if nan {
        Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
    } else {
        Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
    }
}
