//! Checks one seed of one case. The case is launched several times over poisoned outputs. Its outputs are compared with
//! one another and with the expected values, and afterwards its inputs and the memory around all tensors are examined.

use super::buffers::Buffers;
use super::job_cache::JobCache;
use super::kept::{self, Variables};
use super::stage::{OutputImages, StagedCase};
use crate::device::{Device, Failure, Result};
use crate::worker::protocol::{CheckJob, ExpectedOutput, Frame};
use build::Artifact;
use check::compare::{Incomparable, combine_launches, errors};
use check::inputs::generate;
use check::npy::write_npy;
use check::poison::{Left, first_difference, unwritten};
use check::{ComparedElements, Outputs, WrongBytes, decode};
use model::Unsupported;
use model::{
    Case, CheckFacts, Difference, ErrorFacts, Fault, FaultKind, KeptFacts, KeptVariable, Location,
    Num, Reference, Role, Seen, Tensor,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

/// The most bytes of outputs that wait to be compared.
const MOST_WAITING_BYTES: usize = 256 << 20;

/// The least number of launches. Poison alternates, so two launches are needed to find an output that was not written.
const LEAST_LAUNCHES: u32 = 2;

/// The expected outputs, by the inputs for which they were computed.
pub(super) struct Want {
    seen: Arc<Outputs>,
    original: Option<Arc<Outputs>>,
}

impl Want {
    pub fn new(seen: Arc<Outputs>) -> Self {
        Self {
            seen,
            original: None,
        }
    }
}

/// Checks one seed.
///
/// # Errors
/// Returns the faults of the kernel, and the faults of its reference as `FaultKind::Reference`.
pub fn check(
    device: &mut dyn Device,
    cache: &mut JobCache,
    job: &CheckJob,
    say: &mut dyn FnMut(Frame),
) -> Result<CheckFacts> {
    let step = |what: String| Frame::Step(what);
    let want = want(device, cache, job, say)?;
    say(step("making the inputs".to_owned()));
    let mut stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    cache.read_ahead();
    let dump = Dump::new(job);
    dump.before(&want)?;

    say(step("asking the driver about the kernel".to_owned()));
    say(Frame::Driver(match device.describe(&stage.call) {
        Ok(facts) => Seen::Got(facts),
        Err(Failure::Unsupported(why)) => Seen::Unsupported(why),
        Err(Failure::Fault {
            fault,
            sticky: false,
        }) => Seen::Fault(fault),
        Err(failure) => return Err(failure),
    }));

    let launches = job.case.launches.max(LEAST_LAUNCHES);
    let variables = Variables::read(device, stage.call.program)?;
    let (mut runs, after, changed) = launch_and_compare(
        device,
        cache,
        (&stage, &variables),
        (&job.case, &want),
        launches,
        say,
    )?;
    dump.after(runs.first.as_ref())?;
    if !changed.is_empty() {
        say(step("launching on what was left in variables".to_owned()));
        let case = (&job.case, &mut stage);
        runs.look_at_kept(device, cache, case, (&variables, changed), job.later_seed)?;
    }
    let (facts, first) = runs.facts(launches, after)?;
    keep(&mut cache.buffers, first.into_iter());
    Ok(facts)
}

/// The state of the memory around the outputs after launches.
#[derive(Default)]
pub(super) struct After {
    clobbered_inputs: Vec<String>,
    overruns: Vec<String>,
}

impl After {
    /// Reads the inputs and the bytes around the tensors after a launch, and remembers which were overwritten.
    pub fn look(
        &mut self,
        device: &mut dyn Device,
        stage: &StagedCase,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let clobbered = stage.clobbered(device, buffers)?;
        let overruns = stage.overruns(device)?;
        for (known, found) in [
            (&mut self.clobbered_inputs, clobbered),
            (&mut self.overruns, overruns),
        ] {
            for name in found {
                if !known.contains(&name) {
                    known.push(name);
                }
            }
        }
        Ok(())
    }
}

/// Launches, and compares each launch on a thread of its own while the next ones run.
fn launch_and_compare<'a>(
    device: &mut dyn Device,
    cache: &mut JobCache,
    (stage, variables): (&StagedCase, &Variables),
    (case, want): (&'a Case, &'a Want),
    launches: u32,
    say: &mut dyn FnMut(Frame),
) -> Result<(Runs<'a>, After, Vec<KeptVariable>)> {
    std::thread::scope(|scope| {
        // The queue is bounded, because outputs may be large. Comparing the first launch takes longer than a launch,
        // and comparing the others takes less time. If all of them fit, no launch waits for a comparison.
        let waiting =
            (MOST_WAITING_BYTES / stage.output_bytes().max(1)).clamp(1, launches as usize);
        let (launched, arrived) = mpsc::sync_channel::<(u32, OutputImages)>(waiting);
        let (compared, spare) = mpsc::channel::<OutputImages>();
        let comparing = scope.spawn(move || {
            let mut runs = Runs::new(case, want, stage.compared(case)?)?;
            for (launch, outputs) in arrived {
                runs.look_between_strides(&stage.gaps(&outputs, launch)?);
                // The other thread listens as long as there are launches.
                let _ = compared.send(runs.take(launch, outputs)?);
            }
            Ok(runs)
        });
        let mut after = After::default();
        let mut found = None;
        let mut changed = Vec::new();
        for launch in 1..=launches {
            say(Frame::Step(format!("launch {launch} of {launches}")));
            stage.prepare(device, launch)?;
            match &found {
                None => found = Some(variables.now(device)?),
                Some(found) if launch == 2 => {
                    changed = Variables::changed(found, &variables.now(device)?, |_| None);
                }
                Some(_) => {}
            }
            let outputs = launch_prepared(device, stage, &mut cache.buffers)
                .map_err(|failure| kept::in_launch(failure, launch, &changed))?;
            // If nobody listens any more, the comparison has failed, and reports that below.
            if launched.send((launch, outputs)).is_err() {
                break;
            }
            keep(&mut cache.buffers, spare.try_iter());
            // The inputs are also checked after the first launch, because an input that every launch negates is itself
            // again after an even number of launches.
            if launch == 1 || launch == launches {
                say(Frame::Step("reading the inputs back".to_owned()));
                after.look(device, stage, &mut cache.buffers)?;
            }
        }
        drop(launched);
        say(Frame::Step("comparing".to_owned()));
        let runs = cache
            .on_host(|_| comparing.join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        keep(&mut cache.buffers, spare.try_iter());
        Ok((runs, after, changed))
    })
}

fn keep(buffers: &mut Buffers, spare: impl Iterator<Item = OutputImages>) {
    for image in spare.flat_map(OutputImages::into_values) {
        buffers.put(image);
    }
}

pub(super) fn launch_once(
    device: &mut dyn Device,
    stage: &StagedCase,
    launch: u32,
    buffers: &mut Buffers,
) -> Result<OutputImages> {
    stage.prepare(device, launch)?;
    launch_prepared(device, stage, buffers)
}

pub(super) fn launch_prepared(
    device: &mut dyn Device,
    stage: &StagedCase,
    buffers: &mut Buffers,
) -> Result<OutputImages> {
    device.launch(&stage.call)?;
    device.sync()?;
    stage.outputs(device, buffers)
}

/// The results of one case's launches so far.
pub(super) struct Runs<'a> {
    case: &'a Case,
    want: &'a Want,
    compared: ComparedElements,
    pub first: Option<OutputImages>,
    /// The largest error of all launches.
    pub error: Option<ErrorFacts>,
    original: Option<ErrorFacts>,
    /// The error of the expected values before quantisation against those after it.
    codec: Option<ErrorFacts>,
    pub differs: Option<Difference>,
    pub unwritten: u64,
    first_unwritten: Option<Location>,
    overruns: Vec<String>,
    kept: Option<KeptFacts>,
}

