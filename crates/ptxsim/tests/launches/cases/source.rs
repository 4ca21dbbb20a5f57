//! Reads a file of cases ([`super`] has the form).

use crate::common::annotations::{self, Annotation, numbered};
use crate::common::{fixture, kept};
use regex::{Captures, Regex};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

static FRAGMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new("@([A-Z][A-Z0-9_]*)@").unwrap());
static QUOTED_FRAGMENT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("\"(@[A-Z][A-Z0-9_]*@)\"").unwrap());

/// The arguments of a launch, and its expected results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    pub launch: Shape,
    /// `name: type[count] = values`, in the order of their allocation. Without `= values`, nothing is written there. The values
    /// are an expression of the index ([`super::expression`]), a list, which is repeated, or a tensor map as in `args`.
    #[serde(default)]
    pub buffers: Vec<String>,
    /// A buffer's name, a number, or `{map: buffer, element: u32, extents: [..], boxes: [..], ..}`. By default all buffers.
    /// Parameters behind them are zero.
    pub args: Option<Vec<Value>>,
    /// The values of the last buffer afterwards, or those of `{name: .., "name[3]": .., "name[0..64]": ..}`. `null` stands for
    /// places that nothing has written.
    pub out: Option<Value>,
    /// Counts that the launch must have.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
    /// With `true`, counters that no gate may rest on are notes `withheld-REASON`, which say `(counter counter)`.
    #[serde(default)]
    pub withheld: bool,
    /// In the kernel of a fixture `by` takes the place of each `what`, by `[what, by]`, or of the n-th statement that begins so,
    /// with its semicolon, by `[what, by, n]`.
    #[serde(default)]
    pub edits: Vec<Edit>,
    /// The number of instructions after which the launch is stopped.
    pub instructions: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub grid: Vec<u32>,
    pub block: Vec<u32>,
    #[serde(default)]
    pub cluster: Vec<u32>,
    #[serde(default)]
    pub cooperative: bool,
    #[serde(default)]
    pub dynamic_shared: u32,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Edit {
    Each(String, String),
    Statement(String, String, usize),
}

/// A file of cases, as it is read.
pub struct Source<'a> {
    /// The name of the file, such as `clusters.ptx`.
    pub file_name: String,
    /// The lines before the first kernel, with directives blanked.
    head: String,
    head_lines: usize,
    defines: BTreeMap<String, String>,
    keys: BTreeMap<String, String>,
    kernels: Vec<KernelText<'a>>,
}

#[derive(Default)]
struct KernelText<'a> {
    name: &'a str,
    keys: BTreeMap<String, String>,
    cases: Vec<CaseText<'a>>,
    /// Its lines, without directives. In a `.cu` file, where directives are at the end, a kernel has all of them: functions
    /// are inlined.
    lines: Vec<(u32, &'a str)>,
}

struct CaseText<'a> {
    line: u32,
    name: &'a str,
    keys: BTreeMap<String, String>,
    texts: BTreeMap<String, String>,
    annotations: Vec<Annotation<'a>>,
}

/// A launch of a kernel, with its expected results.
pub struct Case<'a> {
    pub name: &'a str,
    pub is_first_of_kernel: bool,
    /// The line that a finding without a line of its own belongs to.
    pub line: u32,
    pub kernel: &'a str,
    /// The PTX of the module that the case runs.
    pub text: String,
    pub keys: Keys,
    pub expected: Vec<Expected<'a>>,
}

/// A finding, fault or note that a case must have.
#[derive(Debug)]
pub struct Expected<'a> {
    pub is_note: bool,
    pub kind: &'a str,
    pub lines: BTreeSet<u32>,
    pub says: Vec<&'a str>,
}

impl<'a> Source<'a> {
    pub fn read(path: &Path, text: &'a str) -> Self {
        let mut source = Source {
            file_name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            head: String::new(),
            head_lines: 0,
            defines: BTreeMap::new(),
            keys: BTreeMap::new(),
            kernels: Vec::new(),
        };
        let mut open: Option<(&str, Vec<&str>)> = None;
        for (number, line) in numbered(text) {
            let directive = line.trim_start().strip_prefix("//@ ");
            match (directive, &mut open) {
                (Some("end"), _) => {
                    let (name, lines) = open.take().expect("an open define");
                    source.defines.insert(name.to_owned(), lines.join(" "));
                }
                (_, Some((_, lines))) => {
                    lines.push(line.split("//").next().unwrap_or_default().trim());
                }
                (Some(directive), None) => {
                    open = source.directive(number, directive);
                }
                (None, None) => {
                    if let Some(kernel) = source.kernels.last_mut() {
                        kernel.lines.push((number, line));
                        continue;
                    }
                    source.head.push_str(line);
                }
            }
            if source.kernels.is_empty() {
                source.head.push('\n');
                source.head_lines += 1;
            }
        }
        if source.is_compiled() {
            let lines: Vec<(u32, &str)> = numbered(text)
                .filter(|(_, line)| !line.starts_with("//@ "))
                .collect();
            for kernel in &mut source.kernels {
                kernel.lines.clone_from(&lines);
            }
        }
        source
    }

