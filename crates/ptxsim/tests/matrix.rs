//! Matrix instructions against a scalar model that is written here from the tables of the PTX ISA
//! (9.7.15). All values are small integers, so every sum is exact whatever its order.
#![allow(clippy::unwrap_used, clippy::enum_variant_names)]

mod common;
use common::*;
use ptxsim::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum E {
    F16,
    Bf16,
    Tf32,
    F32,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
    F64,
}

impl E {
    fn word(self) -> &'static str {
        match self {
            E::F16 => "f16",
            E::Bf16 => "bf16",
            E::Tf32 => "tf32",
            E::F32 => "f32",
            E::E4m3 => "e4m3",
            E::E5m2 => "e5m2",
            E::S8 => "s8",
            E::U8 => "u8",
            E::S4 => "s4",
            E::U4 => "u4",
            E::B1 => "b1",
            E::S32 => "s32",
            E::F64 => "f64",
        }
    }

    fn bits(self) -> usize {
        match self {
            E::F16 | E::Bf16 => 16,
            E::Tf32 | E::F32 | E::S32 => 32,
            E::F64 => 64,
            E::S4 | E::U4 => 4,
            E::B1 => 1,
            _ => 8,
        }
    }

    fn whole(self, elements: usize) -> usize {
        (elements * self.bits()).div_ceil(8)
    }

    /// Puts `v` at element `at`.
    fn put(self, v: i32, bytes: &mut [u8], at: usize) {
        match self.bits() {
            bits if bits < 8 => {
                let (byte, shift) = (at * bits / 8, at * bits % 8);
                bytes[byte] |= (v as u8 & ((1 << bits) - 1)) << shift;
            }
            bits => bytes[at * bits / 8..][..bits / 8].copy_from_slice(&self.encode(v)),
        }
    }

    fn encode(self, v: i32) -> Vec<u8> {
        let f = v as f32;
        match self {
            E::F16 => half::f16::from_f32(f).to_le_bytes().to_vec(),
            E::Bf16 => half::bf16::from_f32(f).to_le_bytes().to_vec(),
            E::Tf32 | E::F32 => f.to_le_bytes().to_vec(),
            E::E4m3 => vec![float8::F8E4M3::from_f32(f).to_bits()],
            E::E5m2 => vec![float8::F8E5M2::from_f32(f).to_bits()],
            E::S8 | E::U8 | E::S4 | E::U4 | E::B1 => vec![v as u8],
            E::S32 => v.to_le_bytes().to_vec(),
            E::F64 => f64::from(v).to_le_bytes().to_vec(),
        }
    }

    fn value(self, r: &mut Random) -> i32 {
        let v = (r.next() % 7) as i32;
        match self {
            E::B1 => v & 1,
            E::U8 | E::U4 => v,
            _ => v - 3,
        }
    }
}