impl<'a> Runs<'a> {
    pub fn new(case: &'a Case, want: &'a Want, compared: ComparedElements) -> Result<Self> {
        let codec = match &want.original {
            Some(original) if case.has_output() => {
                Some(compare(&want.seen, original, case, &compared)?)
            }
            _ => None,
        };
        Ok(Self {
            case,
            codec,
            want,
            compared,
            first: None,
            error: None,
            original: None,
            differs: None,
            unwritten: 0,
            first_unwritten: None,
            overruns: Vec::new(),
            kept: None,
        })
    }

    /// Remembers the tensors whose bytes between strides were overwritten.
    pub fn look_between_strides(&mut self, gaps: &[String]) {
        for gap in gaps {
            if !self.overruns.contains(gap) {
                self.overruns.push(gap.clone());
            }
        }
    }

    /// Compares the outputs of a launch, and returns the buffers that are not needed any more.
    pub fn take(&mut self, launch: u32, outputs: OutputImages) -> Result<OutputImages> {
        let Some(first) = &self.first else {
            self.judge(&outputs)?;
            self.first = Some(outputs);
            return Ok(OutputImages::new());
        };
        let mut differs = false;
        let mut unwritten_here = 0;
        for tensor in written(self.case) {
            let part = self.compared.part(&tensor.name);
            let (one, other) = (image(first, tensor), image(&outputs, tensor));
            let left = Left {
                launch,
                bytes: other,
            };
            let Some(difference) =
                first_difference(tensor, part, one, left).map_err(wrong_bytes)?
            else {
                // Values that are equal after both launches cannot be the poisons of both, because these differ.
                continue;
            };
            differs = true;
            self.differs.get_or_insert(difference);
            if launch == LEAST_LAUNCHES && tensor.role == Role::Out {
                let before = Left {
                    launch: 1,
                    bytes: one,
                };
                let found = unwritten(tensor, part, before, left).map_err(wrong_bytes)?;
                unwritten_here += found.elements;
                self.first_unwritten = self.first_unwritten.take().or(found.first);
            }
        }
        // The simulator looks twice if it launches again.
        self.unwritten = self.unwritten.max(unwritten_here);
        // The launch that differs may be the wrong one, even if launches may differ.
        if differs {
            self.judge(&outputs)?;
        }
        Ok(outputs)
    }

