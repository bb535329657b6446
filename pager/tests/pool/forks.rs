//! Children of fork that go on: with pools of their own, and without those of their parents.
#![allow(unsafe_code, reason = "fork")]

use crate::common::*;
use crate::streams::{pool_with, read, Pages, BLOCK, BUDGET};
use coldset_pager::{FaultMode, Pool, PoolConfig, Region, SwapConfig};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

/// After this a child that waits for ever is ended.
const PATIENCE: Duration = Duration::from_secs(30);

fn config(budget: u64) -> PoolConfig {
    PoolConfig::new(budget).swap(SwapConfig::lz4(16 * MIB).and_temporary(16 * MIB))
}

/// Does `work` in a child of fork, which ends with a failure if that panics.
fn in_child(work: impl FnOnce()) -> ExitStatus {
    // SAFETY: the C library's allocator can be used in the child, and it exits without running anything of the parent's.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    let end = Instant::now() + PATIENCE;
    let mut status = 0;
    loop {
        // SAFETY: the child made above. Signals other than this one may be blocked where it hangs.
        unsafe {
            if libc::waitpid(pid, &mut status, libc::WNOHANG) == pid {
                return ExitStatus::from_raw(status);
            }
            if Instant::now() > end {
                libc::kill(pid, libc::SIGKILL);
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Child after child for a time, or until one fails.
fn children(seconds: f64, work: impl Fn()) -> Result<usize, String> {
    let end = Instant::now() + soak(seconds);
    let mut n = 0;
    while Instant::now() < end {
        let ended = in_child(&work);
        if !ended.success() {
            return Err(format!("child {n}: {ended}"));
        }
        n += 1;
    }
    Ok(n)
}

/// Counts in a word of each page, some pages at a time.
fn use_pages(r: &Region, random: &mut Random) {
    for _ in 0..64 {
        let page = random.below((r.len() / PAGE) as u64) as usize;
        // SAFETY: a word of the region; all access to it is atomic.
        let word = unsafe { &*(r.as_ptr().add(page * PAGE) as *const AtomicU64) };
        word.fetch_add(1, Relaxed);
    }
}

/// What a thread of the parent has locked at the moment of the fork stays locked in the child for ever.
#[test]
fn a_child_of_fork_has_a_pool_of_its_own() {
    const NAME: &str = "a_child_of_fork_has_a_pool_of_its_own";
    if child::role().is_none() {
        let out = child::run(NAME, "parent");
        assert!(out.status.success(), "{}", child::text(&out));
        return;
    }
    let Some(pool) = faulting(config(MIB)) else {
        return;
    };
    let path = temp("fork");
    std::fs::write(&path, [1; 4 * PAGE]).unwrap();
    let region = pool.anonymous(4 * MIB as usize).unwrap();
    let stop = AtomicBool::new(false);
    let limit = limit_on_files();
    let done = std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Relaxed) {
                drop(Pool::new(config(MIB).fault_mode(FaultMode::Explicit)).unwrap());
            }
        });
        for t in 0..3 {
            let (region, stop, pool) = (&region, &stop, &pool);
            s.spawn(move || {
                let mut random = Random::new(t);
                while !stop.load(Relaxed) {
                    use_pages(region, &mut random);
                    if t == 0 {
                        drop(pool.anonymous(PAGE));
                    }
                }
            });
        }
        let done = children(2.0, || {
            assert_eq!(limit_on_files(), limit);
            let pool = Pool::new(config(MIB)).unwrap();
            let mut region = pool.anonymous(2 * MIB as usize).unwrap();
            for (i, page) in region.bytes_mut().chunks_mut(PAGE).enumerate() {
                page[9] = i as u8 | 1;
            }
            for (i, page) in region.bytes().chunks(PAGE).enumerate() {
                assert_eq!(page[9], i as u8 | 1, "page {i}");
            }
            assert_eq!(pool.file_read_only(&path).unwrap().bytes()[3 * PAGE], 1);
        });
        stop.store(true, Relaxed);
        done
    });
    std::fs::remove_file(&path).unwrap();
    println!("{} children", done.unwrap());
}

fn limit_on_files() -> u64 {
    // SAFETY: zeroes are a value of it, and the kernel fills it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur
    }
}

