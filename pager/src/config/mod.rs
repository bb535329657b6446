//! What a pool is made of.

mod parse;

pub use parse::parse_size;

use crate::error::{Error, Result};
use crate::store::{Codec, Storage};
use crate::sys::probe::Feature;
use crate::sys::PAGE;
use coldset_engine::policies::desk::Makes;
use coldset_engine::policies::ListKind;
use coldset_engine::switches::{DirtyFlush, PolicyKind};
use coldset_engine::{presets, Switches};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

/// How accesses to evicted pages reach the pager.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FaultMode {
    /// In the faulting thread, by SIGBUS; an error if the kernel cannot.
    #[default]
    Sigbus,
    /// By threads of the pool, which a full `userfaultfd` tells of misses. This is slower, but system calls may use
    /// evicted pages and threads may block SIGBUS. Needs privilege (root, CAP_SYS_PTRACE,
    /// `vm.unprivileged_userfaultfd=1` or access to `/dev/userfaultfd`); an error without it. For single regions use
    /// [`Group::with_handler_threads`](crate::Group::with_handler_threads).
    Thread,
    /// Regions are used only through `fix` and `fix_mut`; works on any kernel.
    Explicit,
    /// [`Self::Sigbus`] if the kernel can, else [`Self::Explicit`].
    Auto,
}

/// The file part of a swap.
#[derive(Clone, Debug)]
pub(crate) enum SwapFile {
    Path(PathBuf),
    /// Without a name, in the directory for large temporary files.
    Temporary,
    Storage(Arc<dyn Storage>),
}

/// Where anonymous pages go. Sizes are in bytes of contents, before compression.
#[derive(Clone, Debug, Default)]
pub struct SwapConfig {
    pub(crate) compressed: u64,
    pub(crate) codec: Codec,
    /// Most bytes of memory for compressed contents; 0 = half the budget.
    pub(crate) memory: u64,
    pub(crate) file_bytes: u64,
    pub(crate) file: Option<SwapFile>,
    pub(crate) encrypt: bool,
}

impl SwapConfig {
    /// No swap: anonymous regions must fit into the budget.
    pub fn none() -> Self {
        Self::default()
    }

    /// `bytes` bytes of contents in LZ4-compressed memory.
    pub fn lz4(bytes: u64) -> Self {
        Self {
            compressed: bytes,
            ..Self::default()
        }
    }

    /// `bytes` bytes of contents in Zstandard-compressed memory: smaller than LZ4, and slower both ways.
    /// [`Self::and_zstd`] combines the advantages of both.
    pub fn zstd(bytes: u64) -> Self {
        Self {
            codec: Codec::Zstd,
            ..Self::lz4(bytes)
        }
    }

    /// Recompresses pages with Zstandard in the background, if that makes them smaller, once they have been in
    /// LZ4-compressed memory for 10 s, or are the oldest there when it gets full.
    pub fn and_zstd(self) -> Self {
        self.and_zstd_after(Duration::from_secs(10))
    }

    /// As [`Self::and_zstd`], after another time (whole seconds).
    pub fn and_zstd_after(mut self, cold: Duration) -> Self {
        self.codec = Codec::Lz4ThenZstd(cold);
        self
    }

    /// `bytes` bytes of contents in a file. The file is created with all its space, readable only by its owner; an
    /// existing file must be a swap file that nobody uses now. It stays when the pool goes.
    pub fn file(path: impl Into<PathBuf>, bytes: u64) -> Self {
        Self::default().and_file(path, bytes)
    }

    /// Adds a file for what hardly compresses, and for the oldest of what compressed memory has.
    pub fn and_file(mut self, path: impl Into<PathBuf>, bytes: u64) -> Self {
        self.file = Some(SwapFile::Path(path.into()));
        self.file_bytes = bytes;
        self
    }

