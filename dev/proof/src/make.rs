//! Makes a random program from a seed: chooses its statements and their registers.

use crate::forms::{Class, Form};
use crate::program::{OWN, Program, SPACES, Stmt, THREADS, TOGETHER, count, register};
use crate::words::Random;

struct Maker<'a> {
    random: Random,
    forms: &'a [Form],
    slots: usize,
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

    /// Picks different registers, because no instruction may write one twice.
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
        // For two equal operands ptxas makes a copy, NaN and all.
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
        // ptxas 13.0 converts the old value of a guarded `set` whose guard is false, and drops the
        // guard of a `testp`.
        let unguarded = ["set.", "testp."].iter().any(|w| form.op.starts_with(w));
        let guarded = self.random.chance(15) && !unguarded;
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

    /// Makes a sum, difference or product of several words.
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
            // Memory that nobody writes: the constant bank, and the input through the read-only path.
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

    /// Makes a statement that the whole warp or block executes.
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
}
