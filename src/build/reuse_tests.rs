//! When nvcc is called again and when it is not. A wrapper that refuses to compile tells: it may write nothing that a
//! test could count.

use super::tests::{Bench, entry, got, script, unit};
use super::*;
use crate::toolchain::testing;
use verdict::model::CType;

struct Counted {
    bench: Bench,
    toolchain: Toolchain,
    dir: tempfile::TempDir,
}

impl Counted {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let real = testing::toolchain();
        let nvcc = script(
            dir.path(),
            &format!(
                "[ -e {} ] && {{ echo refused; exit 1; }}; exec {} \"$@\"",
                dir.path().join("refuse").display(),
                real.nvcc.display()
            ),
        );
        Self {
            bench: Bench::new(files),
            toolchain: Toolchain { nvcc, ..real },
            dir,
        }
    }

    /// Builds, and says how often nvcc has to be called for it.
    fn calls(&self, units: &[Unit]) -> usize {
        self.build(units).1
    }

    fn build(&self, units: &[Unit]) -> (Vec<Built>, usize) {
        let count = |built: &[Built]| built.iter().filter(|built| !built.cached).count();
        let refuse = self.dir.path().join("refuse");
        std::fs::write(&refuse, "").unwrap();
        let refused = self.bench.build_with(&self.toolchain, units);
        std::fs::remove_file(&refuse).unwrap();
        let calls = count(&refused);
        let faults = refused.iter().filter(|built| match &built.facts {
            Seen::Fault(fault) => fault.message == "refused",
            _ => false,
        });
        assert!(faults.count() >= calls);
        let built = self.bench.build_with(&self.toolchain, units);
        assert_eq!(calls, count(&built));
        (built, calls)
    }
}

const SOURCE: &str = r#"
#include "a.h"
extern "C" __global__ void k(int* o) { *o = A + V; }
"#;

fn variant(v: &str) -> Unit {
    Unit {
        include_dirs: vec!["first".into(), "second".into()],
        defines: [("V".to_owned(), v.to_owned())].into(),
        ..entry("src/k.cu", "k")
    }
}

fn bench() -> Counted {
    Counted::new(&[
        ("src/k.cu", SOURCE),
        ("second/a.h", "#include \"deep/b.h\"\n#define A B\n"),
        ("second/deep/b.h", "#define B 1\n"),
        ("first/unrelated.h", "\n"),
    ])
}

#[test]
fn the_same_inputs_call_no_compiler() {
    let bench = bench();
    let unit = variant("1");
    let (first, calls) = bench.build(std::slice::from_ref(&unit));
    assert_eq!(calls, 1);
    let (second, calls) = bench.build(std::slice::from_ref(&unit));
    assert_eq!(calls, 0);
    assert_eq!(first[0].facts, second[0].facts);
    assert_eq!(first[0].artifact, second[0].artifact);

    // Times of files alone mean nothing, nor does a file that nothing reads.
    bench.bench.write("src/k.cu", SOURCE);
    bench.bench.write("first/unrelated.h", "#error\n");
    bench.bench.write("src/new_neighbour.cu", "\n");
    assert_eq!(bench.calls(std::slice::from_ref(&unit)), 0);

    // Two kernels that ask for the same thing are one compilation.
    let mut twin = unit.clone();
    twin.id.kernel = "twin".into();
    twin.defines.insert("V".into(), "7".into());
    let mut other = twin.clone();
    other.id.variant = "other".into();
    assert_eq!(bench.calls(&[twin, other, unit]), 1);
}

