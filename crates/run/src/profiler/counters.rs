//! The one table of counters: which of Nsight Compute's counters each metric is made of.
//!
//! Names are those of `ncu --query-metrics --chip ...` of Nsight Compute 2025.3.1, which was asked for tu102 (sm_75),
//! ga100 (sm_80), ga102 (sm_86), ad102 (sm_89), gh100 (sm_90), gb100 (sm_100) and gb202 (sm_120). A test compares the
//! table with these lists. Most names are the same on all chips. If names differ, the table has all of them: the
//! profiler silently ignores a name that a chip does not have. A metric that has none of its counters on a chip is
//! unsupported.

use model::{ProfileMetric, Stall};

/// The source of a metric's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterSource {
    /// A counter that is in per cent.
    Percent(&'static str),
    /// A counter that is used as it is.
    Value(&'static str),
    /// Counters times weights. The chip must have all of these counters.
    Sum(&'static [(&'static str, f64)]),
    /// Counters that not every chip has.
    Some(&'static [&'static str]),
    /// The instructions of the machine code: their passes through shared memory beyond the fewest.
    Excess(CountedAccess),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedAccess {
    Any,
    Load,
    Store,
}

pub const DURATION: &str = "gpu__time_duration.sum";
pub const CLOCK: &str = "gpc__cycles_elapsed.avg.per_second";

pub fn source(of: ProfileMetric) -> CounterSource {
    use CounterSource::{Excess, Percent, Some, Sum, Value};
    use ProfileMetric as M;
    match of {
        M::TensorActive => {
            Percent("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active")
        }
        M::Fp32Active => Percent("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active"),
        M::Fp64Active => Percent("sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active"),
        M::IntegerActive => Percent("sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active"),
        // The pipe of transcendental functions has no counter of cycles; its instructions have a peak, too.
        M::SpecialActive => Percent("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"),
        M::DramThroughput => Percent("dram__throughput.avg.pct_of_peak_sustained_elapsed"),
        M::L2Throughput => Percent("lts__throughput.avg.pct_of_peak_sustained_elapsed"),
        M::L1Throughput => Percent("l1tex__throughput.avg.pct_of_peak_sustained_active"),
        M::SharedThroughput => {
            Percent("l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed")
        }
        M::L1HitRate => Percent("l1tex__t_sector_hit_rate.pct"),
        M::L2HitRate => Percent("lts__t_sector_hit_rate.pct"),
        // l1tex__data_bank_conflicts_* count arbitration as well: 280 to 368 of a kernel that has none, and another
        // number each time. The instructions' own requests are exact.
        M::BankConflicts => Excess(CountedAccess::Any),
        M::BankConflictsLoad => Excess(CountedAccess::Load),
        M::BankConflictsStore => Excess(CountedAccess::Store),
        M::SectorsPerLoad => {
            Value("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio")
        }
        M::SectorsPerStore => {
            Value("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio")
        }
        M::AchievedOccupancy => Percent("sm__warps_active.avg.pct_of_peak_sustained_active"),
        M::IssueActive => Percent("smsp__issue_active.avg.pct_of_peak_sustained_active"),
        M::EligibleWarps => Value("smsp__warps_eligible.avg.per_cycle_active"),
        M::SmActive => Percent("sm__cycles_active.avg.pct_of_peak_sustained_elapsed"),
        M::LocalSectors => Sum(&[
            ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", 1.0),
            ("l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum", 1.0),
        ]),
        M::DramBytes => Value("dram__bytes.sum"),
        M::L2Bytes => Value("lts__t_bytes.sum"),
        M::ExecutedInstructions => Value("smsp__inst_executed.sum"),
        M::Fp32Operations => Sum(&[
            ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", 1.0),
            ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", 1.0),
            ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2.0),
        ]),
        // An instruction for half precision works on a pair.
        M::Fp16Operations => Sum(&[
            ("smsp__sass_thread_inst_executed_op_hadd_pred_on.sum", 2.0),
            ("smsp__sass_thread_inst_executed_op_hmul_pred_on.sum", 2.0),
            ("smsp__sass_thread_inst_executed_op_hfma_pred_on.sum", 4.0),
        ]),
        M::Fp64Operations => Sum(&[
            ("smsp__sass_thread_inst_executed_op_dadd_pred_on.sum", 1.0),
            ("smsp__sass_thread_inst_executed_op_dmul_pred_on.sum", 1.0),
            ("smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", 2.0),
        ]),
        // Instructions are counted by the types of their operands, each in one of these counters. Multiplication and
        // addition count as two.
        M::TensorOperations => Some(&[
            "sm__ops_path_tensor_src_fp16.sum",
            "sm__ops_path_tensor_src_fp16_dst_fp16.sum",
            "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
            "sm__ops_path_tensor_src_fp16_bf16_tf32_dst_fp32.sum",
            "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
            "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
            "sm__ops_path_tensor_src_fp64.sum",
            "sm__ops_path_tensor_src_fp8.sum",
            "sm__ops_path_tensor_src_fp8_dst_fp16.sum",
            "sm__ops_path_tensor_src_fp8_dst_fp32.sum",
            "sm__ops_path_tensor_src_fp4_dst_fp32.sum",
            "sm__ops_path_tensor_src_fp4_fp6_dst_fp16.sum",
            "sm__ops_path_tensor_src_fp4_fp6_dst_fp32.sum",
            "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp16.sum",
            "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum",
            "sm__ops_path_tensor_src_int8.sum",
            "sm__ops_path_tensor_src_int4.sum",
            "sm__ops_path_tensor_src_int1.sum",
        ]),
        M::Waves => Value("launch__waves_per_multiprocessor"),
    }
}

