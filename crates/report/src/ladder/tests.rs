use super::*;
use crate::markdown;
use crate::terminal;
use crate::terminal::{Options, Verbosity};
use judge::{Index, fixture, judge};
use model::{Callable, Evidence, Record, Reference};

const PLAIN: Options = Options {
    color: false,
    width: 100,
    verbosity: Verbosity::Normal,
};

fn groups(record: &Record) -> Vec<Vec<Section<'static>>> {
    let judgement = judged(record);
    let index = Index::new(record);
    let view = index.head();
    lay_out(view, &judgement, &ladders(view, &judgement))
}

fn judged(record: &Record) -> Judgement {
    judge(record)
}

fn of(record: &Record) -> Vec<Ladder> {
    ladders(Index::new(record).head(), &judged(record))
}

fn in_terminal(record: &Record) -> String {
    terminal::render_groups(&groups(record), PLAIN)
}

/// The first line that begins with this.
fn words_of<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.starts_with(start));
    let line = line.unwrap_or_else(|| panic!("{start}: {text}"));
    line.split_whitespace().collect()
}

/// The texts on the variant `fast` against the other, which is both the first and the one before.
fn relative(record: &Record, shape: &str) -> [Option<String>; 2] {
    let ladders = of(record);
    let shape = ladders[0]
        .shapes
        .iter()
        .find(|other| other.shape == shape)
        .unwrap();
    let rung = &shape.rungs[1];
    assert_eq!(rung.variant, "fast");
    let said = |relative: &Option<ToVariant>| Some(relative.as_ref()?.message.clone());
    [said(&rung.to_the_one_before), said(&rung.to_the_first)]
}

#[test]
fn each_variant_stands_beside_the_one_before_and_the_first() {
    let mut record = fixture::record();
    fixture::slow(&mut record, &fixture::case_id("fast", "large"), 125_000);
    let record = fixture::with_tails(record);
    insta::assert_snapshot!("ladder-terminal", in_terminal(&record));
    let markdown = markdown::render_groups(TITLE, &groups(&record));
    insta::assert_snapshot!("ladder-markdown", markdown);
    let both = |text: &str| [Some(text.to_owned()), Some(text.to_owned())];
    assert_eq!(
        relative(&record, "small"),
        both("1.25 times as fast as direct")
    );
    assert_eq!(
        relative(&record, "large"),
        both("0.80 times as fast as direct")
    );

    let json: serde_json::Value =
        serde_json::from_str(&json(Index::new(&record).head(), &of(&record)).unwrap()).unwrap();
    assert_eq!(json["schema"], "gatekeeper.ladder/1");
    let ladder = &json["ladders"][0];
    let added =
        serde_json::json!([{"what": {"definition": "VARIANT"}, "was": "direct", "is": "fast"}]);
    assert_eq!(ladder["steps"][1]["added"], added);
    let rung = &ladder["shapes"][0]["rungs"][1];
    let ratio = rung["to_the_first"]["ratio"].as_f64().unwrap();
    assert!((ratio - 0.8).abs() < 1e-3, "{ratio}");
    assert_eq!(rung["values"]["max_err"]["value"], 0.001);
}

#[test]
fn the_simulator_has_counters_and_no_times() {
    let text = in_terminal(&fixture::record_simulated());
    assert!(
        text.contains("times are not measured in the simulator"),
        "{text}"
    );
    let head = words_of(&text, "k@small");
    assert_eq!(head[..5], ["k@small", "instructions", "step", "×", "total"]);
    assert!(!text.contains("p50"), "{text}");
    assert!(!text.contains("times as fast"), "{text}");
}

#[test]
fn names_missing_values_and_compares_nothing_with_them() {
    let mut record = fixture::record();
    let lost = fixture::case_id("direct", "small");
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Time { case, .. } if *case == lost));
    assert_eq!(relative(&record, "small"), [None, None]);
    assert!(relative(&record, "large")[0].is_some());
    let text = in_terminal(&record);
    assert!(
        text.contains("no p50, p90, p99, cycles and cv of k/direct@small: "),
        "{text}"
    );
}

