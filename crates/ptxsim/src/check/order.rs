//! A warp's knowledge of other blocks: which of their accesses happened before its own, by the base causality order of
//! the PTX ISA (8.9.5).
//!
//! Between blocks the only edges begin at a strong write of global memory that a strong read (of another block) reads.
//! Two kinds of patterns make an edge of it (8.8, 8.9.4):
//! - *Release and acquire.* The thread that writes has fenced before, or the write is a release; the thread that reads
//!   fences behind it, or the read is an acquire. A fence of another thread is not enough, on either side, not even
//!   with a barrier between.
//! - *Two fence.sc*, which `membar` is too. They are in Fence-SC order, whichever threads execute them. If the one
//!   comes before the write, by barriers too, and the other behind the read, it is this order: the other way round, the
//!   read would come before the write that it reads.
//!
//! Whatever comes before the first fence in causality order is handed on, that of other threads as well: a barrier and
//! then a fence of one thread is enough for all of the block.
//!
//! A warp's knowledge is a vector clock: for each warp of the launch the last epoch whose accesses happened before. A launch
//! may have very many warps, and most know of few others, so a clock has entries only for warps of which something is
//! known ([`Sparse`]), and clocks that are equal share their entries.
//!
//! A clock moves through these stages, so that an edge exists only once both sides have done their part. A fence or a
//! release takes what the writer knows into [`Handed`], and a strong write leaves that at its place. A strong read
//! takes it into `seen`, or into `known` if it is an acquire. A fence of the reader moves `seen` to `known`. What
//! barriers of a block join on the way without a fence of the right thread goes to `by_writer` or `by_reader` instead:
//! whether programs may count on such an order, as programs that work do, is left open ([`FlagSide`]). An access that
//! is ordered by these alone is neither a race nor in order, and the report says that it was not judged.

use crate::isa::Fence;
use std::rc::Rc;

/// A vector clock with an entry for each warp of which something is known: the number of the warp in the launch (block
/// times warps of a block, plus warp) and its epoch, sorted by warp.
#[derive(Clone, Default)]
pub struct Sparse(Option<Rc<Vec<(u64, u32)>>>);

impl Sparse {
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn new(entries: Vec<(u64, u32)>) -> Sparse {
        Sparse((!entries.is_empty()).then(|| Rc::new(entries)))
    }

    /// Returns the known epoch of a warp, or 0 if nothing is known of it.
    pub fn epoch_of(&self, warp: u64) -> u32 {
        let Some(all) = &self.0 else { return 0 };
        match all.binary_search_by_key(&warp, |e| e.0) {
            Ok(at) => all[at].1,
            Err(_) => 0,
        }
    }

    /// Takes over the later epoch of each warp.
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
        // Mostly one side has all entries, and both share them from then on.
        match covers(mine, theirs) {
            (true, _) => return,
            (false, true) => {
                self.0 = Some(theirs.clone());
                return;
            }
            (false, false) => {}
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

/// Returns whether `a` has no earlier epoch of any warp than `b`, and whether `b` has none than `a`.
fn covers(a: &[(u64, u32)], b: &[(u64, u32)]) -> (bool, bool) {
    let (mut of_a, mut of_b) = (a.len() >= b.len(), b.len() >= a.len());
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while of_a || of_b {
        match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x.0 == y.0 => {
                (of_a, of_b) = (of_a && x.1 >= y.1, of_b && y.1 >= x.1);
                a.next();
                b.next();
            }
            (Some(x), Some(y)) if x.0 > y.0 => {
                of_a = false;
                b.next();
            }
            (Some(_), _) => {
                of_b = false;
                a.next();
            }
            (None, Some(_)) => {
                of_a = false;
                b.next();
            }
            (None, None) => break,
        }
    }
    (of_a, of_b)
}

/// The accesses before a strong write that a reader of it may take over, by the way in which they were made ready.
#[derive(Clone, Default)]
pub struct Handed {
    /// Accesses before a fence of the writer, or before the write if it is a release.
    pub released: Sparse,
    /// Accesses before a `fence.sc` of any thread.
    pub sc: Sparse,
    /// Accesses before a fence of another warp of the block, from which barriers lead to the write.
    pub passed: Sparse,
}

impl Handed {
    pub fn is_empty(&self) -> bool {
        self.released.is_empty() && self.sc.is_empty() && self.passed.is_empty()
    }

    /// Takes over all of what another one hands on.
    pub fn join(&mut self, other: &Handed) {
        self.released.join(&other.released);
        self.sc.join(&other.sc);
        self.passed.join(&other.passed);
    }
}

/// The side of a flag on which a barrier stands for a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlagSide {
    /// Only barriers follow the read, and perhaps fences of others.
    Reader,
    /// The thread that wrote the flag did not fence. Others had, before a barrier.
    Writer,
}

