//! Compares ptxsim with a GPU (sm_90). A new form, a faster engine or another counter has to pass this before
//! it is used. The results are in crates/ptxsim/CALIBRATION.md.
//!
//! On a machine with a GPU, from the root of the repository:
//! ```text
//! P="cargo run --release --manifest-path dev/Cargo.toml -p ptxsim-proof --"
//! $P forms                                        each instruction alone, over special operands
//! $P --ptxas $(which ptxas) random                10,000 random programs
//! $P mma && $P special && $P approx               matrix instructions, other forms, approximations
//! $P descriptors                                  the bytes that wgmma multiplies
//! $P build --ptx out/ptx && $P kernels --ptx out/ptx
//! dev/proof/counters.sh target/release/ptxsim-proof out/ptx out
//! $P counters --ptx out/ptx --ncu out/ncu.csv --instructions out/instructions.tsv
//! $P doubts --ptx out/ptx                         this and the next need no GPU
//! $P hold --ptx dev/proof/fixtures/counters --table dev/proof/fixtures/counters/table.tsv
//! ```
//! Launches of ptxsim's own tests go to a GPU as files: `KEEP_LAUNCHES=out/kept cargo test --test launches`, then each
//! `.ptx` there to a `.cubin` by ptxas (`-arch=sm_90a`), `nvcc -o out/launcher dev/proof/launcher.cu -lcuda`, and
//! `out/launcher out/kept NAME...` alone, under ncu, or by dev/proof/faults.sh under compute-sanitizer.
//! `counters --table dev/proof/fixtures/counters/table.tsv` writes the readings that `cargo test` compares
//! the counters with. Put `out/ptx/*.ptx` next to it, compressed by `gzip -9n`.
//! `--hashes` of `forms`, `mma`, `descriptors`, `special` and `random` writes the GPU's results as hashes. `cargo test`
//! checks those in fixtures/ on any machine; `--check` compares with a file of them. A form that ptxsim
//! learned since then goes last in `forms` or `products`, and those tests fail until a GPU has computed it.
//! To include it in random programs, write `list > fixtures/forms.list` and their `--hashes` again.

mod approx;
mod cases;
mod comparisons;
mod conversions;
mod counters;
mod descriptors;
#[cfg(test)]
mod failures;
mod forms;
mod gpu;
mod job;
mod kernels;
mod loads;
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
    /// ptxas to compile PTX with, in place of the driver, which compiles one module at a time
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
        /// Where to write hashes of the GPU's results
        #[arg(long)]
        hashes: Option<PathBuf>,
        /// Compare ptxsim with such hashes instead; needs no GPU
        #[arg(long)]
        check: Option<PathBuf>,
    },
    /// Random programs
    Random {
        #[arg(long, default_value_t = 10_000)]
        programs: usize,
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Where to write hashes of the GPU's results
        #[arg(long)]
        hashes: Option<PathBuf>,
        /// Compare ptxsim with such hashes instead; needs no GPU
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
        /// Where to write the GPU's results
        #[arg(long)]
        dump: Option<PathBuf>,
        /// Where to write hashes of them
        #[arg(long)]
        hashes: Option<PathBuf>,
        /// Compare ptxsim with dumped results instead; needs no GPU
        #[arg(long)]
        check: Option<PathBuf>,
    },
    /// The bytes of shared memory that `wgmma` multiplies
    Descriptors {
        /// Where to write hashes of the GPU's results
        #[arg(long)]
        hashes: Option<PathBuf>,
    },
    /// 128-bit words, atomics of vectors, `movmatrix`
    Special {
        /// Where to write hashes of the GPU's results
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
        /// The directory that `build` wrote
        #[arg(long)]
        ptx: PathBuf,
    },
    /// Launch each kernel once, under ncu
    Launch {
        #[arg(long)]
        ptx: PathBuf,
    },
    /// Compare counters with ncu's readings of `launch`; needs no GPU
    Counters {
        #[arg(long)]
        ptx: PathBuf,
        /// From `ncu --csv --page raw`
        #[arg(long)]
        ncu: PathBuf,
        /// From `instructions.py`
        #[arg(long)]
        instructions: Option<PathBuf>,
        /// Where to write the readings of each launch
        #[arg(long)]
        table: Option<PathBuf>,
    },
    /// Compare counters with the table of `counters`; needs no GPU
    Hold {
        #[arg(long)]
        ptx: PathBuf,
        #[arg(long)]
        table: PathBuf,
    },
    /// List the counters that may not gate a launch, and why; needs no GPU
    Doubts {
        #[arg(long)]
        ptx: PathBuf,
    },
    /// Random programs in ptxsim alone; needs no GPU
    Simulate {
        #[arg(long, default_value_t = 1000)]
        programs: usize,
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// How many kernels of a project ptxsim loads, and why it refuses others; needs no GPU
    Loads {
        /// Each holds the `.ptx` files of a project
        #[arg(required = true)]
        directories: Vec<PathBuf>,
    },
    /// The forms that ptxsim builds, for fixtures/forms.list
    List,
    /// Print the PTX of every form, or of a program or kernel by its name; needs no GPU
    Ptx {
        #[arg(long)]
        seed: Option<u64>,
        /// Its name, as `mma` or `special` prints it
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
        Command::Descriptors { hashes } => {
            descriptors::run(&gpu::Gpu::open(ptxas)?, hashes.as_deref(), out)
        }
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
        Command::Loads { directories } => loads::run(&directories, out),
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
            let text = text.or_else(|| special::named(&name));
            let Some(text) = text.or_else(|| descriptors::named(&name)) else {
                return Err(format!("no program or kernel is named {name}").into());
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
