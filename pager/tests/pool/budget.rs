//! The budget: a share of what there is, changed while the pool is in use, following pressure, promised
//! more than once.
#![allow(unsafe_code, reason = "threads store to words of their own")]

use crate::common::cgroup::Cgroup;
use crate::common::*;
use coldset_pager::{Error, Pool, PoolConfig, SwapConfig};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};

fn swap(bytes: u64) -> SwapConfig {
    SwapConfig::lz4(bytes).and_temporary(bytes)
}

/// Up and down, with threads that check every word; pages in memory as the kernel counts them; and a
/// replay of the journal that comes to the same victims.
#[test]
fn a_budget_changes_while_threads_use_the_pool() {
    let _one = alone();
    for policy in ["v5", "classic"] {
        let path = temp("journal-resize");
        let config = PoolConfig::new(8 * MIB).policy(policy).unwrap();
        let config = config.swap(swap(64 * MIB)).journal(&path);
        let Some(pool) = faulting(config) else { return };
        let region = pool.anonymous(32 * MIB as usize).unwrap();
        let stop = AtomicBool::new(false);
        let time = soak(3.0);
        let s = std::thread::scope(|scope| {
            let resizer = scope.spawn(|| {
                let mut r = Random::new(3);
                let mut changes = 0;
                while !stop.load(Relaxed) {
                    let mib = 3 + r.below(14);
                    pool.resize(mib * MIB).unwrap();
                    assert_eq!(pool.budget(), mib * MIB);
                    let (now, budget) = (pages_in_memory(), mib * MIB / PAGE as u64);
                    // A page may be on its way out of a pipe.
                    assert!(now <= budget, "{now} of {budget} pages");
                    changes += 1;
                    std::thread::sleep(Duration::from_millis(20));
                }
                changes
            });
            let s = stress(&region, Access::Faulting, 4, time, 50);
            stop.store(true, Relaxed);
            assert!(resizer.join().unwrap() > 10);
            s
        });
        assert_eq!(s.lost, None);
        drop(region);
        let stats = pool.stats();
        assert_eq!(stats.failed_misses, 0, "{stats:?}");
        assert!(stats.evicted > 1000);
        drop(pool);
        let replayed = coldset_pager::journal::replay(&path).unwrap();
        assert_eq!(replayed.victims.len() as u64, stats.evicted);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_budget_does_not_shrink_below_what_is_pinned() {
    let _one = alone();
    let config = PoolConfig::new(8 * MIB).swap(swap(64 * MIB));
    let Some(pool) = faulting(config) else { return };
    let mut region = pool.anonymous(16 * MIB as usize).unwrap();
    region.bytes_mut().fill(7);
    let pin = region.pin(0..5 * MIB as usize, false).unwrap();
    match pool.resize(4 * MIB) {
        Err(e @ Error::Shrink { pinned, budget, .. }) => {
            assert_eq!((pinned, budget), (5 * MIB, 8 * MIB));
            assert!(e.to_string().contains(&(5 * MIB).to_string()), "{e}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(pool.budget(), 8 * MIB);
    assert!(region.bytes().iter().step_by(PAGE).all(|&b| b == 7));
    drop(pin);
    pool.resize(4 * MIB).unwrap();
    assert!(pages_in_memory() <= 4 * MIB / PAGE as u64);
    assert!(region.bytes().iter().step_by(PAGE).all(|&b| b == 7));
    assert!(matches!(pool.resize(4096), Err(Error::Setting { .. })));
}

/// So many bytes of noise in each page; the rest is zero.
fn noise(pages: &mut [u8], bytes: usize) {
    let mut r = Random::new(1);
    for page in pages.chunks_mut(PAGE) {
        let words = page[..bytes].chunks_exact_mut(8);
        words.for_each(|w| w.copy_from_slice(&r.next().to_le_bytes()));
    }
}

/// Compressed contents make room for a smaller budget by going to the swap file; without one the budget stays. No miss of
/// another thread fails meanwhile.
#[test]
fn compressed_contents_make_room_for_a_smaller_budget() {
    let _one = alone();
    for file in [true, false] {
        let lz4 = SwapConfig::lz4(64 * MIB);
        let (swap, bytes) = match file {
            true => (lz4.and_temporary(64 * MIB), 2048),
            false => (lz4, 1280),
        };
        let Some(pool) = faulting(PoolConfig::new(16 * MIB).swap(swap)) else {
            return;
        };
        let mut region = pool.anonymous(24 * MIB as usize).unwrap();
        noise(region.bytes_mut(), bytes);
        let more = pool.anonymous(2 * MIB as usize).unwrap();
        std::thread::scope(|scope| {
            let user = scope.spawn(|| stress(&more, Access::Faulting, 2, soak(2.0), 50));
            for mib in [15, 4, 16, 5] {
                std::thread::sleep(soak(2.0) / 5);
                match pool.resize(mib * MIB) {
                    Ok(()) => assert_eq!(pool.budget(), mib * MIB),
                    Err(Error::Shrink { store, budget, .. }) => {
                        assert!(!file && store > mib * MIB / 4 * 3, "{store} of {mib} MiB");
                        assert_eq!(pool.budget(), budget);
                    }
                    Err(e) => panic!("{e}"),
                }
                assert!(pages_in_memory() <= pool.budget() / PAGE as u64);
            }
            assert_eq!(user.join().unwrap().lost, None);
        });
        let stats = pool.stats();
        assert_eq!(stats.failed_misses, 0, "{stats:?}");
        assert_eq!(pool.budget(), if file { 5 * MIB } else { 16 * MIB });
        let mut truth = vec![0; 24 * MIB as usize];
        noise(&mut truth, bytes);
        assert!(region.bytes() == truth);
    }
}

#[test]
fn what_is_promised_is_kept() {
    let _one = alone();
    let small = || PoolConfig::new(8 * MIB).swap(swap(8 * MIB));
    let Some(pool) = faulting(small()) else {
        return;
    };
    let region = pool.anonymous(13 * MIB as usize).unwrap();
    match pool.resize(4 * MIB) {
        Err(Error::Promised {
            promised,
            available,
            ..
        }) => {
            assert_eq!(promised, 13 * MIB);
            // Some of it is for pages on their way, and for tables.
            assert!((10 * MIB..12 * MIB).contains(&available), "{available}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        pool.anonymous(2 * MIB as usize),
        Err(Error::Overcommit { .. })
    ));
    pool.resize(16 * MIB).unwrap();
    let more = pool.anonymous(2 * MIB as usize).unwrap();
    drop((region, more));
    pool.resize(4 * MIB).unwrap();
    // Granted, because it is asked for.
    let pool = Pool::new(small().overcommit(true)).unwrap();
    let mut huge = pool.anonymous(1 << 40).unwrap();
    for at in (0..1usize << 40).step_by(1 << 32) {
        huge.bytes_mut()[at] = 5;
    }
    assert!((0..1usize << 40)
        .step_by(1 << 32)
        .all(|at| huge.bytes()[at] == 5));
    pool.resize(4 * MIB).unwrap();
}

/// What is promised to a region in one thread is promised while another makes the budget smaller: one of the two is refused.
#[test]
fn a_promise_and_a_smaller_budget_do_not_pass_each_other() {
    let _one = alone();
    let swap = SwapConfig::none().and_temporary(8 * MIB);
    let Some(pool) = faulting(PoolConfig::new(8 * MIB).swap(swap)) else {
        return;
    };
    let Err(Error::Overcommit { available, .. }) = pool.anonymous(1 << 30) else {
        panic!("more than there is has been promised");
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for mib in [4, 8].into_iter().cycle() {
                match pool.resize(mib * MIB) {
                    Ok(()) | Err(Error::Promised { .. }) => {}
                    Err(e) => panic!("{e}"),
                }
                if stop.load(Relaxed) {
                    return;
                }
            }
        });
        let end = Instant::now() + soak(1.5);
        let mut both = 0;
        while Instant::now() < end && both == 0 {
            if let Ok(region) = pool.anonymous(available as usize / PAGE * PAGE) {
                both += usize::from(pool.budget() < 8 * MIB);
                drop(region);
            }
        }
        stop.store(true, Relaxed);
        assert_eq!(both, 0, "a region has more than swap and the budget hold");
    });
}

/// Whoever uses more than was overcommitted ends with one line, not in a hang.
#[test]
fn more_than_swap_holds_is_sigbus_and_a_line() {
    const NAME: &str = "more_than_swap_holds_is_sigbus_and_a_line";
    if child::role().is_some() {
        let config = PoolConfig::new(4 * MIB).swap(SwapConfig::none().and_temporary(8 * MIB));
        let Some(pool) = faulting(config.overcommit(true)) else {
            return;
        };
        let mut region = pool.anonymous(64 * MIB as usize).unwrap();
        let mut r = Random::new(1);
        for page in region.bytes_mut().chunks_mut(PAGE) {
            page.chunks_mut(8)
                .for_each(|w| w.copy_from_slice(&r.next().to_le_bytes()));
        }
        unreachable!("64 MiB do not fit into 12");
    }
    let out = child::run(NAME, "filler");
    let text = child::text(&out);
    if !text.contains("skipped") {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(out.status.signal(), Some(libc::SIGBUS), "{text}");
        assert!(text.contains("swap is full"), "{text}");
    }
}

#[test]
fn a_share_is_of_the_cgroup_and_a_budget_fits_into_it() {
    const NAME: &str = "a_share_is_of_the_cgroup_and_a_budget_fits_into_it";
    if let Some(role) = child::role() {
        let config = match role.as_str() {
            "half" => PoolConfig::new(0).set("budget", "50%").unwrap(),
            _ => PoolConfig::new(1 << 30),
        };
        let Some(pool) = faulting(config.swap(swap(256 * MIB))) else {
            return;
        };
        let mut region = pool.anonymous(200 * MIB as usize).unwrap();
        for (i, page) in region.bytes_mut().chunks_mut(PAGE).enumerate() {
            page[..PAGE / 2].fill(i as u8);
        }
        println!("\nbudget {}", pool.budget());
        return;
    }
    let _one = alone();
    for (role, want) in [
        ("half", 32 * MIB),
        ("too much", (58 * MIB) / 21 * 20 / 4096 * 4096),
    ] {
        let group = match Cgroup::new() {
            Ok(g) => g,
            Err(why) => return println!("skipped: no memory cgroup can be made: {why}"),
        };
        group.set_limit(64 * MIB);
        let out = group.command(NAME, role).output().unwrap();
        let text = child::text(&out);
        if text.contains("skipped") {
            return;
        }
        // It has not been killed by the kernel.
        assert!(out.status.success(), "{role}: {:?} {text}", out.status);
        assert!(text.contains(&format!("budget {want}\n")), "{text}");
        assert_eq!(
            text.contains("does not fit into the memory cgroup"),
            role != "half",
            "{text}"
        );
    }
}

#[test]
fn shares_are_checked() {
    for text in ["0%", "101%", "-5%", "NaN%"] {
        assert!(
            matches!(
                PoolConfig::new(0).set("budget", text),
                Err(Error::Setting {
                    what: "the budget",
                    ..
                })
            ),
            "{text}"
        );
    }
    let e = PoolConfig::new(0).set("budget", "half%").unwrap_err();
    assert!(e.to_string().contains("50%"), "{e}");
    assert!(PoolConfig::share(0.25).is_ok() && PoolConfig::share(1.5).is_err());
}

/// The kernel's file, played by one of the test's.
#[test]
fn the_budget_shrinks_under_pressure_and_grows_back() {
    let _one = alone();
    let file = temp("pressure");
    let mut total = 0u64;
    let mut told = |more: u64| {
        total += more;
        let new = file.with_extension("new");
        let text = |t| format!("avg10=0.00 avg60=0.00 avg300=0.00 total={t}\n");
        std::fs::write(&new, format!("some {}full {}", text(total), text(0))).unwrap();
        std::fs::rename(new, &file).unwrap();
    };
    told(1);
    let config = PoolConfig::new(8 * MIB).swap(swap(64 * MIB));
    let config = config.pressure_from(&file, Duration::from_millis(10));
    let Some(pool) = faulting(config) else { return };
    let mut region = pool.anonymous(16 * MIB as usize).unwrap();
    region.bytes_mut().fill(3);
    let until = |what: &str, done: &dyn Fn() -> bool, act: &mut dyn FnMut()| {
        let start = std::time::Instant::now();
        while !done() {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "{what}: {}",
                pool.budget()
            );
            act();
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until("shrinks", &|| pool.budget() <= 2 * MIB, &mut || {
        told(1_000_000)
    });
    assert_eq!(pool.budget(), 2 * MIB);
    // It is known before what is over it has left.
    let fits = || pages_in_memory() <= 2 * MIB / PAGE as u64;
    until("evicts", &fits, &mut || ());
    assert!(region.bytes().iter().step_by(PAGE).all(|&b| b == 3));
    until("grows", &|| pool.budget() == 8 * MIB, &mut || ());
    std::fs::remove_file(&file).unwrap();
    let gone = PoolConfig::new(8 * MIB).pressure_from(&file, Duration::from_secs(1));
    let e = Pool::new(gone).unwrap_err();
    assert!(
        matches!(e, Error::Pressure { .. }) && e.to_string().contains("psi=1"),
        "{e}"
    );
}

/// Compressed contents that cannot go anywhere refuse a smaller budget, and nobody who evicts meanwhile finds that there is no
/// room for more of them.
#[test]
fn a_budget_that_is_refused_changes_nothing_for_those_who_evict() {
    let _one = alone();
    let config = PoolConfig::new(8 * MIB).swap(SwapConfig::lz4(64 * MIB));
    let Some(pool) = faulting(config) else { return };
    let region = pool.anonymous(10 * MIB as usize).unwrap();
    let stop = AtomicBool::new(false);
    let pages = region.len() / PAGE;
    // Half of each page does not compress.
    let mut r = Random::new(3);
    let store = |p: usize, k: usize, v: u64| {
        // SAFETY: in the region; each word is stored to by one thread at a time.
        unsafe {
            region
                .as_ptr()
                .add(p * PAGE + k * 8)
                .cast::<u64>()
                .write_volatile(v)
        }
    };
    (0..pages).for_each(|p| (0..256).for_each(|k| store(p, k, r.next())));
    std::thread::scope(|s| {
        for t in 0..2 {
            let (store, stop) = (&store, &stop);
            s.spawn(move || {
                let mut r = Random::new(7 + t as u64);
                while !stop.load(Relaxed) {
                    store(r.below(pages as u64) as usize, 300 + t, r.next());
                }
            });
        }
        for _ in 0..1000 {
            let refused = pool.resize(2 * MIB);
            assert!(matches!(refused, Err(Error::Shrink { .. })), "{refused:?}");
            std::thread::sleep(Duration::from_micros(300));
        }
        stop.store(true, Relaxed);
    });
    let s = pool.stats();
    assert_eq!((s.store_errors, s.failed_misses), (0, 0), "{s:?}");
    pool.sync().unwrap();
}
