//! Normalises names of kernels: it removes what differs between two builds of the same source, which are hashes of
//! files, versions of namespaces, and how a launch was specialised.
//!
//! In a mangled name each identifier follows its length (`3cub`), and nothing else depends on what an identifier says.
//! So one can be replaced without a full demangler. Identifiers are found by their beginning. The digits before it can
//! also end another identifier, so each length that they can state is tried.

use std::borrow::Cow;

/// Returns a name that is equal for two builds of one kernel.
pub fn name(name: &str) -> Cow<'_, str> {
    let mut result = String::new();
    let mut done = 0;
    for (at, byte) in name.bytes().enumerate() {
        let found = match byte {
            b'_' | b'C' | b'T' if at >= done => found_at(name, at),
            _ => None,
        };
        if let Some(found) = found.filter(|place| place.start >= done) {
            result.push_str(name.get(done..found.start).unwrap_or_default());
            result.push_str(&found.stands_for);
            done = found.end;
        }
    }
    if done == 0 {
        let shorter = without_specialisation(name).or_else(|| without_number(name));
        return Cow::Borrowed(shorter.unwrap_or(name));
    }
    result.push_str(name.get(done..).unwrap_or_default());
    Cow::Owned(result)
}

/// A part of a name that is replaced.
struct Found<'a> {
    start: usize,
    end: usize,
    stands_for: Cow<'a, str>,
}

fn found_at(text: &str, at: usize) -> Option<Found<'_>> {
    let rest = text.get(at..)?;
    if rest.starts_with("__nv_static_") {
        return find_static_name(text, at);
    }
    for marker in ["_GLOBAL__N_", "_INTERNAL_"] {
        if rest.starts_with(marker) {
            return find_file_name(text, at, marker);
        }
    }
    for namespace in ["CUB_", "THRUST_", "_V_", "_RMM_"] {
        if rest.starts_with(namespace) {
            return identifier(text, at, |name| {
                is_version(name.strip_prefix(namespace)?).then_some(Cow::Borrowed(namespace))
            });
        }
    }
    if rest.starts_with("__") {
        return abi_namespace(text, at);
    }
    None
}

/// Returns the identifiers that can start at `at`, the longest first: where their lengths start, and where they end.
fn identifiers(text: &str, at: usize) -> impl Iterator<Item = (usize, usize)> {
    let before = text.get(..at).unwrap_or_default();
    let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
    (1..=digits.min(4)).rev().filter_map(move |count| {
        let start = at.checked_sub(count)?;
        let length: usize = text.get(start..at)?.parse().ok()?;
        let end = at.checked_add(length)?;
        (end <= text.len()).then_some((start, end))
    })
}

/// Returns the longest identifier that `stands_for` accepts.
fn identifier<'a>(
    text: &'a str,
    at: usize,
    stands_for: impl Fn(&'a str) -> Option<Cow<'a, str>>,
) -> Option<Found<'a>> {
    identifiers(text, at).find_map(|(start, end)| {
        Some(Found {
            start,
            end,
            stands_for: stands_for(text.get(at..end)?)?,
        })
    })
}

/// Finds the name of an anonymous namespace, or the prefix of what is static in a file.
fn find_file_name<'a>(text: &'a str, at: usize, marker: &str) -> Option<Found<'a>> {
    let all = || {
        identifiers(text, at).filter_map(|(start, end)| {
            let unit = text.get(at..end)?.strip_prefix(marker)?;
            Some(((start, end), source_file(unit)?))
        })
    };
    // The name of a definition could continue for long.
    let hashed = all().find(|(_, unit)| unit.is_hashed);
    let ((start, end), unit) = hashed.or_else(|| all().last())?;
    Some(Found {
        start,
        end,
        stands_for: format!("{marker}{}", unit.file).into(),
    })
}

/// Returns true for the part after `CUB_` or `_V_`: `300102_SM_750_800_NS`.
fn is_version(text: &str) -> bool {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = text.split('_');
    parts.next().is_some_and(is_number)
        && parts.all(|part| is_number(part) || part == "SM" || part == "NS")
}

