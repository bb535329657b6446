//! The server: loading the tables, then clients that run transactions.

use super::tables::{Table, POOL_PAGE};
use crate::draw::{RowChoice, Stream};
use crate::experiment::{ExperimentError, Host, RunInput};
use crate::rig::{Counts, Failure, Rig};
use crate::stats::LatencyHistogram;
use coldset_engine::{Counter, MemcgId};
use coldset_machine::sim::{Affinity, TimeClass, WaitQueue};
use coldset_machine::{Ctx, Machine, MappingFlags, MappingId, OpError};
use coldset_report::RunResult;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// The measured time is an eighth of the published one.
pub(super) const EFFORT_DIVISOR: u64 = 8;
/// Point selects of a transaction, all on one table (`docs/reference/experiments.md#mysql`).
const POINTS: u64 = 10;
/// Range selects, each on a table of its own.
const RANGES: u64 = 4;
/// Rows of a range.
const RANGE_ROWS: u64 = 100;

/// A region with a hot part at its start.
#[derive(Clone, Copy)]
struct Region {
    map: MappingId,
    hot: u64,
}

/// What the clients share.
struct Server {
    machine: Machine,
    memcg: MemcgId,
    statement_ns: u64,
    tables: u64,
    table: Table,
    rows: RowChoice,
    pool: MappingId,
    descriptors: MappingId,
    descriptor_bytes: u64,
    other: Region,
    files: Region,
    threads: MappingId,
    thread_pages: u64,
    /// Clients that still load tables.
    loading: Cell<u64>,
    loaded: WaitQueue,
    warm_up: u64,
    window: u64,
    /// When measuring begins and ends, ns; known once all is loaded.
    measured: Cell<(u64, u64)>,
    /// Counters when measuring began.
    start: OnceCell<Counts>,
    transactions: Cell<u64>,
    running: Cell<u64>,
    latency: RefCell<LatencyHistogram>,
    failure: Failure,
}

impl Server {
    async fn touch(
        &self,
        ctx: &Ctx,
        map: MappingId,
        page: u64,
        write: bool,
    ) -> Result<(), OpError> {
        self.machine.access(ctx, map, page as u32, write).await
    }

    /// The descriptor of the pool page that holds page `page` of the pool is written.
    async fn descriptor(&self, ctx: &Ctx, page: u64) -> Result<(), OpError> {
        let at = page / u64::from(POOL_PAGE) * self.descriptor_bytes / 4096;
        self.touch(ctx, self.descriptors, at, true).await
    }

    /// Reads every page of one table in for the first time.
    async fn load(&self, ctx: &Ctx, table: u64) -> Result<(), OpError> {
        let from = table * u64::from(self.table.pages());
        for page in from..from + u64::from(self.table.pages()) {
            if page % u64::from(POOL_PAGE) == 0 {
                self.descriptor(ctx, page).await?;
            }
            self.touch(ctx, self.pool, page, true).await?;
            ctx.maybe_settle().await;
        }
        Ok(())
    }

    /// What every statement does besides its rows.
    async fn statement(&self, ctx: &Ctx, client: u64, draw: &mut Stream) -> Result<(), OpError> {
        ctx.charge(TimeClass::User, self.statement_ns);
        let own = client * self.thread_pages + draw.below(self.thread_pages);
        self.touch(ctx, self.threads, own, true).await?;
        let other = draw.below(self.other.hot);
        self.touch(ctx, self.other.map, other, true).await?;
        let text = draw.below(self.files.hot);
        self.touch(ctx, self.files.map, text, false).await?;
        ctx.maybe_settle().await;
        Ok(())
    }

    async fn descend(&self, ctx: &Ctx, start: u64, upper: [u32; 2]) -> Result<(), OpError> {
        for page in upper {
            let page = start + u64::from(page);
            self.touch(ctx, self.pool, page, false).await?;
        }
        Ok(())
    }

