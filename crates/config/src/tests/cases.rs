//! Valid files resolve to these units and cases.

use super::super::{schema, template};
use super::{RIGHT, accepted, case, right, with};
use model::*;

#[test]
fn a_unit_and_a_case_in_full() {
    let resolved = accepted(RIGHT);
    let units: Vec<_> = resolved
        .plan
        .units
        .iter()
        .map(|unit| unit.id.to_string())
        .collect();
    assert_eq!(
        units,
        [
            "scale/plain [sm_89]",
            "scale/plain [sm_90]",
            "scale/wide [sm_89]",
            "scale/wide [sm_90]"
        ]
    );
    let define = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        resolved.plan.units[3],
        Unit {
            id: case(&resolved, "scale/wide@large")
                .id
                .unit("sm_90".parse().unwrap()),
            source: "scale.cu".to_owned(),
            include_dirs: Vec::new(),
            defines: [
                define("MODE", "fast"),
                define("TILE", "64"),
                define("WIDE", "1")
            ]
            .into(),
            flags: Vec::new(),
            call: Callable::Entries {
                names: vec!["scale".to_owned()],
                constants: Vec::new(),
            },
        }
    );
    let tensor = |name: &str, role, fill| Tensor {
        fill,
        ..Tensor::new(name, role, ElemType::F32, vec![4096])
    };
    let normal = Fill::Normal {
        mean: Num(0.0),
        std: Num(1.0),
    };
    assert_eq!(
        resolved.plan.cases[3],
        Case {
            id: CaseId::new("scale", "wide", "large"),
            dims: [("N".to_owned(), 4096)].into(),
            tensors: vec![
                tensor("x", Role::In, Some(normal)),
                tensor("y", Role::Out, None),
            ],
            steps: vec![Step {
                args: vec![
                    Arg::Tensor {
                        name: "x".to_owned()
                    },
                    Arg::Tensor {
                        name: "y".to_owned()
                    },
                    Arg::Scalar {
                        elem: ScalarType::I32,
                        value: ScalarValue::Int(4096),
                    },
                    Arg::Scalar {
                        elem: ScalarType::F32,
                        value: ScalarValue::Float(Num(0.5)),
                    },
                ],
                launch: Some(Launch {
                    grid: [64, 1, 1],
                    block: [64, 1, 1],
                    cluster: None,
                    cooperative: false,
                    dynamic_shared: 0,
                }),
                before: Vec::new(),
                after: Vec::new(),
            }],
            seeds: vec![1, 2, 3, 4, 5],
            reference: Reference::Unary {
                x: "x".to_owned(),
                out: "y".to_owned(),
                op: Unary::Relu,
            },
            tolerance: Some(Num(1e-6)),
            determinism: Determinism::BitExact,
            launches: 8,
            deadline_ms: 30_000,
            timed: true,
        }
    );
    assert_eq!(resolved.plan.timing, super::super::defaults::TIMING);
}

#[test]
fn timing() {
    let resolved = right(
        "kernels:\n",
        "timing: {mode: cold, warmup: 0, iterations: 9, singles: 10, batch: 1.5ms, processes: 9}\nkernels:\n",
    );
    assert_eq!(
        resolved.plan.timing,
        Schedule {
            mode: Mode::Cold,
            warmup: 0,
            iterations: 9,
            singles: 10,
            batch_ns: 1_500_000,
            processes: 9,
            // Never fewer than at first.
            max_processes: 9,
        }
    );
}

#[test]
fn seeds() {
    let of = |seeds: &str| -> Vec<Vec<u64>> {
        let resolved = right("    shapes:", &format!("    seeds: {seeds}\n    shapes:"));
        resolved
            .plan
            .cases
            .iter()
            .take(2)
            .map(|case| case.seeds.clone())
            .collect()
    };
    assert_eq!(of("2"), [[1, 2], [1, 2]]);
    assert_eq!(of("[7, 0]"), [[7, 0], [7, 0]]);
    assert_eq!(of("{default: 1, large: [5]}"), [[1], [5]]);
    assert_eq!(of("{large: 1}"), [vec![1, 2, 3, 4, 5], vec![1]]);
}

/// `RIGHT` with an integer tensor `x` and the reference in the user's hands.
fn with_integers(x: &str) -> String {
    with("x: {type: f32, shape: [N]}", x).replace(
        "unary: {x: x, out: y, op: relu}",
        "user: {source: r.cpp, function: f, args: [{tensor: x}, {tensor: y}]}",
    )
}

