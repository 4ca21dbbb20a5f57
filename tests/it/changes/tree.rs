//! Changes to the references, the files of gates, the acceptances and the baselines that a change is held to.

use super::{Change, dishonest, git, honest, update_baselines};
use crate::common::edit;
use std::fs;
use std::path::Path;
use std::process::Command;

fn gates(dir: &Path, old: &str, new: &str) {
    edit(&dir.join("gates.yaml"), old, new);
}

/// How gates.yaml names the reference of `twice`.
const REF: &str = "source: ref.cpp, function: ref";

/// With flags for the reference of `twice`.
fn reference_flags(dir: &Path, flags: &str) {
    gates(dir, REF, &format!("{REF}, flags: [{flags}]"));
}

/// The kernel is wrong.
fn bend_kernel(dir: &Path) {
    edit(&dir.join("twice.cu"), "y[i] = 2 * x[i]", "y[i] = 3 * x[i]");
}

/// The factor of the reference is a function of another file.
fn factor_elsewhere(dir: &Path) {
    fs::write(
        dir.join("ref.h"),
        "extern \"C\" int factor();\n#define FACTOR factor()\n",
    )
    .unwrap();
}

fn factor(by: u32) -> String {
    format!("extern \"C\" int factor() {{ return {by}; }}\n")
}

fn compile(dir: &Path, args: &[&str]) {
    let mut compile = Command::new("g++");
    let status = compile.current_dir(dir).args(args).status().unwrap();
    assert!(status.success(), "{args:?}");
}

fn object(dir: &Path, by: u32) {
    fs::write(dir.join("factor.cpp"), factor(by)).unwrap();
    compile(dir, &["-c", "factor.cpp", "-o", "factor.o"]);
    fs::remove_file(dir.join("factor.cpp")).unwrap();
}

fn library(dir: &Path, by: u32) {
    object(dir, by);
    let _ = fs::remove_file(dir.join("libfactor.a"));
    let mut archive = Command::new("ar");
    archive
        .current_dir(dir)
        .args(["rcs", "libfactor.a", "factor.o"]);
    assert!(archive.status().unwrap().success());
    fs::remove_file(dir.join("factor.o")).unwrap();
}

/// `weak` is what stands for the factor.
fn weak(dir: &Path, weak: &str) {
    fs::write(
        dir.join("ref.h"),
        format!(
            "extern \"C\" int two() {{ return 2; }}\nextern \"C\" int three() {{ return 3; }}\n\
             extern \"C\" int factor();\n#pragma weak factor = {weak}\n#define FACTOR factor()\n"
        ),
    )
    .unwrap();
}

/// `twice` with an input more, of which its kernel and its reference make `kernel` and `reference`.
fn new_input(dir: &Path, kernel: &str, reference: &str) {
    let source = dir.join("twice.cu");
    edit(
        &source,
        "const float* x,",
        "const float* x, const float* b,",
    );
    edit(&source, "y[i] = 2 * x[i]", &format!("y[i] = {kernel}"));
    let source = dir.join("ref.cpp");
    edit(
        &source,
        "const float* x,",
        "const float* x, const float* b,",
    );
    edit(
        &source,
        "y[i] = FACTOR * x[i]",
        &format!("y[i] = {reference}"),
    );
    let text = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    let (before, of_twice) = text.split_once("  twice:").unwrap();
    let of_twice = of_twice.replace(
        "      x: {type: f32, shape: [N]}\n",
        "      x: {type: f32, shape: [N]}\n      b: {type: f32, shape: [N]}\n",
    );
    let of_twice = of_twice.replace("[{tensor: x}, ", "[{tensor: x}, {tensor: b}, ");
    fs::write(
        dir.join("gates.yaml"),
        format!("{before}  twice:{of_twice}"),
    )
    .unwrap();
}

/// One more load is what one more input costs.
fn room_for_loads_of_twice(dir: &Path) {
    gates(
        dir,
        "      max_err: 0\n      counters: \"+0%\"\n",
        "      max_err: 0\n      counters: \"+100%\"\n",
    );
}

