//! The lines of a capture, and how they are written and read.

use crate::{Content, Damage, SCHEMA};
use model::TensorMap;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

/// The most bytes of a line: a launch that reaches 64 GiB has 32,768 chunks before it and as many after it.
const LONGEST_LINE: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Line {
    /// The first line of a file, about its process.
    Process(Process),
    Launch(Box<LaunchRecord>),
    LeftOut(LeftOut),
    /// When the program ends by itself.
    Launched(Launched),
}

/// The number of times that a program launched a kernel in a region, captured or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launched {
    /// The mangled name of the kernel.
    pub kernel: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    pub launches: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    pub schema: String,
    pub pid: u32,
    /// The words that started the program: its path and its arguments.
    pub command: Vec<String>,
}

/// One launch of a kernel, with what it can reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchRecord {
    /// Counted from 1 over the launches of this kernel in this process.
    pub number: u64,
    /// The mangled name of the kernel.
    pub kernel: String,
    /// The regions of the program that it was in, outermost first, with slashes between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// A cubin, a fat binary or PTX, as the program gave it to the driver.
    pub module: Content,
    pub device: String,
    /// The compute capability: major and minor number.
    pub capability: [u8; 2],
    /// The driver's version of CUDA: 13000 is 13.0.
    pub driver: i32,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<[u32; 3]>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cooperative: bool,
    /// It may start before the launch ahead of it in its stream ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub programmatic: bool,
    /// The size of dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    pub parameters: Vec<Parameter>,
    /// The allocations that the launch can reach, ordered by address.
    pub allocations: Vec<Allocation>,
    /// Variables of the module before the launch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<Variable>,
    /// Set if floats in its memory are random, and not the program's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<RandomInputs>,
}

/// Nonzero bytes of the memory before a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomInputs {
    /// The bytes that belong to floats, which are replaced by random values.
    pub replaced: u64,
    /// The bytes that are still the program's own.
    pub kept: u64,
}

/// A `__constant__` or `__device__` variable and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// The name as the linker knows it.
    pub name: String,
    pub before: Content,
    /// The tensor maps in the variable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<PlacedMap>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The offset in bytes, in the kernel's parameters.
    pub offset: u32,
    /// The value's bytes, written in hexadecimal digits.
    pub bytes: String,
    /// The tensor maps in the parameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<PlacedMap>,
}

impl Parameter {
    /// Returns `None` if its text is not hexadecimal.
    pub fn decode(&self) -> Option<Vec<u8>> {
        self.bytes
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok())
            .collect()
    }

    /// Returns the words of a parameter that may be addresses: its own value, or the values of a struct's members.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let bytes = self.decode().unwrap_or_default();
        let (words, _) = bytes.as_chunks();
        let addresses: Vec<u64> = words.iter().copied().map(u64::from_le_bytes).collect();
        addresses.into_iter()
    }
}

/// A tensor map in a parameter or in memory: bytes that only the driver can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacedMap {
    /// The offset in bytes, in the parameter, allocation or variable.
    pub offset: u64,
    pub map: EncodedMap,
}

/// A tensor map, as the program had the driver encode it. Hints for the L2 cache are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EncodedMap {
    Described {
        address: u64,
        map: TensorMap,
    },
    // The rest is known by name alone.
    Interleaved,
    /// The map has this CUtensorMapDataType, and nothing else of it is known.
    DataType {
        number: u32,
    },
    /// The map has this CUtensorMapSwizzle, and nothing else of it is known.
    Swizzle {
        number: u32,
    },
}

/// An allocation that the launch could reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allocation {
    pub address: u64,
    pub before: Content,
    /// The content after the launch, or `None` if the launch did not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Content>,
    /// The tensor maps in it before the launch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<PlacedMap>,
    /// The tensor maps in it after the launch, if the launch changed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps_after: Vec<PlacedMap>,
}

