//! Keeps inputs and expected outputs from one job for the next, because variants of a kernel often need the same ones.
//! While the device works on one job, the files of the next are read.

use super::buffers::Buffers;
use super::orders::Orders;
use crate::device::{Failure, Result};
use crate::worker::protocol::{ExpectedOutput, Job};
use check::images::{InputCache, InputImages};
use check::{Outputs, Recent, Values, cache};
use model::{Case, FaultKind};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use system::cache::{Cache, CacheDir};

/// The most bytes of each of the two caches.
const MOST_BYTES: usize = 1 << 30;

pub struct JobCache {
    pub buffers: Buffers,
    shared: Arc<Shared>,
    /// One thread, also for what is parallel by itself, so that samples are not disturbed. `None` if the system gives
    /// no thread: then nothing is read ahead.
    reader: Option<ThreadPool>,
    orders: Arc<Orders>,
    job_began: Instant,
    /// The part of the job's time in which it waited for inputs, expected outputs and comparisons.
    on_host: Duration,
}

struct Shared {
    inputs: Mutex<InputCache>,
    outputs: Mutex<Recent<PathBuf, Outputs>>,
}

impl JobCache {
    /// Opens the cache with the files of the build cache, which the host has opened too. If it cannot be opened, the
    /// host reports that, and inputs are made again here.
    pub fn open(orders: Arc<Orders>) -> Self {
        let inputs = Cache::open().and_then(|cache| cache.layered("inputs")).ok();
        Self::new(inputs, orders)
    }

    pub fn new(inputs: Option<CacheDir>, orders: Arc<Orders>) -> Self {
        Self {
            buffers: Buffers::default(),
            shared: Arc::new(Shared {
                inputs: Mutex::new(InputCache::new(inputs, MOST_BYTES)),
                outputs: Mutex::new(Recent::new(MOST_BYTES)),
            }),
            reader: ThreadPoolBuilder::new().num_threads(1).build().ok(),
            orders,
            job_began: Instant::now(),
            on_host: Duration::ZERO,
        }
    }

    /// Starts the clocks of a job.
    pub fn begin_job(&mut self) {
        self.job_began = Instant::now();
        self.on_host = Duration::ZERO;
    }

    /// Does work that the device waits for.
    pub fn on_host<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let began = Instant::now();
        let done = work(self);
        self.on_host += began.elapsed();
        done
    }

    /// Returns how long the job has used the device so far: loading, copies, launches, and waiting for them.
    pub fn on_device(&self) -> Duration {
        self.job_began.elapsed().saturating_sub(self.on_host)
    }

    /// Returns the bytes of the inputs of a case for one seed.
    ///
    /// # Errors
    /// Reference, if the inputs cannot be made.
    pub fn inputs(&mut self, case: &Case, seed: u64) -> Result<InputImages> {
        self.on_host(|cache| held(&cache.shared.inputs).images(case, seed))
            .map_err(|error| reference(format!("the inputs cannot be made: {error}")))
    }

    /// Returns expected outputs that the host wrote.
    pub fn expected(&mut self, path: &Path) -> Result<Arc<Outputs>> {
        self.on_host(|cache| cache.shared.expected(path))
            .map_err(|error| reference(error.to_string()))
    }

    /// Reads files of the next job. Call it once a job has all that it needs, so that it does not wait for the next
    /// one.
    pub fn read_ahead(&mut self) {
        if let Some(reader) = &self.reader {
            let (shared, orders) = (Arc::clone(&self.shared), Arc::clone(&self.orders));
            reader.spawn(move || shared.read_ahead(&orders.next_job()));
        }
    }

    /// Waits until the thread that reads ahead has done its work.
    #[cfg(test)]
    pub fn wait_for_reader(&self) {
        self.reader.as_ref().unwrap().install(|| ());
    }
}

impl Shared {
    fn expected(&self, path: &Path) -> std::result::Result<Arc<Outputs>, cache::Unreadable> {
        let mut kept = held(&self.outputs);
        if let Some(outputs) = kept.get(&path.to_owned()) {
            return Ok(outputs);
        }
        let outputs = cache::read(path)?;
        let bytes = outputs.values().map(Values::bytes).sum();
        Ok(kept.put(path.to_owned(), outputs, bytes))
    }

    /// Reads files of a job. An unreadable file is reported later, by the job that needs it and tries again.
    fn read_ahead(&self, next: &Job) {
        let (case, seed) = match next {
            Job::KnownGood | Job::Count => return,
            Job::Check(job) => (&job.case, job.seed),
            Job::Estimate(job) => (&job.case, job.seed),
            Job::Simulate(job) => (&job.check.case, job.check.seed),
            Job::Time(job) | Job::Profile(job) => (&job.case, job.seed),
            Job::Pair(job) => (&job.head.case, job.seed),
        };
        if let Job::Check(job) = next
            && let ExpectedOutput::Files { seen, original } = &job.expected
        {
            for path in [seen].into_iter().chain(original) {
                let _ = self.expected(path);
            }
        }
        for tensor in &case.tensors {
            held(&self.inputs).read_ahead(tensor, seed);
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn reference(message: String) -> Failure {
    Failure::case_alone(FaultKind::Reference, message)
}
