//! The path of one isolated folio up to the decision to write or free it (`docs/rules/shrink-list.md#steps`). Comments
//! number the steps of this path, 1 to 17; the table there names the same tests, some of them together.

use super::scan_control::ScanControl;
use super::shrink_list::{FolioStep, ShrinkList};
use super::split::SplitFor;
use super::work::{References, Work};
use crate::classic::references;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{LruType, LruvecId};
use crate::lruvec::LruvecLists;
use crate::mglru::mms::LookAround;
use crate::rules::Fate;
use crate::switches::DirtyFlush;

impl ShrinkList {
    /// Steps 1 to 8: what keeps it without a look at who uses it.
    pub(super) fn enter(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<Work> {
        let f = &mut eng.folios[self.folio];
        // 1
        if f.has(Flags::LOCKED) {
            return self.keep_unlocked();
        }
        f.set(Flags::LOCKED);
        let n = f.nr_pages();
        // 2
        if f.has(Flags::POISONED) {
            return self.poisoned(eng);
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
        let mglru = matches!(eng.lruvecs[f.lruvec()].lists, LruvecLists::MultiGen(_));
        if mglru
            && !self.ignore_references
            && f.mapped()
            && (eng.rules.kernel.kept_unasked)(f.word())
        {
            return self.keep(eng);
        }
        // 6
        let writeback = f.has(Flags::WRITEBACK);
        let dirty = f.has(Flags::DIRTY);
        let lazyfree = f.has(Flags::ANON) && !f.has(Flags::SWAPBACKED);
        let memcg = eng.lruvecs[f.lruvec()].memcg;
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
            let node = eng.lruvecs[f.lruvec()].node;
            let marked = f.has(Flags::RECLAIM);
            if sc.is_kswapd() && marked && eng.nodes[node.idx()].flag_writeback {
                self.stat.immediate += n;
                return self.activate(eng);
            }
            let sane = sc.target.is_none() || eng.config().cgroup_v2;
            let synchronous = eng.config().swap_synchronous;
            let f = &mut eng.folios[self.folio];
            if sane || !marked || !may_enter_fs(sc, f.has(Flags::SWAPCACHE), synchronous) {
                f.set(Flags::RECLAIM);
                self.stat.writeback += n;
                eng.memcgs.count(memcg, Counter::DirtyReactivated, n as i64);
                return self.activate(eng);
            }
            f.clear(Flags::LOCKED);
            return self.wait(eng);
        }
        // 8
        self.references_clean = false;
        if self.ignore_references {
            return self.after_references(eng, sc);
        }
        if eng.folios[self.folio].mapped() {
            self.at = FolioStep::Test;
            return Some(self.test_work(eng, sc));
        }
        self.referenced(eng, sc, References::default())
    }

    /// Step 2: poisoned memory is of no use to anybody. A small folio leaves the lists for good; it
    /// belongs to the tasks that hold it, and in the end to none. Of a large one some pages are good.
    fn poisoned(&mut self, eng: &mut Engine) -> Option<Work> {
        let f = &mut eng.folios[self.folio];
        if f.order() > 0 {
            return self.keep(eng);
        }
        f.clear(Flags::ACTIVE);
        if f.mapped() {
            self.asked_to_unmap = true;
            self.at = FolioStep::Poisoned;
            return Some(Work::Unmap { folio: self.folio });
        }
        self.at = FolioStep::Drop;
        None
    }

    pub(super) fn test_work(&self, eng: &Engine, sc: &ScanControl) -> Work {
        let lruvec = eng.folios[self.folio].lruvec();
        Work::Test {
            folio: self.folio,
            target: sc.target,
            look_around: look_around(eng, sc, lruvec),
        }
    }

    /// Who uses it (`docs/rules/shrink-list.md#references`).
    pub(super) fn referenced(
        &mut self,
        eng: &mut Engine,
        sc: &mut ScanControl,
        r: References,
    ) -> Option<Work> {
        let f = &mut eng.folios[self.folio];
        let n = f.nr_pages();
        let fate = if r.locked {
            Fate::Activate
        } else if r.unknown {
            Fate::Keep
        } else {
            let t = f.lru_type();
            match eng.lruvecs[f.lruvec()].lists {
                LruvecLists::MultiGen(_) => {
                    let [joins, _] = eng.rules.kernel.executable_joins;
                    if joins && r.accessed > 0 && r.exec && t == LruType::File {
                        f.set(Flags::WORKINGSET);
                    }
                    (eng.rules.kernel.referenced)(f.word_mut(), r, t)
                }
                LruvecLists::Classic(_) => references::referenced(f.word_mut(), r, t),
                LruvecLists::List(_) if r.accessed > 0 => {
                    eng.list_referenced(self.folio);
                    Fate::Keep
                }
                LruvecLists::List(_) => Fate::Reclaim,
            }
        };
        match fate {
            Fate::Activate => self.activate(eng),
            Fate::Keep => {
                self.stat.ref_keep += n;
                self.keep(eng)
            }
            Fate::Reclaim | Fate::ReclaimClean => {
                self.references_clean = fate == Fate::ReclaimClean;
                self.after_references(eng, sc)
            }
        }
    }

    fn after_references(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<Work> {
        if !eng.folios[self.folio].mapped() {
            self.undecide();
        }
        let f = &eng.folios[self.folio];
        if f.has(Flags::ANON | Flags::SWAPBACKED) && !f.has(Flags::SWAPCACHE) {
            return self.take_slot(eng, sc);
        }
        self.unmap(eng, sc)
    }

    /// 10 up to the swap slot.
    pub(super) fn take_slot(&mut self, eng: &mut Engine, sc: &ScanControl) -> Option<Work> {
        let f = &eng.folios[self.folio];
        if f.refcount() == 1 {
            return self.free(eng);
        }
        if !f.mapped() && !f.has(Flags::OWNED) {
            // Its process has exited; a batch or a reader holds it for a moment. With a swap slot
            // it would outlive them, belonging to nobody.
            return self.keep(eng);
        }
        if !sc.io || f.has(Flags::PINNED) {
            return self.keep(eng);
        }
        if f.order() > 0 {
            if !eng.folios.can_split(self.folio) {
                return self.activate(eng);
            }
            if f.has(Flags::PARTIALLY_MAPPED) {
                return self.split(eng, SplitFor::Unmapped);
            }
        }
        self.at = FolioStep::Slot;
        Some(Work::AllocSwap { folio: self.folio })
    }

    /// 10d. A large folio needs a run of slots for all of it.
    pub(super) fn slot_given(
        &mut self,
        eng: &mut Engine,
        sc: &mut ScanControl,
        slot: Option<u32>,
    ) -> Option<Work> {
        let Some(slot) = slot else {
            if eng.folios[self.folio].order() > 0 {
                return self.split(eng, SplitFor::Slots);
            }
            return self.activate(eng);
        };
        eng.enter_swap_cache(self.folio, slot);
        eng.folios[self.folio].set(Flags::DIRTY);
        self.unmap(eng, sc)
    }

    fn unmap(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<Work> {
        if eng.folios[self.folio].mapped() {
            self.asked_to_unmap = true;
            self.at = FolioStep::Unmap;
            return Some(Work::Unmap { folio: self.folio });
        }
        self.dirty_check(eng, sc)
    }

    pub(super) fn unmapped(&mut self, eng: &mut Engine, sc: &mut ScanControl) -> Option<Work> {
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
            let node = eng.lruvecs[f.lruvec()].node;
            let write = eng.rules.series.kswapd_writes_files()
                && sc.is_kswapd()
                && f.has(Flags::RECLAIM)
                && eng.nodes[node.idx()].flag_dirty;
            if !write {
                f.set(Flags::RECLAIM);
                let lruvec = f.lruvec();
                eng.count_global(Counter::VmscanImmediate, n as i64);
                let memcg = eng.memcg_of(lruvec);
                eng.memcgs.count(memcg, Counter::VmscanImmediate, n as i64);
                eng.memcgs.count(memcg, Counter::DirtyReactivated, n as i64);
                return self.activate(eng);
            }
        }
        let f = &eng.folios[self.folio];
        if eng.rules.series.kswapd_writes_files() && self.references_clean {
            return self.keep(eng);
        }
        if !may_enter_fs(sc, f.has(Flags::SWAPCACHE), eng.config().swap_synchronous)
            || !sc.may_writepage
        {
            return self.keep(eng);
        }
        if eng.switches().batched_dirty_flush != DirtyFlush::Off {
            return self.queue_dirty(eng);
        }
        self.at = FolioStep::Flushed;
        self.flush_dirty(eng)
    }
}

/// File-system calls are allowed for this folio (step 7).
fn may_enter_fs(sc: &ScanControl, swap_cache: bool, swap_synchronous: bool) -> bool {
    sc.fs || (swap_cache && sc.io && !swap_synchronous)
}

/// Multi-gen reverse-map visits look around.
pub(crate) fn look_around(eng: &Engine, sc: &ScanControl, lruvec: LruvecId) -> Option<LookAround> {
    matches!(eng.lruvecs[lruvec].lists, LruvecLists::MultiGen(_)).then_some(LookAround {
        lruvec,
        walk_context: sc.walk_context && eng.switches().page_table_walk,
    })
}
