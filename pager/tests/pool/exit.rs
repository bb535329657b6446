//! A normal exit writes what is dirty. Each test is a process of its own.
#![allow(unsafe_code, reason = "exit, _exit and fork")]

use crate::common::*;
use coldset_pager::store::{FaultPlan, FaultyStorage, FileStorage};
use coldset_pager::{FaultMode, FlushConfig, Pool, PoolConfig, Region};
use std::path::Path;
use std::process::Output;
use std::sync::atomic::Ordering::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAGES: usize = 40;
/// Not one that a test program has.
const CODE: i32 = 33;

/// Nothing is written back but by the hook.
fn idle() -> PoolConfig {
    let config = PoolConfig::new(MIB).flush(FlushConfig {
        interval: Duration::from_secs(3600),
        expire: Duration::from_secs(3600),
        background_percent: 100,
        hard_percent: 100,
    });
    config.fault_mode(FaultMode::Auto)
}

fn file(pages: usize) -> std::path::PathBuf {
    let path = temp("exit");
    std::fs::write(&path, vec![0; pages * PAGE]).unwrap();
    path
}

/// Stores `value` into every page.
fn dirty(pool: &Pool, r: &mut Region, value: u8) {
    if pool.fallback().is_none() {
        return r.bytes_mut().chunks_mut(PAGE).for_each(|p| p.fill(value));
    }
    (0..r.len() / PAGE).for_each(|p| r.fix_mut(p).unwrap().fill(value));
}

fn exit(code: i32) -> ! {
    std::process::exit(code)
}

/// A path and, for some, a second one.
fn act(role: &str, paths: &[&str]) {
    let pool = Pool::new(idle()).unwrap();
    let mut r = pool.file(paths[0]).unwrap();
    dirty(&pool, &mut r, 7);
    match role {
        "exit" => exit(CODE),
        "thread" => {
            let t = std::thread::spawn(move || {
                std::mem::forget(r);
                exit(CODE)
            });
            t.join().unwrap();
        }
        "two" => {
            let second = Pool::new(idle()).unwrap();
            let mut s = second.file(paths[1]).unwrap();
            dirty(&second, &mut s, 9);
            exit(CODE);
        }
        "guards" => {
            let explicit = Pool::new(idle().fault_mode(FaultMode::Explicit)).unwrap();
            let s = explicit.file(paths[1]).unwrap();
            let mut guards: Vec<_> = (0..PAGES).map(|p| s.fix_mut(p).unwrap()).collect();
            guards.iter_mut().for_each(|g| g.fill(9));
            let readers = guards.split_off(PAGES / 2).len();
            let _held: Vec<_> = (PAGES - readers..PAGES)
                .map(|p| s.fix(p).unwrap())
                .collect();
            exit(CODE);
        }
        // SAFETY: ends the process at once.
        "underscore" => unsafe { libc::_exit(CODE) },
        "fork" | "fork-pool" => {
            // SAFETY: the child exits the normal way, with the hook registered.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                if role == "fork-pool" {
                    let own = Pool::new(idle()).unwrap();
                    let mut s = own.file(paths[1]).unwrap();
                    dirty(&own, &mut s, 9);
                    std::mem::forget((own, s));
                }
                // SAFETY: as the C library does it; the child of this test owns nothing else.
                unsafe { libc::exit(0) };
            }
            let mut status = 0;
            // SAFETY: waits for the child just made.
            unsafe { libc::waitpid(pid, &mut status, 0) };
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
            // SAFETY: ends the process at once, so that only the child can have written.
            unsafe { libc::_exit(CODE) };
        }
        "off" => {
            let off = Pool::new(idle().exit_limit(Duration::ZERO)).unwrap();
            let mut s = off.file(paths[1]).unwrap();
            dirty(&off, &mut s, 9);
            exit(CODE);
        }
        "error" | "slow" => {
            let plan = Arc::new(FaultPlan::default());
            let f = Arc::new(FileStorage::open(Path::new(paths[1]), true).unwrap());
            let faulty = Arc::new(FaultyStorage::new(f, plan.clone()));
            let limit = Duration::from_millis(300);
            let other = Pool::new(idle().exit_limit(limit)).unwrap();
            let len = (PAGES * PAGE) as u64;
            let mut s = other.root().storage(faulty, len, true).unwrap();
            dirty(&other, &mut s, 9);
            if role == "error" {
                plan.write_error.store(libc::ENOSPC as u32, Relaxed);
                plan.fail_writes.store(1, Relaxed);
                exit(CODE);
            }
            // The only pool with a limit worth waiting for is the slow one.
            r.close().unwrap();
            drop(pool);
            plan.slow_us.store(30_000_000, Relaxed);
            exit(CODE);
        }
        other => panic!("{other}"),
    }
}

