//! A journal replayed without memory gives up the same pages in the same order.

#![allow(unsafe_code, reason = "a limit of the process, for a full disk")]

use crate::common::*;
use coldset_pager::journal::{accesses, is_journal, replay, JournalError, Replayed};
use coldset_pager::{Error, FaultMode, FlushConfig, Limits, Pool, PoolConfig, SwapConfig};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

/// What is recorded.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// The pool's whole life.
    Whole,
    /// From somewhere in the middle to somewhere before the end, with everybody at work.
    Middle,
}

/// Records three threads on anonymous memory and two on a file, with a flusher, syncs, and changing
/// limits. Returns the least and the most pages that were evicted meanwhile; none if the machine cannot.
fn record(journal: &Path, policy: &str, mode: FaultMode, part: Part) -> Option<(u64, u64)> {
    let (budget, flush) = (
        4 * MIB,
        FlushConfig {
            interval: Duration::from_millis(20),
            expire: Duration::from_millis(60),
            ..FlushConfig::default()
        },
    );
    let config = PoolConfig::new(budget)
        .policy(policy)
        .unwrap()
        .swap(SwapConfig::lz4(64 * MIB))
        .flush(flush)
        .fault_mode(mode);
    let config = match part {
        Part::Whole => config.journal(journal),
        Part::Middle => config,
    };
    let pool: Pool = faulting(config)?;
    let file = temp("journal-file");
    std::fs::File::create(&file)
        .unwrap()
        .set_len(6 * MIB)
        .unwrap();
    let group = pool.group("a", Limits::new().high(3 * MIB)).unwrap();
    let anon = group.anonymous(8 * MIB as usize).unwrap();
    let map = pool.group("b", Limits::new()).unwrap().file(&file).unwrap();
    let stop = AtomicBool::new(false);
    let mut evicted = (0, 0);
    let how = match mode {
        FaultMode::Explicit => Access::Guards,
        _ => Access::Faulting,
    };
    std::thread::scope(|s| {
        let meddler = s.spawn(|| {
            meddle(&group, budget, &stop, &|r| {
                if how == Access::Faulting && r % 2 == 0 {
                    pool.sync().unwrap();
                }
            })
        });
        let b = s.spawn(|| stress(&map, how, 2, soak(2.0), 30));
        let middle = s.spawn(|| {
            if part == Part::Whole {
                return (0, 0);
            }
            std::thread::sleep(soak(2.0) / 4);
            // Threads go on while this one waits for its CPU between two calls.
            let before = pool.stats().evicted;
            pool.record(journal).unwrap();
            let again = pool.record(journal).unwrap_err();
            assert!(matches!(again, Error::Mode(_)), "{again}");
            let from = pool.stats().evicted;
            std::thread::sleep(soak(2.0) / 2);
            let least = pool.stats().evicted - from;
            pool.stop_recording().unwrap();
            let most = pool.stats().evicted - before;
            assert!(matches!(pool.stop_recording(), Err(Error::Mode(_))));
            (least, most)
        });
        let a = stress(&anon, how, 3, soak(2.0), 50);
        assert_eq!((a.lost, a.errors), (None, 0));
        assert_eq!(b.join().unwrap().lost, None);
        evicted = middle.join().unwrap();
        stop.store(true, Relaxed);
        meddler.join().unwrap();
    });
    drop((anon, map));
    std::fs::remove_file(file).unwrap();
    if part == Part::Whole {
        let all = pool.stats().evicted;
        evicted = (all, all);
    }
    drop((group, pool));
    Some(evicted)
}

fn reproduce(policy: &str, mode: FaultMode, part: Part) {
    let _one = alone();
    let journal = temp("journal");
    let Some((least, most)) = record(&journal, policy, mode, part) else {
        return;
    };
    let bytes = std::fs::metadata(&journal).unwrap().len();
    assert!(is_journal(&journal).unwrap());
    let r = replay(&journal).unwrap();
    let victims = r.victims.len() as u64;
    println!(
        "{policy}, {mode:?}: {} operations in {bytes} bytes, {} requests and {victims} victims as recorded",
        r.operations, r.requests,
    );
    assert!(least > 500 && !r.truncated);
    match part {
        Part::Whole => assert_eq!(victims, least, "each page evicted, and no other"),
        // Pages on their way out when the figures were read.
        Part::Middle => assert!(
            victims + 5 * 256 > least && victims < most + 5 * 256,
            "{least} {victims} {most}"
        ),
    }
    assert!(r.victims.iter().any(|v| v.region == 1) && r.victims.iter().any(|v| v.region == 2));
    shows_accesses(&journal, &r, part);
    if part == Part::Whole {
        damage(&journal);
    }
    std::fs::remove_file(journal).unwrap();
}

