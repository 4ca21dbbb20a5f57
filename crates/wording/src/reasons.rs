//! Writes the sentence that says why a verdict came out as it did. No other module words a reason, and nothing reads
//! the sentences back.

use super::words::{
    any_of, comma, compared_part, difference, element, instructions, limit, limit_by,
    limit_in_yaml, listed, millions, numbers, percent, place, plural, quantity, role_name, signed,
    signed_interval, update_binaries_command, update_command,
};
use super::{escape, findings, problems};
use model::occupancy::{Excess, Limiter};
use model::*;

/// Whom a sentence is about, and where its commands are run.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub environment: &'a Environment,
    /// The subjects of the sentence, at least one.
    pub subjects: &'a [&'a Subject],
}

/// Returns the reason in one sentence, or an empty text if there is nothing to add to a pass.
pub fn verdict(environment: &Environment, verdict: &Verdict) -> String {
    reason(environment, &verdict.subject, &verdict.reason)
}

/// Returns the sentence for a reason of a verdict on one subject. It is empty if the verdict says all.
pub fn reason(environment: &Environment, subject: &Subject, reason: &Reason) -> String {
    let context = Context {
        environment,
        subjects: &[subject],
    };
    context.sentence(reason)
}

impl Context<'_> {
    /// Returns the sentence for a reason of verdicts on all subjects of the context, cut to a length that fits a
    /// report.
    pub fn sentence(&self, reason: &Reason) -> String {
        // The text is cut once, with everything quoted in it, and says how much is left out.
        escape::cut(self.whole_sentence(reason))
    }

    fn whole_sentence(&self, reason: &Reason) -> String {
        use Reason as R;
        match reason {
            R::Held => String::new(),
            R::Compiled { warnings: 0 } => String::new(),
            R::Compiled { warnings } => format!("with {}", plural(*warnings as usize, "warning")),
            R::WithinLimit { metric, value } => quantity(*metric, value.0),
            R::ConditionHolds { operands: of } => operands(of),
            R::OneMode => {
                "single launches have one mode; a second one with 5 % of them would show".to_owned()
            }
            R::WithinChange(comparison) => compared(comparison),
            R::CountersHold { compared, withheld } => {
                let held = plural(*compared as usize, "counter");
                if withheld.is_empty() { held } else { format!("{held}; not gated: {}", all(withheld, withheld_counters)) }
            }
            R::UnchangedSinceBase { revision } => {
                format!("unchanged since {revision}: same machine code, launch and arguments")
            }
            R::Accepted { own, accepted } => {
                format!("{}; {}", self.whole_sentence(own), accepted_by(accepted))
            }
            R::FindingsAccepted { findings } => all(findings, accepted_finding),
            R::LooseningAllowed(how) => {
                format!("{}; allowed by --allow-loosened", loosened(how))
            }
            R::FellBack { own, to } => format!(
                "falls back on `{to}`, which holds all of its own gates: {}",
                self.whole_sentence(own)
            ),
            R::ExpectedFailure { own } => {
                format!("fails as gates.yaml expects: {}", self.whole_sentence(own))
            }

            R::SameCode { variant } => {
                format!("no effect: same machine code, launches and arguments as `{variant}`")
            }
            R::NonFinite { seed, count, elements, worst } => format!(
                "{} with seed {seed}: {count} of {elements} elements{}{}",
                not_finite(worst.as_deref()),
                first(worst.as_deref().map(element)),
                worst.iter().flat_map(|worst| &worst.arose).map(arose).collect::<String>(),
            ),
            R::Unwritten { seed, count, first: at } => format!(
                "not written with seed {seed}: {}{}",
                elements(*count),
                first(at.as_ref().map(place)),
            ),
            R::StoredUndefined { seed, count, first: at } => format!(
                "not defined with seed {seed}: {} hold what comes from memory that was never written{}",
                elements(*count),
                first(at.as_ref().map(place)),
            ),
            R::Nondeterministic { seed, launch, elements: count, at } => format!(
                "launch {launch} differs from the first launch in {} with seed {seed}, first at {}",
                elements(*count),
                place(at),
            ),
            R::FirstLaunchOnly { seed, differs, kept } => first_launch_only(*seed, differs, kept),
            R::WroteOutside { seed, places } => {
                format!("writes outside its buffers with seed {seed}: {}", places.join(", "))
            }
            R::InputWritten { seed, inputs } => {
                let what = if inputs.len() == 1 { "input" } else { "inputs" };
                format!("writes to its {what} {} with seed {seed}", listed(inputs))
            }
            R::Findings {
                seed,
                first,
                more,
                accepted,
            } => {
                let counted = |count: &usize, what: &str| match count {
                    0 => String::new(),
                    count => format!("; and {count} {what}"),
                };
                format!(
                    "with seed {seed}: {}{}{}",
                    all(first, finding),
                    counted(more, "more"),
                    counted(accepted, "accepted")
                )
            }
            R::NewHazards { seed, first, more } => {
                let others = match more {
                    0 => String::new(),
                    more => format!("; and {more} more"),
                };
                format!(
                    "the base does not have this; `__syncwarp()` between the two accesses would order them; with seed {seed}: {}{others}",
                    all(first, finding)
                )
            }
            R::NoEntry => "the compiler reported no entry".to_owned(),
            R::SpillsUnknown { accesses } => format!(
                "{} use local memory, and no compiled file says how many bytes are spilled",
                plural(usize::try_from(*accesses).unwrap_or(usize::MAX), "instruction")
            ),
            R::LaunchImpossible { case, excess: of } => format!(
                "{case} cannot be launched on this architecture: {}; take the architecture out of `architectures`, or make the block smaller",
                excess(*of)
            ),
            R::NoMachineCode { arch, missing } => no_machine_code(*arch, missing.as_ref()),
            R::UndeclaredEntry { symbol } => {
                format!("launches {symbol}, which is not declared under `launches`")
            }
            R::DriverDisagrees { entry, figure, ours, drivers } => format!(
                "{entry}: {}, the driver {drivers}",
                match figure {
                    DriverFigure::Registers => format!("PTXAS reports {ours} registers per thread"),
                    DriverFigure::StaticShared => {
                        format!("PTXAS reports {ours} B of static shared memory")
                    }
                    DriverFigure::BlocksPerSm => {
                        format!("the published limits allow {ours} blocks per SM")
                    }
                }
            ),
            R::LaunchedOtherwise { entry } => {
                format!("{entry}: the launch is not the one that gates.yaml plans")
            }
            R::SharedBeyondDeclared { entry, asked, declared } => format!(
                "{entry}: asks for {asked} B of dynamic shared memory, and {}",
                match declared {
                    Some(declared) => format!("{declared} B are declared"),
                    None => "none is declared".to_owned(),
                }
            ),

            // The difference of words is one of bits, and as a number it would say nothing.
            R::BeyondLimit { bound: Num(0.0), worst: Some((_, worst)), .. }
                if let Some(reading) = &worst.reading =>
            {
                format!("the output differs: {}{}", element(worst), super::words::tolerance(reading))
            }
            R::BeyondLimit { metric, value, op, bound, worst } => format!(
                "{metric} {}, limit {op} {}{}",
                quantity(*metric, value.0),
                quantity(*metric, bound.0),
                match worst {
                    Some((seed, worst)) => format!("; {} with seed {seed}", element(worst)),
                    None => String::new(),
                }
            ),
            R::NotANumber { metric, because } => match because {
                Some((seed, count, elements)) => format!(
                    "{metric} is NaN: {count} of {elements} elements are not finite with seed {seed}"
                ),
                None => format!("{metric} is NaN, which no limit allows"),
            },
            R::ConditionBroken { operands: of } => format!("does not hold for {}", operands(of)),
            R::BeyondChange(comparison) => {
                let confirmed = match (&comparison.against, comparison.processes) {
                    (Against::Base, Some(_)) => "; confirmed in a fresh process",
                    _ => "",
                };
                format!("{}{confirmed}", compared(comparison))
            }
            R::CountersRose {
                against,
                rises,
                allowed,
            } => format!(
                "{}; limit {} of {}",
                all(rises, rise),
                limit(Metric::P50, allowed.0),
                whose(against)
            ),
            R::UngatedWorse { against, values } => {
                format!(
                    "{}, worse than {}, and no gate limits {}; fix it, or limit it in gates.yaml: `gates: {{{}}}`",
                    all(values, worse_value),
                    whose(against),
                    if values.len() == 1 { "it" } else { "them" },
                    values.iter().map(|value| limit_in_yaml(value.metric, value.now.0)).collect::<Vec<_>>().join(", ")
                )
            }
            R::Loosened(how) => loosened(how),
            R::AcceptanceExpired { by, until, day } => format!(
                "expired: {by} accepted this until {until}, and this run is from {day}; extend the acceptance, or fix what it accepts and remove it"
            ),
            R::AcceptanceUndated { started } => format!(
                "the record starts at `{started}`, which is no date: this acceptance may have expired"
            ),
            R::AcceptanceOfNothing { case } => {
                format!("gates.yaml has no `{case}`; correct the name or remove the acceptance")
            }
            R::AcceptanceWithoutGate { case } => format!(
                "no gate on `{case}` has a limit of this kind; correct the acceptance or remove it"
            ),
            R::AcceptanceUnused { by, until } => format!(
                "unused: every gate holds without this acceptance, by {by} until {until}; remove it"
            ),
            R::ExpectedFailurePassed => {
                "holds every gate that was judged, and is expected to fail: it is right after all, or nothing catches it any more".to_owned()
            }
            R::FailedOtherwise { on, failed } => format!(
                "fails {} of {on}, which it is not expected to",
                listed(&failed.iter().map(super::words::gate).collect::<Vec<_>>()),
            ),
            R::AcceptedFindingGone { by, until } => format!(
                "unused: the simulator does not find this, which {by} accepted until {until}; remove the acceptance, or correct its line if that was edited"
            ),
            R::AcceptedUntil { own, accepted } => format!(
                "{}; the acceptance of `{}` by {} ended on {}",
                self.whole_sentence(own),
                super::words::gate(&accepted.limit),
                accepted.by,
                accepted.until
            ),
            R::BeyondAccepted { own, accepted } => format!(
                "{}; worse than `{}`, which {} accepted",
                self.whole_sentence(own),
                super::words::gate(&accepted.limit),
                accepted.by
            ),
            R::BaselineUnreadable { path, problem } => format!(
                "the baseline {path} cannot be read: {problem}; restore it, or remove it and run `{}`",
                self.update_command()
            ),
            R::BaselineUnusable { of, metric, problem } => format!(
                "{}'s {metric} {}{}",
                whose(of),
                figure_problem(*problem, metric.range()),
                match of {
                    Against::Baseline => {
                        format!("; measure it again and run `{}`", self.update_command())
                    }
                    Against::Anchor { .. } | Against::Base => String::new(),
                }
            ),

            R::Fault(fault) => format!("{}: {}", fault_kind(fault.kind), fault.message),
            R::Unsupported(why) => unsupported(why),
            R::NotRun(why) => not_run(why),
            R::ExpectedFailureOpen => {
                "no gate that it is expected to fail was decided, or not at all of its shapes".to_owned()
            }
            R::GpuRequired { why } => format!("a GPU is required: {}", self.whole_sentence(why)),
            R::NotBuilt { unit } => format!("{unit} was not built"),
            R::NotProven { why } => format!("{NOT_PROVEN}: {}", self.whole_sentence(why)),
            R::Unreferenced => "gates.yaml has no reference (`reference: none`): whether the output is right is not known".to_owned(),
            R::NoErrorLimit => format!("{NOT_PROVEN}: no gate sets an absolute limit on its error"),
            R::NotSelected { what } => format!("{what} was not selected for this run"),
            R::NotInPlan { what } => format!("{what} is not in the plan"),
            R::NoArchitecture { kernel, variant, device, arch } => {
                no_architecture((kernel, variant), device, *arch)
            }
            R::OnArchitecture { arch, why } => format!("built for {arch}: {}", self.whole_sentence(why)),
            R::NotSimulated => {
                "not simulated, as this run used a GPU; `--device sim` simulates".to_owned()
            }
            R::NotProfiled => "not profiled; `--profile` does that, on a GPU".to_owned(),
            R::NoSibling => "this run has no other variant to compare with".to_owned(),
            R::DeclaredNondeterministic { because } => {
                format!("declared non-deterministic: {because}")
            }
            R::RepeatsByConstruction => {
                "the simulator repeats every bit by construction, and launched once for each seed"
                    .to_owned()
            }
            R::UnknownArchitecture { arch } => {
                format!("this version does not know the published limits of {arch}")
            }
            R::LauncherElsewhere { arch } => format!(
                "a launcher's block size is read back on a GPU, and the GPU here does not run {arch}"
            ),
            R::NoCodec => "no input of this case has a codec".to_owned(),
            R::CounterWithheld { counter, why } => {
                format!("{counter} cannot be gated in this launch: {}", withheld(why.as_ref()))
            }
            R::CountersWithheld { why } => {
                format!("no counter can be gated in this launch: {}", withheld(why.as_ref()))
            }

            R::RivalSkipped { rival, backend, because } => {
                format!("{rival} skipped {backend}: {because}")
            }

            R::RivalNotRequested { rival } => format!("{rival} was not requested; `--rivals` times it"),
            R::EvidenceMissing(of) => format!("the record has no {}", piece(of)),
            R::EvidenceRepeated { piece: of, times } => {
                format!("the record has the {} {times} times", piece(of))
            }
            R::TimingIncomplete { process, gap } => {
                format!("timing process {process} {}", timing_gap(gap))
            }
            R::TooFewProcesses { have, needed } => {
                format!("timed in {have} of {}", plural(*needed, "process"))
            }
            R::TooFewSingles { metric, have, needed } => format!(
                "{metric} needs {needed} single launches in each process, and one has {have}"
            ),
            R::TooFewLaunches { have } => format!(
                "{}, too few to tell two modes from one; {} are needed",
                plural(*have, "single launch"),
                LEAST_LAUNCHES_FOR_MODES
            ),
            R::NotInProfile { metric } => format!("the profile has no {metric}"),
            R::TooFewProfiles { metric, have, needed } => format!(
                "{} of {metric}; a relative limit needs {needed}, to know how much they differ",
                plural(*have, "profile")
            ),
            R::RepeatsDisagree { metric, low, high, repeats } => format!(
                "{repeats} profiles of the same code have {metric} from {} to {}, and the limit lies between them",
                quantity(*metric, low.0),
                quantity(*metric, high.0)
            ),
            R::Throttled { throttled, processes, needed, causes } => format!(
                "{throttled} of {} ran on a throttled GPU ({}); {needed} unthrottled ones are needed",
                plural(*processes, "timing process"),
                if causes.is_empty() { "no cause given".to_owned() } else { causes.join(", ") }
            ),
            R::ClockUnknown => "the SM clock was not measured, and cycles needs it".to_owned(),
            R::ClockTooCoarse { metric, side, value, tick_ns } => format!(
                "{metric} of {} in one process is {}, too short for a clock with steps of {tick_ns} ns",
                self::side(*side),
                quantity(*metric, value.0)
            ),
            R::NoSpread => "one timing process has no spread; at least two are needed".to_owned(),
            R::Undecided { comparison, visible, needed } => format!(
                "{}: the limit lies inside the interval; {}",
                compared(comparison),
                self.what_would_decide(comparison, *visible, *needed)
            ),
            R::Undecidable { metric, problem } => format!("{metric}: {problem}"),
            R::PairingUnknown => {
                "the plan does not say how head and base are timed side by side".to_owned()
            }
            R::NoSeeds => "the case has no seeds".to_owned(),
            R::NothingCompared { seed } => format!("no element was compared with seed {seed}"),
            R::TooFewRepeats { seed, have, needed } => {
                format!("{have} of {needed} launches were compared with seed {seed}")
            }
            R::DriverEntries { count, expected } => {
                format!("the driver was asked about {count} entries instead of {expected}")
            }
            R::EntriesDiffer { declared, reported } => {
                format!("entries: {declared} declared, {reported} reported by the compiler")
            }
            R::LaunchUnknown { unit } => format!("no launch of {unit} is known"),
            R::SiblingUnknown { variant } => {
                format!("not compared with `{variant}`, whose machine code is unknown")
            }
            R::NoCommonShape { variant } => format!(
                "same machine code as `{variant}`, and without a shape in common the launches cannot be compared"
            ),
            R::NoTolerance { metric } => {
                format!("{metric} needs an absolute max_err limit, and there is none")
            }
            R::Misplaced { metric: Some(metric) } => format!("{metric} is not measured for this kind of subject"),
            R::Misplaced { metric: None } => "this gate does not apply to this kind of subject".to_owned(),
            R::BadChange { allowed: Margin::Share(share) } => format!("the limit allows a change of {share}, which is not a number from 0 up"),
            R::BadChange { allowed: Margin::Amount { amount } } => format!("the limit allows {amount} more, and such a value can only be limited by a share of it"),
            R::NoRelative { metric } => super::words::no_relative(*metric),
            R::Unparsed { text, problem } => {
                format!("`{text}`, column {}: {problem}", problem.column)
            }
            R::Unevaluated { text, problem } => format!("`{text}`: {problem}"),
            R::UnknownName { text, name } => {
                format!("`{text}`: `{name}` is neither a metric nor a constant")
            }
            R::TimeInCorrectness { text, metric } => {
                format!("`{text}`: a limit on correctness cannot depend on {metric}")
            }
            R::OperandUnknown { name, why } => format!("{name} is unknown: {}", self.whole_sentence(why)),
            R::CheckLost { shape, why } => format!(
                "{}; the baselines of `{shape}` come from a simulation, and nothing checks it now: {}, or where that is intended, remove `{shape}` from the baselines of correctness and counters",
                self.whole_sentence(why),
                check_again(why)
            ),
            R::CountersLost { lost } => format!(
                "{}; where that is intended, run `{}`",
                all(lost, |(counter, why)| format!(
                    "{counter} has a baseline, and can no longer be gated: {}",
                    withheld(why.as_ref())
                )),
                self.update_command()
            ),
            R::CountersInDoubt { against, rises } => format!(
                "{}; where that is intended, {}",
                doubted_rises(rises),
                match against {
                    Against::Base => "run with `--allow-loosened`".to_owned(),
                    Against::Baseline | Against::Anchor { .. } => {
                        format!("run `{}`", self.update_command())
                    }
                }
            ),
            R::PartlyAccepted { own, accepted, other } => format!(
                "{}; {}; {}",
                self.whole_sentence(own),
                accepted_by(accepted),
                self.whole_sentence(other)
            ),

            R::New { metric, lacking: Lacking::OlderFile } => {
                format!("new: the older file does not state its {metric}")
            }
            R::New { metric, lacking: Lacking::Kernel } => format!(
                "new: the baseline of the file does not state {metric} of it; accept it with `{}`",
                update_binaries_command(self.environment)
            ),
            R::New { metric, lacking } => format!(
                "new: {}; accept it with `{}`",
                match lacking {
                    Lacking::File => "no baseline yet".to_owned(),
                    Lacking::Case => "the baseline does not have this case yet".to_owned(),
                    Lacking::Metric | Lacking::Kernel | Lacking::OlderFile => {
                        format!("the baseline has no {metric} yet")
                    }
                },
                self.update_command()
            ),
            R::NewSinceBase { revision } => format!("new: {revision} has no such case"),
            R::NewSinceAnchor { since, found } => format!("new: {} ({found}) has no baseline for it", anchor(since)),
            R::NoBase => "no base was named; `--base REF` names one".to_owned(),
            R::OtherKey { differences, gpus } => other_key(differences, gpus, &self.update_command()),
            R::AnchorOtherKey { since, differences } => {
                format!(
"the baseline of {} was made under another key ({})",anchor(since), key_differences(differences))
            }
            R::AnchorMissing { since } => format!("this record has no baselines of {}", anchor(since)),
            R::AnchorUnreadable { since, path, problem } => {
                format!("the baseline {path} of {} cannot be read: {problem}", anchor(since))
            }
            R::TwoBaselines { dates: [one, two] } => {
                format!("two baselines have the same key, of {one} and of {two}; remove one")
            }
            R::BaseLacks { metric, why } => {
                format!("the base has no {metric} to compare with: {}", self.whole_sentence(why))
            }
            R::HazardsNotCompared { count, why } => format!(
                "whether the base has {} within a warp too is not known, as it was not simulated: {}",
                plural(*count, "hazard"),
                self.whole_sentence(why)
            ),
            R::BaseNotBuilt { why } => {
                format!("the base revision was not built: {}", self.whole_sentence(why))
            }
            R::BaseIncomparable(lack) => format!(
                "not compared with the base, and only `--allow-loosened` lets that pass: {}",
                base_lack(lack, |why| self.whole_sentence(why))
            ),
            R::BaseArchitecture { revision, case, device } => {
                format!("at {revision}, {case} is built for no architecture that runs on {device}")
            }
            R::HeadPassedOver { why } => {
                format!("the base was measured, and head was not: {}", self.whole_sentence(why))
            }
            R::TwoProtocols => {
                "one record timed it alone, the other interleaved with a base revision, and the two cannot be compared; make both with `--base`, or both without"
                    .to_owned()
            }
            R::NotHeldToBase { why } => format!(
                "the run does not hold it to what the base asks, and only `--allow-loosened` lets that pass: {}",
                self.whole_sentence(why)
            ),
            R::TimedAgainstBase => {
                "timed against a base revision; for a baseline, run without `--base`"
                    .to_owned()
            }
            R::ThrottledProcesses { count } => {
                format!("{} ran on a throttled GPU", plural(*count as usize, "timing process"))
            }
            R::NothingMeasured => "nothing was measured".to_owned(),
        }
    }

    fn update_command(&self) -> String {
        update_command(self.environment, self.subjects)
    }

    fn what_would_decide(
        &self,
        comparison: &Comparison,
        visible: Option<Num>,
        needed: Option<u32>,
    ) -> String {
        match (&comparison.against, needed) {
            (Against::Base, Some(needed)) => {
                format!("about {needed} processes of this spread would decide")
            }
            (Against::Base, None) => "no number of processes would decide".to_owned(),
            (Against::Baseline | Against::Anchor { .. }, _) => {
                let seen = match (visible, comparison.processes) {
                    (Some(visible), Some(processes)) => format!(
                        "{} can tell a change of {}; ",
                        plural(processes as usize, "process"),
                        percent(visible.0)
                    ),
                    _ => String::new(),
                };
                format!("{seen}more processes (`max_processes`) or a quieter GPU could decide")
            }
        }
    }
}

