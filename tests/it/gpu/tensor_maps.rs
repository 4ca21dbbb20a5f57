//! Tests boxes that TMA copies by gatekeeper's maps: each place of the swizzled box in shared memory, and the values
//! for elements outside the tensor.

use super::textures::{floats, outputs};
use std::fmt::Write;

/// Kernels that write each box as it is in shared memory. NaN is written as -1, because an output that is not a number
/// is refused.
const SOURCE: &str = r#"
#include <cuda.h>
extern "C" __global__ void copy(const __grid_constant__ CUtensorMap map, float* out, int first_row) {
    __shared__ alignas(1024) float box[8 * COLUMNS];
    __shared__ alignas(8) unsigned long long done;
    unsigned to = unsigned(__cvta_generic_to_shared(box)), barrier = unsigned(__cvta_generic_to_shared(&done));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(int(sizeof box)) : "memory");
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3, %4}], [%5];"
                     :: "r"(to), "l"(&map), "r"(int(blockIdx.x) * COLUMNS), "r"(first_row), "r"(int(blockIdx.y)), "r"(barrier)
                     : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred done; \n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; \n"
                 "@!done bra again; }" :: "r"(barrier) : "memory");
    float* own = out + (blockIdx.y * gridDim.x + blockIdx.x) * 8 * COLUMNS;
    for (int i = threadIdx.x; i < 8 * COLUMNS; i += blockDim.x) own[i] = isnan(box[i]) ? -1.f : box[i];
}
"#;

const HEADS: usize = 2;
const ROWS: usize = 5;
const WIDTH: usize = 40;
/// The number of rows of the box, which begins two rows before the tensor.
const BOX_ROWS: usize = 8;
const FIRST_ROW: i64 = -2;
const BLOCKS: usize = 2;

struct Kernel {
    name: &'static str,
    columns: usize,
    /// The width of the swizzle in bytes, or 0 without one.
    swizzle: usize,
    step: usize,
    fills_nan: bool,
}

const KERNELS: [Kernel; 5] = [
    Kernel {
        name: "plain",
        columns: 32,
        swizzle: 0,
        step: 1,
        fills_nan: false,
    },
    Kernel {
        name: "swizzled_32",
        columns: 8,
        swizzle: 32,
        step: 1,
        fills_nan: true,
    },
    Kernel {
        name: "swizzled_64",
        columns: 16,
        swizzle: 64,
        step: 1,
        fills_nan: false,
    },
    Kernel {
        name: "swizzled_128",
        columns: 32,
        swizzle: 128,
        step: 1,
        fills_nan: true,
    },
    Kernel {
        name: "stepped",
        columns: 32,
        swizzle: 128,
        step: 2,
        fills_nan: false,
    },
];

fn gates() -> String {
    let mut text = "version: 1\narchitectures: [sm_90]\nkernels:\n".to_owned();
    let values: Vec<String> = (1..=HEADS * ROWS * WIDTH).map(|i| i.to_string()).collect();
    let values = values.join(", ");
    for kernel in &KERNELS {
        let mut keys = format!("box: [1, {}, COLUMNS]", BOX_ROWS * kernel.step);
        if kernel.swizzle > 0 {
            let _ = write!(keys, ", swizzle: {}", kernel.swizzle);
        }
        if kernel.step > 1 {
            let _ = write!(keys, ", steps: [1, {}, 1]", kernel.step);
        }
        if kernel.fills_nan {
            keys += ", fill: nan";
        }
        let _ = write!(
            text,
            "  {name}:\n    source: k.cu\n    entry: copy\n    define: {{COLUMNS: {}}}\n    tensors:\n      \
             x: {{type: f32, shape: [{HEADS}, {ROWS}, {WIDTH}], fill: {{values: [{values}]}}}}\n      \
             {name}_out: {{role: out, type: f32, shape: [{HEADS}, {BLOCKS}, {BOX_ROWS}, COLUMNS]}}\n    \
             args: [{{tensor_map: {{tensor: x, {keys}}}}}, {{tensor: {name}_out}}, {{i32: {FIRST_ROW}}}]\n    \
             launch: {{grid: [{BLOCKS}, {HEADS}], block: [32]}}\n    reference: none\n    gates: {{max_err: 1}}\n",
            kernel.columns,
            name = kernel.name,
        );
    }
    text
}

/// Returns the place of a byte in a swizzled box. PTX ISA, "Swizzling Modes": chunks of 16 bytes change places by the
/// number of their 128 bytes.
fn swizzled(byte: usize, width: usize) -> usize {
    let chunks = (width / 16).max(1);
    byte ^ (byte / 128 % chunks * 16)
}

fn expected(kernel: &Kernel) -> Vec<f32> {
    let outside = if kernel.fills_nan { -1.0 } else { 0.0 };
    let mut all = Vec::new();
    for head in 0..HEADS {
        for block in 0..BLOCKS {
            let mut tile = vec![f32::NAN; BOX_ROWS * kernel.columns];
            for row in 0..BOX_ROWS {
                for column in 0..kernel.columns {
                    let y = FIRST_ROW + (row * kernel.step) as i64;
                    let x = block * kernel.columns + column;
                    let value = match usize::try_from(y) {
                        Ok(y) if y < ROWS && x < WIDTH => {
                            ((head * ROWS + y) * WIDTH + x + 1) as f32
                        }
                        _ => outside,
                    };
                    let byte = (row * kernel.columns + column) * 4;
                    tile[swizzled(byte, kernel.swizzle) / 4] = value;
                }
            }
            all.extend(tile);
        }
    }
    all
}

#[test]
fn a_swizzled_box_has_each_element_once() {
    assert_eq!(swizzled(0x80, 128), 0x90);
    assert_eq!(swizzled(0x3f4, 128), 0x384);
    assert_eq!(swizzled(0x200, 64), 0x200);
    assert_eq!(swizzled(0x80, 32), 0x90);
    assert_eq!(swizzled(0x80, 0), 0x80);
    for kernel in &KERNELS {
        assert!(expected(kernel).iter().all(|value| !value.is_nan()));
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU of sm_90: cargo test -- --ignored"]
fn tma_copies_by_the_maps_that_gatekeeper_makes() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("gates.yaml"), gates()).unwrap();
    std::fs::write(dir.path().join("k.cu"), SOURCE).unwrap();
    let found = outputs(dir.path(), "cuda");
    assert_eq!(found.len(), KERNELS.len(), "{:?}", found.keys());
    for kernel in &KERNELS {
        let file = format!("{}_out.got.npy", kernel.name);
        let (_, bytes) = found
            .iter()
            .find(|(path, _)| path.ends_with(&file))
            .unwrap();
        assert_eq!(floats(bytes), expected(kernel), "{}", kernel.name);
    }
}
