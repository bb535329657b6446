//! Running a program: its threads, what must be left in the end, the watchdog.

use super::fail;
use super::oracle::Class;
use super::process::stop_recording;
use super::program::{Mode, Program};
use super::thread::Thread;
use super::world::World;
use crate::common::pages_in_memory;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

/// Runs a program to its end, in this process. A failure ends the process.
pub fn run(program: Program, dir: &Path, limit: Duration) {
    let threads = program.threads.len();
    let ops = program.threads.clone();
    let rounds = program.rounds;
    let now: Arc<Vec<AtomicUsize>> = Arc::new((0..=threads).map(|_| AtomicUsize::new(0)).collect());
    watchdog(program.clone(), now.clone(), limit);
    let world = match World::new(program, dir) {
        Ok(world) => world,
        Err(why) => return println!("skipped: {why}"),
    };
    std::thread::scope(|s| {
        for (t, ops) in ops.iter().enumerate() {
            let (world, now) = (&world, &now[t]);
            s.spawn(move || {
                let mut thread = Thread::new(world, t);
                for _ in 0..rounds {
                    for (i, op) in ops.iter().enumerate() {
                        now.store(i + 1, SeqCst);
                        thread.op(op);
                    }
                }
                now.store(usize::MAX, SeqCst);
            });
        }
    });
    now[threads].store(1, SeqCst);
    finish(&world, threads, dir);
}

/// Everything is let go of: books are empty, files hold what was stored.
fn finish(world: &World, threads: usize, dir: &Path) {
    for s in 0..world.slots.len() {
        let live = world.live(s);
        if let Some(live) = live {
            for page in 0..live.truth.pages() {
                // What any thread may find, and what the owner must.
                let t = match live.truth.class(page) {
                    Class::Own(t) => t,
                    _ => page % threads,
                };
                live.check(page, t);
            }
        }
        let faulting = world.program.mode != Mode::Explicit;
        if faulting && world.slots[s].live.lock().unwrap().is_some() && pages_in_memory() == 0 {
            fail("all pages have been looked at, and the kernel counts none");
        }
        world.end(s, super::program::End::Drop);
    }
    for i in 0..world.pools.len() {
        let p = world.pool(i);
        stop_recording(&p);
        let mut stats = p.pool.stats();
        for _ in 0..200 {
            if stats.resident_pages == 0 && stats.swap_slots.0 == 0 && stats.store_bytes == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
            stats = p.pool.stats();
        }
        let left = (stats.resident_pages, stats.swap_slots.0, stats.store_bytes);
        if left != (0, 0, 0) {
            fail(&format!(
                "all regions are gone, and (pages in memory, slots, bytes of compressed memory) are {left:?}"
            ));
        }
        p.pool.check();
    }
    let mut expected = String::new();
    for (path, bytes) in world.slots.iter().filter_map(super::world::Slot::expected) {
        expected += &format!("{} {:016x}\n", path.display(), super::digest(&bytes));
    }
    std::fs::write(dir.join("expected"), expected).expect("a file of the test's");
}

/// A program that does not end is a failure.
fn watchdog(program: Program, now: Arc<Vec<AtomicUsize>>, limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        let mut text = format!("not done after {} s:", limit.as_secs());
        for (t, now) in now.iter().enumerate() {
            text += &match (now.load(SeqCst), program.threads.get(t)) {
                (_, None) => continue,
                (0, _) => format!("\n  thread {t} has not begun"),
                (usize::MAX, _) => format!("\n  thread {t} is done"),
                (i, Some(ops)) => format!("\n  thread {t} in {:?}", ops[i - 1]),
            };
        }
        text += "\n  threads, their states and system calls:";
        for task in std::fs::read_dir("/proc/self/task")
            .into_iter()
            .flatten()
            .flatten()
        {
            let read = |name: &str| {
                let text = std::fs::read_to_string(task.path().join(name));
                text.unwrap_or_default().trim().to_string()
            };
            let stat = read("stat");
            let state = stat.rsplit(") ").next().unwrap_or("").chars().next();
            text += &format!(" {} {:?} {};", read("comm"), state, read("syscall"));
        }
        fail(&text);
    });
}
