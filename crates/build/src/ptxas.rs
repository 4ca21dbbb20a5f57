//! Reads the output of `ptxas -v` into numbers. Pure: text in, report out. It knows no files and no kernels.
//!
//! PTXAS reports one entry after another, each in a few lines without a mark at the end:
//!
//! ```text
//! ptxas info    : Compiling entry function 'k' for 'sm_90'
//! ptxas info    : Function properties for k
//!     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
//! ptxas info    : Used 32 registers, used 1 barriers, 512 bytes smem, 364 bytes cmem[0]
//! ptxas info    : Function properties for called
//!     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//! ```
//!
//! The first line starts an entry. Properties with the entry's own name are its own. All others until the next entry
//! are of device functions that it calls and that are not inlined. A `Used` line behind the properties of such a
//! function is the function's, which happens in code that is compiled for linking.
//!
//! The invariant is that a number that cannot be read never counts as zero. An entry whose lines are missing has no
//! resources ([`Absent`]), and a clause that is not known becomes a warning. If the unknown clause is about registers,
//! shared memory or barriers, the whole `Used` line is unread. A source can make the host compiler print lines that
//! look like PTXAS's. So two reports on one entry that differ are an error, and no choice is made between them.

use model::Resources;
use std::collections::BTreeMap;
use std::fmt;

/// Everything of one compiler output, for any number of entries and architectures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PtxasReport {
    entries: Vec<EntryReport>,
    /// Warnings and performance advisories (`(C7510) Potential Performance Loss`), and clauses of a `Used` line that
    /// this parser does not know, one on each line, in the printed order.
    pub warnings: Vec<String>,
}

/// The line after `Function properties for`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StackFrame {
    stack: u32,
    spill_stores: u32,
    spill_loads: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct EntryReport {
    symbol: String,
    arch: String,
    frame: Option<StackFrame>,
    /// The functions that PTXAS lists after the entry: the entry calls them, and they are not inlined.
    callees: Vec<StackFrame>,
    used: Option<Used>,
}

/// The numbers of the `Used` line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Used {
    registers: u32,
    barriers: u32,
    static_shared: u32,
    cumulative_stack: Option<u32>,
    constant_banks: BTreeMap<u32, u32>,
}

/// The reasons for which an entry has no resources. None of them means zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absent {
    NotReported,
    /// PTXAS began to report the entry, and a line is missing.
    Incomplete(&'static str),
    /// The entry was reported more than once, with different values.
    Contradictory,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReported => f.write_str("PTXAS did not report it"),
            Self::Incomplete(line) => write!(f, "PTXAS's report of it lacks the `{line}` line"),
            Self::Contradictory => f.write_str("PTXAS reported it twice with different values"),
        }
    }
}

impl PtxasReport {
    /// Parses a report. It never fails: missing numbers are an error of `resources`.
    pub fn parse(text: &str) -> Self {
        let mut report = Self::default();
        let mut subject = ReportOf::Module;
        let mut after_properties = false;
        for line in text.lines() {
            let expects_frame = std::mem::take(&mut after_properties);
            if let Some(frame) = frame(line) {
                if expects_frame {
                    report.set_frame(&subject, frame);
                }
                continue;
            }
            let Some(message) = message(line) else {
                continue;
            };
            match message {
                Message::Warning(text) => report.warnings.push(text),
                Message::Info(info) => {
                    if let Some((symbol, arch)) = compiling(info) {
                        subject = ReportOf::Entry(report.entries.len());
                        report.entries.push(EntryReport {
                            symbol: symbol.to_owned(),
                            arch: arch.to_owned(),
                            frame: None,
                            callees: Vec::new(),
                            used: None,
                        });
                    } else if let Some(symbol) = info.strip_prefix("Function properties for ") {
                        subject = report.subject_of(symbol.trim());
                        after_properties = true;
                    } else if let Some(clauses) = info.strip_prefix("Used ") {
                        report.set_used(&subject, clauses);
                    } else if info.starts_with("(C") {
                        report.warnings.push(format!("ptxas info: {info}"));
                    }
                }
            }
        }
        report
    }

