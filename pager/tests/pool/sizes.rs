//! Sizes, offsets and counts that no machine has: one error each, which names the value and the limit. With overflow
//! checks, as tests are built, anything else is a panic.

use crate::common::*;
use coldset_pager::store::{FileStorage, Storage};
use coldset_pager::{Advice, Error, FaultMode, Limits, MapOptions, Pool, PoolConfig, SwapConfig};
use std::sync::Arc;

/// As much as a region, a budget or a swap may have.
const MOST: u64 = (1 << 44) - 2 * PAGE as u64;
const LARGE: [u64; 5] = [u64::MAX, u64::MAX - 4095, 1 << 63, 1 << 44, MOST + 1];

fn config() -> PoolConfig {
    PoolConfig::new(2 * MIB)
        .swap(SwapConfig::lz4(16 * MIB))
        .fault_mode(FaultMode::Explicit)
}

/// Names the value, and the most there may be.
fn refused<T: std::fmt::Debug>(r: Result<T, Error>, value: u64) {
    let e = r.unwrap_err();
    assert!(matches!(e, Error::Setting { .. }), "{e:?}");
    let told = e.to_string();
    let (value, most) = (format!("{value} bytes"), format!("{MOST} bytes"));
    assert!(told.contains(&value) && told.contains(&most), "{told}");
}

#[test]
fn regions() {
    let _others = together();
    let pools = [config(), config().overcommit(true)].map(|c| Pool::new(c).unwrap());
    let path = temp("sizes");
    std::fs::write(&path, [7; 5]).unwrap();
    let file = Arc::new(FileStorage::open(&path, true).unwrap());
    for pool in &pools {
        for size in LARGE {
            refused(pool.anonymous(size as usize), size);
            refused(pool.root().storage(file.clone(), size, false), size);
            for empty in [false, true] {
                let grow = MapOptions::new().write(true).empty(empty).grow_to(size);
                refused(pool.root().file_with(&path, grow), size);
            }
        }
        refused(pool.anonymous(0), 0);
        refused(pool.root().storage(file.clone(), 0, false), 0);
    }
    let e = pools[0].anonymous(MOST as usize).unwrap_err();
    assert!(matches!(e, Error::Overcommit { asked: MOST, .. }), "{e:?}");
    assert_eq!(
        std::fs::read(&path).unwrap(),
        [7; 5],
        "nothing has become of it"
    );
    std::fs::remove_file(path).unwrap();
}

#[test]
fn budgets_and_swap() {
    let _others = together();
    let pool = Pool::new(config()).unwrap();
    let region = pool.anonymous(4 * MIB as usize).unwrap();
    for size in LARGE {
        refused(pool.resize(size), size);
        assert_eq!(pool.budget(), 2 * MIB);
        refused(Pool::new(PoolConfig::new(size)), size);
        for swap in [
            SwapConfig::lz4(size),
            SwapConfig::zstd(size),
            SwapConfig::lz4(MIB).and_temporary(size),
            SwapConfig::file(temp("never"), size),
        ] {
            refused(Pool::new(config().swap(swap)), size);
        }
        let swap = SwapConfig::lz4(16 * MIB).memory_limit(size);
        let pool = Pool::new(config().swap(swap)).unwrap();
        let r = pool.anonymous(4 * MIB as usize).unwrap();
        (0..1024).for_each(|p| r.fix_mut(p).unwrap()[0] = 1);
        for n in [usize::MAX, usize::MAX - 4095, 1 << 63] {
            for c in [
                config().batch(n),
                config().read_ahead(n),
                config().handler_threads(n),
            ] {
                let told = Pool::new(c).unwrap_err().to_string();
                assert!(told.contains(&n.to_string()), "{told}");
            }
        }
    }
    pool.resize(MOST).unwrap();
    assert_eq!(pool.budget(), MOST);
    // Also what is promised beside the largest budget.
    drop(pool.anonymous(64 * MIB as usize).unwrap());
    (0..1024).for_each(|p| region.fix_mut(p).unwrap()[0] = 1);
    let s = pool.snapshot();
    assert_eq!((s.budget_bytes, pool.stats().resident_pages), (MOST, 1024));
    pool.resize(2 * MIB).unwrap();
    pool.check();
}

