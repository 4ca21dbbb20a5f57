//! Translates what the base has into head's names.

use model::expr::{self, Name};
use model::*;
use std::collections::BTreeMap;
use std::mem::take;

/// Head's names for things that have another name in the base.
#[derive(Clone, Copy)]
pub struct HeadNames<'a> {
    pub renames: &'a [Rename],
}

impl HeadNames<'_> {
    /// Gives the base head's names. It has its own until then.
    pub fn carry(&self, base: &mut Base) {
        if self.renames.is_empty() {
            return;
        }
        self.carry_plan(&mut base.plan);
        base.gates.iter_mut().for_each(|gate| self.carry_gate(gate));
        base.baselines
            .iter_mut()
            .for_each(|baseline| self.carry_baseline(baseline));
        let accepted = base.accepted.iter_mut();
        accepted
            .flat_map(|accepted| &mut accepted.subjects)
            .for_each(|subject| self.carry_subject(subject));
    }

    fn carry_plan(&self, plan: &mut Plan) {
        plan.units.iter_mut().for_each(|unit| self.carry_unit(unit));
        plan.cases.iter_mut().for_each(|case| self.carry_case(case));
        for expectation in &mut plan.expected {
            self.carry_variant(&mut expectation.kernel, &mut expectation.variant);
        }
        for fallback in &mut plan.fallbacks {
            self.carry_variant(&mut fallback.kernel, &mut fallback.variant);
            fallback.to = self.variant(&fallback.kernel, &fallback.to);
        }
        for rival in &mut plan.rivals {
            rival.kernel = self.kernel(&rival.kernel);
        }
    }

    pub(super) fn carry_unit(&self, unit: &mut Unit) {
        self.carry_variant(&mut unit.id.kernel, &mut unit.id.variant);
        if let Callable::Entries { constants, .. } = &mut unit.call {
            for constant in constants {
                constant.tensor = self.tensor(&unit.id.kernel, &constant.tensor);
            }
        }
    }

    pub(super) fn carry_case(&self, case: &mut Case) {
        self.carry_case_id(&mut case.id);
        let kernel = &case.id.kernel;
        let tensor = |name: &mut String| *name = self.tensor(kernel, name);
        case.dims = take(&mut case.dims)
            .into_iter()
            .map(|(name, size)| (self.dimension(kernel, &name), size))
            .collect();
        for own_tensor in &mut case.tensors {
            tensor(&mut own_tensor.name);
            match &mut own_tensor.compare {
                None | Some(Compare::Unordered { .. }) => {}
                Some(Compare::Mask { tensor: mask }) => tensor(mask),
                Some(Compare::Where { condition, .. }) => self.carry_expr(kernel, condition),
            }
        }
        for step in &mut case.steps {
            step.args
                .iter_mut()
                .for_each(|arg| tensors_of_arg(arg).into_iter().for_each(tensor));
            step.before
                .iter_mut()
                .chain(&mut step.after)
                .for_each(|step| tensors_of_memory_step(step).into_iter().for_each(tensor));
        }
        if let Reference::Variant { variant } = &mut case.reference {
            *variant = self.variant(kernel, variant);
        }
        tensors_of_reference(&mut case.reference)
            .into_iter()
            .for_each(tensor);
    }

    pub(super) fn carry_gate(&self, gate: &mut Gate) {
        self.carry_subject(&mut gate.subject);
        let kernel = gate.subject.kernel();
        match &mut gate.rule {
            Rule::Condition { expr }
            | Rule::Limit {
                limit:
                    Limit::Absolute {
                        bound: Bound::Expr(expr),
                        ..
                    },
                ..
            } => self.carry_expr(kernel, expr),
            _ => {}
        }
    }

    pub fn carry_baseline(&self, baseline: &mut Baseline) {
        self.carry_variant(&mut baseline.kernel, &mut baseline.variant);
        baseline.cases = take(&mut baseline.cases)
            .into_iter()
            .map(|(shape, agreed)| (self.shape(&baseline.kernel, &shape), agreed))
            .collect();
    }

    fn carry_subject(&self, subject: &mut Subject) {
        match subject {
            Subject::Unit(id) => self.carry_variant(&mut id.kernel, &mut id.variant),
            Subject::Case(id) => self.carry_case_id(id),
        }
    }

    fn carry_case_id(&self, id: &mut CaseId) {
        self.carry_variant(&mut id.kernel, &mut id.variant);
        id.shape = self.shape(&id.kernel, &id.shape);
    }

    fn carry_variant(&self, kernel: &mut String, variant: &mut String) {
        *kernel = self.kernel(kernel);
        *variant = self.variant(kernel, variant);
    }

    /// Renames within an expression. Dimensions have no prefix there, and variants stand before a metric.
    fn carry_expr(&self, kernel: &str, expr: &mut Expr) {
        let is_constant = |name: &String| expr.constants.contains_key(name);
        expr.text = expr::rename(&expr.text, &|name| match name {
            Name::Plain(name) if is_constant(name) => Name::plain(self.dimension(kernel, name)),
            Name::Dotted(variant, metric) => {
                Name::Dotted(self.variant(kernel, variant), metric.clone())
            }
            other => other.clone(),
        });
        expr.constants = take(&mut expr.constants)
            .into_iter()
            .map(|(name, value)| (self.dimension(kernel, &name), value))
            .collect::<BTreeMap<_, _>>();
    }

    pub(super) fn kernel(&self, name: &str) -> String {
        self.new_name(name, |item| *item == RenamedItem::Kernel)
    }

    pub(super) fn variant(&self, of: &str, name: &str) -> String {
        self.new_name(
            name,
            |item| matches!(item, RenamedItem::Variant { kernel } if kernel == of),
        )
    }

    pub(super) fn shape(&self, of: &str, name: &str) -> String {
        self.new_name(
            name,
            |item| matches!(item, RenamedItem::Shape { kernel } if kernel == of),
        )
    }

    fn tensor(&self, of: &str, name: &str) -> String {
        self.new_name(
            name,
            |item| matches!(item, RenamedItem::Tensor { kernel } if kernel == of),
        )
    }

    pub(super) fn dimension(&self, of: &str, name: &str) -> String {
        self.new_name(
            name,
            |item| matches!(item, RenamedItem::Dimension { kernel } if kernel == of),
        )
    }

    fn new_name(&self, name: &str, is_of: impl Fn(&RenamedItem) -> bool) -> String {
        self.renames
            .iter()
            .find(|rename| rename.from == name && is_of(&rename.item))
            .map_or(name, |rename| &rename.to)
            .to_owned()
    }
}

