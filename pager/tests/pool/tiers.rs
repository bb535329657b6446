//! The second tier of compressed memory, and how pages move to it while they are used.

use crate::common::*;
use coldset_pager::{Limits, Pool, PoolConfig, Region, Stats, SwapConfig};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};

/// Text around the counters of the threads: something to compress.
fn text(page: usize) -> Vec<u8> {
    let words = [
        "page ", "folio ", "reclaim ", "memory ", "budget ", "cold ", "set ", "the ",
    ];
    let mut r = Random::new(page as u64);
    let mut bytes = Vec::with_capacity(PAGE + 8);
    while bytes.len() < PAGE {
        bytes.extend_from_slice(words[r.below(8) as usize].as_bytes());
    }
    bytes.truncate(PAGE);
    bytes[at(page, 0)..][..64].fill(0);
    bytes
}

fn fill(r: &mut Region) {
    for (i, p) in r.bytes_mut().chunks_mut(PAGE).enumerate() {
        p.copy_from_slice(&text(i));
    }
}

/// The text is as it was, whatever the counters are.
fn check(r: &Region) {
    for (i, p) in r.bytes().chunks(PAGE).enumerate() {
        let mut p = p.to_vec();
        p[at(i, 0)..][..64].fill(0);
        assert!(p == text(i), "page {i}");
    }
}

/// Threads, a meddler, a watcher, and a region that is full of text.
fn stressed(swap: SwapConfig, time: Duration) -> Option<Stats> {
    let _one = alone();
    let budget = 12 * MIB;
    let pool = faulting(PoolConfig::new(budget).swap(swap))?;
    let group = pool.group("text", Limits::new()).unwrap();
    let mut region = group.anonymous(24 * MIB as usize).unwrap();
    fill(&mut region);
    let stop = AtomicBool::new(false);
    let (s, peak) = std::thread::scope(|s| {
        let watcher = s.spawn(|| watch(&[&pool], &stop));
        let meddler = s.spawn(|| meddle(&group, budget, &stop, &|_| pool.check()));
        let out = stress(&region, Access::Faulting, 3, time, 50);
        stop.store(true, Relaxed);
        meddler.join().unwrap();
        (out, watcher.join().unwrap())
    });
    let stats = pool.stats();
    println!(
        "{} operations, {} evicted, {} failed, peak {peak} (own count {}) of {}: {:?}",
        s.operations,
        stats.evicted,
        stats.store_errors,
        stats.peak_pages,
        stats.budget_pages,
        stats.swap
    );
    assert_eq!(s.lost, None);
    // Five threads may evict: three that access memory, the meddler, and the background thread. What
    // recompression takes has room before.
    let bound = stats.budget_pages + 5 * 16;
    assert!(peak <= bound, "{peak} of {bound}");
    assert!(stats.peak_pages <= bound, "{} of {bound}", stats.peak_pages);
    check(&region);
    drop(region);
    let after = pool.stats();
    assert_eq!((after.store_bytes, after.swap.bytes()), (0, 0));
    assert_eq!((after.swap.file_pages, after.swap_slots.0), (0, 0));
    Some(stats)
}

/// Nothing but compressed memory, too small for LZ4 alone: 24 MiB of text are 11 MiB of LZ4.
#[test]
fn no_store_is_lost_while_pages_are_recompressed() {
    let swap = SwapConfig::lz4(64 * MIB)
        .memory_limit(8 * MIB)
        .and_zstd_after(Duration::ZERO);
    if let Some(s) = stressed(swap, soak(3.0)) {
        assert!(s.swap.recompressed > 1000, "{s:?}");
    }
}

/// The first tier is full all the time, and the rest goes to the file.
#[test]
fn no_store_is_lost_while_recompressed_memory_overflows_into_a_file() {
    let path = temp("over-zstd");
    let swap = SwapConfig::lz4(64 * MIB)
        .memory_limit(2 * MIB)
        .and_zstd()
        .and_file(&path, 64 * MIB);
    let stats = stressed(swap, soak(3.0));
    // Not made where the test is skipped.
    let _ = std::fs::remove_file(path);
    if let Some(s) = stats {
        assert!(s.swap.recompressed > 100, "{s:?}");
        assert!(s.swap.file_pages > 100, "{s:?}");
    }
}

#[test]
fn no_store_is_lost_with_zstd_alone() {
    if let Some(s) = stressed(SwapConfig::zstd(64 * MIB), soak(1.5)) {
        assert!(s.swap.zstd_pages > 1000 && s.swap.lz4_pages == 0, "{s:?}");
    }
}

