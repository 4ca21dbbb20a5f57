//! `mma.sp`, and `mma.m8n8k4` of f16, against a scalar model that is written here from the PTX ISA (9.7.15.6.2
//! and 9.7.15.5.1).

use crate::common::matrices::*;
use crate::common::*;

/// Runs `op` once; each lane's words are those of a, b, c and, for `mma.sp`, of its metadata. Each lane
/// writes `results` words of d.
fn multiply(
    op: &str,
    words: [usize; 3],
    tail: Option<usize>,
    results: usize,
    lanes: &[Vec<u32>],
) -> Vec<u8> {
    let held = words.iter().sum::<usize>() + usize::from(tail.is_some());
    let mut body = format!(
        "mov.u32 %r0, %tid.x;\nld.param.u64 %rd1, [p0];\nmul.wide.u32 %rd2, %r0, {};\nadd.u64 %rd1, %rd1, %rd2;\n\
         ld.param.u64 %rd3, [p1];\nmul.wide.u32 %rd4, %r0, {};\nadd.u64 %rd3, %rd3, %rd4;\n",
        4 * held,
        4 * results
    );
    for n in 0..held {
        body += &format!("ld.global.b32 %r{}, [%rd1+{}];\n", n + 1, 4 * n);
    }
    let mut first = 1;
    let mut list = |n: usize| {
        let names: Vec<String> = (first..first + n).map(|r| format!("%r{r}")).collect();
        first += n;
        format!("{{{}}}", names.join(", "))
    };
    let [a, b, c] = words.map(&mut list);
    let tail = tail.map_or(String::new(), |selector| format!(", %r{held}, {selector}"));
    let d: Vec<String> = (0..results).map(|r| format!("%d{r}")).collect();
    body += &format!("{op} {{{}}}, {a}, {b}, {c}{tail};\n", d.join(", "));
    for (n, d) in d.iter().enumerate() {
        body += &format!("st.global.b32 [%rd3+{}], {d};\n", 4 * n);
    }
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{ .reg .b32 %r<40>, %d<8>; .reg .b64 %rd<5>;\n{body}ret; }}"
    );
    let input: Vec<u8> = lanes
        .iter()
        .flatten()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    run(&text, &[input, vec![0; 128 * results]], 32).0
}

/// A lane's words of a fragment whose element `i` is `of(i)`.
fn fragment(e: E, words: usize, of: impl Fn(usize) -> i32) -> Vec<u32> {
    let mut bytes = vec![0; 4 * words];
    (0..words * 32 / e.bits()).for_each(|i| e.put(of(i), &mut bytes, i));
    let word = |c: &[u8]| u32::from_le_bytes(c.try_into().unwrap());
    bytes.chunks_exact(4).map(word).collect()
}

/// Returns the lane and the shift of the four bits of metadata for a group of four elements in a row (with elements of
/// 4 bits, for a group of four pairs).
fn metadata_at(shape: &str, e: E, selector: usize, row: usize, group: usize) -> (usize, usize) {
    let (quad, upper) = (4 * (row % 8), row / 8);
    match (shape, e.bits()) {
        ("m16n8k16", 16) => (quad + selector, 16 * upper + 4 * group),
        ("m16n8k32", 16) => (
            quad + 2 * selector + group / 4,
            16 * upper + 4 * (group % 4),
        ),
        ("m16n8k32", 8) | ("m16n8k64", 4) => (quad + 2 * selector + upper, 4 * group),
        _ => (quad + upper + group / 8 * 2, 4 * (group % 8)),
    }
}

