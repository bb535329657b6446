//! Maps of files: what is stored reaches the file, errors are kept until the next sync, the budget
//! holds, and what `sync` has acknowledged survives SIGKILL.

use crate::common::*;
use coldset_pager::store::{FaultPlan, FaultyStorage, FileStorage};
use coldset_pager::{Advice, FlushConfig, Limits, Pool, PoolConfig};
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

fn file_of(what: &str, bytes: u64) -> std::path::PathBuf {
    let path = temp(what);
    std::fs::File::create(&path)
        .unwrap()
        .set_len(bytes)
        .unwrap();
    path
}

fn busy_flusher() -> FlushConfig {
    FlushConfig {
        interval: Duration::from_millis(20),
        expire: Duration::from_millis(60),
        ..FlushConfig::default()
    }
}

/// Writers, readers, the flusher, syncs of the pool and of ranges, limits, a store that fails.
#[test]
fn no_store_to_a_file_is_lost() {
    let _one = alone();
    let (budget, bytes) = (16 * MIB, 40 * MIB);
    let config = PoolConfig::new(budget).flush(busy_flusher());
    let Some(pool) = faulting(config) else { return };
    let path = file_of("file", bytes);
    let plan = Arc::new(FaultPlan::default());
    let file = Arc::new(FileStorage::open(&path, true).unwrap());
    let faulty = Arc::new(FaultyStorage::new(file, plan.clone()));
    let group = pool.group("files", Limits::new()).unwrap();
    let region = group.storage(faulty, bytes, true).unwrap();
    let stop = AtomicBool::new(false);
    let failed_syncs = AtomicBool::new(false);
    let (stressed, peak) = std::thread::scope(|s| {
        let watcher = s.spawn(|| watch(&[&pool], &stop));
        let meddler = s.spawn(|| {
            meddle(&group, budget, &stop, &|r| {
                plan.fail_writes
                    .store([0, 2, 5, 9][r as usize % 4], Relaxed);
                plan.short.store([0, 3][r as usize / 4 % 2], Relaxed);
                plan.slow_us.store([0, 0, 200][r as usize / 8 % 3], Relaxed);
                let done = match r % 3 {
                    0 => pool.sync(),
                    1 => region.sync(0..region.len() / 2),
                    _ => Ok(()),
                };
                failed_syncs.fetch_or(done.is_err(), Relaxed);
            })
        });
        let stressed = stress(&region, Access::Faulting, 3, soak(6.0), 40);
        stop.store(true, Relaxed);
        meddler.join().unwrap();
        (stressed, watcher.join().unwrap())
    });
    let stats = pool.stats();
    println!(
        "files: {} operations, {} stores, peak {peak} pages of {}, {} evicted, {} written back, {} \
         written when evicted, {} store errors, {} injected",
        stressed.operations,
        stressed.stores,
        stats.budget_pages,
        stats.evicted,
        stats.written_back,
        stats.written_inline,
        stats.store_errors,
        plan.failed.load(Relaxed),
    );
    assert_eq!(stressed.lost, None);
    assert!(stats.evicted > 1000 && stats.store_errors > 0, "{stats:?}");
    assert!(
        failed_syncs.load(Relaxed),
        "no sync has told of the failures"
    );
    assert!(peak <= stats.budget_pages && stats.peak_pages <= stats.budget_pages);
    plan.fail_writes.store(0, Relaxed);
    // The last failure may not have been told yet.
    let _ = region.sync(0..region.len());
    region.sync(0..region.len()).unwrap();
    compare_file(&path, &stressed);
    region.close().unwrap();
    assert_eq!(pages_in_memory(), 0);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_error_is_kept_until_the_next_sync() {
    let _one = alone();
    let config = PoolConfig::new(4 * MIB).flush(busy_flusher());
    let Some(pool) = faulting(config) else { return };
    let path = file_of("error", 64 * PAGE as u64);
    let plan = Arc::new(FaultPlan::default());
    let file = Arc::new(FileStorage::open(&path, true).unwrap());
    let faulty = Arc::new(FaultyStorage::new(file, plan.clone()));
    let mut region = pool.root().storage(faulty, 64 * PAGE as u64, true).unwrap();
    plan.write_error.store(libc::ENOSPC as u32, Relaxed);
    plan.fail_writes.store(1, Relaxed);
    region.bytes_mut()[5 * PAGE] = 7;
    // The flusher meets the error.
    while plan.failed.load(Relaxed) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    plan.fail_writes.store(0, Relaxed);
    let told = region.sync(0..region.len()).unwrap_err().to_string();
    assert!(told.contains("No space left"), "{told}");
    region.sync(0..region.len()).unwrap();
    assert_eq!(region.bytes()[5 * PAGE], 7, "it stayed in memory");
    assert_eq!(std::fs::read(&path).unwrap()[5 * PAGE], 7);
    drop(region);
    std::fs::remove_file(path).unwrap();
}

/// A file whose length is not a multiple of the page: nothing is added to it.
#[test]
fn the_last_page_of_a_file_may_be_partial() {
    let _one = alone();
    let Some(pool) = faulting(PoolConfig::new(4 * MIB)) else {
        return;
    };
    let path = temp("odd");
    std::fs::write(&path, vec![3u8; 3 * PAGE + 100]).unwrap();
    let mut region = pool.file(&path).unwrap();
    assert_eq!(region.len(), 3 * PAGE + 100);
    region.bytes_mut()[3 * PAGE + 99] = 9;
    region.sync(3 * PAGE..region.len()).unwrap();
    // Evicted and read again.
    pool.root().reclaim(MIB).unwrap();
    assert_eq!(region.bytes()[3 * PAGE + 98..], [3, 9]);
    region.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((bytes.len(), bytes[bytes.len() - 1]), (3 * PAGE + 100, 9));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_read_only_map_reads_and_refuses_stores() {
    let _one = alone();
    let Some(pool) = faulting(PoolConfig::new(MIB)) else {
        return;
    };
    let path = temp("ro");
    let contents: Vec<u8> = (0..8 * MIB as usize).map(|i| (i / PAGE) as u8).collect();
    std::fs::write(&path, &contents).unwrap();
    let region = pool.file_read_only(&path).unwrap();
    region.advise(0..region.len(), Advice::Sequential).unwrap();
    assert!(region.bytes() == contents, "a scan through 8 MiB in 1 MiB");
    let stats = pool.stats();
    assert!(stats.filled > 4 * stats.misses, "not batched: {stats:?}");
    assert!(stats.peak_pages <= stats.budget_pages);
    assert!(region.pin(0..PAGE, true).is_err());
    drop(region);
    std::fs::remove_file(path).unwrap();
}

/// A descriptor's transfer into managed memory needs a pin, and with it counts as a store.
#[test]
fn system_calls_may_use_pinned_ranges() {
    let _one = alone();
    let Some(pool) = faulting(PoolConfig::new(4 * MIB)) else {
        return;
    };
    let path = file_of("pin", 16 * PAGE as u64);
    let mut region = pool.file(&path).unwrap();
    let source = temp("pinned");
    std::fs::write(&source, vec![0x5A; 4 * PAGE]).unwrap();
    let f = std::fs::File::open(&source).unwrap();
    {
        let pin = region.pin(4 * PAGE..8 * PAGE, true).unwrap();
        pool.root().reclaim(MIB).unwrap();
        assert_eq!(region.resident(pin.range()).unwrap(), 4, "it is kept");
    }
    let at = region.as_ptr() as usize;
    {
        let _pin = region.pin(4 * PAGE..8 * PAGE, true).unwrap();
        // SAFETY: the range is pinned, and nobody else uses it.
        #[allow(unsafe_code, reason = "a transfer into the mapping")]
        let to = unsafe { std::slice::from_raw_parts_mut((at + 4 * PAGE) as *mut u8, 4 * PAGE) };
        std::os::unix::fs::FileExt::read_exact_at(&f, to, 0).unwrap();
    }
    pool.root().reclaim(MIB).unwrap();
    assert!(region.bytes_mut()[4 * PAGE..8 * PAGE]
        .iter()
        .all(|&b| b == 0x5A));
    region.close().unwrap();
    assert!(std::fs::read(&path).unwrap()[4 * PAGE..8 * PAGE]
        .iter()
        .all(|&b| b == 0x5A));
    std::fs::remove_file(path).unwrap();
    std::fs::remove_file(source).unwrap();
}

const KILL_PAGES: usize = 600;

/// The child: counts up all pages, syncs, says so, for ever.
fn count_and_sync(path: &Path) {
    let config = PoolConfig::new(MIB).flush(busy_flusher());
    let pool = Pool::new(config).unwrap();
    let mut region = pool.file(path).unwrap();
    let first = u64::from_ne_bytes(region.bytes()[..8].try_into().unwrap());
    for round in first + 1.. {
        for page in region.bytes_mut().chunks_mut(PAGE) {
            page[..8].copy_from_slice(&round.to_ne_bytes());
            page[PAGE - 8..].copy_from_slice(&round.to_ne_bytes());
        }
        region.sync(0..region.len()).unwrap();
        // A line of its own: the test harness has begun one.
        println!("\nacknowledged {round}");
        std::io::stdout().flush().unwrap();
    }
}

/// `COLDSET_KILLS` rounds, else 15.
#[test]
fn what_sync_has_acknowledged_survives_sigkill() {
    const NAME: &str = "what_sync_has_acknowledged_survives_sigkill";
    if let Some(path) = child::role() {
        return count_and_sync(Path::new(&path));
    }
    let _one = alone();
    if faulting(PoolConfig::new(MIB)).is_none() {
        return;
    }
    let kills = std::env::var("COLDSET_KILLS").map_or(15, |s| s.parse().unwrap());
    let path = file_of("kill", (KILL_PAGES * PAGE) as u64);
    let mut r = Random::new(5);
    let mut promised = 0;
    for _ in 0..kills {
        // A child that is killed before its first sync returns may have written one round more.
        let first = std::fs::read(&path).unwrap()[..8].try_into().unwrap();
        let first = u64::from_ne_bytes(first);
        let mut c = child::command(NAME, path.to_str().unwrap())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(c.stdout.take().unwrap()).lines();
        let reader = std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                // The first follows the name of the test on its line.
                .filter_map(|l| l.split_once("acknowledged ")?.1.parse::<u64>().ok())
                .last()
        });
        std::thread::sleep(Duration::from_millis(60 + r.below(200)));
        c.kill().unwrap();
        c.wait().unwrap();
        let acknowledged = reader.join().unwrap();
        promised = acknowledged.unwrap_or(promised);
        let most = acknowledged.unwrap_or(first) + 1;
        let bytes = std::fs::read(&path).unwrap();
        for (i, page) in bytes.chunks(PAGE).enumerate() {
            let word = |at: usize| u64::from_ne_bytes(page[at..at + 8].try_into().unwrap());
            let (a, b) = (word(0), word(PAGE - 8));
            assert!(
                a.min(b) >= promised && a.max(b) <= most,
                "page {i}: {a} and {b}, but {promised} was acknowledged"
            );
        }
    }
    println!("{kills} kills, {promised} syncs kept");
    assert!(promised > 0, "no child got as far as a sync");
    std::fs::remove_file(path).unwrap();
}
