//! Makes two listings two records, which the judge compares like those of two runs. A kernel is a unit for each
//! architecture, and a plan without cases says that no launch is known.

use crate::replaced::cost;
use binary::{BinaryKernel, Listing, LostArchitecture, Matching, Pair, Worsening};
use build::signature::{short_name, whole_name};
use model::{
    Arch, BuildFacts, Callable, Costs, EntryFacts, Environment, Evidence, Fault, FaultKind, Gate,
    Host, LaunchBounds, Limit, Margin, Metric, MissingCode, NotRun, Num, Plan, Policy,
    RECORD_SCHEMA, Record, Resources, Rule, Seen, Subject, TIMING_PROTOCOL, Unit, UnitId,
    Unsupported,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The amount by which a metric of a kernel may get worse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AllowedChange {
    pub metric: Metric,
    pub change: Margin,
}

impl AllowedChange {
    /// The metrics that a compiled file states.
    pub const METRICS: [Metric; 7] = [
        Metric::Registers,
        Metric::Stack,
        Metric::Shared,
        Metric::BlocksPerSm,
        Metric::Occupancy,
        Metric::Code,
        Metric::LocalAccesses,
    ];
}

/// The metrics of which a step costs time on any GPU: fewer resident warps, and memory instead of registers. A compiler
/// changes the registers of every second kernel a little, mostly without effect.
pub const DEFAULT_LIMITS: [AllowedChange; 2] = [
    AllowedChange {
        metric: Metric::Occupancy,
        change: Margin::Share(Num(0.0)),
    },
    AllowedChange {
        metric: Metric::Stack,
        change: Margin::Share(Num(0.0)),
    },
];

/// The circumstances of a comparison, which a record has.
pub struct Circumstances<'a> {
    pub gatekeeper: &'a str,
    /// The start of the comparison: RFC 3339, UTC.
    pub started: String,
    pub command: String,
    pub host: Host,
}

/// Both records, with the kernels that both listings have, and those that only the new one has.
pub struct Records<'a> {
    pub base: Record,
    pub head: Record,
    /// The kernels that both have, those first whose change probably costs most. Gates have the same order.
    pub pairs: Vec<Matched<'a>>,
}

/// A kernel of both listings, with its name in the records.
pub struct Matched<'a> {
    pub unit: UnitId,
    pub pair: Pair<'a>,
    /// The amount by which the kernel got worse, or `None` if it did not.
    pub worsening: Option<Worsening>,
}

/// Makes the records. `head` is the name of the new file. `listings` are the listings of the old file and of the new
/// one. Each of `lost` becomes a gate that fails.
pub fn make_records<'a>(
    head: &str,
    listings: [&'a Listing; 2],
    matching: &Matching<'a>,
    lost: &[LostArchitecture],
    limits: &[AllowedChange],
    circumstances: &Circumstances,
) -> Records<'a> {
    let (mut of_base, mut of_head) = (RecordSide::default(), RecordSide::default());
    let [old, new] = listings;
    let (kernels, refused) = name_all(new, None);
    for (id, kernel) in &kernels {
        of_head.add(id.clone(), kernel);
    }
    let pairs = match_names(&kernels, matching);
    for matched in &pairs {
        of_base.add(matched.unit.clone(), matched.pair.base);
    }
    let refused_before: HashMap<KernelPlace, &str> = refused_kernels(old).collect();
    let made_before: HashMap<KernelPlace, &BinaryKernel> = old
        .kernels
        .iter()
        .map(|kernel| (KernelPlace::new(kernel), kernel))
        .collect();
    let mut gates = Vec::new();
    let built = |id: &UnitId| Gate {
        subject: Subject::Unit(id.clone()),
        rule: Rule::Built,
        declared: None,
    };
    for lost in lost {
        let library = lost.library.as_deref().unwrap_or(NO_MEMBER);
        let id = name_all_kernels(library, lost.arch);
        gates.push(built(&id));
        of_base.add_all(id.clone(), library, lost.kernels, None);
        of_head.add_all(id, library, 0, Some(lost.missing.clone()));
    }
    for (id, (place, why)) in &refused {
        of_head.add_refused(id.clone(), *place, why);
        gates.push(built(id));
        match (made_before.get(place), refused_before.get(place)) {
            (Some(kernel), _) => of_base.add(id.clone(), kernel),
            (None, Some(why)) => of_base.add_refused(id.clone(), *place, why),
            (None, None) => {}
        }
    }
    // A kernel is not new if it has no counterpart only because the base's assembler refused it.
    let paired: HashSet<&UnitId> = pairs.iter().map(|pair| &pair.unit).collect();
    for (id, kernel) in kernels.iter().filter(|(id, _)| !paired.contains(id)) {
        let place = KernelPlace::new(kernel);
        if let Some(why) = refused_before.get(&place) {
            of_base.add_refused(id.clone(), place, why);
            gates.extend(gates_of(id, kernel, kernel, limits));
        }
    }
    let pairs = rank(pairs);
    gates.extend(pairs.iter().flat_map(|pair| {
        let Pair { base, head, .. } = pair.pair;
        gates_of(&pair.unit, head, base, limits)
    }));
    let [base, head] = [of_base, of_head].map(|side| side.record(environment(head, circumstances)));
    let policy = Policy {
        gates,
        ..Policy::NOTHING
    };
    Records {
        base,
        head: Record { policy, ..head },
        pairs,
    }
}

