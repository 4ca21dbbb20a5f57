//! Programs, modules and settings of the checkout that would run or count before anything is confined.

use crate::common::{edit, fresh_cache, gatekeeper, git, project, run, stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where what must not run would leave a sign.
struct Mark {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Mark {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mark");
        Self { _dir: dir, path }
    }

    /// A script that leaves it, and fails.
    fn script(&self) -> String {
        format!("#!/bin/sh\ntouch {}\nexit 77\n", self.path.display())
    }

    /// A module of Python that leaves it.
    fn module(&self) -> String {
        format!("open({:?}, 'w').close()\n", self.path.display().to_string())
    }

    /// That the attempt works on a program that does not look out, which takes the sign away again.
    fn is_left_by(&self, command: &mut std::process::Command) {
        let _ = command.output().unwrap();
        assert!(self.path.exists(), "{command:?}");
        std::fs::remove_file(&self.path).unwrap();
    }

    fn is_absent(&self, what: &str) {
        assert!(!self.path.exists(), "{what}");
    }
}

fn put(dir: &Path, name: &str, text: &str) {
    let file = dir.join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
}

fn put_program(dir: &Path, name: &str, text: &str) {
    put(dir, name, text);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.join(name), mode).unwrap();
}

fn committed() -> tempfile::TempDir {
    let project = project();
    put(project.path(), ".gitignore", "gatekeeper-out/\n");
    git(project.path(), &["init", "-q", "-b", "main"]);
    git(project.path(), &["add", "."]);
    git(project.path(), &["commit", "-qm", "first"]);
    project
}

const CHANGED: [&str; 6] = ["run", "--device", "sim", "copy", "--changed", "HEAD"];

/// With these variables; exit code, and all that it said.
fn with(dir: &Path, args: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut run = gatekeeper();
    run.current_dir(dir)
        .args(args)
        .envs(variables.iter().copied());
    let output = run.output().unwrap();
    (output.status.code(), stdout(&output) + &stderr(&output))
}

/// Installs into an empty cache, from no index: pip itself says that there is nothing to be had.
fn install_from_nowhere(dir: &Path, variables: &[(&str, &str)]) {
    let cache = tempfile::tempdir().unwrap();
    let cache = cache.path().display().to_string();
    let more = [("GATEKEEPER_CACHE", &*cache), ("PIP_NO_INDEX", "1")];
    let (code, said) = with(dir, &["toolchain", "install"], &[variables, &more].concat());
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("pip could not install CUDA:"), "{said}");
}

/// Python imports some modules by itself, from where it starts or from PYTHONPATH. It starts elsewhere, isolated.
#[test]
fn modules_that_python_imports_by_itself_are_not_those_of_the_checkout() {
    let (project, mark) = (project(), Mark::new());
    let dir = project.path();
    for name in [
        "sitecustomize.py",
        "usercustomize.py",
        "pip/__init__.py",
        "pip/__main__.py",
        "runpy.py",
        "ssl.py",
        "json/__init__.py",
    ] {
        put(dir, name, &mark.module());
    }
    put(dir, "x.pth", &format!("import os; {}", mark.module()));
    let whole = dir.display().to_string();
    let mut python = std::process::Command::new("python3");
    mark.is_left_by(python.args(["-m", "pip", "--version"]).current_dir(dir));
    for variables in [
        &[][..],
        &[("PYTHONPATH", ".")],
        &[("PYTHONPATH", &*whole)],
        &[
            ("PYTHONSTARTUP", "sitecustomize.py"),
            ("PYTHONSAFEPATH", ""),
        ],
    ] {
        install_from_nowhere(dir, variables);
        mark.is_absent(&format!("{variables:?}"));
    }
}

/// `.python-version` chooses the python of pyenv's `python3` for a directory and all below: it is not asked here.
#[test]
fn a_version_of_python_that_the_checkout_asks_for_is_not_taken() {
    let project = project();
    put(project.path(), ".python-version", "0.0.0-none\n");
    install_from_nowhere(project.path(), &[]);
}

