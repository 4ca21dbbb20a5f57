//! Measures times with the GPU's clock, between two events around queued launches. The launches wait behind a spinning
//! kernel until all of them are queued, so that the host's part of a launch is never in a sample.

use super::CudaDevice;
use super::error::check;
use super::graph::{Executable, Graph};
use super::tools::Tools;
use crate::device::nvml::{Monitor, unknown_state};
use crate::device::{
    Address, Device, Failure, RestoredBefore, Result, Side, Targets, TimedCall, Timer,
};
use cudarc::driver::sys;
use model::GpuState;
use model::{FaultKind, Unsupported};
use std::ptr::null_mut;
use std::time::Instant;

/// The bounds of the spin. It lasts twice as long as the host was seen to need to queue a sample.
const SPIN_NS: std::ops::RangeInclusive<u64> = 10_000..=50_000_000;

/// The number of attempts at a sample for which the host was late.
const ATTEMPTS: u32 = 20;

/// The length of the spin in which the multiprocessor's clock is read, in ns. A step of a 1 us timer is one per cent of
/// it.
const CLOCK_NS: u64 = 100_000;

/// The number of event pairs from which the clock's step is read.
const TICK_PAIRS: usize = 64;

/// The number of empty graphs that are timed. Their median counts.
const EMPTY: usize = 21;

/// Times of the timer itself, in ns. They are the same for all cases of a process.
#[derive(Clone, Copy, Default)]
pub struct Overheads {
    empty_ns: Option<u64>,
    tick_ns: Option<u64>,
}

pub struct CudaTimer<'a> {
    device: &'a mut CudaDevice,
    head: Timed<'a>,
    base: Option<Timed<'a>>,
    tools: Tools,
    from: CudaEvent,
    to: CudaEvent,
    /// The memory that is written to evict everything else from L2, twice its size.
    flush: Option<(Address, usize)>,
    /// The address of two u64 for the spinning kernel.
    clock: Address,
    /// The longest time that the host recently needed to queue one sample.
    host_ns: u64,
}

struct Timed<'a> {
    target: TimedCall<'a>,
    batch: Option<Executable>,
}

impl<'a> Timed<'a> {
    fn new(device: &CudaDevice, target: TimedCall<'a>) -> Result<Self> {
        device.loaded(target.call.program)?.allow(target.call)?;
        Ok(Self {
            target,
            batch: None,
        })
    }
}

impl<'a> CudaTimer<'a> {
    pub fn new(device: &'a mut CudaDevice, targets: Targets<'a>) -> Result<Self> {
        let head = Timed::new(device, targets.head)?;
        let base = targets.base.map(|base| Timed::new(device, base));
        let base = base.transpose()?;
        let tools = device.tools()?;
        let clock = device.alloc("clock", 16)?;
        Ok(Self {
            device,
            head,
            base,
            tools,
            from: CudaEvent::new()?,
            to: CudaEvent::new()?,
            flush: None,
            clock,
            host_ns: 0,
        })
    }

