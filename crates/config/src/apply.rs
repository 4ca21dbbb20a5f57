//! Writes a variant into the text of gates.yaml, and changes nothing else in it.
//!
//! The text is edited where the variant belongs, and every other byte stays. Afterwards the new text is read again, and
//! its tree compared with the old tree plus the variant. If the edit changed anything else, for example through an
//! alias, it is refused. So the edit may be simple, and an error in it cannot damage a file.

use super::layout::{self, Node, NodeKind, Style};
use super::raw::{self, DEFAULT};
use super::source::Source;
use super::tree::Tree;
use super::yaml::{Ordered, Position, Spanned};
use model::expr::is_identifier;
use std::collections::BTreeMap;
use std::ops::Range;
use system::error::Diagnostic;

/// The parts of a variant that are written.
#[derive(Clone, Copy, Debug)]
pub struct VariantChange<'a> {
    pub kernel: &'a str,
    /// The name of the variant. If there is none of this name, it is added after the others.
    pub variant: &'a str,
    /// The variant that a new one takes everything else from: its other macros, its launch, its gates.
    pub like: &'a str,
    /// The macros that are set. Other macros stay as they are.
    pub define: &'a BTreeMap<String, String>,
}

/// The reason for which a variant is not written.
#[derive(Debug, thiserror::Error)]
enum CannotWrite {
    #[error("`{0}` cannot name a variant")]
    VariantName(String),
    #[error("`{0}` is not the name of a macro")]
    MacroName(String),
    #[error("the file is generated: change what generates it")]
    Generated,
    #[error("there is no kernel `{0}`")]
    NoKernel(String),
    #[error("the kernel is no mapping")]
    KernelIsNoMapping,
    #[error("`{kernel}` has no variant `{variant}`")]
    NoVariant { kernel: String, variant: String },
    #[error(
        "`{variant}` is there already, and differs from `{like}` in `{path}`: choose another name"
    )]
    IsThere {
        variant: String,
        like: String,
        path: String,
    },
    #[error("`{0}` is not written under `kernels`")]
    KernelElsewhere(String),
    #[error("the variants of `{0}` are written elsewhere")]
    VariantsElsewhere(String),
    #[error("`{0}` is written elsewhere")]
    LikeElsewhere(String),
    #[error("the macros of `{0}` are written elsewhere")]
    MacrosElsewhere(String),
    #[error("nothing to be like")]
    NothingLike,
    #[error("`{like}.{key}` holds an anchor, which cannot be written twice")]
    HoldsAnchor { like: String, key: String },
    #[error("`{0}` is no mapping")]
    LikeIsNoMapping(String),
    #[error("an alias stands where a mapping is needed")]
    Alias,
    #[error("a mapping without a key")]
    EmptyBlock,
    #[error("a key does not stand on a line of its own")]
    SharedLine,
    #[error("the file would be wrong: {0}")]
    WrongFile(String),
    #[error("the variant cannot be written without a change of `{0}`")]
    ChangesMore(String),
}

/// Returns the text of the file with the variant in it. Every comment and line of the rest is as it was. `file` is its
/// name in messages.
///
/// # Errors
/// Returns an error for a text that is no file of gates, for a kernel or variant that does not exist, and for a change
/// that cannot be written without changing something else: in an alias, in merged keys, or in a variant that others
/// share.
pub fn apply_variant(
    file: &str,
    text: &str,
    change: &VariantChange<'_>,
) -> Result<String, Diagnostic> {
    let refuse = |why: CannotWrite| Diagnostic::new(why.to_string()).at(file);
    let by_hand = |why: CannotWrite| refuse(why).help(write_by_hand(change));
    let old = read(file, text)?;
    check_names(change).map_err(refuse)?;
    if is_generated(text) {
        return Err(refuse(CannotWrite::Generated));
    }
    let wanted = expect_tree(&old, change).map_err(refuse)?;
    let root = layout::read(text).map_err(|diagnostic| diagnostic.at(file))?;
    let edits = Writer { text, change }
        .plan_edits(&root, &old)
        .map_err(by_hand)?;
    let text = edit(text, edits);
    let new = read(file, &text).map_err(|wrong| by_hand(CannotWrite::WrongFile(wrong.message)))?;
    match find_difference(&wanted, &new) {
        None => Ok(text),
        Some(path) => Err(by_hand(CannotWrite::ChangesMore(path))),
    }
}

fn read(file: &str, text: &str) -> Result<Tree, Diagnostic> {
    let source = Source::parse(file, text)?;
    match source.read::<raw::GatesFile>() {
        Ok(_) => Ok(source.into_tree()),
        Err(problem) => Err(source.diagnose(&problem)),
    }
}

