//! The pool: a budget, an engine, a swap, and the regions that share them.

use crate::budget::core::Core;
use crate::budget::gate::Gate;
use crate::budget::stock::{Lent, Stock};
use crate::budget::traffic::{Passage, Traffic};
use crate::config::{FaultMode, PoolConfig, SwapFile as ConfiguredFile};
use crate::error::{Error, Result};
use crate::evict::background::Background;
use crate::evict::evictor::Evictor;
use crate::evict::recompress::Recompressor;
use crate::journal::NewJournal;
use crate::miss::ahead::Ahead;
use crate::miss::fill::Bounce;
use crate::miss::handler::Handlers;
use crate::observe;
use crate::policy::{Fed, Policy, PolicyConfig};
use crate::pool::pressure::Watch;
use crate::pool::stat::Counts;
use crate::region::area::Faults;
use crate::store::swap_file::SwapFile;
use crate::store::{Compressed, FileStorage, Storage, Swap};
use crate::sys::fuse::Fuse;
use crate::sys::memfd::Memfd;
use crate::sys::pagemap::Pagemap;
use crate::sys::probe::{probe, probe_threads, Missing};
use crate::sys::signals::Shield;
use crate::sys::{clock, sigbus, PAGE};
use crate::writeback::errseq::{Cursor, ErrSeq};
use crate::writeback::flush::Flusher;
use coldset_engine::memcg::{ChargeStep, HighStep, TaskMemcg};
use coldset_engine::switches::PolicyKind;
use coldset_engine::MemcgId;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Duration;

/// A pool of real memory. Clones name the same pool; it lives as long as one of them or a region.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) inner: Arc<PoolInner>,
    /// Errors that [`Pool::sync`] of this handle has told.
    pub(crate) told: Cursor,
}

/// The shared part.
#[derive(Debug)]
pub(crate) struct PoolInner {
    pub(crate) config: PoolConfig,
    core: Mutex<Core>,
    /// The root group. Here for a child of fork, in which the lock may never come free.
    pub(crate) top: MemcgId,
    pub(crate) gate: Gate,
    pub(crate) swap: Option<Swap>,
    pub(crate) pagemap: Option<Pagemap>,
    /// Why misses cannot be handled by SIGBUS, in explicit mode chosen by [`FaultMode::Auto`].
    pub(crate) missing: Option<Missing>,
    pub(crate) counts: Counts,
    /// Errors of writes that nobody waited for, of all files and of the swap.
    pub(crate) errors: ErrSeq,
    pub(crate) flusher: Flusher,
    pub(crate) background: Background,
    pub(crate) ahead: Ahead,
    pub(crate) recompressor: Recompressor,
    /// One sweep at a time; others use what it finds.
    pub(crate) sweeping: Mutex<()>,
    /// Pages evicted since the last sweep that the host made by itself.
    pub(crate) since_sweep: AtomicU64,
    evictors: Stock<Evictor>,
    bounces: Stock<Bounce>,
    /// Operations under way.
    pub(crate) traffic: Traffic,
    /// One beginning of a journal at a time.
    pub(crate) recording: Mutex<()>,
    /// Holds the pages of all regions, outside of explicit mode.
    file: Option<Arc<Memfd>>,
    /// Whose misses are signals.
    sigbus: Option<Handlers>,
    /// Threads that handle misses, once a region asks for them.
    handlers: Mutex<Option<Handlers>>,
    /// One change of the budget at a time.
    pub(crate) resizing: Mutex<()>,
    /// Pages of the budget that the program has asked for; under pressure it has less.
    pub(crate) full_budget: AtomicU64,
    pressure: OnceLock<Watch>,
    pub(crate) pid: u32,
    /// Number in the process.
    pub(crate) id: u64,
    pub(crate) born_ns: u64,
    metrics_at: Option<std::net::SocketAddr>,
}

/// A call into the pool: no handlers meanwhile, no way on after a panic, and counted.
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

