//! Short-lived requests whose pages die in the add batches (`docs/reference/experiments.md#dead-folios`): what a filter at the
//! drain saves.
//!
//! A worker a CPU serves requests that come at random. A request takes scratch memory in bursts and
//! looks at a shared cache that does not quite fit. Some of its pages are let go by another CPU after
//! a few further allocations, mostly before the batch that they wait in is drained.

use crate::draw::{Stream, Zipf};
use crate::experiment::{Effort, Experiment, ExperimentError, Host, ParamDoc, Quick, RunInput};
use crate::rig::{Counts, Failure, Rig};
use crate::stats::LatencyHistogram;
use coldset_engine::{Counter, MemcgId, MmId};
use coldset_machine::sim::{Affinity, CpuMask, TimeClass};
use coldset_machine::{Ctx, InlineClock, Machine, MappingFlags, MappingId, OpError, OpenFile};
use coldset_report::{Band, Claim, RunResult, SeedView};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "dead-folios",
    doc: "short-lived requests whose pages die before they reach the LRU",
    source: "\"mm/lruvec: preemptively free dead folios during lru_add drain\", JP Kobryn, linux-mm, April 2026",
    before: "classic",
    after: "classic+deadfilter",
    extra: &[],
    effort: Effort::Part("180 s (58 million allocations)", 29),
    quick: Quick::share(500),
    scale: 16,
    params: PARAMS,
    costs: &[],
    deviations: &[],
    hosts: &hosts,
    run: &run,
    claims: &claims,
    mechanism: &[
        "lru_add_drained",
        "dead_at_add",
        "dead_filtered",
        "lru_lock_acq",
        "dead_lock_acq",
        "lru_add_list_ops",
        "pgscan",
        "pgsteal",
        "limit_reclaim",
        "requests",
        "virtual_ms",
    ],
};

/// Parameters at scale 1.
const PARAMS: &[ParamDoc] = &[
    ParamDoc::new("cpus", "32", "CPUs, not scaled"),
    ParamDoc::new(
        "batch",
        "31",
        "add and free batch of a CPU, folios, 1 to 31",
    ),
    ParamDoc::new(
        "p",
        "0.0899",
        "share of the allocations that another CPU lets go",
    ),
    ParamDoc::new("m", "8", "mean of further allocations until then").decimal(),
    ParamDoc::new(
        "folios",
        "2000000",
        "allocations of the run, not scaled, before effort",
    ),
    ParamDoc::new("load", "0.95", "share of the CPUs that requests ask for"),
    ParamDoc::new(
        "pages",
        "120",
        "mean of the pages of a request (geometric, kept within 40 and 400)",
    ),
    ParamDoc::new("touches", "300", "cache pages a request looks at"),
    ParamDoc::new("cache_mib", "2048", "shared cache, MiB"),
    ParamDoc::new(
        "short_mib",
        "64",
        "part of the cache that does not fit, MiB",
    ),
    ParamDoc::new("shortest_us", "2000", "least duration of a request, us"),
    ParamDoc::new("longest_us", "8000", "greatest duration of a request, us"),
    ParamDoc::new(
        "look_us",
        "20",
        "a worker that computes or is idle looks so often for memory that it is to let go, us",
    ),
];

/// Bursts of allocations in a request.
const BURSTS: u64 = 4;

/// Memory that another CPU is to let go.
struct Handed {
    mapping: MappingId,
    owner: u16,
}

/// What is let go when so many allocations have been made, in order.
type Pending = BTreeMap<(u64, u64), MappingId>;

struct Service {
    /// Least and greatest duration of a request, ns.
    duration: (u64, u64),
    /// From one look for memory to let go to the next, ns.
    look_ns: u64,
    cache: OpenFile,
    popular: Zipf,
    /// By CPU: allocations so far, and what is let go after how many.
    cpus: RefCell<Vec<(u64, Pending)>>,
    /// What is to be let go now, by any CPU but its owner.
    ready: RefCell<VecDeque<Handed>>,
    handed: Cell<u64>,
    /// p as a fraction of 2^32, m, mean pages, touches.
    share: u64,
    mean_after: f64,
    mean_pages: f64,
    touches: u64,
    gap_ns: f64,
    left: Cell<u64>,
    workers: Cell<u64>,
    requests: Cell<u64>,
    latency: RefCell<LatencyHistogram>,
    failure: Failure,
    memcg: MemcgId,
    /// Counters and time when the first request may come.
    start: RefCell<(Counts, u64)>,
}

/// Exponential with mean 1. The stream gives less than 1.
fn exponential(draw: &mut Stream) -> f64 {
    -libm::log(1.0 - draw.unit())
}