/// uv reads the settings of the project in which it starts, and variables of its own: where packages come from would be
/// the checkout's to say. It starts elsewhere, without a project, and the digests of the wheels are ours.
#[test]
fn settings_of_installers_are_not_those_of_the_checkout() {
    let (project, machine) = (project(), tempfile::tempdir().unwrap());
    let dir = project.path();
    for (name, text) in [
        ("uv.toml", "index-url = \"http://evil.invalid\"\n"),
        (
            "pyproject.toml",
            "[tool.uv]\nindex-url = \"http://evil.invalid\"\n",
        ),
        ("pip.conf", "[global]\nindex-url = http://evil.invalid\n"),
        ("setup.cfg", "[install]\nprefix = .\n"),
        (".netrc", "machine pypi.org login x password y\n"),
        (".condarc", "channels: [evil]\n"),
        (".env", "UV_INDEX_URL=http://evil.invalid\n"),
    ] {
        put(dir, name, text);
    }
    let log = machine.path().join("log");
    let says = format!(
        "#!/bin/sh\n{{ echo \"at $PWD\"; echo \"asked $*\"; env; while [ \"$1\" != --requirement ]; do shift; done; cat $2; }} > {}\n\
         echo no such host >&2; exit 2\n",
        log.display()
    );
    put_program(machine.path(), "uv", &says);
    put_program(machine.path(), "g++", "#!/bin/sh\necho g++\n");
    put_program(machine.path(), "python3", "#!/bin/sh\nexit 1\n");
    // Nothing else is on PATH: no python of the system has pip, and none is asked.
    for program in ["cat", "env"] {
        let places = ["/bin", "/usr/bin"].map(|dir| Path::new(dir).join(program));
        let there = places.iter().find(|place| place.exists()).unwrap();
        std::os::unix::fs::symlink(there, machine.path().join(program)).unwrap();
    }
    let path = machine.path().display().to_string();
    let cache = machine.path().join("cache").display().to_string();
    let variables = [
        ("PATH", &*path),
        ("GATEKEEPER_CACHE", &cache),
        ("UV_CONFIG_FILE", "uv.toml"),
        ("UV_ENV_FILE", ".env"),
        ("UV_PROJECT", "."),
        ("UV_OVERRIDE", "uv.toml"),
        ("UV_DEFAULT_INDEX", "http://mirror.invalid"),
    ];
    let (code, said) = with(dir, &["toolchain", "install"], &variables);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("uv could not install CUDA:"), "{said}");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.starts_with("at /\n"), "{log}");
    for there in [
        " --no-config ",
        " --require-hashes ",
        "UV_DEFAULT_INDEX=http://mirror.invalid",
        "--hash=sha256:",
    ] {
        assert!(log.contains(there), "{there}: {log}");
    }
    for absent in [
        "UV_CONFIG_FILE",
        "UV_ENV_FILE",
        "UV_PROJECT",
        "UV_OVERRIDE",
        "evil",
    ] {
        assert!(!log.contains(absent), "{absent}: {log}");
    }
}

/// An empty or relative directory of PATH is the checkout, and its programs come first. They are left out. That a
/// project has files of such names is no fault of it.
#[test]
fn programs_of_the_checkout_are_not_those_of_path() {
    let (project, mark) = (committed(), Mark::new());
    let dir = project.path();
    for name in [
        "git",
        "nvcc",
        "g++",
        "c++",
        "python3",
        "uv",
        "ncu",
        "nvdisasm",
        "compute-sanitizer",
        "sh",
        "env",
    ] {
        put_program(dir, name, &mark.script());
        put_program(dir, &format!("bin/{name}"), &mark.script());
    }
    put(dir, "git.py", &mark.module());
    put(
        dir,
        "nvcc.profile",
        "compiler-bindir = .\nINCLUDES += \"-I.\"\n",
    );
    put(dir, "config.ncu-cfg", "[Launch-and-attach]\n-c = 1\n");
    let path = std::env::var("PATH").unwrap();
    for begin in [".", "", "bin", "./bin"] {
        let path = format!("{begin}:{path}");
        for args in [&CHANGED[..], &["run", "--device", "sim", "copy"]] {
            let (code, said) = with(dir, args, &[("PATH", &path)]);
            assert_eq!(code, Some(0), "{begin:?} {args:?}: {said}");
        }
        mark.is_absent(begin);
    }
    let path = format!(".:{path}");
    with(
        dir,
        &["doctor"],
        &[("PATH", &path), ("CUDA_HOME", "."), ("CUDA_PATH", "")],
    );
    mark.is_absent("doctor");
    // A compiler that is named by a relative path is refused, not looked for elsewhere.
    let (code, said) = with(dir, &["doctor"], &[("NVCC_CCBIN", "./g++")]);
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains("NVCC_CCBIN names ./g++, which is relative"),
        "{said}"
    );
    mark.is_absent("NVCC_CCBIN");
}

