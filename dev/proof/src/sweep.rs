//! `forms`: every form alone, over special values crossed with each other and random ones. Names
//! the form, the operands and both results of what differs.

use crate::forms::{self, Class, Constant, Form, Operand};
use crate::gpu::{Gpu, Result, Shape};
use crate::job::{Arg, Job};
use crate::words::Random;
use ptxsim::Module;
use rayon::prelude::*;
use std::fmt::Write;
use std::path::Path;

const LANES: usize = 1 << 16;
/// A hash is kept of every lane at this stride of a GPU's results.
const STRIDE: usize = 16;
const PER_MODULE: usize = 24;
/// The largest number of sources that an instruction can have.
const SOURCES: usize = 5;

pub const HEADER: &str = ".version 9.0\n.target sm_90\n.address_size 64\n";

/// The header for forms that only this one architecture has.
pub const HEADER_A: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// A form with its constants chosen.
pub struct Instance {
    pub form: Form,
    pub text: String,
}

/// Builds the instances of a form: more of them if an operand is a constant, because its value is part of the text.
pub fn instances(form: &Form, random: &mut Random) -> Vec<Instance> {
    let number = form
        .operands
        .iter()
        .any(|o| matches!(o, Operand::Number(..)));
    let constant = |o: &Operand| matches!(o, Operand::Source(_, c) if *c != Constant::None);
    let mut shares = vec![0];
    if number {
        shares.resize(8, 0);
    }
    if form.operands.iter().any(constant) {
        shares.extend([100, 60, 60]);
    }
    let dests: Vec<String> = (0..form.dests().len()).map(|k| format!("%x{k}")).collect();
    let sources: Vec<String> = (0..form.sources().len())
        .map(|k| format!("%s{k}"))
        .collect();
    let mut write = |share| Instance {
        form: form.clone(),
        text: form.write(&dests, &sources, share, random).join("\n"),
    };
    shares.into_iter().map(&mut write).collect()
}

/// Writes `.entry NAME(in, out)`. Source k of lane i is the 64-bit word k * lanes + i.
pub fn entry(name: &str, i: &Instance, lanes: usize) -> String {
    let mut t = format!(
        ".visible .entry {name}(.param .u64 pin, .param .u64 pout)\n{{\n.reg .b64 %in, %out, %o;\n\
         .reg .b32 %t, %u, %c, %n, %y<2>;\n"
    );
    let ty = |c: Class| match c {
        Class::H => "b16",
        Class::W => "b32",
        Class::D => "b64",
        Class::P => "pred",
    };
    let (dests, sources) = (i.form.dests(), i.form.sources());
    for (names, classes) in [("%x", &dests), ("%s", &sources)] {
        for (k, c) in classes.iter().enumerate() {
            let _ = writeln!(t, ".reg .{} {names}{k};", ty(*c));
        }
    }
    t += "ld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\nmov.u32 %t, %tid.x;\n\
          mov.u32 %c, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmad.lo.u32 %t, %c, %n, %t;\n\
          mul.wide.u32 %o, %t, 8;\nadd.s64 %in, %in, %o;\nadd.s64 %out, %out, %o;\n";
    for (k, c) in sources.iter().enumerate() {
        let at = k * lanes * 8;
        let _ = match c {
            Class::P => writeln!(
                t,
                "ld.global.b32 %u, [%in+{at}];\nand.b32 %u, %u, 1;\nsetp.ne.u32 %s{k}, %u, 0;"
            ),
            c => writeln!(t, "ld.global.{} %s{k}, [%in+{at}];", ty(*c)),
        };
    }
    t += &i.text;
    t.push('\n');
    for (k, c) in dests.iter().enumerate() {
        let at = k * lanes * 8;
        let _ = match c {
            Class::P => writeln!(
                t,
                "selp.u32 %u, 1, 0, %x{k};\nst.global.b32 [%out+{at}], %u;"
            ),
            c => writeln!(t, "st.global.{} [%out+{at}], %x{k};", ty(*c)),
        };
    }
    t + "ret;\n}\n"
}

/// Returns the words of source `k`. The first half crosses 181 special words with 181, and the rest is random. A lone
/// source of 16 bits takes every value.
fn source(class: Class, k: usize, alone: bool) -> Vec<u64> {
    let mut random = Random::new(1000 + class as u64 * 10 + k as u64);
    let mut word = || match class {
        Class::H => u64::from(random.word16()),
        Class::W | Class::P => u64::from(random.word32()),
        Class::D => random.word64(),
    };
    if alone && class == Class::H {
        return (0..LANES as u64).collect();
    }
    let pool: Vec<u64> = (0..181).map(|_| word()).collect();
    (0..LANES)
        .map(|i| match k {
            0 | 1 if i < 181 * 181 => pool[if k == 0 { i / 181 } else { i % 181 }],
            _ => word(),
        })
        .collect()
}

pub struct Inputs(Vec<Vec<u64>>);

