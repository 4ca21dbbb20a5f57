//! `programs:`, and the messages for mistakes in it.

use super::*;
use model::{Limit, Metric, Num, Rule};
use system::error::Diagnostic;

const PROGRAMS: &str = r#"version: 1
programs:
  decode:
    command: [python, bench.py]
    build: pip install -e .
    kernels: ["*softmax*"]
    launches: 2
    gates: {p50: "+1% of base", registers: "+0", spills: 0, output: same}
"#;

fn check(old: &str, new: &str, expected: &str) {
    assert_eq!(PROGRAMS.matches(old).count(), 1, "{old}");
    assert_eq!(said_of(&PROGRAMS.replace(old, new)), expected, "{new}");
}

#[test]
fn a_program_is_read_with_its_limits() {
    let resolved = accepted(PROGRAMS);
    let [program] = &resolved.programs[..] else {
        panic!("{:?}", resolved.programs);
    };
    assert_eq!(program.command, ["python", "bench.py"]);
    let build = program.build.as_deref().unwrap_or_default();
    assert_eq!(build, ["sh", "-c", "pip install -e ."]);
    assert_eq!((program.launches, program.deadline_ms), (2, 1_800_000));
    assert_eq!(program.declared, "gates.yaml:4");
    let [p50, registers, spills] = &program.limits[..] else {
        panic!("{:?}", program.limits);
    };
    let change = Num(0.01);
    let limit = Limit::Base { change };
    let metric = Metric::P50;
    assert_eq!(p50.rule, Rule::Limit { metric, limit });
    assert!(!p50.is_of_kernels() && registers.is_of_kernels() && spills.is_of_kernels());
    assert!(resolved.plan.cases.is_empty());
}

#[test]
fn mistakes_in_a_program_are_named_at_their_place() {
    mistakes! {
        "    command: [python, bench.py]\n" => "",
        "gates.yaml:4:5: programs.decode: the key `command` is missing";
        "[python, bench.py]" => "[]",
        "gates.yaml:4:14: programs.decode.command: no command: nothing would be started\n  help: command: [python, bench.py]";
        "[python, bench.py]" => "{python: bench.py}",
        "gates.yaml:4:14: programs.decode.command: expected a program and its arguments, or a line for the shell, not map";
        "pip install -e ." => "''",
        "gates.yaml:5:12: programs.decode.build: no command: nothing would be started\n  help: command: [python, bench.py]";
        "launches: 2" => "launches: 0",
        "gates.yaml:7:15: programs.decode.launches: nothing would be captured";
        "launches: 2" => "lanches: 2",
        "gates.yaml:7:5: programs.decode.lanches: unknown key `lanches`\n  help: did you mean `launches`?";
        "launches: 2" => "deadline: soon",
        "gates.yaml:7:15: programs.decode.deadline: `soon` is not a duration\n  help: write a number and its unit: 30s, 500ms, 200us";
        "[\"*softmax*\"]" => "['']",
        "gates.yaml:6:15: programs.decode.kernels[0]: an empty glob fits no name";
        "output: same" => "output: close",
        "gates.yaml:8:69: programs.decode.gates.output: the output of a launch is `same`, bit for bit, or floats that may differ by a share: \"f32:1e-5\"";
        "output: same" => "output: \"f32:1\"",
        "gates.yaml:8:69: programs.decode.gates.output: the output of a launch is `same`, bit for bit, or floats that may differ by a share: \"f32:1e-5\"";
        "spills: 0" => "max_err: 0",
        "gates.yaml:8:50: programs.decode.gates.max_err: a captured launch has no `max_err`\n  help: it has registers, shared, spills, stack, occupancy, blocks_per_sm, p50, p90, p99, mean, min, max, cycles, cv, slow_share, and output";
        "spills: 0" => "spills: registers",
        "gates.yaml:8:58: programs.decode.gates.spills: a limit on a captured launch must be a number or a relative limit\n  help: examples: `128`, `400us`, `+1% of base`";
        "spills: 0" => "spills: {sm_90: 0}",
        "gates.yaml:8:58: programs.decode.gates.spills: expected a limit or a list of limits";
        "decode:" => "de/code:",
        "gates.yaml:3:3: programs.de/code: `de/code` cannot name a program: use letters, digits, _ and -";
    }
}

