//! Directories that are changes. The file `expect` says what runs and how it has to end:
//!
//! ```text
//! # What is attempted, and what stops it.
//! start: copy
//! base: run --device sim -> 0
//! remove: old.cuh
//! head: run --device sim --base HEAD~1 -> 1 loosened max-err
//! says: max_err: the base has 0
//! ```
//!
//! A repository is made of `tests/fixtures/copy` (if there is a `start:`), of directories of gatekeeper's own repository
//! (`with: kernels`), and of `base/` over them. The commands of `base:` run there, so that caches are warm and baselines
//! written; they may be left out. It is committed. Then the files of `remove:` are removed, `head/` is put over the rest,
//! that is committed, too, and the commands of `head:` run. After `->` stand the exit code and the codes of all verdicts
//! that failed or did not decide (none with `--out`). What a run judged is judged again from its record, to the same
//! bytes.
//!
//! - `says:` is a text that the last command has to print or to write into its report.json, line breaks aside, and `lacks:`
//!   one that it must not print. `one ... another` are both, in this order. Lines after `| ` are all that it prints, on
//!   standard error.
//! - `outside/` is copied next to the repository (`../outside`). Links stay links.
//! - `nvcc: ARGUMENTS` compiles on both sides, before their commands, and is tried where its source is.
//! - `cache: new` is for what a warm cache would answer without running it.
//! - `needs: gpu` keeps a case for a machine that has one, and `needs: no-cuda`, `hidden-files` and `confinement` leave it
//!   out where CUDA is installed, or where the system cannot hide files or confine programs. `needs: driver` makes the
//!   driver without a GPU of `captures` in `../outside`, where commands find it, and `needs: numpy` sets `$NUMPY` to the
//!   programs of a Python with NumPy.
//!
//! bash reads every command: `head: COLUMNS=80 run copy -> 0` sets a variable, and `head: cd below && run -> 2` starts
//! elsewhere. `$HERE` is the repository, `$OUT` is `../outside` (both also in the texts of `says:`, `lacks:` and `| `), and
//! `$TOOLCHAINS` is what a cache has of compilers. Between commands of gatekeeper stand others, which have to succeed:
//! `head: $ COMMAND` is bash with the functions of `tests/cases/steps.sh`, in which `$GK` is gatekeeper, and `head: nvcc
//! ARGUMENTS` compiles.
//!
//! ```text
//! head: $ edit gates.yaml 'registers: 32' 'registers: 64'
//! head: run cop -> 2
//! | error: the filter `cop` matches nothing
//! |   help: kernel: did you mean `copy`?
//! ```
//!
//! Small edits are patches, for `git apply`. `base.patch` and `head.patch` are applied on `base/` and `head/`. Any other
//! `NAME.patch` is one more change of the same base, with a head of its own, and so is `NAME.steps`, without a patch:
//!
//! ```text
//! # What is attempted, and what stops it.
//! head: run --device sim --base HEAD~1 -> 1 beyond-limit
//! --- a/k.cu
//! +++ b/k.cu
//! @@ -3 +3 @@
//! -    y[i] = x[i];
//! +    y[i] = -x[i];
//! ```

use super::name_of;
use crate::binaries::nvcc_once;
use crate::captures;
use crate::common::{self, broken_codes, git, stderr, stdout};
use crate::python::python;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use system::process::confine::{self, Support};
use tempfile::TempDir;

/// A directory of cases, with the changes of its base.
pub struct Case {
    dir: PathBuf,
    start: Option<String>,
    with: Vec<String>,
    needs: Vec<Need>,
    has_new_cache: bool,
    steps: Vec<Step>,
    compiled: Vec<Vec<String>>,
    changes: Vec<Change>,
    base: OnceLock<Result<Base, String>>,
}

struct Change {
    name: String,
    /// The patch that is applied after `head/`, which belongs to the change of `expect` alone.
    patch: PathBuf,
    has_head: bool,
    removed: Vec<String>,
    steps: Vec<Step>,
}

/// A condition of the machine without which a case is left out.
#[derive(PartialEq, Eq)]
enum Need {
    Gpu,
    Driver,
    Numpy,
    HiddenFiles,
    Confinement,
    NoCuda,
}

/// The repository and the files next to it, before any change.
struct Base {
    around: TempDir,
    cache: Option<TempDir>,
}

