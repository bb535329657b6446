//! Draining batches: relock rule, the change of each kind, dead folios, mlock
//! (`docs/rules/batches.md`).

use super::{Batch, BatchOp, MlockOp};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruvecId};
use crate::lruvec::LruvecLists;
use crate::mglru::refs::clear_refs;

/// Counts acquisitions: the lock is kept while consecutive folios share an lruvec.
struct Relock(LruvecId);

impl Relock {
    #[inline]
    fn take(&mut self, eng: &mut Engine, lruvec: LruvecId) {
        if self.0 != lruvec {
            eng.meter.lock(lruvec);
            eng.memcgs
                .count(eng.memcg_of(lruvec), Counter::LruLockAcq, 1);
            self.0 = lruvec;
        }
    }
}

impl Engine {
    /// Applies everything that waits on `cpu`.
    #[inline]
    pub fn lru_add_drain(&mut self, cpu: u16) {
        if self.batches.used(cpu) {
            self.drain_cpu(cpu);
        }
    }

    fn drain_cpu(&mut self, cpu: u16) {
        for op in BatchOp::ALL {
            if !self.batches.waiting(cpu, op).is_empty() {
                self.drain_op(cpu, op);
            }
        }
        self.drain_mlock(cpu);
        self.batches.drained(cpu);
    }

    /// Applies everything that waits on any CPU.
    pub fn lru_add_drain_all(&mut self) {
        for cpu in 0..self.config().nr_cpus as u16 {
            self.lru_add_drain(cpu);
        }
    }

    /// Applies one batch.
    pub(super) fn drain_op(&mut self, cpu: u16, op: BatchOp) {
        let mut batch = self.batches.take(cpu, op);
        if op == BatchOp::Add {
            self.count_dead_locks(&batch);
            if self.switches().drop_dead_on_drain {
                self.free_dead(&mut batch);
            }
        }
        let mut held = Relock(LruvecId::NONE);
        for &id in &batch {
            let lruvec = self.folios[id].lruvec();
            match op {
                BatchOp::Add => {
                    held.take(self, lruvec);
                    self.drain_add(id);
                }
                _ => {
                    // The task that isolated it meanwhile owns it now.
                    if !self.folios[id].test_clear(Flags::LRU) {
                        continue;
                    }
                    held.take(self, lruvec);
                    match op {
                        BatchOp::MoveTail => self.drain_move_tail(id),
                        BatchOp::DeactivateFile => self.drain_deactivate_file(id),
                        BatchOp::Deactivate => self.drain_deactivate(id),
                        BatchOp::LazyFree => self.drain_lazyfree(id),
                        BatchOp::Activate | BatchOp::Add => self.drain_activate(id),
                    }
                    self.folios[id].set(Flags::LRU);
                }
            }
        }
        self.put_batch(&batch, op);
    }

    /// What dead folios cost in acquisitions: runs of equal lruvec over all folios, plus those over
    /// the dead when they are taken off again, minus those over the living.
    fn count_dead_locks(&mut self, batch: &[FolioId]) {
        let dead = |id: FolioId| self.folios[id].refcount() == 1;
        let Some(&first) = batch.iter().find(|&&id| dead(id)) else {
            return;
        };
        let runs = |take: &dyn Fn(FolioId) -> bool| {
            let mut held = LruvecId::NONE;
            let mut runs = 0;
            for &id in batch.iter().filter(|&&id| take(id)) {
                let lruvec = self.folios[id].lruvec();
                runs += i64::from(std::mem::replace(&mut held, lruvec) != lruvec);
            }
            runs
        };
        let cost = runs(&|_| true) + runs(&dead) - runs(&|id| !dead(id));
        let memcg = self.lruvecs[self.folios[first].lruvec()].memcg;
        self.memcgs.count(memcg, Counter::DeadLockAcq, cost);
    }

    /// Drops the batch's references; folios that nobody else holds are taken off their lists and
    /// freed.
    fn put_batch(&mut self, batch: &[FolioId], op: BatchOp) {
        let mut held = Relock(LruvecId::NONE);
        for &id in batch {
            let f = &mut self.folios[id];
            if !f.put(1) {
                continue;
            }
            if f.has(Flags::LRU) {
                let lruvec = f.lruvec();
                held.take(self, lruvec);
                self.lruvec_del(id, false);
                if op == BatchOp::Add {
                    self.count_add_op(lruvec);
                }
            }
            self.folios[id].clear(Flags::LRU | Flags::ACTIVE | Flags::UNEVICTABLE);
            self.folio_release(id);
        }
    }

