//! Where two values first differ, by the names of their fields.
//!
//! Two types of two crates that are the same but for the crate have the same derived `Debug`. Its indented form has a line
//! for each field, and so the first line that differs, with the lines that it is indented under, is the path to the first
//! field that differs. No field can be left out.

use crate::wanted::says_more;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// What two simulators said of the same, as far as it was compared.
#[derive(Debug, Default)]
pub struct Compared {
    pub first: Option<Difference>,
    pub new_took: Duration,
    pub old_took: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// `result.Ok.findings.0.times`
    pub field: String,
    pub new: String,
    pub old: String,
}

impl Compared {
    /// Compares one thing that both said, if all before it were the same.
    pub fn same(&mut self, what: &str, new: &impl Debug, old: &impl Debug) {
        if self.first.is_none() {
            self.first = difference(what, &format!("{new:#?}"), &format!("{old:#?}"));
        }
    }

    pub fn time_new<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.new_took += start.elapsed();
        done
    }

    pub fn time_old<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.old_took += start.elapsed();
        done
    }
}

/// Returns where two texts of `{:#?}` first differ.
fn difference(what: &str, new: &str, old: &str) -> Option<Difference> {
    if new == old {
        return None;
    }
    let (mut left, mut right) = (new.lines(), old.lines());
    let mut path: Vec<(usize, String)> = Vec::new();
    loop {
        let (new, old) = (left.next(), right.next());
        if new.is_none() && old.is_none() {
            return None;
        }
        let line = new.or(old).unwrap_or_default();
        let depth = line.len() - line.trim_start().len();
        // An entry without a name is known by its type, or its number among its neighbours.
        let mut number = 0;
        while let Some((last, name)) = path.last() {
            if *last < depth {
                break;
            }
            if *last == depth {
                number = name.parse().map_or(number, |last: usize| last + 1);
            }
            path.pop();
        }
        let name = match line.trim_start().split_once(": ") {
            Some((name, _)) => name.trim_matches('"').to_owned(),
            None => match line.trim_end_matches([' ', '(', '{']).trim_start() {
                name if line.ends_with(['(', '{']) && !name.is_empty() => name.to_owned(),
                _ => number.to_string(),
            },
        };
        path.push((depth, name));
        let is_wanted = matches!((new, old), (Some(new), Some(old)) if says_more(new, old));
        if new != old && !is_wanted {
            let names: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
            let text = |line: Option<&str>| line.unwrap_or("nothing").trim().to_owned();
            return Some(Difference {
                field: format!("{what}.{}", names.join(".")),
                new: text(new),
                old: text(old),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer {
        _name: &'static str,
        _all: Vec<Inner>,
    }

    #[derive(Debug)]
    struct Inner {
        _times: u64,
        _place: Option<u64>,
    }

    fn outer(times: u64, place: Option<u64>) -> Outer {
        let inner = |_times, _place| Inner { _times, _place };
        Outer {
            _name: "a",
            _all: vec![inner(1, None), inner(times, place)],
        }
    }

    fn first(new: Outer, old: Outer) -> Option<Difference> {
        let mut compared = Compared::default();
        compared.same("it", &new, &old);
        compared.first
    }

    #[test]
    fn names_the_first_field_that_differs() {
        assert_eq!(first(outer(2, None), outer(2, None)), None);
        let differs = first(outer(2, None), outer(3, Some(1))).unwrap();
        assert_eq!((&*differs.new, &*differs.old), ("_times: 2,", "_times: 3,"));
        assert_eq!(differs.field, "it.Outer._all.Inner._times");
    }

    #[test]
    fn lets_pass_what_is_wanted() {
        for (new, old, differs) in [
            (
                r#""Read Some([1, 0, 0])","#,
                r#""Other Some([1, 0, 0])","#,
                false,
            ),
            (r#""Other None","#, r#""Read None","#, true),
            (r#""Copy None","#, r#""Other None","#, true),
            (
                "past `a`; it was computed from the address of `b` at k.cu:1",
                "past `a` at k.cu:1",
                false,
            ),
            (
                "past `a`; it was computed from the address of `b` at k.cu:1",
                "past `a` at k.cu:2",
                true,
            ),
        ] {
            assert_eq!(difference("it", new, old).is_some(), differs, "{new} {old}");
        }
    }

    #[test]
    fn notices_what_only_one_has() {
        let mut short = outer(2, None);
        short._all.pop();
        assert!(first(short, outer(2, None)).is_some());
        assert!(first(outer(2, Some(4)), outer(2, None)).is_some());
    }
}
