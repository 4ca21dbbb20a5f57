//! Lays out problems as every format shows them: one block for each cause, with its source lines and one command. Pure.

use super::{against_base, causes, explain, summary};
use crate::input::ReportInput;
use crate::place::{FileLine, within_repository};
use ::explain::{Cause, PlaceSide};
use model::{
    Against, Comparison, CounterRise, FaultSite, Finding, Judgement, LaunchSite, LineCount,
    Mistyped, Outcome, Problem, ProblemCause, Question, Reason, Record, Rule, SinceBase,
    SourceLine, Subject, Verdict, WorseValue,
};
use std::collections::BTreeSet;
use wording::names::named;
use wording::reasons::{self, Context};
use wording::{findings, problems as titles, words};

/// One problem, with everything that a format shows of it.
pub struct Block<'a> {
    pub problem: &'a Problem,
    /// The cases: `softmax@gpt2`, or a count by variant if there are many.
    pub subjects: String,
    /// The problem in a few words: `race on shared memory`.
    pub title: String,
    /// The lines that the problem is about, with what is done there.
    pub frame: Frame,
    /// Sentences that say why, with values.
    pub why: Vec<String>,
    /// The values that are worse, the worst first.
    pub rows: Vec<ValueRow>,
    /// The cause of what got slower or larger, if the base is known: `more barriers at k.cu:12`.
    pub cause: Option<String>,
    /// The cause as data, even if an earlier block states the same.
    pub first_cause: Option<Cause>,
    /// The gates that follow, each with the place where it is declared: `max_err <= 1e-5 (is 0.0496)`.
    pub follows: Vec<String>,
    pub follows_declared: Option<String>,
    /// The gates that name the cause, each once: `max_err <= 1e-5`.
    pub gates: Vec<String>,
    /// The places where the gates are declared: `gates.yaml:7, gates.yaml:19`.
    pub declared: Option<String>,
    /// The line to mark: the kernel's if it is known, and else the line that declares the gate.
    pub place: Option<FileLine>,
    /// The command that runs one of the subjects alone, as this run did: the worst if that is known, and else the
    /// first. If only a baseline is missing, the command takes the values as one.
    pub command: Option<String>,
}

#[derive(Default)]
pub struct Frame {
    /// The lines by file and number.
    pub lines: Vec<FrameLine>,
    /// Words between two lines, after the line with this index: `no barrier between the two`.
    pub between: Option<(usize, &'static str)>,
}

pub struct FrameLine {
    pub file: String,
    pub number: u32,
    /// `None` if the source could not be read.
    pub text: Option<String>,
    /// The event at the line: `thread 32 reads`.
    pub note: String,
}

/// One value that is worse than it may be.
pub struct ValueRow {
    pub subject: Subject,
    pub metric: String,
    pub was: Option<String>,
    pub now: String,
    pub change: Option<String>,
    /// The change as a multiple, if that says it better: `8× more`.
    pub multiple: Option<String>,
    /// The name of what has the value `was`: `main`, `baseline`.
    pub whose: Option<String>,
    pub limit: String,
    /// The line that most of a counter is counted at.
    pub at: Option<LineCount>,
    /// The share by which the value is worse, for sorting.
    worse: f64,
}

impl FrameLine {
    fn new(line: &SourceLine, note: String) -> Self {
        Self {
            file: line.file.clone(),
            number: line.number,
            text: line.text.clone(),
            note,
        }
    }

    /// Returns a line with its note: `k.cu:9: y = part[0]; (thread 32 reads)`.
    pub fn in_words(&self) -> String {
        let text = self.text.as_deref().unwrap_or("(not readable)");
        let note = match self.note.as_str() {
            "" => String::new(),
            note => format!(" ({note})"),
        };
        format!("{}:{}: {text}{note}", self.file, self.number)
    }
}

impl Frame {
    /// Returns all lines in words: `inp: {type: f32}, the kernel takes __nv_bfloat16 const*; ...`.
    pub fn in_words(&self) -> String {
        self.lines
            .iter()
            .map(|line| match &line.text {
                Some(text) => format!("{text}, {}", line.note),
                None => line.note.clone(),
            })
            .collect::<Vec<_>>()
            .join("; ")
    }
}

impl Block<'_> {
    /// Counts the verdicts that the problem explains.
    pub fn gate_count(&self) -> usize {
        self.problem.verdicts.len() + self.problem.follows.len()
    }