impl Pool {
    /// Makes a pool.
    ///
    /// # Errors
    /// A setting out of range; a missing feature of the kernel ([`Error::Missing`] names it and the
    /// fallback); the swap file.
    pub fn new(config: PoolConfig) -> Result<Self> {
        let config = config.settled()?;
        config.check()?;
        let metrics_at = observe::begin(&config)?;
        let missing = match config.fault {
            FaultMode::Explicit => None,
            FaultMode::Sigbus => {
                probe(&config.denied)?;
                None
            }
            FaultMode::Thread => {
                probe_threads(&config.denied)?;
                None
            }
            FaultMode::Auto => match probe(&config.denied) {
                // Explicit mode would be no answer to it.
                Err(m) if m.shortage().is_some() => return Err(m.into()),
                other => other.err(),
            },
        };
        let faulting = config.fault != FaultMode::Explicit && missing.is_none();
        let pagemap = if faulting {
            if config.fault != FaultMode::Thread {
                sigbus::install(crate::miss::fill::on_miss)?;
            }
            Some(Pagemap::open().map_err(Error::sys("opening /proc/self/pagemap"))?)
        } else {
            None
        };
        let (mut file, mut sigbus) = (None, None);
        if faulting {
            let made = Memfd::new().map_err(Error::sys("making a file in memory"))?;
            file = Some(Arc::new(made));
            if config.fault != FaultMode::Thread {
                sigbus = Some(Handlers::sigbus()?);
            }
        }
        let budget = config.budget / PAGE as u64;
        let counts = Counts::default();
        let swap = make_swap(&config, &counts)?;
        let policy = PolicyConfig {
            switches: config.switches.clone(),
            budget,
            slots: swap.as_ref().map_or(0, Swap::slots),
        };
        let recorder = match config.journal_path() {
            None => None,
            Some(path) => {
                let new = NewJournal::create(&path)?.start(&policy, None);
                Some(new.map_err(Error::io("creating the journal"))?)
            }
        };
        let policy = Policy::new(&policy, recorder)?;
        let inner = Arc::new(PoolInner {
            top: policy.top,
            core: Mutex::new(Core::new(policy)),
            gate: Gate::new(budget),
            swap,
            pagemap,
            missing,
            errors: ErrSeq::default(),
            counts,
            flusher: Flusher::default(),
            background: Background::default(),
            ahead: Ahead::default(),
            recompressor: Recompressor::default(),
            sweeping: Mutex::new(()),
            since_sweep: AtomicU64::new(0),
            evictors: Stock::new(evictors(), |_| Evictor::new(evicted_together(&config)))?,
            bounces: Stock::new(BOUNCES, |_| Bounce::new())?,
            traffic: Traffic::default(),
            recording: Mutex::new(()),
            file,
            sigbus,
            handlers: Mutex::new(None),
            resizing: Mutex::new(()),
            full_budget: AtomicU64::new(budget),
            pressure: OnceLock::new(),
            pid: std::process::id(),
            id: observe::registry::next_id(),
            metrics_at,
            born_ns: clock::now(),
            config,
        });
        Recompressor::start(&inner)?;
        if let Some(p) = &inner.config.pressure {
            let _first = inner.pressure.set(Watch::start(&inner, p)?);
        }
        observe::registry::add(&inner);
        let told = Cursor::now();
        Ok(Self { inner, told })
    }

    /// Why the pool fell back to explicit mode; none if it did not.
    pub fn fallback(&self) -> Option<&Missing> {
        self.inner.missing.as_ref()
    }

    /// Where the process answers Prometheus; none if the pool was not asked to.
    pub fn metrics_address(&self) -> Option<std::net::SocketAddr> {
        self.inner.metrics_at
    }

    /// Bytes that pages in memory and compressed contents may take together.
    pub fn budget(&self) -> u64 {
        self.inner.gate.budget() * PAGE as u64
    }
}

fn make_swap(config: &PoolConfig, counts: &Counts) -> Result<Option<Swap>> {
    let s = &config.swap;
    let slots = (s.capacity() / PAGE as u64) as u32;
    if slots == 0 {
        return Ok(None);
    }
    let io = Error::io("making the swap");
    let memory = if s.compressed > 0 {
        let limit = if s.memory > 0 {
            s.memory
        } else if config.store_outside {
            s.compressed
        } else {
            config.budget / 2
        };
        Some(Compressed::new(slots, limit, s.codec).map_err(&io)?)
    } else {
        None
    };
    let bytes = u64::from(slots) * PAGE as u64;
    let patient = |f: Arc<dyn Storage>| counts.retrying(f);
    let file: Option<Arc<dyn Storage>> = match &s.file {
        None => None,
        Some(ConfiguredFile::Storage(f)) => Some(f.clone()),
        Some(ConfiguredFile::Temporary) => Some(patient(Arc::new(
            FileStorage::temporary(bytes).map_err(Error::io("creating a temporary swap file"))?,
        ))),
        Some(ConfiguredFile::Path(p)) => Some(patient(Arc::new(
            SwapFile::create(p, bytes).map_err(Error::at("creating the swap file"))?,
        ))),
    };
    let made = Swap::new(slots, memory, file, s.encrypt, config.full_wait);
    Ok(Some(made.map_err(&io)?))
}

