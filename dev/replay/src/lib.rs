//! Searches on recorded spaces: nothing is built or run, a recording has the answer.

#![forbid(unsafe_code)]

mod table;
mod trace;

pub use table::table;
pub use trace::{Trace, replay};

use flate2::read::GzDecoder;
use search::exchange::{Recording, read_cache};
use search::{Outcome, Space};
use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// A recorded space, and what came of each of its configurations.
pub struct Recorded {
    pub name: String,
    pub recording: Recording,
    pub space: Arc<Space>,
    pub outcomes: Vec<Outcome>,
    /// The least cost.
    pub optimum: f64,
}

impl Recorded {
    /// # Errors
    /// The file is no recording, or nothing in it has a cost.
    pub fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let recording = read_recording(path)?;
        let (space, outcomes) = recording.space()?;
        let costs = outcomes.iter().filter_map(|it| it.cost());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(".gz").trim_end_matches(".json");
        Ok(Self {
            name: name.to_owned(),
            optimum: costs
                .min_by(f64::total_cmp)
                .ok_or("no configuration has a cost")?,
            recording,
            space: Arc::new(space),
            outcomes,
        })
    }
}

/// A kernel_tuner cache. It may be compressed.
///
/// # Errors
/// The file cannot be read or understood.
pub fn read_recording(path: &Path) -> Result<Recording, Box<dyn Error>> {
    Ok(read_cache(&read_text(path)?)?)
}

/// Reads a file that may be compressed: `.gz`.
///
/// # Errors
/// The file cannot be read, or is no text.
pub fn read_text(path: &Path) -> Result<String, Box<dyn Error>> {
    let bytes = fs::read(path)?;
    if path.extension().is_none_or(|it| it != "gz") {
        return Ok(String::from_utf8(bytes)?);
    }
    let mut text = String::new();
    GzDecoder::new(bytes.as_slice()).read_to_string(&mut text)?;
    Ok(text)
}
