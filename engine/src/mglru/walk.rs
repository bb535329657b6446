//! Aging by page-table walks: the shared cursor, which tables to walk, promotion (`docs/rules/aging.md`).
//!
//! The engine decides what to walk and what to do with a young entry; the host owns the page tables.
//! On `Work::Walk` it goes over the address space it is given, in address order, a leaf table at a
//! time, and reports through the verbs below.
//!
//! A walk goes in stretches where the host has a clock. Between two of them anything may happen:
//! other reclaimers join the pass with the next address space of the shared cursor, or end it.
//! Sizes change with each young entry; nobody sees them inside a stretch, so that is the same as
//! flushing them at its end, and only the lock remains to be paid.

pub use super::mms::{Walk, YoungEntry};
use super::{EvictableTypes, MultiGen};
use crate::counters::Counter;
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, LruType, LruvecId, MemcgId, MmId, NodeId};
use crate::lruvec::LruvecLists;
use crate::reclaim::work::{Answer, Work};

/// One attempt to create a new youngest generation.
#[derive(Clone, Debug)]
pub(crate) struct AgingTask {
    lruvec: LruvecId,
    seq: u64,
    types: EvictableTypes,
    /// It walks every table of every address space.
    force: bool,
    /// The address space being walked now, and where the walk goes on.
    current: Option<(MmId, u64)>,
    /// Size changes not flushed yet.
    batched: u64,
    /// The host's walks take time.
    in_stretches: bool,
    /// This attempt has ended the pass and waits for the lru_lock.
    last: bool,
}

/// What an aging attempt needs next.
pub(crate) enum AgingStep {
    /// The host walks an address space; or it lets the time pass that the lru_lock takes to be had,
    /// while others see what has been done so far (preemption is off: the task keeps its CPU).
    Ask(Work),
    /// Over; true if this attempt created a generation.
    Done(bool),
}

impl AgingTask {
    /// Begins an attempt for the youngest generation `seq` that the caller saw.
    pub(crate) fn new(lruvec: LruvecId, seq: u64, types: EvictableTypes) -> Self {
        Self::by_command(lruvec, seq, types, false)
    }

    /// As a command asks for it. `force`: neither filters nor who has run since the last walk leave anything out.
    pub(crate) fn by_command(
        lruvec: LruvecId,
        seq: u64,
        types: EvictableTypes,
        force: bool,
    ) -> Self {
        Self {
            lruvec,
            seq,
            types,
            force,
            current: None,
            batched: 0,
            in_stretches: false,
            last: false,
        }
    }

    /// Continues after the host has walked what the previous step asked for.
    pub(crate) fn step(&mut self, eng: &mut Engine, answer: Option<Answer>) -> AgingStep {
        match answer {
            Some(Answer::Walked) => self.current = None,
            Some(Answer::Stretch { young, next }) => {
                if let Some(walk) = self.stretch(eng, young, next) {
                    return AgingStep::Ask(Work::Walk(walk));
                }
            }
            Some(other) => panic!("{other:?} does not answer a walk"),
            None => {
                if let Some((mm, at)) = self.current {
                    return AgingStep::Ask(Work::Walk(self.walk(eng, mm, at)));
                }
            }
        }
        self.next(eng)
    }

    /// A stretch is over. The next one of the same address space, unless it was the last or another
    /// walker has ended the pass.
    fn stretch(&mut self, eng: &mut Engine, young: u64, next: Option<u64>) -> Option<Walk> {
        self.in_stretches = true;
        self.batched += young;
        if self.batched > 0 && (next.is_none() || self.batched >= eng.walk_batch()) {
            self.batched = 0;
            eng.meter.lock(self.lruvec);
        }
        let (mm, _) = self.current.take().expect("a walk is under way");
        let at = next?;
        if eng.lruvecs[self.lruvec].gens().max_seq != self.seq {
            return None;
        }
        self.current = Some((mm, at));
        Some(self.walk(eng, mm, at))
    }

    /// The task that runs it is being killed. A pass that has ended gets its generation all the same: later
    /// callers are told that it is done, and would never age again.
    pub(crate) fn abandon(&mut self, eng: &mut Engine) {
        if std::mem::take(&mut self.last) {
            eng.gen_inc_max_seq(self.lruvec, self.seq, self.types, true);
        }
    }

    /// Takes the next address space, or ends the attempt.
    fn next(&mut self, eng: &mut Engine) -> AgingStep {
        if self.last {
            let made = eng.gen_inc_max_seq(self.lruvec, self.seq, self.types, true);
            return AgingStep::Done(made);
        }
        let walks = eng.switches().page_table_walk;
        let m = eng.lruvecs[self.lruvec].gens_mut();
        if self.seq <= m.walk.seq {
            return AgingStep::Done(false);
        }
        if !walks {
            m.walk.seq = self.seq;
            let made = eng.gen_inc_max_seq(self.lruvec, self.seq, self.types, false);
            return AgingStep::Done(made);
        }
        match self.next_mm(eng) {
            Some(mm) => {
                self.current = Some((mm, 0));
                AgingStep::Ask(Work::Walk(self.walk(eng, mm, 0)))
            }
            None if self.in_stretches => {
                // From here until it has the lock, others that want to age are told that it is done, and
                // see the old generations.
                self.last = true;
                eng.meter.lock(self.lruvec);
                AgingStep::Ask(Work::Spin)
            }
            None => {
                let made = eng.gen_inc_max_seq(self.lruvec, self.seq, self.types, false);
                AgingStep::Done(made)
            }
        }
    }

