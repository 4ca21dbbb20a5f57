//! Textures and surfaces: what an image is, which texels a coordinate stands for, and what they weigh.
//!
//! The formulas are those of the CUDA C++ Programming Guide, "Texture Fetching": `i = floor(x)` for the
//! nearest point; for linear filtering `xB = x - 0.5`, `i = floor(xB)`, and a weight `frac(xB)` "in 9-bit
//! fixed point format with 8 bits of fractional value". The guide leaves four things open. Here `xB` is
//! rounded to the nearest 1/256 before it is split, a weight of several axes has 8 bits too ([`corners`]),
//! wrap and mirror act on the numbers of texels, and the weighted sum is rounded once, to f32.

/// Elements of one channel.
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
    /// The nearest one inside.
    Clamp,
    /// 0.
    Border,
    /// The image begins again.
    Wrap,
    /// The image begins again, every second time backwards.
    Mirror,
}

/// How a texture reads its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    pub filter: Filter,
    pub outside: Outside,
    /// Coordinates from 0 to 1.
    pub normalized: bool,
    /// Integers of 8 and 16 bits become floats from 0 or -1 to 1.
    pub as_float: bool,
}

/// Where the texels lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A CUDA array.
    Array,
    /// Linear memory, read by the number of the texel (`tex1Dfetch`).
    Linear,
}

/// Dimensions that an instruction or an image has.
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
    /// 1, 2 or 4.
    pub channels: u32,
    pub geometry: Geometry,
    /// x, y, z; 1 where the geometry has no such axis.
    pub extents: [u32; 3],
    /// 1 where it is not layered.
    pub layers: u32,
    pub layout: Layout,
}

impl Image {
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

    /// Bytes from the start to a texel.
    pub fn offset(&self, [x, y, z]: [u32; 3], layer: u32) -> u64 {
        let [nx, ny, nz] = self.extents.map(u64::from);
        let row = u64::from(y) + ny * (u64::from(z) + nz * u64::from(layer));
        (u64::from(x) + nx * row) * u64::from(self.texel_bytes())
    }

    /// The value of one channel of a texel for a texture that reads floats.
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
            // Refused where the texture is made.
            Format::U32 | Format::I32 => 0.0,
        }
    }

    /// The value of one channel of a texel for a texture that reads integers.
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

/// Where a texel with this number along an axis lies; `None` on the border.
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

/// A weight of 256 is 1.
pub const ONE: u32 = 256;

/// The texels along one axis that a coordinate stands for, and their weights. The second is that of the
/// next one up, and weighs nothing without a filter.
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

/// From the centre of the first texel, in steps of a weight.
fn fixed(x: f64) -> i64 {
    ((x - 0.5) * f64::from(ONE) + 0.5).floor() as i64
}

fn around(fixed: i64) -> [(i64, u32); 2] {
    let (i, weight) = (fixed >> 8, (fixed & 255) as u32);
    [(i, ONE - weight), (i.saturating_add(1), weight)]
}

/// As [`along`] with a linear filter that does not clamp; `x` is not normalised.
pub fn footprint(x: f64) -> [(i64, u32); 2] {
    around(fixed(x))
}

/// Weights of the texels around a point, from the second weight along x, y and z. Bit 0 of an index is x, bit 1
/// y, bit 2 z. They add up to [`ONE`].
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
