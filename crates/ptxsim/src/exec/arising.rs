//! Finds where the first infinity and the first NaN of a launch arise: the first results of arithmetic that are
//! infinite though all operands are finite, and NaN though no operand is.
//!
//! Only a launch that is repeated because its output is not finite looks for them ([`crate::Limits::arising`]), as this
//! makes arithmetic slow. A value that is loaded or set as a constant has not arisen, and so a `-inf` that a kernel
//! begins with does not count. A product of tensor cores that overflows is missed.

use super::access::address::Site;
use super::state::*;
use crate::isa::{Inst, Op};
use crate::num::narrow::{bf16_to_f32, f16_to_f32};
use crate::regs::{Class, Regs, lanes};
use crate::report::At;
use model::Arose;

/// Operations whose result can be infinite or NaN where no operand is.
const OPERATIONS: [&str; 15] = [
    "add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos",
    "tanh", "cvt",
];

/// The first infinity and the first NaN.
pub type Arising = [Option<Arose>; 2];

/// The lanes of an instruction that have an infinite or NaN operand, before it is executed.
pub struct Operands<'a> {
    /// The type of the result, as the form of the instruction names it.
    result: &'a str,
    special: u32,
    nan: u32,
}

/// Returns the types of the result and of the operands, or `None` for operations that are not among [`OPERATIONS`].
fn types(form: &str) -> Option<(&str, &str)> {
    let mut parts = form.split('.');
    let name = parts.next().filter(|name| OPERATIONS.contains(name))?;
    let operands = parts.next_back()?;
    let result = if name == "cvt" {
        parts.next_back()?
    } else {
        operands
    };
    Some((result, operands))
}

/// Returns the values that a lane holds in a register, and none if the type is no float.
fn values(regs: &Regs, (class, register): (Class, u32), name: &str, lane: usize) -> Vec<f64> {
    let bits = match class {
        Class::R64 => regs.r64[register as usize].0[lane],
        Class::R32 => u64::from(regs.r32[register as usize].0[lane]),
        Class::Pred => return Vec::new(),
    };
    let low = bits as u32 & 0xffff;
    let halves = [low, (bits >> 16) as u32 & 0xffff];
    match name {
        "f64" => vec![f64::from_bits(bits)],
        "f32" => vec![f64::from(f32::from_bits(bits as u32))],
        "f16" => vec![f64::from(f16_to_f32(low))],
        "bf16" => vec![f64::from(bf16_to_f32(low))],
        "f16x2" => halves.map(|half| f64::from(f16_to_f32(half))).to_vec(),
        "bf16x2" => halves.map(|half| f64::from(bf16_to_f32(half))).to_vec(),
        _ => Vec::new(),
    }
}

impl<'a> Machine<'a> {
    /// Looks at the operands of arithmetic. Returns `None` if the launch does not ask what arises, or if both are
    /// found.
    pub fn operands(&self, w: &Warp, inst: &Inst, s: Site) -> Option<Operands<'a>> {
        let Op::Alu(op) = &inst.op else { return None };
        self.arising
            .as_ref()
            .filter(|arising| arising.iter().any(Option::is_none))?;
        let program = self.program;
        let form = &program.sources.get(inst.source as usize)?.form;
        let (result, name) = types(form)?;
        let mut operands = Operands {
            result,
            special: 0,
            nan: 0,
        };
        for (&class, &register) in op.classes().iter().zip(&inst.o).skip(1) {
            for lane in lanes(s.mask) {
                for value in values(&w.regs, (class, register), name, lane) {
                    operands.special |= u32::from(!value.is_finite()) << lane;
                    operands.nan |= u32::from(value.is_nan()) << lane;
                }
            }
        }
        Some(operands)
    }

    /// Notes the first infinity and the first NaN among the results.
    pub fn note_arising(
        &mut self,
        b: &BlockState,
        w: &Warp,
        inst: &Inst,
        s: Site,
        operands: &Operands,
    ) {
        let Op::Alu(op) = &inst.op else { return };
        let Some(&class) = op.classes().first() else {
            return;
        };
        for lane in lanes(s.mask) {
            for value in values(&w.regs, (class, inst.o[0]), operands.result, lane) {
                let (slot, before) = if value.is_nan() {
                    (1, operands.nan)
                } else {
                    (0, operands.special)
                };
                if value.is_finite() || before >> lane & 1 == 1 {
                    continue;
                }
                let at = At::lane(b, w, s.pc, lane as u32);
                let arose = Arose {
                    is_nan: value.is_nan(),
                    place: self.where_from(s.pc),
                    block: at.block,
                    thread: self.thread(at.thread),
                };
                if let Some(first) = self.arising.as_mut().and_then(|all| all.get_mut(slot)) {
                    first.get_or_insert(arose);
                }
            }
        }
    }
}
