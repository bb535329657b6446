//! Charging, limits and protection of memcgs (`docs/rules/memcg.md`). Verbs of the tree, because a
//! charge walks up.

use super::counter::{CounterKind, PageCounter, UNLIMITED};
use super::error::MemcgError;
use super::tree::{Memcg, MemcgTree};
use crate::ids::{MemcgId, Pages};

impl Memcg {
    #[inline(always)]
    fn counter_mut(&mut self, kind: CounterKind) -> &mut PageCounter {
        match kind {
            CounterKind::Memory => &mut self.memory,
            CounterKind::Swap => &mut self.swap,
        }
    }
}

impl MemcgTree {
    /// Charges `n` pages to `id` and every ancestor, or nothing at all. On failure the memcg whose
    /// limit refused is returned and its failcnt goes up. A charge to the root is not counted.
    #[inline]
    pub fn try_charge(&mut self, id: MemcgId, kind: CounterKind, n: Pages) -> Result<(), MemcgId> {
        if id == MemcgId::ROOT {
            return Ok(());
        }
        let mut k = id;
        while k.is_some() {
            let memcg = &mut self.nodes[k.idx()];
            let c = memcg.counter_mut(kind);
            c.usage += n;
            if c.usage > c.max {
                c.usage -= n;
                c.failcnt += 1;
                self.cancel(id, k, kind, n);
                return Err(k);
            }
            c.raise_watermark();
            k = self.refresh(k, kind);
        }
        Ok(())
    }

    /// Charges `n` pages without looking at limits.
    #[inline]
    pub fn charge_forced(&mut self, id: MemcgId, kind: CounterKind, n: Pages) {
        if id == MemcgId::ROOT {
            return;
        }
        let mut k = id;
        while k.is_some() {
            let c = self.nodes[k.idx()].counter_mut(kind);
            c.usage += n;
            c.raise_watermark();
            k = self.refresh(k, kind);
        }
    }

    /// Takes `n` pages off `id` and every ancestor (floor 0). Queues an offline memcg whose last
    /// page went for release.
    #[inline]
    pub fn uncharge_counter(&mut self, id: MemcgId, kind: CounterKind, n: Pages) {
        if id == MemcgId::ROOT {
            return;
        }
        let mut k = id;
        while k.is_some() {
            let memcg = &mut self.nodes[k.idx()];
            let c = memcg.counter_mut(kind);
            debug_assert!(c.usage >= n, "memcg {} uncharged below zero", k.0);
            c.usage = c.usage.saturating_sub(n);
            if c.usage == 0 && !memcg.online {
                self.queue_release(k);
            }
            k = self.refresh(k, kind);
        }
    }

    /// Undoes a partial charge from `id` up to, but excluding, `end`.
    #[cold]
    fn cancel(&mut self, id: MemcgId, end: MemcgId, kind: CounterKind, n: Pages) {
        let mut k = id;
        while k != end {
            self.nodes[k.idx()].counter_mut(kind).usage -= n;
            k = self.refresh(k, kind);
        }
    }

    /// Refreshes the protected usage of `k` in its parent and returns the parent.
    #[inline(always)]
    fn refresh(&mut self, k: MemcgId, kind: CounterKind) -> MemcgId {
        let memcg = &mut self.nodes[k.idx()];
        let parent = memcg.parent;
        if kind == CounterKind::Swap || !parent.is_some() {
            return parent;
        }
        let c = &mut memcg.memory;
        let (min, low) = (c.usage.min(c.min), c.usage.min(c.low));
        if min == c.min_usage && low == c.low_usage {
            return parent;
        }
        let (old_min, old_low) = (c.min_usage, c.low_usage);
        (c.min_usage, c.low_usage) = (min, low);
        let p = &mut self.nodes[parent.idx()].memory;
        p.children_min_usage = p.children_min_usage - old_min + min;
        p.children_low_usage = p.children_low_usage - old_low + low;
        parent
    }

    fn refresh_chain(&mut self, id: MemcgId) {
        let mut k = id;
        while k.is_some() {
            k = self.refresh(k, CounterKind::Memory);
        }
    }

    /// Id check shared by the setters: the root has no settable limit.
    fn settable(&mut self, id: MemcgId, what: &'static str) -> Result<&mut Memcg, MemcgError> {
        if id == MemcgId::ROOT {
            return Err(MemcgError::Root(what));
        }
        if !self.exists(id) {
            return Err(MemcgError::Unknown(id));
        }
        self.limit_changes += 1;
        Ok(&mut self.nodes[id.idx()])
    }

    /// Sets memory.min, pages.
    pub fn set_min(&mut self, id: MemcgId, pages: Pages) -> Result<(), MemcgError> {
        self.settable(id, "protected by memory.min")?.memory.min = pages.min(UNLIMITED);
        self.refresh_chain(id);
        Ok(())
    }

    /// Sets memory.low, pages.
    pub fn set_low(&mut self, id: MemcgId, pages: Pages) -> Result<(), MemcgError> {
        self.settable(id, "protected by memory.low")?.memory.low = pages.min(UNLIMITED);
        self.refresh_chain(id);
        Ok(())
    }

    /// Sets the `high` mark of a counter, pages. Enforcement is [`super::HighWrite`]'s business.
    pub fn set_high(
        &mut self,
        id: MemcgId,
        kind: CounterKind,
        pages: Pages,
    ) -> Result<(), MemcgError> {
        let memcg = self.settable(id, "limited by memory.high")?;
        memcg.counter_mut(kind).high = pages.min(UNLIMITED);
        Ok(())
    }

    /// Swaps in a new hard limit at once, even below the usage (memory.max and memory.swap.max of
    /// cgroup v2). Enforcement is [`super::MaxWrite`]'s business.
    pub fn set_max(
        &mut self,
        id: MemcgId,
        kind: CounterKind,
        pages: Pages,
    ) -> Result<(), MemcgError> {
        let memcg = self.settable(id, "limited by memory.max")?;
        memcg.counter_mut(kind).max = pages.min(UNLIMITED);
        Ok(())
    }
}
