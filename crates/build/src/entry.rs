//! Finds the symbol that a name in gates.yaml means. Pure.

use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt;

/// The kind of thing that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    Entry,
    Constant,
}

/// The reasons for which a name does not mean a single symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// The names that exist, as they can be written, most similar first.
    Unknown {
        what: Named,
        known: Vec<String>,
    },
    Ambiguous {
        candidates: Vec<String>,
    },
}

/// The number of entries that a message lists.
const SHOWN: usize = 8;

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (intro, names) = match self {
            Self::Unknown { what, known } if known.is_empty() => {
                return f.write_str(match what {
                    Named::Entry => {
                        "the source compiles to no kernel (static kernels and unused templates are dropped)"
                    }
                    Named::Constant => {
                        "the machine code has no __constant__ or __device__ variable (those that nothing reads may be dropped)"
                    }
                });
            }
            Self::Unknown { what, known } => (
                match (what, known.len()) {
                    (Named::Entry, 1) => "no such entry; there is only",
                    (Named::Entry, _) => "no such entry; there are",
                    (Named::Constant, 1) => {
                        "no such __constant__ or __device__ variable; there is only"
                    }
                    (Named::Constant, _) => {
                        "no such __constant__ or __device__ variable; there are"
                    }
                },
                known,
            ),
            Self::Ambiguous { candidates } => ("the name is ambiguous; write one of", candidates),
        };
        f.write_str(intro)?;
        for (index, name) in names.iter().take(SHOWN).enumerate() {
            write!(f, "{} {name}", if index == 0 { "" } else { "," })?;
        }
        match names.len().checked_sub(SHOWN) {
            Some(more) if more > 0 => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}

/// One entry of the machine code, by every name that it can have.
struct CompiledEntry<'a> {
    symbol: &'a str,
    /// The name with its parameters, such as `ns::k<float, 4>(float*)`, or the symbol if it is not mangled.
    full: String,
    /// The name without the parameters, such as `ns::k<float,4>`.
    qualified: String,
}

/// Returns the symbol that `name` means. These are tried in order, and the first that fits exactly one symbol decides:
/// the symbol itself, the whole signature, the qualified name, the qualified name without template arguments, and the
/// end of that name.
pub fn resolve<'a>(what: Named, name: &str, symbols: &[&'a str]) -> Result<&'a str, Unresolved> {
    let known: Vec<CompiledEntry<'a>> = symbols
        .iter()
        .map(|symbol| CompiledEntry::from_symbol(symbol))
        .collect();
    let wanted = canonical(name);
    let suffix = format!("::{wanted}");
    let levels: [&dyn Fn(&CompiledEntry) -> bool; 5] = [
        &|entry| entry.symbol == name,
        &|entry| canonical(&entry.full) == wanted,
        &|entry| entry.qualified == wanted,
        &|entry| without_arguments(&entry.qualified) == wanted,
        &|entry| without_arguments(&entry.qualified).ends_with(&suffix),
    ];
    for fits in levels {
        let mut fitting = known.iter().filter(|entry| fits(entry));
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => return Ok(only.symbol),
            (Some(_), Some(_)) => {
                return Err(Unresolved::Ambiguous {
                    candidates: known
                        .iter()
                        .filter(|entry| fits(entry))
                        .map(CompiledEntry::shown)
                        .collect(),
                });
            }
            (None, _) => {}
        }
    }
    let mut entries: Vec<&CompiledEntry> = known.iter().collect();
    entries.sort_by_cached_key(|entry| {
        let plain = without_arguments(&entry.qualified);
        let last = plain.rsplit("::").next().unwrap_or(plain);
        let wanted = wanted.rsplit("::").next().unwrap_or(&wanted);
        (distance(last, wanted), entry.full.clone())
    });
    Err(Unresolved::Unknown {
        what,
        known: entries.into_iter().map(CompiledEntry::shown).collect(),
    })
}

/// Returns the name of a symbol as the source would write it, without arguments.
pub fn as_written(symbol: &str) -> String {
    CompiledEntry::from_symbol(symbol).qualified
}

