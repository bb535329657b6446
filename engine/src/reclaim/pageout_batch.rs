//! Dirty folios that share one TLB flush (`docs/rules/tlb.md#batched-write-out`).
//!
//! A dirty folio that has been unmapped is not written at once: it waits, unlocked, with others. Then
//! all are locked again and looked at again, for anything may have happened to them meanwhile; one
//! flush serves those that are left, and they are written one after the other.
//!
//! Until the flush a CPU may store through a translation that it still holds. The store goes to the
//! same frame and the flush ends before any I/O starts, so the I/O takes it along. No reference count
//! is frozen while folios wait: look-ups would spin.

use super::shrink_list::{FolioStep, ShrinkList};
use super::work::{Decision, Work};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::FolioId;
use crate::switches::DirtyFlush;
use std::collections::VecDeque;

/// The folios of one list that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct PageoutBatch {
    /// Unmapped, dirty, isolated, in the order in which they were met. Locked only in the variant
    /// that keeps the locks.
    pub(super) waiting: Vec<FolioId>,
    /// Locked again, flushed, to be written.
    pub(super) locked: VecDeque<FolioId>,
    /// Turned away, the flush still to come. They are on the way back to their lists.
    pub(super) unsettled: Vec<FolioId>,
    /// A folio whose writeback the task must wait for once the batch is through.
    pub(super) before_wait: Option<FolioId>,
    /// Version 1: this is the last batch, the input is not looked at again.
    pub(super) last: bool,
}

impl ShrinkList {
    /// Step 14 of a folio that is to be written.
    pub(super) fn queue_dirty(&mut self, eng: &mut Engine) -> Option<Work> {
        let mode = eng.switches().batched_dirty_flush;
        count(eng, self.folio, Counter::DirtyBatched);
        self.batch.waiting.push(self.folio);
        self.asked_to_unmap = false;
        self.at = if self.batch.waiting.len() >= mode.capacity() {
            FolioStep::Relock
        } else {
            FolioStep::Next
        };
        if mode == DirtyFlush::Locked {
            // A task that waits for the lock must not wait for a sleeper.
            return None;
        }
        eng.folios[self.folio].clear(Flags::LOCKED);
        self.let_others_run()
    }

    /// A good point to let others run, who must not find a folio that is as good as freed.
    pub(super) fn let_others_run(&mut self) -> Option<Work> {
        self.resched = false;
        if self.freed.is_empty() {
            return Some(Work::Yield);
        }
        self.resume = std::mem::replace(&mut self.at, FolioStep::Detached);
        Some(Work::Detach)
    }

    /// Locks and looks at the folios that wait. Those that cannot be written go back as they are:
    /// not activated, their swap slots kept. If all do, no flush is needed now.
    pub(super) fn relock(&mut self, eng: &mut Engine) -> Option<Work> {
        let mode = eng.switches().batched_dirty_flush;
        if let Some(&first) = self.batch.waiting.first() {
            count(eng, first, Counter::DirtyBatches);
        }
        for &id in &self.batch.waiting {
            match refused(eng, id, mode) {
                Some(why) => {
                    count(eng, id, why);
                    self.ret.push(id);
                    let (folio, freed) = (id, false);
                    self.decided.push(Decision { folio, freed });
                    if mode != DirtyFlush::Posted {
                        self.batch.unsettled.push(id);
                    }
                }
                None => self.batch.locked.push_back(id),
            }
        }
        self.batch.waiting.clear();
        self.at = FolioStep::Next;
        if self.batch.locked.is_empty() {
            return None;
        }
        self.flush_dirty(eng)
    }
}

impl ShrinkList {
    /// Nothing is pending any more: a folio that waited unlocked and was turned away is dirty from now
    /// on. It may have been cleaned since, and a store may have come after that, through a
    /// translation that was not flushed yet (to mark it when it is turned away is too early).
    pub(super) fn dirty_again(&mut self, eng: &mut Engine) {
        for id in self.batch.unsettled.drain(..) {
            if eng.folios[id].any(Flags::OWNED | Flags::SWAPCACHE) {
                eng.set_dirty(id);
            }
        }
    }
}

/// Locks a folio that has waited, unless something speaks against writing it.
fn refused(eng: &mut Engine, id: FolioId, mode: DirtyFlush) -> Option<Counter> {
    if mode == DirtyFlush::Locked {
        return None;
    }
    let checked = mode != DirtyFlush::Posted;
    let f = &eng.folios[id];
    let mut why = if f.has(Flags::LOCKED) {
        Some(Counter::DirtyBatchLocked)
    } else if f.has(Flags::WRITEBACK) {
        Some(Counter::DirtyBatchWriteback)
    } else if f.has(Flags::LRU) {
        Some(Counter::DirtyBatchLru)
    } else if f.mapped() {
        Some(Counter::DirtyBatchMapped)
    } else if checked && f.has(Flags::PINNED) {
        Some(Counter::DirtyBatchPinned)
    } else {
        None
    };
    let owned = f.any(Flags::OWNED | Flags::SWAPCACHE);
    if checked && owned && !f.has(Flags::DIRTY) {
        // The task that wrote it may have missed a store through a translation that is
        // not flushed yet.
        eng.set_dirty(id);
        why = why.or(Some(Counter::DirtyBatchClean));
    }
    if why.is_none() {
        eng.folios[id].set(Flags::LOCKED);
    }
    why
}

fn count(eng: &mut Engine, id: FolioId, what: Counter) {
    let lruvec = eng.folios[id].lruvec();
    eng.count(eng.memcg_of(lruvec), what, 1);
}
