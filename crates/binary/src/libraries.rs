//! Compares the files of a wheel or directory: what each has code for, and which architectures it lost compared with an
//! older listing. Files are compared one by one, because a program loads one library, and code in the others is of no
//! use to it.

use crate::Listing;
use crate::matching::renamed_files;
use model::{Arch, CodeTargets, MissingCode};
use std::collections::BTreeMap;

/// The targets of each library, by its path in the wheel, directory or static library. `None` is the listed file
/// itself.
pub type Libraries = BTreeMap<Option<String>, CodeTargets>;

/// An architecture that a library no longer has machine code for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostArchitecture {
    /// The path in the new listing. `None` is the listed file itself, or stands for all files of a wheel.
    pub library: Option<String>,
    pub arch: Arch,
    /// The number of kernels that the old listing has for it.
    pub kernels: u32,
    pub missing: MissingCode,
}

/// Lists what each library has code for. PTX that an assembler refused counts as machine code: it has a verdict of its own.
pub fn libraries(listing: &Listing) -> Libraries {
    let mut libraries = Libraries::new();
    for kernel in &listing.kernels {
        let targets = libraries.entry(kernel.member.clone()).or_default();
        targets.machine_code.insert(kernel.arch);
    }
    for ptx in &listing.ptx {
        let targets = libraries.entry(ptx.member.clone()).or_default();
        let targets = match ptx.refused {
            Some(_) => &mut targets.machine_code,
            None => &mut targets.ptx,
        };
        targets.insert(ptx.arch);
    }
    libraries
}

/// Returns what all libraries together have code for.
pub fn all_targets(libraries: &Libraries) -> CodeTargets {
    let mut all = CodeTargets::default();
    for targets in libraries.values() {
        all.machine_code.extend(&targets.machine_code);
        all.ptx.extend(&targets.ptx);
    }
    all
}

/// Finds the architectures that libraries of `base` have machine code for, and the same libraries of `head` do not. One that
/// is gone lost those that no other library of `head` has: its kernels are listed as removed.
pub fn lost_architectures(base: &Listing, head: &Libraries) -> Vec<LostArchitecture> {
    let mut counts: BTreeMap<Option<&str>, BTreeMap<Arch, u32>> = BTreeMap::new();
    for kernel in &base.kernels {
        let of_library = counts.entry(kernel.member.as_deref()).or_default();
        *of_library.entry(kernel.arch).or_default() += 1;
    }
    let bases = counts.keys().copied().flatten().collect();
    let renamed = renamed_files(&bases, &head.keys().flatten().map(String::as_str).collect());
    let mut lost = Vec::new();
    let mut add = |library: &Option<String>, has: &CodeTargets, arch, kernels| {
        if !has.answer(arch) {
            lost.push(LostArchitecture {
                library: library.clone(),
                arch,
                kernels,
                missing: MissingCode {
                    had: Some(kernels),
                    has: has.clone(),
                },
            });
        }
    };
    for (library, has) in head {
        let old = library.as_deref();
        let old = old.map(|path| renamed.get(path).copied().unwrap_or(path));
        for (arch, kernels) in counts.remove(&old).unwrap_or_default() {
            add(library, has, arch, kernels);
        }
    }
    let mut gone: BTreeMap<Arch, u32> = BTreeMap::new();
    for (arch, kernels) in counts.into_values().flatten() {
        *gone.entry(arch).or_default() += kernels;
    }
    let all = all_targets(head);
    for (arch, kernels) in gone {
        add(&None, &all, arch, kernels);
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ptx;
    use crate::matching::tests::{in_member, kernel, listing};

    fn lost(base: &Listing, head: &Listing) -> Vec<(Option<String>, String, u32)> {
        lost_architectures(base, &libraries(head))
            .into_iter()
            .map(|lost| (lost.library, lost.arch.to_string(), lost.kernels))
            .collect()
    }

    /// Makes a wheel whose members have one kernel for each of these architectures.
    fn wheel(members: &[(&str, &[&str])]) -> Listing {
        listing(members.iter().flat_map(|(member, architectures)| {
            architectures
                .iter()
                .map(|arch| in_member(member, kernel("k", arch, 1)))
        }))
    }

    #[test]
    fn each_library_has_to_keep_its_architectures() {
        let base = wheel(&[
            ("cu12/libk.so", &["sm_80", "sm_89"]),
            ("cu13/libk.so", &["sm_80", "sm_89"]),
        ]);
        let head = wheel(&[
            ("cu12/libk.so", &["sm_80"]),
            ("cu13/libk.so", &["sm_80", "sm_89", "sm_100"]),
        ]);
        let path = Some("cu12/libk.so".to_owned());
        assert_eq!(lost(&base, &head), [(path, "sm_89".to_owned(), 1)]);
        assert_eq!(lost(&base, &base), []);
    }

    #[test]
    fn a_library_is_the_same_under_its_next_version() {
        let base = wheel(&[
            ("a/libk.so.1.2", &["sm_80", "sm_89"]),
            ("a/libl.so", &["sm_89"]),
        ]);
        let head = wheel(&[("a/libk.so.1.3", &["sm_80"]), ("a/libl.so", &["sm_89"])]);
        let path = Some("a/libk.so.1.3".to_owned());
        assert_eq!(lost(&base, &head), [(path, "sm_89".to_owned(), 1)]);
    }

    #[test]
    fn a_library_that_is_gone_lost_what_no_other_has() {
        let base = wheel(&[
            ("a.so", &["sm_70", "sm_80"]),
            ("b.so", &["sm_70"]),
            ("c.so", &["sm_80"]),
        ]);
        let head = wheel(&[("c.so", &["sm_80"])]);
        assert_eq!(lost(&base, &head), [(None, "sm_70".to_owned(), 2)]);
    }

    #[test]
    fn ptx_is_no_machine_code_unless_it_was_to_be_assembled() {
        let base = wheel(&[("k.so", &["sm_90"])]);
        let mut head = listing([]);
        head.ptx = vec![Ptx {
            arch: "sm_90".parse().unwrap(),
            kernels: vec!["k".to_owned()],
            member: Some("k.so".to_owned()),
            refused: None,
        }];
        assert_eq!(lost(&base, &head).len(), 1);
        head.ptx[0].refused = Some("unknown instruction".to_owned());
        assert_eq!(lost(&base, &head), []);
    }

    #[test]
    fn code_that_runs_on_the_same_devices_keeps_an_architecture() {
        let base = wheel(&[("k.so", &["sm_90", "sm_100"])]);
        let head = wheel(&[("k.so", &["sm_90a", "sm_100f"])]);
        assert_eq!(lost(&base, &head), []);
        let head = wheel(&[("k.so", &["sm_90a", "sm_100a"])]);
        assert_eq!(lost(&base, &head).len(), 1);
    }
}
