//! Machines that are short of something, and trees that want more than to be compiled: no GPU needed.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{binary, edit, fresh_cache, gatekeeper, git, project, report, run, stderr, stdout};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::SystemTime;

fn shell(dir: &Path, script: &str) -> Output {
    std::process::Command::new("bash")
        .current_dir(dir)
        .args(["-c", script])
        .env("GK", binary())
        .output()
        .unwrap()
}

#[test]
fn little_memory_is_a_sentence() {
    let project = project();
    let output = shell(project.path(), "ulimit -v 300000; \"$GK\" validate");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(
        stderr(&output),
        "error: the address space is limited to 292 MiB, and gatekeeper needs 1024 MiB\n  \
         help: raise the limit: ulimit -v unlimited\n"
    );
}

#[test]
fn a_hundred_thousand_threads_are_not_started() {
    let project = project();
    let output = gatekeeper()
        .current_dir(project.path())
        .arg("validate")
        .env("RAYON_NUM_THREADS", "100000")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_path_with_a_line_break_is_no_command_to_a_runner() {
    let project = project();
    edit(
        &project.path().join("gates.yaml"),
        "source: copy.cu",
        "source: \"x.cu\\n::error title=hi::pwned ##[error]x\"",
    );
    for args in [&["validate"][..], &["run"], &["doctor"]] {
        let output = gatekeeper()
            .current_dir(project.path())
            .args(args)
            .output()
            .unwrap();
        for text in [stdout(&output), stderr(&output)] {
            for line in text.lines() {
                assert!(!line.trim_start().starts_with("::"), "{args:?}: {line}");
                assert!(!line.contains("##["), "{args:?}: {line}");
            }
        }
    }
}

#[test]
fn flags_that_run_programs_are_mistakes_at_their_line() {
    let project = project();
    let gates = project.path().join("gates.yaml");
    edit(
        &gates,
        "    entry: copy\n",
        "    entry: copy\n    flags: [\"-Xcompiler=-fplugin=./x.so\"]\n",
    );
    let output = run(project.path(), &["validate"], 2);
    assert_eq!(
        stderr(&output),
        "error: gates.yaml:8:13: kernels.copy.flags[0]: `-Xcompiler=-fplugin=./x.so` is not allowed in `flags`: it \
         makes a compiler run another program\n  help: NVCC_CCBIN in the environment of gatekeeper names the host \
         compiler\n"
    );
}

/// nvcc runs other programs through a shell.
fn run_with_cache(name: &str) -> Output {
    let project = project();
    let cache = fresh_cache(name);
    gatekeeper()
        .current_dir(project.path())
        .arg("run")
        .env("GATEKEEPER_CACHE", cache.path())
        .output()
        .unwrap()
}

#[test]
fn paths_that_a_shell_would_read_work_or_are_refused() {
    let output = run_with_cache("a b';&(*#~[{!é%=,@+|<\\");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    for refused in ['"', '$', '`', ':', '\n'] {
        let output = run_with_cache(&format!("a{refused}HOME"));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(4), "{refused}: {said}");
        assert!(said.contains("which nvcc's shell would read"), "{said}");
        assert!(
            said.ends_with(
                "\n  help: set GATEKEEPER_CACHE to a directory without one in its path\n"
            )
        );
    }
}

/// All that lies below, with when it was last changed.
fn state(dir: &Path) -> BTreeMap<PathBuf, (SystemTime, Option<Vec<u8>>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let data = path.symlink_metadata().unwrap();
        let content = data.is_file().then(|| std::fs::read(&path).unwrap());
        found.insert(path.clone(), (data.modified().unwrap(), content));
        if data.is_dir() {
            found.extend(state(&path));
        }
    }
    found
}

/// How many units were compiled, and how many found.
fn compiled(dir: &Path) -> (u64, u64) {
    let report: serde_json::Value = serde_json::from_str(&report(dir)).unwrap();
    let of = |name: &str| report["costs"][name].as_u64().unwrap();
    (of("compiled"), of("cached"))
}

