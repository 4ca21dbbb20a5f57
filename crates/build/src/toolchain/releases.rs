//! Knows the releases of CUDA that can be installed: some by the digests of their wheels, and any other that the
//! package index has.

use super::matches_pin;
use std::cmp::Ordering;

/// The wheels of each release that is known, as pip reads them.
const KNOWN: &str = include_str!("releases.txt");

/// A release of the CUDA compiler on PyPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The version of its nvcc: `13.0.88`.
    pub version: &'static str,
    /// The wheels of the release, one on each line.
    pub(super) requirements: &'static str,
}

/// Returns the known releases, the newest first.
pub fn known_releases() -> Vec<Release> {
    let mut releases: Vec<_> = KNOWN
        .split("\n\n")
        .filter_map(|requirements| {
            let requirements = requirements.trim_start();
            let (version, _) = requirements
                .strip_prefix("nvidia-cuda-nvcc==")?
                .split_once(' ')?;
            Some(Release {
                version,
                requirements,
            })
        })
        .collect();
    releases.reverse();
    releases
}

/// Returns the newest known release of `version`, which can be the beginning of one.
pub(super) fn newest(version: &str) -> Option<Release> {
    known_releases()
        .into_iter()
        .find(|release| matches_pin(release.version, version))
}

/// Returns true if PyPI can have the release. The wheels of CUDA 12 do not include nvcc.
pub(super) fn can_be_installed(version: &str) -> bool {
    let major = version.split('.').next().unwrap_or_default();
    major.parse().is_ok_and(|major: u32| major >= 13)
}

/// The releases whose compilers are used, as every message names them.
pub(super) const SUPPORTED: &str = "CUDA 11.8 to 13.x";

/// Returns true for a release or an update of it that is not older than 11.8. Newer ones than anybody has tried are used, too.
pub(super) fn is_supported(version: &str) -> bool {
    // A major version alone means its newest release.
    version == "11" || compare_versions(version, "11.8").is_ge()
}

/// Returns true for `13.2` or `13.2.78`. Only numbers are allowed, so that nothing else gets into a requirement.
pub fn is_version(text: &str) -> bool {
    let parts: Vec<_> = text.split('.').collect();
    let is_number = |part: &&str| {
        (1..=6).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    (2..=4).contains(&parts.len()) && parts.iter().all(is_number)
}

/// Compares versions by their numbers: 13.10 is newer than 13.9.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> {
        text.split('.')
            .map(|part| part.parse().unwrap_or(0))
            .collect()
    };
    numbers(a).cmp(&numbers(b))
}

/// Sorts versions so that the newest is first.
pub fn sort_versions(versions: &mut [String]) {
    versions.sort_by(|a, b| compare_versions(b, a));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_release_has_five_wheels_for_two_processors() {
        let known = known_releases();
        assert!(known.iter().any(|release| release.version == "13.0.88"));
        for pair in known.windows(2) {
            let [newer, older] = pair else { continue };
            assert!(compare_versions(older.version, newer.version).is_lt());
        }
        for release in &known {
            let lines: Vec<_> = release.requirements.trim_end().lines().collect();
            let names: Vec<_> = lines
                .iter()
                .filter_map(|line| line.split("==").next())
                .collect();
            assert_eq!(
                names,
                [
                    "nvidia-cuda-nvcc",
                    "nvidia-nvvm",
                    "nvidia-cuda-crt",
                    "nvidia-cuda-runtime",
                    "nvidia-cuda-cccl"
                ]
            );
            for line in lines {
                let digests: Vec<_> = line.split(" --hash=sha256:").skip(1).collect();
                let is_digest = |digest: &&str| {
                    digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
                };
                assert_eq!(digests.len(), 2, "{line}");
                assert!(digests.iter().all(is_digest), "{line}");
            }
        }
    }

    #[test]
    fn the_newest_update_of_a_release_is_taken() {
        assert_eq!(
            newest("13.0").map(|release| release.version),
            Some("13.0.88")
        );
        assert_eq!(
            newest("13.0.48").map(|release| release.version),
            Some("13.0.48")
        );
        assert_eq!(
            newest("13.1").map(|release| release.version),
            Some("13.1.115")
        );
        assert_eq!(newest("12.9"), None);
        assert_eq!(newest("13.99"), None);
    }

    #[test]
    fn versions_are_numbers() {
        for text in ["13.2", "13.2.78", "13.2.1.0"] {
            assert!(is_version(text), "{text}");
        }
        for text in [
            "",
            "13",
            "13.",
            "13.2rc1",
            "13.*",
            "13.2 --index-url x",
            "13.2.",
            "-13.2",
        ] {
            assert!(!is_version(text), "{text}");
        }
        assert!(can_be_installed("13.0"));
        assert!(!can_be_installed("12.9"));
        for version in ["11", "11.8", "11.8.89", "12", "12.0.76", "13.0", "14.1"] {
            assert!(is_supported(version), "{version}");
        }
        for version in ["11.7.99", "11.2", "10.2", "9"] {
            assert!(!is_supported(version), "{version}");
        }
    }
}