    /// Launches again on what the launches so far left in variables of the module.
    pub fn look_at_kept(
        &mut self,
        device: &mut dyn Device,
        cache: &mut JobCache,
        (case, stage): (&Case, &mut StagedCase),
        kept: (&Variables, Vec<KeptVariable>),
        later_seed: u64,
    ) -> Result<()> {
        let Some(first) = &self.first else {
            return Ok(());
        };
        // Elements that were not written differ because of their poison.
        let differs = self.differs.as_ref().filter(|_| self.unwritten == 0);
        let first = (first, differs);
        let later = kept::look(device, cache, (case, stage), kept, first, later_seed)?;
        self.kept = Some(later.facts);
        self.error = match (self.error.take(), later.error) {
            (Some(error), Some(other)) => Some(combine_launches(error, other)),
            (error, other) => error.or(other),
        };
        Ok(())
    }

    /// Returns all facts together, and the outputs of the first launch.
    pub fn facts(self, launches: u32, after: After) -> Result<(CheckFacts, Option<OutputImages>)> {
        let mut overruns = self.overruns;
        overruns.extend(after.overruns);
        let error = self
            .error
            .ok_or_else(|| reference("there is no output to compare"))?;
        let is_compared = !matches!(self.case.reference, Reference::None | Reference::NoOutput);
        let facts = CheckFacts {
            error: if is_compared {
                error
            } else {
                without_distances(error)
            },
            original: self.original.filter(|_| is_compared),
            codec: self.codec.filter(|_| is_compared),
            launches,
            differs: self.differs,
            unwritten: self.unwritten,
            first_unwritten: self.first_unwritten,
            clobbered_inputs: after.clobbered_inputs,
            overruns,
            kept: self.kept.map(Box::new),
        };
        Ok((facts, self.first))
    }

