use super::Outcome;

named! {
/// A section of docs/verdicts.md, with its heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Topic {
    Held = "Held",
    Wrong = "A kernel that is wrong",
    Broken = "A limit that is broken",
    NotRun = "Could not be run",
    Undecided = "Does not decide",
    New = "Nothing to compare with",
    Unfit = "Not fit for a baseline",
}
}

/// A reason's code, with its row of docs/verdicts.md.
#[derive(Clone, Copy, Debug)]
pub struct ReasonCode {
    pub code: &'static str,
    pub topic: Topic,
    /// The outcomes that a verdict with this code can have. There are none if only `baseline update` gives it.
    pub outcomes: &'static [Outcome],
    documentation: &'static str,
}

impl ReasonCode {
    pub fn meaning(&self) -> String {
        self.paragraph(0).unwrap_or_default()
    }

    /// Returns what to do, or `None` if nothing is to be done.
    pub fn remedy(&self) -> Option<String> {
        self.paragraph(1)
    }

    fn paragraph(&self, index: usize) -> Option<String> {
        let text = self.documentation.split("\n\n").nth(index)?;
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// A line of the `coded!` table.
pub(crate) struct CodedVariant {
    pub topic: Topic,
    pub documentation: &'static str,
    /// The codes, at most one. A variant may pass on the code of what it holds.
    pub codes: &'static [(&'static str, &'static [Outcome])],
}

impl CodedVariant {
    pub fn codes(&self) -> impl Iterator<Item = ReasonCode> {
        let row = |&(code, outcomes)| ReasonCode {
            code,
            topic: self.topic,
            outcomes,
            documentation: self.documentation,
        };
        self.codes.iter().map(row)
    }
}
