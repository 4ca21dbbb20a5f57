//! Tests real functions with a real host compiler.

use super::*;
use crate::Values;
use crate::inputs::generate;
use crate::testing::{
    self, case, constant, filled, float, input, int, output, pointer, with_codec,
};
use model::{Arg, CodecScheme, ElemType, Fill, ScalarType};

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(source: &str) -> Self {
        let bench = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(bench.dir.path().join("tree")).unwrap();
        bench.write("reference.cpp", source);
        bench
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join("tree").join(name), text).unwrap();
    }

    fn functions(&self) -> Functions {
        let cache = Cache::at(&self.dir.path().join("cache")).unwrap();
        Functions::new(
            &self.dir.path().join("tree"),
            Some(Path::new("g++")),
            HiddenFrom::default(),
            &cache,
        )
        .unwrap()
    }

    fn run(&self, case: &Case) -> std::result::Result<Outputs, NoAnswer> {
        let program = self.functions().build(case)?;
        call(&program, case, &generate(case, 1).unwrap(), View::Seen)
    }

    fn message(&self, case: &Case) -> String {
        match self.run(case).unwrap_err() {
            NoAnswer::Reference(message) | NoAnswer::Late(message) => message,
            error @ NoAnswer::Environment(_) => panic!("{error:?}"),
        }
    }

    fn programs(&self) -> usize {
        let all = std::fs::read_dir(self.dir.path().join("cache/reference-programs")).unwrap();
        let names = all.map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_none()).count()
    }
}

fn user(mut case: Case, source: &str, args: Vec<Arg>) -> Case {
    case.reference = testing::user(source, "reference", args);
    with_flags(case, &["-std=c++17"])
}

fn with_flags(mut case: Case, more: &[&str]) -> Case {
    if let Reference::User { flags, .. } = &mut case.reference {
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
    }
    case
}

fn scale_case() -> Case {
    let tensors = vec![
        input("x", ElemType::F16, &[3, 5]),
        output("y", ElemType::F16, &[3, 5]),
    ];
    let (count, factor) = (int(ScalarType::I32, 15), float(ScalarType::F64, 2.5));
    user(
        case(tensors),
        "reference.cpp",
        vec![pointer("x"), pointer("y"), count, factor],
    )
}

const SCALE: &str = r#"#include "factor.h"
    extern "C" void reference(const float* x, float* y, int count, double factor) {
        for (int i = 0; i < count; ++i) y[i] = static_cast<float>(x[i] * factor * FACTOR);
    }"#;

fn scaled(by: f32) -> Values {
    let inputs = generate(&scale_case(), 1).unwrap();
    let x = inputs.tensors["x"].seen.floats();
    Values::F32(x.iter().map(|x| x * by).collect())
}

#[test]
fn a_function_is_built_once_and_again_when_a_header_changes() {
    let bench = Bench::new(SCALE);
    bench.write("factor.h", "#define FACTOR 1");
    assert_eq!(bench.run(&scale_case()).unwrap()["y"], scaled(2.5));
    assert_eq!(bench.run(&scale_case()).unwrap()["y"], scaled(2.5));
    assert_eq!(bench.programs(), 1);
    bench.write("factor.h", "#define FACTOR 2");
    assert_eq!(bench.run(&scale_case()).unwrap()["y"], scaled(5.0));
    assert_eq!(bench.programs(), 2);
    bench.run(&with_flags(scale_case(), &["-DUNUSED"])).unwrap();
    assert_eq!(bench.programs(), 2, "the same program");
}

