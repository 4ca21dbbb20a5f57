//! What a warp knows of other blocks: which of their accesses happened before its own.
//!
//! Between blocks the only edges are strong accesses to global memory (atomics, volatile, relaxed,
//! acquire, release). A writer hands on what it had fenced, and whoever reads the place afterwards sees
//! it. It takes that over, and is ordered behind it, where the read is an acquire or as soon as it
//! fences (PTX ISA 8.9.2, release and acquire patterns). Before that its own accesses are not ordered.
//! Where only a barrier of the block follows on the read, as in many programs that work, whether the
//! block may count on it is left open.

use std::rc::Rc;

/// Warp of the launch (block times warps of a block, plus warp) and epoch, sorted by warp.
#[derive(Clone, Default)]
pub struct Sparse(Option<Rc<Vec<(u64, u32)>>>);

impl Sparse {
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn of(entries: Vec<(u64, u32)>) -> Sparse {
        Sparse((!entries.is_empty()).then(|| Rc::new(entries)))
    }

    /// 0: nothing is known of that warp.
    pub fn epoch_of(&self, warp: u64) -> u32 {
        let Some(all) = &self.0 else { return 0 };
        match all.binary_search_by_key(&warp, |e| e.0) {
            Ok(at) => all[at].1,
            Err(_) => 0,
        }
    }

    pub fn join(&mut self, other: &Sparse) {
        let Some(theirs) = &other.0 else { return };
        let Some(mine) = &mut self.0 else {
            self.0 = Some(theirs.clone());
            return;
        };
        if Rc::ptr_eq(mine, theirs) {
            return;
        }
        // A ticket counter that blocks draw from one after the other only ever grows at its end.
        if let (Some(last), Some(first)) = (mine.last(), theirs.first())
            && last.0 < first.0
            && let Some(mine) = Rc::get_mut(mine)
        {
            mine.extend_from_slice(theirs);
            return;
        }
        let mut all = Vec::with_capacity(mine.len().max(theirs.len()));
        let (mut a, mut b) = (mine.iter().peekable(), theirs.iter().peekable());
        loop {
            all.push(match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 == y.0 => {
                    let both = (x.0, x.1.max(y.1));
                    a.next();
                    b.next();
                    both
                }
                (Some(x), Some(y)) if x.0 > y.0 => {
                    let y = **y;
                    b.next();
                    y
                }
                (Some(x), _) => {
                    let x = **x;
                    a.next();
                    x
                }
                (None, Some(y)) => {
                    let y = **y;
                    b.next();
                    y
                }
                (None, None) => break,
            });
        }
        self.0 = Some(Rc::new(all));
    }
}

/// A warp's knowledge of other blocks, and what its fences have made ready to hand on.
#[derive(Clone, Default)]
pub struct Inter {
    pub known: Sparse,
    pub fenced: Sparse,
    /// Handed on to it, by a read that was no acquire, and no fence since.
    pub seen: Sparse,
    /// The same of other warps, and its own before it met them.
    pub told: Sparse,
    /// The last instruction that read so.
    pub flag: u32,
}

impl Inter {
    /// Takes over what another warp of the block hands on.
    pub fn join(&mut self, other: &Inter) {
        self.known.join(&other.known);
        self.fenced.join(&other.fenced);
        if !(other.seen.is_empty() && other.told.is_empty()) {
            self.told.join(&other.seen);
            self.told.join(&other.told);
            self.flag = other.flag;
        }
    }

    /// Reads what `handed` says at an instruction.
    pub fn see(&mut self, handed: &Sparse, acquire: bool, instruction: u32) {
        if acquire {
            self.known.join(handed);
        } else {
            self.seen.join(handed);
            self.flag = instruction;
        }
    }

    /// Lanes of the warp meet, or it meets others.
    pub fn meet(&mut self) {
        if !self.seen.is_empty() {
            let seen = std::mem::take(&mut self.seen);
            self.told.join(&seen);
        }
    }

    /// What was seen is known: also where others of the block saw it, which is more than the ISA says.
    pub fn acquire(&mut self) {
        for seen in [&mut self.seen, &mut self.told] {
            self.known.join(&std::mem::take(seen));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_keep_the_later_epoch_of_each_warp() {
        let mut a = Sparse::of(vec![(1, 5), (4, 2)]);
        let b = Sparse::of(vec![(1, 3), (2, 7), (4, 9), (8, 1)]);
        let keep = a.clone();
        a.join(&b);
        let epochs = [1, 2, 3, 4, 8].map(|w| a.epoch_of(w));
        assert_eq!(epochs, [5, 7, 0, 9, 1]);
        assert_eq!(keep.epoch_of(4), 2, "what was handed on before stays");
        let mut c = Sparse::of(vec![(1, 1)]);
        c.join(&Sparse::of(vec![(2, 2)]));
        assert_eq!((c.epoch_of(1), c.epoch_of(2)), (1, 2));
        c.join(&Sparse::default());
        assert!(!c.is_empty() && Sparse::of(Vec::new()).is_empty());
    }

    #[test]
    fn what_is_seen_is_known_after_a_fence() {
        let handed = Sparse::of(vec![(3, 7)]);
        let mut w = Inter::default();
        w.see(&handed, false, 9);
        assert_eq!((w.known.epoch_of(3), w.seen.epoch_of(3), w.flag), (0, 7, 9));
        let mut other = Inter::default();
        other.join(&w);
        assert_eq!((other.seen.epoch_of(3), other.told.epoch_of(3)), (0, 7));
        w.meet();
        assert_eq!((w.seen.epoch_of(3), w.told.epoch_of(3)), (0, 7));
        w.acquire();
        assert_eq!((w.known.epoch_of(3), w.told.is_empty()), (7, true));
        let mut acquired = Inter::default();
        acquired.see(&handed, true, 9);
        assert_eq!(
            (acquired.known.epoch_of(3), acquired.seen.is_empty()),
            (7, true)
        );
    }
}
