//! `doctor`: what this machine has, what it lacks, and what that costs.

use super::{has_no_gates, say};
use crate::cache::Cache;
use crate::calibrate::peaks::{self, Kernel, Measured};
use crate::cli::DoctorArgs;
use crate::config::{self, Selection};
use crate::device::DeviceChoice;
use crate::device::choice::driver_problem;
use crate::device::nvml;
use crate::error::Result;
use crate::exit::Exit;
use crate::process::confine::Support;
use crate::report::{reasons, words};
use crate::toolchain::{self, Profiler, Toolchain};
use crate::worker::Crew;
use std::fmt::Write;
use verdict::model::{DeviceFacts, OtherProcess, Seen};

/// One line of the examination.
enum Status {
    Good(String),
    /// Something is not there, and what that means.
    Missing(String),
    Bad(String),
}

pub fn run(args: &DoctorArgs) -> Result<Exit> {
    let config = &args.config;
    let cache = Cache::open();
    let gates = config::load(&config.config, &Selection::default());
    let pin = gates
        .as_ref()
        .ok()
        .and_then(|loaded| loaded.toolchain.cuda.clone());
    let compiler = cache
        .as_ref()
        .map_err(ToString::to_string)
        .and_then(|cache| {
            toolchain::find(pin.as_deref(), cache).map_err(|error| error.to_string())
        });
    let mut crew = Crew::new(DeviceChoice::Auto)?;
    let device = crew.device();
    let others = others(&mut crew, &device)?;
    crew.retire();

    let peaks = args
        .peaks
        .then(|| peaks(&cache, compiler.as_ref().ok(), &device));
    let version = compiler
        .as_ref()
        .ok()
        .map(|toolchain| toolchain.facts.version.clone());
    let mut lines = vec![
        (
            "cache".to_owned(),
            match &cache {
                Ok(cache) => Status::Good(match cache.shared() {
                    Some(shared) => format!(
                        "{}\nreads {}, too",
                        cache.root().display(),
                        shared.display()
                    ),
                    None => cache.root().display().to_string(),
                }),
                Err(error) => Status::Bad(error.to_string()),
            },
        ),
        (
            "gates".to_owned(),
            match &gates {
                Ok(loaded) => Status::Good(format!("{} cases", loaded.plan.cases.len())),
                Err(_) if has_no_gates(config) => Status::Missing(format!(
                    "{} does not exist; `gatekeeper init` writes one to start from",
                    config.config.display()
                )),
                Err(error) => Status::Bad(error.to_string()),
            },
        ),
        (
            "compiler".to_owned(),
            match compiler {
                Ok(toolchain) => {
                    Status::Good(super::toolchain::describe(&toolchain).trim_end().to_owned())
                }
                Err(message) => Status::Bad(message),
            },
        ),
        (
            "confined".to_owned(),
            confinement(Support::of_this_system()),
        ),
        (
            "device".to_owned(),
            device_status(&device, version.as_deref()),
        ),
        (
            "profiler".to_owned(),
            profiler(toolchain::find_profiler(), toolchain::may_read_counters()),
        ),
    ];
    lines.extend(others.iter().zip(1..).map(|(device, ordinal)| {
        let name = format!("cuda:{ordinal}");
        (name, device_status(device, version.as_deref()))
    }));
    lines.extend(
        peaks
            .into_iter()
            .flatten()
            .map(|it| ("peak".to_owned(), it)),
    );
    let mut text = String::new();
    for (what, status) in &lines {
        let (word, detail) = match status {
            Status::Good(detail) => ("ok", detail),
            Status::Missing(detail) => ("none", detail),
            Status::Bad(detail) => ("BAD", detail),
        };
        let detail = detail.replace('\n', "\n                ");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{what:<9} {word:<5} {detail}");
    }
    say(&text)?;
    let bad: Vec<_> = lines
        .iter()
        .filter(|(_, status)| matches!(status, Status::Bad(_)))
        .map(|(what, _)| what.as_str())
        .collect();
    Ok(if bad.contains(&"gates") {
        Exit::Usage
    } else if bad.is_empty() {
        Exit::Held
    } else {
        Exit::Environment
    })
}

/// What the first GPU reaches, beside what the tables have of it.
fn peaks(
    cache: &Result<Cache>,
    compiler: Option<&Toolchain>,
    device: &Seen<DeviceFacts>,
) -> Vec<Status> {
    let (Ok(cache), Some(compiler), Seen::Got(device)) = (cache, compiler, device) else {
        let lacks = "they are measured where there are a cache, a compiler and a GPU";
        return vec![Status::Missing(lacks.to_owned())];
    };
    match peaks::measure(compiler, cache, device) {
        Ok(measured) => measured.iter().map(|it| Status::Good(peak(it))).collect(),
        Err(error) => vec![Status::Bad(error.to_string())],
    }
}

/// `DRAM: 2.99 TB/s of 3.35 TB/s, 89 %`.
fn peak(measured: &Measured) -> String {
    let (what, unit) = match measured.kernel {
        Kernel::Fp32 => ("FP32", "TFLOP/s"),
        Kernel::Tensor => ("tensor cores, f16 by mma.sync", "TFLOP/s"),
        Kernel::Dram => ("DRAM, copy", "TB/s"),
        Kernel::L2 => ("L2, read", "TB/s"),
    };
    let tera = |value: f64| format!("{:.2} {unit}", value / 1e12);
    let reached = tera(measured.reached);
    match measured.peak {
        Some(peak) => {
            let share = measured.reached / peak * 100.0;
            format!("{what}: {reached} of {}, {share:.0} %", tera(peak))
        }
        None => format!("{what}: {reached}; the tables do not have this GPU"),
    }
}