/// Linked objects appear in no preprocessed source.
#[test]
fn an_object_that_the_flags_name_is_a_part_of_it() {
    let bench = Bench::new(&SCALE.replace(
        "#include \"factor.h\"",
        "extern \"C\" float linked();\n#define FACTOR linked()",
    ));
    let tree = bench.dir.path().join("tree");
    let linked = |by: &str| {
        bench.write(
            "factor.cpp",
            &format!("extern \"C\" float linked() {{ return {by}; }}"),
        );
        let mut compile = Command::new("g++");
        compile
            .current_dir(&tree)
            .args(["-c", "factor.cpp", "-o", "factor.o"]);
        assert!(compile.status().unwrap().success());
        let case = with_flags(scale_case(), &["factor.o"]);
        bench.run(&case).unwrap()["y"].clone()
    };
    assert_eq!(linked("1"), scaled(2.5));
    assert_eq!(linked("2"), scaled(5.0));
    assert_eq!(bench.programs(), 2);
}

fn identity(bench: &Bench, flags: &[&str]) -> String {
    let case = with_flags(scale_case(), flags);
    bench.functions().build(&case).unwrap().identity
}

#[test]
fn two_trees_with_equal_results_have_the_same_program() {
    let text = |source: &str, factor: &str, flags: &[&str]| {
        let bench = Bench::new(source);
        bench.write("factor.h", factor);
        identity(&bench, flags)
    };
    let one = text(SCALE, "#define FACTOR 1", &[]);
    let commented = SCALE.replace("{\n", "{  // one\n\n");
    assert_ne!(commented, SCALE);
    assert_eq!(
        text(&commented, "// one\n#define FACTOR 1", &["-DNONE"]),
        one
    );
    assert_ne!(text(SCALE, "#define FACTOR 2", &[]), one);
    let case = scale_case();
    assert!(Bench::new("#error").functions().build(&case).is_err());
}

/// A failing compiler tells that it was called.
#[test]
fn a_program_of_an_earlier_run_is_taken_while_all_that_it_was_made_of_is_as_it_was() {
    let source = SCALE.replace("\"factor.h\"", "<factor.h>");
    let bench = Bench::new(&source);
    std::fs::create_dir(bench.dir.path().join("tree/first")).unwrap();
    bench.write("factor.h", "#define FACTOR 1");
    let compiler = bench.dir.path().join("cxx");
    let refuse = bench.dir.path().join("refuse");
    let script = format!(
        "#!/bin/sh\n[ -e {} ] && exit 1\nexec g++ \"$@\"\n",
        refuse.display()
    );
    std::fs::write(&compiler, script).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&compiler, executable).unwrap();
    let build = |flags: &[&str]| {
        let cache = Cache::at(&bench.dir.path().join("cache")).unwrap();
        let tree = bench.dir.path().join("tree");
        let functions = Functions::new(&tree, Some(&compiler), HiddenFrom::default(), &cache);
        let case = with_flags(scale_case(), flags);
        functions.unwrap().build(&case).map(|build| build.identity)
    };
    let without_compiler = |flags: &[&str]| {
        std::fs::write(&refuse, "").unwrap();
        let built = build(flags);
        std::fs::remove_file(&refuse).unwrap();
        built
    };
    let search = ["-Ifirst", "-I."];
    let mut earlier = build(&search).unwrap();
    assert_eq!(without_compiler(&search).unwrap(), earlier);
    for (name, text) in [
        ("factor.h", "#define FACTOR 2"),
        ("reference.cpp", &source.replace("x[i]", "x[i] * x[i]")),
        // This header is found earlier.
        ("first/factor.h", "#define FACTOR 3"),
    ] {
        bench.write(name, text);
        assert!(without_compiler(&search).is_err(), "{name}");
        let now = build(&search).unwrap();
        assert_ne!(now, earlier, "{name}");
        assert_eq!(without_compiler(&search).unwrap(), now, "{name}");
        earlier = now;
    }
    std::fs::remove_file(bench.dir.path().join("tree/first/factor.h")).unwrap();
    let search = |flag| ["-I.", flag];
    assert!(without_compiler(&search("-DOTHER")).is_err());
    // The compiler lists nothing of what these flags add.
    for flag in ["-lm", "-march=native"] {
        build(&search(flag)).unwrap();
        assert!(without_compiler(&search(flag)).is_err(), "{flag}");
    }
    for text in [
        "#define FACTOR (__TIME__[0])",
        "asm(\"\");\n#define FACTOR 1",
    ] {
        bench.write("factor.h", text);
        build(&search("-O2")).unwrap();
        assert!(without_compiler(&search("-O2")).is_err(), "{text}");
    }
}

