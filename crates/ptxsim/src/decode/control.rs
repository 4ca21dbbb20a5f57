//! Decodes branches, calls, barriers and fences (PTX ISA 9.7.12, 9.7.13).

use super::memory_forms::scope;
use super::{Decoder, Load};
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;

impl Decoder<'_> {
    /// Decodes an instruction on control flow or order, by its first word.
    pub(super) fn control(&mut self, words: &[&str]) -> Load<()> {
        match words[0] {
            "bra" => {
                let Operand::Name(label) = self.operand(0)? else {
                    return self.invalid("expected a label to branch to");
                };
                self.branch_to(0, label, self.ptx.pos);
                self.emit(Op::Branch(0));
            }
            "brx" => {
                let index = self.source(0, Class::R32, Ty::U32)?;
                let Operand::Name(list) = self.operand(1)? else {
                    return self.invalid("brx.idx needs a list of labels");
                };
                let Some(labels) = self.branch_lists.get(list).cloned() else {
                    return self.invalid(format!("there is no .branchtargets `{list}`"));
                };
                for (n, label) in labels.iter().enumerate() {
                    self.branch_to(n, label, self.ptx.pos);
                }
                self.emit_with(
                    Op::BranchIndexed(vec![0; labels.len()].into()),
                    [0, index, 0, 0, 0, 0],
                );
            }
            "call" => self.call()?,
            "ret" if self.is_kernel => self.emit(Op::Exit),
            "ret" => self.emit(Op::Return),
            "exit" => self.emit(Op::Exit),
            "trap" | "brkpt" => self.emit(Op::Trap),
            "barrier" if words.get(1) == Some(&"cluster") => self.cluster_barrier(words)?,
            "bar" | "barrier" => self.barrier(words)?,
            "fence" if matches!(words[1..], ["mbarrier_init", "release", "cluster"]) => {
                self.emit(Op::InitFence);
            }
            // Execution here is sequentially consistent, so that a fence matters to the race checks alone.
            "membar" | "fence" if !words.contains(&"proxy") => {
                self.emit(Op::Fence(fence(words)));
            }
            // This orders the thread's accesses before those of bulk copies.
            "fence"
                if matches!(
                    words[1..],
                    ["proxy", "async"] | ["proxy", "async", "shared::cta" | "shared::cluster"]
                ) =>
            {
                self.emit(Op::ProxyFence);
            }
            "fence" => match words[1..] {
                [
                    "proxy",
                    "tensormap::generic",
                    way @ ("acquire" | "release"),
                    "cta" | "cluster" | "gpu" | "sys",
                ] => self.map_fence(way)?,
                // Order between copies and accesses in global memory is not checked.
                ["proxy", "async", "global"] => self.emit(Op::Nop),
                _ => return self.unsupported(""),
            },
            "nanosleep" => self.emit(Op::Sleep),
            "pmevent" => self.emit(Op::Nop),
            // A grid runs alone: there is no grid before it to wait for, and none behind it to let go (PTX ISA
            // 9.7.13.13).
            "griddepcontrol" if matches!(words, [_, "launch_dependents" | "wait"]) => {
                self.expect_operands(0..=0)?;
                self.emit(Op::Nop);
            }
            _ => return self.unsupported(""),
        }
        Ok(())
    }

    /// Notes a branch to a label, which is resolved at the end of the body.
    fn branch_to(&mut self, which: usize, label: &str, pos: Pos) {
        let scope = self.scopes.current.unwrap_or(0);
        self.pending
            .push((self.program.code.len(), which, scope, label.into(), pos));
    }

    /// Decodes `bar` and `barrier`, of the block and of a warp.
    fn barrier(&mut self, words: &[&str]) -> Load<()> {
        let rest: Vec<&str> = words[1..].iter().copied().filter(|w| *w != "cta").collect();
        // `bar` is `barrier.aligned`.
        let aligned = words[0] == "bar" || rest.contains(&"aligned");
        let kind: Vec<&str> = rest.into_iter().filter(|w| *w != "aligned").collect();
        if kind == ["warp", "sync"] {
            let members = self.source(0, Class::R32, Ty::B32)?;
            self.emit_with(Op::WarpSync, [0, members, 0, 0, 0, 0]);
            return Ok(());
        }
        let kind = match kind.as_slice() {
            ["sync"] => BarrierKind::Sync,
            ["arrive"] => BarrierKind::Arrive,
            ["red", "popc", "u32"] => BarrierKind::RedPopc,
            ["red", "and", "pred"] => BarrierKind::RedAnd,
            ["red", "or", "pred"] => BarrierKind::RedOr,
            _ => return self.unsupported(""),
        };
        let red = matches!(
            kind,
            BarrierKind::RedPopc | BarrierKind::RedAnd | BarrierKind::RedOr
        );
        let first = usize::from(red);
        let id = self.source(first, Class::R32, Ty::U32)?;
        let has_count = self.ptx.operands.len() == first + 2 + usize::from(red);
        let count = if has_count {
            self.source(first + 1, Class::R32, Ty::U32)?
        } else {
            self.constant32(0)
        };
        let (mut d, mut p) = (0, 0);
        if red {
            d = match kind {
                BarrierKind::RedPopc => self.result(0, Class::R32)?,
                _ => self.result(0, Class::Pred)?,
            };
            p = match self.ptx.operands.last() {
                Some(Operand::Name(n)) => self.predicate(n)?,
                _ => return self.unsupported("a negated predicate"),
            };
        }
        self.emit_with(Op::Barrier { kind, aligned }, [d, id, count, p, 0, 0]);
        Ok(())
    }
}

/// Returns the fence that the words name. `membar` is `fence.sc` (PTX ISA 9.7.13.4).
fn fence(words: &[&str]) -> Fence {
    let has = |word| words.contains(&word);
    Fence {
        scope: scope(words),
        acquire: !has("release"),
        release: !has("acquire"),
        sc: has("membar") || has("sc"),
    }
}
