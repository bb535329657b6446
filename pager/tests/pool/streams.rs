//! Files that are read in order, whose pages come from the page cache.

#![allow(
    unsafe_code,
    reason = "what the program does to its memory and what the kernel has of a file"
)]

use crate::common::*;
use coldset_pager::{Advice, Error, Limits, Pool, PoolConfig, Region};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The kernel may read 16 MiB ahead, which is to fit into a part of it.
pub const BUDGET: u64 = 64 * MIB;
/// The magic number of tmpfs.
const TMPFS: i64 = 0x0102_1994;
/// Of a block that is lent.
pub const BLOCK: usize = 512;

fn word(page: usize, k: usize) -> u64 {
    ((page as u64) << 16) | (k as u64 + 1)
}

/// A file of so many pages whose words are known, of which the page cache has none.
pub struct Pages(pub PathBuf, pub usize);

impl Pages {
    pub fn new(pages: usize) -> Self {
        let path = temp("stream");
        let bytes: Vec<u8> = (0..pages * PAGE / 8)
            .flat_map(|i| word(i / (PAGE / 8), i % (PAGE / 8)).to_le_bytes())
            .collect();
        std::fs::write(&path, bytes).unwrap();
        let file = Self(path, pages);
        // Some of them may be on their way to a list of the kernel's.
        let end = Instant::now() + Duration::from_secs(30);
        while file.cached() > 0 {
            assert!(Instant::now() < end, "the page cache does not let go");
            file.forget();
        }
        file
    }

