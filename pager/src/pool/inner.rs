//! The pool: everything that moves its pages, put together.

use super::pressure::Watch;
use super::resize::Resizer;
use super::swap::make_swap;
use crate::budget::counts::Counts;
use crate::budget::resources::Resources;
use crate::config::{FaultMode, PoolConfig};
use crate::error::{Error, Result};
use crate::evict::background::Background;
use crate::evict::evictor::Evictor;
use crate::evict::reclaim::Reclaimer;
use crate::evict::recompress;
use crate::meanwhile::meanwhile;
use crate::miss::ahead;
use crate::miss::fill::Misses;
use crate::miss::handler::Handlers;
use crate::miss::orders::Orders;
use crate::miss::registry::on_miss;
use crate::miss::room::Room;
use crate::observe;
use crate::policy::{Policy, PolicyConfig};
use crate::record::write::NewJournal;
use crate::region::memory::Faults;
use crate::store::errseq::Cursor;
use crate::store::Swap;
use crate::sys::bell::Bell;
use crate::sys::fork::OfMaker;
use crate::sys::memfd::Memfd;
use crate::sys::pagemap::Pagemap;
use crate::sys::probe::{probe, probe_threads, Missing};
use crate::sys::{clock, sigbus, PAGE};
use crate::writeback::exit;
use crate::writeback::flush::Writeback;
use std::sync::{Arc, Mutex, OnceLock};

/// A pool of real memory. Clones name the same pool; it lives as long as one of them or a region.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) inner: Arc<OfMaker<PoolInner>>,
    /// Errors that [`Pool::sync`] of this handle has told.
    told: Cursor,
}

/// The shared part. Each subject has those below it, and nothing of those above:
///
/// ```text
///   misses ---> room -+--> background --> reclaimer --> evictor
///      |              |                       |            |
///      +--------------+--> writeback          +------------+--> resources (the one lock, the gate)
/// ```
#[derive(Debug)]
pub(crate) struct PoolInner {
    pub(crate) res: Arc<Resources>,
    pub(crate) evictor: Arc<Evictor>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    background: Arc<Background>,
    pub(crate) writeback: Arc<Writeback>,
    pub(crate) room: Arc<Room>,
    pub(crate) misses: Arc<Misses>,
    pub(crate) ahead: Arc<Orders>,
    /// Of the threads that write dirty pages and recompress.
    bells: [Arc<Bell>; 2],
    /// Why misses cannot be handled by SIGBUS, in explicit mode chosen by [`FaultMode::Auto`].
    pub(super) missing: Option<Missing>,
    /// Holds the pages of all regions, outside of explicit mode.
    file: Option<Arc<Memfd>>,
    /// Whose misses are signals.
    sigbus: Option<Handlers>,
    /// Threads that handle misses, once a region asks for them.
    handlers: Mutex<Option<Handlers>>,
    /// One beginning of a journal at a time.
    pub(super) recording: Mutex<()>,
    resizer: Arc<Resizer>,
    pressure: OnceLock<Watch>,
    /// Number in the process.
    pub(super) id: u64,
    pub(super) born_ns: u64,
    metrics_at: Option<std::net::SocketAddr>,
}

impl Pool {
    /// Makes a pool.
    ///
    /// # Errors
    /// A setting out of range; a missing feature of the kernel ([`Error::Missing`] names it and the
    /// fallback); the swap file.
    pub fn new(config: PoolConfig) -> Result<Self> {
        let mut config = config.fitted_to_cgroup()?;
        config.check()?;
        config.background &= config.outside.is_none();
        let metrics_at = observe::begin(&config)?;
        let inner = Arc::new(OfMaker::new(PoolInner::new(config, metrics_at)?));
        inner.start()?;
        observe::registry::add(inner.clone());
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
        self.inner.res.gate.budget() * PAGE as u64
    }

    /// Changes the budget, while the pool is in use. A larger one counts at once; for a smaller one
    /// pages are evicted before this returns.
    ///
    /// # Errors
    /// The budget stays as it was if so much cannot be evicted ([`Error::Shrink`] says how much is
    /// pinned), or if swap and the smaller budget could not hold what has been promised to regions; a
    /// budget below 1 MiB or above 16 TiB less 8 KiB.
    pub fn resize(&self, bytes: u64) -> Result<()> {
        PoolConfig::check_budget(bytes)?;
        let _shield = self.inner.res.enter()?;
        self.inner.resizer.resize(bytes / PAGE as u64)
    }

