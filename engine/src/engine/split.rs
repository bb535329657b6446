//! A large folio becomes single pages outside of reclaim: part of it is to be dropped
//! (`docs/rules/large-folios.md#truncation`).

use super::Engine;
use crate::folio::Flags;
use crate::ids::FolioId;

impl Engine {
    /// Makes single pages of a large folio that is on a list and that nobody but its slots and mappings
    /// refers to. The folio keeps its first page; returned are new folios for the others, in order. The
    /// host moves slots and mappings to them, as for [`crate::reclaim::Work::Split`], and calls
    /// [`Self::folio_split_done`] before anything else happens to any of them. Dirty pages stay dirty and
    /// counted. `None`, and nothing has changed: somebody is at work on it.
    pub fn folio_split(&mut self, cpu: u16, id: FolioId) -> Option<Vec<FolioId>> {
        let f = &self.folios[id];
        if f.order() == 0 || f.any(Flags::LOCKED | Flags::UNEVICTABLE) || !f.can_isolate() {
            return None;
        }
        self.meter.lock(self.folios[id].lruvec());
        self.lruvec_del(id, false);
        self.folios[id].isolate();
        let mut pieces = Vec::new();
        if self.folios.split_begin(id, &mut pieces) {
            return Some(pieces);
        }
        self.put_back(cpu, self.folios[id].lruvec(), &[id]);
        None
    }

    /// The host has moved slots and mappings: the pieces go onto the lists.
    ///
    /// # Panics
    /// If references or mappings have not been moved: that is a defect of the host.
    pub fn folio_split_done(&mut self, cpu: u16, id: FolioId, pieces: &[FolioId]) {
        // Pages that were dirty have been told to the host as such when the whole became dirty.
        self.folios.split_commit(id, pieces);
        let lruvec = self.folios[id].lruvec();
        let all: Vec<FolioId> = std::iter::once(id).chain(pieces.iter().copied()).collect();
        self.put_back(cpu, lruvec, &all);
    }
}
