//! Lays out the checklist of `doctor`, for people and for programs.

use crate::doctor::peaks::{Measured, PeakKernel};
use crate::doctor::{
    Amount, CacheSeen, CompilerSeen, Disk, Facts, Item, MachineProblem, State, UNUSED_DAYS, exit,
};
use build::toolchain::CompilerPart;
use model::DeviceFacts;
use report::document;
use report::exit::Exit;
use run::device::nvml::{ComputeMode, Condition};
use serde::Serialize;
use std::fmt::Write;
use system::error::{Diagnostic, Result};
use system::process::confine::Support;
use wording::words;

pub const SCHEMA: &str = "gatekeeper.doctor/1";

pub fn json(items: &[Item]) -> Result<String> {
    #[derive(Serialize)]
    struct DoctorDocument<'a> {
        schema: &'static str,
        gatekeeper: &'static str,
        exit_code: u8,
        items: Vec<ReportedItem<'a>>,
    }
    #[derive(Serialize)]
    struct ReportedItem<'a> {
        name: &'a str,
        state: State,
        facts: &'a Facts<'a>,
        problems: Vec<ReportedProblem>,
    }
    #[derive(Serialize)]
    struct ReportedProblem {
        code: &'static str,
        state: State,
        message: String,
        help: Vec<String>,
    }
    let told = |problem: &MachineProblem| ReportedProblem {
        code: problem.code(),
        state: problem.state(),
        message: message(problem),
        help: help(problem),
    };
    let page = DoctorDocument {
        schema: SCHEMA,
        gatekeeper: env!("CARGO_PKG_VERSION"),
        exit_code: exit(items) as u8,
        items: items
            .iter()
            .map(|item| ReportedItem {
                name: &item.name,
                state: item.state(),
                facts: &item.facts,
                problems: item.problems.iter().map(told).collect(),
            })
            .collect(),
    };
    document::json("the checklist", &page)
}

/// Returns the facts, and below them each problem with its help.
pub fn text(items: &[Item]) -> String {
    let width = items.iter().map(|item| item.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for item in items {
        let mut lines = lines_of(&item.facts);
        for problem in &item.problems {
            // If the item is in a worse state because of another problem, this one keeps its own word.
            let word = if problem.state() == item.state() {
                String::new()
            } else {
                format!("{}: ", word(problem.state()))
            };
            let said = format!("{word}{}", message(problem));
            lines.extend(said.lines().map(str::to_owned));
            lines.extend(help(problem).iter().map(|help| format!("help: {help}")));
        }
        let state = word(item.state());
        let mut head = format!("{:<width$}  {state:<7}  ", item.name);
        for line in lines {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{head}{line}");
            head = " ".repeat(width + 11);
        }
    }
    text + "\n" + &headline(items)
}

fn word(state: State) -> &'static str {
    match state {
        State::Good => "ok",
        State::Limited => "limited",
        State::Broken => "BROKEN",
    }
}

/// Returns a line such as `12 ok, 3 limited: a run would work`.
fn headline(items: &[Item]) -> String {
    let states = [State::Broken, State::Limited, State::Good];
    let counts = states
        .iter()
        .filter_map(|state| {
            let count = items.iter().filter(|item| item.state() == *state).count();
            (count > 0).then(|| format!("{count} {}", word(*state)))
        })
        .collect::<Vec<_>>()
        .join(", ");
    let ending = match exit(items) {
        Exit::Held => "nothing here stops a run",
        Exit::Usage => "a run would stop at the mistake in gates.yaml (exit code 2)",
        _ => "a run would fail (exit code 4)",
    };
    format!("{counts}: {ending}")
}

fn lines_of(facts: &Facts) -> Vec<String> {
    match facts {
        Facts::Nothing => Vec::new(),
        Facts::Cache(cache) => cache_lines(cache),
        Facts::Output(output) => {
            vec![beside_space(&output.directory, output.free_bytes)]
        }
        Facts::Gates { file, cases } => {
            vec![format!("{file}, {}", words::plural(*cases, "case"))]
        }
        Facts::Compiler(compiler) => compiler_lines(compiler),
        Facts::Tool(tool) => vec![format!("{} at {}", tool.version, tool.program)],
        Facts::Git { version } => vec![(*version).to_owned()],
        Facts::Confinement(support) => confinement_lines(*support),
        Facts::Driver {
            version,
            cuda_driver_version,
        } => vec![format!(
            "{version}, for CUDA {}",
            cuda_version(*cuda_driver_version)
        )],
        Facts::Gpu {
            device,
            condition,
            lock,
        } => gpu_lines(device, *condition, *lock),
        Facts::Peak(measured) => vec![peak(measured)],
    }
}

