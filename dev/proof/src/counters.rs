//! `counters`: ptxsim's counts against ncu's readings of the same launches of the same PTX. A counter that
//! may gate a launch has to equal the hardware's, without exception.

use crate::cases::{self, Case};
use crate::gpu::{Gpu, Result};
use crate::table::{self, Instructions, Row};
use ptxsim::{Counter, Doubt, Module, Report, Tier};
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

fn all_cases(directory: &Path) -> Result<Vec<Case>> {
    let mut cases = cases::micro(directory)?;
    cases.extend(cases::repository());
    Ok(cases)
}

/// Launches each case once, in order: what ncu watches.
pub fn launch(gpu: &Gpu, directory: &Path) -> Result<()> {
    let mut modules = HashMap::new();
    for case in all_cases(directory)? {
        if !modules.contains_key(&case.unit) {
            modules.insert(case.unit.clone(), gpu.load(&case.ptx(directory)?)?);
        }
        let ints = case.ints();
        case.job(&ints).on_gpu(gpu, &modules[&case.unit])?;
    }
    Ok(())
}

const LOAD_REQUESTS: &str = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum";
const LOAD_SECTORS: &str = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
const STORE_REQUESTS: &str = "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum";
const STORE_SECTORS: &str = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum";
const SHARED_LOADS: &str = "smsp__sass_inst_executed_op_shared_ld.sum";
const SHARED_STORES: &str = "smsp__sass_inst_executed_op_shared_st.sum";
const MATRIX_LOADS: &str = "smsp__inst_executed_op_ldsm.sum";
const BULK_LOADS: &str = "smsp__sass_inst_executed_op_tma_ld.sum";
const BULK_STORES: &str = "smsp__sass_inst_executed_op_tma_st.sum";
const BULK_REDUCTIONS: &str = "smsp__sass_inst_executed_op_tma_red.sum";
const BULK_LOAD_SECTORS: &str = "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum";
const BULK_STORE_SECTORS: &str = "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum";
const BULK_REDUCTION_SECTORS: &str = "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_red.sum";
const WGMMA: &str = "smsp__sass_inst_executed_op_shared_gmma.sum";
const WGMMA_PIPE: &str = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum";
const LOAD_PIPE: &str = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum";
const STORE_PIPE: &str = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum";

/// The columns of a report that are kept.
const COLUMNS: &[&str] = &[
    LOAD_REQUESTS,
    LOAD_SECTORS,
    STORE_REQUESTS,
    STORE_SECTORS,
    SHARED_LOADS,
    SHARED_STORES,
    MATRIX_LOADS,
    LOAD_PIPE,
    STORE_PIPE,
    "wavefronts of LDS",
    "wavefronts of LDSM",
    "wavefronts of STS and STSM",
];

/// The meaning of a counter of the gate tier on a GPU.
#[derive(Clone, Copy)]
enum Meaning {
    /// The counter equals this metric of ncu.
    Metric(&'static str),
    /// Passes that the addresses need: what ncu works out for each instruction, or what the pipe counted for
    /// all of these counters together. The pipe counts more where other accesses are in the way.
    Wavefronts(Instructions, &'static str, &'static [Counter]),
}

fn meaning(counter: Counter) -> Option<Meaning> {
    const LOADS: &[Counter] = &[Counter::SharedLoadWavefronts, Counter::MatrixLoadWavefronts];
    Some(match counter {
        Counter::GlobalLoadRequests => Meaning::Metric(LOAD_REQUESTS),
        Counter::GlobalLoadSectors => Meaning::Metric(LOAD_SECTORS),
        Counter::GlobalStoreRequests => Meaning::Metric(STORE_REQUESTS),
        Counter::GlobalStoreSectors => Meaning::Metric(STORE_SECTORS),
        Counter::SharedLoadRequests => Meaning::Metric(SHARED_LOADS),
        Counter::SharedStoreRequests => Meaning::Metric(SHARED_STORES),
        Counter::MatrixLoads => Meaning::Metric(MATRIX_LOADS),
        // None of the kernels of this table has some: tests/fixtures/counts.tsv of ptxsim has the readings.
        Counter::BulkLoads => Meaning::Metric(BULK_LOADS),
        Counter::BulkLoadSectors => Meaning::Metric(BULK_LOAD_SECTORS),
        Counter::BulkStores => Meaning::Metric(BULK_STORES),
        Counter::BulkStoreSectors => Meaning::Metric(BULK_STORE_SECTORS),
        Counter::BulkReductions => Meaning::Metric(BULK_REDUCTIONS),
        Counter::BulkReductionSectors => Meaning::Metric(BULK_REDUCTION_SECTORS),
        Counter::WgmmaInstructions => Meaning::Metric(WGMMA),
        Counter::WgmmaWavefronts => Meaning::Metric(WGMMA_PIPE),
        Counter::SharedLoadWavefronts => Meaning::Wavefronts(Instructions::Loads, LOAD_PIPE, LOADS),
        Counter::MatrixLoadWavefronts => {
            Meaning::Wavefronts(Instructions::MatrixLoads, LOAD_PIPE, LOADS)
        }
        Counter::SharedStoreWavefronts => Meaning::Wavefronts(
            Instructions::Stores,
            STORE_PIPE,
            &[Counter::SharedStoreWavefronts],
        ),
        _ => return None,
    })
}

/// One counter of one launch, and the hardware's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    /// Nothing of the kind happened, on either side.
    Nothing,
    Equal,
    Different,
    /// No reading, or no metric that is this counter.
    Unread,
}

