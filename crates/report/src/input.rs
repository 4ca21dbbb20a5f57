//! Everything that a report of a judgement is made of.

use crate::explain::KernelExplanations;
use judge::Index;
use model::{Judgement, Record};
use records::history::History;

#[derive(Clone, Copy)]
pub struct ReportInput<'a> {
    /// Indexes the record, and the one that it is compared with, if it is.
    pub index: &'a Index<'a>,
    pub record: &'a Record,
    pub judgement: &'a Judgement,
    /// In a comparison: the other record.
    pub base: Option<&'a Record>,
    /// The history of the committed baselines; `None` where there is no git history.
    pub history: Option<&'a History>,
    /// In a comparison of compiled files: why kernels changed, if it was asked for.
    pub kernels: Option<&'a KernelExplanations>,
}

impl<'a> ReportInput<'a> {
    /// A record alone.
    pub fn new(index: &'a Index<'a>, record: &'a Record, judgement: &'a Judgement) -> Self {
        Self {
            index,
            record,
            judgement,
            base: None,
            history: None,
            kernels: None,
        }
    }
}
