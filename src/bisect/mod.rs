//! Finds the first commit, or the first version of a compiler, with which gates fail that hold before it.
//!
//! The question is which gates of the bad side fail that the good side holds. Each candidate is one side of a change
//! from the good side, which `pipeline` runs and the judge answers as for `run --base`. Where the sides come from is
//! not known here.

pub mod log;
pub mod search;
pub mod sides;

use self::log::{Answered, BisectionQuestion, GateSaid, Log};
use self::search::{Answer, Next, Search};
use build::toolchain::Choice;
use config::Loaded;
use judge::{Index, blame};
use model::{BlamedGate, Conclusion, Facet, Judgement, Outcome, Record, Rule, UnitId, Verdict};
use pipeline::event::Event;
use pipeline::{Change, Request, Survey};
use std::any::Any;
use std::ops::Range;
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Error, Result};

/// One candidate, before it is built.
pub struct CandidateSide {
    pub head: Loaded,
    pub compiler: Choice,
    /// The top directory of the tree that has its files.
    pub top: PathBuf,
    /// The guard that keeps its files in place. Its generator makes the change from it.
    pub files: Box<dyn Any>,
}

/// A generator of the sides that a bisection asks.
pub trait SideSource {
    /// Returns the side of a candidate or of the good one, or the inner error if it cannot be asked.
    ///
    /// # Errors
    /// Environment, if the machine fails.
    fn side(&self, candidate: &str) -> Result<std::result::Result<CandidateSide, Error>>;

    /// Returns the change from the good side to this one.
    ///
    /// # Errors
    /// Returns the errors of finding a change.
    fn change(&self, side: &CandidateSide) -> Result<Change>;

    /// Returns the name of a candidate that people read.
    fn title(&self, candidate: &str) -> String;
}

/// The way in which a bisection ended.
#[derive(Debug, PartialEq)]
pub enum End {
    /// The number of the first bad candidate.
    Culprit(usize),
    /// The candidates of which one is the culprit.
    Among(Range<usize>),
    /// No gate fails at the bad side that could be asked about.
    NoneFails(Conclusion),
}

/// A bisection as the command line describes it.
pub struct Bisection<'a> {
    pub sides: &'a dyn SideSource,
    pub request: &'a Request,
    pub cache: &'a Cache,
    /// The file that the log is written to.
    pub path: &'a Path,
    pub on: &'a (dyn Fn(Event) + Sync),
}

/// The result of a run of one side.
struct Judged {
    record: Record,
    judgement: Judgement,
}

/// The number of processes is multiplied by these, one after the other, until times decide.
const EFFORTS: [u32; 3] = [1, 2, 4];

