//! memory.events and memory.swap.events (`docs/rules/memcg.md#statistics-that-lag`): counted on one memcg, exact at once, and
//! hierarchical everywhere but at the root.

use super::tree::MemcgTree;
use crate::counters::Counter;
use crate::ids::MemcgId;

/// The counters with the event rule: no hierarchical value at the root.
pub(super) const HIERARCHICAL_EVENTS: &[Counter] = &[
    Counter::EventsLow,
    Counter::EventsHigh,
    Counter::EventsMax,
    Counter::EventsOom,
    Counter::EventsOomKill,
    Counter::EventsOomGroupKill,
    Counter::EventsSwapHigh,
    Counter::EventsSwapMax,
    Counter::EventsSwapFail,
];

impl MemcgTree {
    /// One event on `id`. Ancestors other than the root see it in [`Self::event_total`].
    #[inline]
    pub fn event(&mut self, id: MemcgId, c: Counter) {
        debug_assert!(HIERARCHICAL_EVENTS.contains(&c), "{} is no event", c.name());
        self.local[id.idx()].set.add(c, 1);
    }

    /// The line of memory.events: events of `id` and everything below it, exact; for the root only
    /// its own. (memory.events.local is [`Self::local`].)
    pub fn event_total(&self, id: MemcgId, c: Counter) -> i64 {
        if id == MemcgId::ROOT {
            return self.local(id)[c];
        }
        self.live(id, c)
    }
}
