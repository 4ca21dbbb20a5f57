//! PTX with errors in it: a message or a fault, never a panic.
#![allow(clippy::unwrap_used)]

mod common;
use common::*;
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
            match Module::load(&mutate(&text, &mut r)) {
                Ok(_) => loaded += 1,
                Err(e) => assert!(e.to_string().starts_with("PTX line "), "{e}"),
            }
        }
        assert!(loaded > 10 && loaded < 150, "{name}: {loaded}");
    }
}

#[test]
fn changed_kernels_run_or_fault() {
    let text = fixture("misc");
    let mut r = Random(99);
    let mut faults = 0;
    for _ in 0..150 {
        let Ok(module) = Module::load(&mutate(&text, &mut r)) else {
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
