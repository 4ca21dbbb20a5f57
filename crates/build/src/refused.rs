//! Finds the line of the user's source that a compiler refused, in the compiler's output.

use super::header::is_of_system;
use model::{FaultSite, SourceLine};
use regex::Regex;
use std::path::Path;
use std::sync::LazyLock;
use system::files;

/// The most bytes of a source that are read. No source is larger.
const MOST_BYTES: u64 = 16 << 20;

/// `k.cu(13): error: ...` by nvcc, `k.cu:13:2: error: ...` by the host compiler, whose preprocessor nvcc uses, and
/// `ptxas k.ptx, line 25; error ...`.
static FORMS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let forms = [
        r"^(\S.*?)\(([0-9]+)\): (?:\w+ )?error\b",
        r"^(\S.*?):([0-9]+):(?:[0-9]+:)? (?:fatal )?error:",
        r"^ptxas (\S.*?), line ([0-9]+); (?:error|fatal)\b",
    ];
    forms
        .iter()
        .filter_map(|form| Regex::new(form).ok())
        .collect()
});

/// Returns the first line that is in a file of the user's, and not in a header of the system or in text that gatekeeper
/// generated.
pub fn find(log: &str, root: &Path) -> Option<Box<FaultSite>> {
    let line = log.lines().find_map(|said| refused_by(said, root))?;
    Some(Box::new(FaultSite::Source(line)))
}

/// Names a macro of the command line that is a template parameter, too, where the compiler stopped: of `template <int N>`
/// it reads `template <int 16>`, and says only that something else is expected.
pub fn find_collision(log: &str, root: &Path, args: &[String]) -> Option<String> {
    find_collision_in_source(log, root, args).or_else(|| find_collision_in_header(log, args))
}

/// Explains a macro that is also a template parameter, if the refused line of the source declares that parameter.
fn find_collision_in_source(log: &str, root: &Path, args: &[String]) -> Option<String> {
    let refused = log.lines().filter_map(|said| refused_by(said, root));
    refused.into_iter().find_map(|line| {
        let text = files::read(&root.join(&line.file), MOST_BYTES).ok()?;
        let text = String::from_utf8_lossy(&text);
        let is_parameter = |name: &str| {
            let parameter = format!(
                r"template\s*<[^;{{}}()]*?\b[A-Za-z_]\w*\s+({})\s*[,>=]",
                regex::escape(name)
            );
            Regex::new(&parameter).is_ok_and(|parameter| {
                parameter
                    .captures_iter(&text)
                    .filter_map(|found| found.get(1))
                    .filter_map(|name| text.get(..name.start()))
                    .any(|before| before.lines().count() == line.number as usize)
            })
        };
        macros(args)
            .find(|(_, name, _)| is_parameter(name))
            .map(|(arg, name, _)| {
                format!(
                    "the macro `{name}` ({arg}) is also a template parameter at {}:{}: rename one of them",
                    line.file, line.number
                )
            })
    })
}

/// Explains a macro that is also a template parameter of a header, if the line that the compiler shows has the macro's
/// value in place of the parameter's name.
fn find_collision_in_header(log: &str, args: &[String]) -> Option<String> {
    log.lines().zip(log.lines().skip(1)).find_map(|(said, shown)| {
        let found = FORMS.iter().find_map(|form| form.captures(said))?;
        let (file, line) = (found.get(1)?.as_str(), found.get(2)?.as_str());
        let is_parameter = |value: &str| {
            let parameter = format!(r"<.*\b[A-Za-z_]\w*\s+{}\s*[,>=]", regex::escape(value));
            Regex::new(&parameter).is_ok_and(|parameter| parameter.is_match(shown))
        };
        if !is_of_system(file) || !shown.trim_start().starts_with("template") {
            return None;
        }
        macros(args)
            .find(|(_, _, value)| is_parameter(value))
            .map(|(arg, name, _)| {
                format!(
                    "the macro `{name}` ({arg}) is also a template parameter at {file}:{line}: rename the macro"
                )
            })
    })
}

/// Returns each macro of the command line: its option, its name and its value.
fn macros(args: &[String]) -> impl Iterator<Item = (&String, &str, &str)> {
    args.iter().filter_map(|arg| {
        let define = arg.strip_prefix("-D")?;
        let (name, value) = define.split_once('=').unwrap_or((define, "1"));
        Some((arg, name, value))
    })
}

