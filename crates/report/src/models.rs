//! Lays out the same gates on several GPU models, with a column for each. Pure.

use super::section::{ColumnKind, Section, SectionPart, Table};
use super::{summary, values};
use crate::document;
use crate::exit::Exit;
use crate::input::ReportInput;
use model::{Conclusion, Counter, Environment, Metric, Outcome, Question, Seen, Subject};
use records::shard::device;
use serde::Serialize;
use std::collections::BTreeMap;
use system::error::Result;
use wording::words;

pub const SCHEMA: &str = "gatekeeper.models/1";

/// A run on one GPU model.
pub struct Model<'a> {
    /// The name that heads its column.
    pub name: String,
    /// The name of the directory of its files. No two models have the same.
    pub dir: String,
    pub input: ReportInput<'a>,
}

/// Gives runs names that distinguish them.
pub fn name<'a>(runs: impl Iterator<Item = ReportInput<'a>>) -> Vec<Model<'a>> {
    let mut all: Vec<Model> = Vec::new();
    for input in runs {
        let environment = &input.record.environment;
        let short = match &environment.device {
            Seen::Got(device) => {
                let name = device.name.as_str();
                name.strip_prefix("NVIDIA ").unwrap_or(name).to_owned()
            }
            _ => device(environment),
        };
        let mut names = std::iter::once(short.clone())
            .chain(std::iter::once(device(environment)))
            .chain((2..).map(|at| format!("{short} {at}")));
        let is_free = |name: &String| {
            let dir = directory(name);
            all.iter().all(|other| other.dir != dir)
        };
        let name = names.find(is_free).unwrap_or(short);
        all.push(Model {
            dir: directory(&name),
            name,
            input,
        });
    }
    all
}

/// Returns a name from a record without anything that a file system could take for a path.
fn directory(name: &str) -> String {
    let words: Vec<_> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let all: String = words.join("-").chars().take(60).collect();
    format!("on-{all}")
}

/// Returns the worst conclusion of all, in the order of exit codes: 1, 4, 3, 0.
pub fn conclusion(models: &[Model]) -> Conclusion {
    let order = [
        Conclusion::Fail,
        Conclusion::Environment,
        Conclusion::Inconclusive,
        Conclusion::NothingJudged,
    ];
    let is_any = |wanted: &Conclusion| {
        models
            .iter()
            .any(|model| model.input.judgement.conclusion == *wanted)
    };
    order.into_iter().find(is_any).unwrap_or(Conclusion::Pass)
}

/// Returns the exit code for the conclusion over all models.
pub fn exit(models: &[Model]) -> Exit {
    conclusion(models).into()
}

/// Returns the title: `FAIL on 2 GPU models: H100 80GB HBM3 PASS, L4 FAIL`.
pub fn title(models: &[Model]) -> String {
    let each: Vec<_> = models
        .iter()
        .map(|model| {
            let said = summary::conclusion(model.input.judgement.conclusion);
            format!("{} {said}", model.name)
        })
        .collect();
    format!(
        "{} on {} GPU models: {}",
        summary::conclusion(conclusion(models)),
        models.len(),
        each.join(", ")
    )
}

pub fn lay_out<'a>(models: &[Model]) -> Vec<Vec<Section<'a>>> {
    vec![
        vec![Section::with_table("", "Runs", runs(models))],
        vec![Section::with_table("", "Problems", broken(models))],
        vec![Section::new(
            "",
            "Cases side by side",
            vec![
                SectionPart::Table(cases(models)),
                SectionPart::Lines(legend(models)),
            ],
        )],
    ]
}

fn runs(models: &[Model]) -> Table {
    let rows = models.iter().map(|model| {
        vec![
            model.name.clone(),
            summary::headline(&model.input),
            summary::circumstances(model.input.record),
        ]
    });
    let columns = [
        ("GPU", ColumnKind::Name),
        ("verdict", ColumnKind::Text),
        ("on", ColumnKind::Text),
    ];
    Table::new(columns, rows.collect())
}

