//! The forms of `setp`, `set`, `selp` and `slct`.

use crate::forms::{List, letter};

const FLOAT_RELATIONS: &[&str] = &[
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
];

pub fn all(l: &mut List) {
    const SIGNED: &[&str] = &["eq", "ne", "lt", "le", "gt", "ge"];
    const UNSIGNED: &[&str] = &["eq", "ne", "lo", "ls", "hi", "hs", "lt", "le", "gt", "ge"];
    for (ty, relations) in [
        ("b16", &SIGNED[..2]),
        ("u16", UNSIGNED),
        ("s16", SIGNED),
        ("b32", &SIGNED[..2]),
        ("u32", UNSIGNED),
        ("s32", SIGNED),
        ("b64", &SIGNED[..2]),
        ("u64", UNSIGNED),
        ("s64", SIGNED),
        ("f32", FLOAT_RELATIONS),
        ("ftz.f32", FLOAT_RELATIONS),
        ("f64", FLOAT_RELATIONS),
        ("f16", FLOAT_RELATIONS),
        ("ftz.f16", FLOAT_RELATIONS),
        ("bf16", FLOAT_RELATIONS),
    ] {
        let c = letter(ty.trim_start_matches("ftz."));
        let constant = match ty {
            "f32" | "ftz.f32" => "f",
            "f64" => "g",
            t if t.contains('f') => "",
            _ => "i",
        };
        for r in relations {
            l.add(format!("setp.{r}.{ty} =p,{c},{c}{constant}"));
        }
        // each way to combine, with a relation of its own
        for (n, b) in ["and", "or", "xor"].into_iter().enumerate() {
            let r = relations[(n + ty.len()) % relations.len()];
            // Halves have no second result.
            let to = if ty.ends_with("f16") { "=p" } else { "=p|=p" };
            l.add(format!("setp.{r}.{b}.{ty} {to},{c},{c},p"));
            l.add(format!("setp.{r}.{b}.{ty} =p,{c},{c},!p"));
        }
        if !ty.ends_with("f16") {
            l.add(format!("setp.{}.{ty} =p|=p,{c},{c}", relations[0]));
        }
        for to in ["u32", "s32", "f32"] {
            if ty.ends_with("f16") {
                continue;
            }
            let (r, ftz, ty) = (
                relations[ty.len() % relations.len()],
                ty.strip_prefix("ftz."),
                ty,
            );
            let ty = ftz.map_or(ty.to_owned(), |t| format!("{to}.{t}"));
            match ftz {
                Some(_) => l.add(format!("set.{r}.ftz.{ty} =w,{c},{c}")),
                None => l.add(format!("set.{r}.{to}.{ty} =w,{c},{c}")),
            }
        }
        l.add(match ty.strip_prefix("ftz.") {
            Some(t) if t == "f32" => format!("set.{}.or.ftz.u32.{t} =w,{c},{c},p", relations[0]),
            _ if ty.ends_with("f16") => continue,
            _ => format!("set.{}.or.u32.{ty} =w,{c},{c},!p", relations[0]),
        });
    }
    l.product(
        &[&["setp"], FLOAT_RELATIONS, &["f16x2", "bf16x2"]],
        "=p|=p,w,w",
    );
    for r in ["eq", "ltu", "ge", "nan"] {
        for ty in ["f16", "bf16"] {
            l.add(format!("set.{r}.{ty}.{ty} =h,h,h"));
            l.add(format!("set.{r}.u32.{ty} =w,h,h"));
            l.add(format!("set.{r}.u16.{ty} =h,h,h"));
            l.add(format!("set.{r}.{ty}x2.{ty}x2 =w,w,w"));
        }
    }
    for ty in [
        "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64",
    ] {
        let c = letter(ty);
        l.add(format!("selp.{ty} ={c},{c},{c},p"));
        l.add(format!("slct.{ty}.s32 ={c},{c},{c},w"));
        l.add(format!("slct.{ty}.f32 ={c},{c},{c},w"));
    }
    l.add("slct.ftz.u32.f32 =w,w,w,w");
    l.add("slct.ftz.f64.f32 =d,d,d,w");
}

/// Adds comparisons of pairs of halves. They are last in the list, because constants depend on the forms before them.
pub fn packed(l: &mut List) {
    for (n, r) in ["eq", "ltu", "ge", "nan"].into_iter().enumerate() {
        let b = ["and", "or", "xor", "and"][n];
        for ty in ["f16x2", "bf16x2"] {
            l.add(format!("set.{r}.u32.{ty} =w,w,w"));
            l.add(format!("set.{r}.{b}.{ty}.{ty} =w,w,w,p"));
            l.add(format!("set.{r}.{b}.u32.{ty} =w,w,w,!p"));
            l.add(format!("setp.{r}.{b}.{ty} =p|=p,w,w,p"));
            l.add(format!("setp.{r}.{b}.{ty} =p|=p,w,w,!p"));
        }
        l.add(format!("set.{r}.ftz.f16x2.f16x2 =w,w,w"));
        l.add(format!("set.{r}.ftz.f16.f16 =h,h,h"));
        l.add(format!("setp.{r}.ftz.f16x2 =p|=p,w,w"));
    }
}
