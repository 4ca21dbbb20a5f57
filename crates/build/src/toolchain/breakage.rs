//! Tells whether a compiler refused its input, or broke.

use std::os::unix::process::ExitStatusExt;
use system::process::{Ended, how};

/// Returns in one line why the machine or the compiler failed, or `None` if the compiler refused its input or did not
/// fail.
///
/// nvcc and g++ start other programs and say in words what became of those; the exit code alone does not tell.
pub fn find_breakage(ended: &Ended) -> Option<String> {
    if ended.status.success() {
        return None;
    }
    if ended.status.signal().is_some() {
        return Some(match how(ended.status).as_str() {
            "killed by SIGKILL" => {
                "it was killed by SIGKILL, as the operating system does when memory runs out".into()
            }
            how => format!("it was {how}"),
        });
    }
    const SAYS: [&str; 10] = [
        // nvcc, of cicc, ptxas and cudafe++.
        "died due to signal",
        // g++ and clang++, of cc1plus, as and ld.
        "signal terminated program",
        "terminated by signal",
        "frontend command failed due to signal",
        "internal compiler error: Segmentation fault",
        "internal compiler error: Killed",
        // The system.
        "No space left on device",
        "Disk quota exceeded",
        "Cannot allocate memory",
        "cannot execute binary file",
    ];
    // Its shell speaks of programs that are missing or damaged.
    let line =
        |line: &&str| line.starts_with("sh: ") || SAYS.iter().any(|says| line.contains(says));
    match ended.log.lines().find(line) {
        Some(line) => Some(line.trim().to_owned()),
        None => ended.log.trim().is_empty().then(|| {
            format!(
                "it ended with {} and no message; is the compiler whole?",
                how(ended.status)
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitStatus;

    fn breakage(raw: i32, log: &str) -> Option<String> {
        find_breakage(&Ended {
            status: ExitStatus::from_raw(raw),
            log: log.to_owned(),
        })
    }

    #[test]
    fn a_broken_compiler_is_no_broken_kernel() {
        assert_eq!(
            breakage(9, "").as_deref(),
            Some("it was killed by SIGKILL, as the operating system does when memory runs out")
        );
        assert_eq!(
            breakage(11, "x").as_deref(),
            Some("it was killed by SIGSEGV")
        );
        assert_eq!(
            breakage(
                9 << 8,
                "nvcc error   : 'cicc' died due to signal 9 (Kill signal)"
            )
            .as_deref(),
            Some("nvcc error   : 'cicc' died due to signal 9 (Kill signal)")
        );
        assert_eq!(
            breakage(
                1 << 8,
                "a\nfatal error: error writing to /tmp/x: No space left on device\n"
            )
            .as_deref(),
            Some("fatal error: error writing to /tmp/x: No space left on device")
        );
        assert_eq!(
            breakage(127 << 8, " \n").as_deref(),
            Some("it ended with exit code 127 and no message; is the compiler whole?")
        );
        assert_eq!(
            breakage(127 << 8, "sh: 1: ptxas: not found\n").as_deref(),
            Some("sh: 1: ptxas: not found")
        );
        assert_eq!(breakage(1 << 8, "k.cu(3): error: expected a `;`"), None);
        assert_eq!(breakage(0, ""), None);
    }
}
