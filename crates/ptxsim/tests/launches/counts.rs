//! Counters of bulk copies and of `wgmma`, held against those that ncu read on an H100 in the same launches
//! (tests/fixtures/counts.tsv, CALIBRATION.md). `kept` holds other launches to that table, too.

use crate::common::*;
use model::{Boxes, MapElement, Swizzle, TensorMap};
use ptxsim::*;

const INPUT: usize = 1 << 16;

/// One warp a block, mostly; thread 0 (`%p1`) copies. `%rd1` is `in`, `%rd2` `out`, `%rd3` the map, `%r2` the tile, `%r3` the
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

/// The tile gets a value, one store of each lane in each turn.
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
const INIT: &str = "@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
@%p1 fence.mbarrier_init.release.cluster;
";
const WAIT: &str = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra W;
";
const SYNC: &str = "barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
";
const LOAD: &str = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
const STORE: &str = "cp.async.bulk.global.shared::cta.bulk_group";
const ADD: &str = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32";
const STORE_BOX: &str = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group";
const HINT: &str = "mov.b64 %rd9, 0x14F0000000000000;\n";

fn load_box(dimensions: usize) -> String {
    format!(
        "cp.async.bulk.tensor.{dimensions}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    )
}

fn expect(bytes: u32) -> String {
    format!("@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};\n")
}

/// So many bytes are brought to the tile, or behind its begin, and go on to `out`, 16 KiB for each block.
fn load(bytes: u32, copy: &str, from: u32) -> String {
    kernel(&format!(
        "{INIT}{}bar.sync 0;
{copy}
{WAIT}mad.lo.u32 %r20, %r1, 4, %r2;
mul.lo.u32 %r21, %r1, 4;
mad.lo.u32 %r22, %r4, 16384, %r21;
cvt.u64.u32 %rd12, %r22;
add.u64 %rd12, %rd2, %rd12;
H: setp.ge.u32 %p2, %r21, {bytes};
@%p2 bra E;
ld.shared.u32 %r23, [%r20+{from}];
st.global.u32 [%rd12], %r23;
add.u32 %r20, %r20, 128;
add.u32 %r21, %r21, 128;
add.u64 %rd12, %rd12, 128;
bra.uni H;
E:",
        expect(bytes)
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
        boxes: Boxes::Tiled(of.to_vec()),
        steps: vec![1; 2],
        swizzle,
        fills_nan: false,
    }
}

fn tile(map: &TensorMap) -> &[u32] {
    match &map.boxes {
        Boxes::Tiled(extents) => extents,
        Boxes::Im2col(_) => &[],
    }
}

/// The tensor of a launch.
enum Of<'a> {
    Nothing,
    In(&'a TensorMap),
    Out(&'a TensorMap),
}

/// Two blocks, or a cluster.
fn launch_of(text: &str, of: Of, cluster: Option<u32>, threads: u32) -> Result<Report, Fault> {
    let module = super::common::load(text);
    let kernel = module.kernel("k").unwrap();
    let mut memory = Memory::default();
    let all: Vec<u8> = (0..INPUT).map(|n| (n * 7 % 251) as u8).collect();
    let from = put(&mut memory, "in", &all);
    let out = put(&mut memory, "out", &vec![0; INPUT]);
    let mut params = vec![0; kernel.parameter_bytes() as usize];
    params[..8].copy_from_slice(&from.to_le_bytes());
    params[8..16].copy_from_slice(&out.to_le_bytes());
    let map = match of {
        Of::Nothing => None,
        Of::In(map) => Some((map, from)),
        Of::Out(map) => Some((map, out)),
    };
    if let Some((map, tensor)) = map {
        let at = kernel.parameters()[2].0 as usize;
        params[at..at + 128].copy_from_slice(&encode_tensor_map(map, tensor).unwrap());
    }
    let kept = kept::Kept {
        text,
        kernel,
        launch: Launch {
            grid: [cluster.unwrap_or(2), 1, 1],
            block: [threads, 1, 1],
            cluster: cluster.map(|n| [n, 1, 1]),
            cooperative: false,
            dynamic_shared: 0,
        },
        params: &params,
        buffers: &[(from, INPUT), (out, INPUT)],
        limits: limits(),
    };
    kept.launch(&mut memory, None)
}

/// Launches of which a GPU has counts.
#[derive(Default)]
struct Counted(Vec<String>);

impl Counted {
    fn run(&mut self, name: &str, text: &str, of: Of) {
        self.run_as(name, text, of, None, 32);
    }

    fn run_as(&mut self, name: &str, text: &str, of: Of, cluster: Option<u32>, threads: u32) {
        let name = format!("counts.{name}");
        kept::name_next(&name);
        clean(launch_of(text, of, cluster, threads));
        self.0.push(name);
    }
}

#[test]
fn copies_of_lines_count_as_on_a_gpu() {
    let mut all = Counted::default();
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
        let copy = format!("@%p1 {LOAD} [%r2], [%rd5+{at}], {bytes}, [%r3];");
        all.run(
            &format!("load_{bytes}_at_{at}"),
            &load(bytes, &copy, 0),
            Of::Nothing,
        );
        for (what, form) in [("store", STORE), ("sum", ADD)] {
            let copy = format!("@%p1 {form} [%rd6+{at}], [%r2], {bytes};");
            all.run(
                &format!("{what}_{bytes}_at_{at}"),
                &store(&copy),
                Of::Nothing,
            );
        }
    }
    // From other places of a line of 128 bytes of shared memory.
    for (bytes, at, tile) in [
        (1040, 48, 16),
        (256, 16, 16),
        (256, 0, 16),
        (96, 0, 96),
        (64, 16, 112),
    ] {
        let name = |what: &str| format!("{what}_{bytes}_at_{at}_to_{tile}");
        let copy = format!("@%p1 {LOAD} [%r2+{tile}], [%rd5+{at}], {bytes}, [%r3];");
        all.run(&name("load"), &load(bytes, &copy, tile), Of::Nothing);
        let copy = format!("@%p1 {STORE} [%rd6+{at}], [%r2+{tile}], {bytes};");
        all.run(&name("store"), &store(&copy), Of::Nothing);
    }
    let copy = format!("{HINT}@%p1 {LOAD}.L2::cache_hint [%r2], [%rd5], 512, [%r3], %rd9;");
    all.run("load_hint", &load(512, &copy, 0), Of::Nothing);
    let copy = format!("{HINT}@%p1 {STORE}.L2::cache_hint [%rd6], [%r2], 512, %rd9;");
    all.run("store_hint", &store(&copy), Of::Nothing);
    // Four copies of one thread, and of four threads by one instruction.
    let copy: String = (0..4)
        .map(|n| 512 * n)
        .map(|at| format!("@%p1 {LOAD} [%r2+{at}], [%rd5+{at}], 512, [%r3];\n"))
        .collect();
    all.run("load_four", &load(2048, &copy, 0), Of::Nothing);
    let copy = format!(
        "setp.lt.u32 %p3, %r1, 4;
mad.lo.u32 %r12, %r1, 512, %r2;
mul.wide.u32 %rd7, %r1, 512;
add.u64 %rd7, %rd5, %rd7;
@%p3 {LOAD} [%r12], [%rd7], 512, [%r3];"
    );
    all.run("load_by_four", &load(2048, &copy, 0), Of::Nothing);
    let prefetch = "@%p1 cp.async.bulk.prefetch.L2.global [%rd5], 512;";
    all.run("prefetch", &kernel(prefetch), Of::Nothing);
    kept::all_held(
        "counts.",
        &|it| {
            !["box", "product", "multi", "between"]
                .iter()
                .any(|of| it.starts_with(of))
        },
        &all.0,
    );
}

#[test]
fn copies_of_boxes_count_as_on_a_gpu() {
    use Swizzle::*;
    let mut all = Counted::default();
    let (f16, u8) = (MapElement::F16, MapElement::U8);
    // A box that both blocks load, and one that each stores for itself.
    for (name, map) in [
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
        ("u8", boxes(u8, [128, 128], 128, [128, 16], Bytes128)),
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
    ] {
        let rows = tile(&map)[1].div_ceil(map.steps[1]);
        let bytes = map.boxes.row() * map.element.bytes() as u32 * rows;
        let copy = format!("@%p1 {} [%r2], [%rd3, {{%r8, %r8}}], [%r3];", load_box(2));
        all.run(&format!("box_{name}"), &load(bytes, &copy, 0), Of::In(&map));
        if map.steps[1] == 1 {
            let copy =
                format!("mul.lo.u32 %r9, %r4, 64;\n@%p1 {STORE_BOX} [%rd3, {{%r8, %r9}}], [%r2];");
            all.run(&format!("box_store_{name}"), &store(&copy), Of::Out(&map));
        }
    }
    let of = |element, columns| boxes(element, [columns, 64], 128, [32, 16], None);
    for (name, map) in [
        ("u32", of(MapElement::U32, 32)),
        ("f32", of(MapElement::F32, 32)),
        ("odd_extent", of(MapElement::U32, 27)),
    ] {
        let copy = "@%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd3, {%r8, %r8}], [%r2];";
        all.run(&format!("box_sum_{name}"), &store(copy), Of::Out(&map));
    }
    // Other numbers of dimensions, with a hint for the cache.
    for dimensions in [1, 3, 4, 5] {
        let map = TensorMap {
            element: f16,
            extents: [64, 8, 4, 2, 2][..dimensions].to_vec(),
            strides: [128, 1024, 4096, 8192][..dimensions - 1].to_vec(),
            boxes: Boxes::Tiled([64, 4, 2, 2, 1][..dimensions].to_vec()),
            steps: vec![1; dimensions],
            swizzle: Bytes128,
            fills_nan: false,
        };
        let bytes = 2 * tile(&map).iter().product::<u32>();
        let at = ["%r8"; 5][..dimensions].join(", ");
        let form = load_box(dimensions);
        let copy =
            format!("{HINT}@%p1 {form}.L2::cache_hint [%r2], [%rd3, {{{at}}}], [%r3], %rd9;");
        all.run(
            &format!("box_{dimensions}d"),
            &load(bytes, &copy, 0),
            Of::In(&map),
        );
        let copy = format!(
            "{HINT}@%p1 cp.reduce.async.bulk.tensor.{dimensions}d.global.shared::cta.min.tile.bulk_group.L2::cache_hint [%rd3, {{{at}}}], [%r2], %rd9;"
        );
        all.run(
            &format!("box_min_{dimensions}d"),
            &store(&copy),
            Of::Out(&map),
        );
    }
    // Narrow and wide rows, in part and as wholes outside.
    for (name, map, column, row) in [
        (
            "rows_side_by_side",
            boxes(u8, [16, 128], 16, [16, 16], None),
            0,
            0,
        ),
        ("rows_of_32", boxes(u8, [32, 128], 32, [32, 16], None), 0, 0),
        (
            "rows_of_32_at_16",
            boxes(u8, [64, 128], 64, [32, 16], None),
            16,
            0,
        ),
        (
            "rows_of_16_outside",
            boxes(u8, [64, 128], 64, [16, 16], None),
            64,
            0,
        ),
        (
            "rows_of_32_outside",
            boxes(u8, [64, 128], 64, [32, 16], None),
            80,
            0,
        ),
        (
            "rows_of_48_outside",
            boxes(u8, [64, 128], 64, [48, 16], None),
            80,
            0,
        ),
        (
            "rows_of_48_in_part",
            boxes(u8, [64, 128], 64, [48, 16], None),
            48,
            0,
        ),
        (
            "rows_of_64_in_part",
            boxes(u8, [64, 128], 64, [64, 16], None),
            16,
            120,
        ),
        (
            "rows_of_128_in_part",
            boxes(u8, [256, 128], 256, [128, 16], None),
            208,
            0,
        ),
        (
            "rows_of_256",
            boxes(u8, [256, 128], 256, [256, 16], None),
            0,
            0,
        ),
        (
            "rows_of_256_at_16",
            boxes(u8, [256, 128], 256, [256, 16], None),
            16,
            0,
        ),
        (
            "rows_of_208",
            boxes(u8, [208, 128], 208, [208, 16], None),
            0,
            0,
        ),
        (
            "rows_of_80_of_75",
            boxes(u8, [75, 128], 80, [80, 16], None),
            0,
            0,
        ),
    ] {
        let bytes = tile(&map).iter().product();
        let copy = box_at(column, row, &format!("@%p1 {}", load_box(2)));
        all.run(&format!("box_{name}"), &load(bytes, &copy, 0), Of::In(&map));
        all.run(
            &format!("box_store_{name}"),
            &store(&one_box(column, row, STORE_BOX)),
            Of::Out(&map),
        );
    }
    for (name, column, row) in [("before", -8, -3), ("inside", 8, 5), ("outside", 64, 0)] {
        let map = boxes(f16, [64, 64], 128, [32, 8], Bytes64);
        let copy = box_at(column, row, &format!("@%p1 {}", load_box(2)));
        all.run(&format!("box_{name}"), &load(512, &copy, 0), Of::In(&map));
    }
    kept::all_held("counts.box", &|it| !it.contains("multicast"), &all.0);
}

/// A copy of a box that begins there.
fn box_at(column: i32, row: i32, form: &str) -> String {
    let operands = match form.contains("complete_tx") {
        true => "[%r2], [%rd3, {%r12, %r13}], [%r3]",
        false => "[%rd3, {%r12, %r13}], [%r2]",
    };
    format!("mov.u32 %r12, {column};\nmov.u32 %r13, {row};\n{form} {operands};")
}

/// By one of the blocks alone.
fn one_box(column: i32, row: i32, form: &str) -> String {
    let alone = "setp.eq.u32 %p3, %r4, 0;\nand.pred %p3, %p3, %p1;\n";
    format!("{alone}{}", box_at(column, row, &format!("@%p3 {form}")))
}

#[test]
fn copies_within_clusters_count_as_on_a_gpu() {
    let mut all = Counted::default();
    for size in [2, 4] {
        let body = |copy: &str| {
            kernel(&format!(
                "{INIT}{}{SYNC}mov.u16 %h1, {};
setp.eq.u32 %p3, %r4, 0;
and.pred %p3, %p3, %p1;
{copy}
{WAIT}{SYNC}",
                expect(1024),
                (1 << size) - 1
            ))
        };
        let line = body(&format!(
            "@%p3 {LOAD}.multicast::cluster [%r2], [%rd5], 1024, [%r3], %h1;"
        ));
        all.run_as(
            &format!("multicast_{size}"),
            &line,
            Of::Nothing,
            Some(size),
            32,
        );
        let map = boxes(MapElement::F16, [64, 64], 128, [64, 8], Swizzle::Bytes128);
        let tile = body(&format!(
            "@%p3 {}.multicast::cluster [%r2], [%rd3, {{%r8, %r8}}], [%r3], %h1;",
            load_box(2)
        ));
        all.run_as(
            &format!("box_multicast_{size}"),
            &tile,
            Of::In(&map),
            Some(size),
            32,
        );
    }
    let sent = kernel(&format!(
        "{INIT}{}{FILL}{SYNC}xor.b32 %r12, %r4, 1;
add.u32 %r13, %r2, 8192;
mapa.shared::cluster.u32 %r14, %r13, %r12;
mapa.shared::cluster.u32 %r15, %r3, %r12;
@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r14], [%r2], 1024, [%r15];
{WAIT}{SYNC}",
        expect(1024)
    ))
    .replace("mov.u32 %r11, 0;", "mov.u32 %r11, 16;");
    all.run_as("between_blocks", &sent, Of::Nothing, Some(2), 32);
    kept::all_held(
        "counts.",
        &|it| it.contains("multicast") || it.contains("between"),
        &all.0,
    );
}

/// Three products of one warpgroup, so many pieces of 16 bytes apart; A in registers, or both by descriptors.
fn product(form: &str, sums: u32, registers: bool, tail: &str, step: u32) -> String {
    let list: Vec<String> = (0..sums).map(|i| format!("%f{i}")).collect();
    let list = list.join(", ");
    let zero: String = (0..sums).map(|i| format!("mov.b32 %f{i}, 0;\n")).collect();
    let a = if registers {
        "{%r30, %r30, %r30, %r30}"
    } else {
        "%rd10"
    };
    let next = format!("add.u64 %rd10, %rd10, {step};\nadd.u64 %rd11, %rd11, {step};\n");
    let each = format!("wgmma.mma_async.sync.aligned.{form} {{{list}}}, {a}, %rd11, 1{tail};\n");
    let each = each + if step == 0 { "" } else { &next };
    // 1 in f16, and small numbers in other types.
    let value = 0x3c00_3c00;
    let fill = FILL
        .replace(
            "mov.u32 %r11, 0;",
            &format!("mov.u32 %r11, 0;\nmov.u32 %r16, {value};"),
        )
        .replace("{%r1, %r11, %r1, %r11}", "{%r16, %r16, %r16, %r16}")
        .replace("%r11, 32", "%r11, 8")
        .replace("%r10, 512", "%r10, 2048");
    // Rows of eight are 128 bytes apart along K, and 256 along the rows.
    let fields = (256_u64 >> 4) << 32 | (128 >> 4) << 16;
    kernel(&format!(
        ".reg .b32 %f<{sums}>;
{zero}{fill}mov.b32 %r30, {value};
cvt.u64.u32 %rd10, %r2;
and.b64 %rd10, %rd10, 0x3ffff;
shr.u64 %rd10, %rd10, 4;
or.b64 %rd11, %rd10, {fields};
mov.b64 %rd10, %rd11;
wgmma.fence.sync.aligned;
{}wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mad.lo.u32 %r12, %r4, 128, %r1;
mul.wide.u32 %rd7, %r12, 4;
add.u64 %rd7, %rd2, %rd7;
st.global.b32 [%rd7], %f0;",
        each.repeat(3),
    ))
}

#[test]
fn products_count_as_on_a_gpu() {
    let mut all = Counted::default();
    for (form, sums_of, by_descriptor, by_registers) in [
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
            let form = format!("m64n{n}{form}");
            for (kind, tail) in [("shared", by_descriptor), ("registers", by_registers)] {
                let name = format!("product_{}_{kind}", form.replace('.', "_"));
                let text = product(&form, n / sums_of, kind == "registers", tail, 8);
                all.run_as(&name, &text, Of::Nothing, None, 128);
            }
        }
    }
    kept::all_held("counts.product", &|_| true, &all.0);
}