    /// A select of one row: of the leaf the first and the last 4 KiB, and those of the row.
    async fn point(&self, ctx: &Ctx, start: u64, row: u64) -> Result<(), OpError> {
        let path = self.table.path(row);
        self.descend(ctx, start, path.upper).await?;
        let leaf = start + u64::from(path.leaf);
        self.descriptor(ctx, leaf).await?;
        for page in [
            leaf,
            leaf + u64::from(POOL_PAGE) - 1,
            start + u64::from(path.row),
        ] {
            self.touch(ctx, self.pool, page, false).await?;
        }
        Ok(())
    }

    /// A select of consecutive rows: all of each leaf.
    async fn range(&self, ctx: &Ctx, start: u64, row: u64) -> Result<(), OpError> {
        self.descend(ctx, start, self.table.path(row).upper).await?;
        for leaf in self.table.leaves_of(row, RANGE_ROWS) {
            let leaf = start + u64::from(leaf);
            self.descriptor(ctx, leaf).await?;
            for page in leaf..leaf + u64::from(POOL_PAGE) {
                self.touch(ctx, self.pool, page, false).await?;
            }
        }
        Ok(())
    }

    async fn transaction(&self, ctx: &Ctx, client: u64, draw: &mut Stream) -> Result<(), OpError> {
        let pages = u64::from(self.table.pages());
        self.statement(ctx, client, draw).await?;
        let start = draw.below(self.tables) * pages;
        for _ in 0..POINTS {
            self.statement(ctx, client, draw).await?;
            let row = self.rows.draw(draw);
            self.point(ctx, start, row).await?;
        }
        for _ in 0..RANGES {
            self.statement(ctx, client, draw).await?;
            let start = draw.below(self.tables) * pages;
            let row = self.rows.draw(draw);
            self.range(ctx, start, row).await?;
        }
        self.statement(ctx, client, draw).await
    }
}

/// A client: loads its share of the tables, then runs transactions until the time is over.
async fn client(s: Rc<Server>, ctx: Ctx, number: u64, threads: u64, mut draw: Stream) {
    let done = async {
        for table in (number..s.tables).step_by(threads as usize) {
            s.load(&ctx, table).await?;
        }
        s.loading.set(s.loading.get() - 1);
        if s.loading.get() > 0 {
            s.loaded.wait_as(TimeClass::Idle).await;
        } else {
            let from = ctx.now() + s.warm_up;
            s.measured.set((from, from + s.window));
            s.loaded.wake_all();
        }
        let (from, until) = s.measured.get();
        loop {
            let begin = ctx.now();
            if begin >= until {
                return Ok(());
            }
            if begin >= from {
                s.start.get_or_init(|| {
                    s.machine.phase(&ctx, 1);
                    Counts::of_memcg(&s.machine, s.memcg)
                });
            }
            s.transaction(&ctx, number, &mut draw).await?;
            let end = ctx.now();
            if begin >= from && end <= until {
                s.transactions.set(s.transactions.get() + 1);
                s.latency.borrow_mut().record(end - begin);
            }
        }
    }
    .await;
    if let Err(e) = done {
        return s.failure.stop(e);
    }
    s.running.set(s.running.get() - 1);
    if s.running.get() == 0 {
        s.machine.sim.stop();
    }
}

pub(super) fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    Ok(vec![input.zram_host()?])
}

