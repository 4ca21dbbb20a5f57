//! Expected outputs, computed once and kept as files that a worker reads.
//!
//! A file is named by the content of everything that it follows from: generator, references, tensors
//! with their fills and codecs, the reference with its arguments, the program of a user's function, and
//! the seed. Variants of a kernel that agree in these share it. A file that does not match the digest in
//! its header is computed again.

use super::generator::GENERATOR;
use super::inputs::{self, Inputs, View};
use super::reference::user::{self, Functions, HiddenFrom, ReferenceProgram};
use super::reference::{NoAnswer, REFERENCES, built_in};
use super::{Outputs, Values, elem};
use build::apart::Reads;
use model::{Arg, Case, ElemType, Fault, FaultKind, Reference, Seen, Tensor};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use system::cache::{Cache, CacheDir, sealed, write_atomically};
use system::error::Result;
use system::files;
use tracing::debug;

/// The place of the right answer for one case and seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// The answer was computed here, and `read` reads its files.
    Files {
        /// The outputs over the inputs as the kernel sees them.
        seen: PathBuf,
        /// The outputs over the inputs before quantisation. Only if an input has a codec.
        original: Option<PathBuf>,
    },
    /// Only a device can tell, because the answer is what this variant of the same kernel computes.
    Variant { variant: String },
}

/// The references of one run. Calls from many threads at once are a waste: each call uses all cores, and two that want
/// the same answer would both compute it.
pub struct References {
    dir: CacheDir,
    functions: Functions,
    /// True if functions cannot read the tree while they run.
    is_blind: bool,
    /// The files that this run has written or checked.
    good: Mutex<BTreeSet<PathBuf>>,
    /// Questions that were not answered in time. Each is waited for once, and not once for each seed and variant.
    late: Mutex<BTreeMap<UserCall, String>>,
}

/// The call of a user's function, whatever the seed, with its deadline.
type UserCall = (String, u64);

impl References {
    /// Opens the references. `root` is the directory of gates.yaml, `host_compiler` builds the user's own references,
    /// and `hidden` is what they cannot read.
    ///
    /// # Errors
    /// Fails with an environment error if the cache cannot be written.
    pub fn open(
        root: &Path,
        cache: &Cache,
        host_compiler: Option<&Path>,
        hidden: HiddenFrom,
    ) -> Result<Self> {
        Ok(Self {
            dir: cache.layered("references")?,
            is_blind: hidden.programs.is_some(),
            functions: Functions::new(root, host_compiler, hidden, cache)?,
            good: Mutex::default(),
            late: Mutex::default(),
        })
    }

    /// Returns the files that the programs of users' functions were made from so far, and those that they load.
    pub fn reads(&self) -> Reads {
        self.functions.reads()
    }

    /// Returns the names of the files that `answer` gives: equal names mean equal answers. A user's function is built
    /// for that, and nothing is computed.
    ///
    /// # Errors
    /// Returns the compiler's message, or that there is no host compiler.
    pub fn names(&self, case: &Case, seed: u64) -> std::result::Result<Vec<String>, NoAnswer> {
        let program = self.program(case)?;
        views(case)
            .into_iter()
            .map(|view| self.key(case, seed, view, program.as_ref()))
            .collect()
    }

