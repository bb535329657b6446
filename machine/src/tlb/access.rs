//! Accesses through translations that should be gone.

use crate::ctx::Ctx;
use crate::mem::MappingId;
use crate::world::World;
use coldset_engine::{Counter, FolioId};

impl World {
    /// A load or store through a translation that should be gone. False if the CPU has none.
    pub(crate) fn touch_stale(
        &mut self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        write: bool,
    ) -> bool {
        let Some(folio) = self.tlb.reached(ctx.cpu(), mapping, entry, write) else {
            return false;
        };
        let m = &self.mappings[mapping.0 as usize];
        let page = m.start + entry;
        let object = &mut self.objects[m.object.idx()];
        if object.word(page).folio() != Some(folio) {
            // Taken out of its slot, not freed yet: it still has what was there, and clean.
            return false;
        }
        if write {
            object.store(page);
        } else {
            object.load(page);
        }
        self.engine.count(ctx.memcg, Counter::TlbStaleHits, 1);
        true
    }

    /// No CPU may be able to store into a folio whose I/O starts (`docs/rules/tlb.md`).
    ///
    /// # Panics
    /// If one is: that is a defect of the engine.
    pub(crate) fn assert_not_written_through(&self, folio: FolioId) {
        if let Some(mm) = self.tlb.written_through(folio) {
            panic!("{folio:?} is written while a CPU may store into it through {mm:?}");
        }
    }
}
