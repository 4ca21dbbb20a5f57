//! Tensor maps: the parameters that the driver gets, and maps that it would refuse.

use super::accepted;
use model::{Arg, Boxes, Im2col, MapElement, Swizzle, TensorMap};

/// A file with these tensors, and a tensor map of these keys as the first argument.
fn with_map(tensors: &[&str], keys: &str) -> String {
    format!(
        "version: 1\narchitectures: [sm_90]\nkernels:\n  k:\n    source: k.cu\n    entry: k\n    \
         define: {{TILE: 16}}\n    shapes: {{one: {{B: 2, H: 3, S: 77, D: 64}}}}\n    tensors:\n      {}\n      \
         y: {{role: out, type: f32, shape: [S]}}\n    args:\n      - tensor_map: {{{keys}}}\n      \
         - {{tensor: y}}\n    launch: {{grid: [1], block: [32]}}\n    reference: none\n    gates: {{max_err: 1}}\n",
        tensors.join("\n      "),
    )
}

fn map(tensor: &str, keys: &str) -> TensorMap {
    let resolved = accepted(&with_map(&[tensor], keys));
    match &resolved.plan.cases[0].steps[0].args[0] {
        Arg::TensorMap { tensor, map } if tensor == "x" => map.clone(),
        other => panic!("{other:?}"),
    }
}

const HALVES: &str = "x: {type: f16, shape: [B, H, S, D]}";

#[test]
fn the_driver_gets_the_innermost_dimension_first_and_strides_in_bytes() {
    assert_eq!(
        map(HALVES, "tensor: x, box: [1, 1, TILE, D], swizzle: 128"),
        TensorMap {
            element: MapElement::F16,
            extents: vec![64, 77, 3, 2],
            strides: vec![128, 77 * 128, 3 * 77 * 128],
            boxes: Boxes::Tiled(vec![64, 16, 1, 1]),
            steps: vec![1; 4],
            swizzle: Swizzle::Bytes128,
            fills_nan: false,
        }
    );
    assert_eq!(
        map(
            HALVES,
            "tensor: x, shape: [B * H, S, D], box: [1, TILE * 4, D / 2], steps: [1, 2, 1], swizzle: 64, fill: nan"
        ),
        TensorMap {
            element: MapElement::F16,
            extents: vec![64, 77, 6],
            strides: vec![128, 77 * 128],
            boxes: Boxes::Tiled(vec![32, 64, 1]),
            steps: vec![1, 2, 1],
            swizzle: Swizzle::Bytes64,
            fills_nan: true,
        }
    );
    assert_eq!(
        map(
            "x: {type: f32, shape: [S, 3], strides: [4, 1]}",
            "tensor: x, box: [8, 4], fill: zeros"
        ),
        TensorMap {
            element: MapElement::F32,
            extents: vec![3, 77],
            strides: vec![16],
            boxes: Boxes::Tiled(vec![4, 8]),
            steps: vec![1, 1],
            swizzle: Swizzle::None,
            fills_nan: false,
        }
    );
}

#[test]
fn im2col_takes_the_place_of_a_box() {
    assert_eq!(
        map(
            "x: {type: f16, shape: [B, S, H, D]}",
            "tensor: x, im2col: {lower: [-1, 2], upper: [1 - B, 0], channels: D, pixels: TILE * 8}, steps: [1, 2, 1, 1], swizzle: 128"
        ),
        TensorMap {
            element: MapElement::F16,
            extents: vec![64, 3, 77, 2],
            strides: vec![128, 3 * 128, 77 * 3 * 128],
            boxes: Boxes::Im2col(Im2col {
                lower: vec![2, -1],
                upper: vec![0, -1],
                channels: 64,
                pixels: 128,
            }),
            steps: vec![1, 1, 2, 1],
            swizzle: Swizzle::Bytes128,
            fills_nan: false,
        }
    );
}

#[test]
fn the_element_follows_from_the_type_of_the_tensor() {
    for (elem, element) in [
        ("f64", MapElement::F64),
        ("f32", MapElement::F32),
        ("f16", MapElement::F16),
        ("bf16", MapElement::Bf16),
        ("e4m3", MapElement::U8),
        ("e5m2", MapElement::U8),
        ("i8", MapElement::U8),
        ("u8", MapElement::U8),
        ("i16", MapElement::U16),
        ("u16", MapElement::U16),
        ("i32", MapElement::I32),
        ("u32", MapElement::U32),
        ("i64", MapElement::I64),
    ] {
        let fill = match elem {
            "i8" | "u8" | "i16" | "u16" | "i32" | "u32" | "i64" => ", fill: iota",
            _ => "",
        };
        let tensor = format!("x: {{type: {elem}, shape: [D]{fill}}}");
        assert_eq!(map(&tensor, "tensor: x, box: [TILE]").element, element);
    }
}