    /// Returns the sentences that the frame does not replace. The frame shows what the first sentence of a finding
    /// says.
    pub fn why_beyond_frame(&self) -> &[String] {
        let is_finding = matches!(self.problem.cause, ProblemCause::Findings { .. });
        let first = usize::from(is_finding && !self.frame.lines.is_empty());
        self.why.get(first..).unwrap_or_default()
    }

    /// Returns true if its sentences say more than a table of its values: what puts the values in doubt, and what would
    /// let them pass.
    pub fn is_told_in_words(&self) -> bool {
        matches!(
            &self.problem.cause,
            ProblemCause::Verdict(reason)
                if matches!(**reason, Reason::CountersInDoubt { .. } | Reason::UngatedWorse { .. })
        )
    }

    /// Returns true if the base has the same problem.
    pub fn is_old(&self) -> bool {
        self.problem.since_base == Some(SinceBase::Old)
    }
}

/// The number of kernel lines that are shown for what they count.
const MOST_COUNTED_LINES: usize = 2;

/// Returns the blocks in the order of the judgement. Gates that were loosened have a list of their own.
pub fn blocks<'a>(input: &ReportInput<'a>) -> Vec<Block<'a>> {
    let problems = input
        .judgement
        .problems
        .iter()
        .filter(|problem| problem.cause != ProblemCause::Loosened);
    let mut said = BTreeSet::new();
    problems
        .map(|problem| {
            let block = block(input, problem);
            Block {
                cause: block.cause.filter(|cause| said.insert(cause.clone())),
                ..block
            }
        })
        .collect()
}

/// Returns what every format shows of a problem.
pub fn block<'a>(input: &ReportInput<'a>, problem: &'a Problem) -> Block<'a> {
    let ReportInput {
        index,
        record,
        judgement,
        ..
    } = *input;
    let find = |all: &[usize]| -> Vec<&'a Verdict> {
        all.iter()
            .filter_map(|at| judgement.verdicts.get(*at))
            .collect()
    };
    let (own, follows) = (find(&problem.verdicts), find(&problem.follows));
    let rows = rows(judgement, &own);
    let title = match rows.first() {
        Some(row) => cost_title(row, &rows),
        None => titles::title(problem, &judgement.verdicts),
    };
    let is_fault = own
        .first()
        .is_some_and(|verdict| matches!(innermost(&verdict.reason), Reason::Fault(_)));
    let first_declared = own
        .iter()
        .chain(&follows)
        .find_map(|place| FileLine::from_declared(record, place.declared.as_deref()?));
    let mut frame = match &problem.cause {
        ProblemCause::Findings { findings, .. } => {
            findings.first().map_or_else(Frame::default, frame_finding)
        }
        ProblemCause::Arguments(all) => Frame {
            lines: all.iter().filter_map(frame_argument).collect(),
            between: None,
        },
        ProblemCause::Verdict(reason) => Frame {
            lines: frame_fault(reason).into_iter().collect(),
            between: None,
        },
        ProblemCause::Loosened => Frame::default(),
    };
    if frame.lines.is_empty() {
        frame.lines = counted_lines(&rows);
    }
    let first_line = frame.lines.first().map(|line| FileLine {
        file: within_repository(record, &line.file),
        line: line.number.to_string(),
    });
    let worst = rows.first().map(|row| &row.subject);
    let mut worst_first = own.clone();
    worst_first.sort_by_key(|block| Some(&block.subject) != worst);
    let first_cause = causes::first(index, &worst_first);
    let line_of_cause = first_cause
        .as_ref()
        .and_then(|first_cause| locate_cause(record, first_cause));
    let subjects: Vec<&Subject> = problem.subjects.iter().collect();
    Block {
        subjects: short(record, &subjects),
        title,
        why: why(record, problem, &own),
        cause: first_cause.as_ref().map(explain::summary),
        first_cause,
        follows_declared: declared_by(&follows).filter(|_| !is_fault),
        // A fault breaks every gate, so they are only counted.
        follows: if is_fault && !follows.is_empty() {
            vec![words::plural(follows.len(), "more gate")]
        } else {
            listed(&follows)
        },
        gates: gates(&own),
        declared: declared_by(&own),
        place: first_line
            .or(line_of_cause)
            .or(first_declared)
            .or_else(|| nearest_declared(record, judgement, problem)),
        // Another run would end in the same way.
        command: if lacks_baseline(problem) {
            Some(words::update_command(&record.environment, &subjects))
        } else {
            worst
                .into_iter()
                .chain(&problem.subjects)
                .find_map(|subject| summary::reproduce(record, judgement, subject))
        },
        frame,
        rows,
        problem,
    }
}

