//! Reads YAML text, and finds the places of its keys and values.

use super::tree::Tree;
use super::yaml::{Mistake, Position, Spanned, YamlPlace, suggest};
use model::{Binary, Unary};
use serde::de::DeserializeOwned;
use serde::de::value::StrDeserializer;
use serde_yaml::budget::BudgetBreach;
use serde_yaml::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use system::error::Diagnostic;

/// The text of a file and its structure, to read values from and to name places in.
pub struct Source<'a> {
    file: &'a str,
    text: &'a str,
    tree: Spanned<Tree>,
}

impl<'a> Source<'a> {
    /// Parses a text.
    ///
    /// # Errors
    /// Returns an error for text that is not one YAML document, and for a key without a value.
    pub fn parse(file: &'a str, text: &'a str) -> Result<Self, Diagnostic> {
        // The typed reader refuses duplicate keys. Here both of them must be found, so that the message can name the
        // second.
        let tree = serde_yaml::from_str_with_options(
            text,
            reader_options(text, DuplicateKeyPolicy::LastWins),
        )
        .map_err(|error| {
            let problem = explain_error(&error);
            let diagnostic = Diagnostic::new(problem.message);
            let diagnostic = match problem.at.written {
                YamlPlace { line: 0, .. } => diagnostic.at(file),
                YamlPlace { line, column } => diagnostic.at(format!("{file}:{line}:{column}")),
            };
            match text.lines().position(is_indented_with_tab) {
                Some(before) => diagnostic.help(format!(
                    "line {} is indented with a tab; YAML needs spaces",
                    before + 1
                )),
                None => diagnostic,
            }
        })?;
        let source = Self { file, text, tree };
        if let Tree::Null = source.tree.value {
            return Err(Diagnostic::new("the file is empty")
                .at(file)
                .help("write one with `gatekeeper init`"));
        }
        // A key without a value would be read as an empty list of gates.
        if let Some((at, _)) = source.find(|_, node| matches!(node, Some(Tree::Null))) {
            return Err(source.diagnose(
                &Mistake::new(at, "the key has no value")
                    .help("give it a value, or remove the key; an empty mapping is `{}`"),
            ));
        }
        if let Some(Spanned { value, at }) = source.find_lost_sign() {
            return Err(source.diagnose(
                &Mistake::new(
                    at,
                    format!("`+{value}` without quotes is the number {value}"),
                )
                .help(format!(
                    "write \"+{value}\" for {value} more than the baseline"
                )),
            ));
        }
        Ok(source)
    }

