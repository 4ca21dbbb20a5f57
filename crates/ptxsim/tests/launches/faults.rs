//! Pipelines of TMA, mbarriers and wgmma with one fault each, named by kind and line, and right without it
//! (tests/fixtures/pipelines.cu, as nvcc 13.0.88 compiled it for sm_90a).

use crate::common::*;
use half::f16;
use model::{Boxes, MapElement, Swizzle, TensorMap};
use ptxsim::*;

const EDGE: usize = 64;
const TILES: usize = 5;

/// As in pipelines.cu.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Nothing,
    Parity,
    EarlyRelease,
    StageCount,
    MoreBytes,
    FewerBytes,
    ExpectTwice,
    Outside,
    InAnother,
    Stride,
    Swizzle,
    NoWait,
    NoCommit,
    NoFence,
    NoReadWait,
    NoStoreCommit,
    Overwritten,
    ReleaseBeforeProduct,
    TwoInAStage,
    OneReleases,
    OneReleasesEarly,
    LanesInit,
    LanesInitUnlike,
    LanesStore,
    LanesStoreUnlike,
}

/// The number of the line of pipelines.cu that has a text.
fn line_of(text: &str) -> u32 {
    let path = format!("{}/tests/fixtures/pipelines.cu", env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(path).unwrap();
    let found = source.lines().position(|line| line.contains(text));
    1 + found.unwrap_or_else(|| panic!("{text}")) as u32
}

pub fn map(rows: usize, columns: usize) -> TensorMap {
    TensorMap {
        element: MapElement::F16,
        extents: vec![columns as u64, rows as u64],
        strides: vec![2 * columns as u64],
        boxes: Boxes::Tiled(vec![EDGE as u32, rows as u32]),
        steps: vec![1; 2],
        swizzle: Swizzle::Bytes128,
        fills_nan: false,
    }
}

pub fn halves(random: &mut Random, count: usize) -> (Vec<u8>, Vec<f64>) {
    let some: Vec<f16> = (0..count)
        .map(|_| f16::from_f32((random.next() % 9) as f32 - 4.0))
        .collect();
    (
        some.iter().flat_map(|h| h.to_le_bytes()).collect(),
        some.iter().map(|h| h.to_f64()).collect(),
    )
}

struct Outcome {
    report: Result<Report, Fault>,
    is_right: bool,
}

fn run(kernel: &str, planted: Planted) -> Outcome {
    let text = fixture("pipelines");
    let module = load(&text);
    let kernel = module.kernel(kernel).unwrap();
    let mut memory = Memory::default();
    let mut random = Random(9);
    let (mut args, mut want, fault) = (Vec::new(), Vec::new(), planted as i32);
    let (rows, columns, depth) = match kernel.name() {
        "pipeline" => (EDGE, 16, EDGE * TILES),
        "fragments" => (EDGE, 8, 16),
        _ => (EDGE, EDGE * TILES, 0),
    };
    let mut threads = 128;
    let mut buffers = Vec::new();
    let out = match kernel.name() {
        "epilogue" => {
            let out = memory.alloc("out", (2 * rows * columns) as u64).unwrap();
            args.push(
                encode_tensor_map(&map(rows, columns), out)
                    .unwrap()
                    .to_vec(),
            );
            args.push((TILES as i32).to_le_bytes().to_vec());
            for _ in 0..rows {
                want.extend((0..columns).flat_map(|c| ((c / EDGE) as u16).to_le_bytes()));
            }
            out
        }
        name => {
            let [a, b] = [rows, columns].map(|lines| halves(&mut random, lines * depth));
            let places = [put(&mut memory, "a", &a.0), put(&mut memory, "b", &b.0)];
            buffers.extend([(places[0], a.0.len()), (places[1], b.0.len())]);
            let out = memory.alloc("out", (4 * rows * columns) as u64).unwrap();
            let each = [(rows, places[0]), (columns, places[1])];
            let times = match name {
                "pipeline" => {
                    threads = 160;
                    args.extend(each.map(|(lines, at)| {
                        encode_tensor_map(&map(lines, depth), at).unwrap().to_vec()
                    }));
                    1.0
                }
                _ => {
                    args.extend(places.map(|at| at.to_le_bytes().to_vec()));
                    2.0
                }
            };
            args.push(out.to_le_bytes().to_vec());
            if name == "pipeline" {
                args.push((TILES as i32).to_le_bytes().to_vec());
            }
            for (row, column) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
                let products = (0..depth).map(|k| a.1[row * depth + k] * b.1[column * depth + k]);
                want.extend(((times * products.sum::<f64>()) as f32).to_le_bytes());
            }
            out
        }
    };
    args.push(fault.to_le_bytes().to_vec());
    let mut params = vec![0; kernel.parameter_bytes() as usize];
    for ((at, bytes), arg) in kernel.parameters().into_iter().zip(&args) {
        assert_eq!(bytes as usize, arg.len());
        params[at as usize..][..arg.len()].copy_from_slice(arg);
    }
    buffers.push((out, want.len()));
    let report = launch_kept(
        (&text, kernel),
        [1; 3],
        [threads, 1, 1],
        0,
        &params,
        &mut memory,
        &buffers,
        Some(kept::Wanted {
            at: out,
            bytes: &want,
            compared: kept::Compared::Bytes,
        }),
    );
    let is_right = memory.read(out, want.len()).unwrap() == want;
    Outcome { report, is_right }
}

