//! `init`: writes a gates.yaml for the kernels of a directory.

use super::capture::run_captured;
use super::{counted, remark, run, say};
use crate::cli::{Cli, Command, InitArgs, RunArgs};
use crate::init::{
    self, MissingHeader, ProgramLaunches, Survey, SurveyRequest, Surveyed, Tree, WrittenKernel,
    WrittenKernels,
};
use crate::injection::{MOST_BYTES, explain_nothing, find_library};
use build::toolchain::{self, Toolchain};
use capture::{Contents, Request};
use clap::Parser;
use config::Selection;
use model::{Callable, DEFAULT_CONFIG, Outcome, Reason, Verdict};
use report::exit::Exit;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Error, Result};
use system::files;
use system::temporary::TemporaryDir;

pub fn run(args: &InitArgs) -> Result<Exit> {
    let (path, mut asked) = asked(args)?;
    let path = path.as_path();
    let existing = match (args.append, path.exists()) {
        (true, _) => Some(Existing::read(path)?),
        (false, true) => return Err(exists(path)),
        (false, false) => None,
    };
    let root = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !root.is_dir() {
        return Err(no_directory(path));
    }
    let mut tree = if args.build {
        learn_build(args, root, &mut asked)?
    } else {
        Tree::find(root)
    };
    tree.narrow(root, &asked.paths)?;
    // The program runs first, because its mistakes show in seconds, and compiling may take minutes.
    let launched = args.program.then(|| capture_program(args)).transpose()?;
    let launched = launched.as_ref().map(|(program, _)| program);
    if tree.is_empty()
        && let Some(program) = launched
    {
        return gate_program(args, path, root, &init::find_others(&[], &program.capture));
    }
    if tree.is_empty() {
        return Err(Error::usage(format!(
            "there is no source of a kernel (.cu, .cuh, .ptx) below {}; nothing was written",
            root.display()
        ))
        .help("run it where the sources are, or name them: gatekeeper init PATH"));
    }
    let survey = survey(args, root, &tree, &asked, launched)?;
    if let Some(program) = launched {
        let others = init::find_others(&survey.kernels, &program.capture);
        if survey.kernels.iter().all(|kernel| kernel.call.is_err()) && !others.is_empty() {
            return gate_program(args, path, root, &others);
        }
    }
    let mut draft = Draft {
        args,
        path,
        root,
        existing,
        survey,
    };
    if let Some(existing) = &draft.existing {
        draft.survey.kernels.retain(|kernel| !existing.has(kernel));
        if draft.survey.kernels.is_empty() {
            say(&format!(
                "{} has all kernels that there are; nothing was added",
                path.display()
            ))?;
            return Ok(Exit::Held);
        }
    }
    let mut blocks = draft.blocks();
    if blocks.called.is_empty() {
        return draft.leave_for_author(&blocks);
    }
    if draft.existing.is_none() {
        // Another `init` may have written the file meanwhile, and nothing of it is overwritten.
        create(path)?;
    }
    draft.write(&blocks)?;
    write_schema(root)?;
    let mut ran = None;
    if !args.no_run {
        ran = Some(draft.try_once(&mut blocks)?);
    }
    if blocks.called.is_empty() {
        fs::remove_file(path).map_err(|error| Error::at_path(path, error))?;
        return draft.leave_for_author(&blocks);
    }
    draft.say(&blocks, ran.as_deref())?;
    Ok(Exit::Held)
}

/// The number of launches of each kernel that are captured. There are several, because their sizes
/// may differ.
const LAUNCHES: u32 = 8;

/// Captures the first launches of each kernel of a program. The directory holds their memory.
fn capture_program(args: &InitArgs) -> Result<(ProgramLaunches, TemporaryDir)> {
    refuse_in_ci("--program")?;
    let library = find_library()?;
    let scratch = Cache::open()?.dir("scratch")?;
    let out = TemporaryDir::new_in(&scratch).map_err(|error| Error::at_path(&scratch, error))?;
    let request = Request {
        out: out.path().to_owned(),
        kernels: Vec::new(),
        regions: Vec::new(),
        launches: LAUNCHES,
        most_bytes: MOST_BYTES,
        random_inputs: false,
    };
    remark(&format!("running `{}`", args.command.join(" ")));
    let (captured, ended) = run_captured(&args.command, &library, &request)?;
    ended?;
    if captured.launches().next().is_none() {
        return Err(explain_nothing(&captured, &request));
    }
    let program = ProgramLaunches {
        capture: captured,
        contents: Contents::new(out.path()),
    };
    Ok((program, out))
}

