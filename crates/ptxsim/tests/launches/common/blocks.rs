//! Kernels of a few lines of PTX, for tests of the order between blocks.

use super::*;
use ptxsim::{FindingKind, launch};

const HEADER: &str = ".version 8.4\n.target sm_90\n.address_size 64\n.file 1 \"k.cu\"\n";

/// One thread or more in each block; a buffer of 16 words, `%rd1` its address, `%r1` the block, `%r2` the
/// thread; lines of the source are those of the body, from 1.
pub fn blocks(grid: u32, block: u32, body: &str) -> Report {
    let lines: String = body
        .lines()
        .enumerate()
        .map(|(n, line)| format!(".loc 1 {} 1\n{line}\n", n + 1))
        .collect();
    let text = format!(
        "{HEADER}.entry k(.param .u64 p)\n{{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\nmul.wide.u32 %rd3, %r2, 4;\nadd.u64 %rd2, %rd1, %rd3;\n{lines}ret; }}"
    );
    let module = load(&text);
    let mut memory = Memory::default();
    let p = put(&mut memory, "data", &vec![0; 4096]);
    let kernel = &module.kernels()[0];
    let params = params(kernel, &[Arg::Ptr(p)]);
    let (grid, block) = ([grid, 1, 1], [block, 1, 1]);
    launch(kernel, grid, block, 0, &params, &mut memory, limits()).unwrap()
}

pub fn races(report: &Report) -> Vec<&str> {
    let races = report.findings.iter().inspect(|f| {
        assert!(matches!(
            f.kind,
            FindingKind::GlobalRace | FindingKind::WarpHazard
        ))
    });
    races.map(|f| f.message.as_str()).collect()
}

pub fn in_order(report: &Report) {
    assert_eq!(races(report), [""; 0]);
    assert_eq!(report.not_judged, [""; 0]);
}
