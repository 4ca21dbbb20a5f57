//! Tests that tables say what the types say. Arguments of commands in docs/cli.md are compared with clap, keys in
//! docs/gates.md and docs/tune.md with the schema, and codes in docs/verdicts.md with the reasons. `UPDATE_DOCS=1`
//! writes the tables. Links in the first column are the page's own, and so is the order of keys, because the schema has
//! none.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use ::explain::CauseClass;
use clap::{Arg, Command, CommandFactory};
use common::{root, run, stdout};
use config::Selection;
use gatekeeper::cli::Cli;
use model::{Counter, Outcome, Reason, Tier, Topic};
use serde_json::Value;
use std::fs;

/// The cells of a row. The first one says what the row is about.
type Row = Vec<String>;

struct Table {
    /// The section that has the table, which is empty at the top of the page.
    section: String,
    header: &'static str,
    rows: Vec<Row>,
}

const ARGUMENTS: &str = "| argument | meaning | default |";
const KEYS: &str = "| key | meaning | default |";

#[test]
fn the_page_of_commands_has_the_arguments_of_the_program() {
    let cli = Cli::command();
    let visible = || {
        cli.get_subcommands()
            .filter(|subcommand| !subcommand.is_hide_set())
    };
    let mut tables = vec![Table {
        section: "Commands".to_owned(),
        header: "| command | does |",
        rows: visible()
            .map(|command| {
                vec![
                    code(command.get_name()),
                    cell(&command.get_about().unwrap().to_string()),
                ]
            })
            .collect(),
    }];
    for command in visible() {
        let mut rows: Vec<_> = arguments(command, "").collect();
        for below in command.get_subcommands() {
            rows.extend(arguments(below, &format!("{} ", below.get_name())));
        }
        if !rows.is_empty() {
            tables.push(Table {
                section: command.get_name().to_owned(),
                header: ARGUMENTS,
                rows,
            });
        }
    }
    assert!(tables.len() > 12, "{}", tables.len());
    hold("docs/cli.md", &tables);
}

#[test]
fn the_page_of_gates_has_the_keys_of_the_schema() {
    let schema: Value = serde_json::from_str(&stdout(&run(&root(), &["schema"], 0))).unwrap();
    let table = |section: &str, of: &str| Table {
        section: section.to_owned(),
        header: KEYS,
        rows: match of {
            "" => keys(&schema),
            of => keys(&schema["$defs"][of]),
        },
    };
    hold(
        "docs/gates.md",
        &[
            table("The file", ""),
            table("timing", "Timing"),
            table("simulation", "Simulation"),
            table("A kernel", "Kernel"),
            table("Tensors", "Tensor"),
            table("Structs", "Blocks"),
            table("Programs", "Program"),
            table("Outputs of programs", "ProgramOutput"),
            table("Captured tensors", "CapturedTensor"),
            table("Rivals", "Rival"),
        ],
    );
    hold("docs/tune.md", &[table("The space", "Tune")]);
    let counters = Table {
        section: "Counters".to_owned(),
        header: "| counter | tier | what |",
        rows: Counter::ALL
            .map(|counter| {
                let tier = match counter.tier() {
                    Tier::Gate => "gate",
                    Tier::Information => "information",
                };
                vec![
                    code(counter.name()),
                    tier.to_owned(),
                    paragraph(counter.documentation()),
                ]
            })
            .to_vec(),
    };
    hold("docs/gates.md", &[counters]);
}

#[test]
fn the_page_of_verdicts_has_the_codes_of_the_reasons() {
    let tables = Topic::ALL.map(|topic| Table {
        section: topic.to_string(),
        header: "| code | outcome | cause | what to do |",
        rows: Reason::codes()
            .filter(|code| code.topic == topic)
            .map(|reason| {
                let outcomes = match reason.outcomes {
                    [] => "refused by `baseline update`".to_owned(),
                    several => several
                        .iter()
                        .map(Outcome::to_string)
                        .collect::<Vec<_>>()
                        .join(", "),
                };
                let remedy = reason.remedy().unwrap_or_else(|| "-".to_owned());
                vec![
                    code(reason.code),
                    outcomes,
                    paragraph(&reason.meaning()),
                    remedy,
                ]
            })
            .collect(),
    });
    hold("docs/verdicts.md", &tables);
}