/// Row and column of element `i` of a lane: (A, B, C), as the ISA's tables say.
fn place(shape: &str, part: char, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let low = |yes: bool| if yes { group } else { group + 8 };
    match (shape, part) {
        ("m8n8k4", 'a') => (group, thread),
        ("m8n8k4", 'b') => (thread, group),
        ("m8n8k4" | "m8n8k16 8" | "m8n8k32 4" | "m8n8k128 1", 'c') => (group, thread * 2 + i),
        ("m8n8k16 8", 'a') => (group, thread * 4 + i),
        ("m8n8k16 8", _) => (thread * 4 + i, group),
        ("m8n8k32 4", 'a') => (group, thread * 8 + i),
        ("m8n8k32 4", _) => (thread * 8 + i, group),
        ("m8n8k128 1", 'a') => (group, thread * 32 + i),
        ("m8n8k128 1", _) => (thread * 32 + i, group),
        (_, 'c') => (low(i < 2), thread * 2 + (i & 1)),
        ("m16n8k16", 'a') => (
            low(i < 2 || (4..6).contains(&i)),
            thread * 2 + (i & 1) + if i < 4 { 0 } else { 8 },
        ),
        ("m16n8k16", 'b') => (thread * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, group),
        ("m16n8k8", 'a') => (low(i < 2), thread * 2 + (i & 1)),
        ("m16n8k8", 'b') => (thread * 2 + i, group),
        ("m16n8k4 tf32", 'a') => (low(i == 0), thread),
        ("m16n8k4 tf32", 'b') => (thread, group),
        ("m16n8k8 tf32", 'a') => (
            low(i.is_multiple_of(2)),
            if i < 2 { thread } else { thread + 4 },
        ),
        ("m16n8k8 tf32", 'b') => (if i == 0 { thread } else { thread + 4 }, group),
        ("m16n8k16 8", 'a') => (low(i < 4), thread * 4 + (i & 3)),
        ("m16n8k16 8", 'b') => (thread * 4 + (i & 3), group),
        ("m16n8k32 8", 'a') => (
            low(i < 4 || (8..12).contains(&i)),
            thread * 4 + (i & 3) + if i < 8 { 0 } else { 16 },
        ),
        ("m16n8k32 8", 'b') => (thread * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, group),
        ("m16n8k32 4", 'a') => (low(i < 8), thread * 8 + (i & 7)),
        ("m16n8k32 4", 'b') => (thread * 8 + (i & 7), group),
        ("m16n8k64 4", 'a') => (
            low(i < 8 || (16..24).contains(&i)),
            thread * 8 + (i & 7) + if i < 16 { 0 } else { 32 },
        ),
        ("m16n8k64 4", 'b') => (thread * 8 + (i & 7) + if i < 8 { 0 } else { 32 }, group),
        ("m16n8k128 1", 'a') => (low(i < 32), thread * 32 + (i & 31)),
        ("m16n8k128 1", 'b') => (thread * 32 + (i & 31), group),
        ("m16n8k256 1", 'a') => (
            low(i < 32 || (64..96).contains(&i)),
            thread * 32 + (i & 31) + if i < 64 { 0 } else { 128 },
        ),
        ("m16n8k256 1", 'b') => (thread * 32 + (i & 31) + if i < 32 { 0 } else { 128 }, group),
        (_, 'a') if shape.ends_with("f64") => (low(i.is_multiple_of(2)), thread + 4 * (i / 2)),
        (_, 'b') if shape.ends_with("f64") => (thread + 4 * i, group),
        _ => panic!("{shape} {part}"),
    }
}

/// How an element of A and one of B are put together, and what stands for it in the instruction.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Multiply,
    Saturate,
    Xor,
    And,
}

impl How {
    /// Before the types and after them.
    fn words(self) -> [&'static str; 2] {
        match self {
            How::Multiply => ["", ""],
            How::Saturate => [".satfinite", ""],
            How::Xor => ["", ".xor.popc"],
            How::And => ["", ".and.popc"],
        }
    }
}

fn numbers(shape: &str) -> [usize; 3] {
    let mut it = shape[1..].split(['n', 'k']).map(|n| n.parse().unwrap());
    [(); 3].map(|()| it.next().unwrap())
}

/// A matrix of small integers.
fn matrix(rows: usize, columns: usize, e: E, r: &mut Random) -> Vec<Vec<i32>> {
    (0..rows)
        .map(|_| (0..columns).map(|_| e.value(r)).collect())
        .collect()
}

fn product(a: &[Vec<i32>], b: &[Vec<i32>], c: &[Vec<i32>], how: How) -> Vec<Vec<i32>> {
    let both = |x: i32, y: i32| match how {
        How::Multiply | How::Saturate => x * y,
        How::Xor => i32::from(x != y),
        How::And => i32::from(x == 1 && y == 1),
    };
    let sum = |i: usize, j: usize| -> i32 { (0..b.len()).map(|k| both(a[i][k], b[k][j])).sum() };
    let add = |c: i32, s: i32| match how {
        How::Saturate => c.saturating_add(s),
        _ => c.wrapping_add(s),
    };
    (0..c.len())
        .map(|i| (0..c[0].len()).map(|j| add(c[i][j], sum(i, j))).collect())
        .collect()
}

