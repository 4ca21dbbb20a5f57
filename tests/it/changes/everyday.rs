//! Honest changes that repositories make every week: nothing that a kernel does is another thing after them, and no
//! gate is looser.

use super::{Change, git, honest, with_baselines};
use crate::common::edit;
use std::fs;
use std::path::Path;

fn gates(dir: &Path, old: &str, new: &str) {
    edit(&dir.join("gates.yaml"), old, new);
}

fn copy(dir: &Path, old: &str, new: &str) {
    edit(&dir.join("copy.cu"), old, new);
}

fn rewrite(file: &Path, edit: impl Fn(&str) -> String) {
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, edit(&text)).unwrap();
}

pub const HONEST_CHANGES: &[Change] = &[
    with_baselines("gates.yaml in another style", |dir| {
        gates(
            dir,
            "shapes:\n      small: {N: 1000}",
            "shapes: {small: {\"N\": 1000}}",
        );
        gates(dir, "architectures: [sm_90]", "architectures:\n  - sm_90");
        gates(dir, "      max_err: 0\n", "      max_err: \"<= 0\"\n");
        gates(dir, "seeds: 2", "seeds: [1, 2]");
    }),
    with_baselines("gates.yaml with the line ends of Windows", |dir| {
        rewrite(&dir.join("gates.yaml"), |text| text.replace('\n', "\r\n"))
    }),
    with_baselines("comments and blank lines in gates.yaml", |dir| {
        rewrite(&dir.join("gates.yaml"), |text| {
            text.replace("  twice:\n", "\n  # y = 2 x\n  twice:  # of ours\n")
        });
    }),
    with_baselines("kernels in another order", |dir| {
        rewrite(&dir.join("gates.yaml"), |text| {
            let (before, rest) = text.split_once("  copy:").unwrap();
            let (copy, twice) = rest.split_once("  twice:").unwrap();
            format!("{before}  twice:{twice}  copy:{copy}")
        });
    }),
    with_baselines("keys of kernels in another order", |dir| {
        gates(
            dir,
            "    source: copy.cu\n    entry: copy\n",
            "    entry: copy\n    source: copy.cu\n",
        );
        gates(
            dir,
            "      registers: \"+0%\"\n      shared: \"+0%\"\n",
            "      shared: \"+0%\"\n      registers: \"+0%\"\n",
        );
    }),
    with_baselines("flags of all kernels in one place", |dir| {
        gates(dir, "    flags: [-O3]\n", "");
        gates(dir, "architectures:", "flags: [-O3]\narchitectures:");
    }),
    with_baselines("the variant that every kernel has, written out", |dir| {
        gates(
            dir,
            "    entry: copy\n",
            "    entry: copy\n    variants:\n      default: {}\n",
        )
    }),
    with_baselines("sizes of a launch as expressions", |dir| {
        gates(
            dir,
            "\"ceil_div(N, 256)\"], block: [256]",
            "\"(N + 255 - (N - 1) % 256) / 256\"], block: [\"2 * 128\"]",
        )
    }),
    with_baselines("a limit made tighter", |dir| {
        gates(dir, "registers: 32", "registers: 16")
    }),
    with_baselines("a gate more", |dir| {
        gates(
            dir,
            "      registers: 32\n",
            "      registers: 32\n      spills: 0\n      stack: 0\n",
        )
    }),
    with_baselines("a kernel more", |dir| {
        rewrite(&dir.join("gates.yaml"), |text| {
            let (_, twice) = text.split_once("  twice:").unwrap();
            format!("{text}  again:{}", twice.replace("twice.cu", "again.cu"))
        });
        fs::copy(dir.join("twice.cu"), dir.join("again.cu")).unwrap();
    }),
    with_baselines("a source renamed", |dir| {
        git(dir, &["mv", "copy.cu", "copy_f32.cu"]);
        gates(dir, "source: copy.cu", "source: copy_f32.cu");
    }),
    with_baselines("an entry renamed", |dir| {
        copy(dir, "void copy(", "void copy_f32(");
        gates(dir, "entry: copy\n", "entry: copy_f32\n");
    }),
    with_baselines("an entry made a template", |dir| {
        copy(
            dir,
            "extern \"C\" __global__ void copy(const float* x, float* y, int n)",
            "template <typename T> __global__ void copy(const T* x, T* y, int n)",
        );
        gates(dir, "entry: copy\n", "entry: copy<float>\n");
    }),
    with_baselines("an entry in a namespace", |dir| {
        copy(
            dir,
            "extern \"C\" __global__",
            "namespace ours {\n__global__",
        );
        rewrite(&dir.join("copy.cu"), |text| format!("{text}}}\n"));
        gates(dir, "entry: copy\n", "entry: ours::copy\n");
    }),
    Change {
        before: |dir| {
            copy(dir, "blockIdx.x * 256", "blockIdx.x * BLOCK");
            gates(
                dir,
                "    entry: copy\n",
                "    entry: copy\n    define: {BLOCK: 256}\n",
            );
        },
        ..honest("a macro renamed", |dir| {
            copy(dir, "BLOCK", "THREADS");
            gates(dir, "BLOCK", "THREADS");
        })
    },
    Change {
        before: |dir| {
            fs::write(
                dir.join("index.cuh"),
                "__device__ inline int index() { return blockIdx.x * 256 + threadIdx.x; }\n",
            )
            .unwrap();
            copy(dir, "extern", "#include \"index.cuh\"\nextern");
            copy(dir, "blockIdx.x * 256 + threadIdx.x;", "index();");
        },
        ..honest("a header moved", |dir| {
            fs::create_dir(dir.join("include")).unwrap();
            git(dir, &["mv", "index.cuh", "include/index.cuh"]);
            gates(
                dir,
                "    source: copy.cu\n",
                "    source: copy.cu\n    include_dirs: [include]\n",
            );
        })
    },
    Change {
        before: |dir| {
            let [copy, twice] =
                ["copy.cu", "twice.cu"].map(|it| fs::read_to_string(dir.join(it)).unwrap());
            fs::write(dir.join("all.cu"), copy + &twice).unwrap();
            gates(dir, "source: copy.cu", "source: all.cu");
            gates(dir, "source: twice.cu", "source: all.cu");
        },
        ..honest("a source split in two", |dir| {
            gates(
                dir,
                "source: all.cu\n    entry: copy",
                "source: copy.cu\n    entry: copy",
            );
            gates(dir, "source: all.cu", "source: twice.cu");
            fs::remove_file(dir.join("all.cu")).unwrap();
        })
    },
    with_baselines("a function of its own for a line", |dir| {
        copy(
            dir,
            "extern",
            "static __device__ float load(const float* x, int i) { return x[i]; }\nextern",
        );
        copy(dir, "y[i] = x[i]", "y[i] = load(x, i)");
    }),
    with_baselines("launch bounds that are those of the launch", |dir| {
        copy(
            dir,
            "__global__ void",
            "__global__ void __launch_bounds__(256)",
        )
    }),
    with_baselines("pointers that promise not to overlap", |dir| {
        copy(
            dir,
            "const float* x, float* y",
            "const float* __restrict__ x, float* __restrict__ y",
        )
    }),
    with_baselines("names of variables and a licence", |dir| {
        rewrite(&dir.join("copy.cu"), |text| {
            let text = text
                .replace("const int i ", "const int index ")
                .replace("i < n", "index < n");
            format!("// Copyright of ours.\n{}", text.replace("[i]", "[index]"))
        });
    }),
    Change {
        before: |dir| gates(dir, "      registers: \"+0%\"\n", "      registers: 32\n"),
        ..honest("a loop over the grid", |dir| {
            copy(
                dir,
                "    if (i < n) y[i] = x[i];\n",
                "    for (int k = i; k < n; k += gridDim.x * 256) y[k] = x[k];\n",
            );
        })
    },
    with_baselines("files that no kernel is made of", |dir| {
        fs::write(dir.join("README.md"), "# Ours\n").unwrap();
        fs::create_dir_all(dir.join(".github/workflows")).unwrap();
        fs::write(
            dir.join(".github/workflows/ci.yaml"),
            "on: push\njobs: {}\n",
        )
        .unwrap();
        fs::write(dir.join("unused.cu"), "#error not ours\n").unwrap();
    }),
];