    /// Returns where outputs differ in any bit from the outputs of the first launch.
    pub fn differs_from_first(&self, outputs: &OutputImages) -> Result<Option<Difference>> {
        let Some(first) = &self.first else {
            return Ok(None);
        };
        for tensor in written(self.case) {
            let other = Left {
                // With the poison of the first launch, elements that neither launch has written are equal.
                launch: 1,
                bytes: image(outputs, tensor),
            };
            let part = self.compared.part(&tensor.name);
            let one = image(first, tensor);
            let found = first_difference(tensor, part, one, other).map_err(wrong_bytes)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn judge(&mut self, outputs: &OutputImages) -> Result<()> {
        if !self.case.has_output() {
            self.error = Some(nothing_compared());
            return Ok(());
        }
        let got = decoded(self.case, outputs)?;
        let against = |want: &Arc<Outputs>| compare(&got, want, self.case, &self.compared);
        let (seen, original) = rayon::join(
            || against(&self.want.seen),
            || self.want.original.as_ref().map(against).transpose(),
        );
        let with = |before: Option<ErrorFacts>, now| match before {
            Some(before) => combine_launches(before, now),
            None => now,
        };
        self.error = Some(with(self.error.take(), seen?));
        if let Some(original) = original? {
            self.original = Some(with(self.original.take(), original));
        }
        Ok(())
    }
}

/// Reads the expected outputs, or runs the variant that computes them.
pub(super) fn want(
    device: &mut dyn Device,
    cache: &mut JobCache,
    job: &CheckJob,
    say: &mut dyn FnMut(Frame),
) -> Result<Want> {
    match &job.expected {
        ExpectedOutput::Files { seen, original } => {
            let original = original.as_ref().map(|path| cache.expected(path));
            Ok(Want {
                seen: cache.expected(seen)?,
                original: original.transpose()?,
            })
        }
        ExpectedOutput::Variant { case, artifact } => {
            say(Frame::Step(format!(
                "running variant {}, the reference",
                case.id.variant
            )));
            let seen = variant(device, cache, case, artifact, job.seed)
                .map_err(|failure| blame_reference(&case.id.variant, failure))?;
            Ok(Want {
                seen: Arc::new(seen),
                original: None,
            })
        }
    }
}

fn variant(
    device: &mut dyn Device,
    cache: &mut JobCache,
    case: &Case,
    artifact: &Artifact,
    seed: u64,
) -> Result<Outputs> {
    let stage = StagedCase::set(device, cache, case, artifact, seed)?;
    decoded(case, &launch_once(device, &stage, 1, &mut cache.buffers)?)
}

fn blame_reference(variant: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Fault { fault, sticky } => Failure::Fault {
            fault: Fault::new(
                match fault.kind {
                    FaultKind::Environment => FaultKind::Environment,
                    _ => FaultKind::Reference,
                },
                format!("variant {variant}, the reference: {}", fault.message),
            ),
            sticky,
        },
        Failure::Unsupported(why) => Failure::Unsupported(Unsupported::ReferenceVariant {
            variant: variant.to_owned(),
            why: Box::new(why),
        }),
    }
}

/// Returns the error of a kernel without outputs.
fn nothing_compared() -> ErrorFacts {
    let unknown = Num(f64::NAN);
    ErrorFacts {
        elements: 0,
        left_out: 0,
        non_finite: 0,
        max_err: unknown,
        mean_err: unknown,
        rel_l2: unknown,
        over_tolerance: None,
        worst: None,
    }
}

/// Returns the facts that remain if outputs were only required to be numbers.
fn without_distances(facts: ErrorFacts) -> ErrorFacts {
    let unknown = Num(f64::NAN);
    ErrorFacts {
        max_err: unknown,
        mean_err: unknown,
        rel_l2: unknown,
        over_tolerance: None,
        worst: facts.worst.filter(|_| facts.non_finite > 0),
        ..facts
    }
}

fn written(case: &Case) -> impl Iterator<Item = &Tensor> {
    case.tensors.iter().filter(|tensor| tensor.role.is_result())
}

fn image<'a>(images: &'a OutputImages, tensor: &Tensor) -> &'a [u8] {
    images.get(&tensor.name).map_or(&[], Vec::as_slice)
}