    fn forget(&self) {
        let f = File::open(&self.0).unwrap();
        f.sync_all().unwrap();
        // SAFETY: advice about a file.
        let done = unsafe { libc::posix_fadvise(f.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        assert_eq!(done, 0);
    }

    /// How many of its pages are in the page cache.
    pub fn cached(&self) -> usize {
        self.which_cached().iter().filter(|&&there| there).count()
    }

    /// Which of its pages are in the page cache, as another mapping of it tells.
    fn which_cached(&self) -> Vec<bool> {
        let f = File::open(&self.0).unwrap();
        let len = self.1 * PAGE;
        let mut there = vec![0u8; self.1];
        // SAFETY: a new mapping, which is only asked about, and unmapped again.
        unsafe {
            let null = std::ptr::null_mut();
            let p = libc::mmap(
                null,
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                f.as_raw_fd(),
                0,
            );
            assert_ne!(p, libc::MAP_FAILED);
            assert_eq!(libc::mincore(p, len, there.as_mut_ptr()), 0);
            libc::munmap(p, len);
        }
        there.iter().map(|b| b & 1 == 1).collect()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A pool that maps streams; none where the kernel cannot.
fn pool(budget: u64) -> Option<Pool> {
    pool_with(PoolConfig::new(budget))
}

/// The same with these settings.
pub fn pool_with(config: PoolConfig) -> Option<Pool> {
    if rustix::fs::statfs(std::env::temp_dir()).unwrap().f_type == TMPFS {
        println!("skipped: files here are memory, which no page cache lets go");
        return None;
    }
    let pool = faulting(config.background(true))?;
    let file = Pages::new(4 * BLOCK + pool.budget() as usize / PAGE);
    let region = read_only(&pool, &file.0);
    for p in 0..region.len() / PAGE {
        read(&region, p);
    }
    if pool.stats().lent == 0 {
        println!("skipped: the kernel does not say what is mapped where (Linux 6.11)");
        return None;
    }
    Some(pool)
}

fn read_only(pool: &Pool, path: &Path) -> Region {
    pool.file_read_only(path).unwrap()
}

/// Reads some words of a page, through the mapping.
pub fn read(r: &Region, page: usize) {
    for k in [0, page % 512, 511] {
        // SAFETY: in the region, which nobody stores to.
        let found = unsafe {
            r.as_ptr()
                .add(page * PAGE + k * 8)
                .cast::<u64>()
                .read_volatile()
        };
        assert_eq!(found, word(page, k), "page {page}, word {k}");
    }
}

#[test]
fn a_stream_is_whole_and_in_its_budget_and_leaves_nothing_behind() {
    let _one = alone();
    let Some(pool) = pool(BUDGET) else { return };
    let file = Pages::new(48 << 10);
    let region = read_only(&pool, &file.0);
    let mut most = 0;
    for _ in 0..3 {
        let before = pool.stats();
        for p in 0..file.1 {
            read(&region, p);
            if p % 4096 == 2000 {
                most = most.max(file.cached() as u64 + pages_in_memory());
            }
        }
        let now = pool.stats();
        let lent = now.lent - before.lent;
        // The end of it fits into what is free, and stays.
        let least = file.1 as u64 - now.budget_pages - 3 * BLOCK as u64;
        assert!(lent >= least, "{lent} of {}", file.1);
        assert!(now.misses - before.misses < file.1 as u64 / 20, "{now:?}");
    }
    let s = pool.stats();
    assert!(s.peak_pages <= s.budget_pages, "{s:?}");
    // The kernel's own count, of the file in memory and of the page cache. Some folios that it has begun to read are in
    // neither of our counts yet.
    assert!(most <= s.budget_pages + 2 * BLOCK as u64, "{most}: {s:?}");
    drop(region);
    assert_eq!(pool.stats().resident_pages, 0);
    let left = file.cached();
    assert!(left < 64, "{left} pages are left in the page cache");
}

#[test]
fn threads_that_do_anything_else_find_what_is_in_the_file() {
    /// Pages lent, before what has been read says anything.
    const LEAST: u64 = 20_000;
    let _one = alone();
    let Some(pool) = pool(BUDGET) else { return };
    let files = [Pages::new(40 << 10), Pages::new(30 << 10)];
    let regions = files.each_ref().map(|f| read_only(&pool, &f.0));
    let at = [const { AtomicUsize::new(0) }; 2];
    let end = Instant::now() + soak(4.0);
    let (before, stop) = (pool.stats().lent, AtomicBool::new(false));
    std::thread::scope(|s| {
        let (pool, stop) = (&pool, &stop);
        for (region, at) in regions.iter().zip(&at) {
            s.spawn(move || {
                while !stop.load(Relaxed) {
                    for p in 0..region.len() / PAGE {
                        at.store(p, Relaxed);
                        read(region, p);
                    }
                }
            });
        }
        let (region, at) = (&regions[0], &at[0]);
        s.spawn(move || {
            let mut r = Random::new(5);
            while !stop.load(Relaxed) {
                // Where blocks are lent, have been lent, and will be.
                let near = at.load(Relaxed) + r.below(8 * BLOCK as u64) as usize;
                let p = near.saturating_sub(5 * BLOCK) % (region.len() / PAGE);
                let n = 1 + r.below(40) as usize;
                let range = p * PAGE..region.len().min((p + n) * PAGE);
                match r.below(3000) {
                    0..2 => region.advise(range, Advice::WillNeed).unwrap(),
                    2..4 => region.advise(range, Advice::DontNeed).unwrap(),
                    4..24 => {
                        let pinned = region.pin(range, false).unwrap();
                        (p..p + n)
                            .take_while(|&p| p < region.len() / PAGE)
                            .for_each(|p| read(region, p));
                        drop(pinned);
                    }
                    24 => pool.resize(BUDGET / [1, 2][r.below(2) as usize]).unwrap(),
                    25 => drop(pool.root().reclaim(MIB).unwrap()),
                    _ => read(region, p),
                }
            }
        });
        // Longer where others have the CPUs.
        let last = end + Duration::from_secs(60);
        let enough = || pool.stats().lent - before > LEAST || Instant::now() > last;
        while Instant::now() < end || !enough() {
            std::thread::sleep(Duration::from_millis(20));
            pool.check();
        }
        stop.store(true, Relaxed);
    });
    pool.resize(2 * MIB).unwrap();
    let s = pool.stats();
    println!(
        "{} lent, {} filled, {} evicted",
        s.lent - before,
        s.filled,
        s.evicted
    );
    assert!(s.resident_pages <= 512, "{s:?}");
    assert!(s.lent - before > LEAST, "{s:?}");
    drop(regions);
    assert_eq!(pool.stats().resident_pages, 0);
}

/// Threads that read one file side by side come to each block at the same moment: one of them lends it, and for all.
#[test]
fn threads_that_come_to_a_block_together_have_one_loan() {
    const THREADS: usize = 3;
    let _one = alone();
    let Some(pool) = pool(BUDGET) else { return };
    let file = Pages::new(48 << 10);
    let region = read_only(&pool, &file.0);
    let before = pool.stats();
    let together = Barrier::new(THREADS);
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                for p in 0..file.1 {
                    if p % BLOCK == 0 {
                        together.wait();
                    }
                    read(&region, p);
                }
            });
        }
    });
    let now = pool.stats();
    let (lent, filled) = (now.lent - before.lent, now.filled - before.filled);
    // But for what is free at first, nothing is copied, and no block lent twice.
    let most = file.1 as u64;
    assert!(
        lent <= most && lent + filled <= most + 2 * BLOCK as u64,
        "{lent} lent, {filled} copied"
    );
    assert!(filled <= now.budget_pages, "{lent} lent, {filled} copied");
}

