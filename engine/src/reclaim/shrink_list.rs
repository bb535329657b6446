//! A list of isolated folios on its way through (`docs/rules/shrink-list.md`): its state, the requests it makes, and how a
//! folio leaves it.
//!
//! It is worked through oldest first, one folio to its end before the next, because a look-around or a flush for one folio
//! changes what is found at the next.

use super::pageout_batch::PageoutBatch;
use super::scan_control::{ReclaimStat, ScanControl};
use super::split::SplitFor;
use super::work::{Answer, Decision, Freed, Work};
use crate::batch::BATCH_MAX;
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, MemcgId};
use crate::switches::DirtyFlush;
use std::hash::{Hash, Hasher};

/// Where the folio at hand stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum FolioStep {
    /// Take the next folio.
    Next,
    /// Step 8, waiting for the reverse map.
    Test,
    /// Step 10, waiting for a swap slot.
    Slot,
    /// Step 10, waiting for the host to move slots and mappings to the pieces.
    Split(SplitFor),
    /// Step 2, waiting for the unmap of a poisoned folio.
    Poisoned,
    /// Step 2: no translation leads to the poisoned folio any more.
    Drop,
    /// Step 12, waiting for the unmap.
    Unmap,
    /// Step 14, after the flush.
    Flushed,
    /// Step 14, waiting for the writer.
    Write,
    /// The dirty folios that wait are looked at again.
    Relock,
    /// The host has taken the freed folios out of their slots: others may run.
    Detached,
    /// Step 7, under writeback: the batch is freed before the wait.
    FreedBeforeWait,
    /// Step 7: ready to wait.
    Wait,
    /// Step 7, after the wait.
    Waited,
    /// The batch of freed folios is full: flush done.
    BatchFlushed,
    /// The host has dropped that batch.
    BatchFreed,
    /// The end of the list: flush done, last batch to free.
    EndFlushed,
    /// Nothing is left to do.
    End,
}

/// A list on its way through.
#[derive(Clone, Debug)]
pub(crate) struct ShrinkList {
    /// Folios to work on, oldest first.
    pub(crate) input: Vec<FolioId>,
    pub(super) next: usize,
    /// The last folios of the lists that are looked at next whose records have been brought into the CPU's cache. They may
    /// have left those lists since.
    ahead: [FolioId; 2],
    /// Survivors in the order in which they were decided.
    pub(crate) ret: Vec<FolioId>,
    /// What the current [`Work::Free`] is about.
    pub(crate) freed: Vec<Freed>,
    pub(super) free_ids: Vec<FolioId>,
    /// What became, in the current step, of folios that the host was asked to unmap.
    pub(crate) decided: Vec<Decision>,
    /// The folio at hand is one of those.
    pub(super) asked_to_unmap: bool,
    /// What the current [`Work::Split`] has made of the pages after the first.
    pub(crate) pieces: Vec<FolioId>,
    pub(crate) stat: ReclaimStat,
    pub(super) at: FolioStep,
    pub(super) folio: FolioId,
    pub(super) references_clean: bool,
    pub(super) flush_required: bool,
    pub(super) flush_writable: bool,
    pub(super) ignore_references: bool,
    /// Memcg whose limit is reclaimed: it keeps the shadows' clock.
    pub(super) target: Option<MemcgId>,
    /// A swap slot the host must take back before anything else.
    pub(super) free_slot: Option<(FolioId, u32)>,
    /// Dirty folios that share a flush.
    pub(super) batch: PageoutBatch,
    /// Where to go on after [`FolioStep::Detached`].
    pub(super) resume: FolioStep,
    /// A folio has been worked on since others last ran.
    pub(super) resched: bool,
    /// The host's last request came from this list, and it is not through.
    under_way: bool,
}

