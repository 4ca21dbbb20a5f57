//! Tests the comment on a pull request: what is visible before anything is unfolded.

use super::*;
use model::{Access, AccessKind, Base, Finding, FindingEvent, FindingKind};

/// Returns the visible lines: without empty ones and the rule of a table.
fn unfolded(comment: &str) -> String {
    let (open, folded) = comment.split_once("<details>").unwrap();
    let (summary, _) = folded.split_once('\n').unwrap();
    let lines = open
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("|---"))
        .map(str::to_owned)
        .chain([summary.replace("<summary>", "> ").replace("</summary>", "")]);
    // Spaces of no width keep names from being mentions, and are invisible.
    lines.collect::<Vec<_>>().join("\n").replace('\u{200b}', "")
}

const MOST_LINES: usize = 10;
const SUMMARY: usize = 1;
const LINK: usize = 1;
const MOST_BYTES: usize = 10_000;
/// The number of characters that a comment on GitHub may have.
const WHOLE: usize = 65_536;

pub(super) fn comment(record: &Record) -> (String, String) {
    let text = rendered(record, &judged(record), markdown::render);
    let open = unfolded(&text);
    // The lines are counted as written, up to the summary of the folded part. The action adds one more line, the link
    // to the run.
    let (above, _) = text.split_once("<details>").unwrap();
    let lines = above.lines().count() + SUMMARY + LINK;
    assert!(lines <= MOST_LINES, "{lines} lines: {above}");
    assert!(open.len() < MOST_BYTES, "{} bytes: {open}", open.len());
    assert!(text.len() < WHOLE, "{} bytes", text.len());
    // GitHub reads markdown after an empty line, and a table from its first line on.
    assert_eq!(
        text.matches("<details>").count(),
        text.matches("</details>").count()
    );
    (open, text)
}

fn access(thread: u32, kind: AccessKind) -> Access {
    Access {
        thread: Some([thread, 0, 0]),
        kind,
        block: None,
        follows: None,
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
        calls: Vec::new(),
    };
    Finding {
        kind: FindingKind::SharedRace,
        entry: None,
        event: FindingEvent::Recorded(format!("race on shared memory, line {}", lines[0].0)),
        launch: None,
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

fn base() -> Base {
    Base::new("main", "0a34415aaaaa", fixture::plan(), fixture::gates())
}

/// Copies head's builds, checks and simulations to the base, with other code.
pub(super) fn with_base(mut record: Record) -> Record {
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

/// All cases are of one kernel, each with three races of its own.
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
Why: race on shared memory, line 9. Repeat: `gatekeeper run --device sim 'k/direct@shape_0'`
> FAIL: 774 problems (516 gates), 804 passed, 1308 not judged
");
    assert!(text.contains(" lines more: too many for a comment; the JSON report has them."));
}
