//! Writes in words what bounds a case: with its values, what to try, and the source of each rule. Pure.

use super::section::{ColumnKind, InTerminal, Room, Section, SectionPart, Table};
use crate::document;
use explain::diagnosis::changes::{self, Diagnosed, Figure, FigureChange, Standing};
use explain::diagnosis::{Advice, Basis, Bound, Diagnosis, Moved, Residency, Resource, Unknown};
use explain::{Sides, explain};
use judge::Index;
use model::occupancy::Limiter;
use model::{Arithmetic, CaseId, Judgement, Metric, Num, Stall};
use serde::Serialize;
use std::collections::BTreeSet;
use system::error::Result;
use wording::words;

pub const SCHEMA: &str = "gatekeeper.diagnosis/1";

pub const TITLE: &str = "what bounds each case";

/// A diagnosis, and how a person reads it.
#[derive(Serialize)]
pub struct DiagnosisEntry {
    pub case: CaseId,
    pub standing: Standing,
    pub message: String,
    pub before: Option<Diagnosis>,
    pub after: Diagnosis,
    pub changes: Vec<FigureChange>,
    pub advice: Vec<Try>,
}

/// A thing to try, and who says so.
#[derive(Serialize)]
pub struct Try {
    pub code: Advice,
    pub message: &'static str,
    pub source: &'static str,
}

pub fn entries(found: Vec<Diagnosed>) -> Vec<DiagnosisEntry> {
    let entry = |diagnosed: Diagnosed| DiagnosisEntry {
        message: sentence(&diagnosed.after),
        advice: diagnosed
            .after
            .advice
            .iter()
            .map(|advice| rule(*advice))
            .collect(),
        case: diagnosed.case,
        standing: diagnosed.standing,
        before: diagnosed.before,
        after: diagnosed.after,
        changes: diagnosed.changes,
    };
    found.into_iter().map(entry).collect()
}

/// The greatest number of lines that a terminal shows.
const MOST: usize = 8;

/// Returns two sections: a line for each case that failed, and for a comment all cases, folded. They have the bound
/// before and now, what moved, and what to try.
pub fn section<'a>(index: &Index, judgement: &Judgement) -> [Section<'a>; 2] {
    let found = changes::notable(index, judgement);
    let failed: Vec<_> = found
        .iter()
        .filter(|diagnosed| diagnosed.standing == Standing::Failed && diagnosed.after.is_known())
        .map(|diagnosed| format!("{}: {}", diagnosed.case, sentence(&diagnosed.after)))
        .collect();
    let more = failed.len().saturating_sub(MOST);
    let mut lines: Vec<_> = failed.into_iter().take(MOST).collect();
    if more > 0 {
        lines.push(format!(
            "and {}: `gatekeeper report RECORD --diagnosis` has all",
            words::plural(more, "more case")
        ));
    }
    let terminal = Section {
        in_comment: false,
        ..Section::with_lines("bound", "", lines)
    };
    let has_before = found.iter().any(|diagnosed| diagnosed.before.is_some());
    let has_wins = has_before
        && found
            .iter()
            .any(|diagnosed| diagnosed.standing != Standing::Failed);
    let rows = found.iter().map(|diagnosed| {
        let before = diagnosed.before.as_ref().map(bound);
        let before = has_before.then(|| before.unwrap_or("-".to_owned()));
        let changes: Vec<_> = diagnosed.changes.iter().map(change).collect();
        let changes = has_before.then(|| changes.join("\n"));
        std::iter::once(diagnosed.case.to_string())
            .chain(before)
            .chain([bound(&diagnosed.after)])
            .chain(changes)
            .chain(has_wins.then(|| match diagnosed.standing {
                // The problem of the case says why.
                Standing::Failed => "-".to_owned(),
                _ => cause(index, &diagnosed.case),
            }))
            .chain([advice(&diagnosed.after).join("\n")])
            .collect()
    });
    let columns = [("case", ColumnKind::Name)]
        .into_iter()
        .chain(has_before.then_some(("bounded before by", ColumnKind::Text)))
        .chain([("bounded by", ColumnKind::Text)])
        .chain(has_before.then_some(("what moved", ColumnKind::Text)))
        .chain(has_wins.then_some(("first cause", ColumnKind::Text)))
        .chain([("to try", ColumnKind::Text)]);
    let table = Table::new(columns, rows.collect());
    let bases: BTreeSet<_> = found
        .iter()
        .flat_map(|diagnosed| diagnosed.before.iter().chain([&diagnosed.after]))
        .filter_map(basis)
        .collect();
    let notes = SectionPart::Lines(bases.into_iter().collect());
    let title = if has_before {
        "What bounds them, before and now"
    } else {
        "What bounds them"
    };
    let comment = Section {
        is_folded: true,
        in_terminal: InTerminal::Never,
        ..Section::new("", title, vec![SectionPart::Table(table), notes])
    };
    [terminal, comment]
}

