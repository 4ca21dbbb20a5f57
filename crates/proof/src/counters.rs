//! `counters`: what ptxsim counts against what ncu read of the same launches of the same PTX.

use crate::cases::{self, Case};
use crate::gpu::{Gpu, Result};
use ptxsim::{Cost, Counter, Counters, Kind, Module};
use rayon::prelude::*;
use std::collections::HashMap;
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

/// Ours, and those of ncu whose sum it should be (`-` before what is taken away).
struct Pair(&'static str, fn(&Counters) -> u64, &'static [&'static str]);

fn kind(c: &Counters, kind: Kind) -> Cost {
    c.by_kind.get(&kind).copied().unwrap_or_default()
}

const LOAD_REQUESTS: &str = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum";
const LOAD_SECTORS: &str = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum";
const STORE_REQUESTS: &str = "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum";
const STORE_SECTORS: &str = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum";
const SHARED_LOAD: &str = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum";
const SHARED_STORE: &str = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum";
/// What ncu works out for each instruction from its addresses, without what the hardware adds
/// when accesses get into each other's way.
const SHARED_ALL: &str = "memory_l1_wavefronts_shared";

const PAIRS: &[Pair] = &[
    // On hardware a copy is a load.
    Pair(
        "global_load_requests",
        |c| c.get(Counter::GlobalLoadRequests) + kind(c, Kind::AsyncCopy).requests,
        &[LOAD_REQUESTS],
    ),
    Pair(
        "global_load_sectors",
        |c| c.get(Counter::GlobalLoadSectors) + c.get(Counter::AsyncCopySectors),
        &[LOAD_SECTORS],
    ),
    Pair(
        "global_store_requests",
        |c| c.get(Counter::GlobalStoreRequests),
        &[STORE_REQUESTS],
    ),
    Pair(
        "global_store_sectors",
        |c| c.get(Counter::GlobalStoreSectors),
        &[STORE_SECTORS],
    ),
    Pair(
        "shared_load_requests",
        |c| c.get(Counter::SharedLoadRequests),
        &["smsp__sass_inst_executed_op_shared_ld.sum"],
    ),
    Pair(
        "shared_load_wavefronts + matrix_load_wavefronts",
        |c| c.get(Counter::SharedLoadWavefronts) + c.get(Counter::MatrixLoadWavefronts),
        &[SHARED_LOAD],
    ),
    Pair(
        "shared_store_requests",
        |c| c.get(Counter::SharedStoreRequests),
        &["smsp__sass_inst_executed_op_shared_st.sum"],
    ),
    Pair(
        "shared_store_wavefronts",
        |c| c.get(Counter::SharedStoreWavefronts),
        &[SHARED_STORE],
    ),
    Pair(
        "wavefronts of all shared accesses",
        |c| {
            c.get(Counter::SharedLoadWavefronts)
                + c.get(Counter::SharedStoreWavefronts)
                + c.get(Counter::MatrixLoadWavefronts)
                + c.get(Counter::AsyncCopyWavefronts)
                + kind(c, Kind::Atomic).wavefronts
        },
        &[SHARED_ALL],
    ),
    Pair(
        "matrix_loads",
        |c| c.get(Counter::MatrixLoads),
        &["smsp__inst_executed_op_ldsm.sum"],
    ),
    Pair(
        "requests of async copies",
        |c| kind(c, Kind::AsyncCopy).requests,
        &["smsp__inst_executed_op_ldgsts.sum"],
    ),
    Pair(
        "atomics",
        |c| c.get(Counter::Atomics),
        &[
            "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
            "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
            "smsp__inst_executed_op_shared_atom.sum",
        ],
    ),
    Pair(
        "matrix_instructions",
        |c| c.get(Counter::MatrixInstructions),
        &["sm__inst_executed_pipe_tensor.sum"],
    ),
    Pair(
        "instructions",
        |c| c.get(Counter::Instructions),
        &["smsp__inst_executed.sum"],
    ),
];

/// The rows of a CSV of ncu (`--csv --page raw`): metric to value.
fn parse_csv(text: &str) -> Result<Vec<HashMap<String, String>>> {
    let fields = |line: &str| -> Vec<String> {
        let inner = line.trim().trim_start_matches('"').trim_end_matches('"');
        inner.split("\",\"").map(str::to_owned).collect()
    };
    let mut lines = text.lines().skip_while(|l| !l.starts_with("\"ID\""));
    let header = fields(lines.next().ok_or("no table of ncu in the file")?);
    // The second line names the units.
    Ok(lines
        .skip(1)
        .filter(|l| l.starts_with('"'))
        .map(|l| header.iter().cloned().zip(fields(l)).collect())
        .collect())
}

fn number(row: &HashMap<String, String>, metrics: &[&str]) -> Option<u64> {
    metrics
        .iter()
        .map(|m| row.get(*m)?.replace(',', "").parse::<f64>().ok())
        .sum::<Option<f64>>()
        .map(|x| x as u64)
}

pub fn compare(directory: &Path, ncu: &Path, out: &mut dyn Write) -> Result<bool> {
    let cases = all_cases(directory)?;
    let rows = parse_csv(&std::fs::read_to_string(ncu)?)?;
    let simulated: Vec<Result<Counters>> = cases
        .par_iter()
        .map(|case| {
            let module = Module::load(&case.ptx(directory)?)?;
            let kernel = module.kernel(&case.entry)?;
            Ok(case.job(&case.ints()).on_sim(kernel)?.1.counters)
        })
        .collect();
    // In the order of the launches; the driver's own kernels lie between them.
    let mut left = rows.iter();
    let mut compared = Vec::new();
    for (case, ours) in cases.iter().zip(simulated) {
        let row = left
            .find(|r| {
                let name = r.get("Kernel Name").map_or("?", String::as_str);
                case.entry.contains(name.split('(').next().unwrap_or(name))
            })
            .ok_or_else(|| format!("{}: not among the launches that ncu saw", case.name))?;
        match ours {
            Ok(ours) => compared.push((case, ours, row)),
            Err(e) => writeln!(out, "{}: {e}", case.name)?,
        }
    }
    for Pair(name, ours, metrics) in PAIRS {
        let mut equal = 0;
        let mut different = Vec::new();
        for (case, counters, row) in &compared {
            match (ours(counters), number(row, metrics)) {
                (_, None) => {}
                (0, Some(0)) => {}
                (a, Some(b)) if a == b => equal += 1,
                (a, Some(b)) => different.push(format!("{} {a} hw {b}", case.name)),
            }
        }
        writeln!(out, "{name}: {equal} equal, {} different", different.len())?;
        for line in different {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_ncu() {
        let text = "==PROF== Connected\n\"ID\",\"Kernel Name\",\"a.sum\",\"b.sum\"\n\"\",\"\",\"inst\",\"sector\"\n\"0\",\"k\",\"1,024\",\"3\"\n";
        let rows = parse_csv(text).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(number(&rows[0], &["a.sum", "b.sum"]), Some(1027));
        assert_eq!(number(&rows[0], &["c.sum"]), None);
        assert!(parse_csv("nothing").is_err());
    }
}
