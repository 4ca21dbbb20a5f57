use super::{check, read, with};

#[test]
fn wrong_limits_are_refused() {
    mistakes! {
        "registers: 128" => "registers: -1",
            "gates.yaml:22:18: kernels.scale.gates.registers: `-1`: a limit cannot be negative";
        "registers: 128" => "registers: 256",
            "gates.yaml:22:18: kernels.scale.gates.registers: `256`: a thread has at most 255 registers";
        "registers: 128" => "registers: 48KiB",
            "gates.yaml:22:18: kernels.scale.gates.registers: `KiB` is a unit of bytes, and registers is not measured in it";
        "registers: 128" => "registers: \">= 16\"",
            "gates.yaml:22:18: kernels.scale.gates.registers: `>= 16` is the wrong way round for registers: a worse kernel would pass\n  help: write `<= 16`, or put it under `conditions`";
        "registers: 128" => "registers: {sm_89: 80}",
            "gates.yaml:22:18: kernels.scale.gates.registers: no limit for sm_90\n  help: add `sm_90` or `default`";
        "registers: 128" => "registers: {sm_89: 80, sm_91: 87}",
            "gates.yaml:22:30: kernels.scale.gates.registers.sm_91: unknown architecture `sm_91`\n  help: did you mean `sm_90`?";
        "registers: 128" => "registers: []",
            "gates.yaml:22:18: kernels.scale.gates.registers: an empty list sets no limit";
        "registers: 128" => "registers: 25%",
            "gates.yaml:22:18: kernels.scale.gates.registers: 25% of what?\n  help: write `+25%` to compare with the baseline";
        "registers: 128" => "registers: \"<= N\"",
            "gates.yaml:22:18: kernels.scale.gates.registers: a limit on resources holds for all shapes, and `N` depends on the shape";
        "registers: 128" => "registers: \"<= p50\"",
            "gates.yaml:22:18: kernels.scale.gates.registers: a limit on resources cannot depend on p50\n  help: put it under `conditions`";
        "registers: 128" => "registers: \"<= wide.registers\"",
            "gates.yaml:22:18: kernels.scale.gates.registers: variant `wide` is compared with itself\n  help: put the limit under `gates` of the variants that it is for";
        "registers: 128" => "registers: \"<= narrow.registers\"",
            "gates.yaml:22:18: kernels.scale.gates.registers: unknown variant `narrow`\n  help: there are `plain`, `wide`";
        "registers: 128" => "registers: 9O",
            "gates.yaml:22:18: kernels.scale.gates.registers: `9O`: `O` after a number is not a unit (KiB, KB, us, ms, ...)";
        "registers: 128" => "shared: 48kb",
            "gates.yaml:22:15: kernels.scale.gates.shared: `48kb`: `kb` after a number is not a unit (KiB, KB, us, ms, ...)";
        "registers: 128" => "shared: 900us",
            "gates.yaml:22:15: kernels.scale.gates.shared: `us` is a unit of time, and shared is not measured in it";
        "registers: 128" => "occupancy: 25",
            "gates.yaml:22:18: kernels.scale.gates.occupancy: `25`: occupancy is a share: write 25% or 0.25";
        "registers: 128" => "occupancy: \"<= 25%\"",
            "gates.yaml:22:18: kernels.scale.gates.occupancy: `<= 25%` is the wrong way round for occupancy: a worse kernel would pass\n  help: write `>= 25%`, or put it under `conditions`";
        "registers: 128" => "occupancy: \"+2%\"",
            "gates.yaml:22:18: kernels.scale.gates.occupancy: `+2%` would require occupancy to be better than its baseline\n  help: write how much worse it may be: `-2%`";
        "registers: 128" => "original_max_err: 0.06",
            "gates.yaml:22:25: kernels.scale.gates.original_max_err: no tensor has a codec, so there is no original_max_err";
        "registers: 128" => "conditions: [registers <= 64 || ocupancy >= 0.5]",
            "gates.yaml:22:20: kernels.scale.gates.conditions[0]: `ocupancy` is not a metric, a dimension or a macro\n  help: did you mean `occupancy`?";
        "registers: 128" => "conditions: [registers]",
            "gates.yaml:22:20: kernels.scale.gates.conditions[0]: `registers` is not a condition\n  help: compare it with something: registers <= 64 || occupancy >= 0.5";
        "registers: 128" => "conditions: [N > 5]",
            "gates.yaml:22:20: kernels.scale.gates.conditions[0]: `N > 5` refers to no metric\n  help: there are `registers`, `shared`, `spills`, `stack`, `occupancy`, `blocks_per_sm`, `max_err`, `mean_err`, `rel_l2`, `over_tolerance`, `original_max_err`, `original_mean_err`, `codec_max_err`, `codec_mean_err`, `p50`, `p90`, `p99`, `mean`, `min`, `max`, `cycles`, `cv`, `slow_share`";
        "registers: 128" => "conditions: registers <= 64 | occupancy >= 0.5",
            "gates.yaml:22:35: kernels.scale.gates.conditions: `registers <= 64 | occupancy >= 0.5`: `|` is not an operator; use `||`";
        "max_err: 1e-6" => "max_err: \"<= 1e-9 * p50\"",
            "gates.yaml:23:20: kernels.scale.gates.max_err: a limit on max_err cannot depend on p50: a kernel that is wrong is never timed";
        "max_err: 1e-6" => "max_err: \"<= 1e-9 * dram_bytes\"",
            "gates.yaml:23:20: kernels.scale.gates.max_err: a limit on max_err cannot depend on dram_bytes: a kernel that is wrong is never profiled";
        "max_err: 1e-6" => "max_err: .nan",
            "gates.yaml:23:16: kernels.scale.gates.max_err: `.nan`: a number starts with a digit: `0.5`";
        "max_err: 1e-6" => "max_err: \"<= max_err\"",
            "gates.yaml:23:20: kernels.scale.gates.max_err: the limit on max_err refers to max_err itself";
        "max_err: 1e-6" => "max_err: \">= 1\"",
            "gates.yaml:23:16: kernels.scale.gates.max_err: `>= 1` is the wrong way round for max_err: a worse kernel would pass\n  help: write `<= 1`, or put it under `conditions`";
        "max_err: 1e-6" => "max_err: \"+10%\"",
            "gates.yaml:22:7: kernels.scale.gates: scale/plain@small has no limit on its error\n  help: add max_err or rel_l2: without one the reference has no effect";
        "max_err: 1e-6" => "mean_err: 1e-6",
            "gates.yaml:22:7: kernels.scale.gates: scale/plain@small has no limit on its error\n  help: add max_err or rel_l2: without one the reference has no effect";
        "max_err: 1e-6" => "max_err: {small: 1e-6}",
            "gates.yaml:22:7: kernels.scale.gates: scale/plain@large has no limit on its error\n  help: add max_err or rel_l2: without one the reference has no effect";
        "max_err: 1e-6" => "max_err: {smal: 1e-6, large: 1}",
            "gates.yaml:23:17: kernels.scale.gates.max_err.smal: unknown shape `smal`\n  help: did you mean `small`?";
        "max_err: 1e-6" => "max_err: \"<= 1e-6 * M\"",
            "gates.yaml:23:16: kernels.scale.gates.max_err: `M` is neither a dimension nor a macro under `define` (at shape `small`)\n  help: there are `N`, `TILE`\n  help: declare it as a dimension of every shape, or as a macro: define: {M: ...}";
        "max_err: 1e-6" => "max_err: max_err < 1",
            "gates.yaml:23:16: kernels.scale.gates.max_err: `max_err < 1` is a condition, not a limit\n  help: put it into the list of conditions: conditions: [...]";
        "p50: \"+2%\"" => "p50: +2us",
            "gates.yaml:24:12: kernels.scale.gates.p50: `+2us` is not a relative limit: write `+2%`";
        "p50: \"+2%\"" => "p50: \"+2us of base\"",
            "gates.yaml:24:12: kernels.scale.gates.p50: `+2us` is not a relative limit: write `+2%`";
        "p50: \"+2%\"" => "p50: \"+2% of\"",
            "gates.yaml:24:12: kernels.scale.gates.p50: `+2% of` is not a relative limit: write `+2%`";
        "p50: \"+2%\"" => "p50: \"+2% of v1.0 or so\"",
            "gates.yaml:24:12: kernels.scale.gates.p50: `v1.0 or so` is not a revision\n  help: write `+2% of base`, or name a tag: `+2% of v1.0`";
        "p50: \"+2%\"" => "p50: \"+2% of --all\"",
            "gates.yaml:24:12: kernels.scale.gates.p50: `--all` is not a revision\n  help: write `+2% of base`, or name a tag: `+2% of v1.0`";
        "max_err: 1e-6" => "max_err: [1e-6, \"+2% of best\"]",
            "gates.yaml:23:23: kernels.scale.gates.max_err[1]: `of best` is for times only, and max_err is not a time\n  help: write `+2%` to compare with the baseline";
        "max_err: 1e-6" => "max_err: [1e-6, \"+2% of base\"]",
            "gates.yaml:23:23: kernels.scale.gates.max_err[1]: `of base` is for times only, and max_err is not a time\n  help: write `+2%` to compare with the baseline";
        "p50: \"+2%\"" => "slow_share: \"+2%\"",
            "gates.yaml:24:19: kernels.scale.gates.slow_share: slow_share is mostly 0, so a limit relative to it means nothing\n  help: write the largest share allowed: `10%`, or `+5% of base` for five points more than at the base";
        "p50: \"+2%\"" => "p50: 2%",
            "gates.yaml:24:12: kernels.scale.gates.p50: 2% of what?\n  help: write `+2%` to compare with the baseline";
        "p50: \"+2%\"" => "p50: 900",
            "gates.yaml:24:12: kernels.scale.gates.p50: `900` has no unit\n  help: write 900us, 900ms or 900ns";
        "p50: \"+2%\"" => "p50: \"-2%\"",
            "gates.yaml:24:12: kernels.scale.gates.p50: `-2%` would require p50 to be better than its baseline\n  help: write how much worse it may be: `+2%`";
    }
    // These would need a guess: shares, or counts?
    for text in ["+2", "++2%", "+2%%", "+ 2%"] {
        check(
            "p50: \"+2%\"",
            &format!("p50: \"{text}\""),
            &format!(
                "gates.yaml:24:12: kernels.scale.gates.p50: `{text}` is not a relative limit: write `+2%`"
            ),
        );
    }
    mistakes! {
        "registers: 128" => "registers: \"+1.5\"",
            "gates.yaml:22:18: kernels.scale.gates.registers: `+1.5` is not a relative limit: write `+2%`, or `+2` for as many";
        "registers: 128" => "registers: \"+9007199254740993\"",
            "gates.yaml:22:18: kernels.scale.gates.registers: `+9007199254740993` is not a relative limit: write `+2%`, or `+2` for as many";
        "registers: 128" => "registers: \"-1\"",
            "gates.yaml:22:18: kernels.scale.gates.registers: `-1`: a limit cannot be negative";
        "registers: 128" => "blocks_per_sm: \"+1\"",
            "gates.yaml:22:22: kernels.scale.gates.blocks_per_sm: `+1` would require blocks_per_sm to be better than its baseline\n  help: write how much worse it may be: `-2%`";
        "registers: 128" => "registers: +2",
            "gates.yaml:22:18: kernels.scale.gates.registers: `+2` without quotes is the number 2\n  help: write \"+2\" for 2 more than the baseline";
        "registers: 128" => "registers: {sm_90: [+2, 5], default: 1}",
            "gates.yaml:22:27: kernels.scale.gates.registers.sm_90[0]: `+2` without quotes is the number 2\n  help: write \"+2\" for 2 more than the baseline";
        "registers: 128" => "occupancy: \"-1\"",
            "gates.yaml:22:18: kernels.scale.gates.occupancy: `-1`: a limit cannot be negative";
        "p50: \"+2%\"" => "cycles: \"+2\"",
            "gates.yaml:24:15: kernels.scale.gates.cycles: `+2` is not a relative limit: write `+2%`";
        "p50: \"+2%\"" => "p50: \"+x%\"",
            "gates.yaml:24:12: kernels.scale.gates.p50: `+x%` is not a relative limit: write `+2%`";
        "p50: \"+2%\"" => "p50: \"<= 0.9 * plain.p50\"",
            "gates.yaml:24:12: kernels.scale.gates.p50: variant `plain` is compared with itself\n  help: put the limit under `gates` of the variants that it is for";
        "p50: \"+2%\"" => "p50: \"<= 0.9 * plain.p5O\"",
            "gates.yaml:24:12: kernels.scale.gates.p50: variant `plain` is compared with itself\n  help: put the limit under `gates` of the variants that it is for";
        "p50: \"+2%\"" => "p50: 0",
            "gates.yaml:24:12: kernels.scale.gates.p50: `0` has no unit\n  help: write 0us, 0ms or 0ns";
        "p50: \"+2%\"" => "p50: \"<= 900us us\"",
            "gates.yaml:24:22: kernels.scale.gates.p50: `900us us`: unexpected `us`";
    }
}