#[test]
fn fills_and_codecs() {
    let tensor = |x: &str| accepted(&with_integers(x)).plan.cases[0].tensors[0].clone();
    let fill = |x: &str| tensor(x).fill.unwrap();
    assert_eq!(fill("x: {type: i32, shape: [N], fill: iota}"), Fill::Iota);
    assert_eq!(
        fill("x: {type: i64, shape: [N], fill: permutation}"),
        Fill::Permutation
    );
    assert_eq!(
        fill("x: {type: i32, shape: [N + 1], fill: {offsets: {total: 7 * N, min: 1}}}"),
        Fill::Offsets { total: 896, min: 1 }
    );
    assert_eq!(
        fill("x: {type: u32, shape: [N], fill: {block_table: {pool: 2 * N}}}"),
        Fill::BlockTable { pool: 256 }
    );
    assert_eq!(
        fill("x: {type: i8, shape: [3], fill: {values: [1, -128, 127]}}"),
        Fill::Values {
            values: vec![Num(1.0), Num(-128.0), Num(127.0)]
        }
    );
    assert_eq!(
        fill("x: {type: f16, shape: [], fill: {uniform: {low: -1, high: 0.5}}}"),
        Fill::Uniform {
            low: Num(-1.0),
            high: Num(0.5)
        }
    );
    assert_eq!(
        fill("x: {type: f32, shape: [N], fill: {normal: {std: 8}}}"),
        Fill::Normal {
            mean: Num(0.0),
            std: Num(8.0)
        }
    );
    assert_eq!(
        tensor("x: {type: f32, shape: [2, 3], strides: [4, 1]}").strides,
        Some(vec![4, 1])
    );
    assert_eq!(
        tensor("x: {role: inout, type: f32, shape: [N]}").role,
        Role::Inout
    );

    let codec = |x: &str| tensor(x).codec.unwrap();
    assert_eq!(
        codec("x: {type: e4m3, shape: [2, 8, N], codec: {symmetric: {per: {axes: [0, 1]}}}}"),
        Codec {
            scheme: CodecScheme::Symmetric {
                levels: Num(448.0),
                zero_point: 0,
                scale_divisor: Num(448.0)
            },
            block: vec![1, 1, 128],
        }
    );
    assert_eq!(
        codec("x: {type: u8, shape: [N], codec: {symmetric: {per: tensor, scale_divisor: 448}}}"),
        Codec {
            scheme: CodecScheme::Symmetric {
                levels: Num(127.0),
                zero_point: 128,
                scale_divisor: Num(448.0)
            },
            block: vec![128],
        }
    );
    assert_eq!(
        codec("x: {type: i8, shape: [4, N], codec: {affine: {per: {block: [1, 32]}}}}"),
        Codec {
            scheme: CodecScheme::Affine {
                low: -128,
                high: 127
            },
            block: vec![1, 32]
        }
    );
}

#[test]
fn arguments_by_value() {
    let args = "{struct: [{tensor: x}, {tensor: y}, {pad: 4}, {struct: [{u8: 7}]}]}, {bool: 1}, {i64: N}, nullptr";
    let resolved = right("{tensor: x}, {tensor: y}, {i32: N}", args);
    let name = |name: &str| Arg::Tensor {
        name: name.to_owned(),
    };
    let scalar = |elem, value| Arg::Scalar {
        elem,
        value: ScalarValue::Int(value),
    };
    assert_eq!(
        resolved.plan.cases[0].steps[0].args,
        [
            Arg::Struct {
                fields: vec![
                    name("x"),
                    name("y"),
                    Arg::Pad { bytes: 4 },
                    Arg::Struct {
                        fields: vec![scalar(ScalarType::U8, 7)]
                    },
                ]
            },
            scalar(ScalarType::Bool, 1),
            scalar(ScalarType::I64, 128),
            Arg::Null,
            Arg::Scalar {
                elem: ScalarType::F32,
                value: ScalarValue::Float(Num(0.5))
            },
        ]
    );
}

