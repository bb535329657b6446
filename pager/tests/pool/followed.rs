//! A reader in order that uses all pages takes few faults for them, and where it no longer does, few pages look used that
//! nobody has used.
#![allow(unsafe_code, reason = "faults are counted by thread")]

use crate::common::*;
use coldset_pager::journal::accesses;
use coldset_pager::{PoolConfig, Region, SwapConfig};
use std::ops::Range;

const PAGES: usize = 24_000;
/// All pages are used here, and three of each 32 elsewhere.
const ALL: Range<usize> = 3_000..15_000;
/// What the manual says: two readings ahead.
const FALSELY_USED: usize = 1_088;

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
    let (journal, file) = (temp("followed-journal"), temp("followed-file"));
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
        assert!(background || each < 0.3, "{policy}: {each} faults a page");
        println!("{policy}, background {background}: {each} faults a page");
        read(region, ALL.end..PAGES);
        // It stops in the middle.
        read(region, ALL.start..ALL.start + 6_000);
        read(region, PAGES - 2_000..PAGES);
    }
    drop((map, anon, pool));
    let seen = accesses(&journal).unwrap().accesses;
    for region in [0, 1] {
        let mut others: Vec<u32> = seen
            .iter()
            .filter(|a| a.region == region && !touched(a.page as usize))
            .map(|a| a.page)
            .collect();
        others.sort_unstable();
        others.dedup();
        println!("{policy}, region {region}: {} others", others.len());
        assert!(others.len() <= FALSELY_USED, "{policy}: {others:?}");
    }
    std::fs::remove_file(journal).unwrap();
    std::fs::remove_file(file).unwrap();
}

#[test]
fn few_pages_look_used_when_a_reader_begins_to_leave_some_out() {
    let _one = alone();
    for policy in ["v5", "classic"] {
        for background in [false, true] {
            read_with(policy, background);
        }
    }
}