/// Returns the kernels that both listings have, under the names that the new one has, in its order.
pub fn match_names<'a>(
    named: &[(UnitId, &'a BinaryKernel)],
    matching: &Matching<'a>,
) -> Vec<Matched<'a>> {
    let partners: HashMap<*const BinaryKernel, Pair> = matching
        .pairs
        .iter()
        .map(|pair| (std::ptr::from_ref(pair.head), *pair))
        .collect();
    named
        .iter()
        .filter_map(|(id, kernel)| {
            let pair = *partners.get(&std::ptr::from_ref(*kernel))?;
            Some(Matched {
                unit: id.clone(),
                worsening: Worsening::from_pair(&pair),
                pair,
            })
        })
        .collect()
}

/// Sorts pairs, those first whose change probably costs most.
pub fn rank(mut pairs: Vec<Matched>) -> Vec<Matched> {
    pairs.sort_by(|one, other| Worsening::costliest_first(&one.worsening, &other.worsening));
    pairs
}

/// Returns the gates on values that either side states. If one of the two sides does not state it, the gate is not
/// judged, and says so.
fn gates_of(
    id: &UnitId,
    head: &BinaryKernel,
    base: &BinaryKernel,
    limits: &[AllowedChange],
) -> Vec<Gate> {
    // Without bounds no block is known. As many warps fit as before if registers and shared memory are the same.
    let takes = |kernel: &BinaryKernel| {
        (
            kernel.digest,
            kernel.registers,
            kernel.static_shared,
            kernel.barriers,
        )
    };
    let is_as_before = head.largest_block().is_none() && takes(head) == takes(base);
    let states = |metric| match metric {
        Metric::Occupancy | Metric::BlocksPerSm if is_as_before => false,
        _ => [head, base]
            .iter()
            .any(|kernel| cost(kernel, metric).is_some()),
    };
    let limits = limits.iter().filter(|limit| states(limit.metric));
    let gate = |limit: &AllowedChange| Gate {
        subject: Subject::Unit(id.clone()),
        rule: Rule::Limit {
            metric: limit.metric,
            limit: Limit::Baseline {
                change: limit.change,
            },
        },
        declared: None,
    };
    limits.map(gate).collect()
}

/// Returns the kernels of a listing by the names of their units, in their order. `library` is the name of the binary
/// that they belong to.
pub fn name_kernels<'a>(
    listing: &'a Listing,
    library: Option<&str>,
) -> Vec<(UnitId, &'a BinaryKernel)> {
    name_all(listing, library).0
}

type NamedUnits<T> = Vec<(UnitId, T)>;

