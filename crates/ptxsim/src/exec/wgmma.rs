//! `wgmma`: products of a warpgroup from shared memory, while it does something else (PTX ISA 9.7.16).
//!
//! Each warp computes its 16 rows by itself when it comes to the instruction, which needs nothing of the other three. A
//! warp's sums are computed at once, but kept apart from its registers until the warp's own `wgmma.wait_group`: code
//! that reads a register too early gets its old value. Shared memory is read at the instruction, and counts as being
//! read until a `wgmma.wait_group` of one of the four warps has waited for the product (`warpgroup`).
//!
//! These are findings in between: an access to registers of the sums, a write to registers of A, and a write to shared
//! memory that is multiplied. Two more are found when a product begins: registers that something has accessed since the
//! last `wgmma.fence`, and memory that no `fence.proxy.async` has handed on. Fences are counted, and each register
//! keeps the count at its last access, so that an access is unfenced if the two counts are equal.
//!
//! A product of f16, bf16 or tf32 is cut off as one of `mma.sync` is (`mma_sums`), all columns of A in one go. A
//! product of fp8 keeps fewer bits: 13 below the largest exponent, and 13 of the fraction of an f32. This rule, too, is
//! fitted to what hardware returned: the results are those of an H200 to the bit (CALIBRATION.md).

use super::access::address::Site;
use super::access::{LaneAccess, Target};
use super::bulk::BulkRead;
use super::divergence::Current;
use super::float_ops::w as canonical;
use super::mma_exact::number;
use super::mma_run::{add_products, cut, decode};
use super::mma_sums::{Factors, Precision};
use super::observe::cost::Passes;
use super::observe::layouts::Described;
use super::state::*;
use super::warp::Next;
use super::warpgroup;
#[cfg(target_arch = "x86_64")]
use crate::alu::has_v3;
use crate::isa::mma::{Elem, Part, STRIP, mma_place};
use crate::isa::wgmma::*;
use crate::isa::*;
use crate::memory::Origin;
use crate::num::narrow::{F16, bf16_to_f32, e4m3_to_f32, e5m2_to_f32, f16_to_f32};
use crate::num::round::Round;
use crate::regs::{ALL, Class, LANES};
use crate::report::*;
use crate::tensor_map::exchange_pieces;
use model::Clash;
use std::collections::VecDeque;

/// The number of bytes that lie side by side in every layout.
const PIECE: u32 = 16;
const WARPS_OF_GROUP: u32 = 4;
/// The number of bits of a sum of fp8 that are kept below the largest exponent.
const KEPT_OF_BYTES: u32 = 13;
/// A mask of the sign, the exponent and 13 bits of the fraction of an f32: all that a sum of fp8 has.
const FRACTION_OF_BYTES: u32 = u32::MAX << 10;

/// The products that a warp has under way.
#[derive(Default)]
pub struct AsyncProducts {
    /// The state of each 32-bit register. It is empty before the first product.
    registers: Vec<Fragment>,
    /// The number of `wgmma.fence` that the warp has executed.
    fences: u32,
    /// The products since the last `wgmma.commit_group`.
    open: Vec<Product>,
    /// The memory that the open products read. The warpgroup has the reads of committed ones (`warpgroup`).
    reads: Vec<BulkRead>,
    committed: VecDeque<Vec<Product>>,
}

struct Product {
    instruction: u32,
}

/// The state of one register that products add to or multiply.
#[derive(Clone, Default)]
struct Fragment {
    /// The number of products under way that add to it, and of those that multiply it.
    adding: u32,
    multiplying: u32,
    /// The instruction of the last of these products.
    product: u32,
    /// The sums that the register gets once the products are waited for.
    sums: Option<Box<[u32; LANES]>>,
    /// The undefined bits of these sums, if any: lane, bits, and origin.
    undefined: Vec<(usize, u64, Origin)>,
    /// The instruction that accessed it last, and the number of fences before that.
    accessed: Option<(u32, u32)>,
    /// The shape of the product that added to it last, and the number of fences before that.
    added: Option<((u32, Elem), u32)>,
}

