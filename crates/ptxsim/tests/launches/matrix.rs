//! Matrix instructions on registers against a scalar model that is written here from the tables of the PTX ISA
//! (9.7.15).

use crate::common::matrices::*;
use crate::common::*;
use ptxsim::*;
/// Returns the row and the column of element `i` of a lane in A, B or C, as the ISA's tables have them.
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
fn rejects_matrix_shapes_that_no_gpu_multiplies() {
    for op in [
        "mma.sync.aligned.m16n8k16.row.col.s32.s4.s4.s32",
        "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16",
        "mma.sp.sync.aligned.m16n8k32.row.col.f32.tf32.tf32.f32",
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
