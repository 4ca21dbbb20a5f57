//! `init`: a gates.yaml for what is there.

use super::{counted, remark, say};
use crate::cli::InitArgs;
use crate::init::{self, Tree};
use build::toolchain::{self, Toolchain};
use model::DEFAULT_CONFIG;
use report::exit::Exit;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use system::cache::Cache;
use system::error::{Error, Result};

pub fn run(args: &InitArgs) -> Result<Exit> {
    let path = &args.path;
    if path.exists() {
        return Err(exists(path));
    }
    let root = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let tree = Tree::find(root);
    let (text, found) = match tree.is_empty() {
        true => (config::template().to_owned(), Draft::Template),
        false => list(args, root, &tree)?,
    };
    let mut file = create(path)?;
    file.write_all(text.as_bytes()).map_err(|error| {
        Error::environment(format!("{} cannot be written: {error}", path.display()))
    })?;
    let name = path.display();
    let config = match path == Path::new(DEFAULT_CONFIG) {
        true => String::new(),
        false => format!(" --config {name}"),
    };
    let said = match found {
        Draft::Template => format!(
            "wrote {name}\nnext: set `source` and `entry` to a kernel of yours, list its arguments, and then"
        ),
        Draft::Kernels {
            kept,
            all,
            sources,
            broken,
        } => {
            let rest = match (all - kept, broken) {
                (0, 0) => String::new(),
                _ => "; what is missing is named in it, with the reason".to_owned(),
            };
            let broken = match broken {
                0 => String::new(),
                count => format!(", of which {count} did not compile as they are"),
            };
            let sources = counted(sources, "source");
            let next = match kept {
                0 => {
                    "next: look at the kernels in its comments, set `source` and `entry` to one of them, list its arguments, and then"
                }
                _ => "next: say what each is to compute (`reference`) and at which sizes, and then",
            };
            let all = counted(all, "kernel");
            format!("wrote {name}: {kept} of {all} in {sources}{broken}{rest}\n{next}")
        }
    };
    say(&format!(
        "{said}\n  gatekeeper validate{config}\n  gatekeeper run{config}\n\
         records and reports go to gatekeeper-out/: add it to .gitignore\n"
    ))?;
    Ok(Exit::Held)
}

/// The file that was written, and what it was made of.
enum Draft {
    Template,
    Kernels {
        kept: usize,
        all: usize,
        sources: usize,
        broken: usize,
    },
}

fn list(args: &InitArgs, root: &Path, tree: &Tree) -> Result<(String, Draft)> {
    let cache = Cache::open()?;
    let toolchain = find_compiler(args, &cache)?;
    let is_watched = std::io::stderr().is_terminal();
    let say = |what: &str| {
        if is_watched {
            remark(what);
        }
    };
    let survey = init::survey(root, tree, &toolchain, &cache, args.arch, &say)?;
    let accepts = |text: &str| config::check(root, text).map_err(|wrong| wrong.message);
    let (text, kept) = init::write(&survey, args.arch, &accepts);
    let found = Draft::Kernels {
        kept,
        all: survey.kernels.len(),
        sources: survey.sources,
        broken: survey.broken.len(),
    };
    let text = match kept {
        // A file without kernels is none.
        0 => {
            let listed = text
                .lines()
                .filter(|line| line.trim_start().starts_with('#'));
            let listed: Vec<&str> = listed.collect();
            format!("{}\n\n{}", listed.join("\n"), config::template())
        }
        _ => text,
    };
    Ok((text, found))
}

fn find_compiler(args: &InitArgs, cache: &Cache) -> Result<Toolchain> {
    match toolchain::find(None, cache) {
        Err(_) if args.provision => {
            toolchain::install(cache, &|line| remark(line))?;
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
    .help("to write another file: gatekeeper init PATH")
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