/// Finds the ABI version of libcu++ after the namespace or a substitution that stands for it: `cuda::__4`,
/// `cuda::std::__4`.
fn abi_namespace(text: &str, at: usize) -> Option<Found<'_>> {
    let found = identifier(text, at, |name| {
        let number = name.strip_prefix("__")?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(Cow::Borrowed("__"))
    })?;
    let before = text.get(..found.start)?;
    let substitution = before.strip_suffix('_').is_some_and(|prefix| {
        prefix
            .trim_end_matches(|character: char| {
                character.is_ascii_digit() || character.is_ascii_uppercase()
            })
            .len()
            < prefix.len()
    });
    let is_cuda = before.ends_with("4cuda") || before.ends_with("3std") || substitution;
    is_cuda.then_some(found)
}

/// Finds the prefix of a static name: `__nv_static_22__dcdf8594_4_a_cu_9d8e7f6a_`.
fn find_static_name(text: &str, at: usize) -> Option<Found<'_>> {
    const MARKER: &str = "__nv_static_";
    let digits_at = at.checked_add(MARKER.len())?;
    let (length, _) = text.get(digits_at..)?.split_once('_')?;
    let unit_at = digits_at.checked_add(length.len())?.checked_add(1)?;
    let end = unit_at.checked_add(length.parse().ok()?)?;
    let unit = text.get(unit_at..end)?;
    Some(Found {
        start: at,
        end,
        stands_for: format!("{MARKER}{}", source_file(unit)?.file).into(),
    })
}

/// A part of a name that identifies a file.
struct FilePart<'a> {
    file: &'a str,
    /// True if a hash follows it, and not a name.
    is_hashed: bool,
}

/// Parses a file's part of a name: a hash of the path, the length of the file's name, that name, and a hash of
/// definitions or the name of one. Older compilers write no first hash, and put the name of a temporary file around
/// that of the source.
fn source_file(unit: &str) -> Option<FilePart<'_>> {
    let unit = unit.trim_start_matches('_');
    let unit = match unit.split_once('_') {
        Some((hash, rest)) if is_hash(hash) => rest,
        _ => unit,
    };
    let (length, rest) = unit.split_once('_')?;
    let (file, definition) = rest.split_at_checked(length.parse().ok()?)?;
    let definition = definition
        .strip_prefix('_')
        .filter(|rest| !rest.is_empty())?;
    // A number can follow the hash.
    let (hash, number) = definition.split_once('_').unwrap_or((definition, ""));
    let file = match file.strip_prefix("tmpxft_") {
        // There are two numbers, and then the length of the source's name.
        Some(temporary) => temporary.splitn(4, '_').nth(3)?,
        None => file,
    };
    Some(FilePart {
        file,
        is_hashed: is_hash(hash) && number.bytes().all(|byte| byte.is_ascii_digit()),
    })
}

fn is_hash(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes a specialisation of Triton, which once wrote into the name which arguments are divisible by 16 (`d`), 1
/// (`c`) or have such an alignment (`e`): `_0d1d2de`. Ahead of time it has a hash before it.
fn without_specialisation(name: &str) -> Option<&str> {
    let (kernel, arguments) = name.rsplit_once('_')?;
    let mut rest = arguments;
    let mut count = 0_u32;
    let mut is_special = false;
    while !rest.is_empty() {
        rest = rest.strip_prefix(count.to_string().as_str())?;
        let letters = rest.trim_start_matches(['c', 'd', 'e']);
        is_special |= letters.len() < rest.len();
        rest = letters;
        count += 1;
    }
    // Otherwise it may be a number that belongs to the name: `pool_0`, `layer_01`.
    if count < 2 || !(is_special || count >= 8) {
        return None;
    }
    let hashed = kernel.rsplit_once('_').filter(|(_, hash)| is_hash(hash));
    Some(hashed.map_or(kernel, |(kernel, _)| kernel))
}

/// Removes the number that CuTe DSL gives the kernels of a program in their order:
/// `kernel_cutlass_gemm_tensorptrf16_0`.
fn without_number(name: &str) -> Option<&str> {
    let (kernel, number) = name.rsplit_once('_')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && name.starts_with("kernel_cutlass_")).then_some(kernel)
}

/// Returns the name of a library or object without its version, Python's version, and hashes. Digits do not count.
pub fn member(member: &str) -> String {
    member
        .split(['-', '.', '/'])
        .map(|part| {
            if is_hash(part) {
                String::new()
            } else {
                part.chars()
                    .filter(|character| !character.is_ascii_digit())
                    .collect()
            }
        })
        .filter(|name: &String| !name.is_empty())
        .collect::<Vec<_>>()
        .join(".")
}

