//! What both simulators say of findings, faults and looks, in one shape.
//!
//! The new one has findings of `model`: values that nothing wrote are one kind, places have their calls, and accesses their
//! blocks and how they follow one another. A misaligned access names what it is of. The rest is compared as it is.

use std::cmp::Reverse;
use std::fmt::Debug;
use wording::findings::sentence;

#[derive(Debug)]
pub struct Place {
    _at: String,
    _line: Option<(String, u32)>,
}

#[derive(Debug)]
pub struct Finding {
    kind: String,
    message: String,
    _places: Vec<Place>,
    _accesses: Vec<String>,
    _where: ([u32; 3], [u32; 3], Option<u64>),
    times: u64,
}

#[derive(Debug)]
pub struct Report<'a> {
    _findings: Vec<Finding>,
    _rest: Vec<&'a dyn Debug>,
}

#[derive(Debug)]
pub struct Fault {
    _kind: String,
    _message: String,
    _place: Place,
    _where: ([u32; 3], [u32; 3], Option<u64>),
}

/// Returns the findings in an order that does not depend on how many kinds there are.
fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_cached_key(|finding| {
        let Finding {
            kind,
            message,
            times,
            ..
        } = finding;
        (kind.clone(), Reverse(*times), message.clone())
    });
    findings
}

/// Names a kind as `model` does.
fn kind(kind: impl Debug) -> String {
    let name = format!("{kind:?}");
    if name.starts_with("Uninitialised") {
        "Uninitialised".to_owned()
    } else {
        name
    }
}

/// Returns the text of a fault, of a misaligned access only where it happened.
fn message(kind: impl Debug, text: &str) -> String {
    match text.rsplit_once(" at ") {
        Some((_, place)) if format!("{kind:?}") == "Misaligned" => place.to_owned(),
        _ => text.to_owned(),
    }
}

/// Both simulators name their fields alike.
macro_rules! shapes {
    ($simulator:ident, $place:ident, $sentence:ident, $report:ident, $fault:ident, $result:ident $(, $new:ident)*) => {
        pub fn $report(report: &$simulator::Report) -> Report<'_> {
            let $simulator::Report {
                findings,
                counters,
                not_judged,
                withheld,
                printed,
                reached,
                $($new: _,)*
            } = report;
            let findings = findings.iter().map(|finding| Finding {
                kind: kind(finding.kind),
                message: $sentence(finding),
                _places: finding.places.iter().map($place).collect(),
                _accesses: finding
                    .accesses
                    .iter()
                    .map(|access| format!("{:?} {:?}", access.kind, access.thread))
                    .collect(),
                _where: (finding.block, finding.thread, finding.address),
                times: finding.times,
            });
            Report {
                _findings: sorted(findings.collect()),
                _rest: vec![counters, not_judged, withheld, printed, reached],
            }
        }

        pub fn $fault(fault: &$simulator::Fault) -> Fault {
            let $simulator::Fault {
                kind,
                message: text,
                place,
                block,
                thread,
                address,
            } = fault;
            Fault {
                _kind: format!("{kind:?}"),
                _message: message(kind, text),
                _place: $place(place),
                _where: (*block, *thread, *address),
            }
        }

        pub fn $result(
            result: &Result<$simulator::Report, $simulator::Fault>,
        ) -> Result<Report<'_>, Fault> {
            match result {
                Ok(report) => Ok($report(report)),
                Err(fault) => Err($fault(fault)),
            }
        }
    };
}

shapes!(ptxsim, place, sentence, report, fault, result, arose);
shapes!(ptxsim_oracle, old_place, old_sentence, old_report, old_fault, old_result);

fn old_sentence(finding: &ptxsim_oracle::Finding) -> String {
    finding.message.clone()
}

pub fn place(place: &ptxsim::Place) -> Place {
    let ptxsim::Place { at, line, calls: _ } = place;
    Place {
        _at: at.clone(),
        _line: line.as_ref().map(|line| (line.file.clone(), line.number)),
    }
}

pub fn old_place(place: &ptxsim_oracle::Place) -> Place {
    let ptxsim_oracle::Place { at, line } = place;
    Place {
        _at: at.clone(),
        _line: line.clone(),
    }
}