/// What keeps compilers, references, launchers and rivals from the rest of the machine.
fn confinement(support: Support) -> Status {
    let all = [
        (
            support.files,
            "changing files of this user (Linux 5.13, Landlock)",
        ),
        (
            support.signals,
            "killing processes of this user (Linux 6.12, Landlock)",
        ),
        (support.sockets, "using the network (seccomp)"),
    ];
    let missing = all
        .iter()
        .filter(|(there, _)| !there)
        .map(|(_, what)| *what);
    match missing.collect::<Vec<_>>() {
        missing if missing.is_empty() => Status::Good(
            "compilers, references, launchers and rivals: in files, processes and network"
                .to_owned(),
        ),
        missing => Status::Missing(format!(
            "nothing keeps a reference or a compiler's flags from {}; see SECURITY.md",
            missing.join(", nor from ")
        )),
    }
}

/// Not an error: only `--profile` and `profile` need one.
fn profiler(found: Result<Profiler>, may_read: Option<bool>) -> Status {
    match (found, may_read) {
        (Err(error), _) => Status::Missing(error.to_string()),
        (Ok(_), Some(false)) => Status::Missing(
            "the driver lets administrators alone read the GPU's counters; set its option NVreg_RestrictProfilingToAdminUsers=0, or run as root, in a container with the capability SYS_ADMIN".to_owned(),
        ),
        (Ok(profiler), _) => Status::Good(format!(
            "Nsight Compute {}, {}",
            profiler.version,
            profiler.program.display()
        )),
    }
}

/// What there is beside the first device.
fn others(crew: &mut Crew, first: &Seen<DeviceFacts>) -> Result<Vec<Seen<DeviceFacts>>> {
    if first.got().is_none() {
        return Ok(Vec::new());
    }
    match crew.count() {
        Ok(count) => (1..count)
            .map(|ordinal| Ok(Crew::new(DeviceChoice::Cuda { ordinal })?.device()))
            .collect(),
        Err(fault) => Ok(vec![Seen::Fault(fault)]),
    }
}

fn device_status(device: &Seen<DeviceFacts>, compiler: Option<&str>) -> Status {
    match device {
        Seen::Got(facts) => {
            let problem =
                compiler.and_then(|version| driver_problem(version, facts.cuda_driver_version));
            match problem {
                Some(problem) => Status::Bad(problem),
                None => Status::Good(format!(
                    "{}, {}, driver {}, {} multiprocessors{}",
                    facts.name,
                    facts.arch(),
                    facts.driver,
                    facts.multiprocessors,
                    busy(&computing_on(&facts.uuid))
                )),
            }
        }
        Seen::Fault(fault) => Status::Bad(fault.message.clone()),
        Seen::Unsupported(why) => Status::Bad(reasons::unsupported(why)),
        Seen::NotRun(why) => Status::Missing(format!(
            "{}; kernels are checked in the simulator and not timed",
            reasons::not_run(why)
        )),
    }
}

/// The management library is asked on a thread: it may hang where the driver did not.
fn computing_on(uuid: &str) -> Vec<OtherProcess> {
    let (said, heard) = std::sync::mpsc::channel();
    let uuid = uuid.to_owned();
    std::thread::spawn(move || said.send(nvml::computing_on(&uuid)));
    let answer = heard.recv_timeout(std::time::Duration::from_secs(10));
    answer.ok().flatten().unwrap_or_default()
}

/// Not an error: a measurement waits for other gatekeepers only.
fn busy(others: &[OtherProcess]) -> String {
    if others.is_empty() {
        return String::new();
    }
    format!(
        "\nother processes use it right now, so times would vary more: {}",
        words::processes(others)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn counters_that_are_locked_are_told_before_a_profile() {
        let found = || {
            Ok(Profiler {
                program: "/usr/local/cuda/bin/ncu".into(),
                version: "2025.3.1.0".into(),
            })
        };
        let is_good = |status| matches!(status, Status::Good(text) if text == "Nsight Compute 2025.3.1.0, /usr/local/cuda/bin/ncu");
        assert!(is_good(profiler(found(), Some(true))));
        assert!(is_good(profiler(found(), None)));
        let locked = profiler(found(), Some(false));
        assert!(
            matches!(locked, Status::Missing(text) if text.contains("NVreg_RestrictProfilingToAdminUsers=0"))
        );
        let missing = profiler(Err(Error::environment("no profiler")), Some(true));
        assert!(matches!(missing, Status::Missing(text) if text.contains("no profiler")));
    }

    #[test]
    fn a_peak_stands_beside_that_of_the_tables() {
        let measured = |peak| Measured {
            kernel: Kernel::Dram,
            reached: 2.99e12,
            peak,
        };
        assert_eq!(
            peak(&measured(Some(3.352e12))),
            "DRAM, copy: 2.99 TB/s of 3.35 TB/s, 89 %"
        );
        assert_eq!(
            peak(&measured(None)),
            "DRAM, copy: 2.99 TB/s; the tables do not have this GPU"
        );
    }

    #[test]
    fn who_computes_on_the_gpu_is_named() {
        assert_eq!(busy(&[]), "");
        let python = OtherProcess {
            pid: Some(4711),
            name: Some("python3".into()),
        };
        let hidden = OtherProcess {
            name: None,
            ..python.clone()
        };
        assert_eq!(
            busy(&[python, hidden]),
            "\nother processes use it right now, so times would vary more: python3 (pid 4711), pid 4711"
        );
    }
}
