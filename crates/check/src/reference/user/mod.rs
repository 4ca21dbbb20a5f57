//! Runs the user's own reference: a C or C++ function with C linkage, built with the host compiler, or a Python
//! function. It runs in a process of its own, because it may crash, hang, or write where it should not.
//!
//! For C, a generated `main` reads each argument from a file, calls the function once, and writes back what the
//! function left in the outputs. Sizes travel with the data, so that one program serves all shapes and seeds.

mod arguments;
mod earlier;
mod python;

use super::{NoAnswer, compared, complete};
use crate::inputs::{Inputs, View};
use crate::{Outputs, elem, layout, poison};
use arguments::{Param, generated_main, parameters, stored};
use build::apart::{FileRead, FileReader, Reads};
use build::depend::{ask_for_rules, list_linked, list_loaded, list_prerequisites};
use build::toolchain::{clean_command, find_breakage};
use earlier::Earlier;
use model::{Case, Reference, Role};
use object::Object as _;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use system::cache::{Cache, write_atomically};
use system::error::Result;
use system::files;
use system::limits;
use system::process::confine::{Hidden, Metadata, Rules, Sockets, Support, memory_of_machine};
use system::process::{self, Ended, helper};
use system::temporary::TemporaryDir;

/// The longest time that the host compiler may take.
const COMPILE: Duration = Duration::from_secs(120);

/// The directories that are hidden in a run against the base.
#[derive(Clone, Debug, Default)]
pub struct HiddenFrom {
    /// The other side's tree, hidden from compilers.
    pub compilers: Option<Hidden>,
    /// The tree, hidden from programs. A function computes from its arguments, and what it read from a tree would not
    /// be part of its identity.
    pub programs: Option<Hidden>,
}

/// Builds reference functions and remembers them, one instance for each run.
pub struct Functions {
    root: PathBuf,
    compiler: Option<PathBuf>,
    /// The user's own Python, as PATH selects it. It has the packages that the reference imports.
    python: Option<PathBuf>,
    programs: PathBuf,
    hidden: HiddenFrom,
    built: Mutex<BTreeMap<Build, std::result::Result<ReferenceProgram, NoAnswer>>>,
    /// The files that programs were made from, and those that they load.
    reads: Mutex<Reads>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cpp,
    Python,
}

impl Language {
    fn from_source(source: &str) -> Self {
        let end = Path::new(source).extension();
        match end.and_then(std::ffi::OsStr::to_str) {
            Some("c") => Self::C,
            Some("py") => Self::Python,
            _ => Self::Cpp,
        }
    }
}

/// Identifies a program before its source is read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Build {
    source: String,
    flags: Vec<String>,
    main: String,
}

impl Build {
    /// Returns the build of a case's reference, and the name of its function.
    fn for_case(case: &Case) -> std::result::Result<(Self, &str), NoAnswer> {
        let Reference::User {
            source,
            function,
            args,
            flags,
        } = &case.reference
        else {
            return Err("the reference is not a user function".into());
        };
        let params = parameters(case, args)?;
        let build = Self {
            source: source.clone(),
            flags: flags.clone(),
            main: match Language::from_source(source) {
                Language::Python => function.clone(),
                Language::C | Language::Cpp => generated_main(function, &params)?,
            },
        };
        Ok((build, function))
    }

    fn reader(&self) -> FileReader {
        FileReader::Reference(self.source.clone())
    }

    /// Returns the words that name the compilation in messages.
    fn compilation(&self) -> String {
        format!("the host compiler on {}", self.source)
    }

    /// Returns the flags and the source. Contraction is off, because it makes results differ between machines. The
    /// user's flags come last and win.
    fn source(&self) -> [&str; 5] {
        let language = match Language::from_source(&self.source) {
            Language::C => "c",
            Language::Cpp | Language::Python => "c++",
        };
        ["-O2", "-ffp-contract=off", "-x", language, &self.source]
    }
}

#[derive(Clone, Debug)]
pub struct ReferenceProgram {
    executable: PathBuf,
    /// The arguments that precede the arguments of a call.
    arguments: Vec<OsString>,
    /// Covers the program's bytes and the shared libraries that it loads: everything that it can compute with, wherever
    /// the compiler found it.
    pub identity: String,
    /// The directory in which its calls are made.
    scratch: PathBuf,
    /// The directory that it cannot read while it runs.
    hidden: Option<Arc<Hidden>>,
}

