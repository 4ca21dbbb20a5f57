//! Idioms of CUTLASS 3 and FlashAttention 3 (tests/fixtures/idioms_of_hopper.cu, as nvcc 13.0.88 compiled it for sm_90a):
//! nothing is said of the right ones, and each fault is named by kind and line. Others are in `faults` (a producer warp, an
//! epilogue by TMA), `clusters` (multicast to two and four blocks) and `hopper` (registers moved, ping-pong).

use super::faults::{halves, map};
use crate::common::*;
use model::{Boxes, MapElement, Swizzle, TensorMap};
use ptxsim::*;

/// As in idioms_of_hopper.cu.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Nothing,
    NoTurn,
    SameTurn,
    RelaxedFlag,
    PlainFlag,
    EarlyFlag,
    Restarted,
    EveryLane,
    TooManyStores,
    NoBarrier,
    NotAdded,
    EarlyRead,
    ReleasesCurrent,
    NoFirstTurn,
    NoNamedWait,
}

/// The number of the line that has a text.
fn line_of(text: &str) -> u32 {
    let source = include_str!("../fixtures/idioms_of_hopper.cu");
    let found = source.lines().position(|line| line.contains(text));
    1 + found.unwrap_or_else(|| panic!("{text}")) as u32
}

/// A launch, with the output that it has to give.
struct Given {
    memory: Memory,
    args: Vec<Vec<u8>>,
    buffers: Vec<(u64, usize)>,
    grid: u32,
    threads: u32,
    out: u64,
    want: Vec<u8>,
}

impl Given {
    fn new(grid: u32, threads: u32) -> Given {
        Given {
            memory: Memory::default(),
            args: Vec::new(),
            buffers: Vec::new(),
            grid,
            threads,
            out: 0,
            want: Vec::new(),
        }
    }

    fn put(&mut self, name: &str, bytes: &[u8]) -> u64 {
        let at = put(&mut self.memory, name, bytes);
        self.buffers.push((at, bytes.len()));
        at
    }

    /// Without a value.
    fn room(&mut self, name: &str, bytes: usize) -> u64 {
        let at = self.memory.alloc(name, bytes as u64).unwrap();
        self.buffers.push((at, bytes));
        at
    }

    fn number(mut self, number: i32) -> Given {
        self.args.push(number.to_le_bytes().to_vec());
        self
    }

    /// Maps of A, of which a tile has so many rows, and B; the sums of their products are wanted.
    fn matrices(mut self, rows: usize, tile_rows: usize, depth: usize) -> Given {
        let mut random = Random(11);
        let [a, b] = [rows, 16].map(|lines| halves(&mut random, lines * depth));
        for ((bytes, _), name, lines, box_rows) in [(&a, "a", rows, tile_rows), (&b, "b", 16, 16)] {
            let at = self.put(name, bytes);
            let mut map = map(lines, depth);
            map.boxes = Boxes::Tiled(vec![map.boxes.row(), box_rows as u32]);
            self.args
                .push(encode_tensor_map(&map, at).unwrap().to_vec());
        }
        for (row, column) in (0..rows).flat_map(|r| (0..16).map(move |c| (r, c))) {
            let products = (0..depth).map(|k| a.1[row * depth + k] * b.1[column * depth + k]);
            self.want
                .extend((products.sum::<f64>() as f32).to_le_bytes());
        }
        self
    }

    fn out(mut self) -> Given {
        self.out = self.room("out", self.want.len());
        self.args.push(self.out.to_le_bytes().to_vec());
        self
    }
}

