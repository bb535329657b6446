//! Choosing the memcg that gives up memory, against the number of memcgs: plain walk, memcg LRU, heat
//! as posted, lazy decay wheel. Lists of pages are not touched, only the choice is timed.
//!
//! A call wants 32 pages. A memcg that gives, gives 40 of 64 scanned; the others give nothing of 64, or
//! are too small for anything to be scanned. How many are asked until one gives is part of the cost of
//! a call.

// The functions that criterion's macros write have no documentation.
#![allow(missing_docs)]

use coldset_engine::memcg::heat::VisitStats;
use coldset_engine::memcg::CounterKind;
use coldset_engine::policies::ListKind;
use coldset_engine::reclaim::order::{MemcgOrder, Visited};
use coldset_engine::reclaim::ScanControl;
use coldset_engine::switches::{MemcgHeat, PolicyKind};
use coldset_engine::{presets, Config, Counter, Engine, MemcgId, NodeId};
use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion};
use std::time::{Duration, Instant};

/// Name in reports, heat, lists of an lruvec: small ones, except where the order needs generations.
const ORDERS: [(&str, MemcgHeat, PolicyKind); 4] = [
    ("memcg-lru", MemcgHeat::Off, PolicyKind::MultiGen),
    ("walk", MemcgHeat::Off, PolicyKind::List(ListKind::Fifo)),
    ("heat", MemcgHeat::Posted, PolicyKind::List(ListKind::Fifo)),
    ("wheel", MemcgHeat::Wheel, PolicyKind::List(ListKind::Fifo)),
];
const MEMCGS: [u32; 4] = [100, 1_000, 10_000, 60_000];

/// Which memcgs give.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// All: the cost of one choice.
    All,
    /// One in sixteen.
    OneIn16,
    /// Sixteen, however many there are; of the others nothing is scanned.
    Sixteen,
}

impl Load {
    const ALL: [(Load, &'static str); 3] = [
        (Load::All, "every memcg gives"),
        (Load::OneIn16, "one memcg in 16 gives"),
        (Load::Sixteen, "16 memcgs give, the others are tiny"),
    ];

    fn gives(self, memcg: MemcgId, memcgs: u32) -> bool {
        match self {
            Load::All => memcg != MemcgId::ROOT,
            Load::OneIn16 => memcg.0 % 16 == 1,
            Load::Sixteen => memcg.0 % (memcgs / 16) == 1,
        }
    }
}

/// A memcg chosen by the wheel among the most costs at most this much of one among the fewest.
const WHEEL_BOUND: f64 = 5.0;

/// Calls a simulated second.
const CALLS_PER_SECOND: u64 = 10_000;

/// A tree of memcgs and the order over it.
struct Host {
    eng: Engine,
    memcgs: u32,
    load: Load,
    now: u64,
    visits: u64,
}

impl Host {
    fn new(heat: MemcgHeat, policy: PolicyKind, memcgs: u32, load: Load) -> Self {
        let mut sw = presets::preset("v5").expect("preset");
        sw.policy = policy;
        sw.memcg_heat = heat;
        let cfg = Config {
            // The fold of statistics is no part of the choice.
            fold_interval: u64::MAX / 2,
            fold_phase: u64::MAX / 4,
            ..Config::default()
        };
        let mut eng = Engine::new(cfg, sw).expect("default settings");
        for _ in 0..memcgs {
            let id = eng.memcg_create(MemcgId::ROOT).expect("room");
            // An empty memcg counts as protected.
            eng.memcgs.charge_forced(id, CounterKind::Memory, 1000);
        }
        Self {
            eng,
            memcgs,
            load,
            now: 0,
            visits: 0,
        }
    }

