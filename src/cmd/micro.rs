//! `tune --rank`: which tiles of attention are right, and how many cycles each takes.

use super::progress::Progress;
use super::{command_line, print, remark, say, terminal_options, write_file};
use crate::cli::{TuneArgs, TuneFormat};
use crate::micro::layout::{self, Ending};
use crate::micro::validity::{self, Agreement, Renames};
use crate::micro::{self, MACROS, Request, Sweep};
use crate::tune::log;
use report::exit::Exit;
use report::markdown;
use report::terminal::{self, Verbosity};
use search::Seed;
use std::path::Path;
use system::cache::Cache;
use system::error::{Error, Result};
use system::files;

const CSV: &str = "micro.csv";
const JSON: &str = "micro.json";

pub fn rank(all: &TuneArgs) -> Result<Exit> {
    let args = &all.ranking;
    let renames = read_renames(&args.renames)?;
    // Before a minute of GPU time, not after it.
    let timed = args.against.as_deref().map(read_times).transpose()?;
    if let (Some(from), Some(timed)) = (&args.from, &timed) {
        let ranked = layout::read(&read_text(from)?)
            .map_err(|error| Error::Usage(error.diagnostic().clone().at(from.display())))?;
        let agreement = validity::agree(&ranked, &renames, timed);
        say(&layout::agreement(&agreement))?;
        return Ok(exit(&agreement));
    }
    super::make_dir("--out", &args.out)?;
    let progress = Progress::default();
    let request = Request {
        device: all.device,
        provision: all.provision,
        sweep: Sweep([
            args.block_m.clone(),
            args.block_k.clone(),
            args.stages.clone(),
            args.vec_width.clone(),
        ]),
        command: command_line(),
    };
    let ranking = micro::measure(&request, &Cache::open()?, &|event| progress.on(event));
    progress.clear();
    let ranking = ranking?;
    let csv = layout::csv(&ranking, &renames)?;
    let json = layout::json(&ranking, args.top, &renames)?;
    write_file(&args.out.join(CSV), &csv)?;
    write_file(&args.out.join(JSON), &json)?;
    match all.format {
        TuneFormat::Terminal => {
            let sections = layout::lay_out(&ranking, args.top);
            print(&terminal::render_groups(
                &[sections],
                terminal_options(Verbosity::Normal),
            ))?;
        }
        TuneFormat::Markdown => {
            let sections = layout::lay_out(&ranking, args.top);
            print(&markdown::render_groups(layout::TITLE, &[sections]))?;
        }
        TuneFormat::Csv => print(&csv)?,
        TuneFormat::Json => print(&json)?,
    }
    let ending = layout::ending(&ranking);
    if let Some(timed) = &timed
        && ending == Ending::Ranked
    {
        let clocked = ranking.clocked.iter();
        let ranked: Vec<(Seed, f64)> = clocked
            .map(|it| (it.kept.values.clone(), it.cycles))
            .collect();
        remark(&layout::agreement(&validity::agree(
            &ranked, &renames, timed,
        )));
    }
    remark(&format!("ranking: {}/{{{CSV},{JSON}}}", args.out.display()));
    Ok(match ending {
        Ending::Ranked => Exit::Held,
        Ending::NoneRight => Exit::Failed,
        Ending::NoClock => Exit::Undecided,
    })
}

fn exit(agreement: &Agreement) -> Exit {
    match agreement.correlation {
        Some(_) => Exit::Held,
        None => Exit::Undecided,
    }
}

/// `STAGES=SMEM_STAGE`
fn read_renames(written: &[String]) -> Result<Renames> {
    let refuse = |text: &str, why: &str| {
        Error::usage(format!("--as {text}: {why}"))
            .help("a macro of the tile and its name in another kernel: --as STAGES=SMEM_STAGE")
    };
    let mut renames = Renames::new();
    for text in written {
        let Some((old, new)) = text.split_once('=') else {
            return Err(refuse(text, "there is no `=`"));
        };
        if !MACROS.contains(&old) {
            let known = MACROS.join(", ");
            return Err(refuse(text, &format!("the macros are {known}")));
        }
        if !model::expr::is_identifier(new) {
            return Err(refuse(text, &format!("`{new}` is not the name of a macro")));
        }
        if renames.insert(old.to_owned(), new.to_owned()).is_some() {
            return Err(refuse(text, &format!("{old} is named twice")));
        }
    }
    for (old, new) in &renames {
        let is_called_so = |other: &&str| renames.get(*other).map_or(*other, String::as_str) == new;
        if MACROS
            .iter()
            .any(|other| other != old && is_called_so(other))
        {
            let message = format!("--as {old}={new}: another macro is called {new}");
            return Err(Error::usage(message));
        }
    }
    Ok(renames)
}

fn read_text(path: &Path) -> Result<String> {
    files::read_text(path, files::SOURCE).map_err(|error| {
        let message = format!("cannot be read: {error}");
        Error::usage(message).at(path.display())
    })
}

fn read_times(path: &Path) -> Result<Vec<validity::Timed>> {
    let events = log::read(path)?.events.into_iter();
    Ok(validity::timed(events.map(|(_, event)| event)))
}