/// Writes a gates file that has the program in it, for kernels that no source here has.
fn gate_program(args: &InitArgs, path: &Path, root: &Path, symbols: &[&str]) -> Result<Exit> {
    if args.append {
        return Err(Error::usage(
            "no source here has a kernel that the program launches, and --append adds kernels of sources",
        )
        .help("add the program to `programs` by hand: docs/gates.md"));
    }
    let text = init::write_program(&args.command, symbols);
    config::validate_text(root, &text)
        .map_err(|wrong| Error::environment(&wrong.diagnostic().message))?;
    create(path)?
        .write_all(text.as_bytes())
        .map_err(|error| Error::unwritten(path.display(), error))?;
    write_schema(root)?;
    say(&format!(
        "wrote {}: the program, which launches {} that no source here has\n\
         next: commit it, change something, and then: gatekeeper run --base HEAD",
        path.display(),
        counted(symbols.len(), "kernel")
    ))?;
    Ok(Exit::Held)
}

/// Refuses an option that runs a command if this is CI, where a pull request can change that
/// command.
///
/// # Errors
/// Usage, in CI.
fn refuse_in_ci(option: &str) -> Result<()> {
    let ci = std::env::var("CI").unwrap_or_default();
    if matches!(ci.as_str(), "" | "0" | "false") {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{option} runs a command with your rights, and is not for CI (CI is set)"
    ))
    .help("run it where you develop, and commit gates.yaml"))
}

fn learn_build(args: &InitArgs, root: &Path, asked: &mut SurveyRequest) -> Result<Tree> {
    refuse_in_ci("--build")?;
    let cache = Cache::open()?;
    let toolchain = find_compiler(args, &cache)?;
    let (tree, build) = init::learn_build(root, &args.command, &toolchain, &cache, &remark)?;
    asked.build = Some(build);
    Ok(tree)
}

/// Returns the file to write, and the sources and settings that the arguments name.
fn asked(args: &InitArgs) -> Result<(PathBuf, SurveyRequest)> {
    let is_gates = |path: &&PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("yaml" | "yml"))
    };
    let (files, paths): (Vec<&PathBuf>, Vec<&PathBuf>) = args.paths.iter().partition(is_gates);
    let file = match files.as_slice() {
        [] => PathBuf::from(DEFAULT_CONFIG),
        [file] => (*file).clone(),
        [one, other, ..] => {
            return Err(Error::usage(format!(
                "{} and {} are two files to write",
                one.display(),
                other.display()
            )));
        }
    };
    let define = args.define.iter().map(|define| {
        let (name, value) = define.split_once('=').unwrap_or((define, "1"));
        (name.to_owned(), value.to_owned())
    });
    let flags = args.flags.iter().flat_map(|flag| flag.split_whitespace());
    let asked = SurveyRequest {
        paths: paths.into_iter().cloned().collect(),
        include_dirs: args.include.clone(),
        define: define.collect(),
        flags: flags.map(str::to_owned).collect(),
        arch: args.arch,
        build: None,
    };
    Ok((file, asked))
}

const SCHEMA: &str = "gates.schema.json";

/// Writes the schema that the first line of gates.yaml names. A schema that exists stays, because an earlier `init`
/// wrote it.
fn write_schema(root: &Path) -> Result<()> {
    let path = root.join(SCHEMA);
    if path.exists() {
        return Ok(());
    }
    let schema = serde_json::to_string_pretty(&config::schema())
        .map_err(|error| Error::at_path(&path, error))?;
    super::write_file(&path, &format!("{schema}\n"))
}

/// The kernels that were found, and the file that is made of them.
struct Draft<'a> {
    args: &'a InitArgs,
    path: &'a Path,
    root: &'a Path,
    /// The file that `--append` adds to.
    existing: Option<Existing>,
    survey: Survey,
}

