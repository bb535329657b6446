//! Room for pages: charges of a group, and places in memory.

use crate::budget::resources::Resources;
use crate::error::{Error, Result};
use crate::evict::background::Background;
use crate::evict::reclaim::Reclaimer;
use crate::meanwhile::meanwhile;
use crate::policy::Fed;
use crate::writeback::flush::Writeback;
use coldset_engine::memcg::{ChargeStep, HighStep, TaskMemcg};
use coldset_engine::MemcgId;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

/// Rounds of 17 fruitless reclaim calls, with nobody else evicting anything, before a charge fails.
const IDLE_ROUNDS: u32 = 3;
/// Attempts to find room before a miss is given up.
const ROOM_RETRIES: u32 = 64;

/// Makes room.
#[derive(Debug)]
pub(crate) struct Room {
    res: Arc<Resources>,
    reclaimer: Arc<Reclaimer>,
    writeback: Arc<Writeback>,
    background: Arc<Background>,
}

impl Room {
    pub(crate) fn new(
        res: Arc<Resources>,
        reclaimer: Arc<Reclaimer>,
        writeback: Arc<Writeback>,
        background: Arc<Background>,
    ) -> Self {
        Self {
            res,
            reclaimer,
            writeback,
            background,
        }
    }

    fn batch(&self) -> u64 {
        self.res.config.batch as u64
    }

    /// Reclaims below a group; if nothing is freed, writes dirty pages, so that the next attempt may free
    /// them. Returns pages freed or written. For limits and budgets that get smaller.
    pub(crate) fn shrink(&self, memcg: MemcgId, nr: u64) -> Result<u64> {
        let (freed, written) = self.reclaim_or_write(memcg, nr, nr)?;
        Ok(freed.max(written))
    }

    /// Charges pages to a group; without `must`, only if there is room or one reclaim makes it. True if
    /// charged.
    fn charge(&self, memcg: MemcgId, pages: u64, must: bool) -> Result<bool> {
        let mut task = TaskMemcg::default();
        let fast = self.res.core().policy.charge(memcg, pages, &mut task);
        if let Err(over) = fast {
            if must {
                self.charge_slow(memcg, pages, over, &mut task)?;
            } else if !self.charge_once_more(memcg, pages, over, &mut task)? {
                return Ok(false);
            }
        }
        if task.over_high > 0 {
            if let Err(failure) = self.over_high(memcg, &mut task) {
                self.uncharge(memcg, pages);
                return Err(failure);
            }
        }
        Ok(true)
    }

    /// Read-ahead is worth one reclaim, which the miss itself would need anyway.
    fn charge_once_more(
        &self,
        memcg: MemcgId,
        pages: u64,
        over: MemcgId,
        high: &mut TaskMemcg,
    ) -> Result<bool> {
        self.reclaimer
            .reclaim(over, pages.max(self.batch()), false)?;
        meanwhile();
        Ok(self.res.core().policy.charge(memcg, pages, high).is_ok())
    }

    fn charge_slow(
        &self,
        memcg: MemcgId,
        pages: u64,
        over: MemcgId,
        high: &mut TaskMemcg,
    ) -> Result<()> {
        let mut task = self.res.core().policy.charge_on(memcg, pages, over);
        let mut evicted = self.res.counts.evicted.load(Relaxed);
        let mut idle = 0;
        loop {
            let step = self.res.core().policy.charge_step(&mut task, high);
            match step {
                ChargeStep::Reclaim { over, nr } => {
                    let nr = nr.max(self.batch());
                    task.feed(Fed::Reclaimed(self.reclaim_or_flush(over, nr)?));
                }
                ChargeStep::Oom { .. } => {
                    // Nobody is killed here. As long as anything leaves memory, or is about to, by
                    // any thread, another attempt is worth it.
                    let now = self.res.counts.evicted.load(Relaxed);
                    let nothing = now == evicted && !self.res.gate.any_leaving();
                    idle = if nothing { idle + 1 } else { 0 };
                    evicted = now;
                    task.feed(Fed::Oom(idle < IDLE_ROUNDS));
                    std::thread::sleep(Duration::from_millis(1));
                }
                ChargeStep::Done(Ok(_)) => return Ok(()),
                ChargeStep::Done(Err(_)) => return Err(self.no_memory(memcg, pages)),
            }
        }
    }

