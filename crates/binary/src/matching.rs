//! Which kernel of one listing is which of another.
//!
//! Names come first, each pass taking what the one before it left: the name as it is, then without what compilers write
//! into it. A name can stand several times for one architecture (internal linkage, several objects). Such kernels
//! are paired by member, then by equal code, then by their order.

use crate::{Kernel, Listing};
use model::Arch;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

/// How two kernels were found to be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchedBy {
    Name,
    /// By names without hashes of files and versions of namespaces.
    NormalisedName,
    /// By code that is equal or similar, under another name.
    Code,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    pub base: &'a Kernel,
    pub head: &'a Kernel,
    pub by: MatchedBy,
}

/// Two listings, kernel by kernel. All lists are in the order of the listing that they come from; `pairs` in that of
/// the base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching<'a> {
    pub pairs: Vec<Pair<'a>>,
    /// Machine code of the base that the head lacks, for an architecture that the head has.
    pub removed: Vec<&'a Kernel>,
    /// Machine code of the head that the base lacks, for an architecture that the base has.
    pub added: Vec<&'a Kernel>,
    /// Machine code of the base that the head has as PTX alone.
    pub to_ptx: Vec<&'a Kernel>,
    /// Machine code of the head that the base has as PTX alone.
    pub from_ptx: Vec<&'a Kernel>,
    /// Architectures that no machine code of the head is for, with how many kernels the base has for each. They are
    /// in no other list.
    pub removed_architectures: BTreeMap<Arch, usize>,
    /// Architectures that no machine code of the base is for.
    pub added_architectures: BTreeMap<Arch, usize>,
}

/// Places in the two lists, and which of them are not paired yet.
struct Matcher<'a> {
    base: &'a [Kernel],
    head: &'a [Kernel],
    base_left: Vec<usize>,
    head_left: Vec<usize>,
    pairs: Vec<(usize, usize, MatchedBy)>,
}

pub fn match_kernels<'a>(base: &'a Listing, head: &'a Listing) -> Matching<'a> {
    let mut matching = Matching::default();
    let base_architectures = architectures(base);
    let head_architectures = architectures(head);
    let mut matcher = Matcher {
        base: &base.kernels,
        head: &head.kernels,
        base_left: Vec::new(),
        head_left: Vec::new(),
        pairs: Vec::new(),
    };
    for (at, kernel) in base.kernels.iter().enumerate() {
        match head_architectures.contains(&kernel.arch) {
            true => matcher.base_left.push(at),
            false => {
                *matching
                    .removed_architectures
                    .entry(kernel.arch)
                    .or_default() += 1
            }
        }
    }
    for (at, kernel) in head.kernels.iter().enumerate() {
        match base_architectures.contains(&kernel.arch) {
            true => matcher.head_left.push(at),
            false => *matching.added_architectures.entry(kernel.arch).or_default() += 1,
        }
    }
    matcher.match_names(MatchedBy::Name, |it| it.name.as_str().into());
    let Matcher {
        base_left,
        head_left,
        mut pairs,
        ..
    } = matcher;
    pairs.sort_unstable();
    matching.pairs = pairs
        .into_iter()
        .filter_map(|(at, other, by)| {
            let (base, head) = (base.kernels.get(at)?, head.kernels.get(other)?);
            Some(Pair { base, head, by })
        })
        .collect();
    (matching.to_ptx, matching.removed) = split_by_ptx(base, base_left, head);
    (matching.from_ptx, matching.added) = split_by_ptx(head, head_left, base);
    matching
}

fn architectures(listing: &Listing) -> BTreeSet<Arch> {
    listing.kernels.iter().map(|it| it.arch).collect()
}

/// Those that the other listing has as PTX which a driver can compile for the architecture, and the rest.
fn split_by_ptx<'a>(
    listing: &'a Listing,
    left: Vec<usize>,
    other: &Listing,
) -> (Vec<&'a Kernel>, Vec<&'a Kernel>) {
    let mut oldest: HashMap<&str, Vec<Arch>> = HashMap::new();
    for ptx in &other.ptx {
        for name in &ptx.kernels {
            oldest.entry(name).or_default().push(ptx.arch);
        }
    }
    let can_be_compiled = |it: &&Kernel| {
        let of_name = oldest.get(it.name.as_str()).into_iter().flatten();
        let mut of_name = of_name;
        of_name.any(|ptx| match ptx.suffix {
            Some(_) => *ptx == it.arch,
            None => (ptx.major, ptx.minor) <= (it.arch.major, it.arch.minor),
        })
    };
    let left = left.into_iter().filter_map(|at| listing.kernels.get(at));
    left.partition(can_be_compiled)
}

