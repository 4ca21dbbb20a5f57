//! Finds the files that a compiler read: from the line markers in the preprocessor's output, from the rules that gcc
//! writes for make, and from a linker's map.

use std::path::Path;
use std::process::Command;

/// Makes gcc append a rule for each of its runs to a file (GCC's manual, "Environment Variables"). Unlike line markers,
/// the rules also name files that `-imacros` reads. Clang does not know the variable.
pub fn ask_for_rules(compiler: &mut Command, file: &Path) {
    let file = file.display().to_string();
    // gcc takes the text up to the first space for the file name, and the rest for the target.
    if !file.contains(' ') {
        compiler.env("SUNPRO_DEPENDENCIES", format!("{file} made"));
    }
}

/// Lists the prerequisites of all rules, in their order: `made: a.cu b\ c.h \`.
pub fn list_prerequisites(rules: &str) -> Vec<String> {
    let mut files = Vec::new();
    for rule in rules.replace("\\\n", " ").lines() {
        let Some((_, prerequisites)) = rule.split_once(": ") else {
            continue;
        };
        let mut name = String::new();
        let mut characters = prerequisites.chars().chain([' ']).peekable();
        while let Some(character) = characters.next() {
            match (character, characters.peek()) {
                ('\\', Some(&escaped @ (' ' | '#' | ':'))) | ('$', Some(&escaped @ '$')) => {
                    name.push(escaped);
                    characters.next();
                }
                (' ', _) if name.is_empty() => {}
                (' ', _) => files.push(std::mem::take(&mut name)),
                _ => name.push(character),
            }
        }
    }
    files
}

/// Lists the objects, archives and shared libraries that GNU's linker read, by its map: `LOAD /usr/lib/crt1.o`.
pub fn list_linked(map: &str) -> Vec<String> {
    map.lines()
        .filter_map(|line| line.strip_prefix("LOAD ").map(str::to_owned))
        .collect()
}

/// Files in the order they were read, the source first. `# 1 "k.cuh" 1` enters a file; a marker without that 1
/// goes on in one, or is a `#line` of the user's, which reads none.
///
/// GCC's manual, "Preprocessor Output"; clang writes the same.
pub fn list_files(preprocessed: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in preprocessed.lines() {
        let Some((name, flags)) = read_marker(line) else {
            continue;
        };
        let enters = flags.split_whitespace().next() == Some("1");
        if (files.is_empty() || enters) && !files.contains(&name) {
            files.push(name);
        }
    }
    files
}

/// Returns the name in `# 12 "name" 1 3`, and what follows it.
fn read_marker(line: &str) -> Option<(String, &str)> {
    let (number, rest) = line.strip_prefix("# ")?.split_once(" \"")?;
    number.parse::<u32>().ok()?;
    let mut name = Vec::new();
    let mut bytes = rest.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => {
                let name = String::from_utf8_lossy(&name).into_owned();
                return Some((name, rest.get(at + 1..)?));
            }
            // `\"`, `\\`, or three octal digits of a byte that cannot be printed.
            b'\\' => match bytes.next()?.1 {
                first @ b'0'..=b'7' => {
                    let digits = [first, bytes.next()?.1, bytes.next()?.1];
                    let digits = std::str::from_utf8(&digits).ok()?.to_owned();
                    name.push(u8::from_str_radix(&digits, 8).ok()?);
                }
                escaped => name.push(escaped),
            },
            other => name.push(other),
        }
    }
    None
}

/// Returns the shared libraries that a loader lists: `libm.so.6 => /lib/libm.so.6 (0x7f...)`,
/// `/lib64/ld-linux-x86-64.so.2 (0x7f...)`. An entry without a file is the kernel's own, or was not found.
pub fn list_loaded(listed: &str) -> Vec<String> {
    listed
        .lines()
        .filter_map(|line| {
            let found = line.split_once("=>").map_or(line, |(_, found)| found);
            let found = found.trim();
            let path = found.rsplit_once(" (").map_or(found, |(path, _)| path);
            path.contains('/').then(|| path.trim().to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_line_markers() {
        let text = "# 0 \"a.cu\"\n# 0 \"<built-in>\"\n# 0 \"<command-line>\"\n# 1 \"/usr/x.h\" 1 3 4\n\
                    int x;\n# 2 \"a.cu\" 2\n# 1 \"b c/d\\\"e\\\\.h\" 1\n# 7 \"made.y\"\n# 3 \"a.cu\" 2\n\
                    # 1 \"\\303\\244.h\" 1\n# 1 \"/usr/x.h\" 1 3 4\n#pragma once\n";
        assert_eq!(
            list_files(text),
            ["a.cu", "/usr/x.h", "b c/d\"e\\.h", "\u{e4}.h"]
        );
    }

    #[test]
    fn files_of_rules_and_of_a_map() {
        let rules = "made: a.cu /usr/b\\ c.h \\\n d\\#e.h\nmade: \\\n  x$$y.h a.cu\n\nnothing\n";
        let files = ["a.cu", "/usr/b c.h", "d#e.h", "x$y.h", "a.cu"];
        assert_eq!(list_prerequisites(rules), files);
        let map = "Archive member\n\nLOAD /usr/lib/crt1.o\nLOAD lib/a b.a\n  LOAD x\n";
        assert_eq!(list_linked(map), ["/usr/lib/crt1.o", "lib/a b.a"]);
        let listed = "\tlinux-vdso.so.1 (0x7ffd)\n\tlibf.so => /a b/libf.so (0x7f)\n\tlibg.so => not found\n\t/lib64/ld.so (0x7f)\n";
        assert_eq!(list_loaded(listed), ["/a b/libf.so", "/lib64/ld.so"]);
    }

    #[test]
    fn text_without_a_marker_names_no_file() {
        for line in [
            "",
            "# ",
            "# x \"a\" 1",
            "# 1 \"a",
            "# 1 \"a\\",
            "# 1 \"\\9\\30",
            "# 1 a 1",
        ] {
            assert!(list_files(line).is_empty(), "{line}");
        }
    }
}
