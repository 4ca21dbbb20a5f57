//! `baseline`: what was agreed, shown and accepted.

use super::print;
use crate::cli::ConfigArg;
use crate::config::{self, Selection};
use crate::error::{Diagnostic, Error, Result};
use crate::exit::Exit;
use crate::store;
use globset::Glob;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use verdict::judge::words;
use verdict::model::Subject;

pub fn update(record: &Path, config: &ConfigArg, filters: &[String]) -> Result<Exit> {
    let selection = Selection {
        filters: filters.to_vec(),
        ..Selection::default()
    };
    let loaded = config::load(&config.config, &selection)?;
    let record = store::read_record(record)?;
    let cases: BTreeSet<_> = loaded.plan.cases.iter().map(|case| &case.id).collect();
    let units: BTreeSet<_> = loaded.plan.units.iter().map(|unit| &unit.id).collect();
    let wanted = |subject: &Subject| match subject {
        Subject::Case(id) => cases.contains(id),
        Subject::Unit(id) => units.contains(id),
    };
    let update = store::update_baselines(&loaded.root, &record, &wanted)?;

    let mut text = String::new();
    for change in &update.changes {
        let new = words::quantity(change.metric, change.new);
        let was = change.old.map_or_else(
            || "new".to_owned(),
            |old| words::quantity(change.metric, old),
        );
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {}: {was} -> {new}", change.subject, change.metric);
    }
    for refused in &update.refused {
        let _ = writeln!(
            text,
            "left as it is: {} {}: {}",
            refused.subject, refused.facet, refused.reason
        );
    }
    let files: BTreeSet<_> = update.changes.iter().map(|change| &change.file).collect();
    let _ = writeln!(
        text,
        "{} figures changed in {} files, {} refused",
        update.changes.len(),
        files.len(),
        update.refused.len()
    );
    print(&text)?;
    // Whoever accepts a run wants all of it accepted; what was refused has to be seen.
    Ok(if update.refused.is_empty() {
        Exit::Held
    } else {
        Exit::Failed
    })
}

pub fn show(config: &ConfigArg, filters: &[String]) -> Result<Exit> {
    let globs = filters
        .iter()
        .map(|filter| {
            Glob::new(filter)
                .map(|glob| glob.compile_matcher())
                .map_err(|error| {
                    Error::Usage(
                        Diagnostic::new(format!("`{filter}` is no glob: {error}"))
                            .help("name kernels, for example `gatekeeper baseline show 'sdpa_*'`"),
                    )
                })
        })
        .collect::<Result<Vec<_>>>()?;
    let wanted = |kernel: &str| globs.is_empty() || globs.iter().any(|glob| glob.is_match(kernel));
    let root = config.config.parent().unwrap_or(Path::new(""));
    let (baselines, broken) = store::load_baselines(root)?;
    let baselines: Vec<_> = baselines
        .iter()
        .filter(|baseline| wanted(&baseline.kernel))
        .collect();
    if baselines.is_empty() && broken.is_empty() {
        return Err(Error::Usage(
            Diagnostic::new("no baselines here")
                .help("`gatekeeper run`, then `gatekeeper baseline update`"),
        ));
    }
    let mut text = String::new();
    for baseline in baselines {
        let _ = writeln!(
            text,
            "{}/{} {} [{}], {} on {}",
            baseline.kernel,
            baseline.variant,
            baseline.key.facet(),
            baseline.key.facet(),
            baseline.origin.date,
            baseline.origin.device
        );
        for (shape, metrics) in &baseline.cases {
            let figures: Vec<_> = metrics
                .iter()
                .map(|(metric, agreed)| {
                    format!("{metric} {}", words::quantity(*metric, agreed.value.0))
                })
                .collect();
            let _ = writeln!(text, "  {shape}: {}", figures.join(", "));
        }
    }
    for problem in &broken {
        let _ = writeln!(text, "BROKEN {}: {}", problem.path, problem.problem);
    }
    print(&text)?;
    Ok(if broken.is_empty() {
        Exit::Held
    } else {
        Exit::Usage
    })
}