/// Names machine code, and the kernels that an assembler refused, with its message.
fn name_all<'a>(
    listing: &'a Listing,
    library: Option<&str>,
) -> (
    NamedUnits<&'a BinaryKernel>,
    NamedUnits<(KernelPlace<'a>, &'a str)>,
) {
    let mut kernels: Vec<&BinaryKernel> = listing.kernels.iter().collect();
    kernels.sort_by_key(|kernel| (&kernel.name, kernel.arch, &kernel.member, kernel.digest));
    let mut refused: Vec<_> = refused_kernels(listing).collect();
    refused.sort();
    let mut names = KernelNames::from_kernels(
        kernels
            .iter()
            .map(|kernel| KernelPlace::new(kernel))
            .chain(refused.iter().map(|(place, _)| *place)),
    );
    let kernels = kernels
        .into_iter()
        .map(|kernel| (names.unit(KernelPlace::new(kernel), library), kernel))
        .collect();
    let refused = refused
        .into_iter()
        .map(|refusal| (names.unit(refusal.0, library), refusal))
        .collect();
    (kernels, refused)
}

/// Identifies a kernel in a listing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct KernelPlace<'a> {
    symbol: &'a str,
    arch: Arch,
    member: Option<&'a str>,
}

impl<'a> KernelPlace<'a> {
    fn new(kernel: &'a BinaryKernel) -> Self {
        Self {
            symbol: &kernel.name,
            arch: kernel.arch,
            member: kernel.member.as_deref(),
        }
    }
}

fn refused_kernels(listing: &Listing) -> impl Iterator<Item = (KernelPlace<'_>, &str)> {
    listing
        .ptx
        .iter()
        .filter_map(|ptx| Some((ptx, ptx.refused.as_deref()?)))
        .flat_map(|(ptx, why)| {
            ptx.kernels.iter().map(move |symbol| {
                let place = KernelPlace {
                    symbol,
                    arch: ptx.arch,
                    member: ptx.member.as_deref(),
                };
                (place, why)
            })
        })
}

/// The name of the unit that represents all kernels. No kernel can have it.
const ALL_KERNELS: &str = "all-kernels";

/// Returns the unit that represents all kernels of a binary.
pub fn name_all_kernels(name: &str, arch: Arch) -> UnitId {
    UnitId::new(ALL_KERNELS, name, arch)
}

/// The variant of kernels that are in no member of a wheel, archive or directory.
const NO_MEMBER: &str = "-";

/// Readable names of a listing's kernels, each once for an architecture and member.
struct KernelNames<'a> {
    counts: HashMap<(String, Option<&'a str>, Arch), usize>,
    given: HashMap<UnitId, usize>,
}

impl<'a> KernelNames<'a> {
    fn from_kernels(kernels: impl Iterator<Item = KernelPlace<'a>>) -> Self {
        let mut counts = HashMap::new();
        for KernelPlace {
            symbol,
            arch,
            member,
        } in kernels
        {
            let key = (short_name(symbol), member, arch);
            *counts.entry(key).or_default() += 1;
        }
        Self {
            counts,
            given: HashMap::new(),
        }
    }

    /// Returns the unit of a kernel. Kernels that share a name get a part of their symbol's digest, which another
    /// version of a library has, too. Kernels that share the symbol, because files have kernels of their own, are
    /// numbered.
    fn unit(&mut self, kernel: KernelPlace<'a>, library: Option<&str>) -> UnitId {
        let KernelPlace {
            symbol,
            arch,
            member,
        } = kernel;
        let key = (short_name(symbol), member, arch);
        let is_shared = self.counts.get(&key).is_some_and(|count| *count > 1);
        let name = if is_shared {
            format!("{}#{}", key.0, digest_of_symbol(symbol))
        } else {
            key.0
        };
        let variant = match (library, member) {
            (None, member) => member.unwrap_or(NO_MEMBER).to_owned(),
            (Some(library), None) => library.to_owned(),
            (Some(library), Some(member)) => format!("{library}:{member}"),
        };
        let id = UnitId::new(name, variant, arch);
        let given = self.given.entry(id.clone()).or_default();
        *given += 1;
        match given {
            1 => id,
            number => UnitId::new(format!("{}.{number}", id.kernel), id.variant, id.arch),
        }
    }
}

fn digest_of_symbol(symbol: &str) -> String {
    let digest = blake3::hash(symbol.as_bytes()).to_hex();
    digest.as_str().chars().take(8).collect()
}

/// Kernels of compiled files as units, with what is known of them.
#[derive(Default)]
pub struct RecordSide {
    pub units: Vec<Unit>,
    pub evidence: Vec<Evidence>,
}

