//! Finds blocks, what follows them, and the loops among them. A loop is natural: a branch back to a head that every way
//! into the body passes ("Compilers: Principles, Techniques, and Tools", 9.6). A cycle that can be entered at two
//! places is not a loop.

use crate::listing::{Instruction, Section};
use std::collections::{BTreeMap, BTreeSet};

/// Instructions that run one after another.
#[derive(Debug)]
struct BasicBlock {
    start: usize,
    end: usize,
    next: Vec<usize>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    /// The branch back, or the last one if there are several.
    pub back: usize,
    pub parent: Option<usize>,
    /// The ranges of instructions in the loop, including inner loops.
    pub ranges: Vec<(usize, usize)>,
}

/// Returns the loops of a section, outer ones first.
pub(crate) fn loops(section: &Section) -> Vec<Loop> {
    let blocks = blocks(section);
    let entries: Vec<usize> = section.functions.iter().map(|(start, _)| *start).collect();
    let is_entry = |block: &BasicBlock| block.start == 0 || entries.contains(&block.start);
    let roots: Vec<usize> = (0..blocks.len())
        .filter(|at| blocks.get(*at).is_some_and(is_entry))
        .collect();
    let order = postorder(&blocks, &roots);
    let dominators = Dominators::new(&blocks, &roots, &order);
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
    // These are bodies by their heads. Branches back to one head make one loop.
    let mut bodies: BTreeMap<usize, (BTreeSet<usize>, usize)> = BTreeMap::new();
    let mut backs = Vec::new();
    for &from in &order {
        let Some(block) = blocks.get(from) else {
            continue;
        };
        for &to in &block.next {
            if let Some(before) = before.get_mut(to) {
                before.push(from);
            }
            if dominators.dominates(to, from) {
                backs.push((from, to));
            }
        }
    }
    for (from, head) in backs {
        let Some(last) = blocks.get(from).map(|block| block.end.saturating_sub(1)) else {
            continue;
        };
        let (body, back) = bodies.entry(head).or_insert((BTreeSet::from([head]), last));
        *back = last.max(*back);
        let mut open = vec![from];
        while let Some(block) = open.pop() {
            if body.insert(block) {
                open.extend(before.get(block).into_iter().flatten());
            }
        }
    }
    // A block that only branches to itself follows the end of a kernel.
    let is_padding = |body: &BTreeSet<usize>| {
        body.iter().all(|block| {
            blocks
                .get(*block)
                .is_none_or(|block| block.end - block.start <= 1)
        })
    };
    let mut bodies: Vec<_> = bodies
        .into_values()
        .filter(|(body, _)| !is_padding(body))
        .collect();
    bodies.sort_by_key(|(body, _)| std::cmp::Reverse(body.len()));
    let parents: Vec<Option<usize>> = bodies
        .iter()
        .enumerate()
        .map(|(at, (body, _))| {
            let mut outer = bodies.iter().take(at);
            outer.rposition(|(outer, _)| outer.len() > body.len() && body.is_subset(outer))
        })
        .collect();
    bodies
        .iter()
        .zip(parents)
        .map(|((body, back), parent)| Loop {
            back: *back,
            parent,
            ranges: body
                .iter()
                .filter_map(|block| blocks.get(*block).map(|block| (block.start, block.end)))
                .collect(),
        })
        .collect()
}

fn blocks(section: &Section) -> Vec<BasicBlock> {
    let count = section.instructions.len();
    let mut starts: BTreeSet<usize> = BTreeSet::from([0]);
    starts.extend(section.labels.values().copied());
    for (at, instruction) in section.instructions.iter().enumerate() {
        if flow(instruction) != Flow::On {
            starts.insert(at + 1);
        }
    }
    let starts: Vec<usize> = starts.into_iter().filter(|at| *at < count).collect();
    let ends = starts.iter().skip(1).copied().chain([count]);
    let number = |at: usize| starts.binary_search(&at).ok();
    starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| {
            let last = end
                .checked_sub(1)
                .and_then(|at| section.instructions.get(at));
            let (mut next, flow) = match last {
                Some(last) if end > start => {
                    let flow = flow(last);
                    let targets = last.targets().filter_map(|label| section.labels.get(label));
                    let next: Vec<usize> = match flow {
                        Flow::Branch { .. } => targets.filter_map(|at| number(*at)).collect(),
                        Flow::On | Flow::End { .. } => Vec::new(),
                    };
                    (next, flow)
                }
                _ => (Vec::new(), Flow::On),
            };
            let goes_on = match flow {
                Flow::On => true,
                Flow::Branch { always } | Flow::End { always } => !always,
            };
            next.extend(number(end).filter(|_| goes_on));
            BasicBlock { start, end, next }
        })
        .collect()
}

