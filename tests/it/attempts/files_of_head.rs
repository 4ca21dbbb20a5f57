//! Attempts to have the base built or computed from files of the head. Both sides would come to the same, and a change
//! would be compared with itself.

use crate::common::{edit, fresh_cache, gatekeeper, git, report, run, stderr, stdout};
use model::{BaseReference, Evidence, FaultKind, Seen};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use system::process::confine::Support;

const GATES: &str = r#"version: 1
architectures: [sm_90]
kernels:
  twice:
    source: twice.cu
    entry: twice
    shapes: {small: {N: 64}}
    seeds: 1
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {i32: N}]
    launch: {grid: [1], block: [64]}
    reference: {user: {source: ref.cpp, function: ref, args: [{tensor: x}, {tensor: y}, {i64: N}]}}
    gates: {max_err: 0}
"#;

const KERNEL: &str = "extern \"C\" __global__ void twice(const float* x, float* y, int n) {\n    \
                      const int i = threadIdx.x;\n    if (i < n) y[i] = 2 * x[i];\n}\n";

/// After the lines that say what `FACTOR` is.
const REFERENCE: &str = "extern \"C\" void ref(const float* x, float* y, long long n) {\n    \
                         for (long long i = 0; i < n; ++i) y[i] = FACTOR * x[i];\n}\n";

/// A checkout, and a directory beside it in which `link` leads to the checkout: no flag that goes that way names the
/// checkout.
struct Repo {
    dir: tempfile::TempDir,
    out: tempfile::TempDir,
}

