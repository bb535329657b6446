//! Worked examples of `docs/rules/classic.md` run through the engine.

mod balance;
mod marks;
mod runs;
mod scan;

use crate::folio::Flags;
use crate::ids::FolioId;
use crate::lruvec::{LruList, LruvecLists};
use crate::testing::Host;

/// Folios of one list, next victim first.
fn tail_first(h: &Host, list: LruList) -> Vec<FolioId> {
    let LruvecLists::Classic(lists) = &h.eng.lruvec(h.lruvec).lists else {
        panic!("not a classic lruvec");
    };
    let mut ids: Vec<_> = lists.lists[list.idx()].iter(&h.eng.folios).collect();
    ids.reverse();
    ids
}

/// A classic host without swap: only file pages are scanned.
fn file_host() -> Host {
    let mut h = Host::new("classic");
    h.eng.set_swap(0, 0);
    h
}

fn active(h: &Host, id: FolioId) -> bool {
    h.has(id, Flags::ACTIVE | Flags::LRU)
}
