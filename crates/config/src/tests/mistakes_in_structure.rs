//! Keys, types and files.

use super::{RIGHT, check, read, said_of};

#[test]
fn wrong_keys_are_refused() {
    mistakes! {
        "    entry: scale" => "    entri: scale",
            "gates.yaml:6:5: kernels.scale.entri: unknown key `entri`\n  help: did you mean `entry`?";
        "      registers: 128" => "      register: 128",
            "gates.yaml:22:7: kernels.scale.gates.register: unknown metric `register`\n  help: did you mean `registers`?";
        "      registers: 128" => "      warps: 128",
            "gates.yaml:22:7: kernels.scale.gates.warps: unknown metric `warps`\n  help: there are `registers`, `shared`, `spills`, `stack`, `occupancy`, `blocks_per_sm`, `max_err`, `mean_err`, `rel_l2`, `over_tolerance`, `original_max_err`, `original_mean_err`, `codec_max_err`, `codec_mean_err`, `p50`, `p90`, `p99`, `mean`, `min`, `max`, `cycles`, `cv`, `slow_share`, `conditions`, `counters`";
        "      registers: 128\n" => "      registers: 128\n      registers: 96\n",
            "gates.yaml:23:7: kernels.scale.gates.registers: duplicate key `registers`";
        "  scale:\n" => "  scale:\n    source: other.cu\n",
            "gates.yaml:6:5: kernels.scale.source: duplicate key `source`";
        "    entry: scale\n" => "",
            "gates.yaml:5:13: kernels.scale.source: the key `entry`, `sequence` or `launcher` is missing\n  help: entry: the __global__ function as written in the source\n  help: sequence: several of them, which run one after the other\n  help: launcher: a host function that launches it";
        "    source: scale.cu\n" => "",
            "gates.yaml:5:5: kernels.scale: the key `source` is missing";
        "x: {type: f32, shape: [N]}\n      y" => "x: {type: f32}\n      y",
            "gates.yaml:15:10: kernels.scale.tensors.x: the key `shape` is missing\n  help: shape: [M, N], slowest dimension first; [] is one element";
        "    shapes:\n      small: {N: 128}\n      large: {N: 4096}\n" => "    shapes: {default: {}}\n",
            "gates.yaml:13:30: kernels.scale.tensors.x.shape[0]: `N` is neither a dimension nor a macro under `define` (at shape `default`)\n  help: there is only `TILE`\n  help: declare it as a dimension of every shape, or as a macro: define: {N: ...}";
        // A word alone, where it has keys.
        "      unary: {x: x, out: y, op: relu}" => "      softmax",
            "gates.yaml:20:7: kernels.scale.reference: expected a mapping: {key: value}";
        "    reference:\n      unary: {x: x, out: y, op: relu}\n    gates:\n      registers: 128\n      max_err: 1e-6\n      p50: \"+2%\"\n" =>
        "    gates: {max_err: 0}\n    reference: softmax\n",
            "gates.yaml:20:16: kernels.scale.reference: expected a mapping: {key: value}";
        "{i32: N}" => "x",
            "gates.yaml:17:38: kernels.scale.args[2]: unknown name `x`\n  help: there are `tensor`, `scales`, `zero_points`, `bytes`, `texture`, `surface`, `tensor_map`, `nullptr`, `stream`, `bool`, `i8`, `u8`, `i16`, `u16`, `i32`, `u32`, `i64`, `u64`, `f16`, `bf16`, `f32`, `f64`, `struct`, `pad`\n  help: write an argument like {tensor: x} or {i32: N}";
        "op: relu" => "op: sig",
            "gates.yaml:20:33: kernels.scale.reference.unary.op: unknown name `sig`\n  help: did you mean `sigmoid`?";
        "{i32: N}" => "{i33: N}",
            "gates.yaml:17:39: kernels.scale.args[2].i33: unknown name `i33`\n  help: did you mean `i32`?\n  help: write an argument like {tensor: x} or {i32: N}";
        "{i32: N}" => "{i32: N, i64: N}",
            "gates.yaml:17:47: kernels.scale.args[2].i64: expected a single key; this is a second one";
        "op: relu" => "op: rely",
            "gates.yaml:20:33: kernels.scale.reference.unary.op: unknown name `rely`\n  help: did you mean `relu`?";
        "    gates:\n      registers: 128\n      max_err: 1e-6\n      p50: \"+2%\"\n" => "    gates:\n",
            "gates.yaml:21:10: kernels.scale.gates: the key has no value\n  help: give it a value, or remove the key; an empty mapping is `{}`";
        "x: {type: f32, shape" => "x: {type: f33, shape",
            "gates.yaml:15:17: kernels.scale.tensors.x.type: unknown name `f33`\n  help: did you mean `f32`?";
        "wide: {define: {WIDE: 1}}" => "wide: {defines: {WIDE: 1}}",
            "gates.yaml:10:14: kernels.scale.variants.wide.defines: unknown key `defines`\n  help: did you mean `define`?";
        "      unary: {x: x, out: y, op: relu}" =>
        "      unary: {x: x, out: y, op: relu}\n      softmax: {x: x, out: y}",
            "gates.yaml:21:7: kernels.scale.reference.softmax: expected a single key; this is a second one";
    }
}

