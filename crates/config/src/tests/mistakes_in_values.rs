//! Expressions, tensors and arguments.

use super::{check, said_of, with};

#[test]
fn wrong_expressions_are_refused() {
    mistakes! {
        "block: [TILE]" => "block: [TIL]",
            "gates.yaml:18:51: kernels.scale.launch.block[0]: `TIL` is neither a dimension nor a macro under `define` (at shape `small`)\n  help: did you mean `TILE`?\n  help: declare it as a dimension of every shape, or as a macro: define: {TIL: ...}";
        "block: [TILE]" => "block: [MODE]",
            "gates.yaml:18:51: kernels.scale.launch.block[0]: the macro `MODE` is `fast`, which is not an integer (at shape `small`)";
        "block: [TILE]" => "block: [WIDE]",
            "gates.yaml:18:51: kernels.scale.launch.block[0]: `WIDE` is neither a dimension nor a macro under `define` (at shape `small`)\n  help: there are `N`, `TILE`\n  help: declare it as a dimension of every shape, or as a macro: define: {WIDE: ...}";
        "block: [TILE]" => "block: [\"TILE *\"]",
            "gates.yaml:18:58: kernels.scale.launch.block[0]: `TILE *`: a number or a name is missing";
        "block: [TILE]" => "block: [TILE * 32]",
            "gates.yaml:18:51: kernels.scale.launch.block[0]: block x is 2048; it must be between 1 and 1024 (at shape `small`)";
        "block: [TILE]" => "block: [TILE, 1, 65]",
            "gates.yaml:18:60: kernels.scale.launch.block[2]: block z is 65; it must be between 1 and 64 (at shape `small`)";
        "block: [TILE]" => "block: []",
            "gates.yaml:18:50: kernels.scale.launch.block: a block has one to three extents, not 0";
    }
    let quote =
        "a comma ends an item of a list: quote an expression that has one, as \"ceil_div(a, b)\"";
    mistakes! {
        "\"ceil_div(N, TILE)\"" => "ceil_div(N, TILE)",
            &format!(
                "gates.yaml:18:31: kernels.scale.launch.grid[0]: `ceil_div(N`: `)` is missing\n  help: {quote}"
            );
        "\"ceil_div(N, TILE)\"" => "ceil_div(N, TILE), ceil_div(N, TILE)",
            &format!(
                "gates.yaml:18:31: kernels.scale.launch.grid[0]: `ceil_div(N`: `)` is missing\n  help: {quote}"
            );
        "\"ceil_div(N, TILE)\"" => "N / 100",
            "gates.yaml:18:21: kernels.scale.launch.grid[0]: 1.28 is not a whole number (at shape `small`)\n  help: round up with ceil_div(a, b)";
        "\"ceil_div(N, TILE)\"" => "1, 65536",
            "gates.yaml:18:24: kernels.scale.launch.grid[1]: grid y is 65536; it must be between 1 and 65535 (at shape `small`)";
        "\"ceil_div(N, TILE)\"" => "\"ceil_div(N, 0)\"",
            "gates.yaml:18:21: kernels.scale.launch.grid[0]: ceil_div needs a divisor of at least 1, got 0 (at shape `small`)";
        "\"ceil_div(N, TILE)\"" => "9223372036854775807 * N",
            "gates.yaml:18:21: kernels.scale.launch.grid[0]: * overflows 64 bits (at shape `small`)";
        "block: [TILE]}" => "block: [TILE], cluster: [3]}",
            "gates.yaml:18:67: kernels.scale.launch.cluster: the grid [2, 1, 1] is not a multiple of the cluster [3, 1, 1] (at shape `small`)";
        "block: [TILE]}" => "block: [TILE], dynamic_shared: -4}",
            "gates.yaml:18:74: kernels.scale.launch.dynamic_shared: dynamic shared memory is -4; it must be between 0 and 4294967295 (at shape `small`)";
        "{i32: N}" => "{i8: N}",
            "gates.yaml:17:43: kernels.scale.args[2].i8: the argument is 128; it must be between -128 and 127 (at shape `small`)";
        "{f32: 0.5}" => "{f16: 1e5}",
            "gates.yaml:17:54: kernels.scale.args[3].f16: 100000 is out of range: the largest value of the type is 65504 (at shape `small`)";
        "{f32: 0.5}" => "{f32: N < 5}",
            "gates.yaml:17:54: kernels.scale.args[3].f32: a condition where a number is needed (at shape `small`)";
        "x: {type: f32, shape: [N]}" => "x: {type: f32, shape: [N - 128]}",
            "gates.yaml:15:30: kernels.scale.tensors.x.shape[0]: the extent is 0; it must be between 1 and 4294967295 (at shape `small`)";
        "x: {type: f32, shape: [N]}" => "x: {type: f32, shape: [N, 1 << 40]}",
            "gates.yaml:15:36: kernels.scale.tensors.x.shape[1]: `1 << 40`: unexpected `<`";
        "x: {type: f32, shape: [N]}" => "x: {type: f32, shape: [N, 1000000000]}",
            "gates.yaml:15:29: kernels.scale.tensors.x.shape: the tensor takes more than 16 GiB (at shape `small`)";
        "x: {type: f32, shape: [N]}" => "x: {type: f32, shape: [N], strides: [0]}",
            "gates.yaml:15:43: kernels.scale.tensors.x.strides: two elements share an address (at shape `small`)";
        "x: {type: f32, shape: [N]}" => "x: {type: f32, shape: [N], strides: [1, 1]}",
            "gates.yaml:15:43: kernels.scale.tensors.x.strides: 2 strides for 1 dimensions";
    }
}

