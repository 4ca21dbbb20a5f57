//! Finds where a compiler looks for headers. The compiler itself says so (`-v`), whether the directories come from
//! flags, the environment or its configuration, so nobody has to know all spellings.

use crate::files::lexical;
use crate::toolchain::{Toolchain, clean_command};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use system::process;

/// The deadline. A preprocessor with an empty file takes far less.
const DEADLINE: Duration = Duration::from_secs(60);
const MOST_OUTPUT: u64 = 16 << 20;

/// The directories that a preprocessor searches, relative to where it ran or absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchList {
    pub dirs: BTreeSet<String>,
    /// Directories that the compiler was given and that do not exist.
    pub missing: BTreeSet<String>,
    /// The part of `dirs` that is searched without any flags: the compiler's and the system's directories.
    pub own: BTreeSet<String>,
}

impl SearchList {
    /// Asks nvcc, with flags that are known to read nothing but headers.
    pub fn ask_nvcc(toolchain: &Toolchain, root: &Path, flags: &[String]) -> Option<Self> {
        Self::ask(flags, || {
            let mut command = clean_command(&toolchain.nvcc);
            command
                .current_dir(root)
                .arg("-ccbin")
                .arg(&toolchain.host_compiler)
                .args([
                    "-E",
                    "-Xcompiler",
                    "-v",
                    "-x",
                    "cu",
                    "/dev/null",
                    "-o",
                    "/dev/null",
                ]);
            command
        })
    }

    /// Asks a C++ compiler, with flags that are known to read nothing but headers.
    pub fn ask_host(compiler: &Path, root: &Path, flags: &[String]) -> Option<Self> {
        Self::ask(flags, || {
            let mut command = clean_command(compiler);
            command.current_dir(root).args([
                "-E",
                "-v",
                "-x",
                "c++",
                "/dev/null",
                "-o",
                "/dev/null",
            ]);
            command
        })
    }

    fn ask(flags: &[String], command: impl Fn() -> Command) -> Option<Self> {
        let said = |flags: &[String]| {
            let mut command = command();
            command.args(flags);
            let ended = process::run(command, DEADLINE, MOST_OUTPUT).ok()??;
            ended.status.success().then_some(ended.log)
        };
        Self::parse(&said(flags)?, &said(&[])?)
    }

    /// Reads the lists that a compiler printed, once with the flags of a request and once without any. Returns `None`
    /// if it printed none, because then its search path is unknown.
    pub fn parse(said: &str, without_flags: &str) -> Option<Self> {
        let own = directories(without_flags)?;
        let dirs = directories(said)?;
        let missing = said
            .lines()
            .filter_map(|line| line.strip_prefix("ignoring nonexistent directory \""))
            .map(|rest| rest.trim_end_matches('"').to_owned())
            .collect();
        Some(Self { dirs, missing, own })
    }

    /// Returns true for a header of the compiler or of the system.
    pub fn is_own(&self, file: &str) -> bool {
        let file = lexical(Path::new(file));
        self.own
            .iter()
            .any(|dir| file.starts_with(lexical(Path::new(dir))))
    }
}

/// Reads what GCC and Clang print between ` search starts here:` and `End of search list.`, each directory behind a blank.
/// nvcc starts its preprocessor several times, and all of their lists count.
fn directories(said: &str) -> Option<BTreeSet<String>> {
    let mut dirs = BTreeSet::new();
    let mut is_list = false;
    let mut has_end = false;
    for line in said.lines() {
        if line.ends_with("search starts here:") {
            is_list = true;
        } else if line == "End of search list." {
            is_list = false;
            has_end = true;
        } else if let (true, Some(dir)) = (is_list, line.strip_prefix(' ')) {
            dirs.insert(dir.to_owned());
        }
    }
    has_end.then_some(dirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_directories_and_those_that_are_not_there() {
        let own = "#include <...> search starts here:\n /usr/include\nEnd of search list.\n";
        let said = "ignoring nonexistent directory \"no such/dir\"\nignoring duplicate directory \"x\"\n\
                    #include \"...\" search starts here:\n quoted dir\n#include <...> search starts here:\n a\n \
                    /usr/include\nEnd of search list.\n# 0 \"<stdin>\"\n x\n";
        let list = SearchList::parse(said, own).unwrap();
        let all = |dirs: &[&str]| dirs.iter().map(ToString::to_string).collect();
        let dirs: BTreeSet<String> = all(&["quoted dir", "a", "/usr/include"]);
        assert_eq!(list.dirs, dirs);
        let missing: BTreeSet<String> = all(&["no such/dir"]);
        assert_eq!(list.missing, missing);
        assert!(list.is_own("/usr/include/math.h"));
        assert!(!list.is_own("/usr/included/math.h") && !list.is_own("a/math.h"));
        assert_eq!(SearchList::parse("", own), None);
        assert_eq!(
            SearchList::parse("#include <...> search starts here:\n a\n", own),
            None
        );
    }
}
