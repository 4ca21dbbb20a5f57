//! Redoes the analysis of a recording, from standard input:
//! `cargo run --release -p power --example tables < recording.json.gz`, or with `-- simulated` that of
//! processes that no machine ever ran.

#![allow(clippy::print_stdout)]

use power::simulate::World;
use power::{Bound, Recording, Settings, analyse, packed};

/// The four kernels of issue 4, unchanged and at two settings of a dial, on a machine with few faults.
fn simulated() -> Recording {
    let kernels = [
        ("spin", Bound::Compute, 3_000.0, 70),
        ("spin", Bound::Compute, 20_000.0, 10),
        ("copy", Bound::Memory, 60_000.0, 4),
        ("copy", Bound::Memory, 1_000_000.0, 1),
    ];
    let mut contests = Vec::new();
    for (index, (name, bound, launch_ns, launches)) in kernels.into_iter().enumerate() {
        for (dial, true_change, processes) in [(0, 0.0, 300), (1, 0.01, 100), (2, 0.02, 100)] {
            let world = World {
                base_ns: launch_ns * f64::from(launches),
                launches_per_sample: launches,
                true_change,
                between: 0.001,
                wander: 0.001,
                interrupt: 0.01,
                singles: 40,
                ..World::quiet()
            };
            let mut contest = world.contest(name, processes, index as u64 * 3 + dial);
            contest.bound = bound;
            contests.push(contest);
        }
    }
    Recording {
        device: "simulated".to_owned(),
        driver: "none".to_owned(),
        date: "2026-11-21".to_owned(),
        tick_ns: 32.0,
        contests,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recording = match std::env::args().nth(1).as_deref() {
        Some("simulated") => simulated(),
        _ => packed::read(std::io::stdin().lock())?,
    };
    let mut file = Vec::new();
    packed::write(&recording, &mut file)?;
    println!("{}", analyse(&recording, &Settings::default())?.markdown());
    println!("The recording takes {} KiB.", file.len() / 1024);
    Ok(())
}
