//! Runs the user's build with recorders in front of nvcc, and reads the calls that it made.
//!
//! A build finds nvcc in one of many ways, so a recorder stands in each of them: a directory at the front of PATH, a copy
//! of the toolkit's directory that consists of links and has another `bin/nvcc` (CUDA_HOME, CUDA_PATH, CUDACXX,
//! PYTORCH_NVCC), and a launcher for CMake. A recorder is a small script: it writes its arguments into a file of its own,
//! so that parallel calls do not meet, and becomes the real nvcc. A build that calls nvcc by a path of its own, or that
//! does not pass its environment on, is not seen.

use super::Tree;
use super::commands::{Commands, RecordedCall};
use build::toolchain::Toolchain;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use system::cache::Cache;
use system::error::{Error, Result};
use system::files;
use system::process::helper::{self, is_executable};
use system::process::how;
use system::temporary::TemporaryDir;
use wording::words::plural;

/// The variable that names the directory into which recorders write.
const VARIABLE: &str = "GATEKEEPER_NVCC_CALLS";
/// The path of nvcc in a toolkit.
const NVCC: &str = "bin/nvcc";
/// The text of a recorder. Files of options are copied, because they may be gone when the build has
/// ended.
const RECORDER: &str = r#"#!/bin/sh
# Made by `gatekeeper init --build`. Runs nvcc, and records the call where GATEKEEPER_NVCC_CALLS names a directory.
set -f --PROGRAM "$@"
words() {
    printf '%s\0' "$PWD"
    before= number=0
    for word; do
        case $before in
        --options-file | -optf) mark= ;;
        *)
            case $word in
            --options-file=* | -optf=*) mark=${word%%=*}= ;;
            @*) mark=@ ;;
            *) mark=$word ;;
            esac
            ;;
        esac
        before=$word
        file=${word#"$mark"}
        if [ -f "$file" ] && cp -- "$file" "$call.$number"; then
            printf '%s\0' "$mark$call.$number"
            number=$((number + 1))
        else
            printf '%s\0' "$word"
        fi
    done
}
if [ -d "$GATEKEEPER_NVCC_CALLS" ] && call=$(mktemp "$GATEKEEPER_NVCC_CALLS/XXXXXXXXXX"); then
    words $NVCC_PREPEND_FLAGS "$@" $NVCC_APPEND_FLAGS > "$call"
fi
exec "$@"
"#;

/// Runs the build, and returns the tree of the sources that it compiled, and its commands. What was recorded, and what
/// of it is left out, is reported to `tell`.
///
/// # Errors
/// Usage, if the command cannot be started. Environment, if it compiled nothing that was recorded.
pub fn learn_build(
    root: &Path,
    words: &[String],
    toolchain: &Toolchain,
    cache: &Cache,
    tell: &dyn Fn(&str),
) -> Result<(Tree, Commands)> {
    let shown = format!("`{}`", words.join(" "));
    let scratch = cache.dir("scratch")?;
    let calls = TemporaryDir::new_in(&scratch).map_err(|error| cannot_write(&scratch, error))?;
    let status = record(words, toolchain, cache, calls.path())?;
    let recorded = read_calls(calls.path()).map_err(|error| cannot_write(calls.path(), error))?;
    let commands = Commands::from_calls(root, shown.clone(), &recorded);
    let mut tree = Tree::find(root);
    let before = tree.sources().len();
    tree.keep_built(&commands);
    let kept = tree.sources().len();
    let (all, outside) = (commands.sources().count(), commands.outside.len());
    match (status.success(), kept) {
        (true, 0) => return Err(nothing_recorded(&shown, all + outside)),
        (true, _) => {}
        (false, 0) => {
            let failed = how(status);
            return Err(Error::environment(format!(
                "{shown} failed ({failed}) before nvcc compiled a source of this directory"
            ))
            .help("run it without gatekeeper to see whether it fails then, too"));
        }
        (false, _) => tell(&format!(
            "{shown} failed ({}): what it compiled until then is used",
            how(status)
        )),
    }
    let left_out: Vec<String> = [
        (outside, "outside of the directory of gates.yaml"),
        (all - kept, "generated, hidden or in another repository"),
        (before - kept, "of this directory that it did not compile"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, which)| format!("{count} {which}"))
    .collect();
    let kept = plural(kept, "source");
    tell(&match left_out.join(", ") {
        none if none.is_empty() => format!("{shown} compiled {kept}"),
        all => format!("{shown} compiled {kept}; left out: {all}"),
    });
    Ok((tree, commands))
}