    /// One call: direct reclaim of 32 pages, priority by priority as reclaim does it.
    fn call(&mut self) {
        self.now += 1_000_000_000 / CALLS_PER_SECOND;
        self.eng.set_now(self.now);
        let mut sc = ScanControl::new(32, None);
        while sc.nr_reclaimed < sc.nr_to_reclaim {
            let mut order = MemcgOrder::new(&mut self.eng, &sc, NodeId(0));
            while let Some(memcg) = order.next(&mut self.eng, &mut sc) {
                let gives = self.load.gives(memcg, self.memcgs);
                let visited = Visited {
                    memcg,
                    stats: VisitStats {
                        scanned: if gives || self.load != Load::Sixteen {
                            64
                        } else {
                            0
                        },
                        reclaimed: if gives { 40 } else { 0 },
                        aged: false,
                    },
                    rotate: !gives,
                    sizable: true,
                };
                sc.nr_reclaimed += visited.stats.reclaimed;
                self.visits += u64::from(memcg != MemcgId::ROOT);
                order.result(&mut self.eng, &sc, &visited);
            }
            order.stop(&mut self.eng);
        }
    }

    /// Until memcgs have had their turns, or a second.
    fn warm_up(&mut self) {
        let start = Instant::now();
        for _ in 0..self.memcgs.max(1000) / 100 {
            (0..400).for_each(|_| self.call());
            if start.elapsed() > Duration::from_secs(1) {
                break;
            }
        }
    }
}

/// A small table: nanoseconds, memcgs visited and passed over, for each call. Below it what a memcg
/// chosen costs with the most memcgs, as a multiple of what it costs with the fewest: the bound is for
/// the wheel, the others are there to compare.
fn table(load: Load, name: &str) {
    println!("one call of reclaim, {name}: ns (memcgs visited, passed over)");
    print!("{:>10}", "memcgs");
    ORDERS.iter().for_each(|(name, _, _)| print!("{name:>26}"));
    println!();
    let mut chosen: [Vec<f64>; ORDERS.len()] = Default::default();
    for memcgs in MEMCGS {
        print!("{memcgs:>10}");
        for (of, (_, heat, policy)) in ORDERS.into_iter().enumerate() {
            let mut host = Host::new(heat, policy, memcgs, load);
            host.warm_up();
            host.visits = 0;
            let skips = host.eng.vmstat()[Counter::HeatSkips];
            let start = Instant::now();
            let mut calls = 0u32;
            while start.elapsed() < Duration::from_millis(300) {
                (0..10).for_each(|_| host.call());
                calls += 10;
            }
            let each = |n: f64| n / f64::from(calls);
            let ns = start.elapsed().as_nanos() as f64;
            let skips = host.eng.vmstat()[Counter::HeatSkips] - skips;
            chosen[of].push(ns / host.visits.max(1) as f64);
            let cell = format!(
                "{:.0} ({:.1}, {:.0})",
                each(ns),
                each(host.visits as f64),
                each(skips as f64)
            );
            print!("{cell:>26}");
        }
        println!();
    }
    print!("{:>10}", "a choice");
    for each in &chosen {
        print!("{:>25.2}x", each[each.len() - 1] / each[0]);
    }
    println!("   (bound for the wheel: {WHEEL_BOUND}x)");
    let wheel = chosen.last().expect("orders");
    assert!(
        wheel[wheel.len() - 1] <= WHEEL_BOUND * wheel[0],
        "a choice of the wheel is to cost the same however many memcgs there are: {wheel:.0?} ns"
    );
}

fn orders(c: &mut Criterion) {
    for (load, name) in Load::ALL {
        table(load, name);
    }
    let mut group = c.benchmark_group("memcg_order/every memcg gives");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    for (name, heat, policy) in ORDERS {
        for memcgs in MEMCGS {
            let mut host = Host::new(heat, policy, memcgs, Load::All);
            host.warm_up();
            group.bench_with_input(BenchmarkId::new(name, memcgs), &memcgs, |b, _| {
                b.iter(|| host.call());
            });
        }
    }
    group.finish();
}

criterion_group!(benches, orders);
criterion_main!(benches);