    fn walk(&self, eng: &Engine, mm: MmId, at: u64) -> Walk {
        Walk {
            mm,
            lruvec: self.lruvec,
            memcg: eng.memcg_of(self.lruvec),
            seq: self.seq,
            types: self.types,
            force: self.force,
            at,
        }
    }

    /// Picks the next address space of the pass; `None` ends the pass.
    fn next_mm(&mut self, eng: &mut Engine) -> Option<MmId> {
        let lv = &mut eng.lruvecs[self.lruvec];
        let (memcg, node) = (lv.memcg, lv.node);
        let m = lv.gens_mut();
        let begins = m.walk.cursor.is_none();
        let mut at = m.walk.cursor.unwrap_or(0);
        while let Some(mm) = eng.mms.nth_of(memcg, at) {
            at += 1;
            self.force |= eng.mms.added_since(mm, m.walk.known);
            if !self.force && !eng.mms.has_run(mm, node) {
                continue;
            }
            eng.mms.picked(mm, node);
            // Not if everything is skipped: the pass after that reads what is left of an older one.
            if begins {
                m.walk.filters.reset(self.seq + 1);
            }
            m.walk.cursor = Some(at);
            return Some(mm);
        }
        m.walk.cursor = None;
        m.walk.seq = self.seq;
        m.walk.known = eng.mms.known();
        None
    }
}

/// True if a table (or window) of `slots` entries with `young` accessed ones is worth walking next
/// time: on average one accessed entry for each cache line of entries.
#[inline]
pub fn suitable(slots: u64, young: u64, cacheline: u64) -> bool {
    young * (cacheline / 8).clamp(2, 8) >= slots
}

impl Engine {
    /// Registers an address space whose tasks belong to `memcg`. It counts as having run.
    pub fn mm_create(&mut self, memcg: MemcgId) -> MmId {
        self.mms.create(memcg)
    }

    /// The last task of an address space has exited and its page tables are gone.
    pub fn mm_destroy(&mut self, mm: MmId) {
        let Some((memcg, at)) = self.mms.destroy(mm) else {
            return;
        };
        for node in 0..self.config().nr_nodes {
            let lruvec = self.lruvec_id(memcg, NodeId(node));
            if let LruvecLists::MultiGen(m) = &mut self.lruvecs[lruvec].lists {
                if let Some(cursor) = m.walk.cursor.as_mut().filter(|c| **c > at) {
                    *cursor -= 1;
                }
            }
        }
    }

    /// A CPU has switched to a task of this address space.
    #[inline]
    pub fn mm_ran(&mut self, mm: MmId) {
        self.mms.ran(mm);
    }

    /// Young entries after which a stretch of a walk ends.
    #[inline]
    pub fn walk_batch(&self) -> u64 {
        self.config().scale.max_lru_batch
    }

    /// Should the host scan this leaf table? Never once another walker has made the new generation.
    /// `key` names the table for good (same table, same key).
    #[inline]
    pub fn walk_wants_table(&self, w: &Walk, key: u64) -> bool {
        let m = self.lruvecs[w.lruvec].gens();
        m.max_seq == w.seq && (w.force || m.walk.filters.hit(w.seq, key))
    }

    /// Is this folio one the walk looks for? Only then may the host clear its accessed bit.
    #[inline]
    pub fn walk_wants_folio(&self, w: &Walk, id: FolioId) -> bool {
        let f = &self.folios[id];
        let on_list = f.word().gen().is_some() || !self.rules.kernel.walks_on_lists;
        f.lruvec() == w.lruvec && w.types.contains(f.lru_type()) && on_list
    }

    /// The host cleared a young entry that maps `id`.
    pub fn walk_young(&mut self, w: &Walk, id: FolioId, entry: YoungEntry) {
        self.walk_dirty(id, entry.dirty);
        let youngest = self.lruvecs[w.lruvec].gens().max_seq;
        let [_, joins] = self.rules.kernel.executable_joins;
        let f = &mut self.folios[id];
        if joins && entry.exec && f.lru_type() == LruType::File {
            f.set(Flags::WORKINGSET);
        }
        self.gen_promote(id, MultiGen::slot(youngest));
    }

    /// A dirty entry makes a clean folio dirty, unless it is anonymous memory without swap.
    pub(crate) fn walk_dirty(&mut self, id: FolioId, pte_dirty: bool) {
        let f = &self.folios[id];
        let plain_anon = f.has(Flags::SWAPBACKED) && f.has(Flags::ANON) && !f.has(Flags::SWAPCACHE);
        if pte_dirty && !f.has(Flags::DIRTY) && !plain_anon {
            self.set_dirty(id);
        }
    }

    /// The host has scanned a leaf table of `slots` entries inside the mapping and found `young` of
    /// them accessed.
    pub fn walk_table_done(&mut self, w: &Walk, key: u64, slots: u64, young: u64) {
        self.memcgs.count(w.memcg, Counter::WalkPtes, slots as i64);
        if suitable(slots, young, self.config().cacheline) {
            self.lruvecs[w.lruvec]
                .gens_mut()
                .walk
                .filters
                .add(w.seq + 1, key);
        }
    }

    /// True if walks under this swappiness look at mappings of type `t`.
    pub fn walk_wants_type(&self, w: &Walk, t: LruType) -> bool {
        w.types.contains(t)
    }
}
