//! Divides the difference between two versions of a file into hunks, and makes the file with some of them. Pure.

use explain::{ChangedLines, LineRange};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::ops::Range;

/// Two versions of one file. A version without the file has no lines.
#[derive(Clone, Debug, PartialEq)]
pub struct FileDiff {
    /// The path from the top of the tree.
    pub file: String,
    base: Vec<String>,
    head: Vec<String>,
    hunks: Vec<Hunk>,
}

/// Lines of the base, and the lines that head has instead, as indices.
#[derive(Clone, Debug, PartialEq)]
struct Hunk {
    base: Range<usize>,
    head: Range<usize>,
}

impl FileDiff {
    /// Compares two versions by lines. A hunk is everything between two stretches of equal lines.
    pub fn new(file: &str, base: &str, head: &str) -> Self {
        let split =
            |text: &str| -> Vec<String> { text.split_inclusive('\n').map(str::to_owned).collect() };
        let (base, head) = (split(base), split(head));
        let ops = capture_diff_slices(Algorithm::Myers, &base, &head);
        let equal = ops
            .iter()
            .filter(|op| matches!(op, DiffOp::Equal { .. }))
            .map(|op| (op.old_range(), op.new_range()));
        let end = (base.len()..base.len(), head.len()..head.len());
        let mut hunks: Vec<Hunk> = Vec::new();
        let mut from = [0, 0];
        for (in_base, in_head) in equal.chain([end]) {
            let hunk = Hunk {
                base: from[0]..in_base.start,
                head: from[1]..in_head.start,
            };
            if !hunk.base.is_empty() || !hunk.head.is_empty() {
                hunks.push(hunk);
            }
            from = [in_base.end, in_head.end];
        }
        Self {
            file: file.to_owned(),
            base,
            head,
            hunks,
        }
    }

    /// Describes the hunks, in their order.
    pub fn describe(&self) -> impl Iterator<Item = ChangedLines> {
        self.hunks.iter().map(|hunk| {
            let range = |lines: &Range<usize>| LineRange {
                first: lines.start + 1,
                count: lines.len(),
            };
            let lines = self.lines(&self.head, &hunk.head);
            let text = lines
                .chain(self.lines(&self.base, &hunk.base))
                .map(|line| line.trim())
                .find(|line| line.contains(char::is_alphanumeric) && !line.starts_with("//"))
                .unwrap_or_default();
            ChangedLines {
                file: self.file.clone(),
                base: range(&hunk.base),
                head: range(&hunk.head),
                text: text.to_owned(),
            }
        })
    }

    /// Returns the base's version with those hunks changed to head's for which `is_made` is true, by their index.
    pub fn with(&self, is_made: impl Fn(usize) -> bool) -> String {
        let mut text = String::new();
        let mut at = 0;
        for (index, hunk) in self.hunks.iter().enumerate() {
            text.extend(self.lines(&self.base, &(at..hunk.base.start)));
            if is_made(index) {
                text.extend(self.lines(&self.head, &hunk.head));
            } else {
                text.extend(self.lines(&self.base, &hunk.base));
            }
            at = hunk.base.end;
        }
        text.extend(self.lines(&self.base, &(at..self.base.len())));
        text
    }

    fn lines<'a>(
        &self,
        version: &'a [String],
        range: &Range<usize>,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        version
            .iter()
            .take(range.end)
            .skip(range.start)
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn describes_hunks_by_their_lines() {
        let base = "a\nb\nc\nd\ne\n";
        let head = "a\n{\n  int x;\n}\nc\nd\n";
        let diff = FileDiff::new("k.cu", base, head);
        let described: Vec<ChangedLines> = diff.describe().collect();
        let range = |first, count| LineRange { first, count };
        assert_eq!(described[0].base, range(2, 1));
        assert_eq!(described[0].head, range(2, 3));
        assert_eq!(described[0].text, "int x;");
        assert_eq!(
            (described[1].base, described[1].head),
            (range(5, 1), range(7, 0))
        );
        assert_eq!(described[1].text, "e");
        assert_eq!(diff.with(|index| index == 1), "a\nb\nc\nd\n");
        assert_eq!(
            diff.with(|index| index == 0),
            "a\n{\n  int x;\n}\nc\nd\ne\n"
        );
    }

    #[test]
    fn a_file_of_one_side_is_one_hunk() {
        let diff = FileDiff::new("k.cuh", "", "a\nb\n");
        assert_eq!(diff.describe().count(), 1);
        assert_eq!(diff.with(|_| false), "");
        assert_eq!(diff.with(|_| true), "a\nb\n");
    }

    proptest! {
        #[test]
        fn no_hunks_give_the_base_and_all_give_head(base in "[abc\n]{0,60}", head in "[abc\n]{0,60}") {
            let diff = FileDiff::new("k.cu", &base, &head);
            prop_assert_eq!(diff.with(|_| false), base);
            prop_assert_eq!(diff.with(|_| true), head);
        }
    }
}
