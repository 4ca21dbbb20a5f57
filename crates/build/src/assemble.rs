//! Assembles PTX that belongs to no gates.yaml, with the PTXAS of a compiler and its defaults.

use crate::compile::{self, PtxVersion, TooNew, Workshop};
use crate::toolchain::Toolchain;
use model::Arch;
use std::path::PathBuf;
use system::cache::Cache;
use system::error::{Error, Result};
use system::temporary::TemporaryDir;

pub struct Assembler<'a> {
    toolchain: &'a Toolchain,
    scratch: PathBuf,
}

impl<'a> Assembler<'a> {
    /// Prepares to assemble with this toolchain.
    ///
    /// # Errors
    /// Environment, if the cache cannot be written.
    pub fn new(toolchain: &'a Toolchain, cache: &Cache) -> Result<Self> {
        Ok(Self {
            toolchain,
            scratch: cache.dir("scratch")?,
        })
    }

    /// Assembles PTX and returns a cubin. PTX that PTXAS refuses is the inner error: usage, if it is newer than this
    /// PTXAS, else environment.
    ///
    /// # Errors
    /// Environment, if the machine failed.
    pub fn assemble(&self, ptx: &[u8], arch: Arch) -> Result<std::result::Result<Vec<u8>, Error>> {
        let scratch = TemporaryDir::new_in(&self.scratch).map_err(|error| {
            let place = self.scratch.display();
            Error::environment(format!("no directory can be created in {place}: {error}"))
        })?;
        let shop = Workshop {
            root: scratch.path(),
            toolchain: self.toolchain,
            scratch: scratch.path(),
            outside: &[],
            hidden: None,
            deadline: compile::DEADLINE,
        };
        let made = compile::assemble(shop, ptx, arch)?;
        Ok(made.map_err(|fault| self.refused(arch, &fault.message)))
    }

    fn refused(&self, arch: Arch, said: &str) -> Error {
        let own = &self.toolchain.facts.version;
        match TooNew::find(said) {
            Some(TooNew { asked, known }) => {
                let [asked_text, known] =
                    [asked, known].map(|(major, minor)| format!("{major}.{minor}"));
                let error = Error::usage(format!(
                    "it is PTX {asked_text}, and the ptxas of nvcc {own} reads PTX up to {known}"
                ));
                match release_that_reads(asked) {
                    Some(release) => error.help(format!(
                        "name CUDA {release} or newer as the compiler, or its ptxas alone: {own},ptxas={release}"
                    )),
                    None => error.help(
                        "name a newer compiler; `gatekeeper toolchain list` shows which there are",
                    ),
                }
            }
            None => Error::environment(format!(
                "the ptxas of nvcc {own} does not assemble it for {arch}: {}",
                first_lines(said)
            ))
            .help("--arch names another architecture, and --toolchain another compiler"),
        }
    }
}

/// The most lines of PTXAS's message that are shown. One cause can repeat for every instruction.
const MOST_LINES: usize = 5;

fn first_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let mut text = lines
        .iter()
        .take(MOST_LINES)
        .copied()
        .collect::<Vec<_>>()
        .join("\n");
    if lines.len() > MOST_LINES {
        text += &format!("\n... and {} more lines", lines.len() - MOST_LINES);
    }
    text
}

/// Returns the first CUDA release whose ptxas reads this version of PTX. Each minor release of CUDA 13 has the PTX
/// version of its own number.
fn release_that_reads((major, minor): PtxVersion) -> Option<String> {
    (major == 9).then(|| format!("13.{minor}"))
}
