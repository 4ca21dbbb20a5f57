//! Proves ptxsim against a GPU.

mod forms;
mod gpu;
mod job;
mod program;
mod random;
mod sweep;
mod words;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about, version)]
struct Cli {
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
    },
    /// Random programs
    Random {
        #[arg(long, default_value_t = 10_000)]
        programs: usize,
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Random programs in ptxsim alone: needs no GPU
    Simulate {
        #[arg(long, default_value_t = 1000)]
        programs: usize,
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// The PTX of every form, or of a program: needs no GPU
    Ptx {
        #[arg(long)]
        seed: Option<u64>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("proof: {e}\n"));
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> gpu::Result<bool> {
    let out = &mut std::io::stdout().lock();
    match command {
        Command::Forms { filter } => sweep::run(&gpu::Gpu::open()?, &filter, out),
        Command::Random { programs, seed } => random::run(&gpu::Gpu::open()?, seed, programs, out),
        Command::Simulate { programs, seed } => random::simulate_all(seed, programs, out),
        Command::Ptx { seed: None } => {
            for (n, i) in sweep::all_instances().iter().enumerate() {
                let text = sweep::entry(&format!("f{n}"), i);
                std::io::Write::write_all(out, text.as_bytes())?;
            }
            Ok(true)
        }
        Command::Ptx { seed: Some(seed) } => {
            let p = program::Program::new(seed, &random::built_forms());
            let text = format!("{}{}", program::Program::module_head(), p.entry("p"));
            std::io::Write::write_all(out, text.as_bytes())?;
            Ok(true)
        }
    }
}
