//! What a person or a program reads of a judgement. Decides nothing.

mod annotations;
mod beside;
pub mod case;
mod causes;
#[cfg(test)]
mod codes;
pub mod dashboards;
pub mod diagnosis;
pub mod doctor;
pub mod escape;
pub mod explain;
mod figures;
pub mod github;
pub mod history;
pub mod html;
pub mod json;
pub mod junit;
pub mod ladder;
pub mod markdown;
pub mod micro;
pub mod models;
mod names;
mod notes;
pub mod nvbench;
mod page;
mod printed;
mod problems;
pub mod profile;
pub mod progress;
pub mod reasons;
mod rivals;
pub mod sarif;
mod signature;
mod standing;
mod summary;
mod targets;
pub mod terminal;
pub mod tune;
pub mod words;

#[cfg(test)]
mod tests;
