//! The path of one isolated folio: kept, activated, written or freed (`shrink-folio-list.md` 2).
//!
//! The steps are numbered as there. A list is worked through oldest first, one folio to its end
//! before the next, because a look-around or a flush for one folio changes what is found at the next.

use super::scan_control::ScanControl;
use super::work::{Answer, Freed, References, Work, Written};
use crate::batch::BATCH_MAX;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, LruvecId, MemcgId};
use crate::lruvec::Policy;
use crate::mglru::look_around::LookAround;
use crate::mglru::refs::set_refs;
use crate::switches::RefsModel;
use crate::workingset::Shadow;

/// What a list came to, in base pages (`shrink-folio-list.md` 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReclaimStat {
    /// File pages dirty or under writeback.
    pub dirty: u64,
    /// File pages dirty and not under writeback.
    pub unqueued_dirty: u64,
    /// File pages under writeback, met again.
    pub congested: u64,
    /// Pages under writeback, met for the first time.
    pub writeback: u64,
    /// Pages under writeback, met again by kswapd on a flagged node.
    pub immediate: u64,
    /// Pages submitted by pageout.
    pub pageout: u64,
    /// Activated, by type.
    pub activate: [u64; 2],
    /// Kept because referenced.
    pub ref_keep: u64,
    /// Could not be unmapped.
    pub unmap_fail: u64,
    /// Lazily freeable pages that had been written again.
    pub lazyfree_fail: u64,
    /// Freed.
    pub reclaimed: u64,
}

/// Where the folio at hand stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// Take the next folio.
    Next,
    /// Step 8, waiting for the reverse map.
    Test,
    /// Step 10d, waiting for a swap slot.
    Slot,
    /// Step 12, waiting for the unmap.
    Unmap,
    /// Step 14, after the flush.
    Flushed,
    /// Step 14, waiting for the writer.
    Write,
    /// Step 7 case 3: the batch is freed before the wait.
    FreedBeforeWait,
    /// Step 7 case 3: ready to wait.
    Wait,
    /// Step 7 case 3, after the wait.
    Waited,
    /// Step 4.2, the batch is full: flush done.
    BatchFlushed,
    /// Step 4.2, the host has dropped the batch.
    BatchFreed,
    /// The end of the list: flush done, last batch to free.
    EndFlushed,
    /// The end.
    End,
}

/// Decision of step 8.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Reclaim,
    ReclaimClean,
    Keep,
    Activate,
}

/// A list on its way through.
#[derive(Clone, Debug)]
pub(crate) struct ShrinkList {
    /// Folios to work on, oldest first.
    pub(crate) input: Vec<FolioId>,
    next: usize,
    /// Survivors in the order in which they were decided.
    pub(crate) ret: Vec<FolioId>,
    /// What the current [`Work::Free`] is about.
    pub(crate) freed: Vec<Freed>,
    free_ids: Vec<FolioId>,
    pub(crate) stat: ReclaimStat,
    at: At,
    folio: FolioId,
    references_clean: bool,
    flush_required: bool,
    flush_writable: bool,
    ignore_references: bool,
    /// Memcg whose limit is reclaimed: it keeps the shadows' clock.
    target: Option<MemcgId>,
    /// A swap slot the host must take back before anything else.
    free_slot: Option<(FolioId, u32)>,
}

impl Default for ShrinkList {
    fn default() -> Self {
        Self {
            input: Vec::new(),
            next: 0,
            ret: Vec::new(),
            freed: Vec::with_capacity(BATCH_MAX),
            free_ids: Vec::with_capacity(BATCH_MAX),
            stat: ReclaimStat::default(),
            at: At::End,
            folio: FolioId::NONE,
            references_clean: false,
            flush_required: false,
            flush_writable: false,
            ignore_references: false,
            target: None,
            free_slot: None,
        }
    }
}