impl LaunchRecord {
    /// Returns the bytes of memory that it could reach, and the bytes of the allocations that it changed.
    pub fn reached(&self) -> (u64, u64) {
        let changed = self
            .allocations
            .iter()
            .filter(|allocation| allocation.after.is_some());
        (
            self.allocations
                .iter()
                .map(|allocation| allocation.before.bytes)
                .sum(),
            changed.map(|allocation| allocation.before.bytes).sum(),
        )
    }
}

/// A launch that was chosen and could not be captured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    pub kernel: String,
    pub reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reason {
    /// Another stream was recorded into a CUDA graph meanwhile, and waiting for the GPU would end that.
    Recording,
    /// Its CUDA graph has a node that cannot be run alone: a CUgraphNodeType.
    GraphNode { kind: i32 },
    /// Its CUDA graph was updated as a whole.
    GraphUpdated,
    /// Its CUDA graph can be launched by kernels.
    GraphOnDevice,
    /// Its CUDA graph was made in a way that is not followed.
    UnknownGraph,
    /// The module of the kernel cannot be read.
    DamagedModule { problem: String },
    /// The driver got the module in a way that is not followed.
    UnknownModule,
    /// The driver compiled it from PTX.
    NoCode,
    /// A pointer leads to memory that the capture did not place.
    OtherMemory { kind: MemoryKind },
    /// The host has no room to keep what is in the GPU's memory.
    NoHostMemory { bytes: u64 },
    /// The addresses that captures use are taken in this process.
    AddressesTaken,
    /// It can reach more memory than the limit.
    TooMuchMemory { bytes: u64, most: u64 },
    /// The launch with random values failed, with a CUresult. The program cannot use the GPU any more.
    RandomInputs { code: i32 },
    /// It uses textures or surfaces, which are handles to memory in a form of the driver's own.
    Textures,
    /// The driver lacks a function that capture needs.
    OldDriver { call: String },
    /// The driver refused a call of the capture itself.
    Driver { call: String, code: i32 },
    /// The capture could not be written.
    Disk { error: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Managed memory, which cuMemAllocManaged has allocated.
    Managed,
    /// Memory of the host, pinned or registered.
    Host,
    /// Memory that is on another GPU.
    Peer,
    /// It is from a pool that shares its memory, or a graph's own allocation.
    Pool,
    /// Imported, at addresses that the program wanted, or mapped twice.
    Unknown,
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Managed => "managed memory",
            Self::Host => "pinned memory of the host",
            Self::Peer => "memory of another GPU",
            Self::Pool => "memory of a pool that is shared, or of a graph",
            Self::Unknown => {
                "memory that is shared, is mapped twice, or lies at addresses that the program chose"
            }
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recording => {
                f.write_str("another stream was recorded into a CUDA graph at that time")
            }
            Self::GraphNode { kind } => write!(
                f,
                "its CUDA graph has a node that cannot be run alone: {}",
                match kind {
                    3 => "a host function",
                    4 => "a graph",
                    6 | 7 => "an event",
                    8 | 9 => "an external semaphore",
                    10 | 11 => "an allocation",
                    12 => "a batch of memory operations",
                    13 => "a condition",
                    _ => "one of an unknown type",
                }
            ),
            Self::GraphUpdated => f.write_str("its CUDA graph was updated after it was made"),
            Self::GraphOnDevice => f.write_str("its CUDA graph can be launched by kernels"),
            Self::UnknownGraph => {
                f.write_str("its CUDA graph was made in a way that capture does not follow")
            }
            Self::UnknownModule => {
                f.write_str("its module was loaded in a way that capture does not follow")
            }
            Self::NoCode => f.write_str("its module has PTX alone, which the driver compiled"),
            Self::DamagedModule { problem } => write!(f, "its module cannot be read: {problem}"),
            Self::OtherMemory { kind } => write!(f, "it reaches {kind}"),
            Self::NoHostMemory { bytes } => write!(
                f,
                "the host has no room for {} MiB of the GPU's memory",
                bytes.div_ceil(1 << 20)
            ),
            Self::AddressesTaken => {
                f.write_str("the addresses that captures use are taken in this process")
            }
            Self::TooMuchMemory { bytes, most } => write!(
                f,
                "it can reach {} MiB of memory, and the limit is {} MiB (--max-memory)",
                bytes >> 20,
                most >> 20
            ),
            Self::RandomInputs { code } => write!(
                f,
                "it failed on random inputs with CUDA error {code}, and the program with it: leave it out with --kernels"
            ),
            Self::Textures => f.write_str("it uses textures or surfaces"),
            Self::OldDriver { call } => {
                write!(f, "the driver has no {call}: install a newer one")
            }
            Self::Driver { call, code } => write!(f, "{call} failed with CUDA error {code}"),
            Self::Disk { error } => write!(f, "it could not be written: {error}"),
        }
    }
}