#[test]
fn tensors_and_arguments() {
    mistakes! {
        "{tensor: x}" => "{tensor: z}",
            "gates.yaml:17:21: kernels.scale.args[0].tensor: unknown tensor `z`\n  help: there are `x`, `y`";
        "{tensor: x}, " => "",
            "gates.yaml:15:7: kernels.scale.tensors.x: no argument passes the tensor `x`\n  help: add {tensor: x} to args, or remove the tensor\n  help: if only the reference reads it: role: reference";
        "{i32: N}" => "{scales: x}",
            "gates.yaml:17:47: kernels.scale.args[2].scales: `x` has no codec, so it has no scales";
        "{i32: N}" => "{zero_points: x}",
            "gates.yaml:17:52: kernels.scale.args[2].zero_points: `x` has no affine codec, so it has no zero points";
        "{i32: N}" => "stream",
            "gates.yaml:17:38: kernels.scale.args[2]: only a launcher can take a stream";
        "{i32: N}" => "{pad: 4}",
            "gates.yaml:17:38: kernels.scale.args[2]: only a struct can have padding";
        "x: {type: f32, shape: [N]}" => "x: {type: i32, shape: [N]}",
            "gates.yaml:15:10: kernels.scale.tensors.x: `x` holds integers and needs a `fill`\n  help: fill: {integers: {low: 0, high: 9}}, iota, permutation, offsets, block_table or values";
        "x: {type: f32, shape: [N]}" => "x: {type: f32, shape: [N], fill: iota}",
            "gates.yaml:15:40: kernels.scale.tensors.x.fill: this rule makes integers, and the tensor holds floats";
        "x: {type: f32, shape: [N]}" => "x: {type: i8, shape: [N], fill: iota}",
            "gates.yaml:20:18: kernels.scale.reference.unary.x: `x` holds integers; built-in references compute over floats\n  help: a `user` reference sees integer tensors in their own type";
        "x: {type: f32, shape: [N]}" => "x: {type: i32, shape: [N], fill: {integers: {low: 0, high: 9}}}",
            "gates.yaml:20:18: kernels.scale.reference.unary.x: `x` holds integers; built-in references compute over floats\n  help: a `user` reference sees integer tensors in their own type";
        "x: {type: f32, shape: [N]}" => "x: {type: f32, shape: [N], codec: {symmetric: {per: tensor}}}",
            "gates.yaml:15:41: kernels.scale.tensors.x.codec: elements of this type cannot have a codec\n  help: a codec makes e4m3, e5m2, i8 or u8";
        "x: {type: f32, shape: [N]}" => "x: {type: u8, shape: [N], codec: {symmetric: {per: {axes: [1]}}}}",
            "gates.yaml:15:66: kernels.scale.tensors.x.codec.symmetric.per.axes[0]: axis 1 is out of range: the tensor has rank 1\n  help: axes count from 0";
        "x: {type: f32, shape: [N]}" => "x: {type: u8, shape: [N], codec: {symmetric: {per: tensor, levels: 200}}}",
            "gates.yaml:15:74: kernels.scale.tensors.x.codec.symmetric.levels: 200 levels around the zero point 128 do not fit the type: at most 127";
        "x: {type: f32, shape: [N]}" => "x: {type: e4m3, shape: [N], codec: {affine: {per: tensor}}}",
            "gates.yaml:15:42: kernels.scale.tensors.x.codec: an affine codec needs an integer type\n  help: i8 or u8";
        "x: {type: f32, shape: [N]}" => "x: {type: f32, shape: [N], fill: {uniform: {low: 1, high: 1}}}",
            "gates.yaml:15:65: kernels.scale.tensors.x.fill.uniform.high: high is 1; it must be above low, 1 (at shape `small`)";
        "x: {type: f32, shape: [N]}" => "x: {type: f32, shape: [N], fill: {values: [1, 2]}}",
            "gates.yaml:15:40: kernels.scale.tensors.x.fill: 2 values for 128 elements (at shape `small`)";
        "y: {role: out, type: f32, shape: [N]}" => "y: {type: f32, shape: [N]}",
            "gates.yaml:20:7: kernels.scale.reference: no tensor is an output: the reference has nothing to compute\n  help: give one `role: out` or `role: inout`\n  help: if the kernel has no output, remove `reference`";
        "y: {role: out, type: f32, shape: [N]}" => "y: {role: out, type: f32, shape: [N], fill: {constant: 0}}",
            "gates.yaml:16:51: kernels.scale.tensors.y.fill: `y` is not an input: `fill` is not allowed";
        "y: {role: out, type: f32, shape: [N]}" => "y: {role: out, type: f32, shape: [N + 1]}",
            "gates.yaml:20:26: kernels.scale.reference.unary.out: `y` is [129]; the reference needs [128] (at shape `small`)";
        "x: x, out: y, op" => "x: y, out: y, op",
            "gates.yaml:20:18: kernels.scale.reference.unary.x: `y` is not an input; a reference reads inputs";
        "x: x, out: y, op" => "x: x, out: x, op",
            "gates.yaml:20:26: kernels.scale.reference.unary.out: `x` is not an output\n  help: tensors: {x: {role: out, ...}}";
        "unary: {x: x, out: y, op: relu}" => "variant: plain",
            "gates.yaml:20:16: kernels.scale.reference.variant: variant `plain` is its own reference\n  help: give that variant a `reference` of its own";
        "unary: {x: x, out: y, op: relu}" => "variant: pain",
            "gates.yaml:20:16: kernels.scale.reference.variant: unknown variant `pain`\n  help: did you mean `plain`?";
        "unary: {x: x, out: y, op: relu}" => "user: {source: ref.cpp, function: f, args: [{tensor: x}]}",
            "gates.yaml:20:7: kernels.scale.reference: the reference does not compute the output `y`\n  help: a `user` reference can compute several outputs";
        "unary: {x: x, out: y, op: relu}" => "sdpa: {q: x, k: x, v: x, out: y}",
            "gates.yaml:20:17: kernels.scale.reference.sdpa.q: q must be [B, H, S, D], and is [128] (at shape `small`)";
        "unary: {x: x, out: y, op: relu}" => "gemm: {a: x, b: x, out: y}",
            "gates.yaml:20:17: kernels.scale.reference.gemm.a: `x` is [128], not a matrix (at shape `small`)";
        "unary: {x: x, out: y, op: relu}" => "reduce: {x: x, out: y, op: sum, axes: [1]}",
            "gates.yaml:20:46: kernels.scale.reference.reduce.axes[0]: axis 1 is out of range: the tensor has rank 1\n  help: axes count from 0";
        "unary: {x: x, out: y, op: relu}" => "reduce: {x: x, out: y, op: sum, axes: [0]}",
            "gates.yaml:20:27: kernels.scale.reference.reduce.out: `y` is [128]; the reference needs [] (at shape `small`)";
        "      large: {N: 4096}" => "      large: {M: 4096}",
            "gates.yaml:13:15: kernels.scale.shapes.large.M: shape `small` has no dimension `M`\n  help: there is only `N`";
        "      large: {N: 4096}" => "      large: {N: 4096, TILE: 4}",
            "gates.yaml:13:24: kernels.scale.shapes.large.TILE: shape `small` has no dimension `TILE`\n  help: there is only `N`";
        "small: {N: 128}\n      large: {N: 4096}" => "small: {N: 128, TILE: 4}",
            "gates.yaml:7:14: kernels.scale.define.TILE: `TILE` is already a dimension";
    }
    let shapes = "small: {N: 128}\n      large: {N: 4096}";
    mistakes! {
        shapes => "small: {N: 128, K: N / 3}",
            "gates.yaml:12:26: kernels.scale.shapes.small.K: 42.666666666666664 is not a whole number (at shape `small`)\n  \
             help: round up with ceil_div(a, b)";
        shapes => "small: {N: 128, K: TILE}",
            "gates.yaml:12:26: kernels.scale.shapes.small.K: shape `small` has no dimension `TILE`\n  help: it is a macro, \
             which variants can change: a shape is the same for all of them";
        shapes => "small: {N: 128, A: C + 1, B: A, C: B}",
            "gates.yaml:12:26: kernels.scale.shapes.small.A: dimensions of one another: `A` needs `C` needs `B` needs `A`";
        shapes => "small: {K: N, N: N}",
            "gates.yaml:12:24: kernels.scale.shapes.small.N: dimensions of one another: `N` needs `N`";
        "      large: {N: 4096}" => "      la@rge: {N: 4096}",
            "gates.yaml:13:7: kernels.scale.shapes.la@rge: `la@rge` cannot name a shape: use letters, digits, _ and -";
        "define: {TILE: 64, MODE: fast}" => "define: {p50: 64}",
            "gates.yaml:7:14: kernels.scale.define.p50: `p50` is already a metric";
        "wide: {define: {WIDE: 1}}" => "wide-er: {}",
            "gates.yaml:10:7: kernels.scale.variants.wide-er: `wide-er` cannot name a variant: use letters, digits and _, and no digit first";
        "wide: {define: {WIDE: 1}}" => "wide: {tensors: {z: {type: f32, shape: [N]}}}",
            "gates.yaml:10:24: kernels.scale.variants.wide.tensors.z: the kernel has no tensor `z` to replace\n  help: there are `x`, `y`";
        "    entry: scale\n" => "    entry: scale\n    launcher: {function: f, launches: [{entry: k}]}\n",
            "gates.yaml:6:12: kernels.scale.entry: either `entry` or `launcher`, not both";
        "    entry: scale\n" => "    launcher: {function: f, launches: [{entry: k}]}\n",
            "gates.yaml:18:13: kernels.scale.launch: a launcher sets its own launch: remove `launch`";
        "    launch: {grid: [\"ceil_div(N, TILE)\"], block: [TILE]}\n" => "",
            "gates.yaml:17:11: kernels.scale.args: the key `launch` is missing\n  help: launch: {grid: [...], block: [...]}";
    }
}

