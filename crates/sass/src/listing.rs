//! Lines of text into instructions. As `nvdisasm -c -gi` of CUDA 12 and 13 writes them:
//!
//! ```text
//!     .section    .text._Z1kPf,"ax",@progbits
//! .L_x_4:
//!     //## File "/src/common.cuh", line 84 inlined at "/src/reduce.cu", line 30
//!     //## File "/src/reduce.cu", line 30
//!         /*0440*/              @!P1 BRA `(.L_x_4) ;
//! ```

use model::{CodeLine, CodePlace};
use std::collections::HashMap;

/// A whole cubin, with a section for each entry.
#[derive(Debug, Default)]
pub struct Listing<'a> {
    pub sections: Vec<Section<'a>>,
}

/// The code of one entry, with the functions that it calls.
#[derive(Debug, Default)]
pub struct Section<'a> {
    /// The symbol of the entry, as in the cubin.
    pub name: &'a str,
    pub(crate) instructions: Vec<Instruction<'a>>,
    /// The index of the instruction that follows each label.
    pub(crate) labels: HashMap<&'a str, usize>,
    /// The places where functions begin, with their names. The entry's own is first.
    pub(crate) functions: Vec<(usize, &'a str)>,
    pub(crate) places: Vec<CodePlace>,
}

#[derive(Debug)]
pub(crate) struct Instruction<'a> {
    /// The predicate without the at sign: `!P1`.
    pub predicate: Option<&'a str>,
    /// The opcode with its suffixes: `LDG.E.128.CONSTANT`.
    pub opcode: &'a str,
    pub operands: &'a str,
    /// The index of its place among the places of its section.
    pub place: Option<usize>,
}

impl Instruction<'_> {
    /// Returns the opcode without suffixes: `LDG` for `LDG.E.128.CONSTANT`.
    pub fn mnemonic(&self) -> &str {
        self.opcode.split('.').next().unwrap_or(self.opcode)
    }

    /// Returns the parts of the opcode after its first dot: `E` and `128` of `LDG.E.128`.
    pub fn modifiers(&self) -> impl Iterator<Item = &str> {
        self.opcode.split('.').skip(1)
    }

    /// Returns the operands as they are written. Text in brackets is not split.
    pub fn operands(&self) -> impl Iterator<Item = &str> {
        self.operands.split(',').map(str::trim)
    }

    /// Returns the labels that the instruction names, including the labels of jump tables.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        let named = self.operands.split("`(").skip(1).filter_map(|rest| {
            let label = rest.split_once(')')?.0;
            Some(label.trim_start_matches('('))
        });
        let table = self.operands.split_once("BRANCH_TARGETS ");
        let table = table.and_then(|(_, rest)| rest.split('"').next());
        named.chain(
            table
                .unwrap_or_default()
                .split(',')
                .map(str::trim)
                .filter(|label| !label.is_empty()),
        )
    }
}

impl<'a> Listing<'a> {
    pub fn parse(text: &'a str) -> Self {
        let mut listing = Self::default();
        let mut reader: Option<ListingReader<'a>> = None;
        for line in text.lines() {
            let trimmed = line.trim();
            if let Some(rest) = trimmed.strip_prefix(".section") {
                listing
                    .sections
                    .extend(reader.take().map(ListingReader::end));
                let name = rest.trim().split(',').next().unwrap_or_default();
                reader = name.strip_prefix(".text.").map(ListingReader::new);
            } else if let Some(reader) = &mut reader {
                reader.line(trimmed);
            }
        }
        listing.sections.extend(reader.map(ListingReader::end));
        listing
    }

    /// Returns the first section of this name.
    pub fn section(&self, symbol: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.name == symbol)
    }
}

struct ListingReader<'a> {
    section: Section<'a>,
    known: HashMap<CodePlace, usize>,
    place: Option<usize>,
    /// The lines of a comment that is not yet complete, from inside to outside.
    chain: Vec<CodeLine>,
    declared: Vec<&'a str>,
}

impl<'a> ListingReader<'a> {
    fn new(name: &'a str) -> Self {
        Self {
            section: Section {
                name,
                ..Section::default()
            },
            known: HashMap::new(),
            place: None,
            chain: Vec::new(),
            declared: Vec::new(),
        }
    }

    fn end(self) -> Section<'a> {
        self.section
    }

    fn line(&mut self, line: &'a str) {
        if let Some(comment) = line.strip_prefix("//##") {
            self.chain.extend(source_line(comment));
            return;
        }
        if !self.chain.is_empty() {
            let mut lines = std::mem::take(&mut self.chain).into_iter();
            self.place = lines.next().map(|line| {
                let place = CodePlace {
                    line,
                    inlined_at: lines.collect(),
                };
                let places = &mut self.section.places;
                *self.known.entry(place).or_insert_with_key(|place| {
                    places.push(place.clone());
                    places.len() - 1
                })
            });
        }
        let next = self.section.instructions.len();
        if let Some(rest) = line.strip_prefix(".type") {
            let declared = rest.trim().strip_suffix(",@function");
            self.declared.extend(declared);
        } else if let Some(label) = line.strip_suffix(':') {
            self.section.labels.insert(label, next);
            if self.declared.contains(&label) {
                self.section.functions.push((next, label));
                // nvdisasm names no line for the runtime's own functions, and they must not get the previous one.
                self.place = None;
            }
        } else if let Some(instruction) = instruction(line) {
            self.section.instructions.push(Instruction {
                place: self.place,
                ..instruction
            });
        }
    }
}

/// Parses a comment, `File "/src/k.cu", line 12 inlined at "/src/k.cu", line 40`, and returns the first of the two
/// lines. The second follows on a line of its own.
fn source_line(comment: &str) -> Option<CodeLine> {
    let rest = comment.trim().strip_prefix("File \"")?;
    let rest = match rest.split_once(" inlined at \"") {
        Some((inner, _)) => inner,
        None => rest,
    };
    let (file, number) = rest.rsplit_once("\", line ")?;
    Some(CodeLine {
        file: file.to_owned(),
        number: number.trim().parse().ok()?,
    })
}

/// Parses an instruction: `/*0440*/  @!P1 BRA `(.L_x_4) ;`
fn instruction(line: &str) -> Option<Instruction<'_>> {
    let (address, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    if address.is_empty() || !address.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let rest = rest.trim_start().trim_start_matches('{').trim_start();
    let (body, _) = rest.rsplit_once(';').unwrap_or((rest, ""));
    let body = body.trim();
    let (predicate, body) = match body.strip_prefix('@') {
        Some(rest) => {
            let (predicate, rest) = rest.split_once(char::is_whitespace)?;
            (Some(predicate), rest.trim_start())
        }
        None => (None, body),
    };
    let (opcode, operands) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
    let is_opcode = opcode.starts_with(|c: char| c.is_ascii_uppercase());
    is_opcode.then_some(Instruction {
        predicate,
        opcode,
        operands: operands.trim(),
        place: None,
    })
}
