//! The worker's side: opens the device, does orders one by one, and ends with its parent.
//!
//! Standard output belongs to the protocol, so everything that kernels and launchers print is redirected to standard
//! error.

mod buffers;
mod check;
mod job_cache;
mod kept;
mod orders;
mod pair;
mod simulate;
mod stage;
#[cfg(test)]
mod tests;
mod time;

use super::protocol::{Frame, Job, Ready, WorkerLine};
use crate::device::cuda::{CudaDevice, Opened, open};
use crate::device::{Device, DeviceChoice, Failure};
use job_cache::JobCache;
use model::Unsupported;
use orders::Orders;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// True if exit handlers must run, because a profiler's handlers write its counters.
static ENDS_IN_ORDER: AtomicBool = AtomicBool::new(false);

/// Takes orders on standard input until it is closed.
pub fn main(choice: DeviceChoice) -> ExitCode {
    #[cfg(target_env = "gnu")]
    keep_memory();
    let Ok(mut frames) = Frames::take_standard_output() else {
        return ExitCode::FAILURE;
    };
    let orders = Arc::new(Orders::default());
    listen(Arc::clone(&orders));
    if choice == DeviceChoice::Sim {
        simulate::serve(&mut frames, &orders);
    }
    let opened = open(choice);
    let (greeting, device) = match opened {
        Opened::Device(device) => (Ready::Device(device.facts().clone()), Some(device)),
        Opened::Absent(reason) => (Ready::Absent(reason), None),
        Opened::Broken(reason) => (Ready::Broken(reason), None),
    };
    frames.send(Frame::Ready(greeting));
    if let Some(mut device) = device {
        let mut cache = JobCache::open(Arc::clone(&orders));
        loop {
            let order = orders.take();
            frames.id = order.id;
            let end = run_job(&mut device, &mut cache, &order.job, &mut frames);
            let sticky = matches!(&end, Frame::Failed(Failure::Fault { sticky: true, .. }));
            frames.send(end);
            if sticky {
                break;
            }
        }
    }
    leave(0)
}

/// Does a job, and says how long a case used the device.
fn run_job(device: &mut CudaDevice, cache: &mut JobCache, job: &Job, frames: &mut Frames) -> Frame {
    cache.begin_job();
    let say = &mut |frame| frames.send(frame);
    let end = match job {
        Job::KnownGood => {
            return device
                .known_good()
                .map_or_else(Frame::Failed, |()| Frame::Sane);
        }
        Job::Count => return Frame::Counted(device.devices()),
        Job::Estimate(_) | Job::Simulate(_) => {
            return Frame::Failed(Failure::Unsupported(Unsupported::Simulation));
        }
        Job::Check(job) => {
            check::check(device, cache, job, say).map(|facts| Frame::Checked(Box::new(facts)))
        }
        Job::Time(job) => {
            time::time(device, cache, job, say).map(|facts| Frame::Timed(Box::new(facts)))
        }
        Job::Pair(job) => {
            pair::pair(device, cache, job, say).map(|facts| Frame::Paired(Box::new(facts)))
        }
        Job::Profile(job) => {
            ENDS_IN_ORDER.store(true, Ordering::Relaxed);
            time::launch_once(device, cache, job, say).map(|()| Frame::Profiled)
        }
    };
    // The memory and programs of a job are freed with it. After a sticky fault nothing can be freed, and nothing has to
    // be.
    let freed = device.reset();
    frames.send(Frame::Spent {
        device_us: u64::try_from(cache.on_device().as_micros()).unwrap_or(u64::MAX),
    });
    match (end, freed) {
        (Ok(frame), Ok(())) => frame,
        (Err(failure), _) | (Ok(_), Err(failure)) => Frame::Failed(failure),
    }
}

/// Reads orders on a thread of its own. This thread also notices the parent's end while a kernel hangs: standard input
/// is closed then, and the worker leaves at once.
fn listen(orders: Arc<Orders>) {
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            match line.and_then(|line| Ok(serde_json::from_str(&line)?)) {
                Ok(order) => orders.put(order),
                Err(_) => leave(1),
            }
        }
        leave(0);
    });
}

/// Keeps freed memory in the process. Buffers as large as tensors are allocated and freed with every launch, and if
/// they were returned to the system, it would zero them page by page before each use.
#[cfg(target_env = "gnu")]
fn keep_memory() {
    use nix::libc::{M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, mallopt};
    // SAFETY: sets two numbers of the allocator; one that it refuses stays as it was.
    unsafe {
        // glibc accepts no larger value.
        mallopt(M_MMAP_THRESHOLD, 32 << 20);
        mallopt(M_TRIM_THRESHOLD, 1 << 30);
    }
}

/// Ends the process without destructors and exit handlers, because those of the CUDA runtime would wait for a kernel
/// that hangs.
fn leave(code: i32) -> ! {
    if ENDS_IN_ORDER.load(Ordering::Relaxed) {
        std::process::exit(code);
    }
    // SAFETY: ends the process; nothing is left half written, frames are flushed line by line.
    unsafe { nix::libc::_exit(code) }
}

/// The channel on which frames go to the host.
pub(super) struct Frames {
    out: File,
    id: u64,
}

impl Frames {
    /// Takes standard output for the frames, and redirects it to standard error from here on, because kernels' printf
    /// and users' launchers write to it.
    fn take_standard_output() -> io::Result<Self> {
        let own = nix::unistd::dup(io::stdout())?;
        nix::unistd::dup2_stdout(io::stderr())?;
        // A child of the user's launcher would inherit it, and keep the host from seeing the end.
        nix::fcntl::fcntl(
            &own,
            nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC),
        )?;
        Ok(Self {
            out: own.into(),
            id: 0,
        })
    }

    pub fn send(&mut self, frame: Frame) {
        let line = WorkerLine { id: self.id, frame };
        let sent = serde_json::to_vec(&line)
            .map_err(io::Error::from)
            .and_then(|mut text| {
                text.push(b'\n');
                self.out.write_all(&text)
            });
        if sent.is_err() {
            leave(1);
        }
    }
}
