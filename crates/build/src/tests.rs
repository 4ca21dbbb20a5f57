//! Compiles small sources with the real nvcc. Only tests that count the compiler's calls replace it.

use super::*;
use crate::toolchain::testing;
use model::{CType, FaultKind, FaultSite, LaunchedEntry, Resources, ScalarType, UnitId};
use std::collections::BTreeMap;

pub(super) struct Bench {
    pub root: tempfile::TempDir,
    pub cache: Cache,
    _cache_dir: tempfile::TempDir,
}

/// The parts of the toolkit's `cuda_runtime.h` that most kernels here need. nvcc includes a file of that name before
/// each source, and finds this one first because it searches the directory in which it runs. The toolkit's own file
/// takes three quarters of nvcc's time.
const RUNTIME: &str = include_str!("tests/cuda_runtime.h");

impl Bench {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let bench = Self::with_toolkit(files);
        bench.write("cuda_runtime.h", RUNTIME);
        bench
    }

    /// Makes a bench with the toolkit's own `cuda_runtime.h`, which host code needs.
    pub fn with_toolkit(files: &[(&str, &str)]) -> Self {
        let cache_dir = tempfile::tempdir().unwrap();
        let bench = Self {
            root: tempfile::tempdir().unwrap(),
            cache: Cache::at(cache_dir.path()).unwrap(),
            _cache_dir: cache_dir,
        };
        for (name, text) in files {
            bench.write(name, text);
        }
        bench
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn build_with(&self, toolchain: &Toolchain, units: &[Unit]) -> Vec<Built> {
        self.build_jobs(toolchain, units, 2)
    }

    pub fn build_jobs(&self, toolchain: &Toolchain, units: &[Unit], jobs: usize) -> Vec<Built> {
        let building = Building {
            jobs,
            ..Building::new(self.root.path(), toolchain, &self.cache)
        };
        build_all(building, units, &|_, _| {}).unwrap()
    }

    pub fn build(&self, units: &[Unit]) -> Vec<Built> {
        self.build_with(&testing::toolchain(), units)
    }

    pub fn one(&self, unit: &Unit) -> Built {
        self.build(std::slice::from_ref(unit)).remove(0)
    }
}

pub(super) fn unit(source: &str, arch: &str, call: Callable) -> Unit {
    Unit {
        id: UnitId::new("k", "base", arch.parse().unwrap()),
        source: source.into(),
        include_dirs: Vec::new(),
        defines: BTreeMap::new(),
        flags: Vec::new(),
        call,
    }
}

pub(super) fn entry(source: &str, name: &str) -> Unit {
    entry_for("sm_90", source, name)
}

fn entry_for(arch: &str, source: &str, name: &str) -> Unit {
    unit(source, arch, entries(name))
}

fn entries(name: &str) -> Callable {
    Callable::Entries {
        names: vec![name.into()],
        constants: Vec::new(),
    }
}

/// Returns the cubin of a unit, and its PTX if it was compiled.
pub(super) fn files(built: &Built) -> (&Path, Option<&Path>) {
    match &built.artifact {
        Some(Artifact::Cubin { path, ptx, .. }) => (path, ptx.as_deref()),
        other => panic!("{other:?}"),
    }
}

pub(super) fn got(built: &Built) -> &BuildFacts {
    built
        .facts
        .got()
        .unwrap_or_else(|| panic!("{:?}", built.facts))
}

fn fault(built: &Built) -> (FaultKind, String) {
    match &built.facts {
        Seen::Fault(fault) => (fault.kind, fault.message.clone()),
        other => panic!("no fault: {other:?}"),
    }
}

const NAMES: &str = include_str!("tests/names.cu");