fn held_against(counter: Counter, report: &Report, row: &Row) -> Agreement {
    let told = report.counters.split(&report.withheld);
    if !told.iter().any(|counters| counters.contains_key(&counter)) {
        return Agreement::Nothing;
    }
    let ours = report.counters.get(counter);
    let same = |ours: u64, hardware: u64| match (ours, hardware) {
        (0, 0) => Agreement::Nothing,
        (a, b) if a == b => Agreement::Equal,
        _ => Agreement::Different,
    };
    match meaning(counter) {
        None => Agreement::Unread,
        Some(Meaning::Metric(metric)) => row
            .get(metric)
            .map_or(Agreement::Unread, |hardware| same(ours, *hardware)),
        Some(Meaning::Wavefronts(kind, pipe, together)) => {
            let all = together.iter().map(|c| report.counters.get(*c)).sum();
            let by_address = row.get(kind.column()).map(|n| same(ours, *n));
            let by_pipe = row.get(pipe).map(|n| same(all, *n));
            match (by_address, by_pipe) {
                (None, None) => Agreement::Unread,
                (Some(Agreement::Different) | None, Some(pipe)) => pipe,
                (Some(found), _) => found,
            }
        }
    }
}

/// Counters of one kind of launch, counted and listed.
#[derive(Default)]
struct Tally {
    nothing: usize,
    equal: usize,
    other: Vec<String>,
}

/// For each counter of the gate tier: where it may gate, and where it may not, for each reason.
type Tallies = BTreeMap<(Counter, Option<Doubt>), Tally>;

fn tally(compared: &[(&str, &Report, &Row)]) -> Tallies {
    let mut tallies = Tallies::new();
    for (case, report, row) in compared {
        for counter in Counter::ALL {
            if counter.tier() != Tier::Gate {
                continue;
            }
            let doubt = report.withheld.get(&counter);
            let tally = tallies
                .entry((counter, doubt.map(|d| d.doubt)))
                .or_default();
            match held_against(counter, report, row) {
                Agreement::Nothing => tally.nothing += 1,
                Agreement::Equal => tally.equal += 1,
                found => tally.other.push(format!(
                    "{case}: {} {found:?} {row:?}",
                    report.counters.get(counter)
                )),
            }
        }
    }
    tallies
}

fn simulated(case: &Case, directory: &Path) -> Result<Report> {
    let module = Module::load(&case.ptx(directory)?)?;
    let kernel = module.kernel(&case.entry)?;
    Ok(case.job(&case.ints()).on_sim(kernel)?.1)
}