/// Appends lines to the file of this process.
pub struct Writer {
    file: File,
}

impl Writer {
    /// Creates the file of a process.
    ///
    /// # Errors
    /// Returns errors of writing.
    pub fn create(capture: &Path, process: Process) -> io::Result<Self> {
        let name = format!("process-{}.jsonl", process.pid);
        let file = File::create(capture.join(name))?;
        let mut writer = Self { file };
        writer.add(&Line::Process(process))?;
        Ok(writer)
    }

    /// Adds a line.
    ///
    /// # Errors
    /// Returns errors of writing.
    pub fn add(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // The text is written in one call, so that a process that dies leaves no half of a line.
        self.file.write_all(&text)
    }
}

/// The lines of all processes of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    pub processes: Vec<(Process, Vec<Line>)>,
}

impl Capture {
    /// Reads a capture.
    ///
    /// # Errors
    /// Returns an error for a directory or file that cannot be read, and for lines that are not a capture's.
    pub fn read(dir: &Path) -> Result<Self, Damage> {
        let unreadable = |error: io::Error| Damage::unreadable(dir, error);
        let mut files = Vec::new();
        for entry in fs::read_dir(dir).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let is_ours = path
                .extension()
                .is_some_and(|extension| extension == "jsonl");
            if is_ours && path.is_file() {
                files.push(path);
            }
        }
        files.sort();
        let processes = files.iter().map(|path| read_process(path));
        Ok(Self {
            processes: processes.collect::<Result<_, _>>()?,
        })
    }

    pub fn launches(&self) -> impl Iterator<Item = &LaunchRecord> {
        self.processes
            .iter()
            .flat_map(|(_, lines)| lines)
            .filter_map(|line| match line {
                Line::Launch(launch) => Some(launch.as_ref()),
                Line::Process(_) | Line::LeftOut(_) | Line::Launched(_) => None,
            })
    }

    pub fn left_out(&self) -> impl Iterator<Item = &LeftOut> {
        self.processes
            .iter()
            .flat_map(|(_, lines)| lines)
            .filter_map(|line| match line {
                Line::LeftOut(left_out) => Some(left_out),
                Line::Process(_) | Line::Launch(_) | Line::Launched(_) => None,
            })
    }
}

