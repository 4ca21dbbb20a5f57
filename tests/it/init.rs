//! `init` in a repository with kernels: what it lists, and that what it writes validates, builds and runs.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{copy_of, edit, failed, report, run, stderr, stdout};
use serde_json::{Value, json};
use std::fs;

const FIXTURE: &str = "tests/fixtures/init";

#[test]
fn kernels_of_a_repository_are_listed_and_run() {
    let project = copy_of(FIXTURE);
    let dir = project.path();
    let command = "nvcc -DFACTOR=3 -Iinclude -std=c++20 --expt-relaxed-constexpr -c src/built.cu";
    let commands = json!([{"directory": dir, "file": "src/built.cu", "command": command}]);
    fs::create_dir(dir.join("build")).unwrap();
    fs::write(
        dir.join("build/compile_commands.json"),
        commands.to_string(),
    )
    .unwrap();
    let output = run(dir, &["init", "--provision"], 0);
    let said = stdout(&output);
    assert!(
        said.starts_with(
            "wrote gates.yaml: 13 of 17 kernels in 3 sources, of which 1 did not compile as they are; 4 with a \
             built-in reference that matches; what is missing is named in it, with the reason\n"
        ),
        "{said}"
    );
    // A race of every launch is said, and not only in a comment of the file.
    assert!(
        said.contains("\nfinding: histogram in src/kernels.cu: a race (src/kernels.cu:118), in every launch that came to its end, "),
        "{said}"
    );
    assert!(
        said.contains("\n  src/kernels.cu:118 | if (i < n) bins[values[i]] += 1;\n"),
        "{said}"
    );
    assert!(!said.contains("finding: add"), "{said}");
    // A log that is no terminal hears of each source, and of each kernel.
    let progress = stderr(&output);
    for line in ["[3/3] ", "src/kernels.cu: 16 kernels\n", "[17/17] tried "] {
        assert!(progress.contains(line), "{line}: {progress}");
    }
    let written = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    insta::assert_snapshot!("init", written);
    assert!(stdout(&run(dir, &["validate"], 0)).contains("13 kernels"));
    // Editors find the keys.
    let schema = fs::read_to_string(dir.join("gates.schema.json")).unwrap();
    assert_eq!(schema, stdout(&run(dir, &["schema"], 0)));

    // Everything that can be is checked, and nothing is called right.
    run(dir, &["run", "--device", "sim"], 3);
    let judged: Value = serde_json::from_str(&report(dir)).unwrap();
    let verdicts = judged["verdicts"].as_array().unwrap();
    let of = |outcome: &str| -> Vec<&Value> {
        verdicts
            .iter()
            .filter(|verdict| verdict["outcome"] == outcome)
            .collect()
    };
    assert_eq!(failed(dir), []);
    let open = of("inconclusive");
    assert_eq!(open.len(), 9);
    assert!(
        open.iter().all(|verdict| verdict["code"] == "unreferenced"),
        "{open:?}"
    );
    let found = of("pass");
    assert_eq!(
        found
            .iter()
            .filter(|verdict| verdict["gate"] == "memory and races")
            .count(),
        13
    );

    // Those that a built-in reference matches are held to it.
    run(
        dir,
        &["run", "--device", "sim", "{add,row_sum,gemm,attend}"],
        0,
    );
    edit(
        &dir.join("src/kernels.cu"),
        "sum += A[row * K + k] * B[k * N + column];",
        "sum += A[row * K + k] * B[k * N + column] * 1.00001f;",
    );
    edit(
        &dir.join("src/kernels.cu"),
        "score *= rsqrtf(width);",
        "score *= 1.01f * rsqrtf(width);",
    );
    for kernel in ["gemm", "attend"] {
        run(dir, &["run", "--device", "sim", kernel], 1);
        let gates: Vec<String> = failed(dir).into_iter().map(|(_, gate)| gate).collect();
        assert!(
            gates.iter().any(|gate| gate.contains("max_err")),
            "{gates:?}"
        );
    }
}

