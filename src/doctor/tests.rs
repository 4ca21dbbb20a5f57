use super::testing::{broken, compiler, condition, good, laptop};
use super::*;
use crate::doctor::peaks::PeakKernel;
use std::path::Path;

/// Returns the codes of an item's problems.
fn codes(items: &[Item], name: &str) -> Vec<&'static str> {
    let item = items.iter().find(|item| item.name == name).unwrap();
    item.problems.iter().map(MachineProblem::code).collect()
}

fn ends(machine: &Machine) -> Exit {
    exit(&machine.examine(false))
}

fn refused() -> Diagnostic {
    Diagnostic::new("it cannot be written")
}

#[test]
fn a_machine_that_lacks_nothing_is_good_throughout() {
    let machine = good();
    let items = machine.examine(true);
    assert!(items.iter().all(|item| item.state() == State::Good));
    assert_eq!(exit(&items), Exit::Held);
}

#[test]
fn optional_tools_stop_no_run() {
    let machine = laptop();
    let items = machine.examine(false);
    assert!(items.iter().all(|item| item.state() != State::Broken));
    assert_eq!(exit(&items), Exit::Held);
    assert_eq!(codes(&items, "driver"), ["no-gpu"]);
    // If a GPU is required, its absence alone ends a run.
    let items = machine.examine(true);
    assert_eq!(
        items
            .iter()
            .filter(|item| item.state() == State::Broken)
            .map(|item| &*item.name)
            .collect::<Vec<_>>(),
        ["driver"]
    );
    assert_eq!(exit(&items), Exit::Environment);
}

#[test]
fn a_mistake_in_gates_yaml_counts_before_all_else() {
    assert_eq!(ends(&broken()), Exit::Usage);
    let gates = good().gates;
    let machine = Machine { gates, ..broken() };
    assert_eq!(ends(&machine), Exit::Environment);
}

/// Tries each problem alone, on a machine that is good otherwise.
#[test]
fn whatever_would_fail_a_run_ends_in_4() {
    let compiled = |compiler| Machine {
        compiler: Some(Ok(compiler)),
        ..good()
    };
    let mixed = |version: &str| {
        let mut compiler = compiler();
        compiler.parts[1].version = Some(version.to_owned());
        compiled(compiler)
    };
    let on_gpu = |change: &dyn Fn(&mut GpuSeen)| {
        let mut machine = good();
        if let Seen::Got(gpus) = &mut machine.gpus {
            gpus.all.iter_mut().for_each(change);
        }
        machine
    };
    let with_space = |free: u64| {
        let mut machine = good();
        machine.output.free_bytes = Some(free);
        machine
    };
    let mut old = good();
    if let Seen::Got(gpus) = &mut old.gpus {
        gpus.cuda_driver_version = 12020;
    }
    let cases = [
        (
            "cache",
            "cache-unusable",
            Machine {
                cache: Err(refused()),
                ..good()
            },
        ),
        ("output", "no-space", with_space((64 << 20) - 1)),
        (
            "compiler",
            "compiler-unusable",
            Machine {
                compiler: Some(Err(refused())),
                ..good()
            },
        ),
        (
            "compiler",
            "compiler-not-looked-for",
            Machine {
                compiler: None,
                ..good()
            },
        ),
        (
            "compiler",
            "does-not-compile",
            compiled(CompilerSeen {
                failed: Some(refused()),
                ..compiler()
            }),
        ),
        ("driver", "driver-too-old", old),
        (
            "cuda:0",
            "lock-unusable",
            on_gpu(&|gpu| {
                gpu.lock = Some(LockSeen {
                    path: "/tmp/x".into(),
                    standing: LockState::Unusable("Permission denied".into()),
                });
            }),
        ),
        (
            "cuda:0",
            "compute-prohibited",
            on_gpu(&|gpu| {
                gpu.condition = Some(Condition {
                    compute_mode: Some(ComputeMode::Prohibited),
                    ..condition()
                });
            }),
        ),
    ];
    for (name, code, machine) in cases {
        let items = machine.examine(false);
        assert_eq!(codes(&items, name), [code]);
        assert_eq!(exit(&items), Exit::Environment, "{code}");
    }
    // Neither of these machines has a problem.
    for machine in [mixed("13.0.96"), with_space(1 << 30), on_gpu(&|_| {})] {
        assert!(
            machine
                .examine(true)
                .iter()
                .all(|item| item.state() == State::Good)
        );
    }
    assert_eq!(
        codes(&with_space(64 << 20).examine(false), "output"),
        ["little-space"]
    );
    assert_eq!(ends(&with_space(64 << 20)), Exit::Held);
    assert_eq!(
        codes(&mixed("13.1.80").examine(false), "compiler"),
        ["parts-mixed"]
    );
    assert_eq!(ends(&mixed("13.1.80")), Exit::Held);
}

#[test]
fn a_silent_nvml_is_one_problem() {
    let mut machine = good();
    if let Seen::Got(gpus) = &mut machine.gpus {
        gpus.all[0].condition = None;
    }
    assert_eq!(codes(&machine.examine(false), "cuda:0"), ["nvml-silent"]);
    if let Seen::Got(gpus) = &mut machine.gpus {
        gpus.all[0].condition = Some(Condition::default());
    }
    assert_eq!(codes(&machine.examine(false), "cuda:0"), [""; 0]);
    assert_eq!(ends(&machine), Exit::Held);
}

#[test]
fn one_that_is_measured_has_an_item_for_each_peak() {
    let measured = |kernel| Measured {
        kernel,
        reached: 1.0,
        peak: None,
    };
    let peaks = PeaksSeen::Measured(vec![measured(PeakKernel::Dram), measured(PeakKernel::L2)]);
    let machine = Machine {
        peaks: Some(peaks),
        ..good()
    };
    let count = |machine: &Machine| {
        let items = machine.examine(false);
        items.iter().filter(|item| item.name == "peak").count()
    };
    assert_eq!(count(&machine), 2);
    let unasked = Machine {
        peaks: None,
        ..machine
    };
    assert_eq!(count(&unasked), 0);
}

#[test]
fn every_code_is_in_the_documentation_with_its_state() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cli.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page
        .split("\n## ")
        .find(|section| section.starts_with("doctor\n"))
        .unwrap();
    let mut documented: Vec<(&str, &str)> = section
        .lines()
        .skip_while(|line| !line.starts_with("| code |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|row| {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let code = cells.next().unwrap().trim_matches('`');
            (code, cells.next().unwrap())
        })
        .collect();
    let state = |state: &State| match state {
        State::Good => "good",
        State::Limited => "limited",
        State::Broken => "broken",
    };
    let mut known: Vec<_> = MachineProblem::CODES
        .iter()
        .map(|(code, it)| (*code, state(it)))
        .collect();
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(documented, known);
}