    fn program(&self, case: &Case) -> std::result::Result<Option<ReferenceProgram>, NoAnswer> {
        match &case.reference {
            Reference::User { .. } => self.functions.build(case).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the answer, or a fault: of kind `Reference` if the reference or the inputs are the cause, and
    /// `Environment` if the machine is.
    pub fn answer(&self, case: &Case, seed: u64) -> Seen<Answer> {
        match self.find(case, seed) {
            Ok(answer) => Seen::Got(answer),
            Err(error) => Seen::Fault(Fault::new(
                match error {
                    NoAnswer::Reference(_) | NoAnswer::Late(_) => FaultKind::Reference,
                    NoAnswer::Environment(_) => FaultKind::Environment,
                },
                error.to_string(),
            )),
        }
    }

    /// Returns the answer, as `answer` does.
    ///
    /// # Errors
    /// Returns why there is no answer.
    pub fn find(&self, case: &Case, seed: u64) -> std::result::Result<Answer, NoAnswer> {
        if let Reference::Variant { variant } = &case.reference {
            return Ok(Answer::Variant {
                variant: variant.clone(),
            });
        }
        let program = self.program(case)?;
        let mut made: Option<Inputs> = None;
        let mut one = |view| -> std::result::Result<PathBuf, NoAnswer> {
            let key = self.key(case, seed, view, program.as_ref())?;
            if let Some(path) = self.dir.places(&key).find(|path| self.is_good(path)) {
                self.dir.touch(&path);
                debug!(case = %case.id, seed, ?path, "hit: reference is kept");
                return Ok(path);
            }
            debug!(
                case = %case.id,
                seed,
                key,
                program = program.as_ref().map(|program| program.identity.as_str()),
                damaged = self.dir.places(&key).any(|path| path.exists()),
                "miss: reference is computed"
            );
            let inputs = match made.take() {
                Some(inputs) => inputs,
                None => inputs::generate(case, seed)
                    .map_err(|error| NoAnswer::Reference(error.to_string()))?,
            };
            let path = self.dir.own().join(key);
            self.keep(&path, &self.compute(case, &inputs, view, program.as_ref())?)?;
            made = Some(inputs);
            Ok(path)
        };
        Ok(Answer::Files {
            seen: one(View::Seen)?,
            original: is_coded(case).then(|| one(View::Original)).transpose()?,
        })
    }

    fn compute(
        &self,
        case: &Case,
        inputs: &Inputs,
        view: View,
        program: Option<&ReferenceProgram>,
    ) -> std::result::Result<Outputs, NoAnswer> {
        let Some(program) = program else {
            return built_in(case, inputs, view);
        };
        let late = || self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let question = (self.key(case, 0, view, Some(program))?, case.deadline_ms);
        if let Some(why) = late().get(&question) {
            return Err(NoAnswer::Late(format!("not run again: {why}")));
        }
        let answer = user::call(program, case, inputs, view);
        if let Err(NoAnswer::Late(why)) = &answer {
            late().insert(question, why.clone());
        }
        answer
    }

    /// Returns the file name of one result. For a user's function it covers what the function is made of and called
    /// with, but not how or where that is written.
    fn key(
        &self,
        case: &Case,
        seed: u64,
        view: View,
        program: Option<&ReferenceProgram>,
    ) -> std::result::Result<String, NoAnswer> {
        #[derive(Serialize)]
        enum Computed<'a> {
            BuiltIn(&'a Reference),
            Program {
                identity: &'a str,
                args: &'a [Arg],
            },
            /// A function that may have read the tree has another key.
            Blind {
                identity: &'a str,
                args: &'a [Arg],
            },
        }
        #[derive(Serialize)]
        struct ReferenceKey<'a> {
            format: &'a str,
            generator: &'a str,
            references: &'a str,
            tensors: Vec<Tensor>,
            reference: Computed<'a>,
            seed: u64,
            original: bool,
        }
        let tensors = case.tensors.iter().map(|tensor| Tensor {
            // Values do not depend on their layout.
            strides: None,
            offset: 0,
            ..tensor.clone()
        });
        let key = ReferenceKey {
            format: std::str::from_utf8(MAGIC).unwrap_or_default(),
            generator: GENERATOR,
            references: REFERENCES,
            tensors: tensors.collect(),
            reference: match (&case.reference, program) {
                (Reference::User { args, .. }, Some(program)) => {
                    let identity = &program.identity;
                    if self.is_blind {
                        Computed::Blind { identity, args }
                    } else {
                        Computed::Program { identity, args }
                    }
                }
                (reference, _) => Computed::BuiltIn(reference),
            },
            seed,
            original: view == View::Original,
        };
        let text =
            serde_json::to_vec(&key).map_err(|error| NoAnswer::Environment(error.to_string()))?;
        Ok(blake3::hash(&text).to_hex().to_string())
    }

    fn is_good(&self, path: &Path) -> bool {
        let good = || self.good.lock().unwrap_or_else(PoisonError::into_inner);
        if !path.exists() {
            return false;
        }
        if good().contains(path) {
            return true;
        }
        // A complete file is exactly what was written, so nothing has to be parsed.
        let whole =
            files::read(path, files::made()).is_ok_and(|bytes| open(path, &bytes).is_some());
        if whole {
            good().insert(path.to_owned());
        }
        whole
    }

    fn keep(&self, path: &Path, outputs: &Outputs) -> std::result::Result<(), NoAnswer> {
        write(path, outputs)?;
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        good.insert(path.to_owned());
        Ok(())
    }
}

fn is_coded(case: &Case) -> bool {
    case.tensors.iter().any(|tensor| tensor.codec.is_some())
}

fn views(case: &Case) -> Vec<View> {
    if is_coded(case) {
        vec![View::Seen, View::Original]
    } else {
        vec![View::Seen]
    }
}

const MAGIC: sealed::Magic = b"gatekeeper expected/2\n";

#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("{path}: {error}")]
    Io {
        path: PathBuf,
        #[source]
        error: std::io::Error,
    },
    #[error("{path} is cut short or was changed; the next run computes it again")]
    Damaged { path: PathBuf },
}