/// ptxas 13.0.88 makes two HGMMA of three that are the same, and adds an empty one where a group is committed in another
/// stretch of code than its products.
#[test]
fn products_that_ptxas_changes_are_in_doubt() {
    let doubt = |text: &str| {
        let report = clean(launch_of(text, Of::Nothing, None, 128));
        let of = |counter: Counter| report.withheld.get(&counter).map(|it| it.doubt);
        (of(Counter::WgmmaInstructions), of(Counter::WgmmaWavefronts))
    };
    let product = |step| product("m64n8k16.f32.f16.f16", 4, false, ", 1, 1, 0, 0", step);
    let altered = Some(Doubt::AlteredProducts);
    assert_eq!(doubt(&product(8)), (None, None));
    assert_eq!(doubt(&product(0)), (altered, altered));
    let commit = "wgmma.commit_group.sync.aligned;";
    let apart = product(8).replace(commit, &format!("@%p1 bra C;\nC: {commit}"));
    assert_eq!(doubt(&apart), (altered, altered));
}

/// An H100 stops at these with an illegal instruction (GPU-1595cfe3, driver 580.159.04, 2026-11-26); the places that it
/// copies from or to give the same bytes there.
#[test]
fn boxes_that_a_gpu_refuses() {
    let map = boxes(MapElement::U32, [32, 128], 128, [16, 8], Swizzle::Bytes64);
    let add = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group";
    let of_load = |column, row| {
        load(
            512,
            &box_at(column, row, &format!("@%p1 {}", load_box(2))),
            0,
        )
    };
    for (column, row) in [(-4, 0), (0, -3), (32, 0), (0, 128), (0, 124), (24, 0)] {
        clean(launch_of(&of_load(column, row), Of::In(&map), None, 32));
        for form in [STORE_BOX, add] {
            let text = store(&one_box(column, row, form));
            let report = launch_of(&text, Of::Out(&map), None, 32);
            if column >= 0 && row >= 0 {
                clean(report);
                continue;
            }
            let fault = report.unwrap_err();
            assert_eq!(fault.kind, FaultKind::Undefined);
            assert!(
                fault.message.contains("cannot begin before the tensor"),
                "{fault}"
            );
        }
    }
    let within = [
        launch_of(&of_load(3, 0), Of::In(&map), None, 32),
        launch_of(&store(&one_box(3, 0, STORE_BOX)), Of::Out(&map), None, 32),
    ];
    for fault in within.map(Result::unwrap_err) {
        assert_eq!(fault.kind, FaultKind::Undefined);
        let says = "begins 12 bytes into the rows of the tensor, which is no multiple of 16";
        assert!(fault.message.contains(says), "{fault}");
    }
}

