//! Follows docs/tutorial.md as a reader does: files are saved, edits are made, commands are typed in a shell, and their
//! output is compared. `UPDATE_DOCS=1` writes the new output where it differs, which must then be cut to what matters.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{binary, root};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
enum Step {
    Save {
        file: String,
        text: String,
    },
    Edit {
        file: String,
        old: String,
        new: String,
    },
    /// The page shows the whole file as it is after an edit.
    Show {
        file: String,
        shown: Range<usize>,
    },
    Type(Vec<Typed>),
}

#[derive(Debug)]
struct Typed {
    command: String,
    /// The lines of the page that show the output. A line of `...` stands for any number of lines.
    shown: Range<usize>,
}

/// Returns the steps of the page. The file of a block of code is the last text in backticks before it. A whole file is
/// folded, and named in the summary of the fold.
fn steps(lines: &[&str]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut prose = String::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(language) = lines[at].strip_prefix("```") else {
            prose.push_str(lines[at]);
            prose.push('\n');
            at += 1;
            continue;
        };
        let length = lines[at + 1..].iter().position(|line| *line == "```");
        let block = at + 1..at + 1 + length.unwrap();
        at = block.end + 1;
        let file = || prose.rsplit('`').nth(1).unwrap().to_owned();
        let side = |mark: char| -> String {
            lines[block.clone()]
                .iter()
                .filter_map(|line| {
                    let kept = line.strip_prefix(' ').or_else(|| line.strip_prefix(mark))?;
                    Some(format!("{kept}\n"))
                })
                .collect()
        };
        let whole = prose.rsplit_once("<summary>The whole <code>");
        let whole = whole.and_then(|(_, rest)| rest.split_once("</code>"));
        steps.push(match language {
            "cpp" | "yaml" if whole.is_some() => Step::Show {
                file: whole.unwrap().0.to_owned(),
                shown: block,
            },
            "cpp" => Step::Save {
                file: file(),
                text: lines[block].join("\n") + "\n",
            },
            "diff" => Step::Edit {
                file: file(),
                old: side('-'),
                new: side('+'),
            },
            "console" => Step::Type(typed(lines, block)),
            _ => panic!("no test knows what to do with a block of {language:?}"),
        });
        prose.clear();
    }
    steps
}

fn typed(lines: &[&str], block: Range<usize>) -> Vec<Typed> {
    let mut all: Vec<Typed> = Vec::new();
    for at in block {
        match (lines[at].strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push(Typed {
                command: command.to_owned(),
                shown: at + 1..at + 1,
            }),
            (None, Some(last)) => last.shown.end = at + 1,
            (None, None) => panic!("this is printed before anything is typed: {}", lines[at]),
        }
    }
    all
}

/// A reader's shell: its directory, and its PATH.
struct Shell {
    dir: PathBuf,
    bin: PathBuf,
    scratch: PathBuf,
}

impl Shell {
    /// Types the commands of one block, and returns what each prints. Each must succeed, unless the next one asks for
    /// its exit code.
    fn typing(&mut self, commands: &[Typed]) -> Vec<String> {
        let out = |number: usize| self.scratch.join(format!("{number}.out"));
        let mut script = String::new();
        for (number, command) in commands.iter().enumerate() {
            let file = out(number);
            let asked = commands
                .get(number + 1)
                .is_some_and(|next| next.command == "echo $?");
            let otherwise = if asked { "" } else { " || exit 1" };
            script += &format!(
                "{{ {}\n}} > {}{otherwise}\n",
                command.command,
                file.display()
            );
        }
        script += &format!("pwd > {}\n", self.scratch.join("pwd").display());
        let path = std::env::var("PATH").unwrap();
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(&self.dir)
            .env("PATH", format!("{}:{path}", self.bin.display()))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs(["AUTHOR", "COMMITTER"].map(|role| (format!("GIT_{role}_NAME"), "reader")))
            .envs(
                ["AUTHOR", "COMMITTER"]
                    .map(|role| (format!("GIT_{role}_EMAIL"), "reader@example.org")),
            )
            .output()
            .unwrap();
        let printed =
            (0..commands.len()).map(|index| fs::read_to_string(out(index)).unwrap_or_default());
        let printed: Vec<_> = printed.collect();
        assert!(
            output.status.success(),
            "{script}\n{}\n{}",
            printed.concat(),
            String::from_utf8_lossy(&output.stderr)
        );
        self.dir = PathBuf::from(fs::read_to_string(self.scratch.join("pwd")).unwrap().trim());
        printed
    }
}

