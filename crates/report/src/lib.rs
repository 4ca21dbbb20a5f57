//! Lays out a judgement for people and programs. Decides nothing.

mod against_base;
mod annotations;
pub mod binary;
pub mod blame;
pub mod case;
mod causes;
pub mod diagnosis;
pub mod document;

pub mod exit;
pub mod explain;
#[cfg(any(test, feature = "fixture"))]
pub mod fields;
pub mod github;
pub mod history;
pub mod html;
mod input;
pub mod json;
pub mod junit;
mod kernels;
pub mod ladder;
pub mod markdown;
pub mod matching;
pub mod measured;

pub mod models;
mod not_judged;
mod notes;
mod page;
mod place;
mod printed;
mod problems;
pub mod profile;
mod rivals;
pub mod sarif;
pub mod section;
mod standing;
mod summary;
mod targets;
pub mod terminal;
mod unjudged;
mod values;

pub use input::ReportInput;

#[cfg(test)]
mod tests;
