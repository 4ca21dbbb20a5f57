//! Explains how gates.yaml resolves for one case, each part with the line that says it. Pure.

use config::{Owner, Places};
use model::{
    Arg, Baseline, Case, CaseId, Determinism, Expected, Facet, Fallback, Gate, Image, ImageMemory,
    Limit, MemoryStep, Plan, Reference, Rule, Sampler, ScalarValue, Subject, Tensor,
    TextureAddress, TextureFilter, TextureRead, Unit,
};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;
use wording::words;

/// Everything that an explanation needs to know.
pub struct CaseContext<'a> {
    pub plan: &'a Plan,
    pub gates: &'a [Gate],
    pub places: &'a Places,
    pub baselines: &'a [Baseline],
    /// Returns the command that compiles a unit.
    pub command: &'a dyn Fn(&Unit) -> String,
}

pub const SCHEMA: &str = "gatekeeper.case/1";

/// The resolution of each case of the plan.
#[derive(Serialize)]
pub struct Explained<'a> {
    schema: &'static str,
    cases: Vec<OfCase<'a>>,
}

#[derive(Serialize)]
struct OfCase<'a> {
    case: &'a Case,
    builds: Vec<Build<'a>>,
    steps: Vec<OfStep>,
    tensors: Vec<Said<String>>,
    shape: Said<()>,
    seeds: Said<()>,
    reference: Said<()>,
    launches: Said<()>,
    deadline: Said<()>,
    gates: Vec<OfGate<'a>>,
    expected: Option<&'a Expected>,
    fallback: Option<&'a Fallback>,
}

#[derive(Serialize)]
struct Build<'a> {
    unit: &'a Unit,
    command: String,
}

/// Something with the line that says it, or `None` if it is the default.
#[derive(Serialize)]
struct Said<T> {
    what: T,
    declared: Option<String>,
}

#[derive(Serialize)]
struct OfStep {
    entry: String,
    launch: Option<String>,
    arguments: Vec<Option<String>>,
}

#[derive(Serialize)]
struct OfGate<'a> {
    gate: String,
    rule: &'a Rule,
    /// `None` for a gate that every kernel has.
    declared: Option<&'a String>,
    /// The keys of the baselines that a limit is compared with.
    baselines: Option<Vec<String>>,
}

pub fn explain<'a>(source: &CaseContext<'a>) -> Explained<'a> {
    let cases = source.plan.cases.iter();
    Explained {
        schema: SCHEMA,
        cases: cases.map(|case| explain_case(source, case)).collect(),
    }
}

fn explain_case<'a>(source: &CaseContext<'a>, case: &'a Case) -> OfCase<'a> {
    let id = &case.id;
    let places = source.places;
    let owner = Owner {
        kernel: &id.kernel,
        variant: &id.variant,
    };
    let key = |path: &[&str]| Said {
        what: (),
        declared: places.key(owner, path),
    };
    let units: Vec<&Unit> = source
        .plan
        .units
        .iter()
        .filter(|unit| (&unit.id.kernel, &unit.id.variant) == (&id.kernel, &id.variant))
        .collect();
    let names = units
        .first()
        .map_or_else(Vec::new, |unit| unit.call.names());
    let steps = case
        .steps
        .iter()
        .zip(case.choose(&names).into_iter().cloned())
        .enumerate()
        .map(|(number, (step, entry))| OfStep {
            entry,
            launch: places.step_key(owner, number, &["launch"], None),
            arguments: (0..step.args.len())
                .map(|at| places.step_key(owner, number, &["args"], Some(at)))
                .collect(),
        });
    let gates = source.gates.iter().filter(|gate| is_of(&gate.subject, id));
    OfCase {
        case,
        steps: steps.collect(),
        builds: units
            .into_iter()
            .map(|unit| Build {
                unit,
                command: (source.command)(unit),
            })
            .collect(),
        tensors: case
            .tensors
            .iter()
            .map(|tensor| Said {
                what: tensor.name.clone(),
                declared: places.key(owner, &["tensors", &tensor.name]),
            })
            .collect(),
        shape: key(&["shapes", &id.shape]),
        seeds: key(&["seeds"]),
        reference: key(&["reference"]),
        launches: key(&["launches"]),
        deadline: key(&["deadline"]),
        gates: gates
            .map(|gate| OfGate {
                gate: words::gate(&gate.rule),
                rule: &gate.rule,
                declared: gate.declared.as_ref(),
                baselines: facet(&gate.rule).map(|facet| keys(source.baselines, id, facet)),
            })
            .collect(),
        expected: source.plan.expected(&id.kernel, &id.variant),
        fallback: source.plan.fallback(&id.kernel, &id.variant),
    }
}

fn is_of(subject: &Subject, case: &CaseId) -> bool {
    match subject {
        Subject::Case(id) => id == case,
        Subject::Unit(unit) => (&unit.kernel, &unit.variant) == (&case.kernel, &case.variant),
    }
}

