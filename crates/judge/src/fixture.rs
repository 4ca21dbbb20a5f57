//! A run that is written by hand: one kernel, two variants, two shapes, on an H100. All of its gates hold, and tests
//! break one thing at a time. The module is behind the feature `fixture`, so that tests of other crates can use it.

mod against_base;
mod profiled;
mod rivals;
pub mod script;
mod simulated;

pub use against_base::*;
pub use profiled::*;
pub use rivals::*;
pub use simulated::*;

use model::*;
use std::collections::BTreeMap;

pub const VARIANTS: [&str; 2] = ["direct", "fast"];
pub const SHAPES: [&str; 2] = ["small", "large"];
pub const SEEDS: [u64; 2] = [1, 2];

pub fn arch() -> Arch {
    "sm_90".parse().unwrap()
}

pub fn unit_id(variant: &str) -> UnitId {
    UnitId::new("k", variant, arch())
}

pub fn case_id(variant: &str, shape: &str) -> CaseId {
    CaseId::new("k", variant, shape)
}

pub fn unit(variant: &str) -> Subject {
    Subject::Unit(unit_id(variant))
}

pub fn case(variant: &str, shape: &str) -> Subject {
    Subject::Case(case_id(variant, shape))
}

pub fn launch() -> Launch {
    Launch {
        grid: [132, 1, 1],
        block: [128, 1, 1],
        cluster: None,
        cooperative: false,
        dynamic_shared: 1024,
    }
}

pub fn plan() -> Plan {
    let units = VARIANTS.map(|variant| Unit {
        id: unit_id(variant),
        source: "kernels/k.cu".into(),
        include_dirs: Vec::new(),
        defines: BTreeMap::from([("VARIANT".to_owned(), variant.to_owned())]),
        flags: vec!["-O3".into()],
        call: Callable::Entries {
            names: vec!["k".into()],
            constants: Vec::new(),
        },
    });
    let cases = VARIANTS.map(|variant| {
        SHAPES.map(|shape| Case {
            dims: BTreeMap::from([("N".to_owned(), 64)]),
            steps: vec![Step::new(Vec::new(), Some(launch()))],
            seeds: SEEDS.to_vec(),
            reference: Reference::Softmax {
                x: "x".into(),
                out: "out".into(),
            },
            tolerance: Some(Num(0.004)),
            launches: 8,
            deadline_ms: 1000,
            timed: true,
            ..Case::empty(case_id(variant, shape))
        })
    });
    let timing = Schedule {
        mode: Mode::Warm,
        warmup: 5,
        iterations: 4,
        singles: 4,
        batch_ns: 100_000,
        processes: 3,
        max_processes: 5,
    };
    Plan {
        units: units.to_vec(),
        cases: cases.into_iter().flatten().collect(),
        ..Plan::empty(timing)
    }
}

pub fn device() -> DeviceFacts {
    DeviceFacts {
        ordinal: 0,
        name: "NVIDIA H100 80GB HBM3".into(),
        uuid: "GPU-0".into(),
        major: 9,
        minor: 0,
        multiprocessors: 132,
        l2_bytes: 50 << 20,
        memory_bytes: 80 << 30,
        driver: "580.159.04".into(),
        cuda_driver_version: 13000,
        clock_policy: "default".into(),
        max_sm_mhz: Some(1980),
    }
}

pub fn environment() -> Environment {
    Environment {
        gatekeeper: "0.1.0".into(),
        started: "2026-11-21T01:00:00Z".into(),
        command: "gatekeeper run".into(),
        config: DEFAULT_CONFIG.into(),
        timing_protocol: TIMING_PROTOCOL,
        host: Host {
            os: "linux".into(),
            cpu: "a cpu".into(),
            cores: 2,
        },
        commit: Some("affbd80".into()),
        sources: None,
        checkout: None,
        compiler: Seen::Got(CompilerFacts {
            version: "13.0.88".into(),
            digest: "c0ffee".into(),
            host: "g++ 12.2.0".into(),
        }),
        device: Seen::Got(device()),
        toolchain: None,
        base_compiler: None,
        simulator: None,
        parts: vec![],
    }
}

pub fn no_gpu() -> Seen<DeviceFacts> {
    Seen::NotRun(NotRun::NoDevice {
        problem: "no NVIDIA device".into(),
    })
}

pub fn gate(subject: Subject, rule: Rule) -> Gate {
    Gate {
        subject,
        rule,
        declared: Some("gates.yaml:7".into()),
    }
}

