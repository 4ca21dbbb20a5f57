//! The other values of what a launch may not depend on.

/// The first or the second of two launches with unusual values, which have different addresses and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Turn {
    #[default]
    First,
    Second,
}

/// Returns a number that looks random. Neither the numbers nor their differences have anything in common with the given
/// ones: these are the last steps of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
pub fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