#[test]
fn every_kind_of_name_resolves() {
    let bench = Bench::with_toolkit(&[("src/names.cu", NAMES)]);
    let names = [
        ("plain", "plain"),
        ("ns::inside", "_ZN2ns6insideEPi"),
        ("_ZN2ns6insideEPi", "_ZN2ns6insideEPi"),
        ("fill<float, 4>", "_Z4fillIfLi4EEvPT_"),
        ("fill<double,2*TWO>", "_Z4fillIdLi4EEvPT_"),
        ("ns::twice<3>", "_ZN2ns5twiceILi3ELi4EEEvPf"),
        // An alias and a macro, as the source would write them.
        (
            "ns::norm<ns::half, TWO>",
            "_ZN2ns4normINS_4HalfELi2EEEvPT_PKS2_",
        ),
        ("over(double*)", "_Z4overPd"),
        ("local", "_Z5localPi"),
    ];
    let units: Vec<Unit> = names
        .iter()
        .map(|(name, _)| Unit {
            defines: [("TWO".to_owned(), "2".to_owned())].into(),
            ..entry("src/names.cu", name)
        })
        .collect();
    for (built, (name, symbol)) in bench.build(&units).iter().zip(names) {
        let facts = got(built);
        assert_eq!(facts.entries[0].name, name);
        assert_eq!(facts.entries[0].symbol, symbol);
        assert!(facts.entries[0].resources.as_ref().unwrap().registers > 0);
        let Some(Artifact::Cubin {
            path,
            entries,
            ptx: Some(ptx),
            ..
        }) = &built.artifact
        else {
            panic!("{name}: {:?}", built.artifact);
        };
        let entry = (name.to_string(), symbol.to_string());
        assert!(path.is_file() && *entries == [entry], "{name}");
        // The simulator finds the entry, and says places as a reader of the repository does.
        let ptx = std::fs::read_to_string(ptx).unwrap();
        assert!(ptx.contains(&format!(".entry {symbol}(")), "{name}");
        assert!(ptx.contains("\"src/names.cu\""), "{name}");
        assert!(!ptx.contains(&bench.root.path().display().to_string()));
    }
    let hidden = bench.one(&entry("src/names.cu", "ns::hidden"));
    assert!(got(&hidden).entries[0].symbol.contains("hidden"));
}

#[test]
fn a_name_that_fits_several_entries_or_none() {
    let bench = Bench::with_toolkit(&[("src/names.cu", NAMES)]);
    let units =
        ["over", "ns::insidd", "fill<flaot, 4>", "fill"].map(|name| entry("src/names.cu", name));
    let built = bench.build(&units);
    let (kind, message) = fault(&built[0]);
    assert_eq!(kind, FaultKind::EntryNotFound);
    insta::assert_snapshot!(message, @"entry `over` of src/names.cu: the name is ambiguous; write one of `over(double*)` [_Z4overPd], `over(float*)` [_Z4overPf]");
    let (kind, message) = fault(&built[1]);
    assert_eq!(kind, FaultKind::EntryNotFound);
    assert!(
        message.contains("no such entry; there are `ns::inside(int*)` [_ZN2ns6insideEPi]"),
        "{message}"
    );
    // Instantiation is the compiler's business, and so is the message.
    let (kind, message) = fault(&built[2]);
    assert_eq!(kind, FaultKind::Compile);
    insta::assert_snapshot!(message);
    let (kind, message) = fault(&built[3]);
    assert_eq!(kind, FaultKind::EntryNotFound, "{message}");
}

