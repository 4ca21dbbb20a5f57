//! Turns the dials of the built-in kernels to the times and changes that are asked for.

use super::dial::{self, Code, Dial, Line, Work};
use super::{Artifacts, Pair, Request, Side, process_of, time};
use crate::build::Artifact;
use crate::error::{Error, Result};
use crate::worker::Crew;
use power::{Bound, Change};
use verdict::model::{Case, DeviceFacts};

/// How often dials are turned again, and after how many fresh processes each time.
const ROUNDS: u32 = 5;
const TRIALS: u32 = 4;

/// The built-in kernels at every time of one launch that is asked for, with every change.
pub(super) fn pairs(
    request: &Request,
    crew: &mut Crew,
    artifacts: &Artifacts,
    device: &DeviceFacts,
) -> Result<Vec<Pair>> {
    let mut settled = Vec::new();
    let mut turned = Vec::new();
    for dial in Dial::ALL {
        let artifact = |code| {
            let found = artifacts.get(&(dial, code)).cloned();
            found.ok_or_else(|| Error::environment(format!("{} was not built", dial.name())))
        };
        for &class_us in &request.classes {
            let turn = Turn::find(crew, dial, class_us, artifact(Code::Plain)?, device)?;
            for &change in &request.changes {
                match change {
                    Change::None => settled.push(turn.pair(change, 0.0, turn.artifact.clone())),
                    Change::OtherCode => {
                        settled.push(turn.pair(change, 0.0, artifact(Code::Other)?));
                    }
                    Change::Slower(share) => turned.push(Turned::from(turn.clone(), share)),
                }
            }
        }
    }
    for round in 0..ROUNDS {
        for process in 0..TRIALS {
            crew.retire();
            for dial in &mut turned {
                dial.try_out(crew, round * TRIALS + process)?;
            }
        }
        turned.iter_mut().for_each(Turned::again);
    }
    settled.extend(turned.into_iter().map(Turned::settled));
    // Processes time the contests of one kernel one after the other.
    settled.sort_by_key(|pair| (pair.name.clone(), pair.class_us));
    Ok(settled)
}

/// A built-in kernel at one time of a launch.
#[derive(Clone)]
struct Turn {
    dial: Dial,
    class_us: u32,
    base: Work,
    device: DeviceFacts,
    artifact: Artifact,
    /// Time by steps of the dial.
    line: Line,
}

impl Turn {
    fn find(
        crew: &mut Crew,
        dial: Dial,
        class_us: u32,
        artifact: Artifact,
        device: &DeviceFacts,
    ) -> Result<Self> {
        let shape = shape(class_us);
        let mut search = Search {
            crew,
            read: |work: Work| dial.case(&shape, work, device),
            artifact: &artifact,
        };
        let ns = f64::from(class_us) * 1000.0;
        let guess = dial.guess(class_us, device);
        let steps = |steps: f64| Work {
            elements: 0,
            dial: steps.round() as u32,
        };
        let elements = |elements: f64| Work {
            elements: elements.round() as u32,
            dial: dial::REST,
        };
        let base = match dial {
            Dial::Compute => steps(search.around(guess, ns, steps)?),
            Dial::Memory => elements(search.around(guess, ns, elements)?),
        };
        // As far as 10 % of the time goes, in the chain alone.
        let from = f64::from(base.dial);
        let far = from + dial.turns(class_us);
        let line = search.line((from, far), |steps| Work {
            dial: steps.round() as u32,
            ..base
        })?;
        Ok(Self {
            dial,
            class_us,
            base,
            device: device.clone(),
            artifact,
            line,
        })
    }

    /// Head's dial stands so many steps higher.
    fn pair(&self, change: Change, more: f64, head: Artifact) -> Pair {
        let shape = shape(self.class_us);
        let work = Work {
            dial: (f64::from(self.base.dial) + more).round() as u32,
            ..self.base
        };
        Pair {
            name: self.dial.name().to_owned(),
            bound: match self.dial {
                Dial::Compute => Bound::Compute,
                Dial::Memory => Bound::Memory,
            },
            class_us: self.class_us,
            change,
            head: Side {
                case: self.dial.case(&shape, work, &self.device),
                artifact: head,
            },
            base: Side {
                case: self.dial.case(&shape, self.base, &self.device),
                artifact: self.artifact.clone(),
            },
        }
    }
}

fn shape(class_us: u32) -> String {
    format!("{class_us}us")
}

/// A dial that is turned until pairs show the change that is wanted. The line alone is of one process, and
/// a hundredth of a time is less than what it is off by.
struct Turned {
    turn: Turn,
    wanted: f64,
    /// Steps beside the base's.
    more: f64,
    /// Log ratios at these steps.
    seen: Vec<f64>,
    /// The steps that came nearest, and by how much they missed.
    best: Option<(f64, f64)>,
}

impl Turned {
    fn from(turn: Turn, wanted: f64) -> Self {
        let more = turn
            .line
            .work_for(f64::from(turn.class_us) * 1000.0 * wanted);
        Self {
            turn,
            wanted,
            more,
            seen: Vec::new(),
            best: None,
        }
    }

    fn pair(&self, more: f64) -> Pair {
        let head = self.turn.artifact.clone();
        self.turn.pair(Change::Slower(self.wanted), more, head)
    }

    fn try_out(&mut self, crew: &mut Crew, process: u32) -> Result<()> {
        let facts = self.pair(self.more).measure(crew, process)?;
        self.seen.extend(process_of(&facts).ln_ratio());
        Ok(())
    }

    fn again(&mut self) {
        let mean = self.seen.iter().sum::<f64>() / self.seen.len().max(1) as f64;
        self.seen.clear();
        let change = mean.exp_m1();
        let missed = (change - self.wanted).abs();
        if self.best.is_none_or(|(_, least)| missed < least) {
            self.best = Some((self.more, missed));
        }
        let by = match change > 0.0 {
            true => (self.wanted / change).clamp(0.5, 2.0),
            // Not seen at all.
            false => 2.0,
        };
        self.more = (self.more * by).round().max(1.0);
    }

    fn settled(self) -> Pair {
        self.pair(self.best.map_or(self.more, |(more, _)| more))
    }
}

/// Finds how much work takes how long.
struct Search<'a, 'c, R> {
    crew: &'a mut Crew<'c>,
    read: R,
    artifact: &'a Artifact,
}

impl<R: Fn(Work) -> Case> Search<'_, '_, R> {
    fn line(&mut self, (low, high): (f64, f64), work: impl Fn(f64) -> Work) -> Result<Line> {
        let mut at = |amount: f64| {
            let case = (self.read)(work(amount));
            Ok::<_, Error>((amount, time(self.crew, &case, self.artifact)?))
        };
        let (low, high) = (at(low)?, at(high)?);
        Line::through(low, high).ok_or_else(|| {
            Error::environment(
                "a built-in kernel takes no longer for more work; is the GPU in use?",
            )
        })
    }

    /// The work that takes this long. Looked for twice, the second time around what the first found:
    /// caches bend the line.
    fn around(&mut self, guess: f64, ns: f64, work: impl Fn(f64) -> Work) -> Result<f64> {
        let first = self.line((guess * 0.8, guess * 1.2), &work)?.work(ns);
        Ok(self.line((first * 0.8, first * 1.2), &work)?.work(ns))
    }
}
