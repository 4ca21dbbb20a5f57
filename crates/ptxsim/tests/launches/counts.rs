//! Counters of bulk copies and of wgmma, held against a GPU's own (tests/fixtures/counts.tsv, CALIBRATION.md).

use crate::common::*;
use model::{MapElement, Swizzle, TensorMap};
use ptxsim::*;

const BLOCKS: u32 = 2;
const INPUT: usize = 1 << 16;

/// One warp a block; thread 0 (`%p1`) copies. `%rd1` is `in`, `%rd2` `out`, `%rd3` the map, `%r2` the tile, `%r3` the
/// mbarrier, `%r4` the block, `%r8` 0; block n takes place n * 4096 of both, `%rd5` and `%rd6`.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128])
{{
.reg .pred %p<4>; .reg .b32 %r<40>; .reg .b64 %rd<16>; .reg .b16 %h<2>;
.shared .align 1024 .b8 tile[16384];
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
mov.b64 %rd3, map;
cvta.param.u64 %rd3, %rd3;
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
mov.u32 %r3, bar;
mov.u32 %r4, %ctaid.x;
mov.u32 %r8, 0;
setp.eq.u32 %p1, %r1, 0;
shl.b32 %r5, %r4, 12;
cvt.u64.u32 %rd4, %r5;
add.u64 %rd5, %rd1, %rd4;
add.u64 %rd6, %rd2, %rd4;
{body}
ret;
}}"
    )
}

/// The tile gets a value, as one store of each lane in each turn.
const FILL: &str = "mad.lo.u32 %r10, %r1, 16, %r2;
mov.u32 %r11, 0;
F: st.shared.v4.u32 [%r10], {%r1, %r11, %r1, %r11};
add.u32 %r10, %r10, 512;
add.u32 %r11, %r11, 1;
setp.lt.u32 %p2, %r11, 32;
@%p2 bra F;
fence.proxy.async.shared::cta;
bar.sync 0;
";

fn load(bytes: u32, copy: &str) -> String {
    kernel(&format!(
        "@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
@%p1 fence.mbarrier_init.release.cluster;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};
bar.sync 0;
{copy}
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra W;"
    ))
}

fn store(copy: &str) -> String {
    kernel(&format!(
        "{FILL}{copy}
@%p1 cp.async.bulk.commit_group;
@%p1 cp.async.bulk.wait_group 0;"
    ))
}

fn boxes(
    element: MapElement,
    extents: [u64; 2],
    pitch: u64,
    of: [u32; 2],
    swizzle: Swizzle,
) -> TensorMap {
    TensorMap {
        element,
        extents: extents.to_vec(),
        strides: vec![pitch],
        box_extents: of.to_vec(),
        steps: vec![1; 2],
        swizzle,
        fills_nan: false,
    }
}

/// `map`: of `in` or of `out`.
fn run(
    name: &str,
    text: &str,
    map: Option<(&TensorMap, bool)>,
    cluster: Option<u32>,
    threads: u32,
) -> (String, Report) {
    let module = super::common::load(text);
    let kernel = module.kernel("k").unwrap();
    let mut memory = Memory::default();
    let all: Vec<u8> = (0..INPUT).map(|n| (n * 7 % 251) as u8).collect();
    let from = put(&mut memory, "in", &all);
    let out = put(&mut memory, "out", &vec![0; INPUT]);
    let mut params = vec![0; kernel.parameter_bytes() as usize];
    params[..8].copy_from_slice(&from.to_le_bytes());
    params[8..16].copy_from_slice(&out.to_le_bytes());
    if let Some((map, of_out)) = map {
        let at = kernel.parameters()[2].0 as usize;
        let bytes = encode_tensor_map(map, if of_out { out } else { from }).unwrap();
        params[at..at + 128].copy_from_slice(&bytes);
    }
    let kept = kept::Kept {
        text,
        kernel,
        launch: Launch {
            grid: [cluster.unwrap_or(BLOCKS).max(BLOCKS), 1, 1],
            block: [threads, 1, 1],
            cluster: cluster.map(|n| [n, 1, 1]),
            cooperative: false,
            dynamic_shared: 0,
        },
        params: &params,
        buffers: &[(from, INPUT), (out, INPUT)],
        limits: limits(),
    };
    let name = format!("counts.{name}");
    kept::name_next(&name);
    let report = kept
        .launch(&mut memory, None)
        .unwrap_or_else(|f| panic!("{name}: {f}"));
    assert!(report.findings.is_empty(), "{name}: {:#?}", report.findings);
    (name, report)
}

