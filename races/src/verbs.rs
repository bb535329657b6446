//! What actors do to the world. Each verb is what hardware or a lock makes atomic, and raises the
//! alarm if it breaks a property. Faults of the host are here.

use crate::alarm::Alarm;
use crate::cases::Fault;
use crate::world::{Cached, Frame, World, CPUS, FRAMES, INTERRUPTS, NONE};
use coldset_engine::{Flags, FolioId};

impl World {
    fn faulty(&self, fault: Fault) -> bool {
        self.setting.fault == Some(fault)
    }

    /// Takes the folio lock if it is free.
    pub fn try_lock(&mut self, f: usize, who: usize) -> bool {
        if self.has(f, Flags::LOCKED) {
            return false;
        }
        if !self.faulty(Fault::LocksUntold) {
            self.set(f, Flags::LOCKED);
            self.frames[f].lock = who as u8;
        }
        true
    }

    /// Lets go of the folio lock.
    pub fn unlock(&mut self, f: usize) {
        if !self.faulty(Fault::LocksUntold) {
            self.clear(f, Flags::LOCKED);
            self.frames[f].lock = NONE;
        }
    }

    /// Locks a folio that was found at page `p` of the index and looks there again. None while another
    /// holds the lock; false: it has left the index, and lock and reference have been let go.
    pub fn lock_found(&mut self, f: usize, p: usize, who: usize) -> Option<(bool, String)> {
        if !self.try_lock(f, who) {
            return None;
        }
        if usize::from(self.pages[p].frame) == f {
            return Some((true, format!("locks frame {f}")));
        }
        self.unlock(f);
        self.put(f);
        let text = format!("finds that frame {f} has left the index, looks again");
        Some((false, text))
    }

    /// Makes the entry of page `p`, after a fault.
    pub fn map(&mut self, f: usize, p: usize, dirty: bool) {
        if !self.faulty(Fault::MappingsUntold) {
            let id = self.id(f);
            self.eng_mut().folio_map(id);
        }
        self.pages[p].entry = f as u8;
        self.pages[p].entry_dirty = dirty;
    }

    /// Clears the page-table entry of page `p`, under the lock of the page table: its dirty mark
    /// goes to the folio, its reference with it. Cached translations stay. Says whether the entry
    /// was dirty, or nothing if there was none.
    pub fn clear_entry(&mut self, p: usize) -> Option<bool> {
        let page = &mut self.pages[p];
        if page.entry == NONE {
            return None;
        }
        let f = usize::from(page.entry);
        let dirty = std::mem::take(&mut page.entry_dirty);
        page.entry = NONE;
        let id = self.id(f);
        if dirty && !self.faulty(Fault::DirtyUntold) {
            self.set_dirty(f);
        }
        if self.eng().folio(id).mapped() {
            self.eng_mut().folio_unmap(id);
        }
        Some(dirty)
    }

    /// Takes the dirty mark off the entry of page `p` and flushes it, so that the next store faults.
    /// False if there was none.
    pub fn clean_entry(&mut self, p: usize) -> bool {
        let page = &mut self.pages[p];
        if page.entry == NONE || !std::mem::take(&mut page.entry_dirty) {
            return false;
        }
        let f = usize::from(page.entry);
        self.set_dirty(f);
        if !self.faulty(Fault::CleanedUnflushed) {
            self.tlb.iter_mut().for_each(|cpu| cpu[p] = None);
        }
        true
    }

    /// Throws away what a CPU has cached.
    pub fn flush_cpu(&mut self, cpu: usize) {
        self.tlb[cpu] = Default::default();
    }

    /// Unmaps page `p` for good, as unmapping a range and truncation do: what a reclaimer has left
    /// unflushed in this address space is flushed first.
    pub fn zap(&mut self, p: usize) {
        if self.mm_pending && !self.faulty(Fault::PendingUnflushed) {
            (0..CPUS).for_each(|c| self.flush_cpu(c));
            self.mm_pending = false;
        }
        if self.clear_entry(p).is_some() {
            self.tlb.iter_mut().for_each(|cpu| cpu[p] = None);
        }
        if let Some(cpu) = self.tlb.iter().position(|cpu| cpu[p].is_some()) {
            self.raise(Alarm::UnmapReachable {
                page: p as u8,
                cpu: cpu as u8,
            });
        }
    }

    /// What the hardware does for an access of page `p` by `cpu`; a store leaves bit `store`. False:
    /// the access faults, and what was cached is gone.
    pub fn access(&mut self, cpu: usize, p: usize, store: Option<u8>) -> bool {
        let hit = self.tlb[cpu][p];
        let frame = match hit {
            // A load, or a store by an entry known to be dirty, does not look at the page table.
            Some(t) if store.is_none() || t.dirty => t.frame,
            Some(t) if self.faulty(Fault::BlindHardware) => t.frame,
            _ => {
                let page = &mut self.pages[p];
                if page.entry == NONE {
                    self.tlb[cpu][p] = None;
                    return false;
                }
                page.entry_dirty |= store.is_some();
                page.entry
            }
        };
        let dirty = store.is_some() || hit.is_some_and(|t| t.dirty);
        self.tlb[cpu][p] = Some(Cached { frame, dirty });
        if let Some(bit) = store {
            self.frames[usize::from(frame)].data |= bit;
            self.pages[p].done |= bit;
        }
        true
    }

