use super::super::loaded::Loaded;
use super::super::select::{self, Selection};
use super::{RIGHT, accepted, read};
use model::{CaseId, Rule, Subject};

const SECOND: &str = r#"
  copy:
    source: copy.cu
    entry: copy
    shapes: {small: {N: 128}, odd: {N: 77}}
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}]
    launch: {grid: [N], block: [1]}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
"#;

fn selected(selection: &Selection) -> Result<Loaded, String> {
    let mut resolved = read(&format!("{RIGHT}{SECOND}")).unwrap();
    match select::select(&mut resolved, selection) {
        Ok(()) => Ok(resolved),
        Err(diagnostic) => Err(diagnostic.to_string()),
    }
}

fn filters(filters: &[&str]) -> Selection {
    Selection {
        filters: filters.iter().map(|&filter| filter.to_owned()).collect(),
        ..Selection::default()
    }
}

fn cases(selection: &Selection) -> Vec<String> {
    let resolved = selected(selection).unwrap();
    let cases: Vec<String> = resolved
        .plan
        .cases
        .iter()
        .map(|case| case.id.to_string())
        .collect();
    // Gates and units belong to these cases, and all of these cases have theirs.
    for gate in &resolved.gates {
        match &gate.subject {
            Subject::Case(id) => assert!(cases.contains(&id.to_string())),
            Subject::Unit(id) => assert!(resolved.plan.unit(id).is_some()),
        }
    }
    for unit in &resolved.plan.units {
        let prefix = format!("{}/{}@", unit.id.kernel, unit.id.variant);
        assert!(cases.iter().any(|case| case.starts_with(&prefix)));
    }
    for case in &resolved.plan.cases {
        assert!(
            resolved
                .plan
                .units
                .iter()
                .any(|unit| case.id.unit(unit.id.arch) == unit.id)
        );
    }
    cases
}

/// Requires the whole file and a selection without filters to be equal: the base is compared with head's whole file,
/// whatever is run.
#[test]
fn the_whole_file_equals_a_selection_without_filters() {
    let asked = Selection {
        seeds: Some(vec![7]),
        iters: Some(3),
        ..filters(&["copy@odd"])
    };
    let mut some = read(&format!("{RIGHT}{SECOND}")).unwrap();
    select::select(&mut some, &asked).unwrap();
    let all = selected(&Selection {
        filters: Vec::new(),
        ..asked
    });
    let all = all.unwrap();
    assert_eq!((some.whole.plan, some.whole.gates), (all.plan, all.gates));
    assert_eq!(some.plan.cases.len(), 1);
}

#[test]
fn everything_in_the_order_of_the_file() {
    assert_eq!(
        cases(&Selection::default()),
        [
            "scale/plain@small",
            "scale/plain@large",
            "scale/wide@small",
            "scale/wide@large",
            "copy/default@small",
            "copy/default@odd",
        ]
    );
}

#[test]
fn filters_are_globs_and_any_of_them_selects() {
    assert_eq!(
        cases(&filters(&["copy"])),
        ["copy/default@small", "copy/default@odd"]
    );
    assert_eq!(cases(&filters(&["scale/w*@large"])), ["scale/wide@large"]);
    assert_eq!(
        cases(&filters(&["*@odd", "scale/plain@small"])),
        ["scale/plain@small", "copy/default@odd"]
    );
    assert_eq!(
        cases(&filters(&["*/{wide,default}@small"])),
        ["scale/wide@small", "copy/default@small"]
    );
    assert_eq!(
        cases(&filters(&["*@{large,odd}"])),
        ["scale/plain@large", "scale/wide@large", "copy/default@odd"]
    );
}

