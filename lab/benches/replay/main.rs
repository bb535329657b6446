//! Criterion benchmarks of the two paths that every experiment lives on: touching a resident page,
//! and replaying a stream of reads under a budget.

// The functions that criterion's macros write have no documentation.
#![allow(missing_docs)]

mod stream;

use coldset_engine::{presets, MemcgId};
use coldset_lab::experiment::{Host, RunInput};
use coldset_lab::replay::{replay, ReplayOptions};
use coldset_lab::rig::Rig;
use coldset_machine::{Ctx, InlineClock, MappingFlags};
use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use std::hint::black_box;

/// A touch of a mapped page that is in memory: a byte test and a byte store.
fn touch(c: &mut Criterion) {
    const PAGES: u32 = 1 << 16;
    let input = RunInput::new("v5", presets::preset("v5").expect("preset"));
    let mut run = Rig::new(&input, Host::default())
        .expect("default machine")
        .into_run();
    let machine = run.machine.clone();
    let mm = machine.create_mm(MemcgId::ROOT);
    let ctx = Ctx::inline(mm, MemcgId::ROOT, InlineClock::Running);
    let region = machine.create_anon(PAGES);
    let mapping = machine.mmap(mm, region, 0, PAGES, MappingFlags::empty());
    for page in 0..PAGES {
        run.run_inline(&ctx, machine.access(&ctx, mapping, page, true))
            .expect("memory without a limit");
    }
    let mut group = c.benchmark_group("touch");
    group.throughput(Throughput::Elements(PAGES.into()));
    group.bench_function("resident", |b| {
        b.iter(|| {
            let mut w = machine.world_mut();
            // An odd stride visits every page once, in no order a prefetcher likes.
            let mut page = 0u32;
            for _ in 0..PAGES {
                page = page.wrapping_add(40_503) & (PAGES - 1);
                assert!(w.touch(black_box(mapping), page, false));
            }
        });
    });
    group.finish();
}

/// A short stream, so that an iteration takes well under a second; `examples/replay_bench` has the
/// long one.
fn replays(c: &mut Criterion) {
    const PAGES: u32 = 100_000;
    const ACCESSES: usize = 1_000_000;
    let trace = stream::zipf_reads(PAGES, ACCESSES).expect("valid distribution");
    let mut options = ReplayOptions::new(u64::from(PAGES) / 10);
    options.kernel_memory = false;
    let mut group = c.benchmark_group("replay");
    group.sample_size(10);
    group.throughput(Throughput::Elements(ACCESSES as u64));
    for variant in ["classic", "v5", "fifo"] {
        group.bench_function(variant, |b| {
            b.iter(|| replay(black_box(&trace), variant, &options).expect("fits"));
        });
    }
    group.finish();
}

criterion_group!(benches, touch, replays);
criterion_main!(benches);
