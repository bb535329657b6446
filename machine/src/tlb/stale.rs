//! Translations that page tables no longer hold and CPUs may. Until they are flushed, a load goes on
//! through them, and so does a store through one that was dirty when it was removed: the hardware need
//! not mark it again. (A store through a clean one has to, and finds the entry gone.)
//!
//! A CPU that may hold one does hold it here: the worst case for the protocol.

use super::Tlb;
use crate::ctx::Ctx;
use crate::mem::MappingId;
use crate::sim::CpuMask;
use crate::world::World;
use coldset_engine::{Counter, FolioId, MmId};

/// One entry, removed and not flushed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stale {
    mm: MmId,
    mapping: MappingId,
    entry: u32,
    /// The folio it leads to.
    folio: FolioId,
    /// CPUs that run the address space and have not flushed since.
    cpus: CpuMask,
    /// It was dirty.
    writable: bool,
}

impl Tlb {
    /// An entry has been removed and its flush deferred.
    pub(super) fn add_stale(
        &mut self,
        mm: MmId,
        mapping: MappingId,
        entry: u32,
        folio: FolioId,
        writable: bool,
    ) {
        let state = &self.mms[mm.idx()];
        let cpus = state.cpus.and(&state.running);
        if !cpus.is_empty() {
            self.stale.push(Stale {
                mm,
                mapping,
                entry,
                folio,
                cpus,
                writable,
            });
        }
    }

    /// These CPUs have flushed, or cannot use what they hold before they do.
    pub(super) fn drop_stale_of(&mut self, cpus: &CpuMask) {
        if self.stale.is_empty() || cpus.is_empty() {
            return;
        }
        self.stale.retain_mut(|s| {
            s.cpus = s.cpus.without(cpus);
            !s.cpus.is_empty()
        });
    }

    pub(super) fn drop_stale_of_mm(&mut self, mm: MmId) {
        self.stale.retain(|s| s.mm != mm);
    }

    /// An address space in which a CPU may still store into the folio.
    pub(crate) fn written_through(&self, folio: FolioId) -> Option<MmId> {
        let found = self.stale.iter().find(|s| s.folio == folio && s.writable);
        found.map(|s| s.mm)
    }
}

impl World {
    /// A load or store through a translation that should be gone. False if the CPU has none.
    pub(crate) fn touch_stale(
        &mut self,
        ctx: &Ctx,
        mapping: MappingId,
        entry: u32,
        write: bool,
    ) -> bool {
        if self.tlb.stale.is_empty() {
            return false;
        }
        let cpu = ctx.cpu();
        let hit = self.tlb.stale.iter().find(|s| {
            (s.mapping, s.entry) == (mapping, entry)
                && s.cpus.contains(cpu)
                && (s.writable || !write)
        });
        let Some(&Stale { folio, .. }) = hit else {
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
        self.engine.count_host(ctx.memcg, Counter::TlbStaleHits, 1);
        true
    }

    /// No CPU may be able to store into a folio whose I/O starts (`shrink-folio-list.md` 5.1, I1).
    ///
    /// # Panics
    /// If one is: that is a defect of the engine.
    pub(crate) fn assert_not_written_through(&self, folio: FolioId) {
        if let Some(mm) = self.tlb.written_through(folio) {
            panic!("{folio:?} is written while a CPU may store into it through {mm:?}");
        }
    }
}