    /// Returns a limit that was written as `+2` and that YAML read as 2.
    fn find_lost_sign(&self) -> Option<Spanned<&str>> {
        fn walk<'t>(
            node: &'t Spanned<Tree>,
            is_limit: bool,
            lines: &[&str],
        ) -> Option<Spanned<&'t str>> {
            match &node.value {
                Tree::Null => None,
                Tree::Scalar(text) => {
                    let has_sign = is_limit && char_at(lines, node.at.written) == Some('+');
                    (has_sign && !text.starts_with('+')).then_some(Spanned {
                        value: text.as_str(),
                        at: node.at,
                    })
                }
                Tree::List(items) => items.iter().find_map(|item| walk(item, is_limit, lines)),
                Tree::Map(map) => map.iter().find_map(|(key, value)| {
                    let is_limit = is_limit || HAVE_LIMITS.contains(&key.as_str());
                    walk(value, is_limit, lines)
                }),
            }
        }
        let lines: Vec<&str> = self.text.lines().collect();
        walk(&self.tree, false, &lines)
    }

    /// Reads the text as a type.
    ///
    /// # Errors
    /// Returns an error for unknown, missing and duplicate keys, and for values of the wrong type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Mistake> {
        let options = reader_options(self.text, DuplicateKeyPolicy::Error);
        serde_yaml::from_str_with_options(self.text, options)
            .map_err(|error| self.place(&error, explain_error(&error)))
    }

    /// Moves a problem to the place that it is about. serde names the same key for the key, for its value, and for the
    /// mapping that it is in.
    fn place(&self, error: &serde_yaml::Error, mut problem: Mistake) -> Mistake {
        use serde_yaml::Error as E;
        let place = problem.at.written;
        match root_error(error) {
            E::SerdeUnknownField { .. }
            | E::SerdeUnknownVariant { .. }
            | E::DuplicateMappingKey { .. } => problem.at.is_key = true,
            E::SerdeMissingField { .. } => {
                if let Some((mapping, _)) = find_entry(&self.tree, place) {
                    problem.at = mapping;
                }
            }
            E::SerdeInvalidType { .. } | E::SerdeInvalidValue { .. } => {
                if let Some((_, value)) = find_entry(&self.tree, place) {
                    problem.at = value;
                }
            }
            // Where a single word can replace a mapping (`reference: softmax`), serde's place is behind the word, at
            // the next key or at the end.
            E::Unexpected { .. } => {
                let value =
                    |at: Position, node: Option<&Tree>| node.is_some() && at.written == place;
                if self.find(value).is_none()
                    && let Some(before) = self.scalar_before(place)
                {
                    problem.at = before;
                }
            }
            _ => {}
        }
        problem
    }

    /// Returns the last scalar that begins before `place`.
    fn scalar_before(&self, place: YamlPlace) -> Option<Position> {
        fn walk(node: &Spanned<Tree>, place: YamlPlace, last: &mut Option<Position>) {
            let order = |place: YamlPlace| (place.line, place.column);
            match &node.value {
                Tree::Null => {}
                Tree::Scalar(_) if order(node.at.written) < order(place) => *last = Some(node.at),
                Tree::Scalar(_) => {}
                Tree::List(items) => items.iter().for_each(|item| walk(item, place, last)),
                Tree::Map(map) => map.iter().for_each(|(_, value)| walk(value, place, last)),
            }
        }
        let mut last = None;
        walk(&self.tree, place, &mut last);
        last
    }

    /// Returns the first key of the file, and its value if that is a scalar.
    pub fn first_entry(&self) -> Option<(&Spanned<String>, Option<Spanned<&str>>)> {
        let Tree::Map(map) = &self.tree.value else {
            return None;
        };
        let (key, value) = map.first()?;
        let text = match &value.value {
            Tree::Scalar(text) => Some(Spanned {
                value: text.as_str(),
                at: value.at,
            }),
            Tree::Null | Tree::List(_) | Tree::Map(_) => None,
        };
        Some((key, text))
    }

    /// Returns true if the file is a mapping with this key. Quotes around the key do not matter.
    pub fn has(&self, key: &str) -> bool {
        matches!(&self.tree.value, Tree::Map(map) if map.get(key).is_some())
    }

    pub fn into_tree(self) -> Tree {
        self.tree.value
    }

    pub fn root(&self) -> &Spanned<Tree> {
        &self.tree
    }

    /// Returns the name of the file.
    pub fn name(&self) -> &'a str {
        self.file
    }

    pub fn text(&self) -> &'a str {
        self.text
    }

    pub fn start(&self) -> Position {
        self.tree.at
    }

    /// Returns the whole message of a problem, with its place.
    pub fn diagnose(&self, problem: &Mistake) -> Diagnostic {
        let mut diagnostic = Diagnostic::new(&problem.message);
        diagnostic.help.clone_from(&problem.help);
        let YamlPlace { line, column } = problem.at.written;
        if line == 0 {
            return diagnostic.at(self.file);
        }
        let column = column + self.offset(problem);
        let exact = |at: Position, _: Option<&Tree>| at == problem.at;
        // An error of the reader knows only one of the two places, and a key or a value at it.
        let nearby = |at: Position, _: Option<&Tree>| {
            [at.written, at.used].contains(&problem.at.written) && at.is_key == problem.at.is_key
        };
        let anything = |at: Position, _: Option<&Tree>| at.written == problem.at.written;
        let found = self
            .find(exact)
            .or_else(|| self.find(nearby))
            .or_else(|| self.find(anything));
        let diagnostic = diagnostic.at(format!("{}:{line}:{column}", self.file));
        match found {
            Some((_, path)) if !path.is_empty() => diagnostic.key(path),
            _ => diagnostic,
        }
    }

    /// Returns the number of columns from the start of a scalar to the character that the problem is about.
    fn offset(&self, problem: &Mistake) -> u64 {
        let lines: Vec<&str> = self.text.lines().collect();
        match char_at(&lines, problem.at.written) {
            // The text of a block scalar is on other lines, and an anchor or tag is before its value.
            Some('|' | '>' | '&' | '!') | None => 0,
            Some('"' | '\'') if problem.offset > 0 => 1 + problem.offset as u64,
            Some(_) => problem.offset as u64,
        }
    }

    /// Returns the first place from the root for which `wanted` is true, with its key path. Keys have no node of their
    /// own.
    fn find(&self, wanted: impl Fn(Position, Option<&Tree>) -> bool) -> Option<(Position, String)> {
        fn walk(
            node: &Spanned<Tree>,
            path: &str,
            wanted: &dyn Fn(Position, Option<&Tree>) -> bool,
        ) -> Option<(Position, String)> {
            if wanted(node.at, Some(&node.value)) {
                return Some((node.at, path.to_owned()));
            }
            match &node.value {
                Tree::Null | Tree::Scalar(_) => None,
                Tree::List(items) => items
                    .iter()
                    .enumerate()
                    .find_map(|(index, item)| walk(item, &format!("{path}[{index}]"), wanted)),
                Tree::Map(map) => map.iter().find_map(|(key, value)| {
                    let dot = if path.is_empty() { "" } else { "." };
                    let path = format!("{path}{dot}{key}");
                    if wanted(key.at, None) {
                        return Some((key.at, path));
                    }
                    walk(value, &path, wanted)
                }),
            }
        }
        walk(&self.tree, "", &wanted)
    }
}