impl Bisection<'_> {
    /// Searches to the end. `asked` lacks the identities, which are found here.
    ///
    /// # Errors
    /// Usage, if the question makes no sense. Environment, if the machine fails: the log then has what was answered.
    pub fn run(&self, mut asked: BisectionQuestion) -> Result<(Log, End)> {
        let bad = asked.candidates.last().cloned().unwrap_or_default();
        let good = asked.good.clone();
        let sides = [&good, &bad].map(|name| {
            let cannot = |error: Error| {
                let why = &error.diagnostic().message;
                Error::usage(format!("{} cannot be asked: {why}", self.sides.title(name)))
                    .caused_by(error)
            };
            let side = self.sides.side(name)?.map_err(cannot)?;
            let survey = self.survey(&side)?;
            Ok::<_, Error>((side, survey))
        });
        let [good_side, bad_side] = sides;
        let (good_side, bad_side) = (good_side?, bad_side?);
        if let Some(program) = bad_side.0.head.programs.first() {
            return Err(Error::usage(format!(
                "a bisection judges kernels, and {} is a program",
                program.name
            ))
            .at(&program.declared)
            .help("name the cases to judge"));
        }
        asked.identities = [&good_side, &bad_side].map(|(_, survey)| survey.identity.clone());
        let mut log = match Log::read(self.path)? {
            Some(log) if log.asked == asked => {
                self.say(format!(
                    "goes on with {}, which has {}",
                    self.path.display(),
                    wording::words::plural(log.answers.len(), "answer")
                ));
                log
            }
            other => {
                if other.is_some() {
                    self.say(format!(
                        "{} is the log of another question, and is replaced",
                        self.path.display()
                    ));
                }
                match self.ask(asked, &good_side, &bad_side)? {
                    Ok(log) => log,
                    Err((log, conclusion)) => return Ok((log, End::NoneFails(conclusion))),
                }
            }
        };
        drop((good_side, bad_side));
        let end = self.search(&mut log)?;
        Ok((log, end))
    }

    /// Finds the question: the gates that fail at the bad side and hold at the good one. Returns the conclusion of the
    /// bad side if no gate fails.
    fn ask(
        &self,
        asked: BisectionQuestion,
        (good_side, good_survey): &(CandidateSide, Survey),
        (bad_side, bad_survey): &(CandidateSide, Survey),
    ) -> Result<std::result::Result<Log, (Log, Conclusion)>> {
        let bad = asked.candidates.last().cloned().unwrap_or_default();
        self.say(format!(
            "judges {} for the question",
            self.sides.title(&bad)
        ));
        let judged = self.judge(bad_side, &[])?;
        let failed: Vec<BlamedGate> = judged
            .judgement
            .verdicts
            .iter()
            .filter(|verdict| verdict.outcome == Outcome::Fail)
            .flat_map(blame::blameable)
            .collect();
        let mut log = Log {
            device: device(&judged.record),
            asked,
            question: Vec::new(),
            answers: Vec::new(),
        };
        if failed.is_empty() {
            let conclusion = judged.judgement.conclusion;
            return Ok(Err((log, conclusion)));
        }
        self.say(format!(
            "judges {} by {}",
            self.sides.title(&log.asked.good),
            wording::words::plural(failed.len(), "gate")
        ));
        let at_good = self.judge(good_side, &failed)?;
        let holds = |gate: &BlamedGate| match blame::answer(gate, &at_good.judgement.verdicts) {
            Some(Outcome::Pass) => true,
            // Without a base a gate that compares with one is not judged, and the good side is its own base.
            Some(Outcome::Skipped | Outcome::Inconclusive) => at_good.record.policy.base.is_none(),
            _ => false,
        };
        log.question = failed.iter().filter(|gate| holds(gate)).cloned().collect();
        if log.question.is_empty() {
            let (_, said) = answer(&failed, &at_good)?;
            let lines = failed.iter().zip(&said).map(|(gate, said)| {
                format!(
                    "{} {}: {}",
                    gate.subject,
                    report::blame::name(gate),
                    said.sentence
                )
            });
            let lines: Vec<_> = lines.collect();
            return Err(Error::usage(format!(
                "every gate that fails at {} fails at {} itself, or has no answer there: {}",
                self.sides.title(&bad),
                self.sides.title(&log.asked.good),
                lines.join("; ")
            ))
            .help("name an older GOOD, at which they hold"));
        }
        for (name, survey, judged, kind) in [
            (log.asked.good.clone(), good_survey, &at_good, Answer::Good),
            (bad, bad_survey, &judged, Answer::Bad),
        ] {
            let (_, gates) = answer(&log.question, judged)?;
            log.answers.push(Answered {
                candidate: name,
                answer: kind,
                why: deciding(&gates, kind),
                identity: survey.identity.clone(),
                equal_to: None,
                gates,
            });
        }
        log.write(self.path)?;
        Ok(Ok(log))
    }

    fn search(&self, log: &mut Log) -> Result<End> {
        let candidates = log.asked.candidates.clone();
        let mut search = Search::new(candidates.len());
        let mut tries = 0;
        for (at, candidate) in candidates.iter().enumerate() {
            if let Some(known) = log.answer(candidate) {
                search.answer(at, known.answer);
                tries += usize::from(at + 1 < candidates.len());
            }
        }
        loop {
            let at = match search.next() {
                Next::Try(at) => at,
                Next::Culprit(at) => return Ok(End::Culprit(at)),
                Next::Among(suspects) => return Ok(End::Among(suspects)),
            };
            let Some(candidate) = candidates.get(at) else {
                return Ok(End::Among(at..candidates.len()));
            };
            let answered = self.try_one(log, candidate)?;
            search.answer(at, answered.answer);
            tries += 1;
            self.say(format!(
                "{tries} of about {}: {}: {} ({})",
                tries + search.most_left() as usize,
                self.sides.title(candidate),
                answered.answer.name(),
                answered.why.lines().next().unwrap_or_default()
            ));
            log.answers.push(answered);
            log.write(self.path)?;
        }
    }

    /// Answers one candidate. It runs only if no equal one was judged.
    fn try_one(&self, log: &Log, candidate: &str) -> Result<Answered> {
        let mut answered = Answered {
            candidate: candidate.to_owned(),
            answer: Answer::Skipped,
            why: String::new(),
            identity: None,
            equal_to: None,
            gates: Vec::new(),
        };
        let side = match self.sides.side(candidate)? {
            Ok(side) => side,
            Err(error) => {
                let why = error.diagnostic().message.clone();
                return Ok(Answered { why, ..answered });
            }
        };
        let survey = self.survey(&side)?;
        if let Some(why) = broken(&survey, &log.question) {
            return Ok(Answered { why, ..answered });
        }
        answered.identity = survey.identity;
        let is_equal = |known: &&Answered| {
            answered.identity.is_some()
                && known.identity == answered.identity
                && known.answer.decides()
        };
        if let Some(known) = log.answers.iter().find(is_equal) {
            return Ok(Answered {
                answer: known.answer,
                why: format!(
                    "the same code, launch, inputs and reference as {}",
                    self.sides.title(&known.candidate)
                ),
                equal_to: Some(known.candidate.clone()),
                gates: known.gates.clone(),
                ..answered
            });
        }
        let judged = self.judge(&side, &log.question)?;
        let now = device(&judged.record);
        if now != log.device {
            return Err(Error::environment(format!(
                "the answers in the log are from another device: {} and not {now}",
                log.device
            ))
            .at(self.path.display())
            .help("name that device with --device, or remove the log to begin again"));
        }
        (answered.answer, answered.gates) = answer(&log.question, &judged)?;
        answered.why = deciding(&answered.gates, answered.answer);
        Ok(answered)
    }

    fn survey(&self, side: &CandidateSide) -> Result<Survey> {
        let files = (&side.head, side.top.as_path());
        pipeline::survey(self.request, files, &side.compiler, self.cache, self.on)
    }

    /// Runs a side against the good one, as `run --base` does. Runs it again with more processes while times leave a
    /// gate of the question undecided.
    fn judge(&self, side: &CandidateSide, question: &[BlamedGate]) -> Result<Judged> {
        let waiting = |text: &str| (self.on)(Event::Waiting(text.to_owned()));
        let mut efforts = EFFORTS.into_iter().peekable();
        loop {
            let effort = efforts.next().unwrap_or(1);
            let mut change = self.sides.change(side)?;
            let plan = &mut change.head.plan;
            plan.timing.processes *= effort;
            plan.timing.max_processes *= effort;
            let mut pairing = config::pairing(false);
            pairing.looks.iter_mut().for_each(|look| *look *= effort);
            plan.pairing = Some(pairing);
            let record = std::thread::scope(|scope| {
                let device = pipeline::wake_device(scope, self.request, &change.head, &waiting)?;
                pipeline::run(self.request, change, device, self.cache, self.on)
            })?;
            let judgement = Index::new(&record).judge();
            let is_noise = |gate: &BlamedGate| {
                gate.rule
                    .metric()
                    .is_some_and(|metric| metric.facet() == Facet::Times)
                    && blame::answer(gate, &judgement.verdicts) == Some(Outcome::Inconclusive)
            };
            let is_timed = record.environment.device.got().is_some();
            if !is_timed || !question.iter().any(is_noise) || efforts.peek().is_none() {
                return Ok(Judged { record, judgement });
            }
            self.say("times do not decide yet: again with more processes".to_owned());
        }
    }

    fn say(&self, text: String) {
        (self.on)(Event::Waiting(format!("bisect: {text}")));
    }
}

