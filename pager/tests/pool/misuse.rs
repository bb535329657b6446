//! What programs do to regions and signals that a library cannot prevent: noticed, told, and harmless
//! to memory that is not the pager's.
#![allow(unsafe_code, reason = "system calls on a region")]

use crate::common::*;
use coldset_pager::{Error, FaultMode, Limits, Pool, PoolConfig, SwapConfig};
use std::ffi::c_void;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

fn lz4(budget: u64) -> PoolConfig {
    PoolConfig::new(budget).swap(SwapConfig::lz4(64 * MIB))
}

/// Runs `test` in a process of its own, in each role: what it said, and how it ended.
fn children(test: &str, roles: &[&str], check: impl Fn(&str, std::process::ExitStatus, String)) {
    for role in roles {
        let out = child::run(test, role);
        let text = child::text(&out);
        if text.contains("skipped") {
            return;
        }
        check(role, out.status, text);
    }
}

fn no_core_file() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a limit of this process.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
}

/// A hole, a region moved away, something else in its place: one line, an error from sync, no store to
/// the file lost, and what has come in its place is not touched. What is under way at that moment is over soon:
/// a sweep that has looked just before drops what it finds.
#[test]
fn a_region_that_was_changed_is_given_up() {
    const NAME: &str = "a_region_that_was_changed_is_given_up";
    let Some(role) = child::role() else {
        return children(
            NAME,
            &["munmap", "mremap", "fixed"],
            |role, status, text| {
                assert!(status.success(), "{role}: {text}");
                let lines = text.lines().filter(|l| l.starts_with("coldset: a region"));
                assert!(lines.clone().count() <= 2, "{role}: {text}");
                let told = lines
                    .clone()
                    .any(|l| l.contains("unmapped, moved or mapped over"));
                assert!(told, "{role}: {text}");
            },
        );
    };
    let Some(pool) = faulting(PoolConfig::new(4 * MIB)) else {
        return;
    };
    let path = temp("torn");
    let bytes = 16 * MIB as usize;
    std::fs::File::create(&path)
        .unwrap()
        .set_len(bytes as u64)
        .unwrap();
    let mut region = pool.file(&path).unwrap();
    for (i, page) in region.bytes_mut().chunks_mut(PAGE).enumerate() {
        page[3] = i as u8 | 1;
    }
    let (base, hole, len) = (region.as_ptr(), 8 * MIB as usize, 64 * PAGE);
    // SAFETY: the calls below change the region, as a program should not; what they put in its place is
    // used through its own pointer only.
    let (other, at) = unsafe {
        let at: *mut c_void = base.add(hole).cast();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let other = match &*role {
            "munmap" => {
                assert_eq!(libc::munmap(at, len), 0);
                false
            }
            "mremap" => {
                let to = libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0);
                let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                let moved = libc::mremap(at, len, len, fixed, to);
                assert_eq!(moved, to);
                false
            }
            _ => {
                let flags = flags | libc::MAP_FIXED;
                let p = libc::mmap(at, len, prot, flags, -1, 0);
                assert_eq!(p, at);
                std::thread::sleep(Duration::from_millis(200));
                std::slice::from_raw_parts_mut(p.cast::<u8>(), len).fill(0x77);
                true
            }
        };
        (other, at.cast::<u8>())
    };
    // Sweeps, evictions and writeback go on; what has come in the region's place stays as it is.
    for _ in 0..4 {
        for p in (0..bytes / PAGE).filter(|p| !(hole..hole + len).contains(&(p * PAGE))) {
            // SAFETY: a page that still is the region's.
            unsafe { std::hint::black_box(base.add(p * PAGE).read_volatile()) };
        }
    }
    let refused = region.sync(0..bytes);
    assert!(matches!(refused, Err(Error::Torn)), "{refused:?}");
    assert!(region.close().is_err());
    if other {
        // SAFETY: the mapping made above, which the pager must have left alone.
        let there = unsafe { std::slice::from_raw_parts(at, len) };
        assert!(there.iter().all(|&b| b == 0x77));
    }
    let file = std::fs::read(&path).unwrap();
    let lost = file
        .chunks(PAGE)
        .enumerate()
        .find(|(i, page)| page[3] != *i as u8 | 1);
    assert_eq!(
        lost.map(|l| l.0),
        None,
        "stores before the change are in the file"
    );
    std::fs::remove_file(path).unwrap();
}

