//! Proves ptxsim against a GPU (sm_90): what a new form, a faster engine or another counter has to
//! pass before it is believed. What came out is in crates/ptxsim/CALIBRATION.md.
//!
//! On a machine with a GPU, from the root of the repository:
//! ```text
//! P="cargo run --release -p ptxsim-proof --"
//! $P forms                                        each instruction alone, over special operands
//! $P --ptxas $(which ptxas) random                10,000 random programs
//! $P mma && $P special && $P approx               matrix instructions, other forms, approximations
//! $P build --ptx out/ptx && $P kernels --ptx out/ptx
//! dev/proof/counters.sh target/release/ptxsim-proof out/ptx out
//! $P counters --ptx out/ptx --ncu out/ncu.csv --instructions out/instructions.tsv
//! $P doubts --ptx out/ptx                         these two without a GPU
//! $P hold --ptx dev/proof/fixtures/counters --table dev/proof/fixtures/counters/table.tsv
//! ```
//! `--table dev/proof/fixtures/counters/table.tsv` of `counters` writes what `cargo test` holds the
//! counters against from then on, with `out/ptx/*.ptx` beside it, through `gzip -9n`.
//! `--hashes` of `forms`, `mma`, `special` and `random` writes what the GPU computed, as hashes; those
//! in fixtures/ are checked by `cargo test` on any machine, and `--check` compares with a file of them. A
//! form that ptxsim builds now and did not then stands last in `forms`, or in `products`, and turns those
//! tests red until a GPU has computed it; to have it in random programs, `list > fixtures/forms.list`, then
//! their `--hashes` anew.

