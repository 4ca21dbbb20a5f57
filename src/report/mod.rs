//! What a person or a program reads of a judgement. Decides nothing.

pub mod progress;