impl ShrinkList {
    /// Begins a list: `input` has been filled, oldest first.
    pub(crate) fn begin(&mut self, target: Option<MemcgId>, ignore_references: bool) {
        debug_assert!(self.at == At::End && self.freed.is_empty());
        self.next = 0;
        self.ret.clear();
        self.stat = ReclaimStat::default();
        self.at = At::Next;
        self.ignore_references = ignore_references;
        self.target = target;
    }

    /// Goes on. `None`: the list is through, survivors are in `ret`.
    pub(crate) fn step(
        &mut self,
        eng: &mut Engine,
        sc: &mut ScanControl,
        answer: &mut Option<Answer>,
    ) -> Option<Work> {
        loop {
            if let Some((folio, slot)) = self.free_slot.take() {
                return Some(Work::FreeSwap { folio, slot });
            }
            let work = match self.at {
                At::Next => match self.input.get(self.next) {
                    Some(&id) => {
                        self.next += 1;
                        self.folio = id;
                        self.enter(eng, sc)
                    }
                    None => self.finish(eng),
                },
                At::FreedBeforeWait => {
                    self.release(eng);
                    self.at = At::Wait;
                    (!self.freed.is_empty()).then_some(Work::Free)
                }
                At::Wait => {
                    self.freed.clear();
                    self.at = At::Waited;
                    Some(Work::WaitWriteback { folio: self.folio })
                }
                At::Waited => self.enter(eng, sc),
                At::Test => match answer.take() {
                    Some(Answer::References(r)) => self.referenced(eng, sc, r),
                    other => return Some(self.again(other, self.test_work(eng, sc))),
                },
                At::Slot => match answer.take() {
                    Some(Answer::Slot(slot)) => self.slot_given(eng, sc, slot),
                    other => return Some(self.again(other, Work::AllocSwap { folio: self.folio })),
                },
                At::Unmap => match answer.take() {
                    Some(Answer::Unmapped { deferred, writable }) => {
                        self.flush_required |= deferred;
                        self.flush_writable |= deferred && writable;
                        self.unmapped(eng, sc)
                    }
                    other => return Some(self.again(other, Work::Unmap { folio: self.folio })),
                },
                At::Flushed => self.pageout(eng),
                At::Write => match answer.take() {
                    Some(Answer::Written(w)) => self.written(eng, w),
                    other => return Some(self.again(other, Work::Write { folio: self.folio })),
                },
                At::BatchFlushed => {
                    self.release(eng);
                    self.at = At::BatchFreed;
                    Some(Work::Free)
                }
                At::BatchFreed => {
                    self.freed.clear();
                    self.at = At::Next;
                    None
                }
                At::EndFlushed => {
                    if self.freed.is_empty() {
                        self.at = At::End;
                        None
                    } else {
                        self.release(eng);
                        self.at = At::End;
                        Some(Work::Free)
                    }
                }
                At::End => {
                    self.freed.clear();
                    self.input.clear();
                    let activated: u64 = self.stat.activate.iter().sum();
                    eng.vm.add(Counter::Pgactivate, activated as i64);
                    return None;
                }
            };
            if work.is_some() {
                return work;
            }
        }
    }

    /// The task is killed while it waits for a folio's writeback: everything isolated goes back.
    pub(crate) fn abandon(&mut self, eng: &mut Engine, cpu: u16) {
        if self.at == At::End {
            return;
        }
        debug_assert!(
            self.at == At::Waited && self.free_ids.is_empty(),
            "killed at {:?}",
            self.at
        );
        let mut back = std::mem::take(&mut self.ret);
        back.push(self.folio);
        back.extend_from_slice(&self.input[self.next..]);
        let lruvec = eng.folios[self.folio].lruvec;
        eng.put_back(cpu, lruvec, &back);
        self.input.clear();
        self.freed.clear();
        self.at = At::End;
    }

    /// An unanswered request is repeated.
    fn again(&self, other: Option<Answer>, work: Work) -> Work {
        assert!(other.is_none(), "answer {other:?} does not fit {work:?}");
        work
    }

    // ------------------------------------------------------------ exits of one folio

