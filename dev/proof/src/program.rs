//! Random programs: what one is, and how it is written as PTX. How one is made is in `make`.
//!
//! Each instruction's result goes to a place of its own in the output, so that a wrong one is
//! named. Every program is defined by the ISA: no races, no uninitialised reads, warp-wide
//! instructions only where the whole warp is, atomics on shared places only where the order of the
//! lanes cannot be seen.

use crate::forms::Class;
use crate::words::Random;
use std::fmt::Write;

/// Threads of a block: two warps.
pub const THREADS: usize = 64;
/// Registers of each class: the first half keeps its input, the second is written.
pub const H: usize = 10;
pub const W: usize = 16;
pub const D: usize = 10;
pub const P: usize = 8;
/// 64-bit words of a thread's own scratch in each of global, shared and local memory.
pub const OWN: usize = 8;
pub const SPACES: [&str; 3] = ["global", "shared", "local"];
/// Places in global and shared memory on which all threads work atomically, one operation each.
pub const TOGETHER: [&str; 14] = [
    "add.u32", "add.s32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32",
    "xor.b32", "inc.u32", "add.u64", "min.s64", "max.u64", "xor.b64",
];
/// 64-bit words of input: registers, own scratch.
const INPUT_WORDS: usize = H + W + D + 1 + 3 * OWN;

#[derive(Clone, Debug)]
pub enum Stmt {
    Op {
        /// The name of the instruction in reports.
        form: String,
        lines: Vec<String>,
        /// Registers whose values are kept, and from which place of the output on.
        dests: Vec<(Class, String)>,
        slot: usize,
        /// The guard before each of the lines.
        guard: Option<String>,
        /// Lines that follow the others, and are never guarded.
        after: Vec<String>,
    },
    If {
        predicate: String,
        /// The place at which the predicate is stored, and from which it is read back for the branch.
        slot: usize,
        then: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    /// Up to four times, differently for each lane.
    Loop {
        times: String,
        depth: usize,
        body: Vec<Stmt>,
    },
}

#[derive(Clone, Debug)]
pub struct Program {
    pub seed: u64,
    pub body: Vec<Stmt>,
    /// Places of the output that statements use.
    pub slots: usize,
}

pub fn register(class: Class, n: usize) -> String {
    match class {
        Class::H => format!("%h{n}"),
        Class::W => format!("%r{n}"),
        Class::D => format!("%d{n}"),
        Class::P => format!("%p{n}"),
    }
}

pub fn count(class: Class) -> usize {
    match class {
        Class::H => H,
        Class::W => W,
        Class::D => D,
        Class::P => P,
    }
}

fn ty(class: Class) -> &'static str {
    match class {
        Class::H => "b16",
        Class::W => "b32",
        Class::D => "b64",
        Class::P => "pred",
    }
}

impl Program {
    /// Returns the number of 64-bit words of output for each thread.
    pub fn output_words(&self) -> usize {
        self.slots + H + W + D + P + 3 * OWN + 1
    }

    /// Returns the size in bytes of the output, of which each thread has `output_words` words.
    pub fn bytes_of(output_words: usize) -> usize {
        8 * THREADS * output_words
    }

    /// Returns the words of input for each thread. The same seed gives the same input.
    pub fn input(&self) -> Vec<u8> {
        Program::input_of(self.seed)
    }

    pub fn input_of(seed: u64) -> Vec<u8> {
        let mut random = Random::new(!seed);
        let word = |k: usize, random: &mut Random| match k {
            k if k < H => u64::from(random.word16()),
            k if k < H + W => u64::from(random.word32()),
            k if k < H + W + D => random.word64(),
            k if k == H + W + D => random.next(),
            k if k % 2 == 0 => random.word64(),
            _ => u64::from(random.word32()) << 32 | u64::from(random.word32()),
        };
        (0..INPUT_WORDS * THREADS)
            .flat_map(|i| word(i / THREADS, &mut random).to_le_bytes())
            .collect()
    }

    /// Global scratch: each thread's own, then the places of all.
    pub const SCRATCH_BYTES: usize = THREADS * OWN * 8 + TOGETHER.len() * 8;

    /// Returns the text that precedes the entries of a module.
    pub fn module_head() -> String {
        let mut random = Random::new(99);
        let table: Vec<String> = (0..16).map(|_| random.word32().to_string()).collect();
        format!(
            "{}.const .align 16 .b32 table[16] = {{{}}};\n",
            crate::sweep::HEADER,
            table.join(", ")
        )
    }

