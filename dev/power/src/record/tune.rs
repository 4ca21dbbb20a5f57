//! Finds the work with which the built-in kernels take the requested times and slowdowns.

use super::slowdown::{self, Code, Kernel, Line, Work};
use super::{Artifacts, Pair, Request, Side, process_of};
use crate::{Bound, Change};
use build::Artifact;
use gatekeeper::doctor::builtin::time;
use model::{Case, DeviceFacts};
use run::worker::Crew;
use system::error::{Error, Result};

/// Slowdowns are adjusted `ROUNDS` times, each time after `TRIALS` fresh processes.
const ROUNDS: u32 = 5;
const TRIALS: u32 = 4;

/// The built-in kernels at every requested time of one launch, with every change.
pub(super) fn pairs(
    request: &Request,
    crew: &mut Crew,
    artifacts: &Artifacts,
    device: &DeviceFacts,
) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    let mut slowed = Vec::new();
    for kernel in Kernel::ALL {
        let artifact = |code| {
            let found = artifacts.get(&(kernel, code)).cloned();
            found.ok_or_else(|| Error::environment(format!("{} was not built", kernel.name())))
        };
        for &class_us in &request.classes {
            let tuned = Tuned::find(crew, kernel, class_us, artifact(Code::Plain)?, device)?;
            for &change in &request.changes {
                match change {
                    Change::None => pairs.push(tuned.pair(change, 0.0, tuned.artifact.clone())),
                    Change::OtherCode => {
                        pairs.push(tuned.pair(change, 0.0, artifact(Code::Other)?));
                    }
                    Change::Slower(share) => slowed.push(Slowed::from(tuned.clone(), share)),
                }
            }
        }
    }
    for round in 0..ROUNDS {
        for process in 0..TRIALS {
            crew.retire();
            for slowed in &mut slowed {
                slowed.measure(crew, round * TRIALS + process)?;
            }
        }
        slowed.iter_mut().for_each(Slowed::adjust);
    }
    pairs.extend(slowed.into_iter().map(Slowed::best));
    // Processes time the contests of one kernel one after the other.
    pairs.sort_by_key(|pair| (pair.name.clone(), pair.class_us));
    Ok(pairs)
}

/// A built-in kernel at one time of a launch.
#[derive(Clone)]
struct Tuned {
    kernel: Kernel,
    class_us: u32,
    base: Work,
    device: DeviceFacts,
    artifact: Artifact,
    /// The time of a launch by its number of steps.
    line: Line,
}

impl Tuned {
    fn find(
        crew: &mut Crew,
        kernel: Kernel,
        class_us: u32,
        artifact: Artifact,
        device: &DeviceFacts,
    ) -> Result<Self> {
        let shape = shape(class_us);
        let mut search = Search {
            crew,
            case: |work: Work| kernel.case(&shape, work, device),
            artifact: &artifact,
        };
        let ns = f64::from(class_us) * 1000.0;
        let guess = kernel.guess(class_us, device);
        let steps = |steps: f64| Work {
            elements: 0,
            steps: steps.round() as u32,
        };
        let elements = |elements: f64| Work {
            elements: elements.round() as u32,
            steps: slowdown::REST,
        };
        let base = match kernel {
            Kernel::Compute => steps(search.around(guess, ns, steps)?),
            Kernel::Memory => elements(search.around(guess, ns, elements)?),
        };
        // Up to 10 % more time, in the chain alone.
        let from = f64::from(base.steps);
        let far = from + kernel.tenth(class_us);
        let line = search.line((from, far), |steps| Work {
            steps: steps.round() as u32,
            ..base
        })?;
        Ok(Self {
            kernel,
            class_us,
            base,
            device: device.clone(),
            artifact,
            line,
        })
    }

    /// Builds the pair whose head does `more` steps than its base.
    fn pair(&self, change: Change, more: f64, head: Artifact) -> Pair {
        let shape = shape(self.class_us);
        let work = Work {
            steps: (f64::from(self.base.steps) + more).round() as u32,
            ..self.base
        };
        Pair {
            name: self.kernel.name().to_owned(),
            bound: match self.kernel {
                Kernel::Compute => Bound::Compute,
                Kernel::Memory => Bound::Memory,
            },
            class_us: self.class_us,
            change,
            head: Side {
                case: self.kernel.case(&shape, work, &self.device),
                artifact: head,
            },
            base: Side {
                case: self.kernel.case(&shape, self.base, &self.device),
                artifact: self.artifact.clone(),
            },
        }
    }
}

fn shape(class_us: u32) -> String {
    format!("{class_us}us")
}

/// A kernel whose steps are adjusted until pairs show the requested slowdown. The line alone is not enough: it was
/// measured in one process, and its error exceeds a hundredth of a time.
struct Slowed {
    tuned: Tuned,
    wanted: f64,
    /// The number of steps that head does in addition to the base's.
    more: f64,
    /// Log ratios measured at these steps.
    seen: Vec<f64>,
    /// The steps that came nearest, and their error.
    nearest: Option<(f64, f64)>,
}

impl Slowed {
    fn from(tuned: Tuned, wanted: f64) -> Self {
        let more = tuned
            .line
            .work_for(f64::from(tuned.class_us) * 1000.0 * wanted);
        Self {
            tuned,
            wanted,
            more,
            seen: Vec::new(),
            nearest: None,
        }
    }

    fn pair(&self, more: f64) -> Pair {
        let head = self.tuned.artifact.clone();
        self.tuned.pair(Change::Slower(self.wanted), more, head)
    }

    fn measure(&mut self, crew: &mut Crew, process: u32) -> Result<()> {
        let facts = self.pair(self.more).measure(crew, process)?;
        self.seen.extend(process_of(&facts).ln_ratio());
        Ok(())
    }

    fn adjust(&mut self) {
        let mean = self.seen.iter().sum::<f64>() / self.seen.len().max(1) as f64;
        self.seen.clear();
        let change = mean.exp_m1();
        let error = (change - self.wanted).abs();
        if self.nearest.is_none_or(|(_, least)| error < least) {
            self.nearest = Some((self.more, error));
        }
        let by = if change > 0.0 {
            (self.wanted / change).clamp(0.5, 2.0)
        } else {
            // No slowdown at all.
            2.0
        };
        self.more = (self.more * by).round().max(1.0);
    }

    fn best(self) -> Pair {
        self.pair(self.nearest.map_or(self.more, |(more, _)| more))
    }
}

/// Finds the work that takes a given time.
struct Search<'a, 'c, C> {
    crew: &'a mut Crew<'c>,
    case: C,
    artifact: &'a Artifact,
}

impl<C: Fn(Work) -> Case> Search<'_, '_, C> {
    fn line(&mut self, (low, high): (f64, f64), work: impl Fn(f64) -> Work) -> Result<Line> {
        let mut at = |amount: f64| {
            let case = (self.case)(work(amount));
            Ok::<_, Error>((amount, time(self.crew, &case, self.artifact)?))
        };
        let (low, high) = (at(low)?, at(high)?);
        Line::through(low, high).ok_or_else(|| {
            Error::environment("a built-in kernel took no longer for more work; is the GPU in use?")
        })
    }

    /// Returns the work that takes `ns`. It searches twice, the second time around the first result, because caches
    /// bend the line.
    fn around(&mut self, guess: f64, ns: f64, work: impl Fn(f64) -> Work) -> Result<f64> {
        let first = self.line((guess * 0.8, guess * 1.2), &work)?.work(ns);
        Ok(self.line((first * 0.8, first * 1.2), &work)?.work(ns))
    }
}