/// A part of a product that lies in shared memory.
struct Matrix {
    /// The bits of the elements, by lines (rows of A, columns of B) of `depth` elements.
    values: Vec<u32>,
    depth: usize,
    /// The first undefined value of each line.
    undefined: Vec<Option<Origin>>,
}

/// The place of a part in shared memory, as its descriptor gives it.
struct Tile {
    lines: std::ops::Range<u32>,
    depth: usize,
    transposed: bool,
    /// The addresses of its pieces, in the order of the lines along which elements lie side by side.
    places: Vec<u32>,
    /// The pieces in the order of their addresses, those side by side joined: address and bytes.
    stretches: Vec<(u32, u32)>,
}

impl Matrix {
    /// Returns the elements as numbers, with the sign that the instruction gives to the first or second operand.
    #[inline(always)]
    fn decoded(&self, m: &Wgmma, operand: usize) -> Vec<f32> {
        let sign = if m.negated[operand] { -1.0 } else { 1.0 };
        // The format is looked at once, and not for each element.
        match m.ab[operand] {
            Elem::F16 => self.numbers(sign, f16_to_f32),
            Elem::Bf16 => self.numbers(sign, bf16_to_f32),
            Elem::E4m3 => self.numbers(sign, e4m3_to_f32),
            Elem::E5m2 => self.numbers(sign, e5m2_to_f32),
            elem => self.numbers(sign, |bits| decode(elem, bits)),
        }
    }

    #[inline(always)]
    fn numbers(&self, sign: f32, number: impl Fn(u32) -> f32) -> Vec<f32> {
        self.values
            .iter()
            .map(|bits| sign * number(*bits))
            .collect()
    }
}

impl AsyncProducts {
    fn fragment(&mut self, register: u32) -> &mut Fragment {
        let at = register as usize;
        if self.registers.len() <= at {
            self.registers.resize(at + 1, Fragment::default());
        }
        &mut self.registers[at]
    }
}

impl Wgmma {
    fn a_registers(&self) -> &[u32] {
        match &self.a {
            OperandA::Registers(registers) => registers,
            OperandA::Descriptor(_) => &[],
        }
    }
}

/// Returns the row of the warp's 16, and the column, of an element of the sums in a lane. Columns come in blocks of 8, and
/// each block lies as the sums of `mma.sync` do ([`mma_place`]; the test compares the two).
#[inline(always)]
fn place_of_sum(lane: usize, i: usize) -> (usize, usize) {
    let row = lane / 4 + i / 2 % 2 * 8;
    let column = lane % 4 * 2 + i % 2 + i / 4 * 8;
    (row, column)
}