/// As a pull request is run: with a cache of its own, beside the one that all share.
#[test]
fn files_of_a_pull_request_stay_in_its_own_cache() {
    let (project, shared) = (project(), fresh_cache("shared"));
    let own = tempfile::tempdir().unwrap();
    let run = |caches: &[(&str, &Path)]| {
        let mut run = gatekeeper();
        run.current_dir(project.path()).args(["run", "copy"]);
        run.env_remove("GATEKEEPER_SHARED_CACHE");
        let output = run.envs(caches.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        compiled(project.path())
    };
    let as_pull_request = || {
        run(&[
            ("GATEKEEPER_SHARED_CACHE", shared.path()),
            ("GATEKEEPER_CACHE", own.path()),
        ])
    };
    assert_eq!(run(&[("GATEKEEPER_CACHE", shared.path())]), (1, 0));
    let before = state(shared.path());

    // Everything is there: compiler, program, expected outputs, inputs.
    assert_eq!(as_pull_request(), (0, 1));
    // Without a GPU nothing is simulated again, so that no input is made.
    let made = |dir: &str| match own.path().join(dir) {
        dir if dir.exists() => state(&dir).len(),
        _ => 0,
    };
    let parts = [
        "build/manifests",
        "build/objects",
        "references",
        "inputs",
        "simulated",
    ];
    for dir in parts {
        assert_eq!(made(dir), 0, "{dir}");
        assert!(!state(&shared.path().join(dir)).is_empty(), "{dir}");
    }
    assert!(!own.path().join("toolchains/cuda-13.0.88").exists());

    // The next run of the change finds what the change made, and nobody else does.
    edit(
        &project.path().join("copy.cu"),
        "__global__",
        "/* changed */ __global__",
    );
    assert_eq!(as_pull_request(), (1, 0));
    assert_eq!(as_pull_request(), (0, 1));
    assert!(made("build/objects") > 0);
    assert!(state(shared.path()) == before, "the shared cache changed");
    assert_eq!(run(&[("GATEKEEPER_CACHE", shared.path())]), (1, 0));
}

/// Things that may stand where a file is expected.
const IN_PLACE_OF_A_FILE: [&str; 5] = ["fifo", "zero", "socket", "directory", "huge"];

fn put(what: &str, at: &Path) {
    let _ = std::fs::remove_file(at);
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    match what {
        "fifo" => nix::unistd::mkfifo(at, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        "zero" => std::os::unix::fs::symlink("/dev/zero", at).unwrap(),
        // Its file stays when it is closed.
        "socket" => drop(std::os::unix::net::UnixListener::bind(at).unwrap()),
        "directory" => std::fs::create_dir(at).unwrap(),
        _ => std::fs::File::create(at).unwrap().set_len(1 << 40).unwrap(),
    }
}

/// At once: what waits for a FIFO waits for ever.
fn ends(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = gatekeeper();
    let minute = std::time::Duration::from_secs(60);
    let output = command.current_dir(dir).args(args).timeout(minute);
    let output = output.output().unwrap();
    (output.status.code(), stderr(&output))
}

#[test]
fn special_files_are_refused_at_once() {
    for what in IN_PLACE_OF_A_FILE {
        for (file, args) in [
            ("gates.yaml", &["validate"][..]),
            ("copy.cu", &["validate"]),
            ("copy.cu", &["run", "copy"]),
            ("baselines/accepted.yaml", &["validate"]),
            ("record.json", &["judge", "record.json"]),
            ("record.json", &["report", "record.json"]),
            ("record.json", &["compare", "record.json", "record.json"]),
            (
                "record.json",
                &["baseline", "update", "--record", "record.json"],
            ),
        ] {
            let project = project();
            put(what, &project.path().join(file));
            let (code, said) = ends(project.path(), args);
            assert_eq!(code, Some(2), "{what} {args:?}: {said}");
            assert!(said.starts_with("error: "), "{what} {args:?}: {said}");
            assert!(said.contains(file), "{what} {args:?}: {said}");
        }
    }
}

/// Files that are trusted less than a mistake: their place is known, and what they should cover is not held.
#[test]
fn a_baseline_that_is_no_file_is_broken_at_once() {
    let project = project();
    let dir = project.path();
    run(dir, &["run", "--provision", "copy"], 0);
    run(dir, &["baseline", "update", "copy"], 0);
    let baselines: Vec<_> = state(&dir.join("baselines"))
        .into_iter()
        .filter_map(|(path, (_, content))| content.map(|_| path))
        .collect();
    assert!(!baselines.is_empty());
    for what in IN_PLACE_OF_A_FILE {
        for file in &baselines {
            put(what, file);
        }
        let (code, said) = ends(dir, &["run", "copy"]);
        assert!(matches!(code, Some(1 | 2)), "{what}: {code:?} {said}");
        for file in &baselines {
            let _ = std::fs::remove_dir(file);
        }
    }
}

/// A cache with nvcc alone: nvdisasm has to be installed.
fn cache_without_nvdisasm() -> tempfile::TempDir {
    let full = fresh_cache("full");
    let cache = tempfile::tempdir().unwrap();
    let toolchains = cache.path().join("toolchains");
    std::fs::create_dir(&toolchains).unwrap();
    let nvcc = full.path().join("toolchains").canonicalize().unwrap();
    let name = "cuda-13.0.88";
    std::os::unix::fs::symlink(nvcc.join(name), toolchains.join(name)).unwrap();
    cache
}

/// A module of Python that leaves this mark where it is imported.
fn leave_module(dir: &Path, name: &str, mark: &Path) {
    let place = dir.join(name);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    let text = format!("open({:?}, 'w').close()\n", mark.display().to_string());
    std::fs::write(place, text).unwrap();
}

#[test]
fn no_module_of_the_checkout_is_imported_while_a_compiler_is_installed() {
    let (project, empty) = (project(), tempfile::tempdir().unwrap());
    let dir = project.path();
    let marks = tempfile::tempdir().unwrap();
    let mark = marks.path().join("mark");
    leave_module(dir, "pip.py", &mark);
    let plain = std::process::Command::new("python3")
        .current_dir(dir)
        .args(["-m", "pip", "--version"])
        .output();
    assert!(plain.unwrap().status.success() && mark.exists());
    std::fs::remove_file(&mark).unwrap();

    // pip is started, and has no index to look in.
    let run = |cache: &Path, args: &[&str]| {
        let mut run = gatekeeper();
        run.current_dir(dir).args(args);
        run.env("GATEKEEPER_CACHE", cache).env("PIP_NO_INDEX", "1");
        run.env_remove("GATEKEEPER_SHARED_CACHE");
        run.env_remove("PIP_FIND_LINKS");
        let output = run.output().unwrap();
        (output.status.code(), stderr(&output))
    };
    if !Path::new("/usr/local/cuda/bin/nvcc").exists() {
        let (code, said) = run(empty.path(), &["run", "--provision", "copy"]);
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains("pip could not install CUDA:"), "{said}");
        assert!(!mark.exists());
    }
    // As late as after the kernels were built, to explain a change of the machine code.
    let cache = cache_without_nvdisasm();
    std::fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(dir, &["init", "-q"]);
    git(dir, &["add", "."]);
    git(dir, &["commit", "-qm", "base"]);
    edit(
        &dir.join("copy.cu"),
        "__syncthreads();",
        "__syncthreads(); __syncthreads();",
    );
    let late = [
        "run",
        "--provision",
        "--device",
        "sim",
        "copy",
        "--base",
        "HEAD",
    ];
    let (code, said) = run(cache.path(), &late);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("pip could not install nvdisasm:"), "{said}");
    assert!(!said.contains("install the compiler"), "{said}");
    assert!(!mark.exists());
}

