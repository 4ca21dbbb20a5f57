//! Cuts a part out of a PTX module: some entries and all that they reach, named as if they had been compiled alone.
//! Pure.
//!
//! If template instances are compiled together, they influence each other: strings and labels are numbered through the
//! module, and constants are placed after those of other instances. Once it is cut out, an instance is the same
//! whatever else was compiled.

use regex::{Captures, Regex};
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

/// The parts of a module at its outermost level.
pub struct PtxModule<'a> {
    items: Vec<Item<'a>>,
}

struct Item<'a> {
    text: &'a str,
    kind: Kind,
    /// The name of a function or variable.
    name: &'a str,
    is_constant: bool,
    words: BTreeSet<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A directive of the whole module, such as `.version` and `.file`.
    Module,
    /// A section that holds debugging information.
    Section,
    Entry,
    /// A function with a body, which is called because it was not inlined.
    Function,
    /// A variable, or a function that the driver supplies.
    Named,
}

impl<'a> PtxModule<'a> {
    /// Parses a module. Returns `None` if it is not written as nvcc writes it.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut items = Vec::new();
        let mut rest = Scanner { text, at: 0 };
        while let Some(item) = rest.next_item()? {
            items.push(item);
        }
        Some(Self { items })
    }

    /// Returns the names of `__constant__` variables.
    pub fn constants(&self) -> Vec<&'a str> {
        self.items
            .iter()
            .filter(|item| item.is_constant)
            .map(|item| item.name)
            .collect()
    }

    pub fn entries(&self) -> Vec<&'a str> {
        self.items
            .iter()
            .filter(|item| item.kind == Kind::Entry)
            .map(|item| item.name)
            .collect()
    }

    /// Returns a module with the entries `wanted`, or `None` if they would differ from entries that were compiled
    /// without `others`. nvcc adapts a function to its callers: with one caller it is inlined, and an argument
    /// disappears if all callers pass the same constant, even with `__noinline__`. Debugging information names all
    /// functions.
    pub fn cut(&self, wanted: &[&str], others: &[&str]) -> Option<String> {
        let own = self.reached(wanted);
        let theirs = self.reached(others);
        let (kept, left): (Vec<&Item>, Vec<&Item>) =
            self.items.iter().partition(|item| match item.kind {
                Kind::Module | Kind::Section => true,
                Kind::Entry | Kind::Function | Kind::Named => own.contains(item.name),
            });
        let is_shared = |item: &Item| item.kind == Kind::Function && theirs.contains(item.name);
        let is_tied = |item: &Item| {
            item.kind == Kind::Section
                && left.iter().any(|section| item.words.contains(section.name))
        };
        let are_there = wanted.iter().all(|name| own.contains(name));
        if !are_there || kept.iter().any(|item| is_shared(item) || is_tied(item)) {
            return None;
        }
        let said: BTreeSet<&str> = kept
            .iter()
            .filter(|item| item.kind != Kind::Section)
            .flat_map(|item| item.words.iter().copied())
            .collect();
        let mut text = String::new();
        for item in kept {
            // Even the presence of a section shows in the file of machine code.
            if item.kind != Kind::Section || !item.words.is_disjoint(&said) {
                write_without_comments(item.text, &mut text);
                text.push('\n');
            }
        }
        Some(renumbered(&text))
    }

    fn reached(&self, from: &[&str]) -> BTreeSet<&'a str> {
        let named: HashMap<&str, &Item> = self
            .items
            .iter()
            .filter(|item| !matches!(item.kind, Kind::Module | Kind::Section))
            .map(|item| (item.name, item))
            .collect();
        let mut met = BTreeSet::new();
        let mut open: Vec<&str> = from.to_vec();
        while let Some(name) = open.pop() {
            if let Some(item) = named.get(name)
                && met.insert(item.name)
            {
                open.extend(item.words.iter().copied());
            }
        }
        met
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