#[test]
fn a_program_and_a_kernel_have_different_names() {
    let both = format!("{RIGHT}{}", PROGRAMS.trim_start_matches("version: 1\n"));
    accepted(&both);
    let said = said_of(&both.replace("decode:", "scale:"));
    assert!(said.contains("a kernel is called `scale`, too"), "{said}");
    let none = said_of("version: 1\nprograms: {}\n");
    assert!(
        none.contains("no programs: nothing would be judged"),
        "{none}"
    );
}

#[test]
fn a_filter_names_a_program_and_leaves_out_others() {
    let both = format!("{RIGHT}{}", PROGRAMS.trim_start_matches("version: 1\n"));
    for (filter, programs, cases) in [("decode/softmax", 1, 0), ("scale", 0, 4), ("*", 1, 4)] {
        let mut resolved = accepted(&both);
        let selection = Selection {
            filters: vec![filter.to_owned()],
            ..Selection::default()
        };
        select::select(&mut resolved, &selection).unwrap();
        let found = (resolved.programs.len(), resolved.plan.cases.len());
        assert_eq!(found, (programs, cases), "{filter}");
    }
}

const OUTPUTS: &str = r#"version: 1
programs:
  decode:
    command: [python, bench.py]
    gates: {output: "f32:1e-5"}
    outputs:
      "*softmax*":
        reference: {softmax: {x: x, out: y}}
        tensors:
          x: {parameter: 0, type: f32, shape: [4096, 1024]}
          y: {parameter: 1, offset: 8, type: f32, shape: [4096, 1024], role: out}
        max_err: 1e-5
"#;

#[test]
fn an_output_is_read_with_its_reference() {
    let resolved = accepted(OUTPUTS);
    let program = &resolved.programs[0];
    assert_eq!(program.floats, "f32:1e-5".parse().ok());
    let [output] = &program.outputs[..] else {
        panic!("{:?}", program.outputs);
    };
    assert_eq!(output.kernels, "*softmax*");
    assert_eq!(output.declared, "gates.yaml:7");
    assert_eq!(output.tolerance, Some(Num(1e-5)));
    let mut second = vec![0; 8];
    second.extend(0x2000_u64.to_le_bytes());
    let launch = output
        .resolve(&[0x1000_u64.to_le_bytes().to_vec(), second])
        .unwrap();
    let found: Vec<_> = launch.tensors.iter().map(|tensor| &tensor.tensor).collect();
    assert_eq!(found[0].address, Some(0x1000));
    assert_eq!(found[1].address, Some(0x2000));
    assert_eq!(found[1].role, model::Role::Out);
    assert_eq!(found[1].dims, [4096, 1024]);
    let too_short = output.resolve(&[vec![0; 8], vec![0; 8]]).unwrap_err();
    assert_eq!(too_short.at.as_deref(), Some("gates.yaml:11"));
}

#[test]
fn scalars_are_read_from_parameters() {
    let text = OUTPUTS
        .replace("[4096, 1024]", "[rows, 2 * columns]")
        .replace(
            "        tensors:",
            "        scalars: {rows: {parameter: 2, type: i32}, columns: {parameter: 2, offset: 4, type: i8}}\n        tensors:",
        );
    let resolved = accepted(&text);
    let output = &resolved.programs[0].outputs[0];
    let pointers = vec![0; 16];
    let dims = |rows: i32, columns: i8| {
        let mut sizes = rows.to_le_bytes().to_vec();
        sizes.extend(columns.to_le_bytes());
        let launch = output.resolve(&[pointers.clone(), pointers.clone(), sizes])?;
        Ok::<_, Diagnostic>(launch.tensors[0].tensor.dims.clone())
    };
    assert_eq!(dims(3, 5).unwrap(), [3, 10]);
    let negative = dims(3, -5).unwrap_err();
    assert_eq!(negative.at.as_deref(), Some("gates.yaml:11"));
    assert!(
        negative.message.contains("the extent is -10"),
        "{}",
        negative.message
    );
}