impl Default for ShrinkList {
    fn default() -> Self {
        Self {
            input: Vec::new(),
            next: 0,
            ahead: [FolioId::NONE; 2],
            ret: Vec::new(),
            freed: Vec::with_capacity(BATCH_MAX),
            free_ids: Vec::with_capacity(BATCH_MAX),
            decided: Vec::new(),
            asked_to_unmap: false,
            pieces: Vec::new(),
            stat: ReclaimStat::default(),
            at: FolioStep::End,
            folio: FolioId::NONE,
            references_clean: false,
            flush_required: false,
            flush_writable: false,
            ignore_references: false,
            target: None,
            free_slot: None,
            batch: PageoutBatch::default(),
            resume: FolioStep::Next,
            resched: false,
            under_way: false,
        }
    }
}

impl ShrinkList {
    /// Begins a list: `input` has been filled, oldest first.
    pub(crate) fn begin(&mut self, target: Option<MemcgId>, ignore_references: bool) {
        debug_assert!(self.at == FolioStep::End && self.freed.is_empty());
        self.next = 0;
        self.ahead = [FolioId::NONE; 2];
        self.ret.clear();
        self.batch.last = false;
        self.stat = ReclaimStat::default();
        self.at = FolioStep::Next;
        self.ignore_references = ignore_references;
        self.target = target;
    }

    /// The folios of this list have been taken from the end of another, which goes on with the first of `tails`; the second
    /// is the end of the list that is looked at in turn with it. The records behind both are brought into the CPU's cache, one
    /// with each folio: a walk of a list would wait for each of them.
    pub(crate) fn taken_before(&mut self, tails: [Option<FolioId>; 2]) {
        self.ahead = tails.map(|tail| tail.unwrap_or(FolioId::NONE));
    }

    /// The next request to the host. `None`: the list is done, survivors are in `ret`.
    pub(crate) fn step(
        &mut self,
        eng: &mut Engine,
        sc: &mut ScanControl,
        answer: &mut Option<Answer>,
    ) -> Option<Work> {
        let work = self.next_request(eng, sc, answer);
        self.under_way = work.is_some();
        if work.is_none() {
            self.freed.clear();
            self.input.clear();
            let activated: u64 = self.stat.activate.iter().sum();
            eng.count_global(Counter::Pgactivate, activated as i64);
        }
        work
    }

    /// [`Self::step`] if the last request came from here: whoever has begun the list has nothing to say until it is
    /// through. `None`: ask them.
    #[inline]
    pub(crate) fn go_on(
        &mut self,
        eng: &mut Engine,
        sc: &mut ScanControl,
        answer: &mut Option<Answer>,
    ) -> Option<Work> {
        match self.under_way {
            true => self.next_request(eng, sc, answer),
            false => None,
        }
    }

