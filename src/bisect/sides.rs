//! Generates the sides of a bisection: commits on one line, or versions of the compiler.

use super::{CandidateSide, SideSource};
use crate::compilers::CompilerRequest;
use crate::revisions::{self, Overlaid, Overlay};
use build::toolchain::{self, Choice, CompilerOrigin};
use config::{Loaded, Selection};
use model::Loosening;
use pipeline::{Change, Request};
use records::repo::{self, LineCommit};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Error, Result};

/// Commits with the gates of one revision.
pub struct Commits<'a> {
    /// The directory of gates.yaml in the working tree.
    root: PathBuf,
    pub good: String,
    pub gates: String,
    /// The commits after the good one.
    pub line: Vec<LineCommit>,
    selection: &'a Selection,
    pub overlay: Overlay,
    good_files: Overlaid,
    cache: &'a Cache,
}

impl<'a> Commits<'a> {
    /// Finds the commits, and the files that lie over their sources.
    ///
    /// # Errors
    /// Usage, if a revision is unknown, if there is no line between them, or if gates.yaml cannot be loaded.
    pub fn find(
        [good, bad]: [&str; 2],
        gates: Option<&str>,
        request: &Request,
        selection: &'a Selection,
        cache: &'a Cache,
    ) -> Result<Self> {
        let config = &request.config;
        let root = match config.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if repo::head(&root).is_none() {
            return Err(Error::usage(format!(
                "{} has no commits to look at: it is not in a git repository",
                root.display()
            ))
            .help("`gatekeeper bisect --toolchains` looks at versions of the compiler"));
        }
        let find =
            |name: &str, asked: &str| repo::commit_of(&root, name, &format!("{asked} {name}"));
        let (good, bad) = (find(good, "GOOD")?, find(bad, "BAD")?);
        let gates = gates.map_or_else(|| Ok(bad.clone()), |gates| find(gates, "--gates"))?;
        if good == bad {
            let same = repo::short(&good);
            return Err(Error::usage(format!("GOOD and BAD are one commit, {same}")));
        }
        let line = repo::first_parents(&root, &good, &bad)?;
        let file = config.file_name().map(PathBuf::from).unwrap_or_default();
        let mut overlay = Overlay::new(repo::Export::new(&root, &gates, cache)?, file)?;
        let loaded = overlay.load(selection)?;
        let compiler = Choice::pin(loaded.toolchain.cuda.as_deref());
        let files = (&loaded, overlay.top());
        let survey = pipeline::survey(request, files, &compiler, cache, &|_| {})?;
        overlay.add(survey.references, &loaded);
        // A file that cannot be read is reported before the first commit is written.
        overlay.digest()?;
        Ok(Self {
            good_files: overlay.over(&root, &good, cache)?,
            root,
            good,
            gates,
            line,
            selection,
            overlay,
            cache,
        })
    }

    /// Returns what a commit changes in the files that its kernels, or those of its parent, are built from.
    ///
    /// # Errors
    /// Environment, if the machine fails.
    pub fn diff(&self, request: &Request, commit: &LineCommit) -> Result<String> {
        let parent = commit.parents.first().cloned().unwrap_or_default();
        let mut files = Vec::new();
        for hash in [&parent, &commit.hash] {
            if let Ok(side) = self.side(hash)? {
                let made_of = (&side.head, side.top.as_path());
                let survey =
                    pipeline::survey(request, made_of, &side.compiler, self.cache, &|_| {})?;
                files.extend(survey.kernels);
            }
        }
        repo::diff(&self.root, &parent, &commit.hash, &files)
    }
}

impl SideSource for Commits<'_> {
    fn side(&self, candidate: &str) -> Result<std::result::Result<CandidateSide, Error>> {
        let files = self.overlay.over(&self.root, candidate, self.cache)?;
        let head = match files.load(self.selection) {
            Ok(head) => head,
            Err(error) => return Ok(Err(error)),
        };
        Ok(Ok(CandidateSide {
            compiler: Choice::pin(head.toolchain.cuda.as_deref()),
            head,
            top: files.top().to_owned(),
            files: Box::new(files),
        }))
    }

    fn change(&self, side: &CandidateSide) -> Result<Change> {
        let Some(files) = side.files.downcast_ref::<Overlaid>() else {
            return Err(Error::environment("the files of a side are gone"));
        };
        let good = self.good_files.load(self.selection)?;
        files.change(side.head.clone(), (&self.good_files, good), &self.root)
    }

    fn title(&self, candidate: &str) -> String {
        let commit = self.line.iter().find(|commit| commit.hash == candidate);
        let subject = commit.map(|commit| format!(" {}", commit.subject));
        format!("{}{}", repo::short(candidate), subject.unwrap_or_default())
    }
}