/// Returns the cycles that a warp spends in this state for each instruction that it issues. One state has only samples.
pub fn stall_metric(stall: Stall) -> Option<String> {
    let name = format!("smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio");
    (stall != Stall::WarpgroupArrive).then_some(name)
}

/// Returns the column with the samples of a line or instruction, in the profiler's page of sources.
pub fn samples_of(stall: Stall) -> &'static str {
    match stall {
        Stall::LongScoreboard => "stall_long_sb",
        Stall::ShortScoreboard => "stall_short_sb",
        Stall::Barrier => "stall_barrier",
        Stall::Membar => "stall_membar",
        Stall::MioThrottle => "stall_mio",
        Stall::LgThrottle => "stall_lg",
        Stall::TexThrottle => "stall_tex",
        Stall::MathPipeThrottle => "stall_math",
        Stall::Wait => "stall_wait",
        Stall::NotSelected => "stall_not_selected",
        Stall::Selected => "stall_selected",
        Stall::NoInstruction => "stall_no_inst",
        Stall::BranchResolving => "stall_branch_resolving",
        Stall::DispatchStall => "stall_dispatch",
        Stall::Drain => "stall_drain",
        Stall::ImcMiss => "stall_imc",
        Stall::Gmma => "stall_gmma",
        Stall::WarpgroupArrive => "stall_warpgroup_arrive",
        Stall::Sleeping => "stall_sleep",
        Stall::Misc => "stall_misc",
    }
}

/// Returns all counters that the profiler is asked for.
pub fn all() -> Vec<String> {
    let mut all = vec![DURATION.to_owned(), CLOCK.to_owned()];
    for metric in ProfileMetric::ALL {
        match source(metric) {
            CounterSource::Percent(name) | CounterSource::Value(name) => all.push(name.to_owned()),
            CounterSource::Sum(names) => {
                all.extend(names.iter().map(|(name, _)| (*name).to_owned()))
            }
            CounterSource::Some(names) => all.extend(names.iter().map(|name| (*name).to_owned())),
            // The section SourceCounters has them.
            CounterSource::Excess(_) => {}
        }
    }
    all.extend(Stall::ALL.into_iter().filter_map(stall_metric));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// The names among these that `ncu --query-metrics --chip` of Nsight Compute 2025.3.1 lists: `chip: name ...`.
    const CHIPS: &str = include_str!("captured/chips.txt");

    fn chips() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        CHIPS
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(chip, names)| (chip, names.split(' ').collect()))
            .collect()
    }

    /// Returns `dram__bytes` for `dram__bytes.sum`, which is the listed name.
    fn base(name: &str) -> &str {
        name.split('.').next().unwrap()
    }

    #[test]
    fn every_chip_has_the_counters_of_the_table() {
        let chips = chips();
        assert_eq!(chips.len(), 7);
        for (chip, names) in &chips {
            for metric in ProfileMetric::ALL {
                let has = |name: &str| names.contains(base(name)) || name.starts_with("launch__");
                let is_there = match source(metric) {
                    CounterSource::Percent(name) | CounterSource::Value(name) => has(name),
                    CounterSource::Sum(parts) => parts.iter().all(|(name, _)| has(name)),
                    CounterSource::Some(parts) => parts.iter().any(|name| has(name)),
                    CounterSource::Excess(_) => true,
                };
                assert!(is_there, "{chip} has no {metric}");
            }
        }
    }

    #[test]
    fn no_name_is_of_no_chip() {
        let chips = chips();
        for name in all() {
            let is_known = chips.values().any(|names| names.contains(base(&name)))
                // A value that the host knows about a launch is not a counter of a chip.
                || name.starts_with("launch__");
            assert!(is_known, "{name}");
        }
    }
}
