//! Tests of `global`: by hand, and against the whole past.

use super::*;
use crate::check::order::Sparse;
use proptest::prelude::*;

const GRID: Clustered = Clustered {
    grid: [64, 1, 1],
    cluster: [1; 3],
};

fn at(offset: u64) -> [u64; 32] {
    std::array::from_fn(|l| offset + 4 * l as u64)
}

struct World {
    shadow: GlobalShadow,
    clocks: Shadow,
    inter: Inter,
}

impl World {
    fn new() -> World {
        World {
            shadow: GlobalShadow::new(4, 1 << 20, GRID, true),
            clocks: Shadow::new(0, 4, 2),
            inter: Inter::default(),
        }
    }

    fn go(&mut self, block: u32, warp: u32, at: [u64; 32], bytes: u32, write: bool) -> usize {
        let me = Accessor {
            block,
            warp,
            instruction: u32::from(write),
            scoped: Scoped::WEAK,
            clocks: &self.clocks,
            inter: &self.inter,
            warps: 2,
            together: 0,
            grave: &|_| true,
        };
        let mut out = Vec::new();
        let lanes = (0..32).map(|l| (l, at[l as usize] as usize));
        self.shadow
            .access(&me, 0, 8192, lanes, bytes, write, Some(&mut out));
        out.len()
    }
}

#[test]
fn blocks_have_no_order() {
    let mut w = World::new();
    assert_eq!(w.go(0, 0, at(0), 4, true), 0);
    assert_eq!(w.go(0, 0, at(0), 4, false), 0);
    assert_eq!(w.go(1, 0, at(128), 4, true), 0);
    w.clocks.warp_sync(0, u32::MAX, u32::MAX);
    assert_eq!(w.go(1, 0, at(64), 4, false), 16);
    w.inter.known = Sparse::new(vec![(0, 1)]);
    w.clocks.warp_sync(0, u32::MAX, u32::MAX);
    assert_eq!(w.go(1, 0, at(0), 4, true), 0, "told by somebody");
}

#[test]
fn two_readers_are_remembered_and_a_third_is_not_taken_for_done() {
    let read = |readers: &[u32]| {
        let mut w = World::new();
        for &block in readers {
            assert_eq!(w.go(block, 0, at(0), 4, false), 0);
        }
        w
    };
    // Block 9 knows of the blocks named, warp 0 of two each.
    let write = |mut w: World, knows: &[u64]| {
        w.inter.known = Sparse::new(knows.iter().map(|&b| (2 * b, 1)).collect());
        (w.go(9, 0, at(0), 4, true), w.shadow.unjudged.readers.len())
    };
    assert_eq!(write(read(&[0, 1]), &[0]), (32, 0));
    assert_eq!(write(read(&[0, 1]), &[1]), (32, 0));
    assert_eq!(write(read(&[0, 1]), &[0, 1]), (0, 0));
    assert_eq!(write(read(&[0, 1, 2, 3]), &[0, 1, 2, 3]), (0, 0));
    assert_eq!(write(read(&[0, 1, 2, 3]), &[0, 1, 2]), (0, 1));
    // Second reads have no room.
    let mut small = World::new();
    small.shadow.limit = 4096;
    for block in 0..2 {
        assert_eq!(small.go(block, 0, at(0), 4, false), 0);
    }
    assert!(
        !small.shadow.full,
        "all of it is watched, but for second readers"
    );
    small.shadow.limit = 8192;
    assert_eq!(write(small, &[0]), (0, 1));
}

/// An access of the past: block, warp, lane, epoch, and whether it was strong.
type PastAccess = (u32, u32, u32, u32, bool);

/// The accesses at a place: all writes, and the reads since its last write.
#[derive(Default)]
struct Past {
    writes: Vec<PastAccess>,
    reads: Vec<PastAccess>,
}