/// Returns a table of the gates that keep a model from passing, with what each model says of them.
fn broken(models: &[Model]) -> Table {
    let mut rows: Vec<(&Subject, &Question)> = Vec::new();
    for model in models {
        for verdict in &model.input.judgement.verdicts {
            let row = (&verdict.subject, &verdict.question);
            let is_broken = matches!(
                verdict.outcome,
                Outcome::Fail | Outcome::Environment | Outcome::Inconclusive
            );
            if is_broken && !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    let worst = |(subject, question): &(&Subject, &Question)| {
        let own = models
            .iter()
            .flat_map(|model| &model.input.judgement.verdicts)
            .filter(|verdict| verdict.subject == **subject && verdict.question == **question);
        let worst = values::worst(own);
        values::WORST_FIRST
            .iter()
            .position(|outcome| Some(*outcome) == worst)
    };
    rows.sort_by_key(worst);
    let rows = rows.into_iter().map(|(subject, question)| {
        let said = models.iter().map(|model| {
            let found = model
                .input
                .judgement
                .verdicts
                .iter()
                .find(|verdict| verdict.subject == *subject && verdict.question == *question);
            match found {
                None => "-".to_owned(),
                Some(verdict) if verdict.outcome == Outcome::Pass => verdict.outcome.to_string(),
                Some(verdict) => format!("{} [{}]", verdict.outcome, verdict.reason.code()),
            }
        });
        let names = [subject.to_string(), words::question(question)];
        names.into_iter().chain(said).collect()
    });
    let columns = [("subject", ColumnKind::Name), ("gate", ColumnKind::Text)];
    table(&columns, models, ColumnKind::Text, rows.collect())
}

/// Returns the metric that is shown: time on a GPU, or instructions in the simulator.
fn metric(environment: &Environment) -> Metric {
    match (environment.device.got(), &environment.simulator) {
        (None, Some(_)) => Metric::Counter(Counter::Instructions),
        _ => Metric::P50,
    }
}

fn cases(models: &[Model]) -> Table {
    let Some(first) = models.first() else {
        return Table::new([], Vec::new());
    };
    table(
        &[("case", ColumnKind::Name)],
        models,
        ColumnKind::Number,
        first
            .input
            .record
            .plan
            .cases
            .iter()
            .map(|case| {
                let subject = Subject::Case(case.id.clone());
                let cells = models.iter().map(|model| {
                    let metric = metric(&model.input.record.environment);
                    let value = values::cells(model.input.index.head(), &subject, [metric]);
                    let own = model
                        .input
                        .judgement
                        .verdicts
                        .iter()
                        .filter(|verdict| verdict.subject == subject);
                    match values::worst(own) {
                        None | Some(Outcome::Pass) => value.concat(),
                        Some(outcome) => format!("{} ({outcome})", value.concat()),
                    }
                });
                std::iter::once(subject.to_string()).chain(cells).collect()
            })
            .collect(),
    )
}

/// Explains the values of the tables.
fn legend(models: &[Model]) -> Vec<String> {
    let is_any = |wanted| {
        models
            .iter()
            .any(|model| metric(&model.input.record.environment) == wanted)
    };
    let timed = is_any(Metric::P50).then_some("p50 of a GPU");
    let counted = is_any(Metric::Counter(Counter::Instructions))
        .then_some("warp instructions of the simulator, which has no times");
    let values: Vec<_> = timed.into_iter().chain(counted).collect();
    vec![format!(
        "{}; the worst verdict of a case, where it is no pass",
        values.join("; ")
    )]
}

/// Returns a table with a column for each model.
fn table(
    columns: &[(&str, ColumnKind)],
    models: &[Model],
    kind: ColumnKind,
    rows: Vec<Vec<String>>,
) -> Table {
    let models = models.iter().map(|model| (model.name.as_str(), kind));
    Table::new(columns.iter().copied().chain(models), rows)
}

#[derive(Serialize)]
struct ModelsDocument<'a> {
    schema: &'static str,
    exit_code: u8,
    conclusion: Conclusion,
    /// The counts of outcomes over all models.
    counts: BTreeMap<&'static str, usize>,
    models: Vec<ModelEntry<'a>>,
}

#[derive(Serialize)]
struct ModelEntry<'a> {
    name: &'a str,
    /// The directory beside this file that has the record and the reports.
    dir: &'a str,
    conclusion: Conclusion,
    headline: String,
    counts: BTreeMap<&'static str, usize>,
}

/// Returns the models as JSON.
///
/// # Errors
/// Fails with an environment error if they cannot be written as JSON.
pub fn json(models: &[Model]) -> Result<String> {
    let counted = |models: &[Model]| -> BTreeMap<&'static str, usize> {
        let of_all = |outcome| {
            models
                .iter()
                .map(|model| model.input.judgement.count(outcome))
                .sum()
        };
        Outcome::ALL
            .into_iter()
            .map(|count| (count.name(), of_all(count)))
            .collect()
    };
    let entries = models.iter().map(|model| ModelEntry {
        name: &model.name,
        dir: &model.dir,
        conclusion: model.input.judgement.conclusion,
        headline: summary::headline(&model.input),
        counts: counted(std::slice::from_ref(model)),
    });
    let document = ModelsDocument {
        schema: SCHEMA,
        exit_code: exit(models) as u8,
        conclusion: conclusion(models),
        counts: counted(models),
        models: entries.collect(),
    };
    document::json("the report", &document)
}
