//! What an entry takes, by its own name. Pure.

use cpp_demangle::{DemangleOptions, Symbol};
use verdict::model::Arg;

/// Why a case cannot call an entry, with what it takes beside what it is given; `None` where it can, and where the
/// name does not say.
pub fn misfit(symbol: &str, args: &[Arg]) -> Option<String> {
    let takes = parameters(symbol)?;
    if takes.len() == args.len() {
        return None;
    }
    let mut said = format!(
        "gates.yaml gives {} arguments, and {} takes {}:",
        args.len(),
        whole(symbol).unwrap_or_else(|| symbol.to_owned()),
        takes.len()
    );
    for at in 0..takes.len().max(args.len()) {
        let takes = takes.get(at).map_or("nothing", String::as_str);
        let given = args
            .get(at)
            .map_or_else(|| "nothing".to_owned(), as_written);
        said.push_str(&format!("\n  {}: {takes}, given {given}", at + 1));
    }
    Some(said)
}

fn as_written(arg: &Arg) -> String {
    match arg {
        Arg::Tensor { name } => format!("tensor {name}"),
        Arg::Scales { tensor } => format!("scales of {tensor}"),
        Arg::ZeroPoints { tensor } => format!("zero points of {tensor}"),
        Arg::Bytes { tensor } => format!("bytes of {tensor}"),
        Arg::Scalar { elem, .. } => elem.name().to_owned(),
        Arg::Null => "nullptr".to_owned(),
        Arg::Stream => "the stream".to_owned(),
        Arg::Struct { fields } => format!("a struct of {} fields", fields.len()),
        Arg::Pad { bytes } => format!("{bytes} bytes of padding"),
    }
}

fn whole(symbol: &str) -> Option<String> {
    let options = DemangleOptions::new().no_return_type();
    Symbol::new(symbol)
        .ok()?
        .demangle_with_options(&options)
        .ok()
}

/// `__half const*, int` of `ns::k<__half>(__half const*, int)`. `None` where the name says nothing of them, as of
/// `extern "C"`.
pub fn parameters(symbol: &str) -> Option<Vec<String>> {
    let name = whole(symbol)?;
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
    let trimmed: Vec<_> = trimmed.collect();
    Some(match trimmed.as_slice() {
        [none] if none.is_empty() => Vec::new(),
        _ => trimmed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::model::{ScalarType, ScalarValue};

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
    fn a_missing_argument_is_listed_beside_what_is_taken() {
        let x = || Arg::Tensor { name: "x".into() };
        let count = || Arg::Scalar {
            elem: ScalarType::I32,
            value: ScalarValue::Int(4),
        };
        let symbol = "_Z1kPKffi";
        assert_eq!(
            misfit(symbol, &[x(), count()]).unwrap(),
            "gates.yaml gives 2 arguments, and k(float const*, float, int) takes 3:\n  \
             1: float const*, given tensor x\n  2: float, given i32\n  3: int, given nothing"
        );
        assert_eq!(misfit(symbol, &[x(), count(), count()]), None);
        assert_eq!(misfit("_Z1kv", &[]), None);
        assert!(
            misfit("_Z1kv", &[x()])
                .unwrap()
                .contains("1: nothing, given tensor x")
        );
        assert_eq!(misfit("plain_c", &[x()]), None);
    }
}
