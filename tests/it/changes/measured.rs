//! Compares measurements of head with those of the base: resources, counters, and checks that are lost.

use super::{Change, DISHONEST, HONEST, update_baselines};
use crate::common::edit;
use std::fs;
use std::path::Path;

/// Edits of the kernel `copy`.
fn copy(dir: &Path, new: &str) {
    edit(&dir.join("copy.cu"), "    if (i < n) y[i] = x[i];\n", new);
}

fn gates(dir: &Path, old: &str, new: &str) {
    edit(&dir.join("gates.yaml"), old, new);
}

/// Still right, and no two lanes of a warp in one sector.
fn scatter(dir: &Path) {
    copy(
        dir,
        "    const int t = threadIdx.x;\n    const int j = i - t + t % 32 * 8 + t / 32;\n    \
         if (j < n) y[j] = x[j];\n",
    );
}

/// Still right, with the same traffic, and many values that live at once.
fn hoard(dir: &Path) {
    copy(
        dir,
        "    unsigned h[24];\n    \
         for (int k = 0; k < 24; ++k) h[k] = (i + k) * 2654435761u + k;\n    \
         for (int r = 0; r < n; ++r)\n        \
         for (int k = 0; k < 24; ++k) h[k] = h[(k + 7) % 24] * 1664525u + (h[k] >> 7);\n    \
         unsigned sum = 0;\n    for (int k = 0; k < 24; ++k) sum ^= h[k];\n    \
         if (i < n) y[i] = sum == 1u && n < 0 ? 0.0f : x[i];\n",
    );
}

/// Edits of the kernel `twice`, whose registers have room.
fn twice(dir: &Path, new: &str) {
    edit(
        &dir.join("twice.cu"),
        "    if (i < n) y[i] = 2 * x[i];\n",
        new,
    );
}

/// Wrong, and with an instruction that the simulator refuses.
fn refuse(dir: &Path) {
    twice(
        dir,
        "    float v = 1;\n    \
         if (n < 0) asm volatile(\"multimem.ld_reduce.global.add.f32 %0, [%1];\" : \"=f\"(v) : \"l\"(x));\n    \
         if (i < n) y[i] = 2 * x[i] + v;\n",
    );
}

/// It does not compile.
fn break_copy(dir: &Path) {
    edit(&dir.join("copy.cu"), "int n)", "int n, broken)");
}

fn mend_copy(dir: &Path) {
    edit(&dir.join("copy.cu"), "int n, broken)", "int n)");
}

fn other_flags(dir: &Path) {
    gates(dir, "flags: [-O3]", "flags: [-O2]");
}

