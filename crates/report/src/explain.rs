//! Writes causes in words: as text, as markdown and as JSON.

use crate::document;
use crate::kernels::{also, by_kernel};
pub use explain::{
    Cause, CauseClass, CausePlace, CauseValue, Measure, MeasuredChange, PlaceSide, Unexplained,
};
use model::{Arch, CodeFacts, Metric, NotRun, Num, Seen, Subject, UnitId};
use serde::{Serialize, Serializer};
use std::fmt::Write;
use system::error::Result;
use wording::words::{plural, quantity};
use wording::{escape, reasons};

pub const SCHEMA: &str = "gatekeeper.explanation/1";

/// The outcome for one case, or for one kernel of two compiled files.
#[derive(Debug, Serialize)]
pub struct Explanation {
    #[serde(flatten)]
    pub subject: Subject,
    /// The reason why the output is wrong, if it is. A wrong case has no causes, because its speed does not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
    pub causes: Vec<Cause>,
    /// Comparisons that were impossible, and why.
    pub gaps: Vec<String>,
    /// The parts of the change, if they were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredChange>,
}

impl Explanation {
    fn unit(&self) -> Option<&UnitId> {
        match &self.subject {
            Subject::Unit(unit) => Some(unit),
            Subject::Case(_) => None,
        }
    }
}

/// Explained kernels of two compiled files, the costliest first.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelExplanations {
    Explained {
        kernels: Vec<Explanation>,
        /// The number of further kernels that changed, or failed.
        more: usize,
    },
    #[serde(serialize_with = "code_and_message")]
    NotRun(NotRun),
}

/// Serialises a reason as verdicts do, by code and message.
fn code_and_message<S: Serializer>(why: &NotRun, to: S) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Why {
        code: &'static str,
        message: String,
    }
    let why = Why {
        code: why.code(),
        message: reasons::not_run(why),
    };
    why.serialize(to)
}

/// Returns why machine code is unknown, or `None` if it is known.
pub fn gap(code: &Seen<CodeFacts>) -> Option<String> {
    let why = match code {
        Seen::Got(_) => return None,
        Seen::Fault(fault) => reasons::fault(fault),
        Seen::Unsupported(why) => reasons::unsupported(why),
        Seen::NotRun(why) => reasons::not_run(why),
    };
    Some(format!("machine code: {why}"))
}

pub fn unexplained(why: &Unexplained) -> &'static str {
    match why {
        Unexplained::NoBase => "the run had no base",
        Unexplained::NoSuchCase => "the record does not have the case",
        Unexplained::New => "the base does not have the case",
        Unexplained::NoUnit => "nothing was built of it for the device of the run",
    }
}

fn measure(measure: &Measure) -> String {
    match measure {
        Measure::Code(kind) => format!("{kind} instructions"),
        Measure::CodeSize => "instructions in the code".to_owned(),
        Measure::Calls(function) => format!("calls of {function}"),
        Measure::LoopSize => "instructions of a turn".to_owned(),
        Measure::Around => "instructions around it".to_owned(),
        Measure::Ahead => "instructions between a load and its use".to_owned(),
        Measure::PredicatedAccesses => "accesses under a condition".to_owned(),
        Measure::Step => "step of the loop".to_owned(),
        Measure::Registers => "registers".to_owned(),
        Measure::Stack => "stack (bytes)".to_owned(),
        Measure::SpillStores => "spill stores (bytes)".to_owned(),
        Measure::SpillLoads => "spill loads (bytes)".to_owned(),
        Measure::Shared => "shared memory (bytes)".to_owned(),
        Measure::Counter(counter) => counter.to_string(),
        Measure::Occupancy => "occupancy".to_owned(),
        Measure::BlocksPerSm => "blocks per SM".to_owned(),
        Measure::Blocks => "blocks".to_owned(),
        Measure::Grid(axis) => format!("grid {axis}"),
        Measure::Block(axis) => format!("block {axis}"),
        Measure::Cluster(axis) => format!("cluster {axis}"),
        Measure::DynamicShared => "dynamic shared memory (bytes)".to_owned(),
        Measure::Waves => "waves".to_owned(),
        Measure::SmMhz => "SM clock (MHz)".to_owned(),
        Measure::Stall(stall) => format!("{stall} (cycles an instruction)"),
        Measure::Profile(metric) => metric.to_string(),
    }
}

fn value(cause_value: &CauseValue) -> String {
    let amount = |value: Num| match cause_value.measure {
        Measure::Occupancy => quantity(Metric::Occupancy, value.0),
        _ => value.0.to_string(),
    };
    let (base, head) = (amount(cause_value.base), amount(cause_value.head));
    format!("{} {base} -> {head}", measure(&cause_value.measure))
}

