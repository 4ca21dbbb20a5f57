//! Floor 1: everything that a record shows, filed once by side, subject, architecture and seed.
//!
//! An [`Index`] is made once for a record, or for two that are compared, and every question borrows it. It is filled in two
//! steps: the evidence here, then the proofs, which the rules give (`proof`). A [`View`] is an index with the side and the
//! architecture that a question is about.

use super::not_passed::{NotPassed, OrNotPassed};
use crate::stats::sequential::{Schedule as Looks, Undecidable};
use model::*;
use std::borrow::Borrow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Everything that a record shows, or two that are compared.
pub struct Index<'a> {
    head: Filed<'a>,
    /// Where a base revision was named, or another record.
    base: Option<Filed<'a>>,
    /// The side that head is held against.
    pub(super) opponent: Opponent<'a>,
    /// Whether the base ran on what executes kernels as head's does.
    pub(super) is_alike: bool,
    /// All that the plan has units for. None where nothing is simulated, or there is only one.
    pub(super) architectures: Vec<Arch>,
    /// Whether each case of head is right, which decides whether it has times.
    pub(super) proofs: HashMap<(Option<Arch>, &'a CaseId), OrNotPassed<()>>,
    /// Looks of all contests against the base, once one is asked for.
    pub(super) looks: OnceCell<Result<Looks, Undecidable>>,
}

/// The side that head is held against.
#[derive(Clone, Copy)]
pub(super) enum Opponent<'a> {
    Nothing,
    /// A revision, of which this run observed what it needs.
    Revision(&'a Base),
    /// A record that was made in a run of its own, with head's.
    Record {
        base: &'a Record,
        head: &'a Record,
        loosening: Loosening,
    },
}

impl Opponent<'_> {
    /// Returns whether a label allows head to ask less, or to take more where nobody asked.
    pub fn loosening(self) -> Loosening {
        match self {
            Self::Nothing => Loosening::Fails,
            Self::Revision(base) => base.loosening,
            Self::Record { loosening, .. } => loosening,
        }
    }
}

/// The values that a base record could not give, where head's baselines are made of it.
pub(super) type Refusals = BTreeMap<(Subject, Facet), NotPassed>;

/// One side of an index, for one architecture.
#[derive(Clone, Copy)]
pub struct View<'i, 'a> {
    pub(super) index: &'i Index<'a>,
    pub(super) side: Side,
    /// `None`: the code that this run's device is given. In the simulator that is the oldest that head has.
    pub(super) arch: Option<Arch>,
    /// Only the cases and seeds that both sides have: other values cannot be compared.
    is_common: bool,
}

/// One side: its plan, and the pieces of evidence on it.
pub(super) struct Filed<'a> {
    pub plan: &'a Plan,
    pub environment: &'a Environment,
    pub policy: &'a Policy,
    /// A base revision, which the run of head observed: its half of a pair is the base's.
    is_revision: bool,
    pub gates: Pieces<&'a Subject, &'a Gate>,
    cases: HashMap<&'a CaseId, &'a Case>,
    units: HashMap<&'a UnitId, &'a Unit>,
    /// By kernel and variant.
    variants: Pieces<(&'a str, &'a str), &'a Unit>,
    /// The policy's, by kernel and variant.
    baselines: Pieces<(&'a str, &'a str), &'a Baseline>,
    /// Empty for the base.
    pub refusals: Refusals,
    pub builds: Pieces<&'a UnitId, &'a Seen<BuildFacts>>,
    pub codes: Pieces<&'a UnitId, &'a Seen<CodeFacts>>,
    pub base_references: Pieces<&'a CaseId, &'a Seen<BaseReference>>,
    pub checks: Pieces<Run<'a>, &'a Seen<CheckFacts>>,
    pub simulations: Pieces<Run<'a>, &'a Seen<SimulationFacts>>,
    pub drivers: Pieces<&'a CaseId, &'a Seen<DriverFacts>>,
    pub times: Pieces<&'a CaseId, (u32, &'a Seen<TimeFacts>)>,
    pub profiles: Pieces<&'a CaseId, (u32, &'a Seen<ProfileFacts>)>,
    pub pairs: Pieces<&'a CaseId, (u32, &'a Seen<PairFacts>)>,
    pub rivals: Pieces<(&'a str, &'a CaseId), (u32, &'a Seen<RivalFacts>)>,
    pub exchanges: Vec<&'a Exchange>,
}

/// One seed of one case, with the architecture as its evidence names it.
type Run<'a> = (&'a CaseId, Option<Arch>, u64);

/// Pieces of evidence of one kind, by what they are about.
pub(super) struct Pieces<K, V>(HashMap<K, Vec<V>>);

impl<K: Eq + Hash, V> Pieces<K, V> {
    fn new() -> Self {
        Self(HashMap::new())
    }

    fn add(&mut self, key: K, piece: V) {
        self.0.entry(key).or_default().push(piece);
    }