impl Functions {
    /// Makes an empty set of functions. `root` is the directory of gates.yaml, `compiler` is the host compiler if there
    /// is one, and `hidden` is what cannot be read.
    ///
    /// # Errors
    /// Fails with an environment error if the cache cannot be written.
    pub fn new(
        root: &Path,
        compiler: Option<&Path>,
        hidden: HiddenFrom,
        cache: &Cache,
    ) -> Result<Self> {
        Ok(Self {
            hidden,
            root: root.to_owned(),
            compiler: compiler.map(Path::to_owned),
            python: helper::find("python3"),
            programs: cache.dir("reference-programs")?,
            built: Mutex::default(),
            reads: Mutex::default(),
        })
    }

    /// Builds the function of a case, once for each run: later changes of files do not matter to the run. A program
    /// that an earlier run made from the same files is not made again.
    ///
    /// # Errors
    /// Returns the compiler's message, arguments that a function cannot take, or that there is no host compiler.
    pub fn build(&self, case: &Case) -> std::result::Result<ReferenceProgram, NoAnswer> {
        let (build, function) = Build::for_case(case)?;
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        built
            .entry(build.clone())
            .or_insert_with(|| match Language::from_source(&build.source) {
                Language::Python => self.load(&build, function),
                Language::C | Language::Cpp => self.compile(&build, function),
            })
            .clone()
    }

    /// Returns the files that all programs so far were made from, and those that they load.
    pub fn reads(&self) -> Reads {
        self.lock_reads().clone()
    }

    fn broken(&self, error: &std::io::Error) -> NoAnswer {
        NoAnswer::Environment(format!("{}: {error}", self.programs.display()))
    }

    fn compiler(&self, build: &Build) -> std::result::Result<&Path, NoAnswer> {
        self.compiler.as_deref().ok_or_else(|| {
            NoAnswer::Environment(format!(
                "the reference in {} needs a host compiler and none was found; install g++",
                build.source
            ))
        })
    }

    /// Returns a call of the compiler in the root, so that messages and line markers name files as the user does.
    fn call(&self, compiler: &Path) -> Command {
        let mut command = clean_command(compiler);
        command.current_dir(&self.root);
        command
    }

    fn compile(
        &self,
        build: &Build,
        function: &str,
    ) -> std::result::Result<ReferenceProgram, NoAnswer> {
        let compiler = self.compiler(build)?;
        let before = SystemTime::now();
        let hidden = self.hidden.compilers.as_ref();
        let earlier = Earlier::for_build(build, compiler, &self.programs, hidden);
        let found = earlier
            .as_ref()
            .and_then(|library| self.find(build, library));
        let executable = match found {
            Some(executable) => executable,
            None => self.make(build, function, compiler, earlier.as_ref())?,
        };
        self.finish(build, executable, before)
    }

    /// Finds the program that an earlier run made from the files as they are now.
    fn find(&self, build: &Build, earlier: &Earlier) -> Option<PathBuf> {
        let compilation = earlier.find(&self.root)?;
        let executable = self.programs.join(&compilation.program);
        // The file may have been emptied, cut or replaced.
        let bytes = files::read(&executable, LARGEST_FILE).ok()?;
        if blake3::hash(&bytes).to_hex().as_str() != compilation.program {
            return None;
        }
        for (file, digest) in compilation.reads() {
            self.note_read(build, FileRead::new(&self.root, file, Some(digest.clone())));
        }
        Some(executable)
    }