/// Inputs that neither gates.yaml nor the preprocessed source shows.
#[test]
fn whatever_a_program_is_made_of_is_a_part_of_its_identity() {
    let bench = Bench::new(SCALE);
    bench.write("factor.h", "");
    let two = |first: &str, then: &str, name: &str, flags: &[&str]| {
        [first, then].map(|text| {
            bench.write(name, text);
            identity(&bench, flags)
        })
    };
    let [first, then] = two("-DFACTOR=1", "-DFACTOR=2", "ref.opts", &["@ref.opts"]);
    assert_ne!(first, then, "a file of options");

    bench.write(
        "factor.h",
        "asm(\".section .rodata\\nbent: .incbin \\\"factor.bin\\\"\\n.text\");\n\
         extern \"C\" const char bent[];\n#define FACTOR bent[0]",
    );
    let [first, then] = two("1111", "2222", "factor.bin", &["-no-pie"]);
    assert_ne!(first, then, "a file that the assembler reads");

    bench.write(
        "factor.h",
        "extern \"C\" int bent();\n#define FACTOR bent()",
    );
    let library = |by: &str| {
        let code = format!("extern \"C\" int bent() {{ return {by}; }}");
        bench.write("factor.cpp", &code);
        let tree = bench.dir.path().join("tree");
        let mut compile = Command::new("g++");
        compile.current_dir(&tree);
        compile.args(["-shared", "-fPIC", "factor.cpp", "-o", "libfactor.so"]);
        assert!(compile.status().unwrap().success());
        let path = format!("-Wl,-rpath,{}", tree.display());
        identity(&bench, &["-L.", "-lfactor", &path])
    };
    assert_ne!(library("1"), library("2"), "a shared library");

    bench.write("factor.h", "int one() { return 1; }\nint two() { return 2; }\n#include \"weak.h\"\n#define FACTOR bent()");
    let weak = |name: &str| format!("extern \"C\" int bent();\n#pragma weak bent = {name}\n");
    let [first, then] = two(&weak("_Z3onev"), &weak("_Z3twov"), "weak.h", &[]);
    assert_ne!(first, then, "a pragma");
}

/// A hundred shapes of one function need one call of the compiler.
#[test]
fn a_function_is_read_once_in_a_run() {
    let bench = Bench::new(SCALE);
    bench.write("factor.h", "#define FACTOR 1");
    let functions = bench.functions();
    let identity = |functions: &Functions| functions.build(&scale_case()).unwrap().identity;
    let first = identity(&functions);
    bench.write("factor.h", "#define FACTOR 2");
    assert_eq!(identity(&functions), first);
    assert_ne!(identity(&bench.functions()), first);
}

#[test]
fn f64_and_16_bit_integers_come_in_their_own_type() {
    let index = filled("index", ElemType::U16, &[4], Fill::Permutation);
    let sign = filled("sign", ElemType::I16, &[4], constant(-3.0));
    let tensors = vec![
        input("x", ElemType::F64, &[4]),
        index,
        sign,
        output("y", ElemType::F64, &[4]),
    ];
    let args = ["x", "index", "sign", "y"].map(pointer).to_vec();
    let case = user(case(tensors), "reference.cpp", args);
    let bench = Bench::new("");
    let text = r#"#include <cstdint>
        extern "C" void reference(const double* x, const std::uint16_t* index, const std::int16_t* sign, double* y) {
            for (int i = 0; i < 4; ++i) y[i] = x[index[i]] * sign[i] + 1e-12;
        }"#;
    bench.write("reference.cpp", text);
    let outputs = bench.run(&case).unwrap();
    let inputs = generate(&case, 1).unwrap();
    let (Values::F64(x), Values::I64(index)) =
        (&inputs.tensors["x"].seen, &inputs.tensors["index"].seen)
    else {
        panic!("other types")
    };
    assert_eq!(
        outputs["y"],
        Values::F64(
            index
                .iter()
                .map(|&at| x[at as usize] * -3.0 + 1e-12)
                .collect()
        )
    );
    assert!(x.iter().all(|&x| x == f64::from(x as f32) && x != 0.0));
}

