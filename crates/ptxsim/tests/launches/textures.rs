//! Textures and surfaces, against values worked out from the formulas of the CUDA C++ Programming Guide,
//! "Texture Fetching": no GPU was asked here. tests/gpu asks one.

use crate::common::*;
use ptxsim::image::{Bound, Filter, Format, Geometry, Image, Layout, Outside, Sampler};
use ptxsim::*;

const LANES: usize = 32;

/// Lane i has words 4i to 4i+3 of `in` in %w0 to %w3, and %w4 to %w7 go to words 4i to 4i+3 of `out`; the
/// handle is %d2.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n\
        .visible .entry k(.param .u64 in, .param .u64 handle, .param .u64 out)\n{{\n\
        .reg .pred %p<4>;\n.reg .b16 %h<9>;\n.reg .b32 %w<20>;\n.reg .f32 %f<9>;\n.reg .b64 %d<9>;\n\
        ld.param.u64 %d0, [in];\nld.param.u64 %d2, [handle];\nld.param.u64 %d1, [out];\n\
        mov.u32 %w9, %tid.x;\nmul.wide.u32 %d3, %w9, 16;\nadd.u64 %d0, %d0, %d3;\nadd.u64 %d1, %d1, %d3;\n\
        ld.global.v4.u32 {{%w0, %w1, %w2, %w3}}, [%d0];\n\
        mov.b32 %w4, 0;\nmov.b32 %w5, 0;\nmov.b32 %w6, 0;\nmov.b32 %w7, 0;\n{body}\n\
        st.global.v4.u32 [%d1], {{%w4, %w5, %w6, %w7}};\nret;\n}}\n"
    )
}

/// An image, whose values follow from the number of the element.
struct Setup {
    format: Format,
    channels: u32,
    geometry: Geometry,
    extents: [u32; 3],
    layers: u32,
    layout: Layout,
    bound: Bound,
    data: Vec<u8>,
}

fn geometry(rank: u8, layered: bool) -> Geometry {
    Geometry { rank, layered }
}

const POINT: Sampler = Sampler {
    filter: Filter::Point,
    outside: Outside::Clamp,
    normalized: false,
    as_float: false,
};
const LINEAR: Sampler = Sampler {
    filter: Filter::Linear,
    ..POINT
};

/// Builds an image of floats whose element n is `value(n)`.
fn floats_of(rank: u8, extents: [u32; 3], sampler: Sampler, value: impl Fn(u32) -> f32) -> Setup {
    let n = extents.iter().product::<u32>();
    Setup {
        format: Format::F32,
        channels: 1,
        geometry: geometry(rank, false),
        extents,
        layers: 1,
        layout: Layout::Array,
        bound: Bound::Texture(sampler),
        data: (0..n).flat_map(|i| value(i).to_le_bytes()).collect(),
    }
}

struct Ran {
    result: Result<Report, Fault>,
    out: Vec<[u32; 4]>,
    image: Vec<u8>,
}

fn launch_on(body: &str, setup: &Setup, lanes: &[[u32; 4]], known: bool) -> Ran {
    let module = load(&kernel(body));
    let mut memory = Memory::default();
    let mut words = lanes.to_vec();
    words.resize(LANES, [0; 4]);
    let words: Vec<u8> = words
        .iter()
        .flatten()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    let input = put(&mut memory, "in", &words);
    let address = memory.alloc("image", setup.data.len() as u64).unwrap();
    if known {
        memory.write(address, &setup.data).unwrap();
    }
    let image = Image {
        address,
        format: setup.format,
        channels: setup.channels,
        geometry: setup.geometry,
        extents: setup.extents,
        layers: setup.layers,
        layout: setup.layout,
    };
    let handle = memory.bind(image, setup.bound).unwrap();
    let out = memory.alloc("out", 16 * LANES as u64).unwrap();
    let kernel = module.kernel("k").unwrap();
    let params = params(kernel, &[Arg::Ptr(input), Arg::Ptr(handle), Arg::Ptr(out)]);
    let result = launch(
        kernel,
        [1; 3],
        [lanes.len() as u32, 1, 1],
        0,
        &params,
        &mut memory,
        limits(),
    );
    let word = |c: &[u8]| u32::from_le_bytes(c.try_into().unwrap());
    let out = memory.read(out, 16 * lanes.len()).unwrap();
    let out = out.chunks_exact(16).map(|c| {
        let mut four = c.chunks_exact(4).map(word);
        std::array::from_fn(|_| four.next().unwrap())
    });
    Ran {
        result,
        out: out.collect(),
        image: memory.read(address, setup.data.len()).unwrap().to_vec(),
    }
}

