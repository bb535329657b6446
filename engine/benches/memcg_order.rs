//! Choosing the memcg that gives up memory, against the number of memcgs: plain walk, memcg LRU, heat
//! as posted, lazy decay wheel. Lists of pages are not touched, only the choice is timed.
//!
//! A call wants 32 pages. One memcg in sixteen gives 40 of 64 scanned, the others give nothing and want
//! back what they gave; how many are asked until one gives is part of the cost.

// The functions that criterion's macros write have no documentation.
#![allow(missing_docs)]

use coldset_engine::memcg::heat::VisitStats;
use coldset_engine::memcg::CounterKind;
use coldset_engine::reclaim::order::{MemcgOrder, Visited};
use coldset_engine::reclaim::ScanControl;
use coldset_engine::switches::PolicyKind;
use coldset_engine::{presets, Config, Counter, Engine, MemcgId, NodeId};
use criterion::measurement::WallTime;
use criterion::{criterion_group, criterion_main, BenchmarkGroup, BenchmarkId, Criterion};
use std::time::{Duration, Instant};

/// Name in reports, preset, lists of an lruvec: small ones, except where the order needs generations.
const ORDERS: [(&str, &str, PolicyKind); 4] = [
    ("memcg-lru", "v5", PolicyKind::MultiGen),
    ("walk", "classic", PolicyKind::Fifo),
    ("heat", "classic+heat", PolicyKind::Fifo),
    ("wheel", "classic+wheel", PolicyKind::Fifo),
];
const MEMCGS: [u32; 4] = [100, 1_000, 10_000, 100_000];
/// One memcg in this many gives.
const GIVES: u32 = 16;
/// Calls a simulated second.
const CALLS_PER_SECOND: u64 = 10_000;

/// A tree of memcgs and the order over it.
struct Host {
    eng: Engine,
    now: u64,
    visits: u64,
}

impl Host {
    fn new(preset: &str, policy: PolicyKind, memcgs: u32) -> Self {
        let mut sw = presets::preset(preset).expect("preset");
        sw.policy = policy;
        let cfg = Config {
            css_id_overflow: true,
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
                let gives = memcg.0 % GIVES == 1;
                let visited = Visited {
                    memcg,
                    stats: VisitStats {
                        scanned: 64,
                        reclaimed: if gives { 40 } else { 0 },
                        aged: false,
                    },
                    rotate: !gives,
                    sizable: true,
                };
                sc.nr_reclaimed += visited.stats.reclaimed;
                self.visits += 1;
                order.result(&mut self.eng, &sc, &visited);
            }
            order.stop(&mut self.eng);
        }
    }

    /// Until every memcg has had its turns.
    fn warm_up(&mut self, memcgs: u32) {
        (0..4 * memcgs.max(1000)).for_each(|_| self.call());
    }
}

/// A small table: nanoseconds, memcgs visited and passed over, for each call.
fn table() {
    println!("one call of reclaim, 1 memcg in {GIVES} gives: ns (visits, passed over)");
    print!("{:>10}", "memcgs");
    ORDERS.iter().for_each(|(name, _, _)| print!("{name:>24}"));
    println!();
    for memcgs in MEMCGS {
        print!("{memcgs:>10}");
        for (_, preset, policy) in ORDERS {
            let mut host = Host::new(preset, policy, memcgs);
            host.warm_up(memcgs);
            host.visits = 0;
            let skips = host.eng.vmstat()[Counter::HeatSkips];
            let start = Instant::now();
            let mut calls = 0u32;
            while calls < 2 * memcgs || start.elapsed() < Duration::from_millis(300) {
                (0..100).for_each(|_| host.call());
                calls += 100;
                if start.elapsed() > Duration::from_secs(3) {
                    break;
                }
            }
            let each = |n: f64| n / f64::from(calls);
            let skips = host.eng.vmstat()[Counter::HeatSkips] - skips;
            let cell = format!(
                "{:.0} ({:.1}, {:.0})",
                each(start.elapsed().as_nanos() as f64),
                each(host.visits as f64),
                each(skips as f64)
            );
            print!("{cell:>24}");
        }
        println!();
    }
}

fn one(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, preset: &str, policy: PolicyKind) {
    for memcgs in MEMCGS {
        let mut host = Host::new(preset, policy, memcgs);
        host.warm_up(memcgs);
        group.bench_with_input(BenchmarkId::new(name, memcgs), &memcgs, |b, _| {
            b.iter(|| host.call());
        });
    }
}

fn orders(c: &mut Criterion) {
    table();
    let mut group = c.benchmark_group("memcg_order");
    group.sample_size(20);
    for (name, preset, policy) in ORDERS {
        one(&mut group, name, preset, policy);
    }
    group.finish();
}

criterion_group!(benches, orders);
criterion_main!(benches);