/// Builds the error of a build without recorded sources. `elsewhere` counts the sources that it
/// compiled outside the directory of gates.yaml.
fn nothing_recorded(shown: &str, elsewhere: usize) -> Error {
    if elsewhere > 0 {
        return Error::environment(format!(
            "{shown} compiled {}, and none is a source of the directory of gates.yaml",
            plural(elsewhere, "source")
        ))
        .help("name the file where the sources are: gatekeeper init --build DIR/gates.yaml -- COMMAND");
    }
    Error::environment(format!("{shown} compiled no CUDA source with nvcc that could be recorded"))
        .help("if everything was built already, remove the build's outputs first")
        .help("CMake keeps the nvcc that it has found, so configure a new directory: gatekeeper init --build -- sh -c 'cmake -B build-gates && cmake --build build-gates'")
        .help("a build that names the path of nvcc has to take it from CUDA_HOME or PATH")
}

/// Runs the build in the directory of this process. Its output goes to standard error.
///
/// # Errors
/// Usage, if the command cannot be started. Environment, if a recorder cannot be written.
fn record(
    words: &[String],
    toolchain: &Toolchain,
    cache: &Cache,
    calls: &Path,
) -> Result<ExitStatus> {
    let [program, arguments @ ..] = words else {
        return Err(Error::usage("no build is named").help("gatekeeper init --build -- make"));
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env(VARIABLE, calls)
        .stdout(Stdio::from(io::stderr()));
    for (name, value) in surroundings(toolchain, &cache.dir("recorders")?)? {
        command.env(name, value);
    }
    command.status().map_err(|error| {
        Error::usage(format!("`{program}` cannot be run: {error}"))
            .caused_by(error)
            .help("the build follows two dashes: gatekeeper init --build -- make")
    })
}

const LAUNCHER: &str = "CMAKE_CUDA_COMPILER_LAUNCHER";

/// Returns the variables through which a build finds the recorders. The user's settings stay in force, because each
/// recorder runs the nvcc that it replaces.
fn surroundings(toolchain: &Toolchain, dir: &Path) -> Result<Vec<(&'static str, OsString)>> {
    let homes = ["CUDA_HOME", "CUDA_PATH"];
    let names = [homes, ["CUDACXX", "PYTORCH_NVCC"]].concat();
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let own = |name: &str| {
        let path = PathBuf::from(set(name)?);
        let nvcc = if homes.contains(&name) {
            path.join(NVCC)
        } else {
            path
        };
        (nvcc.is_absolute() && is_executable(&nvcc)).then_some(nvcc)
    };
    let on_path = helper::find("nvcc");
    let standard = Path::new("/usr/local/cuda/bin/nvcc");
    let default = names
        .iter()
        .find_map(|name| own(name))
        .or_else(|| on_path.clone())
        .or_else(|| is_executable(standard).then(|| standard.to_owned()))
        .unwrap_or_else(|| toolchain.nvcc.clone());
    let mut variables = Vec::new();
    for name in names {
        let nvcc = match (own(name), set(name)) {
            (Some(own), _) => own,
            (None, None) => default.clone(),
            // `ccache nvcc` finds nvcc in PATH. A toolkit that does not exist is for the user to
            // correct.
            (None, Some(_)) => continue,
        };
        let home = recorders(dir, &nvcc)?.join("cuda");
        let value = if homes.contains(&name) {
            home
        } else {
            home.join(NVCC)
        };
        variables.push((name, value.into_os_string()));
    }
    let recorders = recorders(dir, on_path.as_ref().unwrap_or(&default))?;
    variables.push(("PATH", ahead("PATH", recorders.join("path/bin"))?));
    let mut launcher = recorders.join("launcher").into_os_string();
    if let Some(own) = set(LAUNCHER) {
        launcher.push(";");
        launcher.push(own);
    }
    variables.push((LAUNCHER, launcher));
    // nvcc from pip looks for its libraries where pip does not put them.
    if let Some(own) = toolchain.library_dir.as_ref()
        && default == toolchain.nvcc
    {
        variables.push(("LIBRARY_PATH", ahead("LIBRARY_PATH", own.clone())?));
    }
    Ok(variables)
}

/// Returns the list of directories in a variable with one more in front.
fn ahead(name: &str, dir: PathBuf) -> Result<OsString> {
    let others = std::env::var_os(name).unwrap_or_default();
    let others = std::env::split_paths(&others).filter(|other| !other.as_os_str().is_empty());
    std::env::join_paths([dir].into_iter().chain(others))
        .map_err(|error| Error::environment(format!("{name}: {error}")).caused_by(error))
}

/// Returns the directory of the recorders for one nvcc: `path/bin` for PATH, which holds nvcc alone, because it may be
/// installed among all the programs of a system; `cuda` for CUDA_HOME; and `launcher`. CMake keeps their paths in its
/// cache, so they stay in the directory of caches, where they run nvcc as if they were not there, and `cache prune`
/// leaves them.
fn recorders(dir: &Path, nvcc: &Path) -> Result<PathBuf> {
    // A link of another name leads to a program such as ccache, which acts by the name that it is
    // called by.
    let nvcc = std::fs::canonicalize(nvcc)
        .ok()
        .filter(|path| path.ends_with("nvcc"))
        .unwrap_or_else(|| nvcc.to_owned());
    let links = links_of(&nvcc).map_err(|error| {
        Error::environment(format!("the toolkit of {}: {error}", nvcc.display())).caused_by(error)
    })?;
    let script = |program: &str| RECORDER.replacen("PROGRAM", program, 1);
    let own = script(&quoted(&nvcc)?);
    let scripts = [
        ("path/bin/nvcc", own.clone()),
        ("cuda/bin/nvcc", own),
        ("launcher", script("")),
    ];
    let all = format!("{links:?}{scripts:?}");
    let made = dir.join(&blake3::hash(all.as_bytes()).to_hex()[..16]);
    if !made.exists() {
        make(dir, &made, &links, &scripts).map_err(|error| cannot_write(&made, error))?;
    }
    Ok(made)
}

/// Returns the links that copy a toolkit without its `bin/nvcc`, by their paths in the copy.
fn links_of(nvcc: &Path) -> io::Result<BTreeMap<PathBuf, PathBuf>> {
    let bin = nvcc.parent().unwrap_or(Path::new("/"));
    let root = bin.parent().unwrap_or(Path::new("/"));
    let mut links = BTreeMap::new();
    for (dir, below, left_out) in [(root, "", "bin"), (bin, "bin", "nvcc")] {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_name() != left_out {
                links.insert(Path::new(below).join(entry.file_name()), entry.path());
            }
        }
    }
    Ok(links)
}

