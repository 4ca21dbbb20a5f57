//! Tests `init` in a repository with kernels: what it lists, and that what it writes validates, builds and runs.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{copy_of, edit, failed, report, run, stderr, stdout};
use serde_json::{Value, json};
use std::fs;

const FIXTURE: &str = "tests/fixtures/init";

#[test]
fn kernels_of_a_repository_are_listed_and_run() {
    let project = copy_of(FIXTURE);
    let dir = project.path();
    let command = "nvcc -DFACTOR=3 -Iinclude -std=c++20 --expt-relaxed-constexpr -c src/built.cu";
    let commands = json!([{"directory": dir, "file": "src/built.cu", "command": command}]);
    fs::create_dir(dir.join("build")).unwrap();
    fs::write(
        dir.join("build/compile_commands.json"),
        commands.to_string(),
    )
    .unwrap();
    let output = run(dir, &["init", "--provision"], 0);
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    let [wrote, missing, _, _, _, ran, next] = lines.as_slice() else {
        panic!("{said}");
    };
    assert_eq!(
        *wrote,
        "wrote gates.yaml: 12 kernels with a call, 4 with a built-in reference that matches; 4 as TODO; 1 of 3 sources \
         did not compile"
    );
    assert_eq!(
        *missing,
        "missing: the call of by_value, gather, by_union and 1 more; the reasons are in the file"
    );
    assert!(ran.starts_with("INCONCLUSIVE: "), "{said}");
    assert_eq!(
        *next,
        "next: complete the TODOs and each `reference: none` in gates.yaml, and then gatekeeper run"
    );
    // The call was read in the sources, so an error in it says nothing about the kernel.
    let written = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    for text in [&said, &written] {
        assert!(!text.contains("finding"), "{text}");
    }
    // A log that is no terminal has a line for each source and each kernel.
    let progress = stderr(&output);
    for line in ["[3/3] ", "src/kernels.cu: 16 kernels\n", "[17/17] read "] {
        assert!(progress.contains(line), "{line}: {progress}");
    }
    insta::assert_snapshot!("init", written);
    assert!(stdout(&run(dir, &["validate"], 0)).contains("12 kernels"));
    // Editors find the keys through the schema.
    let schema = fs::read_to_string(dir.join("gates.schema.json")).unwrap();
    assert_eq!(schema, stdout(&run(dir, &["schema"], 0)));

    // Everything that can be checked is checked, and nothing is called correct.
    run(dir, &["run", "--device", "sim"], 3);
    let judged: Value = serde_json::from_str(&report(dir)).unwrap();
    let verdicts = judged["verdicts"].as_array().unwrap();
    let of = |outcome: &str| -> Vec<&Value> {
        verdicts
            .iter()
            .filter(|verdict| verdict["outcome"] == outcome)
            .collect()
    };
    assert_eq!(failed(dir), []);
    let open = of("inconclusive");
    assert_eq!(open.len(), 8);
    assert!(
        open.iter().all(|verdict| verdict["code"] == "unreferenced"),
        "{open:?}"
    );
    let found = of("pass");
    assert_eq!(
        found
            .iter()
            .filter(|verdict| verdict["gate"] == "memory and races")
            .count(),
        12
    );

    // Kernels that a built-in reference matches must hold it.
    run(
        dir,
        &["run", "--device", "sim", "{add,row_sum,gemm,attend}"],
        0,
    );
    edit(
        &dir.join("src/kernels.cu"),
        "sum += A[row * K + k] * B[k * N + column];",
        "sum += A[row * K + k] * B[k * N + column] * 1.00001f;",
    );
    edit(
        &dir.join("src/kernels.cu"),
        "score *= rsqrtf(width);",
        "score *= 1.01f * rsqrtf(width);",
    );
    for kernel in ["gemm", "attend"] {
        run(dir, &["run", "--device", "sim", kernel], 1);
        let gates: Vec<String> = failed(dir).into_iter().map(|(_, gate)| gate).collect();
        assert!(
            gates.iter().any(|gate| gate.contains("max_err")),
            "{gates:?}"
        );
    }
}