    fn is_compiled(&self) -> bool {
        self.file_name.ends_with(".cu")
    }

    /// Reads a directive. Returns the fragment that it opens.
    fn directive(&mut self, number: u32, directive: &'a str) -> Option<(&'a str, Vec<&'a str>)> {
        if let Some(define) = directive.strip_prefix("define ") {
            let Some((name, text)) = define.split_once(':') else {
                return Some((define, Vec::new()));
            };
            let text = text.trim();
            self.defines.insert(name.to_owned(), text.to_owned());
        } else if let Some(name) = directive.strip_prefix("kernel ") {
            self.kernels.push(KernelText {
                name: name.trim(),
                ..KernelText::default()
            });
        } else if let Some(case) = directive.strip_prefix("case ") {
            let kernel = self.kernels.last_mut().expect("a kernel before its case");
            kernel.cases.push(CaseText::read(number, case));
        } else {
            let (key, value) = directive.split_once(": ").expect("a key and its value");
            let keys = self
                .kernels
                .last_mut()
                .map_or(&mut self.keys, |kernel| &mut kernel.keys);
            keys.insert(key.to_owned(), value.to_owned());
        }
        None
    }

    pub fn cases(&self) -> impl Iterator<Item = Case<'_>> {
        self.kernels.iter().flat_map(|kernel| {
            let itself = kernel
                .cases
                .is_empty()
                .then(|| CaseText::read(0, kernel.name));
            let cases: Vec<Case> = itself
                .iter()
                .chain(&kernel.cases)
                .enumerate()
                .map(|(n, case)| self.case(kernel, case, n == 0))
                .collect();
            cases
        })
    }

    fn case<'s>(
        &'s self,
        kernel: &'s KernelText<'a>,
        case: &CaseText<'a>,
        is_first: bool,
    ) -> Case<'s> {
        for name in case.texts.keys() {
            let used = format!("@{name}@");
            let lines = kernel.lines.iter().map(|(_, line)| *line);
            let texts = [&self.defines, &self.keys, &kernel.keys, &case.texts];
            let is_used = texts
                .into_iter()
                .flat_map(BTreeMap::values)
                .map(String::as_str)
                .chain([self.head.as_str()])
                .chain(lines)
                .any(|text| text.contains(&used));
            assert!(
                is_used,
                "{} {}: nothing uses {name}",
                self.file_name, case.name
            );
        }
        let expand = |text: &str| self.expand(text, &case.texts);
        let mut keys = self.keys.clone();
        keys.extend(kernel.keys.clone());
        keys.extend(case.keys.clone());
        let keys: Map<String, Value> = keys
            .into_iter()
            .map(|(key, value)| {
                let value = expand(&value);
                let value =
                    serde_yaml::from_str(&value).unwrap_or_else(|e| panic!("{key}: {value}: {e}"));
                (key, value)
            })
            .collect();
        let keys: Keys = serde_json::from_value(Value::Object(keys))
            .unwrap_or_else(|e| panic!("{} {}: {e}", self.file_name, case.name));
        let text = match self.file_name.strip_suffix(".cu") {
            Some(stem) => edited(&fixture(stem), kernel.name, &keys.edits),
            None => self.text(kernel, case.name, &expand),
        };
        Case {
            name: case.name,
            is_first_of_kernel: is_first,
            line: case.line,
            kernel: kernel.name,
            text,
            keys,
            expected: kernel.expected(case),
        }
    }

    /// Returns the module of a case, in which each line has the number that it has in the file.
    fn text(&self, kernel: &KernelText, case: &str, expand: &dyn Fn(&str) -> String) -> String {
        let mut text = expand(&self.head);
        let mut at = self.head_lines as u32 + 1;
        for (number, line) in &kernel.lines {
            text.extend(std::iter::repeat_n('\n', (number - at) as usize));
            let (cases, line) = selected(line);
            if is_for(cases, case) {
                text += expand(line).trim_end();
            }
            text.push('\n');
            at = number + 1;
        }
        text
    }

    /// Replaces names of fragments by their text until none is left.
    fn expand(&self, text: &str, own: &BTreeMap<String, String>) -> String {
        let mut text = text.to_owned();
        while FRAGMENT.is_match(&text) {
            text = FRAGMENT
                .replace_all(&text, |found: &Captures| {
                    own.get(&found[1])
                        .or_else(|| self.defines.get(&found[1]))
                        .unwrap_or_else(|| panic!("{}: no fragment {}", self.file_name, &found[1]))
                        .clone()
                })
                .into_owned();
        }
        text
    }

    /// Returns what is wrong with the names: two cases with the same, brackets with none, and rows of a GPU's counts that are of
    /// this file and that no case is held to.
    pub fn wrong_names(&self) -> Vec<String> {
        let mut names = BTreeSet::new();
        let twice: Vec<&str> = self
            .kernels
            .iter()
            .flat_map(KernelText::names)
            .filter(|name| !names.insert(*name))
            .collect();
        let unknown = self.kernels.iter().flat_map(|kernel| {
            let names = if self.is_compiled() {
                names.clone()
            } else {
                kernel.names().collect()
            };
            kernel.selected().filter(move |name| !names.contains(name))
        });
        let (stem, _) = self.file_name.split_once('.').unwrap();
        let begin = format!("{stem}.");
        let uncounted = kept::names_of_readings(&begin).filter(|name| !names.contains(name));
        twice
            .iter()
            .map(|name| format!("two cases {name}"))
            .chain(unknown.map(|name| format!("[{name}] is no case")))
            .chain(uncounted.map(|name| format!("no case {name}, which counts.tsv has")))
            .map(|problem| format!("{}: {problem}", self.file_name))
            .collect()
    }
}

