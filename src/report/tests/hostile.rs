//! What a source, a reason or a name says can neither break a report nor give orders to what reads it.

use super::*;

#[test]
fn markdown_cannot_be_broken_out_of() {
    let record = broken();
    let mut judgement = judged(&record);
    judgement.verdicts[0].outcome = Outcome::Fail;
    judgement.verdicts[0].reason = "a | b </details> <script>\nnext".into();
    judgement.verdicts[0].gate = "a >= 50 || b < `50`".into();
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
    let mut judgement = judged(&record);
    judgement.verdicts[0].outcome = Outcome::Fail;
    judgement.verdicts[0].reason =
        "a\x1b[2J b ##[error]c\n   ::stop-commands::x\n::add-mask::1".into();
    let text = terminal::render(&record, &judgement, PLAIN);
    assert!(
        text.contains(
            "     a\\u{1b}[2J b ## [error]c\n     : :stop-commands::x\n     : :add-mask::1\n"
        ),
        "{text}"
    );
}

#[test]
fn an_annotation_cannot_begin_another() {
    let record = broken();
    let mut judgement = judged(&record);
    judgement.verdicts[0].outcome = Outcome::Fail;
    judgement.verdicts[0].reason = "50 %\n::set-output name=x::y".into();
    let text = github::render(&record, &judgement);
    assert!(
        text.contains("::50 %25%0A::set-output name=x::y%0Agatekeeper run"),
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
        let mut judgement = judged(&record);
        judgement.verdicts[3].outcome = Outcome::Fail;
        judgement.verdicts[3].reason = reason.clone();
        judgement.verdicts[3].gate = gate;
        let text = terminal::render(&record, &judgement, Options { color: false, width });
        let squeezed = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        prop_assert!(squeezed(&text).contains(&squeezed(&reason)));
        markdown::render(&record, &judgement);
        prop_assert!(json::render(&record, &judgement).is_ok());
        prop_assert!(junit::render(&record, &judgement).is_ok());
    }
}