    /// Returns the resources of the entry with this symbol at this architecture (`sm_90`). Spills of the functions that
    /// it calls are added to its own, and the stack is the largest frame of all. PTXAS reports no stack and no spills
    /// for an entry that calls a recursive function, and a limit must not pass because of that.
    pub fn resources(&self, symbol: &str, arch: &str) -> Result<Resources, Absent> {
        let mut found = self
            .entries
            .iter()
            .filter(|entry| entry.symbol == symbol && entry.arch == arch);
        let first = found.next().ok_or(Absent::NotReported)?;
        if found.any(|other| other != first) {
            return Err(Absent::Contradictory);
        }
        let frame = first.frame.ok_or(Absent::Incomplete("stack frame"))?;
        let used = first.used.as_ref().ok_or(Absent::Incomplete("registers"))?;
        let all = || first.callees.iter().chain([&frame]);
        let sum = |of: fn(&StackFrame) -> u32| all().map(of).fold(0, u32::saturating_add);
        Ok(Resources {
            registers: used.registers,
            stack: all().map(|frame| frame.stack).max(),
            spill_stores: Some(sum(|frame| frame.spill_stores)),
            spill_loads: Some(sum(|frame| frame.spill_loads)),
            static_shared: used.static_shared,
            barriers: used.barriers,
            cumulative_stack: used.cumulative_stack,
            constant_banks: used.constant_banks.clone(),
            code: None,
            local_accesses: None,
        })
    }

    /// Returns what a block of properties is about: the entry that was announced last, if it has this name and no
    /// properties yet, or else a device function.
    fn subject_of(&self, symbol: &str) -> ReportOf {
        match self.entries.last() {
            Some(entry) if entry.symbol == symbol && entry.frame.is_none() => {
                ReportOf::Entry(self.entries.len() - 1)
            }
            _ => ReportOf::Function,
        }
    }

    fn set_frame(&mut self, subject: &ReportOf, frame: StackFrame) {
        match subject {
            ReportOf::Module => {}
            ReportOf::Entry(index) => {
                if let Some(entry) = self.entries.get_mut(*index) {
                    entry.frame = Some(frame);
                }
            }
            ReportOf::Function => {
                if let Some(entry) = self.entries.last_mut() {
                    entry.callees.push(frame);
                }
            }
        }
    }

    fn set_used(&mut self, subject: &ReportOf, clauses: &str) {
        // A device function that was compiled for linking has a `Used` line too; it is not the entry's.
        let ReportOf::Entry(index) = subject else {
            return;
        };
        let mut unknown = Vec::new();
        let used = used(clauses, &mut unknown);
        let Some(entry) = self.entries.get_mut(*index) else {
            return;
        };
        for clause in unknown {
            self.warnings.push(format!(
                "ptxas -v prints something about {} that gatekeeper does not know: {clause}",
                entry.symbol
            ));
        }
        // The entry is reported again. A source can make the host compiler print what looks like a line of PTXAS.
        if entry.used.is_some() && entry.used != used {
            let again = EntryReport {
                used,
                ..entry.clone()
            };
            self.entries.push(again);
            return;
        }
        entry.used = used;
    }
}

/// The subject of the lines that follow.
enum ReportOf {
    Module,
    Entry(usize),
    /// A function that the last entry calls.
    Function,
}

enum Message<'a> {
    Info(&'a str),
    Warning(String),
}

