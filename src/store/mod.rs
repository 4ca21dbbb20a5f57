//! What stays on disk: records of runs, and the baselines that a team agreed on. Knows formats and
//! files, and nothing of what either means to a verdict.

mod baselines;
mod file;
pub mod nvbench;
mod once;
mod record;

pub use baselines::{
    BASELINES, Calibrated, Change, Noise, Update, baselines_of, expect_times, load_baselines,
    update_baselines, write_noise,
};
pub use file::NewFile;
pub use record::{read, read_record, seal, write_record};
