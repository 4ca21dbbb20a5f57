//! Where a tensor of a case that failed is declared as other than what the entry's own name says that it takes: the
//! likeliest of all mistakes, and one that only looks like a wrong kernel. Pure.

use build::signature::parameters;
use judge::View;
use model::{Arg, Callable, Case, ElemType, EntryFacts, Judgement, Outcome, Step, Subject};
use std::collections::{BTreeMap, BTreeSet};

/// A line for each such tensor, and the cases that failed with it.
pub fn mismatches<'a>(
    view: View,
    judgement: &'a Judgement,
) -> BTreeMap<String, BTreeSet<&'a Subject>> {
    let mut found: BTreeMap<String, BTreeSet<&Subject>> = BTreeMap::new();
    let failed = judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Fail)
        .map(|verdict| &verdict.subject)
        .collect::<BTreeSet<_>>();
    for subject in failed {
        let Subject::Case(id) = subject else {
            continue;
        };
        let Some(case) = view.plan().case(id) else {
            continue;
        };
        for (step, entry) in case.steps.iter().zip(entries_of(view, subject)) {
            for remark in of_step(case, step, entry) {
                found.entry(remark).or_default().insert(subject);
            }
        }
    }
    found
}

/// The entries that are launched as they are, step by step. The same in every architecture.
fn entries_of<'a>(view: View<'_, 'a>, subject: &Subject) -> &'a [EntryFacts] {
    let units = view.plan().units.iter();
    let mut built = units.filter_map(|unit| {
        let is_own = (unit.id.kernel.as_str(), unit.id.variant.as_str())
            == (subject.kernel(), subject.variant());
        let is_entry = matches!(unit.call, Callable::Entries { .. });
        (is_own && is_entry).then(|| view.build(&unit.id).ok())?
    });
    built.next().map_or(&[], |facts| &facts.entries)
}

fn of_step(case: &Case, step: &Step, entry: &EntryFacts) -> Vec<String> {
    let Some(parameters) = parameters(&entry.symbol) else {
        return Vec::new();
    };
    let pairs = step.args.iter().zip(&parameters).zip(1..);
    pairs
        .filter_map(|((arg, parameter), at)| {
            let Arg::Tensor { name } = arg else {
                return None;
            };
            let tensor = case.tensors.iter().find(|tensor| tensor.name == *name)?;
            let differs = Pointee::of(parameter)?.differs(tensor.elem);
            differs.then(|| {
                format!(
                    "`{name}` is {} in gates.yaml, and parameter {at} of {} is `{parameter}`",
                    tensor.elem.name(),
                    entry.name
                )
            })
        })
        .collect()
}

/// The known type that a pointer points to. Bytes, vectors and structs may stand for anything.
enum Pointee {
    Float(ElemType),
    /// An integer of so many bytes.
    Whole(usize),
}

impl Pointee {
    fn of(parameter: &str) -> Option<Self> {
        let pointee = parameter.strip_suffix('*')?.trim_end();
        let pointee = pointee.strip_suffix(" const").unwrap_or(pointee);
        Some(match pointee {
            "float" => Self::Float(ElemType::F32),
            "double" => Self::Float(ElemType::F64),
            "__half" => Self::Float(ElemType::F16),
            "__nv_bfloat16" => Self::Float(ElemType::Bf16),
            "__nv_fp8_e4m3" => Self::Float(ElemType::E4m3),
            "__nv_fp8_e5m2" => Self::Float(ElemType::E5m2),
            "short" | "unsigned short" => Self::Whole(2),
            "int" | "unsigned int" => Self::Whole(4),
            "long" | "unsigned long" | "long long" | "unsigned long long" => Self::Whole(8),
            _ => return None,
        })
    }

    fn differs(&self, declared: ElemType) -> bool {
        let whole = matches!(declared, ElemType::I32 | ElemType::U32 | ElemType::I64);
        match self {
            Self::Float(own) => *own != declared,
            // Codes and halves are read as integers of any width by kernels that unpack them.
            Self::Whole(bytes) => whole && *bytes != declared.size(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Role, Tensor};

    const RMS: &str = "_ZN4vllm25fused_add_rms_norm_kernelI6__halfLi256EEEvPT_S3_PKS2_fii";

    #[test]
    fn only_types_that_cannot_match_differ() {
        use ElemType::*;
        for (parameter, right, wrong) in [
            ("__half const*", &[F16][..], &[F32, Bf16, I32][..]),
            ("__nv_bfloat16*", &[Bf16], &[F16]),
            ("__nv_fp8_e4m3*", &[E4m3], &[E5m2, U8]),
            ("float*", &[F32], &[F16, I32]),
            ("double*", &[F64], &[F32]),
            ("short const*", &[I16, U16, F16], &[I32, I64]),
            ("int const*", &[I32, U32, F16, E4m3, U8, I16, F32], &[I64]),
            ("long const*", &[I64, F16], &[I32]),
        ] {
            let pointee = Pointee::of(parameter).unwrap();
            assert!(
                right.iter().all(|elem| !pointee.differs(*elem)),
                "{parameter}"
            );
            assert!(
                wrong.iter().all(|elem| pointee.differs(*elem)),
                "{parameter}"
            );
        }
        for unknown in [
            "void*",
            "unsigned char const*",
            "uint4 const*",
            "float**",
            "float",
            "ns::P",
        ] {
            assert!(Pointee::of(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn the_tensor_is_named_with_its_parameter() {
        let mut record = judge::fixture::record();
        let case = &mut record.plan.cases[0];
        case.steps[0].args = ["x", "y"]
            .map(|name| Arg::Tensor {
                name: name.to_owned(),
            })
            .into();
        case.tensors = [("x", ElemType::F16), ("y", ElemType::F32)]
            .map(|(name, elem)| Tensor::new(name, Role::In, elem, vec![1]))
            .into();
        let entry = EntryFacts {
            symbol: RMS.to_owned(),
            ..judge::fixture::build_facts("direct").entries[0].clone()
        };
        let case = &record.plan.cases[0];
        assert_eq!(
            of_step(case, &case.steps[0], &entry),
            ["`y` is f32 in gates.yaml, and parameter 2 of k is `__half*`"]
        );
    }
}
