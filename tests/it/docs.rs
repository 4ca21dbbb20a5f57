//! Tests that the documentation says what the program does: its files load, its commands parse, and no key is missing.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use clap::Parser;
use clap::error::ErrorKind;
use common::{copy_of, edit, root, run, stdout};
use gatekeeper::cli::Cli;
use std::collections::BTreeSet;
use std::fs;

/// Returns the pages of the repository, by their paths from the root.
fn pages() -> Vec<String> {
    let files = files(&[]);
    let pages: Vec<_> = files
        .into_iter()
        .filter(|file| file.ends_with(".md"))
        .collect();
    assert!(pages.len() > 12, "{pages:?}");
    pages
}

/// Returns the files of the repository with one of these endings, or all files if there are no endings.
fn files(endings: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut dirs = vec![root()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                let ours = !name.starts_with('.') || [".github", ".ci"].contains(&name.as_str());
                if ours && !["target", "gatekeeper-out", "out"].contains(&name.as_str()) {
                    dirs.push(path);
                }
            } else if endings.is_empty() || endings.iter().any(|ending| name.ends_with(ending)) {
                let relative = path.strip_prefix(root()).unwrap();
                found.push(relative.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

/// Returns the fenced blocks of one language.
fn blocks(file: &str, language: &str) -> Vec<String> {
    let text = read(file);
    text.split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix(&format!("{language}\n")))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_yaml_block_on_a_page_loads() {
    let (mut whole, mut other) = (0, 0);
    for page in pages() {
        for block in blocks(&page, "yaml") {
            match block {
                text if text.contains("\naccepted:") => loads_as_acceptances(&text),
                text if text.starts_with("version: 1") => {
                    loads_as_gates(&text);
                    whole += 1;
                    continue;
                }
                text if text.starts_with("gates:") => loads_as_limits(&text),
                text if text.starts_with("variants:") => loads_as_variants(&text),
                text if text.starts_with("    sequence:") => loads_as_sequence(&text),
                text if text.starts_with("    entry:") => loads_as_kernel(&text),
                text if text.contains("\njobs:\n") => is_a_workflow(&text),
                text if text.starts_with("repos:") => names_a_hook(&text),
                text => panic!("{page}: no test knows what this is:\n{text}"),
            }
            other += 1;
        }
    }
    assert!(whole >= 3 && other >= 3, "{whole}, {other}");
}

/// Loads a whole gates.yaml, with the sources and the directory of headers that it names.
fn loads_as_gates(text: &str) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("gates.yaml"), text).unwrap();
    let sources = text.split("source: ").skip(1);
    for source in sources.map(|rest| rest.split_whitespace().next().unwrap()) {
        let source = dir.path().join(source);
        fs::create_dir_all(source.parent().unwrap()).unwrap();
        fs::write(source, "").unwrap();
    }
    let headers = text.split("include_dirs: [").skip(1);
    for headers in headers.map(|rest| rest.split(']').next().unwrap()) {
        fs::create_dir_all(dir.path().join(headers)).unwrap();
    }
    run(dir.path(), &["validate"], 0);
}

/// Loads variants next to one that is called `plain`.
fn loads_as_variants(text: &str) {
    let variants: Vec<_> = text.lines().map(|line| format!("    {line}\n")).collect();
    loads_as_gates(&format!(
        "version: 1
architectures: [sm_90]
kernels:
  k:
    source: k.cu
    entry: k
{}      plain: {{}}
    shapes: {{small: {{N: 8}}, large: {{N: 16}}}}
    tensors:
      x: {{type: f32, shape: [N]}}
      y: {{role: out, type: f32, shape: [N]}}
    args: [{{tensor: x}}, {{tensor: y}}]
    launch: {{grid: [1], block: [8]}}
    reference: {{unary: {{x: x, out: y, op: copy}}}}
    gates: {{max_err: 0}}
",
        variants.concat()
    ));
}

/// Loads the steps of an attention as a sequence.
fn loads_as_sequence(text: &str) {
    loads_as_gates(&format!(
        "version: 1
architectures: [sm_90]
kernels:
  k:
    source: k.cu
{text}
    shapes: {{small: {{S: 8, H: 2, SPLITS: 2}}}}
    tensors:
      q: {{type: f32, shape: [1, H, S, 4]}}
      k: {{type: f32, shape: [1, H, S, 4]}}
      v: {{type: f32, shape: [1, H, S, 4]}}
      part: {{role: scratch, type: f32, shape: [SPLITS, H]}}
      out: {{role: out, type: f32, shape: [1, H, S, 4]}}
    reference: {{sdpa: {{q: q, k: k, v: v, out: out}}}}
    gates: {{max_err: 1e-3}}
"
    ));
}

/// Loads a kernel that has no output.
fn loads_as_kernel(text: &str) {
    loads_as_gates(&format!(
        "version: 1
architectures: [sm_90]
kernels:
  k:
    source: k.cu
{text}
"
    ));
}

/// Loads gates on a variant, next to the variant that they refer to.
fn loads_as_limits(text: &str) {
    let gates: Vec<_> = text.lines().map(|line| format!("        {line}")).collect();
    loads_as_gates(&format!(
        "version: 1
architectures: [sm_90]
kernels:
  k:
    source: k.cu
    entry: k
    variants:
      stage1: {{}}
      stage2:
        define: {{FAST: 1}}
{}
    tensors:
      x: {{type: f32, shape: [8]}}
      y: {{role: out, type: f32, shape: [8]}}
    args: [{{tensor: x}}, {{tensor: y}}]
    launch: {{grid: [1], block: [8]}}
    reference: {{unary: {{x: x, out: y, op: copy}}}}
    gates: {{max_err: 0}}
",
        gates.join("\n")
    ));
}

/// Loads acceptances for gates of this repository.
fn loads_as_acceptances(text: &str) {
    let dir = copy_of("kernels");
    let project = tempfile::tempdir().unwrap();
    fs::rename(dir.path(), project.path().join("kernels")).unwrap();
    fs::write(project.path().join("gates.yaml"), read("gates.yaml")).unwrap();
    fs::create_dir(project.path().join("baselines")).unwrap();
    fs::write(project.path().join("baselines/accepted.yaml"), text).unwrap();
    run(project.path(), &["validate"], 0);
}

/// Checks a workflow: its steps may give the action only inputs that it has.
fn names_a_hook(text: &str) {
    let used: serde_json::Value = serde_yaml::from_str(text).unwrap();
    let ours: serde_json::Value = serde_yaml::from_str(&read(".pre-commit-hooks.yaml")).unwrap();
    let id = &used["repos"][0]["hooks"][0]["id"];
    assert!(
        ours.as_array()
            .unwrap()
            .iter()
            .any(|hook| hook["id"] == *id)
    );
}

fn is_a_workflow(text: &str) {
    let actions = [
        ("OWNER/gatekeeper@main", "action.yml"),
        ("OWNER/gatekeeper/comment@main", "comment/action.yml"),
    ];
    let workflow: serde_json::Value = serde_yaml::from_str(text).unwrap();
    let mut uses = 0;
    for job in workflow["jobs"].as_object().unwrap().values() {
        for step in job["steps"].as_array().unwrap() {
            let used = actions.iter().find(|(name, _)| step["uses"] == *name);
            if let Some((_, file)) = used {
                let action: serde_json::Value = serde_yaml::from_str(&read(file)).unwrap();
                for input in step["with"].as_object().unwrap().keys() {
                    assert!(!action["inputs"][input].is_null(), "{input}");
                }
                uses += 1;
            }
        }
    }
    assert!(uses > 0, "{text}");
}

/// Returns the lines of a report that do not differ between machines and days: problems and headline.
fn pictured(said: &str) -> String {
    let headline = said.lines().find(|line| line.starts_with("FAIL: "));
    let (_, told) = said.split_once("\n\n").unwrap();
    let told = told.split("\nnot judged ").next().unwrap();
    format!("$ gatekeeper run\n\n{told}\n{}\n", headline.unwrap())
}

/// Returns the words of the terminal in a picture that `rich` drew.
fn words_in_picture(svg: &str) -> Vec<String> {
    let terminal = svg
        .split_once("-matrix\">")
        .map_or("", |(_, picture)| picture);
    let text = terminal
        .split("<text ")
        .skip(1)
        .map(|rest| {
            rest.split_once('>')
                .unwrap()
                .1
                .split("</text>")
                .next()
                .unwrap()
        })
        .collect::<Vec<_>>()
        .join(" ")
        .replace("&#160;", " ");
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let text = text.replace("&#x27;", "'").replace("&amp;", "&");
    text.split_whitespace().map(str::to_owned).collect()
}

/// The README shows a failing run, which happens in the same words.
#[test]
fn the_failing_run_of_the_readme_equals_the_output() {
    let project = copy_of("examples/rms-norm");
    let simulated = ["run", "--provision", "--device", "sim"];
    run(project.path(), &simulated, 0);
    run(project.path(), &["baseline", "update"], 0);
    edit(
        &project.path().join("fused_add_rms_norm.cu"),
        "    for (int i = threadIdx.x; i < hidden; i += BLOCK) {",
        "    const int stretch = hidden / BLOCK;\n    \
         for (int i = threadIdx.x * stretch; i < (threadIdx.x + 1) * stretch; ++i) {",
    );
    let expected = pictured(&stdout(&run(project.path(), &simulated, 1)));
    let drawn = words_in_picture(&read("docs/failing-run.svg"));
    // If a line is cut into parts of different colours, words may be cut, too.
    if drawn.concat() != expected.split_whitespace().collect::<String>() {
        let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/failing-run.txt");
        fs::write(file, &expected).unwrap();
        panic!(
            "docs/failing-run.svg shows\n{}\nand the program prints\n{expected}\nCONTRIBUTING.md says how to \
             draw it again, from {file}",
            drawn.join(" ")
        );
    }
}

#[test]
fn every_key_of_the_schema_is_on_the_page() {
    let schema: serde_json::Value =
        serde_json::from_str(&stdout(&run(&root(), &["schema"], 0))).unwrap();
    let mut keys = BTreeSet::new();
    names(&schema, &mut keys);
    assert!(keys.len() > 100, "{keys:?}");
    let page = read("docs/gates.md") + &read("docs/tune.md");
    let words: BTreeSet<_> = page
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    let missing: Vec<_> = keys
        .iter()
        .filter(|key| !words.contains(key.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Collects the keys of objects, and the words that a value may be.
fn names(schema: &serde_json::Value, keys: &mut BTreeSet<String>) {
    match schema {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                match (key.as_str(), value) {
                    ("properties", serde_json::Value::Object(properties)) => {
                        keys.extend(properties.keys().cloned());
                    }
                    ("const", serde_json::Value::String(word)) => {
                        keys.insert(word.clone());
                    }
                    ("enum", serde_json::Value::Array(words)) => keys.extend(
                        words
                            .iter()
                            .filter_map(|word| word.as_str().map(str::to_owned)),
                    ),
                    _ => {}
                }
                names(value, keys);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| names(item, keys)),
        _ => {}
    }
}

/// Returns the anchor that GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut links = 0;
    for page in pages() {
        let text = read(&page);
        let targets = text.split("](").skip(1);
        for target in targets.map(|rest| rest.split(')').next().unwrap()) {
            if target.starts_with("http") {
                continue;
            }
            let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => root().join(&page),
                file => root().join(&page).parent().unwrap().join(file),
            };
            assert!(path.exists(), "{page}: {target}");
            if !wanted.is_empty() {
                let text = fs::read_to_string(path).unwrap();
                assert!(
                    text.lines()
                        .filter(|line| line.starts_with('#'))
                        .map(|line| anchor(line.trim_start_matches('#')))
                        .any(|anchor| anchor == wanted),
                    "{page}: {target}"
                );
            }
            links += 1;
        }
    }
    assert!(links > 60, "{links}");
}

/// Returns the pages of docs/ that a page links to, in order. Each occurs once.
fn links_within_docs(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in read(page).split("](").skip(1) {
        let target = rest.split([')', '#']).next().unwrap().to_owned();
        if target.ends_with(".md") && !target.starts_with("..") && !found.contains(&target) {
            found.push(target);
        }
    }
    found
}

/// A reader who opens docs/, on GitHub or as a book, finds each page.
#[test]
fn every_page_is_in_the_table_of_contents() {
    let docs: BTreeSet<_> = pages()
        .into_iter()
        .filter_map(|page| Some(page.strip_prefix("docs/")?.to_owned()))
        .collect();
    let mut book = links_within_docs("docs/SUMMARY.md");
    let linked: BTreeSet<_> = book.iter().cloned().collect();
    let contents = BTreeSet::from(["SUMMARY.md".to_owned()]);
    assert_eq!(linked, &docs - &contents);
    // The first page lists the others in the order of the book, and links to some of them before that.
    book.retain(|page| page != "README.md");
    let text = read("docs/README.md");
    assert_eq!(
        text.lines()
            .filter_map(|line| line.strip_prefix("- ["))
            .filter_map(|line| Some(line.split_once("](")?.1.split_once(')')?.0))
            .filter(|target| !target.starts_with(".."))
            .collect::<Vec<_>>(),
        book
    );
}

/// Pages that code, comments and messages name, and that are not in the repository.
const ELSEWHERE: [&str; 5] = [
    // The program or a shell writes this page.
    "report.md",
    "comment.md",
    "history.md",
    // This page is NVBench's.
    "docs/json_output.md",
    // A test puts this file where it does not belong.
    "baselines/README.md",
];

#[test]
fn no_file_refers_to_a_page_that_is_not_here() {
    let pages = pages();
    let name = regex::Regex::new(r"(?:\$[A-Z]+/)?([A-Za-z0-9_./-]*[A-Za-z0-9_-]\.md)\b").unwrap();
    let endings = [
        ".rs", ".toml", ".md", ".yaml", ".yml", ".cu", ".cuh", ".py", ".sh", "run",
    ];
    let mut found = 0;
    for file in files(&endings) {
        if file == "tests/it/docs.rs" {
            continue;
        }
        for named in name
            .captures_iter(&read(&file))
            .map(|named| named.extract::<1>().1[0])
        {
            let wanted = named.trim_start_matches("../").trim_start_matches("./");
            let ends = |of: &str| of == wanted || of.ends_with(&format!("/{wanted}"));
            let elsewhere = ELSEWHERE
                .iter()
                .any(|file| wanted == *file || wanted.ends_with(&format!("/{file}")));
            assert!(
                elsewhere || pages.iter().any(|page| ends(page)),
                "{file} refers to {named}"
            );
            found += 1;
        }
    }
    assert!(found > 60, "{found}");
}

/// A command that is printed for people to type must be one that the program accepts.
#[test]
fn every_command_on_a_page_is_one() {
    let mut commands = 0;
    for page in pages() {
        let text = read(&page).replace("\\\n", " ");
        let (mut whole, mut named) = (Vec::new(), Vec::new());
        for (number, part) in text.split("```").enumerate() {
            match part.split_once('\n') {
                Some(("sh" | "console", block)) if number % 2 == 1 => whole.extend(block.lines()),
                _ if number % 2 == 0 => named.extend(part.split('`').skip(1).step_by(2)),
                _ => {}
            }
        }
        let whole = whole.iter().map(|line| (true, (*line).to_owned()));
        let named = named.iter().map(|line| (false, line.replace('\n', " ")));
        for (whole, line) in whole.chain(named) {
            let Some(said) = to_gatekeeper(&line) else {
                continue;
            };
            let typed = [vec!["gatekeeper".to_owned()], words(said)].concat();
            commands += 1;
            let Err(error) = Cli::try_parse_from(typed) else {
                continue;
            };
            // Sentences often name a command without its arguments.
            let open = [
                ErrorKind::MissingRequiredArgument,
                ErrorKind::MissingSubcommand,
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                ErrorKind::DisplayHelp,
                ErrorKind::DisplayVersion,
            ];
            assert!(
                !whole && open.contains(&error.kind()),
                "{page}: {line}\n{error}"
            );
        }
    }
    assert!(commands > 60, "{commands}");
}

/// Splits a line into words as a shell does.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the part of a line that a shell would run as gatekeeper, if there is one.
fn to_gatekeeper(line: &str) -> Option<&str> {
    let line = line.trim().trim_start_matches("$ ");
    let said = ["gatekeeper ", "cargo run --release -- ", "exec gatekeeper "];
    let said = said.iter().find_map(|prompt| line.strip_prefix(prompt))?;
    // This is the first line of a report: `gatekeeper 0.1.0 · ...`.
    if said.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    // The command ends where the shell does something with it.
    Some(
        [" | ", " > ", " && ", " || ", " #"]
            .iter()
            .fold(said, |text, end| text.split(end).next().unwrap_or(text)),
    )
}

/// Users look for the versions that they see in the changelog.
#[test]
fn the_changelog_names_the_versions() {
    let changelog = read("CHANGELOG.md");
    let (_, record) = model::RECORD_SCHEMA.split_once('/').unwrap();
    for line in [
        format!("| counter model | {} |", ptxsim::COUNTER_MODEL),
        format!("| timing protocol | {} |", model::TIMING_PROTOCOL),
        format!("| file schemas (record, baseline, report) | {record} |"),
    ] {
        assert!(changelog.contains(&line), "{line}");
    }
}

/// The layout in docs/ARCHITECTURE.md is the layout of the tree: nothing is missing, and nothing has moved.
#[test]
fn the_layout_is_that_of_the_tree() {
    let blocks = blocks("docs/ARCHITECTURE.md", "text");
    let layout = blocks.iter().find(|block| block.starts_with("crates/"));
    let layout = layout.unwrap();
    let mut named = BTreeSet::new();
    let mut above = "";
    for line in layout.lines() {
        match line.strip_prefix("  ") {
            None => {
                above = line.split_whitespace().next().unwrap();
                named.insert(above.to_owned());
            }
            // Deeper lines continue the text of the line before.
            Some(rest) if !rest.starts_with(' ') => {
                let (names, _) = rest
                    .split_once("  ")
                    .unwrap_or((rest.split(' ').next().unwrap(), ""));
                named.extend(
                    names
                        .trim()
                        .split(", ")
                        .map(|name| format!("{above}{name}")),
                );
            }
            Some(_) => {}
        }
    }
    let mut there = BTreeSet::new();
    for above in ["", "src/", "crates/", "dev/"] {
        for entry in fs::read_dir(root().join(above)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            let not_ours = name.starts_with('.')
                || ["target", "gatekeeper-out", "out"].contains(&name.as_str());
            if entry.path().is_dir() && !not_ours {
                there.insert(format!("{above}{name}/"));
            } else if above == "src/" && name.ends_with(".rs") {
                there.insert(format!("{above}{}", name.trim_end_matches(".rs")));
            }
        }
    }
    // A module's own file is next to its directory, and so is the list of modules.
    let dirs = there.clone();
    there.retain(|path| !dirs.contains(&format!("{path}/")) && path != "src/lib");
    assert_eq!(named, there);
}
