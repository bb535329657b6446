//! Answering requests from the scripts; running tasks, single lists and single lruvecs.

use super::{Host, Script, WriteAs};
use crate::engine::Engine;
use crate::folio::Flags;
use crate::ids::{FolioId, NodeId};
use crate::mglru::look_around::window;
use crate::mglru::mms::{Walk, YoungEntry};
use crate::mglru::LookAround;
use crate::reclaim::cx::Cx;
use crate::reclaim::lruvec_loop::LruvecLoop;
use crate::reclaim::scan_control::ReclaimStat;
use crate::reclaim::shrink_list::ShrinkList;
use crate::reclaim::{Answer, Freed, Outcome, ReclaimTask, References, ScanControl, Work, Written};
use crate::switches::DirtyFlush;
use std::collections::BTreeSet;

/// Slots of a leaf table.
const TABLE: u64 = 512;
/// Steps after which a task counts as endless.
const ENDLESS: u64 = 20_000_000;

/// Result of one list.
pub(crate) struct Shrunk {
    /// Its sums.
    pub(crate) stat: ReclaimStat,
    /// Survivors in the order in which they were decided; they are back on their lists.
    pub(crate) kept: Vec<FolioId>,
    /// Those of them that were activated.
    pub(crate) active: Vec<FolioId>,
}

/// Folios that a task has asked to unmap and not decided on.
#[derive(Default)]
pub(crate) struct Undecided(BTreeSet<FolioId>);

impl Undecided {
    /// After each step: every folio is decided on once, what is freed is among what is freed, and
    /// nothing stays open while the task rests.
    pub(crate) fn follow(&mut self, eng: &Engine, task: &ReclaimTask, work: Work) {
        let batches = eng.switches().batched_dirty_flush != DirtyFlush::Off;
        for d in task.decided() {
            // Folios that nothing maps may have waited for the same flush: nobody was asked.
            let asked = self.0.remove(&d.folio);
            assert!(asked || batches, "{d:?} was not asked for, or twice");
            assert!(!d.freed || !task.freed().is_empty());
        }
        for d in task.decided().iter().filter(|d| !d.freed) {
            // The host takes the decision for the last word and maps the page again.
            let kept = eng.folio(d.folio).owner();
            let freed = task.freed().iter().any(|f| (f.object, f.index) == kept);
            assert!(!freed, "{d:?} has been freed in the same step");
            assert_ne!(work, Work::Write { folio: d.folio }, "it is at hand again");
        }
        match work {
            Work::Unmap { folio } => {
                self.0.insert(folio);
            }
            Work::Done | Work::Throttle { .. } | Work::WaitWriteback { .. } | Work::Walk(_) => {
                assert!(self.0.is_empty(), "{:?} at {work:?}", self.0);
            }
            Work::Test { .. } if !batches => {
                assert!(self.0.is_empty(), "{:?} at {work:?}", self.0);
            }
            _ => {}
        }
    }
}

impl Host {
    /// Limit reclaim of `nr` pages to its end.
    pub(crate) fn limit(&mut self, nr: u64) -> Outcome {
        let mut task = ReclaimTask::limit(self.memcg, nr, 0, NodeId(0));
        self.run(&mut task)
    }

    /// Reclaim as `sc` says, to its end.
    pub(crate) fn reclaim(&mut self, sc: ScanControl) -> Outcome {
        let mut task = ReclaimTask::try_to_free(sc, 0, NodeId(0));
        self.run(&mut task)
    }

    /// Steps a task to its end.
    pub(crate) fn run(&mut self, task: &mut ReclaimTask) -> Outcome {
        let mut open = Undecided::default();
        for _ in 0..ENDLESS {
            let work = task.step(&mut self.eng);
            open.follow(&self.eng, task, work);
            if work == Work::Done {
                return task.outcome();
            }
            if let Some(answer) = self.serve(work, task.freed(), task.pieces()) {
                task.answer(answer);
            }
        }
        panic!("the task does not end: {task:?}");
    }

    /// One visit of the memcg's lruvec at `sc.priority`. True: the memcg should rotate.
    pub(crate) fn visit(&mut self, sc: &mut ScanControl) -> bool {
        let mut list = ShrinkList::default();
        let mut answer = None;
        let mut visit = LruvecLoop::new(&mut self.eng, sc, self.lruvec, 0);
        for _ in 0..ENDLESS {
            let mut cx = Cx {
                sc,
                list: &mut list,
                answer: &mut answer,
                cpu: 0,
            };
            match visit.step(&mut self.eng, &mut cx) {
                None => return visit.rotate(),
                Some(work) => answer = self.serve(work, &list.freed, &list.pieces),
            }
        }
        panic!("the visit does not end: {visit:?}");
    }

