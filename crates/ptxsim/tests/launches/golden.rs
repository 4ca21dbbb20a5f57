//! Pins what launches report and compute: counters, findings, bytes. Whoever makes the engine faster
//! must not change any of it; a change on purpose renews the snapshots
//! (`INSTA_UPDATE=always`) and says why.

use crate::common::*;
use ptxsim::*;
use std::fmt::Write;

/// Returns the sum that stands for long parts (FNV-1a).
fn digest(bytes: &[u8]) -> u64 {
    let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn costs(c: &Cost) -> String {
    format!(
        "{} {} | {} {} {} {} | {} {} | {}",
        c.issued,
        c.lanes,
        c.requests,
        c.global_bytes,
        c.sectors,
        c.ideal_sectors,
        c.wavefronts,
        c.ideal_wavefronts,
        c.divergent
    )
}

/// The form of costs: listed for each kind of instruction, or summed.
#[derive(Clone, Copy)]
enum Kinds {
    Listed,
    Summed,
}

fn told(name: &str, report: &Result<Report, Fault>, output: &[u8], kinds: Kinds) -> String {
    let mut text = format!("{name}: output {:016x}\n", digest(output));
    let report = match report {
        Ok(report) => report,
        Err(fault) => {
            writeln!(text, "  fault {fault:?}").unwrap();
            return text;
        }
    };
    writeln!(text, "  total {}", costs(&report.counters.total)).unwrap();
    let by_kind: String = report
        .counters
        .by_kind
        .iter()
        .map(|(kind, cost)| format!("  {kind:?} {}\n", costs(cost)))
        .collect();
    match kinds {
        Kinds::Listed => text += &by_kind,
        Kinds::Summed => writeln!(text, "  kinds {:016x}", digest(by_kind.as_bytes())).unwrap(),
    }
    let lines: String = report
        .counters
        .by_line
        .iter()
        .map(|(line, cost)| format!("{line} {}\n", costs(&cost.total)))
        .collect();
    let (n, sum) = (report.counters.by_line.len(), digest(lines.as_bytes()));
    writeln!(text, "  {n} lines {sum:016x}").unwrap();
    let said = |f: &Finding| {
        let places: Vec<&str> = f.places.iter().map(|place| place.at.as_str()).collect();
        format!(
            "Finding {{ kind: {:?}, message: {:?}, places: {places:?}, block: {:?}, thread: {:?}, address: {:?}, times: {} }}\n",
            f.kind,
            wording::findings::sentence(f),
            f.block,
            f.thread,
            f.address,
            f.times
        )
    };
    let all: String = report.findings.iter().map(said).collect();
    let (n, sum) = (report.findings.len(), digest(all.as_bytes()));
    writeln!(text, "  {n} findings {sum:016x}").unwrap();
    if let Some(first) = report.findings.first() {
        writeln!(
            text,
            "  first, {} times: {}",
            first.times,
            wording::findings::sentence(first)
        )
        .unwrap();
    }
    text
}

/// Returns limits under which every finding is kept.
fn limits() -> Limits {
    Limits {
        findings: 100_000,
        ..crate::common::limits()
    }
}

fn unchecked() -> Limits {
    Limits {
        checks: false,
        ..limits()
    }
}

fn f16(name: &str, text: &str, s: usize, limits: Limits, kinds: Kinds) -> String {
    let block_m = if text.contains("wmma") { 64 } else { 32 };
    let run = run_f16(text, block_m, 2, s, false, limits);
    told(name, &run.report, &run.output, kinds)
}

fn fp8(name: &str, text: &str, s: usize, limits: Limits, kinds: Kinds) -> String {
    let run = run_fp8(text, u32::from(name.contains("u8")), 2, s, limits);
    told(name, &run.report, &run.output, kinds)
}

fn gemm([m, n, k]: [usize; 3], limits: Limits, kinds: Kinds) -> String {
    let module = load(&fixture("gemm"));
    let kernel = module.kernel("gemm").unwrap();
    let mut memory = Memory::default();
    let mut random = Random(3);
    let a = put(&mut memory, "a", &bytes_of(&random.normals(m * k)));
    let b = put(&mut memory, "b", &bytes_of(&random.normals(k * n)));
    let c = memory.alloc("c", 4 * (m * n) as u64).unwrap();
    let size = [m, n, k].map(|x| Arg::I32(x as i32));
    let p = params(
        kernel,
        &[
            Arg::Ptr(a),
            Arg::Ptr(b),
            Arg::Ptr(c),
            size[0],
            size[1],
            size[2],
        ],
    );
    let grid = [n.div_ceil(64) as u32, m.div_ceil(64) as u32, 1];
    let report = launch(kernel, grid, [256, 1, 1], 0, &p, &mut memory, limits);
    let output = memory.read(c, 4 * m * n).unwrap();
    told(&format!("gemm {m} {n} {k}"), &report, output, kinds)
}

#[test]
fn kernels_as_they_are() {
    let mut all = String::new();
    for (how, limits, kinds) in [
        ("checks", limits(), Kinds::Listed),
        ("no checks", unchecked(), Kinds::Summed),
    ] {
        writeln!(all, "== {how}").unwrap();
        all += &gemm([77, 65, 19], limits, kinds);
        all += &gemm([130, 70, 100], limits, kinds);
        // The ragged size is listed, the other one summed.
        for (s, kinds) in [(77, kinds), (128, Kinds::Summed)] {
            for name in ["f16_wmma", "f16_scalar"] {
                all += &f16(name, &fixture(name), s, limits, kinds);
            }
            for name in ["fp8_direct", "fp8_stage2", "fp8_stage2_u8"] {
                all += &fp8(name, &fixture(name), s, limits, kinds);
            }
        }
    }
    insta::assert_snapshot!(all);
}

/// Returns the text with its n-th (from 0) line that contains `what` removed, for every n.
fn each_without<'a>(text: &'a str, what: &'a str) -> impl Iterator<Item = String> + 'a {
    let hits: Vec<usize> = text
        .lines()
        .enumerate()
        .filter(|(_, l)| l.contains(what))
        .map(|(n, _)| n)
        .collect();
    hits.into_iter().map(|hit| {
        text.lines()
            .enumerate()
            .filter(|(n, _)| *n != hit)
            .map(|(_, l)| format!("{l}\n"))
            .collect()
    })
}

#[test]
fn kernels_without_their_synchronisation() {
    let mut all = String::new();
    for what in ["bar.sync", "bar.warp.sync", "cp.async.wait"] {
        for name in ["f16_wmma", "f16_scalar"] {
            let title = format!("{name} without {what}");
            for text in each_without(&fixture(name), what) {
                all += &f16(&title, &text, 150, limits(), Kinds::Summed);
            }
        }
        let title = format!("fp8_stage2 without {what}");
        for text in each_without(&fixture("fp8_stage2"), what) {
            all += &fp8(&title, &text, 150, limits(), Kinds::Summed);
        }
    }
    insta::assert_snapshot!(all);
}

/// Returns accesses of every width in many arrangements, without order between them.
fn arrangements(space: &str, widths: &[(&str, u32)], address: &str) -> String {
    // The place of thread %r1, in accesses; the rest of the registers are free.
    let places = [
        "mov.u32 %r2, 3;",
        "mov.u32 %r2, %r1;",
        "add.u32 %r2, %r1, 5;",
        "shl.b32 %r2, %r1, 1;",
        "mul.lo.u32 %r2, %r1, 3;",
        "mul.lo.u32 %r2, %r1, 33;",
        "shl.b32 %r2, %r1, 5;",
        "sub.u32 %r2, 200, %r1;",
        "shr.u32 %r2, %r1, 1;",
        "and.b32 %r2, %r1, 15;",
        "and.b32 %r2, %r1, 7; mul.lo.u32 %r2, %r2, 17;",
        "shr.u32 %r3, %r1, 3; xor.b32 %r2, %r1, %r3;",
        "mul.lo.u32 %r2, %r1, 0x9e3779b1; shr.u32 %r2, %r2, 24;",
    ];
    let guards = ["", "@%p1 ", "@!%p2 ", "@%p3 "];
    let mut body = String::new();
    let mut turn = 0;
    for place in places {
        for &(form, bytes) in widths {
            let registers = match form.rsplit('.').next().unwrap() {
                "u64" => ["%rd7", "%rd8"],
                "b8" | "u8" | "s8" | "u16" | "s16" => ["%h1", "%h2"],
                _ => ["%r7", "%r8"],
            };
            let operand = match form {
                f if f.starts_with(".v4") => "{%r7, %r8, %r9, %r10}".into(),
                f if f.starts_with(".v2") => format!("{{{}, {}}}", registers[0], registers[1]),
                _ => registers[0].to_string(),
            };
            let guard = guards[turn % guards.len()];
            writeln!(
                body,
                "{place} mul.lo.u32 %r2, %r2, {bytes}; and.b32 %r2, %r2, {};",
                8191 & !(bytes - 1)
            )
            .unwrap();
            writeln!(
                body,
                "cvt.u64.u32 %rd2, %r2; add.u64 %rd3, %rd2, {address};"
            )
            .unwrap();
            match turn % 3 {
                0 => writeln!(body, "{guard}st{space}{form} [%rd3], {operand};").unwrap(),
                _ => writeln!(body, "{guard}ld{space}{form} {operand}, [%rd3];").unwrap(),
            }
            match turn % 11 {
                5 => writeln!(body, "bar.warp.sync -1;").unwrap(),
                8 => writeln!(body, "bar.sync 0;").unwrap(),
                _ => {}
            }
            writeln!(
                body,
                "xor.b32 %r11, %r11, %r7; xor.b32 %r11, %r11, %r8; xor.b32 %r11, %r11, %r9;"
            )
            .unwrap();
            writeln!(body, "cvt.u32.u64 %r12, %rd7; cvt.u32.u16 %r13, %h1; xor.b32 %r11, %r11, %r12; add.u32 %r11, %r11, %r13;").unwrap();
            turn += 1;
        }
    }
    body
}

#[test]
fn accesses_of_every_width_and_arrangement() {
    let narrow = [
        (".u8", 1),
        (".u16", 2),
        (".u32", 4),
        (".u64", 8),
        (".v2.u32", 8),
        (".v4.u32", 16),
        (".v2.u64", 16),
        (".v2.u16", 4),
        (".s8", 1),
        (".s16", 2),
    ];
    let mut all = String::new();
    for (name, space, widths, base) in [
        ("shared, bytes", ".shared", &narrow[..], "%rd1"),
        ("shared, halves", ".shared", &narrow[1..8], "%rd1"),
        ("shared, words", ".shared", &narrow[2..7], "%rd1"),
        ("shared, generic", "", &narrow[2..7], "%rd6"),
        ("global", ".global", &narrow[..], "%rd5"),
        ("global, generic", "", &narrow[..], "%rd5"),
        ("local", ".local", &narrow[..], "%rd4"),
    ] {
        // Before everything, half of the bytes get a value.
        let text = format!(
            ".version 8.4\n.target sm_90\n.address_size 64\n.file 1 \"k.cu\"\n\
             .visible .entry k(.param .u64 p)\n{{\n.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;\n\
             .shared .align 16 .b8 s[8192]; .local .align 16 .b8 l[8192];\n\
             mov.u64 %rd1, s; mov.u64 %rd4, l; cvta.shared.u64 %rd6, %rd1; ld.param.u64 %rd5, [p]; mov.u32 %r1, %tid.x;\n\
             mov.u32 %r7, %r1; mov.u32 %r8, 8; mov.u32 %r9, 9; mov.u32 %r10, 10; mov.u32 %r11, 0;\n\
             mov.u64 %rd7, 77; mov.u64 %rd8, 88; mov.u16 %h1, 1; mov.u16 %h2, 2;\n\
             and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0; setp.lt.u32 %p2, %r1, 40; setp.eq.u32 %p3, %r1, 17;\n\
             mul.lo.u32 %r2, %r1, 16; cvt.u64.u32 %rd2, %r2; add.u64 %rd3, %rd2, {base}; st{space}.v4.u32 [%rd3], {{%r7, %r8, %r9, %r10}};\n\
             {}\nshl.b32 %r2, %r1, 2; cvt.u64.u32 %rd2, %r2; add.u64 %rd3, %rd5, %rd2; st.global.u32 [%rd3+8192], %r11;\nret;\n}}\n",
            arrangements(space, widths, base)
        );
        let module = load(&text);
        let kernel = module.kernel("k").unwrap();
        for limits in [limits(), unchecked()] {
            let mut memory = Memory::default();
            let p = memory.alloc("data", 8192 + 400).unwrap();
            memory.write(p + 128, &[3; 1000]).unwrap();
            let threads = 100;
            let args = params(kernel, &[Arg::Ptr(p)]);
            let report = launch(
                kernel,
                [2, 1, 1],
                [threads, 1, 1],
                0,
                &args,
                &mut memory,
                limits,
            );
            let output = memory.read(p, 8192 + 400).unwrap();
            all += &told(name, &report, output, Kinds::Summed);
        }
    }
    insta::assert_snapshot!(all);
}
