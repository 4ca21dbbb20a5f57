//! Compares lines of the source: which are the user's own, what they say, and which of the base's corresponds to which
//! of head's.

use build::is_of_system;
use model::{CodeFacts, CodeLine, CodePlace};
use std::collections::{BTreeMap, HashMap};

/// Files with more lines are compared up to here.
const MOST_LINES: usize = 4096;

/// The lines of a file of the base, with their numbers in head's file.
pub type Pair = HashMap<u32, u32>;

/// Returns the text of a source line, if the facts contain it.
pub fn text(facts: &CodeFacts, line: &CodeLine) -> Option<String> {
    facts.text.get(&line.file)?.get(&line.number).cloned()
}

/// Returns the lines of the user's own code at a place, from the innermost to the outermost.
pub fn own_lines_of(place: &CodePlace) -> impl Iterator<Item = &CodeLine> {
    let chain = std::iter::once(&place.line).chain(&place.inlined_at);
    chain.filter(|line| !is_of_system(&line.file))
}

/// Returns the innermost line of the user's own code.
pub fn own_line(place: &CodePlace) -> Option<&CodeLine> {
    own_lines_of(place).next()
}

/// Returns the lines of the base by file, with the number that each has in head.
pub fn pair_files(base: &CodeFacts, head: &CodeFacts) -> HashMap<String, Pair> {
    let lines = |facts: &CodeFacts| {
        let mut files: BTreeMap<String, BTreeMap<u32, Option<String>>> = BTreeMap::new();
        for line in build::code::own_lines(facts) {
            let text = text(facts, line);
            let file = files.entry(line.file.clone()).or_default();
            file.insert(line.number, text);
        }
        files
    };
    let (base, head) = (lines(base), lines(head));
    base.iter()
        .filter_map(|(file, lines)| {
            let others = head.get(file)?;
            Some((file.clone(), pair_lines(lines, others)))
        })
        .collect()
}

type Lines = BTreeMap<u32, Option<String>>;

/// Returns a line without the comment at its end.
pub fn code_of(text: &str) -> &str {
    text.split_once("//")
        .map_or(text, |(code, _)| code)
        .trim_end()
}

/// Pairs lines by the longest common subsequence of their texts. Between two common lines, the remaining lines are
/// paired in their order if both sides have equally many. If texts are unknown, numbers are compared.
fn pair_lines(base: &Lines, head: &Lines) -> Pair {
    let is_known = |lines: &Lines| lines.values().all(Option::is_some);
    if !is_known(base) || !is_known(head) {
        return base.keys().map(|number| (*number, *number)).collect();
    }
    let a: Vec<_> = base.iter().take(MOST_LINES).collect();
    let b: Vec<_> = head.iter().take(MOST_LINES).collect();
    let width = b.len() + 1;
    let mut longest = vec![0u32; (a.len() + 1) * width];
    let same = |a: &Option<String>, b: &Option<String>| {
        a.as_deref().map(code_of) == b.as_deref().map(code_of)
    };
    let at = |i: usize, j: usize| i * width + j;
    let value = |table: &[u32], i: usize, j: usize| table.get(at(i, j)).copied().unwrap_or(0);
    for (i, (_, left)) in a.iter().enumerate().rev() {
        for (j, (_, right)) in b.iter().enumerate().rev() {
            let best = if same(left, right) {
                value(&longest, i + 1, j + 1) + 1
            } else {
                value(&longest, i + 1, j).max(value(&longest, i, j + 1))
            };
            if let Some(place) = longest.get_mut(at(i, j)) {
                *place = best;
            }
        }
    }
    let mut pairs = Pair::new();
    let (mut i, mut j) = (0, 0);
    let (mut of_base, mut of_head) = (Vec::new(), Vec::new());
    let settle = |of_base: &mut Vec<u32>, of_head: &mut Vec<u32>, pairs: &mut Pair| {
        if of_base.len() == of_head.len() {
            pairs.extend(of_base.iter().copied().zip(of_head.iter().copied()));
        }
        of_base.clear();
        of_head.clear();
    };
    loop {
        match (a.get(i), b.get(j)) {
            (Some((left, x)), Some((right, y))) if same(x, y) => {
                settle(&mut of_base, &mut of_head, &mut pairs);
                pairs.insert(**left, **right);
                (i, j) = (i + 1, j + 1);
            }
            (Some((left, _)), right)
                if right.is_none() || value(&longest, i + 1, j) >= value(&longest, i, j + 1) =>
            {
                of_base.push(**left);
                i += 1;
            }
            (_, Some((right, _))) => {
                of_head.push(**right);
                j += 1;
            }
            (_, None) => break,
        }
    }
    settle(&mut of_base, &mut of_head, &mut pairs);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[(u32, &str)]) -> Lines {
        texts
            .iter()
            .map(|(at, text)| (*at, Some((*text).to_owned())))
            .collect()
    }

    #[test]
    fn lines_are_found_again_where_others_came_between() {
        let base = lines(&[(3, "a"), (4, "b"), (5, "c"), (9, "d")]);
        let head = lines(&[(3, "a"), (4, "new"), (5, "b"), (6, "c2"), (10, "d")]);
        let pairs = pair_lines(&base, &head);
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable();
        // A single line between two equal ones was edited.
        assert_eq!(pairs, [(3, 3), (4, 5), (5, 6), (9, 10)]);
    }

    #[test]
    fn lines_without_text_keep_their_numbers() {
        let mut head = lines(&[(3, "a")]);
        head.insert(7, None);
        let base = lines(&[(3, "b"), (7, "c")]);
        assert_eq!(pair_lines(&base, &head), Pair::from([(3, 3), (7, 7)]));
    }
}
