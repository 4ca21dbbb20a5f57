//! What each reason says. Read the snapshot aloud: every line has to be a plain sentence by itself.

use super::{reasons, words};
use judge::fixture;
use model::*;
use std::collections::BTreeSet;

fn case() -> CaseId {
    fixture::case_id("fast", "small")
}

fn at() -> Location {
    Location {
        tensor: "out".into(),
        index: vec![0, 3, 17],
    }
}

fn worst() -> Worst {
    Worst {
        at: at(),
        got: Num(0.501),
        want: Num(0.5),
    }
}

fn registers(against: Against) -> Comparison {
    Comparison {
        metric: Metric::Registers,
        against,
        was: Some(Num(87.0)),
        now: Some(Num(101.0)),
        change: Num(14.0 / 87.0),
        interval: None,
        allowed: Num(0.0),
        sessions: None,
        processes: None,
    }
}

fn p50(against: Against, change: f64, sessions: Option<u32>) -> Comparison {
    Comparison {
        metric: Metric::P50,
        against,
        was: Some(Num(80_000.0)),
        now: Some(Num(80_000.0 * (1.0 + change))),
        change: Num(change),
        interval: Some([Num(change - 0.002), Num(change + 0.002)]),
        allowed: Num(0.02),
        sessions,
        processes: Some(6),
    }
}

fn slow_share() -> Comparison {
    Comparison {
        metric: Metric::SlowShare,
        was: None,
        now: None,
        change: Num(0.05),
        interval: Some([Num(0.03), Num(0.07)]),
        ..p50(Against::Base, 0.05, None)
    }
}

fn anchor() -> Against {
    Against::Anchor {
        since: v1(),
        found: "0a34415aaaaa".into(),
    }
}

fn v1() -> Since {
    Since::Revision("v1.0".into())
}

fn race() -> KnownFinding {
    KnownFinding {
        kind: FindingKind::SharedRace,
        file: "k.cu".into(),
        line: "total += partial[t];".into(),
    }
}

fn accepted() -> Box<AcceptedLimit> {
    Box::new(AcceptedLimit {
        limit: fixture::within(Metric::Registers, 0.05),
        by: "jane@example.org".into(),
        until: "2027-01-31".into(),
        because: "one load more in flight".into(),
    })
}

fn own() -> Box<Reason> {
    Box::new(Reason::BeyondChange(Box::new(registers(Against::Baseline))))
}

fn why() -> Box<Reason> {
    Box::new(Reason::NotRun(NotRun::EarlierStage))
}

fn withheld(doubt: Doubt) -> Withheld {
    Withheld {
        doubt,
        place: "k.cu:21".into(),
    }
}

fn differences() -> Vec<KeyDifference> {
    [
        (KeyField::Gpu, "H100", "H200"),
        (KeyField::DriverBranch, "570", "580"),
    ]
    .map(|(field, theirs, here)| KeyDifference {
        field,
        theirs: theirs.into(),
        here: here.into(),
    })
    .into()
}

fn edits() -> Vec<EditedFigure> {
    let worse = FigureEdit::Worse {
        was: Num(96.0),
        now: Num(104.0),
    };
    [
        (Metric::Registers, worse),
        (Metric::Spills, FigureEdit::Removed),
        (Metric::P50, FigureEdit::Wider),
    ]
    .map(|(metric, edit)| EditedFigure { metric, edit })
    .into()
}

fn unit() -> UnitId {
    fixture::unit_id("fast")
}

fn gap(gap: TimingGap) -> Reason {
    Reason::TimingIncomplete { process: 3, gap }
}

