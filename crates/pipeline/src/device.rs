//! Opens the device of a run while the change is found and built.

use crate::request::{Profile, Request};
use config::Loaded;
use model::{DeviceFacts, Fault, FaultKind, NotRun, Seen};
use run::device::DeviceChoice;
use run::device::choice::driver_problem;
use run::worker::Crews;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;
use system::error::{Error, Result};

/// A device that wakes up on a thread of its own, because a CUDA context takes as long as a warm build.
pub struct WakingDevice<'scope, 'env> {
    opened: ScopedJoinHandle<'scope, (Crews<'env>, Seen<DeviceFacts>)>,
    /// The time at which the run began, for its costs.
    pub(super) began: Instant,
}

/// Starts to open the device that `request` names, for the cases of `head`. `waiting` is called if another gatekeeper
/// has to be waited for.
///
/// # Errors
/// Fails with an environment error if the system does not say where this executable is.
pub fn wake_device<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    request: &'env Request,
    head: &Loaded,
    waiting: &'env (dyn Fn(&str) + Sync),
) -> Result<WakingDevice<'scope, 'env>> {
    let began = Instant::now();
    let ahead = timing_processes(request, head);
    let mut crews = Crews::new(request.device, waiting)?;
    let opened = scope.spawn(move || {
        let device = open(request, &mut crews, ahead);
        (crews, device)
    });
    Ok(WakingDevice { opened, began })
}

impl<'env> WakingDevice<'_, 'env> {
    /// Waits until the device is open, or known to be absent or broken.
    ///
    /// # Errors
    /// Fails with an environment error if its thread panicked.
    pub(super) fn wait(self) -> Result<(Crews<'env>, Seen<DeviceFacts>)> {
        self.opened
            .join()
            .map_err(|_| Error::environment("the thread that opens the device panicked"))
    }
}

/// Returns in how many processes a case is going to be timed at least, if any is.
fn timing_processes(request: &Request, head: &Loaded) -> usize {
    let plan = &head.plan;
    let is_timed = request.profile != Profile::Only && plan.cases.iter().any(|case| case.timed);
    if is_timed {
        plan.timing.processes as usize
    } else {
        0
    }
}

/// Opens the device. `ahead` is the number of fresh workers that will be asked for.
pub(super) fn open(request: &Request, crews: &mut Crews, ahead: usize) -> Seen<DeviceFacts> {
    let device = match request.device {
        DeviceChoice::Sim => Seen::NotRun(NotRun::SimulatorAsked),
        DeviceChoice::Auto | DeviceChoice::Cuda { .. } | DeviceChoice::CudaAll => crews.open(),
    };
    if device.got().is_some() {
        crews.first().start_ahead(ahead);
    }
    device
}

/// Turns a device into a fault if its driver cannot load what this compiler makes. This is reported once, and not by
/// each kernel.
pub(super) fn usable(device: Seen<DeviceFacts>, compiler: &str) -> Seen<DeviceFacts> {
    let problem = device
        .got()
        .and_then(|facts| driver_problem(compiler, facts.cuda_driver_version));
    match problem {
        Some(message) => Seen::Fault(Fault::new(FaultKind::Environment, message)),
        None => device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(cuda_driver_version: u32) -> Seen<DeviceFacts> {
        Seen::Got(DeviceFacts {
            ordinal: 0,
            name: "NVIDIA L4".to_owned(),
            uuid: "GPU-0".to_owned(),
            major: 8,
            minor: 9,
            multiprocessors: 58,
            l2_bytes: 48 << 20,
            memory_bytes: 24 << 30,
            driver: "550.90.07".to_owned(),
            cuda_driver_version,
            clock_policy: "default".to_owned(),
            max_sm_mhz: Some(2040),
        })
    }

    #[test]
    fn a_driver_too_old_for_the_compiler_is_a_fault_of_the_environment() {
        match usable(device(12040), "13.0.88") {
            Seen::Fault(fault) => {
                assert_eq!(fault.kind, FaultKind::Environment);
                assert!(
                    fault.message.contains("branch 580 or later"),
                    "{}",
                    fault.message
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(usable(device(13000), "13.0.88"), device(13000));
        let absent = Seen::NotRun(NotRun::NoDevice {
            problem: "no GPU".to_owned(),
        });
        assert_eq!(usable(absent.clone(), "13.0.88"), absent);
    }
}
