//! Parses the pages that the profiler writes with `--csv`: the raw page with a row for each kernel, and the pages of
//! its machine code and sources. Pure.
//!
//! The profiler does not escape what it quotes, so a source line with a quotation mark breaks its row. Therefore rows
//! are read one by one, and columns of sources are counted from the end.

use super::counters::{self, CLOCK, CountedAccess, CounterSource, DURATION, samples_of, source};
use super::instruction;
use super::instruction::{Instruction, at_least_nothing, number};
use model::{KernelProfile, LineProfile, Num, ProfileMetric, Seen, Stall, Unsupported};
use std::collections::BTreeMap;

/// The reason for which the profiler's report has no profile.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("its report cannot be read: {0}")]
    Unreadable(#[source] std::io::Error),
    #[error("its report cannot be read: {0}")]
    Failed(String),
    #[error("its report was not read within its deadline")]
    Late,
    #[error("its report has more than {} MiB", .0 >> 20)]
    TooLong(u64),
    #[error("its report has no kernel")]
    NoKernel,
    #[error("its report has {all} kernels, and machine code of {with_code}")]
    KernelCount { all: usize, with_code: usize },
    #[error("the raw page of its report is empty")]
    Empty,
    #[error("the raw page of its report has no `{0}`")]
    NoColumn(&'static str),
    #[error("the raw page of its report has a size of `{0}`")]
    Size(String),
    #[error("its report has no duration")]
    NoDuration,
}

/// Combines the three pages for each kernel. Without lines where their page has none.
///
/// # Errors
/// Returns an error if the first two cannot be read, or are not of the same kernels.
pub fn kernels(raw: &str, code: &str, lines: &str) -> Result<Vec<KernelProfile>, ReportError> {
    let raw = read_raw(raw)?;
    let code = read_code(code);
    if raw.is_empty() {
        return Err(ReportError::NoKernel);
    }
    if raw.len() != code.len() {
        return Err(ReportError::KernelCount {
            all: raw.len(),
            with_code: code.len(),
        });
    }
    let mut lines = read_lines(lines, &raw);
    raw.into_iter()
        .zip(code)
        .enumerate()
        .map(|(at, (raw, code))| raw.profile(&code, lines.remove(&at).unwrap_or_default()))
        .collect()
}

/// One row of the raw page.
#[derive(Debug)]
struct Raw {
    entry: String,
    grid: [u32; 3],
    block: [u32; 3],
    /// The values that are numbers, by their names.
    values: BTreeMap<String, f64>,
}

fn read_raw(text: &str) -> Result<Vec<Raw>, ReportError> {
    let mut rows = text.lines().filter(|line| line.starts_with('"')).map(row);
    let header = rows.next().ok_or(ReportError::Empty)?;
    // The second row has the units; with base units they follow from the names.
    let rows = rows.skip(1);
    rows.map(|row| {
        let cell = |name: &str| {
            let at = header.iter().position(|header| header == name)?;
            row.get(at).map(String::as_str)
        };
        let needed = |name: &'static str| cell(name).ok_or(ReportError::NoColumn(name));
        let numbers = header.iter().zip(&row);
        Ok(Raw {
            entry: needed("Kernel Name")?.to_owned(),
            grid: dimensions(needed("Grid Size")?)?,
            block: dimensions(needed("Block Size")?)?,
            values: numbers
                .filter_map(|(name, value)| Some((name.clone(), number(value)?)))
                .collect(),
        })
    })
    .collect()
}

/// Parses dimensions such as `(132, 1, 1)`.
fn dimensions(text: &str) -> Result<[u32; 3], ReportError> {
    let inner = text.trim_start_matches('(').trim_end_matches(')');
    let parts: Result<Vec<u32>, _> = inner.split(',').map(|part| part.trim().parse()).collect();
    parts
        .ok()
        .and_then(|parts| parts.try_into().ok())
        .ok_or_else(|| ReportError::Size(text.to_owned()))
}

/// Splits one line of text into its cells.
fn row(line: &str) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader
        .has_headers(false)
        .flexible(true)
        .from_reader(line.as_bytes());
    let first = reader.records().next();
    match first {
        Some(Ok(record)) => record.iter().map(str::to_owned).collect(),
        Some(Err(_)) | None => Vec::new(),
    }
}