/// The head of the skips that follow from an earlier failure.
pub const NOT_PROVEN: &str = "correctness not established";

fn all<T>(of: &[T], each: impl Fn(&T) -> String) -> String {
    let all: Vec<_> = of.iter().map(each).collect();
    all.join("; ")
}

/// Returns where the first NaN arose: `; the first NaN arose at k.cu:8, block 0, thread 3`.
fn arose(arose: &Arose) -> String {
    let value = if arose.is_nan { "NaN" } else { "infinity" };
    format!(
        "; the first {value} arose at {}, {}, {}",
        arose.place.at,
        problems::block(arose.block),
        problems::thread(arose.thread)
    )
}

/// Says how an element is unlike the reference in being a number.
fn not_finite(worst: Option<&Worst>) -> &'static str {
    match worst.map(|worst| (worst.got.0.is_finite(), worst.want.0.is_finite())) {
        Some((true, false)) => "finite where the reference is not",
        Some((false, false)) => "not the infinity or NaN of the reference",
        _ => "not finite",
    }
}

fn first(what: Option<String>) -> String {
    what.map_or(String::new(), |what| format!("; the first is {what}"))
}

fn elements(count: u64) -> String {
    match count {
        1 => "1 element".to_owned(),
        count => format!("{count} elements"),
    }
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Head => "head",
        Side::Base => "base",
    }
}