    /// As [`Self::and_file`], with an unnamed file that goes away with the pool, in `$TMPDIR` or else `/var/tmp`.
    pub fn and_temporary(mut self, bytes: u64) -> Self {
        self.file = Some(SwapFile::Temporary);
        self.file_bytes = bytes;
        self
    }

    /// As [`Self::and_file`], with any storage.
    pub fn and_storage(mut self, storage: Arc<dyn Storage>, bytes: u64) -> Self {
        self.file = Some(SwapFile::Storage(storage));
        self.file_bytes = bytes;
        self
    }

    /// Encrypts what goes to the file (AES-256-GCM, with a key that exists only in memory and as long as the pool).
    /// Once the pool is gone, however it ended, the contents are of no use to anybody. Compressed memory is not
    /// encrypted.
    pub fn encrypt(mut self, on: bool) -> Self {
        self.encrypt = on;
        self
    }

    /// Limits the memory that compressed contents take.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Bytes of contents that the swap can hold.
    pub fn capacity(&self) -> u64 {
        self.compressed.max(self.file_bytes)
    }
}

/// When dirty pages of files are written, following `writeback.md`.
#[derive(Clone, Copy, Debug)]
pub struct FlushConfig {
    /// How often the flusher looks.
    pub interval: Duration,
    /// Pages dirty for longer than this are written.
    pub expire: Duration,
    /// Percent of the budget that may be dirty before the flusher writes pages regardless of age.
    pub background_percent: u8,
    /// Percent of the budget above which writers must write pages themselves.
    pub hard_percent: u8,
}

impl Default for FlushConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            expire: Duration::from_secs(30),
            background_percent: 10,
            hard_percent: 20,
        }
    }
}

/// What a pool is made of.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    pub(crate) budget: u64,
    pub(crate) switches: Switches,
    pub(crate) policy_name: String,
    pub(crate) swap: SwapConfig,
    pub(crate) fault: FaultMode,
    pub(crate) denied: Vec<Feature>,
    pub(crate) batch: usize,
    pub(crate) read_ahead: usize,
    pub(crate) handler_threads: usize,
    pub(crate) flush: FlushConfig,
    pub(crate) full_wait: Duration,
    pub(crate) exit_limit: Duration,
    pub(crate) store_outside: bool,
    pub(crate) overcommit: bool,
    /// Share of the available memory; the budget follows from it when a pool is made.
    pub(crate) share: Option<f64>,
    pub(crate) pressure: Option<PressureConfig>,
    pub(crate) background: bool,
    pub(crate) map_streams: bool,
    pub(crate) copy_then_punch: bool,
    /// Makes the policy that decides instead of the engine.
    pub(crate) outside: Option<Arc<dyn Makes>>,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) observe: Option<bool>,
    pub(crate) metrics: Option<String>,
}

impl PoolConfig {
    /// A pool of `budget` bytes with the policy `v5`, no swap, misses by SIGBUS.
    pub fn new(budget: u64) -> Self {
        Self {
            budget,
            switches: live(presets::preset("v5").expect("a preset")),
            policy_name: "v5".into(),
            swap: SwapConfig::none(),
            fault: FaultMode::default(),
            denied: Vec::new(),
            batch: 64,
            read_ahead: 32,
            handler_threads: 2,
            flush: FlushConfig::default(),
            full_wait: Duration::from_secs(5),
            exit_limit: EXIT_LIMIT,
            store_outside: false,
            overcommit: false,
            share: None,
            pressure: None,
            background: std::thread::available_parallelism().is_ok_and(|n| n.get() > 1),
            map_streams: true,
            copy_then_punch: false,
            outside: None,
            journal: None,
            observe: None,
            metrics: None,
        }
    }

    /// As [`Self::new`], with a budget that is a share (above 0, at most 1) of the limit of the process's memory
    /// cgroup or, without one, of the machine's memory.
    ///
    /// # Errors
    /// A share that is not between 0 and 1.
    pub fn share(share: f64) -> Result<Self> {
        Self::new(0).with_share(share)
    }

