//! Tests when nvcc is called again and when it is not. A wrapper that refuses to compile shows a call. It cannot count
//! its calls, because it may not write anything that a test could read.

use super::tests::{Bench, entry, files, got, script, unit};
use super::*;
use crate::toolchain::testing;
use model::CType;
use std::collections::BTreeSet;

struct Counted {
    bench: Bench,
    toolchain: Toolchain,
    dir: tempfile::TempDir,
}

impl Counted {
    fn new(bench: Bench) -> Self {
        Self::saying("", bench)
    }

    /// Makes a bench on which each run of nvcc leaves a warning of its own.
    fn telling(bench: Bench) -> Self {
        let says = "case \"$*\" in *\" -ptx \"*) run=reads;; *) run=makes;; esac\n\
                    echo \"$run $$: warning: counted\"";
        Self::saying(says, bench)
    }

    fn saying(says: &str, bench: Bench) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let real = testing::toolchain();
        let nvcc = script(
            dir.path(),
            &format!(
                "[ -e {} ] && {{ echo refused; exit 1; }}\n{says}\nexec {} \"$@\"",
                dir.path().join("refuse").display(),
                real.nvcc.display()
            ),
        );
        Self {
            bench,
            toolchain: Toolchain { nvcc, ..real },
            dir,
        }
    }

    /// Builds, and says how often nvcc has to be called for it.
    fn calls(&self, units: &[Unit]) -> usize {
        self.build(units).1
    }

    fn calls_of(&self, unit: &Unit) -> usize {
        self.build_one(unit).1
    }

    fn build_one(&self, unit: &Unit) -> (Vec<Built>, usize) {
        self.build(std::slice::from_ref(unit))
    }

    fn build(&self, units: &[Unit]) -> (Vec<Built>, usize) {
        let count = |built: &[Built]| built.iter().filter(|built| !built.cached).count();
        let refuse = self.dir.path().join("refuse");
        std::fs::write(&refuse, "").unwrap();
        let refused = self.bench.build_with(&self.toolchain, units);
        std::fs::remove_file(&refuse).unwrap();
        let calls = count(&refused);
        assert!(
            refused
                .iter()
                .filter(|built| match &built.facts {
                    Seen::Fault(fault) => fault.message == "refused",
                    _ => false,
                })
                .count()
                >= calls
        );
        let built = self.bench.build_with(&self.toolchain, units);
        assert_eq!(calls, count(&built));
        (built, calls)
    }
}

/// Returns the number of nvcc runs behind these results: those that only read a source, and those that made machine
/// code.
fn runs(built: &[Built]) -> (usize, usize) {
    let warnings: BTreeSet<&String> = built
        .iter()
        .filter_map(|built| built.facts.got())
        .flat_map(|facts| &facts.warnings)
        .collect();
    let count = |what: &str| {
        warnings
            .iter()
            .filter(|warning| warning.starts_with(what))
            .count()
    };
    (count("reads "), count("makes "))
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
    Counted::new(Bench::new(&[
        ("src/k.cu", SOURCE),
        ("second/a.h", "#include \"deep/b.h\"\n#define A B\n"),
        ("second/deep/b.h", "#define B 1\n"),
        ("first/unrelated.h", "\n"),
    ]))
}

#[test]
fn the_same_inputs_call_no_compiler() {
    let bench = bench();
    let unit = variant("1");
    let (first, calls) = bench.build_one(&unit);
    assert_eq!(calls, 1);
    let (second, calls) = bench.build_one(&unit);
    assert_eq!(calls, 0);
    assert_eq!(first[0].facts, second[0].facts);
    assert_eq!(first[0].artifact, second[0].artifact);

    // Times of files alone mean nothing, nor does a file that nothing reads.
    bench.bench.write("src/k.cu", SOURCE);
    bench.bench.write("first/unrelated.h", "#error\n");
    bench.bench.write("src/new_neighbour.cu", "\n");
    assert_eq!(bench.calls_of(&unit), 0);

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
    let calls = |unit: &Unit| bench.calls_of(unit);
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
    assert_eq!(bench.calls_of(&unit), 1);
    let real = bench.toolchain.clone();
    bench.toolchain.facts.digest = "another".into();
    assert_eq!(bench.calls_of(&unit), 1, "nvcc");
    bench.toolchain = real.clone();
    bench.toolchain.facts.host = "g++ 99".into();
    assert_eq!(bench.calls_of(&unit), 1, "host compiler");
    bench.toolchain = real;
    assert_eq!(bench.calls_of(&unit), 0);
}

