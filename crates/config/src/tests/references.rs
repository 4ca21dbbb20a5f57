//! References that fit, and those that do not.

use super::{accepted, case, said_of, with};
use model::*;

/// A file with these tensors, passed in order, and this reference.
fn with_reference(dims: &str, tensors: &[&str], reference: &str) -> String {
    let names: Vec<_> = tensors
        .iter()
        .map(|tensor| tensor.split(':').next().unwrap())
        .collect();
    let args: Vec<_> = names
        .iter()
        .map(|name| format!("{{tensor: {name}}}"))
        .collect();
    format!(
        "version: 1\narchitectures: [sm_90]\nkernels:\n  k:\n    source: k.cu\n    entry: k\n    shapes: {{one: {dims}}}\n    \
         tensors:\n      {}\n    args: [{}]\n    launch: {{grid: [1], block: [32]}}\n    reference: {reference}\n    \
         gates: {{max_err: 1}}\n",
        tensors.join("\n      "),
        args.join(", "),
    )
}

#[test]
fn mistakes_in_references_are_refused() {
    let reference = |dims: &str, tensors: &[&str], reference: &str| {
        accepted(&with_reference(dims, tensors, reference))
            .plan
            .cases[0]
            .reference
            .clone()
    };
    let name = |name: &str| name.to_owned();
    assert_eq!(
        reference(
            "{H: 8, G: 2, Q: 5, S: 7, D: 16}",
            &[
                "q: {type: f16, shape: [1, H, Q, D]}",
                "k: {type: f16, shape: [1, G, S, D]}",
                "v: {type: f16, shape: [1, G, S, D]}",
                "o: {role: out, type: f16, shape: [1, H, Q, D]}",
            ],
            "{sdpa: {q: q, k: k, v: v, out: o, causal: true}}",
        ),
        Reference::Sdpa {
            q: name("q"),
            k: name("k"),
            v: name("v"),
            out: name("o"),
            scale: Num(0.25),
            causal: true
        }
    );
    assert_eq!(
        reference(
            "{M: 3, N: 4, K: 5}",
            &[
                "a: {type: f32, shape: [2, K, M]}",
                "b: {type: bf16, shape: [2, K, N]}",
                "c: {role: inout, type: f32, shape: [2, M, N]}",
                "bias: {type: f32, shape: [N]}",
            ],
            "{gemm: {a: a, b: b, out: c, c: c, bias: bias, transpose_a: true, epilogue: gelu_tanh}}",
        ),
        Reference::Gemm {
            a: name("a"),
            b: name("b"),
            out: name("c"),
            c: Some(name("c")),
            bias: Some(name("bias")),
            alpha: Num(1.0),
            beta: Num(1.0),
            transpose_a: true,
            transpose_b: false,
            epilogue: Some(Unary::GeluTanh),
        }
    );
    let x = "x: {type: f32, shape: [R, C]}";
    let same = "y: {role: out, type: f32, shape: [R, C]}";
    let weights = "g: {type: f32, shape: [C]}";
    for (tensors, text) in [
        (&[x, same][..], "{softmax: {x: x, out: y}}"),
        (
            &[x, same, weights][..],
            "{layer_norm: {x: x, out: y, gamma: g, beta: g, eps: 1e-6}}",
        ),
        (
            &[x, same, weights][..],
            "{rms_norm: {x: x, out: y, gamma: g}}",
        ),
        (
            &[x, "y: {role: out, type: f32, shape: [C]}"][..],
            "{reduce: {x: x, out: y, op: max, axes: [0]}}",
        ),
        (
            &[x, "y: {role: out, type: f32, shape: [R, 1]}"][..],
            "{reduce: {x: x, out: y, op: sum, axes: [1]}}",
        ),
        (
            &[x, "y: {role: out, type: f32, shape: []}"][..],
            "{reduce: {x: x, out: y, op: mean, axes: [0, 1]}}",
        ),
        (
            &[x, "y: {role: out, type: f16, shape: [C, R]}"][..],
            "{transpose: {x: x, out: y, permutation: [1, 0]}}",
        ),
        (&[x, same][..], "{binary: {a: x, b: x, out: y, op: add}}"),
    ] {
        reference("{R: 3, C: 5}", tensors, text);
    }
}

