//! Pairs loops of the base with loops of head: they are at the same line of source, and as deep as before. One
//! iteration of an unrolled loop does the work of several iterations of the original, so iterations are compared by the
//! work in them. Without line tables the kinds of work stand for the line, because unrolling multiplies all of them
//! alike.

use super::cause::CausePlace;
use super::lines::own_line;
use model::{CodeLine, EntryCode, InstructionKind as Kind, Mix, Width};
use std::collections::{BTreeMap, BTreeSet};

/// The assumed number of iterations of a loop whose count is unknown.
const TURNS: f64 = 8.0;

/// The assumed number of iterations of what is left over beside an unrolled loop.
const LEFT_OVER: f64 = 1.0;

/// A loop of both sides, or of one.
#[derive(Debug)]
pub struct LoopPair {
    pub place: Option<CausePlace>,
    /// The iterations that head takes for one of the base's. More than 1 means that head is unrolled less.
    pub turns: f64,
    /// Estimated number of executions in head.
    pub runs: f64,
    pub base_step: Option<i64>,
    pub head_step: Option<i64>,
    pub base_size: u32,
    pub head_size: u32,
}

/// The number of times that each loop's body runs, by the index of the loop, and the loops of both sides.
pub struct Turns {
    pub base: Vec<f64>,
    pub head: Vec<f64>,
    pub pairs: Vec<(LoopPair, Option<CodeLine>)>,
}

type InHead<'a> = &'a dyn Fn(&CodeLine) -> Option<CodeLine>;

/// The position of a loop in the source, or a substitute for it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Spot {
    Line(CodeLine),
    /// The number of a kind of work, for code without line tables. Loops of one kind do the same work in different
    /// amounts.
    Work(usize),
    /// The position among the loops of its depth, for code without line tables if no loop of the other side does the
    /// same work.
    Order(usize, usize),
}

/// A loop as the other side sees it.
struct Seen {
    spot: Option<Spot>,
    depth: usize,
    parent: Option<usize>,
    /// The instructions of the loop without the instructions of inner loops.
    mix: Mix,
    lines: BTreeSet<CodeLine>,
    step: Option<i64>,
    /// True if there is a larger loop at the same position.
    is_left_over: bool,
}

pub fn pair_by_line(base: &EntryCode, head: &EntryCode, in_head: InHead) -> Turns {
    let same = |line: &CodeLine| Some(line.clone());
    let mut sides = [see(base, in_head), see(head, &same)];
    sides.iter_mut().for_each(|side| mark_left_over(side));
    let [of_base, of_head] = sides;
    let apart = Apart {
        of_base: &|loop_| straight(base, in_head, loop_),
        of_head: &|loop_| straight(head, &same, loop_),
        are_certain: true,
    };
    pair(&of_base, &of_head, &apart)
}

/// Pairs loops of code without line tables.
pub fn pair_by_work(base: &EntryCode, head: &EntryCode) -> Turns {
    let nowhere = |_: &CodeLine| None;
    let mut sides = [see(base, &nowhere), see(head, &nowhere)];
    name_by_work(&mut sides);
    sides.iter_mut().for_each(|side| mark_left_over(side));
    name_by_order(&mut sides);
    let [of_base, of_head] = sides;
    let apart = Apart {
        of_base: &|loop_| moved(loop_, (head, &of_head), (base, &of_base)),
        of_head: &|loop_| moved(loop_, (base, &of_base), (head, &of_head)),
        are_certain: false,
    };
    pair(&of_base, &of_head, &apart)
}

/// Returns the work of a loop that the other side does outside of loops. That is all of the loop's work if it is the
/// only loop that the other side lacks.
fn moved(loop_: &Seen, own: (&EntryCode, &[Seen]), other: (&EntryCode, &[Seen])) -> Mix {
    let is_own = |seen_loop: &Seen| {
        seen_loop.spot.is_some() && !other.1.iter().any(|of| of.spot == seen_loop.spot)
    };
    if !is_own(loop_) || own.1.iter().filter(|seen_loop| is_own(seen_loop)).count() > 1 {
        return Mix::new();
    }
    let mut mix = code_above(other, loop_.depth);
    let stayed = code_above(own, loop_.depth);
    for (kind, count) in &mut mix {
        *count = count.saturating_sub(stayed.get(kind).copied().unwrap_or_default());
    }
    mix.retain(|_, count| *count > 0);
    mix
}

/// Loops without a partner. The other side may do the work of one without a loop.
struct Apart<'a> {
    /// Returns the work that the base has of a loop of head.
    of_base: &'a dyn Fn(&Seen) -> Mix,
    of_head: &'a dyn Fn(&Seen) -> Mix,
    /// True if the loops certainly have no partner. If they may have one, base's loops count as repeated and head's as
    /// run once, so that any growth is real growth.
    are_certain: bool,
}