#[test]
fn a_c_function_with_every_kind_of_argument() {
    let affine = CodecScheme::Affine { low: 0, high: 255 };
    let x = with_codec(input("x", ElemType::U8, &[2, 4]), affine, &[1, 4]);
    let index = filled("index", ElemType::I32, &[4], Fill::Permutation);
    let mut state = input("state", ElemType::F32, &[2]);
    state.role = Role::Inout;
    let tensors = vec![
        x,
        index,
        state,
        output("y", ElemType::F32, &[2, 4]),
        output("n", ElemType::I64, &[2]),
    ];
    let args = vec![
        pointer("x"),
        Arg::Scales {
            tensor: "x".to_owned(),
        },
        Arg::ZeroPoints {
            tensor: "x".to_owned(),
        },
        pointer("index"),
        pointer("state"),
        Arg::Null,
        int(ScalarType::U8, 200),
        float(ScalarType::F16, 0.5),
        int(ScalarType::Bool, 1),
        pointer("y"),
        pointer("n"),
    ];
    let mut case = user(case(tensors), "reference.c", args);
    if let Reference::User { flags, .. } = &mut case.reference {
        *flags = vec!["-std=c11".to_owned(), "-lm".to_owned()];
    }
    let bench = Bench::new("");
    bench.write("reference.c", r"
        #include <math.h>
        #include <stdbool.h>
        #include <stdint.h>
        void reference(const float* x, const float* scales, const int32_t* zeros, const int32_t* index,
                       float* state, const void* nothing, uint8_t count, float half, bool yes, float* y, int64_t* n) {
            if (nothing || count != 200 || !yes) return;
            for (int row = 0; row < 2; ++row) {
                state[row] += half;
                n[row] = zeros[row] - 1000000000000;
                for (int i = 0; i < 4; ++i) y[row * 4 + i] = fabsf(x[row * 4 + index[i]]) / scales[row];
            }
        }");
    let outputs = bench.run(&case).unwrap();
    let inputs = generate(&case, 1).unwrap();
    let x = &inputs.tensors["x"];
    let Values::I64(index) = &inputs.tensors["index"].seen else {
        panic!()
    };
    let scales = x.scales.clone().unwrap();
    let want = (0..8)
        .map(|at| (x.seen.floats()[at / 4 * 4 + index[at % 4] as usize]).abs() / scales[at / 4]);
    assert_eq!(outputs["y"], Values::F32(want.collect()));
    let zeros = x.zero_points.clone().unwrap();
    assert_eq!(
        outputs["n"],
        Values::I64(
            zeros
                .iter()
                .map(|zero| i64::from(*zero) - 1_000_000_000_000)
                .collect()
        )
    );
    let state = inputs.tensors["state"].seen.floats();
    assert_eq!(
        outputs["state"],
        Values::F32(state.iter().map(|value| value + 0.5).collect())
    );
}

fn copy_case() -> Case {
    let tensors = vec![
        input("x", ElemType::F32, &[8]),
        output("y", ElemType::F32, &[8]),
    ];
    user(
        case(tensors),
        "reference.cpp",
        vec![pointer("x"), pointer("y")],
    )
}

fn body(body: &str) -> Bench {
    Bench::new(&format!(
        "#include <cstdlib>\nextern \"C\" void reference(const float* x, float* y) {{ {body} }}\n"
    ))
}

#[test]
fn everything_that_can_go_wrong_is_a_fault_with_its_reason() {
    let good = "for (int i = 0; i < 8; ++i) y[i] = x[i];";
    assert!(body(good).run(&copy_case()).is_ok());
    for (wrong, said) in [
        (
            "*(volatile int*)16 = 1;",
            "`reference` in reference.cpp failed (killed by SIGSEGV)",
        ),
        ("std::abort();", "failed (killed by SIGABRT)"),
        ("std::exit(7);", "failed (exit code 7)"),
        ("std::exit(0);", "left no answer"),
        (
            "for (int i = 0; i < 9; ++i) y[i] = 1;",
            "argument 2: the function wrote beyond its end",
        ),
        (
            "for (int i = 0; i < 6; ++i) y[i] = x[i];",
            "does not write `y`[6]",
        ),
        (
            "for (int i = 0; i < 8; ++i) y[i] = 0.0f / (x[i] - x[i]) * 0;",
            "gives NaN at `y`[0] though every input is finite",
        ),
    ] {
        let message = body(wrong).message(&copy_case());
        assert!(message.contains(said), "{wrong}: {message}");
    }
    let mut short = copy_case();
    short.deadline_ms = 200;
    let message = body("for (volatile bool on = true; on;) {}").message(&short);
    assert!(
        message.contains("did not finish within 200 ms"),
        "{message}"
    );
}

#[test]
fn the_compiler_speaks_for_itself() {
    let message = body("int n = nothing;").message(&copy_case());
    assert!(
        message.contains("reference.cpp:2:") && message.contains("nothing"),
        "{message}"
    );
    let message = Bench::new("#include \"gone.h\"").message(&copy_case());
    assert!(
        message.contains("reference.cpp:1:") && message.contains("gone.h"),
        "{message}"
    );
    let message = Bench::new("void reference(const float*, float*) {}").message(&copy_case());
    assert!(
        message.ends_with("is `reference` declared extern \"C\"?"),
        "{message}"
    );
    let mut gone = copy_case();
    gone = user(gone, "gone.cpp", vec![]);
    assert!(body("").message(&gone).contains("gone.cpp"));
}

#[test]
fn without_a_compiler_it_is_the_machine() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path()).unwrap();
    for compiler in [None, Some(Path::new("/nowhere/g++"))] {
        let error = Functions::new(dir.path(), compiler, HiddenFrom::default(), &cache)
            .unwrap()
            .build(&copy_case())
            .unwrap_err();
        assert!(matches!(error, NoAnswer::Environment(_)), "{error:?}");
    }
}