#[test]
fn references_that_do_not_fit() {
    let at = |said: String| said.split_once(": kernels.k.").unwrap().1.to_owned();
    let said =
        |tensors: &[&str], text: &str| at(said_of(&with_reference("{R: 3, C: 5}", tensors, text)));
    let x = "x: {type: f32, shape: [R, C]}";
    let y = "y: {role: out, type: f32, shape: [R, C]}";
    let attention = |k: &str, out: &str| {
        let q = "q: {type: f16, shape: [1, 8, 4, 64]}";
        let k = format!("k: {{type: f16, shape: {k}}}");
        let out = format!("o: {{role: out, type: f16, shape: {out}}}");
        said(&[q, &k, &out], "{sdpa: {q: q, k: k, v: k, out: o}}")
    };
    let same = "[1, 8, 4, 64]";
    assert_eq!(
        attention("[1, 3, 4, 64]", same),
        "reference.sdpa.k: the 8 heads of q are not a multiple of the 3 heads of k (at shape `one`)"
    );
    assert_eq!(
        attention("[1, 8, 4, 32]", same),
        "reference.sdpa.k: `k` is [1, 8, 4, 32]; the reference needs [1, 8, 4, 64] (at shape `one`)"
    );
    assert_eq!(
        attention(same, "[1, 8, 5, 64]"),
        "reference.sdpa.out: `o` is [1, 8, 5, 64]; the reference needs [1, 8, 4, 64] (at shape `one`)"
    );
    assert_eq!(
        said(&[x, y], "{gemm: {a: x, b: x, out: y}}"),
        "reference.gemm.b: K is 5 in a and 3 in b (at shape `one`)"
    );
    assert_eq!(
        said(
            &[x, "y: {role: out, type: f32, shape: [R, R]}"],
            "{gemm: {a: x, b: x, transpose_b: true, out: y, beta: 1}}"
        ),
        "reference.gemm.beta: beta without c has nothing to scale"
    );
    assert_eq!(
        said(&[x, y], "{transpose: {x: x, out: y, permutation: [0]}}"),
        "reference.transpose.permutation: 1 axes for 2 dimensions"
    );
    assert_eq!(
        said(&[x, y], "{transpose: {x: x, out: y, permutation: [0, 0]}}"),
        "reference.transpose.permutation[1]: duplicate axis 0"
    );
    assert_eq!(
        said(
            &[x, y, "z: {role: out, type: f32, shape: [R]}"],
            "{softmax: {x: x, out: y}}"
        ),
        "reference: the reference does not compute the output `z`\n  help: a `user` reference can compute several outputs"
    );
}

#[test]
fn a_variant_as_reference() {
    let variant = |wide: &str| with("wide: {define: {WIDE: 1}}", wide);
    let resolved = accepted(&variant(
        "wide: {reference: {variant: plain}, gates: {max_err: 0}}",
    ));
    assert_eq!(
        case(&resolved, "scale/wide@small").reference,
        Reference::Variant {
            variant: "plain".to_owned()
        }
    );
    let both = variant("wide: {reference: {variant: plain}}")
        .replace("plain: {}", "plain: {reference: {variant: wide}}");
    assert_eq!(
        said_of(&both),
        "gates.yaml:9:36: kernels.scale.variants.plain.reference.variant: the reference of `wide` is another \
         variant, too\n  help: one of the two needs a reference that is computed"
    );
}

