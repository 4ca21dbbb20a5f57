//! Checks flags for compilers. Refuses flags that contradict a key of gates.yaml, that leave nothing built, or that run
//! programs.

use super::yaml::{Mistake, Spanned};

/// Checks a flag for nvcc. Refuses flags that repeat or contradict a setting that has a key of its own.
pub(super) fn check_nvcc_flag(flag: &Spanned<String>) -> Result<String, Mistake> {
    let owned = [
        (&["-D", "--define-macro"][..], "use the key `define`"),
        (&["-I", "--include-path"][..], "use the key `include_dirs`"),
        (
            &[
                "-arch",
                "--gpu-architecture",
                "-gencode",
                "--generate-code",
                "-code",
                "--gpu-code",
            ][..],
            "use the key `architectures`",
        ),
        (
            &["-ccbin", "--compiler-bindir"][..],
            "set NVCC_CCBIN in the environment of gatekeeper",
        ),
        (
            &["-optf", "--options-file"][..],
            "write its flags out: they are part of what a result is kept under",
        ),
    ];
    for (prefixes, help) in owned {
        if prefixes.iter().any(|prefix| flag.starts_with(prefix)) {
            return Err(refuse(flag, "").help(help));
        }
    }
    if listed(include_str!("flags/nvcc.txt")).any(|known| known == name(flag))
        || flag.trim().is_empty()
    {
        return Err(refuse(flag, ": gatekeeper decides what nvcc builds"));
    }
    check_programs(flag)
}

/// Checks a flag for the host compiler of a reference.
pub(super) fn check_host_flag(flag: &Spanned<String>) -> Result<String, Mistake> {
    if listed(include_str!("flags/host.txt")).any(|known| known == name(flag))
        || flag.trim().is_empty()
    {
        return Err(refuse(flag, ": a reference is built as a program"));
    }
    check_programs(flag)
}

/// Refuses flags that make a compiler run programs. Such a program is code of its author, and the result would depend
/// on more than the key under which it is kept.
fn check_programs(flag: &Spanned<String>) -> Result<String, Mistake> {
    // `-Xcompiler=-fplugin=x.so`, `-Xcompiler -Wall,-B.`, `-Wl,-plugin,x.so`.
    let parts = flag.split([',', '=', ' ', '\t', '"', '\'']);
    let is_program = |part: &str| {
        listed(include_str!("flags/programs.txt")).any(|prefix| part.starts_with(prefix))
    };
    let linker_of_tree = flag.contains("-fuse-ld") && flag.contains('/');
    if parts.into_iter().any(is_program) || linker_of_tree {
        Err(refuse(flag, ": it makes a compiler run another program")
            .help("NVCC_CCBIN in the environment of gatekeeper names the host compiler"))
    } else {
        Ok(flag.value.clone())
    }
}

/// Returns the lines of a list that are no comments.
fn listed(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

fn name(flag: &Spanned<String>) -> &str {
    flag.value.split('=').next().unwrap_or_default()
}

fn refuse(flag: &Spanned<String>, why: &str) -> Mistake {
    flag.problem(format!("`{flag}` is not allowed in `flags`{why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::Position;

    fn spanned(flag: &str) -> Spanned<String> {
        Spanned {
            value: flag.to_owned(),
            at: Position::default(),
        }
    }

    #[test]
    fn flags_are_taken_or_refused_as_listed() {
        for row in include_str!("flags/tried.txt").lines() {
            let mut words = row.splitn(3, ' ');
            let mut word = || words.next().unwrap();
            let (compiler, answer, flag) = (word(), word(), spanned(word()));
            let check = match compiler {
                "nvcc" => check_nvcc_flag,
                _ => check_host_flag,
            };
            assert_eq!(check(&flag).is_ok(), answer == "takes", "{row}");
        }
        assert!(check_nvcc_flag(&spanned("")).is_err());
        assert!(check_host_flag(&spanned(" ")).is_err());
    }
}
