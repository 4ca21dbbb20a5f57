//! Launches as files for a GPU: `KEEP_LAUNCHES=directory cargo test --test launches` writes each that comes by here, with
//! what the simulator said of it, and `dev/proof/launcher.cu` runs them.

use model::Boxes;
use ptxsim::*;
use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

/// How an output is compared with the one that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    Bytes,
    /// The numbers that may differ by 4e-3.
    F32,
    F16,
}

pub struct Wanted<'a> {
    pub at: u64,
    pub bytes: &'a [u8],
    pub compared: Compared,
}

/// A launch, and all buffers that it is given: where they lie and their bytes.
pub struct Kept<'a> {
    /// The PTX that `kernel` comes from.
    pub text: &'a str,
    pub kernel: &'a Kernel,
    pub launch: Launch,
    pub params: &'a [u8],
    pub buffers: &'a [(u64, usize)],
    pub limits: Limits,
}

thread_local! {
    /// The launches of this test, or of this kernel of a file, so far, and the memory that the last one without a finding left.
    static BEFORE: RefCell<(u32, Vec<u8>)> = const { RefCell::new((0, Vec::new())) };
    /// The name of the next launch, where it does not get that of its test and a number.
    static NAME: RefCell<Option<String>> = const { RefCell::new(None) };
}

pub fn name_next(name: &str) {
    NAME.set(Some(name.to_owned()));
}

/// Begins another kernel: what the last one left is not wanted of it.
pub fn forget() {
    BEFORE.set((0, Vec::new()));
}

/// Returns what follows `begin` in the names of launches that a GPU has counted.
pub fn names_of_readings(begin: &str) -> impl Iterator<Item = &'static str> {
    readings()
        .into_iter()
        .filter_map(move |(name, _)| name.strip_prefix(begin))
}

/// Returns the readings of ncu on a GPU: for each launch, the counts of some counters.
fn readings() -> Vec<(&'static str, Vec<(Counter, u64)>)> {
    let mut lines = include_str!("../../fixtures/counts.tsv").lines();
    let head = lines.next().unwrap().split('\t').skip(1);
    let named = |name| {
        Counter::ALL
            .into_iter()
            .find(|counter| counter.name() == name)
            .unwrap()
    };
    let counters: Vec<Counter> = head.map(named).collect();
    let row = |line: &'static str| {
        let mut fields = line.split('\t');
        let name = fields.next().unwrap();
        let counts = fields.map(|field| field.parse().unwrap());
        (name, counters.iter().copied().zip(counts).collect())
    };
    lines.map(row).collect()
}

/// Returns the counters that a gate may rest on and that differ from what a GPU counted, with both counts.
fn differences(report: &Report, read: &[(Counter, u64)]) -> Vec<(Counter, u64, u64)> {
    read.iter()
        .filter(|(counter, _)| !report.withheld.contains_key(counter))
        .map(|(counter, read)| (*counter, report.counters.get(*counter), *read))
        .filter(|(_, count, read)| count != read)
        .collect()
}

/// Asserts that a launch has the counts that a GPU counted of it, and that one reading more would differ.
fn hold(name: &str, report: &Report) {
    let all = readings();
    let Some((_, read)) = all.iter().find(|(known, _)| *known == name) else {
        return;
    };
    assert_eq!(differences(report, read), [], "{name}");
    let more: Vec<_> = read
        .iter()
        .map(|(counter, count)| (*counter, count + 1))
        .collect();
    let held = |pair: &&(Counter, u64)| !report.withheld.contains_key(&pair.0);
    assert_eq!(
        differences(report, &more).len(),
        more.iter().filter(held).count()
    );
}

