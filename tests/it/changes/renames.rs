//! New names for a kernel, a variant, a shape, a tensor or a dimension, and gates that move to a file of their own:
//! listed, and green where nothing else changed. Whatever comes along with the new name is judged as without it.

use super::{Change, dishonest, git, honest, with_baselines};
use crate::common::{self, edit};
use std::fs;
use std::path::Path;

fn gates(dir: &Path, old: &str, new: &str) {
    edit(&dir.join("gates.yaml"), old, new);
}

/// Edits what gates.yaml says of `copy`, and nothing of `twice`.
fn of_copy(dir: &Path, edits: &[(&str, &str)]) {
    let file = dir.join("gates.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once("  copy:").unwrap();
    let (mut copy, twice) = rest
        .split_once("  twice:")
        .map(|(copy, twice)| (format!("  copy:{copy}"), twice))
        .unwrap();
    for (old, new) in edits {
        assert!(copy.contains(old), "{old:?} is not in\n{copy}");
        copy = copy.replace(old, new);
    }
    fs::write(&file, format!("{before}{copy}  twice:{twice}")).unwrap();
}

fn rename_kernel(dir: &Path) {
    gates(dir, "  copy:\n", "  mirror:\n");
}

fn rename_baselines(dir: &Path, from: &str, to: &str) {
    common::run(dir, &["baseline", "rename", from, to], 0);
}

/// In gates.yaml, in the arguments and in the reference.
const TENSORS: [(&str, &str); 4] = [
    ("      x: {", "      source: {"),
    ("      y: {", "      target: {"),
    (
        "{tensor: x}, {tensor: y}",
        "{tensor: source}, {tensor: target}",
    ),
    ("{x: x, out: y,", "{x: source, out: target,"),
];

const DIMENSION: [(&str, &str); 4] = [
    ("{N: 1000}", "{length: 1000}"),
    ("[N]", "[length]"),
    ("{i32: N}", "{i32: length}"),
    ("ceil_div(N,", "ceil_div(length,"),
];

/// Right, and no two lanes of a warp in one sector.
const SCATTERED: &str = "    const int t = threadIdx.x;\n    const int j = i - t + t % 32 * 8 + t / 32;\n    \
     if (j < n) y[j] = x[j];\n";

fn scatter(dir: &Path) {
    edit(
        &dir.join("copy.cu"),
        "    if (i < n) y[i] = x[i];\n",
        SCATTERED,
    );
}

/// Two variants of `copy`, by a macro.
fn variants(dir: &Path) {
    edit(
        &dir.join("copy.cu"),
        "    if (i < n) y[i] = x[i];\n",
        "#ifdef PLUS\n    if (i < n) y[i] = x[i] + 0.0f;\n#else\n    if (i < n) y[i] = x[i];\n#endif\n",
    );
    of_copy(
        dir,
        &[(
            "    entry: copy\n",
            "    entry: copy\n    variants:\n      plain: {}\n      plus: {define: {PLUS: 1}, gates: {registers: [\"+0%\", \"<= plain.registers\"]}}\n",
        )],
    );
}

/// `slow` does the work of `copy`, with more traffic.
fn slow_twin(dir: &Path) {
    let source = fs::read_to_string(dir.join("copy.cu")).unwrap();
    let source = source.replace("    if (i < n) y[i] = x[i];\n", SCATTERED);
    fs::write(dir.join("slow.cu"), source).unwrap();
    let file = dir.join("gates.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let (_, rest) = text.split_once("  copy:").unwrap();
    let (copy, _) = rest.split_once("  twice:").unwrap();
    let slow = copy.replace("copy.cu", "slow.cu");
    fs::write(&file, format!("{text}  slow:{slow}")).unwrap();
}

/// The gates of `twice` in another file.
fn split(dir: &Path, name: &str) {
    let file = dir.join("gates.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let (both, twice) = text.split_once("  twice:").unwrap();
    let (head, _) = both.split_once("  copy:").unwrap();
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{head}  twice:{twice}")).unwrap();
    fs::write(&file, both).unwrap();
}

const OTHER_FILE: &[&str] = &["--config", "twice.yaml"];

pub const HONEST_CHANGES: &[Change] = &[
    Change {
        says: &[
            "renamed: kernel copy -> mirror",
            "one check covers both: all 2 cases",
        ],
        ..honest("a kernel renamed", rename_kernel)
    },
    Change {
        says: &["renamed: kernel copy -> mirror"],
        ..with_baselines("a kernel renamed with its baselines", |dir| {
            rename_kernel(dir);
            rename_baselines(dir, "copy", "mirror");
        })
    },
    Change {
        says: &["renamed: kernel copy -> mirror"],
        ..with_baselines("a kernel renamed with its source and its entry", |dir| {
            of_copy(
                dir,
                &[
                    ("  copy:\n", "  mirror:\n"),
                    ("source: copy.cu", "source: src/mirror.cu"),
                    ("entry: copy", "entry: mirror"),
                ],
            );
            fs::create_dir(dir.join("src")).unwrap();
            git(dir, &["mv", "copy.cu", "src/mirror.cu"]);
            edit(&dir.join("src/mirror.cu"), "void copy(", "void mirror(");
            rename_baselines(dir, "copy", "mirror");
        })
    },
    Change {
        says: &["renamed: kernel twice -> double"],
        ..honest(
            "a kernel renamed, with a reference of its own and that one's file",
            |dir| {
                gates(dir, "  twice:\n", "  double:\n");
                gates(
                    dir,
                    "source: ref.cpp, function: ref",
                    "source: double.cpp, function: twofold",
                );
                git(dir, &["mv", "ref.cpp", "double.cpp"]);
                edit(&dir.join("double.cpp"), "void ref(", "void twofold(");
            },
        )
    },
    Change {
        before: |dir| {
            variants(dir);
            super::update_baselines(dir);
        },
        says: &["renamed: variant plain of copy -> simple"],
        ..with_baselines(
            "a variant renamed, which a gate of another one names",
            |dir| {
                gates(dir, "      plain: {}", "      simple: {}");
                gates(dir, "plain.registers", "simple.registers");
                rename_baselines(dir, "copy/plain", "copy/simple");
            },
        )
    },
    Change {
        says: &["renamed: shape small of copy -> thousand"],
        ..with_baselines("a shape renamed with its baselines", |dir| {
            of_copy(dir, &[("small:", "thousand:")]);
            rename_baselines(dir, "copy@small", "copy@thousand");
        })
    },
    Change {
        says: &[
            "renamed: tensor x of copy -> source",
            "renamed: tensor y of copy -> target",
        ],
        ..with_baselines(
            "tensors renamed, in the arguments and in the reference",
            |dir| of_copy(dir, &TENSORS),
        )
    },
    Change {
        says: &["renamed: tensor x of twice -> in"],
        ..honest("tensors of a reference of one's own renamed", |dir| {
            let file = dir.join("gates.yaml");
            let text = fs::read_to_string(&file).unwrap();
            let (copy, twice) = text.split_once("  twice:").unwrap();
            let twice = twice
                .replace("      x: {", "      in: {")
                .replace("tensor: x", "tensor: in");
            fs::write(&file, format!("{copy}  twice:{twice}")).unwrap();
        })
    },
    Change {
        says: &["renamed: dimension N of copy -> length"],
        ..with_baselines("a dimension renamed with its uses", |dir| {
            of_copy(dir, &DIMENSION)
        })
    },
    Change {
        says: &[
            "renamed: kernel copy -> mirror",
            "renamed: shape small of mirror -> thousand",
            "renamed: tensor x of mirror -> source",
            "renamed: dimension N of mirror -> length",
        ],
        ..with_baselines(
            "a kernel, its shape, its tensors and its dimension renamed",
            |dir| {
                of_copy(dir, &TENSORS);
                of_copy(dir, &DIMENSION);
                of_copy(dir, &[("small:", "thousand:")]);
                rename_kernel(dir);
                rename_baselines(dir, "copy", "mirror");
                rename_baselines(dir, "mirror@small", "mirror@thousand");
            },
        )
    },
    Change {
        before: scatter,
        says: &["checked on the base too: 1 case (mirror/default@small)"],
        ..honest("a renamed kernel that is better than it was", |dir| {
            let source = common::root().join("tests/fixtures/changes/copy.cu");
            fs::copy(source, dir.join("copy.cu")).unwrap();
            rename_kernel(dir);
        })
    },
    Change {
        says: &["renamed: kernel copy -> mirror"],
        ..honest(
            "a renamed kernel under stricter gates that its code brings along",
            |dir| {
                of_copy(
                    dir,
                    &[("  copy:\n", "  mirror:\n"), ("seeds: 2", "seeds: 3")],
                )
            },
        )
    },
    Change {
        before: |dir| {
            fs::create_dir_all(dir.join("baselines")).unwrap();
            fs::write(
                dir.join("baselines/accepted.yaml"),
                "version: 1\naccepted:\n  - {case: copy, metric: max_err, limit: 1e6, reason: r, by: Ann, until: 2999-01-31}\n",
            )
            .unwrap();
            edit(&dir.join("copy.cu"), "y[i] = x[i]", "y[i] = -x[i]");
        },
        ..honest("an acceptance that follows its kernel", |dir| {
            rename_kernel(dir);
            edit(
                &dir.join("baselines/accepted.yaml"),
                "case: copy",
                "case: mirror",
            );
        })
    },
    Change {
        says: &[
            "not judged by this run, as they moved to twice.yaml: 1 case (twice/default@small)",
        ],
        ..with_baselines(
            "a file of gates split in two, as the first sees it",
            |dir| split(dir, "twice.yaml"),
        )
    },
    Change {
        flags: OTHER_FILE,
        says: &["one check covers both: 1 case (twice/default@small)"],
        ..with_baselines(
            "a file of gates split in two, as the second sees it",
            |dir| split(dir, "twice.yaml"),
        )
    },
    Change {
        flags: OTHER_FILE,
        says: &[
            "not judged by this run, as they moved to copy.yaml: 1 case (copy/default@small)",
            "one check covers both: 1 case (twice/default@small)",
        ],
        ..honest(
            "a file of gates split in two, both new, as one of them sees it",
            |dir| {
                split(dir, "twice.yaml");
                git(dir, &["mv", "gates.yaml", "copy.yaml"]);
            },
        )
    },
];

pub const DISHONEST_CHANGES: &[Change] = &[
    Change {
        baselines: true,
        says: &[
            "head's baseline is still under the old name: `gatekeeper baseline rename copy mirror`",
        ],
        ..dishonest(
            "a renamed kernel whose baselines are left behind",
            &["loosened"],
            rename_kernel,
        )
    },
    Change {
        says: &["double/default [sm_90]: registers <= 32: head has registers <= 255"],
        ..dishonest(
            "a renamed kernel with a looser gate",
            &["loosened"],
            |dir| {
                gates(dir, "  twice:\n", "  double:\n");
                gates(dir, "registers: 32", "registers: 255");
            },
        )
    },
    Change {
        says: &["mirror/default@small: seeds 1, 2: head has seeds 1"],
        ..dishonest("a renamed kernel with fewer seeds", &["loosened"], |dir| {
            rename_kernel(dir);
            gates(dir, "seeds: 2", "seeds: 1");
        })
    },
    Change {
        says: &["mirror/default@small: max_err <= 0: head has max_err <= 1"],
        ..dishonest(
            "a renamed kernel with another tolerance",
            &["loosened"],
            |dir| {
                rename_kernel(dir);
                gates(dir, "[\"<= 0\", \"+0%\"]", "[\"<= 1\", \"+0%\"]");
            },
        )
    },
    Change {
        says: &["mirror/default@small: shape N = 1000: under the same name head has N = 10"],
        ..dishonest("a renamed kernel of smaller sizes", &["loosened"], |dir| {
            of_copy(
                dir,
                &[("  copy:\n", "  mirror:\n"), ("{N: 1000}", "{N: 10}")],
            )
        })
    },
    Change {
        says: &["mirror/default@small: reference"],
        ..dishonest(
            "a renamed kernel with another built-in reference",
            &["loosened"],
            |dir| {
                rename_kernel(dir);
                gates(dir, "op: copy", "op: neg");
                edit(&dir.join("copy.cu"), "y[i] = x[i]", "y[i] = -x[i]");
            },
        )
    },
    Change {
        says: &["double/default@small: reference: on the same inputs it computes something else"],
        ..dishonest(
            "a renamed kernel with a reference that is bent",
            &["loosened"],
            |dir| {
                gates(dir, "  twice:\n", "  double:\n");
                edit(&dir.join("twice.cu"), "y[i] = 2 * x[i]", "y[i] = 3 * x[i]");
                edit(&dir.join("ref.h"), "2", "3");
            },
        )
    },
    dishonest(
        "a renamed kernel with more traffic",
        &["counters-rose"],
        |dir| {
            scatter(dir);
            rename_kernel(dir);
        },
    ),
    Change {
        baselines: true,
        ..dishonest(
            "a renamed kernel with more traffic, agreed on under its new name",
            &["loosened"],
            |dir| {
                scatter(dir);
                rename_kernel(dir);
                fs::remove_dir_all(dir.join("baselines/copy")).unwrap();
                super::update_baselines(dir);
            },
        )
    },
    Change {
        baselines: true,
        before: |dir| {
            rename_kernel(dir);
            scatter(dir);
            super::update_baselines(dir);
            git(dir, &["checkout", "--quiet", "gates.yaml", "copy.cu"]);
        },
        ..dishonest(
            "a name that has looser baselines already",
            &["loosened"],
            |dir| {
                scatter(dir);
                rename_kernel(dir);
                fs::remove_dir_all(dir.join("baselines/copy")).unwrap();
            },
        )
    },
    Change {
        before: slow_twin,
        ..dishonest(
            "a slow kernel under the name of a fast one, which is gone",
            &["counters-rose", "loosened"],
            |dir| {
                let file = dir.join("gates.yaml");
                let text = fs::read_to_string(&file).unwrap();
                let (before, rest) = text.split_once("  copy:").unwrap();
                let (_, rest) = rest.split_once("  twice:").unwrap();
                let rest = rest.replace("  slow:", "  copy:");
                fs::write(&file, format!("{before}  twice:{rest}")).unwrap();
            },
        )
    },
    Change {
        before: slow_twin,
        ..dishonest(
            "the names of a fast and a slow kernel swapped",
            &["counters-rose"],
            |dir| {
                gates(dir, "  copy:\n", "  other:\n");
                gates(dir, "  slow:\n", "  copy:\n");
                gates(dir, "  other:\n", "  slow:\n");
            },
        )
    },
    dishonest(
        "a renamed kernel whose old name holds another one now",
        &["loosened"],
        |dir| {
            rename_kernel(dir);
            let file = dir.join("gates.yaml");
            let text = fs::read_to_string(&file).unwrap();
            let (_, twice) = text.split_once("  twice:").unwrap();
            fs::write(&file, format!("{text}  copy:{twice}")).unwrap();
        },
    ),
    Change {
        before: slow_twin,
        says: &["removed: head has no copy/default@small"],
        ..dishonest(
            "two kernels of the same work renamed with their sources, of which either could be either",
            &["loosened"],
            |dir| {
                gates(dir, "  copy:\n", "  one:\n");
                gates(dir, "  slow:\n", "  two:\n");
                gates(dir, "source: copy.cu", "source: one.cu");
                gates(dir, "source: slow.cu", "source: two.cu");
                git(dir, &["mv", "copy.cu", "one.cu"]);
                git(dir, &["mv", "slow.cu", "two.cu"]);
            },
        )
    },
    Change {
        before: variants,
        says: &["removed: head has no copy/plus@small"],
        ..dishonest(
            "a renamed variant with other macros",
            &["loosened"],
            |dir| gates(dir, "plus: {define: {PLUS: 1}", "more: {define: {PLUS: 2}"),
        )
    },
    Change {
        says: &["removed: head has no copy/default@small"],
        ..dishonest(
            "a renamed shape that is smaller",
            &["base-unanswered", "loosened"],
            |dir| of_copy(dir, &[("small: {N: 1000}", "tiny: {N: 10}")]),
        )
    },
    dishonest("a renamed input with other values", &["loosened"], |dir| {
        of_copy(dir, &TENSORS);
        gates(
            dir,
            "source: {type: f32,",
            "source: {type: f32, fill: {constant: 0},",
        );
    }),
    dishonest(
        "a renamed dimension of another size",
        &["loosened"],
        |dir| {
            of_copy(dir, &DIMENSION);
            gates(dir, "{length: 1000}", "{length: 10}");
        },
    ),
    Change {
        before: |dir| {
            fs::create_dir_all(dir.join("baselines")).unwrap();
            fs::write(
                dir.join("baselines/accepted.yaml"),
                "version: 1\naccepted:\n  - {case: \"tw*\", metric: max_err, limit: 1e6, reason: r, by: Ann, until: 2999-01-31}\n",
            )
            .unwrap();
            edit(&dir.join("twice.cu"), "y[i] = 2 * x[i]", "y[i] = 3 * x[i]");
        },
        says: &["without an acceptance"],
        ..dishonest(
            "a new name that an acceptance fits",
            &["beyond-change", "loosened"],
            |dir| {
                gates(dir, "  copy:\n", "  twin:\n");
                edit(&dir.join("copy.cu"), "y[i] = x[i]", "y[i] = -x[i]");
            },
        )
    },
    Change {
        before: |dir| {
            gates(
                dir,
                "      registers: 32\n",
                "      registers: [32, \"+0% of HEAD\"]\n",
            )
        },
        says: &["removed: head has no twice/default"],
        ..dishonest(
            "a new name that an anchor does not know",
            &["loosened"],
            |dir| gates(dir, "  twice:\n", "  double:\n"),
        )
    },
    Change {
        says: &["removed: head has no twice/default@small"],
        ..dishonest(
            "a file of gates split in two, and looser in the second, as the first sees it",
            &["loosened"],
            |dir| {
                split(dir, "twice.yaml");
                edit(&dir.join("twice.yaml"), "registers: 32", "registers: 255");
            },
        )
    },
    Change {
        flags: OTHER_FILE,
        says: &["registers <= 32: head has registers <= 255"],
        ..dishonest(
            "a file of gates split in two, and looser in the second, as that sees it",
            &["loosened"],
            |dir| {
                split(dir, "twice.yaml");
                edit(&dir.join("twice.yaml"), "registers: 32", "registers: 255");
            },
        )
    },
    Change {
        flags: OTHER_FILE,
        ..dishonest(
            "a file of gates split in two, with worse code in the second",
            &["counters-rose"],
            |dir| {
                split(dir, "twice.yaml");
                let scattered = SCATTERED.replace("= x[j]", "= 2 * x[j]");
                edit(
                    &dir.join("twice.cu"),
                    "    if (i < n) y[i] = 2 * x[i];\n",
                    &scattered,
                );
            },
        )
    },
    dishonest(
        "a kernel that left its file for none",
        &["loosened"],
        |dir| {
            split(dir, "twice.yaml");
            fs::remove_file(dir.join("twice.yaml")).unwrap();
        },
    ),
    dishonest(
        "a kernel that left its file for one that git ignores",
        &["loosened"],
        |dir| {
            split(dir, "ignored/twice.yaml");
            fs::write(dir.join(".gitignore"), "gatekeeper-out\nignored\n").unwrap();
        },
    ),
];
