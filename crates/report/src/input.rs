//! Everything that the report of a judgement is made from.

use crate::explain::KernelExplanations;
use judge::Index;
use model::{Judgement, Record};
use records::history::History;

#[derive(Clone, Copy)]
pub struct ReportInput<'a> {
    /// The index of the record, and of the record that it is compared with.
    pub index: &'a Index<'a>,
    pub record: &'a Record,
    pub judgement: &'a Judgement,
    /// The other record of a comparison.
    pub base: Option<&'a Record>,
    /// The history of the committed baselines, or `None` if there is no git history.
    pub history: Option<&'a History>,
    /// The reasons why kernels changed, if a comparison of compiled files was asked for them.
    pub kernels: Option<&'a KernelExplanations>,
}

impl<'a> ReportInput<'a> {
    /// Makes the input for a record that is compared with no other.
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