const TO_SHARED: &str = "shared::cluster.global";
const COMPLETE: &str = "mbarrier::complete_tx::bytes";

/// Copies of lines: to shared memory, to global memory, and sums.
fn lines() -> Vec<(String, Report)> {
    let mut all = Vec::new();
    for (bytes, at) in [
        (16, 0),
        (16, 16),
        (32, 0),
        (32, 16),
        (48, 16),
        (128, 0),
        (128, 16),
        (1040, 0),
        (1040, 48),
        (4096, 0),
    ] {
        let name = |what: &str| format!("{what}_{bytes}_at_{at}");
        let copy = format!(
            "@%p1 cp.async.bulk.{TO_SHARED}.{COMPLETE} [%r2], [%rd5+{at}], {bytes}, [%r3];"
        );
        all.push(run(&name("load"), &load(bytes, &copy), None, None, 32));
        let copy = format!(
            "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd6+{at}], [%r2], {bytes};"
        );
        all.push(run(&name("store"), &store(&copy), None, None, 32));
        let copy = format!(
            "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd6+{at}], [%r2], {bytes};"
        );
        all.push(run(&name("sum"), &store(&copy), None, None, 32));
    }
    // Four copies of one thread, and of four threads by one instruction.
    let copy =
        format!("@%p1 cp.async.bulk.{TO_SHARED}.{COMPLETE} [%r2], [%rd5], 512, [%r3];\n").repeat(4);
    let copy = copy.lines().enumerate().map(|(n, line)| {
        line.replace("[%r2]", &format!("[%r2+{}]", 512 * n))
            .replace("[%rd5]", &format!("[%rd5+{}]", 512 * n))
            + "\n"
    });
    all.push(run(
        "load_four",
        &load(2048, &copy.collect::<String>()),
        None,
        None,
        32,
    ));
    let copy = format!(
        "setp.lt.u32 %p3, %r1, 4;
mad.lo.u32 %r12, %r1, 512, %r2;
mul.wide.u32 %rd7, %r1, 512;
add.u64 %rd7, %rd5, %rd7;
@%p3 cp.async.bulk.{TO_SHARED}.{COMPLETE} [%r12], [%rd7], 512, [%r3];"
    );
    all.push(run("load_by_four", &load(2048, &copy), None, None, 32));
    let prefetch = "@%p1 cp.async.bulk.prefetch.L2.global [%rd5], 512;";
    all.push(run("prefetch", &kernel(prefetch), None, None, 32));
    all
}

