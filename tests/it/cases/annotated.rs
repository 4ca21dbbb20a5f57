//! Sources that say on their own lines what the simulator has to find. Every kernel of a file becomes one of a
//! gates.yaml, is simulated with two seeds, and must have exactly the findings of its annotations:
//!
//! ```text
//! //@ launch: {grid: [2], block: [64]}
//! extern "C" __global__ void exchanged(const float* x, float* y, int n) {
//!   __shared__ float s[64];
//!   s[threadIdx.x] = x[i];       // = stored
//!   y[i] = s[threadIdx.x ^ 32];  // ~ shared_race with stored
//! }
//! ```
//!
//! - `//@ key: value` is a key of gates.yaml. Before the first kernel it is for all of them, between two for the next
//!   one. What is not given is a copy of 256 numbers from `x` to `y` by four blocks of 64 threads ([`DEFAULTS`]).
//!   `//@ top: key: value` is a key of the whole gates.yaml. References of one's own are in a file of the same name, `.cpp`.
//! - `// ~ kind`: a finding, or the fault that stops the kernel, of this kind and on this line. `with label` names its
//!   other line, which ends in `// = label`. Several are separated by commas.
//! - `// ~ note kind`: the same, and the kernel passes. `not-judged` is what the simulator could not check there, and
//!   `unsupported` what keeps it from running the kernel at all. Without an annotation a kernel passes and nothing is found.
//! - `// ! code code` on the line of a kernel: the codes of all its verdicts that fail or do not decide.

#[path = "../../../crates/ptxsim/tests/launches/common/annotations.rs"]
mod annotations;

use self::annotations::{annotations, numbered};
use super::name_of;
use crate::common::{self, broken_codes, stderr, stdout};
use model::{Evidence, Fault, FaultSite, Place, Seen};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A kind of finding, with the lines that it is about.
type Found = (String, BTreeSet<u32>);

/// The keys of a kernel whose file does not set them.
const DEFAULTS: &str = r#"{
  "seeds": 2,
  "tensors": {"x": {"type": "f32", "shape": [256]}, "y": {"role": "out", "type": "f32", "shape": [256]}},
  "args": [{"tensor": "x"}, {"tensor": "y"}, {"i32": 256}],
  "launch": {"grid": [4], "block": [64]},
  "reference": {"unary": {"x": "x", "out": "y", "op": "copy"}},
  "gates": {"max_err": 0}
}"#;

pub fn find() -> Vec<PathBuf> {
    super::find(|path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("cu" | "ptx")) && super::is_wanted(&name_of(path))
    })
}

/// Simulates a file, and returns how it differs from its annotations.
pub fn hold(file: &Path) -> Result<(), String> {
    let name = name_of(file);
    let text = std::fs::read_to_string(file).unwrap();
    let source = Source::read(&text, file.extension().unwrap() == "ptx");
    let dir = tempfile::tempdir().unwrap();
    let source_name = file.file_name().unwrap().to_str().unwrap();
    std::fs::write(dir.path().join(source_name), &text).unwrap();
    let reference = file.with_extension("cpp");
    if reference.exists() {
        std::fs::copy(&reference, dir.path().join(reference.file_name().unwrap())).unwrap();
    }
    std::fs::write(dir.path().join("gates.yaml"), source.gates(source_name)).unwrap();

    let output = common::gatekeeper()
        .current_dir(dir.path())
        .args(["run", "--device", "sim"])
        .output()
        .unwrap();
    let said = format!(
        "--- stdout\n{}\n--- stderr\n{}",
        stdout(&output),
        stderr(&output)
    );
    if !matches!(output.status.code(), Some(0 | 1 | 3)) {
        return Err(format!("{name}: {}\n{said}", output.status));
    }
    let found = found(&dir.path().join(common::RECORD), source_name);
    let mut problems: Vec<String> = source
        .kernels
        .iter()
        .filter_map(|kernel| {
            let found = found.get(&kernel.name).cloned().unwrap_or_default();
            kernel.problem(&found, &broken_codes(dir.path(), Some(&kernel.name)))
        })
        .collect();
    if !common::is_judged_alike(dir.path(), output.status.code()) {
        problems.push("its record is judged differently".to_owned());
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("{name}:\n{}\n{said}", problems.join("\n")))
}

