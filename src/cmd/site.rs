//! `site`: how the committed baselines moved, as pages for a browser.

use super::{counted, history, make_empty, say, write_file};
use crate::cli::SiteArgs;
use report::exit::Exit;
use report::html::site;
use system::error::{Error, Result};

pub fn run(args: &SiteArgs) -> Result<Exit> {
    let history = history::load(&args.config.config, &args.filters)?;
    let pages = site::pages(&history);
    make_empty(
        &args.dir,
        "the directory is not empty; pages of cases that are gone would stay in it",
    )?;
    for page in &pages {
        let path = args.dir.join(&page.path);
        let parent = path.parent().unwrap_or(&args.dir);
        std::fs::create_dir_all(parent).map_err(|error| {
            Error::environment(format!("{} cannot be written: {error}", parent.display()))
        })?;
        write_file(&path, &page.text)?;
    }
    say(&format!(
        "{}: {}",
        args.dir.join("index.html").display(),
        counted(pages.len(), "page")
    ))?;
    Ok(Exit::Held)
}
