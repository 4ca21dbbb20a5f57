//! Floor 1: files everything that a record shows by side, subject, architecture and seed.
//!
//! An [`Index`] is made once for a record, or for two records that are compared, and every question borrows it. It is
//! filled in two steps: first the evidence, in this module, then the proofs, which the rules give (`proof`). A [`View`]
//! is an index together with the side and the architecture that a question is about.

use super::not_passed::{NotPassed, OrNotPassed};
use crate::stats::sequential::{Schedule as Looks, Undecidable};
use model::*;
use std::borrow::Borrow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// All evidence of a record, or of two records that are compared, filed for look-ups.
pub struct Index<'a> {
    head: Filed<'a>,
    /// The other side: a base revision, or the other record. `None` if there is neither.
    base: Option<Filed<'a>>,
    /// The side that head is compared with.
    pub(super) opponent: Opponent<'a>,
    /// True if the base's kernels were executed by the same kind of device as head's.
    pub(super) is_alike: bool,
    /// All architectures that the plan has units for. Empty if nothing is simulated, or if there is only one
    /// architecture.
    pub(super) architectures: Vec<Arch>,
    /// The proof that each case of head is right, or why there is none. Only a right case has times.
    pub(super) proofs: HashMap<(Option<Arch>, &'a CaseId), OrNotPassed<()>>,
    /// The looks of all contests against the base, worked out when the first contest needs them.
    pub(super) looks: OnceCell<Result<Looks, Undecidable>>,
}

/// The side that head is compared with.
#[derive(Clone, Copy)]
pub(super) enum Opponent<'a> {
    Nothing,
    /// A base revision. This run also observed what it needs of the base.
    Revision(&'a Base),
    /// Another record, whose run was not head's.
    Record {
        base: &'a Record,
        head: &'a Record,
        loosening: Loosening,
    },
}

impl Opponent<'_> {
    /// Returns whether a label allows head to ask less, or to have worse values that no gate limits.
    pub fn loosening(self) -> Loosening {
        match self {
            Self::Nothing => Loosening::Fails,
            Self::Revision(base) => base.loosening,
            Self::Record { loosening, .. } => loosening,
        }
    }
}

/// The values that a base record could not give, where head's baselines are made from that record.
pub(super) type Refusals = BTreeMap<(Subject, Facet), NotPassed>;

/// One side of an index, seen for one architecture.
#[derive(Clone, Copy)]
pub struct View<'i, 'a> {
    pub(super) index: &'i Index<'a>,
    pub(super) side: Side,
    /// `None` selects the code that this run's device executes. In the simulator that is the oldest code that head has.
    pub(super) arch: Option<Arch>,
    /// True if only cases and seeds that both sides have are visible. Other values cannot be compared.
    is_common: bool,
}

/// One side, with its plan and all evidence about it.
pub(super) struct Filed<'a> {
    pub plan: &'a Plan,
    pub environment: &'a Environment,
    pub policy: &'a Policy,
    /// True for a base revision that head's run observed. Of the samples of a pair, the base's half is its own.
    is_revision: bool,
    pub gates: Pieces<&'a Subject, &'a Gate>,
    cases: HashMap<&'a CaseId, &'a Case>,
    units: HashMap<&'a UnitId, &'a Unit>,
    /// The units of the plan, by kernel and variant.
    variants: Pieces<(&'a str, &'a str), &'a Unit>,
    /// The baselines of the policy, by kernel and variant.
    baselines: Pieces<(&'a str, &'a str), &'a Baseline>,
    /// The refused values of a base record. Empty for the base itself.
    pub refusals: Refusals,
    pub builds: Pieces<&'a UnitId, &'a Seen<BuildFacts>>,
    pub codes: Pieces<&'a UnitId, &'a Seen<CodeFacts>>,
    pub base_references: Pieces<&'a CaseId, &'a Seen<BaseReference>>,
    pub checks: Pieces<SeedKey<'a>, &'a Seen<CheckFacts>>,
    pub simulations: Pieces<SeedKey<'a>, &'a Seen<SimulationFacts>>,
    pub drivers: Pieces<&'a CaseId, &'a Seen<DriverFacts>>,
    pub times: Pieces<&'a CaseId, (u32, &'a Seen<TimeFacts>)>,
    pub profiles: Pieces<&'a CaseId, (u32, &'a Seen<ProfileFacts>)>,
    pub pairs: Pieces<&'a CaseId, (u32, &'a Seen<PairFacts>)>,
    pub rivals: Pieces<(&'a str, &'a CaseId), (u32, &'a Seen<RivalFacts>)>,
    pub exchanges: Vec<&'a Exchange>,
}

