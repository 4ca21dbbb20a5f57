//! Launches of changed texts, each as the launch that it is a change of.

use crate::difference::Compared;
use crate::mutate::{Random, mutated};
use crate::tell::{self, What};
use crate::{Both, Fault, Kernel, Launch, Limits, Memory, Module, Report, run};
use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once, OnceLock};

/// Warp instructions of a launch that is repeated with other texts: there are many of them.
const MOST_INSTRUCTIONS: u64 = 60_000;

/// Warp instructions after which a changed launch is stopped, more than the unchanged one took.
const MORE_INSTRUCTIONS: u64 = 20_000;

thread_local! {
    /// A panic of this thread is an answer to be compared, and no message.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    /// Where the last one was, and what it said.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn wanted() -> u64 {
    static WANTED: OnceLock<u64> = OnceLock::new();
    *WANTED.get_or_init(|| {
        let wanted = std::env::var("ORACLE_MUTANTS").ok();
        wanted.and_then(|number| number.parse().ok()).unwrap_or(0)
    })
}

pub fn are_wanted() -> bool {
    wanted() > 0
}

/// Launches changed copies of a kernel's text. Which they are follows from the launch alone.
pub fn launch(
    kernel: &Kernel,
    launch: &Launch,
    params: &[u8],
    memory: &Memory,
    limits: Limits,
    result: &Result<Report, Fault>,
) {
    let issued = result
        .as_ref()
        .map_or(MORE_INSTRUCTIONS, |report| report.counters.total.issued);
    if issued > MOST_INSTRUCTIONS {
        return;
    }
    let limits = Limits {
        instructions: limits.instructions.min(issued + MORE_INSTRUCTIONS),
        ..limits
    };
    let mut hasher = DefaultHasher::new();
    (&kernel.module.text, kernel.name(), params).hash(&mut hasher);
    (launch.grid, launch.block).hash(&mut hasher);
    let seed = hasher.finish();
    for number in 0..wanted() {
        let text = mutated(
            &kernel.module.text,
            kernel.name(),
            &mut Random::new(seed ^ number << 48),
        );
        let (what, compared) = compare(&text, kernel, launch, params, memory, limits);
        let name = match what {
            What::PanickingMutant => format!("{} ({})", kernel.name(), LAST_PANIC.take()),
            _ => kernel.name().to_owned(),
        };
        tell::of_launch(what, &name, launch, compared);
    }
}

/// Runs something that may panic.
fn quietly<T>(work: impl FnOnce() -> T) -> Result<T, ()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IS_QUIET.get() {
                LAST_PANIC.set(info.to_string().replace('\n', " "));
            } else {
                usual(info);
            }
        }));
    });
    IS_QUIET.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_QUIET.set(false);
    done.map_err(drop)
}

fn compare(
    text: &str,
    kernel: &Kernel,
    launch: &Launch,
    params: &[u8],
    memory: &Memory,
    limits: Limits,
) -> (What, Compared) {
    let moved = kernel.module.moved;
    let mut compared = Compared::default();
    let new = quietly(|| ptxsim::Module::load_moved(text, |_| true, moved));
    let old =
        quietly(|| ptxsim_oracle::Module::load_moved(text, |_| true, moved.map(crate::old_turn)));
    let both = match (new, old) {
        (Ok(Ok(new)), Ok(Ok(old))) => Both::new(text, moved, new, old, &mut compared),
        (new, old) => {
            let what = if new.is_err() && old.is_err() {
                What::PanickingMutant
            } else {
                What::RefusedMutant
            };
            let new = new.map(|new| new.err());
            let old = old.map(|old| old.err());
            compared.same("loading", &new, &old);
            return (what, compared);
        }
    };
    let module = Module::of(Arc::new(both));
    let Ok(kernel) = module.kernel(kernel.name()) else {
        // The reasons are among the module's refusals, which are compared.
        return (What::RefusedMutant, compared);
    };
    if kernel.parameter_bytes() as usize != params.len() || compared.first.is_some() {
        return (What::RefusedMutant, compared);
    }
    let mut memory = memory.clone();
    let done = quietly(|| run(kernel, launch, params, &mut memory, limits));
    match done {
        Ok((_, launched)) => (What::Mutant, launched),
        Err(()) => (
            What::PanickingMutant,
            panics(kernel, launch, params, &memory, limits),
        ),
    }
}

/// Returns whether only one of them panics.
fn panics(
    kernel: &Kernel,
    launch: &Launch,
    params: &[u8],
    memory: &Memory,
    limits: Limits,
) -> Compared {
    let mut memory = memory.clone();
    let mut compared = Compared::default();
    let new = quietly(|| {
        ptxsim::launch_as(kernel.rebuilt(), launch, params, &mut memory.new, limits).is_ok()
    });
    let old = quietly(|| {
        let limits = crate::old_limits(limits);
        let kernel = kernel.old()?;
        let done = ptxsim_oracle::launch_as(kernel, launch, params, &mut memory.old, limits);
        Some(done.is_ok())
    });
    compared.same("panic", &new.is_err(), &old.is_err());
    compared
}