/// A project in a repository: the base asks for less than head, which is so on both branches of a test of the base.
fn loosened() -> (tempfile::TempDir, String) {
    let project = project();
    let dir = project.path();
    std::fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(dir, &["init", "-q", "-b", "main"]);
    git(dir, &["add", "."]);
    git(dir, &["commit", "-qm", "base"]);
    let base = rev(dir, "HEAD");
    edit(&dir.join("gates.yaml"), "registers: 32", "registers: 64");
    git(dir, &["commit", "-qam", "looser"]);
    (project, base)
}

fn rev(dir: &Path, name: &str) -> String {
    let output = std::process::Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["rev-parse", name])
        .output()
        .unwrap();
    stdout(&output).trim().to_owned()
}

/// `run` in the simulator with a cache of its own for bases; exit code and all that it said.
fn against(dir: &Path, cache: &Path, base: &str) -> (Option<i32>, String) {
    let mut run = gatekeeper();
    run.current_dir(dir)
        .args(["run", "--device", "sim", "copy", "--base", base])
        .env("GATEKEEPER_CACHE", cache);
    let output = run.output().unwrap();
    (output.status.code(), stdout(&output) + &stderr(&output))
}

#[test]
fn a_planted_tree_in_the_cache_does_not_stand_for_the_base() {
    let (project, base) = loosened();
    let dir = project.path();
    let cache = fresh_cache("base");
    let fails = |what: &str| {
        let (code, said) = against(dir, cache.path(), &base);
        assert_eq!(code, Some(1), "{what}: {said}");
        assert!(said.contains("registers"), "{what}: {said}");
    };
    fails("as it is");
    // In the cache it asks for as little as head.
    let trees = cache.path().join("trees");
    let mut places = std::fs::read_dir(trees).unwrap().map(Result::unwrap);
    let place = places.find(|place| place.path().is_dir()).unwrap();
    let gates = place.path().join(&base).join("gates.yaml");
    edit(&gates, "registers: 32", "registers: 64");
    fails("altered in the cache");
    // A reference that git puts in the place of the base.
    git(dir, &["replace", &base, "HEAD"]);
    assert_eq!(
        rev(dir, &format!("{base}^{{tree}}")),
        rev(dir, "HEAD^{tree}")
    );
    fails("replaced");
    std::fs::remove_dir_all(cache.path().join("trees")).unwrap();
    fails("replaced, and not in the cache");

    // Grafts are refused: they change which commits came before.
    let grafts = dir.join(".git/info/grafts");
    std::fs::create_dir_all(grafts.parent().unwrap()).unwrap();
    std::fs::write(&grafts, format!("{}\n", rev(dir, "HEAD"))).unwrap();
    let (code, said) = against(dir, cache.path(), &base);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains(".git/info/grafts gives commits other parents"),
        "{said}"
    );
    std::fs::write(&grafts, "# none\n").unwrap();
    fails("a file of grafts without any");
}