    /// `None`: there is none left.
    fn next_request(
        &mut self,
        eng: &mut Engine,
        sc: &mut ScanControl,
        answer: &mut Option<Answer>,
    ) -> Option<Work> {
        loop {
            if !self.flush_required {
                self.dirty_again(eng);
            }
            if let Some((folio, slot)) = self.free_slot.take() {
                return Some(Work::FreeSwap { folio, slot });
            }
            let work = match self.at {
                FolioStep::Next => {
                    if let Some(id) = self.batch.locked.pop_front() {
                        self.folio = id;
                        self.asked_to_unmap = true;
                        self.pageout(eng)
                    } else if let Some(id) = self.batch.before_wait.take() {
                        self.folio = id;
                        self.wait(eng)
                    } else if eng.config().resched_in_lists
                        && std::mem::take(&mut self.resched)
                        && eng.switches().batched_dirty_flush != DirtyFlush::Locked
                    {
                        self.let_others_run()
                    } else if let Some(&id) = self.input.get(self.next) {
                        self.resched = true;
                        self.next += 1;
                        self.folio = id;
                        self.ahead = self.ahead.map(|id| eng.folios.prefetch_newer(id));
                        self.enter(eng, sc)
                    } else {
                        self.finish(eng)
                    }
                }
                FolioStep::Relock => self.relock(eng),
                FolioStep::Detached => {
                    self.freed.clear();
                    self.at = self.resume;
                    Some(Work::Yield)
                }
                FolioStep::FreedBeforeWait => {
                    self.at = FolioStep::Wait;
                    self.release(eng).then_some(Work::Free)
                }
                FolioStep::Wait => {
                    self.freed.clear();
                    self.at = FolioStep::Waited;
                    Some(Work::WaitWriteback { folio: self.folio })
                }
                FolioStep::Waited => self.enter(eng, sc),
                FolioStep::Test => match answer.take() {
                    Some(Answer::References(r)) => self.referenced(eng, sc, r),
                    other => return Some(self.again(other, self.test_work(eng, sc))),
                },
                FolioStep::Slot => match answer.take() {
                    Some(Answer::Slot(slot)) => self.slot_given(eng, sc, slot),
                    other => return Some(self.again(other, Work::AllocSwap { folio: self.folio })),
                },
                FolioStep::Split(why) => match answer.take() {
                    Some(Answer::Split(done)) => self.split_over(eng, sc, why, done),
                    other => return Some(self.again(other, Work::Split { folio: self.folio })),
                },
                FolioStep::Poisoned => match answer.take() {
                    Some(Answer::Unmapped { deferred, .. }) => {
                        self.flush_required |= deferred;
                        self.at = FolioStep::Drop;
                        self.flush(eng, Counter::UnmapFlushEnd)
                    }
                    other => return Some(self.again(other, Work::Unmap { folio: self.folio })),
                },
                FolioStep::Drop => {
                    eng.folios[self.folio].clear(Flags::LOCKED);
                    eng.folio_put(self.folio, 1);
                    self.decide(false);
                    self.at = FolioStep::Next;
                    None
                }
                FolioStep::Unmap => match answer.take() {
                    Some(Answer::Unmapped { deferred, writable }) => {
                        self.flush_required |= deferred;
                        self.flush_writable |= deferred && writable;
                        self.unmapped(eng, sc)
                    }
                    other => return Some(self.again(other, Work::Unmap { folio: self.folio })),
                },
                FolioStep::Flushed => self.pageout(eng),
                FolioStep::Write => match answer.take() {
                    Some(Answer::Written(w)) => self.written(eng, w),
                    other => return Some(self.again(other, Work::Write { folio: self.folio })),
                },
                FolioStep::BatchFlushed => {
                    self.release(eng);
                    self.at = FolioStep::BatchFreed;
                    Some(Work::Free)
                }
                FolioStep::BatchFreed => {
                    self.freed.clear();
                    self.at = FolioStep::Next;
                    None
                }
                FolioStep::EndFlushed => {
                    self.at = FolioStep::End;
                    self.release(eng).then_some(Work::Free)
                }
                FolioStep::End => return None,
            };
            if work.is_some() {
                return work;
            }
        }
    }

    /// The task is killed while it waits for a folio's writeback or lets others run: everything
    /// isolated goes back. The host has flushed what was deferred.
    pub(crate) fn abandon(&mut self, eng: &mut Engine, cpu: u16) {
        if self.at == FolioStep::End {
            return;
        }
        let resting = self.freed.is_empty() && self.pieces.is_empty();
        debug_assert!(resting, "killed at {:?}", self.at);
        let mut back = std::mem::take(&mut self.ret);
        if self.at == FolioStep::Waited {
            back.push(self.folio);
        }
        if eng.switches().batched_dirty_flush != DirtyFlush::Posted {
            let waiting = &self.batch.waiting;
            self.batch.unsettled.extend_from_slice(waiting);
        }
        self.dirty_again(eng);
        back.append(&mut self.batch.waiting);
        back.extend_from_slice(&self.input[self.next..]);
        self.release(eng);
        if let Some(&id) = back.first() {
            let lruvec = eng.folios[id].lruvec();
            eng.put_back(cpu, lruvec, &back);
        }
        self.input.clear();
        (self.flush_required, self.flush_writable) = (false, false);
        self.under_way = false;
        self.at = FolioStep::End;
    }