#[test]
fn a_compiler_error_is_the_compilers_own_words() {
    let bench = Bench::with_toolkit(&[
        (
            "src/bad.cu",
            "__global__ void k(int* p) {\n  *p = undefined_name;\n}\n",
        ),
        ("src/include.cu", "#include \"nowhere.h\"\n"),
        (
            "src/toolkit.cu",
            "#define __half 5\n#include <cuda_fp16.h>\n",
        ),
        (
            "src/ptx.cu",
            "__global__ void k(int* p) { asm(\"foo.bar;\"); }\n",
        ),
    ]);
    let variant = |value: &str| Unit {
        defines: [("V".to_owned(), value.to_owned())].into(),
        ..entry("src/bad.cu", "k")
    };
    let units = [
        variant("1"),
        variant("2"),
        entry("src/include.cu", "k"),
        entry("src/ptx.cu", "k"),
        entry("src/missing.cu", "k"),
        entry("src/toolkit.cu", "k"),
    ];
    let built = bench.build(&units);
    assert_eq!(
        built
            .iter()
            .map(|built| match &built.facts {
                Seen::Fault(fault) => fault.site.as_deref().and_then(FaultSite::line),
                other => panic!("{other:?}"),
            })
            .map(|line| line.map(|line| (line.file.as_str(), line.number)))
            .collect::<Vec<_>>(),
        [
            Some(("src/bad.cu", 2)),
            Some(("src/bad.cu", 2)),
            Some(("src/include.cu", 1)),
            // The line is one of PTX that nvcc made.
            None,
            None,
            // Here the call is in a header of the toolkit.
            None,
        ]
    );
    let faults: Vec<_> = built.iter().map(fault).collect();
    assert!(faults.iter().all(|(kind, _)| *kind == FaultKind::Compile));
    insta::assert_snapshot!(faults[0].1);
    assert_eq!(faults[0].1, faults[1].1);
    insta::assert_snapshot!(faults[2].1);
    insta::assert_snapshot!(faults[3].1);
    insta::assert_snapshot!(faults[4].1);
    // The message does not say where this machine keeps its toolkit.
    let toolkit = &faults[5].1;
    assert!(
        toolkit.starts_with("cuda/include/cuda_fp16.h("),
        "{toolkit}"
    );
}

#[test]
fn relocatable_code_is_refused() {
    let bench = Bench::new(&[(
        "k.cu",
        "extern \"C\" __global__ void k(int* o) { *o = 1; }\n",
    )]);
    let built = bench.one(&Unit {
        flags: vec!["-rdc=true".into()],
        ..entry("k.cu", "k")
    });
    let (kind, message) = fault(&built);
    assert_eq!(kind, FaultKind::Compile);
    assert!(message.contains("-rdc=true"), "{message}");
}

#[test]
fn reports_ptxas_values_for_each_architecture() {
    let source = r#"
        extern "C" __global__ void k(float* o, int n) {
            __shared__ float tile[256];
            float local[32];
            for (int i = 0; i < 32; ++i) local[i] = o[i];
            for (int i = 0; i < n; ++i) local[(i * n) & 31] += local[(i + n) & 31];
            tile[threadIdx.x] = local[n & 31];
            __syncthreads();
            o[threadIdx.x] = tile[255 - threadIdx.x];
            int unused;
        }"#;
    let bench = Bench::new(&[("k.cu", source)]);
    let units: Vec<Unit> = ["sm_80", "sm_89", "sm_90", "sm_90a", "sm_120"]
        .iter()
        .map(|arch| entry_for(arch, "k.cu", "k"))
        .collect();
    for built in bench.build(&units) {
        let facts = got(&built);
        let resources = facts.entries[0].resources.as_ref().unwrap();
        assert!(resources.registers > 8, "{resources:?}");
        assert_eq!(resources.stack, Some(128));
        assert_eq!(
            (resources.spill_stores, resources.spill_loads),
            (Some(0), Some(0))
        );
        assert_eq!(resources.static_shared, 1024);
        assert_eq!(resources.barriers, 1);
        assert_eq!(resources.cumulative_stack, Some(128));
        assert_eq!(facts.warnings.len(), 1, "{:?}", facts.warnings);
        assert!(facts.warnings[0].contains("\"unused\" was declared but never referenced"));
    }
}

/// Entries with everything that a cubin says, or does not.
const TAKES: &str = include_str!("tests/takes.cu");

/// This is why the other tests here may use the short header.
#[test]
fn the_toolkits_header_adds_nothing_to_a_kernel() {
    let build = |bench: Bench| {
        let units = ["plain", "shares", "frames", "barriers"].map(|name| entry("k.cu", name));
        let built = bench.build(&units);
        built
            .iter()
            .map(|built| BuildFacts {
                artifact: String::new(),
                ..got(built).clone()
            })
            .collect::<Vec<_>>()
    };
    let files = [("k.cu", TAKES)];
    assert_eq!(
        build(Bench::new(&files)),
        build(Bench::with_toolkit(&files))
    );
}

