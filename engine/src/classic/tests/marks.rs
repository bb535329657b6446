//! Descriptor accesses and the end of writeback.

use super::*;
use crate::counters::Counter;
use crate::testing::Spec;

#[test]
fn the_second_access_activates_and_ticks_the_clock() {
    let mut h = file_host();
    let id = h.add(Spec::file());
    h.eng.mark_accessed(0, id);
    assert!(h.has(id, Flags::REFERENCED));
    h.eng.mark_accessed(0, id);
    assert!(!h.has(id, Flags::REFERENCED) && !active(&h, id), "queued");
    assert_eq!(h.eng.lruvec(h.lruvec).workingset.clock(), 1);
    h.eng.lru_add_drain(0);
    assert!(active(&h, id));
    assert_eq!(h.count(Counter::Pgactivate), 1);
    h.eng.mark_accessed(0, id);
    h.eng.mark_accessed(0, id);
    assert_eq!(
        h.eng.lruvec(h.lruvec).workingset.clock(),
        1,
        "active already"
    );
}

#[test]
fn a_folio_in_the_add_batch_is_activated_at_once() {
    let mut h = file_host();
    let id = h.alloc(Spec::file());
    h.queue(id, false);
    h.eng.mark_accessed(0, id);
    h.eng.mark_accessed(0, id);
    assert!(h.has(id, Flags::ACTIVE));
    h.eng.lru_add_drain(0);
    assert_eq!(h.size(LruList::ActiveFile), 1);
    assert_eq!(
        h.count(Counter::Pgactivate),
        0,
        "not an explicit activation"
    );
}

#[test]
fn r8_completion_rotates_to_the_tail() {
    let mut h = file_host();
    h.add_many(3, Spec::file());
    let id = h.add(Spec::file().dirty().with(Flags::ACTIVE));
    h.start_write(id);
    h.eng.folio_set(id, Flags::RECLAIM);
    h.finish_writes();
    h.eng.lru_add_drain(0);
    assert!(!h.has(id, Flags::ACTIVE) && !h.has(id, Flags::RECLAIM));
    assert_eq!(tail_first(&h, LruList::InactiveFile)[0], id);
    assert_eq!(h.vm(Counter::Pgrotated), 1);
}

#[test]
fn r8_a_folio_dirtied_again_stays() {
    let mut h = file_host();
    h.add_many(3, Spec::file());
    let id = h.add(Spec::file().dirty().with(Flags::ACTIVE));
    h.start_write(id);
    h.eng.folio_set(id, Flags::RECLAIM);
    h.eng.set_dirty(id);
    h.finish_writes();
    h.eng.lru_add_drain(0);
    assert!(active(&h, id) && !h.has(id, Flags::RECLAIM));
    assert_eq!(h.vm(Counter::Pgrotated), 0);
}
