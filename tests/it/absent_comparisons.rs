//! Tests attempts to pass without having been compared, by a record that says less than a judgement needs. Attempts by
//! means of a repository are in `tests/cases`.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, commit_all, copy_of, edit, git, run, stderr, stdout, write_record};
use judge::fixture;
use model::{
    BaseReference, BuildFacts, CheckFacts, Evidence, Fault, FaultKind, Loosening, NotRun, Num,
    Record, Reference, Seen,
};
use records::store::read_record;
use std::fs;

/// A stored record after an edit, the exit code to which it must be judged, and the code of a verdict that says why.
struct Stored {
    edit: fn(&mut Record),
    code: i32,
    says: &'static str,
}

fn judged(record: &Record, code: i32, says: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = write_record(dir.path(), "r.json", record);
    let output = run(dir.path(), &["judge", &path, "--format", "json"], code);
    assert!(stdout(&output).contains(&format!("\"{says}\"")), "{says}");
}

fn hold(rows: &[Stored]) {
    for row in rows {
        let mut record = fixture::record_against_base();
        (row.edit)(&mut record);
        judged(&record, row.code, row.says);
    }
}

fn is_reference(piece: &Evidence) -> bool {
    matches!(piece, Evidence::BaseReference { case, .. } if *case == fixture::case_id("fast", "small"))
}

fn is_check_of_base(piece: &Evidence) -> bool {
    let case = fixture::case_id("fast", "small");
    matches!(piece.as_base(), Some(Evidence::Check { case: of, .. }) if *of == case)
}

fn is_build_of_base(piece: &Evidence) -> bool {
    let unit = fixture::unit_id("fast");
    matches!(piece.as_base(), Some(Evidence::Build { unit: of, .. }) if *of == unit)
}

fn set_reference(record: &mut Record, to: Seen<BaseReference>) {
    for piece in &mut record.evidence {
        if let Evidence::BaseReference { case, facts } = piece
            && *case == fixture::case_id("fast", "small")
        {
            *facts = to.clone();
        }
    }
}

fn set_checks(record: &mut Record, to: &Seen<CheckFacts>) {
    for piece in record
        .evidence
        .iter_mut()
        .filter(|piece| is_check_of_base(piece))
    {
        if let Evidence::Base(piece) = piece
            && let Evidence::Check { facts, .. } = piece.as_mut()
        {
            *facts = to.clone();
        }
    }
}

fn set_build(record: &mut Record, to: &Seen<BuildFacts>) {
    for piece in record
        .evidence
        .iter_mut()
        .filter(|piece| is_build_of_base(piece))
    {
        if let Evidence::Base(piece) = piece
            && let Evidence::Build { facts, .. } = piece.as_mut()
        {
            *facts = to.clone();
        }
    }
}

fn fault<T>(kind: FaultKind) -> Seen<T> {
    Seen::Fault(Fault::new(kind, "it stopped"))
}

/// Shows that the whole record of a run against its base is green, so that only what the attempts below take away can
/// change that.
#[test]
fn a_whole_record_stays_green() {
    judged(&fixture::record_against_base(), 0, "pass");
}

/// Puts another entry on the base's reference in the place of the required one. It is stopped because each case has
/// exactly one.
#[test]
fn an_entry_in_the_place_of_the_one_that_is_asked_for() {
    hold(&[
        // The entry has the name of another case, which then has two.
        Stored {
            edit: |record| {
                for piece in &mut record.evidence {
                    if let Evidence::BaseReference { case, .. } = piece {
                        *case = fixture::case_id("direct", "small");
                    }
                }
            },
            code: 3,
            says: "evidence-missing",
        },
        // The entry claims to be said by the base about itself.
        Stored {
            edit: |record| {
                for piece in record
                    .evidence
                    .iter_mut()
                    .filter(|evidence| is_reference(evidence))
                {
                    *piece = Evidence::Base(Box::new(piece.clone()));
                }
            },
            code: 3,
            says: "evidence-missing",
        },
        // A good entry comes before the bad one.
        Stored {
            edit: |record| {
                let bad = Evidence::BaseReference {
                    case: fixture::case_id("fast", "small"),
                    facts: fault(FaultKind::Reference),
                };
                record.evidence.push(bad);
            },
            code: 3,
            says: "evidence-repeated",
        },
    ]);
}

/// The base's reference was stopped by a slow runner, or died. The result is inconclusive, and head is not called
/// looser.
#[test]
fn a_late_reference_is_no_pass_and_no_loosened_gate() {
    for (kind, says) in [
        (FaultKind::Hang, "base-reference-late"),
        (FaultKind::WorkerDied, "base-unanswered"),
    ] {
        let mut record = fixture::record_against_base();
        set_reference(&mut record, fault(kind));
        judged(&record, 3, says);
        let dir = tempfile::tempdir().unwrap();
        let path = write_record(dir.path(), "r.json", &record);
        let said = stdout(&run(dir.path(), &["judge", &path], 3));
        assert!(!said.contains("LOOSENED"), "{said}");
    }
}

