//! `binary`: lists the GPU kernels of a compiled file, of a wheel or of a directory with such files, and compares them
//! with an older one.

mod why;

use super::judge::render;
use super::run::{MARKDOWN, empty_out, write_out};
use super::{binaries, print, remark, terminal_options, width, write_file};
use crate::cli::{BinaryArgs, Format};
use artifact::{AllowedChange, Assembly, DEFAULT_LIMITS, Refused, make_records};
use binary::{Listing, libraries, lost_architectures, match_kernels};
use build::assemble::Assembler;
use build::toolchain::{self, Choice, Toolchain};
use judge::Index;
use model::Loosening;
use report::ReportInput;
use report::binary as layout;
use report::exit::Exit;
use report::explain as words;
use report::section::{Section, SectionPart};
use std::path::Path;
use system::cache::Cache;
use system::error::{Error, Result};
use wording::words::plural;

/// The formats that `--explain` can add to.
const HAVE_EXPLANATIONS: [Format; 3] = [Format::Terminal, Format::Markdown, Format::Json];

pub fn run(args: &BinaryArgs) -> Result<Exit> {
    let Some(file) = &args.file else {
        return binaries::run(args);
    };
    if args.explain && args.base.is_none() {
        return Err(Error::usage(
            "--explain says why kernels changed, and one file alone has no change",
        )
        .help("name the older file with --base: gatekeeper binary NEW --base OLD --explain"));
    }
    if args.explain && !HAVE_EXPLANATIONS.contains(&args.format) {
        return Err(Error::usage(
            "--explain writes to --format terminal, markdown or json; the other formats have no place for it",
        ));
    }
    let compilers = Compilers::find(args)?;
    let read = |path: &Path, compiler: Option<&Toolchain>| match compiler {
        None => artifact::read(path),
        Some(toolchain) => {
            let assembler = Assembler::new(toolchain, &Cache::open()?)?;
            let is_compared = args.base.is_some() || args.base_toolchain.is_some();
            let assembly = Assembly {
                assembler,
                arch: args.arch,
                refused: if is_compared {
                    Refused::Listed
                } else {
                    Refused::Error
                },
            };
            artifact::read_assembled(path, &assembly)
        }
    };
    let [ours, theirs] = [&compilers.head, &compilers.base].map(Option::as_ref);
    // A mistake in the arguments leaves the results of an earlier comparison as they are. If PTX has to be assembled,
    // which takes a while, these results are removed before that.
    let make_ready = || args.out.as_deref().map_or(Ok(()), empty_out);
    let are_there = args.base.iter().chain([file]).all(|path| path.exists());
    if ours.is_some() && are_there {
        make_ready()?;
    }
    let base = match (&args.base, theirs) {
        (Some(old), _) => Some(read(old, ours)?),
        (None, Some(_)) => Some(read(file, theirs)?),
        (None, None) => None,
    };
    let listing = read(file, ours)?;
    if ours.is_none() {
        make_ready()?;
    }
    if let Some(base) = &base {
        return compare(args, file, base, &listing, &compilers);
    }
    let name = file.display().to_string();
    print(&match args.format {
        Format::Terminal => {
            let needs = compilers.say_what_ptx_needs(&listing);
            let needs = needs.map_or_else(String::new, |needs| needs + "\n");
            let text = layout::terminal(&name, &listing, width()) + "\n" + &needs;
            binaries::fitting(text, args.output.verbosity())
        }
        Format::Json => layout::json(&name, &listing)?,
        Format::Markdown | Format::Html | Format::Junit | Format::Github | Format::Sarif => {
            return Err(Error::usage("a file alone is listed as terminal or json")
                .help("name an older file with --base, or an older compiler with --base-toolchain: a comparison has every format"));
        }
    })?;
    Ok(Exit::Held)
}

/// The compilers whose ptxas assembles each side.
struct Compilers {
    /// The compiler of head, or `None` if files are read as they are.
    head: Option<Toolchain>,
    /// The compiler that assembles the same PTX as the base.
    base: Option<Toolchain>,
}

