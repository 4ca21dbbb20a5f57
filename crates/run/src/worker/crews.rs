//! Runs a crew for each GPU of the machine. Checks are distributed to all of them. Times are taken on the first GPU
//! alone, because GPUs of one model differ by more than what gates limit.

use super::crew::{CheckAnswer, Crew, WorkerCosts, this_program};
use super::protocol::{CheckJob, Job};
use crate::device::DeviceChoice;
use model::{DeviceFacts, Fault, FaultKind, Seen};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wording::reasons;

pub struct Crews<'a> {
    choice: DeviceChoice,
    first: Crew<'a>,
    /// The other crews in the order of their ordinals, from 1.
    others: Vec<Crew<'a>>,
    make: Box<dyn Fn(DeviceChoice) -> Crew<'a> + Send + 'a>,
    /// The costs while crews worked side by side: what the busiest of them spent, and what the first spent.
    busiest: WorkerCosts,
    first_beside: WorkerCosts,
}

impl<'a> Crews<'a> {
    /// Makes one crew, or with `CudaAll` one for each GPU that `open` finds. `waiting` is called when another
    /// gatekeeper has to be waited for.
    ///
    /// # Errors
    /// Environment, if the system does not tell where this executable is.
    pub fn new(
        choice: DeviceChoice,
        waiting: &'a (dyn Fn(&str) + Sync),
    ) -> system::error::Result<Self> {
        let program = this_program()?;
        let make = move |choice| Crew::with_program(program.clone(), choice).on_waiting(waiting);
        Ok(Self::from_maker(make, choice))
    }

    pub(super) fn from_maker(
        make: impl Fn(DeviceChoice) -> Crew<'a> + Send + 'a,
        choice: DeviceChoice,
    ) -> Self {
        Self {
            choice,
            first: make(choice),
            others: Vec::new(),
            make: Box::new(make),
            busiest: WorkerCosts::default(),
            first_beside: WorkerCosts::default(),
        }
    }

    /// Returns the first device, after all requested devices are open and are known to be alike. Returns `NotRun` if
    /// there is none, and `Fault` if one of them is broken or of another kind.
    pub fn open(&mut self) -> Seen<DeviceFacts> {
        let first = self.first.device();
        match &first {
            Seen::Got(facts) if self.choice == DeviceChoice::CudaAll && self.others.is_empty() => {
                match self.open_others(facts) {
                    Ok(()) => first,
                    Err(fault) => Seen::Fault(fault),
                }
            }
            _ => first,
        }
    }

    fn open_others(&mut self, first: &DeviceFacts) -> Result<(), Fault> {
        let count = self.first.count()?;
        self.others = (1..count)
            .map(|ordinal| (self.make)(DeviceChoice::Cuda { ordinal }))
            .collect();
        let mut crews: Vec<_> = self.others.iter_mut().collect();
        let (devices, spent) = side_by_side(&mut crews, |crew| crew.device());
        self.busiest = self.busiest.and(spent);
        let mut all = vec![first.clone()];
        for (device, ordinal) in devices.into_iter().zip(1..) {
            let why = match device {
                Seen::Got(facts) => {
                    all.push(facts);
                    continue;
                }
                Seen::Fault(fault) => fault.message,
                Seen::Unsupported(why) => reasons::unsupported(&why),
                Seen::NotRun(why) => reasons::not_run(&why),
            };
            return Err(environment(format!(
                "cuda:{ordinal} of cuda:all cannot be used: {why}; --device cuda:N takes one that can"
            )));
        }
        if all.iter().all(|device| kind(device) == kind(first)) {
            Ok(())
        } else {
            Err(environment(unlike(&all)))
        }
    }

    /// Returns the number of GPUs that jobs may go to.
    pub fn gpus(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns the crew of the GPU on which times are taken.
    pub fn first(&mut self) -> &mut Crew<'a> {
        &mut self.first
    }

