pub mod progress; pub mod terminal; pub mod json; pub mod markdown; pub mod junit; pub mod number;
