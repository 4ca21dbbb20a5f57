//! The table of observers and kinds of access, `tests/observers.tsv`. `tests/observers` proves what it says.

#![allow(dead_code)]

const TABLE: &str = include_str!("../observers.tsv");

/// The test that fails if an observer does not see accesses of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence<'a> {
    /// A case, by its file and name.
    Case(&'a str, &'a str),
    /// A test of this program, by its module and name.
    Test(&'a str, &'a str),
    /// The observer has nothing to notice, for this reason.
    Never(&'a str),
    /// No test fails for it yet.
    Open,
}

#[derive(Debug)]
pub struct Row<'a> {
    pub observer: &'a str,
    pub kind: &'a str,
    pub evidence: Evidence<'a>,
}

/// Reads `observer kind case file name`, `observer kind test module name` `observer kind never reason` or `observer kind open`,
/// parted by tabs.
pub fn rows() -> Vec<Row<'static>> {
    TABLE
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let (observer, kind, evidence) = match *fields {
                [observer, kind, "case", file, case] => {
                    (observer, kind, Evidence::Case(file, case))
                }
                [observer, kind, "test", module, test] => {
                    (observer, kind, Evidence::Test(module, test))
                }
                [observer, kind, "never", why] => (observer, kind, Evidence::Never(why)),
                [observer, kind, "open"] => (observer, kind, Evidence::Open),
                _ => panic!("observers.tsv: {line}"),
            };
            Row {
                observer,
                kind,
                evidence,
            }
        })
        .collect()
}

#[test]
fn every_test_of_the_table_of_observers_exists() {
    let mut cases = std::collections::BTreeSet::new();
    crate::cases::each_case(|case| {
        cases.insert((case.file.to_owned(), case.name.to_owned()));
    });
    let missing: Vec<_> = rows()
        .into_iter()
        .filter(|row| match row.evidence {
            Evidence::Case(file, case) => !cases.contains(&(file.to_owned(), case.to_owned())),
            Evidence::Test(module, test) => {
                let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
                let file = root.join(format!("tests/launches/{module}.rs"));
                let text = std::fs::read_to_string(file).unwrap_or_default();
                !text.contains(&format!("#[test]\nfn {test}("))
            }
            Evidence::Never(why) => why.is_empty(),
            Evidence::Open => false,
        })
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
