//! What errors say: the thing, and what to do about it.

use crate::common::*;
use coldset_pager::{Error, FaultMode, FlushConfig, MapOptions, Pool, PoolConfig, SwapConfig};
use std::path::Path;
use std::time::{Duration, Instant};

fn config() -> PoolConfig {
    PoolConfig::new(2 * MIB).fault_mode(FaultMode::Explicit)
}

/// A writable map of a file that has become too short for what was stored to it.
fn shortened(pool: &Pool, path: &Path) -> coldset_pager::Region {
    std::fs::write(path, vec![0; 4 * PAGE]).unwrap();
    let region = pool.file(path).unwrap();
    region.fix_mut(3).unwrap()[0] = 1;
    let f = std::fs::File::options().write(true).open(path).unwrap();
    f.set_len(PAGE as u64).unwrap();
    region
}

/// The error of a region's sync, of the pool's, and that which is left when the region has gone.
#[test]
fn a_sync_names_the_file() {
    let _others = together();
    let pool = Pool::new(config()).unwrap();
    let path = temp("sync names");
    let region = shortened(&pool, &path);
    let named = |e: Error, as_well: &str| {
        let told = e.to_string();
        let what = format!("writing the file {}", path.display());
        assert!(matches!(e, Error::Io { .. }), "{e:?}");
        assert!(
            told.starts_with(&what) && told.contains("shortened from"),
            "{told}"
        );
        assert!(told.contains(as_well), "{told}");
    };
    named(region.sync(0..region.len()).unwrap_err(), "");
    named(pool.sync().unwrap_err(), "");
    named(region.close().unwrap_err(), "");
    named(pool.sync().unwrap_err(), "no longer mapped");
    pool.sync().unwrap();
    std::fs::remove_file(path).unwrap();
}

/// So does an error of the flusher, which each handle is told later, and that of a read.
#[test]
fn errors_that_come_later_and_reads_name_the_file() {
    let _others = together();
    let flush = FlushConfig {
        interval: Duration::from_millis(1),
        expire: Duration::from_millis(1),
        ..FlushConfig::default()
    };
    let pool = Pool::new(config().flush(flush)).unwrap();
    let path = temp("later");
    let region = shortened(&pool, &path);
    let since = Instant::now();
    while pool.stats().store_errors == 0 {
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "the flusher sleeps"
        );
        std::thread::sleep(Duration::from_millis(1));
        // It may have been written before the file was shortened.
        region.fix_mut(3).unwrap()[0] ^= 1;
    }
    // From here on writes succeed.
    let f = std::fs::File::options().write(true).open(&path).unwrap();
    f.set_len(4 * PAGE as u64).unwrap();
    let name = path.display().to_string();
    for told in [region.sync(0..region.len()), pool.sync()] {
        let told = told.unwrap_err().to_string();
        assert!(
            told.contains(&format!("writing the file {name}: ")),
            "{told}"
        );
    }
    f.set_len(PAGE as u64).unwrap();
    let told = region.fix(2).unwrap_err().to_string();
    assert!(
        told.contains(&format!("reading the file {name}: ")),
        "{told}"
    );
    f.set_len(4 * PAGE as u64).unwrap();
    drop(region);
    std::fs::remove_file(path).unwrap();
}

/// Sizes of files that are made while they are read mean nothing: the first access would find the file shortened.
#[test]
fn a_file_that_the_kernel_does_not_map_is_refused() {
    let _others = together();
    let pool = Pool::new(config()).unwrap();
    for path in [
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/proc/self/status",
    ] {
        if !Path::new(path).exists() {
            continue;
        }
        let e = pool.file_read_only(path).unwrap_err();
        let told = e.to_string();
        let Error::File { errno, .. } = e else {
            panic!("{e:?}");
        };
        assert_eq!(errno, libc::ENODEV, "{told}");
        assert!(
            told.contains(path) && told.contains("does not support mapping"),
            "{told}"
        );
    }
}