fn all_reasons() -> Vec<Reason> {
    use Reason as R;
    let text = || "p50 <= stage1.p50".to_owned();
    let mut all = vec![
        R::Held,
        R::Compiled { warnings: 0 },
        R::Compiled { warnings: 1 },
        R::WithinLimit {
            metric: Metric::Shared,
            value: Num(49_152.0),
        },
        R::ConditionHolds {
            operands: vec![
                Operand {
                    name: "occupancy".into(),
                    metric: Some(Metric::Occupancy),
                    value: Num(0.375),
                },
                Operand {
                    name: "STAGES".into(),
                    metric: None,
                    value: Num(3.0),
                },
            ],
        },
        R::OneMode,
        R::WithinChange(Box::new(p50(Against::Baseline, 0.001, Some(4)))),
        R::WithinChange(Box::new(Comparison {
            now: Some(Num(87.0)),
            change: Num(0.0),
            ..registers(Against::Baseline)
        })),
        R::CountersHold {
            compared: 12,
            withheld: Vec::new(),
        },
        R::CountersHold {
            compared: 1,
            withheld: vec![WithheldCounters {
                counters: vec![Counter::SharedLoadRequests, Counter::SharedLoadWavefronts],
                why: withheld(Doubt::Joined),
            }],
        },
        R::UnchangedSinceBase {
            revision: "origin/main".into(),
        },
        R::Accepted {
            own: own(),
            accepted: accepted(),
        },
        R::FindingsAccepted {
            findings: vec![AcceptedFinding {
                finding: race(),
                place: "k.cu:12 inlined at k.cu:40".into(),
                times: 3,
                by: "jane@example.org".into(),
                until: "2027-01-31".into(),
                because: "the sum is of no use to us".into(),
                declared: "baselines/accepted.yaml:3".into(),
            }],
        },
        R::LooseningAllowed(Box::new(Loosened::GateRemoved)),
        R::FellBack {
            own: own(),
            to: "direct".into(),
        },
        R::ExpectedFailure {
            own: Box::new(R::BeyondLimit {
                metric: Metric::MaxErr,
                value: Num(0.3),
                op: Op::Le,
                bound: Num(0.001),
                worst: None,
            }),
        },
        R::SameCode {
            variant: "direct".into(),
        },
        R::NonFinite {
            seed: 2,
            count: 12,
            elements: 4096,
            worst: Some(worst()),
        },
        R::NonFinite {
            seed: 2,
            count: 1,
            elements: 4096,
            worst: None,
        },
        R::Unwritten {
            seed: 1,
            count: 64,
            first: Some(at()),
        },
        R::Nondeterministic {
            seed: 1,
            launch: 2,
            elements: 3,
            at: at(),
        },
        R::FirstLaunchOnly {
            seed: 1,
            differs: KeptDifference {
                over: LaterData::Same { launch: 2 },
                at: at(),
                elements: 3,
            },
            kept: vec![KeptVariable {
                name: "tickets".into(),
                place: Some(Place {
                    at: "k.cu:7".into(),
                    line: None,
                }),
            }],
        },
        R::FirstLaunchOnly {
            seed: 1,
            differs: KeptDifference {
                over: LaterData::Other { seed: 2 },
                at: at(),
                elements: 3,
            },
            kept: ["table", "known"]
                .map(|name| KeptVariable {
                    name: name.into(),
                    place: None,
                })
                .to_vec(),
        },
        R::WroteOutside {
            seed: 1,
            places: vec!["after `out`".into(), "before `x`".into()],
        },
        R::InputWritten {
            seed: 1,
            inputs: vec!["x".into()],
        },
        R::InputWritten {
            seed: 1,
            inputs: vec!["x".into(), "y".into()],
        },
        R::Findings {
            seed: 1,
            first: vec![Finding {
                entry: Some("combine".into()),
                kind: FindingKind::SharedRace,
                message: "race on shared memory 0x40".into(),
                places: Vec::new(),
                block: [0; 3],
                thread: [0; 3],
                address: None,
                times: 3,
            }],
            more: 2,
            accepted: 1,
        },
        R::NewHazards {
            seed: 1,
            first: vec![Finding {
                entry: None,
                kind: FindingKind::WarpHazard,
                message: "hazard within a warp on shared memory 0x40".into(),
                places: Vec::new(),
                block: [0; 3],
                thread: [0; 3],
                address: None,
                times: 1,
            }],
            more: 1,
        },
        R::NoEntry,
        R::UndeclaredEntry {
            symbol: "k_inner".into(),
        },
        R::LaunchedOtherwise { entry: "k".into() },
        R::SharedBeyondDeclared {
            entry: "k".into(),
            asked: 1024,
            declared: None,
        },
        R::SharedBeyondDeclared {
            entry: "k".into(),
            asked: 1024,
            declared: Some(512),
        },
        R::BeyondLimit {
            metric: Metric::Registers,
            value: Num(129.0),
            op: Op::Le,
            bound: Num(128.0),
            worst: None,
        },
        R::BeyondLimit {
            metric: Metric::MaxErr,
            value: Num(0.0012),
            op: Op::Le,
            bound: Num(0.001),
            worst: Some((2, worst())),
        },
        R::NotANumber {
            metric: Metric::MaxErr,
            because: Some((2, 12, 4096)),
        },
        R::NotANumber {
            metric: Metric::P50,
            because: None,
        },
        R::ConditionBroken {
            operands: vec![Operand {
                name: "registers".into(),
                metric: Some(Metric::Registers),
                value: Num(129.0),
            }],
        },
        *own(),
        R::BeyondChange(Box::new(registers(anchor()))),
        R::BeyondChange(Box::new(p50(Against::Baseline, 0.03, None))),
        R::BeyondChange(Box::new(p50(Against::Baseline, 0.03, Some(1)))),
        R::BeyondChange(Box::new(p50(Against::Base, 0.03, None))),
        R::BeyondChange(Box::new(slow_share())),
        R::BeyondChange(Box::new(Comparison {
            interval: None,
            processes: None,
            ..p50(Against::Base, 0.03, None)
        })),
        R::OnArchitecture {
            arch: fixture::arch(),
            why: Box::new(R::NoSeeds),
        },
        R::CountersRose {
            against: Against::Base,
            rises: vec![CounterRise {
                counter: Counter::Atomics,
                was: Num(0.0),
                now: Num(8.0),
                change: Num(f64::INFINITY),
                lines: Vec::new(),
            }],
            allowed: Num(0.02),
        },
        R::CountersRose {
            against: Against::Baseline,
            rises: vec![CounterRise {
                counter: Counter::GlobalLoadSectors,
                was: Num(1024.0),
                now: Num(2560.0),
                change: Num(1.5),
                lines: vec![LineCount {
                    place: "k.cu:21".into(),
                    count: 2048,
                }],
            }],
            allowed: Num(0.0),
        },
        R::AcceptanceExpired {
            by: "jane@example.org".into(),
            until: "2026-11-20".into(),
            day: "2026-11-21".into(),
        },
        R::AcceptanceUndated {
            started: "yesterday".into(),
        },
        R::AcceptanceOfNothing {
            case: "k/fats@small".into(),
        },
        R::AcceptanceWithoutGate {
            case: "k/fast@small".into(),
        },
        R::AcceptedFindingGone {
            by: "jane@example.org".into(),
            until: "2027-01-31".into(),
        },
        R::AcceptanceUnused {
            by: "jane@example.org".into(),
            until: "2027-01-31".into(),
        },
        R::ExpectedFailurePassed,
        R::FailedOtherwise {
            on: Box::new(Subject::Unit(unit())),
            failed: vec![Rule::Built, fixture::at_most(Metric::Registers, 128.0)],
        },
        R::AcceptedUntil {
            own: own(),
            accepted: accepted(),
        },
        R::BeyondAccepted {
            own: own(),
            accepted: accepted(),
        },
        R::BaselineUnreadable {
            path: "baselines/k/fast/times-h100.json".into(),
            problem: "line 3: expected `,`".into(),
        },
        R::ExpectedFailureOpen,
        R::GpuRequired { why: why() },
        R::NotBuilt { unit: unit() },
        R::NotProven { why: why() },
        R::NoErrorLimit,
        R::Unreferenced,
        R::NotSelected {
            what: "k/direct".into(),
        },
        R::NotInPlan {
            what: "k/direct".into(),
        },
        R::NoArchitecture {
            kernel: "k".into(),
            variant: "fast".into(),
            device: "NVIDIA A100".into(),
            arch: fixture::arch(),
        },
        R::NotSimulated,
        R::NotProfiled,
        R::NoSibling,
        R::DeclaredNondeterministic {
            because: "atomics add in any order".into(),
        },
        R::RepeatsByConstruction,
        R::UnknownArchitecture {
            arch: fixture::arch(),
        },
        R::LauncherElsewhere {
            arch: fixture::arch(),
        },
        R::NoCodec,
        R::CountersWithheld {
            why: Some(withheld(Doubt::Polls)),
        },
        R::CountersWithheld { why: None },
        R::RivalSkipped {
            rival: "torch".into(),
            backend: "flash".into(),
            because: "PyTorch is not installed".into(),
        },
        R::EvidenceRepeated {
            piece: Piece::Timing(case()),
            times: 2,
        },
        R::TooFewProcesses { have: 2, needed: 6 },
        R::TooFewSingles {
            metric: Metric::P99,
            have: 40,
            needed: 100,
        },
        R::TooFewLaunches { have: 12 },
        R::Throttled {
            throttled: 3,
            processes: 6,
            needed: 5,
            causes: vec!["power cap".into()],
        },
        R::Throttled {
            throttled: 1,
            processes: 6,
            needed: 6,
            causes: Vec::new(),
        },
        R::NotInProfile {
            metric: Metric::Profile(ProfileMetric::Waves),
        },
        R::TooFewProfiles {
            metric: Metric::Profile(ProfileMetric::DramThroughput),
            have: 1,
            needed: 2,
        },
        R::RepeatsDisagree {
            metric: Metric::Profile(ProfileMetric::DramThroughput),
            low: Num(0.488),
            high: Num(0.513),
            repeats: 3,
        },
        R::ClockUnknown,
        R::ClockTooCoarse {
            metric: Metric::P50,
            side: Side::Head,
            value: Num(320.0),
            tick_ns: 32,
        },
        R::NoSpread,
        R::Undecided {
            comparison: Box::new(p50(Against::Base, 0.019, None)),
            visible: None,
            needed: Some(45),
        },
        R::Undecided {
            comparison: Box::new(p50(Against::Base, 0.02, None)),
            visible: None,
            needed: None,
        },
        R::Undecided {
            comparison: Box::new(p50(Against::Baseline, 0.019, None)),
            visible: Some(Num(0.03)),
            needed: None,
        },
        R::Undecidable {
            metric: Metric::P50,
            problem: judge::stats::sequential::Undecidable::NoSpread { processes: 6 },
        },
        R::PairingUnknown,
        R::NoSeeds,
        R::NothingCompared { seed: 1 },
        R::TooFewRepeats {
            seed: 1,
            have: 2,
            needed: 5,
        },
        R::DriverEntries {
            count: 2,
            expected: 1,
        },
        R::EntriesDiffer {
            declared: 1,
            reported: 2,
        },
        R::LaunchUnknown { unit: unit() },
        R::SiblingUnknown {
            variant: "direct".into(),
        },
        R::NoCommonShape {
            variant: "direct".into(),
        },
        R::NoTolerance {
            metric: Metric::MaxErr,
        },
        R::Misplaced {
            metric: Some(Metric::P50),
        },
        R::Misplaced { metric: None },
        R::BadChange {
            allowed: Num(f64::NAN),
        },
        R::NoRelative {
            metric: Metric::Spills,
        },
        R::Unparsed {
            text: "p50 <=".into(),
            problem: model::expr::ExprError {
                message: "a value is missing".into(),
                column: 7,
            },
        },
        R::Unevaluated {
            text: text(),
            problem: model::expr::EvalError::DivisionByZero,
        },
        R::UnknownName {
            text: text(),
            name: "stage1.p50".into(),
        },
        R::TimeInCorrectness {
            text: text(),
            metric: Metric::P50,
        },
        R::OperandUnknown {
            name: "stage1.p50".into(),
            why: why(),
        },
        R::CheckLost {
            shape: "small".into(),
            why: Box::new(Reason::NotRun(NotRun::OverBudget {
                estimate: 70_000_000,
                budget: 50_000_000,
            })),
        },
        R::CheckLost {
            shape: "small".into(),
            why: Box::new(R::Unsupported(Unsupported::Ptx {
                problem: "the simulator does not support it: `nanosleep.u64`".into(),
            })),
        },
        R::CountersLost {
            lost: vec![(Counter::Instructions, Some(withheld(Doubt::RaggedLoop)))],
        },
        R::PartlyAccepted {
            own: own(),
            accepted: accepted(),
            other: Box::new(R::NoSpread),
        },
        R::New {
            metric: Metric::P50,
            lacking: Lacking::File,
        },
        R::New {
            metric: Metric::P50,
            lacking: Lacking::Case,
        },
        R::New {
            metric: Metric::P50,
            lacking: Lacking::Metric,
        },
        R::NewSinceBase {
            revision: "origin/main".into(),
        },
        R::NewSinceAnchor {
            since: v1(),
            found: "0a34415aaaaa".into(),
        },
        R::NoBase,
        R::OtherKey {
            differences: differences(),
        },
        R::AnchorOtherKey {
            since: v1(),
            differences: differences(),
        },
        R::AnchorMissing { since: Since::Best },
        R::AnchorUnreadable {
            since: v1(),
            path: "baselines/k/fast/times-h100.json".into(),
            problem: "line 3".into(),
        },
        R::TwoBaselines {
            dates: ["2026-11-20".into(), "2026-11-21".into()],
        },
        R::BaseLacks {
            metric: Metric::P50,
            why: why(),
        },
        R::HazardsNotCompared {
            count: 2,
            why: why(),
        },
        R::BaseNotBuilt { why: why() },
        R::NotHeldToBase { why: why() },
        R::BaseArchitecture {
            revision: "origin/main".into(),
            case: case().into(),
            device: "NVIDIA A100".into(),
        },
        R::HeadPassedOver { why: why() },
        R::TwoProtocols,
        R::TimedBesideBase,
        R::ThrottledProcesses { count: 1 },
        R::NothingMeasured,
    ];
    for (figure, ours) in [
        (DriverFigure::Registers, 100),
        (DriverFigure::StaticShared, 1024),
        (DriverFigure::BlocksPerSm, 3),
    ] {
        all.push(R::DriverDisagrees {
            entry: "k".into(),
            figure,
            ours,
            drivers: 2,
        });
    }
    for (of, problem) in [
        (Against::Baseline, FigureProblem::NotFinite(Num(f64::NAN))),
        (Against::Baseline, FigureProblem::NoSpread),
        (anchor(), FigureProblem::OutOfRange(Num(-1.0))),
        (
            anchor(),
            FigureProblem::BadSpread {
                value: Num(80_000.0),
                spread: Num(-1.0),
                processes: 6,
            },
        ),
    ] {
        all.push(R::BaselineUnusable {
            of,
            metric: Metric::P50,
            problem,
        });
    }
    for doubt in [Doubt::Uncompared, Doubt::SplitCopy, Doubt::ZeroStride] {
        let why = Some(withheld(doubt));
        all.push(R::CounterWithheld {
            counter: Counter::MatrixLoads,
            why,
        });
    }
    let seed = 1;
    all.extend(
        [
            Piece::Build(unit()),
            Piece::Check { case: case(), seed },
            Piece::Simulation { case: case(), seed },
            Piece::Driver(case()),
            Piece::Profile {
                case: case(),
                repeat: 2,
            },
            Piece::Rival {
                rival: "torch".into(),
                task: case(),
            },
        ]
        .map(R::EvidenceMissing),
    );
    let side = Side::Base;
    all.extend(
        [
            TimingGap::Numbering,
            TimingGap::Mode {
                ran: Mode::Warm,
                planned: Mode::Cold,
            },
            TimingGap::TwoModes,
            TimingGap::NothingLaunched { side },
            TimingGap::Batched {
                have: 3,
                planned: 20,
            },
            TimingGap::Singles {
                have: 3,
                planned: 100,
            },
            TimingGap::Blocks {
                side,
                samples: 7,
                blocks: 3,
                least: 4,
            },
            TimingGap::NoSingles { side },
        ]
        .map(gap),
    );
    all.extend(loosened().into_iter().map(|how| R::Loosened(Box::new(how))));
    all.extend(base_lacks().map(R::BaseIncomparable));
    all.extend(FaultKind::ALL.map(|kind| {
        let message = "what it said".into();
        R::Fault(Fault { kind, message })
    }));
    let problem = || "what it said".to_owned();
    let program = || "NVBench 0.1.0".to_owned();
    all.extend(
        [
            Unsupported::Launcher,
            Unsupported::Clusters,
            Unsupported::Cubin,
            Unsupported::NotInCubin,
            Unsupported::NewerPtx,
            Unsupported::LauncherCode,
            Unsupported::Ptx { problem: problem() },
            Unsupported::OutOfMemory { problem: problem() },
            Unsupported::Clock,
            Unsupported::Driver,
            Unsupported::DriverLacks { problem: problem() },
            Unsupported::Capture { problem: problem() },
            Unsupported::HostTooSlow { problem: problem() },
            Unsupported::Simulation,
            Unsupported::ReferenceVariant {
                variant: "direct".into(),
                why: Box::new(Unsupported::Clusters),
            },
            Unsupported::SamplesNotKept { program: program() },
            Unsupported::NotCounted,
            Unsupported::SeveralKernels { kernels: 2 },
            Unsupported::ProfiledConfined,
        ]
        .map(R::Unsupported),
    );
    all.extend(
        [
            NotRun::NoDevice { problem: problem() },
            NotRun::SimulatorAsked,
            NotRun::EarlierStage,
            NotRun::OverBudget {
                estimate: 70_000_000,
                budget: 50_000_000,
            },
            NotRun::OverMemory {
                bytes: 600 << 20,
                limit: 512 << 20,
            },
            NotRun::EstimateUnknown,
            NotRun::NoReferenceVariant {
                variant: "direct".into(),
            },
            NotRun::NoArtifact,
            NotRun::DriverNotAsked,
            NotRun::DeviceNotAsked,
            NotRun::CodeNotKept,
            NotRun::NoDisassembler,
            NotRun::OtherProgram { program: program() },
            NotRun::PassedOver {
                said: Some(problem()),
            },
            NotRun::PassedOver { said: None },
        ]
        .map(R::NotRun),
    );
    all
}

