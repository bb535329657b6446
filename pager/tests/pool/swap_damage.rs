//! What is noticed when a swap file is not as it was: changed bits, exchanged and older pages, a short file.

use crate::common::*;
use crate::swap_files::{explicit, push_out, put, text, writable, Folder};
use coldset_pager::store::{FaultPlan, FaultyStorage, FileStorage, RetryStorage};
use coldset_pager::{Pool, Region, SwapConfig};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

/// What tells, and how such a swap is made.
type Way = (&'static str, fn(&Path) -> SwapConfig);

fn both() -> [Way; 2] {
    [
        ("checksum", |p| SwapConfig::file(p, 8 * MIB)),
        ("authentication tag", |p| {
            SwapConfig::file(p, 8 * MIB).encrypt(true)
        }),
    ]
}

/// Pages of a region that come back, and those that do not, with what was told.
fn look(r: &Region, pages: usize, version: usize) -> (usize, Vec<String>) {
    let (mut good, mut told) = (0, Vec::new());
    for p in 0..pages {
        match r.fix(p) {
            Ok(page) => {
                let right = *page == *text(p, version);
                assert!(right, "page {p} is neither right nor an error");
                good += 1;
            }
            Err(e) => told.push(e.to_string()),
        }
    }
    (good, told)
}

const PAGES: usize = 300;

/// A pool of which [`PAGES`] pages are in its swap file, all of version 1.
fn swapped_out(swap: SwapConfig) -> (Pool, Region) {
    let pool = Pool::new(explicit(swap)).unwrap();
    let region = pool.anonymous(4 * MIB as usize).unwrap();
    put(&region, PAGES, 1);
    push_out(&pool);
    assert_eq!(region.resident(0..region.len()).unwrap(), 0);
    (pool, region)
}

#[test]
fn a_changed_bit_is_an_error_and_never_data() {
    let _others = together();
    for (what, swap) in both() {
        let folder = Folder::new();
        let path = folder.path("swap");
        let (pool, region) = swapped_out(swap(&path));
        let file = writable(&path);
        // One byte in the page of each tenth slot; which page it is only the pool knows.
        for slot in (0..PAGES as u64).step_by(10) {
            let at = (slot + 1) * PAGE as u64 + slot * 13 % 4096;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        }
        let (good, told) = look(&region, PAGES, 1);
        assert_eq!((good, told.len()), (PAGES - 30, 30), "{what}");
        for t in &told {
            let named =
                t.contains("swap slot") && t.contains("do not match their") && t.contains(what);
            assert!(named, "{t}");
        }
        assert!(pool.stats().failed_misses >= 30);
    }
}

#[test]
fn exchanged_and_older_pages_and_a_short_file_are_errors() {
    let _others = together();
    for (what, swap) in both() {
        let folder = Folder::new();
        let path = folder.path("swap");
        let (pool, region) = swapped_out(swap(&path));
        let file = writable(&path);
        let page = |slot: u64| (slot + 1) * PAGE as u64;
        let (mut a, mut b) = (vec![0; PAGE], vec![0; PAGE]);
        file.read_exact_at(&mut a, page(3)).unwrap();
        file.read_exact_at(&mut b, page(200)).unwrap();
        file.write_all_at(&a, page(200)).unwrap();
        file.write_all_at(&b, page(3)).unwrap();
        let (good, told) = look(&region, PAGES, 1);
        assert_eq!((good, told.len()), (PAGES - 2, 2), "{what}: {told:?}");
        file.write_all_at(&a, page(3)).unwrap();
        file.write_all_at(&b, page(200)).unwrap();
        push_out(&pool);
        assert_eq!(look(&region, PAGES, 1).0, PAGES, "as it was");
        // The whole file as it was before everything was stored to: each page is genuine, and old.
        push_out(&pool);
        let old = std::fs::read(&path).unwrap();
        put(&region, PAGES, 2);
        push_out(&pool);
        file.write_all_at(&old, 0).unwrap();
        let (good, told) = look(&region, PAGES, 2);
        assert_eq!((good, told.len()), (0, PAGES), "{what}");
        drop((region, pool));
        // Half of it gone: those are errors too, other ones.
        let (pool, region) = swapped_out(swap(&path));
        file.set_len(page(PAGES as u64 / 2)).unwrap();
        let (good, told) = look(&region, PAGES, 1);
        assert!(
            good > 0 && good < PAGES && good + told.len() == PAGES,
            "{what}: {good}"
        );
        assert!(told.iter().all(|t| t.contains("truncated")), "{told:?}");
        // Nor is it made long again behind anybody's back.
        let short = file.metadata().unwrap().len();
        let more = pool.anonymous(2 * MIB as usize).unwrap();
        put(&more, 200, 4);
        push_out_what_goes(&pool);
        assert!(pool.stats().store_errors > 0, "there is no room for them");
        assert_eq!(file.metadata().unwrap().len(), short, "{what}");
    }
}

fn push_out_what_goes(pool: &Pool) {
    for _ in 0..3 {
        let _ = pool.root().reclaim(16 * MIB);
    }
}

/// With `encrypt` nothing of what the program stored can be found in the file; without, it can.
#[test]
fn encrypted_contents_are_of_no_use() {
    let _others = together();
    for (what, swap) in both() {
        let folder = Folder::new();
        let path = folder.path("swap");
        let (_pool, _region) = swapped_out(swap(&path));
        let bytes = std::fs::read(&path).unwrap();
        let secrets = bytes.windows(9).filter(|w| *w == b"TOPSECRET").count();
        assert_eq!(
            secrets > 0,
            what == "checksum",
            "{secrets} secrets in the file"
        );
        // Not the same twice either.
        let pages: Vec<&[u8]> = bytes[PAGE..].chunks(PAGE).take(PAGES).collect();
        let different: std::collections::HashSet<_> = pages.iter().collect();
        assert_eq!(different.len(), PAGES);
    }
}

/// Swap in any storage, encrypted: threads' own versions are what they read.
#[test]
fn encryption_and_retries_lose_nothing() {
    let _others = together();
    let path = temp("retried");
    let plan = Arc::new(FaultPlan::default());
    plan.fail_reads.store(7, Relaxed);
    plan.fail_writes.store(3, Relaxed);
    let file = Arc::new(FileStorage::create(&path, 8 * MIB).unwrap());
    std::fs::remove_file(&path).unwrap();
    let faulty = Arc::new(FaultyStorage::new(file, plan.clone()));
    let retried = Arc::new(AtomicU64::new(0));
    let pauses = [Duration::from_millis(1); 3];
    let patient = Arc::new(RetryStorage::new(faulty, &pauses, retried.clone()));
    let swap = SwapConfig::none()
        .and_storage(patient, 8 * MIB)
        .encrypt(true);
    let pool = Pool::new(explicit(swap)).unwrap();
    let region = pool.anonymous(4 * MIB as usize).unwrap();
    for version in 1..4 {
        put(&region, 1000, version);
        let (good, told) = look(&region, 1000, version);
        assert_eq!((good, told.len()), (1000, 0), "{told:?}");
    }
    let s = pool.stats();
    assert_eq!((s.store_errors, s.failed_misses), (0, 0), "each passed");
    assert!(plan.failed.load(Relaxed) > 50 && retried.load(Relaxed) > 50);
}
