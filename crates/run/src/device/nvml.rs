//! Reads a GPU's state from NVIDIA's management library: driver version, clocks, temperature, power, throttling.
//!
//! The library is loaded at run time. If it is missing or refuses, facts are `None`, never an error.

use model::{GpuState, Num, OtherProcess};
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, ComputeMode as Mode, EccCounter, MemoryError, TemperatureSensor,
};
use serde::Serialize;

pub struct Monitor {
    nvml: Nvml,
    /// The address on the PCI bus, such as `00000000:1B:00.0`.
    pci: String,
}

impl Monitor {
    pub fn open(pci: &str) -> Option<Self> {
        let monitor = Self {
            nvml: Nvml::init().ok()?,
            pci: pci.to_owned(),
        };
        monitor.device().map(drop)?;
        Some(monitor)
    }

    fn device(&self) -> Option<nvml_wrapper::Device<'_>> {
        self.nvml.device_by_pci_bus_id(self.pci.as_str()).ok()
    }

    /// Returns the version of the driver, such as `580.159.04`.
    pub fn driver(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    pub fn max_sm_mhz(&self) -> Option<u32> {
        self.device()?.max_clock_info(Clock::SM).ok()
    }

    /// Returns `locked` if the application clocks are not the default ones. NVML has no query for clocks that were
    /// locked with `nvidia-smi -lgc`; those show only in the measured clock.
    pub fn clock_policy(&self) -> &'static str {
        let set = self.device().and_then(|device| {
            let now = device.applications_clock(Clock::SM).ok()?;
            Some(now != device.default_applications_clock(Clock::SM).ok()?)
        });
        if set == Some(true) {
            "locked"
        } else {
            "default"
        }
    }

    /// Returns true if clocks are lowered right now because of heat or by hardware.
    pub fn slowed(&self) -> Option<bool> {
        let reasons = self.device()?.current_throttle_reasons().ok()?;
        Some(reasons.intersects(slowdowns()))
    }

    pub fn state(&self) -> GpuState {
        let device = self.device();
        let device = device.as_ref();
        let reasons = device.and_then(|device| device.current_throttle_reasons().ok());
        GpuState {
            sm_mhz_before: None,
            sm_mhz_after: None,
            temperature_c: device
                .and_then(|device| device.temperature(TemperatureSensor::Gpu).ok()),
            power_w: device
                .and_then(|device| device.power_usage().ok())
                .map(|milliwatts| Num(f64::from(milliwatts) / 1000.0)),
            throttle_reasons: reasons.map(names),
            throttled: reasons.is_some_and(|reasons| reasons.intersects(slowdowns())),
            other_processes: device
                .and_then(|device| computing(&self.nvml, device))
                .map(|all| others(all, std::process::id())),
        }
    }
}

/// The state of a GPU on which nothing of this process runs. `None` is a value that NVML does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Condition {
    /// The id of the whole GPU, if this one is a slice of it.
    pub uuid: Option<String>,
    pub sm_mhz: Option<u32>,
    pub max_sm_mhz: Option<u32>,
    pub memory_mhz: Option<u32>,
    pub max_memory_mhz: Option<u32>,
    pub temperature_c: Option<u32>,
    pub power_w: Option<f64>,
    pub power_limit_w: Option<f64>,
    /// All reasons for which the clock is not higher.
    pub throttle_reasons: Option<Vec<String>>,
    /// The reasons among them that are heat or hardware.
    pub slowdowns: Option<Vec<String>>,
    /// The processes that have the GPU open, by their ids.
    pub other_processes: Option<Vec<OtherProcess>>,
    pub ecc: Option<Ecc>,
    pub mig: Option<bool>,
    pub persistence: Option<bool>,
    pub compute_mode: Option<ComputeMode>,
}

/// Errors are counted since the driver was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ecc {
    pub enabled: bool,
    /// The setting after the next reboot.
    pub pending: bool,
    pub corrected: Option<u64>,
    pub uncorrected: Option<u64>,
}

/// The number of processes that may use a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComputeMode {
    Default,
    Exclusive,
    Prohibited,
}

