//! The forms of PTX instructions that are compared: every scalar one of the ISA for sm_90 whose
//! result the ISA defines, whether ptxsim builds it or not. A form is an opcode and kinds of
//! operands; what computes with it is in `sweep` and `program`.
//!
//! `mul` and `add` of floats always carry a rounding modifier: without one ptxas may fuse them.

use crate::words::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// 16, 32 and 64 bits; untyped, as PTX's `.b` registers are.
    H,
    W,
    D,
    P,
}

/// A constant that may replace a source register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    None,
    Int,
    F32,
    F64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    Dest(Class),
    /// Two destinations that are written as in `p|q`.
    DestPair,
    Source(Class, Constant),
    NotP,
    /// A 32-bit register brought below a power of two: the ISA leaves more undefined.
    Below(u32),
    /// A number from the first to the last.
    Number(u32, u32),
    Braces(Vec<Operand>),
    /// A byte or half of a register.
    Part(Box<Operand>, &'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The form as the lists of this program write it.
    pub text: String,
    pub op: String,
    pub operands: Vec<Operand>,
}

impl Form {
    /// `add.s32 =w,w,wi`: `=` a destination, h w d p a register of the class (with i, f or g an
    /// integer, f32 or f64 constant may stand there), `!p` a negated predicate, `<256` a
    /// register below that, `5:9` a number, `w.b2` or `=w.h1` a part,
    /// `{h;h}` braces.
    fn parse(text: &str) -> Form {
        let (op, rest) = text.split_once(' ').unwrap_or((text, ""));
        Form {
            text: text.to_owned(),
            op: op.to_owned(),
            operands: rest.split(',').map(operand).collect(),
        }
    }

    pub fn sources(&self) -> Vec<Class> {
        fn of(o: &Operand, out: &mut Vec<Class>) {
            match o {
                Operand::Source(c, _) => out.push(*c),
                Operand::NotP => out.push(Class::P),
                Operand::Below(_) => out.push(Class::W),
                Operand::Braces(inner) => inner.iter().for_each(|o| of(o, out)),
                Operand::Part(whole, _) => of(whole, out),
                _ => {}
            }
        }
        let mut out = Vec::new();
        self.operands.iter().for_each(|o| of(o, &mut out));
        out
    }

    pub fn dests(&self) -> Vec<Class> {
        fn of(o: &Operand, out: &mut Vec<Class>) {
            match o {
                Operand::Dest(c) => out.push(*c),
                Operand::DestPair => out.extend([Class::P, Class::P]),
                Operand::Braces(inner) => inner.iter().for_each(|o| of(o, out)),
                Operand::Part(whole, _) => of(whole, out),
                _ => {}
            }
        }
        let mut out = Vec::new();
        self.operands.iter().for_each(|o| of(o, &mut out));
        out
    }

    /// The instruction, its registers in the order of their places, and before it what brings
    /// operands into their range (into `%y0` and up). `constants`: of 100 places that allow one,
    /// how many get one.
    pub fn write(
        &self,
        dests: &[String],
        sources: &[String],
        constants: usize,
        random: &mut Random,
    ) -> Vec<String> {
        let (mut d, mut s) = (dests.iter(), sources.iter());
        let (mut lines, mut operands) = (Vec::new(), Vec::new());
        for o in &self.operands {
            let mut text = write_operand(o, &mut d, &mut s, constants, random);
            if let Operand::Below(limit) = o {
                let y = format!("%y{}", lines.len());
                lines.push(format!("and.b32 {y}, {text}, {};", limit - 1));
                text = y;
            }
            operands.push(text);
        }
        lines.push(format!("{} {};", self.op, operands.join(", ")));
        lines
    }
}

