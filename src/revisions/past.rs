//! Reads what was agreed before: the baselines of the revisions that gates name as anchors, and the best baselines of
//! all.

use model::{Anchor, Facet, Gate, Limit, Rule, Since};
use records::repo;
use records::store;
use records::store::PastState;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use system::error::{Diagnostic, Error, Result};

/// Returns one anchor for each anchor that the gates name, with the baselines of the kernels that are compared with it,
/// and the best level that they kept up.
///
/// # Errors
/// Usage, if there is no such revision. Environment, if git cannot read it.
pub fn anchors(root: &Path, gates: &[Gate]) -> Result<Vec<Anchor>> {
    let mut wanted: BTreeMap<&Since, (&Gate, BTreeSet<&str>)> = BTreeMap::new();
    for gate in gates {
        if let Rule::Limit {
            limit: Limit::Anchor { anchor, .. },
            ..
        } = &gate.rule
        {
            let (_, kernels) = wanted
                .entry(anchor)
                .or_insert_with(|| (gate, BTreeSet::new()));
            kernels.insert(gate.subject.kernel());
        }
    }
    let mut anchors = Vec::new();
    for (since, (gate, kernels)) in wanted {
        if let Since::Revision(revision) = since {
            anchors.push(anchor(root, revision, gate, &kernels)?);
        }
    }
    anchors.push(best(root, gates)?);
    Ok(anchors)
}

/// The most versions of a file of baselines that are examined.
const MOST: usize = 50;

/// Returns the best level of all times that the kernels of this run have, whether or not a gate asks for it.
fn best(root: &Path, gates: &[Gate]) -> Result<Anchor> {
    let kernels: BTreeSet<&str> = gates.iter().map(|gate| gate.subject.kernel()).collect();
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let times = format!("{}-", Facet::Times);
    let wanted = |path: &Path| name(path).is_some_and(|name| name.starts_with(&times));
    let mut baselines = Vec::new();
    let held = |gate: &Gate| match &gate.rule {
        Rule::Limit {
            limit: Limit::Anchor { anchor, .. },
            ..
        } => *anchor == Since::Best,
        _ => false,
    };
    let found = match store::past(root, &wanted, MOST) {
        // If no gate needs the anchor, its absence must not end the run.
        Err(_) if !gates.iter().any(held) => "git cannot read its history".to_owned(),
        Err(error) => return Err(error),
        Ok(None) => "no git history".to_owned(),
        Ok(Some(past)) => {
            let mut most = 0;
            for file in past.files {
                // A version that cannot be read any more is not compared with.
                let kept: Vec<_> = file
                    .versions
                    .into_iter()
                    .filter_map(|version| match version.state {
                        PastState::Whole(baseline) => Some(*baseline),
                        PastState::Unreadable(_) | PastState::Removed => None,
                    })
                    .filter(|baseline| kernels.contains(baseline.kernel.as_str()))
                    .collect();
                most = most.max(kept.len());
                baselines.extend(judge::best(&kept));
            }
            let shallow = if past.shallow {
                ", in a shallow clone"
            } else {
                ""
            };
            match most {
                1 => format!("1 version{shallow}"),
                most => format!("{most} versions{shallow}"),
            }
        }
    };
    Ok(Anchor {
        since: Since::Best,
        found,
        baselines,
        broken_baselines: Vec::new(),
    })
}

fn anchor(root: &Path, revision: &str, gate: &Gate, kernels: &BTreeSet<&str>) -> Result<Anchor> {
    let asked = format!("the anchor {revision}");
    let commit = repo::commit_of(root, revision, &asked).map_err(|error| match error {
        Error::Usage(diagnostic) => Error::Usage(Diagnostic {
            at: gate.declared.clone(),
            ..diagnostic
        }),
        error => error,
    })?;
    let files = repo::files(root, &commit, store::BASELINES)?;
    let (mut baselines, mut broken_baselines) = store::baselines_of(files);
    baselines.retain(|baseline| kernels.contains(baseline.kernel.as_str()));
    broken_baselines.retain(|broken| kernels.contains(broken.kernel.as_str()));
    Ok(Anchor {
        since: Since::Revision(revision.to_owned()),
        found: repo::short(&commit).to_owned(),
        baselines,
        broken_baselines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use judge::fixture;
    use model::Metric;
    use std::process::Command;

    fn git(dir: &Path, args: &[&str]) {
        let mut git = Command::new("git");
        git.arg("-C").arg(dir);
        git.args(["-c", "user.name=t", "-c", "user.email=t@t"]);
        assert!(
            git.args(args).output().unwrap().status.success(),
            "{args:?}"
        );
    }

    /// Writes a baseline. Each version has another code, because sessions of the same code would join.
    fn agree(dir: &Path, version: u32, ns: u64) {
        let mut record = fixture::record();
        fixture::rebuild(&mut record, "fast", |facts| {
            facts.identity = version.to_string();
        });
        fixture::slow(&mut record, &fixture::case_id("fast", "small"), ns);
        store::update_baselines(dir, &record, &|_| true, store::WorseValues::Accepted).unwrap();
        git(dir, &["add", "--all"]);
        git(dir, &["commit", "--quiet", "-m", "agreed"]);
    }

    fn p50(anchor: &Anchor) -> Option<f64> {
        let agreed = anchor
            .baselines
            .iter()
            .find(|baseline| baseline.variant == "fast")?
            .cases
            .get("small")?
            .get(&Metric::P50)?;
        Some(agreed.value.0)
    }

    #[test]
    fn the_best_level_is_read_from_every_version_in_git() {
        let dir = tempfile::tempdir().unwrap();
        let gates = fixture::gates();
        let found = |dir: &Path| anchors(dir, &gates).unwrap().remove(0);
        assert_eq!(found(dir.path()).found, "no git history");
        git(dir.path(), &["init", "--quiet"]);
        agree(dir.path(), 1, 80_000);
        let one = found(dir.path());
        assert_eq!((one.found.as_str(), p50(&one)), ("1 version", None));
        for (version, ns) in [(2, 60_000), (3, 75_000), (4, 74_000), (5, 79_000)] {
            agree(dir.path(), version, ns);
        }
        let all = found(dir.path());
        assert_eq!(
            (&all.since, all.found.as_str()),
            (&Since::Best, "5 versions")
        );
        let level = p50(&all).unwrap();
        assert!((level / 75_000.0 - 1.0).abs() < 0.002, "{level}");

        // History that cannot be read is not the same as no history: a gate that needs it would be skipped.
        let head = dir.path().join(".git/HEAD");
        let whole = std::fs::read(&head).unwrap();
        std::fs::write(&head, "0123456789012345678901234567890123456789").unwrap();
        assert_eq!(found(dir.path()).found, "git cannot read its history");
        let mut best = gates.clone();
        best.push(fixture::gate(
            fixture::case("fast", "small"),
            Rule::Limit {
                metric: Metric::P50,
                limit: Limit::Anchor {
                    anchor: Since::Best,
                    change: model::Margin::Share(model::Num(0.05)),
                },
            },
        ));
        assert!(anchors(dir.path(), &best).is_err());
        std::fs::write(&head, whole).unwrap();
        assert!(anchors(dir.path(), &best).is_ok());

        // A clone without history knows one version, and says so.
        let shallow = tempfile::tempdir().unwrap();
        let from = format!("file://{}", dir.path().display());
        git(
            shallow.path(),
            &["clone", "--quiet", "--depth", "1", &from, "."],
        );
        let one = found(shallow.path());
        assert_eq!(
            (one.found.as_str(), p50(&one)),
            ("1 version, in a shallow clone", None)
        );
    }
}
