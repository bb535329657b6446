//! What all subjects of a pool work with: the one lock, the gate, the swap, the settings, the counters.

use super::core::Core;
use super::counts::Counts;
use super::deciding::refuse_inside;
use super::gate::Gate;
use super::traffic::{Passage, Traffic};
use super::under_way::UnderWay;
use crate::config::PoolConfig;
use crate::error::{Error, Result};
use crate::policy::{Policy, PolicyConfig};
use crate::region::area::Area;
use crate::store::errseq::ErrSeq;
use crate::store::Swap;
use crate::sys::clock;
use crate::sys::fork::Generation;
use crate::sys::fuse::Fuse;
use crate::sys::maps::Maps;
use crate::sys::pagemap::Pagemap;
use crate::sys::signals::Shield;
use coldset_engine::{Counter, MemcgId};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};

/// Shared by everything that moves pages of a pool.
pub(crate) struct Resources {
    pub(crate) config: PoolConfig,
    /// Held for bookkeeping only, never over I/O, a copy or a system call.
    core: Mutex<Core>,
    /// The root group. Here for a child of fork, in which the lock may never come free.
    pub(crate) top: MemcgId,
    pub(crate) gate: Gate,
    pub(crate) swap: Option<Swap>,
    /// None in explicit mode.
    pub(crate) pagemap: Option<Pagemap>,
    pub(crate) counts: Counts,
    /// Errors of writes that nobody waited for, of all files and of the swap.
    pub(crate) errors: ErrSeq,
    /// Operations under way.
    pub(crate) traffic: Traffic,
    /// Writes of dirty pages under way.
    pub(crate) writes: UnderWay,
    /// Reads under way of pages that come in, and have room.
    pub(crate) reads: UnderWay,
    /// What is mapped where, once it is asked for; none if the kernel does not tell.
    pub(crate) maps: OnceLock<Option<Maps>>,
    pid: u32,
    made_in: Generation,
}

/// A call into the pool: no handlers meanwhile, a panic ends the process, and it is counted.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    _passage: Passage<'a>,
    _alone: Shielded,
}

/// A call that may wait for calls to end: the same, but not counted.
#[derive(Debug)]
pub(crate) struct Shielded {
    // Dropped first.
    _fuse: Fuse,
    _shield: Shield,
}

/// Without the engine: whoever formats a pool holds no lock of it.
impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Resources");
        all.field("config", &self.config).finish_non_exhaustive()
    }
}

impl Resources {
    pub(crate) fn new(
        config: PoolConfig,
        policy: Policy,
        budget: u64,
        swap: Option<Swap>,
        pagemap: Option<Pagemap>,
        counts: Counts,
    ) -> Self {
        Self {
            config,
            top: policy.top,
            core: Mutex::new(Core::new(policy)),
            gate: Gate::new(budget),
            swap,
            pagemap,
            counts,
            errors: ErrSeq::default(),
            traffic: Traffic::default(),
            writes: UnderWay::default(),
            reads: UnderWay::default(),
            maps: OnceLock::new(),
            pid: std::process::id(),
            made_in: Generation::this(),
        }
    }

    /// Has this process made the pool?
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Refuses use by a child of fork without a system call, for what is asked very often. A child of a `clone` that the C
    /// library knows nothing of is not noticed.
    #[inline]
    pub(crate) fn refuse_forked(&self) -> Result<()> {
        match self.made_in.is_over() {
            true => Err(Error::Forked),
            false => Ok(()),
        }
    }

    /// The lock. A panic while it was held has left the engine in an unknown state.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        let core = self.core_unless_failed();
        core.expect("the pager has failed before")
    }

    /// Looks at the engine from outside of the pager. A handler of the application that missed on this thread meanwhile would
    /// wait for itself. None if a panic has left the engine in an unknown state.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Core) -> T) -> Option<T> {
        let _shield = Shield::new();
        let core = self.core_unless_failed()?;
        Some(at(&core))
    }

    /// For what cannot return an error: a child of fork panics, where the lock may be held for ever.
    pub(crate) fn of_this_process(&self) -> &Self {
        assert!(self.is_of_this_process(), "{}", Error::Forked);
        self
    }

    /// The lock, unless a panic has left the engine in an unknown state.
    pub(crate) fn core_unless_failed(&self) -> Option<MutexGuard<'_, Core>> {
        let (mut core, asked) = match self.core.try_lock() {
            Ok(core) => (core, None),
            Err(TryLockError::Poisoned(_)) => return None,
            Err(TryLockError::WouldBlock) => {
                let asked = clock::now();
                (self.core.lock().ok()?, Some(asked))
            }
        };
        let now = clock::now();
        if let Some(asked) = asked {
            self.counts.lock_ns.add(now - asked);
        }
        core.policy.set_now(now);
        Some(core)
    }

    /// Refuses use by a child of fork, and keeps signal handlers away meanwhile.
    pub(crate) fn enter(&self) -> Result<Inside<'_>> {
        refuse_inside()?;
        self.enter_to_end()
    }

    /// The same for a region that goes away. That may be at any moment, also while a policy thinks.
    pub(crate) fn enter_to_end(&self) -> Result<Inside<'_>> {
        let _alone = self.shield()?;
        let _passage = self.traffic.enter();
        Ok(Inside { _passage, _alone })
    }

    /// The same for what is no operation: it may wait for operations to end.
    pub(crate) fn shield(&self) -> Result<Shielded> {
        if !self.is_of_this_process() {
            return Err(Error::Forked);
        }
        Ok(Shielded {
            _fuse: Fuse::new(),
            _shield: Shield::new(),
        })
    }

    /// What the policy was made from.
    pub(crate) fn policy_config(&self) -> PolicyConfig {
        PolicyConfig {
            switches: self.config.switches.clone(),
            budget: self.gate.budget(),
            slots: self.swap.as_ref().map_or(0, Swap::slots),
        }
    }

    /// Dirty pages of files, as far as known.
    pub(crate) fn dirty_pages(&self) -> u64 {
        let core = self.core();
        let dirty = core
            .policy
            .engine()
            .memcgs
            .live(self.top, Counter::FileDirty);
        dirty.max(0) as u64
    }

    /// All regions, oldest first.
    pub(crate) fn areas(&self) -> Vec<Arc<Area>> {
        self.core().regions().cloned().collect()
    }

    /// An error of a write to a region's file that nobody waited for.
    pub(crate) fn note_error(&self, area: &Area, e: &io::Error) {
        let Some(file) = area.writable_file() else {
            return;
        };
        file.errors.note(file.doing("writing"), e);
        self.errors.note(file.doing("writing"), e);
    }
}