fn loosened() -> Vec<Loosened> {
    let dims = [("M".to_owned(), Some(64)), ("N".to_owned(), None)];
    vec![
        Loosened::SubjectRemoved(fixture::case("fast", "small")),
        Loosened::GateRemoved,
        Loosened::Looser(fixture::at_most(Metric::Registers, 140.0)),
        Loosened::Incomparable(Rule::Condition {
            expr: fixture::expr("p50 < 3 * tick"),
        }),
        Loosened::Seeds(vec![1]),
        Loosened::Nondeterministic {
            because: "atomics".into(),
        },
        Loosened::Launches(2),
        Loosened::Launches(1),
        Loosened::Reference(Box::new(ReferenceComparison {
            elements: 384,
            differing: 64,
            largest: Some((2, worst())),
            neutral: Vec::new(),
        })),
        Loosened::ReferenceDigest,
        Loosened::Rival("torch".into()),
        Loosened::ReferenceIncomparable(None),
        Loosened::ReferenceIncomparable(Some("the reference `k` in k.c crashed".into())),
        Loosened::Dims(dims.into()),
        Loosened::InputValues,
        Loosened::OutputType,
        Loosened::OutputRemoved,
        Loosened::TensorRole(Role::Scratch),
        Loosened::TensorDims(vec![64, 128]),
        Loosened::ComparedElements(part()),
        Loosened::PreparedScratch,
        Loosened::SimulatorBudget {
            base: 50_000_000,
            head: 1_000_000,
        },
        Loosened::WarpHazards,
        Loosened::TimingSchedule(vec![
            ScheduleChange::Mode {
                base: Mode::Cold,
                head: Mode::Warm,
            },
            ScheduleChange::Processes { base: 6, head: 3 },
            ScheduleChange::Iterations { base: 20, head: 5 },
            ScheduleChange::Singles {
                base: 100,
                head: 10,
            },
        ]),
        Loosened::ChecksLost(Box::new(Reason::NotRun(NotRun::OverBudget {
            estimate: 80_000_000,
            budget: 50_000_000,
        }))),
        Loosened::ChecksLost(Box::new(Reason::Unsupported(Unsupported::Ptx {
            problem: "line 7: no multimem.ld_reduce".into(),
        }))),
        Loosened::ChecksLost(Box::new(Reason::NoArchitecture {
            kernel: "k".into(),
            variant: "fast".into(),
            device: "NVIDIA L4".into(),
            arch: fixture::arch(),
        })),
        Loosened::ChecksLost(Box::new(Reason::NotSimulated)),
        Loosened::CountersLost(vec![
            (Counter::GlobalLoadSectors, Some(withheld(Doubt::Polls))),
            (Counter::GlobalStoreSectors, Some(withheld(Doubt::Polls))),
            (Counter::Atomics, None),
        ]),
        Loosened::ExpectedToFail(vec![GateName::NoFindings, GateName::Metric(Metric::MaxErr)]),
        Loosened::FallsBack("direct".into()),
        Loosened::FileRemoved,
        Loosened::BaseIncomparable(BaseLack::ReferenceBroken("gen.h: No such file".to_owned())),
        Loosened::BaselineRemoved,
        Loosened::BaselineLeft(vec![
            Rename {
                item: RenamedItem::Kernel,
                from: "old".into(),
                to: "k".into(),
            },
            Rename {
                item: RenamedItem::Shape { kernel: "k".into() },
                from: "tiny".into(),
                to: "small".into(),
            },
        ]),
        Loosened::BaselineEdited(edits()),
        Loosened::BaselineAbove(edits()),
        Loosened::BaselineMoved {
            differences: vec![KeyDifference {
                field: KeyField::Flags,
                theirs: "-O3".into(),
                here: "-O1".into(),
            }],
            figures: edits(),
        },
        Loosened::Accepts {
            allows: Allowance::Limit(fixture::at_most(Metric::MaxErr, 1e6)),
            by: "Ann".into(),
            until: "2027-01-31".into(),
        },
        Loosened::Accepts {
            allows: Allowance::Finding(race()),
            by: "Ann".into(),
            until: "2027-01-31".into(),
        },
    ]
}

