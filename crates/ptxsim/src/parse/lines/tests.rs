use super::*;
use proptest::prelude::*;

fn at(file: u32, line: u32) -> At {
    At {
        file,
        line,
        column: 5,
    }
}

/// Returns a call of the function with this label.
fn call(callee: &str, at: At) -> Option<Call<'_>> {
    Some(Call {
        at,
        callee: (callee, 0),
    })
}

/// File 1 is the user's, file 2 is not.
fn told(reading: &LineReader, id: LineId) -> (String, String, String) {
    let mut lines = reading.lines.clone();
    lines.files = [(1, "k.cu".to_owned()), (2, "t.h".to_owned())].into();
    lines.tell_apart(|file| file != "t.h");
    let (own, inlined) = lines.own(id);
    (lines.place(id).unwrap_or_default(), own, inlined)
}

fn text((place, own, inlined): &(String, String, String)) -> [&str; 3] {
    [place, own, inlined]
}

#[test]
fn a_call_directly_before_is_the_one() {
    let mut r = LineReader::default();
    let mut found = Vec::new();
    for kernel in [14, 15] {
        r.loc(at(1, kernel), None);
        r.loc(at(1, 7), call("pair", at(1, kernel)));
        r.loc(at(1, 3), call("part", at(1, 7)));
        found.push(r.loc(at(2, 134), call("ldg", at(1, 3))));
        r.instruction();
    }
    let [a, b] = [0, 1].map(|n| told(&r, found[n]));
    assert_eq!(
        text(&a),
        [
            "t.h:134 inlined at k.cu:3 inlined at k.cu:7 inlined at k.cu:14",
            "k.cu:3",
            " inlined at k.cu:7 inlined at k.cu:14"
        ]
    );
    assert_eq!(
        b.0,
        "t.h:134 inlined at k.cu:3 inlined at k.cu:7 inlined at k.cu:15"
    );
    // Back at either: the text does not say at which.
    let c = r.loc(at(2, 134), call("ldg", at(1, 3)));
    assert_eq!(
        text(&told(&r, c)),
        [
            "t.h:134 inlined at k.cu:3 inlined at k.cu:7 inlined at k.cu:14 or k.cu:15",
            "k.cu:3",
            " inlined at k.cu:7 inlined at k.cu:14 or k.cu:15"
        ]
    );
    // A call of another function is known, which was inlined there once.
    r.loc(at(1, 3), call("part", at(1, 7)));
    r.loc(at(1, 9), call("other", at(1, 3)));
    r.instruction();
    let once = r.loc(at(1, 10), call("other", at(1, 3)));
    assert_eq!(
        told(&r, once).0,
        "k.cu:10 inlined at k.cu:3 inlined at k.cu:7 inlined at k.cu:14 or k.cu:15"
    );
    // Another function has calls of its own, and a call that no line has named is still a call.
    r.function();
    let d = r.loc(at(2, 134), call("ldg", at(1, 3)));
    assert_eq!(told(&r, d).0, "t.h:134 inlined at k.cu:3");
}

/// nvcc writes an intrinsic like this behind an address of the same line: the call has an instruction of its own before
/// it is named.
#[test]
fn a_call_is_named_once() {
    let mut r = LineReader::default();
    let mut found = Vec::new();
    for kernel in [14, 15] {
        r.loc(at(1, 7), call("pair", at(1, kernel)));
        r.loc(at(1, 3), call("part", at(1, 7)));
        r.instruction();
        r.loc(at(1, 3), call("part", at(1, 7)));
        found.push(r.loc(at(2, 134), call("ldg", at(1, 3))));
        r.instruction();
    }
    let [a, b] = [0, 1].map(|n| told(&r, found[n]).0);
    assert_eq!(
        a,
        "t.h:134 inlined at k.cu:3 inlined at k.cu:7 inlined at k.cu:14"
    );
    assert_eq!(b, a.replace("cu:14", "cu:15"));
    // Two calls by one macro look like one, and name no line.
    for _ in 0..2 {
        r.loc(at(1, 20), None);
        r.loc(at(1, 9), call("f", at(1, 20)));
    }
    assert!(r.alike.len() == 1);
}

