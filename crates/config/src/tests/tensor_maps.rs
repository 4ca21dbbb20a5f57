//! Tensor maps: the parameters that the driver gets, and maps that it would refuse.

use super::{accepted, said_of};
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
fn maps_of_im2col_that_the_driver_refuses() {
    let right = "lower: [-1, -1], upper: [-1, -1], channels: D, pixels: TILE";
    let keys = |old: &str, new: &str| {
        assert!(right.contains(old));
        format!("tensor: x, im2col: {{{}}}", right.replacen(old, new, 1))
    };
    for (keys, expected) in [
        (
            "tensor: x".to_owned(),
            "a map needs a `box`, or `im2col` in its place",
        ),
        (
            keys("", "") + ", box: [1, 1, 1, D]",
            ".im2col: a map has either a `box` or `im2col`, not both",
        ),
        (
            keys("lower: [-1, -1]", "lower: [-1]"),
            ".im2col.lower: `lower` has 1 of 2 items, none for images and channels",
        ),
        (
            keys("upper: [-1, -1]", "upper: [-1, 128]"),
            ".im2col.upper[1]: the offset is 128; it must be between -128 and 127",
        ),
        (
            keys("channels: D", "channels: 4"),
            ".im2col.channels: a pixel has 8 bytes; TMA needs a multiple of 16",
        ),
        (
            keys("pixels: TILE", "pixels: 1025"),
            ".im2col.pixels: the number is 1025; it must be between 1 and 1024",
        ),
        (
            keys("", "") + ", swizzle: 64",
            ".im2col.channels: a pixel has 128 bytes; with swizzle: 64 it has at most 64",
        ),
        (
            keys("", "") + ", shape: [B * H * S, D]",
            ".im2col: im2col takes 3 to 5 dimensions, not 2",
        ),
    ] {
        let said = said_of(&with_map(&[HALVES], &keys));
        assert!(said.contains(expected), "{said}");
        assert!(said.contains("kernels.k.args[0].tensor_map"), "{said}");
    }
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

#[test]
fn maps_that_the_driver_refuses() {
    for (tensor, keys, expected) in [
        (
            HALVES,
            "tensor: z, box: [1, 1, TILE, D]",
            "30: AT.tensor: unknown tensor `z`\n  help: there are `x`, `y`",
        ),
        (
            HALVES,
            "tensor: x, box: [1, TILE, D]",
            "38: AT.box: `box` has 3 of 4 items, one for each dimension of the map (at shape `one`)",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 1, TIL, D]",
            "45: AT.box[2]: `TIL` is neither a dimension nor a macro under `define` (at shape `one`)\n  help: did you mean `TILE`?\n  help: declare it as a dimension of every shape, or as a macro: define: {TIL: ...}",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 1, \"TILE * 17\", D]",
            "45: AT.box[2]: the extent is 272; it must be between 1 and 256 (at shape `one`)",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 1, 0, D]",
            "45: AT.box[2]: the extent is 0; it must be between 1 and 256 (at shape `one`)",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 1, TILE, 4]",
            "51: AT.box[3]: a row of the box has 8 bytes; TMA needs a multiple of 16 (at shape `one`)",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 1, TILE, D], swizzle: 64",
            "51: AT.box[3]: a row of the box has 128 bytes; with swizzle: 64 it has at most 64 (at shape `one`)\n  help: copy wider rows as several boxes",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 1, TILE, D], swizzle: 16",
            "64: AT.swizzle: 16 is no swizzle: there are 32, 64 and 128 bytes\n  help: without a swizzle, leave the key out",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 1, TILE, D], fill: none",
            "61: AT.fill: unknown name `none`\n  help: there are `zeros`, `nan`",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 1, TILE, D], steps: [1, 1, 9, 1]",
            "69: AT.steps[2]: the step is 9; it must be between 1 and 8 (at shape `one`)",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 1, TILE, D], steps: [1, 1, 1, 2]",
            "72: AT.steps[3]: the step of the innermost dimension is 2; TMA has none there but 1 (at shape `one`)",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 1, TILE, D], steps: [1]",
            "62: AT.steps: `steps` has 1 of 4 items, one for each dimension of the map (at shape `one`)",
        ),
        (
            HALVES,
            "tensor: x, box: [TILE, D], shape: [B * S, D]",
            "56: AT.shape: the shape [154, 64] has 9856 elements, and `x` has 29568 (at shape `one`)",
        ),
        (
            HALVES,
            "tensor: x, box: [1], shape: []",
            "50: AT.shape: a tensor map has 1 to 5 dimensions, not 0 (at shape `one`)\n  help: shape: [B * H, S, D] joins dimensions of a contiguous tensor",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 8], shape: [B * H * D, S]",
            "53: AT.shape: the stride of dimension 0 of `x` is 154 bytes; TMA needs a multiple of 16 below 2^40 (at shape `one`)",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 1, 1, 1, 1, 8], shape: [1, 1, B, H, S, D]",
            "65: AT.shape: a tensor map has 1 to 5 dimensions, not 6 (at shape `one`)\n  help: shape: [B * H, S, D] joins dimensions of a contiguous tensor",
        ),
        (
            HALVES,
            "tensor: x, box: [1, 8], shape: [0, S]",
            "54: AT.shape[0]: the extent is 0; it must be between 1 and 4294967296 (at shape `one`)",
        ),
        (
            "x: {type: f16, shape: [S, 5]}",
            "tensor: x, box: [1, 8]",
            "30: AT.tensor: the stride of dimension 0 of `x` is 10 bytes; TMA needs a multiple of 16 below 2^40 (at shape `one`)",
        ),
        (
            "x: {type: f16, shape: []}",
            "tensor: x, box: []",
            "30: AT.tensor: a tensor map has 1 to 5 dimensions, not 0 (at shape `one`)\n  help: shape: [B * H, S, D] joins dimensions of a contiguous tensor",
        ),
        (
            "x: {type: f16, shape: [S, D], strides: [128, 2]}",
            "tensor: x, box: [1, 8]",
            "30: AT.tensor: the last stride of `x` is not 1: to TMA the elements of a row lie side by side (at shape `one`)",
        ),
        (
            "x: {type: f16, shape: [S, D], strides: [72, 1]}",
            "tensor: x, box: [8], shape: [S * D]",
            "50: AT.shape: `x` has strides, and only a contiguous tensor has other shapes (at shape `one`)",
        ),
        (
            "x: {type: e4m3, shape: [S, D]}",
            "tensor: x, box: [1, D], fill: nan",
            "52: AT.fill: `x` holds e4m3, and TMA fills floats of 16, 32 and 64 bits alone with NaN",
        ),
    ] {
        let expected = expected.replace("AT", "kernels.k.args[0].tensor_map");
        assert_eq!(
            said_of(&with_map(&[tensor], keys)),
            format!("gates.yaml:13:{expected}"),
            "{keys}"
        );
    }
}

