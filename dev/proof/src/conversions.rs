//! The forms of `cvt`: every pair of types, with every rounding and saturation that the ISA allows.

use crate::forms::{FTZ, List, ROUND, SAT, bits, letter};

const INTEGERS: [&str; 8] = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];

/// Returns the classes of registers that may hold a value of the type: its own and wider ones.
fn holders(ty: &str) -> &'static [&'static str] {
    match bits(ty) {
        8 | 16 => &["h", "w", "d"],
        32 => &["w", "d"],
        _ => &["d"],
    }
}

/// Every value of `from` is one of `to`: nothing to saturate, and the ISA forbids the word.
fn holds(to: &str, from: &str) -> bool {
    let signed = |t: &str| t.starts_with('s');
    match (signed(to), signed(from)) {
        (true, false) => bits(to) > bits(from),
        (false, true) => false,
        _ => bits(to) >= bits(from),
    }
}

pub fn integers(l: &mut List) {
    for from in INTEGERS {
        for to in INTEGERS {
            for d in holders(to) {
                l.add(format!("cvt.{to}.{from} ={d},{}", letter(from)));
            }
            for s in &holders(from)[1..] {
                l.add(format!("cvt.{to}.{from} ={},{s}", letter(to)));
            }
            if !holds(to, from) {
                for d in holders(to) {
                    l.add(format!("cvt.sat.{to}.{from} ={d},{}", letter(from)));
                }
            }
        }
    }
}

pub fn floats(l: &mut List) {
    let floats = ["f16", "bf16", "f32", "f64"];
    for i in INTEGERS {
        for f in floats {
            if f == "bf16" && bits(i) == 8 {
                continue;
            }
            let (ci, cf) = (letter(i), letter(f));
            let none: &[&str] = &[""];
            let sat = if f == "bf16" { none } else { SAT };
            l.product(&[&["cvt"], ROUND, sat, &[f], &[i]], &format!("={cf},{ci}"));
            l.product(
                &[
                    &["cvt"],
                    &["rni", "rzi", "rmi", "rpi"],
                    if f == "f32" { FTZ } else { none },
                    sat,
                    &[i],
                    &[f],
                ],
                &format!("={ci},{cf}"),
            );
        }
    }
    // Between floats: exact ones take no rounding, narrowing ones must have one.
    l.product(&[&["cvt"], FTZ, SAT, &["f32.f16"]], "=w,h");
    l.product(&[&["cvt"], SAT, &["f64.f16"]], "=d,h");
    l.product(&[&["cvt"], FTZ, SAT, &["f64.f32"]], "=d,w");
    l.product(&[&["cvt"], ROUND, FTZ, SAT, &["f16.f32"]], "=h,w");
    l.product(&[&["cvt"], ROUND, SAT, &["f16.f64"]], "=h,d");
    l.product(&[&["cvt"], ROUND, FTZ, SAT, &["f32.f64"]], "=w,d");
    l.product(&[&["cvt"], FTZ, &["f32.bf16"]], "=w,h");
    l.add("cvt.f64.bf16 =d,h");
    l.product(&[&["cvt"], &["rn", "rz"], &["bf16.f32"]], "=h,w");
    l.product(&[&["cvt"], &["rm", "rp"], &["bf16.f32"]], "=h,w");
    l.product(&[&["cvt"], ROUND, &["bf16.f64"]], "=h,d");
    l.product(&[&["cvt"], ROUND, &["bf16.f16", "f16.bf16"]], "=h,h");
    l.product(
        &[&["cvt.rn", "cvt.rz"], &["relu"], &["f16.f32", "bf16.f32"]],
        "=h,w",
    );
    let integral: &[&str] = &["rni", "rzi", "rmi", "rpi"];
    l.product(&[&["cvt"], integral, FTZ, SAT, &["f32.f32"]], "=w,w");
    l.product(&[&["cvt"], integral, SAT, &["f64.f64"]], "=d,d");
    l.product(&[&["cvt"], integral, SAT, &["f16.f16"]], "=h,h");
    l.product(&[&["cvt"], integral, &["bf16.bf16"]], "=h,h");
    l.product(&[&["cvt"], FTZ, SAT, &["f32.f32"]], "=w,w");
    l.product(&[&["cvt"], SAT, &["f64.f64"]], "=d,d");
    l.product(
        &[
            &["cvt"],
            &["rn", "rz"],
            &["", "relu"],
            &["f16x2.f32", "bf16x2.f32"],
        ],
        "=w,w,w",
    );
    l.product(
        &[
            &["cvt.rn.satfinite"],
            &["", "relu"],
            &["e4m3x2.f32", "e5m2x2.f32"],
        ],
        "=h,w,w",
    );
    l.product(
        &[
            &["cvt.rn.satfinite"],
            &["", "relu"],
            &["e4m3x2.f16x2", "e5m2x2.f16x2"],
        ],
        "=h,w",
    );
    l.product(
        &[
            &["cvt.rn"],
            &["", "relu"],
            &["f16x2.e4m3x2", "f16x2.e5m2x2"],
        ],
        "=w,h",
    );
    l.product(
        &[
            &["cvt"],
            &["rn", "rz", "rna", "rn.relu", "rz.relu"],
            &["tf32.f32"],
        ],
        "=w,w",
    );
}

/// Adds `.satfinite` conversions to formats that have infinities.
pub fn finite(l: &mut List) {
    for (types, operands) in [
        (["f16.f32", "bf16.f32"], "=h,w"),
        (["f16x2.f32", "bf16x2.f32"], "=w,w,w"),
    ] {
        l.product(
            &[
                &["cvt"],
                &["rn", "rz"],
                &["", "relu"],
                &["satfinite"],
                &types,
            ],
            operands,
        );
    }
    l.add("cvt.rna.satfinite.tf32.f32 =w,w");
}
