//! Any text loads or is refused with its place, whole or kernel by kernel; what loads runs to its end, a fault or a budget.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxsim::{Limits, LoadError, Memory, Module, launch};

fuzz_target!(|text: &str| {
    let placed = |error: LoadError| {
        let told = error.to_string();
        assert!(told.starts_with("PTX line ") && told.contains("column "), "{told}");
    };
    let module = match Module::load(text) {
        Ok(module) => module,
        Err(error) => return placed(error),
    };
    for refused in module.refused() {
        placed(refused.error.clone());
    }
    for kernel in module.kernels().iter().take(2) {
        let mut memory = Memory::new(1 << 20);
        let Ok(buffer) = memory.alloc("data", 4096) else {
            return;
        };
        let params: Vec<u8> = buffer.to_le_bytes().into_iter().cycle().take(kernel.parameter_bytes() as usize).collect();
        let limits = Limits {
            instructions: 20_000,
            threads: 1,
            ..Limits::default()
        };
        let _ = launch(kernel, [2, 1, 1], [33, 1, 1], 64, &params, &mut memory, limits);
    }
});