    /// Hashes all that decides what happens next. Sums and shadows are results, and no part of it.
    pub(super) fn key(&self, name: &dyn Fn(FolioId) -> u8, key: &mut impl Hasher) {
        // Named one by one, so that a new field is put on one side or the other.
        let Self {
            input,
            next,
            ahead: _,
            ret,
            freed,
            free_ids,
            decided: _,
            asked_to_unmap,
            pieces,
            stat: _,
            at,
            folio,
            references_clean,
            flush_required,
            flush_writable,
            ignore_references,
            target: _,
            free_slot,
            batch,
            resume,
            resched,
            under_way: _,
        } = self;
        let PageoutBatch {
            waiting,
            locked,
            unsettled,
            before_wait,
            last,
        } = batch;
        (at, resume, asked_to_unmap, references_clean, resched, last).hash(key);
        (flush_required, flush_writable, ignore_references).hash(key);
        (free_slot.is_some(), before_wait.map(name)).hash(key);
        // Between two folios the last one is forgotten.
        let at_hand = !matches!(at, FolioStep::Next | FolioStep::Relock | FolioStep::End);
        at_hand.then(|| name(*folio)).hash(key);
        let (locked, more) = locked.as_slices();
        debug_assert!(more.is_empty(), "taken from the front only");
        for ids in [
            &input[*next..],
            ret,
            free_ids,
            pieces,
            waiting,
            locked,
            unsettled,
        ] {
            key.write_usize(ids.len());
            ids.iter().for_each(|&id| key.write_u8(name(id)));
        }
        for f in freed {
            (f.index, f.owned, f.swap).hash(key);
        }
    }

    /// An unanswered request is repeated.
    pub(super) fn again(&self, other: Option<Answer>, work: Work) -> Work {
        assert!(other.is_none(), "answer {other:?} does not fit {work:?}");
        work
    }

    // ------------------------------------------------------------ exits of one folio

    /// The folio at hand is freed or stays.
    pub(super) fn decide(&mut self, freed: bool) {
        if std::mem::take(&mut self.asked_to_unmap) {
            let folio = self.folio;
            self.decided.push(Decision { folio, freed });
        }
    }

    /// The folio at hand is not mapped. If that is because it has stayed earlier in this step, and has come round again
    /// since, the host has had no time to map it: it is as if it had just been unmapped, and what becomes of it now is
    /// the decision.
    pub(super) fn undecide(&mut self) {
        let folio = self.folio;
        if let Some(at) = self.decided.iter().position(|d| d.folio == folio) {
            self.decided.remove(at);
            self.asked_to_unmap = true;
        }
    }

    /// Back on the list, never locked by us.
    pub(super) fn keep_unlocked(&mut self) -> Option<Work> {
        self.ret.push(self.folio);
        self.decide(false);
        self.at = FolioStep::Next;
        None
    }

    /// Unlock, back on the list.
    pub(super) fn keep(&mut self, eng: &mut Engine) -> Option<Work> {
        eng.meter.kept += 1;
        eng.folios[self.folio].clear(Flags::LOCKED);
        self.keep_unlocked()
    }

    /// Activates, then keeps (`docs/rules/shrink-list.md#steps`).
    pub(super) fn activate(&mut self, eng: &mut Engine) -> Option<Work> {
        let f = &eng.folios[self.folio];
        let (lruvec, n, t) = (f.lruvec(), f.nr_pages(), f.lru_type());
        let memcg = eng.memcg_of(lruvec);
        let mlocked = f.has(Flags::MLOCKED);
        if let Some(slot) = f.swap_slot() {
            let full = eng
                .memcgs
                .swap_full(memcg, eng.swap_free(), eng.swap_total());
            // A slot under I/O cannot be taken back, nor one that page tables refer to since the
            // unmap.
            // Those of a large folio stay: page tables may refer to some of them.
            let whole = f.order() == 0 && f.mapped();
            if (full || mlocked) && whole && !f.has(Flags::WRITEBACK) {
                eng.leave_swap_cache(self.folio);
                eng.folios[self.folio].set(Flags::DIRTY);
                self.free_slot = Some((self.folio, slot));
            }
        }
        if !mlocked {
            eng.folios[self.folio].set(Flags::ACTIVE);
            self.stat.activate[t.idx()] += n;
            eng.memcgs.count(memcg, Counter::Pgactivate, n as i64);
        }
        self.keep(eng)
    }
}