    /// Returns the text of the entry `.entry NAME(in, out, scratch)`.
    pub fn entry(&self, name: &str) -> String {
        let mut t = format!(
            ".visible .entry {name}(.param .u64 pin, .param .u64 pout, .param .u64 pscratch)\n{{\n\
             .shared .align 16 .b8 own[{}];\n.shared .align 16 .b8 all[{}];\n\
             .local .align 16 .b8 mine[{}];\n\
             .reg .b16 %h<{H}>;\n.reg .b32 %r<{W}>, %t<2>, %me, %m32, %i<4>, %n<4>, %y<2>;\n\
             .reg .b64 %d<{D}>, %a<2>, %m64, %in, %out, %gg, %gt, %ss, %st, %sg, %ll, %lg;\n\
             .reg .pred %p<{P}>, %q<4>;\n",
            THREADS * OWN * 8,
            TOGETHER.len() * 8,
            OWN * 8,
        );
        self.prologue(&mut t);
        let mut label = 0;
        write_block(&mut t, &self.body, &mut label);
        self.epilogue(&mut t);
        t += "ret;\n}\n";
        t
    }

    fn prologue(&self, t: &mut String) {
        t.push_str(&format!(
            "mov.u32 %me, %tid.x;\nld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\n\
             ld.param.u64 %gt, [pscratch];\nmul.wide.u32 %a0, %me, {};\nadd.s64 %gg, %gt, %a0;\n\
             add.s64 %gt, %gt, {};\nmov.u64 %ss, own;\nadd.s64 %ss, %ss, %a0;\nmov.u64 %st, all;\n\
             cvta.shared.u64 %sg, %ss;\nmov.u64 %ll, mine;\ncvta.local.u64 %lg, %ll;\n\
             mul.wide.u32 %a0, %me, 8;\nadd.s64 %a1, %in, %a0;\nadd.s64 %out, %out, %a0;\n",
            OWN * 8,
            THREADS * OWN * 8,
        ));
        let mut word = 0;
        let mut at = || {
            word += 1;
            8 * THREADS * (word - 1)
        };
        for class in [Class::H, Class::W, Class::D] {
            for n in 0..count(class) {
                let _ = writeln!(
                    t,
                    "ld.global.{} {}, [%a1+{}];",
                    ty(class),
                    register(class, n),
                    at()
                );
            }
        }
        let _ = writeln!(t, "ld.global.b32 %t0, [%a1+{}];", at());
        for n in 0..P {
            let _ = writeln!(
                t,
                "and.b32 %t1, %t0, {};\nsetp.ne.u32 %p{n}, %t1, 0;",
                1 << n
            );
        }
        for (space, base) in SPACES.iter().zip(["%gg", "%ss", "%ll"]) {
            for n in 0..OWN {
                let _ = writeln!(
                    t,
                    "ld.global.b64 %m64, [%a1+{}];\nst.{space}.b64 [{base}+{}], %m64;",
                    at(),
                    8 * n
                );
            }
        }
        // The places of all begin at zero: in global memory they are, in shared they are made.
        let _ = writeln!(t, "mov.b64 %m64, 0;");
        for n in 0..TOGETHER.len() {
            let _ = writeln!(
                t,
                "setp.eq.u32 %q0, %me, {n};\n@%q0 st.shared.b64 [%st+{}], %m64;",
                8 * n
            );
        }
        t.push_str("bar.sync 0;\n");
    }

    fn epilogue(&self, t: &mut String) {
        let mut slot = self.slots;
        for class in [Class::H, Class::W, Class::D, Class::P] {
            for n in 0..count(class) {
                keep(t, class, &register(class, n), slot);
                slot += 1;
            }
        }
        for (space, base) in SPACES.iter().zip(["%gg", "%ss", "%ll"]) {
            for n in 0..OWN {
                let _ = writeln!(t, "ld.{space}.b64 %m64, [{base}+{}];", 8 * n);
                keep(t, Class::D, "%m64", slot);
                slot += 1;
            }
        }
        t.push_str("bar.sync 0;\nmov.b64 %m64, 0;\n");
        for n in 0..TOGETHER.len() {
            let _ = writeln!(
                t,
                "setp.eq.u32 %q0, %me, {n};\n@%q0 ld.shared.b64 %m64, [%st+{}];",
                8 * n
            );
        }
        keep(t, Class::D, "%m64", slot);
    }

    /// Explains place `slot` of the output.
    pub fn explain(&self, slot: usize) -> String {
        fn find(body: &[Stmt], slot: usize) -> Option<String> {
            body.iter().find_map(|s| match s {
                Stmt::Op {
                    form,
                    lines,
                    slot: first,
                    dests,
                    ..
                } => (*first..first + dests.len())
                    .contains(&slot)
                    .then(|| format!("{form}: {}", lines.join(" "))),
                Stmt::If {
                    then, otherwise, ..
                } => find(then, slot).or_else(|| find(otherwise, slot)),
                Stmt::Loop { body, .. } => find(body, slot),
            })
        }
        find(&self.body, slot).unwrap_or_else(|| match slot - self.slots {
            n if n < H + W + D + P => "a register at the end".into(),
            n if n < H + W + D + P + 3 * OWN => "scratch at the end".into(),
            _ => "a place of all threads in shared memory".into(),
        })
    }

    /// Returns the name of the form whose result `slot` shows, or of the kind of place.
    pub fn form(&self, slot: usize) -> String {
        let text = self.explain(slot);
        text.split(": ").next().unwrap_or(&text).to_owned()
    }