fn given(kernel: &str) -> Given {
    const DEPTH: usize = 192;
    let words = |n: usize| -> Vec<u8> { (0..n).flat_map(|i| (i as f32).to_le_bytes()).collect() };
    match kernel {
        "ping_pong" => Given::new(1, 384)
            .matrices(5 * 64, 64, DEPTH)
            .out()
            .number(5),
        "stream_k" => {
            let mut it = Given::new(3, 128).matrices(2 * 64, 64, DEPTH).out();
            let workspace = it.room("workspace", 2 * 64 * 16 * 4);
            let flags = it.put("flags", &[0; 8]);
            it.args
                .extend([workspace, flags].map(|at| at.to_le_bytes().to_vec()));
            it
        }
        "persistent" => Given::new(2, 384)
            .matrices(3 * 128, 128, DEPTH)
            .out()
            .number(3),
        "stored_by_turns" => {
            let mut it = Given::new(1, 128);
            for _ in 0..64 {
                it.want
                    .extend((0..5 * 64).flat_map(|c: u16| (c / 64).to_le_bytes()));
            }
            it.out = it.room("out", it.want.len());
            let mut map = map(64, 5 * 64);
            // As the buffer lies.
            map.swizzle = Swizzle::Bytes128;
            it.args
                .push(encode_tensor_map(&map, it.out).unwrap().to_vec());
            it.number(5)
        }
        "dependent" => {
            let mut it = Given::new(2, 128);
            let from = it.put("in", &words(256));
            it.args.push(from.to_le_bytes().to_vec());
            it.want = (0..256)
                .flat_map(|i| (2.0 * i as f32).to_le_bytes())
                .collect();
            it.out()
        }
        "summed" => {
            let mut it = Given::new(3, 128).matrices(64, 64, DEPTH);
            it.out = it.put("out", &[0; 64 * 16 * 4]);
            let map = TensorMap {
                element: MapElement::F32,
                extents: vec![16, 64],
                strides: vec![64],
                boxes: Boxes::Tiled(vec![16, 64]),
                steps: vec![1; 2],
                swizzle: Swizzle::None,
                fills_nan: false,
            };
            it.args
                .push(encode_tensor_map(&map, it.out).unwrap().to_vec());
            it
        }
        "two_under_way" => Given::new(1, 160).matrices(64, 64, 2 * DEPTH).out(),
        "named_turns" => {
            let mut it = Given::new(1, 256);
            let from = it.put("in", &words(3 * 256));
            it.args.push(from.to_le_bytes().to_vec());
            let each = |thread: usize| {
                let at = thread / 128 * 128 + ((thread % 128) ^ 37);
                (0..3).map(|round| (round * 256 + at) as f32).sum::<f32>()
            };
            it.want = (0..256)
                .flat_map(|thread| each(thread).to_le_bytes())
                .collect();
            it.out().number(3)
        }
        other => panic!("{other}"),
    }
}

fn run(name: &str, planted: Planted) -> (Result<Report, Fault>, bool) {
    let text = fixture("idioms_of_hopper");
    let module = load(&text);
    let kernel = module.kernel(name).unwrap();
    let mut it = given(name);
    if name != "dependent" {
        it = it.number(planted as i32);
    }
    let mut params = vec![0; kernel.parameter_bytes() as usize];
    for ((at, bytes), arg) in kernel.parameters().into_iter().zip(&it.args) {
        assert_eq!(bytes as usize, arg.len());
        params[at as usize..][..arg.len()].copy_from_slice(arg);
    }
    kept::name_next(&match planted {
        Planted::Nothing => format!("idioms_of_hopper.{name}"),
        _ => format!("idioms_of_hopper.{name}.{planted:?}"),
    });
    let report = launch_kept(
        (&text, kernel),
        [it.grid, 1, 1],
        [it.threads, 1, 1],
        0,
        &params,
        &mut it.memory,
        &it.buffers,
        Some(kept::Wanted {
            at: it.out,
            bytes: &it.want,
            compared: kept::Compared::Bytes,
        }),
    );
    let is_right = it.memory.read(it.out, it.want.len()).unwrap() == it.want;
    (report, is_right)
}

#[test]
fn right_idioms_of_hopper_raise_nothing_and_are_right() {
    let text = fixture("idioms_of_hopper");
    for kernel in load(&text).kernels() {
        let (report, is_right) = run(kernel.name(), Planted::Nothing);
        let report = report.unwrap_or_else(|f| panic!("{}: {f}", kernel.name()));
        assert!(
            report.findings.is_empty(),
            "{}: {:#?}",
            kernel.name(),
            report.findings
        );
        assert!(is_right, "{}", kernel.name());
    }
}

