//! `validate` and `schema`: state facts about gates.yaml without building anything.

use super::{counted, print, say};
use crate::cli::{Format, SchemaOf, ValidateArgs};
use config::{Loaded, Owner, Selection};
use model::Reference;
use records::store;
use report::document;
use report::exit::Exit;
use system::error::{Error, Result};
use system::files;

pub fn validate(args: &ValidateArgs) -> Result<Exit> {
    if let Some(case) = &args.explain {
        return explain(args, case);
    }
    let loaded = config::load(&args.config.config, &Selection::default())?;
    let kernels: std::collections::BTreeSet<_> = loaded
        .plan
        .cases
        .iter()
        .map(|case| &case.id.kernel)
        .collect();
    check_python_references(&loaded)?;
    let accepted = match config::validate_acceptances(&loaded)?.len() {
        0 => String::new(),
        count => format!(", {count} accepted in {}", model::ACCEPTED),
    };
    let files = match loaded.binaries.len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "compiled file")),
    };
    let programs = match loaded.programs.len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "program")),
    };
    say(&format!(
        "{}: {}, {} to build, {}, {}{files}{programs}{accepted}\n",
        loaded.places.file,
        counted(kernels.len(), "kernel"),
        counted(loaded.plan.units.len(), "unit"),
        counted(loaded.plan.cases.len(), "case"),
        counted(loaded.gates.len(), "gate")
    ))?;
    Ok(Exit::Held)
}

/// Checks that files of references in Python mention their functions. It cannot be known without running a file whether it
/// defines one, so a name that is only mentioned passes.
fn check_python_references(loaded: &Loaded) -> Result<()> {
    for case in &loaded.plan.cases {
        let Reference::User {
            source, function, ..
        } = &case.reference
        else {
            continue;
        };
        let file = loaded.root.join(source);
        if file.extension().is_none_or(|extension| extension != "py") {
            continue;
        }
        let text = files::read_text(&file, files::SOURCE).map_err(|error| {
            Error::environment(format!("{source} cannot be read: {error}")).caused_by(error)
        })?;
        let is_mentioned = text
            .split(|character: char| !character.is_alphanumeric() && character != '_')
            .any(|word| word == function);
        if !is_mentioned {
            let owner = Owner {
                kernel: &case.id.kernel,
                variant: &case.id.variant,
            };
            let place = loaded.places.key(owner, &["reference"]);
            return Err(
                Error::usage(format!("{source} has no function `{function}`"))
                    .at(place.unwrap_or_else(|| loaded.places.file.clone())),
            );
        }
    }
    Ok(())
}

fn explain(args: &ValidateArgs, case: &str) -> Result<Exit> {
    let selection = Selection {
        filters: vec![case.to_owned()],
        ..Selection::default()
    };
    let loaded = config::load(&args.config.config, &selection)?;
    if let (Some(program), true) = (loaded.programs.first(), loaded.plan.cases.is_empty()) {
        return Err(Error::usage(format!(
            "the launches of the program `{}` are known when it ran",
            program.name
        ))
        .at(&program.declared)
        .help(format!("run it: gatekeeper run {}", program.name)));
    }
    let (baselines, _) = store::load_baselines(&loaded.root)?;
    let source = report::case::CaseContext {
        plan: &loaded.plan,
        gates: &loaded.gates,
        places: &loaded.places,
        baselines: &baselines,
        command: &build::command_line,
    };
    let explained = report::case::explain(&source);
    match args.format {
        Format::Json => print(&document::json("the cases", &explained)?)?,
        _ => say(&report::case::text(&explained))?,
    }
    Ok(Exit::Held)
}

pub fn schema(of: SchemaOf) -> Result<Exit> {
    let schema = match of {
        SchemaOf::Gates => config::schema(),
        SchemaOf::Record => store::record_schema(),
        SchemaOf::Report => report::json::schema(),
    };
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| Error::unwritten("the schema", error))?;
    print(&format!("{text}\n"))?;
    Ok(Exit::Held)
}