/// Lays out every case, for `report --diagnosis`.
pub fn lay_out(found: &[Diagnosed]) -> Vec<Vec<Section<'static>>> {
    let rows = found.iter().map(|diagnosed| {
        let of = &diagnosed.after;
        vec![
            diagnosed.case.to_string(),
            bound(of),
            uses(of),
            roofline(of).unwrap_or("-".to_owned()),
            time(of.time_ns.or(of.estimated_ns)),
            time(of.least_ns),
            advice(of).join("\n"),
        ]
    });
    let columns = [
        ("case", ColumnKind::Name),
        ("bounded by", ColumnKind::Text),
        ("of the peaks", ColumnKind::Text),
        ("roofline", ColumnKind::Text),
        ("time", ColumnKind::Number),
        ("at the peak", ColumnKind::Number),
        ("to try", ColumnKind::Text),
    ];
    let mut table = Table::new(columns, rows.collect());
    for column in &mut table.columns {
        if matches!(column.head.as_str(), "of the peaks" | "roofline" | "to try") {
            column.room = Room::Never;
        }
    }
    let bases: BTreeSet<_> = found
        .iter()
        .filter_map(|diagnosed| basis(&diagnosed.after))
        .collect();
    let tried: BTreeSet<_> = found
        .iter()
        .flat_map(|diagnosed| diagnosed.after.advice.clone())
        .collect();
    let sources = tried.into_iter().map(|advice| {
        let Try {
            message, source, ..
        } = rule(advice);
        format!("{message}: {source}")
    });
    let notes: Vec<_> = bases.into_iter().chain(sources).collect();
    vec![vec![
        Section::with_table("bound", "What bounds each case", table),
        Section::with_lines("note", "Notes", notes),
    ]]
}

/// Returns the first cause that explains the change.
fn cause(index: &Index, id: &CaseId) -> String {
    let causes = causes(index, id);
    causes.into_iter().next().unwrap_or("-".to_owned())
}

fn causes(index: &Index, id: &CaseId) -> Vec<String> {
    let causes = Sides::from_index(index, id)
        .map(|sides| explain(&sides))
        .unwrap_or_default();
    causes.iter().map(super::explain::summary).collect()
}

/// Returns the lines for one case: what bounds it, before and now, what moved, what explains that, and what to try.
pub fn lines(index: &Index, of: &Diagnosed) -> Vec<String> {
    let before = of.before.as_ref();
    let before = before.map(|diagnosis| format!("before: bounded by {}", bound(diagnosis)));
    let now = format!("now: bounded by {}", bound(&of.after));
    let moved = of.changes.iter().map(change);
    let causes = causes(index, &of.case)
        .into_iter()
        .map(|cause| format!("cause: {cause}"));
    let advice = advice(&of.after)
        .into_iter()
        .map(|what| format!("to try: {what}"));
    before
        .into_iter()
        .chain([now])
        .chain(moved)
        .chain(causes)
        .chain(advice)
        .collect()
}