fn write_operand<'a>(
    o: &Operand,
    d: &mut impl Iterator<Item = &'a String>,
    s: &mut impl Iterator<Item = &'a String>,
    constants: usize,
    random: &mut Random,
) -> String {
    let mut dest = || d.next().cloned().unwrap_or_default();
    match o {
        Operand::Dest(_) => dest(),
        Operand::DestPair => {
            let p = dest();
            format!("{p}|{}", dest())
        }
        Operand::Source(class, constant) => {
            let register = s.next().cloned().unwrap_or_default();
            if *constant == Constant::None || !random.chance(constants) {
                return register;
            }
            match (constant, class) {
                (Constant::F32, _) => format!("0f{:08X}", random.word32()),
                // Compilers give a NaN among constants another sign: not one of those.
                (Constant::F64, _) => loop {
                    let word = random.word64();
                    if !f64::from_bits(word).is_nan() {
                        return format!("0d{word:016X}");
                    }
                },
                (_, Class::H) => format!("{}", random.word16() as i16),
                (_, Class::D) => format!("{}", random.word64() as i64),
                _ => format!("{}", random.word32() as i32),
            }
        }
        Operand::Below(_) => s.next().cloned().unwrap_or_default(),
        Operand::NotP => format!("!{}", s.next().cloned().unwrap_or_default()),
        Operand::Number(first, last) => {
            (*first + random.below((last - first + 1) as usize) as u32).to_string()
        }
        Operand::Part(whole, part) => {
            let whole = write_operand(whole, d, s, constants, random);
            format!("{whole}{part}")
        }
        Operand::Braces(inner) => {
            let inner: Vec<String> = inner
                .iter()
                .map(|o| write_operand(o, d, s, constants, random))
                .collect();
            format!("{{{}}}", inner.join(", "))
        }
    }
}

fn class(letter: Option<char>) -> Class {
    match letter {
        Some('h') => Class::H,
        Some('d') => Class::D,
        Some('p') => Class::P,
        _ => Class::W,
    }
}

const PARTS: [&str; 6] = [".b0", ".b1", ".b2", ".b3", ".h0", ".h1"];

fn operand(text: &str) -> Operand {
    let part = |part: &&'static str| Some((operand(text.strip_suffix(*part)?), *part));
    if let Some((whole, part)) = PARTS.iter().find_map(part) {
        return Operand::Part(Box::new(whole), part);
    }
    let mut letters = text.chars();
    match letters.next() {
        Some('{') => Operand::Braces(text[1..text.len() - 1].split(';').map(operand).collect()),
        Some('=') if text == "=p|=p" => Operand::DestPair,
        Some('=') => Operand::Dest(class(letters.next())),
        Some('!') => Operand::NotP,
        Some('<') => Operand::Below(text[1..].parse().unwrap_or(1)),
        Some(c) if c.is_ascii_digit() => {
            let (first, last) = text.split_once(':').unwrap_or((text, text));
            Operand::Number(first.parse().unwrap_or(0), last.parse().unwrap_or(0))
        }
        c => Operand::Source(
            class(c),
            match letters.next() {
                Some('i') => Constant::Int,
                Some('f') => Constant::F32,
                Some('g') => Constant::F64,
                _ => Constant::None,
            },
        ),
    }
}

pub struct List(Vec<Form>);

impl List {
    pub fn add(&mut self, text: impl AsRef<str>) {
        self.0.push(Form::parse(text.as_ref()));
    }

    /// Adds a form for each choice of the words of each list, put together with dots.
    pub fn product(&mut self, lists: &[&[&str]], operands: &str) {
        let mut all = vec![String::new()];
        for list in lists {
            all = all
                .iter()
                .flat_map(|head| {
                    list.iter().map(move |word| match (head.as_str(), *word) {
                        (_, "") => head.clone(),
                        ("", word) => word.to_owned(),
                        (head, word) => format!("{head}.{word}"),
                    })
                })
                .collect();
        }
        all.iter()
            .for_each(|op| self.add(format!("{op} {operands}")));
    }
}

pub const ROUND: &[&str] = &["rn", "rz", "rm", "rp"];
pub const FTZ: &[&str] = &["", "ftz"];
pub const SAT: &[&str] = &["", "sat"];

pub fn all() -> Vec<Form> {
    let mut l = List(Vec::new());
    integer(&mut l);
    logic(&mut l);
    single(&mut l);
    double(&mut l);
    half(&mut l);
    crate::comparisons::all(&mut l);
    crate::conversions::integers(&mut l);
    crate::conversions::floats(&mut l);
    moves(&mut l);
    crate::comparisons::packed(&mut l);
    // Later additions stand last: the hashes of the others stay where they are.
    crate::conversions::finite(&mut l);
    pairs(&mut l);
    video(&mut l);
    l.0
}

