//! The files beside the JSON: little-endian float32, as many as the JSON says, and nothing else.

use std::path::{Component, Path, PathBuf};
use system::files;

/// Longest sample believed, in s: a day.
const MOST_SECONDS: f32 = 86_400.0;

type Read<T> = Result<Vec<T>, String>;

/// Seconds in the file, as whole ns. Below 2^-6 s (15.6 ms) float32 is finer than that.
pub(super) fn read_ns(json: &Path, name: &str, size: u64) -> Read<u64> {
    let samples = read(json, name, size)?;
    let samples = samples.into_iter().enumerate().map(|(at, seconds)| {
        let ns = (f64::from(seconds) * 1e9).round();
        match ns >= 1.0 && seconds <= MOST_SECONDS {
            true => Ok(ns as u64),
            false => Err(format!("sample {at} of {name} is {seconds} s")),
        }
    });
    samples.collect()
}

/// Hz.
pub(super) fn read_hz(json: &Path, name: &str, size: u64) -> Read<f32> {
    let values = read(json, name, size)?;
    match values.iter().position(|hz| !(*hz > 0.0 && hz.is_finite())) {
        None => Ok(values),
        Some(at) => Err(format!("frequency {at} of {name} is no frequency")),
    }
}

fn read(json: &Path, name: &str, size: u64) -> Read<f32> {
    let path = find(json, name)?;
    let failed = |error: std::io::Error| format!("{name} cannot be read: {error}");
    let bytes = std::fs::metadata(&path).map_err(failed)?.len();
    if size.checked_mul(4) != Some(bytes) {
        return Err(format!(
            "{name} has {bytes} bytes, and {size} values of 4 bytes were written"
        ));
    }
    let bytes = files::read(&path, bytes).map_err(failed)?;
    let (values, _) = bytes.as_chunks::<4>();
    Ok(values.iter().copied().map(f32::from_le_bytes).collect())
}

/// Beside the JSON file (`docs/json_output.md`). Files before that rule name it from where NVBench was
/// started; of those the part from `NAME.json-bin` on counts, as in NVBench's own `nvbench_compare_robust`.
fn find(json: &Path, name: &str) -> Result<PathBuf, String> {
    let dir = json.parent().unwrap_or(Path::new(""));
    let whole = dir.join(name);
    if whole.is_file() {
        return Ok(whole);
    }
    let json = json.file_name().unwrap_or_default().to_string_lossy();
    let kinds = [format!("{json}-bin"), format!("{json}-freqs-bin")];
    let parts: Vec<_> = Path::new(name)
        .components()
        .filter_map(|part| match part {
            Component::Normal(part) => Some(part),
            _ => None,
        })
        .collect();
    let start = parts
        .iter()
        .position(|part| kinds.iter().any(|kind| *part == kind.as_str()));
    let moved = start.and_then(|start| parts.get(start..)).map(|rest| {
        rest.iter()
            .fold(dir.to_owned(), |path, part| path.join(part))
    });
    match moved.filter(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => Err(format!("its samples, {name}, are not there")),
    }
}