struct Source {
    top: Map<String, Value>,
    kernels: Vec<Kernel>,
}

struct Kernel {
    name: String,
    keys: Map<String, Value>,
    expected: BTreeSet<Found>,
    passes: bool,
    codes: Option<Vec<String>>,
}

impl Source {
    /// Reads the annotations. A line belongs to the kernel whose head is the last one before it.
    fn read(text: &str, is_ptx: bool) -> Self {
        let labels = annotations::labels(numbered(text));
        let head = regex::Regex::new(if is_ptx {
            r"^\s*(?:\.visible\s+)?\.entry\s+(\w+)"
        } else {
            r#"^\s*extern "C" __global__ .*?\b(\w+)\("#
        })
        .unwrap();
        let mut top = Map::new();
        let mut common_keys = defaults();
        let mut own_keys = Map::new();
        let mut kernels: Vec<Kernel> = Vec::new();
        for (number, line) in numbered(text) {
            if let Some((_, setting)) = line.split_once("//@ ") {
                let keys = match (setting.strip_prefix("top: "), kernels.is_empty()) {
                    (Some(_), _) => &mut top,
                    (None, true) => &mut common_keys,
                    (None, false) => &mut own_keys,
                };
                let setting = setting.strip_prefix("top: ").unwrap_or(setting);
                let (key, value) = setting.split_once(": ").unwrap();
                keys.insert(key.to_owned(), serde_yaml::from_str(value).unwrap());
            }
            if let Some(name) = head.captures(line) {
                let mut keys = common_keys.clone();
                keys.append(&mut own_keys);
                kernels.push(Kernel {
                    name: name[1].to_owned(),
                    keys,
                    expected: BTreeSet::new(),
                    passes: true,
                    codes: None,
                });
            }
            let Some(kernel) = kernels.last_mut() else {
                continue;
            };
            if let Some((_, codes)) = line.split_once("// ! ") {
                let mut codes: Vec<String> = codes.split_whitespace().map(str::to_owned).collect();
                codes.sort();
                kernel.codes = Some(codes);
                kernel.passes = false;
            }
            for annotation in annotations(line) {
                let for_all = annotation.cases.is_empty() && annotation.says.is_empty();
                assert!(for_all, "cases and messages are of ptxsim's files: {line}");
                kernel.passes &= annotation.is_note;
                let mut lines = BTreeSet::from([number]);
                lines.extend(annotation.label.map(|label| labels[label]));
                kernel.expected.insert((annotation.kind.to_owned(), lines));
            }
        }
        assert!(!kernels.is_empty(), "no kernel:\n{text}");
        Self { top, kernels }
    }

    fn gates(&self, source: &str) -> String {
        let kernels: Map<String, Value> = self
            .kernels
            .iter()
            .map(|kernel| {
                let mut keys = kernel.keys.clone();
                keys.insert("source".to_owned(), json!(source));
                keys.insert("entry".to_owned(), json!(kernel.name));
                (kernel.name.clone(), Value::Object(keys))
            })
            .collect();
        let mut top = json!({"architectures": ["sm_90"]});
        let keys = top.as_object_mut().unwrap();
        keys.append(&mut self.top.clone());
        keys.insert("kernels".to_owned(), Value::Object(kernels));
        format!(
            "version: 1\n{}",
            keys.iter()
                .map(|(key, value)| format!("{key}: {value}\n"))
                .collect::<String>()
        )
    }
}

impl Kernel {
    /// Returns the differences from the annotations, if there are any.
    fn problem(&self, found: &BTreeSet<Found>, broken: &[String]) -> Option<String> {
        let as_annotated = *found == self.expected && broken.is_empty() == self.passes;
        let codes_hold = self.codes.as_ref().is_none_or(|codes| codes == broken);
        (!as_annotated || !codes_hold).then(|| {
            format!(
                "{}: found {found:?}, broken: {broken:?}\n  expected {:?}, codes: {:?}, to pass: {}",
                self.name, self.expected, self.codes, self.passes
            )
        })
    }
}

