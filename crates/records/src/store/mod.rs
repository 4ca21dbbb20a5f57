//! Reads and writes the files that stay on disk: records of runs, and the baselines that a team committed. It knows
//! formats and files, and not what they mean to a verdict.

mod baselines;
mod file;
pub mod nvbench;
mod once;
mod past;
mod record;

pub use baselines::{
    BASELINES, BaselineChange, BaselinePart, Update, WorseValues, baselines_of, load_baselines,
    rename_baselines, subject, update_baselines,
};
pub use file::NewFile;
pub use past::{Past, PastFile, PastState, PastVersion, past};
pub use record::{read, read_record, record_schema, seal, write_record};