    /// Isolates folios from their lists and sends them through the 17-step path, first one first.
    /// Folios that are on no list are taken as they are (the caller holds a reference).
    pub(crate) fn shrink(&mut self, sc: &mut ScanControl, ids: &[FolioId]) -> Shrunk {
        self.shrink_while(sc, ids, |_| {})
    }

    /// As [`Self::shrink`]; something else happens wherever the reclaimer lets others run.
    pub(crate) fn shrink_while(
        &mut self,
        sc: &mut ScanControl,
        ids: &[FolioId],
        mut meanwhile: impl FnMut(&mut Self),
    ) -> Shrunk {
        self.shrink_at(sc, ids, |h, work| {
            if work == Work::Yield {
                meanwhile(h);
            }
        })
    }

    /// [`Self::shrink_while`] with something that happens at each request, before it is served.
    pub(crate) fn shrink_at(
        &mut self,
        sc: &mut ScanControl,
        ids: &[FolioId],
        mut meanwhile: impl FnMut(&mut Self, Work),
    ) -> Shrunk {
        let mut list = ShrinkList::default();
        for &id in ids {
            if self.has(id, Flags::LRU) {
                self.eng.folios[id].clear(Flags::LRU);
                self.eng.folio_get(id, 1);
                self.eng.lruvec_del(id, true);
            }
            list.input.push(id);
        }
        list.begin(sc.target, false);
        let mut answer = None;
        while let Some(work) = list.step(&mut self.eng, sc, &mut answer) {
            meanwhile(self, work);
            answer = self.serve(work, &list.freed, &list.pieces);
        }
        let kept = std::mem::take(&mut list.ret);
        let active = kept
            .iter()
            .copied()
            .filter(|&id| self.has(id, Flags::ACTIVE))
            .collect();
        self.eng.put_back(0, self.lruvec, &kept);
        Shrunk {
            stat: list.stat,
            kept,
            active,
        }
    }

    /// A request of `nr` pages at the memcg's limit.
    pub(crate) fn request(&self, nr: u64) -> ScanControl {
        ScanControl::new(nr, Some(self.memcg))
    }

    /// Does what a request asks for. `freed`: what a `Free` is about, `pieces`: a `Split`.
    pub(crate) fn serve(
        &mut self,
        work: Work,
        freed: &[Freed],
        pieces: &[FolioId],
    ) -> Option<Answer> {
        match work {
            Work::Test {
                folio, look_around, ..
            } => Some(self.test(folio, look_around)),
            Work::Walk(w) => Some(self.walk(&w)),
            Work::Unmap { folio } => Some(self.unmap(folio)),
            Work::Write { folio } => Some(self.write(folio)),
            Work::AllocSwap { folio } => Some(self.alloc_swap(folio)),
            Work::Victim { .. } => Some(Answer::Victim(None)),
            Work::FlushTlb { for_write } => {
                self.seen.flushes += 1;
                self.seen.flushes_for_write += u64::from(for_write);
                None
            }
            Work::Split { folio } => Some(Answer::Split(self.split(folio, pieces))),
            Work::FreeSwap { folio, slot } => {
                self.give_slots(slot, self.folio(folio).nr_pages());
                None
            }
            Work::WaitWriteback { folio } => {
                self.seen.waits += 1;
                self.in_flight.retain(|&f| f != folio);
                self.eng.writeback_end(0, folio);
                None
            }
            Work::Detach => {
                self.detach(freed);
                None
            }
            Work::Free => {
                self.detach(freed);
                let n = std::mem::take(&mut self.detached);
                self.seen.free_batches.push(n);
                None
            }
            Work::WakeFlushers => {
                self.seen.wakes += 1;
                None
            }
            Work::Throttle { reason, ticks, .. } => {
                self.seen.throttles.push((reason, ticks));
                None
            }
            Work::WakeThrottled { .. } => {
                self.seen.throttle_wakes += 1;
                None
            }
            Work::OomKill => {
                self.seen.oom_kills += 1;
                None
            }
            Work::Yield | Work::Spin => {
                self.seen.yields += 1;
                None
            }
            Work::Balance { .. } | Work::Done => None,
        }
    }

    fn detach(&mut self, freed: &[Freed]) {
        self.detached += freed.len();
        for f in freed {
            let known = self.alive.remove(&f.index).is_some();
            assert!(known || !f.owned, "freed twice: {f:?}");
            self.seen.freed.push(*f);
        }
    }

    fn test(&mut self, id: FolioId, look_around: Option<LookAround>) -> Answer {
        self.seen.tests.push(id);
        let s = self.script(id);
        let accessed = std::mem::take(&mut s.accessed);
        let r = References {
            accessed,
            locked: s.locked,
            unknown: s.unknown,
            exec: s.exec,
        };
        if let Some(la) = look_around.filter(|_| accessed > 0) {
            self.look_around(id, &la);
        }
        Answer::References(r)
    }