impl Machine<'_> {
    /// Counts the passes through shared memory. Each warp reads its rows of A, and one of the four reads B for all.
    /// Eight lines of 16 bytes are a pass, because every swizzle puts them in different banks.
    fn count_wgmma(&mut self, w: &Warp, m: &Wgmma, s: Site) {
        const PASS: u32 = 128;
        let a = match m.a {
            OperandA::Registers(_) => 0,
            OperandA::Descriptor(_) => ROWS * DEPTH_BYTES / PASS,
        };
        let b = match w.index % WARPS_OF_GROUP {
            0 => m.shape.n * DEPTH_BYTES / PASS,
            _ => 0,
        };
        self.add_shared(s, Passes::ideal(u64::from(a + b)));
    }

    /// Begins a product: reads its operands, checks the registers, and computes the sums to come.
    pub fn wgmma<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        m: &Wgmma,
        s: Site,
    ) -> Run<()> {
        let group = w.index / WARPS_OF_GROUP;
        let is_whole = (group + 1) * WARPS_OF_GROUP * LANES as u32 <= b.barriers.threads();
        if s.mask != ALL || !is_whole {
            let what = "wgmma by part of a warpgroup, which is four whole warps";
            return s.refuse(FaultKind::Undefined, what);
        }
        self.count_wgmma(w, m, s);
        let rows = w.index % WARPS_OF_GROUP * ROWS;
        let lines = rows..rows + ROWS;
        let of_a = match &m.a {
            OperandA::Registers(_) => None,
            OperandA::Descriptor(register) => {
                let operand = (Part::A, *register);
                Some(self.find_tile::<CHECKS>(b, w, m, operand, lines, s)?)
            }
        };
        let of_b = self.find_tile::<CHECKS>(b, w, m, (Part::B, m.b), 0..m.shape.n, s)?;
        if CHECKS {
            self.check_fragments(b, w, m, s);
        }
        let mut reads = Vec::new();
        let a = match (&m.a, &of_a) {
            (OperandA::Registers(registers), _) => self.in_registers(w, m.ab[0], registers),
            (_, Some(tile)) => self.read_tile::<CHECKS>(b, w, (tile, m.ab[0]), &mut reads, s),
            (OperandA::Descriptor(_), None) => return Ok(()),
        };
        let of_b = self.read_tile::<CHECKS>(b, w, (&of_b, m.ab[1]), &mut reads, s);
        self.begin_sums(w, m, &a, &of_b, s.pc);
        w.products.reads.extend(reads);
        w.products.open.push(Product { instruction: s.pc });
        Ok(())
    }

    /// Returns the 16 rows of A that registers hold, laid out as in `mma.sync`.
    fn in_registers(&self, w: &Warp, elem: Elem, registers: &[u32]) -> Matrix {
        let depth = (DEPTH_BYTES * 8 / elem.bits()) as usize;
        let mut values = vec![0; ROWS as usize * depth];
        let mut undefined = vec![None; ROWS as usize];
        let mask = u32::MAX >> (32 - elem.bits());
        for (n, &register) in registers.iter().enumerate() {
            for lane in 0..LANES {
                let word = w.regs.r32[register as usize].0[lane];
                let bits = Self::undefined_bits(w, register, lane).filter(|(bits, _)| *bits != 0);
                for i in 0..elem.per_register() {
                    let place = n as u32 * elem.per_register() + i;
                    let (row, column) = mma_place(Part::A, elem, lane as u32, place);
                    let value = word.unbounded_shr(i * elem.bits()) & mask;
                    values[row as usize * depth + column as usize] = value;
                    if let Some((_, origin)) = bits {
                        undefined[row as usize] = Some(origin);
                    }
                }
            }
        }
        Matrix {
            values,
            depth,
            undefined,
        }
    }

    /// Returns the places of the part that a descriptor describes. Faults if lanes give different descriptors, or if a
    /// place is outside of shared memory.
    fn find_tile<const CHECKS: bool>(
        &mut self,
        b: &BlockState,
        w: &Warp,
        m: &Wgmma,
        (part, register): (Part, u32),
        lines: std::ops::Range<u32>,
        s: Site,
    ) -> Run<Tile> {
        let (name, which) = match part {
            Part::A => ('A', 0),
            _ => ('B', 1),
        };
        let (elem, transposed) = (m.ab[which], m.transposed[which]);
        let all = w.regs.r64[register as usize].0;
        if let Some(lane) = (0..LANES).find(|l| all[*l] != all[0]) {
            let what = format!("lanes give different descriptors of {name}");
            return s.only(lane).refuse(FaultKind::Undefined, what);
        }
        let descriptor = Descriptor::from_bits(all[0]);
        let bytes = elem.bits() / 8;
        let each = PIECE / bytes;
        let depth = (DEPTH_BYTES / bytes) as usize;
        let mut places = Vec::with_capacity(lines.len() * 2);
        // Elements lie side by side along `along`, and lines follow one another along `across`.
        let (along, across) = if transposed {
            (lines.clone(), 0..depth as u32)
        } else {
            (0..depth as u32, lines.clone())
        };
        for line in across {
            for first in along.clone().step_by(each as usize) {
                let offset = descriptor.place(first * bytes, line, transposed);
                let at = descriptor.start.wrapping_add(offset);
                let at = exchange_pieces(descriptor.swizzle, at, descriptor.first_line);
                if at as usize + PIECE as usize > b.shared.len() {
                    let what = format!(
                        "the descriptor of {name} leads to shared address {at:#x} of {} bytes",
                        b.shared.len()
                    );
                    let one = s.only(0);
                    return one.refuse_at(FaultKind::OutOfBounds, u64::from(at), what);
                }
                places.push(at);
            }
        }
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let mut stretches: Vec<(u32, u32)> = Vec::new();
        for at in sorted {
            match stretches.last_mut() {
                Some((from, bytes)) if *from + *bytes == at => *bytes += PIECE,
                _ => stretches.push((at, PIECE)),
            }
        }
        if CHECKS {
            let all = match part {
                Part::A => WARPS_OF_GROUP * ROWS,
                _ => m.shape.n,
            };
            let (along, lines) = if transposed {
                (all * bytes, depth as u32)
            } else {
                (DEPTH_BYTES, all)
            };
            let described = Described {
                name,
                descriptor,
                transposed,
                along,
                lines,
                stretches: &stretches,
            };
            self.check_layout(b, w, &described, s);
        }
        Ok(Tile {
            lines,
            depth,
            transposed,
            places,
            stretches,
        })
    }

    /// Reads a part, and notes that it may be read until a warp has waited for the product.
    fn read_tile<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        (tile, elem): (&Tile, Elem),
        reads: &mut Vec<BulkRead>,
        s: Site,
    ) -> Matrix {
        let (depth, count) = (tile.depth, tile.lines.len());
        let mut matrix = Matrix {
            values: vec![0; count * depth],
            depth,
            undefined: vec![None; count],
        };
        let mut seen = None;
        for &(from, bytes) in &tile.stretches {
            let address = [u64::from(from); LANES];
            let one = Site { mask: 1, ..s };
            let x = LaneAccess::new(one, &address, bytes, Direction::Read);
            seen = Some(self.observe_shared::<CHECKS>(b, w, None, &x));
            reads.push(BulkRead::begin(b, (0, s.pc), (from, bytes)));
        }
        let Some(seen) = seen else { return matrix };
        let bytes = (elem.bits() / 8) as usize;
        let each = PIECE as usize / bytes;
        // The number of pieces that one line has.
        let along = if tile.transposed { count } else { depth } / each;
        for (number, &at) in tile.places.iter().enumerate() {
            let at = at as usize;
            let origin = if CHECKS {
                let missing = self.missing(b, Target::Shared, (at, PIECE), s.pc);
                missing.map(|(_, origin)| origin)
            } else {
                None
            };
            let (line, first) = (number / along, number % along * each);
            let piece = &b.shared.bytes(seen)[at..at + PIECE as usize];
            for (n, element) in piece.chunks_exact(bytes).enumerate() {
                let bits = element
                    .iter()
                    .rev()
                    .fold(0, |all, x| all << 8 | u32::from(*x));
                let (row, column) = if tile.transposed {
                    (first + n, line)
                } else {
                    (line, first + n)
                };
                matrix.values[row * depth + column] = bits;
                if origin.is_some() {
                    matrix.undefined[row] = origin;
                }
            }
        }
        matrix
    }

    /// Checks that fences order other accesses to the registers of a product. Reports those that they do not order.
    fn check_fragments(&mut self, b: &BlockState, w: &mut Warp, m: &Wgmma, s: Site) {
        let at = At::lane(b, w, s.pc, 0);
        let fences = w.products.fences;
        if fences == 0 {
            self.find_in_flight(at, None, Clash::NoFence, None);
        }
        let form = (m.shape.n, m.sum);
        let sums = m.d.iter().map(|r| (*r, true));
        for (register, adds) in sums.chain(m.a_registers().iter().map(|r| (*r, false))) {
            let state = w.products.fragment(register);
            let (accessed, product) = (state.accessed, state.product);
            let is_open = if adds {
                state.multiplying > 0
            } else {
                state.adding > 0
            };
            let other_form = adds
                && state
                    .added
                    .is_some_and(|(last, n)| last != form && n == fences);
            let (other, clash) = if is_open {
                (product, Clash::OtherRole)
            } else if other_form {
                (product, Clash::OtherShape)
            } else if let Some((access, n)) = accessed
                && n == fences
                && fences > 0
            {
                (access, Clash::NotFenced)
            } else {
                continue;
            };
            self.find_in_flight(at, Some(other), clash, None);
        }
    }

    /// Checks any other instruction that names a register of some product, before it is executed. Notes its accesses,
    /// and reports those that come while a product is under way.
    pub fn touch_fragments(&mut self, b: &BlockState, w: &mut Warp, inst: &Inst, s: Site) {
        if s.mask == 0 {
            return;
        }
        let at = At::first(b, w, s);
        let fences = w.products.fences;
        inst.registers(|how, (class, register)| {
            if class != Class::R32 {
                return;
            }
            let state = w.products.fragment(register);
            state.accessed = Some((s.pc, fences));
            let (adding, product) = (state.adding > 0, state.product);
            let writes = how == Use::Write;
            if !(adding || writes && state.multiplying > 0) {
                return;
            }
            let matrix = if adding { "sums" } else { "A" }.to_owned();
            let clash = Clash::Register { matrix, writes };
            self.find_in_flight(at, Some(product), clash, None);
        });
    }

    /// Computes the sums to come from the operands and from the sums that the registers hold or will hold, and follows
    /// undefined bits into them.
    fn begin_sums(&mut self, w: &mut Warp, m: &Wgmma, a: &Matrix, b: &Matrix, pc: u32) {
        let adds = w.regs.pred[m.adds as usize];
        let held: Vec<[u32; LANES]> =
            m.d.iter()
                .map(|r| {
                    let to_come = w.products.registers.get(*r as usize);
                    let to_come = to_come.and_then(|pending| pending.sums.as_deref());
                    let mut held = *to_come.unwrap_or(&w.regs.r32[*r as usize].0);
                    for (lane, word) in held.iter_mut().enumerate() {
                        *word &= 0_u32.wrapping_sub(adds >> lane & 1);
                    }
                    held
                })
                .collect();
        let sums = match m.sum {
            Elem::S32 => add_integers(m, a, b, &held),
            _ => add_floats(m, a, b, &held),
        };
        let per_register = m.sum.per_register() as usize;
        let is_defined = a.undefined.iter().chain(&b.undefined).all(Option::is_none);
        for (n, (&register, words)) in m.d.iter().zip(sums).enumerate() {
            let mut undefined = Vec::new();
            let pending = &w.products.fragment(register).undefined;
            let is_defined = is_defined && pending.is_empty() && w.undefined.is_none();
            for lane in (0..LANES).filter(|_| !is_defined) {
                let mut marks = (0_u64, None);
                for i in (0..per_register).filter(|_| !is_defined) {
                    let (row, column) = place_of_sum(lane, n * per_register + i);
                    let origin = a.undefined[row].or(b.undefined[column]);
                    if origin.is_some() {
                        let all = u64::from(u32::MAX >> (32 - m.sum.bits()));
                        marks = (marks.0 | all << (i as u32 * m.sum.bits()), origin);
                    }
                }
                let before = w.products.fragment(register);
                let pending = before.undefined.iter().find(|(l, ..)| *l == lane);
                let pending = pending.map(|(_, bits, origin)| (*bits, *origin));
                let is_pending = before.sums.is_some();
                let earlier = if is_pending {
                    pending
                } else {
                    Self::undefined_bits(w, register, lane)
                };
                if adds >> lane & 1 == 1
                    && let Some((bits, origin)) = earlier
                {
                    marks = (marks.0 | bits, marks.1.or(Some(origin)));
                }
                if let (bits @ 1.., Some(origin)) = marks {
                    undefined.push((lane, bits, origin));
                }
            }
            let fences = w.products.fences;
            let state = w.products.fragment(register);
            state.adding += 1;
            state.product = pc;
            **state.sums.get_or_insert_default() = words;
            state.undefined = undefined;
            state.added = Some(((m.shape.n, m.sum), fences));
        }
        for &register in m.a_registers() {
            let state = w.products.fragment(register);
            state.multiplying += 1;
            state.product = pc;
        }
    }

    /// Executes `wgmma.fence`: products from here on may use registers that were accessed before.
    pub fn wgmma_fence(&mut self, _: &mut BlockState, w: &mut Warp, _: Site) -> Run<()> {
        w.products.fences += 1;
        Ok(())
    }

    /// Executes `wgmma.commit_group`: makes a group of the open products.
    pub fn wgmma_commit(&mut self, b: &mut BlockState, w: &mut Warp, _: Site) -> Run<()> {
        let open = std::mem::take(&mut w.products.open);
        w.products.committed.push_back(open);
        warpgroup::commit(b, w.index, std::mem::take(&mut w.products.reads));
        self.progress += 1;
        Ok(())
    }

    /// Completes all but the last `keep` groups, once all warps of the warpgroup have committed as many.
    pub fn wgmma_wait(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        keep: u32,
        (now, mask): (&mut Current, u32),
    ) -> Run<Next> {
        if self.gather_warp(b, w, now, mask)?.is_none() {
            return Ok(Next::Reschedule);
        }
        while w.products.committed.len() > keep as usize {
            let count = warpgroup::next(b, w.index);
            let is_empty = w.products.committed.front().is_some_and(Vec::is_empty);
            if !is_empty && !warpgroup::has_committed(b, w.index, count) {
                let wait = Wait::Products { count };
                return Ok(self.wait_again(w, now, (now.mask, 0), wait));
            }
            let group = w.products.committed.pop_front();
            warpgroup::end_wait(b, w.index);
            for product in group.into_iter().flatten() {
                self.land_product(w, product);
            }
        }
        Ok(Next::Step)
    }

    /// Puts the sums of a product into the registers, unless a later product under way adds to them, too.
    fn land_product(&mut self, w: &mut Warp, product: Product) {
        self.progress += 1;
        let inst = self.program.code.get(product.instruction as usize);
        let Some(Op::Wgmma(m)) = inst.map(|inst| &inst.op) else {
            return;
        };
        for &register in &m.d {
            let state = w.products.fragment(register);
            state.adding -= 1;
            if state.adding > 0 {
                continue;
            }
            let (sums, undefined) = (state.sums.take(), std::mem::take(&mut state.undefined));
            if let Some(sums) = sums {
                w.regs.r32[register as usize].0 = *sums;
            }
            Self::clear_undefined(w, register);
            for (lane, bits, origin) in undefined {
                Self::add_undefined(w, register, lane, bits, origin);
            }
        }
        for &register in m.a_registers() {
            w.products.fragment(register).multiplying -= 1;
        }
    }

    /// Reports the products that a warp has under way when its last lanes end, because no thread is left to wait for
    /// them, and completes them.
    pub fn end_products(&mut self, b: &mut BlockState, w: &mut Warp, s: Site) {
        if w.lanes.live() & !s.mask != 0 {
            return;
        }
        let mut left: Vec<Product> = w.products.committed.drain(..).flatten().collect();
        left.append(&mut w.products.open);
        for product in left {
            let at = At::first(b, w, s);
            self.find_in_flight(at, Some(product.instruction), Clash::ThreadEnds, None);
            self.land_product(w, product);
        }
        for read in std::mem::take(&mut w.products.reads) {
            read.end(b, w.index);
        }
        warpgroup::leave(b, w.index);
    }
}

