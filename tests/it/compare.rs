//! Tests `compare` from outside: the exit codes if head asks less than the base did.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{refused, run, stdout, write_record};
use judge::fixture;

/// Both records are of the same plan, one of a GPU and one of the simulator.
#[test]
fn a_head_without_the_gpu_that_the_base_had_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let timed = write_record(dir.path(), "timed.json", &fixture::record());
    let simulated = write_record(dir.path(), "simulated.json", &fixture::record_simulated());
    refused(
        dir.path(),
        &["compare", &timed, &simulated],
        &format!(
            "error: {simulated}: BASE was made on NVIDIA H100 80GB HBM3 and HEAD without a GPU: no times would be compared\n  \
             help: run both on such a GPU, with --require-gpu\n  \
             help: --allow-loosened compares the rest\n"
        ),
    );
    let rest = ["compare", "-v", &timed, &simulated, "--allow-loosened"];
    let said = stdout(&run(dir.path(), &rest, 0));
    assert!(
        said.contains("PASS: ") && said.contains(" not judged"),
        "{said}"
    );
    run(dir.path(), &["compare", &simulated, &simulated], 0);
    run(dir.path(), &["compare", &timed, &timed], 0);
}