/// A lexeme, with as much detail as is needed to find where items begin and end.
enum Lexeme<'a> {
    /// A directive, such as `.entry` or `.func`.
    Directive(&'a str),
    Word(&'a str),
    Sign(u8),
    Other,
}

impl<'a> Scanner<'a> {
    /// Reads the next item. Returns `None` if the text ends inside an item.
    fn next_item(&mut self) -> Option<Option<Item<'a>>> {
        self.skip_space()?;
        let start = self.at;
        if start == self.text.len() {
            return Some(None);
        }
        let first = match self.next()? {
            Lexeme::Directive(first) => first,
            _ => return None,
        };
        let mut item = Item {
            text: "",
            kind: Kind::Named,
            name: "",
            is_constant: first == ".const",
            words: BTreeSet::new(),
        };
        if [".version", ".target", ".address_size", ".file"].contains(&first) {
            let line = self.text.get(start..)?.lines().next()?;
            self.at = start + line.len();
            item.kind = Kind::Module;
            item.text = line;
            return Some(Some(item));
        }
        let mut is_function = [".entry", ".func"].contains(&first);
        let mut is_entry = first == ".entry";
        let is_section = first == ".section";
        let mut depth = 0u32;
        let has_body = loop {
            self.skip_space()?;
            match self.next()? {
                Lexeme::Directive(".entry") => (is_function, is_entry) = (true, true),
                Lexeme::Directive(".func") => is_function = true,
                Lexeme::Directive(".const") => item.is_constant = true,
                Lexeme::Word(word) => {
                    if item.name.is_empty() && depth == 0 {
                        item.name = word;
                    } else {
                        item.words.insert(word);
                    }
                }
                Lexeme::Sign(b'(' | b'{' | b'[') => depth += 1,
                Lexeme::Sign(end @ (b')' | b'}' | b']')) => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 && end == b'}' && (is_function || is_section) {
                        break true;
                    }
                }
                Lexeme::Sign(b';') if depth == 0 => break false,
                Lexeme::Directive(_) | Lexeme::Sign(_) | Lexeme::Other => {}
            }
        };
        item.text = self.text.get(start..self.at)?;
        item.kind = match (is_section, is_entry, is_function && has_body) {
            (true, ..) => Kind::Section,
            (_, true, _) => Kind::Entry,
            (_, _, true) => Kind::Function,
            _ if item.name.is_empty() => Kind::Module,
            _ => Kind::Named,
        };
        Some(Some(item))
    }

    fn next(&mut self) -> Option<Lexeme<'a>> {
        let rest = self.text.get(self.at..)?;
        let first = *rest.as_bytes().first()?;
        let length = |from: usize| {
            let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
            from + rest.bytes().skip(from).take_while(word).count()
        };
        let (taken, lexeme): (usize, fn(&'a str) -> Lexeme<'a>) = match first {
            b'"' => {
                let mut escaped = false;
                let end = rest.bytes().skip(1).position(|byte| {
                    let ends = byte == b'"' && !escaped;
                    escaped = byte == b'\\' && !escaped;
                    ends
                })?;
                (end + 2, |_| Lexeme::Other)
            }
            b'.' => (length(1), Lexeme::Directive),
            // Registers and special registers do not name an item.
            b'%' => (length(1), |_| Lexeme::Other),
            b'0'..=b'9' => (length(0), |_| Lexeme::Other),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => (length(0), Lexeme::Word),
            _ => {
                self.at += rest.chars().next()?.len_utf8();
                return Some(Lexeme::Sign(first));
            }
        };
        self.at += taken;
        rest.get(..taken).map(lexeme)
    }

    fn skip_space(&mut self) -> Option<()> {
        loop {
            let rest = self.text.get(self.at..)?;
            let space = rest.len() - rest.trim_start().len();
            let comment = rest.get(space..).and_then(comment)?;
            if space + comment == 0 {
                return Some(());
            }
            self.at += space + comment;
        }
    }
}

/// Returns the length of the comment that a text begins with, without the end of its line, or `None` if the comment
/// never ends.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    match text.strip_prefix("/*") {
        Some(inside) => inside.find("*/").map(|at| at + 4),
        None => Some(0),
    }
}