    /// The dead-folio filter (`docs/rules/batches.md#dead-folios`): folios whose last user has gone never reach a
    /// list.
    fn free_dead(&mut self, batch: &mut Batch) {
        let mut dead: Batch = Batch::new();
        batch.retain(|id| {
            let f = &mut self.folios[*id];
            if f.refcount() != 1 {
                return true;
            }
            f.clear(Flags::ACTIVE | Flags::UNEVICTABLE);
            dead.push(*id);
            false
        });
        for id in dead {
            let lruvec = self.folios[id].lruvec();
            self.count_drained(lruvec, true);
            let memcg = self.memcg_of(lruvec);
            self.memcgs.count(memcg, Counter::DeadFiltered, 1);
            self.folios[id].freeze();
            self.folio_release(id);
        }
    }

    /// Counts what a drain meets, whether dead folios are filtered or not.
    fn count_drained(&mut self, lruvec: LruvecId, dead: bool) {
        let memcg = self.memcg_of(lruvec);
        self.memcgs.count(memcg, Counter::LruAddDrained, 1);
        if dead {
            self.memcgs.count(memcg, Counter::DeadAtAdd, 1);
        }
    }

    fn count_add_op(&mut self, lruvec: LruvecId) {
        let memcg = self.memcg_of(lruvec);
        self.memcgs.count(memcg, Counter::LruAddListOps, 1);
    }

    fn drain_add(&mut self, id: FolioId) {
        let f = &mut self.folios[id];
        let (lruvec, n) = (f.lruvec(), f.nr_pages() as i64);
        let dead = f.refcount() == 1;
        let was_unevictable = f.test_clear(Flags::UNEVICTABLE);
        self.count_drained(lruvec, dead);
        let f = &mut self.folios[id];
        if f.evictable() {
            if was_unevictable {
                self.count(self.memcg_of(lruvec), Counter::UnevictableRescued, n);
            }
        } else {
            f.clear(Flags::ACTIVE);
            f.set(Flags::UNEVICTABLE);
            if !was_unevictable {
                self.count(self.memcg_of(lruvec), Counter::UnevictableCulled, n);
            }
        }
        self.lruvec_add(id, false);
        self.count_add_op(lruvec);
        self.folios[id].set(Flags::LRU);
    }

    fn drain_move_tail(&mut self, id: FolioId) {
        if self.folios[id].has(Flags::UNEVICTABLE) {
            return;
        }
        self.lruvec_del(id, false);
        self.folios[id].clear(Flags::ACTIVE);
        self.lruvec_add(id, true);
        let n = self.folios[id].nr_pages() as i64;
        self.count_global(Counter::Pgrotated, n);
        let memcg = self.lruvecs[self.folios[id].lruvec()].memcg;
        self.memcgs.count(memcg, Counter::Pgrotated, n);
    }

    fn drain_deactivate_file(&mut self, id: FolioId) {
        let f = &self.folios[id];
        if f.has(Flags::UNEVICTABLE) || f.mapped() {
            return;
        }
        let (lruvec, n) = (f.lruvec(), f.nr_pages() as i64);
        let was_active = self.counts_as_active(id);
        self.lruvec_del(id, false);
        let f = &mut self.folios[id];
        f.clear(Flags::ACTIVE | Flags::REFERENCED);
        if f.any(Flags::DIRTY | Flags::WRITEBACK) {
            // After the insertion: the mark would place it among the younger generations.
            self.lruvec_add(id, false);
            self.folios[id].set(Flags::RECLAIM);
        } else {
            self.lruvec_add(id, true);
            self.count_global(Counter::Pgrotated, n);
        }
        if was_active {
            self.count(self.memcg_of(lruvec), Counter::Pgdeactivate, n);
        }
    }

    fn drain_deactivate(&mut self, id: FolioId) {
        let f = &self.folios[id];
        let mglru = self.is_mglru(f.lruvec());
        if f.has(Flags::UNEVICTABLE) || !(mglru || f.has(Flags::ACTIVE)) {
            return;
        }
        let (lruvec, n) = (f.lruvec(), f.nr_pages() as i64);
        self.lruvec_del(id, false);
        self.forget_use(id);
        self.lruvec_add(id, false);
        self.count(self.memcg_of(lruvec), Counter::Pgdeactivate, n);
    }