/// A warp's knowledge of other blocks, and what it has ready to hand on.
#[derive(Clone, Default)]
pub struct Inter {
    pub known: Sparse,
    pub ready: Handed,
    /// The order that reads without acquire have brought, with no fence since. `sc` also has what barriers lead here
    /// from others that read it, with no `fence.sc` since.
    pub seen: Handed,
    /// The order that is known but for a doubt, on the reader's side and on the writer's.
    pub by_reader: Sparse,
    pub by_writer: Sparse,
    /// The last instruction that read what is in `seen` or in doubt.
    pub flag: u32,
    /// True if something was seen since lanes met.
    unmet: bool,
}

impl Inter {
    /// Takes over what another warp of the block hands on at a barrier.
    pub fn join(&mut self, other: &Inter) {
        self.known.join(&other.known);
        self.ready.sc.join(&other.ready.sc);
        self.ready.passed.join(&other.ready.released);
        self.ready.passed.join(&other.ready.passed);
        if other.seen.is_empty() && other.by_reader.is_empty() && other.by_writer.is_empty() {
            return;
        }
        self.seen.sc.join(&other.seen.sc);
        self.by_reader.join(&other.seen.released);
        self.by_reader.join(&other.seen.passed);
        self.by_reader.join(&other.by_reader);
        self.by_writer.join(&other.by_writer);
        self.flag = other.flag;
    }

    /// Takes over what a strong read found at its place.
    pub fn see(&mut self, handed: &Handed, acquire: bool, instruction: u32) {
        self.seen.sc.join(&handed.sc);
        self.flag = instruction;
        if acquire {
            self.known.join(&handed.released);
            self.by_writer.join(&handed.passed);
        } else {
            self.seen.released.join(&handed.released);
            self.seen.passed.join(&handed.passed);
            self.unmet = true;
        }
    }

    /// Notes that lanes of the warp meet, or that it meets others. What one lane has seen is in doubt for the others.
    pub fn meet(&mut self) {
        if std::mem::take(&mut self.unmet) {
            self.by_reader.join(&self.seen.released);
            self.by_reader.join(&self.seen.passed);
        }
    }

    /// Executes a fence. All accesses of `block` come before it.
    pub fn fence(&mut self, fence: Fence, block: &Sparse) {
        if fence.acquire {
            self.known.join(&std::mem::take(&mut self.seen.released));
            self.by_writer.join(&std::mem::take(&mut self.seen.passed));
        }
        if fence.sc {
            self.known.join(&std::mem::take(&mut self.seen.sc));
        }
        if fence.release {
            let all = self.handed_by_release(block);
            if fence.sc {
                self.ready.sc.join(&all.released);
            }
            self.ready.join(&all);
        }
    }

    /// Returns the accesses that a release hands on, if all of `block` comes before it. Doubts are handed on, too.
    pub fn handed_by_release(&self, block: &Sparse) -> Handed {
        let mut handed = Handed {
            released: block.clone(),
            sc: Sparse::default(),
            passed: self.by_reader.clone(),
        };
        handed.released.join(&self.known);
        handed.passed.join(&self.by_writer);
        handed
    }

    /// Returns the side on which only a barrier leads to or from a fence, if the epoch of a warp is known through such
    /// an edge.
    pub fn doubt(&self, warp: u64, epoch: u32) -> Option<FlagSide> {
        if epoch <= self.by_writer.epoch_of(warp) {
            Some(FlagSide::Writer)
        } else if epoch <= self.by_reader.epoch_of(warp) {
            Some(FlagSide::Reader)
        } else {
            None
        }
    }

