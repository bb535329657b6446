//! The server process: workers, eviction workers, checkpoints, journal.

use super::cache::{Cache, Lookup, FRAME_PAGES};
use super::layout::{Layout, RECORDS_PER_BLOCK};
use super::setting::{pages, Setting};
use super::windows::Windows;
use crate::draw::{BlockChoice, ScrambledZipf, Stream};
use crate::experiment::{ExperimentError, RunInput};
use crate::rig::{Failure, Rig};
use crate::stats::LatencyHistogram;
use coldset_engine::{Counter, MemcgId, ObjectId};
use coldset_machine::sim::{Affinity, TimeClass, WaitQueue};
use coldset_machine::{Ctx, Machine, MappingFlags, MappingId, OpError, OpenFile};
use coldset_report::RunResult;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Keys of an index block.
const KEYS_PER_BLOCK: u64 = 1000;
/// A block as the published figures count them, KiB.
pub(super) const BLOCK_KIB: f64 = 32.0;
/// Bytes of the journal for an update.
const JOURNAL_BYTES: u64 = 300;
/// Full share of the cache at which eviction workers start, and at which workers join, permille.
const EVICT: (u64, u64) = (800, 950);
/// The same for the dirty share.
const EVICT_DIRTY: (u64, u64) = (50, 200);

/// How a worker chooses a record.
#[derive(Clone)]
enum Choice {
    /// A block by the published distribution over the fraction of blocks.
    ScaleTrue(Rc<BlockChoice>),
    /// The benchmark's own generator over the scaled number of records.
    Literal(Rc<ScrambledZipf>),
}

/// The end of the measured time.
#[derive(Clone, Copy)]
struct AtLastOperation {
    ns: u64,
    kib_written: i64,
}

/// What the server charges, ns.
struct Charges {
    hit: u64,
    fill: u64,
    client: u64,
    heap_page: u64,
    retry: u64,
}

/// Everything the threads of the server share.
struct Server {
    machine: Machine,
    cache: RefCell<Cache>,
    layout: RefCell<Layout>,
    data: OpenFile,
    frames: MappingId,
    journal: ObjectId,
    journal_bytes: Cell<u64>,
    journal_synced: Cell<u64>,
    /// Eviction workers without work.
    evictors: WaitQueue,
    /// Workers that wait for a free frame.
    hungry: WaitQueue,
    data_blocks: u32,
    index_blocks: u32,
    charges: Charges,
    left: Cell<u64>,
    workers: Cell<u64>,
    end: Cell<Option<AtLastOperation>>,
    reads: Cell<u64>,
    windows: RefCell<Windows>,
    latency: RefCell<LatencyHistogram>,
    failure: Failure,
    stopped: Cell<bool>,
}

impl Server {
    /// Brings a block of the file into a frame and uses it.
    async fn use_block(&self, ctx: &Ctx, block: u32, update: bool) -> Result<(), OpError> {
        loop {
            let found = self.cache.borrow_mut().lookup(block);
            match found {
                Lookup::Hit(frame) => {
                    ctx.charge(TimeClass::User, self.charges.hit);
                    return self.touch_frame(ctx, frame, update).await;
                }
                Lookup::Busy => {
                    let queue = self.cache.borrow_mut().wait_queue(&self.machine.sim, block);
                    queue.wait_as(TimeClass::IoWait).await;
                }
                Lookup::Miss => {
                    self.make_room(ctx).await?;
                    // Another worker may have begun to read it while we made room.
                    if self.cache.borrow_mut().lookup(block) != Lookup::Miss {
                        continue;
                    }
                    let Some(frame) = self.cache.borrow_mut().reserve(block) else {
                        self.evictors.wake_all();
                        self.hungry
                            .wait_timeout_as(TimeClass::IoWait, self.charges.retry)
                            .await;
                        continue;
                    };
                    let place = self.layout.borrow().place(block);
                    self.machine
                        .read(ctx, &self.data, place.page, place.pages)
                        .await?;
                    self.reads.set(self.reads.get() + 1);
                    for p in 0..place.pages {
                        let entry = frame * FRAME_PAGES + p;
                        self.machine.access(ctx, self.frames, entry, true).await?;
                    }
                    ctx.charge(TimeClass::User, self.charges.fill);
                    self.cache.borrow_mut().filled(frame, block);
                    if update {
                        self.cache.borrow_mut().set_dirty(frame);
                    }
                    return Ok(());
                }
            }
        }
    }

    async fn touch_frame(&self, ctx: &Ctx, frame: u32, update: bool) -> Result<(), OpError> {
        if update {
            self.cache.borrow_mut().set_dirty(frame);
        }
        let entry = frame * FRAME_PAGES;
        self.machine.access(ctx, self.frames, entry, update).await
    }