    fn timed(&mut self, side: Side) -> Result<&mut Timed<'a>> {
        match side {
            Side::Head => Ok(&mut self.head),
            Side::Base => self
                .base
                .as_mut()
                .ok_or_else(|| lost("no base was given to time it against")),
        }
    }

    fn target(&mut self, side: Side) -> Result<TimedCall<'a>> {
        Ok(self.timed(side)?.target)
    }

    fn restore(&self, target: TimedCall) -> Result<()> {
        target.restore.copies.iter().try_for_each(|restore| {
            // SAFETY: both ranges are allocations of this device.
            check("cuMemcpyDtoDAsync", unsafe {
                sys::cuMemcpyDtoDAsync_v2(
                    restore.to,
                    restore.from,
                    restore.bytes,
                    self.device.stream,
                )
            })
        })?;
        let restored: Vec<_> = target
            .restore
            .copies
            .iter()
            .map(|restore| restore.to)
            .filter(|to| target.call.surfaces.contains(to))
            .collect();
        self.device.images.fill(&restored, self.device.stream)
    }

    fn launch(&self, target: TimedCall) -> Result<()> {
        self.device
            .loaded(target.call.program)?
            .launch(target.call, self.device.stream)
    }

    /// Returns the GPU's time between two events around what `queue` puts on the stream.
    ///
    /// If the host needed longer than the GPU spun, the GPU waited for it inside the sample. That is known without
    /// looking at the measured time, and the sample is taken again.
    fn sample(
        &mut self,
        before: Option<TimedCall>,
        queue: impl Fn(&Self) -> Result<()>,
        cold: bool,
    ) -> Result<u64> {
        for _ in 0..ATTEMPTS {
            let spin = (2 * self.host_ns).clamp(*SPIN_NS.start(), *SPIN_NS.end());
            if let Some(target) = before {
                self.restore(target)?;
            }
            self.tools.spin(self.device.stream, 0, spin)?;
            let before = Instant::now();
            if cold {
                self.flush_l2()?;
            }
            self.from.record(self.device.stream)?;
            queue(self)?;
            self.to.record(self.device.stream)?;
            let host = nanoseconds(before);
            self.device.sync()?;
            self.host_ns = host.max(self.host_ns - self.host_ns / 8);
            if host <= spin {
                return self.from.until(&self.to);
            }
        }
        Err(Failure::Unsupported(Unsupported::HostTooSlow {
            problem: format!(
                "the host needs {} us to queue one launch, so the samples would contain host time",
                self.host_ns / 1000
            ),
        }))
    }

    fn flush_l2(&mut self) -> Result<()> {
        let (at, bytes) = match self.flush {
            Some(flush) => flush,
            None => {
                let bytes = 2 * self.device.facts.l2_bytes as usize;
                let flush = (self.device.alloc("flush", bytes)?, bytes);
                self.flush = Some(flush);
                flush
            }
        };
        // SAFETY: the range is ours.
        check("cuMemsetD8Async", unsafe {
            sys::cuMemsetD8Async(at, 0, bytes, self.device.stream)
        })
    }
}

