//! Tests `capture` and `replay` on a driver without a GPU (tests/fixtures/capture/driver.c): a program's launches are
//! written down, and the simulator runs them again.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::binaries::nvcc;
use crate::common::{binary, edit, gatekeeper, root, run, stderr, stdout};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Once;
use tempfile::TempDir;

/// Makes a project with `libcuda.so.1`, `program` and the module `scale.fatbin`, for sm_90 and as PTX.
fn project() -> TempDir {
    place_library();
    let dir = tempfile::tempdir().unwrap();
    make_driver(dir.path());
    compile_host(dir.path(), &[], "program", "program.c");
    let sources = root().join("tests/fixtures/capture");
    let source = sources.join("scale.cu").display().to_string();
    compile(dir.path(), &source);
    dir
}

/// Builds the driver without a GPU, as `libcuda.so.1`.
pub fn make_driver(dir: &Path) {
    compile_host(dir, &["-shared", "-fPIC"], "libcuda.so.1", "driver.c");
}

fn compile_host(dir: &Path, options: &[&str], out: &str, source: &str) {
    let mut cc = Command::new("cc");
    cc.current_dir(dir).args(options).args(["-w", "-o", out]);
    let source = root().join("tests/fixtures/capture").join(source);
    let built = cc.arg(source).arg("-ldl").status().unwrap();
    assert!(built.success());
}

/// Builds the module of an edited kernel, as `scale.fatbin`.
fn edit_kernel(dir: &Path, old: &str, new: &str) {
    let kernel = root().join("tests/fixtures/capture/scale.cu");
    std::fs::copy(kernel, dir.join("scale.cu")).unwrap();
    edit(&dir.join("scale.cu"), old, new);
    compile(dir, "scale.cu");
}

fn compile(dir: &Path, source: &str) {
    let both = [
        "-fatbin",
        "-lineinfo",
        "-gencode",
        "arch=compute_90,code=sm_90",
        "-gencode",
        "arch=compute_90,code=compute_90",
        "-o",
        "scale.fatbin",
        source,
    ];
    nvcc(dir, &both);
}

/// Puts the library next to the program, where the program looks for it. Cargo leaves the library of a dependency in
/// `deps`.
pub fn place_library() {
    static PLACED: Once = Once::new();
    PLACED.call_once(|| {
        let name = "libgatekeeper_inject.so";
        let (place, built) = (
            binary().with_file_name(name),
            binary().with_file_name("deps"),
        );
        if let Ok(built) = built.join(name).canonicalize() {
            // It may already be a link to the same file, which a copy would empty.
            let _ = std::fs::remove_file(&place);
            std::fs::hard_link(built, &place).unwrap();
        }
        assert!(place.is_file(), "{}", place.display());
    });
}

