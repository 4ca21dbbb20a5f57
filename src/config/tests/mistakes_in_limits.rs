use super::{check, read, with};

#[test]
fn limits() {
    check(
        "registers: 128",
        "registers: -1",
        "gates.yaml:22:18: kernels.scale.gates.registers: `-1`: no limit is negative",
    );
    check(
        "registers: 128",
        "registers: 256",
        "gates.yaml:22:18: kernels.scale.gates.registers: `256`: no kernel takes more than 255 registers",
    );
    check(
        "registers: 128",
        "registers: 48KiB",
        "gates.yaml:22:18: kernels.scale.gates.registers: `KiB` counts bytes, and registers does not",
    );
    check(
        "registers: 128",
        "registers: \">= 16\"",
        "gates.yaml:22:18: kernels.scale.gates.registers: `>=` would pass a worse registers and fail a better one\n  help: write `<= 16`, or say it under `conditions`",
    );
    check(
        "registers: 128",
        "registers: {sm_89: 80}",
        "gates.yaml:22:18: kernels.scale.gates.registers: no limit for sm_90\n  help: add `sm_90` or `default`",
    );
    check(
        "registers: 128",
        "registers: {sm_89: 80, sm_91: 87}",
        "gates.yaml:22:30: kernels.scale.gates.registers.sm_91: there is no architecture `sm_91`\n  help: did you mean `sm_90`?",
    );
    check(
        "registers: 128",
        "registers: []",
        "gates.yaml:22:18: kernels.scale.gates.registers: an empty list sets no limit",
    );
    check(
        "registers: 128",
        "registers: 25%",
        "gates.yaml:22:18: kernels.scale.gates.registers: 25% of what?\n  help: against the baseline it is `+25%`",
    );
    check(
        "registers: 128",
        "registers: \"<= N\"",
        "gates.yaml:22:18: kernels.scale.gates.registers: resources have one limit for all shapes, and `N` depends on the shape",
    );
    check(
        "registers: 128",
        "registers: \"<= p50\"",
        "gates.yaml:22:18: kernels.scale.gates.registers: a limit on resources cannot depend on p50\n  help: say it under `conditions`",
    );
    check(
        "registers: 128",
        "registers: \"<= wide.registers\"",
        "gates.yaml:22:18: kernels.scale.gates.registers: variant `wide` is compared with itself\n  help: put the limit under `gates` of the variants that it is for",
    );
    check(
        "registers: 128",
        "registers: \"<= narrow.registers\"",
        "gates.yaml:22:18: kernels.scale.gates.registers: there is no variant `narrow`\n  help: there are `plain`, `wide`",
    );
    check(
        "registers: 128",
        "registers: 9O",
        "gates.yaml:22:18: kernels.scale.gates.registers: `9O`: `O` after a number is no unit (KiB, KB, us, ms, ...)",
    );
    check(
        "registers: 128",
        "shared: 48kb",
        "gates.yaml:22:15: kernels.scale.gates.shared: `48kb`: `kb` after a number is no unit (KiB, KB, us, ms, ...)",
    );
    check(
        "registers: 128",
        "shared: 900us",
        "gates.yaml:22:15: kernels.scale.gates.shared: `us` counts time, and shared does not",
    );
    check(
        "registers: 128",
        "occupancy: 25",
        "gates.yaml:22:18: kernels.scale.gates.occupancy: `25`: occupancy is a share: write 25% or 0.25",
    );
    check(
        "registers: 128",
        "occupancy: \"<= 25%\"",
        "gates.yaml:22:18: kernels.scale.gates.occupancy: `<=` would pass a worse occupancy and fail a better one\n  help: write `>= 25%`, or say it under `conditions`",
    );
    check(
        "registers: 128",
        "occupancy: \"+2%\"",
        "gates.yaml:22:18: kernels.scale.gates.occupancy: `+2%` asks occupancy to be better than its baseline\n  help: how much worse may it be? `-2%`",
    );
    check(
        "registers: 128",
        "original_max_err: 0.06",
        "gates.yaml:22:25: kernels.scale.gates.original_max_err: no tensor has a codec, so there is no original_max_err",
    );
    check(
        "registers: 128",
        "conditions: [registers <= 64 || ocupancy >= 0.5]",
        "gates.yaml:22:20: kernels.scale.gates.conditions[0]: `ocupancy` is no metric, dimension or macro\n  help: did you mean `occupancy`?",
    );
    check(
        "registers: 128",
        "conditions: [registers]",
        "gates.yaml:22:20: kernels.scale.gates.conditions[0]: `registers` is no condition\n  help: compare it with something: registers <= 64 || occupancy >= 0.5",
    );
    check(
        "registers: 128",
        "conditions: [N > 5]",
        "gates.yaml:22:20: kernels.scale.gates.conditions[0]: `N > 5` refers to no metric\n  help: there are `registers`, `shared`, `spills`, `stack`, `occupancy`, `blocks_per_sm`, `max_err`, `mean_err`, `rel_l2`, `over_tolerance`, `original_max_err`, `original_mean_err`, `codec_max_err`, `codec_mean_err`, `p50`, `p90`, `p99`, `mean`, `min`, `max`, `cycles`, `cv`, `slow_share`",
    );
    check(
        "registers: 128",
        "conditions: registers <= 64 | occupancy >= 0.5",
        "gates.yaml:22:35: kernels.scale.gates.conditions: `registers <= 64 | occupancy >= 0.5`: `|` is no operator; write it twice",
    );
    check(
        "max_err: 1e-6",
        "max_err: \"<= 1e-9 * p50\"",
        "gates.yaml:23:20: kernels.scale.gates.max_err: a limit on max_err cannot depend on p50: what is wrong is never timed",
    );
    check(
        "max_err: 1e-6",
        "max_err: .nan",
        "gates.yaml:23:16: kernels.scale.gates.max_err: `.nan`: a number starts with a digit: `0.5`",
    );
    check(
        "max_err: 1e-6",
        "max_err: \"<= max_err\"",
        "gates.yaml:23:20: kernels.scale.gates.max_err: a limit on max_err that refers to max_err",
    );
    check(
        "max_err: 1e-6",
        "max_err: \">= 1\"",
        "gates.yaml:23:16: kernels.scale.gates.max_err: `>=` would pass a worse max_err and fail a better one\n  help: write `<= 1`, or say it under `conditions`",
    );
    check(
        "max_err: 1e-6",
        "max_err: \"+10%\"",
        "gates.yaml:22:7: kernels.scale.gates: nothing says how wrong scale/plain@small may be\n  help: add max_err or rel_l2: without one the reference is computed to no purpose",
    );
    check(
        "max_err: 1e-6",
        "mean_err: 1e-6",
        "gates.yaml:22:7: kernels.scale.gates: nothing says how wrong scale/plain@small may be\n  help: add max_err or rel_l2: without one the reference is computed to no purpose",
    );
    check(
        "max_err: 1e-6",
        "max_err: {small: 1e-6}",
        "gates.yaml:22:7: kernels.scale.gates: nothing says how wrong scale/plain@large may be\n  help: add max_err or rel_l2: without one the reference is computed to no purpose",
    );
    check(
        "max_err: 1e-6",
        "max_err: {smal: 1e-6, large: 1}",
        "gates.yaml:23:17: kernels.scale.gates.max_err.smal: there is no shape `smal`\n  help: did you mean `small`?",
    );
    check(
        "max_err: 1e-6",
        "max_err: \"<= 1e-6 * M\"",
        "gates.yaml:23:16: kernels.scale.gates.max_err: `M` is neither a dimension nor a macro under `define` (at shape `small`)\n  help: there are `N`, `TILE`\n  help: declare it: a dimension in every shape, a macro that only the source has under define: {M: ...}",
    );
    check(
        "max_err: 1e-6",
        "max_err: max_err < 1",
        "gates.yaml:23:16: kernels.scale.gates.max_err: `max_err < 1` is a condition, not a limit\n  help: conditions stand in a list of their own: conditions: [...]",
    );
    check(
        "p50: \"+2%\"",
        "p50: +2us",
        "gates.yaml:24:12: kernels.scale.gates.p50: `+2us` is not a change: write `+2%`",
    );
    check(
        "p50: \"+2%\"",
        "p50: \"+2us of base\"",
        "gates.yaml:24:12: kernels.scale.gates.p50: `+2us` is not a change: write `+2%`",
    );
    check(
        "p50: \"+2%\"",
        "p50: \"+2% of\"",
        "gates.yaml:24:12: kernels.scale.gates.p50: `+2% of` is not a change: write `+2%`",
    );
    check(
        "p50: \"+2%\"",
        "p50: \"+2% of v1.0 or so\"",
        "gates.yaml:24:12: kernels.scale.gates.p50: `v1.0 or so` is no revision\n  help: `+2% of base`, or of a tag, as in `+2% of v1.0`",
    );
    check(
        "p50: \"+2%\"",
        "p50: \"+2% of --all\"",
        "gates.yaml:24:12: kernels.scale.gates.p50: `--all` is no revision\n  help: `+2% of base`, or of a tag, as in `+2% of v1.0`",
    );
    check(
        "max_err: 1e-6",
        "max_err: [1e-6, \"+2% of best\"]",
        "gates.yaml:23:23: kernels.scale.gates.max_err[1]: max_err is no time, and only of times the best level is kept\n  help: against the baseline it is `+2%`",
    );
    check(
        "max_err: 1e-6",
        "max_err: [1e-6, \"+2% of base\"]",
        "gates.yaml:23:23: kernels.scale.gates.max_err[1]: max_err is no time, and only times are measured beside the base revision\n  help: against the baseline it is `+2%`",
    );
    check(
        "p50: \"+2%\"",
        "slow_share: \"+2%\"",
        "gates.yaml:24:19: kernels.scale.gates.slow_share: slow_share is mostly 0, and a change relative to that says nothing\n  help: write the share that is allowed: `10%`, or `+5% of base`: five points more than beside it",
    );
    check(
        "p50: \"+2%\"",
        "p50: 2%",
        "gates.yaml:24:12: kernels.scale.gates.p50: 2% of what?\n  help: against the baseline it is `+2%`",
    );
    check(
        "p50: \"+2%\"",
        "p50: 900",
        "gates.yaml:24:12: kernels.scale.gates.p50: 900 of which unit?\n  help: 900us, 900ms or 900ns",
    );
    check(
        "p50: \"+2%\"",
        "p50: \"-2%\"",
        "gates.yaml:24:12: kernels.scale.gates.p50: `-2%` asks p50 to be better than its baseline\n  help: how much worse may it be? `+2%`",
    );
    // What one would have to guess at: shares, or counts?
    for text in ["+2", "++2%", "+2%%", "+ 2%"] {
        check(
            "p50: \"+2%\"",
            &format!("p50: \"{text}\""),
            &format!(
                "gates.yaml:24:12: kernels.scale.gates.p50: `{text}` is not a change: write `+2%`"
            ),
        );
    }
    check(
        "p50: \"+2%\"",
        "p50: \"+x%\"",
        "gates.yaml:24:12: kernels.scale.gates.p50: `+x%` is not a change: write `+2%`",
    );
    check(
        "p50: \"+2%\"",
        "p50: \"<= 0.9 * plain.p50\"",
        "gates.yaml:24:12: kernels.scale.gates.p50: variant `plain` is compared with itself\n  help: put the limit under `gates` of the variants that it is for",
    );
    check(
        "p50: \"+2%\"",
        "p50: \"<= 0.9 * plain.p5O\"",
        "gates.yaml:24:12: kernels.scale.gates.p50: variant `plain` is compared with itself\n  help: put the limit under `gates` of the variants that it is for",
    );
    check(
        "p50: \"+2%\"",
        "p50: 0",
        "gates.yaml:24:12: kernels.scale.gates.p50: 0 of which unit?\n  help: 0us, 0ms or 0ns",
    );
    check(
        "p50: \"+2%\"",
        "p50: \"<= 900us us\"",
        "gates.yaml:24:22: kernels.scale.gates.p50: `900us us`: unexpected `us`",
    );
}

#[test]
fn a_tail_of_few_launches_is_said_before_they_are_measured() {
    for (singles, limit, too_few) in [
        (
            9,
            "p90: \"+2%\"",
            "9 is too few for the limit on p90, which needs 10",
        ),
        (10, "p90: \"+2%\"", ""),
        (
            99,
            "p90: \"+2%\"\n      p99: 400us",
            "99 is too few for the limit on p99, which needs 100",
        ),
        (100, "p99: 400us", ""),
        (
            1,
            "cv: 5%",
            "1 is too few for the limit on cv, which needs 2",
        ),
        (1, "cycles: \"+2%\"", ""),
    ] {
        let text = with("p50: \"+2%\"", limit) + &format!("timing: {{singles: {singles}}}\n");
        match (read(&text), too_few) {
            (Ok(_), "") => {}
            (Err(said), _) if !too_few.is_empty() => assert!(said.ends_with(too_few), "{said}"),
            (other, _) => panic!("{singles} {limit}: {}", other.is_ok()),
        }
    }
}
