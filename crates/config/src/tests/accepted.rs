//! Tests baselines/accepted.yaml next to a small file.

use super::*;
use crate::accepted::parse as read_accepted;
use model::{
    Acceptance, Allowance, Bound, FindingKind, KnownFinding, Limit, Metric, Num, Op, Rule, Subject,
};

const ENTRY: &str = include_str!("edits/accepted.yaml");

const LIMIT: &str = "    metric: p50\n    limit: \"+5%\"\n";
const FINDING: &str = "    finding: {kind: shared_race, file: k.cu, line: \"s[t]  = x; \"}\n";

fn loaded(selection: &Selection) -> Loaded {
    let mut loaded = accepted(RIGHT);
    select::select(&mut loaded, selection).unwrap();
    loaded
}

fn entry(old: &str, new: &str, selection: &Selection) -> std::result::Result<Acceptance, String> {
    // An acceptance of a finding is the same entry with another key for two.
    let of_finding = ENTRY.replace(LIMIT, FINDING);
    let text = if ENTRY.contains(old) {
        ENTRY
    } else {
        &of_finding
    };
    assert_eq!(text.matches(old).count(), 1, "{old}");
    let read = read_accepted(&text.replace(old, new), &loaded(selection));
    match read {
        Ok(mut read) => {
            assert_eq!(read.len(), 1);
            Ok(read.remove(0))
        }
        Err(diagnostic) => Err(diagnostic.to_string()),
    }
}

fn whole(old: &str, new: &str) -> Acceptance {
    entry(old, new, &Selection::default()).unwrap()
}

fn subjects(acceptance: &Acceptance) -> Vec<String> {
    acceptance.subjects.iter().map(Subject::to_string).collect()
}

#[test]
fn reads_all_fields_of_an_acceptance() {
    let acceptance = whole("+5%", "+5%");
    assert_eq!(subjects(&acceptance), ["scale/wide@small"]);
    assert_eq!(
        (acceptance.by.as_str(), acceptance.until.as_str()),
        ("jane@example.org", "2027-01-31")
    );
    assert_eq!(acceptance.reason, "the new softmax is exact");
    assert_eq!(acceptance.declared, "baselines/accepted.yaml:3");
    assert!(!acceptance.left_out);
    let instead = |old: &str, new: &str| match whole(old, new).allows {
        Allowance::Limit(limit) => limit,
        Allowance::Finding(finding) => panic!("{finding:?}"),
    };
    let change = Num(0.05);
    let p50 = |limit| Rule::Limit {
        metric: Metric::P50,
        limit,
    };
    let by_share = |change| Limit::Baseline {
        change: model::Margin::Share(change),
    };
    assert_eq!(instead("+5%", "+5%"), p50(by_share(change)));
    assert_eq!(
        instead("+5%", "<= 400us"),
        p50(Limit::Absolute {
            op: Op::Le,
            bound: Bound::Value(Num(400_000.0)),
        })
    );
    assert_eq!(
        instead("metric: p50", "metric: counters"),
        Rule::Counters { change }
    );
    assert!(matches!(
        instead("metric: p50", "metric: max_err"),
        Rule::Limit { .. }
    ));
    let none = read_accepted("version: 1\naccepted: []\n", &loaded(&Selection::default()));
    assert_eq!(none.unwrap(), []);
}

#[test]
fn a_finding_is_named_by_its_line() {
    let acceptance = whole(LIMIT, FINDING);
    assert_eq!(subjects(&acceptance), ["scale/wide@small"]);
    let known = KnownFinding {
        kind: FindingKind::SharedRace,
        file: "k.cu".into(),
        line: "s[t] = x;".into(),
    };
    assert_eq!(acceptance.allows, Allowance::Finding(known));
}

#[test]
fn each_part_is_a_glob_and_resources_have_no_shape() {
    let of = |case: &str| subjects(&whole("scale/wide@small", case));
    assert_eq!(
        of("scale"),
        [
            "scale/plain@small",
            "scale/plain@large",
            "scale/wide@small",
            "scale/wide@large"
        ]
    );
    assert_eq!(of("s*/w*@large"), ["scale/wide@large"]);
    assert_eq!(of("scale/gone"), [""; 0]);
    let registers = "scale/wide\n    metric: registers";
    assert_eq!(
        subjects(&whole("scale/wide@small\n    metric: p50", registers)),
        ["scale/wide [sm_89]", "scale/wide [sm_90]"]
    );
}

#[test]
fn marks_acceptances_of_cases_that_a_filter_left_out() {
    let selected = |filter: &str, case: &str| {
        let selection = Selection {
            filters: vec![filter.to_owned()],
            ..Selection::default()
        };
        let found = entry("scale/wide@small", case, &selection).unwrap();
        (found.subjects.len(), found.left_out)
    };
    assert_eq!(selected("scale@small", "scale/wide@small"), (1, false));
    assert_eq!(selected("scale@small", "scale/wide"), (1, true));
    assert_eq!(selected("scale@large", "scale/wide@small"), (0, true));
    assert_eq!(selected("scale@large", "gone"), (0, false));
    let selection = Selection {
        seeds: Some(vec![7]),
        ..Selection::default()
    };
    let found = entry("+5%", "+5%", &selection).unwrap();
    assert!(found.left_out, "other seeds, other errors");
}

#[test]
fn an_empty_file_says_how_to_write_that_nothing_is_accepted() {
    let empty = read_accepted("# later\n\n", &loaded(&Selection::default()));
    assert_eq!(
        empty.unwrap_err().to_string(),
        "baselines/accepted.yaml: the file is empty\n  help: remove it, or write `version: 1` and `accepted: []`"
    );
}
