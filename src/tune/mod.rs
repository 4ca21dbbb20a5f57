//! `tune`: searches the macros of a variant for a faster configuration. A configuration is a plan with other
//! definitions. It is built, checked and timed like any variant, and one that does not hold its gates gets no time.
//!
//! `candidate` is a configuration on its way. `evaluator` builds, checks and times it. `race` tells who is faster.
//! `outcome` is the result, `log` the file that keeps it, and `sources` finds the files that configurations are built
//! from. crates/search chooses the next configuration.

pub mod candidate;
pub mod evaluator;
pub mod layout;
pub mod log;
pub mod outcome;
mod race;
pub mod sources;
#[cfg(test)]
mod tests;

use build::Built;
use candidate::{Candidate, point_of, values_of};
use config::{Budget, Tuning};
use evaluator::{Builder, Evaluator, Proof};
use log::{Earlier, Event, Log};
use model::{Arch, Pairing};
use outcome::{
    Confirmation, Dropped, DroppedBy, Evaluation, Outcome, ParameterValues, Ranked, Shown,
};
use search::{Elite, Guided, Point, Space, Strategy};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use system::error::{Error, Result};

/// The number of configurations that are built, checked and timed together. Meanwhile the next ones are built.
const BATCH: usize = 4;

/// The least time for a configuration. A process that has just started needs a while before its first kernel runs.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// The strategy that chooses the next configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Method {
    /// A model learns from what was tried
    Guided,
    /// The best few, changed in one definition or more
    Elite,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Self::Guided => "guided",
            Self::Elite => "elite",
        }
    }

    fn start(self, space: Arc<Space>, seed: u64) -> Box<dyn Strategy> {
        match self {
            Self::Guided => Box::new(Guided::new(space, seed)),
            Self::Elite => Box::new(Elite::new(space, seed)),
        }
    }
}

/// The settings of a search, from the command line.
pub struct Settings {
    pub method: Method,
    pub seed: u64,
    pub budget: Budget,
    pub pairing: Pairing,
    /// The architecture to build for, or `None` for the first one in the file.
    pub arch: Option<Arch>,
}

/// The ways in which a search can end.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The start does not hold its own gates.
    StartDropped(Dropped),
    /// There is no GPU, so candidates were only ranked by estimates.
    Ranked,
    /// Nothing was faster than the start.
    NoneFaster,
    Confirmed(Confirmation),
    /// The winner broke when it was to be confirmed.
    WinnerDropped(Dropped),
}

/// Everything that a search found out.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchResult {
    pub evaluations: Vec<Evaluation>,
    /// The number of valid configurations with a known result. The start can be one of them.
    pub looked_at: usize,
    /// The numbers of the configurations that became the best, in order.
    pub bests: Vec<u32>,
    pub end: End,
    /// Parameters that never changed what executes, when two configurations differed in nothing else.
    pub inert: Vec<String>,
    /// The shapes that have estimates. It is empty if times were taken.
    pub ranked_at: Vec<String>,
    /// The shapes at which nothing was checked, because the simulator cannot run them.
    pub unseen: Vec<String>,
    pub elapsed: Duration,
}

/// The progress of a search so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    pub evaluations: usize,
    /// The cost of the best, relative to the start's.
    pub best: f64,
    /// `None` if nothing was tried yet.
    pub left: Option<Duration>,
}