impl<'a> CompiledEntry<'a> {
    fn from_symbol(symbol: &'a str) -> Self {
        let demangle = |options: &DemangleOptions| {
            Symbol::new(symbol)
                .ok()
                .and_then(|parsed| parsed.demangle_with_options(options).ok())
        };
        let plain = DemangleOptions::new().no_return_type();
        let full = demangle(&plain).unwrap_or_else(|| symbol.to_owned());
        let qualified = demangle(&plain.no_params()).unwrap_or_else(|| symbol.to_owned());
        Self {
            symbol,
            full,
            qualified: canonical(&qualified),
        }
    }

    fn shown(&self) -> String {
        if self.full == self.symbol {
            format!("`{}`", self.full)
        } else {
            format!("`{}` [{}]", self.full, self.symbol)
        }
    }
}

/// Returns the entry whose address is an argument of the template that `marker` instantiates, as in `marker<7,
/// &ns::k<float>(float*)>()`, with what stands before and after it there. Names are compared in their C++ form. Mangled
/// symbols cannot be compared, because a symbol abbreviates a repetition by its number among everything before it
/// (Itanium C++ ABI, compression), and the marker's symbol has more before the entry than the entry's own symbol.
pub fn held_by<'a>(
    marker: &str,
    before: &str,
    after: &str,
    symbols: &[&'a str],
) -> Option<&'a str> {
    let marker = CompiledEntry::from_symbol(marker).full;
    let held = marker.strip_prefix(before)?.strip_suffix(after)?;
    let mut fitting = symbols
        .iter()
        .filter(|symbol| CompiledEntry::from_symbol(symbol).full == held);
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Returns a name without spaces and anonymous namespaces, which the source does not write.
fn canonical(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "");
    let name: String = name.split_whitespace().collect();
    name.strip_prefix("::").unwrap_or(&name).to_owned()
}

/// Returns the name `ns::k` for `ns::k<float,4>`.
fn without_arguments(qualified: &str) -> &str {
    if !qualified.ends_with('>') {
        return qualified;
    }
    let mut depth = 0usize;
    for (at, c) in qualified.char_indices().rev() {
        match c {
            '>' => depth += 1,
            '<' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return qualified.get(..at).unwrap_or(qualified);
                }
            }
            _ => {}
        }
    }
    qualified
}

