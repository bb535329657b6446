//! Groups: the engine's memcgs, as a tree below the budget.

use crate::budget::core::Core;
use crate::config::FaultMode;
use crate::error::{Error, Result};
use crate::policy::{Fed, LimitWrite, Stepped};
use crate::pool::inner::{Pool, PoolInner};
use crate::sys::fork::OfMaker;
use crate::sys::probe::probe_threads;
use crate::sys::PAGE;
use coldset_engine::memcg::{WriteStep, UNLIMITED};
use coldset_engine::{Counter, MemcgId};
use std::sync::Arc;

/// A group of regions with limits of its own. Clones name the same group; it exists as long as its
/// pool.
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) pool: Arc<OfMaker<PoolInner>>,
    pub(crate) memcg: MemcgId,
    name: String,
    /// Misses of regions made through this handle are handled by threads.
    pub(crate) threads: bool,
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

    /// A kernel takes any pair, because its files are written one after the other. Who says both at once has mixed them up.
    fn check(self) -> Result<()> {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min > max && min != u64::MAX => Err(Error::Setting {
                what: "min of a group",
                value: format!("{min} bytes"),
                range:
                    "it is at most the max that is set with it; set only max to keep a greater min",
            }),
            _ => Ok(()),
        }
    }
}

/// Bytes of a group's name, without those above it. Names are labels of metrics.
const LONGEST_NAME: usize = 255;

fn pages(bytes: u64) -> u64 {
    (bytes / PAGE as u64).min(UNLIMITED)
}

