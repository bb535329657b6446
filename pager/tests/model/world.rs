//! Pools, regions and files of a running program.

use super::fail;
use super::oracle::{Before, Look, Truth, COUNTER, WORDS};
use super::program::{End, Kind, Mode, PoolPlan, Program, RegionPlan, SwapPlan};
use super::storage::Breakable;
use coldset_pager::store::{FaultPlan, FaultyStorage, FileStorage};
use coldset_pager::{
    Error, FaultMode, FlushConfig, Group, Limits, Pool, PoolConfig, Region, SwapConfig, PAGE_SIZE,
};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// A pool and what the model knows of it.
#[derive(Debug)]
pub struct PoolState {
    pub pool: Pool,
    pub plan: PoolPlan,
    pub swap_faults: Option<Arc<FaultPlan>>,
    /// The journal being kept.
    pub journal: Mutex<Option<PathBuf>>,
    groups: Mutex<Vec<Group>>,
    /// Pages of the largest budget it has had.
    pub most: AtomicU64,
    /// A storage of one of its regions has failed, or its swap.
    pub failed: AtomicBool,
}

/// Where regions come and go.
#[derive(Debug)]
pub struct Slot {
    pub plan: RegionPlan,
    pub live: Mutex<Option<Arc<Live>>>,
    file: Option<PathBuf>,
    /// A file is mapped once at a time, and its truth outlives the maps.
    mapped: Arc<AtomicBool>,
    truth: Mutex<Option<Arc<Truth>>>,
    generation: AtomicU32,
}

/// A region. Whoever lets go of it last ends it, and looks at what is in the file then.
#[derive(Debug)]
pub struct Live {
    region: Option<Arc<Region>>,
    pub kind: Kind,
    pub pool: Arc<PoolState>,
    pub group: Option<Group>,
    pub truth: Arc<Truth>,
    pub storage: Option<Arc<Breakable>>,
    pub file: Option<PathBuf>,
    pub explicit: bool,
    how: AtomicU8,
    mapped: Arc<AtomicBool>,
}

/// All of it.
#[derive(Debug)]
pub struct World {
    pub program: Program,
    dir: PathBuf,
    pub pools: Vec<Mutex<Arc<PoolState>>>,
    pub slots: Vec<Slot>,
    files: AtomicU64,
}

impl World {
    /// None, with the reason, if the machine cannot.
    pub fn new(program: Program, dir: &Path) -> Result<Self, String> {
        let threads = program.threads.len();
        let slots = program
            .regions
            .iter()
            .enumerate()
            .map(|(i, plan)| Slot::new(i, plan.clone(), threads, dir))
            .collect();
        let mut world = Self {
            program,
            dir: dir.to_path_buf(),
            pools: Vec::new(),
            slots,
            files: AtomicU64::new(0),
        };
        for i in 0..world.program.pools.len() {
            let pool = world.new_pool(i)?;
            world.pools.push(Mutex::new(pool));
        }
        Ok(world)
    }

    /// A file name of this program's own.
    pub fn path(&self, what: &str) -> PathBuf {
        self.dir
            .join(format!("{what}-{}", self.files.fetch_add(1, SeqCst)))
    }

    pub fn pool(&self, i: usize) -> Arc<PoolState> {
        self.pools[i % self.pools.len()].lock().unwrap().clone()
    }

    /// Drops the handle of a pool for another one.
    pub fn replace_pool(&self, i: usize) {
        let i = i % self.pools.len();
        match self.new_pool(i) {
            Ok(new) => {
                let old = std::mem::replace(&mut *self.pools[i].lock().unwrap(), new);
                drop(old);
            }
            Err(e) => fail(&format!("making another pool: {e}")),
        }
    }

