//! What concerns the process as a whole: privilege, fork, signals, errors that cannot be returned.
#![allow(unsafe_code, reason = "fork and signals")]

use crate::common::*;
use coldset_engine::Counter;
use coldset_pager::observe::snapshot_all;
use coldset_pager::store::{FaultPlan, FaultyStorage, FileStorage};
use coldset_pager::{Advice, Error, FaultMode, Limits, Pool, PoolConfig, SwapConfig};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

fn lz4(budget: u64) -> PoolConfig {
    PoolConfig::new(budget).swap(SwapConfig::lz4(64 * MIB))
}

/// As root it runs again as nobody; `vm.unprivileged_userfaultfd` does not matter.
#[test]
fn an_ordinary_user_needs_no_privilege() {
    const NAME: &str = "an_ordinary_user_needs_no_privilege";
    if child::role().is_some() {
        let uid = rustix::process::geteuid();
        assert!(!uid.is_root());
        let Some(pool) = faulting(lz4(4 * MIB)) else {
            return;
        };
        let region = pool.anonymous(16 * MIB as usize).unwrap();
        let stop = AtomicBool::new(false);
        let (s, peak) = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&[&pool], &stop));
            let s = stress(&region, Access::Faulting, 2, soak(3.0), 50);
            stop.store(true, Relaxed);
            (s, watcher.join().unwrap())
        });
        let stats = pool.stats();
        assert_eq!(s.lost, None);
        assert!(peak <= stats.budget_pages + STORE_SLACK, "{peak} pages");
        assert!(stats.evicted > 1000, "{stats:?}");
        assert!(stats.peak_pages <= stats.budget_pages + STORE_SLACK);
        println!("uid {} evicted {} pages", uid.as_raw(), stats.evicted);
        return;
    }
    let out = child::run_unprivileged(NAME, "nobody");
    let text = child::text(&out);
    println!("{text}");
    assert!(out.status.success(), "{text}");
    assert!(
        text.contains("evicted") || text.contains("skipped"),
        "{text}"
    );
}

