//! Translations that page tables no longer hold and CPUs may. Until they are flushed, a load still
//! goes through them, and so does a store through one that was dirty when it was removed: the hardware need
//! not mark it again. (A store through a clean one has to, and finds the entry gone.)
//!
//! A CPU that may hold one does hold it here: the worst case for the protocol.

use super::Tlb;
use crate::mem::MappingId;
use crate::sim::CpuMask;
use coldset_engine::{FolioId, MmId};

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

    /// The folio that a CPU reaches through an entry that should be gone.
    pub(super) fn reached(
        &self,
        cpu: u16,
        mapping: MappingId,
        entry: u32,
        write: bool,
    ) -> Option<FolioId> {
        let hit = self.stale.iter().find(|s| {
            (s.mapping, s.entry) == (mapping, entry)
                && s.cpus.contains(cpu)
                && (s.writable || !write)
        });
        hit.map(|s| s.folio)
    }
}