    /// Returns every program with one statement less, or with a branch or loop replaced by its contents.
    pub fn smaller(&self) -> impl Iterator<Item = Program> + '_ {
        (0..size(&self.body)).flat_map(move |n| {
            [false, true].into_iter().filter_map(move |flatten| {
                let mut body = self.body.clone();
                let mut left = n;
                remove(&mut body, &mut left, flatten).then(|| Program {
                    body,
                    ..self.clone()
                })
            })
        })
    }
}

fn size(body: &[Stmt]) -> usize {
    body.iter()
        .map(|s| match s {
            Stmt::Op { .. } => 1,
            Stmt::If {
                then, otherwise, ..
            } => 1 + size(then) + size(otherwise),
            Stmt::Loop { body, .. } => 1 + size(body),
        })
        .sum()
}

/// Removes statement number `n`, counted in the order of the text. With `flatten`, its contents stay. Returns false if
/// that changes nothing.
fn remove(body: &mut Vec<Stmt>, n: &mut usize, flatten: bool) -> bool {
    for at in 0..body.len() {
        if *n == 0 {
            let inner = match body.remove(at) {
                Stmt::Op { .. } if flatten => return false,
                Stmt::If {
                    then, otherwise, ..
                } => [then, otherwise].concat(),
                Stmt::Loop { body, .. } => body,
                Stmt::Op { .. } => Vec::new(),
            };
            if flatten {
                body.splice(at..at, inner);
            }
            return true;
        }
        *n -= 1;
        let done = match &mut body[at] {
            Stmt::Op { .. } => false,
            Stmt::If {
                then, otherwise, ..
            } => {
                let inner = size(then) + size(otherwise);
                if *n < inner {
                    return if *n < size(then) {
                        remove(then, n, flatten)
                    } else {
                        *n -= size(then);
                        remove(otherwise, n, flatten)
                    };
                }
                *n -= inner;
                false
            }
            Stmt::Loop { body, .. } => {
                let inner = size(body);
                if *n < inner {
                    return remove(body, n, flatten);
                }
                *n -= inner;
                false
            }
        };
        if done {
            return true;
        }
    }
    false
}

/// Writes the store of a result to its place of the output.
fn keep(t: &mut String, class: Class, register: &str, slot: usize) {
    let at = 8 * THREADS * slot;
    let _ = match class {
        Class::P => writeln!(
            t,
            "selp.u32 %t0, 1, 0, {register};\nst.volatile.global.b32 [%out+{at}], %t0;"
        ),
        c => writeln!(t, "st.volatile.global.{} [%out+{at}], {register};", ty(c)),
    };
}

/// Stores a result and reads it back, so that ptxas cannot fold one instruction into the next. It takes registers
/// without a type for ones of the type that wrote them, and folds wrongly (CALIBRATION.md).
fn opaque(t: &mut String, class: Class, register: &str, slot: usize) {
    keep(t, class, register, slot);
    let at = 8 * THREADS * slot;
    let _ = match class {
        Class::P => writeln!(
            t,
            "ld.volatile.global.b32 %t0, [%out+{at}];\nsetp.ne.u32 {register}, %t0, 0;"
        ),
        c => writeln!(t, "ld.volatile.global.{} {register}, [%out+{at}];", ty(c)),
    };
}

fn write_block(t: &mut String, body: &[Stmt], label: &mut usize) {
    for s in body {
        match s {
            Stmt::Op {
                lines,
                dests,
                slot,
                guard,
                after,
                ..
            } => {
                for line in lines {
                    let _ = writeln!(t, "{}{line}", guard.as_deref().unwrap_or(""));
                }
                for line in after {
                    let _ = writeln!(t, "{line}");
                }
                for (k, (class, register)) in dests.iter().enumerate() {
                    opaque(t, *class, register, slot + k);
                }
            }
            Stmt::If {
                predicate,
                slot,
                then,
                otherwise,
            } => {
                let n = *label;
                *label += 1;
                keep(t, Class::P, predicate, *slot);
                let at = 8 * THREADS * slot;
                let _ = writeln!(
                    t,
                    "ld.volatile.global.b32 %t0, [%out+{at}];\nsetp.ne.u32 %q3, %t0, 0;\n\
                     @%q3 bra T{n};"
                );
                write_block(t, otherwise, label);
                let _ = writeln!(t, "bra E{n};\nT{n}:");
                write_block(t, then, label);
                let _ = writeln!(t, "E{n}:");
            }
            Stmt::Loop { times, depth, body } => {
                let n = *label;
                *label += 1;
                let _ = writeln!(
                    t,
                    "and.b32 %n{depth}, {times}, 3;\nmov.b32 %i{depth}, 0;\nL{n}:"
                );
                write_block(t, body, label);
                let _ = writeln!(
                    t,
                    "add.s32 %i{depth}, %i{depth}, 1;\n\
                     setp.le.u32 %q{depth}, %i{depth}, %n{depth};\n@%q{depth} bra L{n};"
                );
            }
        }
    }
}