/// The key of evidence on one seed: the case, the architecture as the evidence names it, and the seed.
type SeedKey<'a> = (&'a CaseId, Option<Arch>, u64);

/// Pieces of evidence of one kind, filed by their subject.
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
    /// Adds a piece in the order of its number, whatever the order in which pieces arrive.
    fn add_in_order(&mut self, key: K, number: u32, piece: T) {
        let pieces = self.0.entry(key).or_default();
        let at = pieces.partition_point(|(other, _)| *other <= number);
        pieces.insert(at, (number, piece));
    }
}

/// The base is judged by head's gates, so its own policy is empty.
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
            // The base has an index of its own, and two records are compared by their references as recorded.
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
    /// Files a run, and its base if it was given one.
    pub(super) fn file_run(
        plan: &'a Plan,
        environment: &'a Environment,
        policy: &'a Policy,
        evidence: &'a [Evidence],
    ) -> Self {
        // A pair is measured in one process, so it is evidence on both sides.
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

    /// Files two records. The gates may differ from head's own.
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

    /// Files the builds alone, before anything is checked.
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

    /// Returns a view of head, for the code that this run's device executes.
    pub fn head(&self) -> View<'_, 'a> {
        View {
            index: self,
            side: Side::Head,
            arch: None,
            is_common: false,
        }
    }

    /// Returns a view of one side and one architecture. `None` for `arch` has the meaning that it has in [`View`].
    /// Returns `None` if the index has no such side.
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

    /// Returns the gates of one subject, in the order of the policy.
    pub(super) fn gates_of(self, subject: &Subject) -> &'i [&'a Gate] {
        self.filed().gates.get(subject)
    }

    /// Looks up a case of the plan by its name.
    pub(super) fn planned_case(self, id: &CaseId) -> Option<&'a Case> {
        self.filed().cases.get(id).copied()
    }

    pub(super) fn planned_unit(self, id: &UnitId) -> Option<&'a Unit> {
        self.filed().units.get(id).copied()
    }

    /// Returns the units of a variant, one for each architecture.
    pub(super) fn units_of<'s>(self, kernel: &'s str, variant: &'s str) -> &'s [&'s Unit]
    where
        'i: 's,
    {
        self.filed().variants.get(&(kernel, variant))
    }

    /// Returns the policy's baselines of a variant.
    pub(super) fn baselines_of<'s>(self, kernel: &'s str, variant: &'s str) -> &'s [&'s Baseline]
    where
        'i: 's,
    {
        self.filed().baselines.get(&(kernel, variant))
    }

    /// Returns a view of the base for the same architecture, or `None` if there is no base that head can be compared
    /// with.
    pub(super) fn base(self) -> Option<Self> {
        let base = self.index.view(Side::Base, self.arch)?;
        self.index.is_alike.then_some(base)
    }

    /// Returns a view of the same side for another architecture.
    pub fn at(self, arch: Arch) -> Self {
        Self {
            arch: Some(arch),
            ..self
        }
    }

    /// Returns a view that shows only the cases and seeds that both sides have.
    pub(super) fn common(self) -> Self {
        Self {
            is_common: true,
            ..self
        }
    }

    /// Returns the other side's plan if this view shows only what both sides have.
    pub(super) fn other_plan(self) -> Option<&'a Plan> {
        let other = match self.side {
            Side::Head => self.index.base.as_ref(),
            Side::Base => Some(&self.index.head),
        };
        other.filter(|_| self.is_common).map(|filed| filed.plan)
    }

    /// Returns how this run pairs head and base. Head's plan says it, because head's run timed both sides.
    pub(super) fn planned_pairing(self) -> Option<&'a Pairing> {
        let plan = if self.is_revision() {
            self.index.head.plan
        } else {
            self.plan()
        };
        plan.pairing.as_ref()
    }

    /// Returns true if this side is a base revision, which head's run observed.
    pub fn is_revision(self) -> bool {
        self.filed().is_revision
    }

    /// Returns this side's half of a pair.
    pub(super) fn own(self, pair: &'a PairFacts) -> &'a TimeFacts {
        if self.is_revision() {
            &pair.base
        } else {
            &pair.head
        }
    }

    /// Returns the machine code of a unit, if anybody looked at it.
    pub fn code(self, unit: &UnitId) -> Option<&'a Seen<CodeFacts>> {
        self.filed().codes.get(unit).last().copied()
    }
}
