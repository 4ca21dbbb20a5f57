//! Tests two compiled kernels that nobody ran, without line tables, as in most libraries.

use crate::{CauseClass, CodeComparison, Compiled, Measure, explain_compiled};
use model::{CodeFacts, CodeLine, CodePlace, EntryCode, InstructionKind as Kind, LineCode};
use model::{LoopCode, Width};
use std::collections::BTreeMap;

const LOAD: Kind = Kind::GlobalLoad(Width::W32);
const STACK_LOAD: Kind = Kind::StackLoad(Width::W32);
const STACK_STORE: Kind = Kind::StackStore(Width::W32);

type Mix<'a> = &'a [(Kind, u32)];

/// Returns code outside of loops, and the code of each loop. No loop is inside another one.
fn code(straight: Mix, loops: &[Mix]) -> CodeFacts {
    let line = |mix: Mix, in_loop| LineCode {
        place: None,
        in_loop,
        function: None,
        mix: mix.iter().copied().collect(),
        predicated: 0,
        ahead: None,
        calls: BTreeMap::new(),
    };
    let mut lines = vec![line(straight, None)];
    lines.extend(
        loops
            .iter()
            .enumerate()
            .map(|(at, mix)| line(mix, Some(at))),
    );
    let unknown = |_: &Mix| LoopCode {
        place: None,
        parent: None,
        step: None,
    };
    CodeFacts {
        disassembler: String::new(),
        entries: vec![EntryCode {
            symbol: "k".to_owned(),
            lines,
            loops: loops.iter().map(unknown).collect(),
        }],
        text: BTreeMap::new(),
    }
}

fn explained(base: &CodeFacts, head: &CodeFacts) -> Vec<crate::Cause> {
    let arch = "sm_90".parse().unwrap();
    let side = |code| Compiled::alone(arch, None, Some(code));
    explain_compiled(side(base), side(head))
}

fn classes(base: &CodeFacts, head: &CodeFacts) -> Vec<CauseClass> {
    let causes = explained(base, head);
    causes.into_iter().map(|cause| cause.class).collect()
}

#[test]
fn a_loop_that_does_an_eighth_in_a_turn_is_unrolled_less() {
    let rest: Mix = &[(Kind::Fp32, 1), (LOAD, 2), (Kind::Int, 3)];
    let unrolled = code(
        &[(Kind::Move, 9)],
        &[&[(Kind::Fp32, 8), (LOAD, 16), (Kind::Int, 4)], rest],
    );
    let plain = code(&[(Kind::Move, 9)], &[rest]);
    let causes = explained(&unrolled, &plain);
    assert_eq!(causes[0].class, CauseClass::UnrollLost);
    assert_eq!(causes[0].values[0].measure, Measure::LoopSize);
    assert_eq!(
        (causes[0].values[0].base.0, causes[0].values[0].head.0),
        (28.0, 6.0)
    );
    assert!(!classes(&plain, &unrolled).contains(&CauseClass::UnrollLost));
}

#[test]
fn a_loop_that_was_none_is_unrolled_less() {
    let straight = code(&[(Kind::Fp32, 16), (LOAD, 32), (Kind::Move, 9)], &[]);
    let looped = code(&[(Kind::Move, 9)], &[&[(Kind::Fp32, 1), (LOAD, 2)]]);
    assert_eq!(classes(&straight, &looped), [CauseClass::UnrollLost]);
    // Both execute the same number of instructions, with fewer branches.
    assert_eq!(classes(&looped, &straight), [CauseClass::CodeChanged]);
    // Nobody knows which of two new loops did what.
    let twice = code(
        &[(Kind::Move, 9)],
        &[&[(Kind::Fp32, 1), (LOAD, 2)], &[(Kind::Fp64, 1), (LOAD, 1)]],
    );
    assert!(!classes(&straight, &twice).contains(&CauseClass::UnrollLost));
}

/// The kernel sorts a block. A new compiler unrolls it, and as many barriers are executed as before.
#[test]
fn barriers_of_a_loop_that_is_unrolled_are_not_more() {
    let work: Mix = &[(Kind::Barrier, 4), (LOAD, 20), (Kind::Fp32, 11)];
    let looped = code(&[(Kind::Barrier, 6)], &[work]);
    let unrolled = code(&[(Kind::Barrier, 38), (LOAD, 110), (Kind::Fp32, 40)], &[]);
    assert!(!classes(&looped, &unrolled).contains(&CauseClass::BarrierAdded));
    let added = code(&[(Kind::Barrier, 7)], &[work]);
    assert_eq!(classes(&looped, &added)[0], CauseClass::BarrierAdded);
}

#[test]
fn loops_that_do_other_work_are_taken_for_the_same_and_not_unrolled_less() {
    let single = code(&[], &[&[(Kind::Fp32, 64), (LOAD, 8)]]);
    let double = code(&[], &[&[(Kind::Fp64, 16), (LOAD, 4)]]);
    assert_eq!(classes(&single, &double), [CauseClass::DoublePrecision]);
}