/// Boxes of matrices of 64 columns of f16, and others.
fn tensors() -> Vec<(String, Report)> {
    use Swizzle::*;
    let mut all = Vec::new();
    let f16 = MapElement::F16;
    let maps = [
        ("none", boxes(f16, [64, 128], 128, [64, 8], None)),
        ("swizzle32", boxes(f16, [64, 128], 128, [16, 32], Bytes32)),
        ("swizzle64", boxes(f16, [64, 128], 128, [32, 32], Bytes64)),
        ("swizzle128", boxes(f16, [64, 128], 128, [64, 64], Bytes128)),
        ("narrow", boxes(f16, [64, 128], 128, [8, 16], None)),
        ("row_of_48", boxes(f16, [64, 128], 128, [24, 16], None)),
        (
            "pitch_of_144",
            boxes(f16, [64, 128], 144, [64, 16], Bytes128),
        ),
        ("pitch_of_80", boxes(f16, [40, 128], 80, [32, 16], Bytes64)),
        ("past_the_end", boxes(f16, [50, 5], 128, [64, 8], Bytes128)),
        ("odd_extent", boxes(f16, [51, 128], 128, [64, 8], None)),
        (
            "f32",
            boxes(MapElement::F32, [32, 128], 128, [32, 16], Bytes128),
        ),
        (
            "u8",
            boxes(MapElement::U8, [128, 128], 128, [128, 16], Bytes128),
        ),
        (
            "f64",
            boxes(MapElement::F64, [16, 128], 128, [16, 16], None),
        ),
        (
            "steps",
            TensorMap {
                steps: vec![1, 2],
                ..boxes(f16, [64, 128], 128, [64, 16], Bytes128)
            },
        ),
    ];
    for (name, map) in &maps {
        let rows = map.box_extents[1].div_ceil(map.steps[1]);
        let bytes = map.box_extents[0] * map.element.bytes() as u32 * rows;
        let copy = format!(
            "@%p1 cp.async.bulk.tensor.2d.{TO_SHARED}.tile.{COMPLETE} [%r2], [%rd3, {{%r8, %r8}}], [%r3];"
        );
        all.push(run(
            &format!("box_{name}"),
            &load(bytes, &copy),
            Some((map, false)),
            Option::None,
            32,
        ));
        let copy = "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {%r8, %r8}], [%r2];";
        // Both blocks would write the same place.
        let copy = copy.replace("{%r8, %r8}", "{%r8, %r9}");
        let copy = format!("mul.lo.u32 %r9, %r4, 64;\n{copy}");
        if map.steps[1] == 1 {
            all.push(run(
                &format!("box_store_{name}"),
                &store(&copy),
                Some((map, true)),
                Option::None,
                32,
            ));
        }
    }
    let of = |element| boxes(element, [32, 64], 128, [32, 16], None);
    for (name, map) in [("u32", of(MapElement::U32)), ("f32", of(MapElement::F32))] {
        let copy = "@%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd3, {%r8, %r8}], [%r2];";
        all.push(run(
            &format!("box_sum_{name}"),
            &store(copy),
            Some((&map, true)),
            Option::None,
            32,
        ));
    }
    // Begins before the tensor, and behind its end.
    for (name, column, row) in [
        ("before", -8, -3),
        ("inside", 8, 5),
        ("outside", 64, 0),
        ("odd", 3, 0),
    ] {
        let map = boxes(f16, [64, 64], 128, [32, 8], Bytes64);
        let copy = format!(
            "mov.u32 %r12, {column};\nmov.u32 %r13, {row};\n@%p1 cp.async.bulk.tensor.2d.{TO_SHARED}.tile.{COMPLETE} [%r2], [%rd3, {{%r12, %r13}}], [%r3];"
        );
        all.push(run(
            &format!("box_{name}"),
            &load(512, &copy),
            Some((&map, false)),
            Option::None,
            32,
        ));
    }
    all
}

/// Copies to several blocks of a cluster, and from one to another.
fn clusters() -> Vec<(String, Report)> {
    let mut all = Vec::new();
    for size in [2, 4] {
        let mask = (1 << size) - 1;
        let body = |copy: &str| {
            kernel(&format!(
                "@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
@%p1 fence.mbarrier_init.release.cluster;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
mov.u16 %h1, {mask};
setp.eq.u32 %p3, %r4, 0;
and.pred %p3, %p3, %p1;
{copy}
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra W;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;"
            ))
        };
        let line = format!(
            "@%p3 cp.async.bulk.{TO_SHARED}.{COMPLETE}.multicast::cluster [%r2], [%rd5], 1024, [%r3], %h1;"
        );
        all.push(run(
            &format!("multicast_{size}"),
            &body(&line),
            None,
            Some(size),
            32,
        ));
        let map = boxes(MapElement::F16, [64, 64], 128, [64, 8], Swizzle::Bytes128);
        let tile = format!(
            "@%p3 cp.async.bulk.tensor.2d.{TO_SHARED}.tile.{COMPLETE}.multicast::cluster [%r2], [%rd3, {{%r8, %r8}}], [%r3], %h1;"
        );
        all.push(run(
            &format!("box_multicast_{size}"),
            &body(&tile),
            Some((&map, false)),
            Some(size),
            32,
        ));
    }
    let sent = kernel(&format!(
        "@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
@%p1 fence.mbarrier_init.release.cluster;
@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;
{FILL}barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
xor.b32 %r12, %r4, 1;
add.u32 %r13, %r2, 8192;
mapa.shared::cluster.u32 %r14, %r13, %r12;
mapa.shared::cluster.u32 %r15, %r3, %r12;
@%p1 cp.async.bulk.shared::cluster.shared::cta.{COMPLETE} [%r14], [%r2], 1024, [%r15];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra W;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;"
    ))
    .replace("mov.u32 %r11, 0;", "mov.u32 %r11, 16;");
    all.push(run("between_blocks", &sent, None, Some(2), 32));
    all
}