#[test]
fn a_base_that_means_two_commits_is_refused_with_both() {
    let (project, base) = loosened();
    let dir = project.path();
    let head = rev(dir, "HEAD");
    let said = |name: &str, code: i32| {
        let changed = ["run", "--device", "sim", "copy", "--changed", name];
        stderr(&run(dir, &changed, code))
    };
    git(dir, &["tag", "v1", &base]);
    git(dir, &["branch", "v1", "HEAD"]);
    let two = said("v1", 2);
    for (name, commit) in [
        ("the tag refs/tags/v1", &base),
        ("the branch refs/heads/v1", &head),
    ] {
        assert!(
            two.contains(&format!("{name} is {}", &commit[..12])),
            "{two}"
        );
    }
    assert!(said("v1~0", 2).contains("means several commits"));
    // A branch whose name begins another commit's hash, and one that is all of it.
    let beginning = &base[..8];
    git(dir, &["branch", beginning, "HEAD"]);
    let two = said(beginning, 2);
    assert!(
        two.contains(&format!(
            "the branch refs/heads/{beginning} is {}",
            &head[..12]
        )),
        "{two}"
    );
    assert!(
        two.contains(&format!(
            "whose hash begins with {beginning} is {}",
            &base[..12]
        )),
        "{two}"
    );
    git(dir, &["update-ref", &format!("refs/heads/{base}"), "HEAD"]);
    assert!(said(&base, 2).contains("means several commits"));

    // Whole names, two names of one commit, an annotated tag, and names like versions and numbers.
    git(dir, &["branch", "same", "HEAD"]);
    git(dir, &["tag", "-am", "annotated", "same", "HEAD"]);
    git(dir, &["branch", "1.0", "HEAD"]);
    git(dir, &["branch", "20261122", "HEAD"]);
    for name in [
        "refs/heads/v1",
        "heads/v1",
        "same",
        "1.0",
        "20261122",
        "HEAD",
        "@",
        &head,
        &head[..9],
    ] {
        let nothing = said(name, 0);
        assert!(
            nothing.starts_with("0 of 2 kernels differ"),
            "{name}: {nothing}"
        );
    }
}

#[test]
fn a_bare_repository_among_the_files_starts_nothing() {
    let project = project();
    let dir = project.path();
    let marks = tempfile::tempdir().unwrap();
    let mark = marks.path().join("mark");
    git(dir, &["init", "-q", "-b", "main"]);
    // The files of gates stand in it.
    let bare = dir.join("bare");
    git(dir, &["init", "-q", "--bare", "bare"]);
    for file in ["gates.yaml", "copy.cu", "dial.cu"] {
        std::fs::rename(dir.join(file), bare.join(file)).unwrap();
    }
    let program = format!("touch {}; false", mark.display());
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"{program}\"\n"
    );
    std::fs::write(bare.join("config"), config).unwrap();
    git(&bare, &["-c", "safe.bareRepository=all", "status"]);
    assert!(mark.exists(), "git itself starts it");
    std::fs::remove_file(&mark).unwrap();

    let plain = ["run", "--provision", "--device", "sim", "copy"];
    run(&bare, &plain, 0);
    let said = stderr(&run(&bare, &[&plain[..], &["--base", "HEAD"]].concat(), 2));
    assert!(
        said.contains("is a bare repository among the files of the checkout"),
        "{said}"
    );
    for more in [
        &["doctor"][..],
        &["validate"],
        &["run", "--device", "sim", "copy", "--changed", "HEAD"],
    ] {
        let _ = gatekeeper().current_dir(&bare).args(more).output().unwrap();
    }
    assert!(!mark.exists());
}

