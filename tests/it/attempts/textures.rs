//! Each project is one kernel over an image of 16 x 8 floats, whose right output is worked out by a reference in C++.

use crate::common::{failed, run, simulate, stderr};
use std::path::Path;

/// `out` is the image, shifted by (dx, dy) = (0.25, 0.5) texels, by the formula of the CUDA guide.
const REFERENCE: &str = r#"#include <cmath>
extern "C" void reference(const float* image, float* out, int w, int h) {
    auto at = [&](int x, int y) {
        x = x < 0 ? 0 : x > w - 1 ? w - 1 : x;
        y = y < 0 ? 0 : y > h - 1 ? h - 1 : y;
        return image[y * w + x];
    };
    for (int y = 0; y < h; ++y)
        for (int x = 0; x < w; ++x)
            out[y * w + x] = 0.5f * (0.75f * at(x, y) + 0.25f * at(x + 1, y))
                           + 0.5f * (0.75f * at(x, y + 1) + 0.25f * at(x + 1, y + 1));
}
"#;

const SOURCE: &str = r#"
extern "C" __global__ void shift(cudaTextureObject_t image, float* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < w && y < h) out[y * w + x] = tex2D<float>(image, x + 0.5f + 0.25f, y + 0.5f + 0.5f);
}
"#;

const GATES: &str = "\
version: 1
architectures: [sm_90]
kernels:
  shift:
    source: k.cu
    entry: shift
    shapes: {s: {W: 16, H: 8}}
    tensors:
      image: {type: f32, shape: [H, W]}
      out: {role: out, type: f32, shape: [H, W]}
    args: [{texture: {tensor: image, filter: linear}}, {tensor: out}, {i32: W}, {i32: H}]
    launch: {grid: [1, H], block: [32]}
    reference:
      user:
        source: ref.cpp
        function: reference
        args: [{tensor: image}, {tensor: out}, {i32: W}, {i32: H}]
    gates: {max_err: 1e-6}
";