/// The keys that have limits below them.
const HAVE_LIMITS: [&str; 3] = ["gates", "target", "count"];

fn char_at(lines: &[&str], place: YamlPlace) -> Option<char> {
    let index = |number: u64| usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    lines
        .get(index(place.line))?
        .chars()
        .nth(index(place.column))
}

/// Returns the mapping whose key is at `place`, and the value of that key.
fn find_entry(node: &Spanned<Tree>, place: YamlPlace) -> Option<(Position, Position)> {
    match &node.value {
        Tree::Null | Tree::Scalar(_) => None,
        Tree::List(items) => items.iter().find_map(|item| find_entry(item, place)),
        Tree::Map(map) => map.iter().find_map(|(key, value)| {
            if key.at.written == place {
                return Some((node.at, value.at));
            }
            find_entry(value, place)
        }),
    }
}

/// The number of values that any file may have, and the number that the largest file may have.
const LEAST_NODES: usize = 50_000;
const MOST_NODES: usize = 1_000_000;

fn reader_options(text: &str, duplicate_keys: DuplicateKeyPolicy) -> serde_yaml::Options {
    // A written value takes two bytes at least. Repetition by aliases has a limit of the reader's own, which does
    // not grow with the text.
    let nodes = (text.len() / 2).clamp(LEAST_NODES, MOST_NODES);
    serde_yaml::options! {
        duplicate_keys: duplicate_keys,
        // YAML 1.1 would read a dimension named N as `false`.
        strict_booleans: true,
        with_snippet: false,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        // A correct file is a dozen levels deep. Reading recurses, and a debug build needs 40 KiB of stack for each
        // level.
        budget: serde_yaml::budget! {
            max_depth: 32,
            max_nodes: nodes,
            // Lists and mappings have an end event in addition to their beginning, and an alias has an event without a
            // value.
            max_events: 3 * MOST_NODES,
        },
    }
}

fn root_error(error: &serde_yaml::Error) -> &serde_yaml::Error {
    match error {
        serde_yaml::Error::AliasError { error, .. }
        | serde_yaml::Error::WithSnippet { error, .. } => root_error(error),
        error => error,
    }
}

fn is_indented_with_tab(line: &str) -> bool {
    line.trim_start_matches(' ').starts_with('\t')
}

/// Returns true if a variant without data has this name.
fn is_named<T: DeserializeOwned>(name: &str) -> bool {
    T::deserialize(StrDeserializer::<serde::de::value::Error>::new(name)).is_ok()
}