fn run(text: &str, buffers: &[Vec<u8>], threads: u32) -> (Vec<u8>, Report) {
    let module = load(text);
    let kernel = module.kernel("k").unwrap();
    let mut memory = Memory::default();
    let pointers: Vec<u64> = buffers.iter().map(|b| put(&mut memory, "x", b)).collect();
    let args: Vec<Arg> = pointers.iter().map(|&p| Arg::Ptr(p)).collect();
    let p = params(kernel, &args);
    let report = launch(
        kernel,
        [1, 1, 1],
        [threads, 1, 1],
        0,
        &p,
        &mut memory,
        limits(),
    );
    let n = buffers[buffers.len() - 1].len();
    (
        memory.read(*pointers.last().unwrap(), n).unwrap().to_vec(),
        clean(report),
    )
}

const HEAD: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// Each lane's fragments come from memory, and its result goes there, register by register.
fn mma(shape: &str, types: [E; 4]) {
    mma_as(shape, types, How::Multiply);
}

fn mma_as(shape: &str, [a, b, c, d]: [E; 4], how: How) {
    let key = match (shape, a) {
        (s, E::Tf32) => format!("{s} tf32"),
        (s, E::F64) if s != "m8n8k4" => format!("{s} f64"),
        (s, _) if a.bits() <= 8 => format!("{s} {}", a.bits()),
        (s, _) => s.to_string(),
    };
    let [m, n, k] = numbers(shape);
    let wide = a == E::F64;
    let unit = if wide { 8 } else { 4 };
    let registers = |e: E, elements: usize| elements * e.bits() / 256 / unit;
    let counts = [
        registers(a, m * k),
        registers(b, k * n),
        registers(c, m * n),
        registers(d, m * n),
    ];
    let mut r = Random(shape.len() as u64 + a.bits() as u64);
    let mut parts = [
        matrix(m, k, a, &mut r),
        matrix(k, n, b, &mut r),
        matrix(m, n, c, &mut r),
    ];
    if c == E::S32 {
        // Sums that leave 32 bits, some of them.
        let far = |v: &mut i32| *v = if *v < 0 { i32::MIN - *v } else { i32::MAX - *v };
        parts[2].iter_mut().flatten().for_each(far);
    }
    let (class, ty) = if wide { ("%rd", "b64") } else { ("%r", "b32") };
    let mut body = String::new();
    let mut first = 10;
    let mut lists = Vec::new();
    let mut buffers = Vec::new();
    for (p, count) in counts.iter().enumerate() {
        let names: Vec<String> = (0..*count)
            .map(|i| format!("{class}{}", first + i))
            .collect();
        first += count;
        body += &format!(
            "ld.param.u64 %rd1, [p{p}];\nmul.wide.u32 %rd2, %r1, {};\nadd.u64 %rd{}, %rd1, %rd2;\n",
            count * unit,
            p + 3
        );
        if p < 3 {
            for (i, name) in names.iter().enumerate() {
                body += &format!("ld.global.{ty} {name}, [%rd{}+{}];\n", p + 3, i * unit);
            }
        }
        lists.push(names);
        let (e, letter) = ([a, b, c, d][p], ['a', 'b', 'c', 'c'][p]);
        let mut bytes = vec![0; 32 * count * unit];
        let per_lane = count * unit * 8 / e.bits();
        for (lane, i) in (0..32).flat_map(|lane| (0..per_lane).map(move |i| (lane, i))) {
            if p < 3 {
                let (row, column) = place(&key, letter, lane, i);
                e.put(parts[p][row][column], &mut bytes, lane * per_lane + i);
            }
        }
        buffers.push(bytes);
    }
    let list = |i: usize| format!("{{{}}}", lists[i].join(", "));
    body += &format!(
        "mma.sync.aligned.{shape}.row.col{}.{}.{}.{}.{}{} {}, {}, {}, {};\n",
        how.words()[0],
        d.word(),
        a.word(),
        b.word(),
        c.word(),
        how.words()[1],
        list(3),
        list(0),
        list(1),
        list(2)
    );
    for (i, name) in lists[3].iter().enumerate() {
        body += &format!("st.global.{ty} [%rd6+{}], {name};\n", i * unit);
    }
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)\n{{ .reg .b32 %r<60>; .reg .b64 %rd<60>;\nmov.u32 %r1, %tid.x;\n{body}ret; }}"
    );
    let want = product(&parts[0], &parts[1], &parts[2], how);
    let mut expected = Vec::new();
    for lane in 0..32 {
        for i in 0..counts[3] * unit * 8 / d.bits() {
            let (row, column) = place(&key, 'c', lane, i);
            expected.extend(d.encode(want[row][column]));
        }
    }
    let (got, _) = run(&text, &buffers, 32);
    assert!(got == expected, "{shape} {a:?} {b:?} {c:?} {d:?}");
}