/// The stream of accesses is of the pages that there are, and misses are those that came in.
fn shows_accesses(journal: &Path, r: &Replayed, part: Part) {
    let a = accesses(journal).unwrap();
    assert_eq!(a.replayed, *r);
    assert_eq!((a.budget, a.regions.len()), (4 * MIB / 4096, 2));
    assert!(a.regions[0].anonymous && !a.regions[1].anonymous);
    assert_eq!([a.regions[0].pages, a.regions[1].pages], [2048, 1536]);
    let names = [a.regions[0].group, a.regions[1].group];
    assert_eq!((a.groups.len(), names), (3, [1, 2]));
    assert_eq!(a.groups[0].max, Some(a.budget));
    assert_eq!(a.groups[1].high, Some(768));
    let inside =
        |x: &coldset_pager::journal::Access| u64::from(x.page) < a.regions[x.region as usize].pages;
    assert!(a.accesses.iter().all(inside));
    let stores = a.accesses.iter().filter(|x| x.store && x.region == 1);
    assert!(stores.count() > 100, "stores to the file are seen");
    let misses = a.misses();
    let victims = r.victims.len() as u64;
    let hits = a.accesses.len() as u64 - misses - a.resident_before;
    assert!(misses > 500 && hits > 500, "{misses} {hits}");
    // What leaves has come in: by a miss, by read-ahead, or before.
    assert_eq!(a.resident_before > 0, part == Part::Middle);
    assert!(victims <= 32 * misses + a.resident_before);
}

/// The comparison can fail: with another policy in the header, with a page that was not given up,
/// with an end in the middle.
fn damage(journal: &Path) {
    let mut plain = Vec::new();
    let f = std::fs::File::open(journal).unwrap();
    zstd::Decoder::new(f)
        .unwrap()
        .read_to_end(&mut plain)
        .unwrap();
    let header = plain.windows(2).position(|w| w == b"\n\n").unwrap();
    let text = std::str::from_utf8(&plain[..header]).unwrap();
    let tampered = temp("tampered");
    let write = |contents: &[&[u8]]| {
        let f = std::fs::File::create(&tampered).unwrap();
        let mut z = zstd::Encoder::new(f, 1).unwrap();
        contents.iter().for_each(|c| z.write_all(c).unwrap());
        z.finish().unwrap();
        replay(&tampered)
    };
    assert!(write(&[&plain]).is_ok());
    let own = text
        .lines()
        .find(|l| l.starts_with("switch policy="))
        .unwrap();
    let swapped = match own {
        "switch policy=classic" => "switch policy=mglru",
        _ => "switch policy=classic",
    };
    let other = text.replace(own, swapped);
    assert_ne!(other, text);
    let e = write(&[other.as_bytes(), &plain[header..]]).unwrap_err();
    assert!(matches!(e, JournalError::Diverged { .. }), "{e}");
    let e = write(&[b"nonsense\n\n", &plain[header..]]).unwrap_err();
    assert!(matches!(e, JournalError::Format(_)), "{e}");
    std::fs::remove_file(&tampered).unwrap();
    // Format 3 had another layout of the state, which it may begin with.
    let older = text.replace("coldset-journal 4", "coldset-journal 3") + "\nstate 9";
    let e = write(&[older.as_bytes(), &plain[header..]]).unwrap_err();
    assert!(matches!(&e, JournalError::Version(v) if v == "3"), "{e}");
    let text = e.to_string();
    assert!(
        text.contains("format 3") && text.contains("record it again"),
        "{text}"
    );
    // A page given up that was not: the last victim's numbers.
    let e = write(&[&plain[..plain.len() - 1], &[0xFF]]).unwrap_err();
    assert!(matches!(e, JournalError::Damaged(_)), "{e}");
    // A file cut short, as SIGKILL leaves it: all that is whole, and it is said.
    let whole = std::fs::read(journal).unwrap();
    let all = replay(journal).unwrap();
    for part in [2, 3, 10] {
        std::fs::write(&tampered, &whole[..whole.len() * (part - 1) / part]).unwrap();
        let r = replay(&tampered).unwrap();
        assert!(r.truncated && r.operations > 0 && r.operations < all.operations);
        assert_eq!(r.victims, all.victims[..r.victims.len()]);
    }
    std::fs::write(&tampered, &whole[..20]).unwrap();
    assert!(matches!(replay(&tampered), Err(JournalError::Format(_))));
    // A byte that is not what was written.
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0x10;
    std::fs::write(&tampered, &flipped).unwrap();
    let e = replay(&tampered).unwrap_err();
    assert!(matches!(e, JournalError::Damaged(_)), "{e}");
    std::fs::remove_file(tampered).unwrap();
}

#[test]
fn v5_is_reproduced() {
    reproduce("v5", FaultMode::Sigbus, Part::Whole);
}

#[test]
fn classic_is_reproduced_from_the_middle() {
    reproduce("classic", FaultMode::Sigbus, Part::Middle);
}

