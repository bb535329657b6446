//! A large folio becomes single pages (`docs/rules/shrink-list.md#large-folios`).
//!
//! Every sum of the engine counts pages, so a split changes none of them: charges, gauges and the
//! room of zones stay as they are, and the split can be undone until the host has moved a mapping.
//! The first page keeps the record; the others get records of their own, isolated like the first.

use super::table::NewFolio;
use super::{Flags, Folio, FolioTable};
use crate::ids::FolioId;

/// Order of a folio that one huge entry maps.
pub(crate) const HUGE_ORDER: u8 = 9;

/// What is true of each page of a folio: whose it is, what it holds, how it has been used. Not what
/// one operation on the whole has marked (lock, rotation after writeback, read-ahead).
const INHERITED: Flags = Flags::REFERENCED
    .union(Flags::WORKINGSET)
    .union(Flags::ACTIVE)
    .union(Flags::DIRTY)
    .union(Flags::SWAPBACKED)
    .union(Flags::SWAPCACHE)
    .union(Flags::MLOCKED)
    .union(Flags::ANON)
    .union(Flags::EXEC)
    .union(Flags::OWNED)
    .union(Flags::MAPPING_UNEVICTABLE)
    .union(Flags::UPTODATE);

/// References that slots hold for each page.
fn held_a_page(f: &Folio) -> u32 {
    let owned = f.has(Flags::OWNED) && !f.has(Flags::ANON);
    u32::from(owned) + u32::from(f.has(Flags::SWAPCACHE))
}

impl FolioTable {
    /// A large folio that a reclaimer holds isolated, and that nobody but its slots and mappings
    /// refers to.
    pub(crate) fn can_split(&self, id: FolioId) -> bool {
        let f = &self[id];
        let held = 1 + f.mapcount + held_a_page(f) * f.nr_pages() as u32;
        let busy = Flags::LRU | Flags::WRITEBACK | Flags::PRIVATE | Flags::PINNED | Flags::POISONED;
        f.order > 0 && f.refcount == held && !f.any(busy)
    }

    /// Makes single pages of a folio. `pieces`: the new folios, for the pages after the first one in
    /// order, each with the reference of the isolating reclaimer and those of its slots. All mappings
    /// still are the first page's. False, and nothing has changed, if it cannot be split.
    pub(crate) fn split_begin(&mut self, id: FolioId, pieces: &mut Vec<FolioId>) -> bool {
        debug_assert!(pieces.is_empty(), "a split is under way");
        if !self.can_split(id) {
            return false;
        }
        let whole = self[id];
        let n = whole.nr_pages() as u32;
        let held = held_a_page(&whole);
        pieces.reserve(n as usize);
        for i in 1..n {
            let piece = self.alloc(NewFolio {
                lruvec: whole.lruvec,
                object: whole.object,
                index: whole.index + i,
                order: 0,
                zone: whole.zone,
                flags: whole.word.flags() & INHERITED,
            });
            let f = &mut self[piece];
            f.word.set_refs(whole.word.refs());
            f.home = whole.home;
            f.refcount += held;
            f.swap = whole.swap_slot().map_or(0, |slot| slot + 1 + i);
            pieces.push(piece);
        }
        let head = &mut self[id];
        head.order = 0;
        head.refcount -= held * (n - 1);
        true
    }

    /// The host has moved slots and mappings to the pieces: the split stays. True if the pieces are
    /// dirty files of their own now.
    pub(crate) fn split_commit(&mut self, id: FolioId, pieces: &[FolioId]) -> bool {
        for &id in pieces.iter().chain([&id]) {
            let f = &self[id];
            assert!(
                f.refcount == 1 + f.mapcount + held_a_page(f),
                "references of {id:?} after a split: {f:?}"
            );
        }
        let head = &mut self[id];
        head.word.clear(Flags::PARTIALLY_MAPPED);
        head.has(Flags::DIRTY) && head.counts_as_dirty_file()
    }

    /// The host refuses: the folio is whole again.
    pub(crate) fn split_undo(&mut self, id: FolioId, pieces: &mut Vec<FolioId>) {
        let n = pieces.len() as u32 + 1;
        let held = held_a_page(&self[id]);
        for piece in pieces.drain(..).rev() {
            let f = &mut self[piece];
            assert!(
                f.refcount == 1 + held,
                "{piece:?} of a refused split is in use: {f:?}"
            );
            f.freeze();
            self.release(piece);
        }
        let head = &mut self[id];
        head.order = n.ilog2() as u8;
        head.refcount += held * (n - 1);
    }
}
