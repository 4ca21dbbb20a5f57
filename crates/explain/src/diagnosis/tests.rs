//! Tests one case that has each bound, and the same case one step away, which has another.

use super::changes::{self, Standing};
use super::estimate::estimate;
use super::view::DiagnosisInput;
use super::*;
use judge::{Index, compare, fixture, judge};
use model::{
    Arithmetic, BuildFacts, Counter, Evidence, Launch, Loosening, Mode, Record, Resources, Seen,
    SimulationFacts, Stall, Work,
};

/// Blocks of 256 threads, whose warps each issue a number of instructions and nothing else.
struct TestLaunch {
    blocks: u32,
    instructions: u64,
    counters: Vec<(Counter, u64)>,
    computed: Vec<(Arithmetic, Work)>,
    registers: u32,
    tensors: f64,
    mode: Mode,
}

const KERNEL: TestLaunch = TestLaunch {
    blocks: 132 * 8,
    instructions: 10_000,
    counters: Vec::new(),
    computed: Vec::new(),
    registers: 32,
    tensors: 0.0,
    mode: Mode::Warm,
};

impl TestLaunch {
    fn warps(&self) -> u64 {
        u64::from(self.blocks) * 8
    }

    /// Sets counts, which are sums over all warps.
    fn counting(mut self, each: &[(Counter, u64)]) -> Self {
        let warps = self.warps();
        let all = each
            .iter()
            .map(|(counter, count)| (*counter, count * warps));
        self.counters.extend(all);
        self
    }

    fn computing(mut self, kind: Arithmetic, issued: u64, operations: u64) -> Self {
        let work = Work {
            issued: issued * self.warps(),
            operations: issued * operations * self.warps(),
        };
        self.computed.push((kind, work));
        self
    }

    fn facts(&self) -> SimulationFacts {
        let mut facts = fixture::simulation_facts();
        facts.counters = Counter::ALL.map(|counter| (counter, 0)).into();
        facts.information.clear();
        let instructions = (Counter::Instructions, self.instructions * self.warps());
        facts.counters.extend([instructions]);
        facts.counters.extend(self.counters.iter().copied());
        facts.computed = self.computed.iter().copied().collect();
        facts
    }

    fn diagnosis(&self) -> Diagnosis {
        let resources = Resources {
            registers: self.registers,
            ..Resources::default()
        };
        let facts = self.facts();
        estimate(&DiagnosisInput {
            arch: fixture::arch(),
            device: None,
            entry: Some((self.launch(), &resources)),
            simulation: Some(&facts),
            p50_ns: None,
            profiles: Vec::new(),
            compulsory_bytes: self.tensors,
            mode: self.mode,
        })
    }

    fn launch(&self) -> Launch {
        Launch {
            grid: [self.blocks, 1, 1],
            block: [256, 1, 1],
            dynamic_shared: 0,
            ..fixture::launch()
        }
    }

    fn bound(&self) -> Bound {
        self.diagnosis().bound
    }
}

fn by(resource: Resource) -> Bound {
    Bound::Resource { resource }
}

#[test]
fn many_instructions_are_bound_by_issue_slots_and_those_of_one_unit_by_that() {
    assert_eq!(KERNEL.bound(), by(Resource::IssueSlots));
    let exponentials = KERNEL.computing(Arithmetic::Special, 4_000, 32);
    assert_eq!(exponentials.bound(), by(Resource::SpecialFunctions));
    let doubles = KERNEL.computing(Arithmetic::Fp64, 9_000, 64);
    assert_eq!(doubles.bound(), by(Resource::Fp64));
    assert_eq!(doubles.diagnosis().advice, [Advice::UseSinglePrecision]);
    // This number is small for tensor cores: at 4096 operations an instruction, they take 2 us of 40.
    let products = KERNEL.computing(Arithmetic::TensorF16, 200, 4096);
    assert_eq!(products.bound(), by(Resource::IssueSlots));
    let products = KERNEL.computing(Arithmetic::TensorF16, 8_000, 4096);
    assert_eq!(products.bound(), by(Resource::Tensor));
}

