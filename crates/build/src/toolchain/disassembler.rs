//! Finds nvdisasm, which disassembles machine code. Nothing that is built or judged needs it: without it, only
//! `explain` knows less.

use super::{Search, compiler, install, output_of};
use std::path::PathBuf;
use system::cache::Cache;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disassembler {
    pub program: PathBuf,
    /// The version of the program, such as `13.5.37`.
    pub version: String,
}

/// Returns the nvdisasm that is installed with the compiler, or else the one of PATH, CUDA_HOME, CUDA_PATH or
/// /usr/local/cuda. If it is older than the compiler it may not know the architecture, and says so itself.
pub fn find_disassembler(cache: &Cache) -> Option<Disassembler> {
    find_in(cache, &Search::from_environment())
}

fn find_in(cache: &Cache, search: &Search) -> Option<Disassembler> {
    let installed = install::installed_disassembler(cache).ok().flatten();
    let others = search.programs("nvdisasm");
    installed.into_iter().chain(others).find_map(|program| {
        let text = output_of(compiler(&program, &["--version"])).ok()?;
        let version = text
            .lines()
            .find_map(|line| line.rsplit_once(", V").map(|(_, version)| version.trim()))?;
        let version = version.to_owned();
        Some(Disassembler { program, version })
    })
}
