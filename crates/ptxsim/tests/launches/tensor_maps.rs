//! Tensor maps that a kernel changes, in PTX by hand. ptxas 13.0.88 takes each form for sm_90a.

use crate::common::*;
use model::{Boxes, MapElement, Swizzle, TensorMap};
use ptxsim::*;

/// One warp. `%rd3` is the map among the parameters, `%rd4` one in global memory, `%r3` a copy of the first in shared
/// memory, `%rd1` another tensor of 64 x 4 words. The first box of 16 x 4 of the map in global memory goes to `out`.
fn kernel(change: &str, acquire: &str) -> String {
    let words = |n: u32| format!("ld.param.b64 %rd9, [map+{n}]; st.shared.b64 [%r3+{n}], %rd9;\n");
    let words: String = (0..128).step_by(8).map(words).collect();
    format!(
        r#".version 9.0
.target sm_90a
.address_size 64
.file 1 "maps.cu"
.visible .entry maps(.param .u64 other, .param .u64 out, .param .u64 held, .param .align 64 .b8 map[128])
{{
    .reg .pred %p<3>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<16>;
    .shared .align 128 .b8 tile[256];
    .shared .align 128 .b8 own[128];
    .shared .align 8 .b64 full;
    .loc 1 1 0
    ld.param.u64 %rd1, [other];
    ld.param.u64 %rd2, [out];
    ld.param.u64 %rd4, [held];
    cvta.to.global.u64 %rd4, %rd4;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mov.u32 %r3, own;
    mov.u32 %r4, full;
    mov.u32 %r5, 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra ready;
    mbarrier.init.shared::cta.b64 [%r4], 1;
    {words}
ready:
    bar.warp.sync 0xffffffff;
    .loc 1 2 0
    {change}
    .loc 1 3 0
    {acquire}
    @%p1 bra wait;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 256;
    .loc 1 4 0
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd4, {{%r5, %r5}}], [%r4];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
    @!%p2 bra wait;
    .loc 1 5 0
    mad.lo.u32 %r6, %r1, 8, %r2;
    ld.shared.b64 %rd7, [%r6];
    mul.wide.u32 %rd8, %r1, 8;
    add.u64 %rd8, %rd2, %rd8;
    st.global.b64 [%rd8], %rd7;
    ret;
}}
"#
    )
}

const ACQUIRE: &str = "fence.proxy.tensormap::generic.acquire.gpu [%rd4], 128;";
const IN_SHARED: &str = "@!%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r3], %rd1;
    @!%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r3], 0, 8;
    bar.warp.sync 0xffffffff;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd4], [%r3], 128;";
const IN_GLOBAL: &str = "@!%p1 tensormap.replace.tile.global_address.global.b1024.b64 [%rd4], %rd1;
    @!%p1 tensormap.replace.tile.global_dim.global.b1024.b32 [%rd4], 0, 8;
    @!%p1 fence.proxy.tensormap::generic.release.gpu;
    bar.warp.sync 0xffffffff;";

fn run(change: &str, acquire: &str) -> (Result<Report, Fault>, Vec<u32>) {
    let module = load(&kernel(change, acquire));
    let kernel = module.kernel("maps").unwrap();
    let mut memory = Memory::default();
    let words = |from: u32| {
        (from..from + 256)
            .flat_map(u32::to_le_bytes)
            .collect::<Vec<u8>>()
    };
    let (one, other) = (
        put(&mut memory, "one", &words(0)),
        put(&mut memory, "other", &words(1000)),
    );
    let out = put(&mut memory, "out", &[0; 256]);
    let map = TensorMap {
        element: MapElement::U32,
        extents: vec![64, 4],
        strides: vec![256],
        boxes: Boxes::Tiled(vec![16, 4]),
        steps: vec![1; 2],
        swizzle: Swizzle::None,
        fills_nan: false,
    };
    let encoded = encode_tensor_map(&map, one).unwrap();
    let held = put(&mut memory, "held", &encoded);
    let mut params: Vec<u8> = [other, out, held]
        .iter()
        .flat_map(|p| p.to_le_bytes())
        .collect();
    params.resize(64, 0);
    params.extend(encoded);
    let report = launch(
        kernel,
        [1; 3],
        [32, 1, 1],
        0,
        &params,
        &mut memory,
        limits(),
    );
    let all = memory.read(out, 256).unwrap().chunks_exact(4);
    (
        report,
        all.map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]))
            .collect(),
    )
}

