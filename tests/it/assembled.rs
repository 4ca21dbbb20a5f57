//! Tests one PTX under two ptxas: `gatekeeper binary k.ptx --base-toolchain 13.2 --toolchain 13.0`. ptxas 13.0.88 gives
//! a kernel of this repository a register more than 13.2.51 does.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::binaries::nvcc;
use crate::common::{
    copy_of, edit, gates_that_failed, refused, root, run, simulate, stderr, stdout,
};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

const MORE: &str = "13.0.88";
const FEWER: &str = "13.2.51";

/// Makes a project with the PTX of `sdpa_fp8/stage5_two` for sm_89.
fn attention() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let macros = "-DCODEC=0 -DBLOCK_M=64 -DNUM_WARPS=4 -DUSE_CP_ASYNC=1 -DUSE_WMMA_PV=1 -DUSE_FUSED_SOFTMAX=1 \
        -DUSE_WARP_SPECIALIZATION=1 -DNUM_PRODUCER_WARPS=2";
    let kernels = root().join("kernels");
    let include = format!("-I{}", kernels.display());
    let source = kernels.join("sdpa_fp8.cu").display().to_string();
    let mut args = vec![
        "-std=c++17",
        "-ptx",
        "-arch=sm_89",
        "-o",
        "k.ptx",
        &include,
        &source,
    ];
    args.extend(macros.split_whitespace());
    nvcc(dir.path(), &args);
    dir
}

/// Makes a project with two kernels as PTX of CUDA 13.0, for sm_80 and newer architectures.
fn plain() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let source = "extern \"C\" __global__ void __launch_bounds__(256) one(float *x) { x[threadIdx.x] *= 2; }\n\
        extern \"C\" __global__ void other(float *x, int n) { for (int i = 0; i < n; i++) x[i] += i; }\n";
    std::fs::write(dir.path().join("k.cu"), source).unwrap();
    let make = |args: &[&str]| nvcc(dir.path(), &[args, &["k.cu"]].concat());
    make(&["-ptx", "-arch=sm_80", "-o", "k.ptx"]);
    dir
}

fn compare(dir: &Path, base: &str, head: &str, options: &[&str], code: i32) -> String {
    let sides = ["--base-toolchain", base, "--toolchain", head, "--provision"];
    let args = [&["binary", "k.ptx"][..], &sides, options].concat();
    stdout(&run(dir, &args, code))
}

fn listed(dir: &Path, file: &str, options: &[&str]) -> Value {
    let args = [&["binary", file, "--format", "json"], options].concat();
    serde_json::from_str(&stdout(&run(dir, &args, 0))).unwrap()
}

#[test]
fn registers_that_rise_with_ptxas_fail() {
    let project = attention();
    let dir = project.path();
    let registers = ["--limit", "registers=+0%"];
    let said = compare(dir, FEWER, MORE, &registers, 1);
    assert!(
        said.contains("PTX assembled by nvcc 13.0.88 (base: 13.2.51)"),
        "{said}"
    );
    assert!(
        said.contains("registers 108 -> 109, +0.93 %, limit +0 %"),
        "{said}"
    );
    // In the other direction the kernel gets better. A limit that allows the change holds.
    compare(dir, MORE, FEWER, &registers, 0);
    compare(dir, FEWER, MORE, &["--limit", "registers=+1%"], 0);
    compare(dir, FEWER, MORE, &["--limit", "registers=+1"], 0);
    let said = compare(dir, FEWER, MORE, &["--limit", "registers=+0"], 1);
    assert!(
        said.contains("registers 108 -> 109, +1, limit +0"),
        "{said}"
    );
    // The other parts of the compiler do not matter.
    let alone = format!("{MORE},ptxas={FEWER}");
    let said = compare(dir, FEWER, &alone, &registers, 0);
    assert!(said.contains("1 with the same\n"), "{said}");
}

#[test]
fn ptx_is_listed_as_ptxas_assembles_it() {
    let project = plain();
    let dir = project.path();
    let cubin = ["-cubin", "-arch=sm_90", "-o", "k.cubin", "k.cu"];
    nvcc(dir, &cubin);
    let assembled = listed(dir, "k.ptx", &["--toolchain", MORE, "--arch", "sm_90"]);
    let made = listed(dir, "k.cubin", &[]);
    assert_eq!(assembled["kernels"], made["kernels"]);
    assert_eq!(assembled["compilers"], made["compilers"]);
    assert_eq!(assembled["kernels"].as_array().unwrap().len(), 2);
    // Without an option the architecture is the PTX's own, and without a compiler nothing is assembled.
    let own = listed(dir, "k.ptx", &["--toolchain", MORE]);
    assert_eq!(own["kernels"][0]["architecture"], "sm_80");
    let text = listed(dir, "k.ptx", &[]);
    assert_eq!(text["kernels"].as_array().unwrap().len(), 0);
    assert_eq!(text["ptx"][0]["architecture"], "compute_80");
}

