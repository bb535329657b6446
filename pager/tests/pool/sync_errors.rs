//! What a sync says: the error of its own range whoever else syncs, other errors once a handle, and never
//! that something is on disk which is not.

#![allow(unsafe_code, reason = "threads share a region")]

use crate::common::child;
use crate::common::*;
use coldset_pager::store::Storage;
use coldset_pager::{Error, FaultMode, FlushConfig, Pool, PoolConfig, Region};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes in memory, one page of which cannot be written, and whose sync may fail: the truth is outside of
/// the pager.
#[derive(Debug)]
struct Disk {
    bytes: Mutex<Vec<u8>>,
    /// Writes that touch this page fail; none if it is no page.
    bad: AtomicUsize,
    sync_fails: AtomicBool,
    panics: AtomicBool,
    refused: AtomicU64,
}

impl Disk {
    fn new(pages: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes: Mutex::new(vec![0; pages * PAGE]),
            bad: AtomicUsize::new(usize::MAX),
            sync_fails: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        })
    }

    fn byte(&self, page: usize) -> u8 {
        self.bytes.lock().unwrap()[page * PAGE]
    }
}

impl Storage for Disk {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        assert!(!self.panics.load(Relaxed), "the storage of the test");
        let (bytes, from) = (self.bytes.lock().unwrap(), offset as usize);
        let n = buf.len().min(bytes.len() - from);
        buf[..n].copy_from_slice(&bytes[from..from + n]);
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let from = offset as usize;
        let touched = from / PAGE..(from + buf.len()).div_ceil(PAGE);
        if touched.contains(&self.bad.load(Relaxed)) {
            self.refused.fetch_add(1, Relaxed);
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        self.bytes.lock().unwrap()[from..from + buf.len()].copy_from_slice(buf);
        Ok(buf.len())
    }

    fn sync(&self) -> io::Result<()> {
        match self.sync_fails.load(Relaxed) {
            true => Err(io::Error::from_raw_os_error(libc::EDQUOT)),
            false => Ok(()),
        }
    }
}

const PAGES: usize = 1024;
const BAD: usize = 700;

fn pool(flush: FlushConfig) -> Pool {
    let config = PoolConfig::new(8 * MIB).flush(flush);
    match faulting(config.clone()) {
        Some(p) => p,
        None => Pool::new(config.fault_mode(FaultMode::Explicit)).unwrap(),
    }
}

/// A disk, and a writable map of all of it.
fn mapped(p: &Pool) -> (Arc<Disk>, Region) {
    let disk = Disk::new(PAGES);
    let len = (PAGES * PAGE) as u64;
    let r = p.root().storage(disk.clone(), len, true).unwrap();
    (disk, r)
}

fn quiet() -> FlushConfig {
    FlushConfig {
        interval: Duration::from_secs(3600),
        expire: Duration::from_secs(3600),
        background_percent: 100,
        hard_percent: 100,
    }
}

fn busy() -> FlushConfig {
    FlushConfig {
        interval: Duration::from_millis(1),
        expire: Duration::from_millis(1),
        ..quiet()
    }
}

fn put(r: &Region, page: usize, v: u8) {
    if r.is_explicit() {
        r.fix_mut(page).unwrap()[0] = v;
    } else {
        // SAFETY: inside the region; each page is used by one thread.
        unsafe { r.as_ptr().add(page * PAGE).write_volatile(v) };
    }
}

fn sync_page(r: &Region, page: usize) -> Result<(), Error> {
    r.sync(page * PAGE..(page + 1) * PAGE)
}