#[test]
fn a_variant_can_be_a_sequence() {
    let resolved = right(
        "wide: {define: {WIDE: 1}}",
        "wide:\n        sequence:\n          - {entry: \"first<float>\", args: [{tensor: x}, {tensor: y}], launch: {grid: [N / 64], block: [64]}}\n          \
         - {entry: second, args: [{tensor: y}, {i32: N}], launch: {grid: [1], block: [32]}}",
    );
    assert_eq!(
        resolved.plan.units[0].call,
        Callable::Entries {
            names: vec!["scale".to_owned()],
            constants: Vec::new(),
        }
    );
    assert_eq!(
        resolved.plan.units[2].call,
        Callable::Entries {
            names: vec!["first<float>".to_owned(), "second".to_owned()],
            constants: Vec::new(),
        }
    );
    let steps = |id: &str| {
        case(&resolved, id)
            .steps
            .iter()
            .map(|step| (step.args.len(), step.launch.unwrap().grid[0]))
            .collect::<Vec<_>>()
    };
    assert_eq!(steps("scale/plain@large"), [(4, 64)]);
    assert_eq!(steps("scale/wide@small"), [(2, 2), (2, 1)]);
    assert_eq!(steps("scale/wide@large"), [(2, 64), (2, 1)]);
}

/// `RIGHT` with a launcher of these `launches` and `args`.
fn with_launcher(launches: &str, args: &str) -> String {
    with(
        "    entry: scale\n",
        &format!("    launcher: {{function: run, launches: {launches}}}\n"),
    )
    .replace(
        "    launch: {grid: [\"ceil_div(N, TILE)\"], block: [TILE]}\n",
        "",
    )
    .replace("[{tensor: x}, {tensor: y}, {i32: N}, {f32: 0.5}]", args)
}

#[test]
fn launchers() {
    let launches = "[{entry: \"k<float, 4>\", dynamic_shared: N * 4}, {entry: reduce}]";
    let resolved = accepted(&with_launcher(
        launches,
        "[{tensor: x}, {tensor: y}, {i32: N}, stream]",
    ));
    // The most over all shapes, whichever is run.
    assert_eq!(
        resolved.plan.units[0].call,
        Callable::Launcher {
            function: "run".to_owned(),
            signature: vec![
                CType::Pointer,
                CType::Pointer,
                CType::Scalar(ScalarType::I32),
                CType::Stream
            ],
            launches: vec![
                LaunchedEntry {
                    name: "k<float, 4>".to_owned(),
                    dynamic_shared: 16384
                },
                LaunchedEntry {
                    name: "reduce".to_owned(),
                    dynamic_shared: 0
                },
            ],
        }
    );
    assert_eq!(resolved.plan.cases[0].steps[0].launch, None);
}

#[test]
fn a_variant_changes_tensors_launch_and_entry() {
    let resolved = right(
        "wide: {define: {WIDE: 1}}",
        "wide: {entry: \"scale<2>\", define: {TILE: 32}, launch: {grid: [1, N], block: [TILE]}, nondeterministic: float \
         atomics, tensors: {x: {type: f16, shape: [N]}}}",
    );
    let wide = case(&resolved, "scale/wide@small");
    assert_eq!(wide.steps[0].launch.unwrap().grid, [1, 128, 1]);
    assert_eq!(wide.steps[0].launch.unwrap().block, [32, 1, 1]);
    assert_eq!(wide.tensors[0].elem, ElemType::F16);
    assert_eq!(
        wide.determinism,
        Determinism::Declared {
            reason: "float atomics".to_owned()
        }
    );
    assert_eq!(
        resolved.plan.units[2].call,
        Callable::Entries {
            names: vec!["scale<2>".to_owned()],
            constants: Vec::new(),
        }
    );
    let plain = case(&resolved, "scale/plain@small");
    assert_eq!(plain.tensors[0].elem, ElemType::F32);
    assert_eq!(plain.determinism, Determinism::BitExact);
}

#[test]
fn a_kernel_without_shapes_or_variants_has_one_of_each() {
    let text = with(
        "    variants:\n      plain: {}\n      wide: {define: {WIDE: 1}}\n",
        "",
    )
    .replace(
        "    shapes:\n      small: {N: 128}\n      large: {N: 4096}\n",
        "",
    )
    .replace("TILE: 64", "TILE: 64, N: 64");
    let resolved = accepted(&text);
    assert_eq!(resolved.plan.cases.len(), 1);
    assert_eq!(
        resolved.plan.cases[0].id.to_string(),
        "scale/default@default"
    );
    assert!(
        resolved
            .gates
            .iter()
            .all(|gate| gate.rule != Rule::HasEffect)
    );
}