/// Runs the experiment once.
pub(super) fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let n = |name| input.number(name);
    let tables = n("tables")?.max(1);
    let threads = n("threads")?.max(1);
    let table = Table::new(
        input.scaled(n("rows")?),
        n("rows_per_leaf")?.max(1),
        input.pages("secondary_mib")? as u32,
    );
    let rows = input.scaled(n("rows")?);
    if rows < 4096 {
        return Err(input.too_little("rows of a table", rows, 256));
    }
    let rows = match input.text("rand") {
        "special" => RowChoice::special(rows)?,
        "uniform" => RowChoice::uniform(rows)?,
        _ => return Err(input.wrong("rand", "special or uniform")),
    };
    let pool = n("pool_bytes")? / 4096 / input.scale;
    let used = tables * u64::from(table.pages());
    if used > pool || pool > u64::from(u32::MAX) {
        let expected = "a pool that holds all tables, below 16 TiB";
        return Err(input.wrong("pool_bytes", expected));
    }
    let mut rig = Rig::new(input, input.zram_host()?)?;
    let machine = rig.machine().clone();
    let memcg = rig.limited(input.region("limit_mib")?)?;

    let mm = machine.create_mm(memcg);
    let anon = |pages: u64| {
        let object = machine.create_anon(pages as u32);
        machine.mmap(mm, object, 0, pages as u32, MappingFlags::empty())
    };
    let descriptor_bytes = n("descriptor_bytes")?.clamp(1, 4096);
    let descriptors = (pool / u64::from(POOL_PAGE) + 1) * descriptor_bytes / 4096 + 1;
    let hot = |pages: u64, percent: u64| (pages * percent.min(100) / 100).max(1);
    let other = input.region("other_mib")?;
    let files = input.region("files_mib")?;
    let text = machine.create_file(0, files as u32);
    // All threads' memory is one region of the process; a thread's part shrinks with the scale.
    let thread_pages = (n("thread_kib")? / 4 / input.scale).max(1);
    let ms = 1_000_000;
    let window = n("time_s")? * 1000 * ms / input.scale / EFFORT_DIVISOR;
    let server = Rc::new(Server {
        machine: machine.clone(),
        memcg,
        statement_ns: input.cost("sql_statement_ns"),
        tables,
        table,
        rows,
        pool: anon(pool),
        descriptors: anon(descriptors),
        descriptor_bytes,
        other: Region {
            map: anon(other),
            hot: hot(other, n("other_hot_percent")?),
        },
        files: Region {
            map: machine.mmap(mm, text, 0, files as u32, MappingFlags::EXEC),
            hot: hot(files, n("files_hot_percent")?),
        },
        threads: anon(threads * thread_pages),
        thread_pages,
        loading: Cell::new(threads),
        loaded: WaitQueue::new(&machine.sim),
        warm_up: n("warm_up_s")? * 1000 * ms / input.scale,
        window: (window * input.effort_permille / 1000).max(ms),
        measured: Cell::new((0, 0)),
        start: OnceCell::new(),
        transactions: Cell::new(0),
        running: Cell::new(threads),
        latency: RefCell::default(),
        failure: rig.failure(),
    });
    for c in 0..threads {
        let s = server.clone();
        let draw = Stream::new(input.seed, "mysql", c);
        machine.spawn("mysqld", Affinity::Any, mm, move |_, ctx| {
            client(s, ctx, c, threads, draw)
        });
    }
    // An OOM is a result: the row "no OOM" fails.
    rig.run_or_oom("mysql client")?;
    let mut r = RunResult::new(&input.variant, input.seed);
    report(&server, &rig, &mut r);
    Ok(r)
}

fn report(s: &Server, rig: &Rig, r: &mut RunResult) {
    let done = s.transactions.get();
    let latency = s.latency.borrow();
    let ms = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e6;
    r.set("throughput", done as f64 * 1e9 / s.window as f64);
    r.set("transaction_ms", ms(latency.mean_ns()));
    r.set(
        "transaction_p95_ms",
        ms(latency.percentile_ns(950).map(|ns| ns as f64)),
    );
    r.set("transactions", done);
    let end = rig.counts(s.memcg);
    let start = s.start.get().cloned().unwrap_or_default();
    let counts = end.since(&start);
    counts.put("", Counter::ALL, r);
    // Kills count from the beginning on: one before measuring ends the run, too.
    r.set("oom_kill", end.get(Counter::OomKill));
    r.set(
        "swap_ins_per_transaction",
        counts.get(Counter::Pswpin) as f64 / done.max(1) as f64,
    );
    r.histogram("transaction", &latency);
    rig.put_samples("", r);
}
