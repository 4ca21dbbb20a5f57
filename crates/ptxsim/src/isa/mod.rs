//! What each instruction is: the registers that it reads and writes (`operands`), and one row of facts (`table`).
//!
//! An instruction says each of these once: what it counts as, which instruction comes next, which threads execute it
//! together, what becomes of its values, the places in memory that it accesses (space, direction, order and scope, and
//! when), whether it orders other accesses, and which circumstance it sees. Control flow, divergence, strides, doubts,
//! circumstances, the choice of blocks that run side by side and the checks ask the row. They name an [`Op`] only where
//! they need what is in it. Both matches name every variant, so that a new one does not compile without its row.
//!
//! To add an instruction:
//! 1. its variant of [`Op`], with the operands that are no registers of `Inst::o`;
//! 2. its registers in `operands`, each with its role;
//! 3. its row in `table`;
//! 4. what it does, in `exec::warp` and the module that it belongs to;
//! 5. its forms, in `decode`, and a case of each in `tests/launches/cases`.

mod circumstance;
mod kind;
mod operands;
mod table;

pub use circumstance::Circumstance;
pub use kind::Kind;
pub use operands::{Register, Use};
pub use table::{Control, Direction, Facts, Meeting, MemoryAccess, Object, Timing, Values};
