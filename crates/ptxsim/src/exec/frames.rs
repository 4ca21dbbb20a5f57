//! Calls through addresses, and functions that are entered again before they have returned.

use super::access::address::Site;
use super::state::*;
use crate::isa::*;
use crate::num::little_endian;
use crate::program::*;
use crate::regs::lanes;
use crate::report::*;

/// Bytes of registers and local memory that a thread may have put aside.
pub const STACK: usize = 64 << 10;

/// State that one lane has put aside: a word for each register, and local bytes with what is known of them.
struct Saved {
    words: Vec<u64>,
    local: Vec<(u8, bool)>,
}

impl Saved {
    fn bytes(&self) -> usize {
        8 * self.words.len() + self.local.len()
    }

    /// The value of a 64-bit register, if it is one of the frame's.
    fn wide(&self, f: &Frame, register: u32) -> Option<u64> {
        let [p, r, (first, end)] = f.registers;
        if !(first..end).contains(&register) {
            return None;
        }
        let before = (p.1 - p.0) + (r.1 - r.0) + (register - first);
        self.words.get(before as usize).copied()
    }
}

/// For each lane of a warp, the state that functions entered again have put aside. Empty until one is.
#[derive(Default)]
pub struct SavedFrames(Vec<Vec<Saved>>);