/// Returns why a side does not build what the question is about, unless the question is whether it builds.
fn broken(survey: &Survey, question: &[BlamedGate]) -> Option<String> {
    if question.iter().any(|gate| gate.rule == Rule::Built) {
        return None;
    }
    let is_asked = |unit: &UnitId| {
        let mut subjects = question.iter().map(|gate| &gate.subject);
        subjects.any(|subject| subject.kernel() == unit.kernel)
    };
    let mut broken = survey.broken.iter();
    let (unit, fault) = broken.find(|(unit, _)| is_asked(unit))?;
    Some(format!("{unit}: {}", wording::reasons::fault(fault)))
}

/// Returns the name of the GPU, or `simulator`.
fn device(record: &Record) -> String {
    let device = record.environment.device.got();
    device.map_or("simulator".to_owned(), |device| device.name.clone())
}

/// Returns what the gates of the question say in a run, and the answer that follows: bad if one of them fails, and good
/// if all of them hold.
///
/// # Errors
/// Environment, if none fails and the machine left one without an answer.
fn answer(question: &[BlamedGate], judged: &Judged) -> Result<(Answer, Vec<GateSaid>)> {
    let verdicts = &judged.judgement.verdicts;
    let said: Vec<GateSaid> = question
        .iter()
        .map(|gate| {
            let is_asked = |verdict: &&Verdict| {
                verdict.subject == gate.subject && blame::blameable(verdict).contains(gate)
            };
            let verdict = verdicts.iter().find(is_asked);
            let sentence = verdict
                .map(|verdict| wording::reasons::verdict(&judged.record.environment, verdict));
            GateSaid {
                outcome: blame::answer(gate, verdicts),
                sentence: sentence
                    .filter(|sentence| !sentence.is_empty())
                    .unwrap_or_else(|| "held".to_owned()),
            }
        })
        .collect();
    let all = |wanted: Outcome| said.iter().all(|said| said.outcome == Some(wanted));
    let find = |wanted: Outcome| said.iter().find(|said| said.outcome == Some(wanted));
    let kind = if find(Outcome::Fail).is_some() {
        Answer::Bad
    } else if let Some(said) = find(Outcome::Environment) {
        return Err(Error::environment(said.sentence.clone())
            .help("the log has all answers so far: the same command goes on"));
    } else if all(Outcome::Pass) {
        Answer::Good
    } else {
        Answer::Undecided
    };
    Ok((kind, said))
}

/// Returns the sentence of the gate that decided an answer.
fn deciding(gates: &[GateSaid], kind: Answer) -> String {
    let is_deciding = |said: &&GateSaid| match kind {
        Answer::Bad => said.outcome == Some(Outcome::Fail),
        Answer::Good | Answer::Skipped => true,
        Answer::Undecided => said.outcome != Some(Outcome::Pass),
    };
    let said = gates.iter().find(is_deciding);
    said.map(|said| said.sentence.clone()).unwrap_or_default()
}
