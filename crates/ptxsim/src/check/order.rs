//! What a warp knows of other blocks: which of their accesses happened before its own.
//!
//! Between blocks the only edges are strong accesses to global memory (atomics, volatile, relaxed,
//! acquire, release). A writer hands on what it had fenced; whoever reads the place afterwards
//! takes that over. The fence on the reader's side is not asked for: programs often rely on the
//! barrier or the dependency there, and a message that is wrong costs more than one that is missing.

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
}

impl Inter {
    pub fn join(&mut self, other: &Inter) {
        self.known.join(&other.known);
        self.fenced.join(&other.fenced);
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
}
