//! Order in global memory (tests/fixtures/sync.cu): what a launch may count on, and what not.

use crate::common::blocks::*;
use crate::common::*;
use ptxsim::*;

struct Run {
    report: Result<Report, Fault>,
    memory: Memory,
    buffers: Vec<u64>,
}

impl Run {
    fn words(&self, buffer: usize, n: usize) -> Vec<u32> {
        let bytes = self.memory.read(self.buffers[buffer], 4 * n).unwrap();
        let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
        bytes.chunks_exact(4).map(word).collect()
    }

    /// Races in global memory: all findings have to be that.
    fn races(&self) -> &[Finding] {
        let findings = &self.report.as_ref().unwrap().findings;
        for f in findings {
            assert_eq!(f.kind, FindingKind::GlobalRace, "{f:?}");
        }
        findings
    }
}

/// `words`: zeros in each buffer; numbers follow them as parameters.
fn run(name: &str, grid: u32, block: u32, words: &[usize], numbers: &[i32]) -> Run {
    let module = load(&fixture("sync"));
    let kernel = module.kernel(name).unwrap();
    let mut memory = Memory::default();
    let zeros = |n: &usize| put(&mut memory, "data", &vec![0; 4 * n]);
    let buffers: Vec<u64> = words.iter().map(zeros).collect();
    let args: Vec<Arg> = buffers
        .iter()
        .map(|&p| Arg::Ptr(p))
        .chain(numbers.iter().map(|&n| Arg::I32(n)))
        .collect();
    let p = params(kernel, &args);
    let report = launch(
        kernel,
        [grid, 1, 1],
        [block, 1, 1],
        0,
        &p,
        &mut memory,
        limits(),
    );
    Run {
        report,
        memory,
        buffers,
    }
}

#[test]
fn the_last_block_adds_up() {
    let done = run("last_done", 9, 96, &[9 * 96, 1, 96], &[]);
    assert_eq!(done.races(), []);
    assert_eq!(done.words(2, 96), [45; 96]);
    let unfenced = run("last_unfenced", 9, 96, &[9 * 96, 1, 96], &[]);
    let race = &unfenced.races()[0];
    assert!(
        race.message.contains("this read and the write at sync.cu:") && race.places.len() == 2,
        "{race:?}"
    );
    assert_eq!(race.block, [8, 0, 0]);
    // The first warp's thread 0 did fence for its own warp; the others were not done for certain.
    let unsynced = run("last_unsynced", 9, 96, &[9 * 96, 1, 96], &[]);
    let race = &unsynced.races()[0];
    assert!(race.thread[0] >= 32, "{race:?}");
}

#[test]
fn flags_between_blocks() {
    let flags = run("flags", 3, 64, &[64, 1, 192], &[]);
    assert_eq!(flags.races(), []);
    assert_eq!(flags.words(2, 64)[5], 15);
    assert_eq!(flags.words(2, 192)[64 + 6], 18);
    let unfenced = run("flags_unfenced", 3, 64, &[64, 1, 192], &[]);
    assert!(!unfenced.races().is_empty());
}

#[test]
fn grid_barriers_queues_and_locks() {
    let grid = run("grid_sync", 5, 64, &[320, 320, 1], &[]);
    assert_eq!(grid.races(), []);
    assert_eq!(grid.words(0, 1), [129]);
    let queue = run("queue", 4, 64, &[1, 64 * 10], &[10]);
    assert_eq!(queue.races(), []);
    assert_eq!(queue.words(1, 640)[639], 9);
    let locked = run("locked", 20, 32, &[1, 1], &[]);
    assert_eq!(locked.races(), []);
    assert_eq!(locked.words(1, 1), [190]);
}

#[test]
fn warps_hand_values_on_through_flags_in_shared_memory() {
    let relay = run("relay", 1, 128, &[1], &[40]);
    assert_eq!(relay.races(), []);
    assert_eq!(relay.words(0, 1), [780]);
}

