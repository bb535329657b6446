//! Misses handled by threads of the pool: system calls on evicted pages work.
#![allow(unsafe_code, reason = "system calls on managed memory, signal masks")]

use crate::common::*;
use coldset_pager::store::{FaultPlan, FaultyStorage, FileStorage};
use coldset_pager::{Error, FaultMode, Feature, Limits, Pool, PoolConfig, Region, SwapConfig};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

fn config(budget: u64) -> PoolConfig {
    PoolConfig::new(budget)
        .swap(SwapConfig::lz4(128 * MIB))
        .fault_mode(FaultMode::Thread)
}

/// A pool in this mode; none, with a message, without the privilege.
fn privileged(config: PoolConfig) -> Option<Pool> {
    faulting(config)
}

fn region(pool: &Pool, pages: usize) -> Region {
    let mut r = pool.anonymous(pages * PAGE).unwrap();
    for (i, p) in r.bytes_mut().chunks_mut(PAGE).enumerate() {
        p.fill(i as u8);
    }
    r
}

/// Everything that can leave, leaves.
fn empty(pool: &Pool, r: &Region) {
    for _ in 0..50 {
        if r.resident(0..r.len()).unwrap() == 0 {
            return;
        }
        pool.root().reclaim(r.len() as u64).unwrap();
    }
    panic!("{} pages stay", r.resident(0..r.len()).unwrap());
}