/// Reads the GPU's counts for each case, in the order of the launches. The driver's own kernels, which lie between
/// them, are skipped.
fn of_cases(cases: &[Case], ncu: &Path, instructions: Option<&Path>) -> Result<Vec<(String, Row)>> {
    let mut launches = table::launches(&std::fs::read_to_string(ncu)?)?;
    if let Some(path) = instructions {
        table::add_instructions(&mut launches, &std::fs::read_to_string(path)?)?;
    }
    let mut left = launches.into_iter();
    cases
        .iter()
        .map(|case| {
            let launch = left.find(|launch| {
                let name = launch.kernel.split('(').next().unwrap_or_default();
                case.entry == name || case.entry.contains(&format!("{}{name}", name.len()))
            });
            match launch {
                Some(launch) => Ok((case.name.clone(), launch.row)),
                None => Err(format!("{}: ncu recorded no such launch", case.name).into()),
            }
        })
        .collect()
}

/// Compares the counts with ncu's, and writes the table if `write` names a file. Returns false if a counter that may
/// gate was not read or has another value than the hardware's.
pub fn compare(
    directory: &Path,
    ncu: &Path,
    instructions: Option<&Path>,
    write: Option<&Path>,
    out: &mut dyn Write,
) -> Result<bool> {
    let rows = of_cases(&all_cases(directory)?, ncu, instructions)?;
    if let Some(path) = write {
        std::fs::write(path, table::written(COLUMNS, &rows))?;
    }
    hold(directory, &rows, out)
}

/// Returns true if every counter that may gate a launch has the value in the table.
pub fn hold(directory: &Path, rows: &[(String, Row)], out: &mut dyn Write) -> Result<bool> {
    compare_counts(&simulate_all(directory)?, rows, out)
}

/// Simulates each case, and returns its counts with its name.
fn simulate_all(directory: &Path) -> Result<Vec<(String, Report)>> {
    let cases = all_cases(directory)?;
    cases
        .par_iter()
        .map(|case| {
            let report = simulated(case, directory).map_err(|e| format!("{}: {e}", case.name))?;
            Ok((case.name.clone(), report))
        })
        .collect()
}

fn compare_counts(
    reports: &[(String, Report)],
    rows: &[(String, Row)],
    out: &mut dyn Write,
) -> Result<bool> {
    let mut compared = Vec::new();
    for (case, report) in reports {
        let row = rows.iter().find(|(name, _)| name == case);
        let (_, row) = row.ok_or_else(|| format!("{case}: not in the table"))?;
        compared.push((case.as_str(), report, row));
    }
    if compared.len() != rows.len() {
        return Err("the table has launches that no longer exist".into());
    }
    let mut held = true;
    for ((counter, doubt), tally) in tally(&compared) {
        let gate = match doubt {
            None => "may gate".to_owned(),
            Some(reason) => format!("{reason:?}"),
        };
        writeln!(
            out,
            "{} ({gate}): {} equal, {} different; {} of nothing",
            counter.name(),
            tally.equal,
            tally.other.len(),
            tally.nothing
        )?;
        for line in &tally.other {
            writeln!(out, "    {line}")?;
        }
        held &= doubt.is_some() || tally.other.is_empty();
    }
    Ok(held)
}

