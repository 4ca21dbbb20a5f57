//! Calls through addresses. Functions that call themselves are in tests/cases/functions.ptx, fixtures/functions.cu and
//! recursion.cu.

use crate::common::*;
use ptxsim::*;

fn run(text: &str, name: &str) -> Result<Report, Fault> {
    let module = load(text);
    let kernel = module.kernel(name).unwrap();
    let mut memory = Memory::default();
    let out = put(&mut memory, "out", &[0; 256]);
    let p = params(kernel, &[Arg::Ptr(out)]);
    launch(kernel, [1, 1, 1], [64, 1, 1], 0, &p, &mut memory, limits())
}

#[test]
fn a_table_with_a_number_in_it() {
    let text = fixture("functions");
    let wrong = text.replace("{_Z4plusii, _Z5timesii,", "{_Z4plusii, 77,");
    assert_ne!(wrong, text);
    let fault = run(&wrong, "indirect").unwrap_err();
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

const HEADER: &str = ".version 8.4\n.target sm_90\n.address_size 64\n";

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