#[test]
fn foreign_lines_are_counted_for_the_line_that_calls() {
    let mut r = LineReader::default();
    // From one user's line through two of a header, and from another.
    let mut found = Vec::new();
    for user in [20, 21] {
        r.loc(at(1, user), None);
        r.loc(at(2, 5), call("a", at(1, user)));
        found.push(r.loc(at(2, 9), call("b", at(2, 5))));
        r.instruction();
    }
    let texts: Vec<_> = found.iter().map(|id| told(&r, *id)).collect();
    assert_eq!(text(&texts[0]), ["t.h:9 inlined at k.cu:20", "k.cu:20", ""]);
    assert_eq!(texts[1].1, "k.cu:21");
    let either = r.loc(at(2, 9), call("b", at(2, 5)));
    assert_eq!(
        text(&told(&r, either)),
        [
            "t.h:9 inlined at k.cu:20 or k.cu:21",
            "k.cu:20 or k.cu:21",
            ""
        ]
    );
    // No line but the header's has the call.
    r.function();
    let alone = r.loc(at(2, 9), call("b", at(2, 5)));
    assert_eq!(
        text(&told(&r, alone)),
        ["t.h:9 inlined at t.h:5", "t.h:9", " inlined at t.h:5"]
    );
    // Code of no line belongs to the call.
    r.loc(at(1, 30), None);
    let none = r.loc(at(1, 0), call("a", at(1, 30)));
    assert_eq!(text(&told(&r, none)), ["", "k.cu:30", ""]);
    assert_eq!(told(&r, LineId::default()).1, "?:0");
}

#[test]
fn functions_inlined_into_themselves_are_one_call() {
    let mut r = LineReader::default();
    r.loc(at(1, 40), None);
    for column in 0..20 {
        r.loc(
            At {
                column: column + 1,
                ..at(1, 7)
            },
            call(
                "r",
                match column {
                    0 => at(1, 40),
                    _ => At { column, ..at(1, 7) },
                },
            ),
        );
    }
    let deep = r.loc(
        at(1, 8),
        call(
            "r",
            At {
                column: 20,
                ..at(1, 7)
            },
        ),
    );
    assert_eq!(
        told(&r, deep).0,
        "k.cu:8 inlined at k.cu:7 inlined at k.cu:40"
    );
}

/// Whatever a text says, it is read in time and told briefly.
#[test]
fn texts_against_us() {
    let mut r = LineReader::default();
    r.loc(at(1, 1), None);
    for line in 2..100_000 {
        r.loc(
            at(1 + line % 2, line),
            call("r", at(1 + (line - 1) % 2, line - 1)),
        );
    }
    let deep = r.loc(at(2, 100_000), call("r", at(2, 99_999)));
    let (place, ..) = told(&r, deep);
    assert!(
        place.ends_with(" inlined at ...") && place.len() < 300,
        "{place}"
    );
    // More calls than are kept.
    let mut r = LineReader::default();
    for line in 100..120 {
        r.loc(at(1, line), None);
        r.loc(at(1, 50), call("f", at(1, line)));
        r.loc(at(1, 51), call("g", at(1, 50)));
        r.instruction();
    }
    let many = r.loc(at(1, 51), call("g", at(1, 50)));
    assert_eq!(told(&r, many).0, "k.cu:51 inlined at k.cu:50");
}

proptest! {
    /// A call is the one that was said, whatever else is not known of it, and every text is short.
    #[test]
    fn any_lines_are_told(
        steps in prop::collection::vec((0..3_u32, 0..4_u32, 0..9_u32, 0..4_u32, 0..4_u8), 1..120),
    ) {
        let mut r = LineReader::default();
        for (file, line, call_file, call_line, what) in steps {
            let inlined_at = (call_file < 3)
                .then(|| call(["f", "g"][usize::from(what % 2)], at(call_file, call_line)))
                .flatten();
            let id = r.loc(at(file, line), inlined_at);
            let calls = &r.lines.line(id).unwrap().calls;
            prop_assert!(calls.iter().all(|c| *c < id));
            prop_assert!(calls.iter().all(|c| Some(r.lines.at(*c)) == inlined_at.map(|i| i.at)));
            prop_assert_eq!(calls.is_empty(), inlined_at.is_none());
            let (place, own, inlined) = told(&r, id);
            prop_assert!(place.len() < 400 && own.len() < 40 && inlined.len() < 400);
            prop_assert_eq!(place.is_empty(), line == 0);
            if what == 3 {
                r.instruction();
            }
        }
    }
}