pub fn at_most(metric: Metric, bound: f64) -> Rule {
    Rule::Limit {
        metric,
        limit: Limit::Absolute {
            op: Op::Le,
            bound: Bound::Value(Num(bound)),
        },
    }
}

pub fn within(metric: Metric, change: f64) -> Rule {
    Rule::Limit {
        metric,
        limit: Limit::Baseline {
            change: Margin::Share(Num(change)),
        },
    }
}

pub fn within_amount(metric: Metric, amount: u64) -> Rule {
    Rule::Limit {
        metric,
        limit: Limit::Baseline {
            change: Margin::Amount { amount },
        },
    }
}

pub fn expr(text: &str) -> Expr {
    Expr {
        text: text.into(),
        constants: BTreeMap::from([("N".to_owned(), Num(64.0))]),
    }
}

pub fn gates() -> Vec<Gate> {
    let units = VARIANTS.map(|variant| {
        [
            Rule::Built,
            Rule::HasEffect,
            at_most(Metric::Registers, 128.0),
            within(Metric::Registers, 0.0),
        ]
        .map(|rule| gate(unit(variant), rule))
    });
    let cases = VARIANTS.map(|variant| {
        SHAPES.map(|shape| {
            [
                Rule::Finite,
                Rule::Written,
                Rule::Deterministic,
                Rule::InputsIntact,
                Rule::AgreesWithDriver,
                at_most(Metric::MaxErr, 0.004),
                within(Metric::MaxErr, 0.1),
                at_most(Metric::P50, 200_000.0),
                within(Metric::P50, 0.02),
            ]
            .map(|rule| gate(case(variant, shape), rule))
        })
    });
    units
        .into_iter()
        .flatten()
        .chain(cases.into_iter().flatten().flatten())
        .collect()
}

/// Returns the time of one launch of a variant in ns.
pub fn usual(variant: &str) -> u64 {
    if variant == "direct" { 100_000 } else { 80_000 }
}

pub fn baselines() -> Vec<Baseline> {
    let agreed = |value: f64| Agreed {
        value: Num(value),
        spread: None,
        processes: None,
        sessions: None,
    };
    let origin = Origin {
        record: "seal".into(),
        date: "2026-11-20T00:00:00Z".into(),
        gatekeeper: "0.1.0".into(),
        device: "NVIDIA H100 80GB HBM3, driver 580.159.04".into(),
        commit: Some("affbd80".into()),
    };
    let file = |variant: &str, key: BaselineKey, cases: Vec<(&str, Metric, Agreed)>| Baseline {
        schema: BASELINE_SCHEMA.into(),
        kernel: "k".into(),
        variant: variant.into(),
        key,
        origin: origin.clone(),
        cases: cases
            .into_iter()
            .map(|(shape, metric, agreed)| (shape.to_owned(), BTreeMap::from([(metric, agreed)])))
            .collect(),
    };
    let (compiler, flags) = ("13.0.88".to_owned(), "-O3".to_owned());
    let times = Agreed {
        value: Num(0.0),
        spread: Some(Num(0.001)),
        processes: Some(5),
        sessions: None,
    };
    let files = VARIANTS.map(|variant| {
        let p50 = Agreed {
            value: Num(usual(variant) as f64),
            ..times.clone()
        };
        [
            file(
                variant,
                BaselineKey::Resources {
                    arch: arch(),
                    compiler: compiler.clone(),
                    flags: flags.clone(),
                },
                vec![("*", Metric::Registers, agreed(96.0))],
            ),
            file(
                variant,
                BaselineKey::Correctness {
                    arch: arch(),
                    compiler: compiler.clone(),
                    flags: flags.clone(),
                },
                SHAPES
                    .map(|shape| (shape, Metric::MaxErr, agreed(0.001)))
                    .to_vec(),
            ),
            file(
                variant,
                BaselineKey::Times {
                    gpu: device().name,
                    driver_branch: "580".into(),
                    clock_policy: "default".into(),
                    protocol: TIMING_PROTOCOL,
                    mode: Mode::Warm,
                    compiler: compiler.clone(),
                    flags: flags.clone(),
                },
                SHAPES
                    .map(|shape| (shape, Metric::P50, p50.clone()))
                    .to_vec(),
            ),
        ]
    });
    files.into_iter().flatten().collect()
}

pub fn policy() -> Policy {
    Policy {
        gates: gates(),
        baselines: baselines(),
        broken_baselines: Vec::new(),
        base_faults: Vec::new(),
        require_gpu: false,
        anchors: Vec::new(),
        accepted: Vec::new(),
        targets: Vec::new(),
        allow_fallback: false,
        base: None,
    }
}