/// Finds a line for a gate that no file declares, like the gates that every kernel has: the first line that declares a
/// gate of the same kernel.
fn nearest_declared(record: &Record, judgement: &Judgement, problem: &Problem) -> Option<FileLine> {
    let kernel = problem.subjects.first()?.kernel();
    judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.subject.kernel() == kernel)
        .find_map(|verdict| FileLine::from_declared(record, verdict.declared.as_deref()?))
}

/// Returns the line of head that made the kernel slower.
fn locate_cause(record: &Record, cause: &Cause) -> Option<FileLine> {
    let place = cause
        .places
        .iter()
        .find(|place| place.of == PlaceSide::Head && place.line.number > 0)?;
    Some(FileLine {
        file: within_repository(record, &place.line.file),
        line: place.line.number.to_string(),
    })
}

/// Returns the subjects in short: `k/fast@small, @large`, or a count if there are more than four.
fn short(record: &Record, subjects: &[&Subject]) -> String {
    let cases: Vec<_> = subjects
        .iter()
        .filter_map(|subject| match subject {
            Subject::Case(id) => Some(id),
            Subject::Unit(_) => None,
        })
        .collect();
    let [first, rest @ ..] = cases.as_slice() else {
        return named(&record.plan, subjects);
    };
    let is_one_variant = rest
        .iter()
        .all(|id| (&id.kernel, &id.variant) == (&first.kernel, &first.variant));
    if cases.len() != subjects.len() || !is_one_variant || cases.len() > 4 {
        return named(&record.plan, subjects);
    }
    let rest = rest.iter().map(|id| format!("@{}", id.shape));
    let all = std::iter::once(first.to_string()).chain(rest);
    all.collect::<Vec<_>>().join(", ")
}

/// Returns the lines that count most of what rose, each once: `global_load_sectors 4000`.
fn counted_lines(rows: &[ValueRow]) -> Vec<FrameLine> {
    let mut lines: Vec<FrameLine> = Vec::new();
    for row in rows {
        let Some((counted, (file, number))) = row
            .at
            .as_ref()
            .and_then(|counted| Some((counted, counted.line()?)))
        else {
            continue;
        };
        let is_known = lines
            .iter()
            .any(|line| (line.file.as_str(), line.number) == (file, number));
        if !is_known {
            lines.push(FrameLine {
                file: file.to_owned(),
                number,
                text: counted.text.clone(),
                note: format!("{} {}", row.metric, counted.count),
            });
        }
    }
    lines.truncate(MOST_COUNTED_LINES);
    lines
}

fn frame_finding(finding: &Finding) -> Frame {
    let mut lines: Vec<FrameLine> = Vec::new();
    for (at, place) in finding.places.iter().enumerate() {
        let Some(line) = &place.line else {
            continue;
        };
        let access = finding.accesses.get(at);
        let note = access.map(|access| titles::access(finding, access));
        let note = note.unwrap_or_default();
        let mut known = lines.iter_mut();
        match known
            .find(|known_line| (&known_line.file, known_line.number) == (&line.file, line.number))
        {
            Some(known) if !note.is_empty() => known.note = format!("{}, {note}", known.note),
            Some(_) => {}
            None => lines.push(FrameLine::new(line, note)),
        }
    }
    lines.sort_by(|one, other| (&one.file, one.number).cmp(&(&other.file, other.number)));
    let accessed = lines.len();
    let mut called = calls(finding);
    called.retain(|call| {
        !lines
            .iter()
            .any(|line| (&line.file, line.number) == (&call.file, call.number))
    });
    lines.extend(called);
    let between = titles::lacking(finding).filter(|_| accessed == 2);
    // The words go between two calls if they are shown, and else between the accesses.
    let after = if lines.len() == accessed + 2 {
        accessed
    } else {
        0
    };
    Frame {
        lines,
        between: between.map(|between| (after, between)),
    }
}