pub const HONEST_CHANGES: &[Change] = &[
    Change {
        name: "comments",
        baselines: true,
        change: |dir| edit(&dir.join("copy.cu"), "// y = x\n", "// y is x.\n//\n"),
        ..HONEST
    },
    Change {
        name: "a kernel with fewer registers and accesses",
        baselines: true,
        before: |dir| {
            scatter(dir);
            update_baselines(dir);
        },
        change: |dir| {
            let source = fs::read_to_string(crate::common::root().join(COPY)).unwrap();
            fs::write(dir.join("copy.cu"), source).unwrap();
        },
        ..HONEST
    },
    Change {
        name: "flags that change nothing with committed baselines",
        baselines: true,
        change: other_flags,
        ..HONEST
    },
    Change {
        name: "an architecture in front with committed baselines",
        baselines: true,
        change: |dir| gates(dir, "[sm_90]", "[sm_80, sm_90]"),
        ..HONEST
    },
    Change {
        name: "a kernel mended that did not compile, with committed baselines",
        baselines: true,
        before: break_copy,
        change: mend_copy,
        ..HONEST
    },
    Change {
        name: "a kernel mended that did not compile, which a maintainer allowed",
        before: break_copy,
        change: mend_copy,
        flags: &["--allow-loosened"],
        ..HONEST
    },
    Change {
        name: "a lost check that a maintainer allowed",
        change: refuse,
        flags: &["--allow-loosened"],
        ..HONEST
    },
    Change {
        name: "more registers that a maintainer allowed, agreed on under other flags",
        baselines: true,
        change: |dir| {
            other_flags(dir);
            hoard(dir);
            update_baselines(dir);
        },
        flags: &["--allow-loosened"],
        ..HONEST
    },
    Change {
        name: "another signature, with its arguments",
        baselines: true,
        change: |dir| {
            edit(
                &dir.join("copy.cu"),
                "(const float* x, float* y, int n)",
                "(float* y, const float* x, int n, int unused)",
            );
            gates(
                dir,
                "args: [{tensor: x}, {tensor: y}, {i32: N}]\n    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}\n    reference: {unary",
                "args: [{tensor: y}, {tensor: x}, {i32: N}, {i32: 0}]\n    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}\n    reference: {unary",
            );
        },
        ..HONEST
    },
    Change {
        name: "a new input tensor",
        change: |dir| {
            edit(
                &dir.join("twice.cu"),
                "(const float* x,",
                "(const float* bias, const float* x,",
            );
            twice(
                dir,
                "    if (i < n) y[i] = 2 * x[i];\n    if (n < 0) y[0] = bias[0];\n",
            );
            gates(
                dir,
                "args: [{tensor: x}, {tensor: y}, {i32: N}]\n    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}\n    reference: {user",
                "args: [{tensor: bias}, {tensor: x}, {tensor: y}, {i32: N}]\n    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}\n    reference: {user",
            );
            gates(
                dir,
                "seeds: 1\n    tensors:\n",
                "seeds: 1\n    tensors:\n      bias: {type: f32, shape: [N]}\n",
            );
        },
        ..HONEST
    },
    Change {
        name: "a kernel split in two, under both names",
        baselines: true,
        change: |dir| {
            let whole = fs::read_to_string(dir.join("gates.yaml")).unwrap();
            let at = whole.find("  twice:\n").unwrap();
            let second = whole[at..].replace("twice", "double");
            fs::write(dir.join("gates.yaml"), whole + &second).unwrap();
            let source = fs::read_to_string(dir.join("twice.cu")).unwrap();
            fs::write(dir.join("double.cu"), source.replace("twice", "double_")).unwrap();
            gates(dir, "entry: double\n", "entry: double_\n");
        },
        ..HONEST
    },
    Change {
        name: "a variant added",
        baselines: true,
        change: |dir| {
            copy(
                dir,
                "#ifdef PLUS\n    if (i < n) y[i] = x[i] + 0.0f;\n#else\n    if (i < n) y[i] = x[i];\n#endif\n",
            );
            gates(
                dir,
                "    entry: copy\n",
                "    entry: copy\n    variants:\n      default: {}\n      plus: {define: {PLUS: 1}}\n",
            );
        },
        ..HONEST
    },
    Change {
        name: "a seed added",
        baselines: true,
        change: |dir| gates(dir, "seeds: 2\n", "seeds: 3\n"),
        ..HONEST
    },
    Change {
        name: "a shape added",
        baselines: true,
        change: |dir| {
            gates(
                dir,
                "small: {N: 1000}\n    seeds: 2",
                "small: {N: 1000}\n      more: {N: 2000}\n    seeds: 2",
            )
        },
        ..HONEST
    },
];

const COPY: &str = "tests/fixtures/changes/copy.cu";

