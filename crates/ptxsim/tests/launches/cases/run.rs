//! Launches a case, and compares what came of it with its annotations.

use super::expression::evaluate;
use super::source::{Case, Expected, Source};
use crate::common::*;
use model::{FindingEvent, MemoryPlace, TensorMap};
use ptxsim::*;
use regex::Regex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// A finding, fault or note of a launch.
#[derive(Debug)]
struct Found {
    is_note: bool,
    kind: String,
    lines: BTreeSet<u32>,
    message: String,
}

/// A buffer: `name: element[count] = values`.
struct Buffer<'a> {
    name: &'a str,
    element: &'a str,
    count: usize,
    at: u64,
}

/// Returns where a case is not as annotated.
pub fn problems(source: &Source, case: &Case) -> Vec<String> {
    let (found, mut problems) = run(source, case);
    let is_it = |expected: &Expected, found: &Found| {
        (expected.is_note, expected.kind, &expected.lines)
            == (found.is_note, found.kind.as_str(), &found.lines)
    };
    for expected in &case.expected {
        let mut alike = found
            .iter()
            .filter(|found| is_it(expected, found))
            .peekable();
        let is_found = alike.peek().is_some();
        let has_words = |found: &Found| {
            expected
                .says
                .iter()
                .all(|part| found.message.contains(part))
        };
        if !alike.any(has_words) {
            let why = if is_found { "other words" } else { "missing" };
            problems.push(format!("{why}: {expected:?}"));
        }
    }
    problems.extend(
        found
            .iter()
            .filter(|found| !case.expected.iter().any(|expected| is_it(expected, found)))
            .map(|found| format!("not annotated: {found:?}")),
    );
    problems
}

fn run(source: &Source, case: &Case) -> (Vec<Found>, Vec<String>) {
    let lines = Lines::new(&source.file_name, case.line);
    let module = match Module::load(&case.text).and_then(Module::complete) {
        Ok(module) => module,
        Err(error) => {
            let kind = match error {
                LoadError::Unsupported { .. } => "unsupported",
                LoadError::Parse(_) | LoadError::Invalid { .. } => "invalid",
            };
            return (
                vec![lines.found(false, kind, &error.to_string(), [&error.to_string()])],
                Vec::new(),
            );
        }
    };
    let kernel = match module.kernels() {
        [kernel] => kernel,
        _ => module.kernel(case.kernel).unwrap_or_else(|e| panic!("{e}")),
    };
    let mut memory = Memory::default();
    let mut buffers: Vec<Buffer> = Vec::new();
    for text in &case.keys.buffers {
        let buffer = Buffer::place(text, &buffers, &mut memory);
        buffers.push(buffer);
    }
    let mut alone_memory = memory.clone();
    let params = parameters(case, kernel, &buffers);
    let places: Vec<(u64, usize)> = buffers
        .iter()
        .map(|buffer| (buffer.at, buffer.bytes()))
        .collect();
    let of_threads = |threads| kept::Kept {
        text: &case.text,
        kernel,
        launch: shape(case),
        params: &params,
        buffers: &places,
        limits: Limits {
            threads,
            instructions: case.keys.instructions.unwrap_or(limits().instructions),
            ..limits()
        },
    };
    if case.is_first_of_kernel {
        kept::forget();
    }
    let (stem, _) = source.file_name.split_once('.').unwrap();
    kept::name_next(&format!("{stem}.{}", case.name));
    let result = of_threads(2).launch(&mut memory, None);
    let mut problems = Vec::new();
    let alone = of_threads(1).run(&mut alone_memory);
    if alone != result {
        problems.push(format!(
            "one thread and two differ: {alone:#?} and {result:#?}"
        ));
    }
    let found = match &result {
        Err(fault) => {
            vec![lines.found(false, &snake(fault.kind), &fault.message, [&fault.place.at])]
        }
        Ok(report) => {
            problems.extend(wrong_counts(case, report));
            problems.extend(wrong_values(case, &buffers, &memory));
            lines.all(case, report)
        }
    };
    (found, problems)
}