#[derive(Serialize)]
struct DiagnosisDocument {
    schema: &'static str,
    diagnoses: Vec<DiagnosisEntry>,
}

/// Returns the diagnoses as JSON.
///
/// # Errors
/// Fails with an environment error if they cannot be written as JSON.
pub fn json(found: Vec<Diagnosed>) -> Result<String> {
    let document = DiagnosisDocument {
        schema: SCHEMA,
        diagnoses: entries(found),
    };
    document::json("the diagnosis", &document)
}

/// Returns the bound in words: `issue slots, 74 % of its peak`.
fn bound(of: &Diagnosis) -> String {
    match &of.bound {
        Bound::Resource { resource } => match of.reached {
            Some(share) => {
                let of_launch = of.uses.get(resource);
                let when = if of_launch.is_some_and(|launch_share| launch_share.0 < share.0) {
                    " while multiprocessors have work"
                } else {
                    ""
                };
                format!("{}, {} of its peak{when}", name(*resource), percent(share))
            }
            None => name(*resource).to_owned(),
        },
        Bound::Latency { stall } => {
            let most = most_used(of).map_or(String::new(), |(resource, share)| {
                let (name, share) = (name(resource), percent(share));
                format!(", and the most used, {name}, is at {share} of its peak")
            });
            format!("latency: warps mostly wait {}{most}", waits(*stall))
        }
        Bound::Launch => "its launch, which takes longer than its work".to_owned(),
        Bound::FewBlocks { busy } => {
            let blocks = blocks(of.residency.as_ref());
            let busy = busy.as_deref().map_or(String::new(), |busy| match busy {
                Bound::Latency { stall } => {
                    format!("; in these, warps mostly wait {}", waits(*stall))
                }
                Bound::Resource { resource } => {
                    format!("; these are bounded by {}", name(*resource))
                }
                _ => String::new(),
            });
            format!("too few blocks{blocks}{busy}")
        }
        Bound::Tail => format!("a tail{}", waves(of.residency.as_ref())),
        Bound::Unknown { why } => unknown(why),
    }
}

/// Returns the bound as a sentence, for places where no note says how the diagnosis was made: `bounded by issue slots,
/// 74 % of its peak (estimate for NVIDIA L4)`.
fn sentence(of: &Diagnosis) -> String {
    let said = if of.is_known() {
        format!("bounded by {}", bound(of))
    } else {
        bound(of)
    };
    match &of.basis {
        Basis::Estimate { gpu } => format!("{said} (estimate for {gpu})"),
        Basis::Profile { .. } | Basis::Times { .. } | Basis::Nothing => said,
    }
}

fn unknown(why: &Unknown) -> String {
    match why {
        Unknown::NotSeen => "not known: it was neither simulated nor timed".to_owned(),
        Unknown::NotProfiled => "not known without a profile".to_owned(),
        Unknown::Gpu { name } => format!("not known: gatekeeper has no peaks of {name}"),
        Unknown::Architecture { arch } => {
            format!("not known: gatekeeper has no GPU of {arch} to estimate for")
        }
        Unknown::NoStalls => {
            "not known: nothing is near its peak, and the profile does not tell what warps wait for"
                .to_owned()
        }
        Unknown::SeveralKernels => {
            "not known: several kernels, or host code that launches them".to_owned()
        }
    }
}

/// Returns a note on how a diagnosis was made.
fn basis(of: &Diagnosis) -> Option<String> {
    match &of.basis {
        Basis::Estimate { gpu } => Some(format!(
            "estimates are for {gpu}, from the simulator's counters and PTXAS: which GPU it will be is not known here"
        )),
        Basis::Profile { gpu, profiler } => Some(format!("measured on {gpu} by {profiler}")),
        Basis::Times { gpu } => Some(format!(
            "timed on {gpu} and not profiled: only what launch and time make certain is said"
        )),
        Basis::Nothing => None,
    }
}

