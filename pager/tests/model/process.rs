//! Operations on what a program's threads share: pools, journals, the process itself.

use super::fail;
use super::program::Kind;
use super::world::{Live, PoolState, World};
use crate::common::Random;
use coldset_pager::journal::replay;
use coldset_pager::{Advice, Error, Limits, PAGE_SIZE};
use std::sync::atomic::Ordering::SeqCst;

/// A hint for the kernel that changes nothing a shared mapping holds.
pub fn madvise(live: &Live, seed: u32) {
    let mut r = Random::new(u64::from(seed));
    let all = [
        libc::MADV_DONTNEED,
        libc::MADV_COLD,
        libc::MADV_PAGEOUT,
        libc::MADV_RANDOM,
        libc::MADV_NORMAL,
    ];
    let pages = live.truth.pages();
    let first = r.below(pages as u64) as usize;
    let n = (r.below(64) as usize + 1).min(pages - first);
    // SAFETY: none of these changes what a shared mapping holds.
    unsafe {
        let at = live.region().as_ptr().add(first * PAGE_SIZE).cast();
        libc::madvise(at, n * PAGE_SIZE, all[r.below(all.len() as u64) as usize]);
    }
}

/// More is to be had at once; for less, everybody else may hold too much.
pub fn resize(p: &PoolState, percent: u8) {
    let pages = p.plan.budget_pages as u64 * (100 + u64::from(percent)) / 100;
    p.most.fetch_max(pages, SeqCst);
    match p.pool.resize(pages * PAGE_SIZE as u64) {
        Ok(()) | Err(Error::Shrink { .. } | Error::Promised { .. }) => {}
        Err(e) => fail(&format!("resize: {e}")),
    }
}

/// One map for stores at a time.
pub fn map_again(live: &Live) {
    if live.kind != Kind::File {
        return;
    }
    let path = live.file.as_ref().expect("the file of the region");
    match live.pool.pool.file(path) {
        Err(Error::InUse { .. }) => {}
        Ok(_) => fail("a file is mapped for stores twice"),
        Err(e) => fail(&format!("mapping a file twice: {e}")),
    }
}

/// A child of fork gets the error that is documented, or SIGSEGV for what it touches.
pub fn fork(live: &Live, calls: bool) {
    let (pool, region) = (&live.pool.pool, live.region());
    // SAFETY: the child does what is written here, and ends by itself or by its alarm.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: of the child.
        unsafe { libc::alarm(10) };
        let mut wrong = 0;
        if calls {
            let refused = |r: Result<(), Error>| i32::from(!matches!(r, Err(Error::Forked)));
            wrong |= refused(pool.sync());
            wrong |= refused(pool.anonymous(PAGE_SIZE).map(drop)) << 1;
            wrong |= refused(pool.group("child", Limits::new()).map(drop)) << 2;
            wrong |= refused(region.sync(0..1)) << 3;
            wrong |= refused(region.advise(0..1, Advice::WillNeed)) << 4;
            wrong |= refused(region.pin(0..1, false).map(drop)) << 5;
        } else {
            // SAFETY: the region is not in this process: the load ends it.
            unsafe { region.as_ptr().read_volatile() };
            wrong = 64;
        }
        // SAFETY: ends the child without anything that belongs to the parent.
        unsafe { libc::_exit(wrong) };
    }
    let mut status = 0;
    loop {
        // SAFETY: waits for the child just made.
        let done = unsafe { libc::waitpid(pid, &mut status, 0) };
        if done == pid {
            break;
        }
        let e = std::io::Error::last_os_error();
        assert_eq!(e.kind(), std::io::ErrorKind::Interrupted, "waitpid: {e}");
    }
    let good = match calls {
        true => libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        false => libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV,
    };
    if !good {
        let what = if calls { "calls" } else { "a load" };
        fail(&format!(
            "{what} in a child of fork: status {status:#x} (14 is a hang; calls that were not refused: {:#b})",
            libc::WEXITSTATUS(status)
        ));
    }
}

/// Records a journal, unless there is one.
pub fn record(world: &World, p: &PoolState) {
    let mut journal = p.journal.lock().unwrap();
    if journal.is_some() {
        return;
    }
    let path = world.path("journal");
    match p.pool.record(&path) {
        Ok(()) => *journal = Some(path),
        Err(e) => fail(&format!("record: {e}")),
    }
}

/// The journal tells what it was told.
pub fn stop_recording(p: &PoolState) {
    let mut journal = p.journal.lock().unwrap();
    let Some(path) = journal.take() else { return };
    if let Err(e) = p.pool.stop_recording() {
        fail(&format!("stop_recording: {e}"));
    }
    match replay(&path) {
        Ok(r) if r.truncated => fail("the journal ends early"),
        Ok(_) => {}
        Err(e) => fail(&format!("replaying the journal: {e}")),
    }
    std::fs::remove_file(path).expect("the journal");
}
