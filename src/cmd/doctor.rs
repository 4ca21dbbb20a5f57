//! `doctor`: checks what a run needs of this machine, and says what to do about what is missing.

use super::{print, say};
use crate::cli::{DoctorArgs, Format};
use crate::doctor::layout::{json, text};
use crate::doctor::{self, DoctorOptions};
use report::exit::Exit;
use system::error::Result;

pub fn run(args: &DoctorArgs) -> Result<Exit> {
    let machine = doctor::look(&DoctorOptions {
        config: &args.config.config,
        output: &args.out,
        peaks: args.peaks,
    })?;
    let items = machine.examine(args.require_gpu);
    match args.format {
        Format::Json => print(&json(&items)?)?,
        _ => say(&text(&items))?,
    }
    Ok(doctor::exit(&items))
}