fn operands(of: &[Operand]) -> String {
    let all: Vec<_> = of
        .iter()
        .map(|operand| {
            let value = match operand.metric {
                Some(metric) => quantity(metric, operand.value.0),
                None => operand.value.to_string(),
            };
            format!("{} = {value}", operand.name)
        })
        .collect();
    all.join(", ")
}

/// Returns a comparison: `registers 87 -> 101, +16.1 %, limit +0 % of the baseline`.
fn compared(comparison: &Comparison) -> String {
    let Comparison {
        metric,
        against,
        was,
        now,
        change,
        interval,
        allowed,
        sessions,
        processes,
    } = comparison;
    let what = match against {
        Against::Baseline => "the baseline".to_owned(),
        Against::Anchor { since, found } => format!("{} ({found})", anchor(since)),
        Against::Base => "the base".to_owned(),
    };
    let is_points = *metric == Metric::SlowShare && *against == Against::Base;
    let of = match (is_points, interval) {
        (true, Some([low, high])) => format!(" ({} to {}", points(low.0), points(high.0)),
        (true, None) => " (".to_owned(),
        (false, Some(bounds)) if *against == Against::Base => {
            format!(" ({}", signed_interval(bounds.map(|bound| bound.0)))
        }
        (false, Some(bounds)) => format!(
            " (95 % interval {}; {}",
            signed_interval(bounds.map(|bound| bound.0)),
            days(*sessions)
        ),
        (false, None) => String::new(),
    };
    let of = match (against, processes, of.is_empty()) {
        (Against::Base, Some(processes), false) => {
            format!("{of} in {})", plural(*processes as usize, "process"))
        }
        (_, _, false) => format!("{of})"),
        (_, _, true) => String::new(),
    };
    let values = match (was, now) {
        (Some(was), Some(now)) => format!(
            " {} -> {}",
            quantity(*metric, was.0),
            quantity(*metric, now.0)
        ),
        _ => String::new(),
    };
    let change = change.0;
    match allowed {
        Margin::Share(share) if is_points => {
            let (change, allowed) = (points(change), points(share.0));
            format!("{metric} {change}{of}, limit {allowed} over {what}")
        }
        Margin::Share(share) => {
            let (change, allowed) = (signed(change), limit(*metric, share.0));
            format!("{metric}{values}, {change}{of}, limit {allowed} of {what}")
        }
        Margin::Amount { amount } => {
            let by = was.zip(*now).map_or(f64::NAN, |(was, now)| now.0 - was.0);
            let (by, allowed) = (difference(*metric, by), limit_by(*metric, *amount));
            format!("{metric}{values}, {by}{of}, limit {allowed} over {what}")
        }
    }
}