    fn make(
        &self,
        build: &Build,
        function: &str,
        compiler: &Path,
        earlier: Option<&Earlier>,
    ) -> std::result::Result<PathBuf, NoAnswer> {
        let broken = |error: std::io::Error| self.broken(&error);
        let scratch = TemporaryDir::new_in(&self.programs).map_err(broken)?;
        // The file has the same path in each run, because with `-g` it is part of the program.
        let main = format!("{}.cpp", blake3::hash(build.main.as_bytes()).to_hex());
        let main = self.programs.join(main);
        write_atomically(&main, build.main.as_bytes())
            .map_err(|error| NoAnswer::Environment(error.to_string()))?;
        let what = build.compilation();
        let run_in = |dir: &Path, hidden: Option<&Hidden>| {
            let mut compile = self.call(compiler);
            compile
                .env("TMPDIR", dir)
                .args(build.source())
                .args(["-x", "c++"])
                .arg(&main)
                .args(["-x", "none"])
                .args(&build.flags)
                .args(["-Xlinker", "-Map", "-Xlinker"])
                .arg(dir.join(LINKED))
                .arg("-o")
                .arg(dir.join(PROGRAM));
            ask_for_rules(&mut compile, &dir.join(READ));
            let writes = [dir];
            let rules = Rules {
                memory: Some(limits::compiler_memory()),
                ..rules(&writes, hidden, None)
            };
            run_confined(compile, &rules, COMPILE)
        };
        let before = SystemTime::now();
        let hidden = self.hidden.compilers.as_ref();
        let ended =
            run_in(scratch.path(), hidden).map_err(|why| why.into_answer(&what, COMPILE))?;
        if !ended.status.success()
            && let Some(why) = limits::out_of_memory(&ended.log)
        {
            return Err(NoAnswer::Reference(format!("{what}: {why}")));
        }
        let said = ReportedFiles::read(scratch.path(), &build.source);
        self.note_reads(build, &said, before);
        if hidden.is_some() && !ended.status.success() {
            // This compiles once more with what is hidden, only to find out which files those are.
            let scratch = TemporaryDir::new_in(&self.programs).map_err(broken)?;
            let before = SystemTime::now();
            let in_sight = run_in(scratch.path(), None);
            self.note_reads(
                build,
                &ReportedFiles::read(scratch.path(), &build.source),
                before,
            );
            if in_sight.is_ok_and(|output| output.status.success()) {
                self.lock_reads()
                    .unlisted
                    .push((build.reader(), ended.log.clone()));
            }
        }
        if let Some(breakage) = find_breakage(&ended) {
            return Err(NoAnswer::Environment(format!("{what}: {breakage}")));
        }
        let undeclared = ended.log.contains("undefined reference") && ended.log.contains(function);
        output(ended, &what).map_err(|error| match error {
            NoAnswer::Reference(message) if undeclared => {
                NoAnswer::Reference(format!("{message}\nis `{function}` declared extern \"C\"?"))
            }
            error => error,
        })?;
        if hidden.is_some() && said.compiled.is_none() && !Support::detect().files {
            return Err(NoAnswer::Environment(format!(
                "{what} does not say which files it reads, and this system cannot hide the head's from it; use g++"
            )));
        }
        let program = scratch.path().join(PROGRAM);
        let bytes = files::read(&program, LARGEST_FILE).map_err(broken)?;
        let digest = blake3::hash(&bytes).to_hex();
        let executable = self.programs.join(digest.as_str());
        // The file may have been emptied, cut or replaced. A rewritten one counts as recently used when the cache is
        // pruned.
        if !files::read(&executable, LARGEST_FILE).is_ok_and(|there| there == bytes) {
            // A linker may not change modes, because it could then change those of any file.
            let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::File::open(&program)
                .and_then(|file| file.set_permissions(runs).and_then(|()| file.sync_all()))
                .and_then(|()| std::fs::rename(&program, &executable))
                .map_err(broken)?;
        }
        if let (Some(earlier), Some(compiled), Some(linked)) =
            (earlier, &said.compiled, &said.linked)
        {
            earlier.store(&self.root, (compiled, linked), digest.as_str(), before);
        }
        Ok(executable)
    }