mod approx;
mod cases;
mod comparisons;
mod conversions;
mod counters;
#[cfg(test)]
mod failures;
mod forms;
mod gpu;
mod job;
mod kernels;
mod make;
mod products;
mod program;
mod random;
mod special;
mod sweep;
mod table;
mod tensor;
mod words;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(about, version)]
struct Cli {
    /// Compiles PTX in place of the driver, which takes one module at a time
    #[arg(long, global = true)]
    ptxas: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Each form alone over special and random operands
    Forms {
        /// Only instructions whose text contains this
        #[arg(default_value = "")]
        filter: String,
        /// Where a hash of what the GPU computed goes, for each
        #[arg(long)]
        hashes: Option<PathBuf>,
        /// Compares ptxsim with such hashes instead: needs no GPU
        #[arg(long)]
        check: Option<PathBuf>,
    },
    /// Random programs
    Random {
        #[arg(long, default_value_t = 10_000)]
        programs: usize,
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Where a hash of what the GPU computed goes, for each
        #[arg(long)]
        hashes: Option<PathBuf>,
        /// Compares ptxsim with such hashes instead: needs no GPU
        #[arg(long)]
        check: Option<PathBuf>,
    },
    /// The functions that PTX lets a GPU approximate
    Approx {
        /// Only those whose name contains this
        #[arg(default_value = "")]
        filter: String,
    },
    /// Matrix instructions
    Mma {
        /// Where the GPU's results go
        #[arg(long)]
        dump: Option<PathBuf>,
        /// Where a hash of them goes, for each
        #[arg(long)]
        hashes: Option<PathBuf>,
        /// Compares ptxsim with what was dumped instead: needs no GPU
        #[arg(long)]
        check: Option<PathBuf>,
    },
    /// 128-bit words, atomics of vectors, `movmatrix`
    Special {
        /// Where a hash of what the GPU computed goes, for each
        #[arg(long)]
        hashes: Option<PathBuf>,
    },
    /// Compiles the micro-kernels and the repository's kernels, from its root
    Build {
        #[arg(long, default_value = "nvcc")]
        nvcc: PathBuf,
        #[arg(long)]
        ptx: PathBuf,
    },
    /// The repository's kernels: outputs compared
    Kernels {
        /// What `build` wrote
        #[arg(long)]
        ptx: PathBuf,
    },
    /// Launches each kernel once: for ncu to watch
    Launch {
        #[arg(long)]
        ptx: PathBuf,
    },
    /// Counters against what ncu said of `launch`: needs no GPU
    Counters {
        #[arg(long)]
        ptx: PathBuf,
        /// From `ncu --csv --page raw`
        #[arg(long)]
        ncu: PathBuf,
        /// From `instructions.py`
        #[arg(long)]
        instructions: Option<PathBuf>,
        /// Where what was read goes, for each launch
        #[arg(long)]
        table: Option<PathBuf>,
    },
    /// Counters against what `counters` wrote: needs no GPU
    Hold {
        #[arg(long)]
        ptx: PathBuf,
        #[arg(long)]
        table: PathBuf,
    },
    /// Which counters may not gate which launches, and why: needs no GPU
    Doubts {
        #[arg(long)]
        ptx: PathBuf,
    },
    /// Random programs in ptxsim alone: needs no GPU
    Simulate {
        #[arg(long, default_value_t = 1000)]
        programs: usize,
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// The forms that ptxsim builds, for fixtures/forms.list
    List,
    /// The PTX of every form, of a program or of a kernel by its name: needs no GPU
    Ptx {
        #[arg(long)]
        seed: Option<u64>,
        /// Its name in what `mma` or `special` prints
        #[arg(long, conflicts_with = "seed")]
        name: Option<String>,
    },
}

fn main() -> ExitCode {
    let Cli { ptxas, command } = Cli::parse();
    match run(command, ptxas) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "proof: {e}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command, ptxas: Option<PathBuf>) -> gpu::Result<bool> {
    let out = &mut std::io::stdout().lock();
    match command {
        Command::Forms {
            check: Some(hashes),
            ..
        } => sweep::check(&std::fs::read_to_string(hashes)?, out),
        Command::Forms {
            filter,
            hashes,
            check: None,
        } => sweep::run(&gpu::Gpu::open(ptxas)?, &filter, hashes.as_deref(), out),
        Command::Random {
            check: Some(hashes),
            ..
        } => random::check_hashes(&std::fs::read_to_string(hashes)?, out),
        Command::Random {
            programs,
            seed,
            hashes,
            check: None,
        } => random::run(
            &gpu::Gpu::open(ptxas)?,
            seed,
            programs,
            hashes.as_deref(),
            out,
        ),
        Command::Approx { filter } => approx::run(&gpu::Gpu::open(ptxas)?, &filter, out),
        Command::Mma {
            check: Some(dump), ..
        } => tensor::check(&dump, out),
        Command::Mma {
            dump,
            hashes,
            check: None,
        } => tensor::run(
            &gpu::Gpu::open(ptxas)?,
            dump.as_deref(),
            hashes.as_deref(),
            out,
        ),
        Command::Special { hashes } => {
            special::run(&gpu::Gpu::open(ptxas)?, hashes.as_deref(), out)
        }
        Command::Build { nvcc, ptx } => cases::build(&nvcc, &ptx).map(|()| true),
        Command::Kernels { ptx } => kernels::run(&gpu::Gpu::open(ptxas)?, &ptx, out),
        Command::Launch { ptx } => counters::launch(&gpu::Gpu::open(ptxas)?, &ptx).map(|()| true),
        Command::Counters {
            ptx,
            ncu,
            instructions,
            table,
        } => counters::compare(&ptx, &ncu, instructions.as_deref(), table.as_deref(), out),
        Command::Hold { ptx, table } => {
            let rows = table::read(&std::fs::read_to_string(table)?)?;
            counters::hold(&ptx, &rows, out)
        }
        Command::Doubts { ptx } => counters::doubts(&ptx, out),
        Command::Simulate { programs, seed } => random::simulate_all(seed, programs, out),
        Command::List => {
            for form in random::built_forms() {
                writeln!(out, "{}", form.text)?;
            }
            Ok(true)
        }
        Command::Ptx {
            name: Some(name), ..
        } => {
            let of_product = products::VARIANTS.iter().find(|v| v.name == name);
            let text = of_product.map(products::Variant::ptx);
            let Some(text) = text.or_else(|| special::named(&name)) else {
                return Err(format!("nothing is called {name}").into());
            };
            out.write_all(text.as_bytes())?;
            Ok(true)
        }
        Command::Ptx { seed: None, .. } => {
            for (n, i) in sweep::all_instances().iter().enumerate() {
                let text = sweep::entry(&format!("f{n}"), i, 1 << 16);
                out.write_all(text.as_bytes())?;
            }
            Ok(true)
        }
        Command::Ptx {
            seed: Some(seed), ..
        } => {
            let p = program::Program::new(seed, &random::listed_forms());
            let text = format!("{}{}", program::Program::module_head(), p.entry("p"));
            out.write_all(text.as_bytes())?;
            Ok(true)
        }
    }
}
