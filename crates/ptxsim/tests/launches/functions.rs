//! Calls through addresses and functions that call themselves (tests/fixtures/functions.cu).

use crate::common::*;
use ptxsim::*;

fn run(text: &str, name: &str) -> (Result<Report, Fault>, Vec<i32>) {
    let module = load(text);
    let kernel = module.kernel(name).unwrap();
    let mut memory = Memory::default();
    let out = put(&mut memory, "out", &[0; 256]);
    let mut p = out.to_le_bytes().to_vec();
    p.resize(kernel.parameter_bytes() as usize, 0);
    let report = launch(kernel, [1, 1, 1], [64, 1, 1], 0, &p, &mut memory, limits());
    let bytes = memory.read(out, 256).unwrap().chunks_exact(4);
    let words = bytes.map(|c| i32::from_le_bytes([c[0], c[1], c[2], c[3]]));
    (report, words.collect())
}

#[test]
fn a_table_of_functions() {
    let text = fixture("functions");
    let (report, out) = run(&text, "indirect");
    clean(report);
    let want: Vec<i32> = (0..64)
        .map(|i| [i + 5, i * 5, i - 5][i as usize % 3])
        .collect();
    assert_eq!(out, want);
    let wrong = text.replace("{_Z4plusii, _Z5timesii,", "{_Z4plusii, 77,");
    assert_ne!(wrong, text);
    let fault = run(&wrong, "indirect").0.unwrap_err();
    assert_eq!(
        (fault.kind, fault.thread),
        (FaultKind::Undefined, [1, 0, 0])
    );
    assert!(
        fault
            .message
            .contains("call to 0x4d, where there is no function"),
        "{fault}"
    );
}

/// Lanes of a warp are at different depths.
#[test]
fn a_function_that_calls_itself_twice() {
    let text = fixture("functions");
    let (report, out) = run(&text, "recursive");
    clean(report);
    let fib = [0, 1, 1, 2, 3, 5, 8, 13, 21];
    assert_eq!(out, (0..64).map(|i| fib[i % 9]).collect::<Vec<_>>());
}

const HEADER: &str = ".version 8.4\n.target sm_90\n.address_size 64\n";

#[test]
fn functions_that_call_one_another() {
    // even(n) = n == 0 or odd(n - 1), the other way round likewise; declared before they are written.
    let body = |name: &str, other: &str, at_zero: u32| {
        format!(
            ".func (.param .b32 r) {name}(.param .b32 n)\n{{ .reg .b32 %r<5>; .reg .pred %p<2>;\nld.param.u32 %r1, [n];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra Z;\nsub.u32 %r2, %r1, 1;\n{{ .param .b32 a; .param .b32 b;\nst.param.b32 [a], %r2;\ncall (b), {other}, (a);\nld.param.b32 %r3, [b]; }}\nmul.lo.u32 %r4, %r1, 256;\nadd.u32 %r3, %r3, %r4;\nst.param.b32 [r], %r3;\nret;\nZ: st.param.b32 [r], {at_zero};\nret; }}\n"
        )
    };
    let text = format!(
        "{HEADER}.func (.param .b32 r) odd(.param .b32 n);\n{}{}.entry k(.param .u64 p)\n{{ .reg .b32 %r<5>; .reg .b64 %rd<5>;\nmov.u32 %r1, %tid.x;\n{{ .param .b32 a; .param .b32 b;\nst.param.b32 [a], %r1;\ncall (b), even, (a);\nld.param.b32 %r2, [b]; }}\nld.param.u64 %rd1, [p];\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r2;\nret; }}",
        body("even", "odd", 1),
        body("odd", "even", 0)
    );
    let (report, out) = run(&text, "k");
    clean(report);
    // Each activation adds 256 times its own n, which it has to know after the call.
    let want: Vec<i32> = (0..64)
        .map(|n| (1 - n % 2) + 256 * n * (n + 1) / 2)
        .collect();
    assert_eq!(out, want);
}