#[test]
fn mma_sync() {
    use E::*;
    for shape in ["m16n8k8", "m16n8k16"] {
        for (c, d) in [(F32, F32), (F16, F16), (F16, F32), (F32, F16)] {
            mma(shape, [F16, F16, c, d]);
        }
        mma(shape, [Bf16, Bf16, F32, F32]);
    }
    mma("m16n8k4", [Tf32, Tf32, F32, F32]);
    mma("m16n8k8", [Tf32, Tf32, F32, F32]);
    for shape in ["m16n8k16", "m16n8k32"] {
        for (a, b) in [(E4m3, E4m3), (E4m3, E5m2), (E5m2, E4m3), (E5m2, E5m2)] {
            mma(shape, [a, b, F32, F32]);
            mma(shape, [a, b, F16, F16]);
        }
    }
    for shape in ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"] {
        mma(shape, [F64, F64, F64, F64]);
    }
}

#[test]
fn mma_sync_of_integers() {
    use E::*;
    for how in [How::Multiply, How::Saturate] {
        for shape in ["m8n8k16", "m16n8k16", "m16n8k32"] {
            for (a, b) in [(S8, S8), (S8, U8), (U8, S8), (U8, U8)] {
                mma_as(shape, [a, b, S32, S32], how);
            }
        }
        for shape in ["m8n8k32", "m16n8k32", "m16n8k64"] {
            for (a, b) in [(S4, S4), (S4, U4), (U4, S4), (U4, U4)] {
                mma_as(shape, [a, b, S32, S32], how);
            }
        }
    }
    for shape in ["m8n8k128", "m16n8k128", "m16n8k256"] {
        mma_as(shape, [B1, B1, S32, S32], How::Xor);
        mma_as(shape, [B1, B1, S32, S32], How::And);
    }
}

/// Sums of d may go into registers that held others of c.
#[test]
fn results_may_overwrite_addends() {
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p0)\n{{ .reg .b32 %r<9>; .reg .b64 %rd<3>;\n\
         mov.u32 %r1, 5;\nmov.u32 %r2, 6;\nmov.u32 %r3, 0;\n\
         mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {{%r2, %r1}}, {{%r3}}, {{%r3}}, {{%r1, %r2}};\n\
         mov.u32 %r4, %tid.x;\nmul.wide.u32 %rd1, %r4, 8;\nld.param.u64 %rd2, [p0];\n\
         add.u64 %rd2, %rd2, %rd1;\nst.global.v2.u32 [%rd2], {{%r1, %r2}};\nret; }}"
    );
    let (got, _) = run(&text, &[vec![0; 256]], 32);
    assert_eq!(got[..8], [6, 0, 0, 0, 5, 0, 0, 0]);
}