/// Returns the condition of a GPU, or `None` if there is no NVML or it does not know the GPU of this UUID.
pub fn condition_of(uuid: &str) -> Option<Condition> {
    let nvml = Nvml::init().ok()?;
    // CUDA writes the UUID of a slice in the same form as the UUID of a GPU.
    let device = nvml.device_by_uuid(uuid).or_else(|_| {
        let slice = nvml.device_by_uuid(uuid.replacen("GPU-", "MIG-", 1))?;
        slice.mig_parent_device()
    });
    let device = device.ok()?;
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1000.0;
    let reasons = device.current_throttle_reasons().ok();
    let errors = |kind| device.total_ecc_errors(kind, EccCounter::Volatile).ok();
    Some(Condition {
        uuid: device.uuid().ok(),
        sm_mhz: device.clock_info(Clock::SM).ok(),
        max_sm_mhz: device.max_clock_info(Clock::SM).ok(),
        memory_mhz: device.clock_info(Clock::Memory).ok(),
        max_memory_mhz: device.max_clock_info(Clock::Memory).ok(),
        temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
        power_w: device.power_usage().ok().map(watts),
        power_limit_w: device.enforced_power_limit().ok().map(watts),
        throttle_reasons: reasons.map(names),
        slowdowns: reasons.map(|reasons| names(reasons & slowdowns())),
        other_processes: computing(&nvml, &device).map(|mut all| {
            all.sort();
            all
        }),
        ecc: device.is_ecc_enabled().ok().map(|state| Ecc {
            enabled: state.currently_enabled,
            pending: state.pending_enabled,
            corrected: errors(MemoryError::Corrected),
            uncorrected: errors(MemoryError::Uncorrected),
        }),
        mig: device.mig_mode().ok().map(|mode| mode.current != 0),
        persistence: device.is_in_persistent_mode().ok(),
        compute_mode: device.compute_mode().ok().map(|mode| match mode {
            Mode::Default => ComputeMode::Default,
            Mode::ExclusiveThread | Mode::ExclusiveProcess => ComputeMode::Exclusive,
            Mode::Prohibited => ComputeMode::Prohibited,
        }),
    })
}

fn computing(nvml: &Nvml, device: &nvml_wrapper::Device<'_>) -> Option<Vec<OtherProcess>> {
    let processes = device.running_compute_processes().ok()?;
    Some(
        processes
            .into_iter()
            .map(|process| OtherProcess {
                pid: Some(process.pid),
                name: nvml
                    .sys_process_name(process.pid, LONGEST_NAME)
                    .ok()
                    .and_then(|name| program(&name)),
            })
            .collect(),
    )
}

/// The most bytes of a name that NVML writes.
const LONGEST_NAME: usize = 256;