/// Where there is no memory, by the group's path, and what to do about a pin that is too large.
#[test]
fn no_memory_names_the_group_and_the_pin() {
    let _others = together();
    let Some(pool) = faulting(PoolConfig::new(2 * MIB).swap(SwapConfig::lz4(16 * MIB))) else {
        return;
    };
    let limits = coldset_pager::Limits::new().max(MIB / 2);
    let group = pool.group("outer", coldset_pager::Limits::new()).unwrap();
    let group = group.group("inner", limits).unwrap();
    let region = group.anonymous(MIB as usize).unwrap();
    let told = region.pin(0..region.len(), true).unwrap_err().to_string();
    assert!(
        told.contains("in the group /outer/inner:") && told.contains("pin one part at a time"),
        "{told}"
    );
    let region = pool.anonymous(4 * MIB as usize).unwrap();
    let told = region.pin(0..region.len(), true).unwrap_err().to_string();
    assert!(told.contains("in the pool:"), "{told}");
}

/// `shared` is no remedy there.
#[test]
fn swap_and_journals_are_not_to_be_mapped_as_shared() {
    const NAME: &str = "swap_and_journals_are_not_to_be_mapped_as_shared";
    let _others = together();
    let maps = |pool: &Pool, path: &Path| {
        let all = [
            MapOptions::new(),
            MapOptions::new().write(true),
            MapOptions::new().shared(true),
            MapOptions::new().write(true).shared(true),
        ];
        for o in all {
            let e = pool.root().file_with(path, o).unwrap_err();
            assert!(matches!(e, Error::InUse { .. }), "{e:?}");
            let told = e.to_string();
            assert!(told.contains(&path.display().to_string()), "{told}");
            assert!(
                told.contains("not even as shared: name another file"),
                "{told}"
            );
        }
    };
    if let Some(paths) = child::role() {
        // Another process is told the same.
        let pool = Pool::new(config()).unwrap();
        paths.split(':').for_each(|p| maps(&pool, Path::new(p)));
        return;
    }
    let (swap, journal) = (temp("swap"), temp("journal"));
    let pool = Pool::new(
        config()
            .swap(SwapConfig::file(&swap, MIB))
            .journal(&journal),
    )
    .unwrap();
    maps(&pool, &swap);
    maps(&pool, &journal);
    let paths = format!("{}:{}", swap.display(), journal.display());
    let out = child::run(NAME, &paths);
    assert!(out.status.success(), "{}", child::text(&out));
    // Of a map, it still is one.
    let path = temp("mapped");
    std::fs::write(&path, [0; PAGE]).unwrap();
    let map = pool.file(&path).unwrap();
    let told = pool.file(&path).unwrap_err().to_string();
    assert!(told.contains("map all of them as shared"), "{told}");
    drop((map, pool));
    for path in [swap, journal, path] {
        std::fs::remove_file(path).unwrap();
    }
}

/// An address for metrics that is none, or that is taken, from the program and from outside.
#[cfg(feature = "metrics")]
#[test]
fn a_bad_address_for_metrics() {
    const NAME: &str = "a_bad_address_for_metrics";
    let _others = together();
    if child::role().is_some() {
        // Only the environment asks: a line, and a pool.
        let pool = Pool::new(config()).unwrap();
        assert_eq!(pool.metrics_address(), None);
        return;
    }
    let from_outside = |address: &str| {
        let mut c = child::command(NAME, "child");
        let out = c.env("COLDSET_METRICS", address).output().unwrap();
        let text = child::text(&out);
        assert!(out.status.success(), "{text}");
        let line = text.lines().find(|l| l.starts_with("coldset: "));
        line.unwrap_or_else(|| panic!("{text}")).to_string()
    };
    for bad in ["9100", "127.0.0.1:", "127.0.0.1:99999", "http://a:1", ":x"] {
        let told = from_outside(bad);
        let what = format!("COLDSET_METRICS is {bad:?} (");
        assert!(told.contains(&what), "{told}");
        assert!(
            told.contains("write HOST:PORT, for example 127.0.0.1:9100"),
            "{told}"
        );
        let e = Pool::new(config().metrics(bad)).unwrap_err();
        assert!(matches!(e, Error::Setting { .. }), "{e:?}");
        let what = format!("the address for metrics is {bad:?} (");
        assert!(e.to_string().contains(&what), "{e}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let told = from_outside(&address);
    let what = format!("listening for Prometheus at {address:?} (COLDSET_METRICS): ");
    assert!(
        told.contains(&what) && !told.contains("HOST:PORT"),
        "{told}"
    );
}