    pub fn get<Q: Eq + Hash>(&self, key: &Q) -> &[V]
    where
        K: Borrow<Q>,
    {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }
}

impl<K: Eq + Hash, T> Pieces<K, (u32, T)> {
    /// By number, whatever the order in which they come.
    fn add_in_order(&mut self, key: K, number: u32, piece: T) {
        let pieces = self.0.entry(key).or_default();
        let at = pieces.partition_point(|(other, _)| *other <= number);
        pieces.insert(at, (number, piece));
    }
}

/// A base is judged by head's gates, and its own ask nothing.
static ASKS_NOTHING: Policy = Policy::NOTHING;

impl<'a> Filed<'a> {
    fn new(
        plan: &'a Plan,
        environment: &'a Environment,
        policy: &'a Policy,
        is_revision: bool,
        evidence: impl IntoIterator<Item = &'a Evidence>,
    ) -> Self {
        let mut filed = Self {
            plan,
            environment,
            policy,
            is_revision,
            gates: Pieces::new(),
            cases: plan.cases.iter().map(|case| (&case.id, case)).collect(),
            units: plan.units.iter().map(|unit| (&unit.id, unit)).collect(),
            variants: Pieces::new(),
            baselines: Pieces::new(),
            refusals: Refusals::new(),
            builds: Pieces::new(),
            codes: Pieces::new(),
            base_references: Pieces::new(),
            checks: Pieces::new(),
            simulations: Pieces::new(),
            drivers: Pieces::new(),
            times: Pieces::new(),
            profiles: Pieces::new(),
            pairs: Pieces::new(),
            rivals: Pieces::new(),
            exchanges: Vec::new(),
        };
        for gate in &policy.gates {
            filed.gates.add(&gate.subject, gate);
        }
        for unit in &plan.units {
            let key = (unit.id.kernel.as_str(), unit.id.variant.as_str());
            filed.variants.add(key, unit);
        }
        for baseline in &policy.baselines {
            let key = (baseline.kernel.as_str(), baseline.variant.as_str());
            filed.baselines.add(key, baseline);
        }
        for piece in evidence {
            filed.file(piece);
        }
        filed
    }

    fn file(&mut self, piece: &'a Evidence) {
        match piece {
            Evidence::Exchange(exchange) => self.exchanges.push(exchange),
            // The base has an index of its own, and two records are compared by references as they are.
            Evidence::Base(_) | Evidence::Reference { .. } | Evidence::Reused { .. } => {}
            Evidence::Build { unit, facts } => self.builds.add(unit, facts),
            Evidence::Code { unit, facts } => self.codes.add(unit, facts),
            Evidence::BaseReference { case, facts } => self.base_references.add(case, facts),
            Evidence::Check {
                case,
                arch,
                seed,
                facts,
            } => self.checks.add((case, *arch, *seed), facts),
            Evidence::Simulation {
                case,
                arch,
                seed,
                facts,
            } => self.simulations.add((case, *arch, *seed), facts),
            Evidence::Driver { case, facts } => self.drivers.add(case, facts),
            Evidence::Time {
                case,
                process,
                facts,
            } => self.times.add_in_order(case, *process, facts),
            Evidence::Profile {
                case,
                repeat,
                facts,
            } => self.profiles.add_in_order(case, *repeat, facts),
            Evidence::Pair {
                case,
                process,
                facts,
            } => self.pairs.add_in_order(case, *process, facts),
            Evidence::Rival {
                rival,
                task,
                process,
                facts,
            } => self.rivals.add_in_order((rival, task), *process, facts),
        }
    }
}

