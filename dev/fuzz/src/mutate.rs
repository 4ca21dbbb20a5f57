//! Makes damaged copies of files. The same seed gives the same copy each time.

/// The generator xorshift64*: three shifts, then a multiplication (Vigna, "An experimental exploration of Marsaglia's
/// xorshift generators, scrambled").
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Seeds that differ by one must not give similar states, and a state of zero would stay zero.
        let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((mixed ^ (mixed >> 29)) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// The number of bytes at either end of a file that are damaged more often, because its tables are there.
const TABLES: usize = 2048;

/// Returns a copy of one seed after one to six changes. A change may copy bytes from another seed.
pub fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(6) {
        mutate(&mut bytes, seeds, random);
    }
    bytes
}

fn mutate(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = place(bytes.len(), random);
    match random.below(12) {
        0..=2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        3..=7 => write_number(bytes, at, random),
        8 => bytes.truncate(at),
        9 => {
            let end = (at + 1 + random.below(64)).min(bytes.len());
            bytes.drain(at..end);
        }
        10 => {
            let end = (at + 1 + random.below(256)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            let to = place(bytes.len(), random);
            bytes.splice(to..to, copy);
        }
        _ => {
            let other = &seeds[random.below(seeds.len())];
            let from = place(other.len(), random);
            let end = (from + 1 + random.below(512)).min(other.len());
            let to = (at + end - from).min(bytes.len());
            bytes.splice(at..to, other[from..end].iter().copied());
        }
    }
}

/// Returns an offset from 0 to `length`. At least half of them are within [`TABLES`] bytes of either end.
fn place(length: usize, random: &mut Random) -> usize {
    let in_table = random.below(TABLES.min(length));
    match random.below(4) {
        0 => in_table,
        1 => length - in_table,
        _ => random.below(length),
    }
}

/// Overwrites an aligned little-endian number with a size or an offset that is nearly right, or far from it.
fn write_number(bytes: &mut [u8], at: usize, random: &mut Random) {
    let width = [1, 2, 4, 8][random.below(4)];
    let at = at - at % width;
    let Some(place) = bytes.get(at..at + width) else {
        return;
    };
    let mut old = [0; 8];
    old[..width].copy_from_slice(place);
    let old = u64::from_le_bytes(old);
    let length = bytes.len() as u64;
    let choices = [
        0,
        1,
        u64::MAX,
        u64::MAX >> 1,
        1 << random.below(64),
        old.wrapping_add(1),
        old.wrapping_sub(1),
        old.wrapping_mul(2),
        length,
        length.wrapping_sub(1),
        random.below(bytes.len()) as u64,
        random.next(),
    ];
    let new = choices[random.below(choices.len())].to_le_bytes();
    bytes[at..at + width].copy_from_slice(&new[..width]);
}