fn points(share: f64) -> String {
    format!("{:+.1} points", 100.0 * share)
}

fn days(sessions: Option<u32>) -> String {
    match sessions {
        None => "one session, the spread between days is unknown".to_owned(),
        Some(1) => "one session, with the spread between days of earlier code".to_owned(),
        Some(sessions) => format!("{sessions} sessions"),
    }
}

/// Returns a rise of a counter: `global_load_sectors 1024 -> 2560, +150.0 % (most at k.cu:21: 2048)`.
fn rise(rise: &CounterRise) -> String {
    let metric = Metric::Counter(rise.counter);
    let lines: Vec<_> = rise
        .lines
        .iter()
        .map(|line| format!("{}: {}", line.place, line.count))
        .collect();
    let lines = if lines.is_empty() {
        String::new()
    } else {
        format!(" (most at {})", lines.join(", "))
    };
    format!(
        "{metric} {} -> {}, {}{lines}",
        quantity(metric, rise.was.0),
        quantity(metric, rise.now.0),
        signed(rise.change.0)
    )
}

fn accepted_by(accepted: &AcceptedLimit) -> String {
    format!(
        "`{}` accepted by {} until {}: {}",
        super::words::gate(&accepted.limit),
        accepted.by,
        accepted.until,
        accepted.because
    )
}

