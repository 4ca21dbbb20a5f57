//! `cache`: shows what the cache holds, and removes what is not used.

use super::say;
use report::exit::Exit;
use std::fmt::Write;
use std::time::SystemTime;
use system::cache::Cache;
use system::cache::evict::{CacheEntry, Limits};
use system::error::{Error, Result};
use wording::words::size;

pub fn show() -> Result<Exit> {
    let cache = Cache::open()?;
    let entries = cache.entries()?;
    let mut text = format!("{}: {}\n", cache.root().display(), size(total(&entries)));
    let mut parts: Vec<&str> = entries.iter().map(|entry| entry.part).collect();
    parts.dedup();
    for part in parts {
        let of_part: Vec<CacheEntry> = entries
            .iter()
            .filter(|entry| entry.part == part)
            .cloned()
            .collect();
        let oldest = of_part.iter().map(|entry| entry.used).min();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{part:<18} {:>6} {:>10}   not used for up to {}",
            of_part.len(),
            size(total(&of_part)),
            oldest.map_or_else(String::new, days)
        );
    }
    say(text.trim_end())?;
    Ok(Exit::Held)
}

pub fn prune(limits: Limits, is_dry: bool) -> Result<Exit> {
    if limits.bytes.is_none() && limits.age.is_none() {
        return Err(Error::usage("what is to remain is not said")
            .help("name a size, an age, or both: --max-size 10GiB --older-than 30d"));
    }
    let cache = Cache::open()?;
    let there = cache.entries()?;
    let count = there.len();
    let goes = if is_dry {
        limits.choose(there, SystemTime::now())
    } else {
        cache.prune(limits)?
    };
    let mut text = String::new();
    if is_dry {
        for entry in &goes {
            let _ = writeln!(
                text,
                "{:>10}   {:>8}   {}",
                size(entry.bytes),
                days(entry.used),
                entry.path.display()
            );
        }
    }
    let _ = write!(
        text,
        "{} {} of {} entries, {}",
        if is_dry { "would remove" } else { "removed" },
        goes.len(),
        count,
        size(total(&goes))
    );
    say(&text)?;
    Ok(Exit::Held)
}

fn total(entries: &[CacheEntry]) -> u64 {
    entries.iter().map(|entry| entry.bytes).sum()
}

/// Returns the time since `then` in days, for people.
fn days(then: SystemTime) -> String {
    let age = SystemTime::now().duration_since(then).unwrap_or_default();
    match age.as_secs() / (24 * 3600) {
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}
