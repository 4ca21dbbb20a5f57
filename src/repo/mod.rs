//! Where and when a run took place: the commit of the tree, the machine, the date. The only user of git.

use std::path::Path;
use std::process::{Command, Stdio};
use verdict::model::Host;

/// Commit of the tree with `+` where it has changes; `None` outside git or without git.
pub fn commit(root: &Path) -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    };
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(format!(
        "{}{}",
        head.trim(),
        if dirty.is_empty() { "" } else { "+" }
    ))
}

pub fn host() -> Host {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
    Host {
        os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        cpu: model.unwrap_or_else(|| "unknown".to_owned()),
        cores: std::thread::available_parallelism()
            .map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
    }
}

/// RFC 3339, UTC, whole seconds.
pub fn now() -> String {
    let now = std::time::SystemTime::now();
    humantime::format_rfc3339_seconds(now).to_string()
}