    /// Wakes the eviction workers above their marks; above the second mark the caller helps.
    async fn make_room(&self, ctx: &Ctx) -> Result<(), OpError> {
        let (used, dirty) = {
            let c = self.cache.borrow();
            (c.used_permille(), c.dirty_permille())
        };
        if used >= EVICT.0 || dirty >= EVICT_DIRTY.0 {
            self.evictors.wake_one();
        }
        if used >= EVICT.1 || dirty >= EVICT_DIRTY.1 {
            self.evict_one(ctx, dirty >= EVICT_DIRTY.1 && used < EVICT.1)
                .await?;
        }
        Ok(())
    }

    /// Evicts one block. False if there is none.
    async fn evict_one(&self, ctx: &Ctx, dirty_only: bool) -> Result<bool, OpError> {
        let victim = self.cache.borrow_mut().victim(dirty_only);
        let Some((frame, block, dirty)) = victim else {
            return Ok(false);
        };
        if dirty {
            self.write_block(ctx, block).await?;
        }
        self.cache.borrow_mut().evicted(frame, block);
        self.hungry.wake_one();
        Ok(true)
    }

    /// Writes a block to a new place of the file, through the page cache.
    async fn write_block(&self, ctx: &Ctx, block: u32) -> Result<(), OpError> {
        let place = self.layout.borrow_mut().relocate(block);
        self.machine
            .write(ctx, self.data.object, place.page, place.pages, true)
            .await
    }

    /// Writes what is dirty now; updates that come meanwhile belong to the next checkpoint.
    async fn checkpoint(&self, ctx: &Ctx) -> Result<(), OpError> {
        let left_before = self.layout.borrow().left();
        let dirty = self.cache.borrow().dirty();
        for _ in 0..dirty {
            let next = self.cache.borrow_mut().next_dirty();
            let Some((_, block)) = next else { break };
            self.write_block(ctx, block).await?;
        }
        self.machine.fsync(ctx, self.data.object).await?;
        self.layout.borrow_mut().checkpoint(left_before);
        Ok(())
    }

    async fn append_journal(&self, ctx: &Ctx) -> Result<(), OpError> {
        let from = self.journal_bytes.get();
        self.journal_bytes.set(from + JOURNAL_BYTES);
        let (first, last) = (from / 4096, (from + JOURNAL_BYTES - 1) / 4096);
        self.machine
            .write(
                ctx,
                self.journal,
                first as u32,
                (last - first + 1) as u32,
                true,
            )
            .await
    }

    /// KiB that the host has written.
    fn kib_written(&self) -> i64 {
        self.machine.world().engine.vmstat().get(Counter::Pgpgout)
    }

    /// Ends the run: everybody who waits leaves.
    fn finish(&self) {
        self.stopped.set(true);
        self.evictors.wake_all();
        self.machine.sim.stop();
    }

    /// A thread of the server failed: the run is over.
    fn fail(&self, e: OpError) {
        self.failure.note(e);
        self.finish();
    }
}

async fn worker(s: Rc<Server>, ctx: Ctx, choice: Choice, mut draw: Stream, update_percent: u64) {
    while s.left.get() > 0 {
        s.left.set(s.left.get() - 1);
        ctx.charge(TimeClass::User, s.charges.client);
        let start = ctx.now();
        let data_block = match &choice {
            Choice::ScaleTrue(c) => c.draw(&mut draw) as u32,
            Choice::Literal(z) => (z.draw(&mut draw) / RECORDS_PER_BLOCK) as u32,
        };
        let index_block = s.data_blocks + draw.below(u64::from(s.index_blocks)) as u32;
        let update = draw.chance(update_percent, 100);
        let done = async {
            s.use_block(&ctx, index_block, false).await?;
            s.use_block(&ctx, data_block.min(s.data_blocks - 1), update)
                .await?;
            if update {
                s.append_journal(&ctx).await?;
            }
            Ok(())
        }
        .await;
        if let Err(e) = done {
            s.fail(e);
            return;
        }
        if let Some(t) = ctx.task() {
            t.settle().await;
        }
        s.latency.borrow_mut().record(ctx.now() - start);
        s.windows.borrow_mut().operation(&s.machine);
    }
    s.workers.set(s.workers.get() - 1);
    if s.workers.get() == 0 {
        let end = AtLastOperation {
            ns: ctx.now(),
            kib_written: s.kib_written(),
        };
        s.end.set(Some(end));
        // The server is stopped, and writes what it has: only then can the counters be read.
        match s.checkpoint(&ctx).await {
            Ok(()) => s.finish(),
            Err(e) => s.fail(e),
        }
    }
}