#[test]
fn a_halo_that_belongs_to_the_neighbour() {
    let alone = run("stencil", 1, 128, &[128], &[128]);
    assert_eq!(alone.races(), []);
    let blocks = run("stencil", 3, 128, &[384], &[384]);
    let race = &blocks.races()[0];
    assert!(
        race.message.contains("byte 508")
            && race
                .message
                .contains("by block [0, 0, 0], thread [127, 0, 0]"),
        "{race:?}"
    );
    assert_eq!((race.block, race.thread), ([1, 0, 0], [0, 0, 0]));
    assert_eq!(race.address, Some(blocks.buffers[0] + 508));
    assert!(race.places.iter().all(|p| p.at.contains("sync.cu:")));
    // Without its barrier a block's own threads race.
    let text = without(&fixture("sync"), "bar.sync", &["stencil"]);
    let module = load(&text);
    let kernel = module.kernel("stencil").unwrap();
    let mut memory = Memory::default();
    let x = put(&mut memory, "x", &[0; 512]);
    let p = params(kernel, &[Arg::Ptr(x), Arg::I32(128)]);
    let report = launch(kernel, [1, 1, 1], [128, 1, 1], 0, &p, &mut memory, limits()).unwrap();
    assert!(
        report
            .findings
            .iter()
            .any(|f| f.kind == FindingKind::GlobalRace)
    );
}

/// The text without the lines with `what` in the functions named.
fn without(text: &str, what: &str, functions: &[&str]) -> String {
    let mut inside = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.contains(".entry") {
            inside = functions.iter().any(|f| line.contains(&format!(" {f}(")));
        }
        if !(inside && line.contains(what)) {
            out.push_str(line);
            out.push('\n');
        }
    }
    assert_ne!(out.len(), text.len());
    out
}

/// Who writes what is there already takes nothing away, whatever the order.
#[test]
fn the_same_value_from_several_is_not_told() {
    let found = |value: [u8; 2]| {
        let text = format!(
            ".version 8.4\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p)\n{{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, {};\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 mov.u32 %r2, {};\nst.global.u32 [%rd1], %r2;\nret; }}",
            value[0], value[1]
        );
        let module = load(&text);
        let mut memory = Memory::default();
        let p = put(&mut memory, "data", &[0; 4]);
        let params = params(&module.kernels()[0], &[Arg::Ptr(p)]);
        let grid = ([2, 1, 1], [1, 1, 1]);
        launch(
            &module.kernels()[0],
            grid.0,
            grid.1,
            0,
            &params,
            &mut memory,
            limits(),
        )
        .unwrap()
        .findings
    };
    assert_eq!(found([7, 7]), []);
    assert_eq!(found([7, 8])[0].kind, FindingKind::GlobalRace);
    let histogram = run("histogram", 4, 64, &[64, 8], &[]);
    assert_eq!(histogram.races(), []);
    assert_eq!(histogram.words(1, 1), [256]);
}

#[test]
fn a_livelock_is_named_and_so_are_lines_that_poll() {
    let nobody = run("nobody", 3, 64, &[10], &[]);
    let fault = nobody.report.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(
        fault.message.starts_with("livelock: ")
            && fault.message.contains("3 blocks are running")
            && fault
                .message
                .contains("block [0, 0, 0] warp 0 lanes 0xffffffff and 5 more are")
            && fault.message.contains("at sync.cu:"),
        "{fault}"
    );
    let polls = |name: &str, buffers: &[usize]| {
        let report = run(
            name,
            3,
            64,
            buffers,
            &[4][..usize::from(name == "queue" || name == "stencil")],
        );
        let mut withheld = report.report.unwrap().withheld;
        withheld.retain(|_, of| of.doubt == Doubt::Polls);
        withheld
    };
    let flags = polls("flags", &[64, 1, 192]);
    let gates = Counter::ALL.into_iter().filter(|c| c.tier() == Tier::Gate);
    assert!(gates.eq(flags.keys().copied()), "none can be gated");
    assert!(flags.values().all(|d| d.place.contains("sync.cu:")));
    assert!(!polls("queue", &[1, 256]).is_empty());
    assert!(polls("stencil", &[192]).is_empty());
    assert!(polls("last_done", &[192, 1, 64]).is_empty());
}

/// A wait that gives up after a while is no livelock; one that never ends and counts is found by
/// the budget, which says where everybody is.
#[test]
fn waits_that_count() {
    let wait = |limit: u32, instructions: u64| {
        let text = format!(
            ".version 8.4\n.target sm_90\n.address_size 64\n.file 1 \"k.cu\"\n.entry k(.param .u64 p)\n{{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, 0;\n.loc 1 5 1\nL: ld.volatile.global.u32 %r2, [%rd1];\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, {limit};\n@%p1 bra L;\nst.global.u32 [%rd1+4], %r1;\nret; }}"
        );
        let module = load(&text);
        let mut memory = Memory::default();
        let p = put(&mut memory, "data", &[0; 8]);
        let params = params(&module.kernels()[0], &[Arg::Ptr(p)]);
        let limits = Limits {
            instructions,
            ..limits()
        };
        launch(
            &module.kernels()[0],
            [1, 1, 1],
            [1, 1, 1],
            0,
            &params,
            &mut memory,
            limits,
        )
    };
    assert!(wait(200_000, 10_000_000).is_ok());
    let fault = wait(u32::MAX, 1_000_000).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Budget);
    assert!(
        fault
            .message
            .contains("block [0, 0, 0] warp 0 lanes 0x00000001 are at k.cu:5"),
        "{fault}"
    );
}