impl<'a> Index<'a> {
    /// Files a run, with its base where one was named.
    pub(super) fn file_run(
        plan: &'a Plan,
        environment: &'a Environment,
        policy: &'a Policy,
        evidence: &'a [Evidence],
    ) -> Self {
        // Samples that were taken in one process are evidence on both sides.
        let of_base = |piece: &'a Evidence| match piece {
            Evidence::Pair { .. } => Some(piece),
            _ => piece.as_base(),
        };
        let base = policy.base.as_ref().map(|base| {
            let evidence = evidence.iter().filter_map(of_base);
            Filed::new(&base.plan, environment, &ASKS_NOTHING, true, evidence)
        });
        let head = Filed::new(plan, environment, policy, false, evidence);
        let opponent = policy
            .base
            .as_ref()
            .map_or(Opponent::Nothing, Opponent::Revision);
        Self::from_sides(head, base, opponent)
    }

    /// Files two records, by gates that may be others than head's own.
    pub(super) fn file_two(
        policy: &'a Policy,
        refusals: Refusals,
        [base, head]: [&'a Record; 2],
        loosening: Loosening,
    ) -> Self {
        let file = |record: &'a Record, policy| {
            let Record {
                plan, environment, ..
            } = record;
            Filed::new(plan, environment, policy, false, &record.evidence)
        };
        let (was, is) = (&base.environment, &head.environment);
        let is_alike = match (was.device.got(), is.device.got()) {
            (Some(was), Some(is)) => {
                was.arch() == is.arch() && head.environment.other_program().is_none()
            }
            (None, None) => was.simulator.is_some() && was.simulator == is.simulator,
            _ => false,
        };
        let of_head = Filed {
            refusals,
            ..file(head, policy)
        };
        let opponent = Opponent::Record {
            base,
            head,
            loosening,
        };
        let index = Self::from_sides(of_head, Some(file(base, &ASKS_NOTHING)), opponent);
        Self { is_alike, ..index }
    }

    /// Files builds alone, before anything is checked.
    pub(super) fn file_builds(
        plan: &'a Plan,
        environment: &'a Environment,
        policy: &'a Policy,
        evidence: impl IntoIterator<Item = &'a Evidence>,
    ) -> Self {
        let head = Filed::new(plan, environment, policy, false, evidence);
        Self::from_sides(head, None, Opponent::Nothing)
    }

    fn from_sides(head: Filed<'a>, base: Option<Filed<'a>>, opponent: Opponent<'a>) -> Self {
        Self {
            head,
            base,
            opponent,
            is_alike: true,
            architectures: Vec::new(),
            proofs: HashMap::new(),
            looks: OnceCell::new(),
        }
    }

    /// Head, for the code that this run's device is given.
    pub fn head(&self) -> View<'_, 'a> {
        View {
            index: self,
            side: Side::Head,
            arch: None,
            is_common: false,
        }
    }

    /// One side and one architecture (`None` as of [`View`]). `None` where there is no base.
    pub fn view(&self, side: Side, arch: Option<Arch>) -> Option<View<'_, 'a>> {
        let has_side = side == Side::Head || self.base.is_some();
        has_side.then(|| View {
            side,
            arch,
            ..self.head()
        })
    }
}

impl<'i, 'a> View<'i, 'a> {
    pub(super) fn filed(self) -> &'i Filed<'a> {
        match (self.side, &self.index.base) {
            (Side::Base, Some(base)) => base,
            _ => &self.index.head,
        }
    }

    pub fn plan(self) -> &'a Plan {
        self.filed().plan
    }

    pub fn environment(self) -> &'a Environment {
        self.filed().environment
    }

    pub(super) fn policy(self) -> &'a Policy {
        self.filed().policy
    }

    /// Those of one subject, in their order.
    pub(super) fn gates_of(self, subject: &Subject) -> &'i [&'a Gate] {
        self.filed().gates.get(subject)
    }

    /// One of the plan's, by its name.
    pub(super) fn planned_case(self, id: &CaseId) -> Option<&'a Case> {
        self.filed().cases.get(id).copied()
    }

    pub(super) fn planned_unit(self, id: &UnitId) -> Option<&'a Unit> {
        self.filed().units.get(id).copied()
    }

    /// The units of a variant, one for each architecture.
    pub(super) fn units_of<'s>(self, kernel: &'s str, variant: &'s str) -> &'s [&'s Unit]
    where
        'i: 's,
    {
        self.filed().variants.get(&(kernel, variant))
    }

    /// The policy's baselines of a variant.
    pub(super) fn baselines_of<'s>(self, kernel: &'s str, variant: &'s str) -> &'s [&'s Baseline]
    where
        'i: 's,
    {
        self.filed().baselines.get(&(kernel, variant))
    }

    /// The base, for the same architecture. `None` where there is none that head can be compared with.
    pub(super) fn base(self) -> Option<Self> {
        let base = self.index.view(Side::Base, self.arch)?;
        self.index.is_alike.then_some(base)
    }

    /// The same side for one architecture.
    pub fn at(self, arch: Arch) -> Self {
        Self {
            arch: Some(arch),
            ..self
        }
    }

    /// The same, for the cases and seeds alone that both sides have.
    pub(super) fn common(self) -> Self {
        Self {
            is_common: true,
            ..self
        }
    }

    /// The other side's plan, where only what both sides have is meant.
    pub(super) fn other_plan(self) -> Option<&'a Plan> {
        let other = match self.side {
            Side::Head => self.index.base.as_ref(),
            Side::Base => Some(&self.index.head),
        };
        other.filter(|_| self.is_common).map(|filed| filed.plan)
    }

    /// Head's, because head's run timed both sides.
    pub(super) fn planned_pairing(self) -> Option<&'a Pairing> {
        let plan = if self.is_revision() {
            self.index.head.plan
        } else {
            self.plan()
        };
        plan.pairing.as_ref()
    }

    /// Whether this side is a base revision, which the run of head observed.
    pub fn is_revision(self) -> bool {
        self.filed().is_revision
    }

    /// This side's half of a pair.
    pub(super) fn own(self, pair: &'a PairFacts) -> &'a TimeFacts {
        if self.is_revision() {
            &pair.base
        } else {
            &pair.head
        }
    }

    /// Machine code, where it was looked at.
    pub fn code(self, unit: &UnitId) -> Option<&'a Seen<CodeFacts>> {
        self.filed().codes.get(unit).last().copied()
    }
}