#[test]
fn v5_is_reproduced_from_the_middle() {
    reproduce("v5", FaultMode::Sigbus, Part::Middle);
}

#[test]
fn guards_are_reproduced() {
    reproduce("merged", FaultMode::Explicit, Part::Whole);
}

#[test]
fn guards_are_reproduced_from_the_middle() {
    reproduce("base", FaultMode::Explicit, Part::Middle);
}

/// Policies of the literature, one with ghosts and one whose hand must be where it was.
#[test]
fn arc_is_reproduced() {
    reproduce("arc", FaultMode::Explicit, Part::Whole);
}

#[test]
fn sieve_is_reproduced_from_the_middle() {
    reproduce("sieve", FaultMode::Sigbus, Part::Middle);
}

/// Three pages of each 32, in order, so that others are read ahead: a journal knows the three and no others, and the
/// policy has not been told of others either.
#[test]
fn what_was_only_read_ahead_has_not_been_used() {
    const PAGES: usize = 4096;
    let touched = |p: usize| p % 32 < 3;
    for policy in ["v5", "classic"] {
        let (journal, file) = (temp("ahead-journal"), temp("ahead-file"));
        let made = std::fs::File::create(&file).unwrap();
        made.set_len((PAGES * 4096) as u64).unwrap();
        let config = PoolConfig::new(4 * MIB).policy(policy).unwrap();
        let config = config.swap(SwapConfig::lz4(64 * MIB)).journal(&journal);
        let Some(pool) = faulting(config) else {
            return;
        };
        let map = pool.file(&file).unwrap();
        let anon = pool.anonymous(PAGES * 4096).unwrap();
        for region in [&map, &anon] {
            for _ in 0..2 {
                for p in (0..PAGES).filter(|&p| touched(p)) {
                    // SAFETY: inside the region, and nobody else uses it.
                    unsafe { region.as_ptr().add(p * 4096).write_volatile(1) };
                }
            }
        }
        let stats = pool.stats();
        assert!(
            stats.filled > stats.misses * 3 / 2,
            "pages have been read ahead: {stats:?}"
        );
        drop((map, anon, pool));
        let seen = accesses(&journal).unwrap().accesses;
        let others = seen.iter().filter(|a| !touched(a.page as usize)).count();
        assert_eq!(others, 0, "{policy}: of {} accesses", seen.len());
        std::fs::remove_file(journal).unwrap();
        std::fs::remove_file(file).unwrap();
    }
}

/// A program that only reads has no stores in its journal, however often a flusher looks for them: a place whose page is just
/// coming in carries the mark of one that has been stored to.
#[test]
fn what_is_only_read_has_not_been_stored_to() {
    const PAGES: u64 = 4096;
    let _one = alone();
    let (journal, file) = (temp("read-journal"), temp("read-file"));
    let made = std::fs::File::create(&file).unwrap();
    made.set_len(PAGES * 4096).unwrap();
    let flush = FlushConfig {
        interval: Duration::from_micros(100),
        ..FlushConfig::default()
    };
    let config = PoolConfig::new(4 * MIB).flush(flush).journal(&journal);
    let Some(pool) = faulting(config) else { return };
    let map = pool.file(&file).unwrap();
    let mut r = Random::new(1);
    for _ in 0..20_000 {
        let p = r.below(PAGES) as usize;
        // SAFETY: inside the region, and nobody stores to it.
        unsafe { map.as_ptr().add(p * 4096).read_volatile() };
    }
    assert_eq!(pool.stats().written_back, 0);
    drop((map, pool));
    let seen = accesses(&journal).unwrap().accesses;
    let stores = seen.iter().filter(|a| a.store).count();
    assert_eq!(stores, 0, "of {} accesses", seen.len());
    std::fs::remove_file(journal).unwrap();
    std::fs::remove_file(file).unwrap();
}

/// A pool in explicit mode and a walk through more than fits.
fn walked(pool: &Pool, rounds: usize) {
    let region = pool.anonymous(3 * MIB as usize).unwrap();
    for _ in 0..rounds {
        (0..768).for_each(|p| region.fix_mut(p).unwrap()[p] += 1);
    }
    let sum: usize = (0..768).map(|p| region.fix(p).unwrap()[p] as usize).sum();
    assert_eq!(sum, 768 * rounds);
}

fn explicit() -> Pool {
    let config = PoolConfig::new(MIB).fault_mode(FaultMode::Explicit);
    Pool::new(config.swap(SwapConfig::lz4(16 * MIB))).unwrap()
}