/// Returns an acceptance: `shared_race at k.cu:12 (512 times) accepted by jane@example.org until 2027-01-31: why`.
fn accepted_finding(accepted: &AcceptedFinding) -> String {
    let AcceptedFinding {
        finding,
        place,
        times,
        by,
        until,
        because,
        ..
    } = accepted;
    format!(
        "{} at {place} ({}) accepted by {by} until {until}: {because}",
        finding.kind.name(),
        plural(*times as usize, "time")
    )
}

fn finding(finding: &Finding) -> String {
    let entry = finding.entry.as_ref();
    let entry = entry.map_or(String::new(), |entry| format!("in {entry}: "));
    let message = findings::message(finding);
    match finding.times {
        0 | 1 => format!("{entry}{message}"),
        times => format!("{entry}{message} ({times} times)"),
    }
}

fn first_launch_only(seed: u64, differs: &KeptDifference, kept: &[KeptVariable]) -> String {
    let over = match differs.over {
        LaterData::Same { launch } => format!(
            "launch {launch} differs from the first launch in {} with seed {seed}",
            elements(differs.elements)
        ),
        LaterData::Other { seed: other } => format!(
            "after launches on the data of seed {seed}, one on that of seed {other} differs from a first launch on it \
             in {}",
            elements(differs.elements)
        ),
    };
    let kept: Vec<_> = kept
        .iter()
        .map(|variable| match &variable.place {
            Some(place) => format!("`{}`, written at {}", variable.name, place.at),
            None => format!("`{}`", variable.name),
        })
        .collect();
    format!(
        "right in its first launch only: {over}, first at {}; what it depends on is kept in {}",
        place(&differs.at),
        kept.join(", ")
    )
}

/// Returns withheld counters with the reason: `shared_store_requests, shared_store_wavefronts (why)`.
pub fn withheld_counters(of: &WithheldCounters) -> String {
    let counters: Vec<_> = of.counters.iter().map(|counter| counter.name()).collect();
    format!("{} ({})", counters.join(", "), withheld(Some(&of.why)))
}

fn withheld(why: Option<&Withheld>) -> String {
    let Some(Withheld { doubt, place }) = why else {
        return "no comparison with a GPU has confirmed it".to_owned();
    };
    match doubt {
        Doubt::Polls => format!(
            "the kernel polls memory at {place}, and how often depends on a schedule that a GPU does not share"
        ),
        Doubt::Uncompared => {
            format!("this form of access at {place} was never compared with a GPU's counters")
        }
        Doubt::RaggedLoop => format!(
            "lanes of a warp leave the loop at {place} at different iterations, and ptxas may unroll it"
        ),
        Doubt::Joined => format!("ptxas may merge the access at {place} with another"),
        Doubt::SplitCopy => format!(
            "the cp.async at {place} does not move whole sectors, which a GPU counts differently"
        ),
        Doubt::AlteredProducts => format!(
            "ptxas adds an empty wgmma for a group that is committed apart from its products, and may drop one that is repeated ({place})"
        ),
        Doubt::ZeroStride => format!(
            "the fragment at {place} is loaded with a stride of 0, of which ptxas may keep a part"
        ),
    }
}

/// Returns doubted rises by what causes the doubt: `load_sectors 875 -> 3500, but the old value is the simulator's
/// alone, as lanes of ...`.
fn doubted_rises(rises: &[DoubtedRise]) -> String {
    let mut groups: Vec<(Side, &Withheld, Vec<String>)> = Vec::new();
    for DoubtedRise { rise, side, why } in rises {
        let metric = rise.counter.into();
        let [was, now] = [rise.was, rise.now].map(|value| quantity(metric, value.0));
        let values = format!("{} {was} -> {now}", rise.counter);
        match groups
            .iter_mut()
            .find(|(of, known, _)| (of, *known) == (side, why))
        {
            Some((_, _, all)) => all.push(values),
            None => groups.push((*side, why, vec![values])),
        }
    }
    groups
        .iter()
        .map(|(side, why, values)| {
            let age = match side {
                Side::Head => "new",
                Side::Base => "old",
            };
            let are = if values.len() == 1 {
                "value is"
            } else {
                "values are"
            };
            format!(
                "{}, but the {age} {are} the simulator's alone, as {}",
                values.join(", "),
                withheld(Some(why))
            )
        })
        .collect::<Vec<_>>()
        .join("; ")
}

/// Returns a value that became worse: `occupancy 100 % -> 75 %`.
pub fn worse_value(value: &WorseValue) -> String {
    let quantity = |number: Num| quantity(value.metric, number.0);
    format!(
        "{} {} -> {}",
        value.metric,
        quantity(value.was),
        quantity(value.now)
    )
}

/// Returns what is too large: `each block asks for 104448 B of shared memory, and can have 101376 at most`.
fn excess(excess: Excess) -> String {
    let unit = match excess.resource {
        Limiter::Warps | Limiter::Blocks => "threads",
        Limiter::Registers => "registers",
        Limiter::SharedMemory => "B of shared memory",
        Limiter::Barriers => "barriers",
    };
    let Excess { asked, most, .. } = excess;
    format!("each block asks for {asked} {unit}, and can have {most} at most")
}

fn anchor(since: &Since) -> &str {
    match since {
        Since::Revision(revision) => revision,
        Since::Best => "the best level",
    }
}

fn whose(of: &Against) -> String {
    match of {
        Against::Baseline => "the baseline".to_owned(),
        Against::Anchor { since, .. } => anchor(since).to_owned(),
        Against::Base => "the base".to_owned(),
    }
}

/// Tells how to bring back a check that the simulator no longer makes.
fn check_again(why: &Reason) -> &'static str {
    match why {
        Reason::NotRun(NotRun::OverBudget { .. } | NotRun::EstimateUnknown) => "raise the budget",
        Reason::NotRun(NotRun::OverMemory { .. }) => "make the shape smaller",
        _ => "keep to what the simulator runs, or run on a GPU",
    }
}

fn figure_problem(problem: FigureProblem, range: Range) -> String {
    match problem {
        FigureProblem::NotFinite(value) => format!("is {value}"),
        FigureProblem::OutOfRange(value) => {
            if range.most.is_finite() {
                format!("is {value}, outside {} to {}", range.least, range.most)
            } else {
                format!("is {value}, below {}", range.least)
            }
        }
        FigureProblem::NoSpread => {
            "comes from one timing process and has no spread; two are needed".to_owned()
        }
        FigureProblem::BadSpread {
            value,
            spread,
            processes,
        } => format!(
            "is {value} with a spread of {spread} over {processes} processes, which gives no interval"
        ),
    }
}