fn sparse(shape: &str, [a, b, c]: [E; 3], selector: usize, how: How) {
    let [m, n, k] = numbers(shape);
    let mut r = Random(shape.len() as u64 + a.bits() as u64 + selector as u64);
    let together = if a.bits() == 4 { 2 } else { 1 };
    let (given, right, mut sums) = (
        matrix(m, k / 2, a, &mut r),
        matrix(k, n, b, &mut r),
        matrix(m, n, c, &mut r),
    );
    if c == E::S32 {
        let far = |v: &mut i32| *v = if *v < 0 { i32::MIN - *v } else { i32::MAX - *v };
        sums.iter_mut().flatten().for_each(far);
    }
    let mut metadata = [0_u32; 32];
    let mut whole = vec![vec![0; k]; m];
    for row in 0..m {
        for group in 0..k / (4 * together) {
            let pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
            let (one, two) = pairs[r.next() as usize % 6];
            let (lane, shift) = metadata_at(shape, a, selector, row, group);
            metadata[lane] |= ((one | two << 2) as u32) << shift;
            for (which, place) in [one, two].into_iter().enumerate() {
                for part in 0..together {
                    let from = (2 * group + which) * together + part;
                    whole[row][(4 * group + place) * together + part] = given[row][from];
                }
            }
        }
    }
    let per = 32 / a.bits();
    let words = [m * k / 2, k * n, m * n].map(|elements| elements / 32);
    let words = [words[0] / per, words[1] / per, words[2] * c.bits() / 32];
    // 9.7.15.5: A of half the depth, B of all of it, C.
    let lanes: Vec<Vec<u32>> = (0..32)
        .map(|lane| {
            let (g, t) = (lane / 4, lane % 4);
            let of_a = |i: usize| {
                let register = i / per;
                given[g + register % 2 * 8][t * per + i % per + register / 2 * 4 * per]
            };
            let of_b = |i: usize| right[t * per + i % per + i / per * 4 * per][g];
            let of_c = |i: usize| sums[g + i / 2 * 8][2 * t + i % 2];
            let mut all = fragment(a, words[0], of_a);
            all.extend(fragment(b, words[1], of_b));
            all.extend(fragment(c, words[2], of_c));
            all.push(metadata[lane]);
            all
        })
        .collect();
    let op = format!(
        "mma.sp::ordered_metadata.sync.aligned.{shape}.row.col{}.{}.{}.{}.{}",
        how.words()[0],
        c.word(),
        a.word(),
        b.word(),
        c.word()
    );
    let got = multiply(&op, words, Some(selector), words[2], &lanes);
    let want = product(&whole, &right, &sums, how);
    let mut expected = Vec::new();
    for (lane, i) in (0..32).flat_map(|lane| (0..4).map(move |i| (lane, i))) {
        expected.extend(c.encode(want[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]));
    }
    assert_eq!(got, expected, "{shape} {a:?} {selector}");
}

#[test]
fn sparse_products_take_the_columns_that_the_metadata_name() {
    use E::*;
    for selector in 0..4 {
        sparse("m16n8k16", [F16, F16, F32], selector, How::Multiply);
        sparse("m16n8k16", [Bf16, Bf16, F32], selector, How::Multiply);
    }
    for selector in 0..2 {
        sparse("m16n8k32", [F16, F16, F16], selector, How::Multiply);
        sparse("m16n8k32", [Bf16, Bf16, F32], selector, How::Multiply);
        sparse("m16n8k32", [S8, U8, S32], selector, How::Multiply);
        sparse("m16n8k64", [U4, S4, S32], selector, How::Saturate);
    }
    sparse("m16n8k64", [U8, S8, S32], 0, How::Saturate);
    sparse("m16n8k128", [S4, S4, S32], 0, How::Multiply);
}

/// Each quarter of the lower half of the warp and the same of the upper one multiply by themselves.
#[test]
fn four_products_of_eight_by_eight_by_four() {
    for (a_by_column, b_by_column, c, d) in [
        (false, true, E::F32, E::F32),
        (true, false, E::F16, E::F32),
        (false, false, E::F16, E::F32),
        (true, true, E::F32, E::F32),
    ] {
        let mut r = Random(7);
        let parts: Vec<[Vec<Vec<i32>>; 3]> = (0..4)
            .map(|_| {
                [
                    matrix(8, 4, E::F16, &mut r),
                    matrix(4, 8, E::F16, &mut r),
                    matrix(8, 8, c, &mut r),
                ]
            })
            .collect();
        let place = |e: E, lane: usize, i: usize| match e {
            E::F16 => (lane % 4 + lane / 16 * 4, i),
            _ => (
                (lane & 1) + (i & 2) + lane / 16 * 4,
                (i & 4) + (lane & 2) + (i & 1),
            ),
        };
        let words_of = |e: E| 8 * e.bits() / 32;
        let lanes: Vec<Vec<u32>> = (0..32)
            .map(|lane| {
                let [a, b, addend] = &parts[lane / 4 % 4];
                let (own, upper) = (lane % 4, lane / 16 * 4);
                let mut all = fragment(E::F16, 2, |i| {
                    if a_by_column {
                        a[i + upper][own]
                    } else {
                        a[own + upper][i]
                    }
                });
                all.extend(fragment(E::F16, 2, |i| {
                    if b_by_column {
                        b[i][own + upper]
                    } else {
                        b[own][i + upper]
                    }
                }));
                all.extend(fragment(c, words_of(c), |i| {
                    let (row, column) = place(c, lane, i);
                    addend[row][column]
                }));
                all
            })
            .collect();
        let layout = |by_column: bool| if by_column { "col" } else { "row" };
        let op = format!(
            "mma.sync.aligned.m8n8k4.{}.{}.{}.f16.f16.{}",
            layout(a_by_column),
            layout(b_by_column),
            d.word(),
            c.word()
        );
        let got = multiply(&op, [2, 2, words_of(c)], None, words_of(d), &lanes);
        let mut expected = Vec::new();
        for (lane, i) in (0..32).flat_map(|lane| (0..8).map(move |i| (lane, i))) {
            let [a, b, addend] = &parts[lane / 4 % 4];
            let (row, column) = place(d, lane, i);
            expected.extend(d.encode(product(a, b, addend, How::Multiply)[row][column]));
        }
        assert_eq!(got, expected, "{op}");
    }
}