/// Another file of gates, for the kernel `twice` alone; whatever its name and its keys look like.
fn second_file(dir: &Path) {
    let text = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    let (head, copy) = text.split_once("  copy:").unwrap();
    let (copy, twice) = copy.split_once("  twice:").unwrap();
    let quoted = head
        .replace("version:", "\"version\":")
        .replace("kernels:", "'kernels':");
    fs::write(dir.join("twice.conf"), format!("{quoted}  twice:{twice}")).unwrap();
    fs::write(dir.join("gates.yaml"), format!("{head}  copy:{copy}")).unwrap();
}

/// Everything but git's own.
fn move_all(dir: &Path, folder: &str) {
    fs::create_dir(dir.join(folder)).unwrap();
    for name in ["gates.yaml", "copy.cu", "twice.cu", "ref.cpp", "ref.h"] {
        git(dir, &["mv", name, &format!("{folder}/{name}")]);
    }
}

/// With a shape more in `copy`, which a change may take away.
fn another_shape(dir: &Path) {
    gates(
        dir,
        "small: {N: 1000}\n    seeds: 2",
        "small: {N: 1000}\n      tiny: {N: 10}\n    seeds: 2",
    );
}

fn accept(dir: &Path, limit: &str) {
    fs::create_dir_all(dir.join("baselines")).unwrap();
    let text = format!(
        "version: 1\naccepted:\n  - {{case: twice, metric: max_err, limit: {limit}, reason: r, by: Ann, until: 2999-01-31}}\n"
    );
    fs::write(dir.join("baselines/accepted.yaml"), text).unwrap();
}

pub const HONEST_CHANGES: &[Change] = &[
    honest("a reference in another folder, under other flags", |dir| {
        fs::create_dir(dir.join("references")).unwrap();
        git(dir, &["mv", "ref.cpp", "references/twice.cpp"]);
        git(dir, &["mv", "ref.h", "references/ref.h"]);
        gates(
            dir,
            "source: ref.cpp,",
            "source: references/twice.cpp, flags: [-O1, -DNONE],",
        );
    }),
    honest("a reference that is written otherwise", |dir| {
        edit(&dir.join("ref.cpp"), "FACTOR * x[i]", "x[i] + x[i]")
    }),
    honest("a function in the place of a built-in reference", |dir| {
        let code = "extern \"C\" void same(const float* x, float* y, int n) { for (int i = 0; i < n; ++i) y[i] = x[i]; }\n";
        fs::write(dir.join("same.cpp"), code).unwrap();
        gates(
            dir,
            "{unary: {x: x, out: y, op: copy}}",
            "{user: {source: same.cpp, function: same, args: [{tensor: x}, {tensor: y}, {i32: N}]}}",
        );
    }),
    Change {
        before: room_for_loads_of_twice,
        ..honest("a changed signature with its args", |dir| {
            edit(
                &dir.join("twice.cu"),
                "float* y, int n",
                "float* y, float by, int n",
            );
            edit(&dir.join("twice.cu"), "y[i] = 2 * x[i]", "y[i] = by * x[i]");
            edit(
                &dir.join("ref.cpp"),
                "float* y, long long n",
                "float* y, float by, long long n",
            );
            edit(&dir.join("ref.cpp"), "FACTOR * x[i]", "by * x[i]");
            gates(dir, "{i64: N}]", "{f32: 2}, {i64: N}]");
            let text = fs::read_to_string(dir.join("gates.yaml")).unwrap();
            let (before, of_twice) = text.split_once("  twice:").unwrap();
            let of_twice =
                of_twice.replace("{tensor: y}, {i32: N}", "{tensor: y}, {f32: 2}, {i32: N}");
            fs::write(
                dir.join("gates.yaml"),
                format!("{before}  twice:{of_twice}"),
            )
            .unwrap();
        })
    },
    Change {
        before: room_for_loads_of_twice,
        ..honest("a new input tensor that the reference adds", |dir| {
            new_input(dir, "2 * x[i] + b[i]", "FACTOR * x[i] + b[i]")
        })
    },
    Change {
        flags: &["--config", "gpu/gates.yaml"],
        ..honest("all files moved", |dir| move_all(dir, "gpu"))
    },
    Change {
        before: second_file,
        ..honest("one of two files of gates", |dir| {
            edit(&dir.join("copy.cu"), "// y = x\n", "// y is x.\n")
        })
    },
    Change {
        before: second_file,
        flags: &["--config", "twice.conf"],
        ..honest("the other of two files of gates", |dir| {
            edit(&dir.join("copy.cu"), "// y = x\n", "// y is x.\n")
        })
    },
    Change {
        before: second_file,
        ..honest(
            "one of two files of gates moved, as the other one sees it",
            |dir| git(dir, &["mv", "twice.conf", "two.conf"]),
        )
    },
    Change {
        before: second_file,
        flags: &["--config", "two.conf"],
        ..honest("one of two files of gates moved, as it sees it", |dir| {
            git(dir, &["mv", "twice.conf", "two.conf"])
        })
    },
    Change {
        before: another_shape,
        flags: &["*@small"],
        ..honest("a shape that is gone and that a filter leaves out", |dir| {
            gates(dir, "tiny: {N: 10}", "large: {N: 2000}")
        })
    },
    Change {
        flags: &["copy"],
        ..honest(
            "a kernel that a filter leaves out, with a reference that is bent",
            |dir| edit(&dir.join("ref.h"), "2", "3"),
        )
    },
    Change {
        before: |dir| {
            accept(dir, "1e6");
            bend_kernel(dir);
        },
        ..honest("an acceptance that the base has", |dir| {
            edit(&dir.join("copy.cu"), "// y = x\n", "// y is x.\n")
        })
    },
];