fn shape(case: &Case) -> Launch {
    let three = |extents: &[u32]| [0, 1, 2].map(|n| extents.get(n).copied().unwrap_or(1));
    let shape = &case.keys.launch;
    Launch {
        grid: three(&shape.grid),
        block: three(&shape.block),
        cluster: (!shape.cluster.is_empty()).then(|| three(&shape.cluster)),
        cooperative: shape.cooperative,
        dynamic_shared: shape.dynamic_shared,
    }
}

impl<'a> Buffer<'a> {
    fn place(text: &'a str, others: &[Buffer], memory: &mut Memory) -> Self {
        let (head, values) = text
            .split_once(" = ")
            .map_or((text, None), |(head, values)| (head, Some(values)));
        let (name, rest) = head.split_once(": ").expect("a buffer's name");
        let (element, count) = rest
            .trim()
            .trim_end_matches(']')
            .split_once('[')
            .expect("a type and a count");
        let mut buffer = Buffer {
            name,
            element,
            count: evaluate(count, 0) as usize,
            at: 0,
        };
        buffer.at = memory.alloc(name, buffer.bytes() as u64).unwrap();
        if let Some(values) = values {
            // Many cases have the same buffers.
            static BYTES: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
            let known = BYTES.lock().unwrap().get(text).cloned();
            let bytes = known.unwrap_or_else(|| {
                let values = match values.chars().next() {
                    Some('[' | '{') => serde_yaml::from_str(values).unwrap(),
                    _ => json!(values),
                };
                if let Value::Object(map) = &values {
                    return encoded(map, others);
                }
                (0..buffer.count)
                    .flat_map(|index| buffer.encode(&values, index))
                    .collect()
            });
            memory.write(buffer.at, &bytes).unwrap();
            BYTES.lock().unwrap().insert(text.to_owned(), bytes);
        }
        buffer
    }

    fn width(&self) -> usize {
        let bits: usize = self.element[1..].trim_start_matches("f").parse().unwrap();
        bits / 8
    }

    fn bytes(&self) -> usize {
        self.count * self.width()
    }

    /// Returns the bytes of an element, which an expression, a number, or a list that is repeated gives.
    fn encode(&self, values: &Value, index: usize) -> Vec<u8> {
        let value = match values {
            Value::Array(list) => &list[index % list.len()],
            value => value,
        };
        let whole = || match value {
            Value::String(text) => evaluate(text, index),
            value => i128::from(value.as_i64().unwrap_or_else(|| panic!("{value}"))),
        };
        let real = || value.as_f64().unwrap_or_else(|| whole() as f64);
        match self.element {
            "f16" => half::f16::from_f64(real()).to_le_bytes().to_vec(),
            "bf16" => half::bf16::from_f64(real()).to_le_bytes().to_vec(),
            "f32" => (real() as f32).to_le_bytes().to_vec(),
            "f64" => real().to_le_bytes().to_vec(),
            _ => whole().to_le_bytes()[..self.width()].to_vec(),
        }
    }
}

fn address(name: &Value, buffers: &[Buffer]) -> u64 {
    let buffer = buffers.iter().find(|buffer| *name == buffer.name);
    buffer.unwrap_or_else(|| panic!("no buffer {name}")).at
}

/// Returns the bytes of the kernel's parameters.
fn parameters(case: &Case, kernel: &Kernel, buffers: &[Buffer]) -> Vec<u8> {
    let all: Vec<Value> = buffers.iter().map(|buffer| json!(buffer.name)).collect();
    let mut bytes = vec![0; kernel.parameter_bytes() as usize];
    for ((at, size), arg) in kernel
        .parameters()
        .into_iter()
        .zip(case.keys.args.as_ref().unwrap_or(&all))
    {
        let value = match arg {
            Value::Number(number) => number.as_i64().unwrap().to_le_bytes().to_vec(),
            Value::Object(map) => encoded(map, buffers),
            name => address(name, buffers).to_le_bytes().to_vec(),
        };
        bytes[at as usize..][..size as usize].copy_from_slice(&value[..size as usize]);
    }
    bytes
}

