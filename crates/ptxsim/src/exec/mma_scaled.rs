//! Products of numbers of 4, 6 and 8 bits, plain and with a scale for each block of a row of A and a column of B (PTX
//! ISA, "mma", `.kind::f8f6f4`, and "Block Scaling for mma.sync").
//!
//! Each product with its scales is exact. The sum is computed in f64, K ascending, and rounded once. The order in which
//! a GPU adds, and the bits that it keeps, are not specified and have not been measured: no GPU of sm_100 or later has
//! run these instructions for us. Results may therefore differ from hardware in their last bits.

use super::access::address::Site;
use super::mma_sparse::{bits, each_element, put};
use super::state::*;
use crate::isa::mma::*;
use crate::num::narrow::*;
use crate::num::round::Round;
use crate::regs::{ALL, LANES, Regs};
use crate::report::*;

/// The bits of an 8-bit container that lie below an element of 4 bits, which is in the middle.
const MIDDLE: u32 = 2;

/// Returns the element of integers whose register layout elements of this number of bits have.
fn place_as(bits: u32) -> Elem {
    if bits == 4 { Elem::U4 } else { Elem::U8 }
}

impl Narrow {
    fn decode(self, container: u32, bits: u32) -> f64 {
        match self {
            Narrow::E4m3 => E4M3.decode(bits & 0xff),
            Narrow::E5m2 => E5M2.decode(bits & 0xff),
            Narrow::E2m3 => E2M3.decode(bits & 0x3f),
            Narrow::E3m2 => E3M2.decode(bits & 0x3f),
            Narrow::E2m1 if container == 8 => E2M1.decode(bits >> MIDDLE & 0xf),
            Narrow::E2m1 => E2M1.decode(bits & 0xf),
        }
    }
}

impl Scale {
    fn decode(self, bits: u32) -> f64 {
        match self {
            Scale::Ue8m0 => ue8m0_to_f64(bits & 0xff),
            // The sign bit is not part of the format.
            Scale::Ue4m3 => E4M3.decode(bits & 0x7f),
        }
    }
}

impl Scales {
    /// Returns the byte and the thread that a selector names. They are the same for the whole warp.
    fn selected(&self, regs: &Regs, which: usize) -> (u32, u32) {
        let [byte, thread] = self.selectors[which].map(|r| regs.r32[r as usize].0[0] & 0xffff);
        (byte, thread)
    }

    /// Returns the scale of a block of a row of A or a column of B. Two lanes of each four hold scales of A, one for
    /// the rows of the first half and the other for those of the second. One lane of each four holds scales of B.
    fn scale(&self, regs: &Regs, which: usize, line: u32, block: u32) -> f64 {
        let (byte, thread) = self.selected(regs, which);
        let lane = match which {
            0 => line % 8 * 4 + thread * 2 + line / 8,
            _ => line * 4 + thread,
        };
        let word = regs.r32[self.registers[which] as usize].0[lane as usize % LANES];
        self.kind.decode(word >> ((byte + block) % 4 * 8))
    }
}

impl Scaled {
    /// Returns the scaled elements of each line (row of A or column of B), K of them for each.
    fn lines(&self, regs: &Regs, which: usize) -> Vec<Vec<f64>> {
        let (part, registers, count) = match which {
            0 => (Part::A, &self.registers.a, 16),
            _ => (Part::B, &self.registers.b, 8),
        };
        let depth = self.shape.k;
        let mut lines = vec![vec![0.0; depth as usize]; count];
        let fragment = (part, place_as(self.container));
        each_element(regs, fragment, registers, |row, column, bits| {
            let (line, k) = if which == 0 {
                (row, column)
            } else {
                (column, row)
            };
            let scale = self.scales.as_ref().map_or(1.0, |scales| {
                scales.scale(regs, which, line, k * scales.blocks / depth)
            });
            let value = self.ab[which].decode(self.container, bits);
            lines[line as usize][k as usize] = value * scale;
        });
        lines
    }

    /// Computes the product and writes it to the registers of D.
    pub fn compute(&self, regs: &mut Regs) {
        let (rows, columns) = (self.lines(regs, 0), self.lines(regs, 1));
        let before = regs.clone();
        put(regs, &self.registers.d, self.sum, |lane, i| {
            let (row, column) = mma_place(Part::Acc, Elem::F32, lane as u32, i);
            let c = bits(&before, &self.registers.c, self.sum, lane, i);
            let products = rows[row as usize]
                .iter()
                .zip(&columns[column as usize])
                .map(|(a, b)| a * b)
                .sum::<f64>();
            match self.sum {
                Elem::F16 => F16.encode(F16.decode(c & 0xffff) + products, Round::Nearest, false),
                _ => super::float_ops::w((f64::from(f32::from_bits(c)) + products) as f32),
            }
        });
    }
}

