//! The values of each operation that a bulk copy reduces by. tests/cases/bulk_reduce.ptx has what orders them.

use crate::common::*;
use half::{bf16, f16};
use model::{Boxes, MapElement, Swizzle, TensorMap};
use ptxsim::*;

const BYTES: usize = 512;

/// Each block takes 512 bytes of `in` to shared memory, and reduces them to `out`.
fn kernel(copy: &str) -> String {
    format!(
        r#".version 9.0
.target sm_90
.address_size 64
.visible .entry reduce(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128])
{{
    .reg .pred %p<3>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<16>;
    .shared .align 128 .b8 tile[{BYTES}];
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mov.b64 %rd3, map;
    cvta.param.u64 %rd3, %rd3;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, tile;
    mad.lo.u32 %r4, %r1, 4, %r3;
    mad.lo.u32 %r5, %r2, {BYTES}, 0;
    mad.lo.u32 %r5, %r1, 4, %r5;
    cvt.u64.u32 %rd4, %r5;
    add.u64 %rd4, %rd1, %rd4;
    mov.u32 %r6, 0;
    createpolicy.fractional.L2::evict_last.b64 %rd5, 1.0;
    ld.global.u32 %r7, [%rd4];
    st.shared.u32 [%r4], %r7;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra end;
    {copy}
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
end:
    bar.sync 0;
    ret;
}}
"#
    )
}

fn line(form: &str) -> String {
    format!("cp.reduce.async.bulk.global.shared::cta.bulk_group.{form} [%rd2], [%r3], {BYTES};")
}

fn run(
    text: &str,
    map: Option<&TensorMap>,
    input: &[u8],
    held: &[u8],
) -> (Result<Report, Fault>, Vec<u8>) {
    let module = load(text);
    let kernel = module.kernel("reduce").unwrap();
    let mut memory = Memory::default();
    let places = [put(&mut memory, "in", input), put(&mut memory, "out", held)];
    let mut params: Vec<u8> = places.iter().flat_map(|p| p.to_le_bytes()).collect();
    params.resize(64, 0);
    params.extend(map.map_or([0; 128], |map| encode_tensor_map(map, places[1]).unwrap()));
    let grid = [(input.len() / BYTES) as u32, 1, 1];
    let report = launch(
        kernel,
        grid,
        [BYTES as u32 / 4, 1, 1],
        0,
        &params,
        &mut memory,
        limits(),
    );
    let out = memory.read(places[1], held.len()).unwrap().to_vec();
    (report, out)
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |all, x| all << 8 | u64::from(*x))
}

/// Returns the result of an operation on two elements, computed in another way than the simulator does.
fn expected(op: &str, ty: &str, old: u64, new: u64) -> u64 {
    let (f, d) = (|x: u64| f32::from_bits(x as u32), f64::from_bits);
    let h = |x: u64| f16::from_bits(x as u16).to_f64();
    let b = |x: u64| bf16::from_bits(x as u16).to_f64();
    let smaller = |less: bool| if less == (op == "min") { new } else { old };
    match (op, ty) {
        ("add", "f32") => u64::from((f(old) + f(new)).to_bits()),
        ("add", "f64") => (d(old) + d(new)).to_bits(),
        ("add", "f16") => u64::from(f16::from_f64(h(old) + h(new)).to_bits()),
        ("add", "bf16") => u64::from(bf16::from_f64(b(old) + b(new)).to_bits()),
        ("add", "u64") => old.wrapping_add(new),
        ("add", _) => u64::from((old as u32).wrapping_add(new as u32)),
        (_, "f16") => smaller(h(new) < h(old)),
        (_, "bf16") => smaller(b(new) < b(old)),
        ("min" | "max", "s32") => smaller((new as i32) < old as i32),
        ("min" | "max", "s64") => smaller((new as i64) < old as i64),
        ("min" | "max", _) => smaller(new < old),
        ("inc", _) => {
            if old >= new {
                0
            } else {
                old + 1
            }
        }
        ("dec", _) => {
            if old == 0 || old > new {
                new
            } else {
                old - 1
            }
        }
        ("and", _) => old & new,
        ("or", _) => old | new,
        _ => old ^ new,
    }
}