impl Draft<'_> {
    fn blocks(&self) -> WrittenKernels {
        let accepts = |text: &str| {
            config::validate_text(self.root, text)
                .map_err(|wrong| wrong.diagnostic().message.clone())
        };
        let names = self
            .existing
            .as_ref()
            .map(|existing| existing.names.clone());
        let head = init::head(&self.survey, self.args.arch, self.args.program);
        init::write(
            &self.survey.kernels,
            &head,
            names.unwrap_or_default(),
            &accepts,
        )
    }

    /// Writes the file. A file that exists keeps its text, and is not changed at all if the result would be
    /// incorrect.
    fn write(&self, blocks: &WrittenKernels) -> Result<()> {
        let Some(existing) = &self.existing else {
            let text = init::head(&self.survey, self.args.arch, self.args.program) + &blocks.text;
            return super::write_file(self.path, &text);
        };
        let text = existing.with(&blocks.text);
        config::validate_text(self.root, &text).map_err(|wrong| {
            Error::usage(format!("{} would be wrong with them: {}", self.path.display(), wrong.diagnostic().message))
                .help("nothing was added; write the others to a file of their own: gatekeeper init OTHER.yaml")
        })?;
        super::write_file(self.path, &text)
    }

    /// Runs the file once, with the new kernels in it, and returns the headline. A kernel that fails becomes a comment:
    /// the call may be at fault, or the kernel, and only the author knows. A kernel with
    /// findings stays if the program's own launch has some, too: then the call is not at fault.
    fn try_once(&mut self, blocks: &mut WrittenKernels) -> Result<String> {
        for _ in 0..2 {
            let names = blocks.called.iter().map(|kernel| kernel.name.clone());
            let ran = run::run_quietly(&self.run_args(names)?);
            let (judgement, headline) = match ran {
                Ok(ran) => ran,
                Err(error) => return Ok(format!("not run: {error}")),
            };
            let doubts: Vec<(&WrittenKernel, String)> = blocks
                .called
                .iter()
                .filter_map(|named| {
                    let mut kernels = named.kernels.iter();
                    let has_own_findings = kernels.any(|at| {
                        let kernel = self.survey.kernels.get(*at);
                        kernel.is_some_and(Surveyed::has_findings_in_program)
                    });
                    let why = doubt(&named.name, has_own_findings, &judgement.verdicts)?;
                    Some((named, why))
                })
                .collect();
            if doubts.is_empty() {
                return Ok(headline);
            }
            for (named, why) in doubts {
                for at in &named.kernels {
                    if let Some(kernel) = self.survey.kernels.get_mut(*at) {
                        kernel.doubt(&why);
                    }
                }
            }
            *blocks = self.blocks();
            if blocks.called.is_empty() {
                break;
            }
            self.write(blocks)?;
        }
        Ok("not run again: what did not pass is a comment now".to_owned())
    }

    fn run_args(&self, names: impl Iterator<Item = String>) -> Result<RunArgs> {
        let config = self.path.display().to_string();
        let words = ["gatekeeper", "run", "--quiet", "--config", &config].map(str::to_owned);
        let provision = self.args.provision.then(|| "--provision".to_owned());
        let parsed = Cli::try_parse_from(words.into_iter().chain(provision).chain(names));
        match parsed.map(|cli| cli.command) {
            Ok(Command::Run(args)) => Ok(args),
            _ => Err(Error::environment(format!("{config} cannot be run"))),
        }
    }

    /// Writes what is known of the kernels to another file, because a file of gates without any known
    /// call would check nothing.
    fn leave_for_author(&self, blocks: &WrittenKernels) -> Result<Exit> {
        let open = counted(blocks.todo.len(), "kernel");
        if self.existing.is_some() {
            say(&format!(
                "{open} not in {}, and no call of them is known; nothing was added",
                self.path.display()
            ))?;
            return Ok(Exit::Undecided);
        }
        let path = self.path.with_extension("todo.yaml");
        let text = init::head(&self.survey, self.args.arch, self.args.program) + &blocks.text;
        create(&path)?
            .write_all(text.as_bytes())
            .map_err(|error| Error::unwritten(path.display(), error))?;
        let compiled = self.not_compiled();
        say(&format!(
            "wrote {}: no kernel with a call, {open} as TODO{compiled}\n{}next: complete one, and save it as {}",
            path.display(),
            self.missing(blocks),
            self.path.display()
        ))?;
        Ok(Exit::Undecided)
    }

    fn not_compiled(&self) -> String {
        match self.survey.broken.len() {
            0 => String::new(),
            count => format!(
                "; {count} of {} did not compile",
                counted(self.survey.sources, "source")
            ),
        }
    }

    /// Returns a line such as `missing: the calls of gather and by_union`, and the missing headers.
    fn missing(&self, blocks: &WrittenKernels) -> String {
        let names = &blocks.todo;
        let more = names.len().saturating_sub(NAMED);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown = names
            .get(..NAMED.min(names.len()))
            .unwrap_or_default()
            .join(", ");
        let calls = match names.len() {
            0 => String::new(),
            _ => format!("missing: the call of {shown}{more}; the reasons are in the file\n"),
        };
        let missing = self.survey.missing_headers(self.root);
        let headers = missing
            .iter()
            .map(|header| missing_lines(header, &self.survey));
        calls + &headers.collect::<String>()
    }

    fn say(&self, blocks: &WrittenKernels, ran: Option<&str>) -> Result<()> {
        let name = self.path.display();
        let config = if self.path == Path::new(DEFAULT_CONFIG) {
            String::new()
        } else {
            format!(" --config {name}")
        };
        let matched = match blocks
            .called
            .iter()
            .filter(|kernel| kernel.has_reference)
            .count()
        {
            0 => String::new(),
            count => format!(", {count} with a built-in reference that matches"),
        };
        let did = if self.existing.is_some() {
            "added to"
        } else {
            "wrote"
        };
        let open = blocks
            .called
            .iter()
            .filter(|kernel| !kernel.has_reference)
            .count();
        let references = match (blocks.todo.is_empty(), open) {
            (true, 0) => "look at the sizes and references".to_owned(),
            (true, _) => format!(
                "say what is right (`reference: none`, {})",
                counted(open, "kernel")
            ),
            (false, _) => "complete the TODOs and each `reference: none`".to_owned(),
        };
        say(&format!(
            "{did} {name}: {} with a call{matched}; {} as TODO{}\n{}{}next: {references} in {name}, and then gatekeeper run{config}",
            counted(blocks.called.len(), "kernel"),
            blocks.todo.len(),
            self.not_compiled(),
            self.missing(blocks),
            ran.map_or_else(String::new, |ran| format!("{}\n", ran.trim_end())),
        ))
    }
}

