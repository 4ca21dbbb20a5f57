//! Tables from recordings. README.md has the command.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use calibration::{Recording, Settings, packed};
use std::error::Error;
use std::fs::File;
use std::process::ExitCode;

const USAGE: &str = "usage: power tables RECORDING...";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((command, files)) if command == "tables" && !files.is_empty() => tables(files),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn tables(files: &[String]) -> Result<(), Box<dyn Error>> {
    let mut all: Option<Recording> = None;
    for file in files {
        let recording = File::open(file)
            .map_err(Box::<dyn Error>::from)
            .and_then(|file| Ok(packed::read(file)?))
            .map_err(|error| format!("{file}: {error}"))?;
        all = Some(match all {
            None => recording,
            Some(all) => all.with(recording)?,
        });
    }
    let recording = all.ok_or(USAGE)?;
    print!(
        "{}",
        power::compare(&recording, &Settings::default())?.markdown()
    );
    Ok(())
}