#[test]
fn a_cubin_holds_the_values_that_ptxas_reported() {
    let bench = Bench::new(&[("k.cu", TAKES)]);
    let names = ["plain", "shares", "frames", "barriers"];
    let arches = ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"];
    let units = |source: &str| -> Vec<Unit> {
        let of_arch = |arch: &&str| {
            let source = source.replace("ARCH", arch);
            names
                .iter()
                .map(move |name| entry_for(arch, &source, name))
                .collect::<Vec<_>>()
        };
        arches.iter().flat_map(of_arch).collect()
    };
    let compiled = bench.build(&units("k.cu"));
    for (built, arch) in compiled.iter().step_by(names.len()).zip(arches) {
        std::fs::copy(
            files(built).0,
            bench.root.path().join(format!("{arch}.cubin")),
        )
        .unwrap();
    }
    for (read, compiled) in bench.build(&units("ARCH.cubin")).iter().zip(&compiled) {
        let (ours, theirs) = (got(read), got(compiled));
        let is_framed = theirs.entries[0].name == "frames";
        let wanted = Resources {
            spill_stores: (!is_framed).then_some(0),
            spill_loads: (!is_framed).then_some(0),
            cumulative_stack: None,
            constant_banks: BTreeMap::new(),
            code: None,
            local_accesses: None,
            ..theirs.entries[0].resources.clone().unwrap()
        };
        assert_eq!(
            ours.entries[0].resources,
            Some(wanted),
            "{}",
            theirs.entries[0].name
        );
        assert_eq!((&ours.identity, &ours.ptx), (&theirs.identity, &None));
    }
}

#[test]
fn a_cubin_that_calls_or_is_for_another_chip() {
    let bench = Bench::new(&[("k.cu", TAKES), ("text.cubin", "no ELF")]);
    let compiled = bench.one(&Unit {
        defines: [("DEEP".to_owned(), "1".to_owned())].into(),
        ..entry("k.cu", "recurses")
    });
    assert!(got(&compiled).entries[0].resources.as_ref().unwrap().stack > Some(0));
    std::fs::copy(files(&compiled).0, bench.root.path().join("k.cubin")).unwrap();
    let read = bench.one(&entry("k.cubin", "recurses"));
    let resources = got(&read).entries[0].resources.as_ref().unwrap();
    assert_eq!((resources.stack, resources.spill_loads), (None, None));
    let said =
        |source: &str, arch: &str, name: &str| fault(&bench.one(&entry_for(arch, source, name))).1;
    insta::assert_snapshot!(said("k.cubin", "sm_80", "recurses"), @"k.cubin is for sm_90, and gates.yaml asks for sm_80");
    insta::assert_snapshot!(said("k.cubin", "sm_90", "recurse"), @"entry `recurse` of k.cubin: no such entry; there are `recurses`, `barriers`, `frames`, `shares`, `plain`");
    let unreadable = said("text.cubin", "sm_90", "k");
    assert!(
        unreadable.starts_with("the cubin cannot be read: "),
        "{unreadable}"
    );
}

