//! References that fit, and those that do not.

use super::{accepted, case, with};
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

    // Nothing would write what lies between the fields.
    let padded = with_reference(
        "{N: 4}",
        &[
            "x: {type: f32, shape: [N]}",
            "y: {role: out, type: {struct: {n: {type: u8}, a: {type: f32}}}, shape: [N]}",
        ],
        "{user: {source: r.c, function: r, args: [{tensor: x}, {tensor: y}]}}",
    );
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
}