    fn no_memory(&self, memcg: MemcgId, pages: u64) -> Error {
        let group = match self.res.core().group_names.get(&memcg) {
            Some(path) => format!("the group {path}"),
            None => "the pool".into(),
        };
        Error::NoMemory {
            pages,
            group,
            pinning: false,
            failed: self.res.errors.latest(),
        }
    }

    /// Reclaims below a group. If nothing is freed, takes back what is lent; then writes at least `dirty` dirty pages; if there
    /// are none either, compressed contents go to the swap file; then what could be freed may be in other hands: waits
    /// until one of their writes, and one of their reads, has ended. Returns pages freed, and written.
    fn reclaim_or_write(&self, memcg: MemcgId, nr: u64, dirty: u64) -> Result<(u64, u64)> {
        let mut freed = self.reclaimer.reclaim(memcg, nr, false)?;
        if freed == 0 {
            freed = self.res.end_loans_of_all(false);
        }
        if freed > 0 {
            return Ok((freed, 0));
        }
        let written = self.writeback.flush_some(dirty);
        if written == 0 {
            // Of the budget, not of a group.
            let spilled = if memcg == self.res.top {
                self.res.spill(nr)
            } else {
                0
            };
            if spilled > 0 {
                return Ok((spilled, 0));
            }
            meanwhile();
            self.res.writes.wait();
            self.res.reads.wait();
            // Others may be in the middle of an eviction.
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok((0, written))
    }

    /// Reclaims for a charge; if nothing but dirty pages is left, writes some of them. Returns pages freed.
    fn reclaim_or_flush(&self, memcg: MemcgId, nr: u64) -> Result<u64> {
        let (freed, _) = self.reclaim_or_write(memcg, nr, self.batch() * 4)?;
        Ok(freed)
    }

    /// Above memory.high: reclaims, then sleeps the penalty.
    ///
    /// # Errors
    /// A policy outside of the engine has failed.
    fn over_high(&self, memcg: MemcgId, task: &mut TaskMemcg) -> Result<()> {
        let (mut high, hz) = {
            let mut core = self.res.core();
            let over_high = std::mem::take(&mut task.over_high);
            let high = core.policy.high(memcg, over_high);
            (high, u64::from(core.policy.engine().config().hz))
        };
        loop {
            let step = self.res.core().policy.high_step(&mut high);
            match step {
                HighStep::Reclaim { over, nr } => {
                    let freed = self.reclaimer.reclaim(over, nr, false);
                    if let Err(failure @ Error::Policy(_)) = freed {
                        return Err(failure);
                    }
                    high.feed(Fed::Reclaimed(freed.unwrap_or(0)));
                }
                HighStep::Sleep { jiffies } => {
                    std::thread::sleep(Duration::from_millis(jiffies * 1000 / hz));
                }
                HighStep::Done => return Ok(()),
            }
        }
    }

    /// Gives charges back that led to no page.
    pub(crate) fn uncharge(&self, memcg: MemcgId, pages: u64) {
        if pages > 0 {
            self.res.core().policy.uncharge(memcg, pages);
        }
    }

    /// Charges pages and makes sure that there is room for them.
    pub(crate) fn make_room(&self, memcg: MemcgId, pages: u64, must: bool) -> Result<bool> {
        self.reclaimer.expect(pages)?;
        for _ in 0..ROOM_RETRIES {
            if !self.charge(memcg, pages, must)? {
                return Ok(false);
            }
            meanwhile();
            if self.res.gate.enter(pages).is_ok() {
                self.background.keep_ahead();
                return Ok(true);
            }
            // The store has grown since the charge: make room for both.
            self.uncharge(memcg, pages);
            if !must {
                return Ok(false);
            }
            self.reclaim_or_flush(self.res.top, self.batch())?;
        }
        Err(self.no_memory(memcg, pages))
    }
}
