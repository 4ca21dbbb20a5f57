//! Sources and directories of headers, as gates.yaml names them. `${TORCH_INCLUDE}/ATen` is recorded as it was written.
//! Its place on this machine is looked up when it is needed.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// The kind of source that another compiler has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precompiled {
    Ptx,
    Cubin,
}

impl Precompiled {
    /// Returns the kind of a file that is compiled already, by its extension, or `None` for source code.
    pub fn from_path(source: &str) -> Option<Self> {
        match extension(source) {
            "ptx" => Some(Self::Ptx),
            "cubin" => Some(Self::Cubin),
            _ => None,
        }
    }
}

/// Returns the extension without its dot. It is empty if there is none, or if it is not UTF-8.
pub fn extension(source: &str) -> &str {
    let extension = Path::new(source).extension();
    extension.and_then(OsStr::to_str).unwrap_or_default()
}

/// Returns the same path without `.` and, as far as the text of the path shows it, without `..`.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match (part, plain.components().next_back()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => drop(plain.pop()),
            (part, _) => plain.push(part),
        }
    }
    plain
}

/// Returns the path `to` relative to the directory `from`. Both are relative to one place, which `from` does not leave.
pub fn relative(from: &Path, to: &Path) -> PathBuf {
    let (from, to) = (plain(from), plain(to));
    if to.is_absolute() {
        return to;
    }
    let shared = from.components().zip(to.components());
    let shared = shared.take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

/// The reasons for which a directory is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoDirectory {
    /// The environment does not have the variable, or it is empty.
    Unset { variable: String },
    /// The variable has a relative path, which has no known base.
    Relative { variable: String, value: String },
    /// The text has something else than one `${NAME}` at the beginning.
    Misplaced,
}

/// Returns true if a directory is outside the tree according to its text.
pub fn is_outside(written: &str) -> bool {
    written.starts_with('/') || written.contains('$')
}

/// Returns the directory on this machine. A directory in the tree stays relative to it.
pub fn expand(
    written: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<String, NoDirectory> {
    if !written.contains('$') {
        return Ok(written.to_owned());
    }
    let (variable, rest) = written
        .strip_prefix("${")
        .and_then(|text| text.split_once('}'))
        .ok_or(NoDirectory::Misplaced)?;
    let is_name = variable
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let ends = rest.is_empty() || rest.starts_with('/');
    if !is_name || variable.is_empty() || !ends || rest.contains('$') {
        return Err(NoDirectory::Misplaced);
    }
    let variable = variable.to_owned();
    match environment(&variable).filter(|value| !value.is_empty()) {
        None => Err(NoDirectory::Unset { variable }),
        Some(value) if !Path::new(&value).is_absolute() => {
            Err(NoDirectory::Relative { variable, value })
        }
        Some(value) => Ok(format!("{}{rest}", value.trim_end_matches('/'))),
    }
}

/// Reads a variable of this process's environment.
pub fn read_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand_here(written: &str) -> Result<String, NoDirectory> {
        expand(written, &|name| match name {
            "TORCH_INCLUDE" => Some("/opt/torch/include/".to_owned()),
            "HERE" => Some("include".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn directories_as_they_can_be_written() {
        for (written, is) in [
            ("include", "include"),
            ("/opt/cutlass/include", "/opt/cutlass/include"),
            ("${TORCH_INCLUDE}", "/opt/torch/include"),
            ("${TORCH_INCLUDE}/ATen", "/opt/torch/include/ATen"),
        ] {
            assert_eq!(expand_here(written).as_deref(), Ok(is));
            assert_eq!(is_outside(written), is.starts_with('/'));
        }
    }

    #[test]
    fn directories_that_cannot_be_had() {
        for variable in ["ABSENT", "EMPTY"] {
            let variable = variable.to_owned();
            let written = format!("${{{variable}}}/x");
            assert_eq!(expand_here(&written), Err(NoDirectory::Unset { variable }));
        }
        let relative = NoDirectory::Relative {
            variable: "HERE".to_owned(),
            value: "include".to_owned(),
        };
        assert_eq!(expand_here("${HERE}"), Err(relative));
        for written in [
            "$TORCH_INCLUDE",
            "${TORCH_INCLUDE",
            "${}",
            "${A B}",
            "${TORCH_INCLUDE}x",
            "a/${TORCH_INCLUDE}",
            "${TORCH_INCLUDE}/${HERE}",
        ] {
            assert_eq!(
                expand_here(written),
                Err(NoDirectory::Misplaced),
                "{written}"
            );
        }
    }

    #[test]
    fn a_path_is_written_anew_for_another_directory() {
        for (from, to, is) in [
            ("", "lib.so", "lib.so"),
            ("", "./build/../lib.so", "lib.so"),
            ("sub", "lib.so", "../lib.so"),
            ("sub", "sub/lib.so", "lib.so"),
            ("a/b", "a/c/lib.so", "../c/lib.so"),
            ("sub", "../lib.so", "../../lib.so"),
            ("sub", "/opt/../lib.so", "/lib.so"),
        ] {
            let written = relative(Path::new(from), Path::new(to));
            assert_eq!(written, Path::new(is), "{from} {to}");
        }
    }
}