impl Repo {
    /// `factor` is how the reference comes to its factor. Nothing is committed yet.
    fn new(factor: &str) -> Self {
        let repo = Self {
            dir: tempfile::tempdir().unwrap(),
            out: tempfile::tempdir().unwrap(),
        };
        git(repo.path(), &["init", "--quiet"]);
        repo.write(".gitignore", "gatekeeper-out\n.cache\n*.a\n*.gch\n");
        repo.write("gates.yaml", GATES);
        repo.write("twice.cu", KERNEL);
        repo.write("ref.h", "#define FACTOR 2\n");
        symlink(repo.path(), repo.out.path().join("link")).unwrap();
        repo.write("ref.cpp", &format!("{}\n{REFERENCE}", repo.named(factor)));
        repo
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// `HERE` is the checkout, and `OUT` what is beside it.
    fn named(&self, text: &str) -> String {
        let [here, out] = [&self.dir, &self.out].map(|dir| dir.path().canonicalize().unwrap());
        text.replace("HERE", &here.display().to_string())
            .replace("OUT", &out.display().to_string())
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn reference_flags(&self, flags: &str) {
        let flags = format!("function: ref, flags: [{}],", self.named(flags));
        edit(&self.path().join("gates.yaml"), "function: ref,", &flags);
    }

    fn kernel_flags(&self, flags: &str) {
        let flags = format!("entry: twice\n    flags: [{}]\n", self.named(flags));
        edit(&self.path().join("gates.yaml"), "entry: twice\n", &flags);
    }

    fn commit(&self) {
        git(self.path(), &["add", "--all"]);
        git(self.path(), &["commit", "--quiet", "-m", "base"]);
    }

    /// A kernel that is wrong, and a reference that would be wrong along with it.
    fn bend(&self, file: &str) {
        edit(&self.path().join("twice.cu"), "2 * x[i]", "3 * x[i]");
        edit(&self.path().join(file), "2", "3");
    }

    fn compile(&self, program: &str, args: &[&str]) {
        let mut compile = Command::new(program);
        let status = compile.current_dir(self.path()).args(args).status();
        assert!(status.unwrap().success(), "{program} {args:?}");
    }

    /// `factor()`, in an object, an archive or a shared library.
    fn library(&self, factor: u32, file: &str) {
        let text = format!("extern \"C\" int factor() {{ return {factor}; }}\n");
        self.write("f.cpp", &text);
        if file.ends_with(".so") {
            self.compile("g++", &["-shared", "-fPIC", "f.cpp", "-o", file]);
        } else {
            self.compile("g++", &["-c", "f.cpp", "-o", "f.o"]);
            let _ = fs::remove_file(self.path().join(file));
            self.compile("ar", &["rcs", file, "f.o"]);
            fs::remove_file(self.path().join("f.o")).unwrap();
        }
        fs::remove_file(self.path().join("f.cpp")).unwrap();
    }

    /// The output of a run against the last commit, line breaks aside.
    fn run_with(&self, environment: &[(&str, String)], cwd: &Path, code: i32) -> String {
        let mut command = gatekeeper();
        command.current_dir(cwd);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let args = ["run", "--provision", "--device", "sim", "--base", "HEAD"];
        let output = command.args(args).output().unwrap();
        let said = format!("{}{}", stderr(&output), stdout(&output));
        assert_eq!(output.status.code(), Some(code), "{said}");
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn run(&self, code: i32) -> String {
        self.run_with(&[], self.path(), code)
    }

    fn refused(&self, says: &str) {
        let said = self.run(2);
        let says = self.named(says);
        assert!(said.contains(&says), "{says:?} is not in\n{said}");
    }

    fn against_base(&self) -> BaseReference {
        match self.seen_beside() {
            Seen::Got(found) => found,
            other => panic!("{other:?}"),
        }
    }

    fn seen_beside(&self) -> Seen<BaseReference> {
        let record = self.path().join("gatekeeper-out/record.json");
        let record = records::store::read_record(&record).unwrap();
        let found = record.evidence.into_iter().find_map(|piece| match piece {
            Evidence::BaseReference { facts, .. } => Some(facts),
            _ => None,
        });
        found.unwrap()
    }
}

/// Whether this system can keep a compiler from reading what it does not list.
fn hides() -> bool {
    Support::of_this_system().files
}

const OF_BASE: &str =
    "nothing was compared: the reference in ref.cpp of the base reads a file of the head, ";

/// Flags of a reference that reach the checkout by a link next to it. The compiler's list of files read stops them.
#[test]
fn a_reference_whose_flags_reach_head_by_a_link_is_refused() {
    for (factor, flags) in [
        ("", "-include, OUT/link/ref.h"),
        ("", "-imacros, OUT/link/ref.h"),
        ("#include <ref.h>", "-isystem, OUT/link"),
        ("#include <ref.h>", "-I, OUT/./link"),
    ] {
        let repo = Repo::new(factor);
        repo.reference_flags(flags);
        repo.commit();
        repo.bend("ref.h");
        repo.refused(&format!("{OF_BASE}HERE/ref.h"));
    }
}

/// Names in the source that leave the base's worktree. They are stopped by where they lead.
#[test]
fn a_reference_whose_source_leaves_its_tree_is_refused() {
    let up = "../".repeat(24);
    let up = format!("#include \"{up}OUT/link/ref.h\"").replace("/OUT", "OUT");
    for factor in [
        &up,
        "#define NAME <OUT/link/ref.h>\n#include NAME",
        "#if __has_include(\"OUT/link/ref.h\")\n#include \"OUT/link/ref.h\"\n#else\n#define FACTOR 2\n#endif",
    ] {
        let repo = Repo::new(factor);
        repo.commit();
        repo.bend("ref.h");
        repo.refused(&format!("{OF_BASE}HERE/ref.h, by way of "));
    }
}

/// Whether a file is there decides, and nothing of it is read: gcc asks by opening it.
#[test]
fn a_reference_that_asks_whether_a_file_of_head_is_there_is_refused() {
    if !hides() {
        return;
    }
    let repo = Repo::new(
        "#if __has_include(\"OUT/link/three.h\")\n#define FACTOR 3\n#else\n#define FACTOR 2\n#endif",
    );
    repo.commit();
    repo.write("three.h", "");
    edit(&repo.path().join("twice.cu"), "2 * x[i]", "3 * x[i]");
    repo.refused(
        "the reference in ref.cpp of the base is not built without the files of the head: ",
    );
}

/// A link in the commit that leads to another link, and that one into the checkout: all are followed.
#[test]
fn a_header_that_is_a_link_to_a_link_into_head_is_refused() {
    let repo = Repo::new("#include \"own.h\"");
    symlink(repo.path().join("ref.h"), repo.out.path().join("hop.h")).unwrap();
    symlink(repo.out.path().join("hop.h"), repo.path().join("own.h")).unwrap();
    repo.commit();
    repo.bend("ref.h");
    repo.refused(&format!("{OF_BASE}HERE/ref.h, by way of "));
}

/// A second name of the same file is no link that could be followed: what it is stops it.
#[test]
fn a_hard_link_to_a_file_of_head_is_refused() {
    let repo = Repo::new("#include \"OUT/hard.h\"");
    repo.commit();
    fs::hard_link(repo.path().join("ref.h"), repo.out.path().join("hard.h")).unwrap();
    repo.bend("ref.h");
    repo.refused(&format!("{OF_BASE}OUT/hard.h"));
}

/// A precompiled header in the checkout in the place of the header beside it.
#[test]
fn a_precompiled_header_of_head_is_refused() {
    let repo = Repo::new("");
    repo.reference_flags("-include, OUT/link/pre.h");
    repo.write("pre.h", "#define FACTOR 2\n");
    repo.commit();
    repo.bend("pre.h");
    let flags = ["-O2", "-ffp-contract=off", "-x", "c++-header"];
    repo.compile("g++", &[&flags[..], &["pre.h", "-o", "pre.h.gch"]].concat());
    repo.run(2);
}

/// Archives and shared libraries of the checkout. The linker's map and the loader's list stop them.
#[test]
fn a_library_of_head_in_the_bases_reference_is_refused() {
    let factor = "extern \"C\" int factor();\n#define FACTOR factor()";
    let archive = Repo::new(factor);
    archive.reference_flags("OUT/link/libf.a");
    archive.library(2, "libf.a");
    archive.commit();
    edit(&archive.path().join("twice.cu"), "2 * x[i]", "3 * x[i]");
    archive.library(3, "libf.a");
    archive.refused(&format!("{OF_BASE}HERE/libf.a, by way of OUT/link/libf.a"));

    // It is linked with its own, and would load the head's: by its own wish.
    let own = Repo::new(factor);
    own.reference_flags("-Llib, -lf, \"-Wl,-rpath,OUT/link/lib\"");
    let environment = Repo::new(factor);
    environment.reference_flags("-Llib, -lf");
    for repo in [&own, &environment] {
        fs::create_dir(repo.path().join("lib")).unwrap();
        repo.library(2, "lib/libf.so");
        repo.commit();
        edit(&repo.path().join("twice.cu"), "2 * x[i]", "3 * x[i]");
        repo.library(3, "lib/libf.so");
    }
    own.refused(&format!("{OF_BASE}HERE/lib/libf.so"));
    // It would find the head's by the environment's.
    let library_path = ("LD_LIBRARY_PATH", environment.named("HERE/lib"));
    environment.run_with(&[library_path], environment.path(), 2);
}

/// No list names the files that the assembler takes in: the base's compiler cannot read the checkout at all.
#[test]
fn a_file_of_head_that_no_list_has_is_refused() {
    if !hides() {
        return;
    }
    let repo = Repo::new(
        "asm(\".pushsection .rodata\\nfactor_text: .incbin \\\"OUT/link/factor\\\"\\n.popsection\");\n\
         extern \"C\" const char factor_text[];\n#define FACTOR (factor_text[0] - '0')",
    );
    repo.write("factor", "2\n");
    repo.commit();
    repo.bend("factor");
    repo.refused(
        "the reference in ref.cpp of the base is not built without the files of the head: ",
    );
}

/// A file that the reference opens as it runs, and a library that it loads then: neither side's finds them, whatever an
/// earlier run without a base has in the cache, and the wrong kernel is held against what it computes without.
#[test]
fn a_file_of_head_that_a_reference_opens_as_it_runs_is_not_there() {
    if !hides() {
        return;
    }
    let by_file = "#include <cstdio>\nstatic int factor() {\n    int it = 2;\n    \
                   if (FILE* file = fopen(\"HERE/factor\", \"r\")) { if (fscanf(file, \"%d\", &it) != 1) it = 0; fclose(file); }\n    \
                   return it;\n}\n#define FACTOR factor()";
    let by_library = "#include <dlfcn.h>\nstatic int factor() {\n    void* it = dlopen(\"HERE/libf.so\", RTLD_NOW);\n    \
                      return it ? ((int (*)())dlsym(it, \"factor\"))() : 2;\n}\n#define FACTOR factor()";
    for reads in [by_file, by_library] {
        let repo = Repo::new(reads);
        repo.reference_flags("-ldl");
        repo.write("factor", "2\n");
        repo.library(2, "libf.so");
        repo.commit();
        repo.bend("factor");
        repo.library(3, "libf.so");
        run(repo.path(), &["run", "--provision", "--device", "sim"], 0);
        let said = repo.run(1);
        assert!(said.contains("✗ twice/default@small max_err"), "{said}");
    }
}

/// Flags of a kernel that reach the checkout by a link; macros alone leave no trace in what is preprocessed.
#[test]
fn a_kernel_whose_flags_reach_head_by_a_link_is_refused() {
    for (flags, line) in [
        ("-Xcompiler, \"-imacros,OUT/link/k.h\"", ""),
        ("-isystem, OUT/link", "#include <k.h>\n"),
        ("-include, OUT/link/k.h", ""),
    ] {
        let repo = Repo::new("#include \"ref.h\"");
        let kernel = KERNEL.replace("2 *", "K *");
        repo.write("twice.cu", &format!("{line}{kernel}"));
        repo.write("k.h", "#define K 2\n");
        repo.kernel_flags(flags);
        repo.commit();
        repo.write("k.h", "#define K (1 + 1)\n");
        repo.refused("twice/default [sm_90] of the base reads a file of the head, HERE/k.h");
    }
}

/// The base's run also finds what head's run put into the build cache: each entry names the files it was made of.
#[test]
fn a_kernel_from_the_cache_that_was_made_of_head_is_refused() {
    let repo = Repo::new("#include \"ref.h\"");
    let kernel = KERNEL.replace("2 *", "K *");
    repo.write(
        "twice.cu",
        &repo.named(&format!("#include \"HERE/k.h\"\n{kernel}")),
    );
    repo.write("k.h", "#define K 2\n");
    repo.commit();
    run(repo.path(), &["run", "--provision", "--device", "sim"], 0);
    for _ in 0..2 {
        repo.refused("twice/default [sm_90] of the base reads a file of the head, HERE/k.h");
    }
    // Nor does it count as unchanged.
    let args = ["run", "--provision", "--device", "sim", "--changed", "HEAD"];
    let said = stdout(&run(repo.path(), &args, 0));
    assert!(said.contains("twice/default@small"), "{said}");
}

/// A launcher that is linked with its own library and would load the head's. The loader's list stops it, without a GPU.
#[test]
fn a_launcher_that_loads_a_library_of_head_is_refused() {
    let repo = Repo::new("#include \"ref.h\"");
    let kernel = KERNEL.replace("2 *", "factor *");
    let kernel = kernel.replace("int n)", "int n, int factor)");
    let launcher = "extern \"C\" int factor();\n\
                    extern \"C\" void launch(const float* x, float* y, int n, cudaStream_t stream) {\n    \
                    twice<<<1, 64, 0, stream>>>(x, y, n, factor());\n}\n";
    repo.write("twice.cu", &format!("{kernel}{launcher}"));
    let gates = repo.path().join("gates.yaml");
    edit(
        &gates,
        "entry: twice\n",
        "launcher: {function: launch, launches: [{entry: twice}]}\n",
    );
    edit(&gates, "{i32: N}]\n", "{i32: N}, stream]\n");
    edit(&gates, "    launch: {grid: [1], block: [64]}\n", "");
    let flags = "    shapes:";
    let link = "    flags: [-Llib, -lf, -Xlinker, -rpath, -Xlinker, OUT/link/lib]\n    shapes:";
    edit(&gates, flags, &repo.named(link));
    fs::create_dir(repo.path().join("lib")).unwrap();
    repo.library(2, "lib/libf.so");
    repo.commit();
    repo.refused("twice/default [sm_90] of the base reads a file of the head, HERE/lib/libf.so");
}

/// PTX that is a link into the checkout.
#[test]
fn ptx_of_head_is_refused() {
    let repo = Repo::new("#include \"ref.h\"");
    let ptx = "\
.version 8.0
.target sm_90
.address_size 64
.visible .entry twice(.param .u64 twice_param_0, .param .u64 twice_param_1, .param .u32 twice_param_2)
{
    .reg .b64 %rd<6>;
    .reg .b32 %r<4>;
    .reg .f32 %f<3>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [twice_param_0];
    ld.param.u64 %rd2, [twice_param_1];
    ld.param.u32 %r1, [twice_param_2];
    mov.u32 %r2, %tid.x;
    setp.ge.s32 %p1, %r2, %r1;
    @%p1 bra $done;
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mul.wide.s32 %rd3, %r2, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd5], %f2;
$done:
    ret;
}
";
    repo.write("real.ptx", ptx);
    symlink(repo.path().join("real.ptx"), repo.path().join("twice.ptx")).unwrap();
    edit(&repo.path().join("gates.yaml"), "twice.cu", "twice.ptx");
    repo.commit();
    repo.write("real.ptx", &format!("// {}\n{ptx}", repo.path().display()));
    repo.refused("twice/default [sm_90] of the base reads a file of the head, HERE/real.ptx");
}

/// From the other side: head is built of the base's worktree, and would be as the base is on this machine alone.
#[test]
fn a_head_that_is_built_of_the_bases_worktree_is_refused() {
    let repo = Repo::new("#include \"ref.h\"");
    repo.commit();
    repo.run(0);
    let mut head = Command::new("git");
    head.current_dir(repo.path()).args(["rev-parse", "HEAD"]);
    let commit = String::from_utf8(head.output().unwrap().stdout).unwrap();
    let trees = system::cache::Cache::open().unwrap().dir("trees").unwrap();
    let places = fs::read_dir(trees).unwrap().map(|dir| dir.unwrap().path());
    let mut places = places.map(|place| place.join(commit.trim()));
    let tree: PathBuf = places.find(|place| place.is_dir()).unwrap();
    let line = format!("#include \"{}/ref.h\"", tree.display());
    edit(&repo.path().join("ref.cpp"), "#include \"ref.h\"", &line);
    repo.refused(&format!(
        "the reference in ref.cpp of the head reads a file of the base, {}/ref.h",
        tree.display()
    ));
}

/// A header of neither tree that never stays as it is: nobody knows what either side read.
#[test]
fn a_file_of_neither_tree_that_changes_meanwhile_is_refused() {
    let repo = Repo::new("#include \"OUT/own/factor.h\"");
    let own = repo.out.path().join("own");
    fs::create_dir(&own).unwrap();
    let write = |count: usize| {
        fs::write(own.join("new"), format!("#define FACTOR 2 // {count}\n")).unwrap();
        fs::rename(own.join("new"), own.join("factor.h")).unwrap();
    };
    write(0);
    repo.commit();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                count += 1;
                write(count);
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
        });
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| repo.run(2)));
        done.store(true, Ordering::Relaxed);
        let says =
            repo.named("OUT/own/factor.h was not the same when head and when the base read it");
        assert!(said.unwrap().contains(&says));
    });
    // And when it rests.
    repo.run(0);
}

