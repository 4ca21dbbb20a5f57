//! Checks the paths that a gates file names: paths of its repository, and directories of this machine.

use super::disk::{Outside, PathKind};
use super::yaml::{Mistake, Spanned};
use model::Arch;
use system::files;
use system::sources::{self, NoDirectory};

/// Settings that the file gives once for all kernels, and what is on disk.
pub struct Shared<'a> {
    pub file: &'a str,
    pub architectures: &'a [Arch],
    pub flags: &'a [Spanned<String>],
    pub disk: &'a dyn Fn(&str) -> Option<PathKind>,
    pub environment: &'a dyn Fn(&str) -> Option<String>,
}

/// Checks a directory of headers, in the repository or on this machine. A directory of the machine is recorded as it
/// was written.
pub fn check_include_dir(spot: &Spanned<String>, shared: &Shared<'_>) -> Result<String, Mistake> {
    if !sources::is_outside(spot) {
        return check_path(spot, PathKind::Directory, shared);
    }
    let problem = |message: String| spot.problem(message);
    let found = sources::expand(spot, shared.environment).map_err(|why| match why {
        NoDirectory::Unset { variable } => {
            problem(format!("the environment variable {variable} is not set")).help(format!(
                "set {variable} to the directory that headers are in"
            ))
        }
        NoDirectory::Relative { variable, value } => problem(format!(
            "the environment variable {variable} is `{value}`, which is no absolute path"
        )),
        NoDirectory::Misplaced => problem(format!("`{spot}` is not a directory"))
            .help("write a variable as ${NAME}, at the beginning: ${TORCH_INCLUDE}/torch"),
    })?;
    let means = if found == **spot {
        found.clone()
    } else {
        format!("{spot} ({found})")
    };
    match (shared.disk)(&found) {
        Some(PathKind::Directory) => match spot.trim_end_matches('/') {
            "" => Ok("/".to_owned()),
            written => Ok(written.to_owned()),
        },
        Some(_) => Err(problem(format!("{means} is not a directory"))),
        None => Err(problem(format!("{means} does not exist"))),
    }
}

/// Returns a path of the repository. It must be relative, inside the repository, written with forward slashes, and
/// exist. It may begin with `..`.
pub fn check_path(
    spot: &Spanned<String>,
    wanted: PathKind,
    shared: &Shared<'_>,
) -> Result<String, Mistake> {
    let text = spot.trim_end_matches('/');
    let parts: Vec<_> = text.split('/').filter(|part| *part != ".").collect();
    // After a name, `..` may lead anywhere, because the name may be a link.
    let below = parts.iter().skip_while(|part| **part == "..");
    let inside = !text.is_empty()
        && !text.starts_with('/')
        && !text.contains(['\\', ':', '\0'])
        && below
            .into_iter()
            .all(|part| !part.is_empty() && *part != "..");
    if !inside {
        return Err(spot.problem(format!("`{spot}` is not a path of this repository"))
        .help("write it relative to the directory of gates.yaml, with forward slashes, and `..` at its beginning alone"));
    }
    let text = if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    };
    match ((shared.disk)(&text), wanted) {
        (Some(found), wanted) if found == wanted => Ok(text),
        (Some(PathKind::Outside(Outside::Repository)), _) => Err(spot
            .problem(format!(
                "`{spot}` leads out of the repository of gates.yaml"
            ))
            .help("put it into the repository: a base has to have files of its own")),
        (Some(PathKind::Outside(Outside::Everything)), _) => Err(spot
            .problem(format!(
                "`{spot}` is above the directory of gates.yaml, which is in no git repository"
            ))
            .help("put it below that directory; in a repository it may be anywhere")),
        (Some(_), PathKind::Directory) => Err(spot.problem(format!("{text} is not a directory"))),
        (Some(PathKind::Special), _) => Err(spot.problem(format!(
            "{text} is a pipe, a device or a socket, not a file"
        ))),
        (Some(PathKind::LargeFile), _) => {
            Err(spot.problem(format!("{text} has more than {} MiB", files::SOURCE >> 20)))
        }
        (Some(_), _) => Err(spot.problem(format!("{text} is a directory"))),
        (None, _) => Err(spot
            .problem(format!("{text} does not exist"))
            .help("paths are relative to the directory of gates.yaml")),
    }
}
