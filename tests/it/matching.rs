//! Tests the properties on which the matching of two listings relies, in code that nvcc and PTXAS write: digests,
//! instructions of local memory, and names that differ between builds.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use binary::{BinaryKernel, Listing, MatchedBy, match_kernels};
use common::stderr;
use std::path::Path;
use std::process::Command;

const ARCHITECTURES: [&str; 3] = ["sm_75", "sm_90", "sm_120"];

/// Runs nvcc in `dir`, and returns what PTXAS printed.
fn nvcc(dir: &Path, args: &[&str]) -> String {
    let nvcc = build::toolchain::testing::toolchain().nvcc;
    let output = Command::new(nvcc).current_dir(dir).args(args).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{args:?}\n{}", stderr(&output));
    stderr(&output)
}

fn read(file: &Path) -> Listing {
    binary::read(&std::fs::read(file).unwrap()).unwrap()
}

fn kernel<'a>(listing: &'a Listing, name: &str) -> &'a BinaryKernel {
    listing
        .kernels
        .iter()
        .find(|kernel| kernel.name.contains(name))
        .unwrap()
}

/// A kernel and the function that it calls, which is linked to it from another object.
struct Source {
    kernel: &'static str,
    function: &'static str,
    factor: &'static str,
    neighbour: &'static str,
}

const SOURCE: Source = Source {
    kernel: "first",
    function: "scale",
    factor: "3.0f",
    neighbour: "",
};

impl Source {
    fn link(&self, arch: &str) -> Listing {
        let Self {
            kernel,
            function,
            factor,
            neighbour,
        } = self;
        let dir = tempfile::tempdir().unwrap();
        let caller = format!(
            "__device__ int counter;\n__device__ float {function}(float);\n{neighbour}\
             __global__ void {kernel}(float *p) {{ p[0] = {function}(p[1]); counter++; }}\n\
             __global__ void unrelated(float *p) {{ p[0] = p[1] * p[2]; }}\n"
        );
        let callee =
            format!("__device__ float {function}(float x) {{ return x * {factor} + 1.0f; }}\n");
        std::fs::write(dir.path().join("caller.cu"), caller).unwrap();
        std::fs::write(dir.path().join("callee.cu"), callee).unwrap();
        let arch = format!("-arch={arch}");
        nvcc(dir.path(), &[&arch, "-dc", "caller.cu", "callee.cu"]);
        let linked = ["-dlink", "-cubin", "-o", "k.cubin", "caller.o", "callee.o"];
        nvcc(dir.path(), &[&[arch.as_str()], &linked[..]].concat());
        read(&dir.path().join("k.cubin"))
    }
}

#[test]
fn equal_code_has_equal_digests_whatever_it_is_called() {
    let renamed = Source {
        kernel: "second",
        function: "multiply",
        neighbour: "__global__ void neighbour(int *p) { p[0] = 7; }\n",
        ..SOURCE
    };
    let changed = Source {
        factor: "5.0f",
        ..SOURCE
    };
    for arch in ARCHITECTURES {
        let [base, renamed, changed] =
            [&SOURCE, &renamed, &changed].map(|source| source.link(arch));
        let digest = kernel(&base, "first").digest;
        assert_eq!(digest, kernel(&renamed, "second").digest, "{arch}");
        assert_ne!(
            digest,
            kernel(&changed, "first").digest,
            "{arch}: the function changed"
        );
        let unrelated = |listing| kernel(listing, "unrelated").digest;
        assert_eq!(
            unrelated(&base),
            unrelated(&changed),
            "{arch}: it calls nothing"
        );
        assert_ne!(digest, unrelated(&base));
    }
}

#[test]
fn a_kernel_without_local_instructions_spills_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let source = "__global__ void k(float *p, int n) {\n    float v[48];\n    #pragma unroll\n    \
                  for (int i = 0; i < 48; i++) v[i] = p[i * n];\n    __syncthreads();\n    \
                  #pragma unroll\n    for (int i = 0; i < 48; i++) p[i] = v[i] * v[47 - i];\n}\n";
    std::fs::write(dir.join("k.cu"), source).unwrap();
    for arch in ARCHITECTURES {
        let arch = format!("-arch={arch}");
        let build = ["-Xptxas=-v", "-cubin", &arch, "-o", "k.cubin", "k.cu"];
        let said = nvcc(dir, &build);
        assert!(said.contains("0 bytes spill stores"), "{said}");
        let local = read(&dir.join("k.cubin")).kernels[0].local_instructions;
        assert_eq!(local, Some(0), "{arch}");
        let said = nvcc(dir, &[&["-maxrregcount=24"], &build[..]].concat());
        assert!(!said.contains(" 0 bytes spill stores"), "{said}");
        let local = read(&dir.join("k.cubin")).kernels[0].local_instructions;
        assert!(local > Some(0), "{arch}: {local:?}");
    }
}

/// A function that the kernel calls may spill.
#[test]
fn local_instructions_are_open_until_device_code_is_linked() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let source = "__device__ float f(float);\n__global__ void calls(float *p) { *p = f(*p); }\n\
                  __global__ void alone(float *p) { *p = 1; }\n";
    std::fs::write(dir.join("k.cu"), source).unwrap();
    let build = ["-rdc=true", "-cubin", "-arch=sm_90", "-o", "k.cubin"];
    nvcc(dir, &[&build[..], &["k.cu"]].concat());
    let listing = read(&dir.join("k.cubin"));
    assert_eq!(kernel(&listing, "calls").local_instructions, None);
    assert_eq!(kernel(&listing, "alone").local_instructions, Some(0));
}

/// nvcc writes hashes of the path and of definitions into these names.
#[test]
fn a_name_with_a_hash_is_that_of_the_next_build() {
    let build = |directory: &str, definition: &str, rdc: &str| {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join(directory);
        std::fs::create_dir(&dir).unwrap();
        let source = format!(
            "namespace {{ __global__ void hidden(float *p) {{ *p = 1; }} struct S {{}}; }}\n\
             static __global__ void internal(float *p) {{ *p = 2; }}\n\
             template <class T> __global__ void of(float *p) {{ *p = 3; }}\n\
             void {definition}(float *p) {{ hidden<<<1, 1>>>(p); internal<<<1, 1>>>(p); of<S><<<1, 1>>>(p); }}\n"
        );
        std::fs::write(dir.join("k.cu"), source).unwrap();
        let rdc = format!("-rdc={rdc}");
        nvcc(
            &dir,
            &[&rdc, "-cubin", "-arch=sm_90", "-o", "k.cubin", "k.cu"],
        );
        read(&dir.join("k.cubin"))
    };
    for rdc in ["false", "true"] {
        let (base, head) = (build("one", "f", rdc), build("another", "longer", rdc));
        let matching = match_kernels(&base, &head);
        assert_eq!(matching.pairs.len(), 3, "{matching:?}");
        let by_name = matching
            .pairs
            .iter()
            .filter(|pair| pair.by == MatchedBy::Name);
        // Without relocatable code, a static kernel has its plain name.
        assert_eq!(by_name.count(), if rdc == "false" { 1 } else { 0 });
        for pair in &matching.pairs {
            assert_ne!(pair.by, MatchedBy::Code);
            assert_eq!(pair.base.digest, pair.head.digest);
            let of = |name: &str| ["hidden", "internal", "of"].map(|part| name.contains(part));
            assert_eq!(of(&pair.base.name), of(&pair.head.name));
        }
    }
}
