//! Random programs: what one is, how it is made from a seed, how it is written as PTX.
//!
//! Each instruction's result goes to a place of its own in the output, so that a wrong one is
//! named. Every program is defined by the ISA: no races, no uninitialised reads, warp-wide
//! instructions only where the whole warp is, atomics on shared places only where the order of the
//! lanes cannot be seen.

use crate::forms::{Class, Form};
use crate::words::Random;
use std::fmt::Write;

/// Two warps.
pub const THREADS: usize = 64;
/// Registers of each class: the first half keeps its input, the second is written.
const H: usize = 10;
const W: usize = 16;
const D: usize = 10;
const P: usize = 8;
/// 64-bit words of a thread's own scratch in each of global, shared and local memory.
const OWN: usize = 8;
const SPACES: [&str; 3] = ["global", "shared", "local"];
/// Places in global and shared memory on which all threads work atomically, one operation each.
const TOGETHER: [&str; 14] = [
    "add.u32", "add.s32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32", "or.b32",
    "xor.b32", "inc.u32", "add.u64", "min.s64", "max.u64", "xor.b64",
];
/// 64-bit words of input: registers, own scratch.
const INPUT_WORDS: usize = H + W + D + 1 + 3 * OWN;

#[derive(Clone, Debug)]
pub enum Stmt {
    Op {
        /// What the instruction is called in reports.
        form: String,
        lines: Vec<String>,
        /// Registers whose values are kept, and from which place of the output on.
        dests: Vec<(Class, String)>,
        slot: usize,
        /// What stands before each of the lines.
        guard: Option<String>,
        /// Lines after those, never guarded.
        after: Vec<String>,
    },
    If {
        predicate: String,
        /// Where the predicate is kept, and read back for the branch.
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
    slots: usize,
}

struct Maker<'a> {
    random: Random,
    forms: &'a [Form],
    slots: usize,
}

fn register(class: Class, n: usize) -> String {
    match class {
        Class::H => format!("%h{n}"),
        Class::W => format!("%r{n}"),
        Class::D => format!("%d{n}"),
        Class::P => format!("%p{n}"),
    }
}

fn count(class: Class) -> usize {
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

/// The type of a result whose NaN the ISA leaves open, and hardware too: it depends on the order in
/// which ptxas puts the operands of a sum, or on whether it folds a sign into what reads it.
fn open_nan(op: &str) -> Option<&'static str> {
    let (name, ty) = (op.split('.').next()?, op.rsplit('.').next()?);
    match (name, ty) {
        ("add" | "sub" | "mul" | "div" | "fma" | "min" | "max" | "neg" | "abs", "f64") => {
            Some("f64")
        }
        ("neg" | "abs", "f32") => Some("f32"),
        ("neg" | "abs", "f16") => Some("f16"),
        ("neg" | "abs", "bf16") => Some("bf16"),
        _ => None,
    }
}

/// Makes a NaN in the register the canonical one.
fn canonical(ty: &str, register: &str) -> Vec<String> {
    let (bits, nan) = match ty {
        "f64" => (64, 0x7ff8_0000_0000_0000_u64),
        "f32" => (32, 0x7fff_ffff),
        _ => (16, 0x7fff),
    };
    vec![
        format!("setp.nan.{ty} %q3, {register}, {register};"),
        format!("@%q3 mov.b{bits} {register}, {nan};"),
    ]
}