    fn drain_lazyfree(&mut self, id: FolioId) {
        if !self.can_lazyfree(id) {
            return;
        }
        let (lruvec, n) = (self.folios[id].lruvec(), self.folios[id].nr_pages() as i64);
        self.lruvec_del(id, false);
        self.forget_use(id);
        self.folios[id].clear(Flags::SWAPBACKED);
        self.lruvec_add(id, false);
        self.count(self.memcg_of(lruvec), Counter::Pglazyfree, n);
    }

    fn drain_activate(&mut self, id: FolioId) {
        let f = &self.folios[id];
        if f.any(Flags::ACTIVE | Flags::UNEVICTABLE) {
            return;
        }
        let (lruvec, n) = (f.lruvec(), f.nr_pages() as i64);
        self.lruvec_del(id, false);
        self.folios[id].set(Flags::ACTIVE);
        self.lruvec_add(id, false);
        self.count(self.memcg_of(lruvec), Counter::Pgactivate, n);
    }

    /// Clears what a use has left on the folio.
    fn forget_use(&mut self, id: FolioId) {
        let mglru = self.is_mglru(self.folios[id].lruvec());
        let w = self.folios[id].word_mut();
        w.clear(Flags::ACTIVE | Flags::REFERENCED);
        if mglru {
            clear_refs(w);
        }
    }

    fn is_mglru(&self, lruvec: LruvecId) -> bool {
        matches!(self.lruvecs[lruvec].lists, LruvecLists::MultiGen(_))
    }

    /// Active list, or one of the two youngest generations.
    fn counts_as_active(&self, id: FolioId) -> bool {
        let f = &self.folios[id];
        match &self.lruvecs[f.lruvec()].lists {
            LruvecLists::MultiGen(m) => f.word().gen().is_some_and(|g| m.is_active(g)),
            _ => f.has(Flags::ACTIVE),
        }
    }

    // ---------------------------------------------------------------- mlock

    /// A mapping locks the folio into memory.
    pub fn mlock(&mut self, cpu: u16, id: FolioId) {
        self.folios[id].set(Flags::MLOCKED);
        let op = if self.folios[id].has(Flags::LRU) {
            MlockOp::Lock
        } else {
            MlockOp::LockNew
        };
        self.mlock_push(cpu, id, op);
    }

    /// The last locking mapping is gone.
    pub fn munlock(&mut self, cpu: u16, id: FolioId) {
        self.mlock_push(cpu, id, MlockOp::Unlock);
    }

    fn mlock_push(&mut self, cpu: u16, id: FolioId, op: MlockOp) {
        self.folios[id].get(1);
        let large = self.folios[id].order() > 0;
        let waiting = self.batches.push_mlock(cpu, id, op);
        if large || waiting >= self.config().batch_size {
            self.drain_mlock(cpu);
        }
    }

    fn drain_mlock(&mut self, cpu: u16) {
        let entries = self.batches.take_mlock(cpu);
        let mut held = Relock(LruvecId::NONE);
        for &(id, op) in &entries {
            if op == MlockOp::Unlock {
                self.folios[id].clear(Flags::MLOCKED);
            }
            // On no list: the add batch or the isolating reclaimer will put it where it belongs.
            if !self.folios[id].test_clear(Flags::LRU) {
                continue;
            }
            let (lruvec, n) = (self.folios[id].lruvec(), self.folios[id].nr_pages() as i64);
            held.take(self, lruvec);
            let evictable = self.folios[id].evictable();
            let listed_unevictable = self.folios[id].has(Flags::UNEVICTABLE);
            if evictable && listed_unevictable {
                self.lruvec_del(id, false);
                self.folios[id].clear(Flags::UNEVICTABLE);
                self.lruvec_add(id, false);
                self.count(self.memcg_of(lruvec), Counter::UnevictableRescued, n);
            } else if !evictable && !listed_unevictable {
                self.lruvec_del(id, false);
                self.folios[id].clear(Flags::ACTIVE);
                self.folios[id].set(Flags::UNEVICTABLE);
                self.lruvec_add(id, false);
                self.count(self.memcg_of(lruvec), Counter::UnevictableCulled, n);
            }
            self.folios[id].set(Flags::LRU);
        }
        for (id, _) in entries {
            self.folio_put(id, 1);
        }
    }
}