    /// Returns true if the epoch would be known, had the warp fenced after it read the flag.
    pub fn unfenced(&self, warp: u64, epoch: u32) -> bool {
        epoch <= self.seen.released.epoch_of(warp) || epoch <= self.seen.passed.epoch_of(warp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Scope;

    #[test]
    fn joins_keep_the_later_epoch_of_each_warp() {
        let mut a = Sparse::new(vec![(1, 5), (4, 2)]);
        let b = Sparse::new(vec![(1, 3), (2, 7), (4, 9), (8, 1)]);
        let keep = a.clone();
        a.join(&b);
        let epochs = [1, 2, 3, 4, 8].map(|w| a.epoch_of(w));
        assert_eq!(epochs, [5, 7, 0, 9, 1]);
        assert_eq!(keep.epoch_of(4), 2, "what was handed on before stays");
        let mut c = Sparse::new(vec![(1, 1)]);
        c.join(&Sparse::new(vec![(2, 2)]));
        assert_eq!((c.epoch_of(1), c.epoch_of(2)), (1, 2));
        c.join(&Sparse::default());
        assert!(!c.is_empty() && Sparse::new(Vec::new()).is_empty());
    }

    #[test]
    fn the_side_that_has_all_is_shared() {
        let few = Sparse::new(vec![(1, 5), (4, 2)]);
        let many = Sparse::new(vec![(1, 5), (2, 1), (4, 2)]);
        let other = Sparse::new(vec![(1, 6), (4, 1), (9, 1)]);
        let same = |a: &Sparse, b: &Sparse| match (&a.0, &b.0) {
            (Some(a), Some(b)) => Rc::ptr_eq(a, b),
            _ => false,
        };
        for (mut a, b, expected) in [
            (few.clone(), many.clone(), Some(&many)),
            (many.clone(), few.clone(), Some(&many)),
            (few.clone(), other.clone(), None),
            (other.clone(), many.clone(), None),
        ] {
            let before = [&few, &many, &other].map(|s| [1, 2, 4, 9].map(|w| s.epoch_of(w)));
            a.join(&b);
            if let Some(one) = expected {
                assert!(same(&a, one));
            } else {
                assert_eq!((a.epoch_of(1), a.epoch_of(9)), (6, 1));
            }
            assert_eq!(
                before,
                [&few, &many, &other].map(|s| [1, 2, 4, 9].map(|w| s.epoch_of(w)))
            );
        }
    }

    const ACQ_REL: Fence = Fence {
        scope: Scope::Device,
        acquire: true,
        release: true,
        sc: false,
    };
    const SC: Fence = Fence {
        sc: true,
        ..ACQ_REL
    };

    /// Returns what a warp of another block hands on that has fenced, and writes.
    fn handed(fence: Fence) -> Handed {
        let mut writer = Inter::default();
        writer.fence(fence, &Sparse::new(vec![(3, 7)]));
        writer.ready
    }

    fn judged(w: &Inter) -> (u32, Option<FlagSide>, bool) {
        (w.known.epoch_of(3), w.doubt(3, 7), w.unfenced(3, 7))
    }

    #[test]
    fn a_fence_orders_the_values_seen_before_it() {
        let mut w = Inter::default();
        w.see(&handed(ACQ_REL), false, 9);
        assert_eq!((judged(&w), w.flag), ((0, None, true), 9));
        w.fence(ACQ_REL, &Sparse::default());
        assert_eq!(judged(&w), (7, None, false));
        let mut acquired = Inter::default();
        acquired.see(&handed(ACQ_REL), true, 9);
        assert_eq!(judged(&acquired), (7, None, false));
        // A fence that only releases, or only acquires, does just that.
        let mut w = Inter::default();
        let (acquire, release) = (
            Fence {
                release: false,
                ..ACQ_REL
            },
            Fence {
                acquire: false,
                ..ACQ_REL
            },
        );
        w.see(&handed(release), false, 9);
        w.fence(release, &Sparse::default());
        assert_eq!(judged(&w), (0, None, true));
        assert!(handed(acquire).is_empty());
    }

    /// There is a barrier between the read and the fence.
    #[test]
    fn a_fence_of_another_warp_is_enough_if_both_are_sc() {
        for (writer, reader, expected) in [
            (SC, SC, (7, None)),
            (SC, ACQ_REL, (0, Some(FlagSide::Reader))),
            (ACQ_REL, SC, (0, Some(FlagSide::Reader))),
            (ACQ_REL, ACQ_REL, (0, Some(FlagSide::Reader))),
        ] {
            let mut w = Inter::default();
            w.see(&handed(writer), false, 9);
            let (mut barrier, mut other) = (Inter::default(), Inter::default());
            barrier.join(&w);
            w.meet();
            other.join(&barrier);
            assert_eq!(judged(&other), (0, Some(FlagSide::Reader), false));
            other.fence(reader, &Sparse::default());
            let known = other.known.epoch_of(3);
            let doubt = other.doubt(3, 7).filter(|_| known < 7);
            assert_eq!((known, doubt), expected);
            // The thread that read can still fence.
            assert_eq!(judged(&w), (0, Some(FlagSide::Reader), true));
            w.fence(reader, &Sparse::default());
            assert_eq!(w.known.epoch_of(3), 7);
        }
    }

    /// There is a barrier between the fence and the write.
    #[test]
    fn a_flag_of_another_warp_than_the_fence_is_enough_if_both_fences_are_sc() {
        for (writer, reader, expected) in [
            (SC, SC, (7, None)),
            (SC, ACQ_REL, (0, Some(FlagSide::Writer))),
            (ACQ_REL, SC, (0, Some(FlagSide::Writer))),
        ] {
            let (mut fenced, mut flags) = (Inter::default(), Inter::default());
            fenced.fence(writer, &Sparse::new(vec![(3, 7)]));
            flags.join(&fenced);
            let mut w = Inter::default();
            w.see(&flags.ready, false, 9);
            assert_eq!(judged(&w), (0, None, true));
            w.fence(reader, &Sparse::default());
            let known = w.known.epoch_of(3);
            let doubt = w.doubt(3, 7).filter(|_| known < 7);
            assert_eq!((known, doubt), expected);
            // Doubtful accesses stay so for those to whom they are handed on.
            let mut third = Inter::default();
            third.see(&w.ready, true, 11);
            let known = third.known.epoch_of(3);
            let doubt = third.doubt(3, 7).filter(|_| known < 7);
            assert_eq!((known, doubt), expected);
        }
    }
}