    /// Back on the list, never locked by us.
    fn keep_unlocked(&mut self) -> Option<Work> {
        self.ret.push(self.folio);
        self.at = At::Next;
        None
    }

    /// Unlock, back on the list.
    fn keep(&mut self, eng: &mut Engine) -> Option<Work> {
        eng.folios[self.folio].word.clear(Flags::LOCKED);
        self.keep_unlocked()
    }

    /// Section 3: activate, then keep.
    fn activate(&mut self, eng: &mut Engine) -> Option<Work> {
        let f = &eng.folios[self.folio];
        let (lruvec, n, t) = (f.lruvec, f.nr_pages(), f.lru_type());
        let memcg = eng.lruvecs[lruvec.idx()].memcg;
        let mlocked = f.has(Flags::MLOCKED);
        if let Some(slot) = f.swap_slot() {
            let full = eng.memcgs.swap_full(memcg, eng.swap_free, eng.swap_total);
            // A slot under I/O cannot be taken back, nor one that page tables refer to since the
            // unmap.
            if (full || mlocked) && f.mapped() && !f.has(Flags::WRITEBACK) {
                eng.leave_swap_cache(self.folio);
                eng.folios[self.folio].word.set(Flags::DIRTY);
                self.free_slot = Some((self.folio, slot));
            }
        }
        if !mlocked {
            eng.folios[self.folio].word.set(Flags::ACTIVE);
            self.stat.activate[t.idx()] += n;
            eng.memcgs.count(memcg, Counter::Pgactivate, n as i64);
        }
        self.keep(eng)
    }

    // ------------------------------------------------------------ steps 1 to 8