/// A project with these replacements in its gates and source.
fn project(changes: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut texts = [GATES.to_owned(), SOURCE.to_owned(), REFERENCE.to_owned()];
    for (old, new) in changes {
        let text = texts.iter_mut().find(|text| text.contains(old));
        let text = text.unwrap_or_else(|| panic!("no {old:?}"));
        *text = text.replace(old, new);
    }
    for (name, text) in ["gates.yaml", "k.cu", "ref.cpp"].iter().zip(&texts) {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

/// gates.yaml is refused, with this on stderr.
fn is_refused(dir: &Path, says: &str) {
    let output = run(dir, &["run", "--provision", "--device", "sim"], 2);
    let said = stderr(&output);
    assert!(said.contains(says), "{said}");
}

/// The simulator and the tensor's declaration agree with the formula.
#[test]
fn a_right_texture_kernel_passes() {
    let dir = project(&[]);
    let said = simulate(dir.path(), &[], 0);
    assert!(said.contains("PASS"), "{said}");
}

/// The half texel of the centre is forgotten: the most frequent mistake with textures.
#[test]
fn a_coordinate_without_its_half_texel_fails() {
    let dir = project(&[("x + 0.5f + 0.25f", "x + 0.25f")]);
    simulate(dir.path(), &[], 1);
    let gates: Vec<String> = failed(dir.path())
        .into_iter()
        .map(|(gate, _)| gate)
        .collect();
    assert!(
        gates.iter().any(|gate| gate.contains("max_err")),
        "{gates:?}"
    );
}

/// Mistakes that gates.yaml itself shows, each refused before anything is built.
#[test]
fn declarations_that_cuda_does_not_have_are_refused() {
    let texture = "{texture: {tensor: image, filter: linear}}";
    let with = |more: &str| format!("{{texture: {{tensor: image, {more}}}}}");
    let image = "image: {type: f32, shape: [H, W]}";
    let typed = |ty: &str| {
        format!("image: {{type: {ty}, shape: [H, W], fill: {{integers: {{low: 0, high: 9}}}}}}")
    };
    let rows: [(&[(&str, &str)], &str); 15] = [
        (
            &[(texture, &with("address: wrap"))],
            "need normalised coordinates",
        ),
        (
            &[(texture, &with("address: mirror"))],
            "need normalised coordinates",
        ),
        (&[(texture, &with("address: nearest"))], "unknown"),
        (
            &[(texture, &with("read: normalized_float"))],
            "only integers of 8 and 16 bits",
        ),
        (&[(image, &typed("u8"))], "the tensor holds integers"),
        (
            &[(image, &typed("i64"))],
            "which no texture or surface does",
        ),
        (&[(texture, &with("channels: 3"))], "1, 2 or 4 channels"),
        (&[(texture, &with("channels: 4"))], "is not 4"),
        (
            &[(image, "image: {type: f32, shape: [2, 2, H, W]}")],
            "leaves 4",
        ),
        (
            &[(image, "image: {type: f32, shape: [131073]}")],
            "allows 131072",
        ),
        (
            &[(texture, &with("memory: linear"))],
            "one dimension and no layers",
        ),
        (
            &[(texture, "{texture: {tensor: images}}")],
            "unknown tensor `images`",
        ),
        (
            &[(
                "{tensor: out}, {i32: W}, {i32: H}]\n    launch",
                "{texture: {tensor: out}}, {i32: W}, {i32: H}]\n    launch",
            )],
            "a texture is only read",
        ),
        (
            &[(
                texture,
                "{struct: [{tensor: image}, {texture: {tensor: image}}]}",
            )],
            "whose array is other memory",
        ),
        (
            &[(
                "args: [{tensor: image}, {tensor: out}, {i32: W}",
                "args: [{texture: {tensor: image}}, {tensor: out}, {i32: W}",
            )],
            "neither textures nor surfaces",
        ),
    ];
    for (changes, says) in rows {
        is_refused(project(changes).path(), says);
    }
}

/// The same kernel with other arguments ends with exit code 1, and with this text in a failed gate.
fn fails_with(changes: &[(&str, &str)], says: &str) {
    let dir = project(changes);
    simulate(dir.path(), &[], 1);
    let failed = failed(dir.path());
    assert!(
        failed.iter().any(|(_, message)| message.contains(says)),
        "{says}: {failed:?}"
    );
}

const TEXTURE: &str = "{texture: {tensor: image, filter: linear}}";
const FETCH: &str = "out[y * w + x] = tex2D<float>(image, x + 0.5f + 0.25f, y + 0.5f + 0.5f);";

/// The kernel's and gates.yaml's ideas of the texture differ: in its filter, its coordinates, its dimensions and
/// its elements.
#[test]
fn a_texture_that_is_declared_as_another_one_fails() {
    for (declared, says) in [
        ("{texture: {tensor: image}}", "max_err"),
        (
            "{texture: {tensor: image, filter: linear, normalized: true}}",
            "max_err",
        ),
        (
            "{texture: {tensor: image, layered: true}}",
            "a 2D access to `image`, which is a layered 1D image",
        ),
        (
            "{surface: {tensor: image}}",
            "a texture fetch from the surface of `image`",
        ),
        // Without a signature, a pointer is as good as a handle to the driver.
        (
            "{tensor: image}",
            "the address of `image`, where a texture or surface object is needed",
        ),
        ("{u64: 0}", "0x0, which is no texture"),
    ] {
        let dir = project(&[(TEXTURE, declared)]);
        // A tensor that no argument passes is refused.
        if declared.contains("u64") {
            is_refused(dir.path(), "no argument passes the tensor `image`");
            continue;
        }
        simulate(dir.path(), &[], 1);
        let failed = failed(dir.path());
        let told =
            |(gate, message): &(String, String)| gate.contains(says) || message.contains(says);
        assert!(failed.iter().any(told), "{declared}: {failed:?}");
    }
}

/// A handle is no pointer: nothing can be read there.
#[test]
fn a_texture_in_place_of_a_pointer_fails() {
    let pointer = [
        ("cudaTextureObject_t image", "const float* image"),
        (FETCH, "out[y * w + x] = image[y * w + x];"),
    ];
    fails_with(&pointer, "out of bounds");
}

/// `read`, `layered` and `channels` in one kernel, and what a gather gives, by the formulas.
#[test]
fn layers_of_bytes_that_are_read_as_floats_pass() {
    let dir = project(&[
        (
            "image: {type: f32, shape: [H, W]}",
            "image: {type: u8, shape: [3, H, W, 4], fill: {integers: {low: 0, high: 255}}}",
        ),
        (
            TEXTURE,
            "{texture: {tensor: image, layered: true, channels: 4, read: normalized_float, address: mirror, normalized: true}}",
        ),
        (
            FETCH,
            "out[y * w + x] = tex2DLayered<float4>(image, 2.f - (x + 0.5f) / w, (y + 0.5f) / h, 1).z;",
        ),
        ("const float* image", "const unsigned char* image"),
        (
            "return image[y * w + x];",
            "return image[((h + y) * w + x) * 4 + 2] / 255.f;",
        ),
        (
            "out[y * w + x] = 0.5f * (0.75f * at(x, y) + 0.25f * at(x + 1, y))\n                           + 0.5f * (0.75f * at(x, y + 1) + 0.25f * at(x + 1, y + 1));",
            "out[y * w + x] = at(x, y);",
        ),
    ]);
    simulate(dir.path(), &[], 0);
}

const SURFACE: [(&str, &str); 4] = [
    (TEXTURE, "{tensor: image}"),
    (
        "{tensor: out}, {i32: W}, {i32: H}]\n    launch",
        "{surface: {tensor: out}}, {i32: W}, {i32: H}]\n    launch",
    ),
    (
        "cudaTextureObject_t image, float* out",
        "const float* image, cudaSurfaceObject_t out",
    ),
    (
        "out[y * w + x] = 0.5f * (0.75f * at(x, y) + 0.25f * at(x + 1, y))\n                           + 0.5f * (0.75f * at(x, y + 1) + 0.25f * at(x + 1, y + 1));",
        "out[y * w + x] = at(x, y);",
    ),
];

fn surface(body: &str) -> tempfile::TempDir {
    let mut changes = SURFACE.to_vec();
    changes.push((FETCH, body));
    project(&changes)
}

/// An output behind a surface is compared as any other; one element that is not written is seen, and one that two
/// threads write, and x in texels where it is in bytes.
#[test]
fn writes_through_a_surface_are_compared() {
    let right = surface("surf2Dwrite(image[y * w + x], out, x * 4, y);");
    simulate(right.path(), &[], 0);
    for (body, says) in [
        (
            "if (x != 7 || y != 3) surf2Dwrite(image[y * w + x], out, x * 4, y);",
            "written",
        ),
        (
            "surf2Dwrite(image[y * w + x], out, x, y);",
            "misaligned access: 4 bytes at byte 1 of a row",
        ),
        (
            "surf2Dwrite(image[y * w + x], out, x * 4, y + 1);",
            "out of bounds of the surface of `out`: byte 0 of a row of 64, y 8 of 8",
        ),
        (
            "surf2Dwrite(image[y * w + x], out, x * 4, y, cudaBoundaryModeZero); surf2Dwrite((float)x, out, 0, y);",
            "race",
        ),
        (
            "surf2Dwrite(image[y * w + x], out, 64 + x * 4, y, cudaBoundaryModeZero);",
            "written",
        ),
    ] {
        let dir = surface(body);
        simulate(dir.path(), &[], 1);
        let failed = failed(dir.path());
        assert!(
            failed.iter().any(|(_, message)| message.contains(says)),
            "{body}: {failed:?}"
        );
    }
}

/// A kernel reads its own output through a surface, and nothing wrote that yet.
#[test]
fn a_surface_that_is_read_before_it_is_written_fails() {
    let dir = surface(
        "surf2Dwrite(image[y * w + x] + 0 * surf2Dread<float>(out, x * 4, y), out, x * 4, y);",
    );
    simulate(dir.path(), &[], 1);
    let failed = failed(dir.path());
    assert!(
        failed
            .iter()
            .any(|(_, message)| message.contains("`out`") && message.contains("never written")),
        "{failed:?}"
    );
}

/// tex1Dfetch reads the tensor's own memory, of which a pointer may be passed too; past its end is a fault and no 0.
#[test]
fn a_fetch_from_linear_memory_ends_with_it() {
    let linear = |index: &str| {
        project(&[
            (
                "image: {type: f32, shape: [H, W]}",
                "image: {type: f32, shape: [\"H * W\"]}",
            ),
            (TEXTURE, "{texture: {tensor: image, memory: linear}}"),
            (
                FETCH,
                &format!("out[y * w + x] = tex1Dfetch<float>(image, {index});"),
            ),
            (
                "out[y * w + x] = 0.5f * (0.75f * at(x, y) + 0.25f * at(x + 1, y))\n                           + 0.5f * (0.75f * at(x, y + 1) + 0.25f * at(x + 1, y + 1));",
                "out[y * w + x] = at(x, y);",
            ),
        ])
    };
    simulate(linear("y * w + x").path(), &[], 0);
    let past = linear("y * w + x + 1");
    simulate(past.path(), &[], 1);
    let failed = failed(past.path());
    assert!(
        failed
            .iter()
            .any(|(_, message)| message.contains("texel 128 of 128 in `image`")),
        "{failed:?}"
    );
}

/// No GPU has confirmed what is counted for textures: a gate on it gives no verdict, and does not pass.
#[test]
fn a_gate_on_sectors_of_textures_is_withheld() {
    let dir = project(&[(
        "gates: {max_err: 1e-6}",
        "gates: {max_err: 1e-6, global_load_sectors: 1000}",
    )]);
    run(dir.path(), &["run", "--provision", "--device", "sim"], 0);
    let report: serde_json::Value =
        serde_json::from_str(&crate::common::report(dir.path())).unwrap();
    let verdicts = report["verdicts"].as_array().unwrap();
    let of_sectors = verdicts.iter().find(|it| {
        it["gate"]
            .as_str()
            .is_some_and(|gate| gate.contains("global_load_sectors"))
    });
    let outcome = &of_sectors.unwrap()["outcome"];
    assert_eq!(outcome, "unsupported");
}

/// Handles may be members of a struct by value.
#[test]
fn a_texture_in_a_struct_passes() {
    let dir = project(&[
        (
            TEXTURE,
            "{struct: [{i32: 5}, {texture: {tensor: image, filter: linear}}]}",
        ),
        (
            "cudaTextureObject_t image, float* out",
            "Image given, float* out",
        ),
        (
            "\nextern \"C\" __global__",
            "\nstruct Image { int five; cudaTextureObject_t image; };\nextern \"C\" __global__",
        ),
        (
            FETCH,
            "out[y * w + x] = tex2D<float>(given.image, x + 0.75f, y + 1.f) + (given.five - 5);",
        ),
    ]);
    simulate(dir.path(), &[], 0);
}

/// `.attribute(.managed)`: a variable of the module as any other.
#[test]
fn a_managed_variable_is_read_and_written() {
    let managed = |value: &str| {
        project(&[
            (
                "\nextern \"C\" __global__",
                &format!("\n__managed__ float half = {value};\nextern \"C\" __global__"),
            ),
            (
                FETCH,
                "out[y * w + x] = tex2D<float>(image, x + half + 0.25f, y + half + 0.5f);",
            ),
        ])
    };
    simulate(managed("0.5f").path(), &[], 0);
    simulate(managed("0.25f").path(), &[], 1);
}

/// The access lies nearer to another buffer than to its own, and both are named.
#[test]
fn an_access_far_past_its_buffer_names_its_buffer() {
    let pointer = [
        (TEXTURE, "{tensor: image}"),
        ("cudaTextureObject_t image", "const float* image"),
        (FETCH, "out[y * w + x] = image[y * w + x + 30000];"),
    ];
    fails_with(
        &pointer,
        "it was computed from the address of `image` (512 bytes at",
    );
}

const NEWER: &str = "\
.version 9.4
.target sm_90
.address_size 64
.visible .entry shift(.param .u64 image, .param .u64 out, .param .u32 w, .param .u32 h)
{
.reg .b32 %r<9>;
.reg .b64 %d<9>;
ld.param.u64 %d1, [image];
ld.param.u64 %d2, [out];
ld.param.u32 %r1, [w];
mov.u32 %r2, %tid.x;
mov.u32 %r3, %ctaid.y;
mad.lo.u32 %r4, %r3, %r1, %r2;
mul.wide.u32 %d3, %r4, 4;
add.u64 %d1, %d1, %d3;
add.u64 %d2, %d2, %d3;
ld.global.b32 %r5, [%d1];
st.global.b32 [%d2], %r5;
ret;
}
";

/// A project whose source is PTX, made of these.
fn newer(ptx: &str, gates: &str) -> tempfile::TempDir {
    let dir = project(&[
        (TEXTURE, "{tensor: image}"),
        ("source: k.cu", "source: k.ptx"),
        ("block: [32]", "block: [W]"),
        ("gates: {max_err: 1e-6}", gates),
        (
            "out[y * w + x] = 0.5f * (0.75f * at(x, y) + 0.25f * at(x + 1, y))\n                           + 0.5f * (0.75f * at(x, y + 1) + 0.25f * at(x + 1, y + 1));",
            "out[y * w + x] = at(x, y);",
        ),
    ]);
    std::fs::write(dir.path().join("k.ptx"), ptx).unwrap();
    dir
}

/// PTX of a version that ptxas does not take is checked, and a gate on registers, which nobody knows, gives no
/// verdict. A mistake in it fails as ever, and a text that is no PTX does not become newer PTX.
#[test]
fn newer_ptx_is_simulated_and_has_no_resources() {
    let right = newer(
        NEWER,
        "gates: {max_err: 1e-6, registers: 255, occupancy: 0.01}",
    );
    let output = run(
        right.path(),
        &["run", "-v", "--provision", "--device", "sim"],
        0,
    );
    let said = crate::common::stdout(&output);
    assert!(said.contains("newer version than this PTXAS"), "{said}");
    let report: serde_json::Value =
        serde_json::from_str(&crate::common::report(right.path())).unwrap();
    let verdicts = report["verdicts"].as_array().unwrap();
    let outcomes = |part: &str| {
        let named = verdicts
            .iter()
            .filter(|it| it["gate"].as_str().unwrap().contains(part));
        let outcomes: Vec<&str> = named.map(|it| it["outcome"].as_str().unwrap()).collect();
        outcomes
    };
    assert_eq!(outcomes("registers"), ["unsupported"]);
    assert_eq!(outcomes("occupancy"), ["unsupported"]);
    assert_eq!(outcomes("max_err"), ["pass"]);
    for (old, new) in [
        ("st.global.b32 [%d2], %r5;", "st.global.b32 [%d2], %r4;"),
        ("ld.global.b32 %r5, [%d1];", "ld.global.b32 %r5, [%d1+512];"),
        ("ret;\n}", "ret\n}"),
        ("mov.u32 %r2, %tid.x;", "frob.u32 %r2, %tid.x;"),
        (".entry shift(", ".entry other("),
        (".version 9.4", ".version 9.0\nfrob"),
    ] {
        let wrong = newer(&NEWER.replace(old, new), "gates: {max_err: 1e-6}");
        let args = ["run", "--provision", "--device", "sim"];
        let said = crate::common::stdout(&run(wrong.path(), &args, 1));
        assert!(!said.contains("PASS"), "{old}: {said}");
    }
}
