//! Kernels of Hopper: tiles by tensor maps, products by wgmma. The fixtures are kernels/sdpa_f16_wgmma.cu and
//! sdpa_fp8_wgmma.cu in variants of gates.hopper.yaml, as nvcc 13.0.88 compiled them for sm_90a with -lineinfo.

use crate::common::*;
use matmul::{Matrix, multiply};
use model::{Boxes, MapElement, Swizzle, TensorMap};
use ptxsim::*;

/// A kernel as its launcher launches it, and a fixture of its PTX.
#[derive(Clone, Copy)]
struct Variant {
    fixture: &'static str,
    block_rows: usize,
    threads: u32,
    stages: u32,
    is_fp8: bool,
}

const PING_PONG: Variant = Variant {
    fixture: "sdpa_f16_wgmma_pp",
    block_rows: 128,
    threads: 384,
    stages: 2,
    is_fp8: false,
};
const WIDE: Variant = Variant {
    fixture: "sdpa_f16_wgmma_wide",
    block_rows: 256,
    threads: 640,
    stages: 4,
    is_fp8: false,
};
const SPLIT: Variant = Variant {
    fixture: "sdpa_f16_wgmma_split",
    block_rows: 64,
    threads: 288,
    stages: 6,
    is_fp8: false,
};
const FP8_SPLIT: Variant = Variant {
    fixture: "sdpa_fp8_wgmma_split",
    block_rows: 64,
    threads: 384,
    stages: 6,
    is_fp8: true,
};
const TILE_KEYS: u32 = 64;

fn map_of_heads(v: Variant, heads: usize, rows: usize) -> TensorMap {
    let (element, row, swizzle) = if v.is_fp8 {
        (MapElement::U8, 64, Swizzle::Bytes64)
    } else {
        (MapElement::F16, 128, Swizzle::Bytes128)
    };
    TensorMap {
        element,
        extents: vec![64, rows as u64, heads as u64],
        strides: vec![row, row * rows as u64],
        boxes: Boxes::Tiled(vec![64, 64, 1]),
        steps: vec![1; 3],
        swizzle,
        fills_nan: false,
    }
}

/// Runs a variant, and returns its report and the largest error against f64.
fn attend(v: Variant, text: &str, heads: usize, rows: usize) -> (Result<Report, Fault>, f64) {
    let (report, worst, _) = attend_by(v, text, (heads, rows), limits());
    (report, worst)
}

