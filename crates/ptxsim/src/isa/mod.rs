//! The instructions (`op`), the registers that each reads and writes (`operands`), and one row of facts for each (`table`).
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
//! 4. what it does, in `exec::warp` and the module that it belongs to; memory that it accesses it describes to `exec::access`;
//! 5. its forms, in `decode`, and a case of each in `tests/launches/cases`.

mod circumstance;
mod kind;
pub mod mma;
mod op;
mod operands;
mod table;
pub mod wgmma;

pub use circumstance::Circumstance;
pub use kind::Kind;
pub use op::*;
pub use operands::{Register, Use};
pub use table::{Control, Direction, Facts, Meeting, MemoryAccess, Object, Proxy, Values};

#[cfg(test)]
mod tests {
    use crate::Module;
    use model::AccessKind;

    /// The PTX of an instruction, what a finding says that it does to memory, whether it does that asynchronously, and
    /// whether it only reads.
    const ROWS: [(&str, AccessKind, bool, bool); 14] = [
        (
            "ld.volatile.shared.u32 %r1, [%r2];",
            AccessKind::Read,
            false,
            true,
        ),
        (
            "st.global.u32 [%rd1], %r1;",
            AccessKind::Write,
            false,
            false,
        ),
        (
            "atom.shared.add.u32 %r1, [%r2], 1;",
            AccessKind::Update,
            false,
            false,
        ),
        (
            "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2}];",
            AccessKind::Read,
            false,
            true,
        ),
        (
            "suld.b.2d.b32.trap %r1, [%rd1, {%r1, %r2}];",
            AccessKind::Read,
            false,
            true,
        ),
        (
            "sust.b.2d.b32.trap [%rd1, {%r1, %r2}], %r3;",
            AccessKind::Write,
            false,
            false,
        ),
        (
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];",
            AccessKind::Read,
            false,
            false,
        ),
        (
            "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r1};",
            AccessKind::Write,
            false,
            false,
        ),
        (
            "cp.async.ca.shared.global [%r2], [%rd1], 16;",
            AccessKind::Copy,
            true,
            false,
        ),
        (
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
            AccessKind::Copy,
            true,
            false,
        ),
        (
            "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;",
            AccessKind::Copy,
            true,
            false,
        ),
        (
            "mbarrier.inval.shared.b64 [%r2];",
            AccessKind::Other,
            false,
            false,
        ),
        ("bar.sync 0;", AccessKind::Other, false, false),
        (
            "shfl.sync.idx.b32 %r1, %r2, %r3, 31, -1;",
            AccessKind::Other,
            false,
            false,
        ),
    ];

    #[test]
    fn rows_say_what_instructions_do_to_memory() {
        for (ptx, kind, later, only_reads) in ROWS {
            let text = format!(
                ".version 8.4\n.target sm_90\n.address_size 64\n.entry k()\n{{ .reg .b32 %r<4>; .reg .f32 %f<5>; .reg .b64 %rd<2>;\n{ptx}\nret; }}"
            );
            let module = Module::load(&text).unwrap();
            let kernel = module.kernel("k").unwrap();
            let [.., inst, _, _] = &kernel.program.code[..] else {
                panic!("{ptx}");
            };
            let facts = inst.op.facts();
            let asynchronous = facts.memory().any(|access| access.is_asynchronous());
            assert_eq!(inst.op.access_kind(), kind, "{ptx}");
            assert_eq!(
                (asynchronous, facts.only_reads()),
                (later, only_reads),
                "{ptx}"
            );
        }
    }
}