/// A command, with the way in which it must end.
struct Step {
    program: Program,
    /// The command line behind the name of the program.
    command: String,
    code: i32,
    broken: Vec<String>,
    says: Vec<String>,
    lacks: Vec<String>,
    /// The exact lines on standard error, if they are given.
    prints: Vec<String>,
}

#[derive(PartialEq, Eq)]
enum Program {
    Gatekeeper,
    Bash,
    Nvcc,
}

pub fn find() -> Vec<Case> {
    super::find(|path| path.join("expect").exists())
        .into_iter()
        .map(|dir| Case::read(&dir))
        .collect()
}

/// Tries all changes that `GATEKEEPER_CASES` selects, either of the cases that need a GPU or of the others.
pub fn hold(cases: &[Case], needs_gpu: bool) {
    let changes: Vec<(&Case, &Change)> = cases
        .iter()
        .filter(|case| case.needs.contains(&Need::Gpu) == needs_gpu)
        .filter(|case| case.needs.iter().all(Need::is_met))
        .flat_map(|case| case.changes.iter().map(move |change| (case, change)))
        .filter(|(_, change)| super::is_wanted(&change.name))
        .collect();
    common::try_each(changes.iter(), |(case, change)| {
        case.hold(change)
            .map_err(|problem| format!("{}: {problem}", change.name))
    });
}

/// Splits a file into the lines that are keys with values, and leaves out comments.
fn keys(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .take_while(|line| !line.starts_with("--- ") && !line.starts_with("diff "))
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| match line.strip_prefix('|') {
            Some(printed) => ("|", printed.strip_prefix(' ').unwrap_or(printed)),
            None => line.split_once(": ").unwrap_or((line, "")),
        })
}

impl Case {
    fn read(dir: &Path) -> Self {
        let name = name_of(dir);
        let text = fs::read_to_string(dir.join("expect")).unwrap();
        let mut case = Self {
            dir: dir.to_owned(),
            start: None,
            with: Vec::new(),
            needs: Vec::new(),
            has_new_cache: false,
            steps: Vec::new(),
            compiled: Vec::new(),
            changes: Change::read_patches(dir),
            base: OnceLock::new(),
        };
        let mut change = Change::new(name.clone(), dir.join("head.patch"), true);
        for (key, value) in keys(&text) {
            match key {
                "start" => case.start = Some(value.to_owned()),
                "with" => case.with.push(value.to_owned()),
                "needs" => case.needs.push(Need::read(value)),
                "nvcc" => case.compiled.push(words(value)),
                "cache" if value == "new" => case.has_new_cache = true,
                "base" => case.steps.push(Step::read(value)),
                "says" | "lacks" | "|" if change.steps.is_empty() => {
                    case.steps.last_mut().unwrap().read_text(key, value);
                }
                _ => change.read_key(key, value),
            }
        }
        if !change.steps.is_empty() {
            case.changes.push(change);
        }
        assert!(
            text.starts_with("# ") && !case.changes.is_empty(),
            "{name}: expect starts with what is attempted, and there is a `head:`"
        );
        case
    }

    /// Makes the change, runs its commands, and returns what is not as expected.
    fn hold(&self, change: &Change) -> Result<(), String> {
        let base = self.base.get_or_init(|| self.make_base());
        let base = base.as_ref().map_err(Clone::clone)?;
        let around = if self.changes.len() > 1 {
            let copy = tempfile::tempdir().unwrap();
            common::copy(base.around.path(), copy.path());
            Some(copy)
        } else {
            None
        };
        let around = around.as_ref().unwrap_or(&base.around);
        let repository = around.path().join("repository");
        for path in &change.removed {
            git(&repository, &["rm", "--quiet", "-r", path]);
        }
        if change.has_head {
            self.put("head", &repository);
        }
        apply(&change.patch, &repository);
        self.compile(&repository);
        common::commit_all(&repository);
        self.run(&change.steps, around.path(), base.cache.as_ref())
    }

    fn run(&self, steps: &[Step], around: &Path, cache: Option<&TempDir>) -> Result<(), String> {
        let mut environment: Vec<(&str, PathBuf)> = cache
            .map(|cache| ("GATEKEEPER_CACHE", cache.path().to_owned()))
            .into_iter()
            .collect();
        if self.needs.contains(&Need::Driver) {
            environment.push(("LD_LIBRARY_PATH", around.join("outside")));
        }
        if self.needs.contains(&Need::Numpy) {
            environment.push(("NUMPY", python().to_owned()));
        }
        steps
            .iter()
            .try_for_each(|step| step.run(&around.join("repository"), &environment))
    }