    pub(crate) fn with_share(mut self, share: f64) -> Result<Self> {
        if !(share > 0.0 && share <= 1.0) {
            return Err(Error::Setting {
                what: "the budget",
                value: format!("{}% of memory", share * 100.0),
                range: "use more than 0% and at most 100%",
            });
        }
        self.share = Some(share);
        Ok(self)
    }

    /// The policy, by the name of a preset (`classic`, `base`, `v5`, `merged`, ...). The engine reads its statistics
    /// as they are (`stale_stats=false`), not with the kernel's delay of two seconds: no process is killed here to
    /// recover from a decision based on an old figure.
    ///
    /// # Errors
    /// An unknown name.
    pub fn policy(mut self, name: &str) -> Result<Self> {
        self.switches = live(presets::preset(name)?);
        self.policy_name = name.into();
        self.outside = None;
        Ok(self)
    }

    /// Uses a policy outside of the engine, which is asked for each victim. This is slow, and meant for trying a
    /// policy out. It works only in explicit mode, without a journal.
    ///
    /// The policy sees a use of a page when the page is about to be evicted, as the engine's policies do. The thread
    /// that needs room calls it; no thread of the pool reads or writes ahead. Its methods must not wait for others
    /// that use the pool, and cannot use the pool themselves. If the policy fails, its error is the error of the call
    /// that needed room ([`Error::Policy`]); the pool then continues without it, and the oldest pages go.
    ///
    /// Pages are numbered from 0 in the order in which they first came in. Numbers are not reused, and take memory as
    /// long as the pool lives.
    pub fn decided_by(mut self, policy: Arc<dyn Makes>) -> Self {
        self.switches = live(presets::preset("fifo").expect("a preset"));
        self.switches.policy = PolicyKind::List(ListKind::Outside(policy.kind()));
        self.policy_name = policy.name().into();
        self.outside = Some(policy);
        self
    }

    /// Changes a single switch, as `name=value`, on top of the policy.
    ///
    /// # Errors
    /// An unknown switch or value.
    pub fn switch(mut self, assignment: &str) -> Result<Self> {
        self.switches.assign(assignment)?;
        self.policy_name = format!("{}+{assignment}", self.policy_name);
        Ok(self)
    }

    /// Where anonymous pages go.
    pub fn swap(mut self, swap: SwapConfig) -> Self {
        self.swap = swap;
        self
    }

    /// How misses reach the pager.
    pub fn fault_mode(mut self, mode: FaultMode) -> Self {
        self.fault = mode;
        self
    }

    /// Treats a feature of the kernel as missing.
    pub fn deny(mut self, feature: Feature) -> Self {
        self.denied.push(feature);
        self
    }

    /// Pages reclaimed at a time: 32 to 256.
    pub fn batch(mut self, pages: usize) -> Self {
        self.batch = pages;
        self
    }

    /// At most this many pages are read ahead of a sequential reader: 1 (none) to 32.
    pub fn read_ahead(mut self, pages: usize) -> Self {
        self.read_ahead = pages;
        self
    }

    /// Threads that handle misses in [`FaultMode::Thread`]: 1 to 64, two by default. This many misses can wait for a
    /// device at the same time.
    pub fn handler_threads(mut self, threads: usize) -> Self {
        self.handler_threads = threads;
        self
    }

    /// When dirty pages are written.
    pub fn flush(mut self, flush: FlushConfig) -> Self {
        self.flush = flush;
        self
    }

    /// How long an eviction waits for room when the disk of the swap or of a mapped file is full: 5 s by default, at most a day. After a
    /// wait in vain, nobody waits again for six times as long. With zero, a full disk is an error at once.
    pub fn full_wait(mut self, most: Duration) -> Self {
        self.full_wait = most.min(DAY);
        self
    }

