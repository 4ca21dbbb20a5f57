//! `init`: a gates.yaml for what is there.

use super::{counted, remark, say};
use crate::cli::InitArgs;
use crate::init::{self, Asked, Found, MissingHeader, Step, Survey, Surveyed, Tree};
use build::toolchain::{self, Toolchain};
use model::DEFAULT_CONFIG;
use report::exit::Exit;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Error, Result};
use system::files;

pub fn run(args: &InitArgs) -> Result<Exit> {
    let (path, mut asked) = asked(args)?;
    let path = path.as_path();
    if path.exists() {
        return Err(exists(path));
    }
    let root = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut tree = if args.build {
        learn_build(args, root, &mut asked)?
    } else {
        Tree::find(root)
    };
    tree.narrow(root, &asked.paths)?;
    let draft = if tree.is_empty() {
        Draft::template()
    } else {
        list(args, root, &tree, &asked)?
    };
    let mut file = create(path)?;
    file.write_all(draft.text.as_bytes()).map_err(|error| {
        Error::environment(format!("{} cannot be written: {error}", path.display()))
    })?;
    let schema = write_schema(root)?;
    let name = path.display();
    let config = if path == Path::new(DEFAULT_CONFIG) {
        String::new()
    } else {
        format!(" --config {name}")
    };
    say(&format!(
        "wrote {name}{}\n{}{}\n  gatekeeper validate{config}\n  gatekeeper run{config}\n{schema}\
         records and reports go to gatekeeper-out/: add it to .gitignore\n",
        draft.summary, draft.remarks, draft.next
    ))?;
    Ok(Exit::Held)
}

/// # Errors
/// Usage, in CI: a build that a pull request can change is nothing to learn from there.
fn learn_build(args: &InitArgs, root: &Path, asked: &mut Asked) -> Result<Tree> {
    let ci = std::env::var("CI").unwrap_or_default();
    if !matches!(ci.as_str(), "" | "0" | "false") {
        return Err(Error::usage(
            "--build runs a build with your rights, and is not for CI (CI is set)",
        )
        .help("run it where you develop, and commit gates.yaml"));
    }
    let cache = Cache::open()?;
    let toolchain = find_compiler(args, &cache)?;
    let (tree, build) = init::learn_build(root, &args.command, &toolchain, &cache, &remark)?;
    asked.build = Some(build);
    Ok(tree)
}

/// The file to write, and the sources and settings that the arguments name.
fn asked(args: &InitArgs) -> Result<(PathBuf, Asked)> {
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
    let asked = Asked {
        paths: paths.into_iter().cloned().collect(),
        include_dirs: args.include.clone(),
        define: define.collect(),
        flags: flags.map(str::to_owned).collect(),
        build: None,
    };
    Ok((file, asked))
}

const SCHEMA: &str = "gates.schema.json";

/// Writes the schema that the first line of gates.yaml names. One that is there stays, as an earlier `init` wrote it.
fn write_schema(root: &Path) -> Result<String> {
    let path = root.join(SCHEMA);
    if path.exists() {
        return Ok(String::new());
    }
    let schema = serde_json::to_string_pretty(&config::schema())
        .map_err(|error| Error::environment(format!("{}: {error}", path.display())))?;
    super::write_file(&path, &format!("{schema}\n"))?;
    Ok(format!(
        "{} tells editors the keys; `gatekeeper schema` prints it again\n",
        path.strip_prefix(".").unwrap_or(&path).display()
    ))
}

/// The text of a file, and what is said of it.
struct Draft {
    text: String,
    /// Behind the name of the file.
    summary: String,
    /// Lines on what was found, and on what is missing.
    remarks: String,
    next: &'static str,
}

impl Draft {
    fn template() -> Self {
        Self {
            text: format!("{}\n{}", init::SCHEMA, config::template()),
            summary: String::new(),
            remarks: String::new(),
            next: "next: set `source` and `entry` to a kernel of yours, list its arguments, and then",
        }
    }
}

