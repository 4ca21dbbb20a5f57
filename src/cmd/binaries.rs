//! `binaries:` of gates.yaml: judges compiled files for `binary` and `run`, and writes their baselines.

use super::judge::render;
use super::{command_line, counted, print, remark, say, terminal_options};
use crate::cli::{BinaryArgs, Format, RunArgs};
use ::binary::{LostArchitecture, Matching};
use artifact::{BaseBinaries, Circumstances, Library, Matched};
use config::{BinaryGates, Loaded, Selection};
use judge::Index;
use model::{Acceptance, Record};
use pipeline::BaseSide;
use records::store::NewFile;
use report::ReportInput;
use report::exit::Exit;
use report::matching::Worse;
use report::section::Section;
use report::terminal::Verbosity;
use std::io::Write;
use std::path::Path;
use system::error::{Error, Result};
use wording::words;

/// Judges every compiled file of gates.yaml, or writes its baseline.
pub fn run(args: &BinaryArgs) -> Result<Exit> {
    let loaded = config::load(&args.config.config, &Selection::default())?;
    if loaded.binaries.is_empty() {
        return Err(Error::usage("it has no `binaries`")
            .at(args.config.config.display())
            .help("name a compiled file: gatekeeper binary FILE")
            .help(
                "or hold one to limits: binaries: {NAME: {file: FILE.so, architectures: [sm_90]}}",
            ));
    }
    let libraries = open_all(&loaded)?;
    let mut record = empty(&args.config.config);
    if args.update {
        return update(&loaded.root, &libraries, &record, args.allow_worse);
    }
    record.policy.accepted = keep_files(config::load_acceptances(&loaded)?);
    artifact::add_libraries(&mut record, &libraries, None);
    // Acceptances of kernels that are built are used for compiled files, too.
    let accepted = &mut record.policy.accepted;
    accepted.retain(|accepted| !(accepted.left_out && accepted.subjects.is_empty()));
    let index = Index::new(&record);
    let judgement = index.judge();
    let input = ReportInput::new(&index, &record, &judgement);
    let report = render(args.format, args.output, &input)?;
    let kernels: Vec<Vec<Section>> = libraries.iter().filter_map(lay_out).collect();
    let verbosity = args.output.verbosity();
    print(&match args.format {
        Format::Terminal => {
            let options = terminal_options(verbosity);
            let text = report::terminal::render_with(&input, &kernels, "", options);
            fitting(text, verbosity)
        }
        Format::Markdown => add_kernels(report, &kernels),
        Format::Html | Format::Json | Format::Junit | Format::Github | Format::Sarif => report,
    })?;
    Ok(judgement.conclusion.into())
}

/// The most lines that a terminal shows about compiled files.
const MOST_LINES: usize = 40;

/// Shortens the text for a terminal, unless the user wants all of it.
pub fn fitting(text: String, verbosity: Verbosity) -> String {
    if verbosity == Verbosity::Verbose {
        text
    } else {
        report::terminal::fit(&text, MOST_LINES)
    }
}

/// Returns how the kernels of a file were matched with its baseline, and what got worse.
fn lay_out<'a>(library: &Library) -> Option<Vec<Section<'a>>> {
    let matching = library.matching()?;
    let pairs = library.rank(&matching);
    // Architectures that its libraries lost have verdicts of their own.
    Some(lay_out_pairs(&matching, &[], &pairs))
}

/// Lays out how kernels were matched, the costliest change first. `lost` holds the architectures that libraries of the
/// new file lack.
pub fn lay_out_pairs<'a>(
    matching: &Matching,
    lost: &[LostArchitecture],
    pairs: &[Matched],
) -> Vec<Section<'a>> {
    let worse: Vec<_> = pairs
        .iter()
        .filter_map(|pair| {
            Some(Worse {
                unit: &pair.unit,
                pair: pair.pair,
                worsening: pair.worsening?,
            })
        })
        .collect();
    report::matching::lay_out(matching, lost, &worse)
}

/// Adds to a report in Markdown how kernels were matched.
pub fn add_kernels(report: String, kernels: &[Vec<Section>]) -> String {
    match kernels {
        [] => report,
        _ => report + "\n" + &report::markdown::render_groups(report::matching::TITLE, kernels),
    }
}

/// Returns a record that is to hold only compiled files.
pub fn empty(config: &Path) -> Record {
    artifact::empty_record(&config.display().to_string(), &circumstances())
}

pub fn circumstances() -> Circumstances<'static> {
    Circumstances {
        gatekeeper: env!("CARGO_PKG_VERSION"),
        started: ::run::machine::now(),
        command: command_line(),
        host: ::run::machine::host(),
    }
}

pub fn open_all(loaded: &Loaded) -> Result<Vec<Library>> {
    loaded
        .binaries
        .iter()
        .map(|gates| artifact::open(&loaded.root, gates))
        .collect()
}

