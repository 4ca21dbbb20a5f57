//! `history`: how the committed baselines moved, from git's log.

use super::{print, terminal_options};
use crate::cli::{HistoryArgs, HistoryFormat};
use crate::config;
use crate::error::{Diagnostic, Error, Result};
use crate::exit::Exit;
use crate::history::{self as history_model, History};
use crate::report::{history, markdown, terminal};
use crate::store;
use std::path::Path;

pub fn run(args: &HistoryArgs) -> Result<Exit> {
    let root = args.config.config.parent().unwrap_or(Path::new(""));
    let root = if root.as_os_str().is_empty() {
        Path::new(".")
    } else {
        root
    };
    let past = store::past(root, &history_model::is_told, usize::MAX)?;
    let Some(past) = past else {
        return Err(Error::Usage(
            Diagnostic::new("there is no git history here: no repository, or no commit yet")
                .help("`gatekeeper baseline show` lists the baselines that are there"),
        ));
    };
    let mut all = History::of(&past);
    if all.series.is_empty() && all.unreadable.is_empty() {
        return Err(Error::Usage(
            Diagnostic::new("no commit has baselines of these gates").help(
                "`gatekeeper run`, then `gatekeeper baseline update`, then commit baselines/",
            ),
        ));
    }
    let filters = config::parse_filters(&all.cases(), &args.filters).map_err(Error::Usage)?;
    all.keep(&filters);
    print(&match args.format {
        HistoryFormat::Json => history::json(&all)?,
        HistoryFormat::Markdown => markdown::render_groups(history::TITLE, &history::lay_out(&all)),
        HistoryFormat::Terminal => {
            terminal::render_groups(&history::lay_out(&all), terminal_options())
        }
    })?;
    Ok(Exit::Held)
}
