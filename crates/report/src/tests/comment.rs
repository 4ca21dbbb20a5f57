//! The comment on a pull request: what is seen before anything is unfolded.

use super::*;
use model::{
    Access, AccessKind, Base, Counter, ElemType, Finding, FindingKind, LineCount, Mistyped,
};

/// Lines as they are seen, and their bytes: a table's rule is no line. The action adds one more, the link to the run.
fn unfolded(comment: &str) -> String {
    let (open, folded) = comment.split_once("<details>").unwrap();
    let (summary, _) = folded.split_once('\n').unwrap();
    let lines = open
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("|---"))
        .map(str::to_owned)
        .chain([summary.replace("<summary>", "> ").replace("</summary>", "")]);
    // Without the spaces of no width that keep names from being mentions.
    lines.collect::<Vec<_>>().join("\n").replace('\u{200b}', "")
}

const MOST_LINES: usize = 10;
const LINK: usize = 1;
const MOST_BYTES: usize = 10_000;
/// Characters, which a comment on GitHub may have.
const WHOLE: usize = 65_536;

fn comment(record: &Record) -> (String, String) {
    let text = rendered(record, &judged(record), markdown::render);
    let open = unfolded(&text);
    let lines = open.lines().count() + LINK;
    assert!(lines <= MOST_LINES, "{lines} lines: {open}");
    assert!(open.len() < MOST_BYTES, "{} bytes: {open}", open.len());
    assert!(text.len() < WHOLE, "{} bytes", text.len());
    // GitHub reads markdown after an empty line, and a table from its first line on.
    assert_eq!(
        text.matches("<details>").count(),
        text.matches("</details>").count()
    );
    (open, text)
}