pub const DISHONEST_CHANGES: &[Change] = &[
    Change {
        name: "worse counters with committed baselines",
        baselines: true,
        change: scatter,
        broken: &["counters-rose"],
        ..DISHONEST
    },
    Change {
        name: "more registers with committed baselines",
        baselines: true,
        change: hoard,
        broken: &["beyond-change"],
        ..DISHONEST
    },
    Change {
        name: "flags with worse counters",
        change: |dir| {
            other_flags(dir);
            scatter(dir);
        },
        broken: &["counters-rose"],
        ..DISHONEST
    },
    Change {
        name: "flags with more registers",
        change: |dir| {
            other_flags(dir);
            hoard(dir);
        },
        broken: &["beyond-change"],
        ..DISHONEST
    },
    Change {
        name: "-lineinfo with worse counters with committed baselines",
        baselines: true,
        change: |dir| {
            gates(dir, "flags: [-O3]", "flags: [-O3, -lineinfo]");
            scatter(dir);
        },
        broken: &["counters-rose"],
        ..DISHONEST
    },
    Change {
        name: "an architecture in front with more registers",
        change: |dir| {
            gates(dir, "[sm_90]", "[sm_80, sm_90]");
            hoard(dir);
        },
        broken: &["beyond-change"],
        ..DISHONEST
    },
    Change {
        name: "an architecture in front with worse counters",
        change: |dir| {
            gates(dir, "[sm_90]", "[sm_80, sm_90]");
            scatter(dir);
        },
        broken: &["counters-rose"],
        ..DISHONEST
    },
    Change {
        name: "an instruction that is refused, in a wrong kernel of other flags",
        change: |dir| {
            other_flags(dir);
            refuse(dir);
        },
        broken: &["check-lost"],
        ..DISHONEST
    },
    Change {
        name: "a kernel that polls memory, so that none of its counters can be held to anything",
        change: |dir| {
            twice(
                dir,
                "    volatile float* seen = y;\n    if (i < n) {\n        seen[i] = 2 * x[i];\n        \
                 while (seen[i] != 2 * x[i]) {}\n    }\n    if (i < n && n < 0) y[i] = x[i / 32];\n",
            );
        },
        broken: &["counters-lost"],
        ..DISHONEST
    },
    Change {
        name: "a case that has grown over the budget",
        before: |dir| gates(dir, "kernels:\n", "simulation: {budget: 5000}\nkernels:\n"),
        change: |dir| {
            twice(
                dir,
                "    unsigned k = n;\n    for (int r = 0; r < 1000; ++r) k = k * 1664525u + (k >> 7);\n    \
                 if (i < n) y[i] = k == 12345u ? 0 : 2 * x[i] + 1;\n",
            );
        },
        broken: &["check-lost"],
        ..DISHONEST
    },
    Change {
        name: "a path that is wrong on a later architecture alone",
        before: |dir| gates(dir, "[sm_90]", "[sm_80, sm_90]"),
        change: |dir| {
            twice(
                dir,
                "#if __CUDA_ARCH__ >= 900\n    if (i < n) y[i] = 2 * x[i] + 1;\n#else\n    \
                 if (i < n) y[i] = 2 * x[i];\n#endif\n",
            );
        },
        broken: &["beyond-limit"],
        ..DISHONEST
    },
    Change {
        name: "a reference variant that the simulator refuses",
        before: |dir| {
            gates(
                dir,
                "    entry: copy\n",
                "    entry: copy\n    variants:\n      plain: {}\n      plus: {define: {PLUS: 1}, reference: {variant: plain}}\n",
            );
            copy(
                dir,
                "#ifdef PLUS\n    if (i < n) y[i] = x[i] + 0.0f;\n#else\n    if (i < n) y[i] = x[i];\n#endif\n",
            );
        },
        change: |dir| {
            edit(
                &dir.join("copy.cu"),
                "#else\n",
                "#else\n    float v;\n    \
                 if (n < 0) asm volatile(\"multimem.ld_reduce.global.add.f32 %0, [%1];\" : \"=f\"(v) : \"l\"(x));\n",
            );
        },
        broken: &["check-lost"],
        ..DISHONEST
    },
    Change {
        name: "more seeds than the budget allows, of the same code",
        before: |dir| gates(dir, "kernels:\n", "simulation: {budget: 3000}\nkernels:\n"),
        change: |dir| gates(dir, "seeds: 2\n", "seeds: 9\n"),
        broken: &["check-lost"],
        ..DISHONEST
    },
    Change {
        name: "an architecture in the place of another, which nothing is compared with",
        change: |dir| {
            gates(dir, "[sm_90]", "[sm_80]");
            scatter(dir);
        },
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        // Nothing is wrong with it, and nothing is known of the base: no pass without it.
        name: "another compiler pinned, where this machine has not the base's",
        before: |dir| gates(dir, "kernels:\n", "toolchain: {cuda: \"11.1\"}\nkernels:\n"),
        change: |dir| gates(dir, "\"11.1\"", "\"13.0\""),
        code: 4,
        broken: &[],
        ..DISHONEST
    },
    Change {
        name: "a baseline of other flags that agrees on more registers",
        baselines: true,
        change: |dir| {
            other_flags(dir);
            hoard(dir);
            update_baselines(dir);
        },
        broken: &["loosened"],
        says: &["head's baseline, under the flags `-O2` (base: `-O3`), is worse: registers"],
        ..DISHONEST
    },
    Change {
        name: "a wrong kernel",
        change: |dir| twice(dir, "    if (i < n) y[i] = 3 * x[i];\n"),
        broken: &["beyond-limit"],
        ..DISHONEST
    },
];
