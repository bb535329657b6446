//! The 6.12 histories E16 to E19.

use crate::folio::Flags;
use crate::ids::FolioId;
use crate::testing::{Host, Spec, WriteAs};
use crate::workingset::refault::RefaultSite;
use crate::{Counter, LruType};

/// Brings `n` folios in by faults; their accessed bits are set.
fn faults(h: &mut Host, n: usize, spec: Spec) -> Vec<FolioId> {
    (0..n)
        .map(|_| {
            let id = h.fault(spec);
            h.script(id).accessed = 1;
            h.script(id).write = WriteAs::Finished;
            id
        })
        .collect()
}

#[test]
fn e16_mapped_file_pages_age_in_pairs() {
    let mut h = Host::new("v612");
    faults(&mut h, 16_000, Spec::mapped(1));
    assert_eq!(h.gen_pages(3, LruType::File), 16_000);
    let out = h.limit(32);
    assert_eq!((out.reclaimed, out.rounds), (64, 4), "priorities 12 to 9");
    assert_eq!((h.gens().max_seq, h.gens().min_seq), (5, [3, 3]));
    assert_eq!(h.count(Counter::AgingRuns), 2);
    assert_eq!(h.count(Counter::WalkPromoted), 0);
    assert_eq!(h.count(Counter::Pgrefill), 0);
    for call in 2..=250 {
        faults(&mut h, 64, Spec::mapped(1));
        let out = h.limit(32);
        assert_eq!((out.reclaimed, out.rounds), (64, 1), "call {call}");
        assert_eq!(h.count(Counter::AgingRuns), 2, "call {call}");
        assert_eq!(h.gen_pages(4, LruType::File), 0);
    }
    assert_eq!(h.gen_pages(3, LruType::File), 0);
    assert!(h.gen_pages(5, LruType::File) * 2 > 15_000);
    faults(&mut h, 64, Spec::mapped(1));
    let out = h.limit(32);
    assert!(out.reclaimed >= 32);
    assert_eq!(
        (h.count(Counter::AgingRuns), h.gens().max_seq),
        (6, 9),
        "no table is known to be worth a walk: the next pair walks none, finds all pages young while it \
         looks around, and only the pair after it walks"
    );
    assert_eq!(h.count(Counter::Pgrefill), 0);
    h.eng.check();
}

#[test]
fn e17_read_pages_never_age() {
    let mut h = Host::new("v612");
    let ids = h.add_many(2000, Spec::file());
    assert_eq!(h.gen_pages(1, LruType::File), 2000);
    let reads = |h: &mut Host, id, n| (0..n).for_each(|_| h.eng.mark_accessed(0, id));
    for &id in &ids {
        reads(&mut h, id, 1);
    }
    for &id in &ids[..20] {
        reads(&mut h, id, 4); // refs 4: always protected
    }
    reads(&mut h, ids[20], 3); // refs 3
    reads(&mut h, ids[21], 2); // refs 2
    let mut shadows = Vec::new();
    for _ in 0..20 {
        let before = h.seen.freed.len();
        h.limit(32);
        shadows.extend(
            h.seen.freed[before..]
                .iter()
                .map(|f| (f.index, f.shadow.unwrap())),
        );
    }
    assert_eq!((h.gens().max_seq, h.gens().min_seq), (3, [1, 1]));
    assert_eq!(h.count(Counter::Pgrefill), 20);
    assert_eq!(
        h.gen_pages(2, LruType::File),
        20,
        "the protected ones, not scanned again"
    );
    assert_eq!(h.gen_pages(3, LruType::File), 0);
    assert_eq!(h.count(Counter::AgingRuns), 0);
    let shadow_of = |i: usize| shadows.iter().find(|s| s.0 == i as u32).unwrap().1;
    for (nth, i) in [20, 21, 22].into_iter().enumerate() {
        let id = h.alloc(Spec::file());
        h.eng.refault(id, shadow_of(i), RefaultSite::Read);
        h.queue(id, false);
        assert_eq!(h.count(Counter::RefaultFile), nth as i64 + 1);
        assert_eq!(
            h.count(Counter::ActivateFile),
            nth as i64 + 1,
            "every one is recent"
        );
        assert_eq!(h.count(Counter::RestoreFile), 1, "from refs 3 only");
    }
    h.eng.lru_add_drain(0);
    h.eng.check();
}

#[test]
fn e18_dirty_folios_come_back_when_written() {
    let mut h = Host::new("v612");
    h.set_seqs(5, [2, 2]);
    let dirty = h.add_to(2, Spec::file().dirty());
    h.fill(2, 300, Spec::file());
    h.fill(5, 3800, Spec::file());
    h.limit(32);
    assert!(h.has(dirty, Flags::RECLAIM | Flags::DIRTY));
    assert_eq!(h.seq_of(dirty), Some(5));
    assert_eq!(h.list(5, LruType::File).last(), Some(&dirty), "at the head");
    assert_eq!(
        (h.count(Counter::Pgactivate), h.count(Counter::Pgrefill)),
        (1, 0)
    );
    h.start_write(dirty);
    h.finish_writes();
    h.eng.lru_add_drain(0);
    assert_eq!(
        h.list(2, LruType::File)[0],
        dirty,
        "at the tail of the oldest"
    );
    assert_eq!(h.vm(Counter::Pgrotated), 1);
    h.limit(32);
    assert!(h.gone(dirty));
    h.eng.check();
}

#[test]
fn e19_a_short_file_list_is_tried_before_anonymous_memory() {
    for (files, rounds, reclaimed) in [(10, 2, 74), (40, 1, 40)] {
        let mut h = Host::new("v612");
        faults(&mut h, 16_000, Spec::anon());
        let out = h.limit(32);
        assert_eq!(
            (out.reclaimed, out.rounds),
            (64, 4),
            "anonymous memory ages as in E16"
        );
        assert_eq!((h.gens().max_seq, h.gens().min_seq), (5, [3, 3]));
        h.add_many(files, Spec::file());
        assert_eq!(h.gen_pages(3, LruType::File), files as u64);
        let out = h.limit(32);
        assert_eq!((out.rounds, out.reclaimed), (rounds, reclaimed));
        assert_eq!(h.count(Counter::PgstealFile), files as i64);
        h.eng.check();
    }
}
