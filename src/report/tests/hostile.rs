//! What a source, a reason or a name says can neither break a report nor give orders to what reads it.

use super::*;

/// A compiler's message and a condition are the freest texts that a report shows.
fn hostile(record: &Record, at: usize, message: &str, condition: &str) -> Judgement {
    let mut judgement = judged(record);
    let verdict = &mut judgement.verdicts[at];
    verdict.outcome = Outcome::Fail;
    verdict.reason = Reason::Fault(Fault {
        kind: FaultKind::Compile,
        message: message.into(),
    });
    verdict.question = Question::Gate(Rule::Condition {
        expr: fixture::expr(condition),
    });
    judgement
}

#[test]
fn markdown_cannot_be_broken_out_of() {
    let record = broken();
    let (message, condition) = ("a | b </details> <script>\nnext", "a >= 50 || b < `50`");
    let judgement = hostile(&record, 0, message, condition);
    let text = markdown::render(&record, &judgement);
    assert!(
        text.contains("a \\| b &lt;/details&gt; &lt;script&gt;<br>next"),
        "{text}"
    );
    assert!(text.contains("`a >= 50 \\|\\| b < '50'`"), "{text}");
}

/// What the author of a change writes cannot end a list, nor make a headline, a link or an image.
#[test]
fn markdown_of_a_reason_stays_on_its_line() {
    let mut record = fixture::record();
    let mut acceptance = accepted_registers(fixture::at_most(Metric::Registers, 130.0));
    acceptance.reason = "why\n\n## gatekeeper: PASS\n![x](http://e)".into();
    record.policy.accepted = vec![acceptance];
    fixture::rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.registers = 129
    });
    let text = markdown::render(&record, &judged(&record));
    assert!(
        text.contains("until 2027-01-31: why  ## gatekeeper: PASS ![x]\\(http://e)"),
        "{text}"
    );
    assert_eq!(text.matches("\n## ").count(), 0, "{text}");
}

/// Nor clear the screen, nor speak to the CI that shows it.
#[test]
fn a_terminal_takes_no_orders() {
    let record = fixture::record();
    let message = "a\x1b[2J b ##[error]c\n   ::stop-commands::x\n::add-mask::1";
    let judgement = hostile(&record, 0, message, "p50 > 0");
    let text = terminal::render(&record, &judgement, PLAIN);
    assert!(
        text.contains(
            "     does not compile: a\\u{1b}[2J b ## [error]c\n        : :stop-commands::x\n     : :add-mask::1\n"
        ),
        "{text}"
    );
}

/// Nor what a kernel printed, nor a name in a table or a command.
#[test]
fn names_and_printed_lines_give_no_orders() {
    let mut record = fixture::record_simulated();
    fixture::resimulate(
        &mut record,
        &fixture::case_id("direct", "small"),
        |_, facts| {
            if let Seen::Got(facts) = facts {
                facts.printed = Some(verdict::model::Printed {
                    text: "##[error]k\u{1b}[2J\n".into(),
                    left_out: 0,
                });
            }
        },
    );
    let name = "##[error]k|<b>`\u{1b}";
    let record = renamed(record, name);
    let mut judgement = judged(&record);
    for verdict in &mut judgement.verdicts {
        verdict.outcome = Outcome::Fail;
    }
    let text = terminal::render(&record, &judgement, PLAIN);
    assert!(!text.contains("##[") && !text.contains('\u{1b}'), "{text}");
    assert!(text.contains("| ## [error]k\\u{1b}[2J"), "{text}");
    let text = markdown::render(&record, &judgement);
    assert!(
        !text.contains("<b>`") && text.contains("k\\|<b>'"),
        "{text}"
    );
}

#[test]
fn an_annotation_cannot_begin_another() {
    let record = broken();
    let judgement = hostile(&record, 0, "50 %\n::set-output name=x::y", "p50 > 0");
    let text = github::render(&record, &judgement);
    assert!(
        text.contains("::does not compile: 50 %25%0A::set-output name=x::y%0Agatekeeper run"),
        "{text}"
    );
    assert!(
        text.lines()
            .all(|line| line.starts_with("::error ") || line.starts_with("::warning "))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_reason_can_be_shown(reason in "\\PC{0,300}", gate in "\\PC{0,40}", width in 20..200usize) {
        let record = fixture::record();
        let judgement = hostile(&record, 3, &reason, &gate);
        let text = terminal::render(&record, &judgement, Options { color: false, width });
        let squeezed = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        prop_assert!(squeezed(&text).contains(&squeezed(&reason)));
        markdown::render(&record, &judgement);
        prop_assert!(json::render(&record, &judgement).is_ok());
        prop_assert!(junit::render(&record, &judgement).is_ok());
    }
}