#[test]
fn only_a_kernel_takes_a_tensor_map() {
    let right = with_map(&[HALVES], "tensor: x, box: [1, 1, TILE, D]");
    let line = "- tensor_map: {tensor: x, box: [1, 1, TILE, D]}";
    let other = |old: &str, new: &str| {
        assert!(right.contains(old));
        said_of(&right.replace(old, new))
    };
    assert_eq!(
        other(
            line,
            "- struct: [{i32: 1}, {tensor_map: {tensor: x, box: [1, 1, TILE, D]}}]"
        ),
        "gates.yaml:13:28: kernels.k.args[0].struct[1]: a tensor map is a parameter of its own, and no field of a struct"
    );
    assert_eq!(
        other(
            "reference: none",
            "reference: {user: {source: r.cpp, function: f, args: [{tensor_map: {tensor: x, box: [1]}}, {tensor: y}]}}"
        ),
        "gates.yaml:16:59: kernels.k.reference.user.args[0]: a reference takes the `tensor`, and no tensor map"
    );
    let launcher = right
        .replace(
            "    entry: k\n",
            "    launcher: {function: f, launches: [{entry: k}]}\n",
        )
        .replace("    launch: {grid: [1], block: [32]}\n", "")
        .replace(
            "      - {tensor: y}\n",
            "      - {tensor: y}\n      - stream\n",
        );
    assert_eq!(
        said_of(&launcher),
        "gates.yaml:13:9: kernels.k.args[0]: a launcher cannot take a tensor map\n  help: pass the tensor, and make the map in the launcher; or call the kernel itself, by `entry`"
    );
}
