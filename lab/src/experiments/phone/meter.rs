//! What is measured: counters from a starting point on, memory sampled ten times a second, times of
//! starts.

use super::{Phone, MIB};
use crate::stats::{nearest_rank, LatencyHistogram};
use coldset_engine::zone::{totalreserve, Mark};
use coldset_engine::{Counter, MemcgId, NodeId};
use coldset_machine::sim::{Affinity, TimeClass};
use coldset_machine::World;
use coldset_report::RunResult;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Names of the memory samples.
const SAMPLES: [&str; 5] = [
    "mem_available_mb",
    "mem_free_mb",
    "cached_mb",
    "anon_pages_mb",
    "dirty_mb",
];

/// Collects what a run shows.
pub struct Meter {
    phone: Rc<Phone>,
    start: RefCell<Vec<i64>>,
    sums: RefCell<[u64; 5]>,
    samples: Cell<u64>,
    /// (time, values in pages), one a second.
    series: RefCell<Vec<(u64, [u64; 5])>>,
    launches: RefCell<Vec<u64>>,
    on: Cell<bool>,
}

/// Free memory and page cache, pages.
pub fn free_and_cached(w: &World) -> (u64, u64) {
    let free = w.engine.zones.all().iter().map(|z| z.free + z.pcp).sum();
    let cached = w.engine.memcgs.live(MemcgId::ROOT, Counter::FilePages);
    (free, cached.max(0) as u64)
}

/// The five samples, in pages.
fn sample(w: &World) -> [u64; 5] {
    let (free, cached) = free_and_cached(w);
    let live = |c| w.engine.memcgs.live(MemcgId::ROOT, c).max(0) as u64;
    let low: u64 = w
        .engine
        .zones
        .of(NodeId(0))
        .iter()
        .map(|z| z.mark(Mark::Low))
        .sum();
    // As /proc/meminfo: what could be had without swapping.
    let available =
        free.saturating_sub(totalreserve(w.engine.zones.all())) + cached - (cached / 2).min(low);
    [
        available,
        free,
        cached,
        live(Counter::AnonPages),
        live(Counter::FileDirty),
    ]
}

impl Meter {
    /// A meter that is off.
    pub fn new(phone: &Rc<Phone>) -> Rc<Self> {
        Rc::new(Self {
            phone: phone.clone(),
            start: RefCell::default(),
            sums: RefCell::default(),
            samples: Cell::new(0),
            series: RefCell::default(),
            launches: RefCell::default(),
            on: Cell::new(false),
        })
    }

    /// Measures from here on.
    pub fn begin(self: &Rc<Self>) {
        *self.start.borrow_mut() = self.counters();
        self.on.set(true);
        let meter = self.clone();
        let mm = self.phone.plain_mm();
        self.phone
            .machine
            .spawn("sampler", Affinity::Any, mm, move |m, ctx| async move {
                loop {
                    let values = sample(&m.world());
                    for (sum, v) in meter.sums.borrow_mut().iter_mut().zip(values) {
                        *sum += v;
                    }
                    let n = meter.samples.get();
                    meter.samples.set(n + 1);
                    if n.is_multiple_of(10) {
                        meter.series.borrow_mut().push((ctx.now(), values));
                    }
                    let next = ctx.now() + meter.phone.ms(100);
                    ctx.sleep_until(TimeClass::Idle, next).await;
                }
            });
    }

    /// The machine's counters; what is counted by memcg only, summed over all of them.
    fn counters(&self) -> Vec<i64> {
        let w = self.phone.machine.world();
        let of = |&c: &Counter| match w.engine.vmstat().get(c) {
            0 => w.engine.memcgs.live(MemcgId::ROOT, c),
            n => n,
        };
        Counter::ALL.iter().map(of).collect()
    }

    /// A start took so long, virtual ns.
    pub fn launched(&self, ns: u64) {
        if self.on.get() {
            self.launches.borrow_mut().push(ns);
        }
    }

    /// Everything measured. Times and amounts of direct reclaim are those of the full-size phone.
    pub fn result(&self, r: &mut RunResult) {
        let phone = &self.phone;
        let mut times = self.launches.borrow().clone();
        times.sort_unstable();
        let total: u64 = times.iter().sum();
        let mut launch = LatencyHistogram::new();
        times.iter().for_each(|ns| launch.record(ns * phone.scale));
        r.histogram("launch", &launch);
        r.set("launches", times.len() as u64);
        r.set(
            "launch_mean_ms",
            phone.as_ms(total) / times.len().max(1) as f64,
        );
        for (name, permille) in [("p50", 500), ("p90", 900), ("p95", 950)] {
            let at = nearest_rank(&times, permille).unwrap_or(0);
            r.set(format!("launch_{name}_ms"), phone.as_ms(at));
        }
        r.set("launch_total_ms", phone.as_ms(total));
        let end = self.counters();
        let start = self.start.borrow();
        let delta = |c: Counter| {
            let from = start.get(c as usize).copied().unwrap_or(0);
            (end[c as usize] - from).max(0) as u64
        };
        // Levels have samples; what is counted are events.
        let level = |c: Counter| c as usize <= Counter::IsolatedFile as usize;
        for c in Counter::without_huge_pages().filter(|&c| !level(c)) {
            r.set(c.name(), delta(c));
        }
        let bytes = delta(Counter::PgstealDirect) as f64 * 4096.0;
        let ns = delta(Counter::DirectReclaimNs) as f64;
        let scale = phone.scale as f64;
        r.set("direct_reclaim_ms", ns * scale / 1e6);
        r.set("direct_reclaim_mb", bytes * scale / 1e6);
        // Without any direct reclaim there is no speed: 0 would read as slow.
        r.set("reclaim_mb_per_ms", if ns > 0.0 { bytes / ns } else { 0.0 });
        let scan = delta(Counter::PgscanDirect) + delta(Counter::PgscanKswapd);
        r.set("pgscan", scan);
        r.set(
            "pgsteal",
            delta(Counter::PgstealDirect) + delta(Counter::PgstealKswapd),
        );
        let calls = delta(Counter::DirectReclaim) + delta(Counter::Pageoutrun);
        r.set("pgscan_per_call", scan as f64 / calls.max(1) as f64);
        let zram = |c| delta(c) * 4;
        r.set("zram_in", zram(Counter::Pswpin));
        r.set("zram_out", zram(Counter::Pswpout));
        let n = self.samples.get().max(1) as f64;
        for (name, &sum) in SAMPLES.iter().zip(self.sums.borrow().iter()) {
            r.set(*name, sum as f64 / n * scale / MIB as f64);
        }
        for (at, values) in self.series.borrow().iter() {
            for (name, &v) in SAMPLES.iter().zip(values) {
                r.point(*name, *at, v * phone.scale / MIB);
            }
        }
    }
}