/// A limit is as large as it likes; more than there is can be asked for.
#[test]
fn limits_and_reclaim() {
    let _others = together();
    let pool = Pool::new(config().background(false)).unwrap();
    for (n, size) in LARGE.into_iter().enumerate() {
        let all = Limits::new().min(size).low(size).high(size).max(size);
        let group = pool.group(&n.to_string(), all).unwrap();
        let region = group.anonymous(MIB as usize).unwrap();
        (0..256).for_each(|p| region.fix_mut(p).unwrap()[0] = 1);
        // Charges come many pages at a time.
        assert!((MIB..2 * MIB).contains(&group.usage()), "{}", group.usage());
        group.set(Limits::new().min(0).low(0)).unwrap();
        let freed = group.reclaim(size).unwrap();
        let left = region.resident(0..region.len()).unwrap() * PAGE;
        assert!(
            freed > 0 && freed + left as u64 == MIB,
            "{freed} and {left}"
        );
        group.set(all).unwrap();
        pool.snapshot();
    }
    pool.check();
}

/// Of both at once, one is a mistake. One after the other, as a kernel's files are written, they may cross for a while.
#[test]
fn a_min_above_the_max_is_refused_where_both_are_set() {
    let _others = together();
    let pool = Pool::new(config().background(false)).unwrap();
    let mixed_up = Limits::new().min(2 * MIB).max(MIB);
    let refused = pool.group("a", mixed_up).unwrap_err().to_string();
    assert!(
        refused.contains("min of a group is 2097152 bytes"),
        "{refused}"
    );
    // Nothing is left of it.
    let group = pool.group("a", Limits::new().min(MIB).max(MIB)).unwrap();
    assert!(group.set(mixed_up).is_err());
    group.set(Limits::new().max(MIB / 2)).unwrap();
    group.set(Limits::new().min(u64::MAX).max(MIB)).unwrap();
}

#[test]
fn ranges_and_pages() {
    let _others = together();
    let explicit = Pool::new(config()).unwrap();
    let faults = faulting(config().fault_mode(FaultMode::Sigbus));
    let ends = [usize::MAX, usize::MAX - 4095, 1 << 63, 5 * PAGE + 1];
    for pool in [Some(explicit), faults].into_iter().flatten() {
        let region = pool.anonymous(5 * PAGE).unwrap();
        let ranges = ends
            .iter()
            .flat_map(|&e| [0..e, e..e, e - 1..e, e..usize::MAX, e..0]);
        for range in ranges {
            let is_range = |r: Result<(), Error>| {
                let e = r.unwrap_err();
                assert!(matches!(e, Error::Range { .. }), "{e:?}");
                let told = e.to_string();
                let ends = [range.start, range.end, 5 * PAGE].map(|n| n.to_string());
                assert!(ends.iter().all(|n| told.contains(n)), "{told}");
            };
            is_range(region.sync(range.clone()));
            is_range(region.resident(range.clone()).map(drop));
            is_range(region.pin(range.clone(), false).map(drop));
            for advice in [Advice::Normal, Advice::WillNeed, Advice::DontNeed] {
                is_range(region.advise(range.clone(), advice));
            }
        }
        if !region.is_explicit() {
            continue;
        }
        for page in [usize::MAX, usize::MAX / PAGE, 1 << 63, 5] {
            let all = [region.fix(page).map(drop), region.fix_mut(page).map(drop)];
            for e in all.map(Result::unwrap_err) {
                assert!(matches!(e, Error::NoPage { pages: 5, .. }), "{e:?}");
                let told = format!("page {page} is outside the region of 5 page");
                assert!(e.to_string().contains(&told), "{e}");
            }
        }
    }
}

/// The storages of the crate are for programs, too.
#[test]
fn transfers() {
    let path = temp("offsets");
    std::fs::write(&path, vec![1; PAGE]).unwrap();
    let file = FileStorage::open(&path, true).unwrap();
    for offset in [u64::MAX, u64::MAX - 4095, 1 << 63] {
        let mut page = [0; PAGE];
        // No byte of it exists, or the kernel has no such offset.
        assert!(!matches!(file.read_at(&mut page, offset), Ok(1..)));
        assert!(file.write_at(&page, offset).is_err());
        let mut writes = [coldset_pager::store::Write::new(&page, offset)];
        file.write_many(&mut writes);
        assert!(writes[0].done.is_err());
    }
    assert!(FileStorage::temporary(u64::MAX).is_err());
    std::fs::remove_file(path).unwrap();
}
