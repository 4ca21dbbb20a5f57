//! Records processes on a GPU, and prints tables of recordings. README.md has the commands.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use clap::{Parser, Subcommand};
use power::record::{Request, record};
use power::{Change, Protocol, Recording, Settings, packed};
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "How reliable verdicts on times are: recordings of a GPU, and tables of them")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Time unchanged kernels and slowed ones on this GPU
    Record {
        /// Where to write all raw samples, compressed
        out: PathBuf,
        /// The gatekeeper of this tree, which starts as a worker
        #[arg(long, default_value = "target/release/gatekeeper")]
        gatekeeper: PathBuf,
        /// Fresh processes, each of which times every pair once
        #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(2..=10_000))]
        processes: u32,
        /// Times of one launch, in us
        #[arg(long, value_delimiter = ',', default_value = "3,20,60,1000")]
        classes: Vec<u32>,
        /// Heads to time: `0`, the same code; `code`, other machine code for the same work; or a number, a kernel that is
        /// slower by so many percent
        #[arg(long, value_delimiter = ',', value_parser = change, default_value = "0,code,1")]
        changes: Vec<Change>,
    },
    /// Print all tables of recordings of one GPU model and driver
    Tables {
        #[arg(required = true)]
        recordings: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Record {
            out,
            gatekeeper,
            processes,
            classes,
            changes,
        } => {
            let request = Request {
                gatekeeper,
                processes,
                classes,
                changes,
            };
            write(&request, &out)
        }
        Command::Tables { recordings } => print_tables(&recordings),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn write(request: &Request, out: &Path) -> Result<(), Box<dyn Error>> {
    // A file that cannot be written is reported before ten minutes of GPU time, not after.
    let mut file = File::create_new(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let recording = record(request).map_err(|error| {
        // Nothing is in it, and the next attempt needs the place.
        let _ = std::fs::remove_file(out);
        error.to_string()
    })?;
    Ok(packed::write(&recording, &mut file)?)
}

fn print_tables(files: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let read = |file: &PathBuf| -> Result<Recording, Box<dyn Error>> {
        let recording = File::open(file)
            .map_err(Box::<dyn Error>::from)
            .and_then(|file| Ok(packed::read(file)?));
        Ok(recording.map_err(|error| format!("{}: {error}", file.display()))?)
    };
    let (first, rest) = files.split_first().ok_or("no recording is named")?;
    let recording = rest
        .iter()
        .try_fold(read(first)?, |all, file| -> Result<_, Box<dyn Error>> {
            Ok(all.with(read(file)?)?)
        })?;
    // A process takes fewer samples today than were recorded.
    let analysis = power::analyse(
        &recording.shortened(Protocol::default()),
        &Settings::default(),
    )?;
    print!("{}", analysis.markdown());
    Ok(())
}

/// Reads `0`, `code`, or by how many percent head is slower.
fn change(text: &str) -> Result<Change, String> {
    match text {
        "0" => Ok(Change::None),
        "code" => Ok(Change::OtherCode),
        _ => text
            .parse()
            .ok()
            .filter(|percent: &f64| *percent > 0.0 && *percent <= 10.0)
            .map(|percent| Change::Slower(percent / 100.0))
            .ok_or_else(|| "use 0, code, or a number of percent above 0 and up to 10".to_owned()),
    }
}
