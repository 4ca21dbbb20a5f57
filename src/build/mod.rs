//! From source to machine code and what the compiler says of it.
pub mod ptxas;