#[test]
fn recursion_has_an_end_and_limits() {
    let call = |decl: &str| {
        format!(
            "{HEADER}.func f() {{ .reg .b32 %r<9>; .reg .pred %p<2>; {decl}\ncall f;\nret; }}\n.entry k(.param .u64 p) {{ call f; ret; }}"
        )
    };
    for (decl, what) in [
        ("", "more than 65536 bytes of stack"),
        (
            ".local .b8 x[1000];",
            "more than 8192 bytes for its variables",
        ),
    ] {
        let fault = run(&call(decl), "k").0.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Undefined);
        assert!(fault.message.contains(what), "{fault}");
    }
    let error = Module::load(&call(".local .b8 x[9000];"))
        .and_then(Module::complete)
        .err()
        .unwrap();
    assert!(error.to_string().contains("at most 8192 bytes"), "{error}");
}

/// Recursion as nvcc compiles it: a virtual function that calls itself, arrays and pointers to those of
/// the caller, two functions that call each other through a table (tests/fixtures/recursion.cu).
#[test]
fn recursion_as_nvcc_writes_it() {
    let text = fixture("recursion");
    let numbers = |name: &str| {
        let (report, out) = run(&text, name);
        clean(report);
        out
    };
    // The second parameter is left at zero.
    let virt = |n: i32| if n % 2 == 1 { n * (n + 1) / 2 + 1 } else { 0 };
    assert_eq!(numbers("virt"), (0..64).map(virt).collect::<Vec<_>>());
    // Sums over all orders of the digits 1 to n of the number they make, modulo 7.
    let perms = [1, 5, 23, 69];
    assert_eq!(
        numbers("perms"),
        (0..64).map(|i| perms[i % 4]).collect::<Vec<_>>()
    );
    assert_eq!(numbers("tree"), (0..64).map(|i| 21 * i).collect::<Vec<_>>());
    assert_eq!(numbers("sorts"), [1; 64]);
    fn mutual(odd: bool, n: i32) -> i32 {
        match (odd, n < 1) {
            (false, true) => 5,
            (true, true) => 7,
            (false, false) => n + mutual(true, n - 1),
            (true, false) => n * 2 + mutual(n % 2 == 1, n - 1),
        }
    }
    let want: Vec<i32> = (0..64).map(|i| mutual(i % 2 == 1, i % 12)).collect();
    assert_eq!(numbers("mutual"), want);
}

/// A kernel that hands its thread's number to `f` and keeps what comes back.
fn calls_f(functions: &str) -> String {
    format!(
        "{HEADER}{functions}.entry k(.param .u64 p)\n{{ .reg .b32 %r<5>; .reg .b64 %rd<5>;\nmov.u32 %r1, %tid.x;\n{{ .param .b32 a; .param .b32 b;\nst.param.b32 [a], %r1;\ncall (b), f, (a);\nld.param.b32 %r2, [b]; }}\nld.param.u64 %rd1, [p];\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r2;\nret; }}"
    )
}

/// f(n) = n + f(n - 1), by a call whose guard another activation overwrites; odd ones add 1.
#[test]
fn a_recursive_call_under_a_predicate() {
    let text = calls_f(
        ".func (.param .b32 r) f(.param .b32 n)\n{ .reg .b32 %r<6>; .reg .pred %p<3>;\nld.param.u32 %r1, [n];\nmov.u32 %r3, 0;\nsetp.ne.u32 %p1, %r1, 0;\nsub.u32 %r2, %r1, 1;\n{ .param .b32 a; .param .b32 b;\nst.param.b32 [a], %r2;\nst.param.b32 [b], 0;\n@%p1 call (b), f, (a);\nld.param.b32 %r3, [b]; }\nadd.u32 %r3, %r3, %r1;\nand.b32 %r4, %r1, 1;\nadd.u32 %r3, %r3, %r4;\nst.param.b32 [r], %r3;\nret; }\n",
    );
    let (report, out) = run(&text, "k");
    clean(report);
    let want: Vec<i32> = (0..64).map(|n| n * (n + 1) / 2 + (n + 1) / 2).collect();
    assert_eq!(out, want);
}

