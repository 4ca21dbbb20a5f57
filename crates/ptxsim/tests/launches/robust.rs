//! PTX with errors in it: a message or a fault, never a panic.

use crate::common::*;
use ptxsim::*;

/// Real PTX with one word dropped, doubled, exchanged for another or cut, anywhere.
fn mutate(text: &str, r: &mut Random) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out: Vec<String> = lines.iter().map(|l| l.to_string()).collect();
    for _ in 0..1 + r.next() % 3 {
        let pick = |r: &mut Random| (r.next() % lines.len() as u64) as usize;
        let (at, other) = (pick(r), pick(r));
        let split = |l: &str| -> Vec<String> {
            let mut words = vec![String::new()];
            for c in l.chars() {
                if !c.is_alphanumeric() && c != '%' && c != '_' {
                    words.push(c.to_string());
                    words.push(String::new());
                } else if let Some(w) = words.last_mut() {
                    w.push(c);
                }
            }
            words
        };
        let mut words = split(&out[at]);
        let donor = split(lines[other]);
        let w = (r.next() % words.len() as u64) as usize;
        match r.next() % 5 {
            0 => drop(words.remove(w)),
            1 => words.insert(w, words[w].clone()),
            2 => words[w] = donor[(r.next() % donor.len() as u64) as usize].clone(),
            3 => words.truncate(w),
            _ => {
                words[w] = [
                    "4294967295",
                    "-1",
                    "0",
                    "%r1",
                    "%rd1",
                    "%p1",
                    "[%rd1+4611686018427387904]",
                ][(r.next() % 7) as usize]
                    .into()
            }
        }
        out[at] = words.concat();
    }
    out.join("\n")
}

#[test]
fn changed_modules_load_or_say_why() {
    for name in ["reduce", "fp8_stage2", "misc", "f16_wmma"] {
        let text = fixture(name);
        let mut r = Random(name.len() as u64);
        let mut loaded = 0;
        for _ in 0..150 {
            match Module::load(&mutate(&text, &mut r)).and_then(Module::complete) {
                Ok(_) => loaded += 1,
                Err(e) => assert!(e.to_string().starts_with("PTX line "), "{e}"),
            }
        }
        assert!(loaded > 10 && loaded < 150, "{name}: {loaded}");
    }
}

#[test]
fn changed_kernels_run_or_fault() {
    let texts = ["misc", "sync", "pipeline", "functions"].map(fixture);
    let mut r = Random(99);
    let mut faults = 0;
    for turn in 0..400 {
        let Ok(module) = Module::load(&mutate(&texts[turn % 4], &mut r)) else {
            continue;
        };
        for kernel in module.kernels() {
            let mut memory = Memory::default();
            let p = put(&mut memory, "data", &[1; 4096]);
            let params: Vec<u8> = p
                .to_le_bytes()
                .iter()
                .copied()
                .cycle()
                .take(kernel.parameter_bytes() as usize)
                .collect();
            let limits = Limits {
                instructions: 20_000,
                ..Limits::default()
            };
            faults += u32::from(
                launch(
                    kernel,
                    [2, 1, 1],
                    [33, 1, 1],
                    64,
                    &params,
                    &mut memory,
                    limits,
                )
                .is_err(),
            );
        }
    }
    assert!(faults > 0);
}