impl PoolInner {
    /// The lock. A panic while it was held has left the engine in an unknown state.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        let core = self.core_unless_failed();
        core.expect("the pager has failed before")
    }

    /// For what cannot return an error: a child of fork panics, where the lock may be held for ever.
    pub(crate) fn of_this_process(&self) -> &Self {
        assert!(std::process::id() == self.pid, "{}", Error::Forked);
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
        let _alone = self.shield()?;
        let _passage = self.traffic.enter();
        Ok(Inside { _passage, _alone })
    }

    /// The same for what is no operation: it may wait for operations to end.
    pub(crate) fn shield(&self) -> Result<Shielded> {
        if std::process::id() != self.pid {
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

    /// What a region takes its pages from, and who is told of its misses: threads of the pool, if it
    /// wants that. None in explicit mode.
    pub(crate) fn faults(&self, threads: bool) -> Result<Option<Faults>> {
        let Some(file) = self.file.clone() else {
            return Ok(None);
        };
        let uffd = match &self.sigbus {
            Some(h) if !threads => h.uffd(),
            _ => {
                let mut handlers = self.handlers.lock().expect("handlers");
                let h = match handlers.take() {
                    Some(h) => h,
                    None => Handlers::start(self.config.handler_threads)?,
                };
                handlers.insert(h).uffd()
            }
        };
        Ok(Some(Faults { file, uffd }))
    }

    /// What an eviction needs. Inside of one, nobody asks for another.
    pub(crate) fn evictor(&self) -> Lent<'_, Evictor> {
        self.evictors.take()
    }

    /// What a fill needs. Inside of one, nobody asks for another.
    pub(crate) fn bounce(&self) -> Lent<'_, Bounce> {
        self.bounces.take_or_make(|| {
            let one = Bounce::new()?;
            self.counts.more_bounces.fetch_add(1, Relaxed);
            Ok::<_, Error>(one)
        })
    }

    /// The engine of this policy never asks for walks: the host sweeps by itself.
    pub(crate) fn sweeps_itself(&self) -> bool {
        let sw = &self.config.switches;
        sw.policy == PolicyKind::Classic
            || (sw.policy == PolicyKind::MultiGen && !sw.page_table_walk)
    }

    /// Charges pages to a group; without `must`, only if there is room or one reclaim makes it. True if
    /// charged.
    pub(crate) fn charge(&self, memcg: MemcgId, pages: u64, must: bool) -> Result<bool> {
        let mut task = TaskMemcg::default();
        let fast = self.core().policy.charge(memcg, pages, &mut task);
        if let Err(over) = fast {
            if must {
                self.charge_slow(memcg, pages, over, &mut task)?;
            } else if !self.charge_once_more(memcg, pages, over, &mut task)? {
                return Ok(false);
            }
        }
        if task.over_high > 0 {
            self.over_high(memcg, &mut task);
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
        self.reclaim_or_flush(over, pages.max(self.config.batch as u64))?;
        Ok(self.core().policy.charge(memcg, pages, high).is_ok())
    }

    fn charge_slow(
        &self,
        memcg: MemcgId,
        pages: u64,
        over: MemcgId,
        high: &mut TaskMemcg,
    ) -> Result<()> {
        let mut task = self.core().policy.charge_on(memcg, pages, over);
        let mut evicted = self.counts.evicted.load(Relaxed);
        let mut idle = 0;
        loop {
            let step = self.core().policy.charge_step(&mut task, high);
            match step {
                ChargeStep::Reclaim { over, nr } => {
                    let nr = nr.max(self.config.batch as u64);
                    task.feed(Fed::Reclaimed(self.reclaim_or_flush(over, nr)?));
                }
                ChargeStep::Oom { .. } => {
                    // Nobody is killed here. As long as anything leaves memory, or is about to, by
                    // whomever, it is worth going on.
                    let now = self.counts.evicted.load(Relaxed);
                    let nothing = now == evicted && !self.gate.any_leaving();
                    idle = if nothing { idle + 1 } else { 0 };
                    evicted = now;
                    task.feed(Fed::Oom(idle < IDLE_ROUNDS));
                    std::thread::sleep(Duration::from_millis(1));
                }
                ChargeStep::Done(Ok(_)) => return Ok(()),
                ChargeStep::Done(Err(_)) => {
                    return Err(Error::NoMemory {
                        pages,
                        group: memcg.0,
                    })
                }
            }
        }
    }

    /// Reclaims; if nothing but dirty pages is left, writes some of them.
    fn reclaim_or_flush(&self, memcg: MemcgId, nr: u64) -> Result<u64> {
        let freed = self.reclaim_for_good(memcg, nr)?;
        if freed == 0 && self.flush_some(self.config.batch as u64 * 4) == 0 {
            // Others may be in the middle of it.
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(freed)
    }

    /// Reclaims. Pages that could not be stored have come back: for the engine they were free for a
    /// moment, and taking that for progress would never end.
    pub(crate) fn reclaim_for_good(&self, memcg: MemcgId, nr: u64) -> Result<u64> {
        let before = self.counts.evicted.load(Relaxed);
        let out = self.reclaim(memcg, nr, false)?;
        let left = self.counts.evicted.load(Relaxed) - before;
        Ok(out.reclaimed.min(left))
    }

    /// Above memory.high: reclaims, then sleeps the penalty.
    fn over_high(&self, memcg: MemcgId, task: &mut TaskMemcg) {
        let (mut high, hz) = {
            let mut core = self.core();
            let over_high = std::mem::take(&mut task.over_high);
            let high = core.policy.high(memcg, over_high);
            (high, u64::from(core.policy.engine().config().hz))
        };
        loop {
            let step = self.core().policy.high_step(&mut high);
            match step {
                HighStep::Reclaim { over, nr } => {
                    let freed = self.reclaim_for_good(over, nr).unwrap_or(0);
                    high.feed(Fed::Reclaimed(freed));
                }
                HighStep::Sleep { jiffies } => {
                    std::thread::sleep(Duration::from_millis(jiffies * 1000 / hz));
                }
                HighStep::Done => return,
            }
        }
    }

    /// Gives charges back that led to no page.
    pub(crate) fn uncharge(&self, memcg: MemcgId, pages: u64) {
        if pages > 0 {
            self.core().policy.uncharge(memcg, pages);
        }
    }

    /// Charges pages and makes sure that there is room for them.
    pub(crate) fn make_room(&self, memcg: MemcgId, pages: u64, must: bool) -> Result<bool> {
        for _ in 0..ROOM_RETRIES {
            if !self.charge(memcg, pages, must)? {
                return Ok(false);
            }
            if self.gate.enter(pages).is_ok() {
                self.keep_ahead();
                return Ok(true);
            }
            // The store has grown since the charge: make room for both.
            self.uncharge(memcg, pages);
            if !must {
                return Ok(false);
            }
            self.reclaim_or_flush(self.top, self.config.batch as u64)?;
        }
        Err(Error::NoMemory {
            pages,
            group: memcg.0,
        })
    }
}

/// Evictions at a time: two descriptors each. More than there are CPUs, because some of them wait for a
/// device, a batch of pages each.
/// Pages that one eviction moves at once: a batch, and of a small budget a share, because they are in its
/// buffers then.
fn evicted_together(config: &PoolConfig) -> usize {
    let share = config.budget / PAGE as u64 / 512;
    (share as usize).clamp(16, config.batch)
}

fn evictors() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    (cpus + 1).clamp(2, 8)
}

/// Fills at a time for which there is always memory.
const BOUNCES: usize = 2;
/// Rounds of 17 fruitless reclaim calls, with nobody else evicting anything, before a charge fails.
const IDLE_ROUNDS: u32 = 3;
/// Attempts to find room before a miss is given up.
const ROOM_RETRIES: u32 = 64;
