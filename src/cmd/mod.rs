//! One file for each subcommand. Each reads its arguments, calls the crates, prints, and returns the exit code. Only
//! these files and `progress` print.

pub mod baseline;
mod binaries;
pub mod binary;
pub mod bisect;
mod blame;
pub mod cache;
pub mod capture;
pub mod config;
pub mod doctor;
pub mod explain;
pub mod history;
pub mod init;
pub mod judge;
pub mod list;
mod measure;
pub mod merge;
pub mod profile;
mod progress;
pub mod replay;
pub mod run;
pub mod toolchain;
pub mod tune;
pub mod watch;

use crate::cli::{BaselineCommand, Cli, Command, ConfigArg, LAST_RECORD, ToolchainCommand};
use clap::CommandFactory;
use model::DEFAULT_CONFIG;
use records::repo::refuse_links;
use report::exit::Exit;
use report::terminal::{self, Verbosity};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use system::cache::write_atomically;
use system::error::{Error, Result};
use terminal_size::{Width, terminal_size_of};
use wording::escape;

/// Writes to standard output in one write. It is no error if the reader went away (`| head`).
fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::environment(
            format!("standard output cannot be written: {error}"),
        )),
        _ => Ok(()),
    }
}

fn terminal_options(verbosity: Verbosity) -> terminal::Options {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    terminal::Options {
        color: std::io::stdout().is_terminal() && !is_plain,
        width: width(),
        verbosity,
    }
}

/// The width of lines, in columns, if standard output is no terminal.
const DEFAULT_WIDTH: usize = 100;

/// Returns the width of lines on standard output, in columns.
fn width() -> usize {
    let is_sane = |width: &usize| (40..=1000).contains(width);
    let asked = std::env::var("COLUMNS").ok();
    let asked = asked.and_then(|text| text.parse().ok()).filter(is_sane);
    let has = || terminal_size_of(std::io::stdout()).map(|(Width(width), _)| width.into());
    asked
        .or_else(|| has().filter(is_sane))
        .unwrap_or(DEFAULT_WIDTH)
}

/// Prints text for people, which may contain text from outside, with its control characters escaped.
fn say(text: &str) -> Result<()> {
    print(&(escape::lines(text) + "\n"))
}

/// Prints an error to standard error. If that cannot be written, only the exit code tells of the error.
pub fn complain(error: &Error) {
    tracing::debug!(?error);
    let text = escape::lines(&format!("error: {error}"));
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints a remark that is not part of the result to standard error.
fn remark(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", escape::lines(text));
}

/// Moves to the nearest directory above this one that has a gates.yaml, if the command reads that file and this
/// directory has none. All paths are then relative to that directory. A directory with another owner than this one is
/// not entered, because its gates.yaml may start programs.
pub fn enter_project(command: &Command) {
    let default = Path::new(DEFAULT_CONFIG);
    let last_record = Path::new(LAST_RECORD);
    let config = match command {
        Command::Run(args) => &args.config.config,
        Command::Profile(args) => &args.config.config,
        Command::Bisect(args) => &args.config.config,
        Command::Tune(args) => &args.config.config,
        Command::Validate(args) => &args.config.config,
        Command::List(args) => &args.config.config,
        Command::History(args) => &args.config.config,
        Command::Doctor(args) => &args.config.config,
        Command::Binary(args) if args.file.is_none() => &args.config.config,
        Command::Baseline(
            BaselineCommand::Update { config, .. }
            | BaselineCommand::Rename { config, .. }
            | BaselineCommand::Show { config, .. },
        )
        | Command::Toolchain(ToolchainCommand::Show(config)) => &config.config,
        Command::Report(args) if args.record == last_record && !last_record.exists() => {
            &args.config
        }
        Command::Explain(args) if args.record == last_record && !last_record.exists() => default,
        _ => return,
    };
    if config != default || default.exists() {
        return;
    }
    let owner = |path: &Path| path.metadata().map(|found| found.uid()).ok();
    if let Some(above) = ::config::find_above()
        && owner(&above.join(default)) == owner(Path::new("."))
        && std::env::set_current_dir(&above).is_ok()
    {
        remark(&format!(
            "{DEFAULT_CONFIG} is in {}: paths are relative to that directory",
            above.display()
        ));
    }
}

/// Returns true if the user named no gates file and none exists. That is an error only where one is needed.
fn has_no_gates(config: &ConfigArg) -> bool {
    config.config == Path::new(DEFAULT_CONFIG) && !config.config.exists()
}

/// Writes a file. If the path is a link, the link is replaced and not followed.
fn write_file(path: &Path, text: &str) -> Result<()> {
    write_atomically(path, text.as_bytes())
}

/// Makes an empty directory for files that must not mix with others. `problem` says what would become of files that are
/// already there.
fn make_empty(dir: &Path, problem: &str) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::environment(format!("{} cannot be written: {error}", dir.display())).caused_by(error)
    };
    refuse_links(dir)?;
    std::fs::create_dir_all(dir).map_err(failed)?;
    let there = std::fs::read_dir(dir).map_err(failed)?.next();
    if there.is_some() {
        return Err(Error::usage(problem)
            .at(dir.display())
            .help("name a new one"));
    }
    Ok(())
}

fn make_dir(option: &str, dir: &Path) -> Result<()> {
    refuse_links(dir)?;
    std::fs::create_dir_all(dir).map_err(|error| {
        if dir.ancestors().any(Path::is_file) {
            Error::usage(format!(
                "{option} {}: part of this path is a file",
                dir.display()
            ))
            .help("name a directory; it is created if it does not exist")
        } else {
            Error::environment(format!("{} cannot be created: {error}", dir.display()))
        }
    })
}

/// Returns the command line as it was typed, but the program without its directory, which says nothing about a record.
fn command_line() -> String {
    let arguments = std::env::args().skip(1);
    std::iter::once("gatekeeper".to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

pub fn completions(shell: clap_complete::Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "gatekeeper", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Held)
}

pub fn write_manual(dir: &Path) -> Result<Exit> {
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
        .map_err(|error| Error::unwritten(dir.display(), error))?;
    Ok(Exit::Held)
}