impl Timer for CudaTimer<'_> {
    fn can_batch(&self) -> bool {
        let sides = [Some(&self.head), self.base.as_ref()];
        sides
            .into_iter()
            .flatten()
            .all(|timed| timed.target.restore.when == RestoredBefore::EachSample)
    }

    fn warm_up(&mut self, side: Side, launches: u32) -> Result<()> {
        let target = self.target(side)?;
        for _ in 0..launches {
            self.restore(target)?;
            let before = Instant::now();
            self.launch(target)?;
            self.host_ns = nanoseconds(before);
        }
        self.device.sync()
    }

    fn profiled(&mut self, side: Side) -> Result<()> {
        let target = self.target(side)?;
        self.restore(target)?;
        self.device.sync()?;
        // SAFETY: marks a place in the process; there is nothing to hold to.
        check("cuProfilerStart", unsafe { sys::cuProfilerStart() })?;
        let launched = self.launch(target).and_then(|()| self.device.sync());
        // SAFETY: as above.
        let stopped = check("cuProfilerStop", unsafe { sys::cuProfilerStop() });
        launched.and(stopped)
    }

    fn batch(&mut self, side: Side, launches: u32) -> Result<()> {
        let target = self.target(side)?;
        self.timed(side)?.batch = None;
        let batch = Graph::capture(self.device.stream, || {
            (0..launches).try_for_each(|_| self.launch(target))
        })?
        .instantiate()?;
        batch.upload(self.device.stream)?;
        // The first run of a graph differs from the others.
        self.restore(target)?;
        let before = Instant::now();
        batch.launch(self.device.stream)?;
        self.host_ns = self.host_ns.max(nanoseconds(before));
        self.device.sync()?;
        self.timed(side)?.batch = Some(batch);
        Ok(())
    }

    fn batched(&mut self, side: Side) -> Result<u64> {
        let timed = self.timed(side)?;
        let target = timed.target;
        let batch = timed
            .batch
            .take()
            .ok_or_else(|| lost("no batch was prepared"))?;
        let sample = self.sample(
            Some(target),
            |timer| batch.launch(timer.device.stream),
            false,
        );
        self.timed(side)?.batch = Some(batch);
        sample
    }

    fn single(&mut self, side: Side, cold: bool) -> Result<u64> {
        let target = self.target(side)?;
        self.sample(Some(target), |timer| timer.launch(target), cold)
    }

    fn empty(&mut self) -> Result<u64> {
        if let Some(known) = self.device.overheads.empty_ns {
            return Ok(known);
        }
        let nothing = Graph::capture(self.device.stream, || Ok(()))?.instantiate()?;
        let mut samples = Vec::with_capacity(EMPTY);
        for _ in 0..EMPTY {
            samples.push(self.sample(None, |timer| nothing.launch(timer.device.stream), false)?);
        }
        samples.sort_unstable();
        let median = samples.get(EMPTY / 2).copied().unwrap_or(0);
        self.device.overheads.empty_ns = Some(median);
        Ok(median)
    }

    /// Measures the step of the event clock. Successive events differ by a few steps, and the smallest difference
    /// between two such differences is one step.
    fn tick(&mut self) -> Result<u64> {
        if let Some(known) = self.device.overheads.tick_ns {
            return Ok(known);
        }
        let mut gaps = Vec::with_capacity(TICK_PAIRS);
        for _ in 0..TICK_PAIRS {
            gaps.push(self.sample(None, |_| Ok(()), false)?);
        }
        gaps.push(0);
        gaps.sort_unstable();
        gaps.dedup();
        let step = gaps
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .min()
            .unwrap_or(0);
        self.device.overheads.tick_ns = Some(step);
        Ok(step)
    }

    fn sm_mhz(&mut self) -> Result<f64> {
        self.tools.spin(self.device.stream, self.clock, CLOCK_NS)?;
        let mut bytes = [0; 16];
        self.device.read(self.clock, &mut bytes)?;
        let words = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word) as f64)
            .collect::<Vec<_>>();
        Ok(words[0] / words[1] * 1000.0)
    }

    fn slowed(&mut self) -> Option<bool> {
        self.device.monitor.as_ref()?.slowed()
    }

    fn state(&mut self, side: Side, launches: u32) -> Result<GpuState> {
        let target = self.target(side)?;
        self.restore(target)?;
        for _ in 0..launches {
            if target.restore.when == RestoredBefore::EachLaunch {
                self.restore(target)?;
            }
            self.launch(target)?;
        }
        let state = self
            .device
            .monitor
            .as_ref()
            .map_or_else(unknown_state, Monitor::state);
        self.device.sync()?;
        Ok(state)
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

struct CudaEvent(sys::CUevent);

impl CudaEvent {
    /// Makes an event that records times. That is the driver's default, but not cudarc's.
    fn new() -> Result<Self> {
        let mut event = null_mut();
        // SAFETY: the driver writes the handle.
        check("cuEventCreate", unsafe {
            sys::cuEventCreate(
                &raw mut event,
                sys::CUevent_flags_enum::CU_EVENT_DEFAULT as u32,
            )
        })?;
        Ok(Self(event))
    }

    fn record(&self, stream: sys::CUstream) -> Result<()> {
        // SAFETY: both handles are live.
        check("cuEventRecord", unsafe {
            sys::cuEventRecord(self.0, stream)
        })
    }

    /// Returns the time in ns from this event to a later one. Both must have happened.
    fn until(&self, later: &Self) -> Result<u64> {
        let mut milliseconds = 0f32;
        // SAFETY: both handles are live.
        check("cuEventElapsedTime", unsafe {
            sys::cuEventElapsedTime(&raw mut milliseconds, self.0, later.0)
        })?;
        Ok((f64::from(milliseconds) * 1e6).round() as u64)
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}
/// Returns the failure of something that must exist, which is gatekeeper's own mistake.
fn lost(what: &str) -> Failure {
    Failure::case_alone(FaultKind::Environment, what)
}