fn run(body: &str, setup: &Setup, lanes: &[[u32; 4]]) -> Vec<[u32; 4]> {
    let ran = launch_on(body, setup, lanes, true);
    clean(ran.result);
    ran.out
}

fn fault(body: &str, setup: &Setup, lane: [u32; 4]) -> String {
    launch_on(body, setup, &[lane], true)
        .result
        .unwrap_err()
        .message
}

fn f(x: f32) -> u32 {
    x.to_bits()
}

/// Returns the first channel of 1D fetches at these coordinates.
fn at_1d(setup: &Setup, xs: &[f32]) -> Vec<f32> {
    let lanes: Vec<_> = xs.iter().map(|&x| [f(x), 0, 0, 0]).collect();
    let body = "tex.1d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0}];";
    let out = run(body, setup, &lanes);
    out.iter().map(|four| f32::from_bits(four[0])).collect()
}

#[test]
fn a_point_is_the_texel_below_it() {
    let setup = floats_of(1, [4, 1, 1], POINT, |i| 10.0 * i as f32);
    let got = at_1d(&setup, &[-3.0, 0.0, 0.75, 1.0, 3.99, 4.0, 1e9]);
    assert_eq!(got, [0.0, 0.0, 0.0, 10.0, 30.0, 30.0, 30.0]);
}

/// tex(x) = (1 - alpha) T[i] + alpha T[i + 1], alpha = frac(x - 0.5) in steps of 1/256.
#[test]
fn a_line_between_two_texels_has_256_steps() {
    let setup = floats_of(1, [4, 1, 1], LINEAR, |i| 256.0 * i as f32);
    let got = at_1d(
        &setup,
        &[0.5, 1.0, 1.5, 1.75, 2.0 + 1.0 / 256.0, 2.0 + 1.0 / 1024.0],
    );
    assert_eq!(got, [0.0, 128.0, 256.0, 320.0, 385.0, 384.0]);
    assert_eq!(at_1d(&setup, &[0.0, -9.0, 4.0]), [0.0, 0.0, 768.0]);
}

/// Half a texel outside, the border has half of the weight.
#[test]
fn modes_outside_of_the_image() {
    let of = |outside, normalized, xs: &[f32]| {
        let sampler = Sampler {
            outside,
            normalized,
            ..LINEAR
        };
        at_1d(&floats_of(1, [4, 1, 1], sampler, |i| 1.0 + i as f32), xs)
    };
    assert_eq!(
        of(Outside::Border, false, &[0.0, 4.0, 5.0, 1.0]),
        [0.5, 2.0, 0.0, 1.5]
    );
    let xs = [0.0, 1.0, 1.125, -0.125, 1.25, 2.125];
    assert_eq!(of(Outside::Wrap, true, &xs), [2.5, 2.5, 1.0, 4.0, 1.5, 1.0]);
    assert_eq!(
        of(Outside::Mirror, true, &xs),
        [1.0, 4.0, 4.0, 1.0, 3.5, 1.0]
    );
    assert_eq!(
        of(Outside::Clamp, true, &xs),
        [1.0, 4.0, 4.0, 1.0, 4.0, 4.0]
    );
}

