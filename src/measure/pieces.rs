//! Finds the pieces of a change of one case, and makes the case with some of them: the files, the unit and the call.

use super::apart::PieceSet;
use super::hunks::FileDiff;
use build::Built;
use build::toolchain::Toolchain;
use explain::ChangePiece;
use model::{Case, Unit};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use system::error::{Error, Result};
use system::files;
use system::sources;

/// One side of a case, as it is built and called.
pub struct CaseOfSide<'a> {
    /// The top of the side's tree, without links.
    pub top: PathBuf,
    /// The directory that the unit's paths start from.
    pub root: PathBuf,
    pub unit: Unit,
    pub case: Case,
    pub toolchain: &'a Toolchain,
}

/// Everything that differs between two sides of a case.
pub struct CasePieces<'a> {
    base: &'a CaseOfSide<'a>,
    head: &'a CaseOfSide<'a>,
    /// The directory of the unit's paths, from the top of a tree.
    below_top: PathBuf,
    files: Vec<FileDiff>,
    pieces: Vec<NumberedPiece>,
}

struct NumberedPiece {
    described: ChangePiece,
    /// The file and the hunk in it, by their indices. `None` for what is not in a file.
    hunk: Option<[usize; 2]>,
}

impl<'a> CasePieces<'a> {
    /// Compares two sides. Their builds name the files that they were made of.
    ///
    /// # Errors
    /// Environment, if a file cannot be read.
    pub fn find(
        base: &'a CaseOfSide<'a>,
        head: &'a CaseOfSide<'a>,
        built: [&Built; 2],
    ) -> Result<Self> {
        let [of_base, of_head] = built;
        let names: BTreeSet<PathBuf> = files_below(&base.top, of_base)
            .chain(files_below(&head.top, of_head))
            .collect();
        let files = names
            .iter()
            .map(|name| {
                let text = |top: &Path| read_or_nothing(&top.join(name));
                let name = name.display().to_string();
                Ok(FileDiff::new(&name, &text(&base.top)?, &text(&head.top)?))
            })
            .collect::<Result<Vec<FileDiff>>>()?;
        let hunks = files.iter().enumerate().flat_map(|(file, diff)| {
            diff.describe()
                .enumerate()
                .map(move |(hunk, lines)| NumberedPiece {
                    described: ChangePiece::Lines(lines),
                    hunk: Some([file, hunk]),
                })
        });
        let others = find_others(base, head).map(|described| NumberedPiece {
            described,
            hunk: None,
        });
        let root = head
            .root
            .canonicalize()
            .unwrap_or_else(|_| head.root.clone());
        Ok(Self {
            pieces: hunks.chain(others).collect(),
            below_top: root
                .strip_prefix(&head.top)
                .unwrap_or(Path::new(""))
                .to_owned(),
            base,
            head,
            files,
        })
    }

    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    pub fn describe(&self, piece: usize) -> Option<&ChangePiece> {
        self.pieces.get(piece).map(|piece| &piece.described)
    }