/// Returns how much of two names is equal at their beginnings and ends, from 0 to 1.
pub fn likeness(one: &str, other: &str) -> f64 {
    let (longest, shortest) = (one.len().max(other.len()), one.len().min(other.len()));
    let same = |pairs: &mut dyn Iterator<Item = (u8, u8)>| {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let first = same(&mut one.bytes().zip(other.bytes()));
    let last = same(&mut one.bytes().rev().zip(other.bytes().rev()));
    match longest {
        0 => 1.0,
        _ => (first + last).min(shortest) as f64 / longest as f64,
    }
}

/// Returns true if two names differ only in numbers and built-in types: `k<int, 64>` and `k<long, 128>` are two
/// kernels.
pub fn is_instance_of_same(one: &str, other: &str) -> bool {
    skeleton(one) == skeleton(other)
}

/// Returns the identifiers of a name, without digits.
fn skeleton(name: &str) -> String {
    let mut result = String::new();
    let mut rest = name;
    if !name.starts_with("_Z") {
        result.extend(name.chars().filter(|character| !character.is_ascii_digit()));
        return result;
    }
    while let Some(at) = rest.find(|name: char| name.is_ascii_digit()) {
        let from = rest.get(at..).unwrap_or_default();
        let digits = from.bytes().take_while(u8::is_ascii_digit).count();
        let (length, after) = from.split_at_checked(digits).unwrap_or_default();
        let identifier = length.parse().ok().and_then(|length| after.get(..length));
        // The number is not a length: `Li64E`.
        let identifier = identifier.filter(|identifier| {
            let is_value = after.starts_with('E') || after.starts_with('_');
            !is_value || identifier.contains("__")
        });
        let identifier = identifier.unwrap_or_default();
        result.extend(
            identifier
                .chars()
                .filter(|character| !character.is_ascii_digit()),
        );
        result.push(' ');
        rest = after.get(identifier.len()..).unwrap_or_default();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::{is_instance_of_same, name};

    /// Returns identifiers with their lengths, as names are mangled.
    fn mangled(identifiers: &[&str]) -> String {
        format!(
            "_ZN{}Ev",
            identifiers
                .iter()
                .map(|identifier| format!("{}{identifier}", identifier.len()))
                .collect::<String>()
        )
    }

    fn same(one: &[&str], other: &[&str]) {
        let (one, other) = (mangled(one), mangled(other));
        assert_ne!(one, other);
        assert_eq!(name(&one), name(&other));
    }

    #[test]
    fn a_hash_of_the_file_does_not_count() {
        for (one, other) in [
            // The names are from xformers 0.0.34 and 0.0.35.
            (
                "_GLOBAL__N__2bbfbd09_17_sparse24_apply_cu_180efe8d_6433",
                "_GLOBAL__N__2bbfbd09_17_sparse24_apply_cu_6d241d85_1305",
            ),
            // One of them has a definition that others can see.
            (
                "_GLOBAL__N__dcdf8594_4_a_cu__Z1fPf",
                "_GLOBAL__N__dcdf8594_4_a_cu_9d8e7f6a",
            ),
            // This is the form of CUDA 10 and before.
            (
                "_GLOBAL__N__38_tmpxft_00003916_00000000_9_add_cpp1_ii_71482d89",
                "_GLOBAL__N__38_tmpxft_00001111_00000000_9_add_cpp1_ii_00000003",
            ),
            (
                "_INTERNAL_d4f67a3d_12_tree_shap_cu_e18ab013",
                "_INTERNAL_11111111_12_tree_shap_cu_22222222",
            ),
        ] {
            same(&[one, "kernel"], &[other, "kernel"]);
            // It follows an identifier that ends in a digit.
            let long = "l".repeat(400);
            same(&["k2", one, &long], &["k2", other, &long]);
            // The identifier after it differs.
            assert_ne!(name(&mangled(&[one, "k"])), name(&mangled(&[other, "l"])));
        }
    }

    #[test]
    fn a_hash_before_a_static_name_does_not_count() {
        let one = name("__nv_static_23__dcdf8594_4_a_cu__Z1fPf__Z4statPf");
        assert_eq!(
            one,
            name("__nv_static_25__00000000_4_a_cu_12345678__Z4statPf")
        );
        assert_ne!(
            one,
            name("__nv_static_25__00000000_4_a_cu_12345678__Z5otherPf")
        );
        assert_ne!(
            one,
            name("__nv_static_25__00000000_4_b_cu_12345678__Z4statPf")
        );
    }

    #[test]
    fn kernels_of_two_files_are_different() {
        let of_file = |file: &str| mangled(&[&format!("_GLOBAL__N__dcdf8594_{file}__Z1fPf"), "k"]);
        let (one, other) = (of_file("4_a_cu"), of_file("4_b_cu"));
        assert_ne!(name(&one), name(&other));
    }

    #[test]
    fn a_version_of_a_namespace_does_not_count() {
        // These are from cupy-cuda12x 14.0.1. The other one is for other architectures, and has Thrust of CUDA 12.0.
        same(
            &["cub", "CUB_300102_SM_500_520_600_NS", "detail", "scan"],
            &["cub", "CUB_300200_SM_1000_1200", "detail", "scan"],
        );
        same(
            &["thrust", "THRUST_300102_SM_500_520_NS", "complex"],
            &["thrust", "THRUST_200700_750_NS", "complex"],
        );
        same(
            &["cub", "_V_300200_SM_750_800_900_1000_1200", "k"],
            &["cub", "_V_300300_SM_900", "k"],
        );
        // These are from libcuml-cu12 26.8.0 and 26.10.0.
        same(
            &["rmm", "_RMM_26_8", "device_uvector"],
            &["rmm", "_RMM_26_10", "device_uvector"],
        );
        same(
            &["cuda", "std", "__4", "tuple"],
            &["cuda", "std", "__10", "tuple"],
        );
        let one = name("_Z1kIN4cuda3__44plusENS1_3__411always_trueEEvv");
        assert_eq!(one, name("_Z1kIN4cuda3__54plusENS1_4__1011always_trueEEvv"));
    }

    #[test]
    fn numbers_that_belong_to_a_name_stay() {
        for it in [
            "_Z8conv3__4Pf",
            "_ZN3foo3__4Ev",
            "_Z9CUB_blockv",
            "_Z8_V_big_8v",
            "_Z12_GLOBAL__N_xv",
            "pool_0",
            "layer_01",
            "sm80_xmma_gemm_0d",
            "_Z2__v",
            "",
            "_",
            "9999999999999999999999_GLOBAL__N__",
            "_Z1k\u{e9}_GLOBAL__N__\u{e9}",
        ] {
            assert_eq!(name(it), it);
        }
    }

    #[test]
    fn a_specialisation_by_triton_does_not_count() {
        assert_eq!(
            name("matmul_kernel_0d1d2d3d4d5d6d7c8d9c10d11c"),
            "matmul_kernel"
        );
        assert_eq!(name("matmul_bdd999c7_0d1d2de"), "matmul");
        assert_eq!(name("attn_fwd_0d1d2d3d4d5d6789101112"), "attn_fwd");
        assert_eq!(name("matmul_kernel_01234567891011"), "matmul_kernel");
    }

    #[test]
    fn the_number_that_cute_dsl_appends_does_not_count() {
        let numbered =
            |number: u32| format!("kernel_cutlass_kernel_gemmGemm_object_at__o51_{number}");
        assert_eq!(name(&numbered(0)), name(&numbered(12)));
        for other in [
            "kernel_cutlass_kernel_gemmGemm_object_at__o52_0",
            "kernel_gemm_0",
            "gemm_0",
        ] {
            assert_ne!(name(other), name(&numbered(0)), "{other}");
        }
        assert_eq!(name("gemm_0"), "gemm_0");
    }

    #[test]
    fn other_numbers_and_types_are_another_instance() {
        for (one, other) in [
            (
                "_Z13find_edgeListIfiEvPKT_PKT0_PS3_S6_S2_i",
                "_Z13find_edgeListIflEvPKT_PKT0_PS3_S6_S2_i",
            ),
            ("_Z1kILi64EEvPf", "_Z1kILi128EEvPf"),
            ("_ZN3all8spinds641kEv", "_ZN3all6spinds1kEv"),
            ("gemm_tile64x128_tn", "gemm_tile128x256_tn"),
        ] {
            assert!(is_instance_of_same(one, other), "{one} {other}");
        }
        assert!(!is_instance_of_same("_Z3onePf", "_Z3twoPf"));
        assert!(!is_instance_of_same("_Z1kI6ArgMinEvPf", "_Z1kI6ArgMaxEvPf"));
    }
}
