//! The preprocessor's list of included files. Pure.

/// Files after the colon of a make rule, in order; `\ ` is a space and `$$` a dollar.
pub fn parse(rule: &str) -> Vec<String> {
    let joined = rule.replace("\\\n", " ");
    let Some((_, files)) = joined.split_once(" : ").or_else(|| joined.split_once(": ")) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    let mut name = String::new();
    let mut chars = files.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek().copied()) {
            ('\\', Some(next @ (' ' | '#'))) => {
                name.push(next);
                chars.next();
            }
            ('$', Some('$')) => {
                name.push('$');
                chars.next();
            }
            ('\n', _) => break,
            (c, _) if c.is_whitespace() => {
                if !name.is_empty() {
                    names.push(std::mem::take(&mut name));
                }
            }
            (c, _) => name.push(c),
        }
    }
    if !name.is_empty() {
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_rule() {
        assert_eq!(
            parse("k.cubin : a.cu \\\n    /usr/x.h \\\n    b\\ c/d.h e$$f.h g\\#h.h\n\nx.h:\n"),
            ["a.cu", "/usr/x.h", "b c/d.h", "e$f.h", "g#h.h"]
        );
        assert_eq!(parse("k.o: a.cu"), ["a.cu"]);
        assert!(parse("").is_empty());
        assert!(parse("no rule").is_empty());
    }
}
