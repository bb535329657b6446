//! What a policy remembers of folios it has evicted.

use std::collections::VecDeque;

/// A queue of evictions, oldest first, of bounded size: the newest are remembered. A member leaves
/// when its folio comes back, or when newer ones push it out.
///
/// Evictions are numbered in ascending order, so a member is found by bisection. One that has come
/// back leaves a hole; holes are swept out before they are as many as the members.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "state", derive(serde::Serialize, serde::Deserialize))]
pub struct Ghosts {
    /// Eviction and pages; 0 pages: a hole.
    queue: VecDeque<(u64, u32)>,
    holes: usize,
    pages: u64,
    bound: u64,
}

impl Ghosts {
    /// Base pages of the evicted folios that are remembered.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Remembers an eviction, later than all before.
    pub fn push(&mut self, eviction: u64, pages: u64) {
        debug_assert!(self.queue.back().is_none_or(|&(last, _)| last < eviction));
        self.queue.push_back((eviction, pages as u32));
        self.pages += pages;
        self.bound = self.bound.max(self.pages);
    }

    /// Forgets the oldest until at most so many pages are left.
    pub fn shrink(&mut self, bound: u64) {
        self.bound = bound;
        while self.pages > bound {
            let (_, pages) = self.queue.pop_front().expect("has pages");
            self.holes -= usize::from(pages == 0);
            self.pages -= u64::from(pages);
        }
        self.sweep();
    }

    /// Whether an eviction is remembered; it is not any more.
    pub fn take(&mut self, eviction: u64) -> bool {
        let Some(pages) = self.find(eviction).map(|at| &mut self.queue[at].1) else {
            return false;
        };
        self.pages -= u64::from(std::mem::take(pages));
        self.holes += 1;
        self.sweep();
        true
    }

    fn sweep(&mut self) {
        if self.holes > self.queue.len() / 2 {
            self.queue.retain(|&(_, pages)| pages > 0);
            self.holes = 0;
        }
    }

    /// Whether an eviction is remembered.
    pub fn contains(&self, eviction: u64) -> bool {
        self.find(eviction).is_some()
    }

    fn find(&self, eviction: u64) -> Option<usize> {
        let at = self.queue.binary_search_by_key(&eviction, |g| g.0).ok()?;
        (self.queue[at].1 > 0).then_some(at)
    }

    /// Asserts order, size and bound.
    pub(crate) fn check(&self) {
        let ascending = self.queue.iter().zip(self.queue.iter().skip(1));
        assert!(
            ascending.into_iter().all(|(a, b)| a.0 < b.0),
            "ghosts out of order"
        );
        let pages: u64 = self.queue.iter().map(|g| u64::from(g.1)).sum();
        assert_eq!(pages, self.pages, "pages of ghosts");
        assert!(pages <= self.bound, "{pages} ghosts of {}", self.bound);
        let holes = self.queue.iter().filter(|g| g.1 == 0).count();
        assert_eq!(holes, self.holes, "holes among ghosts");
        assert!(holes <= self.queue.len() / 2, "{holes} holes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain queue.
        #[test]
        fn ghosts_are_a_bounded_queue(
            bound in 0u64..12,
            ops in prop::collection::vec((any::<bool>(), 0u64..40, 1u64..4), 0..200),
        ) {
            let (mut ghosts, mut model) = (Ghosts::default(), VecDeque::<(u64, u64)>::new());
            let mut next = 0;
            for (take, back, pages) in ops {
                if take {
                    let eviction = next - back.min(next);
                    let at = model.iter().position(|g| g.0 == eviction);
                    prop_assert_eq!(ghosts.contains(eviction), at.is_some());
                    prop_assert_eq!(ghosts.take(eviction), at.is_some());
                    at.map(|at| model.remove(at));
                } else {
                    next += 1;
                    ghosts.push(next, pages);
                    ghosts.shrink(bound);
                    model.push_back((next, pages));
                    while model.iter().map(|g| g.1).sum::<u64>() > bound {
                        model.pop_front();
                    }
                }
                ghosts.check();
                prop_assert_eq!(ghosts.pages(), model.iter().map(|g| g.1).sum::<u64>());
            }
        }
    }
}