fn place(place: &CausePlace) -> String {
    match place.of {
        PlaceSide::Head => place.line.to_string(),
        PlaceSide::Base => format!("{} of the base", place.line),
    }
}

/// Returns a cause without its values: `more barriers at k.cu:12`.
pub fn title_and_place(cause: &Cause) -> String {
    let title = cause.class.title();
    match cause.places.first() {
        Some(first) => format!("{title} at {}", place(first)),
        None => title.to_owned(),
    }
}

/// Returns a cause in one line: `more barriers at k.cu:12: barrier instructions 1 -> 2`.
pub fn line(cause: &Cause) -> String {
    let mut line = title_and_place(cause);
    let values: Vec<String> = cause.values.iter().map(value).collect();
    if !values.is_empty() {
        let _ = write!(line, ": {}", values.join(", "));
    }
    line
}

/// Returns a cause in one line, with the names of what it brings about.
pub fn summary(cause: &Cause) -> String {
    let mut summary = line(cause);
    if !cause.consequences.is_empty() {
        let named = cause.consequences.iter().map(title_and_place);
        let _ = write!(
            summary,
            "; it brings about: {}",
            named.collect::<Vec<_>>().join(", ")
        );
    }
    summary
}

/// Returns how much of the slowdown a cause explains, or the most that it can explain, or says that it is unknown.
pub fn share(cause: &Cause) -> String {
    let percent = |share: Num| share.0 * 100.0;
    match (cause.share, cause.at_most) {
        (Some(share), _) if share.0 >= 1.0 => "accounts for all of the slowdown".to_owned(),
        (Some(share), _) => format!("accounts for about {:.0} % of the slowdown", percent(share)),
        (None, Some(most)) => {
            let most = percent(most).ceil();
            format!("accounts for at most {most:.0} % of the slowdown")
        }
        (None, None) => "how much of the slowdown it accounts for is not known".to_owned(),
    }
}

/// Returns what the measured parts cost that a cause belongs to, or else what is known of the cause alone.
fn measured_share(cause: &Cause, change: &MeasuredChange) -> String {
    share_of_parts(cause, change).unwrap_or_else(|| match cause.share.or(cause.at_most) {
        Some(_) => share(cause),
        None => "which of the measured parts bring it about is not known".to_owned(),
    })
}

fn share_of_parts(cause: &Cause, change: &MeasuredChange) -> Option<String> {
    let metric = change.metrics.first()?.metric;
    let parts = change.parts_of(cause);
    let names: Vec<String> = parts.iter().map(|(number, _)| number.to_string()).collect();
    let shares: Vec<f64> = parts
        .into_iter()
        .map(|(_, part)| change.share(part))
        .collect::<Option<_>>()?;
    let (part, has) = match names.len() {
        0 => return None,
        1 => ("part", "has"),
        _ => ("parts", "have"),
    };
    Some(format!(
        "measured: {part} {} of the change {has} {:.0} % of the change of {metric}",
        names.join(" and "),
        shares.iter().sum::<f64>() * 100.0
    ))
}

pub fn terminal(explanations: &[Explanation]) -> String {
    let mut text = String::new();
    for explanation in explanations {
        let _ = writeln!(text, "{}", explanation.subject);
        if let Some(why) = &explanation.wrong {
            let _ = writeln!(text, "  the output is wrong: {why}");
        }
        text.push_str(&causes_in_terminal(explanation));
        text.push('\n');
    }
    escape::lines(text.trim_end()) + "\n"
}

fn causes_in_terminal(explanation: &Explanation) -> String {
    let Explanation {
        subject,
        causes,
        gaps,
        wrong: _,
        measured,
    } = explanation;
    let mut text = String::new();
    for (at, cause) in causes.iter().enumerate() {
        let _ = writeln!(
            text,
            "  {}. [{}] {}",
            at + 1,
            cause.class.name(),
            line(cause)
        );
        write_places(&mut text, cause, "       ");
        // A kernel of a compiled file was not run, so its slowdown is unknown.
        let is_of_case = matches!(subject, Subject::Case(_));
        if is_of_case && cause.class != CauseClass::NothingChanged {
            let said = match measured {
                Some(change) => measured_share(cause, change),
                None => share(cause),
            };
            let _ = writeln!(text, "       {said}");
        }
        if !cause.consequences.is_empty() {
            let _ = writeln!(text, "       it brings about:");
        }
        for effect in &cause.consequences {
            let _ = writeln!(text, "       - [{}] {}", effect.class.name(), line(effect));
            write_places(&mut text, effect, "         ");
        }
    }
    for gap in gaps {
        let _ = writeln!(text, "  not compared: {gap}");
    }
    text
}

