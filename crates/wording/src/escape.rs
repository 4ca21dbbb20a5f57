//! Escapes text from outside for each kind of output: what a compiler or a kernel printed, names and reasons in files
//! of the tree, paths, fields of a record. All escaping is in this module.

/// Begins a line of a message that a program printed. The line is shown as it is, and is not wrapped like a sentence.
pub const PRINTED: &str = "  │ ";

/// Returns a line without control characters, and without characters that change the direction of the text after them.
pub fn visible(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\t' => out.push(c),
            c if c.is_control() || turns(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Returns true for characters that change the direction of text. A line with both directions reads in another order
/// than it is (CVE-2021-42574).
fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes a line for a stream that people and a runner of GitHub read. The older form of the runner's commands is
/// valid anywhere in a line.
pub fn within_line(line: &str) -> String {
    visible(line).replace("##[", "## [")
}

/// Escapes the beginning of a line. The newer form of commands is valid where a line begins with it, after any white
/// space.
pub fn line_start(line: String) -> String {
    let start = line.trim_start();
    match start.strip_prefix("::") {
        Some(rest) => format!("{}: :{rest}", &line[..line.len() - start.len()]),
        None => line,
    }
}

/// Escapes several lines for such a stream.
pub fn lines(text: &str) -> String {
    text.lines()
        .map(|line| line_start(within_line(line)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Escapes text for one line of markdown: it contains neither HTML, a link nor an image, does not end a cell, mentions
/// no user or issue, begins no headline or block, and no code that would end in what follows.
pub fn markdown(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw.trim_end().chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' => out.push_str("\\|"),
            '(' if out.ends_with(']') => out.push_str("\\("),
            // A space of no width prevents a mention, because GitHub looks for names and numbers in the visible text.
            // In `k/fast@small`, which is there to be copied, it looks for none.
            '@' if rest.peek().is_some_and(|next| next.is_alphanumeric())
                && !out.ends_with(char::is_alphanumeric) =>
            {
                out.push_str("@\u{200b}");
            }
            '#' if rest.peek().is_some_and(char::is_ascii_digit) => out.push_str("#\u{200b}"),
            '#' if rest.clone().take(2).eq(['#', '[']) => out.push_str("#\u{200b}"),
            c if c.is_control() || turns(c) => out.push(' '),
            c => out.push(c),
        }
    }
    let out = close_code(&out);
    if out.trim_start().starts_with(['#', '~']) {
        format!("\\{}", out.trim_start())
    } else {
        out
    }
}

/// Escapes backticks that have no end within the text, because they would turn the code that follows into text.
fn close_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let run = from.len() - from.trim_start_matches('`').len();
        let (ticks, after) = from.split_at(run);
        // A backslash would escape the first of them.
        let end = if before.ends_with('\\') {
            None
        } else {
            end_of_code(after, run)
        };
        match end {
            Some(end) => {
                let (code, after) = after.split_at(end);
                out.push_str(ticks);
                out.push_str(code);
                rest = after;
            }
            None => {
                out.push_str(&"'".repeat(run));
                rest = after;
            }
        }
    }
    out + rest
}

/// Returns the position after the first run of as many backticks.
fn end_of_code(text: &str, run: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text.get(at..)?.find('`') {
        let start = at + found;
        let ticks = text.get(start..)?;
        let length = ticks.len() - ticks.trim_start_matches('`').len();
        at = start + length;
        if length == run {
            return Some(at);
        }
    }
    None
}

/// Escapes text for one cell, and keeps its line breaks.
pub fn markdown_cell(raw: &str) -> String {
    raw.trim_end()
        .split('\n')
        .map(markdown)
        .collect::<Vec<_>>()
        .join("<br>")
}

/// Escapes code for markdown. It stays literal except for the bar, which ends a cell even there, and the backtick,
/// which ends the code.
pub fn markdown_code(raw: &str) -> String {
    let one_line: String = raw
        .chars()
        .map(|c| match c {
            '`' => '\'',
            c if c.is_control() || turns(c) => ' ',
            c => c,
        })
        .collect();
    format!("`{}`", one_line.replace('|', "\\|").replace("##[", "## ["))
}

/// Escapes text for a string of mermaid: it ends neither the string nor the block, and is not an entity.
pub fn chart_text(raw: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " ._-/@*+:,[]".contains(c);
    raw.chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}

/// Escapes the message of a workflow command, whose lines are shown in a page and in a log. Line breaks and `%` are
/// escaped as actions/toolkit does (packages/core/src/command.ts), so that no message can end its command and begin
/// another.
pub fn workflow_data(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        // A line break of Windows is one, too.
        within_line(line.strip_suffix('\r').unwrap_or(line)).replace('%', "%25")
    });
    lines.collect::<Vec<_>>().join("%0A")
}

