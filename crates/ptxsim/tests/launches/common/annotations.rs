//! Reads what a line of a source asks for: `// ~ kind with label`, `// ~ note kind`, `// = label`.
//!
//! `tests/it` and ptxsim's own launches read the same form. Several annotations of a line are separated by commas, or each
//! has its own `// ~`. In files of ptxsim a `// ~` may begin with the cases that it is for, `[one two]` or `[!one]`, and end
//! in parts of the message: `says: a part says: another part`.

use std::collections::BTreeMap;

/// A finding, fault or note that a line has to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation<'a> {
    /// The names between brackets. Empty stands for every case.
    pub cases: &'a str,
    pub is_note: bool,
    pub kind: &'a str,
    /// The label of the other line.
    pub label: Option<&'a str>,
    pub says: Vec<&'a str>,
}

/// Returns the annotations of a line.
pub fn annotations(line: &str) -> Vec<Annotation<'_>> {
    line.split("// ~ ")
        .skip(1)
        .flat_map(annotations_of_comment)
        .collect()
}

fn annotations_of_comment(comment: &str) -> Vec<Annotation<'_>> {
    let comment = comment.split("// = ").next().unwrap_or(comment);
    let (cases, comment) = comment
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .unwrap_or(("", comment));
    let mut parts = comment.split(" says: ");
    let kinds = parts.next().unwrap_or_default();
    let says: Vec<&str> = parts.map(str::trim).collect();
    kinds
        .split(',')
        .map(|annotation| {
            let annotation = annotation.trim();
            let note = annotation.strip_prefix("note ");
            let annotation = note.unwrap_or(annotation);
            let (kind, label) = annotation.split_once(" with ").unzip();
            Annotation {
                cases,
                is_note: note.is_some(),
                kind: kind.unwrap_or(annotation),
                label,
                says: says.clone(),
            }
        })
        .collect()
}

/// Returns the lines that `// = label` names.
pub fn labels<'a>(lines: impl Iterator<Item = (u32, &'a str)>) -> BTreeMap<&'a str, u32> {
    lines
        .filter_map(|(number, line)| {
            let (_, label) = line.split_once("// = ")?;
            let label = label.split_once("//").map_or(label, |(label, _)| label);
            Some((label.trim(), number))
        })
        .collect()
}

/// Numbers the lines of a text from 1.
pub fn numbered(text: &str) -> impl Iterator<Item = (u32, &str)> {
    (1..).zip(text.lines())
}
