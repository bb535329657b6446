//! Writing one folio, freeing it, and the end of a list (`docs/rules/shrink-list.md#freeing`).

use super::shrink_list::{FolioStep, ShrinkList};
use super::split::SplitFor;
use super::work::{Freed, Work, Written};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::switches::DirtyFlush;
use crate::workingset::Shadow;

impl ShrinkList {
    /// Hands a dirty folio to its writer (`docs/rules/shrink-list.md#dirty-folios`).
    pub(super) fn pageout(&mut self, eng: &mut Engine) -> Option<Work> {
        let f = &mut eng.folios[self.folio];
        // Referred to by somebody else, or truncated while it was not locked.
        if f.refcount() != f.expected_refs() || !f.any(Flags::OWNED | Flags::SWAPCACHE) {
            return self.keep(eng);
        }
        if !eng.clear_dirty(self.folio) {
            // Another task wrote it.
            return self.free(eng);
        }
        eng.folios[self.folio].set(Flags::RECLAIM);
        self.at = FolioStep::Write;
        Some(Work::Write { folio: self.folio })
    }

    pub(super) fn written(&mut self, eng: &mut Engine, w: Written) -> Option<Work> {
        let f = &mut eng.folios[self.folio];
        let n = f.nr_pages();
        let lruvec = f.lruvec();
        match w {
            Written::Activate => {
                f.clear(Flags::RECLAIM);
                eng.set_dirty(self.folio);
                return self.activate(eng);
            }
            Written::NoRoom => {
                f.clear(Flags::RECLAIM);
                eng.set_dirty(self.folio);
                return self.split(eng, SplitFor::Write);
            }
            Written::Failed => {
                eng.set_dirty(self.folio);
            }
            Written::Submitted => {}
        }
        eng.count(eng.memcg_of(lruvec), Counter::VmscanWrite, n as i64);
        self.stat.pageout += n;
        let f = &mut eng.folios[self.folio];
        if !f.has(Flags::WRITEBACK) {
            f.clear(Flags::RECLAIM);
        }
        if f.any(Flags::WRITEBACK | Flags::DIRTY) {
            f.clear(Flags::LOCKED);
            return self.keep_unlocked();
        }
        self.free(eng)
    }

    // ------------------------------------------------------------ steps 15 to 17

    pub(super) fn free(&mut self, eng: &mut Engine) -> Option<Work> {
        let f = &mut eng.folios[self.folio];
        // 15
        if f.has(Flags::PRIVATE) {
            return self.activate(eng);
        }
        let n = f.nr_pages();
        let lruvec = f.lruvec();
        let lazyfree = f.has(Flags::ANON) && !f.has(Flags::SWAPBACKED);
        if lazyfree {
            // 16
            if f.refcount() != 1 {
                return self.keep(eng);
            }
            eng.count(eng.memcg_of(lruvec), Counter::Pglazyfreed, n as i64);
            return self.reclaimed(eng, None);
        }
        if !f.any(Flags::OWNED | Flags::SWAPCACHE) {
            if f.refcount() == 1 {
                // Truncated, or its owner exited, meanwhile: nothing to remember.
                return self.reclaimed(eng, None);
            }
            return self.keep(eng);
        }
        // 17: nobody but the reclaimer and the slots may hold it; then it must be clean. In this
        // order, so that a writer that holds a reference is seen by one of the two tests.
        if f.refcount() != f.expected_refs() || f.has(Flags::DIRTY) {
            return self.keep(eng);
        }
        let shadow = eng.workingset_eviction(self.folio, self.target);
        self.reclaimed(eng, Some(shadow))
    }

    /// The folio is free: it joins the batch (`docs/rules/shrink-list.md#freeing`).
    pub(super) fn reclaimed(&mut self, eng: &mut Engine, shadow: Option<Shadow>) -> Option<Work> {
        let swap = eng.folios[self.folio].swap_slot();
        if swap.is_some() {
            eng.leave_swap_cache(self.folio);
        }
        let f = &mut eng.folios[self.folio];
        f.freeze();
        f.clear(Flags::LOCKED | Flags::DIRTY | Flags::RECLAIM);
        self.stat.reclaimed += f.nr_pages();
        let (object, index) = f.owner();
        self.freed.push(Freed {
            object,
            index,
            order: f.order(),
            owned: f.any(Flags::OWNED) || swap.is_some(),
            swap,
            shadow,
            lruvec: f.lruvec(),
        });
        self.free_ids.push(self.folio);
        self.decide(true);
        if self.free_ids.len() < eng.config().batch_size {
            self.at = FolioStep::Next;
            return None;
        }
        self.at = FolioStep::BatchFlushed;
        self.flush(eng, Counter::UnmapFlushFree)
    }

    /// Flushes everything pending, if anything is. `point` is counted.
    pub(super) fn flush(&mut self, eng: &mut Engine, point: Counter) -> Option<Work> {
        self.flush_writable = false;
        if std::mem::take(&mut self.flush_required) {
            eng.count_global(Counter::UnmapFlushFull, 1);
            eng.count_global(point, 1);
            return Some(Work::FlushTlb { for_write: false });
        }
        None
    }

    /// Flushes everything pending if one of the translations may be written through
    /// (`docs/rules/tlb.md#deferred-flush`).
    pub(super) fn flush_dirty(&mut self, eng: &mut Engine) -> Option<Work> {
        if std::mem::take(&mut self.flush_writable) {
            self.flush_required = false;
            eng.count_global(Counter::UnmapFlushDirty, 1);
            return Some(Work::FlushTlb { for_write: true });
        }
        None
    }

    /// Uncharges the batch and recycles its records; the host drops the contents next. False if there
    /// are none.
    pub(super) fn release(&mut self, eng: &mut Engine) -> bool {
        let any = !self.free_ids.is_empty();
        for id in self.free_ids.drain(..) {
            eng.folio_release(id);
        }
        any
    }

    /// Step 7, limit reclaim of cgroup v1. Nothing may stay half done over a sleep: folios that wait for a flush are
    /// written, those that wait to be freed are freed.
    pub(super) fn wait(&mut self, eng: &mut Engine) -> Option<Work> {
        if !self.batch.waiting.is_empty() {
            self.batch.before_wait = Some(self.folio);
            self.at = FolioStep::Relock;
            return None;
        }
        self.at = FolioStep::FreedBeforeWait;
        self.flush(eng, Counter::UnmapFlushEnd)
    }

    /// The input is through. It may grow again when the last batch is written: a writer without room
    /// has folios split. Then the list goes on; in version 1 as posted the pieces go to
    /// the caller as they are.
    pub(super) fn finish(&mut self, eng: &mut Engine) -> Option<Work> {
        if !self.batch.waiting.is_empty() {
            self.batch.last = eng.switches().batched_dirty_flush == DirtyFlush::Posted;
            self.at = FolioStep::Relock;
            return None;
        }
        self.at = FolioStep::EndFlushed;
        self.flush(eng, Counter::UnmapFlushEnd)
    }
}
