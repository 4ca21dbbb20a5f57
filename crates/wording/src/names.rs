//! Names many subjects in few words: by name if there are few, and else counted by variant or by kernel.

use super::words::plural;
use model::{Plan, Subject};
use std::collections::{BTreeMap, BTreeSet};

/// At the head of a line, more subjects than this are counted.
const MOST_NAMES: usize = 3;

/// Returns the names of subjects, `k/direct@small, k/fast@small`, or what `in_words` returns if there are many.
pub fn named(plan: &Plan, subjects: &[&Subject]) -> String {
    if subjects.len() > MOST_NAMES {
        return in_words(plan, &subjects.iter().copied().collect());
    }
    let names: Vec<_> = subjects.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// Returns subjects with their number, `3 cases (k/direct@small, 2 of k/fast)`: single ones by name, and several of a
/// variant by their number. Returns `all 3 cases` and `3 cases (all of k)` if the run has no others.
pub fn in_words(plan: &Plan, subjects: &BTreeSet<&Subject>) -> String {
    let cases = subjects
        .iter()
        .filter(|subject| matches!(subject, Subject::Case(_)))
        .count();
    let (what, cases) = match cases {
        0 => ("unit", false),
        all if all == subjects.len() => ("case", true),
        _ => ("subject", true),
    };
    let count = plural(subjects.len(), what);
    let planned: BTreeSet<Subject> = if cases {
        plan.cases
            .iter()
            .map(|case| Subject::Case(case.id.clone()))
            .collect()
    } else {
        plan.units
            .iter()
            .map(|unit| Subject::Unit(unit.id.clone()))
            .collect()
    };
    let is_whole = |of: &dyn Fn(&Subject) -> bool| {
        let mut all = planned.iter().filter(|subject| of(subject)).peekable();
        all.peek().is_some() && all.all(|subject| subjects.contains(subject))
    };
    let known = subjects.iter().all(|subject| planned.contains(*subject));
    if subjects.len() > 1 && known && is_whole(&|_| true) {
        return format!("all {count}");
    }

    let mut kernels: BTreeMap<&str, BTreeMap<&str, Vec<&Subject>>> = BTreeMap::new();
    for subject in subjects {
        let variants = kernels.entry(subject.kernel()).or_default();
        variants.entry(subject.variant()).or_default().push(subject);
    }
    let mut names = Vec::new();
    for (kernel, variants) in kernels {
        let several = variants.values().map(Vec::len).sum::<usize>() > 1;
        if several && is_whole(&|subject| subject.kernel() == kernel) {
            names.push(format!("all of {kernel}"));
            continue;
        }
        names.extend(
            variants
                .into_iter()
                .map(|(variant, subjects)| match subjects.as_slice() {
                    [one] => one.to_string(),
                    several => format!("{} of {kernel}/{variant}", several.len()),
                }),
        );
    }
    format!("{count} ({})", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CaseId;

    fn plan() -> Plan {
        let mut plan = judge::fixture::record().plan;
        let one = plan.cases[0].clone();
        plan.cases = [
            "a/x@s", "a/x@t", "a/y@s", "a/y@t", "b/x@s", "b/x@t", "c/x@s",
        ]
        .into_iter()
        .map(|name| {
            let mut case = one.clone();
            case.id = id(name);
            case
        })
        .collect();
        plan
    }

    fn id(name: &str) -> CaseId {
        let parts: Vec<_> = name.split(['/', '@']).map(str::to_owned).collect();
        let [kernel, variant, shape] = parts.try_into().unwrap();
        CaseId {
            kernel,
            variant,
            shape,
        }
    }

    fn words(names: &str) -> String {
        let subjects: Vec<_> = names
            .split_whitespace()
            .map(|name| Subject::Case(id(name)))
            .collect();
        in_words(&plan(), &subjects.iter().collect())
    }

    #[test]
    fn few_words_leave_none_out() {
        for (names, says) in [
            ("a/x@s", "1 case (a/x@s)"),
            ("a/x@s a/x@t", "2 cases (2 of a/x)"),
            ("a/x@s a/y@t b/x@s", "3 cases (a/x@s, a/y@t, b/x@s)"),
            ("b/x@s b/x@t c/x@s", "3 cases (all of b, c/x@s)"),
            ("a/x@s a/x@t a/y@s a/y@t", "4 cases (all of a)"),
            ("a/x@s a/x@t a/y@s a/y@t b/x@s b/x@t c/x@s", "all 7 cases"),
            // The plan does not have the subject: it belongs to the base of a comparison.
            (
                "a/x@s a/x@t a/y@s a/y@t b/x@s b/x@t c/x@s d/x@s",
                "8 cases (all of a, all of b, c/x@s, d/x@s)",
            ),
        ] {
            assert_eq!(words(names), says, "{names}");
        }
    }

    #[test]
    fn names_units_and_cases_together() {
        let record = judge::fixture::record();
        let mut subjects: Vec<_> = record
            .plan
            .units
            .iter()
            .map(|unit| Subject::Unit(unit.id.clone()))
            .collect();
        let words = |subjects: &[Subject]| in_words(&record.plan, &subjects.iter().collect());
        assert_eq!(words(&subjects), "all 2 units");
        subjects.extend(
            record
                .plan
                .cases
                .iter()
                .take(1)
                .map(|case| Subject::Case(case.id.clone())),
        );
        assert_eq!(
            words(&subjects),
            "3 subjects (2 of k/direct, k/fast [sm_90])"
        );
    }
}
