//! Reads and writes the committed baseline of a compiled file: JSON Lines, with a header and then each kernel on a line
//! of its own, sorted. It has everything by which kernels are matched, so that it reads back into a listing.

use binary::{BinaryKernel, Compiler, Format, Listing};
use model::Arch;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use system::error::{Error, Result};
use system::files;

const SCHEMA: &str = "gatekeeper.binary/1";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    schema: String,
    file: String,
    /// The number of lines that follow.
    kernels: usize,
    compilers: Vec<CubinCount>,
}

/// The number of cubins that a compiler made.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CubinCount {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Compiler>,
    cubins: usize,
}

/// Returns the path of a binary's baseline, relative to gates.yaml.
pub fn baseline_path(name: &str) -> PathBuf {
    Path::new("baselines/binaries").join(format!("{name}.jsonl"))
}

/// Returns the sort key of a kernel's line. Kernels of one name keep the order of the file, by which they may be
/// matched.
fn place(kernel: &BinaryKernel) -> (Arch, &str, Option<&str>) {
    (kernel.arch, &kernel.name, kernel.member.as_deref())
}

/// Writes a baseline. `file` is the name of the file, without directories.
///
/// # Errors
/// Never fails for a listing that was read, because JSON can express it.
pub fn write_baseline(file: &str, listing: &Listing) -> Result<String> {
    let json = |value: serde_json::Result<String>| {
        value.map_err(|error| Error::unwritten("the baseline", error))
    };
    let mut kernels: Vec<&BinaryKernel> = listing.kernels.iter().collect();
    kernels.sort_by(|one, other| place(one).cmp(&place(other)));
    let made = |(compiler, cubins): (&Option<Compiler>, &usize)| CubinCount {
        by: compiler.clone(),
        cubins: *cubins,
    };
    let header = Header {
        schema: SCHEMA.to_owned(),
        file: file.to_owned(),
        kernels: kernels.len(),
        compilers: listing.compilers.iter().map(made).collect(),
    };
    let mut text = json(serde_json::to_string(&header))? + "\n";
    for kernel in kernels {
        text += &json(serde_json::to_string(kernel))?;
        text.push('\n');
    }
    Ok(text)
}

/// Parses a baseline. `at` names the file in an error.
///
/// # Errors
/// Fails with a usage error and the line for anything that is not as it was written.
pub fn parse_baseline(text: &str, at: &str) -> Result<Listing> {
    let damaged = |number: usize, problem: String| {
        Error::usage(format!("the baseline cannot be used: {problem}"))
            .at(format!("{at}:{number}"))
            .help(
                "restore it from git, or remove it and write it anew: `gatekeeper binary --update`",
            )
    };
    let mut lines = (1..).zip(text.lines());
    let Some((_, first)) = lines.next() else {
        return Err(damaged(1, "it is empty".to_owned()));
    };
    let header: Header =
        serde_json::from_str(first).map_err(|error| damaged(1, error.to_string()))?;
    if header.schema != SCHEMA {
        let problem = format!("its schema is `{}`, and not `{SCHEMA}`", header.schema);
        return Err(damaged(1, problem));
    }
    let mut listing = Listing::new(Format::Host);
    for made in header.compilers {
        listing.compilers.insert(made.by, made.cubins);
    }
    for (number, line) in lines {
        let kernel: BinaryKernel =
            serde_json::from_str(line).map_err(|error| damaged(number, error.to_string()))?;
        let last = listing.kernels.last();
        if last.is_some_and(|last| place(last) > place(&kernel)) {
            return Err(damaged(number, "it is out of order".to_owned()));
        }
        listing.kernels.push(kernel);
    }
    if listing.kernels.len() == header.kernels {
        Ok(listing)
    } else {
        let problem = format!(
            "it has {} kernels, and its first line says {}",
            listing.kernels.len(),
            header.kernels
        );
        Err(damaged(1, problem))
    }
}

/// Reads the baseline of a binary. Returns `None` if there is none yet.
///
/// # Errors
/// Fails with a usage error if it cannot be read.
pub fn read_baseline(root: &Path, name: &str) -> Result<Option<Listing>> {
    let path = baseline_path(name);
    let at = path.display().to_string();
    match files::read_text(&root.join(&path), files::SOURCE) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::usage(format!("cannot be read: {error}")).at(at)),
        Ok(text) => parse_baseline(&text, &at).map(Some),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::option::of;
    use proptest::prelude::*;

    prop_compose! {
        fn kernels()(
            name in "[_a-zA-Z0-9<>,\"\\\\ é]{1,12}",
            major in 5_u8..13,
            (registers, frame, stack) in (of(0..256_u32), of(any::<u32>()), of(any::<u32>())),
            (shared, reserved_shared, code) in (of(any::<u64>()), any::<u64>(), any::<u64>()),
            constants in prop::collection::btree_map(0..18_u32, any::<u64>(), 0..3),
            (barriers, max_threads, required_threads) in (of(0..17_u32), any::<Option<[u32; 3]>>(), any::<Option<[u32; 3]>>()),
            (is_linked, digest) in (any::<bool>(), any::<[u8; 32]>()),
            opcodes in prop::collection::vec(any::<(u16, u32)>(), 0..4),
            local_instructions in of(any::<u32>()),
            member in of("[a-z/._()]{1,8}"),
        ) -> BinaryKernel {
            BinaryKernel {
                name, arch: Arch { major, minor: 0, suffix: None }, registers, frame, stack, static_shared: shared,
                reserved_shared, constants, code, barriers, max_threads, required_threads, is_linked, digest, opcodes,
                local_instructions, member,
            }
        }
    }

    proptest! {
        #[test]
        fn a_baseline_reads_back_as_it_was(
            mut kernels in prop::collection::vec(kernels(), 0..6),
            tools in prop::collection::btree_map(of(("[a-z]{1,5}", "[0-9.]{1,5}")), 1..9_usize, 0..3),
        ) {
            let mut listing = Listing::new(Format::Host);
            listing.kernels = kernels.clone();
            listing.compilers = tools
                .into_iter()
                .map(|(it, cubins)| (it.map(|(tool, version)| Compiler { tool, version }), cubins))
                .collect();
            let text = write_baseline("lib.so", &listing).unwrap();
            let read = parse_baseline(&text, "b.jsonl").unwrap();
            kernels.sort_by(|one, other| place(one).cmp(&place(other)));
            prop_assert_eq!(&read.kernels, &kernels);
            prop_assert_eq!(&read.compilers, &listing.compilers);
            prop_assert_eq!(write_baseline("lib.so", &read).unwrap(), text.clone());
            // Anything cut off is noticed.
            let shorter = text.trim_end().rsplit_once('\n').map_or("", |parts| parts.0);
            prop_assert!(parse_baseline(shorter, "b.jsonl").is_err());
        }
    }
}