/// Geometric from 1 on.
fn geometric(draw: &mut Stream, mean: f64) -> u64 {
    let mean = mean.max(1.0 + 1e-9);
    1 + (exponential(draw) / -libm::log(1.0 - 1.0 / mean)) as u64
}

impl Service {
    /// An allocation on `cpu`: what has waited for it becomes due. True if something has.
    fn allocated(&self, cpu: u16) -> bool {
        let mut cpus = self.cpus.borrow_mut();
        let (count, waiting) = &mut cpus[usize::from(cpu)];
        *count += 1;
        let later = waiting.split_off(&(*count + 1, 0));
        let due = std::mem::replace(waiting, later);
        let some = !due.is_empty();
        let handed = due.into_values().map(|mapping| Handed {
            mapping,
            owner: cpu,
        });
        self.ready.borrow_mut().extend(handed);
        some
    }

    fn hand_over(&self, cpu: u16, mapping: MappingId, after: u64) {
        let mut cpus = self.cpus.borrow_mut();
        let (count, waiting) = &mut cpus[usize::from(cpu)];
        let n = self.handed.replace(self.handed.get() + 1);
        waiting.insert((*count + after, n), mapping);
    }

    /// Lets go what others have handed over.
    fn let_go(&self, m: &Machine, ctx: &Ctx) {
        loop {
            let next = {
                let mut ready = self.ready.borrow_mut();
                let at = ready.iter().position(|h| h.owner != ctx.cpu());
                at.and_then(|i| ready.remove(i))
            };
            let Some(handed) = next else { return };
            m.release(ctx, handed.mapping);
        }
    }

    /// Computes for `ns`.
    async fn compute(&self, m: &Machine, ctx: &Ctx, ns: u64) {
        let end = ctx.now() + ns;
        while ctx.now() < end {
            ctx.charge(TimeClass::User, (end - ctx.now()).min(self.look_ns));
            if let Some(task) = ctx.task() {
                task.settle().await;
            }
            self.let_go(m, ctx);
        }
    }
}

async fn request(s: &Service, m: &Machine, ctx: &Ctx, draw: &mut Stream) -> Result<(), OpError> {
    let end = ctx.now() + draw.between(s.duration.0, s.duration.1);
    let pages = geometric(draw, s.mean_pages).clamp(40, 400);
    let scratch = m.create_anon(pages as u32);
    let scratch = m.mmap(ctx.mm, scratch, 0, pages as u32, MappingFlags::empty());
    for page in 0..pages {
        if page > 0 && page % pages.div_ceil(BURSTS) == 0 {
            let left = end.saturating_sub(ctx.now());
            s.compute(m, ctx, left / 2).await;
        }
        let cpu = ctx.cpu();
        if draw.below(1 << 32) < s.share {
            let one = m.create_anon(1);
            let one = m.mmap(ctx.mm, one, 0, 1, MappingFlags::empty());
            m.access(ctx, one, 0, true).await?;
            s.hand_over(cpu, one, geometric(draw, s.mean_after));
        } else {
            m.access(ctx, scratch, page as u32, true).await?;
        }
        for _ in (page * s.touches / pages)..((page + 1) * s.touches / pages) {
            let at = s.popular.draw(draw) as u32;
            m.read(ctx, &s.cache, at, 1).await?;
        }
        if s.allocated(cpu) {
            // Another CPU is to let it go now, not when this one next waits.
            if let Some(task) = ctx.task() {
                task.settle().await;
            }
        } else {
            ctx.maybe_settle().await;
        }
        s.let_go(m, ctx);
    }
    let left = end.saturating_sub(ctx.now());
    s.compute(m, ctx, left).await;
    m.munmap(ctx, scratch);
    s.left.set(s.left.get().saturating_sub(pages));
    Ok(())
}

async fn worker(m: Machine, ctx: Ctx, s: Rc<Service>, mut draw: Stream) {
    let mut arrival = ctx.now() as f64 + exponential(&mut draw) * s.gap_ns;
    while s.left.get() > 0 {
        let at = arrival as u64;
        while ctx.now() < at {
            // An idle CPU lets go, too.
            let until = at.min(ctx.now() + s.look_ns);
            ctx.sleep_until(TimeClass::Idle, until).await;
            s.let_go(&m, &ctx);
        }
        if let Err(e) = request(&s, &m, &ctx, &mut draw).await {
            return s.failure.stop(e);
        }
        if let Some(task) = ctx.task() {
            task.settle().await;
        }
        s.requests.set(s.requests.get() + 1);
        s.latency.borrow_mut().record(ctx.now().saturating_sub(at));
        arrival += exponential(&mut draw) * s.gap_ns;
    }
    s.workers.set(s.workers.get() - 1);
    if s.workers.get() == 0 {
        m.sim.stop();
    }
}

