//! The files that a preprocessor read, by the line markers of what it wrote. Pure.

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

/// The name in `# 12 "name" 1 3`, and what follows it.
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
    fn what_is_no_marker_names_no_file() {
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