/// A child of fork gets an error from calls and SIGSEGV from accesses; the parent is not harmed.
#[test]
fn fork_is_refused() {
    const NAME: &str = "fork_is_refused";
    if child::role().is_none() {
        // In a process without other threads of the test program's.
        let out = child::run(NAME, "forker");
        assert!(out.status.success(), "{}", child::text(&out));
        return;
    }
    let Some(pool) = faulting(lz4(MIB)) else {
        return;
    };
    let mut region = pool.anonymous(4 * MIB as usize).unwrap();
    region.bytes_mut().fill(7);
    let group = pool.group("g", Limits::new()).unwrap();
    let explicit = Pool::new(lz4(MIB).fault_mode(FaultMode::Explicit)).unwrap();
    let pages = explicit.anonymous(4 * PAGE).unwrap();
    pages.fix_mut(0).unwrap()[0] = 7;
    let wait = |pid| {
        let mut status = 0;
        // SAFETY: waits for a child just made.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        std::process::ExitStatus::from_raw(status)
    };
    // SAFETY: the child calls the pager, which refuses before it takes a lock, and exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        fn forked<T>(r: Result<T, Error>) -> bool {
            matches!(r, Err(Error::Forked))
        }
        let refused = [
            forked(region.sync(0..PAGE)),
            forked(region.resident(0..PAGE)),
            forked(region.resident(5..5)),
            forked(region.pin(0..PAGE, false)),
            forked(region.pin(5..5, false)),
            forked(region.advise(0..PAGE, Advice::Random)),
            forked(region.advise(0..PAGE, Advice::DontNeed)),
            forked(region.fix(0)) || matches!(region.fix(0), Err(Error::Mode(_))),
            forked(pages.fix(0)),
            forked(pages.fix(1)),
            forked(pages.fix_mut(0)),
            forked(pages.resident(0..PAGE)),
            forked(pool.anonymous(PAGE)),
            forked(pool.file("/etc/hostname")),
            forked(pool.group("child", Limits::new())),
            forked(pool.resize(2 * MIB)),
            forked(pool.sync()),
            forked(pool.record("/tmp/never")),
            forked(pool.stop_recording()),
            forked(group.set(Limits::new().max(MIB))),
            forked(group.reclaim(MIB)),
            forked(group.with_handler_threads().map(drop)),
            snapshot_all().pools.is_empty(),
        ];
        let wrong = refused.iter().position(|r| !r);
        // SAFETY: ends the child without anything that belongs to the parent.
        unsafe { libc::_exit(wrong.map_or(0, |n| n as i32 + 1)) };
    }
    assert_eq!(wait(pid).code(), Some(0), "which call was not refused");
    assert_eq!(snapshot_all().pools.len(), 2);
    assert_eq!(pages.fix(0).unwrap()[0], 7);
    // What a child maps does not come to lie where its parent's regions are, whatever its size.
    let own = [
        (region.as_ptr() as usize, region.len()),
        (pages.fix(0).unwrap().as_ptr() as usize, PAGE),
    ];
    // SAFETY: the child makes mappings and exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let mut met = 0;
        for len in (0..512).map(|n| PAGE << (n % 12)) {
            // SAFETY: a new mapping.
            let at = unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, flags, -1, 0) as usize
            };
            met |= i32::from(
                own.iter()
                    .any(|&(from, n)| at < from + n && from < at + len),
            );
        }
        // SAFETY: as above.
        unsafe { libc::_exit(met) };
    }
    assert_eq!(
        wait(pid).code(),
        Some(0),
        "memory of a child where its parent's region is"
    );
    // SAFETY: the child reads an address it does not have.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: ends the child: quietly, by the default action, without a core file.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            std::hint::black_box(region.as_ptr().add(100 * PAGE).read_volatile());
            libc::_exit(0);
        }
    }
    assert_eq!(wait(pid).signal(), Some(libc::SIGSEGV));
    assert!(region.bytes().iter().all(|&b| b == 7));
}

static FOREIGN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn foreign(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel's siginfo; the write is async-signal-safe; the access cannot be repaired.
    unsafe {
        FOREIGN.store((*info).si_addr() as usize, SeqCst);
        let text = b"the handler that was there before\n";
        libc::write(1, text.as_ptr().cast(), text.len());
        libc::_exit(42);
    }
}

fn install_foreign() -> libc::sigaction {
    // SAFETY: installs a handler with the matching signature; zeroes are an action.
    unsafe {
        let (mut a, mut old): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        a.sa_sigaction = foreign as extern "C" fn(_, _, _) as usize;
        a.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, &a, &mut old);
        old
    }
}

