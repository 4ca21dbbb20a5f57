//! Tests slowdowns that a median does not show: some launches take longer, in a kernel that is otherwise as fast as
//! before.

use super::base::{committed, verdict_on_dial};
use super::*;
use common::commit_all;

/// The number of turns. It is so large that a sample holds one launch, and most blocks of four launches have no slow
/// one.
const ROUNDS: &str = "ROUNDS: 50000";

/// Makes one block continue for `more` % of its turns after the others, in `of_128` of 128 launches. Alone it has a
/// multiprocessor that eight blocks shared, and makes some seven turns in the time of one. `of_128` is data, so the
/// machine code of both sides is the same.
fn now_and_then(dir: &Path, of_128: u32, more: u32) {
    let source = std::fs::read_to_string(root().join("tests/fixtures/project/dial.cu")).unwrap();
    let begin = source.find("extern \"C\"").unwrap();
    let turns = source.find("    #pragma unroll 1").unwrap();
    let end = source.find("    if (i < n) y[i] = value;").unwrap();
    // The low bits of a clock differ at every launch, and the product mixes them into the high ones.
    let slow = format!(
        "    __shared__ bool slow;
    if (threadIdx.x == 0) slow = blockIdx.x == 0 && (unsigned long long)clock64() * 0x9E3779B97F4A7C15ull >> 57 < of_128;
    __syncthreads();
    const int last = slow ? turns + int((long long)turns * {more} / 100) : turns;
    #pragma unroll 1
    for (int turn = 0; turn < last; ++turn) value = fmaf(value, one, zero);
"
    );
    let data = format!("__device__ volatile unsigned of_128 = {of_128};\n");
    let parts = [
        &source[..begin],
        &data,
        &source[begin..turns],
        &slow,
        &source[end..],
    ];
    std::fs::write(dir.join("dial.cu"), parts.concat()).unwrap();
}

fn project_with(gates: &str) -> tempfile::TempDir {
    let project = committed();
    let file = project.path().join("gates.yaml");
    edit(&file, "ROUNDS: 5000", ROUNDS);
    edit(
        &file,
        "      cycles: +2%\n      p50: [+2%, +0.5% of base]\n",
        gates,
    );
    project
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_p99_that_doubles_while_p50_stays() {
    let project = project_with("      p50: +0.5% of base\n      p99: +20% of base\n");
    let dir = project.path();
    now_and_then(dir, 0, 800);
    commit_all(dir);
    now_and_then(dir, 5, 800);
    gate(dir, &["dial", "--base", "HEAD", "--require-gpu"], 1);
    let (p50, p99) = (
        verdict_on_dial(dir, "p50 +0.5% of base"),
        verdict_on_dial(dir, "p99 +20% of base"),
    );
    println!("{p50:?}\n{p99:?}");
    assert_eq!(
        (p50.0.as_str(), p99.0.as_str()),
        ("pass", "fail"),
        "{p50:?} {p99:?}"
    );
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_slow_mode_that_grows_from_30_to_45_per_cent() {
    let project = project_with("      slow_share: +5% of base\n");
    let dir = project.path();
    now_and_then(dir, 38, 200);
    commit_all(dir);
    now_and_then(dir, 58, 200);
    let output = gate(dir, &["dial", "--base", "HEAD", "--require-gpu", "-v"], 1);
    let grown = verdict_on_dial(dir, "slow_share +5% of base");
    println!("{grown:?}");
    assert_eq!(grown.0, "fail", "{grown:?}");
    let said = unwrapped(&stdout(&output));
    assert!(said.contains("two modes"), "{said}");
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn the_same_slow_mode_in_other_code() {
    // A process has 64 launches of each side. So 35 processes know the difference of two shares of 30 % to 1.4 points,
    // and their interval ends 4 points beyond what they saw. It ends within 5 points three times in four, and always
    // within 10 points.
    let project = project_with("      slow_share: +10% of base\n");
    let dir = project.path();
    now_and_then(dir, 38, 200);
    commit_all(dir);
    edit(
        &dir.join("dial.cu"),
        "if (i < n) y[i] = value;",
        "if (i < n) y[i] = value + zero;",
    );
    gate(dir, &["dial", "--base", "HEAD", "--require-gpu"], 0);
    let same = verdict_on_dial(dir, "slow_share +10% of base");
    println!("{same:?}");
    assert_eq!(same.0, "pass", "{same:?}");
}