#[test]
fn variants_that_compute_something_else_are_no_steps_of_one_ladder() {
    let mut record = fixture::record();
    let of_fast = |record: &mut Record, reference: Reference| {
        for case in &mut record.plan.cases {
            if case.id.variant == "fast" {
                case.reference = reference.clone();
            }
        }
    };
    // The other variant is what it is held against: it computes the same.
    let variant = |name: &str| Reference::Variant {
        variant: name.into(),
    };
    of_fast(&mut record, variant("direct"));
    assert_eq!(of(&record).len(), 1);
    let other = Reference::Softmax {
        x: "another".into(),
        out: "out".into(),
    };
    of_fast(&mut record, other);
    assert!(of(&record).is_empty());
    let text = in_terminal(&record);
    assert!(
        text.contains("no kernel of this record has two variants that compute the same"),
        "{text}"
    );
    // A reference that the record does not have is none that another could share.
    of_fast(&mut record, variant("gone"));
    assert!(of(&record).is_empty());
}

#[test]
fn a_step_lists_the_differences_of_its_build() {
    let units = fixture::plan().units;
    let [direct, fast] = units.as_slice() else {
        panic!("two variants");
    };
    let words = |before: Option<&Unit>, unit: &Unit| -> Vec<String> {
        added(before, unit).iter().map(Added::words).collect()
    };
    assert_eq!(words(None, direct), ["VARIANT=direct"]);
    assert_eq!(words(Some(direct), fast), ["VARIANT direct -> fast"]);
    assert!(words(Some(fast), fast).is_empty());
    let mut other = fast.clone();
    other.defines.clear();
    other.defines.insert("TILE".into(), "64".into());
    other.source = "kernels/other.cu".into();
    other.call = Callable::Entries {
        names: vec!["k2".into()],
        constants: Vec::new(),
    };
    assert_eq!(
        words(Some(fast), &other),
        [
            "TILE=64",
            "without VARIANT",
            "source kernels/k.cu -> kernels/other.cu",
            "entry k -> k2"
        ]
    );
}

#[test]
fn each_variant_stands_beside_every_backend_that_was_timed() {
    let record = fixture::record_beside_rival();
    let ladders = of(&record);
    let said = |rung: &Rung| -> Vec<String> {
        rung.to_rivals
            .iter()
            .map(|rival| rival.message.clone())
            .collect()
    };
    let rungs = &ladders[0].shapes[0].rungs;
    assert_eq!(said(&rungs[0]), ["0.90 times as fast as torch flash"]);
    assert_eq!(said(&rungs[1]), ["1.12 times as fast as torch flash"]);
    let text = in_terminal(&record);
    let head = words_of(&text, "k@small");
    let heads = [
        "k@small", "p50", "us", "step", "×", "total", "×", "flash", "regs", "smem", "KiB",
    ];
    assert_eq!(head, heads, "{text}");
    let mut rows = text.lines().skip_while(|line| !line.starts_with("k@small"));
    let mut row = || -> Vec<&str> { rows.next().unwrap().split_whitespace().collect() };
    row();
    row();
    assert_eq!(row(), ["direct", "100", "-", "-", "0.90", "96", "5"]);
    assert_eq!(row(), ["fast", "80", "1.25", "1.25", "1.12", "96", "5"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the other names are backends of torch; over 1 is better"));
    assert!(text.contains("torch math: not compared with 4 cases of k: no kernel for this shape"));
    assert!(!in_terminal(&fixture::record()).contains("backends of"));
}

/// Those that compute something else have a ladder and a name of their own; numbers fit 80 columns.
#[test]
fn a_second_ladder_of_a_kernel_is_named_by_its_variants() {
    assert_eq!(common_name(&["causal", "mma_causal"]), "causal");
    assert_eq!(common_name(&["mma_causal", "causal"]), "causal");
    assert_eq!(common_name(&["wide_causal", "wide_causal_two"]), "wide");
    assert_eq!(common_name(&["one", "other"]), "one");

    let mut record = fixture::record_beside_rival();
    let text = serde_json::to_string(&record.plan).unwrap();
    let other = text
        .replace("\"variant\":\"direct\"", "\"variant\":\"causal\"")
        .replace("\"variant\":\"fast\"", "\"variant\":\"fast_causal\"");
    let other: model::Plan = serde_json::from_str(&other).unwrap();
    let cases = other.cases.into_iter().map(|mut case| {
        case.reference = Reference::Softmax {
            x: "another".into(),
            out: "out".into(),
        };
        case
    });
    record.plan.cases.extend(cases);
    record.plan.units.extend(other.units);
    let names: Vec<String> = of(&record).into_iter().map(|ladder| ladder.name).collect();
    assert_eq!(names, ["k", "k, causal"]);
    let text = terminal::render_groups(&groups(&record), Options { width: 80, ..PLAIN });
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{text}");
}