/// Returns random elements. No float is a NaN or infinite, and small ones, zeros and subnormal ones among them, are
/// drawn as well.
fn some(random: &mut Random, ty: &str, count: usize) -> Vec<u8> {
    let width = width(ty);
    let one = |random: &mut Random| {
        let bits = random.next();
        let small = bits >> 60 == 0;
        match ty {
            "f16" => bits & 0xbbff & if small { 0x83ff } else { u64::MAX },
            "bf16" => bits & 0xbfff,
            "f32" => bits & 0xbfff_ffff & if small { 0x807f_ffff } else { u64::MAX },
            "f64" => bits & !(1 << 62),
            _ if small => bits & 3,
            _ => bits,
        }
    };
    (0..count / width)
        .flat_map(|_| {
            one(random)
                .to_le_bytes()
                .into_iter()
                .take(width)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn width(ty: &str) -> usize {
    match ty {
        "f16" | "bf16" => 2,
        "u32" | "s32" | "b32" | "f32" => 4,
        _ => 8,
    }
}

const FORMS: [(&str, &[&str]); 6] = [
    ("add", &["u32", "s32", "u64", "f32", "f64", "f16", "bf16"]),
    ("min max", &["u32", "s32", "u64", "s64", "f16", "bf16"]),
    ("inc dec", &["u32"]),
    ("and", &["b32", "b64"]),
    ("or", &["b32", "b64"]),
    ("xor", &["b32", "b64"]),
];

fn forms() -> impl Iterator<Item = (&'static str, &'static str)> {
    FORMS.into_iter().flat_map(|(ops, types)| {
        ops.split(' ')
            .flat_map(move |op| types.iter().map(move |ty| (op, *ty)))
    })
}

fn check(what: &str, (op, ty): (&str, &str), [input, held, out]: [&[u8]; 3]) {
    let width = width(ty);
    let each = input
        .chunks_exact(width)
        .zip(held.chunks_exact(width))
        .zip(out.chunks_exact(width));
    for (n, ((new, old), got)) in each.enumerate() {
        let [new, old, got] = [new, old, got].map(number);
        let want = expected(op, ty, old, new);
        // Either of two zeros with different signs is smaller.
        let is_zero = |x: u64| width == 2 && x & 0x7fff == 0;
        let same = got == want || is_zero(got) && is_zero(want) && op != "add";
        assert!(
            same,
            "{what} {op} {ty} {n}: {old:x} and {new:x} give {got:x}, not {want:x}"
        );
    }
}

#[test]
fn each_operation_reduces_each_of_its_types() {
    let mut random = Random(5);
    for (op, ty) in forms() {
        let noftz = if op == "add" && width(ty) == 2 {
            "noftz."
        } else {
            ""
        };
        let hint = ["", "L2::cache_hint."][random.next() as usize % 2];
        let copy = line(&format!("{hint}{op}.{noftz}{ty}"));
        let copy = match hint {
            "" => copy,
            _ => copy.replace(";", ", %rd5;"),
        };
        let (input, held) = (some(&mut random, ty, BYTES), some(&mut random, ty, BYTES));
        let (report, out) = run(&kernel(&copy), None, &input, &held);
        let report = clean(report);
        check("line", (op, ty), [&input, &held, &out]);
        assert_eq!(report.counters.get(Counter::GlobalStoreSectors), 0);
        assert_eq!(report.counters.get(Counter::BulkReductions), 1);
    }
}

#[test]
fn boxes_reduce_by_the_type_of_their_map() {
    let mut random = Random(6);
    for (op, ty) in forms() {
        let element = match ty {
            "f16" => MapElement::F16,
            "bf16" => MapElement::Bf16,
            "f32" => MapElement::F32,
            "f64" => MapElement::F64,
            "u32" | "b32" => MapElement::U32,
            "s32" => MapElement::I32,
            "s64" => MapElement::I64,
            _ => MapElement::U64,
        };
        let columns = 64 / width(ty) as u64;
        // 8 rows of 64 bytes; the last two are outside of the tensor.
        let map = TensorMap {
            element,
            extents: vec![columns, 6],
            strides: vec![64],
            boxes: Boxes::Tiled(vec![columns as u32, 8]),
            steps: vec![1; 2],
            swizzle: Swizzle::None,
            fills_nan: false,
        };
        let copy = format!(
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile.bulk_group [%rd3, {{%r6, %r6}}], [%r3];"
        );
        let (input, held) = (some(&mut random, ty, BYTES), some(&mut random, ty, BYTES));
        let (report, out) = run(&kernel(&copy), Some(&map), &input, &held);
        clean(report);
        let inside = 6 * 64;
        check(
            "box",
            (op, ty),
            [&input[..inside], &held[..inside], &out[..inside]],
        );
        assert_eq!(out[inside..], held[inside..]);
    }
}
