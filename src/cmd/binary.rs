//! `binary`: which GPU kernels a compiled file has, or a wheel or directory of such files.

use super::{print, width};
use crate::cli::{BinaryArgs, ProfileFormat};
use report::binary as layout;
use report::exit::Exit;
use system::error::Result;

pub fn run(args: &BinaryArgs) -> Result<Exit> {
    let listing = artifact::read(&args.file)?;
    let name = args.file.display().to_string();
    print(&match args.format {
        ProfileFormat::Terminal => layout::terminal(&name, &listing, width()) + "\n",
        ProfileFormat::Json => layout::json(&name, &listing)?,
    })?;
    Ok(Exit::Held)
}