    fn enter(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<Work> {
        let v612 = eng.sw.is_612();
        let f = &mut eng.folios[self.folio];
        // 1
        if f.has(Flags::LOCKED) {
            return self.keep_unlocked();
        }
        f.word.set(Flags::LOCKED);
        let n = f.nr_pages();
        // 2: poisoned memory never goes back into use.
        if f.has(Flags::POISONED) {
            return self.keep(eng);
        }
        // 3
        sc.nr_scanned += n;
        // 4
        if !f.evictable() {
            return self.activate(eng);
        }
        // 5
        if !sc.may_unmap && f.mapped() {
            return self.keep(eng);
        }
        let mglru = matches!(eng.lruvecs[f.lruvec.idx()].policy, Policy::MultiGen(_));
        if v612 && mglru && !self.ignore_references && f.mapped() && f.has(Flags::REFERENCED) {
            return self.keep(eng);
        }
        // 6
        let writeback = f.has(Flags::WRITEBACK);
        let dirty = f.has(Flags::DIRTY);
        let lazyfree = f.has(Flags::ANON) && !f.has(Flags::SWAPBACKED);
        let memcg = eng.lruvecs[f.lruvec.idx()].memcg;
        if f.lru_type() == LruType::File && !lazyfree {
            if dirty || writeback {
                self.stat.dirty += n;
            }
            if dirty && !writeback {
                self.stat.unqueued_dirty += n;
                eng.memcgs.count(memcg, Counter::UnqueuedDirty, n as i64);
            }
            if writeback && f.has(Flags::RECLAIM) {
                self.stat.congested += n;
            }
        }
        // 7
        if writeback {
            eng.memcgs.count(memcg, Counter::WritebackSeen, n as i64);
            let f = &mut eng.folios[self.folio];
            let node = eng.lruvecs[f.lruvec.idx()].node;
            let marked = f.has(Flags::RECLAIM);
            if sc.is_kswapd() && marked && eng.nodes[node.idx()].flag_writeback {
                self.stat.immediate += n;
                return self.activate(eng);
            }
            let sane = sc.target.is_none() || eng.cfg.cgroup_v2;
            let f = &mut eng.folios[self.folio];
            if sane
                || !marked
                || !may_enter_fs(sc, f.has(Flags::SWAPCACHE), eng.cfg.swap_synchronous)
            {
                f.word.set(Flags::RECLAIM);
                self.stat.writeback += n;
                eng.memcgs.count(memcg, Counter::DirtyReactivated, n as i64);
                return self.activate(eng);
            }
            f.word.clear(Flags::LOCKED);
            // Nothing may stay half freed over a sleep.
            self.at = At::FreedBeforeWait;
            return self.flush(eng);
        }
        // 8
        self.references_clean = false;
        if self.ignore_references {
            return self.after_references(eng, sc);
        }
        if eng.folios[self.folio].mapped() {
            self.at = At::Test;
            return Some(self.test_work(eng, sc));
        }
        self.referenced(eng, sc, References::default())
    }

    fn test_work(&self, eng: &Engine, sc: &ScanControl) -> Work {
        let lruvec = eng.folios[self.folio].lruvec;
        Work::Test {
            folio: self.folio,
            target: sc.target,
            look_around: look_around(eng, sc, lruvec),
        }
    }

    /// Section 2.1.
    fn referenced(
        &mut self,
        eng: &mut Engine,
        sc: &mut ScanControl,
        r: References,
    ) -> Option<Work> {
        let v612 = eng.sw.is_612();
        let f = &mut eng.folios[self.folio];
        let n = f.nr_pages();
        let file = f.lru_type() == LruType::File;
        let verdict = if r.locked {
            Verdict::Activate
        } else if r.unknown {
            Verdict::Keep
        } else {
            match eng.lruvecs[f.lruvec.idx()].policy {
                Policy::MultiGen(_) if !v612 => {
                    if r.accessed > 0 && r.exec && file && eng.sw.refs_model == RefsModel::V614Exec
                    {
                        f.word.set(Flags::WORKINGSET);
                    }
                    if r.accessed == 0 {
                        Verdict::Reclaim
                    } else if set_refs(&mut f.word) {
                        Verdict::Activate
                    } else {
                        Verdict::Keep
                    }
                }
                _ => {
                    let marked = f.word.test_clear(Flags::REFERENCED);
                    if r.accessed > 0 {
                        f.word.set(Flags::REFERENCED);
                        if marked || r.accessed > 1 || (r.exec && file) {
                            Verdict::Activate
                        } else {
                            Verdict::Keep
                        }
                    } else if marked && file {
                        Verdict::ReclaimClean
                    } else {
                        Verdict::Reclaim
                    }
                }
            }
        };
        match verdict {
            Verdict::Activate => self.activate(eng),
            Verdict::Keep => {
                self.stat.ref_keep += n;
                self.keep(eng)
            }
            Verdict::Reclaim | Verdict::ReclaimClean => {
                self.references_clean = verdict == Verdict::ReclaimClean;
                self.after_references(eng, sc)
            }
        }
    }

    // ------------------------------------------------------------ steps 10 to 13

    fn after_references(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<Work> {
        let f = &eng.folios[self.folio];
        if f.has(Flags::ANON | Flags::SWAPBACKED) && !f.has(Flags::SWAPCACHE) {
            if f.refcount == 1 {
                return self.free(eng);
            }
            if !f.mapped() && !f.has(Flags::OWNED) {
                // Its process has exited; a batch or a reader holds it for a moment. With a swap
                // slot it would outlive them, belonging to nobody.
                return self.keep(eng);
            }
            if !sc.io || f.has(Flags::PINNED) {
                return self.keep(eng);
            }
            self.at = At::Slot;
            return Some(Work::AllocSwap { folio: self.folio });
        }
        self.unmap(eng, sc)
    }

    /// 10d and 11. Large folios need a run of slots; without one they are activated: splitting
    /// needs the host's page tables and is not done here.
    fn slot_given(
        &mut self,
        eng: &mut Engine,
        sc: &mut ScanControl,
        slot: Option<u32>,
    ) -> Option<Work> {
        let Some(slot) = slot else {
            let f = &eng.folios[self.folio];
            if f.order >= 9 {
                let lruvec = f.lruvec;
                eng.count_event(lruvec, Counter::ThpSwpoutFallback, 1);
            }
            return self.activate(eng);
        };
        eng.enter_swap_cache(self.folio, slot);
        eng.folios[self.folio].word.set(Flags::DIRTY);
        self.unmap(eng, sc)
    }

    fn unmap(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<Work> {
        if eng.folios[self.folio].mapped() {
            self.at = At::Unmap;
            return Some(Work::Unmap { folio: self.folio });
        }
        self.dirty_check(eng, sc)
    }

    fn unmapped(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<Work> {
        let f = &eng.folios[self.folio];
        if f.mapped() {
            let n = f.nr_pages();
            self.stat.unmap_fail += n;
            if f.has(Flags::ANON | Flags::SWAPBACKED) && !f.has(Flags::SWAPCACHE) {
                self.stat.lazyfree_fail += n;
            }
            return self.activate(eng);
        }
        self.dirty_check(eng, sc)
    }

    /// 13 and 14 up to the write.
    fn dirty_check(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<Work> {
        let f = &mut eng.folios[self.folio];
        if f.has(Flags::PINNED) {
            return self.activate(eng);
        }
        let lazyfree = f.has(Flags::ANON) && !f.has(Flags::SWAPBACKED);
        if !f.has(Flags::DIRTY) || lazyfree {
            return self.free(eng);
        }
        let n = f.nr_pages();
        if f.lru_type() == LruType::File {
            let node = eng.lruvecs[f.lruvec.idx()].node;
            let write = eng.sw.file_writeback_from_reclaim
                && sc.is_kswapd()
                && f.has(Flags::RECLAIM)
                && eng.nodes[node.idx()].flag_dirty;
            if !write {
                f.word.set(Flags::RECLAIM);
                let lruvec = f.lruvec;
                eng.vm.add(Counter::VmscanImmediate, n as i64);
                let memcg = eng.lruvecs[lruvec.idx()].memcg;
                eng.memcgs.count(memcg, Counter::VmscanImmediate, n as i64);
                eng.memcgs.count(memcg, Counter::DirtyReactivated, n as i64);
                return self.activate(eng);
            }
        }
        let f = &eng.folios[self.folio];
        if eng.sw.file_writeback_from_reclaim && self.references_clean {
            return self.keep(eng);
        }
        if !may_enter_fs(sc, f.has(Flags::SWAPCACHE), eng.cfg.swap_synchronous) || !sc.may_writepage
        {
            return self.keep(eng);
        }
        self.at = At::Flushed;
        if std::mem::take(&mut self.flush_writable) {
            self.flush_required = false;
            eng.vm.add(Counter::UnmapFlushDirty, 1);
            return Some(Work::FlushTlb { for_write: true });
        }
        None
    }

    /// Section 6.
    fn pageout(&mut self, eng: &mut Engine) -> Option<Work> {
        let f = &mut eng.folios[self.folio];
        if f.refcount != f.expected_refs() {
            return self.keep(eng);
        }
        if !eng.clear_dirty(self.folio) {
            // Somebody else wrote it.
            return self.free(eng);
        }
        eng.folios[self.folio].word.set(Flags::RECLAIM);
        self.at = At::Write;
        Some(Work::Write { folio: self.folio })
    }

    fn written(&mut self, eng: &mut Engine, w: Written) -> Option<Work> {
        let f = &mut eng.folios[self.folio];
        let n = f.nr_pages();
        let lruvec = f.lruvec;
        match w {
            Written::Activate => {
                f.word.clear(Flags::RECLAIM);
                eng.set_dirty(self.folio);
                return self.activate(eng);
            }
            Written::Failed => {
                eng.set_dirty(self.folio);
            }
            Written::Submitted => {}
        }
        eng.count_event(lruvec, Counter::VmscanWrite, n as i64);
        self.stat.pageout += n;
        let f = &mut eng.folios[self.folio];
        if !f.has(Flags::WRITEBACK) {
            f.word.clear(Flags::RECLAIM);
        }
        if f.any(Flags::WRITEBACK | Flags::DIRTY) {
            f.word.clear(Flags::LOCKED);
            return self.keep_unlocked();
        }
        self.free(eng)
    }

    // ------------------------------------------------------------ steps 15 to 17

    fn free(&mut self, eng: &mut Engine) -> Option<Work> {
        let f = &mut eng.folios[self.folio];
        // 15
        if f.has(Flags::PRIVATE) {
            return self.activate(eng);
        }
        let n = f.nr_pages();
        let lruvec = f.lruvec;
        let lazyfree = f.has(Flags::ANON) && !f.has(Flags::SWAPBACKED);
        if lazyfree {
            // 16
            if f.refcount != 1 {
                return self.keep(eng);
            }
            eng.count_event(lruvec, Counter::Pglazyfreed, n as i64);
            return self.reclaimed(eng, None);
        }
        if !f.any(Flags::OWNED | Flags::SWAPCACHE) {
            if f.refcount == 1 {
                // Truncated, or its owner exited, meanwhile: nothing to remember.
                return self.reclaimed(eng, None);
            }
            return self.keep(eng);
        }
        // 17: nobody but the reclaimer and the slots may hold it; then it must be clean. In this
        // order, so that a writer that holds a reference is seen by one of the two tests.
        if f.refcount != f.expected_refs() || f.has(Flags::DIRTY) {
            return self.keep(eng);
        }
        let shadow = eng.workingset_eviction(self.folio, self.target);
        self.reclaimed(eng, Some(shadow))
    }

    /// Section 4.2.
    fn reclaimed(&mut self, eng: &mut Engine, shadow: Option<Shadow>) -> Option<Work> {
        let swap = eng.folios[self.folio].swap_slot();
        if swap.is_some() {
            eng.leave_swap_cache(self.folio);
        }
        let f = &mut eng.folios[self.folio];
        f.refcount = 0;
        f.word.clear(Flags::LOCKED | Flags::DIRTY | Flags::RECLAIM);
        self.stat.reclaimed += f.nr_pages();
        self.freed.push(Freed {
            object: f.object,
            index: f.index,
            order: f.order,
            owned: f.any(Flags::OWNED) || swap.is_some(),
            swap,
            shadow,
            lruvec: f.lruvec,
        });
        self.free_ids.push(self.folio);
        if self.free_ids.len() < BATCH_MAX {
            self.at = At::Next;
            return None;
        }
        self.at = At::BatchFlushed;
        self.flush(eng)
    }

    /// Flushes everything pending, if anything is.
    fn flush(&mut self, eng: &mut Engine) -> Option<Work> {
        self.flush_writable = false;
        if std::mem::take(&mut self.flush_required) {
            eng.vm.add(Counter::UnmapFlushFull, 1);
            return Some(Work::FlushTlb { for_write: false });
        }
        None
    }

    /// Uncharges the batch and recycles its records; the host drops the contents next.
    fn release(&mut self, eng: &mut Engine) {
        for id in self.free_ids.drain(..) {
            eng.folio_release(id);
        }
    }

    /// Section 4.3.
    fn finish(&mut self, eng: &mut Engine) -> Option<Work> {
        self.at = At::EndFlushed;
        self.flush(eng)
    }
}

/// File-system calls are allowed for this folio (`shrink-folio-list.md` 2, step 7).
fn may_enter_fs(sc: &ScanControl, swap_cache: bool, swap_synchronous: bool) -> bool {
    sc.fs || (swap_cache && sc.io && !swap_synchronous)
}

/// Multi-gen reverse-map visits look around.
pub(crate) fn look_around(eng: &Engine, sc: &ScanControl, lruvec: LruvecId) -> Option<LookAround> {
    matches!(eng.lruvecs[lruvec.idx()].policy, Policy::MultiGen(_)).then_some(LookAround {
        lruvec,
        walk_context: sc.walk_context && eng.sw.page_table_walk,
    })
}