fn blocks(on: Option<&Residency>) -> String {
    on.map_or(String::new(), |on| {
        let blocks = words::plural(usize::try_from(on.blocks).unwrap_or(usize::MAX), "block");
        format!(": {blocks} for {} multiprocessors", on.multiprocessors)
    })
}

fn waves(on: Option<&Residency>) -> String {
    on.map_or(String::new(), |on| {
        let waves = on.waves.0;
        format!(
            ": {} blocks are {waves:.2} waves on {} multiprocessors",
            on.blocks, on.multiprocessors
        )
    })
}

fn name(resource: Resource) -> &'static str {
    match resource {
        Resource::Tensor => "tensor cores",
        Resource::Fp32 => "FP32 arithmetic",
        Resource::Fp64 => "FP64 arithmetic",
        Resource::Fp16 => "FP16 arithmetic",
        Resource::SpecialFunctions => "special functions",
        Resource::IssueSlots => "issue slots",
        Resource::SharedMemory => "shared memory",
        Resource::L2 => "L2",
        Resource::Dram => "DRAM",
    }
}

/// Returns a state of warps in words, with the profiler's own name if that says more to those who know it.
fn waits(stall: Stall) -> &'static str {
    match stall {
        Stall::LongScoreboard => "for global or local memory (long_scoreboard)",
        Stall::ShortScoreboard => "for shared memory or special functions (short_scoreboard)",
        Stall::Barrier => "at barriers",
        Stall::Membar => "for memory fences (membar)",
        Stall::MioThrottle => "for the queue of shared memory (mio_throttle)",
        Stall::LgThrottle => "for the queue of global memory (lg_throttle)",
        Stall::TexThrottle => "for the queue of textures (tex_throttle)",
        Stall::MathPipeThrottle => "for a busy pipe (math_pipe_throttle)",
        Stall::Wait => "for the instruction before (wait)",
        Stall::NotSelected => "while others issue (not_selected)",
        Stall::Selected => "for nothing (selected)",
        Stall::NoInstruction => "for their instructions to be fetched (no_instruction)",
        Stall::BranchResolving => "for branches (branch_resolving)",
        Stall::DispatchStall => "for dispatch (dispatch_stall)",
        Stall::Drain => "for their last stores (drain)",
        Stall::ImcMiss => "for constants (imc_miss)",
        Stall::Gmma => "for products of matrices (gmma)",
        Stall::WarpgroupArrive => "for their warp group (warpgroup_arrive)",
        Stall::Sleeping => "asleep (sleeping)",
        Stall::Misc => "for other reasons (misc)",
    }
}

fn most_used(of: &Diagnosis) -> Option<(Resource, Num)> {
    let most = of.uses.iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    most.map(|(resource, share)| (*resource, *share))
}

/// Returns the use of resources: `issue slots 74 %, L2 31 %; occupancy 50 %, limited by registers; 2.1 times the
/// sectors of loads`.
fn uses(of: &Diagnosis) -> String {
    let mut all: Vec<_> = of.uses.iter().collect();
    all.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let used: Vec<_> = all
        .into_iter()
        .take(3)
        .map(|(resource, share)| format!("{} {}", name(*resource), percent(*share)))
        .collect();
    let on = of.residency.as_ref();
    let occupancy = on.and_then(|on| on.theoretical.as_ref()).map(|occupancy| {
        let share = percent(occupancy.occupancy);
        match occupancy.limiter {
            Limiter::Warps => format!("occupancy {share}"),
            limiter => format!("occupancy {share}, limited by {}", limits(limiter)),
        }
    });
    let achieved = on.and_then(|on| on.achieved);
    let achieved = achieved.map(|share| format!("{} achieved", percent(share)));
    let wasted = [
        (of.traffic.loads, "sectors of loads"),
        (of.traffic.stores, "sectors of stores"),
        (of.traffic.shared_loads, "wavefronts of shared loads"),
        (of.traffic.shared_stores, "wavefronts of shared stores"),
    ];
    let wasted = wasted.into_iter().filter_map(|(moved, what)| {
        let waste = moved.map(Moved::waste).filter(|waste| *waste >= 1.05)?;
        Some(format!("{waste:.1} times the ideal {what}"))
    });
    let parts = Some(used.join(", ")).filter(|list| !list.is_empty());
    let parts: Vec<_> = parts
        .into_iter()
        .chain(occupancy)
        .chain(achieved)
        .chain(wasted)
        .collect();
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join("; ")
    }
}