#[test]
fn additions_alone_reach_the_peak_of_single_precision() {
    let fp32 = TestLaunch {
        instructions: 10_000,
        ..KERNEL
    }
    .computing(Arithmetic::Fp32, 10_000, 64);
    let diagnosis = fp32.diagnosis();
    // An SM adds and multiplies in as many lanes as it issues, so both are used up.
    let [fp32, issue] =
        [Resource::Fp32, Resource::IssueSlots].map(|resource| diagnosis.uses[&resource].0);
    assert!((fp32 / issue - 1.0).abs() < 1e-9, "{fp32} {issue}");
    assert!(fp32 > 0.9, "{fp32}");
    let roofline = diagnosis.roofline;
    assert_eq!(roofline, None, "no byte is moved");
}

#[test]
fn bytes_that_stay_in_l2_are_its_load_and_others_that_of_device_memory() {
    let copy = |mode, tensors| TestLaunch {
        tensors,
        mode,
        instructions: 300,
        ..KERNEL
    };
    let sectors = [
        (Counter::GlobalLoadRequests, 64),
        (Counter::GlobalLoadSectors, 64 * 16),
        (Counter::GlobalLoadSectorsIdeal, 64 * 16),
    ];
    let bytes = 132.0 * 8.0 * 8.0 * 64.0 * 16.0 * 32.0;
    let warm = copy(Mode::Warm, 40e6).counting(&sectors);
    assert_eq!(warm.bound(), by(Resource::L2));
    let large = copy(Mode::Warm, bytes).counting(&sectors);
    assert_eq!(large.bound(), by(Resource::Dram));
    let diagnosis = large.diagnosis();
    assert_eq!(diagnosis.advice, [Advice::MoveFewerBytes]);
    let least = diagnosis.least_ns.unwrap().0;
    assert!(
        (least / (bytes / 3352e9 * 1e9) - 1.0).abs() < 1e-9,
        "{least}"
    );
    let cold = copy(Mode::Cold, bytes).counting(&sectors);
    assert_eq!(cold.bound(), by(Resource::Dram));
    // Each lane is in a sector of its own, which are twice as many as hold the bytes.
    let scattered = copy(Mode::Warm, bytes).counting(&[
        (Counter::GlobalLoadRequests, 64),
        (Counter::GlobalLoadSectors, 64 * 32),
        (Counter::GlobalLoadSectorsIdeal, 64 * 16),
    ]);
    assert_eq!(
        scattered.diagnosis().advice,
        [Advice::CoalesceLoads, Advice::MoveFewerBytes]
    );
}

#[test]
fn conflicts_make_shared_memory_the_bound() {
    let with_wavefronts = |wavefronts: u64| {
        let kernel = TestLaunch {
            instructions: 2_000,
            ..KERNEL
        };
        kernel.counting(&[
            (Counter::SharedLoadRequests, 100),
            (Counter::SharedLoadWavefronts, 100 * wavefronts),
            (Counter::SharedLoadWavefrontsIdeal, 100),
        ])
    };
    assert_eq!(with_wavefronts(1).bound(), by(Resource::IssueSlots));
    assert_eq!(with_wavefronts(32).bound(), by(Resource::SharedMemory));
    assert_eq!(
        with_wavefronts(32).diagnosis().advice,
        [Advice::AvoidBankConflicts, Advice::ReuseInRegisters]
    );
}

#[test]
fn few_warps_wait_and_more_of_them_do_not() {
    let with_barriers = |blocks: u32, barriers: u64| {
        let kernel = TestLaunch {
            blocks,
            instructions: 2_000,
            registers: 255,
            ..KERNEL
        };
        kernel.counting(&[(Counter::Barriers, barriers)])
    };
    // There is one block of eight warps on an SM.
    let waits = with_barriers(132, 20).diagnosis();
    let at_barriers = Bound::Latency {
        stall: Stall::Barrier,
    };
    assert_eq!(waits.bound, at_barriers);
    assert_eq!(
        waits.advice,
        [Advice::WaitAtFewerBarriers, Advice::KeepMoreWarps]
    );
    let none = with_barriers(132, 0);
    assert_eq!(none.bound(), by(Resource::IssueSlots));
}

