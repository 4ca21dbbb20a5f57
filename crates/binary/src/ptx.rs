//! Which kernels PTX has.

/// The names that `.entry` directives give. PTX is outside data: what does not look like one is left out.
pub fn kernels(ptx: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(ptx);
    let mut names = Vec::new();
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        let mut words = code.split_whitespace();
        if words.any(|it| it == ".entry")
            && let Some(name) = words.next()
        {
            let name = name.split('(').next().unwrap_or_default();
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_what_entry_directives_name() {
        let ptx = ".version 9.0\n// .entry not_this\n.func helper()\n.visible .entry _Z1kPf(\n\
                   \t.param .u64 p\n)\n\t.entry plain ()\n.weak .entry w(.param .b8 x)\n";
        assert_eq!(kernels(ptx.as_bytes()), ["_Z1kPf", "plain", "w"]);
        assert!(kernels(b"\xff\xfe .entry").is_empty());
    }
}