/// Searches for a faster configuration.
///
/// # Errors
/// Environment, if the machine failed or the log cannot be written.
pub fn search(
    tuning: &Tuning,
    space: Arc<Space>,
    settings: &Settings,
    (log, earlier): (&mut Log, Earlier),
    (builder, evaluator): (&impl Builder, &mut impl Evaluator),
    say: &dyn Fn(Progress),
) -> Result<SearchResult> {
    let start = Candidate::new(tuning, 0, None, own_values(tuning), settings.arch);
    let point = point_of(&space, &start.values);
    let mut start = Candidate { point, ..start };
    build(builder, std::slice::from_mut(&mut start))?;
    let mut search = Search {
        tuning,
        settings,
        strategy: settings.method.start(space.clone(), settings.seed),
        space,
        log,
        known: HashMap::new(),
        evaluations: Vec::new(),
        bests: Vec::new(),
        best: None,
        best_cost: 1.0,
        has_start: start.point.is_some(),
        patience: LEAST_PATIENCE,
        start_ns: BTreeMap::new(),
        spent: 0,
        next: 1,
        began: Instant::now(),
        before: Duration::ZERO,
    };
    let proof = match start.unbuilt() {
        Some(why) => Err(why),
        None => first(evaluator.prove(&[&start])?)?,
    };
    search.patience = evaluator.took().max(LEAST_PATIENCE);
    let proof = match proof {
        Ok(proof) => proof,
        Err(why) => return Ok(search.end(End::StartDropped(why), Vec::new())),
    };
    let unseen = proof.unseen.clone();
    if let Err(why) = search.begin(&start, proof, evaluator.has_clock()) {
        return Ok(search.end(End::StartDropped(why), unseen));
    }
    if let Some(point) = start.point {
        search.strategy.tell(point, Some(1.0));
    }
    search.replay(earlier, builder)?;
    search.run(&start, builder, evaluator, say)?;
    let end = match (evaluator.has_clock(), &search.best) {
        (false, _) => End::Ranked,
        (true, None) => End::NoneFaster,
        (true, Some(best)) => match race::confirm(evaluator, best, &start, &settings.pairing) {
            Ok(confirmation) => {
                search.log.write(&Event::Confirmed(confirmation.clone()))?;
                End::Confirmed(confirmation)
            }
            Err(why) => End::WinnerDropped(why),
        },
    };
    Ok(search.end(end, unseen))
}

/// Returns the values of the parameters that the start defines.
pub fn own_values(tuning: &Tuning) -> ParameterValues {
    tuning
        .tune
        .parameters
        .iter()
        .filter_map(|parameter| {
            let value = tuning.macros.get(&parameter.name)?.parse().ok()?;
            Some((parameter.name.clone(), value))
        })
        .collect()
}

fn build(builder: &impl Builder, batch: &mut [Candidate]) -> Result<()> {
    let units = units(batch);
    hand_out(batch, builder.build(&units)?);
    Ok(())
}

fn units(batch: &[Candidate]) -> Vec<model::Unit> {
    let asked = batch
        .iter()
        .filter_map(|candidate| candidate.asked.as_ref().ok());
    asked.flat_map(|asked| asked.units.clone()).collect()
}

fn hand_out(batch: &mut [Candidate], built: Vec<Built>) {
    let mut built = built.into_iter();
    for candidate in batch {
        let count = candidate
            .asked
            .as_ref()
            .map_or(0, |asked| asked.units.len());
        candidate.built = built.by_ref().take(count).collect();
    }
}

fn first<T>(all: Vec<T>) -> Result<T> {
    let first = all.into_iter().next();
    first.ok_or_else(|| Error::environment("a configuration was lost on the way"))
}

struct Search<'a> {
    tuning: &'a Tuning,
    settings: &'a Settings,
    space: Arc<Space>,
    strategy: Box<dyn Strategy>,
    log: &'a mut Log,
    /// The code of each configuration, with the first configuration that has it.
    known: HashMap<String, u32>,
    evaluations: Vec<Evaluation>,
    bests: Vec<u32>,
    /// The best candidate, or `None` if that is the start.
    best: Option<Candidate>,
    best_cost: f64,
    /// The start is a valid configuration.
    has_start: bool,
    /// The time that a configuration may take for one seed. If it takes longer than all of the start did, it counts as
    /// one that does not end.
    patience: Duration,
    /// The estimates of the start, by the shapes that are ranked.
    start_ns: BTreeMap<String, f64>,
    /// The number of evaluations that used a part of the budget.
    spent: usize,
    /// The number of the next configuration.
    next: u32,
    began: Instant,
    /// The time of earlier parts of the search.
    before: Duration,
}