    /// Adds the shared libraries that the program would be given now.
    fn finish(
        &self,
        build: &Build,
        executable: PathBuf,
        before: SystemTime,
    ) -> std::result::Result<ReferenceProgram, NoAnswer> {
        let broken = |error: std::io::Error| self.broken(&error);
        let scratch = TemporaryDir::new_in(&self.programs).map_err(broken)?;
        let bytes = files::read(&executable, LARGEST_FILE).map_err(broken)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&bytes);
        let mut hidden = self.hidden.programs.clone();
        for library in self.libraries(&executable, &bytes, scratch.path())? {
            let bytes = files::read(&library, LARGEST_FILE).map_err(|error| {
                let what = build.compilation();
                NoAnswer::Environment(format!("{what}: {}: {error}", library.display()))
            })?;
            hasher.update(blake3::hash(&bytes).as_bytes());
            let read = FileRead::read_since(&self.root, &library, before);
            if let Some(hidden) = &mut hidden {
                hidden.but.push(read.real.clone());
            }
            self.note_read(build, read);
        }
        Ok(ReferenceProgram {
            executable,
            arguments: Vec::new(),
            identity: hasher.finalize().to_hex().to_string(),
            scratch: self.programs.clone(),
            hidden: hidden.map(Arc::new),
        })
    }

    fn note_reads(&self, build: &Build, said: &ReportedFiles, before: SystemTime) {
        for name in [&said.compiled, &said.linked]
            .into_iter()
            .flatten()
            .flatten()
        {
            self.note_read(build, FileRead::read_since(&self.root, name, before));
        }
    }

    fn note_read(&self, build: &Build, read: FileRead) {
        let mut reads = self.lock_reads();
        reads.files.entry(read).or_insert_with(|| build.reader());
    }

    fn lock_reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shared libraries that the loader would give the program, in its order.
    fn libraries(
        &self,
        executable: &Path,
        bytes: &[u8],
        dir: &Path,
    ) -> std::result::Result<Vec<PathBuf>, NoAnswer> {
        // Without a loader the command would run the program.
        let has_loader =
            object::File::parse(bytes).is_ok_and(|file| file.section_by_name(".interp").is_some());
        if !has_loader {
            return Ok(Vec::new());
        }
        let mut ask = clean_command(executable);
        ask.current_dir(dir).env("LD_TRACE_LOADED_OBJECTS", "1");
        let what = "the loader of a reference";
        // The program itself names its loader. Nothing is hidden from the loader, which is only asked what it would
        // load.
        let ended = run_confined(ask, &rules(&[], None, Some(0)), COMPILE)
            .map_err(|why| why.into_answer(what, COMPILE))?;
        let listed = output(ended, what)?;
        Ok(list_loaded(&listed)
            .into_iter()
            .map(|path| dir.join(path))
            .collect())
    }
}

/// The files that one run of the compiler and the linker read, as far as they report them.
struct ReportedFiles {
    compiled: Option<Vec<String>>,
    linked: Option<Vec<String>>,
}

impl ReportedFiles {
    /// Reads the lists. Files in `dir` are left out, because they only pass from one step to the next. The source is
    /// added, because gcc's rules leave it out.
    fn read(dir: &Path, source: &str) -> Self {
        let listed = |name: &str, list: fn(&str) -> Vec<String>| {
            let bytes = files::read(&dir.join(name), LARGEST_FILE).ok()?;
            let mut files = list(&String::from_utf8_lossy(&bytes));
            files.retain(|file| !Path::new(file).starts_with(dir));
            Some(files)
        };
        let with_source = |mut files: Vec<String>| {
            files.push(source.to_owned());
            files
        };
        Self {
            compiled: listed(READ, list_prerequisites).map(with_source),
            linked: listed(LINKED, list_linked),
        }
    }
}

/// File names of one run of the compiler.
const PROGRAM: &str = "program";
const READ: &str = "read.d";
const LINKED: &str = "linked.map";

/// The number of bytes that are kept of what the compiler or the function prints.
const MOST_OUTPUT: u64 = 16 << 10;

/// A compiler makes no larger file from a reference.
const LARGEST_FILE: u64 = 4 << 30;

/// Returns the permissions of the compiler and of the program: both do what the tree's author wants.
fn rules<'a>(writes: &'a [&'a Path], hidden: Option<&'a Hidden>, answer: Option<u64>) -> Rules<'a> {
    Rules {
        writes,
        hidden,
        sockets: Sockets::None,
        metadata: Metadata::Kept,
        memory: memory_of_machine(),
        // Its output also goes to a file.
        file: Some(answer.map_or(LARGEST_FILE, |bytes| bytes.saturating_add(1 << 20))),
    }
}

/// The reasons for which a program did not finish.
enum NotEnded {
    Hung,
    NotStarted(std::io::Error),
}

impl NotEnded {
    fn into_answer(self, what: &str, deadline: Duration) -> NoAnswer {
        match self {
            Self::Hung => NoAnswer::Late(format!(
                "{what} did not finish within {} ms and was killed",
                deadline.as_millis()
            )),
            Self::NotStarted(error) => NoAnswer::Environment(format!("{what}: {error}")),
        }
    }
}