    /// Does all jobs. The jobs of one case run in their order and on one GPU. Cases begin in their order, each on
    /// whichever GPU is free. Answers are in the order of the jobs. `on_done` is called when a job ends, with the
    /// number of the case and the time that the job took.
    ///
    /// A crew that had a fault of the environment finishes its case, which then reports the fault, and gets no other
    /// case while there is another crew. The last crew goes on after any fault.
    pub fn check(
        &mut self,
        cases: &[Vec<CheckJob>],
        on_done: &(dyn Fn(usize, Duration) + Sync),
    ) -> Vec<Vec<CheckAnswer>> {
        let numbers = cases.iter().enumerate();
        let table = Table {
            cases,
            queue: Mutex::new(
                numbers
                    .filter(|(_, jobs)| !jobs.is_empty())
                    .map(|(number, _)| number)
                    .collect(),
            ),
            answers: Mutex::new(vec![Vec::new(); cases.len()]),
            on_done,
        };
        let before = self.first.costs();
        let mut spent = WorkerCosts::default();
        let mut crews: Vec<_> = std::iter::once(&mut self.first)
            .chain(&mut self.others)
            .collect();
        // A crew that leaves may put back a case after the others have found the queue empty, so they work once more.
        while crews.len() > 1 && !table.is_empty() {
            let seats = crews.len();
            let (fit, round) = side_by_side(&mut crews, |crew| {
                let fit = table.serve(crew, seats);
                // The crew is not needed any more, and must not keep its share of the GPU.
                crew.retire();
                fit
            });
            spent = spent.and(round);
            let mut fit = fit.into_iter();
            crews.retain(|_| fit.next() == Some(true));
        }
        if !table.is_empty() {
            let last = match crews.into_iter().next() {
                Some(crew) => crew,
                None => &mut self.first,
            };
            let began = last.costs();
            table.serve(last, 1);
            spent = spent.and(last.costs().since(began));
        }
        self.busiest = self.busiest.and(spent);
        self.first_beside = self.first_beside.and(self.first.costs().since(before));
        table
            .answers
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all workers and releases all GPUs.
    pub fn retire(&mut self) {
        let before = self.first.costs();
        let mut crews: Vec<_> = std::iter::once(&mut self.first)
            .chain(&mut self.others)
            .collect();
        let (_, spent) = side_by_side(&mut crews, |crew| crew.retire());
        self.busiest = self.busiest.and(spent);
        self.first_beside = self.first_beside.and(self.first.costs().since(before));
    }

    /// Returns the costs of the workers of all crews. If several worked side by side, the wall time is that of the
    /// busiest, so that it is a part of the run's.
    pub fn costs(&self) -> WorkerCosts {
        let others = self.others.iter().map(|crew| crew.costs().workers);
        WorkerCosts {
            workers: self.first.costs().workers + others.sum::<u32>(),
            ..self
                .first
                .costs()
                .since(self.first_beside)
                .and(self.busiest)
        }
    }
}

/// The cases to check, and the answers so far.
struct Table<'a> {
    cases: &'a [Vec<CheckJob>],
    /// The numbers of the cases that nobody has begun.
    queue: Mutex<VecDeque<usize>>,
    answers: Mutex<Vec<Vec<CheckAnswer>>>,
    on_done: &'a (dyn Fn(usize, Duration) + Sync),
}

impl Table<'_> {
    fn is_empty(&self) -> bool {
        held(&self.queue).is_empty()
    }

    /// Returns the next case if the queue has at least `least` cases.
    fn deal(&self, least: usize) -> Option<usize> {
        let mut queue = held(&self.queue);
        (queue.len() >= least).then(|| queue.pop_front()).flatten()
    }

    fn jobs(&self, number: usize) -> &[CheckJob] {
        self.cases.get(number).map_or(&[], Vec::as_slice)
    }

    /// Does cases until none is left. Returns false after a fault of the environment if there are other crews.
    fn serve(&self, crew: &mut Crew, seats: usize) -> bool {
        let mut dealt = self.deal(1);
        while let Some(number) = dealt {
            let jobs = self.jobs(number);
            let mut ahead = None;
            let mut fit = true;
            for (position, job) in jobs.iter().enumerate() {
                let next = jobs.get(position + 1).or_else(|| {
                    // One of the last few cases is not taken ahead, because another crew could begin it now.
                    ahead = self.deal(seats);
                    ahead.and_then(|ahead| self.jobs(ahead).first())
                });
                crew.announce(next.map(|next| Job::Check(Box::new(next.clone()))));
                let began = Instant::now();
                let answer = crew.check(job.clone());
                fit &= !is_environment(&answer);
                if let Some(answers) = held(&self.answers).get_mut(number) {
                    answers.push(answer);
                }
                (self.on_done)(number, began.elapsed());
            }
            if !fit && seats > 1 {
                if let Some(ahead) = ahead {
                    held(&self.queue).push_front(ahead);
                }
                return false;
            }
            dealt = ahead.or_else(|| self.deal(1));
        }
        true
    }
}

fn is_environment(answer: &CheckAnswer) -> bool {
    matches!(
        &answer.check,
        Seen::Fault(Fault {
            kind: FaultKind::Environment,
            ..
        })
    )
}

/// Lets each crew do the same work at the same time, and adds what the busiest of them spent on it.
fn side_by_side<T: Send>(
    crews: &mut [&mut Crew],
    work: impl Fn(&mut Crew) -> T + Sync,
) -> (Vec<T>, WorkerCosts) {
    let metered = |crew: &mut Crew| {
        let before = crew.costs();
        let done = work(crew);
        (done, crew.costs().since(before))
    };
    let all: Vec<_> = match crews {
        [one] => vec![metered(one)],
        crews => std::thread::scope(|scope| {
            let threads: Vec<_> = crews
                .iter_mut()
                .map(|crew| scope.spawn(|| metered(crew)))
                .collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        }),
    };
    let (done, spent): (Vec<T>, Vec<WorkerCosts>) = all.into_iter().unzip();
    let busiest = spent
        .into_iter()
        .max_by_key(|spent| spent.process + spent.device);
    (done, busiest.unwrap_or_default())
}

/// Returns the properties that all devices must share, so that an observation on one of them holds for the others.
fn kind(device: &DeviceFacts) -> (&str, u8, u8, u32, &str) {
    (
        &device.name,
        device.major,
        device.minor,
        device.multiprocessors,
        &device.driver,
    )
}

fn unlike(devices: &[DeviceFacts]) -> String {
    let mut text = "the GPUs of cuda:all differ:".to_owned();
    for device in devices {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            " cuda:{} is {}, {}, {} multiprocessors, driver {};",
            device.ordinal,
            device.name,
            device.arch(),
            device.multiprocessors,
            device.driver
        );
    }
    text + " choose one with --device cuda:N"
}

fn environment(message: String) -> Fault {
    Fault::new(FaultKind::Environment, message)
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