#[test]
fn wrong_types_are_refused() {
    mistakes! {
        "[sm_89, sm_90]" => "sm_90",
            "gates.yaml:2:16: architectures: expected a list: [a, b]";
        "[sm_89, sm_90]" => "[sm_89, 90]",
            "gates.yaml:2:24: architectures[1]: `90` is not an architecture; write it as nvcc does, for example sm_90 or sm_90a";
        "[sm_89, sm_90]" => "[sm_89, sm_89]",
            "gates.yaml:2:24: architectures[1]: duplicate architecture sm_89";
        "[sm_89, sm_90]" => "[]",
            "gates.yaml:2:16: architectures: no architectures: nothing would be built";
        "source: scale.cu" => "source: [scale.cu]",
            "gates.yaml:5:13: kernels.scale.source: expected a single value, not a list or a mapping";
        "source: scale.cu" => "source:",
            "gates.yaml:5:11: kernels.scale.source: the key has no value\n  help: give it a value, or remove the key; an empty mapping is `{}`";
        "small: {N: 128}" => "small: {N: many}",
            "gates.yaml:12:18: kernels.scale.shapes.small.N: shape `small` has no dimension `many`\n  help: there is only `N`";
        "small: {N: 128}" => "small: {N: 0.5}",
            "gates.yaml:12:18: kernels.scale.shapes.small.N: 0.5 is not a whole number (at shape `small`)\n  help: round up \
             with ceil_div(a, b)";
        "small: {N: 128}" => "small: 128",
            "gates.yaml:12:14: kernels.scale.shapes.small: expected a mapping: {key: value}";
        "    shapes:" => "    seeds: few\n    shapes:",
            "gates.yaml:11:12: kernels.scale.seeds: expected a number of seeds, a list of seeds, or a mapping from shapes to either, not string \"few\"";
        "    shapes:" => "    seeds: -1\n    shapes:",
            "gates.yaml:11:12: kernels.scale.seeds: expected a number of seeds, a list of seeds, or a mapping from shapes to either, not integer `-1`";
        "    shapes:" => "    seeds: [1, -2]\n    shapes:",
            "gates.yaml:11:16: kernels.scale.seeds[1]: expected a whole number that is not negative";
        "    shapes:" => "    seeds: [1, 2, 1]\n    shapes:",
            "gates.yaml:11:19: kernels.scale.seeds[2]: duplicate seed 1";
        "    shapes:" => "    seeds: 0\n    shapes:",
            "gates.yaml:11:12: kernels.scale.seeds: no seed: nothing would be checked";
        "    shapes:" => "    seeds: {larg: 3}\n    shapes:",
            "gates.yaml:11:13: kernels.scale.seeds.larg: unknown shape `larg`\n  help: did you mean `large`?";
        "registers: 128" => "registers: true",
            "gates.yaml:22:18: kernels.scale.gates.registers: expected a limit, a list of limits, or a mapping to limits, not boolean `true`";
        "registers: 128" => "registers: {sm_89: {sm_90: 1}}",
            "gates.yaml:22:26: kernels.scale.gates.registers.sm_89: expected a limit or a list of limits";
        "kernels:\n" => "timing: {warmup: -1}\nkernels:\n",
            "gates.yaml:3:18: timing.warmup: expected a whole number from 0 to 4294967295";
        "kernels:\n" => "timing: {processes: 0}\nkernels:\n",
            "gates.yaml:3:21: timing.processes: 0 must be between 1 and 100";
        "kernels:\n" => "timing: {batch: 200}\nkernels:\n",
            "gates.yaml:3:17: timing.batch: `200` is not a duration\n  help: write a number and its unit: 30s, 500ms, 200us";
        "kernels:\n" => "timing: {mode: hot}\nkernels:\n",
            "gates.yaml:3:16: timing.mode: unknown name `hot`\n  help: there are `warm`, `cold`";
        "kernels:\n" => "toolchain: {cuda: 13}\nkernels:\n",
            "gates.yaml:3:19: toolchain.cuda: `13` is not a CUDA release\n  help: examples: \"13.0\", \"13.0.2\"";
        "kernels:\n" => "flags: [-DX=1]\nkernels:\n",
            "gates.yaml:3:9: flags[0]: `-DX=1` is not allowed in `flags`\n  help: use the key `define`";
        "kernels:\n" => "flags: [-arch=sm_90]\nkernels:\n",
            "gates.yaml:3:9: flags[0]: `-arch=sm_90` is not allowed in `flags`\n  help: use the key `architectures`";
        "    shapes:" => "    launches: 1\n    shapes:",
            "gates.yaml:11:15: kernels.scale.launches: `launches` is 1; it must be between 2 and 1000";
        "    shapes:" => "    deadline: 30\n    shapes:",
            "gates.yaml:11:15: kernels.scale.deadline: `30` is not a duration\n  help: write a number and its unit: 30s, 500ms, 200us";
        "    shapes:" => "    nondeterministic: true\n    shapes:",
            "gates.yaml:11:23: kernels.scale.nondeterministic: `nondeterministic` needs the reason why launches differ\n  help: nondeterministic: float atomics";
    }
}