/// Returns the new sums of each register, from the old ones.
fn add_floats(m: &Wgmma, a: &Matrix, b: &Matrix, held: &[[u32; LANES]]) -> Vec<[u32; LANES]> {
    #[cfg(target_arch = "x86_64")]
    if has_v3() {
        // SAFETY: the processor has what it was compiled for.
        return unsafe { add_floats_v3(m, a, b, held) };
    }
    add_floats_any(m, a, b, held)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi2")]
fn add_floats_v3(m: &Wgmma, a: &Matrix, b: &Matrix, held: &[[u32; LANES]]) -> Vec<[u32; LANES]> {
    add_floats_any(m, a, b, held)
}

/// Computes the sums of a tile. Operands and sums are converted once for all of it.
#[inline(always)]
fn add_floats_any(m: &Wgmma, a: &Matrix, b: &Matrix, held: &[[u32; LANES]]) -> Vec<[u32; LANES]> {
    let (columns, depth) = (m.shape.n as usize, a.depth);
    let (of_a, of_b) = (a.decoded(m, 0), b.decoded(m, 1));
    let strips = of_b.chunks_exact(STRIP * depth).flat_map(|strip| {
        (0..depth).map(move |k| std::array::from_fn(|column| strip[column * depth + k]))
    });
    let mut of_b = Vec::with_capacity(columns * depth / STRIP);
    of_b.extend(strips);
    let factors = Factors { a: &of_a, b: &of_b };
    let mut sums = vec![0.0; ROWS as usize * columns];
    if m.sum == Elem::F16 {
        each_sum(m, |at, n, lane, shift| {
            sums[at] = f64::from(f16_to_f32(held[n][lane] >> shift & 0xffff));
        });
    } else {
        each_sum(m, |at, n, lane, _| {
            sums[at] = f64::from(f32::from_bits(held[n][lane]))
        });
    }
    let of_bytes = m.ab[0].bits() == 8;
    let precision = match m.ab[0] {
        Elem::F16 => Precision::OF_HALVES,
        _ if of_bytes => Precision {
            least: m.ab.map(least_of_bytes),
            kept: KEPT_OF_BYTES,
        },
        _ => Precision::OF_SINGLES,
    };
    add_products(precision, factors, &mut |products| {
        products.add_to(&mut sums, columns, depth, &(0..depth));
    });
    let fraction = if of_bytes {
        FRACTION_OF_BYTES
    } else {
        u32::MAX
    };
    let words: Vec<u32> = if m.sum == Elem::F16 {
        sums.iter()
            .map(|sum| F16.encode(*sum, Round::Nearest, false))
            .collect()
    } else {
        sums.iter()
            .map(|sum| canonical(f32::from_bits(cut(*sum).to_bits() & fraction)))
            .collect()
    };
    to_registers(m, &words)
}

/// Returns the exponent of the smallest unit of a factor of fp8.
fn least_of_bytes(elem: Elem) -> i32 {
    if elem == Elem::E4m3 { -6 } else { -14 }
}

fn add_integers(m: &Wgmma, a: &Matrix, b: &Matrix, held: &[[u32; LANES]]) -> Vec<[u32; LANES]> {
    let columns = m.shape.n as usize;
    let numbers = |of: &Matrix, elem: Elem| -> Vec<i32> {
        of.values.iter().map(|bits| number(elem, *bits)).collect()
    };
    let (of_a, of_b) = (numbers(a, m.ab[0]), numbers(b, m.ab[1]));
    let mut words = vec![0; ROWS as usize * columns];
    each_sum(m, |at, n, lane, _| words[at] = held[n][lane]);
    for (x, row) in of_a
        .chunks_exact(a.depth)
        .zip(words.chunks_exact_mut(columns))
    {
        for (y, word) in of_b.chunks_exact(b.depth).zip(row) {
            let product: i32 = x.iter().zip(y).map(|(x, y)| x * y).sum();
            let sum = *word as i32;
            let sum = if m.saturate {
                sum.saturating_add(product)
            } else {
                sum.wrapping_add(product)
            };
            *word = sum as u32;
        }
    }
    to_registers(m, &words)
}

/// Calls `each` with the place of each sum in the tile, by rows, and with its register, lane and first bit there.
#[inline(always)]
fn each_sum(m: &Wgmma, mut each: impl FnMut(usize, usize, usize, u32)) {
    let per_register = m.sum.per_register() as usize;
    for n in 0..m.d.len() {
        for i in 0..per_register {
            for lane in 0..LANES {
                let (row, column) = place_of_sum(lane, n * per_register + i);
                let at = row * m.shape.n as usize + column;
                each(at, n, lane, i as u32 * m.sum.bits());
            }
        }
    }
}

#[inline(always)]
fn to_registers(m: &Wgmma, words: &[u32]) -> Vec<[u32; LANES]> {
    let mut registers = vec![[0; LANES]; m.d.len()];
    each_sum(m, |at, n, lane, shift| {
        registers[n][lane] |= words[at] << shift
    });
    registers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sum_has_one_place() {
        let mut seen = vec![0; 16 * 24];
        for lane in 0..LANES {
            for i in 0..12 {
                let (row, column) = place_of_sum(lane, i);
                seen[row * 24 + column] += 1;
            }
        }
        assert!(seen.iter().all(|n| *n == 1), "{seen:?}");
        assert_eq!(place_of_sum(5, 7), (9, 11));
        for (lane, i) in (0..LANES as u32).flat_map(|lane| (0..4).map(move |i| (lane, i))) {
            let (row, column) = mma_place(Part::Acc, Elem::F32, lane, i);
            let of_wgmma = place_of_sum(lane as usize, i as usize);
            assert_eq!(of_wgmma, (row as usize, column as usize));
        }
    }
}