fn limits(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::Warps => "warps",
        Limiter::Blocks => "blocks",
        Limiter::Registers => "registers",
        Limiter::SharedMemory => "shared memory",
        Limiter::Barriers => "barriers",
    }
}

/// Returns the roofline in words: `12.3 FP32 operations a byte of L2, under its roof up to 10.0`.
fn roofline(of: &Diagnosis) -> Option<String> {
    let line_of_roof = of.roofline.as_ref()?;
    let roof = if line_of_roof.intensity.0 < line_of_roof.ridge.0 {
        name(line_of_roof.memory)
    } else {
        kind(line_of_roof.arithmetic)
    };
    Some(format!(
        "{} {} operations a byte of {}: under the roof of {roof} (they meet at {})",
        number(line_of_roof.intensity.0),
        kind(line_of_roof.arithmetic),
        name(line_of_roof.memory),
        number(line_of_roof.ridge.0),
    ))
}

fn kind(arithmetic: Arithmetic) -> &'static str {
    match arithmetic {
        Arithmetic::Fp16 => "FP16",
        Arithmetic::Fp32 => "FP32",
        Arithmetic::Fp64 => "FP64",
        Arithmetic::Special => "special",
        Arithmetic::TensorF16 => "f16 tensor",
        Arithmetic::TensorBf16 => "bf16 tensor",
        Arithmetic::TensorTf32 => "tf32 tensor",
        Arithmetic::TensorFp8 => "fp8 tensor",
        Arithmetic::TensorFp64 => "f64 tensor",
        Arithmetic::TensorInt8 => "int8 tensor",
        Arithmetic::TensorNarrow => "int4 tensor",
    }
}

fn number(value: f64) -> String {
    match value {
        small if small < 10.0 => format!("{small:.2}"),
        some if some < 100.0 => format!("{some:.1}"),
        many => format!("{many:.0}"),
    }
}

fn percent(share: Num) -> String {
    format!("{:.0} %", share.0 * 100.0)
}

fn time(ns: Option<Num>) -> String {
    ns.map_or("-".to_owned(), |ns| {
        words::quantity(Metric::P50, (ns.0 * 10.0).round() / 10.0)
    })
}

/// Returns how a figure changed: `load sectors 4096 -> 32768`.
fn change(change: &FigureChange) -> String {
    let value = |value: Num| match change.figure {
        Figure::EstimatedTime | Figure::Time => time(Some(value)),
        figure if figure.is_share() => percent(value),
        Figure::Waves => format!("{:.2}", value.0),
        _ => format!("{}", value.0),
    };
    let what = match change.figure {
        Figure::EstimatedTime => "estimated time".to_owned(),
        Figure::Time => "time".to_owned(),
        Figure::Occupancy => "occupancy".to_owned(),
        Figure::Blocks => "blocks".to_owned(),
        Figure::Waves => "waves".to_owned(),
        Figure::Use(resource) => format!("use of {}", name(resource)),
        Figure::LoadRequests => "load requests".to_owned(),
        Figure::LoadSectors => "load sectors".to_owned(),
        Figure::StoreRequests => "store requests".to_owned(),
        Figure::StoreSectors => "store sectors".to_owned(),
        Figure::SharedLoadWavefronts => "wavefronts of shared loads".to_owned(),
        Figure::SharedStoreWavefronts => "wavefronts of shared stores".to_owned(),
    };
    format!(
        "{what}: {} -> {}",
        value(change.before),
        value(change.after)
    )
}

