//! `setmaxnreg`: registers that warpgroups hand on. ptxas 13.0.88 says with how many a thread begins.

use crate::common::*;
use ptxsim::*;

/// The first warpgroup releases registers, the others take them; `.loc` gives each line its number.
fn kernel(bounds: &str, first: &str, others: &str) -> String {
    format!(
        r#".version 9.0
.target sm_90a
.address_size 64
.file 1 "registers.cu"
.visible .entry registers(.param .u64 out)
{bounds}
{{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .loc 1 1 0
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    setp.ge.u32 %p1, %r1, 128;
    setp.ge.u32 %p2, %r1, 192;
    @%p1 bra others;
    .loc 1 2 0
    {first}
    bra end;
others:
    .loc 1 3 0
    {others}
end:
    .loc 1 4 0
    st.global.u32 [%rd1], %r1;
    ret;
}}
"#
    )
}

const BOUNDS: &str = ".maxntid 384\n.minnctapersm 1";
const RELEASE: &str = "setmaxnreg.dec.sync.aligned.u32 40;";
const TAKE: &str = "setmaxnreg.inc.sync.aligned.u32 232;";

fn run(bounds: &str, first: &str, others: &str) -> Result<Report, Fault> {
    let text = kernel(bounds, first, others);
    let module = load(&text);
    let kernel = module.kernel("registers").unwrap();
    let mut memory = Memory::default();
    let out = put(&mut memory, "out", &[0xff; 4 * 384]);
    let params = params(kernel, &[Arg::Ptr(out)]);
    let all: Vec<u8> = (0..384_u32).flat_map(u32::to_le_bytes).collect();
    let report = launch_kept(
        (&text, kernel),
        [1; 3],
        [384, 1, 1],
        0,
        &params,
        &mut memory,
        &[(out, 4 * 384)],
        Some(kept::Wanted {
            at: out,
            bytes: &all,
            compared: kept::Compared::Bytes,
        }),
    );
    if report.is_ok() {
        assert_eq!(memory.read(out, 4 * 384).unwrap(), all);
    }
    report
}

/// 168 a thread at entry: 128 * 40 + 256 * 232 is as many as 384 * 168.
#[test]
fn registers_that_suffice_are_handed_on() {
    for bounds in [
        BOUNDS,
        ".reqntid 384\n.minnctapersm 1",
        ".maxnreg 168",
        ".maxntid 192, 2\n.minnctapersm 1",
    ] {
        clean(run(bounds, RELEASE, TAKE));
    }
    // Those that took them give them back, and the first takes them in its turn.
    let others = format!("{TAKE} setmaxnreg.dec.sync.aligned.u32 104;");
    let first = format!("{RELEASE} setmaxnreg.inc.sync.aligned.u32 232;");
    clean(run(BOUNDS, &first, &others));
}

/// No tool and no compiler says so: the last warp waits for ever.
#[test]
fn more_registers_than_the_launch_allocated_are_a_deadlock() {
    let greedy = TAKE.replace("232", "240");
    for (bounds, first, others, lacks) in [
        (BOUNDS, RELEASE, &greedy[..], 2048),
        // Nobody releases any.
        (BOUNDS, "", TAKE, 2048),
        // Two blocks share a multiprocessor, so there are 80 a thread.
        (
            ".maxntid 384\n.minnctapersm 2",
            RELEASE,
            "setmaxnreg.inc.sync.aligned.u32 104;",
            256,
        ),
    ] {
        let fault = run(bounds, first, others).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}");
        let says = format!("wait for {lacks} registers more than the block has free");
        assert!(
            fault.message.contains(&says) && fault.message.contains("registers.cu:3"),
            "{fault}"
        );
    }
}

/// ptxas says "'setmaxnreg' ignored; unable to determine register count at entry".
#[test]
fn without_bounds_nothing_happens() {
    for bounds in ["", ".maxntid 384"] {
        clean(run(bounds, RELEASE, &TAKE.replace("232", "240")));
    }
}

#[test]
fn changes_the_wrong_way_are_undefined() {
    for (first, others, line) in [
        ("setmaxnreg.dec.sync.aligned.u32 200;", TAKE, 2),
        (
            RELEASE,
            "setmaxnreg.inc.sync.aligned.u32 232; setmaxnreg.inc.sync.aligned.u32 104;",
            3,
        ),
    ] {
        let fault = run(BOUNDS, first, others).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Undefined, "{fault}");
        let place = format!("registers.cu:{line}");
        assert!(
            fault
                .message
                .contains("registers a thread by a warp that has")
                && fault.message.contains(&place),
            "{fault}"
        );
    }
}

#[test]
fn part_of_a_warpgroup_is_found() {
    let part = format!("@%p2 bra end; {TAKE}");
    let findings = run(BOUNDS, RELEASE, &part).unwrap().findings;
    let found: Vec<_> = findings
        .iter()
        .map(|f| (f.kind, f.places[0].line.clone().unwrap().1))
        .collect();
    assert_eq!(found, [(FindingKind::InvalidMembers, 3)]);
}