/// Measurements of the base itself are taken out of the record, doubled, or broken by the machine. A gate that is
/// relative to them is then inconclusive, or fails by the environment.
#[test]
fn a_base_that_was_not_measured_is_no_base_without_requirements() {
    hold(&[
        Stored {
            edit: |record| record.evidence.retain(|piece| !is_check_of_base(piece)),
            code: 3,
            says: "evidence-missing",
        },
        Stored {
            edit: |record| {
                record
                    .evidence
                    .extend(record.evidence.clone().into_iter().filter(is_check_of_base));
            },
            code: 3,
            says: "evidence-repeated",
        },
        Stored {
            edit: |record| set_checks(record, &fault(FaultKind::Environment)),
            code: 4,
            says: "environment-failed",
        },
        Stored {
            edit: |record| record.evidence.retain(|piece| !is_build_of_base(piece)),
            code: 3,
            says: "base-not-built",
        },
        Stored {
            edit: |record| {
                // The base's own files have no baselines.
                record.policy.base.as_mut().unwrap().baselines.clear();
                set_checks(record, &Seen::NotRun(NotRun::NoArtifact));
            },
            code: 3,
            says: "base-unanswered",
        },
        Stored {
            edit: |record| {
                record.policy.base.as_mut().unwrap().baselines.clear();
                set_build(record, &fault(FaultKind::Compile));
            },
            code: 3,
            says: "base-not-built",
        },
    ]);
}

/// A kernel of the base that ran and broke has given an answer, and a change that mends it is not worse, so the run
/// stays green. If it was late, the kernel or the machine may have been slow, so the run needs the base's own
/// baselines, or the label.
#[test]
fn a_kernel_of_the_base_that_breaks_is_an_answer_and_a_late_one_is_none() {
    fn without_baselines(record: &mut Record) {
        record.policy.base.as_mut().unwrap().baselines.clear();
    }
    hold(&[
        Stored {
            edit: |record| {
                without_baselines(record);
                set_checks(record, &fault(FaultKind::DeviceFault));
            },
            code: 0,
            says: "pass",
        },
        Stored {
            edit: |record| {
                without_baselines(record);
                set_checks(record, &fault(FaultKind::Hang));
            },
            code: 3,
            says: "base-unanswered",
        },
        Stored {
            edit: |record| set_checks(record, &fault(FaultKind::Hang)),
            code: 0,
            says: "pass",
        },
    ]);
}

/// A maintainer's label is set for a record with a hole, on a broken machine, and where no gate was judged. It lets a
/// base pass that gives nothing to compare with, and nothing else.
#[test]
fn the_label_lets_pass_a_base_without_an_answer_and_nothing_else() {
    fn labelled(record: &mut Record) {
        record.policy.base.as_mut().unwrap().loosening = Loosening::Allowed;
    }
    hold(&[
        Stored {
            edit: |record| {
                labelled(record);
                set_reference(
                    record,
                    Seen::Got(BaseReference::Broken {
                        message: "does not build".to_owned(),
                    }),
                );
            },
            code: 0,
            says: "loosening-allowed",
        },
        Stored {
            edit: |record| {
                labelled(record);
                record.evidence.retain(|piece| !is_reference(piece));
            },
            code: 3,
            says: "evidence-missing",
        },
        Stored {
            edit: |record| {
                labelled(record);
                set_reference(record, fault(FaultKind::Environment));
            },
            code: 4,
            says: "environment-failed",
        },
        // Every gate that is gone is allowed to be, and nothing of head was judged.
        Stored {
            edit: |record| {
                labelled(record);
                record.policy.gates.clear();
            },
            code: 3,
            says: "loosening-allowed",
        },
    ]);
}

/// Returns a run with the user's own references, as `compare` gets it.
fn with_digests(digest: &str) -> Record {
    let mut record = fixture::record_simulated();
    for case in &mut record.plan.cases {
        case.reference = Reference::User {
            source: "ref.cpp".into(),
            function: "k".into(),
            args: Vec::new(),
            flags: Vec::new(),
        };
    }
    for case in &record.plan.cases {
        for &seed in &case.seeds {
            record.evidence.push(Evidence::Reference {
                case: case.id.clone(),
                seed,
                outputs: [("out".to_owned(), digest.to_owned())].into(),
            });
        }
    }
    record
}

