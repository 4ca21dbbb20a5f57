//! Searches recorded spaces and prints tables. README.md has the commands.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use rayon::prelude::*;
use replay::{Recorded, Trace, read_recording, replay, table};
use search::exchange::{write_cache, write_t4};
use search::{Elite, Guided, Random, Settings, Strategy};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: replay search SPACES SEEDS STRATEGY...
       replay tables SPACES OURS FIELD
       replay convert RECORDING OUT
SPACES is a directory of kernel_tuner caches, *.json.gz. RECORDING is one; OUT is T4 results where its name has _T4 in it.
Strategies: random, elite, guided";

/// Evaluations of a search.
const BUDGET: usize = 220;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["search", spaces, seeds, strategies @ ..] if !strategies.is_empty() => {
            search(Path::new(spaces), seeds, strategies)
        }
        ["tables", spaces, ours, field] => print(Path::new(spaces), ours, field),
        ["convert", from, to] => convert(Path::new(from), Path::new(to)),
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

fn read_spaces(folder: &Path) -> Result<Vec<Recorded>, Box<dyn Error>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".json.gz") && !name.contains("_T4.") {
            paths.push(folder.join(name));
        }
    }
    paths.sort();
    paths.iter().map(|it| Recorded::read(it)).collect()
}

/// Prints one line of JSON a search.
fn search(spaces: &Path, seeds: &str, strategies: &[&str]) -> Result<(), Box<dyn Error>> {
    let seeds: u64 = seeds.parse()?;
    for recorded in read_spaces(spaces)? {
        for name in strategies {
            start(name, &recorded, 0)?;
            let traces: Vec<Trace> = (0..seeds)
                .into_par_iter()
                .filter_map(|seed| {
                    let mut strategy = start(name, &recorded, seed).ok()?;
                    Some(replay(&recorded, &mut *strategy, name, seed, BUDGET))
                })
                .collect();
            for trace in traces {
                println!("{}", serde_json::to_string(&trace)?);
            }
        }
    }
    Ok(())
}

fn start(name: &str, recorded: &Recorded, seed: u64) -> Result<Box<dyn Strategy>, Box<dyn Error>> {
    let space = recorded.space.clone();
    Ok(match name {
        "random" => Box::new(Random::new(&space, seed)),
        "elite" => Box::new(Elite::new(space, seed, &[])),
        "guided" => Box::new(Guided::new(space, seed, &[], Settings::default())),
        _ => return Err(format!("{name} is no strategy\n{USAGE}").into()),
    })
}

fn print(spaces: &Path, ours: &str, field: &str) -> Result<(), Box<dyn Error>> {
    let [ours, field] = [read_traces(ours)?, read_traces(field)?];
    let tables: Vec<String> = read_spaces(spaces)?
        .iter()
        .map(|it| table(&it.name, it.optimum, &ours, &field))
        .collect();
    println!("{}", tables.join("\n"));
    Ok(())
}

fn read_traces(file: &str) -> Result<Vec<Trace>, Box<dyn Error>> {
    let text = fs::read_to_string(file)?;
    let traces = text.lines().map(serde_json::from_str);
    Ok(traces
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{file}: {error}"))?)
}

/// To T4 where the new name has _T4 in it, else to a cache.
fn convert(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    let recording = read_recording(from)?;
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let text = if name.contains("_T4.") {
        write_t4(&recording)?
    } else {
        write_cache(&recording)?
    };
    Ok(fs::write(to, text)?)
}