/// The place to which an instruction leads, and whether it always does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Branch { always: bool },
    End { always: bool },
}

fn flow(instruction: &Instruction) -> Flow {
    let is_bare = instruction
        .predicate
        .is_none_or(|predicate| predicate == "PT" || predicate == "UPT");
    match instruction.mnemonic() {
        // `BRA.U UP0, ...` and `BRA P1, ...` have their condition among the operands.
        "BRA" | "JMP" => Flow::Branch {
            always: is_bare && instruction.operands.starts_with('`'),
        },
        "BRX" | "BRXU" | "JMX" | "JMXU" => Flow::Branch { always: is_bare },
        "EXIT" | "RET" | "KILL" => Flow::End { always: is_bare },
        _ => Flow::On,
    }
}

/// Orders the blocks that can be reached.
fn postorder(blocks: &[BasicBlock], roots: &[usize]) -> Vec<usize> {
    let mut seen = vec![false; blocks.len()];
    let mut order = Vec::new();
    for &root in roots {
        let mut stack = vec![(root, 0)];
        if std::mem::replace(seen.get_mut(root).unwrap_or(&mut true), true) {
            continue;
        }
        while let Some((block, at)) = stack.pop() {
            let next = blocks.get(block).and_then(|block| block.next.get(at));
            match next {
                Some(&next) => {
                    stack.push((block, at + 1));
                    if !std::mem::replace(seen.get_mut(next).unwrap_or(&mut true), true) {
                        stack.push((next, 0));
                    }
                }
                None => order.push(block),
            }
        }
    }
    order
}

/// Immediate dominators by Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm", with one root above all
/// entries.
struct Dominators {
    /// The dominator of each block. The root above all is `None`.
    above: Vec<Option<usize>>,
    number: Vec<Option<usize>>,
}

impl Dominators {
    fn new(blocks: &[BasicBlock], roots: &[usize], order: &[usize]) -> Self {
        let mut number = vec![None; blocks.len()];
        for (at, &block) in order.iter().enumerate() {
            if let Some(number) = number.get_mut(block) {
                *number = Some(at);
            }
        }
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
        for &from in order {
            for &to in blocks.get(from).map_or(&[][..], |block| &block.next) {
                if let Some(before) = before.get_mut(to) {
                    before.push(from);
                }
            }
        }
        let mut found = Self {
            above: vec![None; blocks.len()],
            number,
        };
        let mut known = vec![false; blocks.len()];
        loop {
            let mut changed = false;
            for &block in order.iter().rev() {
                let mut above: Option<Option<usize>> = roots.contains(&block).then_some(None);
                for &from in before.get(block).into_iter().flatten() {
                    if known.get(from) == Some(&true) {
                        above = Some(match above {
                            None => Some(from),
                            Some(other) => found.meet(other, Some(from)),
                        });
                    }
                }
                let (Some(above), Some(place), Some(known)) =
                    (above, found.above.get_mut(block), known.get_mut(block))
                else {
                    continue;
                };
                changed |= !*known || *place != above;
                (*place, *known) = (above, true);
            }
            if !changed {
                return found;
            }
        }
    }

    fn place(&self, block: Option<usize>) -> Option<usize> {
        self.number.get(block?).copied().flatten()
    }

    fn meet(&self, a: Option<usize>, b: Option<usize>) -> Option<usize> {
        let (mut a, mut b) = (a, b);
        while a != b {
            // The root is above all. Otherwise the one that comes earlier in postorder goes up.
            match (self.place(a), self.place(b)) {
                (Some(of_a), Some(of_b)) if of_a < of_b => a = self.up(a),
                (Some(_), Some(_)) => b = self.up(b),
                _ => return None,
            }
        }
        a
    }

    fn up(&self, block: Option<usize>) -> Option<usize> {
        self.above.get(block?).copied().flatten()
    }

    fn dominates(&self, above: usize, block: usize) -> bool {
        let mut at = Some(block);
        while let Some(here) = at {
            if here == above {
                return true;
            }
            at = self.up(at);
        }
        false
    }
}