fn beside_space(what: &str, free: Option<u64>) -> String {
    match free {
        Some(free) => format!("{what}, {} free", words::size(free)),
        None => what.to_owned(),
    }
}

fn cache_lines(cache: &CacheSeen) -> Vec<String> {
    let holds = match cache.holds {
        Some(all) => format!("{} in {}", words::size(all.bytes), entries(all)),
        None => "its size could not be counted in time".to_owned(),
    };
    let shared = cache.shared.iter().map(|path| format!("reads {path}, too"));
    let unused = cache.unused.filter(|unused| unused.entries > 0);
    let unused = unused.map(|unused| {
        format!(
            "{} in {} not used for {UNUSED_DAYS} days: `gatekeeper cache prune --older-than {UNUSED_DAYS}d` removes them",
            words::size(unused.bytes),
            entries(unused)
        )
    });
    let first = beside_space(&format!("{}, {holds}", cache.root), cache.free_bytes);
    [first].into_iter().chain(shared).chain(unused).collect()
}

fn entries(amount: Amount) -> String {
    match amount.entries {
        1 => "1 entry".to_owned(),
        count => format!("{count} entries"),
    }
}

fn compiler_lines(compiler: &CompilerSeen) -> Vec<String> {
    let parts: Vec<_> = compiler
        .parts
        .iter()
        .filter(|part| part.version.is_some())
        .map(shown)
        .collect();
    let lines = [
        Some(format!("nvcc {} at {}", compiler.version, compiler.nvcc)),
        (!parts.is_empty()).then(|| format!("with {}", parts.join(", "))),
        Some(format!(
            "host compiler {} at {}",
            compiler.host_version, compiler.host_compiler
        )),
        (compiler.failed.is_none())
            .then(|| format!("compiles an empty kernel for {}", compiler.tried)),
    ];
    lines.into_iter().flatten().collect()
}

/// Returns a part's name and version, such as `ptxas 13.0.88`.
fn shown(part: &CompilerPart) -> String {
    match &part.version {
        Some(version) => format!("{} {version}", part.name),
        None => part.name.to_owned(),
    }
}

fn confinement_lines(support: Support) -> Vec<String> {
    let all = [
        (support.files, "files"),
        (support.signals, "processes"),
        (support.sockets, "network"),
    ];
    let kept = all.iter().filter(|(kept, _)| *kept).map(|(_, what)| *what);
    match kept.collect::<Vec<_>>() {
        kept if kept.is_empty() => Vec::new(),
        kept => vec![format!(
            "compilers, references, launchers and rivals: {}",
            kept.join(", ")
        )],
    }
}

fn gpu_lines(
    device: &DeviceFacts,
    condition: Option<&Condition>,
    lock: Option<&str>,
) -> Vec<String> {
    let mut lines = vec![format!(
        "{}, {}, {} multiprocessors, {}",
        device.name,
        device.arch(),
        device.multiprocessors,
        words::size(device.memory_bytes)
    )];
    if let Some(condition) = condition {
        lines.extend(clocks(condition, &device.clock_policy));
        lines.extend(settings(condition));
    }
    lines.extend(lock.map(|lock| format!("lock file {lock}")));
    lines
}

/// Returns a line such as `SM at 345 of 1980 MHz, memory at 2619 of 2619 MHz, default clocks, 34 C, 71 of 700 W`.
fn clocks(condition: &Condition, policy: &str) -> Option<String> {
    let of = |what: &str, now: Option<u32>, most: Option<u32>| {
        let most = most.map_or_else(String::new, |most| format!(" of {most}"));
        now.map(|now| format!("{what} at {now}{most} MHz"))
    };
    let power = condition.power_w.map(|watts| {
        let most = condition.power_limit_w;
        let most = most.map_or_else(String::new, |most| format!(" of {most:.0}"));
        format!("{watts:.0}{most} W")
    });
    let reasons = condition.throttle_reasons.as_ref();
    let reasons = reasons.filter(|reasons| !reasons.is_empty());
    let parts = [
        of("SM", condition.sm_mhz, condition.max_sm_mhz),
        of("memory", condition.memory_mhz, condition.max_memory_mhz),
        Some(format!("{policy} clocks")),
        condition
            .temperature_c
            .map(|celsius| format!("{celsius} C")),
        power,
        reasons.map(|reasons| format!("clock held by {}", reasons.join(", "))),
    ];
    joined(parts)
}

