//! `list`: lists the cases and programs of gates.yaml, without building anything. Each line is a filter that `run`
//! accepts.

use super::{counted, print, remark, say};
use crate::cli::{Format, ListArgs};
use config::Selection;
use model::CaseId;
use report::document;
use report::exit::Exit;
use serde::Serialize;
use system::error::Result;

const SCHEMA: &str = "gatekeeper.list/1";

#[derive(Serialize)]
struct List<'a> {
    schema: &'static str,
    cases: Vec<&'a CaseId>,
    /// The programs. Their cases are known only after they ran.
    programs: Vec<&'a str>,
}

pub fn run(args: &ListArgs) -> Result<Exit> {
    let selection = Selection {
        filters: args.filters.clone(),
        ..Selection::default()
    };
    let loaded = config::load(&args.config.config, &selection)?;
    let list = List {
        schema: SCHEMA,
        cases: loaded.plan.cases.iter().map(|case| &case.id).collect(),
        programs: loaded
            .programs
            .iter()
            .map(|program| program.name.as_str())
            .collect(),
    };
    match args.format {
        Format::Json => {
            print(&document::json("the cases", &list)?)?;
        }
        _ => {
            let programs = list.programs.iter().map(ToString::to_string);
            let lines: Vec<String> = list
                .cases
                .iter()
                .map(ToString::to_string)
                .chain(programs)
                .collect();
            if !lines.is_empty() {
                say(&lines.join("\n"))?;
            }
        }
    }
    if args.filters.is_empty() && !loaded.binaries.is_empty() {
        remark(&format!(
            "not listed: {}, which `gatekeeper binary` judges",
            counted(loaded.binaries.len(), "compiled file")
        ));
    }
    Ok(Exit::Held)
}