#[test]
fn two_and_three_dimensions_and_layers() {
    let value = |i: u32| i as f32;
    // x + 4 y + 12 z of 4 * 3 * 2 texels.
    let plane = floats_of(2, [4, 3, 1], LINEAR, value);
    let lanes = [
        [f(1.0), f(1.0), 0, 0],
        [f(2.75), f(0.5), 0, 0],
        [f(9.0), f(9.0), 0, 0],
    ];
    let fetch = "tex.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}];";
    let got = run(fetch, &plane, &lanes);
    assert_eq!(
        got.iter().map(|x| x[0]).collect::<Vec<_>>(),
        [f(2.5), f(2.25), f(11.0)]
    );

    let room = floats_of(3, [4, 3, 2], LINEAR, value);
    let fetch = "tex.3d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1, %w2, %w2}];";
    let got = run(
        fetch,
        &room,
        &[[f(1.0), f(1.0), f(1.0), 0], [f(0.5), f(0.5), f(1.5), 0]],
    );
    assert_eq!([got[0][0], got[1][0]], [f(0.5 + 2.0 + 6.0), f(12.0)]);

    let layers = Setup {
        geometry: geometry(2, true),
        extents: [4, 3, 1],
        layers: 2,
        ..floats_of(3, [4, 3, 2], POINT, value)
    };
    let fetch = "tex.a2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w2, %w0, %w1, %w1}];";
    let got = run(
        fetch,
        &layers,
        &[[f(1.0), f(2.0), 1, 0], [f(1.0), f(2.0), 7, 0]],
    );
    assert_eq!(
        [got[0][0], got[1][0]],
        [f(21.0); 2],
        "a layer past the last is the last"
    );

    let rows = Setup {
        geometry: geometry(1, true),
        extents: [4, 1, 1],
        layers: 6,
        ..floats_of(3, [4, 3, 2], POINT, value)
    };
    let fetch = "tex.a1d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w1, %w0}];";
    assert_eq!(run(fetch, &rows, &[[f(3.0), 5, 0, 0]])[0][0], f(23.0));
}

/// Without mipmaps, the level is the first, whatever is asked for.
#[test]
fn levels_and_gradients_are_those_of_an_image_without_mipmaps() {
    let plane = floats_of(2, [4, 3, 1], POINT, |i| i as f32);
    for fetch in [
        "tex.level.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}], %w2;",
        "tex.grad.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}], {%w2, %w2}, {%w3, %w3};",
    ] {
        assert_eq!(
            run(fetch, &plane, &[[f(1.0), f(2.0), f(0.0), 0]])[0][0],
            f(9.0)
        );
    }
    let module = Module::load(&kernel(
        "tex.base.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}];",
    ));
    let refused = module.unwrap().refused()[0].error.to_string();
    assert!(refused.contains("without mipmaps"), "{refused}");
}

#[test]
fn channels_and_integers() {
    let setup = |format, channels, as_float, data: &[u8]| Setup {
        format,
        channels,
        geometry: geometry(2, false),
        extents: [2, 2, 1],
        layers: 1,
        layout: Layout::Array,
        bound: Bound::Texture(Sampler { as_float, ..POINT }),
        data: data.to_vec(),
    };
    let at = [[f(1.0), f(1.0), 0, 0]];
    let unsigned = "tex.2d.v4.u32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}];";
    let signed = "tex.2d.v4.s32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}];";
    let float = "tex.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}];";
    let bytes: Vec<u8> = (240..=255).collect();
    let got = run(unsigned, &setup(Format::U8, 4, false, &bytes), &at);
    assert_eq!(got[0], [252, 253, 254, 255]);
    let got = run(signed, &setup(Format::I8, 2, false, &bytes[..8]), &at);
    assert_eq!(got[0], [-10_i32 as u32, -9_i32 as u32, 0, 0]);
    let got = run(
        float,
        &setup(Format::U8, 1, true, &[0, 1, 51, 255]),
        &[[0, f(1.0), 0, 0], at[0]],
    );
    assert_eq!([got[0][0], got[1][0]], [f(0.2), f(1.0)]);
    let halves: Vec<u8> = (0..4)
        .flat_map(|i| half::f16::from_f32(i as f32).to_le_bytes())
        .collect();
    assert_eq!(
        run(float, &setup(Format::F16, 1, false, &halves), &at)[0][0],
        f(3.0)
    );
}