/// Returns the bytes of a map. Its boxes lie densely in what it has, without a swizzle, if it does not say otherwise.
fn encoded(keys: &serde_json::Map<String, Value>, buffers: &[Buffer]) -> Vec<u8> {
    let mut keys = keys.clone();
    let at = address(&keys["map"], buffers);
    keys.remove("map");
    let dimensions = keys["extents"].as_array().unwrap().len();
    for (key, value) in [
        ("strides", json!([])),
        ("steps", json!(vec![1; dimensions])),
        ("swizzle", json!("none")),
        ("fills_nan", json!(false)),
    ] {
        keys.entry(key).or_insert(value);
    }
    if keys["boxes"].is_array() {
        keys["boxes"] = json!({"tiled": keys["boxes"]});
    }
    let map: TensorMap = serde_json::from_value(Value::Object(keys)).unwrap();
    encode_tensor_map(&map, at).unwrap().to_vec()
}

fn wrong_counts(case: &Case, report: &Report) -> Vec<String> {
    case.keys
        .counts
        .iter()
        .filter_map(|(name, wanted)| {
            let counter = Counter::ALL
                .into_iter()
                .find(|counter| counter.name() == name);
            let count = report
                .counters
                .get(counter.unwrap_or_else(|| panic!("no counter {name}")));
            (count != *wanted).then(|| format!("{name} is {count}, not {wanted}"))
        })
        .collect()
}

fn wrong_values(case: &Case, buffers: &[Buffer], memory: &Memory) -> Vec<String> {
    let Some(out) = &case.keys.out else {
        return Vec::new();
    };
    let wanted: Vec<(&str, &Value)> = match out {
        Value::Object(parts) => parts
            .iter()
            .map(|(part, values)| (part.as_str(), values))
            .collect(),
        values => vec![(buffers.last().unwrap().name, values)],
    };
    let wrong = |(part, values): (&str, &Value)| {
        let (name, range) = part.split_once('[').unwrap_or((part, ""));
        let buffer = buffers
            .iter()
            .find(|buffer| buffer.name == name)
            .unwrap_or_else(|| panic!("no buffer {name}"));
        let (from, to) = match range.trim_end_matches(']').split_once("..") {
            Some((from, to)) => (from.parse().unwrap(), to.parse().unwrap()),
            None if range.is_empty() => (0, buffer.count),
            None => {
                let index: usize = range.trim_end_matches(']').parse().unwrap();
                (index, index + 1)
            }
        };
        let product = values
            .get("product")
            .map(|_| product(values, buffers, memory));
        let values = product.as_ref().unwrap_or(values);
        if values.is_null() {
            let bytes = (to - from) * buffer.width();
            let at = buffer.at + (from * buffer.width()) as u64;
            let unwritten = memory.without_value(at, bytes).unwrap();
            let unwritten: usize = unwritten.into_iter().map(|range| range.len()).sum();
            return (unwritten != bytes).then(|| format!("something is written to {part}"));
        }
        let got = memory.read(buffer.at, buffer.bytes()).unwrap();
        let index = (from..to).find(|index| {
            // A list begins where its part does.
            let n = if values.is_array() {
                index - from
            } else {
                *index
            };
            got.chunks_exact(buffer.width()).nth(*index) != Some(&buffer.encode(values, n)[..])
        })?;
        let got = &got[index * buffer.width()..][..buffer.width()];
        Some(format!("{name}[{index}] is {got:02x?}, not of {values}"))
    };
    wanted.into_iter().filter_map(wrong).collect()
}

/// Returns the sums of `{product: [a, b], depth: k, times: n}`: of rows of `a`, k halves each, with rows of `b`.
fn product(values: &Value, buffers: &[Buffer], memory: &Memory) -> Value {
    let matrix = |n: usize| -> Vec<f64> {
        let name = &values["product"][n];
        let buffer = buffers.iter().find(|buffer| *name == buffer.name).unwrap();
        memory
            .read(buffer.at, buffer.bytes())
            .unwrap()
            .chunks_exact(2)
            .map(|half| half::f16::from_le_bytes([half[0], half[1]]).to_f64())
            .collect()
    };
    let depth = values["depth"].as_u64().unwrap() as usize;
    let times = values["times"].as_f64().unwrap_or(1.0);
    let (a, b) = (matrix(0), matrix(1));
    a.chunks_exact(depth)
        .flat_map(|row| b.chunks_exact(depth).map(move |column| (row, column)))
        .map(|(row, column)| times * row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>())
        .collect()
}

