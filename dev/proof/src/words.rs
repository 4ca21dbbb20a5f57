//! A seeded source of numbers, and of words that are worth computing with: every special value of
//! every format, small integers, extremes.

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// Returns the next number of the generator splitmix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Draws a normal deviate from two uniform numbers (Box and Muller).
    pub fn normal(&mut self) -> f32 {
        let mut uniform = || ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        let (u, v) = (uniform(), uniform());
        ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
    }

    pub fn word16(&mut self) -> u16 {
        const SPECIAL: [u16; 40] = [
            // f16, bf16 and integers: zeros, least and largest, infinities, NaNs with and without
            // payload, ones, what rounds and what overflows.
            0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x7bff, 0xfbff, 0x7c00,
            0xfc00, 0x7c01, 0xfe00, 0x7e00, 0x7fff, 0xffff, 0x3c00, 0xbc00, 0x3c01, 0x007f, 0x807f,
            0x0080, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7f81, 0x7fc0, 0xffc0, 0x3f80, 0xbf80, 0x3f81,
            0x0010, 0x001f, 0x0020, 0x5bff, 0x6400, 0x3800, 0x3f00,
        ];
        match self.below(10) {
            0..4 => self.pick(&SPECIAL),
            4 => self.below(70) as u16,
            // near one in f16, in bf16
            5 | 6 => {
                (0x3800 + self.below(0x1000) as u16) | if self.chance(50) { 0x8000 } else { 0 }
            }
            7 => (0x3e80 + self.below(0x200) as u16) | if self.chance(50) { 0x8000 } else { 0 },
            _ => self.next() as u16,
        }
    }

    pub fn word32(&mut self) -> u32 {
        const SPECIAL: [u32; 48] = [
            0,
            0x8000_0000,
            1,
            0x8000_0001,
            0x007f_ffff,
            0x807f_ffff,
            0x0080_0000,
            0x8080_0000,
            0x0080_0001,
            0x7f7f_ffff,
            0xff7f_ffff,
            0x7f80_0000,
            0xff80_0000,
            0x7f80_0001,
            0x7fc0_0000,
            0xffc0_0000,
            0x7fff_ffff,
            0xffff_ffff,
            0x7fa5_a5a5,
            0x3f80_0000,
            0xbf80_0000,
            0x3f80_0001,
            0x3f7f_ffff,
            0x3f00_0000,
            0xbf00_0000,
            0x3fc0_0000,
            0x4020_0000,
            0x4f00_0000,
            0xcf00_0000,
            0x4f80_0000,
            0x5f00_0000,
            0xdf00_0000,
            0x5f80_0000,
            0x477f_e000,
            0x477f_f000,
            0x4380_0000,
            0x43e0_0000,
            0x43e8_0000,
            0x3380_0000,
            0x3300_0000,
            0x3300_0001,
            0x7f7f_8000,
            0x4b00_0000,
            0x4b80_0001,
            0x0000_ffff,
            0x00ff_ffff,
            0x0100_0000,
            0x8000_7fff,
        ];
        let sign = if self.chance(50) { 1 << 31 } else { 0 };
        match self.below(12) {
            0..3 => self.pick(&SPECIAL),
            3 => self.below(70) as u32,
            4 => (self.below(70) as u32).wrapping_neg(),
            // f32 whose exponents are close, so that they cancel and round
            5 | 6 => sign | (0x3d80_0000 + self.below(0x0400_0000) as u32),
            7 => sign | ((120 + self.below(16) as u32) << 23) | (self.next() as u32 & 0x7f_f000),
            8 => u32::from(self.word16()) << 16 | u32::from(self.word16()),
            // a subnormal, or next to the largest
            9 => sign | (self.next() as u32 & 0xff_ffff),
            _ => self.next() as u32,
        }
    }

    pub fn word64(&mut self) -> u64 {
        const SPECIAL: [u64; 30] = [
            0,
            1 << 63,
            1,
            1 << 63 | 1,
            0x000f_ffff_ffff_ffff,
            0x0010_0000_0000_0000,
            0x8010_0000_0000_0000,
            0x7fef_ffff_ffff_ffff,
            0xffef_ffff_ffff_ffff,
            0x7ff0_0000_0000_0000,
            0xfff0_0000_0000_0000,
            0x7ff0_0000_0000_0001,
            0x7ff8_0000_0000_0000,
            0xfff8_0000_0000_0000,
            0x7fff_ffff_ffff_ffff,
            0xffff_ffff_ffff_ffff,
            0x7ff4_1234_5678_9abc,
            0x3ff0_0000_0000_0000,
            0xbff0_0000_0000_0000,
            0x3ff0_0000_0000_0001,
            0x3fef_ffff_ffff_ffff,
            0x4330_0000_0000_0000,
            0x43e0_0000_0000_0000,
            0xc3e0_0000_0000_0000,
            0x43f0_0000_0000_0000,
            0x47ef_ffff_e000_0000,
            0x47ef_ffff_f000_0000,
            0x36a0_0000_0000_0000,
            0x40ef_fff0_0000_0000,
            0x3810_0000_0000_0000,
        ];
        let sign = if self.chance(50) { 1 << 63 } else { 0 };
        match self.below(12) {
            0..3 => self.pick(&SPECIAL),
            3 => self.below(70) as u64,
            4 => (self.below(70) as u64).wrapping_neg(),
            5 | 6 => sign | (0x3fb0_0000_0000_0000 + (self.next() >> 9)),
            // an f32 or what lies between two, a value near an integer
            7 => {
                let x = f64::from(f32::from_bits(self.word32()));
                x.to_bits()
                    ^ if self.chance(50) {
                        self.next() & 0x3fff_ffff
                    } else {
                        0
                    }
            }
            8 => (self.next() as i32 as f64 / 8.0).to_bits(),
            9 => u64::from(self.word32()) << 32 | u64::from(self.word32()),
            10 => sign | (self.next() & 0x001f_ffff_ffff_ffff),
            _ => self.next(),
        }
    }
}
