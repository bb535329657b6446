//! The server process: workers, eviction workers, checkpoints, journal.

use super::cache::{Cache, Lookup, BLOCK_PAGES};
use super::layout::{Layout, RECORDS_PER_BLOCK};
use crate::draw::{BlockChoice, ScrambledZipf, Stream};
use crate::experiment::{ExperimentError, Host, RunInput};
use crate::rig::{Counts, Failure, Rig};
use crate::stats::LatencyHistogram;
use coldset_engine::{Counter, ObjectId};
use coldset_machine::sim::{Affinity, TimeClass, WaitQueue};
use coldset_machine::{Ctx, Machine, MappingFlags, MappingId, OpError, OpenFile};
use coldset_report::RunResult;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Keys of an index block.
const KEYS_PER_BLOCK: u64 = 1000;
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
    reads: Cell<u64>,
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
                    let page = place * BLOCK_PAGES;
                    self.machine
                        .read(ctx, &self.data, page, BLOCK_PAGES)
                        .await?;
                    self.reads.set(self.reads.get() + 1);
                    for p in 0..BLOCK_PAGES {
                        let entry = frame * BLOCK_PAGES + p;
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
        let entry = frame * BLOCK_PAGES;
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
        let page = place * BLOCK_PAGES;
        self.machine
            .write(ctx, self.data.object, page, BLOCK_PAGES, true)
            .await
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
    }
    s.workers.set(s.workers.get() - 1);
    if s.workers.get() == 0 {
        s.finish();
    }
}

async fn evictor(s: Rc<Server>, ctx: Ctx) {
    while !s.stopped.get() {
        let (used, dirty) = {
            let c = s.cache.borrow();
            (c.used_permille(), c.dirty_permille())
        };
        let work = if used >= EVICT.0 {
            s.evict_one(&ctx, false).await
        } else if dirty >= EVICT_DIRTY.0 {
            s.evict_one(&ctx, true).await
        } else {
            Ok(false)
        };
        match work {
            Ok(true) => ctx.maybe_settle().await,
            Ok(false) => s.evictors.wait_as(TimeClass::Idle).await,
            Err(e) => return s.fail(e),
        }
    }
}

async fn checkpointer(s: Rc<Server>, ctx: Ctx, interval: u64) {
    while !s.stopped.get() {
        ctx.sleep_until(TimeClass::Idle, ctx.now() + interval).await;
        let left_before = s.layout.borrow().pending();
        let dirty_now = s.cache.borrow().dirty_permille();
        let done = async {
            // Only what is dirty now: updates that come meanwhile belong to the next checkpoint.
            let mut budget = dirty_now * u64::from(s.data_blocks) / 1000 + 1;
            while budget > 0 {
                budget -= 1;
                let next = s.cache.borrow_mut().next_dirty();
                let Some((_, block)) = next else { break };
                s.write_block(&ctx, block).await?;
            }
            s.machine.fsync(&ctx, s.data.object).await
        }
        .await;
        if let Err(e) = done {
            return s.fail(e);
        }
        s.layout.borrow_mut().checkpoint(left_before);
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
        for page in 0..pages {
            if let Err(e) = s.machine.access(&ctx, mapping, page, true).await {
                return s.fail(e);
            }
        }
        ctx.charge(TimeClass::User, u64::from(pages) * s.charges.heap_page);
        ctx.sleep_until(TimeClass::Idle, ctx.now() + interval).await;
    }
}

/// A size of the server or its machine, pages.
fn pages(input: &RunInput, name: &str) -> Result<u64, ExperimentError> {
    Ok(input.pages(name)?.max(64))
}

fn host(input: &RunInput) -> Result<Host, ExperimentError> {
    Ok(Host {
        cpus: input.number("cpus")?,
        ram: Some(pages(input, "ram_mib")?),
        devices: vec![input.device("device")?],
        cgroup_v2: input.text("cgroup") != "v1",
        ..Host::default()
    })
}

/// The server's machine.
///
/// # Errors
/// Parameters that cannot be used.
pub fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    Ok(vec![host(input)?])
}

/// Runs the server once.
///
/// # Errors
/// Parameters that cannot be used, or a failed operation of the server.
pub fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let n = |name| input.number(name);
    let frames = (pages(input, "cache_mib")? / u64::from(BLOCK_PAGES)) as u32;
    if frames < 64 {
        return Err(input.too_little("cache frames", frames.into(), 1 << 11));
    }
    let records = input.scaled(n("records")?);
    let data_blocks = records.div_ceil(RECORDS_PER_BLOCK) as u32;
    let index_blocks = records.div_ceil(KEYS_PER_BLOCK) as u32;
    let threads = n("threads")?.max(1);
    let mut rig = Rig::new(input, host(input)?)?;
    let machine = rig.machine().clone();
    let memcg = rig.limited(pages(input, "limit_mib")?)?;

    let blocks = data_blocks + index_blocks;
    let data = machine.create_file(0, (blocks + blocks / 4) * BLOCK_PAGES);
    let journal = machine.create_file(0, 64);
    let mm = machine.create_mm(memcg);
    let region = machine.create_anon(frames * BLOCK_PAGES);
    let heap_pages = pages(input, "heap_mib")? as u32;
    let heap_region = machine.create_anon(heap_pages);
    let frames_map = machine.mmap(mm, region, 0, frames * BLOCK_PAGES, MappingFlags::empty());
    let heap_map = machine.mmap(mm, heap_region, 0, heap_pages, MappingFlags::empty());

    let operations = input.operations(n("operations")?);
    let server = Rc::new(Server {
        machine: machine.clone(),
        cache: RefCell::new(Cache::new(frames)),
        layout: RefCell::new(Layout::new(blocks)),
        data: OpenFile::new(data),
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
        reads: Cell::new(0),
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
    let update_percent = n("update_percent")?.min(100);
    for t in 0..threads {
        let (s, c) = (server.clone(), choice.clone());
        let draw = Stream::new(input.seed, "mongodb", t);
        machine.spawn("worker", Affinity::Any, mm, move |_, ctx| {
            worker(s, ctx, c, draw, update_percent)
        });
    }
    for _ in 0..4 {
        let s = server.clone();
        machine.spawn("evict", Affinity::Any, mm, move |_, ctx| evictor(s, ctx));
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
    let mut r = RunResult::new(&input.variant, input.seed);
    report(&server, &rig, &rig.counts(memcg), operations, &mut r);
    Ok(r)
}

fn report(s: &Server, rig: &Rig, counts: &Counts, operations: u64, r: &mut RunResult) {
    let done = operations - s.left.get();
    let elapsed = rig.now().max(1);
    r.set("throughput", done as f64 * 1e9 / elapsed as f64);
    r.set(
        "latency_us",
        s.latency.borrow().mean_ns().unwrap_or(0.0) / 1000.0,
    );
    let per_op = |n: f64| n / done.max(1) as f64;
    let pgpgin = counts.get(Counter::Pgpgin);
    r.set("blocks_per_op", per_op(pgpgin as f64 / 32.0));
    r.set("blocks_read", s.reads.get());
    r.set("virtual_ms", elapsed / 1_000_000);
    counts.put("", Counter::ALL, r);
    r.set(
        "refaults_per_op",
        per_op(counts.get(Counter::RefaultFile) as f64),
    );
    r.histogram("latency", &s.latency.borrow());
    rig.put_samples("", r);
}
