//! Two simulators behind the interface of one: `ptxsim` as it is, and as it was ([`ptxsim_oracle`]).
//!
//! A crate that depends on this under the name `ptxsim` runs each of its launches through both, from the same text and over
//! two memories that get the same bytes. What the new one says is what the caller gets. What the two say is compared field by
//! field as soon as both have said it ([`difference`]), and told ([`tell`]): reports with their counters, findings, reasons
//! for withheld counters and what was not judged; faults; refusals; and all memory afterwards, with what has no value in it.
//! With `ORACLE_MUTANTS=n` each launch is repeated with n changed copies of its text ([`mutate`]).
//!
//! This compares what is derived with `Debug`, so that a new field is compared from the start. Where a type of `ptxsim`
//! changes its shape, a conversion to what both have belongs in [`shape`].

mod difference;
mod mutants;
mod mutate;
mod shape;
mod tell;
mod wanted;

pub use memory::Memory;
pub use ptxsim::{
    Arithmetic, COUNTER_MODEL, Circumstance, Circumstances, Computed, Cost, Counter, Counters,
    Doubt, Fault, FaultKind, Finding, FindingKind, Kind, Launch, Limits, LineCost, LineCount,
    LoadError, Look, NoKernel, Place, Quantity, Refused, Report, TensorMapError, Tier, Turn,
    Withheld, Work, added_quantity, decode_tensor_map, encode_tensor_map, image, num, parse,
    sample,
};

pub mod memory;

use difference::Compared;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A module in both simulators.
pub struct Module {
    kernels: Vec<Kernel>,
    both: Arc<Both>,
}

struct Both {
    text: String,
    moved: Option<Turn>,
    new: ptxsim::Module,
    old: ptxsim_oracle::Module,
}

pub struct Kernel {
    module: Arc<Both>,
    /// The place in `kernels()` of either module.
    number: usize,
}

fn old_turn(turn: Turn) -> ptxsim_oracle::Turn {
    match turn {
        Turn::First => ptxsim_oracle::Turn::First,
        Turn::Second => ptxsim_oracle::Turn::Second,
    }
}

fn old_circumstances(new: Circumstances) -> ptxsim_oracle::Circumstances {
    use ptxsim_oracle::Circumstance as Old;
    let all: ptxsim_oracle::Circumstances = Circumstance::ALL
        .into_iter()
        .filter(|one| new.has(*one))
        .map(|one| match one {
            Circumstance::Multiprocessor => Old::Multiprocessor,
            Circumstance::WarpSlot => Old::WarpSlot,
            Circumstance::GridNumber => Old::GridNumber,
            Circumstance::Time => Old::Time,
            Circumstance::SharedSize => Old::SharedSize,
            Circumstance::DriverRegister => Old::DriverRegister,
            Circumstance::Addresses => Old::Addresses,
        })
        .collect();
    // The second turn of what is already in its second turn is itself.
    if new.in_second_turn() == Some(new) {
        all.in_second_turn().unwrap_or(all)
    } else {
        all
    }
}

fn old_limits(new: Limits) -> ptxsim_oracle::Limits {
    let Limits {
        instructions,
        findings,
        checks,
        threads,
        sample,
        varied,
        arising: _,
    } = new;
    ptxsim_oracle::Limits {
        instructions,
        findings,
        checks,
        threads,
        sample,
        varied: old_circumstances(varied),
    }
}

impl Module {
    /// As [`ptxsim::Module::load`].
    pub fn load(text: &str) -> Result<Module, LoadError> {
        Self::load_with_own(text, |_| true)
    }

    /// As [`ptxsim::Module::load_with_own`].
    pub fn load_with_own(text: &str, own: impl Fn(&str) -> bool) -> Result<Module, LoadError> {
        Self::load_moved(text, own, None)
    }