    fn new_pool(&self, i: usize) -> Result<Arc<PoolState>, String> {
        let plan = self.program.pools[i].clone();
        let anonymous = self
            .program
            .regions
            .iter()
            .filter(|r| r.kind == Kind::Anonymous);
        let pages: usize = anonymous.map(|r| r.pages).sum();
        // Room for regions that are still going while others are made in their place.
        let bytes = ((3 * pages + 256) * PAGE_SIZE) as u64;
        let mut swap_faults = None;
        let soon = Duration::ZERO;
        let swap = match plan.swap {
            SwapPlan::Temporary => SwapConfig::none().and_temporary(bytes),
            SwapPlan::Lz4AndTemporary => SwapConfig::lz4(bytes).and_temporary(bytes),
            SwapPlan::Lz4ZstdAndTemporary => SwapConfig::lz4(bytes)
                .and_zstd_after(soon)
                .and_temporary(bytes),
            SwapPlan::ZstdAndTemporary => SwapConfig::zstd(bytes).and_temporary(bytes),
            SwapPlan::Encrypted => SwapConfig::lz4(bytes / 2)
                .and_temporary(bytes)
                .encrypt(true),
            SwapPlan::Faulty => {
                let faults = Arc::new(FaultPlan::default());
                let file = FileStorage::create(&self.path("swap"), bytes);
                let file = file.map_err(|e| format!("a swap file: {e}"))?;
                let faulty = FaultyStorage::new(Arc::new(file), faults.clone());
                swap_faults = Some(faults);
                SwapConfig::none().and_storage(Arc::new(faulty), bytes)
            }
        };
        let flush = match plan.busy_flusher {
            false => FlushConfig::default(),
            true => FlushConfig {
                interval: Duration::from_millis(3),
                expire: Duration::from_millis(6),
                ..FlushConfig::default()
            },
        };
        let mode = match self.program.mode {
            Mode::Sigbus => FaultMode::Sigbus,
            Mode::Thread => FaultMode::Thread,
            Mode::Explicit => FaultMode::Explicit,
        };
        let config = PoolConfig::new((plan.budget_pages * PAGE_SIZE) as u64)
            .policy(&plan.policy)
            .map_err(|e| e.to_string())?
            .fault_mode(mode)
            .background(plan.background)
            .read_ahead(plan.read_ahead)
            .flush(flush)
            .swap(swap);
        let pool = match Pool::new(config) {
            Ok(pool) => pool,
            Err(e @ Error::Missing(_)) => return Err(e.to_string()),
            Err(e) => fail(&format!("making a pool: {e}")),
        };
        Ok(Arc::new(PoolState {
            pool,
            most: AtomicU64::new(plan.budget_pages as u64),
            plan,
            swap_faults,
            journal: Mutex::default(),
            groups: Mutex::default(),
            failed: AtomicBool::new(false),
        }))
    }

    /// The region of a slot; a new one if there is none. None while the file's last map is going.
    pub fn live(&self, i: usize) -> Option<Arc<Live>> {
        let slot = &self.slots[i % self.slots.len()];
        let mut live = slot.live.lock().unwrap();
        if live.is_none() {
            *live = self.make(slot);
        }
        live.clone()
    }

    fn make(&self, slot: &Slot) -> Option<Arc<Live>> {
        let plan = &slot.plan;
        let writable = matches!(plan.kind, Kind::File | Kind::Storage);
        if writable && slot.mapped.swap(true, SeqCst) {
            return None;
        }
        let pool = self.pool(plan.pool);
        let group = plan.grouped.then(|| pool.group());
        let mut maker = group.clone().unwrap_or_else(|| pool.pool.root());
        let explicit = self.program.mode == Mode::Explicit;
        if plan.handler_threads && !explicit {
            match maker.with_handler_threads() {
                Ok(g) => maker = g,
                Err(Error::Missing(m)) => skipped(&m.to_string()),
                Err(e) => fail(&format!("with_handler_threads: {e}")),
            }
        }
        let truth = slot.truth(self.program.threads.len());
        let mut storage = None;
        let made = match plan.kind {
            Kind::Anonymous => maker.anonymous(truth.len()),
            Kind::File => maker.file(slot.path()),
            Kind::ReadOnly => maker.file_read_only(slot.path()),
            Kind::Storage => {
                let s = Breakable::open(slot.path()).expect("a file of the test's");
                let s = Arc::new(s);
                storage = Some(s.clone());
                maker.storage(s, truth.len() as u64, true)
            }
        };
        let region = match made {
            Ok(r) => r,
            // Regions that are on their way out still count.
            Err(Error::Overcommit { .. }) => return None,
            Err(e) => fail(&format!("making a region: {e}")),
        };
        if region.len() != truth.len() {
            fail(&format!(
                "a region of {} bytes has {}",
                truth.len(),
                region.len()
            ));
        }
        Some(Arc::new(Live {
            region: Some(Arc::new(region)),
            kind: plan.kind,
            pool,
            group,
            truth,
            storage,
            file: slot.file.clone(),
            explicit,
            how: AtomicU8::new(0),
            mapped: slot.mapped.clone(),
        }))
    }

    /// Empties a slot.
    pub fn end(&self, i: usize, how: End) {
        let live = self.slots[i % self.slots.len()].live.lock().unwrap().take();
        if let Some(live) = live {
            live.how.store(how as u8, SeqCst);
        }
    }
}

/// Says once what a machine cannot do.
fn skipped(why: &str) {
    static SAID: OnceLock<()> = OnceLock::new();
    SAID.get_or_init(|| println!("skipped: {why}"));
}

impl PoolState {
    /// A group for a region: a new one, below the root or below another, or one that there is.
    fn group(&self) -> Group {
        let mut groups = self.groups.lock().unwrap();
        let n = groups.len();
        if n >= 12 {
            return groups[n / 2].clone();
        }
        let name = format!("g{n}");
        let made = match n % 3 {
            2 => groups[n - 1].group(&name, Limits::new()),
            _ => self.pool.group(&name, Limits::new()),
        };
        let made = made.unwrap_or_else(|e| fail(&format!("making a group: {e}")));
        groups.push(made.clone());
        made
    }

