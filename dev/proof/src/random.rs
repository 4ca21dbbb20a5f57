//! `random`: programs from seeds, on the GPU and in ptxsim, bit for bit. A program that differs is made
//! smaller while it still does.

use crate::forms::{self, Form};
use crate::gpu::{Gpu, Loaded, Result, Shape};
use crate::job::{Arg, Job};
use crate::program::{Program, THREADS};
use crate::sweep;
use ptxsim::Module;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

/// Programs in a module that the driver compiles at once.
const PER_MODULE: usize = 16;
/// Differing programs that are made smaller, one for each form.
const SHRUNK: usize = 40;

/// Smaller programs that are tried for each.
const TRIES: usize = 250;

const SHAPE: Shape = Shape {
    grid: [1, 1, 1],
    block: [THREADS as u32, 1, 1],
    dynamic_shared: 0,
    cluster: None,
};

/// Forms that programs are made of. Which these are is part of what a seed means: a form that
/// ptxsim builds now and did not then is added by `list`, and the hashes taken anew. `neg` and
/// `abs` of pairs are left to `forms`: what becomes of a NaN there depends on what reads it.
pub fn listed_forms() -> Vec<Form> {
    let listed: BTreeSet<&str> = include_str!("../fixtures/forms.list").lines().collect();
    let mut forms = forms::all();
    forms.retain(|f| listed.contains(f.text.as_str()));
    forms
}

/// Returns the forms that ptxsim builds. The others cannot be compared.
pub fn built_forms() -> Vec<Form> {
    let mut random = crate::words::Random::new(1);
    let mut forms = forms::all();
    forms.retain(|f| {
        sweep::instances(f, &mut random).iter().all(|i| {
            let text = format!("{}{}", sweep::HEADER, sweep::entry("f", i, 256));
            Module::load(&text).and_then(Module::complete).is_ok()
        })
    });
    forms
}

/// The first difference between two outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub slot: usize,
    pub lane: usize,
    pub gpu: u64,
    pub sim: u64,
}

pub fn first_difference(theirs: &[u8], ours: &[u8]) -> Option<Difference> {
    let word = |b: &[u8]| b.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b));
    theirs
        .chunks(8)
        .zip(ours.chunks(8))
        .enumerate()
        .map(|(i, (g, s))| Difference {
            slot: i / THREADS,
            lane: i % THREADS,
            gpu: word(g),
            sim: word(s),
        })
        .find(|d| d.gpu != d.sim)
}

fn job<'a>(output_words: usize, name: &'a str, input: &'a [u8]) -> Job<'a> {
    Job {
        entry: name,
        shape: SHAPE,
        args: vec![
            Arg::In(input),
            Arg::Out(Program::bytes_of(output_words)),
            Arg::Out(Program::SCRATCH_BYTES),
        ],
    }
}

/// Runs a program on ptxsim and returns its output: its words, then the scratch that threads share.
pub fn simulate(program: &Program) -> Result<Vec<u8>> {
    let text = format!("{}{}", Program::module_head(), program.entry("p"));
    simulate_text(&text, program.seed, program.output_words())
}

/// Runs the entry `p` of a program's text on ptxsim and returns its output.
pub fn simulate_text(text: &str, seed: u64, output_words: usize) -> Result<Vec<u8>> {
    let module = Module::load(text)?;
    let kernel = module.kernel("p")?;
    let input = Program::input_of(seed);
    let (outputs, report) = job(output_words, "p", &input).on_sim(kernel)?;
    if let Some(f) = report.findings.first() {
        return Err(format!("a finding in a program that has no fault: {f:?}").into());
    }
    Ok(outputs.concat())
}

fn on_gpu(gpu: &Gpu, module: &Loaded, program: &Program, name: &str) -> Result<Vec<u8>> {
    let input = program.input();
    Ok(job(program.output_words(), name, &input)
        .on_gpu(gpu, module)?
        .concat())
}

/// The reason for which a program does not pass.
#[derive(Clone, Debug)]
pub enum Wrong {
    Differs(Difference),
    /// ptxsim ends with a fault, a finding or a refusal.
    Sim(String),
    Gpu(String),
}

fn judge(theirs: Result<Vec<u8>>, ours: Result<Vec<u8>>) -> Option<Wrong> {
    match (theirs, ours) {
        (Err(e), _) => Some(Wrong::Gpu(e.to_string())),
        (_, Err(e)) => Some(Wrong::Sim(e.to_string())),
        (Ok(theirs), Ok(ours)) => first_difference(&theirs, &ours).map(Wrong::Differs),
    }
}