/// Reads the instructions of each kernel, in their order.
fn read_code(text: &str) -> Vec<Vec<Instruction>> {
    let mut kernels = Vec::new();
    let mut header = Vec::new();
    for line in text.lines() {
        let cells = row(line);
        match cells.first().map(String::as_str) {
            Some("Kernel Name") => kernels.push(Vec::new()),
            Some("Address") => header = cells,
            Some(address) if address.starts_with("0x") => {
                let Some(kernel) = kernels.last_mut() else {
                    continue;
                };
                let cell = |name: &str| {
                    let at = header.iter().position(|header| header == name)?;
                    cells.get(at).map(String::as_str)
                };
                kernel.push(Instruction::from_cells(cell));
            }
            _ => {}
        }
    }
    kernels
}

fn count(cell: Option<&str>) -> u64 {
    cell.and_then(number).map_or(0, at_least_nothing)
}

/// Reads the lines of each kernel that the page names, by the kernel's index. A function's lines are listed file by
/// file. The next kernel begins with another function, or with a file that this one has had.
fn read_lines(text: &str, kernels: &[Raw]) -> BTreeMap<usize, Vec<LineProfile>> {
    let mut read: Vec<ProfiledLine> = Vec::new();
    let mut at: Option<(usize, Vec<String>)> = None;
    let mut file = String::new();
    let mut header: Vec<String> = Vec::new();
    for line in text.lines() {
        let cells = row(line);
        // The column is counted from the end, because the source's text may have broken the row before it. The text of
        // the machine code has a column of the same name, which comes later.
        let cell = |name: &str| {
            let from_end = header.len() - header.iter().rposition(|header| header == name)?;
            cells
                .get(cells.len().checked_sub(from_end)?)
                .map(String::as_str)
        };
        match (cells.first().map(String::as_str), cells.get(1)) {
            (Some("File Path" | "File Name"), Some(path)) => file.clone_from(path),
            (Some("Function Name"), Some(name)) => {
                at = Some(match at.take() {
                    None => (0, vec![file.clone()]),
                    Some((kernel, mut files))
                        if kernels
                            .get(kernel)
                            .is_some_and(|kernel| kernel.entry == *name)
                            && !files.contains(&file) =>
                    {
                        files.push(file.clone());
                        (kernel, files)
                    }
                    Some((kernel, _)) => (kernel + 1, vec![file.clone()]),
                });
            }
            (Some("Line No"), _) => header = cells,
            (Some(number), _) if number.parse::<u32>().is_ok() => {
                let Some((kernel, _)) = &at else { continue };
                let samples = Stall::ALL.into_iter().filter_map(|stall| {
                    let samples = count(cell(samples_of(stall)));
                    (samples > 0).then_some((stall, samples))
                });
                read.push(ProfiledLine {
                    kernel: *kernel,
                    place: format!("{file}:{number}"),
                    executed: count(cell("Instructions Executed")),
                    samples: samples.collect(),
                    instructions: BTreeMap::new(),
                });
            }
            (Some(""), _) => {
                let address = cells.get(2).filter(|cell| cell.starts_with("0x"));
                if let (Some(line), Some(address)) = (read.last_mut(), address) {
                    let instruction = Instruction::from_cells(cell);
                    line.instructions.insert(address.clone(), instruction);
                }
            }
            _ => {}
        }
    }
    let mut all: BTreeMap<usize, Vec<LineProfile>> = BTreeMap::new();
    for line in read {
        if line.executed > 0 || !line.samples.is_empty() {
            all.entry(line.kernel).or_default().push(line.profile());
        }
    }
    all
}

/// A line, and the instructions that stand below it: some of them twice.
struct ProfiledLine {
    kernel: usize,
    place: String,
    executed: u64,
    samples: BTreeMap<Stall, u64>,
    /// The instructions, ordered by their addresses.
    instructions: BTreeMap<String, Instruction>,
}