/// It ends as any program does: what it has inherited is dropped. The parent's threads, files and locks are the parent's.
#[test]
fn what_a_child_of_fork_drops_is_still_the_parents() {
    const NAME: &str = "what_a_child_of_fork_drops_is_still_the_parents";
    let Some(role) = child::role() else {
        for role in ["sigbus", "thread", "explicit"] {
            let out = child::run(NAME, role);
            assert!(out.status.success(), "{role}: {}", child::text(&out));
        }
        return;
    };
    let mode = match &*role {
        "sigbus" => FaultMode::Sigbus,
        "thread" => FaultMode::Thread,
        _ => FaultMode::Explicit,
    };
    let swap = temp("fork-swap");
    let journal = temp("fork-journal");
    let config = PoolConfig::new(MIB)
        .fault_mode(mode)
        .swap(SwapConfig::lz4(8 * MIB).and_zstd().and_file(&swap, 8 * MIB))
        .journal(&journal);
    let Some(pool) = faulting(config) else { return };
    let path = temp("fork-file");
    std::fs::write(&path, vec![0; 2 * MIB as usize]).unwrap();
    let regions = [
        pool.anonymous(4 * MIB as usize).unwrap(),
        pool.file(&path).unwrap(),
    ];
    let store = |round: u8| {
        for region in &regions {
            for p in 0..region.len() / PAGE {
                if mode == FaultMode::Explicit {
                    region.fix_mut(p).unwrap()[5] = round ^ p as u8;
                } else {
                    // SAFETY: a byte of the region, which nobody else uses.
                    unsafe { *region.as_ptr().add(p * PAGE + 5) = round ^ p as u8 };
                }
            }
        }
    };
    let check = |round: u8| {
        for region in &regions {
            for p in 0..region.len() / PAGE {
                let found = match mode {
                    FaultMode::Explicit => region.fix(p).unwrap()[5],
                    // SAFETY: as above.
                    _ => unsafe { *region.as_ptr().add(p * PAGE + 5) },
                };
                assert_eq!(found, round ^ p as u8, "page {p}");
            }
        }
    };
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(60));
        eprintln!("it hangs");
        std::process::abort();
    });
    for round in 0..20 {
        store(round);
        let dropped = in_child(|| {
            // SAFETY: of the child's memory, which the parent does not see.
            unsafe {
                drop(std::ptr::read(&regions));
                drop(std::ptr::read(&pool));
            }
        });
        assert!(dropped.success(), "round {round}: {dropped}");
        check(round);
    }
    regions[1].sync(0..PAGE).unwrap();
    drop(regions);
    drop(pool);
    let file = std::fs::read(&path).unwrap();
    assert!(file
        .chunks(PAGE)
        .enumerate()
        .all(|(p, c)| c[5] == 19 ^ p as u8));
    assert!(coldset_pager::journal::replay(&journal).is_ok_and(|r| !r.truncated));
    for p in [path, swap, journal] {
        std::fs::remove_file(p).unwrap();
    }
}

/// A file that is read in order beside forks: no child has a block that is just being lent, nor anything else at the addresses of
/// the region.
#[test]
fn a_child_of_fork_has_nothing_of_a_stream() {
    const NAME: &str = "a_child_of_fork_has_nothing_of_a_stream";
    if child::role().is_none() {
        let out = child::run(NAME, "parent");
        assert!(out.status.success(), "{}", child::text(&out));
        return;
    }
    let Some(pool) = pool_with(PoolConfig::new(BUDGET)) else {
        return;
    };
    let file = Pages::new(24 << 10);
    let region = pool.file_read_only(&file.0).unwrap();
    let (lent, stop) = (pool.stats().lent, AtomicBool::new(false));
    // What is mapped there cannot be used, and is there: nothing else comes to lie where it is.
    let look = || {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let mut there = 0u8;
        for page in (0..file.1).step_by(BLOCK) {
            // SAFETY: the kernel is asked whether it can read there, and whether something is mapped.
            unsafe {
                let at = region.as_ptr().add(page * PAGE).cast();
                assert_eq!(libc::mincore(at, PAGE, &mut there), 0, "page {page}");
                let mapped = libc::mmap(at, PAGE, libc::PROT_READ, flags, -1, 0);
                assert_eq!(mapped, libc::MAP_FAILED, "page {page}");
                let readable = libc::madvise(at, PAGE, libc::MADV_POPULATE_READ);
                assert_ne!(readable, 0, "page {page}");
            }
        }
    };
    let strace = slow_mappings();
    let done = std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Relaxed) {
                for p in (0..file.1).take_while(|_| !stop.load(Relaxed)) {
                    read(&region, p);
                }
            }
        });
        let done = children(3.0, look);
        stop.store(true, Relaxed);
        done
    });
    if let Some((mut strace, _said)) = strace {
        strace.kill().unwrap();
        strace.wait().unwrap();
    }
    let lent = pool.stats().lent - lent;
    println!("{} children, {lent} lent", done.unwrap());
    assert!(lent > 0, "{:?}", pool.stats());
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
