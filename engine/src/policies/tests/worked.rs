//! Short sequences followed by hand with the papers' rules. Lists are written oldest first.

use crate::policies::ListKind;
use crate::testing::Cache;

fn faults(kind: ListKind, frames: usize, pages: &[u32]) -> usize {
    let missed = Cache::new(kind, frames).misses(pages);
    missed.iter().filter(|&&m| m).count()
}

/// L. A. Belady, R. A. Nelson, G. S. Shedler, CACM 12(6), 1969: more frames, more faults.
#[test]
fn fifo_has_beladys_anomaly_and_lru_has_not() {
    let pages = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
    assert_eq!(faults(ListKind::Fifo, 3, &pages), 9);
    assert_eq!(faults(ListKind::Fifo, 4, &pages), 10);
    assert_eq!(faults(ListKind::Lru, 3, &pages), 10);
    assert_eq!(faults(ListKind::Lru, 4, &pages), 8);
}

#[test]
fn lru_keeps_the_order_of_use() {
    let mut c = Cache::new(ListKind::Lru, 3);
    c.misses(&[1, 2, 3, 1, 4]);
    assert_eq!(c.list(0), [3, 1, 4]);
}

#[test]
fn clock_sends_folios_in_use_round_once() {
    let mut c = Cache::new(ListKind::Clock, 3);
    c.misses(&[1, 2, 3, 2, 4]);
    assert_eq!(c.list(0), [2, 3, 4]);
    // The hand clears 2 and takes 3.
    c.read(5);
    assert_eq!(c.list(0), [4, 2, 5]);
    // The second chance is used up.
    c.misses(&[6, 7]);
    assert_eq!(c.list(0), [5, 6, 7]);
}

#[test]
fn sieve_leaves_survivors_in_place() {
    let mut c = Cache::new(ListKind::Sieve, 4);
    c.misses(&[1, 2, 3, 4, 2, 4]);
    // The hand begins at the tail.
    c.read(5);
    assert_eq!(c.list(0), [2, 3, 4, 5]);
    // It passes 2 and takes 3.
    c.read(6);
    assert_eq!(c.list(0), [2, 4, 5, 6]);
    // It goes on from there: passes 4 and takes 5, though 2 is older.
    c.read(7);
    assert_eq!(c.list(0), [2, 4, 6, 7]);
    // 6 and 7, then round to the tail.
    c.misses(&[8, 9]);
    assert_eq!(c.list(0), [2, 4, 8, 9]);
}

/// Kin = 1, Kout = 2.
#[test]
fn twoq_keeps_what_comes_back_after_a1in() {
    let mut c = Cache::new(ListKind::TwoQ, 4);
    // A hit in A1in changes nothing.
    c.misses(&[1, 2, 3, 4, 1, 5]);
    assert_eq!((c.list(0), c.list(1)), (vec![2, 3, 4, 5], vec![]));
    c.read(1);
    assert_eq!((c.list(0), c.list(1)), (vec![3, 4, 5], vec![1]));
    // A1out holds 2 and 3, then 3 and 4: 2 is forgotten.
    c.misses(&[6, 7, 2]);
    assert_eq!((c.list(0), c.list(1)), (vec![6, 7, 2], vec![1]));
}

#[test]
fn slru_demotes_from_the_protected_segment() {
    let mut c = Cache::new(ListKind::Slru, 5);
    c.misses(&[1, 2, 3, 4, 5, 1, 2, 3, 4, 5]);
    assert_eq!((c.list(0), c.list(1)), (vec![], vec![1, 2, 3, 4, 5]));
    c.read(6);
    assert_eq!((c.list(0), c.list(1)), (vec![6], vec![2, 3, 4, 5]));
}

#[test]
fn arc_follows_its_ghosts() {
    let mut c = Cache::new(ListKind::Arc, 2);
    // 2 goes to B1.
    c.misses(&[1, 1, 2, 3]);
    assert_eq!((c.list(0), c.list(1)), (vec![3], vec![1]));
    // A hit in B1 raises the target to 1: T2 gives up.
    c.read(2);
    assert_eq!((c.list(0), c.list(1)), (vec![3], vec![2]));
    // A hit in B2 lowers it to 0: T1 gives up.
    c.read(1);
    assert_eq!((c.list(0), c.list(1)), (vec![], vec![2, 1]));
}

/// The target goes up by ratios of the ghosts and is a whole number again before the last read, so that T2 gives up
/// its oldest there and the page is gone. The figures are those of exact fractions, worked out apart.
#[test]
fn arc_adds_up_ratios_of_its_ghosts_exactly() {
    let mut c = Cache::new(ListKind::Arc, 8);
    let missed = c.misses(&[
        10, 2, 6, 3, 0, 10, 2, 16, 9, 0, 6, 7, 20, 15, 1, 5, 5, 16, 15, 3, 11, 4, 8, 0, 17, 9, 4,
        6, 17,
    ]);
    assert_eq!(missed.iter().filter(|&&m| m).count(), 23);
    assert_eq!(missed.last(), Some(&true));
}

/// A small queue of one page.
#[test]
fn s3fifo_promotes_what_is_used_twice_or_comes_back() {
    let mut c = Cache::new(ListKind::S3Fifo, 10);
    c.misses(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 1]);
    // 1 is in the small queue and goes to the main one, which gives up its oldest.
    c.read(11);
    assert_eq!(c.list(0), [11]);
    assert_eq!(c.list(1), [3, 4, 5, 6, 7, 8, 9, 10, 1]);
    // 11 has not been used again; it is remembered.
    c.misses(&[12, 11]);
    assert!(c.list(0).is_empty());
    assert_eq!(c.list(1), [3, 4, 5, 6, 7, 8, 9, 10, 1, 11]);
}