impl ProfiledLine {
    fn profile(self) -> LineProfile {
        let mut counters = instruction::counters(self.instructions.values());
        counters.retain(|_, count| *count > 0);
        LineProfile {
            place: self.place,
            instructions: self.executed,
            samples: self.samples,
            counters,
        }
    }
}

impl Raw {
    fn profile(
        self,
        code: &[Instruction],
        lines: Vec<LineProfile>,
    ) -> Result<KernelProfile, ReportError> {
        let duration = self.value(DURATION);
        let mut instructions = BTreeMap::new();
        for one in code.iter().filter(|one| one.executed > 0) {
            *instructions.entry(one.operation.clone()).or_default() += one.executed;
        }
        let stalls = Stall::ALL.into_iter().filter_map(|stall| {
            let cycles = self.value(&counters::stall_metric(stall)?)?;
            Some((stall, Num(cycles)))
        });
        let metrics = ProfileMetric::ALL.into_iter().map(|metric| {
            let value = self.metric(metric, code);
            let seen = value.map_or(Seen::Unsupported(Unsupported::NotCounted), |value| {
                Seen::Got(Num(value))
            });
            (metric, seen)
        });
        Ok(KernelProfile {
            duration_ns: Num(duration.ok_or(ReportError::NoDuration)?),
            sm_mhz: self.value(CLOCK).map(|hertz| Num(hertz / 1e6)),
            metrics: metrics.collect(),
            stalls: stalls.collect(),
            counters: instruction::counters(code.iter()),
            instructions,
            lines,
            grid: self.grid,
            block: self.block,
            entry: self.entry,
        })
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// Returns the value of a metric, or `None` if the chip has no counter for it.
    fn metric(&self, metric: ProfileMetric, code: &[Instruction]) -> Option<f64> {
        match source(metric) {
            CounterSource::Percent(name) => Some(self.value(name)? / 100.0),
            CounterSource::Value(name) => self.value(name),
            CounterSource::Sum(parts) => parts
                .iter()
                .map(|(name, weight)| Some(self.value(name)? * weight))
                .sum(),
            CounterSource::Some(names) => {
                let there: Vec<f64> = names.iter().filter_map(|name| self.value(name)).collect();
                (!there.is_empty()).then(|| there.iter().sum())
            }
            CounterSource::Excess(access) => {
                let is_meant = |one: &&Instruction| match access {
                    CountedAccess::Any => true,
                    // An asynchronous copy loads from global memory and stores to shared memory.
                    CountedAccess::Load => one.access == "Load",
                    CountedAccess::Store => one.access.contains("Store"),
                };
                let excess: u64 = code
                    .iter()
                    .filter(|one| one.is_shared())
                    .filter(is_meant)
                    .map(|one| one.excess)
                    .sum::<Option<u64>>()?;
                Some(excess as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Counter;

    const RAW: &str = include_str!("captured/raw.csv");
    const CODE: &str = include_str!("captured/code.csv");
    const LINES: &str = include_str!("captured/lines.csv");

    fn all() -> Vec<KernelProfile> {
        kernels(RAW, CODE, LINES).unwrap()
    }

    fn find_kernel(kernels: &[KernelProfile], entry: &str) -> KernelProfile {
        kernels
            .iter()
            .find(|kernel| kernel.entry.starts_with(entry))
            .unwrap()
            .clone()
    }

    fn got(kernel: &KernelProfile, metric: ProfileMetric) -> f64 {
        kernel.metrics[&metric].got().unwrap().0
    }

    #[test]
    fn figures_of_kernels_are_read_as_the_profiler_wrote_them() {
        use ProfileMetric as M;
        let all = all();
        assert_eq!(all.len(), 6);
        let tensor = find_kernel(&all, "tensor");
        assert_eq!((tensor.grid, tensor.block), ([528, 1, 1], [256, 1, 1]));
        assert_eq!(tensor.duration_ns, Num(56_992.0));
        assert_eq!(tensor.sm_mhz, Some(Num(1_825.933_903)));
        assert_eq!(got(&tensor, M::TensorActive), 98.66 / 100.0);
        // 528 blocks of 8 warps, 2048 products of 16 x 8 x 16 each, two operations an element.
        let operations = 528.0 * 8.0 * 2048.0 * (16.0 * 8.0 * 16.0 * 2.0);
        assert_eq!(got(&tensor, M::TensorOperations), operations);
        assert_eq!(tensor.stalls[&Stall::MathPipeThrottle], Num(19.67));
        let copy = find_kernel(&all, "copy");
        assert_eq!(got(&copy, M::DramThroughput), 84.85 / 100.0);
        assert_eq!(got(&copy, M::SectorsPerLoad), 16.0);
        assert_eq!(got(&copy, M::DramBytes), 134_013_696.0);
        let local = find_kernel(&all, "local");
        assert_eq!(got(&local, M::LocalSectors), 2.0 * 1_081_344.0);
        let half = find_kernel(&all, "half2s");
        assert_eq!(
            got(&half, M::Fp16Operations),
            2.0 * 135_168.0 + 4.0 * 69_341_184.0
        );
    }

    #[test]
    fn bank_conflicts_are_those_that_instructions_ask_for() {
        use ProfileMetric as M;
        let all = all();
        let conflict = find_kernel(&all, "conflict");
        // 42,240 warps, whose loads and stores take 31 passes more than the one that they need.
        assert_eq!(got(&conflict, M::BankConflictsLoad), 42_240.0 * 31.0);
        assert_eq!(got(&conflict, M::BankConflictsStore), 42_240.0 * 31.0);
        assert_eq!(got(&conflict, M::BankConflicts), 42_240.0 * 62.0);
        // The hardware's own counter has 367 of this one.
        assert_eq!(got(&find_kernel(&all, "padded"), M::BankConflicts), 0.0);
    }

    const ACCESSES_RAW: &str = include_str!("captured/accesses-raw.csv");
    const ACCESSES: &str = include_str!("captured/accesses.csv");
    const ACCESSES_LINES: &str = include_str!("captured/accesses-lines.csv");

    fn accesses() -> Vec<KernelProfile> {
        kernels(ACCESSES_RAW, ACCESSES, ACCESSES_LINES).unwrap()
    }

    #[test]
    fn accesses_are_counted_as_the_simulator_counts_them() {
        use Counter as C;
        let all = accesses();
        let count = |entry: &str, counter| find_kernel(&all, entry).counters[&counter];
        // 264 blocks of 32 warps; a column of a tile without a pad takes 32 passes.
        let warps = 264 * 32;
        assert_eq!(count("bank", C::SharedLoadRequests), warps);
        assert_eq!(count("bank", C::SharedLoadWavefronts), 32 * warps);
        assert_eq!(count("bank", C::SharedLoadWavefrontsIdeal), warps);
        assert_eq!(count("bank", C::SharedStoreWavefronts), warps);
        assert_eq!(count("bank", C::GlobalLoadSectors), 4 * warps);
        assert_eq!(count("bank", C::Barriers), warps);
        // One float of 32 bytes each, and one of 8.
        assert_eq!(count("strided", C::GlobalLoadSectors), 32 * warps);
        assert_eq!(count("strided", C::GlobalLoadSectorsIdeal), 4 * warps);
        assert_eq!(count("strided", C::GlobalStoreSectors), 8 * warps);
        assert_eq!(count("strided", C::SharedLoadRequests), 0);
        // Each warp executes it once, with half of its lanes.
        assert_eq!(count("diverge", C::DivergentBranches), warps);
        let lanes = count("diverge", C::LaneInstructions) as f64;
        assert!(lanes / (count("diverge", C::Instructions) as f64) < 20.0);
        // There are 264 blocks of 4 warps, and each warp copies 512 bytes 4 times. Rows of 128 bytes are 8 times in the
        // same banks.
        let warps = 264 * 4;
        assert_eq!(count("matrix", C::AsyncCopySectors), warps * 4 * 16);
        assert_eq!(count("matrix", C::MatrixLoads), warps);
        assert_eq!(count("matrix", C::MatrixLoadWavefronts), warps * 32);
        assert_eq!(count("matrix", C::MatrixInstructions), warps);
        assert_eq!(count("matrix", C::Atomics), 264);
        // An instruction that its predicate disables loads nothing.
        assert_eq!(count("matrix", C::SharedLoadRequests), 0);
    }

    /// Compares the sums over instructions with the hardware's counters of the launch.
    #[test]
    fn accesses_are_those_of_the_counters_over_the_launch() {
        let raw = read_raw(ACCESSES_RAW).unwrap();
        for (raw, kernel) in raw.iter().zip(accesses()) {
            let sum = |counters: &[Counter]| -> f64 {
                counters
                    .iter()
                    .map(|counter| kernel.counters[counter] as f64)
                    .sum()
            };
            let hardware = |name: &str| raw.value(name).unwrap();
            use Counter as C;
            let loads = [C::GlobalLoadSectors, C::AsyncCopySectors];
            let of_loads = hardware("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum");
            assert_eq!(sum(&loads), of_loads, "{}", kernel.entry);
            let of_stores = hardware("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum");
            assert_eq!(sum(&[C::GlobalStoreSectors]), of_stores, "{}", kernel.entry);
            let of_all = hardware("smsp__inst_executed.sum");
            assert_eq!(sum(&[C::Instructions]), of_all, "{}", kernel.entry);
        }
    }

    #[test]
    fn accesses_stand_by_their_source_line() {
        let strided = find_kernel(&accesses(), "strided");
        let line = strided
            .lines
            .iter()
            .find(|line| line.place == "/work/demo.cu:12");
        let counters = &line.unwrap().counters;
        assert_eq!(counters[&Counter::GlobalLoadSectors], 32 * 264 * 32);
        assert_eq!(counters[&Counter::GlobalStoreSectors], 8 * 264 * 32);
        // A missing value is left out.
        assert!(!counters.contains_key(&Counter::SharedLoadRequests));
    }

    /// An older profiler does not have these columns.
    #[test]
    fn missing_columns_do_not_count_as_zero() {
        let without = ACCESSES.replace("L2 Theoretical Sectors Global\"", "another\"");
        let all = kernels(ACCESSES_RAW, &without, "").unwrap();
        let counters = &all[0].counters;
        assert!(!counters.contains_key(&Counter::GlobalLoadSectors));
        assert!(counters.contains_key(&Counter::GlobalLoadSectorsIdeal));
    }

    /// The page of this repository's sdpa_f16/mma_plain, without columns that are not read.
    const ASYNC: &str = r#""Kernel Name","sdpa_f16"
"Address","Source","Instructions Executed","Access Operation","L1 Wavefronts Shared Excessive"
"0x7f64c37aca20","      LDGSTS.E.BYPASS.128 desc[UR4][R12.64], P1, [R25]","256","Load,Store","1664"
"0x7f64c37ad010","      LDSM.16.M88.4 R108, [R10]","256","Load","0""#;

    #[test]
    fn bank_conflicts_of_an_asynchronous_copy_count_as_stores() {
        let code = read_code(ASYNC);
        let raw = read_raw(RAW).unwrap().remove(0);
        let measured = |metric| raw.metric(metric, &code[0]);
        assert_eq!(code[0][0].operation, "LDGSTS");
        assert_eq!(measured(ProfileMetric::BankConflictsStore), Some(1664.0));
        assert_eq!(measured(ProfileMetric::BankConflictsLoad), Some(0.0));
        assert_eq!(measured(ProfileMetric::BankConflicts), Some(1664.0));
    }

    #[test]
    fn uncounted_values_are_unsupported_and_never_zero() {
        let without = RAW.replace("sm__pipe_fp64_cycles_active", "sm__pipe_other");
        let without = without.replace("sm__ops_path_tensor_src_fp16.sum", "sm__ops_other");
        let all = kernels(&without, CODE, LINES).unwrap();
        for metric in [ProfileMetric::Fp64Active, ProfileMetric::TensorOperations] {
            let seen = &all[0].metrics[&metric];
            assert_eq!(
                *seen,
                Seen::Unsupported(Unsupported::NotCounted),
                "{metric}"
            );
        }
        assert_eq!(all[0].metrics.len(), ProfileMetric::ALL.len());
        let without = CODE.replace("L1 Wavefronts Shared Excessive", "another");
        let all = kernels(RAW, &without, LINES).unwrap();
        let seen = &all[0].metrics[&ProfileMetric::BankConflicts];
        assert_eq!(*seen, Seen::Unsupported(Unsupported::NotCounted));
        // A word is not a number either.
        let words = RAW.replace("\"98.66\"", "\"n/a\"");
        let all = kernels(&words, CODE, LINES).unwrap();
        let seen = &find_kernel(&all, "tensor").metrics[&ProfileMetric::TensorActive];
        assert_eq!(*seen, Seen::Unsupported(Unsupported::NotCounted));
    }

    #[test]
    fn instructions_are_counted_by_their_operation() {
        let conflict = find_kernel(&all(), "conflict");
        let executed = |name: &str| conflict.instructions.get(name).copied();
        assert_eq!(executed("LDS"), Some(42_240));
        assert_eq!(executed("IMAD"), Some(5 * 42_240));
        // An instruction that never ran is none of them.
        assert_eq!(executed("BRA"), None);
        let sum: u64 = conflict.instructions.values().sum();
        assert_eq!(
            sum as f64,
            got(&conflict, ProfileMetric::ExecutedInstructions)
        );
    }

    #[test]
    fn stalls_stand_by_their_source_line() {
        let all = all();
        let conflict = find_kernel(&all, "conflict");
        let line = |place: &str| {
            conflict
                .lines
                .iter()
                .find(|line| line.place == place)
                .cloned()
        };
        let store = line("/work/demo.cu:13").unwrap();
        assert_eq!(store.instructions, 633_600);
        assert_eq!(store.samples[&Stall::LongScoreboard], 134);
        assert_eq!(store.samples[&Stall::ShortScoreboard], 115);
        assert_eq!(
            conflict
                .lines
                .iter()
                .flat_map(|line| line.samples.values())
                .sum::<u64>(),
            1518
        );
        // Two files of one kernel, and the next kernel after them.
        let half = find_kernel(&all, "half2s");
        assert!(
            half.lines
                .iter()
                .any(|line| line.place.contains("cuda_fp16.hpp:"))
        );
        assert!(
            half.lines
                .iter()
                .any(|line| line.place.starts_with("/work/demo.cu:"))
        );
        assert!(!find_kernel(&all, "local").lines.is_empty());
    }

    #[test]
    fn a_quotation_mark_in_a_source_line_does_not_shift_its_row() {
        let broken = LINES.replace("tile[lane * 32 + warp] =", "p(\"a,b\", '\"'); t =");
        let conflict = find_kernel(&kernels(RAW, CODE, &broken).unwrap(), "conflict");
        let intact = find_kernel(&all(), "conflict");
        assert_eq!(conflict.lines, intact.lines);
    }

    #[test]
    fn pages_that_do_not_fit_are_refused() {
        assert!(kernels("", CODE, LINES).is_err());
        let fewer = CODE.replacen("\"Kernel Name\"", "\"No Kernel\"", 1);
        let why = kernels(RAW, &fewer, LINES).unwrap_err();
        assert_eq!(
            why.to_string(),
            "its report has 6 kernels, and machine code of 5"
        );
        let why = kernels(&RAW.replace("(528, 1, 1)", "(528, 1)"), CODE, LINES).unwrap_err();
        assert!(why.to_string().contains("a size of `(528, 1)`"), "{why}");
        // Without lines there is a profile all the same.
        let all = kernels(RAW, CODE, "").unwrap();
        assert!(all.iter().all(|page| page.lines.is_empty()));
    }
}