    /// Writes all dirty pages of files and makes them durable.
    ///
    /// # Errors
    /// The first page that cannot be written now; else the last error of a write that nobody waited for
    /// (the flusher's, an eviction's, that of a region when it was dropped), of files or of the swap, of
    /// which this handle has not told yet. Each clone of the pool is told once.
    pub fn sync(&self) -> Result<()> {
        let _shield = self.inner.res.enter()?;
        self.inner.writeback.sync_all(&self.told)
    }
}

/// Why misses cannot be signals, where the settings allow to do without them.
fn probe_features(config: &PoolConfig) -> Result<Option<Missing>> {
    match config.fault {
        FaultMode::Explicit => {}
        FaultMode::Sigbus => probe(&config.denied)?,
        FaultMode::Thread => probe_threads(&config.denied)?,
        FaultMode::Auto => match probe(&config.denied) {
            // Explicit mode would be no answer to it, except to a limit on the sizes of files: it has none in memory.
            Err(m) if m.failure().is_some() && m.errno != Some(libc::EFBIG) => return Err(m.into()),
            other => return Ok(other.err()),
        },
    }
    Ok(None)
}

impl PoolInner {
    fn new(config: PoolConfig, metrics_at: Option<std::net::SocketAddr>) -> Result<Self> {
        let missing = probe_features(&config)?;
        let (mut pagemap, mut file, mut sigbus) = (None, None, None);
        if config.fault != FaultMode::Explicit && missing.is_none() {
            let signals = config.fault != FaultMode::Thread;
            if signals {
                sigbus::install(on_miss)?;
            }
            let opened = Pagemap::open().map_err(Error::sys("opening /proc/self/pagemap"))?;
            pagemap = Some(opened);
            let made = Memfd::new().map_err(Error::sys("making a file in memory"))?;
            file = Some(Arc::new(made));
            if signals {
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
            Some(_) if config.outside.is_some() => return Err(PoolConfig::no_journal()),
            Some(path) => {
                let new = NewJournal::create(&path)?.start(&policy, None);
                Some(new.map_err(Error::io("creating the journal"))?)
            }
        };
        let policy = Policy::new(&policy, recorder)?;
        let res = Arc::new(Resources::new(
            config, policy, budget, swap, pagemap, counts,
        ));
        let (flush, crowded, ahead) = <(Arc<Bell>, Arc<Bell>, Arc<Orders>)>::default();
        let evictor = Arc::new(Evictor::new(res.clone(), crowded.clone())?);
        let reclaimer = Reclaimer::new(res.clone(), evictor.clone(), flush.clone());
        let reclaimer = Arc::new(reclaimer);
        let background = Arc::new(Background::new(res.clone(), reclaimer.clone()));
        let writeback = Arc::new(Writeback::new(res.clone(), flush.clone()));
        let room = Arc::new(Room::new(
            res.clone(),
            reclaimer.clone(),
            writeback.clone(),
            background.clone(),
        ));
        let misses = Misses::new(res.clone(), room.clone(), writeback.clone(), ahead.clone())?;
        let resizer = Arc::new(Resizer::new(res.clone(), room.clone()));
        Ok(Self {
            evictor,
            reclaimer,
            background,
            writeback,
            room,
            misses: Arc::new(misses),
            ahead,
            bells: [flush, crowded],
            missing,
            file,
            sigbus,
            handlers: Mutex::new(None),
            recording: Mutex::new(()),
            resizer,
            pressure: OnceLock::new(),
            id: observe::registry::next_id(),
            born_ns: clock::now(),
            metrics_at,
            res,
        })
    }

    /// Starts the threads that a pool has from the beginning.
    fn start(&self) -> Result<()> {
        recompress::start(&self.res, &self.bells[1])?;
        if let Some(p) = &self.res.config.pressure {
            let _first = self.pressure.set(Watch::start(&self.resizer, p)?);
        }
        Ok(())
    }

    /// Starts the threads that a pool with regions needs.
    pub(crate) fn start_for_region(&self, writable_file: bool) -> Result<()> {
        if writable_file {
            self.writeback.start()?;
            exit::remember(&self.writeback);
        }
        if self.res.config.background {
            self.background.start()?;
            ahead::start(&self.misses)?;
        }
        Ok(())
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
                    None => Handlers::start(self.res.config.handler_threads)?,
                };
                handlers.insert(h).uffd()
            }
        };
        Ok(Some(Faults { file, uffd }))
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        self.bells.iter().for_each(|b| b.stop());
        self.background.stop();
        self.ahead.stop();
        meanwhile();
        // Its threads may hold the resources for a moment longer than the program lives, which must not cost the end of the
        // journal. What went wrong with it has been said.
        if let Ok(_shield) = self.res.shield() {
            let core = self.res.core_unless_failed();
            drop(core.map(|mut core| core.policy.record(None)));
        }
    }
}
