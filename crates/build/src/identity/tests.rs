use super::super::tests::{Bench, entry, files, got, unit};
use super::*;
use model::{CType, Callable, LaunchedEntry, ScalarType, Unit};

#[test]
fn symbol_names_lose_hashes_of_path_and_definitions() {
    for (name, want) in [
        ("plain", "plain"),
        (
            "_ZN2ns31_GLOBAL__N__a3e553f2_4_k_cu_lut4anonEPi",
            "_ZN2ns_GLOBAL__N_4anonEPi",
        ),
        (
            "_ZN37_INTERNAL_9178aebe_9_marker_cu_launch39_GLOBAL__N__9178aebe_9_marker_cu_launch2anE",
            "_ZN_INTERNAL__GLOBAL__N_2anE",
        ),
        // The name of the namespace `n3` ends in a digit.
        (
            "_ZN2n331_GLOBAL__N__a3e553f2_4_k_cu_lut4anonEPi",
            "_ZN2n3_GLOBAL__N_4anonEPi",
        ),
        ("_GLOBAL__N_", "_GLOBAL__N_"),
    ] {
        let got = normalised(name.as_bytes());
        assert_eq!(String::from_utf8_lossy(&got), want, "{name}");
    }
}

const SOURCE: &str = include_str!("source.cu");

const DEFAULTS: [(&str, &str); 7] = [
    ("SCALE", "1"),
    ("TABLE", "1"),
    ("HELPER", "0.5f"),
    ("RECURSIVE", "0.25f"),
    ("CODE", "3"),
    ("DEAD", "0"),
    ("SHARED", "64"),
];

fn with(source: &str, changes: &[(&str, &str)]) -> Unit {
    let mut unit = entry(source, "k");
    for (name, value) in DEFAULTS.iter().chain(changes) {
        unit.defines.insert((*name).to_owned(), (*value).to_owned());
    }
    unit
}

#[test]
fn code_that_does_not_execute_does_not_count() {
    let neighbour = "\ntemplate <int N> __global__ void neighbour(float* o) { __shared__ float s[N]; s[threadIdx.x] = *o; *o = s[N - 1]; }\n\
                     template __global__ void neighbour<32>(float*);\n\
                     extern \"C\" __global__ void a_neighbour(double* o, int n) { for (int i = 0; i < n; ++i) o[i] *= 2; }\n";
    let bench = Bench::new(&[
        ("src/k.cu", SOURCE),
        ("elsewhere/deeper/other_name.cu", SOURCE),
        (
            "src/lines.cu",
            &format!(
                "// a comment\n\n\n{}",
                SOURCE.replace('{', "{ /* more */\n")
            ),
        ),
        ("src/behind.cu", &format!("{SOURCE}{neighbour}")),
        (
            "src/before.cu",
            &format!("#include \"tables.h\"\n{neighbour}{SOURCE}"),
        ),
        ("inc/tables.h", "#pragma once\n#define HEADER 5\n"),
    ]);
    let with = |source: &str, changes: &[(&str, &str)]| Unit {
        include_dirs: vec!["inc".into()],
        ..with(source, changes)
    };
    let units = [
        with("src/k.cu", &[]),
        with("src/k.cu", &[("DEAD", "1"), ("MORE", "2")]),
        with("elsewhere/deeper/other_name.cu", &[]),
        with("src/lines.cu", &[]),
        with("src/behind.cu", &[]),
        with("src/before.cu", &[]),
    ];
    // Cubins of other generations are laid out differently.
    for arch in ["sm_80", "sm_120"] {
        let pair = ["src/k.cu", "src/before.cu"].map(|source| {
            let mut unit = with(source, &[]);
            unit.id.arch = arch.parse().unwrap();
            unit
        });
        let built = bench.build(&pair);
        assert_eq!(got(&built[0]).identity, got(&built[1]).identity, "{arch}");
    }
    let built = bench.build(&units);
    let (first, rest) = built.split_first().unwrap();
    for (other, unit) in rest.iter().zip(&units[1..]) {
        assert_eq!(got(other).identity, got(first).identity, "{unit:?}");
        // The files themselves do differ.
        assert_ne!(got(other).artifact, got(first).artifact, "{unit:?}");
    }
}

