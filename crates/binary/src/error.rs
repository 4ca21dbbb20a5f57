//! Says why a file cannot be read, and at which byte.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The position of the byte in the file.
    pub file: u64,
    /// The position in what is unpacked from there.
    pub unpacked: Option<u64>,
}

impl Offset {
    pub const START: Self = Self {
        file: 0,
        unpacked: None,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file has none of the formats that are read.
    Unknown,
    /// The file is for another kind of machine than 64-bit Linux.
    Foreign,
    /// A part is cut off, or says something impossible.
    Damaged(&'static str),
    /// A part is larger than anything that a compiler makes.
    TooLarge { claimed: u64, limit: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    pub offset: Offset,
    pub problem: Problem,
}

impl Error {
    pub(crate) fn at(file: u64, problem: Problem) -> Self {
        let offset = Offset {
            file,
            unpacked: None,
        };
        Self { offset, problem }
    }

    /// Returns the error of a part that starts at this byte of the file.
    pub(crate) fn shifted(mut self, start: u64) -> Self {
        self.offset.file = self.offset.file.saturating_add(start);
        self
    }

    /// Returns the error of what was unpacked from this byte of the file.
    pub(crate) fn unpacked_from(mut self, start: u64) -> Self {
        self.offset = Offset {
            file: start,
            unpacked: Some(self.offset.file),
        };
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: ", self.offset.file)?;
        if let Some(unpacked) = self.offset.unpacked {
            write!(f, "byte {unpacked} of what is unpacked there: ")?;
        }
        match self.problem {
            Problem::Unknown => f.write_str("it starts like none of the files that have GPU code"),
            Problem::Foreign => f.write_str("it is no 64-bit little-endian ELF file"),
            Problem::Damaged(part) => write!(f, "the {part} is damaged or cut off"),
            Problem::TooLarge { claimed, limit } => write!(
                f,
                "the entry claims to unpack to {claimed} bytes; the limit is {limit}"
            ),
        }
    }
}

impl std::error::Error for Error {}