impl RecordSide {
    pub fn add(&mut self, id: UnitId, kernel: &BinaryKernel) {
        let member = kernel.member.as_deref().unwrap_or_default();
        self.add_unit(id, member, Some(&kernel.name), facts(kernel));
    }

    /// Adds a kernel that an assembler refused.
    fn add_refused(&mut self, id: UnitId, kernel: KernelPlace, why: &str) {
        let facts = Seen::Fault(Fault::new(FaultKind::Compile, why));
        let member = kernel.member.unwrap_or_default();
        self.add_unit(id, member, Some(kernel.symbol), facts);
    }

    /// Adds the unit that stands for all kernels of a file for one architecture. `missing` says more if there is none.
    pub fn add_all(&mut self, id: UnitId, file: &str, kernels: u32, missing: Option<MissingCode>) {
        let facts = BuildFacts {
            artifact: String::new(),
            entries: Vec::new(),
            constants: Vec::new(),
            identity: String::new(),
            ptx: None,
            warnings: Vec::new(),
            mistyped: Vec::new(),
            kernels: Some(kernels),
            missing,
        };
        self.add_unit(id, file, None, Seen::Got(facts));
    }

    fn add_unit(
        &mut self,
        id: UnitId,
        source: &str,
        symbol: Option<&str>,
        facts: Seen<BuildFacts>,
    ) {
        self.units.push(Unit {
            id: id.clone(),
            source: source.to_owned(),
            include_dirs: Vec::new(),
            defines: BTreeMap::new(),
            flags: Vec::new(),
            call: Callable::Compiled {
                symbol: symbol.map(str::to_owned),
            },
        });
        self.evidence.push(Evidence::Build { unit: id, facts });
    }

    pub fn record(self, environment: Environment) -> Record {
        Record {
            schema: RECORD_SCHEMA.to_owned(),
            environment,
            plan: Plan {
                units: self.units,
                ..Plan::empty(config::default_timing())
            },
            policy: Policy::NOTHING,
            evidence: self.evidence,
            costs: Costs::default(),
            took: Vec::new(),
            shard: None,
        }
    }
}

pub fn environment(config: &str, circumstances: &Circumstances) -> Environment {
    Environment {
        gatekeeper: circumstances.gatekeeper.to_owned(),
        started: circumstances.started.clone(),
        command: circumstances.command.clone(),
        config: config.to_owned(),
        timing_protocol: TIMING_PROTOCOL,
        host: circumstances.host.clone(),
        commit: None,
        sources: None,
        checkout: None,
        compiler: Seen::NotRun(NotRun::Compiled),
        base_compiler: None,
        toolchain: None,
        device: Seen::NotRun(NotRun::Compiled),
        simulator: None,
        parts: Vec::new(),
    }
}

fn facts(kernel: &BinaryKernel) -> Seen<BuildFacts> {
    // Before device code is linked only a part is known.
    let (Some(registers), Some(shared)) = (kernel.registers, kernel.static_shared) else {
        return Seen::Unsupported(Unsupported::NotInCubin);
    };
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    // Nothing is spilled if nothing accesses local memory. Otherwise it is unknown how much is.
    let spills = kernel
        .local_instructions
        .filter(|local_instruction| *local_instruction == 0);
    let resources = Resources {
        registers,
        stack: kernel.stack,
        spill_stores: spills,
        spill_loads: spills,
        static_shared: narrow(shared),
        barriers: kernel.barriers.unwrap_or_default(),
        cumulative_stack: kernel.stack,
        constant_banks: kernel
            .constants
            .iter()
            .map(|(bank, bytes)| (*bank, narrow(*bytes)))
            .collect(),
        code: Some(kernel.code),
        local_accesses: kernel.local_instructions,
    };
    let digest = blake3::Hash::from(kernel.digest).to_hex().to_string();
    Seen::Got(BuildFacts {
        artifact: digest.clone(),
        entries: vec![EntryFacts {
            name: whole_name(&kernel.name),
            symbol: kernel.name.clone(),
            resources: Some(resources),
            bounds: LaunchBounds {
                threads: kernel.largest_block().map(narrow),
                ..LaunchBounds::default()
            },
        }],
        constants: Vec::new(),
        identity: digest,
        ptx: None,
        warnings: Vec::new(),
        mistyped: Vec::new(),
        kernels: None,
        missing: None,
    })
}
