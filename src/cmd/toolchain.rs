//! `toolchain`: install the pinned compiler, or say which one `run` would take.

use super::{has_no_gates, remark, say};
use crate::cli::ConfigArg;
use build::toolchain::{self, Toolchain};
use config::Selection;
use report::exit::Exit;
use system::cache::Cache;
use system::error::Result;

pub fn install() -> Result<Exit> {
    let cache = Cache::open()?;
    let toolchain = toolchain::install(&cache, &|line| remark(line))?;
    toolchain::install_disassembler(&cache, &|line| remark(line))?;
    say(&describe(&toolchain))?;
    Ok(Exit::Held)
}

pub fn show(config: &ConfigArg) -> Result<Exit> {
    // Without a gates.yaml nothing is pinned; a broken one is an error, because it may hold a pin.
    let pin = match has_no_gates(config) {
        true => None,
        false => {
            config::load(&config.config, &Selection::default())?
                .toolchain
                .cuda
        }
    };
    say(&describe(&toolchain::find(
        pin.as_deref(),
        &Cache::open()?,
    )?))?;
    Ok(Exit::Held)
}

pub fn describe(toolchain: &Toolchain) -> String {
    format!(
        "nvcc {} at {}\nhost compiler {} at {}\n",
        toolchain.facts.version,
        toolchain.nvcc.display(),
        toolchain.facts.host,
        toolchain.host_compiler.display()
    )
}