/// Writes PTX without comments, because nvcc numbers its calls in comments.
fn write_without_comments(text: &str, to: &mut String) {
    let mut scanner = Scanner { text, at: 0 };
    while scanner.at < text.len() {
        let start = scanner.at;
        let skipped = text.get(start..).and_then(comment).unwrap_or(0);
        scanner.at += skipped;
        if skipped == 0 {
            if scanner.next().is_none() {
                scanner.at = text.len();
            }
            to.push_str(text.get(start..scanner.at).unwrap_or_default());
        }
    }
}

/// Renumbers the names that nvcc numbers through a module, in the order in which they appear.
fn renumbered(text: &str) -> String {
    static NUMBERED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(\$L__BB|__local_depot|__unnamed_)([0-9]+)|(\$str)(?:\$([0-9]+))?\b").ok()
    });
    let Some(numbered) = &*NUMBERED else {
        return text.to_owned();
    };
    let mut met: HashMap<String, HashMap<String, usize>> = HashMap::new();
    let renumber = |found: &Captures| {
        let part = |at: usize| found.get(at).map(|part| part.as_str().to_owned());
        let name = part(1).or_else(|| part(3)).unwrap_or_default();
        let number = part(2).or_else(|| part(4)).unwrap_or_default();
        let known = met.entry(name.clone()).or_default();
        let next = known.len();
        match (name.as_str(), *known.entry(number).or_insert(next)) {
            ("$str", 0) => name,
            ("$str", at) => format!("{name}${at}"),
            ("__unnamed_", at) => format!("{name}{}", at + 1),
            (_, at) => format!("{name}{at}"),
        }
    };
    numbered.replace_all(text, renumber).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two instances of a template, as nvcc 13.0 compiles them, with an `assert`, a table and a function that both
    /// call.
    const MODULE: &str = include_str!("cut/module.ptx");

    fn cut(entry: &str, others: &[&str]) -> Option<String> {
        PtxModule::parse(MODULE).unwrap().cut(&[entry], others)
    }

    #[test]
    fn an_entry_keeps_only_the_code_it_reaches() {
        insta::assert_snapshot!(cut("first", &["second", "third"]).unwrap());
        let second = cut("second", &["first"]).unwrap();
        assert!(second.contains(".func  (.param .b32 func_retval0) called("));
        assert!(second.contains("mov.u64 %rd1, $str;"), "{second}");
        assert!(!second.contains("table"), "{second}");
    }

    /// Checks that the entry is refused, because nvcc might have inlined the function if the entry were alone.
    #[test]
    fn an_entry_that_shares_a_function_is_not_cut_out() {
        assert_eq!(cut("second", &["third"]), None);
        assert_eq!(cut("third", &["first", "second"]), None);
        // The entries of one operation are always cut out together.
        let module = PtxModule::parse(MODULE).unwrap();
        let both = module.cut(&["second", "third"], &["first"]).unwrap();
        assert!(both.contains(".entry second") && both.contains("called("));
        let third = cut("third", &["first"]).unwrap();
        assert!(third.contains("$L__info_string0:\n"), "{third}");
        // The table is a variable that the host fills.
        assert_eq!(module.constants(), ["table"]);
        let filled = module.cut(&["third", "table"], &["first"]).unwrap();
        assert!(filled.contains(".const .align 4 .b8 table[12]"), "{filled}");
    }

    #[test]
    fn debugging_information_about_others_stops_it() {
        let text = format!("{MODULE}.section .debug_info\n{{\n.b64 second\n}}\n");
        let module = PtxModule::parse(&text).unwrap();
        assert_eq!(module.cut(&["first"], &["second"]), None);
    }

    #[test]
    fn text_that_is_no_module_is_refused() {
        for text in [
            "{",
            "x",
            ".entry k() {",
            "/* ",
            ".global .b8 x = \"",
            ".func )",
        ] {
            assert!(PtxModule::parse(text).is_none(), "{text}");
        }
        assert!(PtxModule::parse("").unwrap().cut(&["k"], &[]).is_none());
    }
}