#[test]
fn arguments_that_a_function_cannot_take() {
    let bench = body("");
    let x = input("x", ElemType::F32, &[1]);
    for (arg, said) in [
        (Arg::Stream, "tensors and scalars only"),
        (pointer("z"), "`z`, which is not a tensor"),
        (
            Arg::Scales {
                tensor: "x".to_owned(),
            },
            "`x` has no scales",
        ),
        (
            int(ScalarType::U8, 300),
            "300 is not a value of std::uint8_t",
        ),
        (
            float(ScalarType::I32, 0.5),
            "0.5 is not a value of std::int32_t",
        ),
    ] {
        let case = user(case(vec![x.clone()]), "reference.cpp", vec![arg]);
        let message = bench.message(&case);
        assert!(message.contains(said), "{message}");
    }
    let mut case = copy_case();
    if let Reference::User { function, .. } = &mut case.reference {
        *function = "f(); system".to_owned();
    }
    assert!(
        bench
            .message(&case)
            .contains("not the name of a C function")
    );
}

/// Returns the function of a stranger: `body` runs, and then the output is right.
fn hostile(body: &str) -> Bench {
    Bench::new(&format!(
        "#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n#include <fcntl.h>\n#include <sys/socket.h>\n\
         #include <sys/stat.h>\n#include <unistd.h>\n\
         extern \"C\" void reference(const float* x, float* y, int count, double factor) {{\n\
         for (int i = 0; i < count; ++i) y[i] = static_cast<float>(x[i] * factor);\n{body}\n}}\n"
    ))
}