/// Each activation has an array, hands its address down and finds in it what the next one added.
#[test]
fn activations_have_variables_of_their_own() {
    let text = calls_f(
        ".func add(.param .b64 to, .param .b32 n);\n.func (.param .b32 r) f(.param .b32 n)\n{ .local .align 8 .b8 x[8]; .reg .b32 %r<6>; .reg .b64 %rd<4>;\nld.param.u32 %r1, [n];\nst.local.u32 [x], %r1;\nst.local.u32 [x+4], 0;\nmov.u64 %rd1, x;\ncvta.local.u64 %rd2, %rd1;\n{ .param .b64 a; .param .b32 b;\nst.param.b64 [a], %rd2;\nst.param.b32 [b], %r1;\ncall add, (a, b); }\nld.local.u32 %r2, [x];\nld.u32 %r3, [%rd2+4];\nmad.lo.u32 %r4, %r2, 1000, %r3;\nst.param.b32 [r], %r4;\nret; }\n.func add(.param .b64 to, .param .b32 n)\n{ .local .align 8 .b8 y[8]; .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .pred %p<2>;\nld.param.u64 %rd1, [to];\nld.param.u32 %r1, [n];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 ret;\nst.local.u32 [y+4], 0;\nst.local.u32 [y], %r1;\nmov.u64 %rd2, y;\ncvta.local.u64 %rd3, %rd2;\nsub.u32 %r2, %r1, 1;\n{ .param .b64 a; .param .b32 b;\nst.param.b64 [a], %rd3;\nst.param.b32 [b], %r2;\ncall add, (a, b); }\nld.local.u32 %r3, [y+4];\nld.local.u32 %r4, [y];\nadd.u32 %r3, %r3, %r4;\nst.u32 [%rd1+4], %r3;\nret; }\n",
    );
    let (report, out) = run(&text, "k");
    clean(report);
    let want: Vec<i32> = (0..64).map(|n| 1000 * n + n * (n + 1) / 2).collect();
    assert_eq!(out, want);
    // A value that an activation has not written is not known, whatever the last one left there.
    let unwritten = text.replace("st.local.u32 [y+4], 0;\n", "");
    assert_ne!(unwritten, text);
    let report = run(&unwritten, "k").0.unwrap();
    let kinds: Vec<FindingKind> = report.findings.iter().map(|f| f.kind).collect();
    assert!(
        kinds.contains(&FindingKind::UninitialisedLocal),
        "{kinds:?}"
    );
}

/// Through a table of functions one of which is the caller.
#[test]
fn recursion_through_an_address() {
    let text = calls_f(
        ".func (.param .b32 r) f(.param .b32 n);\n.func (.param .b32 r) g(.param .b32 n);\n.global .u64 table[2] = {f, g};\n.func (.param .b32 r) g(.param .b32 n)\n{ .reg .b32 %r<3>;\nld.param.u32 %r1, [n];\nadd.u32 %r1, %r1, 1000;\nst.param.b32 [r], %r1;\nret; }\n.func (.param .b32 r) f(.param .b32 n)\n{ .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .pred %p<2>;\nld.param.u32 %r1, [n];\nand.b32 %r2, %r1, 7;\nsetp.eq.u32 %p1, %r2, 0;\nselp.u64 %rd1, 8, 0, %p1;\nmov.u64 %rd2, table;\nadd.u64 %rd2, %rd2, %rd1;\nld.global.u64 %rd3, [%rd2];\nsub.u32 %r3, %r1, 1;\n{ .param .b32 a; .param .b32 b;\nst.param.b32 [a], %r3;\nP: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (b), %rd3, (a), P;\nld.param.b32 %r4, [b]; }\nadd.u32 %r4, %r4, %r1;\nst.param.b32 [r], %r4;\nret; }\n",
    );
    let (report, out) = run(&text, "k");
    clean(report);
    let f = |n: i32| -> i32 {
        let mut sum = 0;
        let mut n = n;
        while n % 8 != 0 {
            sum += n;
            n -= 1;
        }
        sum + n + (n - 1 + 1000)
    };
    assert_eq!(out, (0..64).map(f).collect::<Vec<_>>());
}