/// Returns why the call of a kernel is not known after all, if a run of it fails. Findings that the program's own launch
/// has, too, are none of the call's.
fn doubt(name: &str, has_own_findings: bool, verdicts: &[Verdict]) -> Option<String> {
    let failed = verdicts.iter().find(|verdict| {
        verdict.outcome == Outcome::Fail
            && verdict.subject.kernel() == name
            && !(has_own_findings && matches!(verdict.reason, Reason::Findings { .. }))
    })?;
    // The call may be at fault, so findings of these checks do not count as the kernel's.
    let code = failed.reason.code().replace("findings", "memory and races");
    Some(format!(
        "a run of it as it is called here does not pass: {code}"
    ))
}

/// A file of gates to which kernels are added.
struct Existing {
    text: String,
    names: BTreeSet<String>,
    /// The source and the entry of each kernel in the file.
    entries: BTreeSet<(String, String)>,
}

impl Existing {
    fn read(path: &Path) -> Result<Self> {
        let loaded = config::load(path, &Selection::default())?;
        let entries = loaded.whole.plan.units.iter().flat_map(|unit| {
            let names = match &unit.call {
                Callable::Entries { names, .. } => names.as_slice(),
                _ => &[],
            };
            names
                .iter()
                .map(|name| (unit.source.clone(), without_spaces(name)))
        });
        Ok(Self {
            text: files::read_text(path, MOST_TEXT).map_err(|error| Error::at_path(path, error))?,
            names: loaded.all.iter().map(|case| case.kernel.clone()).collect(),
            entries: entries.collect(),
        })
    }