#[test]
fn too_few_blocks_a_tail_and_a_launch_of_nothing() {
    let with_blocks = |blocks, instructions| TestLaunch {
        blocks,
        instructions,
        ..KERNEL
    };
    // The other SMs have nothing to do, and these issue one instruction after the other.
    let busy = Some(Box::new(by(Resource::IssueSlots)));
    let few = with_blocks(90, 10_000).diagnosis();
    assert_eq!(few.bound, Bound::FewBlocks { busy });
    assert_eq!(
        few.advice,
        [Advice::UseMoreBlocks, Advice::IssueFewerInstructions]
    );
    assert_eq!(with_blocks(130, 10_000).bound(), by(Resource::IssueSlots));
    assert_eq!(with_blocks(132, 10_000).bound(), by(Resource::IssueSlots));
    // Two SMs get two blocks, and all others wait for them.
    assert_eq!(with_blocks(134, 10_000).bound(), Bound::Tail);
    assert_eq!(with_blocks(264, 10_000).bound(), by(Resource::IssueSlots));
    assert_eq!(with_blocks(132, 100).bound(), Bound::Launch);
    assert_eq!(with_blocks(1, 100).bound(), Bound::Launch);
}

#[test]
fn unknown_bounds_have_a_name() {
    let resources = Resources::default();
    let facts = KERNEL.facts();
    let known = |arch: &str, entry, simulation| DiagnosisInput {
        arch: arch.parse().unwrap(),
        device: None,
        entry,
        simulation,
        p50_ns: None,
        profiles: Vec::new(),
        compulsory_bytes: 0.0,
        mode: Mode::Warm,
    };
    let entry = Some((KERNEL.launch(), &resources));
    let why = |known: DiagnosisInput| match estimate(&known).bound {
        Bound::Unknown { why } => why,
        bound => panic!("{bound:?}"),
    };
    let arch = "sm_87".to_owned();
    assert_eq!(
        why(known("sm_87", entry, Some(&facts))),
        Unknown::Architecture { arch }
    );
    assert_eq!(why(known("sm_90", entry, None)), Unknown::NotSeen);
    assert_eq!(
        why(known("sm_90", None, Some(&facts))),
        Unknown::SeveralKernels
    );
    let mut uncounted = facts.clone();
    uncounted.counters.remove(&Counter::Barriers);
    assert_eq!(
        why(known("sm_90", entry, Some(&uncounted))),
        Unknown::NotSeen
    );
}

/// Returns the fixture's run in the simulator, in which every case is the kernel.
fn record_of(kernel: &TestLaunch) -> Record {
    let mut record = fixture::record_simulated();
    for case in &mut record.plan.cases {
        case.steps[0].launch = Some(kernel.launch());
    }
    for piece in &mut record.evidence {
        match piece {
            Evidence::Simulation { facts, .. } => *facts = Seen::Got(kernel.facts()),
            Evidence::Build {
                facts: Seen::Got(facts),
                ..
            } => set_registers(facts, kernel.registers),
            _ => {}
        }
    }
    record
}

fn set_registers(facts: &mut BuildFacts, registers: u32) {
    for entry in &mut facts.entries {
        entry.resources.as_mut().unwrap().registers = registers;
    }
}