/// Returns a file as the page shows it: without the lines of comments that `init` writes into gates.yaml.
fn shown_file(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let is_yaml = file
        .extension()
        .is_some_and(|extension| extension == "yaml");
    text.lines()
        .filter(|line| {
            let line = line.trim_start();
            !is_yaml || !(line.is_empty() || line.starts_with('#'))
        })
        .map(str::to_owned)
        .collect()
}

/// Returns a line without commits, days and seconds, which differ between two equal runs.
fn steady(line: &str) -> String {
    let differs = r"\b[0-9a-f]{12}\b|\b\d{7,}\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\b\d+\.\d s\b";
    let differs = regex::Regex::new(differs).unwrap();
    differs.replace_all(line, "*").trim_end().to_owned()
}

/// Returns true if the page shows this output. `...` leaves lines out.
fn is_shown(printed: &[String], shown: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=printed.len()).any(|left_out| is_shown(&printed[left_out..], rest))
        }
        Some((first, rest)) => printed.first() == Some(first) && is_shown(&printed[1..], rest),
    }
}

#[test]
fn the_tutorial_equals_its_output() {
    build::toolchain::testing::toolchain();
    let page = root().join("docs/tutorial.md");
    let text = fs::read_to_string(&page).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let steps = steps(&lines);
    let (home, bin, scratch) = (dir(), dir(), dir());
    std::os::unix::fs::symlink(binary(), bin.path().join("gatekeeper")).unwrap();
    let mut shell = Shell {
        dir: home.path().to_owned(),
        bin: bin.path().to_owned(),
        scratch: scratch.path().to_owned(),
    };
    let mut differ: Vec<(Range<usize>, Vec<String>)> = Vec::new();
    for step in steps {
        match step {
            Step::Save { file, text } => fs::write(shell.dir.join(file), text).unwrap(),
            Step::Edit { file, old, new } => edit_once(&shell.dir.join(file), &old, &new),
            Step::Show { file, shown } => {
                let file = shown_file(&shell.dir.join(file));
                if lines[shown.clone()] != file {
                    differ.push((shown, file));
                }
            }
            Step::Type(commands) => {
                let all = shell.typing(&commands);
                for (it, printed) in commands.into_iter().zip(all) {
                    let printed: Vec<_> = printed.lines().map(steady).collect();
                    let shown: Vec<_> = lines[it.shown.clone()]
                        .iter()
                        .map(|line| steady(line))
                        .collect();
                    if !is_shown(&printed, &shown) {
                        differ.push((it.shown, printed));
                    }
                }
            }
        }
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let mut lines: Vec<_> = lines.iter().map(|line| (*line).to_owned()).collect();
        for (shown, printed) in differ.into_iter().rev() {
            lines.splice(shown, printed);
        }
        fs::write(page, lines.join("\n") + "\n").unwrap();
        return;
    }
    let told: String = differ
        .iter()
        .map(|(shown, printed)| {
            format!(
                "docs/tutorial.md:{} shows\n{}\nand it is\n{}\n",
                shown.start,
                lines[shown.clone()].join("\n"),
                printed.join("\n")
            )
        })
        .collect();
    assert!(told.is_empty(), "{told}`UPDATE_DOCS=1` writes it there");
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn edit_once(file: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert_eq!(
        text.matches(old).count(),
        1,
        "{} has this not once:\n{old}\n{text}",
        file.display()
    );
    fs::write(file, text.replace(old, new)).unwrap();
}