/// A program's seed, the hash of what the GPU computed, and what is wrong.
struct Compared {
    program: Program,
    hash: u64,
    wrong: Option<Wrong>,
}

fn alone(gpu: &Gpu, program: &Program) -> Result<Vec<u8>> {
    let text = format!("{}{}", Program::module_head(), program.entry("p"));
    on_gpu(gpu, &gpu.load(&text)?, program, "p")
}

fn check(gpu: &Gpu, program: &Program) -> Option<Wrong> {
    judge(alone(gpu, program), simulate(program))
}

fn kind(program: &Program, wrong: &Wrong) -> String {
    match wrong {
        Wrong::Differs(d) => program.form(d.slot),
        // Without numbers: one line for each kind of message.
        Wrong::Sim(e) => {
            let e: String = e.chars().filter(|c| !c.is_ascii_digit()).take(90).collect();
            format!("ptxsim: {e}")
        }
        Wrong::Gpu(e) => format!("GPU: {}", e.chars().take(90).collect::<String>()),
    }
}

/// Returns the smallest program found whose first difference is of the same kind.
fn shrink(gpu: &Gpu, program: &Program, wrong: &Wrong) -> (Program, Wrong) {
    let wanted = kind(program, wrong);
    let (mut best, mut why) = (program.clone(), wrong.clone());
    let mut tries = 0;
    'again: loop {
        for smaller in best.smaller().collect::<Vec<_>>() {
            tries += 1;
            if tries > TRIES {
                return (best, why);
            }
            if let Some(w) = check(gpu, &smaller)
                && kind(&smaller, &w) == wanted
            {
                (best, why) = (smaller, w);
                continue 'again;
            }
        }
        return (best, why);
    }
}

/// Prints what differs, and returns true if nothing does.
///
/// Writes a line for each program to `hashes`: its seed and the hash of what the GPU computed.
pub fn run(
    gpu: &Gpu,
    first: u64,
    programs: usize,
    hashes: Option<&Path>,
    out: &mut dyn Write,
) -> Result<bool> {
    let forms = listed_forms();
    writeln!(out, "{}", gpu.name())?;
    let (built, all) = (built_forms().len(), forms::all().len());
    writeln!(out, "{} forms of {built} built of {all}", forms.len())?;
    let seeds: Vec<u64> = (first..first + programs as u64).collect();
    let start = std::time::Instant::now();
    let all: Vec<Compared> = seeds
        .par_chunks(PER_MODULE)
        .flat_map_iter(|seeds| {
            let programs: Vec<Program> = seeds.iter().map(|&s| Program::new(s, &forms)).collect();
            compare(gpu, programs)
        })
        .collect();
    writeln!(
        out,
        "{programs} programs in {:.0} s",
        start.elapsed().as_secs_f64()
    )?;
    if let Some(path) = hashes {
        let line = |c: &Compared| format!("{} {:016x}\n", c.program.seed, c.hash);
        std::fs::write(path, all.iter().map(line).collect::<String>())?;
    }
    for c in all.iter().filter(|c| c.wrong.is_some()) {
        let (seed, words) = (c.program.seed, c.program.output_words());
        // The part of it that `failures` keeps.
        writeln!(out, "seed {seed} output_words {words} gpu {:016x}", c.hash)?;
    }
    let failures: Vec<(Program, Wrong)> = all
        .into_iter()
        .filter_map(|c| Some((c.program, c.wrong?)))
        .collect();
    let mut by_kind: BTreeMap<String, Vec<&(Program, Wrong)>> = BTreeMap::new();
    for failure in &failures {
        by_kind
            .entry(kind(&failure.0, &failure.1))
            .or_default()
            .push(failure);
    }
    for (kind, all) in &by_kind {
        let seeds: Vec<u64> = all.iter().take(8).map(|f| f.0.seed).collect();
        writeln!(out, "{} programs: {kind}  seeds {seeds:?}", all.len())?;
    }
    let firsts: Vec<&(Program, Wrong)> = by_kind.values().map(|v| v[0]).take(SHRUNK).collect();
    let shrunk: Vec<(Program, Wrong)> = firsts
        .par_iter()
        .map(|(program, wrong)| {
            let _ = gpu.bind();
            shrink(gpu, program, wrong)
        })
        .collect();
    for (program, wrong) in &shrunk {
        writeln!(out, "seed {}: {wrong:x?}", program.seed)?;
        if let Wrong::Differs(d) = wrong {
            writeln!(out, "  {}", program.explain(d.slot))?;
        }
        writeln!(out, "  {:#?}", program.body)?;
    }
    writeln!(
        out,
        "{programs} programs from seed {first}: {} differ",
        failures.len()
    )?;
    Ok(failures.is_empty())
}