fn pair(of_base: &[Seen], of_head: &[Seen], apart: &Apart) -> Turns {
    let mut base_turns: Vec<f64> = of_base.iter().map(guess).collect();
    let mut head_turns: Vec<f64> = of_head.iter().map(guess).collect();
    let mut found = Vec::new();
    let mut partners: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, loop_) in of_head.iter().enumerate() {
        let free = |index: &usize| !partners.values().any(|taken| taken == index);
        let is_same = |other: &Seen| {
            loop_.spot.is_some()
                && (&other.spot, other.depth, other.is_left_over)
                    == (&loop_.spot, loop_.depth, loop_.is_left_over)
        };
        let other = of_base
            .iter()
            .enumerate()
            .find(|(index, other)| is_same(other) && free(index));
        let turns = match other {
            Some((index, other)) => {
                partners.insert(at, index);
                match loop_.spot {
                    Some(Spot::Order(..)) => 1.0,
                    _ => turns(other, loop_),
                }
            }
            None => {
                let unrolled = (apart.of_base)(loop_);
                let turns = times_unrolled(&unrolled, loop_);
                let guess = turns.or((!apart.are_certain).then_some(1.0));
                if let (Some(guess), Some(place)) = (guess, head_turns.get_mut(at)) {
                    *place = guess;
                }
                turns.unwrap_or(1.0)
            }
        };
        if let (Some(_), false, Some(place)) = (other, loop_.is_left_over, head_turns.get_mut(at)) {
            *place *= turns;
        }
        found.push((at, other.map(|(_, other)| other), turns));
    }
    for (at, loop_) in of_base.iter().enumerate() {
        if !partners.values().any(|taken| *taken == at) {
            let unrolled = (apart.of_head)(loop_);
            let turns = times_unrolled(&unrolled, loop_);
            if let (Some(turns), Some(place)) = (turns, base_turns.get_mut(at)) {
                *place = if apart.are_certain {
                    turns
                } else {
                    place.max(turns)
                };
            }
        }
    }
    let base_turns = runs(of_base, &base_turns);
    let head_turns = runs(of_head, &head_turns);
    let pairs = found.into_iter().filter_map(|(at, other, turns)| {
        let loop_ = of_head.get(at)?;
        let pair = LoopPair {
            place: None,
            turns: if loop_.is_left_over { 1.0 } else { turns },
            runs: head_turns.get(at).copied().unwrap_or(1.0),
            base_step: other.and_then(|seen_loop| seen_loop.step),
            head_step: loop_.step,
            base_size: other.map_or(0, |seen_loop| size_of(&seen_loop.mix)),
            head_size: size_of(&loop_.mix),
        };
        let line = match &loop_.spot {
            Some(Spot::Line(line)) => Some(line.clone()),
            Some(Spot::Work(_) | Spot::Order(..)) | None => None,
        };
        Some((pair, line))
    });
    Turns {
        pairs: pairs.collect(),
        base: base_turns,
        head: head_turns,
    }
}

/// Returns the number of instructions of all kinds.
pub fn size_of(mix: &Mix) -> u32 {
    mix.values().sum()
}

fn guess(loop_: &Seen) -> f64 {
    if loop_.is_left_over { LEFT_OVER } else { TURNS }
}

fn see(entry: &EntryCode, in_head: InHead) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    for found in &entry.loops {
        let parent = found.parent.filter(|at| *at < seen.len());
        seen.push(Seen {
            spot: (found.place.as_ref().and_then(own_line))
                .and_then(in_head)
                .map(Spot::Line),
            depth: parent
                .and_then(|at| seen.get(at))
                .map_or(0, |parent_loop| parent_loop.depth + 1),
            parent,
            mix: Mix::new(),
            lines: BTreeSet::new(),
            step: found.step,
            is_left_over: false,
        });
    }
    for line in &entry.lines {
        if let Some(loop_) = line.in_loop.and_then(|at| seen.get_mut(at)) {
            for (kind, count) in &line.mix {
                *loop_.mix.entry(*kind).or_default() += count;
            }
            let own = line.place.as_ref().and_then(own_line);
            loop_.lines.extend(own.and_then(in_head));
        }
    }
    seen
}