/// `LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/opt/lib` begins with an empty directory where it was not set: the loader of git
/// and of all other helpers would look into the checkout. Variables of compilers do not reach them.
#[test]
fn libraries_and_headers_of_the_checkout_are_not_loaded_by_helpers() {
    let (project, mark) = (committed(), Mark::new());
    let dir = project.path();
    put(
        dir,
        "evil.c",
        &format!(
            "#include <fcntl.h>\n__attribute__((constructor)) static void go(void) {{ open(\"{}\", O_CREAT | O_WRONLY, 0600); }}\n",
            mark.path.display()
        ),
    );
    for library in [
        "libz.so.1",
        "libpcre2-8.so.0",
        "libcuda.so",
        "libcuda.so.1",
        "libnvidia-ml.so",
        "libnvidia-ml.so.1",
    ] {
        let mut cc = std::process::Command::new("cc");
        let cc = cc
            .current_dir(dir)
            .args(["-shared", "-fPIC", "evil.c", "-o", library]);
        assert!(cc.status().unwrap().success());
    }
    std::fs::remove_file(dir.join("evil.c")).unwrap();
    put(dir, "headers/cuda_runtime.h", "#error of the checkout\n");
    put(dir, "headers/stdio.h", "#error of the checkout\n");
    let here = dir.join("headers").display().to_string();
    let variables = [
        ("LD_LIBRARY_PATH", ":/nowhere"),
        ("CPATH", &*here),
        ("CPLUS_INCLUDE_PATH", &*here),
        ("NVCC_PREPEND_FLAGS", "-DMISSING("),
        ("COMPILER_PATH", &*here),
        ("GCC_EXEC_PREFIX", &*here),
    ];
    let (code, said) = with(dir, &CHANGED, &variables);
    assert_eq!(code, Some(0), "{said}");
    edit(&dir.join("copy.cu"), "// y = x", "// another y = x");
    // On a GPU if there is one: its driver is a library, too.
    let (code, said) = with(dir, &["run", "copy"], &variables);
    assert_eq!(code, Some(0), "{said}");
    mark.is_absent("a library");
}

/// Inside a hook, or by a job's own doing, git's variables name another repository, or programs.
#[test]
fn variables_of_git_choose_neither_repository_nor_program() {
    let (project, other, mark) = (committed(), committed(), Mark::new());
    let dir = project.path();
    edit(
        &other.path().join("gates.yaml"),
        "registers: 32",
        "registers: 64",
    );
    git(other.path(), &["commit", "-qam", "another"]);
    put_program(dir, "program", &mark.script());
    put(
        dir,
        "settings",
        &format!("[core]\n\tfsmonitor = {}/program\n", dir.display()),
    );
    let other = other.path().join(".git").display().to_string();
    for variable in [
        ("GIT_DIR", &*other),
        ("GIT_COMMON_DIR", &*other),
        ("GIT_OBJECT_DIRECTORY", "objects"),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "objects"),
        ("GIT_INDEX_FILE", "index"),
        ("GIT_WORK_TREE", "/"),
        ("GIT_EXTERNAL_DIFF", "./program"),
        ("GIT_SSH_COMMAND", "./program"),
        ("GIT_EXEC_PATH", "."),
        ("GIT_CONFIG_GLOBAL", "settings"),
        ("GIT_REPLACE_REF_BASE", "refs/heads/"),
        ("GIT_SHALLOW_FILE", "program"),
        ("GIT_ATTR_SOURCE", "HEAD"),
        ("GIT_TRACE", "1"),
    ] {
        let (code, said) = with(dir, &CHANGED, &[variable]);
        assert_eq!(code, Some(0), "{variable:?}: {said}");
        assert!(
            said.contains("0 of 2 kernels differ"),
            "{variable:?}: {said}"
        );
        mark.is_absent(variable.0);
    }
}