/// Captures the program with these options and variables.
fn capture(dir: &Path, options: &[&str], arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    gatekeeper()
        .current_dir(dir)
        .args(["capture", "--out", "cap"])
        .args(options)
        .args(["--", "./program", "scale.fatbin"])
        .args(arguments)
        .env("LD_LIBRARY_PATH", dir)
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn captured(dir: &Path, options: &[&str], variables: &[(&str, &str)]) -> String {
    let output = capture(dir, options, &[], variables);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// Returns how often the program launched each kernel according to the capture: `scale 3`, or `scale in decode 3`.
fn counted(dir: &Path) -> Vec<String> {
    let files = std::fs::read_dir(dir.join("cap")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let lines = files.filter(|file| {
        file.extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    let text: String = lines
        .map(|line| std::fs::read_to_string(line).unwrap())
        .collect();
    text.lines()
        .map(|line| -> serde_json::Value { serde_json::from_str(line).unwrap() })
        .filter_map(|line| {
            let launched = line.get("launched")?;
            let region = launched.get("region").and_then(|region| region.as_str());
            let region = region.map_or(String::new(), |region| format!(" in {region}"));
            let kernel = launched["kernel"].as_str().unwrap();
            Some(format!("{kernel}{region} {}", launched["launches"]))
        })
        .collect()
}

#[test]
fn a_program_that_ends_by_itself_says_how_often_it_launched_each_kernel() {
    let project = project();
    let dir = project.path();
    for (options, mode, wanted) in [
        (&["--launches", "1"][..], "", "scale 3"),
        (&["--launches", "8"], "", "scale 3"),
        // The graph has two kernels and is launched twice. One launch happens beside the recording.
        (&["--launches", "1"], "graph", "scale 4"),
        (&["--launches", "8"], "graph", "scale 4"),
        (&["--launches", "1"], "graph beside", "scale 5"),
    ] {
        let (code, said) = captured_as_alone(dir, options, mode, &[]);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(counted(dir), [wanted], "{mode} {options:?}");
    }
    let (_, said) = captured_as_alone(dir, &[], "killed", &[]);
    assert!(counted(dir).is_empty(), "{said}");
}

#[test]
fn captured_launches_are_replayed_with_the_same_output() {
    let project = project();
    let dir = project.path();
    let said = captured(dir, &["--launches", "2"], &[]);
    // The program prints its own output. Each kernel has the memory that it could reach and that it changed.
    assert!(said.contains("sum 2.4975e+06"), "{said}");
    assert!(
        said.contains("       2            16             8  scale"),
        "{said}"
    );
    let said = stdout(&run(dir, &["replay", "cap", "--device", "sim"], 0));
    assert!(said.contains("scale/captured@launch1        0"), "{said}");
    assert!(said.contains("scale/captured@launch2        0"), "{said}");
    let said = stdout(&run(
        dir,
        &["replay", "cap", "--device", "sim", "scale@launch2"],
        0,
    ));
    assert!(!said.contains("launch1"), "{said}");
}

#[test]
fn an_output_that_the_program_did_not_have_fails() {
    let project = project();
    let dir = project.path();
    captured(dir, &[], &[("WRONG", "1")]);
    let said = stdout(&run(dir, &["replay", "cap", "--device", "sim"], 1));
    // The kernel's name has the types of its parameters.
    assert!(
        said.contains("the output differs: parameter 3, element 1 = 3, want 4"),
        "{said}"
    );
    assert!(said.contains("(f32; "), "{said}");
    assert!(
        said.contains("$ gatekeeper replay 'cap' --device sim 'scale/captured@launch1'"),
        "{said}"
    );
}

#[test]
fn floats_of_outputs_may_differ_by_a_tolerance_and_no_more() {
    let project = project();
    let dir = project.path();
    let replay = |more: &[&str], code| {
        let options = [&["replay", "cap", "--device", "sim"], more].concat();
        stdout(&run(dir, &options, code))
    };
    captured(dir, &[], &[("ROUNDED", "1")]);
    let said = replay(&[], 1);
    let suggested = said.split_once("`--tolerance ").unwrap().1;
    let suggested = suggested.split('`').next().unwrap();
    replay(&["--tolerance", suggested], 0);
    replay(&["--tolerance", "f32:1e-5"], 0);
    let said = replay(&["--tolerance", "f32:1e-8"], 1);
    assert!(said.contains("limit <= 1.000e-8"), "{said}");
    let again = "$ gatekeeper replay 'cap' --tolerance f32:1e-8 --device sim";
    assert!(said.contains(again), "{said}");
    // Read as halves, the lower halves of these floats are arbitrary numbers.
    replay(&["--tolerance", "bf16:1e-2"], 1);
    run(dir, &["replay", "cap", "--tolerance", "i32:1e-5"], 2);
    std::fs::rename(dir.join("cap"), dir.join("old")).unwrap();
    captured(dir, &[], &[]);
    let against = ["--base", "old", "--tolerance", "f32:1e-5"];
    replay(&against, 0);
    replay(&against[..2], 1);
    std::fs::remove_dir_all(dir.join("cap")).unwrap();
    captured(dir, &[], &[("WRONG", "1")]);
    replay(&["--tolerance", "f32:1e-5"], 1);
}

/// Returns the exit code and the output of `capture`, after it has checked that the program prints the same under
/// capture as alone.
fn captured_as_alone(
    dir: &Path,
    options: &[&str],
    mode: &str,
    variables: &[(&str, &str)],
) -> (Option<i32>, String) {
    let alone = Command::new(dir.join("program"))
        .current_dir(dir)
        .args(["scale.fatbin", mode])
        .env("LD_LIBRARY_PATH", dir)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let _ = std::fs::remove_dir_all(dir.join("cap"));
    let output = capture(dir, options, &[mode], variables);
    let (alone, said) = (stdout(&alone), stdout(&output));
    assert!(!alone.is_empty(), "{mode}");
    assert!(said.starts_with(&alone), "{mode}: {alone}{said}");
    (output.status.code(), said + &stderr(&output))
}

#[test]
fn kernels_of_graphs_are_captured_when_the_graph_is_launched() {
    let project = project();
    let dir = project.path();
    // The graph is recorded, has the parameters of one node set afterwards, or is launched while another stream
    // launches.
    for (mode, also) in [
        ("graph", ""),
        ("graph set", ""),
        (
            "graph beside",
            "another stream was recorded into a CUDA graph",
        ),
    ] {
        let (code, said) = captured_as_alone(dir, &["--launches", "3"], mode, &[]);
        assert_eq!(code, Some(0), "{mode}: {said}");
        assert!(said.contains("3 launches in cap"), "{mode}: {said}");
        assert!(said.contains(also), "{mode}: {said}");
        run(dir, &["replay", "cap", "--device", "sim"], 0);
    }
    for (mode, why) in [
        (
            "graph host",
            "a node that cannot be run alone: a host function",
        ),
        (
            "graph update",
            "its CUDA graph was updated after it was made",
        ),
        ("graph device", "its CUDA graph can be launched by kernels"),
        (
            "graph nested",
            "a node that cannot be run alone: a graph\n          ?",
        ),
    ] {
        let (code, said) = captured_as_alone(dir, &[], mode, &[]);
        assert!(said.contains(why), "{mode}: {said}");
        assert_eq!(code, Some(4), "{mode}: {said}");
    }
}

#[test]
fn floats_of_the_program_are_not_in_a_capture_with_random_inputs() {
    let project = project();
    let dir = project.path();
    for (options, mode, is_there) in [
        (&["--launches", "3"][..], "", true),
        (&["--launches", "3", "--random-inputs"], "", false),
        (&["--launches", "3", "--random-inputs"], "graph", false),
    ] {
        let (code, said) = captured_as_alone(dir, options, mode, &[]);
        assert_eq!(code, Some(0), "{mode}: {said}");
        assert_eq!(holds(&dir.join("cap"), 997.0), is_there, "{mode}");
        let random = "random inputs: 20 KiB. Still the program's: 0 KiB\n";
        assert_eq!(said.contains(random), !is_there, "{mode}: {said}");
        run(dir, &["replay", "cap", "--device", "sim"], 0);
    }
    // A tensor map in memory stays a tensor map.
    std::fs::remove_dir_all(dir.join("cap")).unwrap();
    capture(dir, &["--random-inputs"], &["stored"], &[]);
    run(dir, &["replay", "cap", "--device", "sim"], 0);
    // Captures of two versions have the same random inputs.
    std::fs::remove_dir_all(dir.join("cap")).unwrap();
    captured(dir, &["--launches", "3", "--random-inputs"], &[]);
    captured_again(dir);
    let against_old = ["replay", "cap", "--base", "old", "--device", "sim"];
    run(dir, &against_old, 0);
    edit_kernel(
        dir,
        "in.data[i] * factor",
        "i == 999 ? 1 : in.data[i] * factor",
    );
    captured_again(dir);
    let said = stdout(&run(dir, &against_old, 1));
    assert!(said.contains("element 999 = 1, want "), "{said}");
}

/// Moves the capture in `cap` to `old`, and captures again.
fn captured_again(dir: &Path) {
    let _ = std::fs::remove_dir_all(dir.join("old"));
    std::fs::rename(dir.join("cap"), dir.join("old")).unwrap();
    captured(dir, &["--launches", "3", "--random-inputs"], &[]);
}

/// Returns true if a value of the program is anywhere in the memory of a capture.
fn holds(capture: &Path, value: f32) -> bool {
    let contents = capture::Contents::new(capture);
    let all = capture::Capture::read(capture).unwrap();
    let mut memory = all.launches().flat_map(|launch| &launch.allocations);
    memory.any(|memory| {
        [Some(&memory.before), memory.after.as_ref()]
            .into_iter()
            .flatten()
            .any(|content| {
                let bytes = contents.get(content).unwrap();
                bytes.as_chunks::<4>().0.contains(&value.to_le_bytes())
            })
    })
}

#[test]
fn a_kernel_that_cannot_run_on_random_inputs_is_named() {
    let project = project();
    let options = ["--random-inputs"];
    let output = capture(project.path(), &options, &[], &[("FRAGILE", "1")]);
    let said = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("it failed on random inputs with CUDA error 700"),
        "{said}"
    );
}

#[test]
fn memory_has_the_same_addresses_again_whoever_placed_it() {
    let project = project();
    let dir = project.path();
    for (mode, reached) in [
        // Memory is allocated in the order of a stream, and mapped by the program in two pieces.
        ("async", "       1             8             4  scale"),
        ("map", "       1          4096          4096  scale"),
    ] {
        let (code, said) = captured_as_alone(dir, &[], mode, &[]);
        assert_eq!(code, Some(0), "{mode}: {said}");
        assert!(said.contains(reached), "{mode}: {said}");
        run(dir, &["replay", "cap", "--device", "sim"], 0);
    }
}

#[test]
fn launches_that_cannot_be_captured_are_named() {
    let project = project();
    let dir = project.path();
    for (mode, options, variables, why) in [
        (
            "",
            &[][..],
            &[("STOLEN", "1")][..],
            "the addresses that captures use are taken",
        ),
        ("managed", &[], &[], "it reaches managed memory"),
        ("pinned", &[], &[], "it reaches pinned memory of the host"),
        ("pool", &[], &[], "memory of a pool that is shared"),
        (
            "pool",
            &[],
            &[("PEER", "1")],
            "it reaches memory of another GPU",
        ),
        (
            "map twice",
            &[],
            &[],
            "memory that is shared, is mapped twice",
        ),
        (
            "",
            &["--max-memory", "4KiB"],
            &[],
            "the limit is 0 MiB (--max-memory)",
        ),
    ] {
        let (code, said) = captured_as_alone(dir, options, mode, variables);
        assert!(said.contains("sum ") && said.contains(why), "{said}");
        assert_eq!(code, Some(4), "{said}");
    }
    edit_kernel(
        dir,
        "in.data[i] * factor",
        "tex1Dfetch<float>((cudaTextureObject_t)in.data, i)",
    );
    let (code, said) = captured_as_alone(dir, &[], "", &[]);
    assert!(said.contains("it uses textures or surfaces"), "{said}");
    assert_eq!(code, Some(4), "{said}");
    compile_host(
        dir,
        &["-shared", "-fPIC", "-DOLD"],
        "libcuda.so.1",
        "driver.c",
    );
    let (code, said) = captured_as_alone(dir, &[], "", &[]);
    assert!(
        said.contains("the driver has no cuFuncGetParamInfo"),
        "{said}"
    );
    assert_eq!(code, Some(4), "{said}");
}

#[test]
fn a_program_that_dies_leaves_the_launches_before() {
    let project = project();
    let dir = project.path();
    let (code, said) = captured_as_alone(dir, &["--launches", "2"], "killed", &[]);
    assert!(
        said.contains("`./program` failed (killed by SIGKILL)"),
        "{said}"
    );
    assert_eq!(code, Some(4), "{said}");
    let said = stdout(&run(dir, &["replay", "cap", "--device", "sim"], 0));
    assert!(said.contains("scale/captured@launch2"), "{said}");
    // Without memory, the program fails where it fails alone.
    let (code, said) = captured_as_alone(dir, &[], "", &[("FULL", "1")]);
    assert!(said.starts_with("cuMemAlloc\n"), "{said}");
    assert_eq!(code, Some(4), "{said}");
}

#[test]
fn a_program_that_fails_or_launches_nothing_is_no_capture() {
    let project = project();
    let dir = project.path();
    let failed = capture(dir, &[], &["fail"], &[]);
    assert_eq!(failed.status.code(), Some(4));
    assert!(
        stderr(&failed).contains("`./program` failed (exit code 7)"),
        "{}",
        stderr(&failed)
    );
    // Its launches can be run all the same.
    run(dir, &["replay", "cap", "--device", "sim"], 0);
    for (arguments, code, why) in [
        (
            &["--out", "none", "--", "true"][..],
            4,
            "used no CUDA function",
        ),
        (
            &["--out", "other", "--", "no-such-program"][..],
            2,
            "cannot be run",
        ),
        (
            &["--out", "cap", "--", "true"][..],
            2,
            "it has files already",
        ),
        (&["--out", "x"][..], 2, "<COMMAND>..."),
    ] {
        let output = run(dir, &[&["capture"], arguments].concat(), code);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn tensor_maps_are_the_simulators_in_a_replay() {
    // The driver's own bytes mean nothing to the simulator. Only what the program had encoded counts.
    let wrong = &[("WRONG", "1")][..];
    for (how, variables, kernel) in [
        ("tiles", &[][..], "scale_tiles"),
        ("moved", &[][..], "scale_tiles"),
        ("tiles", wrong, "scale_tiles"),
        ("im2col", &[][..], "scale_pixels"),
        ("im2col moved", &[][..], "scale_pixels"),
        ("im2col", wrong, "scale_pixels"),
        ("stored", &[][..], "scale_stored"),
        ("stored", wrong, "scale_stored"),
    ] {
        let code = i32::from(variables == wrong);
        let project = project();
        let dir = project.path();
        let output = capture(dir, &[], &[how], variables);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let said = stdout(&run(dir, &["replay", "cap", "--device", "sim"], code));
        let launch = format!("{kernel}/captured@launch1");
        assert!(said.contains(&launch), "{said}");
        assert_eq!(said.contains("the output differs: "), code == 1, "{said}");
    }
}

#[test]
fn tensor_maps_that_the_simulator_does_not_have_are_named_and_the_others_are_judged() {
    let project = project();
    let dir = project.path();
    let output = capture(dir, &[], &["interleaved"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stderr(&run(dir, &["replay", "cap", "--device", "sim"], 4));
    let why = "the simulator has no tensor maps with an interleaved layout";
    let refused = format!("scale_tiles/captured@launch1: {why}");
    assert!(said.contains(&refused), "{said}");
    // The other launches are judged all the same.
    for (variables, code) in [(&[("WRONG", "1")][..], 1), (&[][..], 3)] {
        std::fs::remove_dir_all(dir.join("cap")).unwrap();
        let output = capture(dir, &["--launches", "2"], &["both"], variables);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let output = run(dir, &["replay", "cap", "--device", "sim"], code);
        let said = stdout(&output) + &stderr(&output);
        let named = format!("scale_tiles/captured@launch1 is not replayed: {why}");
        assert!(said.contains(&named), "{said}");
        let tail = "1 case not replayed, so this is no pass";
        assert_eq!(said.contains(tail), code == 3, "{said}");
        let replay = |launch, code| {
            let filter = format!("scale_tiles@{launch}");
            stderr(&run(
                dir,
                &["replay", "cap", "--device", "sim", &filter],
                code,
            ))
        };
        let said = replay("launch1", 4);
        assert!(said.contains(&refused), "{said}");
        replay("launch2", if code == 3 { 0 } else { 1 });
    }
    // If neither side can run a launch, there is nothing to compare it with.
    for (mode, code, why) in [
        ("both", 3, "launch1 is not replayed"),
        ("tiles twice", 3, "launch1"),
    ] {
        let _ = std::fs::remove_dir_all(dir.join("old"));
        std::fs::rename(dir.join("cap"), dir.join("old")).unwrap();
        capture(dir, &["--launches", "2"], &[mode], &[]);
        let against_old = ["replay", "cap", "--base", "old", "--device", "sim"];
        let output = run(dir, &against_old, code);
        let said = stdout(&output) + &stderr(&output);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_kernel_that_changes_tensor_maps_is_named_and_no_other_one_of_its_module() {
    let project = project();
    let dir = project.path();
    let kernel = root().join("tests/fixtures/capture/scale.cu");
    let text = std::fs::read_to_string(kernel).unwrap();
    let change = "if (in.n < 0) asm volatile(\"tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;\"
        :: \"l\"(__cvta_generic_to_global(out)), \"l\"(out) : \"memory\");\n  long i =";
    std::fs::write(dir.join("scale.cu"), text.replacen("long i =", change, 1)).unwrap();
    let code = "arch=compute_90a,code=[sm_90a,compute_90a]";
    let out = ["-o", "scale.fatbin", "scale.cu"];
    nvcc(dir, &[&["-fatbin", "-gencode", code][..], &out].concat());
    let why = "it changes tensor maps, whose bytes are others in the simulator";
    for (mode, code, named) in [("", 4, true), ("tiles", 0, false)] {
        let _ = std::fs::remove_dir_all(dir.join("cap"));
        let output = capture(dir, &[], &[mode], &[]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let said = stderr(&run(dir, &["replay", "cap", "--device", "sim"], code));
        assert_eq!(said.contains(why), named, "{said}");
    }
}

#[test]
fn a_kernel_without_ptx_is_named_and_the_others_are_judged() {
    let project = project();
    let dir = project.path();
    std::fs::rename(dir.join("scale.fatbin"), dir.join("both.fatbin")).unwrap();
    let source = root().join("tests/fixtures/capture/scale.cu");
    let source = source.display().to_string();
    let cubin = ["-cubin", "-arch=sm_90", "-o", "scale.fatbin", &source];
    nvcc(dir, &cubin);
    captured(dir, &[], &[]);
    let replay = |code| {
        let output = run(dir, &["replay", "cap", "--device", "sim"], code);
        stdout(&output) + &stderr(&output)
    };
    let why = "its module has no PTX, which the simulator runs";
    let said = replay(4);
    let refused = format!("scale/captured@launch1: {why}");
    assert!(said.contains(&refused), "{said}");
    // The capture has another process.
    let first = std::fs::read_dir(dir.join("cap")).unwrap();
    let first = first.map(|entry| entry.unwrap().path());
    let first = first.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    let lines: Vec<_> = first.map(|path| std::fs::read(path).unwrap()).collect();
    std::fs::rename(dir.join("cap/contents"), dir.join("contents")).unwrap();
    std::fs::remove_dir_all(dir.join("cap")).unwrap();
    std::fs::rename(dir.join("both.fatbin"), dir.join("scale.fatbin")).unwrap();
    captured(dir, &[], &[]);
    std::fs::write(dir.join("cap/process-1.jsonl"), lines.concat()).unwrap();
    for entry in std::fs::read_dir(dir.join("contents")).unwrap() {
        let entry = entry.unwrap();
        let to = dir.join("cap/contents").join(entry.file_name());
        std::fs::rename(entry.path(), to).unwrap();
    }
    let said = replay(3);
    let named = format!("scale/captured@launch1 is not replayed: {why}");
    assert!(said.contains(&named), "{said}");
    assert!(said.contains("scale-2/captured@launch1        0"), "{said}");
    assert!(said.contains("1 case not replayed"), "{said}");
}

#[test]
fn an_edit_is_held_to_what_the_base_gave_on_the_same_inputs() {
    let project = project();
    let dir = project.path();
    captured(dir, &[], &[]);
    std::fs::rename(dir.join("cap"), dir.join("old")).unwrap();
    let against_old = ["replay", "cap", "--base", "old", "--device", "sim"];
    // This edit changes the words and not the result.
    edit_kernel(dir, "in.data[i] * factor", "factor * in.data[i]");
    captured(dir, &[], &[]);
    run(dir, &against_old, 0);
    std::fs::remove_dir_all(dir.join("cap")).unwrap();
    // This edit makes the tail wrong. The driver here computes the same whatever the module says, so only the replay
    // can find it.
    edit_kernel(
        dir,
        "in.data[i] * factor",
        "i == 999 ? 1 : in.data[i] * factor",
    );
    captured(dir, &[], &[]);
    let said = stdout(&run(dir, &against_old, 1));
    assert!(said.contains("element 999 = 1, want "), "{said}");
    assert!(
        said.contains("$ gatekeeper replay 'cap' --base 'old' --device sim"),
        "{said}"
    );
    assert!(!said.contains("LOOSENED"), "{said}");
    std::fs::remove_dir_all(dir.join("cap")).unwrap();
    // The program has other results. The second launch also runs on what the base's first launch left.
    captured(dir, &["--launches", "2"], &[("WRONG", "1")]);
    std::fs::remove_dir_all(dir.join("old")).unwrap();
    std::fs::rename(dir.join("cap"), dir.join("old")).unwrap();
    captured(dir, &["--launches", "2"], &[]);
    let said = stdout(&run(dir, &against_old, 1));
    assert!(said.contains("1 problem (2 gates)"), "{said}");
    // The memory is in another place, so there is nothing that both sides could run on.
    std::fs::remove_dir_all(dir.join("cap")).unwrap();
    capture(dir, &["--launches", "2"], &["elsewhere"], &[]);
    let output = run(dir, &against_old, 2);
    let said = stderr(&output);
    assert!(
        said.contains("no launch is in both captures with the same inputs"),
        "{said}"
    );
    let output = run(dir, &["replay", "cap", "--base", "cap"], 2);
    assert!(stderr(&output).contains("it is its own base"));
}

#[test]
fn only_kernels_that_are_named_are_captured() {
    let project = project();
    let dir = project.path();
    let output = capture(dir, &["--kernels", "*other*"], &[], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no launch has one of these names"));
    std::fs::remove_dir_all(dir.join("cap")).unwrap();
    captured(dir, &["--kernels", "sc*"], &[]);
}

/// A program that makes the launches of tests/fixtures/capture/program.c in two nested regions, from Python with the
/// package of the wheel.
const PROGRAM: &str = r#"
import ctypes, struct, gatekeeper
cuda = ctypes.CDLL("libcuda.so.1")
image = ctypes.create_string_buffer(open("scale.fatbin", "rb").read(), 1 << 20)
module, function, data, out = (ctypes.c_void_p() for _ in range(4))
assert not cuda.cuModuleLoadData(ctypes.byref(module), image)
assert not cuda.cuModuleGetFunction(ctypes.byref(function), module, b"scale")
for pointer in data, out:
    assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4000))
host = (ctypes.c_float * 1000)(*range(1000))
assert not cuda.cuMemcpyHtoD_v2(data, host, ctypes.c_size_t(4000))
values = [ctypes.create_string_buffer(struct.pack("<Qq", data.value, 1000)), ctypes.c_float(3), out]
parameters = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))

def launch():
    assert not cuda.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, None, parameters, None)

@gatekeeper.region("step")
def step():
    for _ in range(3): launch()

launch()
with gatekeeper.region("decode"):
    step()
try:
    with gatekeeper.region("failing"): raise KeyError
except KeyError: launch()
for name in "", "a/b", "a\0b":
    try:
        with gatekeeper.region(name): launch()
    except ValueError: continue
    raise SystemExit(f"{name!r} is a name")
print("done")
"#;

#[test]
fn launches_are_captured_in_regions_of_a_python_program() {
    let project = project();
    let dir = project.path();
    std::fs::write(dir.join("bench.py"), PROGRAM).unwrap();
    let python = |arguments: &[&str]| {
        let output = gatekeeper()
            .current_dir(dir)
            .args(["capture", "--out", "cap"])
            .args(arguments)
            .args(["--", "python3", "bench.py"])
            .env("LD_LIBRARY_PATH", dir)
            .env("PYTHONPATH", root().join("python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap();
        let said = stdout(&output) + &stderr(&output);
        (output.status.code(), said)
    };
    let (code, said) = python(&["--regions", "st*", "--launches", "2"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("done"), "{said}");
    assert!(said.contains("  scale  in decode/step"), "{said}");
    assert!(said.contains("2 launches in cap"), "{said}");
    run(dir, &["replay", "cap", "--device", "sim"], 0);

    std::fs::remove_dir_all(dir.join("cap")).unwrap();
    let (_, said) = python(&[]);
    assert!(
        said.contains("2 launches in cap"),
        "one in each region: {said}"
    );
    assert_eq!(counted(dir), ["scale 2", "scale in decode/step 3"]);

    std::fs::remove_dir_all(dir.join("cap")).unwrap();
    let (code, said) = python(&["--regions", "prefill"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("is in one of these regions"), "{said}");

    let alone = Command::new("python3")
        .args([
            "-c",
            "import gatekeeper\nwith gatekeeper.region('x'): print('ran')",
        ])
        .env("PYTHONPATH", root().join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output();
    assert_eq!(stdout(&alone.unwrap()), "ran\n");
}

#[test]
fn a_damaged_capture_and_a_missing_gpu_are_no_pass() {
    let project = project();
    let dir = project.path();
    captured(dir, &[], &[]);
    if !crate::common::has_gpu() {
        // There is machine code, but nothing that could run it.
        run(dir, &["replay", "cap"], 4);
    }
    for file in std::fs::read_dir(dir.join("cap/contents")).unwrap() {
        std::fs::write(file.unwrap().path(), "damaged").unwrap();
    }
    let output = run(dir, &["replay", "cap", "--device", "sim"], 4);
    assert!(
        stderr(&output).contains("cannot be read"),
        "{}",
        stderr(&output)
    );
    let output = run(dir, &["replay", "nowhere"], 4);
    assert!(
        stderr(&output).contains("nowhere cannot be read"),
        "{}",
        stderr(&output)
    );
    std::fs::create_dir(dir.join("empty")).unwrap();
    let output = run(dir, &["replay", "empty"], 2);
    assert!(
        stderr(&output).contains("it has no launches"),
        "{}",
        stderr(&output)
    );
}