fn other_key(differences: &[KeyDifference], gpus: &[String], command: &str) -> String {
    match differences
        .iter()
        .find(|field| field.field == KeyField::Gpu)
    {
        Some(gpu) if !gpus.is_empty() => format!(
            "the baselines are for {}, this is {}; accept what it measured with `{command}`",
            gpus.join(" and "),
            gpu.here
        ),
        _ => format!(
            "the baseline was made under another key ({}); measure here and run `{command}`",
            key_differences(differences)
        ),
    }
}

fn key_differences(differences: &[KeyDifference]) -> String {
    comma(differences, |difference| {
        let field = key_field(difference.field);
        format!(
            "{field} `{}`, here `{}`",
            difference.theirs, difference.here
        )
    })
}

fn key_field(field: KeyField) -> &'static str {
    match field {
        KeyField::Architecture => "architecture",
        KeyField::Compiler => "compiler",
        KeyField::Flags => "flags",
        KeyField::CounterModel => "counter model",
        KeyField::Gpu => "GPU",
        KeyField::DriverBranch => "driver branch",
        KeyField::ClockPolicy => "clock policy",
        KeyField::TimingProtocol => "timing protocol",
        KeyField::Mode => "mode",
        KeyField::Profiler => "profiler",
    }
}

fn piece(piece: &Piece) -> String {
    match piece {
        Piece::Build(unit) => format!("build of {unit}"),
        Piece::Check { case, seed } => format!("check of {case} with seed {seed}"),
        Piece::Simulation { case, seed } => format!("simulation of {case} with seed {seed}"),
        Piece::Driver(case) => format!("driver values of {case}"),
        Piece::BaseReference(case) => format!("comparison of {case}'s reference with the base's"),
        Piece::Timing(case) => format!("timing of {case}"),
        Piece::Profile { case, repeat } => format!("profile {repeat} of {case}"),
        Piece::Rival { rival, task } => format!("timing of {rival} for {task}"),
    }
}

fn timing_gap(gap: &TimingGap) -> String {
    match gap {
        TimingGap::Numbering => "is missing or recorded twice".to_owned(),
        TimingGap::Mode { ran, planned } => {
            format!("ran {ran} and the plan says {planned}; the two are never compared")
        }
        TimingGap::TwoModes => "ran head and base in two modes".to_owned(),
        TimingGap::NothingLaunched { side: of } => format!("launched nothing of {}", side(*of)),
        TimingGap::Batched { have, planned } => {
            format!("has {have} of {planned} batched samples")
        }
        TimingGap::Singles { have, planned } => {
            format!("has {have} of {planned} single launches")
        }
        TimingGap::Blocks {
            side: of,
            samples,
            blocks,
            least,
        } => format!(
            "has {samples} samples of {} in {blocks} blocks, and {least} blocks are needed",
            side(*of)
        ),
        TimingGap::NoSingles { side: of } => format!("has no single launches of {}", side(*of)),
    }
}

/// Returns the kind of a fault in words, and then its message.
pub fn fault(fault: &Fault) -> String {
    format!("{}: {}", fault_kind(fault.kind), fault.message)
}

fn fault_kind(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Compile => "does not compile",
        FaultKind::EntryNotFound => "entry not found",
        FaultKind::Arguments => "arguments do not fit",
        FaultKind::LaunchRefused => "launch refused",
        FaultKind::DeviceFault => "kernel faulted",
        FaultKind::Hang => "hung past its deadline",
        FaultKind::WorkerDied => "worker died",
        FaultKind::Disassembler => "nvdisasm broke",
        FaultKind::Reference => "no reference",
        FaultKind::Program => "the program failed",
        FaultKind::Base => "the base revision broke",
        FaultKind::Rival => "the rival broke",
        FaultKind::ProfilerMissing => "no profiler",
        FaultKind::CountersLocked => "the GPU's counters are locked",
        FaultKind::ProfilerLocked => "the profiler is locked",
        FaultKind::ProfilerBroke => "the profiler broke",
        FaultKind::Environment => "environment failed",
    }
}

/// Returns the reason for which something was not run, in words.
pub fn not_run(why: &NotRun) -> String {
    match why {
        NotRun::NoDevice { problem } => problem.clone(),
        NotRun::SimulatorAsked => "--device sim: times are measured on a GPU".to_owned(),
        NotRun::EarlierStage => "an earlier stage did not pass".to_owned(),
        NotRun::OverBudget { estimate, budget } => format!(
            "{}: about {}",
            over_budget(*budget),
            instructions(*estimate)
        ),
        NotRun::OverMemory { bytes, limit } => format!(
            "over the simulator's memory: {} MiB of tensors, limit {} MiB",
            bytes >> 20,
            limit >> 20
        ),
        NotRun::EstimateUnknown => {
            "only the first seed was run: the cost of a launch could not be estimated".to_owned()
        }
        NotRun::NoReferenceVariant { variant } => {
            format!("its reference, variant `{variant}`, is not part of this run")
        }
        NotRun::NoArtifact => "nothing was built for this device".to_owned(),
        NotRun::DriverNotAsked => "the worker ended before it asked the driver".to_owned(),
        NotRun::DeviceNotAsked => "this run used no device".to_owned(),
        NotRun::CodeNotKept => "the build cache no longer has it".to_owned(),
        NotRun::NoDisassembler => "nvdisasm, which disassembles machine code, was not found (`gatekeeper toolchain install` installs it)".to_owned(),
        NotRun::Compiled => "the file was compiled already, and its kernels are not run".to_owned(),
        NotRun::OtherProgram { program } => {
            format!("{program} does not say what built the kernels")
        }
        NotRun::PassedOver { said } => match said {
            Some(said) => said.clone(),
            None => "skipped, with no reason given".to_owned(),
        },
    }
}

/// Returns the heading of the skips over this budget.
pub fn over_budget(budget: u64) -> String {
    format!(
        "over the simulator's budget of {} a case (--sim-budget raises it)",
        instructions(budget)
    )
}

/// Returns the reason for which a program that exists cannot be used for this, in words.
pub fn unsupported(why: &Unsupported) -> String {
    match why {
        Unsupported::Launcher => {
            "a launcher is host code that calls the CUDA runtime; the simulator runs device code only"
                .to_owned()
        }
        Unsupported::Cubin => "the source is a cubin; the simulator runs PTX only".to_owned(),
        Unsupported::NotInCubin => "the source is a cubin, which does not contain it".to_owned(),
        Unsupported::NewerPtx => {
            "the PTX is of a newer version than this PTXAS takes, so there is no machine code".to_owned()
        }
        Unsupported::LauncherCode => "the machine code of a launcher's kernels is inside its library and is not read".to_owned(),
        Unsupported::Ptx { problem } => problem.clone(),
        Unsupported::OutOfMemory { problem } => format!("out of memory: {problem}"),
        Unsupported::Clock => {
            "this device has no clock: times are measured on a GPU".to_owned()
        }
        Unsupported::Driver => "the simulator has no driver to ask".to_owned(),
        Unsupported::DriverLacks { problem } => problem.clone(),
        Unsupported::Capture { problem } => {
            format!("the launcher cannot be captured into a CUDA graph: {problem}")
        }
        Unsupported::HostTooSlow { problem } => problem.clone(),
        Unsupported::Simulation => "a GPU does not simulate".to_owned(),
        Unsupported::ReferenceVariant { variant, why } => {
            format!("its reference, variant `{variant}`: {}", unsupported(why))
        }
        Unsupported::SamplesNotKept { program } => {
            format!("{program} kept no samples of it; with `--jsonbin` it does")
        }
        Unsupported::NotCounted => "this GPU has no counter for it".to_owned(),
        Unsupported::SeveralKernels { kernels } => format!(
            "the case launches {}, whose shares cannot be added up; counts can",
            plural(*kernels as usize, "kernel")
        ),
        Unsupported::NotCaptured { problem } => format!("no launch of it can be run here: {problem}"),
        Unsupported::ProfiledConfined => {
            "a launcher runs confined, and a profiler cannot work there".to_owned()
        }
    }
}