/// A page that the program has moved elsewhere, and that has been evicted since, is SIGBUS there and not zeroes.
#[test]
fn pages_that_are_moved_away_do_not_become_zeroes() {
    const NAME: &str = "pages_that_are_moved_away_do_not_become_zeroes";
    if child::role().is_none() {
        return children(NAME, &["mremap"], |_, status, text| {
            assert_eq!(status.signal(), Some(libc::SIGBUS), "{text}");
            assert!(text.contains("unmapped, moved or mapped over"), "{text}");
        });
    }
    no_core_file();
    let Some(pool) = faulting(lz4(2 * MIB)) else {
        return;
    };
    let mut region = pool.anonymous(8 * MIB as usize).unwrap();
    region.bytes_mut().fill(7);
    let len = MIB as usize;
    // SAFETY: the region is changed as a program should not; what has moved is used at its new address only.
    let moved: *const u8 = unsafe {
        let at = region.as_ptr().add(4 * len).cast();
        let anywhere = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let to = libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, anywhere, -1, 0);
        libc::mremap(at, len, len, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, to).cast()
    };
    assert_ne!(moved.cast_mut().cast(), libc::MAP_FAILED);
    for _ in 0..4 {
        for p in 0..len / PAGE * 4 {
            // SAFETY: a page that still is the region's.
            unsafe { std::hint::black_box(region.as_ptr().add(p * PAGE).read_volatile()) };
        }
    }
    for p in 0..len / PAGE {
        // SAFETY: inside what has been moved.
        let found = unsafe { moved.add(p * PAGE).read_volatile() };
        assert_eq!(found, 7, "page {p} of what was moved");
    }
}

/// `mlock` of what is in memory is undone with a message. It fails where pages are evicted.
#[test]
fn mlock_is_undone() {
    const NAME: &str = "mlock_is_undone";
    if child::role().is_none() {
        return children(NAME, &["lock"], |_, status, text| {
            assert!(status.success(), "{text}");
            let refused = text.contains("mlock refused");
            assert!(
                refused || text.contains("mlock on a region has been undone"),
                "{text}"
            );
        });
    }
    let Some(pool) = faulting(lz4(4 * MIB)) else {
        return;
    };
    let region = pool.anonymous(16 * MIB as usize).unwrap();
    let _pin = region.pin(0..64 * PAGE, true).unwrap();
    // SAFETY: locks pages that are pinned in memory.
    let locked = unsafe { libc::mlock(region.as_ptr().cast(), 64 * PAGE) } == 0;
    // SAFETY: as above, of pages that are not there: refused.
    let evicted = unsafe { libc::mlock(region.as_ptr().add(8 << 20).cast(), 64 * PAGE) };
    assert_ne!(evicted, 0, "evicted pages cannot be locked");
    if !locked {
        return println!("mlock refused: {}", std::io::Error::last_os_error());
    }
    drop(_pin);
    let s = stress(&region, Access::Faulting, 2, Duration::from_millis(500), 50);
    assert_eq!(s.lost, None);
    let stats = pool.stats();
    assert!(stats.peak_pages <= stats.budget_pages + STORE_SLACK);
    assert!(stats.evicted > 1000, "{stats:?}");
}