/// Explains an error of the YAML reader in words that fit a file of gates.
fn explain_error(error: &serde_yaml::Error) -> Mistake {
    use serde_yaml::Error as E;
    let place = root_error(error)
        .location()
        .or_else(|| error.location())
        .map(YamlPlace::new)
        .unwrap_or_default();
    let at = Position {
        written: place,
        used: place,
        is_key: false,
    };
    let one_of = |what: &str, name: &str, expected: &[&'static str]| {
        let problem = Mistake::new(at, format!("unknown {what} `{name}`"))
            .help(suggest(name, expected.iter().copied()));
        if expected.contains(&"nullptr") {
            problem.help("write an argument like {tensor: x} or {i32: N}")
        } else if expected.contains(&"unary") && is_named::<Unary>(name) {
            problem.help(format!("write {{unary: {{x: x, out: y, op: {name}}}}}"))
        } else if expected.contains(&"binary") && is_named::<Binary>(name) {
            problem.help(format!(
                "write {{binary: {{a: a, b: b, out: y, op: {name}}}}}"
            ))
        } else {
            problem
        }
    };
    let message = match root_error(error) {
        E::SerdeUnknownField {
            field, expected, ..
        } => return one_of("key", field, expected),
        E::SerdeUnknownVariant {
            variant, expected, ..
        } => return one_of("name", variant, expected),
        E::SerdeMissingField { field, .. } => {
            let problem = Mistake::new(at, format!("the key `{field}` is missing"));
            return match key_example(field) {
                Some(example) => problem.help(example),
                None => problem,
            };
        }
        E::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("duplicate key `{key}`"),
            None => "duplicate key".to_owned(),
        },
        E::InvalidScalar { ty, .. } => match *ty {
            "boolean" => "expected true or false".to_owned(),
            "floating point" => "expected a number".to_owned(),
            "u32" => format!("expected a whole number from 0 to {}", u32::MAX),
            "u64" => "expected a whole number that is not negative".to_owned(),
            _ => "expected a whole number".to_owned(),
        },
        E::InvalidBooleanStrict { .. } => "expected true or false".to_owned(),
        E::Unexpected { expected, .. } => match *expected {
            "string scalar" => "expected a single value, not a list or a mapping".to_owned(),
            "sequence start" => "expected a list: [a, b]".to_owned(),
            "mapping start" => "expected a mapping: {key: value}".to_owned(),
            other => format!("expected {other}"),
        },
        E::ExternallyTaggedEnumExpectedScalarOrMapping { .. } => {
            "expected a name or a mapping of one key, not a list".to_owned()
        }
        E::UnexpectedValueForUnitEnumVariant { .. } => "this name cannot have a value".to_owned(),
        E::ExpectedMappingEndAfterEnumVariantValue { .. } => {
            "expected a single key; this is a second one".to_owned()
        }
        E::SerdeInvalidType {
            unexpected,
            expected,
            ..
        }
        | E::SerdeInvalidValue {
            unexpected,
            expected,
            ..
        } => format!("expected {expected}, not {unexpected}"),
        E::Budget {
            breach: BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. },
            ..
        }
        | E::AliasReplayLimitExceeded { .. } => {
            return Mistake::new(
                at,
                format!("more values than a file of this length may have, at most {MOST_NODES}"),
            )
            .help("write fewer values by aliases, or split the kernels into several gates files: --config");
        }
        E::MultipleDocuments { .. } => "a second YAML document starts here".to_owned(),
        E::Eof { .. } => "the file is empty".to_owned(),
        other => {
            serde_yaml::MessageFormatter::format_message(&serde_yaml::UserMessageFormatter, other)
                .into_owned()
        }
    };
    Mistake::new(at, message)
}

/// The description of the key `reference`.
pub const REFERENCE: &str = "what outputs are compared with: a built-in like {rms_norm: {x: x, out: y}}, or a C or Python function like {user: {source: FILE.c, function: NAME, args: [...]}}";

/// Returns an example of a required key whose name says too little.
fn key_example(field: &str) -> Option<&'static str> {
    Some(match field {
        "version" => "version: 1",
        "architectures" => "architectures: [sm_90]",
        "kernels" => "kernels: {NAME: {source: FILE.cu, entry: FUNCTION, ...}}",
        "tensors" => "tensors: {x: {type: f32, shape: [N]}, y: {role: out, type: f32, shape: [N]}}",
        "args" => "args: [{tensor: x}, {tensor: y}, {i32: N}], in the order of the parameters",
        "shape" => "shape: [M, N], slowest dimension first; [] is one element",
        "reference" => REFERENCE,
        "gates" => "gates: {max_err: 1e-3, spills: 0}",
        _ => return None,
    })
}