/// Returns the outermost calls in which the two accesses of a finding differ, the earlier one first. If both have the
/// same calls, as in two iterations of a loop, returns the outermost of them.
fn calls(finding: &Finding) -> Vec<FrameLine> {
    let [one, other] = finding.places.as_slice() else {
        return Vec::new();
    };
    let common = one
        .calls
        .iter()
        .rev()
        .zip(other.calls.iter().rev())
        .take_while(|(one, other)| (&one.file, one.number) == (&other.file, other.number))
        .count();
    let mut all: Vec<FrameLine> = finding
        .places
        .iter()
        .zip(&finding.accesses)
        .filter_map(|(place, access)| {
            let outermost = place.calls.iter().rev().nth(common)?;
            let note = format!("calls, {}", titles::access(finding, access));
            Some(FrameLine::new(outermost, note))
        })
        .collect();
    // The first place is the later access, unless the other access says that it follows.
    if !matches!(finding.accesses.as_slice(), [_, other] if other.follows.is_some()) {
        all.reverse();
    }
    match one.calls.last() {
        Some(outermost) if all.is_empty() => vec![FrameLine::new(outermost, "calls".to_owned())],
        _ => all,
    }
}

fn frame_argument(mistyped: &Mistyped) -> Option<FrameLine> {
    let (file, line) = mistyped.declared.as_deref()?.split_once(':')?;
    let number = line.split(':').next()?.parse().ok()?;
    Some(FrameLine {
        file: file.to_owned(),
        number,
        text: Some(format!(
            "{}: {{type: {}}}",
            mistyped.tensor,
            mistyped.elem.name()
        )),
        note: format!("the kernel takes {}", mistyped.takes),
    })
}

fn frame_fault(reason: &Reason) -> Option<FrameLine> {
    let Reason::Fault(fault) = innermost(reason) else {
        return None;
    };
    let site = fault.site.as_deref()?;
    let line = site.line()?;
    let note = match site {
        FaultSite::Launch(LaunchSite { block, thread, .. }) => {
            format!("{}, {}", titles::block(*block), titles::thread(*thread))
        }
        // The compiler's own words are below.
        FaultSite::Source(_) => String::new(),
    };
    Some(FrameLine::new(line, note))
}

/// Returns true if the baselines are for another GPU or compiler than this run's.
fn lacks_baseline(problem: &Problem) -> bool {
    match &problem.cause {
        ProblemCause::Verdict(reason) => matches!(innermost(reason), Reason::OtherKey { .. }),
        ProblemCause::Arguments(_) | ProblemCause::Findings { .. } | ProblemCause::Loosened => {
            false
        }
    }
}

fn innermost(reason: &Reason) -> &Reason {
    match reason {
        Reason::OnArchitecture { why, .. } => innermost(why),
        Reason::AcceptedUntil { own, .. } | Reason::BeyondAccepted { own, .. } => innermost(own),
        reason => reason,
    }
}

fn why(record: &Record, problem: &Problem, own: &[&Verdict]) -> Vec<String> {
    let environment = &record.environment;
    match &problem.cause {
        ProblemCause::Arguments(all) => {
            let wanted: BTreeSet<&str> = all
                .iter()
                .filter_map(|value| value.wanted)
                .map(|name| name.name())
                .collect();
            let fix = match wanted.into_iter().collect::<Vec<_>>().as_slice() {
                [] => None,
                [one] => Some(format!("fix: type: {one}")),
                _ => Some("fix: the types of these tensors".to_owned()),
            };
            all.iter()
                .filter(|value| frame_argument(value).is_none())
                .map(titles::mistyped)
                .chain(fix)
                .collect()
        }
        ProblemCause::Findings { seed, findings } => found(*seed, findings),
        ProblemCause::Loosened => Vec::new(),
        ProblemCause::Verdict(_) => {
            let mut sentences = Vec::new();
            for verdict in own {
                let is_shared = own.iter().all(|other| other.reason == verdict.reason);
                let subjects: Vec<&Subject> = if is_shared {
                    // All subjects of one reason share a sentence.
                    problem.subjects.iter().collect()
                } else {
                    vec![&verdict.subject]
                };
                let context = Context {
                    environment,
                    subjects: &subjects,
                };
                let sentence = context.sentence(&verdict.reason);
                let sentence = if subjects.len() < problem.subjects.len() {
                    format!("{}: {sentence}", verdict.subject)
                } else {
                    sentence
                };
                if !sentences.contains(&sentence) {
                    sentences.push(sentence);
                }
            }
            sentences
        }
    }
}