impl<'a> CaseText<'a> {
    /// Reads `name: {..} // ~ annotation`.
    fn read(line: u32, text: &'a str) -> Self {
        let annotations = annotations::annotations(text);
        let text = text.split("// ~ ").next().unwrap_or(text);
        let (name, settings) = text.split_once(": ").unwrap_or((text, "{}"));
        let settings: Map<String, Value> =
            serde_yaml::from_str(settings).unwrap_or_else(|e| panic!("case {name}: {e}"));
        let (texts, keys): (Vec<_>, Vec<_>) = settings
            .into_iter()
            .partition(|(name, _)| name.starts_with(|c: char| c.is_ascii_uppercase()));
        let plain = |value: Value| value.as_str().map_or(value.to_string(), str::to_owned);
        CaseText {
            line,
            name: name.trim(),
            keys: keys
                .into_iter()
                .map(|(key, value)| {
                    // A fragment alone stands for any value, and not for a string only.
                    let value = value.to_string();
                    let value = QUOTED_FRAGMENT.replace_all(&value, "$1").into_owned();
                    (key, value)
                })
                .collect(),
            texts: texts
                .into_iter()
                .map(|(name, value)| (name, plain(value)))
                .collect(),
            annotations,
        }
    }
}

impl<'a> KernelText<'a> {
    fn names(&self) -> impl Iterator<Item = &'a str> {
        let itself = self.cases.is_empty().then_some(self.name);
        itself
            .into_iter()
            .chain(self.cases.iter().map(|case| case.name))
    }

    /// Returns the names in the brackets of its lines.
    fn selected(&self) -> impl Iterator<Item = &'a str> {
        self.lines
            .iter()
            .flat_map(|(_, line)| {
                annotations::annotations(line)
                    .into_iter()
                    .map(|annotation| annotation.cases)
                    .chain([selected(line).0])
            })
            .flat_map(|cases| cases.trim_start_matches('!').split_whitespace())
    }

    fn expected(&self, case: &CaseText<'a>) -> Vec<Expected<'a>> {
        let labels = annotations::labels(self.lines.iter().copied());
        let of_lines = self.lines.iter().flat_map(|(number, line)| {
            annotations::annotations(line)
                .into_iter()
                .map(|annotation| (*number, annotation))
        });
        let of_case = case.annotations.iter().cloned();
        of_lines
            .filter(|(_, annotation)| is_for(annotation.cases, case.name))
            .chain(of_case.map(|annotation| (case.line, annotation)))
            .map(|(number, annotation)| {
                let other = annotation.label.map(|label| {
                    *labels
                        .get(label)
                        .unwrap_or_else(|| panic!("no label {label}"))
                });
                Expected {
                    is_note: annotation.is_note,
                    kind: annotation.kind,
                    lines: other.into_iter().chain([number]).collect(),
                    says: annotation.says,
                }
            })
            .collect()
    }
}

/// Splits `[one two] text` into the names and the text.
fn selected(line: &str) -> (&str, &str) {
    line.strip_prefix('[')
        .and_then(|line| line.split_once(']'))
        .unwrap_or(("", line))
}

/// Returns true if `one two` names a case, or `!one two` does not, or nothing is named.
fn is_for(cases: &str, case: &str) -> bool {
    let named = |cases: &str| cases.split_whitespace().any(|name| name == case);
    match cases.strip_prefix('!') {
        Some(others) => !named(others),
        None => cases.is_empty() || named(cases),
    }
}

/// Returns a module in which one kernel is edited.
fn edited(text: &str, kernel: &str, edits: &[Edit]) -> String {
    let begin = text.find(&format!(".entry {kernel}(")).expect("the kernel");
    let end = begin + text[begin..].find("\n}").expect("the kernel's end");
    let mut body = text[begin..end].to_owned();
    for edit in edits {
        let before = body.clone();
        match edit {
            Edit::Each(what, by) => body = body.replace(what, by),
            Edit::Statement(what, by, n) => {
                let at = body.match_indices(what.as_str()).nth(*n);
                let (at, _) = at.unwrap_or_else(|| panic!("no {what} {n} in {kernel}"));
                let length = body[at..].find(';').expect("its end") + 1;
                body.replace_range(at..at + length, by);
            }
        }
        assert_ne!(before, body, "{edit:?}");
    }
    format!("{}{body}{}", &text[..begin], &text[end..])
}
