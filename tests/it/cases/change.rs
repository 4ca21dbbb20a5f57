//! Directories that are changes. The file `expect` says what runs and how it has to end:
//!
//! ```text
//! # What is attempted, and what stops it.
//! start: copy
//! base: run --device sim -> 0
//! remove: old.cuh
//! head: run --device sim --base HEAD~1 -> 1 loosened max-err
//! ```
//!
//! A repository is made of `tests/fixtures/copy` (if there is a `start:`) and `base/` over it. The commands of `base:` run
//! there, so that caches are warm and baselines written; they may be left out. It is committed. Then the files of `remove:`
//! are removed, `head/` is put over the rest, that is committed, too, and the commands of `head:` run. After `->` stand the
//! exit code and the codes of all verdicts that failed or did not decide (none with `--out`). `outside/` is copied next to
//! the repository (`../outside`). Links stay links. `nvcc: ARGUMENTS` compiles on both sides, before their commands, and is
//! tried where its source is. `needs: gpu` keeps a case for a machine that has one. `cache: new` is for what a warm cache
//! would answer without running it.

use super::name_of;
use crate::common::{self, broken_codes, git, stderr, stdout};
use std::fs;
use std::path::{Path, PathBuf};

pub struct Case {
    dir: PathBuf,
    start: Option<String>,
    pub needs_gpu: bool,
    has_new_cache: bool,
    base: Vec<Step>,
    removed: Vec<String>,
    head: Vec<Step>,
    compiled: Vec<Vec<String>>,
}

/// A command, and how it has to end.
struct Step {
    args: Vec<String>,
    code: i32,
    broken: Vec<String>,
}

pub fn find() -> Vec<Case> {
    super::find(|path| path.join("expect").exists())
        .into_iter()
        .map(|dir| Case::read(&dir))
        .collect()
}

impl Case {
    fn read(dir: &Path) -> Self {
        let text = fs::read_to_string(dir.join("expect")).unwrap();
        let mut case = Self {
            dir: dir.to_owned(),
            start: None,
            needs_gpu: false,
            has_new_cache: false,
            base: Vec::new(),
            removed: Vec::new(),
            head: Vec::new(),
            compiled: Vec::new(),
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for line in lines.filter(|line| !line.trim().is_empty()) {
            let (key, value) = line.split_once(": ").unwrap_or((line, ""));
            match key {
                "start" => case.start = Some(value.to_owned()),
                "needs" if value == "gpu" => case.needs_gpu = true,
                "nvcc" => case.compiled.push(words(value)),
                "cache" if value == "new" => case.has_new_cache = true,
                "remove" => case.removed.extend(words(value)),
                "base" => case.base.push(Step::read(value)),
                "head" => case.head.push(Step::read(value)),
                _ => panic!("{}: expect has the line {line:?}", name_of(dir)),
            }
        }
        assert!(
            text.starts_with("# ") && !case.head.is_empty(),
            "{}: expect starts with what is attempted, and has a `head:`",
            name_of(dir)
        );
        case
    }

    /// Runs the commands, and returns what is not as it has to be.
    pub fn hold(&self) -> Result<(), String> {
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
        self.put("outside", &around.path().join("outside"));
        self.put("base", &repository);
        self.compile(&repository);
        let cache = self.has_new_cache.then(|| common::fresh_cache(""));
        let cache = cache.as_ref().map(tempfile::TempDir::path);
        self.run(&self.base, &repository, cache)?;
        common::commit_all(&repository);
        for path in &self.removed {
            git(&repository, &["rm", "--quiet", "-r", path]);
        }
        self.put("head", &repository);
        self.compile(&repository);
        common::commit_all(&repository);
        self.run(&self.head, &repository, cache)
    }

    /// Runs nvcc for those sources that this side has.
    fn compile(&self, dir: &Path) {
        let is_source = |word: &&String| word.ends_with(".cu");
        for args in &self.compiled {
            let source = args.iter().find(is_source).unwrap();
            if dir.join(source).exists() {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                crate::binaries::nvcc(dir, &args);
            }
        }
    }

    fn put(&self, part: &str, to: &Path) {
        let part = self.dir.join(part);
        if part.exists() {
            common::copy(&part, to);
        }
    }

    fn run(&self, steps: &[Step], dir: &Path, cache: Option<&Path>) -> Result<(), String> {
        steps
            .iter()
            .try_for_each(|step| step.run(dir, cache))
            .map_err(|problem| format!("{}: {problem}", name_of(&self.dir)))
    }
}

impl Step {
    fn read(line: &str) -> Self {
        let (command, end) = line.split_once(" -> ").unwrap();
        let mut end = words(end);
        let code = end.remove(0).parse().unwrap();
        Self {
            args: words(command),
            code,
            broken: end,
        }
    }

    fn run(&self, dir: &Path, cache: Option<&Path>) -> Result<(), String> {
        let report = dir.join("gatekeeper-out/report.json");
        let written = || {
            fs::metadata(&report)
                .and_then(|report| report.modified())
                .ok()
        };
        let before = written();
        let mut command = common::gatekeeper();
        command.envs(cache.map(|cache| ("GATEKEEPER_CACHE", cache)));
        let output = command.current_dir(dir).args(&self.args).output().unwrap();
        let code = output.status.code();
        // A run that judges nothing leaves no report, and an older one says nothing of it.
        let broken = if written() != before {
            broken_codes(dir, None)
        } else {
            Vec::new()
        };
        let mut expected = self.broken.clone();
        expected.sort();
        if code == Some(self.code) && broken == expected {
            return Ok(());
        }
        Err(format!(
            "gatekeeper {} -> {code:?} {}\nexpected {} {}\n--- stdout\n{}\n--- stderr\n{}",
            self.args.join(" "),
            broken.join(" "),
            self.code,
            expected.join(" "),
            stdout(&output),
            stderr(&output)
        ))
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
