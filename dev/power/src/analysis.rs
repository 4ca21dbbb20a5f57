//! Counts the verdicts that the rule gives on a recording.

use crate::draw::{self, Cell, Counted};
use crate::prepared::{Spread, Unusable, prepare};
use crate::recording::Recording;
use crate::settings::Settings;

/// The figures of a recording, ready to print: [`Analysis::markdown`].
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    pub device: String,
    pub driver: String,
    pub date: String,
    pub settings: Settings,
    pub contests: Vec<Spread>,
    /// Verdicts of the rule on processes drawn at random.
    pub rule: Counted,
    /// Verdicts of the rule on the processes of each contest in the order of measurement, each used once.
    pub replayed: Vec<Cell>,
}

/// Draws runs from `recording` and counts the verdicts of the rule.
///
/// # Errors
/// If the recording is too small or broken, or the settings make no rule.
pub fn analyse(recording: &Recording, settings: &Settings) -> Result<Analysis, Unusable> {
    let prepared = prepare(recording, settings)?;
    let own = draw::Own::of(&prepared, settings)?;
    Ok(Analysis {
        device: recording.device.clone(),
        driver: recording.driver.clone(),
        date: recording.date.clone(),
        settings: settings.clone(),
        contests: prepared.iter().map(|contest| contest.spread()).collect(),
        rule: draw::own(&prepared, settings, &own, 0),
        replayed: draw::replay(&prepared, &own),
    })
}