impl Machine<'_> {
    /// Returns up to 8 bytes of a thread's local memory as a number.
    pub fn local_number(&self, b: &BlockState, thread: u32, at: u32, bytes: usize) -> u64 {
        let base = (thread * self.program.local_bytes) as usize;
        let held = b.local.argument(base + at as usize, bytes);
        held.map_or(0, little_endian)
    }

    pub fn save(
        &self,
        b: &mut BlockState,
        w: &mut Warp,
        frame: u32,
        mask: u32,
        pc: u32,
    ) -> Run<()> {
        let f = &self.program.frames[frame as usize];
        for l in lanes(mask) {
            let [p, r, d] = f.registers.map(|(from, to)| from as usize..to as usize);
            let mut words: Vec<u64> = w.regs.pred[p]
                .iter()
                .map(|x| u64::from(x >> l & 1))
                .collect();
            words.extend(w.regs.r32[r].iter().map(|x| u64::from(x.0[l])));
            words.extend(w.regs.r64[d].iter().map(|x| x.0[l]));
            let thread = w.first_thread() + l as u32;
            let local = self.places(f, thread);
            let local = local.map(|at| b.local.put_aside(at));
            let saved = Saved {
                words,
                local: local.collect(),
            };
            w.saved.0.resize_with(32, Vec::new);
            let stack = &mut w.saved.0[l];
            // The limit assumes functions of one size; for functions of different sizes it is near enough.
            if (stack.len() + 1) * saved.bytes().max(16) > STACK {
                let what = format!(
                    "recursion {} deep: more than {STACK} bytes of stack",
                    stack.len()
                );
                return Site::new(pc, l).refuse(FaultKind::Undefined, what);
            }
            stack.push(saved);
            self.enter(b, w, f.stack, l, pc)?;
        }
        Ok(())
    }

    /// Variables of the next activation lie above those of this one, and nothing has written them.
    fn enter(&self, b: &mut BlockState, w: &mut Warp, bytes: u32, l: usize, pc: u32) -> Run<()> {
        let Some(stack) = self.program.stack else {
            return Ok(());
        };
        let pointer = &mut w.regs.r64[stack.pointer as usize].0[l];
        *pointer += u64::from(bytes);
        let (first, end) = (*pointer, *pointer + u64::from(stack.largest));
        let thread = w.first_thread() + l as u32;
        if end > u64::from(self.program.local_bytes) {
            let what = format!(
                "recursion that needs more than {STACK_BYTES} bytes for its variables in local memory"
            );
            return Site::new(pc, l).refuse(FaultKind::Undefined, what);
        }
        let base = (thread * self.program.local_bytes) as usize;
        for at in first..end {
            b.local.forget(base + at as usize);
        }
        Ok(())
    }

    pub fn restore(
        &self,
        b: &mut BlockState,
        w: &mut Warp,
        frame: u32,
        (results, target): (&[CallResult], u32),
        mask: u32,
    ) {
        let f = &self.program.frames[frame as usize];
        for l in lanes(mask) {
            let Some(saved) = w.saved.0.get_mut(l).and_then(Vec::pop) else {
                continue;
            };
            let thread = w.first_thread() + l as u32;
            let base = (thread * self.program.local_bytes) as usize;
            let mut kept = Vec::new();
            for result in results {
                let from = match &result.from {
                    ResultPlace::At(from) => *from,
                    ResultPlace::OfFunction(table) => {
                        let called = saved.wide(f, target);
                        let called = called.unwrap_or(w.regs.r64[target as usize].0[l]);
                        match table.iter().find(|t| t.0 == called) {
                            Some((_, from)) => *from,
                            // The call has faulted.
                            None => continue,
                        }
                    }
                };
                for i in 0..result.bytes as usize {
                    let at = base + from as usize + i;
                    kept.push((base + result.to as usize + i, b.local.put_aside(at)));
                }
            }
            if let Some(stack) = self.program.stack {
                let pointer = &mut w.regs.r64[stack.pointer as usize].0[l];
                *pointer = pointer.saturating_sub(u64::from(f.stack));
            }
            let mut words = saved.words.into_iter();
            let [p, r, d] = f.registers.map(|(from, to)| from as usize..to as usize);
            for (x, v) in w.regs.pred[p].iter_mut().zip(&mut words) {
                *x = *x & !(1 << l) | (v as u32) << l;
            }
            for (x, v) in w.regs.r32[r].iter_mut().zip(&mut words) {
                x.0[l] = v as u32;
            }
            for (x, v) in w.regs.r64[d].iter_mut().zip(&mut words) {
                x.0[l] = v;
            }
            let back = self.places(f, thread).zip(saved.local);
            for (at, aside) in back.chain(kept) {
                b.local.put_back(at, aside);
            }
        }
    }

    /// Hands over the result of a call through an address: it lies where the called function has it.
    pub fn copy_result(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        (table, callee): (&[(u64, u32)], u32),
        (to, bytes): (u32, u32),
        s: Site,
    ) -> Run<()> {
        let from = self.targets(w, table, callee, s)?;
        for l in lanes(s.mask) {
            self.copy_local(b, w, (from[l], to, bytes), 1 << l);
        }
        Ok(())
    }

    /// Hands over arguments or a result of a call.
    pub fn copy_local(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        (from, to, bytes): (u32, u32, u32),
        mask: u32,
    ) {
        for l in lanes(mask) {
            let base = (w.first_thread() as usize + l) * self.program.local_bytes as usize;
            for i in 0..bytes as usize {
                b.local
                    .hand_over(base + from as usize + i, base + to as usize + i);
            }
        }
    }

    /// The places of a function's local variables in the local memory of the block.
    fn places<'f>(&self, f: &'f Frame, thread: u32) -> impl Iterator<Item = usize> + use<'f> {
        let base = (thread * self.program.local_bytes) as usize;
        f.locals
            .iter()
            .flat_map(move |&(at, bytes)| (0..bytes as usize).map(move |i| base + at as usize + i))
    }

    /// The targets that a table holds for each lane's address; a fault where it holds nothing.
    pub fn targets(
        &self,
        w: &Warp,
        table: &[(u64, u32)],
        register: u32,
        s: Site,
    ) -> Run<[u32; 32]> {
        let mut out = [0; 32];
        for l in lanes(s.mask) {
            let address = w.regs.r64[register as usize].0[l];
            let Some((_, to)) = table.iter().find(|t| t.0 == address) else {
                let what = format!(
                    "call to {address:#x}, where there is no function with these arguments"
                );
                return s.only(l).refuse_at(FaultKind::Undefined, address, what);
            };
            out[l] = *to;
        }
        Ok(out)
    }
}
