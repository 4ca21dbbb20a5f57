//! The lanes of a warp, by where they are in the code.
//!
//! A warp has no stack of reconvergence points. Its lanes form groups: lanes at the same instruction that came there by the
//! same open calls. One group is at work ([`Current`]), and the others wait. Lanes that part become groups ([`Divergence::park`]),
//! and groups that meet at an instruction become one again ([`Divergence::pick`]). The ready group with the lowest
//! instruction number is picked, so that the lanes of a branch reconverge at the earliest place that the code's layout
//! allows. A group that waits for something keeps its instruction, and executes it again or goes on behind it once
//! `Machine::leave_barriers` has made it ready.

use super::access::address::Site;
use super::state::Wait;

/// Lanes of a warp that are at the same instruction and do not run at present.
#[derive(Clone, Debug)]
pub struct Group {
    pc: u32,
    mask: u32,
    /// The instructions where open calls go on after `ret`, the innermost last.
    stack: Vec<u32>,
    wait: Wait,
}

/// The group of lanes that runs.
pub struct Current {
    pub pc: u32,
    pub mask: u32,
    stack: Vec<u32>,
}

/// The lanes of a warp other than those that run, and which of all lanes are left.
#[derive(Default)]
pub struct Divergence {
    waiting: Vec<Group>,
    live: u32,
    began: u32,
}

impl Group {
    pub fn pc(&self) -> u32 {
        self.pc
    }

    pub fn mask(&self) -> u32 {
        self.mask
    }

    pub fn wait(&self) -> Wait {
        self.wait
    }

    pub fn stack(&self) -> &[u32] {
        &self.stack
    }

    /// Lets the group execute its instruction again.
    pub fn wake(&mut self) {
        self.wait = Wait::Ready;
    }

    /// Lets the group go on behind its instruction.
    pub fn pass(&mut self) {
        self.pc += 1;
        self.wait = Wait::Ready;
    }

    fn is_ready(&self) -> bool {
        self.wait == Wait::Ready
    }
}

impl Current {
    /// Returns some of the present lanes as a group that waits here.
    fn group(&self, mask: u32, wait: Wait) -> Group {
        Group {
            pc: self.pc,
            mask,
            stack: self.stack.clone(),
            wait,
        }
    }

    /// Returns the present instruction, by these of the present lanes.
    pub fn site(&self, mask: u32) -> Site {
        Site { pc: self.pc, mask }
    }

    /// Opens a call, which goes on behind the present instruction after `ret`.
    pub fn open_call(&mut self) {
        self.stack.push(self.pc + 1);
    }

    /// Closes the innermost call, and returns where it goes on; `None` if no call is open.
    pub fn close_call(&mut self) -> Option<u32> {
        self.stack.pop()
    }
}

impl Divergence {
    /// Returns a warp whose lanes in `mask` exist and are ready at the instruction `entry`.
    pub fn new(entry: u32, mask: u32) -> Self {
        let all = Group {
            pc: entry,
            mask,
            stack: Vec::new(),
            wait: Wait::Ready,
        };
        Self {
            waiting: vec![all],
            live: mask,
            began: mask,
        }
    }

    /// Returns the lanes that exist and have not ended.
    #[inline(always)]
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Returns the lanes that the warp began with.
    pub fn began(&self) -> u32 {
        self.began
    }

    pub fn waiting(&self) -> &[Group] {
        &self.waiting
    }

    pub fn waiting_mut(&mut self) -> &mut [Group] {
        &mut self.waiting
    }

    /// Takes the ready group with the lowest instruction, or the next one behind `after`, and all groups that are at the
    /// same place.
    pub fn pick(&mut self, after: Option<u32>) -> Option<Current> {
        let ready = || self.waiting.iter().filter(|group| group.is_ready());
        let lowest =
            |pick: &dyn Fn(u32) -> bool| ready().map(Group::pc).filter(|pc| pick(*pc)).min();
        let pc = after
            .and_then(|after| lowest(&|pc| pc > after).or_else(|| lowest(&|pc| pc != after)))
            .or_else(|| lowest(&|_| true))?;
        let first = self
            .waiting
            .iter()
            .position(|group| group.is_ready() && group.pc == pc)?;
        let Group {
            pc, mask, stack, ..
        } = self.waiting.swap_remove(first);
        let mut now = Current { pc, mask, stack };
        self.join(&mut now, Wait::Ready);
        Some(now)
    }

    /// Moves groups that wait for `wait` at the place of the present lanes to them.
    pub fn join(&mut self, now: &mut Current, wait: Wait) {
        self.waiting.retain(|group| {
            let is_here = group.wait == wait && group.pc == now.pc && group.stack == now.stack;
            now.mask |= if is_here { group.mask } else { 0 };
            !is_here
        });
    }

    /// Returns the lowest instruction behind the present one at which a group is ready. Groups at the same instruction
    /// came by other calls, and go one after the other.
    pub fn next_ahead(&self, now: &Current) -> Option<u32> {
        let ready = self.waiting.iter().filter(|group| group.is_ready());
        ready.map(Group::pc).filter(|pc| *pc > now.pc).min()
    }

    /// Puts lanes of the present group among the waiting ones, ready at `pc`.
    pub fn park(&mut self, now: &Current, mask: u32, pc: u32) {
        if mask == 0 {
            return;
        }
        let is_same =
            |group: &&mut Group| group.is_ready() && group.pc == pc && group.stack == now.stack;
        match self.waiting.iter_mut().find(is_same) {
            Some(group) => group.mask |= mask,
            None => self.waiting.push(Group {
                pc,
                ..now.group(mask, Wait::Ready)
            }),
        }
    }

    /// Puts the present lanes aside that do not execute the instruction: they go on behind it.
    pub fn leave_others(&mut self, now: &mut Current, mask: u32) {
        self.park(now, now.mask & !mask, now.pc + 1);
        now.mask = mask;
    }

    /// Puts the present group among the waiting ones as it is.
    pub fn set_aside(&mut self, now: Current) {
        let Current { pc, mask, stack } = now;
        let wait = Wait::Ready;
        self.waiting.push(Group {
            pc,
            mask,
            stack,
            wait,
        });
    }

    /// Lets present lanes wait at their instruction.
    pub fn hold(&mut self, now: &Current, mask: u32, wait: Wait) {
        self.waiting.push(now.group(mask, wait));
    }

    /// Ends lanes. Groups that wait for the members of a `.sync` instruction look again, because they may have waited for
    /// these.
    pub fn end(&mut self, mask: u32) {
        self.live &= !mask;
        for group in &mut self.waiting {
            if group.wait == Wait::Sync {
                group.wake();
            }
        }
    }
}
