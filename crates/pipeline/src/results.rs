//! Keeps results of the simulator by content: the code that executes, how it is called, the seed that its inputs follow
//! from, what its outputs are compared with, the budget, and the program that simulates. The simulator is
//! deterministic, so the same question has the same answer to the bit.
//!
//! Results are written and read like the other parts of the cache: an entry that is damaged, or was stored for another
//! question, is ignored, and a pull request reads the shared cache and writes to its own.

use build::toolchain::ProgramDigests;
use build::{Artifact, FilledConstant};
use check::cache::References;
use model::{Case, FaultKind, Reference, Seen};
use run::worker::{Frame, this_program};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use system::cache::{Cache, CacheDir, sealed, write_atomically};
use system::error::Result;
use system::files;
use tracing::debug;

const MAGIC: sealed::Magic = b"gatekeeper simulated/1\n";

/// The results of earlier runs, and of this one.
pub(super) struct Results {
    dir: CacheDir,
    /// The digest of this executable. Another one may simulate, draw inputs or compare differently.
    program: String,
    /// The time at which this run started, as in the record.
    started: String,
    /// True if nothing is taken from earlier runs.
    is_fresh: bool,
    /// Digests of PTX by path, with `None` for a file that cannot be read.
    code: Mutex<HashMap<PathBuf, Option<String>>>,
}

/// The name under which an answer is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResultKey(String);

/// One answer, and what is kept with it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptResult {
    /// The start of the run that simulated it.
    pub since: String,
    /// The time that it kept a core busy.
    pub took: Duration,
    /// Digests of the outputs that it was compared with, if there are any.
    pub outputs: Option<BTreeMap<String, String>>,
    pub answer: Seen<Frame>,
}

/// The rest of the question, without the case, its code and its seed.
#[derive(Serialize)]
pub(super) enum SimulatorTask {
    Estimate,
    Simulation {
        later_seed: u64,
        expected: ExpectedOutputs,
    },
}

/// The outputs with which the kernel's outputs are compared.
#[derive(Serialize)]
pub(super) enum ExpectedOutputs {
    /// The names of the outputs, by [`References::names`].
    Computed(Vec<String>),
    Variant {
        case: Box<Case>,
        code: SimulatedCode,
    },
}

/// The part of an artifact that the simulator loads.
#[derive(Serialize)]
pub(super) struct SimulatedCode {
    ptx: String,
    entries: Vec<(String, String)>,
    constants: Vec<FilledConstant>,
}

impl Results {
    /// Opens the results.
    ///
    /// # Errors
    /// Fails with an environment error if the cache cannot be written, or if this executable cannot be read.
    pub fn open(cache: &Cache, started: &str, is_fresh: bool) -> Result<Self> {
        let program = this_program()?;
        let mut digests = ProgramDigests::load(cache)?;
        let digest = digests
            .digest(&program)
            .map_err(|error| error.help("run gatekeeper as a user who can read its executable"))?;
        digests.save(cache)?;
        Ok(Self {
            dir: cache.layered("simulated")?,
            program: digest,
            started: started.to_owned(),
            is_fresh,
            code: Mutex::default(),
        })
    }

    /// Returns the code of an artifact. Returns `None` if it has no PTX, or if that cannot be read. Its results are
    /// then not kept.
    pub fn code(&self, artifact: &Artifact) -> Option<SimulatedCode> {
        let (path, entries, constants) = match artifact {
            Artifact::Cubin {
                ptx: Some(ptx),
                entries,
                constants,
                ..
            } => (ptx, entries, constants.as_slice()),
            Artifact::Ptx { path, entries } => (path, entries, [].as_slice()),
            Artifact::Cubin { ptx: None, .. }
            | Artifact::Together { .. }
            | Artifact::Launcher { .. } => return None,
        };
        let mut known = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = known.entry(path.clone()).or_insert_with(|| digest(path));
        Some(SimulatedCode {
            ptx: digest.clone()?,
            entries: entries.clone(),
            constants: constants.to_vec(),
        })
    }

