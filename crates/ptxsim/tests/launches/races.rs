//! Races that public kernels had: each is named by its kind and both of its lines, and the fixed kernel is clean
//! (tests/fixtures/races.cu, as nvcc 13.0.88 compiled it for sm_90a, says whose they were).

use crate::common::*;
use ptxsim::*;

/// The number of the line of races.cu that ends in a text.
fn line_of(text: &str) -> u32 {
    let path = format!("{}/tests/fixtures/races.cu", env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(path).unwrap();
    let found = source.lines().position(|line| line.ends_with(text));
    1 + found.unwrap_or_else(|| panic!("{text}")) as u32
}

struct Race {
    kernel: &'static str,
    blocks: u32,
    threads: u32,
    /// Words that are read, and words that are written.
    buffers: &'static [usize],
    numbers: &'static [i32],
    kind: FindingKind,
    says: &'static str,
    /// The ends of the two lines.
    lines: [&'static str; 2],
}

const RACES: [Race; 7] = [
    Race {
        kernel: "histogram_of_rounds",
        blocks: 1,
        threads: 128,
        buffers: &[512, 128],
        numbers: &[512],
        kind: FindingKind::SharedRace,
        says: "are not ordered",
        lines: ["// cleared", "// read"],
    },
    Race {
        kernel: "storage_of_a_loop",
        blocks: 1,
        threads: 128,
        buffers: &[512, 128],
        numbers: &[512],
        kind: FindingKind::SharedRace,
        says: "are not ordered",
        lines: ["// stored", "// summed"],
    },
    Race {
        kernel: "barrier_of_blocks",
        blocks: 2,
        threads: 128,
        buffers: &[256, 1, 256],
        numbers: &[],
        kind: FindingKind::GlobalRace,
        says: "are not ordered",
        lines: ["// counted", "// taken"],
    },
    Race {
        kernel: "state_in_f32",
        blocks: 1,
        threads: 256,
        buffers: &[256, 256],
        numbers: &[],
        kind: FindingKind::SharedRace,
        says: "no fence.proxy.async orders this",
        lines: ["// converted", "// copied"],
    },
    Race {
        kernel: "barrier_of_a_cluster",
        blocks: 2,
        threads: 128,
        buffers: &[128],
        numbers: &[],
        kind: FindingKind::SharedRace,
        says: "are not ordered",
        lines: ["// written", "// read there"],
    },
    Race {
        kernel: "halves_of_two_groups",
        blocks: 1,
        threads: 64,
        buffers: &[256, 32],
        numbers: &[4],
        kind: FindingKind::SharedRace,
        says: "are not ordered",
        lines: ["// half", "// both halves"],
    },
    Race {
        kernel: "counted_twice",
        blocks: 1,
        threads: 128,
        buffers: &[128, 128],
        numbers: &[],
        kind: FindingKind::SharedRace,
        says: "are not ordered",
        lines: ["// own part", "// part of another warp"],
    },
];

fn run(race: &Race, fault: i32) -> Result<Report, Fault> {
    let text = fixture("races");
    let module = load(&text);
    let kernel = module.kernel(race.kernel).unwrap();
    let mut memory = Memory::default();
    let buffers = race.buffers.iter().enumerate();
    let buffers = buffers.map(|(n, words)| {
        Arg::Ptr(put(
            &mut memory,
            &format!("buffer {n}"),
            &vec![0; 4 * words],
        ))
    });
    let mut args: Vec<Arg> = buffers.collect();
    args.extend(race.numbers.iter().map(|n| Arg::I32(*n)));
    args.push(Arg::I32(fault));
    launch(
        kernel,
        [race.blocks, 1, 1],
        [race.threads, 1, 1],
        0,
        &params(kernel, &args),
        &mut memory,
        limits(),
    )
}

#[test]
fn fixed_kernels_are_clean() {
    for race in &RACES {
        let report = run(race, 0).unwrap_or_else(|fault| panic!("{}: {fault}", race.kernel));
        assert!(
            report.findings.is_empty(),
            "{}: {:#?}",
            race.kernel,
            report.findings
        );
    }
}

#[test]
fn public_races_are_named_by_both_of_their_lines() {
    let mut missed = Vec::new();
    for race in &RACES {
        let lines = race
            .lines
            .map(|text| ("races.cu".to_owned(), line_of(text)));
        let findings = match run(race, 1) {
            Ok(report) => report.findings,
            Err(fault) => {
                missed.push(format!("{}: {fault}", race.kernel));
                continue;
            }
        };
        let is_it = |f: &Finding| {
            let places: Vec<_> = f.places.iter().filter_map(|p| p.line.clone()).collect();
            f.kind == race.kind
                && f.message.contains(race.says)
                && lines.iter().all(|line| places.contains(line))
        };
        if !findings.iter().any(is_it) {
            let told = findings.iter().map(|f| (f.kind, &f.message));
            let told: Vec<_> = told.collect();
            missed.push(format!("{} at {lines:?}: {told:#?}", race.kernel));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