impl Search<'_> {
    fn elapsed(&self) -> Duration {
        self.before + self.began.elapsed()
    }

    /// Makes the start the measure of all other configurations. In the simulator, only shapes with an estimate of the
    /// start count.
    fn begin(
        &mut self,
        start: &Candidate,
        proof: Proof,
        has_clock: bool,
    ) -> std::result::Result<(), Dropped> {
        if !has_clock {
            let objective = &self.tuning.tune.objective;
            self.start_ns = if objective
                .iter()
                .map(|(shape, _)| shape)
                .all(|shape| proof.estimated_ns.contains_key(shape))
            {
                proof
                    .estimated_ns
                    .into_iter()
                    .filter(|(shape, _)| objective.iter().any(|(known, _)| known == shape))
                    .collect()
            } else {
                proof.estimated_ns
            };
            if self.start_ns.is_empty() {
                return Err(no_estimate());
            }
        }
        if let Some(code) = start.code() {
            self.known.insert(code, 0);
        }
        Ok(())
    }

    /// Adds the configurations of an earlier search, which are not tried again.
    fn replay(&mut self, earlier: Earlier, builder: &impl Builder) -> Result<()> {
        if let Some(&number) = earlier.bests.last()
            && let Some(values) = earlier.values(number)
        {
            let mut best = self.candidate(number, None, values.clone());
            build(builder, std::slice::from_mut(&mut best))?;
            self.best = Some(best);
        }
        self.bests = earlier.bests;
        for evaluation in earlier.evaluations {
            self.next = self.next.max(evaluation.number + 1);
            self.before = self.before.max(Duration::from_millis(evaluation.at_ms));
            if let Some(point) = point_of(&self.space, &evaluation.values) {
                self.tell(point, &evaluation);
            }
            if self.bests.last() == Some(&evaluation.number) {
                self.best_cost = evaluation.outcome.cost().unwrap_or(1.0);
            }
            self.keep(evaluation);
        }
        Ok(())
    }

    fn run(
        &mut self,
        start: &Candidate,
        builder: &impl Builder,
        evaluator: &mut impl Evaluator,
        say: &dyn Fn(Progress),
    ) -> Result<()> {
        let mut ahead = Vec::new();
        loop {
            if ahead.is_empty() {
                ahead = self.ask(0);
                build(builder, &mut ahead)?;
            }
            let batch = std::mem::take(&mut ahead);
            if batch.is_empty() {
                return Ok(());
            }
            ahead = self.ask(batch.len());
            let units = units(&ahead);
            let built = std::thread::scope(|scope| {
                let building = scope.spawn(|| builder.build(&units));
                let evaluated = self.evaluate(batch, start, evaluator);
                let built = building.join();
                let built =
                    built.unwrap_or_else(|_| Err(Error::environment("the build stage panicked")));
                evaluated.and(built)
            });
            hand_out(&mut ahead, built?);
            say(self.progress());
        }
    }

    fn progress(&self) -> Progress {
        let elapsed = self.elapsed();
        let left = match self.settings.budget {
            Budget::Time(time) => Some(time.saturating_sub(elapsed)),
            Budget::Evaluations(most) => {
                let left = self.left_in_space().min(most.saturating_sub(self.spent));
                let each = elapsed.checked_div(u32::try_from(self.spent).unwrap_or(u32::MAX));
                each.map(|each| each.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX)))
            }
        };
        Progress {
            evaluations: self.spent,
            best: self.best_cost,
            left,
        }
    }

    fn left_in_space(&self) -> usize {
        self.space.len().saturating_sub(self.looked_at())
    }

    fn looked_at(&self) -> usize {
        self.evaluations.len() + usize::from(self.has_start)
    }

    /// Asks the strategy for the next few configurations that the budget allows, in addition to those on their way.
    fn ask(&mut self, on_their_way: usize) -> Vec<Candidate> {
        let allowed = match self.settings.budget {
            Budget::Evaluations(most) => most.saturating_sub(self.spent + on_their_way),
            Budget::Time(time) if self.elapsed() < time => BATCH,
            Budget::Time(_) => 0,
        };
        let mut batch = Vec::new();
        while batch.len() < BATCH.min(allowed)
            && let Some(point) = self.strategy.ask()
        {
            let number = self.next;
            self.next += 1;
            let values = values_of(&self.space, point);
            batch.push(self.candidate(number, Some(point), values));
        }
        batch
    }

    fn candidate(&self, number: u32, point: Option<Point>, values: ParameterValues) -> Candidate {
        let arch = self.settings.arch;
        let mut candidate = Candidate::new(self.tuning, number, point, values, arch);
        let patience = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
        for case in candidate
            .asked
            .iter_mut()
            .flat_map(|asked| &mut asked.cases)
        {
            case.deadline_ms = case.deadline_ms.min(patience);
        }
        candidate
    }

    fn evaluate(
        &mut self,
        batch: Vec<Candidate>,
        start: &Candidate,
        evaluator: &mut impl Evaluator,
    ) -> Result<()> {
        let (mut field, mut same) = (Vec::new(), Vec::new());
        for candidate in batch {
            let code = candidate.code();
            let known = code.as_ref().and_then(|code| self.known.get(code));
            match (candidate.unbuilt(), known) {
                (Some(why), _) => self.file(&candidate, Outcome::Dropped(why))?,
                (None, Some(&number)) => same.push((candidate, number)),
                (None, None) => {
                    self.known.extend(code.map(|code| (code, candidate.number)));
                    field.push(candidate);
                }
            }
        }
        if !field.is_empty() {
            self.evaluate_new(field, start, evaluator)?;
        }
        // Equal configurations of this batch are included, because the result of the other one is known only now.
        for (candidate, number) in same {
            self.file(&candidate, Outcome::Same { number })?;
        }
        Ok(())
    }

    /// Evaluates a configuration whose code nothing before executed.
    fn evaluate_new(
        &mut self,
        field: Vec<Candidate>,
        start: &Candidate,
        evaluator: &mut impl Evaluator,
    ) -> Result<()> {
        let proofs = evaluator.prove(&field.iter().collect::<Vec<_>>())?;
        let mut right = Vec::new();
        for (candidate, proof) in field.into_iter().zip(proofs) {
            match proof {
                Err(mut why) => {
                    why.estimated_cost = self.rank(&why.estimated_ns).map(|ranked| ranked.cost);
                    self.file(&candidate, Outcome::Dropped(why))?;
                }
                Ok(_) if evaluator.has_clock() => right.push(candidate),
                Ok(proof) => {
                    let outcome = match self.rank(&proof.estimated_ns) {
                        Some(ranked) => Outcome::Ranked(ranked),
                        None => Outcome::Dropped(no_estimate()),
                    };
                    let cost = outcome.cost();
                    self.file(&candidate, outcome)?;
                    if let Some(cost) = cost.filter(|cost| *cost < self.best_cost) {
                        self.take(candidate, cost)?;
                    }
                }
            }
        }
        if !right.is_empty() {
            self.time(right, start, evaluator)?;
        }
        Ok(())
    }

    fn time(
        &mut self,
        right: Vec<Candidate>,
        start: &Candidate,
        evaluator: &mut impl Evaluator,
    ) -> Result<()> {
        let best = (self.best.as_ref().unwrap_or(start), self.best_cost);
        let timed = race::select(evaluator, &right.iter().collect::<Vec<_>>(), best);
        let mut faster: Option<(f64, Candidate)> = None;
        for (candidate, timed) in right.into_iter().zip(timed) {
            match timed {
                Err(why) => self.file(&candidate, Outcome::Dropped(why))?,
                Ok(timed) => {
                    let (cost, takes_over) = (timed.cost, race::takes_over(&timed));
                    if takes_over && let Err(why) = evaluator.look_for_races(&candidate)? {
                        self.file(&candidate, Outcome::Dropped(why))?;
                        continue;
                    }
                    self.file(&candidate, Outcome::Timed(timed))?;
                    // All of a batch were timed against the same configuration, in the same processes.
                    if takes_over && faster.as_ref().is_none_or(|(least, _)| cost < *least) {
                        faster = Some((cost, candidate));
                    }
                }
            }
        }
        match faster {
            Some((cost, candidate)) => self.take(candidate, cost),
            None => Ok(()),
        }
    }

    fn take(&mut self, candidate: Candidate, cost: f64) -> Result<()> {
        self.log.write(&Event::Best {
            number: candidate.number,
        })?;
        self.bests.push(candidate.number);
        self.best = Some(candidate);
        self.best_cost = cost;
        Ok(())
    }

    /// Ranks a candidate by the geometric mean of the ratios of its estimates to the start's.
    fn rank(&self, all: &BTreeMap<String, f64>) -> Option<Ranked> {
        let objective = &self.tuning.tune.objective;
        let weight = |shape: &String| {
            let own = objective.iter().find(|(known, _)| known == shape);
            own.map_or(1.0, |(_, weight)| *weight)
        };
        // If not all shapes of the objective are ranked, the weights are ignored and all shapes count the same.
        let is_objective = objective
            .iter()
            .all(|(shape, _)| self.start_ns.contains_key(shape));
        let (mut sum, mut weights) = (0.0, 0.0);
        let mut estimated_ns = BTreeMap::new();
        for (shape, start) in &self.start_ns {
            let ns = *all.get(shape)?;
            let weight = if is_objective { weight(shape) } else { 1.0 };
            sum += weight * (ns / start).ln();
            weights += weight;
            estimated_ns.insert(shape.clone(), ns);
        }
        (weights > 0.0).then(|| Ranked {
            estimated_ns,
            cost: (sum / weights).exp(),
        })
    }

    /// Writes an outcome to the log before anything else is begun, and passes it to the strategy.
    fn file(&mut self, candidate: &Candidate, outcome: Outcome) -> Result<()> {
        let evaluation = Evaluation {
            number: candidate.number,
            values: candidate.values.clone(),
            code: candidate.code(),
            resources: self.resources(candidate),
            outcome,
            at_ms: u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX),
            compile_ms: candidate.compile_ms(),
        };
        self.log.write(&Event::Evaluated(evaluation.clone()))?;
        if let Some(point) = candidate.point {
            self.tell(point, &evaluation);
        }
        self.keep(evaluation);
        Ok(())
    }

    fn keep(&mut self, evaluation: Evaluation) {
        self.spent += usize::from(evaluation.outcome.is_counted());
        if let Some(code) = &evaluation.code {
            self.known.entry(code.clone()).or_insert(evaluation.number);
        }
        self.evaluations.push(evaluation);
    }

    fn tell(&mut self, point: Point, evaluation: &Evaluation) {
        let cost = match &evaluation.outcome {
            Outcome::Same { number: 0 } => Some(1.0),
            Outcome::Same { number } => {
                let same = self
                    .evaluations
                    .iter()
                    .find(|evaluation| evaluation.number == *number);
                same.and_then(|same| same.outcome.cost())
            }
            other => other.cost(),
        };
        self.strategy.tell(point, cost);
    }

    fn resources(&self, candidate: &Candidate) -> Option<outcome::Resources> {
        let (shape, _) = self.tuning.tune.objective.first()?;
        candidate.resources(shape)
    }

    fn end(self, end: End, unseen: Vec<String>) -> SearchResult {
        let elapsed = self.elapsed();
        SearchResult {
            looked_at: self.looked_at(),
            inert: inert(&self.space, &self.evaluations),
            evaluations: self.evaluations,
            bests: self.bests,
            end,
            ranked_at: self.start_ns.into_keys().collect(),
            unseen,
            elapsed,
        }
    }
}

