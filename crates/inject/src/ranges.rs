//! Keeps the free parts of a range of addresses. Pure.

use std::collections::BTreeMap;

/// The free ranges by their start, with their sizes in bytes. No two of them touch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Takes the start of the first free part with this many bytes. `bytes` is a multiple of the alignment that all
    /// parts have.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&start, &free) = self.0.iter().find(|(_, free)| **free >= bytes)?;
        self.0.remove(&start);
        if free > bytes {
            self.0.insert(start + bytes, free - bytes);
        }
        Some(start)
    }

    /// Makes a part free again that was taken.
    pub fn give(&mut self, start: u64, bytes: u64) {
        let mut joined = (start, bytes);
        if let Some((&before, &free)) = self.0.range(..start).next_back()
            && before + free == start
        {
            self.0.remove(&before);
            joined = (before, free + bytes);
        }
        if let Some(behind) = self.0.remove(&(start + bytes)) {
            joined.1 += behind;
        }
        self.0.insert(joined.0, joined.1);
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn parts_are_taken_from_the_front_and_join_when_they_are_given_back() {
        let mut ranges = Ranges::default();
        ranges.give(1000, 100);
        let [first, second, third] = [20, 30, 50].map(|bytes| ranges.take(bytes));
        assert_eq!([first, second, third], [Some(1000), Some(1020), Some(1050)]);
        assert_eq!(ranges.take(1), None);
        ranges.give(1000, 20);
        ranges.give(1050, 50);
        assert_eq!(ranges.take(60), None);
        ranges.give(1020, 30);
        let mut whole = Ranges::default();
        whole.give(1000, 100);
        assert_eq!(ranges, whole);
    }
}
