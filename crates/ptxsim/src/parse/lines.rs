//! Source lines of instructions, and the calls that inlined them (PTX ISA 11.5.3).
//!
//! A `.loc` of inlined code names the place of the call, but not what the call itself was inlined into. That is in a
//! `.loc` of the call's own place, which has to stand before. nvcc (13.0.88) writes it directly before the first `.loc`
//! that refers to it, and never again for that. So a call directly before is the right one. Later, when code of two
//! inlinings takes turns, any of the calls at that place may be meant: all of them are kept, and where they differ the
//! text says so.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Deref;

/// A position in the source. Lines count from 1, and 0 is no line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct At {
    pub file: u32,
    pub line: u32,
    pub column: u32,
}

/// A line of [`Lines`]; the first is no line at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineId(u32);

impl LineId {
    /// The position of code that no line of a source stands for.
    pub const NONE: LineId = LineId(0);
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Line {
    at: At,
    /// The calls that may have been inlined there, all made before this line; none if the line was not inlined.
    calls: Vec<LineId>,
}

/// The number of calls that are kept if PTX does not say which of them is meant. Beyond that number no line is given.
const MOST_CALLS: usize = 8;

/// The number of calls, one inlined at the next, that a text names.
const MOST_LEVELS: usize = 8;

/// The number of steps from a line of a foreign file to one of its own, and of lines that may be met on the way.
const MOST_STEPS: usize = 64;

/// The source lines of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    all: Vec<Line>,
    pub files: BTreeMap<u32, String>,
    /// The files of others, such as the headers of a toolkit, by number.
    foreign: BTreeSet<u32>,
}

impl Default for Lines {
    fn default() -> Self {
        Lines {
            all: vec![Line::default()],
            files: BTreeMap::new(),
            foreign: BTreeSet::new(),
        }
    }
}

impl Lines {
    /// Makes the files foreign for which `own` returns false: see [`Lines::own`].
    pub fn tell_apart(&mut self, own: impl Fn(&str) -> bool) {
        self.foreign = self
            .files
            .iter()
            .filter(|(_, name)| !own(name))
            .map(|(number, _)| *number)
            .collect();
    }

    /// Returns the position of a line.
    pub fn at(&self, id: LineId) -> At {
        self.line(id).map(|line| line.at).unwrap_or_default()
    }

    fn line(&self, id: LineId) -> Option<&Line> {
        self.all.get(id.0 as usize)
    }

    /// Returns true if a line is in no foreign file.
    pub(crate) fn is_own(&self, id: LineId) -> bool {
        let at = self.at(id);
        at.line > 0 && !self.foreign.contains(&at.file)
    }

    fn name(&self, id: LineId) -> String {
        let at = self.at(id);
        let file = self.files.get(&at.file).map_or("?", String::as_str);
        format!("{file}:{}", at.line)
    }

    /// Returns a place such as `mma.hpp:288 inlined at k.cu:12 inlined at k.cu:40`: the line, and the calls in files
    /// that are not foreign. Returns `None` if there is no line.
    pub fn place(&self, id: LineId) -> Option<String> {
        (self.at(id).line > 0).then(|| self.name(id) + &self.inlined(&BTreeSet::from([id])))
    }

    /// Returns the innermost line that is in no foreign file, and the calls that inlined it. If all lines are foreign,
    /// that is the line itself. If PTX does not say which of several it is, the text is `k.cu:5 or k.cu:9`.
    pub fn own(&self, id: LineId) -> (String, String) {
        let mut lines = BTreeSet::from([id]);
        if !self.is_own(id) {
            let callers = self.callers(&lines);
            if callers.iter().any(|c| self.is_own(*c)) {
                lines = callers;
            }
        }
        let names = self.names(&lines);
        let inlined = match names.len() {
            1 => self.inlined(&lines),
            _ => String::new(),
        };
        (one_of(&names), inlined)
    }

    /// Returns the line that [`Lines::own`] names, and the lines in no foreign file at which it was inlined, the
    /// outermost last. They end where PTX leaves open which call it is. If that is open from the start, there is only
    /// the line itself.
    pub fn own_lines(&self, id: LineId) -> Vec<At> {
        let mut chain: Vec<At> = Vec::new();
        let mut lines = BTreeSet::from([id]);
        for _ in 0..MOST_STEPS {
            let mut own = lines
                .iter()
                .filter(|line| self.is_own(**line))
                .map(|line| self.at(*line));
            if let Some(first) = own.next() {
                let is_first = |at: &At| (at.file, at.line) == (first.file, first.line);
                if !own.all(|at| is_first(&at)) || chain.len() > MOST_LEVELS {
                    break;
                }
                // A function that was inlined into itself gives one line several times.
                if !chain.last().is_some_and(is_first) {
                    chain.push(first);
                }
            }
            lines = self.callers(&lines);
        }
        if chain.is_empty() {
            chain.push(self.at(id));
        }
        chain
    }

    fn names(&self, lines: &BTreeSet<LineId>) -> BTreeSet<String> {
        lines.iter().map(|id| self.name(*id)).collect()
    }