/// Returns what was found: `seed 1, block 0, 5120 times, and 1 more finding on the same lines`.
fn found(seed: u64, findings: &[Finding]) -> Vec<String> {
    let Some((first, rest)) = findings.split_first() else {
        return Vec::new();
    };
    let entry = first
        .entry
        .as_ref()
        .map_or(String::new(), |name| format!("in {name}, "));
    let more = match rest.len() {
        0 => String::new(),
        more => format!(
            "; {} on the same lines",
            words::plural(more, "more finding")
        ),
    };
    let times = words::plural(usize::try_from(first.times).unwrap_or(usize::MAX), "time");
    let follows = findings::follows(first).map_or(String::new(), |follows| format!("; {follows}"));
    let facts = format!(
        "{entry}seed {seed}, {}, {times}{follows}{more}",
        titles::block(first.block)
    );
    vec![findings::message(first), facts]
}

fn declared_by(verdicts: &[&Verdict]) -> Option<String> {
    let places: Vec<_> = verdicts
        .iter()
        .filter_map(|verdict| verdict.declared.as_deref())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    (!places.is_empty()).then(|| places.join(", "))
}

fn gates(own: &[&Verdict]) -> Vec<String> {
    let mut names = Vec::new();
    for verdict in own {
        let name = words::question(&verdict.question);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the gates that follow, each once, with the value if a limit is broken.
fn listed(follows: &[&Verdict]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    for verdict in follows {
        let gate = words::question(&verdict.question);
        if !seen.insert(gate.clone()) {
            continue;
        }
        let shown = match innermost(&verdict.reason) {
            Reason::BeyondLimit { metric, value, .. } => {
                format!("{gate} (is {})", words::quantity(*metric, value.0))
            }
            _ => gate,
        };
        names.push(shown);
    }
    names
}

/// Returns the values of gates on what a kernel takes. Other problems have none.
fn rows(judgement: &Judgement, own: &[&Verdict]) -> Vec<ValueRow> {
    let mut rows: Vec<ValueRow> = own
        .iter()
        .flat_map(|verdict| rows_of(judgement, verdict))
        .collect();
    rows.sort_by(|one, other| other.worse.total_cmp(&one.worse));
    rows
}

fn rows_of(judgement: &Judgement, verdict: &Verdict) -> Vec<ValueRow> {
    let subject = &verdict.subject;
    match innermost(&verdict.reason) {
        Reason::CountersInDoubt { against, rises } => {
            let whose = whose(judgement, against);
            return rises
                .iter()
                .map(|doubted| lay_out_rise(subject, &doubted.rise, whose.clone(), "in doubt"))
                .collect();
        }
        Reason::UngatedWorse { against, values } => {
            let whose = whose(judgement, against);
            return values
                .iter()
                .map(|value| lay_out_worse_value(subject, value, whose.clone()))
                .collect();
        }
        _ => {}
    }
    let is_gate = matches!(
        &verdict.question,
        Question::Gate(Rule::Limit { .. } | Rule::Counters { .. })
    );
    if verdict.outcome != Outcome::Fail || !is_gate {
        return Vec::new();
    }
    let limit = match &verdict.declared {
        Some(_) => words::limit_of(&verdict.question).unwrap_or_default(),
        None => String::new(),
    };
    match innermost(&verdict.reason) {
        Reason::BeyondChange(comparison) => {
            let whose = whose(judgement, &comparison.against);
            vec![lay_out_comparison(subject, comparison, whose, limit)]
        }
        Reason::CountersRose { against, rises, .. } => {
            // The gate's own name is `counters +0%`.
            let gate = words::question(&verdict.question);
            let limit = gate.rsplit(' ').next().unwrap_or_default().to_owned();
            rises
                .iter()
                .map(|rise| lay_out_rise(subject, rise, whose(judgement, against), &limit))
                .collect()
        }
        Reason::BeyondLimit {
            metric,
            value,
            bound,
            ..
        } if metric.facet() != model::Facet::Correctness => {
            vec![ValueRow {
                subject: subject.clone(),
                metric: metric.to_string(),
                was: None,
                now: words::quantity(*metric, value.0),
                change: None,
                multiple: None,
                whose: None,
                limit,
                at: None,
                worse: ((value.0 - bound.0) / bound.0).abs(),
            }]
        }
        _ => Vec::new(),
    }
}

/// Returns the name of the side that a value is compared with.
fn whose(judgement: &Judgement, against: &Against) -> String {
    const MOST: usize = 20;
    let name = match (against, &judgement.base) {
        (Against::Baseline, _) => "baseline".to_owned(),
        (Against::Anchor { since, .. }, _) => since.to_string(),
        (Against::Base, Some(base)) => against_base::revision(base).to_owned(),
        (Against::Base, None) => "base".to_owned(),
    };
    match name.char_indices().nth(MOST) {
        // The head of a column is as wide as its content.
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

fn lay_out_comparison(
    subject: &Subject,
    comparison: &Comparison,
    whose: String,
    limit: String,
) -> ValueRow {
    let quantity = |value: model::Num| words::quantity(comparison.metric, value.0);
    ValueRow {
        subject: subject.clone(),
        metric: comparison.metric.to_string(),
        was: comparison.was.map(quantity),
        now: comparison.now.map_or_else(String::new, quantity),
        change: Some(words::change(comparison.metric, comparison.change.0)),
        multiple: comparison
            .was
            .zip(comparison.now)
            .and_then(|(was, now)| words::multiple(comparison.metric, was.0, now.0)),
        whose: Some(whose),
        limit,
        at: None,
        worse: comparison.change.0.abs(),
    }
}

fn lay_out_worse_value(subject: &Subject, value: &WorseValue, whose: String) -> ValueRow {
    let WorseValue { metric, was, now } = *value;
    let change = judge::relative_change(now.0, was.0);
    ValueRow {
        subject: subject.clone(),
        metric: metric.to_string(),
        was: Some(words::quantity(metric, was.0)),
        now: words::quantity(metric, now.0),
        change: Some(words::change(metric, change)),
        multiple: words::multiple(metric, was.0, now.0),
        whose: Some(whose),
        limit: "none".to_owned(),
        at: None,
        worse: change.abs(),
    }
}

fn lay_out_rise(subject: &Subject, rise: &CounterRise, whose: String, limit: &str) -> ValueRow {
    let metric = rise.counter.into();
    ValueRow {
        subject: subject.clone(),
        metric: rise.counter.to_string(),
        was: Some(words::quantity(metric, rise.was.0)),
        now: words::quantity(metric, rise.now.0),
        change: Some(words::change(metric, rise.change.0)),
        multiple: words::multiple(metric, rise.was.0, rise.now.0),
        whose: Some(whose),
        limit: limit.to_owned(),
        at: rise.lines.first().cloned(),
        worse: rise.change.0,
    }
}

/// Returns the head of the column of values that others are compared with: whose they are if all belong to one side.
pub fn head_of_was<'a>(rows: impl IntoIterator<Item = &'a ValueRow>) -> &'a str {
    let mut names = rows.into_iter().filter_map(|row| row.whose.as_deref());
    match names.next() {
        Some(first) if names.all(|name| name == first) => first,
        _ => "was",
    }
}

/// Returns a title for worse values: `p50 9.9 % slower`, `load sectors 8× more`, and how many other values.
fn cost_title(worst: &ValueRow, all: &[ValueRow]) -> String {
    let change = worst.multiple.as_ref().or(worst.change.as_ref());
    let first = match change {
        Some(change) => format!("{} {change}", worst.metric),
        None => format!("{} is {}, limit {}", worst.metric, worst.now, worst.limit),
    };
    match all.len() {
        1 => first,
        all => format!("{first}, and {}", words::plural(all - 1, "more value")),
    }
}

/// Lists subjects that fail as they are meant to, with the gates that fail: `k/racy@tile: memory and races, max_err <=
/// 0.001`. The reasons are in `report.json`, because nobody reads them in every run.
pub fn expected(judgement: &Judgement) -> Vec<String> {
    list_outcome(judgement, Outcome::Expected, |verdict| {
        words::question(&verdict.question)
    })
}

/// Lists the fallbacks: `k/fast@small: max_err <= 0.001: falls back on ...`.
pub fn replaced(record: &Record, judgement: &Judgement) -> Vec<String> {
    list_outcome(judgement, Outcome::Replaced, |verdict| {
        let gate = words::question(&verdict.question);
        format!("{gate}: {}", reasons::verdict(&record.environment, verdict))
    })
}

/// Returns a line for each subject that has a verdict with this outcome.
fn list_outcome(
    judgement: &Judgement,
    outcome: Outcome,
    shown: impl Fn(&Verdict) -> String,
) -> Vec<String> {
    let mut found: Vec<(&Subject, Vec<String>)> = Vec::new();
    let verdicts = judgement.verdicts.iter();
    for verdict in verdicts.filter(|verdict| verdict.outcome == outcome) {
        match found.iter_mut().find(|(of, _)| **of == verdict.subject) {
            Some((_, all)) => all.push(shown(verdict)),
            None => found.push((&verdict.subject, vec![shown(verdict)])),
        }
    }
    found
        .into_iter()
        .map(|(subject, all)| format!("{subject}: {}", all.join(", ")))
        .collect()
}