#[test]
fn without_privilege_one_error_names_it() {
    const NAME: &str = "without_privilege_one_error_names_it";
    if child::role().is_some() {
        match Pool::new(config(4 * MIB)) {
            Err(Error::Missing(m)) => println!("refused: {m}"),
            Err(e) => panic!("{e}"),
            Ok(_) => println!("allowed"),
        }
        return;
    }
    let text = child::text(&child::run_unprivileged(NAME, "nobody"));
    let allowed = std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd")
        .is_ok_and(|v| v.trim() == "1")
        || std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/userfaultfd")
            .is_ok()
            && !rustix::process::geteuid().is_root();
    if allowed {
        assert!(text.contains("allowed"), "{text}");
        return;
    }
    assert!(text.contains("refused: "), "{text}");
    if !text.contains("a page size") && text.contains("misses of system calls") {
        for word in ["CAP_SYS_PTRACE", "/dev/userfaultfd", "FaultMode::Sigbus"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}

#[test]
fn a_denied_privilege_is_named_and_the_other_modes_do_not_need_it() {
    let _one = alone();
    let denied = config(4 * MIB).deny(Feature::FullUserfaultfd);
    match Pool::new(denied) {
        Err(Error::Missing(m)) if m.feature == Feature::FullUserfaultfd => {
            assert!(m.to_string().contains("hold a Pin"), "{m}");
        }
        // A machine where even the rest is missing.
        Err(Error::Missing(m)) => println!("skipped: {m}"),
        other => panic!("{other:?}"),
    }
    let sigbus = PoolConfig::new(4 * MIB).deny(Feature::FullUserfaultfd);
    if let Some(pool) = faulting(sigbus) {
        let group = pool.group("g", Limits::new()).unwrap();
        let refused = group.with_handler_threads().unwrap_err();
        assert!(matches!(refused, Error::Missing(_)), "{refused}");
    }
}

#[test]
fn system_calls_use_evicted_pages() {
    let _one = alone();
    let Some(pool) = privileged(config(8 * MIB)) else {
        return;
    };
    const PAGES: usize = 64;
    let mut r = region(&pool, PAGES);
    let file = temp("calls");
    let base = r.as_ptr() as usize;
    let slice = |first: usize, pages: usize| {
        // SAFETY: inside the region; nobody else uses it now.
        unsafe { std::slice::from_raw_parts_mut((base + first * PAGE) as *mut u8, pages * PAGE) }
    };
    // write(2) from evicted pages.
    empty(&pool, &r);
    std::fs::write(&file, slice(0, PAGES)).unwrap();
    let written = std::fs::read(&file).unwrap();
    assert!(written
        .chunks(PAGE)
        .enumerate()
        .all(|(i, p)| p.iter().all(|&b| b == i as u8)));
    // read(2) into evicted pages: the file's pages the other way round.
    let back: Vec<u8> = written.chunks(PAGE).rev().flatten().copied().collect();
    std::fs::write(&file, &back).unwrap();
    empty(&pool, &r);
    let f = std::fs::File::open(&file).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&f, slice(0, PAGES), 0).unwrap();
    empty(&pool, &r);
    assert!(r.bytes() == back, "read(2)");
    // O_DIRECT into evicted pages, where the file system has it.
    let direct = std::fs::File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(&file);
    if let Ok(f) = direct {
        r.bytes_mut().fill(0xEE);
        empty(&pool, &r);
        let n = std::os::unix::fs::FileExt::read_at(&f, slice(0, PAGES), 0).unwrap();
        assert_eq!(n, PAGES * PAGE);
        empty(&pool, &r);
        assert!(r.bytes() == back, "O_DIRECT");
    }
    // Through a pipe, from evicted pages into evicted pages.
    let (from, to) = rustix::pipe::pipe().unwrap();
    for i in 0..8 {
        empty(&pool, &r);
        assert_eq!(rustix::io::write(&to, slice(i, 1)).unwrap(), PAGE);
        empty(&pool, &r);
        assert_eq!(rustix::io::read(&from, slice(32 + i, 1)).unwrap(), PAGE);
        assert!(slice(32 + i, 1) == &back[i * PAGE..][..PAGE]);
    }
    // A futex in an evicted page: its value differs, which the kernel can only know by reading it.
    empty(&pool, &r);
    // SAFETY: a word of the region.
    let word = unsafe { &*((base + 5 * PAGE) as *const std::sync::atomic::AtomicU32) };
    let waited = rustix::thread::futex::wait(
        word,
        rustix::thread::futex::Flags::PRIVATE,
        0x1234_5678,
        None,
    );
    assert_eq!(waited, Err(rustix::io::Errno::AGAIN));
    // A path in an evicted page.
    let mut path = file.to_str().unwrap().as_bytes().to_vec();
    path.push(0);
    r.bytes_mut()[..path.len()].copy_from_slice(&path);
    empty(&pool, &r);
    // SAFETY: the path ends with a zero byte; the descriptor is closed at once.
    let fd = unsafe { libc::open(base as *const libc::c_char, libc::O_RDONLY) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: ours.
    unsafe { libc::close(fd) };
    drop(r);
    std::fs::remove_file(file).unwrap();
    assert_eq!(pages_in_memory(), 0);
}

/// What system calls store into a map of a file is dirty like any other store.
#[test]
fn what_system_calls_store_reaches_the_file() {
    let _one = alone();
    let Some(pool) = privileged(config(2 * MIB)) else {
        return;
    };
    const PAGES: usize = 1024;
    let path = temp("stored");
    std::fs::write(&path, vec![0; PAGES * PAGE]).unwrap();
    let mut r = pool.file(&path).unwrap();
    let (from, to) = rustix::pipe::pipe().unwrap();
    for round in 1..4u8 {
        for i in 0..PAGES {
            rustix::io::write(&to, &[round ^ i as u8; 64]).unwrap();
            let here = &mut r.bytes_mut()[i * PAGE + 100..][..64];
            assert_eq!(rustix::io::read(&from, here).unwrap(), 64);
        }
        r.sync(0..r.len()).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for (i, p) in bytes.chunks(PAGE).enumerate() {
            assert!(
                p[100..164].iter().all(|&b| b == round ^ i as u8),
                "page {i}"
            );
            assert_eq!((p[99], p[164]), (0, 0), "page {i}");
        }
    }
    assert!(pool.stats().evicted > 1000);
    r.close().unwrap();
    std::fs::remove_file(path).unwrap();
}

#[test]
fn threads_may_block_sigbus() {
    let _one = alone();
    let Some(pool) = privileged(config(2 * MIB)) else {
        return;
    };
    let mut r = pool.anonymous(8 * MIB as usize).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            // SAFETY: the set is filled before use; the mask is this thread's own.
            unsafe {
                let mut all = std::mem::zeroed();
                libc::sigfillset(&mut all);
                libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
            }
            for (i, p) in r.bytes_mut().chunks_mut(PAGE).enumerate() {
                p.fill(i as u8);
            }
            let right = |(i, p): (usize, &[u8])| p.iter().all(|&b| b == i as u8);
            assert!(r.bytes().chunks(PAGE).enumerate().all(right));
        });
    });
    assert!(pool.stats().evicted > 1000);
}