#[test]
fn what_no_gpu_multiplies_is_refused() {
    for op in [
        "mma.sync.aligned.m16n8k16.row.col.s32.s4.s4.s32",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32",
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f64.f64.f32",
        "mma.sync.aligned.m16n8k16.row.col.f16.e4m3.e4m3.f32",
        "wmma.mma.sync.aligned.row.row.m8n8k32.s32.s4.s4.s32",
        "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.tf32.tf32.f32",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32.satfinite",
        "wmma.mma.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
    ] {
        let text = format!(
            "{HEAD}.visible .entry k()\n{{ .reg .b32 %r<9>;\n{op} {{%r1, %r2}}, {{%r3}}, {{%r4}}, {{%r1, %r2}};\nret; }}"
        );
        match Module::load(&text).and_then(Module::complete) {
            Err(LoadError::Unsupported { form, .. }) => assert_eq!(form, op),
            Err(other) => panic!("{op}: {other}"),
            Ok(_) => panic!("{op} is built"),
        }
    }
}

/// Through memory: load, multiply, store.
fn wmma(shape: &str, ab: E, cd: [E; 2], layouts: [&str; 4]) {
    wmma_as(shape, ab, cd, layouts, "global", How::Multiply);
}

fn wmma_as(shape: &str, ab: E, [c, d]: [E; 2], layouts: [&str; 4], space: &str, how: How) {
    let [m, n, k] = numbers(shape);
    let mut r = Random(77);
    let parts = [
        matrix(m, k, ab, &mut r),
        matrix(k, n, ab, &mut r),
        matrix(m, n, c, &mut r),
    ];
    // Lines of memory are longer than they have to be, by 8 elements or 16 bytes.
    let lay = |x: &[Vec<i32>], e: E, layout: &str| -> (Vec<u8>, usize) {
        let (rows, columns) = (x.len(), x[0].len());
        let (lines, length) = if layout == "row" {
            (rows, columns)
        } else {
            (columns, rows)
        };
        let stride = length + 8.max(128 / e.bits());
        let mut bytes = vec![0; e.whole(lines * stride)];
        for (i, row) in x.iter().enumerate() {
            for (j, &v) in row.iter().enumerate() {
                let at = if layout == "row" {
                    i * stride + j
                } else {
                    j * stride + i
                };
                e.put(v, &mut bytes, at);
            }
        }
        (bytes, stride)
    };
    let want = product(&parts[0], &parts[1], &parts[2], how);
    let (expected, d_stride) = lay(&want, d, layouts[3]);
    let mut buffers = Vec::new();
    let mut strides = Vec::new();
    for (p, e) in [ab, ab, c].into_iter().enumerate() {
        let (bytes, stride) = lay(&parts[p], e, layouts[p]);
        buffers.push(bytes);
        strides.push(stride);
    }
    buffers.push(vec![0; expected.len()]);
    let count = |part: usize, e: E| match (part, e) {
        (0 | 1, E::F16) => 8,
        (0, _) => m * k * e.bits() / 32 / e.bits().max(32),
        (1, _) => k * n * e.bits() / 32 / e.bits().max(32),
        _ => m * n * e.bits() / 32 / e.bits().max(32),
    };
    let class = if d == E::F64 { "%rd" } else { "%r" };
    let mut first = 10;
    let mut list = |count: usize| {
        let names: Vec<String> = (first..first + count)
            .map(|i| format!("{class}{i}"))
            .collect();
        first += count;
        format!("{{{}}}", names.join(", "))
    };
    let lists = [
        list(count(0, ab)),
        list(count(1, ab)),
        list(count(2, c)),
        list(count(2, d)),
    ];
    let mut body = String::new();
    for (p, part) in ["a", "b", "c"].iter().enumerate() {
        let from = match space {
            "shared" => {
                // Word by word, by one thread.
                for at in (0..buffers[p].len()).step_by(4) {
                    body += &format!(
                        "@%p1 ld.global.u32 %r5, [%rd4+{at}];\n@%p1 st.shared.u32 [s{p}+{at}], %r5;\n"
                    );
                }
                body = body.replace("%rd4", &format!("%rd{}", 5 + p));
                body = format!("ld.param.u64 %rd{}, [p{p}];\n{body}", 5 + p);
                body += &format!("bar.warp.sync 0xffffffff;\nmov.u32 %r2, s{p};\n");
                "%r2"
            }
            _ => "%rd1",
        };
        body += &format!(
            "ld.param.u64 %rd1, [p{p}];\nmov.u32 %r1, {};\nwmma.load.{part}.sync.aligned.{}.{shape}.{space}.{} {}, [{from}], %r1;\n",
            strides[p],
            layouts[p],
            [ab, ab, c][p].word(),
            lists[p]
        );
    }
    let types = match ab {
        E::F16 => format!("{}.{}", d.word(), c.word()),
        _ => format!("{1}.{0}.{0}.{1}", ab.word(), d.word()),
    };
    // `wmma` has these words at other places.
    let (types, combine) = match how {
        How::Saturate => (format!("{types}.satfinite"), ""),
        _ => (types, how.words()[1]),
    };
    body += &format!(
        "wmma.mma{combine}.sync.aligned.{}.{}.{shape}.{types} {}, {}, {}, {};\nld.param.u64 %rd1, [p3];\nmov.u32 %r1, {d_stride};\nwmma.store.d.sync.aligned.{}.{shape}.global.{} [%rd1], {}, %r1;\n",
        layouts[0],
        layouts[1],
        lists[3],
        lists[0],
        lists[1],
        lists[2],
        layouts[3],
        d.word(),
        lists[3]
    );
    let shared: String = (0..3)
        .map(|p| format!(".shared .align 16 .b8 s{p}[{}];\n", buffers[p].len()))
        .collect();
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)\n{{ .reg .b32 %r<60>; .reg .b64 %rd<60>; .reg .pred %p<2>;\n{shared}mov.u32 %r3, %tid.x;\nsetp.eq.u32 %p1, %r3, 0;\n{body}ret; }}"
    );
    let (got, _) = run(&text, &buffers, 32);
    assert!(got == expected, "{shape} {ab:?} {c:?} {d:?} {layouts:?}");
}