fn fraction(input: &RunInput, name: &'static str, max: f64) -> Result<f64, ExperimentError> {
    let text = input.text(name);
    let value = text.parse().ok();
    value
        .filter(|v| (0.0..=max).contains(v))
        .ok_or_else(|| input.wrong(name, "a number of at least 0, shares at most 1"))
}

fn cpus(input: &RunInput) -> Result<u64, ExperimentError> {
    Ok(input.number("cpus")?.clamp(2, 256))
}

fn host(input: &RunInput) -> Result<Host, ExperimentError> {
    Ok(Host {
        cpus: cpus(input)?,
        batch: input.number("batch")?,
        ..Host::default()
    })
}

fn hosts(input: &RunInput) -> Result<Vec<Host>, ExperimentError> {
    Ok(vec![host(input)?])
}

fn run(input: &RunInput) -> Result<RunResult, ExperimentError> {
    let n = |name| input.number(name);
    let us = |name| Ok::<_, ExperimentError>(n(name)? * 1000);
    let cpus = cpus(input)?;
    let cache_pages = input.pages("cache_mib")?;
    let short = input.pages("short_mib")?;
    let mean_pages = n("pages")?.max(1);
    if cache_pages < 1024 || short >= cache_pages {
        return Err(input.too_little("pages of the cache", cache_pages, 512));
    }
    let load = fraction(input, "load", 1.0)?.max(0.01);
    let shortest = us("shortest_us")?;
    let duration = (shortest, us("longest_us")?.max(shortest));
    let mut rig = Rig::new(input, host(input)?)?;
    let machine = rig.machine().clone();
    // Requests under way at the same time hold about their mean each.
    let memcg = rig.limited(cache_pages - short + cpus * mean_pages)?;
    let file = machine.create_file(0, cache_pages as u32);
    let mms: Vec<MmId> = (0..cpus).map(|_| machine.create_mm(memcg)).collect();
    let mean_ns = (duration.0 + duration.1) as f64 / 2.0;
    let shared = Rc::new(Service {
        duration,
        look_ns: us("look_us")?.max(1),
        cache: OpenFile::new(file),
        popular: Zipf::new(cache_pages, 0.9)?,
        cpus: RefCell::new(vec![(0, BTreeMap::new()); cpus as usize]),
        ready: RefCell::default(),
        handed: Cell::new(0),
        share: (fraction(input, "p", 1.0)? * (1u64 << 32) as f64) as u64,
        mean_after: fraction(input, "m", 1e6)?,
        mean_pages: mean_pages as f64,
        touches: n("touches")?,
        gap_ns: mean_ns / load,
        left: Cell::new((n("folios")? * input.effort_permille / 1000).max(1)),
        workers: Cell::new(cpus),
        requests: Cell::new(0),
        latency: RefCell::default(),
        failure: rig.failure(),
        memcg,
        start: RefCell::default(),
    });

    // The cache is warm when the requests begin.
    let (s, seed, workers) = (shared.clone(), input.seed, mms.clone());
    machine.spawn("warm", Affinity::Any, mms[0], move |m, ctx| async move {
        for page in 0..cache_pages as u32 {
            if let Err(e) = m.read(&ctx, &s.cache, page, 1).await {
                return s.failure.stop(e);
            }
            ctx.maybe_settle().await;
        }
        *s.start.borrow_mut() = (Counts::of_memcg(&m, s.memcg), ctx.now());
        for (cpu, mm) in (0..cpus).zip(workers) {
            let s = s.clone();
            let draw = Stream::new(seed, "dead-folios", cpu);
            let here = Affinity::Mask(CpuMask::single(cpu as u16));
            m.spawn("worker", here, mm, move |m, ctx| worker(m, ctx, s, draw));
        }
    });
    rig.run("request")?;
    let mut r = RunResult::new(&input.variant, input.seed);
    report(&shared, &rig, &mms, &mut r);
    Ok(r)
}