impl Kept<'_> {
    /// Launches the kernel. Without an output that is `wanted`, a launch wants that of the last one of the same test,
    /// or kernel, that was right and had as many bytes.
    pub fn launch(&self, memory: &mut Memory, wanted: Option<Wanted>) -> Result<Report, Fault> {
        let name = NAME.take();
        let Some(directory) = std::env::var_os("KEEP_LAUNCHES").map(PathBuf::from) else {
            let result = self.run(memory);
            if let (Some(name), Ok(report)) = (name, &result) {
                hold(&name, report);
            }
            return result;
        };
        std::fs::create_dir_all(&directory).unwrap();
        let mut text = String::new();
        let mut data = Vec::new();
        self.describe(memory, &directory, &mut text, &mut data);
        let result = self.run(memory);
        let (number, left) = BEFORE.take();
        let said = match &result {
            Ok(report) => match report.findings.first() {
                None => "nothing".to_owned(),
                Some(first) => format!(
                    "{:?}\nmessage {}",
                    first.kind,
                    wording::findings::sentence(first)
                ),
            },
            Err(fault) => format!("{:?}\nmessage {}", fault.kind, fault.message),
        };
        let now: Vec<u8> = self
            .buffers
            .iter()
            .flat_map(|(at, bytes)| memory.read(*at, *bytes).unwrap().to_vec())
            .collect();
        let mut want = |at: u64, bytes: &[u8], compared: Compared| {
            writeln!(
                text,
                "want {at} {} {compared:?} {}",
                bytes.len(),
                data.len()
            )
            .unwrap();
            data.extend(bytes);
        };
        let right = said == "nothing";
        match &wanted {
            Some(expected) => want(expected.at, expected.bytes, expected.compared),
            None => {
                let from = if right { &now } else { &left };
                let mut rest = &from[..];
                for (at, bytes) in self.buffers.iter().filter(|_| from.len() == now.len()) {
                    let (these, others) = rest.split_at(*bytes);
                    want(*at, these, Compared::Bytes);
                    rest = others;
                }
            }
        }
        BEFORE.set((number + 1, if right { now } else { left }));
        let name = name.unwrap_or_else(|| {
            let test = std::thread::current().name().unwrap().replace("::", ".");
            format!("{test}-{number:02}")
        });
        writeln!(text, "said {said}").unwrap();
        if let Ok(report) = &result {
            for counter in Counter::ALL {
                let doubt = report
                    .withheld
                    .get(&counter)
                    .map_or("", |withheld| withheld.doubt.name());
                let count = report.counters.get(counter);
                writeln!(text, "counter {} {count} {doubt}", counter.name()).unwrap();
            }
        }
        std::fs::write(directory.join(format!("{name}.launch")), text).unwrap();
        std::fs::write(directory.join(format!("{name}.bin")), data).unwrap();
        result
    }

    /// Runs the launch without keeping it for a GPU.
    pub fn run(&self, memory: &mut Memory) -> Result<Report, Fault> {
        launch_as(self.kernel, &self.launch, self.params, memory, self.limits)
    }

    fn describe(&self, memory: &Memory, directory: &Path, text: &mut String, data: &mut Vec<u8>) {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        let file = format!("{:016x}", hasher.finish());
        std::fs::write(directory.join(format!("{file}.ptx")), self.text).unwrap();
        let Launch {
            grid,
            block,
            cluster,
            dynamic_shared,
            ..
        } = &self.launch;
        let three = |n: &[u32; 3]| format!("{} {} {}", n[0], n[1], n[2]);
        writeln!(text, "module {file}\nentry {}", self.kernel.name()).unwrap();
        let cluster = three(&cluster.unwrap_or_default());
        writeln!(text, "grid {}\nblock {}", three(grid), three(block)).unwrap();
        writeln!(text, "cluster {cluster}\nshared {dynamic_shared}").unwrap();
        for (at, bytes) in self.buffers {
            let known = memory.without_value(*at, *bytes).unwrap().is_empty();
            let from = if known { data.len() as i64 } else { -1 };
            writeln!(text, "buffer {at} {bytes} {from}").unwrap();
            if known {
                data.extend(memory.read(*at, *bytes).unwrap());
            }
        }
        for (at, bytes) in self.kernel.parameters() {
            let value = &self.params[at as usize..(at + bytes) as usize];
            if let Some((map, address)) = decode_tensor_map(value) {
                let list = |numbers: &[u64]| -> String {
                    numbers.iter().map(|n| format!(" {n}")).collect()
                };
                let short = |numbers: &[u32]| -> Vec<u64> {
                    numbers.iter().map(|n| u64::from(*n)).collect()
                };
                let corner = |numbers: &[i32]| -> String {
                    numbers.iter().map(|n| format!(" {n}")).collect()
                };
                let list_of_boxes = |boxes: &Boxes| match boxes {
                    Boxes::Tiled(extents) => list(&short(extents)),
                    Boxes::Im2col(boxes) => format!(
                        " im2col{}{} {} {}",
                        corner(&boxes.lower),
                        corner(&boxes.upper),
                        boxes.channels,
                        boxes.pixels
                    ),
                };
                writeln!(
                    text,
                    "map {at} {address} {:?} {:?} {} {}{}{}{}{}",
                    map.element,
                    map.swizzle,
                    u8::from(map.fills_nan),
                    map.extents.len(),
                    list(&map.extents),
                    list(&map.strides),
                    list_of_boxes(&map.boxes),
                    list(&short(&map.steps)),
                )
                .unwrap();
                continue;
            }
            let number = value
                .iter()
                .rev()
                .fold(0, |n: u128, b| n << 8 | u128::from(*b));
            let inside = |(from, n): &&(u64, usize)| {
                (u128::from(*from)..u128::from(*from) + *n as u128).contains(&number)
            };
            match self.buffers.iter().find(inside).filter(|_| bytes == 8) {
                Some(_) => writeln!(text, "pointer {at} {number}").unwrap(),
                None => {
                    let hex: String = value.iter().map(|b| format!("{b:02x}")).collect();
                    writeln!(text, "value {at} {bytes} {hex}").unwrap();
                }
            }
        }
    }
}
