//! Maps whose keys are numbers of our own making (addresses, instructions, lines), which are looked up for each lane of
//! what is wrong. No input chooses the keys so that they collide, so the hash need not withstand that. Nothing may
//! depend on the order of what is in these maps.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

#[derive(Default)]
pub struct Mixed(u64);

impl Mixed {
    fn mix(&mut self, x: u64) {
        self.0 = (self.0.rotate_left(23) ^ x).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        // The map looks at the highest bits and the lowest.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.mix(u64::from(*b)));
    }

    fn write_u32(&mut self, x: u32) {
        self.mix(u64::from(x));
    }

    fn write_u64(&mut self, x: u64) {
        self.mix(x);
    }

    fn write_usize(&mut self, x: usize) {
        self.mix(x as u64);
    }

    fn write_isize(&mut self, x: isize) {
        self.mix(x as u64);
    }
}
