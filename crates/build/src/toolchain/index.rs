//! Asks the package index through pip which compilers it has, and for the digests of a release that is not known here.

use super::install::{Installer, Package, pip};
use super::releases::{compare_versions, is_version};
use super::{Search, output_of};
use serde::Deserialize;
use std::path::Path;
use system::cache::Cache;
use system::error::{Error, Result};
use system::files;
use system::temporary::TemporaryDir;

/// The wheels that make a compiler, as the extras of `cuda-toolkit` name them.
const TOOLKIT: &str = "cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]";
const NVCC: &str = "nvidia-cuda-nvcc";
const WHEELS: [&str; 5] = [
    NVCC,
    "nvidia-nvvm",
    "nvidia-cuda-crt",
    "nvidia-cuda-runtime",
    "nvidia-cuda-cccl",
];

/// The part of `pip install --report` that is read.
#[derive(Deserialize)]
struct PipReport {
    install: Vec<Wheel>,
}

#[derive(Deserialize)]
struct Wheel {
    metadata: Metadata,
    download_info: Download,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct Download {
    archive_info: Archive,
}

#[derive(Deserialize)]
struct Archive {
    hashes: Hashes,
}

#[derive(Deserialize)]
struct Hashes {
    sha256: String,
}

/// Returns a release that is not known here: the wheels that its own `cuda-toolkit` requires, with the index's digests.
/// Only the index vouches for these digests.
///
/// # Errors
/// Usage, if the index has no such version. Environment, if it cannot be asked.
pub(super) fn ask(
    version: &str,
    cache: &Cache,
    progress: &dyn Fn(&str),
    search: &Search,
) -> Result<Package> {
    let by_hand = "install CUDA by hand and name its directory";
    let installer = Installer::find(search, "CUDA", by_hand)?;
    let Installer::Pip(python) = &installer else {
        return Err(Error::environment(format!(
            "CUDA {version} is newer than this gatekeeper, and only pip can say what it is made of"
        ))
        .help("install python3 with pip")
        .help(format!("or {by_hand}")));
    };
    let failed = |why: &str| {
        let (name, mirrors) = (installer.name(), installer.mirrors());
        Error::environment(format!("{name} could not look CUDA {version} up:\n{why}")).help(mirrors)
    };
    progress(&format!(
        "CUDA {version} is newer than this gatekeeper: the package index alone vouches for its digests"
    ));
    let scratch =
        TemporaryDir::new_in(&cache.dir("scratch")?).map_err(|error| failed(&error.to_string()))?;
    let report = scratch.path().join("report.json");
    let mut release = version.splitn(3, '.');
    let release = [release.next(), release.next()].map(Option::unwrap_or_default);
    let mut command = pip(python);
    command
        .args([
            "install",
            "--dry-run",
            "--ignore-installed",
            "--quiet",
            "--no-input",
        ])
        .args(["--only-binary", ":all:", "--report"])
        .arg(&report)
        .arg("--target")
        .arg(scratch.path())
        .arg(format!("{TOOLKIT}=={}.*", release.join(".")))
        .arg(if version == release.join(".") {
            format!("{NVCC}=={version}.*")
        } else {
            format!("{NVCC}=={version}")
        });
    output_of(command).map_err(|error| {
        let why = error.to_string();
        if is_answer(&why) {
            no_such(version)
        } else {
            failed(last_lines(&why))
        }
    })?;
    let bytes = files::read(&report, files::WRITTEN).map_err(|error| failed(&error.to_string()))?;
    let report: PipReport =
        serde_json::from_slice(&bytes).map_err(|error| failed(&error.to_string()))?;
    let (version, requirements) = report
        .read()
        .ok_or_else(|| failed("its report lacks a wheel or a digest"))?;
    Ok(Package::compiler(version, requirements))
}

fn no_such(version: &str) -> Error {
    Error::usage(format!("the package index has no CUDA compiler {version}"))
        .help("`gatekeeper toolchain list` shows those that there are")
}

/// Returns true if the index answered that it has no such version. If the index did not answer, pip knows of no version
/// at all.
fn is_answer(log: &str) -> bool {
    log.contains("(from versions: ") && !log.contains("(from versions: none)")
        || log.contains("ResolutionImpossible")
}

fn last_lines(log: &str) -> &str {
    let from = log.trim_end().rmatch_indices('\n').nth(3);
    from.map_or(log, |(at, _)| log.get(at + 1..).unwrap_or(log))
        .trim()
}

impl PipReport {
    /// Returns the version of nvcc, and the requirements to install.
    fn read(&self) -> Option<(String, String)> {
        let mut version = None;
        let mut requirements = String::new();
        for name in WHEELS {
            let wheel = self
                .install
                .iter()
                .find(|install| install.metadata.name == name)?;
            let own = &wheel.metadata.version;
            let digest = &wheel.download_info.archive_info.hashes.sha256;
            let is_digest =
                digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            if !is_digest || !own.split('.').all(is_number) {
                return None;
            }
            requirements += &format!("{name}=={own} --hash=sha256:{digest}\n");
            version.get_or_insert_with(|| own.clone());
        }
        Some((version?, requirements))
    }
}

/// Returns the versions of nvcc that the index has, the newest first.
///
/// # Errors
/// Returns the reason if the index did not answer.
pub fn list_offered() -> std::result::Result<Vec<String>, String> {
    let search = Search::from_environment();
    let found = Installer::find(&search, "CUDA", "");
    let python = match found.map_err(|error| error.diagnostic().message.clone())? {
        Installer::Pip(python) => python,
        Installer::Uv(_) => return Err("uv lists no versions; python3 with pip does".to_owned()),
    };
    offered_by(&python)
}

fn offered_by(python: &Path) -> std::result::Result<Vec<String>, String> {
    let mut command = pip(python);
    command.args([
        "--timeout",
        "5",
        "--retries",
        "1",
        "index",
        "versions",
        NVCC,
    ]);
    let log = output_of(command).map_err(|error| last_lines(&error.to_string()).to_owned())?;
    let mut versions = versions_in(&log)
        .ok_or_else(|| format!("pip printed no versions: {}", last_lines(&log)))?;
    versions.sort_by(|a, b| compare_versions(b, a));
    Ok(versions)
}

/// Reads `Available versions: 13.1.80, 13.0.88`. Versions that are no releases are left out.
fn versions_in(log: &str) -> Option<Vec<String>> {
    let list = log
        .lines()
        .find_map(|line| line.trim().strip_prefix("Available versions:"))?;
    Some(
        list.split(',')
            .map(str::trim)
            .filter(|version| is_version(version) && super::releases::can_be_installed(version))
            .map(str::to_owned)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_from_a_network_that_is_down() {
        let none = "ERROR: Could not find a version that satisfies the requirement nvidia-cuda-nvcc==13.9.* (from versions: none)\n";
        let other = "ERROR: Could not find a version that satisfies the requirement nvidia-cuda-nvcc==13.9.* (from versions: 13.0.48, 13.0.88)\n";
        assert!(!is_answer(none));
        assert!(is_answer(other));
        assert!(!is_answer("no such host"));
    }

    #[test]
    fn a_report_without_a_digest_is_refused() {
        let wheel = |name: &str, digest: &str| {
            serde_json::json!({
                "metadata": {"name": name, "version": "13.6.1"},
                "download_info": {"archive_info": {"hashes": {"sha256": digest}}},
            })
        };
        let report = |digest: &str| -> PipReport {
            let all: Vec<_> = WHEELS.iter().map(|name| wheel(name, digest)).collect();
            serde_json::from_value(serde_json::json!({ "install": all })).unwrap()
        };
        let (version, requirements) = report(&"a1".repeat(32)).read().unwrap();
        assert_eq!(version, "13.6.1");
        assert_eq!(requirements.lines().count(), 5);
        assert!(requirements.starts_with("nvidia-cuda-nvcc==13.6.1 --hash=sha256:a1a1"));
        assert!(report("a1 --index-url http://x").read().is_none());
        let mut short = report(&"a1".repeat(32));
        short.install.pop();
        assert!(short.read().is_none());
    }

    #[test]
    fn pips_list_is_read() {
        let log = "WARNING: x\nnvidia-cuda-nvcc (13.1.80)\nAvailable versions: 13.1.80, 13.4.46rc1, 13.0.88, 0.0.1\n";
        assert_eq!(
            versions_in(log).unwrap(),
            ["13.1.80", "13.0.88"].map(str::to_owned)
        );
        assert_eq!(versions_in("ERROR: none"), None);
    }
}
