//! Explains why kernels of two compiled files changed: compares their machine code by those rules of `explain` that
//! need no run.

use artifact::{MachineCode, Matched, Records};
use build::code::{CodeReader, name_files_alike};
use build::toolchain;
use explain::{CauseClass, Compiled, explain_compiled};
use model::{
    BuildFacts, CodeFacts, Evidence, Judgement, NotRun, Outcome, Record, Seen, Subject, UnitId,
};
use rayon::prelude::*;
use report::explain::{Explanation, KernelExplanations, gap};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use system::cache::Cache;
use system::error::Result;

/// The most kernels that are disassembled. Each takes up to a second, and nobody reads more.
const MOST_EXPLAINED: usize = 100;

/// Explains the kernels that failed, the costliest first. If none failed, explains the kernels whose code differs.
/// `base` and `head` are the files that the records were made of.
pub fn explain_kernels(
    base: &Path,
    head: &Path,
    records: &Records,
    judgement: &Judgement,
) -> Result<KernelExplanations> {
    let failed: HashSet<&UnitId> = judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Fail)
        .filter_map(|verdict| match &verdict.subject {
            Subject::Unit(unit) => Some(unit),
            Subject::Case(_) => None,
        })
        .collect();
    let is_meant = |kernel: &&Matched| {
        if failed.is_empty() {
            differs(kernel)
        } else {
            failed.contains(&kernel.unit)
        }
    };
    let changed = newest_first(records.pairs.iter().filter(is_meant));
    let explained = changed.get(..MOST_EXPLAINED).unwrap_or(&changed);
    if explained.is_empty() {
        return Ok(KernelExplanations::Explained {
            kernels: Vec::new(),
            more: 0,
        });
    }
    let cache = Cache::open()?;
    let Some(disassembler) = toolchain::find_disassembler(&cache) else {
        return Ok(KernelExplanations::NotRun(NotRun::NoDisassembler));
    };
    let reader = CodeReader::open(&disassembler, &cache)?;
    let differ = || explained.iter().filter(|kernel| differs(kernel));
    let (of_base, of_head) = rayon::join(
        || artifact::read_code(base, differ().map(|kernel| kernel.pair.base), &reader),
        || artifact::read_code(head, differ().map(|kernel| kernel.pair.head), &reader),
    );
    let code = BothSides {
        base: of_base?,
        head: of_head?,
    };
    let facts = BothSides {
        base: facts_by_unit(&records.base),
        head: facts_by_unit(&records.head),
    };
    let kernels = explained
        .par_iter()
        .map(|kernel| explain_kernel(kernel, &facts, &code));
    Ok(KernelExplanations::Explained {
        kernels: kernels.collect(),
        more: changed.len() - explained.len(),
    })
}

/// Returns the kernels of the newest architecture in their order, then the kernels of the others, because nvdisasm does
/// not support old architectures.
fn newest_first<'a>(kernels: impl Iterator<Item = &'a Matched<'a>>) -> Vec<&'a Matched<'a>> {
    let mut by_kernel: Vec<Vec<&Matched>> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for kernel in kernels {
        let key = (kernel.unit.kernel.as_str(), kernel.unit.variant.as_str());
        let place = *places.entry(key).or_insert(by_kernel.len());
        match by_kernel.get_mut(place) {
            Some(known) => known.push(kernel),
            None => by_kernel.push(vec![kernel]),
        }
    }
    let mut others = Vec::new();
    let mut newest = Vec::new();
    for mut architectures in by_kernel {
        architectures.sort_by_key(|architecture| Reverse(architecture.unit.arch));
        let mut architectures = architectures.into_iter();
        newest.extend(architectures.next());
        others.extend(architectures);
    }
    newest.append(&mut others);
    newest
}

struct BothSides<T> {
    base: T,
    head: T,
}

type FactsByUnit<'a> = HashMap<&'a UnitId, &'a BuildFacts>;

fn explain_kernel(
    kernel: &Matched,
    facts: &BothSides<FactsByUnit>,
    code: &BothSides<MachineCode>,
) -> Explanation {
    let Matched { unit, pair, .. } = kernel;
    // Equal code needs no disassembly: then only launch bounds changed, or the resources of functions that it calls.
    let mut code = differs(kernel).then(|| BothSides {
        base: code.base.get(pair.base),
        head: code.head.get(pair.head),
    });
    let gaps: Vec<String> = code
        .iter()
        .flat_map(|code| [gap(&code.base), gap(&code.head)])
        .flatten()
        .take(1)
        .collect();
    if let Some(BothSides {
        base: Seen::Got(base),
        head: Seen::Got(head),
    }) = &mut code
    {
        name_files_alike(base, head);
    }
    let code = code.as_ref();
    let base = compiled(unit, &facts.base, code.map(|code| &code.base));
    let head = compiled(unit, &facts.head, code.map(|code| &code.head));
    let mut causes = explain_compiled(base, head);
    // If code could not be compared, it means nothing that no rule found a cause.
    causes.retain(|cause| gaps.is_empty() || cause.class != CauseClass::CodeChanged);
    Explanation {
        wrong: None,
        subject: Subject::Unit(unit.clone()),
        causes,
        gaps,
        measured: None,
    }
}

fn compiled<'a>(
    unit: &UnitId,
    facts: &FactsByUnit<'a>,
    code: Option<&'a Seen<CodeFacts>>,
) -> Compiled<'a> {
    let built = facts.get(unit).copied();
    Compiled::alone(unit.arch, built, code.and_then(Seen::got))
}

fn differs(kernel: &Matched) -> bool {
    kernel.pair.base.digest != kernel.pair.head.digest
}

fn facts_by_unit(record: &Record) -> FactsByUnit<'_> {
    record
        .evidence
        .iter()
        .filter_map(|piece| match piece {
            Evidence::Build { unit, facts } => Some((unit, facts.got()?)),
            _ => None,
        })
        .collect()
}