/// PTX ISA 9.7.10, tld4: counter-clockwise from the lower left.
#[test]
fn a_gather_takes_the_four_texels_of_a_linear_filter() {
    let setup = floats_of(2, [4, 3, 1], POINT, |i| i as f32);
    let gather = "tld4.r.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}];";
    let got = run(
        gather,
        &setup,
        &[[f(2.0), f(2.0), 0, 0], [f(0.25), f(0.25), 0, 0]],
    );
    // Texels (1, 2), (2, 2), (2, 1), (1, 1); and all of them (0, 0).
    assert_eq!(got[0], [9.0, 10.0, 6.0, 5.0].map(f));
    assert_eq!(got[1], [0.0; 4].map(f));
    assert!(fault(&gather.replace(".r.", ".g."), &setup, [0; 4]).contains("channel"));

    let layers = Setup {
        geometry: geometry(2, true),
        extents: [4, 3, 1],
        layers: 2,
        ..floats_of(3, [4, 3, 2], POINT, |i| i as f32)
    };
    let gather = "tld4.r.a2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w2, %w0, %w1, %w1}];";
    let got = run(gather, &layers, &[[f(2.0), f(2.0), 1, 0]]);
    assert_eq!(got[0], [21.0, 22.0, 18.0, 17.0].map(f));
}

/// The program reads linear memory as `tex1Dfetch` does.
#[test]
fn linear_memory_is_read_by_the_number_of_a_texel() {
    let setup = Setup {
        layout: Layout::Linear,
        ..floats_of(1, [100, 1, 1], POINT, |i| i as f32)
    };
    let fetch = "tex.1d.v4.f32.s32 {%w4, %w5, %w6, %w7}, [%d2, {%w0}];";
    assert_eq!(
        run(fetch, &setup, &[[99, 0, 0, 0], [7, 0, 0, 0]])[0][0],
        f(99.0)
    );
    for x in [100, -1_i32 as u32] {
        let message = fault(fetch, &setup, [x, 0, 0, 0]);
        assert!(message.contains("out of bounds: texel"), "{message}");
        assert!(message.contains("of 100 in `image`"), "{message}");
    }
    let by_float = fetch.replace("s32", "f32");
    assert!(fault(&by_float, &setup, [0; 4]).contains("linear memory"));
}

#[test]
fn reports_a_texture_of_another_kind() {
    let setup = floats_of(2, [4, 3, 1], POINT, |i| i as f32);
    let plain = "tex.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}];";
    for (body, what) in [
        (
            "tex.1d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0}];".to_owned(),
            "a 1D access to `image`, which is a 2D image",
        ),
        (
            plain.replace("v4.f32.f32", "v4.u32.f32"),
            "integers from a texture of floats",
        ),
        (
            format!("mov.b64 %d2, %d0;\n{plain}"),
            "the address of `in`, where a texture",
        ),
        (
            format!("add.u64 %d2, %d2, 8;\n{plain}"),
            "no texture or surface object",
        ),
        (
            format!("mov.b64 %d2, 0;\n{plain}"),
            "0x0, which is no texture",
        ),
        (
            "suld.b.2d.b32.trap {%w4}, [%d2, {%w0, %w1}];".to_owned(),
            "a surface access to the texture of `image`",
        ),
    ] {
        let message = fault(&body, &setup, [0; 4]);
        assert!(message.contains(what), "{message}");
    }
    let surface = Setup {
        bound: Bound::Surface,
        ..setup
    };
    assert!(fault(plain, &surface, [0; 4]).contains("a texture fetch from the surface"));
}

