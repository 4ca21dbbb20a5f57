//! Writes documents that other programs read.

use serde::Serialize;
use system::error::{Error, Result};
use wording::escape;

/// Returns a value as a document of JSON, in which invisible characters are escaped.
///
/// # Errors
/// Fails for a value that JSON cannot express. `what` names the document in the message.
pub fn json(what: &str, value: &impl Serialize) -> Result<String> {
    serde_json::to_string_pretty(value)
        .map(|text| escape::json(&text) + "\n")
        .map_err(|error| Error::unwritten(what, error))
}
