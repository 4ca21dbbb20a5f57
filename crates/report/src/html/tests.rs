use super::*;
use crate::problems::blocks;
use crate::tests::{broken, judged, renamed};
use judge::Index;
use judge::fixture;
use model::{CaseId, Checkout, Evidence, Fault, FaultKind, Outcome, Reason, Record, Seen};
use quick_xml::events::Event;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

fn page(record: &Record) -> String {
    let judgement = judged(record);
    render(&ReportInput::new(&Index::new(record), record, &judgement))
}

/// The elements that have no end tag.
const VOID: [&str; 4] = ["meta", "input", "br", "hr"];

/// The parts of a page: its elements with their attributes, and the text between them. Parsing panics if an element
/// does not end, or is not in its place.
struct Parsed {
    elements: Vec<(String, Vec<(String, String)>)>,
    text: String,
}

fn parse(page: &str) -> Parsed {
    let mut reader = quick_xml::Reader::from_str(page);
    reader.config_mut().check_end_names = false;
    reader.config_mut().allow_unmatched_ends = true;
    let mut open: Vec<String> = Vec::new();
    let mut parsed = Parsed {
        elements: Vec::new(),
        text: String::new(),
    };
    let name = |raw: &[u8]| String::from_utf8(raw.to_vec()).unwrap();
    loop {
        let event = reader.read_event().unwrap();
        match &event {
            Event::Start(element) | Event::Empty(element) => {
                let is_open = matches!(event, Event::Start(_));
                let tag = name(element.name().as_ref());
                let attributes = element.html_attributes().map(|attribute| {
                    let attribute = attribute.unwrap();
                    (name(attribute.key.as_ref()), name(&attribute.value))
                });
                parsed.elements.push((tag.clone(), attributes.collect()));
                if is_open && !VOID.contains(&tag.as_str()) {
                    open.push(tag);
                }
            }
            Event::End(element) => {
                assert_eq!(open.pop(), Some(name(element.name().as_ref())));
            }
            Event::Text(text) => parsed.text.push_str(&name(text)),
            Event::GeneralRef(entity) => {
                let entity = name(entity);
                let known = ["lt", "gt", "amp", "quot", "#35", "#58"];
                assert!(known.contains(&entity.as_str()), "{entity}");
                let c = match entity.as_str() {
                    "lt" => '<',
                    "gt" => '>',
                    "amp" => '&',
                    "quot" => '"',
                    "#35" => '#',
                    _ => ':',
                };
                parsed.text.push(c);
            }
            Event::DocType(_) => {}
            Event::Eof => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    parsed
}

impl Parsed {
    fn values(&self, attribute: &str) -> Vec<&str> {
        self.elements
            .iter()
            .flat_map(|(_, all)| all)
            .filter(|(name, _)| name == attribute)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// Returns the cases of the table, by the first name of each row.
    fn rows(&self) -> Vec<&(String, Vec<(String, String)>)> {
        let is_values = |(tag, attributes): &&(String, Vec<(String, String)>)| {
            tag == "table" && attributes.iter().any(|(_, value)| value == "values")
        };
        self.elements
            .iter()
            .skip_while(|element| !is_values(element))
            .skip(1)
            .take_while(|(tag, _)| tag != "table" && tag != "details")
            .skip_while(|(tag, _)| tag != "tbody")
            .filter(|(tag, _)| tag == "tr")
            .collect()
    }

    fn count(&self, tag: &str) -> usize {
        self.elements.iter().filter(|(name, _)| name == tag).count()
    }
}

fn hash(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Sha256::digest(text).to_vec();
    bytes.push(0);
    let text: String = bytes
        .chunks(3)
        .flat_map(|group| {
            let bits = group
                .iter()
                .fold(0usize, |bits, byte| bits << 8 | usize::from(*byte));
            [18, 12, 6, 0].map(|at| char::from(LETTERS[bits >> at & 63]))
        })
        .collect();
    format!("{}=", &text[..43])
}

/// Checks a page, whatever texts it has: it is whole, has the script and the style that its policy names, and runs or
/// loads nothing else.
pub fn is_ours(page: &str) {
    let parsed = parse(page);
    assert_eq!((parsed.count("script"), parsed.count("style")), (1, 1));
    let foreign = ["img", "iframe", "object", "link", "base", "form", "sub"];
    for tag in foreign {
        assert_eq!(parsed.count(tag), 0, "{tag}: {page}");
    }
    let attributes = parsed.elements.iter().flat_map(|(_, all)| all);
    for (name, value) in attributes {
        let runs = name.starts_with("on") || ["style", "src", "srcset"].contains(&name.as_str());
        assert!(!runs, "{name}={value}");
        let stays = value.starts_with('#');
        // This is the page of one of several GPU models.
        let model = value
            .strip_prefix("on-")
            .and_then(|middle| middle.strip_suffix("/report.html"));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let stays = stays || model.is_some_and(|dir| dir.chars().all(is_plain));
        assert!(name != "href" || stays, "{name}={value}");
    }
}

#[test]
fn the_policy_names_the_one_script_and_the_one_style() {
    assert_eq!(hash("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    assert_eq!(
        (hash(STYLE).as_str(), hash(SCRIPT).as_str()),
        (STYLE_HASH, SCRIPT_HASH)
    );
    let page = page(&broken());
    assert!(page.contains(&format!("<style>{STYLE}</style>")));
    assert!(page.contains(&format!("<script>{SCRIPT}</script>")));
    let parsed = parse(&page);
    assert_eq!((parsed.count("script"), parsed.count("style")), (1, 1));
    // The policy is as strict as it can be: nothing is loaded, from this host or another.
    let policy = parsed.values("content");
    let policy = policy
        .iter()
        .find(|policy| policy.starts_with("default-src 'none'"));
    let policy = policy.unwrap();
    assert!(
        !policy.contains("unsafe") && !policy.contains("http"),
        "{policy}"
    );
    for attribute in ["src", "style", "onclick", "onload", "srcset", "action"] {
        assert!(parsed.values(attribute).is_empty(), "{attribute}");
    }
    for word in ["@import", "url(", "eval(", "innerHTML", "fetch("] {
        assert!(!STYLE.contains(word) && !SCRIPT.contains(word), "{word}");
    }
}

#[test]
fn every_link_leads_to_an_element_of_the_page() {
    let page = page(&fixture::with_tails(broken()));
    let parsed = parse(&page);
    let ids = parsed.values("id");
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    let links = parsed.values("href");
    assert!(links.len() > 8, "{links:?}");
    for link in links {
        let id = link.strip_prefix('#').unwrap();
        assert!(unique.contains(id), "{link}");
    }
}

/// Names, messages, conditions and printed lines that would end an element, an attribute or a line.
#[test]
fn names_and_messages_are_escaped_as_text() {
    let hostile = "</script><script>x()</script>\"onload='y()' <img src=z>&lt;\u{202e}\u{1b}[2J##[error]\n::error ::q";
    let mut record = fixture::record_against_base();
    slow_down(&mut record, &fixture::case_id("fast", "small"));
    let mut record = renamed(record, hostile);
    for unit in &mut record.plan.units {
        hostile.clone_into(&mut unit.source);
        unit.defines.insert(hostile.to_owned(), hostile.to_owned());
    }
    for gate in &mut record.policy.gates {
        gate.declared = Some(hostile.to_owned());
    }
    record.environment.commit = Some(hostile.to_owned());
    record.environment.checkout = Some(Checkout {
        repository: Some(hostile.to_owned()),
        branch: Some(hostile.to_owned()),
    });
    record.environment.started = hostile.to_owned();
    if let Seen::Got(device) = &mut record.environment.device {
        device.name = hostile.to_owned();
    }
    let mut judgement = judged(&record);
    for verdict in &mut judgement.verdicts {
        verdict.outcome = Outcome::Fail;
        verdict.reason = Reason::Fault(Fault::new(FaultKind::Compile, hostile));
    }
    let page = render(&ReportInput::new(&Index::new(&record), &record, &judgement));
    let parsed = parse(&page);
    assert_eq!((parsed.count("script"), parsed.count("img")), (1, 0));
    for attribute in ["onload", "src"] {
        assert!(parsed.values(attribute).is_empty(), "{attribute}");
    }
    assert!(parsed.text.contains(
        "</script><script>x()</script>\"onload='y()' <img src=z>&lt;\\u{202e}\\u{1b}[2J"
    ));
    assert!(!page.contains("##[") && !page.contains(['\u{202e}', '\u{1b}']));
    assert!(
        page.lines()
            .all(|line| !line.trim_start().starts_with("::"))
    );
}

/// Makes a case 5 % slower than its base, in as many processes as that needs.
fn slow_down(record: &mut Record, id: &CaseId) {
    let is_of = |piece: &Evidence| matches!(piece, Evidence::Pair { case, .. } if case == id);
    record.evidence.retain(|piece| !is_of(piece));
    record
        .evidence
        .extend((0..10).map(|process| Evidence::Pair {
            case: id.clone(),
            process,
            facts: Seen::Got(fixture::pair_facts(80_000, 1.05, process)),
        }));
}

/// The page has every sample, the limit and the interval.
#[test]
fn a_pair_is_drawn_with_its_limit_and_interval() {
    let mut record = fixture::record_against_base();
    let id = fixture::case_id("fast", "small");
    slow_down(&mut record, &id);
    let page = page(&record);
    let start = page.find("data-name=\"k/fast@small\"").unwrap();
    let block = &page[start..];
    let block = &block[..block.find("</details>").unwrap()];
    let dots = |class: &str| {
        let of = format!("<path class=\"d {class}\" d=\"");
        block
            .split(&of)
            .skip(1)
            .map(|path| path.split('"').next().unwrap().matches('M').count())
            .sum::<usize>()
    };
    // There are ten processes, four blocks, and two samples of each side.
    assert_eq!((dots("base"), dots("head")), (80, 80), "{block}");
    for class in ["a interval", "l limit", "l median", "a bad", "d median"] {
        assert!(block.contains(&format!("class=\"{class}\"")), "{class}");
    }
    // A case that was not measured against the base is drawn alone.
    let start = page.find("data-name=\"k/direct@small\"").unwrap();
    let block = &page[start..];
    let block = &block[..block.find("</details>").unwrap()];
    assert!(block.contains("class=\"d head\"") && !block.contains("class=\"d base\""));
}

/// Blocks beyond the room of the page are counted, and each case keeps its row.
#[test]
fn a_page_keeps_to_its_room() {
    let record = broken();
    let judgement = judged(&record);
    let index = Index::new(&record);
    let input = ReportInput::new(&index, &record, &judgement);
    let within = |problems, failed| {
        let blocks = super::case::Room { failed, others: 0 };
        let room = Room {
            problems,
            blocks,
            ..ROOM
        };
        let page = render_within(&input, room);
        (page.len(), parse(&page))
    };
    let (least, empty) = within(0, 0);
    assert!(empty.values("data-name").is_empty());
    assert_eq!(empty.rows().len(), 4);
    assert!(
        empty
            .text
            .contains("4 cases without their gates and samples")
    );
    let problems = blocks(&input).len();
    let cut = format!("... and {problems} more of these, which report.json has");
    assert!(problems > 2 && empty.text.contains(&cut));
    let (size, some) = within(4_000, 8_000);
    assert!(
        size > least + 4_000 && size <= least + 12_000,
        "{size}, {least}"
    );
    let shown = some.values("data-outcome");
    assert!((1..4).contains(&shown.len()));
    assert!(shown.iter().all(|class| *class == "fail"), "{shown:?}");
    assert_eq!(some.rows().len(), 4);

    // The last rows of thousands are left out, and counted.
    let page = render_within(&input, Room { rows: 600, ..ROOM });
    let parsed = parse(&page);
    let rows = parsed.rows().len();
    assert!((1..4).contains(&rows), "{rows}");
    let cut = format!(
        "... and {} more cases, none of them worse than these",
        4 - rows
    );
    assert!(parsed.text.contains(&cut), "{}", parsed.text);
}

/// Repeats the record's kernel this many times, each time under a name of its own.
fn many_kernels(of: &Record, times: usize) -> Record {
    let text = serde_json::to_string(of).unwrap();
    let copies = (1..times).map(|at| {
        let name = format!("\"kernel\":\"kernel_{at}\"");
        serde_json::from_str::<Record>(&text.replace("\"kernel\":\"k\"", &name)).unwrap()
    });
    let mut record = of.clone();
    for copy in copies {
        record.plan.cases.extend(copy.plan.cases);
        record.plan.units.extend(copy.plan.units);
        record.plan.rivals.extend(copy.plan.rivals);
        record.policy.gates.extend(copy.policy.gates);
        record.policy.baselines.extend(copy.policy.baselines);
        record.evidence.extend(copy.evidence);
        if let (Some(base), Some(copy)) = (&mut record.policy.base, copy.policy.base) {
            base.plan.cases.extend(copy.plan.cases);
            base.plan.units.extend(copy.plan.units);
            base.gates.extend(copy.gates);
            base.baselines.extend(copy.baselines);
        }
    }
    record
}

#[test]
fn a_page_of_262_cases_is_smaller_than_300_kb() {
    // The cases are timed beside rivals, and against a base.
    let beside = fixture::with_tails(fixture::record_beside_rival());
    let mut against = fixture::with_tails(fixture::record_against_base());
    let passing = [many_kernels(&beside, 66), many_kernels(&against, 66)];
    slow_down(&mut against, &fixture::case_id("fast", "small"));
    let failing = many_kernels(&against, 66);
    let all = passing.into_iter().map(|case| (case, false));
    for (record, fails) in all.chain([(failing, true)]) {
        assert!(record.plan.cases.len() >= 262);
        let page = page(&record);
        let parsed = parse(&page);
        let problems = parsed
            .values("class")
            .iter()
            .any(|class| class.starts_with("problem"));
        assert_eq!(problems, fails);
        assert!(page.len() < 300_000, "{}", page.len());
        assert_eq!(parsed.rows().len(), record.plan.cases.len());
        // One sentence says that something is left out.
        let said = parsed
            .text
            .matches("without their gates and samples")
            .count();
        assert_eq!(said, 1);
        assert!(parsed.text.contains("report.json has the verdicts"));
    }
}

#[test]
fn problems_stand_before_the_table_of_cases_and_only_failures_are_open() {
    let mut record = fixture::with_tails(broken());
    record.environment.commit = Some("0a34415aaaaa+".to_owned());
    let page = page(&record);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(at("<h1>") < at("class=\"problem fail\""));
    assert!(at("class=\"problem fail\"") < at("class=\"tools\""));
    assert!(at("class=\"tools\"") < at("class=\"values\""));
    assert!(page.contains(" - 0a34415aaaaa+ - gatekeeper</title>"));
    let parsed = parse(&page);
    for (tag, attributes) in &parsed.elements {
        let value = |name: &str| {
            let found = attributes.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| value.as_str())
        };
        if tag == "details" {
            let is_failure = value("data-outcome").is_some_and(|value| value == "fail");
            assert_eq!(value("open").is_some(), is_failure, "{attributes:?}");
        }
    }
    assert!(parsed.values("data-outcome").contains(&"pass"));
    assert!(parsed.values("data-outcome").contains(&"fail"));
}

#[test]
fn problems_of_the_base_are_folded_below_new_ones() {
    let mut record = fixture::record_against_base();
    fixture::slow(&mut record, &fixture::case_id("direct", "large"), 250_000);
    let folded = "<details class=\"fold\"><summary>1 problem that the base has, too (1 gate)";
    let open = folded.replace("\"fold\"", "\"fold\" open");
    // The page of a failed run is useless without a problem.
    assert!(page(&record).contains(&open));
    slow_down(&mut record, &fixture::case_id("fast", "small"));
    let page = page(&record);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    assert!(at("p50 5.0 % slower") < at(folded));
    assert!(!page[..at(folded)].contains("k/direct@large</a>"));
}

#[test]
fn no_page_has_a_backtick() {
    let records = [
        broken(),
        fixture::record(),
        fixture::record_without_gpu(),
        fixture::record_simulated(),
        fixture::record_against_base(),
        fixture::record_beside_rival(),
    ];
    for record in records {
        let page = page(&record);
        let body = &page[page.find("<body>").unwrap()..page.find("<script>").unwrap()];
        assert!(!body.contains('`'), "{body}");
    }
    assert_eq!(
        part::prose("run `k` again").into_string(),
        "run <code>k</code> again"
    );
}

#[test]
fn a_page_of_one_case() {
    let mut record = fixture::record_against_base();
    let id = fixture::case_id("fast", "small");
    record.plan.units.retain(|unit| unit.id.variant == "fast");
    record.plan.cases.retain(|case| case.id == id);
    record.policy.gates.retain(|gate| match &gate.subject {
        model::Subject::Case(case) => *case == id,
        model::Subject::Unit(unit) => unit.variant == "fast",
    });
    if let Some(base) = &mut record.policy.base {
        base.gates.clone_from(&record.policy.gates);
        base.plan.cases.clone_from(&record.plan.cases);
        base.plan.units.clone_from(&record.plan.units);
    }
    slow_down(&mut record, &id);
    let page = page(&record);
    parse(&page);
    let body = &page[page.find("<body>").unwrap()..page.find("<script>").unwrap()];
    // Each row, heading and part of a drawing gets a line, for a reader.
    let starts = [
        "section", "h2", "tr", "li", "article", "details", "figure", "path", "text", "footer",
    ];
    let lines = starts.iter().fold(body.replace('\n', ""), |text, element| {
        text.replace(&format!("<{element}"), &format!("\n<{element}"))
    });
    insta::assert_snapshot!(lines);
}
