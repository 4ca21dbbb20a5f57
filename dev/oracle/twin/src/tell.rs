//! Tells what was compared: a line for each launch, added to `$ORACLE_OUT`, which `oracle` adds up. Without that variable a
//! difference is a panic, so that no test passes over one.

use crate::Launch;
use crate::difference::Compared;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;

/// What was run in both simulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Module,
    Launch,
    /// A changed text that both took and launched.
    Mutant,
    /// A changed text that both refused in the same way.
    RefusedMutant,
    /// A changed text that made both panic.
    PanickingMutant,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Module => "module",
            What::Launch => "launch",
            What::Mutant => "mutant",
            What::RefusedMutant => "refused",
            What::PanickingMutant => "panics",
        }
    }
}

fn out() -> Option<&'static PathBuf> {
    static OUT: OnceLock<Option<PathBuf>> = OnceLock::new();
    OUT.get_or_init(|| std::env::var_os("ORACLE_OUT").map(PathBuf::from))
        .as_ref()
}

/// Tells of a module, or of what the host did, only where it differs.
pub fn of_module(text: &str, compared: Compared) {
    if compared.first.is_some() {
        let entry = text.find(".entry ").map_or(text, |at| &text[at..]);
        let name: String = entry.chars().take(60).collect();
        line(What::Module, &name.replace(['\n', '\t'], " "), "", compared);
    }
}

pub fn of_launch(what: What, kernel: &str, launch: &Launch, compared: Compared) {
    let Launch {
        grid,
        block,
        cluster,
        cooperative,
        dynamic_shared,
    } = launch;
    let mut text = format!("grid {grid:?} block {block:?}");
    if let Some(cluster) = cluster {
        let _ = write!(text, " cluster {cluster:?}");
    }
    if *cooperative {
        text += " cooperative";
    }
    if *dynamic_shared > 0 {
        let _ = write!(text, " shared {dynamic_shared}");
    }
    line(what, kernel, &text, compared);
}

/// Tells of a part (`$ORACLE_SOURCE`) what it was, its kernel, its launch, the microseconds of both simulators, and the first
/// field that differs with both values.
fn line(what: What, kernel: &str, launch: &str, compared: Compared) {
    let told = match &compared.first {
        Some(first) => {
            let text = format!("{}\t{}\t{}", first.field, first.new, first.old);
            text.replace('\n', " ")
        }
        None => String::new(),
    };
    let Some(out) = out() else {
        assert!(compared.first.is_none(), "{kernel} {launch}: {told}");
        return;
    };
    let (new, old) = (compared.new_took.as_micros(), compared.old_took.as_micros());
    let part = std::env::var("ORACLE_SOURCE").unwrap_or_default();
    let name = what.name();
    let line = format!("{part}\t{name}\t{kernel}\t{launch}\t{new}\t{old}\t{told}\n");
    let file = OpenOptions::new().create(true).append(true).open(out);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "{}: {written:?}", out.display());
}