/// Pages that nobody asks for grow old and smaller, and what that frees can be used.
#[test]
fn what_stays_long_gets_smaller() {
    let _one = alone();
    let swap = SwapConfig::lz4(64 * MIB).and_zstd_after(Duration::from_secs(1));
    let Some(pool) = faulting(PoolConfig::new(16 * MIB).swap(swap)) else {
        return;
    };
    let mut region = pool.anonymous(8 * MIB as usize).unwrap();
    fill(&mut region);
    while pool.root().reclaim(8 * MIB).unwrap() > 0 {}
    let before = pool.stats();
    assert!(
        before.swap.lz4_pages + before.swap.zstd_pages > 1900,
        "{before:?}"
    );
    let end = Instant::now() + Duration::from_secs(60);
    while pool.stats().swap.lz4_pages > 0 {
        assert!(Instant::now() < end, "{:?}", pool.stats().swap);
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = pool.stats();
    assert_eq!(after.swap.zstd_pages, after.swap.recompressed);
    assert!(after.swap.saved_bytes > MIB && after.store_bytes < before.store_bytes);
    // The last batch is counted as soon as it is done.
    while pool.stats().store_pages != after.store_bytes.div_ceil(PAGE as u64) {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(1));
    }
    check(&region);
}

/// Same-filled pages take no memory, whatever the word.
#[test]
fn pages_of_one_word_take_no_memory() {
    let _one = alone();
    let swap = SwapConfig::lz4(64 * MIB).and_zstd();
    // Room for all of them: the background thread would take a page now and then of which half is written.
    let Some(pool) = faulting(PoolConfig::new(16 * MIB).swap(swap)) else {
        return;
    };
    let mut region = pool.anonymous(8 * MIB as usize).unwrap();
    for (i, p) in region.bytes_mut().chunks_mut(PAGE).enumerate() {
        let word = (i as u64 * 0x0101_0101 + 1).to_ne_bytes();
        p.chunks_mut(8).for_each(|w| w.copy_from_slice(&word));
    }
    while pool.root().reclaim(8 * MIB).unwrap() > 0 {}
    let s: Stats = Pool::stats(&pool);
    assert!(s.swap.same_pages > 1900 && s.store_bytes == 0, "{s:?}");
    for (i, p) in region.bytes().chunks(PAGE).enumerate() {
        let word = (i as u64 * 0x0101_0101 + 1).to_ne_bytes();
        assert!(p.chunks(8).all(|w| w == word), "page {i}");
    }
}

