//! Keeps recently used values that may be wanted again, within a number of bytes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

pub struct Recent<K, T> {
    most_bytes: usize,
    bytes: usize,
    uses: u64,
    kept: HashMap<K, RecentValue<T>>,
}

struct RecentValue<T> {
    value: Arc<T>,
    bytes: usize,
    last_use: u64,
}

impl<K: Clone + Eq + Hash, T> Recent<K, T> {
    pub fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            bytes: 0,
            uses: 0,
            kept: HashMap::new(),
        }
    }

    pub fn get(&mut self, key: &K) -> Option<Arc<T>> {
        let kept = self.kept.get_mut(key)?;
        self.uses += 1;
        kept.last_use = self.uses;
        Some(Arc::clone(&kept.value))
    }

    /// Keeps a value and drops the least recently used ones. A value that is too large by itself is not kept.
    pub fn put(&mut self, key: K, value: T, bytes: usize) -> Arc<T> {
        let value = Arc::new(value);
        if bytes > self.most_bytes {
            return value;
        }
        self.uses += 1;
        let kept = RecentValue {
            value: Arc::clone(&value),
            bytes,
            last_use: self.uses,
        };
        self.bytes += bytes;
        self.bytes -= self.kept.insert(key, kept).map_or(0, |old| old.bytes);
        while self.bytes > self.most_bytes {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.last_use);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            self.bytes -= self.kept.remove(&oldest).map_or(0, |old| old.bytes);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first_and_the_bound_holds() {
        let mut recent = Recent::new(10);
        recent.put("a", 'a', 4);
        recent.put("b", 'b', 4);
        assert_eq!(recent.get(&"a").as_deref(), Some(&'a'));
        recent.put("c", 'c', 4);
        assert!(recent.get(&"b").is_none());
        assert!(recent.get(&"a").is_some() && recent.get(&"c").is_some());
        assert_eq!(*recent.put("huge", 'h', 11), 'h');
        assert!(recent.get(&"huge").is_none() && recent.get(&"a").is_some());
        recent.put("a", 'A', 6);
        assert_eq!(recent.get(&"a").as_deref(), Some(&'A'));
        assert_eq!(recent.bytes, 10);
    }
}
