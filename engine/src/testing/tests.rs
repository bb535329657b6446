//! The mock host itself.

use super::*;
use crate::folio::Flags;
use crate::lruvec::LruList;

#[test]
fn every_preset_frees_clean_file_folios() {
    for p in crate::presets::PRESETS {
        let mut h = Host::new(p.names[0]);
        let ids = h.add_many(200, Spec::file());
        let out = h.limit(32);
        assert!(out.reclaimed >= 32, "{}: {out:?}", p.names[0]);
        assert_eq!(h.seen.freed_pages(), out.reclaimed, "{}", p.names[0]);
        // A budget that is never reduced drains the group.
        let drains = h.eng.switches().mut_no_decrement;
        let (first, last) = (h.gone(ids[0]), h.gone(ids[199]));
        // Where frequency decides and nobody has been asked for twice, the last to come is turned away.
        let right = match p.names[0] {
            "w-tinylfu" => last,
            _ => first && last == drains,
        };
        assert!(right, "{}: {first} {last}", p.names[0]);
        assert_eq!(
            h.eng.memcgs[h.memcg].memory().usage(),
            200 - out.reclaimed,
            "{}",
            p.names[0]
        );
    }
}

#[test]
fn truncated_folios_leave_nothing_behind() {
    let mut h = Host::new("base");
    let a = h.add(Spec::mapped(2).dirty());
    let b = h.add(Spec::anon());
    h.truncate(a);
    h.truncate(b);
    assert!(h.gone(a) && h.gone(b) && h.folios().is_empty());
    assert_eq!(
        h.size(LruList::InactiveFile) + h.size(LruList::ActiveAnon),
        0
    );
    assert!(h.eng.folios.iter().all(|(_, f)| f.has(Flags::DEAD)));
}
