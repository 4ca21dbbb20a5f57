//! Textures and surfaces: images, the texels that a coordinate selects, and their weights.
//!
//! The formulas are those of the CUDA C++ Programming Guide, "Texture Fetching": `i = floor(x)` for the nearest point;
//! for linear filtering `xB = x - 0.5`, `i = floor(xB)`, and a weight `frac(xB)` "in 9-bit fixed point format with 8
//! bits of fractional value". The guide leaves four things open. Here `xB` is rounded to the nearest 1/256 before it is
//! split, a weight of several axes has 8 bits too ([`corners`]), wrap and mirror act on the numbers of texels, and the
//! weighted sum is rounded once, to f32.

/// Element type of one channel of a texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F16,
    F32,
}

impl Format {
    pub fn bytes(self) -> u32 {
        match self {
            Format::U8 | Format::I8 => 1,
            Format::U16 | Format::I16 | Format::F16 => 2,
            Format::U32 | Format::I32 | Format::F32 => 4,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, Format::F16 | Format::F32)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    Point,
    Linear,
}

/// The value of a texel outside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Reads the texel inside the image that is nearest.
    Clamp,
    /// Reads 0 in all channels of the texel.
    Border,
    /// Repeats the image in each direction, as tiles do.
    Wrap,
    /// Repeats the image in each direction, every second time backwards.
    Mirror,
}

/// The way in which a texture reads its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    pub filter: Filter,
    pub outside: Outside,
    /// True if coordinates run from 0 to 1 over the extent of the image.
    pub normalized: bool,
    /// True if integers of 8 and 16 bits are converted to floats, from 0 to 1 (unsigned) or from -1 to 1 (signed).
    pub as_float: bool,
}

/// The kind of memory that holds the texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A CUDA array, read by coordinates.
    Array,
    /// Linear memory, read by the number of the texel (`tex1Dfetch`).
    Linear,
}

/// The dimensions that an instruction or an image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub rank: u8,
    pub layered: bool,
}

impl std::fmt::Display for Geometry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let layered = if self.layered { "layered " } else { "" };
        write!(f, "{layered}{}D", self.rank)
    }
}

/// Texels in global memory, x fastest, then y, z, layers; the channels of a texel side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    pub address: u64,
    pub format: Format,
    /// The number of channels of a texel: 1, 2 or 4.
    pub channels: u32,
    pub geometry: Geometry,
    /// The number of texels along x, y and z; 1 where the geometry has no such axis.
    pub extents: [u32; 3],
    /// The number of layers; 1 if the image is not layered.
    pub layers: u32,
    pub layout: Layout,
}

impl Image {
    /// Returns the bytes of a texel, with all of its channels.
    pub fn texel_bytes(&self) -> u32 {
        self.format.bytes() * self.channels
    }

    pub fn bytes(&self) -> u64 {
        self.extents
            .iter()
            .chain([&self.layers])
            .fold(u64::from(self.texel_bytes()), |all, &n| {
                all.saturating_mul(u64::from(n))
            })
    }

    /// Returns the offset of a texel from the start of the image, in bytes.
    pub fn offset(&self, [x, y, z]: [u32; 3], layer: u32) -> u64 {
        let [nx, ny, nz] = self.extents.map(u64::from);
        let row = u64::from(y) + ny * (u64::from(z) + nz * u64::from(layer));
        (u64::from(x) + nx * row) * u64::from(self.texel_bytes())
    }

    /// Returns one channel of a texel as a texture reads it that returns floats.
    pub fn float(&self, bytes: &[u8]) -> f64 {
        let signed = |v: i64, most: f64| (v as f64 / most).max(-1.0);
        let two = |b: &[u8]| u16::from_le_bytes([b[0], b[1]]);
        match self.format {
            Format::U8 => f64::from(bytes[0]) / 255.0,
            Format::I8 => signed(i64::from(bytes[0] as i8), 127.0),
            Format::U16 => f64::from(two(bytes)) / 65535.0,
            Format::I16 => signed(i64::from(two(bytes) as i16), 32767.0),
            Format::F16 => f64::from(crate::num::narrow::f16_to_f32(u32::from(two(bytes)))),
            Format::F32 => f64::from(f32::from_bits(word(bytes))),
            // A texture that reads these as floats is refused when it is made.
            Format::U32 | Format::I32 => 0.0,
        }
    }