/// Makes the directory whole or not at all, because two processes may make the same one at once.
fn make(
    dir: &Path,
    made: &Path,
    links: &BTreeMap<PathBuf, PathBuf>,
    scripts: &[(&str, String)],
) -> io::Result<()> {
    let new = TemporaryDir::new_in(dir)?;
    let inside = new.path().join("recorders");
    std::fs::create_dir_all(inside.join("path/bin"))?;
    std::fs::create_dir_all(inside.join("cuda/bin"))?;
    for (place, target) in links {
        symlink(target, inside.join("cuda").join(place))?;
        // Builds look for headers in the directory above nvcc's.
        if !place.starts_with("bin") {
            symlink(target, inside.join("path").join(place))?;
        }
    }
    for (place, script) in scripts {
        let file = inside.join(place);
        std::fs::write(&file, script)?;
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755))?;
    }
    match std::fs::rename(&inside, made) {
        Err(error) if !made.exists() => Err(error),
        _ => Ok(()),
    }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| {
        Error::environment(format!("the path of nvcc is not UTF-8: {}", path.display()))
    })?;
    Ok(format!(" '{}'", text.replace('\'', r"'\''")))
}

const MOST_BYTES: u64 = 16 << 20;

/// Reads what recorders wrote, in an order that does not depend on which call came first.
fn read_calls(dir: &Path) -> io::Result<Vec<RecordedCall>> {
    let mut calls = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        // Files with an extension are copied files of options.
        if path.extension().is_some() {
            continue;
        }
        let bytes = files::read(&path, MOST_BYTES)?;
        let mut words = bytes
            .split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned());
        if let Some(dir) = words.next().filter(|dir| !dir.is_empty()) {
            calls.push(RecordedCall {
                dir: PathBuf::from(dir),
                words: words.collect(),
            });
        }
    }
    calls.sort_by(|one, other| (&one.dir, &one.words).cmp(&(&other.dir, &other.words)));
    Ok(calls)
}

fn cannot_write(path: &Path, error: io::Error) -> Error {
    Error::unwritten(path.display(), error)
}
