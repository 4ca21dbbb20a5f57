//! Tells how the two accesses of a race follow one another, as far as the code shows it.
//!
//! Where a helper is called twice or a loop turns, accesses can race although a barrier stands between their lines: the
//! barrier that is missing belongs between the two calls or turns. Two accesses that nothing orders lie on a way
//! through the code without a barrier, unless they are in different branches. If each such way takes a jump back, one
//! of them belongs to a later turn of the loop. An unrolled loop has copies of its lines instead of that jump: the code
//! goes up to a line that has an earlier copy then, with a barrier behind that copy.
//!
//! Functions that are not inlined have no chain of calls, and only `bar` and `barrier.cluster.wait` count as barriers:
//! such a race is reported without a turn or call. Nothing here decides whether there is a race.

use crate::isa::{Control, Inst, Op};
use crate::program::Program;
use model::{FindingKind, Follows};

/// Returns which of the two accesses is the later one, and how it follows the other.
pub fn follows(
    program: &Program,
    kind: FindingKind,
    (other, this): (u32, u32),
) -> Option<(u32, Follows)> {
    let within_warp = match kind {
        FindingKind::SharedRace | FindingKind::GlobalRace => false,
        FindingKind::WarpRace | FindingKind::WarpHazard => true,
        _ => return None,
    };
    let code = Code {
        program,
        within_warp,
    };
    if other == this {
        return None;
    }
    let both = [(other, this), (this, other)];
    if let Some((first, later)) = both
        .into_iter()
        .find(|&(first, later)| code.leads_without_barrier(first, later, false))
    {
        let [lines, of_later] = [first, later].map(|at| code.lines(at));
        let apart = lines
            .iter()
            .zip(&of_later)
            .position(|(one, other)| one != other)?;
        let ((file, line), (file_of_later, line_of_later)) =
            (lines.get(apart)?, of_later.get(apart)?);
        let goes_up = file == file_of_later && line > line_of_later;
        if goes_up && code.is_unrolled(first, later) {
            return Some((later, Follows::NextTurn));
        }
        // The innermost of the lines is that of the access, and no call.
        let are_calls = apart + 1 < lines.len().min(of_later.len());
        return are_calls.then_some((later, Follows::NextCall));
    }
    both.into_iter()
        .find(|&(first, later)| code.leads_without_barrier(first, later, true))
        .map(|(_, later)| (later, Follows::NextTurn))
}

struct Code<'a> {
    program: &'a Program,
    /// True if `__syncwarp()` orders the accesses too.
    within_warp: bool,
}

impl Code<'_> {
    fn inst(&self, at: u32) -> Option<&Inst> {
        self.program.code.get(at as usize)
    }

    /// Returns the files and lines of the user's own that an instruction came through, the outermost call first.
    fn lines(&self, at: u32) -> Vec<(u32, u32)> {
        self.inst(at)
            .and_then(|inst| self.program.sources.get(inst.source as usize))
            .map(|source| self.program.lines.own_lines(source.loc))
            .unwrap_or_default()
            .into_iter()
            .rev()
            .map(|at| (at.file, at.line))
            .collect()
    }

    fn is_barrier(&self, inst: &Inst) -> bool {
        let orders = match inst.op {
            Op::Barrier { .. } | Op::ClusterWait { .. } => true,
            Op::WarpSync => self.within_warp,
            _ => false,
        };
        orders && inst.guard == 0
    }

    fn leads_without_barrier(&self, from: u32, to: u32, back: bool) -> bool {
        self.leads(
            from,
            to,
            |inst| self.is_barrier(inst),
            |from, to| back || !self.is_jump_back(from, to),
        )
    }

    /// Returns true if the code before `first` has another copy of the access `later`, and a barrier between them.
    fn is_unrolled(&self, first: u32, later: u32) -> bool {
        let look = |at: u32| {
            let inst = self.inst(at)?;
            let source = self.program.sources.get(inst.source as usize)?;
            Some((source.loc, inst.op.access_kind()))
        };
        let copy = (0..first).rev().find(|at| look(*at) == look(later));
        copy.is_some_and(|copy| !self.leads_without_barrier(copy, first, false))
    }

    /// Returns true if a jump closes a loop. A block that the compiler put behind the loop jumps back and closes none.
    fn is_jump_back(&self, from: u32, to: u32) -> bool {
        to == from || to < from && self.leads(to, from, |_| false, |from, to| to > from)
    }

    /// Returns true if the code leads from one instruction to another over edges that `takes` allows, and no instruction
    /// between them `stops` it.
    fn leads(
        &self,
        from: u32,
        to: u32,
        stops: impl Fn(&Inst) -> bool,
        takes: impl Fn(u32, u32) -> bool,
    ) -> bool {
        let mut seen = vec![false; self.program.code.len()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for next in self.next(at) {
                if !takes(at, next) {
                    continue;
                }
                if next == to {
                    return true;
                }
                if let (Some(inst), Some(seen)) = (self.inst(next), seen.get_mut(next as usize))
                    && !std::mem::replace(seen, true)
                    && !stops(inst)
                {
                    open.push(next);
                }
            }
        }
        false
    }

    /// Returns the instructions that may be executed after this one.
    fn next(&self, at: u32) -> Vec<u32> {
        let Some(inst) = self.inst(at) else {
            return Vec::new();
        };
        let control = inst.op.facts().control;
        let mut next = control.branches().to_vec();
        if matches!(control, Control::Next | Control::Call(_)) || inst.guard != 0 {
            next.push(at + 1);
        }
        next
    }
}