pub fn build_facts(variant: &str) -> BuildFacts {
    BuildFacts {
        artifact: format!("artifact of {variant}"),
        entries: vec![EntryFacts {
            name: "k".into(),
            symbol: "_Z1kv".into(),
            resources: Some(Resources {
                registers: 96,
                stack: Some(0),
                spill_stores: Some(0),
                spill_loads: Some(0),
                static_shared: 4096,
                ..Resources::default()
            }),
            bounds: LaunchBounds::default(),
        }],
        constants: Vec::new(),
        identity: format!("code of {variant}"),
        ptx: Some(format!("PTX of {variant}")),
        warnings: Vec::new(),
        mistyped: Vec::new(),
        kernels: None,
        missing: None,
    }
}

pub fn check_facts() -> CheckFacts {
    CheckFacts {
        error: ErrorFacts {
            elements: 4096,
            left_out: 0,
            non_finite: 0,
            max_err: Num(0.001),
            mean_err: Num(0.0001),
            rel_l2: Num(0.0005),
            over_tolerance: Some(Num(0.0)),
            worst: Some(Box::new(Worst {
                at: Location {
                    tensor: "out".into(),
                    index: vec![0, 3, 17],
                },
                got: Num(0.501),
                want: Num(0.5),
                arose: Vec::new(),
                reading: None,
            })),
        },
        original: None,
        codec: None,
        launches: 8,
        differs: None,
        unwritten: 0,
        first_unwritten: None,
        clobbered_inputs: Vec::new(),
        overruns: Vec::new(),
        kept: None,
    }
}

pub fn driver_facts() -> DriverFacts {
    DriverFacts {
        entries: vec![DriverEntry {
            symbol: "_Z1kv".into(),
            launch: launch(),
            registers: 96,
            static_shared: 4096,
            local: 0,
            blocks_per_sm: 5,
        }],
    }
}

/// Returns the record with a hundred single launches of each process instead of four, because tails need them.
pub fn with_tails(mut record: Record) -> Record {
    record.plan.timing.singles = 100;
    if let Some(pairing) = &mut record.plan.pairing {
        pairing.singles = 100;
    }
    for piece in &mut record.evidence {
        match piece {
            Evidence::Time {
                facts: Seen::Got(facts),
                ..
            } => stretch(&mut facts.single_ns),
            Evidence::Pair {
                facts: Seen::Got(facts),
                ..
            } => {
                stretch(&mut facts.head.single_ns);
                stretch(&mut facts.base.single_ns);
            }
            Evidence::Rival {
                facts: Seen::Got(facts),
                ..
            } => {
                for contest in facts.backends.values_mut() {
                    if let Contest::Timed(times) = contest {
                        stretch(&mut times.single_ns);
                    }
                }
            }
            _ => {}
        }
    }
    record
}

/// Adds launches that become ever sparser towards the slowest.
fn stretch(single_ns: &mut Vec<u64>) {
    let (Some(&fast), Some(&slow)) = (single_ns.iter().min(), single_ns.iter().max()) else {
        return;
    };
    if single_ns.len() < 100 {
        let launch = |at: u64| fast + (slow - fast) * at.pow(4) / 99u64.pow(4);
        *single_ns = (0..100).map(launch).collect();
    }
}

/// Returns samples around `ns` for one launch. Processes differ by a tenth of a per cent.
pub fn time_facts(ns: u64, process: u32) -> TimeFacts {
    let ns = ns + ns * u64::from(process % 3) / 1000 - ns / 1000;
    TimeFacts {
        mode: Mode::Warm,
        launches_per_sample: 10,
        batched_ns: vec![ns * 10, ns * 10 - 40, ns * 10 + 40, ns * 10 + 900],
        single_ns: vec![ns + 2000, ns + 2100, ns + 1900, ns + 4000],
        tick_ns: 32,
        empty_graph_ns: 1500,
        gpu: GpuState {
            sm_mhz_before: Some(Num(1980.0)),
            sm_mhz_after: Some(Num(1975.0)),
            temperature_c: Some(55),
            power_w: Some(Num(400.0)),
            throttle_reasons: Some(Vec::new()),
            throttled: false,
            other_processes: Some(Vec::new()),
        },
    }
}

pub fn time(variant: &str, shape: &str, process: u32, ns: u64) -> Evidence {
    Evidence::Time {
        case: case_id(variant, shape),
        process,
        facts: Seen::Got(time_facts(ns, process)),
    }
}

