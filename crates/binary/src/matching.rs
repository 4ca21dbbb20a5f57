//! Matches the kernels of one listing with those of another.
//!
//! Each pass takes kernels that the earlier passes left: first by name as it is, then by name without what compilers
//! write into it, then by equal code, by similar code, and finally the only kernel that a member has left on each side.
//! A name can occur several times for one architecture (internal linkage, several objects). Such kernels are paired by
//! member, then by equal code, then by similarity, then by their order. A kernel that moved to another member must be
//! the only one of its name. Nothing is paired across architectures.

use crate::{BinaryKernel, Listing, Ptx, normal, similar};
use model::Arch;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The number of pairs of kernels with one name that are compared by their code. Beyond that, their order decides.
const MOST_COMPARED: usize = 1 << 12;

/// The way in which two kernels were found to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchedBy {
    Name,
    /// Their names are equal without hashes of files and versions of namespaces.
    NormalisedName,
    /// Their code is equal or similar, under another name.
    Code,
    /// They were the only kernels of their library or object, and architecture, that had no partner.
    Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    pub base: &'a BinaryKernel,
    pub head: &'a BinaryKernel,
    pub by: MatchedBy,
}

/// Two listings, kernel by kernel. Each list has the order of its listing, and `pairs` has the base's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching<'a> {
    pub pairs: Vec<Pair<'a>>,
    /// Machine code of the base that the head lacks, for an architecture that the head has.
    pub removed: Vec<&'a BinaryKernel>,
    /// Machine code of the head that the base lacks, for an architecture that the base has.
    pub added: Vec<&'a BinaryKernel>,
    /// Machine code of the base that the head has as PTX alone.
    pub to_ptx: Vec<&'a BinaryKernel>,
    /// Machine code of the head that the base has as PTX alone.
    pub from_ptx: Vec<&'a BinaryKernel>,
    /// Architectures that no machine code of the head is for, with how many kernels the base has for each. They are
    /// in no other list.
    pub removed_architectures: BTreeMap<Arch, usize>,
    /// Architectures that no machine code of the base is for.
    pub added_architectures: BTreeMap<Arch, usize>,
}

/// One listing, with the positions of its kernels that have no partner yet.
struct UnmatchedKernels<'a> {
    kernels: &'a [BinaryKernel],
    ptx: &'a [Ptx],
    /// The names by position, without what compilers write into them.
    names: Vec<Cow<'a, str>>,
    /// The name that the base has for a member.
    members: HashMap<&'a str, &'a str>,
    left: Vec<usize>,
}

/// The properties that two kernels must share in addition to the architecture.
#[derive(Clone, Copy)]
struct Pass {
    by: MatchedBy,
    member: bool,
    code: bool,
}

/// A kernel's own values of these properties.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct MatchKey<'k> {
    arch: Arch,
    name: Option<&'k str>,
    member: Option<Option<&'k str>>,
    code: Option<[u8; 32]>,
}

/// Matches two listings, and says for every kernel of either what became of it.
pub fn match_kernels<'a>(base: &'a Listing, head: &'a Listing) -> Matching<'a> {
    let (mut bases, mut heads) = (UnmatchedKernels::new(base), UnmatchedKernels::new(head));
    heads.members = renamed_files(&members(base), &members(head));
    let removed_architectures = bases.set_aside_architectures(&architectures(head));
    let added_architectures = heads.set_aside_architectures(&architectures(base));
    let mut pairs = Vec::new();
    for by in [MatchedBy::Name, MatchedBy::NormalisedName, MatchedBy::Code] {
        if by == MatchedBy::NormalisedName && !bases.left.is_empty() && !heads.left.is_empty() {
            bases.normalise_names();
            heads.normalise_names();
        }
        for (member, code) in [(true, true), (true, false), (false, true), (false, false)] {
            pairs.extend(match_equal(
                &mut bases,
                &mut heads,
                Pass { by, member, code },
            ));
        }
    }
    let similar = similar::pairs(bases.kernels, &bases.left, heads.kernels, &heads.left);
    bases.remove(similar.iter().map(|pair| pair.0));
    heads.remove(similar.iter().map(|pair| pair.1));
    pairs.extend(
        similar
            .into_iter()
            .map(|(one, other)| (one, other, MatchedBy::Code)),
    );
    let (to_ptx, removed) = split_by_ptx(&bases, &heads);
    let (from_ptx, added) = split_by_ptx(&heads, &bases);
    let rest = pair_rest((&bases, &removed), (&heads, &added));
    bases.left = removed;
    heads.left = added;
    bases.remove(rest.iter().map(|(base, _)| *base));
    heads.remove(rest.iter().map(|(_, head)| *head));
    pairs.extend(
        rest.into_iter()
            .map(|(one, other)| (one, other, MatchedBy::Rest)),
    );
    pairs.sort_unstable();
    let pair = |(one, other, by)| {
        let (base, head) = (base.kernels.get(one)?, head.kernels.get(other)?);
        Some(Pair { base, head, by })
    };
    Matching {
        pairs: pairs.into_iter().filter_map(pair).collect(),
        removed: bases.kernels_at(&bases.left),
        added: heads.kernels_at(&heads.left),
        to_ptx: bases.kernels_at(&to_ptx),
        from_ptx: heads.kernels_at(&from_ptx),
        removed_architectures,
        added_architectures,
    }
}