pub fn letter(ty: &str) -> &'static str {
    match ty.trim_start_matches(|c: char| c.is_ascii_alphabetic()) {
        "8" | "16" => "h",
        "64" => "d",
        _ => "w",
    }
}

pub fn bits(ty: &str) -> u32 {
    let digits = ty.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    digits.parse().unwrap_or(32)
}

/// ptxas reads constant positions and lengths of bit fields modulo the width, and the 64-bit forms
/// do not cut registers down to a byte: what lies beyond is not compared.
fn integer(l: &mut List) {
    for ty in ["u16", "s16", "u32", "s32", "u64", "s64"] {
        let c = letter(ty);
        for op in ["add", "sub", "min", "max", "div", "rem", "mul.lo", "mul.hi"] {
            l.add(format!("{op}.{ty} ={c},{c},{c}i"));
        }
        l.add(format!("mad.lo.{ty} ={c},{c},{c}i,{c}i"));
        l.add(format!("mad.hi.{ty} ={c},{c},{c}i,{c}i"));
        l.add(format!("sad.{ty} ={c},{c},{c}i,{c}i"));
        if ty.starts_with('s') {
            l.add(format!("abs.{ty} ={c},{c}"));
            l.add(format!("neg.{ty} ={c},{c}"));
        }
    }
    for (ty, from, to) in [
        ("u16", "h", "w"),
        ("s16", "h", "w"),
        ("u32", "w", "d"),
        ("s32", "w", "d"),
    ] {
        l.add(format!("mul.wide.{ty} ={to},{from},{from}i"));
        l.add(format!("mad.wide.{ty} ={to},{from},{from}i,{to}i"));
    }
    l.product(&[&["add", "sub"], &["sat.s32"]], "=w,w,wi");
    l.add("mad.hi.sat.s32 =w,w,wi,w");
    l.product(&[&["mul24"], &["lo", "hi"], &["u32", "s32"]], "=w,w,wi");
    l.product(&[&["mad24"], &["lo", "hi"], &["u32", "s32"]], "=w,w,wi,w");
    l.add("mad24.hi.sat.s32 =w,w,wi,w");
    for op in ["popc", "clz"] {
        l.add(format!("{op}.b32 =w,w"));
        l.add(format!("{op}.b64 =w,d"));
    }
    l.add("brev.b32 =w,w");
    l.add("brev.b64 =d,d");
    for ty in ["u32", "s32", "u64", "s64"] {
        let (c, n) = (letter(ty), bits(ty) - 1);
        l.add(format!("bfind.{ty} =w,{c}"));
        l.add(format!("bfind.shiftamt.{ty} =w,{c}"));
        l.add(format!("bfe.{ty} ={c},{c},<256,<256"));
        l.add(format!("bfe.{ty} ={c},{c},0:{},0:{}", n, n));
    }
    for ty in ["b32", "b64"] {
        let (c, n) = (letter(ty), bits(ty) - 1);
        l.add(format!("bfi.{ty} ={c},{c},{c},<256,<256"));
        l.add(format!("bfi.{ty} ={c},{c},{c},0:{},0:{}", n, n));
    }
    l.product(&[&["bmsk"], &["clamp", "wrap"], &["b32"]], "=w,w,wi");
    l.product(
        &[&["szext"], &["clamp", "wrap"], &["u32", "s32"]],
        "=w,w,wi",
    );
    l.add("fns.b32 =w,w,0:31,w");
    l.product(&[&["dp4a"], &["u32", "s32"], &["u32", "s32"]], "=w,w,w,wi");
    l.product(
        &[&["dp2a"], &["lo", "hi"], &["u32", "s32"], &["u32", "s32"]],
        "=w,w,w,wi",
    );
}