/// A texel that nothing wrote is undefined, and so is what is made of it; one that weighs nothing is not read.
#[test]
fn texels_that_nothing_wrote_are_told() {
    let setup = floats_of(2, [4, 3, 1], POINT, |i| i as f32);
    let body = "tex.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}];";
    let report = launch_on(body, &setup, &[[0; 4]], false).result.unwrap();
    let kinds: Vec<_> = report.findings.iter().map(|found| found.kind).collect();
    assert!(kinds.contains(&FindingKind::Uninitialised), "{kinds:?}");
    assert!(wording::findings::sentence(&report.findings[0]).contains("`image`"));
}

#[test]
fn surface_that_nothing_wrote_is_reported() {
    let words = surface(Format::U32, 1, [4, 3, 1]);
    let body = "suld.b.2d.b32.trap {%w4}, [%d2, {%w0, %w1}];";
    let report = launch_on(body, &words, &[[0; 4]], false).result.unwrap();
    let kinds: Vec<_> = report.findings.iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [FindingKind::Uninitialised]);
}

#[test]
fn requests_of_textures_and_surfaces_are_counted() {
    let requests = |body: &str, setup: &Setup| {
        let report = launch_on(body, setup, &[[0; 4]], true).result.unwrap();
        report.counters.total.requests
    };
    let texels = floats_of(2, [4, 3, 1], POINT, |i| i as f32);
    let none = requests("", &texels);
    let fetch = "tex.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}];";
    assert_eq!(requests(fetch, &texels), none + 1);
    let load = "suld.b.2d.b32.trap {%w4}, [%d2, {%w0, %w1}];";
    let words = surface(Format::U32, 1, [4, 3, 1]);
    assert_eq!(requests(load, &words), none + 1);
}

fn surface(format: Format, channels: u32, extents: [u32; 3]) -> Setup {
    let n = extents.iter().product::<u32>() * channels * format.bytes();
    Setup {
        format,
        channels,
        geometry: geometry(2, false),
        extents,
        layers: 1,
        layout: Layout::Array,
        bound: Bound::Surface,
        data: (0..n).map(|i| i as u8).collect(),
    }
}

#[test]
fn surfaces_are_read_and_written_by_bytes() {
    let words = surface(Format::U32, 1, [4, 3, 1]);
    let body = "suld.b.2d.b32.trap {%w4}, [%d2, {%w0, %w1}];\nadd.u32 %w5, %w4, 1;\n\
        sust.b.2d.b32.trap [%d2, {%w2, %w1}], {%w5};";
    let ran = launch_on(body, &words, &[[4, 2, 8, 0]], true);
    clean(ran.result);
    let at = |x: usize, y: usize| 4 * (x + 4 * y);
    assert_eq!(ran.out[0][0].to_le_bytes(), words.data[at(1, 2)..][..4]);
    let written = u32::from_le_bytes(ran.image[at(2, 2)..][..4].try_into().unwrap());
    assert_eq!(written, ran.out[0][0] + 1);

    let bytes = surface(Format::U8, 4, [4, 3, 1]);
    let body = "suld.b.2d.v4.b8.trap {%h0, %h1, %h2, %h3}, [%d2, {%w0, %w1}];\n\
        cvt.u32.u16 %w4, %h0;\ncvt.u32.u16 %w7, %h3;";
    let got = run(body, &bytes, &[[8, 1, 0, 0]]);
    assert_eq!(got[0], [24, 0, 0, 27]);
}