    /// A pin for DMA, yet to be confirmed.
    pub fn pin(&mut self, f: usize) {
        if !self.faulty(Fault::PinsUntold) {
            self.get(f);
            self.set(f, Flags::PINNED);
        }
        self.frames[f].pins += 1;
    }

    /// Lets go of a pin.
    pub fn unpin(&mut self, f: usize) {
        self.frames[f].pins -= 1;
        if self.faulty(Fault::PinsUntold) {
            return;
        }
        if self.frames[f].pins == 0 {
            self.clear(f, Flags::PINNED);
        }
        self.put(f);
    }

    /// Starts write-out of the folio, whose dirty mark is off, to the block of page `p`.
    pub fn start_write(&mut self, f: usize, p: usize, by_reclaim: bool) {
        let frame = f as u8;
        if self.frames[f].io != NONE {
            return self.raise(Alarm::WriteTwice { frame });
        }
        if by_reclaim && self.mapped(f) {
            self.raise(Alarm::WriteMapped { frame });
        } else if by_reclaim && self.frames[f].dma {
            self.raise(Alarm::WritePinned { frame });
        } else if by_reclaim {
            if let Some(cpu) = self.cached(f, true) {
                self.raise(Alarm::WriteCached { frame, cpu });
            }
        }
        if self.pages[p].block_gone {
            self.raise(Alarm::WriteForeign { page: p as u8 });
        }
        if by_reclaim || !self.faulty(Fault::WritebackUntold) {
            let id = self.id(f);
            self.eng_mut().writeback_start(id);
        }
        self.frames[f].io = p as u8;
        self.frames[f].io_read = false;
    }

    /// Takes the dirty mark off. False if there was none.
    pub fn clear_dirty(&mut self, f: usize) -> bool {
        let id = self.id(f);
        self.has(f, Flags::DIRTY) && self.eng_mut().clear_dirty(id)
    }

    /// This world with one failure of the device fewer to come, if any is.
    pub fn device_fails(&self) -> Option<World> {
        let failures = self.failures.checked_sub(1)?;
        let mut w = self.clone();
        w.failures = failures;
        Some(w)
    }

    /// The write-out has ended; `failed`: the folio is dirty again.
    pub fn end_write(&mut self, f: usize, failed: bool) {
        self.frames[f].io = NONE;
        self.frames[f].io_read = false;
        if failed {
            self.set_dirty(f);
        }
        if self.has(f, Flags::WRITEBACK) {
            let id = self.id(f);
            self.eng_mut().writeback_end(INTERRUPTS, id);
        }
    }

    /// Takes the folio, locked, out of the index at page `p` for good; the block goes, too.
    pub fn truncate(&mut self, f: usize, p: usize) {
        let id = self.id(f);
        self.pages[p].block_gone = true;
        if self.faulty(Fault::TruncationUntold) {
            self.pages[p].frame = NONE;
            return;
        }
        self.leave_index(p);
        if self.has(f, Flags::SWAPCACHE) {
            self.eng_mut().leave_swap_cache(id);
        } else if self.has(f, Flags::OWNED) {
            self.clear(f, Flags::OWNED);
            self.put(f);
        }
        self.eng_mut().clear_dirty(id);
    }

    /// Empties the index at page `p`.
    pub fn leave_index(&mut self, p: usize) {
        if self.pages[p].frame == NONE {
            self.raise(Alarm::IndexForeign { page: p as u8 });
        }
        self.pages[p].frame = NONE;
    }

    /// Frames whose folios the engine has forgotten become free memory, but for those that tasks have
    /// reclaimed and free later.
    pub fn reap(&mut self) {
        for f in 0..FRAMES {
            let id = self.id(f);
            if id != FolioId::NONE && self.eng().folio(id).has(Flags::DEAD) {
                self.frames[f].folio = FolioId::NONE;
                if !self.frames[f].held {
                    self.free(f);
                }
            }
        }
    }

    /// The frame becomes free memory.
    pub fn free(&mut self, f: usize) {
        let frame = f as u8;
        if self.mapped(f) {
            self.raise(Alarm::FreedMapped { frame });
        } else if let Some(cpu) = self.cached(f, false) {
            self.raise(Alarm::FreedCached { frame, cpu });
        } else if self.frames[f].dma {
            self.raise(Alarm::FreedPinned { frame });
        } else if self.frames[f].io != NONE {
            self.raise(Alarm::FreedWriting { frame });
        }
        let page = &mut self.pages[usize::from(self.frames[f].page)];
        if page.frame == frame {
            page.frame = NONE;
        }
        self.frames[f] = Frame::FREE;
    }
}