/// Settings that a user has for programs of the repository, as hooks in `.husky`: which hook that is, the pull request
/// says. Neither hooks, nor monitors, nor filters, nor aliases are started.
#[test]
fn programs_of_the_checkout_that_the_users_settings_name_are_not_started() {
    let (project, mark) = (committed(), Mark::new());
    let dir = project.path();
    for hook in [
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "fsmonitor-watchman",
    ] {
        put_program(dir, &format!(".husky/{hook}"), &mark.script());
    }
    let program = dir.join(".husky/post-checkout").display().to_string();
    put(
        dir,
        ".gitattributes",
        "*.cu filter=x diff=x merge=x\n*.yaml filter=x\n",
    );
    git(dir, &["add", "."]);
    git(dir, &["commit", "-qm", "hooks"]);
    let program = program.as_str();
    for (key, value) in [
        ("core.hooksPath", ".husky"),
        ("core.fsmonitor", ".husky/fsmonitor-watchman"),
        ("filter.x.smudge", program),
        ("filter.x.clean", program),
        ("filter.x.process", program),
        ("filter.x.required", "true"),
        ("diff.external", program),
        ("diff.x.command", program),
        ("diff.x.textconv", program),
        ("core.pager", program),
        ("credential.helper", program),
        ("gpg.program", program),
        ("log.showSignature", "true"),
        ("alias.status", program),
        ("alias.rev-parse", program),
    ] {
        git(dir, &["config", key, value]);
    }
    mark.is_left_by(
        std::process::Command::new("git")
            .current_dir(dir)
            .arg("status"),
    );
    edit(&dir.join("copy.cu"), "// y = x", "// another y = x");
    let cache = fresh_cache("hooks");
    let cache = cache.path().display().to_string();
    let against = ["run", "--device", "sim", "copy", "--base", "HEAD"];
    let (code, said) = with(dir, &against, &[("GATEKEEPER_CACHE", &cache)]);
    assert_eq!(code, Some(0), "{said}");
    mark.is_absent("a setting");
}

/// A directory is a repository, too, where its objects are another's (`commondir`), which git of every version takes.
#[test]
fn a_repository_that_borrows_its_objects_is_one_too() {
    let (project, mark) = (committed(), Mark::new());
    let dir = project.path();
    put_program(dir, "program", &mark.script());
    let nested = dir.join("nested");
    std::fs::create_dir(&nested).unwrap();
    for file in ["gates.yaml", "copy.cu", "dial.cu"] {
        std::fs::rename(dir.join(file), nested.join(file)).unwrap();
    }
    put(dir, "nested/HEAD", "ref: refs/heads/main\n");
    put(dir, "nested/commondir", "../shared\n");
    git(dir, &["init", "-q", "--bare", "shared"]);
    let config = format!(
        "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = {}/program\n",
        dir.display()
    );
    put(dir, "shared/config", &config);
    let plain = std::process::Command::new("git")
        .current_dir(&nested)
        .args(["-c", "safe.bareRepository=all", "rev-parse", "--git-dir"])
        .output();
    assert_eq!(stdout(&plain.unwrap()), ".\n", "git takes it for one");
    run(&nested, &["run", "--device", "sim", "copy"], 0);
    let said = stderr(&run(&nested, &CHANGED, 2));
    assert!(
        said.contains("is a bare repository among the files"),
        "{said}"
    );
    mark.is_absent("a repository");
}

/// Files like git's own in the top directory are none of git's where `.git` is beside them.
#[test]
fn files_named_like_gits_own_count_for_nothing() {
    let (project, mark) = (committed(), Mark::new());
    let dir = project.path();
    let config = format!("[core]\n\tfsmonitor = touch {}\n", mark.path.display());
    for (name, text) in [
        ("HEAD", "ref: refs/heads/other\n"),
        ("config", &*config),
        (
            "refs/heads/other",
            "0123456789012345678901234567890123456789\n",
        ),
        (
            "refs/replace/x",
            "0123456789012345678901234567890123456789\n",
        ),
        ("objects/info/alternates", "/nowhere/objects\n"),
        ("objects/info/commit-graph", "CGPH"),
        ("info/grafts", "0123456789012345678901234567890123456789\n"),
        ("info/attributes", "* filter=x\n"),
        ("shallow", "0123456789012345678901234567890123456789\n"),
        ("hooks/post-checkout", &mark.script()),
    ] {
        put(dir, name, text);
    }
    let said = stderr(&run(dir, &CHANGED, 0));
    assert!(said.starts_with("0 of 2 kernels differ"), "{said}");
    mark.is_absent("a file");
}