/// Does what [`attend`] does by these limits, and returns the processor time of the launch, too.
fn attend_by(
    v: Variant,
    text: &str,
    (heads, rows): (usize, usize),
    limits: Limits,
) -> (Result<Report, Fault>, f64, f64) {
    let module = load(text);
    let kernel = &module.kernels()[0];
    let mut memory = Memory::default();
    let mut random = Random(7);
    let (mut arrays, mut places, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
    for name in ["q", "k", "v"] {
        let some = random.normals(heads * rows * 64);
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        for x in some {
            if v.is_fp8 {
                let code = float8::F8E4M3::from_f32(x);
                bytes.push(code.to_bits());
                values.push(f64::from(code.to_f32()));
            } else {
                let half = half::f16::from_f32(x);
                bytes.extend(half.to_le_bytes());
                values.push(half.to_f64());
            }
        }
        places.push(put(&mut memory, name, &bytes));
        buffers.push((places[places.len() - 1], bytes.len()));
        arrays.push(values);
    }
    let each = if v.is_fp8 { 2 } else { 4 };
    let out = memory
        .alloc("out", (heads * rows * 64 * each) as u64)
        .unwrap();
    let map = map_of_heads(v, heads, rows);
    let encoded = |at: u64| encode_tensor_map(&map, at).unwrap().to_vec();
    let mut args = vec![encoded(places[0]), encoded(places[1])];
    if v.is_fp8 {
        args.push(places[2].to_le_bytes().to_vec());
        for name in ["q_scale", "k_scale", "v_scale"] {
            let at = put(&mut memory, name, &bytes_of(&vec![1.0; heads]));
            buffers.push((at, 4 * heads));
            args.push(at.to_le_bytes().to_vec());
        }
    } else {
        args.push(encoded(places[2]));
    }
    args.push(out.to_le_bytes().to_vec());
    args.push((heads as i32).to_le_bytes().to_vec());
    args.push((rows as i32).to_le_bytes().to_vec());
    let mut params = vec![0; kernel.parameter_bytes() as usize];
    for ((at, bytes), arg) in kernel.parameters().into_iter().zip(&args) {
        assert_eq!(bytes as usize, arg.len());
        params[at as usize..][..arg.len()].copy_from_slice(arg);
    }
    let row_bytes = if v.is_fp8 { 64 } else { 128 };
    let shared = v.block_rows as u32 * row_bytes + v.stages * TILE_KEYS * (row_bytes + 128) + 2048;
    let grid = [rows.div_ceil(v.block_rows) as u32, heads as u32, 1];
    let block = [v.threads, 1, 1];
    let want = attention(&arrays[0], &arrays[1], &arrays[2], heads, rows, false);
    let (wanted, compared): (Vec<u8>, _) = if v.is_fp8 {
        (
            want.iter()
                .flat_map(|x| half::f16::from_f64(*x).to_le_bytes())
                .collect(),
            kept::Compared::F16,
        )
    } else {
        (
            want.iter()
                .flat_map(|x| (*x as f32).to_le_bytes())
                .collect(),
            kept::Compared::F32,
        )
    };
    buffers.push((out, wanted.len()));
    let kept = kept::Kept {
        text,
        kernel,
        launch: Launch {
            grid,
            block,
            cluster: None,
            cooperative: false,
            dynamic_shared: shared,
        },
        params: &params,
        buffers: &buffers,
        limits,
    };
    let wanted = kept::Wanted {
        at: out,
        bytes: &wanted,
        compared,
    };
    let start = cpu_seconds();
    let report = kept.launch(&mut memory, Some(wanted));
    let seconds = cpu_seconds() - start;
    let got = memory.read(out, want.len() * each).unwrap();
    let value = |c: &[u8]| match c {
        [a, b] => half::f16::from_le_bytes([*a, *b]).to_f64(),
        c => f64::from(f32::from_le_bytes(c.try_into().unwrap())),
    };
    let worst = got
        .chunks_exact(each)
        .zip(&want)
        .map(|(g, w)| (value(g) - w).abs())
        .fold(0.0, f64::max);
    (report, worst, seconds)
}

#[test]
fn attention_by_wgmma_is_clean_and_right() {
    for (v, shapes) in [
        (PING_PONG, &[(1, 128), (1, 300)][..]),
        (SPLIT, &[(2, 77), (1, 1), (1, 256)]),
        (WIDE, &[(1, 513)]),
        (FP8_SPLIT, &[(2, 77), (1, 256)]),
    ] {
        let text = fixture(v.fixture);
        for &(heads, rows) in shapes {
            let start = cpu_seconds();
            let name = v
                .fixture
                .replace("sdpa_f16_wgmma_", "")
                .replace("sdpa_fp8_wgmma", "fp8");
            kept::name_next(&format!("attention.{name}.{heads}.{rows}"));
            let (report, worst) = attend(v, &text, heads, rows);
            clean(report);
            assert!(worst < 4e-3, "{} {heads} {rows}: {worst}", v.fixture);
            println!(
                "{} {heads} {rows}: {worst:.1e}, {:.2} s",
                v.fixture,
                cpu_seconds() - start
            );
        }
    }
}

/// Prints how long `wide@small` of gates.hopper.yaml takes on one thread, in processor time, and its floor: the same
/// products in f32 and the same bytes copied.
#[test]
#[ignore = "measures"]
fn time_of_wide_small_and_its_floor() {
    let text = fixture(WIDE.fixture);
    let least = |run: &mut dyn FnMut() -> f64| (0..9).map(|_| run()).fold(f64::MAX, f64::min);
    let timed = |run: &mut dyn FnMut()| {
        let start = cpu_seconds();
        run();
        cpu_seconds() - start
    };
    let report = clean(attend(WIDE, &text, 8, 128).0);
    let count = |counter| report.counters.get(counter) as usize;
    // Four warps share each: 64 x 64 x 16.
    let products = count(Counter::WgmmaInstructions) / 4;
    let bytes = 32 * count(Counter::BulkLoadSectors);
    let alone = Limits {
        threads: 1,
        ..limits()
    };
    let launched = least(&mut || attend_by(WIDE, &text, (8, 128), alone).2);
    let (a, b) = (vec![1.5_f32; 256 * 64], vec![0.5_f32; 64 * 64]);
    let mut out = vec![0.0_f32; 256 * 64];
    let multiplied = least(&mut || {
        timed(&mut || {
            for _ in 0..products / 16 {
                let [a, b] = [(&a, 256), (&b, 64)].map(|(m, rows)| Matrix::row_major(m, rows, 64));
                multiply(std::hint::black_box(&mut out), a, b, 1.0);
            }
        })
    });
    let from = vec![1_u8; bytes];
    let mut to = vec![0_u8; bytes];
    let copied = least(&mut || {
        timed(&mut || std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from)))
    });
    println!(
        "{:.2} ms, {} warp instructions; {products} products in {:.2} ms, {bytes} bytes in {:.3} ms; {:.1} times",
        1e3 * launched,
        report.counters.total.issued,
        1e3 * multiplied,
        1e3 * copied,
        launched / (multiplied + copied)
    );
}