/// Parses `ptxas info    : ...`, `ptxas warning : ...` and `ptxas <file>, line 7; warning : ...`, also behind the
/// prefix of a build system.
fn message(line: &str) -> Option<Message<'_>> {
    let rest = line.get(line.find("ptxas ")? + "ptxas ".len()..)?;
    let (head, text) = rest.split_once(" : ").or_else(|| rest.split_once(": "))?;
    let text = text.trim();
    match head.rsplit(' ').find(|word| !word.is_empty())? {
        "info" => Some(Message::Info(text)),
        // The file before `line 7` is a temporary one, and the line is of PTX that is not kept.
        "warning" => Some(Message::Warning(format!("ptxas warning: {text}"))),
        _ => None,
    }
}

/// Parses `Compiling entry function 'k' for 'sm_90'`.
fn compiling(info: &str) -> Option<(&str, &str)> {
    let (symbol, rest) = info
        .strip_prefix("Compiling entry function '")?
        .split_once("' for '")?;
    Some((symbol, rest.strip_suffix('\'')?))
}

/// Parses `    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads`.
fn frame(line: &str) -> Option<StackFrame> {
    let at = line.find(|c: char| c.is_ascii_digit())?;
    // In `1>      0 bytes stack frame`, the prefix of a build system has a digit of its own.
    let rest = line.get(at..)?;
    let rest = rest.split_once('>').map_or(rest, |(_, rest)| rest);
    let mut clauses = rest.trim().split(", ");
    let mut bytes = |what: &str| number(clauses.next()?.strip_suffix(what)?);
    let frame = StackFrame {
        stack: bytes(" bytes stack frame")?,
        spill_stores: bytes(" bytes spill stores")?,
        spill_loads: bytes(" bytes spill loads")?,
    };
    Some(frame)
}

/// Parses everything after `Used `, clause by clause. Returns `None` if there is no readable number of registers.
///
/// CUDA 12 and 13 write `32 registers, used 1 barriers, 128 bytes cumulative stack size, 512 bytes smem, 364 bytes
/// cmem[0], 1 textures`. Earlier releases leave the barriers out if there are none, and write `8192+16 bytes smem`.
fn used(clauses: &str, unknown: &mut Vec<String>) -> Option<Used> {
    let mut used = Used::default();
    let mut registers = None;
    for clause in clauses.split(',').map(str::trim) {
        let known = if let Some(count) = clause.strip_suffix(" registers") {
            registers = number(count);
            registers.is_some()
        } else if let Some(count) = clause
            .strip_prefix("used ")
            .and_then(|rest| rest.strip_suffix(" barriers"))
        {
            store(&mut used.barriers, number(count))
        } else if let Some(bytes) = clause.strip_suffix(" bytes cumulative stack size") {
            used.cumulative_stack = number(bytes);
            used.cumulative_stack.is_some()
        } else if let Some(bytes) = clause.strip_suffix(" bytes smem") {
            store(&mut used.static_shared, sum(bytes))
        } else if let Some((bytes, bank)) = clause
            .strip_suffix(']')
            .and_then(|rest| rest.split_once(" bytes cmem["))
        {
            let parsed = sum(bytes).zip(number(bank));
            parsed.is_some_and(|(bytes, bank)| used.constant_banks.insert(bank, bytes).is_none())
        } else {
            // PTXAS counts these, and no gate limits them.
            [" textures", " surfaces", " samplers", " bytes lmem"]
                .iter()
                .any(|what| clause.strip_suffix(what).and_then(sum).is_some())
        };
        if !known {
            unknown.push(clause.to_owned());
            // A number that cannot be read is not zero.
            if clause.contains("registers") || clause.contains("smem") || clause.contains("barrier")
            {
                return None;
            }
        }
    }
    used.registers = registers?;
    Some(used)
}

fn store(place: &mut u32, value: Option<u32>) -> bool {
    value.map(|value| *place = value).is_some()
}

fn number(text: &str) -> Option<u32> {
    // `parse` alone would take "+7".
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

/// Parses `8192` or, before CUDA 5, `8192+16`.
fn sum(text: &str) -> Option<u32> {
    text.split('+')
        .map(number)
        .try_fold(0u32, |sum, part| sum.checked_add(part?))
}

#[cfg(test)]
mod tests;