/// Returns the names of tensors in an argument, in order.
pub(super) fn tensors_of_arg(arg: &mut Arg) -> Vec<&mut String> {
    match arg {
        Arg::Tensor { name } => vec![name],
        Arg::Scales { tensor }
        | Arg::ZeroPoints { tensor }
        | Arg::Bytes { tensor }
        | Arg::Texture { tensor, .. }
        | Arg::Surface { tensor, .. }
        | Arg::TensorMap { tensor, .. } => vec![tensor],
        Arg::Struct { fields } => fields.iter_mut().flat_map(tensors_of_arg).collect(),
        Arg::Null | Arg::Stream | Arg::Scalar { .. } | Arg::Pad { .. } | Arg::Raw { .. } => {
            Vec::new()
        }
    }
}

pub(super) fn tensors_of_memory_step(step: &mut MemoryStep) -> Vec<&mut String> {
    match step {
        MemoryStep::Memset { tensor, .. } => vec![tensor],
        MemoryStep::Copy { from, to } => vec![from, to],
    }
}

fn tensors_of_reference(reference: &mut Reference) -> Vec<&mut String> {
    match reference {
        Reference::Sdpa { q, k, v, out, .. } => vec![q, k, v, out],
        Reference::Gemm {
            a, b, out, c, bias, ..
        } => [Some(a), Some(b), Some(out), c.as_mut(), bias.as_mut()]
            .into_iter()
            .flatten()
            .collect(),
        Reference::LayerNorm {
            x,
            out,
            gamma,
            beta,
            ..
        } => [Some(x), Some(out), gamma.as_mut(), beta.as_mut()]
            .into_iter()
            .flatten()
            .collect(),
        Reference::RmsNorm { x, out, gamma, .. } => [Some(x), Some(out), gamma.as_mut()]
            .into_iter()
            .flatten()
            .collect(),
        Reference::Softmax { x, out }
        | Reference::Reduce { x, out, .. }
        | Reference::Transpose { x, out, .. }
        | Reference::Unary { x, out, .. } => vec![x, out],
        Reference::Binary { a, b, out, .. } => vec![a, b, out],
        Reference::User { args, .. } => args.iter_mut().flat_map(tensors_of_arg).collect(),
        // Captured launches have no gates.yaml that could rename their tensors.
        Reference::Captured { .. }
        | Reference::Variant { .. }
        | Reference::None
        | Reference::NoOutput
        | Reference::Elsewhere => Vec::new(),
    }
}