#[test]
fn ptx_and_headers_are_sources() {
    let text = "template <int N> __global__ void add(int* o) { *o += N; }\n\
                extern \"C\" __global__ void plain(int* o) { *o = 1; }\n";
    let bench = Bench::new(&[("k.cu", text), ("k.cuh", &format!("#pragma once\n{text}"))]);
    let compiled = bench.build(&[entry("k.cu", "add<3>"), entry("k.cu", "plain")]);
    let headers = bench.build(&[entry("k.cuh", "add<3>"), entry("k.cuh", "plain")]);
    for (header, source) in headers.iter().zip(&compiled) {
        assert_eq!(got(header).identity, got(source).identity);
        assert_eq!(got(header).warnings, [""; 0]);
    }
    for (built, name) in compiled.iter().zip(["add<3>", "plain"]) {
        std::fs::copy(files(built).1.unwrap(), bench.root.path().join("k.ptx")).unwrap();
        let assembled = bench.one(&entry("k.ptx", name));
        let (ours, theirs) = (got(&assembled), got(built));
        assert_eq!(ours.entries, theirs.entries);
        assert_eq!((&ours.identity, &ours.ptx), (&theirs.identity, &theirs.ptx));
        assert!(bench.one(&entry("k.ptx", name)).cached);
    }
    bench.write("k.ptx", "no PTX\n");
    let (kind, message) = fault(&bench.one(&entry("k.ptx", "plain")));
    assert_eq!(kind, FaultKind::Compile);
    insta::assert_snapshot!(message);
}

#[test]
fn definitions_with_commas_and_paths_of_the_tree() {
    let source = r#"
        #include "shared.h"
        extern "C" __global__ void k(int* o) { const int list[] = LIST; *o = list[1] + SHARED; }
        extern "C" __global__ void file(char* o) { const char* f = __FILE__; for (int i = 0; f[i]; ++i) o[i] = f[i]; }
    "#;
    let bench = Bench::new(&[("a/k.cu", source), ("b c/shared.h", "#define SHARED 1\n")]);
    let unit = Unit {
        defines: [("LIST".to_owned(), "{1, 2}".to_owned())].into(),
        include_dirs: vec!["b c".into()],
        ..entry("a/k.cu", "k")
    };
    let built = bench.one(&unit);
    got(&built);
    let again = bench.one(&unit);
    assert!(again.cached);
    assert_eq!(again.facts, built.facts);
    bench.write("b c/shared.h", "#define SHARED 2\n");
    assert!(!bench.one(&unit).cached);
}

const LAUNCHER: &str = include_str!("tests/launcher.cu");

fn launcher(result: &str, back: &str, signature: &[CType]) -> Unit {
    Unit {
        defines: [
            ("RESULT".to_owned(), result.to_owned()),
            ("RETURN".to_owned(), back.to_owned()),
        ]
        .into(),
        ..unit(
            "l.cu",
            "sm_90",
            Callable::Launcher {
                function: "launch".into(),
                signature: signature.to_vec(),
                launches: vec![LaunchedEntry {
                    name: "add<2>".into(),
                    dynamic_shared: 128,
                }],
            },
        )
    }
}

const SIGNATURE: [CType; 5] = [
    CType::Pointer,
    CType::Pointer,
    CType::Scalar(ScalarType::U16),
    CType::Scalar(ScalarType::F64),
    CType::Stream,
];

#[test]
fn a_launcher_becomes_a_library_with_its_entries() {
    let bench = Bench::with_toolkit(&[("l.cu", LAUNCHER)]);
    let units = [
        launcher("int", "return 7", &SIGNATURE),
        launcher("void", "", &SIGNATURE),
        launcher("cudaError_t", "return cudaGetLastError()", &SIGNATURE),
    ];
    for built in bench.build(&units) {
        let facts = got(&built);
        assert_eq!(facts.entries.len(), 1);
        assert_eq!(facts.entries[0].symbol, "_Z3addILi2EEvPKfPfi");
        let Some(Artifact::Launcher {
            library,
            function,
            entries,
        }) = &built.artifact
        else {
            panic!("{:?}", built.artifact);
        };
        assert_eq!(
            entries,
            &[("add<2>".to_owned(), "_Z3addILi2EEvPKfPfi".to_owned())]
        );
        // Loading needs no device; calling does.
        // SAFETY: the library was just built here.
        let library = unsafe { libloading::Library::new(library) }.unwrap();
        // SAFETY: never called.
        unsafe {
            library
                .get::<unsafe extern "C" fn(*mut *mut std::ffi::c_void) -> i32>(function.as_bytes())
        }
        .unwrap();
        assert!(bench.one(&units[0]).cached);
    }
}

