//! A batch of scattered transfers: one at a time, and through io_uring.
//!
//! `cargo run --release -p coldset-pager --example transfers [DIRECTORY]`
//!
//! 4 KiB pages of a 1 GiB file, bypassing the page cache. The two ways alternate within a run; figures are medians of
//! five.

use coldset_pager::store::{FileOptions, FileStorage, Read, Storage, Write};
use coldset_pager::sys::clock::{now, process_cpu};
use coldset_pager::sys::memory::PageBuf;
use std::path::PathBuf;

const PAGE: usize = 4096;
const FILE: u64 = 1 << 30;
const ROUNDS: usize = 5;
/// Transfers of one measurement.
const TRANSFERS: usize = 8192;

/// Nanoseconds a page: wall and CPU.
type Cost = (u64, u64);

fn main() {
    let dir = std::env::args().nth(1).map(PathBuf::from);
    let path = dir
        .unwrap_or_else(std::env::temp_dir)
        .join(format!("coldset-transfers-{}", std::process::id()));
    let ring = FileStorage::create(&path, FILE).unwrap();
    let options = FileOptions {
        ring: false,
        ..FileOptions::default()
    };
    let one_by_one = FileStorage::open_with(&path, true, options).unwrap();
    let mut buf = PageBuf::new(1024).unwrap();
    for (i, b) in buf.bytes_mut().iter_mut().enumerate() {
        *b = ((i * 31) >> 3) as u8;
    }
    for at in (0..FILE).step_by(buf.bytes().len()) {
        ring.write_at(buf.bytes(), at).unwrap();
    }
    ring.sync().unwrap();
    std::fs::remove_file(&path).unwrap();
    match ring.no_ring() {
        Some(why) => println!("io_uring is not used: {why}"),
        None => println!("page cache passed: {}", ring.is_direct()),
    }
    let mut x = 1u64;
    for write in [false, true] {
        for batch in [32, 256] {
            let mut costs = [Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                for (costs, s) in costs.iter_mut().zip([&one_by_one, &ring]) {
                    costs.push(measure(s, batch, write, &mut buf, &mut x));
                }
            }
            let [a, b] = costs.map(|c| (median(&c, |c| c.0), median(&c, |c| c.1)));
            println!(
                "{} of {batch:3}: one by one {:6.1} us wall {:5.1} us CPU a page, io_uring {:6.1} us \
                 wall {:5.1} us CPU a page: wall x{:.2}, CPU x{:.2}",
                if write { "writes" } else { "reads " },
                a.0 as f64 / 1e3,
                a.1 as f64 / 1e3,
                b.0 as f64 / 1e3,
                b.1 as f64 / 1e3,
                b.0 as f64 / a.0 as f64,
                b.1 as f64 / a.1 as f64,
            );
        }
    }
}

fn median(costs: &[Cost], of: impl Fn(&Cost) -> u64) -> u64 {
    let mut v: Vec<u64> = costs.iter().map(of).collect();
    v.sort_unstable();
    v[v.len() / 2]
}

fn measure(s: &FileStorage, batch: usize, write: bool, buf: &mut PageBuf, x: &mut u64) -> Cost {
    let (wall, cpu) = (now(), process_cpu());
    for _ in 0..TRANSFERS / batch {
        let mut offset = || {
            *x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (*x >> 33) % (FILE / PAGE as u64) * PAGE as u64
        };
        if write {
            let pages = buf.bytes().chunks(PAGE).take(batch);
            let mut all: Vec<Write<'_>> = pages.map(|p| Write::new(p, offset())).collect();
            s.write_many(&mut all);
            assert!(all.iter().all(|w| matches!(w.done, Ok(PAGE))));
        } else {
            let pages = buf.bytes_mut().chunks_mut(PAGE).take(batch);
            let mut all: Vec<Read<'_>> = pages.map(|p| Read::new(p, offset())).collect();
            s.read_many(&mut all);
            assert!(all.iter().all(|r| matches!(r.done, Ok(PAGE))));
        }
    }
    let n = TRANSFERS as u64;
    ((now() - wall) / n, (process_cpu() - cpu) / n)
}