/// An eviction worker: works off a queue of victims of one kind at a time.
async fn evictor(s: Rc<Server>, ctx: Ctx, queue: u64) {
    while !s.stopped.get() {
        let (used, dirty) = {
            let c = s.cache.borrow();
            (c.used_permille(), c.dirty_permille())
        };
        let dirty_only = used < EVICT.0;
        if dirty_only && dirty < EVICT_DIRTY.0 {
            s.evictors.wait_as(TimeClass::Idle).await;
            continue;
        }
        for _ in 0..queue {
            match s.evict_one(&ctx, dirty_only).await {
                Ok(true) => ctx.maybe_settle().await,
                Ok(false) => break,
                Err(e) => return s.fail(e),
            }
        }
    }
}

async fn checkpointer(s: Rc<Server>, ctx: Ctx, interval: u64) {
    while !s.stopped.get() {
        ctx.sleep_until(TimeClass::Idle, ctx.now() + interval).await;
        if let Err(e) = s.checkpoint(&ctx).await {
            return s.fail(e);
        }
    }
}

async fn journaller(s: Rc<Server>, ctx: Ctx, interval: u64) {
    while !s.stopped.get() {
        ctx.sleep_until(TimeClass::Idle, ctx.now() + interval).await;
        if s.journal_bytes.get() > s.journal_synced.get() {
            s.journal_synced.set(s.journal_bytes.get());
            if let Err(e) = s.machine.fsync(&ctx, s.journal).await {
                return s.fail(e);
            }
        }
    }
}

/// Other heap: touched all over once a second.
async fn heap(s: Rc<Server>, ctx: Ctx, mapping: MappingId, pages: u32, interval: u64) {
    while !s.stopped.get() {
        let mut page = 0;
        while page < pages {
            page += s.machine.store_run(&ctx, mapping, page, pages - page);
            if page < pages {
                if let Err(e) = s.machine.access(&ctx, mapping, page, true).await {
                    return s.fail(e);
                }
                page += 1;
            }
        }
        ctx.charge(TimeClass::User, u64::from(pages) * s.charges.heap_page);
        ctx.sleep_until(TimeClass::Idle, ctx.now() + interval).await;
    }
}