/// Advice to the kernel that changes nothing of what a region holds, while it is used.
#[test]
fn advice_to_the_kernel_is_harmless() {
    let _one = alone();
    let Some(pool) = faulting(lz4(4 * MIB)) else {
        return;
    };
    let region = pool.anonymous(16 * MIB as usize).unwrap();
    let (base, len) = (region.as_ptr() as usize, region.len());
    let stop = AtomicBool::new(false);
    let calls = AtomicU64::new(0);
    let peak = std::thread::scope(|s| {
        let watcher = s.spawn(|| watch(&[&pool], &stop));
        s.spawn(|| {
            let mut r = Random::new(3);
            while !stop.load(Relaxed) {
                let all = [
                    libc::MADV_DONTNEED,
                    libc::MADV_HUGEPAGE,
                    libc::MADV_COLD,
                    libc::MADV_PAGEOUT,
                    libc::MADV_RANDOM,
                    libc::MADV_NORMAL,
                ];
                let advice = all[r.below(all.len() as u64) as usize];
                let from = r.below((len / PAGE) as u64) as usize * PAGE;
                let n = (r.below(64) as usize + 1) * PAGE;
                let n = n.min(len - from);
                // SAFETY: none of these changes what a shared mapping holds.
                unsafe { libc::madvise((base + from) as *mut c_void, n, advice) };
                calls.fetch_add(1, Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let stressed = stress(&region, Access::Faulting, 2, soak(1.5), 50);
        stop.store(true, Relaxed);
        assert_eq!(stressed.lost, None);
        watcher.join().unwrap()
    });
    let stats = pool.stats();
    assert!(
        calls.load(Relaxed) > 100 && stats.evicted > 1000,
        "{stats:?}"
    );
    assert!(peak <= stats.budget_pages + STORE_SLACK, "{peak}");
}

/// The program's advice for parts of a region splits the kernel's record of the range. Read-ahead goes
/// across.
#[test]
fn read_ahead_crosses_a_split_range() {
    let _one = alone();
    let Some(pool) = faulting(lz4(4 * MIB)) else {
        return;
    };
    let mut region = pool.anonymous(16 * MIB as usize).unwrap();
    let value = |i: usize| {
        (i as u64 + 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .to_ne_bytes()
    };
    for (i, page) in region.bytes_mut().chunks_mut(PAGE).enumerate() {
        page[8..16].copy_from_slice(&value(i));
    }
    for first in (3..region.len() / PAGE).step_by(11) {
        // SAFETY: advice about read-ahead of the kernel's, which has none here.
        unsafe {
            let at = region.as_ptr().add(first * PAGE).cast();
            assert_eq!(libc::madvise(at, PAGE, libc::MADV_RANDOM), 0);
        }
    }
    for _ in 0..2 {
        for (i, page) in region.bytes().chunks(PAGE).enumerate() {
            assert_eq!(page[8..16], value(i), "page {i}");
        }
    }
    let stats = pool.stats();
    assert!(stats.filled > 2 * stats.misses, "not batched: {stats:?}");
}

fn block_sigbus() {
    // SAFETY: changes the mask of this thread.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// A thread that blocks SIGBUS gets no pool; if it begins to later, its first miss kills the process.
#[test]
fn a_thread_that_blocks_sigbus() {
    const NAME: &str = "a_thread_that_blocks_sigbus";
    let Some(role) = child::role() else {
        return children(NAME, &["early", "late"], |role, status, text| match role {
            "early" => assert!(status.success(), "{text}"),
            _ => assert_eq!(status.signal(), Some(libc::SIGBUS), "{text}"),
        });
    };
    if role == "early" {
        if faulting(lz4(MIB)).is_none() {
            return;
        }
        block_sigbus();
        let e = Pool::new(lz4(MIB)).unwrap_err().to_string();
        assert!(e.contains("blocks SIGBUS") && e.lines().count() == 1, "{e}");
        return;
    }
    let Some(pool) = faulting(lz4(MIB)) else {
        return;
    };
    let region = pool.anonymous(MIB as usize).unwrap();
    no_core_file();
    block_sigbus();
    std::hint::black_box(region.bytes()[0]);
    unreachable!("the miss cannot be handled");
}

/// MADV_REMOVE takes contents away behind the pager's back. The access dies, and is told why.
#[test]
fn removed_pages_are_sigbus_with_a_reason() {
    const NAME: &str = "removed_pages_are_sigbus_with_a_reason";
    if child::role().is_none() {
        return children(NAME, &["remove"], |_, status, text| {
            assert_eq!(status.signal(), Some(libc::SIGBUS), "{text}");
            assert!(text.contains("MADV_REMOVE"), "{text}");
        });
    }
    let Some(pool) = faulting(lz4(4 * MIB)) else {
        return;
    };
    let mut region = pool.anonymous(MIB as usize).unwrap();
    region.bytes_mut().fill(1);
    no_core_file();
    // SAFETY: takes contents of the region away, as a program should not.
    let done = unsafe { libc::madvise(region.as_ptr().cast(), PAGE, libc::MADV_REMOVE) };
    assert_eq!(done, 0);
    std::hint::black_box(region.bytes()[0]);
    unreachable!("the page is gone");
}

/// Removed beside evictions: a page has what it had, or is zero if it was in memory and has been evicted
/// since; the pages around keep theirs.
#[test]
fn removed_pages_that_are_evicted_count_as_zeroes() {
    const NAME: &str = "removed_pages_that_are_evicted_count_as_zeroes";
    if child::role().is_none() {
        return children(NAME, &["remove"], |_, status, text| {
            assert!(status.success(), "{text}");
        });
    }
    let Some(pool) = faulting(lz4(4 * MIB).background(false)) else {
        return;
    };
    let mut region = pool.anonymous(16 * MIB as usize).unwrap();
    for (i, page) in region.bytes_mut().chunks_mut(PAGE).enumerate() {
        page.fill(i as u8 | 1);
    }
    // The last of them are in memory, those before them are not.
    let (from, to) = (6 * MIB as usize, 15 * MIB as usize);
    let in_memory = region.resident(from..to).unwrap();
    assert!(in_memory > 100);
    // SAFETY: takes contents of the region away, as a program should not.
    let at = unsafe { region.as_ptr().add(from) };
    // SAFETY: as above; the range is the region's.
    let done = unsafe { libc::madvise(at.cast(), to - from, libc::MADV_REMOVE) };
    assert_eq!(done, 0);
    pool.root().reclaim(16 * MIB).unwrap();
    let (mut zero, mut kept) = (0, 0);
    for (i, page) in region.bytes().chunks(PAGE).enumerate() {
        let removed = (from..to).contains(&(i * PAGE));
        if removed && page.iter().all(|&b| b == 0) {
            zero += 1;
        } else {
            assert!(page.iter().all(|&b| b == i as u8 | 1), "page {i}");
            kept += usize::from(removed);
        }
    }
    assert!(
        (1..=in_memory).contains(&zero),
        "{zero} of {in_memory} in memory"
    );
    assert!(kept > 100, "evicted pages keep what they have");
}

/// Safe code may forget a pin or a guard, which then never lets go. The region goes all the same, with what was stored.
#[test]
fn guards_that_were_forgotten_end_with_their_region() {
    let _one = alone();
    for mode in [FaultMode::Sigbus, FaultMode::Explicit] {
        let Some(pool) = faulting(lz4(MIB).fault_mode(mode)) else {
            return;
        };
        let path = temp("forgotten");
        std::fs::write(&path, [0; 8 * PAGE]).unwrap();
        for close in [true, false] {
            let mut regions = vec![pool.file(&path).unwrap(), pool.anonymous(8 * PAGE).unwrap()];
            for region in &mut regions {
                if mode == FaultMode::Explicit {
                    let mut guard = region.fix_mut(2).unwrap();
                    guard[1] = 7 + u8::from(close);
                    std::mem::forget(guard);
                    std::mem::forget(region.fix(3).unwrap());
                } else {
                    std::mem::forget(region.pin(2 * PAGE..4 * PAGE, true).unwrap());
                    region.bytes_mut()[2 * PAGE + 1] = 7 + u8::from(close);
                }
            }
            for region in regions {
                match close {
                    true => region.close().unwrap(),
                    false => drop(region),
                }
            }
            let file = std::fs::read(&path).unwrap();
            assert_eq!(file[2 * PAGE + 1], 7 + u8::from(close), "{mode:?}");
        }
        assert_eq!(pool.stats().resident_pages, 0);
        pool.check();
        std::fs::remove_file(path).unwrap();
    }
}

/// Open descriptors and mappings of the process.
fn resources() -> (usize, usize) {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (fds, maps.lines().count())
}

/// Pools, groups and regions of all kinds come and go; nothing stays.
#[test]
fn many_pools_leave_nothing_behind() {
    const NAME: &str = "many_pools_leave_nothing_behind";
    /// Mappings that the C library keeps for threads to come, on a busy machine: arenas (two each, eight a
    /// CPU at most) and stacks. A leak would be one for each pool.
    const KEPT: usize = 50;
    if child::role().is_none() {
        // In a process without other tests.
        let out = child::run(NAME, "alone");
        let text = child::text(&out);
        assert!(out.status.success(), "{text}");
        return;
    }
    let path = temp("leak");
    let one = || {
        let Some(pool) = faulting(lz4(MIB)) else {
            return;
        };
        let group = pool.group("g", Limits::new().max(MIB / 2)).unwrap();
        let mut a = group.anonymous(2 * MIB as usize).unwrap();
        a.bytes_mut().iter_mut().step_by(PAGE).for_each(|b| *b = 1);
        let mut f = pool.file(&path).unwrap();
        f.bytes_mut()[5] = 5;
        f.close().unwrap();
        let r = pool.file_read_only(&path).unwrap();
        assert_eq!(r.bytes()[5], 5);
    };
    std::fs::write(&path, vec![0; 64 * PAGE]).unwrap();
    for _ in 0..5 {
        one();
    }
    // The flusher of the last pool may still be on its way out.
    let settled = || {
        std::thread::sleep(Duration::from_millis(100));
        resources()
    };
    let before = settled();
    for _ in 0..100 {
        one();
    }
    let mut after = settled();
    for _ in 0..50 {
        if after.0 <= before.0 && after.1 <= before.1 + KEPT {
            break;
        }
        after = settled();
    }
    println!("descriptors and mappings: {before:?}, after 100 pools {after:?}");
    assert!(after.0 <= before.0, "descriptors: {before:?} {after:?}");
    assert!(after.1 <= before.1 + KEPT, "mappings: {before:?} {after:?}");
    assert_eq!(pages_in_memory(), 0);
    std::fs::remove_file(path).unwrap();
}