#[test]
fn surfaces_outside_trap_clamp_or_are_zero() {
    let words = surface(Format::U32, 1, [4, 3, 1]);
    let read = "suld.b.2d.b32.trap {%w4}, [%d2, {%w0, %w1}];";
    let message = fault(read, &words, [16, 1, 0, 0]);
    assert!(
        message.contains("read of 4 bytes out of bounds of the surface of `image`: byte 16 of a row of 16, y 1 of 3"),
        "{message}"
    );
    assert!(fault(read, &words, [0, 3, 0, 0]).contains("y 3 of 3"));
    assert!(fault(read, &words, [2, 0, 0, 0]).contains("misaligned"));
    let write = "sust.b.2d.b32.trap [%d2, {%w0, %w1}], {%w2};";
    assert!(
        fault(write, &words, [0, -1_i32 as u32, 0, 0]).contains("write of 4 bytes out of bounds")
    );
    let clamped = run(&read.replace("trap", "clamp"), &words, &[[400, 9, 0, 0]]);
    assert_eq!(clamped[0][0].to_le_bytes(), words.data[44..48]);
    assert_eq!(
        run(&read.replace("trap", "zero"), &words, &[[400, 9, 0, 0]])[0][0],
        0
    );
    let ran = launch_on(
        &write.replace("trap", "zero"),
        &words,
        &[[16, 0, 77, 0]],
        true,
    );
    clean(ran.result);
    assert_eq!(ran.image, words.data);
}

/// Two lanes write different values to one element.
#[test]
fn races_on_a_surface_are_told() {
    let words = surface(Format::U32, 1, [4, 3, 1]);
    let write = "sust.b.2d.b32.trap [%d2, {%w0, %w1}], {%w9};";
    let report = launch_on(write, &words, &[[0; 4]; 2], true).result.unwrap();
    let kinds: Vec<_> = report.findings.iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [FindingKind::GlobalRace]);
    let same = write.replace("%w9", "%w3");
    clean(launch_on(&same, &words, &[[0; 4]; 2], true).result);
}

#[test]
fn sizes_are_asked_for() {
    let setup = floats_of(3, [4, 3, 2], POINT, |i| i as f32);
    let body = "txq.width.b32 %w4, [%d2];\ntxq.height.b32 %w5, [%d2];\ntxq.depth.b32 %w6, [%d2];\n\
        txq.array_size.b32 %w7, [%d2];";
    assert_eq!(run(body, &setup, &[[0; 4]])[0], [4, 3, 2, 0]);
}

/// Counters of texture accesses were never compared with hardware.
#[test]
fn counts_of_global_memory_are_withheld() {
    let setup = floats_of(2, [4, 3, 1], POINT, |i| i as f32);
    let body = "tex.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}];";
    let report = launch_on(body, &setup, &[[0; 4]], true).result.unwrap();
    let doubt = |counter| report.withheld.get(&counter).map(|found| found.doubt);
    assert_eq!(doubt(Counter::GlobalLoadSectors), Some(Doubt::Uncompared));
    assert_eq!(doubt(Counter::GlobalLoadRequests), Some(Doubt::Uncompared));
    assert_eq!(doubt(Counter::GlobalStoreSectors), None);
    assert_eq!(
        report.counters.get(Counter::GlobalLoadRequests),
        1,
        "of `in` alone"
    );
}

#[test]
fn forms_that_are_not_built_are_refused_by_name() {
    for (form, why) in [
        (
            "tex.cube.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1, %w2, %w2}];",
            "1, 2 and 3 dimensions",
        ),
        (
            "sured.b.add.2d.u32.trap [%d2, {%w0, %w1}], %w2;",
            "reductions",
        ),
        ("sust.p.2d.b32.trap [%d2, {%w0, %w1}], {%w2};", "formatted"),
        (
            "tex.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, {%w0, %w1}], {%w2, %w3};",
            "offsets",
        ),
        ("txq.num_mipmap_levels.b32 %w4, [%d2];", "query"),
        (
            "tex.2d.v4.f32.f32 {%w4, %w5, %w6, %w7}, [%d2, %d1, {%w0, %w1}];",
            "samplers",
        ),
    ] {
        let module = Module::load(&kernel(form)).unwrap();
        let refused = module.refused()[0].error.to_string();
        assert!(
            refused.contains(why) && refused.contains("is not supported"),
            "{refused}"
        );
    }
}