    fn make_base(&self) -> Result<Base, String> {
        let around = tempfile::tempdir().unwrap();
        let repository = around.path().join("repository");
        fs::create_dir(&repository).unwrap();
        git(&repository, &["init", "--quiet"]);
        fs::write(repository.join(".gitignore"), "gatekeeper-out\n").unwrap();
        if let Some(start) = &self.start {
            common::copy(
                &common::root().join("tests/fixtures").join(start),
                &repository,
            );
        }
        for with in &self.with {
            common::copy(&common::root().join(with), &repository.join(with));
        }
        let outside = around.path().join("outside");
        fs::create_dir(&outside).unwrap();
        if self.needs.contains(&Need::Driver) {
            captures::place_library();
            captures::make_driver(&outside);
        }
        self.put("outside", &outside);
        self.put("base", &repository);
        apply(&self.dir.join("base.patch"), &repository);
        self.compile(&repository);
        let cache = self.has_new_cache.then(|| common::fresh_cache(""));
        self.run(&self.steps, around.path(), cache.as_ref())?;
        common::commit_all(&repository);
        Ok(Base { around, cache })
    }

    /// Runs nvcc for those sources that this side has.
    fn compile(&self, dir: &Path) {
        let is_source = |word: &&String| word.ends_with(".cu");
        for args in &self.compiled {
            let source = args.iter().find(is_source).unwrap();
            if dir.join(source).exists() {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                nvcc_once(dir, &args);
            }
        }
    }

    fn put(&self, part: &str, to: &Path) {
        let part = self.dir.join(part);
        if part.exists() {
            common::copy(&part, to);
        }
    }
}

impl Need {
    fn read(name: &str) -> Self {
        match name {
            "gpu" => Self::Gpu,
            "driver" => Self::Driver,
            "numpy" => Self::Numpy,
            "hidden-files" => Self::HiddenFiles,
            "confinement" => Self::Confinement,
            "no-cuda" => Self::NoCuda,
            _ => panic!("unknown need {name:?}"),
        }
    }

    /// Returns true unless this system lacks what the case needs.
    fn is_met(&self) -> bool {
        match self {
            Self::HiddenFiles => Support::detect().files,
            Self::Confinement => confine::is_confining(),
            Self::NoCuda => !Path::new("/usr/local/cuda/bin/nvcc").exists(),
            Self::Gpu | Self::Driver | Self::Numpy => true,
        }
    }
}

impl Change {
    fn new(name: String, patch: PathBuf, has_head: bool) -> Self {
        Self {
            name,
            patch,
            has_head,
            removed: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Returns the patches of a directory that are changes of their own, sorted.
    fn read_patches(dir: &Path) -> Vec<Self> {
        let mut patches: Vec<PathBuf> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "patch" || extension == "steps")
            })
            .filter(|path| !path.ends_with("base.patch") && !path.ends_with("head.patch"))
            .collect();
        patches.sort();
        patches.into_iter().map(Self::read_patch).collect()
    }

    fn read_patch(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap();
        let mut change = Self::new(name_of(&path), path, false);
        for (key, value) in keys(&text) {
            change.read_key(key, value);
        }
        assert!(
            text.starts_with("# ") && !change.steps.is_empty(),
            "{}: starts with what is attempted, and has a `head:`",
            change.name
        );
        change
    }

    fn read_key(&mut self, key: &str, value: &str) {
        match (key, self.steps.last_mut()) {
            ("remove", _) => self.removed.extend(words(value)),
            ("head", _) => self.steps.push(Step::read(value)),
            ("says" | "lacks" | "|", Some(step)) => step.read_text(key, value),
            _ => panic!("{}: unknown key {key:?}", self.name),
        }
    }
}

/// Applies a patch, if there is one.
fn apply(patch: &Path, repository: &Path) {
    if patch.exists() && patch.extension().unwrap() == "patch" {
        git(repository, &["apply", patch.to_str().unwrap()]);
    }
}