fn check_names(change: &VariantChange<'_>) -> Result<(), CannotWrite> {
    if !is_identifier(change.variant) {
        return Err(CannotWrite::VariantName(change.variant.to_owned()));
    }
    match change.define.keys().find(|name| !is_identifier(name)) {
        Some(name) => Err(CannotWrite::MacroName(name.clone())),
        None => Ok(()),
    }
}

/// Returns true if the comment at the top of a file says that a generator wrote it.
fn is_generated(text: &str) -> bool {
    text.lines()
        .map(str::trim_start)
        .take_while(|line| line.is_empty() || line.starts_with('#'))
        .any(|line| line.contains("@generated") || line.contains("DO NOT EDIT"))
}

fn write_by_hand(change: &VariantChange<'_>) -> String {
    format!(
        "write it yourself: {}: {{{}}}",
        change.variant,
        write_define(change.define)
    )
}

/// Returns the tree that the edited file must have.
fn expect_tree(old: &Tree, change: &VariantChange<'_>) -> Result<Tree, CannotWrite> {
    let mut tree = old.clone();
    let kernel = get_mut(&mut tree, "kernels")
        .and_then(|kernels| get_mut(kernels, change.kernel))
        .ok_or_else(|| CannotWrite::NoKernel(change.kernel.to_owned()))?;
    if get_mut(kernel, "variants").is_none() {
        let mut variants = Tree::Map(Ordered::default());
        set(&mut variants, DEFAULT, Tree::Map(Ordered::default()));
        set(kernel, "variants", variants);
    }
    let variants = get_mut(kernel, "variants").ok_or(CannotWrite::KernelIsNoMapping)?;
    let with_macros = |mut variant: Tree| {
        let mut define = match variant.get("define") {
            Some(define) => define.clone(),
            None => Tree::Map(Ordered::default()),
        };
        for (name, value) in change.define {
            set(&mut define, name, Tree::Scalar(value.clone()));
        }
        set(&mut variant, "define", define);
        variant
    };
    let like = variants
        .get(change.like)
        .cloned()
        .map(with_macros)
        .ok_or_else(|| CannotWrite::NoVariant {
            kernel: change.kernel.to_owned(),
            variant: change.like.to_owned(),
        })?;
    let there = variants.get(change.variant).cloned().map(with_macros);
    if let Some(there) = &there
        && let Some(path) = find_difference(&like, there)
    {
        return Err(CannotWrite::IsThere {
            variant: change.variant.to_owned(),
            like: change.like.to_owned(),
            path,
        });
    }
    set(variants, change.variant, like);
    Ok(tree)
}

fn get_mut<'a>(tree: &'a mut Tree, name: &str) -> Option<&'a mut Tree> {
    match tree {
        Tree::Map(map) => map
            .0
            .iter_mut()
            .find(|(key, _)| key.value == name)
            .map(|(_, value)| &mut value.value),
        Tree::Null | Tree::Scalar(_) | Tree::List(_) => None,
    }
}

/// Sets a key of a mapping. In anything else nothing is set, which the comparison that follows finds.
fn set(tree: &mut Tree, name: &str, value: Tree) {
    if let Some(there) = get_mut(tree, name) {
        *there = value;
    } else if let Tree::Map(map) = tree {
        let at = Position::default();
        let key = Spanned {
            value: name.to_owned(),
            at,
        };
        map.0.push((key, Spanned { value, at }));
    }
}

/// Returns the path of the first difference between two trees. The order of keys does not matter.
fn find_difference(left: &Tree, right: &Tree) -> Option<String> {
    let below = |name: &str, path: String| match path.as_str() {
        "" => name.to_owned(),
        path => format!("{name}.{path}"),
    };
    match (left, right) {
        (Tree::Map(left), Tree::Map(right)) => {
            let differs = left.iter().find_map(|(key, value)| match right.get(key) {
                Some(other) => Some(below(key, find_difference(value, other)?)),
                None => Some(key.value.clone()),
            });
            let added = || right.names().find(|name| left.get(name).is_none());
            differs.or_else(|| added().map(str::to_owned))
        }
        (Tree::List(left), Tree::List(right)) if left.len() == right.len() => left
            .iter()
            .zip(right)
            .find_map(|(left, right)| find_difference(left, right)),
        (Tree::Scalar(left), Tree::Scalar(right)) if left == right => None,
        (Tree::Null, Tree::Null) => None,
        _ => Some(String::new()),
    }
}

/// New text for a part of the old one.
struct Edit {
    at: Range<usize>,
    text: String,
}

impl Edit {
    fn insert(at: usize, text: String) -> Self {
        Self { at: at..at, text }
    }
}

fn edit(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.at.start);
    let mut new = text.to_owned();
    for edit in edits.into_iter().rev() {
        new.replace_range(edit.at, &edit.text);
    }
    new
}