/// Facts of a build are not guessed: without it the source that needs it is named, and so is a file that says nothing.
#[test]
fn a_source_that_its_build_explains_needs_the_explanation() {
    let project = copy_of(FIXTURE);
    let dir = project.path();
    fs::write(dir.join("compile_commands.json"), "{}").unwrap();
    // One kernel that compiles: each is tried in the simulator with many arguments.
    let kernel = "__global__ void set(float* y) { y[threadIdx.x] = 1; }\n";
    fs::write(dir.join("src/kernels.cu"), kernel).unwrap();
    run(dir, &["init", "--provision"], 0);
    let written = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    assert!(
        written.contains("\n# Not used: compile_commands.json: invalid type: map"),
        "{written}"
    );
    assert!(
        written
            .contains("# src/built.cu\n#   src/built.cu:3:2: error: #error \"the build says it\""),
        "{written}"
    );
    assert!(!written.contains("  times:"), "{written}");
}

/// Without a compiler nothing can be listed, and no file says so by being empty.
#[test]
fn sources_need_a_compiler() {
    let project = copy_of(FIXTURE);
    let dir = project.path();
    let output = common::gatekeeper()
        .current_dir(dir)
        .arg("init")
        .env("GATEKEEPER_CACHE", dir.join("cache"))
        .env("PATH", "/nowhere")
        .env("CUDA_HOME", "/nowhere")
        .env("CUDA_PATH", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("--provision"),
        "{}",
        stderr(&output)
    );
    assert!(!dir.join("gates.yaml").exists());
}

const WANTS: &str = "#include <cublas_v2.h>\n#ifndef BLOCK\n#error \"BLOCK\"\n#endif\n\
    static_assert(__cplusplus >= 202002L);\n\
    __global__ void twice(const float* x, float* y, int n)\n{\n    const int i = blockIdx.x * BLOCK + threadIdx.x;\n    \
    if (i < n) y[i] = 2 * x[i] * HANDLE;\n}\n";

/// A directory with a source that lacks a header, a macro and a flag, and one with the header.
fn lacking() -> (tempfile::TempDir, tempfile::TempDir) {
    let project = tempfile::tempdir().unwrap();
    fs::write(project.path().join("twice.cu"), WANTS).unwrap();
    let headers = tempfile::tempdir().unwrap();
    fs::write(headers.path().join("cublas_v2.h"), "#define HANDLE 1\n").unwrap();
    build::toolchain::testing::toolchain();
    (project, headers)
}

/// A python3 that says where its packages are, in front of the others.
fn path_with_python(dir: &std::path::Path, site: &std::path::Path) -> std::ffi::OsString {
    use std::os::unix::fs::PermissionsExt;
    let bin = dir.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let python = bin.join("python3");
    fs::write(
        &python,
        format!("#!/bin/sh\npwd >&2\necho site={}\n", site.display()),
    )
    .unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path))).unwrap()
}

const SETTINGS: [&str; 5] = ["init", "--define", "BLOCK=256", "--flags", "-std=c++20"];

/// The header, the places, the package and the flag are all named, and nothing is in the way of the next `init`.
#[test]
fn a_header_that_is_nowhere_is_named_with_its_package() {
    let (project, headers) = lacking();
    let dir = project.path();
    let output = common::gatekeeper()
        .current_dir(dir)
        .args(SETTINGS)
        .env("PATH", path_with_python(headers.path(), headers.path()))
        .env_remove("CPLUS_INCLUDE_PATH")
        .env("CPATH", "/nowhere")
        .output()
        .unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    let site = headers.path().join("nvidia/*/include");
    let places = format!(
        "looked in: the repository, CPATH, CPLUS_INCLUDE_PATH (not set), {}\n",
        site.display()
    );
    for part in [
        "error: none of 1 source compiles: cublas_v2.h is missing, for twice.cu; nothing was written\n",
        &places,
        "python3 -m pip install nvidia-cublas\n",
        "gatekeeper init --include DIR\n",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!dir.join("gates.yaml").exists());
}