    /// Returns true if the file has the kernel, or a comment on it.
    fn has(&self, kernel: &Surveyed) -> bool {
        let name = &kernel.kernel.name;
        let template = name.split('<').next();
        let bare = |line: &'_ str| line.trim_matches([' ', '#', '"']).to_owned();
        let lines: Vec<String> = self.text.lines().map(bare).collect();
        let is_noted = lines.windows(2).any(|pair| match pair {
            [source, entry] => {
                let value = |line: &str, key: &str| {
                    Some(line.strip_prefix(key)?.trim_matches('"').to_owned())
                };
                let entry = value(entry, "entry: ");
                value(source, "source: ").as_ref() == Some(&kernel.source)
                    && entry.as_deref().and_then(|entry| entry.split('<').next()) == template
            }
            _ => false,
        });
        is_noted
            || self
                .entries
                .contains(&(kernel.source.clone(), without_spaces(name)))
    }

    /// Returns the text with these blocks after its last kernel. The rest stays as it was.
    fn with(&self, blocks: &str) -> String {
        let starts = std::iter::once(0).chain(self.text.match_indices('\n').map(|(at, _)| at + 1));
        let lines: Vec<(usize, &str)> = starts
            .map(|at| {
                (
                    at,
                    self.text
                        .get(at..)
                        .and_then(|rest| rest.lines().next())
                        .unwrap_or_default(),
                )
            })
            .collect();
        let first = lines
            .iter()
            .position(|(_, line)| line.starts_with("kernels:"));
        let below = lines
            .iter()
            .skip(first.map_or(lines.len(), |first| first + 1));
        let is_content =
            |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let indent = below.clone().find(|(_, line)| is_content(line));
        let indent = indent.map_or(2, |(_, line)| line.len() - line.trim_start().len());
        let next = below
            .clone()
            .find(|(_, line)| is_content(line) && !line.starts_with(' '));
        let end = next.map_or(self.text.len(), |(next, _)| {
            let kept = below.rev().find(|(at, line)| at < next && is_content(line));
            kept.map_or(*next, |(at, line)| at + line.len() + 1)
        });
        let (before, after) = self.text.split_at_checked(end).unwrap_or((&self.text, ""));
        let indented: String = blocks
            .lines()
            .map(|line| match line.strip_prefix("  ") {
                Some(line) => format!("{:indent$}{line}\n", ""),
                None => format!("{line}\n"),
            })
            .collect();
        let newline = if before.ends_with('\n') { "" } else { "\n" };
        let header = if first.is_some() { "" } else { "kernels:\n" };
        format!("{before}{newline}\n{header}{indented}{after}")
    }
}

/// The size of the largest file of gates that is read, in bytes. Nobody writes larger ones.
const MOST_TEXT: u64 = 16 << 20;

fn without_spaces(name: &str) -> String {
    name.split_whitespace().collect()
}

/// Lists the kernels, with their calls.
fn survey(
    args: &InitArgs,
    root: &Path,
    tree: &Tree,
    asked: &SurveyRequest,
    launches: Option<&ProgramLaunches>,
) -> Result<Survey> {
    let cache = Cache::open()?;
    let toolchain = find_compiler(args, &cache)?;
    let survey = init::survey(root, tree, asked, &toolchain, &cache, launches, &remark)?;
    if survey.kernels.is_empty() && !survey.broken.is_empty() {
        return Err(nothing_compiles(&survey, &survey.missing_headers(root)));
    }
    if survey.kernels.is_empty() {
        return Err(Error::usage(format!(
            "there is no kernel in {}; nothing was written",
            counted(survey.sources, "source")
        ))
        .help("name the sources of kernels: gatekeeper init PATH; a template has kernels where a source asks for instances"));
    }
    Ok(survey)
}

