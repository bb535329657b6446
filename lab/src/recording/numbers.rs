//! Numbers for what a trace names, in the order of first use.

use std::collections::HashMap;
use std::hash::Hash;

/// Numbers below a bound.
#[derive(Debug)]
pub(super) struct Numbers<K> {
    by_key: HashMap<K, u32>,
    next: u32,
    bound: u32,
}

impl<K: Hash + Eq> Numbers<K> {
    pub fn below(bound: u32) -> Self {
        Self {
            by_key: HashMap::new(),
            next: 0,
            bound,
        }
    }

    /// The number of a key, and whether it is new; none if there is none left.
    pub fn of(&mut self, key: K) -> Option<(u32, bool)> {
        if let Some(&number) = self.by_key.get(&key) {
            return Some((number, false));
        }
        if self.next == self.bound {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.by_key.insert(key, number);
        Some((number, true))
    }

    /// The key gets a new number at its next use.
    pub fn forget(&mut self, key: &K) {
        self.by_key.remove(key);
    }

    /// How many have been given away.
    pub fn count(&self) -> u32 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_and_end() {
        let mut n = Numbers::below(2);
        assert_eq!(n.of("a"), Some((0, true)));
        assert_eq!(n.of("a"), Some((0, false)));
        assert_eq!(n.of("b"), Some((1, true)));
        assert_eq!(n.of("c"), None);
        n.forget(&"a");
        assert_eq!(n.of("a"), None);
        assert_eq!((n.of("b"), n.count()), (Some((1, false)), 2));
    }
}
