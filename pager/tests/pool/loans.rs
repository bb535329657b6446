//! Blocks that are lent beside everything else that a pool does.

use crate::common::*;
use crate::streams::{pool_with, read, Pages, BLOCK, BUDGET};
use coldset_pager::{Advice, Limits, Pool, PoolConfig, Region, SwapConfig};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

/// Readers in order, of one map, of two of one file, of a file whose end comes and goes, and of maps that are made and
/// dropped, beside stores to anonymous memory, advice, syncs, reclaim, limits and budgets: every word is what is in the file or
/// was stored last, and in the end nothing is left of what was charged.
#[test]
fn streams_beside_everything_else_read_what_is_in_their_files() {
    let _one = alone();
    let swap = SwapConfig::lz4(4 * BUDGET).and_temporary(4 * BUDGET);
    let config = PoolConfig::new(BUDGET).swap(swap);
    let Some(pool) = pool_with(config) else {
        return;
    };
    let time = soak(6.0);
    let group = pool.group("streams", Limits::new().max(BUDGET)).unwrap();
    let (file, cut) = (Pages::new(24 << 10), Pages::new(14 << 10));
    let map = |file: &Pages| group.file_read_only(&file.0).unwrap();
    let (same, again, shortened) = (map(&file), map(&file), map(&cut));
    let stored = pool.anonymous(3 * BUDGET as usize / 2).unwrap();
    let before = pool.stats().lent;
    let stop = AtomicBool::new(false);
    let until_stop = |what: &mut dyn FnMut()| {
        while !stop.load(Relaxed) {
            what();
        }
    };
    let in_order = |region: &Region, pages: usize| {
        let mut pages = 0..pages;
        while let Some(p) = pages.next().filter(|_| !stop.load(Relaxed)) {
            read(region, p);
        }
    };
    let passes = AtomicU64::new(0);
    let stressed = std::thread::scope(|s| {
        for region in [&same, &same, &again] {
            s.spawn(|| {
                until_stop(&mut || {
                    in_order(region, file.1);
                    passes.fetch_add(1, Relaxed);
                });
            });
        }
        s.spawn(|| until_stop(&mut || in_order(&shortened, cut.1 - 4 * BLOCK)));
        s.spawn(|| until_stop(&mut || come_and_go(&cut)));
        s.spawn(|| until_stop(&mut || in_order(&map(&file), file.1 / 3)));
        s.spawn(|| {
            let mut r = Random::new(11);
            until_stop(&mut || meddle_with(&pool, [&same, &again, &shortened], &mut r));
        });
        let stressed = stress(&stored, Access::Faulting, 2, time, 30);
        stop.store(true, Relaxed);
        stressed
    });
    assert_eq!(stressed.lost, None);
    let s = pool.stats();
    println!(
        "{passes:?} passes, {} lent, {} filled, {} stores, {:.1} s to look at all of them",
        s.lent - before,
        s.filled,
        stressed.stores,
        stressed.looked.as_secs_f64()
    );
    assert!(s.lent - before > 2_000, "{s:?}");
    assert_eq!(s.failed_misses, 0, "{s:?}");
    drop((same, again, shortened, stored));
    let s = pool.stats();
    assert_eq!(
        (s.resident_pages, s.swap_slots.0, s.store_bytes),
        (0, 0, 0),
        "{s:?}"
    );
    assert_eq!(pages_in_memory(), 0);
    // The engine keeps a batch of charges of each group for its next pages; a limit takes it away.
    group.set(Limits::new().max(0)).unwrap();
    assert_eq!(group.usage(), 0);
    // Pages that were freed while they waited in a batch of the lists are charged until it is drained, as reclaim does.
    let waiting = pool.root().usage();
    pool.root().reclaim(MIB).unwrap();
    let batch = 64 * PAGE as u64;
    let usage = pool.root().usage();
    assert!(usage <= batch, "{usage}, {waiting} before");
    // What two maps had of the other file at the same time neither of them could drop.
    let left = cut.cached();
    assert!(left < 64, "{left} pages are left in the page cache");
}