/// Runs the server once, and puts its counters into `r`.
///
/// # Errors
/// Parameters that cannot be used, or a failed operation of the server.
pub fn run(input: &RunInput, setting: Setting, r: &mut RunResult) -> Result<(), ExperimentError> {
    let n = |name| input.number(name);
    let frames = (pages(input, "cache_mib")? / u64::from(FRAME_PAGES)) as u32;
    if frames < 64 {
        return Err(input.too_little("cache frames", frames.into(), 1 << 11));
    }
    let records = input.scaled(n("records")?);
    let data_blocks = records.div_ceil(RECORDS_PER_BLOCK) as u32;
    let index_blocks = records.div_ceil(KEYS_PER_BLOCK) as u32;
    let threads = n("threads")?.max(1);
    let prefix = setting.host.name.clone();
    let mut rig = Rig::new(input, setting.host)?;
    let machine = rig.machine().clone();
    let memcg = rig.limited(pages(input, "limit_mib")?)?;

    let blocks = data_blocks + index_blocks;
    let mut draw = Stream::new(input.seed, "mongodb-layout", 0);
    let layout = Layout::new(blocks, &mut draw);
    let data = machine.create_file(0, layout.pages() + layout.pages() / 4);
    let journal = machine.create_file(0, 64);
    let mm = machine.create_mm(memcg);
    let region = machine.create_anon(frames * FRAME_PAGES);
    let heap_pages = pages(input, "heap_mib")? as u32;
    let heap_region = machine.create_anon(heap_pages);
    let frames_map = machine.mmap(mm, region, 0, frames * FRAME_PAGES, MappingFlags::empty());
    let heap_map = machine.mmap(mm, heap_region, 0, heap_pages, MappingFlags::empty());

    let data = OpenFile::new(data);
    data.advise(setting.advice);
    let operations = input.operations(n("operations")?);
    let server = Rc::new(Server {
        machine: machine.clone(),
        cache: RefCell::new(Cache::new(frames)),
        layout: RefCell::new(layout),
        data,
        frames: frames_map,
        journal,
        journal_bytes: Cell::new(0),
        journal_synced: Cell::new(0),
        evictors: WaitQueue::new(&machine.sim),
        hungry: WaitQueue::new(&machine.sim),
        data_blocks,
        index_blocks,
        charges: Charges {
            hit: input.cost("storage_op_hit_ns"),
            fill: input.cost("storage_op_fill_ns"),
            client: input.cost("ycsb_client_op_ns"),
            heap_page: input.cost("heap_touch_page_ns"),
            retry: input.cost("cache_retry_ns"),
        },
        left: Cell::new(operations),
        workers: Cell::new(threads),
        end: Cell::new(None),
        reads: Cell::new(0),
        windows: RefCell::new(Windows::new(memcg, operations)),
        latency: RefCell::new(LatencyHistogram::default()),
        failure: rig.failure(),
        stopped: Cell::new(false),
    });

    let choice = match input.text("dist") {
        "scale-true" => {
            let mut scatter = Stream::new(input.seed, "mongodb-scatter", 0);
            Choice::ScaleTrue(Rc::new(BlockChoice::new(data_blocks.into(), &mut scatter)?))
        }
        "literal" => Choice::Literal(Rc::new(ScrambledZipf::new(records)?)),
        other => {
            return Err(ExperimentError::Param {
                name: "dist".into(),
                value: other.into(),
                expected: "scale-true or literal",
            })
        }
    };
    let update_percent = input.percent("update_percent")?;
    for t in 0..threads {
        let (s, c) = (server.clone(), choice.clone());
        let draw = Stream::new(input.seed, "mongodb", t);
        machine.spawn("worker", Affinity::Any, mm, move |_, ctx| {
            worker(s, ctx, c, draw, update_percent)
        });
    }
    let queue = n("evict_queue")?.max(1);
    for _ in 0..4 {
        let s = server.clone();
        machine.spawn("evict", Affinity::Any, mm, move |_, ctx| {
            evictor(s, ctx, queue)
        });
    }
    let second = (1_000_000_000 / input.scale).max(1);
    let checkpoint = n("checkpoint_s")?.max(1) * second;
    let s = server.clone();
    machine.spawn("checkpoint", Affinity::Any, mm, move |_, ctx| {
        checkpointer(s, ctx, checkpoint)
    });
    let s = server.clone();
    machine.spawn("journal", Affinity::Any, mm, move |_, ctx| {
        journaller(s, ctx, second / 10)
    });
    let s = server.clone();
    machine.spawn("heap", Affinity::Any, mm, move |_, ctx| {
        heap(s, ctx, heap_map, heap_pages, second)
    });
    rig.run_or_oom("mongodb server")?;
    report(&server, &rig, memcg, operations, &prefix, r);
    Ok(())
}

/// What is kept of a control.
const OF_CONTROLS: &[Counter] = &[
    Counter::AsyncWindows,
    Counter::AsyncWindowsDirty,
    Counter::FlusherWakeups,
    Counter::RefaultFile,
];

fn report(s: &Server, rig: &Rig, memcg: MemcgId, operations: u64, prefix: &str, r: &mut RunResult) {
    let done = (operations - s.left.get()).max(1);
    let end = s.end.get().unwrap_or_else(|| AtLastOperation {
        ns: rig.now(),
        kib_written: s.kib_written(),
    });
    let elapsed = end.ns.max(1);
    let per_op = |n: f64| n / done as f64;
    let counts = rig.counts(memcg);
    let is_control = !prefix.is_empty();
    counts.put(
        prefix,
        if is_control {
            OF_CONTROLS
        } else {
            Counter::ALL
        },
        r,
    );
    let mut set = |name: &str, value: f64| r.set(format!("{prefix}{name}"), value);
    set("throughput", done as f64 * 1e9 / elapsed as f64);
    let latency = s.latency.borrow().mean_ns().unwrap_or(0.0);
    set("latency_us", latency / 1000.0);
    set("blocks_read", s.reads.get() as f64);
    set("virtual_ms", (elapsed / 1_000_000) as f64);
    let refaults = counts.get(Counter::RefaultFile);
    set("refaults_per_op", per_op(refaults as f64));
    // As in /proc/vmstat: flushers of the host write for the memcg, too.
    let host = rig.vmstat();
    for c in [Counter::Pgpgin, Counter::Pgpgout] {
        set(c.name(), host.get(c) as f64);
    }
    set("pgpgout_at_last_operation", end.kib_written as f64);
    let kib = host.get(Counter::Pgpgin) as f64;
    set("blocks_per_op", per_op(kib / BLOCK_KIB));
    let windows = s.windows.borrow();
    windows.totals(&mut set);
    if !is_control {
        windows.each(&mut set);
        r.histogram("latency", &s.latency.borrow());
        rig.put_samples("", r);
    }
}