impl Pool {
    /// The group that everything belongs to; its `max` is the budget.
    pub fn root(&self) -> Group {
        Group {
            pool: self.inner.clone(),
            memcg: self.inner.res.top,
            name: "/".into(),
            threads: self.inner.res.config.fault == FaultMode::Thread,
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
    /// A group below this one. Its path, which is that of this group with `/` and the name behind it, must be no
    /// other group's: metrics and snapshots go by it. A name has at most 255 bytes and no control characters; one with `/`
    /// in it is a longer path, without groups in between. A group exists as long as its pool, and so does its name.
    ///
    /// # Errors
    /// [`Error::GroupName`]: an empty name, one that is taken, too long, or has control characters; [`Error::Forked`]; too many groups;
    /// limits that [`Group::set`] refuses.
    pub fn group(&self, name: &str, limits: Limits) -> Result<Group> {
        // The name may lie in managed memory: copied before any lock is taken.
        let given = name.to_string();
        let name = format!("{}/{given}", self.name.trim_end_matches('/'));
        let refused = |why| Error::GroupName {
            name: given.clone(),
            parent: self.name.clone(),
            why,
        };
        if given.trim_matches('/').is_empty() {
            return Err(refused("it is empty; give it one to be known by"));
        }
        if given.chars().any(char::is_control) {
            return Err(refused(
                "it has control characters, which would reach terminals; leave them out",
            ));
        }
        if given.len() > LONGEST_NAME {
            return Err(refused(
                "it is longer than 255 bytes; give it a shorter one",
            ));
        }
        limits.check()?;
        let _shield = self.pool.res.enter()?;
        let memcg = {
            let mut core = self.pool.res.core();
            if core.group_names.values().any(|taken| *taken == name) {
                return Err(refused(
                    "there is a group of this name, and it exists as long as the pool; keep its handle (clones name \
                     the same group), or take another name",
                ));
            }
            let memcg = core.policy.group(self.memcg)?;
            core.group_names.insert(memcg, name.clone());
            memcg
        };
        let group = Group {
            pool: self.pool.clone(),
            memcg,
            name,
            threads: self.threads,
        };
        if let Err(e) = group.set(limits) {
            // Nobody has it: the name is free for another try.
            self.pool.res.core().group_names.remove(&memcg);
            return Err(e);
        }
        Ok(group)
    }

    /// The same group, but misses of regions made through it (and through groups below it) are
    /// handled by threads of the pool, as [`FaultMode::Thread`] does it for all regions.
    ///
    /// # Errors
    /// [`Error::Missing`] names the privilege that is missing; a pool in explicit mode.
    pub fn with_handler_threads(&self) -> Result<Group> {
        let _shield = self.pool.res.enter()?;
        if self.pool.res.pagemap.is_none() {
            return Err(Error::Mode(
                "a pool in explicit mode has no misses to handle",
            ));
        }
        probe_threads(&self.pool.res.config.denied)?;
        Ok(Group {
            threads: true,
            ..self.clone()
        })
    }

    /// Is it one of this pool's?
    pub fn is_of(&self, pool: &Pool) -> bool {
        Arc::ptr_eq(&self.pool, &pool.inner)
    }

    /// Path of names from the pool's root, which is `/`: `/outer/inner`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of pages of the group and below that are charged.
    ///
    /// # Panics
    /// In a child of fork.
    pub fn usage(&self) -> u64 {
        let usage = |core: &Core| core.policy.engine().memcgs[self.memcg].memory().usage();
        self.look(usage) * PAGE as u64
    }

    /// A counter by the kernel's name, for the group and below; none if a pool does not count this. What each counts:
    /// [`Stats::engine`](crate::Stats::engine).
    ///
    /// # Panics
    /// In a child of fork.
    pub fn counter(&self, c: Counter) -> Option<i64> {
        self.look(|core| core.counter(self.memcg, c))
    }

    /// `[seq, anonymous pages, file pages]` of each generation of the group itself, oldest first;
    /// empty under a policy without generations.
    ///
    /// # Panics
    /// In a child of fork.
    pub fn generations(&self) -> Vec<[u64; 3]> {
        self.look(|core| core.policy.engine().generations(self.memcg))
    }

    fn look<T>(&self, at: impl FnOnce(&Core) -> T) -> T {
        let res = self.pool.res.of_this_process();
        res.look(at).expect("the pager has failed before")
    }

    /// Changes limits. A lower `max` or `high` takes effect before this returns, as far as pages can
    /// be evicted. A higher one holds for all misses from then on; a thread that has begun to reclaim for
    /// the old one, read-ahead for instance, still takes its batch.
    ///
    /// # Errors
    /// [`Error::Forked`]; the root's limits are the budget and cannot be set; a `min` above the `max` that is set with it,
    /// unless it is [`u64::MAX`], everything.
    pub fn set(&self, limits: Limits) -> Result<()> {
        limits.check()?;
        let _shield = self.pool.res.enter()?;
        if self.memcg == self.pool.res.top {
            return Err(Error::Mode(
                "the limit of the root group is the pool's budget",
            ));
        }
        if limits.min.is_some() || limits.low.is_some() {
            let (min, low) = (limits.min.map(pages), limits.low.map(pages));
            self.pool.res.core().policy.protect(self.memcg, min, low)?;
        }
        for (max, bytes) in [(false, limits.high), (true, limits.max)] {
            if let Some(b) = bytes {
                let w = self
                    .pool
                    .res
                    .core()
                    .policy
                    .limit(self.memcg, max, pages(b))?;
                self.run(w)?;
            }
        }
        Ok(())
    }

    fn run(&self, mut w: Stepped<LimitWrite>) -> Result<()> {
        loop {
            let step = self.pool.res.core().policy.limit_step(&mut w);
            match step {
                WriteStep::Reclaim { memcg, nr, .. } => {
                    w.feed(Fed::Reclaimed(self.pool.room.shrink(memcg, nr)?));
                }
                WriteStep::DrainLruBatches => self.pool.res.core().policy.drain(),
                // Nobody is killed: the limit stays, and misses above it fail or wait.
                WriteStep::Oom { .. } | WriteStep::Done(_) => return Ok(()),
            }
        }
    }
}
