//! Lays out profiles for people, and as JSON. Decides nothing.

use crate::document;
use judge::{View, profile_figure};
use model::{
    CaseId, DeviceFacts, KernelProfile, LineProfile, Metric, ProfileFacts, ProfileMetric, Seen,
    Stall, Subject,
};
use serde::Serialize;
use std::fmt::Write;
use system::error::Result;
use wording::reasons;
use wording::words::{plural, quantity};

const SCHEMA: &str = "gatekeeper.profile/1";

/// The number of stalls, lines and operations that are shown for a kernel, the largest first.
const SHOWN: usize = 5;

/// The profiles of one case, one for each repeat.
#[derive(Serialize)]
pub struct CaseProfile<'a> {
    pub case: &'a CaseId,
    pub profiles: Vec<&'a ProfileFacts>,
    /// The reason why there is no profile, or one less than was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Collects every case of the plan, in its order.
pub fn collect_cases<'a>(view: View<'_, 'a>) -> Vec<CaseProfile<'a>> {
    view.plan()
        .cases
        .iter()
        .map(|case| collect_case(view, &case.id))
        .collect()
}

fn collect_case<'a>(view: View<'_, 'a>, case: &'a CaseId) -> CaseProfile<'a> {
    let subject = Subject::Case(case.clone());
    let problem = view.timeable(case).err();
    let mut shown = CaseProfile {
        case,
        profiles: Vec::new(),
        problem: problem.map(|why| reasons::reason(view.environment(), &subject, &why.reason)),
    };
    for (_, seen) in view.seen_profiles(case) {
        match seen {
            Seen::Got(facts) => shown.profiles.push(facts),
            Seen::Fault(fault) => shown.problem = Some(reasons::fault(fault)),
            Seen::Unsupported(why) => shown.problem = Some(reasons::unsupported(why)),
            Seen::NotRun(why) => shown.problem = Some(reasons::not_run(why)),
        }
    }
    shown
}

pub fn json(device: &DeviceFacts, cases: &[CaseProfile]) -> Result<String> {
    #[derive(Serialize)]
    struct ProfileDocument<'a> {
        schema: &'static str,
        device: &'a DeviceFacts,
        cases: &'a [CaseProfile<'a>],
    }
    let page = ProfileDocument {
        schema: SCHEMA,
        device,
        cases,
    };
    document::json("the profiles", &page)
}

pub fn text(device: &DeviceFacts, cases: &[CaseProfile]) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(first) = cases.iter().find_map(|case| case.profiles.first()) {
        let _ = writeln!(
            text,
            "{}, driver {}, {}; clocks {}, left alone; one launch of each case, after {}",
            device.name,
            device.driver,
            first.profiler,
            first.clock_policy,
            plural(first.warmups as usize, "launch"),
        );
    }
    for case in cases {
        let _ = write!(text, "\n{}", case.case);
        if case.profiles.len() > 1 {
            let _ = write!(text, ", {}", plural(case.profiles.len(), "profile"));
        }
        text.push('\n');
        if let Some(problem) = &case.problem {
            let _ = writeln!(text, "  {problem}");
        }
        let Some(first) = case.profiles.first() else {
            continue;
        };
        let several = first.kernels.len() > 1;
        for metric in ProfileMetric::ALL {
            if let Some(value) = spread(&case.profiles, metric) {
                let _ = writeln!(text, "  {:<24}{value}", metric.name());
            } else if !several {
                let _ = writeln!(text, "  {:<24}not counted on this GPU", metric.name());
            }
        }
        for kernel in &first.kernels {
            describe(kernel, &mut text);
        }
    }
    text
}

/// Returns a metric: `98.66 %`, or its range if the repeats differ. Returns `None` if no repeat has it.
fn spread(profiles: &[&ProfileFacts], metric: ProfileMetric) -> Option<String> {
    let mut values = profiles
        .iter()
        .map(|profile| profile_figure(profile, metric).ok())
        .collect::<Option<Vec<f64>>>()?;
    values.sort_by(f64::total_cmp);
    let in_unit = |value: f64| quantity(Metric::Profile(metric), value);
    let (low, high) = (in_unit(*values.first()?), in_unit(*values.last()?));
    Some(if low == high {
        low
    } else {
        format!("{low} to {high}")
    })
}