    /// Writes the files of the base with a set of pieces made, below `root`/`name`. Returns the unit, whose paths start at
    /// `root`, and the case. Both have `name` as their variant.
    ///
    /// # Errors
    /// Environment, if a file cannot be written.
    pub fn make(&self, root: &Path, name: &str, set: &PieceSet) -> Result<(Unit, Case)> {
        for (at, diff) in self.files.iter().enumerate() {
            let is_made = |hunk: usize| self.has(set, |piece| piece.hunk == Some([at, hunk]));
            let text = diff.with(is_made);
            // A file of one side alone is there only if its lines are.
            if !text.is_empty() {
                let path = root.join(name).join(&diff.file);
                write(&path, &text)?;
            }
        }
        let from = |piece: ChangePiece| {
            if self.has(set, |own| own.described == piece) {
                self.head
            } else {
                self.base
            }
        };
        let below = Path::new(name).join(&self.below_top);
        let mut unit = Unit {
            id: self.head.unit.id.clone(),
            source: below
                .join(&from(ChangePiece::Entries).unit.source)
                .display()
                .to_string(),
            include_dirs: from(ChangePiece::IncludeDirs).unit.include_dirs.clone(),
            defines: from(ChangePiece::Definitions).unit.defines.clone(),
            flags: from(ChangePiece::Flags).unit.flags.clone(),
            call: from(ChangePiece::Entries).unit.call.clone(),
        };
        name.clone_into(&mut unit.id.variant);
        for dir in &mut unit.include_dirs {
            if !sources::is_outside(dir) {
                let here = below.join(&*dir);
                make_dir(&root.join(&here))?;
                *dir = here.display().to_string();
            }
        }
        let (launch, data) = (from(ChangePiece::Launch), from(ChangePiece::Data));
        let mut case = Case {
            steps: launch.case.steps.clone(),
            tensors: data.case.tensors.clone(),
            dims: data.case.dims.clone(),
            reference: data.case.reference.clone(),
            ..self.head.case.clone()
        };
        name.clone_into(&mut case.id.variant);
        Ok((unit, case))
    }

    /// Returns the compilers of base and head.
    pub fn compilers(&self) -> [&'a Toolchain; 2] {
        [self.base.toolchain, self.head.toolchain]
    }

    /// Returns the compiler of a set.
    pub fn toolchain(&self, set: &PieceSet) -> &'a Toolchain {
        if self.has(set, |piece| piece.described == ChangePiece::Compiler) {
            self.head.toolchain
        } else {
            self.base.toolchain
        }
    }

    fn has(&self, set: &PieceSet, is_it: impl Fn(&NumberedPiece) -> bool) -> bool {
        set.iter()
            .filter_map(|piece| self.pieces.get(*piece))
            .any(is_it)
    }
}

/// Returns what differs besides the files.
fn find_others(base: &CaseOfSide, head: &CaseOfSide) -> impl Iterator<Item = ChangePiece> {
    let units = [&base.unit, &head.unit];
    let cases = [&base.case, &head.case];
    let source = |unit: &Unit| (unit.source.clone(), unit.call.clone());
    let data = |case: &Case| {
        let Case {
            tensors,
            dims,
            reference,
            ..
        } = case;
        (tensors.clone(), dims.clone(), reference.clone())
    };
    [
        (
            differ(units, |unit| unit.defines.clone()),
            ChangePiece::Definitions,
        ),
        (differ(units, |unit| unit.flags.clone()), ChangePiece::Flags),
        (
            differ(units, |unit| unit.include_dirs.clone()),
            ChangePiece::IncludeDirs,
        ),
        (differ(units, source), ChangePiece::Entries),
        (
            differ(cases, |case| case.steps.clone()),
            ChangePiece::Launch,
        ),
        (differ(cases, data), ChangePiece::Data),
        (
            base.toolchain.facts != head.toolchain.facts,
            ChangePiece::Compiler,
        ),
    ]
    .into_iter()
    .filter_map(|(is_other, piece)| is_other.then_some(piece))
}

fn differ<T, V: PartialEq>([base, head]: [&T; 2], value: impl Fn(&T) -> V) -> bool {
    value(base) != value(head)
}

/// Returns the files of a tree that a build read, from the tree's top.
fn files_below<'b>(top: &'b Path, built: &'b Built) -> impl Iterator<Item = PathBuf> + use<'b> {
    built
        .read
        .iter()
        .filter_map(move |read| read.real.strip_prefix(top).ok())
        .map(Path::to_owned)
}

/// Returns the text of a file, which is empty if this side does not have the file.
fn read_or_nothing(path: &Path) -> Result<String> {
    match files::read_text(path, files::SOURCE) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(cannot("be read", path, error)),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    path.parent().map_or(Ok(()), make_dir)?;
    std::fs::write(path, text).map_err(|error| cannot("be written", path, error))
}

fn make_dir(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|error| cannot("be made", dir, error))
}

fn cannot(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::environment(format!("{} cannot {what}: {error}", path.display())).caused_by(error)
}
