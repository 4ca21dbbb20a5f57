//! Tests that the reader parses nvdisasm's text, and that no text makes it stop.

#![allow(clippy::unwrap_used, reason = "tests")]

use model::{EntryCode, InstructionKind as Kind, Mix, Width};
use proptest::prelude::*;
use sass::{Listing, entry};

/// Code as nvdisasm 13.5 writes it: a loop in a loop, a function that is called, and text behind the end.
const TEXT: &str = r#"
	.target	sm_90
//--------------------- .text.k --------------------------
	.section	.text.k,"ax",@progbits
        .type           k,@function
        .other          k,@"STO_CUDA_ENTRY STV_DEFAULT"
k:
.text.k:
	//## File "/src/k.cu", line 3
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
	//## File "/src/k.cu", line 5
        /*0010*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/              @!P1 LDG.E.64 R8, desc[UR4][R2.64+0x10] ;
.L_x_1:
	//## File "/cuda/include/f.h", line 80 inlined at "/src/k.cu", line 7
	//## File "/src/k.cu", line 7
        /*0030*/                   MUFU.RCP R9, R8 ;
        /*0040*/                   FCHK P0, R0, R8 ;
        /*0050*/              @!P0 BRA `(.L_x_2) ;
        /*0060*/                   CALL.REL.NOINC `($__internal_0_$__div_slow) ;
.L_x_2:
	//## File "/src/k.cu", line 6
        /*0070*/                   IADD3 R11, R11.reuse, 0x4, RZ ;
        /*0080*/                   ISETP.GE.AND P1, PT, R11, R14, PT ;
        /*0090*/              @!P1 BRA `(.L_x_1) ;
	//## File "/src/k.cu", line 9
        /*00a0*/                   LDL R3, [R1+0x8] ;
        /*00b0*/                   STL [R7], R3 ;
        /*00c0*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
	//## File "/src/k.cu", line 4
        /*00d0*/               @P2 BRA `(.L_x_0) ;
        /*00e0*/                   EXIT ;
        .type           $__internal_0_$__div_slow,@function
$__internal_0_$__div_slow:
        /*00f0*/                   FFMA R3, R4, R5, R6 ;
        /*0100*/                   RET.REL.NODEC R10 `(k) ;
.L_x_9:
        /*0110*/                   BRA `(.L_x_9);
        /*0120*/                   NOP;
"#;

fn read(text: &str) -> EntryCode {
    let listing = Listing::parse(text);
    entry(listing.section("k").unwrap())
}

fn mix_of(code: &EntryCode, number: u32) -> Mix {
    let mut fitting = code.lines.iter().filter(|line| {
        let place = line.place.as_ref();
        place.is_some_and(|place| place.line.number == number)
    });
    let line = fitting.next().unwrap();
    assert!(fitting.next().is_none(), "{number}");
    line.mix.clone()
}

#[test]
fn instructions_are_counted_by_kind_and_line() {
    let code = read(TEXT);
    assert_eq!(
        mix_of(&code, 5),
        Mix::from([
            (Kind::ReadOnlyLoad(Width::W128), 1),
            (Kind::GlobalLoad(Width::W64), 1),
        ])
    );
    let inlined = mix_of(&code, 80);
    assert_eq!((inlined[&Kind::Reciprocal], inlined[&Kind::Call]), (1, 1));
    // These access the stack, by its pointer and by another register.
    let last = mix_of(&code, 9);
    assert_eq!(last[&Kind::StackLoad(Width::W32)], 1);
    assert_eq!(last[&Kind::LocalStore(Width::W32)], 1);
    assert_eq!(last[&Kind::Barrier], 1);
}

#[test]
fn a_line_has_its_inlining_site_and_calls() {
    let code = read(TEXT);
    let line = code
        .lines
        .iter()
        .find(|line| !line.calls.is_empty())
        .unwrap();
    let place = line.place.as_ref().unwrap();
    assert_eq!(place.line.to_string(), "/cuda/include/f.h:80");
    assert_eq!(place.inlined_at[0].to_string(), "/src/k.cu:7");
    assert_eq!(line.calls["__div_slow"], 1);
    // A function of the runtime has no line, whatever precedes it.
    let called = code
        .lines
        .iter()
        .find(|line| line.function.is_some())
        .unwrap();
    assert_eq!(called.function.as_deref(), Some("__div_slow"));
    assert_eq!(called.place, None);
    assert_eq!(called.mix[&Kind::Fp32], 1);
}

