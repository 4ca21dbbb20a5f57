//! Where a tensor of a case that failed is declared as other than what the entry's own name says that it takes: the
//! likeliest of all mistakes, and one that only looks like a wrong kernel. Pure.

use cpp_demangle::{DemangleOptions, Symbol};
use std::collections::{BTreeMap, BTreeSet};
use verdict::model::{
    Arg, Callable, Case, ElemType, Evidence, Judgement, Outcome, Record, Seen, Subject,
};

/// A line for each such tensor, and the cases that failed with it.
pub fn mismatches<'a>(
    record: &Record,
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
        let (Some(case), Some(symbol)) = (record.plan.case(id), symbol_of(record, subject)) else {
            continue;
        };
        for remark in of_case(case, symbol) {
            found.entry(remark).or_default().insert(subject);
        }
    }
    found
}

/// Of a kernel that is launched as it is. The same in every architecture.
fn symbol_of<'a>(record: &'a Record, subject: &Subject) -> Option<&'a str> {
    record.evidence.iter().find_map(|piece| match piece {
        Evidence::Build {
            unit,
            facts: Seen::Got(facts),
        } if unit.kernel == subject.kernel() && unit.variant == subject.variant() => {
            match record.plan.unit(unit)?.call {
                Callable::Entry { .. } => facts.entries.first().map(|entry| entry.symbol.as_str()),
                Callable::Launcher { .. } => None,
            }
        }
        _ => None,
    })
}

fn of_case(case: &Case, symbol: &str) -> Vec<String> {
    let Some(parameters) = parameters(symbol) else {
        return Vec::new();
    };
    let pairs = case.args.iter().zip(&parameters).zip(1..);
    pairs
        .filter_map(|((arg, parameter), at)| {
            let Arg::Tensor { name } = arg else {
                return None;
            };
            let tensor = case.tensors.iter().find(|tensor| tensor.name == *name)?;
            let differs = Pointee::of(parameter)?.differs(tensor.elem);
            differs.then(|| {
                format!(
                    "`{name}` is {} in gates.yaml, and parameter {at} of the entry is `{parameter}`",
                    as_written(tensor.elem)
                )
            })
        })
        .collect()
}

fn as_written(elem: ElemType) -> &'static str {
    match elem {
        ElemType::F32 => "f32",
        ElemType::F16 => "f16",
        ElemType::Bf16 => "bf16",
        ElemType::E4m3 => "e4m3",
        ElemType::E5m2 => "e5m2",
        ElemType::I8 => "i8",
        ElemType::U8 => "u8",
        ElemType::I32 => "i32",
        ElemType::U32 => "u32",
        ElemType::I64 => "i64",
    }
}

/// What is known of what a pointer points to. Bytes, vectors and structs may stand for anything.
enum Pointee {
    /// `None` for `double`, which no tensor is of.
    Float(Option<ElemType>),
    /// An integer of so many bytes.
    Whole(usize),
}

impl Pointee {
    fn of(parameter: &str) -> Option<Self> {
        let pointee = parameter.strip_suffix('*')?.trim_end();
        let pointee = pointee.strip_suffix(" const").unwrap_or(pointee);
        Some(match pointee {
            "float" => Self::Float(Some(ElemType::F32)),
            "double" => Self::Float(None),
            "__half" => Self::Float(Some(ElemType::F16)),
            "__nv_bfloat16" => Self::Float(Some(ElemType::Bf16)),
            "__nv_fp8_e4m3" => Self::Float(Some(ElemType::E4m3)),
            "__nv_fp8_e5m2" => Self::Float(Some(ElemType::E5m2)),
            "int" | "unsigned int" => Self::Whole(4),
            "long" | "unsigned long" | "long long" | "unsigned long long" => Self::Whole(8),
            _ => return None,
        })
    }

    fn differs(&self, declared: ElemType) -> bool {
        let whole = matches!(declared, ElemType::I32 | ElemType::U32 | ElemType::I64);
        match self {
            Self::Float(own) => *own != Some(declared),
            // Codes and halves are read as integers of any width by kernels that unpack them.
            Self::Whole(bytes) => whole && *bytes != declared.size(),
        }
    }
}

/// `__half const*, int` of `ns::k<__half>(__half const*, int)`. `None` where the name says nothing of them, as of
/// `extern "C"`.
fn parameters(symbol: &str) -> Option<Vec<String>> {
    let options = DemangleOptions::new().no_return_type();
    let parsed = Symbol::new(symbol).ok()?;
    let name = parsed.demangle_with_options(&options).ok()?;
    let inside = name.strip_suffix(')')?;
    let mut depth = 1usize;
    let opens = inside.char_indices().rev().find(|(_, c)| {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let mut parameters = vec![String::new()];
    let mut depth = 0usize;
    for c in inside.get(opens.0 + 1..)?.chars() {
        match c {
            '(' | '<' => depth += 1,
            ')' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parameters.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parameters.last_mut() {
            last.push(c);
        }
    }
    let trimmed = parameters.iter().map(|one| one.trim().to_owned());
    Some(trimmed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::model::{Role, Tensor};

    const RMS: &str = "_ZN4vllm25fused_add_rms_norm_kernelI6__halfLi256EEEvPT_S3_PKS2_fii";

    #[test]
    fn parameters_are_those_of_the_name() {
        for (symbol, says) in [
            (RMS, "__half*|__half*|__half const*|float|int|int"),
            (
                "_Z1kPKiPlN2ns1PIffEE",
                "int const*|long*|ns::P<float, float>",
            ),
            ("_Z1kPFvPfE", "void (*)(float*)"),
            ("_ZN12_GLOBAL__N_11kEPd", "double*"),
        ] {
            assert_eq!(parameters(symbol).unwrap().join("|"), says);
        }
        assert_eq!(parameters("gather_kv"), None);
    }

    #[test]
    fn only_types_that_cannot_match_differ() {
        use ElemType::*;
        for (parameter, right, wrong) in [
            ("__half const*", &[F16][..], &[F32, Bf16, I32][..]),
            ("__nv_bfloat16*", &[Bf16], &[F16]),
            ("__nv_fp8_e4m3*", &[E4m3], &[E5m2, U8]),
            ("float*", &[F32], &[F16, I32]),
            ("double*", &[], &[F32]),
            ("int const*", &[I32, U32, F16, E4m3, U8, F32], &[I64]),
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
        let mut record = verdict::judge::fixture::record();
        let case = &mut record.plan.cases[0];
        case.args = ["x", "y"]
            .map(|name| Arg::Tensor {
                name: name.to_owned(),
            })
            .into();
        case.tensors = [("x", ElemType::F16), ("y", ElemType::F32)]
            .map(|(name, elem)| Tensor {
                name: name.to_owned(),
                role: Role::In,
                elem,
                dims: vec![1],
                strides: None,
                fill: None,
                codec: None,
            })
            .into();
        let remark = of_case(&record.plan.cases[0], RMS);
        assert_eq!(
            remark,
            ["`y` is f32 in gates.yaml, and parameter 2 of the entry is `__half*`"]
        );
    }
}