#[test]
fn one_letter_names_are_no_booleans() {
    // YAML 1.1 reads N, y and on as truths.
    let text = RIGHT
        .replace("N", "y")
        .replace("y: {role", "on: {role")
        .replace("tensor: y", "tensor: on")
        .replace("out: y", "out: on");
    assert_eq!(accepted(&text).plan.cases[0].dims["y"], 128);
}

#[test]
fn a_dimension_may_be_an_expression_over_others_in_any_order() {
    let resolved = right(
        "small: {N: 128}\n      large: {N: 4096}",
        "small: {BLOCKS: \"ceil_div(K, 24)\", K: N / 2, N: 128}\n      large: {N: 4096, K: 7, BLOCKS: 1}",
    );
    let dims = |id: &str| {
        let dims = &case(&resolved, id).dims;
        ["N", "K", "BLOCKS"].map(|dim| dims[dim])
    };
    assert_eq!(dims("scale/plain@small"), [128, 64, 3]);
    assert_eq!(dims("scale/wide@large"), [4096, 7, 1]);
}

#[test]
fn the_template_loads() {
    assert_eq!(accepted(template()).plan.cases.len(), 2);
}

#[test]
fn paths_are_normalised_and_stay_inside() {
    let unit = |source: &str| right("source: scale.cu", source).plan.units[0].clone();
    assert_eq!(unit("source: ./a/./b.cu").source, "a/b.cu");
    assert_eq!(
        unit("source: a.cu\n    include_dirs: [., \"inc/\"]").include_dirs,
        [".", "inc"]
    );
}

#[test]
fn rejects_compiler_settings_for_compiled_sources() {
    let text = RIGHT.replace("source: scale.cu", "source: scale.ptx");
    let text = text
        .replace("    define: {TILE: 64, MODE: fast}\n", "")
        .replace("wide: {define: {WIDE: 1}}", "wide: {entry: wide}")
        .replace("TILE", "64");
    assert_eq!(accepted(&text).plan.units[0].source, "scale.ptx");
    let text = text.replace(
        "source: scale.ptx",
        "source: scale.ptx\n    flags: [-maxrregcount=32]",
    );
    assert_eq!(accepted(&text).plan.units[0].flags, ["-maxrregcount=32"]);
}

/// A record is the same on every machine.
#[test]
fn directories_outside_the_tree_are_recorded_as_written() {
    let dirs = |dirs: &str| {
        let text = format!("source: scale.cu\n    include_dirs: [{dirs}]");
        right("source: scale.cu", &text).plan.units[0]
            .include_dirs
            .clone()
    };
    assert_eq!(
        dirs("inc, \"${TORCH_INCLUDE}\", \"${TORCH_INCLUDE}/ATen/\", /opt/cutlass/"),
        [
            "inc",
            "${TORCH_INCLUDE}",
            "${TORCH_INCLUDE}/ATen",
            "/opt/cutlass"
        ]
    );
}

/// Editors read the file; `UPDATE_SCHEMA=1 cargo test` writes it again.
#[test]
fn the_schema_file_is_the_schema_of_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../gates.schema.json");
    let generated = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, &generated).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == generated,
        "gates.schema.json is not what `gatekeeper schema` prints; UPDATE_SCHEMA=1 cargo test writes it"
    );
}

/// Editors show it for each key and complete by it.
#[test]
fn every_property_of_the_schema_has_a_description() {
    fn find(at: &str, schema: &serde_json::Value, all: &mut Vec<(String, bool)>) {
        if let Some(properties) = schema
            .get("properties")
            .and_then(|schema| schema.as_object())
        {
            for (key, property) in properties {
                let text = property
                    .get("description")
                    .and_then(|property| property.as_str());
                let is_described = text.is_some_and(|text| !text.trim().is_empty());
                all.push((format!("{at}/{key}"), is_described));
            }
        }
        match schema {
            serde_json::Value::Object(keys) => {
                for (key, below) in keys {
                    find(&format!("{at}/{key}"), below, all);
                }
            }
            serde_json::Value::Array(items) => {
                for (number, below) in items.iter().enumerate() {
                    find(&format!("{at}/{number}"), below, all);
                }
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    find("", &schema(), &mut all);
    assert!(all.len() > 300, "{}", all.len());
    let bare: Vec<_> = all
        .iter()
        .filter(|(_, is_described)| !is_described)
        .collect();
    assert!(bare.is_empty(), "{bare:#?}");
}