impl Inputs {
    fn of(form: &Form) -> Inputs {
        let classes = form.sources();
        let alone = classes.len() == 1;
        Inputs(
            (0..SOURCES.min(classes.len()))
                .map(|k| source(classes[k], k, alone))
                .collect(),
        )
    }

    /// Returns the bytes of every `stride`th lane.
    fn bytes(&self, stride: usize) -> Vec<u8> {
        self.0
            .iter()
            .flat_map(|s| s.iter().step_by(stride))
            .flat_map(|w| w.to_le_bytes())
            .collect()
    }
}

/// Hashes bytes by FNV-1a, which keeps what a GPU computed without keeping it all.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The outcome of an instance on ptxsim and on the GPU.
pub enum Outcome {
    Equal,
    /// ptxsim refuses the instance, with this message.
    Refused(String),
    /// The GPU's compiler does not take it.
    Invalid(String),
    Differs {
        lanes: usize,
        /// Source values, results of the GPU, and results of ptxsim.
        examples: Vec<(Vec<u64>, Vec<u64>, Vec<u64>)>,
    },
}

/// An outcome, and the hash of what the GPU computed.
type Compared = (Outcome, u64);

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .map(|c| c.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b)))
        .collect()
}

fn job<'a>(name: &'a str, i: &Instance, input: &'a [u8], lanes: usize) -> Job<'a> {
    Job {
        entry: name,
        shape: Shape {
            grid: [lanes as u32 / 256, 1, 1],
            block: [256, 1, 1],
            dynamic_shared: 0,
            cluster: None,
        },
        args: vec![Arg::In(input), Arg::Out(i.form.dests().len() * lanes * 8)],
    }
}

/// Runs an instance on ptxsim. The inner error is the reason why ptxsim refuses it.
fn simulate(
    i: &Instance,
    input: &[u8],
    lanes: usize,
) -> Result<std::result::Result<Vec<u8>, String>> {
    let text = format!("{HEADER}{}", entry("f", i, lanes));
    let module = match Module::load(&text).and_then(Module::complete) {
        Ok(m) => m,
        Err(e) => return Ok(Err(e.to_string())),
    };
    let kernel = module.kernel("f")?;
    let (ours, report) = job("f", i, input, lanes).on_sim(kernel)?;
    match report.findings.first() {
        Some(f) => Err(format!("{}: {f:?}", i.text).into()),
        None => Ok(Ok(ours.concat())),
    }
}

fn compare(gpu: &Gpu, loaded: &crate::gpu::Loaded, name: &str, i: &Instance) -> Result<Compared> {
    let inputs = Inputs::of(&i.form);
    let bytes = inputs.bytes(1);
    let theirs = job(name, i, &bytes, LANES).on_gpu(gpu, loaded)?.concat();
    let kept: Vec<u8> = theirs
        .chunks(8)
        .step_by(STRIDE)
        .flatten()
        .copied()
        .collect();
    let hash = hash(&kept);
    let ours = match simulate(i, &bytes, LANES)? {
        Ok(ours) => words(&ours),
        Err(why) => return Ok((Outcome::Refused(why), hash)),
    };
    let theirs = words(&theirs);
    let outputs = i.form.dests().len();
    let of = |all: &[u64], lane: usize| -> Vec<u64> {
        (0..outputs).map(|k| all[k * LANES + lane]).collect()
    };
    let differing: Vec<usize> = (0..LANES)
        .filter(|&l| of(&ours, l) != of(&theirs, l))
        .collect();
    if differing.is_empty() {
        return Ok((Outcome::Equal, hash));
    }
    // From the start to the end: different kinds of operands.
    let n = differing.len();
    let mut picked: Vec<usize> = (0..20).map(|k| differing[k * (n - 1) / 19]).collect();
    picked.dedup();
    let examples = picked
        .into_iter()
        .map(|l| {
            (
                inputs.0.iter().map(|s| s[l]).collect(),
                of(&theirs, l),
                of(&ours, l),
            )
        })
        .collect();
    let lanes = differing.len();
    Ok((Outcome::Differs { lanes, examples }, hash))
}

pub fn all_instances() -> Vec<Instance> {
    let mut random = Random::new(7);
    forms::all()
        .iter()
        .flat_map(|f| instances(f, &mut random))
        .collect()
}

