//! Forks in the middle of things: what a child may still do, and that its parent does not notice.
#![allow(unsafe_code, reason = "fork")]

use crate::common::*;
use coldset_pager::{FaultMode, Pool, PoolConfig, Region, SwapConfig};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Seconds after which a process that waits for ever is ended.
const PATIENCE: u32 = 60;

fn config(mode: FaultMode) -> PoolConfig {
    let swap = SwapConfig::lz4(16 * MIB);
    PoolConfig::new(MIB).swap(swap).fault_mode(mode)
}

fn touch(region: &Region) {
    for p in 0..region.len() / PAGE {
        // SAFETY: inside the region; others only read, too.
        unsafe { region.as_ptr().add(p * PAGE).read_volatile() };
    }
}

/// Runs `work` in a child of fork, and waits for it.
fn in_child(work: impl FnOnce()) -> ExitStatus {
    // SAFETY: the C library's allocator can be used in the child, and it exits without running anything of the parent's.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::alarm(PATIENCE / 4);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            libc::_exit(i32::from(done.is_err()));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        ExitStatus::from_raw(status)
    }
}

/// In a process of its own, which ends if it takes too long.
#[track_caller]
fn alone_in_time(name: &str, work: impl FnOnce()) {
    if child::role().is_none() {
        let _one = alone();
        let out = child::run(name, "forker");
        assert!(out.status.success(), "{}", child::text(&out));
        return;
    }
    // SAFETY: a signal to this process, whose default action ends it.
    unsafe { libc::alarm(PATIENCE) };
    work();
}

/// A child drops what it has inherited: the threads that serve its parent's misses go on.
#[test]
fn what_a_child_drops_its_parent_keeps() {
    alone_in_time("what_a_child_drops_its_parent_keeps", || {
        for mode in [FaultMode::Thread, FaultMode::Sigbus] {
            let Ok(pool) = Pool::new(config(mode)) else {
                println!("skipped: {mode:?}");
                continue;
            };
            let region = pool.anonymous(4 * MIB as usize).unwrap();
            touch(&region);
            let mut inherited = Some((region, pool));
            let ended = in_child(|| drop(inherited.take()));
            assert!(ended.success(), "{mode:?}: {ended}");
            let (region, pool) = inherited.unwrap();
            (0..4).for_each(|_| touch(&region));
            drop((region, pool));
        }
    });
}

/// A child makes a pool of its own, whatever other threads of its parent were doing.
#[test]
fn a_child_makes_a_pool_of_its_own() {
    alone_in_time("a_child_makes_a_pool_of_its_own", || {
        let Some(pool) = faulting(config(FaultMode::Sigbus)) else {
            return;
        };
        let region = pool.anonymous(4 * MIB as usize).unwrap();
        let stop = AtomicBool::new(false);
        let until_stopped = |work: &dyn Fn()| {
            while !stop.load(Relaxed) {
                work();
            }
        };
        let limit = limit_on_files();
        std::thread::scope(|s| {
            s.spawn(|| until_stopped(&|| touch(&region)));
            s.spawn(|| until_stopped(&|| drop(Pool::new(config(FaultMode::Explicit)).unwrap())));
            for n in 0..200 {
                let ended = in_child(|| {
                    assert_eq!(limit_on_files(), limit);
                    let own = Pool::new(config(FaultMode::Sigbus)).unwrap();
                    touch(&own.anonymous(2 * MIB as usize).unwrap());
                });
                if !ended.success() {
                    stop.store(true, Relaxed);
                    panic!("child {n}: {ended}");
                }
            }
            stop.store(true, Relaxed);
        });
    });
}

fn limit_on_files() -> u64 {
    // SAFETY: zeroes are a value of it, and the kernel fills it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur
    }
}