/// Reads from a map of a file that has become shorter.
fn foreign_sigbus() {
    use std::os::fd::AsRawFd;
    let path = temp("short");
    std::fs::write(&path, [0; PAGE]).unwrap();
    let f = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    // SAFETY: a new mapping, of which a page is then read that the file no longer has.
    unsafe {
        let (prot, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        let p = libc::mmap(std::ptr::null_mut(), PAGE, prot, flags, f.as_raw_fd(), 0);
        assert_ne!(p, libc::MAP_FAILED);
        f.set_len(0).unwrap();
        std::hint::black_box(p.cast::<u8>().read_volatile());
    }
    unreachable!("the access cannot succeed");
}

/// A SIGBUS that is not ours reaches the handler that was installed before the first pool, and one that is
/// between our two.
#[test]
fn a_foreign_sigbus_is_passed_on() {
    const NAME: &str = "a_foreign_sigbus_is_passed_on";
    let Some(role) = child::role() else {
        for role in ["before", "between"] {
            let out = child::run(NAME, role);
            let text = child::text(&out);
            if text.contains("skipped") {
                return;
            }
            assert_eq!(out.status.code(), Some(42), "{role}: {text}");
            assert!(text.contains("the handler that was there before"), "{text}");
        }
        return;
    };
    if role == "between" {
        coldset_pager::install_handler().unwrap();
    }
    install_foreign();
    if role == "between" {
        coldset_pager::install_handler().unwrap();
    }
    let Some(pool) = faulting(lz4(MIB)) else {
        return;
    };
    let mut region = pool.anonymous(4 * MIB as usize).unwrap();
    region.bytes_mut().fill(1);
    foreign_sigbus();
}

/// A handler between our two ends before the program does: misses still arrive, and a foreign SIGBUS takes
/// the default.
#[test]
fn misses_outlive_a_handler_that_restores_what_it_found() {
    const NAME: &str = "misses_outlive_a_handler_that_restores_what_it_found";
    if child::role().is_none() {
        let out = child::run(NAME, "between");
        let text = child::text(&out);
        if text.contains("skipped") {
            return;
        }
        assert_eq!(out.status.signal(), Some(libc::SIGBUS), "{text}");
        assert!(text.contains("every page is as it was"), "{text}");
        return;
    }
    coldset_pager::install_handler().unwrap();
    let found = install_foreign();
    coldset_pager::install_handler().unwrap();
    // A miss for each page: nothing is read ahead.
    let config = lz4(MIB).read_ahead(1).background(false);
    let Some(pool) = faulting(config) else {
        return;
    };
    let mut region = pool.anonymous(4 * MIB as usize).unwrap();
    region.bytes_mut().fill(1);
    // SAFETY: what the other handler has found, as it gives it back.
    unsafe { libc::sigaction(libc::SIGBUS, &found, std::ptr::null_mut()) };
    assert!(region.bytes().iter().all(|&b| b == 1));
    assert!(pool.stats().misses > 1000, "{:?}", pool.stats());
    println!("every page is as it was");
    foreign_sigbus();
}

/// Where the handler of [`a_handler_misses_while_its_thread_looks_at_the_pool`] reads, and how often it has.
static MANAGED: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static READS: AtomicUsize = AtomicUsize::new(0);
const MANAGED_PAGES: usize = 2048;

extern "C" fn read_managed(_: i32) {
    let n = READS.fetch_add(1, Relaxed);
    let p = MANAGED.load(Relaxed);
    // SAFETY: a page of the region, which lives as long as the timer.
    let found = unsafe { p.add(n * 7 % MANAGED_PAGES * PAGE).read_volatile() };
    assert_eq!(found, 1);
}

/// Runs [`read_managed`] on this thread, most of the time.
fn read_every_200_us() {
    // SAFETY: a handler that is safe to run anywhere but in the allocator, and a timer of the process.
    unsafe {
        let mut a: libc::sigaction = std::mem::zeroed();
        a.sa_sigaction = read_managed as *const () as usize;
        a.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGALRM, &a, std::ptr::null_mut()), 0);
        let every = libc::timeval {
            tv_sec: 0,
            tv_usec: 200,
        };
        let timer = libc::itimerval {
            it_interval: every,
            it_value: every,
        };
        assert_eq!(
            libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()),
            0
        );
    }
}

/// Calls that look at a pool hold its lock: a handler that misses on their thread meanwhile would wait for itself.
#[test]
fn a_handler_misses_while_its_thread_looks_at_the_pool() {
    const NAME: &str = "a_handler_misses_while_its_thread_looks_at_the_pool";
    if child::role().is_none() {
        let out = child::run(NAME, "looker");
        let text = child::text(&out);
        assert!(out.status.success(), "{text}");
        assert!(
            text.contains("it has looked") || text.contains("skipped,"),
            "{text}"
        );
        return;
    }
    let config = lz4(2 * MIB).read_ahead(1).background(false);
    let Some(pool) = faulting(config) else {
        return;
    };
    let mut region = pool.anonymous(MANAGED_PAGES * PAGE).unwrap();
    region.bytes_mut().fill(1);
    MANAGED.store(region.as_ptr(), Relaxed);
    let group = pool.root();
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(60));
        eprintln!("it hangs, after {READS:?} reads");
        std::process::abort();
    });
    let before = pool.stats().misses;
    read_every_200_us();
    // None of them allocates anything that its caller has to give back.
    while READS.load(Relaxed) < 2000 {
        assert!(group.usage() > 0);
        assert!(group.counter(Counter::PgstealAnon).is_none_or(|n| n >= 0));
        assert!(region.resident(0..region.len()).unwrap() > 0);
        region.advise(0..PAGE, Advice::WillNeed).unwrap();
    }
    // SAFETY: no more of them.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_IGN) };
    let misses = pool.stats().misses - before;
    assert!(misses > 500, "{misses}");
    println!("it has looked");
}