#[test]
fn loops_are_natural_ones_with_their_lines_and_steps() {
    let code = read(TEXT);
    let loops: Vec<_> = code
        .loops
        .iter()
        .map(|code_loop| {
            (
                code_loop.place.as_ref().unwrap().line.number,
                code_loop.parent,
                code_loop.step,
            )
        })
        .collect();
    // The branch of padding to itself is not a loop. What belongs to the inner loop is not counted for the outer one.
    assert_eq!(loops, [(4, None, Some(4)), (6, Some(0), Some(4))]);
    // PTXAS may compare the sum of the counter and a register that does not change.
    let sum = "ISETP.GE.AND P1, PT, R14, RZ, PT ;";
    let sum = format!("IADD3 R14, R18, R11, RZ ;\n        /*0088*/                   {sum}");
    let summed = read(&TEXT.replace("ISETP.GE.AND P1, PT, R11, R14, PT ;", &sum));
    assert_eq!(summed.loops[1].step, Some(4));
    let of = |number: u32| {
        let line = code.lines.iter().find(|line| {
            line.place
                .as_ref()
                .is_some_and(|at| at.line.number == number)
        });
        line.unwrap().in_loop
    };
    assert_eq!(
        (of(3), of(5), of(6), of(80), of(9)),
        (None, Some(0), Some(1), Some(1), Some(0))
    );
}

/// A cycle that can be entered in the middle has no head.
#[test]
fn a_branch_back_to_avoidable_code_is_no_loop() {
    let first = "/*0000*/                   LDC R1, c[0x0][0x28] ;";
    assert!(TEXT.contains(first));
    let text = TEXT.replace(first, "/*0000*/  @P3 BRA `(.L_x_2) ;");
    assert_eq!(read(&text).loops, []);
}

#[test]
fn text_that_is_no_listing_is_empty() {
    assert!(
        Listing::parse("nvdisasm fatal: cannot read")
            .sections
            .is_empty()
    );
    assert!(Listing::parse(TEXT).section("other").is_none());
}

fn piece() -> impl Strategy<Value = String> {
    let lines: Vec<String> = TEXT.lines().map(str::to_owned).collect();
    prop_oneof![
        8 => proptest::sample::select(lines),
        1 => "\\PC{0,60}",
        1 => r"        /\*[0-9a-f]{4}\*/ (@!?P[0-7] )?[A-Z]{2,5}(\.[A-Z0-9]{1,4}){0,3} [R0-9x,\[\]+`(.L_)-]{0,30} ;",
        1 => r"\.L_x_[0-9]:",
        1 => "\t//## File \".{0,20}\", line [0-9]{0,12}",
    ]
}

proptest! {
    /// Lines of a listing, left out, repeated, out of order and broken: read or left out, and every index in bounds.
    #[test]
    fn any_text_is_read_to_its_end(lines in proptest::collection::vec(piece(), 0..80)) {
        let text = format!("\t.section\t.text.k,\"ax\"\n{}", lines.join("\n"));
        let listing = Listing::parse(&text);
        for section in &listing.sections {
            let code = entry(section);
            for line in &code.lines {
                prop_assert!(line.in_loop.is_none_or(|at| at < code.loops.len()));
            }
            for (at, found) in code.loops.iter().enumerate() {
                prop_assert!(found.parent.is_none_or(|parent| parent < at));
            }
        }
    }

    /// No instruction is lost or counted twice. The sum is the number of instructions without those that do nothing.
    #[test]
    fn every_instruction_is_counted_once(lines in proptest::collection::vec(piece(), 0..80)) {
        let text = format!("\t.section\t.text.k,\"ax\"\n{}\n{TEXT}", lines.join("\n"));
        let whole = read(TEXT);
        let listing = Listing::parse(&text);
        let last = listing.sections.last().unwrap();
        let again = entry(last);
        let count = |code: &EntryCode| -> u32 { code.lines.iter().flat_map(|line| line.mix.values()).sum() };
        prop_assert_eq!(count(&again), count(&whole));
    }
}

/// The second copy belongs to a group that the wait leaves under way, so it is waited for in the next turn.
#[test]
fn distances_to_uses_go_around_a_loop() {
    let code = read(
        r#"
	.section	.text.k,"ax",@progbits
k:
.text.k:
	//## File "/src/k.cu", line 1
        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0010*/                   IADD3 R12, UR4, R2, RZ ;
        /*0020*/                   ISETP.NE.AND P0, PT, R7, RZ, PT ;
.L_x_0:
	//## File "/src/k.cu", line 2
        /*0030*/                   DEPBAR.LE SB0, 0x1 ;
        /*0040*/                   STS [R9], R8 ;
	//## File "/src/k.cu", line 3
        /*0050*/                   LDG.E R8, desc[UR4][R2.64] ;
	//## File "/src/k.cu", line 4
        /*0060*/                   LDGSTS.E [R9], desc[UR4][R2.64] ;
        /*0070*/                   LDGDEPBAR ;
        /*0080*/               @P0 BRA `(.L_x_0) ;
        /*0090*/                   EXIT ;
"#,
    );
    let ahead: Vec<_> = code.lines.iter().map(|line| line.ahead).collect();
    assert_eq!(ahead, [Some(1), None, Some(4), Some(8), None]);
}
