use super::*;
use proptest::prelude::*;

const CUDA13: &str =
    include_str!("../../../../tests/fixtures/ptxas/cuda13-three-architectures.txt");
const RELOCATABLE: &str = include_str!("../../../../tests/fixtures/ptxas/cuda13-relocatable.txt");
const ADVISORY: &str = include_str!("../../../../tests/fixtures/ptxas/cuda13-advisory.txt");
const CUDA12: &str = include_str!("../../../../tests/fixtures/ptxas/cuda12-wording.txt");
const OLDER: &str = include_str!("../../../../tests/fixtures/ptxas/older-wording.txt");

fn one_line(report: &PtxasReport, symbol: &str, arch: &str) -> String {
    match report.resources(symbol, arch) {
        Ok(r) => format!(
            "{symbol} {arch}: {} registers, {} stack, {}/{} spilled, {} shared, {} barriers, cumulative {:?}, constant {:?}\n",
            r.registers,
            r.stack.unwrap(),
            r.spill_stores.unwrap(),
            r.spill_loads.unwrap(),
            r.static_shared,
            r.barriers,
            r.cumulative_stack,
            r.constant_banks
        ),
        Err(absent) => format!("{symbol} {arch}: {absent}\n"),
    }
}

fn table(text: &str, entries: &[&str], arches: &[&str]) -> String {
    let report = PtxasReport::parse(text);
    let mut lines = String::new();
    for arch in arches {
        for entry in entries {
            lines += &one_line(&report, entry, arch);
        }
    }
    lines + &report.warnings.join("\n")
}

#[test]
fn many_entries_and_architectures_of_cuda_13() {
    insta::assert_snapshot!(table(
        CUDA13,
        &[
            "stack_and_call",
            "recurses",
            "plain",
            "barriers",
            "_Z7spilledIfLi60EEvPT_",
            "_Z6helperf"
        ],
        &["sm_80", "sm_90", "sm_120"],
    ));
}

#[test]
fn relocatable_code_and_advisories_of_cuda_13() {
    // Functions that are compiled for linking belong to no entry, and PTXAS does not say so: the entry
    // before them is charged with their frames. Relocatable code is not loaded without a link anyway.
    insta::assert_snapshot!(table(RELOCATABLE, &["stack_and_call", "plain"], &["sm_90"]));
    insta::assert_snapshot!(table(ADVISORY, &["_Z1kPfyy"], &["sm_90", "sm_90a"]));
}

#[test]
fn the_wording_of_cuda_12_and_before() {
    insta::assert_snapshot!(table(
        CUDA12,
        &["_Z3fwdN5flash6ParamsE", "_Z4postN5flash6ParamsE"],
        &["sm_90a", "sm_80"]
    ));
    insta::assert_snapshot!(table(
        OLDER,
        &["_Z10rayTracingPh", "scrypt_core", "fermi"],
        &["sm_30", "sm_80", "sm_20"]
    ));
}

fn without(text: &str, part: &str) -> String {
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains(part)).collect();
    kept.join("\n")
}

#[test]
fn missing_values_are_never_zero() {
    let of = |text: &str| PtxasReport::parse(text).resources("plain", "sm_90");
    assert!(of(CUDA13).is_ok());
    assert_eq!(of(""), Err(Absent::NotReported));
    assert_eq!(
        PtxasReport::parse(CUDA13).resources("plain", "sm_89"),
        Err(Absent::NotReported)
    );
    assert_eq!(
        of(&without(CUDA13, "Used")),
        Err(Absent::Incomplete("registers"))
    );
    assert_eq!(
        of(&without(CUDA13, "bytes stack frame")),
        Err(Absent::Incomplete("stack frame"))
    );
    assert_eq!(
        of(&CUDA13.replace("Used 8 registers", "Used many registers")),
        Err(Absent::Incomplete("registers"))
    );
    assert_eq!(
        of(&CUDA13.replace("Used 8 registers", "Used 99999999999 registers")),
        Err(Absent::Incomplete("registers"))
    );
    let smem = CUDA13.replace("512 bytes smem", "some bytes smem");
    assert_eq!(
        PtxasReport::parse(&smem).resources("stack_and_call", "sm_90"),
        Err(Absent::Incomplete("registers"))
    );
    let twice = format!(
        "{CUDA13}\n{}",
        CUDA13.replace("Used 8 registers", "Used 9 registers")
    );
    assert_eq!(of(&twice), Err(Absent::Contradictory));
    // Printed by g++ for a `#pragma message` in a launcher's source, behind the last entry.
    let last = "ptxas info    : Compiling entry function 'k' for 'sm_90'\n\
        ptxas info    : Function properties for k\n    \
        0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
        ptxas info    : Used 200 registers, used 1 barriers\n";
    let message =
        |used: &str| format!("{last}k.cu:3:9: note: '#pragma message: ptxas info : Used {used}'");
    let of_last = |text: &str| PtxasReport::parse(text).resources("k", "sm_90");
    assert_eq!(of_last(last).map(|facts| facts.registers), Ok(200));
    assert_eq!(
        of_last(&message("8 registers, x")),
        Err(Absent::Contradictory)
    );
    assert_eq!(of_last(&message("nothing")), Err(Absent::Contradictory));
    assert_eq!(of(&format!("{CUDA13}\n{CUDA13}")), of(CUDA13));
    // Device functions are no entries.
    assert_eq!(
        PtxasReport::parse(CUDA13).resources("_Z6helperf", "sm_90"),
        Err(Absent::NotReported)
    );
}

