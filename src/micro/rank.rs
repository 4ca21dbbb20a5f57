//! The outcome of a sweep: configurations that hold every gate by their cycles, and the others by what they broke. Pure.

use super::plan::{self, Configuration};
use judge::stats::Sample;
use model::occupancy::{Demand, occupancy};
use model::{
    BuildFacts, Case, DeviceFacts, Environment, Fault, Judgement, Launch, Metric, NotRun, Outcome,
    Question, Record, Rule, Seen, Verdict,
};
use search::Seed;
use system::error::{Error, Result};
use wording::reasons;
use wording::words;

#[derive(Debug)]
pub struct Ranking {
    pub environment: Environment,
    /// The fastest first.
    pub clocked: Vec<Clocked>,
    /// Right, and without a clock to rank them by.
    pub unranked: Vec<Seed>,
    pub dropped: Vec<Dropped>,
}

/// A configuration that holds every gate, as it is launched to be clocked.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub values: Seed,
    pub registers: u32,
    pub shared_bytes: u64,
    pub blocks_per_sm: u32,
    /// Blocks of the whole GPU.
    pub blocks: u32,
    queries_per_block: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Clocked {
    pub kept: Kept,
    /// Cycles of a multiprocessor for one query, over repeats: median and quartiles.
    pub cycles: f64,
    pub quartiles: [f64; 2],
}

/// A configuration that has no cycles, and the gate that it did not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    pub values: Seed,
    pub gate: String,
    /// The code of the reason (docs/verdicts.md).
    pub code: &'static str,
    pub message: String,
}

impl Kept {
    /// As many blocks as are resident at a time. `None` where this architecture's limits are not known, or none fits.
    pub fn of(
        configuration: Configuration,
        built: &BuildFacts,
        case: &Case,
        device: &DeviceFacts,
    ) -> Option<Self> {
        let resources = built.entries.first()?.resources.as_ref()?;
        let launch = case.steps.first()?.launch.as_ref()?;
        let shared_bytes = u64::from(resources.static_shared) + u64::from(launch.dynamic_shared);
        let fits = occupancy(
            device.arch(),
            Demand {
                registers: resources.registers,
                shared_bytes,
                barriers: resources.barriers,
                threads_per_block: Launch::threads_per_block(launch),
            },
        )?;
        let blocks = fits.blocks_per_sm.checked_mul(device.multiprocessors)?;
        let queries = *configuration.values.get("BLOCK_M")?;
        (blocks > 0).then_some(Self {
            values: configuration.values,
            registers: resources.registers,
            shared_bytes,
            blocks_per_sm: fits.blocks_per_sm,
            blocks,
            queries_per_block: u64::try_from(queries).ok()?,
        })
    }
}

impl Ranking {
    pub fn new(record: &Record) -> Self {
        Self {
            environment: record.environment.clone(),
            clocked: Vec::new(),
            unranked: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Why nothing is ranked, where there is no clock.
    pub fn lacks_clock(&self) -> Option<&NotRun> {
        match &self.environment.device {
            Seen::NotRun(why) => Some(why),
            _ => None,
        }
    }

    /// `cycles`: of each block its repeats.
    pub fn take(&mut self, kept: Kept, cycles: &[u64]) {
        let queries = u64::from(kept.blocks_per_sm) * kept.queries_per_block;
        match Clocked::of(kept.clone(), cycles, queries) {
            Some(clocked) => self.clocked.push(clocked),
            None => self.dropped.push(Dropped {
                values: kept.values,
                gate: "clock".to_owned(),
                code: "no-clock",
                message: "the clock did not move".to_owned(),
            }),
        }
    }

    pub fn sort(&mut self) {
        self.clocked.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
    }
}

impl Clocked {
    /// Blocks of a multiprocessor share it: what each takes is divided by the queries of all. `None` where a repeat took
    /// no time.
    fn of(kept: Kept, cycles: &[u64], queries: u64) -> Option<Self> {
        let blocks: Vec<&[u64]> = plan::repeats_of(cycles).collect();
        let repeats = blocks.first()?.len();
        let means: Vec<u64> = (0..repeats)
            .map(|repeat| {
                let of_blocks: Vec<u64> = blocks
                    .iter()
                    .filter_map(|block| block.get(repeat).copied())
                    .collect();
                Some(Sample::new(&of_blocks)?.mean().round() as u64)
            })
            .collect::<Option<_>>()?;
        let sample = Sample::new(&means)?;
        let per_query = |cycles: f64| cycles / queries as f64;
        (sample.min() > 0.0 && queries > 0).then(|| Self {
            kept,
            cycles: per_query(sample.median()),
            quartiles: [0.25, 0.75].map(|q| per_query(sample.quantile(q))),
        })
    }
}

impl Dropped {
    pub fn by_fault(values: Seed, fault: &Fault) -> Self {
        Self {
            values,
            gate: "clock".to_owned(),
            code: fault.kind.code(),
            message: reasons::fault(fault),
        }
    }
}

/// The error that ended the run before all was judged.
pub fn of_environment(record: &Record, judgement: &Judgement) -> String {
    let mut verdicts = judgement.verdicts.iter();
    let verdict = verdicts.find(|it| it.outcome == Outcome::Environment);
    verdict.map_or_else(
        || "the environment failed".to_owned(),
        |verdict| reasons::verdict(&record.environment, verdict),
    )
}

/// The gate that a configuration does not hold: one that failed, else one that did not decide. A gate that was not asked
/// here is none, but the output has to be known to be right.
///
/// # Errors
/// Environment, where nothing was judged of it.
pub fn find_broken(
    configuration: &Configuration,
    record: &Record,
    judgement: &Judgement,
) -> Result<Option<Dropped>> {
    let name = configuration.name();
    let is_error_limit = |verdict: &&Verdict| match &verdict.question {
        Question::Gate(Rule::Limit { metric, .. }) => *metric == Metric::MaxErr,
        _ => false,
    };
    // Another configuration may come to the same code: each is right or not by itself.
    let own = || {
        let verdicts = judgement.verdicts.iter();
        verdicts.filter(|verdict| {
            verdict.subject.variant() == name && verdict.question != Question::Gate(Rule::HasEffect)
        })
    };
    let broken = own()
        .find(|it| it.outcome == Outcome::Fail)
        .or_else(|| own().find(|it| !matches!(it.outcome, Outcome::Pass | Outcome::Skipped)));
    let proof = own()
        .find(is_error_limit)
        .ok_or_else(|| Error::environment(format!("{name} was not judged")))?;
    let unproven = (proof.outcome != Outcome::Pass).then_some(proof);
    Ok(broken.or(unproven).map(|verdict| Dropped {
        values: configuration.values.clone(),
        gate: words::question(&verdict.question),
        code: verdict.reason.code(),
        message: reasons::verdict(&record.environment, verdict),
    }))
}