#[test]
fn a_failed_gate_on_a_counter_is_shown_and_one_that_holds_is_not() {
    let counted = |sectors| {
        KERNEL.counting(&[
            (Counter::GlobalLoadRequests, 10),
            (Counter::GlobalLoadSectors, sectors),
            (Counter::GlobalLoadSectorsIdeal, 40),
        ])
    };
    let mut record = record_of(&counted(40));
    let agreed = counted(40).facts().counters;
    for baseline in &mut record.policy.baselines {
        for figures in baseline.cases.values_mut() {
            let one = figures.values().next().cloned().unwrap();
            *figures = agreed
                .iter()
                .map(|(counter, value)| {
                    let mut agreed = one.clone();
                    agreed.value = Num(*value as f64);
                    ((*counter).into(), agreed)
                })
                .collect();
        }
    }
    let shown = |record: &Record| {
        let judgement = judge(record);
        changes::notable(&Index::new(record), &judgement)
    };
    let before = record.clone();
    assert_eq!(shown(&record), []);
    let of = fixture::case_id("fast", "small");
    fixture::resimulate(&mut record, &of, |_, facts| {
        *facts = Seen::Got(counted(320).facts());
    });
    let found = shown(&record);
    let cases: Vec<_> = found
        .iter()
        .map(|diagnosis| (&diagnosis.case, diagnosis.standing))
        .collect();
    assert_eq!(cases, [(&of, Standing::Failed)]);
    assert_eq!(found[0].before, None);
    assert!(found[0].after.is_known());
    // With the earlier record it has a diagnosis, and what moved.
    let judgement = compare(&before, &record, Loosening::Fails);
    let found = changes::notable(&Index::against(Some(&before), &record), &judgement);
    let [found] = found.as_slice() else {
        panic!("{found:?}");
    };
    let sectors: Vec<_> = found
        .changes
        .iter()
        .filter(|change| change.figure == changes::Figure::LoadSectors)
        .collect();
    let warps = KERNEL.warps() as f64;
    let [before, after] = [40.0, 320.0].map(|each| Num(each * warps));
    assert_eq!((sectors[0].before, sectors[0].after), (before, after));
}

mod profiled {
    use super::*;
    use model::ProfileMetric::*;
    use model::{KernelProfile, ProfileFacts, ProfileMetric, Unsupported};
    use std::collections::BTreeMap;

    /// Returns a profile in which all multiprocessors work, nothing is used by more than a third, and the launch takes
    /// 50 us.
    fn facts(changes: &[(ProfileMetric, f64)], stalls: &[(Stall, f64)]) -> ProfileFacts {
        let used = [
            TensorActive,
            Fp32Active,
            Fp64Active,
            SpecialActive,
            IssueActive,
            SharedThroughput,
            L2Throughput,
            DramThroughput,
        ];
        let mut metrics: BTreeMap<_, _> =
            used.map(|resource| (resource, Seen::Got(Num(0.3)))).into();
        metrics.insert(SmActive, Seen::Got(Num(0.95)));
        metrics.insert(Waves, Seen::Got(Num(4.0)));
        let changes = changes
            .iter()
            .map(|(of, value)| (*of, Seen::Got(Num(*value))));
        metrics.extend(changes);
        let stalls = stalls.iter().map(|(stall, cycles)| (*stall, Num(*cycles)));
        ProfileFacts {
            profiler: "Nsight Compute 2025.3.1.0".into(),
            clock_policy: "default".into(),
            warmups: 1,
            kernels: vec![KernelProfile {
                entry: "k".into(),
                grid: [132 * 4, 1, 1],
                block: [256, 1, 1],
                duration_ns: Num(50_000.0),
                sm_mhz: None,
                metrics,
                stalls: stalls.collect(),
                instructions: BTreeMap::new(),
                counters: BTreeMap::new(),
                lines: Vec::new(),
            }],
        }
    }

    fn diagnose_blocks(blocks: u32, repeats: &[&ProfileFacts]) -> Diagnosis {
        let device = fixture::device();
        let kernel = TestLaunch { blocks, ..KERNEL };
        let resources = Resources {
            registers: 255,
            ..Resources::default()
        };
        let known = DiagnosisInput {
            arch: fixture::arch(),
            device: Some(&device),
            entry: Some((kernel.launch(), &resources)),
            simulation: None,
            p50_ns: None,
            profiles: repeats.to_vec(),
            compulsory_bytes: 0.0,
            mode: Mode::Warm,
        };
        super::super::measured::diagnose(&known, &device, &known.profiles)
    }