/// What fits is copied and stays, at once if there is room, else the second time.
#[test]
fn what_fits_stays() {
    let _one = alone();
    let Some(pool) = pool(BUDGET) else { return };
    let (large, small) = (Pages::new(32 << 10), Pages::new(10 << 10));
    let passes = |region: &Region| -> Vec<(u64, u64)> {
        let pass = |_| {
            let before = pool.stats();
            (0..region.len() / PAGE).for_each(|p| read(region, p));
            let now = pool.stats();
            (now.lent - before.lent, now.filled - before.filled)
        };
        (0..8).map(pass).collect()
    };
    let few = 3 * BLOCK as u64;
    let fits = read_only(&pool, &small.0);
    let seen = passes(&fits);
    assert_eq!((seen[0].0, seen[2]), (0, (0, 0)), "{seen:?}");
    drop(fits);
    // Somebody's random reads fill memory.
    let others = read_only(&pool, &large.0);
    others.advise(0..others.len(), Advice::Random).unwrap();
    let mut r = Random::new(1);
    (0..80_000).for_each(|_| read(&others, r.below(large.1 as u64) as usize));
    let back = read_only(&pool, &small.0);
    let seen = passes(&back);
    assert!(seen[0].0 >= few, "{seen:?}");
    assert_eq!((seen[1].0, seen[7]), (0, (0, 0)), "{seen:?}");
}

#[test]
fn a_group_keeps_its_limit() {
    let _one = alone();
    let Some(pool) = pool(BUDGET) else { return };
    let file = Pages::new(32 << 10);
    let group = pool.group("small", Limits::new().max(48 * MIB)).unwrap();
    let region = group.file_read_only(&file.0).unwrap();
    let usage = |what: &str| {
        let groups = pool.snapshot().groups;
        let small = groups
            .children
            .iter()
            .find(|g| g.name.ends_with("small"))
            .unwrap();
        assert!(small.usage_bytes <= 48 * MIB, "{what}: {small:?}");
        small.usage_bytes
    };
    for p in 0..file.1 {
        read(&region, p);
        if p % 1000 == 0 {
            usage("while it is read");
        }
    }
    group.set(Limits::new().max(MIB)).unwrap();
    assert!(usage("then") <= MIB);
    drop(region);
    assert_eq!(usage("at the end"), 0);
}

/// The kernel would let such a page be an unexplained SIGBUS.
#[test]
fn a_file_that_is_shortened_is_an_error_in_lent_blocks_too() {
    let _one = alone();
    let Some(pool) = pool(BUDGET) else { return };
    let file = Pages::new(32 << 10);
    let region = read_only(&pool, &file.0);
    let lent = pool.stats().lent;
    let at = 6 * BLOCK + 100;
    (0..=at).for_each(|p| read(&region, p));
    assert!(pool.stats().lent > lent);
    let f = File::options().write(true).open(&file.0).unwrap();
    f.set_len((at * PAGE) as u64).unwrap();
    let refused = region
        .pin((at + 1) * PAGE..(at + 2) * PAGE, false)
        .map(|_| ());
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    drop(region);
    let s = pool.stats();
    assert_eq!(s.resident_pages, 0);
}