    /// Returns the calls, such as ` inlined at k.cu:12 inlined at k.cu:40`, up to where the lines have different ones.
    fn inlined(&self, lines: &BTreeSet<LineId>) -> String {
        let (mut text, mut levels) = (String::new(), 0);
        let (mut lines, mut last) = (lines.clone(), self.names(lines));
        for _ in 0..MOST_STEPS {
            lines = self.callers(&lines);
            let names = self.names(&lines);
            if names.is_empty() {
                return text;
            }
            // A function that was inlined into itself.
            if names == last {
                continue;
            }
            if levels == MOST_LEVELS {
                break;
            }
            text += " inlined at ";
            text += &one_of(&names);
            if names.len() > 1 {
                return text;
            }
            (levels, last) = (levels + 1, names);
        }
        text + " inlined at ..."
    }

    /// Returns the next calls outwards that are in no foreign file, or the next calls if there are none.
    fn callers(&self, lines: &BTreeSet<LineId>) -> BTreeSet<LineId> {
        let next = |id: &LineId| self.line(*id).map_or(&[][..], |line| &line.calls);
        let nearest: BTreeSet<LineId> = lines.iter().flat_map(next).copied().collect();
        let (mut own, mut rest) = (BTreeSet::new(), nearest.clone());
        for _ in 0..MOST_STEPS {
            let (ours, foreign): (BTreeSet<_>, BTreeSet<_>) =
                rest.into_iter().partition(|id| self.is_own(*id));
            own.extend(ours);
            rest = foreign.iter().flat_map(next).copied().collect();
            if rest.is_empty() || rest.len() > MOST_STEPS {
                break;
            }
        }
        if own.is_empty() { nearest } else { own }
    }
}

fn one_of(names: &BTreeSet<String>) -> String {
    match names.len() {
        0..=3 => {
            let names: Vec<&str> = names.iter().map(Deref::deref).collect();
            names.join(" or ")
        }
        many => format!("one of {many} lines"),
    }
}

/// A call that the compiler inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call<'a> {
    pub at: At,
    /// The function that was called, by its label in the section of names and an offset.
    pub callee: (&'a str, i64),
}

/// The lines as they are read, one function after the other.
#[derive(Default)]
pub struct LineReader<'a> {
    pub lines: Lines,
    known: HashMap<Line, LineId>,
    /// The lines at each position in the function.
    here: HashMap<At, Vec<LineId>>,
    /// The lines by which each call was named.
    named: HashMap<Call<'a>, Vec<LineId>>,
    /// The calls that look like another one, as calls by a macro do.
    alike: HashSet<Call<'a>>,
    /// The `.loc` before, if no instruction followed on it.
    before: Option<LineId>,
}

impl<'a> LineReader<'a> {
    /// Forgets the lines of the last function when the next one begins.
    pub fn function(&mut self) {
        self.here.clear();
        self.named.clear();
        self.alike.clear();
        self.before = None;
    }

    /// Notes that an instruction is at this place.
    pub fn instruction(&mut self) {
        self.before = None;
    }

    /// Reads a `.loc` directive and returns the number of its line.
    pub fn loc(&mut self, at: At, inlined_at: Option<Call<'a>>) -> LineId {
        let calls = inlined_at.map_or_else(Vec::new, |call| self.calls(call));
        let id = self.number(Line { at, calls });
        note(self.here.entry(at).or_default(), id);
        self.before = Some(id);
        id
    }

    /// Returns the lines that may be the call at which a line was inlined.
    fn calls(&mut self, call: Call<'a>) -> Vec<LineId> {
        if let Some(before) = self.before
            && self.lines.at(before) == call.at
        {
            let now = self.named_now(before, call);
            if !note(self.named.entry(call).or_default(), now) {
                self.alike.insert(call);
            }
            return vec![now];
        }
        let named = self.named.get(&call);
        match named.or_else(|| self.here.get(&call.at)) {
            Some(all) if all.len() <= MOST_CALLS => all.clone(),
            _ => {
                let calls = Vec::new();
                vec![self.number(Line { at: call.at, calls })]
            }
        }
    }

    /// Decides which of several outer calls is meant, for a call that is named now. As each call is named once, it is
    /// none that was named in this way before.
    fn named_now(&mut self, id: LineId, call: Call<'a>) -> LineId {
        let line = self.lines.line(id).cloned().unwrap_or_default();
        let named = self.named.get(&call).cloned().unwrap_or_default();
        if line.calls.len() < 2 || named.len() > MOST_CALLS || self.alike.contains(&call) {
            return id;
        }
        let each: Vec<LineId> = line
            .calls
            .into_iter()
            .map(|outer| Line {
                at: line.at,
                calls: vec![outer],
            })
            .map(|line| self.number(line))
            .collect();
        let mut left = each.into_iter().filter(|id| !named.contains(id));
        match (left.next(), left.next()) {
            (Some(one), None) => one,
            _ => id,
        }
    }

    /// Returns the number of a line, and adds the line if it is new.
    fn number(&mut self, line: Line) -> LineId {
        if let Some(id) = self.known.get(&line) {
            return *id;
        }
        let id = LineId(self.lines.all.len() as u32);
        self.lines.all.push(line.clone());
        self.known.insert(line, id);
        id
    }
}

/// Adds a line to a list, and returns false if the list has it already. One more line than are kept shows that there
/// are too many.
fn note(all: &mut Vec<LineId>, id: LineId) -> bool {
    let new = !all.contains(&id);
    if new && all.len() <= MOST_CALLS {
        all.push(id);
    }
    new
}

#[cfg(test)]
mod tests;
