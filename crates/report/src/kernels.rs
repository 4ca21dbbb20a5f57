//! Names kernels that were compiled for several architectures once each.

use model::{Arch, UnitId};
use std::collections::HashMap;

/// Returns the first item of each kernel, with the architectures of the others. `unit` returns `None` for an item that
/// is no kernel.
pub(crate) fn by_kernel<T>(
    all: &[T],
    unit: impl Fn(&T) -> Option<&UnitId>,
) -> Vec<(&T, Vec<Arch>)> {
    let mut kernels: Vec<(&T, Vec<Arch>)> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for item in all {
        let id = unit(item);
        let known = id.and_then(|id| {
            let key = (id.kernel.as_str(), id.variant.as_str());
            let place = *places.entry(key).or_insert(kernels.len());
            Some((kernels.get_mut(place)?, id.arch))
        });
        match known {
            Some(((_, others), arch)) => others.push(arch),
            None => kernels.push((item, Vec::new())),
        }
    }
    kernels
}

/// Returns the other architectures in words: ` (and for sm_80, sm_90)`.
pub(crate) fn also(architectures: &[Arch]) -> String {
    let names: Vec<String> = architectures.iter().map(Arch::to_string).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(" (and for {})", names.join(", "))
    }
}