struct Writer<'a> {
    text: &'a str,
    change: &'a VariantChange<'a>,
}

impl Writer<'_> {
    fn plan_edits(&self, root: &Node, old: &Tree) -> Result<Vec<Edit>, CannotWrite> {
        let VariantChange {
            kernel: name,
            variant,
            ..
        } = *self.change;
        let tree = old.get("kernels").and_then(|kernels| kernels.get(name));
        let kernel = root
            .get("kernels")
            .and_then(|kernels| kernels.get(name))
            .ok_or_else(|| CannotWrite::KernelElsewhere(name.to_owned()))?;
        let variants_elsewhere = || CannotWrite::VariantsElsewhere(name.to_owned());
        let Some(variants) = kernel.get("variants") else {
            if tree.is_some_and(|tree| tree.get("variants").is_some()) {
                return Err(variants_elsewhere());
            }
            return Ok(vec![self.insert_variants(kernel)?]);
        };
        let Some(there) = variants.get(variant) else {
            let style = style_of(variants).ok_or_else(variants_elsewhere)?;
            let like = tree
                .and_then(|tree| tree.get("variants")?.get(self.change.like))
                .ok_or(CannotWrite::NothingLike)?;
            let new = self.write_variant(variants, style, like)?;
            return Ok(vec![self.insert_entry(variants, None, &new)?]);
        };
        let tree = tree.and_then(|tree| tree.get("variants")?.get(variant));
        self.edit_variant(there, tree)
    }

    /// Inserts `variants:` into a kernel that has only the variant without a name, and keeps that variant.
    fn insert_variants(&self, kernel: &Node) -> Result<Edit, CannotWrite> {
        let (variant, define) = (self.change.variant, write_define(self.change.define));
        let after = ["define", "flags", "include_dirs", "entry", "source"]
            .into_iter()
            .find(|key| kernel.get(key).is_some());
        let entry = match style_of(kernel) {
            Some(Style::Block) => {
                let line = format!("{}{}", self.newline(), self.indent(kernel)?);
                format!("variants:{line}  {DEFAULT}: {{}}{line}  {variant}: {{{define}}}")
            }
            _ => format!("variants: {{{DEFAULT}: {{}}, {variant}: {{{define}}}}}"),
        };
        self.insert_entry(kernel, after, &entry)
    }

    /// Returns the text of a variant with the keys of the variant that it is based on. `like` has that variant's
    /// macros, including merged ones.
    fn write_variant(
        &self,
        variants: &Node,
        around: Style,
        like: &Tree,
    ) -> Result<String, CannotWrite> {
        let (name, like_name) = (self.change.variant, self.change.like);
        let define = write_define(&self.all_macros(Some(like)));
        let written = variants
            .get(like_name)
            .ok_or_else(|| CannotWrite::LikeElsewhere(like_name.to_owned()))?;
        let source = |at: &Range<usize>| self.text.get(at.clone()).unwrap_or_default();
        let mut parts = Vec::new();
        let mut style = Style::Flow;
        match (&written.anchor, &written.kind) {
            (Some(anchor), _) => parts.push(format!("<<: *{anchor}")),
            (None, NodeKind::Alias) => parts.push(format!("<<: {}", source(&written.at))),
            (None, NodeKind::Map(written_style, entries)) => {
                for entry in entries.iter().filter(|entry| entry.key != "define") {
                    parts.push(match &entry.value.anchor {
                        Some(anchor) => format!("{}: *{anchor}", entry.key),
                        None if entry.value.holds_anchor() => {
                            return Err(CannotWrite::HoldsAnchor {
                                like: like_name.to_owned(),
                                key: entry.key.clone(),
                            });
                        }
                        None => {
                            let at = entry.at.start..entry.value.at.end;
                            source(&at).trim_end().to_owned()
                        }
                    });
                }
                if !parts.is_empty() {
                    style = *written_style;
                }
            }
            (None, NodeKind::List(_) | NodeKind::Scalar) => {
                return Err(CannotWrite::LikeIsNoMapping(like_name.to_owned()));
            }
        }
        parts.insert(
            parts
                .iter()
                .take_while(|part| part.starts_with("<<"))
                .count(),
            define,
        );
        Ok(match (around, style) {
            (Style::Block, Style::Block) => {
                let line = format!("{}{}", self.newline(), self.indent(written)?);
                format!("{name}:{line}{}", parts.join(&line))
            }
            _ => format!("{name}: {{{}}}", parts.join(", ")),
        })
    }

    fn edit_variant(&self, there: &Node, tree: Option<&Tree>) -> Result<Vec<Edit>, CannotWrite> {
        let name = self.change.variant;
        let elsewhere = || CannotWrite::MacrosElsewhere(name.to_owned());
        style_of(there).ok_or_else(elsewhere)?;
        let Some(define) = there.get("define") else {
            let define = write_define(&self.all_macros(tree));
            return Ok(vec![self.insert_entry(there, None, &define)?]);
        };
        let style = style_of(define).ok_or_else(elsewhere)?;
        let has = |name: &str, value: &str| {
            let there = tree.and_then(|tree| tree.get("define")?.get(name));
            matches!(there, Some(Tree::Scalar(there)) if there == value)
        };
        let mut edits = Vec::new();
        let mut added = Vec::new();
        for (name, value) in self.change.define {
            match define.get(name) {
                _ if has(name, value) => {}
                Some(node) if matches!(node.kind, NodeKind::Scalar) => edits.push(Edit {
                    at: node.at.clone(),
                    text: write_word(value),
                }),
                Some(_) => return Err(elsewhere()),
                None => added.push(format!("{name}: {}", write_word(value))),
            }
        }
        if !added.is_empty() {
            let between = match style {
                Style::Flow => ", ".to_owned(),
                Style::Block => format!("{}{}", self.newline(), self.indent(define)?),
            };
            edits.push(self.insert_entry(define, None, &added.join(&between))?);
        }
        Ok(edits)
    }

    /// Returns the macros of a variant, replaced or completed by the macros of the change.
    fn all_macros(&self, variant: Option<&Tree>) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        if let Some(Tree::Map(define)) = variant.and_then(|variant| variant.get("define")) {
            for (name, value) in define.iter() {
                if let Tree::Scalar(value) = &value.value {
                    all.insert(name.value.clone(), value.clone());
                }
            }
        }
        all.extend(self.change.define.clone());
        all
    }

    /// Inserts after the entry with this key, or after the last entry.
    fn insert_entry(
        &self,
        map: &Node,
        after: Option<&str>,
        entry: &str,
    ) -> Result<Edit, CannotWrite> {
        let NodeKind::Map(style, entries) = &map.kind else {
            return Err(CannotWrite::Alias);
        };
        let before = after
            .and_then(|key| map.entry(key))
            .or_else(|| entries.last());
        match (style, before) {
            (Style::Flow, Some(before)) => {
                let text = format!(", {entry}");
                Ok(Edit::insert(before.value.at.end, text))
            }
            (Style::Flow, None) => {
                let end = map.at.end.saturating_sub(1);
                Ok(Edit::insert(end, entry.to_owned()))
            }
            (Style::Block, Some(before)) => {
                let text = format!("{}{}{entry}", self.newline(), self.indent(map)?);
                Ok(Edit::insert(self.end_of_line(before.value.at.end), text))
            }
            (Style::Block, None) => Err(CannotWrite::EmptyBlock),
        }
    }

    /// Returns the text before the first key of a block.
    fn indent(&self, map: &Node) -> Result<&str, CannotWrite> {
        let first = match &map.kind {
            NodeKind::Map(Style::Block, entries) => entries.first(),
            _ => None,
        };
        let before = first.and_then(|first| self.text.get(..first.at.start));
        let line = before.map(|before| before.rsplit('\n').next().unwrap_or_default());
        match line {
            Some(line) if line.bytes().all(|byte| byte == b' ') => Ok(line),
            _ => Err(CannotWrite::SharedLine),
        }
    }

    /// Returns the end of the line on which something ends, behind a comment on that line. `end` is the position after
    /// its last character, or after blank space that follows it.
    fn end_of_line(&self, end: usize) -> usize {
        let (before, _) = self.text.split_at_checked(end).unwrap_or((self.text, ""));
        let end = before.trim_end().len();
        let rest = self.text.get(end..).unwrap_or_default();
        end + rest.find(['\r', '\n']).unwrap_or(rest.len())
    }

    fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        }
    }
}

fn style_of(node: &Node) -> Option<Style> {
    match &node.kind {
        NodeKind::Map(style, _) => Some(*style),
        NodeKind::List(_) | NodeKind::Scalar | NodeKind::Alias => None,
    }
}

fn write_define(define: &BTreeMap<String, String>) -> String {
    let macros: Vec<String> = define
        .iter()
        .map(|(name, value)| format!("{name}: {}", write_word(value)))
        .collect();
    format!("define: {{{}}}", macros.join(", "))
}

/// Returns a value as YAML: quoted, unless it is a whole number as a program would write it, or a word that YAML does
/// not read as something else.
fn write_word(value: &str) -> String {
    let number = value
        .parse::<i64>()
        .is_ok_and(|number| number.to_string() == value);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let word = is_identifier(value) && !reserved.contains(&value.to_ascii_lowercase().as_str());
    if number || word {
        value.to_owned()
    } else {
        // Every string of JSON is also a string of YAML.
        serde_json::Value::from(value).to_string()
    }
}

#[cfg(test)]
mod tests;