impl Machine<'_> {
    /// Faults if selectors of scales differ between lanes or are out of their range.
    pub fn check_selectors(&self, w: &Warp, m: &Mma, s: Site) -> Run<()> {
        let Mma::Scaled(Scaled {
            scales: Some(scales),
            ..
        }) = m
        else {
            return Ok(());
        };
        for (which, most) in [1, 3].into_iter().enumerate() {
            let (byte, thread) = scales.selected(&w.regs, which);
            let alike = scales.selectors[which]
                .iter()
                .map(|r| &w.regs.r32[*r as usize].0)
                .all(|all| all.iter().all(|x| x & 0xffff == all[0] & 0xffff));
            let legal = byte % scales.blocks == 0 && byte < 4 && thread <= most;
            if !alike || !legal || w.lanes.live() != ALL {
                let name = ["A", "B"][which];
                let what = format!(
                    "mma.sync whose scales of {name} are those of byte {byte} and thread {thread}, or differ between \
                     lanes"
                );
                return s.only(0).refuse(FaultKind::Undefined, what);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regs::Block;

    fn scaled(ab: [Narrow; 2], container: u32, k: u32, scales: Option<Scales>) -> Scaled {
        Scaled {
            shape: Shape { m: 16, n: 8, k },
            ab,
            container,
            sum: Elem::F32,
            registers: Fragments {
                d: vec![1, 2, 3, 4],
                a: vec![5, 6, 7, 8],
                b: vec![9, 10],
                c: vec![11, 12, 13, 14],
            },
            scales,
        }
    }

    fn regs() -> Regs {
        Regs {
            r32: vec![Block([0; LANES]); 32],
            ..Regs::default()
        }
    }

    fn all(regs: &mut Regs, which: std::ops::RangeInclusive<usize>, word: u32) {
        for register in which {
            regs.r32[register].0 = [word; LANES];
        }
    }

    /// Multiplies 1 in each format, in its place of the container, by 1: a sum of 32 products.
    #[test]
    fn ones_of_every_format_in_their_containers() {
        use Narrow::*;
        let ones = [
            (E4m3, 0x38),
            (E5m2, 0x3c),
            (E2m3, 0x08),
            (E3m2, 0x0c),
            (E2m1, 0x02 << 2),
        ];
        for (x, x_bits) in ones {
            for (y, y_bits) in ones {
                let mut regs = regs();
                all(&mut regs, 5..=8, x_bits * 0x0101_0101);
                all(&mut regs, 9..=10, y_bits * 0x0101_0101);
                all(&mut regs, 11..=14, 0.5_f32.to_bits());
                scaled([x, y], 8, 32, None).compute(&mut regs);
                for d in 1..=4 {
                    assert_eq!(
                        regs.r32[d].0.map(f32::from_bits),
                        [32.5; LANES],
                        "{x:?} {y:?}"
                    );
                }
            }
        }
    }

    /// Gives different scales to all rows, columns and blocks: 2^(row) by 2^(-column), and by 2^block.
    #[test]
    fn each_block_has_the_scale_of_its_row_and_column() {
        for (container, k, blocks, byte) in [(8, 32, 1, 2), (4, 64, 2, 2), (4, 64, 4, 0)] {
            let [pair, thread] = [1, 2];
            let mut regs = regs();
            let one = if container == 8 {
                0x0808_0808
            } else {
                0x2222_2222
            };
            all(&mut regs, 5..=10, one);
            for lane in 0..32_u32 {
                let row = lane / 4 + lane % 2 * 8;
                for block in 0..blocks {
                    let shift = (byte + block) * 8;
                    if lane / 2 % 2 == pair {
                        regs.r32[15].0[lane as usize] |= (127 + row + block) << shift;
                    }
                    if lane % 4 == thread {
                        regs.r32[16].0[lane as usize] |= (127 - lane / 4) << shift;
                    }
                }
            }
            all(&mut regs, 20..=20, byte);
            all(&mut regs, 21..=21, pair);
            all(&mut regs, 22..=22, thread);
            let scales = Scales {
                kind: Scale::Ue8m0,
                blocks,
                registers: [15, 16],
                selectors: [[20, 21], [20, 22]],
            };
            scaled([Narrow::E2m1; 2], container, k, Some(scales)).compute(&mut regs);
            for lane in 0..32_u32 {
                for i in 0..4 {
                    let (row, column) = mma_place(Part::Acc, Elem::F32, lane, i);
                    let each = f64::from(k / blocks) * 2_f64.powi(row as i32 - column as i32);
                    let want: f64 = (0..blocks)
                        .map(|block| each * 2_f64.powi(block as i32))
                        .sum();
                    let got = f32::from_bits(regs.r32[1 + i as usize].0[lane as usize]);
                    assert_eq!(f64::from(got), want, "{k} {blocks} {row} {column}");
                }
            }
        }
    }

    #[test]
    fn scales_without_a_sign_and_without_a_value() {
        assert_eq!(Scale::Ue4m3.decode(0xb8), 1.0);
        assert!(Scale::Ue4m3.decode(0x7f).is_nan() && Scale::Ue8m0.decode(0xff).is_nan());
        assert_eq!(Scale::Ue8m0.decode(0), 2_f64.powi(-127));
    }
}