pub(super) fn decoded(case: &Case, images: &OutputImages) -> Result<Outputs> {
    written(case)
        .map(|tensor| {
            let values = decode(tensor, image(images, tensor)).map_err(wrong_bytes)?;
            Ok((tensor.name.clone(), values))
        })
        .collect()
}

fn compare(
    got: &Outputs,
    want: &Outputs,
    case: &Case,
    compared: &ComparedElements,
) -> Result<ErrorFacts> {
    errors(
        got,
        want,
        &case.tensors,
        compared,
        case.tolerance.map(|tolerance| tolerance.0),
    )
    .map_err(|incomparable: Incomparable| reference(incomparable.to_string()))
}

fn reference(message: impl Into<String>) -> Failure {
    Failure::case_alone(FaultKind::Reference, message)
}

fn wrong_bytes(wrong: WrongBytes) -> Failure {
    Failure::case_alone(FaultKind::Environment, wrong.to_string())
}

/// Writes all data of one seed as .npy if the user wants it, into a directory of the case and the seed
/// (`softmax/warp@long/seed-1`): `x.npy` and `x.original.npy` for inputs, `y.got.npy`, `y.want.npy` and
/// `y.want.original.npy` for outputs.
pub(super) struct Dump<'a> {
    job: &'a CheckJob,
    dir: Option<PathBuf>,
}

impl<'a> Dump<'a> {
    pub fn new(job: &'a CheckJob) -> Self {
        let case = job.case.id.to_string();
        let dir = job.dump.as_ref();
        let dir = dir.map(|dir| dir.join(case).join(format!("seed-{}", job.seed)));
        Self { job, dir }
    }

    /// Writes inputs and the reference, so that they exist even if the kernel then faults.
    pub fn before(&self, want: &Want) -> Result<()> {
        let Some(dir) = &self.dir else {
            return Ok(());
        };
        let made = std::fs::create_dir_all(dir);
        made.map_err(|error| cannot_dump(dir, &error))?;
        let inputs = generate(&self.job.case, self.job.seed)
            .map_err(|error| reference(error.to_string()))?;
        for (name, data) in &inputs.tensors {
            self.write(dir, name, "", &data.seen)?;
            if let Some(original) = &data.original {
                self.write(dir, name, ".original", original)?;
            }
        }
        if matches!(
            self.job.case.reference,
            Reference::None | Reference::NoOutput
        ) {
            return Ok(());
        }
        self.all(dir, ".want", &want.seen)?;
        match &want.original {
            Some(original) => self.all(dir, ".want.original", original),
            None => Ok(()),
        }
    }

    /// Writes the outputs of the first launch, if the job names a directory and there are any.
    pub fn after(&self, first: Option<&OutputImages>) -> Result<()> {
        match (&self.dir, first) {
            (Some(dir), Some(images)) => self.all(dir, ".got", &decoded(&self.job.case, images)?),
            _ => Ok(()),
        }
    }

    fn all(&self, dir: &Path, suffix: &str, outputs: &Outputs) -> Result<()> {
        outputs
            .iter()
            .try_for_each(|(name, values)| self.write(dir, name, suffix, values))
    }

    fn write(&self, dir: &Path, name: &str, suffix: &str, values: &check::Values) -> Result<()> {
        let mut tensors = self.job.case.tensors.iter();
        let Some(tensor) = tensors.find(|tensor| tensor.name == name) else {
            return Ok(());
        };
        let path = dir.join(format!("{name}{suffix}.npy"));
        write_npy(&path, tensor.value_dims(), values).map_err(|error| cannot_dump(&path, &error))
    }
}

fn cannot_dump(path: &Path, error: &std::io::Error) -> Failure {
    Failure::case_alone(
        FaultKind::Environment,
        format!("{} cannot be written: {error}", path.display()),
    )
}