/// Returns a line such as `ECC on, 0 memory errors corrected and 0 not, MIG off, persistence mode on, compute mode
/// default`.
fn settings(condition: &Condition) -> Option<String> {
    let on = |what: &str, is: Option<bool>| {
        is.map(|is| format!("{what} {}", if is { "on" } else { "off" }))
    };
    let errors = condition.ecc.and_then(|ecc| {
        let (corrected, uncorrected) = (ecc.corrected?, ecc.uncorrected?);
        Some(format!(
            "{corrected} memory errors corrected and {uncorrected} not"
        ))
    });
    let pending = condition.ecc.filter(|ecc| ecc.pending != ecc.enabled);
    let mode = condition.compute_mode.map(|mode| {
        let mode = match mode {
            ComputeMode::Default => "default",
            ComputeMode::Exclusive => "exclusive",
            ComputeMode::Prohibited => "prohibited",
        };
        format!("compute mode {mode}")
    });
    joined([
        on("ECC", condition.ecc.map(|ecc| ecc.enabled)),
        on("after a reboot", pending.map(|ecc| ecc.pending)),
        errors,
        on("MIG", condition.mig),
        on("persistence mode", condition.persistence),
        mode,
    ])
}

fn joined<const N: usize>(parts: [Option<String>; N]) -> Option<String> {
    let known: Vec<_> = parts.into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// Returns a line such as `DRAM: 2.99 TB/s of 3.35 TB/s, 89 %`.
fn peak(measured: &Measured) -> String {
    let (what, unit) = match measured.kernel {
        PeakKernel::Fp32 => ("FP32", "TFLOP/s"),
        PeakKernel::Tensor => ("tensor cores, f16 by mma.sync", "TFLOP/s"),
        PeakKernel::Dram => ("DRAM, copy", "TB/s"),
        PeakKernel::L2 => ("L2, read", "TB/s"),
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

/// Returns the version `13.0` for 13000.
fn cuda_version(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Returns the message of a diagnostic without its remedies, which have lines of their own.
fn without_help(diagnostic: &Diagnostic) -> String {
    let alone = Diagnostic {
        help: Vec::new(),
        ..diagnostic.clone()
    };
    alone.to_string()
}

fn message(problem: &MachineProblem) -> String {
    match problem {
        MachineProblem::CacheUnusable(why)
        | MachineProblem::GatesBroken(why)
        | MachineProblem::CompilerUnusable(why)
        | MachineProblem::PeaksBroken(why) => without_help(why),
        MachineProblem::DoesNotCompile(why) => {
            format!("an empty kernel does not compile: {}", without_help(why))
        }
        MachineProblem::NoProfiler(why) => format!(
            "{}; `--profile` and `profile` need it",
            without_help(why)
        ),
        MachineProblem::OutputUnwritable { why } => format!("nothing can be written there: {why}"),
        MachineProblem::NoSpace { free, .. } => {
            format!("{} are too little for a run", words::size(*free))
        }
        MachineProblem::LittleSpace { free, of } => format!(
            "{} may be too little for {}",
            words::size(*free),
            match of {
                Disk::Cache(_) => "a compiler and many builds",
                Disk::Output => "a record of many cases",
            }
        ),
        MachineProblem::NoGates { file } => format!("{file} does not exist"),
        MachineProblem::CompilerNotLookedFor => "it is looked for once there is a cache".to_owned(),
        MachineProblem::PartsMixed { nvcc, others } => {
            let others: Vec<_> = others.iter().map(shown).collect();
            format!(
                "nvcc is {nvcc}, and {} of another release: values would be recorded under a compiler that did not make them",
                match others.as_slice() {
                    [one] => format!("{one} is"),
                    several => format!("{} are", words::listed(several)),
                }
            )
        }
        MachineProblem::NoDisassembler => {
            "there is no nvdisasm: `explain` knows less about machine code".to_owned()
        }
        MachineProblem::NotConfined(support) => {
            let all = [
                (support.files, "changing files of this user (Linux 5.13, Landlock)"),
                (support.signals, "killing processes of this user (Linux 6.12, Landlock)"),
                (support.sockets, "using the network (seccomp)"),
            ];
            let missing: Vec<_> = all.iter().filter(|(there, _)| !there).map(|(_, what)| *what).collect();
            format!(
                "nothing keeps a reference or a compiler's flags from {}",
                missing.join(", nor from ")
            )
        }
        MachineProblem::NoGpu { why } => {
            format!("{why}; kernels are checked in the simulator and not timed")
        }
        MachineProblem::NoRequiredGpu { why } => format!("{why}; with --require-gpu a run fails"),
        MachineProblem::DriverBroken { why }
        | MachineProblem::DriverTooOld { why, .. }
        | MachineProblem::GpusUncounted { why }
        | MachineProblem::GpuUnusable { why } => why.clone(),
        MachineProblem::ComputeProhibited { .. } => "its compute mode is Prohibited: no process can use it".to_owned(),
        MachineProblem::ComputeExclusive { .. } => {
            "its compute mode is Exclusive_Process: one process at a time can use it, and a run fails while another one does".to_owned()
        }
        MachineProblem::LockUnusable { path, why } => {
            format!("the lock file {path} cannot be used, and a run would not start: {why}")
        }
        MachineProblem::LockHeld { by } => format!("{by} measures on it: a run waits until that has ended"),
        MachineProblem::MemoryErrors { uncorrected, .. } => format!(
            "{} of its memory could not be corrected since the driver was loaded: its results may be wrong",
            words::plural(usize::try_from(*uncorrected).unwrap_or(usize::MAX), "error")
        ),
        MachineProblem::Slowed { reasons } => format!(
            "its clock is lowered right now by {}: times would be those of a slower GPU",
            words::listed(reasons)
        ),
        MachineProblem::InUse(others) => format!(
            "other processes use it right now, so times would vary more: {}",
            words::processes(others)
        ),
        MachineProblem::Sliced { .. } => {
            "MIG is on: times are those of a slice, and other slices share its clock and power".to_owned()
        }
        MachineProblem::NotPersistent { .. } => {
            "persistence mode is off: the driver may start again for each process, which takes seconds".to_owned()
        }
        MachineProblem::ConditionUnknown => {
            "NVML gives no values for it: clocks, slowdowns and other processes are unknown, and gates on cycles inconclusive"
                .to_owned()
        }
        MachineProblem::CountersLocked => {
            "the driver lets only administrators read the GPU's counters: `--profile` and `profile` would fail".to_owned()
        }
        MachineProblem::NoSanitizer => {
            "there is none; a run needs none: it is for looking into a finding by hand, on a GPU".to_owned()
        }
        MachineProblem::NoGit => {
            "there is no git that works: --base, --changed and `history` need it".to_owned()
        }
        MachineProblem::PeaksUnmeasurable => {
            "they are measured where there are a cache, a compiler and a GPU".to_owned()
        }
    }
}

/// Returns the remedy of a problem as lines, with a command if there is one.
fn help(problem: &MachineProblem) -> Vec<String> {
    let smi = |uuid: &str, options: &str| format!("`sudo nvidia-smi -i {uuid} {options}`");
    let one = |text: &str| vec![text.to_owned()];
    match problem {
        MachineProblem::CacheUnusable(why)
        | MachineProblem::GatesBroken(why)
        | MachineProblem::CompilerUnusable(why)
        | MachineProblem::DoesNotCompile(why)
        | MachineProblem::NoProfiler(why)
        | MachineProblem::PeaksBroken(why) => why.help.clone(),
        MachineProblem::OutputUnwritable { .. } => {
            one("name a directory that can be written: --out DIR")
        }
        MachineProblem::NoSpace { of, .. } | MachineProblem::LittleSpace { of, .. } => match of {
            Disk::Cache(unused) => {
                let unused = unused.filter(|unused| unused.bytes > 0);
                let prune = unused.map(|unused| {
                    format!(
                        "`gatekeeper cache prune --older-than {UNUSED_DAYS}d` frees {}",
                        words::size(unused.bytes)
                    )
                });
                let elsewhere = "set GATEKEEPER_CACHE to a directory on a larger disk".to_owned();
                prune.into_iter().chain([elsewhere]).collect()
            }
            Disk::Output => one("name a directory on a larger disk: --out DIR"),
        },
        MachineProblem::NoGates { .. } => one("`gatekeeper init` writes one to start from"),
        MachineProblem::PartsMixed { .. } => {
            one("run with --provision, or install all parts of one CUDA release")
        }
        MachineProblem::NoDisassembler => one("`gatekeeper toolchain install`"),
        MachineProblem::NotConfined(_) => {
            one("`cat /sys/kernel/security/lsm` lists landlock where it is on; see SECURITY.md")
        }
        MachineProblem::NoGpu { .. } | MachineProblem::NoRequiredGpu { .. } => {
            one("in a container: `docker run --gpus all`; without one see docs/without-a-gpu.md")
        }
        MachineProblem::DriverBroken { .. }
        | MachineProblem::GpusUncounted { .. }
        | MachineProblem::GpuUnusable { .. } => {
            one("`nvidia-smi` and `sudo dmesg | grep NVRM` may say more")
        }
        MachineProblem::DriverTooOld { supports, .. } => vec![
            "update the driver".to_owned(),
            format!(
                "or install CUDA {0} and pin it in gates.yaml: `toolchain: {{cuda: \"{0}\"}}`",
                supports / 1000
            ),
        ],
        MachineProblem::ComputeProhibited { uuid } | MachineProblem::ComputeExclusive { uuid } => {
            vec![smi(uuid, "-c DEFAULT")]
        }
        MachineProblem::LockUnusable { path, .. } => vec![format!(
            "remove it while no gatekeeper runs, or let everybody read it: `sudo chmod a+r {path}`"
        )],
        MachineProblem::MemoryErrors { uuid, .. } => vec![format!(
            "{}; where they come back, have it replaced",
            smi(uuid, "--gpu-reset")
        )],
        MachineProblem::Slowed { .. } => {
            one("look at power and cooling: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER`")
        }
        MachineProblem::InUse(_) | MachineProblem::LockHeld { .. } => {
            one("wait for them, or take another GPU: --device cuda:N")
        }
        MachineProblem::Sliced { uuid } => vec![smi(uuid, "-mig 0")],
        MachineProblem::NotPersistent { uuid } => vec![smi(uuid, "-pm 1")],
        MachineProblem::ConditionUnknown => one(
            "install the driver's libnvidia-ml.so.1; in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ),
        MachineProblem::CountersLocked => one(
            "set the driver's option NVreg_RestrictProfilingToAdminUsers=0, or run as root, in a container with the capability SYS_ADMIN",
        ),
        MachineProblem::NoSanitizer => {
            one("it comes with the CUDA toolkit, package `cuda-sanitizer`")
        }
        MachineProblem::NoGit => one("install it, for example `apt-get install git`"),
        MachineProblem::CompilerNotLookedFor | MachineProblem::PeaksUnmeasurable => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::testing::{broken, good, laptop};
    use wording::escape;

    #[test]
    fn machines_read_as_agreed() {
        for (name, machine) in [("good", good()), ("laptop", laptop()), ("broken", broken())] {
            insta::assert_snapshot!(name, escape::lines(&text(&machine.examine(false))));
        }
    }

    #[test]
    fn programs_get_the_same_as_data() {
        let mut pages = Vec::new();
        for machine in [good(), broken()] {
            let items = machine.examine(false);
            let page: serde_json::Value = serde_json::from_str(&json(&items).unwrap()).unwrap();
            assert_eq!(page["exit_code"], exit(&items) as u8);
            let written = page["items"].as_array().unwrap();
            assert_eq!(written.len(), items.len());
            for (written, item) in written.iter().zip(&items) {
                let problems = item.problems.iter().map(|problem| {
                    serde_json::json!({
                        "code": problem.code(),
                        "state": problem.state(),
                        "message": message(problem),
                        "help": help(problem),
                    })
                });
                let expected = serde_json::json!({
                    "name": item.name,
                    "state": item.state(),
                    "facts": item.facts,
                    "problems": problems.collect::<Vec<_>>(),
                });
                assert_eq!(*written, expected);
            }
            pages.push(page);
        }
        insta::assert_snapshot!("fields-json", report::fields::fields(&pages.into()));
    }

    #[test]
    fn a_peak_stands_beside_that_of_the_tables() {
        let measured = |peak| Measured {
            kernel: PeakKernel::Dram,
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
}