fn logic(l: &mut List) {
    for op in ["and", "or", "xor"] {
        l.add(format!("{op}.pred =p,p,p"));
        for ty in ["b16", "b32", "b64"] {
            let c = letter(ty);
            l.add(format!("{op}.{ty} ={c},{c},{c}i"));
        }
    }
    l.add("not.pred =p,p");
    for ty in ["b16", "b32", "b64"] {
        let c = letter(ty);
        l.add(format!("not.{ty} ={c},{c}"));
        l.add(format!("cnot.{ty} ={c},{c}"));
        l.add(format!("shl.{ty} ={c},{c},w"));
        l.add(format!("shl.{ty} ={c},{c},0:70"));
        for kind in ["b", "u", "s"] {
            let ty = format!("{kind}{}", &ty[1..]);
            l.add(format!("shr.{ty} ={c},{c},w"));
            l.add(format!("shr.{ty} ={c},{c},0:70"));
        }
    }
    l.add("lop3.b32 =w,w,w,w,0:255");
    l.product(
        &[&["shf"], &["l", "r"], &["wrap", "clamp"], &["b32"]],
        "=w,w,w,w",
    );
    l.product(
        &[&["shf"], &["l", "r"], &["wrap", "clamp"], &["b32"]],
        "=w,w,w,0:40",
    );
    l.add("prmt.b32 =w,w,w,wi");
    l.product(
        &[&["prmt.b32"], &["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]],
        "=w,w,w,w",
    );
}

fn single(l: &mut List) {
    l.product(
        &[&["add", "sub", "mul"], ROUND, FTZ, SAT, &["f32"]],
        "=w,w,wf",
    );
    l.product(&[&["fma"], ROUND, FTZ, SAT, &["f32"]], "=w,w,wf,wf");
    l.product(&[&["div"], ROUND, FTZ, &["f32"]], "=w,w,w");
    l.product(&[&["rcp", "sqrt"], ROUND, FTZ, &["f32"]], "=w,w");
    l.product(
        &[
            &["min", "max"],
            FTZ,
            &["", "NaN"],
            &["", "xorsign.abs"],
            &["f32"],
        ],
        "=w,w,wf",
    );
    l.product(&[&["neg", "abs"], FTZ, &["f32"]], "=w,w");
    l.add("copysign.f32 =w,w,w");
    for (ty, c) in [("f32", "w"), ("f64", "d")] {
        l.product(
            &[
                &["testp"],
                &[
                    "finite",
                    "infinite",
                    "number",
                    "notanumber",
                    "normal",
                    "subnormal",
                ],
                &[ty],
            ],
            &format!("=p,{c}"),
        );
    }
}

fn double(l: &mut List) {
    l.product(&[&["add", "sub", "mul", "div"], ROUND, &["f64"]], "=d,d,dg");
    l.product(&[&["fma"], ROUND, &["f64"]], "=d,d,d,dg");
    l.product(&[&["rcp", "sqrt"], ROUND, &["f64"]], "=d,d");
    l.product(&[&["min", "max", "copysign"], &["f64"]], "=d,d,d");
    l.product(&[&["neg", "abs"], &["f64"]], "=d,d");
}

fn half(l: &mut List) {
    for (ty, c) in [("f16", "h"), ("f16x2", "w")] {
        let (two, three) = (format!("={c},{c},{c}"), format!("={c},{c},{c},{c}"));
        l.product(&[&["add.rn", "sub.rn", "mul.rn"], FTZ, SAT, &[ty]], &two);
        l.product(&[&["fma.rn"], FTZ, &["", "sat", "relu"], &[ty]], &three);
        l.product(&[&["neg", "abs"], FTZ, &[ty]], &format!("={c},{c}"));
        l.product(
            &[
                &["min", "max"],
                FTZ,
                &["", "NaN"],
                &["", "xorsign.abs"],
                &[ty],
            ],
            &two,
        );
    }
    for (ty, c) in [("bf16", "h"), ("bf16x2", "w")] {
        let (two, three) = (format!("={c},{c},{c}"), format!("={c},{c},{c},{c}"));
        l.product(&[&["add.rn", "sub.rn", "mul.rn"], &[ty]], &two);
        l.product(&[&["fma.rn"], &["", "relu"], &[ty]], &three);
        l.product(&[&["neg", "abs"], &[ty]], &format!("={c},{c}"));
        l.product(
            &[&["min", "max"], &["", "NaN"], &["", "xorsign.abs"], &[ty]],
            &two,
        );
    }
}

/// Integers side by side in a word, as nvcc writes them for DPX and for `__vabsdiffu4` and its like.
fn pairs(l: &mut List) {
    l.product(&[&["add", "min", "max"], &["u16x2", "s16x2"]], "=w,w,w");
    l.product(&[&["min", "max"], &["relu"], &["s16x2", "s32"]], "=w,w,w");
    l.product(
        &[&["vabsdiff2", "vabsdiff4"], &["u32.u32.u32"], &["", "add"]],
        "=w,w,w,w",
    );
    l.product(&[&["cvt.pack.sat"], &["s16", "u16"], &["s32"]], "=w,w,w");
    l.product(
        &[
            &["cvt.pack.sat"],
            &["s8", "u8", "s4", "u4", "s2", "u2"],
            &["s32.b32"],
        ],
        "=w,w,w,w",
    );
}

/// Adds scalar video instructions, each with parts of its own. `.sat`, a second minimum or maximum, and `vabsdiff` into a
/// part are left out: the simulator refuses them, because an H200 computes something else than the ISA says.
fn video(l: &mut List) {
    let ops = ["vadd", "vsub", "vabsdiff", "vmin", "vmax"];
    let types = &["u32", "s32"];
    for (n, op) in ops.into_iter().enumerate() {
        let (a, b) = (PARTS[n], PARTS[(n + 3) % 6]);
        l.product(&[&[op], types, types, types], "=w,w,w");
        l.product(&[&[op], types, types, types], &format!("=w,w{a},w{b}"));
        l.product(&[&[op], types, types, types, &["add"]], "=w,w,w,w");
        if op != "vabsdiff" {
            l.product(&[&[op], types, types, types], &format!("=w{b},w{b},w{a},w"));
        }
    }
    let relations = &["eq", "ne", "lt", "le", "gt", "ge"];
    l.product(&[&["vset"], types, types, relations], "=w,w,w.h1");
    l.product(
        &[&["vset"], types, types, relations, &["add"]],
        "=w,w.b1,w.b2,w",
    );
    l.product(&[&["vset"], types, types, relations], "=w.b2,w.h0,w,w");
}

fn moves(l: &mut List) {
    l.add("mov.b16 =h,hi");
    l.add("mov.b32 =w,wi");
    l.add("mov.b64 =d,di");
    l.add("mov.pred =p,p");
    l.add("mov.f32 =w,wf");
    l.add("mov.f64 =d,dg");
    l.add("mov.b32 {=h;=h},w");
    l.add("mov.b64 {=w;=w},d");
    l.add("mov.b64 {=h;=h;=h;=h},d");
    l.add("mov.b32 =w,{h;h}");
    l.add("mov.b64 =d,{w;w}");
    l.add("mov.b64 =d,{h;h;h;h}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_written_as_ptx() {
        let form = Form::parse("setp.lt.and.s32 =p|=p,w,wi,!p");
        assert_eq!(form.dests(), [Class::P, Class::P]);
        assert_eq!(form.sources(), [Class::W, Class::W, Class::P]);
        let names = |n: &[&str]| n.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        let text = form.write(
            &names(&["%p1", "%p2"]),
            &names(&["%r1", "%r2", "%p3"]),
            0,
            &mut Random::new(1),
        );
        assert_eq!(text, ["setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;"]);
        let form = Form::parse("mov.b32 {=h;=h},w");
        let text = form.write(
            &names(&["%h1", "%h2"]),
            &names(&["%r1"]),
            0,
            &mut Random::new(1),
        );
        assert_eq!(text, ["mov.b32 {%h1, %h2}, %r1;"]);
        let form = Form::parse("bfe.u32 =w,w,<256,0:0");
        let text = form.write(
            &names(&["%r1"]),
            &names(&["%r2", "%r3"]),
            0,
            &mut Random::new(1),
        );
        assert_eq!(
            text,
            ["and.b32 %y0, %r3, 255;", "bfe.u32 %r1, %r2, %y0, 0;"]
        );
    }

    #[test]
    fn no_form_twice() {
        let all = all();
        let mut seen = std::collections::BTreeSet::new();
        for f in &all {
            assert!(seen.insert(format!("{f:?}")), "{f:?}");
        }
        assert!(all.len() > 800, "{}", all.len());
    }
}