/// A miss whose contents cannot be read ends the program as a kernel mapping would, and says why.
#[test]
fn a_miss_that_cannot_be_read_is_sigbus_with_a_reason() {
    const NAME: &str = "a_miss_that_cannot_be_read_is_sigbus_with_a_reason";
    let Some(role) = child::role() else {
        for (role, reason) in [("eio", "Input/output error"), ("truncated", "truncated")] {
            let out = child::run(NAME, role);
            let text = child::text(&out);
            if text.contains("skipped") {
                return;
            }
            assert_eq!(out.status.signal(), Some(libc::SIGBUS), "{role}: {text}");
            assert!(
                text.contains("page 9 of a file") && text.contains(reason),
                "{text}"
            );
        }
        return;
    };
    let Some(pool) = faulting(PoolConfig::new(MIB)) else {
        return;
    };
    let path = temp("unreadable");
    let bytes = 16 * PAGE as u64;
    std::fs::write(&path, vec![1; bytes as usize]).unwrap();
    let plan = Arc::new(FaultPlan::default());
    let file = Arc::new(FileStorage::open(&path, false).unwrap());
    let faulty = Arc::new(FaultyStorage::new(file, plan.clone()));
    let region = pool.root().storage(faulty, bytes, false).unwrap();
    assert_eq!(region.bytes()[0], 1);
    if role == "eio" {
        plan.fail_reads.store(1, Relaxed);
    } else {
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(PAGE as u64)
            .unwrap();
    }
    std::fs::remove_file(&path).unwrap();
    // SAFETY: no core file for a death that is meant.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
    }
    std::hint::black_box(region.bytes()[9 * PAGE]);
    unreachable!("the access cannot succeed");
}

/// A pool for each thread, made and dropped while others work.
#[test]
fn a_pool_for_each_thread() {
    let _one = alone();
    if faulting(PoolConfig::new(MIB)).is_none() {
        return;
    }
    std::thread::scope(|s| {
        for t in 0..4u8 {
            s.spawn(move || {
                for round in 0..5 {
                    let pool = Pool::new(lz4(MIB)).unwrap();
                    let mut region = pool.anonymous(3 * MIB as usize).unwrap();
                    for (i, p) in region.bytes_mut().chunks_mut(PAGE).enumerate() {
                        p.fill(t ^ i as u8 ^ round);
                    }
                    for (i, p) in region.bytes().chunks(PAGE).enumerate() {
                        assert!(p.iter().all(|&b| b == t ^ i as u8 ^ round));
                    }
                    assert!(pool.stats().evicted > 256);
                }
            });
        }
    });
    assert_eq!(pages_in_memory(), 0);
}

/// A miss, with the eviction it needs, on a thread with little stack.
#[test]
fn a_miss_fits_a_small_stack() {
    let _one = alone();
    let Some(pool) = faulting(lz4(MIB)) else {
        return;
    };
    let mut region = pool.anonymous(4 * MIB as usize).unwrap();
    let small = std::thread::Builder::new().stack_size(64 << 10);
    std::thread::scope(|s| {
        let filler = small
            .spawn_scoped(s, || region.bytes_mut().fill(3))
            .unwrap();
        filler.join().unwrap();
    });
    assert!(pool.stats().evicted > 500);
    assert!(region.bytes().iter().all(|&b| b == 3));
}