#[test]
fn a_header_that_appears_earlier_in_the_search_calls_it() {
    let bench = bench();
    let unit = variant("1");
    let calls = || bench.calls_of(&unit);
    assert_eq!(calls(), 1);
    // Beside the source, before every -I.
    bench.bench.write("src/a.h", "#define A 10\n");
    let (built, count) = bench.build_one(&unit);
    assert_eq!(count, 1);
    std::fs::remove_file(bench.bench.root.path().join("src/a.h")).unwrap();
    let (original, count) = bench.build_one(&unit);
    assert_eq!(count, 0);
    assert_ne!(got(&built[0]).identity, got(&original[0]).identity);
    // The header is in an earlier directory, or in one that did not exist before.
    bench.bench.write("first/deep/b.h", "#define B 20\n");
    assert_eq!(calls(), 1);
    assert_eq!(calls(), 0);
    // The header is found before a header of the toolkit.
    bench
        .bench
        .write("first/vector_types.h", "#include_next <vector_types.h>\n");
    assert_eq!(calls(), 1);
}

#[test]
fn has_include_is_an_input() {
    let source = "#if __has_include(\"option.h\")\n#define V 1\n#else\n#define V 2\n#endif\n\
                  extern \"C\" __global__ void k(int* o) { *o = V; }\n";
    let bench = Counted::new(Bench::new(&[("src/k.cu", source)]));
    let unit = entry("src/k.cu", "k");
    let build = || bench.build_one(&unit);
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
fn never_reuses_a_build_that_depends_on_the_time() {
    let bench = Counted::new(Bench::new(&[(
        "k.cu",
        "extern \"C\" __global__ void k(char* o) { *o = __TIME__[7]; }\n",
    )]));
    let unit = entry("k.cu", "k");
    assert_eq!(bench.calls_of(&unit), 1);
    assert_eq!(bench.calls_of(&unit), 1);
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
    let (fresh, calls) = bench.build_one(&unit);
    assert_eq!(calls, 1);
    assert_ne!(got(&stale[0]).identity, got(&fresh[0]).identity);
}

#[test]
fn a_damaged_artifact_is_built_again() {
    let bench = bench();
    let unit = variant("1");
    let path = |built: &Built| files(built).0.to_owned();
    let (first, _) = bench.build_one(&unit);
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
    // The stored object of the whole source would do instead, so it is removed, too.
    let objects = file.parent().and_then(Path::parent).unwrap();
    let sources = || {
        let others = std::fs::read_dir(objects).unwrap().flatten();
        let others = others.map(|path| path.path());
        others.filter(|path| Some(path.as_path()) != file.parent())
    };
    for damage in damages {
        damage();
        sources().for_each(|source| std::fs::remove_dir_all(source).unwrap());
        let (again, calls) = bench.build_one(&unit);
        assert_eq!(calls, 1);
        assert_eq!(again[0].facts, first[0].facts);
        assert_eq!(std::fs::read(path(&again[0])).unwrap(), bytes);
        assert_eq!(bench.calls_of(&unit), 0);
    }
}

#[test]
fn another_checkout_of_the_same_tree_shares_artifacts() {
    let one = bench();
    let unit = variant("1");
    let (first, _) = one.build_one(&unit);
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
    assert_eq!(bench.calls_of(&unit), 0);
}

#[test]
fn a_library_that_is_linked_in_is_no_known_input() {
    let bench = Counted::new(Bench::with_toolkit(&[(
        "l.cu",
        "extern \"C\" void f(float*) {}\n__global__ void k() {}\n",
    )]));
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
    assert_eq!(bench.calls_of(&unit), 1);
    assert_eq!(bench.calls_of(&unit), 1);
}

/// Twelve kernels in one file, plain ones and templates. With the toolkit, it needs `cassert` and `cstdio`.
const TWELVE: &str = include_str!("tests/twelve.cu");

fn units_of(source: &str, names: &[&str]) -> Vec<Unit> {
    let unit = |name: &&str| Unit {
        flags: vec!["-std=c++17".into()],
        ..entry(source, name)
    };
    names.iter().map(unit).collect()
}

const INSTANCES: [&str; 6] = [
    "k<2>",
    "k<4>",
    "k<8>",
    "copy<int>",
    "copy<float>",
    "copy<double>",
];

#[test]
fn a_source_is_read_once_for_its_kernels_and_once_for_its_instances() {
    let text = format!("#include <cassert>\n#include <cstdio>\n{TWELVE}");
    let bench = Counted::telling(Bench::with_toolkit(&[("t.cu", &text)]));
    let plain = ["plain0", "plain1", "plain2", "plain3", "plain4", "plain5"];
    let units = units_of("t.cu", &plain);
    let (built, calls) = bench.build(&units);
    assert_eq!((calls, runs(&built)), (1, (0, 1)));
    for (built, name) in built.iter().zip(plain) {
        assert_eq!(got(built).entries[0].symbol, name);
    }
    let instances = units_of("t.cu", &INSTANCES);
    let built = bench.bench.build_jobs(&bench.toolchain, &instances, 1);
    assert!(built.iter().all(|built| built.facts.got().is_some()));
    assert_eq!(runs(&built), (1, INSTANCES.len()));
    // Two that could work at once do.
    let more = units_of("t.cu", &["k<16>", "k<32>", "copy<char>", "copy<short>"]);
    let built = bench.bench.build_jobs(&bench.toolchain, &more, 2);
    assert_eq!(runs(&built), (2, 4));
    assert_eq!(bench.calls(&units), 0);
}

/// Asks for entries as `run KERNEL` does for one kernel after the other, or as a file of gates for each does.
#[test]
fn entries_that_separate_runs_ask_for_are_one_compilation() {
    let bench = Counted::new(Bench::new(&[("t.cu", TWELVE)]));
    let names = ["plain0", "plain1", "plain2", "plain3", "plain4", "plain5"];
    let units = units_of("t.cu", &names);
    let calls: Vec<usize> = units.iter().map(|unit| bench.calls_of(unit)).collect();
    assert_eq!(calls, [1, 0, 0, 0, 0, 0]);
    // The entries have the same facts as all of them together.
    let (apart, calls) = bench.build(&units);
    assert_eq!(calls, 0);
    let other = Bench::new(&[("t.cu", TWELVE)]);
    let together = other.build_with(&testing::toolchain(), &units);
    for (apart, together) in apart.iter().zip(&together) {
        let (apart, together) = (got(apart), got(together));
        assert_eq!(
            (&apart.identity, &apart.ptx, &apart.entries),
            (&together.identity, &together.ptx, &together.entries)
        );
    }
    // Another flag, another definition and another text are other sources.
    let mut flagged = units[0].clone();
    flagged.flags.push("-use_fast_math".into());
    let mut defined = units[1].clone();
    defined.defines.insert("V".into(), "1".into());
    assert_eq!(bench.calls(&[flagged, defined]), 2);
    bench
        .bench
        .write("t.cu", &TWELVE.replace("*o = 3;", "*o = 33;"));
    assert_eq!(bench.calls(&[units[3].clone()]), 1);
    assert_eq!(bench.calls(&[units[4].clone()]), 0);
}

/// Checks that an instance that does not compile costs the others only a few more runs, not one for each.
#[test]
fn an_instance_that_does_not_compile_is_found_by_halves() {
    let bench = Counted::telling(Bench::new(&[("t.cu", TWELVE)]));
    let mut names: Vec<String> = (1..=7).map(|n| format!("k<{n}>")).collect();
    names.push("nonsense<1>".to_owned());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let units = units_of("t.cu", &names);
    let built = bench.bench.build_jobs(&bench.toolchain, &units, 1);
    assert_eq!(
        built
            .iter()
            .filter(|built| built.facts.got().is_some())
            .count(),
        7
    );
    // The runs that succeed make 4, 2 and 1 of them.
    assert_eq!(runs(&built), (3, 7));
    // If the source itself is at fault, nothing is halved, and each unit gets the message.
    let text = "template <int N> __global__ void k(int*) { return 1 }\n";
    let broken = Bench::new(&[("t.cu", text)]);
    let units = units_of("t.cu", &["k<1>", "k<2>", "k<3>", "k<4>"]);
    let built = broken.build_jobs(&testing::toolchain(), &units, 1);
    let is_told = |built: &&Built| match &built.facts {
        Seen::Fault(fault) => fault.message.contains("t.cu(1): error"),
        _ => false,
    };
    assert_eq!(built.iter().filter(is_told).count(), 4);
}

/// Otherwise it would depend on the other entries whether a kernel counts as unchanged.
#[test]
fn an_instance_compiles_alike_with_other_neighbours() {
    let build = |units: &[Unit]| {
        let bench = Bench::new(&[("t.cu", TWELVE)]);
        let built = bench.build_jobs(&testing::toolchain(), units, 1);
        built
            .iter()
            .map(|built| {
                let ptx = files(built).1.unwrap();
                let facts = BuildFacts {
                    artifact: String::new(),
                    ..got(built).clone()
                };
                (facts, std::fs::read_to_string(ptx).unwrap())
            })
            .collect::<Vec<_>>()
    };
    let together = build(&units_of("t.cu", &INSTANCES));
    for ((unit, name), together) in units_of("t.cu", &INSTANCES)
        .into_iter()
        .zip(INSTANCES)
        .zip(together)
    {
        let alone = build(&[unit]).remove(0);
        assert_eq!(together.0, alone.0, "{name}");
        // The code is compared without the origins of its lines.
        let code = |text: &str| -> String {
            let (text, _) = text.split_once(".section").unwrap_or((text, ""));
            text.lines()
                .filter(|line| !line.contains(".loc") && !line.contains(".file"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert!(code(&together.1) == code(&alone.1), "{name}");
        assert!(!together.1.contains("gk_instantiate"));
    }
}

#[test]
fn an_instance_that_does_not_compile_harms_no_other() {
    let source = "template <int N> __global__ void k(int* o) { static_assert(N != 2, \"no two\"); *o = N; }\n\
                  template <int N> __global__ void bad(int* o) { asm(\"foo.bar;\"); }\n";
    let bench = Bench::new(&[("k.cu", source)]);
    let units = units_of("k.cu", &["k<1>", "k<2>", "k<3>", "bad<1>", "k<nonsense>"]);
    let built = bench.build_jobs(&testing::toolchain(), &units, 1);
    let said = |at: usize| match &built[at].facts {
        Seen::Got(facts) => facts.entries[0].symbol.clone(),
        Seen::Fault(fault) => fault.message.lines().next().unwrap_or_default().to_owned(),
        other => panic!("{other:?}"),
    };
    let said: Vec<String> = (0..5).map(said).collect();
    insta::assert_snapshot!(said.join("\n"));
}

/// nvcc adapts the function to its callers. If one instance calls it, `n` is a constant; if two do, a loop over `n`
/// remains.
#[test]
fn instances_that_share_a_function_are_compiled_alone() {
    let source = "__device__ __noinline__ int power(int x, int n) { int p = 1; for (; n > 0; n--) p *= x; return p; }\n\
                  template <int N> __global__ void k(int* o) { *o = power(*o, N); }\n\
                  template <int N> __global__ void apart(int* o) { *o = N; }\n";
    let bench = Counted::telling(Bench::new(&[("k.cu", source)]));
    let units = units_of("k.cu", &["k<2>", "k<3>", "apart<3>"]);
    let built = bench.bench.build_jobs(&bench.toolchain, &units, 1);
    assert_eq!(runs(&built), (1 + 2, 3));
    for built in &built {
        got(built);
        let ptx = files(built).1.unwrap();
        let ptx = std::fs::read_to_string(ptx).unwrap();
        assert!(!ptx.contains("bra"), "{ptx}");
    }
}