/// Runs a program to its end, however that ends.
fn run_confined(
    command: Command,
    rules: &Rules,
    deadline: Duration,
) -> std::result::Result<Ended, NotEnded> {
    process::run_confined(command, rules, deadline, MOST_OUTPUT)
        .map_err(NotEnded::NotStarted)?
        .ok_or(NotEnded::Hung)
}

/// Returns the output of a program that ended well.
fn output(ended: Ended, what: &str) -> std::result::Result<String, NoAnswer> {
    if ended.status.success() {
        Ok(ended.log)
    } else {
        Err(NoAnswer::Reference(format!("{what} {}", ended.failure())))
    }
}

/// Calls the function once, within the case's deadline.
///
/// # Errors
/// Returns a crash, a hang, a write beyond an argument, and outputs that are missing or not written.
pub fn call(
    program: &ReferenceProgram,
    case: &Case,
    inputs: &Inputs,
    view: View,
) -> std::result::Result<Outputs, NoAnswer> {
    let Reference::User {
        source,
        function,
        args,
        ..
    } = &case.reference
    else {
        return Err("the reference is not a user function".into());
    };
    let what = format!("the reference `{function}` in {source}");
    let broken = |error: std::io::Error| NoAnswer::Environment(format!("{what}: {error}"));
    let params = parameters(case, args)?;
    let mut image = Vec::new();
    for param in &params {
        let bytes = param.bytes(inputs, view)?;
        image.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        image.extend_from_slice(&bytes);
    }
    let expected: usize = params
        .iter()
        .filter_map(Param::output)
        .map(|tensor| tensor.len() * stored(tensor).size())
        .sum();
    let scratch = TemporaryDir::new_in(&program.scratch).map_err(broken)?;
    let (given, answer) = (scratch.path().join("in"), scratch.path().join("out"));
    std::fs::write(&given, image).map_err(broken)?;
    let mut command = clean_command(&program.executable);
    command
        .current_dir(scratch.path())
        .env("HOME", scratch.path())
        .env("TMPDIR", scratch.path())
        .args(&program.arguments)
        .arg(&given)
        .arg(&answer);
    if Language::from_source(source) == Language::Python {
        command.arg(python::describe(&params));
    }
    let deadline = Duration::from_millis(case.deadline_ms);
    let writes = [scratch.path()];
    let rules = rules(&writes, program.hidden.as_deref(), Some(expected as u64));
    let ended =
        run_confined(command, &rules, deadline).map_err(|why| why.into_answer(&what, deadline))?;
    output(ended, &what)?;
    let answer = read_answer(&answer, expected)
        .map_err(|error| NoAnswer::Reference(format!("{what} left no answer: {error}")))?;
    let compared = compared(case, inputs)?;
    let mut rest = &answer[..];
    let mut outputs = Outputs::new();
    for tensor in params.iter().filter_map(Param::output) {
        let size = tensor.len() * stored(tensor).size();
        let Some((bytes, after)) = rest.split_at_checked(size) else {
            return Err(NoAnswer::Reference(format!(
                "{what} wrote only a part of `{}`",
                tensor.name
            )));
        };
        rest = after;
        let poison = poison::poison(stored(tensor), 1);
        let unwritten = bytes
            .chunks_exact(poison.len())
            .enumerate()
            .position(|(at, element)| *element == *poison && compared.has(&tensor.name, at));
        if let Some(at) = unwritten.filter(|_| tensor.elem.is_float() && tensor.role == Role::Out) {
            return Err(NoAnswer::Reference(format!(
                "{what} does not write `{}`{:?}",
                tensor.name,
                layout::index(&tensor.dims, at)
            )));
        }
        outputs.insert(tensor.name.clone(), elem::decode(stored(tensor), bytes));
    }
    if !rest.is_empty() {
        return Err(NoAnswer::Reference(format!(
            "{what} wrote more than its outputs"
        )));
    }
    complete(case, inputs, outputs)
}

/// Reads at most one byte more than is expected, from a regular file only: a program of the tree wrote it.
fn read_answer(path: &Path, expected: usize) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    // A link could lead to another file, and reading a pipe would block.
    let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::with_capacity(expected.saturating_add(1));
    file.take(expected as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
