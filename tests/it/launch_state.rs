//! Tests a kernel that keeps state and is correct in every launch. Kernels that are not are in
//! `tests/cases/launch-state`.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{RECORD, copies, simulate, verdict};
use serde_json::Value;
use std::fs;

const TICKET: &str = "  __shared__ unsigned ticket;
  if (threadIdx.x == 0) ticket = atomicAdd(&NAME, 1);
  __syncthreads();
  y[i] = ticket < gridDim.x ? v : 0;
";

/// The kernels keep state that the last block resets, a table that depends on no input, and a number that only grows.
/// All are correct in every launch. Where nothing is left in variables, nothing is launched again.
#[test]
fn a_kernel_that_keeps_state_and_is_right_in_every_launch_passes() {
    let reset = TICKET.replace("NAME", "tickets")
        + "  if (threadIdx.x == 0 && ticket == gridDim.x - 1) atomicExch(&tickets, 0);";
    let epoch = TICKET
        .replace("NAME", "epochs")
        .replace("ticket < gridDim.x", "ticket % gridDim.x < gridDim.x");
    let project = copies(&[
        ("reset", "__device__ unsigned tickets;", &reset),
        (
            "table",
            "__device__ float squares[256];\n__device__ int made[256];",
            "  if (!made[i]) { squares[i] = i * i; made[i] = 1; }\n  y[i] = v + (squares[i] - i * i);",
        ),
        ("epoch", "__device__ unsigned epochs;", &epoch),
        ("plain", "", "  y[i] = v;"),
    ]);
    let dir = project.path();
    simulate(dir, &[], 0);
    for (kernel, outcome, launches) in [
        ("reset", "skipped", 1),
        ("table", "pass", 2),
        ("epoch", "pass", 8),
        ("plain", "skipped", 1),
    ] {
        assert_eq!(verdict(dir, kernel, "deterministic").0, outcome, "{kernel}");
        let record: Value =
            serde_json::from_str(&fs::read_to_string(dir.join(RECORD)).unwrap()).unwrap();
        let evidence = record["record"]["evidence"].as_array().unwrap();
        let mut checks = evidence
            .iter()
            .filter_map(|evidence| evidence.get("check"))
            .filter(|check| check["case"]["kernel"] == kernel);
        let made = &checks.next().unwrap()["facts"]["got"]["launches"];
        assert_eq!(made.as_u64(), Some(launches), "{kernel}");
    }
}