fn describe(kernel: &KernelProfile, text: &mut String) {
    let size = |[x, y, z]: [u32; 3]| match (y, z) {
        (1, 1) => x.to_string(),
        (_, 1) => format!("{x} x {y}"),
        _ => format!("{x} x {y} x {z}"),
    };
    let clock = kernel
        .sm_mhz
        .map_or(String::new(), |mhz| format!(" at {:.0} MHz", mhz.0));
    let _ = writeln!(
        text,
        "  {}: {} blocks of {} threads, {}{clock} under the profiler",
        kernel.entry,
        size(kernel.grid),
        size(kernel.block),
        quantity(Metric::P50, kernel.duration_ns.0),
    );
    let mut stalls: Vec<_> = kernel
        .stalls
        .iter()
        .filter(|(_, cycles)| cycles.0 > 0.0)
        .collect();
    stalls.sort_by(|(_, a), (_, b)| b.0.total_cmp(&a.0));
    let stalls: Vec<_> = stalls
        .iter()
        .take(SHOWN)
        .map(|(stall, cycles)| format!("{stall} {cycles:.2}"))
        .collect();
    if !stalls.is_empty() {
        let _ = writeln!(
            text,
            "    cycles of a warp for each instruction: {}",
            stalls.join(", ")
        );
    }
    let mut operations: Vec<_> = kernel.instructions.iter().collect();
    operations.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let all: u64 = kernel.instructions.values().sum();
    let operations: Vec<_> = operations
        .iter()
        .take(SHOWN)
        .map(|(name, count)| format!("{name} {:.1} %", **count as f64 / all as f64 * 100.0))
        .collect();
    if !operations.is_empty() {
        let _ = writeln!(text, "    instructions: {}", operations.join(", "));
    }
    let mut lines: Vec<_> = kernel
        .lines
        .iter()
        .map(|line| (waiting(line), line))
        .collect();
    lines.sort_by_key(|(samples, _)| std::cmp::Reverse(*samples));
    let all: u64 = lines.iter().map(|(samples, _)| samples).sum();
    for (samples, line) in lines.iter().take(SHOWN).filter(|(samples, _)| *samples > 0) {
        let most = line
            .samples
            .iter()
            .filter(|(stall, _)| **stall != Stall::Selected)
            .max_by_key(|(_, samples)| **samples);
        let most = most.map_or(String::new(), |(stall, _)| format!(", most in {stall}"));
        let _ = writeln!(
            text,
            "    {}: {:.1} % of the samples{most}",
            line.place,
            *samples as f64 / all as f64 * 100.0,
        );
    }
}

/// Returns the number of samples of warps at this line, including warps that issued.
fn waiting(line: &LineProfile) -> u64 {
    line.samples.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::{Index, fixture};
    use model::{Evidence, Record};

    fn shown(record: &Record) -> String {
        let device = record.environment.device.got().unwrap();
        text(device, &collect_cases(Index::new(record).head()))
    }

    #[test]
    fn a_profile_names_launches_and_settings() {
        let mut record = fixture::record_profiled();
        let id = record.plan.cases[0].id.clone();
        fixture::reprofile(&mut record, &id, |repeat, facts| {
            let share = Seen::Got(model::Num(0.5 + 0.01 * f64::from(repeat)));
            facts.kernels[0]
                .metrics
                .insert(ProfileMetric::TensorActive, share);
        });
        let text = shown(&record);
        for line in [
            "Nsight Compute 2025.3.1.0; clocks default, left alone; one launch of each case, after 5 launches",
            &format!("\n{id}, 3 profiles\n"),
            "  tensor_active           50 % to 52 %\n",
            "  fp64_active             not counted on this GPU\n",
            "  dram_bytes              4 KiB\n",
            "  k: 132 blocks of 256 threads, 100 us at 1980 MHz under the profiler\n",
            "    cycles of a warp for each instruction: long_scoreboard 4.50, selected 1.00\n",
            "    instructions: FFMA 100.0 %\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_case_that_is_wrong_or_broken_says_why() {
        let mut record = fixture::record_profiled();
        let id = record.plan.cases[0].id.clone();
        fixture::recheck(&mut record, &id, |_, facts| facts.error.non_finite = 1);
        record
            .evidence
            .retain(|piece| !matches!(piece, Evidence::Profile { case, .. } if *case == id));
        let index = Index::new(&record);
        let cases = collect_cases(index.head());
        assert!(cases[0].profiles.is_empty());
        assert!(cases[0].problem.is_some());
        assert!(cases[1].problem.is_none());
    }
}