#[test]
fn a_part_of_an_output_is_compared() {
    let x = "x: {type: f32, shape: [R, C]}";
    let m = "m: {type: u8, shape: [R, C], fill: {integers: {low: 0, high: 1}}}";
    let dims = "{R: 3, C: 5, k: 2}";
    let text = |y: &str, others: &[&str]| {
        let y = format!("y: {{role: out, type: f32, shape: [R, C], compare: {y}}}");
        with_reference(
            dims,
            &[&[x, &y], others].concat(),
            "{softmax: {x: x, out: y}}",
        )
    };
    let compare = |y: &str, others: &[&str]| {
        let resolved = accepted(&text(y, others));
        resolved.plan.cases[0].tensors[1].compare.clone().unwrap()
    };
    let condition = |text: &str, constants: &[(&str, f64)], index: [&str; 2]| Compare::Where {
        condition: Expr {
            text: text.to_owned(),
            constants: constants
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Num(*value)))
                .collect(),
        },
        index: index.map(str::to_owned).to_vec(),
    };
    assert_eq!(
        compare("{where: i >= j}", &[]),
        condition("i >= j", &[], ["i", "j"])
    );
    assert_eq!(
        compare(
            "{where: \"row < R - k && col != 0\", index: [row, col]}",
            &[]
        ),
        condition(
            "row < R - k && col != 0",
            &[("R", 3.0), ("k", 2.0)],
            ["row", "col"]
        )
    );
    let tensor = "m".to_owned();
    assert_eq!(compare("{mask: m}", &[m]), Compare::Mask { tensor });

    // The mistake is at the first place in its line that has this text.
    for (y, place, key, message) in [
        (
            "{where: i + j}",
            "i + j",
            ".where",
            "`i + j` is no condition\n  help: compare the indices with something: i >= j",
        ),
        (
            "{where: i < Q}",
            "i < Q",
            ".where",
            "`Q` is neither a dimension nor a macro under `define` (at shape `one`)",
        ),
        (
            "{where: i > 0, index: [i]}",
            "[i]",
            ".index",
            "1 names for 2 dimensions",
        ),
        (
            "{where: i > 0, index: [i, C]}",
            "C]}",
            ".index[1]",
            "`C` already has a meaning (at shape `one`)",
        ),
        (
            "{where: i > 0, index: [i, i]}",
            "i]}",
            ".index[1]",
            "`i` already has a meaning (at shape `one`)",
        ),
        (
            "{mask: x}",
            "x}",
            ".mask",
            "`x` is no input of integers that is [3, 5], as `y` is (at shape `one`)",
        ),
        (
            "{mask: m, index: [i, j]}",
            "[i, j]",
            ".index",
            "`index` names what `where` asks about",
        ),
        (
            "{}",
            "{}",
            "",
            "either `where` or `mask`\n  help: compare: {where: \"i >= j\"}\n  help: compare: {mask: M}, where M is an \
             input of integers of the same shape",
        ),
    ] {
        let text = text(y, &[m]);
        let column = 1 + text.lines().nth(9).unwrap().find(place).unwrap();
        let expected =
            format!("gates.yaml:10:{column}: kernels.k.tensors.y.compare{key}: {message}");
        let said = said_of(&text);
        assert!(said.starts_with(&expected), "{said}\n{expected}");
    }
    // An index that is a dimension, too.
    let at = "kernels.k.tensors.y.compare";
    let shadowed = text("{where: j < 2}", &[]).replace("k: 2", "j: 2");
    assert_eq!(
        said_of(&shadowed),
        format!(
            "gates.yaml:10:65: {at}.where: `j` is an index of the element, and a dimension or macro too (at shape `one`)\n  \
             help: name the indices: index: [index0, index1]"
        )
    );
    let input = "x: {type: f32, shape: [R, C], compare: {mask: m}}";
    let y = "y: {role: out, type: f32, shape: [R, C]}";
    assert_eq!(
        said_of(&with_reference(
            dims,
            &[input, y, m],
            "{softmax: {x: x, out: y}}"
        )),
        "gates.yaml:9:46: kernels.k.tensors.x.compare: `x` is not an output: `compare` is not allowed"
    );
}

