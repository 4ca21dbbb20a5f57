//! Parses which device a run should use, and finds out what the machine has. It never calls CUDA.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceChoice {
    /// The first CUDA device. A machine without one is not an error.
    #[default]
    Auto,
    /// This CUDA device, which must exist.
    Cuda { ordinal: u32 },
    /// All CUDA devices of the machine, which must exist and be alike. Cases are checked on any of them, and timed on
    /// the first.
    CudaAll,
    /// The simulator, which runs PTX on the CPU, whether or not there is a GPU.
    Sim,
}

impl DeviceChoice {
    /// Returns the ordinal of the device that is opened first.
    pub fn ordinal(self) -> u32 {
        match self {
            Self::Auto | Self::CudaAll | Self::Sim => 0,
            Self::Cuda { ordinal } => ordinal,
        }
    }

    /// Parses the device of a command that only measures times, which are taken on one GPU.
    ///
    /// # Errors
    /// Returns an error for a text that does not name a single device.
    pub fn parse_one(text: &str) -> Result<Self, BadDevice> {
        match text.parse()? {
            Self::CudaAll => Err(BadDevice::Several),
            one => Ok(one),
        }
    }
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadDevice {
    #[error("`{0}` is not a device; write auto, sim, cuda, cuda:N, or cuda:all")]
    Unknown(String),
    #[error("times are taken on one GPU; write cuda, or cuda:N")]
    Several,
}

impl FromStr for DeviceChoice {
    type Err = BadDevice;

    fn from_str(text: &str) -> Result<Self, BadDevice> {
        match text.split_once(':') {
            None if text == "auto" => Ok(Self::Auto),
            None if text == "sim" => Ok(Self::Sim),
            None if text == "cuda" => Ok(Self::Cuda { ordinal: 0 }),
            Some(("cuda", "all")) => Ok(Self::CudaAll),
            Some(("cuda", ordinal)) => ordinal
                .parse()
                .map(|ordinal| Self::Cuda { ordinal })
                .map_err(|_| BadDevice::Unknown(text.to_owned())),
            _ => Err(BadDevice::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Sim => f.write_str("sim"),
            Self::Cuda { ordinal } => write!(f, "cuda:{ordinal}"),
            Self::CudaAll => f.write_str("cuda:all"),
        }
    }
}

/// Signs of NVIDIA hardware and its driver, before any device was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traces {
    /// Device nodes: `/dev/nvidia0`, or `/dev/dxg` under WSL 2.
    pub nodes: bool,
    /// True if `libcuda.so.1` can be loaded.
    pub library: bool,
}

/// The result of `cuInit`, as far as it tells a machine without a device from a broken one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Init {
    Ready,
    /// CUDA_ERROR_NO_DEVICE, or a stub library as CUDA toolkits contain it.
    NoDevice,
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    Ready,
    Absent(String),
    Broken(String),
}

impl Traces {
    /// Looks for device nodes in `/dev`. `library` is true if the driver library is present.
    pub fn for_nodes(library: bool) -> Self {
        Self {
            nodes: device_nodes(Path::new("/dev")),
            library,
        }
    }

    /// Judges what is present. `init` is called only if there is a library to ask.
    pub fn judge(self, init: impl FnOnce() -> Init) -> Presence {
        match (self.library, self.nodes) {
            (false, false) => Presence::Absent(
                "no NVIDIA device: there is neither a driver library (libcuda.so.1) nor a device node (/dev/nvidia0)".to_owned(),
            ),
            (false, true) => Presence::Broken(
                "there is an NVIDIA device (/dev/nvidia*), but libcuda.so.1 cannot be loaded; install the \
                 driver's user libraries, or start the container with its GPU (docker run --gpus all)"
                    .to_owned(),
            ),
            (true, nodes) => match init() {
                Init::Ready => Presence::Ready,
                Init::NoDevice if !nodes => Presence::Absent(
                    "no NVIDIA device: libcuda.so.1 is installed, and the driver finds no GPU".to_owned(),
                ),
                Init::NoDevice => Presence::Broken(
                    "there are device nodes (/dev/nvidia*), but the CUDA driver finds no device; is \
                     CUDA_VISIBLE_DEVICES empty, or the driver not loaded? `nvidia-smi` may say more"
                        .to_owned(),
                ),
                Init::Failed(why) => Presence::Broken(format!(
                    "the CUDA driver does not start: {why}; `nvidia-smi` may say more"
                )),
            },
        }
    }
}