/// Marks all loops of a position and depth but the largest.
fn mark_left_over(seen: &mut [Seen]) {
    let mut largest: BTreeMap<(Spot, usize, Option<usize>), (u32, usize)> = BTreeMap::new();
    for (at, loop_) in seen.iter().enumerate() {
        let Some(spot) = &loop_.spot else { continue };
        let key = (spot.clone(), loop_.depth, loop_.parent);
        let size = size_of(&loop_.mix);
        let place = largest.entry(key).or_insert((size, at));
        if size > place.0 {
            *place = (size, at);
        }
    }
    let kept: BTreeSet<usize> = largest.into_values().map(|(_, at)| at).collect();
    for (at, loop_) in seen.iter_mut().enumerate() {
        loop_.is_left_over = loop_.spot.is_some() && !kept.contains(&at);
    }
}

/// Gives loops of both sides that do the same work the same position.
fn name_by_work(sides: &mut [Vec<Seen>; 2]) {
    let mut kinds: Vec<BTreeMap<Kind, Work>> = Vec::new();
    for loop_ in sides.iter_mut().flatten() {
        let own = work(&loop_.mix);
        if own.is_empty() {
            continue;
        }
        let known = kinds.iter().position(|kind| is_proportional(kind, &own));
        let number = known.unwrap_or_else(|| {
            kinds.push(own);
            kinds.len() - 1
        });
        loop_.spot = Some(Spot::Work(number));
    }
}

/// Gives the remaining loops of each depth a position by their order, if both sides have equally many.
fn name_by_order([base, head]: &mut [Vec<Seen>; 2]) {
    let left = |own: &[Seen], other: &[Seen]| {
        let mut by_depth: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, loop_) in own.iter().enumerate() {
            let is_known = |seen_loop: &Seen| {
                !seen_loop.is_left_over
                    && seen_loop.spot == loop_.spot
                    && seen_loop.depth == loop_.depth
            };
            let has_partner = loop_.spot.is_some() && other.iter().any(is_known);
            if !has_partner && !loop_.is_left_over {
                by_depth.entry(loop_.depth).or_default().push(at);
            }
        }
        by_depth
    };
    let (of_base, of_head) = (left(base, head), left(head, base));
    for (depth, bases) in of_base {
        let heads = of_head.get(&depth).filter(|run| run.len() == bases.len());
        for (order, (one, other)) in bases.iter().zip(heads.into_iter().flatten()).enumerate() {
            for loop_ in [base.get_mut(*one), head.get_mut(*other)]
                .into_iter()
                .flatten()
            {
                loop_.spot = Some(Spot::Order(depth, order));
            }
        }
    }
}

/// The factor by which the ratios of kinds of work may differ between loops that do the same. Iterations share some of
/// the work.
const PROPORTIONAL: f64 = 1.25;

fn is_proportional(one: &BTreeMap<Kind, Work>, other: &BTreeMap<Kind, Work>) -> bool {
    if !one.keys().eq(other.keys()) {
        return false;
    }
    let (least, most) = one
        .values()
        .zip(other.values())
        .map(|(one, other)| one.amount / other.amount)
        .fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
    most <= least * PROPORTIONAL
}

/// Returns the instructions of a side that are no deeper in loops.
fn code_above((entry, seen): (&EntryCode, &[Seen]), depth: usize) -> Mix {
    let lines = entry.lines.iter();
    let mut mix = Mix::new();
    for line in lines.filter(|line| loops_around(seen, line.in_loop) <= depth) {
        for (kind, count) in &line.mix {
            *mix.entry(*kind).or_default() += count;
        }
    }
    mix
}

fn loops_around(seen: &[Seen], innermost: Option<usize>) -> usize {
    let around = innermost.and_then(|at| seen.get(at));
    around.map_or(0, |enclosing| enclosing.depth + 1)
}

/// Returns the instructions of a side at the lines of a loop that are not as deep.
fn straight(entry: &EntryCode, in_head: InHead, loop_: &Seen) -> Mix {
    let seen = see(entry, in_head);
    let mut mix = Mix::new();
    for line in &entry.lines {
        let own = line.place.as_ref().and_then(own_line).and_then(in_head);
        if loops_around(&seen, line.in_loop) <= loop_.depth
            && own.is_some_and(|own| loop_.lines.contains(&own))
        {
            for (kind, count) in &line.mix {
                *mix.entry(*kind).or_default() += count;
            }
        }
    }
    mix
}

/// Returns the iterations that head's loop takes for one of the base's.
fn turns(base: &Seen, head: &Seen) -> f64 {
    let by_step = base
        .step
        .zip(head.step)
        .map(|(base, head)| (base.unsigned_abs() as f64) / (head.unsigned_abs() as f64));
    let agrees = |by_step: &f64, by_work: f64| (0.5..=2.0).contains(&(by_step / by_work));
    match ratio(&base.mix, &head.mix) {
        // The two loops may count different things.
        Some(by_work) => by_step
            .filter(|by_step| agrees(by_step, by_work))
            .unwrap_or(by_work),
        // An edit of a loop of integers changes their number, too. Unrolling changes the step with it.
        None => by_step
            .filter(|by_step| agrees(by_step, integers_of_turn(base) / integers_of_turn(head)))
            .unwrap_or(1.0),
    }
}