fn no_estimate() -> Dropped {
    let message = "the simulator gives no estimate to rank it by".to_owned();
    Dropped::new(DroppedBy::Estimate, "estimate", "estimate", message)
}

/// Returns the parameters whose value never changed what executes, as far as two configurations differ in nothing else.
fn inert(space: &Space, evaluations: &[Evaluation]) -> Vec<String> {
    let built: Vec<(&ParameterValues, &String)> = evaluations
        .iter()
        .filter_map(|evaluation| Some((&evaluation.values, evaluation.code.as_ref()?)))
        .collect();
    let parameters = space.parameters().iter().map(|parameter| &parameter.name);
    let is_inert = |name: &&String| {
        let mut codes: HashMap<Vec<(&String, &i64)>, Vec<&String>> = HashMap::new();
        for (values, code) in &built {
            codes
                .entry(values.iter().filter(|(known, _)| known != name).collect())
                .or_default()
                .push(code);
        }
        let mut pairs = codes.values().filter(|codes| codes.len() > 1).peekable();
        pairs.peek().is_some()
            && pairs.all(|codes| codes.iter().all(|code| Some(code) == codes.first()))
    };
    parameters.filter(is_inert).cloned().collect()
}

impl SearchResult {
    /// Returns true if a configuration was shown to be faster than the start.
    pub fn is_shown(&self) -> bool {
        self.winner().is_some()
    }

    /// Returns the values of the winner, if it was shown to be faster than the start.
    pub fn winner(&self) -> Option<&ParameterValues> {
        let End::Confirmed(confirmation) = &self.end else {
            return None;
        };
        self.evaluations
            .iter()
            .filter(|_| confirmation.shown == Shown::Faster)
            .find(|one| one.number == confirmation.winner)
            .map(|one| &one.values)
    }
}