#[test]
fn each_fault_of_an_idiom_is_a_finding_at_its_line() {
    use FindingKind::*;
    use Planted::*;
    let mut wrong = Vec::new();
    for (kernel, planted, kind, says, part) in [
        (
            "ping_pong",
            NoTurn,
            SharedRace,
            "are not ordered",
            "// the sums of a group",
        ),
        (
            "stream_k",
            RelaxedFlag,
            GlobalRace,
            "are not ordered",
            "// the part is added",
        ),
        (
            "stream_k",
            EarlyFlag,
            GlobalRace,
            "are not ordered",
            "// the part is added",
        ),
        (
            "stored_by_turns",
            TooManyStores,
            AsyncBeforeWait,
            "may still read it",
            "// a buffer is written",
        ),
        (
            "stored_by_turns",
            NoBarrier,
            SharedRace,
            "",
            "// a buffer goes out",
        ),
        (
            "summed",
            NotAdded,
            GlobalRace,
            "are not ordered",
            "// NOT_ADDED",
        ),
        (
            "two_under_way",
            EarlyRead,
            AsyncBeforeWait,
            "before a wgmma.wait_group",
            "older sums",
        ),
        (
            "two_under_way",
            ReleasesCurrent,
            SharedRace,
            "are not ordered",
            "// the ring is filled",
        ),
        (
            "named_turns",
            NoNamedWait,
            SharedRace,
            "are not ordered",
            "// the scratch is written",
        ),
    ] {
        let line = line_of(part);
        let findings = match run(kernel, planted).0 {
            Ok(report) => report.findings,
            Err(fault) => {
                wrong.push(format!("{kernel} {planted:?}: {fault}"));
                continue;
            }
        };
        let at = |f: &Finding| {
            let mut places = f.places.iter().filter_map(|p| p.line.clone());
            places.any(|(file, n)| {
                file == "idioms_of_hopper.cu"
                    && (n == line || part == "older sums" && n == line + 1)
            })
        };
        let is_it = |f: &Finding| f.kind == kind && f.message.contains(says) && at(f);
        if !findings.iter().any(is_it) {
            let told: Vec<_> = findings.iter().map(|f| (f.kind, &f.message)).collect();
            wrong.push(format!("{kernel} {planted:?} at {line}: {told:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A barrier behind the read of the flag stands where a fence or an acquire should: the report says so, and judges nothing.
#[test]
fn a_flag_that_is_read_without_acquire_is_a_note() {
    let (report, is_right) = run("stream_k", Planted::PlainFlag);
    let report = clean(report);
    assert!(is_right);
    let notes = &report.not_judged;
    assert!(notes.iter().any(|n| n.contains("barrier")), "{notes:#?}");
    let right = clean(run("stream_k", Planted::Nothing).0);
    assert_ne!(&right.not_judged, notes);
}

#[test]
fn each_fault_that_stops_an_idiom_is_named_at_its_line() {
    use FaultKind::*;
    use Planted::*;
    let mut wrong = Vec::new();
    for (kernel, planted, kind, says, part) in [
        (
            "ping_pong",
            SameTurn,
            Deadlock,
            "wait for the mbarrier",
            "// the turn at the epilogue",
        ),
        (
            "persistent",
            Restarted,
            Undefined,
            "arrivals at an mbarrier that waits for 0",
            "// the producer expects",
        ),
        (
            "persistent",
            EveryLane,
            Undefined,
            "arrivals at an mbarrier",
            "// the producer expects",
        ),
        (
            "named_turns",
            NoFirstTurn,
            Deadlock,
            "",
            "// a group waits for its turn",
        ),
    ] {
        let place = format!("idioms_of_hopper.cu:{}", line_of(part));
        match run(kernel, planted).0 {
            Err(f) if f.kind == kind && f.message.contains(says) && f.message.contains(&place) => {}
            other => wrong.push(format!("{kernel} {planted:?} at {place}: {other:#?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
