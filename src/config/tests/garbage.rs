//! Whatever is in the file, the answer is a message.

use super::{RIGHT, read};
use proptest::prelude::*;

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".*") {
        let _ = read(&text);
    }

    #[test]
    fn arbitrary_lines_never_panic(text in "version: 1\n([a-z: &*<\\[\\]{}'\"|>!,0-9-]{0,20}\n){0,6}") {
        let _ = read(&text);
    }

    /// One piece of a right file replaced by another piece of it, or by something odd.
    #[test]
    fn shuffled_files_never_panic(
        from in 0..RIGHT.len(),
        length in 0usize..12,
        with in prop_oneof![
            (0..RIGHT.len(), 0usize..12)
                .prop_map(|(at, length)| RIGHT.chars().skip(at).take(length).collect::<String>()),
            proptest::sample::select(vec![
                "null", "~", "-1", "1e999", ".inf", "99999999999999999999", "''", "[]", "{}", "*x", "&x",
                "!!binary ab", "<<: {}", "\u{0}", "\u{feff}", "é", "\t", "---", "? ", "N / 0", "((((",
                "0 % 0", "-9223372036854775808",
            ]).prop_map(str::to_owned),
        ],
    ) {
        let text: String = RIGHT.chars().take(from).collect::<String>()
            + &with
            + &RIGHT.chars().skip(from + length).collect::<String>();
        if let Err(said) = read(&text) {
            prop_assert!(said.starts_with("gates.yaml"), "{}", said);
        }
    }
}