/// Honest: a header of neither tree, headers of the system by their whole path, a definition that names the checkout,
/// directories in the tree, and variables that no compiler gets. Started from a path that is a link.
#[test]
fn shared_headers_outside_both_trees_stay_green() {
    let repo = Repo::new(
        "#include <cstdint>\n#include \"/usr/include/stdio.h\"\n#include <factor.h>\n#include <own.h>",
    );
    fs::write(repo.out.path().join("factor.h"), "#define FACTOR 2\n").unwrap();
    repo.write("inc/own.h", "#define OWN 1\n");
    repo.write("poison/cstdint", "#error of the environment\n");
    symlink("inc", repo.path().join("headers")).unwrap();
    repo.reference_flags("-IOUT, -Iheaders, '-DROOT=\"HERE\"'");
    let include_dirs =
        "entry: twice\n    include_dirs: [headers, inc]\n    define: {ROOT: \"HERE\"}\n";
    let include_dirs = repo.named(include_dirs);
    edit(
        &repo.path().join("gates.yaml"),
        "entry: twice\n",
        &include_dirs,
    );
    repo.write(
        "twice.cu",
        &format!("#include <cstdint>\n#include <own.h>\n{KERNEL}"),
    );
    repo.commit();
    edit(&repo.path().join("twice.cu"), "if (i < n)", "if (n > i)");
    let poison = |name| (name, repo.named("HERE/poison"));
    let environment = [
        "CPATH",
        "CPLUS_INCLUDE_PATH",
        "LIBRARY_PATH",
        "COMPILER_PATH",
    ]
    .map(poison);
    let from = repo.out.path().join("link");
    repo.run_with(&environment, &from, 0);
    // The same checkout, and the link does not hide what is wrong.
    edit(
        &repo.path().join("ref.cpp"),
        "<own.h>",
        &repo.named("\"HERE/inc/own.h\""),
    );
    repo.commit();
    let said = repo.run_with(&environment, &from, 2);
    assert!(
        said.contains(&repo.named(&format!("{OF_BASE}HERE/inc/own.h"))),
        "{said}"
    );
}

