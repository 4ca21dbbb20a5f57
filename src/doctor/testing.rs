//! Describes machines for the tests of the doctor.

use super::*;
use crate::doctor::peaks::PeakKernel;
use judge::fixture;
use model::{Fault, FaultKind, NotRun};
use run::device::nvml::Ecc;

const GIB: u64 = 1 << 30;

fn part(name: &'static str, version: &str) -> CompilerPart {
    CompilerPart {
        name,
        version: Some(version.to_owned()),
    }
}

fn tool(program: &str, version: &str) -> Tool {
    Tool {
        program: program.to_owned(),
        version: version.to_owned(),
    }
}

pub fn condition() -> Condition {
    Condition {
        uuid: Some("GPU-1".into()),
        sm_mhz: Some(345),
        max_sm_mhz: Some(1980),
        memory_mhz: Some(2619),
        max_memory_mhz: Some(2619),
        temperature_c: Some(34),
        power_w: Some(71.4),
        power_limit_w: Some(700.0),
        throttle_reasons: Some(Vec::new()),
        slowdowns: Some(Vec::new()),
        other_processes: Some(Vec::new()),
        ecc: Some(Ecc {
            enabled: true,
            pending: true,
            corrected: Some(2),
            uncorrected: Some(0),
        }),
        mig: Some(false),
        persistence: Some(true),
        compute_mode: Some(ComputeMode::Default),
    }
}

fn gpu(ordinal: u32, condition: Condition, standing: LockState) -> GpuSeen {
    GpuSeen {
        ordinal,
        device: Seen::Got(fixture::device()),
        condition: Some(condition),
        lock: Some(LockSeen {
            path: "/tmp/gatekeeper-GPU-1.lock".into(),
            standing,
        }),
    }
}

/// Returns a machine that lacks nothing and can time kernels.
pub fn good() -> Machine {
    Machine {
        cache: Ok(CacheSeen {
            root: "/home/u/.cache/gatekeeper".into(),
            shared: Some("/srv/gatekeeper".into()),
            holds: Some(Amount {
                entries: 1200,
                bytes: 5 * GIB,
            }),
            unused: Some(Amount {
                entries: 300,
                bytes: 2 * GIB,
            }),
            free_bytes: Some(400 * GIB),
        }),
        output: OutputSeen {
            directory: "gatekeeper-out".into(),
            free_bytes: Some(400 * GIB),
            unwritable: None,
        },
        gates: GatesSeen::Loaded {
            file: "gates.yaml".into(),
            cases: 12,
        },
        compiler: Some(Ok(compiler())),
        disassembler: Some(tool("/usr/local/cuda/bin/nvdisasm", "13.0.85")),
        confinement: Support {
            files: true,
            signals: true,
            sockets: true,
        },
        gpus: Seen::Got(GpusSeen {
            driver: "580.159.04".into(),
            cuda_driver_version: 13000,
            all: vec![gpu(0, condition(), LockState::Free)],
            uncounted: None,
        }),
        profiler: Ok(tool("/usr/local/cuda/bin/ncu", "2025.3.1.0")),
        may_read_counters: Some(true),
        sanitizer: Some(tool("/usr/local/cuda/bin/compute-sanitizer", "2025.3.0.0")),
        git: Some("2.47.3".into()),
        peaks: Some(PeaksSeen::Measured(vec![Measured {
            kernel: PeakKernel::Dram,
            reached: 2.99e12,
            peak: Some(3.352e12),
        }])),
    }
}

pub fn compiler() -> CompilerSeen {
    CompilerSeen {
        nvcc: "/usr/local/cuda/bin/nvcc".into(),
        version: "13.0.88".into(),
        host_compiler: "/usr/bin/g++".into(),
        host_version: "g++ 12.2.0".into(),
        parts: vec![
            part("cicc", "13.0.88"),
            part("ptxas", "13.0.88"),
            CompilerPart {
                name: "nvlink",
                version: None,
            },
            part("headers", "13.0"),
        ],
        tried: "sm_90".into(),
        failed: None,
    }
}

/// Returns a machine that has only a compiler.
pub fn laptop() -> Machine {
    Machine {
        gates: GatesSeen::Absent {
            file: "gates.yaml".into(),
        },
        disassembler: None,
        confinement: Support {
            files: true,
            signals: false,
            sockets: true,
        },
        gpus: Seen::NotRun(NotRun::NoDevice {
            problem: "no NVIDIA device".into(),
        }),
        profiler: Err(Diagnostic::new("ncu is not on PATH").help("install it")),
        may_read_counters: None,
        sanitizer: None,
        git: None,
        peaks: Some(PeaksSeen::Unmeasurable),
        ..good()
    }
}

/// Returns a machine with all problems that a run can meet.
pub fn broken() -> Machine {
    let worn = Condition {
        throttle_reasons: Some(vec!["hw_thermal_slowdown".into(), "sw_power_cap".into()]),
        slowdowns: Some(vec!["hw_thermal_slowdown".into()]),
        other_processes: Some(vec![
            OtherProcess {
                pid: Some(4711),
                name: Some("python3".into()),
            },
            OtherProcess {
                pid: Some(4712),
                name: None,
            },
        ]),
        ecc: Some(Ecc {
            enabled: true,
            pending: false,
            corrected: Some(90),
            uncorrected: Some(1),
        }),
        mig: Some(true),
        persistence: Some(false),
        compute_mode: Some(ComputeMode::Exclusive),
        ..condition()
    };
    let prohibited = Condition {
        uuid: None,
        compute_mode: Some(ComputeMode::Prohibited),
        ..Condition::default()
    };
    let unusable = LockState::Unusable("Permission denied".into());
    let fallen = GpuSeen {
        ordinal: 3,
        device: Seen::Fault(Fault::new(
            FaultKind::Environment,
            "the worker ended: exit code 1\nGPU has fallen off the bus",
        )),
        condition: None,
        lock: None,
    };
    let silent = GpuSeen {
        condition: None,
        ..gpu(
            2,
            condition(),
            LockState::Held("pid 12 (gatekeeper run)".into()),
        )
    };
    let compiler = CompilerSeen {
        parts: vec![part("cicc", "13.5.37"), part("ptxas", "12.8.93")],
        failed: Some(Diagnostic::new("nvcc broke: it was killed by SIGSEGV").help("look at it")),
        ..compiler()
    };
    let mut machine = good();
    if let Ok(cache) = &mut machine.cache {
        cache.holds = None;
        cache.free_bytes = Some(700 << 20);
    }
    Machine {
        output: OutputSeen {
            unwritable: Some("Read-only file system".into()),
            ..machine.output
        },
        gates: GatesSeen::Broken(
            Diagnostic::new("unknown key `gate`")
                .at("gates.yaml:3:5")
                .help("did you mean `gates`?"),
        ),
        compiler: Some(Ok(compiler)),
        confinement: Support {
            files: false,
            signals: false,
            sockets: false,
        },
        gpus: Seen::Got(GpusSeen {
            driver: "535.104.05".into(),
            cuda_driver_version: 12020,
            all: vec![
                gpu(0, worn, unusable),
                gpu(1, prohibited, LockState::Free),
                silent,
                fallen,
            ],
            uncounted: Some("the devices cannot be counted: the worker was killed".into()),
        }),
        may_read_counters: Some(false),
        peaks: Some(PeaksSeen::Broken(Diagnostic::new("dram: no launch"))),
        ..machine
    }
}