    fn look_around(&mut self, victim: FolioId, la: &LookAround) {
        let entry = u64::from(self.folio(victim).owner().1);
        let table = entry / TABLE;
        let (from, to) = window(entry % TABLE, 0, TABLE);
        let mut young = 1;
        for at in (table * TABLE + from)..(table * TABLE + to) {
            if at == entry {
                continue;
            }
            if let Some(id) = self
                .young_at(at)
                .filter(|&id| self.eng.look_around_wants(la, id))
            {
                young += 1;
                self.script(id).accessed = 0;
                let dirty = self.script(id).pte_dirty;
                self.eng.look_around_young(la, 0, id, dirty);
            }
        }
        self.eng.look_around_done(la, table, to - from, young);
    }

    /// The mapped folio of a page-table entry with an accessed bit.
    fn young_at(&self, entry: u64) -> Option<FolioId> {
        let id = *self.alive.get(&(entry as u32))?;
        (self.folio(id).mapped() && self.scripts[&id].accessed > 0).then_some(id)
    }

    fn walk(&mut self, w: &Walk) -> Answer {
        self.seen.walks += 1;
        for table in 0..u64::from(self.next_index).div_ceil(TABLE) {
            if !self.eng.walk_wants_table(w, table) {
                continue;
            }
            let mut young = 0;
            for entry in table * TABLE..(table + 1) * TABLE {
                let wanted = |id: &FolioId| self.eng.walk_wants_folio(w, *id);
                if let Some(id) = self.young_at(entry).filter(wanted) {
                    young += 1;
                    self.script(id).accessed = 0;
                    let dirty = self.script(id).pte_dirty;
                    let entry = YoungEntry { dirty, exec: false };
                    self.eng.walk_young(w, id, entry);
                }
            }
            self.eng.walk_table_done(w, table, TABLE, young);
        }
        if w.mm == self.mm {
            // The task was off its CPU in between, as in a replay.
            self.eng.mm_ran(w.mm);
        }
        Answer::Walked
    }

    fn unmap(&mut self, id: FolioId) -> Answer {
        self.seen.unmaps += 1;
        let s = *self.script(id);
        let (deferred, writable) = (!s.uncached, s.pte_dirty);
        if s.keeps_mapping {
            return Answer::Unmapped {
                deferred: false,
                writable: false,
            };
        }
        let f = self.folio(id);
        let lazyfree = f.has(Flags::ANON) && !f.has(Flags::SWAPBACKED);
        if lazyfree {
            // `docs/rules/shrink-list.md#lazily-freed-memory`: the entry was cleared first, then looked at.
            let untouched = f.refcount() == 1 + f.mapcount() && !f.has(Flags::DIRTY);
            if !untouched || s.pte_dirty {
                self.eng.folio_set(id, Flags::SWAPBACKED);
                return Answer::Unmapped { deferred, writable };
            }
        }
        if s.pte_dirty {
            self.eng.set_dirty(id);
        }
        while self.folio(id).mapped() {
            self.eng.folio_unmap(id);
        }
        Answer::Unmapped { deferred, writable }
    }

    fn write(&mut self, id: FolioId) -> Answer {
        self.seen.writes.push(id);
        let large = self.folio(id).nr_pages() > 1;
        Answer::Written(match self.script(id).write {
            WriteAs::NoRoom if large => Written::NoRoom,
            WriteAs::InFlight | WriteAs::NoRoom => {
                self.eng.writeback_start(id);
                self.in_flight.push(id);
                Written::Submitted
            }
            WriteAs::Finished => Written::Submitted,
            WriteAs::Activate => Written::Activate,
            WriteAs::Failed => Written::Failed,
        })
    }

    fn alloc_swap(&mut self, id: FolioId) -> Answer {
        let n = self.folio(id).nr_pages();
        let (free, total) = (self.eng.swap_free(), self.eng.swap_total());
        if free < n || n > self.swap_run {
            return Answer::Slot(None);
        }
        self.eng.set_swap(free - n, total);
        let slot = self.next_slot;
        self.next_slot += n as u32;
        Answer::Slot(Some(slot))
    }

    /// Each mapping of the folio maps all of its pages that are still present.
    fn split(&mut self, id: FolioId, pieces: &[FolioId]) -> bool {
        self.seen.splits.push(id);
        let s = *self.script(id);
        if s.refuses_split {
            return false;
        }
        let maps = self.folio(id).mapcount();
        let anon = self.folio(id).has(Flags::ANON);
        let present = s.present.unwrap_or(usize::MAX);
        self.script(id).present = None;
        for (i, &piece) in pieces.iter().enumerate() {
            self.scripts.insert(piece, Script { present: None, ..s });
            if i + 1 < present {
                for _ in 0..maps {
                    self.eng.folio_map(piece);
                }
            }
            if i + 1 < present || !anon {
                self.alive.insert(self.folio(piece).owner().1, piece);
            }
        }
        true
    }
}