/// Returns Levenshtein's distance of two names.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (above, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let cost = (diagonal + usize::from(x != y))
                .min(*above + 1)
                .min(left + 1);
            diagonal = std::mem::replace(above, cost);
            left = cost;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: [&str; 9] = [
        "k",
        "_ZN2ns1kEPi",
        "_ZN2ns31_GLOBAL__N__a3e553f2_4_k_cu_lut4anonEPi",
        "_Z2ovPf",
        "_Z2ovPd",
        "_Z2tkIfLi4EEvPT_",
        "_Z3twoIfEvPT_",
        "_Z3twoIdEvPT_",
        "_Z2stPi",
    ];

    fn resolved(name: &str) -> &str {
        resolve(Named::Entry, name, &SYMBOLS).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    #[test]
    fn every_way_of_writing_a_name() {
        for (name, symbol) in [
            ("k", "k"),
            ("ns::k", "_ZN2ns1kEPi"),
            ("::ns::k", "_ZN2ns1kEPi"),
            ("_ZN2ns1kEPi", "_ZN2ns1kEPi"),
            ("ns::anon", SYMBOLS[2]),
            ("anon", SYMBOLS[2]),
            ("ov(float*)", "_Z2ovPf"),
            ("ov(double *)", "_Z2ovPd"),
            ("tk", "_Z2tkIfLi4EEvPT_"),
            ("tk<float, 4>", "_Z2tkIfLi4EEvPT_"),
            ("two< double >", "_Z3twoIdEvPT_"),
            ("st", "_Z2stPi"),
        ] {
            assert_eq!(resolved(name), symbol, "{name}");
        }
    }

    /// Uses symbols as nvcc 13.0 makes them: `S2_` in the entry is `S3_` in the marker.
    #[test]
    fn finds_marked_types_in_abbreviated_symbols() {
        let entries = [
            "_ZN4vllm10rms_kernelI6__halfLi256EEEvPT_S3_PKS2_fii",
            "_ZN4vllm10rms_kernelI6__halfLi512EEEvPT_S3_PKS2_fii",
        ];
        let marker =
            "_Z14gk_instantiateILi1EXadL_ZN4vllm10rms_kernelI6__halfLi256EEEvPT_S4_PKS3_fiiEEEvv";
        let held = |before: &str, among: &[&'static str]| held_by(marker, before, ">()", among);
        assert_eq!(held("gk_instantiate<1, &", &entries), Some(entries[0]));
        assert_eq!(held("gk_instantiate<0, &", &entries), None);
        assert_eq!(held("gk_instantiate<1, &", &entries[1..]), None);
        // Two symbols that C++ writes alike are not guessed between.
        assert_eq!(held("gk_instantiate<1, &", &[entries[0], entries[0]]), None);
    }

    #[test]
    fn an_ambiguous_name_lists_its_candidates() {
        for (name, count) in [("ov", 2), ("two", 2)] {
            let Err(Unresolved::Ambiguous { candidates }) = resolve(Named::Entry, name, &SYMBOLS)
            else {
                panic!("{name} is not ambiguous");
            };
            assert_eq!(candidates.len(), count, "{candidates:?}");
        }
        insta::assert_snapshot!(resolve(Named::Entry, "ov", &SYMBOLS).unwrap_err(), @"the name is ambiguous; write one of `ov(float*)` [_Z2ovPf], `ov(double*)` [_Z2ovPd]");
    }

    #[test]
    fn an_unknown_name_lists_the_nearest_first() {
        insta::assert_snapshot!(resolve(Named::Entry, "ns::anom", &SYMBOLS).unwrap_err(), @"no such entry; there are `ns::(anonymous namespace)::anon(int*)` [_ZN2ns31_GLOBAL__N__a3e553f2_4_k_cu_lut4anonEPi], `ov(double*)` [_Z2ovPd], `ov(float*)` [_Z2ovPf], `two<double>(double*)` [_Z3twoIdEvPT_], `two<float>(float*)` [_Z3twoIfEvPT_], `k`, `ns::k(int*)` [_ZN2ns1kEPi], `st(int*)` [_Z2stPi] and 1 more");
        insta::assert_snapshot!(resolve(Named::Entry, "k", &[]).unwrap_err(), @"the source compiles to no kernel (static kernels and unused templates are dropped)");
    }

    /// Uses symbols as nvcc 13.0 makes them.
    #[test]
    fn constants_are_found_like_entries() {
        let symbols = [
            "COEFFS",
            "_ZN2ns5SHIFTE",
            "_ZN32_INTERNAL_65bb0512_4_c_cu_UNUSED2ns34_GLOBAL__N__65bb0512_4_c_cu_UNUSED3HIDE",
        ];
        let found = |name| resolve(Named::Constant, name, &symbols);
        assert_eq!(found("COEFFS"), Ok(symbols[0]));
        for name in ["ns::SHIFT", "::ns::SHIFT", "SHIFT"] {
            assert_eq!(found(name), Ok(symbols[1]), "{name}");
        }
        for name in ["ns::HID", "HID"] {
            assert_eq!(found(name), Ok(symbols[2]), "{name}");
        }
        let unknown = resolve(Named::Constant, "COEFF", &symbols[..2]).unwrap_err();
        insta::assert_snapshot!(unknown, @"no such __constant__ or __device__ variable; there are `COEFFS`, `ns::SHIFT` [_ZN2ns5SHIFTE]");
    }

    #[test]
    fn edit_distances_are_counted() {
        for (a, b, far) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("ab", "ab", 0),
        ] {
            assert_eq!(distance(a, b), far, "{a} {b}");
            assert_eq!(distance(b, a), far, "{b} {a}");
        }
    }
}