impl<'a> UnmatchedKernels<'a> {
    fn new(listing: &'a Listing) -> Self {
        let kernels = &listing.kernels;
        Self {
            kernels,
            ptx: &listing.ptx,
            names: Vec::new(),
            members: HashMap::new(),
            left: (0..kernels.len()).collect(),
        }
    }

    /// Takes out the architectures that the other side has no machine code for, and returns how many kernels there are
    /// for each.
    fn set_aside_architectures(&mut self, others: &HashSet<Arch>) -> BTreeMap<Arch, usize> {
        let mut aside = BTreeMap::new();
        for kernel in self.kernels {
            if !others.contains(&kernel.arch) {
                *aside.entry(kernel.arch).or_default() += 1;
            }
        }
        let kernels = self.kernels;
        let is_of_both = |at: &usize| {
            kernels
                .get(*at)
                .is_some_and(|kernel| others.contains(&kernel.arch))
        };
        self.left.retain(is_of_both);
        aside
    }

    fn remove(&mut self, places: impl Iterator<Item = usize>) {
        let gone: HashSet<_> = places.collect();
        self.left.retain(|at| !gone.contains(at));
    }

    fn kernels_at(&self, places: &[usize]) -> Vec<&'a BinaryKernel> {
        places
            .iter()
            .filter_map(|at| self.kernels.get(*at))
            .collect()
    }

    fn normalise_names(&mut self) {
        self.names = self
            .kernels
            .iter()
            .map(|kernel| normal::name(&kernel.name))
            .collect();
    }

    /// Returns the name that the base has for a member.
    fn member<'m>(&self, member: Option<&'m str>) -> Option<&'m str>
    where
        'a: 'm,
    {
        member.map(|member| self.members.get(member).copied().unwrap_or(member))
    }

    /// Returns the key of a kernel, or `None` if the pass does not look at it.
    fn key(&self, at: usize, pass: Pass) -> Option<MatchKey<'_>> {
        let kernel = self.kernels.get(at)?;
        let name = match pass.by {
            MatchedBy::Name => Some(kernel.name.as_str()),
            MatchedBy::NormalisedName => Some(self.names.get(at)?.as_ref()),
            MatchedBy::Code if pass.code && similar::is_telling(kernel) => None,
            MatchedBy::Code | MatchedBy::Rest => return None,
        };
        let member = || self.member(kernel.member.as_deref());
        Some(MatchKey {
            arch: kernel.arch,
            name,
            member: pass.member.then(member),
            code: pass.code.then_some(kernel.digest),
        })
    }

    fn groups(&self, pass: Pass, places: &[usize]) -> HashMap<MatchKey<'_>, Vec<usize>> {
        let mut groups: HashMap<_, Vec<usize>> = HashMap::new();
        for at in places {
            if let Some(key) = self.key(*at, pass) {
                groups.entry(key).or_default().push(*at);
            }
        }
        groups
    }

    /// Returns the keys that kernels of several members share, with a partner or without one.
    fn in_several_members(&self, pass: Pass) -> HashSet<MatchKey<'_>> {
        let all: Vec<_> = (0..self.kernels.len()).collect();
        let member = |at: &usize| self.kernels.get(*at).map(|kernel| kernel.member.as_deref());
        let is_several = |places: &[usize]| {
            let first = places.first().and_then(member);
            places.iter().any(|place| member(place) != first)
        };
        self.groups(pass, &all)
            .into_iter()
            .filter(|(_, places)| is_several(places))
            .map(|(key, _)| key)
            .collect()
    }
}

/// Returns the architectures that there is machine code for, or should be.
fn architectures(listing: &Listing) -> HashSet<Arch> {
    let refused = listing.ptx.iter().filter(|ptx| ptx.refused.is_some());
    listing
        .kernels
        .iter()
        .map(|kernel| kernel.arch)
        .chain(refused.map(|kernel| kernel.arch))
        .collect()
}

/// Returns the members that have machine code.
fn members(listing: &Listing) -> BTreeSet<&str> {
    listing
        .kernels
        .iter()
        .filter_map(|kernel| kernel.member.as_deref())
        .collect()
}