    /// Runs a thread that keeps up to three batches of the budget free, so that misses rarely wait for room. On by
    /// default where there is more than one CPU.
    pub fn background(mut self, on: bool) -> Self {
        self.background = on;
        self
    }

    /// Maps a read-only file that is read in order from the kernel's page cache, 2 MiB at a time and only as long as
    /// it is read there, where copies would push other pages out. On by default; needs [`Self::background`] and Linux
    /// 6.11.
    pub fn map_streams(mut self, on: bool) -> Self {
        self.map_streams = on;
        self
    }

    /// How long a normal exit of the process (`main` returns, `exit`) waits for dirty pages of files to be written:
    /// 60 s by default, at most a day. With zero, it writes nothing.
    pub fn exit_limit(mut self, limit: Duration) -> Self {
        self.exit_limit = limit.min(DAY);
        self
    }

    /// Does not count compressed memory against the budget (for comparisons with a kernel whose zram does not count
    /// against the cgroup).
    pub fn store_outside_budget(mut self) -> Self {
        self.store_outside = true;
        self
    }

    /// Grants anonymous regions of any size, even if budget and swap cannot hold them together. A program that uses
    /// more pages than these can hold gets SIGBUS and a line that says so, as in a kernel that overcommits. Without
    /// this, [`Group::anonymous`](crate::Group::anonymous) refuses.
    pub fn overcommit(mut self, on: bool) -> Self {
        self.overcommit = on;
        self
    }

    /// Runs a thread that watches the memory pressure that the kernel reports for the process's cgroup (version 2),
    /// or else for the machine. While threads wait for memory in a tenth of the time, the budget shrinks by a tenth a
    /// second, down to a quarter; after ten calm seconds it grows back at the same rate.
    /// [`Pool::new`](crate::Pool::new) fails where the kernel does not report pressure (`psi=1` on its command line
    /// helps).
    pub fn shrink_under_pressure(mut self, on: bool) -> Self {
        self.pressure = on.then(PressureConfig::default);
        self
    }

    /// As [`Self::shrink_under_pressure`], with pressure read from another file, at another pace.
    #[doc(hidden)]
    pub fn pressure_from(mut self, source: impl Into<PathBuf>, interval: Duration) -> Self {
        self.pressure = Some(PressureConfig {
            source: Some(source.into()),
            interval,
        });
        self
    }

    pub(crate) fn no_journal() -> Error {
        Error::Mode(
            "a pool under a policy outside of the engine keeps no journal: leave out journal, and unset COLDSET_JOURNAL",
        )
    }

    /// Refuses a budget that no pool can have.
    pub(crate) fn check_budget(bytes: u64) -> Result<()> {
        if (MIN_BUDGET..=MOST_BYTES).contains(&bytes) {
            return Ok(());
        }
        Err(Error::Setting {
            what: "the budget",
            value: format!("{bytes} bytes"),
            range: "use 1 MiB to 17592186036224 bytes (16 TiB less 8 KiB)",
        })
    }

