//! A normal exit writes what is dirty in files.
//!
//! The process holds the dirty pages of its files; a kernel map would leave them to the kernel. So
//! the first writable region of a process registers a function with `atexit`. It runs when `main`
//! returns and at `exit`, not at `_exit`, not when a signal ends the process, and does nothing in a
//! child of fork.

use super::flush::Writeback;
use crate::error::Result;
use crate::sys::exit::say;
use crate::sys::fork::OfProcess;
use crate::sys::fuse::pool_thread;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::{Arc, Mutex, Once, Weak};
use std::time::Instant;

/// Pools with writable files, living or not.
static POOLS: OfProcess<Mutex<Vec<Weak<Writeback>>>> = OfProcess::new();

/// The pool has a writable file: a normal exit syncs it.
pub(crate) fn remember(pool: &Arc<Writeback>) {
    let mut pools = POOLS.get().lock().expect("pools");
    pools.retain(|p| p.strong_count() > 0);
    if !pools
        .iter()
        .any(|p| std::ptr::eq(p.as_ptr(), Arc::as_ptr(pool)))
    {
        pools.push(Arc::downgrade(pool));
    }
    static HOOK: Once = Once::new();
    // A child of fork inherits it.
    HOOK.call_once(|| {
        if !crate::sys::exit::at_exit(hook) {
            say(
                "coldset: atexit refuses another function: stores to files that have not been synced are \
                 lost when the process ends\n",
            );
        }
    });
}

/// Runs in the thread that exits, while others may continue. They may exit too, or hold what a sync
/// waits for: so the work is done by a thread of its own, and waited for no longer than was agreed.
extern "C" fn hook() {
    let Ok(all) = POOLS.get().lock() else { return };
    let pools: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
    drop(all);
    let limit = pools.iter().map(|p| p.resources().config.exit_limit).max();
    let Some(limit) = limit.filter(|l| !l.is_zero()) else {
        return leave(pools);
    };
    let (tell, told) = channel::<Result<()>>();
    let work = pools.clone();
    let started = pool_thread("coldset-exit", move || {
        for p in work
            .iter()
            .filter(|p| !p.resources().config.exit_limit.is_zero())
        {
            let _passage = p.resources().traffic.enter();
            // Nobody is there to be told if the time is over.
            let _ = tell.send(p.sync_at_exit());
        }
        leave(work);
    });
    let mut first = started.err().map(|e| e.to_string());
    let mut failed = usize::from(first.is_some());
    let end = Instant::now() + limit;
    loop {
        match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Ok(())) => {}
            Ok(Err(e)) => {
                failed += 1;
                first.get_or_insert(e.to_string());
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                failed += 1;
                first.get_or_insert(format!("not done after {} ms", limit.as_millis()));
                break;
            }
        }
    }
    if let Some(first) = first {
        say(&format!(
            "coldset: at exit, dirty pages of files were not written in {failed} of {} pool(s): \
             {first}\n",
            pools.len()
        ));
    }
    leave(pools);
}

/// The process is ending: a pool must not be taken apart now by the last thread that names it.
fn leave(pools: Vec<Arc<Writeback>>) {
    pools.into_iter().for_each(std::mem::forget);
}