#[test]
fn right_pipelines_raise_nothing_and_are_right() {
    for (kernel, way) in [
        ("pipeline", Planted::Nothing),
        ("fragments", Planted::Nothing),
        ("epilogue", Planted::Nothing),
        // One thread releases for its warpgroup: all have multiplied when one has waited.
        ("pipeline", Planted::OneReleases),
        // All lanes of a warp make the same mbarriers, and store the same box.
        ("pipeline", Planted::LanesInit),
        ("epilogue", Planted::LanesStore),
    ] {
        let outcome = run(kernel, way);
        clean(outcome.report);
        assert!(outcome.is_right, "{kernel} {way:?}");
    }
}

const LATE: FindingKind = FindingKind::AsyncBeforeWait;
const RACE: FindingKind = FindingKind::SharedRace;
const WITHIN: FindingKind = FindingKind::WarpRace;
const LAYOUT: FindingKind = FindingKind::WrongLayout;
const PRODUCT: &str = "// the product";

/// A fault, the kind of its finding, what that says, and a part of the line that it names.
type Expected = (Planted, FindingKind, &'static str, &'static str);

/// The expected findings that a kernel lacks.
fn missed(kernel: &str, all: &[Expected]) -> Vec<String> {
    let miss = |&(planted, kind, says, part): &Expected| {
        let line = line_of(part);
        let findings = match run(kernel, planted).report {
            Ok(report) => report.findings,
            Err(fault) => return Some(format!("{planted:?}: {fault}")),
        };
        let called = format!("inlined at pipelines.cu:{line} ");
        let at = |f: &Finding| {
            let mut places = f.places.iter().filter_map(|p| p.line.clone());
            places.any(|(file, at)| match file.as_str() {
                "pipelines.cu" => at == line,
                // A function of the header stands for the line that calls it.
                _ => f.message.contains(&called),
            })
        };
        let is_it = |f: &Finding| f.kind == kind && f.message.contains(says) && at(f);
        let told = findings.iter().map(|f| (f.kind, &f.message));
        (!findings.iter().any(is_it))
            .then(|| format!("{planted:?} at {line}: {:#?}", told.collect::<Vec<_>>()))
    };
    all.iter().filter_map(miss).collect()
}

#[test]
fn each_fault_is_a_finding_of_its_kind_at_its_line() {
    use Planted::*;
    let mut all = missed(
        "pipeline",
        &[
            (EarlyRelease, RACE, "are not ordered", "LOAD(tile_b[s]"),
            (
                ReleaseBeforeProduct,
                RACE,
                "are not ordered",
                "// TWO_IN_A_STAGE",
            ),
            (
                OneReleasesEarly,
                RACE,
                "are not ordered",
                "// TWO_IN_A_STAGE",
            ),
            (
                LanesInitUnlike,
                RACE,
                "this write and the write",
                "// unlike counts",
            ),
            (Parity, LATE, "is still in flight", PRODUCT),
            (
                TwoInAStage,
                LATE,
                "is overwritten by this cp.async.bulk",
                "// TWO_IN_A_STAGE",
            ),
            (NoWait, LATE, "before a wgmma.wait_group", "// the sums"),
            (NoCommit, LATE, "before a wgmma.wait_group", "// the sums"),
            (InAnother, LAYOUT, "leads out of it", PRODUCT),
            (
                Stride,
                LAYOUT,
                "the stride offset in the descriptor of B is 512 bytes",
                PRODUCT,
            ),
            (
                Swizzle,
                LAYOUT,
                "the descriptor of A has a swizzle of 64 bytes",
                PRODUCT,
            ),
        ],
    );
    let register = (
        Overwritten,
        LATE,
        "a register of the A of wgmma",
        "// OVERWRITTEN",
    );
    all.extend(missed("fragments", &[register]));
    let tile = "// the tile is written";
    all.extend(missed(
        "epilogue",
        &[
            (
                NoFence,
                RACE,
                "no fence.proxy.async orders this",
                "// the store",
            ),
            (
                LanesStoreUnlike,
                WITHIN,
                "race within a warp",
                "// the store",
            ),
            (NoReadWait, LATE, "may still read it", tile),
            (NoStoreCommit, LATE, "may still read it", tile),
        ],
    ));
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn each_fault_that_stops_a_pipeline_is_named_at_its_line() {
    use Planted::*;
    let wait = "// the consumer's wait";
    let (deadlock, outside) = (FaultKind::Deadlock, FaultKind::OutOfBounds);
    let mut all = Vec::new();
    for (planted, kind, says, part) in [
        (StageCount, deadlock, "wait for the mbarrier", wait),
        (
            MoreBytes,
            deadlock,
            "to which 512 expected bytes were not copied",
            wait,
        ),
        (
            FewerBytes,
            deadlock,
            "to which 512 bytes more than expected were copied",
            wait,
        ),
        (
            ExpectTwice,
            deadlock,
            "to which 10240 expected bytes were not copied",
            wait,
        ),
        (
            Outside,
            outside,
            "the descriptor of A leads to shared address",
            PRODUCT,
        ),
    ] {
        let place = format!("pipelines.cu:{}", line_of(part));
        match run("pipeline", planted).report {
            Err(f) if f.kind == kind && f.message.contains(says) && f.message.contains(&place) => {}
            other => all.push(format!("{planted:?} at {place}: {other:#?}")),
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
