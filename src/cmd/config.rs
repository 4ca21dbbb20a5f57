//! `validate`, `init` and `schema`: what can be said of gates.yaml without building anything.

use super::{counted, print, say};
use crate::cli::{InitArgs, SchemaOf, ValidateArgs};
use crate::config::{self, Selection};
use crate::error::{Diagnostic, Error, Result};
use crate::exit::Exit;
use crate::report;
use crate::store;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;
use verdict::model::DEFAULT_CONFIG;

pub fn validate(args: &ValidateArgs) -> Result<Exit> {
    let loaded = config::load(&args.config.config, &Selection::default())?;
    let kernels: std::collections::BTreeSet<_> = loaded
        .plan
        .cases
        .iter()
        .map(|case| &case.id.kernel)
        .collect();
    let accepted = match config::validate_acceptances(&loaded)?.len() {
        0 => String::new(),
        count => format!(", {count} accepted in {}", config::ACCEPTED),
    };
    say(&format!(
        "{}: {}, {} to build, {}, {}{accepted}\n",
        loaded.file,
        counted(kernels.len(), "kernel"),
        counted(loaded.plan.units.len(), "unit"),
        counted(loaded.plan.cases.len(), "case"),
        counted(loaded.gates.len(), "gate")
    ))?;
    Ok(Exit::Held)
}

pub fn init(args: &InitArgs) -> Result<Exit> {
    let path = &args.path;
    // `create_new` and not a look before: two at once must not overwrite each other.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|error| {
            let name = path.display();
            match error.kind() {
                ErrorKind::AlreadyExists => Error::Usage(
                    Diagnostic::new(format!("{name} already exists; it was not changed"))
                        .help("to write another file: gatekeeper init PATH"),
                ),
                ErrorKind::NotFound => Error::Usage(
                    Diagnostic::new(format!("the directory of {name} does not exist"))
                        .help("create the directory first"),
                ),
                _ => Error::environment(format!("{name} cannot be written: {error}")),
            }
        })?;
    file.write_all(config::template().as_bytes())
        .map_err(|error| {
            Error::environment(format!("{} cannot be written: {error}", path.display()))
        })?;
    let name = path.display();
    let config = match path == Path::new(DEFAULT_CONFIG) {
        true => String::new(),
        false => format!(" --config {name}"),
    };
    say(&format!(
        "wrote {name}\nnext: set `source` and `entry` to a kernel of yours, list its arguments, and then\n  \
         gatekeeper validate{config}\n  gatekeeper run{config}\n\
         records and reports go to gatekeeper-out/: add it to .gitignore\n"
    ))?;
    Ok(Exit::Held)
}

pub fn schema(of: SchemaOf) -> Result<Exit> {
    let schema = match of {
        SchemaOf::Gates => config::schema(),
        SchemaOf::Record => store::record_schema(),
        SchemaOf::Report => report::json::schema(),
    };
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| Error::environment(format!("the schema cannot be written: {error}")))?;
    print(&format!("{text}\n"))?;
    Ok(Exit::Held)
}