/// Reads expected outputs from a file that `References` named.
///
/// # Errors
/// Fails if the file cannot be read, or is not what was written.
pub fn read(path: &Path) -> std::result::Result<Outputs, Unreadable> {
    let bytes = files::read(path, files::made()).map_err(|error| Unreadable::Io {
        path: path.to_owned(),
        error,
    })?;
    parse(path, &bytes).ok_or_else(|| Unreadable::Damaged {
        path: path.to_owned(),
    })
}

/// Returns a digest of each output, over the inputs as the kernel sees them and as they were before quantisation.
///
/// # Errors
/// Fails as `read` does.
pub fn digests(answer: &Answer) -> std::result::Result<BTreeMap<String, String>, Unreadable> {
    let Answer::Files { seen, original } = answer else {
        return Ok(BTreeMap::new());
    };
    let mut hashers: BTreeMap<String, blake3::Hasher> = BTreeMap::new();
    for path in [Some(seen), original.as_ref()].into_iter().flatten() {
        for (name, values) in read(path)? {
            let elem = match values {
                Values::F32(_) => ElemType::F32,
                Values::F64(_) => ElemType::F64,
                Values::I64(_) => ElemType::I64,
            };
            // Each type holds all of its own values, so encoding cannot fail.
            let bytes = elem::encode(elem, &values).unwrap_or_default();
            hashers.entry(name).or_default().update_rayon(&bytes);
        }
    }
    Ok(hashers
        .into_iter()
        .map(|(name, hasher)| (name, hasher.finalize().to_hex()[..32].to_owned()))
        .collect())
}

/// Returns the content of a file, if the file is complete and was written under this name. A file of another result is
/// sealed, too.
fn open<'a>(path: &Path, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = sealed::open(MAGIC, bytes)?;
    let name = sealed::part(&mut rest)?;
    (name == key_of(path)?).then_some(rest)
}