#[test]
fn every_change_of_an_input_calls_it() {
    let bench = bench();
    let unit = variant("1");
    let calls = |unit: &Unit| bench.calls(std::slice::from_ref(unit));
    assert_eq!(calls(&unit), 1);

    assert_eq!(calls(&variant("2")), 1, "a definition");
    let mut changed = unit.clone();
    changed.flags.push("-use_fast_math".into());
    assert_eq!(calls(&changed), 1, "a flag");
    changed = unit.clone();
    changed.id.arch = "sm_89".parse().unwrap();
    assert_eq!(calls(&changed), 1, "an architecture");
    changed = unit.clone();
    changed.include_dirs.reverse();
    assert_eq!(calls(&changed), 1, "the order of directories");

    bench.bench.write("second/deep/b.h", "#define B 2\n");
    assert_eq!(calls(&unit), 1, "a header that a header includes");
    bench
        .bench
        .write("src/k.cu", &SOURCE.replace("A + V", "A - V"));
    assert_eq!(calls(&unit), 1, "the source");
    assert_eq!(calls(&unit), 0);

    // Back to what was there before: both are remembered.
    bench.bench.write("src/k.cu", SOURCE);
    bench.bench.write("second/deep/b.h", "#define B 1\n");
    assert_eq!(calls(&unit), 0, "the first state again");
}

#[test]
fn another_compiler_calls_it() {
    let mut bench = bench();
    let unit = variant("1");
    assert_eq!(bench.calls(std::slice::from_ref(&unit)), 1);
    let real = bench.toolchain.clone();
    bench.toolchain.facts.digest = "another".into();
    assert_eq!(bench.calls(std::slice::from_ref(&unit)), 1, "nvcc");
    bench.toolchain = real.clone();
    bench.toolchain.facts.host = "g++ 99".into();
    assert_eq!(bench.calls(std::slice::from_ref(&unit)), 1, "host compiler");
    bench.toolchain = real;
    assert_eq!(bench.calls(std::slice::from_ref(&unit)), 0);
}

#[test]
fn a_header_that_appears_earlier_in_the_search_calls_it() {
    let bench = bench();
    let unit = variant("1");
    let calls = || bench.calls(std::slice::from_ref(&unit));
    assert_eq!(calls(), 1);
    // Beside the source, before every -I.
    bench.bench.write("src/a.h", "#define A 10\n");
    let (built, count) = bench.build(std::slice::from_ref(&unit));
    assert_eq!(count, 1);
    std::fs::remove_file(bench.bench.root.path().join("src/a.h")).unwrap();
    let (original, count) = bench.build(std::slice::from_ref(&unit));
    assert_eq!(count, 0);
    assert_ne!(got(&built[0]).identity, got(&original[0]).identity);
    // In an earlier directory, also one that had not been there.
    bench.bench.write("first/deep/b.h", "#define B 20\n");
    assert_eq!(calls(), 1);
    assert_eq!(calls(), 0);
    // In front of a header of the toolkit.
    bench
        .bench
        .write("first/vector_types.h", "#include_next <vector_types.h>\n");
    assert_eq!(calls(), 1);
}

#[test]
fn has_include_is_an_input() {
    let source = "#if __has_include(\"option.h\")\n#define V 1\n#else\n#define V 2\n#endif\n\
                  extern \"C\" __global__ void k(int* o) { *o = V; }\n";
    let bench = Counted::new(&[("src/k.cu", source)]);
    let unit = entry("src/k.cu", "k");
    let build = || bench.build(std::slice::from_ref(&unit));
    let (without, calls) = build();
    assert_eq!(calls, 1);
    bench.bench.write("src/option.h", "#error never read\n");
    let (with, calls) = build();
    assert_eq!(calls, 1);
    assert_ne!(got(&with[0]).identity, got(&without[0]).identity);
    assert_eq!(build().1, 0);
    std::fs::remove_file(bench.bench.root.path().join("src/option.h")).unwrap();
    let (again, calls) = build();
    assert_eq!(calls, 0);
    assert_eq!(again[0].facts, without[0].facts);
}

#[test]
fn what_is_no_function_of_files_is_never_reused() {
    let bench = Counted::new(&[(
        "k.cu",
        "extern \"C\" __global__ void k(char* o) { *o = __TIME__[7]; }\n",
    )]);
    let unit = entry("k.cu", "k");
    assert_eq!(bench.calls(std::slice::from_ref(&unit)), 1);
    assert_eq!(bench.calls(std::slice::from_ref(&unit)), 1);
}