/// Returns `python3` for `/usr/bin/python3 train.py`. Paths and arguments of other people's programs do not belong in a
/// record.
fn program(command: &str) -> Option<String> {
    let path = command.split_whitespace().next()?;
    let name = path.rsplit('/').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns all processes except this one. If this process is not in the list by its id, the ids are of another
/// namespace (a container's own): one of them is still this process, and it is unknown which one.
fn others(mut all: Vec<OtherProcess>, own: u32) -> Vec<OtherProcess> {
    let listed = all.len();
    all.retain(|process| process.pid != Some(own));
    if all.len() == listed {
        let unnamed = OtherProcess {
            pid: None,
            name: None,
        };
        return vec![unnamed; listed.saturating_sub(1)];
    }
    all.sort();
    all
}

/// Returns the state of a GPU without NVML, in which nothing is known.
pub fn unknown_state() -> GpuState {
    GpuState {
        sm_mhz_before: None,
        sm_mhz_after: None,
        temperature_c: None,
        power_w: None,
        throttle_reasons: None,
        throttled: false,
        other_processes: None,
    }
}

/// Combines several looks at the same measurement: the worst of each. Why the GPU was slow is
/// known only if every look could tell.
pub fn worst(states: impl IntoIterator<Item = GpuState>) -> GpuState {
    let worse = |mut all: GpuState, state: GpuState| {
        all.temperature_c = all.temperature_c.max(state.temperature_c);
        all.power_w = match (all.power_w, state.power_w) {
            (Some(a), Some(b)) => Some(Num(a.0.max(b.0))),
            (a, b) => a.or(b),
        };
        all.throttle_reasons =
            all.throttle_reasons
                .zip(state.throttle_reasons)
                .map(|(mut all, more)| {
                    all.extend(more);
                    all.sort();
                    all.dedup();
                    all
                });
        all.throttled |= state.throttled;
        all.other_processes = match (all.other_processes, state.other_processes) {
            (Some(all), Some(more)) => Some(OtherProcess::together(all, more)),
            (all, more) => all.or(more),
        };
        all
    };
    states
        .into_iter()
        .reduce(worse)
        .unwrap_or_else(unknown_state)
}

/// Returns the reasons for which clocks are lowered by heat or hardware. The power cap is not among them, because it is
/// how a GPU runs under full load.
fn slowdowns() -> ThrottleReasons {
    ThrottleReasons::HW_SLOWDOWN
        | ThrottleReasons::HW_THERMAL_SLOWDOWN
        | ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN
        | ThrottleReasons::SW_THERMAL_SLOWDOWN
}

/// Returns the names of the reasons, sorted. An idle GPU is left out, because the GPU is idle between our own samples.
fn names(reasons: ThrottleReasons) -> Vec<String> {
    let known = [
        (
            ThrottleReasons::APPLICATIONS_CLOCKS_SETTING,
            "applications_clocks_setting",
        ),
        (
            ThrottleReasons::DISPLAY_CLOCK_SETTING,
            "display_clock_setting",
        ),
        (
            ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN,
            "hw_power_brake_slowdown",
        ),
        (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal_slowdown"),
        (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal_slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync_boost"),
    ];
    known
        .into_iter()
        .filter(|(reason, _)| reasons.contains(*reason))
        .map(|(_, name)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cap_is_named_and_is_no_slowdown() {
        let capped = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::GPU_IDLE;
        assert_eq!(names(capped), ["sw_power_cap"]);
        assert!(!capped.intersects(slowdowns()));
        assert!(ThrottleReasons::SW_THERMAL_SLOWDOWN.intersects(slowdowns()));
    }

    fn process(pid: u32, name: &str) -> OtherProcess {
        OtherProcess {
            pid: Some(pid),
            name: Some(name.into()),
        }
    }

    fn unnamed(count: usize) -> Vec<OtherProcess> {
        let one = OtherProcess {
            pid: None,
            name: None,
        };
        vec![one; count]
    }

    #[test]
    fn everyone_but_this_process_is_another() {
        let all = || {
            vec![
                process(30, "python3"),
                process(7, "gatekeeper"),
                process(12, "a"),
            ]
        };
        assert_eq!(others(all(), 7), [process(12, "a"), process(30, "python3")]);
        assert_eq!(others(vec![process(7, "gatekeeper")], 7), []);
        // In a container: nothing is shown, this process alone under another id, or with others.
        assert_eq!(others(vec![], 7), []);
        assert_eq!(others(vec![process(4711, "gatekeeper")], 7), []);
        assert_eq!(others(all(), 8), unnamed(2));
    }

    #[test]
    fn a_program_is_named_without_its_path_and_arguments() {
        for (command, name) in [
            ("/usr/bin/python3", Some("python3")),
            ("/opt/x/train --key secret", Some("train")),
            ("nvidia-cuda-mps-server", Some("nvidia-cuda-mps-server")),
            ("", None),
            ("/usr/bin/", None),
        ] {
            assert_eq!(program(command).as_deref(), name, "{command}");
        }
    }

    #[test]
    fn one_bad_look_marks_the_measurement() {
        let look = |reasons: &[&str], throttled, temperature, others| GpuState {
            throttle_reasons: Some(reasons.iter().map(|&reason| reason.to_owned()).collect()),
            throttled,
            temperature_c: temperature,
            other_processes: others,
            ..unknown_state()
        };
        let all = worst([
            look(&["sw_power_cap"], false, Some(60), Some(vec![])),
            look(
                &["hw_slowdown", "sw_power_cap"],
                true,
                Some(71),
                Some(vec![process(12, "python3")]),
            ),
            look(&[], false, None, None),
        ]);
        assert_eq!(
            all,
            look(
                &["hw_slowdown", "sw_power_cap"],
                true,
                Some(71),
                Some(vec![process(12, "python3")])
            )
        );
    }

    #[test]
    fn a_look_that_cannot_tell_leaves_it_open() {
        let known = GpuState {
            throttle_reasons: Some(Vec::new()),
            ..unknown_state()
        };
        assert_eq!(worst([known.clone(), known.clone()]), known);
        assert_eq!(worst([known, unknown_state()]).throttle_reasons, None);
        assert_eq!(worst([]), unknown_state());
    }
}