    /// Pages that may be in memory: the documented bound, which is more by what is compressed at the
    /// moment.
    pub fn bound(&self, threads: usize) -> u64 {
        if matches!(self.plan.swap, SwapPlan::Temporary | SwapPlan::Faulty) {
            return self.most.load(SeqCst);
        }
        // Threads of the program and of the pool that may evict.
        self.most.load(SeqCst) + 16 * (threads as u64 + 5)
    }
}

impl Slot {
    fn new(i: usize, plan: RegionPlan, threads: usize, dir: &Path) -> Self {
        let mut slot = Self {
            plan,
            live: Mutex::default(),
            file: None,
            mapped: Arc::default(),
            truth: Mutex::default(),
            generation: AtomicU32::new(i as u32 + 1),
        };
        if slot.plan.kind != Kind::Anonymous {
            let path = dir.join(format!("file-{i}"));
            // Every other file ends within a page.
            let len = slot.plan.pages * PAGE_SIZE - i % 2 * 3000;
            let truth = Truth::new(u64::from(slot.generation.load(SeqCst)), threads, false, len);
            let contents = match slot.plan.kind {
                Kind::ReadOnly => truth.fill_all(),
                _ => vec![0; len],
            };
            std::fs::write(&path, contents).expect("a file for the test");
            slot.file = Some(path);
            slot.truth = Mutex::new(Some(Arc::new(truth)));
        }
        slot
    }

    fn path(&self) -> &Path {
        self.file.as_deref().expect("a slot of a file")
    }

    /// Of a new generation for anonymous memory.
    fn truth(&self, threads: usize) -> Arc<Truth> {
        if let Some(t) = self.truth.lock().unwrap().as_ref() {
            return t.clone();
        }
        let uid = self.generation.fetch_add(16, SeqCst);
        let len = self.plan.pages * PAGE_SIZE;
        Arc::new(Truth::new(uid.into(), threads, true, len))
    }

    /// The file and its bytes as they must be in the end.
    pub fn expected(&self) -> Option<(&Path, Vec<u8>)> {
        let truth = self.truth.lock().unwrap();
        Some((self.file.as_deref()?, truth.as_ref()?.all_bytes()))
    }
}

impl Live {
    pub fn region(&self) -> &Arc<Region> {
        self.region.as_ref().expect("there until the end")
    }

    pub fn writable(&self) -> bool {
        self.kind != Kind::ReadOnly
    }

    pub fn is_file(&self) -> bool {
        self.kind != Kind::Anonymous
    }

    /// May a write have failed that a sync tells of?
    pub fn has_failed(&self) -> bool {
        self.storage.as_ref().is_some_and(|s| s.faults().1 > 0)
    }

    /// A word of a page. In faulting mode.
    fn word(&self, page: usize, word: usize) -> &AtomicU64 {
        assert!(page < self.truth.pages() && word < WORDS);
        // SAFETY: inside the region, which lives as long as self; all accesses of the model are atomic
        // and of words, but for system calls on pages that only the calling thread uses.
        unsafe {
            let base: *mut AtomicU64 = self.region().as_ptr().cast();
            &*base.add(page * WORDS + word)
        }
    }

