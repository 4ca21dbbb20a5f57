//! Groups the findings of a case by cause. Findings that share a source line have one cause. Within such a group the
//! likeliest cause comes first: a missing order between threads explains a value that was read before it was written,
//! and not the other way round.

use crate::index::View;
use crate::rules::findings::{FindingStanding, SeenFinding};
use model::*;

/// A group of findings that share source lines. The first explains the others.
pub struct Suspect<'a> {
    pub seed: u64,
    pub findings: Vec<&'a Finding>,
}

impl Suspect<'_> {
    /// Returns true if this cause can make an output wrong.
    pub fn can_change_values(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.kind != FindingKind::Leak)
    }

    /// Returns true if a cause of another case is the same one: the same kind of finding at the same lines.
    pub fn is_same(&self, cause: &ProblemCause) -> bool {
        let ProblemCause::Findings { findings, .. } = cause else {
            return false;
        };
        match (self.findings.first(), findings.first()) {
            (Some(own), Some(other)) => own.kind == other.kind && lines(own).eq(lines(other)),
            _ => false,
        }
    }
}

/// Groups the findings that break the gate of a case, the likeliest cause first.
///
/// Each finding joins the first group that has a finding on one of its lines. So two groups are never merged later,
/// even if a finding shares lines with both.
pub fn suspects<'a>(view: View<'_, 'a>, id: &CaseId) -> Vec<Suspect<'a>> {
    let mut all = view.findings(id);
    all.retain(|finding| finding.standing == FindingStanding::Broken);
    // The sort is stable. Within a kind, findings stay in the order of the record, with the most frequent first.
    all.sort_by_key(|suspect_finding| depth(suspect_finding.finding.kind));
    let mut suspects: Vec<Suspect> = Vec::new();
    for SeenFinding { seed, finding, .. } in all {
        let mut known = suspects.iter_mut();
        let shares_a_line = |suspect: &&mut Suspect| {
            suspect
                .findings
                .iter()
                .any(|known| share_a_line(known, finding))
        };
        match known.find(shares_a_line) {
            Some(suspect) => suspect.findings.push(finding),
            None => suspects.push(Suspect {
                seed,
                findings: vec![finding],
            }),
        }
    }
    suspects
}

/// Ranks kinds of findings: a kind with a lower number explains those with a higher one.
fn depth(kind: FindingKind) -> u8 {
    match kind {
        FindingKind::AsyncBeforeWait | FindingKind::ExitedBlock => 0,
        FindingKind::SharedRace | FindingKind::GlobalRace => 1,
        FindingKind::BarrierByPart | FindingKind::InvalidMembers | FindingKind::WrongLayout => 2,
        FindingKind::WarpRace | FindingKind::WarpHazard => 3,
        FindingKind::Uninitialised => 4,
        FindingKind::MachineDependence => 5,
        FindingKind::InvalidFree | FindingKind::Leak => 6,
    }
}

/// Returns the file and line number of each place, or the place in words and 0 if the compiler named no line.
fn lines(finding: &Finding) -> impl Iterator<Item = (&str, u32)> {
    finding.places.iter().map(|place| match &place.line {
        Some(line) => (line.file.as_str(), line.number),
        None => (place.at.as_str(), 0),
    })
}

fn share_a_line(one: &Finding, other: &Finding) -> bool {
    lines(one).any(|line| lines(other).any(|other_line| other_line == line))
}