/// Words of threads as ever, while system calls move whole pages that belong to nobody else.
#[test]
fn no_store_is_lost() {
    let _one = alone();
    let budget = 16 * MIB;
    let Some(pool) = privileged(config(budget)) else {
        return;
    };
    let group = pool.group("stress", Limits::new()).unwrap();
    let counted = group.anonymous(40 * MIB as usize).unwrap();
    let moved = group.anonymous(8 * MIB as usize).unwrap();
    let stop = AtomicBool::new(false);
    let (stressed, peak, rounds) = std::thread::scope(|s| {
        let watcher = s.spawn(|| watch(&[&pool], &stop));
        let meddler = s.spawn(|| meddle(&group, budget, &stop, &|_| ()));
        let mover = s.spawn(|| move_pages(&moved, &stop));
        let stressed = stress(&counted, Access::Faulting, 3, soak(4.0), 50);
        stop.store(true, Relaxed);
        meddler.join().unwrap();
        (stressed, watcher.join().unwrap(), mover.join().unwrap())
    });
    let stats = pool.stats();
    println!(
        "handler threads: {} operations, {} stores, {rounds} pages through a pipe, {} evicted, {} \
         misses, peak {peak} of {}",
        stressed.operations, stressed.stores, stats.evicted, stats.misses, stats.budget_pages
    );
    assert_eq!(stressed.lost, None);
    assert!(stats.evicted > 1000 && rounds > 100, "{stats:?}");
    assert!(peak <= stats.budget_pages + STORE_SLACK, "{peak}");
    drop((counted, moved));
    assert_eq!(pages_in_memory(), 0);
}

/// Copies pages by system calls alone, and checks what arrives.
fn move_pages(r: &Region, stop: &AtomicBool) -> u64 {
    let pages = r.len() / PAGE;
    let (from, to) = rustix::pipe::pipe().unwrap();
    let base = r.as_ptr() as usize;
    let page = |p: usize| {
        // SAFETY: inside the region, which this thread alone uses.
        unsafe { std::slice::from_raw_parts_mut((base + p * PAGE) as *mut u8, PAGE) }
    };
    let mut random = Random::new(3);
    let mut tags = vec![0u64; pages];
    let mut rounds = 0u64;
    while !stop.load(Relaxed) {
        let (a, b) = (
            random.below(pages as u64) as usize,
            random.below(pages as u64) as usize,
        );
        rounds += 1;
        let mut mine = [0u8; PAGE];
        mine[..8].copy_from_slice(&rounds.to_ne_bytes());
        mine[PAGE - 8..].copy_from_slice(&rounds.to_ne_bytes());
        assert_eq!(rustix::io::write(&to, &mine).unwrap(), PAGE);
        assert_eq!(rustix::io::read(&from, page(a)).unwrap(), PAGE);
        tags[a] = rounds;
        assert_eq!(rustix::io::write(&to, page(b)).unwrap(), PAGE);
        assert_eq!(rustix::io::read(&from, &mut mine).unwrap(), PAGE);
        for at in [0, PAGE - 8] {
            let tag = u64::from_ne_bytes(mine[at..at + 8].try_into().unwrap());
            assert_eq!(tag, tags[b], "page {b}");
        }
    }
    rounds
}

/// In a pool whose misses are SIGBUS otherwise, for the regions that ask for it.
#[test]
fn single_regions_can_ask_for_it() {
    let _one = alone();
    let config = PoolConfig::new(2 * MIB).swap(SwapConfig::lz4(64 * MIB));
    let Some(pool) = faulting(config) else { return };
    let group = match pool.root().with_handler_threads() {
        Ok(g) => g,
        Err(Error::Missing(m)) => return println!("skipped: {m}"),
        Err(e) => panic!("{e}"),
    };
    let mut told = group.anonymous(4 * MIB as usize).unwrap();
    let mut signalled = pool.anonymous(4 * MIB as usize).unwrap();
    told.bytes_mut().fill(1);
    signalled.bytes_mut().fill(2);
    for (r, first, works) in [(&told, 1, true), (&signalled, 2, false)] {
        empty(&pool, r);
        let (from, to) = rustix::pipe::pipe().unwrap();
        let written = rustix::io::write(&to, &r.bytes()[..PAGE]);
        if works {
            assert_eq!(written, Ok(PAGE));
            let mut back = [0; PAGE];
            rustix::io::read(&from, &mut back).unwrap();
            assert_eq!(back, [first; PAGE]);
        } else {
            assert_eq!(written, Err(rustix::io::Errno::FAULT));
        }
    }
    assert!(told.bytes().iter().all(|&b| b == 1));
    assert!(signalled.bytes().iter().all(|&b| b == 2));
}

