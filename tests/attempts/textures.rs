//! Each project is one kernel over an image of 16 x 8 floats, whose right output is worked out by a reference in C++.

use super::common::{failed, run, simulate, stderr};
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