/// The pool goes on, and the error is told where the journal is ended.
#[test]
fn a_full_disk_ends_the_journal_only() {
    const NAME: &str = "a_full_disk_ends_the_journal_only";
    if child::role().is_none() {
        // The limit is the whole process's.
        let out = child::run(NAME, "limited");
        assert!(out.status.success(), "{}", child::text(&out));
        return;
    }
    let limit = |bytes| {
        // SAFETY: a limit of this process, and a signal that is to be an error instead.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let mut l = std::mem::zeroed();
            libc::getrlimit(libc::RLIMIT_FSIZE, &mut l);
            l.rlim_cur = l.rlim_max.min(bytes);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &l), 0);
        }
    };
    let pool = explicit();
    let full = temp("full");
    limit(1);
    pool.record(&full).unwrap();
    walked(&pool, 10);
    let e = pool.stop_recording().unwrap_err();
    assert!(e.to_string().contains("File too large"), "{e}");
    limit(u64::MAX);
    assert_eq!(
        std::fs::metadata(&full).unwrap().len(),
        0,
        "no part of a frame"
    );
    std::fs::remove_file(full).unwrap();
    // And another one can be kept afterwards.
    let journal = temp("after");
    pool.record(&journal).unwrap();
    walked(&pool, 2);
    pool.stop_recording().unwrap();
    let r = replay(&journal).unwrap();
    assert!(!r.truncated && r.from_state && r.victims.len() > 512);
    std::fs::remove_file(journal).unwrap();
    let e = pool.record("/nowhere/journal").unwrap_err();
    assert!(e.to_string().contains("No such file"), "{e}");
    walked(&pool, 1);
}

/// A file that may not grow beyond 128 KiB: what is in it is whole, and is replayed.
#[test]
fn what_fits_on_a_full_disk_is_replayed() {
    const NAME: &str = "what_fits_on_a_full_disk_is_replayed";
    let _others = together();
    if child::role().is_some() {
        let journal = std::env::var("JOURNAL").unwrap();
        let pool = explicit();
        pool.record(&journal).unwrap();
        let limit = libc::rlimit {
            rlim_cur: 128 << 10,
            rlim_max: 128 << 10,
        };
        // SAFETY: a limit of this process, and a signal that is to be an error instead.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
        }
        let mut rounds = 0;
        while std::fs::metadata(&journal).unwrap().len() < 16 << 10 && rounds < 100 {
            walked(&pool, 5);
            rounds += 1;
        }
        let before = rounds;
        while pool.stats().evicted < 20_000 && rounds < before + 100 {
            walked(&pool, 5);
            rounds += 1;
        }
        assert!(pool.stop_recording().is_err());
        return;
    }
    let journal = temp("full");
    let out = child::command(NAME, "recorder")
        .env("JOURNAL", &journal)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", child::text(&out));
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(said.matches("is not complete").count(), 1, "{said}");
    let r = replay(&journal).unwrap();
    assert!(r.truncated && r.victims.len() > 512, "{}", r.operations);
    std::fs::remove_file(journal).unwrap();
}

/// SIGKILL loses the last moments of a journal.
#[test]
fn the_journal_of_a_killed_program_is_replayed() {
    const NAME: &str = "the_journal_of_a_killed_program_is_replayed";
    let _others = together();
    if child::role().is_some() {
        let pool = explicit();
        loop {
            walked(&pool, 10);
        }
    }
    let journal = temp("killed");
    let mut child = child::command(NAME, "recorder")
        .env("COLDSET_JOURNAL", &journal)
        .spawn()
        .unwrap();
    let written = || std::fs::metadata(&journal).map_or(0, |m| m.len());
    // Enough for more than the pages that fit into the budget.
    while written() < 80_000 {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let r = replay(&journal).unwrap();
    assert!(r.truncated && r.victims.len() > 1000, "{}", r.operations);
    std::fs::remove_file(journal).unwrap();
}

/// The variable names the journal of the first pool, and with a number those of others.
#[test]
fn a_journal_can_be_asked_for_from_outside() {
    const NAME: &str = "a_journal_can_be_asked_for_from_outside";
    let _others = together();
    if child::role().is_some() {
        for _ in 0..2 {
            let config = PoolConfig::new(MIB).fault_mode(FaultMode::Explicit);
            let pool = Pool::new(config.swap(SwapConfig::lz4(8 * MIB))).unwrap();
            let region = pool.anonymous(2 * MIB as usize).unwrap();
            (0..512).for_each(|p| region.fix_mut(p).unwrap()[0] = 1);
        }
        return;
    }
    let journal = temp("asked");
    let out = child::command(NAME, "recorder")
        .env("COLDSET_JOURNAL", &journal)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", child::text(&out));
    let mut second = journal.clone().into_os_string();
    second.push(".2");
    for path in [journal, second.into()] {
        let r = replay(&path).unwrap();
        let found = (r.victims.len(), r.truncated, r.from_state);
        assert!(found.0 >= 256 && !r.truncated && !r.from_state, "{found:?}");
        std::fs::remove_file(path).unwrap();
    }
}