/// Three products of one warpgroup; A in registers, or both by descriptors.
fn product(form: &str, sums: u32, registers: bool, tail: &str) -> String {
    let list: Vec<String> = (0..sums).map(|i| format!("%f{i}")).collect();
    let list = list.join(", ");
    let zero: String = (0..sums).map(|i| format!("mov.b32 %f{i}, 0;\n")).collect();
    let a = if registers {
        "{%r30, %r30, %r30, %r30}"
    } else {
        "%rd10"
    };
    let each = format!("wgmma.mma_async.sync.aligned.{form} {{{list}}}, {a}, %rd11, 1{tail};\n");
    kernel(&format!(
        ".reg .b32 %f<{sums}>;
{zero}{}mov.b32 %r30, 0;
cvt.u64.u32 %rd10, %r2;
and.b64 %rd10, %rd10, 0x3ffff;
shr.u64 %rd10, %rd10, 4;
// Rows of eight are 128 bytes apart along K, and 256 along the rows.
or.b64 %rd11, %rd10, {};
mov.b64 %rd10, %rd11;
wgmma.fence.sync.aligned;
{}wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mad.lo.u32 %r12, %r4, 128, %r1;
mul.wide.u32 %rd7, %r12, 4;
add.u64 %rd7, %rd2, %rd7;
st.global.b32 [%rd7], %f0;",
        FILL.replace("{%r1, %r11, %r1, %r11}", "{%r8, %r8, %r8, %r8}")
            .replace("%r11, 32", "%r11, 8")
            .replace("%r10, 512", "%r10, 2048"),
        (256_u64 >> 4) << 32 | (128 >> 4) << 16,
        each.repeat(3),
    ))
}

fn products() -> Vec<(String, Report)> {
    let mut all = Vec::new();
    for (form, sums_of, tail_a, tail_r) in [
        ("k16.f32.f16.f16", 2, ", 1, 1, 0, 0", ", 1, 1, 0"),
        ("k16.f16.f16.f16", 4, ", 1, 1, 0, 0", ", 1, 1, 0"),
        ("k16.f32.bf16.bf16", 2, ", 1, 1, 0, 0", ", 1, 1, 0"),
        ("k8.f32.tf32.tf32", 2, ", 1, 1", ", 1, 1"),
        ("k32.f32.e4m3.e4m3", 2, ", 1, 1", ", 1, 1"),
        ("k32.f16.e5m2.e4m3", 4, ", 1, 1", ", 1, 1"),
        ("k32.s32.s8.s8", 2, "", ""),
        ("k32.satfinite.s32.u8.u8", 2, "", ""),
    ] {
        for n in [8, 64, 256] {
            let sums = n / sums_of;
            let whole = format!("m64n{n}{form}");
            for (registers, tail) in [(false, tail_a), (true, tail_r)] {
                let form = &whole;
                let kind = if registers { "registers" } else { "shared" };
                let name = format!("product_{}_{kind}", form.replace('.', "_"));
                let text = product(form, sums, registers, tail);
                all.push(run(&name, &text, None, None, 128));
            }
        }
    }
    all
}

#[test]
fn counted() {
    let mut all = lines();
    all.extend(tensors());
    all.extend(clusters());
    all.extend(products());
    for (name, report) in &all {
        let count = |c: Counter| {
            (report.counters.get(c) > 0).then(|| format!("{}={}", c.name(), report.counters.get(c)))
        };
        println!(
            "{name} {:?}",
            Counter::ALL
                .into_iter()
                .filter_map(count)
                .collect::<Vec<_>>()
        );
    }
}