    fn bound(blocks: u32, changes: &[(ProfileMetric, f64)]) -> Bound {
        let stalls = [
            (Stall::Selected, 9.0),
            (Stall::LongScoreboard, 8.0),
            (Stall::Wait, 2.0),
        ];
        diagnose_blocks(blocks, &[&facts(changes, &stalls)]).bound
    }

    const WAITS: Bound = Bound::Latency {
        stall: Stall::LongScoreboard,
    };

    #[test]
    fn the_most_used_resource_bounds_and_none_if_all_have_room() {
        assert_eq!(bound(528, &[]), WAITS);
        for (metric, resource) in [
            (TensorActive, Resource::Tensor),
            (Fp32Active, Resource::Fp32),
            (Fp64Active, Resource::Fp64),
            (SpecialActive, Resource::SpecialFunctions),
            (IssueActive, Resource::IssueSlots),
            (SharedThroughput, Resource::SharedMemory),
            (L2Throughput, Resource::L2),
            (DramThroughput, Resource::Dram),
        ] {
            assert_eq!(bound(528, &[(metric, 0.85)]), by(resource));
            assert_eq!(bound(528, &[(metric, 0.55)]), WAITS);
        }
    }

    #[test]
    fn idle_multiprocessors_are_few_blocks_or_a_tail() {
        let busy = Some(Box::new(by(Resource::Fp32)));
        let idle = [(Fp32Active, 0.9), (SmActive, 0.4)];
        assert_eq!(bound(60, &idle), Bound::FewBlocks { busy });
        // 255 registers allow one block on a multiprocessor, so 140 blocks are two waves, and the second is nearly
        // empty.
        assert_eq!(bound(140, &[(SmActive, 0.53)]), Bound::Tail);
        assert_eq!(bound(264, &[(SmActive, 0.53)]), WAITS);
        assert_eq!(bound(140, &[(SmActive, 0.95)]), WAITS);
    }

    #[test]
    fn a_short_launch_is_bound_by_itself() {
        let mut short = facts(&[], &[(Stall::Wait, 1.0)]);
        short.kernels[0].duration_ns = Num(2_000.0);
        assert_eq!(diagnose_blocks(528, &[&short]).bound, Bound::Launch);
    }

    #[test]
    fn values_missing_from_a_profile_are_not_invented() {
        let mut lacking = facts(&[], &[]);
        let why = Unknown::NoStalls;
        let unknown = Bound::Unknown { why };
        assert_eq!(diagnose_blocks(528, &[&lacking]).bound, unknown);
        let lacks = Seen::Unsupported(Unsupported::Launcher);
        lacking.kernels[0].metrics.insert(TensorActive, lacks);
        let diagnosis = diagnose_blocks(528, &[&lacking]);
        assert_eq!(diagnosis.uses.get(&Resource::Tensor), None);
        assert!(diagnosis.uses.contains_key(&Resource::Fp32));
        lacking.kernels.push(lacking.kernels[0].clone());
        let why = Unknown::SeveralKernels;
        let unknown = Bound::Unknown { why };
        assert_eq!(diagnose_blocks(528, &[&lacking]).bound, unknown);
    }

    #[test]
    fn repeats_count_by_their_middle_and_the_roofline_by_bytes_and_operations() {
        let work = [
            (Fp32Operations, 1e9),
            (DramBytes, 1e8),
            (DramThroughput, 0.59),
        ];
        let stalls = [(Stall::LongScoreboard, 8.0)];
        let most = facts(&[(DramThroughput, 0.99)], &stalls);
        let [one, two] = [facts(&work, &stalls), facts(&work, &stalls)];
        let diagnosis = diagnose_blocks(528, &[&most, &one, &two]);
        assert_eq!(diagnosis.bound, WAITS);
        assert_eq!(diagnosis.roofline, None, "one repeat does not know");
        let roofline = diagnose_blocks(528, &[&one, &two]).roofline.unwrap();
        assert_eq!(roofline.intensity, Num(10.0));
        assert_eq!(roofline.memory, Resource::Dram);
        assert_eq!(roofline.reached, Some(Num(2e13)));
        assert_eq!(roofline.roof, Num(3352e10), "ten operations for each byte");
    }
}