#[test]
fn headers_are_found_where_they_are_named_and_where_compilers_and_pip_have_them() {
    let (project, headers) = lacking();
    let dir = project.path();
    let site = tempfile::tempdir().unwrap();
    let packaged = site.path().join("nvidia/cu13/include");
    fs::create_dir_all(&packaged).unwrap();
    fs::copy(
        headers.path().join("cublas_v2.h"),
        packaged.join("cublas_v2.h"),
    )
    .unwrap();
    let init = |more: &[&str], cpath: &std::path::Path, site: &std::path::Path| {
        let _ = fs::remove_file(dir.join("gates.yaml"));
        let output = common::gatekeeper()
            .current_dir(dir)
            .args(SETTINGS)
            .args(more)
            .env("PATH", path_with_python(headers.path(), site))
            .env_remove("CPLUS_INCLUDE_PATH")
            .env("CPATH", cpath)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        fs::read_to_string(dir.join("gates.yaml")).unwrap()
    };
    let nowhere = std::path::Path::new("/nowhere");
    let here = headers.path().to_str().unwrap();
    for (written, included) in [
        (
            init(&["--include", here, "twice.cu"], nowhere, nowhere),
            headers.path(),
        ),
        (init(&[], headers.path(), nowhere), headers.path()),
        (init(&[], nowhere, site.path()), packaged.as_path()),
    ] {
        let included = format!("    include_dirs: [\"{}\"]\n", included.display());
        for line in [
            &included,
            "    define: {BLOCK: 256}\n",
            "flags: [-O3, \"-std=c++20\"]\n",
            "# yaml-language-server: $schema=gates.schema.json\n",
        ] {
            assert!(written.contains(line), "{line}: {written}");
        }
    }
    // The file holds all that the compiler needs.
    run(dir, &["run", "--device", "sim"], 3);
}

#[test]
fn only_sources_that_are_named_are_looked_at() {
    let project = copy_of(FIXTURE);
    let dir = project.path();
    let said = stderr(&run(dir, &["init", "src/nothing.cu"], 2));
    assert!(said.contains("src/nothing.cu does not exist"), "{said}");
    fs::create_dir(dir.join("doc")).unwrap();
    let said = stderr(&run(dir, &["init", "doc"], 2));
    assert!(said.contains("doc is no source and has none"), "{said}");
    let said = stderr(&run(dir, &["init", "/tmp"], 2));
    assert!(said.contains("/tmp is outside of the directory"), "{said}");
    let said = stderr(&run(dir, &["init", "--include", "none", "src"], 2));
    assert!(
        said.contains("--include none: there is no such directory"),
        "{said}"
    );
    fs::write(
        dir.join("src/one.cu"),
        "__global__ void one(float* y) { y[threadIdx.x] = 1; }\n",
    )
    .unwrap();
    let said = stdout(&run(
        dir,
        &["init", "--provision", "src/one.cu", "only.yaml"],
        0,
    ));
    assert!(
        said.starts_with("wrote only.yaml: 1 of 1 kernel in 1 source\n"),
        "{said}"
    );
}

#[test]
fn kernels_of_one_name_in_two_sources_are_both_listed_and_one_of_a_header_once() {
    let project = tempfile::tempdir().unwrap();
    let dir = project.path();
    let header = "#pragma once\n__global__ void shared(float* y) { y[threadIdx.x] = 3; }\n";
    fs::write(dir.join("shared.cuh"), header).unwrap();
    for value in [1, 2] {
        let text = format!(
            "#include \"shared.cuh\"\n__global__ void own(float* y) {{ y[threadIdx.x] = {value}; }}\n"
        );
        fs::write(dir.join(format!("source{value}.cu")), text).unwrap();
    }
    let said = stdout(&run(dir, &["init", "--provision"], 0));
    assert!(
        said.starts_with("wrote gates.yaml: 3 of 3 kernels in 2 sources\n"),
        "{said}"
    );
    let written = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    let count = |text: &str| written.matches(text).count();
    assert_eq!(
        (count("entry: own"), count("entry: shared")),
        (2, 1),
        "{written}"
    );
}