/// Prints what differs, and returns true if nothing does.
///
/// Writes a line for each instance to `hashes`: the hash of what the GPU computed, and the text.
pub fn run(
    gpu: &Gpu,
    filter: &str,
    hashes: Option<&Path>,
    out: &mut dyn std::io::Write,
) -> Result<bool> {
    let all: Vec<Instance> = all_instances()
        .into_iter()
        .filter(|i| i.text.contains(filter))
        .collect();
    let batches: Vec<&[Instance]> = all.chunks(PER_MODULE).collect();
    let outcomes: Vec<Result<Vec<Compared>>> = batches
        .par_iter()
        .map(|batch| {
            gpu.bind()?;
            let named = |n: usize| format!("f{n}");
            let entries: String = (0..batch.len())
                .map(|n| entry(&named(n), &batch[n], LANES))
                .collect();
            let together = gpu.load(&format!("{HEADER}{entries}"));
            let one = |n: usize| -> Result<Compared> {
                let name = named(n);
                match &together {
                    Ok(loaded) => compare(gpu, loaded, &name, &batch[n]),
                    Err(_) => {
                        match gpu.load(&format!("{HEADER}{}", entry(&name, &batch[n], LANES))) {
                            Ok(loaded) => compare(gpu, &loaded, &name, &batch[n]),
                            Err(e) => Ok((Outcome::Invalid(e.to_string()), 0)),
                        }
                    }
                }
            };
            (0..batch.len()).map(one).collect()
        })
        .collect();
    let (mut equal, mut refused, mut different) = (0, 0, 0);
    let mut lines = String::new();
    for (batch, outcomes) in batches.iter().zip(outcomes) {
        for (i, (outcome, hash)) in batch.iter().zip(outcomes?) {
            let _ = writeln!(lines, "{hash:016x} {}", i.text.replace('\n', " "));
            match outcome {
                Outcome::Equal => equal += 1,
                Outcome::Refused(why) => {
                    refused += 1;
                    writeln!(out, "not built: {}  ({})", i.text, why.replace('\n', " "))?;
                }
                Outcome::Invalid(why) => writeln!(out, "INVALID: {}  ({why})", i.text)?,
                Outcome::Differs { lanes, examples } => {
                    different += 1;
                    writeln!(out, "DIFFERS in {lanes} of {LANES}: {}", i.text)?;
                    for (sources, gpu, sim) in examples {
                        writeln!(out, "    {sources:x?} gpu {gpu:x?} sim {sim:x?}")?;
                    }
                }
            }
        }
    }
    if let Some(path) = hashes {
        std::fs::write(path, lines)?;
    }
    writeln!(
        out,
        "{} instances: {equal} equal, {different} different, {refused} not built",
        all.len()
    )?;
    Ok(different == 0)
}

/// Compares ptxsim with the hashes that `run` wrote on a GPU. Prints the instances that differ, and how many at the
/// end have no hash. Returns false if there is any of either.
pub fn check(hashes: &str, out: &mut dyn std::io::Write) -> Result<bool> {
    let lines: Vec<&str> = hashes.lines().collect();
    check_lines(&lines, &all_instances(), out)
}

fn check_lines(lines: &[&str], all: &[Instance], out: &mut dyn std::io::Write) -> Result<bool> {
    let Some(missing) = all.len().checked_sub(lines.len()) else {
        return Err("these hashes belong to other forms".into());
    };
    let judged: Vec<Result<Option<String>>> = lines
        .par_iter()
        .zip(all)
        .map(|(line, i)| {
            let (hash_there, text) = line.split_once(' ').ok_or("no hash in a line")?;
            if i.text.replace('\n', " ") != text {
                return Err(format!("{text} in the place of {}", i.text).into());
            }
            let input = Inputs::of(&i.form).bytes(STRIDE);
            Ok(match simulate(i, &input, LANES / STRIDE)? {
                Ok(ours) if format!("{:016x}", hash(&ours)) == hash_there => None,
                Ok(_) => Some(format!("DIFFERS: {text}")),
                Err(_) => Some(format!("not built: {text}")),
            })
        })
        .collect();
    let mut different = 0;
    for line in judged {
        if let Some(line) = line? {
            different += usize::from(line.starts_with('D'));
            writeln!(out, "{line}")?;
        }
    }
    if missing > 0 {
        writeln!(out, "{missing} instances have no hash")?;
    }
    Ok(different == 0 && missing == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of GPUs (CALIBRATION.md of ptxsim), every form that differed once among them.
    #[test]
    fn every_form_computes_as_the_gpu_did() {
        let mut out = Vec::new();
        let same = check(include_str!("../fixtures/forms.hashes"), &mut out).unwrap();
        assert!(same, "{}", String::from_utf8_lossy(&out));
        assert!(out.is_empty());
    }

    #[test]
    fn a_form_that_no_gpu_computed_is_missing() {
        let first = include_str!("../fixtures/forms.hashes").lines().next();
        let mut out = Vec::new();
        assert!(!check_lines(&[first.unwrap()], &all_instances()[..2], &mut out).unwrap());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "1 instances have no hash\n"
        );
    }

    #[test]
    fn another_result_is_seen() {
        let first = include_str!("../fixtures/forms.hashes").lines().next();
        let wrong = first.unwrap().replacen(char::is_alphanumeric, "g", 1);
        let mut out = Vec::new();
        assert!(!check_lines(&[&wrong], &all_instances()[..1], &mut out).unwrap());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "DIFFERS: add.u16 %x0, %s0, %s1;\n"
        );
    }
}