#[test]
fn huge_demands_are_refused() {
    let header = ".version 8.4\n.target sm_90\n.address_size 64\n";
    let text = format!("{header}.entry k() {{ .reg .b64 %rd<1000000>; ret; }}");
    let module = load(&text);
    let fault = launch(
        &module.kernels()[0],
        [1, 1, 1],
        [1024, 1, 1],
        0,
        &[],
        &mut Memory::default(),
        limits(),
    )
    .unwrap_err();
    assert_eq!(fault.kind, FaultKind::Launch);
    for body in [
        ".global .b8 a[1099511627775];",
        ".global .b8 a[2000000000];",
        ".shared .b8 s[1000000];",
    ] {
        let error = Module::load(&format!("{header}{body}\n.entry k() {{ ret; }}"))
            .and_then(Module::complete)
            .err()
            .unwrap();
        assert!(error.to_string().starts_with("PTX line 4"), "{error}");
    }
    let module = load(&format!("{header}.entry k() {{ ret; }}"));
    for (grid, block) in [
        ([0, 1, 1], [1, 1, 1]),
        ([1, 1, 1], [1025, 1, 1]),
        ([u32::MAX, u32::MAX, 1], [1, 1, 1]),
    ] {
        let fault = launch(
            &module.kernels()[0],
            grid,
            block,
            0,
            &[],
            &mut Memory::default(),
            limits(),
        )
        .unwrap_err();
        assert_eq!(fault.kind, FaultKind::Launch);
    }
}

/// A text that is too large is refused with its line, without the memory or the time that it asks for.
#[test]
fn enormous_texts_are_refused_in_time() {
    let header = ".version 8.4\n.target sm_90\n.address_size 64\n";
    let refused = |text: String, line: u32, what: &str| {
        let error = Module::load(&text)
            .and_then(Module::complete)
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.starts_with(&format!("PTX line {line}, column ")) && error.contains(what),
            "{error}"
        );
    };
    let entry = |body: &str| format!("{header}.entry k()\n{{\n{body}\nret;\n}}\n");
    let times = |n: usize, text: &str| text.repeat(n);
    refused(entry(&times(100_000, "{")), 6, "nested deeper");
    refused(entry(".shared .b8 x[4000000000];"), 6, "256 KiB");
    refused(entry(".local .b8 x[18446744073709551615];"), 6, "too large");
    refused(entry(".local .b8 x[600000];"), 6, "512 KiB");
    refused(entry(".reg .b32 %r<4000000000>;"), 6, "");
    let many: String = (0..3)
        .map(|i| format!(".reg .b32 %a{i}_<900000>;\n"))
        .collect();
    refused(entry(&many), 7, "million registers");
    refused(
        format!("{header}{}", times(3, ".global .b64 x[60000000];\n")),
        6,
        "1 GiB",
    );
    refused(
        format!("{header}.global .b32 x[2] = {{1, 2, 3}};"),
        4,
        "more values",
    );
    let chain: String = (0..2000)
        .rev()
        .map(|i| match i {
            1999 => ".func f1999() { ret; }\n".to_string(),
            i => format!(".func f{i}() {{ call f{}; ret; }}\n", i + 1),
        })
        .collect();
    let deep = Module::load(&format!("{header}{chain}.entry k() {{ call f0; ret; }}"));
    let error = deep.and_then(Module::complete);
    assert!(error.err().unwrap().to_string().contains("too deep"));
    // Open to the end of the text.
    for cut in [
        ".entry k()",
        ".entry k() {",
        ".entry k() { mov.u32 %r1",
        ".entry k() { {",
    ] {
        refused(format!("{header}{cut}"), 4, "");
    }
    // Long, but nothing is wrong with it.
    let long =
        entry(&(".reg .b32 %r<9>;\n".to_string() + &times(200_000, "add.u32 %r1, %r1, 1;\n")));
    assert!(Module::load(&long).and_then(Module::complete).is_ok());
}

/// Each fixture cut anywhere: an error with its place, or a smaller module.
#[test]
fn truncated_modules() {
    for name in ["reduce", "sync", "pipeline", "misc"] {
        let text = fixture(name);
        let step = (text.len() / 200).max(1);
        for end in (0..text.len()).step_by(step) {
            if let Some(part) = text.get(..end)
                && let Err(e) = Module::load(part).and_then(Module::complete)
            {
                assert!(
                    e.to_string().starts_with("PTX line "),
                    "{name} cut at {end}: {e}"
                );
            }
        }
    }
}