fn advice(of: &Diagnosis) -> Vec<&'static str> {
    of.advice
        .iter()
        .map(|advice| rule(*advice).message)
        .collect()
}

/// Returns the text of a rule and its source. BPG is the CUDA C++ Best Practices Guide, NCU a rule of Nsight Compute by
/// its identifier.
fn rule(code: Advice) -> Try {
    let (message, source) = match code {
        Advice::CoalesceLoads => (
            "let neighbouring threads load neighbouring addresses",
            "BPG, Coalesced Access to Global Memory; NCU UncoalescedGlobalAccess",
        ),
        Advice::CoalesceStores => (
            "let neighbouring threads store to neighbouring addresses",
            "BPG, Coalesced Access to Global Memory; NCU UncoalescedGlobalAccess",
        ),
        Advice::AvoidBankConflicts => (
            "pad or swizzle shared memory, so that lanes meet different banks",
            "BPG, Shared Memory and Memory Banks; NCU SharedMemoryConflicts",
        ),
        Advice::MoveFewerBytes => (
            "move fewer bytes: narrower types, fused kernels, no second pass",
            "BPG, Memory Optimizations; NCU SOLBottleneck",
        ),
        Advice::ReuseInSharedMemory => (
            "load once into shared memory what several threads of a block read",
            "BPG, Shared Memory in Matrix Multiplication (C=AB); NCU SOLBottleneck",
        ),
        Advice::ReuseInRegisters => (
            "compute more from registers for each access to shared memory: larger tiles a thread, wider accesses",
            "BPG, Shared Memory; NCU SOLBottleneck",
        ),
        Advice::UseAsynchronousProducts => (
            "use wgmma (sm_90a) or tcgen05 (sm_100a), which reach what mma.sync does not, or a narrower type",
            "PTX ISA, Asynchronous Warpgroup Level Matrix Multiply-Accumulate; NCU HighPipeUtilization",
        ),
        Advice::UseTensorCores => (
            "if it is a product of matrices, use tensor cores (tf32, bf16, f16) where the error allows it",
            "CUDA C++ Programming Guide, Warp Matrix Functions; NCU HighPipeUtilization",
        ),
        Advice::UseSinglePrecision => (
            "compute in single precision, and write constants with an f",
            "BPG, Arithmetic Instructions; NCU HighPipeUtilization",
        ),
        Advice::UseFasterFunctions => (
            "use fewer or faster functions: __expf, exp2f with scaled arguments, rsqrtf",
            "BPG, Math Libraries; NCU HighPipeUtilization",
        ),
        Advice::IssueFewerInstructions => (
            "issue fewer instructions for the same work: wider loads, unrolled loops, index arithmetic outside of them",
            "BPG, Instruction Optimization; NCU IssueSlotUtilization",
        ),
        Advice::KeepMoreWarps => (
            "keep more warps on a multiprocessor: fewer registers a thread, or less shared memory a block",
            "BPG, Occupancy; NCU TheoreticalOccupancy",
        ),
        Advice::LoadEarlier => (
            "load earlier than it is used: cp.async, a second buffer, several loads before the first use",
            "BPG, Asynchronous Copy from Global Memory to Shared Memory; NCU CPIStall",
        ),
        Advice::WaitAtFewerBarriers => (
            "wait at fewer barriers: larger tiles between them, a second buffer, __syncwarp() where a warp is enough",
            "BPG, Thread and Block Heuristics; NCU CPIStall",
        ),
        Advice::OverlapInstructions => (
            "let instructions overlap: several independent sums a thread, more warps",
            "BPG, Hiding Register Dependencies; NCU CPIStall",
        ),
        Advice::UseMoreBlocks => (
            "split the work into more blocks, at least one for each multiprocessor",
            "BPG, Thread and Block Heuristics; NCU LaunchConfiguration",
        ),
        Advice::EvenOutBlocks => (
            "make blocks come out even: another block size, or blocks that stay and take one tile after the other",
            "BPG, Thread and Block Heuristics; NCU LaunchConfiguration",
        ),
        Advice::JoinLaunches => (
            "do more in one launch: fuse it with its neighbours, or launch it from a CUDA graph",
            "CUDA C++ Programming Guide, CUDA Graphs",
        ),
    };
    Try {
        code,
        message,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn everything_to_try_names_who_says_so() {
        let mut messages = BTreeSet::new();
        for advice in Advice::ALL {
            let it = rule(advice);
            let known = ["BPG, ", "CUDA C++ Programming Guide, ", "PTX ISA, "];
            assert!(
                known.iter().any(|from| it.source.starts_with(from)),
                "{advice:?}"
            );
            assert!(messages.insert(it.message), "{advice:?}");
        }
    }

    fn diagnosis(bound: Bound) -> Diagnosis {
        let blocks = match bound {
            Bound::FewBlocks { .. } => 20,
            _ => 61,
        };
        Diagnosis {
            basis: Basis::Estimate {
                gpu: "NVIDIA L4".to_owned(),
            },
            bound,
            uses: BTreeMap::from([(Resource::IssueSlots, Num(0.34)), (Resource::L2, Num(0.07))]),
            reached: Some(Num(0.738)),
            roofline: None,
            residency: Some(Residency {
                blocks,
                multiprocessors: 58,
                waves: Num(blocks as f64 / 58.0),
                theoretical: None,
                achieved: None,
            }),
            traffic: Default::default(),
            stalls: BTreeMap::new(),
            time_ns: None,
            estimated_ns: Some(Num(1234.5)),
            least_ns: None,
            advice: Vec::new(),
        }
    }

    #[test]
    fn each_bound_is_a_sentence() {
        let latency = Bound::Latency {
            stall: Stall::Barrier,
        };
        let resource = Bound::Resource {
            resource: Resource::SharedMemory,
        };
        let few = |busy| Bound::FewBlocks { busy };
        let unknown = [
            Unknown::NotSeen,
            Unknown::NotProfiled,
            Unknown::Gpu {
                name: "NVIDIA H300".to_owned(),
            },
            Unknown::Architecture {
                arch: "sm_87".to_owned(),
            },
            Unknown::SeveralKernels,
            Unknown::NoStalls,
        ];
        let unknown = unknown.map(|why| Diagnosis {
            basis: Basis::Nothing,
            ..diagnosis(Bound::Unknown { why })
        });
        let known = [
            resource.clone(),
            latency.clone(),
            Bound::Launch,
            few(None),
            few(Some(Box::new(resource))),
            few(Some(Box::new(latency))),
            Bound::Tail,
        ];
        let said: Vec<_> = known
            .into_iter()
            .map(diagnosis)
            .chain(unknown)
            .map(|diagnosis| sentence(&diagnosis))
            .collect();
        insta::assert_snapshot!("bounds", said.join("\n"));
    }

    #[test]
    fn a_change_shows_both_values() {
        let moved = |figure, before, after| {
            change(&FigureChange {
                figure,
                before: Num(before),
                after: Num(after),
            })
        };
        let use_of_l2 = Figure::Use(Resource::L2);
        assert_eq!(moved(use_of_l2, 0.07, 0.66), "use of L2: 7 % -> 66 %");
        assert_eq!(
            moved(Figure::LoadSectors, 4096.0, 32768.0),
            "load sectors: 4096 -> 32768"
        );
        assert_eq!(
            moved(Figure::EstimatedTime, 1234.5, 20_000.0),
            "estimated time: 1.234 us -> 20 us"
        );
    }
}