/// What the background thread does reaches the engine only as the room that is left: it is in the
/// journal, and a replay without any memory arrives at the same victims.
#[test]
fn a_journal_with_recompression_replays_exactly() {
    let _one = alone();
    let path = temp("journal-zstd");
    let swap = SwapConfig::lz4(64 * MIB)
        .memory_limit(8 * MIB)
        .and_zstd_after(Duration::ZERO);
    let config = PoolConfig::new(10 * MIB).swap(swap).journal(&path);
    let Some(pool) = faulting(config) else { return };
    let mut region = pool.anonymous(16 * MIB as usize).unwrap();
    fill(&mut region);
    let s = stress(
        &region,
        Access::Faulting,
        3,
        Duration::from_millis(1500),
        50,
    );
    assert_eq!(s.lost, None);
    drop(region);
    let stats = pool.stats();
    assert!(stats.swap.recompressed > 100, "{stats:?}");
    assert_eq!(stats.store_errors, 0);
    drop(pool);
    // The last batch of the background thread may outlive the pool's handle for a moment.
    let start = Instant::now();
    let replayed = loop {
        match coldset_pager::journal::replay(&path) {
            Ok(r) if r.victims.len() as u64 == stats.evicted => break r,
            other => {
                let victims = other.map(|r| r.victims.len());
                let waited = start.elapsed();
                assert!(waited < Duration::from_secs(10), "{victims:?}, {stats:?}");
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    println!(
        "{} operations, {} victims",
        replayed.operations,
        replayed.victims.len()
    );
    std::fs::remove_file(path).unwrap();
}

/// Pages of noise, or of text.
fn fill_with(r: &mut Region, noise: bool) {
    let mut x = Random::new(7);
    for (i, p) in r.bytes_mut().chunks_mut(PAGE).enumerate() {
        match noise {
            true => p.iter_mut().for_each(|b| *b = x.below(256) as u8),
            false => p.copy_from_slice(&text(i)),
        }
    }
}

/// What a quarter of the budget comes to, used for a while after twice the budget has been written and forgotten.
fn beside_cold_pages(swap: SwapConfig, noise: bool) -> Option<Stats> {
    let _one = alone();
    let budget = 8 * MIB;
    let pool = faulting(PoolConfig::new(budget).swap(swap).background(false))?;
    let mut cold = pool.anonymous(2 * budget as usize).unwrap();
    fill_with(&mut cold, noise);
    let mut used = pool.anonymous(budget as usize / 8 * 6).unwrap();
    fill_with(&mut used, false);
    let use_all = |_| {
        std::hint::black_box(used.bytes().iter().step_by(PAGE).fold(0, |sum, b| sum ^ b));
    };
    (0..4).for_each(use_all);
    let misses = pool.stats().misses;
    (0..8).for_each(use_all);
    let mut stats = pool.stats();
    stats.misses -= misses;
    Some(stats)
}

/// Pages that do not compress take no memory once they are evicted if there is a file: what is used has the budget.
#[test]
fn noise_goes_to_the_file_and_leaves_the_budget_to_what_is_used() {
    let swap = SwapConfig::parse("lz4:64MiB+temp:64MiB").unwrap();
    if let Some(s) = beside_cold_pages(swap, true) {
        assert_eq!((s.swap.raw_pages, s.misses), (0, 0), "{s:?}");
        assert!(s.swap.file_pages > 3000, "{s:?}");
    }
}

/// So do pages that compress, once nobody has wanted them for as long as it takes to evict as many as memory holds.
#[test]
fn cold_pages_go_to_the_file_and_leave_the_budget_to_what_is_used() {
    let swap = SwapConfig::parse("lz4:64MiB+temp:64MiB").unwrap();
    if let Some(s) = beside_cold_pages(swap, false) {
        assert_eq!(s.misses, 0, "{s:?}");
        assert!(s.swap.file_pages > 3000, "{s:?}");
    }
}

/// Copies of pages that are in memory would take the place of others.
#[test]
fn what_comes_back_from_compressed_memory_leaves_no_copy() {
    let _one = alone();
    let budget = 8 * MIB;
    let config = PoolConfig::new(budget).swap(SwapConfig::lz4(64 * MIB));
    let Some(pool) = faulting(config.background(false)) else {
        return;
    };
    let pages = budget as usize / PAGE * 21 / 20;
    let mut region = pool.anonymous(pages * PAGE).unwrap();
    fill(&mut region);
    let mut x = Random::new(7);
    for _ in 0..4 * pages {
        std::hint::black_box(region.bytes()[x.below(pages as u64) as usize * PAGE]);
    }
    let s = pool.stats();
    assert!(s.swapped_in > 500, "{s:?}");
    // The rest is less than a quarter of the budget, and half as large when it is compressed.
    let least = s.budget_pages * 13 / 16;
    assert!(s.resident_pages > least, "{least} of {pages}: {s:?}");
}

/// Slots that were used before are used again before others, so that the tables of a large swap do not grow for ever.
#[test]
fn tables_of_a_large_swap_stay_small() {
    let _one = alone();
    let budget = 4 * MIB;
    let config = PoolConfig::new(budget).swap(SwapConfig::lz4(64 * budget));
    let Some(pool) = faulting(config.background(false)) else {
        return;
    };
    let pages = budget as usize / PAGE * 3 / 2;
    let mut region = pool.anonymous(pages * PAGE).unwrap();
    fill(&mut region);
    let mut x = Random::new(11);
    let mut store = |times: usize| {
        for _ in 0..times {
            region.bytes_mut()[x.below(pages as u64) as usize * PAGE] = 1;
        }
        pool.stats()
    };
    let (before, after) = (store(5 * pages), store(100 * pages));
    assert!(after.swapped_out > 64 * before.budget_pages, "{after:?}");
    let [before, after] = [before, after].map(|s| s.overhead_bytes);
    assert!(after < before + 64 * 1024, "{before} and {after}");
}

/// A page that is only read is written to the file once, however often it comes back from there.
#[test]
fn copies_in_the_file_stay() {
    let _one = alone();
    let budget = 8 * MIB;
    let swap = SwapConfig::parse("lz4:64MiB+temp:64MiB").unwrap();
    let Some(pool) = faulting(PoolConfig::new(budget).swap(swap)) else {
        return;
    };
    let mut text = pool.anonymous(budget as usize).unwrap();
    fill_with(&mut text, false);
    let mut noise = pool.anonymous(2 * budget as usize).unwrap();
    fill_with(&mut noise, true);
    let read = |r: &Region| {
        std::hint::black_box(r.bytes().iter().step_by(PAGE).fold(0, |sum, b| sum ^ b));
    };
    // All of both, so that each page of the noise has been written.
    for _ in 0..2 {
        read(&text);
        read(&noise);
    }
    let written = |s: &Stats| s.engine.iter().find(|c| c.0 == "pgpgout").unwrap().1;
    let before = pool.stats();
    (0..3).for_each(|_| read(&noise));
    let after = pool.stats();
    assert!(after.misses > before.misses && after.swapped_in > before.swapped_in);
    let kib = written(&after) - written(&before);
    // What is left of the text in memory may still go there, once.
    assert!(kib <= 8 << 10, "{kib} KiB: {after:?}");
}

/// Compressed memory in front of a file is for as much as was asked for, of which an eviction leaves room for a batch.
#[test]
fn compressed_memory_before_a_file_has_its_size() {
    let swap = SwapConfig::parse("lz4:1MiB+temp:64MiB").unwrap();
    if let Some(s) = beside_cold_pages(swap, false) {
        let pages = s.swap.lz4_pages + s.swap.raw_pages;
        assert!((256 - 16..=256).contains(&pages), "{s:?}");
        assert!(s.swap.file_pages > 3000, "{s:?}");
    }
}
