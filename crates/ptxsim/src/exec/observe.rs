//! Checks of accesses to shared memory: copies under way, bytes without a value, races.

use super::address::{Addresses, Site, lanes};
use super::state::{At, BlockState, Machine, Warp};
use crate::check::race::{Past, Strength, Who};
use crate::report::FindingKind;

impl Machine<'_> {
    /// Checks of an access to shared memory that lies within it.
    pub fn check_shared(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        s: Site,
        a: &Addresses,
        bytes: u32,
        write: bool,
        strength: Strength,
    ) {
        if b.words_in_flight > 0 {
            for l in lanes(s.mask) {
                let (first, last) = (a[l] as usize / 4, (a[l] as usize + bytes as usize - 1) / 4);
                if let Some(&i) = b.in_flight[first..=last].iter().find(|&&i| i != 0) {
                    let what = format!(
                        "shared memory {:#x} is {} while cp.async from {} is still in flight",
                        a[l],
                        if write { "written" } else { "read" },
                        self.place(i - 1)
                    );
                    self.find(
                        FindingKind::AsyncBeforeWait,
                        At::lane(b, w, s.pc, l as u32).address(a[l]),
                        Some(i - 1),
                        &what,
                    );
                }
            }
        }
        if !write || strength == Strength::Atomic {
            for l in lanes(s.mask) {
                if let Some(at) = b.shared_known.missing(a[l] as usize, bytes as usize) {
                    if !b.in_flight.is_empty() && b.in_flight[at / 4] != 0 {
                        continue;
                    }
                    let what = format!("read of shared memory {at:#x} that was never written");
                    self.find(
                        FindingKind::UninitialisedShared,
                        At::lane(b, w, s.pc, l as u32).address(at as u64),
                        None,
                        &what,
                    );
                }
            }
        }
        let mut races = Vec::new();
        if let Some(shadow) = &mut b.shadow {
            for l in lanes(s.mask) {
                let who = Who {
                    warp: w.index,
                    lane: l as u32,
                    instruction: s.pc,
                };
                let past = if write {
                    shadow.write(a[l] as u32, bytes, who, strength)
                } else {
                    shadow.read(a[l] as u32, bytes, who, strength)
                };
                races.extend(past.map(|p| (l, p)));
            }
        }
        for (l, past) in races {
            self.race(At::lane(b, w, s.pc, l as u32).address(a[l]), write, past);
        }
    }

    #[cold]
    pub fn race(&mut self, at: At, write: bool, past: Past) {
        let name = |w: bool| if w { "write" } else { "read" };
        let other = self.thread(u32::from(past.warp) * 32 + u32::from(past.lane));
        let what = format!(
            "race on shared memory {:#x}: this {} and the {} at {} by thread {other:?} are not ordered",
            at.address.unwrap_or(0),
            name(write),
            name(past.was_write),
            self.place(past.instruction)
        );
        self.find(FindingKind::SharedRace, at, Some(past.instruction), &what);
    }
}