/// The error number of a failed sync.
fn code(told: Result<(), Error>) -> Option<i32> {
    match told {
        Ok(()) => None,
        Err(Error::Io { source, .. }) => source.raw_os_error(),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn a_sync_tells_the_error_of_its_own_range_whoever_else_syncs() {
    let _others = together();
    for flush in [quiet(), busy()] {
        let background = flush.interval < Duration::from_secs(1);
        let p = pool(flush);
        let (disk, r) = mapped(&p);
        disk.bad.store(BAD, Relaxed);
        let stop = AtomicBool::new(false);
        let others = std::thread::scope(|s| {
            let good = |page: usize| {
                let (r, stop, disk) = (&r, &stop, &disk);
                move || {
                    let (mut v, mut told) = (0u8, 0);
                    while !stop.load(Relaxed) {
                        v = v.wrapping_add(1);
                        put(r, page, v);
                        match sync_page(r, page) {
                            Ok(()) => assert_eq!(disk.byte(page), v, "OK, and not on disk"),
                            Err(_) => told += 1,
                        }
                    }
                    told
                }
            };
            // One in the same block of pages, one elsewhere.
            let threads = [s.spawn(good(BAD + 1)), s.spawn(good(3))];
            for i in 0..300u32 {
                put(&r, BAD, (i % 255) as u8 + 1);
                let told = code(sync_page(&r, BAD));
                assert_eq!(
                    told,
                    Some(libc::EFBIG),
                    "sync {i} of a page that cannot be written"
                );
            }
            stop.store(true, Relaxed);
            threads.map(|t| t.join().unwrap()).iter().sum::<u32>()
        });
        assert_eq!(disk.byte(BAD), 0);
        println!("background {background}: other ranges were told {others} errors of the flusher");
        // Without a flusher nobody else has tried to write the page.
        assert!(
            background || others == 0,
            "{others} errors of another range"
        );
        disk.bad.store(usize::MAX, Relaxed);
        r.close().ok();
        assert_ne!(
            disk.byte(BAD),
            0,
            "the page stayed dirty until it could be written"
        );
    }
}

#[test]
fn an_error_of_the_flusher_is_told_once_to_every_handle() {
    let _others = together();
    let p = pool(busy());
    let second = p.clone();
    let (disk, r) = mapped(&p);
    disk.bad.store(BAD, Relaxed);
    put(&r, BAD, 1);
    let since = Instant::now();
    while disk.refused.load(Relaxed) == 0 {
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "the flusher sleeps"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    disk.bad.store(usize::MAX, Relaxed);
    // Its page is written now. Still, everybody hears of it, once.
    while disk.byte(BAD) != 1 {
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "the flusher sleeps"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let late = pool(quiet());
    assert_eq!(code(sync_page(&r, 3)), Some(libc::EFBIG));
    assert_eq!(code(p.sync()), Some(libc::EFBIG));
    assert_eq!(code(second.sync()), Some(libc::EFBIG));
    assert_eq!(code(late.sync()), None, "another pool");
    for _ in 0..3 {
        assert_eq!(code(sync_page(&r, 3)), None);
        assert_eq!(code(p.sync()), None);
        assert_eq!(code(second.sync()), None);
    }
}

#[test]
fn a_failed_sync_of_the_file_is_told_to_all_who_sync_it() {
    let _others = together();
    let p = pool(quiet());
    let (disk, r) = mapped(&p);
    put(&r, 1, 1);
    disk.sync_fails.store(true, Relaxed);
    assert_eq!(code(sync_page(&r, 1)), Some(libc::EDQUOT));
    disk.sync_fails.store(false, Relaxed);
    // What was written before the failure may be gone, whoever wrote it.
    assert_eq!(code(p.sync()), Some(libc::EDQUOT));
    assert_eq!(code(sync_page(&r, 1)), None);
    assert_eq!(code(p.sync()), None);
}

#[test]
fn pages_lost_with_their_region_are_told_by_the_pool() {
    let _others = together();
    let p = pool(quiet());
    let (disk, r) = mapped(&p);
    disk.bad.store(BAD, Relaxed);
    put(&r, BAD, 1);
    drop(r);
    assert_eq!(code(p.sync()), Some(libc::EFBIG));
    assert_eq!(code(p.sync()), None);
}

/// A storage that panics in a miss: another thread waits for the same page, a third for the lock. The
/// process ends at once, with a line that says why.
#[test]
fn a_panic_inside_the_pager_ends_the_process() {
    const NAME: &str = "a_panic_inside_the_pager_ends_the_process";
    let misses = |mode: FaultMode| {
        let p = match Pool::new(PoolConfig::new(4 * MIB).fault_mode(mode)) {
            Ok(p) => p,
            Err(Error::Missing(m)) => return println!("skipped, {mode:?}: {m}"),
            Err(e) => panic!("{e}"),
        };
        let (disk, r) = mapped(&p);
        put(&r, 1, 1);
        disk.panics.store(true, Relaxed);
        println!("READY");
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| put(&r, 7, 1));
            }
        });
        println!("WENT ON");
    };
    match child::role().as_deref() {
        Some("sigbus") => return misses(FaultMode::Sigbus),
        Some("thread") => return misses(FaultMode::Thread),
        Some("explicit") => return misses(FaultMode::Explicit),
        _ => {}
    }
    for role in ["sigbus", "thread", "explicit"] {
        let mut c = child::command(NAME, role);
        let mut c = c.spawn().unwrap();
        let since = Instant::now();
        while c.try_wait().unwrap().is_none() {
            if since.elapsed() > Duration::from_secs(20) {
                c.kill().unwrap();
                panic!("{role}: waits for a page that nobody brings in");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let told = child::text(&c.wait_with_output().unwrap());
        if told.contains("skipped") {
            println!("{told}");
            continue;
        }
        assert!(
            told.contains("READY") && !told.contains("WENT ON"),
            "{role}: {told}"
        );
        let line = "coldset: a panic inside the pager, in thread";
        assert_eq!(told.matches(line).count(), 1, "{role}: {told}");
    }
}