#[test]
fn a_plan_that_leaves_out_cases_says_so() {
    let left_out = |selection: &Selection| {
        let kernels = selected(selection).unwrap().plan.left_out;
        kernels.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(left_out(&Selection::default()), [""; 0]);
    assert_eq!(left_out(&filters(&["*"])), [""; 0]);
    let small = selected(&filters(&["*@small"])).unwrap().plan;
    let [large, gone] = ["large", "gone"].map(|shape| CaseId::new("no more", "v", shape));
    assert!(!small.selects(&large) && !small.selects(&gone));
    assert!(small.selects(&CaseId {
        shape: "small".into(),
        ..gone
    }));
    // A kernel with all of its cases is whole, even if other kernels are missing.
    assert_eq!(left_out(&filters(&["copy"])), ["scale"]);
    assert_eq!(left_out(&filters(&["scale/wide"])), ["copy", "scale"]);
}

#[test]
fn an_only_variant_has_nothing_to_differ_from() {
    let has_effect = |selection| {
        let resolved = selected(&selection).unwrap();
        resolved
            .gates
            .iter()
            .filter(|gate| gate.rule == Rule::HasEffect)
            .count()
    };
    assert_eq!(has_effect(Selection::default()), 4);
    assert_eq!(has_effect(filters(&["scale/wide"])), 0);
    assert_eq!(has_effect(filters(&["copy"])), 0);
}

#[test]
fn a_filter_without_a_match_is_an_error_that_lists_the_names() {
    let said = |selection: Selection| selected(&selection).err().unwrap();
    assert_eq!(
        said(filters(&["scala"])),
        "the filter `scala` matches nothing\n  help: kernel: did you mean `scale`?"
    );
    assert_eq!(
        said(filters(&["copy", "scale/narrow"])),
        "the filter `scale/narrow` matches nothing\n  help: variant: there are `plain`, `wide`"
    );
    assert_eq!(
        said(filters(&["scale/wade@small"])),
        "the filter `scale/wade@small` matches nothing\n  help: variant: did you mean `wide`?"
    );
    assert_eq!(
        said(filters(&["*/wide@odd"])),
        "the filter `*/wide@odd` matches nothing\n  help: variant: there are `plain`, `wide`, `default`\n  \
         help: shape: there are `small`, `large`, `odd`"
    );
    assert_eq!(
        said(filters(&["scale@odd"])),
        "the filter `scale@odd` matches nothing\n  help: shape: there are `small`, `large`"
    );
    for malformed in ["", "/", "scale/", "@small", "a/b/c", "a@b@c"] {
        assert!(
            said(filters(&[malformed])).contains("is not a filter"),
            "{malformed}"
        );
    }
    assert_eq!(
        said(filters(&["["])),
        "`[` is not a glob: unclosed character class; missing ']'"
    );
}

#[test]
fn seeds_and_iterations_from_the_command_line_win() {
    let selection = Selection {
        seeds: Some(vec![7, 9]),
        iters: Some(5),
        ..Selection::default()
    };
    let plan = selected(&selection).unwrap().plan;
    assert!(plan.cases.iter().all(|case| case.seeds == [7, 9]));
    assert_eq!(plan.timing.iterations, 5);
    let said = |selection: Selection| selected(&selection).err().unwrap();
    assert_eq!(
        said(Selection {
            seeds: Some(Vec::new()),
            ..Selection::default()
        }),
        "--seeds lists no seed"
    );
    assert_eq!(
        said(Selection {
            seeds: Some(vec![1, 2, 1]),
            ..Selection::default()
        }),
        "--seeds: duplicate seed 1\n  help: a seed gives the same inputs each time: list each once"
    );
    assert_eq!(
        said(Selection {
            iters: Some(0),
            ..Selection::default()
        }),
        "--iters 0 would measure nothing"
    );
}

#[test]
fn rivals_of_kernels_that_are_not_selected_are_not_run() {
    let two = include_str!("edits/rivals.yaml").replace(
        "kernels:\n",
        "kernels:\n  other: &other\n    source: scale.cu\n    entry: scale\n    shapes: {small: {N: 128}}\n    tensors:\n      x: {type: f32, shape: [N]}\n      y: {role: out, type: f32, shape: [N]}\n    args: [{tensor: x}, {tensor: y}]\n    launch: {grid: [1], block: [32]}\n    reference: {unary: {x: x, out: y, op: relu}}\n    gates: {max_err: 1e-6}\n",
    );
    let mut resolved = accepted(&two);
    select::select(&mut resolved, &filters(&["other"])).unwrap();
    assert_eq!(resolved.plan.rivals, []);
}
