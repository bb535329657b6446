//! A journal replayed without memory gives up the same pages in the same order.

mod common;

use coldset_pager::journal::{replay, JournalError};
use coldset_pager::{FaultMode, FlushConfig, Limits, Pool, PoolConfig, SwapConfig};
use common::*;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

/// Records three threads on anonymous memory and two on a file, with a flusher, syncs, and changing
/// limits. Returns pages evicted; none if the machine cannot.
fn record(journal: &Path, policy: &str, mode: FaultMode) -> Option<u64> {
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
        .fault_mode(mode)
        .journal(journal);
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
        let a = stress(&anon, how, 3, soak(2.0), 50);
        assert_eq!((a.lost, a.errors), (None, 0));
        assert_eq!(b.join().unwrap().lost, None);
        stop.store(true, Relaxed);
        meddler.join().unwrap();
    });
    drop((anon, map));
    std::fs::remove_file(file).unwrap();
    let evicted = pool.stats().evicted;
    drop((group, pool));
    Some(evicted)
}

fn reproduce(policy: &str, mode: FaultMode) {
    let _one = alone();
    let journal = temp("journal");
    let Some(evicted) = record(&journal, policy, mode) else {
        return;
    };
    let bytes = std::fs::metadata(&journal).unwrap().len();
    let r = replay(&journal).unwrap();
    println!(
        "{policy}, {mode:?}: {} operations in {bytes} bytes, {} requests and {} victims as recorded",
        r.operations,
        r.requests,
        r.victims.len()
    );
    assert!(evicted > 1000);
    assert_eq!(
        r.victims.len() as u64,
        evicted,
        "each page evicted, and no other"
    );
    assert!(r.victims.iter().any(|v| v.region == 1) && r.victims.iter().any(|v| v.region == 2));
    damage(&journal);
    std::fs::remove_file(journal).unwrap();
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
    let other = if text.contains("switch policy=classic") {
        text.replace("switch policy=classic", "switch policy=mglru")
    } else {
        text.replace("switch policy=mglru", "switch policy=classic")
    };
    assert_ne!(other, text);
    let e = write(&[other.as_bytes(), &plain[header..]]).unwrap_err();
    assert!(matches!(e, JournalError::Diverged { .. }), "{e}");
    let e = write(&[b"nonsense\n\n", &plain[header..]]).unwrap_err();
    assert!(matches!(e, JournalError::Format(_)), "{e}");
    std::fs::remove_file(&tampered).unwrap();
    // A file cut short, as SIGKILL leaves it.
    let whole = std::fs::read(journal).unwrap();
    std::fs::write(&tampered, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(replay(&tampered), Err(JournalError::Io(_))));
    std::fs::remove_file(tampered).unwrap();
}

#[test]
fn v5_is_reproduced() {
    reproduce("v5", FaultMode::Sigbus);
}

#[test]
fn classic_is_reproduced() {
    reproduce("classic", FaultMode::Sigbus);
}

#[test]
fn guards_are_reproduced() {
    reproduce("merged", FaultMode::Explicit);
}

/// The variable names the journal of the first pool, and with a number those of others.
#[test]
fn a_journal_can_be_asked_for_from_outside() {
    const NAME: &str = "a_journal_can_be_asked_for_from_outside";
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
        assert!(replay(&path).unwrap().victims.len() >= 256);
        std::fs::remove_file(path).unwrap();
    }
}
