//! `toolchain`: installs a compiler, lists the installed ones, or says which one `run` would use.

use super::{has_no_gates, remark, say};
use crate::cli::ConfigArg;
use build::toolchain::{self, Toolchain};
use config::Selection;
use report::exit::Exit;
use system::cache::Cache;
use system::error::{Error, Result};

pub fn install(version: &str) -> Result<Exit> {
    if !toolchain::is_version(version) {
        return Err(
            Error::usage(format!("`{version}` is not a version of CUDA"))
                .help("examples: 13.2, or an update of it as its nvcc has it, 13.2.78"),
        );
    }
    let cache = Cache::open()?;
    let toolchain = toolchain::install(version, &cache, &|line| remark(line))?;
    toolchain::install_disassembler(&cache, &|line| remark(line))?;
    say(&describe(&toolchain))?;
    Ok(Exit::Held)
}

pub fn list() -> Result<Exit> {
    let cache = Cache::open()?;
    let installed = toolchain::list_installed(&cache, &|_| true)?;
    let known = || {
        let known = toolchain::known_releases();
        known
            .into_iter()
            .map(|release| release.version.to_owned())
            .collect()
    };
    let (offered, problem) = match toolchain::list_offered() {
        Ok(offered) => (offered, None),
        Err(problem) => (known(), Some(problem)),
    };
    let mut versions: Vec<String> = offered;
    let others: Vec<_> = installed
        .iter()
        .map(|toolkit| toolkit.version.clone())
        .filter(|version| !versions.contains(version))
        .collect();
    versions.extend(others);
    toolchain::sort_versions(&mut versions);
    let mut text = String::new();
    for version in &versions {
        let place = installed.iter().find(|toolkit| toolkit.version == *version);
        let place = place.map_or_else(String::new, |place| place.nvcc.display().to_string());
        text += format!("{version:<10}{place}").trim_end();
        text.push('\n');
    }
    say(&text)?;
    if let Some(problem) = problem {
        remark(
            "PyPI was not reached: these are the versions that this gatekeeper knows, and PyPI may have more",
        );
        remark(problem.lines().last().unwrap_or_default());
    }
    Ok(Exit::Held)
}

pub fn show(config: &ConfigArg) -> Result<Exit> {
    // Without a gates.yaml nothing is pinned. A broken gates.yaml is an error, because it may contain a pin.
    let pin = if has_no_gates(config) {
        None
    } else {
        config::load(&config.config, &Selection::default())?
            .toolchain
            .cuda
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