/// Maps new files to the old ones that they are under another version or in another place: `libk.so.1.3` to `libk.so.1.2`.
/// If several could be meant, none is.
pub fn renamed_files<'a>(
    bases: &BTreeSet<&'a str>,
    heads: &BTreeSet<&'a str>,
) -> HashMap<&'a str, &'a str> {
    let mut gone: Vec<_> = bases.difference(heads).copied().collect();
    let mut new: Vec<_> = heads.difference(bases).copied().collect();
    let mut renamed = HashMap::new();
    let file = |member: &str| normal::member(member.rsplit('/').next().unwrap_or(member));
    let any = |_: &str| String::new();
    let names: [&dyn Fn(&str) -> String; 3] = [&normal::member, &file, &any];
    for name in names {
        let by_name = |members: &[&'a str]| {
            let mut names: BTreeMap<String, Vec<&'a str>> = BTreeMap::new();
            for member in members {
                names.entry(name(member)).or_default().push(*member);
            }
            names
        };
        let gone_by_name = by_name(&gone);
        let mut found = HashSet::new();
        for (name, heads) in by_name(&new) {
            let bases = gone_by_name.get(&name).map(Vec::as_slice);
            if let ([head], Some([base])) = (heads.as_slice(), bases) {
                renamed.insert(*head, *base);
                found.insert(*base);
            }
        }
        gone.retain(|difference| !found.contains(difference));
        new.retain(|difference| !renamed.contains_key(difference));
    }
    renamed
}

/// Pairs kernels with the same key, and takes them out of what is left.
fn match_equal(
    bases: &mut UnmatchedKernels,
    heads: &mut UnmatchedKernels,
    pass: Pass,
) -> Vec<(usize, usize, MatchedBy)> {
    if bases.left.is_empty() || heads.left.is_empty() {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    let mut of_heads = heads.groups(pass, &heads.left);
    // Only its name or its code can say which of several members a kernel moved to.
    let is_told = pass.member || (pass.code && pass.by == MatchedBy::Name);
    let many = if is_told {
        [HashSet::new(), HashSet::new()]
    } else {
        [
            bases.in_several_members(pass),
            heads.in_several_members(pass),
        ]
    };
    for (key, of_base) in bases.groups(pass, &bases.left) {
        if many.iter().any(|keys| keys.contains(&key)) {
            continue;
        }
        if let Some(of_head) = of_heads.remove(&key) {
            pairs.extend(pair_group(bases, &of_base, heads, &of_head, pass));
        }
    }
    bases.remove(pairs.iter().map(|pair| pair.0));
    heads.remove(pairs.iter().map(|pair| pair.1));
    pairs
        .into_iter()
        .map(|(one, other)| (one, other, pass.by))
        .collect()
}

/// Pairs the kernels of a group one to one.
fn pair_group<'a>(
    bases: &UnmatchedKernels<'a>,
    of_base: &[usize],
    heads: &UnmatchedKernels<'a>,
    of_head: &[usize],
    pass: Pass,
) -> Vec<(usize, usize)> {
    let kernels = |side: &UnmatchedKernels<'a>, places: &[usize]| {
        let mut kernels: Vec<_> = places
            .iter()
            .filter_map(|at| Some((*at, side.kernels.get(*at)?)))
            .collect();
        // The sort is stable, so the order decides between kernels with one name in one member.
        kernels.sort_by_key(|(_, kernel)| (kernel.name.as_str(), kernel.member.as_deref()));
        kernels
    };
    let (of_base, of_head) = (kernels(bases, of_base), kernels(heads, of_head));
    let is_named = pass.by != MatchedBy::Code;
    let is_clear = of_base.len() == 1 && of_head.len() == 1;
    let count = of_base.len().saturating_mul(of_head.len());
    if is_clear || (is_named && pass.code) || count > MOST_COMPARED {
        return of_base
            .into_iter()
            .zip(of_head)
            .map(|((one, _), (other, _))| (one, other))
            .collect();
    }
    let mut scored = Vec::new();
    for (first, (one, base)) in of_base.iter().enumerate() {
        for (second, (other, head)) in of_head.iter().enumerate() {
            let score = if is_named {
                similar::similarity(base, head, 0.0).unwrap_or_default()
            } else {
                normal::likeness(&base.name, &head.name)
            };
            // The tie is the same whichever of the two listings comes first.
            let tie = (first.min(second), first.max(second));
            scored.push((score, tie, *one, *other));
        }
    }
    scored.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let (mut taken_bases, mut taken_heads) = (HashSet::new(), HashSet::new());
    let mut pairs = Vec::new();
    for (_, _, one, other) in scored {
        if !taken_bases.contains(&one) && !taken_heads.contains(&other) {
            taken_bases.insert(one);
            taken_heads.insert(other);
            pairs.push((one, other));
        }
    }
    pairs
}