/// Finds the lines of a file in messages.
struct Lines {
    pattern: Regex,
    /// A place in the file with the calls by which it was inlined.
    callers: Regex,
    line_of_case: u32,
}

impl Lines {
    fn new(file_name: &str, line_of_case: u32) -> Self {
        let file_name = regex::escape(file_name);
        Lines {
            pattern: Regex::new(&format!(r"(?:PTX line |(?:^|[ /]){file_name}:)(\d+)")).unwrap(),
            callers: Regex::new(&format!(r"({file_name}:\d+)(?: inlined at \S+:\d+)+")).unwrap(),
            line_of_case,
        }
    }

    /// Returns a finding with the first line of the file in each place, or that of its case if there is none.
    fn found<'p>(
        &self,
        is_note: bool,
        kind: &str,
        message: &str,
        places: impl IntoIterator<Item = &'p String>,
    ) -> Found {
        let mut lines: BTreeSet<u32> = places
            .into_iter()
            .filter_map(|place| self.pattern.captures(place))
            .map(|found| found[1].parse().unwrap())
            .collect();
        if lines.is_empty() {
            lines.insert(self.line_of_case);
        }
        Found {
            is_note,
            kind: kind.to_owned(),
            lines,
            message: message.to_owned(),
        }
    }

    fn all(&self, case: &Case, report: &Report) -> Vec<Found> {
        let findings = report.findings.iter().map(|finding| {
            let places = finding.places.iter().map(|place| &place.at);
            self.found(
                false,
                &kind_of(finding),
                &wording::findings::sentence(finding),
                places,
            )
        });
        let notes = report.not_judged.iter().flat_map(|what| {
            let without_callers = self.callers.replace_all(what, "$1");
            let mut places: Vec<String> = self
                .pattern
                .find_iter(&without_callers)
                .map(|place| place.as_str().to_owned())
                .collect();
            if places.is_empty() {
                places.push(String::new());
            }
            places
                .into_iter()
                .map(|place| self.found(true, "not-judged", what, [&place]))
                .collect::<Vec<_>>()
        });
        findings
            .chain(notes)
            .chain(self.withheld(case, report))
            .collect()
    }

    /// Returns a note for each reason and line by which counters are withheld.
    fn withheld(&self, case: &Case, report: &Report) -> Vec<Found> {
        let mut reasons: Vec<(Doubt, &String)> = report
            .withheld
            .values()
            .map(|why| (why.doubt, &why.place))
            .collect();
        reasons.dedup();
        reasons.truncate(if case.keys.withheld { reasons.len() } else { 0 });
        reasons
            .into_iter()
            .map(|(doubt, place)| {
                let is_so = |why: &Withheld| (why.doubt, &why.place) == (doubt, place);
                let counters: Vec<&str> = report
                    .withheld
                    .iter()
                    .filter(|(_, why)| is_so(why))
                    .map(|(counter, _)| counter.name())
                    .collect();
                let kind = format!("withheld-{}", doubt.name());
                self.found(true, &kind, &format!("({})", counters.join(" ")), [place])
            })
            .collect()
    }
}

/// Returns the kind of a finding, for a value that nothing wrote with the memory that it is from.
fn kind_of(finding: &Finding) -> String {
    let kind = snake(finding.kind);
    if finding.kind != FindingKind::Uninitialised {
        return kind;
    }
    let memory = match &finding.event {
        FindingEvent::Unwritten { memory, .. } => memory,
        event => panic!("{event:?}"),
    };
    let name = match memory {
        MemoryPlace::Shared(_) | MemoryPlace::Distributed { .. } => "shared",
        MemoryPlace::Local(_) => "local",
        MemoryPlace::Buffer { .. } => "global",
    };
    format!("{kind}_{name}")
}

/// Returns the name of a kind as cases write it: `shared_race` for `SharedRace`.
fn snake(kind: impl std::fmt::Debug) -> String {
    let mut snake = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}
