use super::expr::{Expression, Name};
use super::{Arg, Bound, Case, CaseId, ElemType, Gate, Limit, Plan, Reference, Role, Rule, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Another program that does the work of a kernel in its own ways. It is timed in the same run on the same GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rival {
    pub kernel: String,
    /// A name that is unique in its kernel.
    pub name: String,
    /// The command, which is started in the directory of gates.yaml.
    pub command: Vec<String>,
    /// The names of its ways of doing the work, which kernels are compared with. There is at least one.
    pub backends: Vec<String>,
    /// The longest time that it may take to start, and for each task.
    pub deadline_ms: u64,
    /// True if this run times it: because it was asked to, or because a gate names it.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub requested: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_true(requested: &bool) -> bool {
    *requested
}

/// The result of one process of a rival for one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RivalFacts {
    /// Versions of the parts that it is made of: `torch`, `cudnn`.
    pub versions: BTreeMap<String, String>,
    /// A result for each of the rival's backends.
    pub backends: BTreeMap<String, Contest>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Contest {
    Timed(RivalTimes),
    /// The reason in the rival's own words.
    Skipped {
        because: String,
    },
}

/// Samples of the same kinds as a kernel's own ([`TimeFacts`](super::TimeFacts)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RivalTimes {
    pub launches_per_sample: u32,
    /// The GPU time of each batched sample as a whole, in order of measurement.
    pub batched_ns: Vec<u64>,
    /// The GPU time of each single call, in order of measurement.
    pub single_ns: Vec<u64>,
}

/// The task of a case, for any program that does its work: everything that a rival gets. Variants with the same task
/// are compared with the same samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Task {
    pub kernel: String,
    pub shape: String,
    pub dims: BTreeMap<String, i64>,
    /// The tensors of the case, without working memory.
    pub tensors: Vec<TaskTensor>,
    /// The arguments of all steps, in order.
    pub args: Vec<Arg>,
    /// The reference, which is that of the reference variant if a variant is the reference.
    pub reference: Reference,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskTensor {
    pub name: String,
    pub role: Role,
    #[serde(rename = "type")]
    pub elem: ElemType,
    pub dims: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strides: Option<Vec<usize>>,
}

impl Rule {
    /// Returns the rivals that the rule names, of the kernel that it is for.
    pub fn rivals(&self) -> Vec<String> {
        let Some(text) = self.expression() else {
            return Vec::new();
        };
        // An expression that cannot be read has no value, so no gate passes by it.
        let Ok(expression) = Expression::parse(text) else {
            return Vec::new();
        };
        expression
            .names()
            .iter()
            .filter_map(|name| match name {
                Name::Rival(rival, ..) => Some(rival.clone()),
                Name::Plain(_) | Name::Dotted(..) => None,
            })
            .collect()
    }

    /// Returns true if the rule has an expression that names the rival.
    pub fn names_rival(&self, rival: &str) -> bool {
        // A search in the text saves most expressions from being parsed.
        let may_name = self
            .expression()
            .is_some_and(|expression| expression.contains(rival));
        may_name && self.rivals().iter().any(|known| known == rival)
    }

    fn expression(&self) -> Option<&str> {
        match self {
            Self::Condition { expr }
            | Self::Limit {
                limit:
                    Limit::Absolute {
                        bound: Bound::Expr(expr),
                        ..
                    },
                ..
            } => Some(&expr.text),
            _ => None,
        }
    }
}

impl Plan {
    /// Requests all rivals, or only those that a gate names.
    pub fn request_rivals(&mut self, gates: &[Gate], all: bool) {
        for rival in &mut self.rivals {
            let mut rules = gates
                .iter()
                .filter(|gate| gate.subject.kernel() == rival.kernel)
                .map(|gate| &gate.rule);
            rival.requested = all || rules.any(|rule| rule.names_rival(&rival.name));
        }
    }

    pub fn rival(&self, kernel: &str, name: &str) -> Option<&Rival> {
        let mut rivals = self.rivals_of(kernel);
        rivals.find(|rival| rival.name == name)
    }

    /// Returns the rivals of a kernel in the order of gates.yaml.
    pub fn rivals_of(&self, kernel: &str) -> impl Iterator<Item = &Rival> {
        self.rivals
            .iter()
            .filter(move |rival| rival.kernel == kernel)
    }

    pub fn task(&self, case: &Case) -> Task {
        let reference = match &case.reference {
            Reference::Variant { variant } => {
                let variant = variant.clone();
                let other = self.case(&CaseId {
                    variant,
                    ..case.id.clone()
                });
                other.map_or(&case.reference, |other| &other.reference)
            }
            own => own,
        };
        let args = case.steps.iter().flat_map(|step| step.args.iter().cloned());
        let tensors = case.tensors.iter();
        let is_known = |tensor: &&Tensor| !matches!(tensor.role, Role::Scratch | Role::Reference);
        let tensors = tensors.filter(is_known);
        let tensors = tensors.map(|tensor| TaskTensor {
            name: tensor.name.clone(),
            role: tensor.role,
            elem: tensor.elem,
            dims: tensor.dims.clone(),
            strides: tensor.strides.clone(),
        });
        Task {
            kernel: case.id.kernel.clone(),
            shape: case.id.shape.clone(),
            dims: case.dims.clone(),
            tensors: tensors.collect(),
            args: args.collect(),
            reference: reference.clone(),
        }
    }

    /// Returns the first case of the plan that asks for the same work as this one. A rival's samples have its name.
    pub fn task_id<'a>(&'a self, case: &'a Case) -> &'a CaseId {
        let of = |id: &'a CaseId| (&id.kernel, &id.shape);
        let task = self.task(case);
        let first = self
            .cases
            .iter()
            .filter(|other| of(&other.id) == of(&case.id))
            .find(|case| self.task(case) == task);
        first.map_or(&case.id, |first| &first.id)
    }
}