#[test]
fn structs_are_bytes_for_the_kernel_and_values_for_the_reference() {
    let text = |w: &str| {
        let y = "y: {role: out, type: f32, shape: [R, 1]}";
        let x = "x: {type: f32, shape: [K, 1]}";
        with_reference("{R: 3, K: 64}", &[w, x, y], "{gemm: {a: w, b: x, out: y}}")
    };
    let q8_0 = "w: {type: {struct: {d: {type: f16}, qs: {type: i8, count: 32}}}, shape: [R, K / 32], codec: {blocks: {scale: d, codes: qs}}}";
    let resolved = accepted(&text(q8_0));
    let tensor = &resolved.plan.cases[0].tensors[0];
    assert_eq!(
        (tensor.elem, &tensor.dims[..]),
        (ElemType::U8, &[3, 2, 34][..])
    );
    assert_eq!(tensor.value_dims(), [3, 64]);
    let Some(CodecScheme::Blocks(blocks)) = tensor.codec.as_ref().map(|codec| &codec.scheme) else {
        panic!()
    };
    assert_eq!(
        (blocks.codes.offset, blocks.levels, blocks.zero_point),
        (2, Num(127.0), 0)
    );
    let strided = q8_0.replace("K / 32],", "K / 32], strides: [5, 1],");
    let resolved = accepted(&text(&strided));
    assert_eq!(
        resolved.plan.cases[0].tensors[0].strides,
        Some(vec![170, 34, 1])
    );

    let nibbles = q8_0
        .replace("i8, count: 32", "u8, count: 16")
        .replace("codes: qs", "codes: qs, nibbles: halves");
    let resolved = accepted(&text(&nibbles));
    let Some(CodecScheme::Blocks(blocks)) = resolved.plan.cases[0].tensors[0]
        .codec
        .as_ref()
        .map(|codec| &codec.scheme)
    else {
        panic!()
    };
    assert_eq!(
        (blocks.values_each(), blocks.levels, blocks.zero_point),
        (32, Num(8.0), 8)
    );

    for (old, new, place, message) in [
        (
            "codes: qs",
            "codes: q",
            "q}}}",
            "codec.blocks.codes: unknown field `q`",
        ),
        (
            "scale: d",
            "scale: qs",
            "qs: {",
            "type.struct.d: the codec says nothing of the field `d`",
        ),
        (
            "codes: qs",
            "codes: qs, levels: 200",
            "200",
            "codec.blocks.levels: levels is 200; it must be between 1 and 128",
        ),
        (
            "d: {type: f16}",
            "d: {type: i16}",
            "d: {",
            "type.struct.d: `d` must be one float",
        ),
        (
            "d: {type: f16}",
            "d: {type: f16, fill: zeros}",
            "zeros",
            "type.struct.d.fill: a field of a codec has no `fill`",
        ),
        (
            "d: {type: f16}",
            "d: {type: f16}, e: {type: u8}",
            "e: {",
            "type.struct.e: the codec says nothing of the field `e`",
        ),
        (
            "i8, count: 32",
            "i32, count: 32",
            "qs: {",
            "type.struct.qs: codes are of i8, u8, i16 or u16",
        ),
        (
            "i8, count: 32",
            "i8, count: 0",
            "0}",
            "type.struct.qs.count: the count is 0; it must be between 1 and 1048576",
        ),
        (
            "{blocks: {scale: d, codes: qs}}",
            "{symmetric: {per: tensor}}",
            "{symmetric",
            "codec: the codec of a struct is `blocks`",
        ),
        (
            ", codec: {blocks: {scale: d, codes: qs}}",
            "",
            "qs: {",
            "type.struct.qs",
        ),
        (
            ", codec: {blocks: {scale: d, codes: qs}}",
            ", fill: zeros",
            "zeros",
            "fill: a struct is filled field by field",
        ),
        (
            "{struct: {d: {type: f16}, qs: {type: i8, count: 32}}}",
            "i8",
            "{blocks",
            "codec: `blocks` is the codec of a struct",
        ),
        (
            "{type: f16}",
            "{type: {struct: {d: {type: f16}}}}",
            "{struct: {d: {type: f16}}",
            "type.struct.d.type: a field cannot be a struct",
        ),
    ] {
        let text = text(&q8_0.replace(old, new));
        let said = said_of(&text);
        let line = text.lines().nth(8).unwrap();
        assert!(line.contains(place), "{line}");
        assert!(
            said.starts_with("gates.yaml:9:") && said.contains(message),
            "{new}: {said}"
        );
    }
    let scales = text(q8_0).replace("{tensor: w}", "{tensor: w}, {scales: w}");
    assert!(said_of(&scales).contains("the scales of `w` are in its structs"));
    let bytes = text(q8_0).replace("{tensor: w}", "{bytes: w}");
    assert!(said_of(&bytes).contains("only a reference takes `bytes`"));
    // Nothing would write what lies between the fields.
    let padded = with_reference(
        "{N: 4}",
        &[
            "x: {type: f32, shape: [N]}",
            "y: {role: out, type: {struct: {n: {type: u8}, a: {type: f32}}}, shape: [N]}",
        ],
        "{user: {source: r.c, function: r, args: [{tensor: x}, {tensor: y}]}}",
    );
    assert!(said_of(&padded).contains("the structs of `y` have bytes in no field"));
    let whole = accepted(&padded.replace("n: {type: u8}", "n: {type: u8, count: 4}"));
    assert_eq!(whole.plan.cases[0].tensors[1].dims, [4, 8]);
}