    /// Returns the expected outputs of a seed, if they have a name before they are computed.
    pub fn expected(
        &self,
        references: &References,
        (case, seed): (&Case, u64),
        variant: impl FnOnce(&str) -> Option<(Case, Artifact)>,
    ) -> Option<ExpectedOutputs> {
        let Reference::Variant { variant: name } = &case.reference else {
            return references
                .names(case, seed)
                .ok()
                .map(ExpectedOutputs::Computed);
        };
        let (case, artifact) = variant(name)?;
        Some(ExpectedOutputs::Variant {
            code: self.code(&artifact)?,
            case: Box::new(without_seeds(&case)),
        })
    }

    pub fn key(
        &self,
        case: &Case,
        code: SimulatedCode,
        seed: u64,
        limit: u64,
        asked: SimulatorTask,
    ) -> Option<ResultKey> {
        #[derive(Serialize)]
        struct ResultQuestion<'a> {
            program: &'a str,
            case: Case,
            code: SimulatedCode,
            seed: u64,
            limit: u64,
            asked: SimulatorTask,
        }
        let question = ResultQuestion {
            program: &self.program,
            case: without_seeds(case),
            code,
            seed,
            limit,
            asked,
        };
        let text = serde_json::to_vec(&question).ok()?;
        let key = blake3::hash(&text).to_hex().to_string();
        debug!(
            key,
            case = %case.id,
            seed,
            limit,
            program = self.program,
            ptx = question.code.ptx,
            "question of a simulation"
        );
        Some(ResultKey(key))
    }

    pub fn find(&self, key: &ResultKey) -> Option<KeptResult> {
        if self.is_fresh {
            debug!(key = key.0, "miss: the run is fresh");
            return None;
        }
        self.dir.places(&key.0).find_map(|place| {
            let Ok(bytes) = files::read(&place, files::made()) else {
                debug!(?place, "miss: no entry of this key");
                return None;
            };
            let Some(kept) = open(key, &bytes) else {
                debug!(?place, "miss: the entry is damaged");
                return None;
            };
            debug!(?place, since = kept.since, "hit");
            self.dir.touch(&place);
            Some(kept)
        })
    }

    /// Keeps an answer that would be the same again. A cache that cannot be written only costs the next run its time.
    pub fn keep(
        &self,
        key: &ResultKey,
        answer: &Seen<Frame>,
        took: Duration,
        outputs: Option<BTreeMap<String, String>>,
    ) {
        if !comes_again(answer) {
            return;
        }
        let kept = KeptResult {
            since: self.started.clone(),
            took,
            outputs,
            answer: answer.clone(),
        };
        if let Ok(text) = serde_json::to_vec(&kept) {
            let bytes = sealed::seal(MAGIC, [key.0.as_bytes(), text.as_slice()]);
            let _ = write_atomically(&self.dir.own().join(&key.0), &bytes);
        }
    }
}

/// Returns a case without its seeds. The other seeds change nothing for the one that is simulated.
fn without_seeds(case: &Case) -> Case {
    Case {
        seeds: Vec::new(),
        ..case.clone()
    }
}

fn open(key: &ResultKey, bytes: &[u8]) -> Option<KeptResult> {
    let mut rest = sealed::open(MAGIC, bytes)?;
    let name = sealed::part(&mut rest)?;
    let text = sealed::part(&mut rest)?;
    let is_whole = rest.is_empty() && name == key.0.as_bytes();
    let kept: KeptResult = is_whole.then(|| serde_json::from_slice(text).ok())??;
    comes_again(&kept.answer).then_some(kept)
}

/// Returns true if the answer follows from the question alone. A worker that died or did not answer may have met the
/// limits of the machine.
fn comes_again(answer: &Seen<Frame>) -> bool {
    match answer {
        Seen::Got(Frame::Estimated(_) | Frame::Simulated(_)) | Seen::Unsupported(_) => true,
        Seen::Fault(fault) => fault.kind == FaultKind::DeviceFault,
        Seen::Got(_) | Seen::NotRun(_) => false,
    }
}