fn read_process(path: &Path) -> Result<(Process, Vec<Line>), Damage> {
    let unreadable = |why: String| Damage::unreadable(path, why);
    let file = File::open(path).map_err(|error| Damage::unreadable(path, error))?;
    let mut reader = BufReader::new(file);
    let mut lines = Vec::new();
    for number in 1.. {
        let mut text = Vec::new();
        (&mut reader)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut text)
            .map_err(|error| Damage::unreadable(path, error))?;
        // The process died while it wrote, and the lines before this one are whole.
        if text.last() != Some(&b'\n') {
            match text.len() as u64 {
                LONGEST_LINE => return Err(unreadable(format!("line {number} has no end"))),
                _ => break,
            }
        }
        let line = serde_json::from_slice::<Line>(&text);
        lines.push(line.map_err(|error| unreadable(format!("line {number}: {error}")))?);
    }
    if lines.is_empty() {
        return Err(unreadable("it is empty".to_owned()));
    }
    match lines.remove(0) {
        Line::Process(process) if process.schema == SCHEMA => Ok((process, lines)),
        Line::Process(process) => Err(unreadable(format!(
            "its schema is {}, and this gatekeeper reads {SCHEMA}",
            process.schema
        ))),
        Line::Launch(_) | Line::LeftOut(_) | Line::Launched(_) => Err(unreadable(
            "its first line does not name a process".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Contents;

    fn process() -> Process {
        Process {
            schema: SCHEMA.to_owned(),
            pid: 7,
            command: vec!["python".to_owned(), "bench.py".to_owned()],
        }
    }

    fn launch(dir: &Path) -> LaunchRecord {
        let mut contents = Contents::new(dir);
        LaunchRecord {
            number: 1,
            kernel: "k".to_owned(),
            region: Some("decode/attention".to_owned()),
            module: contents.put(b"module").unwrap(),
            device: "NVIDIA H200".to_owned(),
            capability: [9, 0],
            driver: 13_000,
            grid: [1, 2, 3],
            block: [32, 1, 1],
            cluster: None,
            cooperative: false,
            programmatic: false,
            dynamic_shared: 0,
            parameters: vec![Parameter {
                offset: 0,
                bytes: "0000000000200000".to_owned(),
                maps: vec![PlacedMap {
                    offset: 64,
                    map: EncodedMap::Interleaved,
                }],
            }],
            allocations: vec![Allocation {
                address: 1 << 45,
                before: contents.put(b"before").unwrap(),
                after: Some(contents.put(b"after!").unwrap()),
                maps: Vec::new(),
                maps_after: vec![PlacedMap {
                    offset: 1 << 32,
                    map: EncodedMap::Interleaved,
                }],
            }],
            variables: Vec::new(),
            random: None,
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let launch = launch(dir.path());
        let left_out = LeftOut {
            kernel: "other".to_owned(),
            reason: Reason::NoCode,
        };
        let mut writer = Writer::create(dir.path(), process()).unwrap();
        writer.add(&Line::Launch(Box::new(launch.clone()))).unwrap();
        writer.add(&Line::LeftOut(left_out.clone())).unwrap();
        let capture = Capture::read(dir.path()).unwrap();
        assert_eq!(capture.launches().collect::<Vec<_>>(), [&launch]);
        assert_eq!(capture.left_out().collect::<Vec<_>>(), [&left_out]);
        assert_eq!(launch.reached(), (6, 6));
    }

    #[test]
    fn a_process_that_died_in_a_line_leaves_the_lines_before() {
        let dir = tempfile::tempdir().unwrap();
        let launch = launch(dir.path());
        let mut writer = Writer::create(dir.path(), process()).unwrap();
        let line = Line::Launch(Box::new(launch));
        writer.add(&line).unwrap();
        writer.add(&line).unwrap();
        let path = dir.path().join("process-7.jsonl");
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 5]).unwrap();
        let capture = Capture::read(dir.path()).unwrap();
        assert_eq!(capture.launches().count(), 1);
    }

    /// An older capture has such a map by name alone, which says nothing of its corners.
    #[test]
    fn maps_for_images_of_an_older_capture_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let launch = launch(dir.path());
        let mut writer = Writer::create(dir.path(), process()).unwrap();
        writer.add(&Line::Launch(Box::new(launch))).unwrap();
        let path = dir.path().join("process-7.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"interleaved\"", "\"im2col\"")).unwrap();
        let error = Capture::read(dir.path()).unwrap_err().to_string();
        assert!(
            error.contains("line 2: unknown variant `im2col`"),
            "{error}"
        );
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let newer = Process {
            schema: "gatekeeper.capture/2".to_owned(),
            ..process()
        };
        Writer::create(dir.path(), newer).unwrap();
        let error = Capture::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("gatekeeper.capture/2"), "{error}");
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for text in [
            "",
            "{}\n",
            "not json\n",
            "{\"left_out\":{\"kernel\":\"k\",\"reason\":\"no_code\"}}\n",
        ] {
            fs::write(dir.path().join("process-1.jsonl"), text).unwrap();
            assert!(Capture::read(dir.path()).is_err(), "{text:?}");
        }
    }
}