#[test]
fn wrong_files_are_refused() {
    mistakes! {
        "version: 1\n" => "version: 2\n",
            "gates.yaml:1:10: version: unknown version 2: this gatekeeper reads version 1";
        "version: 1\n" => "",
            "gates.yaml:1:1: architectures: `version` must come first\n  help: the first line must be `version: 1`";
        "version: 1\n" => "version: [1]\n",
            "gates.yaml:1:1: version: the version must be a number\n  help: the first line must be `version: 1`";
        "source: scale.cu" => "source: missing.cu",
            "gates.yaml:5:13: kernels.scale.source: missing.cu does not exist\n  help: paths are relative to the directory of gates.yaml";
    }
    check(
        "source: scale.cu",
        // `../scale.cu` is another matter since sources may lie above gates.yaml: tests/it/sources.rs.
        "source: kernels/../scale.cu",
        "gates.yaml:5:13: kernels.scale.source: `kernels/../scale.cu` is not a path of this repository\n  help: write it relative to the directory of gates.yaml, with forward slashes, and `..` at its beginning alone",
    );
    mistakes! {
        "source: scale.cu" => "source: /scale.cu",
            "gates.yaml:5:13: kernels.scale.source: `/scale.cu` is not a path of this repository\n  help: write it relative to the directory of gates.yaml, with forward slashes, and `..` at its beginning alone";
        "source: scale.cu" => "source: kernels",
            "gates.yaml:5:13: kernels.scale.source: kernels is a directory";
        "kernels:\n" => "\tkernels:\n",
            "gates.yaml:3:2: while parsing a block mapping, did not find expected key";
        "kernels:\n" => "kernels: *none\n",
            "gates.yaml:3:10: reference to unknown value";
    }
    let file = |text: &str, expected: &str| assert_eq!(said_of(text), expected, "{text}");
    file(
        "",
        "gates.yaml: the file is empty\n  help: write one with `gatekeeper init`",
    );
    file(
        "# only a comment\n",
        "gates.yaml: the file is empty\n  help: write one with `gatekeeper init`",
    );
    file(
        "- 1\n",
        "gates.yaml:1:1: expected a mapping\n  help: the first line must be `version: 1`",
    );
    file(
        "42",
        "gates.yaml:1:1: expected a mapping\n  help: the first line must be `version: 1`",
    );
    file("{", "gates.yaml:1:1: unclosed bracket '{'");
    file(
        "version: 1\n---\nversion: 1\n",
        "gates.yaml:3:1: a second YAML document starts here",
    );
    file(
        "version: 1\n? [a]\n: 1\n",
        "gates.yaml:2:3: expected a single value, not a list or a mapping",
    );
    file(
        "version: 1\narchitectures: [sm_90]\nkernels: {}\n",
        "gates.yaml:3:10: kernels: no kernels: nothing would be judged",
    );
}

/// Where something is used through an alias or a merge, the place is where it was written and the key
/// path where it is used.
#[test]
fn aliases_and_merges() {
    let second = "  half:\n    <<: *scale\n    shapes: {tiny: {N: 0}}\n";
    let text = RIGHT.replace("  scale:\n", "  scale: &scale\n") + second;
    let said = said_of(&text);
    assert_eq!(
        said,
        "gates.yaml:15:30: kernels.half.tensors.x.shape[0]: the extent is 0; it must be between 1 and 4294967295 (at shape `tiny`)"
    );
}

#[test]
fn every_line_can_go_missing() {
    let lines: Vec<&str> = RIGHT.lines().collect();
    for gone in 0..lines.len() {
        let text: Vec<&str> = lines
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != gone)
            .map(|(_, line)| *line)
            .collect();
        if let Err(said) = read(&text.join("\n")) {
            assert!(said.starts_with("gates.yaml:"), "{said}");
        }
    }
}
