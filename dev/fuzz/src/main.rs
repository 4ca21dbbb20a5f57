//! Reads damaged copies of compiled files, and of archives with them, as `gatekeeper binary` does. It fails at a panic, at
//! too much memory, and where a copy takes more than a few seconds.
//!
//! ```sh
//! cd dev && RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile fuzz -p fuzz --target x86_64-unknown-linux-gnu
//! target/x86_64-unknown-linux-gnu/fuzz/fuzz --seconds 3600 --threads 16 SEED_FILES...
//! ```

mod memory;
mod mutate;

use clap::Parser;
use mutate::{Random, mutated};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A member of any archive may unpack to 64 MiB, and an entry to 2048 times its size; seeds have a few KiB.
const MOST_MEMORY: u64 = 256 << 20;

const MOST_TIME: Duration = Duration::from_secs(5);

#[derive(Parser)]
struct Args {
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// The number of the first run; each further run has the next one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do this run alone, and write its input to a file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Cubins, fat binaries, objects, archives, wheels: small ones, in the same order for the same runs
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// The cost of a run that ended, and whether its input could be listed.
struct Done {
    is_listed: bool,
    memory: u64,
    time: Duration,
}

/// Reads an input. Returns an error if reading panics, or takes too much memory or time.
fn examine(read: impl FnOnce() -> bool) -> Result<Done, String> {
    let start = Instant::now();
    let (result, memory) = memory::peak(|| catch_unwind(AssertUnwindSafe(read)));
    let time = start.elapsed();
    match result {
        Err(_) => Err("it panics".to_owned()),
        Ok(_) if memory > MOST_MEMORY => Err(format!("it takes {memory} bytes of memory")),
        Ok(_) if time > MOST_TIME => Err(format!("it takes {time:?}")),
        Ok(is_listed) => Ok(Done {
            is_listed,
            memory,
            time,
        }),
    }
}

fn read(input: &[u8]) -> bool {
    artifact::read_bytes(input, "input").is_ok_and(|byte| byte.is_some())
}

struct Progress {
    next: AtomicU64,
    failed: AtomicBool,
    listed: AtomicU64,
    most_memory: AtomicU64,
    most_micros: AtomicU64,
    /// For each thread: its run, and since when, in milliseconds from the start.
    current: Vec<(AtomicU64, AtomicU64)>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut seeds = Vec::new();
    for file in &args.files {
        match std::fs::read(file) {
            Ok(bytes) => seeds.push(bytes),
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                return ExitCode::from(2);
            }
        }
    }
    if let Some(file) = &args.write {
        let input = mutated(&seeds, &mut Random::new(args.seed));
        if let Err(error) = std::fs::write(file, &input) {
            eprintln!("{}: {error}", file.display());
            return ExitCode::from(2);
        }
        return match examine(|| read(&input)) {
            Ok(_) => ExitCode::SUCCESS,
            Err(why) => {
                println!("run {}: {why}", args.seed);
                ExitCode::FAILURE
            }
        };
    }
    let start = Instant::now();
    let millis = || start.elapsed().as_millis() as u64;
    let progress = Progress {
        next: AtomicU64::new(args.seed),
        failed: AtomicBool::new(false),
        listed: AtomicU64::new(0),
        most_memory: AtomicU64::new(0),
        most_micros: AtomicU64::new(0),
        current: (0..args.threads).map(|_| Default::default()).collect(),
    };
    let is_over = || start.elapsed().as_secs() >= args.seconds;
    std::thread::scope(|scope| {
        for (run, since) in &progress.current {
            let (seeds, progress) = (&seeds, &progress);
            scope.spawn(move || {
                let work = || {
                    while !is_over() {
                        let number = progress.next.fetch_add(1, Relaxed);
                        let input = mutated(seeds, &mut Random::new(number));
                        since.store(millis(), Relaxed);
                        run.store(number, Relaxed);
                        match examine(|| read(&input)) {
                            Ok(done) => {
                                progress
                                    .listed
                                    .fetch_add(u64::from(done.is_listed), Relaxed);
                                progress.most_memory.fetch_max(done.memory, Relaxed);
                                let micros = done.time.as_micros() as u64;
                                progress.most_micros.fetch_max(micros, Relaxed);
                            }
                            Err(why) => {
                                println!("run {number}: {why}");
                                progress.failed.store(true, Relaxed);
                            }
                        }
                        run.store(0, Relaxed);
                    }
                };
                // Work for all cores runs on this thread instead, whose memory is counted.
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(1)
                    .use_current_thread();
                match pool.build() {
                    Ok(pool) => pool.install(work),
                    Err(error) => eprintln!("no threads: {error}"),
                }
            });
        }
        // This thread ends the process if a run takes four times as long as it may, because a run without end cannot
        // be waited for.
        scope.spawn(|| {
            while !is_over() {
                std::thread::sleep(Duration::from_millis(200));
                for (run, since) in &progress.current {
                    let number = run.load(Relaxed);
                    let taken = millis().saturating_sub(since.load(Relaxed));
                    if number != 0 && taken > 4 * MOST_TIME.as_millis() as u64 {
                        println!("run {number}: it has not ended after {taken} ms");
                        std::process::exit(1);
                    }
                }
            }
        });
    });
    let runs = progress.next.load(Relaxed) - args.seed;
    let Progress {
        listed,
        most_memory,
        most_micros,
        ..
    } = &progress;
    println!(
        "{runs} runs in {:?}; {} list kernels; at most {} bytes of memory and {} us",
        start.elapsed(),
        listed.load(Relaxed),
        most_memory.load(Relaxed),
        most_micros.load(Relaxed)
    );
    if progress.failed.load(Relaxed) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_memory_and_time_are_failures() {
        let why = |read: fn() -> bool| examine(read).err();
        assert_eq!(why(|| true), None);
        assert_eq!(why(|| panic!("planted")), Some("it panics".to_owned()));
        let memory = why(|| vec![0_u8; 2 << 30].len() > 1).unwrap_or_default();
        assert!(memory.starts_with("it takes 2147483648 bytes"), "{memory}");
        let time = why(|| {
            std::thread::sleep(MOST_TIME + Duration::from_millis(100));
            true
        });
        assert!(time.unwrap_or_default().starts_with("it takes 5.1"));
    }

    #[test]
    fn a_number_gives_the_same_input_each_time() {
        let seeds = [b"\x7fELF0123456789".to_vec(), vec![7; 5000]];
        let of = |number| mutated(&seeds, &mut Random::new(number));
        let inputs: Vec<_> = (0..2000).map(of).collect();
        assert!((0..2000).all(|number| of(number) == inputs[number as usize]));
        let unchanged = inputs.iter().filter(|input| seeds.contains(input)).count();
        assert!(unchanged < 200, "{unchanged}");
    }
}