#[test]
fn everything_that_executes_counts() {
    let bench = Bench::new(&[
        ("src/k.cu", SOURCE),
        ("src/tables.h", "#define HEADER 5\n"),
        ("other/k.cu", SOURCE),
        ("other/tables.h", "#define HEADER 6\n"),
        (
            "bounds/k.cu",
            &SOURCE.replace(
                "__global__ void k",
                "__global__ void __launch_bounds__(64) k",
            ),
        ),
        ("bounds/tables.h", "#define HEADER 5\n"),
        ("shared/k.cu", &SOURCE.replace("tile[64]", "tile[128]")),
        ("shared/tables.h", "#define HEADER 5\n"),
    ]);
    let mut units = vec![
        with("src/k.cu", &[]),
        with("src/k.cu", &[("CODE", "4")]),
        with("src/k.cu", &[("HELPER", "0.75f")]),
        with("src/k.cu", &[("RECURSIVE", "0.75f")]),
        with("src/k.cu", &[("TABLE", "9")]),
        with("src/k.cu", &[("SCALE", "9")]),
        with("other/k.cu", &[]),
        with("bounds/k.cu", &[]),
        with("shared/k.cu", &[]),
        Unit {
            flags: vec!["-maxrregcount=24".into()],
            ..with("src/k.cu", &[])
        },
    ];
    units.push(Unit {
        id: model::UnitId {
            arch: "sm_89".parse().unwrap(),
            ..units[0].id.clone()
        },
        ..units[0].clone()
    });
    let identities: Vec<String> = bench
        .build(&units)
        .iter()
        .map(|built| got(built).identity.clone())
        .collect();
    for (i, one) in identities.iter().enumerate() {
        for (j, other) in identities.iter().enumerate().skip(i + 1) {
            assert_ne!(one, other, "{:?}\n{:?}", units[i], units[j]);
        }
    }
}

#[test]
fn the_name_of_a_template_instance_is_not_its_code() {
    let source = "template <int MODE, int N> __global__ void k(int* o) { *o = N; }\n\
                  template <int MODE> __device__ __noinline__ int twice(int x) { return x * 2; }\n\
                  template <int MODE> __global__ void calls(int* o) { *o = twice<MODE>(*o); }\n";
    let bench = Bench::new(&[("k.cu", source)]);
    let units =
        ["k<1, 7>", "k<2, 7>", "k<2, 8>", "calls<1>", "calls<2>"].map(|name| entry("k.cu", name));
    let built = bench.build(&units);
    let identity = |index: usize| &got(&built[index]).identity;
    assert_eq!(identity(0), identity(1));
    assert_ne!(identity(1), identity(2));
    assert_eq!(identity(3), identity(4));
}

#[test]
fn which_variable_is_read_counts() {
    let source = "__device__ int a, b;\nextern \"C\" __global__ void k(int* o) { *o = WHICH; a = 1; b = 1; }\n";
    let bench = Bench::new(&[("k.cu", source)]);
    let which = |name: &str| Unit {
        defines: [("WHICH".to_owned(), name.to_owned())].into(),
        ..entry("k.cu", "k")
    };
    let built = bench.build(&[which("a"), which("b")]);
    assert_ne!(got(&built[0]).identity, got(&built[1]).identity);
}

#[test]
fn a_launcher_is_its_host_code_too() {
    let source = r#"
        namespace { __global__ void k(float* o) { *o = DEVICE; } }
        extern "C" int launch(float* o, int n) { k<<<n, BLOCK>>>(o); return HOST; }
    "#;
    let bench = Bench::with_toolkit(&[
        ("l.cu", source),
        (
            "deeper/m.cu",
            &format!("// other path, other lines\n\n{source}"),
        ),
    ]);
    let with = |source: &str, changes: &[(&str, &str)]| {
        let call = Callable::Launcher {
            function: "launch".into(),
            signature: vec![CType::Pointer, CType::Scalar(ScalarType::I32)],
            launches: vec![LaunchedEntry {
                name: "k".into(),
                dynamic_shared: 0,
            }],
        };
        let mut unit = unit(source, "sm_90", call);
        for (name, value) in [("DEVICE", "1"), ("BLOCK", "32"), ("HOST", "0")]
            .iter()
            .chain(changes)
        {
            unit.defines.insert((*name).to_owned(), (*value).to_owned());
        }
        unit
    };
    let units = [
        with("l.cu", &[]),
        with("deeper/m.cu", &[("DEAD", "1")]),
        with("l.cu", &[("DEVICE", "2")]),
        with("l.cu", &[("BLOCK", "64")]),
        with("l.cu", &[("HOST", "1")]),
    ];
    let built = bench.build(&units);
    let identity = |index: usize| &got(&built[index]).identity;
    assert_eq!(identity(0), identity(1));
    for (other, unit) in built.iter().zip(&units).skip(2) {
        assert_ne!(identity(0), &got(other).identity, "{:?}", unit.defines);
    }
}

#[test]
fn the_release_of_the_compiler_is_not_code() {
    let source = "extern \"C\" __global__ void k(float* o) { *o = 1; }";
    let bench = Bench::new(&[("k.cu", source)]);
    let built = bench.one(&entry("k.cu", "k"));
    let bytes = std::fs::read(files(&built).0).unwrap();
    let identity = |bytes: &[u8]| Cubin::parse(bytes).unwrap().identity("k").unwrap();
    // The attribute with its length, and the release as 13.0's compiler writes it.
    let attribute = [4, Attribute::CUDA_RELEASE, 4, 0, 130, 0, 0, 0];
    let at = bytes.windows(8).position(|byte| byte == attribute).unwrap();
    let patched = |offset: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at + offset] = byte;
        identity(&bytes)
    };
    assert_eq!(patched(4, 131), identity(&bytes));
    // Another attribute of that value is not one that is known to change nothing.
    assert_ne!(patched(1, 0x66), identity(&bytes));
}

