//! What `tune` asks the simulator before any GPU time, of real code. On a machine without a GPU no search asks, so this
//! is a program of its own: workers are the executable that starts them.
#![allow(clippy::unwrap_used, reason = "tests")]

use build::Built;
use build::toolchain;
use gatekeeper::pipeline::{Bench, Profile, Request};
use gatekeeper::tune::candidate::Candidate;
use gatekeeper::tune::lab::{Lab, OnBench};
use gatekeeper::tune::outcome::Values;
use run::device::DeviceChoice;
use run::worker;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use system::cache::Cache;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(worker::SUBCOMMAND) {
        return worker::child::main(DeviceChoice::Sim);
    }
    the_simulator_says_what_it_expects_of_what_it_takes();
    ExitCode::SUCCESS
}

/// Of what is wrong, does not compile, breaks a gate or does not end nothing is expected, and the others are none the
/// worse for it.
fn the_simulator_says_what_it_expects_of_what_it_takes() {
    toolchain::testing::toolchain();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tune");
    let file = root.join("gates.yaml");
    let tuning = config::load_tuning(&file, "sums", None).unwrap();
    let cache = Cache::open().unwrap();
    let request = Request {
        config: file,
        device: DeviceChoice::Sim,
        require_gpu: false,
        allow_fallback: false,
        provision: false,
        profile: Profile::No,
        dump: None,
        base: None,
        shard: None,
        command: String::new(),
    };
    let loaded = tuning.loaded.clone();
    let (shop, mut bench) = Bench::open(&request, loaded, &cache, &|_| {}, &|_| {}).unwrap();
    let all = [
        (64, 0),
        (128, 0),
        (128, 1),
        (128, 3),
        (128, 4),
        (512, 0),
        (2048, 0),
    ];
    let candidate = |((threads, shortcut), number)| {
        let pairs = [("THREADS", threads), ("SHORTCUT", shortcut), ("HINT", 0)];
        let values: Values = pairs.map(|(name, value)| (name.to_owned(), value)).into();
        let mut candidate = Candidate::new(&tuning, number, None, values, None);
        candidate.built = match &candidate.asked {
            Ok(asked) => shop.build(&asked.units).unwrap(),
            Err(_) => Vec::<Built>::new(),
        };
        candidate
    };
    let all: Vec<Candidate> = all.into_iter().zip(1..).map(candidate).collect();
    let batch: Vec<&Candidate> = all.iter().collect();
    let mut lab = OnBench::new(&mut bench, &tuning.tune.objective);
    let mut foresee = |shape, budget| lab.foresee(&batch, shape, budget).unwrap();

    let at_rows = foresee(Some("rows"), 1_000_000);
    let shapes = |it: &BTreeMap<String, _>| it.keys().cloned().collect::<Vec<String>>();
    let (right, wrong) = at_rows.split_at(2);
    assert!(right.iter().all(|it| shapes(it) == ["rows"]), "{at_rows:?}");
    assert!(wrong.iter().all(BTreeMap::is_empty), "{at_rows:?}");
    for foreseen in right.iter().map(|it| &it["rows"]) {
        let uses = &foreseen.uses;
        assert!(!uses.is_empty() && uses.values().all(|it| (0.0..=1.0).contains(it)));
    }

    // At all shapes: more is expected where there is more to do.
    let both = foresee(None, 1_000_000);
    let ns = |shape: &str| both[0][shape].estimated_ns;
    assert_eq!(both[0]["rows"], at_rows[0]["rows"]);
    assert!(0.0 < ns("ragged") && ns("ragged") < ns("rows"), "{both:?}");
    // Those that so few warp instructions are enough for.
    let small = foresee(None, 1000);
    assert_eq!(shapes(&small[0]), ["ragged"]);
}