impl Maker<'_> {
    fn any(&mut self, class: Class) -> String {
        register(class, self.random.below(count(class)))
    }

    fn written(&mut self, class: Class) -> String {
        let half = count(class) / 2;
        register(class, half + self.random.below(half))
    }

    /// Different registers: no instruction may write one twice.
    fn several(&mut self, classes: &[Class]) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for &c in classes {
            loop {
                let r = self.written(c);
                if !out.contains(&r) {
                    out.push(r);
                    break;
                }
            }
        }
        out
    }

    fn op(
        &mut self,
        form: impl Into<String>,
        lines: Vec<String>,
        dests: Vec<(Class, String)>,
    ) -> Stmt {
        let slot = self.slots;
        self.slots += dests.len();
        Stmt::Op {
            form: form.into(),
            lines,
            dests,
            slot,
            guard: None,
            after: Vec::new(),
        }
    }

    fn scalar(&mut self) -> Stmt {
        let form = &self.forms[self.random.below(self.forms.len())];
        let dests = self.several(&form.dests());
        // Of two equal operands ptxas makes a copy, NaN and all.
        let mut sources: Vec<String> = Vec::new();
        for c in form.sources() {
            let mut s = self.any(c);
            while sources.contains(&s) {
                s = self.any(c);
            }
            sources.push(s);
        }
        let lines = form.write(&dests, &sources, 15, &mut self.random);
        let dests = form.dests().into_iter().zip(dests).collect();
        let mut stmt = self.op(form.op.clone(), lines, dests);
        // ptxas 13.0 converts the old value of a guarded `set` whose guard is false.
        let guarded = self.random.chance(15) && !form.op.starts_with("set.");
        let wanted = guarded.then(|| {
            let not = if self.random.chance(50) { "!" } else { "" };
            format!("@{not}{} ", self.any(Class::P))
        });
        if let Stmt::Op {
            guard,
            after,
            dests,
            ..
        } = &mut stmt
        {
            *guard = wanted;
            if let Some(ty) = open_nan(&form.op)
                && let Some((_, d)) = dests.first()
            {
                *after = canonical(ty, d);
            }
        }
        stmt
    }

    /// A sum, difference or product of several words.
    fn carry(&mut self) -> Stmt {
        let (class, suffix) = if self.random.chance(70) {
            (Class::W, "32")
        } else {
            (Class::D, "64")
        };
        let sign = self.random.pick(&["u", "s"]);
        let length = 2 + self.random.below(3);
        let dests = self.several(&vec![class; length]);
        let kind = self.random.below(3);
        let mut lines = Vec::new();
        for (k, d) in dests.iter().enumerate() {
            let (first, last) = (k == 0, k + 1 == length);
            let c = if first { "" } else { "c" };
            let cc = if last { "" } else { ".cc" };
            let (a, b) = (self.any(class), self.any(class));
            lines.push(match kind {
                0 => format!("add{c}{cc}.{sign}{suffix} {d}, {a}, {b};"),
                1 => format!("sub{c}{cc}.{sign}{suffix} {d}, {a}, {b};"),
                _ => {
                    let half = self.random.pick(&["lo", "hi"]);
                    let e = self.any(class);
                    format!("mad{c}.{half}{cc}.{sign}{suffix} {d}, {a}, {b}, {e};")
                }
            });
        }
        let name = ["add", "sub", "mad"][kind];
        self.op(
            format!("{name}c.{sign}{suffix}"),
            lines,
            dests.into_iter().map(|d| (class, d)).collect(),
        )
    }

    /// An address in the thread's own scratch, aligned to `size`: lines that compute it, operand.
    fn own(&mut self, space: usize, generic: bool, size: usize) -> (Vec<String>, String) {
        let base = ["%gg", "%sg", "%lg"][space];
        let base = if generic {
            base
        } else {
            ["%gg", "%ss", "%ll"][space]
        };
        if self.random.chance(60) {
            let offset = self.random.below(OWN * 8 / size) * size;
            return (Vec::new(), format!("[{base}+{offset}]"));
        }
        let mask = (OWN * 8 - 1) & !(size - 1);
        let by = self.any(Class::W);
        (
            vec![
                format!("and.b32 %t0, {by}, {mask};"),
                "cvt.u64.u32 %a0, %t0;".into(),
                format!("add.s64 %a0, %a0, {base};"),
            ],
            "[%a0]".into(),
        )
    }

    fn memory(&mut self) -> Stmt {
        const TYPES: [(&str, usize); 14] = [
            ("b8", 1),
            ("u8", 1),
            ("s8", 1),
            ("b16", 2),
            ("u16", 2),
            ("s16", 2),
            ("b32", 4),
            ("u32", 4),
            ("s32", 4),
            ("f32", 4),
            ("b64", 8),
            ("u64", 8),
            ("s64", 8),
            ("f64", 8),
        ];
        let (ty, bytes) = self.random.pick(&TYPES);
        let vector = self.random.pick(&[1, 1, 2, 4]);
        let vector = if bytes * vector > 16 { 2 } else { vector };
        let fits: &[Class] = match (bytes, ty) {
            (1 | 2, _) => &[Class::H, Class::W, Class::D],
            (4, "f32") => &[Class::W],
            (4, _) => &[Class::W, Class::D],
            _ => &[Class::D],
        };
        let class = self.random.pick(fits);
        let v = ["", "", ".v2", "", ".v4"][vector];
        let braces = |r: &[String]| {
            if vector == 1 {
                r[0].clone()
            } else {
                format!("{{{}}}", r.join(", "))
            }
        };
        if self.random.chance(12) {
            // What nobody writes: the constant bank, and the input through the read-only path.
            let (name, base) = self
                .random
                .pick(&[("const", "table"), ("global.nc", "%in")]);
            let dests = self.several(&vec![class; vector]);
            let by = self.any(Class::W);
            let mask = 63 & !(bytes * vector - 1);
            let lines = vec![
                format!("and.b32 %t0, {by}, {mask};"),
                "cvt.u64.u32 %a0, %t0;".into(),
                format!("mov.b64 %a1, {base};"),
                "add.s64 %a0, %a0, %a1;".into(),
                format!("ld.{name}{v}.{ty} {}, [%a0];", braces(&dests)),
            ];
            let dests = dests.into_iter().map(|d| (class, d)).collect();
            return self.op(format!("ld.{name}{v}.{ty}"), lines, dests);
        }
        let space = self.random.below(3);
        let generic = self.random.chance(25);
        let (mut lines, at) = self.own(space, generic, bytes * vector);
        let word = if generic {
            String::new()
        } else {
            format!(".{}", SPACES[space])
        };
        if self.random.chance(50) {
            let sources: Vec<String> = (0..vector).map(|_| self.any(class)).collect();
            lines.push(format!("st{word}{v}.{ty} {at}, {};", braces(&sources)));
            self.op(format!("st{word}{v}.{ty}"), lines, Vec::new())
        } else {
            let volatile = if space < 2 && self.random.chance(10) {
                ".volatile"
            } else {
                ""
            };
            let dests = self.several(&vec![class; vector]);
            lines.push(format!(
                "ld{volatile}{word}{v}.{ty} {}, {at};",
                braces(&dests)
            ));
            let dests = dests.into_iter().map(|d| (class, d)).collect();
            self.op(format!("ld{word}{v}.{ty}"), lines, dests)
        }
    }

    /// On the thread's own scratch: what comes back is known too.
    fn atomic(&mut self) -> Stmt {
        const OPS: [(&str, Class); 30] = [
            ("add.u32", Class::W),
            ("add.s32", Class::W),
            ("add.u64", Class::D),
            ("add.f32", Class::W),
            ("add.f64", Class::D),
            ("add.noftz.f16", Class::H),
            ("add.noftz.f16x2", Class::W),
            ("add.noftz.bf16", Class::H),
            ("add.noftz.bf16x2", Class::W),
            ("and.b32", Class::W),
            ("or.b32", Class::W),
            ("xor.b32", Class::W),
            ("and.b64", Class::D),
            ("or.b64", Class::D),
            ("xor.b64", Class::D),
            ("exch.b32", Class::W),
            ("exch.b64", Class::D),
            ("cas.b16", Class::H),
            ("cas.b32", Class::W),
            ("cas.b64", Class::D),
            ("min.u32", Class::W),
            ("max.u32", Class::W),
            ("min.s32", Class::W),
            ("max.s32", Class::W),
            ("min.u64", Class::D),
            ("max.u64", Class::D),
            ("min.s64", Class::D),
            ("max.s64", Class::D),
            ("inc.u32", Class::W),
            ("dec.u32", Class::W),
        ];
        let (name, class) = self.random.pick(&OPS);
        let space = self.random.below(2);
        let generic = self.random.chance(20);
        let size = match class {
            Class::H => 2,
            Class::D => 8,
            _ => 4,
        };
        let (mut lines, at) = self.own(space, generic, size);
        let word = if generic {
            String::new()
        } else {
            format!(".{}", SPACES[space])
        };
        let (b, c) = (self.any(class), self.any(class));
        let third = if name.starts_with("cas") {
            format!(", {c}")
        } else {
            String::new()
        };
        let d = self.written(class);
        lines.push(format!("atom{word}.{name} {d}, {at}, {b}{third};"));
        // A NaN that two f64 add up to is whichever of them.
        if name == "add.f64" {
            let kept = if generic { "" } else { &word };
            lines.push(format!("ld{kept}.b64 %m64, {at};"));
            lines.extend(canonical("f64", "%m64"));
            lines.push(format!("st{kept}.b64 {at}, %m64;"));
        }
        self.op(format!("atom{word}.{name}"), lines, vec![(class, d)])
    }

    /// All threads on one place: only its final value is looked at.
    fn together(&mut self) -> Stmt {
        let n = self.random.below(TOGETHER.len());
        let (name, space) = (TOGETHER[n], self.random.below(2));
        let class = if name.ends_with("64") {
            Class::D
        } else {
            Class::W
        };
        let base = ["%gt", "%st"][space];
        let value = match name {
            "inc.u32" => "11".to_string(),
            _ => self.any(class),
        };
        let line = format!("red.{}.{name} [{base}+{}], {value};", SPACES[space], 8 * n);
        self.op(
            format!("red.{}.{name}", SPACES[space]),
            vec![line],
            Vec::new(),
        )
    }

    /// Instructions of the whole warp or block.
    fn convergent(&mut self) -> Stmt {
        let w = |d: String| vec![(Class::W, d)];
        match self.random.below(9) {
            0 | 1 => {
                let mode = self.random.pick(&["up", "down", "bfly", "idx"]);
                let d = self.several(&[Class::W, Class::P]);
                let a = self.any(Class::W);
                let b = if self.random.chance(50) {
                    self.random.below(40).to_string()
                } else {
                    self.any(Class::W)
                };
                let c = match self.random.below(4) {
                    0 => "31".into(),
                    1 => "0".into(),
                    2 => format!("{}", self.random.next() & 0x1f1f),
                    _ => self.any(Class::W),
                };
                let line = format!("shfl.sync.{mode}.b32 {}|{}, {a}, {b}, {c}, -1;", d[0], d[1]);
                let dests = vec![(Class::W, d[0].clone()), (Class::P, d[1].clone())];
                self.op(format!("shfl.sync.{mode}.b32"), vec![line], dests)
            }
            2 => {
                let mode = self.random.pick(&["all", "any", "uni"]);
                let (d, not) = (self.written(Class::P), self.random.pick(&["", "!"]));
                let line = format!(
                    "vote.sync.{mode}.pred {d}, {not}{}, -1;",
                    self.any(Class::P)
                );
                self.op(format!("vote.sync.{mode}"), vec![line], vec![(Class::P, d)])
            }
            3 => {
                let d = self.written(Class::W);
                let line = format!("vote.sync.ballot.b32 {d}, {}, -1;", self.any(Class::P));
                self.op("vote.sync.ballot", vec![line], w(d))
            }
            4 => {
                let (mode, wide) = (self.random.pick(&["any", "all"]), self.random.chance(40));
                let (class, suffix) = if wide {
                    (Class::D, "64")
                } else {
                    (Class::W, "32")
                };
                let (d, a) = (self.several(&[Class::W, Class::P]), self.any(class));
                // Equal values are rare: in half of the cases most bits are masked off.
                let mut lines = vec![format!("mov.b{suffix} %m{suffix}, {a};")];
                if self.random.chance(60) {
                    lines.push(format!("and.b{suffix} %m{suffix}, %m{suffix}, 3;"));
                }
                let (to, mut dests) = (&d[0], w(d[0].clone()));
                if mode == "all" {
                    lines.push(format!(
                        "match.all.sync.b{suffix} {to}|{}, %m{suffix}, -1;",
                        d[1]
                    ));
                    dests.push((Class::P, d[1].clone()));
                } else {
                    lines.push(format!("match.any.sync.b{suffix} {to}, %m{suffix}, -1;"));
                }
                self.op(format!("match.{mode}.sync.b{suffix}"), lines, dests)
            }
            5 | 6 => {
                let name = self.random.pick(&[
                    "add.u32", "add.s32", "min.u32", "max.u32", "min.s32", "max.s32", "and.b32",
                    "or.b32", "xor.b32",
                ]);
                let (d, a) = (self.written(Class::W), self.any(Class::W));
                // Half of them by part of the warp, which names itself.
                let lines = if self.random.chance(50) {
                    vec![format!("redux.sync.{name} {d}, {a}, -1;")]
                } else {
                    let p = self.any(Class::P);
                    vec![
                        format!("vote.sync.ballot.b32 %m32, {p}, -1;"),
                        format!("@{p} redux.sync.{name} {d}, {a}, %m32;"),
                    ]
                };
                self.op(format!("redux.sync.{name}"), lines, w(d))
            }
            7 => {
                // Another thread's scratch, between two barriers.
                let word = self.random.below(OWN);
                let by = self.random.below(THREADS);
                let d = self.written(Class::D);
                let lines = vec![
                    "bar.sync 0;".into(),
                    format!("xor.b32 %t0, %me, {by};"),
                    format!("mul.wide.u32 %a0, %t0, {};", OWN * 8),
                    "mov.u64 %a1, own;".into(),
                    "add.s64 %a0, %a0, %a1;".into(),
                    format!("ld.shared.b64 {d}, [%a0+{}];", 8 * word),
                    "bar.sync 0;".into(),
                ];
                self.op("exchange", lines, vec![(Class::D, d)])
            }
            _ => {
                let p = self.any(Class::P);
                match self.random.pick(&["popc.u32", "and.pred", "or.pred"]) {
                    "popc.u32" => {
                        let d = self.written(Class::W);
                        let line = format!("bar.red.popc.u32 {d}, 0, {p};");
                        self.op("bar.red.popc", vec![line], w(d))
                    }
                    name => {
                        let d = self.written(Class::P);
                        let line = format!("bar.red.{name} {d}, 0, {p};");
                        self.op(format!("bar.red.{name}"), vec![line], vec![(Class::P, d)])
                    }
                }
            }
        }
    }

    fn block(&mut self, statements: usize, depth: usize) -> Vec<Stmt> {
        (0..statements).map(|_| self.statement(depth)).collect()
    }

    fn statement(&mut self, depth: usize) -> Stmt {
        match self.random.below(100) {
            0..12 => self.memory(),
            12..16 => self.carry(),
            16..20 => self.atomic(),
            20..22 => self.together(),
            22..30 if depth == 0 => self.convergent(),
            30..34 if depth < 3 => {
                let (a, b) = (1 + self.random.below(5), self.random.below(4));
                self.slots += 1;
                Stmt::If {
                    slot: self.slots - 1,
                    predicate: self.any(Class::P),
                    then: self.block(a, depth + 1),
                    otherwise: self.block(b, depth + 1),
                }
            }
            34..36 if depth < 3 => {
                let n = 1 + self.random.below(5);
                Stmt::Loop {
                    times: self.any(Class::W),
                    depth,
                    body: self.block(n, depth + 1),
                }
            }
            _ => self.scalar(),
        }
    }
}