#[test]
fn nonsense_is_an_error() {
    assert!(Cubin::parse(b"").is_err());
    assert!(Cubin::parse(b"\x7fELF and nothing more").is_err());
}

#[test]
fn ptx_is_the_same_whatever_it_is_for_and_wherever_its_lines_are() {
    let ptx = |arch: &str, line: u32, body: &str| {
        format!(
            "//\n// Generated by NVIDIA NVVM Compiler\n//\n.version 9.0\n.target {arch}\n.address_size 64\n\n\
             .visible .entry k()\n{{\n\t.loc\t1 {line} 5\n\t{body}\n\tret;\n}}\n\
             \t.file\t1 \"k{line}.cu\"\n\t.section\t.debug_str\n\t{{\n$L__info_string0:\n.b8 {line},0\n\n\t}}\n"
        )
    };
    let identity = |arch, line, body| ptx_identity(&["k"], &ptx(arch, line, body));
    let one = identity("sm_80", 7, "mov.u32 %r1, 1;");
    assert_eq!(one, identity("sm_90", 7, "mov.u32 %r1, 1;"));
    assert_eq!(one, identity("sm_80", 9, "mov.u32 %r1, 1;"));
    let newer = ptx("sm_80", 7, "mov.u32 %r1, 1;").replace(".version 9.0", ".version 9.5");
    assert_eq!(one, ptx_identity(&["k"], &newer));
    assert_ne!(one, identity("sm_80", 7, "mov.u32 %r1, 2;"));
    // Another entry of the same module runs other code.
    assert_ne!(
        one,
        ptx_identity(&["l"], &ptx("sm_80", 7, "mov.u32 %r1, 1;"))
    );
    // The steps of a sequence run in their order.
    let both = |entries| ptx_identity(entries, &ptx("sm_80", 7, "mov.u32 %r1, 1;"));
    assert_ne!(one, both(&["k", "l"]));
    assert_ne!(both(&["l", "k"]), both(&["k", "l"]));
    // Text behind a section is code again.
    let behind = ptx("sm_80", 7, "mov.u32 %r1, 1;") + "\t.visible .func f() { ret; }\n";
    assert_ne!(one, ptx_identity(&["k"], &behind));
}

#[test]
fn other_names_of_private_symbols_are_the_same_code_and_other_symbols_are_not() {
    let name = |hash: &str| format!("v31_GLOBAL__N__{hash}_4_k_cu_lut");
    let ptx = |stored: &str, names: &[String]| {
        let variables: String = names
            .iter()
            .map(|name| format!(".global .u32 {name};\n"))
            .collect();
        let code = format!(".entry k() {{ st.global.u32 [{stored}], 1; ret; }}\n");
        format!(".version 8.0\n.target sm_80\n.address_size 64\n{variables}{code}")
    };
    let identity = |stored: &str, names: &[String]| ptx_identity(&["k"], &ptx(stored, names));
    let [one, other] = ["a3e553f2", "9178aebe"].map(name);
    let alone = [one.clone()];
    let renamed = [other.clone()];
    assert_eq!(identity(&one, &alone), identity(&other, &renamed));
    let both = [one.clone(), other.clone()];
    assert_ne!(identity(&one, &both), identity(&other, &both));
    // The form without a hash is a name, too.
    let form = String::from_utf8_lossy(&normalised(one.as_bytes())).into_owned();
    let with_form = [one.clone(), form.clone()];
    assert_ne!(identity(&one, &with_form), identity(&form, &with_form));
}

#[test]
fn a_variable_of_a_cubin_with_a_name_like_anothers_is_another() {
    let source = "__device__ int v31_GLOBAL__N__a3e553f2_4_k_cu_lut, v31_GLOBAL__N__9178aebe_4_k_cu_lut;\n\
                  extern \"C\" __global__ void k(int* o) { *o = WHICH; }\n\
                  extern \"C\" __global__ void l() { v31_GLOBAL__N__a3e553f2_4_k_cu_lut = 1; v31_GLOBAL__N__9178aebe_4_k_cu_lut = 2; }\n";
    let bench = Bench::new(&[("k.cu", source)]);
    let which = |hash: &str| Unit {
        defines: [(
            "WHICH".to_owned(),
            format!("v31_GLOBAL__N__{hash}_4_k_cu_lut"),
        )]
        .into(),
        ..entry("k.cu", "k")
    };
    let built = bench.build(&[which("a3e553f2"), which("9178aebe")]);
    assert_ne!(got(&built[0]).identity, got(&built[1]).identity);
}