fn device_nodes(dev: &Path) -> bool {
    std::fs::read_dir(dev).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            entry.file_name().to_str().is_some_and(|name| {
                name == "dxg"
                    || name.strip_prefix("nvidia").is_some_and(|minor| {
                        !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit())
                    })
            })
        })
    })
}

/// Returns why a driver that supports CUDA `driver` (13000 for 13.0) does not load cubins of this compiler, or `None`
/// if it does.
///
/// Within one major version any driver loads any cubin (CUDA minor version compatibility); across major versions only
/// the newer driver does.
pub fn driver_problem(compiler: &str, driver: u32) -> Option<String> {
    let major: u32 = compiler.split('.').next()?.parse().ok()?;
    (driver / 1000 < major).then(|| {
        let needed = match major {
            13 => "driver branch 580 or later needed; code from CUDA 12 may run, but drivers before 580 are untested".to_owned(),
            12 => "driver branch 525 or later needed".to_owned(),
            _ => format!("a driver for CUDA {major} or later needed"),
        };
        format!(
            "the driver is too old for the compiler: it supports CUDA {}.{}, and nvcc is {compiler}; {needed}",
            driver / 1000,
            driver % 1000 / 10
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices() {
        assert_eq!("auto".parse(), Ok(DeviceChoice::Auto));
        assert_eq!("sim".parse(), Ok(DeviceChoice::Sim));
        assert_eq!("cuda".parse(), Ok(DeviceChoice::Cuda { ordinal: 0 }));
        assert_eq!("cuda:3".parse(), Ok(DeviceChoice::Cuda { ordinal: 3 }));
        for bad in [
            "",
            "cuda:",
            "cuda:-1",
            "cuda:x",
            "gpu",
            "auto:0",
            "cuda:0:1",
            "sim:0",
            "all",
            "cuda:All",
            "auto:all",
            "sim:all",
            "cuda:all:0",
        ] {
            assert!(bad.parse::<DeviceChoice>().is_err(), "{bad}");
        }
    }

    #[test]
    fn all_devices_are_a_choice_that_is_written_as_it_is_read() {
        assert_eq!("cuda:all".parse(), Ok(DeviceChoice::CudaAll));
        assert_eq!(DeviceChoice::CudaAll.to_string(), "cuda:all");
        assert_eq!(DeviceChoice::CudaAll.ordinal(), 0);
        assert_eq!(DeviceChoice::parse_one("cuda:all"), Err(BadDevice::Several));
        assert_eq!(
            DeviceChoice::parse_one("cuda:2"),
            Ok(DeviceChoice::Cuda { ordinal: 2 })
        );
    }

    #[test]
    fn absent_and_broken_are_told_apart() {
        let judge = |nodes, library, init: Init| Traces { nodes, library }.judge(|| init);
        let broken = Init::Failed("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH".to_owned());
        assert!(matches!(
            Traces {
                nodes: false,
                library: false
            }
            .judge(|| panic!("nothing to ask")),
            Presence::Absent(_)
        ));
        assert!(matches!(
            judge(true, false, Init::Ready),
            Presence::Broken(_)
        ));
        assert_eq!(judge(true, true, Init::Ready), Presence::Ready);
        assert!(matches!(
            judge(false, true, Init::NoDevice),
            Presence::Absent(_)
        ));
        assert!(matches!(
            judge(true, true, Init::NoDevice),
            Presence::Broken(_)
        ));
        for nodes in [false, true] {
            assert!(matches!(
                judge(nodes, true, broken.clone()),
                Presence::Broken(_)
            ));
        }
    }

    #[test]
    fn device_nodes_are_numbered() {
        let dir = tempfile::tempdir().unwrap();
        for control in ["nvidiactl", "nvidia-uvm", "nvidia", "null"] {
            std::fs::write(dir.path().join(control), "").unwrap();
        }
        assert!(!device_nodes(dir.path()));
        std::fs::write(dir.path().join("nvidia11"), "").unwrap();
        assert!(device_nodes(dir.path()));
        assert!(!device_nodes(&dir.path().join("missing")));
    }

    #[test]
    fn an_old_driver_is_named() {
        assert_eq!(driver_problem("13.0.88", 13000), None);
        assert_eq!(driver_problem("13.3.1", 13000), None);
        assert_eq!(driver_problem("12.9.41", 13000), None);
        let problem = driver_problem("13.0.88", 12040).unwrap();
        assert!(
            problem.contains("CUDA 12.4") && problem.contains("branch 580 or later"),
            "{problem}"
        );
        assert_eq!(driver_problem("unknown", 12040), None);
    }
}