/// Returns in words how a gate of head is looser than at the base.
pub fn loosened(how: &Loosened) -> String {
    match how {
        Loosened::SubjectRemoved(subject) => format!("removed: head has no {subject}"),
        Loosened::GateRemoved => "removed: head has no such gate".to_owned(),
        Loosened::Looser(rule) => format!("head has {}", super::words::gate(rule)),
        Loosened::Incomparable(rule) => format!(
            "changed, and cannot be compared: head has `{}`",
            super::words::gate(rule)
        ),
        Loosened::Seeds(seeds) => format!("head has seeds {}", numbers(seeds)),
        Loosened::Nondeterministic { because } => {
            format!("head declares it non-deterministic: {because}")
        }
        Loosened::Launches(launches) => {
            format!("head makes {}", plural(*launches as usize, "launch"))
        }
        Loosened::Reference(found) => reference(found),
        Loosened::ReferenceDigest => "on the same inputs it computes something else".to_owned(),
        Loosened::ReferenceIncomparable(None) | Loosened::InputValues | Loosened::OutputType => {
            "changed, and cannot be compared".to_owned()
        }
        Loosened::ReferenceIncomparable(Some(why)) => {
            format!("base's reference cannot be computed on head's inputs: {why}")
        }
        Loosened::Rival(rival) => format!("the rival `{rival}` has another command"),
        Loosened::OutputRemoved => "head has no such output".to_owned(),
        Loosened::Dims(dims) => {
            format!(
                "under the same name head has {}",
                dims.iter()
                    .map(|(name, size)| match size {
                        Some(size) => format!("{name} = {size}"),
                        None => format!("no {name}"),
                    })
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        Loosened::TensorRole(role) => format!("head has `{}`", role_name(*role)),
        Loosened::TensorDims(dims) => format!("head has {dims:?}"),
        Loosened::TensorOffset(offset) => format!("head has `offset: {offset}`"),
        Loosened::ComparedElements(compare) => {
            format!("head compares it only {}", compared_part(compare))
        }
        Loosened::PreparedScratch => {
            "head has it filled before every launch, which no time includes".to_owned()
        }
        Loosened::InputInstead(input) => {
            format!(
                "head gives the kernel the new input `{input}` instead, which its caller has to compute"
            )
        }
        Loosened::UnreadInput(input) => format!(
            "head gives the kernel the new input `{input}`, which the reference does not read: its caller has to compute it"
        ),
        Loosened::Copies { from, to } => {
            format!("head copies `{from}` to `{to}` beside its launches, which no counter includes")
        }
        Loosened::SimulatorBudget { base, head } => {
            let (head, base) = (millions(*head), millions(*base));
            format!("head simulates cases of up to {head} warp instructions, base of up to {base}")
        }
        Loosened::WarpHazards => {
            "head has `warp_hazards: note`, and base `warp_hazards: fail`".to_owned()
        }
        Loosened::TimingSchedule(changes) => {
            format!("head has {}", comma(changes, schedule_change))
        }
        Loosened::ChecksLost(why) => {
            format!("the base was checked here, and head is not: {}", lost(why))
        }
        Loosened::CountersLost(counters) => {
            format!("head can no longer be held to {}", lost_counters(counters))
        }
        Loosened::CountersInDoubt(rises) => doubted_rises(rises),
        Loosened::FallsBack(to) => {
            format!("head falls back on `{to}` where it fails, with --allow-fallback")
        }
        Loosened::ExpectedToFail(gates) => {
            format!("head expects it to fail {}", any_of(gates))
        }
        Loosened::FileRemoved => "removed: head has no such file of gates".to_owned(),
        Loosened::BaselineRemoved => "head removes the baseline".to_owned(),
        Loosened::BaselineLeft(renames) => {
            let moves = renames
                .iter()
                .map(super::words::move_baselines)
                .collect::<Vec<_>>()
                .join(" && ");
            format!("head's baseline is still under the old name: `{moves}`")
        }
        Loosened::BaselineEdited(figures) => {
            format!("head's baseline is worse: {}", all(figures, edited))
        }
        Loosened::BaselineAbove(figures) => format!(
            "head's baseline agrees on worse than the base measures: {}",
            all(figures, edited)
        ),
        Loosened::BaselineMoved {
            differences,
            values,
        } => {
            let under = comma(differences, |difference| {
                let field = key_field(difference.field);
                format!(
                    "{field} `{}` (base: `{}`)",
                    difference.here, difference.theirs
                )
            });
            let values = all(values, edited);
            format!("head's baseline, under the {under}, is worse: {values}")
        }
        Loosened::BaseIncomparable(lack) => {
            format!("not compared with the base: {}", base_lack(lack, lost))
        }
        Loosened::Accepts { allows, by, until } => format!(
            "head accepts {}, by {by} until {until}",
            super::words::allowance(allows)
        ),
    }
}

fn reference(found: &ReferenceComparison) -> String {
    let mut said = format!(
        "on the same inputs it computes something else: {} of {} differ",
        found.differing,
        plural(
            usize::try_from(found.elements).unwrap_or(usize::MAX),
            "element"
        )
    );
    if let Some((seed, worst)) = &found.largest {
        said.push_str(&format!(
            ", most {}{:?} = {} (base: {}) with seed {seed}",
            worst.at.tensor, worst.at.index, worst.got, worst.want
        ));
    }
    said
}

/// Returns why a base has nothing to compare with.
fn base_lack(lack: &BaseLack, sentence: impl Fn(&Reason) -> String) -> String {
    match lack {
        BaseLack::NotBuilt(why) => format!("its kernel was not built: {}", sentence(why)),
        BaseLack::ReferenceBroken(said) => {
            format!("its reference gives no answer in its own tree either: {said}")
        }
        BaseLack::ReferenceLate(said) => {
            format!("its reference did not answer before its deadline: {said}")
        }
        BaseLack::NoDigests => "its record does not say what its reference computed".to_owned(),
        BaseLack::Unanswered(why) => format!("it gave no answer: {}", sentence(why)),
        BaseLack::OtherDevice => {
            "its record is of another kind of device, and has an answer where head has none"
                .to_owned()
        }
        BaseLack::OtherInputs => "its launch is on other memory".to_owned(),
        BaseLack::OtherKernels(kernels) => other_kernels(kernels),
        BaseLack::KernelReplaced(ReplacedKernel {
            metric,
            now,
            gone,
            was,
            ..
        }) => {
            let [now, was] = [now, was].map(|value| quantity(*metric, value.0));
            format!(
                "it has no kernel of this name or code. {metric} is {now} here, and {was} for {gone}, which is gone: this may be that kernel under another name"
            )
        }
        BaseLack::GatesUnread(UnreadGates { file, problem }) => {
            format!(
                "{file} is gone, and nobody knows what it asked: at the base it cannot be loaded ({problem})"
            )
        }
        BaseLack::GatesElsewhere(NoGates { file, elsewhere }) => {
            let elsewhere = super::words::listed(elsewhere);
            format!(
                "it has no {file}, but gates for the same code in {elsewhere}: name that file with `--config`, or move its gates to {file} in one change, which are then held against what they were"
            )
        }
    }
}

fn other_kernels(kernels: &OtherKernels) -> String {
    let OtherKernels { new, gone, times } = kernels;
    let named = [
        ("only head launches", new),
        ("only the base launches", gone),
    ];
    let named = named
        .into_iter()
        .filter(|(_, kernels)| !kernels.is_empty())
        .map(|(who, kernels)| format!("{who} {}", kernels.join(", ")))
        .collect::<Vec<_>>()
        .join(", and ");
    let not_compared = "the times of all kernels together are not compared";
    let times = match times {
        GroupTimes::Together => format!(
            "{named}. Their times are compared together, and the outputs of {} with nothing",
            gone.join(", ")
        ),
        GroupTimes::Alone => format!("{named}, and {not_compared}"),
        GroupTimes::Uncounted { kernels } => format!(
            "{named}, and {not_compared}: the program ended before it said how often it launches {}. Have it end by \
             itself, and not by a signal or `_exit`",
            kernels.join(", ")
        ),
        GroupTimes::Uneven { kernels } => format!(
            "{named}, and {not_compared}: not the same share of each kernel's launches was captured: {}. Set \
             `launches: {}` of the program, or mark a region that launches each kernel equally often",
            kernels
                .iter()
                .map(|kernel| format!(
                    "{} {} of {}",
                    kernel.kernel, kernel.captured, kernel.launched
                ))
                .collect::<Vec<_>>()
                .join(", "),
            kernels
                .iter()
                .map(|kernel| kernel.launched)
                .max()
                .unwrap_or(1)
        ),
        GroupTimes::Partial { kernels } => format!(
            "{named}, and {not_compared}: some launches could not be captured: {}",
            kernels.join(", ")
        ),
        GroupTimes::SeveralProcesses => format!(
            "{named}, and {not_compared}: several processes launched them. Have one process do it, or mark a region in one"
        ),
    };
    if new.iter().chain(gone).any(|kernel| is_of_xla(kernel)) {
        format!("{times}. {TUNED_BY_XLA}")
    } else {
        times
    }
}

/// JAX's compiler times kernels while it compiles, and each process may choose other ones.
const TUNED_BY_XLA: &str = "XLA, which JAX compiles with, tries kernels and may choose others in each process, also where \
     nothing was changed: turn that off with `command: [env, XLA_FLAGS=--xla_gpu_autotune_level=0, python, ...]`, or capture \
     only what follows the first call of each function, which the program marks `with gatekeeper.region(\"decode\"):`, and \
     gates.yaml names as `regions: [decode]`";

/// Returns true if a kernel is called as XLA calls what it makes: `loop_add_fusion_3`, `gemm_fusion_dot_12`, `wrapped_add`.
pub fn is_of_xla(kernel: &str) -> bool {
    kernel.contains("_fusion") || kernel.starts_with("wrapped_")
}

/// Returns why a check gives no answer.
fn lost(why: &Reason) -> String {
    match why {
        Reason::NotRun(why) => not_run(why),
        Reason::Unsupported(why) => unsupported(why),
        Reason::NoArchitecture {
            kernel,
            variant,
            device,
            arch,
        } => no_architecture((kernel, variant), device, *arch),
        // docs/verdicts.md explains other reasons, without values.
        other => other.code().to_owned(),
    }
}

fn no_architecture((kernel, variant): (&str, &str), device: &str, arch: Arch) -> String {
    format!("{kernel}/{variant} is built for no architecture that runs on {device} ({arch})")
}

fn no_machine_code(arch: Arch, missing: Option<&MissingCode>) -> String {
    let mut text = format!("the file has no machine code for {arch}");
    let Some(MissingCode { had, has }) = missing else {
        return text;
    };
    if let Some(kernels) = had {
        let kernels = plural(*kernels as usize, "kernel");
        text += &format!(", and the older file has {kernels} for it");
    }
    let ptx = has
        .ptx
        .iter()
        .map(|arch| format!("PTX for {arch}").replace("sm_", "compute_"));
    let own: Vec<String> = has
        .machine_code
        .iter()
        .map(Arch::to_string)
        .chain(ptx)
        .collect();
    if !own.is_empty() {
        text += &format!("; it has {}", listed(&own));
    }
    if had.is_some() {
        text += &format!(
            ". Build it for {arch}. If it is meant to be gone, pass `--allow-loosened` with `--base`, or accept a baseline without it: \
             `gatekeeper binary --update --allow-worse`"
        );
    }
    text
}

/// Returns lost counters, grouped by reason.
fn lost_counters(lost: &[(Counter, Option<Withheld>)]) -> String {
    let mut reasons: Vec<(&Option<Withheld>, Vec<&str>)> = Vec::new();
    for (counter, why) in lost {
        match reasons.iter_mut().find(|(other, _)| *other == why) {
            Some((_, counters)) => counters.push(counter.name()),
            None => reasons.push((why, vec![counter.name()])),
        }
    }
    all(&reasons, |(why, counters)| {
        format!("{} ({})", counters.join(", "), withheld(why.as_ref()))
    })
}

fn schedule_change(change: &ScheduleChange) -> String {
    match change {
        ScheduleChange::Mode { base, head } => format!("mode {head} (base: {base})"),
        ScheduleChange::Processes { base, head } => format!("{head} processes (base: {base})"),
        ScheduleChange::Iterations { base, head } => format!("{head} iterations (base: {base})"),
        ScheduleChange::Singles { base, head } => format!("{head} single launches (base: {base})"),
    }
}

fn edited(figure: &EditedFigure) -> String {
    let metric = figure.metric;
    match figure.edit {
        FigureEdit::Removed => format!("{metric} removed"),
        FigureEdit::Worse { was, now } => format!(
            "{metric} {} -> {}",
            quantity(metric, was.0),
            quantity(metric, now.0)
        ),
        FigureEdit::Wider => format!("{metric} has the same value with a wider spread"),
    }
}