    /// As [`ptxsim::Module::load_moved`].
    pub fn load_moved(
        text: &str,
        own: impl Fn(&str) -> bool,
        moved: Option<Turn>,
    ) -> Result<Module, LoadError> {
        let new = ptxsim::Module::load_moved(text, &own, moved);
        let old = ptxsim_oracle::Module::load_moved(text, &own, moved.map(old_turn));
        let mut compared = Compared::default();
        let loaded = match (new, old) {
            (Ok(new), Ok(old)) => Ok(Both::new(text, moved, new, old, &mut compared)),
            (new, old) => {
                compared.same("loading", &new.as_ref().err(), &old.as_ref().err());
                Err(new.err())
            }
        };
        match loaded {
            Ok(both) => {
                tell::of_module(text, compared);
                Ok(Self::of(Arc::new(both)))
            }
            Err(error) => {
                tell::of_module(text, compared);
                // Where only the old one refuses, that has been told, and nothing can be compared from here on.
                Err(error.unwrap_or_else(|| LoadError::Invalid {
                    pos: Default::default(),
                    message: "only the oracle refuses this".to_owned(),
                }))
            }
        }
    }

    fn of(both: Arc<Both>) -> Self {
        Self {
            kernels: (0..both.new.kernels().len())
                .map(|number| Kernel {
                    module: Arc::clone(&both),
                    number,
                })
                .collect(),
            both,
        }
    }

    /// As [`ptxsim::Module::complete`].
    pub fn complete(self) -> Result<Module, LoadError> {
        match self.refused().first() {
            Some(refused) => Err(refused.error.clone()),
            None => Ok(self),
        }
    }

    pub fn kernel(&self, name: &str) -> Result<&Kernel, NoKernel> {
        self.both.new.kernel(name)?;
        self.kernels
            .iter()
            .find(|kernel| kernel.name() == name)
            .ok_or_else(|| NoKernel::Unknown(name.to_owned()))
    }

    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    pub fn refused(&self) -> &[Refused] {
        self.both.new.refused()
    }

    pub fn place(&self, memory: &mut Memory) {
        self.both.new.place(&mut memory.new);
        self.both.old.place(&mut memory.old);
    }

    pub fn variable(&self, name: &str) -> Option<(u64, usize)> {
        self.both.new.variable(name)
    }

    pub fn has_variables(&self) -> bool {
        self.both.new.has_variables()
    }

    pub fn written_variables(&self) -> impl Iterator<Item = (&str, u64, usize)> {
        self.both.new.written_variables()
    }
}

impl Both {
    /// Compares what the two modules say of themselves.
    fn new(
        text: &str,
        moved: Option<Turn>,
        new: ptxsim::Module,
        old: ptxsim_oracle::Module,
        compared: &mut Compared,
    ) -> Self {
        compared.same("refused", &new.refused(), &old.refused());
        let variables: Vec<_> = new.written_variables().collect();
        let before: Vec<_> = old.written_variables().collect();
        compared.same("variables", &variables, &before);
        let facts: Vec<_> = new
            .kernels()
            .iter()
            .map(|kernel| (kernel.name(), kernel.parameters(), kernel.parameter_bytes()))
            .collect();
        let before: Vec<_> = old
            .kernels()
            .iter()
            .map(|kernel| (kernel.name(), kernel.parameters(), kernel.parameter_bytes()))
            .collect();
        compared.same("kernels", &facts, &before);
        Self {
            text: text.to_owned(),
            moved,
            new,
            old,
        }
    }
}

impl Kernel {
    fn rebuilt(&self) -> &ptxsim::Kernel {
        &self.module.new.kernels()[self.number]
    }

    fn old(&self) -> Option<&ptxsim_oracle::Kernel> {
        self.module.old.kernel(self.name()).ok()
    }

    pub fn name(&self) -> &str {
        self.rebuilt().name()
    }

    pub fn parameters(&self) -> Vec<(u32, u32)> {
        self.rebuilt().parameters()
    }

    pub fn parameter_bytes(&self) -> u32 {
        self.rebuilt().parameter_bytes()
    }

    pub fn static_shared_bytes(&self) -> u32 {
        self.rebuilt().static_shared_bytes()
    }

    pub fn sampled(&self, launch: &Launch, most: u32) -> usize {
        self.rebuilt().sampled(launch, most)
    }