fn compared(base: &Record, head: &Record, more: &[&str], code: i32) -> String {
    let dir = tempfile::tempdir().unwrap();
    let paths = [("base.json", base), ("head.json", head)]
        .map(|(name, record)| write_record(dir.path(), name, record));
    let [base, head] = &paths;
    let args = [&["compare", base, head][..], more].concat();
    stdout(&run(dir.path(), &args, code))
}

/// Digests of a reference are taken out of one record, for one seed, or for a case that was not run according to the
/// record. All but the last are stopped, because the text of a reference is its path and proves nothing.
#[test]
fn a_reference_without_its_digests_is_not_compared_by_its_path() {
    let whole = with_digests("1");
    compared(&whole, &whole, &[], 0);
    type Hole = fn(&Evidence) -> bool;
    let holes: [Hole; 2] = [
        |piece| matches!(piece, Evidence::Reference { .. }),
        |piece| matches!(piece, Evidence::Reference { case, seed: 1, .. } if *case == fixture::case_id("fast", "large")),
    ];
    for hole in holes {
        let mut less = whole.clone();
        less.evidence.retain(|piece| !hole(piece));
        for (base, head) in [(&whole, &less), (&less, &whole), (&less, &less)] {
            let said = compared(base, head, &["--format", "json"], 3);
            assert!(said.contains("\"base-without-digests\""), "{said}");
            compared(base, head, &["--allow-loosened"], 0);
        }
    }
    // A case that no side ran has no digest, and nothing depends on its reference.
    let mut large = whole.clone();
    let id = fixture::case_id("fast", "large");
    large
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Reference { case, .. } if *case == id));
    for piece in &mut large.evidence {
        let (estimate, budget) = (2_000_000, 1_000_000);
        let why = NotRun::OverBudget { estimate, budget };
        match piece {
            Evidence::Check { case, facts, .. } if *case == id => *facts = Seen::NotRun(why),
            Evidence::Simulation { case, facts, .. } if *case == id => *facts = Seen::NotRun(why),
            _ => {}
        }
    }
    compared(&large, &large, &[], 0);
}

/// A record with a correct seal has values of the base that no run observes: a share above 1, and more registers than
/// an instruction can name. Every command refuses it as it reads the record.
#[test]
fn a_resealed_record_with_an_impossible_value_is_no_record() {
    let of_check = |change: fn(&mut CheckFacts)| {
        let mut record = fixture::record_against_base();
        let mut facts = fixture::check_facts();
        change(&mut facts);
        set_checks(&mut record, &Seen::Got(facts));
        record
    };
    let registers = {
        let mut record = fixture::record_against_base();
        fixture::rebuild(&mut record, "fast", |facts| {
            facts.entries[0].resources.as_mut().unwrap().registers = 256;
        });
        record
    };
    for record in [
        of_check(|facts| facts.error.max_err = Num(-1e-9)),
        of_check(|facts| facts.error.over_tolerance = Some(Num(1.001))),
        of_check(|facts| facts.error.rel_l2 = Num(f64::NEG_INFINITY)),
        registers,
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = write_record(dir.path(), "r.json", &record);
        common::copy(&common::root().join("tests/fixtures/project"), dir.path());
        for args in [
            &["judge", &path][..],
            &["report", &path],
            &["merge", "--out", "merged", &path],
            &["compare", &path, &path],
            &["baseline", "update", "--record", &path],
        ] {
            let said = stderr(&run(dir.path(), args, 2));
            assert!(said.contains(": the record is invalid: "), "{said}");
        }
    }
}

/// All shards lack the results of the base's references. The merged record lacks them, too, and is stopped.
#[test]
fn shards_that_all_lack_the_references_of_the_base() {
    let project = copy_of("tests/fixtures/changes");
    let dir = project.path();
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    commit_all(dir);
    edit(&dir.join("ref.h"), "FACTOR 2", "FACTOR 2.0f");
    commit_all(dir);
    let parts = ["1/2", "2/2"].map(|part| {
        let out = format!("gatekeeper-out/{}", &part[..1]);
        let args = ["run", "--provision", "--device", "sim", "--base", "HEAD~1"];
        run(
            dir,
            &[&args[..], &["--shard", part, "--out", &out]].concat(),
            0,
        );
        format!("{out}/record.json")
    });
    let [one, two] = &parts;
    let merge = ["merge", "--out", "gatekeeper-out/merged", one, two];
    run(dir, &merge, 0);
    for part in &parts {
        let mut record = read_record(&dir.join(part)).unwrap();
        record
            .evidence
            .retain(|piece| !matches!(piece, Evidence::BaseReference { .. }));
        write_record(dir, part, &record);
    }
    run(dir, &merge, 3);
}