proptest! {
    /// Compares the reports with the whole past: what is reported is a race, and a race is reported or doubted.
    #[test]
    fn races_are_those_of_the_whole_past(
        steps in prop::collection::vec((0..3_u32, 0..3_u32, 0..8_u8, any::<u8>(), 0..4_u64, any::<bool>()), 1..60),
    ) {
        let blocks_meet = steps.iter().any(|(.., strong)| *strong);
        let mut shadow = GlobalShadow::new(64, 1 << 20, GRID, blocks_meet);
        let mut clocks: Vec<Shadow> = (0..3).map(|_| Shadow::new(0, 4, 3)).collect();
        let mut past: Vec<Past> = (0..16).map(|_| Past::default()).collect();
        let inter = Inter::default();
        for (n, (block, warp, what, lanes, at, strong)) in steps.into_iter().enumerate() {
            let own = &mut clocks[block as usize];
            match what {
                0 => {
                    let mut all = [0; 32];
                    (0..3).for_each(|w| own.release(w, &mut all));
                    (0..3).for_each(|w| own.acquire(w, &all, true));
                    continue;
                }
                1 => {
                    own.warp_sync(warp, u32::from(lanes), 255);
                    continue;
                }
                _ => {}
            }
            let write = what < 4;
            let me = Accessor {
                block,
                warp,
                instruction: n as u32,
                scoped: Scoped {
                    strength: if strong { Strength::Strong } else { Strength::Weak },
                    ..Scoped::WEAK
                },
                clocks: own,
                inter: &inter,
                warps: 3,
                together: 0,
                grave: &|_| true,
            };
            let mut out = Vec::new();
            let before = shadow.unjudged.readers.len();
            // Neighbours share a place, all of them where what is 7.
            let place = |l: u64| if what == 7 { at } else { at + l / 2 };
            let all = (0..8_u64).filter(|l| lanes >> l & 1 == 1);
            let at = all.clone().map(|l| (l as u32, 4 * place(l) as usize));
            shadow.access(&me, 0, 4096, at, 4, write, Some(&mut out));
            let doubt = shadow.unjudged.readers.len() > before;
            let mut expected = 0;
            for l in all {
                let p = &mut past[place(l) as usize];
                let now = (block, warp, l as u32, own.epoch(warp), strong);
                let who = Who { warp, lane: l as u32, instruction: 0 };
                let late = |x: &PastAccess| {
                    !(strong && x.4) && (x.0 != block || !own.knows(who, x.1, x.2, x.3))
                };
                let race = p.writes.iter().any(late) || write && p.reads.iter().any(late);
                expected += usize::from(race);
                let told = out.iter().any(|c| c.lane == l as u32);
                prop_assert!(race || !told, "invented: step {n} lane {l}");
                prop_assert!(told || !race || doubt, "missed: step {n} lane {l}");
                if write {
                    p.writes.push(now);
                    p.reads.clear();
                } else {
                    p.reads.push(now);
                }
            }
            prop_assert!(out.len() <= expected);
        }
    }
}

#[test]
fn a_write_overlaps_any_access_to_the_same_bytes() {
    let access = |offset: u64, bytes: u32, write: bool| {
        let mut w = World::new();
        let lanes = std::array::from_fn(|l| offset + u64::from(bytes) * l as u64);
        w.go(0, 0, lanes, bytes, write);
        w.shadow
    };
    let wrote = access(1024, 4, true);
    assert!(!wrote.overlaps(&access(1152, 4, true)));
    assert!(!access(0, 4, false).overlaps(&access(0, 4, false)));
    for (offset, bytes, write) in [(1148, 4, false), (640, 16, true), (1150, 2, false)] {
        let other = access(offset, bytes, write);
        assert!(wrote.overlaps(&other) && other.overlaps(&wrote));
    }
    assert!(!wrote.overlaps(&access(512, 16, true)));
    let mut places = Vec::new();
    wrote.written(|i, at, bytes| places.push((i, at, bytes)));
    assert_eq!(
        (places.len(), places[0], places[31]),
        (32, (0, 1024, 4), (0, 1148, 4))
    );
}

#[test]
fn places_become_smaller_when_needed() {
    let mut w = World::new();
    let wide = std::array::from_fn(|l| 16 * l as u64);
    assert_eq!(w.go(0, 0, wide, 16, true), 0);
    assert_eq!(w.shadow.used(), 4096 / 16 * 4);
    let halves = std::array::from_fn(|l| 512 + 2 * l as u64);
    assert_eq!(w.go(1, 0, halves, 2, true), 0);
    assert_eq!(w.go(2, 0, halves.map(|x| x - 2), 2, false), 32);
}

#[test]
fn stamps_are_swept_without_losing_one_in_use() {
    let mut w = World::new();
    assert_eq!(w.go(0, 0, at(0), 4, true), 0);
    for n in 0..100 {
        w.clocks.tick(1);
        assert_eq!(w.go(0, 1, at(256), 4, n % 2 == 0), 0);
    }
    let before = w.shadow.stamps.len();
    w.shadow.sweep();
    assert!(w.shadow.stamps.len() < 5 && before > 50);
    assert_eq!(w.go(1, 0, at(0), 4, false), 32);
}

#[test]
fn no_room_is_said() {
    let mut w = World::new();
    w.shadow.limit = 4096;
    assert_eq!(w.go(0, 0, at(0), 4, true), 0);
    assert!(!w.shadow.full);
    assert_eq!(w.go(0, 0, at(4096), 4, true), 0);
    assert!(w.shadow.full);
}
