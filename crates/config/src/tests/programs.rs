//! `programs:`, and the messages for mistakes in it.

use super::*;
use model::{Limit, Metric, Num, Rule};

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
        "gates.yaml:8:69: programs.decode.gates.output: the output of a launch is compared bit for bit: write `same`, or leave it out";
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