    /// Looks at a page.
    pub fn look<R>(&self, page: usize, f: impl FnOnce(Look<'_>) -> R) -> R {
        if !self.explicit {
            return f(&|w| self.word(page, w).load(SeqCst));
        }
        let guard = self.patiently("fix", || self.region().fix(page));
        f(&|w| word_of(&guard, w))
    }

    /// Stores to a page.
    pub fn store(&self, page: usize, f: impl FnOnce(&mut dyn FnMut(usize, u64))) {
        if !self.explicit {
            return f(&mut |w, v| self.word(page, w).store(v, SeqCst));
        }
        let mut guard = self.patiently("fix_mut", || self.region().fix_mut(page));
        f(&mut |w, v| guard[w * 8..][..8].copy_from_slice(&v.to_ne_bytes()));
    }

    /// Adds one to the word that all count in.
    pub fn count(&self, page: usize) {
        self.truth.count(page, &mut |w| {
            if !self.explicit {
                self.word(page, w).fetch_add(1, SeqCst);
                return;
            }
            let mut guard = self.patiently("fix_mut", || self.region().fix_mut(page));
            let v = word_of(&guard, w) + 1;
            guard[w * 8..][..8].copy_from_slice(&v.to_ne_bytes());
        });
    }

    /// Where stores to the swap fail on purpose, there may be no room for a while.
    pub fn patiently<T>(&self, what: &str, mut f: impl FnMut() -> Result<T, Error>) -> T {
        for _ in 0..1000 {
            match f() {
                Ok(t) => return t,
                Err(Error::NoMemory { .. }) if self.pool.failed.load(SeqCst) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(e) => fail(&format!("{what}: {e}")),
            }
        }
        fail(&format!("{what}: no room for a second"))
    }

    /// Compares a page with what thread `t` may find.
    pub fn check(&self, page: usize, t: usize) {
        let before = self.truth.before(page);
        let done = self.look(page, |look| self.truth.check(page, t, &before, look));
        if let Err(e) = done {
            fail(&format!("{:?} region: {e}", self.kind));
        }
    }

    /// Compares pages of the file, read by a descriptor of its own.
    pub fn check_file(&self, pages: &[(usize, Before)], t: usize, when: &str) {
        let Some(path) = &self.file else { return };
        let file = std::fs::File::open(path).expect("the file of the test");
        let mut bytes = [0; PAGE_SIZE];
        for (page, before) in pages {
            bytes.fill(0);
            read(&file, &mut bytes, page * PAGE_SIZE).expect("a read of the test's");
            let look = |w: usize| word_of(&bytes, w);
            if let Err(e) = self.truth.check(*page, t, before, &look) {
                fail(&format!("the file of a {:?} region {when}: {e}", self.kind));
            }
        }
    }

    /// A page of the storage refuses writes when the region is closed.
    fn close_failing(&self, region: Region) {
        let storage = self.storage.as_ref().expect("a storage");
        let page = self.truth.pages() / 2;
        let mut synced = region.sync(0..region.len());
        for _ in 0..3 {
            if synced.is_ok() {
                break;
            }
            // What others had broken may still have to be told.
            synced = region.sync(0..region.len());
        }
        if let Err(e) = synced {
            fail(&format!("nothing is broken, and sync says: {e}"));
        }
        self.pool.failed.store(true, SeqCst);
        storage.set_broken(&[page], true);
        let mut store = |w: usize, v: u64| {
            if self.explicit {
                let mut g = self.patiently("fix_mut", || region.fix_mut(page));
                g[w * 8..][..8].copy_from_slice(&v.to_ne_bytes());
            } else {
                // SAFETY: inside the region, of which this is the only user.
                let at = unsafe { region.as_ptr().cast::<AtomicU64>().add(page * WORDS + w) };
                // SAFETY: as above.
                unsafe { &*at }.store(v, SeqCst);
            }
        };
        let t = match self.truth.class(page) {
            super::oracle::Class::Own(t) => t,
            _ => 0,
        };
        let before = self.truth.before(page);
        self.truth.store_word(page, t, &mut store);
        if region.close().is_ok() {
            fail("a page could not be written, and close says OK");
        }
        storage.set_broken(&[page], false);
        self.truth.take_back_word(page, t, &before);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let region = self.region.take().expect("there until now");
        let region = Arc::into_inner(region).expect("pins have gone before");
        let how = self.how.load(SeqCst);
        if how == End::CloseFailing as u8 && self.storage.is_some() {
            self.close_failing(region);
        } else if how == End::Drop as u8 || self.has_failed() {
            // An error of long ago may still have to be told: what counts is the file.
            drop(region);
        } else if let Err(e) = region.close() {
            fail(&format!("closing a {:?} region: {e}", self.kind));
        }
        if let Some(path) = &self.file {
            compare(path, &self.truth.all_bytes(), self.kind);
        }
        self.mapped.store(false, SeqCst);
    }
}

/// Compares a file that nobody uses with what has been stored in it.
fn compare(path: &Path, want: &[u8], kind: Kind) {
    let found = std::fs::read(path).expect("the file of the test");
    if found.len() != want.len() {
        fail(&format!(
            "a file of {} bytes has {} now",
            want.len(),
            found.len()
        ));
    }
    let differ = found
        .chunks(8)
        .zip(want.chunks(8))
        .position(|(f, w)| f != w);
    if let Some(at) = differ {
        let hex = |b: &[u8]| format!("{:x?}", &b[at * 8..(at * 8 + 8).min(b.len())]);
        fail(&format!(
            "the file of a {kind:?} region that is gone: page {}, word {}{}: {} instead of {}",
            at / WORDS,
            at % WORDS,
            if at % WORDS == COUNTER {
                " (the counter)"
            } else {
                ""
            },
            hex(&found),
            hex(want),
        ));
    }
}

fn read(file: &std::fs::File, buf: &mut [u8], at: usize) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], (at + done) as u64)? {
            0 => return Ok(()),
            n => done += n,
        }
    }
    Ok(())
}

fn word_of(bytes: &[u8], w: usize) -> u64 {
    u64::from_ne_bytes(bytes[w * 8..][..8].try_into().expect("eight bytes"))
}
