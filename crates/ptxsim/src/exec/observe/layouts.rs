//! Checks that a descriptor of `wgmma` fits the tile that it leads to: it stays in one variable of the program, its
//! rows do not overlap, and its swizzle is that with which TMA brought the tile. A GPU reads whatever lies there.

use crate::exec::access::address::Site;
use crate::exec::state::*;
use crate::isa::Proxy;
use crate::isa::wgmma::Descriptor;
use crate::report::*;
use crate::switch::{Observer, is_off};
use model::{FindingEvent, Swizzle};

/// The number of bytes that a swizzle moves as one.
const PIECE: u32 = 16;

/// The swizzle of the last box that a tensor copy was to bring to each piece of shared memory.
#[derive(Default)]
pub struct Layouts(Vec<Option<Swizzle>>);

impl Layouts {
    fn note(&mut self, at: u32, swizzle: Swizzle) {
        let piece = (at / PIECE) as usize;
        if self.0.len() <= piece {
            self.0.resize(piece + 1, None);
        }
        self.0[piece] = Some(swizzle);
    }

    fn at(&self, at: u32) -> Option<Swizzle> {
        self.0.get((at / PIECE) as usize).copied().flatten()
    }
}

/// A matrix as a descriptor lays it out.
pub struct Described<'a> {
    pub name: char,
    pub descriptor: Descriptor,
    pub transposed: bool,
    /// The number of bytes along which elements lie side by side, and the number of such lines.
    pub along: u32,
    pub lines: u32,
    /// The addresses and the bytes of its pieces, in the order of the addresses.
    pub stretches: &'a [(u32, u32)],
}

impl BlockState {
    /// Notes the swizzle with which a tensor copy is to bring a piece of a box.
    pub fn note_layout(&mut self, copy: &CopyOp, swizzle: Swizzle) {
        if !is_off(Observer::Layouts, copy.instruction) {
            self.layouts.note(copy.to, swizzle);
        }
    }
}

impl Machine<'_> {
    /// Reports a descriptor that leaves the variable it begins in, has another swizzle than the tile, or whose parts
    /// overlap.
    pub fn check_layout(&mut self, b: &BlockState, w: &Warp, d: &Described, s: Site) {
        if is_off(Observer::Layouts, s.pc) {
            return;
        }
        let start = d.descriptor.start;
        let at = At::lane(b, w, s.pc, 0).address(u64::from(start));
        let kind = FindingKind::WrongLayout;
        // Dynamic memory is one variable up to the end of the block's.
        let variable = self
            .program
            .shared
            .iter()
            .find(|v| (v.offset..v.offset + v.bytes).contains(&start));
        if let Some(v) = variable {
            let end = v.offset + v.bytes;
            let is_outside = |(from, bytes): &&(u32, u32)| *from < v.offset || from + bytes > end;
            if let Some(&(from, bytes)) = d.stretches.iter().find(is_outside) {
                let bytes = [from, from + bytes];
                self.find(kind, at, None, |_| {
                    FindingEvent::DescriptorLeaves(d.name, v.name.clone(), bytes)
                });
            }
        }
        let Some((copy, swizzle)) = self.tile_of(b, d.stretches) else {
            return;
        };
        let other = Some(Other::instruction(copy));
        let swizzles = [d.descriptor.swizzle, swizzle];
        if swizzles[0] != swizzles[1] {
            self.find(kind, at, other, |_| {
                FindingEvent::DescriptorSwizzle(d.name, swizzles)
            });
        }
        if let Some((offset, distance, needed)) = d.overlap() {
            self.find(kind, at, other, |_| {
                FindingEvent::DescriptorOverlap(d.name, offset.to_owned(), [distance, needed])
            });
        }
    }

    /// Returns the tensor copy that wrote last to one of these stretches, and its swizzle.
    fn tile_of(&self, b: &BlockState, stretches: &[(u32, u32)]) -> Option<(u32, Swizzle)> {
        let shadow = b.shadow.as_ref()?;
        let is_other = |instruction: u32, _, _| {
            self.program.proxies.get(instruction as usize) != Some(&Proxy::Tensor)
        };
        stretches.iter().find_map(|&(from, _)| {
            let (copy, _) = shadow.unseen_write((from, PIECE), is_other)?;
            Some((copy, b.layouts.at(from)?))
        })
    }
}

impl Described<'_> {
    /// Returns a distance of the descriptor that is shorter than the part it leads across: its name, its bytes, and the
    /// bytes that it needs. A distance of 0 repeats a part on purpose.
    fn overlap(&self) -> Option<(&'static str, u32, u32)> {
        let d = self.descriptor;
        // A part is eight lines of the width of the swizzle.
        let needed = 8 * d.width();
        let (of_along, of_lines) = d.distances(self.transposed);
        let is_short = |(distance, count): (u32, u32)| count > 1 && (1..needed).contains(&distance);
        let parts = [
            (of_along, self.along.div_ceil(d.width())),
            (of_lines, self.lines.div_ceil(8)),
        ];
        let (short, _) = parts.into_iter().find(|part| is_short(*part))?;
        let field = if short == d.stride {
            "stride"
        } else {
            "leading"
        };
        Some((field, short, needed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(swizzle: Swizzle, stride: u32, along: u32, lines: u32) -> Described<'static> {
        Described {
            name: 'A',
            descriptor: Descriptor {
                start: 0,
                leading: 16,
                stride,
                first_line: 0,
                swizzle,
            },
            transposed: false,
            along,
            lines,
            stretches: &[],
        }
    }

    #[test]
    fn distances_that_are_too_short_for_what_they_part() {
        let overlap = |d: Described| d.overlap();
        assert_eq!(overlap(described(Swizzle::Bytes128, 1024, 32, 64)), None);
        assert_eq!(
            overlap(described(Swizzle::Bytes128, 512, 32, 64)),
            Some(("stride", 512, 1024))
        );
        // One group of eight, and one that is repeated.
        assert_eq!(overlap(described(Swizzle::Bytes128, 512, 32, 8)), None);
        assert_eq!(overlap(described(Swizzle::Bytes128, 0, 32, 64)), None);
        assert_eq!(
            overlap(described(Swizzle::None, 256, 32, 64)),
            Some(("leading", 16, 128))
        );
    }
}