pub fn evidence() -> Vec<Evidence> {
    let mut evidence = Vec::new();
    for variant in VARIANTS {
        evidence.push(Evidence::Build {
            unit: unit_id(variant),
            facts: Seen::Got(build_facts(variant)),
        });
    }
    for variant in VARIANTS {
        for shape in SHAPES {
            let case = case_id(variant, shape);
            evidence.push(Evidence::Driver {
                case: case.clone(),
                facts: Seen::Got(driver_facts()),
            });
            evidence.extend(SEEDS.map(|seed| Evidence::Check {
                case: case.clone(),
                arch: None,
                seed,
                facts: Seen::Got(check_facts()),
            }));
        }
    }
    for process in 0..3 {
        for variant in VARIANTS {
            for shape in SHAPES {
                evidence.push(time(variant, shape, process, usual(variant)));
            }
        }
    }
    evidence
}

pub fn record() -> Record {
    Record {
        schema: RECORD_SCHEMA.into(),
        environment: environment(),
        plan: plan(),
        policy: policy(),
        evidence: evidence(),
        costs: Costs {
            compiler_ms: 4200,
            compiled: 2,
            cached: 0,
            reference_ms: 300,
            simulator_ms: 0,
            gpu_ms: 2500,
            gpus: 1,
            rivals_ms: 0,
            profiler_ms: 0,
            worker_start_ms: 1600,
            workers: 4,
            total_ms: 8900,
        },
        took: vec![],
        shard: None,
    }
}

/// Returns the same run on a machine without a GPU: everything is built, and nothing else is done.
pub fn record_without_gpu() -> Record {
    let mut record = record();
    record.environment.device = no_gpu();
    record
        .evidence
        .retain(|piece| matches!(piece, Evidence::Build { .. }));
    record
}

/// Returns the run in which `fast` is kept to fail. It has no baselines, and no times are asked of it.
pub fn record_kept_to_fail(gates: &[GateName]) -> Record {
    let mut record = record();
    record.plan.expected.push(Expected {
        kernel: "k".into(),
        variant: "fast".into(),
        gates: gates.to_vec(),
        left_out: false,
        declared: "gates.yaml:9".into(),
    });
    let is_of = |id: &CaseId| id.variant == "fast";
    for case in record.plan.cases.iter_mut().filter(|case| is_of(&case.id)) {
        case.timed = false;
    }
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Time { case, .. } if is_of(case)));
    record.policy.gates.retain(|gate| {
        let compares = matches!(
            gate.rule,
            Rule::Limit {
                limit: Limit::Baseline { .. },
                ..
            }
        );
        let is_time = gate.rule.metric() == Some(Metric::P50);
        gate.subject.variant() != "fast" || !compares && !is_time
    });
    record
}

macro_rules! edits {
    ($($(#[$doc:meta])* $name:ident: $kind:ident, $number:ident: $of:ty, $facts:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(record: &mut Record, of: &CaseId, change: impl Fn($of, &mut $facts)) {
            for piece in &mut record.evidence {
                if let Evidence::$kind { case, $number, facts: Seen::Got(facts), .. } = piece
                    && case == of
                {
                    change(*$number, facts);
                }
            }
        }
    )*};
}

edits! {
    /// Changes every check of one case.
    recheck: Check, seed: u64, CheckFacts;
    /// Changes every process that timed one case alone.
    retime: Time, process: u32, TimeFacts;
    /// Changes the measurements of a case against the base, process by process.
    repair: Pair, process: u32, PairFacts;
    /// Changes every profile of one case.
    reprofile: Profile, repeat: u32, ProfileFacts;
}

/// Changes every build of one variant.
pub fn rebuild(record: &mut Record, of: &str, change: impl Fn(&mut BuildFacts)) {
    for piece in &mut record.evidence {
        if let Evidence::Build {
            unit,
            facts: Seen::Got(facts),
        } = piece
            && unit.variant == of
        {
            change(facts);
        }
    }
}

/// Makes every launch of one case take `ns`.
pub fn slow(record: &mut Record, of: &CaseId, ns: u64) {
    retime(record, of, |process, facts| {
        *facts = time_facts(ns, process)
    });
}

/// Returns a judgement whose verdicts a test has changed, with the problems that follow from them.
pub fn regroup(record: &Record, judgement: &Judgement) -> Judgement {
    let index = crate::Index::new(record);
    Judgement {
        problems: crate::problems::group(index.head(), &judgement.verdicts),
        ..judgement.clone()
    }
}
