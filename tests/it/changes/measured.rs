//! Compares measurements of head with those of the base: resources, counters, and checks that are lost.

use super::{Change, dishonest, honest, update_baselines, with_baselines};
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
    with_baselines("comments", |dir| {
        edit(&dir.join("copy.cu"), "// y = x\n", "// y is x.\n//\n")
    }),
    Change {
        before: |dir| {
            scatter(dir);
            update_baselines(dir);
        },
        ..with_baselines("a kernel with fewer registers and accesses", |dir| {
            let source = fs::read_to_string(crate::common::root().join(COPY)).unwrap();
            fs::write(dir.join("copy.cu"), source).unwrap();
        })
    },
    with_baselines(
        "flags that change nothing with committed baselines",
        other_flags,
    ),
    with_baselines("an architecture in front with committed baselines", |dir| {
        gates(dir, "[sm_90]", "[sm_80, sm_90]")
    }),
    Change {
        before: break_copy,
        ..with_baselines(
            "a kernel mended that did not compile, with committed baselines",
            mend_copy,
        )
    },
    Change {
        before: break_copy,
        flags: &["--allow-loosened"],
        ..honest(
            "a kernel mended that did not compile, which a maintainer allowed",
            mend_copy,
        )
    },
    Change {
        flags: &["--allow-loosened"],
        ..honest("a lost check that a maintainer allowed", refuse)
    },
    Change {
        flags: &["--allow-loosened"],
        ..with_baselines(
            "more registers that a maintainer allowed, agreed on under other flags",
            |dir| {
                other_flags(dir);
                hoard(dir);
                update_baselines(dir);
            },
        )
    },
    with_baselines("another signature, with its arguments", |dir| {
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
    }),
    honest("a new input tensor", |dir| {
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
    }),
    with_baselines("a kernel split in two, under both names", |dir| {
        let whole = fs::read_to_string(dir.join("gates.yaml")).unwrap();
        let at = whole.find("  twice:\n").unwrap();
        let second = whole[at..].replace("twice", "double");
        fs::write(dir.join("gates.yaml"), whole + &second).unwrap();
        let source = fs::read_to_string(dir.join("twice.cu")).unwrap();
        fs::write(dir.join("double.cu"), source.replace("twice", "double_")).unwrap();
        gates(dir, "entry: double\n", "entry: double_\n");
    }),
    with_baselines("a variant added", |dir| {
        copy(
            dir,
            "#ifdef PLUS\n    if (i < n) y[i] = x[i] + 0.0f;\n#else\n    if (i < n) y[i] = x[i];\n#endif\n",
        );
        gates(
            dir,
            "    entry: copy\n",
            "    entry: copy\n    variants:\n      default: {}\n      plus: {define: {PLUS: 1}}\n",
        );
    }),
    with_baselines("a seed added", |dir| gates(dir, "seeds: 2\n", "seeds: 3\n")),
    with_baselines("a shape added", |dir| {
        gates(
            dir,
            "small: {N: 1000}\n    seeds: 2",
            "small: {N: 1000}\n      more: {N: 2000}\n    seeds: 2",
        )
    }),
];

const COPY: &str = "tests/fixtures/changes/copy.cu";