#[test]
fn wmma_through_memory() {
    use E::*;
    for shape in ["m16n16k16", "m32n8k16", "m8n32k16"] {
        for (a, b) in [
            ("row", "row"),
            ("row", "col"),
            ("col", "row"),
            ("col", "col"),
        ] {
            for (c, d) in [(F32, F32), (F16, F16), (F16, F32), (F32, F16)] {
                wmma(shape, F16, [c, d], [a, b, "row", "row"]);
            }
            wmma(shape, F16, [F32, F32], [a, b, "col", "row"]);
            wmma(shape, F16, [F16, F16], [a, b, "row", "col"]);
            wmma(shape, Bf16, [F32, F32], [a, b, "row", "col"]);
        }
    }
}

#[test]
fn wmma_of_other_types_through_memory() {
    use E::*;
    let layouts = [
        ("row", "row"),
        ("row", "col"),
        ("col", "row"),
        ("col", "col"),
    ];
    for space in ["global", "shared"] {
        for (a, b) in layouts {
            for (c, d) in [("row", "row"), ("row", "col"), ("col", "row")] {
                let l = [a, b, c, d];
                wmma_as("m16n16k8", Tf32, [F32, F32], l, space, How::Multiply);
                wmma_as("m8n8k4", F64, [F64, F64], l, space, How::Multiply);
                for shape in ["m16n16k16", "m32n8k16", "m8n32k16"] {
                    wmma_as(shape, S8, [S32, S32], l, space, How::Multiply);
                    wmma_as(shape, U8, [S32, S32], l, space, How::Saturate);
                }
            }
        }
        for (c, d) in [("row", "row"), ("col", "row"), ("row", "col")] {
            let l = ["row", "col", c, d];
            wmma_as("m8n8k32", S4, [S32, S32], l, space, How::Saturate);
            wmma_as("m8n8k32", U4, [S32, S32], l, space, How::Multiply);
            wmma_as("m8n8k128", B1, [S32, S32], l, space, How::Xor);
            wmma_as("m8n8k128", B1, [S32, S32], l, space, How::And);
        }
    }
}