/// Returns the lines about a missing header: its name, the sources that include it, and how to get
/// it.
fn missing_lines(missing: &MissingHeader, survey: &Survey) -> String {
    let mut text = format!(
        "missing header: {}, for {}\n",
        missing.name,
        askers(missing)
    );
    text.push_str(&format!("  {}\n", looked_in(survey)));
    for help in remedies(missing) {
        text.push_str(&format!("  {help}\n"));
    }
    text
}

/// The number of names that a list shows.
const NAMED: usize = 3;

fn askers(missing: &MissingHeader) -> String {
    let named: Vec<&str> = missing
        .sources
        .iter()
        .take(NAMED)
        .map(String::as_str)
        .collect();
    let more = match missing.sources.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {}", counted(more, "other source")),
    };
    format!("{}{more}", named.join(", "))
}

fn looked_in(survey: &Survey) -> String {
    format!("looked in: the repository, {}", survey.looked_in.join(", "))
}

fn remedies(missing: &MissingHeader) -> Vec<String> {
    let commands = missing.remedies.iter();
    let install = commands.map(|command| format!("this brings {}: {command}", missing.name));
    let name = "or name its directory: gatekeeper init --include DIR".to_owned();
    install.chain([name]).collect()
}

/// Reports that no kernel was found, and writes no file, which would be in the way of the next
/// `init`.
fn nothing_compiles(survey: &Survey, missing: &[MissingHeader]) -> Error {
    let names: Vec<String> = missing
        .iter()
        .map(|missing_header| {
            format!(
                "{} is missing, for {}",
                missing_header.name,
                askers(missing_header)
            )
        })
        .collect();
    let first = survey
        .broken
        .first()
        .map_or("", |broken| broken.why.as_str());
    let why = if names.is_empty() {
        first.to_owned()
    } else {
        names.join("; ")
    };
    let all = counted(survey.sources, "source");
    let what = match survey.sources - survey.broken.len() {
        0 => format!("none of {all} compiles"),
        rest => format!("{rest} of {all} compile, and have no kernel; the others do not"),
    };
    let mut error = Error::environment(format!("{what}: {why}; nothing was written"));
    if missing.is_empty() {
        return error.help("name what the build gives them: gatekeeper init --include DIR --define NAME=VALUE --flags FLAGS");
    }
    error = error.help(looked_in(survey));
    for missing in missing {
        for help in remedies(missing) {
            error = error.help(help);
        }
    }
    error
}

fn find_compiler(args: &InitArgs, cache: &Cache) -> Result<Toolchain> {
    match toolchain::find(None, cache) {
        Err(_) if args.provision => {
            toolchain::install(toolchain::PROVIDED, cache, &|line| remark(line))?;
            toolchain::find(None, cache)
        }
        found => found,
    }
}

fn exists(path: &Path) -> Error {
    Error::usage(format!(
        "{} already exists; it was not changed",
        path.display()
    ))
    .help("to write another file: gatekeeper init OTHER.yaml")
}

fn no_directory(path: &Path) -> Error {
    Error::usage(format!(
        "the directory of {} does not exist",
        path.display()
    ))
    .help("create the directory first")
}

/// Creates a file. `create_new` is used in addition to the earlier check, because two processes
/// must not overwrite each other's file.
fn create(path: &Path) -> Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(path),
        ErrorKind::NotFound => no_directory(path),
        _ => Error::environment(format!("{} cannot be written: {error}", path.display())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{CaseId, Question, Rule, Subject};

    #[test]
    fn findings_of_the_program_leave_the_call_known() {
        let findings = Reason::Findings {
            seed: 1,
            first: Vec::new(),
            more: 1,
            accepted: 0,
        };
        for (reason, has_own_findings, is_doubted) in [
            (&findings, true, false),
            (&findings, false, true),
            (&Reason::ExpectedFailurePassed, true, true),
        ] {
            let verdict = Verdict::without_figures(
                Subject::Case(CaseId::new("k", "default", "small")),
                Question::Gate(Rule::NoFindings),
                Outcome::Fail,
                reason.clone(),
                None,
            );
            let why = doubt("k", has_own_findings, std::slice::from_ref(&verdict));
            assert_eq!(why.is_some(), is_doubted);
            assert_eq!(doubt("other", has_own_findings, &[verdict]), None);
        }
    }
}
