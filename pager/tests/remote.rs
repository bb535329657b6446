//! Maps of remote objects, on OpenDAL's file system and in-memory services.
#![allow(unsafe_code, reason = "no core file for a death that is meant")]

mod common;

use coldset_pager::opendal::layers::{ChaosLayer, ConcurrentLimitLayer};
use coldset_pager::opendal::services::{Fs, Memory};
use coldset_pager::opendal::Operator;
use coldset_pager::store::{RemoteOptions, RemoteStorage, Storage};
use coldset_pager::{Error, FaultMode, Pool, PoolConfig};
use common::*;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Not a multiple of anything.
const LEN: usize = 9 * MIB as usize + 12_345;

fn contents() -> Vec<u8> {
    let mut r = Random::new(11);
    (0..LEN / 8 + 1)
        .flat_map(|_| r.next().to_ne_bytes())
        .take(LEN)
        .collect()
}

/// A folder with one object, as a service.
fn folder() -> (PathBuf, Operator) {
    let dir = temp("remote");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("object"), contents()).unwrap();
    let op = service(&dir);
    (dir, op)
}

fn service(dir: &Path) -> Operator {
    Operator::new(Fs::default().root(dir.to_str().unwrap())).unwrap()
}

fn in_memory() -> Operator {
    let op = Operator::new(Memory::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime
        .block_on(op.write("some/object", contents()))
        .unwrap();
    op
}

/// Nine times the budget, in order and at random, from several threads.
#[test]
fn an_object_larger_than_memory_is_mapped() {
    let _one = alone();
    let (dir, fs) = folder();
    let expected = contents();
    for (op, path) in [(fs, "object"), (in_memory(), "some/object")] {
        let Some(pool) = faulting(PoolConfig::new(MIB)) else {
            return;
        };
        let object = Arc::new(RemoteStorage::open(&op, path, RemoteOptions::default()).unwrap());
        assert_eq!(object.len(), LEN as u64);
        assert!(object.name().ends_with(path), "{}", object.name());
        let region = pool
            .root()
            .storage(object.clone(), LEN as u64, false)
            .unwrap();
        assert!(region.bytes() == expected, "in order");
        let (requests, bytes) = object.traffic();
        assert!(requests < 40, "{requests} requests for a scan");
        assert_eq!(bytes, LEN as u64, "each byte once");
        std::thread::scope(|s| {
            for t in 0..3 {
                let (region, expected) = (&region, &expected);
                s.spawn(move || {
                    let mut r = Random::new(t);
                    for _ in 0..2000 {
                        let at = r.below(LEN as u64) as usize;
                        assert_eq!(region.bytes()[at], expected[at], "byte {at}");
                    }
                });
            }
        });
        let s = pool.stats();
        assert!(s.evicted > 2000 && s.peak_pages <= s.budget_pages, "{s:?}");
        assert!(region.pin(0..1, true).is_err(), "read-only");
        assert!(object.write_at(&[1], 0).is_err());
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// Errors that may pass are tried again.
#[test]
fn a_service_that_fails_now_and_then_is_asked_again() {
    let op = in_memory().layer(ChaosLayer::new(0.3));
    // The layer draws from the system's entropy: a try opens and reads, so half of them fail, and
    // twelve in a row were seen to. Forty are 2^-40 a read.
    let options = RemoteOptions {
        retries: 40,
        ..RemoteOptions::default()
    };
    let object = RemoteStorage::open(&op, "some/object", options).unwrap();
    let mut back = vec![0; LEN];
    let mut done = 0;
    while done < LEN {
        let n = object.read_at(&mut back[done..], done as u64).unwrap();
        assert!(n > 0);
        done += n;
    }
    assert!(back == contents());
    let never = in_memory().layer(ChaosLayer::new(1.0));
    let options = RemoteOptions {
        retries: 1,
        ..RemoteOptions::default()
    };
    let object = RemoteStorage::open(&never, "some/object", options).unwrap();
    let failed = object.read_at(&mut back, 0).unwrap_err();
    assert!(failed.to_string().contains("some/object"), "{failed}");
}

/// A service that never answers is given up.
#[test]
fn a_service_that_hangs_is_an_error() {
    let nobody_may = in_memory().layer(ConcurrentLimitLayer::new(0));
    let options = RemoteOptions {
        timeout: Duration::from_millis(100),
        retries: 2,
        ..RemoteOptions::default()
    };
    let failed = RemoteStorage::open(&nobody_may, "some/object", options)
        .unwrap_err()
        .to_string();
    assert!(
        failed.contains("some/object") && failed.contains("timeout"),
        "{failed}"
    );
}

#[test]
fn a_missing_object_is_an_error_that_names_it() {
    let pool = Pool::new(PoolConfig::new(MIB).fault_mode(FaultMode::Explicit)).unwrap();
    let failed = pool
        .remote(&in_memory(), "not/there")
        .unwrap_err()
        .to_string();
    assert!(
        failed.contains("not/there") && failed.contains("NotFound"),
        "{failed}"
    );
}

/// In explicit mode errors are returned; the object's name and the reason are in them.
#[test]
fn a_changed_or_vanished_object_is_an_error() {
    let (dir, op) = folder();
    let file = dir.join("object");
    let options = RemoteOptions {
        kept: 0,
        retries: 1,
        ..RemoteOptions::default()
    };
    let fix = |change: &dyn Fn()| {
        let pool = Pool::new(PoolConfig::new(MIB).fault_mode(FaultMode::Explicit)).unwrap();
        let object = Arc::new(RemoteStorage::open(&op, "object", options).unwrap());
        let len = object.len();
        let region = pool.root().storage(object, len, false).unwrap();
        assert!(region.fix(3).unwrap()[..] == contents()[3 * PAGE..4 * PAGE]);
        change();
        let failed = region.fix(700).unwrap_err();
        assert!(matches!(failed, Error::Io { .. }), "{failed}");
        // What is in memory stays readable.
        assert!(region.fix(3).unwrap()[..] == contents()[3 * PAGE..4 * PAGE]);
        failed.to_string()
    };
    let longer = fix(&|| std::fs::write(&file, vec![1; LEN + 1]).unwrap());
    let how = format!("{LEN} bytes, now {}", LEN + 1);
    assert!(
        longer.contains("object has changed") && longer.contains(&how),
        "{longer}"
    );
    std::fs::write(&file, contents()).unwrap();
    let shorter = fix(&|| std::fs::write(&file, [1; 100]).unwrap());
    assert!(shorter.contains("has changed"), "{shorter}");
    std::fs::write(&file, contents()).unwrap();
    let same = fix(&|| {
        let f = std::fs::File::options().write(true).open(&file).unwrap();
        let then = std::time::SystemTime::now() - Duration::from_secs(1000);
        f.set_modified(then).unwrap();
    });
    assert!(
        same.contains("has changed") && same.contains("same size"),
        "{same}"
    );
    std::fs::write(&file, contents()).unwrap();
    let gone = fix(&|| std::fs::remove_file(&file).unwrap());
    assert!(
        gone.contains("object") && gone.contains("NotFound"),
        "{gone}"
    );
    std::fs::remove_dir_all(dir).unwrap();
}

/// A failing miss is SIGBUS, with the object's name on standard error.
#[test]
fn a_miss_that_fails_names_the_object() {
    const NAME: &str = "a_miss_that_fails_names_the_object";
    let Some(dir) = child::role() else {
        let (dir, _) = folder();
        let out = child::run(NAME, dir.to_str().unwrap());
        let text = child::text(&out);
        std::fs::remove_dir_all(dir).unwrap();
        if text.contains("skipped") {
            return;
        }
        assert_eq!(out.status.signal(), Some(libc::SIGBUS), "{text}");
        let told = text.contains("page 1500 of a file") && text.contains("/object");
        assert!(told && text.contains("NotFound"), "{text}");
        return;
    };
    let Some(pool) = faulting(PoolConfig::new(MIB)) else {
        return;
    };
    let region = pool.remote(&service(Path::new(&dir)), "object").unwrap();
    assert_eq!(region.bytes()[0], contents()[0]);
    std::fs::remove_file(Path::new(&dir).join("object")).unwrap();
    // SAFETY: only limits this process.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
    }
    std::hint::black_box(region.bytes()[1500 * PAGE]);
    unreachable!("the access cannot succeed");
}