fn failing(pool: &Pool) -> (Region, Arc<FaultPlan>) {
    let path = temp("unreadable");
    let bytes = 16 * PAGE as u64;
    std::fs::write(&path, vec![1; bytes as usize]).unwrap();
    let plan = Arc::new(FaultPlan::default());
    let file = Arc::new(FileStorage::open(&path, true).unwrap());
    std::fs::remove_file(&path).unwrap();
    let faulty = Arc::new(FaultyStorage::new(file, plan.clone()));
    (pool.root().storage(faulty, bytes, true).unwrap(), plan)
}

/// A miss that cannot be served fails the system call; later ones may work.
#[test]
fn a_failed_miss_of_a_system_call_is_efault_and_not_for_ever() {
    let _one = alone();
    let Some(pool) = privileged(config(2 * MIB)) else {
        return;
    };
    let (mut r, plan) = failing(&pool);
    plan.fail_reads.store(1, Relaxed);
    let (_from, to) = rustix::pipe::pipe().unwrap();
    let one = &r.bytes()[9 * PAGE..10 * PAGE];
    assert_eq!(rustix::io::write(&to, one), Err(rustix::io::Errno::FAULT));
    plan.fail_reads.store(0, Relaxed);
    // A pin tries again at once, whatever the kernel remembers.
    drop(r.pin(9 * PAGE..10 * PAGE, false).unwrap());
    assert_eq!(
        rustix::io::write(&to, &r.bytes()[9 * PAGE..10 * PAGE]),
        Ok(PAGE)
    );
    plan.fail_reads.store(1, Relaxed);
    let one = &r.bytes()[5 * PAGE..6 * PAGE];
    assert_eq!(rustix::io::write(&to, one), Err(rustix::io::Errno::FAULT));
    plan.fail_reads.store(0, Relaxed);
    let mut tries = 0;
    while rustix::io::write(&to, one) == Err(rustix::io::Errno::FAULT) {
        tries += 1;
        assert!(tries < 1000, "the failure stays");
        std::thread::sleep(Duration::from_millis(5));
    }
    r.bytes_mut()[5 * PAGE] = 7;
    r.sync(0..r.len()).unwrap();
}

/// An access is SIGBUS, with the reason on standard error.
#[test]
fn a_failed_miss_of_an_access_is_sigbus() {
    const NAME: &str = "a_failed_miss_of_an_access_is_sigbus";
    if child::role().is_none() {
        let out = child::run(NAME, "eio");
        let text = child::text(&out);
        if text.contains("skipped") {
            return;
        }
        assert_eq!(out.status.signal(), Some(libc::SIGBUS), "{text}");
        let told = text.contains("page 9 of a file") && text.contains("Input/output error");
        assert!(told, "{text}");
        return;
    }
    let Some(pool) = privileged(config(2 * MIB)) else {
        return;
    };
    let (r, plan) = failing(&pool);
    plan.fail_reads.store(1, Relaxed);
    // SAFETY: no core file for a death that is meant.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
    }
    std::hint::black_box(r.bytes()[9 * PAGE]);
    unreachable!("the access cannot succeed");
}

/// Threads go with the pool.
#[test]
fn threads_end_with_their_pool() {
    let _one = alone();
    let names = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let comm = |e: std::fs::DirEntry| std::fs::read_to_string(e.path().join("comm"));
        tasks
            .filter_map(|e| comm(e).ok())
            .filter(|n| n.trim() == "coldset-miss")
            .count()
    };
    // Those of the test before may still be on their way out.
    while names() != 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let Some(pool) = privileged(config(2 * MIB).handler_threads(3)) else {
        return;
    };
    assert_eq!(names(), 0, "not before a region needs them");
    let r = region(&pool, 8);
    while names() != 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop((r, pool));
    while names() != 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}