pub const DISHONEST_CHANGES: &[Change] = &[
    Change {
        baselines: true,
        ..dishonest(
            "worse counters with committed baselines",
            &["counters-rose"],
            scatter,
        )
    },
    Change {
        baselines: true,
        ..dishonest(
            "more registers with committed baselines",
            &["beyond-change", "ungated-worse"],
            hoard,
        )
    },
    dishonest("flags with worse counters", &["counters-rose"], |dir| {
        other_flags(dir);
        scatter(dir);
    }),
    dishonest(
        "flags with more registers",
        &["beyond-change", "ungated-worse"],
        |dir| {
            other_flags(dir);
            hoard(dir);
        },
    ),
    Change {
        baselines: true,
        ..dishonest(
            "-lineinfo with worse counters with committed baselines",
            &["counters-rose"],
            |dir| {
                gates(dir, "flags: [-O3]", "flags: [-O3, -lineinfo]");
                scatter(dir);
            },
        )
    },
    dishonest(
        "an architecture in front with more registers",
        &["beyond-change", "ungated-worse"],
        |dir| {
            gates(dir, "[sm_90]", "[sm_80, sm_90]");
            hoard(dir);
        },
    ),
    dishonest(
        "an architecture in front with worse counters",
        &["counters-rose"],
        |dir| {
            gates(dir, "[sm_90]", "[sm_80, sm_90]");
            scatter(dir);
        },
    ),
    dishonest(
        "an instruction that is refused, in a wrong kernel of other flags",
        &["check-lost"],
        |dir| {
            other_flags(dir);
            refuse(dir);
        },
    ),
    dishonest(
        "a kernel that polls memory, so that none of its counters can be held to anything",
        &["counters-lost"],
        |dir| {
            twice(
                dir,
                "    volatile float* seen = y;\n    if (i < n) {\n        seen[i] = 2 * x[i];\n        \
                 while (seen[i] != 2 * x[i]) {}\n    }\n    if (i < n && n < 0) y[i] = x[i / 32];\n",
            );
        },
    ),
    Change {
        before: |dir| gates(dir, "kernels:\n", "simulation: {budget: 5000}\nkernels:\n"),
        ..dishonest(
            "a case that has grown over the budget",
            &["check-lost"],
            |dir| {
                twice(
                    dir,
                    "    unsigned k = n;\n    for (int r = 0; r < 1000; ++r) k = k * 1664525u + (k >> 7);\n    \
                 if (i < n) y[i] = k == 12345u ? 0 : 2 * x[i] + 1;\n",
                );
            },
        )
    },
    Change {
        before: |dir| gates(dir, "[sm_90]", "[sm_80, sm_90]"),
        ..dishonest(
            "a path that is wrong on a later architecture alone",
            &["beyond-limit"],
            |dir| {
                twice(
                    dir,
                    "#if __CUDA_ARCH__ >= 900\n    if (i < n) y[i] = 2 * x[i] + 1;\n#else\n    \
                 if (i < n) y[i] = 2 * x[i];\n#endif\n",
                );
            },
        )
    },
    Change {
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
        ..dishonest(
            "a reference variant that the simulator refuses",
            &["check-lost"],
            |dir| {
                edit(
                    &dir.join("copy.cu"),
                    "#else\n",
                    "#else\n    float v;\n    \
                 if (n < 0) asm volatile(\"multimem.ld_reduce.global.add.f32 %0, [%1];\" : \"=f\"(v) : \"l\"(x));\n",
                );
            },
        )
    },
    Change {
        before: |dir| gates(dir, "kernels:\n", "simulation: {budget: 3000}\nkernels:\n"),
        ..dishonest(
            "more seeds than the budget allows, of the same code",
            &["check-lost"],
            |dir| gates(dir, "seeds: 2\n", "seeds: 9\n"),
        )
    },
    dishonest(
        "an architecture in the place of another, which nothing is compared with",
        &["loosened"],
        |dir| {
            gates(dir, "[sm_90]", "[sm_80]");
            scatter(dir);
        },
    ),
    Change {
        // Nothing is wrong with it, and nothing is known of the base: no pass without it.
        before: |dir| gates(dir, "kernels:\n", "toolchain: {cuda: \"11.1\"}\nkernels:\n"),
        code: 4,
        ..honest(
            "another compiler pinned, where this machine has not the base's",
            |dir| gates(dir, "\"11.1\"", "\"13.0\""),
        )
    },
    Change {
        baselines: true,
        says: &["head's baseline, under the flags `-O2` (base: `-O3`), is worse: registers"],
        ..dishonest(
            "a baseline of other flags that agrees on more registers",
            &["loosened", "ungated-worse"],
            |dir| {
                other_flags(dir);
                hoard(dir);
                update_baselines(dir);
            },
        )
    },
    dishonest("a wrong kernel", &["beyond-limit"], |dir| {
        twice(dir, "    if (i < n) y[i] = 3 * x[i];\n")
    }),
];