/// A driver finds PTX in these places: in a library next to machine code, in a static library, and in a compiler's
/// cache.
#[test]
fn ptx_is_found_in_whatever_holds_it() {
    let project = plain();
    let dir = project.path();
    std::fs::create_dir(dir.join("cache")).unwrap();
    std::fs::copy(dir.join("k.ptx"), dir.join("cache/a.ptx")).unwrap();
    let code = ["-gencode", "arch=compute_80,code=[sm_90,compute_80]"];
    let make = |args: &[&str]| nvcc(dir, &[&code, args, &["k.cu"]].concat());
    make(&[
        "-shared",
        "-cudart",
        "none",
        "-Xcompiler",
        "-fPIC",
        "-o",
        "cache/k.so",
    ]);
    make(&["-c", "-o", "k.o"]);
    let archive = ["rcs", "cache/k.a", "k.o"];
    let mut ar = std::process::Command::new("ar");
    let made = ar.current_dir(dir).args(archive).status();
    assert!(made.unwrap().success());
    let options = ["--toolchain", MORE, "--arch", "sm_90"];
    let alone = listed(dir, "k.ptx", &options);
    let listing = listed(dir, "cache", &options);
    let kernels = listing["kernels"].as_array().unwrap();
    for member in ["a.ptx", "k.a(k.o)", "k.so"] {
        let found: Vec<Value> = kernels
            .iter()
            .filter(|kernel| kernel["member"] == member)
            .map(|kernel| {
                let mut row = kernel.clone();
                row.as_object_mut().unwrap().remove("member");
                row
            })
            .collect();
        assert_eq!(
            &found,
            alone["kernels"].as_array().unwrap(),
            "{member}: {listing}"
        );
    }
    assert_eq!(kernels.len(), 6, "{listing}");
    let sides = [
        "--base-toolchain",
        FEWER,
        "--toolchain",
        MORE,
        "--provision",
    ];
    let said = stdout(&run(dir, &[&["binary", "cache"][..], &sides].concat(), 0));
    assert!(said.contains("matched  6 kernels: 6 by name"), "{said}");
}