fn part() -> Compare {
    Compare::Where {
        condition: fixture::expr("i >= j"),
        index: vec!["i".into(), "j".into()],
    }
}

fn base_lacks() -> [BaseLack; 6] {
    let fault = || {
        Box::new(Reason::Fault(Fault {
            kind: FaultKind::Compile,
            message: "what it said".into(),
        }))
    };
    [
        BaseLack::NotBuilt(fault()),
        BaseLack::ReferenceBroken("gen.h: No such file".to_owned()),
        BaseLack::ReferenceLate("what it said".into()),
        BaseLack::NoDigests,
        BaseLack::Unanswered(fault()),
        BaseLack::OtherDevice,
    ]
}

fn demands() -> Vec<BaseDemand> {
    let tensor = || "x".to_owned();
    vec![
        BaseDemand::Gate(fixture::at_most(Metric::Registers, 128.0)),
        BaseDemand::Seeds(vec![1, 2, 3]),
        BaseDemand::BitExact,
        BaseDemand::Launches(3),
        BaseDemand::Reference,
        BaseDemand::Dims([("M".to_owned(), 128)].into()),
        BaseDemand::InputValues { tensor: tensor() },
        BaseDemand::OutputType { tensor: tensor() },
        BaseDemand::TensorRole {
            tensor: tensor(),
            role: Role::Out,
        },
        BaseDemand::TensorDims {
            tensor: tensor(),
            dims: vec![128, 128],
        },
        BaseDemand::ComparedElements {
            tensor: tensor(),
            compare: None,
        },
        BaseDemand::ComparedElements {
            tensor: tensor(),
            compare: Some(Compare::Mask { tensor: "m".into() }),
        },
        BaseDemand::UnpreparedScratch { tensor: tensor() },
        BaseDemand::SimulatorBudget,
        BaseDemand::WarpHazards,
        BaseDemand::TimingSchedule,
        BaseDemand::Checks(vec![Rule::Finite, Rule::NoFindings]),
        BaseDemand::Baseline(Facet::Times),
        BaseDemand::NoAcceptance,
        BaseDemand::File("gpu/gates.yaml".to_owned()),
        BaseDemand::NoFallback(None),
        BaseDemand::NoFallback(Some("plain".into())),
        BaseDemand::NoFailure(Vec::new()),
        BaseDemand::NoFailure(vec![GateName::NoFindings]),
    ]
}

#[test]
fn every_reason_is_a_sentence() {
    let environment = fixture::environment();
    let subject = fixture::case("fast", "small");
    let all = all_reasons();
    let given: BTreeSet<_> = all.iter().map(Reason::code).collect();
    let missing: Vec<_> = Reason::codes().filter(|it| !given.contains(it)).collect();
    assert!(missing.is_empty(), "without a sentence here: {missing:?}");
    let mut lines = String::new();
    for reason in &all {
        let sentence = reasons::reason(&environment, &subject, reason);
        assert!(!sentence.contains("  ") && sentence.trim() == sentence);
        lines.push_str(&format!("{} | {sentence}\n", reason.code()));
    }
    insta::assert_snapshot!("sentences", lines);
}

#[test]
fn every_demand_of_a_base_is_named() {
    let lines = demands().into_iter().map(|demand| {
        let question = words::question(&Question::NoLooser(demand));
        format!("{question}\n")
    });
    insta::assert_snapshot!("demands", lines.collect::<String>());
}