#[test]
fn the_shim_passes_arguments_and_results() {
    // This is pure host code, so that it runs here. It receives the arguments as the worker lays them out.
    let source = r#"
        struct Pair { int a; double b; };
        extern "C" int launch(const float* x, unsigned char u, Pair pair, long long big, bool yes, cudaStream_t s) {
            return (x == (const float*)0x1000) + 2 * (u == 200) + 4 * (pair.a == -3 && pair.b == 0.5)
                 + 8 * (big == -5000000000LL) + 16 * yes + 32 * (s == (cudaStream_t)0x2000);
        }
        __global__ void k() {}
    "#;
    let bench = Bench::with_toolkit(&[("l.cu", source)]);
    let unit = unit(
        "l.cu",
        "sm_90",
        Callable::Launcher {
            function: "launch".into(),
            signature: vec![
                CType::Pointer,
                CType::Scalar(ScalarType::U8),
                CType::Struct { size: 16, align: 8 },
                CType::Scalar(ScalarType::I64),
                CType::Scalar(ScalarType::Bool),
                CType::Stream,
            ],
            launches: vec![],
        },
    );
    let built = bench.one(&unit);
    let Some(Artifact::Launcher {
        library, function, ..
    }) = &built.artifact
    else {
        panic!("{built:?}");
    };
    let (mut x, mut u, mut big, mut yes, mut stream) =
        (0x1000usize, 200u8, -5_000_000_000i64, true, 0x2000usize);
    let mut pair = [0u64, 0.5f64.to_bits()];
    pair[0] = u64::from((-3i32) as u32);
    let mut args: [*mut std::ffi::c_void; 6] = [
        (&raw mut x).cast(),
        (&raw mut u).cast(),
        (&raw mut pair).cast(),
        (&raw mut big).cast(),
        (&raw mut yes).cast(),
        (&raw mut stream).cast(),
    ];
    // SAFETY: the library was just built here.
    let library = unsafe { libloading::Library::new(library) }.unwrap();
    // SAFETY: the shim is generated with this signature.
    let call = unsafe {
        library.get::<unsafe extern "C" fn(*mut *mut std::ffi::c_void) -> i32>(function.as_bytes())
    }
    .unwrap();
    // SAFETY: one value for each parameter.
    assert_eq!(unsafe { call(args.as_mut_ptr()) }, 63);
}