fn refused_by(said: &str, root: &Path) -> Option<SourceLine> {
    let found = FORMS.iter().find_map(|form| form.captures(said))?;
    let (file, number) = (found.get(1)?.as_str(), found.get(2)?.as_str());
    let number: u32 = number.parse().ok()?;
    if is_of_system(file) {
        return None;
    }
    // Only files that exist are read, because an entry of gates.yaml is compiled under a name of its own.
    let text = files::read(&root.join(file), MOST_BYTES).ok()?;
    let text = String::from_utf8_lossy(&text);
    let index = usize::try_from(number.checked_sub(1)?).ok()?;
    let below = root.canonicalize().ok();
    let below = below.and_then(|root| Some(Path::new(file).strip_prefix(root).ok()?.to_owned()));
    Some(SourceLine {
        file: below.map_or_else(|| file.to_owned(), |below| below.display().to_string()),
        number,
        text: text.lines().nth(index).map(|line| line.trim().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_macro_that_is_a_template_parameter_is_named() {
        let root = tempfile::tempdir().unwrap();
        let text =
            "template <int M,\n          int N = 4>\n__global__ void k() {}\nint N(int M);\n";
        std::fs::write(root.path().join("k.cu"), text).unwrap();
        let found = |line: u32, arg: &str| {
            let log = format!("k.cu({line}): error: expected a \",\" or \">\"");
            find_collision(&log, root.path(), &["-O3".to_owned(), arg.to_owned()])
        };
        let said =
            "the macro `N` (-DN=16) is also a template parameter at k.cu:2: rename one of them";
        assert_eq!(found(2, "-DN=16").as_deref(), Some(said));
        assert!(found(1, "-DM").is_some());
        for (line, arg) in [(1, "-DN=16"), (4, "-DN=16"), (2, "-DK=16"), (9, "-DN=16")] {
            assert_eq!(found(line, arg), None, "{line} {arg}");
        }
        let log = "cuda/include/a.h(869): error: expected an identifier\n  template <class A, typename float> static void f(A *);";
        let found = |arg: &str| find_collision(log, root.path(), &[arg.to_owned()]);
        let said = "the macro `T` (-DT=float) is also a template parameter at cuda/include/a.h:869: rename the macro";
        assert_eq!(found("-DT=float").as_deref(), Some(said));
        assert_eq!(found("-DT=B"), None);
    }

    #[test]
    fn the_line_is_the_first_error_in_a_file_of_the_user() {
        let root = tempfile::tempdir().unwrap();
        let whole = root.path().canonicalize().unwrap();
        std::fs::write(root.path().join("k.cu"), "one\n  two(3);\r\nthree\n").unwrap();
        std::fs::write(root.path().join("a (1).cuh"), "one\n").unwrap();
        let absolute = format!("{}/k.cu(3): error: x", whole.display());
        for (log, expected) in [
            (
                "k.cu(2): error: expected a \";\"\nk.cu(3): error: y",
                Some(("k.cu", 2, Some("two(3);"))),
            ),
            (
                "k.cu(1): warning #177-D: x\nk.cu(3): error #20: y",
                Some(("k.cu", 3, Some("three"))),
            ),
            (
                "k.cu(3): catastrophic error: x",
                Some(("k.cu", 3, Some("three"))),
            ),
            (
                "In file included from x.cu:1:\nk.cu:2:10: fatal error: no.h: No such file or directory",
                Some(("k.cu", 2, Some("two(3);"))),
            ),
            (
                "ptxas k.cu, line 3; error   : Unknown",
                Some(("k.cu", 3, Some("three"))),
            ),
            (
                "a (1).cuh(1): error: x",
                Some(("a (1).cuh", 1, Some("one"))),
            ),
            (&absolute, Some(("k.cu", 3, Some("three")))),
            // A line that a #line directive made up.
            ("k.cu(99): error: x", Some(("k.cu", 99, None))),
            (
                "cuda/include/cuda_fp16.h(12): error: x\nk.cu(3): error: y",
                Some(("k.cu", 3, Some("three"))),
            ),
            ("gates.yaml: entry fill<x>(1): error: y", None),
            ("  k.cu(2): error: a line of source", None),
            ("k.cu(99999999999): error: x", None),
            ("k.cu(0): error: x", None),
            ("nvcc did not finish within 300 s", None),
            ("", None),
        ] {
            let found = find(log, root.path());
            let found = found.as_deref().and_then(FaultSite::line);
            let found = found.map(|line| (line.file.as_str(), line.number, line.text.as_deref()));
            assert_eq!(found, expected, "{log}");
        }
    }
}