#[test]
fn pass_has_its_counts_and_nothing_else() {
    let (open, text) = comment(&fixture::record());
    insta::assert_snapshot!(open, @r"
### ✅ gatekeeper: PASS: 44 passed
> Details
");
    assert_eq!(open.lines().count(), 2);
    assert!(text.contains("<summary>All values</summary>"), "{text}");
    let (open, text) = comment(&fixture::record_against_base());
    insta::assert_snapshot!(open, @r"
### ✅ gatekeeper: PASS: 44 passed
Against origin/main (0a34415aaaaa): 2 cases changed, 2 unchanged
> Details
");
    assert!(open.lines().count() + LINK <= 5, "{open}");
    assert!(text.contains("#### Compared with origin/main"), "{text}");
}

fn access(thread: u32, kind: AccessKind) -> Access {
    Access {
        thread: Some([thread, 0, 0]),
        kind,
    }
}

fn race(lines: [(u32, &str); 2]) -> Finding {
    let place = |(number, text): (u32, &str)| Place {
        at: format!("k.cu:{number}"),
        line: Some(SourceLine {
            file: "k.cu".into(),
            number,
            text: Some(text.into()),
        }),
    };
    Finding {
        kind: FindingKind::SharedRace,
        entry: None,
        message: format!("race on shared memory, line {}", lines[0].0),
        places: lines.map(place).into(),
        accesses: vec![access(0, AccessKind::Write), access(32, AccessKind::Read)],
        block: [0; 3],
        thread: [0; 3],
        address: Some(0x40),
        times: 5120,
    }
}

fn plant(record: &mut Record, shape: &str, found: &[Finding]) {
    let of = fixture::case_id("direct", shape);
    fixture::resimulate(record, &of, |_, facts| {
        if let Seen::Got(facts) = facts {
            facts.findings = found.to_vec();
        }
    });
}

fn spoil(record: &mut Record, shape: &str) {
    let of = fixture::case_id("direct", shape);
    fixture::recheck(record, &of, |_, facts| {
        facts.error.max_err = Num(0.3);
    });
}

const FIRST: [(u32, &str); 2] = [(9, "part[warp] = x;"), (7, "y = part[0];")];

#[test]
fn race_is_named_with_its_line_and_its_consequences_are_folded() {
    let mut record = fixture::record_simulated();
    plant(&mut record, "small", &[race(FIRST)]);
    spoil(&mut record, "small");
    let (open, text) = comment(&record);
    insta::assert_snapshot!(open, @r"
### ❌ gatekeeper: k/direct@small: race on shared memory (k.cu:7)
Why: race on shared memory, line 9. Repeat: `gatekeeper run --device sim 'k/direct@small'`
> FAIL: 1 problem (2 gates), 28 passed, 22 not judged
");
    let (_, folded) = text.split_once("<details>").unwrap();
    assert!(
        folded.contains("`k.cu:7` `y = part[0];` thread 32 reads"),
        "{folded}"
    );
    assert!(
        folded.contains("likely consequences: max_err &lt;= 0.004 (is 0.3)"),
        "{folded}"
    );
    assert_eq!(
        text.matches("race on shared memory, line 9").count(),
        1,
        "{text}"
    );
    assert_eq!(text.matches("gatekeeper run").count(), 1, "{text}");
}

#[test]
fn wrong_types_of_arguments_are_one_problem_at_their_line_of_gates_yaml() {
    let mut record = fixture::record_simulated();
    fixture::rebuild(&mut record, "direct", |facts| {
        facts.mistyped = vec![Mistyped {
            entry: "k".into(),
            parameter: 1,
            takes: "__nv_bfloat16 const*".into(),
            tensor: "inp".into(),
            elem: ElemType::F32,
            wanted: Some(ElemType::Bf16),
            declared: Some("gates.yaml:12".into()),
        }];
    });
    for shape in fixture::SHAPES {
        plant(&mut record, shape, &[race(FIRST)]);
        spoil(&mut record, shape);
    }
    let (open, text) = comment(&record);
    insta::assert_snapshot!(open, @r"
### ❌ gatekeeper: k/direct@small, @large: arguments do not fit (gates.yaml:12)
Why: inp: {type: f32}, the kernel takes __nv_bfloat16 const*. Repeat: `gatekeeper run --device sim 'k/direct@small'`
> FAIL: 1 problem (4 gates), 26 passed, 22 not judged
");
    let takes = "the kernel takes __nv_bfloat16 const*";
    assert_eq!(text.matches(takes).count(), 1, "{text}");
    assert!(text.contains("fix: type: bf16"), "{text}");
    let annotations = rendered(&record, &judged(&record), github::render);
    assert_eq!(annotations.lines().count(), 1, "{annotations}");
    assert!(annotations.contains(takes), "{annotations}");
    assert!(annotations.starts_with("::error file=gates.yaml,line=12,title=k/direct@small%2C @large%3A arguments do not fit::"), "{annotations}");
}

fn base() -> Base {
    Base::new("main", "0a34415aaaaa", fixture::plan(), fixture::gates())
}

/// The base's builds, checks and simulations are head's, of other code.
fn with_base(mut record: Record) -> Record {
    let mut base = base();
    base.plan = record.plan.clone();
    base.gates = record.policy.gates.clone();
    base.baselines = record.policy.baselines.clone();
    record.policy.base = Some(base);
    for piece in record.evidence.clone() {
        let mut piece = piece;
        if let Evidence::Build {
            facts: Seen::Got(facts),
            ..
        } = &mut piece
        {
            facts.identity = "before the change".into();
        }
        record.evidence.push(Evidence::Base(Box::new(piece)));
    }
    for case in record.plan.cases.clone() {
        record.evidence.push(Evidence::BaseReference {
            case: case.id,
            facts: Seen::Got(model::BaseReference::Compared(Default::default())),
        });
    }
    record
}

#[test]
fn finding_of_the_change_is_named_and_that_of_the_base_is_folded() {
    let old = race([(30, "z[0] = x;"), (28, "x = z[0];")]);
    let mut record = fixture::record_simulated();
    plant(&mut record, "small", std::slice::from_ref(&old));
    let mut record = with_base(record);
    plant(&mut record, "small", &[old, race(FIRST)]);
    let (open, text) = comment(&record);
    insta::assert_snapshot!(open, @r"
### ❌ gatekeeper: k/direct@small: race on shared memory, new (k.cu:7)
Why: race on shared memory, line 9. Repeat: `gatekeeper run --device sim --base 'main' 'k/direct@small'`
> FAIL: 2 problems (1 gate), 35 passed, 16 not judged
");
    assert!(!open.contains("k.cu:28"), "{open}");
    let (_, folded) = text.split_once("<details>").unwrap();
    assert!(
        folded.contains("<sub>findings, as at the base</sub>"),
        "{folded}"
    );
    assert!(folded.contains("`k.cu:28`"), "{folded}");
    // Where the change brought none, the heading says that.
    let mut record = record;
    plant(
        &mut record,
        "small",
        &[race([(30, "z[0] = x;"), (28, "x = z[0];")])],
    );
    let (open, _) = comment(&record);
    insta::assert_snapshot!(open, @r"
### ❌ gatekeeper: k/direct@small: race on shared memory, as at the base (k.cu:28)
Why: race on shared memory, line 30. Repeat: `gatekeeper run --device sim --base 'main' 'k/direct@small'`
> FAIL: 1 problem (1 gate), 35 passed, 16 not judged
");
}

/// Also where the run has a problem that does not fail it.
#[test]
fn looser_gates_are_named_in_the_heading_where_nothing_new_fails() {
    let mut record = fixture::record_against_base();
    let base = record.policy.base.as_mut().unwrap();
    for gate in &mut base.gates {
        if gate.rule == fixture::at_most(Metric::Registers, 128.0) {
            gate.rule = fixture::at_most(Metric::Registers, 112.0);
        }
    }
    let (open, _) = comment(&record);
    insta::assert_snapshot!(open, @r"
### ❌ gatekeeper: 2 gates are looser than at origin/main
| case | base | head |
| `k/direct [sm_90]` | `registers <= 112` | head has registers &lt;= 128 |
| `k/fast [sm_90]` | `registers <= 112` | head has registers &lt;= 128 |
> FAIL: 1 problem (2 gates), 44 passed
");
    let of = fixture::case_id("direct", "small");
    let is_check =
        |evidence: &Evidence| matches!(evidence, Evidence::Check { case, .. } if *case == of);
    record.evidence.retain(|evidence| !is_check(evidence));
    let (open, _) = comment(&record);
    insta::assert_snapshot!(open, @r"
### ❌ gatekeeper: 2 gates are looser than at origin/main
| case | base | head |
| `k/direct [sm_90]` | `registers <= 112` | head has registers &lt;= 128 |
| `k/fast [sm_90]` | `registers <= 112` | head has registers &lt;= 128 |
> FAIL: 1 problem (2 gates), 8 inconclusive, 36 passed
");
    // Allowed, they are a line of a run that passes.
    let mut record = fixture::record_against_base();
    let base = record.policy.base.as_mut().unwrap();
    base.loosening = Loosening::Allowed;
    let spills = fixture::at_most(Metric::Spills, 0.0);
    base.gates
        .push(fixture::gate(fixture::unit("direct"), spills));
    let (open, _) = comment(&record);
    insta::assert_snapshot!(open, @r"
### ✅ gatekeeper: PASS: 45 passed
1 gate is looser than at origin/main; `--allow-loosened` allowed it
Against origin/main (0a34415aaaaa): 2 cases changed, 2 unchanged
> Details
");
    assert!(open.lines().count() + LINK <= 5, "{open}");
}

fn loads(record: &mut Record, shape: &str, sectors: u64) {
    let of = fixture::case_id("direct", shape);
    fixture::resimulate(record, &of, |_, facts| {
        if let Seen::Got(facts) = facts {
            for (counter, count) in [
                (Counter::GlobalLoadRequests, 1000),
                (Counter::GlobalLoadSectors, sectors),
                (Counter::GlobalLoadSectorsIdeal, 4000),
            ] {
                facts.counters.insert(counter, count);
            }
            facts.lines.insert(
                Counter::GlobalLoadSectors,
                vec![LineCount {
                    place: "k.cu:10".into(),
                    count: sectors,
                }],
            );
        }
    });
}

/// Loads eight times as much.
fn costly() -> Record {
    let mut record = fixture::record_simulated();
    for shape in fixture::SHAPES {
        loads(&mut record, shape, 4000);
    }
    record.policy.baselines = judge::acceptable(&record, "seal").0;
    let mut record = with_base(record);
    for (shape, sectors) in [("small", 16_000), ("large", 32_000)] {
        loads(&mut record, shape, sectors);
    }
    record
}

#[test]
fn change_of_a_line_that_costs_has_its_cause_once() {
    let (open, text) = comment(&costly());
    insta::assert_snapshot!(open, @r"
### ❌ gatekeeper: k/direct@small, @large: global_load_sectors 8× more, and 1 more value (k.cu:10)
| case | problem | baseline | now | change |
| `k/direct@large` | global_load_sectors | 4000 | 32000 | 700.0 % more |
| `k/direct@small` | global_load_sectors | 4000 | 16000 | 300.0 % more |
Cause: accesses of a warp no longer coalesce at k.cu:10: global_load_requests 1000 -&gt; 1000, global_load_sectors 4000 -&gt; 32000, global_load_sectors_ideal 4000 -&gt; 4000. Repeat: `gatekeeper run --device sim --base 'main' 'k/direct@large'`
> FAIL: 1 problem (2 gates), 34 passed, 16 not judged
");
    assert!(text.len() < 4096, "{} bytes: {text}", text.len());
    assert_eq!(text.to_lowercase().matches("coalesce").count(), 1, "{text}");
    let annotations = rendered(&costly(), &judged(&costly()), github::render);
    assert!(
        annotations.starts_with("::error file=k.cu,line=10,title=k/direct@"),
        "{annotations}"
    );
}

#[test]
fn values_are_in_a_column_with_the_name_of_the_side_that_they_are_compared_with() {
    let head = |record: &Record| {
        let judgement = judged(record);
        let index = Index::new(record);
        let blocks = crate::problems::blocks(&ReportInput::new(&index, record, &judgement));
        crate::problems::head_of_was(blocks.iter().flat_map(|block| &block.rows)).to_owned()
    };
    assert_eq!(head(&costly()), "baseline");
    let mut record = costly();
    record.policy.baselines.clear();
    for (revision, shown) in [
        ("main", "main"),
        ("origin/a-branch-with-a-long-name", "origin/a-branch-with…"),
    ] {
        if let Some(base) = &mut record.policy.base {
            base.baselines.clear();
            base.revision = revision.to_owned();
        }
        assert_eq!(head(&record), shown);
    }
    for width in [80, 120] {
        let options = Options { width, ..PLAIN };
        let record = costly();
        let text = rendered(&record, &judged(&record), |input| {
            terminal::render(input, options)
        });
        assert!(
            text.contains("global_load_sectors 8× more, and 1 more value"),
            "{text}"
        );
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(
            longest <= Some(width) && text.lines().count() <= 40,
            "{text}"
        );
    }
}

/// All are of one kernel, each with three races of its own.
#[test]
fn hundreds_of_cases_are_as_short() {
    let mut record = fixture::record_simulated();
    let first = fixture::case_id("direct", "small");
    for number in 0..258_u32 {
        let id = fixture::case_id("direct", &format!("shape_{number}"));
        let mut case = record.plan.case(&first).unwrap().clone();
        case.id = id.clone();
        record.plan.cases.push(case);
        for piece in record.evidence.clone() {
            let mut piece = piece;
            let case = match &mut piece {
                Evidence::Check { case, .. } | Evidence::Simulation { case, .. } => case,
                _ => continue,
            };
            if *case == first {
                *case = id.clone();
                record.evidence.push(piece);
            }
        }
        for gate in record.policy.gates.clone() {
            if gate.subject == Subject::Case(first.clone()) {
                let subject = Subject::Case(id.clone());
                record.policy.gates.push(model::Gate { subject, ..gate });
            }
        }
        let races = [0, 1, 2].map(|index| {
            let line = 100 * number + 10 * index;
            race([(line + 9, "part[warp] = x;"), (line + 7, "y = part[0];")])
        });
        plant(&mut record, &id.shape, &races);
        spoil(&mut record, &id.shape);
    }
    assert_eq!(record.plan.cases.len(), 262);
    let (open, text) = comment(&record);
    insta::assert_snapshot!(open, @r"
### ❌ gatekeeper: k/direct@shape_0: race on shared memory (k.cu:7), and 773 more problems
| case | problem |
| `k/direct@shape_0` | race on shared memory (k.cu:7) |
| `k/direct@shape_0` | race on shared memory (k.cu:17) |
| `k/direct@shape_0` | race on shared memory (k.cu:27) |
| `k/direct@shape_1` | race on shared memory (k.cu:107) |
| `k/direct@shape_1` | race on shared memory (k.cu:117) |
Why: race on shared memory, line 9. Repeat: `gatekeeper run --device sim 'k/direct@shape_0'`
> FAIL: 774 problems (516 gates), 804 passed, 1570 not judged
");
    assert!(text.contains(" lines more: too many for a comment; the JSON report has them."));
}