    /// Returns one channel of a texel as a texture reads it that returns integers.
    pub fn integer(&self, bytes: &[u8]) -> u32 {
        let two = |b: &[u8]| u16::from_le_bytes([b[0], b[1]]);
        match self.format {
            Format::U8 => u32::from(bytes[0]),
            Format::I8 => i32::from(bytes[0] as i8) as u32,
            Format::U16 | Format::F16 => u32::from(two(bytes)),
            Format::I16 => i32::from(two(bytes) as i16) as u32,
            Format::U32 | Format::I32 | Format::F32 => word(bytes),
        }
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The object that a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Texture(Sampler),
    Surface,
}

/// Maps the number of a texel along an axis into the image. Returns `None` for a texel outside of an image with a
/// border.
pub fn inside(i: i64, extent: u32, outside: Outside) -> Option<u32> {
    let n = i64::from(extent);
    let i = match outside {
        Outside::Clamp => i.clamp(0, n - 1),
        Outside::Border => Some(i).filter(|i| (0..n).contains(i))?,
        Outside::Wrap => i.rem_euclid(n),
        Outside::Mirror => {
            let i = i.rem_euclid(2 * n);
            i.min(2 * n - 1 - i)
        }
    };
    u32::try_from(i).ok()
}

/// The weight 1: weights of texels are multiples of 1/256.
pub const ONE: u32 = 256;

/// Returns the two texels along one axis that a coordinate selects, as numbers that may lie outside of the image, with
/// their weights. The second texel follows the first, and has weight 0 without a filter.
pub fn along(x: f32, extent: u32, sampler: &Sampler) -> [(i64, u32); 2] {
    let x = f64::from(x)
        * if sampler.normalized {
            f64::from(extent)
        } else {
            1.0
        };
    match sampler.filter {
        // A NaN becomes 0.
        Filter::Point => [(x.floor() as i64, ONE), (0, 0)],
        Filter::Linear => {
            let fixed = match sampler.outside {
                // Outside of the centres one texel has all the weight, and the other axes are rounded by that.
                Outside::Clamp => {
                    fixed(x).clamp(0, i64::from(ONE) * i64::from(extent.saturating_sub(1)))
                }
                Outside::Border | Outside::Wrap | Outside::Mirror => fixed(x),
            };
            around(fixed)
        }
    }
}

/// Returns the distance of `x` from the centre of the first texel, rounded to a multiple of 1/256, in units of 1/256.
fn fixed(x: f64) -> i64 {
    ((x - 0.5) * f64::from(ONE) + 0.5).floor() as i64
}

/// Splits a fixed-point coordinate into two neighbouring texels and their weights.
fn around(fixed: i64) -> [(i64, u32); 2] {
    let (i, weight) = (fixed >> 8, (fixed & 255) as u32);
    [(i, ONE - weight), (i.saturating_add(1), weight)]
}

/// Returns the texels and weights of [`along`] for a linear filter that does not clamp. `x` counts texels.
pub fn footprint(x: f64) -> [(i64, u32); 2] {
    around(fixed(x))
}

/// Returns the weights of the texels around a point, from the second weight along x, y and z. Bit 0 of an index is x,
/// bit 1 y, bit 2 z. The weights add up to [`ONE`].
///
/// The whole is divided along z, each part of it along x, and each part of that along y, always rounded to 8 bits.
/// Measured on an H200 (driver 580.159.04, 2026-11-23), with an image of one texel that is 1: all eight weights at all
/// 2^24 points are these.
pub fn corners([x, y, z]: [u32; 3]) -> [u32; 8] {
    let (half_up, half_down) = (|p: u32| (p + 128) >> 8, |p: u32| (p + 127) >> 8);
    let mut weights = [0; 8];
    for (at_z, plane) in [ONE - z, z].into_iter().enumerate() {
        let far_x = half_up(plane * x);
        for (at_x, column) in [plane - far_x, far_x].into_iter().enumerate() {
            let far_y = match at_x {
                0 => half_down(column * y),
                _ => half_up(column * y),
            };
            let corner = at_x | at_z << 2;
            (weights[corner], weights[corner | 2]) = (column - far_y, far_y);
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Read from an H200: see [`corners`].
    #[test]
    fn weights_of_several_axes_have_eight_bits_together() {
        assert_eq!(corners([64, 0, 0]), [192, 64, 0, 0, 0, 0, 0, 0]);
        // 72 * 120 / 256 = 33.75.
        assert_eq!(corners([72, 120, 0]), [98, 38, 86, 34, 0, 0, 0, 0]);
        assert_eq!(corners([3, 192, 55])[0b110], 40);
        assert_eq!(corners([205, 192, 29])[0b110], 4);
        // Half a step: x * z is 128.
        assert_eq!(corners([128, 0, 1]), [127, 128, 0, 0, 0, 1, 0, 0]);
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for x in (0..256).step_by(5) {
            for y in (0..256).step_by(3) {
                for z in (0..256).step_by(7) {
                    let weights = corners([x, y, z]);
                    assert_eq!(weights.iter().sum::<u32>(), ONE);
                    for weight in weights {
                        hash = (hash ^ u64::from(weight)).wrapping_mul(0x100_0000_01b3);
                    }
                }
            }
        }
        assert_eq!(hash, 0x6941_4c24_08a0_b2ef, "what the H200 gave");
    }

    fn sampler(filter: Filter, outside: Outside, normalized: bool) -> Sampler {
        Sampler {
            filter,
            outside,
            normalized,
            as_float: false,
        }
    }

    /// Programming Guide, "Nearest-Point Sampling": tex(x) = T[i], i = floor(x), x of N * x where normalised.
    #[test]
    fn the_nearest_point_is_the_floor() {
        let at =
            |x, normalized| along(x, 4, &sampler(Filter::Point, Outside::Clamp, normalized))[0];
        for (x, i) in [
            (0.0, 0),
            (0.99, 0),
            (1.0, 1),
            (3.5, 3),
            (-0.1, -1),
            (9.0, 9),
        ] {
            assert_eq!(at(x, false), (i, ONE), "{x}");
            assert_eq!(at(x / 4.0, true), (i, ONE), "{x}");
        }
        assert_eq!(at(f32::NAN, false).0, 0);
    }

    /// "Linear Filtering": xB = x - 0.5, alpha = frac(xB) with 8 bits, so that 1.0 is exact.
    #[test]
    fn weights_have_eight_bits() {
        assert_eq!(footprint(0.5), [(0, 256), (1, 0)]);
        assert_eq!(footprint(1.0), [(0, 128), (1, 128)]);
        assert_eq!(footprint(0.0), [(-1, 128), (0, 128)]);
        assert_eq!(footprint(2.75), [(2, 192), (3, 64)]);
        // 1/512 is half of the last bit.
        assert_eq!(footprint(0.5 + 1.0 / 1024.0), [(0, 256), (1, 0)]);
        assert_eq!(footprint(0.5 + 3.0 / 1024.0), [(0, 255), (1, 1)]);
        assert_eq!(footprint(1.5 - 1.0 / 1024.0), [(1, 256), (2, 0)]);
    }

    /// Read from an H200: outside of the centres a clamped coordinate has no fraction.
    #[test]
    fn a_clamped_coordinate_is_on_a_texel() {
        let at = |x, outside| along(x, 4, &sampler(Filter::Linear, outside, false));
        assert_eq!(at(-0.25, Outside::Clamp), [(0, 256), (1, 0)]);
        assert_eq!(at(4.25, Outside::Clamp), [(3, 256), (4, 0)]);
        assert_eq!(at(1.25, Outside::Clamp), at(1.25, Outside::Border));
        assert_eq!(at(-0.25, Outside::Border), [(-1, 192), (0, 64)]);
    }

    #[test]
    fn texels_outside_are_found_by_mode() {
        let of = |outside| (-5..10).map(move |i| inside(i, 4, outside));
        let some = |all: [u32; 15]| all.into_iter().map(Some);
        assert!(of(Outside::Clamp).eq(some([0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3, 3])));
        assert!(of(Outside::Wrap).eq(some([3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1])));
        assert!(of(Outside::Mirror).eq(some([3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0, 1])));
        let border: Vec<_> = of(Outside::Border).flatten().collect();
        assert_eq!(border, [0, 1, 2, 3]);
        for outside in [Outside::Clamp, Outside::Wrap, Outside::Mirror] {
            assert!(inside(i64::MAX, 7, outside).is_some());
            assert!(inside(i64::MIN, 7, outside).is_some());
        }
    }

    /// "cudaReadModeNormalizedFloat": an unsigned 8-bit element of 0xff reads as 1.
    #[test]
    fn integers_become_floats_of_one() {
        let image = |format| Image {
            address: 0,
            format,
            channels: 1,
            geometry: Geometry {
                rank: 2,
                layered: true,
            },
            extents: [4, 3, 1],
            layers: 5,
            layout: Layout::Array,
        };
        assert_eq!(image(Format::U8).float(&[255]), 1.0);
        assert_eq!(image(Format::U8).float(&[51]), 0.2);
        assert_eq!(image(Format::I8).float(&[0x80]), -1.0);
        assert_eq!(image(Format::I8).float(&[0x81]), -1.0);
        assert_eq!(image(Format::U16).float(&[0xff, 0xff]), 1.0);
        assert_eq!(image(Format::I16).float(&[0, 0x80]), -1.0);
        assert_eq!(image(Format::F16).float(&[0, 0x3e]), 1.5);
        assert_eq!(image(Format::I8).integer(&[0x80]), 0xffff_ff80);
        let image = image(Format::U16);
        assert_eq!(image.offset([3, 2, 0], 4), (3 + 4 * (2 + 3 * 4)) * 2);
        assert_eq!(image.bytes(), image.offset([3, 2, 0], 4) + 2);
    }
}