/// Seen on the same H100: rows of 75 bytes, 80 apart, are loaded as they are, and 80 bytes of each are written.
#[test]
fn rows_are_written_by_16_bytes() {
    let map = boxes(MapElement::U8, [75, 8], 80, [80, 8], Swizzle::None);
    let module = super::common::load(&store(&one_box(0, 0, STORE_BOX)));
    let kernel = module.kernel("k").unwrap();
    let run = |bytes: u64| {
        let mut memory = Memory::default();
        let out = memory.alloc("out", bytes).unwrap();
        let mut params = vec![0; kernel.parameter_bytes() as usize];
        let at = kernel.parameters()[2].0 as usize;
        params[at..at + 128].copy_from_slice(&encode_tensor_map(&map, out).unwrap());
        let report = launch(
            kernel,
            [1; 3],
            [32, 1, 1],
            0,
            &params,
            &mut memory,
            limits(),
        );
        report.map(|_| memory.read(out, 640).unwrap().to_vec())
    };
    let out = run(640).unwrap();
    // Lane 9 filled bytes 144 to 159 of the tile.
    assert_eq!(out[152..160], [9, 0, 0, 0, 0, 0, 0, 0]);
    let fault = run(635).unwrap_err();
    assert_eq!(fault.kind, FaultKind::OutOfBounds, "{fault}");
}