/// The fuzz target found that a result larger than what the caller has for it was copied all the same.
#[test]
fn arguments_are_as_large_as_the_function_has_them() {
    for (ours, theirs) in [("b32 n", "b64 n"), ("b32 r", "b64 r")] {
        let text = calls_f(
            &".func (.param .b32 r) f(.param .b32 n)\n{ st.param.b32 [r], 0;\nret; }\n"
                .replace(ours, theirs),
        );
        let error = Module::load(&text).and_then(Module::complete);
        let error = error.err().unwrap().to_string();
        assert!(error.contains("`f` takes different arguments"), "{error}");
    }
}

/// A kernel is refused only for code that it can reach, at whatever depth.
#[test]
fn a_form_that_is_not_built_refuses_the_kernels_that_may_come_to_it() {
    let odd = "tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f1, %f1, %f1}];";
    let text = format!(
        "{HEADER}.file 1 \"k.cu\"
.func odd() {{ .reg .f32 %f<5>; .reg .b32 %r<2>; .reg .b64 %rd<2>;
.loc 1 7 1
{odd}
ret; }}
.func plain() {{ ret; }}
.func over() {{ call odd; ret; }}
.global .u64 table[2] = {{odd, plain}};
.entry itself() {{ .reg .f32 %f<5>; .reg .b32 %r<2>; .reg .b64 %rd<2>;
.loc 1 20 1
{odd}
ret; }}
.entry through() {{ call over; ret; }}
.entry by_address() {{ .reg .b64 %rd<2>; ld.global.u64 %rd1, [table]; call %rd1, (), P; ret; }}
.entry address_only() {{ .reg .b64 %rd<2>; mov.u64 %rd1, odd; ret; }}
.entry clustered() .reqnctapercluster 2, 1, 1 .blocksareclusters {{
.loc 1 30 1
ret; }}
.entry good() {{ call plain; ret; }}
"
    );
    let module = Module::load(&text).unwrap();
    let names = |all: Vec<&str>| all.join(" ");
    assert_eq!(
        names(module.kernels().iter().map(Kernel::name).collect()),
        "address_only good"
    );
    let refused = module.refused();
    assert_eq!(
        names(refused.iter().map(|r| r.name.as_str()).collect()),
        "itself through by_address clustered"
    );
    for (name, told) in [
        (
            "itself",
            "PTX line 14, column 1: `tex.cube.v4.f32.f32` is not supported: textures other than of 1, 2 and 3 dimensions and their layers (k.cu:20)",
        ),
        (
            "through",
            "PTX line 7, column 1: `tex.cube.v4.f32.f32` is not supported: textures other than of 1, 2 and 3 dimensions and their layers (k.cu:7)",
        ),
        (
            "by_address",
            "PTX line 7, column 1: `tex.cube.v4.f32.f32` is not supported: textures other than of 1, 2 and 3 dimensions and their layers (k.cu:7)",
        ),
        (
            "clustered",
            "PTX line 19, column 47: `.blocksareclusters` is not supported: grids that count clusters (k.cu:30)",
        ),
    ] {
        let Err(NoKernel::Refused(error)) = module.kernel(name) else {
            panic!("{name} is not refused");
        };
        assert_eq!(error.to_string(), told, "{name}");
    }
    let missing = module.kernel("nowhere").err().unwrap();
    assert_eq!(missing, NoKernel::Unknown("nowhere".into()));
    assert!(Module::load(&text).and_then(Module::complete).is_err());
    // Declarations that belong to no kernel.
    for whole in [".global .texref t;", ".entry broken() { mov.u32 %r1 }"] {
        let error = Module::load(&format!("{text}{whole}\n")).err().unwrap();
        let told = error.to_string();
        assert!(told.starts_with("PTX line 23, column "), "{told}");
    }
}