fn defaults() -> Map<String, Value> {
    serde_json::from_str(DEFAULTS).unwrap()
}

/// Returns the findings and faults of each kernel of a record, each once.
fn found(record: &Path, source: &str) -> BTreeMap<String, BTreeSet<Found>> {
    let record = records::store::read_record(record).unwrap();
    let mut found: BTreeMap<String, BTreeSet<Found>> = BTreeMap::new();
    for piece in &record.evidence {
        let Evidence::Simulation { case, facts, .. } = piece else {
            continue;
        };
        let of_kernel = found.entry(case.kernel.to_string()).or_default();
        match facts {
            Seen::Got(facts) => {
                of_kernel.extend(facts.findings.iter().map(|finding| {
                    let lines = finding
                        .places
                        .iter()
                        .filter_map(|place| line_of(place, source))
                        .collect();
                    (finding.kind.name().to_owned(), lines)
                }));
                of_kernel.extend(
                    facts
                        .not_judged
                        .iter()
                        .flat_map(|what| named("not-judged", what)),
                );
            }
            Seen::Fault(fault) => {
                of_kernel.insert((fault.kind.code().to_owned(), lines_of(fault, source)));
            }
            Seen::Unsupported(why) => of_kernel.extend(named("unsupported", &format!("{why:?}"))),
            Seen::NotRun(_) => {}
        }
    }
    found
}

/// Returns a finding of this kind for each of the file's lines that a text names, or one without a line.
fn named(kind: &str, text: &str) -> Vec<Found> {
    let lines_by = |pattern: &str| -> Vec<BTreeSet<u32>> {
        regex::Regex::new(pattern)
            .unwrap()
            .captures_iter(text)
            .map(|found| BTreeSet::from([found[1].parse().unwrap()]))
            .collect()
    };
    let mut lines = lines_by(r"\.(?:cu|ptx):(\d+)");
    if lines.is_empty() {
        lines = lines_by(r"PTX line (\d+)");
    }
    if lines.is_empty() {
        lines.push(BTreeSet::new());
    }
    lines
        .into_iter()
        .map(|lines| (kind.to_owned(), lines))
        .collect()
}

fn lines_of(fault: &Fault, source: &str) -> BTreeSet<u32> {
    match fault.site.as_deref() {
        Some(FaultSite::Launch(site)) => line_of(&site.place, source).into_iter().collect(),
        Some(FaultSite::Source(line)) => BTreeSet::from([line.number]),
        None => BTreeSet::new(),
    }
}

/// Returns the line in the case's own file. If the place is in a function of a header, that is the line of the call.
fn line_of(place: &Place, source: &str) -> Option<u32> {
    let line = place.line.as_ref()?;
    if line.file == source {
        return Some(line.number);
    }
    let (_, after) = place.at.split_once(&format!("{source}:"))?;
    let digits = after.split(|other: char| !other.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// A requested finding must be found, and a finding must be requested.
#[test]
fn a_kernel_that_is_not_as_annotated_is_a_problem() {
    let text = "extern \"C\" __global__ void k() {\n  s = 1; // = stored\n  s; // ~ shared_race with stored\n}";
    let source = Source::read(text, false);
    let kernel = &source.kernels[0];
    let race = |lines: &[u32]| {
        let lines = lines.iter().copied().collect();
        BTreeSet::from([("shared_race".to_owned(), lines)])
    };
    let broken = ["findings".to_owned()];
    assert_eq!(kernel.problem(&race(&[2, 3]), &broken), None);
    assert!(kernel.problem(&race(&[3]), &broken).is_some());
    assert!(kernel.problem(&race(&[2, 3]), &[]).is_some());
    assert!(kernel.problem(&BTreeSet::new(), &broken).is_some());
}