#[test]
fn a_header_without_an_end_is_stopped_at_the_limit_that_is_said() {
    let project = project();
    let dir = project.path();
    std::os::unix::fs::symlink("/dev/zero", dir.join("endless.h")).unwrap();
    edit(
        &dir.join("copy.cu"),
        "extern \"C\"",
        "#include \"endless.h\"\nextern \"C\"",
    );
    let limited = |code: i32| {
        let output = gatekeeper()
            .current_dir(dir)
            .args(["run", "--provision", "--device", "sim", "copy"])
            .env("GATEKEEPER_COMPILER_MEMORY", "2GiB")
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{}",
            stdout(&output) + &stderr(&output)
        );
        stdout(&output)
    };
    let said = limited(1);
    assert!(
        said.contains("it reached the limit of 2048 MiB on the memory of a compiler"),
        "{said}"
    );
    // An ordinary kernel does not.
    edit(&dir.join("copy.cu"), "#include \"endless.h\"\n", "");
    limited(0);
    let output = gatekeeper()
        .current_dir(dir)
        .arg("validate")
        .env("GATEKEEPER_COMPILER_MEMORY", "much")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// Sequences that steer a terminal: colours, a link, the bell, one that is a single character, the beginning of the
/// line, another direction, the end of a text in C.
const STEERING: &str = "\u{1b}[31mred \u{1b}]8;;http://e\u{7}link\u{1b}]8;;\u{7} \u{9b}2J\rover \u{202e}turned\u{0}end";

fn steers(text: &str) -> Option<char> {
    let steers = |c: &char| {
        (c.is_control() && !"\n\t".contains(*c))
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().find(steers)
}

#[test]
fn messages_of_compilers_and_references_are_escaped() {
    let source = project();
    let dir = source.path();
    let error = format!("#error {}\n", STEERING.replace(['\r', '\0'], " "));
    let text = std::fs::read_to_string(dir.join("copy.cu")).unwrap();
    std::fs::write(dir.join("copy.cu"), error + &text).unwrap();

    let reference = project();
    let of_reference = reference.path();
    edit(
        &of_reference.join("gates.yaml"),
        "reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: 32\n      shared",
        "reference: {user: {source: r.c, function: f, args: [{i32: N}, {tensor: x}, {tensor: y}]}}\n    gates:\n      registers: 32\n      shared",
    );
    let escaped: String = STEERING
        .bytes()
        .map(|byte| format!("\\{byte:03o}"))
        .collect();
    let code = format!(
        "#include <stdio.h>\n#include <stdlib.h>\nvoid f(int n, const float *x, float *y) {{ static const char said[] = \"{escaped}\";\n\
         fwrite(said, 1, sizeof said, stderr); abort(); }}\n"
    );
    std::fs::write(of_reference.join("r.c"), code).unwrap();

    for dir in [dir, of_reference] {
        let output = run(dir, &["run", "--provision", "--device", "sim", "copy"], 1);
        let mut shown = vec![("terminal", stdout(&output)), ("errors", stderr(&output))];
        for format in [
            "terminal", "markdown", "github", "json", "junit", "sarif", "html",
        ] {
            let output = gatekeeper()
                .current_dir(dir)
                .args(["report", "gatekeeper-out/record.json", "--format", format])
                .output()
                .unwrap();
            let text = stdout(&output);
            assert!(!text.is_empty(), "{format}: {}", stderr(&output));
            shown.push((format, text));
        }
        let mut has_it = 0;
        for (format, text) in &shown {
            assert_eq!(steers(text), None, "{format}: {text:?}");
            has_it += usize::from(text.contains("turned"));
        }
        assert!(has_it >= 6, "{has_it}");
        // A reader of SARIF shows the decoded text.
        let sarif = shown.iter().find(|(format, _)| *format == "sarif").unwrap();
        let sarif: serde_json::Value = serde_json::from_str(&sarif.1).unwrap();
        let results = sarif["runs"][0]["results"].as_array().unwrap();
        assert!(!results.is_empty());
        for result in results {
            let text = result["message"]["text"].as_str().unwrap();
            assert_eq!(steers(text), None, "{text:?}");
        }
    }
}
