//! A disk that takes its time: whoever needs room waits until pages have been written, and gets it.

use crate::common::*;
use coldset_engine::Counter;
use coldset_pager::store::Storage;
use coldset_pager::{Advice, FaultMode, FlushConfig, Group, Limits, PoolConfig, Region};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pages that the group may have, as many as one write takes; in the file, four times as many.
const MAX: usize = 256;
const PAGES: usize = 4 * MAX;

/// A disk in memory. Once it is slow each write takes so long.
#[derive(Debug)]
struct Disk {
    bytes: Mutex<Vec<u8>>,
    slow: AtomicBool,
    /// Writes that have begun since it is slow.
    begun: AtomicU64,
}

const A_WRITE: Duration = Duration::from_millis(150);

impl Storage for Disk {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let at = offset as usize;
        buf.copy_from_slice(&self.bytes.lock().unwrap()[at..at + buf.len()]);
        Ok(buf.len())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        if self.slow.load(SeqCst) {
            self.begun.fetch_add(1, SeqCst);
            std::thread::sleep(A_WRITE);
        }
        let at = offset as usize;
        self.bytes.lock().unwrap()[at..at + buf.len()].copy_from_slice(buf);
        Ok(buf.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// All pages that the group may have have been stored to, and the flusher is writing all of them when `then` is called, with
/// the group and what brings a page in and looks at it.
fn while_all_is_written(policy: &str, mode: FaultMode, then: impl Fn(&Group, &dyn Fn(usize))) {
    let soon = Duration::from_millis(20);
    let config = PoolConfig::new((2 * MAX * PAGE) as u64)
        .policy(policy)
        .unwrap()
        .fault_mode(mode)
        .read_ahead(1)
        .background(false)
        .flush(FlushConfig {
            interval: soon,
            expire: soon,
            background_percent: 100,
            hard_percent: 100,
        });
    let Some(pool) = faulting(config) else { return };
    let disk = Arc::new(Disk {
        bytes: Mutex::new(vec![7; PAGES * PAGE]),
        slow: AtomicBool::new(false),
        begun: AtomicU64::new(0),
    });
    let group = pool
        .group("a", Limits::new().max((MAX * PAGE) as u64))
        .unwrap();
    let bytes = PAGES * PAGE;
    let mut region = group.storage(disk.clone(), bytes as u64, true).unwrap();
    let explicit = mode == FaultMode::Explicit;
    let load = |region: &Region, page: usize| match explicit {
        true => region.fix(page).unwrap()[0],
        false => region.bytes()[page * PAGE],
    };
    // Until the flusher has all of it in one write: the round before may have taken some.
    for attempt in 0.. {
        assert!(attempt < 20, "the flusher never has all pages under way");
        disk.slow.store(false, SeqCst);
        (0..MAX).for_each(|p| match explicit {
            true => region.fix_mut(p).unwrap()[0] = 1,
            false => region.bytes_mut()[p * PAGE] = 1,
        });
        let before = disk.begun.load(SeqCst);
        disk.slow.store(true, SeqCst);
        while disk.begun.load(SeqCst) == before {
            std::thread::sleep(Duration::from_millis(1));
        }
        if pool.root().counter(Counter::Writeback) == Some(MAX as i64) {
            break;
        }
        std::thread::sleep(A_WRITE * 2);
    }
    // A guard would wait for the write.
    let last = if explicit { 1 } else { 2 };
    if !explicit {
        // Dirty again: whoever looks for pages to write finds it, and cannot take it.
        region.bytes_mut()[(MAX - 1) * PAGE] = last;
    }
    then(&group, &|page| assert_eq!(load(&region, page), 7));
    let stats = pool.stats();
    assert_eq!(stats.failed_misses, 0, "{stats:?}");
    disk.slow.store(false, SeqCst);
    region.sync(0..bytes).unwrap();
    let disk = disk.bytes.lock().unwrap();
    let expected = |page| match page {
        p if p < MAX - 1 => 1,
        p if p == MAX - 1 => last,
        _ => 7,
    };
    assert!((0..PAGES).all(|p| disk[p * PAGE] == expected(p)));
}

/// With faults and with guards, under each kind of lists.
fn in_both_modes(then: impl Fn(&Group, &dyn Fn(usize))) {
    let _one = alone();
    for mode in [FaultMode::Sigbus, FaultMode::Explicit] {
        for policy in ["classic", "base", "v5", "merged"] {
            while_all_is_written(policy, mode, &then);
        }
    }
}

#[test]
fn a_miss_waits_for_pages_that_are_being_written() {
    in_both_modes(|_, load| load(MAX + 3));
}

#[test]
fn a_lower_limit_waits_for_pages_that_are_being_written() {
    in_both_modes(|group, _| {
        let max = (MAX / 4 * PAGE) as u64;
        group.set(Limits::new().max(max)).unwrap();
        assert!(group.usage() <= max, "{} of {max} bytes", group.usage());
    });
}

/// A disk that takes its time to read.
#[derive(Debug)]
struct SlowReads;

const A_READ: Duration = Duration::from_millis(100);

impl Storage for SlowReads {
    fn read_at(&self, buf: &mut [u8], _: u64) -> io::Result<usize> {
        std::thread::sleep(A_READ);
        buf.fill(7);
        Ok(buf.len())
    }

    fn write_at(&self, buf: &[u8], _: u64) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// All of the budget is for pages that are on their way in: who needs another one waits for them.
#[test]
fn a_miss_waits_for_pages_that_are_being_read() {
    const THREADS: usize = 40;
    const EACH: usize = 128;
    let _one = alone();
    for background in [false, true] {
        // A miss in order may bring in 32 of 256.
        let config = PoolConfig::new(MIB).background(background);
        let Some(pool) = faulting(config) else { return };
        let bytes = THREADS * EACH * PAGE;
        let disk = Arc::new(SlowReads);
        let region = pool.root().storage(disk, bytes as u64, false).unwrap();
        region.advise(0..bytes, Advice::Sequential).unwrap();
        std::thread::scope(|s| {
            for t in 0..THREADS {
                let region = &region;
                s.spawn(move || {
                    let pages = (t * EACH..(t + 1) * EACH).step_by(32);
                    for p in pages {
                        assert_eq!(region.bytes()[p * PAGE], 7);
                    }
                });
            }
        });
        let stats = pool.stats();
        assert_eq!(stats.failed_misses, 0, "{stats:?}");
    }
}