/// Runs the test in a role; what the files hold in each page afterwards.
fn play(test: &str, role: &str) -> (Output, Vec<u8>, Vec<u8>) {
    let (a, b) = (file(PAGES), file(PAGES));
    let role = format!("{role} {} {}", a.display(), b.display());
    let out = child::run(test, &role);
    let held = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::remove_file(path).unwrap();
        bytes.chunks(PAGE).map(|p| p[17]).collect::<Vec<u8>>()
    };
    let (a, b) = (held(&a), held(&b));
    assert_eq!(out.status.code(), Some(CODE), "{}", child::text(&out));
    (out, a, b)
}

/// True in the child.
fn is_child() -> bool {
    let Some(role) = child::role() else {
        return false;
    };
    let words: Vec<&str> = role.split(' ').collect();
    act(words[0], &words[1..]);
    true
}

#[test]
fn exit_without_sync_leaves_the_data_on_disk() {
    const NAME: &str = "exit_without_sync_leaves_the_data_on_disk";
    if is_child() {
        return;
    }
    for role in ["exit", "thread"] {
        let (out, a, _) = play(NAME, role);
        assert_eq!(a, [7; PAGES], "{role}");
        assert!(
            !child::text(&out).contains("coldset:"),
            "{}",
            child::text(&out)
        );
    }
}

/// Guards that live when the process ends keep nothing from the disk.
#[test]
fn exit_beside_guards_leaves_the_data_on_disk() {
    const NAME: &str = "exit_beside_guards_leaves_the_data_on_disk";
    if is_child() {
        return;
    }
    let (out, a, b) = play(NAME, "guards");
    assert_eq!((a, b), ([7; PAGES].to_vec(), [9; PAGES].to_vec()));
    let text = child::text(&out);
    assert!(!text.contains("coldset:"), "{text}");
}

#[test]
fn all_pools_are_written() {
    if is_child() {
        return;
    }
    let (_, a, b) = play("all_pools_are_written", "two");
    assert_eq!((a, b), (vec![7; PAGES], vec![9; PAGES]));
}

#[test]
fn what_is_not_a_normal_exit_writes_nothing() {
    const NAME: &str = "what_is_not_a_normal_exit_writes_nothing";
    if is_child() {
        return;
    }
    for role in ["underscore", "fork"] {
        let (_, a, _) = play(NAME, role);
        assert_eq!(a, [0; PAGES], "{role}");
    }
    let (_, a, b) = play(NAME, "off");
    assert_eq!((a, b), (vec![7; PAGES], vec![0; PAGES]));
    // A child's own pool is its own affair.
    let (_, a, b) = play(NAME, "fork-pool");
    assert_eq!((a, b), (vec![0; PAGES], vec![9; PAGES]));
}

/// One line, and the exit code stays what it was; other pools are written nevertheless.
#[test]
fn an_error_is_told_and_changes_nothing_else() {
    const NAME: &str = "an_error_is_told_and_changes_nothing_else";
    if is_child() {
        return;
    }
    let (out, a, b) = play(NAME, "error");
    assert_eq!((a, b), (vec![7; PAGES], vec![0; PAGES]));
    let text = String::from_utf8(out.stderr).unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| l.contains("coldset:")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    let right = lines[0].contains("1 of 2 pool(s)") && lines[0].contains("No space left");
    assert!(right, "{text}");
}

/// A store that hangs does not keep the process for ever.
#[test]
fn the_wait_is_bounded() {
    if is_child() {
        return;
    }
    let start = Instant::now();
    let (out, ..) = play("the_wait_is_bounded", "slow");
    assert!(start.elapsed() < Duration::from_secs(20));
    let text = child::text(&out);
    assert!(text.contains("not done after 300 ms"), "{text}");
}