/// Puts `by` in the place of the `n`-th `what`, from 0.
fn change(text: &str, what: &str, n: usize, by: &str) -> String {
    let (at, _) = text.match_indices(what).nth(n).unwrap();
    format!("{}{by}{}", &text[..at], &text[at + what.len()..])
}

/// A synchronisation that is taken out, and the finding's kind, words and line in kernels/hopper.cuh.
type Removal = (Variant, &'static str, usize, FindingKind, &'static str, u32);

#[test]
fn each_removed_synchronisation_is_found() {
    let late = FindingKind::AsyncBeforeWait;
    let removals: [Removal; 5] = [
        (
            PING_PONG,
            "wgmma.fence.sync.aligned;",
            0,
            late,
            "no wgmma.fence comes before",
            150,
        ),
        (
            PING_PONG,
            "wgmma.fence.sync.aligned;",
            1,
            late,
            "no wgmma.fence orders",
            150,
        ),
        (
            PING_PONG,
            "wgmma.wait_group.sync.aligned 0;",
            0,
            late,
            "sums of wgmma.mma_async from",
            120,
        ),
        (
            PING_PONG,
            "wgmma.wait_group.sync.aligned 1;",
            0,
            late,
            "is read before a wgmma.wait_group",
            120,
        ),
        (
            FP8_SPLIT,
            "fence.proxy.async.shared::cta;",
            0,
            FindingKind::SharedRace,
            "no fence.proxy.async orders",
            220,
        ),
    ];
    for (v, what, n, kind, says, line) in removals {
        let text = change(&fixture(v.fixture), what, n, "");
        let report = attend(v, &text, 1, 300).0.unwrap_or_else(|f| panic!("{f}"));
        let is_it = |f: &Finding| {
            let at = f.places[0].line.as_ref();
            let at = at.is_some_and(|at| at.file.ends_with("hopper.cuh") && at.number == line);
            f.kind == kind && wording::findings::sentence(f).contains(says) && at
        };
        let all: Vec<_> = report
            .findings
            .iter()
            .map(|f| (f.kind, wording::findings::sentence(f)))
            .collect();
        assert!(report.findings.iter().any(is_it), "{what} {n}: {all:#?}");
    }
    // The products of the last tile are under way when the warp ends, and registers of A are packed again too early.
    for (n, says) in [
        (1, "a register of the A of wgmma"),
        (2, "the thread ends while wgmma"),
    ] {
        let text = change(
            &fixture(PING_PONG.fixture),
            "wgmma.wait_group.sync.aligned 0;",
            n,
            "",
        );
        let report = attend(PING_PONG, &text, 1, 300)
            .0
            .unwrap_or_else(|f| panic!("{f}"));
        assert!(
            report
                .findings
                .iter()
                .any(|f| f.kind == late && wording::findings::sentence(f).contains(says)),
            "{says}"
        );
    }
}

#[test]
fn arrivals_and_bytes_that_never_come_are_deadlocks_by_name() {
    for (what, n, says) in [
        (
            "mbarrier.arrive.shared::cta.b64",
            0,
            "7 more wait for the mbarrier",
        ),
        (
            "mbarrier.arrive.expect_tx",
            0,
            "16384 bytes more than expected were copied",
        ),
        (
            "mbarrier.arrive.expect_tx",
            1,
            "8192 bytes more than expected were copied",
        ),
    ] {
        let comment = format!("// {what}");
        let text = change(&fixture(PING_PONG.fixture), what, n, &comment);
        let fault = attend(PING_PONG, &text, 1, 300).0.unwrap_err().to_string();
        let found = fault.starts_with("deadlock") && fault.contains("hopper.cuh:56");
        assert!(found && fault.contains(says), "{fault}");
    }
}

/// A GPU does not show it: the values have come in all the same, or the output is right by chance.
#[test]
fn values_that_nobody_waits_for_are_found() {
    let without = |wait: &str| {
        let wait = format!("mbarrier.try_wait.parity.shared::cta.b64 {wait}");
        let text = fixture(PING_PONG.fixture);
        assert!(text.contains(&wait));
        let text = text.replacen(&wait, "setp.eq.u32 done, 0, 0;", 1);
        attend(PING_PONG, &text, 1, 300).0
    };
    let in_the_loop = without("done, [%r457], %r458;").unwrap_err().to_string();
    assert!(
        in_the_loop.contains("1 arrivals at an mbarrier that waits for 0"),
        "{in_the_loop}"
    );
    let behind_it = without("done, [%r625], %r833;").unwrap();
    let is_it = |f: &Finding| {
        let line = f.places[0].line.as_ref().map(|at| at.number);
        (f.kind, line) == (FindingKind::SharedRace, Some(220))
    };
    assert!(behind_it.findings.iter().any(is_it));
}