impl Program {
    /// `forms`: those that the program may use.
    pub fn new(seed: u64, forms: &[Form]) -> Program {
        let mut maker = Maker {
            random: Random::new(seed),
            forms,
            slots: 0,
        };
        let statements = 25 + maker.random.below(30);
        let body = maker.block(statements, 0);
        Program {
            seed,
            body,
            slots: maker.slots,
        }
    }

    /// Places of 64 bits for each thread in the output.
    pub fn output_words(&self) -> usize {
        self.slots + H + W + D + P + 3 * OWN + 1
    }

    pub fn output_bytes(&self) -> usize {
        8 * THREADS * self.output_words()
    }

    /// Words for each thread; the same seed, the same input.
    pub fn input(&self) -> Vec<u8> {
        let mut random = Random::new(!self.seed);
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

    /// What stands before the entries.
    pub fn module_head() -> String {
        let mut random = Random::new(99);
        let table: Vec<String> = (0..16).map(|_| random.word32().to_string()).collect();
        format!(
            "{}.const .align 16 .b32 table[16] = {{{}}};\n",
            crate::sweep::HEADER,
            table.join(", ")
        )
    }

    /// `.entry NAME(in, out, scratch)`
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

    /// What place `slot` of the output shows.
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

    /// The name of the form whose result `slot` shows, or of the kind of place.
    pub fn form(&self, slot: usize) -> String {
        let text = self.explain(slot);
        text.split(": ").next().unwrap_or(&text).to_owned()
    }

    /// Every program with one statement less, or with a branch or loop replaced by its contents.
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

/// Takes statement number `n` away (counted in the order of the text); with `flatten` leaves what
/// it holds. False where that changes nothing.
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

/// Stores a result, and reads it back where it goes on (`opaque`).
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

/// Through memory, so that ptxas cannot fold one instruction into the next: it takes registers
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