/// A bf16 output of 4 is rounded by up to 2^-6: a limit of 1e-3 would fail a right kernel.
#[test]
fn a_right_kernel_holds_the_limit_of_its_type() {
    let project = tempfile::tempdir().unwrap();
    let dir = project.path();
    let source = "#include <cuda_bf16.h>\n\
        __global__ void add(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* out, int n)\n{\n    \
        const int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
        if (i < n) out[i] = __float2bfloat16(__bfloat162float(a[i]) + __bfloat162float(b[i]));\n}\n";
    fs::write(dir.join("add.cu"), source).unwrap();
    run(dir, &["init", "--provision"], 0);
    let written = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    assert!(written.contains("# matches add ("), "{written}");
    assert!(
        written.contains("    # rounding of bf16, values up to "),
        "{written}"
    );
    run(dir, &["run", "--device", "sim"], 0);
    edit(
        &dir.join("gates.yaml"),
        written
            .lines()
            .find(|line| line.contains("max_err:"))
            .unwrap(),
        "      max_err: 1e-3",
    );
    run(dir, &["run", "--device", "sim"], 1);
    let gates: Vec<String> = failed(dir).into_iter().map(|(_, gate)| gate).collect();
    assert!(
        gates.iter().any(|gate| gate.contains("max_err")),
        "{gates:?}"
    );
}

#[test]
fn ptx_is_a_source() {
    let project = tempfile::tempdir().unwrap();
    let dir = project.path();
    let ptx = ".version 8.0\n.target sm_90\n.address_size 64\n\
        .visible .entry halve(\n\t.param .u64 halve_param_0,\n\t.param .u64 halve_param_1,\n\t.param .u32 halve_param_2\n)\n{\n\
        \t.reg .pred %p<2>;\n\t.reg .b32 %r<6>;\n\t.reg .f32 %f<3>;\n\t.reg .b64 %rd<8>;\n\
        \tld.param.u64 %rd1, [halve_param_0];\n\tld.param.u64 %rd2, [halve_param_1];\n\
        \tld.param.u32 %r1, [halve_param_2];\n\tmov.u32 %r2, %ctaid.x;\n\tmov.u32 %r3, %ntid.x;\n\
        \tmov.u32 %r4, %tid.x;\n\tmad.lo.s32 %r5, %r2, %r3, %r4;\n\tsetp.ge.s32 %p1, %r5, %r1;\n\t@%p1 bra DONE;\n\
        \tcvta.to.global.u64 %rd3, %rd1;\n\tcvta.to.global.u64 %rd4, %rd2;\n\tmul.wide.s32 %rd5, %r5, 4;\n\
        \tadd.s64 %rd6, %rd3, %rd5;\n\tadd.s64 %rd7, %rd4, %rd5;\n\tld.global.f32 %f1, [%rd6];\n\
        \tneg.f32 %f2, %f1;\n\tst.global.f32 [%rd7], %f2;\nDONE:\n\tret;\n}\n";
    fs::write(dir.join("halve.ptx"), ptx).unwrap();
    let said = stdout(&run(dir, &["init", "--provision"], 0));
    assert!(
        said.starts_with("wrote gates.yaml: 1 of 1 kernel in 1 source; 1 with a built-in"),
        "{said}"
    );
    let written = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    assert!(written.contains("# matches neg (exactly)"), "{written}");
    run(dir, &["run", "--device", "sim"], 0);
}