pub const DISHONEST_CHANGES: &[Change] = &[
    Change {
        says: &["twice/default@small: reference: on the same inputs it computes something else"],
        ..dishonest("a reference bent in a header", &["loosened"], |dir| {
            bend_kernel(dir);
            edit(&dir.join("ref.h"), "2", "3");
        })
    },
    Change {
        before: |dir| {
            fs::write(dir.join("ref.h"), "").unwrap();
            fs::write(dir.join("ref.opts"), "#define FACTOR 2\n").unwrap();
            reference_flags(dir, "-imacros, ref.opts");
        },
        says: &["reference: on the same inputs it computes something else"],
        ..dishonest(
            "a reference bent in a file of options",
            &["loosened"],
            |dir| {
                bend_kernel(dir);
                fs::write(dir.join("ref.opts"), "#define FACTOR 3\n").unwrap();
            },
        )
    },
    Change {
        before: |dir| {
            factor_elsewhere(dir);
            object(dir, 2);
            reference_flags(dir, "factor.o");
        },
        ..dishonest("a reference bent in an object", &["loosened"], |dir| {
            bend_kernel(dir);
            object(dir, 3);
        })
    },
    Change {
        before: |dir| {
            factor_elsewhere(dir);
            library(dir, 2);
            reference_flags(dir, "-L., -lfactor");
        },
        ..dishonest("a reference bent in a library", &["loosened"], |dir| {
            bend_kernel(dir);
            library(dir, 3);
        })
    },
    Change {
        before: |dir| {
            fs::write(
                dir.join("ref.h"),
                "asm(\".section .rodata\\nfactor: .incbin \\\"factor.bin\\\"\\n.text\");\n\
                 extern \"C\" const char factor[];\n#define FACTOR factor[0]\n",
            )
            .unwrap();
            fs::write(dir.join("factor.bin"), [2]).unwrap();
            reference_flags(dir, "-no-pie");
        },
        ..dishonest(
            "a reference bent in a file that its assembler reads",
            &["loosened"],
            |dir| {
                bend_kernel(dir);
                fs::write(dir.join("factor.bin"), [3]).unwrap();
            },
        )
    },
    Change {
        before: |dir| weak(dir, "two"),
        ..dishonest("a reference bent in a pragma", &["loosened"], |dir| {
            bend_kernel(dir);
            weak(dir, "three");
        })
    },
    Change {
        before: room_for_loads_of_twice,
        ..dishonest(
            "a reference bent along with a new input",
            &["loosened"],
            |dir| new_input(dir, "4 * x[i] + b[i]", "4 * x[i] + b[i]"),
        )
    },
    dishonest("another built-in reference", &["loosened"], |dir| {
        edit(&dir.join("copy.cu"), "y[i] = x[i]", "y[i] = -x[i]");
        gates(dir, "op: copy", "op: neg");
    }),
    Change {
        flags: &["--config", "gpu/gates.yaml"],
        says: &["registers <= 32: head has registers <= 64"],
        ..dishonest(
            "all files moved, with a looser gate",
            &["loosened"],
            |dir| {
                gates(dir, "registers: 32", "registers: 64");
                move_all(dir, "gpu");
            },
        )
    },
    Change {
        flags: &["--config", "new.yaml"],
        ..dishonest(
            "looser gates behind a link at their old place",
            &["loosened"],
            |dir| {
                git(dir, &["mv", "gates.yaml", "new.yaml"]);
                std::os::unix::fs::symlink("new.yaml", dir.join("gates.yaml")).unwrap();
                edit(&dir.join("new.yaml"), "registers: 32", "registers: 255");
            },
        )
    },
    dishonest("looser gates through the link", &["loosened"], |dir| {
        git(dir, &["mv", "gates.yaml", "new.yaml"]);
        std::os::unix::fs::symlink("new.yaml", dir.join("gates.yaml")).unwrap();
        edit(&dir.join("new.yaml"), "registers: 32", "registers: 255");
    }),
    Change {
        before: second_file,
        says: &["removed: head has no such file of gates"],
        ..dishonest(
            "a file of gates with quoted keys removed",
            &["loosened"],
            |dir| fs::remove_file(dir.join("twice.conf")).unwrap(),
        )
    },
    Change {
        before: |dir| {
            another_shape(dir);
            let text = fs::read_to_string(dir.join("gates.yaml")).unwrap();
            fs::write(dir.join("all.conf"), text.replace("  copy:", "  also:")).unwrap();
        },
        ..dishonest(
            "a file of gates moved without one of its cases",
            &["loosened"],
            |dir| {
                git(dir, &["mv", "all.conf", "some.conf"]);
                edit(&dir.join("some.conf"), "      tiny: {N: 10}\n", "");
            },
        )
    },
    Change {
        before: second_file,
        ..dishonest(
            "a file of gates that is emptied of its kernels",
            &["loosened"],
            |dir| fs::write(dir.join("twice.conf"), "version: 1\n").unwrap(),
        )
    },
    Change {
        before: another_shape,
        flags: &["*@{small,tiny}"],
        says: &["removed: head has no copy/default@tiny"],
        ..dishonest(
            "a shape that is gone with a filter that takes it in",
            &["loosened"],
            |dir| gates(dir, "tiny: {N: 10}", "large: {N: 2000}"),
        )
    },
    Change {
        says: &["without an acceptance: head accepts max_err <= 1000000, by Ann until 2999-01-31"],
        ..dishonest(
            "a wrong kernel that the change accepts",
            &["loosened"],
            |dir| {
                bend_kernel(dir);
                accept(dir, "1e6");
            },
        )
    },
    Change {
        before: |dir| {
            accept(dir, "1e6");
            bend_kernel(dir);
        },
        ..dishonest("an acceptance made wider", &["loosened"], |dir| {
            accept(dir, "1e9")
        })
    },
    Change {
        baselines: true,
        ..dishonest(
            "a baseline agreed on with the counters that it makes worse",
            &["loosened"],
            |dir| {
                edit(
                    &dir.join("copy.cu"),
                    "    if (i < n) y[i] = x[i];\n",
                    "    const int t = threadIdx.x;\n    const int j = i - t + t % 32 * 8 + t / 32;\n    \
                 if (j < n) y[j] = x[j];\n",
                );
                update_baselines(dir);
            },
        )
    },
];