#[test]
fn mistakes_in_outputs_are_named_at_their_place() {
    for (old, new, says) in [
        (
            "\"*softmax*\"",
            "''",
            "gates.yaml:7:7: programs.decode.outputs.: an empty glob fits no name",
        ),
        (
            "{softmax: {x: x, out: y}}",
            "{softmax: {x: z, out: y}}",
            "gates.yaml:8:34: programs.decode.outputs.*softmax*.reference.softmax.x: unknown tensor `z`\n  help: there are `x`, `y`",
        ),
        (
            "{softmax: {x: x, out: y}}",
            "none",
            "gates.yaml:8:20: programs.decode.outputs.*softmax*.reference: the reference of a captured launch is one that is computed\n  help: what outputs are compared with: a built-in like {rms_norm: {x: x, out: y}}, or a C or Python function like {user: {source: FILE.c, function: NAME, args: [...]}}",
        ),
        (
            "{softmax: {x: x, out: y}}",
            "{user: {source: /no.py, function: f, args: []}}",
            "gates.yaml:8:36: programs.decode.outputs.*softmax*.reference.user.source: `/no.py` is not a path of this repository\n  help: write it relative to the directory of gates.yaml, with forward slashes, and `..` at its beginning alone",
        ),
        (
            ", role: out",
            "",
            "gates.yaml:10:11: programs.decode.outputs.*softmax*.tensors: no tensor is an output: the reference has nothing to compute\n  help: give one `role: out` or `role: inout`",
        ),
        (
            "role: out",
            "role: reference",
            "gates.yaml:11:78: programs.decode.outputs.*softmax*.tensors.y.role: a tensor of a captured launch is in its memory: it cannot be for the reference alone",
        ),
        (
            "offset: 8, type: f32, shape: [4096, 1024]",
            "type: f32, shape: [4096, rows]",
            "gates.yaml:11:54: programs.decode.outputs.*softmax*.tensors.y.shape[1]: `rows` is not under `scalars`\n  help: scalars: {rows: {parameter: 2, type: i32}}",
        ),
        (
            "offset: 8, type: f32, shape: [4096, 1024]",
            "type: f32, shape: [4096]",
            "gates.yaml:8:42: programs.decode.outputs.*softmax*.reference.softmax.out: `y` is [4096]; the reference needs [4096, 1024]",
        ),
        (
            "max_err: 1e-5",
            "scalars: {n: {parameter: 0, type: f16}}\n        max_err: 1e-5",
            "gates.yaml:12:43: programs.decode.outputs.*softmax*.scalars.n.type: a scalar cannot have this type\n  help: i8 u8 i16 u16 i32 u32 i64 f32 f64",
        ),
        (
            "        max_err: 1e-5\n",
            "",
            "gates.yaml:8:9: programs.decode.outputs.*softmax*: neither `max_err` nor `rel_l2`: the output would be held to nothing\n  help: max_err: 1e-5",
        ),
        (
            "max_err: 1e-5",
            "max_err: \"+1%\"",
            "gates.yaml:12:18: programs.decode.outputs.*softmax*.max_err: the limit of a captured output must be a number",
        ),
        (
            "max_err: 1e-5",
            "max_err: 1e-5\n        nondeterministic: ''",
            "gates.yaml:13:27: programs.decode.outputs.*softmax*.nondeterministic: `nondeterministic` needs the reason why launches differ\n  help: nondeterministic: float atomics",
        ),
    ] {
        assert_eq!(OUTPUTS.matches(old).count(), 1, "{old}");
        assert_eq!(said_of(&OUTPUTS.replace(old, new)), says, "{new}");
    }
}
