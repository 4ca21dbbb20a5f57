//! `history`: shows how the committed baselines changed, from git's log. Pages of records show it, too.

use super::{print, remark, terminal_options};
use crate::cli::{Format, HistoryArgs};
use records::history::History;
use records::store;
use report::exit::Exit;
use report::history;
use report::html;
use report::markdown;
use report::terminal::{self, Verbosity};
use std::path::Path;
use system::error::{Error, Result};

pub fn run(args: &HistoryArgs) -> Result<Exit> {
    let all = load(&args.config.config, &args.filters)?;
    print(&match args.format {
        Format::Html => html::history::render(&all),
        Format::Json => history::json(&all)?,
        Format::Markdown => markdown::render_groups(history::TITLE, &history::lay_out(&all)),
        _ => terminal::render_groups(&history::lay_out(&all), terminal_options(Verbosity::Normal)),
    })?;
    Ok(Exit::Held)
}

/// Loads the part of the history that filters select.
///
/// # Errors
/// Usage, if git has none or a filter picks nothing.
pub fn load(config: &Path, filters: &[String]) -> Result<History> {
    let Some(past) = past(config)? else {
        return Err(
            Error::usage("there is no git history here: no repository, or no commit yet")
                .help("`gatekeeper baseline show` lists the baselines that are there"),
        );
    };
    let mut all = History::from_past(&past);
    if all.series.is_empty() && all.unreadable.is_empty() {
        return Err(Error::usage("no commit has baselines of these gates")
            .help("`gatekeeper run`, then `gatekeeper baseline update`, then commit baselines/"));
    }
    let filters = config::parse_filters(&all.cases(), filters).map_err(Error::Usage)?;
    all.keep(&filters);
    Ok(all)
}

/// Loads the history that a page shows in addition. If the history cannot be read, the page has none.
pub fn load_next_to(config: &Path) -> Option<History> {
    match past(config) {
        Ok(past) => past.map(|past| History::from_past(&past)),
        Err(error) => {
            remark(&format!("the page has no history of baselines: {error}"));
            None
        }
    }
}

/// Loads all versions of the baselines next to a gates file.
fn past(config: &Path) -> Result<Option<store::Past>> {
    let root = config.parent().unwrap_or(Path::new(""));
    let root = if root.as_os_str().is_empty() {
        Path::new(".")
    } else {
        root
    };
    store::past(root, &|_| true, usize::MAX)
}
