//! Forks in the middle of things: what a child may still do, and that its parent does not notice.
#![allow(unsafe_code, reason = "fork")]

use crate::common::*;
use crate::streams::{pool_with, Pages, BLOCK, BUDGET};
use coldset_pager::{FaultMode, Limits, Pool, PoolConfig, Region, SwapConfig};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// After this a process that waits for ever is ended.
const PATIENCE: Duration = Duration::from_secs(60);

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
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            libc::_exit(i32::from(done.is_err()));
        }
        let mut status = 0;
        let end = Instant::now() + PATIENCE / 4;
        while libc::waitpid(pid, &mut status, libc::WNOHANG) == 0 {
            std::thread::sleep(Duration::from_millis(1));
            // Not by an alarm, which the pager may block.
            if Instant::now() > end {
                libc::kill(pid, libc::SIGKILL);
            }
        }
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
    unsafe { libc::alarm(PATIENCE.as_secs() as u32) };
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

/// Nothing comes to lie at the addresses of a region in a child, also where its parent was just mapping a part of a file there.
#[test]
fn a_child_has_nothing_where_blocks_are_lent() {
    alone_in_time("a_child_has_nothing_where_blocks_are_lent", || {
        let file = Pages::new(16 << 10);
        let swap = SwapConfig::lz4(BUDGET);
        let Some(pool) = pool_with(PoolConfig::new(BUDGET).swap(swap)) else {
            return;
        };
        let region = pool.group("g", Limits::new()).unwrap();
        let region = region.file_read_only(&file.0).unwrap();
        let stop = AtomicBool::new(false);
        let strace = slow_mappings();
        std::thread::scope(|s| {
            s.spawn(|| {
                while !stop.load(Relaxed) {
                    touch(&region);
                }
            });
            for n in 0..30 {
                let ended = in_child(|| assert_eq!(free(&region), None));
                if !ended.success() {
                    stop.store(true, Relaxed);
                    panic!("child {n}: {ended}");
                }
            }
            stop.store(true, Relaxed);
        });
        assert!(pool.stats().lent > 0, "{:?}", pool.stats());
        if let Some((mut strace, _said)) = strace {
            strace.kill().unwrap();
            strace.wait().unwrap();
        }
    });
}

/// Makes this process wait after each mapping it makes, if `strace` is there and may: others meet it there.
fn slow_mappings() -> Option<(Child, BufReader<ChildStderr>)> {
    let mut strace = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-e", "trace=mmap"])
        .args(["-e", "inject=mmap:delay_exit=2000", "-p"])
        .arg(std::process::id().to_string())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    // One line for all threads that there are; none if it may not. It goes on saying something.
    let mut said = BufReader::new(strace.stderr.take().unwrap());
    let mut line = String::new();
    while said.read_line(&mut line).is_ok_and(|n| n > 0) {
        if line.contains(" attached") {
            return Some((strace, said));
        }
    }
    println!("without strace, which may not look at this process");
    None
}

/// A page of the region at whose address a new mapping may lie, or that can be read.
fn free(region: &Region) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    (0..region.len() / PAGE).step_by(BLOCK).find(|p| {
        // SAFETY: in a child, at an address at which nothing is, or nothing happens.
        unsafe {
            let at = region.as_ptr().add(p * PAGE).cast();
            let is_free = libc::mmap(at, PAGE, libc::PROT_NONE, flags, -1, 0) != libc::MAP_FAILED;
            is_free || libc::madvise(at, PAGE, libc::MADV_POPULATE_READ) == 0
        }
    })
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