#[test]
fn a_strangers_function_changes_nothing_outside_its_directory() {
    if !system::process::confine::is_confining() {
        return;
    }
    let kept = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&kept, "as it was").unwrap();
    // The cache's own programs are next to the directory that it runs in.
    let bench = hostile(&format!(
        "const char* attempts[] = {{\"{}\", \"../planted\", \"../../references/planted\"}};\n\
         for (const char* path : attempts) if (FILE* f = fopen(path, \"w\")) abort();\n\
         if (!fopen(\"own\", \"w\")) abort();",
        kept.path().display()
    ));
    assert_eq!(bench.run(&scale_case()).unwrap()["y"], scaled(2.5));
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "as it was");
    assert_eq!(bench.programs(), 1);
}

#[test]
fn a_strangers_function_sees_no_secrets_and_no_network() {
    if !system::process::confine::is_confining() {
        return;
    }
    // Cargo itself sets many variables.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let bench = hostile(
        "if (getenv(\"CARGO_MANIFEST_DIR\")) abort();\n\
         char path[64]; snprintf(path, sizeof path, \"/proc/%d/environ\", getppid());\n\
         if (open(path, O_RDONLY) >= 0) abort();\n\
         if (socket(AF_INET, SOCK_STREAM, 0) >= 0) abort();",
    );
    assert_eq!(bench.run(&scale_case()).unwrap()["y"], scaled(2.5));
}

#[test]
fn an_answer_that_is_no_file_of_the_right_size() {
    // The file that the generated `main` opens for writing exists already.
    let fifo = hostile("mkfifo(\"later\", 0700);\natexit([] { rename(\"later\", \"out\"); });");
    assert!(
        fifo.message(&scale_case())
            .ends_with("left no answer: it is not a regular file"),
        "{}",
        fifo.message(&scale_case())
    );
    let link = hostile("atexit([] { unlink(\"out\"); (void)!symlink(\"/dev/zero\", \"out\"); });");
    assert!(
        link.message(&scale_case()).contains("left no answer: "),
        "{}",
        link.message(&scale_case())
    );
    let long = hostile(
        "atexit([] { FILE* f = fopen(\"out\", \"a\"); for (int i = 0; i < 9999; ++i) fputc(0, f); fclose(f); });",
    );
    assert!(
        long.message(&scale_case())
            .ends_with("wrote more than its outputs")
    );
    let endless = hostile(
        "atexit([] { FILE* f = fopen(\"out\", \"a\"); while (fputs(\"no end\", f) >= 0) {} });",
    );
    assert!(
        endless.message(&scale_case()).contains("SIGXFSZ"),
        "{}",
        endless.message(&scale_case())
    );
}

#[test]
fn a_program_in_the_cache_that_was_changed_is_made_again() {
    let bench = hostile("");
    let case = scale_case();
    let path = bench.functions().build(&case).unwrap().executable;
    let whole = std::fs::read(&path).unwrap();
    for changed in [&whole[..0], &whole[..whole.len() / 2], b"#!/bin/sh\n"] {
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, changed).unwrap();
        assert_eq!(bench.run(&case).unwrap()["y"], scaled(2.5));
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }
}

#[test]
fn without_a_python_it_is_the_machine() {
    let bench = Bench::new("");
    bench.write("reference.py", "def reference(x): return x\n");
    let mut case = copy_case();
    if let Reference::User { source, .. } = &mut case.reference {
        *source = "reference.py".to_owned();
    }
    for python in [None, Some(PathBuf::from("/nowhere/python3"))] {
        let functions = Functions {
            python,
            ..bench.functions()
        };
        let error = functions.build(&case).unwrap_err();
        assert!(
            matches!(&error, NoAnswer::Environment(why) if why.contains("needs python3 with NumPy")),
            "{error:?}"
        );
    }
}