/// Writes a line for each place of a cause that the line of the cause does not show whole.
fn write_places(text: &mut String, cause: &Cause, indent: &str) {
    for (at, site) in cause.places.iter().enumerate() {
        let _ = match &site.text {
            Some(quoted) => writeln!(text, "{indent}{}  {quoted}", place(site)),
            // The line of the cause already has the first place.
            None if at == 0 => Ok(()),
            None => writeln!(text, "{indent}{}", place(site)),
        };
    }
}

pub fn markdown(explanations: &[Explanation]) -> String {
    let mut text = String::new();
    for explanation in explanations {
        let name = explanation.subject.to_string();
        let _ = writeln!(text, "#### {}\n", escape::markdown(&name));
        if let Some(why) = &explanation.wrong {
            let _ = writeln!(text, "The output is wrong: {}", escape::markdown(why));
        }
        text.push_str(&causes_in_markdown(explanation));
        text.push('\n');
    }
    text
}

fn causes_in_markdown(explanation: &Explanation) -> String {
    let mut text = String::new();
    for (at, cause) in explanation.causes.iter().enumerate() {
        let said = escape::markdown(&line(cause));
        let _ = writeln!(text, "{}. `{}` {said}", at + 1, cause.class.name());
        for effect in &cause.consequences {
            let said = escape::markdown(&line(effect));
            let _ = writeln!(text, "   - brings about `{}` {said}", effect.class.name());
        }
    }
    for gap in &explanation.gaps {
        let _ = writeln!(text, "\nNot compared: {}", escape::markdown(gap));
    }
    text
}

/// The number of kernels that are written out. A program gets all of them.
const MOST_KERNELS: usize = 10;

pub fn terminal_of_kernels(kernels: &KernelExplanations) -> String {
    let shown = ShownExplanations::from_explanations(kernels);
    let mut text = String::new();
    if !shown.first.is_empty() {
        text.push_str("why they changed\n");
    }
    for (explanation, others) in &shown.first {
        // The symbol of a foreign file can contain line breaks.
        let name = escape::visible(&explanation.subject.to_string());
        let _ = writeln!(text, "\n{name}{}", also(others));
        text.push_str(&causes_in_terminal(explanation));
    }
    if let Some(rest) = &shown.rest {
        let _ = writeln!(text, "\n{rest}");
    }
    escape::lines(text.trim()) + "\n\n"
}

pub fn markdown_of_kernels(kernels: &KernelExplanations) -> String {
    let shown = ShownExplanations::from_explanations(kernels);
    let mut text = "\n### Why they changed\n\n".to_owned();
    for (explanation, others) in &shown.first {
        let name = format!("{}{}", explanation.subject, also(others));
        let _ = writeln!(text, "#### {}\n", escape::markdown(&name));
        text.push_str(&causes_in_markdown(explanation));
        text.push('\n');
    }
    if let Some(rest) = &shown.rest {
        let _ = writeln!(text, "{}", escape::markdown(rest));
    }
    text
}

/// The explanations that are written out for people, and a sentence on the others.
struct ShownExplanations<'a> {
    /// Each explanation with the other architectures that the same kernel is explained for.
    first: Vec<(&'a Explanation, Vec<Arch>)>,
    /// A sentence about all kernels that are not written out.
    rest: Option<String>,
}

impl<'a> ShownExplanations<'a> {
    fn from_explanations(explanations: &'a KernelExplanations) -> Self {
        let (kernels, more) = match explanations {
            KernelExplanations::NotRun(why) => {
                let why = reasons::not_run(why);
                return Self::nothing(format!("not explained: {why}"));
            }
            KernelExplanations::Explained { kernels, .. } if kernels.is_empty() => {
                return Self::nothing("no kernel changed, so none is explained".to_owned());
            }
            KernelExplanations::Explained { kernels, more } => (kernels, *more),
        };
        let mut first = by_kernel(kernels, Explanation::unit);
        first.truncate(MOST_KERNELS);
        let hidden = kernels.len() - first.len();
        let hidden = (hidden > 0).then(|| {
            let hidden = plural(hidden, "more kernel");
            format!("{hidden} explained in --format json")
        });
        let more = (more > 0).then(|| format!("{} not explained", plural(more, "more kernel")));
        let rest: Vec<String> = hidden.into_iter().chain(more).collect();
        Self {
            first,
            rest: (!rest.is_empty()).then(|| rest.join("; ")),
        }
    }

    fn nothing(rest: String) -> Self {
        Self {
            first: Vec::new(),
            rest: Some(rest),
        }
    }
}

/// Returns the explanations as JSON.
///
/// # Errors
/// Never fails in practice, because all of it is plain data.
pub fn json(explanations: &[Explanation]) -> Result<String> {
    #[derive(Serialize)]
    struct File<'a> {
        schema: &'static str,
        cases: &'a [Explanation],
    }
    let file = File {
        schema: SCHEMA,
        cases: explanations,
    };
    document::json("the explanation", &file)
}
