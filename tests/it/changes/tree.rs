//! Changes to the references, the files of gates, the acceptances and the baselines that a change is held to.

use super::{Change, DISHONEST, HONEST, git, update_baselines};
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
    Change {
        name: "a reference in another folder, under other flags",
        change: |dir| {
            fs::create_dir(dir.join("references")).unwrap();
            git(dir, &["mv", "ref.cpp", "references/twice.cpp"]);
            git(dir, &["mv", "ref.h", "references/ref.h"]);
            gates(
                dir,
                "source: ref.cpp,",
                "source: references/twice.cpp, flags: [-O1, -DNONE],",
            );
        },
        ..HONEST
    },
    Change {
        name: "a reference that is written otherwise",
        change: |dir| edit(&dir.join("ref.cpp"), "FACTOR * x[i]", "x[i] + x[i]"),
        ..HONEST
    },
    Change {
        name: "a function in the place of a built-in reference",
        change: |dir| {
            let code = "extern \"C\" void same(const float* x, float* y, int n) { for (int i = 0; i < n; ++i) y[i] = x[i]; }\n";
            fs::write(dir.join("same.cpp"), code).unwrap();
            gates(
                dir,
                "{unary: {x: x, out: y, op: copy}}",
                "{user: {source: same.cpp, function: same, args: [{tensor: x}, {tensor: y}, {i32: N}]}}",
            );
        },
        ..HONEST
    },
    Change {
        name: "a changed signature with its args",
        before: room_for_loads_of_twice,
        change: |dir| {
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
        },
        ..HONEST
    },
    Change {
        name: "a new input tensor that the reference adds",
        before: room_for_loads_of_twice,
        change: |dir| new_input(dir, "2 * x[i] + b[i]", "FACTOR * x[i] + b[i]"),
        ..HONEST
    },
    Change {
        name: "all files moved",
        change: |dir| move_all(dir, "gpu"),
        flags: &["--config", "gpu/gates.yaml"],
        ..HONEST
    },
    Change {
        name: "one of two files of gates",
        before: second_file,
        change: |dir| edit(&dir.join("copy.cu"), "// y = x\n", "// y is x.\n"),
        ..HONEST
    },
    Change {
        name: "the other of two files of gates",
        before: second_file,
        change: |dir| edit(&dir.join("copy.cu"), "// y = x\n", "// y is x.\n"),
        flags: &["--config", "twice.conf"],
        ..HONEST
    },
    Change {
        name: "one of two files of gates moved, as the other one sees it",
        before: second_file,
        change: |dir| git(dir, &["mv", "twice.conf", "two.conf"]),
        ..HONEST
    },
    Change {
        name: "one of two files of gates moved, as it sees it",
        before: second_file,
        change: |dir| git(dir, &["mv", "twice.conf", "two.conf"]),
        flags: &["--config", "two.conf"],
        ..HONEST
    },
    Change {
        name: "a shape that is gone and that a filter leaves out",
        before: another_shape,
        change: |dir| gates(dir, "tiny: {N: 10}", "large: {N: 2000}"),
        flags: &["*@small"],
        ..HONEST
    },
    Change {
        name: "a kernel that a filter leaves out, with a reference that is bent",
        change: |dir| edit(&dir.join("ref.h"), "2", "3"),
        flags: &["copy"],
        ..HONEST
    },
    Change {
        name: "an acceptance that the base has",
        before: |dir| {
            accept(dir, "1e6");
            bend_kernel(dir);
        },
        change: |dir| edit(&dir.join("copy.cu"), "// y = x\n", "// y is x.\n"),
        ..HONEST
    },
];