#[test]
fn a_tail_of_few_launches_is_said_before_they_are_measured() {
    for (singles, limit, too_few) in [
        (
            9,
            "p90: \"+2%\"",
            "9 samples are too few for the limit on p90, which needs 10",
        ),
        (10, "p90: \"+2%\"", ""),
        (
            99,
            "p90: \"+2%\"\n      p99: 400us",
            "99 samples are too few for the limit on p99, which needs 100",
        ),
        (100, "p99: 400us", ""),
        (
            1,
            "cv: 5%",
            "1 samples are too few for the limit on cv, which needs 2",
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

#[test]
fn limits_on_profiles() {
    let mistake = |limit: &str, said: &str| {
        let metric = limit.split(':').next().unwrap();
        check(
            "registers: 128",
            limit,
            &format!(
                "gates.yaml:22:{}: kernels.scale.gates.{metric}: {said}",
                metric.len() + 9
            ),
        );
    };
    mistake(
        "tensor_active: 150%",
        "`150%`: it is a share: write 50% or 0.5",
    );
    mistake("tensor_active: 0", "`0`: every kernel passes this");
    mistake(
        "dram_throughput: \"<= 60%\"",
        "`<= 60%` is the wrong way round for dram_throughput: a worse kernel would pass\n  help: write `>= 60%`, or put it under `conditions`",
    );
    mistake(
        "bank_conflicts: \"-2%\"",
        "`-2%` would require bank_conflicts to be better than its baseline\n  help: write how much worse it may be: `+2%`",
    );
    mistake(
        "tensor_active: \"-1% of base\"",
        "`of base` is for times only, and tensor_active is not a time\n  help: write `-1%` to compare with the baseline",
    );
}
