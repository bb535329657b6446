//! Reading in order, with the thread that is ahead of the reader, and what `WillNeed` brings in.

use crate::common::*;
use coldset_pager::store::Storage;
use coldset_pager::{Advice, FaultMode, Pool, PoolConfig, Region, SwapConfig};
use std::io;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Large enough that the thread fills as much at once as it ever does.
const BUDGET: u64 = 48 * MIB;
const BYTES: usize = 96 << 20;

fn pool() -> Option<Pool> {
    let swap = SwapConfig::lz4(2 * BUDGET);
    faulting(PoolConfig::new(BUDGET).swap(swap).background(true))
}

fn word(page: usize, k: usize) -> u64 {
    ((page as u64) << 16) | (k as u64 / 8)
}

fn fill(r: &mut Region) {
    for (i, p) in r.bytes_mut().chunks_mut(PAGE).enumerate() {
        let words = p.chunks_exact_mut(8).enumerate();
        words.for_each(|(k, w)| w.copy_from_slice(&word(i, k).to_le_bytes()));
    }
}

/// Reads all of it in order; returns misses a page.
fn read(pool: &Pool, r: &Region) -> f64 {
    let before = pool.stats().misses;
    for (i, p) in r.bytes().chunks(PAGE).enumerate() {
        let mut words = p.chunks_exact(8).enumerate();
        assert!(
            words.all(|(k, w)| w == word(i, k).to_le_bytes()),
            "page {i}"
        );
    }
    (pool.stats().misses - before) as f64 / (r.len() / PAGE) as f64
}

#[test]
fn anonymous_memory_in_order_is_whole_and_has_few_misses() {
    let _one = alone();
    let Some(pool) = pool() else { return };
    let mut region = pool.anonymous(BYTES).unwrap();
    fill(&mut region);
    for _ in 0..2 {
        let misses = read(&pool, &region);
        assert!(misses < 0.1, "{misses} misses a page");
    }
    let s = pool.stats();
    assert!(s.peak_pages <= BUDGET / PAGE as u64 + STORE_SLACK, "{s:?}");
}

#[test]
fn a_file_in_order_is_whole_and_has_few_misses() {
    let _one = alone();
    let Some(pool) = pool() else { return };
    let path = temp("in-order");
    std::fs::write(&path, vec![0; BYTES]).unwrap();
    let mut region = pool.file(&path).unwrap();
    fill(&mut region);
    region.sync(0..BYTES).unwrap();
    for _ in 0..2 {
        let misses = read(&pool, &region);
        assert!(misses < 0.1, "{misses} misses a page");
    }
    // In the middle of it the region goes away.
    region.bytes()[..BYTES / 4]
        .iter()
        .step_by(PAGE)
        .for_each(|&b| {
            std::hint::black_box(b);
        });
    drop(region);
    assert_eq!(pool.stats().resident_pages, 0);
    let on_disk = std::fs::read(&path).unwrap();
    let mut pages = on_disk.chunks(PAGE).enumerate();
    assert!(pages.all(|(i, p)| p[8..16] == word(i, 1).to_le_bytes()));
    std::fs::remove_file(path).unwrap();
}

/// How a disk says that a read is there, and how it learns what comes of it.
type FirstRead = (Sender<()>, Receiver<io::Result<()>>);

/// A disk whose first read waits for an answer.
#[derive(Debug)]
struct Slow(Mutex<Option<FirstRead>>);

impl Storage for Slow {
    fn read_at(&self, buf: &mut [u8], _offset: u64) -> io::Result<usize> {
        let first = self.0.lock().unwrap().take();
        if let Some((there, go_on)) = first {
            there.send(()).unwrap();
            go_on.recv().unwrap()?;
        }
        buf.fill(1);
        Ok(buf.len())
    }

    fn write_at(&self, buf: &[u8], _offset: u64) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What `WillNeed` brings in is there, even if others were about to bring some of it in, and a read failed.
#[test]
fn will_need_waits_for_pages_under_way() {
    const PAGES: usize = 256;
    let _one = alone();
    for fails in [false, true] {
        let config = PoolConfig::new(8 * MIB).fault_mode(FaultMode::Explicit);
        let pool = Pool::new(config).unwrap();
        let (there, is_there) = channel();
        let (answer, go_on) = channel();
        let disk = Arc::new(Slow(Mutex::new(Some((there, go_on)))));
        let bytes = PAGES * PAGE;
        let region = pool.root().storage(disk, bytes as u64, false).unwrap();
        thread::scope(|s| {
            let first = s.spawn(|| region.fix(3).map(|page| page[0]));
            is_there.recv().unwrap();
            let advised = s.spawn(|| {
                region.advise(0..bytes, Advice::WillNeed).unwrap();
                region.resident(0..bytes).unwrap()
            });
            // Long enough for an advice that does not wait.
            thread::sleep(Duration::from_millis(100));
            let eio = || io::Error::from_raw_os_error(libc::EIO);
            answer
                .send(if fails { Err(eio()) } else { Ok(()) })
                .unwrap();
            // It may have tried again.
            let _ = first.join().unwrap();
            assert_eq!(advised.join().unwrap(), PAGES);
        });
    }
}
