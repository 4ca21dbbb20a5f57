//! `history --html`: how the committed baselines moved, as pages for a browser.

use super::{counted, make_empty, say, write_file};
use records::history::History;
use report::html::site;
use std::path::Path;
use system::error::{Error, Result};

pub fn write(dir: &Path, history: &History) -> Result<()> {
    let pages = site::pages(history);
    make_empty(
        dir,
        "the directory is not empty; pages of cases that are gone would stay in it",
    )?;
    for page in &pages {
        let path = dir.join(&page.path);
        let parent = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent).map_err(|error| {
            Error::environment(format!("{} cannot be written: {error}", parent.display()))
        })?;
        write_file(&path, &page.text)?;
    }
    say(&format!(
        "{}: {}",
        dir.join("index.html").display(),
        counted(pages.len(), "page")
    ))
}
