//! Flags for compilers: which of them contradict a key of gates.yaml, leave nothing built, or run programs.

use super::yaml::{Problem, Spanned};

/// For nvcc. Refuses flags that repeat or contradict what has a key of its own.
pub(super) fn check_nvcc_flag(flag: &Spanned<String>) -> Result<String, Problem> {
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
    let output = [
        "-o",
        "--output-file",
        "-c",
        "--compile",
        "-ptx",
        "--ptx",
        "-cubin",
        "--cubin",
        "-fatbin",
        "--fatbin",
        "-cuda",
        "--cuda",
        "-optix-ir",
        "--optix-ir",
        "-ltoir",
        "--ltoir",
        "-shared",
        "--shared",
        "-link",
        "--link",
        "-lib",
        "--lib",
        "-run",
        "--run",
        "-dc",
        "--device-c",
        "-dw",
        "--device-w",
        "-dlink",
        "--device-link",
        "-rdc",
        "--relocatable-device-code",
        "-E",
        "--preprocess",
        "-M",
        "-MM",
        "-dryrun",
        "--dryrun",
        "-h",
        "-help",
        "--help",
        "-V",
        "--version",
        "-clean",
        "--clean-targets",
        "-keep-dir",
        "--keep-dir",
        "-objtemp",
        "--objdir-as-tempdir",
        "-time",
        "--time",
        "-code-ls",
        "--list-gpu-code",
        "-arch-ls",
        "--list-gpu-arch",
    ];
    if output.contains(&name(flag)) || flag.trim().is_empty() {
        return Err(refuse(flag, ": gatekeeper decides what nvcc builds"));
    }
    check_programs(flag)
}

/// For the host compiler of a reference.
pub(super) fn check_host_flag(flag: &Spanned<String>) -> Result<String, Problem> {
    let output = [
        "-o",
        "-c",
        "-E",
        "-S",
        "-M",
        "-MM",
        "-fsyntax-only",
        "--help",
        "--version",
        "-shared",
        "-###",
    ];
    if output.contains(&name(flag)) || flag.trim().is_empty() {
        return Err(refuse(flag, ": a reference is built as a program"));
    }
    check_programs(flag)
}

/// A compiler that runs programs of the tree runs code of its author, and its result depends on more
/// than what it is kept under.
fn check_programs(flag: &Spanned<String>) -> Result<String, Problem> {
    let runs = [
        // Options of nvcc.
        "-drvpre",
        "--drive-prefix",
        "--dependency-drive-prefix",
        "--input-drive-prefix",
        // Options of g++ and clang, which get them by -Xcompiler here.
        "-wrapper",
        "-fplugin",
        "-fpass-plugin",
        "-specs",
        "--specs",
        "-B",
        "--prefix",
        "-load",
        "@",
        // Options of their linkers.
        "-plugin",
        "--plugin",
    ];
    // `-Xcompiler=-fplugin=x.so`, `-Xcompiler -Wall,-B.`, `-Wl,-plugin,x.so`.
    let parts = flag.split([',', '=', ' ', '\t', '"', '\'']);
    let is_program = |part: &str| runs.iter().any(|prefix| part.starts_with(prefix));
    let linker_of_tree = flag.contains("-fuse-ld") && flag.contains('/');
    if parts.into_iter().any(is_program) || linker_of_tree {
        Err(refuse(flag, ": it makes a compiler run another program")
            .help("NVCC_CCBIN in the environment of gatekeeper names the host compiler"))
    } else {
        Ok(flag.value.clone())
    }
}

fn name(flag: &Spanned<String>) -> &str {
    flag.value.split('=').next().unwrap_or_default()
}

fn refuse(flag: &Spanned<String>, why: &str) -> Problem {
    flag.problem(format!("`{flag}` is not allowed in `flags`{why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::Position;

    fn of(flag: &str) -> Spanned<String> {
        Spanned {
            value: flag.to_owned(),
            at: Position::default(),
        }
    }

    #[test]
    fn flags_that_people_use_are_taken() {
        for flag in [
            "-O3",
            "-std=c++17",
            "-lineinfo",
            "--use_fast_math",
            "-Xcompiler",
            "-fopenmp",
            "-Xcompiler=-Wall,-Wextra",
            "-Xptxas=-dlcm=cg",
            "--expt-relaxed-constexpr",
            "-maxrregcount=64",
            "-lcublas",
            "-include",
            "pre.h",
            "--split-compile=0",
            "-ftemplate-backtrace-limit=0",
            "-Xcompiler=-fuse-ld=lld",
        ] {
            assert!(check_nvcc_flag(&of(flag)).is_ok(), "{flag}");
        }
        for flag in [
            "-O2",
            "-fopenmp",
            "-march=native",
            "-lm",
            "-Wl,-rpath,lib",
            "-g",
            "-ffast-math",
            "-L../lib",
        ] {
            assert!(check_host_flag(&of(flag)).is_ok(), "{flag}");
        }
    }

    #[test]
    fn flags_that_run_programs_or_leave_nothing_built_are_refused() {
        let programs = [
            "-Xcompiler=-fplugin=./x.so",
            "-fplugin=x.so",
            "-Xcompiler=-wrapper,./run.sh",
            "-wrapper",
            "-B.",
            "-Xcompiler=-B,tools",
            "-specs=x",
            "--specs=x",
            "-Xlinker=-plugin=x",
            "-Wl,-plugin,x.so",
            "@flags.txt",
            "-Xcompiler=-fuse-ld=./ld",
            "-Xcompiler -B.",
            "-Xcompiler=\"-fplugin=x\"",
        ];
        for flag in programs {
            assert!(check_nvcc_flag(&of(flag)).is_err(), "{flag}");
            assert!(check_host_flag(&of(flag)).is_err(), "{flag}");
        }
        for flag in [
            "-ccbin",
            "-ccbin=./g++",
            "--compiler-bindir",
            "-drvpre=./run.sh",
            "--drive-prefix",
            "-optf",
            "--dryrun",
            "-dryrun",
            "--help",
            "-clean",
            "-E",
            "-run",
            "--keep-dir=x",
            "-objtemp",
            "-o",
            "",
        ] {
            assert!(check_nvcc_flag(&of(flag)).is_err(), "{flag}");
        }
        for flag in [
            "-E",
            "-S",
            "-c",
            "-o",
            "-MM",
            "-fsyntax-only",
            "-shared",
            " ",
        ] {
            assert!(check_host_flag(&of(flag)).is_err(), "{flag}");
        }
    }
}