/// Every program has to run to its end in ptxsim without a finding.
pub fn simulate_all(first: u64, programs: usize, out: &mut dyn Write) -> Result<bool> {
    let forms = listed_forms();
    let failed: Vec<String> = (first..first + programs as u64)
        .into_par_iter()
        .filter_map(|seed| {
            let e = simulate(&Program::new(seed, &forms)).err()?;
            Some(format!("seed {seed}: {e}"))
        })
        .collect();
    for line in &failed {
        writeln!(out, "{line}")?;
    }
    Ok(failed.is_empty())
}

/// Compares ptxsim with the hashes that `run` wrote on a GPU, and prints what differs. Returns true if nothing does.
pub fn check_hashes(hashes: &str, out: &mut dyn Write) -> Result<bool> {
    let forms = listed_forms();
    let lines: Vec<&str> = hashes.lines().collect();
    let different: Vec<String> = lines
        .par_iter()
        .filter_map(|line| {
            let (seed, hash) = line.split_once(' ')?;
            let program = Program::new(seed.parse().ok()?, &forms);
            match simulate(&program) {
                Ok(ours) if format!("{:016x}", sweep::hash(&ours)) == hash => None,
                Ok(_) => Some(format!("seed {seed} differs")),
                Err(e) => Some(format!("seed {seed}: {e}")),
            }
        })
        .collect();
    for line in &different {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{} of {} differ", different.len(), lines.len())?;
    Ok(different.is_empty())
}

/// Compares programs in one module. Programs that do not compile together are tried alone.
fn compare(gpu: &Gpu, programs: Vec<Program>) -> Vec<Compared> {
    let name = |n: usize| format!("p{n}");
    let entries: String = (0..programs.len())
        .map(|n| programs[n].entry(&name(n)))
        .collect();
    let together = gpu
        .bind()
        .and_then(|()| gpu.load(&format!("{}{entries}", Program::module_head())));
    let one = |(n, program): (usize, Program)| {
        let theirs = match &together {
            Ok(module) => on_gpu(gpu, module, &program, &name(n)),
            Err(_) => alone(gpu, &program),
        };
        let hash = theirs.as_ref().map_or(0, |t| sweep::hash(t));
        let wrong = judge(theirs, simulate(&program));
        Compared {
            program,
            hash,
            wrong,
        }
    };
    programs.into_iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_load_run_clean_and_depend_on_the_seed_alone() {
        let forms = listed_forms();
        for seed in 0..40 {
            let program = Program::new(seed, &forms);
            let again = Program::new(seed, &forms);
            assert_eq!(program.entry("p"), again.entry("p"));
            let output = simulate(&program).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert_eq!(output, simulate(&again).unwrap());
            assert_eq!(first_difference(&output, &output), None);
        }
        assert_ne!(
            Program::new(1, &forms).entry("p"),
            Program::new(2, &forms).entry("p")
        );
    }

    #[test]
    fn one_bit_is_a_difference_and_has_a_name() {
        let forms = listed_forms();
        let program = Program::new(3, &forms);
        let ours = simulate(&program).unwrap();
        let mut theirs = ours.clone();
        let lane = 17;
        theirs[8 * (2 * THREADS + lane)] ^= 1;
        let d = first_difference(&theirs, &ours).unwrap();
        assert_eq!((d.slot, d.lane, d.gpu ^ d.sim), (2, lane, 1));
        let wrong = judge(Ok(theirs), Ok(ours.clone())).unwrap();
        assert!(matches!(&wrong, Wrong::Differs(x) if *x == d));
        assert_eq!(kind(&program, &wrong), program.form(2));
        assert!(judge(Ok(ours.clone()), Ok(ours.clone())).is_none());
        assert!(matches!(
            judge(Ok(ours), Err("a fault".into())),
            Some(Wrong::Sim(_))
        ));
    }

    /// The results of an H100 (CALIBRATION.md of ptxsim).
    #[test]
    fn programs_compute_as_the_gpu_did() {
        let mut out = Vec::new();
        let same = check_hashes(include_str!("../fixtures/random.hashes"), &mut out).unwrap();
        assert!(same, "{}", String::from_utf8_lossy(&out));
        assert!(!check_hashes("3 0123456789abcdef", &mut out).unwrap());
    }

    #[test]
    fn smaller_programs_are_programs() {
        let forms = listed_forms();
        let program = Program::new(5, &forms);
        let all: Vec<Program> = program.smaller().collect();
        assert!(all.len() >= program.body.len());
        for p in all.iter().step_by(7) {
            simulate(p).unwrap();
        }
    }
}