fn key_of(path: &Path) -> Option<&[u8]> {
    path.file_name().map(std::ffi::OsStr::as_encoded_bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Option<Outputs> {
    let mut rest = open(path, bytes)?;
    let mut outputs = Outputs::new();
    while !rest.is_empty() {
        let name = std::str::from_utf8(sealed::part(&mut rest)?).ok()?;
        let elem = match sealed::part(&mut rest)? {
            b"f32" => ElemType::F32,
            b"f64" => ElemType::F64,
            b"i64" => ElemType::I64,
            _ => return None,
        };
        outputs.insert(
            name.to_owned(),
            elem::decode(elem, sealed::part(&mut rest)?),
        );
    }
    Some(outputs)
}

fn write(path: &Path, outputs: &Outputs) -> std::result::Result<(), NoAnswer> {
    let broken = |error: &dyn std::error::Error| NoAnswer::Environment(error.to_string());
    let mut images = Vec::new();
    for (name, values) in outputs {
        let (kind, elem): (&[u8], _) = match values {
            Values::F32(_) => (b"f32", ElemType::F32),
            Values::F64(_) => (b"f64", ElemType::F64),
            Values::I64(_) => (b"i64", ElemType::I64),
        };
        let image = elem::encode(elem, values).map_err(|error| broken(&error))?;
        images.push((name, kind, image));
    }
    let parts = images
        .iter()
        .flat_map(|(name, kind, image)| [name.as_bytes(), kind, image.as_slice()]);
    let parts = key_of(path).into_iter().chain(parts);
    write_atomically(path, &sealed::seal(MAGIC, parts)).map_err(|error| broken(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        case, constant, input, int, output, pointer, symmetric, unary, user, with_codec,
    };
    use model::{ScalarType, Unary};

    fn references() -> (tempfile::TempDir, References) {
        let dir = tempfile::tempdir().unwrap();
        let references = opened(dir.path(), &Cache::at(dir.path()).unwrap());
        (dir, references)
    }

    fn opened(root: &Path, cache: &Cache) -> References {
        References::open(root, cache, None, HiddenFrom::default()).unwrap()
    }

    fn plain() -> Case {
        case(vec![
            input("x", ElemType::F32, &[5, 7]),
            output("y", ElemType::F32, &[5, 7]),
        ])
    }

    fn coded() -> Case {
        let mut case = plain();
        let x = input("x", ElemType::E4m3, &[5, 7]);
        case.tensors[0] = with_codec(x, symmetric(448.0, 0, 448.0), &[1, 7]);
        case
    }

    fn files(answer: Seen<Answer>) -> (PathBuf, Option<PathBuf>) {
        match answer {
            Seen::Got(Answer::Files { seen, original }) => (seen, original),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_back_written_data() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let outputs = Outputs::from([
            ("empty".to_owned(), Values::F32(vec![])),
            (
                "floats".to_owned(),
                Values::F32(vec![1.5, -0.0, f32::INFINITY]),
            ),
            ("fine".to_owned(), Values::F64(vec![0.1, 1e300])),
            ("integers".to_owned(), Values::I64(vec![i64::MIN, 3])),
        ]);
        write(&path, &outputs).unwrap();
        assert_eq!(read(&path).unwrap(), outputs);
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            assert!(parse(&path, &good[..at]).is_none(), "cut at {at}");
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(parse(&path, &bad).is_none(), "changed at {at}");
        }
        assert!(matches!(
            read(&dir.path().join("y")),
            Err(Unreadable::Io { .. })
        ));
        // The file is whole, and answers another question.
        std::fs::copy(&path, dir.path().join("y")).unwrap();
        assert!(matches!(
            read(&dir.path().join("y")),
            Err(Unreadable::Damaged { .. })
        ));
    }

    #[test]
    fn answers_are_right_and_have_an_original_only_with_a_codec() {
        let (_dir, references) = references();
        let (seen, original) = files(references.answer(&plain(), 1));
        let inputs = inputs::generate(&plain(), 1).unwrap();
        assert_eq!(read(&seen).unwrap()["y"], inputs.tensors["x"].seen);
        assert_eq!(original, None);

        let (seen, original) = files(references.answer(&coded(), 1));
        let inputs = inputs::generate(&coded(), 1).unwrap();
        let x = &inputs.tensors["x"];
        assert_eq!(read(&seen).unwrap()["y"], x.seen);
        assert_eq!(
            Some(&read(&original.unwrap()).unwrap()["y"]),
            x.original.as_ref()
        );
        assert_ne!(x.original.as_ref(), Some(&x.seen));
    }

    #[test]
    fn variants_share_and_everything_else_has_its_own() {
        let (_dir, references) = references();
        let path = |case: &Case, seed| files(references.answer(case, seed)).0;
        let first = path(&plain(), 1);
        let mut variant = plain();
        variant.id.variant = "other".to_owned();
        variant.id.shape = "same size".to_owned();
        variant.tensors[0].strides = Some(vec![8, 1]);
        variant.launches = 8;
        assert_eq!(path(&variant, 1), first);

        let mut fill = plain();
        fill.tensors[0].fill = Some(constant(1.0));
        let mut elem = plain();
        elem.tensors[0].elem = ElemType::F16;
        let mut reference = plain();
        reference.reference = unary(Unary::Neg);
        let mut paths = vec![
            first,
            path(&plain(), 2),
            path(&coded(), 1),
            path(&fill, 1),
            path(&elem, 1),
            path(&reference, 1),
        ];
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 6);
    }

    #[test]
    fn a_hit_is_not_computed_and_a_damaged_file_is() {
        let (dir, references) = references();
        let (path, _) = files(references.answer(&plain(), 1));
        let right = read(&path).unwrap();
        // Another run finds only what is in the file.
        let planted = Outputs::from([("y".to_owned(), Values::F32(vec![7.0; 35]))]);
        write(&path, &planted).unwrap();
        let again = || opened(dir.path(), &Cache::at(dir.path()).unwrap());
        assert_eq!(files(again().answer(&plain(), 1)).0, path);
        assert_eq!(read(&path).unwrap(), planted);

        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        files(again().answer(&plain(), 1));
        assert_eq!(read(&path).unwrap(), right);
        std::fs::remove_file(&path).unwrap();
        files(references.answer(&plain(), 1));
        assert_eq!(read(&path).unwrap(), right);
    }

    #[test]
    fn the_shared_cache_stands_before_the_own_one_and_is_never_written() {
        let (shared, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let beside = || {
            let cache = Cache::at(own.path()).unwrap().with_shared(shared.path());
            opened(own.path(), &cache.unwrap())
        };
        // Nothing is shared yet, so the answer is computed and kept in the own cache.
        let (path, _) = files(beside().answer(&plain(), 1));
        assert!(path.starts_with(own.path().canonicalize().unwrap()));
        assert_eq!(std::fs::read_dir(shared.path()).unwrap().count(), 0);
        let right = read(&path).unwrap();

        // A pull request can plant this in its own cache, complete and under the right name.
        let planted = Outputs::from([("y".to_owned(), Values::F32(vec![7.0; 35]))]);
        write(&path, &planted).unwrap();
        let all = opened(shared.path(), &Cache::at(shared.path()).unwrap());
        let (common, _) = files(all.answer(&plain(), 1));
        assert_eq!(read(&common).unwrap(), right);
        assert_eq!(files(beside().answer(&plain(), 1)).0, common);

        // A damaged file is not used, and left as it is.
        let whole = std::fs::read(&common).unwrap();
        std::fs::write(&common, &whole[1..]).unwrap();
        write(&path, &right).unwrap();
        assert_eq!(files(beside().answer(&plain(), 1)).0, path);
        assert_eq!(std::fs::read(&common).unwrap(), &whole[1..]);
    }

    #[test]
    fn a_variant_needs_a_device_and_a_misfit_is_a_fault() {
        let (_dir, references) = references();
        let mut other = plain();
        other.reference = Reference::Variant {
            variant: "direct".to_owned(),
        };
        assert_eq!(
            references.answer(&other, 1),
            Seen::Got(Answer::Variant {
                variant: "direct".to_owned()
            })
        );
        let mut misfit = plain();
        misfit.tensors[1].dims = vec![7, 5];
        let Seen::Fault(fault) = references.answer(&misfit, 1) else {
            panic!()
        };
        assert_eq!(fault.kind, FaultKind::Reference);
        misfit.tensors[0].fill = None;
        let Seen::Fault(fault) = references.answer(&misfit, 1) else {
            panic!()
        };
        assert!(
            fault
                .message
                .contains("k/v@s: tensor `x`: an input needs a fill"),
            "{}",
            fault.message
        );
    }

    #[test]
    fn a_question_is_waited_for_once_and_another_is_asked_anew() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let compiler = Some(Path::new("g++"));
        let references =
            References::open(dir.path(), &cache, compiler, HiddenFrom::default()).unwrap();
        let source = "extern \"C\" void k(const float* x, float* y, int hang) {\n\
                      while (hang) asm(\"\");\n for (int i = 0; i < 35; ++i) y[i] = x[i]; }\n";
        std::fs::write(dir.path().join("k.cpp"), source).unwrap();
        let hanging = |hang: i64| {
            let mut case = plain();
            case.deadline_ms = 400;
            let args = vec![pointer("x"), pointer("y"), int(ScalarType::I32, hang)];
            case.reference = user("k.cpp", "k", args);
            case
        };
        let late = |case: &Case, seed| match references.find(case, seed) {
            Err(NoAnswer::Late(message)) => message,
            other => panic!("{other:?}"),
        };
        let first = "the reference `k` in k.cpp did not finish within 400 ms and was killed";
        assert_eq!(late(&hanging(1), 1), first);
        assert_eq!(late(&hanging(1), 2), format!("not run again: {first}"));
        // The program is the same, and the deadline and the case are not.
        let longer = Case {
            deadline_ms: 500,
            ..hanging(1)
        };
        assert_eq!(late(&longer, 1), first.replace("400", "500"));
        assert!(references.find(&hanging(0), 1).is_ok());
    }
}