/// As any access to a page that cannot be read: the process ends by SIGBUS, with a line that says why.
#[test]
fn an_access_to_a_lent_page_that_is_gone_is_told() {
    const NAME: &str = "an_access_to_a_lent_page_that_is_gone_is_told";
    if child::role().is_none() {
        let o = child::run(NAME, "read");
        let text = child::text(&o);
        if !text.contains("skipped") {
            assert_eq!(o.status.signal(), Some(libc::SIGBUS), "{text}");
            assert!(
                text.contains("cannot be brought in") && text.contains("truncated"),
                "{text}"
            );
        }
        return;
    }
    let Some(pool) = pool(BUDGET) else { return };
    let file = Pages::new(32 << 10);
    let region = read_only(&pool, &file.0);
    let at = 6 * BLOCK + 100;
    (0..=at).for_each(|p| read(&region, p));
    let f = File::options().write(true).open(&file.0).unwrap();
    f.set_len((at * PAGE) as u64).unwrap();
    let _ = std::fs::remove_file(&file.0);
    read(&region, at + 1);
}

/// What the kernel refuses to take back goes with its region, and so does what is charged for it.
#[test]
fn a_region_goes_with_blocks_that_cannot_be_taken_back() {
    const NAME: &str = "a_region_goes_with_blocks_that_cannot_be_taken_back";
    if child::role().is_none() {
        let out = child::run(NAME, "refused");
        assert!(out.status.success(), "{}", child::text(&out));
        return;
    }
    let Some(pool) = pool(BUDGET) else { return };
    let file = Pages::new(32 << 10);
    let group = pool.group("lent", Limits::new()).unwrap();
    let region = group.file_read_only(&file.0).unwrap();
    (0..32 << 10).for_each(|p| read(&region, p));
    assert!(pool.stats().lent_pages > 0, "{:?}", pool.stats());
    // Taking a block back needs address space for another.
    let limit = |most| {
        let mut l = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: a limit of this process.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut l), 0);
            l.rlim_cur = most;
            assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &l), 0);
        }
    };
    limit(1 << 20);
    drop(region);
    limit(libc::RLIM_INFINITY);
    let s = pool.stats();
    assert_eq!((s.resident_pages, s.lent_pages), (0, 0), "{s:?}");
    pool.check();
}

/// Memory of the program's own that lies where a block was lent is left alone.
#[test]
fn what_the_program_maps_over_a_lent_block_stays() {
    const NAME: &str = "what_the_program_maps_over_a_lent_block_stays";
    if child::role().is_none() {
        let o = child::run(NAME, "map");
        let text = child::text(&o);
        assert!(o.status.success(), "{text}");
        assert!(
            text.contains("skipped") || text.contains("mapped over by the program"),
            "{text}"
        );
        return;
    }
    let Some(pool) = pool(BUDGET) else { return };
    let file = Pages::new(32 << 10);
    let region = read_only(&pool, &file.0);
    let (block, len) = (6 * BLOCK * PAGE, BLOCK * PAGE);
    (0..=block / PAGE + 100).for_each(|p| read(&region, p));
    // SAFETY: a program should not do this; what it has mapped there it uses through its own pointer.
    let own = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let at = region.as_ptr().add(block);
        let p = libc::mmap(at.cast(), len, prot, flags, -1, 0);
        assert_eq!(p.cast(), at);
        std::slice::from_raw_parts_mut(p.cast::<u8>(), len)
    };
    own.fill(0x77);
    (block / PAGE + BLOCK..32 << 10).for_each(|p| read(&region, p));
    pool.resize(4 * MIB).unwrap();
    drop(region);
    assert!(own.iter().all(|&b| b == 0x77));
}

/// The file is written by others: what is read of it afterwards is what they wrote.
#[test]
fn a_map_made_later_sees_what_was_written_meanwhile() {
    let _one = alone();
    let Some(pool) = pool(BUDGET) else { return };
    let file = Pages::new(32 << 10);
    let region = read_only(&pool, &file.0);
    (0..10_000).for_each(|p| read(&region, p));
    drop(region);
    let f = File::options().write(true).open(&file.0).unwrap();
    for p in 0..file.1 {
        f.write_all_at(&word(p + 1, 0).to_le_bytes(), (p * PAGE) as u64)
            .unwrap();
    }
    let region = read_only(&pool, &file.0);
    for p in 0..file.1 {
        // SAFETY: in the region, which nobody stores to.
        let found = unsafe { region.as_ptr().add(p * PAGE).cast::<u64>().read_volatile() };
        assert_eq!(found, word(p + 1, 0), "page {p}");
    }
}