#[test]
fn the_page_of_explain_has_the_causes_of_the_rules() {
    let table = Table {
        section: "Causes".to_owned(),
        header: "| class | what is seen |",
        rows: CauseClass::ALL
            .map(|class| vec![code(class.name()), paragraph(class.documentation())])
            .to_vec(),
    };
    hold("docs/explain.md", &[table]);
}

fn paragraph(documentation: &str) -> String {
    assert!(!documentation.is_empty(), "a line is without documentation");
    let words: Vec<_> = documentation.split_whitespace().collect();
    words.join(" ")
}

/// The schema describes a default in words, which must be the default of a file without the key.
#[test]
fn the_defaults_are_those_of_a_file_that_says_nothing() {
    let project = common::copy_of("tests/fixtures/pages");
    let file = project.path().join("gates.yaml");
    common::edit(&file, "    seeds: 2\n", "");
    let rival = "    rivals: {other: {command: [true], backends: [one]}}\n";
    let says = "    gates: {max_err: 0}\n";
    common::edit(&file, says, &format!("{rival}{says}"));
    let plan = config::load(&file, &Selection::default()).unwrap().plan;
    let case = &plan.cases[0];
    let schema: Value = serde_json::from_str(&stdout(&run(&root(), &["schema"], 0))).unwrap();
    let default = |of: &str, key: &str| {
        let rows = keys(&schema["$defs"][of]);
        let row = rows.iter().find(|row| row[0] == code(key)).unwrap();
        row[2].replace('`', "")
    };
    let seeds: Vec<_> = (1..=5).collect();
    assert_eq!(case.seeds, seeds);
    assert_eq!(default("Kernel", "seeds"), "5, which are 1 to 5");
    let mode = serde_json::to_value(plan.timing.mode).unwrap();
    for (of, key, is) in [
        ("Timing", "mode", mode.as_str().unwrap().to_owned()),
        ("Timing", "warmup", plan.timing.warmup.to_string()),
        ("Timing", "iterations", plan.timing.iterations.to_string()),
        ("Timing", "singles", plan.timing.singles.to_string()),
        (
            "Timing",
            "batch",
            format!("{}us", plan.timing.batch_ns / 1000),
        ),
        ("Timing", "processes", plan.timing.processes.to_string()),
        (
            "Timing",
            "max_processes",
            plan.timing.max_processes.to_string(),
        ),
        ("Simulation", "budget", plan.simulation.budget.to_string()),
        ("Kernel", "launches", case.launches.to_string()),
        (
            "Kernel",
            "deadline",
            format!("{}s", case.deadline_ms / 1000),
        ),
        (
            "Rival",
            "deadline",
            format!("{}s", plan.rivals[0].deadline_ms / 1000),
        ),
    ] {
        assert_eq!(default(of, key), is, "{of}: {key}");
    }
}

fn arguments<'a>(command: &'a Command, below: &'a str) -> impl Iterator<Item = Row> + 'a {
    let all = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set());
    // The page says only once which commands accept it.
    let own = all.filter(|arg| {
        arg.get_id() != "help" && help(arg) != "The file with kernels, cases and gates"
    });
    own.map(move |arg| argument(arg, below))
}

fn argument(arg: &Arg, below: &str) -> Row {
    let takes = arg.get_action().takes_values();
    let values = arg.get_value_names().unwrap_or_default();
    let value = values.first().map_or_else(
        || arg.get_id().as_str().to_uppercase(),
        |name| name.to_string(),
    );
    let several = matches!(arg.get_action(), clap::ArgAction::Append);
    let name = match arg.get_long() {
        Some(long) if takes => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None if several => format!("{value}..."),
        None => value,
    };
    let help = help(arg);
    let (mut help, said) = match help.split_once(" [default: ") {
        Some((help, default)) => (help.to_owned(), cell(default.trim_end_matches(']'))),
        None => (help, String::new()),
    };
    if takes {
        let values = arg.get_possible_values();
        let values: Vec<_> = values.iter().map(|value| code(value.get_name())).collect();
        if !values.is_empty() {
            let of = if help.contains(':') { "; one of" } else { ":" };
            help = format!("{help}{of} {}", values.join(", "));
        }
    }
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    let default = match (defaults.is_empty() || !takes, arg.is_required_set()) {
        (false, _) => code(&defaults.join(",")),
        (true, true) => "required".to_owned(),
        (true, false) => said,
    };
    vec![code(&format!("{below}{name}")), cell(&help), default]
}

fn help(arg: &Arg) -> String {
    arg.get_help().unwrap().to_string().replace('\n', " ")
}

