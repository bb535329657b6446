//! S8: flushes of whole lists (the unbatched numbers).

use super::direct;
use crate::ids::FolioId;
use crate::testing::{Host, Spec};

fn dirty_anon(h: &mut Host) -> FolioId {
    let id = h.add(Spec::anon());
    h.script(id).pte_dirty = true;
    id
}

#[test]
fn s8_dirty_anonymous_folios() {
    let mut h = Host::new("base");
    let ids: Vec<_> = (0..70).map(|_| dirty_anon(&mut h)).collect();
    h.shrink(&mut direct(), &ids);
    assert_eq!((h.seen.flushes, h.seen.flushes_for_write), (70, 70));
}

#[test]
fn s8_clean_mapped_file_folios() {
    let mut h = Host::new("base");
    let ids = h.add_many(70, Spec::mapped(1));
    let s = h.shrink(&mut direct(), &ids);
    assert_eq!(s.stat.reclaimed, 70);
    assert_eq!((h.seen.flushes, h.seen.flushes_for_write), (3, 0));
    assert_eq!(h.seen.free_batches, [31, 31, 8]);
}

#[test]
fn s8_mixed() {
    let mut h = Host::new("base");
    let ids: Vec<_> = (0..35)
        .flat_map(|_| [h.add(Spec::mapped(1)), dirty_anon(&mut h)])
        .collect();
    let s = h.shrink(&mut direct(), &ids);
    assert_eq!((h.seen.flushes, h.seen.flushes_for_write), (36, 35));
    assert_eq!((s.stat.reclaimed, s.stat.pageout), (35, 35));
    h.finish_writes();
    h.eng.check();
}

#[test]
fn entries_no_other_cpu_caches_need_no_flush() {
    let mut h = Host::new("base");
    let ids = h.add_many(70, Spec::mapped(1));
    for &id in &ids {
        h.script(id).uncached = true;
    }
    h.shrink(&mut direct(), &ids);
    assert_eq!((h.seen.flushes, h.seen.freed.len()), (0, 70));
}
