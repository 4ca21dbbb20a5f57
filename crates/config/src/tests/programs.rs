//! Tests `programs:`, and the messages for mistakes in it.

use super::*;
use model::{Limit, Metric, Num, Rule};
use system::error::Diagnostic;

const PROGRAMS: &str = include_str!("edits/programs.yaml");

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
fn a_program_and_a_kernel_have_different_names() {
    let both = format!("{RIGHT}{}", PROGRAMS.trim_start_matches("version: 1\n"));
    accepted(&both);
    let said = said_of(&both.replace("decode:", "scale:"));
    assert!(said.contains("a kernel is called `scale`, too"), "{said}");
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

const OUTPUTS: &str = include_str!("edits/outputs.yaml");

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