#[test]
fn a_race_with_the_second_of_two_readers_in_a_block() {
    // x[i] = x[i + 1] + x[i]: the first warp reads what the second one reads and writes.
    let body = |between: &str| {
        format!(
            "ld.global.u32 %r3, [%rd2+4];\nld.global.u32 %r4, [%rd2];\n{between}\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%rd2], %r3;"
        )
    };
    let racing = blocks(1, 64, &body("bar.warp.sync -1;"));
    let told = races(&racing);
    assert!(
        told.iter().any(|m| m.contains(
            "byte 128: this write and the read at k.cu:1 by block [0, 0, 0], thread [31, 0, 0]"
        )),
        "{told:?}"
    );
    // Within a warp, too: lane 1 writes what lane 0 reads.
    let warp = blocks(1, 32, &body(""));
    let told = races(&warp);
    assert!(
        told.iter().any(|m| m.contains(
            "byte 4: no __syncwarp() orders this write and the read at k.cu:1 by thread [0, 0, 0] of the"
        )),
        "{told:?}"
    );
    for (threads, between) in [(64, "bar.sync 0;"), (32, "bar.warp.sync -1;")] {
        let ordered = blocks(1, threads, &body(between));
        in_order(&ordered);
    }
}

#[test]
fn a_race_of_one_lane_with_the_others_that_read_with_it() {
    let body = |between: &str| {
        format!(
            "ld.global.u32 %r3, [%rd1];\n{between}\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 st.global.u32 [%rd1], 5;"
        )
    };
    let racing = blocks(1, 32, &body(""));
    let told = races(&racing);
    assert!(
        told.len() == 1
            && told[0].contains("the read at k.cu:1 by another thread of the same warp"),
        "{told:?}"
    );
    assert_eq!(races(&blocks(1, 32, &body("bar.warp.sync -1;"))), [""; 0]);
    // Many warps read, and one writes behind their barrier.
    let many = blocks(1, 256, &body("bar.sync 0;"));
    in_order(&many);
    assert!(!races(&blocks(1, 256, &body(""))).is_empty());
}

/// Block 0 reads, waits until block 1 has read too, and writes.
#[test]
fn a_race_with_a_second_reader_of_another_block() {
    let body = |reader: &str, writer: &str| {
        format!(
            "ld.global.u32 %r3, [%rd1];\n@%p1 bra W;\n{reader}\nst.volatile.global.u32 [%rd1+64], 1;\nret;\nW: ld.volatile.global.u32 %r4, [%rd1+64];\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra W;\n{writer}\nst.global.u32 [%rd1], 7;"
        )
    };
    let fence = "fence.acq_rel.gpu;";
    let fenced = blocks(2, 1, &body(fence, fence));
    in_order(&fenced);
    let racing = blocks(2, 1, &body("", fence));
    let told = races(&racing);
    assert!(
        told.len() == 1
            && told[0].contains("byte 0: this write and the read at k.cu:1 by block [1, 0, 0]"),
        "{told:?}"
    );
}

/// Every block reads, and the last one that is done writes.
#[test]
fn the_last_block_may_overwrite_values_that_all_have_read() {
    let body = |reader: &str, writer: &str| {
        format!(
            "ld.global.u32 %r3, [%rd1];\n{reader}\natom.global.add.u32 %r4, [%rd1+64], 1;\nsetp.ne.u32 %p2, %r4, 8;\n@%p2 ret;\n{writer}\nst.global.u32 [%rd1], 7;"
        )
    };
    let fence = "membar.gl;";
    let fenced = blocks(9, 1, &body(fence, fence));
    in_order(&fenced);
    assert!(!races(&blocks(9, 1, &body("", fence))).is_empty());
    // Two of nine are remembered by place; the others are not taken for done.
    let one = "setp.eq.u32 %p3, %r1, 5;\n@!%p3 fence.acq_rel.gpu;";
    let forgotten = blocks(9, 1, &body(one, fence));
    assert_eq!(races(&forgotten), [""; 0]);
    assert_eq!(
        forgotten.not_judged,
        [
            "whether all reads come before the write at k.cu:8: more threads read there unordered than the check remembers"
        ]
    );
}