impl<'a> Matcher<'a> {
    fn match_names(
        &mut self,
        by: MatchedBy,
        name: impl Fn(&'a Kernel) -> std::borrow::Cow<'a, str>,
    ) {
        self.match_equal(by, |it| {
            (it.arch, name(it), it.member.as_deref(), it.digest)
        });
        self.match_equal(by, |it| (it.arch, name(it), it.member.as_deref()));
        self.match_equal(by, |it| (it.arch, name(it), it.digest));
        self.match_equal(by, |it| (it.arch, name(it)));
    }

    /// Pairs kernels with the same key, the first with the first.
    fn match_equal<K: Hash + Eq>(&mut self, by: MatchedBy, key: impl Fn(&'a Kernel) -> K) {
        if self.base_left.is_empty() || self.head_left.is_empty() {
            return;
        }
        let mut of_key: HashMap<K, VecDeque<usize>> = HashMap::new();
        for at in &self.head_left {
            if let Some(kernel) = self.head.get(*at) {
                of_key.entry(key(kernel)).or_default().push_back(*at);
            }
        }
        let mut taken = BTreeSet::new();
        let (base, pairs) = (self.base, &mut self.pairs);
        self.base_left.retain(|at| {
            let partners = base.get(*at).and_then(|it| of_key.get_mut(&key(it)));
            let Some(partner) = partners.and_then(VecDeque::pop_front) else {
                return true;
            };
            taken.insert(partner);
            pairs.push((*at, partner, by));
            false
        });
        self.head_left.retain(|at| !taken.contains(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Ptx};

    fn kernel(name: &str, arch: &str, code: u8) -> Kernel {
        Kernel {
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

    fn in_member(member: &str, kernel: Kernel) -> Kernel {
        Kernel {
            member: Some(member.to_owned()),
            ..kernel
        }
    }

    fn listing(kernels: impl IntoIterator<Item = Kernel>) -> Listing {
        Listing {
            kernels: kernels.into_iter().collect(),
            ..Listing::new(Format::Fatbin)
        }
    }

    /// Members and digests of pairs.
    fn pairs(matching: &Matching) -> Vec<(String, u8, u8)> {
        let of = |pair: &Pair| {
            let member = |it: &Kernel| it.member.clone().unwrap_or_default();
            let members = format!("{}{}", member(pair.base), member(pair.head));
            (members, pair.base.digest[0], pair.head.digest[0])
        };
        matching.pairs.iter().map(of).collect()
    }

    #[test]
    fn a_name_that_stands_twice_is_paired_by_member_then_code_then_order() {
        let base = listing([
            in_member("a", kernel("k", "sm_90", 1)),
            in_member("b", kernel("k", "sm_90", 2)),
            in_member("b", kernel("k", "sm_90", 3)),
            in_member("c", kernel("k", "sm_90", 4)),
            in_member("d", kernel("k", "sm_90", 5)),
        ]);
        let head = listing([
            in_member("x", kernel("k", "sm_90", 6)),
            in_member("y", kernel("k", "sm_90", 4)),
            in_member("b", kernel("k", "sm_90", 3)),
            in_member("b", kernel("k", "sm_90", 7)),
            in_member("a", kernel("k", "sm_90", 2)),
        ]);
        let matching = match_kernels(&base, &head);
        let expected = [
            ("aa", 1, 2),
            ("bb", 2, 7),
            ("bb", 3, 3),
            ("cy", 4, 4),
            ("dx", 5, 6),
        ];
        let expected = expected.map(|(members, base, head)| (members.to_owned(), base, head));
        assert_eq!(pairs(&matching), expected);
        assert!(matching.removed.is_empty() && matching.added.is_empty());
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
            },
            Ptx {
                arch: "sm_100".parse().unwrap(),
                kernels: vec!["newer".to_owned()],
                member: None,
            },
        ];
        let names =
            |list: &[&Kernel]| -> Vec<String> { list.iter().map(|it| it.name.clone()).collect() };
        let matching = match_kernels(&base, &head);
        assert_eq!(names(&matching.to_ptx), ["k"]);
        assert_eq!(names(&matching.removed), ["gone", "newer"]);
        let back = match_kernels(&head, &base);
        assert_eq!(names(&back.from_ptx), ["k"]);
        assert_eq!(names(&back.added), ["gone", "newer"]);
    }
}