fn digest(path: &Path) -> Option<String> {
    let bytes = files::read(path, files::made()).ok()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_rayon(&bytes);
    Some(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::fixture;
    use model::{Fault, NotRun, Num, Unsupported};

    fn results(cache: &Cache) -> Results {
        Results::open(cache, "2026-11-23T10:00:00Z", false).unwrap()
    }

    fn case() -> Case {
        fixture::record().plan.cases.remove(0)
    }

    fn artifact(ptx: &Path) -> Artifact {
        Artifact::Cubin {
            path: "k.cubin".into(),
            entries: vec![("k".into(), "k".into())],
            ptx: Some(ptx.to_owned()),
            constants: vec![],
        }
    }

    fn names(name: &str) -> ExpectedOutputs {
        ExpectedOutputs::Computed(vec![name.to_owned()])
    }

    #[test]
    fn each_ingredient_of_a_result_changes_its_key() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let [one, other] = ["one.ptx", "other.ptx"].map(|name| dir.path().join(name));
        std::fs::write(&one, "ret;").unwrap();
        std::fs::write(&other, "bra L;").unwrap();
        let key = |results: &Results, case: &Case, artifact: &Artifact, seed, limit, asked| {
            results.key(case, results.code(artifact)?, seed, limit, asked)
        };
        let simulation = |later_seed, expected| SimulatorTask::Simulation {
            later_seed,
            expected,
        };
        let usual = || simulation(2, names("a"));
        let key_for = |case: &Case, artifact: &Artifact| {
            key(&results(&cache), case, artifact, 1, 10, usual()).unwrap()
        };
        let (case, at_one) = (case(), artifact(&one));
        let first = key_for(&case, &at_one);
        assert_eq!(key_for(&case, &at_one), first);
        // The other seeds of the case and the path of its PTX make no difference.
        let mut seeds = case.clone();
        seeds.seeds.push(77);
        assert_eq!(key_for(&seeds, &at_one), first);
        let moved = dir.path().join("moved.ptx");
        std::fs::copy(&one, &moved).unwrap();
        assert_eq!(key_for(&case, &artifact(&moved)), first);

        let changed_case = |change: fn(&mut Case)| {
            let mut case = case.clone();
            change(&mut case);
            key_for(&case, &at_one)
        };
        let changed_artifact =
            |change: fn(&mut Vec<(String, String)>, &mut Vec<FilledConstant>)| {
                let mut changed = at_one.clone();
                if let Artifact::Cubin {
                    entries, constants, ..
                } = &mut changed
                {
                    change(entries, constants);
                }
                key_for(&case, &changed)
            };
        let asked =
            |seed, limit, asked| key(&results(&cache), &case, &at_one, seed, limit, asked).unwrap();
        let variant = |ptx: &Path| ExpectedOutputs::Variant {
            case: Box::new(case.clone()),
            code: results(&cache).code(&artifact(ptx)).unwrap(),
        };
        let another_program = Results {
            program: "another".to_owned(),
            ..results(&cache)
        };
        let mut keys = vec![
            first,
            key_for(&case, &artifact(&other)),
            changed_artifact(|entries, _| entries[0].1 = "other".to_owned()),
            changed_artifact(|_, constants| {
                constants.push(FilledConstant {
                    name: "c".to_owned(),
                    symbol: "c".to_owned(),
                    tensor: "x".to_owned(),
                });
            }),
            changed_case(|case| case.id.shape = "other".to_owned()),
            changed_case(|case| case.dims.extend([("other".to_owned(), 7)])),
            changed_case(|case| case.reference = Reference::None),
            changed_case(|case| case.tolerance = Some(Num(0.25))),
            changed_case(|case| case.launches += 1),
            asked(2, 10, usual()),
            asked(1, 11, usual()),
            asked(1, 10, simulation(3, names("a"))),
            asked(1, 10, simulation(2, names("b"))),
            asked(1, 10, simulation(2, variant(&one))),
            asked(1, 10, simulation(2, variant(&other))),
            asked(1, 10, SimulatorTask::Estimate),
            key(&another_program, &case, &at_one, 1, 10, usual()).unwrap(),
        ];
        let count = keys.len();
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        keys.dedup();
        assert_eq!(keys.len(), count);

        // Nothing is kept of code without PTX.
        let gone = dir.path().join("gone.ptx");
        assert!(results(&cache).code(&artifact(&gone)).is_none());
        let launcher = Artifact::Launcher {
            library: one.clone(),
            function: "f".to_owned(),
            entries: Vec::new(),
        };
        assert!(results(&cache).code(&launcher).is_none());
    }

    #[test]
    fn an_answer_that_follows_from_its_question_is_kept_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let fault = |kind| Seen::Fault(Fault::new(kind, "it broke"));
        let answers = [
            (Seen::Got(Frame::Estimated(Some(7))), true),
            (Seen::Got(Frame::Estimated(None)), true),
            (Seen::Unsupported(Unsupported::Clock), true),
            (fault(FaultKind::DeviceFault), true),
            (fault(FaultKind::Hang), false),
            (fault(FaultKind::WorkerDied), false),
            (fault(FaultKind::Environment), false),
            (fault(FaultKind::Reference), false),
            (Seen::Got(Frame::Sane), false),
            (Seen::NotRun(NotRun::EarlierStage), false),
        ];
        for (number, (answer, is_kept)) in answers.into_iter().enumerate() {
            let key = ResultKey(format!("{number:064}"));
            let took = Duration::from_millis(5);
            results(&cache).keep(&key, &answer, took, None);
            let found = results(&cache).find(&key);
            assert_eq!(found.is_some(), is_kept, "{answer:?}");
            if let Some(kept) = found {
                assert_eq!((kept.answer, kept.took, kept.outputs), (answer, took, None));
                assert_eq!(kept.since, "2026-11-23T10:00:00Z");
            }
        }
    }

    #[test]
    fn an_entry_of_another_question_or_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let [key, other] = ["a", "b"].map(|name| ResultKey(name.repeat(64)));
        let answer = Seen::Got(Frame::Estimated(Some(7)));
        results(&cache).keep(&key, &answer, Duration::ZERO, None);
        let place = |key: &ResultKey| dir.path().join("simulated").join(&key.0);
        std::fs::copy(place(&key), place(&other)).unwrap();
        assert!(results(&cache).find(&key).is_some());
        assert!(results(&cache).find(&other).is_none());
        let fresh = Results::open(&cache, "", true).unwrap();
        assert!(fresh.find(&key).is_none());

        let whole = std::fs::read(place(&key)).unwrap();
        for at in 0..whole.len() {
            let mut bad = whole.clone();
            bad[at] ^= 0x10;
            assert!(open(&key, &bad).is_none(), "changed at {at}");
            assert!(open(&key, &whole[..at]).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn a_pull_request_reads_what_all_share_and_writes_to_its_own() {
        let (shared, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let all = Cache::at(shared.path()).unwrap();
        let of_pull_request = || {
            let cache = Cache::at(own.path()).unwrap();
            results(&cache.with_shared(shared.path()).unwrap())
        };
        let [known, new] = ["a", "b"].map(|name| ResultKey(name.repeat(64)));
        let seven = Seen::Got(Frame::Estimated(Some(7)));
        let planted = Seen::Got(Frame::Estimated(Some(1)));
        results(&all).keep(&known, &seven, Duration::ZERO, None);
        of_pull_request().keep(&known, &planted, Duration::ZERO, None);
        of_pull_request().keep(&new, &planted, Duration::ZERO, None);
        assert_eq!(of_pull_request().find(&known).unwrap().answer, seven);
        assert_eq!(of_pull_request().find(&new).unwrap().answer, planted);
        assert!(results(&all).find(&new).is_none());
    }
}