#[test]
fn ptx_that_a_ptxas_does_not_read_is_an_error_that_names_one_that_does() {
    let project = plain();
    let dir = project.path();
    edit(&dir.join("k.ptx"), ".version 9.0", ".version 9.2");
    let says = "error: k.ptx: it is PTX 9.2, and the ptxas of nvcc 13.0.88 reads PTX up to 9.0\n  \
        help: name CUDA 13.2 or newer as the compiler, or its ptxas alone: 13.0.88,ptxas=13.2\n";
    let binary = |options: &[&'static str]| [&["binary", "k.ptx"], options].concat();
    refused(dir, &binary(&["--toolchain", MORE]), says);
    run(dir, &binary(&["--toolchain", FEWER, "--provision"]), 0);

    let text = std::fs::read_to_string(dir.join("k.ptx")).unwrap();
    let text = text.replace(".version 9.2", ".version 9.0");
    std::fs::write(dir.join("k.ptx"), text.replace("ld.param", "ld.parum")).unwrap();
    let said = stderr(&run(dir, &binary(&["--toolchain", MORE]), 4));
    assert!(
        said.starts_with(
            "error: k.ptx: the ptxas of nvcc 13.0.88 does not assemble it for sm_80: "
        ),
        "{said}"
    );
    assert!(said.contains("Unknown modifier '.parum'"), "{said}");
}

/// In a comparison, each kernel that a ptxas refuses has a verdict with the ptxas's words, and makes the run red or
/// undecided.
#[test]
fn ptx_that_one_ptxas_refuses_is_a_verdict() {
    let project = plain();
    let dir = project.path();
    edit(&dir.join("k.ptx"), ".version 9.0", ".version 9.2");
    let words = "it is PTX 9.2, and the ptxas of nvcc 13.0.88 reads PTX up to 9.0";
    let single = |said: &str| said.split_whitespace().collect::<Vec<_>>().join(" ");
    let head = single(&compare(dir, FEWER, MORE, &["--out", "head"], 1));
    for part in [
        "✗ one/- [sm_80], other/- [sm_80] does not compile [does-not-compile]",
        words,
    ] {
        assert!(head.contains(part), "{part}: {head}");
    }
    let base = single(&compare(dir, MORE, FEWER, &["--out", "base"], 3));
    for kernel in ["one", "other"] {
        let lacks = format!("{kernel}/- [sm_80]: the base has no stack to compare with");
        assert!(base.contains(&lacks), "{base}");
    }
    assert!(base.contains(words), "{base}");
    // The records that CI reads, without the other side, fail in the same way.
    for (out, code) in [("head", 1), ("base", 3)] {
        let args = ["judge", &format!("{out}/record.json")];
        let said = single(&stdout(&run(dir, &args, code)));
        assert!(said.contains(words), "{said}");
    }
    // A kernel that both ptxas refuse is red, and the kernel next to it is still compared.
    let text = std::fs::read_to_string(dir.join("k.ptx")).unwrap();
    let text = text.replace(".version 9.2", ".version 9.0");
    std::fs::create_dir(dir.join("both")).unwrap();
    std::fs::write(dir.join("both/good.ptx"), &text).unwrap();
    std::fs::write(
        dir.join("both/bad.ptx"),
        text.replace("ld.param", "ld.parum"),
    )
    .unwrap();
    let sides = ["--base-toolchain", MORE, "--toolchain", FEWER];
    let said = stdout(&run(dir, &[&["binary", "both"][..], &sides].concat(), 1));
    let said = single(&said);
    assert!(
        said.contains("✗ one/bad.ptx [sm_80], other/bad.ptx [sm_80] does not compile"),
        "{said}"
    );
    assert!(said.contains("Unknown modifier '.parum'"), "{said}");
    assert!(said.contains("matched 2 kernels: 2 by name"), "{said}");
    assert!(
        said.contains("FAIL: 1 problem (2 gates), 3 passed"),
        "{said}"
    );
}

#[test]
fn mistakes_on_the_command_line_say_what_to_write() {
    let project = plain();
    let dir = project.path();
    let cubin = ["-cubin", "-arch=sm_90", "-o", "k.cubin", "k.cu"];
    nvcc(dir, &cubin);
    let says = |args: &[&str], what: &str| {
        let said = stderr(&run(dir, &[&["binary"], args].concat(), 2));
        assert!(said.contains(what), "{said}");
    };
    says(
        &["k.ptx", "--arch", "sm_90"],
        "error: --arch and --provision are for PTX that is assembled\n  \
         help: name the compiler with --toolchain, for example --toolchain 13.0\n",
    );
    says(
        &["k.ptx", "--toolchain", MORE, "--arch", "sm_75"],
        "error: k.ptx: PTX for sm_80 cannot be assembled for sm_75\n  help: name --arch sm_80",
    );
    says(
        &["k.cubin", "--toolchain", MORE],
        "error: k.cubin: nothing in it is PTX\n",
    );
    says(
        &["k.ptx", "--toolchain", "13.0", "--base-toolchain", MORE],
        "error: nothing to compare: both sides are the same PTX, and both compilers are nvcc 13.0.88\n",
    );
    says(
        &["k.ptx", "--base", "k.cubin", "--base-toolchain", MORE],
        "cannot be used with",
    );
}

/// A kernel with `source: k.ptx` in gates.yaml is compared in the same way.
#[test]
fn a_kernel_that_is_ptx_is_gated_under_two_ptxas() {
    let project = copy_of("tests/fixtures/split");
    let dir = project.path();
    let ptx = ["-ptx", "-arch=sm_120", "-o", "split.ptx", "split.cu"];
    nvcc(dir, &ptx);
    edit(
        &dir.join("gates.yaml"),
        "source: split.cu",
        "source: split.ptx",
    );
    // This kernel does not use the part of 13.2.51 that translates it wrongly.
    let sides = |base, head| ["--base-toolchain", base, "--toolchain", head];
    simulate(dir, &sides(MORE, FEWER), 0);
    // If a ptxas can no longer read the PTX, the gate on registers fails.
    edit(&dir.join("split.ptx"), ".version 9.0", ".version 9.2");
    let said = simulate(dir, &sides(FEWER, MORE), 1);
    let lost = ["no looser than the base: registers +0%"];
    assert_eq!(gates_that_failed(dir), lost, "{said}");
    assert!(said.contains("head is not: the PTX is of\n"), "{said}");
    // Blame names the part that takes the gate away like a part that breaks a gate.
    let blame = [&sides(FEWER, MORE)[..], &["--blame"]].concat();
    let said = simulate(dir, &blame, 1);
    let blamed = "blame    ptxas 13.2.51 -> 13.0.88: 1 of 1 failed gate\n         \
        split/default [sm_120]  no looser than the base: registers +0%\n";
    assert!(said.contains(blamed), "{said}");
    // The base's registers are not known, so head's cannot be compared with them.
    let said = simulate(dir, &sides(MORE, FEWER), 3);
    assert!(said.contains("[base-unanswered]"), "{said}");
    assert!(
        said.contains("of a newer version than this PTXAS"),
        "{said}"
    );
}
