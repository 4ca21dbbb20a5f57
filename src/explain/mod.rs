//! Why a case takes the time that it takes. Pure: of what records hold, no files and no device; no sentences, which
//! are in `report`.

pub mod diagnosis;