/// Prints the counters that may not gate a launch, and why. This needs no GPU.
pub fn doubts(directory: &Path, out: &mut dyn Write) -> Result<bool> {
    let cases = all_cases(directory)?;
    let reports: Vec<Result<Report>> = cases.par_iter().map(|c| simulated(c, directory)).collect();
    for (case, report) in cases.iter().zip(reports) {
        let report = report.map_err(|e| format!("{}: {e}", case.name))?;
        let doubts: Vec<String> = report
            .withheld
            .iter()
            .map(|(counter, d)| format!("{} {:?} {}", counter.name(), d.doubt, d.place))
            .collect();
        writeln!(out, "{}: {}", case.name, doubts.join("; "))?;
    }
    Ok(true)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A kernel of one load and one store in shared memory, without a conflict.
    const PTX: &str = ".version 8.4\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p)\n{ .reg .b32 %r<9>; .shared .align 4 .b8 s[128];\nmov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.u32 %r4, %r3, %r2;\nst.shared.u32 [%r4], %r1;\nld.shared.u32 %r5, [%r4];\nret; }";

    fn report() -> Report {
        let module = Module::load(PTX).unwrap();
        let mut memory = ptxsim::Memory::default();
        let limits = ptxsim::Limits::default();
        let kernel = module.kernel("k").unwrap();
        ptxsim::launch(kernel, [1; 3], [32, 1, 1], 0, &[0; 8], &mut memory, limits).unwrap()
    }

    fn row(pairs: &[(&str, u64)]) -> Row {
        pairs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect()
    }

    #[test]
    fn every_counter_of_the_gate_tier_has_a_meaning() {
        for counter in Counter::ALL {
            assert_eq!(
                meaning(counter).is_some(),
                counter.tier() == Tier::Gate,
                "{}",
                counter.name()
            );
        }
    }

    #[test]
    fn one_more_is_different_and_no_reading_is_no_equality() {
        let of = |counter, pairs: &[(&str, u64)]| held_against(counter, &report(), &row(pairs));
        let loads = Counter::SharedLoadRequests;
        assert_eq!(of(loads, &[(SHARED_LOADS, 1)]), Agreement::Equal);
        assert_eq!(of(loads, &[(SHARED_LOADS, 2)]), Agreement::Different);
        assert_eq!(of(loads, &[]), Agreement::Unread);
        assert_eq!(
            of(Counter::MatrixLoads, &[(MATRIX_LOADS, 0)]),
            Agreement::Nothing
        );
        assert_eq!(of(Counter::Instructions, &[]), Agreement::Unread);
    }

    /// The pipe counts more where other accesses are in the way, and never less than the addresses need.
    #[test]
    fn wavefronts_are_those_of_the_addresses_or_of_the_pipe() {
        let by_address = Instructions::Loads.column();
        let of = |pairs: &[(&str, u64)]| {
            held_against(Counter::SharedLoadWavefronts, &report(), &row(pairs))
        };
        assert_eq!(of(&[(by_address, 1), (LOAD_PIPE, 3)]), Agreement::Equal);
        assert_eq!(of(&[(by_address, 2), (LOAD_PIPE, 1)]), Agreement::Equal);
        assert_eq!(of(&[(LOAD_PIPE, 1)]), Agreement::Equal);
        assert_eq!(of(&[(by_address, 2), (LOAD_PIPE, 2)]), Agreement::Different);
        assert_eq!(of(&[(LOAD_PIPE, 2)]), Agreement::Different);
        assert_eq!(of(&[]), Agreement::Unread);
    }

    #[test]
    fn counts_doubtful_launches_apart() {
        let row = row(&[(SHARED_LOADS, 2), (SHARED_STORES, 1)]);
        let clean = report();
        let mut doubted = report();
        let doubt = ptxsim::Withheld {
            doubt: Doubt::Joined,
            place: "k.cu:1".to_owned(),
        };
        doubted.withheld.insert(Counter::SharedLoadRequests, doubt);
        let all = tally(&[("clean", &clean, &row), ("doubted", &doubted, &row)]);
        let other = |doubt| all[&(Counter::SharedLoadRequests, doubt)].other.len();
        assert_eq!((other(None), other(Some(Doubt::Joined))), (1, 1));
        assert_eq!(all[&(Counter::SharedStoreRequests, None)].equal, 2);
    }

    fn committed() -> (std::path::PathBuf, Vec<(String, Row)>) {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/counters");
        let text = std::fs::read_to_string(fixtures.join("table.tsv")).unwrap();
        (fixtures, table::read(&text).unwrap())
    }

    /// Over all launches of the committed table, of the PTX next to it.
    #[test]
    fn every_counter_that_may_gate_equals_the_hardware() {
        let (fixtures, mut rows) = committed();
        let mut told = Vec::new();
        let reports = simulate_all(&fixtures).unwrap();
        let held = compare_counts(&reports, &rows, &mut told).unwrap();
        assert!(held, "{}", String::from_utf8_lossy(&told));
        // The test can fail: one sector more, and a reading that is missing.
        let (_, row) = rows.iter_mut().find(|(case, _)| case == "load32").unwrap();
        let sectors = row.get_mut(LOAD_SECTORS).unwrap();
        *sectors += 1;
        assert!(!compare_counts(&reports, &rows, &mut Vec::new()).unwrap());
        let (_, row) = rows.iter_mut().find(|(case, _)| case == "load32").unwrap();
        row.remove(LOAD_SECTORS);
        assert!(!compare_counts(&reports, &rows, &mut Vec::new()).unwrap());
    }
}