/// Returns the facet of the baselines that a rule is compared with.
fn facet(rule: &Rule) -> Option<Facet> {
    match rule {
        Rule::Counters { .. } => Some(Facet::Counters),
        Rule::Limit {
            metric,
            limit: Limit::Baseline { .. },
        } => Some(metric.facet()),
        _ => None,
    }
}

fn keys(baselines: &[Baseline], case: &CaseId, facet: Facet) -> Vec<String> {
    baselines
        .iter()
        .filter(|baseline| {
            (&baseline.kernel, &baseline.variant) == (&case.kernel, &case.variant)
                && baseline.key.facet() == facet
        })
        .map(|baseline| words::key(&baseline.key))
        .collect()
}

const ALWAYS: &str = "always";
const DEFAULT: &str = "default";

/// Renders an explanation as text that people read.
pub fn text(explained: &Explained) -> String {
    let cases: Vec<String> = explained.cases.iter().map(text_of_case).collect();
    cases.join("\n")
}

fn text_of_case(of: &OfCase) -> String {
    let case = of.case;
    let mut text = format!("{}\n", case.id);
    let by = |said: &Option<String>| said.clone().unwrap_or_else(|| DEFAULT.to_owned());
    for build in &of.builds {
        let _ = write!(
            text,
            "\nbuild {}\n  {}\n",
            build.unit.id.arch, build.command
        );
    }
    let mut rows = Vec::new();
    for (step, said) in case.steps.iter().zip(&of.steps) {
        around(&mut text, &step.before);
        let _ = write!(text, "\ncall {}\n", said.entry);
        if let Some(launch) = &step.launch {
            let extents = |of: [u32; 3]| of.map(|of_case| of_case.to_string()).join(" x ");
            let mut what = format!(
                "grid {}, block {}",
                extents(launch.grid),
                extents(launch.block)
            );
            if let Some(cluster) = launch.cluster {
                let _ = write!(what, ", cluster {}", extents(cluster));
            }
            if launch.cooperative {
                what.push_str(", cooperative");
            }
            let _ = write!(
                what,
                ", {} B of dynamic shared memory",
                launch.dynamic_shared
            );
            rows.push((what, by(&said.launch)));
        }
        for (at, arg) in step.args.iter().enumerate() {
            let declared = said.arguments.get(at).cloned().flatten();
            rows.push((format!("{}  {}", at + 1, argument(arg)), by(&declared)));
        }
        table(&mut text, &mut rows);
        around(&mut text, &step.after);
    }
    if !case.tensors.is_empty() {
        text.push_str("\ntensors\n");
    }
    for (tensor, said) in case.tensors.iter().zip(&of.tensors) {
        rows.push((describe_tensor(tensor), by(&said.declared)));
    }
    table(&mut text, &mut rows);
    let dims: Vec<String> = case
        .dims
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let seeds: Vec<String> = case.seeds.iter().map(u64::to_string).collect();
    text.push_str("\ncheck\n");
    rows.push((
        format!("shape {}: {}", case.id.shape, dims.join(", ")),
        by(&of.shape.declared),
    ));
    rows.push((
        format!("seeds {}", seeds.join(", ")),
        by(&of.seeds.declared),
    ));
    let reference = match &case.reference {
        Reference::NoOutput => "no output: nothing is compared with a reference".to_owned(),
        Reference::Captured { .. } => "what the captured launch left in memory".to_owned(),
        reference => format!("reference {}", flow(reference)),
    };
    rows.push((reference, by(&of.reference.declared)));
    let repeats = match &case.determinism {
        Determinism::BitExact => "bit for bit the same".to_owned(),
        Determinism::Declared { reason } => format!("which may differ: {reason}"),
    };
    rows.push((
        format!("{} launches, {repeats}", case.launches),
        by(&of.launches.declared),
    ));
    rows.push((
        format!("deadline {} s", case.deadline_ms as f64 / 1000.0),
        by(&of.deadline.declared),
    ));
    table(&mut text, &mut rows);
    text.push_str("\ngates\n");
    for gate in &of.gates {
        let held = match gate.baselines.as_deref() {
            None => String::new(),
            Some([]) => ", no baseline yet".to_owned(),
            Some(keys) => format!(", baseline of {}", keys.join("; ")),
        };
        let declared = gate.declared.map_or(ALWAYS, String::as_str);
        let row = (gate.gate.clone(), format!("{declared}{held}"));
        // Gates of several architectures have the same row.
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    table(&mut text, &mut rows);
    if let Some(expected) = of.expected {
        let _ = write!(
            text,
            "\nexpected to fail by {}    {}\n",
            words::any_of(&expected.gates),
            expected.declared
        );
    }
    if let Some(fallback) = of.fallback {
        let _ = write!(
            text,
            "\nfalls back on {}    {}\n",
            fallback.to, fallback.declared
        );
    }
    text
}

/// Writes what happens to memory between two launches.
fn around(text: &mut String, steps: &[MemoryStep]) {
    for step in steps {
        let _ = match step {
            MemoryStep::Memset { tensor, value } => {
                write!(text, "\nmemset every byte of {tensor} to {value}\n")
            }
            MemoryStep::Copy { from, to } => write!(text, "\ncopy {from} to {to}\n"),
        };
    }
}

/// The greatest width of a column. Longer text moves the text next to it.
const WIDE: usize = 72;

fn table(text: &mut String, rows: &mut Vec<(String, String)>) {
    let width = rows
        .iter()
        .map(|(left, _)| left.chars().count())
        .filter(|width| *width <= WIDE)
        .max()
        .unwrap_or_default();
    for (left, right) in rows.drain(..) {
        let _ = writeln!(text, "  {left:width$}  {right}");
    }
}

fn argument(arg: &Arg) -> String {
    match arg {
        Arg::Tensor { name } => format!("tensor {name}"),
        Arg::Scales { tensor } => format!("scales of {tensor}, f32"),
        Arg::ZeroPoints { tensor } => format!("zero points of {tensor}, i32"),
        Arg::Bytes { tensor } => format!("bytes of {tensor}"),
        Arg::Texture {
            tensor,
            image,
            sampler,
        } => format!(
            "texture of {tensor}, {}, {}",
            describe_image(image),
            describe_sampler(sampler)
        ),
        Arg::Surface { tensor, image } => format!("surface of {tensor}, {}", describe_image(image)),
        Arg::Null => "nullptr".to_owned(),
        Arg::Stream => "stream".to_owned(),
        Arg::Scalar { elem, value } => {
            let value = match value {
                ScalarValue::Int(value) => value.to_string(),
                ScalarValue::Float(value) => value.0.to_string(),
            };
            format!("{} {value}", elem.name())
        }
        Arg::Struct { fields } => {
            let fields: Vec<String> = fields.iter().map(argument).collect();
            format!("struct {{{}}}", fields.join(", "))
        }
        Arg::Pad { bytes } => format!("pad {bytes}"),
        Arg::TensorMap { tensor, .. } => format!("tensor map of {tensor}"),
        Arg::Raw { bytes } => format!("0x{bytes}"),
    }
}

fn describe_image(image: &Image) -> String {
    let [x, y, z] = image.extents;
    let extents = match image.rank {
        1 => x.to_string(),
        2 => format!("{x} x {y}"),
        _ => format!("{x} x {y} x {z}"),
    };
    let layers = image.layers.map(|layers| format!(", {layers} layers"));
    let linear = match image.memory {
        ImageMemory::Array => "",
        ImageMemory::Linear => ", linear",
    };
    format!(
        "{extents} of {} {}{}{linear}",
        image.channels,
        image.elem.name(),
        layers.unwrap_or_default()
    )
}

fn describe_sampler(sampler: &Sampler) -> String {
    let filter = match sampler.filter {
        TextureFilter::Point => "point",
        TextureFilter::Linear => "linear",
    };
    let address = match sampler.address {
        TextureAddress::Clamp => "clamp",
        TextureAddress::Border => "border",
        TextureAddress::Wrap => "wrap",
        TextureAddress::Mirror => "mirror",
    };
    let normalized = if sampler.normalized {
        ", normalised"
    } else {
        ""
    };
    let read = match sampler.read {
        TextureRead::Element => "",
        TextureRead::NormalizedFloat => ", read as floats",
    };
    format!("{filter}, {address}{normalized}{read}")
}

fn describe_tensor(tensor: &Tensor) -> String {
    let mut text = format!(
        "{}: {} {} {:?}",
        tensor.name,
        flow(&tensor.role),
        flow(&tensor.elem),
        tensor.dims
    );
    if let Some(strides) = &tensor.strides {
        let _ = write!(text, ", strides {strides:?}");
    }
    if tensor.offset > 0 {
        let _ = write!(text, ", offset {}", tensor.offset);
    }
    if let Some(fill) = &tensor.fill {
        let _ = write!(text, ", {}", flow(fill));
    }
    if let Some(codec) = &tensor.codec {
        let _ = write!(text, ", codec {}", flow(codec));
    }
    if let Some(compare) = &tensor.compare {
        let _ = write!(text, ", compared {}", flow(compare));
    }
    text
}

/// Returns a value as gates.yaml would have it in one line.
fn flow<T: Serialize>(value: &T) -> String {
    fn write_value(value: &Value, outermost: bool) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Array(items) => {
                let items: Vec<String> =
                    items.iter().map(|item| write_value(item, false)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Object(map) => {
                let entries: Vec<String> = map
                    .iter()
                    .filter(|(_, value)| !value.is_null())
                    .map(|(key, value)| format!("{key}: {}", write_value(value, false)))
                    .collect();
                if outermost {
                    entries.join(", ")
                } else {
                    format!("{{{}}}", entries.join(", "))
                }
            }
            other => other.to_string(),
        }
    }
    serde_json::to_value(value).map_or_else(|_| String::new(), |value| write_value(&value, true))
}
