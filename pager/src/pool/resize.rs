//! The budget: what it is at first, and how it changes while the pool is in use.

use crate::budget::account::holds;
use crate::budget::core::Core;
use crate::budget::resources::Resources;
use crate::config::{PoolConfig, MIN_BUDGET};
use crate::error::{Error, Result};
use crate::meanwhile::meanwhile;
use crate::miss::room::Room;
use crate::region::area::Area;
use crate::sys::exit::say;
use crate::sys::{cgroup, PAGE};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

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
    pub(super) fn fitted_to_cgroup(mut self) -> Result<Self> {
        let limit = cgroup::limit();
        if let Some(share) = self.share {
            let of = match limit {
                Some(l) => l,
                None => cgroup::machine().map_err(Error::io("asking for the machine's memory"))?,
            };
            self.budget = (of as f64 * share) as u64;
        }
        // Before it is lowered: what is refused does not depend on where the process runs.
        Self::check_budget(self.budget)?;
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

/// Changes the budget, one change at a time.
#[derive(Debug)]
pub(super) struct Resizer {
    res: Arc<Resources>,
    room: Arc<Room>,
    /// Pages that the program has asked for; under pressure the pool has less.
    asked: Mutex<u64>,
}

impl Resizer {
    pub(super) fn new(res: Arc<Resources>, room: Arc<Room>) -> Self {
        let asked = Mutex::new(res.gate.budget());
        Self { res, room, asked }
    }

    fn asked(&self) -> MutexGuard<'_, u64> {
        self.asked.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// To so many pages, as the program asks.
    ///
    /// # Errors
    /// As `Pool::resize`.
    pub(super) fn resize(&self, pages: u64) -> Result<()> {
        let mut asked = self.asked();
        self.change(pages)?;
        *asked = pages;
        Ok(())
    }

    /// To what `next` makes of the budget and of what the program has asked for.
    pub(super) fn follow(&self, next: impl FnOnce(u64, u64) -> u64) {
        let _passage = self.res.traffic.enter();
        let asked = self.asked();
        let budget = self.res.gate.budget();
        let new = next(budget, *asked);
        if new != budget {
            // Pinned, or promised: tried again when there still is pressure.
            let _still_pinned = self.change(new);
        }
    }

    fn change(&self, pages: u64) -> Result<()> {
        let res = &self.res;
        let old = res.gate.budget();
        if pages < old {
            // Misses of other threads go on meanwhile: pages have what they need before the budget is smaller, and after.
            self.check_promises(&res.core(), pages)?;
            meanwhile();
            if !res.squeeze(pages) {
                let refused = self.refused(pages, old);
                res.set_budget(&mut res.core(), old);
                return Err(refused);
            }
        }
        {
            let mut core = res.core();
            let kept = self.check_promises(&core, pages);
            let to = if kept.is_ok() { pages } else { old };
            res.set_budget(&mut core, to);
            kept?;
        }
        meanwhile();
        let mut idle = 0;
        while res.gate.used() > res.gate.budget() {
            let above = res.gate.used().saturating_sub(pages);
            let nr = above.clamp(1, 4 * res.config.batch as u64);
            let moved = self.room.shrink(res.top, nr);
            if matches!(moved, Ok(n) if n > 0) {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle < IDLE_ROUNDS {
                // Others may be in the middle of it.
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let refused = self.refused(pages, old);
            res.set_budget(&mut res.core(), old);
            return moved.and(Err(refused));
        }
        Ok(())
    }

    /// Could swap and a smaller budget hold what has been promised?
    fn check_promises(&self, core: &Core, pages: u64) -> Result<()> {
        let config = &self.res.config;
        let available = holds(config.swap.capacity(), pages);
        let smaller = pages < self.res.gate.budget();
        if smaller && core.promised() > available && !config.overcommit {
            return Err(Error::Promised {
                asked: pages * PAGE as u64,
                promised: core.promised(),
                available,
            });
        }
        Ok(())
    }

    fn refused(&self, asked: u64, budget: u64) -> Error {
        let gate = &self.res.gate;
        let pinned = |area: &Area| {
            let known = area.known(0..area.pages());
            known.filter(|&p| area.words().get(p).pins() > 0).count() as u64
        };
        let bytes = |pages: u64| pages * PAGE as u64;
        Error::Shrink {
            asked: bytes(asked),
            pinned: bytes(self.res.areas().iter().map(|a| pinned(a)).sum()),
            store: bytes(gate.store() + gate.extra()),
            taken: bytes(gate.used()),
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