impl Step {
    fn read(line: &str) -> Self {
        let (program, rest) = if let Some(rest) = line.strip_prefix("$ ") {
            (Program::Bash, rest)
        } else if let Some(rest) = line.strip_prefix("nvcc ") {
            (Program::Nvcc, rest)
        } else {
            (Program::Gatekeeper, line)
        };
        let (command, end) = if program == Program::Gatekeeper {
            rest.rsplit_once(" -> ").unwrap()
        } else {
            (rest, "0")
        };
        let mut end = words(end);
        let code = end.remove(0).parse().unwrap();
        end.sort();
        Self {
            program,
            command: command.to_owned(),
            code,
            broken: end,
            says: Vec::new(),
            lacks: Vec::new(),
            prints: Vec::new(),
        }
    }

    fn read_text(&mut self, key: &str, text: &str) {
        let texts = match key {
            "says" => &mut self.says,
            "lacks" => &mut self.lacks,
            _ => &mut self.prints,
        };
        texts.push(text.to_owned());
    }

    /// Returns the script for bash. Variables and a change of directory come before the name of gatekeeper.
    fn script(&self) -> String {
        if self.program == Program::Bash {
            let steps = super::directory().join("steps.sh");
            return format!("set -euo pipefail; . {steps:?}; {}", self.command);
        }
        let before =
            regex::Regex::new(r#"^(cd \S+ && )?([A-Z_]+=("[^"]*"|'[^']*'|\S)* )*"#).unwrap();
        let (before, args) = self
            .command
            .split_at(before.find(&self.command).unwrap().end());
        format!("set -f +B; {before}exec \"$GK\" {args}")
    }

    fn run(&self, dir: &Path, environment: &[(&str, PathBuf)]) -> Result<(), String> {
        if self.program == Program::Nvcc {
            let args = words(&self.command);
            nvcc_once(dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
            return Ok(());
        }
        let here = dir.canonicalize().unwrap();
        let outside = here.with_file_name("outside");
        let [here, outside] = [here, outside].map(|path| path.display().to_string());
        let report = dir.join("gatekeeper-out/report.json");
        let written = || {
            fs::metadata(&report)
                .and_then(|report| report.modified())
                .ok()
        };
        let before = written();
        let mut command = Command::new("bash");
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "t");
            command.env(format!("GIT_{role}_EMAIL"), "t@t");
        }
        let output = command
            .current_dir(dir)
            .env("GK", common::binary())
            .env("HERE", &here)
            .env("OUT", &outside)
            .env("TOOLCHAINS", toolchains())
            .args(["-c", &self.script()])
            .output()
            .unwrap();
        let mut problems = Vec::new();
        // A run that judges nothing leaves no report, and an older report says nothing about it.
        let mut broken = Vec::new();
        let mut reported = String::new();
        if self.program == Program::Gatekeeper && report.exists() && written() != before {
            broken = broken_codes(dir, None);
            reported = common::report(dir);
            if !common::is_judged_alike(dir, output.status.code()) {
                problems.push("its record is judged differently".to_owned());
            }
        }
        let said = format!("{}\n{}", stdout(&output), stderr(&output));
        let in_one_line = words(&said).join(" ");
        let named = |text: &String| text.replace("$HERE", &here).replace("$OUT", &outside);
        let [says, lacks] = [&self.says, &self.lacks].map(|texts| texts.iter().map(named));
        problems.extend(
            says.filter(|text| !has(&in_one_line, text) && !has(&reported, text))
                .map(|text| format!("it does not say {text:?}")),
        );
        problems.extend(
            lacks
                .filter(|text| has(&in_one_line, text))
                .map(|text| format!("it says {text:?}")),
        );
        let printed: String = self.prints.iter().map(|line| named(line) + "\n").collect();
        if !self.prints.is_empty() && (stderr(&output) != printed || !output.stdout.is_empty()) {
            problems.push(format!("it does not print this alone:\n{printed}"));
        }
        let code = output.status.code();
        if code != Some(self.code) || broken != self.broken {
            let [broken, expected] = [&broken, &self.broken].map(|codes| codes.join(" "));
            problems.push(format!(
                "-> {code:?} {broken}, and not {} {expected}",
                self.code
            ));
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{}: {}\n--- output\n{said}",
            self.command,
            problems.join("; ")
        ))
    }
}

/// Returns true if a text contains these parts in their order.
fn has(text: &str, parts: &str) -> bool {
    parts
        .split(" ... ")
        .try_fold(text, |rest, part| Some(rest.split_once(part)?.1))
        .is_some()
}

fn toolchains() -> PathBuf {
    let cache = system::cache::Cache::open().unwrap();
    cache.dir("toolchains").unwrap()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