const ARGS: &str = "    args: [{tensor: x}, {tensor: y}, {i32: N}, {f32: 0.5}]\n";
const LAUNCH: &str = "    launch: {grid: [\"ceil_div(N, TILE)\"], block: [TILE]}\n";
const SEQUENCE: &str = "    sequence: [{entry: scale, args: [{tensor: x}, {tensor: y}], launch: {grid: [1], block: [32]}}]\n";

#[test]
fn wrong_sequences_are_refused() {
    let of = |sequence: &str, args: &str, launch: &str| {
        let text = with("    entry: scale\n", sequence);
        said_of(&text.replace(ARGS, args).replace(LAUNCH, launch))
    };
    assert_eq!(
        of(SEQUENCE, ARGS, ""),
        "gates.yaml:17:11: kernels.scale.args: each step of a sequence has its own `args`: remove this one"
    );
    assert_eq!(
        of(SEQUENCE, "", LAUNCH),
        "gates.yaml:17:13: kernels.scale.launch: each step of a sequence has its own `launch`: remove this one"
    );
    assert_eq!(
        of("    sequence: []\n", "", ""),
        "gates.yaml:6:15: kernels.scale.sequence: a sequence without steps: nothing would be launched\n  help: sequence: [{entry: ..., args: [...], launch: {...}}, ...]"
    );
    assert_eq!(
        of("    entry: scale\n", "", LAUNCH),
        "gates.yaml:6:12: kernels.scale.entry: the key `args` is missing\n  help: args: [{tensor: x}, {i32: N}], in the order of the parameters"
    );
    assert_eq!(
        of(&format!("    entry: scale\n{SEQUENCE}"), "", ""),
        "gates.yaml:6:12: kernels.scale.entry: either `entry` or `sequence`, not both\n  help: a sequence of one step takes the place of an entry"
    );
    assert_eq!(
        of(
            &format!("    launcher: {{function: f, launches: [{{entry: k}}]}}\n{SEQUENCE}"),
            "",
            ""
        ),
        "gates.yaml:7:15: kernels.scale.sequence: either `sequence` or `launcher`, not both"
    );
    // A step is resolved like a kernel of its own.
    assert_eq!(
        of(&SEQUENCE.replace("{tensor: y}", "stream"), "", ""),
        "gates.yaml:6:51: kernels.scale.sequence[0].args[1]: only a launcher can take a stream"
    );
    assert_eq!(
        of(&SEQUENCE.replace("{tensor: y}", "nullptr"), "", ""),
        "gates.yaml:16:7: kernels.scale.tensors.y: no argument passes the tensor `y`\n  help: add {tensor: y} to args, or remove the tensor"
    );
}