fn report(s: &Service, rig: &Rig, mms: &[MmId], r: &mut RunResult) {
    let (before, since) = &*s.start.borrow();
    let elapsed = rig.now().saturating_sub(*since).max(1);
    let counts = rig.counts(s.memcg).since(before);
    let get = |c: Counter| counts.get(c);
    for c in [
        Counter::LruAddDrained,
        Counter::DeadAtAdd,
        Counter::DeadFiltered,
        Counter::LruLockAcq,
        Counter::DeadLockAcq,
        Counter::LruAddListOps,
        Counter::RefaultFile,
        Counter::Pgfault,
        Counter::LimitReclaim,
        Counter::ZeroProgress,
    ] {
        r.set(c.name(), get(c));
    }
    let drained = get(Counter::LruAddDrained).max(1) as f64;
    let inserted = get(Counter::DeadAtAdd) - get(Counter::DeadFiltered);
    r.set(
        "dead_percent",
        100.0 * get(Counter::DeadAtAdd) as f64 / drained,
    );
    r.set("dead_inserted_percent", 100.0 * inserted as f64 / drained);
    r.set(
        "list_ops_per_folio",
        get(Counter::LruAddListOps) as f64 / drained,
    );
    let (pgscan, pgsteal) = (counts.scanned(), counts.stolen());
    r.set("pgscan", pgscan);
    r.set("pgsteal", pgsteal);
    r.set("scan_per_folio", pgscan as f64 / drained);
    r.set(
        "stalls_per_folio",
        get(Counter::LimitReclaim) as f64 / drained,
    );
    // What has come in and is not there any more.
    let now = rig.counts(s.memcg);
    let resident = |of: &Counts| (of.get(Counter::AnonPages) + of.get(Counter::FilePages)) as f64;
    let freed = drained - (resident(&now) - resident(before));
    r.set("frees_per_folio", freed / drained);
    r.set("requests", s.requests.get());
    r.set("throughput", s.requests.get() as f64 * 1e9 / elapsed as f64);
    let p99 = s.latency.borrow().percentile_ns(990).unwrap_or(0);
    r.set("p99_us", p99 as f64 / 1000.0);
    r.set("virtual_ms", elapsed / 1_000_000);
    r.histogram("request", &s.latency.borrow());
    rig.put_samples("", r);

    // Everybody goes: nothing anonymous may be left behind.
    for &mm in mms {
        let ctx = Ctx::inline(mm, s.memcg, InlineClock::External);
        rig.machine().exit_mm(&ctx, mm);
    }
    let mut w = rig.machine().world_mut();
    w.engine.lru_add_drain_all();
    w.engine.check();
    drop(w);
    let left = rig.counts(s.memcg).get(Counter::AnonPages);
    r.set("left_behind", left);
}

/// Why the filter does not change what reclaim has to do.
const SCANNING: &str = "docs/acceptance.md#dead-folios-scanning";
/// Why as many pages are freed as come in.
const FREES: &str = "docs/acceptance.md#dead-folios-frees";

/// Acceptance rows (`docs/reference/experiments.md#dead-folios`).
fn claims(before: &str, after: &str) -> Vec<Claim> {
    let (b, a) = (before.to_string(), after.to_string());
    let per_dead = {
        let (b, a) = (b.clone(), a.clone());
        move |s: &SeedView<'_>| {
            let saved = s.get(&b, "list_ops_per_folio")? - s.get(&a, "list_ops_per_folio")?;
            Ok(saved / (s.get(&b, "dead_percent")? / 100.0))
        }
    };
    let locks = move |s: &SeedView<'_>| {
        Ok(1.0 - s.get(&a, "lru_lock_acq")? / s.get(&b, "lru_lock_acq")?.max(1.0))
    };
    vec![
        Claim::value("dead share at the drain", "dead_percent", before)
            .within(5.5, 8.0)
            .published(6.7097)
            .restates("p")
            .unit("%"),
        Claim::value(
            "dead share that reaches a list",
            "dead_inserted_percent",
            after,
        )
        .always(Band::at_most(0.01))
        .published(0.0001)
        .unit("%"),
        Claim::derived("share of the lock acquisitions saved", locks)
            .direction_within(Band::at_least(f64::EPSILON))
            .published("24 % of the lock's contention was on batches with dead folios")
            .higher_is_better(),
        Claim::derived("list operations saved per dead folio", per_dead)
            .always(Band::around(2.0, 0.1)),
        Claim::ratio(
            "pages scanned per folio added",
            "scan_per_folio",
            before,
            after,
        )
        .within(0.85, 1.0)
        .published(0.93)
        .lower_is_better()
        .cannot(SCANNING),
        Claim::ratio("stalls per folio added", "stalls_per_folio", before, after)
            .within(0.88, 1.0)
            .published(0.948)
            .lower_is_better()
            .cannot(SCANNING),
        Claim::ratio(
            "pages freed per folio added",
            "frees_per_folio",
            before,
            after,
        )
        .within(0.9, 1.0)
        .published(0.951)
        .lower_is_better()
        .cannot(FREES),
        Claim::ratio("requests per second", "throughput", before, after)
            .direction_within(Band::at_least(0.99))
            .higher_is_better(),
        Claim::ratio("99th percentile of a request", "p99_us", before, after)
            .direction_within(Band::at_most(1.01))
            .lower_is_better(),
        Claim::value(
            format!("anonymous pages left behind, {before}"),
            "left_behind",
            before,
        )
        .always(Band::exactly(0.0)),
        Claim::value(
            format!("anonymous pages left behind, {after}"),
            "left_behind",
            after,
        )
        .always(Band::exactly(0.0)),
    ]
}