    pub fn looks(&self, params: &[u8], cooperative: bool, memory: &Memory) -> Vec<Look> {
        let looks = self.rebuilt().looks(params, cooperative, &memory.new);
        let old = self.old();
        let before = old.map(|old| old.looks(params, cooperative, &memory.old));
        let mut compared = Compared::default();
        let shown: Vec<_> = looks
            .iter()
            .map(|look| (look.at, shape::place(&look.place)))
            .collect();
        let before: Option<Vec<_>> = before.as_ref().map(|looks| {
            looks
                .iter()
                .map(|look| (look.at, shape::old_place(&look.place)))
                .collect()
        });
        let addresses_only = |looks: &[Look]| match looks {
            [look] => look.at == Circumstance::Addresses,
            _ => false,
        };
        let is_wanted = wanted::stores_in_other_ways(&self.module.text)
            && addresses_only(&looks)
            && before.as_ref().is_some_and(Vec::is_empty);
        if !is_wanted {
            compared.same("looks", &Some(shown), &before);
        }
        tell::of_module(&self.module.text, compared);
        looks
    }

    pub fn writer(&self, variable: &str) -> Option<Place> {
        self.rebuilt().writer(variable)
    }
}

/// As [`ptxsim::launch`].
pub fn launch(
    kernel: &Kernel,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
    params: &[u8],
    memory: &mut Memory,
    limits: Limits,
) -> Result<Report, Fault> {
    let launch = Launch {
        grid,
        block,
        cluster: None,
        cooperative: false,
        dynamic_shared,
    };
    launch_as(kernel, &launch, params, memory, limits)
}

/// As [`ptxsim::launch_as`].
pub fn launch_as(
    kernel: &Kernel,
    launch: &Launch,
    params: &[u8],
    memory: &mut Memory,
    limits: Limits,
) -> Result<Report, Fault> {
    let before = mutants::are_wanted().then(|| memory.clone());
    let (result, compared) = run(kernel, launch, params, memory, limits);
    tell::of_launch(tell::What::Launch, kernel.name(), launch, compared);
    if let Some(before) = before {
        mutants::launch(kernel, launch, params, &before, limits, &result);
    }
    result
}

/// Launches a kernel in both simulators and compares what they say.
fn run(
    kernel: &Kernel,
    launch: &Launch,
    params: &[u8],
    memory: &mut Memory,
    limits: Limits,
) -> (Result<Report, Fault>, Compared) {
    let mut compared = Compared::default();
    let (of_new, of_old) = (&mut memory.new, &mut memory.old);
    let mut run_old = |compared: &mut Compared| {
        compared.time_old(|| {
            let limits = old_limits(limits);
            let kernel = kernel.old()?;
            let mut result = ptxsim_oracle::launch_as(kernel, launch, params, of_old, limits);
            if let Ok(report) = &mut result {
                report.findings.retain(|finding| !is_blind(finding.kind));
            }
            Some(result)
        })
    };
    // Whoever comes first finds the caches cold: each of them does every second time.
    static TURN: AtomicBool = AtomicBool::new(false);
    let early = TURN
        .fetch_xor(true, Ordering::Relaxed)
        .then(|| run_old(&mut compared));
    let new =
        compared.time_new(|| ptxsim::launch_as(kernel.rebuilt(), launch, params, of_new, limits));
    let old = early.unwrap_or_else(|| run_old(&mut compared));
    let mut old = old;
    if let (Ok(new), Some(Ok(old))) = (&new, &mut old)
        && wanted::parts_accesses(&kernel.module.text)
    {
        old.withheld.retain(|counter, withheld| {
            withheld.doubt != Doubt::Joined || new.withheld.contains_key(counter)
        });
    }
    let old = old.as_ref().map(shape::old_result);
    compared.same("result", &Some(shape::result(&new)), &old);
    memory.compare(&kernel.module.new, &mut compared);
    (new, compared)
}

/// Returns whether `$ORACLE_BLIND` names this kind of finding. The old simulator then reports none of them, so that the
/// comparison has a difference to find.
fn is_blind(kind: ptxsim_oracle::FindingKind) -> bool {
    static BLIND: OnceLock<Option<String>> = OnceLock::new();
    BLIND
        .get_or_init(|| std::env::var("ORACLE_BLIND").ok())
        .as_ref()
        .is_some_and(|blind| *blind == format!("{kind:?}"))
}
