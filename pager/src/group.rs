//! Groups: the engine's memcgs, as a tree below the budget.

use crate::core::CPU;
use crate::error::{Error, Result};
use crate::pool::{Pool, PoolInner};
use crate::sys::PAGE;
use coldset_engine::memcg::{HighWrite, MaxWrite, WriteStep, UNLIMITED};
use coldset_engine::reclaim::ReclaimTask;
use coldset_engine::{Counter, MemcgId, NodeId};
use std::sync::Arc;

/// A group of regions with limits of its own. Clones name the same group; it exists as long as its
/// pool.
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) pool: Arc<PoolInner>,
    pub(crate) memcg: MemcgId,
    name: String,
}

/// Limits of a group in bytes, rounded down to pages. `None` leaves a value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Never reclaimed below this.
    pub min: Option<u64>,
    /// Reclaimed below this only if there is no other way.
    pub low: Option<u64>,
    /// Above this, misses of the group reclaim and wait.
    pub high: Option<u64>,
    /// Never above this.
    pub max: Option<u64>,
}

impl Limits {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `min`.
    pub fn min(mut self, bytes: u64) -> Self {
        self.min = Some(bytes);
        self
    }

    /// Sets `low`.
    pub fn low(mut self, bytes: u64) -> Self {
        self.low = Some(bytes);
        self
    }

    /// Sets `high`.
    pub fn high(mut self, bytes: u64) -> Self {
        self.high = Some(bytes);
        self
    }

    /// Sets `max`.
    pub fn max(mut self, bytes: u64) -> Self {
        self.max = Some(bytes);
        self
    }
}

fn pages(bytes: u64) -> u64 {
    (bytes / PAGE as u64).min(UNLIMITED)
}

impl Pool {
    /// The group that everything belongs to; its `max` is the budget.
    pub fn root(&self) -> Group {
        Group {
            pool: self.inner.clone(),
            memcg: self.inner.core().top,
            name: "/".into(),
        }
    }

    /// A group directly below the budget.
    ///
    /// # Errors
    /// As [`Group::group`].
    pub fn group(&self, name: &str, limits: Limits) -> Result<Group> {
        self.root().group(name, limits)
    }
}

impl Group {
    /// A group below this one.
    ///
    /// # Errors
    /// [`Error::Forked`]; too many groups.
    pub fn group(&self, name: &str, limits: Limits) -> Result<Group> {
        // The name may lie in managed memory: copied before any lock is taken.
        let name = format!("{}/{name}", self.name.trim_end_matches('/'));
        let _shield = self.pool.enter()?;
        let memcg = self.pool.core().engine.memcg_create(self.memcg)?;
        let group = Group {
            pool: self.pool.clone(),
            memcg,
            name,
        };
        group.set(limits)?;
        Ok(group)
    }

    /// Path of names from the pool's root.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of pages of the group and below that are charged.
    pub fn usage(&self) -> u64 {
        self.pool.core().engine.memcgs[self.memcg].memory().usage() * PAGE as u64
    }

    /// One of the engine's counters, for the group and below.
    pub fn counter(&self, c: Counter) -> i64 {
        self.pool.core().engine.memcgs.live(self.memcg, c)
    }

    /// `[seq, anonymous pages, file pages]` of each generation of the group itself, oldest first;
    /// empty under a policy without generations.
    pub fn generations(&self) -> Vec<[u64; 3]> {
        self.pool.core().engine.generations(self.memcg)
    }

    /// Changes limits. A lower `max` or `high` takes effect before this returns, as far as pages can
    /// be evicted.
    ///
    /// # Errors
    /// [`Error::Forked`]; the root's limits are the budget and cannot be set.
    pub fn set(&self, limits: Limits) -> Result<()> {
        let _shield = self.pool.enter()?;
        if self.memcg == self.pool.core().top {
            return Err(Error::Mode(
                "the limit of the root group is the pool's budget",
            ));
        }
        {
            let mut core = self.pool.core();
            let tree = &mut core.engine.memcgs;
            if let Some(b) = limits.min {
                tree.set_min(self.memcg, pages(b))?;
            }
            if let Some(b) = limits.low {
                tree.set_low(self.memcg, pages(b))?;
            }
        }
        if let Some(b) = limits.high {
            let w = HighWrite::new(&mut self.pool.core().engine.memcgs, self.memcg, pages(b))?;
            self.drive_high(w)?;
        }
        if let Some(b) = limits.max {
            let w = MaxWrite::new(&mut self.pool.core().engine.memcgs, self.memcg, pages(b))?;
            self.drive_max(w)?;
        }
        Ok(())
    }

    fn do_step(&self, step: WriteStep) -> Result<Option<u64>> {
        Ok(match step {
            WriteStep::Reclaim { memcg, nr, .. } => {
                let task = ReclaimTask::limit(memcg, nr, CPU, NodeId(0));
                let mut freed = self.pool.reclaim(task)?.reclaimed;
                if freed == 0 {
                    freed = self.pool.flush_some(nr)?;
                }
                Some(freed)
            }
            WriteStep::DrainLruBatches => {
                self.pool.core().engine.lru_add_drain_all();
                None
            }
            WriteStep::Oom { .. } | WriteStep::Done(_) => None,
        })
    }

    fn drive_high(&self, mut w: HighWrite) -> Result<()> {
        loop {
            let step = w.step(&mut self.pool.core().engine.memcgs, false);
            if let WriteStep::Done(_) = step {
                return Ok(());
            }
            if let Some(freed) = self.do_step(step)? {
                w.reclaim_done(freed);
            }
        }
    }

    fn drive_max(&self, mut w: MaxWrite) -> Result<()> {
        loop {
            let step = w.step(&mut self.pool.core().engine.memcgs, false);
            match step {
                WriteStep::Done(_) => return Ok(()),
                // Nobody is killed: the limit stays, and misses above it fail or wait.
                WriteStep::Oom { .. } => return Ok(()),
                other => {
                    if let Some(freed) = self.do_step(other)? {
                        w.reclaim_done(freed);
                    }
                }
            }
        }
    }
}