    /// Keeps a journal of the pool's whole life in a new file ([`crate::journal`]); an existing file must be a
    /// journal, and is emptied. The journal is complete once the pool and its regions have been dropped. Without this
    /// call, the variable `COLDSET_JOURNAL` names the file: the first pool's as it is, the nth pool's with `.n`
    /// appended.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.journal = Some(path.into());
        self
    }

    /// Lets `coldset top` look at the process, through a socket that only its user (and root) can reach
    /// ([`crate::observe`]). Without this call, `COLDSET_OBSERVE=1` does the same; otherwise there is no socket.
    pub fn observe(mut self, on: bool) -> Self {
        self.observe = Some(on);
        self
    }

    /// Answers Prometheus at `address`, for example `127.0.0.1:9100`, for all pools of the process. Port 0 takes a
    /// free one ([`crate::Pool::metrics_address`]). Without this call, `COLDSET_METRICS` is the address; otherwise
    /// nothing listens.
    pub fn metrics(mut self, address: impl Into<String>) -> Self {
        self.metrics = Some(address.into());
        self
    }

    pub(crate) fn journal_path(&self) -> Option<PathBuf> {
        static POOLS: AtomicU32 = AtomicU32::new(0);
        if self.journal.is_some() {
            return self.journal.clone();
        }
        let mut path = std::env::var_os("COLDSET_JOURNAL").filter(|v| !v.is_empty())?;
        let n = POOLS.fetch_add(1, Relaxed) + 1;
        if n > 1 {
            path.push(format!(".{n}"));
        }
        Some(path.into())
    }

    /// Plants the bug that the eviction order exists to avoid: contents are copied before the page is taken away, so
    /// stores in between are lost. It is for the test which shows that the stress test would notice.
    #[doc(hidden)]
    pub fn plant_copy_then_punch(mut self) -> Self {
        self.copy_then_punch = true;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let setting = |what, value: String, range| Err(Error::Setting { what, value, range });
        Self::check_budget(self.budget)?;
        if !(32..=256).contains(&self.batch) {
            return setting("the batch", self.batch.to_string(), "use 32 to 256 pages");
        }
        if !(1..=MAX_READ_AHEAD).contains(&self.read_ahead) {
            return setting(
                "read-ahead",
                self.read_ahead.to_string(),
                "use 1 to 32 pages",
            );
        }
        if !(1..=64).contains(&self.handler_threads) {
            let value = self.handler_threads.to_string();
            return setting("the number of handler threads", value, "use 1 to 64");
        }
        if self.swap.capacity() > MOST_BYTES {
            let value = format!("{} bytes", self.swap.capacity());
            let range = "use at most 17592186036224 bytes (16 TiB less 8 KiB)";
            return setting("swap", value, range);
        }
        if self.switches.batched_dirty_flush != DirtyFlush::Off {
            return setting(
                "the switch batched_dirty_flush",
                format!("{:?}", self.switches.batched_dirty_flush),
                "a pager flushes translations when it punches, many pages at a time; set it to off",
            );
        }
        if self.outside.is_some() {
            if self.fault != FaultMode::Explicit {
                return Err(Error::Mode(
                    "a policy outside of the engine decides in explicit mode only; set fault_mode to \"explicit\", and use \
                     pages through fix",
                ));
            }
            if self.pressure.is_some() {
                return Err(Error::Mode(
                    "a policy outside of the engine is asked by the threads that need room only; leave out \
                     shrink_under_pressure",
                ));
            }
        }
        let f = &self.flush;
        if f.background_percent > f.hard_percent || f.hard_percent > 100 {
            return setting(
                "dirty limits",
                format!("{} and {} percent", f.background_percent, f.hard_percent),
                "background must not exceed hard, nor hard 100",
            );
        }
        Ok(())
    }
}

fn live(mut s: Switches) -> Switches {
    s.stale_stats = false;
    s
}

/// The smallest budget.
pub const MIN_BUDGET: u64 = 1 << 20;
/// The largest budget, swap and region, in bytes: pages, slots and folios have 32-bit numbers, a few of which are
/// reserved.
pub(crate) const MOST_BYTES: u64 = (u32::MAX as u64 - 1) * PAGE as u64;
/// At most this many pages are filled together.
pub const MAX_READ_AHEAD: usize = 32;

/// Where pressure is read, and how often.
#[derive(Clone, Debug)]
pub(crate) struct PressureConfig {
    /// None: the cgroup's, or else the machine's.
    pub(crate) source: Option<PathBuf>,
    pub(crate) interval: Duration,
}

impl Default for PressureConfig {
    fn default() -> Self {
        Self {
            source: None,
            interval: Duration::from_secs(1),
        }
    }
}

/// The longest wait.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The default of [`PoolConfig::exit_limit`].
const EXIT_LIMIT: Duration = Duration::from_secs(60);