#[test]
fn a_signature_that_is_not_the_sources_is_refused() {
    let bench = Bench::with_toolkit(&[("l.cu", LAUNCHER)]);
    let with = |at: usize, ctype: CType| {
        let mut signature = SIGNATURE.to_vec();
        signature[at] = ctype;
        launcher("int", "return 0", &signature)
    };
    let units = [
        with(2, CType::Scalar(ScalarType::I16)),
        with(3, CType::Scalar(ScalarType::F32)),
        with(4, CType::Pointer),
        launcher("int", "return 0", &SIGNATURE[..4]),
        launcher("float", "return 0", &SIGNATURE),
    ];
    let messages: Vec<String> = bench
        .build(&units)
        .iter()
        .map(|built| {
            let (kind, message) = fault(built);
            assert_eq!(kind, FaultKind::Compile, "{message}");
            message.lines().next().unwrap_or_default().to_owned()
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n"));
    let (_, unknown) = fault(&bench.one(&Unit {
        call: Callable::Launcher {
            function: "lunch".into(),
            signature: vec![],
            launches: vec![],
        },
        ..launcher("int", "return 0", &SIGNATURE)
    }));
    insta::assert_snapshot!(unknown);
}

/// Compiles `k.cu` with a compiler that is a script.
fn compile_with(body: &str, deadline: Duration) -> Result<compile::CompileResult> {
    let bench = Bench::new(&[("k.cu", "")]);
    let dir = tempfile::tempdir().unwrap();
    let unit = entry("k.cu", "k");
    let toolchain = Toolchain {
        nvcc: script(dir.path(), body),
        ..testing::toolchain()
    };
    let shop = Workshop {
        root: bench.root.path(),
        toolchain: &toolchain,
        scratch: dir.path(),
        outside: &[],
        hidden: None,
        deadline,
    };
    compile::compile(shop, &[&unit]).map(|mut compiled| compiled.pop().unwrap())
}

#[test]
fn a_hung_compiler_is_a_fault_of_the_unit() {
    let hung = compile_with("sleep 600", Duration::from_millis(300)).unwrap();
    assert!(hung.unwrap_err().message.contains("did not finish"));
}

#[test]
fn a_compiler_that_cannot_work_here_is_no_fault_of_the_unit() {
    let minute = Duration::from_secs(60);
    let too_new = "echo 'In file included from cuda_runtime.h:83,'; echo 'host_config.h:137:2: error: #error -- unsupported GNU version! gcc versions later than 15 are not supported!'; exit 1";
    insta::assert_snapshot!(compile_with(too_new, minute).unwrap_err());
    insta::assert_snapshot!(compile_with("kill -9 $$", minute).unwrap_err());
    insta::assert_snapshot!(compile_with("exit 1", minute).unwrap_err());
}

#[test]
fn a_launcher_without_a_runtime_to_link_is_no_fault_of_the_launcher() {
    let refuse = |library_dir: Option<PathBuf>| {
        let bench = Bench::new(&[("l.cu", "")]);
        let dir = tempfile::tempdir().unwrap();
        let body =
            "echo '/usr/bin/ld: cannot find -lcudart_static: No such file or directory'; exit 1";
        let toolchain = Toolchain {
            nvcc: script(dir.path(), body),
            library_dir,
            ..testing::toolchain()
        };
        let shop = Workshop {
            root: bench.root.path(),
            toolchain: &toolchain,
            scratch: dir.path(),
            outside: &[],
            hidden: None,
            deadline: Duration::from_secs(60),
        };
        let unit = launcher("void", "", &SIGNATURE);
        compile::compile(shop, &[&unit]).map(|mut compiled| compiled.pop().unwrap())
    };
    insta::assert_snapshot!(refuse(None).unwrap_err());
    // If there is a toolkit, the source's own flags hide it.
    let fault = refuse(Some("/opt/cuda/lib64".into())).unwrap().unwrap_err();
    assert_eq!(fault.kind, FaultKind::Compile);
}

#[test]
fn an_architecture_that_nvcc_does_not_know_is_named_with_those_that_it_knows() {
    let body = "case $1 in --list-gpu-code) printf 'sm_89\\nsm_90\\ncompute_90\\n';;\n\
                *) echo \"nvcc fatal   : Unsupported gpu architecture 'compute_100'\"; exit 1;; esac";
    let fault = compile_with(body, Duration::from_secs(60))
        .unwrap()
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::Compile);
    insta::assert_snapshot!(fault.message);
}

#[test]
fn a_compiler_gets_only_the_environment_it_needs_to_start() {
    // Anything else, such as NVCC_APPEND_FLAGS or CPATH, would change the artifact unseen.
    let printed = compile_with("env; exit 1", Duration::from_secs(60))
        .unwrap()
        .unwrap_err()
        .message;
    let mut names: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    names.retain(|name| {
        ![
            "HOME",
            "LD_LIBRARY_PATH",
            "PATH",
            "PWD",
            "_",
            "OLDPWD",
            "SHLVL",
        ]
        .contains(name)
    });
    names.sort_unstable();
    // Cargo itself is full of variables; none of them is here.
    assert!(std::env::vars().any(|(name, _)| name.starts_with("CARGO")));
    assert_eq!(
        names,
        ["CCACHE_DISABLE", "LC_ALL", "SUNPRO_DEPENDENCIES", "TMPDIR"]
    );
}

pub(super) fn script(dir: &Path, body: &str) -> PathBuf {
    let path = dir.join("nvcc");
    crate::toolchain::tests::write_script(&path, body);
    path
}