fn list(args: &InitArgs, root: &Path, tree: &Tree, asked: &Asked) -> Result<Draft> {
    let cache = Cache::open()?;
    let toolchain = find_compiler(args, &cache)?;
    let step = |step: Step| remark(&line(step));
    let survey = init::survey(root, tree, asked, &toolchain, &cache, args.arch, &step)?;
    let missing = survey.missing_headers(root);
    if survey.broken.len() == survey.sources && !missing.is_empty() {
        return Err(nothing_compiles(&survey, &missing));
    }
    let accepts = |text: &str| config::check(root, text).map_err(|wrong| wrong.message);
    let (text, kept) = init::write(&survey, args.arch, &accepts);
    let all = survey.kernels.len();
    let rest = match (all - kept, survey.broken.len()) {
        (0, 0) => "",
        _ => "; what is missing is named in it, with the reason",
    };
    let broken = match survey.broken.len() {
        0 => String::new(),
        count => format!(", of which {count} did not compile as they are"),
    };
    let matched = match survey
        .kernels
        .iter()
        .filter(|kernel| {
            let call = kernel.call.as_ref();
            call.is_ok_and(|call| call.reference.whole.is_some())
        })
        .count()
    {
        0 => String::new(),
        count => format!("; {} with a built-in reference that matches", count),
    };
    let summary = format!(
        ": {kept} of {} in {}{broken}{matched}{rest}",
        counted(all, "kernel"),
        counted(survey.sources, "source")
    );
    let races = survey
        .races()
        .map(|(kernel, found)| race(root, kernel, found));
    let missing = missing
        .iter()
        .map(|missing_header| missing_lines(missing_header, &survey));
    let remarks: String = races.chain(missing).collect();
    Ok(match kept {
        // A file without kernels is none.
        0 => {
            let listed: Vec<&str> = text
                .lines()
                .filter(|line| line.trim_start().starts_with('#'))
                .collect();
            Draft {
                text: format!("{}\n\n{}", listed.join("\n"), config::template()),
                summary,
                remarks,
                next: "next: look at the kernels in its comments, set `source` and `entry` to one of them, list its arguments, and then",
            }
        }
        _ => Draft {
            text,
            summary,
            remarks,
            next: "next: say what each is to compute (`reference`) and at which sizes, and then",
        },
    })
}

fn line(step: Step) -> String {
    match step {
        Step::Listed {
            source,
            done,
            all,
            kernels,
        } => {
            let kernels = match kernels {
                Some(count) => counted(count, "kernel"),
                None => "does not compile by itself".to_owned(),
            };
            format!("[{done}/{all}] {source}: {kernels}")
        }
        Step::Tried { kernel, done, all } => format!("[{done}/{all}] tried {kernel}"),
    }
}

/// `finding: softmax (k.cu): a race in each of 24 launches`, and the lines of the source.
fn race(root: &Path, kernel: &Surveyed, found: &Found) -> String {
    let launches = match found.launches {
        Some(count) => format!("in every launch that came to its end, {count} of {count}"),
        None => "with other inputs than the first".to_owned(),
    };
    let mut text = format!(
        "finding: {} in {}: {}, {launches}\n",
        kernel.kernel.name,
        kernel.source,
        init::describe(found)
    );
    let mut lines: Vec<(&str, u32)> = found
        .places
        .iter()
        .filter_map(|place| place.line.as_ref())
        .map(|(file, line)| (file.as_str(), *line))
        .collect();
    lines.dedup();
    for (file, number) in lines {
        if let Some(line) = source_line(root, file, number) {
            text.push_str(&format!("  {file}:{number} | {line}\n"));
        }
    }
    text
}

/// Larger files are no sources of people.
const MOST_SOURCE: u64 = 16 << 20;

/// A source says itself which file a line is of: only those of the repository are shown.
fn source_line(root: &Path, file: &str, number: u32) -> Option<String> {
    let root = std::fs::canonicalize(root).ok()?;
    let path = std::fs::canonicalize(root.join(file)).ok()?;
    if !path.starts_with(&root) {
        return None;
    }
    let text = files::read_text(&path, MOST_SOURCE).ok()?;
    let line = text.lines().nth(number.checked_sub(1)? as usize)?;
    Some(line.trim().to_owned())
}

/// The header, who asks for it, and how to get it.
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

/// The first few names of a list.
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

/// A file that lists nothing would be in the way of the next `init`.
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
    let mut error = Error::environment(format!(
        "none of {} compiles: {}; nothing was written",
        counted(survey.sources, "source"),
        names.join("; ")
    ))
    .help(looked_in(survey));
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

/// `create_new` in addition to the look before: two at once must not overwrite each other.
fn create(path: &Path) -> Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(path),
        ErrorKind::NotFound => Error::usage(format!(
            "the directory of {} does not exist",
            path.display()
        ))
        .help("create the directory first"),
        _ => Error::environment(format!("{} cannot be written: {error}", path.display())),
    })
}