/// Versions of the compiler, with the files of the working tree.
pub struct Compilers<'a> {
    pub good: Choice,
    /// The compilers after the good one, in order.
    pub line: Vec<Choice>,
    head: Loaded,
    request: &'a Request,
    cache: &'a Cache,
}

impl<'a> Compilers<'a> {
    /// Finds the compilers from `good` to `bad`: the releases that are known or installed, and those in `between`.
    ///
    /// # Errors
    /// Usage, if the two have one version. Environment, if one that is named is not there.
    pub fn find(
        [good, bad]: [Choice; 2],
        between: &[Choice],
        head: Loaded,
        request: &'a Request,
        cache: &'a Cache,
    ) -> Result<Self> {
        let version =
            |choice: &Choice| find(choice, request, cache).map(|found| found.facts.version);
        let (first, last) = (version(&good)?, version(&bad)?);
        let order = toolchain::compare_versions(&first, &last);
        if order == Ordering::Equal {
            return Err(Error::usage(format!(
                "GOOD and BAD are both nvcc {first}: there are no versions between them"
            ))
            .help("`gatekeeper run --base-toolchain GOOD --toolchain BAD --blame` finds the part of a compiler"));
        }
        let mut all: Vec<(String, Choice)> = Vec::new();
        for choice in between {
            all.push((version(choice)?, choice.clone()));
        }
        let installed = toolchain::list_installed(cache, &|_| true)?;
        let known = toolchain::known_releases();
        let releases = installed
            .into_iter()
            .map(|installed| installed.version)
            .chain(known.into_iter().map(|release| release.version.to_owned()));
        all.extend(releases.map(|version| {
            let choice = Choice {
                whole: Some(CompilerOrigin::Release(version.clone())),
                ..Choice::default()
            };
            (version, choice)
        }));
        all.retain(|(version, _)| {
            toolchain::compare_versions(&first, version) == order
                && toolchain::compare_versions(version, &last) == order
        });
        all.sort_by(|(one, _), (other, _)| {
            let ascending = toolchain::compare_versions(one, other);
            if order == Ordering::Less {
                ascending
            } else {
                ascending.reverse()
            }
        });
        // The sort keeps compilers of one version in order: those that the command line names come first.
        all.dedup_by(|(one, _), (other, _)| one == other);
        Ok(Self {
            line: all
                .into_iter()
                .map(|(_, choice)| choice)
                .chain([bad])
                .collect(),
            good,
            head,
            request,
            cache,
        })
    }
}

fn find(choice: &Choice, request: &Request, cache: &Cache) -> Result<toolchain::Toolchain> {
    if request.provision {
        toolchain::provide(choice, cache, &|_| {})
    } else {
        toolchain::find_choice(choice, cache)
    }
}

impl SideSource for Compilers<'_> {
    fn side(&self, candidate: &str) -> Result<std::result::Result<CandidateSide, Error>> {
        let mut all = self.line.iter().chain([&self.good]);
        let Some(compiler) = all.find(|choice| choice.to_string() == candidate) else {
            return Ok(Err(Error::usage("it is no compiler of this bisection")));
        };
        if let Err(error) = find(compiler, self.request, self.cache) {
            return Ok(Err(error));
        }
        Ok(Ok(CandidateSide {
            head: self.head.clone(),
            compiler: compiler.clone(),
            top: self.head.root.clone(),
            files: Box::new(()),
        }))
    }

    fn change(&self, side: &CandidateSide) -> Result<Change> {
        let mut change = revisions::find_change(None, side.head.clone(), self.cache, &|_| {})?;
        let compilers = CompilerRequest {
            toolchain: Some(side.compiler.clone()),
            // The good compiler is its own base.
            base: (side.compiler != self.good).then(|| self.good.clone()),
            loosening: Loosening::Fails,
        };
        compilers.apply(&mut change)?;
        Ok(change)
    }

    fn title(&self, candidate: &str) -> String {
        format!("nvcc {candidate}")
    }
}