/// What is lent is in the journal as charges: a replay without any file arrives at the same victims.
#[test]
fn a_journal_with_loans_replays_exactly() {
    let _one = alone();
    if pool(BUDGET).is_none() {
        return;
    }
    let path = temp("journal-streams");
    let config = PoolConfig::new(BUDGET).background(true).journal(&path);
    let Some(pool) = faulting(config) else { return };
    let files = [Pages::new(24 << 10), Pages::new(32 << 10)];
    let [scattered, stream] = files.each_ref().map(|f| read_only(&pool, &f.0));
    scattered
        .advise(0..scattered.len(), Advice::Random)
        .unwrap();
    let mut r = Random::new(3);
    for p in 0..2 * files[1].1 {
        read(&stream, p % files[1].1);
        if p % 2 == 0 {
            read(&scattered, r.below(files[0].1 as u64) as usize);
        }
    }
    drop((scattered, stream));
    let stats = pool.stats();
    assert!(stats.lent > 20_000 && stats.evicted > 3_000, "{stats:?}");
    drop(pool);
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let replayed = coldset_pager::journal::replay(&path);
        match replayed {
            Ok(r) if r.victims.len() as u64 == stats.evicted => break,
            // Threads of the pool may outlive its handle for a moment.
            other => assert!(Instant::now() < end, "{:?}", other.map(|r| r.victims.len())),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::remove_file(path).unwrap();
}

/// Pages of all files and of the pool that were there at one moment, at least. Looking at many files takes a while, in which a
/// block may leave one and another come into the next: what is there before the moment and after it counts.
fn there_at_once(files: &[Pages]) -> u64 {
    let before: Vec<_> = files.iter().map(Pages::which_cached).collect();
    let memory = pages_in_memory();
    let after = files.iter().map(Pages::which_cached);
    let both = |(a, b): (&Vec<bool>, Vec<bool>)| a.iter().zip(b).filter(|(&a, b)| a && *b).count();
    let cached: usize = before.iter().zip(after).map(both).sum();
    cached as u64 + memory
}

/// Samples of the kernel's own count while threads read files of their own in order.
#[test]
fn streams_of_several_threads_stay_in_the_budget() {
    let _one = alone();
    let Some(pool) = pool(BUDGET) else { return };
    for threads in [1, 4, 16] {
        let files: Vec<Pages> = (0..threads)
            .map(|_| Pages::new((64 << 10) / threads))
            .collect();
        let regions: Vec<Region> = files.iter().map(|f| read_only(&pool, &f.0)).collect();
        let before = pool.stats().lent;
        let stop = AtomicBool::new(false);
        let most = std::thread::scope(|s| {
            let sampler = s.spawn(|| {
                let mut most = 0;
                while !stop.load(Relaxed) {
                    most = most.max(there_at_once(&files));
                    std::thread::sleep(Duration::from_millis(1));
                }
                most
            });
            let readers: Vec<_> = regions
                .iter()
                .map(|r| {
                    s.spawn(move || {
                        (0..2 * r.len() / PAGE).for_each(|p| read(r, p % (r.len() / PAGE)))
                    })
                })
                .collect();
            readers.into_iter().for_each(|r| r.join().unwrap());
            stop.store(true, Relaxed);
            sampler.join().unwrap()
        });
        let s = pool.stats();
        drop(regions);
        let left: usize = files.iter().map(Pages::cached).sum();
        let (lent, budget) = (s.lent - before, s.budget_pages);
        println!("{threads} threads: {lent} lent, {most} of {budget} pages, {left} left");
        assert!(
            lent > 0 && most <= budget,
            "{threads} threads: {most} of {budget} pages"
        );
        assert!(
            left < 64,
            "{threads} threads: {left} pages are left in the page cache"
        );
    }
}