/// Matrix j of eight rows of eight halves lies at 128 j; row i has the address of lane 8 j + i.
#[test]
fn ldmatrix_and_stmatrix() {
    for count in [1, 2, 4] {
        for trans in [false, true] {
            let names: Vec<String> = (10..10 + count).map(|i| format!("%r{i}")).collect();
            let list = format!("{{{}}}", names.join(", "));
            let dot = if trans { ".trans" } else { "" };
            let head = format!(
                "{HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{ .reg .b32 %r<60>; .reg .b64 %rd<60>; .shared .align 16 .b8 s[512];\n\
                 mov.u32 %r1, %tid.x;\nmov.u32 %r2, s;\nshl.b32 %r3, %r1, 4;\nadd.u32 %r4, %r2, %r3;\nld.param.u64 %rd1, [p0];\nld.param.u64 %rd2, [p1];\n\
                 mul.wide.u32 %rd3, %r1, 16;\nadd.u64 %rd4, %rd1, %rd3;\nadd.u64 %rd6, %rd2, %rd3;\nmul.wide.u32 %rd3, %r1, {};\nadd.u64 %rd5, %rd1, %rd3;\nadd.u64 %rd7, %rd2, %rd3;\n",
                4 * count
            );
            // Element (r, c) of matrix j is 64 j + 8 r + c; what lane l holds in register j:
            let held = |lane: usize, j: usize, half: usize| -> u16 {
                let (r, c) = (lane / 4, 2 * (lane % 4) + half);
                let (r, c) = if trans { (c, r) } else { (r, c) };
                (64 * j + 8 * r + c) as u16
            };
            let plain: Vec<u8> = (0..256_u16).flat_map(u16::to_le_bytes).collect();
            let fragments: Vec<u8> = (0..32)
                .flat_map(|l| (0..count).flat_map(move |j| [held(l, j, 0), held(l, j, 1)]))
                .flat_map(u16::to_le_bytes)
                .collect();
            let mut text = format!(
                "{head}ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd4];\nst.shared.v4.u32 [%r4], {{%r20, %r21, %r22, %r23}};\nbar.warp.sync 0xffffffff;\nldmatrix.sync.aligned.m8n8.x{count}{dot}.shared.b16 {list}, [%r4];\n"
            );
            for (i, name) in names.iter().enumerate() {
                text += &format!("st.global.u32 [%rd7+{}], {name};\n", 4 * i);
            }
            let (got, _) = run(
                &(text + "ret; }"),
                &[plain.clone(), vec![0; 128 * count]],
                32,
            );
            assert!(got == fragments, "ldmatrix x{count} {trans}");
            let mut text = head;
            for (i, name) in names.iter().enumerate() {
                text += &format!("ld.global.u32 {name}, [%rd5+{}];\n", 4 * i);
            }
            text += &format!(
                "stmatrix.sync.aligned.m8n8.x{count}{dot}.shared.b16 [%r4], {list};\nbar.warp.sync 0xffffffff;\nsetp.ge.u32 %p1, %r1, {};\n@%p1 ret;\nld.shared.v4.u32 {{%r20, %r21, %r22, %r23}}, [%r4];\nst.global.v4.u32 [%rd6], {{%r20, %r21, %r22, %r23}};\nret; }}",
                8 * count
            );
            let text = text.replace(".shared .align 16", ".reg .pred %p<3>; .shared .align 16");
            let (got, _) = run(&text, &[fragments, vec![0; 128 * count]], 32);
            assert!(got == plain[..128 * count], "stmatrix x{count} {trans}");
        }
    }
}