#[test]
fn a_frame_without_spills_is_a_frame() {
    let of = |line: &str| {
        let text = CUDA13.replace(
            "    128 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
            line,
        );
        let resources = PtxasReport::parse(&text)
            .resources("stack_and_call", "sm_90")
            .unwrap();
        (
            resources.stack.unwrap(),
            resources.spill_stores.unwrap(),
            resources.spill_loads.unwrap(),
        )
    };
    assert_eq!(
        of("    128 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"),
        (128, 0, 0)
    );
    assert_eq!(
        of("    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"),
        (0, 0, 0)
    );
    assert_eq!(
        of("    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads"),
        (8, 4, 12)
    );
}

#[test]
fn a_clause_that_is_not_known_is_said() {
    let text = CUDA13.replace(
        "Used 8 registers, used 0 barriers",
        "Used 8 registers, used 0 barriers, 7 gizmos",
    );
    let report = PtxasReport::parse(&text);
    assert!(report.resources("plain", "sm_90").is_ok());
    assert!(
        report
            .warnings
            .iter()
            .any(|warning| warning.contains("7 gizmos")),
        "{:?}",
        report.warnings
    );
}

/// Returns a report as PTXAS of CUDA 12 and 13 prints it.
fn printed(symbol: &str, arch: &str, r: &Resources) -> String {
    let mut used = format!(
        "Used {} registers, used {} barriers",
        r.registers, r.barriers
    );
    if let Some(bytes) = r.cumulative_stack {
        used += &format!(", {bytes} bytes cumulative stack size");
    }
    if r.static_shared > 0 {
        used += &format!(", {} bytes smem", r.static_shared);
    }
    for (bank, bytes) in &r.constant_banks {
        used += &format!(", {bytes} bytes cmem[{bank}]");
    }
    format!(
        "ptxas info    : Compiling entry function '{symbol}' for '{arch}'\n\
         ptxas info    : Function properties for {symbol}\n    \
         {} bytes stack frame, {} bytes spill stores, {} bytes spill loads\n\
         ptxas info    : {used}\n\
         ptxas info    : Compile time = 1.0 ms\n",
        r.stack.unwrap(),
        r.spill_stores.unwrap(),
        r.spill_loads.unwrap()
    )
}

prop_compose! {
    fn resources()(
        figures in prop::array::uniform6(0u32..1 << 20),
        cumulative_stack in prop::option::of(0u32..1 << 20),
        constant_banks in prop::collection::btree_map(0u32..17, 0u32..1 << 16, 0..4),
    ) -> Resources {
        let [registers, stack, spill_stores, spill_loads, static_shared, barriers] = figures;
        let [stack, spill_stores, spill_loads] = [stack, spill_stores, spill_loads].map(Some);
        Resources { registers, stack, spill_stores, spill_loads, static_shared, barriers, cumulative_stack, constant_banks, code: None, local_accesses: None }
    }
}

type Key = (String, String);

fn reports() -> impl Strategy<Value = Vec<(Key, Resources)>> {
    let key = ("[a-zA-Z_$][a-zA-Z0-9_$.]{0,20}", "sm_[0-9]{2,3}[af]?");
    prop::collection::btree_map(key, resources(), 1..6).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn reads_printed_reports_in_any_order(entries in reports().prop_shuffle()) {
        let text: String = entries.iter().map(|((symbol, arch), r)| printed(symbol, arch, r)).collect();
        let report = PtxasReport::parse(&text);
        for ((symbol, arch), resources) in &entries {
            prop_assert_eq!(&report.resources(symbol, arch), &Ok(resources.clone()));
        }
        prop_assert!(report.warnings.is_empty());
    }

    #[test]
    fn no_text_makes_it_panic(text in ".*", cut in 0usize..4000, noise in "\\PC{0,40}") {
        let _ = PtxasReport::parse(&text);
        // Real output, cut anywhere, with anything in the cut.
        let at = (0..=cut.min(CUDA13.len())).rev().find(|at| CUDA13.is_char_boundary(*at)).unwrap_or(0);
        let broken = format!("{}{noise}{}", &CUDA13[..at], &CUDA13[at..]);
        let report = PtxasReport::parse(&broken);
        for arch in ["sm_80", "sm_90"] {
            let _ = report.resources("stack_and_call", arch);
        }
    }
}