#[test]
fn working_memory_needs_no_reference() {
    let x = "x: {type: f32, shape: [R, C]}";
    let y = "y: {role: out, type: f32, shape: [R, C]}";
    let scratch = "s: {role: scratch, type: f32, shape: [R]}";
    let dims = "{R: 3, C: 5}";
    let resolved = accepted(&with_reference(
        dims,
        &[x, y, scratch],
        "{softmax: {x: x, out: y}}",
    ));
    let tensor = &resolved.plan.cases[0].tensors[2];
    assert_eq!((tensor.role, &tensor.fill), (Role::Scratch, &None));
    for (tensors, reference, expected) in [
        (
            &[x, scratch][..],
            "{softmax: {x: x, out: s}}",
            "gates.yaml:13:16: kernels.k.reference: no tensor is an output: the reference has nothing to compute\n  help: \
             give one `role: out` or `role: inout`\n  help: if the kernel has no output, remove `reference`",
        ),
        (
            &[x, y, "s: {role: scratch, type: f32, shape: [R, C]}"][..],
            "{softmax: {x: s, out: y}}",
            "gates.yaml:14:30: kernels.k.reference.softmax.x: `s` is not an input; a reference reads inputs",
        ),
        (
            &[
                x,
                y,
                "s: {role: scratch, type: i32, shape: [R], fill: permutation}",
            ][..],
            "{softmax: {x: x, out: y}}",
            "gates.yaml:11:55: kernels.k.tensors.s.fill: `s` is scratch and cannot start with something random\n  \
             help: zeros, {constant: ...}, iota or {values: [...]}; what is drawn from the seed is an input: role: inout",
        ),
        (
            &[x, "y: {role: out, type: f32, shape: [R, C], fill: zeros}"][..],
            "{softmax: {x: x, out: y}}",
            "gates.yaml:10:54: kernels.k.tensors.y.fill: `y` is not an input: `fill` is not allowed",
        ),
    ] {
        assert_eq!(said_of(&with_reference(dims, tensors, reference)), expected);
    }
    let prepared = "s: {role: scratch, type: i32, shape: [R], fill: zeros}";
    let resolved = accepted(&with_reference(
        dims,
        &[x, y, prepared],
        "{softmax: {x: x, out: y}}",
    ));
    let zeros = Some(Fill::Constant { value: Num(0.0) });
    assert_eq!(resolved.plan.cases[0].tensors[2].fill, zeros);
}

/// Nothing that is not compared may read as right.
#[test]
fn no_reference_needs_a_limit_that_says_so() {
    let none = with(
        "reference:\n      unary: {x: x, out: y, op: relu}",
        "reference: none",
    );
    assert_eq!(
        case(&accepted(&none), "scale/plain@small").reference,
        Reference::None
    );
    let said = said_of(&none.replace("      max_err: 1e-6\n", ""));
    assert_eq!(
        said,
        "gates.yaml:21:7: kernels.scale.gates: scale/plain@small has no limit on its error\n  help: add max_err or \
         rel_l2: without one the reference has no effect"
    );
    // Nor is it a measure for others.
    let beside = none.replace(
        "wide: {define: {WIDE: 1}}",
        "wide: {define: {WIDE: 1}, reference: {variant: plain}}",
    );
    assert_eq!(
        said_of(&beside),
        "gates.yaml:10:54: kernels.scale.variants.wide.reference.variant: `plain` has no reference: nobody knows whether \
         it is right\n  help: give that variant a `reference` that is computed"
    );
}
