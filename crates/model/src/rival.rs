use super::expr::{Expression, Name};
use super::{Arg, Bound, Case, CaseId, ElemType, Gate, Limit, Plan, Reference, Role, Rule, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Another program that does the work of a kernel in its own ways, timed in the same run on the same GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rival {
    pub kernel: String,
    /// Unique in its kernel.
    pub name: String,
    /// Started in the directory of gates.yaml.
    pub command: Vec<String>,
    /// Its ways of doing the work, each by a name: what is compared with. At least one.
    pub backends: Vec<String>,
    /// Longest time that it may take to start, and for each task.
    pub deadline_ms: u64,
    /// Whether this run is to time it: because it was asked to, or because a gate names it.
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
    /// One for each of the rival's.
    pub backends: BTreeMap<String, Contest>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Contest {
    Timed(RivalTimes),
    /// In the rival's own words.
    Skipped {
        because: String,
    },
}

/// Samples of the same kinds as a kernel's own ([`TimeFacts`](super::TimeFacts)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RivalTimes {
    pub launches_per_sample: u32,
    /// Each the GPU time of one whole batched sample, in order of measurement.
    pub batched_ns: Vec<u64>,
    /// Each the GPU time of a single call, in order of measurement.
    pub single_ns: Vec<u64>,
}

/// The task of a case, for any program that does its work: all that a rival gets. Variants with the same task are
/// held against the same samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Task {
    pub kernel: String,
    pub shape: String,
    pub dims: BTreeMap<String, i64>,
    /// Without working memory.
    pub tensors: Vec<TaskTensor>,
    /// Arguments of all steps, in order.
    pub args: Vec<Arg>,
    /// That of the variant that is the reference, where one is.
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
    /// The rivals that it names, of the kernel that it is for.
    pub fn rivals(&self) -> Vec<String> {
        let Some(text) = self.expression() else {
            return Vec::new();
        };
        // One that cannot be read has no value, so no gate passes by it.
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

    pub fn names_rival(&self, rival: &str) -> bool {
        // Most expressions need not be read to know that they do not.
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
    /// Requests all rivals, or those alone that a gate names.
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

    /// In the order of gates.yaml.
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

    /// The first case of the plan that asks the same as this one: the name that a rival's samples go by.
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