/// Words of the other tensor, whose rows have 8 words now: what lies beyond is zeros.
fn of_the_other() -> Vec<u32> {
    let word = |row: u32, column: u32| {
        if column < 8 {
            1000 + 64 * row + column
        } else {
            0
        }
    };
    (0..4)
        .flat_map(|row| (0..16).map(move |column| word(row, column)))
        .collect()
}

#[test]
fn changed_maps_lead_copies_elsewhere() {
    for change in [IN_SHARED, IN_GLOBAL] {
        let (report, out) = run(change, ACQUIRE);
        clean(report);
        assert_eq!(out, of_the_other());
    }
    let others = "@!%p1 tensormap.replace.tile.box_dim.global.b1024.b32 [%rd4], 0, 32;
        @!%p1 tensormap.replace.tile.box_dim.global.b1024.b32 [%rd4], 1, 2;
        @!%p1 tensormap.replace.tile.element_stride.global.b1024.b32 [%rd4], 1, 1;
        @!%p1 tensormap.replace.tile.global_stride.global.b1024.b64 [%rd4], 0, 512;
        @!%p1 tensormap.replace.tile.rank.global.b1024.b32 [%rd4], 1;
        @!%p1 tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%rd4], 0;
        @!%p1 tensormap.replace.tile.fill_mode.b1024.b32 [%rd4], 0;";
    let (report, out) = run(others, ACQUIRE);
    clean(report);
    // Two rows of 32, every other one of the tensor.
    let word = |n: u32| 128 * (n / 32) + n % 32;
    assert_eq!(out, (0..64).map(word).collect::<Vec<_>>());
}

#[test]
fn a_changed_map_that_no_fence_acquires_is_found() {
    for change in [IN_SHARED, IN_GLOBAL] {
        let findings = run(change, "").0.unwrap().findings;
        let [finding] = findings.as_slice() else {
            panic!("{findings:#?}")
        };
        let lines: Vec<_> = finding
            .places
            .iter()
            .map(|p| p.line.clone().unwrap().1)
            .collect();
        assert_eq!((finding.kind, lines), (FindingKind::GlobalRace, vec![4, 2]));
        assert!(
            finding
                .message
                .contains("no fence.proxy.tensormap::generic.acquire"),
            "{finding:?}"
        );
    }
}

#[test]
fn maps_that_are_none_and_places_that_hold_none_are_faults() {
    for (change, kind, line) in [
        (
            "@!%p1 tensormap.replace.tile.global_address.global.b1024.b64 [%rd4], 8;",
            FaultKind::Undefined,
            4,
        ),
        (
            "@!%p1 tensormap.replace.tile.box_dim.global.b1024.b32 [%rd4], 0, 65552;",
            FaultKind::Undefined,
            4,
        ),
        (
            "@!%p1 tensormap.replace.tile.rank.global.b1024.b32 [%rd4], 4;",
            FaultKind::Undefined,
            4,
        ),
        (
            "@!%p1 tensormap.replace.tile.rank.global.b1024.b32 [%rd4+8], 1;",
            FaultKind::Misaligned,
            2,
        ),
        (
            "@!%p1 tensormap.replace.tile.rank.global.b1024.b32 [%rd4+64], 1;",
            FaultKind::OutOfBounds,
            2,
        ),
        (
            "@!%p1 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r3+65536], 1;",
            FaultKind::OutOfBounds,
            2,
        ),
    ] {
        let fault = run(change, ACQUIRE).0.unwrap_err();
        assert_eq!(fault.kind, kind, "{change}: {fault}");
        assert!(
            fault.message.contains(&format!("maps.cu:{line}")),
            "{fault}"
        );
    }
    for form in [
        "tensormap.replace.tile.elemtype.global.b1024.b32 [%rd4], 7;",
        "tensormap.replace.tile.global_address.global.b1024.b32 [%rd4], %r5;",
        "fence.proxy.tensormap::generic.acquire [%rd4], 128;",
    ] {
        let refused = Module::load(&kernel(form, "")).and_then(Module::complete);
        assert!(
            matches!(refused, Err(LoadError::Unsupported { .. })),
            "{form}"
        );
    }
}