#[test]
fn what_is_stored_on_the_stack_and_read_back_is_spilled() {
    let base = code(&[(Kind::Fp32, 9)], &[]);
    let spilling = code(&[(Kind::Fp32, 9), (STACK_STORE, 3), (STACK_LOAD, 4)], &[]);
    let causes = explained(&base, &spilling);
    assert_eq!(causes[0].class, CauseClass::Spills);
    let measures: Vec<_> = causes[0]
        .values
        .iter()
        .map(|cause| cause.measure.clone())
        .collect();
    assert_eq!(
        measures,
        [Measure::Code(STACK_LOAD), Measure::Code(STACK_STORE)]
    );
    assert_eq!(classes(&spilling, &base), [CauseClass::CodeChanged]);
    assert_eq!(classes(&base, &base), [CauseClass::NothingChanged]);
    // These are arguments of a function, or a variable that has an address.
    let arguments = code(&[(Kind::Fp32, 9), (STACK_STORE, 3)], &[]);
    assert_eq!(classes(&base, &arguments), [CauseClass::MoreInstructions]);
}

#[test]
fn a_reciprocal_without_conversions_of_its_own_is_no_division() {
    let base = code(&[(Kind::Fp32, 9), (Kind::Conversion, 60)], &[]);
    let with = |conversions| {
        let mix = [
            (Kind::Fp32, 9),
            (Kind::Conversion, conversions),
            (Kind::Reciprocal, 2),
        ];
        code(&mix, &[])
    };
    assert_eq!(classes(&base, &with(60)), [CauseClass::MoreInstructions]);
    assert_eq!(classes(&base, &with(64))[0], CauseClass::SlowDivision);
}

#[test]
fn lines_of_one_side_alone_are_no_lines() {
    let base = code(&[(Kind::Fp32, 9)], &[]);
    let mut head = code(&[(Kind::Fp32, 9), (Kind::Barrier, 2)], &[]);
    head.entries[0].lines[0].place = Some(CodePlace {
        line: CodeLine {
            file: "k.cu".to_owned(),
            number: 3,
        },
        inlined_at: Vec::new(),
    });
    let causes = explained(&base, &head);
    assert_eq!(causes[0].class, CauseClass::BarrierAdded);
    assert!(
        causes.iter().all(|cause| cause.places.is_empty()),
        "{causes:?}"
    );
}

/// A loop of integers does nothing that counts as work elsewhere, so its step has to agree with their number.
#[test]
fn a_loop_of_integers_is_unrolled_less_if_its_step_says_so() {
    let loop_of = |integers, step| {
        let mut code = code(
            &[(Kind::Move, 9)],
            &[&[(Kind::Int, integers), (Kind::Compare, 1)]],
        );
        code.entries[0].loops[0].step = Some(step);
        with_lines(code)
    };
    let unrolled = loop_of(25, -4);
    assert_eq!(
        classes(&unrolled, &loop_of(7, 1))[0],
        CauseClass::UnrollLost
    );
    // Here a turn does less, and there are as many of them.
    assert_eq!(
        classes(&unrolled, &loop_of(7, 4)),
        [CauseClass::CodeChanged]
    );
    let straight = with_lines(code(&[(Kind::Int, 96)], &[]));
    assert_eq!(
        classes(&straight, &loop_of(8, 1))[0],
        CauseClass::UnrollLost
    );
}

#[test]
fn loads_that_are_needed_at_once_expose_their_latency() {
    let ahead = |loads, distance| {
        let mut code = with_lines(code(&[], &[&[(LOAD, loads), (Kind::Fp32, 90)]]));
        code.entries[0].lines[1].ahead = distance;
        code
    };
    let early = ahead(4, Some(400));
    let causes = explained(&early, &ahead(4, Some(12)));
    assert_eq!(causes[0].class, CauseClass::LatencyExposed);
    let value = &causes[0].values[0];
    assert_eq!((value.base.0, value.head.0), (100.0, 3.0));
    // A little later, other loads, and a record of an older version say nothing.
    for head in [ahead(4, Some(300)), ahead(8, Some(24)), ahead(4, None)] {
        let classes = classes(&early, &head);
        assert!(
            !classes.contains(&CauseClass::LatencyExposed),
            "{classes:?}"
        );
    }
}

#[test]
fn lines_in_another_order_are_edited() {
    let of_texts = |integers, texts: [&str; 2]| {
        let mut code = code(&[(Kind::Int, integers)], &[&[(Kind::Int, 1)]]);
        for (number, (line, text)) in (3..).zip(code.entries[0].lines.iter_mut().zip(texts)) {
            let place = at(number);
            let file = code.text.entry(place.line.file.clone()).or_default();
            file.insert(number, text.to_owned());
            line.place = Some(place);
        }
        code
    };
    let is_unedited = |base: &CodeFacts, head: &CodeFacts| {
        let arch = "sm_90".parse().unwrap();
        let side = |code| Compiled::alone(arch, None, Some(code));
        CodeComparison::new(side(base), side(head)).is_unedited()
    };
    let base = of_texts(1, ["first();", "__syncthreads();"]);
    // A macro has another value.
    let head = of_texts(2, ["first();  // once", "__syncthreads();"]);
    assert!(is_unedited(&base, &head));
    assert!(!is_unedited(
        &base,
        &of_texts(2, ["__syncthreads();", "first();"])
    ));
}

fn at(number: u32) -> CodePlace {
    CodePlace {
        line: CodeLine {
            file: "k.cu".to_owned(),
            number,
        },
        inlined_at: Vec::new(),
    }
}

/// Puts all code on one line.
fn with_lines(mut code: CodeFacts) -> CodeFacts {
    let place = Some(at(3));
    for entry in &mut code.entries {
        entry
            .lines
            .iter_mut()
            .for_each(|line| line.place.clone_from(&place));
        entry
            .loops
            .iter_mut()
            .for_each(|nested| nested.place.clone_from(&place));
    }
    code
}
