//! Descriptors: few, out of the program's way, none needed by a miss, and never another file's.
#![allow(
    unsafe_code,
    reason = "limits and descriptors of a process of the test's own"
)]

use crate::common::*;
use coldset_pager::{Error, FaultMode, Pool, PoolConfig, SwapConfig};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

fn limit_descriptors(soft: u64, hard: Option<u64>) {
    // SAFETY: the limits of this process, which is the test's own.
    unsafe {
        let mut l = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut l), 0);
        l.rlim_max = hard.unwrap_or(l.rlim_max).min(l.rlim_max);
        l.rlim_cur = soft.min(l.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &l), 0);
    }
}

/// Descriptors of this process and its mappings, as another one counts them.
fn seen_from_outside() -> (usize, usize) {
    let pid = std::process::id();
    let script = format!("ls /proc/{pid}/fd | wc -l; wc -l < /proc/{pid}/maps");
    let out = Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let mut numbers = text.lines().map(|l| l.trim().parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn swapping(budget: u64) -> Option<Pool> {
    let swap = SwapConfig::lz4(256 * MIB).and_temporary(256 * MIB);
    faulting(PoolConfig::new(budget).swap(swap))
}

/// Runs `test` as a child in that role.
fn child_of(test: &str, role: &str) -> (std::process::ExitStatus, String) {
    let out = child::run(test, role);
    (out.status, child::text(&out))
}

fn lines_of_ours(text: &str) -> Vec<&str> {
    text.lines().filter(|l| l.contains("coldset: ")).collect()
}

/// At the default limits, and the number of descriptors does not grow.
#[test]
fn ten_thousand_regions() {
    const NAME: &str = "ten_thousand_regions";
    const REGIONS: usize = 10_000;
    if child::role().is_none() {
        let (status, text) = child_of(NAME, "alone");
        assert!(status.success(), "{text}");
        return;
    }
    limit_descriptors(1024, Some(1024));
    let Some(pool) = swapping(4 * MIB) else {
        return;
    };
    let make = |i: usize| pool.anonymous(2 * PAGE + i % 3 * PAGE).unwrap();
    let mut regions = vec![make(0)];
    regions[0].bytes_mut().fill(1);
    let (before, _) = seen_from_outside();
    assert!(before < 32, "{before} descriptors");
    let taken = [anonymous_pages(), page_tables()];
    regions.extend((1..REGIONS).map(make));
    for (i, r) in regions.iter_mut().enumerate() {
        let bytes = r.bytes_mut();
        bytes[0] = i as u8;
        bytes[PAGE] = (i >> 8) as u8;
    }
    // What they take beside their pages, compressed ones included, by the kernel's count and by the pool's.
    let taken = anonymous_pages() + page_tables() - taken.iter().sum::<u64>();
    let each = taken as usize * PAGE / REGIONS;
    let said = pool.stats().overhead_bytes as usize / REGIONS;
    println!("{each} bytes a region, {said} of them counted");
    assert!(
        each < 2048 && said < each,
        "{each} bytes a region, {said} of them counted"
    );
    let (after, maps) = seen_from_outside();
    // Batches of transfers make some more, as long as there are numbers.
    const RINGS: usize = 8;
    assert!(
        after <= before + RINGS,
        "{before}, then {after} descriptors"
    );
    assert!(maps < 4 * REGIONS, "{maps} mappings");
    let intact = |(i, r): (usize, &coldset_pager::Region)| {
        let b = r.bytes();
        assert_eq!((b[0], b[PAGE]), (i as u8, (i >> 8) as u8), "region {i}");
    };
    regions.iter().enumerate().for_each(intact);
    assert!(pool.stats().evicted > REGIONS as u64);
    // Every other one goes; what takes their places is empty, and the others keep what they have.
    let mut regions: Vec<_> = regions.into_iter().enumerate().collect();
    regions.retain(|(i, _)| i % 2 == 0);
    let new: Vec<_> = (0..REGIONS / 2).map(make).collect();
    for r in &new {
        assert!(r.bytes().iter().all(|&b| b == 0));
    }
    regions.iter().for_each(|(i, r)| intact((*i, r)));
    assert!(seen_from_outside().0 <= before + RINGS);
}

/// All descriptors that the process may have are taken after the pool is made: misses do not care.
#[test]
fn a_miss_needs_no_descriptor() {
    const NAME: &str = "a_miss_needs_no_descriptor";
    if child::role().is_none() {
        let (status, text) = child_of(NAME, "alone");
        assert!(status.success(), "{text}");
        assert!(lines_of_ours(&text).is_empty(), "{text}");
        return;
    }
    limit_descriptors(64, Some(64));
    let Some(pool) = swapping(MIB) else {
        return;
    };
    let region = pool.anonymous(16 * MIB as usize).unwrap();
    let mut taken = Vec::new();
    let e = loop {
        match std::fs::File::open("/dev/null") {
            Ok(f) => taken.push(f),
            Err(e) => break e,
        }
    };
    assert_eq!(e.raw_os_error(), Some(libc::EMFILE));
    let base = region.as_ptr() as usize;
    let pages = region.len() / PAGE;
    std::thread::scope(|s| {
        for t in 0..8 {
            s.spawn(move || {
                for round in 0..3u64 {
                    for p in (t..pages).step_by(8) {
                        let word = (base + p * PAGE) as *mut u64;
                        // SAFETY: a word of the region that no other thread uses.
                        unsafe {
                            let expected = if round > 0 { p as u64 + round - 1 } else { 0 };
                            assert_eq!(word.read_volatile(), expected);
                            word.write_volatile(p as u64 + round);
                        }
                    }
                }
            });
        }
    });
    assert!(pool.stats().evicted > 2 * pages as u64);
    drop(taken);
}

/// Closes descriptors as daemons do.
/// A pool that cannot be made for want of descriptors is an error that says so: not a kernel that lacks
/// something, and not a pool of another kind.
#[test]
fn too_few_descriptors_for_a_pool_are_named() {
    const NAME: &str = "too_few_descriptors_for_a_pool_are_named";
    if child::role().is_none() {
        let (status, text) = child_of(NAME, "alone");
        assert!(status.success(), "{text}");
        return;
    }
    for mode in [FaultMode::Sigbus, FaultMode::Auto] {
        for limit in 3..64 {
            limit_descriptors(limit, Some(64));
            let config = PoolConfig::new(MIB).swap(SwapConfig::none().and_temporary(MIB));
            match Pool::new(config.fault_mode(mode)) {
                Ok(pool) => {
                    assert!(pool
                        .fallback()
                        .is_none_or(|m| m.errno != Some(libc::EMFILE)));
                    let r = pool.anonymous(PAGE).unwrap();
                    drop((r, pool));
                }
                Err(Error::Missing(m)) if m.errno != Some(libc::EMFILE) => {
                    println!("skipped: {m}");
                    break;
                }
                Err(e) => {
                    let text = format!("{e}");
                    assert!(text.contains("Too many open files"), "{limit}: {text}");
                    assert!(!text.contains("does not offer"), "{limit}: {text}");
                }
            }
        }
    }
}

fn close_from(first: i32, end: i32) {
    for fd in first..end {
        // SAFETY: this process is the test's own, and uses none of them any more.
        unsafe { libc::close(fd) };
    }
}

/// Descriptors that a daemon does not close are all that is needed.
#[test]
fn the_usual_closing_of_descriptors_misses_ours() {
    const NAME: &str = "the_usual_closing_of_descriptors_misses_ours";
    if child::role().is_none() {
        let (status, text) = child_of(NAME, "alone");
        assert!(status.success(), "{text}");
        assert!(lines_of_ours(&text).is_empty(), "{text}");
        return;
    }
    limit_descriptors(1024, None);
    let path = temp("closing");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(8 * MIB).unwrap();
    let Some(pool) = swapping(2 * MIB) else {
        return;
    };
    let mut memory = pool.anonymous(8 * MIB as usize).unwrap();
    let mut map = pool.file(&path).unwrap();
    memory.bytes_mut().fill(3);
    map.bytes_mut().fill(4);
    std::mem::forget(file);
    close_from(3, 1024);
    assert!(memory.bytes().iter().all(|&b| b == 3));
    memory.bytes_mut().fill(5);
    map.bytes_mut().fill(6);
    map.sync(0..map.len()).unwrap();
    assert!(memory.bytes().iter().all(|&b| b == 5));
    assert!(std::fs::read(&path).unwrap().iter().all(|&b| b == 6));
    map.close().unwrap();
    memory.close().unwrap();
    std::fs::remove_file(path).unwrap();
}

/// All of them closed, and their numbers given to a file of the program's: one line and an end, and the
/// file is what it was.
#[test]
fn a_lost_descriptor_is_an_end_and_never_another_file() {
    const NAME: &str = "a_lost_descriptor_is_an_end_and_never_another_file";
    let _others = together();
    let Some(role) = child::role() else {
        for role in [
            "load", "store", "file", "drop", "sync", "threads", "explicit",
        ] {
            for reuse in ["", " reuse"] {
                let theirs = temp("theirs");
                let bytes: Vec<u8> = (0..4 * MIB).map(|i| (i % 251) as u8).collect();
                std::fs::write(&theirs, &bytes).unwrap();
                let out = child::command(NAME, &format!("{role}{reuse}"))
                    .env("COLDSET_TEST_FILE", &theirs)
                    .output()
                    .unwrap();
                let text = child::text(&out);
                if text.contains("skipped") {
                    return;
                }
                assert_eq!(
                    out.status.signal(),
                    Some(libc::SIGABRT),
                    "{role}{reuse}: {text}"
                );
                let ours = lines_of_ours(&text);
                assert_eq!(ours.len(), 1, "{role}{reuse}: {text}");
                assert!(
                    ours[0].contains("closed or replaced by the program"),
                    "{text}"
                );
                let now = std::fs::read(&theirs).unwrap();
                assert!(now == bytes, "{role}{reuse}: the file has been changed");
                std::fs::remove_file(theirs).unwrap();
            }
        }
        return;
    };
    no_core_file();
    let (role, reuse) = role.split_once(' ').unwrap_or((&role, ""));
    let config = PoolConfig::new(2 * MIB).swap(SwapConfig::none().and_temporary(32 * MIB));
    let fault = match role {
        "explicit" => coldset_pager::FaultMode::Explicit,
        "threads" => coldset_pager::FaultMode::Thread,
        _ => coldset_pager::FaultMode::Sigbus,
    };
    // Nobody but the thread of the test uses descriptors, and is the first to notice.
    let Some(pool) = faulting(config.fault_mode(fault).background(false)) else {
        return;
    };
    let path = temp("mapped");
    std::fs::write(&path, vec![1; 8 * MIB as usize]).unwrap();
    let mut memory = pool.anonymous(8 * MIB as usize).unwrap();
    let mut map = pool.file(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let pages = memory.len() / PAGE;
    if role == "explicit" {
        (0..pages).for_each(|p| memory.fix_mut(p).unwrap().fill(0x55));
    } else {
        memory.bytes_mut().fill(0x55);
        map.bytes_mut()[..MIB as usize].fill(0x55);
    }
    let theirs = std::env::var_os("COLDSET_TEST_FILE").unwrap();
    // With the highest limit, so that every number can be had again.
    limit_descriptors(u64::MAX, None);
    close_from(3, 65536);
    let options = || {
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&theirs)
    };
    let mut n = 0;
    while reuse == "reuse" && n < 18_000 {
        let Ok(f) = options() else { break };
        n = f.as_raw_fd();
        std::mem::forget(f);
    }
    let wrong = match role {
        "load" => memory.bytes().iter().filter(|&&b| b != 0x55).count(),
        "store" => {
            memory.bytes_mut().fill(0x66);
            0
        }
        "file" => {
            map.bytes_mut().fill(0x66);
            0
        }
        "sync" => map.sync(0..map.len()).map_or(1, |()| 0),
        "threads" => memory.bytes().iter().filter(|&&b| b != 0x55).count(),
        "explicit" => {
            let bad = |&p: &usize| memory.fix(p).unwrap().iter().any(|&b| b != 0x55);
            (0..pages).filter(bad).count()
        }
        _ => 0,
    };
    if wrong == 0 {
        // Nothing has been lost so far: what they hold was in memory, or nobody has asked for it.
        drop(memory);
        drop(map);
    }
    println!("went on, {wrong} bytes wrong");
    // SAFETY: ends the process, without the exit hook, which would notice, too.
    unsafe { libc::_exit(7) };
}

fn no_core_file() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a limit of this process.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
}
