//! The budget: what it is at first, and how it changes while the pool is in use.

use crate::budget::account::holds;
use crate::budget::core::Core;
use crate::config::{PoolConfig, MIN_BUDGET};
use crate::error::{Error, Result};
use crate::pool::inner::{Pool, PoolInner};
use crate::sys::exit::say;
use crate::sys::{cgroup, PAGE};
use std::sync::atomic::Ordering::Relaxed;

/// Reclaim calls in a row that free nothing before a smaller budget is given up.
const IDLE_ROUNDS: u32 = 16;

/// What a process with a pool may take beside the budget, as the manual says: 5 % and this.
const BESIDE: u64 = 6 << 20;

/// The largest budget whose process stays below a limit.
fn most_below(limit: u64) -> u64 {
    limit.saturating_sub(BESIDE) / 21 * 20 / PAGE as u64 * PAGE as u64
}

impl PoolConfig {
    /// With a budget in bytes that the process's memory cgroup has room for.
    pub(crate) fn settled(mut self) -> Result<Self> {
        let limit = cgroup::limit();
        if let Some(share) = self.share {
            let of = match limit {
                Some(l) => l,
                None => cgroup::machine().map_err(Error::io("asking for the machine's memory"))?,
            };
            self.budget = (of as f64 * share) as u64;
        }
        let Some(limit) = limit else { return Ok(self) };
        let most = most_below(limit);
        if most < MIN_BUDGET {
            return Err(Error::Setting {
                what: "the limit of the memory cgroup",
                value: format!("{limit} bytes"),
                range: "a pool of the least size needs 8 MiB; raise memory.max",
            });
        }
        if self.budget > most {
            say(&format!(
                "coldset: a budget of {} bytes does not fit into the memory cgroup's limit of {limit} \
                 bytes; it is {most} bytes\n",
                self.budget
            ));
            self.budget = most;
        }
        Ok(self)
    }
}

impl Pool {
    /// Changes the budget, while the pool is in use. A larger one counts at once; for a smaller one
    /// pages are evicted before this returns.
    ///
    /// # Errors
    /// The budget stays as it was if so much cannot be evicted ([`Error::Shrink`] says how much is
    /// pinned), or if swap and the smaller budget could not hold what has been promised to regions; a
    /// budget below 1 MiB.
    pub fn resize(&self, bytes: u64) -> Result<()> {
        if bytes < MIN_BUDGET {
            return Err(PoolConfig::too_small(bytes));
        }
        let _shield = self.inner.enter()?;
        let _one = self
            .inner
            .resizing
            .lock()
            .unwrap_or_else(|e| e.into_inner());
        let pages = bytes / PAGE as u64;
        self.inner.resize(pages)?;
        self.inner.full_budget.store(pages, Relaxed);
        Ok(())
    }
}

impl PoolInner {
    /// To so many pages. One at a time: the caller holds `resizing`.
    pub(crate) fn resize(&self, pages: u64) -> Result<()> {
        let old = self.gate.budget();
        {
            let mut core = self.core();
            let available = holds(self.config.swap.capacity(), pages);
            if pages < old && core.promised > available && !self.config.overcommit {
                return Err(Error::Promised {
                    asked: pages * PAGE as u64,
                    promised: core.promised,
                    available,
                });
            }
            self.set_budget(&mut core, pages);
        }
        let mut idle = 0;
        while self.gate.used() > self.gate.budget() {
            let above = self.gate.used().saturating_sub(pages);
            let nr = above.clamp(1, 4 * self.config.batch as u64);
            let mut moved = self.reclaim_for_good(self.top, nr);
            if matches!(moved, Ok(0)) {
                moved = Ok(self.flush_some(nr));
            }
            idle = if matches!(moved, Ok(n) if n > 0) {
                0
            } else {
                idle + 1
            };
            if idle < IDLE_ROUNDS {
                // Others may be in the middle of it.
                if idle > 0 {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                continue;
            }
            let refused = self.refused(pages, old);
            self.set_budget(&mut self.core(), old);
            return moved.and(Err(refused));
        }
        Ok(())
    }

    fn set_budget(&self, core: &mut Core, pages: u64) {
        self.gate.set_budget(pages);
        let c = &self.config;
        if let Some(swap) = self
            .swap
            .as_ref()
            .filter(|_| c.swap.memory == 0 && !c.store_outside)
        {
            swap.set_limit(pages * PAGE as u64 / 2);
        }
        self.gone(core, 0);
        self.tell_room(core);
    }

    fn refused(&self, asked: u64, budget: u64) -> Error {
        let regions: Vec<_> = self.core().regions.values().cloned().collect();
        let pinned = |r: &crate::region::area::RegionInner| {
            let known = r.book.records.known(0..r.pages());
            known.filter(|&p| r.words.get(p).pins() > 0).count() as u64
        };
        let bytes = |pages: u64| pages * PAGE as u64;
        Error::Shrink {
            asked: bytes(asked),
            pinned: bytes(regions.iter().map(|r| pinned(r)).sum()),
            store: bytes(self.gate.store() + self.gate.extra()),
            taken: bytes(self.gate.used()),
            budget: bytes(budget),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_below_a_limit_leaves_what_the_manual_says() {
        for limit in [64 << 20, 1u64 << 30, 1 << 40] {
            let b = most_below(limit);
            assert!(
                b + b / 20 + BESIDE <= limit && b > limit / 10 * 8,
                "{limit}: {b}"
            );
        }
        assert_eq!(most_below(1 << 20), 0);
    }
}
