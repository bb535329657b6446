//! A reader in order that uses all pages takes few faults for them, and they look used; where it leaves some out, none of
//! those does.
#![allow(unsafe_code, reason = "faults are counted by thread")]

use crate::common::*;
use coldset_pager::journal::accesses;
use coldset_pager::{PoolConfig, Region, SwapConfig};
use std::ops::Range;

const PAGES: usize = 24_000;
/// All pages are used here, and three of each 32 elsewhere.
const ALL: Range<usize> = 3_000..15_000;

fn touched(page: usize) -> bool {
    ALL.contains(&page) || page % 32 < 3
}

fn read(region: &Region, pages: Range<usize>) {
    for p in pages.filter(|&p| touched(p)) {
        // SAFETY: inside the region, and nobody stores to it.
        unsafe { region.as_ptr().add(p * PAGE).read_volatile() };
    }
}

/// Of this thread.
fn faults() -> i64 {
    // SAFETY: zeroes are a value of it, and the kernel fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage.ru_minflt
    }
}

/// Reads a region with and without a thread ahead of the reader, and looks at what a journal knows.
fn read_with(policy: &str, background: bool) {
    let (journal, file) = (temp("witnesses-journal"), temp("witnesses-file"));
    let made = std::fs::File::create(&file).unwrap();
    made.set_len((PAGES * PAGE) as u64).unwrap();
    let config = PoolConfig::new(16 * MIB).policy(policy).unwrap();
    let swap = SwapConfig::lz4(128 * MIB);
    let config = config.swap(swap).background(background).journal(&journal);
    let Some(pool) = faulting(config) else { return };
    let map = pool.file(&file).unwrap();
    let anon = pool.anonymous(PAGES * PAGE).unwrap();
    for region in [&map, &anon] {
        read(region, 0..ALL.start + 8_000);
        let before = faults();
        read(region, ALL.start + 8_000..ALL.end);
        let each = (faults() - before) as f64 / (ALL.len() - 8_000) as f64;
        // With a thread ahead, when the reader comes too close to it depends on the machine.
        assert!(background || each < 0.2, "{policy}: {each} faults a page");
        read(region, ALL.end..PAGES);
        // It stops in the middle.
        read(region, ALL.start..ALL.start + 6_000);
        read(region, PAGES - 2_000..PAGES);
    }
    drop((map, anon, pool));
    let seen = accesses(&journal).unwrap().accesses;
    for region in [0, 1] {
        let mut pages: Vec<usize> = seen
            .iter()
            .filter(|a| a.region == region)
            .map(|a| a.page as usize)
            .collect();
        pages.sort_unstable();
        pages.dedup();
        let others: Vec<&usize> = pages.iter().filter(|&&p| !touched(p)).collect();
        assert!(others.is_empty(), "{policy}: {others:?}");
        let used = pages.iter().filter(|p| ALL.contains(p)).count();
        assert!(
            used > ALL.len() * 4 / 5,
            "{policy}: {used} of {}",
            ALL.len()
        );
    }
    std::fs::remove_file(journal).unwrap();
    std::fs::remove_file(file).unwrap();
}

#[test]
fn pages_mapped_ahead_look_used_only_if_somebody_has_used_them() {
    let _one = alone();
    for policy in ["v5", "classic"] {
        for background in [false, true] {
            read_with(policy, background);
        }
    }
}

/// Once a sweep has taken pages out of the page table that were mapped ahead, each is known by its own uses.
#[test]
fn after_a_sweep_each_page_is_known_by_its_own_uses() {
    const FEW: usize = 512;
    const MANY: usize = 16_384;
    let _one = alone();
    let config = PoolConfig::new(4 * MIB).policy("v5").unwrap();
    let swap = SwapConfig::lz4(128 * MIB);
    let Some(pool) = faulting(config.swap(swap).background(false)) else {
        return;
    };
    let few = pool.anonymous(FEW * PAGE).unwrap();
    let many = pool.anonymous(MANY * PAGE).unwrap();
    // SAFETY: inside the region, and nobody stores to it.
    let read = |r: &Region, p: usize| unsafe { r.as_ptr().add(p * PAGE).read_volatile() };
    (0..FEW).for_each(|p| {
        read(&few, p);
    });
    let mut missed = 0;
    for at in (0..MANY).step_by(64) {
        (at..at + 64).for_each(|p| {
            read(&many, p);
        });
        let before = pool.stats().misses;
        // No witness among them.
        (0..FEW).filter(|p| p % 32 < 8).for_each(|p| {
            read(&few, p);
        });
        missed += pool.stats().misses - before;
    }
    assert!(missed < 16, "{missed} misses of 128 pages in use");
}