/// git would look for several things under one name: its own HEAD and a branch, a remote's branch and a tag, a name as
/// `git describe` gives it and a branch. Each pair is refused, and names both.
#[test]
fn names_with_two_meanings_are_refused_in_all_forms() {
    let project = committed();
    let dir = project.path();
    git(dir, &["commit", "-q", "--allow-empty", "-m", "second"]);
    let rev = |name: &str| {
        let mut git = std::process::Command::new("git");
        let output = git
            .arg("-C")
            .arg(dir)
            .args(["rev-parse", name])
            .output()
            .unwrap();
        stdout(&output).trim().to_owned()
    };
    let (head, before) = (rev("HEAD"), rev("HEAD~1"));
    let described = format!("v1-1-g{}", &head[..10]);
    for (reference, commit) in [
        ("refs/heads/HEAD", &before),
        ("refs/remotes/origin/main", &head),
        ("refs/tags/origin/main", &before),
        (&*format!("refs/heads/{described}"), &before),
        ("refs/heads/heads/main", &before),
    ] {
        git(dir, &["update-ref", reference, commit]);
    }
    for (name, both) in [
        ("HEAD", ["git's own HEAD", "the branch refs/heads/HEAD"]),
        (
            "origin/main~0",
            [
                "the remote's branch refs/remotes/origin/main",
                "the tag refs/tags/origin/main",
            ],
        ),
        (
            &*described,
            [
                "the commit whose hash begins with",
                "the branch refs/heads/v1-1-g",
            ],
        ),
        (
            "heads/main",
            [
                "the branch refs/heads/main",
                "the branch refs/heads/heads/main",
            ],
        ),
    ] {
        let mut args = CHANGED;
        args[5] = name;
        let said = stderr(&run(dir, &args, 2));
        assert!(said.contains("means several commits"), "{name}: {said}");
        for one in both {
            assert!(said.contains(one), "{name}: {one}: {said}");
        }
    }
    // Nor is an option or an address a revision.
    let mark = Mark::new();
    let upload = format!("--upload-pack=touch {}", mark.path.display());
    let address = format!("ext::touch {}", mark.path.display());
    for name in [
        &*upload,
        &address,
        "--all",
        ":/first..HEAD",
        "refs/heads/*",
        "nothing",
    ] {
        let (code, said) = with(
            dir,
            &["run", "--device", "sim", "copy", &format!("--base={name}")],
            &[],
        );
        assert_eq!(code, Some(2), "{name}: {said}");
        mark.is_absent(name);
    }
}

/// A clone of depth 1 lacks the parents of its commits, which is no graft: its own commit is a base.
#[test]
fn a_shallow_clone_is_a_clone() {
    let project = committed();
    git(
        project.path(),
        &["commit", "-q", "--allow-empty", "-m", "second"],
    );
    let clone = tempfile::tempdir().unwrap();
    let from = format!("file://{}", project.path().display());
    git(clone.path(), &["clone", "-q", "--depth", "1", &from, "."]);
    assert!(clone.path().join(".git/shallow").exists());
    let said = stderr(&run(clone.path(), &CHANGED, 0));
    assert!(said.starts_with("0 of 2 kernels differ"), "{said}");
    let mut args = CHANGED;
    args[5] = "HEAD~1";
    let said = stderr(&run(clone.path(), &args, 2));
    assert!(said.contains("a shallow clone lacks it"), "{said}");
}

/// nvcc starts its parts through a shell: text of a macro is one of the words, whatever a shell would make of it.
#[test]
fn text_that_a_shell_would_run_is_text() {
    let (project, mark) = (project(), Mark::new());
    let dir = project.path();
    let touch = mark.path.display().to_string();
    edit(
        &dir.join("gates.yaml"),
        "    entry: copy\n",
        &format!(
            "    entry: copy\n    flags: ['-DX=\"$(touch {touch})\"', '-DY=`touch {touch}`', '-DZ=a;touch {touch};']\n"
        ),
    );
    let (code, said) = with(dir, &["run", "--device", "sim", "copy"], &[]);
    assert!(matches!(code, Some(0..=2)), "{code:?}: {said}");
    mark.is_absent(&said);
}
