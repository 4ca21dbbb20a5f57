//! `wmma` through memory against a scalar model.

use crate::common::Random;
use crate::common::matrices::*;

/// Tests a product whose matrices are loaded from memory and stored to it.
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