pub const DISHONEST_CHANGES: &[Change] = &[
    Change {
        name: "a reference bent in a header",
        change: |dir| {
            bend_kernel(dir);
            edit(&dir.join("ref.h"), "2", "3");
        },
        broken: &["loosened"],
        says: &["twice/default@small: reference: on the same inputs it computes something else"],
        ..DISHONEST
    },
    Change {
        name: "a reference bent in a file of options",
        before: |dir| {
            fs::write(dir.join("ref.h"), "").unwrap();
            fs::write(dir.join("ref.opts"), "#define FACTOR 2\n").unwrap();
            reference_flags(dir, "-imacros, ref.opts");
        },
        change: |dir| {
            bend_kernel(dir);
            fs::write(dir.join("ref.opts"), "#define FACTOR 3\n").unwrap();
        },
        broken: &["loosened"],
        says: &["reference: on the same inputs it computes something else"],
        ..DISHONEST
    },
    Change {
        name: "a reference bent in an object",
        before: |dir| {
            factor_elsewhere(dir);
            object(dir, 2);
            reference_flags(dir, "factor.o");
        },
        change: |dir| {
            bend_kernel(dir);
            object(dir, 3);
        },
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        name: "a reference bent in a library",
        before: |dir| {
            factor_elsewhere(dir);
            library(dir, 2);
            reference_flags(dir, "-L., -lfactor");
        },
        change: |dir| {
            bend_kernel(dir);
            library(dir, 3);
        },
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        name: "a reference bent in a file that its assembler reads",
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
        change: |dir| {
            bend_kernel(dir);
            fs::write(dir.join("factor.bin"), [3]).unwrap();
        },
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        name: "a reference bent in a pragma",
        before: |dir| weak(dir, "two"),
        change: |dir| {
            bend_kernel(dir);
            weak(dir, "three");
        },
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        name: "a reference bent along with a new input",
        before: room_for_loads_of_twice,
        change: |dir| new_input(dir, "4 * x[i] + b[i]", "4 * x[i] + b[i]"),
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        name: "another built-in reference",
        change: |dir| {
            edit(&dir.join("copy.cu"), "y[i] = x[i]", "y[i] = -x[i]");
            gates(dir, "op: copy", "op: neg");
        },
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        name: "all files moved, with a looser gate",
        change: |dir| {
            gates(dir, "registers: 32", "registers: 64");
            move_all(dir, "gpu");
        },
        flags: &["--config", "gpu/gates.yaml"],
        broken: &["loosened"],
        says: &["registers <= 32: head has registers <= 64"],
        ..DISHONEST
    },
    Change {
        name: "looser gates behind a link at their old place",
        change: |dir| {
            git(dir, &["mv", "gates.yaml", "new.yaml"]);
            std::os::unix::fs::symlink("new.yaml", dir.join("gates.yaml")).unwrap();
            edit(&dir.join("new.yaml"), "registers: 32", "registers: 255");
        },
        flags: &["--config", "new.yaml"],
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        name: "looser gates through the link",
        change: |dir| {
            git(dir, &["mv", "gates.yaml", "new.yaml"]);
            std::os::unix::fs::symlink("new.yaml", dir.join("gates.yaml")).unwrap();
            edit(&dir.join("new.yaml"), "registers: 32", "registers: 255");
        },
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        name: "a file of gates with quoted keys removed",
        before: second_file,
        change: |dir| fs::remove_file(dir.join("twice.conf")).unwrap(),
        broken: &["loosened"],
        says: &["removed: head has no such file of gates"],
        ..DISHONEST
    },
    Change {
        name: "a file of gates moved without one of its cases",
        before: |dir| {
            another_shape(dir);
            let text = fs::read_to_string(dir.join("gates.yaml")).unwrap();
            fs::write(dir.join("all.conf"), text.replace("  copy:", "  also:")).unwrap();
        },
        change: |dir| {
            git(dir, &["mv", "all.conf", "some.conf"]);
            edit(&dir.join("some.conf"), "      tiny: {N: 10}\n", "");
        },
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        name: "a file of gates that is emptied of its kernels",
        before: second_file,
        change: |dir| fs::write(dir.join("twice.conf"), "version: 1\n").unwrap(),
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        name: "a shape that is gone with a filter that takes it in",
        before: another_shape,
        change: |dir| gates(dir, "tiny: {N: 10}", "large: {N: 2000}"),
        flags: &["*@{small,tiny}"],
        broken: &["loosened"],
        says: &["removed: head has no copy/default@tiny"],
        ..DISHONEST
    },
    Change {
        name: "a wrong kernel that the change accepts",
        change: |dir| {
            bend_kernel(dir);
            accept(dir, "1e6");
        },
        broken: &["loosened"],
        says: &["without an acceptance: head accepts max_err <= 1000000, by Ann until 2999-01-31"],
        ..DISHONEST
    },
    Change {
        name: "an acceptance made wider",
        before: |dir| {
            accept(dir, "1e6");
            bend_kernel(dir);
        },
        change: |dir| accept(dir, "1e9"),
        broken: &["loosened"],
        ..DISHONEST
    },
    Change {
        name: "a baseline agreed on with the counters that it makes worse",
        baselines: true,
        change: |dir| {
            edit(
                &dir.join("copy.cu"),
                "    if (i < n) y[i] = x[i];\n",
                "    const int t = threadIdx.x;\n    const int j = i - t + t % 32 * 8 + t / 32;\n    \
                 if (j < n) y[j] = x[j];\n",
            );
            update_baselines(dir);
        },
        broken: &["loosened"],
        ..DISHONEST
    },
];