/// Honest: the cache is in the checkout, and with it the base's worktree, the compiler and all that is written.
#[test]
fn a_cache_in_the_checkout_stays_green() {
    let repo = Repo::new("#include \"ref.h\"");
    repo.commit();
    let toolchains = fresh_cache("gatekeeper-inside-");
    let cache = repo.path().join(".cache/gatekeeper");
    fs::create_dir_all(&cache).unwrap();
    fs::rename(
        toolchains.path().join("toolchains"),
        cache.join("toolchains"),
    )
    .unwrap();
    let environment = [
        ("GATEKEEPER_CACHE", cache.display().to_string()),
        ("TMPDIR", repo.path().join(".cache").display().to_string()),
    ];
    edit(&repo.path().join("twice.cu"), "if (i < n)", "if (n > i)");
    repo.run_with(&environment, repo.path(), 0);
    // The base's own tree is meant, not all that is beside it.
    edit(
        &repo.path().join("ref.cpp"),
        "\"ref.h\"",
        &repo.named("\"HERE/ref.h\""),
    );
    repo.commit();
    repo.run_with(&environment, repo.path(), 2);
}

/// Unlucky: a header that git ignores, as a generator writes it, and a directory next to the checkout. The base's
/// worktree has neither, and the compiler's message on that is kept.
#[test]
fn a_reference_that_does_not_build_in_the_bases_worktree_is_told() {
    for (factor, flags) in [
        ("#include \"made.h\"", None),
        ("#include <made.h>", Some("-I.cache/../../NEXT")),
    ] {
        let repo = Repo::new(factor);
        fs::create_dir_all(repo.path().join(".cache")).unwrap();
        match flags {
            None => {
                repo.write(".gitignore", "gatekeeper-out\nmade.h\n.cache\n");
                repo.write("made.h", "#define FACTOR 2\n");
            }
            Some(flags) => {
                let next = repo.out.path().file_name().unwrap();
                repo.reference_flags(&flags.replace("NEXT", &next.to_string_lossy()));
                repo.write(".cache/kept", "");
                git(repo.path(), &["add", "--force", ".cache/kept"]);
                fs::write(repo.out.path().join("made.h"), "#define FACTOR 2\n").unwrap();
            }
        }
        repo.commit();
        repo.run(3);
        assert!(report(repo.path()).contains("\"base-reference-broken\""));
        match repo.against_base() {
            BaseReference::Broken { message } => {
                assert!(message.contains("made.h: No such file"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Unlucky: the base's reference takes longer than the deadline that head gives its own, or longer than the base's on a
/// slow machine. It has the base's, and late is not wrong.
#[test]
fn the_bases_reference_has_the_bases_deadline() {
    // A program that no earlier run has an answer of.
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    let slow = format!(
        "#include <unistd.h>\n#define FACTOR (i == 0 ? (usleep(1500000 + {}), 2) : 2)",
        now.subsec_micros() % 100_000
    );
    let slow = slow.as_str();
    let deadline = |repo: &Repo, old: &str, new: &str| {
        edit(&repo.path().join("gates.yaml"), old, new);
    };
    let repo = Repo::new(slow);
    deadline(&repo, "    seeds: 1\n", "    seeds: 1\n    deadline: 60s\n");
    repo.commit();
    repo.write("ref.cpp", &format!("#define FACTOR 2\n{REFERENCE}"));
    deadline(&repo, "60s", "1s");
    repo.run(0);
    match repo.against_base() {
        // One seed of gates.yaml, and the drawn one.
        BaseReference::Compared(found) => assert_eq!((found.elements, found.differing), (128, 0)),
        other => panic!("{other:?}"),
    }

    // The base's deadline is the shorter one.
    let repo = Repo::new(&slow.replace("usleep(1", "usleep(2"));
    deadline(&repo, "    seeds: 1\n", "    seeds: 1\n    deadline: 1s\n");
    repo.commit();
    repo.write("ref.cpp", &format!("#define FACTOR 2\n{REFERENCE}"));
    repo.run(3);
    assert!(report(repo.path()).contains("\"base-reference-late\""));
    match repo.seen_beside() {
        Seen::Fault(fault) => {
            assert_eq!(fault.kind, FaultKind::Hang);
            assert!(
                fault.message.contains("within 1000 ms"),
                "{}",
                fault.message
            );
        }
        other => panic!("{other:?}"),
    }
}