/// Leaves out the acceptances of kernels that are built, because another command judges those.
fn keep_files(mut accepted: Vec<Acceptance>) -> Vec<Acceptance> {
    for acceptance in &mut accepted {
        acceptance.left_out |= !acceptance.subjects.is_empty();
        acceptance.subjects.clear();
    }
    accepted
}

/// The compiled files that a run judges: all of them, or none if the user selected some kernels.
pub enum SelectedBinaries {
    All(Vec<Library>),
    /// The filters or options leave them out.
    LeftOut,
    /// gates.yaml has no compiled files, and the run ignores the base's.
    None,
}

impl SelectedBinaries {
    /// Reads the compiled files before anything is built, so that a missing file is not found after an hour of GPU
    /// time.
    ///
    /// # Errors
    /// Returns the errors of reading a file, and an error if only a part of the cases is run: each part would judge all
    /// files.
    pub fn new(args: &RunArgs, loaded: &Loaded) -> Result<Self> {
        if loaded.binaries.is_empty() && args.filters.is_empty() {
            // The base may still have compiled files.
            return Ok(Self::All(Vec::new()));
        }
        if !args.filters.is_empty() || args.changed.is_some() {
            if loaded.binaries.is_empty() {
                return Ok(Self::None);
            }
            remark(&format!(
                "{} not judged, as kernels are picked: {}; `gatekeeper binary` judges them",
                counted(loaded.binaries.len(), "compiled file"),
                names(&loaded.binaries)
            ));
            return Ok(Self::LeftOut);
        }
        if args.shard.is_some() {
            return Err(Error::usage(format!(
                "compiled files belong to no shard: {}",
                names(&loaded.binaries)
            ))
            .at(args.config.config.display())
            .help("put `binaries` into a file of its own, and judge it in a job of its own: gatekeeper binary --config FILE"));
        }
        open_all(loaded).map(Self::All)
    }

    /// Returns how the kernels of the files were matched with their baselines.
    pub fn lay_out<'a>(&self) -> Vec<Vec<Section<'a>>> {
        match self {
            Self::All(libraries) => libraries.iter().filter_map(lay_out).collect(),
            Self::LeftOut | Self::None => Vec::new(),
        }
    }

    /// Adds the compiled files to the record of what was run.
    pub fn add_to(&self, record: &mut Record, base: Option<&BaseBinaries>) {
        match self {
            Self::All(libraries) => artifact::add_libraries(record, libraries, base),
            Self::LeftOut => artifact::leave_out_files(&mut record.policy.accepted),
            Self::None => {}
        }
    }
}

fn names(binaries: &[BinaryGates]) -> String {
    let names: Vec<_> = binaries.iter().map(|binary| binary.name.as_str()).collect();
    names.join(", ")
}

/// Returns the base's compiled files, as long as they exist.
pub fn base_binaries(side: &BaseSide) -> BaseBinaries {
    let with_baseline = side.binaries.iter().map(|gates| {
        // A baseline that is damaged at the base is not the fault of this change.
        let baseline = artifact::read_baseline(&side.root, &gates.name);
        (gates.clone(), baseline.ok().flatten())
    });
    BaseBinaries(with_baseline.collect())
}

fn update(root: &Path, libraries: &[Library], record: &Record, consent: bool) -> Result<Exit> {
    let made: Vec<_> = libraries
        .iter()
        .map(|library| Ok((library, library.new_baseline(record, consent)?)))
        .collect::<Result<_>>()?;
    let mut refused = 0;
    let mut text = String::new();
    for (library, new) in made {
        let name = library.path.file_name().unwrap_or_default();
        let path = artifact::baseline_path(&library.gates.name);
        let written = artifact::write_baseline(&name.to_string_lossy(), &new.listing)?;
        let target = root.join(&path);
        let mut file = NewFile::create(&target)?;
        let result = file.write_all(written.as_bytes());
        result.map_err(|error| Error::unwritten(path.display(), error))?;
        file.keep()?;
        for worse in &new.worse {
            let value = |value| words::quantity(worse.metric, value);
            let (was, now) = (value(worse.was), value(worse.now));
            text += &format!(
                "worse: {} {}: {was} -> {now}\n",
                worse.subject, worse.metric
            );
        }
        let kernels = counted(new.listing.kernels.len(), "kernel");
        text += &format!("{}: {kernels}\n", path.display());
        refused += if consent { 0 } else { new.worse.len() };
    }
    if refused > 0 {
        text += &format!(
            "{} refused, and the baseline of these kernels kept; `--allow-worse` accepts them\n",
            counted(refused, "value")
        );
    }
    say(&text)?;
    Ok(match refused {
        0 => Exit::Held,
        _ => Exit::Failed,
    })
}