impl Compilers {
    fn find(args: &BinaryArgs) -> Result<Self> {
        let is_assembled = args.toolchain.is_some() || args.base_toolchain.is_some();
        if !is_assembled {
            return if args.arch.is_some() || args.provision {
                Err(
                    Error::usage("--arch and --provision are for PTX that is assembled")
                        .help("name the compiler with --toolchain, for example --toolchain 13.0"),
                )
            } else {
                Ok(Self {
                    head: None,
                    base: None,
                })
            };
        }
        let cache = Cache::open()?;
        let find = |choice: &Choice| {
            if args.provision {
                toolchain::provide(choice, &cache, &remark)
            } else {
                toolchain::find_choice(choice, &cache)
            }
        };
        let head = find(args.toolchain.as_ref().unwrap_or(&Choice::default()))?;
        let base = args.base_toolchain.as_ref().map(find).transpose()?;
        if base.as_ref().is_some_and(|base| base.facts == head.facts) {
            return Err(Error::usage(format!(
                "nothing to compare: both sides are the same PTX, and both compilers are nvcc {}",
                head.facts.version
            ))
            .help("name another compiler with --toolchain or --base-toolchain"));
        }
        let head = Some(head);
        Ok(Self { head, base })
    }

    /// Says which option is missing if kernels exist as PTX alone. Nothing is known of them until they are assembled.
    fn say_what_ptx_needs(&self, listing: &Listing) -> Option<String> {
        let kernels = listing.only_ptx().len();
        let is_needed = kernels > 0 && self.head.is_none();
        is_needed.then(|| {
            let kernels = plural(kernels, "kernel");
            format!(
                "{kernels} without machine code: add `--toolchain 13.0` to assemble the PTX. If no such compiler is found, add \
                 `--provision`, too, or install CUDA 11.8 to 13.x, put nvcc on PATH and name its version"
            )
        })
    }
}

fn compare(
    args: &BinaryArgs,
    file: &Path,
    base: &Listing,
    listing: &Listing,
    compilers: &Compilers,
) -> Result<Exit> {
    let name = file.display().to_string();
    let matching = match_kernels(base, listing);
    let limits: &[AllowedChange] = match args.limit.as_slice() {
        [] => &DEFAULT_LIMITS,
        named => named,
    };
    let circumstances = binaries::circumstances();
    let lost = lost_architectures(base, &libraries(listing));
    let failing = if args.allow_loosened {
        &[]
    } else {
        lost.as_slice()
    };
    let mut records = make_records(
        &name,
        [base, listing],
        &matching,
        failing,
        limits,
        &circumstances,
    );
    let environment = &mut records.head.environment;
    let version = |toolchain: &Toolchain| toolchain.facts.version.clone();
    environment.toolchain = compilers.head.as_ref().map(version);
    environment.base_compiler = compilers.base.as_ref().map(|listing| listing.facts.clone());
    // Both files are compared under the limits of this command line.
    let judgement = judge::compare(&records.base, &records.head, Loosening::Fails);
    let explained = match &args.base {
        Some(old) if args.explain => Some(why::explain_kernels(old, file, &records, &judgement)?),
        _ => None,
    };
    let index = Index::against(Some(&records.base), &records.head);
    let input = ReportInput {
        base: Some(&records.base),
        kernels: explained.as_ref(),
        ..ReportInput::new(&index, &records.head, &judgement)
    };
    let report = render(args.format, args.output, &input)?;
    let mut kernels = [binaries::lay_out_pairs(&matching, &lost, &records.pairs)];
    if let ([sections], Some(text)) = (&mut kernels, compilers.say_what_ptx_needs(listing)) {
        let text = vec![SectionPart::Lines(vec![text])];
        sections.push(Section::new("PTX", "PTX that is not judged", text));
    }
    if let Some(out) = &args.out {
        // The record must be complete by itself, because a later reader does not have the other one.
        let record = judge::with_baselines_of(&records.base, &records.head);
        let index = Index::new(&record);
        let judgement = index.judge();
        let input = ReportInput::new(&index, &record, &judgement);
        write_out(out, &input)?;
        let markdown = binaries::add_kernels(report::markdown::render(&input), &kernels);
        write_file(&out.join(MARKDOWN), &markdown)?;
    }
    let verbosity = args.output.verbosity();
    let explained = explained.as_ref();
    print(&match args.format {
        Format::Terminal => {
            let why = explained.map_or(String::new(), words::terminal_of_kernels);
            let options = terminal_options(verbosity);
            let text = report::terminal::render_with(&input, &kernels, &why, options);
            if args.explain {
                // The user wants the causes.
                text
            } else {
                binaries::fitting(text, verbosity)
            }
        }
        Format::Markdown => {
            let why = explained.map_or(String::new(), words::markdown_of_kernels);
            binaries::add_kernels(report, &kernels) + &why
        }
        Format::Html | Format::Json | Format::Junit | Format::Github | Format::Sarif => report,
    })?;
    Ok(judgement.conclusion.into())
}