/// Escapes a property of a workflow command.
pub fn workflow_property(text: &str) -> String {
    workflow_data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Escapes JSON for a terminal or a runner's log. Its meaning is the same, because such characters occur only inside of
/// strings.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.replace("##[", "\\u0023#[").chars() {
        match c {
            c if c != '\n' && (c.is_control() || turns(c)) => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// Escapes a message of SARIF, where `[text](place)` is a link.
pub fn sarif_message(text: &str) -> String {
    text.split('\n')
        .map(visible)
        .collect::<Vec<_>>()
        .join("\n")
        .replace("](", "] (")
}

/// Encodes a path as the path of a URI.
pub fn uri_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Escapes XML in the way of [`json`].
pub fn xml(text: &str) -> String {
    text.split('\n')
        .map(visible)
        .collect::<Vec<_>>()
        .join("\n")
        .replace("##[", "&#35;#[")
}

/// Escapes a whole page of HTML, in which the markup is escaped already: no text in it hides a character or changes the
/// direction of others, and none is a command in a runner's log that shows the page.
pub fn html(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    for line in page.lines() {
        let shown = visible(line).replace("##[", "&#35;#[");
        let start = shown.trim_start();
        match start.strip_prefix("::") {
            Some(rest) => {
                out.push_str(&shown[..shown.len() - start.len()]);
                out.push_str("&#58;:");
                out.push_str(rest);
            }
            None => out.push_str(&shown),
        }
        out.push('\n');
    }
    out
}

/// The number of bytes that a report shows of a text from outside.
const MOST: usize = 8 << 10;

/// Returns the beginning of a text, which has the first error of a compiler, and how much more the record has.
pub fn cut(text: String) -> String {
    if text.len() <= MOST {
        return text;
    }
    let end = text.floor_char_boundary(MOST);
    let left = text.len() - end;
    format!(
        "{}\n... and {left} bytes more, which the record has",
        text[..end].trim_end()
    )
}

#[cfg(any(test, feature = "fixture"))]
pub mod testing {
    use proptest::prelude::*;

    /// Draws pieces that could matter, with any text between them.
    pub fn hostile() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("::".to_owned()),
            Just("\n::error ::x".to_owned()),
            Just("\r::set-output::".to_owned()),
            Just("##[group]".to_owned()),
            Just("###[".to_owned()),
            Just(" @octocat ".to_owned()),
            Just(" \t".to_owned()),
            Just("\u{1b}[2J".to_owned()),
            // These are a link of a terminal, its bell, a control sequence in one character, and the end of a text in
            // C.
            Just("\u{1b}]8;;http://e\u{7}x\u{1b}]8;;\u{7}".to_owned()),
            Just("\u{9b}31m\u{0}\u{8}".to_owned()),
            Just("\u{202e}\u{2066}\u{61c}".to_owned()),
            Just("\r\n".to_owned()),
            Just("|`<&".to_owned()),
            Just("\n\n```\n<img src=x>\n# a\n".to_owned()),
            Just("</sub></details><script>".to_owned()),
            Just("\n~~~\n".to_owned()),
            Just("]]>".to_owned()),
            ".*",
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::testing::hostile;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_for_each_reader() {
        assert_eq!(
            lines("a\u{1b}[31mb\n  ::error ::x\n::add-mask::y\nc ##[error]z"),
            "a\\u{1b}[31mb\n  : :error ::x\n: :add-mask::y\nc ## [error]z"
        );
        assert_eq!(visible("abc\u{202e}def"), "abc\\u{202e}def");
        assert_eq!(
            markdown("ask @nvidia of #12, a@b <img> | ![x](y)"),
            "ask @\u{200b}nvidia of #\u{200b}12, a@b &lt;img&gt; \\| ![x]\\(y)"
        );
        assert_eq!(markdown_cell("a\n@b\n"), "a<br>@\u{200b}b");
        for (text, shown) in [
            ("run `a b`, or ``c`d``", "run `a b`, or ``c`d``"),
            ("a ` b", "a ' b"),
            ("``` a `", "''' a '"),
            ("\\`a`", "\\'a'"),
            ("# PASS", "\\# PASS"),
            ("~~~", "\\~~~"),
        ] {
            assert_eq!(markdown(text), shown);
        }
        assert_eq!(markdown_code("a`b|c\nd"), "`a'b\\|c d`");
        let value = serde_json::json!({ "##[error]": "x##[y" });
        let text = json(&value.to_string());
        assert!(!text.contains("##["));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
        assert_eq!(json("\"a\u{7f}\u{202e}\",\n"), "\"a\\u007f\\u202e\",\n");
        assert_eq!(sarif_message("see [k](http://e)"), "see [k] (http://e)");
        assert_eq!(uri_path("a b/ü#[?].yaml"), "a%20b/%C3%BC%23%5B%3F%5D.yaml");
        assert_eq!(xml("<a>##[b</a>"), "<a>&#35;#[b</a>");
        assert_eq!(
            html("<p>a\u{202e}b\u{1b} ##[c\n  ::error ::d</p>"),
            "<p>a\\u{202e}b\\u{1b} &#35;#[c\n  &#58;:error ::d</p>\n"
        );
    }

    #[test]
    fn a_megabyte_is_cut_between_characters() {
        let long = "é".repeat(1 << 20);
        let shown = cut(long.clone());
        assert!(shown.len() < MOST + 100);
        let left = long.len() - MOST;
        assert!(shown.ends_with(&format!("... and {left} bytes more, which the record has")));
        assert_eq!(cut("short".to_owned()), "short");
    }

    proptest! {
        #[test]
        fn no_line_is_a_command(text in hostile()) {
            for line in lines(&text).lines() {
                prop_assert!(!line.trim_start().starts_with("::"), "{line:?}");
                prop_assert!(!line.contains("##["), "{line:?}");
                prop_assert!(line.chars().all(|c| c == '\t' || !c.is_control()), "{line:?}");
            }
        }

        #[test]
        fn markdown_stays_one_cell(text in hostile()) {
            for shown in [markdown(&text), markdown_cell(&text), markdown_code(&text)] {
                prop_assert!(!shown.contains('\n') && !shown.contains("##["), "{shown:?}");
                let bars = shown.replace("\\|", "");
                prop_assert!(!bars.contains('|'), "{shown:?}");
            }
            let shown = markdown(&text);
            prop_assert!(!shown.contains(" @o") && !shown.contains('<'), "{shown:?}");
            let code = markdown_code(&text);
            prop_assert_eq!(code.matches('`').count(), 2);
            prop_assert!(!chart_text(&text).contains(['`', '"', '\n', '#', ';']));
        }

        #[test]
        fn a_workflow_command_stays_one(text in hostile()) {
            let shown = workflow_data(&text);
            prop_assert!(shown.chars().all(|c| c == '\t' || !c.is_control() && !turns(c)), "{shown:?}");
            prop_assert!(!shown.contains("##["), "{shown:?}");
            prop_assert!(!workflow_property(&text).contains(['\n', '\r', ':', ',']));
        }
    }
}