#[test]
fn a_file_written_while_nvcc_runs_is_not_remembered() {
    let mut bench = bench();
    let unit = variant("1");
    let real = bench.toolchain.nvcc.clone();
    let has_read = bench.dir.path().join("has-read");
    nix::unistd::mkfifo(&has_read, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // The header changes right after nvcc has read it: each end of the pipe waits for the other.
    let waits = tempfile::tempdir().unwrap();
    bench.toolchain.nvcc = script(
        waits.path(),
        &format!(
            "{} \"$@\" || exit 1; cat {}",
            real.display(),
            has_read.display()
        ),
    );
    let stale = std::thread::scope(|scope| {
        scope.spawn(|| {
            let pipe = std::fs::File::options().write(true).open(&has_read);
            bench.bench.write("second/deep/b.h", "#define B 5\n");
            drop(pipe.unwrap());
        });
        bench
            .bench
            .build_with(&bench.toolchain, std::slice::from_ref(&unit))
    });
    bench.toolchain.nvcc = real;
    let (fresh, calls) = bench.build(std::slice::from_ref(&unit));
    assert_eq!(calls, 1);
    assert_ne!(got(&stale[0]).identity, got(&fresh[0]).identity);
}

#[test]
fn a_damaged_artifact_is_built_again() {
    let bench = bench();
    let unit = variant("1");
    let path = |built: &Built| match &built.artifact {
        Some(Artifact::Cubin { path, .. }) => path.clone(),
        other => panic!("{other:?}"),
    };
    let (first, _) = bench.build(std::slice::from_ref(&unit));
    let file = path(&first[0]);
    let bytes = std::fs::read(&file).unwrap();
    type Damage<'a> = Box<dyn Fn() + 'a>;
    let facts = file.with_file_name("facts.json");
    let damages: [Damage; 4] = [
        Box::new(|| std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap()),
        Box::new(|| {
            let mut bytes = bytes.clone();
            bytes[1000] ^= 1;
            std::fs::write(&file, bytes).unwrap();
        }),
        Box::new(|| {
            let text = std::fs::read_to_string(&facts).unwrap();
            std::fs::write(&facts, text.replace("\"registers\":", "\"registers\":1")).unwrap();
        }),
        Box::new(|| std::fs::remove_dir_all(file.parent().unwrap()).unwrap()),
    ];
    for damage in damages {
        damage();
        let (again, calls) = bench.build(std::slice::from_ref(&unit));
        assert_eq!(calls, 1);
        assert_eq!(again[0].facts, first[0].facts);
        assert_eq!(std::fs::read(path(&again[0])).unwrap(), bytes);
        assert_eq!(bench.calls(std::slice::from_ref(&unit)), 0);
    }
}

#[test]
fn another_checkout_of_the_same_tree_shares_artifacts() {
    let one = bench();
    let unit = variant("1");
    let (first, _) = one.build(std::slice::from_ref(&unit));
    let mut two = bench();
    two.bench.cache = one.bench.cache.clone();
    two.toolchain = one.toolchain.clone();
    let built = two
        .bench
        .build_with(&two.toolchain, std::slice::from_ref(&unit));
    assert!(built[0].cached);
    assert_eq!(built[0].facts, first[0].facts);
}

#[test]
fn two_runs_at_once_agree() {
    let bench = bench();
    let unit = variant("1");
    let build = || {
        bench
            .bench
            .build_with(&bench.toolchain, std::slice::from_ref(&unit))
            .remove(0)
    };
    let (a, b) = std::thread::scope(|scope| {
        let other = scope.spawn(build);
        (build(), other.join().unwrap())
    });
    assert_eq!(a.facts, b.facts);
    assert_eq!(a.artifact, b.artifact);
    assert_eq!(bench.calls(std::slice::from_ref(&unit)), 0);
}

#[test]
fn a_library_that_is_linked_in_is_no_known_input() {
    let bench = Counted::new(&[(
        "l.cu",
        "extern \"C\" void f(float*) {}\n__global__ void k() {}\n",
    )]);
    let unit = Unit {
        flags: vec!["-lm".into()],
        ..unit(
            "l.cu",
            "sm_90",
            Callable::Launcher {
                function: "f".into(),
                signature: vec![CType::Pointer],
                launches: vec![],
            },
        )
    };
    assert_eq!(bench.calls(std::slice::from_ref(&unit)), 1);
    assert_eq!(bench.calls(std::slice::from_ref(&unit)), 1);
}