/// Returns how many times the work of a loop is in code without the loop. If it computes nothing but integers, these
/// are its work.
fn times_unrolled(unrolled: &Mix, loop_: &Seen) -> Option<f64> {
    ratio(unrolled, &loop_.mix)
        .or_else(|| {
            work(&loop_.mix)
                .is_empty()
                .then(|| integers(unrolled) / integers_of_turn(loop_))
        })
        .filter(|turns| *turns > 1.0)
}

/// Instructions that count the turns of a loop, and compare their number.
const COUNTING: f64 = 2.0;

fn integers_of_turn(loop_: &Seen) -> f64 {
    (integers(&loop_.mix) - COUNTING).max(1.0)
}

/// Returns the instructions that can be all the work of a loop that neither computes with floats nor accesses memory.
fn integers(mix: &Mix) -> f64 {
    [
        Kind::Int,
        Kind::Compare,
        Kind::Select,
        Kind::Conversion,
        Kind::Vote,
    ]
    .iter()
    .filter_map(|kind| mix.get(kind))
    .map(|count| f64::from(*count))
    .sum()
}

/// Returns how many times the work of head is in the base. An edit changes some kinds of work, and unrolling changes
/// all of them. If the median over the kinds, or over their instructions, has not moved, there is as much work as
/// before. Returns `None` if the two have no work in common.
fn ratio(base: &Mix, head: &Mix) -> Option<f64> {
    let (base, head) = (work(base), work(head));
    let mut ratios: Vec<(f64, f64)> = base
        .iter()
        .filter_map(|(kind, base)| {
            let head = head.get(kind)?;
            Some((base.amount / head.amount, base.count + head.count))
        })
        .collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let of_kinds = median(&ratios, |_| 1.0)?;
    let of_instructions = median(&ratios, |count| count)?;
    let is_same = |ratio: f64| (0.8..=1.25).contains(&ratio);
    Some(if is_same(of_kinds) || is_same(of_instructions) {
        1.0
    } else {
        of_instructions
    })
}

/// Returns the median of sorted ratios. Each has a count, and `weight` says what the count is worth.
fn median(ratios: &[(f64, f64)], weight: fn(f64) -> f64) -> Option<f64> {
    let half = ratios.iter().map(|(_, count)| weight(*count)).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    ratios.iter().find_map(|(ratio, count)| {
        sum += weight(*count);
        (sum >= half).then_some(*ratio)
    })
}

#[derive(Default)]
struct Work {
    amount: f64,
    /// The number of instructions that do it.
    count: f64,
}

/// Returns the work of a source line, without how it is addressed. Accesses count by their bits, whatever the width of
/// their pieces.
fn work(mix: &Mix) -> BTreeMap<Kind, Work> {
    let mut work: BTreeMap<Kind, Work> = BTreeMap::new();
    for (kind, count) in mix {
        let plain = match kind {
            Kind::GlobalLoad(_) | Kind::ReadOnlyLoad(_) | Kind::GenericLoad(_) => {
                Kind::GlobalLoad(Width::W32)
            }
            Kind::GlobalStore(_) | Kind::GenericStore(_) => Kind::GlobalStore(Width::W32),
            Kind::SharedLoad(_) => Kind::SharedLoad(Width::W32),
            Kind::SharedStore(_) => Kind::SharedStore(Width::W32),
            Kind::Fp16
            | Kind::Fp32
            | Kind::Fp64
            | Kind::Tensor
            | Kind::Reciprocal
            | Kind::Root
            | Kind::Exponential
            | Kind::Logarithm
            | Kind::Sine
            | Kind::AsyncCopy
            | Kind::GlobalAtomic
            | Kind::SharedAtomic
            | Kind::MatrixLoad
            | Kind::Shuffle => *kind,
            _ => continue,
        };
        let each = kind.width().map_or(1, Width::bits);
        let work = work.entry(plain).or_default();
        work.amount += f64::from(*count) * f64::from(each);
        work.count += f64::from(*count);
    }
    work
}

/// Returns how often each loop runs. Outer loops precede inner ones.
fn runs(loops: &[Seen], turns: &[f64]) -> Vec<f64> {
    let mut runs: Vec<f64> = Vec::new();
    for (loop_, turns) in loops.iter().zip(turns) {
        let around = loop_.parent.and_then(|at| runs.get(at));
        runs.push(around.copied().unwrap_or(1.0) * turns);
    }
    runs
}
