//! Says where and when a run takes place.

use model::Host;
use std::path::Path;

pub fn host() -> Host {
    let cpu = system::files::read_text(Path::new("/proc/cpuinfo"), system::files::WRITTEN)
        .unwrap_or_default();
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

/// Returns the time now, by RFC 3339, in UTC and whole seconds.
pub fn now() -> String {
    let now = std::time::SystemTime::now();
    humantime::format_rfc3339_seconds(now).to_string()
}