/// Pairs kernels of any name and code if a library or object has one left for an architecture on both sides: it was
/// renamed, or its template has other parameters.
fn pair_rest(
    bases: (&UnmatchedKernels, &[usize]),
    heads: (&UnmatchedKernels, &[usize]),
) -> Vec<(usize, usize)> {
    let [bases, heads] = [bases, heads].map(|(side, left)| {
        let mut groups: HashMap<(Arch, Option<&str>), Vec<usize>> = HashMap::new();
        for at in left {
            if let Some(kernel) = side.kernels.get(*at) {
                let member = side.member(kernel.member.as_deref());
                let of_member = groups.entry((kernel.arch, member));
                of_member.or_default().push(*at);
            }
        }
        groups
    });
    bases
        .iter()
        .filter_map(
            |(key, of_base)| match (of_base.as_slice(), heads.get(key)?.as_slice()) {
                ([base], [head]) => Some((*base, *head)),
                _ => None,
            },
        )
        .collect()
}

/// Splits the remaining kernels into those that the other side has as PTX of the same member, which a driver can
/// compile for the architecture, and the rest.
fn split_by_ptx(side: &UnmatchedKernels, other: &UnmatchedKernels) -> (Vec<usize>, Vec<usize>) {
    let mut architectures: HashMap<(&str, Option<&str>), Vec<Arch>> = HashMap::new();
    for ptx in other.ptx {
        let member = other.member(ptx.member.as_deref());
        for name in &ptx.kernels {
            let of_name = architectures.entry((name, member)).or_default();
            of_name.push(ptx.arch);
        }
    }
    let can_be_compiled = |kernel: &BinaryKernel| {
        let key = (kernel.name.as_str(), side.member(kernel.member.as_deref()));
        architectures
            .get(&key)
            .into_iter()
            .flatten()
            .any(|ptx| match ptx.suffix {
                Some(_) => *ptx == kernel.arch,
                None => (ptx.major, ptx.minor) <= (kernel.arch.major, kernel.arch.minor),
            })
    };
    let is_left_as_ptx = |at: &usize| side.kernels.get(*at).is_some_and(can_be_compiled);
    side.left.iter().partition(|at| is_left_as_ptx(at))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Format;
    use proptest::prelude::*;

    pub fn kernel(name: &str, arch: &str, code: u8) -> BinaryKernel {
        BinaryKernel {
            name: name.to_owned(),
            arch: arch.parse().unwrap(),
            registers: None,
            frame: None,
            stack: None,
            static_shared: None,
            reserved_shared: 0,
            constants: BTreeMap::new(),
            code: 0,
            barriers: None,
            max_threads: None,
            required_threads: None,
            is_linked: true,
            digest: [code; 32],
            opcodes: Vec::new(),
            local_instructions: None,
            member: None,
        }
    }

    pub fn in_member(member: &str, kernel: BinaryKernel) -> BinaryKernel {
        BinaryKernel {
            member: Some(member.to_owned()),
            ..kernel
        }
    }

    pub fn listing(kernels: impl IntoIterator<Item = BinaryKernel>) -> Listing {
        Listing {
            kernels: kernels.into_iter().collect(),
            ..Listing::new(Format::Fatbin)
        }
    }

    /// Returns the members and digests of pairs.
    fn pairs(matching: &Matching) -> Vec<(String, u8, u8)> {
        let members_and_code = |pair: &Pair| {
            let member = |kernel: &BinaryKernel| kernel.member.clone().unwrap_or_default();
            let members = format!("{}{}", member(pair.base), member(pair.head));
            (members, pair.base.digest[0], pair.head.digest[0])
        };
        matching.pairs.iter().map(members_and_code).collect()
    }

    #[test]
    fn a_name_that_stands_twice_is_paired_by_member_then_code_then_order() {
        let base = listing([
            in_member("a", kernel("k", "sm_90", 1)),
            in_member("b", kernel("k", "sm_90", 2)),
            in_member("b", kernel("k", "sm_90", 3)),
            in_member("c", kernel("k", "sm_90", 4)),
            in_member("d", kernel("k", "sm_90", 5)),
            in_member("e", kernel("k", "sm_90", 8)),
            in_member("e", kernel("k", "sm_90", 9)),
        ]);
        let head = listing([
            in_member("x", kernel("k", "sm_90", 6)),
            in_member("y", kernel("k", "sm_90", 4)),
            in_member("b", kernel("k", "sm_90", 3)),
            in_member("b", kernel("k", "sm_90", 7)),
            in_member("a", kernel("k", "sm_90", 2)),
            in_member("e", kernel("k", "sm_90", 10)),
            in_member("e", kernel("k", "sm_90", 11)),
        ]);
        let matching = match_kernels(&base, &head);
        let expected = [
            ("aa", 1, 2),
            ("bb", 2, 7),
            ("bb", 3, 3),
            ("cy", 4, 4),
            ("ee", 8, 10),
            ("ee", 9, 11),
        ];
        let expected = expected.map(|(members, base, head)| (members.to_owned(), base, head));
        assert_eq!(pairs(&matching), expected);
        // Nobody knows which of the members it moved to.
        let members = |list: &[&BinaryKernel]| -> Vec<String> {
            list.iter()
                .filter_map(|kernel| kernel.member.clone())
                .collect()
        };
        assert_eq!(members(&matching.removed), ["d"]);
        assert_eq!(members(&matching.added), ["x"]);
    }

    #[test]
    fn an_architecture_that_is_gone_is_no_list_of_removed_kernels() {
        let base = listing([kernel("k", "sm_75", 1), kernel("k", "sm_90", 1)]);
        let head = listing([kernel("k", "sm_90", 1), kernel("k", "sm_90a", 1)]);
        let matching = match_kernels(&base, &head);
        assert_eq!(matching.pairs.len(), 1);
        assert!(matching.removed.is_empty() && matching.added.is_empty());
        let arch = |name: &str| name.parse::<Arch>().unwrap();
        let removed = [(arch("sm_75"), 1)];
        assert_eq!(matching.removed_architectures, BTreeMap::from(removed));
        let added = [(arch("sm_90a"), 1)];
        assert_eq!(matching.added_architectures, BTreeMap::from(added));
    }

    #[test]
    fn an_architecture_whose_ptx_was_refused_is_not_removed() {
        let base = listing([kernel("k", "sm_90", 1)]);
        let mut head = listing([]);
        head.ptx = vec![Ptx {
            arch: "sm_90".parse().unwrap(),
            kernels: vec!["k".to_owned()],
            member: None,
            refused: Some("unknown instruction".to_owned()),
        }];
        let matching = match_kernels(&base, &head);
        assert_eq!(matching.to_ptx, [&base.kernels[0]]);
        assert!(matching.removed_architectures.is_empty());
        head.ptx[0].refused = None;
        assert_eq!(match_kernels(&base, &head).removed_architectures.len(), 1);
    }

    #[test]
    fn a_kernel_that_is_left_as_ptx_is_not_removed() {
        let base = listing([
            kernel("k", "sm_90", 1),
            kernel("gone", "sm_90", 2),
            kernel("newer", "sm_90", 3),
            kernel("stays", "sm_90", 4),
        ]);
        let mut head = listing([kernel("stays", "sm_90", 4)]);
        head.ptx = vec![
            Ptx {
                arch: "sm_80".parse().unwrap(),
                kernels: vec!["k".to_owned(), "stays".to_owned()],
                member: None,
                refused: None,
            },
            Ptx {
                arch: "sm_100".parse().unwrap(),
                kernels: vec!["newer".to_owned()],
                member: None,
                refused: None,
            },
        ];
        let names = |list: &[&BinaryKernel]| -> Vec<String> {
            list.iter().map(|kernel| kernel.name.clone()).collect()
        };
        let matching = match_kernels(&base, &head);
        assert_eq!(names(&matching.to_ptx), ["k"]);
        assert_eq!(names(&matching.removed), ["gone", "newer"]);
        let back = match_kernels(&head, &base);
        assert_eq!(names(&back.from_ptx), ["k"]);
        assert_eq!(names(&back.added), ["gone", "newer"]);
    }

    /// Returns a kernel that is long enough to be recognised by its code.
    fn with_code(name: &str, code: u8, opcodes: &[(u16, u32)]) -> BinaryKernel {
        BinaryKernel {
            opcodes: opcodes.to_vec(),
            ..kernel(name, "sm_90", code)
        }
    }

    /// Returns the names of both, and how they were matched.
    fn named(matching: &Matching) -> Vec<(String, String, MatchedBy)> {
        let names = |pair: &Pair| (pair.base.name.clone(), pair.head.name.clone(), pair.by);
        matching.pairs.iter().map(names).collect()
    }

    #[test]
    fn a_hash_in_the_name_is_another_build_of_the_same_kernel() {
        let name = |hash: &str, kernel: &str| {
            let namespace = format!("_GLOBAL__N__{hash}_4_a_cu_{hash}");
            format!("_ZN{}{namespace}1{kernel}Ev", namespace.len())
        };
        let (one, other) = (name("d4f67a3d", "k"), name("00000000", "k"));
        let base = listing([kernel(&one, "sm_90", 1)]);
        let unrelated = name("00000000", "l");
        let head = listing([kernel(&unrelated, "sm_90", 1), kernel(&other, "sm_90", 2)]);
        let matching = match_kernels(&base, &head);
        assert_eq!(named(&matching), [(one, other, MatchedBy::NormalisedName)]);
        assert_eq!(matching.added.len(), 1);
    }

    #[test]
    fn pairs_most_similar_of_several_with_one_normal_name() {
        let base = listing([
            with_code("k_0d1d", 1, &[(1, 100), (2, 20)]),
            with_code("k_0d1c", 2, &[(1, 200), (3, 20)]),
        ]);
        let head = listing([
            with_code("k_0d1", 3, &[(1, 210), (3, 22)]),
            with_code("k_0c1d", 4, &[(1, 110), (2, 22)]),
        ]);
        let by = MatchedBy::NormalisedName;
        let expected = [("k_0d1d", "k_0c1d"), ("k_0d1c", "k_0d1")];
        let expected = expected.map(|(one, other)| (one.to_owned(), other.to_owned(), by));
        assert_eq!(named(&match_kernels(&base, &head)), expected);
    }

    #[test]
    fn a_library_under_its_next_version_is_the_same_member() {
        let base = listing([
            in_member("lib/libk.so.1.2", kernel("k", "sm_90", 1)),
            in_member("lib/libother.so", kernel("k", "sm_90", 2)),
        ]);
        let head = listing([
            in_member("lib/libother.so", kernel("k", "sm_90", 3)),
            in_member("lib/libk.so.1.3", kernel("k", "sm_90", 4)),
        ]);
        let expected = [
            ("lib/libk.so.1.2lib/libk.so.1.3", 1, 4),
            ("lib/libother.solib/libother.so", 2, 3),
        ];
        let expected = expected.map(|(members, base, head)| (members.to_owned(), base, head));
        assert_eq!(pairs(&match_kernels(&base, &head)), expected);
    }

    #[test]
    fn a_kernel_that_moved_to_another_object_is_found() {
        let base = listing([
            in_member("a.o", kernel("k", "sm_90", 1)),
            in_member("a.o", kernel("stays", "sm_90", 1)),
            in_member("b.o", kernel("other", "sm_90", 1)),
        ]);
        let head = listing([
            in_member("a.o", kernel("stays", "sm_90", 1)),
            in_member("b.o", kernel("other", "sm_90", 1)),
            in_member("b.o", kernel("k", "sm_90", 2)),
        ]);
        let expected = [("a.ob.o", 1, 2), ("a.oa.o", 1, 1), ("b.ob.o", 1, 1)];
        let expected = expected.map(|(members, base, head)| (members.to_owned(), base, head));
        assert_eq!(pairs(&match_kernels(&base, &head)), expected);
    }

    /// bitsandbytes 0.50.2 dropped the libraries for five versions of CUDA and added one.
    #[test]
    fn a_new_library_is_not_one_of_several_that_are_gone() {
        let base = listing([
            in_member("libk_cuda120.so", kernel("k", "sm_90", 1)),
            in_member("libk_cuda129.so", kernel("k", "sm_90", 2)),
        ]);
        let head = listing([in_member("libk_cuda132.so", kernel("k", "sm_90", 3))]);
        let matching = match_kernels(&base, &head);
        assert!(matching.pairs.is_empty());
        assert_eq!((matching.removed.len(), matching.added.len()), (2, 1));
        // Equal code makes the difference.
        let head = listing([in_member("libk_cuda132.so", kernel("k", "sm_90", 2))]);
        let matching = match_kernels(&base, &head);
        assert_eq!(
            pairs(&matching),
            [("libk_cuda129.solibk_cuda132.so".to_owned(), 2, 2)]
        );
    }

    #[test]
    fn a_renamed_kernel_is_found_by_its_code() {
        let code = [(1, 300), (2, 200), (3, 50)];
        let similar = [(1, 303), (2, 199), (3, 50)];
        let different = [(1, 300), (2, 20), (4, 300)];
        let base = listing([
            with_code("_Z3oldPf", 1, &code),
            with_code("_Z5otherPf", 2, &different),
        ]);
        let changed = |code| match_kernels_of(&base, [with_code("_Z3newPf", 3, code)]);
        let expected = (
            "_Z3oldPf".to_owned(),
            "_Z3newPf".to_owned(),
            MatchedBy::Code,
        );
        assert_eq!(changed(&similar), std::slice::from_ref(&expected));
        assert!(
            changed(&[(1, 300), (2, 150), (3, 50)]).is_empty(),
            "too different"
        );
        let twins = [
            with_code("_Z3newPf", 3, &similar),
            with_code("_Z4new2Pf", 4, &code),
        ];
        assert!(
            match_kernels_of(&base, twins).is_empty(),
            "which of them is not known"
        );
        let same_code = [
            with_code("_Z3newPf", 1, &code),
            with_code("_Z4new2Pf", 4, &code),
        ];
        assert_eq!(match_kernels_of(&base, same_code), [expected]);
        let other_instance = listing([with_code("_Z1kIiEvv", 1, &code)]);
        let instance = with_code("_Z1kIlEvv", 2, &similar);
        assert!(match_kernels_of(&other_instance, [instance]).is_empty());
    }

    /// A rival that has a partner by name still makes the code ambiguous.
    #[test]
    fn one_of_a_family_is_not_found_by_its_code() {
        let base = listing([
            with_code("_Z3oldPf", 1, &[(1, 300), (2, 200)]),
            with_code("_Z6familyPf", 2, &[(1, 301), (2, 200)]),
        ]);
        let head = [
            with_code("_Z3newPf", 3, &[(1, 302), (2, 200)]),
            with_code("_Z6familyPf", 4, &[(1, 303), (2, 200)]),
        ];
        let same = "_Z6familyPf".to_owned();
        let expected = (same.clone(), same, MatchedBy::Name);
        assert_eq!(match_kernels_of(&base, head), [expected]);
    }

    #[test]
    fn a_short_kernel_is_not_found_by_its_code() {
        let base = listing([with_code("_Z3oldPf", 1, &[(1, 20)])]);
        let head = [with_code("_Z3newPf", 1, &[(1, 20)])];
        assert!(match_kernels_of(&base, head).is_empty());
    }

    /// Pairs that a name or equal code shows.
    fn match_kernels_of(
        base: &Listing,
        head: impl IntoIterator<Item = BinaryKernel>,
    ) -> Vec<(String, String, MatchedBy)> {
        let mut named = named(&match_kernels(base, &listing(head)));
        named.retain(|(.., by)| *by != MatchedBy::Rest);
        named
    }

    #[test]
    fn the_only_ones_that_are_left_of_a_library_are_one_kernel() {
        let by_rest = |base: &[(&str, &str)], head: &[(&str, &str)]| {
            let listing = |kernels: &[(&str, &str)], code| {
                listing(
                    kernels
                        .iter()
                        .map(|(member, name)| in_member(member, kernel(name, "sm_90", code))),
                )
            };
            let (base, head) = (listing(base, 1), listing(head, 2));
            let mut named = named(&match_kernels(&base, &head));
            named.retain(|(.., by)| *by == MatchedBy::Rest);
            named
                .into_iter()
                .map(|(base, head, _)| base + &head)
                .collect::<Vec<_>>()
        };
        assert_eq!(by_rest(&[("a", "old")], &[("a", "new")]), ["oldnew"]);
        let same = ("a", "same");
        assert_eq!(
            by_rest(&[("a", "old"), same], &[same, ("a", "new")]),
            ["oldnew"]
        );
        let libraries = [("a", "old"), ("b", "gone")];
        let mut both = by_rest(&libraries, &[("a", "new"), ("b", "next")]);
        both.sort();
        assert_eq!(both, ["gonenext", "oldnew"]);
        // There are two left, or they belong to two libraries.
        assert!(by_rest(&[("a", "old")], &[("a", "new"), ("a", "next")]).is_empty());
        assert!(by_rest(&[("a", "old"), same], &[same, ("b", "new")]).is_empty());
    }

    #[test]
    fn what_is_left_as_ptx_is_not_paired_with_the_rest() {
        let base = listing([kernel("k", "sm_90", 1), kernel("same", "sm_90", 1)]);
        let mut head = listing([kernel("new", "sm_90", 2), kernel("same", "sm_90", 1)]);
        head.ptx = vec![Ptx {
            arch: "sm_90".parse().unwrap(),
            kernels: vec!["k".to_owned()],
            member: None,
            refused: None,
        }];
        let matching = match_kernels(&base, &head);
        assert_eq!((matching.pairs.len(), matching.to_ptx.len()), (1, 1));
    }

    prop_compose! {
        /// Draws kernels whose digest says which code they have.
        fn any_kernel()(
            name in 0_u8..20,
            arch in prop::sample::select(vec!["sm_80", "sm_90", "sm_90a"]),
            member in prop::option::of(0_u8..2),
            code in 0_u8..30,
        ) -> BinaryKernel {
            let counts = [(1, 40 + u32::from(code) * 7), (u16::from(code % 4) + 2, 100)];
            BinaryKernel {
                opcodes: counts.to_vec(),
                member: member.map(|member| format!("{member}.o")),
                ..kernel(&format!("k{name}"), arch, code)
            }
        }
    }

    fn any_listing() -> impl Strategy<Value = Listing> {
        prop::collection::vec(any_kernel(), 0..40).prop_map(listing)
    }

    /// Draws listings in which no name occurs twice in one place.
    fn any_listing_of_names() -> impl Strategy<Value = Listing> {
        any_listing().prop_map(|mut listing| {
            let mut met = HashSet::new();
            listing.kernels.retain(|kernel| {
                met.insert((kernel.name.clone(), kernel.arch, kernel.member.clone()))
            });
            listing
        })
    }

    fn place(listing: &Listing, kernel: &BinaryKernel) -> usize {
        listing
            .kernels
            .iter()
            .position(|other| std::ptr::eq(other, kernel))
            .unwrap()
    }

    /// Returns everything that a matching says of the kernels, whatever their order.
    fn sorted(matching: &Matching) -> Vec<String> {
        let all = |of: &str, list: &[&BinaryKernel]| -> Vec<String> {
            list.iter().map(|entry| format!("{of} {entry:?}")).collect()
        };
        let mut text: Vec<_> = matching
            .pairs
            .iter()
            .map(|pair| format!("{pair:?}"))
            .collect();
        text.extend(all("removed", &matching.removed));
        text.extend(all("added", &matching.added));
        text.sort();
        text
    }

    proptest! {
        #[test]
        fn a_listing_is_matched_to_itself_by_name(listing in any_listing()) {
            let matching = match_kernels(&listing, &listing);
            prop_assert_eq!(matching.pairs.len(), listing.kernels.len());
            for pair in &matching.pairs {
                prop_assert_eq!(pair.by, MatchedBy::Name);
                prop_assert_eq!(pair.base, pair.head);
            }
            prop_assert!(matching.removed.is_empty() && matching.added.is_empty());
        }

        #[test]
        fn every_kernel_is_in_one_place_and_architectures_do_not_mix(
            base in any_listing(),
            head in any_listing(),
        ) {
            let matching = match_kernels(&base, &head);
            let aside = |of: &BTreeMap<Arch, usize>| of.values().sum::<usize>();
            for pair in &matching.pairs {
                prop_assert_eq!(pair.base.arch, pair.head.arch);
            }
            let mut bases: Vec<_> = matching.pairs.iter().map(|pair| place(&base, pair.base)).collect();
            bases.extend(matching.removed.iter().map(|kernel| place(&base, kernel)));
            prop_assert_eq!(bases.iter().collect::<HashSet<_>>().len(), bases.len());
            let count = bases.len() + aside(&matching.removed_architectures);
            prop_assert_eq!(count, base.kernels.len());
            let mut heads: Vec<_> = matching.pairs.iter().map(|pair| place(&head, pair.head)).collect();
            heads.extend(matching.added.iter().map(|kernel| place(&head, kernel)));
            prop_assert_eq!(heads.iter().collect::<HashSet<_>>().len(), heads.len());
            let count = heads.len() + aside(&matching.added_architectures);
            prop_assert_eq!(count, head.kernels.len());
        }

        #[test]
        fn the_order_of_kernels_does_not_matter(
            base in any_listing_of_names(),
            head in any_listing_of_names(),
            rotation in 0_usize..40,
        ) {
            let mut turned = head.clone();
            turned.kernels.rotate_left(rotation % head.kernels.len().max(1));
            let mut reversed = base.clone();
            reversed.kernels.reverse();
            let matching = sorted(&match_kernels(&base, &head));
            prop_assert_eq!(matching, sorted(&match_kernels(&reversed, &turned)));
        }

        #[test]
        fn matching_is_symmetric(base in any_listing(), head in any_listing()) {
            let (there, back) = (match_kernels(&base, &head), match_kernels(&head, &base));
            let pairs = |matching: &Matching, turned: bool| {
                let places = |pair: &Pair| if turned { (place(&base, pair.head), place(&head, pair.base), pair.by) } else { (place(&base, pair.base), place(&head, pair.head), pair.by) };
                matching.pairs.iter().map(places).collect::<BTreeSet<_>>()
            };
            prop_assert_eq!(pairs(&there, false), pairs(&back, true));
            prop_assert_eq!(there.removed, back.added);
            prop_assert_eq!(there.added, back.removed);
        }

        #[test]
        fn without_names_pairs_are_of_one_architecture(listing in any_listing()) {
            let mut nameless = listing.clone();
            for (at, kernel) in nameless.kernels.iter_mut().enumerate() {
                kernel.name = format!("{}nameless", ["a", "b", "c"][at % 3].repeat(at + 1));
            }
            for pair in match_kernels(&listing, &nameless).pairs {
                prop_assert!(matches!(pair.by, MatchedBy::Code | MatchedBy::Rest));
                prop_assert_eq!(pair.base.arch, pair.head.arch);
            }
        }
    }
}