/// The last blocks of a file, which nobody reads on purpose, go and come back.
fn come_and_go(file: &Pages) {
    let mut r = Random::new(5);
    let f = File::options().write(true).open(&file.0).unwrap();
    let whole = (file.1 * PAGE) as u64;
    f.set_len(whole - r.below(3 * (BLOCK * PAGE) as u64))
        .unwrap();
    std::thread::sleep(Duration::from_micros(r.below(5000)));
    f.set_len(whole).unwrap();
    std::thread::sleep(Duration::from_micros(r.below(5000)));
}

/// One thing that a program may do.
fn meddle_with(pool: &Pool, regions: [&Region; 3], r: &mut Random) {
    let region = regions[r.below(3) as usize];
    let pages = (region.len() / PAGE - 4 * BLOCK) as u64;
    let (p, n) = (r.below(pages) as usize, 1 + r.below(600) as usize);
    let range = p * PAGE..(p + n) * PAGE;
    match r.below(12) {
        0..3 => region.advise(range, Advice::DontNeed).unwrap(),
        3..5 => region.advise(range, Advice::WillNeed).unwrap(),
        5..7 => {
            let few = p * PAGE..(p + n.min(40)) * PAGE;
            let pinned = region.pin(few, false).unwrap();
            (p..p + n.min(40)).for_each(|p| read(region, p));
            drop(pinned);
        }
        7 => pool
            .resize(BUDGET / [1, 2, 4][r.below(3) as usize])
            .unwrap(),
        8 => drop(pool.root().reclaim(MIB * (1 + r.below(16))).unwrap()),
        9 => pool.sync().unwrap(),
        10 => drop(pool.snapshot()),
        _ => drop(region.resident(range).unwrap()),
    }
    std::thread::sleep(Duration::from_micros(r.below(3000)));
}

/// A page is asked for of the block that a stream comes to next: it is lent with nothing of it in memory, or not at all.
#[test]
fn a_page_of_a_block_that_is_just_being_lent_is_the_file_s() {
    let _one = alone();
    let Some(pool) = pool_with(PoolConfig::new(BUDGET)) else {
        return;
    };
    let file = Pages::new(24 << 10);
    let before = pool.stats().lent;
    let end = Instant::now() + soak(1.0);
    while Instant::now() < end {
        // Anew each time: a block of which a page is in memory is not lent.
        let region = pool.file_read_only(&file.0).unwrap();
        let at = AtomicUsize::new(0);
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut r = Random::new(3);
                let blocks = file.1 / BLOCK;
                for block in (2..blocks).step_by(3) {
                    while at.load(Relaxed) / BLOCK + 1 < block {
                        std::thread::sleep(Duration::from_micros(20));
                    }
                    let p = block * BLOCK + 1 + r.below(BLOCK as u64 - 1) as usize;
                    let page = p * PAGE..(p + 1) * PAGE;
                    region.advise(page, Advice::WillNeed).unwrap();
                    read(&region, p);
                }
            });
            for p in 0..file.1 {
                at.store(p, Relaxed);
                read(&region, p);
            }
        });
    }
    let s = pool.stats();
    println!("{} lent, {} filled", s.lent - before, s.filled);
    assert_eq!(s.failed_misses, 0, "{s:?}");
}

/// Two threads must meet within a few instructions for this bug: where moments are long, they do.
#[cfg(feature = "plants")]
#[test]
fn planted_who_does_not_look_whether_a_block_was_lent_is_found() {
    const PROGRAM: &str = "a_page_of_a_block_that_is_just_being_lent_is_the_file_s";
    const SEEDS: std::ops::Range<u64> = 5..60;
    let _one = alone();
    let fails = |seed: &u64| {
        let mut c = child::command(PROGRAM, "planted");
        c.env("COLDSET_PLANT", "LentUnseen")
            .env("COLDSET_MEANWHILE", format!("{seed}@miss/fill.rs"));
        let text = child::text(&c.output().unwrap());
        if text.contains("skipped") {
            println!("{text}");
        }
        text.contains("skipped") || text.contains("UFFDIO_COPY")
    };
    let found = SEEDS.clone().find(fails);
    println!("found by seed {found:?}");
    assert!(found.is_some(), "no seed of {SEEDS:?} finds it");
}