/// Returns the keys of an object of the schema. The description of a key ends with its default, or with when it is
/// required.
fn keys(object: &Value) -> Vec<Row> {
    let required = object["required"].as_array().cloned().unwrap_or_default();
    let properties = object["properties"].as_object().unwrap();
    let last =
        regex::Regex::new(r"(?s)^(?:(.*?)\.?\s)?(?:Default: (.*)|(Required\b.*))\.$").unwrap();
    properties
        .iter()
        .map(|(key, value)| {
            let text = value["description"]
                .as_str()
                .unwrap_or_default()
                .replace('\n', " ");
            let (meaning, default) = match last.captures(&text) {
                Some(found) => {
                    let of = |group: usize| found.get(group).map_or("", |text| text.as_str());
                    (
                        of(1).to_owned(),
                        format!("{}{}", of(2), of(3).to_lowercase()),
                    )
                }
                None if required.iter().any(|other| other == key) => {
                    (text.trim_end_matches('.').to_owned(), "required".to_owned())
                }
                None => panic!("nothing says what `{key}` is by default: {text:?}"),
            };
            assert!(
                !meaning.is_empty(),
                "nothing says what `{key}` is: {text:?}"
            );
            vec![code(key), cell(&meaning), cell(&default)]
        })
        .collect()
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// Returns text as a cell of a table. Options are code, and nothing in the text is markup.
fn cell(text: &str) -> String {
    let option = regex::Regex::new(r"--[a-z0-9][a-z0-9-]*").unwrap();
    text.split('`')
        .enumerate()
        .map(|(number, part)| match number % 2 {
            0 => {
                let plain = part.replace('*', r"\*").replace('<', r"\<");
                option.replace_all(&plain, "`$0`").into_owned()
            }
            _ => format!("`{part}`"),
        })
        .collect::<String>()
        .replace('|', r"\|")
}

/// Returns a cell without the link that a page puts around it.
fn plain(cell: &str) -> &str {
    let linked = cell
        .strip_prefix('[')
        .and_then(|link| link.split_once("]("));
    linked.map_or(cell, |parts| parts.0)
}

fn hold(page: &str, tables: &[Table]) {
    let path = root().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let wanted = with_tables(page, &text, tables);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, wanted).unwrap();
        return;
    }
    for (have, want) in text.lines().zip(wanted.lines()) {
        assert_eq!(have, want, "{page}: `UPDATE_DOCS=1` writes this table");
    }
    assert_eq!(text, wanted, "{page}: `UPDATE_DOCS=1` writes this table");
}

/// Returns the page with the rows of these tables.
fn with_tables(page: &str, text: &str, tables: &[Table]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for table in tables {
        let heading = |line: &String| {
            line.starts_with('#') && line.trim_start_matches('#').trim() == table.section
        };
        let section = lines.iter().position(heading);
        let start = section.and_then(|from| {
            let rest = &lines[from + 1..];
            let end = rest
                .iter()
                .position(|line| line.starts_with('#'))
                .unwrap_or(rest.len());
            let header = rest[..end].iter().position(|line| line == table.header);
            // These are the header and the line below it.
            Some(from + 1 + header? + 2)
        });
        let start = start.unwrap_or_else(|| {
            panic!(
                "{page} has no section {:?} with a table {:?}",
                table.section, table.header
            )
        });
        let length = lines[start..]
            .iter()
            .position(|line| !line.starts_with('|'));
        let end = length.map_or(lines.len(), |length| start + length);
        let page = lines[start..end].iter();
        let page: Vec<_> = page
            .map(|page| page.trim_start_matches("| ").split(" | ").next().unwrap())
            .collect();
        let place = |row: &Row| page.iter().position(|page| plain(page) == row[0]);
        let mut rows: Vec<_> = table.rows.iter().collect();
        if table.header == KEYS {
            rows.sort_by_key(|row| place(row).unwrap_or(usize::MAX));
        }
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row_cells| {
                row(
                    place(row_cells).map_or(&row_cells[0], |at| page[at]),
                    row_cells,
                )
            })
            .collect();
        lines.splice(start..end, rows);
    }
    lines.join("\n") + "\n"
}

fn row(first: &str, cells: &Row) -> String {
    format!(
        "| {first} |{}",
        cells[1..]
            .iter()
            .map(|cell| match cell.as_str() {
                "" => " |".to_owned(),
                cell => format!(" {cell} |"),
            })
            .collect::<String>()
    )
}
